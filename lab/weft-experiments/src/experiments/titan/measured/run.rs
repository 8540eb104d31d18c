//! A run: flows through a path, and the figures of its steady part.
//!
//! 1. Path. `Open` makes a fresh NIC between two namespaces, so that no state of an earlier run can affect this one.
//! 2. Flows. The sender's TCP is configured, then iperf3 opens all connections. The run waits for the warm-up: slow
//!    start and the queues that it builds must be over.
//! 3. Log. It begins 20 ms before the steady part, so that packets that cross its beginning are in it. Pings start
//!    next.
//! 4. Steady part. An `Edge` is read at both ends: processor times, waits for a core, TCP counters. Differences of
//!    the two are the figures, so the counters need no reset.
//! 5. End. Pings, then flows, then the NIC: each is still needed by the one before. `figures` then computes
//!    everything from the log and the two edges, without another reading.
//!
//! `Path` owns namespaces, NIC and log; `Traffic` owns the iperf3 processes and is declared after the path, so that
//! it is dropped first on every way out. Rates come from departures at the link, not from iperf3's own reports.
//!
//! Rare branches. An incomplete log fails the run ([`MeasuredError::Lost`] has the count), since missing departures
//! look like unfairness. So does a process or NIC that ends early, polled every 500 ms. A machine short of cores does
//! not: its longest wait is [`SteadyFigures::core_wait`], and claims use it. Unanswered pings are counted in
//! [`PingResults::unanswered`]. Where the kernel lacks a count, the figure is `None` and not 0.

use super::error::MeasuredError;
use super::figures::{Steady, WindowFairness};
use super::path::{MeasuredPath, Open, WireLog};
use super::settings::RunSettings;
use super::traffic::{FlowLayout, Traffic};
use crate::testbed::cpu_times::CpuTimes;
use crate::testbed::schedstat::{TRANSMIT_WORKER, ThreadWaits, threads_named};
use core::ops::Range;
use core::time::Duration;
use weft_host::net_counters::NetCounters;
use weft_host::sysctl::{self};
use weft_host::{NetNs, clock};
use weft_profile::ping::{Ping, PingResults};
use weft_sched::queues::Staleness;
use weft_units::{BitsPerSec, Instant, Nanos};

/// Longest sleep, so that a request to stop is noticed.
const NAP: Nanos = Nanos::from_millis(50);
/// Interval of the checks of applications and NIC.
const CHECK_EVERY: Nanos = Nanos::from_millis(500);
/// Time from the beginning of the log to that of the steady part: the log has the packets that cross the beginning.
const LOG_LEAD: Nanos = Nanos::from_millis(20);

/// Figures of the steady part of a run.
#[derive(Clone, PartialEq, Debug)]
pub struct SteadyFigures {
    /// Payload rate of all flows.
    pub throughput: BitsPerSec,
    /// Wire rate of each flow, by its number.
    pub flows: Vec<BitsPerSec>,
    /// NFM over 1 ms; `None` if the rate is 0.
    pub nfm_1ms: Option<WindowFairness>,
    /// NFM over the interval with as many packets as 1 ms at 10 Gb/s.
    pub nfm_equal_packets: Option<WindowFairness>,
    /// NFM over 1 s.
    pub nfm_1s: Option<WindowFairness>,
    /// Busy time of the whole machine in percent of one processor: senders, receivers, kernel and NIC.
    pub cpu_percent: f64,
    /// The part of that time used by the NIC's own threads, in percent of one processor.
    pub cpu_nic_percent: f64,
    /// The longest wait of a sender, a receiver or the NIC's worker that was runnable but had no core, as a fraction
    /// of the time. `None` where the kernel keeps no such count. A flow may have lost this fraction of its share to
    /// the machine.
    pub core_wait: Option<f64>,
    /// Pings through the port.
    pub round_trips: PingResults,
    /// Segments that the sender retransmitted.
    pub retransmitted: u64,
    /// Packets that the receiver received before an earlier one.
    pub out_of_order: u64,
    /// Ages of queue weights when the NIC applied them, over the whole run; `None` if it has no weights.
    pub weights: Option<Staleness>,
    /// With weights: the rate of each group over its share, for each second.
    pub shares: Vec<Vec<f64>>,
}

