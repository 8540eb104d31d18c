//! Round-robin assignment: each new flow gets the next queue.

use super::{FlowFacts, Occupancy, QueueAssignment};
use weft_units::TxQueueId;

/// Each new flow gets the queue after that of the previous flow, and keeps it. Flows with equal lifetimes are spread evenly,
/// regardless of their hashes. With several pools of queues (XPS), the pools share one counter.
#[derive(Clone, Copy, Default, Debug)]
pub struct RoundRobin {
    assigned: usize,
}

impl QueueAssignment for RoundRobin {
    fn assign(&mut self, _: &FlowFacts, allowed: &[TxQueueId], _: &[Occupancy]) -> TxQueueId {
        let at = self.assigned % allowed.len().max(1);
        self.assigned = self.assigned.wrapping_add(1);
        allowed.get(at).copied().unwrap_or_default()
    }

    fn is_dynamic(&self) -> bool {
        false
    }
}
