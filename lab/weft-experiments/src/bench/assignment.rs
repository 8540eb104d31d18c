//! The cost of queue assignment: nanoseconds of its eBPF programs per packet, from the kernel's run-time statistics.
//!
//! The programs are attached to the port of a multiqueue NIC; the number of flows and the burst of each flow vary.
//! Every flow is a UDP socket and packets are small, so that only the path itself takes time. With a burst of 1 each
//! packet activates its flow, gets a queue, and deactivates the flow again: the most expensive case. With a burst of
//! 16 only the first packet of a burst does that.
//!
//! The statistics themselves take time, more than a short program does: a run that returns at once counts some 65 ns
//! on a virtual machine. Results are given both as the kernel counts and with this overhead subtracted. The same run
//! measures the overhead, with the program that sees dropped packets: none of our packets is dropped in the NIC, and
//! for others (those that the receiver drops) it returns at once.

use core::net::{IpAddr, Ipv4Addr};
use nix::sched::{CloneFlags, unshare};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};
use weft_facts::stats;
use weft_host::bpf::RunStats;
use weft_host::bpf_stats::BpfStats;
use weft_host::link;
use weft_nic::multiqueue::{self, Multiqueue};
use weft_nic::testbed::{PORT as LINK, RECEIVER, Testbed};
use weft_report::bench::BenchCase;
use weft_report::rounds::Rounds;
use weft_sched::queues::Inner;
use weft_titan::device::Titan;
use weft_titan::settings::Settings;
use weft_units::{BitsPerSec, Nanos};

/// Numbers of flows.
pub const FLOWS: [u32; 5] = [10, 100, 1_000, 10_000, 100_000];
/// Packets that a flow sends back to back.
pub const BURSTS: [u32; 2] = [16, 1];
/// Packets of a run.
const PACKETS: u64 = 400_000;
/// The most packets in the NIC at a time: less than its rings hold, so that none is dropped.
const IN_FLIGHT: u64 = 512;
/// A link fast enough that it never limits.
const UNLIMITED: BitsPerSec = BitsPerSec(100_000_000_000);
/// Flows per source address: fewer than a namespace has ports for.
const FLOWS_PER_ADDRESS: u32 = 25_000;
/// The most files that this process has open besides the flows' sockets.
const OTHER_FILES: u64 = 1000;
/// The receiver's port. Its socket is never read, so that the kernel drops what arrives.
const PORT: u16 = 9000;

/// The reason that queue assignment could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum AssignmentError {
    /// A step on the testbed failed.
    #[error("measure queue assignment: {0}")]
    Failed(String),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

fn failed(error: impl core::fmt::Display) -> AssignmentError {
    AssignmentError::Failed(error.to_string())
}

