//! How the link's rate was chosen, and what the machine had no processor for.

use serde::{Deserialize, Serialize};

/// A trial on a link that is no limit: what the machine carries of the demo's own heaviest load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RateTrial {
    /// What it carried: the median of `windows_bps`, in bits per second on the wire.
    pub carried_bps: f64,
    /// Its windows after the settling, in bits per second.
    pub windows_bps: Vec<f64>,
    /// The mode in which the NIC ran.
    pub mode: super::Mode,
    /// TCP flows that sent at once.
    pub flows: u32,
    /// Requests a second of T0 beside them; 0 without it.
    pub requests_per_s: u32,
    /// How super-packets were cut.
    pub segments_per_turn: String,
    /// How long the flows had to start and settle before the first window, in seconds.
    pub settle_s: f64,
    /// The rates to choose from, in bits per second.
    pub choices_bps: Vec<u64>,
    /// The rate is the largest of `choices_bps` that is at most `carried_bps` divided by this.
    pub divisor: f64,
}

impl RateTrial {
    /// The rate that follows: the smallest choice where none is small enough.
    pub fn rate_bps(&self) -> u64 {
        let fits = |rate: &&u64| **rate as f64 * self.divisor <= self.carried_bps;
        let smallest = self.choices_bps.iter().min().copied().unwrap_or(0);
        self.choices_bps.iter().filter(fits).max().copied().unwrap_or(smallest)
    }

    /// How the rate was chosen, in words.
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
            crate::human::rate(self.carried_bps),
            self.flows,
            self.mode,
            self.segments_per_turn,
            self.windows_bps.len(),
            crate::human::time(self.settle_s),
        )
    }
}

/// For how long threads were ready to run and had no core, in seconds, while the tenants sent (the kernel's schedstat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreWaits {
    /// Length of the time that was looked at.
    pub span_s: f64,
    /// The NIC's transmit worker.
    pub worker_s: f64,
    /// T0's client and server.
    pub probe_s: f64,
    /// The kernel's threads that carry packets when there are many (ksoftirqd), all of them together.
    pub softirq_s: f64,
    /// Time in which the cores did not run because of other machines on the same hardware, all cores together.
    pub steal_s: f64,
}

impl CoreWaits {
    /// All of them together.
    pub fn total_s(&self) -> f64 {
        self.worker_s + self.probe_s + self.softirq_s + self.steal_s
    }
}
