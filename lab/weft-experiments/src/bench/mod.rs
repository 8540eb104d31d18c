//! Benchmarks: each a ratio to a peer that is measured in the same run.

pub mod assignment;
pub mod cost;
pub mod engine;
pub mod policy;
pub mod port;
pub mod port_workers;
pub mod roofline;
pub mod sim;
pub mod workers;
