//! Live views for terminals.

pub(crate) mod demo;
pub(crate) mod meter;
pub(crate) mod run;
pub(crate) mod screen;
pub(crate) mod top;
