//! Two workers of a NIC share one policy, with real packets: each has a port, and what the policy says holds over both.
//!
//! Shares are judged over spans in which every class of the test had packets all the time, at each of its ports: more of them stood at
//! one reading than were sent until the next. So nothing depends on the speed of the machine.

use crate::common::bench::{config, conserved, policy, socket, unspecified};
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, Ordering};
use nix::sys::socket::{setsockopt, sockopt};
use std::net::UdpSocket;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weft_host::testing::{PATIENCE, privileged, until};
use weft_host::{Mac, NetNs, link};
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_nic::nic::{NicConfig, NicPlan, PortParts, SoftwareNic, Totals, WorkersError};
use weft_nic::plan::Mode;
use weft_nic::port::{Port, PortConfig, Uplink};
use weft_nic::testbed::{RECEIVER, Testbed, WIRE};
use weft_policy::CompiledPolicy;
use weft_sched::workers::Settings;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The payload of a datagram, and the bytes of its frame on the wire.
const PAYLOAD: usize = 1400;
const FRAME: u64 = 1400 + 28 + 14 + 24;
/// The first UDP port; class n of a policy has the n-th.
const FIRST: u16 = 7000;
const LINK: u64 = 100;
/// The pause between two readings.
const PAUSE: Duration = Duration::from_millis(4);
/// The packets of a span that is judged: one packet of error is far below the tolerance.
const SPAN: u64 = 600;
/// The number of spans that are judged together.
const SPANS: usize = 24;

const SHARES: &str = "class a = udp and port 7000\nclass b = udp and port 7001\n\
                      root = wfq { fair of a: 1, fair of b: 2 }\n";

/// A NIC with two ports in separate namespaces. Each port has a worker.
struct Rig {
    nic: SoftwareNic,
    bed: Testbed,
    second: NetNs,
    /// No socket reads them, so that the stack answers nothing.
    _sinks: Vec<UdpSocket>,
}

fn two_workers(policy: &CompiledPolicy, config: NicConfig) -> NicPlan {
    let plan = NicPlan::new(policy, config).expect("plan");
    plan.with_workers(NonZeroUsize::new(2).expect("two")).expect("two workers")
}

impl Rig {
    fn start(role: &str, text: &str) -> Self {
        let bed = Testbed::create(role).expect("testbed");
        let second = NetNs::create(&weft_host::testing::unique(&format!("{role}two"))).expect("namespace");
        let _ = weft_host::sysctl::set(&second, "net.ipv6.conf.default.disable_ipv6", "1");
        let plan = two_workers(&policy(text), config(LINK));
        let (rings, of_port) = (plan.ring_count(), plan.rings().clone());
        let uplink = Uplink::tap(&bed.receiver, WIRE).expect("uplink");
        let mut nic = SoftwareNic::start_without_port(plan, uplink).expect("nic");
        let port = bed.port(rings, 8000, true).expect("port");
        nic.add_port(PortParts { port, plan: of_port, receive: None }).expect("first");
        let mut rig = Self { nic, bed, second, _sinks: Vec::new() };
        rig.add_second();
        rig.bed.connect().expect("connect");
        rig.bed.wait_running().expect("running");
        rig.connect_second();
        let sink = |number| socket(&rig.bed.receiver, (RECEIVER, FIRST + number).into());
        rig._sinks = (0..4).map(sink).collect();
        rig
    }

    fn add_second(&mut self) {
        let plan = self.nic.plan().rings().clone();
        let (rings, mac) = (plan.rings.len() as u32, Mac::local(7));
        let (app, nic, name) = (&self.second, &self.bed.nic, "port1");
        let config = PortConfig { app, nic, name, mac, rings, ring_packets: 8000, single_backlog: true };
        let port = Port::create(&config).expect("second port");
        // It receives nothing.
        let receive = Some(Uplink::tap(&self.bed.nic, "rx1").expect("a device to receive"));
        self.nic.add_port(PortParts { port, plan, receive }).expect("second");
    }

