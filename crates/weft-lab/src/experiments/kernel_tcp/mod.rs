//! TCP of the running kernel through a known bottleneck: what a simulation of TCP is compared with.
//!
//! A sender, a router and a receiver are network namespaces of this run, joined by veth pairs. The bottleneck is a token bucket
//! filter at the router's egress to the receiver, with a drop-tail FIFO bounded in bytes. The sender's link has `gso_max_segs`
//! 1, so TCP hands over single packets and the queue holds packets, not uncut segments. Traffic is iperf3's.
//!
//! There is no delay besides that of the queue: the round trip of an empty path is what the machine takes, some tens of
//! microseconds. Kernels without netem have no qdisc that delays, so a [`Bottleneck::delay`] other than zero is refused.

mod testbed;

use crate::traffic::iperf::{self, Client, Flows, IperfError, MAX_STREAMS, Senders, deal};
use core::fmt;
use core::time::Duration;
use testbed::{Path, RECEIVER};
use weft_host::tbf::{Reader, TbfError, TbfStats};
use weft_host::{
    OsError, clock, link::LinkError, netns::NetNsError, process::ProcessError, sysctl::SysctlError,
};
use weft_packet::ethernet;
use weft_report::stats;
use weft_units::{BitsPerSec, Bytes, Instant, Nanos, Packets};

/// IPv4 header 20, TCP header 20, and the timestamps option with its padding 12 (RFC 7323, appendix A).
pub const TCP_IP_HEADERS: Bytes = Bytes(52);
/// The time between two samples of the queue.
pub const SAMPLE_INTERVAL: Nanos = Nanos::from_millis(2);
/// Flows that one run can have: as many as eight iperf3 processes take.
pub const MAX_FLOWS: u32 = 1024;
/// The steady part begins when all flows have been there for a fifth of the duration, at least and at most so long.
const SETTLE: (Nanos, Nanos) = (Nanos::from_secs(1), Nanos::from_secs(3));
/// How much later than the first process the last may have its flows; with one process, how long starting may take.
const STAGGER: (u64, u64) = (1, 4);

/// What an IP packet of `mtu` bytes occupies on the wire.
fn wire(mtu: u32) -> Bytes {
    ethernet::wire_of(ethernet::frame_of(Bytes(mtu.into())))
}

/// A bottleneck and the flows through it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bottleneck {
    /// The link's rate on the wire: frames with checksum, preamble and gap.
    pub rate: BitsPerSec,
    /// The length of its FIFO, in bytes of frames without the checksum, as the kernel counts them.
    pub queue: Bytes,
    /// Delay besides the queue's. Must be zero: see the module's text.
    pub delay: Nanos,
    /// TCP connections that send without end.
    pub flows: u32,
    /// How long is measured, after settling.
    pub duration: Nanos,
    /// The congestion control, as the kernel names it.
    pub congestion_control: String,
    /// The largest IP packet in bytes.
    pub mtu: u32,
}

impl Bottleneck {
    /// Payload of a full segment.
    pub fn segment(&self) -> Bytes {
        Bytes(u64::from(self.mtu)).saturating_sub(TCP_IP_HEADERS)
    }

