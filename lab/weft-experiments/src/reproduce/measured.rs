//! `--measured`: Titan's tables and figures with measurements on real packets of this machine.

use super::local_experiments::LocalExperiment;
use super::{ReproduceError, ReproduceOptions, catalogue, local_experiments, native};
use crate::experiments::titan::measured::error::MeasuredError;
use crate::experiments::titan::measured::experiment::{self, Failed, MeasureSettings, Results, WEIGHTS_ID};
use crate::experiments::titan::measured::settings::RunSettings;
use std::collections::BTreeSet;
use std::time::Instant;
use weft_report::reproduce::Experiment;

/// The name for a group of experiments: all of Titan's, or with `--measured` its tables.
pub const TITAN: &str = "titan";
/// The tables that [`TITAN`] names when they are measured.
const TABLES: [&str; 2] = ["titan-tr-table3", "titan-tr-table5"];
/// Experiments whose rows and columns can be measured: the report's tables and micro-benchmarks. Its table 4 shows
/// best runs, its Figures 7 and 8 need several machines, and ATC'17 measures latency in another way.
const MEASURABLE: [&str; 7] = [
    "titan-tr-table3",
    "titan-tr-table5",
    "titan-tr-fig2",
    "titan-tr-fig3",
    "titan-tr-fig4",
    "titan-tr-fig5",
    "titan-tr-fig6",
];
/// The note of an experiment that was interrupted.
pub(super) const INTERRUPTED: &str = "measured: interrupted; cells without a measured value were not reached";
/// The default number of runs of a cell: the report's.
pub const RUNS: u32 = 5;

/// Parameters of measuring.
#[derive(Clone, Debug)]
pub struct MeasuringOptions {
    /// The measuring function. Its runs and first seed are those of [`ReproduceOptions`].
    pub measure: MeasureSettings,
    /// Whether the cells are also simulated.
    pub simulate: bool,
}

/// Returns the experiments to run, in order, each once. [`TITAN`] is resolved; an empty list means all, or Titan's
/// tables if they are measured.
///
/// # Errors
/// Fails for an experiment that cannot be measured although asked to be, and for one that can only be measured.
pub(super) fn resolve(options: &ReproduceOptions) -> Result<Vec<String>, ReproduceError> {
    let all = || catalogue::ids().iter().copied();
    let given: Vec<&str> = match (options.ids.is_empty(), &options.measured) {
        (true, Some(_)) => vec![TITAN],
        (true, None) => all().collect(),
        (false, _) => options.ids.iter().map(String::as_str).collect(),
    };
    let mut ids: Vec<String> = Vec::new();
    for id in given {
        let stands_for: Vec<&str> = match (id, &options.measured) {
            // With a given flow count both tables would have the same cells.
            (TITAN, Some(_)) => TABLES[..if options.flows.is_some() { 1 } else { 2 }].to_vec(),
            // Native experiments need rights and real time, so they run only when named.
            (TITAN, None) => {
                all().filter(|id| id.starts_with("titan-") && native::of(id).is_none()).collect()
            }
            (other, Some(_))
                if !MEASURABLE.contains(&other)
                    && other != WEIGHTS_ID
                    && local_experiments::of(other).is_none() =>
            {
                return Err(ReproduceError::NotMeasured {
                    given: other.to_owned(),
                    known: known().join(", "),
                });
            }
            (WEIGHTS_ID, None) => return Err(ReproduceError::OnlyMeasured(WEIGHTS_ID)),
            (other, _) => vec![other],
        };
        for id in stands_for {
            if !ids.iter().any(|known| known == id) {
                ids.push(id.to_owned());
            }
        }
    }
    Ok(ids)
}

/// Returns all names that `--measured` accepts.
fn known() -> Vec<&'static str> {
    let local = local_experiments::LOCAL_EXPERIMENTS.iter().map(|local| local.id);
    [&[TITAN], &MEASURABLE[..], &[WEIGHTS_ID]].concat().into_iter().chain(local).collect()
}

