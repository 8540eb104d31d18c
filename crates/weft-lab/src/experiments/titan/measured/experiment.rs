//! All runs of the experiment: in turns, each with a fresh path, and what they give for the papers' tables.
//!
//! The seeds are the outer loop, so that a change of the machine's mood meets all configurations alike.

mod cells;
mod claims;

pub use cells::fill;
pub use claims::claims;

use super::path::{Open, Path, PathError};
use super::run::{Figures, MeasuredError, run};
use super::settings::{Config, Inner, RunSettings};
use std::collections::{BTreeMap, BTreeSet};
use weft_report::judgement::Judgement;
use weft_report::reproduce::{Experiment, TableCell};
use weft_report::stats;
use weft_units::{Bytes, Weight};

/// Makes a path for a run.
pub type Opener = fn(&RunSettings) -> Result<Box<dyn Path>, PathError>;

/// How is measured.
#[derive(Clone, Debug)]
pub struct Measure {
    /// What all runs have in common. Configuration, flows, seed and segment size are each run's own.
    pub settings: RunSettings,
    /// Runs of each row and flow count.
    pub runs: u32,
    /// The first seed.
    pub seed: u64,
    /// Makes the paths.
    pub open: Opener,
}

/// A row of a table at a number of flows.
pub type Key = (String, u32);

/// What was measured.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results {
    /// The runs that came to something, in the order of their seeds.
    pub runs: BTreeMap<Key, Vec<Figures>>,
    /// Runs that came to nothing, and why.
    pub failures: Vec<String>,
}

/// A run that failed where nothing can be said without it.
#[derive(Debug, thiserror::Error)]
#[error("{row} with {flows} flows, seed {seed}: {error}")]
pub struct Failed {
    /// Its row.
    pub row: String,
    /// Its flows.
    pub flows: u32,
    /// Its seed.
    pub seed: u64,
    /// Why.
    pub error: MeasuredError,
}

/// The row of the papers' tables that is the hash with this inside a queue: the vanilla stack has pfifo_fast (C1); with SFQ
/// it is C6, on which all of Titan's rows are built.
pub const fn hash_row(inner: Inner) -> &'static str {
    match inner {
        Inner::Pfifo => "C1",
        Inner::Sfq => "C6",
    }
}

/// What a row of the papers' tables is here, with the segment size where it has one of its own; `None` for rows that differ
/// in what is not varied here.
pub fn row(name: &str, inner: Inner) -> Option<(Config, Option<Bytes>)> {
    if name == hash_row(inner) {
        return Some((Config::Hash, None));
    }
    if let Some(name) = name.strip_suffix("-32K") {
        let config = row(name, inner)?.0;
        return config.segment_sizes().then_some((config, Some(Bytes(32 << 10))));
    }
    Config::ALL
        .into_iter()
        .filter(|config| *config != Config::Hash)
        .find(|config| config.to_string() == name)
        .map(|config| (config, None))
}

/// The rows and flow counts of an experiment that can be measured.
pub fn keys(experiment: &Experiment, inner: Inner) -> BTreeSet<Key> {
    let cells = experiment.cells.iter().filter(|cell| row(&cell.row, inner).is_some());
    cells.map(|cell| (cell.row.clone(), cell.flows)).collect()
}

/// Makes all runs of `keys`. `progress` is told how many are done.
///
/// # Errors
/// The very first run failed, or `cancelled` says so. What fails later is noted in [`Results::failures`].
pub fn measure(
    measure: &Measure,
    keys: &BTreeSet<Key>,
    cancelled: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize),
) -> Result<Results, Box<Failed>> {
    let open: &dyn Open = &measure.open;
    measure_with(measure, keys, &mut |settings| run(open, settings, cancelled), progress)
}

