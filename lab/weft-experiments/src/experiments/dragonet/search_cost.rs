//! The duration of the search: the slides' table (TRIOS'15), on the same workload.
//!
//! `naive` and `incremental` are the paper's two algorithms, implemented again; `weftline` is ours. The paper's times
//! are those of its Haskell program on its machine, so only the columns measured here are comparable.

use crate::experiments::{ExperimentError, ExperimentRequest, Native};
use std::time::Instant;
use weft_facts::stats;
use weft_report::judgement::Judgement;
use weft_report::reproduce::{Experiment, Series, TableCell};
use weft_steer::Flow;
use weft_steer::nic::Nic;
use weft_steer::policy::{Balance, PolicyFile};
use weft_steer::search::dragonet::{Incremental, naive};
use weft_steer::search::workload::{dragonet_nic, exact_table_nic, many, slides, slides_more};
use weft_steer::search::{Options, PlanError, Planner};

/// The experiment's id.
pub const ID: &str = "dragonet-search-cost";
/// The experiment.
pub(crate) const NATIVE: Native = Native {
    id: ID,
    title: "Search cost on an Intel 82599 with 10 queues, policy balance",
    source: "Dragonet, TRIOS'15, slides: search cost",
    needs_rights: false,
    run: experiment,
};

/// Flow counts of the slides.
const FLOWS: [u32; 4] = [10, 100, 250, 500];
/// Flow counts of our own plot.
const CURVE: [u32; 4] = [1_000, 10_000, 50_000, 100_000];
/// Queue counts: on the slides, the first being the catch-all; and at the end of the plot.
const QUEUES: u32 = 10;
const MANY_QUEUES: u32 = 1024;
/// Runs for each median.
const RUNS: usize = 5;
/// The most flows for the naive search, which is quadratic or worse.
const MOST_NAIVE: u32 = 500;

fn options(queues: u32) -> Options {
    Options { queues: Some(queues), reserve_default: true, all_tables: true, ..Options::default() }
}