    fn connect_second(&self) {
        link::wait_running(&self.second, "port1", PATIENCE).expect("running");
        link::add_address(&self.second, "port1", "10.99.0.3".parse().expect("address"), 16).expect("address");
        let wire = link::get_mac(&self.bed.receiver, WIRE).expect("wire").expect("mac");
        link::add_neighbor(&self.second, "port1", RECEIVER, wire).expect("neighbour");
    }

    /// Sends packets of class number `class` through port `port` as fast as they are taken.
    fn send(&self, port: usize, class: u16) -> Sender {
        let app = if port == 0 { &self.bed.sender } else { &self.second };
        let socket = socket(app, unspecified(false));
        setsockopt(&socket, sockopt::SndBufForce, &(4 << 20)).expect("buffer");
        socket.set_write_timeout(Some(Duration::from_millis(50))).expect("timeout");
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                // A full buffer ends in a timeout.
                let _ = socket.send_to(&[5; PAYLOAD], (RECEIVER, FIRST + class));
            }
        });
        Sender { stop, thread }
    }

    fn read(&self, classes: usize) -> Reading {
        let before = Instant::now();
        let mut of = vec![[Stand::default(); 2]; classes];
        for (at, port) in self.nic.ports().iter().enumerate() {
            let plan = port.ring_plan();
            // Posted counts before done counts: what is left is never too much.
            let mut sum = |pick: fn(&mut Stand) -> &mut u64,
                           of_bell: fn(&weft_nic::doorbell::RingBell) -> u64| {
                for (ring, bell) in plan.rings.iter().zip(&port.doorbells().rings) {
                    let Some(class) = ring.class.filter(|class| class.index() < classes) else { continue };
                    *pick(&mut of[class.index()][at]) += of_bell(bell);
                }
            };
            sum(|stand| &mut stand.posted, |bell| bell.packets.load(Ordering::SeqCst));
            sum(|stand| &mut stand.done, |bell| bell.done.load(Ordering::SeqCst));
        }
        Reading { before, after: Instant::now(), of }
    }

    /// Stops the NIC and checks that it lost nothing, over all ports together.
    fn finish(self) -> Totals {
        let totals = self.nic.stop(Nanos::from_secs(1)).expect("stop");
        conserved(&totals);
        let wire = totals.sum(|class| class.wire);
        assert!(totals.uplink_writes.packets == wire.packets, "a frame is a write: {totals:#?}");
        totals
    }
}

/// A thread that sends.
struct Sender {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Sender {
    fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("sender");
    }
}

/// The packets of a class at a port.
#[derive(Clone, Copy, Debug, Default)]
struct Stand {
    posted: u64,
    done: u64,
}

/// The packets by class and port, between two times.
#[derive(Clone, Debug)]
struct Reading {
    before: Instant,
    after: Instant,
    of: Vec<[Stand; 2]>,
}

impl Reading {
    fn done(&self, class: usize) -> u64 {
        self.of[class].iter().map(|stand| stand.done).sum()
    }

    /// Whether `class` had packets at `port` from this reading to the next.
    fn waits_until(&self, next: &Self, (class, port): (usize, usize)) -> bool {
        let (stand, sent) = (self.of[class][port], next.of[class][port].done - self.of[class][port].done);
        stand.posted.saturating_sub(stand.done) > sent
    }
}

/// Reads until `count` spans were found in which each of `backlogged`, a class and a port, had packets all the time.
/// Returns the packets of each class in each.
fn spans(rig: &Rig, classes: usize, backlogged: &[(usize, usize)], count: usize) -> Vec<Vec<u64>> {
    let mut found = Vec::new();
    let mut first = rig.read(classes);
    let mut last = first.clone();
    let enough = until(PATIENCE, || {
        let now = rig.read(classes);
        if !backlogged.iter().all(|of| last.waits_until(&now, *of)) {
            first = now.clone();
        }
        let sent: Vec<u64> = (0..classes).map(|class| now.done(class) - first.done(class)).collect();
        if sent.iter().sum::<u64>() >= SPAN {
            found.push(sent);
            first = now.clone();
        }
        last = now;
        found.len() >= count
    });
    assert!(enough, "{} of {count} spans in {PATIENCE:?}: {last:?}", found.len());
    found
}

