//! TCP of the running kernel through a known bottleneck: the measured counterpart of a simulation of TCP.
//!
//! 1. Testbed. A sender, a router and a receiver are network namespaces of this run, joined by veth pairs. `Path`
//!    owns them and removes them on drop. The bottleneck is a token bucket filter (TBF) at the router's egress to the
//!    receiver, with a drop-tail FIFO bounded in bytes. The sender's link has `gso_max_segs` 1, so TCP hands over
//!    single packets and the queue holds packets, not uncut segments.
//! 2. Flows. iperf3 opens all connections, in as many processes as its limit of streams demands. `Flows` owns the
//!    processes.
//! 3. Settling. The steady part begins a fifth of the duration (1 to 3 s) after the last flow has connected.
//! 4. Steady part. The qdisc's counters are sampled every 2 ms; `Steady` keeps the samples and the counters at both
//!    ends.
//! 5. End. The receiver's kernel counts payload at both ends of the steady part (`received`); iperf3's intervals
//!    within it give retransmissions and round trips; the kernel's counters over the whole run give the accounting,
//!    `offered = sent + dropped + waiting`.
//!
//! Receiver and bottleneck are counted by different code (TCP, the link, the qdisc), so that an error in one shows in
//! the other.
//!
//! The path adds no delay: an empty path's round trip is the machine's processing time, some tens of microseconds.
//! Kernels without netem have no qdisc that delays, so a [`Bottleneck::delay`] other than zero is refused.
//!
//! The machine itself may disturb a measurement, so its effects have figures: [`TcpMeasurement::link_lost`] for time in
//! which the bottleneck was not served, [`StandingQueue::longest_gap`] for late samples, [`BottleneckAccounting::lost_before`]
//! for drops before the bottleneck. A torn reading of the counters is repeated up to twice and not counted: a
//! consistent one follows within microseconds.

mod lost_time;
mod received;
mod testbed;

use core::fmt;
use core::time::Duration;
use lost_time::{LostTime, on_the_wire};
use received::Received;
use testbed::{Path, RECEIVER};
use weft_facts::stats;
use weft_host::sock_diag::SockDiagError;
use weft_host::tc::{Handle, QdiscCounters, TcDevice, TcError};
use weft_host::{
    OsError, clock, link::LinkError, netns::NetNsError, process::ProcessError, sysctl::SysctlError,
};
use weft_packet::ethernet;
use weft_profile::error::ProfileError;
use weft_profile::iperf::{self, Client, Flows, MAX_STREAMS, Senders, Start, deal};
use weft_units::{BitsPerSec, Bytes, Instant, Nanos, Packets};

/// IPv4 header 20, TCP header 20, and the timestamps option with its padding 12 (RFC 7323, appendix A).
pub const TCP_IP_HEADERS: Bytes = Bytes(52);
/// The time between two samples of the queue.
pub const SAMPLE_INTERVAL: Nanos = Nanos::from_millis(2);
/// The most flows of one run: the streams of eight iperf3 processes.
pub const MAX_FLOWS: u32 = 1024;
/// Least and greatest settling time, which is otherwise a fifth of the duration.
const SETTLE: (Nanos, Nanos) = (Nanos::from_secs(1), Nanos::from_secs(3));
/// Seconds allowed between the first and the last process to connect: for one process and for several.
const STAGGER: (u64, u64) = (1, 4);

/// Returns the wire bytes of an IP packet of `mtu` bytes.
fn wire(mtu: u32) -> Bytes {
    ethernet::wire_of(ethernet::frame_of(Bytes(mtu.into())))
}

/// A bottleneck and the flows through it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bottleneck {
    /// The link's rate on the wire: frames with checksum, preamble and gap.
    pub rate: BitsPerSec,
    /// The length of its FIFO, in bytes of frames without checksum, as the kernel counts them.
    pub queue: Bytes,
    /// Delay besides the queue's. Must be zero: see the module's documentation.
    pub delay: Nanos,
    /// Number of TCP connections; each sends without end.
    pub flows: u32,
    /// Length of the steady part.
    pub duration: Nanos,
    /// The congestion control, by its kernel name.
    pub congestion_control: String,
    /// The largest IP packet in bytes.
    pub mtu: u32,
}

