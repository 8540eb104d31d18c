//! The simulator as a function of candidates: values of cells, with each run made once.

use super::knobs::{self, Knob};
use super::search::Values;
use crate::reproduce::file::{ExperimentFile, ExperimentFileError, Parameters};
use crate::reproduce::{ReproduceError, metric};
use crate::simulate::sweep;
use std::collections::BTreeMap;
use std::time::Instant;
use weft_facts::stats;
use weft_sim::run::simulate;
use weft_sim::scenario::{self, Scenario};

/// A cell: an experiment, by index, its row and its flow count.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) experiment: usize,
    pub(super) row: String,
    pub(super) flows: u32,
}

/// Runs already made, and the means to make others.
pub(super) struct Runs {
    pub(super) parameters: Parameters,
    pub(super) knobs: Vec<Knob>,
    pub(super) experiments: Vec<ExperimentFile>,
    /// Columns, by name.
    pub(super) columns: Vec<String>,
    pub(super) cells: Vec<Place>,
    pub(super) seeds: u32,
    pub(super) seed: u64,
    pub(super) threads: usize,
    /// Means over the seeds, by the scenario's text.
    pub(super) known: BTreeMap<String, Values>,
    /// The number of runs made, and their seconds on one thread.
    pub(super) made: usize,
    pub(super) seconds: f64,
}

impl Runs {
    /// Returns the simulated values of cells, by column.
    pub(super) fn values(
        &mut self,
        choice: &[usize],
        cells: &[usize],
        cancelled: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(usize),
    ) -> Result<Vec<Values>, ReproduceError> {
        let texts: Vec<String> =
            cells.iter().map(|cell| self.text(choice, *cell)).collect::<Result<_, _>>()?;
        let mut missing: Vec<(usize, Scenario, &String)> = Vec::new();
        for (cell, text) in cells.iter().zip(&texts) {
            if !self.known.contains_key(text) && !missing.iter().any(|(_, _, other)| *other == text) {
                let scenario = scenario::read(text, "cross", &mut |path| {
                    crate::catalogue::files::beside_scenarios(path)
                });
                let scenario = scenario.map_err(|error| wrong(&self.cells[*cell].row, &error.to_string()))?;
                missing.push((*cell, scenario, text));
            }
        }
        let begun = self.made;
        let (seeds, this) = (self.seeds as usize, &*self);
        let one = |job: usize| {
            let (cell, scenario, _) = &missing[job / seeds];
            let begin = Instant::now();
            this.one(*cell, scenario, job % seeds).map(|values| (values, begin.elapsed().as_secs_f64()))
        };
        let jobs = missing.len() * seeds;
        let done = sweep(jobs, self.threads, cancelled, one, |count| progress(begun + count));
        let done: Vec<(Values, f64)> = done
            .into_iter()
            .map(|result| result.ok_or(ReproduceError::Stopped)?)
            .collect::<Result<_, ReproduceError>>()?;
        let new: Vec<(String, Values)> = missing
            .iter()
            .zip(done.chunks(seeds))
            .map(|((_, _, text), runs)| ((*text).clone(), self.mean(runs)))
            .collect();
        self.made += jobs;
        self.seconds += done.iter().map(|(_, seconds)| seconds).sum::<f64>();
        self.known.extend(new);
        Ok(texts.iter().map(|text| self.known.get(text).cloned().unwrap_or_default()).collect())
    }

    /// Returns the text of a cell's scenario.
    fn text(&self, choice: &[usize], cell: usize) -> Result<String, ReproduceError> {
        let Place { experiment, row, flows } = &self.cells[cell];
        let file = &self.experiments[*experiment];
        let preset = file.preset.as_deref();
        let mut document = knobs::document(&self.parameters, (preset, row), &self.knobs, choice)?;
        crate::reproduce::run::vary(&mut document, file, *flows)?;
        Ok(document.to_string())
    }

    fn one(&self, cell: usize, scenario: &Scenario, seed: usize) -> Result<Values, ReproduceError> {
        let Place { experiment, row, flows } = &self.cells[cell];
        let file = &self.experiments[*experiment];
        let outcome = simulate(scenario, self.seed + seed as u64).map_err(|error| ReproduceError::Run {
            id: file.id.clone(),
            row: row.clone(),
            flows: *flows,
            error,
        })?;
        let value = |name: &String| -> Result<Option<f64>, ReproduceError> {
            let Some(column) = file.columns.iter().find(|column| column.name == *name) else {
                return Ok(None);
            };
            metric::value(&column.value, scenario, &outcome)
                .map_err(|error| wrong(&file.id, &error.to_string()))
        };
        self.columns.iter().map(value).collect()
    }

    /// Returns the mean of runs, by column.
    fn mean(&self, runs: &[(Values, f64)]) -> Values {
        let mean = |column: usize| {
            let values: Vec<f64> =
                runs.iter().filter_map(|(values, _)| values.get(column).copied()?).collect();
            stats::mean(&values)
        };
        (0..self.columns.len()).map(mean).collect()
    }
}

fn wrong(file: &str, reason: &str) -> ReproduceError {
    ReproduceError::File(ExperimentFileError::Invalid { file: file.to_owned(), reason: reason.to_owned() })
}
