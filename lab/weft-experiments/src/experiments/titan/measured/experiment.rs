//! All runs of the experiment, interleaved, each with a fresh path, and their results for the papers' tables.
//!
//! The seeds are the outer loop, so that changes of the machine's load affect all configurations alike.

mod cells;
mod claims;

pub use cells::fill;
pub use claims::claims;

use super::error::MeasuredError;
use super::path::{MeasuredPath, Open, PathError};
use super::run::{SteadyFigures, run};
use super::settings::{InnerQdisc, MechanismConfig, RunSettings};
use std::collections::{BTreeMap, BTreeSet};
use weft_facts::stats;
use weft_report::judgement::Judgement;
use weft_report::reproduce::{Experiment, TableCell};
use weft_units::{Bytes, Weight};

/// A function that makes a path for a run.
pub type Opener = fn(&RunSettings) -> Result<Box<dyn MeasuredPath>, PathError>;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct MeasureSettings {
    /// Settings common to all runs. Configuration, flows, seed and segment size are each run's own.
    pub settings: RunSettings,
    /// Runs of each row and flow count.
    pub runs: u32,
    /// The first seed.
    pub seed: u64,
    /// The function that makes the paths.
    pub open: Opener,
}

/// A row of a table, and a flow count.
pub type RowKey = (String, u32);

/// Results of all runs.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results {
    /// Successful runs, in the order of their seeds.
    pub runs: BTreeMap<RowKey, Vec<SteadyFigures>>,
    /// Failed runs, with their reasons.
    pub failures: Vec<String>,
}

/// The failure of a run that ends the measurement.
#[derive(Debug, thiserror::Error)]
#[error("{row} with {flows} flows, seed {seed}: {error}")]
pub struct Failed {
    /// The row.
    pub row: String,
    /// The flow count.
    pub flows: u32,
    /// The seed.
    pub seed: u64,
    /// The reason.
    pub error: MeasuredError,
}

/// The row of the papers' tables for the hash with this queue discipline: the vanilla stack has pfifo_fast (C1); with
/// SFQ it is C6, on which all of Titan's rows are built.
pub const fn hash_row(inner: InnerQdisc) -> &'static str {
    match inner {
        InnerQdisc::Pfifo => "C1",
        InnerQdisc::Sfq => "C6",
    }
}

/// Returns the configuration of a row of the papers' tables, with its segment size if the row has one; `None`
/// for rows that differ in an aspect not varied here.
pub fn row(name: &str, inner: InnerQdisc) -> Option<(MechanismConfig, Option<Bytes>)> {
    if name == hash_row(inner) {
        return Some((MechanismConfig::Hash, None));
    }
    if let Some(name) = name.strip_suffix("-32K") {
        let config = row(name, inner)?.0;
        return config.segment_sizes().then_some((config, Some(Bytes(32 << 10))));
    }
    MechanismConfig::ALL
        .into_iter()
        .filter(|config| *config != MechanismConfig::Hash)
        .find(|config| config.to_string() == name)
        .map(|config| (config, None))
}

/// Returns the rows and flow counts of an experiment that can be measured.
pub fn keys(experiment: &Experiment, inner: InnerQdisc) -> BTreeSet<RowKey> {
    let cells = experiment.cells.iter().filter(|cell| row(&cell.row, inner).is_some());
    cells.map(|cell| (cell.row.clone(), cell.flows)).collect()
}

/// Makes all runs of `keys`. `progress` receives the number done.
///
/// # Errors
/// Fails when the very first run does, or `cancelled` asks to stop. Later failures are recorded in
/// [`Results::failures`].
pub fn measure(
    measure: &MeasureSettings,
    keys: &BTreeSet<RowKey>,
    cancelled: &dyn Fn() -> bool,
    progress: &mut dyn FnMut(usize),
) -> Result<Results, Box<Failed>> {
    let open: &dyn Open = &measure.open;
    measure_with(measure, keys, &mut |settings| run(open, settings, cancelled), progress)
}

/// Makes all runs with any function for a run.
fn measure_with(
    measure: &MeasureSettings,
    keys: &BTreeSet<RowKey>,
    run: &mut dyn FnMut(&RunSettings) -> Result<SteadyFigures, MeasuredError>,
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
/// The greatest relative error of a group's share in any second.
const WITHIN: f64 = 0.05;

/// Returns the experiment with weights 1:2:4, before it is measured: DQA with queue weights, and equal groups of
/// flows.
pub fn weighted_experiment(flows: u32) -> Experiment {
    let mut experiment = Experiment::new(
        WEIGHTS_ID,
        "Flows with weights 1:2:4",
        "Titan ATC'17, section 3.2: queues get their flows' weights",
    );
    for (column, _) in SHARE_COLUMNS {
        experiment.cells.push(TableCell {
            row: MechanismConfig::T2.to_string(),
            column: column.to_owned(),
            flows,
            unit: "1".to_owned(),
            ..TableCell::default()
        });
    }
    experiment
}

/// Returns the weights of [`weighted_experiment`].
pub fn weights() -> Vec<Weight> {
    [1, 2, 4].into_iter().filter_map(Weight::new).collect()
}

type OfShares = fn(&[Vec<f64>]) -> Option<f64>;

/// Columns for the relative error of groups' shares: in the worst second, and the mean.
const SHARE_COLUMNS: [(&str, OfShares); 2] = [
    ("share_error_max", |shares| stats::max(&errors(shares))),
    ("share_error_mean", |shares| stats::mean(&errors(shares))),
];

/// Returns the rate of each group over its weight's share, if all groups had the same rate.
fn equal_split(weights: &[Weight]) -> Vec<f64> {
    let sum: f64 = weights.iter().map(|weight| f64::from(weight.get())).sum();
    weights.iter().map(|weight| sum / weights.len() as f64 / f64::from(weight.get())).collect()
}

/// Returns the relative error of each group's share in each second.
fn errors(shares: &[Vec<f64>]) -> Vec<f64> {
    shares.iter().flatten().map(|share| stats::relative_error(*share, 1.0)).collect()
}

/// Enters the runs with weights into their experiment, with the claim.
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
