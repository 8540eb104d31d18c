//! The document of `weft profile`: processor time of the network stack by side and category, with throughput, skb sizes and
//! latency.
//!
//! 1. A [`Run`] is one repeat of one level: raw counts and times, from which everything else follows.
//! 2. [`ConfigReport::conclude`] takes medians over the runs of a level. Throughput comes from the part of a run without the
//!    instrument; processor time from the part with it.
//! 3. `tables` writes the table of the study: a row per level. `page` draws it.
//! 4. [`diff`] compares two documents in nanoseconds per byte.
//! 5. [`attached`] is the document of what ran without traffic of the profiler.
//! 6. [`predict`] compares what the simulator says from fitted costs with what runs.
//!
//! Time of a side is that of its processes and of the interrupts that work for it, wherever they ran. Time of others is
//! reported beside it and is in no figure.

pub mod attached;
mod config;
pub mod diff;
mod page;
pub mod predict;
mod tables;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

use weft_facts::record::{Document, Host};
use weft_facts::schema::ByName;
use weft_facts::stats;
use weft_facts::table::Table;

pub use config::{ConfigReport, SideReport, Utilisation};
pub use page::{Flame, profile_html};

/// The largest share of samples of other processes in an undisturbed run.
pub const FOREIGN_MAX: f64 = 0.05;

/// A side of the traffic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The side that sends data, or requests.
    Sender,
    /// The side that receives them.
    Receiver,
}

impl Side {
    /// Both sides.
    pub const ALL: [Self; 2] = [Self::Sender, Self::Receiver];

    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        }
    }
}

/// A category of the kernel's time: the study's eight, and two for what cannot be attributed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// Copies between applications and packets.
    DataCopy,
    /// TCP and IP.
    Tcpip,
    /// Devices, their drivers and queues.
    Netdev,
    /// Management of packets' metadata.
    Skb,
    /// Allocation of memory.
    Mem,
    /// Locks.
    Lock,
    /// Scheduling of threads.
    Sched,
    /// All other.
    Etc,
    /// Sections with interrupts off, whose function the clock cannot tell.
    IrqOff,
    /// Functions that the table of categories does not have, called by none that it has.
    Unmapped,
}

impl Category {
    /// All categories, in the order of the study's figures.
    pub const ALL: [Self; 10] = [
        Self::DataCopy,
        Self::Tcpip,
        Self::Netdev,
        Self::Skb,
        Self::Mem,
        Self::Lock,
        Self::Sched,
        Self::Etc,
        Self::IrqOff,
        Self::Unmapped,
    ];

    /// The name in documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DataCopy => "data_copy",
            Self::Tcpip => "tcpip",
            Self::Netdev => "netdev",
            Self::Skb => "skb",
            Self::Mem => "mem",
            Self::Lock => "lock",
            Self::Sched => "sched",
            Self::Etc => "etc",
            Self::IrqOff => "irq_off",
            Self::Unmapped => "unmapped",
        }
    }

    /// The name in tables and charts.
    pub const fn title(self) -> &'static str {
        match self {
            Self::DataCopy => "data copy",
            Self::Tcpip => "TCP/IP",
            Self::Netdev => "netdevice",
            Self::Skb => "skb",
            Self::Mem => "memory",
            Self::Lock => "lock",
            Self::Sched => "scheduling",
            Self::Etc => "etc",
            Self::IrqOff => "interrupts off",
            Self::Unmapped => "unmapped",
        }
    }

    /// The category of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|category| category.name() == name)
    }
}

/// Processor time of a side in one run, in seconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SideTime {
    /// In programs.
    pub user_s: f64,
    /// In the kernel, for a process.
    pub system_s: f64,
    /// In the kernel, in softirqs.
    pub softirq_s: f64,
    /// The kernel's time, by category.
    #[schemars(with = "ByName<Category, f64>")]
    pub categories_s: BTreeMap<Category, f64>,
}

impl SideTime {
    /// The whole time.
    pub fn total_s(&self) -> f64 {
        self.user_s + self.system_s + self.softirq_s
    }

    /// The kernel's time.
    pub fn kernel_s(&self) -> f64 {
        self.system_s + self.softirq_s
    }
}

/// A histogram of sizes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Sizes {
    /// Number of sizes below each edge of [`Self::edges`] and not below the one before; the last is of all others.
    pub counts: Vec<u64>,
    /// The mean size in bytes; null without one.
    pub mean: Option<f64>,
}

impl Sizes {
    /// Bytes of a bucket.
    pub const BUCKET: u64 = 1024;
    /// The number of buckets; the last has all sizes from 64 KiB on.
    pub const BUCKETS: usize = 65;

