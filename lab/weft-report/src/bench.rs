//! The document of `weft bench`: weftline's speed as a ratio to a peer measured in the same run.

pub mod cost;
pub mod roofline;
pub mod workers;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::rounds::Rounds;
use weft_facts::record::{Document, Host};
use weft_facts::table::{Cell, Column, Table};
use weft_facts::{human, stats};

/// The document of `weft bench`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchReport {
    /// `weft-bench/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The seed of all random choices in the run, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The cases in the order in which they ran.
    pub cases: Vec<BenchCase>,
}

/// The unit that a speed counts per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Packets.
    #[default]
    Packets,
    /// Events of a simulator.
    Events,
    /// Runs of a simulator, or of a whole comparison.
    Runs,
}

impl Unit {
    /// Formats a speed.
    fn write(self, per_second: f64) -> String {
        match self {
            Unit::Packets => human::pps(per_second),
            Unit::Events => format!("{} events/s", human::short(per_second)),
            Unit::Runs => format!("{} runs/s", human::short(per_second)),
        }
    }
}

/// One case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BenchCase {
    /// Its name.
    pub case: String,
    /// The peer; null without one.
    pub peer: Option<String>,
    /// The unit that the speeds count per second.
    #[serde(default)]
    pub unit: Unit,
    /// weftline's median speed in packets per second, or in the unit of `unit`.
    pub ours_pps: f64,
    /// The peer's median speed, in the same unit; null without a peer.
    pub peer_pps: Option<f64>,
    /// Median of `ratio_runs`; null without a peer. Above 1, weftline is faster.
    pub ratio_median: Option<f64>,
    /// weftline's speed divided by the peer's, run by run; the runs of a pair are consecutive.
    pub ratio_runs: Vec<f64>,
    /// weftline's median throughput in bits per second, if packets have a size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours_bps: Option<f64>,
    /// The peer's median throughput in bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_bps: Option<f64>,
    /// The bottleneck of weftline's speed, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// Other figures: name (with its unit) -> value.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}

impl BenchCase {
    /// A case without a peer, from the speeds of its runs in packets per second.
    pub fn alone(case: impl Into<String>, ours_pps: &[f64]) -> Self {
        let ours_pps = stats::median(ours_pps).unwrap_or(0.0);
        BenchCase { case: case.into(), ours_pps, ..BenchCase::default() }
    }

    /// A case with a peer, from the speeds of weftline and of the peer in packets per second.
    pub fn against(case: impl Into<String>, peer: impl Into<String>, speeds: &Rounds<f64>) -> Self {
        let ratio_runs = speeds.ratios(0, 1, |pps| *pps);
        BenchCase {
            peer: Some(peer.into()),
            peer_pps: speeds.median(1, |pps| *pps),
            ratio_median: stats::median(&ratio_runs),
            ratio_runs,
            ..BenchCase::alone(case, &speeds.figures(0, |pps| *pps))
        }
    }
}

impl Document for BenchReport {
    const SCHEMA: &'static str = "weft-bench/1";

    fn tables(&self) -> Vec<Table> {
        let mut table = Table::new("Benchmarks").columns([
            Column::left("case"),
            Column::right("ours"),
            Column::right("time each"),
            Column::right("carried"),
            Column::left("peer"),
            Column::right("peer's"),
            Column::right("ratio"),
            Column::right("least .. most"),
            Column::left("limited by"),
        ]);
        for c in &self.cases {
            let spread = stats::min(&c.ratio_runs).zip(stats::max(&c.ratio_runs));
            table.row([
                Cell::plain(&c.case),
                c.unit.write(c.ours_pps).into(),
                human::or_none((c.ours_pps > 0.0).then_some(1.0 / c.ours_pps), human::time).into(),
                human::or_none(c.ours_bps, human::rate).into(),
                c.peer.as_deref().unwrap_or(human::NONE).into(),
                human::or_none(c.peer_pps, |pps| c.unit.write(pps)).into(),
                human::or_none(c.ratio_median, human::times).into(),
                human::or_none(spread, |(a, b)| format!("{a:.2} .. {b:.2}")).into(),
                c.limited_by.as_deref().unwrap_or(human::NONE).into(),
            ]);
        }
        vec![table]
    }
}
