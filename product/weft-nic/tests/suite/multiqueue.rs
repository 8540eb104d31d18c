//! The NIC as a plain multiqueue NIC, between real TCP/IP stacks.

use crate::common::bench;
use crate::common::bench::conserved;
use crate::common::streams::{Acceptor, Idle, Streams};
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;
use weft_host::clock;
use weft_host::testing::wait_for;
use weft_nic::departures::{Departure, DepartureLog};
use weft_nic::multiqueue::{Multiqueue, start};
use weft_nic::nic::{SoftwareNic, Totals};
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_sched::queues::{Inner, Service};
use weft_titan::page::{Load, held_slot};
use weft_units::{BitsPerSec, Bytes, Instant, LoggedFlowId, Nanos, TxQueueId};

/// Stops the NIC and checks its accounting and that of the log.
fn finish(nic: SoftwareNic) -> (Totals, DepartureLog) {
    let (totals, log) = nic.stop_with_log(Nanos::from_secs(1)).expect("stop");
    conserved(&totals);
    let wire = totals.sum(|c| c.wire);
    assert_eq!(log.wire(), wire.bytes, "the log has every byte");
    let segments: u64 = log.departures.iter().map(|d| u64::from(d.segments)).sum();
    assert_eq!(segments, wire.packets.get());
    let ordered = |pair: &[Departure]| pair[0].end <= pair[1].start && pair[0].start < pair[0].end;
    assert!(log.departures.windows(2).all(ordered), "one after the other");
    (totals, log)
}

/// The bytes of the first three queues that left between two times.
fn by_queue(log: &DepartureLog, from: Instant, to: Instant) -> [u64; 3] {
    let mut bytes = [0; 3];
    for d in log.departures.iter().filter(|d| d.start >= from && d.end < to) {
        bytes[d.queue.index()] += d.wire().get();
    }
    bytes
}

/// The queue of a flow, which it never leaves.
fn queue_of(log: &DepartureLog, flow: LoggedFlowId) -> TxQueueId {
    let mut queues = log.departures.iter().filter(|d| d.flow == flow).map(|d| d.queue);
    let first = queues.next().expect("it has sent");
    assert!(queues.all(|queue| queue == first), "{flow} stays in its queue");
    first
}

#[test]
fn tcp_flows_keep_the_accounting_and_their_queues() {
    if !weft_host::testing::privileged("tcp_flows_keep_the_accounting_and_their_queues") {
        return;
    }
    let _alone = weft_host::testing::alone();
    for (role, inner, service) in [
        ("mqf", Inner::Fifo, Service::RoundRobin),
        ("mqs", Inner::Fair, Service::Deficit { credit: Bytes(3072) }),
    ] {
        let bed = Testbed::create(role).expect("testbed");
        let wanted = Multiqueue {
            inner,
            service,
            departures: Some(10_000),
            ..Multiqueue::new(BitsPerSec(500_000_000))
        };
        let nic = start(&bed, &wanted).expect("nic");
        let mut streams = Streams::open(&bed, 12);
        // TCP sends super-packets by then.
        wait_for("all flows arrive", || streams.received().iter().all(|bytes| *bytes > 500_000));
        let received = streams.close();
        assert!(received.iter().all(|bytes| *bytes > 0), "{received:?}");
        let page = nic.queue_page();
        // A packet that arrives after its doorbell is held until its turn, the last one too.
        let held = || page.held.iter().map(|h| h.load(Ordering::SeqCst)).sum::<u32>();
        wait_for("no packet is held at the end", || held() == 0);
        let (totals, log) = finish(nic);
        assert_eq!((totals.events.strays.get(), totals.staleness.count), (0, 0));
        for (key, received) in streams.keys().iter().zip(&received) {
            let flow = log.flow(key).expect("logged");
            queue_of(&log, flow);
            let sent: u64 = log.departures.iter().filter(|d| d.flow == flow).map(|d| d.wire().get()).sum();
            assert!(sent > *received, "headers and all: {sent} for {received}");
        }
        let most = log.departures.iter().map(|d| d.segments).max().expect("departures");
        assert!(most > 10, "super-packets go whole: at most {most} segments");
    }
}

