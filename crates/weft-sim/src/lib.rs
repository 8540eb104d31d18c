//! Discrete-event models of hosts, NICs and networks, driven by the same engine as the real data path.
//!
//! | module | contents |
//! |---|---|
//! | [`run`], [`outcome`] | running a scenario, and its result |
//! | [`scenario`] | scenarios as data and as files |
//! | `world`, `host` | a run's events, and the parts of a simulated host |
//! | [`assignment`], [`congestion`], [`qdisc`], [`nic`] | replaceable algorithms: one file each, listed in a `build` function |
//! | [`network`] | links, switches and routes |
//! | [`link`], [`engine`] | a single link in virtual time, scheduled by the engine |
//! | [`trace`] | the events of a run for observers, as CSV or pcap |
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
mod policy;
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
