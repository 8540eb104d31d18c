//! Dynamic queue assignment (Titan TR, section 4.1): a flow of which nothing is outstanding takes the queue of least weight.
//!
//! As Titan's kernel does (lib/dynamic_queue_assignment.c), queues are looked at in the order of their numbers, the first empty one is
//! taken at once, and of equal ones the first.

use super::{FlowFacts, Occupancy, QueueAssignment};
use weft_units::QueueId;

/// The queue of least weight.
#[derive(Clone, Copy, Default, Debug)]
pub struct LeastOccupied;

impl QueueAssignment for LeastOccupied {
    fn assign(&mut self, _: &FlowFacts, allowed: &[QueueId], occupancy: &[Occupancy]) -> QueueId {
        let mut best = allowed[0];
        for &queue in allowed {
            let weight = occupancy[queue.index()].weight;
            if weight < occupancy[best.index()].weight {
                best = queue;
            }
            if weight == 0 {
                return queue;
            }
        }
        best
    }

    fn is_dynamic(&self) -> bool {
        true
    }
}
