//! Discrete-event models of hosts, NICs and networks, driven by the same engine as the real data path.
//!
//! | module | contents |
//! |---|---|
//! | [`run`], [`outcome`] | running a scenario, and its result |
//! | [`scenario`], [`overlay`] | scenarios as data and as files, and single values set in a file |
//! | `world`, `host` | a run's events, and the parts of a simulated host |
//! | [`assignment`], [`congestion`], [`qdisc`], [`nic`] | replaceable algorithms: one type each, listed in a `build` function |
//! | [`network`] | links, switches and routes |
//! | [`trace`] | the events of a run for observers, as CSV or pcap |
//! | [`engine_load`] | programs of the engine alone, and closed loops over them |
//! | [`workers`] | several workers of the engine with one policy |
#![forbid(unsafe_code)]

mod accounting;
mod address;
pub mod assignment;
pub mod byte_queue_limit;
pub mod congestion;
pub mod cost;
pub mod engine_load;
mod event;
pub mod event_queue;
mod host;
pub mod ids;
mod measure;
pub mod network;
pub mod nic;
pub mod outcome;
pub mod overlay;
mod packet;
mod policy;
pub mod qdisc;
mod random;
pub mod run;
mod run_error;
pub mod scenario;
pub mod segment;
pub mod trace;
pub mod workers;
mod world;

/// The version of the model. Outcomes of one version are comparable, and stored ones are not made again; a change of the outcome of any
/// scenario is a new version. Held by `tests/suite/model_version.rs`.
pub const MODEL_VERSION: u32 = 2;
