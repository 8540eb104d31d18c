//! Scenarios of the simulator: reading them, running them with several seeds, and the record of what came out.

mod examples;
mod record;
mod sweep;

pub use examples::{example, examples};
pub use record::{Run, conservation, report};
pub use sweep::sweep;

use crate::catalogue::overlay::{self, OverlayError, Setting};
use std::path::{Path, PathBuf};
use thiserror::Error;
use weft_sim::scenario::{self, Scenario};
use weft_text::LocatedError;

/// Why a scenario cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file.
    #[error("cannot read {path}: {error}")]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system answered.
        error: std::io::Error,
    },
    /// A setting that does not fit the file.
    #[error(transparent)]
    Setting(#[from] OverlayError),
    /// What the file says.
    #[error(transparent)]
    Scenario(#[from] LocatedError),
}

/// Reads a scenario file with settings put over it. Cost files are found beside the scenario.
///
/// # Errors
/// The file cannot be read, a setting does not fit, or the scenario is wrong: the error has the place.
pub fn read(path: &Path, settings: &[Setting]) -> Result<Scenario, ReadError> {
    let text =
        std::fs::read_to_string(path).map_err(|error| ReadError::File { path: path.to_owned(), error })?;
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let mut cost_file = |name: &str| {
        std::fs::read_to_string(folder.join(name))
            .map_err(|error| format!("{}: {error}", folder.join(name).display()))
    };
    let name = path.display().to_string();
    if settings.is_empty() {
        return Ok(scenario::read(&text, &name, &mut cost_file)?);
    }
    // With settings the places are those of the document that they make.
    let mut document: toml::Table = match text.parse() {
        Ok(document) => document,
        Err(_) => return Ok(scenario::read(&text, &name, &mut cost_file)?),
    };
    // Sources are of what the file says, and not of what is put over it.
    document.remove("source");
    for setting in settings {
        overlay::apply(&mut document, &setting.path, setting.value.clone())?;
    }
    Ok(scenario::read(&document.to_string(), &format!("{name} with settings"), &mut cost_file)?)
}