    /// The upper ends of the buckets but the last.
    pub fn edges() -> impl Iterator<Item = u64> {
        (1..Self::BUCKETS as u64).map(|i| i * Self::BUCKET)
    }

    /// The number of sizes.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds another histogram, whose mean counts by its number of sizes.
    pub fn add(&mut self, other: &Self) {
        let (own, theirs) = (self.total() as f64, other.total() as f64);
        let sum = self.mean.unwrap_or(0.0) * own + other.mean.unwrap_or(0.0) * theirs;
        self.mean = (own + theirs > 0.0).then(|| sum / (own + theirs));
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        for (into, from) in self.counts.iter_mut().zip(&other.counts) {
            *into += from;
        }
    }
}

/// Sizes of packets and calls.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct SkbSizes {
    /// skbs that a driver handed to GRO, at the receiver.
    pub before_gro: Sizes,
    /// skbs that came to the receiver's stack.
    pub after_gro: Sizes,
    /// skbs that the sender's device took.
    pub transmit: Sizes,
    /// Bytes of the receiver's copies to its application, each of one skb.
    pub copies: Sizes,
}

impl SkbSizes {
    /// Adds others' histograms.
    pub fn add(&mut self, other: &Self) {
        self.before_gro.add(&other.before_gro);
        self.after_gro.add(&other.after_gro);
        self.transmit.add(&other.transmit);
        self.copies.add(&other.copies);
    }
}

/// Latency from the stack's entry to the copy to the application.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Number of sampled packets.
    pub count: u64,
    /// Median, in seconds: the upper end of its bucket, at most an eighth above.
    pub p50: f64,
    /// 99th percentile, likewise.
    pub p99: f64,
}

/// The traffic of a run, in counts of the kernel.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// Payload bytes received.
    pub bytes: u64,
    /// TCP segments that the receiver's side received.
    pub segments: u64,
    /// IP packets that it received, each of which may be several segments merged.
    pub skbs: u64,
    /// TCP segments that it sent: acknowledgements, and responses.
    pub acks: u64,
    /// Times that the receiver's processes gave up a processor to wait.
    pub receiver_waits: u64,
    /// Times that the sender's processes did.
    pub sender_waits: u64,
    /// Segments that the sender sent again.
    pub retransmitted: u64,
}

/// The flows' bytes, counted by both hosts one after the other: `acked` is at most `received`, which is at most `sent`, and the
/// difference was on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct CountedBytes {
    /// Bytes that the receiver had acknowledged, by the sender.
    pub acked: u64,
    /// Bytes received, by the receiver, asked after that.
    pub received: u64,
    /// Bytes sent, by the sender, after the receiver's answer.
    pub sent: u64,
}

/// The receiving host of a measurement between two hosts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Peer {
    /// Its name, as the user gave it.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Its kernel's release.
    pub kernel: String,
    /// The processors that its server could use.
    pub processors: u32,
}

/// One repeat of one level.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Run {
    /// The repeat, from 1.
    pub repeat: u32,
    /// Throughput without the instrument, in payload bits per second.
    pub bare_bps: f64,
    /// Throughput with it.
    pub bps: f64,
    /// The sampled time.
    pub span_s: f64,
    /// The traffic in it.
    pub work: Work,
    /// The sender's processor time.
    pub sender: SideTime,
    /// The receiver's.
    pub receiver: SideTime,
    /// Time of other processes.
    pub foreign_s: f64,
    /// Time of softirqs and interrupts of nobody known, as timers in ksoftirqd; older documents count it as others'.
    #[serde(default)]
    pub interrupts_s: f64,
    /// Time of this program.
    pub tool_s: f64,
    /// Share of the sides' kernel time whose innermost function the table does not have; callers give most of it a category.
    pub leaf_unmapped: f64,
    /// Samples that were lost.
    pub lost_samples: u64,
    /// Processors that the programs at the tracepoints used, by the kernel's statistics; null where they could not run.
    #[serde(default)]
    pub probe_cores: Option<f64>,
    /// Share of cache accesses that missed, of each side's processes; null without a counter for them.
    #[schemars(with = "ByName<Side, Option<f64>>")]
    pub cache_miss: BTreeMap<Side, Option<f64>>,
    /// Sizes; null where eBPF could not run.
    pub sizes: Option<SkbSizes>,
    /// Latency; null where eBPF could not run, or nothing was sampled.
    pub latency: Option<Latency>,
    /// The flows' bytes since they were opened, counted by both hosts; absent on one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<CountedBytes>,
}

impl Run {
    /// The time of a side.
    pub fn side(&self, side: Side) -> &SideTime {
        match side {
            Side::Sender => &self.sender,
            Side::Receiver => &self.receiver,
        }
    }

