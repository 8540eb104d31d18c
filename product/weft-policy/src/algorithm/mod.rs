//! User-defined algorithms: from their text to programs for the engine.
//!
//! An algorithm orders the children of a node, a shaper says from when one may send, a dropper drops or marks packets. Their
//! text is in docs/algorithms.md. The steps:
//!
//! 1. `read`: the syntax tree of an algorithm becomes its model (`model`), with the places of everything in the text.
//! 2. `check`: names become fields, parameters and inputs; units are checked (`types`, `inputs`); the statements of each part become one
//!    straight-line program of `weft-rank`, in which `if` is a selection between two values.
//! 3. `uses`: an algorithm at a node or a leaf, with the arguments of each child. A policy's own algorithms come before those of
//!    [`library`](crate::library), whose texts pass the same two steps.
//!
//! These rules hold:
//!
//! - An algorithm without an error has a program for each of its parts, and the programs have passed the checks of `weft-rank`.
//! - There are no loops, calls and recursion in the language, so every program ends after at most 256 operations.
//! - A quotient's divisor is never 0: its type excludes it, or `or` states what replaces 0.
//! - A quantity's unit is part of its type; only equal units meet.
//! - One mistake is one error. What cannot be checked because of it is left alone.

mod check;
pub(crate) mod inputs;
pub(crate) mod model;
mod ranks;
pub(crate) mod read;
pub(crate) mod types;
pub(crate) mod uses;

pub use check::{CheckedAlgorithm, CheckedField, CheckedParameter};
pub use types::Type;
pub use uses::{Place, algorithms, shipped_algorithm};
