//! Overflow assignment: one queue takes what finds no empty one.

use super::{FlowFacts, Occupancy, QueueAssignment, occupancy_of};
use weft_units::TxQueueId;

/// `overflowq` of Titan's kernel: in the order given, the first queue without flows; if there is none, the last queue. All but the last
/// then have one flow each.
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