impl Bottleneck {
    /// Returns the payload of a full segment.
    pub fn segment(&self) -> Bytes {
        Bytes(u64::from(self.mtu)).saturating_sub(TCP_IP_HEADERS)
    }

    /// Returns the payload rate of a link that is never idle and sends full segments only.
    pub fn payload_rate(&self) -> BitsPerSec {
        let wire = u128::from(wire(self.mtu).get());
        let rate = u128::from(self.rate.get()) * u128::from(self.segment().get()) / wire;
        BitsPerSec(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Returns the settling time: from the last connection to the beginning of the steady part.
    pub fn settle(&self) -> Nanos {
        Nanos(self.duration.get() / 5).clamp(SETTLE.0, SETTLE.1)
    }

    fn check(&self) -> Result<(), KernelTcpError> {
        let invalid = |why: String| Err(KernelTcpError::Invalid(why));
        let frame = ethernet::frame_of(Bytes(self.mtu.into()));
        if self.delay != Nanos::ZERO {
            return Err(KernelTcpError::NoDelay(self.delay));
        }
        if self.flows == 0 || self.flows > MAX_FLOWS {
            return invalid(format!("{} flows are outside 1 to {MAX_FLOWS}", self.flows));
        }
        if self.mtu < 576 || self.mtu > 65_535 {
            return invalid(format!("an MTU of {} is outside 576 to 65535 bytes", self.mtu));
        }
        if self.queue < frame || self.queue.get() > u64::from(u32::MAX) {
            return invalid(format!(
                "a queue of {} is smaller than a frame of {frame}, or larger than 4 GB",
                self.queue
            ));
        }
        if self.duration < Nanos::from_secs(1) || self.duration > Nanos::from_secs(3600) {
            return invalid(format!("a duration of {} is outside 1 s to 1 h", self.duration));
        }
        if self.rate < BitsPerSec(100_000) {
            return invalid(format!("a rate of {} is below 100 kb/s", self.rate));
        }
        Ok(())
    }
}

/// The reason that a bottleneck could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum KernelTcpError {
    /// The rights for namespaces and links are missing.
    #[error("measuring the kernel's TCP: {0}")]
    Rights(#[from] weft_host::RightsError),
    /// The description has a delay.
    #[error("a delay of {0} needs netem, which is not used here: set the delay to zero")]
    NoDelay(Nanos),
    /// The kernel lacks the congestion control.
    #[error("this kernel has no congestion control {wanted}; it has: {available}")]
    CongestionControl {
        /// The congestion control in the description.
        wanted: String,
        /// The kernel's list.
        available: String,
    },
    /// The description is invalid.
    #[error("kernel TCP: {0}")]
    Invalid(String),
    /// A step did not complete in time.
    #[error("waited too long for {0}; is the machine busy?")]
    Late(&'static str),
    /// iperf3 failed, or wrote an unreadable result.
    #[error("iperf3: {0}")]
    Iperf(String),
    /// A step on the bottleneck's qdisc failed.
    #[error(transparent)]
    Tbf(#[from] TcError),
    /// A step on a namespace failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A step on a link or an address failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A setting could not be changed.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// A program could not be run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Another system call failed.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The receiver's connections could not be read.
    #[error(transparent)]
    SockDiag(#[from] SockDiagError),
}

impl From<ProfileError> for KernelTcpError {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::Late(what) => Self::Late(what),
            ProfileError::Iperf(text) | ProfileError::Ended { said: text, .. } => Self::Iperf(text),
            ProfileError::NetNs(error) => Self::NetNs(error),
            ProfileError::Process(error) => Self::Process(error),
            ProfileError::Os(error) => Self::Os(error),
            other => Self::Iperf(other.to_string()),
        }
    }
}

/// Stages of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MeasurementStage {
    /// Namespaces, links and the bottleneck exist.
    Ready,
    /// All flows are connected.
    Connected,
    /// The steady part is running.
    Measuring {
        /// Time since its beginning.
        passed: Nanos,
        /// Its length.
        of: Nanos,
    },
    /// The applications are ending.
    Ending,
}

impl fmt::Display for MeasurementStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MeasurementStage::Ready => f.write_str("the bottleneck is ready"),
            MeasurementStage::Connected => f.write_str("all flows are connected"),
            MeasurementStage::Measuring { passed, of } => write!(f, "measured {passed} of {of}"),
            MeasurementStage::Ending => f.write_str("waiting for iperf3 to end"),
        }
    }
}

