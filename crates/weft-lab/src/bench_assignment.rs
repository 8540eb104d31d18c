//! What queue assignment costs: nanoseconds of its programs for each packet, by the kernel's own run-time statistics, at the
//! port of a multiqueue NIC, with few and with many flows.
//!
//! Every flow is a UDP socket, and packets are small, so nothing but the path itself takes time. In one case each packet is
//! its flow's only one, so that the flow becomes active with it, looks for a queue, and is counted out again: the dearest
//! there is. In the other a flow sends sixteen in a row, of which one does that.
//!
//! The statistics themselves take time, more than a short program does: a run that returns at once stands in them with some
//! 65 ns on a virtual machine. How much is measured in the same run, by the program that sees dropped packets: nobody drops
//! packets of ours here, and for others (those that the receiver drops) it returns at once.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::UdpSocket;
use std::sync::atomic::Ordering;
use std::time::Instant;
use weft_host::bpf::RunStats;
use weft_host::bpf_stats::BpfStats;
use weft_host::link;
use weft_nic::multiqueue::{self, Multiqueue};
use weft_nic::testbed::{PORT as LINK, RECEIVER, Testbed};
use weft_report::bench::BenchCase;
use weft_report::stats;
use weft_sched::queues::Inner;
use weft_titan::device::Titan;
use weft_titan::settings::Settings;
use weft_units::{BitsPerSec, Nanos};

/// Numbers of flows.
pub const FLOWS: [u32; 5] = [10, 100, 1_000, 10_000, 100_000];
/// Packets that a flow sends in a row.
pub const BURSTS: [u32; 2] = [16, 1];
/// Packets of a run.
const PACKETS: u64 = 400_000;
/// Packets that may be in the NIC: below what its rings hold, so that none is dropped.
const IN_FLIGHT: u64 = 512;
/// A link that is no limit.
const UNLIMITED: BitsPerSec = BitsPerSec(100_000_000_000);
/// Flows of one address of the sender: fewer than a namespace has ports for.
const FLOWS_PER_ADDRESS: u32 = 25_000;
/// The receiver's port: a socket that nobody reads, so the kernel drops what comes.
const PORT: u16 = 9000;

/// Why it could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum AssignmentError {
    /// Something of the testbed, in words.
    #[error("measure queue assignment: {0}")]
    Failed(String),
    /// It was asked to stop.
    #[error("stopped")]
    Stopped,
}

fn failed(error: impl core::fmt::Display) -> AssignmentError {
    AssignmentError::Failed(error.to_string())
}

/// Measures a number of flows and a burst, `runs` times.
///
/// # Errors
/// Without rights, or when it is asked to stop.
pub fn run(flows: u32, burst: u32, runs: u32, stop: &dyn Fn() -> bool) -> Result<BenchCase, AssignmentError> {
    let bed = Testbed::create("bas").map_err(failed)?;
    let wanted = Multiqueue { inner: Inner::Fair, ..Multiqueue::new(UNLIMITED) };
    let nic = multiqueue::start(&bed, &wanted).map_err(failed)?;
    let _drain = bed.receiver.run(|| UdpSocket::bind((RECEIVER, PORT))).map_err(failed)?.map_err(failed)?;
    let sockets = sockets(&bed, flows)?;
    let titan = Titan::attach(&bed.sender, LINK, &Settings::default()).map_err(failed)?;
    let outcome = measure(&titan, &sockets, burst, runs, stop);
    let activations = titan.page().activations();
    titan.detach().map_err(failed)?;
    let (nanos, floors, speeds) = outcome?;
    nic.stop(Nanos::from_secs(1)).map_err(failed)?;
    Ok(case(flows, burst, &nanos, &floors, &speeds, activations))
}

/// Net nanoseconds a packet, nanoseconds of an empty run, and packets a second, by run.
type Measured = (Vec<f64>, Vec<f64>, Vec<f64>);

fn measure(
    titan: &Titan,
    sockets: &[UdpSocket],
    burst: u32,
    runs: u32,
    stop: &dyn Fn() -> bool,
) -> Result<Measured, AssignmentError> {
    let _statistics = BpfStats::enable().map_err(failed)?;
    // Once without measuring: every socket gets its entry.
    send(sockets, titan, (sockets.len() as u64) * u64::from(burst), burst, stop)?;
    let (mut nanos, mut floors, mut speeds) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..runs {
        let before = titan.program_times().map_err(failed)?;
        let begin = Instant::now();
        send(sockets, titan, PACKETS, burst, stop)?;
        let seconds = begin.elapsed().as_secs_f64();
        let cost = Cost::between(&before, &titan.program_times().map_err(failed)?);
        nanos.push(cost.nanos);
        floors.push(cost.floor);
        speeds.push(cost.packets / seconds);
    }
    Ok((nanos, floors, speeds))
}