/// Returns the options for simulating cells that are also measured: as many seeds as runs, or none.
pub(super) fn simulated_options(options: &ReproduceOptions) -> ReproduceOptions {
    let seeds = match &options.measured {
        Some(measured) if !measured.simulate => Some(0),
        Some(_) => Some(options.seeds.unwrap_or(RUNS)),
        None => options.seeds,
    };
    ReproduceOptions { seeds, ..options.clone() }
}

/// Returns the number of runs that [`measure`] makes of each row and flow count.
fn runs(options: &ReproduceOptions) -> u32 {
    options.seeds.unwrap_or(RUNS)
}

/// Measures the experiments that have a separate way. `progress` receives the runs done and the runs in all.
///
/// When `cancelled` asks to stop, the cells measured before are kept, and a note says so.
///
/// # Errors
/// Fails when rights are missing or a measurement fails.
pub(super) fn fill_local(
    experiments: &mut [Experiment],
    options: &ReproduceOptions,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), ReproduceError> {
    let Some(how) = &options.measured else { return Ok(()) };
    for experiment in experiments {
        let Some(local) = local_experiments::of(&experiment.id) else { continue };
        weft_host::require_network_rights().map_err(|missing| ReproduceError::NotHere {
            id: local.id.to_owned(),
            reason: missing.to_string(),
        })?;
        fill_one(local, (experiment, how), options, cancelled, progress)?;
    }
    Ok(())
}

fn fill_one(
    local: &LocalExperiment,
    (experiment, how): (&mut Experiment, &MeasuringOptions),
    options: &ReproduceOptions,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize, usize),
) -> Result<(), ReproduceError> {
    let begin = Instant::now();
    experiment.forget_measured();
    let runs = options.seeds.unwrap_or(local.runs);
    let of = local.cells * runs as usize;
    match (local.fill)(experiment, how, runs, cancelled, &mut |done| progress(done, of)) {
        Err(ReproduceError::Stopped) => experiment.notes.push(INTERRUPTED.to_owned()),
        other => other?,
    }
    experiment.wall_s += begin.elapsed().as_secs_f64();
    Ok(())
}

/// Rows and flow counts to measure. Cells that several experiments share are measured once.
pub(super) struct Plan {
    how: MeasureSettings,
    keys: BTreeSet<experiment::RowKey>,
    weighted: Option<Experiment>,
}

impl Plan {
    /// Plans the rows and flow counts of experiments, and the experiment with weights if `ids` has it.
    pub(super) fn new<'a>(
        measured: &MeasuringOptions,
        options: &ReproduceOptions,
        cells: impl Iterator<Item = (&'a str, u32)>,
        ids: &[String],
    ) -> Self {
        let how = MeasureSettings { runs: runs(options), seed: options.seed, ..measured.measure.clone() };
        let here = cells.filter(|(row, _)| experiment::row(row, how.settings.inner).is_some());
        let keys = here.map(|(row, flows)| (row.to_owned(), flows)).collect();
        let weighted = ids.iter().any(|id| id == WEIGHTS_ID);
        // With as many flows as groups, each has a separate queue.
        let weighted = weighted.then(|| experiment::weighted_experiment(options.flows.unwrap_or(3)));
        Self { how, keys, weighted }
    }

    /// Returns the number of runs.
    pub(super) fn len(&self) -> usize {
        (self.keys.len() + self.weighted.iter().count()) * self.how.runs as usize
    }

    /// Makes the runs. `progress` receives the number done.
    ///
    /// # Errors
    /// Fails when rights are missing, the first run fails, or `cancelled` asks to stop.
    pub(super) fn run(
        self,
        cancelled: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(usize),
    ) -> Result<Seen, ReproduceError> {
        if self.len() == 0 {
            return Ok(Seen {
                settings: self.how.settings,
                results: Results::default(),
                seconds: 0.0,
                weighted: None,
            });
        }
        weft_host::require_network_rights()
            .map_err(|error| ReproduceError::NotHere { id: TITAN.to_owned(), reason: error.to_string() })?;
        let (results, seconds) = timed(&self.how, &self.keys, TITAN, cancelled, progress)?;
        let done = self.keys.len() * self.how.runs as usize;
        let weighted = match self.weighted {
            Some(weighted) => {
                let mut how = self.how.clone();
                how.settings.weights = Some(experiment::weights());
                let keys = experiment::keys(&weighted, how.settings.inner);
                let (results, seconds) =
                    timed(&how, &keys, WEIGHTS_ID, cancelled, &mut |more| progress(done + more))?;
                Some(Experiment { wall_s: seconds, ..experiment::fill_weighted(weighted, &results) })
            }
            None => None,
        };
        Ok(Seen { settings: self.how.settings, results, seconds, weighted })
    }
}

