//! The runner: all runs of all experiments are spread over the threads, and runs that experiments share are made
//! once.

use super::catalogue::{self, Reproduction};
use super::claim::Values;
use super::file::{self, ExperimentFile, ExperimentFileError};
use super::result_cache::{self, CachedResult, Refused, ResultCache};
use super::{MeasuringOptions, generate, judge, measured, metric, scores};
use crate::experiments::{ExperimentError, ExperimentRequest};
use crate::simulate::sweep;
use std::collections::BTreeMap;
use std::time::Instant;
use thiserror::Error;
use toml::{Table, Value};
use weft_campaign::key::ScenarioHash;
use weft_campaign::store::ResultStoreError;
use weft_facts::stats;
use weft_report::reproduce::{Experiment, Series, TableCell, band_of_mean};
use weft_sim::outcome::RunOutcome;
use weft_sim::run::{RunError, simulate};
use weft_sim::scenario::{self, Scenario};

/// Parameters of a reproduction.
#[derive(Clone, Debug, Default)]
pub struct ReproduceOptions {
    /// Ids of experiments; empty for all.
    pub ids: Vec<String>,
    /// Runs of each cell; `None` for the experiment's own number, or 200.
    pub seeds: Option<u32>,
    /// The number of flows (or hosts), in place of the experiment's.
    pub flows: Option<u32>,
    /// The first seed.
    pub seed: u64,
    /// Bytes that each pair of a shuffle transfers, such as `10MB`, in place of the experiment's.
    pub transfer: Option<String>,
    /// Threads.
    pub threads: usize,
    /// Factor on the times of experiments that run in real time; 1 is the paper's. `None` for the experiment's
    /// default.
    pub time_scale: Option<f64>,
    /// Measures Titan's experiments on real packets. `seeds` is then the number of runs and of simulated seeds of
    /// each cell, 5 by default.
    pub measured: Option<MeasuringOptions>,
    /// A file of costs in place of the experiments': its name and its text.
    pub costs: Option<(String, String)>,
    /// Keeps the metrics of each simulated run, and takes those that are there.
    pub cache: Option<ResultCache>,
}

impl ReproduceOptions {
    /// Returns the request to each experiment.
    pub fn request(&self) -> ExperimentRequest {
        ExperimentRequest {
            flows: self.flows,
            seed: self.seed,
            seeds: self.seeds,
            transfer: self.transfer.clone(),
            threads: self.threads,
            time_scale: self.time_scale,
        }
    }
}

impl From<ExperimentError> for ReproduceError {
    fn from(error: ExperimentError) -> Self {
        match error {
            ExperimentError::Failed { id, reason } => Self::Native { id, reason },
            ExperimentError::Stopped => Self::Stopped,
        }
    }
}

