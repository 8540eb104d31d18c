//! Compares the two kinds of port, in turns: a veth with a macvtap, and a TAP. `make test-kernels` runs it in an emulated
//! machine with a kernel whose TAPs hold senders back.
//!
//! `port_compare [ROUNDS [SLOTS]]` prints a table: of each measure, the median of the rounds with the smallest and the largest, and
//! the ratio of the medians. It checks that no packet was lost unseen, and with a TAP none at all; the figures are the machine's.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use weft_host::{NetNs, link, tap};
use weft_nic::link::LinkKind;
use weft_nic::nic::{NicConfig, NicPlan, SoftwareNic};
use weft_nic::plan::Mode;
use weft_nic::testbed::{PORT, RECEIVER, Testbed};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{CompileOptions, Source, compile};
use weft_units::{BitsPerSec, Bytes, Nanos};

type Done<T = ()> = Result<T, Box<dyn Error>>;

const POLICY: &str =
    "class ping = udp and port 7\nclass bulk = tcp\nroot = priority { ping, fair of bulk, fair of default }";
/// A link that is never the bottleneck.
const FREE: u64 = 100_000;
/// A link that both kinds fill, in Mb/s.
const LIMITED: u64 = 50;
/// The flows of a load.
const FLOWS: usize = 8;
/// The span of a measurement.
const SPAN: Duration = Duration::from_millis(1500);
/// Messages of a measurement of latency.
const PINGS: usize = 200;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Veth,
    Tap,
}

/// The results of one round of one kind, in the order of [`MEASURES`].
type Round = Vec<f64>;

const MEASURES: [&str; 9] = [
    "TCP, 8 flows, Mb/s",
    "TCP, 8 flows, cores per Gb/s",
    "UDP, 100 bytes, 1000 packets/s",
    "UDP super-packets, Mb/s",
    "round trip on a free port, median us",
    "round trip on a free port, 90 % us",
    "round trip beside 8 flows on 50 Mb/s, median us",
    "round trip beside 8 flows on 50 Mb/s, 90 % us",
    "bytes in the NIC then, KB",
];

fn main() -> Done {
    let arguments: Vec<u32> = std::env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let rounds = arguments.first().copied().unwrap_or(5);
    let slots = arguments.get(1).copied().unwrap_or(weft_nic::port::RING_SLOTS);
    tap::require_backpressure()?;
    println!("{rounds} rounds in turns, {slots} packets in a TAP's ring");
    let (mut veth, mut taps) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        for kind in [Kind::Veth, Kind::Tap] {
            let figures = round_of(kind, slots)?;
            println!("round {round} {kind:?}: {figures:.1?}");
            if kind == Kind::Veth { veth.push(figures) } else { taps.push(figures) }
        }
    }
    println!("| measure | veth | TAP | TAP / veth |\n|---|---|---|---|");
    for (i, measure) in MEASURES.iter().enumerate() {
        let (a, b) = (spread(&veth, i), spread(&taps, i));
        println!("| {measure} | {} | {} | {:.2} |", text(a), text(b), b[1] / a[1]);
    }
    Ok(())
}

/// The smallest, the median and the largest.
fn spread(rounds: &[Round], measure: usize) -> [f64; 3] {
    let mut all: Vec<f64> = rounds.iter().map(|round| round[measure]).collect();
    all.sort_by(f64::total_cmp);
    [all[0], all[all.len() / 2], all[all.len() - 1]]
}

fn text([least, median, most]: [f64; 3]) -> String {
    format!("{median:.1} ({least:.1}-{most:.1})")
}

/// A NIC between two namespaces.
struct Bench {
    nic: SoftwareNic,
    bed: Testbed,
}

