//! Two choices: the less occupied of two queues that the flow's hash names.

use super::hash::scale;
use super::{FlowFacts, Occupancy, QueueAssignment, occupancy_of};
use weft_units::TxQueueId;

/// The power of two choices (Mitzenmacher 2001): a second candidate makes the fullest queue far less full than one hash does, and only
/// two queues are looked at however many there are.
#[derive(Clone, Copy, Default, Debug)]
pub struct TwoChoices;

impl QueueAssignment for TwoChoices {
    fn assign(&mut self, flow: &FlowFacts, allowed: &[TxQueueId], occupancy: &[Occupancy]) -> TxQueueId {
        let first = scale(flow.hash, allowed.len());
        // Scaling uses a hash's high bits; reversed, its low bits choose the other queue, out of those that are left.
        let other = scale(flow.hash.reverse_bits(), allowed.len().saturating_sub(1));
        let second = if other < first { other } else { other + 1 };
        let candidates = [first, second].into_iter().filter_map(|at| allowed.get(at).copied());
        // Of two that are equal, `min_by_key` takes the first.
        candidates.min_by_key(|queue| occupancy_of(*queue, occupancy).weight).unwrap_or_default()
    }

    fn is_dynamic(&self) -> bool {
        true
    }
}
