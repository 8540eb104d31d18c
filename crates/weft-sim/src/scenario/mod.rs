//! What is simulated: hosts, network, flows and probes, as data.

pub mod config;

pub use config::*;
