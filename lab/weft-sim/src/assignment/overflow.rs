//! Overflow assignment: one queue takes all flows that find no empty queue.

use super::{FlowFacts, Occupancy, QueueAssignment, occupancy_of};
use weft_units::TxQueueId;

/// `overflowq` of Titan's kernel: the first queue without flows in the given order, otherwise the last queue. Every queue except
/// the last then has at most one flow.
#[derive(Clone, Copy, Default, Debug)]
pub struct Overflow;

impl QueueAssignment for Overflow {
    fn assign(&mut self, _: &FlowFacts, allowed: &[TxQueueId], occupancy: &[Occupancy]) -> TxQueueId {
        let empty = allowed.iter().find(|queue| occupancy_of(**queue, occupancy).flows == 0);
        empty.or(allowed.last()).copied().unwrap_or_default()
    }

    fn is_dynamic(&self) -> bool {
        true
    }
}
