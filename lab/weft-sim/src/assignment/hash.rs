//! Assignment by hash: a flow's queue is drawn once.

use super::{FlowFacts, Occupancy, QueueAssignment};
use weft_units::TxQueueId;

/// The default of Linux without XPS and without a driver's own queue assignment: the flow's hash, scaled to the number of queues
/// (`skb_tx_hash`). Several flows can share one queue while others are empty.
#[derive(Clone, Copy, Default, Debug)]
pub struct Hash;

/// Scales a hash to `0..n` without a division: `reciprocal_scale` in `include/linux/kernel.h`. Returns 0 if `n` is 0.
pub const fn scale(hash: u32, n: usize) -> usize {
    ((hash as u64).saturating_mul(n as u64) >> 32) as usize
}

impl QueueAssignment for Hash {
    fn assign(&mut self, flow: &FlowFacts, allowed: &[TxQueueId], _: &[Occupancy]) -> TxQueueId {
        allowed.get(scale(flow.hash, allowed.len())).copied().unwrap_or_default()
    }

    fn is_dynamic(&self) -> bool {
        false
    }
}
