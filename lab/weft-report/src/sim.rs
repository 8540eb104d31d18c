//! The document of `weft sim`: the results of one scenario over its seeds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weft_facts::record::{Conservation, Document, Host, Stage};
use weft_facts::table::{Cell, Column, Table};
use weft_facts::{human, stats};
use weft_units::Counted;

/// The document of `weft sim`. Flows, latencies and processors are those of the first seed; `spread` covers all seeds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimReport {
    /// `weft-sim/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The first seed.
    pub seed: u64,
    /// The number of seeds.
    pub seeds: u32,
    /// The scenario's name.
    pub scenario: String,
    /// The events of all runs.
    pub events: u64,
    /// The duration of all runs, in seconds.
    pub wall_s: f64,
    /// The measured part of one run, in simulated seconds.
    pub sim_s: f64,
    /// The rate of departing frames of flows, in bits per second.
    pub throughput_bps: f64,
    /// Flows of the first seed.
    pub flows: Vec<SimFlow>,
    /// NFM by interval.
    pub nfm: BTreeMap<String, SimFairness>,
    /// Round-trip times of probes, and latencies of requests by group, in seconds.
    pub latency_s: BTreeMap<String, SimLatency>,
    /// Busy seconds by host, core and category.
    pub cpu: Vec<Vec<BTreeMap<String, f64>>>,
    /// Means and ranges over the seeds, by quantity.
    pub spread: BTreeMap<String, SimSpread>,
    /// The accounting.
    pub conservation: Conservation,
    /// Class -> reason -> packets and bytes dropped, first seed, warm-up included. The class is that of the policy of the sender's NIC;
    /// without a policy, that of the flow. The sums over the classes are the drops of `conservation`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub class_drops: BTreeMap<String, BTreeMap<String, Counted>>,
    /// Counters of all hosts together, first seed, warm-up included.
    pub counters: BTreeMap<String, u64>,
    /// Changes of hosts' policies, first seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub policy_changes: Vec<SimPolicyChange>,
    /// Whether the user stopped the run: more seeds than `seeds` were requested, and the document has only the completed ones.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stopped: bool,
    /// Seeds of runs with packets or bytes unaccounted for, which is a defect of the simulator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unbalanced_seeds: Vec<u64>,
}

/// A flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimFlow {
    /// Its group.
    pub group: String,
    /// Frame bytes that departed in the measured part.
    pub bytes: u64,
    /// Their rate in bits per second.
    pub bps: f64,
    /// Payload received, in bytes.
    pub received_bytes: u64,
    /// From start to completion in seconds, for a finite flow that completed.
    pub completion_s: Option<f64>,
    /// Retransmitted packets.
    pub retransmitted: u64,
}

/// A change of a host's policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimPolicyChange {
    /// Its time, from the start of the run, in seconds.
    pub at_s: f64,
    /// The index of the host.
    pub host: u32,
    /// The tenant and its file, or the policy.
    pub what: String,
    /// The reason why it was refused, so that what was in force stayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The differences, in the policy's words.
    pub steps: Vec<String>,
    /// Tenants that do without their files, and effects that the author may not have meant.
    pub warnings: Vec<String>,
    /// The classes of the policies before and after.
    pub classes: Vec<SimPolicyClass>,
}

/// A class of a policy that changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimPolicyClass {
    /// Its name.
    pub class: String,
    /// The rate of its departing frames from the change before, or the start of the run, to this one; `None` for a class that is new.
    pub before_bps: Option<f64>,
    /// The rate from this change to the next, or to the end of the run; `None` for a class that is gone.
    pub after_bps: Option<f64>,
}

/// NFM over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimFairness {
    /// Mean over windows; null without a window.
    pub mean: Option<f64>,
    /// Largest value.
    pub max: Option<f64>,
    /// Number of windows.
    pub windows: u64,
}

/// Percentiles of a latency, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimLatency {
    /// Number of samples.
    pub samples: u64,
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

/// Mean and range over seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimSpread {
    /// Mean.
    pub mean: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl SimLatency {
    /// Percentiles of samples in seconds; `None` without samples.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let at = |p| stats::percentile(samples, p);
        Some(Self {
            samples: samples.len() as u64,
            mean: stats::mean(samples)?,
            p50: at(50.0)?,
            p90: at(90.0)?,
            p99: at(99.0)?,
            p999: at(99.9)?,
        })
    }
}