/// Measures queue assignment for `flows` flows in bursts of `burst`, `runs` times.
///
/// # Errors
/// Fails without network rights, when a step on the testbed fails, or when `stop` returns true.
pub fn run(
    flows: u32,
    burst: u32,
    runs: u32,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<BenchCase, AssignmentError> {
    let bed = Testbed::create("bas").map_err(failed)?;
    let wanted = Multiqueue { inner: Inner::Fair, ..Multiqueue::new(UNLIMITED) };
    let nic = multiqueue::start(&bed, &wanted).map_err(failed)?;
    let _drain = bed.receiver.run(|| UdpSocket::bind((RECEIVER, PORT))).map_err(failed)?.map_err(failed)?;
    let groups = groups(flows)?;
    for number in 0..groups.len() {
        link::add_address(&bed.sender, LINK, IpAddr::V4(address(number)), 16).map_err(failed)?;
    }
    let titan = Titan::attach(&bed.sender, LINK, &Settings::default()).map_err(failed)?;
    let outcome = std::thread::scope(|scope| {
        let sending = Sending { titan: &titan, burst, turns: groups.len() > 1, stop };
        let start = |(number, flows)| Group::start(scope, &bed, number, flows, sending);
        let groups: Result<Vec<Group>, AssignmentError> = groups.into_iter().enumerate().map(start).collect();
        measure(&titan, &groups?, flows, burst, runs)
    });
    let activations = titan.page().activations();
    titan.detach().map_err(failed)?;
    let measured = outcome?;
    nic.stop(Nanos::from_secs(1)).map_err(failed)?;
    Ok(case(flows, burst, &measured, activations))
}

/// Measures the cost of each run, and its packets per second.
fn measure(
    titan: &Titan,
    groups: &[Group],
    flows: u32,
    burst: u32,
    runs: u32,
) -> Result<Rounds<(Cost, f64)>, AssignmentError> {
    let _statistics = BpfStats::enable().map_err(failed)?;
    // One pass without measuring: every socket gets its entry in the flow table.
    send(groups, u64::from(flows) * u64::from(burst))?;
    Rounds::of_one(runs, |_| {
        let before = titan.program_times().map_err(failed)?;
        let begin = Instant::now();
        send(groups, PACKETS)?;
        let seconds = begin.elapsed().as_secs_f64();
        let after = titan.program_times().map_err(failed)?;
        let cost = Cost::between(&before, &after);
        Ok((cost, cost.packets / seconds))
    })
}

fn case(flows: u32, burst: u32, runs: &Rounds<(Cost, f64)>, activations: u64) -> BenchCase {
    let median = |of: fn(&Cost) -> f64| runs.median(0, |(cost, _)| of(cost)).unwrap_or(0.0);
    let nanos = runs.figures(0, |(cost, _)| cost.nanos);
    let speeds = runs.figures(0, |(_, pps)| *pps);
    let mut case = BenchCase::alone(format!("assignment-{flows}-flows-{burst}-in-a-row"), &speeds);
    let (gross, floor) = (median(|cost| cost.gross), median(|cost| cost.floor));
    let median = median(|cost| cost.nanos);
    case.other.insert("program_ns_gross".to_owned(), gross.into());
    case.other.insert("program_ns_per_packet".to_owned(), median.into());
    case.other.insert("program_ns_least".to_owned(), stats::min(&nanos).unwrap_or(0.0).into());
    case.other.insert("program_ns_greatest".to_owned(), stats::max(&nanos).unwrap_or(0.0).into());
    case.other.insert("activations".to_owned(), activations.into());
    case.other.insert("empty_run_ns".to_owned(), floor.into());
    case.limited_by = Some(format!(
        "{gross:.0} ns of programs a packet; {median:.0} ns without the statistics' own overhead, {floor:.0} ns each run"
    ));
    case
}

/// The programs' cost in one run.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Cost {
    packets: f64,
    /// Nanoseconds per packet, as the kernel counts them.
    gross: f64,
    /// Nanoseconds per packet, without the overhead of the statistics.
    nanos: f64,
    /// Nanoseconds that the kernel counts for a program that returns at once.
    floor: f64,
}

impl Cost {
    fn between(before: &[(String, RunStats)], after: &[(String, RunStats)]) -> Self {
        let each = after.iter().zip(before).map(|((name, after), (_, before))| {
            let runs = after.runs.saturating_sub(before.runs) as f64;
            (name.as_str(), runs, after.nanos.saturating_sub(before.nanos) as f64)
        });
        let each: Vec<(&str, f64, f64)> = each.collect();
        let (idle, busy): (Vec<_>, Vec<_>) =
            each.into_iter().partition(|(name, ..)| name.contains("dropped"));
        let sum =
            |of: &[(&str, f64, f64)]| of.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.1, sum.1 + one.2));
        let packets = busy.first().map_or(1.0, |(_, runs, _)| runs.max(1.0));
        let (idle, busy) = (sum(&idle), sum(&busy));
        let floor = if idle.0 > 0.0 { idle.1 / idle.0 } else { 0.0 };
        let (gross, nanos) = (busy.1 / packets, (busy.1 - floor * busy.0) / packets);
        Self { packets, gross, floor, nanos }
    }
}

/// Returns the number of flows of each group. A process may open fewer files than there are flows, so groups are
/// threads with separate file tables.
fn groups(flows: u32) -> Result<Vec<u32>, AssignmentError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).map_err(failed)?;
    }
    let maximum = limit.maximum.unwrap_or(u64::MAX).saturating_sub(OTHER_FILES);
    let most = u32::try_from(maximum).unwrap_or(u32::MAX).min(FLOWS_PER_ADDRESS);
    if most == 0 {
        let why = format!("no files left for sockets: `ulimit -n` has to be above {OTHER_FILES}");
        return Err(AssignmentError::Failed(why));
    }
    let count = flows.div_ceil(most);
    Ok((0..count).map(|number| most.min(flows - number * most)).collect())
}

/// The source address of a group.
fn address(group: usize) -> Ipv4Addr {
    Ipv4Addr::from_octets([10, 99, 2, group as u8 + 1])
}

/// Parameters of sending, the same for all groups.
#[derive(Clone, Copy)]
struct Sending<'a> {
    titan: &'a Titan,
    /// Packets that a flow sends back to back.
    burst: u32,
    /// Whether groups send in turns, because there are several.
    turns: bool,
    stop: &'a (dyn Fn() -> bool + Sync),
}

/// A thread that owns sockets.
struct Group {
    /// Requests: numbers of packets to send.
    ask: Sender<u64>,
    /// Replies: numbers of packets sent.
    told: Receiver<Result<u64, AssignmentError>>,
}

