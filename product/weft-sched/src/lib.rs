//! The scheduling engine: policy tree, PIFOs and the one global shaping queue. No I/O and no clock.
//!
//! * [`Program`] is the interface to the policy compiler: a tree of nodes over leaves, lanes and limits.
//! * [`PolicyTree`] schedules flows whose packets are stored elsewhere: flows take turns and are charged the bytes they
//!   sent.
//! * [`PacketScheduler`] also stores the packets, as descriptors.
//! * [`Custom`] is a user-defined algorithm at a node or a leaf; the module `script` has its semantics.
//! * [`QueueScheduler`] is the scheduler of a multiqueue NIC. It has queues and weights, and no policy.
//! * [`workers`] lets several schedulers, each in a separate thread, share one policy.
//!
//! The engine is a state machine. Time is an argument; a future event is returned as the time of the next call.
//! It does not allocate once all flows are added.
#![deny(unsafe_code)]

pub mod fluid;
pub mod guarantee;
pub mod packets;
pub mod program;
pub mod queues;
pub mod tree;
pub mod workers;

mod entry;
mod leaf;
mod limit;
mod node;
mod order;
mod pifo;
mod prefetch;
mod runs;
mod script;
#[cfg(test)]
mod testing;
mod validate;
mod virtual_time;
mod wheel;
mod winner;

pub use packets::{
    Arrival, BurstEnd, Departure, Dequeue, Descriptor, EnqueueError, LaneCounters, PacketScheduler,
    PreparedPackets,
};
// The laboratory's floor under the engine's cost prefetches as the engine does.
#[doc(hidden)]
pub use prefetch::prefetch;
pub use program::{
    Child, Custom, Discipline, HeadUse, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, Program,
};
pub use queues::{QueueScheduler, WeightUpdates};
pub use script::leaf::LeafVerdict;
pub use tree::{
    ChangeError, Changed, FlowError, InvariantError, Next, Place, PolicyTree, Prepared, QueuePosition,
    RateError, RefusedChange, StaleTurn, TreeCounters, Turn,
};
pub use validate::ProgramError;