impl SimSpread {
    /// Mean and range; `None` without values.
    pub fn of(values: &[f64]) -> Option<Self> {
        Some(Self { mean: stats::mean(values)?, min: stats::min(values)?, max: stats::max(values)? })
    }
}

impl Document for SimReport {
    const SCHEMA: &'static str = "weft-sim/1";

    fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.overview(), self.flows_table()];
        let more = [self.changes_table(), self.latency_table(), self.cpu_table(), self.drops_table()];
        tables.extend(more.into_iter().filter(|table| !table.is_empty()));
        tables.push(by_kind(&self.conservation).table("Conservation, first seed, with its warm-up"));
        tables
    }
}

impl SimReport {
    fn overview(&self) -> Table {
        let mut table = Table::new(format!(
            "{}: {} simulated, seed {}",
            self.scenario,
            human::time(self.sim_s),
            self.seed
        ))
        .columns([Column::left("what"), Column::right("value")]);
        table.row(["throughput".to_owned(), human::rate(self.throughput_bps)]);
        for (interval, fairness) in &self.nfm {
            let mean = human::or_none(fairness.mean, |mean| format!("{mean:.3}"));
            table.row([format!("NFM over {interval}, mean"), mean]);
        }
        for (quantity, spread) in self.spread.iter().filter(|_| self.seeds > 1) {
            let number = |value: f64| {
                if quantity.ends_with("_bps") { human::rate(value) } else { format!("{value:.4}") }
            };
            let text = format!("{} ({} .. {})", number(spread.mean), number(spread.min), number(spread.max));
            table.row([format!("{quantity}, mean of {} seeds", self.seeds), text]);
        }
        for (counter, name) in
            [("retransmission_timeouts", "retransmission timeouts"), ("tail_loss_probes", "tail loss probes")]
        {
            // Absent from documents of earlier versions.
            if let Some(count) = self.counters.get(counter) {
                table.row([name.to_owned(), human::count(*count)]);
            }
        }
        table.row(["events".to_owned(), human::count(self.events)]);
        let rate = self.events as f64 / self.wall_s.max(1e-9) / 1e6;
        table.row(["took".to_owned(), format!("{} ({rate:.1} M events/s)", human::time(self.wall_s))]);
        if self.stopped {
            table.note(format!("stopped: only the {} runs that had ended are in the figures", self.seeds));
        }
        if !self.unbalanced_seeds.is_empty() {
            table.note(format!(
                "packets or bytes are NOT conserved with the seeds {:?}",
                self.unbalanced_seeds
            ));
        }
        table
    }

    /// A line for each group of flows.
    fn flows_table(&self) -> Table {
        let mut table = Table::new("Flows").columns([
            Column::left("group"),
            Column::right("flows"),
            Column::right("rate, sum"),
            Column::right("least"),
            Column::right("median"),
            Column::right("most"),
            Column::right("complete"),
            Column::right("last after"),
            Column::right("sent again"),
        ]);
        let mut groups: Vec<&str> = Vec::new();
        for flow in &self.flows {
            if groups.last() != Some(&flow.group.as_str()) {
                groups.push(&flow.group);
            }
        }
        for group in groups {
            let here = || self.flows.iter().filter(|flow| flow.group == group);
            let rates: Vec<f64> = here().map(|flow| flow.bps).collect();
            let done: Vec<f64> = here().filter_map(|flow| flow.completion_s).collect();
            table.row([
                group.to_owned(),
                rates.len().to_string(),
                human::rate(rates.iter().sum()),
                human::or_none(stats::min(&rates), human::rate),
                human::or_none(stats::median(&rates), human::rate),
                human::or_none(stats::max(&rates), human::rate),
                done.len().to_string(),
                human::or_none(stats::max(&done), human::time),
                human::count(here().map(|flow| flow.retransmitted).sum()),
            ]);
        }
        table
    }

    /// A line for each class of each change of a policy.
    fn changes_table(&self) -> Table {
        let mut table = Table::new("Changes of policies, classes before and after").columns([
            Column::left("at"),
            Column::left("host"),
            Column::left("change"),
            Column::left("class"),
            Column::right("before"),
            Column::right("after"),
        ]);
        for change in &self.policy_changes {
            let refused = if change.refused.is_some() { ", refused" } else { "" };
            let mut head = [human::time(change.at_s), change.host.to_string(), change.what.clone() + refused];
            for class in &change.classes {
                let rates = [class.before_bps, class.after_bps].map(|rate| human::or_none(rate, human::rate));
                let cells = core::mem::take(&mut head).into_iter().chain([class.class.clone()]).chain(rates);
                table.row(cells.map(Cell::plain));
            }
            for reason in change.refused.iter().chain(&change.warnings) {
                table.note(format!("{}: {reason}", change.what));
            }
        }
        table
    }

