//! The document of `weft bench workers`: several workers with one policy, as fast as they are and as exact as they are simulated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rounds::Rounds;
use crate::svg::{Line, LogChart, Stroke};
use weft_facts::record::{Document, Host};
use weft_facts::table::{Cell, Column, Table};
use weft_facts::{human, stats};

/// The document of `weft bench workers`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkersReport {
    /// `weft-bench-workers/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The seed of all random choices.
    pub seed: u64,
    /// The speed on this machine; null if it was not measured.
    pub speed: Option<WorkersSpeed>,
    /// The errors in the simulation, by way and number of workers; empty if they were not simulated.
    pub errors: Vec<WorkersError>,
}

/// The speeds of workers, each run by run: runs of the same number are consecutive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkersSpeed {
    /// Number of workers.
    pub workers: u32,
    /// Number of flows of each engine.
    pub flows: u32,
    /// The policy, if it is one of the user's own; else Figure 1's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<WorkersPolicy>,
    /// Packets per second of one worker.
    pub one_runs_pps: Vec<f64>,
    /// Packets per second of all workers that share the policy.
    pub shared_runs_pps: Vec<f64>,
    /// Packets per second of as many workers that take turns with one engine, by a lock.
    pub lock_runs_pps: Vec<f64>,
    /// Packets per second of as many engines that share nothing: the most that this machine gives them.
    pub apart_runs_pps: Vec<f64>,
    /// Median of one worker.
    pub one_pps: f64,
    /// Median of the workers that share the policy.
    pub shared_pps: f64,
    /// Median of the workers with a lock.
    pub lock_pps: f64,
    /// Median of the engines that share nothing.
    pub apart_pps: f64,
    /// Median of the ratios of sharing workers to one, run by run.
    pub shared_ratio_median: Option<f64>,
    /// Median of the ratios of workers with a lock to one, run by run.
    pub lock_ratio_median: Option<f64>,
    /// Median of the ratios of engines that share nothing to one, run by run.
    pub apart_ratio_median: Option<f64>,
    /// Median of the ratios of sharing workers to engines that share nothing, run by run: what sharing leaves.
    pub shared_of_apart_median: Option<f64>,
}

/// A policy of the user's own that workers are measured with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkersPolicy {
    /// The name of its file.
    pub file: String,
    /// Number of lanes.
    pub lanes: u64,
    /// Number of limits.
    pub limits: u64,
    /// Length of all packets.
    pub packet_bytes: u64,
    /// The rate of the link in whose time limits bind.
    pub link_bps: f64,
}

impl WorkersSpeed {
    /// The medians of runs, each of one worker, sharing workers, workers with a lock, and engines that share nothing.
    pub fn new(workers: u32, flows: u32, runs: &Rounds<f64>) -> Self {
        let of = |way: usize| runs.figures(way, |pps| *pps);
        let median = |way: usize| runs.median(way, |pps| *pps).unwrap_or(0.0);
        let ratio = |way: usize, to: usize| stats::median(&runs.ratios(way, to, |pps| *pps));
        Self {
            workers,
            flows,
            policy: None,
            one_runs_pps: of(0),
            shared_runs_pps: of(1),
            lock_runs_pps: of(2),
            apart_runs_pps: of(3),
            one_pps: median(0),
            shared_pps: median(1),
            lock_pps: median(2),
            apart_pps: median(3),
            shared_ratio_median: ratio(1, 0),
            lock_ratio_median: ratio(2, 0),
            apart_ratio_median: ratio(3, 0),
            shared_of_apart_median: ratio(1, 3),
        }
    }

    /// The same, of this policy.
    #[must_use]
    pub fn of(self, policy: Option<WorkersPolicy>) -> Self {
        Self { policy, ..self }
    }

    fn title(&self) -> String {
        let flows = self.flows;
        self.policy.as_ref().map_or_else(
            || format!("Workers, {flows} flows each"),
            |policy| {
                let (file, len, link) = (&policy.file, policy.packet_bytes, human::rate(policy.link_bps));
                format!("Workers with {file}, {flows} flows each, packets of {len} bytes on a link of {link}")
            },
        )
    }