/// Runs the experiment; fails when it was stopped.
fn experiment(
    given: &ExperimentRequest,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Experiment, ExperimentError> {
    let begin = Instant::now();
    let failed = |reason: String| ExperimentError::Failed { id: ID.to_owned(), reason };
    let nic = dragonet_nic(QUEUES);
    let mut experiment = NATIVE.record();
    let published = published()?;
    let flows: Vec<u32> = given.flows.map_or_else(|| FLOWS.to_vec(), |flows| vec![flows]);
    let steps = flows.len() + usize::from(given.flows.is_none());
    for (step, &count) in flows.iter().enumerate() {
        progress(step, steps);
        for (row, times) in rows(&nic, count, cancelled).map_err(|error| failed(error.to_string()))? {
            for (column, seconds) in times {
                experiment.cells.push(TableCell {
                    row: row.to_owned(),
                    column: column.to_owned(),
                    flows: count,
                    published: published
                        .iter()
                        .find(|(r, c, f, _)| *r == row && *c == column && *f == count)
                        .map(|(_, _, _, value)| *value),
                    measured: Some(seconds),
                    unit: "s".to_owned(),
                    runs: RUNS as u32,
                    floor: 1e-9,
                    ..TableCell::default()
                });
            }
            if cancelled() {
                return Err(ExperimentError::Stopped);
            }
        }
    }
    goals(&mut experiment);
    if given.flows.is_none() {
        progress(flows.len(), steps);
        curve(&mut experiment, cancelled).map_err(|error| failed(error.to_string()))?;
    }
    if cancelled() {
        return Err(ExperimentError::Stopped);
    }
    experiment.notes.push(
        "published: a Haskell program on the authors' machine; the other columns are this machine, median of five".to_owned(),
    );
    experiment.wall_s = begin.elapsed().as_secs_f64();
    Ok(experiment.finish())
}

type Times = Vec<(&'static str, f64)>;

/// Returns the rows of a flow count.
fn rows(
    nic: &Nic,
    count: u32,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<(&'static str, Times)>, PlanError> {
    let flows = workload(count);
    let (policy, options) = (PolicyFile::from(Balance::default()), options(QUEUES));
    let mut out = Vec::new();
    if count <= MOST_NAIVE {
        let full = median(RUNS, cancelled, || Ok(()), |()| drop(naive(nic, &policy, &options, &flows)))?;
        out.push(("naive", vec![("full_s", full)]));
        out.push(("incremental", incremental(nic, &policy, &options, &flows, cancelled)?));
    }
    let ours = || Planner::new(nic.clone(), Balance::default(), options.clone());
    let full = median(RUNS, cancelled, ours, |planner| planned(planner, &flows))?;
    let mut times = vec![("full_s", full)];
    times.extend(events(nic, &flows, QUEUES, cancelled)?);
    out.push(("weftline", times));
    Ok(out)
}

/// Measures the paper's incremental search: from nothing, and from the state with that many flows.
fn incremental(
    nic: &Nic,
    policy: &PolicyFile,
    options: &Options,
    flows: &[Flow],
    cancelled: &dyn Fn() -> bool,
) -> Result<Times, PlanError> {
    let empty = || Ok(Incremental::new(nic, policy, options));
    let all = |search: &mut Incremental<'_>| {
        for flow in flows {
            search.add(flow);
        }
    };
    let mut times = vec![("full_s", median(RUNS, cancelled, empty, all)?)];
    let ready = || {
        let mut search = Incremental::new(nic, policy, options);
        all(&mut search);
        Ok(search)
    };
    for (column, changed) in EVENTS {
        let (add, new) = (column.starts_with("add"), slides_more(1, changed));
        let seconds = median(RUNS, cancelled, ready, |search| {
            if add {
                for flow in &new {
                    search.add(flow);
                }
            } else {
                (0..usize::from(changed).min(flows.len()))
                    .for_each(|number| search.remove(number * 7 % flows.len()));
            }
        })?;
        times.push((column, seconds));
    }
    Ok(times)
}

/// Columns of events, and the numbers of flows added or removed.
const EVENTS: [(&str, u16); 4] = [("add_1_s", 1), ("add_10_s", 10), ("remove_1_s", 1), ("remove_10_s", 10)];

/// Runs our search over all flows, up to a plan that a NIC accepts.
fn planned(planner: &mut Planner, flows: &[Flow]) {
    drop(planner.set(flows.to_vec()));
    drop(planner.plan());
}

/// Measures our additions and removals, each from the same state.
fn events(nic: &Nic, flows: &[Flow], queues: u32, cancelled: &dyn Fn() -> bool) -> Result<Times, PlanError> {
    let mut out = Times::new();
    for (column, changed) in EVENTS {
        let (add, new) = (column.starts_with("add"), slides_more(1, changed));
        let ready = || -> Result<_, PlanError> {
            let mut planner = Planner::new(nic.clone(), Balance::default(), options(queues))?;
            let ids = planner.set(flows.to_vec());
            // Spread over the queues; 7 is coprime to the counts.
            let going: Vec<_> =
                (0..usize::from(changed).min(ids.len())).map(|i| ids[i * 7 % ids.len()]).collect();
            Ok((planner, going, new.clone()))
        };
        let seconds = median(RUNS, cancelled, ready, |(planner, going, new)| {
            if add {
                drop(planner.add(std::mem::take(new)));
            } else {
                planner.remove(going);
            }
            // The state from which a full search's plan follows.
            drop(planner.plan());
        })?;
        out.push((column, seconds));
    }
    Ok(out)
}

/// Returns the slides' flows; beyond the range of their ports, flows of many clients.
fn workload(count: u32) -> Vec<Flow> {
    match u16::try_from(count) {
        Ok(count) if count <= 60_000 => slides(count),
        _ => many(count),
    }
}

/// Returns the median seconds of an operation on state made anew each time.
fn median<S>(
    runs: usize,
    cancelled: &dyn Fn() -> bool,
    make: impl Fn() -> Result<S, PlanError>,
    mut work: impl FnMut(&mut S),
) -> Result<f64, PlanError> {
    let mut times = Vec::new();
    for _ in 0..runs {
        let mut subject = make()?;
        let begin = Instant::now();
        work(&mut subject);
        times.push(begin.elapsed().as_secs_f64());
        if cancelled() {
            break;
        }
    }
    Ok(stats::median(&times).unwrap_or(f64::NAN))
}

/// Adds our goals as claims.
fn goals(experiment: &mut Experiment) {
    for (column, flows, limit, statement) in [
        ("full_s", 500, 20e-3, "our goal: a full search for 500 flows takes less than 20 ms"),
        ("add_1_s", 500, 50e-6, "our goal: one more flow takes less than 50 us"),
        ("remove_10_s", 500, 10e-6, "our goal: ten flows less take less than 10 us"),
    ] {
        let cell = |row: &str, column: &str| {
            let mut cells = experiment.cells.iter();
            cells
                .find(|cell| cell.row == row && cell.column == column && cell.flows == flows)
                .and_then(|cell| cell.measured)
        };
        let Some(seen) = cell("weftline", column) else { continue };
        let naive = cell("naive", "full_s");
        let within = |seconds: f64| Judgement::of(seconds < limit);
        let text = format!("{:.1} us", seen * 1e6);
        experiment.claim_judged(
            statement,
            &format!("weftline.{column}@{flows} < {limit}"),
            text,
            within(seen),
        );
        if let Some(naive) = naive {
            experiment.null_of_last("each change is a naive search", &within(naive));
        }
    }
}

/// Adds up to 100,000 flows and 1,024 queues, on a NIC with tables of that size.
fn curve(experiment: &mut Experiment, cancelled: &dyn Fn() -> bool) -> Result<(), PlanError> {
    let nic = exact_table_nic(MANY_QUEUES, 2 * CURVE[CURVE.len() - 1]);
    let mut lines: Vec<(&str, Vec<f64>, Vec<f64>)> = Vec::new();
    for count in CURVE {
        let flows = many(count);
        let ours = || Planner::new(nic.clone(), Balance::default(), options(MANY_QUEUES));
        let full = median(RUNS, cancelled, ours, |planner| planned(planner, &flows))?;
        let mut times = vec![("full_s", full)];
        times.extend(events(&nic, &flows, MANY_QUEUES, cancelled)?);
        for (column, seconds) in times {
            let at = lines.iter().position(|(name, _, _)| *name == column).unwrap_or_else(|| {
                lines.push((column, Vec::new(), Vec::new()));
                lines.len() - 1
            });
            lines[at].1.push(f64::from(count));
            lines[at].2.push(seconds);
            experiment.cells.push(TableCell {
                row: format!("weftline, {MANY_QUEUES} queues"),
                column: column.to_owned(),
                flows: count,
                measured: Some(seconds),
                unit: "s".to_owned(),
                floor: 1e-9,
                ..TableCell::default()
            });
        }
        if cancelled() {
            return Ok(());
        }
    }
    for (name, x, y) in lines {
        experiment.series.push(Series {
            plot: format!("Search cost with {MANY_QUEUES} queues"),
            name: name.to_owned(),
            x_label: "flows".to_owned(),
            y_label: "seconds".to_owned(),
            kind: "line".to_owned(),
            x,
            y,
        });
    }
    Ok(())
}

/// Row, column, flow count, seconds.
type Published = Vec<(&'static str, String, u32, f64)>;

/// Returns the slides' table. Its additions and removals are those of the incremental search.
fn published() -> Result<Published, ExperimentError> {
    let wrong = |reason: &str| ExperimentError::Failed {
        id: ID.to_owned(),
        reason: format!("published/dragonet.csv: {reason}"),
    };
    let text = include_str!("../../../../../experiments/published/dragonet.csv");
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().ok_or_else(|| wrong("empty"))?.split(',').collect();
    let mut out = Vec::new();
    for line in lines {
        let values: Vec<&str> = line.split(',').collect();
        let flows =
            values.first().and_then(|text| text.parse().ok()).ok_or_else(|| wrong("no flow count"))?;
        for (head, value) in heads.iter().zip(&values).skip(1) {
            let value = value.parse().map_err(|_| wrong("no number"))?;
            match head.strip_prefix("naive_") {
                Some(column) => out.push(("naive", column.to_owned(), flows, value)),
                None => {
                    let column = head.strip_prefix("incremental_").unwrap_or(head);
                    out.push(("incremental", column.to_owned(), flows, value));
                }
            }
        }
    }
    Ok(out)
}