    /// A line for each class and reason of drops.
    fn drops_table(&self) -> Table {
        let mut table = Table::new("Drops by class, first seed, with its warm-up").columns([
            Column::left("class"),
            Column::left("reason"),
            Column::right("packets"),
            Column::right("bytes"),
        ]);
        for (class, drops) in &self.class_drops {
            for (reason, dropped) in drops {
                let amounts = [human::count(dropped.packets.get()), human::bytes(dropped.bytes.get() as f64)];
                let cells = [class.clone(), reason.clone()].into_iter().chain(amounts);
                table.row(cells.map(Cell::plain));
            }
        }
        table
    }

    fn latency_table(&self) -> Table {
        let heads = ["mean", "p50", "p90", "p99", "p99.9"].map(Column::right);
        let mut table = Table::new("Latency")
            .columns([Column::left("of"), Column::right("samples")].into_iter().chain(heads));
        for (name, latency) in &self.latency_s {
            let values = [latency.mean, latency.p50, latency.p90, latency.p99, latency.p999].map(human::time);
            let cells = [name.clone(), human::count(latency.samples)].into_iter().chain(values);
            table.row(cells.map(Cell::plain));
        }
        table
    }

    /// A line for each active host: busy processors and the share of each category.
    fn cpu_table(&self) -> Table {
        let categories: Vec<&String> =
            self.cpu.iter().flatten().next().map(|core| core.keys().collect()).unwrap_or_default();
        let heads = categories.iter().map(|category| Column::right(category.as_str()));
        let mut table = Table::new("Processors")
            .columns([Column::left("host"), Column::right("busy processors")].into_iter().chain(heads));
        for (host, cores) in self.cpu.iter().enumerate() {
            let of = |category: &String| -> f64 { cores.iter().filter_map(|core| core.get(category)).sum() };
            let total: f64 = categories.iter().map(|category| of(category)).sum();
            if total > 0.0 {
                let shares = categories.iter().map(|category| human::percent(of(category) / total));
                let busy = format!("{:.2}", total / self.sim_s.max(1e-9));
                table.row([host.to_string(), busy].into_iter().chain(shares).map(Cell::plain));
            }
        }
        table
    }
}

/// The accounting with a line for each kind of stage: `host 3 qdiscs` is of kind `qdiscs`, a port of a switch of kind `switch ports`.
fn by_kind(all: &Conservation) -> Conservation {
    let mut stages: Vec<Stage> = Vec::new();
    for stage in &all.stages {
        let kind = kind_of(&stage.name);
        match stages.iter_mut().find(|known| known.name == kind) {
            Some(known) => known.balance.add(&stage.balance),
            None => stages.push(Stage { name: kind.to_owned(), balance: stage.balance }),
        }
    }
    Conservation { total: all.total, drops: all.drops.clone(), stages, ..Conservation::default() }
}

/// A stage's name without the number of its host or switch.
fn kind_of(name: &str) -> &str {
    if name.starts_with("switch ") {
        return "switch ports";
    }
    let numbered = name.strip_prefix("host ").and_then(|rest| rest.split_once(' '));
    numbered.map_or(name, |(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_facts::record::Balance;

    #[test]
    fn stages_of_a_kind_share_a_line() {
        let stage = |name: &str, packets| {
            let balance = Balance { in_packets: packets, held_packets: packets, ..Balance::default() };
            Stage { name: name.to_owned(), balance }
        };
        let stages =
            ["host 0 qdiscs", "host 0 receive rings", "host 11 qdiscs", "network", "switch 0 port to host 1"];
        let stages = stages.into_iter().zip(1..).map(|(name, packets)| stage(name, packets)).collect();
        let accounting = by_kind(&Conservation { stages, ..Conservation::default() });
        let lines: Vec<_> =
            accounting.stages.iter().map(|s| (s.name.as_str(), s.balance.held_packets)).collect();
        assert_eq!(lines, [("qdiscs", 4), ("receive rings", 2), ("network", 4), ("switch ports", 5)]);
    }
}
