//! The document of `weft bench cost`: processor time for the same traffic, beside peers measured in the same rounds.
//!
//! 1. A round measures each variant once, in an order that rotates; a [`Sample`] is one variant in one round.
//! 2. A ratio is formed within a round, between two samples taken seconds apart. The figure is the median of the ratios.
//! 3. [`Parts`] divide the processor time by the threads whose time it was. A system call's time includes the interrupts
//!    and the receive path that the kernel runs inside it. Time of no thread is the stack's: it is the remainder, so the
//!    parts sum to the whole.
//! 4. A [`Requirement`] bounds a ratio. [`CaseReport::conclude`] compares, and gives the verdict.
//!
//! A sample is disturbed if processes of others, or other machines on the same processors, had more than
//! [`DISTURBED_MAX`] cores. Disturbed samples count: dropping them would select. They are marked, and if they are half
//! of the rounds or more, the case cannot be shown.

mod compare;
mod tables;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::judgement::Judgement;
use weft_facts::record::{Document, Host};
use weft_facts::stats;
use weft_facts::table::Table;

pub use compare::{BoundRank, Comparison, Figure, RatioBound, Requirement};

/// The largest undisturbed use of processors by others, in cores.
pub const DISTURBED_MAX: f64 = 0.05;
/// The least number of cores that can show a case: with one, sender and receiver take turns.
pub const CORES_MIN: u32 = 2;

/// The document of `weft bench cost`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CostReport {
    /// `weft-bench-cost/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The number of rounds of each case.
    pub runs: u32,
    /// The cases in the order in which they ran.
    pub cases: Vec<CaseReport>,
}

/// A way of the traffic through the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Variant {
    /// The port of `weft run`, as it is by default.
    Ours,
    /// The same session with only the ports that carry flows; `Ours` has idle ones beside them.
    Busy,
    /// The policy in the kernel, on the uplink as it is (`weft apply`).
    Kernel,
    /// The kernel's HTB on the uplink, without weftline.
    Htb,
    /// An eBPF redirect between two devices, without weftline.
    Redirect,
    /// The floor of a NIC in user space: one ring, no policy, whole packets.
    Forwarder,
}

impl Variant {
    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Busy => "busy",
            Self::Kernel => "kernel",
            Self::Htb => "htb",
            Self::Redirect => "redirect",
            Self::Forwarder => "forwarder",
        }
    }
}

/// Round trips of the requests in one sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundTrips {
    /// Number of answered requests.
    pub count: u64,
    /// Median, in seconds.
    pub p50_s: f64,
    /// 90th percentile, in seconds.
    pub p90_s: f64,
    /// 99th percentile, in seconds.
    pub p99_s: f64,
}

impl RoundTrips {
    /// The percentiles of `seconds`; `None` without a request.
    pub fn of(seconds: &[f64]) -> Option<Self> {
        let sorted = stats::sorted(seconds);
        let at = |p| stats::percentile_sorted(&sorted, p);
        Some(Self { count: sorted.len() as u64, p50_s: at(50.0)?, p90_s: at(90.0)?, p99_s: at(99.0)? })
    }
}

/// One variant in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// The round, from 1.
    pub round: u32,
    /// The variant.
    pub variant: Variant,
    /// Measured time.
    pub span_s: f64,
    /// Payload that the receiving side's TCP received, in bits.
    pub carried_bits: f64,
    /// TCP segments that it received.
    pub segments: u64,
    /// Processor time of the whole machine: all cores, less idle time.
    pub core_s: f64,
    /// Processor time of the applications' threads.
    pub application_s: f64,
    /// Processor time of the transmit worker and the NIC's other threads but the next.
    pub worker_s: f64,
    /// Processor time of the receive thread.
    pub receive_s: f64,
    /// Processor time of other processes.
    pub foreign_s: f64,
    /// Time stolen by other machines on the same processors; it is contained in the times above.
    pub stolen_s: f64,
    /// Time of the NIC's eBPF programs by the kernel's statistics, which are on in a round of their own only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebpf_s: Option<f64>,
    /// Round trips of the requests, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<RoundTrips>,
    /// Whether others used more than [`DISTURBED_MAX`] cores.
    pub disturbed: bool,
}

impl Sample {
    /// Payload in bits per second.
    pub fn bps(&self) -> f64 {
        if self.span_s > 0.0 { self.carried_bits / self.span_s } else { 0.0 }
    }

    /// Segments per second.
    pub fn pps(&self) -> f64 {
        if self.span_s > 0.0 { self.segments as f64 / self.span_s } else { 0.0 }
    }

