//! The document of `weft demo`: Loom's isolation experiment (NSDI'19, figures 9, 10 and 11), run on this host.
//!
//! The runner fills in the measurements (samples, latency, queues, balances, cost) and calls [`DemoReport::summarise`], which
//! computes every figure that derives from the samples. [`verdicts`] then judges them; [`demo_tables`] and [`demo_page`] show them.

mod fine;
mod lag;
mod limits;
mod page;
mod published;
mod summary;
mod tables;
mod trial;
mod verdict;

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use weft_facts::record::{Conservation, Document, Host};
use weft_facts::table::Table;

pub use fine::{FineSamples, FineSpan};
pub use lag::{ENGINE_LAG_CHUNKS, Lag, largest_lag};
pub use limits::{LimitReport, limit_report};
pub use page::{demo_html, demo_page};
pub use published::{PublishedStatement, published_statements};
pub use summary::{
    FullLoad, full_load, full_load_mean, link_use, link_use_min, link_use_p5, share_error_p95, share_errors,
};
pub use tables::{demo_table_list, demo_tables};
pub use trial::{CoreWaits, RateTrial};
pub use verdict::{
    DemoVerdict, LATENCY_RATIO_MAX, LIMIT_ERROR_MAX, LIMIT_EXCESS_MAX, LINK_USE_MIN, ROUND_TRIPS_MIN,
    SHARE_ERROR_MAX, STEADY_WINDOWS_MIN, verdicts,
};

/// The tenant whose latency is measured. It sends little, so the others share the link without it.
pub const LATENCY_TENANT: &str = "T0";

/// The use of the NIC's queues: the four configurations of the paper.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// A single queue for all.
    Sq,
    /// A fixed number of queues, flows spread by hash, round robin between queues.
    Mq,
    /// A queue per flow, round robin between queues.
    Qpf,
    /// A queue per flow, the policy in the NIC.
    #[default]
    Loom,
}

impl Mode {
    /// All modes in the order of the paper's figure 9, a to d.
    pub const ALL: [Mode; 4] = [Mode::Sq, Mode::Mq, Mode::Qpf, Mode::Loom];

    /// The name as in the papers.
    pub const fn title(self) -> &'static str {
        match self {
            Mode::Sq => "SQ",
            Mode::Mq => "MQ",
            Mode::Qpf => "QPF",
            Mode::Loom => "Loom",
        }
    }

    /// The name on the command line and in the document.
    pub const fn name(self) -> &'static str {
        match self {
            Mode::Sq => "sq",
            Mode::Mq => "mq",
            Mode::Qpf => "qpf",
            Mode::Loom => "loom",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.title())
    }
}

/// The document of `weft demo`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DemoReport {
    /// [`DemoReport::SCHEMA`](Document::SCHEMA).
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The seed of all random choices in the run, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// The start of the run (RFC 3339), by the caller's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<String>,
    /// The command line that made this document, to repeat it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The reproduced figure of the paper: 9 (with 10) or 11.
    #[schemars(extend("enum" = [9, 11]))]
    pub figure: u8,
    /// The link's rate in bits per second.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub link_bps: u64,
    /// The source of `link_bps`, such as `--rate` or a measurement.
    pub link_bps_source: String,
    /// The trial that determined the rate; absent if the rate was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_trial: Option<RateTrial>,
    /// Tenant (in figure 11: or job) -> number of its flows.
    pub flows: BTreeMap<String, u32>,
    /// The congestion control of the bulk flows.
    pub congestion_control: String,
    /// Length of the run of each mode in seconds.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub duration_s: f64,
    /// The modes in the order in which they ran.
    pub modes: Vec<ModeReport>,
    /// Figure 11 only: a copy of mode `loom`'s samples, by job, for readers that do not know modes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Figure 11 only: a copy of mode `loom`'s limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitReport>,
}

impl DemoReport {
    /// The report of a mode, if the mode ran.
    pub fn mode(&self, mode: Mode) -> Option<&ModeReport> {
        self.modes.iter().find(|m| m.mode == mode)
    }

    /// The plural noun for those who share the link: in figure 11, jobs of a tenant.
    fn sharer_name(&self) -> &'static str {
        if self.figure == 11 { "tenants and jobs" } else { "tenants" }
    }

    /// Computes every figure that derives from the samples: every mode's summary, and for figure 11 the copies of Loom's
    /// samples and limits. Call it once, after all measurements are filled in.
    pub fn summarise(&mut self) {
        for mode in &mut self.modes {
            mode.summarise(self.link_bps as f64, self.figure);
        }
        if self.figure == 11
            && let Some(loom) = self.modes.iter().find(|m| m.mode == Mode::Loom)
        {
            self.samples = loom.samples.clone();
            self.limits = loom.limits.clone();
        }
    }
}

impl Document for DemoReport {
    const SCHEMA: &'static str = "weft-demo/1";

    fn tables(&self) -> Vec<Table> {
        demo_table_list(self)
    }
}

