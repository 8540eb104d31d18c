//! Experiments: one description, run on real packets or in virtual time, and compared with what was published.

pub mod replay;
