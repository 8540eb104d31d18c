//! Checks of the workspace itself. Each is a plain function over text, so that a test can show that it finds what it is
//! for; `tests/house.rs` runs them over the files of the repository.
#![forbid(unsafe_code)]

pub mod circles;
pub mod documents;
pub mod literals;
pub mod manifests;
pub mod mask;
pub mod prose;
pub mod skips;
pub mod sources;
pub mod unsafe_code;
pub mod workspace;

/// One thing that breaks a rule: where, and what.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Finding {
    /// The line, from 1; 0 for a whole file.
    pub line: usize,
    /// What is wrong, and what to do.
    pub what: String,
}

impl Finding {
    /// A finding in a line, counted from 1.
    pub fn at(line: usize, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}
