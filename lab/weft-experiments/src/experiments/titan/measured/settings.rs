//! Parameters of a run.

use core::fmt;
use weft_units::{BitsPerSec, Bytes, Nanos, Weight};

/// The ways of assigning flows to queues.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Assignment {
    /// By hash of the five-tuple, as multiqueue devices do by default.
    Hash,
    /// By hash among the queues of the sending processor (XPS).
    Pool,
    /// To the queue with the fewest active flows (DQA; technical report, section 4.1).
    Dynamic,
    /// By DQA among the queues of the sending processor.
    DynamicInPool,
}

/// Configurations of Titan's mechanisms in the papers (technical report, Table 3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MechanismConfig {
    /// No mechanism: queues by hash.
    Hash,
    /// Queues by XPS.
    Xps,
    /// DQA.
    T1,
    /// DQA and queue weights (DQWA).
    T2,
    /// DQA, DQWA and segment sizes (DSOS).
    T3,
    /// T1 with XPS.
    Tx1,
    /// T2 with XPS.
    Tx2,
    /// T3 with XPS.
    Tx3,
}

impl MechanismConfig {
    /// All configurations, in the papers' order.
    pub const ALL: [Self; 8] =
        [Self::Hash, Self::Xps, Self::T1, Self::T2, Self::T3, Self::Tx1, Self::Tx2, Self::Tx3];

    /// Returns the way of assigning flows to queues.
    pub const fn assignment(self) -> Assignment {
        match self {
            Self::Hash => Assignment::Hash,
            Self::Xps => Assignment::Pool,
            Self::T1 | Self::T2 | Self::T3 => Assignment::Dynamic,
            Self::Tx1 | Self::Tx2 | Self::Tx3 => Assignment::DynamicInPool,
        }
    }

    /// Whether the NIC serves the queues by their flows' weights (DQWA).
    pub const fn queue_weights(self) -> bool {
        matches!(self, Self::T2 | Self::T3 | Self::Tx2 | Self::Tx3)
    }

    /// Whether segments of shared queues are cut to [`RunSettings::segment_bytes`] (DSOS).
    pub const fn segment_sizes(self) -> bool {
        matches!(self, Self::T3 | Self::Tx3)
    }
}

impl fmt::Display for MechanismConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hash => "hash",
            Self::Xps => "XPS",
            Self::T1 => "T1",
            Self::T2 => "T2",
            Self::T3 => "T3",
            Self::Tx1 => "TX1",
            Self::Tx2 => "TX2",
            Self::Tx3 => "TX3",
        })
    }
}

/// The queue discipline inside a queue, before the ring.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum InnerQdisc {
    /// First in, first out.
    Pfifo,
    /// Stochastic fair queueing, as in the report's C3 to C9 and all of its Titan rows.
    #[default]
    Sfq,
}

impl fmt::Display for InnerQdisc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pfifo => "pfifo",
            Self::Sfq => "sfq",
        })
    }
}

/// Settings of the sender's namespace; `None` keeps the kernel's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SenderSettings {
    /// `net.ipv4.tcp_tso_rtt_log`: the growth of segments on short round trips (`tcp_tso_autosize`, since Linux
    /// 5.18). With 0 segments follow the flow's own rate; where queues take turns by packets, a slow flow's small
    /// segments then make it slower still.
    pub tso_rtt_log: Option<u32>,
    /// `net.ipv4.tcp_limit_output_bytes`: the most bytes of a flow below its socket (TCP small queues).
    pub limit_output: Option<Bytes>,
}

/// Parameters of one run.
#[derive(Clone, PartialEq, Debug)]
pub struct RunSettings {
    /// Titan's mechanisms in use.
    pub config: MechanismConfig,
    /// The queue discipline inside a queue.
    pub inner: InnerQdisc,
    /// Number of TCP connections; each sends without end.
    pub flows: u32,
    /// The link's rate on the wire.
    pub rate: BitsPerSec,
    /// Number of the NIC's queues.
    pub queues: u16,
    /// Time from the last connection to the steady part, for slow start and the queues it builds to pass.
    pub warm_up: Nanos,
    /// Length of the steady part.
    pub duration: Nanos,
    /// Seed of the flows' ports, and so of their hashes.
    pub seed: u64,
    /// DSOS: the largest piece of a flow that shares its queue; 16 KB in the papers' T3 and TX3.
    pub segment_bytes: Bytes,
    /// DSOS: whether all queues send such pieces while any is shared, as in the papers' implementation; otherwise
    /// only shared queues.
    pub segment_all: bool,
    /// Least time between two updates of queue weights in the NIC. With zero it applies each at once, as the authors'
    /// driver does; that updates "can also be rate limited" is only stated (ATC'17, section 3.2).
    pub update_interval: Nanos,
    /// Weights of groups of flows: flow `i` belongs to group `i % weights.len()`. `None` for equal weights.
    pub weights: Option<Vec<Weight>>,
    /// Settings of the sender's TCP.
    pub sender: SenderSettings,
}

