//! The choice of the link's rate, and the time that threads lacked a core.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A trial on an unlimited link: the machine's throughput under the demo's heaviest load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateTrial {
    /// The throughput: the median of `windows_bps`, in bits per second on the wire.
    pub carried_bps: f64,
    /// Its windows after the settling time, in bits per second.
    pub windows_bps: Vec<f64>,
    /// The mode of the NIC.
    pub mode: super::Mode,
    /// The number of TCP flows that sent at once.
    pub flows: u32,
    /// The requests per second of T0 at the same time; 0 without T0.
    pub requests_per_s: u32,
    /// The segmentation of super-packets.
    pub segments_per_turn: String,
    /// The time for the flows to start and settle before the first window, in seconds.
    pub settle_s: f64,
    /// The candidate rates, in bits per second.
    pub choices_bps: Vec<u64>,
    /// The divisor: the rate is the largest of `choices_bps` that is at most `carried_bps` divided by it.
    pub divisor: f64,
}

impl RateTrial {
    /// The resulting rate; the smallest candidate if none is small enough.
    pub fn rate_bps(&self) -> u64 {
        let fits = |rate: &&u64| **rate as f64 * self.divisor <= self.carried_bps;
        let smallest = self.choices_bps.iter().min().copied().unwrap_or(0);
        self.choices_bps.iter().filter(fits).max().copied().unwrap_or(smallest)
    }

    /// The choice of the rate, in words.
    pub fn sentence(&self) -> String {
        let requests = match self.requests_per_s {
            0 => String::new(),
            n => format!(" and {n} requests a second"),
        };
        let choices: Vec<String> = self.choices_bps.iter().map(|r| (r / 1_000_000).to_string()).collect();
        format!(
            "the largest of {} Mb/s that is at most a {} of the {} that this machine carried in a trial: {} flows{requests} in \
             mode {}, {}, the median of {} windows after {} of settling",
            choices.join(", "),
            if (self.divisor - 3.0).abs() < 1e-9 {
                "third".to_owned()
            } else {
                format!("{}th", self.divisor)
            },
            weft_facts::human::rate(self.carried_bps),
            self.flows,
            self.mode,
            self.segments_per_turn,
            self.windows_bps.len(),
            weft_facts::human::time(self.settle_s),
        )
    }
}

/// The time for which threads were ready to run without a core, in seconds, while the tenants sent (the kernel's schedstat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CoreWaits {
    /// Length of the observed time.
    pub span_s: f64,
    /// The NIC's transmit worker.
    pub worker_s: f64,
    /// T0's client and server.
    pub probe_s: f64,
    /// The kernel's threads that process packets under load (ksoftirqd), all together.
    pub softirq_s: f64,
    /// The time that the hypervisor gave to other machines (steal time), all cores together.
    pub steal_s: f64,
}

impl CoreWaits {
    /// The sum over all of them.
    pub fn total_s(&self) -> f64 {
        self.worker_s + self.probe_s + self.softirq_s + self.steal_s
    }
}
