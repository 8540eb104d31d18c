//! The packet bound of a class holds exactly, at the port: further packets are refused there, and counted.

use crate::common::bench;
use crate::common::bench::{Bench, conserved, doorbells_only, standing};
use core::net::SocketAddr;
use nix::sys::socket::{setsockopt, sockopt};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_host::testing::{PATIENCE, until};
use weft_nic::doorbell::Shared;
use weft_nic::plan::RingPlan;
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_units::Nanos;

const POLICY: &str = "class bulk = port 6000\nbound 5 packets of bulk\nroot = fair of bulk";

/// The largest number of packets of `class` in the NIC until `stop`.
fn most_standing(doorbells: &Shared, plan: &RingPlan, class: usize, stop: &AtomicBool) -> u64 {
    let mut most = 0;
    while !stop.load(Ordering::Relaxed) {
        most = most.max(standing(doorbells, plan, class));
        std::thread::yield_now();
    }
    most
}

/// Sends packets on four sockets from processor `cpu` as fast as it can for `span`. Returns their number.
fn flood(bed: &Testbed, cpu: usize, span: Duration) -> u64 {
    let mut set = CpuSet::new();
    set.set(cpu);
    // On a machine with one processor both threads share it.
    let _ = sched_setaffinity(None, &set);
    let sockets: Vec<_> = (0..4).map(|_| bench::socket(&bed.sender, bench::unspecified(false))).collect();
    sockets.iter().for_each(|socket| setsockopt(socket, sockopt::SndBufForce, &(8 << 20)).expect("buffer"));
    let until = Instant::now() + span;
    let mut sent = 0;
    while Instant::now() < until {
        for socket in &sockets {
            socket.send_to(&[1; 1200], (RECEIVER, 6000)).expect("send");
            sent += 1;
        }
    }
    sent
}

#[test]
fn a_flood_from_two_cores_has_no_more_than_its_bound_in_the_nic() {
    if !weft_host::testing::privileged("a_flood_from_two_cores_has_no_more_than_its_bound_in_the_nic") {
        return;
    }
    let bench = Bench::roomy("bnd", POLICY, 10);
    let sink = bench.receiver(false, 6000);
    let class = bench.class("bulk");
    let (doorbells, plan, stop) =
        (bench.nic.ports()[0].doorbells(), bench.nic.ring_plan(), AtomicBool::new(false));
    let (sent, most) = std::thread::scope(|scope| {
        let watch = scope.spawn(|| most_standing(doorbells, plan, class, &stop));
        let floods: Vec<_> = (0..2)
            .map(|cpu| {
                let bed = &bench.bed;
                scope.spawn(move || flood(bed, cpu, Duration::from_millis(600)))
            })
            .collect();
        let sent: u64 = floods.into_iter().map(|f| f.join().expect("flood")).sum();
        stop.store(true, Ordering::Relaxed);
        (sent, watch.join().expect("watch"))
    });
    assert_eq!(most, 5, "the bound is reached and holds, with {sent} packets sent");
    let settled = bench.settle(PATIENCE);
    let received = bench::arrivals(&sink, settled.classes[class].sent.packets.get() as usize).len() as u64;
    let totals = bench.nic.stop(Nanos::from_secs(2)).expect("stop");
    conserved(&totals);
    let bulk = &totals.classes[class];
    assert_eq!((totals.lost, totals.events.strays.get()), (0, 0));
    assert_eq!(bulk.posted.packets.get() + bulk.bound.packets.get(), sent, "let in or refused: {totals:#?}");
    assert_eq!(bulk.bound.bytes.get(), bulk.bound.packets.get() * (1200 + 42));
    assert_eq!((bulk.posted, bulk.fetched.packets.get()), (bulk.fetched, received));
    assert!(received > 100, "places come back: {received}");
}

