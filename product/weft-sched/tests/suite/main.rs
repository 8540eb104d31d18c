//! The crate's tests of its public interface, in one program.

mod behaviour;
mod change;
mod corpus;
mod many;
mod natives;
mod queues;
mod reference;
mod slow;
#[path = "../../src/testing.rs"]
mod testing;
mod weight_updates;
mod worker_threads;

// For `testing`, which is also a part of the crate.
use weft_sched::{Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, NodeSpec, Program};
