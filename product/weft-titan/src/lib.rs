//! Queue assignment on multiqueue devices: Titan's dynamic queue assignment, queue weights and segment sizes (Stephens
//! et al., ATC 2017) on an unmodified kernel.
//!
//! [`page`] is the memory shared by the eBPF programs, the software NIC and this process.

pub mod accounting;
pub mod device;
pub mod driver_sync;
pub mod error;
pub mod flow_word;
pub mod host_users;
mod inspection;
pub mod kernel_support;
pub mod layout;
pub mod match_table;
pub mod page;
pub mod programs;
mod segments;
pub mod settings;
mod stale_pins;
pub mod state;
pub mod status;
pub mod tracing_check;
mod undo;
pub mod weights;

#[cfg(test)]
mod layout_tests;