/// Asserts that the packets of a class keep its limit between any two readings that are at least 100 ms apart.
fn keeps_limit(readings: &[Reading], class: usize, rate: BitsPerSec) {
    keeps(readings, rate, |reading| reading.done(class));
}

/// Asserts that those of both classes keep the link's rate.
fn keeps_rate(readings: &[Reading], rate: BitsPerSec) {
    keeps(readings, rate, |reading| reading.done(0) + reading.done(1));
}

fn keeps(readings: &[Reading], rate: BitsPerSec, done: impl Fn(&Reading) -> u64) {
    let settings = Settings { segment: Bytes(2 * FRAME), ..Settings::default() };
    let excess = settings.excess(rate, Bytes::ZERO).get();
    let mut end = 0;
    for (at, first) in readings.iter().enumerate() {
        while end < readings.len() && readings[end].before < first.after + Duration::from_millis(100) {
            end += 1;
        }
        let Some(last) = readings.get(end) else { break };
        let bytes = (done(last) - done(first)) * FRAME;
        let span = Nanos((last.after - first.before).as_nanos() as u64);
        let allowed = rate.bytes_in(span).get() + excess;
        assert!(bytes <= allowed, "window {at}: {bytes} bytes in {span:?}, {allowed} are allowed");
    }
}

fn readings(rig: &Rig, classes: usize, count: usize) -> Vec<Reading> {
    let read = |_| {
        std::thread::sleep(PAUSE);
        rig.read(classes)
    };
    (0..count).map(read).collect()
}

/// Asserts that a quarter of the spans have this part for the first of two classes, to a tenth of it. In the others a worker may not
/// have run for a while, as on a busy machine: what its classes could not send then is the others'.
fn assert_near(spans: &[Vec<u64>], expected: f64) {
    let part = |sent: &Vec<u64>| sent[0] as f64 / (sent[0] + sent[1]) as f64;
    let parts: Vec<f64> = spans.iter().map(part).collect();
    let near = parts.iter().filter(|part| (*part / expected - 1.0).abs() < 0.1).count();
    assert!(near * 4 >= parts.len(), "{parts:.3?} of all packets, {expected:.3} are due");
}

#[test]
fn shares_hold_over_both_workers_where_one_alone_would_miss_them() {
    if !privileged("shares_hold_over_both_workers_where_one_alone_would_miss_them") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let rig = Rig::start("wks", SHARES);
    let workers: Vec<usize> = rig.nic.ports().iter().map(|port| port.worker()).collect();
    assert_eq!(workers, [0, 1], "each port has a worker");
    // By itself the first worker would give `a` a third of its own part: a sixth of all.
    let senders = [rig.send(0, 0), rig.send(0, 1), rig.send(1, 1)];
    assert_near(&spans(&rig, 2, &[(0, 0), (1, 0), (1, 1)], SPANS), 1.0 / 3.0);
    senders.into_iter().for_each(Sender::stop);
    rig.finish();
}

#[test]
fn classes_of_different_workers_share_the_link_until_one_of_them_ends() {
    if !privileged("classes_of_different_workers_share_the_link_until_one_of_them_ends") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let mut rig = Rig::start("wkd", SHARES);
    // Each worker has one class, so both would have half.
    let [a, b] = [rig.send(0, 0), rig.send(1, 1)];
    assert_near(&spans(&rig, 2, &[(0, 0), (1, 1)], SPANS), 1.0 / 3.0);
    b.stop();
    let id = rig.nic.ports()[1].id();
    let gone = rig.nic.remove_port(id, Nanos::from_secs(2)).expect("removed");
    assert!(gone.classes[1].sent.packets.get() > 0, "{gone:#?}");
    assert_eq!(rig.nic.ports().len(), 1);
    // The first has the link alone.
    let alone = spans(&rig, 2, &[(0, 0)], 4);
    assert!(alone.iter().all(|sent| sent[1] == 0), "{alone:?}");
    // A port that comes again has the worker that has none.
    rig.add_second();
    assert_eq!(rig.nic.ports()[1].worker(), 1);
    a.stop();
    rig.finish();
}

