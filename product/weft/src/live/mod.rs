//! Live views for terminals.

pub(crate) mod run;
pub(crate) mod top;
