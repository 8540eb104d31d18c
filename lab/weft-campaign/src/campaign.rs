//! A grid with its scenario: from a combination to what is simulated, and to the identity of its result.

use crate::figures::KIND;
use crate::grid::{self, Combination, Grid};
use crate::key::{Identity, ScenarioHash};
use crate::store::ResultStoreError;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use thiserror::Error;
use weft_policy::FileError;
use weft_sim::MODEL_VERSION;
use weft_sim::overlay;
use weft_sim::run::RunError;
use weft_sim::scenario::{self, Scenario};
use weft_text::LocatedError;

/// Returns the text of a file that a scenario names.
pub type ReadFile = fn(&Path) -> Result<String, FileError>;

/// The reason that a campaign does not continue.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CampaignError {
    /// The grid or the scenario cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// The grid or the scenario is invalid.
    #[error(transparent)]
    Text(#[from] LocatedError),
    /// A run is refused.
    #[error("with {parameters}: {error}")]
    Run {
        /// Its parameters, as `KEY=VALUE`.
        parameters: String,
        /// The reason.
        error: RunError,
    },
    /// The store does not work.
    #[error(transparent)]
    Store(#[from] ResultStoreError),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}; give a smaller --threads")]
    Thread(std::io::Error),
}

/// A grid with its scenario.
#[derive(Clone, Debug)]
pub struct Campaign {
    grid: Grid,
    /// The scenario's file as TOML, without its sources: they describe the file's values, not the parameters.
    document: toml::Table,
    path: PathBuf,
    files: ReadFile,
}

/// A combination, ready to be simulated.
#[derive(Clone, Debug)]
pub struct PreparedCombination {
    /// The scenario.
    pub scenario: Scenario,
    hash: ScenarioHash,
    parameters: Map<String, Value>,
}

impl PreparedCombination {
    /// Returns the identity of the result with a seed.
    pub fn identity(&self, seed: u64) -> Identity {
        Identity {
            kind: KIND.to_owned(),
            model: MODEL_VERSION,
            scenario: self.hash.clone(),
            parameters: self.parameters.clone(),
            seed,
        }
    }
}

impl Campaign {
    /// Reads a grid file and its scenario. `files` reads what the scenario names.
    ///
    /// # Errors
    /// If a file cannot be read or is invalid; the error has the place.
    pub fn read(path: &Path, files: ReadFile) -> Result<Self, CampaignError> {
        let given = std::fs::read_to_string(path)
            .map_err(|error| CampaignError::Read { path: path.to_owned(), error })?;
        Self::parse(&given, path, files)
    }

    /// Reads the text of a grid that is, or could be, at a path: its scenario is found from there, and errors name it.
    ///
    /// # Errors
    /// As those of [`Self::read`].
    pub fn parse(text: &str, path: &Path, files: ReadFile) -> Result<Self, CampaignError> {
        let grid = grid::read(text, &path.display().to_string())?;
        let scenario = path.parent().unwrap_or(Path::new("")).join(&grid.scenario);
        let given = std::fs::read_to_string(&scenario).map_err(|error| {
            let what = format!("the scenario {} cannot be read: {error}", scenario.display());
            grid.error_at_scenario(what, "its path counts from the grid file's folder")
        })?;
        let name = scenario.display().to_string();
        let folder = scenario.parent().map(Path::to_owned).unwrap_or_default();
        scenario::read(&given, &name, &mut |file| files(&folder.join(file)))?;
        let mut document: toml::Table = given.parse().map_err(|error: toml::de::Error| {
            grid.error_at_scenario(format!("the scenario is not TOML: {}", error.message()), "correct it")
        })?;
        document.remove("source");
        Ok(Self { grid, document, path: scenario, files })
    }

    /// Returns the grid.
    pub const fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns what is simulated with a combination.
    ///
    /// # Errors
    /// If the parameters make no scenario; the error names the axis, if one alone is to blame.
    pub fn prepare(&self, combination: &Combination) -> Result<PreparedCombination, LocatedError> {
        let parameters: Vec<_> = self.grid.parameters(combination).collect();
        let scenario = self.scenario(&parameters).map_err(|reason| {
            let told = told(&parameters);
            let alone = |at: &usize| self.scenario(&parameters[*at..=*at]).is_err();
            let hint = "correct the axis' key or values, or leave the combination out with `where`";
            match (0..parameters.len()).find(alone) {
                Some(axis) => self.grid.error_at_axis(axis, format!("with {told}: {reason}"), hint),
                None => self.grid.error_at_scenario(format!("with {told}: {reason}"), hint),
            }
        })?;
        let json = |(key, value): &(&str, &toml::Value)| ((*key).to_owned(), json(value));
        let parameters = parameters.iter().map(json).collect();
        Ok(PreparedCombination { hash: ScenarioHash::of(&scenario), scenario, parameters })
    }

    /// Reads the scenario with parameters.
    fn scenario(&self, parameters: &[(&str, &toml::Value)]) -> Result<Scenario, String> {
        let mut document = self.document.clone();
        for (key, value) in parameters {
            overlay::apply(&mut document, key, (*value).clone()).map_err(|error| error.to_string())?;
        }
        let folder = self.path.parent().map(Path::to_owned).unwrap_or_default();
        let name = self.path.display().to_string();
        scenario::read(&document.to_string(), &name, &mut |file| (self.files)(&folder.join(file))).map_err(
            |error| {
                if error.hint.is_empty() { error.what } else { format!("{}; {}", error.what, error.hint) }
            },
        )
    }

    /// Returns a combination's parameters as `KEY=VALUE`.
    pub fn describe(&self, combination: &Combination) -> String {
        told(&self.grid.parameters(combination).collect::<Vec<_>>())
    }
}

fn told(parameters: &[(&str, &toml::Value)]) -> String {
    if parameters.is_empty() {
        return "no parameters".to_owned();
    }
    let told = parameters.iter().map(|(key, value)| match value.as_str() {
        Some(text) => format!("{key}={text}"),
        None => format!("{key}={value}"),
    });
    told.collect::<Vec<_>>().join(" ")
}

/// Returns a value of TOML as JSON.
fn json(value: &toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Value::from(*number),
        toml::Value::Boolean(flag) => Value::from(*flag),
        toml::Value::Datetime(date) => Value::from(date.to_string()),
        toml::Value::Array(items) => Value::Array(items.iter().map(json).collect()),
        toml::Value::Table(table) => {
            Value::Object(table.iter().map(|(key, value)| (key.clone(), json(value))).collect())
        }
    }
}
