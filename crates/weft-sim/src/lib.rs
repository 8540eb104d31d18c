//! Discrete-event models that drive the same engine as the real data path.
#![forbid(unsafe_code)]

pub mod assignment;
pub mod congestion;
pub mod cost;
pub mod engine;
pub mod link;
pub mod network;
pub mod nic;
pub mod outcome;
pub mod qdisc;
pub mod run;
pub mod scenario;
pub mod segment;

pub use engine::EngineRefusal;
pub use link::{Departure, Dequeue, Framing, Scheduler, VirtualLink};
