//! The crate's tests of its public interface, in one program.

mod chain;
mod daemon;
mod fuzz;
mod plugin;
