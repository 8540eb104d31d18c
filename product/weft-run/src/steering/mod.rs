//! Receive steering at a user's device: input from the command line, the plan, and its application to the driver.

mod accounting;
pub mod device;
pub mod input;
pub mod ntuple;
pub mod planning;
pub mod watch;

pub use accounting::conservation;