    /// The programs' time at the tracepoints, as a share of both sides' time; `None` where it is not known.
    pub fn probe_share(&self) -> Option<f64> {
        let cores = (self.sender.total_s() + self.receiver.total_s()) / self.span_s;
        self.probe_cores.filter(|_| cores > 0.0).map(|probes| probes / cores)
    }

    /// The share of processor time that other processes had.
    pub fn foreign_share(&self) -> f64 {
        self.share(self.foreign_s)
    }

    /// The share that softirqs and interrupts of nobody known had.
    pub fn interrupts_share(&self) -> f64 {
        self.share(self.interrupts_s)
    }

    fn share(&self, seconds: f64) -> f64 {
        let sides = self.sender.total_s() + self.receiver.total_s();
        let all = sides + self.foreign_s + self.interrupts_s + self.tool_s;
        if all > 0.0 { seconds / all } else { 0.0 }
    }
}

/// The conditions of a profile, which two documents must share to be compared.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// The event that took the samples: `cycles` or `cpu-clock`.
    #[schemars(extend("enum" = ["cycles", "cpu-clock", "none"]))]
    pub clock: String,
    /// Samples per second and processor.
    pub sample_hz: u32,
    /// The version of the table of categories.
    pub categories: String,
}

/// A remark, drawn from the figures by a rule.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// The level that it is about.
    pub level: String,
    /// The figures that gave rise to it.
    pub evidence: String,
    /// The command that would change it.
    pub command: String,
}

/// A figure without a change and with it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The mean without.
    pub without: f64,
    /// The mean with.
    pub with: f64,
    /// Half of the 95 % interval of the difference, Welch's over the runs; null with one run of each.
    pub half_width: Option<f64>,
}

impl Effect {
    /// The effect that runs show.
    pub fn of(without: &[f64], with: &[f64]) -> Self {
        let mean = |x: &[f64]| stats::mean(x).unwrap_or(0.0);
        let half_width = stats::welch_half_width(without, with);
        Self { without: mean(without), with: mean(with), half_width }
    }

    /// With minus without.
    pub fn difference(&self) -> f64 {
        self.with - self.without
    }

    /// Whether the interval excludes zero.
    pub fn is_shown(&self) -> bool {
        self.half_width.is_some_and(|half| self.difference().abs() > half)
    }
}

/// A remark that was tried in turns: trials without what it asks for, and with it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Tried {
    /// The level.
    pub level: String,
    /// The figures that gave rise to the remark.
    pub evidence: String,
    /// The command whose effect was made; the remark's if it was not tried.
    pub command: String,
    /// The reason that it was not tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_tried: Option<String>,
    /// Throughput without the instrument, in payload bits per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bps: Option<Effect>,
    /// Processor time of both sides, in nanoseconds per payload byte.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ns_per_byte: Option<Effect>,
    /// The runs without.
    #[serde(default)]
    pub without: Vec<Run>,
    /// The runs with.
    #[serde(default)]
    pub with: Vec<Run>,
}

/// The document of `weft profile`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct ProfileReport {
    /// `weft-profile/1`.
    pub schema: String,
    /// The host of the runs; the sender of those between two hosts.
    pub host: Host,
    /// The receiving host; absent if the runs were on one host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// The pattern of traffic.
    #[schemars(extend("enum" = ["single", "one-to-one", "incast", "outcast", "all-to-all"]))]
    pub pattern: String,
    /// Bytes of a request, for requests; absent for bulk flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc_bytes: Option<u64>,
    /// The conditions of sampling.
    pub conditions: Conditions,
    /// The number of repeats of each level.
    pub repeats: u32,
    /// The levels in their order.
    pub configs: Vec<ConfigReport>,
    /// Kernel time by innermost functions that the table does not have, in seconds: the [`largest`] of all runs.
    #[serde(default)]
    pub missing: BTreeMap<String, f64>,
    /// Findings of the preflight, and limits of the figures.
    pub labels: Vec<String>,
    /// Remarks.
    #[serde(default)]
    pub advice: Vec<Advice>,
    /// Remarks that were tried, with `--try`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tried: Vec<Tried>,
}

/// The functions with the most seconds, as many as a document keeps.
pub fn largest(seconds: BTreeMap<String, f64>) -> BTreeMap<String, f64> {
    const KEPT: usize = 100;
    let mut all: Vec<(String, f64)> = seconds.into_iter().collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.into_iter().take(KEPT).collect()
}

impl Document for ProfileReport {
    const SCHEMA: &'static str = "weft-profile/1";

    fn tables(&self) -> Vec<Table> {
        tables::tables(self)
    }
}
