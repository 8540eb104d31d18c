//! Throughput of a NIC with one transmit worker and with several that share a policy, through the same ports, on a link that never
//! limits.
//!
//! Each port is in a separate namespace, and one thread sends datagrams through it, many in a super-packet, so that senders take
//! little of the processors. The NIC cuts them: each frame is a separate turn and a write. The ports, the senders and the policy are
//! the same whatever the number of workers, and the numbers are measured in turns.

use core::num::{NonZeroU32, NonZeroUsize};
use core::sync::atomic::{AtomicBool, Ordering};
use nix::sys::socket::{setsockopt, sockopt};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::{Duration, Instant};
use weft_facts::stats;
use weft_host::link::{self, LinkError, Mac};
use weft_host::netns::{NetNs, NetNsError};
use weft_host::run_id::RunId;
use weft_nic::link::LinkKind;
use weft_nic::nic::{NicConfig, NicError, NicPlan, PortParts, SoftwareNic, WorkersError};
use weft_nic::plan::Mode;
use weft_nic::port::{Port, PortConfig, PortError, Uplink};
use weft_nic::testbed::{RECEIVER, SENDER, Testbed, TestbedError, WIRE};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::CompiledPolicy;
use weft_report::bench::BenchCase;
use weft_report::rounds::Rounds;
use weft_units::{BitsPerSec, Nanos};

/// The payload of a datagram, and the datagrams of a super-packet.
const PAYLOAD: usize = 1400;
const DATAGRAMS: usize = 40;
/// The UDP port of the receiver.
const DISCARD: u16 = 9;
/// A rate that no software reaches.
const LINK: BitsPerSec = BitsPerSec(400_000_000_000);
/// The packets that wait for a ring, and the bytes of a sender's buffer.
const RING_PACKETS: u32 = 1000;
const BUFFER: usize = 4 << 20;
/// The time before a measurement, and its length.
const BEFORE: Duration = Duration::from_millis(200);
const LENGTH: Duration = Duration::from_secs(1);
/// The longest time that a sender waits for room.
const PATIENCE: Duration = Duration::from_millis(50);
const UP: Duration = Duration::from_secs(2);
/// The length of the prefix of all addresses.
const PREFIX: u8 = 16;