#[test]
fn tcp_is_held_back_by_a_bound_and_loses_nothing() {
    if !weft_host::testing::privileged("tcp_is_held_back_by_a_bound_and_loses_nothing") {
        return;
    }
    let bench = Bench::roomy("bnt", POLICY, 50);
    let class = bench.class("bulk");
    let address = SocketAddr::new(RECEIVER, 6000);
    let listener = bench.bed.receiver.run(|| TcpListener::bind(address)).expect("ns").expect("listener");
    let (doorbells, plan, stop) =
        (bench.nic.ports()[0].doorbells(), bench.nic.ring_plan(), AtomicBool::new(false));
    const BYTES: usize = 300_000;
    let most = std::thread::scope(|scope| {
        let watch = scope.spawn(|| most_standing(doorbells, plan, class, &stop));
        let transfers: Vec<_> = (0..8)
            .map(|_| {
                let connect = || TcpStream::connect(address);
                let mut near = bench.bed.sender.run(connect).expect("ns").expect("connected");
                let (mut far, _) = listener.accept().expect("accepted");
                scope.spawn(move || near.write_all(&vec![7; BYTES]).expect("written"));
                scope.spawn(move || {
                    far.set_read_timeout(Some(PATIENCE)).expect("timeout");
                    let mut data = Vec::new();
                    far.read_to_end(&mut data).expect("read");
                    assert_eq!(data.len(), BYTES);
                })
            })
            .collect();
        transfers.into_iter().for_each(|t| t.join().expect("transfer"));
        stop.store(true, Ordering::Relaxed);
        watch.join().expect("watch")
    });
    assert_eq!(most, 5, "the bound is reached and holds");
    let totals = bench.nic.stop(Nanos::from_secs(2)).expect("stop");
    conserved(&totals);
    let bulk = &totals.classes[class];
    assert!(bulk.bound.packets.get() > 0, "{totals:#?}");
    assert_eq!((bulk.posted, totals.lost, totals.events.strays.get()), (bulk.fetched, 0, 0));
}

/// Two cores and a NIC that takes packets one by one: a returned place is given to one packet only.
#[test]
fn no_place_is_given_twice_and_none_is_lost() {
    if !weft_host::testing::privileged("no_place_is_given_twice_and_none_is_lost") {
        return;
    }
    let (ns, doorbells) = doorbells_only("bnx", POLICY, 1000);
    let (shared, stop) = (doorbells.shared(), AtomicBool::new(false));
    let posted = || shared.rings.iter().map(|r| r.packets.load(Ordering::SeqCst)).sum::<u64>();
    let (class, stop) = (&shared.classes[0], &stop);
    let sockets: Vec<_> = (0..2).map(|_| bench::socket(&ns, bench::unspecified(false))).collect();
    let sent: u64 = std::thread::scope(|scope| {
        let send = |(cpu, socket): (usize, std::net::UdpSocket)| {
            scope.spawn(move || {
                let mut set = CpuSet::new();
                set.set(cpu);
                let _ = sched_setaffinity(None, &set);
                let mut sent = 0;
                while !stop.load(Ordering::Relaxed) {
                    sent += u64::from(socket.send_to(&[0; 50], ("10.77.0.2", 6000)).is_ok());
                }
                sent
            })
        };
        let senders: Vec<_> = sockets.into_iter().enumerate().map(send).collect();
        let end = Instant::now() + PATIENCE;
        for taken in 1..=5000 {
            // Without the pauses of `until`, which would let the places fill up between two.
            while posted() < taken && Instant::now() < end {
                std::thread::yield_now();
            }
            assert!(posted() <= taken - 1 + 5, "{} posted, {taken} taken", posted());
            class.done.store(taken, Ordering::SeqCst);
        }
        // The NIC takes no more packets: the places fill up.
        let _ = until(PATIENCE, || posted() >= 5005);
        // What is let in too much comes now.
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        senders.into_iter().map(|s| s.join().expect("sender")).sum()
    });
    assert_eq!(posted(), 5005);
    assert_eq!(class.packets.load(Ordering::SeqCst), 5005);
    assert_eq!(class.bound[0].load(Ordering::SeqCst), sent - 5005);
    assert_eq!(class.bytes.load(Ordering::SeqCst), 5005 * 92);
    assert_eq!(class.bound[1].load(Ordering::SeqCst), (sent - 5005) * 92);
}

/// A super-packet counts as the number of its packets in the ring, and is admitted whole or refused whole.
#[test]
fn a_udp_super_packet_takes_a_place_for_each_segment() {
    if !weft_host::testing::privileged("a_udp_super_packet_takes_a_place_for_each_segment") {
        return;
    }
    let (ns, doorbells) = doorbells_only("bng", POLICY, 1000);
    let class = &doorbells.shared().classes[0];
    let counts = || [&class.packets, &class.bound[0]].map(|count| count.load(Ordering::SeqCst));
    let socket = bench::socket(&ns, bench::unspecified(false));
    setsockopt(&socket, sockopt::UdpGsoSegment, &1000).expect("UDP_SEGMENT");
    let send = |bytes: usize| _ = socket.send_to(&vec![0; bytes], ("10.77.0.2", 6000)).expect("send");
    send(6000);
    assert_eq!(counts(), [0, 6]);
    send(3000);
    assert_eq!(counts(), [3, 6]);
    send(3000);
    assert_eq!(counts(), [3, 9], "two places are left");
    send(2000);
    assert_eq!(counts(), [5, 9]);
    send(100);
    assert_eq!(counts(), [5, 10]);
    class.done.store(1, Ordering::SeqCst);
    send(100);
    assert_eq!(counts(), [6, 10]);
}