impl Group {
    /// Opens a group's sockets in a separate thread.
    fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        bed: &'env Testbed,
        number: usize,
        flows: u32,
        sending: Sending<'env>,
    ) -> Result<Self, AssignmentError> {
        let ((ask, asked), (tell, told)) = (channel(), channel());
        scope.spawn(move || {
            let sockets = match sockets(bed, address(number), flows) {
                Ok(sockets) => sockets,
                Err(error) => return drop(tell.send(Err(error))),
            };
            let _ = tell.send(Ok(0));
            while let Ok(packets) = asked.recv() {
                let _ = tell.send(send_from(&sockets, packets, sending));
            }
        });
        let group = Self { ask, told };
        group.result()?;
        Ok(group)
    }

    fn result(&self) -> Result<u64, AssignmentError> {
        self.told.recv().map_err(failed)?
    }

    fn send(&self, packets: u64) -> Result<u64, AssignmentError> {
        self.ask.send(packets).map_err(failed)?;
        self.result()
    }
}

/// Opens connected sockets in the sender's namespace, in a file table that belongs to this thread alone.
fn sockets(bed: &Testbed, from: Ipv4Addr, flows: u32) -> Result<Vec<UdpSocket>, AssignmentError> {
    unshare(CloneFlags::CLONE_FILES).map_err(failed)?;
    let open = |_| -> std::io::Result<UdpSocket> {
        let socket = UdpSocket::bind((from, 0))?;
        socket.connect((RECEIVER, PORT))?;
        Ok(socket)
    };
    bed.sender
        .run(|| (0..flows).map(open).collect::<std::io::Result<Vec<_>>>())
        .map_err(failed)?
        .map_err(failed)
}

/// Sends packets from all groups in turns.
fn send(groups: &[Group], packets: u64) -> Result<(), AssignmentError> {
    let mut sent = 0;
    while sent < packets {
        for group in groups {
            sent += group.send(packets.saturating_sub(sent))?;
        }
    }
    Ok(())
}

/// Sends up to `packets` packets in bursts, flow by flow, and never more than the NIC can hold. Where groups take
/// turns, each flow sends one burst.
fn send_from(sockets: &[UdpSocket], packets: u64, sending: Sending) -> Result<u64, AssignmentError> {
    let burst = u64::from(sending.burst);
    let mut sent = 0;
    let turns = if sending.turns { 1 } else { usize::MAX };
    for socket in (0..turns).flat_map(|_| sockets) {
        if sent >= packets {
            break;
        }
        for _ in 0..burst {
            // A full send buffer is no error here: the count is of attempts.
            let _ = socket.send(&[0; 64]);
        }
        sent += burst;
        if sent % 64 < burst {
            wait_for_room(sending.titan, sending.stop)?;
        }
    }
    wait_for_room(sending.titan, sending.stop)?;
    Ok(sent)
}

fn wait_for_room(titan: &Titan, stop: &(dyn Fn() -> bool + Sync)) -> Result<(), AssignmentError> {
    let standing = || -> u64 {
        let queues = titan.page().queues.iter();
        let of = |queue: &weft_titan::page::Queue| {
            let left =
                queue.left_packets.load(Ordering::Relaxed) + queue.unseen_packets.load(Ordering::Relaxed);
            queue.packets.load(Ordering::Relaxed).saturating_sub(left)
        };
        queues.map(of).sum()
    };
    while standing() > IN_FLIGHT {
        if stop() {
            return Err(AssignmentError::Stopped);
        }
        // Reading the counts in a tight loop would take their cache lines from the core that writes them.
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cost_is_told_with_and_without_what_an_empty_run_stands_for() {
        let stats = |runs, nanos| RunStats { runs, nanos };
        let named = |all: [(&str, RunStats); 3]| all.map(|(name, stats)| (name.to_owned(), stats));
        let before = named([
            ("weft_titan", stats(0, 0)),
            ("weft_consumed", stats(0, 0)),
            ("weft_dropped", stats(0, 0)),
        ]);
        // Ten packets; the second program also runs for two others.
        let after = named([
            ("weft_titan", stats(10, 1500)),
            ("weft_consumed", stats(12, 1740)),
            ("weft_dropped", stats(5, 300)),
        ]);
        let cost = Cost::between(&before, &after);
        assert_eq!(cost, Cost { packets: 10.0, gross: 324.0, nanos: 324.0 - 60.0 * 2.2, floor: 60.0 });
        let case = case(10, 16, &Rounds(vec![vec![(cost, 1e6)]]), 3);
        assert_eq!(case.other["program_ns_gross"], 324.0);
        assert_eq!(case.other["empty_run_ns"], 60.0);
        let said = case.limited_by.unwrap_or_default();
        assert!(
            said.starts_with("324 ns") && said.contains("192 ns") && said.contains("60 ns each"),
            "{said}"
        );
    }
}
