//! The cells of the papers' tables, computed from runs.

use super::{Results, claims};
use crate::experiments::titan::measured::run::SteadyFigures;
use crate::experiments::titan::measured::settings::{InnerQdisc, RunSettings};
use weft_report::reproduce::{Experiment, Series, TableCell};

type Value = fn(&SteadyFigures) -> Option<f64>;

/// The papers' columns.
const COLUMNS: [(&str, Value); 5] = [
    ("throughput_gbps", |figures| Some(figures.throughput.get() as f64 * 1e-9)),
    ("cpu_percent", |figures| Some(figures.cpu_percent)),
    ("latency", |figures| figures.round_trips.p90().map(|seconds| seconds * 1e3)),
    ("nfm_1ms", |figures| figures.nfm_1ms.map(|nfm| nfm.mean)),
    ("nfm_1s", |figures| figures.nfm_1s.map(|nfm| nfm.mean)),
];

/// Columns without published values.
const MORE: [(&str, &str, Value); 7] = [
    ("latency_mean", "ms", |figures| figures.round_trips.mean().map(|seconds| seconds * 1e3)),
    ("cpu_nic_percent", "%", |figures| Some(figures.cpu_nic_percent)),
    ("cpu_host_percent", "%", |figures| Some((figures.cpu_percent - figures.cpu_nic_percent).max(0.0))),
    ("retransmitted", "segments", |figures| Some(figures.retransmitted as f64)),
    ("weights_age", "ms", |figures| figures.weights.map(|ages| ages.mean().as_secs_f64() * 1e3)),
    ("weights_age_max", "ms", |figures| figures.weights.map(|ages| ages.max.as_secs_f64() * 1e3)),
    ("out_of_order", "packets", |figures| Some(figures.out_of_order as f64)),
];

/// Enters the measurements into an experiment's cells, and adds the columns without published values, the claims, and
/// notes for the reader.
pub fn fill(mut experiment: Experiment, results: &Results, settings: &RunSettings) -> Experiment {
    for cell in &mut experiment.cells {
        if let Some((_, value)) = COLUMNS.iter().find(|(column, _)| *column == cell.column) {
            take(cell, results, *value);
        }
    }
    add_columns(&mut experiment, results, settings);
    add_lines(&mut experiment);
    let said = claims(&experiment, results, settings);
    experiment.claims.extend(said);
    experiment.notes.extend(notes(results, settings));
    experiment.finish()
}

fn take(cell: &mut TableCell, results: &Results, value: Value) {
    let runs = results.runs.get(&(cell.row.clone(), cell.flows)).into_iter().flatten();
    cell.take_measured(runs.filter_map(value).collect());
}

fn add_columns(experiment: &mut Experiment, results: &Results, settings: &RunSettings) {
    let mut added = Vec::new();
    let of_column = |name: &'static str| experiment.cells.iter().filter(move |cell| cell.column == name);
    let measured = |cell: &&TableCell| results.runs.contains_key(&(cell.row.clone(), cell.flows));
    if let Some(column) = settings.equal_packets_column() {
        for cell in of_column("nfm_1ms").filter(measured) {
            let mut new = TableCell {
                row: cell.row.clone(),
                column: column.clone(),
                flows: cell.flows,
                published: cell.published,
                unit: cell.unit.clone(),
                floor: cell.floor,
                ..TableCell::default()
            };
            take(&mut new, results, |figures| figures.nfm_equal_packets.map(|nfm| nfm.mean));
            added.push(new);
        }
    }
    // Only whole tables get the other columns: a figure is about fairness alone.
    for (column, unit, value) in MORE {
        for cell in of_column("cpu_percent").filter(measured) {
            let mut new = TableCell {
                row: cell.row.clone(),
                column: column.to_owned(),
                flows: cell.flows,
                unit: unit.to_owned(),
                ..TableCell::default()
            };
            take(&mut new, results, value);
            added.push(new);
        }
    }
    experiment.cells.extend(added);
}

/// Adds a measured line for each line of a column over the flow counts.
fn add_lines(experiment: &mut Experiment) {
    let measured = |line: &Series| -> Option<Series> {
        let cells = experiment.cells.iter();
        let here = cells.filter(|cell| cell.row == line.name && cell.column == line.y_label);
        let points = here.filter_map(|cell| Some((f64::from(cell.flows), cell.measured?)));
        let (x, y): (Vec<f64>, Vec<f64>) = points.unzip();
        (!x.is_empty()).then(|| Series { name: format!("{}, measured", line.name), x, y, ..line.clone() })
    };
    let lines: Vec<Series> =
        experiment.series.iter().filter(|line| line.x_label == "flows").filter_map(measured).collect();
    experiment.series.retain(|line| !line.x.is_empty());
    experiment.series.extend(lines);
}

fn notes(results: &Results, settings: &RunSettings) -> Vec<String> {
    let mut notes = vec![format!(
        "measured: real packets at {}, {} queues with {} inside, {} of warm-up and {} measured; simulated and published: 10 Gb/s",
        settings.rate, settings.queues, settings.inner, settings.warm_up, settings.duration
    )];
    if settings.inner == InnerQdisc::Pfifo {
        notes.push(
            "measured with pfifo inside the queues; the paper's rows but C1 and C2 have SFQ".to_owned(),
        );
    }
    if let Some(column) = settings.equal_packets_column() {
        notes.push(format!(
            "{column} has as many packets as 1 ms at 10 Gb/s; the published value beside it is that of nfm_1ms"
        ));
    }
    notes.push(
        "measured cpu_percent covers the whole machine: senders, receivers, kernel and the NIC (cpu_nic_percent); the paper's \
         covers the sending server only"
            .to_owned(),
    );
    let runs = || results.runs.values().flatten();
    let (sent, unanswered) = runs().fold((0, 0), |(sent, unanswered), figures| {
        let trips = &figures.round_trips;
        (sent + trips.sent, unanswered + trips.unanswered())
    });
    if unanswered * 100 > sent {
        notes.push(format!(
            "{unanswered} of {sent} pings were not answered in time, and latency is that of the others"
        ));
    }
    notes.extend(results.failures.iter().map(|failure| format!("a run failed: {failure}")));
    notes
}