/// A sample of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BottleneckSample {
    /// Time since the steady part began.
    pub at: Nanos,
    /// Bytes of frames waiting.
    pub backlog: Bytes,
    /// Packets waiting.
    pub waiting: Packets,
}

/// Statistics of the queue over the steady part. All samples have the same weight.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StandingQueue {
    /// The mean, in bytes.
    pub mean: f64,
    /// The nearest-rank percentiles 1, 10, 50, 90 and 99.
    pub percentiles: [(f64, Bytes); 5],
    /// The shortest and the longest.
    pub range: (Bytes, Bytes),
    /// The longest time between two samples; a busy machine shows here.
    pub longest_gap: Nanos,
}

/// The bottleneck's accounting over the whole run, counted by the kernel: `offered = sent + dropped + waiting`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BottleneckAccounting {
    /// Packets that the router received from the sender, counted by its link.
    pub offered: Packets,
    /// Packets forwarded, counted by the qdisc, as are the next two.
    pub sent: Packets,
    /// Packets dropped because the FIFO was full.
    pub dropped: Packets,
    /// Packets still waiting.
    pub waiting: Packets,
    /// Packets lost between sender and router: expected to be zero.
    pub lost_before: Packets,
}

impl BottleneckAccounting {
    /// Whether packets offered equal packets sent, dropped and waiting.
    pub fn balance(&self) -> bool {
        self.offered == self.sent + self.dropped + self.waiting
    }
}

/// Results of a measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct TcpMeasurement {
    /// Payload rate that the receivers' TCP took in over the steady part, all flows together.
    pub throughput: BitsPerSec,
    /// Payload rate of each flow over the steady part; `weft_facts::stats::jain` takes them as fractions.
    pub flows: Vec<BitsPerSec>,
    /// Wire rate of the bottleneck over the steady part, as a fraction of its configured rate.
    pub link_use: f64,
    /// The fraction of the steady part's capacity that the bottleneck left unused although packets waited: the machine
    /// served it late.
    pub link_lost: f64,
    /// The bottleneck's queue over the steady part.
    pub standing_queue: StandingQueue,
    /// Segments retransmitted in the steady part (`tcpi_total_retrans` from iperf3).
    pub retransmitted: Packets,
    /// Packets that the bottleneck dropped in the steady part.
    pub dropped: Packets,
    /// Packets that the bottleneck sent in the steady part.
    pub sent: Packets,
    /// The mean of the smoothed round-trip times (`tcpi_rtt` from iperf3, twice a second per flow). `None` if iperf3
    /// could not read them.
    pub rtt_mean: Option<Nanos>,
    /// Accounting over the whole run.
    pub accounting: BottleneckAccounting,
    /// The queue's samples over the steady part.
    pub samples: Vec<BottleneckSample>,
}

impl TcpMeasurement {
    /// Jain's index of the flows' rates; `None` if nothing was received.
    pub fn jain(&self) -> Option<f64> {
        stats::jain(&self.flows.iter().map(|rate| rate.get() as f64).collect::<Vec<_>>())
    }
}

