//! The live view of the demo.

pub(crate) mod demo;
pub(crate) mod meter;
