//! Queue assignment: the choice of a flow's transmit queue.
//!
//! To add one, write a file with a type that implements [`QueueAssignment`], and a line in [`build`].

pub mod hash;
pub mod least_occupied;
pub mod overflow;
pub mod round_robin;
pub mod two_choices;

use crate::ids::{CoreId, StreamId};
use weft_units::{Bytes, TxQueueId};

pub use hash::Hash;
pub use least_occupied::LeastOccupied;
pub use overflow::Overflow;
pub use round_robin::RoundRobin;
pub use two_choices::TwoChoices;

/// The names known to [`build`].
pub const NAMES: &[&str] = &["hash", "dqa", "overflow", "round-robin", "two-choices"];

/// Returns the queue assignment with a name, for one host; `None` for an unknown name.
pub fn build(name: &str) -> Option<Box<dyn QueueAssignment>> {
    match name {
        "hash" => Some(Box::new(Hash)),
        "dqa" => Some(Box::new(LeastOccupied)),
        "overflow" => Some(Box::new(Overflow)),
        "round-robin" => Some(Box::new(RoundRobin::default())),
        "two-choices" => Some(Box::new(TwoChoices)),
        _ => None,
    }
}

/// The properties of a flow that needs a queue.
#[derive(Clone, Copy, Debug)]
pub struct FlowFacts {
    /// The flow's stream.
    pub flow: StreamId,
    /// Hash of its addresses and ports, fixed for the flow (`skb_get_hash`).
    pub hash: u32,
    /// Its weight.
    pub weight: u32,
    /// The previous queue, if any.
    pub before: Option<TxQueueId>,
    /// The sending core.
    pub core: CoreId,
}

/// The occupancy of a queue, qdisc and ring together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Occupancy {
    /// Sum of the weights of active flows (Titan, ATC 2017, section 3.1).
    pub weight: u64,
    /// Number of flows with outstanding segments.
    pub flows: u32,
    /// Outstanding bytes.
    pub bytes: Bytes,
}

/// A method of assigning flows to queues.
pub trait QueueAssignment: Send {
    /// Returns the queue for the segments of a flow without outstanding segments. `allowed` is never empty: the queues of the
    /// core's XPS pool, or all queues. `occupancy` covers all queues, by [`TxQueueId`].
    fn assign(&mut self, flow: &FlowFacts, allowed: &[TxQueueId], occupancy: &[Occupancy]) -> TxQueueId;

    /// Whether a flow is assigned again after its outstanding segments have left (dynamic), or only once (hash).
    fn is_dynamic(&self) -> bool;
}

/// Returns the occupancy of a queue; a queue beyond the table is empty.
fn occupancy_of(queue: TxQueueId, occupancy: &[Occupancy]) -> Occupancy {
    occupancy.get(queue.index()).copied().unwrap_or_default()
}