impl Default for RunSettings {
    fn default() -> Self {
        Self {
            config: MechanismConfig::Hash,
            inner: InnerQdisc::Sfq,
            flows: 12,
            rate: BitsPerSec(1_000_000_000),
            queues: 8,
            warm_up: Nanos::from_secs(10),
            duration: Nanos::from_secs(10),
            seed: 1,
            segment_bytes: Bytes(16 << 10),
            segment_all: true,
            update_interval: Nanos::ZERO,
            weights: None,
            sender: SenderSettings::default(),
        }
    }
}

/// The reason that a run with these settings is impossible.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum RunSettingsError {
    /// No flow, or too many.
    #[error("{0} flows are outside 1 to 1024")]
    Flows(u32),
    /// A NIC without queues.
    #[error("a NIC without queues sends nothing")]
    NoQueue,
    /// A steady part too short to measure fairness.
    #[error("a duration of {0} is shorter than the second over which fairness is measured")]
    Duration(Nanos),
    /// A rate below 1 Mb/s.
    #[error("a rate of {0} is below 1 Mb/s")]
    Rate(BitsPerSec),
    /// Groups of weights without a flow, or an empty list of groups.
    #[error("{groups} groups of weights for {flows} flows")]
    Weights {
        /// Number of groups.
        groups: usize,
        /// Number of flows.
        flows: u32,
    },
}

impl RunSettings {
    /// Returns the interval with as many packets as 1 ms at the papers' 10 Gb/s: 10 ms at 1 Gb/s, 20 ms at 500 Mb/s.
    pub fn equal_packets(&self) -> Nanos {
        // The bytes of 1 ms at 10 Gb/s.
        self.rate.time_for(Bytes(1_250_000))
    }

    /// Returns the column's name for that interval: `nfm_10ms` at 1 Gb/s. `None` at 10 Gb/s, where it is `nfm_1ms`.
    pub(super) fn equal_packets_column(&self) -> Option<String> {
        let interval = self.equal_packets();
        (interval != Nanos::from_millis(1)).then(|| format!("nfm_{}", interval.to_string().replace(' ', "")))
    }

    /// Checks that the settings can be run.
    ///
    /// # Errors
    /// Fails for no flows or more than 1024, no queue, a steady part shorter than a
    /// second, a rate below 1 Mb/s, and more weights than flows.
    pub fn check(&self) -> Result<(), RunSettingsError> {
        if self.flows == 0 || self.flows > 1024 {
            return Err(RunSettingsError::Flows(self.flows));
        }
        if self.queues == 0 {
            return Err(RunSettingsError::NoQueue);
        }
        if self.duration < Nanos::from_secs(1) {
            return Err(RunSettingsError::Duration(self.duration));
        }
        if self.rate < BitsPerSec(1_000_000) {
            return Err(RunSettingsError::Rate(self.rate));
        }
        match &self.weights {
            Some(weights) if weights.is_empty() || weights.len() > self.flows as usize => {
                Err(RunSettingsError::Weights { groups: weights.len(), flows: self.flows })
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_packets_as_in_a_millisecond_of_10_gbps() {
        let at = |mbps: u64| RunSettings { rate: BitsPerSec(mbps * 1_000_000), ..Default::default() };
        assert_eq!(at(10_000).equal_packets(), Nanos::from_millis(1));
        assert_eq!(at(1_000).equal_packets(), Nanos::from_millis(10));
        assert_eq!(at(500).equal_packets(), Nanos::from_millis(20));
    }

    #[test]
    fn each_configuration_adds_a_part() {
        let parts = |c: MechanismConfig| (c.queue_weights(), c.segment_sizes());
        for [one, two, three] in [
            [MechanismConfig::T1, MechanismConfig::T2, MechanismConfig::T3],
            [MechanismConfig::Tx1, MechanismConfig::Tx2, MechanismConfig::Tx3],
        ] {
            assert_eq!([parts(one), parts(two), parts(three)], [(false, false), (true, false), (true, true)]);
            assert!(one.assignment() == two.assignment() && two.assignment() == three.assignment());
        }
        assert_eq!(MechanismConfig::Hash.assignment(), Assignment::Hash);
        assert_ne!(MechanismConfig::T1.assignment(), MechanismConfig::Tx1.assignment());
    }

    #[test]
    fn what_cannot_run_is_refused() {
        let refused = |settings: RunSettings| settings.check().expect_err("refused").to_string();
        assert!(RunSettings::default().check().is_ok());
        assert!(refused(RunSettings { flows: 0, ..Default::default() }).contains("0 flows"));
        assert!(refused(RunSettings { queues: 0, ..Default::default() }).contains("queues"));
        assert!(
            refused(RunSettings { duration: Nanos::from_millis(999), ..Default::default() })
                .contains("second")
        );
        assert!(refused(RunSettings { rate: BitsPerSec(1), ..Default::default() }).contains("rate"));
        let weights = Some(vec![Weight::new(1).expect("not zero"); 3]);
        assert!(refused(RunSettings { flows: 2, weights, ..Default::default() }).contains("3 groups"));
    }
}
