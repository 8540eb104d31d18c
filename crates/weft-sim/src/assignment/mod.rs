//! Queue assignment: which transmit queue a flow's segments take.
//!
//! A new one is a file with one type that implements [`QueueAssignment`], and a line in [`build`].

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

/// The names that [`build`] knows.
pub const NAMES: &[&str] = &["hash", "dqa", "overflow", "round-robin", "two-choices"];

/// The queue assignment of that name, for one host; none if there is no such.
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

/// What is known of a flow that needs a queue.
#[derive(Clone, Copy, Debug)]
pub struct FlowFacts {
    /// Which.
    pub flow: StreamId,
    /// Hash of its addresses and ports, fixed for the flow (`skb_get_hash`).
    pub hash: u32,
    /// Its weight.
    pub weight: u32,
    /// The queue that it had before, where it had one.
    pub before: Option<TxQueueId>,
    /// The core that sends.
    pub core: CoreId,
}

/// How full a queue is, qdisc and ring together.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Occupancy {
    /// Sum of the weights of the flows that have something outstanding (Titan, ATC 2017, section 3.1).
    pub weight: u64,
    /// Flows that have something outstanding.
    pub flows: u32,
    /// Outstanding bytes.
    pub bytes: Bytes,
}

/// A way to assign flows to queues.
pub trait QueueAssignment: Send {
    /// The queue for the segments of a flow of which nothing is outstanding, out of `allowed` (never empty: the queues of the
    /// core's XPS pool, or all). `occupancy` is that of all queues, by [`TxQueueId`].
    fn assign(&mut self, flow: &FlowFacts, allowed: &[TxQueueId], occupancy: &[Occupancy]) -> TxQueueId;

    /// Whether a flow is assigned anew whenever nothing of it is outstanding (dynamic), or once and for all (hash).
    fn is_dynamic(&self) -> bool;
}

/// How full a queue is; a queue beyond the table is empty.
fn occupancy_of(queue: TxQueueId, occupancy: &[Occupancy]) -> Occupancy {
    occupancy.get(queue.index()).copied().unwrap_or_default()
}