/// Measures, and returns the seconds that it took.
fn timed(
    how: &MeasureSettings,
    keys: &BTreeSet<experiment::RowKey>,
    id: &str,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize),
) -> Result<(Results, f64), ReproduceError> {
    let begin = Instant::now();
    let results = experiment::measure(how, keys, &cancelled, progress).map_err(|failed| match &*failed {
        Failed { error: MeasuredError::Stopped, .. } => ReproduceError::Stopped,
        failed => ReproduceError::Native { id: id.to_owned(), reason: failed.to_string() },
    })?;
    Ok((results, begin.elapsed().as_secs_f64()))
}

/// Results of all measurements.
pub(super) struct Seen {
    settings: RunSettings,
    results: Results,
    /// Seconds taken, without the part with weights.
    seconds: f64,
    weighted: Option<Experiment>,
}

impl Seen {
    /// Enters the results into the experiments; the one with weights comes last.
    pub(super) fn fill(self, experiments: Vec<Experiment>) -> Vec<Experiment> {
        let total = self.results.runs.values().map(Vec::len).sum::<usize>().max(1) as f64;
        let fill = |mut one: Experiment| {
            if local_experiments::of(&one.id).is_some() {
                return one;
            }
            let keys = experiment::keys(&one, self.settings.inner);
            let results = of(&self.results, &keys);
            // The experiment's part of the time; shared runs count for each.
            let runs: usize = results.runs.values().map(Vec::len).sum();
            one.wall_s += self.seconds * runs as f64 / total;
            experiment::fill(one, &results, &self.settings)
        };
        experiments.into_iter().map(fill).chain(self.weighted.clone()).collect()
    }
}

