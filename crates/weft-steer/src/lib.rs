//! Flow predicates and NIC models: which packets a filter takes, and where the NIC sends them.
#![forbid(unsafe_code)]

pub mod algebra;
pub mod matcher;
pub mod prefix;

pub use algebra::Intersection;
pub use matcher::{Match, PortRange, Prefix};
pub use prefix::ParsePrefixError;