fn case(
    flows: u32,
    burst: u32,
    nanos: &[f64],
    floors: &[f64],
    speeds: &[f64],
    activations: u64,
) -> BenchCase {
    let mut case = BenchCase::alone(format!("assignment-{flows}-flows-{burst}-in-a-row"), speeds);
    let median = stats::median(nanos).unwrap_or(0.0);
    case.other.insert("program_ns_per_packet".to_owned(), median.into());
    case.other.insert("program_ns_least".to_owned(), stats::min(nanos).unwrap_or(0.0).into());
    case.other.insert("program_ns_greatest".to_owned(), stats::max(nanos).unwrap_or(0.0).into());
    case.other.insert("activations".to_owned(), activations.into());
    let floor = stats::median(floors).unwrap_or(0.0);
    case.other.insert("empty_run_ns".to_owned(), floor.into());
    case.limited_by = Some(format!(
        "{median:.0} ns of programs a packet, beyond {floor:.0} ns that a run by itself stands for"
    ));
    case
}

/// What the programs took in a run.
struct Cost {
    packets: f64,
    /// Nanoseconds a packet, less those of as many empty runs.
    nanos: f64,
    /// Nanoseconds of an empty run.
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
        Self { packets, floor, nanos: (busy.1 - floor * busy.0) / packets }
    }
}

/// Connected sockets in the sender's namespace.
fn sockets(bed: &Testbed, flows: u32) -> Result<Vec<UdpSocket>, AssignmentError> {
    let limit = getrlimit(Resource::Nofile);
    let wanted = u64::from(flows) + 1000;
    if limit.current.is_some_and(|current| current < wanted) {
        let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
        let why = format!("{flows} sockets need `ulimit -n {wanted}`, which this process may not set");
        setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum })
            .map_err(|error| AssignmentError::Failed(format!("{why}: {error}")))?;
    }
    let addresses = flows.div_ceil(FLOWS_PER_ADDRESS) as u8;
    let address = |number: u8| IpAddr::V4(Ipv4Addr::from_octets([10, 99, 2, number + 1]));
    for number in 0..addresses {
        link::add_address(&bed.sender, LINK, address(number), 16).map_err(failed)?;
    }
    let open = |flow: u32| -> std::io::Result<UdpSocket> {
        let from = address((flow / FLOWS_PER_ADDRESS) as u8);
        let socket = UdpSocket::bind(SocketAddr::new(from, 0))?;
        socket.connect((RECEIVER, PORT))?;
        Ok(socket)
    };
    bed.sender
        .run(|| (0..flows).map(open).collect::<std::io::Result<Vec<_>>>())
        .map_err(failed)?
        .map_err(failed)
}

/// Sends packets, `burst` of a flow and then of the next, and never more than the NIC can hold.
fn send(
    sockets: &[UdpSocket],
    titan: &Titan,
    packets: u64,
    burst: u32,
    stop: &dyn Fn() -> bool,
) -> Result<(), AssignmentError> {
    let mut sent = 0;
    while sent < packets {
        for socket in sockets {
            for _ in 0..burst {
                // What the kernel has no room for is not sent; the count is of attempts.
                let _ = socket.send(&[0; 64]);
            }
            sent += u64::from(burst);
            if sent >= packets {
                break;
            }
            if sent % 64 < u64::from(burst) {
                wait_for_room(titan, stop)?;
            }
        }
    }
    wait_for_room(titan, stop)
}

fn wait_for_room(titan: &Titan, stop: &dyn Fn() -> bool) -> Result<(), AssignmentError> {
    let standing = || -> u64 {
        let queues = titan.page().queues.iter();
        let of = |queue: &weft_titan::page::Queue| {
            let left = queue.left_packets.load(Ordering::Relaxed);
            queue.packets.load(Ordering::Relaxed).saturating_sub(left)
        };
        queues.map(of).sum()
    };
    while standing() > IN_FLIGHT {
        if stop() {
            return Err(AssignmentError::Stopped);
        }
        std::thread::yield_now();
    }
    Ok(())
}
