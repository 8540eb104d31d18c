//! The policy language: text to a checked DAG to a program for the engine.
#![forbid(unsafe_code)]

pub mod compiled;

pub use compiled::{ClassInfo, CompiledPolicy, Rule};
