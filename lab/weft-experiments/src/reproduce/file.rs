//! The files of experiments.

use super::catalogue;
use super::claim::Null;
use crate::catalogue::overlay;
use serde::Deserialize;
use std::collections::BTreeMap;
use thiserror::Error;
use toml::{Table, Value};
use weft_sim::scenario::{SourcedFile, sources};

/// The reason that an experiment's files cannot be used. They are part of the program, so a failure is a defect; a
/// test finds it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ExperimentFileError {
    /// The file is missing.
    #[error("{0} is not among the files of the experiments")]
    Missing(String),
    /// The file is invalid.
    #[error("{file}: {reason}")]
    Invalid {
        /// The file's name.
        file: String,
        /// The reason, in words.
        reason: String,
    },
}

/// An experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ExperimentFile {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) source: String,
    /// A parameter file: base scenario, presets and configurations that several experiments share.
    pub(super) parameters: String,
    /// The parameter file's preset.
    pub(super) preset: Option<String>,
    /// Rows, in the paper's order: names of configurations.
    pub(super) rows: Vec<String>,
    /// Values of the number that the experiment varies besides the configuration; [`Self::flows_key`] is set to it.
    pub(super) flows: Vec<u32>,
    /// The scenario's key for that number; without it the number is only a label.
    #[serde(default)]
    pub(super) flows_key: Option<String>,
    /// Flows between all pairs of hosts in place of the scenario's; the number of hosts is the varied number.
    #[serde(default)]
    pub(super) all_to_all: Option<AllToAll>,
    /// Runs that the paper averages; the band is that of a mean of this many runs.
    pub(super) runs: u32,
    /// Whether the paper shows the best of its runs and not their mean.
    #[serde(default)]
    pub(super) best: bool,
    /// Default number of seeds, for experiments with long runs.
    #[serde(default)]
    pub(super) seeds: Option<u32>,
    pub(super) columns: Vec<Column>,
    /// Tables of `published/titan.csv` with the published values.
    #[serde(default)]
    pub(super) published: Vec<String>,
    #[serde(default)]
    pub(super) claims: Vec<ClaimText>,
    #[serde(default)]
    pub(super) plots: Vec<Plot>,
    #[serde(default)]
    pub(super) notes: Vec<String>,
    /// Measured values, by `row/column/flows`, with place and date of the measurement.
    #[serde(default)]
    pub(super) measured: BTreeMap<String, f64>,
    #[serde(default)]
    pub(super) measured_on: Option<String>,
    /// Reasons for single deviating cells, by `row/column/flows`.
    #[serde(default)]
    pub(super) cell_notes: BTreeMap<String, String>,
}

/// A column.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) unit: String,
    /// The metric computed from a run: see `metric`.
    pub(super) value: String,
    /// Least denominator of the relative error.
    #[serde(default)]
    pub(super) floor: f64,
}

/// Flows between all pairs of hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AllToAll {
    /// Bytes per pair; bulk flows without it.
    pub(super) size: Option<String>,
    /// Flows between all pairs of cores of two hosts; the varied number is that of cores at each.
    #[serde(default)]
    pub(super) cores: bool,
}

/// A statement of the paper in words, and its conditions on cells.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimText {
    pub(super) statement: String,
    /// Conditions, all of which must hold: see `claim`.
    pub(super) holds: Vec<String>,
    /// The cells as they would be if the statement were false; the conditions must fail on them.
    pub(super) null: Null,
}

/// A plot.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Plot {
    pub(super) title: String,
    /// `columns`: a column over the varied number, a line per row. `classes`: throughput over time of one row.
    /// `completion`: distribution of completion times. `spread`: for each host, its last completion less its first.
    /// `requests`: latency over time.
    pub(super) kind: String,
    /// The column of a `columns` plot; the row of a `classes` plot.
    #[serde(default)]
    pub(super) of: String,
}

/// Base scenario, presets, configurations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    pub(super) scenario: String,
    /// Settings by preset, in order.
    #[serde(default)]
    pub(super) presets: BTreeMap<String, Table>,
    /// Settings by configuration. `"also"` names configurations that it builds on.
    pub(super) configurations: BTreeMap<String, Table>,
    /// Settings by preset, then configuration: they hold for that configuration in that preset only.
    #[serde(default)]
    pub(super) in_preset: BTreeMap<String, BTreeMap<String, Table>>,
    /// The sources of the settings; read by `weft_sim::scenario::sources`.
    #[serde(default, rename = "source")]
    _source: Vec<Table>,
}