    fn table(&self) -> Table {
        let mut table = Table::new(self.title()).columns([
            Column::left("workers"),
            Column::right("median"),
            Column::right("least .. most"),
            Column::right("of one"),
        ]);
        let many = self.workers;
        for (name, runs, median, ratio) in [
            ("1".to_owned(), &self.one_runs_pps, self.one_pps, None),
            (format!("{many}, one policy"), &self.shared_runs_pps, self.shared_pps, self.shared_ratio_median),
            (format!("{many}, one lock"), &self.lock_runs_pps, self.lock_pps, self.lock_ratio_median),
            (
                format!("{many}, nothing shared"),
                &self.apart_runs_pps,
                self.apart_pps,
                self.apart_ratio_median,
            ),
        ] {
            let spread = stats::min(runs).zip(stats::max(runs));
            table.row([
                Cell::plain(name),
                human::pps(median).into(),
                human::or_none(spread, |(a, b)| format!("{} .. {}", human::pps(a), human::pps(b))).into(),
                human::or_none(ratio, human::times).into(),
            ]);
        }
        table
    }
}

/// The largest errors of one way with a number of workers, in any 100 ms of the simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkersError {
    /// The way: `shared`, `one-lock` or `equal-split`.
    #[schemars(extend("enum" = ["shared", "one-lock", "equal-split"]))]
    pub way: String,
    /// Number of workers.
    pub workers: u32,
    /// Of a class's share, as a part of the share.
    pub share_error: f64,
    /// Of a limit that is exceeded, as a part of it; negative if it never is.
    pub limit_above: f64,
    /// Of a limit that is not reached, as a part of it.
    pub limit_below: f64,
    /// As `limit_above`, of the limit of a class that is at one worker after the other.
    pub moving_above: f64,
    /// As `limit_below`, of that limit.
    pub moving_below: f64,
    /// As `limit_above`, of a limit whose rate changes while all classes are backlogged.
    pub changes_above: f64,
    /// As `limit_below`, of that limit.
    pub changes_below: f64,
    /// The rate of all classes together.
    pub sent_bps: f64,
}

/// The least error that the chart shows, in percent.
const LEAST: f64 = 0.001;

impl WorkersReport {
    /// The growth of the errors with the number of workers, as an SVG file.
    pub fn chart(&self) -> String {
        let mut numbers: Vec<u32> = self.errors.iter().map(|row| row.workers).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut ways: Vec<&str> = Vec::new();
        for row in &self.errors {
            if !ways.contains(&row.way.as_str()) {
                ways.push(&row.way);
            }
        }
        type Kind = (&'static str, Stroke, fn(&WorkersError) -> f64);
        let kinds: [Kind; 3] = [
            ("share", Stroke::Solid, |row| row.share_error),
            ("above the limit", Stroke::Dashed, |row| row.limit_above),
            ("below the limit", Stroke::Dotted, |row| row.limit_below),
        ];
        let line = |(colour, way): (usize, &str), (kind, stroke, of): &Kind| {
            let rows = self.errors.iter().filter(|row| row.way == way);
            let points = rows.map(|row| (f64::from(row.workers), 100.0 * of(row))).collect();
            Line { name: format!("{way}: {kind}"), colour, stroke: *stroke, points }
        };
        let each = |way: (usize, &str)| kinds.iter().map(|kind| line(way, kind)).collect::<Vec<_>>();
        let chart = LogChart {
            title: "largest error in any 100 ms, in percent, over the number of workers".to_owned(),
            x: numbers.into_iter().map(f64::from).collect(),
            y: vec![LEAST, 0.01, 0.1, 1.0, 10.0, 100.0],
            lines: ways.into_iter().enumerate().flat_map(each).collect(),
        };
        chart.render()
    }

    fn table_of_errors(&self) -> Table {
        let mut table = Table::new("Largest errors in any 100 ms, simulated").columns([
            Column::left("way"),
            Column::right("workers"),
            Column::right("share"),
            Column::right("above the limit"),
            Column::right("below the limit"),
            Column::right("moving, above"),
            Column::right("below"),
            Column::right("changes, above"),
            Column::right("below"),
            Column::right("sent"),
        ]);
        for row in &self.errors {
            table.row([
                Cell::plain(&row.way),
                row.workers.to_string().into(),
                human::percent(row.share_error).into(),
                human::percent(row.limit_above.max(0.0)).into(),
                human::percent(row.limit_below.max(0.0)).into(),
                human::percent(row.moving_above.max(0.0)).into(),
                human::percent(row.moving_below.max(0.0)).into(),
                human::percent(row.changes_above.max(0.0)).into(),
                human::percent(row.changes_below.max(0.0)).into(),
                human::rate(row.sent_bps).into(),
            ]);
        }
        table
    }
}

impl Document for WorkersReport {
    const SCHEMA: &'static str = "weft-bench-workers/1";

    fn tables(&self) -> Vec<Table> {
        let mut tables: Vec<Table> = self.speed.iter().map(WorkersSpeed::table).collect();
        if !self.errors.is_empty() {
            tables.push(self.table_of_errors());
        }
        tables
    }
}
