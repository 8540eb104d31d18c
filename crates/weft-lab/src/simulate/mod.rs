//! Scenarios of the simulator: reading them, running them with several seeds, and the record of what came out.

mod sweep;

pub use sweep::sweep;