/// The reason that an experiment was not reproduced.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReproduceError {
    /// The id is unknown.
    #[error("there is no experiment `{given}`; there are: {known}")]
    Unknown {
        /// The id given.
        given: String,
        /// The known ids.
        known: String,
    },
    /// An experiment's files are invalid.
    #[error(transparent)]
    File(#[from] ExperimentFileError),
    /// A scenario cannot run.
    #[error("{id}, {row} with {flows}: {error}")]
    Run {
        /// The experiment.
        id: String,
        /// Its row.
        row: String,
        /// Its flow count.
        flows: u32,
        /// The reason.
        error: RunError,
    },
    /// A native experiment failed.
    #[error("{id}: {reason}")]
    Native {
        /// The experiment.
        id: String,
        /// The reason, in words.
        reason: String,
    },
    /// This machine lacks a requirement of a native experiment.
    #[error("{id} cannot be shown here, because {reason}")]
    NotHere {
        /// The experiment.
        id: String,
        /// The missing requirement.
        reason: String,
    },
    /// The experiment can only be simulated.
    #[error("{given} cannot be measured here; what can: {known}")]
    NotMeasured {
        /// The id given.
        given: String,
        /// The ids that can be measured.
        known: String,
    },
    /// The experiment can only be measured.
    #[error("{0} is not simulated: add --measured")]
    OnlyMeasured(&'static str),
    /// The store of the runs does not work.
    #[error(transparent)]
    Store(#[from] ResultStoreError),
    /// Stopped by the user.
    #[error("stopped before all runs were made")]
    Stopped,
}

/// The default number of seeds.
const SEEDS: u32 = 200;

/// A configuration at a flow count, with the metrics that experiments need of it.
struct Unit {
    scenario: Scenario,
    hash: ScenarioHash,
    seeds: u32,
    metrics: Vec<String>,
    label: (String, String, u32),
}

/// The kept results of a run.
struct Run {
    values: Vec<Option<f64>>,
    events: u64,
    seconds: f64,
    /// The first seed's outcome; `None` for the others.
    outcome: Option<RunOutcome>,
}

/// An experiment and the units of its rows and flow counts, in order.
struct Plan {
    file: ExperimentFile,
    cells: Vec<(String, u32, usize)>,
}

/// Runs experiments. `progress` receives the runs done and the runs in all.
///
/// # Errors
/// Fails for an unknown id, a scenario that cannot run, and when `cancelled` asks to stop.
pub fn run(
    options: &ReproduceOptions,
    cancelled: &(dyn Fn() -> bool + Sync),
    mut progress: impl FnMut(usize, usize),
) -> Result<Vec<Experiment>, ReproduceError> {
    let chosen = measured::resolve(options)?;
    let mut units = Units { costs: options.costs.clone(), ..Units::default() };
    let how = measured::simulated_options(options);
    let simulated = chosen.iter().filter(|one| one.is_simulated());
    let plans: Vec<Plan> = simulated.map(|one| units.plan(one.id(), &how)).collect::<Result<_, _>>()?;
    let units = units.units;
    let jobs: Vec<(usize, u32)> = units
        .iter()
        .enumerate()
        .flat_map(|(index, unit)| (0..unit.seeds).map(move |seed| (index, seed)))
        .collect();
    let cells = plans.iter().flat_map(|plan| &plan.cells).map(|(row, flows, _)| (row.as_str(), *flows));
    let measuring = options.measured.as_ref().map(|how| measured::Plan::new(how, options, cells, &chosen));
    let before = measuring.as_ref().map_or(0, measured::Plan::len);
    let all = before + jobs.len();
    // Measurements run first, since their requirements may be missing.
    let seen = measuring.map(|plan| plan.run(cancelled, &mut |done| progress(done, all))).transpose()?;
    let work = |job: usize| {
        let (index, seed) = jobs[job];
        run_once(&units[index], options, seed)
    };
    let done = sweep(jobs.len(), options.threads, cancelled, work, |count| progress(before + count, all));
    let mut runs: Vec<Vec<Run>> = units.iter().map(|_| Vec::new()).collect();
    for ((index, _), result) in jobs.iter().zip(done) {
        let run = result.ok_or(ReproduceError::Stopped)?.map_err(|error| {
            let (id, row, flows) = units[*index].label.clone();
            match error {
                Refused::Run(error) => ReproduceError::Run { id, row, flows, error },
                Refused::Store(error) => error.into(),
            }
        })?;
        runs[*index].push(run);
    }
    let mut plans = plans.iter();
    let one = |one: &&dyn Reproduction| match one.native() {
        Some(native) => {
            let rights = if native.needs_rights { catalogue::require_rights(native.id) } else { Ok(()) };
            let run = |()| Ok((native.run)(&options.request(), cancelled, &mut progress)?);
            Some(rights.and_then(run))
        }
        None if one.is_simulated() => plans.next().map(|plan| conclude(plan, &units, &runs, options)),
        None => None,
    };
    let mut experiments: Vec<Experiment> = chosen.iter().filter_map(one).collect::<Result<_, _>>()?;
    scores::hold(&mut experiments, options)?;
    measured::fill_local(&mut experiments, options, cancelled, &mut progress)?;
    Ok(match seen {
        Some(seen) => seen.fill(experiments),
        None => experiments,
    })
}

/// Makes a run, or takes its metrics from the store. The first seed's run is always made, since its outcome is plotted.
fn run_once(unit: &Unit, options: &ReproduceOptions, seed: u32) -> Result<Run, Refused> {
    let begin = Instant::now();
    let number = options.seed + u64::from(seed);
    let cache = options.cache.as_ref();
    let before = cache.map(|cache| cache.get(&unit.hash, number)).transpose()?.flatten();
    if let Some(kept) = before.as_ref().filter(|_| seed > 0) {
        let values: Option<Vec<_>> =
            unit.metrics.iter().map(|name| kept.metrics.get(name).copied()).collect();
        if let Some(values) = values {
            let seconds = begin.elapsed().as_secs_f64();
            return Ok(Run { values, events: kept.events, seconds, outcome: None });
        }
    }
    let outcome = simulate(&unit.scenario, number).map_err(Refused::Run)?;
    // The plan has already evaluated every metric's name, so no error is possible here.
    let values: Vec<Option<f64>> = unit
        .metrics
        .iter()
        .map(|name| metric::value(name, &unit.scenario, &outcome).unwrap_or(None))
        .collect();
    let events = outcome.events;
    if let Some(cache) = cache {
        let metrics = unit.metrics.iter().cloned().zip(values.iter().copied()).collect();
        cache.put(&unit.hash, number, CachedResult { metrics, events }, before)?;
    }
    let seconds = begin.elapsed().as_secs_f64();
    Ok(Run { values, events, seconds, outcome: (seed == 0).then_some(outcome) })
}

#[derive(Default)]
struct Units {
    /// The name and the text of costs in place of the experiments'.
    costs: Option<(String, String)>,
    units: Vec<Unit>,
    /// Indices of units, by the scenario's text.
    known: BTreeMap<String, usize>,
}

impl Units {
    fn plan(&mut self, id: &str, options: &ReproduceOptions) -> Result<Plan, ReproduceError> {
        let mut file = file::experiment(id)?;
        if let Some(flows) = options.flows {
            file.flows = vec![flows];
        }
        if let (Some(size), Some(pattern)) = (&options.transfer, &mut file.all_to_all) {
            pattern.size = pattern.size.as_ref().map(|_| size.clone());
        }
        let parameters = file::parameters(&file.parameters)?;
        let mut cells = Vec::new();
        for &flows in &file.flows {
            for row in &file.rows {
                let mut document = parameters.document(file.preset.as_deref(), row)?;
                vary(&mut document, &file, flows)?;
                if let Some((name, _)) = &options.costs {
                    document.insert("costs".to_owned(), Value::String(name.clone()));
                }
                let seeds = options.seeds.or(file.seeds).unwrap_or(SEEDS);
                let metrics: Vec<String> = file.columns.iter().map(|column| column.value.clone()).collect();
                let label = (file.id.clone(), row.clone(), flows);
                cells.push((row.clone(), flows, self.unit(&document, seeds, &metrics, label)?));
            }
        }
        Ok(Plan { file, cells })
    }

    fn unit(
        &mut self,
        document: &Table,
        seeds: u32,
        metrics: &[String],
        label: (String, String, u32),
    ) -> Result<usize, ReproduceError> {
        let text = document.to_string();
        let index = match self.known.get(&text) {
            Some(&index) => index,
            None => {
                let name = format!("{} of {}", label.1, label.0);
                let given = self.costs.as_ref();
                let scenario = scenario::read(&text, &name, &mut |path| {
                    let costs = given.filter(|(name, _)| name == path).map(|(_, text)| text.clone());
                    costs.map_or_else(|| crate::catalogue::files::beside_scenarios(path), Ok)
                })
                .map_err(|error| ExperimentFileError::Invalid {
                    file: name.clone(),
                    reason: error.to_string(),
                })?;
                for metric in metrics {
                    // Evaluated without a run, so that an invalid name costs none.
                    metric::value(metric, &scenario, &RunOutcome::default()).map_err(|error| {
                        ExperimentFileError::Invalid { file: name.clone(), reason: error.to_string() }
                    })?;
                }
                let hash = result_cache::hash(&scenario);
                self.units.push(Unit { scenario, hash, seeds, metrics: Vec::new(), label });
                self.known.insert(text, self.units.len() - 1);
                self.units.len() - 1
            }
        };
        let unit = &mut self.units[index];
        unit.seeds = unit.seeds.max(seeds);
        for metric in metrics {
            if !unit.metrics.contains(metric) {
                unit.metrics.push(metric.clone());
            }
        }
        Ok(index)
    }
}

/// Sets the varied number.
pub(super) fn vary(
    document: &mut Table,
    file: &ExperimentFile,
    flows: u32,
) -> Result<(), ExperimentFileError> {
    if let Some(pattern) = &file.all_to_all {
        generate::all_to_all(document, pattern, flows);
    }
    if let Some(key) = &file.flows_key {
        crate::catalogue::overlay::apply(document, key, Value::Integer(i64::from(flows))).map_err(
            |error| ExperimentFileError::Invalid { file: file.id.clone(), reason: error.to_string() },
        )?;
    }
    Ok(())
}

/// Computes the experiment's record from its runs.
fn conclude(
    plan: &Plan,
    units: &[Unit],
    runs: &[Vec<Run>],
    options: &ReproduceOptions,
) -> Result<Experiment, ReproduceError> {
    let file = &plan.file;
    let published = file::published(&file.published)?;
    let mut experiment = Experiment::new(&file.id, &file.title, &file.source);
    experiment.notes.clone_from(&file.notes);
    experiment.measured_on.clone_from(&file.measured_on);
    let mut values = Values::new();
    for (row, flows, unit) in &plan.cells {
        let (unit, runs) = (&units[*unit], &runs[*unit]);
        for column in &file.columns {
            let metric = unit.metrics.iter().position(|metric| *metric == column.value).unwrap_or(usize::MAX);
            let all: Vec<f64> =
                runs.iter().filter_map(|run| run.values.get(metric).copied().flatten()).collect();
            let (of_means, mean_of) = if file.best { (best(&all, file.runs), 1) } else { (all, file.runs) };
            let simulated = stats::mean(&of_means);
            if let Some(value) = simulated {
                values.insert((row.clone(), column.name.clone(), *flows), value);
            }
            experiment.cells.push(TableCell {
                row: row.clone(),
                column: column.name.clone(),
                flows: *flows,
                published: published.get(&(row.clone(), *flows, column.name.clone())).copied(),
                simulated,
                unit: column.unit.clone(),
                band: band_of_mean(&of_means, mean_of),
                runs: file.runs,
                seeds: runs.len() as u32,
                floor: column.floor,
                measured: file.measured.get(&format!("{row}/{}/{flows}", column.name)).copied(),
                note: file.cell_notes.get(&format!("{row}/{}/{flows}", column.name)).cloned(),
                ..TableCell::default()
            });
        }
        experiment.events += runs.iter().map(|run| run.events).sum::<u64>();
        experiment.wall_s += runs.iter().map(|run| run.seconds).sum::<f64>() / options.threads.max(1) as f64;
        let first = runs.first().and_then(|run| run.outcome.as_ref());
        experiment
            .series
            .extend(first.into_iter().flat_map(|outcome| outcome_series(file, row, *flows, unit, outcome)));
    }
    judge::claims(file, "", &values, &mut experiment)?;
    column_series(file, &mut experiment);
    Ok(experiment.finish())
}

/// Returns the least of each group of `runs` values, as in a paper that shows its best run.
fn best(values: &[f64], runs: u32) -> Vec<f64> {
    values.chunks(runs.max(1) as usize).filter_map(stats::min).collect()
}

/// Adds plots of a column over the varied number.
fn column_series(file: &ExperimentFile, experiment: &mut Experiment) {
    for plot in file.plots.iter().filter(|plot| plot.kind == "columns") {
        for row in &file.rows {
            let points: Vec<(f64, f64)> = experiment
                .cells
                .iter()
                .filter(|cell| cell.row == *row && cell.column == plot.of)
                .filter_map(|cell| Some((f64::from(cell.flows), cell.simulated?)))
                .collect();
            let (x, y) = points.into_iter().unzip();
            experiment.series.push(line(&plot.title, row, ("flows", &plot.of), (x, y)));
        }
    }
}

fn line(plot: &str, name: &str, (x_label, y_label): (&str, &str), (x, y): (Vec<f64>, Vec<f64>)) -> Series {
    let text = str::to_owned;
    Series {
        plot: text(plot),
        name: text(name),
        x_label: text(x_label),
        y_label: text(y_label),
        kind: text("line"),
        x,
        y,
    }
}

/// Adds plots of the first seed's run.
fn outcome_series(
    file: &ExperimentFile,
    row: &str,
    flows: u32,
    unit: &Unit,
    outcome: &RunOutcome,
) -> Vec<Series> {
    let mut lines = Vec::new();
    for plot in &file.plots {
        let title = format!("{} ({flows})", plot.title);
        match plot.kind.as_str() {
            "classes" if plot.of == row => {
                let x: Vec<f64> = outcome.samples.iter().map(|sample| sample.at.as_secs_f64()).collect();
                for (class, name) in unit.scenario.classes.iter().enumerate() {
                    let gbps = |sample: &weft_sim::outcome::ClassSample| {
                        sample.bytes[class].0 as f64 * 8e-9 / sample.window.as_secs_f64()
                    };
                    let y = outcome.samples.iter().map(gbps).collect();
                    lines.push(line(&plot.title, name, ("time (s)", "Gb/s"), (x.clone(), y)));
                }
            }
            "completion" => {
                let times =
                    outcome.flows.iter().filter_map(|flow| flow.completion).map(|time| time.as_secs_f64());
                lines.push(line(
                    &title,
                    row,
                    ("completion time (s)", "share of flows"),
                    distribution(times.collect()),
                ));
            }
            "spread" => {
                let spreads = metric::spreads(&unit.scenario, outcome);
                let labels = ("last less first completion of a server (s)", "share of servers");
                lines.push(line(&title, row, labels, distribution(spreads)));
            }
            "requests" => {
                let latencies = outcome.flows.iter().flat_map(|flow| &flow.requests.samples);
                let millis = latencies.map(|sample| sample.as_secs_f64() * 1e3).collect();
                lines.push(line(&title, row, ("latency (ms)", "share of requests"), distribution(millis)));
            }
            _ => {}
        }
    }
    lines
}

/// Returns the distribution function of values, in at most 200 points.
fn distribution(mut values: Vec<f64>) -> (Vec<f64>, Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let points = count.min(200);
    let at = |point: usize| ((point + 1) * count).div_ceil(points.max(1)) - 1;
    (0..points).map(|point| (values[at(point)], (at(point) + 1) as f64 / count as f64)).unzip()
}
