//! The text format of NIC models, described in `docs/nic-models.md`.

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
use weft_text::LocatedError;

/// Reads a model. `file` names the text in messages.
///
/// # Errors
/// The first error: a violation of the format, an unknown name, an unreachable part of the graph, a cycle, or inconsistent
/// numbers.
pub fn read(text: &str, file: &str) -> Result<Nic, LocatedError> {
    items::read(text).map_err(|error| error.locate(file, text))
}
