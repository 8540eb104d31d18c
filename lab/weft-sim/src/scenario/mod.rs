//! Scenarios: hosts, network, flows and probes as data, and their files (docs/scenario-files.md).

mod check;
mod choices;
pub mod config;
mod costs;
mod defaults;
mod document;
mod files;
mod fuzz;
mod keys;
mod kinds;
mod read;
mod sources;
mod tables;
mod write;

pub use config::*;
pub(crate) use files::{Files, INLINE};
#[doc(hidden)]
pub use fuzz::fuzz_scenario;
pub use read::read;
pub use sources::{FittedColumn, Origin, SourceEntry, SourcedFile, sources};
#[doc(hidden)]
pub use tables::{KnownKey, known_keys};
pub use write::write;

use crate::cost::Costs;
use weft_text::LocatedError;

impl Costs {
    /// Reads a cost file: a table per operation with nanoseconds by category, and `[contention]`. Missing values are zero.
    /// `[processor]` has a factor on all of them. `file` names the text in errors.
    ///
    /// # Errors
    /// The first error, with its place: the text is not TOML, a name is unknown, a number is negative or missing, or a cost has
    /// no source.
    pub fn read(text: &str, file: &str) -> Result<Self, LocatedError> {
        costs::read(text, file)
    }
}
