//! `--measured`: Titan's tables and figures with measurements on real packets of this machine.

use super::catalogue::{self, Fill, Measures, Reproduction};
use super::{ReproduceError, ReproduceOptions};
use crate::experiments::titan::measured::error::MeasuredError;
use crate::experiments::titan::measured::experiment::{self, Failed, MeasureSettings, Results, WEIGHTS_ID};
use crate::experiments::titan::measured::settings::RunSettings;
use std::collections::BTreeSet;
use std::time::Instant;
use weft_report::reproduce::Experiment;

/// The name for a group of experiments: all of Titan's, or with `--measured` its tables.
pub(super) const TITAN: &str = "titan";
/// The tables that [`TITAN`] names when they are measured.
const TABLES: [&str; 2] = ["titan-tr-table3", "titan-tr-table5"];
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
/// Fails for an unknown experiment, for one that cannot be measured although asked to be, and for one that can only be measured.
pub(super) fn resolve(options: &ReproduceOptions) -> Result<Vec<&'static dyn Reproduction>, ReproduceError> {
    let measured = options.measured.is_some();
    let given: Vec<&str> = match (options.ids.is_empty(), measured) {
        (true, true) => vec![TITAN],
        (true, false) => catalogue::ids(),
        (false, _) => options.ids.iter().map(String::as_str).collect(),
    };
    let mut all: Vec<&'static dyn Reproduction> = Vec::new();
    for id in given {
        let stands_for: Vec<&str> = match (id, measured) {
            // With a given flow count both tables would have the same cells.
            (TITAN, true) => TABLES[..if options.flows.is_some() { 1 } else { 2 }].to_vec(),
            // Native experiments need rights and real time, so they run only when named.
            (TITAN, false) => {
                catalogue::ids_where(|one| one.id().starts_with("titan-") && one.is_simulated())
            }
            (other, _) => vec![other],
        };
        for id in stands_for {
            let one = accepted(id, measured)?;
            if !all.iter().any(|known| known.id() == id) {
                all.push(one);
            }
        }
    }
    Ok(all)
}

/// Returns the experiment with this id if it can be measured, or run without.
fn accepted(id: &str, measured: bool) -> Result<&'static dyn Reproduction, ReproduceError> {
    let can_be_measured = |one: &dyn Reproduction| !matches!(one.measures(), Measures::Nothing);
    let given = id.to_owned();
    match catalogue::of(id) {
        Some(one) if measured && can_be_measured(one) => Ok(one),
        _ if measured => {
            let known = [vec![TITAN], catalogue::ids_where(can_be_measured)].concat().join(", ");
            Err(ReproduceError::NotMeasured { given, known })
        }
        Some(one) if matches!(one.measures(), Measures::Weights) => {
            Err(ReproduceError::OnlyMeasured(one.id()))
        }
        Some(one) => Ok(one),
        None => Err(ReproduceError::Unknown { given, known: catalogue::ids().join(", ") }),
    }
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
        let Some(one) = catalogue::of(&experiment.id) else { continue };
        let Measures::Cells(cells, runs, fill) = one.measures() else { continue };
        catalogue::require_rights(one.id())?;
        let runs = options.seeds.unwrap_or(runs);
        let mut progress = |done| progress(done, cells * runs as usize);
        fill_one(fill, (experiment, how), runs, cancelled, &mut progress)?;
    }
    Ok(())
}

fn fill_one(
    fill: Fill,
    (experiment, how): (&mut Experiment, &MeasuringOptions),
    runs: u32,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize),
) -> Result<(), ReproduceError> {
    let begin = Instant::now();
    experiment.forget_measured();
    match fill(experiment, how, runs, cancelled, progress) {
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
    /// Plans the rows and flow counts of experiments, and the experiment with weights if it is one of them.
    pub(super) fn new<'a>(
        measured: &MeasuringOptions,
        options: &ReproduceOptions,
        cells: impl Iterator<Item = (&'a str, u32)>,
        experiments: &[&dyn Reproduction],
    ) -> Self {
        let how = MeasureSettings { runs: runs(options), seed: options.seed, ..measured.measure.clone() };
        let here = cells.filter(|(row, _)| experiment::row(row, how.settings.inner).is_some());
        let keys = here.map(|(row, flows)| (row.to_owned(), flows)).collect();
        let weighted = experiments.iter().any(|one| matches!(one.measures(), Measures::Weights));
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
        catalogue::require_rights(TITAN)?;
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
            let measures = catalogue::of(&one.id).map(|one| one.measures());
            if let Some(Measures::Cells(..)) = measures {
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
        let ids = |ids: &[&str], measured, flows| -> Vec<&str> {
            let all = resolve(&options(ids, measured, flows)).unwrap_or_else(|error| panic!("{error}"));
            all.iter().map(|one| one.id()).collect()
        };
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
        let text = |ids: &[&str], measured| {
            resolve(&options(ids, measured, None)).err().map(|error| error.to_string()).unwrap_or_default()
        };
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
        let weights = catalogue::of("titan-weights").expect("listed");
        let plan = Plan::new(&measured, &options, cells, &[weights]);
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
        let how = options.measured.as_ref().expect("measured");
        let fill: Fill = |experiment, _, _, _, _| {
            experiment.cells[0].take_measured(vec![1.5]);
            Err(ReproduceError::Stopped)
        };
        fill_one(fill, (&mut experiment, how), 1, &|| true, &mut |_| ()).expect("no failure");
        assert!(experiment.notes.iter().any(|note| note == INTERRUPTED), "{:?}", experiment.notes);
        let measured: Vec<Option<f64>> = experiment.cells.iter().map(|cell| cell.measured).collect();
        assert_eq!((measured, experiment.measured_on), (vec![Some(1.5), None], None));
    }

    fn simulated_with(options: &ReproduceOptions, id: &str) -> ReproduceOptions {
        ReproduceOptions { ids: vec![id.to_owned()], measured: None, ..options.clone() }
    }
}
