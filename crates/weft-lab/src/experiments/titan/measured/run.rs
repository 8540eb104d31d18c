//! One run: flows through a path, and what came of them in its steady part.

use super::figures::{Fairness, Steady};
use super::latency::{Ping, RoundTrips};
use super::path::{Log, Open, Path, PathError};
use super::processors::{CpuTimes, TcpCounters};
use super::settings::RunSettings;
use super::traffic::{FlowLayout, Traffic};
use crate::testbed::schedstat::{TRANSMIT_WORKER, ThreadWaits, threads_named};
use crate::traffic::iperf::IperfError;
use core::ops::Range;
use core::time::Duration;
use weft_host::netns::NetNsError;
use weft_host::process::ProcessError;
use weft_host::sysctl::{self, SysctlError};
use weft_host::{NetNs, OsError, clock};
use weft_sched::queues::Staleness;
use weft_units::{BitsPerSec, Instant, Nanos};

/// How long is slept at a time, so that being asked to stop is noticed.
const NAP: Nanos = Nanos::from_millis(50);
/// How often the applications and the NIC are looked after.
const CHECK_EVERY: Nanos = Nanos::from_millis(500);
/// The log begins so long before the steady part, so that packets that its beginning cuts are in it.
const LOG_LEAD: Nanos = Nanos::from_millis(20);