/// Connects until there are `each` flows in each of `count` hardware queues of one ring. Returns them with their
/// queues.
fn in_queues(bed: &Testbed, nic: &SoftwareNic, count: usize, each: usize) -> Vec<(Idle, TxQueueId)> {
    let acceptor = Acceptor::open(bed);
    let posted = || -> Vec<u64> {
        nic.ports()[0].doorbells().rings.iter().map(|r| r.packets.load(Ordering::SeqCst)).collect()
    };
    let (mut found, mut others) = (BTreeMap::<TxQueueId, Vec<Idle>>::new(), Vec::new());
    for _ in 0..1000 {
        let before = posted();
        let idle = acceptor.connect();
        let queue = posted().iter().zip(before).position(|(now, before)| *now > before).expect("posted");
        let queue = TxQueueId::from_index(queue);
        let room = if found.contains_key(&queue) || found.len() < count { each } else { 0 };
        if found.get(&queue).map_or(0, Vec::len) < room {
            found.entry(queue).or_default().push(idle);
        } else {
            // Kept open until the end: packets from closing it could be mistaken for the next connection's.
            others.push(idle);
        }
        if found.len() == count && found.values().all(|flows| flows.len() == each) {
            return found.into_iter().flat_map(|(q, flows)| flows.into_iter().map(move |f| (f, q))).collect();
        }
    }
    panic!("1000 flows, and only in {} queues", found.len());
}

/// Changes a queue's weight as a program that assigns queues does.
fn set_weight(nic: &SoftwareNic, queue: TxQueueId, weight: u64) {
    let (page, now) = (nic.queue_page(), clock::now().as_nanos());
    page.loads[queue.index()].set(Load { weight, flows: 1 });
    let _ = page.changed_ns[queue.index()].compare_exchange(0, now, Ordering::SeqCst, Ordering::SeqCst);
}

#[test]
fn weights_of_the_page_are_shares_of_the_link() {
    if !weft_host::testing::privileged("weights_of_the_page_are_shares_of_the_link") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let bed = Testbed::create("mqw").expect("testbed");
    let rate = BitsPerSec(150_000_000);
    let wanted = Multiqueue { queues: 3, departures: Some(50_000), ..Multiqueue::new(rate) };
    let nic = start(&bed, &wanted).expect("nic");
    // Three flows in a queue, so that it stays backlogged when one of them does not run.
    let (idle, places): (Vec<Idle>, Vec<TxQueueId>) = in_queues(&bed, &nic, 3, 3).into_iter().unzip();
    let queues = [TxQueueId(0), TxQueueId(1), TxQueueId(2)];
    nic.queue_page().update_interval_ns.store(2_000_000, Ordering::SeqCst);
    nic.queue_page().use_weights.store(1, Ordering::SeqCst);
    let mut streams = Streams::start(idle);
    std::thread::sleep(Duration::from_millis(300));
    let mut spans = Vec::new();
    for weights in [[1, 2, 4], [4, 1, 1]] {
        for (queue, weight) in queues.iter().zip(weights) {
            set_weight(&nic, *queue, weight);
        }
        std::thread::sleep(Duration::from_millis(100));
        for queue in &queues {
            let changed = &nic.queue_page().changed_ns[queue.index()];
            wait_for("taken and acknowledged", || changed.load(Ordering::SeqCst) == 0);
        }
        let from = clock::now();
        std::thread::sleep(Duration::from_millis(1200));
        spans.push((weights, from, clock::now()));
    }
    let keys = streams.keys().to_vec();
    streams.close();
    let (totals, log) = finish(nic);
    for (weights, from, to) in spans {
        let sent = by_queue(&log, from, to).map(|bytes| bytes as f64);
        let (all, sum) = (sent.iter().sum::<f64>(), weights.iter().sum::<u64>() as f64);
        assert!(all > 0.9 * 150e6 / 8.0 * 1.2, "the link is full: {all}");
        for (sent, weight) in sent.iter().zip(weights) {
            let share = sent / all * sum / weight as f64;
            assert!((share - 1.0).abs() < 0.05, "{share} of the share of weight {weight}");
        }
    }
    for (key, queue) in keys.iter().zip(&places) {
        assert_eq!(queue_of(&log, log.flow(key).expect("logged")), *queue);
    }
    // A weight of 1 is a change too, and all second weights differ from the first.
    assert_eq!(totals.staleness.count, 6);
    let (mean, max) = (totals.staleness.mean(), totals.staleness.max);
    assert!(mean > Nanos::ZERO && mean <= max && max < Nanos::from_millis(100), "{:?}", totals.staleness);
}

