//! The crate's tests of its public interface, in one program.

mod document;
mod fixture;
mod schema;
mod schemas;
mod statistics;
