//! The crate's tests of its public interface, in one program.

mod demo;
#[path = "../../../../product/weft-facts/tests/suite/document.rs"]
mod document;
mod fixture;
mod lag;
mod page;
#[path = "../../../../product/weft-facts/tests/suite/schema.rs"]
mod schema;
mod schemas;
mod tune;