    /// The rate of payload when the link is never idle and sends full segments only.
    pub fn payload_rate(&self) -> BitsPerSec {
        let wire = u128::from(wire(self.mtu).get());
        let rate = u128::from(self.rate.get()) * u128::from(self.segment().get()) / wire;
        BitsPerSec(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// How long is waited, once all flows are there, before the steady part begins.
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
            return invalid(format!("{} flows are not 1 to {MAX_FLOWS}", self.flows));
        }
        if self.mtu < 576 || self.mtu > 65_535 {
            return invalid(format!("an MTU of {} is not 576 to 65535 bytes", self.mtu));
        }
        if self.queue < frame || self.queue.get() > u64::from(u32::MAX) {
            return invalid(format!(
                "a queue of {} holds no frame of {frame}, or more than 4 GB",
                self.queue
            ));
        }
        if self.duration < Nanos::from_secs(1) || self.duration > Nanos::from_secs(3600) {
            return invalid(format!("a duration of {} is not 1 s to 1 h", self.duration));
        }
        if self.rate < BitsPerSec(100_000) {
            return invalid(format!("a rate of {} is below 100 kb/s", self.rate));
        }
        Ok(())
    }
}

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum KernelTcpError {
    /// The rights for namespaces and links are missing.
    #[error("measuring the kernel's TCP: {0}")]
    Rights(#[from] weft_host::RightsError),
    /// A delay was asked for.
    #[error("a delay of {0} needs netem, which is not used here: leave the delay at zero")]
    NoDelay(Nanos),
    /// The kernel lacks the congestion control.
    #[error("this kernel has no congestion control {wanted}; it has: {available}")]
    CongestionControl {
        /// The one asked for.
        wanted: String,
        /// Those there are.
        available: String,
    },
    /// The description cannot be measured.
    #[error("kernel TCP: {0}")]
    Invalid(String),
    /// Something did not happen in time.
    #[error("waited too long for {0}; is the machine busy?")]
    Late(&'static str),
    /// iperf3 failed, or wrote what cannot be read.
    #[error("iperf3: {0}")]
    Iperf(String),
    /// The bottleneck.
    #[error(transparent)]
    Tbf(#[from] TbfError),
    /// A namespace.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A link or an address.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A setting.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// A program.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// Another call that the kernel refused.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl From<IperfError> for KernelTcpError {
    fn from(error: IperfError) -> Self {
        match error {
            IperfError::Late(what) => Self::Late(what),
            IperfError::Said(text) => Self::Iperf(text),
            // Nobody can ask this measurement to stop.
            IperfError::Stopped => Self::Iperf("stopped".to_owned()),
            IperfError::NetNs(error) => Self::NetNs(error),
            IperfError::Process(error) => Self::Process(error),
            IperfError::Os(error) => Self::Os(error),
        }
    }
}

/// Where a measurement is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Namespaces, links and the bottleneck are there.
    Ready,
    /// All flows are connected.
    Connected,
    /// The steady part runs.
    Measuring {
        /// What has passed of it.
        passed: Nanos,
        /// How long it takes.
        of: Nanos,
    },
    /// The applications are ending.
    Ending,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Progress::Ready => f.write_str("the bottleneck is there"),
            Progress::Connected => f.write_str("all flows are connected"),
            Progress::Measuring { passed, of } => write!(f, "measured {passed} of {of}"),
            Progress::Ending => f.write_str("waiting for iperf3 to end"),
        }
    }
}

/// The queue at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSample {
    /// Since the steady part began.
    pub at: Nanos,
    /// Bytes of frames waiting.
    pub backlog: Bytes,
    /// Packets waiting.
    pub waiting: Packets,
}

/// The queue over the steady part. Each sample counts the same.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct StandingQueue {
    /// The mean, in bytes.
    pub mean: f64,
    /// The nearest-rank percentiles 1, 10, 50, 90 and 99.
    pub percentiles: [(f64, Bytes); 5],
    /// The shortest and the longest.
    pub range: (Bytes, Bytes),
    /// The longest time without a sample: a busy machine shows here.
    pub longest_gap: Nanos,
}

/// The bottleneck's accounting over the whole run, counted by the kernel: `offered = sent + dropped + waiting`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Accounting {
    /// Packets that came to the router from the sender, counted by its link.
    pub offered: Packets,
    /// Packets sent on, counted by the qdisc, as are the next two.
    pub sent: Packets,
    /// Packets that found the FIFO full.
    pub dropped: Packets,
    /// Packets still waiting.
    pub waiting: Packets,
    /// Packets that were lost between sender and router: should be none.
    pub lost_before: Packets,
}

impl Accounting {
    /// Whether what came is what went.
    pub fn balance(&self) -> bool {
        self.offered == self.sent + self.dropped + self.waiting
    }
}

/// What was measured.
#[derive(Clone, PartialEq, Debug)]
pub struct Measured {
    /// Payload that the receivers took over the steady part, all flows together.
    pub throughput: BitsPerSec,
    /// Payload rate of each flow over the steady part; `weft_report::stats::jain` takes them as fractions.
    pub flows: Vec<BitsPerSec>,
    /// What the bottleneck sent over the steady part, on the wire, in parts of its rate.
    pub link_use: f64,
    /// The part of the steady time that the bottleneck did not use although packets waited: the machine was late to serve it.
    pub link_lost: f64,
    /// The bottleneck's queue over the steady part.
    pub standing_queue: StandingQueue,
    /// Segments sent again in the steady part (`tcpi_total_retrans` by iperf3).
    pub retransmitted: Packets,
    /// Packets that the bottleneck dropped in the steady part.
    pub dropped: Packets,
    /// Packets that the bottleneck sent in the steady part.
    pub sent: Packets,
    /// The mean of the smoothed round-trip times (`tcpi_rtt` by iperf3, twice a second for each flow). `None` if iperf3
    /// could not read them.
    pub rtt_mean: Option<Nanos>,
    /// The whole run.
    pub accounting: Accounting,
    /// The queue's samples over the steady part.
    pub samples: Vec<QueueSample>,
}