#[test]
fn queues_with_several_flows_send_pieces_when_asked_to() {
    if !weft_host::testing::privileged("queues_with_several_flows_send_pieces_when_asked_to") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let bed = Testbed::create("mqp").expect("testbed");
    let wanted = Multiqueue { departures: Some(50_000), ..Multiqueue::new(BitsPerSec(200_000_000)) };
    let nic = start(&bed, &wanted).expect("nic");
    let (idle, queues): (Vec<Idle>, Vec<TxQueueId>) = in_queues(&bed, &nic, 2, 1).into_iter().unzip();
    let page = nic.queue_page();
    page.segment_bytes.store(16_000, Ordering::SeqCst);
    page.loads[queues[0].index()].set(Load { weight: 2, flows: 2 });
    page.loads[queues[1].index()].set(Load { weight: 1, flows: 1 });
    let mut streams = Streams::start(idle);
    let keys = streams.keys().to_vec();
    let (cut, whole) = (held_slot(&keys[0]), held_slot(&keys[1]));
    assert_ne!(cut, whole, "two flows in one slot: a chance of one in a thousand");
    let (mut seen, mut seen_whole, until) = (0, 0, clock::now() + Nanos::from_millis(500));
    while clock::now() < until {
        let held = page.held[cut].load(Ordering::SeqCst);
        assert!(held <= 1, "one packet of a ring at a time");
        seen += held;
        seen_whole += page.held[whole].load(Ordering::SeqCst);
        std::thread::sleep(Duration::from_micros(200));
    }
    assert!(seen > 20, "held while its pieces wait: {seen}");
    // A packet that arrived after its doorbell is held until its turn.
    assert!(seen_whole * 5 < seen, "the other sends whole packets: {seen_whole} against {seen}");
    page.segment_bytes.store(0, Ordering::SeqCst);
    // The link's clock may be 50 ms behind, and a packet in progress may follow.
    let (until, changed) = (until - Nanos::from_millis(60), clock::now() + Nanos::from_millis(20));
    std::thread::sleep(Duration::from_millis(200));
    streams.close();
    let idle_again = || page.held.iter().all(|h| h.load(Ordering::SeqCst) == 0);
    wait_for("nothing is held when all has been sent", || {
        idle_again() && page.fetching.load(Ordering::SeqCst) == 0
    });
    let (_, log) = finish(nic);
    let most = |key, late: bool| {
        let flow = log.flow(key).expect("logged");
        let of = log
            .departures
            .iter()
            .filter(|d| d.flow == flow && (d.start >= changed) == late && (late || d.start < until));
        of.map(|d| d.segments).max().expect("departures")
    };
    // 16,000 bytes hold eleven segments of 1448 bytes.
    assert_eq!(most(&keys[0], false), 11);
    assert!(most(&keys[1], false) > 11 && most(&keys[0], true) > 11, "whole where nobody asks otherwise");
}

/// Compiles the programs before and after the doorbell, with the compiler of the crate's build.
fn hash_programs(wanted: u32) -> weft_host::bpf::Object {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("hash.bpf.o");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/common/hash.bpf.c");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let include = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    let arguments =
        ["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-I", &include, "-c", source, "-o"];
    let status = std::process::Command::new(clang).args(arguments).arg(&out).status().expect("clang");
    assert!(status.success());
    let image = std::fs::read(out).expect("object");
    weft_host::bpf::Object::load(&image, &wanted.to_ne_bytes()).expect("load")
}

