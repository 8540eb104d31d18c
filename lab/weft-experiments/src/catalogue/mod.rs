//! Files of experiments that are part of the program, and changes to them from the command line.

pub(crate) mod files;

pub use weft_sim::overlay;