    /// Answered requests per second; `None` without requests.
    pub fn requests_per_s(&self) -> Option<f64> {
        self.requests.filter(|_| self.span_s > 0.0).map(|of| of.count as f64 / self.span_s)
    }

    /// Busy cores.
    pub fn cores(&self) -> f64 {
        if self.span_s > 0.0 { self.core_s / self.span_s } else { 0.0 }
    }

    /// Cores used by others.
    pub fn disturbance(&self) -> f64 {
        if self.span_s > 0.0 { (self.foreign_s + self.stolen_s) / self.span_s } else { 0.0 }
    }

    /// Busy cores per Gb/s of payload; `None` without payload.
    pub fn cores_per_gbps(&self) -> Option<f64> {
        self.per_gigabit(self.core_s)
    }

    /// Core-seconds per gigabit of payload for `seconds`; `None` without payload.
    fn per_gigabit(&self, seconds: f64) -> Option<f64> {
        (self.carried_bits > 0.0).then(|| seconds / (self.carried_bits / 1e9))
    }
}

/// Processor time by part, in core-seconds per gigabit of payload, which are cores per Gb/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Parts {
    /// The applications' threads.
    pub application: f64,
    /// The eBPF programs; `None` if they were not measured. It is part of the time of application and stack, and is
    /// taken from the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ebpf: Option<f64>,
    /// The transmit worker, and the NIC's other threads but the next.
    pub worker: f64,
    /// The receive thread.
    pub receive: f64,
    /// Other processes.
    pub disturbance: f64,
    /// The remainder: the kernel outside of these threads, in interrupts and kernel threads. Below zero if the ticks of
    /// the kernel's counters exceed it.
    pub stack: f64,
}

impl Parts {
    /// The sum of the parts.
    pub fn sum(&self) -> f64 {
        self.application
            + self.ebpf.unwrap_or(0.0)
            + self.worker
            + self.receive
            + self.disturbance
            + self.stack
    }

    /// The parts with their names, in the order of the document.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("application", self.application),
            ("eBPF", self.ebpf.unwrap_or(0.0)),
            ("worker", self.worker),
            ("receive", self.receive),
            ("stack", self.stack),
            ("disturbance", self.disturbance),
        ]
    }

    /// The parts of `samples`: medians, with the stack as the remainder of the median of the whole.
    fn of(samples: &[&Sample], statistics: Option<&Sample>) -> Option<Self> {
        let median = |part: fn(&Sample) -> f64| {
            let each: Vec<f64> = samples.iter().filter_map(|s| s.per_gigabit(part(s))).collect();
            stats::median(&each)
        };
        let whole = median(|s| s.core_s)?;
        let parts = Self {
            application: median(|s| s.application_s)?,
            ebpf: statistics.and_then(|s| s.per_gigabit(s.ebpf_s?)),
            worker: median(|s| s.worker_s)?,
            receive: median(|s| s.receive_s)?,
            disturbance: median(|s| s.foreign_s)?,
            stack: 0.0,
        };
        Some(Self { stack: whole - parts.sum(), ..parts })
    }
}

/// The samples of a case, and its requirements.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The name of the case.
    pub case: String,
    /// The peer of the main ratio, if any.
    pub peer: Option<Variant>,
    /// The rate of the link; `None` if it never limits.
    pub link_bps: Option<f64>,
    /// The samples of all rounds.
    pub samples: Vec<Sample>,
    /// The sample of ours with the eBPF statistics on.
    pub statistics: Option<Sample>,
    /// The comparisons, and their bounds. The first with the peer is the main ratio.
    pub requirements: Vec<Requirement>,
    /// The number of the machine's cores.
    pub cores: u32,
}

/// One case. Figures are medians of its samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseReport {
    /// Its name.
    pub case: String,
    /// The peer; null without one.
    pub peer: Option<Variant>,
    /// The rate of the link, on the wire; absent if it never limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_bps: Option<f64>,
    /// TCP segments per second of ours.
    pub ours_pps: f64,
    /// TCP segments per second of the peer; null without a peer.
    pub peer_pps: Option<f64>,
    /// Median of `ratio_runs`; null without a peer.
    pub ratio_median: Option<f64>,
    /// Our figure divided by the peer's, round by round: the first comparison with the peer.
    pub ratio_runs: Vec<f64>,
    /// The figures of the variants, each as a member with the variant's prefix.
    #[serde(flatten)]
    pub figures: Figures,
    /// Our processor time by part, in core-seconds per gigabit.
    pub parts: Option<Parts>,
    /// The peer's processor time by part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_parts: Option<Parts>,
    /// All comparisons.
    pub comparisons: Vec<Comparison>,
    /// The limit of our figure, in words.
    pub limited_by: String,
    /// The requirement, in words.
    pub goal: String,
    /// Whether all required comparisons are within their bounds; null if this machine or run cannot show it.
    pub met: Option<bool>,
    /// The reason that it cannot be shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_shown: Option<String>,
    /// Number of rounds with a disturbed sample.
    pub disturbed_rounds: u32,
    /// The samples.
    pub samples: Vec<Sample>,
    /// The sample with eBPF statistics on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statistics: Option<Sample>,
}

