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
use weft_text::LocatedError;

/// Reads a model. `file` is its name for messages.
///
/// # Errors
/// The first thing that is wrong: the text does not follow the format, a name is not known, or the graph has a part that no packet
/// can reach, a cycle, or numbers that do not fit each other.
pub fn read(text: &str, file: &str) -> Result<Nic, LocatedError> {
    items::read(text).map_err(|error| error.locate(file, text))
}
