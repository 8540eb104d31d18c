//! The crate's tests of its public interface, in one program.

mod cgroups;
mod changes;
mod common;
mod gate;
mod kernel;
mod port_limits;
mod ports;
mod sojourn;
