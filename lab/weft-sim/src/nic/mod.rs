//! The scheduling of a multiqueue NIC.

pub mod scheduler;
