//! Models of NICs as texts: `docs/nic-models.md` describes the format.

mod check;
mod cursor;
mod fuzz;
mod items;
mod nodes;
mod tables;
#[cfg(test)]
mod tests;
mod write;

pub use fuzz::fuzz;
pub use write::write;

use super::Nic;
use crate::nearest::printable;
use crate::predicate::PredicateError;
use thiserror::Error;

/// Why a model cannot be used: the first thing that is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{file}:{line}:{column}: error: {what}\n  hint: {hint}")]
pub struct ModelError {
    /// The file's name, as the caller gave it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong, in one line.
    pub what: String,
    /// What to do about it, in one line.
    pub hint: String,
}

/// What is wrong before its line is known: the same as for predicates.
type Fault = PredicateError;

/// Reads a model. `file` is its name for messages.
///
/// # Errors
/// The first thing that is wrong: the text does not follow the format, a name is not known, or the graph has a part that no packet
/// can reach, a cycle, or numbers that do not fit each other.
pub fn read(text: &str, file: &str) -> Result<Nic, ModelError> {
    items::read(text).map_err(|fault| locate(fault, text, file))
}

fn locate(fault: Fault, text: &str, file: &str) -> ModelError {
    let mut at = fault.at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    let before = &text[..at];
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    ModelError {
        file: printable(file),
        line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
        column: before[line_start..].chars().count() + 1,
        what: fault.what,
        hint: fault.hint,
    }
}
