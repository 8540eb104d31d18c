//! The worker on rings that are sockets: doorbells and packets out of step as no kernel would produce them.

mod algorithms;

use super::*;
use crate::commands::commands;
use crate::counters::PortCounters;
use crate::doorbell::protocol::Bell;
use crate::late::LATE_RETRY_MAX;
use crate::layout::Shared;
use crate::link::{DeviceLink, LinkRate};
use crate::nic::limited;
use crate::plan::{Mode, RingPlan};
use crate::sampler::Sample;
use crate::sync::Ordering;
use rustix::event::{EventfdFlags, eventfd};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weft_host::testing::{PATIENCE, wait_for};
use weft_packet::vnet::VnetHeader;
use weft_policy::{CompileOptions, Source, compile};
use weft_sched::PolicyTree;
use weft_units::BitsPerSec;

/// Two classes with two rings each, and the default class with one.
const POLICY: &str =
    "class a = udp and port 1\nclass b = udp and port 2\nroot = wfq { fair of a: 1, fair of b: 1 }";
const RING_A: usize = 0;
const RING_B: usize = 2;
/// The port's number: not in the first word of the summary.
const PORT: usize = 70;

struct Doorbell(Arc<OwnedFd>);

impl RecordSource for Doorbell {
    fn consume(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
    fn wake_fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }
}

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).expect("socket pair")
}

/// A running worker, and the other ends of its descriptors.
struct Bench {
    summary: Arc<Summary>,
    shared: Arc<Shared>,
    wake: Arc<OwnedFd>,
    rings: Vec<OwnedFd>,
    classes: Vec<ClassId>,
    wire: OwnedFd,
    counters: Arc<Counters>,
    port: Arc<PortCounters>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    sent: Vec<u32>,
    samples: Receiver<Sample>,
}

impl Bench {
    fn new() -> Self {
        Self::with(POLICY, BitsPerSec(1_000_000_000), None)
    }