/// Returns the results of some rows and flow counts, with all failures.
fn of(results: &Results, keys: &BTreeSet<experiment::RowKey>) -> Results {
    let runs = results.runs.iter().filter(|(key, _)| keys.contains(*key));
    Results {
        runs: runs.map(|(key, runs)| (key.clone(), runs.clone())).collect(),
        failures: results.failures.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::local_experiments::Fill;
    use super::*;
    use crate::experiments::titan::measured::nic;
    use crate::experiments::titan::measured::path::PathError;

    fn options(ids: &[&str], measured: bool, flows: Option<u32>) -> ReproduceOptions {
        let settings = RunSettings::default();
        let measure = MeasureSettings { settings, runs: RUNS, seed: 1, open: nic::open };
        ReproduceOptions {
            ids: ids.iter().map(|id| (*id).to_owned()).collect(),
            flows,
            measured: measured.then_some(MeasuringOptions { measure, simulate: false }),
            threads: 1,
            seed: 1,
            ..ReproduceOptions::default()
        }
    }

    #[test]
    fn titan_is_a_group() {
        let ids = |ids: &[&str], measured, flows| resolve(&options(ids, measured, flows)).expect("known");
        assert_eq!(ids(&["titan"], true, None), TABLES);
        assert_eq!(ids(&[], true, None), TABLES);
        assert_eq!(ids(&["titan"], true, Some(24)), TABLES[..1]);
        assert_eq!(
            ids(&["titan-tr-table5", "titan"], true, None),
            ["titan-tr-table5", "titan-tr-table3"],
            "once"
        );
        assert_eq!(ids(&[], false, None), catalogue::ids());
        let all = ids(&["titan"], false, None);
        assert!(all.len() > 10 && all.iter().all(|id| id.starts_with("titan-")), "{all:?}");
        assert_eq!(ids(&["loom-fig2"], false, None), ["loom-fig2"]);
    }

    #[test]
    fn what_cannot_be_measured_is_said() {
        let text =
            |ids: &[&str], measured| resolve(&options(ids, measured, None)).expect_err("refused").to_string();
        let other = text(&["loom-fig9"], true);
        assert!(
            other.contains("loom-fig9") && other.contains("loom-fig2") && other.contains("titan-tr-table3"),
            "{other}"
        );
        assert!(text(&["titan-weights"], false).contains("--measured"));
    }

    #[test]
    fn each_row_and_flow_count_is_measured_once() {
        let options = options(&["titan"], true, None);
        let measured = options.measured.clone().expect("measured");
        let simulated = simulated_options(&options);
        assert_eq!(simulated.seeds, Some(0));
        let table = super::super::run(&simulated_with(&simulated, "titan-tr-table3"), &|| false, |_, _| ());
        let table = table.expect("no run, no failure");
        let figure = super::super::run(&simulated_with(&simulated, "titan-tr-fig2"), &|| false, |_, _| ());
        let both = [table, figure.expect("no run, no failure")].concat();
        assert!(both[0].cells.iter().all(|cell| cell.simulated.is_none() && cell.published.is_some()));
        let cells = both.iter().flat_map(|one| &one.cells).map(|cell| (cell.row.as_str(), cell.flows));
        let plan = Plan::new(&measured, &options, cells, &["titan-weights".to_owned()]);
        // Eight rows at 3 and 12 flows; the figure's two at 6 and 48 more; one with weights.
        assert_eq!(plan.len(), (16 + 4 + 1) * 5);
    }

    /// A path that cannot be opened fails at once, before anything is simulated in vain.
    #[test]
    fn a_failure_ends_all_before_anything_is_simulated() {
        let mut options = options(&["titan"], true, None);
        let measured = options.measured.as_mut().expect("measured");
        measured.measure.open = |settings| Err(PathError::Other(format!("no NIC for {}", settings.config)));
        measured.simulate = true;
        options.seeds = Some(100_000);
        let error = super::super::run(&options, &|| false, |_, _| ()).expect_err("no NIC");
        let expected = match weft_host::require_network_rights() {
            Ok(()) => "no NIC for hash".to_owned(),
            Err(missing) => missing.to_string(),
        };
        assert!(error.to_string().contains(&expected), "{error}");
        let stopped = super::super::run(&options, &|| true, |_, _| ()).expect_err("stopped");
        let stopped_or_refused = matches!(stopped, ReproduceError::Stopped | ReproduceError::NotHere { .. });
        assert!(stopped_or_refused, "{stopped}");
    }

    #[test]
    fn an_interruption_keeps_the_cells_measured_before() {
        let options = options(&["hoststack-outcast"], true, None);
        let mut experiment = Experiment::new("hoststack-outcast", "outcast", "section 3");
        let cell = |row: &str, flows| weft_report::reproduce::TableCell {
            row: row.to_owned(),
            column: "gbps".to_owned(),
            flows,
            ..Default::default()
        };
        experiment.cells = vec![cell("NoOpt", 1), cell("NoOpt", 8)];
        // Of a file, and of another machine.
        experiment.cells[1].take_measured(vec![2.5]);
        experiment.measured_on = Some("elsewhere".to_owned());
        let fill: Fill = |experiment, _, _, _, _| {
            experiment.cells[0].take_measured(vec![1.5]);
            Err(ReproduceError::Stopped)
        };
        let local = LocalExperiment { id: "hoststack-outcast", runs: 1, cells: 2, fill };
        let how = options.measured.as_ref().expect("measured");
        fill_one(&local, (&mut experiment, how), &options, &|| true, &mut |_, _| ()).expect("no failure");
        assert!(experiment.notes.iter().any(|note| note == INTERRUPTED), "{:?}", experiment.notes);
        let measured: Vec<Option<f64>> = experiment.cells.iter().map(|cell| cell.measured).collect();
        assert_eq!((measured, experiment.measured_on), (vec![Some(1.5), None], None));
    }

    fn simulated_with(options: &ReproduceOptions, id: &str) -> ReproduceOptions {
        ReproduceOptions { ids: vec![id.to_owned()], measured: None, ..options.clone() }
    }
}