pub(super) fn experiment(id: &str) -> Result<ExperimentFile, ExperimentFileError> {
    let file = format!("{id}.toml");
    parse(&file, catalogue::text(&file)?)
}

/// Returns a parameter file; each of its settings must have a source.
pub(crate) fn parameters(file: &str) -> Result<Parameters, ExperimentFileError> {
    let text = catalogue::text(file)?;
    let parameters = parse(file, text)?;
    sourced(file, text, SourcedFile::Parameters)?;
    Ok(parameters)
}

/// Rejects a file with a key that has no source.
fn sourced(file: &str, text: &str, kind: SourcedFile) -> Result<(), ExperimentFileError> {
    let wrong = |reason: String| ExperimentFileError::Invalid { file: file.to_owned(), reason };
    sources(text, file, kind).map(|_| ()).map_err(|error| wrong(error.to_string()))
}

pub(super) fn parse<T: for<'a> Deserialize<'a>>(file: &str, text: &str) -> Result<T, ExperimentFileError> {
    toml::from_str(text)
        .map_err(|error| ExperimentFileError::Invalid { file: file.to_owned(), reason: error.to_string() })
}

impl Parameters {
    /// Returns the scenario's document with the settings of a preset and a configuration.
    pub(super) fn document(
        &self,
        preset: Option<&str>,
        configuration: &str,
    ) -> Result<Table, ExperimentFileError> {
        self.over(self.base()?, preset, configuration)
    }

    /// Returns the scenario's document alone; each of its keys must have a source.
    pub(crate) fn base(&self) -> Result<Table, ExperimentFileError> {
        let text = catalogue::text(&self.scenario)?;
        sourced(&self.scenario, text, SourcedFile::Scenario)?;
        let mut document: Table = parse(&self.scenario, text)?;
        // Settings applied to it have their sources in another file.
        document.remove("source");
        Ok(document)
    }

    /// Returns a document with the settings of a preset and a configuration applied.
    pub(crate) fn over(
        &self,
        mut document: Table,
        preset: Option<&str>,
        configuration: &str,
    ) -> Result<Table, ExperimentFileError> {
        if let Some(preset) = preset {
            let settings =
                self.presets.get(preset).ok_or_else(|| self.wrong(format!("there is no preset {preset}")))?;
            self.set(&mut document, settings)?;
        }
        self.configure(&mut document, configuration)?;
        let special =
            preset.and_then(|preset| self.in_preset.get(preset)).and_then(|all| all.get(configuration));
        special.map_or(Ok(()), |settings| self.set(&mut document, settings))?;
        Ok(document)
    }

    fn configure(&self, document: &mut Table, configuration: &str) -> Result<(), ExperimentFileError> {
        let settings = self
            .configurations
            .get(configuration)
            .ok_or_else(|| self.wrong(format!("there is no configuration {configuration}")))?;
        if let Some(Value::Array(also)) = settings.get("also") {
            for name in also.iter().filter_map(Value::as_str) {
                self.configure(document, name)?;
            }
        }
        self.set(document, settings)
    }

    fn set(&self, document: &mut Table, settings: &Table) -> Result<(), ExperimentFileError> {
        for (path, value) in settings.iter().filter(|(path, _)| *path != "also") {
            overlay::apply(document, path, value.clone()).map_err(|error| self.wrong(error.to_string()))?;
        }
        Ok(())
    }

    fn wrong(&self, reason: String) -> ExperimentFileError {
        ExperimentFileError::Invalid { file: self.scenario.clone(), reason }
    }
}

/// Returns the published values by row, flow count and column.
pub(super) fn published(
    tables: &[String],
) -> Result<BTreeMap<(String, u32, String), f64>, ExperimentFileError> {
    let file = "published/titan.csv";
    let text = catalogue::text(file)?;
    let wrong = |reason: String| ExperimentFileError::Invalid { file: file.to_owned(), reason };
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let mut values = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let [table, row, flows, ..] = fields[..] else { return Err(wrong(format!("a short line: {line}"))) };
        if !tables.iter().any(|wanted| wanted == table) {
            continue;
        }
        let flows: u32 = flows.parse().map_err(|_| wrong(format!("flows of {line}")))?;
        for (column, text) in heads.iter().zip(&fields).skip(3) {
            let value: f64 = text.parse().map_err(|_| wrong(format!("{column} of {line}")))?;
            values.insert((row.to_owned(), flows, (*column).to_owned()), value);
        }
    }
    Ok(values)
}