#[test]
fn a_change_of_the_policy_under_load_reaches_both_workers() {
    if !privileged("a_change_of_the_policy_under_load_reaches_both_workers") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let mut rig = Rig::start("wkc", SHARES);
    let senders = [rig.send(0, 0), rig.send(0, 1), rig.send(1, 1)];
    let backlogged = [(0, 0), (1, 0), (1, 1)];
    spans(&rig, 2, &backlogged, 2);
    // The first worker would give `a` a fourth of its own part.
    let text = SHARES.replace("b: 2", "b: 3");
    let settings = rig.nic.plan().config().clone();
    let mut changes = 0;
    for text in [text.as_str(), SHARES, text.as_str()] {
        let prepared =
            rig.nic.prepare_policy(&policy(text), (settings.rate, settings.link)).expect("prepared");
        rig.nic.change_policy(prepared, &[]).expect("changed");
        changes += 1;
        assert_eq!(rig.nic.totals().expect("totals").changes, changes, "a change counts once");
    }
    assert_near(&spans(&rig, 2, &backlogged, SPANS), 0.25);
    // What workers cannot share is refused, and changes nothing.
    let observed = LinkKind::Device(DeviceLink { rate: LinkRate::Observed, piece: None });
    assert!(rig.nic.prepare_policy(&policy(SHARES), (settings.rate, observed)).is_err());
    senders.into_iter().for_each(Sender::stop);
    let totals = rig.finish();
    assert_eq!(totals.changes, changes);
}

#[test]
fn the_link_and_a_limit_are_one_for_both_workers_also_while_the_class_moves() {
    if !privileged("the_link_and_a_limit_are_one_for_both_workers_also_while_the_class_moves") {
        return;
    }
    let text = "class a = udp and port 7000\nclass b = udp and port 7001\n\
                of_b = fair of b\nslow = limit 20mbps burst 0 of of_b\nroot = wfq { fair of a: 1, slow: 1 }\n";
    let _alone = weft_host::testing::alone();
    let rig = Rig::start("wkl", text);
    let senders = [rig.send(0, 0), rig.send(1, 0)];
    let mut all = Vec::new();
    for port in [0, 1, 0, 1] {
        let sender = rig.send(port, 1);
        all.extend(readings(&rig, 2, 40));
        sender.stop();
        all.extend(readings(&rig, 2, 4));
    }
    senders.into_iter().for_each(Sender::stop);
    keeps_limit(&all, 1, BitsPerSec(20_000_000));
    keeps_rate(&all, BitsPerSec(LINK * 1_000_000));
    rig.finish();
}

#[test]
fn what_several_workers_cannot_share_is_refused_with_the_reason() {
    let with = |text: &str, config: NicConfig, workers: usize| {
        let plan = NicPlan::new(&policy(text), config).expect("plan");
        plan.with_workers(NonZeroUsize::new(workers).expect("some")).map(|plan| plan.workers().get())
    };
    assert_eq!(with(SHARES, config(100), 2), Ok(2));
    assert_eq!(with(SHARES, config(100), 65), Err(WorkersError::TooMany { given: 65 }));
    let mode = NicConfig { mode: Mode::RingPerFlow, ..config(100) };
    assert_eq!(with(SHARES, mode.clone(), 2), Err(WorkersError::NoPolicy { mode: "qpf" }));
    assert_eq!(with(SHARES, mode, 1), Ok(1));
    let observed = LinkKind::Device(DeviceLink { rate: LinkRate::Observed, piece: None });
    assert_eq!(with(SHARES, NicConfig { link: observed, ..config(100) }, 2), Err(WorkersError::NoRate));
    let logged = NicConfig { departures: Some(1000), ..config(100) };
    assert_eq!(with(SHARES, logged, 2), Err(WorkersError::Departures));
}