/// Sends `bottleneck.flows` flows through the bottleneck and measures them. Takes duration, settling time and some
/// seconds more. Touches nothing outside the namespaces of this call, and leaves nothing behind.
///
/// # Errors
/// Fails without the rights, iperf3, the congestion control or TBF, for a delay, and when the machine is too busy.
pub fn measure(
    bottleneck: &Bottleneck,
    progress: &mut dyn FnMut(MeasurementStage),
) -> Result<TcpMeasurement, KernelTcpError> {
    bottleneck.check()?;
    weft_host::require_network_rights()?;
    let path = Path::create(bottleneck)?;
    let mut reader = path.reader()?;
    let mut connections = Received::reader(&path.receiver)?;
    let (before, at_start) = (path.offered()?.0, counters(&mut reader)?);
    progress(MeasurementStage::Ready);
    let settle = bottleneck.settle();
    let stagger = if bottleneck.flows > 128 { STAGGER.1 } else { STAGGER.0 };
    let sending = (bottleneck.duration + settle).get().div_ceil(1_000_000_000) + stagger;
    let mut flows = Flows::start(&senders(&path, bottleneck, sending))?;
    progress(MeasurementStage::Connected);
    let from = clock::now() + settle;
    let to = from + bottleneck.duration;
    if to > flows.first_start() + Nanos::from_secs(sending) {
        return Err(KernelTcpError::Late("the last flows to connect"));
    }
    std::thread::sleep(from.saturating_since(clock::now()).into());
    let frame = ethernet::frame_of(Bytes(bottleneck.mtu.into()));
    let lost = LostTime::new(bottleneck.rate);
    let first = Received::read(&mut connections)?;
    let steady = sample((&mut reader, frame), lost, &mut flows, (from, to), progress)?;
    let last = Received::read(&mut connections)?;
    progress(MeasurementStage::Ending);
    let seen = flows.finish(&bottleneck.congestion_control, from, to)?;
    let (offered, lost_before) = path.offered()?;
    let end = counters(&mut reader)?;
    let accounting = BottleneckAccounting {
        offered: offered - before,
        sent: end.sent.packets - at_start.sent.packets,
        dropped: end.dropped - at_start.dropped,
        waiting: end.backlog.packets,
        lost_before,
    };
    let rates = last
        .rates(&first, &seen.flows)
        .ok_or_else(|| KernelTcpError::Iperf("a flow ended before its time".to_owned()))?;
    conclude(bottleneck, steady, rates, &seen, accounting)
}

fn senders<'a>(path: &'a Path, b: &'a Bottleneck, seconds: u64) -> Senders<'a> {
    let client = |flows| Client { flows, cpu: None, first_port: None, cgroup: None };
    Senders {
        sender: &path.sender,
        receiver: &path.receiver,
        address: RECEIVER,
        clients: deal(b.flows, b.flows.div_ceil(MAX_STREAMS)).map(client).collect(),
        seconds,
        start: Start::AsConnected,
        // A block of a few segments keeps slow flows sending at an even pace.
        block: Some(Bytes(4 * b.segment().get())),
        congestion_control: &b.congestion_control,
        cancelled: &|| false,
    }
}

/// Samples of the queue, and timed counters at both ends of the steady part.
struct Steady {
    samples: Vec<BottleneckSample>,
    ends: [(Instant, QdiscCounters); 2],
    lost: LostTime,
}

/// Reads the bottleneck's counters.
fn counters(reader: &mut TcDevice) -> Result<QdiscCounters, TcError> {
    Ok(reader.qdisc(Handle::FIRST)?.counters)
}