impl Measured {
    /// Jain's index of the flows' rates; `None` if nothing was received.
    pub fn jain(&self) -> Option<f64> {
        stats::jain(&self.flows.iter().map(|rate| rate.get() as f64).collect::<Vec<_>>())
    }
}

/// Sends `bottleneck.flows` flows through the bottleneck and measures. Takes the duration, the settling, and some seconds more. Nothing
/// outside the namespaces of this call is touched, and nothing stays behind.
///
/// # Errors
/// Without the rights, iperf3, the congestion control or TBF; for a delay; when the machine is too busy.
pub fn measure(
    bottleneck: &Bottleneck,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measured, KernelTcpError> {
    bottleneck.check()?;
    weft_host::require_network_rights()?;
    let path = Path::create(bottleneck)?;
    let mut reader = path.reader()?;
    let (before, at_start) = (path.offered()?.0, reader.read()?);
    progress(Progress::Ready);
    let settle = bottleneck.settle();
    let stagger = if bottleneck.flows > 128 { STAGGER.1 } else { STAGGER.0 };
    let sending = (bottleneck.duration + settle).get().div_ceil(1_000_000_000) + stagger;
    let mut flows = Flows::start(&senders(&path, bottleneck, sending))?;
    progress(Progress::Connected);
    let from = clock::now() + settle;
    let to = from + bottleneck.duration;
    if to > flows.first_start() + Nanos::from_secs(sending) {
        return Err(KernelTcpError::Late("the last flows to connect"));
    }
    std::thread::sleep(from.saturating_since(clock::now()).into());
    let frame = ethernet::frame_of(Bytes(bottleneck.mtu.into()));
    let lost = LostTime::new(bottleneck.rate);
    let steady = sample((&mut reader, frame), lost, &mut flows, (from, to), progress)?;
    progress(Progress::Ending);
    let seen = flows.finish(&bottleneck.congestion_control, from, to)?;
    let (offered, lost_before) = path.offered()?;
    let end = reader.read()?;
    let accounting = Accounting {
        offered: offered - before,
        sent: end.packets - at_start.packets,
        dropped: end.dropped - at_start.dropped,
        waiting: end.waiting,
        lost_before,
    };
    conclude(bottleneck, steady, &seen, accounting)
}

fn senders<'a>(path: &'a Path, b: &'a Bottleneck, seconds: u64) -> Senders<'a> {
    let client = |flows| Client { flows, cpu: None, first_port: None, cgroup: None };
    Senders {
        sender: &path.sender,
        receiver: &path.receiver,
        address: RECEIVER,
        clients: deal(b.flows, b.flows.div_ceil(MAX_STREAMS)).map(client).collect(),
        seconds,
        // iperf3 counts whole blocks: a few segments each, so that slow flows are counted finely too.
        block: Some(Bytes(4 * b.segment().get())),
        congestion_control: &b.congestion_control,
        cancelled: &|| false,
    }
}

/// The queue's samples, and the counters with their times at both ends of the steady part.
struct Steady {
    samples: Vec<QueueSample>,
    ends: [(Instant, TbfStats); 2],
    lost: LostTime,
}

/// What a bottleneck of `rate` could have sent while packets waited, and did not. From reading to reading; those between which the queue
/// may have run empty do not count, unless the reading was late itself.
struct LostTime {
    rate: BitsPerSec,
    /// Of a stretch of readings with packets waiting: what its time was worth, and what was sent.
    stretch: (Bytes, Bytes),
    lost: Bytes,
}

impl LostTime {
    /// A reading that comes so many intervals after the one before shows that the machine was kept from running.
    const LATE: u64 = 4;

    fn new(rate: BitsPerSec) -> Self {
        Self { rate, stretch: (Bytes(0), Bytes(0)), lost: Bytes(0) }
    }

    fn read(&mut self, before: &(Instant, TbfStats), now: &(Instant, TbfStats)) {
        let span = now.0.saturating_since(before.0);
        let worth = self.rate.bytes_in(span);
        let late = span.get() > Self::LATE * SAMPLE_INTERVAL.get() && before.1.waiting.get() > 0;
        if before.1.backlog < worth && !late {
            self.end_stretch();
            return;
        }
        self.stretch.0 += worth;
        self.stretch.1 += on_the_wire(&before.1, &now.1);
    }

    fn end_stretch(&mut self) {
        self.lost += self.stretch.0.saturating_sub(self.stretch.1);
        self.stretch = (Bytes(0), Bytes(0));
    }

    /// As a part of what all of `span` was worth.
    fn part_of(mut self, span: Nanos) -> f64 {
        self.end_stretch();
        self.lost.get() as f64 / (self.rate.bytes_in(span).get() as f64).max(1.0)
    }
}

/// What was sent between two readings, as it was on the wire: the frame's header is in the kernel's count.
fn on_the_wire(before: &TbfStats, now: &TbfStats) -> Bytes {
    let around = ethernet::AROUND.get() * (now.packets - before.packets).get();
    now.bytes - before.bytes + Bytes(around)
}

/// The queue's counters, and when they were read. The kernel reads bytes and packets one after the other while packets leave: a reading
/// with more bytes than its packets can have, of at most `frame` bytes each, was torn and is taken anew. One that is so each time
/// is no torn one.
fn whole_reading(reader: &mut Reader, frame: Bytes) -> Result<(Instant, TbfStats), KernelTcpError> {
    const READINGS: usize = 3;
    let mut reading = (clock::now(), reader.read()?);
    for _ in 1..READINGS {
        if reading.1.backlog.get() <= reading.1.waiting.get() * frame.get() {
            break;
        }
        reading = (clock::now(), reader.read()?);
    }
    Ok(reading)
}

/// Samples the queue until the steady part ends.
fn sample(
    (reader, frame): (&mut Reader, Bytes),
    lost: LostTime,
    flows: &mut Flows,
    (from, to): (Instant, Instant),
    progress: &mut dyn FnMut(Progress),
) -> Result<Steady, KernelTcpError> {
    const SAMPLES_PER_REPORT: usize = 250;
    let first = (clock::now(), reader.read()?);
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
        let sample = QueueSample { at: passed, backlog: stats.backlog, waiting: stats.waiting };
        steady.samples.push(sample);
        if steady.samples.len().is_multiple_of(SAMPLES_PER_REPORT) {
            flows.check()?;
            progress(Progress::Measuring { passed, of: to - from });
        }
    }
}