#[test]
fn the_hash_says_the_queue_and_keeps_its_upper_bits() {
    if !weft_host::testing::privileged("the_hash_says_the_queue_and_keeps_its_upper_bits") {
        return;
    }
    let _alone = weft_host::testing::alone();
    for (inner, queues, queue) in [(Inner::Fifo, 8, 5), (Inner::Fair, 8, 2), (Inner::Fair, 5, 4)] {
        let bed = Testbed::create("mqh").expect("testbed");
        let rate = BitsPerSec(200_000_000);
        let wanted = Multiqueue { queues, inner, departures: Some(1000), ..Multiqueue::new(rate) };
        let nic = start(&bed, &wanted).expect("nic");
        let rings = nic.ring_plan().rings.len() as u32;
        // The tag in the upper bits, and in the lower ones a number from 1024 to 1279 whose remainder is the queue.
        let tag = 0xabcd_e000;
        let hash = (1024..1280).map(|low| tag | low).find(|h| h % u32::from(queues) == queue).expect("one");
        let programs = hash_programs(hash);
        let near = nic.ports()[0].port().index().expect("near");
        let behind = nic.ports()[0].port().peer_index().expect("behind");
        // Of filters without a priority the last one runs first (tcf_auto_prio, net/sched/cls_api.c).
        bed.sender.run(|| programs.attach_egress("before", near)).expect("ns").expect("before");
        bed.nic.run(|| programs.attach_ingress("behind", behind)).expect("ns").expect("behind");
        let mut streams = Streams::open(&bed, 3);
        std::thread::sleep(Duration::from_millis(100));
        streams.close();
        let mut seen = Vec::new();
        programs.table("seen").expect("table").retain(0, 1024, |key, _| {
            seen.push(key.first_chunk().map(|b| u32::from_ne_bytes(*b)).expect("a hash"));
            true
        });
        let (_, log) = finish(nic);
        assert!(!seen.is_empty());
        let per_queue = rings / u32::from(queues);
        for hash in &seen {
            assert_eq!(hash & 0xffff_f000, tag, "{hash:#x} of {queues} queues");
            assert_eq!(hash % rings / per_queue, queue, "{hash:#x} of {queues} queues");
        }
        assert!(log.departures.iter().all(|d| d.queue == TxQueueId(queue)));
        // Three flows at a time have their own rings.
        assert_eq!(seen.len(), if inner == Inner::Fair { 3 } else { 1 }, "{seen:x?}");
    }
}

#[test]
fn a_new_flow_leaves_the_ring_of_one_that_pauses_alone() {
    if !weft_host::testing::privileged("a_new_flow_leaves_the_ring_of_one_that_pauses_alone") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let bed = Testbed::create("mqr").expect("testbed");
    let wanted = Multiqueue { queues: 2, inner: Inner::Fair, ..Multiqueue::new(BitsPerSec(1_000_000_000)) };
    let nic = start(&bed, &wanted).expect("nic");
    let to = SocketAddr::new(RECEIVER, 9000);
    let _sink = bench::socket(&bed.receiver, to);
    let rings = || nic.ports()[0].doorbells().rings.iter();
    let posted = || -> Vec<u64> { rings().map(|ring| ring.packets.load(Ordering::SeqCst)).collect() };
    // One datagram, which leaves at once; returns the ring that it took.
    let send = |flow: &UdpSocket| -> usize {
        let before = posted();
        flow.send_to(&[1; 100], to).expect("sent");
        let waiting = || rings().any(|r| r.packets.load(Ordering::SeqCst) > r.done.load(Ordering::SeqCst));
        wait_for("it leaves", || posted() != before && !waiting());
        posted().iter().zip(before).position(|(now, before)| *now > before).expect("posted")
    };
    let flow = || bench::socket(&bed.sender, bench::unspecified(false));
    // The first may wait for the receiver's hardware address.
    send(&flow());
    let pausing = flow();
    let own = send(&pausing);
    // Several times as many flows as a queue has rings: in round robin order its ring would be next.
    for number in 0..200 {
        assert_ne!(send(&flow()), own, "flow {number}");
        assert_eq!(send(&pausing), own, "a flow stays in its ring");
    }
    conserved(&nic.stop(Nanos::from_secs(1)).expect("stop"));
}
