//! The crate's tests of its public interface, in one program.

mod common;
mod overlap;
mod search;