/// The results of one mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModeReport {
    /// The mode.
    pub mode: Mode,
    /// Its configuration, in a sentence.
    pub description: String,
    /// Throughput over time.
    pub samples: Vec<Sample>,
    /// 95th percentile of the relative share errors in steady windows; see [`share_error_p95`]. Dimensionless. Absent from
    /// figure 11, whose shares are not equal.
    pub share_error_p95: Option<f64>,
    /// The smallest use of the link in a steady window, as a fraction of `link_bps`.
    pub link_use_min: Option<f64>,
    /// The use of the link that 95 % of the steady windows reach, as a fraction of `link_bps`.
    #[serde(default)]
    pub link_use_p5: Option<f64>,
    /// The largest lag of any tenant behind the ideal fluid schedule; see [`Lag`]. Absent for figure 11, and if the backlog is
    /// not known.
    #[serde(default)]
    pub lag: Option<Lag>,
    /// Latency of tenant T0 at full load; absent if not measured.
    pub latency_s: Option<LatencySummary>,
    /// 99th percentile of the wait of T0's packets in the NIC for their turn at full load, in seconds of link time, over the
    /// longest wait in each fine window. Absent if not measured.
    #[serde(default)]
    pub probe_wait_p99_s: Option<f64>,
    /// Latency of tenant T0 over time (figure 10), one entry per 250 ms.
    #[serde(default)]
    pub latency_samples: Vec<LatencySample>,
    /// Tenant -> median of its backlog below its sockets at full load, in bytes.
    pub standing_queue_bytes: BTreeMap<String, f64>,
    /// Tenant -> its largest backlog at full load, in bytes.
    #[serde(default)]
    pub standing_queue_max_bytes: BTreeMap<String, f64>,
    /// Backlogs over time, if they were sampled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queue_samples: Vec<QueueSample>,
    /// Departures and backlog at a fine grain: `samples` and `lag` follow from them. Absent from what is simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fine: Option<FineSamples>,
    /// The time for which threads that carry traffic were ready to run without a core; absent if the kernel does not report it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core_waits: Option<CoreWaits>,
    /// Whether every packet and byte is accounted for.
    pub conservation: Conservation,
    /// The cost of the mode.
    #[serde(default)]
    pub cost: Cost,
    /// Figure 11: the rate limits and their accuracy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitReport>,
    /// Observations that affect the figures, for example stalls of the NIC's thread.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl ModeReport {
    /// A report of `mode` without measurements.
    pub fn new(mode: Mode, description: impl Into<String>) -> Self {
        ModeReport {
            mode,
            description: description.into(),
            samples: Vec::new(),
            share_error_p95: None,
            link_use_min: None,
            link_use_p5: None,
            lag: None,
            latency_s: None,
            probe_wait_p99_s: None,
            latency_samples: Vec::new(),
            standing_queue_bytes: BTreeMap::new(),
            standing_queue_max_bytes: BTreeMap::new(),
            queue_samples: Vec::new(),
            fine: None,
            core_waits: None,
            conservation: Conservation::default(),
            cost: Cost::default(),
            limits: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Computes the figures that derive from the samples.
    fn summarise(&mut self, link_bps: f64, figure: u8) {
        if let Some(fine) = &self.fine {
            self.samples = fine.samples();
            self.lag = if figure == 9 { largest_lag(fine, link_bps) } else { None };
            let load = fine.full_load();
            self.probe_wait_p99_s = load.and_then(|(from, to, _)| fine.probe_wait(from, to, 99.0));
        }
        self.share_error_p95 = if figure == 9 { share_error_p95(&self.samples) } else { None };
        self.link_use_min = link_use_min(&self.samples, link_bps);
        self.link_use_p5 = link_use_p5(&self.samples, link_bps);
    }
}

/// Throughput in one window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Start of the window in seconds since the run of the mode started.
    pub t_s: f64,
    /// Length of the window in seconds.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub window_s: f64,
    /// Tenant (or job) -> bits per second on the wire.
    pub bps: BTreeMap<String, f64>,
    /// The tenants (or jobs) that were backlogged in the NIC for the whole window, and T0.
    pub active: Vec<String>,
    /// False while the set of backlogged tenants changes; such windows are shown, and not judged.
    #[serde(default = "yes")]
    pub steady: bool,
}

/// The default of [`Sample::steady`].
fn yes() -> bool {
    true
}

/// Percentiles (nearest rank) of a latency, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySummary {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The number of round trips.
    #[serde(default)]
    pub count: u64,
}

/// Latency in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencySample {
    /// Start of the interval in seconds since the run of the mode started.
    pub t_s: f64,
    /// 90th percentile (nearest rank) in the interval, in seconds.
    pub p90_s: f64,
}

/// Backlogs at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueSample {
    /// Seconds since the run of the mode started.
    pub t_s: f64,
    /// Tenant -> backlog below its sockets, in bytes.
    pub bytes: BTreeMap<String, f64>,
}

/// The cost of a mode. Costs that were not measured are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Mean time of the eBPF program per packet, in nanoseconds.
    pub bpf_ns_per_packet: Option<f64>,
    /// Runs of the eBPF program.
    pub bpf_runs: Option<u64>,
    /// CPU time of the software NIC's threads divided by wall time; 1 is one core.
    pub nic_cpu_share: Option<f64>,
    /// Doorbells posted.
    pub doorbells: Option<u64>,
    /// Bytes written to doorbells and their metadata.
    pub doorbell_bytes: Option<u64>,
    /// Number of times that the transmit worker was woken.
    pub wakeups: Option<u64>,
    /// Other costs: name (with its unit) -> number or text.
    #[serde(flatten)]
    pub other: BTreeMap<String, Value>,
}
