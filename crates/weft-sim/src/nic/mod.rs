//! The multiqueue NIC.

pub mod scheduler;