impl Bench {
    fn start(kind: Kind, slots: u32, megabits: u64) -> Done<Self> {
        let compiled = compile(Source { name: "compare", text: POLICY }, &CompileOptions::default());
        let policy = compiled.policy.ok_or("a policy")?;
        let config = NicConfig {
            mode: Mode::Loom,
            rate: BitsPerSec(megabits * 1_000_000),
            link: LinkKind::Emulated,
            segments_per_turn: SegmentsPerTurn::AtMost(NonZeroU32::new(8).ok_or("segments")?),
            catch_up: Nanos::from_millis(50),
            window: Nanos::from_millis(50),
            cgroups: Vec::new(),
            flows: Vec::new(),
            rings: 64,
            departures: None,
        };
        let plan = NicPlan::new(&policy, config)?;
        let bed = Testbed::create("cmp")?;
        let (port, uplink) = match kind {
            Kind::Veth => bed.devices_with(plan.ring_count(), 2000, true)?,
            Kind::Tap => bed.tap_devices(plan.ring_count(), 2000, slots)?,
        };
        let nic = SoftwareNic::start(plan, port, uplink)?;
        bed.connect()?;
        bed.wait_running()?;
        link::wait_running(&bed.sender, PORT, Duration::from_secs(20))?;
        Ok(Self { nic, bed })
    }

    fn udp(&self, ns: &NetNs, address: SocketAddr) -> Done<UdpSocket> {
        let socket = ns.run(|| UdpSocket::bind(address))??;
        socket.set_read_timeout(Some(Duration::from_secs(5)))?;
        Ok(socket)
    }

    /// A sender and a receiver of datagrams to `port`.
    fn pair(&self, port: u16) -> Done<[UdpSocket; 2]> {
        let out = self.udp(&self.bed.sender, "0.0.0.0:0".parse()?)?;
        let end = self.udp(&self.bed.receiver, SocketAddr::new(RECEIVER, port))?;
        out.connect((RECEIVER, port))?;
        Ok([out, end])
    }

    /// Ends the NIC. A TAP may lose no packet; what a veth loses in its receive backlog, the kernel must have counted.
    fn end(self, kind: Kind) -> Done {
        let totals = self.nic.stop(Nanos::from_secs(5))?;
        let dropped = totals.drops.total();
        println!(
            "{kind:?}: {} doorbells ahead, {} sleeps, {dropped} drops",
            totals.doorbell_ahead, totals.sleeps
        );
        let bad =
            totals.lost != dropped || totals.events.strays.get() > 0 || (kind == Kind::Tap && dropped > 0);
        let found = (totals.lost, totals.events.strays.get(), totals.drops);
        if bad { Err(format!("{kind:?}: lost, strays, drops: {found:?}").into()) } else { Ok(()) }
    }
}

fn round_of(kind: Kind, slots: u32) -> Done<Round> {
    let bench = Bench::start(kind, slots, FREE)?;
    let (megabits, cores) = tcp(&bench, |_| Ok(()))?.0;
    let packets = datagrams(&bench, 7001, None)? / 1000.0 / SPAN.as_secs_f64();
    let supers = datagrams(&bench, 7002, Some(1200))? * 1200.0 * 8.0 / 1e6 / SPAN.as_secs_f64();
    let free = pings(&bench)?;
    bench.end(kind)?;
    let bench = Bench::start(kind, slots, LIMITED)?;
    let (_, (loaded, standing)) = tcp(&bench, |bench| {
        std::thread::sleep(Duration::from_millis(500));
        let loaded = pings(bench)?;
        let totals = bench.nic.totals()?;
        let inside = totals.sum(|c| c.posted).saturating_sub(totals.sum(|c| c.sent)).bytes;
        Ok((loaded, inside))
    })?;
    bench.end(kind)?;
    let Bytes(standing) = standing;
    Ok(vec![
        megabits,
        cores / (megabits / 1000.0),
        packets,
        supers,
        free[0],
        free[1],
        loaded[0],
        loaded[1],
        standing as f64 / 1000.0,
    ])
}

