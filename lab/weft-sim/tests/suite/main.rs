//! The crate's tests of its public interface, in one program.

mod assignment;
mod byte_queue_limit;
mod congestion;
mod drops;
pub mod guide;
mod model_version;
mod network;
mod nic_policy;
mod nic_scheduler;
mod qdisc;
mod qdisc_rules;
mod scenario;
mod trace;
mod way;
mod workers;
mod world;
