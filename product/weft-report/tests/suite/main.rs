//! The crate's tests of its public interface, in one program.

mod demo;
mod fixture;
mod lag;
mod page;
mod schema;
mod schemas;
mod statistics;
mod tune;
