//! Discrete-event models that drive the same engine as the real data path.
#![forbid(unsafe_code)]

mod accounting;
mod address;
pub mod assignment;
pub mod byte_queue_limit;
pub mod congestion;
pub mod cost;
pub mod engine;
mod event;
pub mod event_queue;
mod host;
pub mod ids;
pub mod link;
mod link_transmitter;
mod measure;
pub mod network;
pub mod nic;
pub mod outcome;
mod packet;
pub mod qdisc;
mod random;
pub mod run;
mod run_error;
pub mod scenario;
pub mod segment;
pub mod trace;
mod world;

pub use engine::EngineRefusal;
pub use link::{Departure, Dequeue, Framing, Scheduler, VirtualLink};
