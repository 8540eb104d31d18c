//! Scenarios of the simulator: reading them, running them with several seeds, and recording the outcomes.

mod examples;
mod sweep;

pub use examples::{example, examples};
pub use sweep::sweep;
pub use weft_campaign::document::{SeededRun, conservation};

use crate::catalogue::overlay::{self, KeyedValue, OverlayError};
use std::path::{Path, PathBuf};
use thiserror::Error;
use weft_campaign::document;
use weft_report::sim::SimReport;
use weft_run::{host_facts, tenant_files};
use weft_sim::scenario::{self, Scenario};
use weft_text::LocatedError;

/// The reason that a scenario cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScenarioReadError {
    /// The file cannot be read.
    #[error("cannot read {path}: {error}")]
    File {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// A setting does not fit the file.
    #[error(transparent)]
    Setting(#[from] OverlayError),
    /// The file is invalid.
    #[error(transparent)]
    Scenario(#[from] LocatedError),
}

/// Reads a scenario file with settings applied. Cost files, policies and tenants' files are found relative to the scenario.
///
/// # Errors
/// Fails for an unreadable file, a setting that does not fit, or an invalid scenario: the error has the place.
pub fn read(path: &Path, settings: &[KeyedValue]) -> Result<Scenario, ScenarioReadError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| ScenarioReadError::File { path: path.to_owned(), error })?;
    let folder = path.parent().map(Path::to_owned).unwrap_or_default();
    let mut files = |name: &str| tenant_files::read(&folder.join(name));
    let name = path.display().to_string();
    if settings.is_empty() {
        return Ok(scenario::read(&text, &name, &mut files)?);
    }
    // With settings, places are those in the resulting document.
    let mut document: toml::Table = match text.parse() {
        Ok(document) => document,
        Err(_) => return Ok(scenario::read(&text, &name, &mut files)?),
    };
    // Sources describe the file's values, not the settings'.
    document.remove("source");
    for setting in settings {
        overlay::apply(&mut document, &setting.path, setting.value.clone())?;
    }
    Ok(scenario::read(&document.to_string(), &format!("{name} with settings"), &mut files)?)
}

/// Returns the document of a scenario's runs on this host; `None` without a run. `wall_s` is the time of all runs in seconds.
pub fn report(scenario: &Scenario, runs: &[SeededRun], wall_s: f64) -> Option<SimReport> {
    document::report(scenario, runs, wall_s, host_facts::detect())
}
