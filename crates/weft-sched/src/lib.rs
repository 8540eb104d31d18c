//! The scheduling engine: policy tree, PIFOs and the one global shaping queue. No I/O, no clock of its own.
#![forbid(unsafe_code)]

pub mod program;

pub use program::{Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, Program};