    /// A worker that sends by the policy `text` on a link of `rate`, above a device if `device`.
    fn with(text: &str, rate: BitsPerSec, device: Option<DeviceLink>) -> Self {
        let source = Source { name: "test", text };
        let policy = compile(source, &CompileOptions::default()).policy.expect("policy");
        let plan = RingPlan::new(&policy, Mode::Loom, 6, &[]).expect("plan");
        let tree = PolicyTree::new(&plan.program).expect("tree");
        let (rings, ends): (Vec<_>, Vec<_>) = plan.rings.iter().map(|_| pair()).unzip();
        let (uplink, wire) = pair();
        let (counters, port) =
            (Arc::new(Counters::new(0, plan.class_slots())), Arc::new(PortCounters::new(plan.classes())));
        let (out, samples) = std::sync::mpsc::channel();
        let now = clock::now();
        let parts = WorkerParts {
            uplink: Arc::new(uplink),
            link: Link::new(rate, Nanos::from_millis(5), now),
            device: device.map(|link| Device::new(link, rate, Bytes(WHOLE), &limited(&plan, rate))),
            segments_per_turn: SegmentsPerTurn::Whole,
            counters: Arc::clone(&counters),
            sampler: Sampler::new(Nanos::from_millis(50), now, plan.classes(), out),
            classes: plan.classes(),
            default_class: ClassId(2),
            departures: None,
        };
        let (summary, shared): (Arc<Summary>, Arc<Shared>) = Default::default();
        let wake = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).expect("eventfd"));
        let stop = Arc::new(AtomicBool::new(false));
        let new = NewPort {
            port: PORT,
            page: Page::Own(Arc::clone(&shared)),
            counters: Arc::clone(&port),
            rings: rings.into_iter().zip(plan.rings.iter().copied()).collect(),
            in_hand: Vec::new(),
        };
        let thread = std::thread::spawn({
            let (page, doorbell, stop) =
                (Page::Own(Arc::clone(&summary)), Doorbell(Arc::clone(&wake)), Arc::clone(&stop));
            move || {
                let flows = RefCell::new(FlowClasses::default());
                let (_commander, inbox) = commands().expect("eventfd");
                let mut worker = Worker::new(tree, parts, (page, inbox), doorbell, &flows);
                worker.add_port(new).expect("a port");
                worker.run(|| stop.load(Ordering::Relaxed));
            }
        });
        let classes = plan.rings.iter().map(|r| r.class.expect("one class")).collect();
        let sent = vec![0; plan.rings.len()];
        Self {
            summary,
            shared,
            wake,
            rings: ends,
            classes,
            wire,
            counters,
            port,
            stop,
            thread,
            sent,
            samples,
        }
    }

    /// Rings the doorbell of one packet.
    fn ring(&self, ring: usize) {
        self.ring_asking(ring, None);
    }

    /// Rings the doorbell of one packet, whose sender requests a time if `asked` has one, in the order of the program at the egress: the
    /// count, the time, the bits.
    fn ring_asking(&self, ring: usize, asked: Option<weft_units::Instant>) {
        let shared = &self.shared;
        shared.classes[self.classes[ring].index()].packets.fetch_add(1, Ordering::SeqCst);
        let bell = Bell {
            packets: &shared.rings[ring].packets,
            ready: (&shared.ready[ring / 64], (ring % 64) as u32),
            urgent: shared.urgent[ring / 64].load(Ordering::SeqCst),
            ports: (&self.summary.ready_ports[PORT / 64], (PORT % 64) as u32),
            sleeping: &self.summary.sleeping,
        };
        let count = match asked {
            Some(asked) => {
                shared.rings[ring].packets.fetch_add(1, Ordering::SeqCst);
                shared.rings[ring].asked.store(asked.as_nanos(), Ordering::SeqCst);
                0
            }
            None => 1,
        };
        if bell.post(count) {
            rustix::io::write(&self.wake, &1_u64.to_ne_bytes()).expect("wake");
        }
    }

    /// Puts a packet into the ring: not IP, with its ring and number after the Ethernet header.
    fn put(&mut self, ring: usize) {
        let mut packet = [0; VnetHeader::LEN + 60];
        packet[VnetHeader::LEN + 12] = 0x88;
        packet[VnetHeader::LEN + 14] = ring as u8;
        packet[VnetHeader::LEN + 16..VnetHeader::LEN + 20].copy_from_slice(&self.sent[ring].to_ne_bytes());
        self.sent[ring] += 1;
        while rustix::io::write(&self.rings[ring], &packet).is_err() {
            std::thread::yield_now();
        }
    }

    /// The next packet on the wire within `patience`: its ring and number.
    fn receive(&self, patience: Duration) -> Option<(usize, u32)> {
        let timeout = rustix::time::Timespec::try_from(patience).expect("span");
        poll(&mut [PollFd::new(&self.wire, PollFlags::IN)], Some(&timeout)).expect("poll");
        let mut packet = [0; 200];
        let length = rustix::io::read(&self.wire, &mut packet).ok()?;
        assert_eq!(length, VnetHeader::LEN + 60);
        let number = packet[VnetHeader::LEN + 16..].first_chunk().copied().expect("number");
        Some((usize::from(packet[VnetHeader::LEN + 14]), u32::from_ne_bytes(number)))
    }

    /// Stops the worker. For every class the sent packets must equal the posted ones, whatever else failed.
    fn finish(self) -> Finished {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic");
        for (class, counters) in self.port.classes.iter().enumerate() {
            let rings = (0..self.sent.len()).filter(|&r| self.classes[r].index() == class);
            let put: u32 = rings.map(|r| self.sent[r]).sum();
            let gone = counters.sent.get().packets.get() + counters.held.get().packets.get();
            assert_eq!(gone, u64::from(put), "packets of class {class}");
        }
        Finished { nic: self.counters, port: self.port }
    }
}

/// The counters of a worker that has ended.
struct Finished {
    nic: Arc<Counters>,
    port: Arc<PortCounters>,
}

