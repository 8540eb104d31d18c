//! A level's figures: medians over its runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use super::{Category, Latency, Run, Side, SkbSizes};
use weft_facts::schema::ByName;
use weft_facts::stats;

/// A level's figures.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ConfigReport {
    /// The level's name.
    pub level: String,
    /// The number of flows.
    pub flows: u32,
    /// Throughput without the instrument, in payload bits per second: the median.
    pub bps: f64,
    /// Its least and most.
    pub bps_spread: [f64; 2],
    /// Throughput per core of the side that limits: the larger part of its cores was in use.
    pub bps_per_core: Option<f64>,
    /// The limiting side.
    pub bottleneck: Option<Side>,
    /// Throughput per core in use, of both sides together.
    pub bps_per_busy_core: Option<f64>,
    /// The kernel's time of both sides by category, as shares of 1.
    #[schemars(with = "ByName<Category, f64>")]
    pub cpu_share: BTreeMap<Category, f64>,
    /// Cores in use, of both sides together.
    pub utilisation: Utilisation,
    /// The sides.
    #[schemars(with = "ByName<Side, SideReport>")]
    pub sides: BTreeMap<Side, SideReport>,
    /// Sizes of skbs and calls of all runs; null where eBPF could not run.
    pub skb_bytes: Option<SkbSizes>,
    /// Latency from the stack's entry to the copy: the median of the runs' percentiles.
    pub latency_s: Option<Latency>,
    /// Share of cache accesses that missed, of the limiting side's processes; null without a counter for them.
    pub cache_miss: Option<f64>,
    /// Segments that were sent again, in all runs.
    pub retransmitted: u64,
    /// Loss of throughput by the instrument: the median of the runs' shares. Negative if throughput was higher with it.
    pub overhead: Option<f64>,
    /// Cost of the programs at the tracepoints alone, as a share of both sides' processor time: the median of the runs'.
    #[serde(default)]
    pub probe_overhead: Option<f64>,
    /// The largest share of samples that other processes had.
    pub foreign_share: f64,
    /// The median share that softirqs and interrupts of nobody known had.
    #[serde(default)]
    pub interrupts_share: f64,
    /// Samples that were lost.
    pub lost_samples: u64,
    /// Share of kernel time whose innermost function the table does not have.
    pub leaf_unmapped: f64,
    /// The runs.
    pub runs: Vec<Run>,
}

/// A side's figures.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SideReport {
    /// The number of cores that the side's processes were given.
    pub cores: u32,
    /// Throughput per core in use by this side.
    pub bps_per_core: Option<f64>,
    /// Cores in use.
    pub utilisation: Utilisation,
    /// The kernel's time by category, as shares of 1.
    #[schemars(with = "ByName<Category, f64>")]
    pub cpu_share: BTreeMap<Category, f64>,
    /// The kernel's time by category, in nanoseconds per payload byte.
    #[schemars(with = "ByName<Category, f64>")]
    pub ns_per_byte: BTreeMap<Category, f64>,
    /// Share of cache accesses that missed; null without a counter for them.
    pub cache_miss: Option<f64>,
}

/// Cores in use.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Utilisation {
    /// By programs.
    pub user: f64,
    /// By the kernel for processes.
    pub system: f64,
    /// By softirqs.
    pub softirq: f64,
}

impl Utilisation {
    /// The sum.
    pub fn total(&self) -> f64 {
        self.user + self.system + self.softirq
    }
}

/// The median of a figure over runs, of those that have it.
fn median(runs: &[Run], figure: impl Fn(&Run) -> Option<f64>) -> Option<f64> {
    stats::median(&runs.iter().filter_map(figure).collect::<Vec<_>>())
}

impl SideReport {
    fn of(runs: &[Run], side: Side, cores: u32) -> Self {
        let part = |figure: fn(&Run, Side) -> f64| {
            median(runs, |run| (run.span_s > 0.0).then(|| figure(run, side) / run.span_s)).unwrap_or(0.0)
        };
        let per_byte = |category: Category| {
            let figure = |run: &Run| {
                let seconds = run.side(side).categories_s.get(&category).copied().unwrap_or(0.0);
                (run.work.bytes > 0).then(|| seconds * 1e9 / run.work.bytes as f64)
            };
            median(runs, figure).unwrap_or(0.0)
        };
        Self {
            cores,
            bps_per_core: median(runs, |run| per_core(run.bps, run.side(side).total_s(), run.span_s)),
            utilisation: Utilisation {
                user: part(|run, side| run.side(side).user_s),
                system: part(|run, side| run.side(side).system_s),
                softirq: part(|run, side| run.side(side).softirq_s),
            },
            cpu_share: shares(runs, &[side]),
            cache_miss: median(runs, |run| run.cache_miss.get(&side).copied().flatten()),
            ns_per_byte: Category::ALL.map(|category| (category, per_byte(category))).into(),
        }
    }
}