/// Flows that send for the span, or until `meanwhile` has ended if that is later. Returns their rate in Mb/s and the busy cores.
fn tcp<T>(bench: &Bench, meanwhile: impl FnOnce(&Bench) -> Done<T>) -> Done<((f64, f64), T)> {
    let address = SocketAddr::new(RECEIVER, 5000);
    let listener = bench.bed.receiver.run(|| TcpListener::bind(address))??;
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..FLOWS {
            let out = bench.bed.sender.run(|| TcpStream::connect(address))??;
            let (end, _) = listener.accept()?;
            let (stop, received) = (&stop, &received);
            scope.spawn(move || send(out, stop));
            scope.spawn(move || receive(end, received));
        }
        std::thread::sleep(Duration::from_millis(300));
        let (start, bytes, busy) = (Instant::now(), received.load(Ordering::Relaxed), busy_seconds()?);
        let result = meanwhile(bench);
        std::thread::sleep(SPAN.saturating_sub(start.elapsed()));
        let seconds = start.elapsed().as_secs_f64();
        let megabits = (received.load(Ordering::Relaxed) - bytes) as f64 * 8.0 / 1e6 / seconds;
        let cores = (busy_seconds()? - busy) / seconds;
        stop.store(true, Ordering::Relaxed);
        Ok(((megabits, cores), result?))
    })
}

fn send(mut stream: TcpStream, stop: &AtomicBool) {
    let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
    while !stop.load(Ordering::Relaxed) {
        let _ = stream.write(&[7; 60_000]);
    }
}

fn receive(mut stream: TcpStream, received: &AtomicU64) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(length) = stream.read(&mut buffer)
        && length > 0
    {
        received.fetch_add(length as u64, Ordering::Relaxed);
    }
}

/// Datagrams sent for the span; returns how many arrived. With a segment size, super-packets of 40 segments are sent.
fn datagrams(bench: &Bench, port: u16, segment: Option<i32>) -> Done<f64> {
    let [out, end] = bench.pair(port)?;
    setsockopt(&end, sockopt::RcvBufForce, &(8 << 20))?;
    end.set_read_timeout(Some(Duration::from_millis(500)))?;
    if let Some(size) = segment {
        setsockopt(&out, sockopt::UdpGsoSegment, &size)?;
    }
    let bytes = vec![7; segment.map_or(100, |size| 40 * size as usize)];
    std::thread::scope(|scope| {
        let count = scope.spawn(move || {
            let (mut count, mut buffer) = (0.0, [0; 2000]);
            while end.recv(&mut buffer).is_ok() {
                count += 1.0;
            }
            count
        });
        let until = Instant::now() + SPAN;
        while Instant::now() < until {
            let _ = out.send(&bytes);
        }
        count.join().map_err(|_| "the receiver".into())
    })
}

/// The median and the 90th percentile of round trips of small datagrams, in microseconds.
fn pings(bench: &Bench) -> Done<[f64; 2]> {
    let [out, end] = bench.pair(7)?;
    let mut times: Vec<f64> = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = [0; 64];
            for _ in 0..PINGS {
                let Ok((length, from)) = end.recv_from(&mut buffer) else { return };
                let _ = end.send_to(&buffer[..length], from);
            }
        });
        let mut buffer = [0; 64];
        (0..PINGS)
            .map(|_| {
                std::thread::sleep(Duration::from_millis(2));
                let start = Instant::now();
                out.send(&[7; 64])?;
                out.recv(&mut buffer)?;
                Ok(start.elapsed().as_secs_f64() * 1e6)
            })
            .collect::<Done<_>>()
    })?;
    times.sort_by(f64::total_cmp);
    Ok([times[PINGS / 2], times[PINGS * 9 / 10]])
}

/// The time that all cores were busy since boot, in seconds.
fn busy_seconds() -> Done<f64> {
    let text = std::fs::read_to_string("/proc/stat")?;
    let line = text.lines().next().ok_or("/proc/stat")?;
    let ticks: Vec<f64> = line.split_whitespace().skip(1).map(str::parse).collect::<Result<_, _>>()?;
    // user, nice, system, idle, iowait, irq, softirq, steal; guest time is part of user time.
    let of = |range: std::ops::Range<usize>| ticks.get(range).map_or(0.0, |ticks| ticks.iter().sum::<f64>());
    Ok((of(0..3) + of(5..8)) / 100.0)
}
