//! The crate's tests of its public interface, in one program.

mod protocol;
mod session;