fn conclude(
    bottleneck: &Bottleneck,
    steady: Steady,
    seen: &iperf::Seen,
    accounting: Accounting,
) -> Result<Measured, KernelTcpError> {
    let rate = |(bytes, seconds): &(Bytes, f64)| {
        BitsPerSec::from_bytes_over(*bytes, Nanos((seconds * 1e9).round() as u64))
    };
    let flows: Vec<BitsPerSec> = seen.flows.iter().map(rate).collect();
    if flows.len() != bottleneck.flows as usize {
        let why = format!("{} of {} flows have figures", flows.len(), bottleneck.flows);
        return Err(KernelTcpError::Iperf(why));
    }
    let [(begin, first), (end, last)] = steady.ends;
    let wire = on_the_wire(&first, &last);
    let link_use = wire.get() as f64 / (bottleneck.rate.bytes_in(end - begin).get() as f64).max(1.0);
    Ok(Measured {
        throughput: flows.iter().copied().sum(),
        flows,
        link_use,
        link_lost: steady.lost.part_of(end - begin),
        standing_queue: standing_queue(&steady.samples)
            .ok_or(KernelTcpError::Late("a sample of the queue"))?,
        retransmitted: seen.retransmitted,
        dropped: last.dropped - first.dropped,
        sent: last.packets - first.packets,
        rtt_mean: stats::mean(&seen.rtts_us).map(|us| Nanos((us * 1e3).round() as u64)),
        accounting,
        samples: steady.samples,
    })
}

fn standing_queue(samples: &[QueueSample]) -> Option<StandingQueue> {
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
