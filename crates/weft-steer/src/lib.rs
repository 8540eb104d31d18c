//! Flow predicates and NIC models: which packets a filter takes, and where the NIC sends them.
#![forbid(unsafe_code)]

pub mod matcher;

pub use matcher::{Match, PortRange, Prefix};
