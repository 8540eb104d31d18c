//! Two choices: the less occupied of two queues selected by the flow's hash.

use super::hash::scale;
use super::{FlowFacts, Occupancy, QueueAssignment, occupancy_of};
use weft_units::TxQueueId;

/// The power of two choices (Mitzenmacher 2001): a second candidate reduces the greatest occupancy far below that of a single
/// hash, and only two queues are examined regardless of their number.
#[derive(Clone, Copy, Default, Debug)]
pub struct TwoChoices;

impl QueueAssignment for TwoChoices {
    fn assign(&mut self, flow: &FlowFacts, allowed: &[TxQueueId], occupancy: &[Occupancy]) -> TxQueueId {
        let first = scale(flow.hash, allowed.len());
        // Scaling uses a hash's high bits; the reversed hash selects the other queue among the remaining ones by its low bits.
        let other = scale(flow.hash.reverse_bits(), allowed.len().saturating_sub(1));
        let second = if other < first { other } else { other + 1 };
        let candidates = [first, second].into_iter().filter_map(|at| allowed.get(at).copied());
        // For equal occupancies, `min_by_key` returns the first.
        candidates.min_by_key(|queue| occupancy_of(*queue, occupancy).weight).unwrap_or_default()
    }

    fn is_dynamic(&self) -> bool {
        true
    }
}