/// Reads the queue's counters, with the time. The kernel reads bytes and packets one after the other while packets
/// leave. A reading with more bytes than its packets can have, at most `frame` bytes each, is torn and is repeated.
/// One that stays so is accepted: a torn reading does not repeat.
fn whole_reading(reader: &mut TcDevice, frame: Bytes) -> Result<(Instant, QdiscCounters), KernelTcpError> {
    const READINGS: usize = 3;
    let mut reading = (clock::now(), counters(reader)?);
    for _ in 1..READINGS {
        if reading.1.backlog.bytes.get() <= reading.1.backlog.packets.get() * frame.get() {
            break;
        }
        reading = (clock::now(), counters(reader)?);
    }
    Ok(reading)
}

/// Samples the queue until the steady part ends.
fn sample(
    (reader, frame): (&mut TcDevice, Bytes),
    lost: LostTime,
    flows: &mut Flows,
    (from, to): (Instant, Instant),
    progress: &mut dyn FnMut(MeasurementStage),
) -> Result<Steady, KernelTcpError> {
    const SAMPLES_PER_REPORT: usize = 250;
    let first = (clock::now(), counters(reader)?);
    let mut steady = Steady { samples: Vec::new(), ends: [first, first], lost };
    let mut next = first.0;
    loop {
        next = (next + SAMPLE_INTERVAL).max(clock::now());
        std::thread::sleep(Duration::from(next.saturating_since(clock::now())));
        let (at, stats) = whole_reading(reader, frame)?;
        if at >= to {
            return Ok(steady);
        }
        steady.lost.read(&steady.ends[1], &(at, stats));
        steady.ends[1] = (at, stats);
        let passed = at.saturating_since(from);
        let sample =
            BottleneckSample { at: passed, backlog: stats.backlog.bytes, waiting: stats.backlog.packets };
        steady.samples.push(sample);
        if steady.samples.len().is_multiple_of(SAMPLES_PER_REPORT) {
            flows.check()?;
            progress(MeasurementStage::Measuring { passed, of: to - from });
        }
    }
}

fn conclude(
    bottleneck: &Bottleneck,
    steady: Steady,
    flows: Vec<BitsPerSec>,
    seen: &iperf::Seen,
    accounting: BottleneckAccounting,
) -> Result<TcpMeasurement, KernelTcpError> {
    if flows.len() != bottleneck.flows as usize {
        let why = format!("{} of {} flows have figures", flows.len(), bottleneck.flows);
        return Err(KernelTcpError::Iperf(why));
    }
    let [(begin, first), (end, last)] = steady.ends;
    let wire = on_the_wire(&first, &last);
    let link_use = wire.get() as f64 / (bottleneck.rate.bytes_in(end - begin).get() as f64).max(1.0);
    Ok(TcpMeasurement {
        throughput: flows.iter().copied().sum(),
        flows,
        link_use,
        link_lost: steady.lost.part_of(end - begin),
        standing_queue: standing_queue(&steady.samples)
            .ok_or(KernelTcpError::Late("a sample of the queue"))?,
        retransmitted: seen.retransmitted,
        dropped: last.dropped - first.dropped,
        sent: last.sent.packets - first.sent.packets,
        rtt_mean: stats::mean(&seen.rtts_us).map(|us| Nanos((us * 1e3).round() as u64)),
        accounting,
        samples: steady.samples,
    })
}

fn standing_queue(samples: &[BottleneckSample]) -> Option<StandingQueue> {
    let backlog: Vec<f64> = samples.iter().map(|s| s.backlog.get() as f64).collect();
    let sorted = stats::sorted(&backlog);
    let percentile = |p: f64| (p, Bytes(stats::percentile_sorted(&sorted, p).unwrap_or_default() as u64));
    let gaps = samples.windows(2).filter_map(|pair| Some(pair.last()?.at - pair.first()?.at));
    Some(StandingQueue {
        mean: stats::mean(&backlog)?,
        percentiles: [1.0, 10.0, 50.0, 90.0, 99.0].map(percentile),
        range: (percentile(0.0).1, percentile(100.0).1),
        longest_gap: gaps.max().unwrap_or(Nanos::ZERO),
    })
}

#[cfg(test)]
mod tests;