/// Readings of kernel and NIC at one end of the steady part.
struct Edge {
    at: Instant,
    cpu: CpuTimes,
    nic: Nanos,
    waits: ThreadWaits,
    sender: NetCounters,
    receiver: NetCounters,
}

impl Edge {
    fn read(path: &dyn MeasuredPath, traffic: &Traffic) -> Result<Self, MeasuredError> {
        Ok(Self {
            at: clock::now(),
            cpu: CpuTimes::read()?,
            nic: path.nic_cpu()?,
            waits: ThreadWaits::read(&traffic.pids(), threads_named("/proc/self/task", TRANSMIT_WORKER)),
            sender: NetCounters::read(path.sender())?,
            receiver: NetCounters::read(path.receiver())?,
        })
    }
}

/// Makes a path, sends through it, and measures. Takes warm-up, duration and some seconds more. Leaves nothing
/// behind.
///
/// # Errors
/// Fails without rights, iperf3 or ping, when the path cannot be made, when the machine is too busy, and when
/// `cancelled` asks to stop.
pub fn run(
    open: &dyn Open,
    settings: &RunSettings,
    cancelled: &dyn Fn() -> bool,
) -> Result<SteadyFigures, MeasuredError> {
    settings.check()?;
    if cancelled() {
        return Err(MeasuredError::Stopped);
    }
    let mut path = open.open(settings)?;
    set_up_sender(path.sender(), settings)?;
    // Declared after the path, so that it is always dropped before it.
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

/// Applies the settings of the sender's TCP.
fn set_up_sender(sender: &NetNs, settings: &RunSettings) -> Result<(), MeasuredError> {
    if let Some(log) = settings.sender.tso_rtt_log {
        sysctl::set(sender, "net.ipv4.tcp_tso_rtt_log", &log.to_string())?;
    }
    if let Some(bytes) = settings.sender.limit_output {
        sysctl::set(sender, "net.ipv4.tcp_limit_output_bytes", &bytes.get().to_string())?;
    }
    Ok(())
}

/// Waits until `until`, checking applications and NIC.
fn wait(
    until: Instant,
    path: &mut dyn MeasuredPath,
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
    log: &WireLog,
    layout: &FlowLayout,
    window: Range<Instant>,
    [before, after]: [Edge; 2],
    round_trips: PingResults,
) -> Result<SteadyFigures, MeasuredError> {
    if log.lost > 0 {
        return Err(MeasuredError::Lost(log.lost));
    }
    let steady = Steady::new(log, settings.flows as usize, window, |key| layout.number(key));
    let nfm = |tau| steady.nfm(settings.rate, tau);
    let weights: Vec<f64> = settings.weights.iter().flatten().map(|weight| f64::from(weight.get())).collect();
    let span = (after.at - before.at).as_secs_f64();
    Ok(SteadyFigures {
        throughput: steady.payload(),
        flows: steady.rates(),
        nfm_1ms: nfm(Nanos::from_millis(1)),
        nfm_equal_packets: nfm(settings.equal_packets()),
        nfm_1s: nfm(Nanos::from_secs(1)),
        cpu_percent: after.cpu.percent_since(before.cpu).ok_or(MeasuredError::Late("a tick of the clock"))?,
        core_wait: after.waits.longest_since(&before.waits).map(|seconds| seconds / span),
        cpu_nic_percent: after.nic.saturating_sub(before.nic).as_secs_f64() / span * 100.0,
        round_trips,
        retransmitted: after.sender.since(&before.sender).retransmitted,
        out_of_order: after.receiver.since(&before.receiver).out_of_order,
        weights: (log.weights.count > 0).then_some(log.weights),
        shares: steady.shares(&weights, Nanos::from_secs(1)),
    })
}

#[cfg(test)]
mod tests;