/// Throughput per core in use; `None` if nothing was in use.
fn per_core(bps: f64, seconds: f64, span_s: f64) -> Option<f64> {
    (seconds > 0.0 && span_s > 0.0).then(|| bps / (seconds / span_s))
}

/// Shares of the kernel's time by category, over all runs: few samples of a run would make a median jump.
fn shares(runs: &[Run], sides: &[Side]) -> BTreeMap<Category, f64> {
    let times = || runs.iter().flat_map(|run| sides.iter().map(|side| run.side(*side)));
    let of = |category: Category| -> f64 {
        times().map(|time| time.categories_s.get(&category).copied().unwrap_or(0.0)).sum()
    };
    let all: f64 = Category::ALL.into_iter().map(of).sum();
    let share = |category| if all > 0.0 { of(category) / all } else { 0.0 };
    Category::ALL.map(|category| (category, share(category))).into()
}

impl ConfigReport {
    /// The figures of a level's runs. `cores` are those given to sender and receiver.
    pub fn conclude(level: &str, flows: u32, cores: [u32; 2], runs: Vec<Run>) -> Self {
        let bps: Vec<f64> = runs.iter().map(|run| run.bare_bps).collect();
        let sides: BTreeMap<Side, SideReport> = Side::ALL
            .into_iter()
            .zip(cores)
            .map(|(side, cores)| (side, SideReport::of(&runs, side, cores)))
            .collect();
        // The side of whose cores the larger part was in use; both may run on the same ones.
        let load =
            |side: &Side| sides.get(side).map_or(0.0, |s| s.utilisation.total() / f64::from(s.cores.max(1)));
        let bottleneck =
            Side::ALL.into_iter().filter(|side| load(side) > 0.0).max_by(|a, b| load(a).total_cmp(&load(b)));
        let total = |part: fn(&Utilisation) -> f64| sides.values().map(|s| part(&s.utilisation)).sum();
        let mut sizes: Option<SkbSizes> = None;
        for run in runs.iter().filter_map(|run| run.sizes.as_ref()) {
            sizes.get_or_insert_default().add(run);
        }
        let both = |run: &Run| run.sender.total_s() + run.receiver.total_s();
        Self {
            level: level.to_owned(),
            flows,
            bps: stats::median(&bps).unwrap_or(0.0),
            bps_spread: [stats::min(&bps).unwrap_or(0.0), stats::max(&bps).unwrap_or(0.0)],
            bps_per_core: bottleneck.and_then(|side| sides.get(&side)?.bps_per_core),
            bottleneck,
            bps_per_busy_core: median(&runs, |run| per_core(run.bps, both(run), run.span_s)),
            cpu_share: shares(&runs, &Side::ALL),
            utilisation: Utilisation {
                user: total(|u| u.user),
                system: total(|u| u.system),
                softirq: total(|u| u.softirq),
            },
            skb_bytes: sizes,
            latency_s: latency(&runs),
            cache_miss: bottleneck.and_then(|side| sides.get(&side)?.cache_miss),
            retransmitted: runs.iter().map(|run| run.work.retransmitted).sum(),
            overhead: median(&runs, |run| (run.bare_bps > 0.0).then(|| 1.0 - run.bps / run.bare_bps)),
            probe_overhead: median(&runs, Run::probe_share),
            foreign_share: runs.iter().map(Run::foreign_share).fold(0.0, f64::max),
            interrupts_share: median(&runs, |run| Some(run.interrupts_share())).unwrap_or(0.0),
            lost_samples: runs.iter().map(|run| run.lost_samples).sum(),
            leaf_unmapped: median(&runs, |run| Some(run.leaf_unmapped)).unwrap_or(0.0),
            sides,
            runs,
        }
    }
}

fn latency(runs: &[Run]) -> Option<Latency> {
    let of = |figure: fn(&Latency) -> f64| median(runs, |run| run.latency.as_ref().map(figure));
    let count = runs.iter().filter_map(|run| run.latency.map(|l| l.count)).sum();
    Some(Latency { count, p50: of(|l| l.p50)?, p99: of(|l| l.p99)? })
}
