//! Dynamic queue assignment: the least occupied queue.

use super::{FlowFacts, Occupancy, QueueAssignment, occupancy_of};
use weft_units::TxQueueId;

/// Titan's dynamic queue assignment (TR, section 4.1). It scans queues as Titan's kernel does (`net/core/dev.c` and
/// `lib/dynamic_queue_assignment.c` of its fork): the first empty queue in the given order, otherwise the first queue of the
/// least weight.
#[derive(Clone, Copy, Default, Debug)]
pub struct LeastOccupied;

impl QueueAssignment for LeastOccupied {
    fn assign(&mut self, _: &FlowFacts, allowed: &[TxQueueId], occupancy: &[Occupancy]) -> TxQueueId {
        let mut best = allowed.first().copied().unwrap_or_default();
        let mut least = u64::MAX;
        for &queue in allowed {
            let weight = occupancy_of(queue, occupancy).weight;
            if weight < least {
                (best, least) = (queue, weight);
            }
            if least == 0 {
                break;
            }
        }
        best
    }

    fn is_dynamic(&self) -> bool {
        true
    }
}