/// Medians of the variants: throughput, cores per Gb/s, and round trips.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Payload per second of ours.
    pub ours_bps: Option<f64>,
    /// Cores per Gb/s of ours.
    pub ours_cores_per_gbps: Option<f64>,
    /// Payload per second of the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_bps: Option<f64>,
    /// Cores per Gb/s of the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_cores_per_gbps: Option<f64>,
    /// Payload per second of the forwarder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_bps: Option<f64>,
    /// Cores per Gb/s of the forwarder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor_cores_per_gbps: Option<f64>,
    /// Median of the round trips, in seconds, of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_s: Option<f64>,
    /// 99th percentile of the round trips, in seconds, of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_s: Option<f64>,
    /// Median of the round trips, in seconds, of the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_p50_s: Option<f64>,
    /// 99th percentile of the round trips, in seconds, of the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_p99_s: Option<f64>,
    /// Answered requests per second of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_s: Option<f64>,
    /// Answered requests per second of the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer_requests_per_s: Option<f64>,
}

impl Figures {
    fn of(samples: &[Sample], peer: Option<Variant>) -> Self {
        let ours = |figure| compare::median(samples, Variant::Ours, figure);
        let peers = |figure| compare::median(samples, peer?, figure);
        let floor = |figure| compare::median(samples, Variant::Forwarder, figure);
        Self {
            ours_bps: ours(Figure::Throughput),
            ours_cores_per_gbps: ours(Figure::Cores),
            peer_bps: peers(Figure::Throughput),
            peer_cores_per_gbps: peers(Figure::Cores),
            floor_bps: floor(Figure::Throughput),
            floor_cores_per_gbps: floor(Figure::Cores),
            p50_s: ours(Figure::P50),
            p99_s: ours(Figure::P99),
            peer_p50_s: peers(Figure::P50),
            peer_p99_s: peers(Figure::P99),
            requests_per_s: ours(Figure::Requests),
            peer_requests_per_s: peers(Figure::Requests),
        }
    }
}

impl CaseReport {
    /// Compares the variants and judges the requirements.
    pub fn conclude(measured: Measured) -> Self {
        let Measured { case, peer, link_bps, samples, statistics, requirements, cores } = measured;
        let comparisons: Vec<Comparison> =
            requirements.iter().map(|wanted| Comparison::of(wanted, &samples)).collect();
        let main = comparisons.iter().find(|c| c.of == Variant::Ours && Some(c.to) == peer);
        let of = |variant: Variant| samples.iter().filter(|s| s.variant == variant).collect::<Vec<_>>();
        let pps = |variant| stats::median(&of(variant).iter().map(|s| s.pps()).collect::<Vec<_>>());
        let disturbed_rounds = compare::disturbed_rounds(&samples);
        let not_shown = compare::obstacle(&samples, &comparisons, cores);
        let met = not_shown.is_none().then(|| comparisons.iter().all(Comparison::required_is_met));
        let parts = Parts::of(&of(Variant::Ours), statistics.as_ref());
        let figures = Figures::of(&samples, peer);
        Self {
            ours_pps: pps(Variant::Ours).unwrap_or(0.0),
            peer_pps: peer.and_then(pps),
            ratio_median: main.and_then(|c| c.ratio_median),
            ratio_runs: main.map(|c| c.ratio_runs.clone()).unwrap_or_default(),
            peer_parts: peer.and_then(|peer| Parts::of(&of(peer), None)),
            limited_by: compare::limited_by(&figures, parts.as_ref(), link_bps, &of(Variant::Ours)),
            goal: compare::goal(&requirements),
            case,
            peer,
            link_bps,
            figures,
            parts,
            comparisons,
            met,
            not_shown,
            disturbed_rounds,
            samples,
            statistics,
        }
    }

    /// The verdict.
    pub fn judgement(&self) -> Judgement {
        match (&self.not_shown, self.met) {
            (Some(why), _) => Judgement::NotShown(why.clone()),
            (None, met) => Judgement::of(met == Some(true)),
        }
    }
}

impl Document for CostReport {
    const SCHEMA: &'static str = "weft-bench-cost/1";

    fn tables(&self) -> Vec<Table> {
        tables::tables(self)
    }
}

#[cfg(test)]
mod tests;
