//! Checks of the workspace itself. Each check is a plain function over text, so that a unit test can show that it finds
//! violations. `tests/house.rs` runs the checks over the files of the repository.
#![forbid(unsafe_code)]

pub mod circles;
pub mod counters;
pub mod documents;
pub mod errors;
pub mod literals;
pub mod manifests;
pub mod mask;
pub mod prose;
pub mod skips;
pub mod sources;
pub mod types;
pub mod unsafe_code;
pub mod workspace;

/// A violation of a rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// The line, from 1; 0 for a whole file.
    pub line: usize,
    /// The violation and its remedy.
    pub what: String,
}

impl Finding {
    /// A violation in a line, counted from 1.
    pub fn at(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}