/// The same with any way to make a run.
fn measure_with(
    measure: &Measure,
    keys: &BTreeSet<Key>,
    run: &mut dyn FnMut(&RunSettings) -> Result<Figures, MeasuredError>,
    progress: &mut dyn FnMut(usize),
) -> Result<Results, Box<Failed>> {
    let mut results = Results::default();
    let mut done = 0;
    for seed in (measure.seed..).take(measure.runs as usize) {
        for (name, flows) in keys {
            let Some((config, segment)) = row(name, measure.settings.inner) else { continue };
            let segment_bytes = segment.unwrap_or(measure.settings.segment_bytes);
            let settings =
                RunSettings { config, flows: *flows, seed, segment_bytes, ..measure.settings.clone() };
            match run(&settings) {
                Ok(figures) => results.runs.entry((name.clone(), *flows)).or_default().push(figures),
                Err(error) => {
                    let failed = Failed { row: name.clone(), flows: *flows, seed, error };
                    if done == 0 || matches!(failed.error, MeasuredError::Stopped) {
                        return Err(Box::new(failed));
                    }
                    results.failures.push(failed.to_string());
                }
            }
            done += 1;
            progress(done);
        }
    }
    Ok(results)
}

/// The id of the experiment with weights.
pub const WEIGHTS_ID: &str = "titan-weights";
/// How far a group's share may be off in any second.
const WITHIN: f64 = 0.05;

/// The experiment with weights 1:2:4 as it is before it was measured: DQA with queue weights, groups of flows as many.
pub fn weighted_experiment(flows: u32) -> Experiment {
    let mut experiment = Experiment::new(
        WEIGHTS_ID,
        "Flows with weights 1:2:4",
        "Titan ATC'17, section 3.2: queues get their flows' weights",
    );
    for (column, _) in SHARE_COLUMNS {
        experiment.cells.push(TableCell {
            row: Config::T2.to_string(),
            column: column.to_owned(),
            flows,
            unit: "1".to_owned(),
            ..TableCell::default()
        });
    }
    experiment
}

/// The weights of [`weighted_experiment`].
pub fn weights() -> Vec<Weight> {
    [1, 2, 4].into_iter().filter_map(Weight::new).collect()
}

type OfShares = fn(&[Vec<f64>]) -> Option<f64>;

/// How far groups were off their share: in the worst second, and in the mean.
const SHARE_COLUMNS: [(&str, OfShares); 2] = [
    ("share_error_max", |shares| stats::max(&errors(shares))),
    ("share_error_mean", |shares| stats::mean(&errors(shares))),
];

/// What each group gets over its weight's share where all get the same.
fn equal_split(weights: &[Weight]) -> Vec<f64> {
    let sum: f64 = weights.iter().map(|weight| f64::from(weight.get())).sum();
    weights.iter().map(|weight| sum / weights.len() as f64 / f64::from(weight.get())).collect()
}

/// Of each group in each second: how far it was off, relative to its share.
fn errors(shares: &[Vec<f64>]) -> Vec<f64> {
    shares.iter().flatten().map(|share| stats::relative_error(*share, 1.0)).collect()
}

/// Puts the runs with weights into their experiment, with the claim.
pub fn fill_weighted(mut experiment: Experiment, results: &Results) -> Experiment {
    for cell in &mut experiment.cells {
        let Some((_, value)) = SHARE_COLUMNS.iter().find(|(column, _)| *column == cell.column) else {
            continue;
        };
        let runs = results.runs.get(&(cell.row.clone(), cell.flows)).into_iter().flatten();
        cell.take_measured(runs.filter_map(|figures| value(&figures.shares)).collect());
    }
    let worst = experiment.cells.iter().find(|cell| cell.column == SHARE_COLUMNS[0].0);
    if let Some([_, worst]) = worst.and_then(|cell| cell.measured_spread) {
        experiment.claim(
            "Measured: in every second of every run each group gets its weight's share",
            "within 5 % of 1:2:4",
            format!("{:.2} % off at worst", worst * 100.0),
            worst <= WITHIN,
        );
        let off = stats::max(&errors(&[equal_split(&weights())]));
        let under_null = Judgement::of(off.is_some_and(|off| off <= WITHIN));
        experiment.null_of_last("all groups get the same", &under_null);
    }
    experiment.notes.extend(results.failures.iter().cloned());
    experiment.finish()
}

#[cfg(test)]
mod tests;