/// Why a run came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasuredError {
    /// The settings make no sense.
    #[error("{0}")]
    Settings(String),
    /// The NIC.
    #[error(transparent)]
    Path(#[from] PathError),
    /// iperf3.
    #[error(transparent)]
    Iperf(IperfError),
    /// ping.
    #[error("ping: {0}")]
    Ping(String),
    /// Something did not happen in time.
    #[error("waited too long for {0}; is the machine busy?")]
    Late(&'static str),
    /// A file of the kernel is not what it should be.
    #[error("{0} does not have what proc(5) says")]
    Unreadable(&'static str),
    /// Departures are missing in the log, so that nothing can be said of fairness.
    #[error("the NIC's log lost {0} departures: log fewer at a time, or take a lower rate")]
    Lost(u64),
    /// The user asked to stop.
    #[error("stopped")]
    Stopped,
    /// A program.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A namespace.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A setting.
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    /// Another call that the kernel refused.
    #[error(transparent)]
    Os(#[from] OsError),
}

impl From<IperfError> for MeasuredError {
    fn from(error: IperfError) -> Self {
        match error {
            IperfError::Stopped => Self::Stopped,
            other => Self::Iperf(other),
        }
    }
}

/// What a run showed in its steady part.
#[derive(Clone, PartialEq, Debug)]
pub struct Figures {
    /// Payload of all flows.
    pub throughput: BitsPerSec,
    /// Rate of each flow on the wire, by its number.
    pub flows: Vec<BitsPerSec>,
    /// NFM over 1 ms, where the rate is above 0.
    pub nfm_1ms: Option<Fairness>,
    /// NFM over the interval that has as many packets as 1 ms at 10 Gb/s.
    pub nfm_equal_packets: Option<Fairness>,
    /// NFM over 1 s.
    pub nfm_1s: Option<Fairness>,
    /// Percent of a processor that the whole machine was busy: senders, receivers, kernel and NIC.
    pub cpu_percent: f64,
    /// Percent of a processor of that which the NIC's own threads took.
    pub cpu_nic_percent: f64,
    /// Part of the time for which a sender, a receiver or the NIC's worker was ready to run and had no core: of the one that waited
    /// longest, none where the kernel keeps no such count. A flow may have lost this much of its share to the machine.
    pub core_wait: Option<f64>,
    /// Pings through the port.
    pub round_trips: RoundTrips,
    /// Segments that the sender sent again.
    pub retransmitted: u64,
    /// Packets that came to the receiver before one sent earlier.
    pub out_of_order: u64,
    /// How old the weights of queues were when the NIC took them, over the whole run; none where it takes none.
    pub weights: Option<Staleness>,
    /// With weights: for each second, what each group got over its share.
    pub shares: Vec<Vec<f64>>,
}

/// What is read from the kernel and the NIC at both ends of the steady part.
struct Edge {
    at: Instant,
    cpu: CpuTimes,
    nic: Nanos,
    waits: ThreadWaits,
    sender: TcpCounters,
    receiver: TcpCounters,
}

impl Edge {
    fn read(path: &dyn Path, traffic: &Traffic) -> Result<Self, MeasuredError> {
        Ok(Self {
            at: clock::now(),
            cpu: CpuTimes::read()?,
            nic: path.nic_cpu()?,
            waits: ThreadWaits::read(&traffic.pids(), threads_named("/proc/self/task", TRANSMIT_WORKER)),
            sender: TcpCounters::read(path.sender())?,
            receiver: TcpCounters::read(path.receiver())?,
        })
    }
}

/// Makes a path, sends through it, and measures. Takes warm-up, duration and some seconds more. Nothing stays behind.
///
/// # Errors
/// Without rights, iperf3 or ping; when the path cannot be made; when the machine is too busy; when `cancelled` says so.
pub fn run(
    open: &dyn Open,
    settings: &RunSettings,
    cancelled: &dyn Fn() -> bool,
) -> Result<Figures, MeasuredError> {
    settings.check().map_err(MeasuredError::Settings)?;
    if cancelled() {
        return Err(MeasuredError::Stopped);
    }
    let mut path = open.open(settings)?;
    set_up_sender(path.sender(), settings)?;
    // Declared after the path, so that it ends before it, whatever happens.
    let mut traffic = Traffic::start(&*path, settings, cancelled)?;
    wait(clock::now() + settings.warm_up, &mut *path, &mut traffic, cancelled)?;
    path.begin_log()?;
    wait(clock::now() + LOG_LEAD, &mut *path, &mut traffic, cancelled)?;
    let ping = Ping::start(path.sender(), path.receiver_address())?;
    let before = Edge::read(&*path, &traffic)?;
    let window = before.at..before.at + settings.duration;
    wait(window.end, &mut *path, &mut traffic, cancelled)?;
    let after = Edge::read(&*path, &traffic)?;
    let round_trips = ping.finish()?;
    traffic.check()?;
    let layout = traffic.layout.clone();
    drop(traffic);
    let log = path.stop()?;
    figures(settings, &log, &layout, window, [before, after], round_trips)
}

/// Sets what the sender's TCP is told.
fn set_up_sender(sender: &NetNs, settings: &RunSettings) -> Result<(), MeasuredError> {
    if let Some(log) = settings.sender.tso_rtt_log {
        sysctl::set(sender, "net.ipv4.tcp_tso_rtt_log", &log.to_string())?;
    }
    if let Some(bytes) = settings.sender.limit_output {
        sysctl::set(sender, "net.ipv4.tcp_limit_output_bytes", &bytes.get().to_string())?;
    }
    Ok(())
}

/// Waits until `until`, looking after all that runs.
fn wait(
    until: Instant,
    path: &mut dyn Path,
    traffic: &mut Traffic,
    cancelled: &dyn Fn() -> bool,
) -> Result<(), MeasuredError> {
    let mut next_check = clock::now() + CHECK_EVERY;
    loop {
        if cancelled() {
            return Err(MeasuredError::Stopped);
        }
        let now = clock::now();
        if now >= until {
            return Ok(());
        }
        if now >= next_check {
            traffic.check()?;
            path.check()?;
            next_check = now + CHECK_EVERY;
        }
        std::thread::sleep(Duration::from((until - now).min(NAP)));
    }
}

fn figures(
    settings: &RunSettings,
    log: &Log,
    layout: &FlowLayout,
    window: Range<Instant>,
    [before, after]: [Edge; 2],
    round_trips: RoundTrips,
) -> Result<Figures, MeasuredError> {
    if log.lost > 0 {
        return Err(MeasuredError::Lost(log.lost));
    }
    let steady = Steady::new(log, settings.flows as usize, window, |key| layout.number(key));
    let nfm = |tau| steady.nfm(settings.rate, tau);
    let weights: Vec<f64> = settings.weights.iter().flatten().map(|weight| f64::from(weight.get())).collect();
    let span = (after.at - before.at).as_secs_f64();
    Ok(Figures {
        throughput: steady.payload(),
        flows: steady.rates(),
        nfm_1ms: nfm(Nanos::from_millis(1)),
        nfm_equal_packets: nfm(settings.equal_packets()),
        nfm_1s: nfm(Nanos::from_secs(1)),
        cpu_percent: after.cpu.percent_since(before.cpu).ok_or(MeasuredError::Unreadable("/proc/stat"))?,
        core_wait: after.waits.longest_since(&before.waits).map(|seconds| seconds / span),
        cpu_nic_percent: after.nic.saturating_sub(before.nic).as_secs_f64() / span * 100.0,
        round_trips,
        retransmitted: after.sender.retransmitted.saturating_sub(before.sender.retransmitted),
        out_of_order: after.receiver.out_of_order.saturating_sub(before.receiver.out_of_order),
        weights: (log.weights.count > 0).then_some(log.weights),
        shares: steady.shares(&weights, Nanos::from_secs(1)),
    })
}

#[cfg(test)]
mod tests;
