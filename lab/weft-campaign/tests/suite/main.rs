//! The crate's tests of its public interface, in one program.

mod fleet;
mod grid;
mod store;
