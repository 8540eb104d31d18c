//! Receive queues by policy, at a user's device: flows, NIC and policy from the command line, the plan, and what brings it to the driver.

mod accounting;
pub mod device;
pub mod input;
pub mod ntuple;
pub mod planning;
pub mod watch;

pub use accounting::conservation;