/// Errors from measuring workers of a NIC.
#[derive(Debug, thiserror::Error)]
pub enum PortWorkersError {
    /// The namespaces.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// A namespace.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A link or an address.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A port or its devices.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The NIC.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// The policy cannot be shared by that many workers.
    #[error(transparent)]
    Workers(#[from] WorkersError),
    /// A socket of a sender or of the receiver.
    #[error("open a UDP socket of the benchmark: {0}")]
    Socket(#[from] std::io::Error),
    /// The user ended it.
    #[error("stopped before the first run was complete")]
    Stopped,
}

/// The speed of a run: frames per second, and the processor time of the workers per second.
#[derive(Clone, Copy, Debug)]
struct Speed {
    pps: f64,
    cpu: f64,
}

/// Measures each number of `workers` `runs` times, in turns, on `policy`. `heard` gets each run's number of workers and frames per second.
///
/// # Errors
/// When a namespace, a device or the NIC cannot be made, or the policy cannot be shared.
pub fn run(
    workers: &[NonZeroUsize],
    runs: u32,
    policy: &CompiledPolicy,
    stop: &dyn Fn() -> bool,
    mut heard: impl FnMut(usize, f64),
) -> Result<Vec<BenchCase>, PortWorkersError> {
    let ports = workers.iter().map(|count| count.get()).max().unwrap_or(1);
    let speeds = Rounds::measure(runs, workers, stop, |turn| {
        let speed = measure(*turn.variant, ports, policy)?;
        heard(turn.variant.get(), speed.pps);
        Ok::<_, PortWorkersError>(speed)
    })?;
    if speeds.0.is_empty() {
        return Err(PortWorkersError::Stopped);
    }
    Ok(workers.iter().enumerate().map(|(at, count)| case(count.get(), ports, &speeds, at)).collect())
}

/// The case of `count` workers, the variant at `at`. The ratio is to the first number, run by run.
fn case(count: usize, ports: usize, speeds: &Rounds<Speed>, at: usize) -> BenchCase {
    let ratios = speeds.ratios(at, 0, |speed| speed.pps);
    let pps = speeds.figures(at, |speed| speed.pps);
    let mut case = BenchCase::alone(format!("port-{ports}-ports-{count}-workers"), &pps);
    case.ours_bps = Some(case.ours_pps * (PAYLOAD + 28 + 14 + 24) as f64 * 8.0);
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let cpu = speeds.median(at, |speed| speed.cpu).unwrap_or(0.0);
    case.limited_by = Some(format!("the workers had {cpu:.2} of {cores} cores, the senders had the rest"));
    case.other.insert("workers".to_owned(), count.into());
    case.other.insert("workers_cpu_cores".to_owned(), cpu.into());
    case.other.insert("ratio_to_first".to_owned(), stats::median(&ratios).unwrap_or(0.0).into());
    case
}

fn config() -> NicConfig {
    NicConfig {
        mode: Mode::Loom,
        rate: LINK,
        link: LinkKind::Emulated,
        segments_per_turn: SegmentsPerTurn::AtMost(NonZeroU32::MIN),
        catch_up: Nanos::from_millis(50),
        window: Nanos::from_millis(50),
        cgroups: Vec::new(),
        flows: Vec::new(),
        rings: 64,
        departures: None,
    }
}

/// One run.
fn measure(workers: NonZeroUsize, ports: usize, policy: &CompiledPolicy) -> Result<Speed, PortWorkersError> {
    let bed = Testbed::create("pwk")?;
    let plan = NicPlan::new(policy, config())?.with_workers(workers)?;
    let mut nic = SoftwareNic::start_without_port(plan, Uplink::tap(&bed.receiver, WIRE)?)?;
    link::set_up(&bed.receiver, WIRE)?;
    link::wait_running(&bed.receiver, WIRE, UP)?;
    link::add_address(&bed.receiver, WIRE, RECEIVER, PREFIX)?;
    let wire = link::get_mac(&bed.receiver, WIRE)?.unwrap_or(Mac::local(2));
    // No process reads it, so the kernel drops what does not fit.
    let _discard = bed.receiver.run(|| UdpSocket::bind((RECEIVER, DISCARD)))??;
    let (mut namespaces, mut sockets) = (Vec::new(), Vec::new());
    for number in 0..ports {
        let app = NetNs::create(&RunId::current().name(&format!("pwk{number}")))?;
        sockets.push(add_port(&mut nic, (&bed.nic, &app), number, wire)?);
        namespaces.push(app);
    }
    let stop = AtomicBool::new(false);
    let speed = std::thread::scope(|scope| {
        for socket in &sockets {
            let stop = &stop;
            scope.spawn(move || send(socket, stop));
        }
        let speed = watch(&nic);
        stop.store(true, Ordering::Relaxed);
        speed
    });
    nic.stop(Nanos::ZERO)?;
    speed
}

/// Adds a port in `app`. Returns a socket that sends through it.
fn add_port(
    nic: &mut SoftwareNic,
    (of_nic, app): (&NetNs, &NetNs),
    number: usize,
    wire: Mac,
) -> Result<UdpSocket, PortWorkersError> {
    let (plan, name, host) = (nic.plan().rings().clone(), format!("port{number}"), number as u8 + 1);
    let config = PortConfig {
        app,
        nic: of_nic,
        name: &name,
        mac: Mac([2, 0, 0, 7, 0, host]),
        rings: nic.plan().ring_count(),
        ring_packets: RING_PACKETS,
        single_backlog: true,
    };
    let port = Port::create(&config)?;
    // Nothing is received: the device leads nowhere.
    let receive = Some(Uplink::tap(of_nic, &format!("rx{number}"))?);
    nic.add_port(PortParts { port, plan, receive })?;
    link::wait_running(app, &name, UP)?;
    link::add_address(app, &name, address(number), PREFIX)?;
    link::add_neighbor(app, &name, RECEIVER, wire)?;
    let socket = app.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)))??;
    socket.set_write_timeout(Some(PATIENCE))?;
    setsockopt(&socket, sockopt::SndBufForce, &BUFFER).map_err(std::io::Error::from)?;
    setsockopt(&socket, sockopt::UdpGsoSegment, &(PAYLOAD as i32)).map_err(std::io::Error::from)?;
    Ok(socket)
}

/// The address of a port: in the receiver's network, behind the testbed's own.
fn address(number: usize) -> IpAddr {
    const BEHIND: u32 = 1 << 9;
    match SENDER {
        IpAddr::V4(first) => Ipv4Addr::from_bits(first.to_bits() + BEHIND + number as u32).into(),
        other => other,
    }
}

fn send(socket: &UdpSocket, stop: &AtomicBool) {
    let datagrams = [7; PAYLOAD * DATAGRAMS];
    while !stop.load(Ordering::Relaxed) {
        // A full buffer ends in a timeout.
        let _ = socket.send_to(&datagrams, (RECEIVER, DISCARD));
    }
}

/// Measures the NIC for a while.
fn watch(nic: &SoftwareNic) -> Result<Speed, PortWorkersError> {
    std::thread::sleep(BEFORE);
    let read = || -> Result<_, NicError> { Ok((Instant::now(), nic.totals()?)) };
    let (begin, before) = read()?;
    std::thread::sleep(LENGTH);
    let (end, after) = read()?;
    let span = (end - begin).as_secs_f64();
    let frames = after.uplink_writes.saturating_sub(before.uplink_writes).packets.get();
    let cpu = after.worker_cpu.saturating_sub(before.worker_cpu);
    Ok(Speed { pps: frames as f64 / span, cpu: cpu.get() as f64 / 1e9 / span })
}
