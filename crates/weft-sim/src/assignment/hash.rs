//! By hash, as Linux does without XPS or with several queues in a pool: `reciprocal_scale` in `skb_tx_hash`.

use super::{FlowFacts, Occupancy, QueueAssignment};
use weft_units::QueueId;

/// Each flow has one queue for good.
#[derive(Clone, Copy, Default, Debug)]
pub struct Hash;

impl QueueAssignment for Hash {
    fn assign(&mut self, flow: &FlowFacts, allowed: &[QueueId], _: &[Occupancy]) -> QueueId {
        let index = (u64::from(flow.hash) * allowed.len() as u64) >> 32;
        allowed[index as usize]
    }

    fn is_dynamic(&self) -> bool {
        false
    }
}