const SOON: Duration = Duration::from_millis(10);
/// The time allowed for a packet that must arrive. No bound on its delay, since a busy machine may take its time.
const LONG: Duration = PATIENCE;
/// The silence after which nothing more is expected.
const SILENCE: Duration = Duration::from_secs(2);

fn wait(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Delivers a packet long after its doorbell. Returns the worker's longest sleep in the meantime.
fn late_packet_is_looked_for() -> Nanos {
    let mut bench = Bench::new();
    bench.ring(RING_A);
    wait(30);
    bench.ring(RING_B);
    bench.put(RING_B);
    assert_eq!(bench.receive(LONG), Some((RING_B, 0)), "others go on");
    wait(70);
    bench.put(RING_A);
    assert_eq!(bench.receive(LONG), Some((RING_A, 0)));
    wait(250);
    let counters = bench.finish();
    assert_eq!(counters.port.lost.get().packets.get(), 0);
    // B's doorbell may have been taken before B's packet had arrived.
    assert!(
        (1..=2).contains(&counters.port.doorbell_ahead.get().packets.get()),
        "{:?}",
        counters.port.doorbell_ahead
    );
    assert!(counters.nic.turns.get().packets.get() < 10, "{:?}", counters.nic.turns);
    assert!(
        counters.nic.worker_cpu.get() < 50_000_000,
        "{} ns of processor time",
        counters.nic.worker_cpu.get()
    );
    Nanos(counters.nic.late_sleep_max.get())
}

#[test]
fn a_doorbell_far_ahead_of_its_packet_neither_blocks_nor_spins() {
    for round in 0..5 {
        // The sleep that the worker requests, not the one that a busy machine grants: one based on a stale "idle"
        // requests 20 ms.
        let longest = late_packet_is_looked_for();
        assert!((Nanos(1)..=LATE_RETRY_MAX).contains(&longest), "round {round}: slept {longest}");
    }
}

/// All rings have doorbells and no packets: the reads of each do not grow with the number of rings, and end.
#[test]
fn doorbells_without_packets_cost_a_bounded_number_of_reads() {
    let reads = |rings: &[usize]| {
        let bench = Bench::new();
        for _ in 0..5 {
            rings.iter().for_each(|ring| bench.ring(*ring));
            wait(40);
        }
        wait_for("all are given up", || bench.port.lost.get().packets.get() >= 5 * rings.len() as u64);
        bench.finish().nic.late_reads.get().packets.get()
    };
    for rings in [&[RING_A][..], &[0, 1, 2, 3, 4]] {
        let (reads, doorbells) = (reads(rings), 5 * rings.len() as u64);
        assert!(reads >= rings.len() as u64 && reads <= 45 * doorbells, "{reads} for {doorbells} doorbells");
    }
}

#[test]
fn a_doorbell_behind_its_packet_is_matched_to_it() {
    for delay in [0, 1, 60] {
        let mut bench = Bench::new();
        bench.put(RING_A);
        if delay == 60 {
            assert_eq!(bench.receive(LONG), Some((RING_A, 0)), "found by the sweep");
        }
        wait(delay);
        bench.ring(RING_A);
        if delay < 60 {
            assert_eq!(bench.receive(LONG), Some((RING_A, 0)));
        }
        wait(250);
        let done = bench.shared.rings[RING_A].done.load(Ordering::SeqCst);
        assert_eq!(done, 1, "after {delay} ms");
        let counters = bench.finish();
        assert_eq!(counters.port.lost.get().packets.get(), 0, "after {delay} ms");
    }
}

/// A port that a former process used comes with that process's counts in its page.
#[test]
fn the_backlog_leaves_out_what_a_former_process_sent() {
    let mut bench = Bench::new();
    let class = bench.classes[RING_A].index();
    let page = &bench.shared.classes[class];
    [&page.packets, &page.done].iter().for_each(|count| count.store(1_000, Ordering::SeqCst));
    [&page.bytes, &page.done_bytes].iter().for_each(|count| count.store(60_000, Ordering::SeqCst));
    let samples: Vec<Sample> = (0..20)
        .flat_map(|number| {
            bench.ring(RING_A);
            bench.put(RING_A);
            assert_eq!(bench.receive(LONG), Some((RING_A, number)));
            wait(10);
            bench.samples.try_iter().collect::<Vec<_>>()
        })
        .collect();
    assert!(!samples.is_empty(), "windows of 50 ms end within 200 ms");
    assert!(samples.iter().all(|sample| sample.standing[class] == Bytes(0)), "{samples:?}");
    bench.finish();
}

#[test]
fn after_a_stray_packet_the_ring_is_in_step_again() {
    let mut bench = Bench::new();
    for _ in 0..10 {
        bench.put(RING_A);
    }
    for i in 0..10 {
        // The sweep finds the first packet; the others follow at once.
        assert_eq!(bench.receive(LONG), Some((RING_A, i)));
    }
    wait(250);
    let round = |round: u32| {
        let started = Instant::now();
        bench.put(RING_A);
        bench.put(RING_A);
        bench.ring(RING_A);
        bench.ring(RING_A);
        assert_eq!(bench.receive(LONG), Some((RING_A, 10 + 2 * round)));
        assert_eq!(bench.receive(LONG), Some((RING_A, 11 + 2 * round)));
        started.elapsed()
    };
    let mut times: Vec<Duration> = (0..20).map(round).collect();
    times.sort_unstable();
    // The sweep would make each but the first take its full interval; a machine with other load only some.
    assert!(times[5] < Duration::from(SWEEP) / 2, "not by the sweep: {times:?}");
    let counters = bench.finish();
    assert_eq!((counters.port.strays.get().packets.get(), counters.port.lost.get().packets.get()), (10, 0));
}

#[test]
fn after_a_lost_packet_the_ring_is_in_step_again() {
    let mut bench = Bench::new();
    bench.ring(RING_A);
    // Other packets of the ring keep arriving; the lost one is given up nevertheless.
    for i in 0..60 {
        wait(5);
        bench.ring(RING_A);
        bench.put(RING_A);
        assert_eq!(bench.receive(LONG), Some((RING_A, i)));
    }
    wait(5);
    assert_eq!(bench.port.lost.get().packets.get(), 1);
    assert_eq!(bench.shared.rings[RING_A].done.load(Ordering::SeqCst), 61);
    // It arrives after all, without a doorbell, and does not delay its successors.
    bench.put(RING_A);
    assert_eq!(bench.receive(LONG), Some((RING_A, 60)));
    for round in 0..20 {
        bench.ring(RING_A);
        bench.ring(RING_A);
        bench.put(RING_A);
        bench.put(RING_A);
        assert_eq!(bench.receive(LONG), Some((RING_A, 61 + 2 * round)));
        assert_eq!(bench.receive(LONG), Some((RING_A, 62 + 2 * round)));
    }
    let counters = bench.finish();
    assert_eq!((counters.port.strays.get().packets.get(), counters.port.lost.get().packets.get()), (0, 0));
}

#[test]
fn a_doorbell_posted_twice_costs_nothing_but_a_count() {
    let mut bench = Bench::new();
    bench.ring(RING_A);
    bench.ring(RING_A);
    bench.put(RING_A);
    assert_eq!(bench.receive(LONG), Some((RING_A, 0)));
    wait(270);
    assert_eq!(bench.port.lost.get().packets.get(), 1);
    bench.ring(RING_A);
    bench.put(RING_A);
    assert_eq!(bench.receive(LONG), Some((RING_A, 1)));
    let counters = bench.finish();
    assert!(
        counters.nic.worker_cpu.get() < 50_000_000,
        "{} ns of processor time",
        counters.nic.worker_cpu.get()
    );
}

#[test]
fn what_lost_is_counted_at_the_end_even_without_patience() {
    let mut bench = Bench::new();
    bench.ring(RING_A);
    bench.ring(RING_A);
    bench.put(RING_A);
    assert_eq!(bench.receive(LONG), Some((RING_A, 0)));
    let counters = bench.finish();
    assert_eq!(counters.port.lost.get().packets.get(), 1);
}

/// Doorbells and packets of all rings in random order, by a fixed linear congruence.
#[test]
fn in_any_order_none_is_lost_none_overtakes() {
    let mut bench = Bench::new();
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let (mut doorbells, mut next) = ([0_i32; 5], [0_u32; 6]);
    let taken = std::cell::Cell::new(0);
    let mut take = |bench: &Bench, patience: Duration| {
        let (ring, number) = bench.receive(patience)?;
        assert_eq!(number, next[ring], "ring {ring} keeps its order");
        next[ring] += 1;
        taken.set(taken.get() + 1);
        Some(())
    };
    for _ in 0..10_000 {
        let ring = random(5) as usize;
        let put = doorbells[ring] > -3 && (doorbells[ring] > 3 || random(2) == 0);
        doorbells[ring] += if put { -1 } else { 1 };
        if put {
            bench.put(ring)
        } else {
            bench.ring(ring)
        }
        // No more packets may be outstanding than the sockets hold.
        while take(&bench, Duration::ZERO).is_some() {}
        while bench.sent.iter().sum::<u32>() > taken.get() + 150 {
            take(&bench, SOON);
        }
    }
    for (ring, ahead) in doorbells.into_iter().enumerate() {
        (0..ahead).for_each(|_| bench.put(ring));
        (ahead..0).for_each(|_| bench.ring(ring));
    }
    while take(&bench, SILENCE).is_some() {}
    assert_eq!(next.to_vec(), bench.sent, "every packet has left");
    wait(250);
    let counters = bench.finish();
    assert_eq!(counters.port.lost.get().packets.get(), 0);
}

impl Bench {
    /// Puts a packet of `ring` after its doorbell.
    fn send(&mut self, ring: usize) {
        self.ring(ring);
        self.put(ring);
    }
}

#[test]
fn an_uplink_without_room_is_waited_for_and_the_engine_asked_anew() {
    let mut bench = Bench::new();
    // The wire is not read: the socket fills up, and ring A's packets wait in their ring.
    let counters = Arc::clone(&bench.counters);
    let failed = || counters.uplink_failed.get().packets.get();
    let end = Instant::now() + PATIENCE;
    while failed() == 0 && Instant::now() < end {
        bench.send(RING_A);
        std::thread::sleep(Duration::from_micros(50));
    }
    assert!(failed() > 0, "the wire takes everything");
    let before = bench.sent[RING_A];
    let full = Instant::now();
    (0..20).for_each(|_| bench.send(RING_A));
    (0..20).for_each(|_| bench.send(RING_B));
    wait(60);
    let (waits, tries) = (counters.uplink_waits.get().packets.get(), failed());
    // One failure at once, and one after each of the longest sleeps.
    let most = 3 + full.elapsed().as_millis() as u64 / 20;
    assert!((1..=most).contains(&tries) && waits <= most, "{tries} writes failed, {waits} waits: it spins");
    // Both classes continue together, in order, and no packet is lost.
    let (mut next, mut turns) = ([0_u32; 6], Vec::new());
    while next[RING_A] < before + 20 || next[RING_B] < 20 {
        let (ring, number) = bench.receive(LONG).expect("a packet");
        assert_eq!(number, next[ring], "ring {ring}");
        next[ring] += 1;
        turns.push(ring);
    }
    let first_b = turns.iter().position(|ring| *ring == RING_B).expect("B");
    let shared = &turns[first_b..first_b + 30];
    let of_a = shared.iter().filter(|ring| **ring == RING_A).count();
    assert!((14..=16).contains(&of_a), "equal weights: {shared:?}");
    let counters = bench.finish();
    assert_eq!(counters.port.classes.iter().map(|c| c.refused.get().packets.get()).sum::<u64>(), 0);
}

#[test]
fn a_wire_that_is_gone_refuses_packets_and_the_nic_goes_on() {
    let mut bench = Bench::new();
    bench.send(RING_A);
    assert_eq!(bench.receive(LONG), Some((RING_A, 0)));
    // Like a device that is down: writes fail with an error that no waiting resolves.
    let (other, unused) = pair();
    bench.wire = other;
    drop(unused);
    for _ in 0..5 {
        bench.send(RING_A);
        bench.send(RING_B);
    }
    wait(100);
    let refused: u64 = bench.port.classes.iter().map(|c| c.refused.get().packets.get()).sum();
    assert_eq!(refused, 10);
    assert!(!bench.thread.is_finished());
    bench.stop.store(true, Ordering::Relaxed);
    bench.thread.join().expect("no panic");
}

const PRIORITY: &str =
    "class a = udp and port 1\nclass b = udp and port 2\nroot = priority { a, b, default }";
/// The ring of class b above: a FIFO class has one.
const RING_BULK: usize = 1;

/// Sends packets of `RING_A` by `send` beside a backlog of the bulk class on a slow link, 0.67 ms to a packet, until one has
/// overdrawn the link's clock. One does at once, unless the worker is kept from running: then its clock is behind, and there is
/// nothing to overdraw. `send` returns the time that the packet was behind its doorbell.
fn urgent_packets(send: impl Fn(&mut Bench) -> Duration) -> Finished {
    let device = DeviceLink { rate: LinkRate::Given, piece: None };
    let mut bench = Bench::with(PRIORITY, BitsPerSec(1_000_000), Some(device));
    let mut arrived = 0;
    for _ in 0..100 {
        (0..60).for_each(|_| bench.send(RING_BULK));
        (0..5).for_each(|_| assert!(bench.receive(LONG).is_some()));
        arrived += 5;
        let late = send(&mut bench);
        let sent = bench.port.classes[bench.classes[RING_BULK].index()].sent.get().packets.get();
        arrived += bulk_before_a(&bench);
        // A stalled worker catches up 5 ms of its link, which are eight packets, and a packet waits about as long as it was late. Without
        // urgency the whole backlog would leave first.
        let after = (arrived as u64).saturating_sub(sent);
        let most = 12 + late.as_micros() as u64 / 670;
        assert!(
            after <= most,
            "{after} bulk packets left after the urgent one was there, and before it, of {most}"
        );
        if bench.counters.overdrawn.get().packets.get() > 0 {
            return bench.finish();
        }
        while arrived < bench.sent[RING_BULK] as usize {
            assert!(bench.receive(LONG).is_some());
            arrived += 1;
        }
    }
    panic!("no urgent packet of 100 overdrew the clock");
}

/// The bulk packets that arrive before the first packet of `RING_A`.
fn bulk_before_a(bench: &Bench) -> usize {
    let arrived = std::iter::from_fn(|| bench.receive(SILENCE));
    arrived.take_while(|(ring, _)| *ring == RING_BULK).count()
}

#[test]
fn an_urgent_doorbell_wakes_the_worker_and_overdraws_the_clock() {
    let counters = urgent_packets(|bench| {
        bench.send(RING_A);
        Duration::ZERO
    });
    assert!(counters.nic.ahead_max.get() < 2_000_000, "{:?}", counters.nic.ahead_max);
    assert_eq!(counters.nic.wakeups_lost.get().packets.get(), 0);
}

#[test]
fn a_late_ring_keeps_its_urgency() {
    let counters = urgent_packets(|bench| {
        bench.ring(RING_A);
        let rung = Instant::now();
        wait(5);
        bench.put(RING_A);
        // More would be as long as the backlog, which shows nothing.
        rung.elapsed().min(Duration::from_millis(20))
    });
    assert!(counters.port.doorbell_ahead.get().packets.get() >= 1, "the doorbell was ahead");
    assert!(counters.nic.late_sleep_max.get() <= LATE_RETRY_MAX.get(), "{:?}", counters.nic.late_sleep_max);
}
