//! Discrete-event models that drive the same engine as the real data path.
#![forbid(unsafe_code)]

pub mod engine;
pub mod link;

pub use engine::EngineRefusal;
pub use link::{Departure, Dequeue, Framing, Scheduler, VirtualLink};
