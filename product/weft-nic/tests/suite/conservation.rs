//! Packets and bytes in = out + dropped with a reason + held, at every stage of a NIC between real TCP/IP stacks.

use crate::common::bench;
use crate::common::bench::{Bench, config, conserved, set_mark};
use crate::common::wire::{PEER, Wire};
use core::net::SocketAddr;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_host::link::{self, Mac, Route, VethOptions};
use weft_host::netns::NetNs;
use weft_host::sysctl;
use weft_host::tc::{Tbf, TcDevice, TcObject};
use weft_host::testing::{PATIENCE, until};
use weft_nic::port::Receive;
use weft_nic::testbed::RECEIVER;
use weft_units::{BitsPerSec, Bytes, Nanos, Packets};

const POLICY: &str = "class u = udp\nclass t = tcp\nroot = wfq { fair of u: 1, fair of t: 1 }";

/// Sends over TCP from `from` for `span`, on `flows` connections; returns the bytes that the receiver has read.
fn tcp_for(bench: &Bench, from: &NetNs, flows: usize, span: Duration) -> u64 {
    let address = SocketAddr::new(RECEIVER, 5000);
    let listener = bench.bed.receiver.run(|| TcpListener::bind(address)).expect("ns").expect("listener");
    let until = Instant::now() + span;
    let send = |mut stream: TcpStream| {
        stream.set_write_timeout(Some(Duration::from_millis(100))).expect("timeout");
        while Instant::now() < until {
            let _ = stream.write(&[7; 60_000]);
        }
    };
    let receive = |mut stream: TcpStream| {
        let (mut total, mut buffer) = (0, vec![0; 1 << 16]);
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
        while let Ok(n) = stream.read(&mut buffer)
            && n > 0
        {
            total += n as u64;
        }
        total
    };
    std::thread::scope(|scope| {
        let mut receivers = Vec::new();
        for _ in 0..flows {
            let stream = from.run(|| TcpStream::connect(address)).expect("ns").expect("connected");
            scope.spawn(move || send(stream));
            let (stream, _) = listener.accept().expect("accepted");
            receivers.push(scope.spawn(move || receive(stream)));
        }
        receivers.into_iter().map(|r| r.join().expect("receiver")).sum()
    })
}

#[test]
fn overload_of_small_rings_loses_nothing_unseen() {
    if !weft_host::testing::privileged("overload_of_small_rings_loses_nothing_unseen") {
        return;
    }
    // The kernel frees the slots of the larger one in batches.
    for ring_packets in [8, 100] {
        overload(ring_packets);
    }
}

fn overload(ring_packets: u32) {
    let mut small = config(20);
    small.rings = 5;
    let bench = Bench::start("ovl", POLICY, &small, ring_packets, |_| ());
    let sink = bench.receiver(false, 6000);
    let span = Duration::from_millis(800);
    let until = Instant::now() + span;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let socket = bench.sender(false);
            setsockopt(&socket, sockopt::SndBufForce, &(8 << 20)).expect("buffer");
            scope.spawn(move || {
                while Instant::now() < until {
                    let _ = socket.send_to(&[1; 1400], (RECEIVER, 6000));
                    std::thread::sleep(Duration::from_micros(100));
                }
            });
        }
        tcp_for(&bench, &bench.bed.sender, 3, span);
    });
    bench.wait_closed();
    let class = bench.class("u");
    let settled = bench.settle(Duration::from_secs(20));
    let received = bench::arrivals(&sink, settled.classes[class].wire.packets.get() as usize).len() as u64;
    let totals = bench.nic.stop(Nanos::from_secs(2)).expect("stop");
    conserved(&totals);
    assert!(totals.sum(|c| c.full).packets.get() > 100, "the rings were full: {totals:#?}");
    assert_eq!(
        (totals.drops, totals.lost),
        (Default::default(), 0),
        "nothing is dropped behind its doorbell"
    );
    assert_eq!(totals.classes[class].wire.packets.get(), received, "what was sent has arrived");
    assert_eq!(totals.events.strays.get(), 0);
}

#[test]
fn a_stop_in_the_middle_of_traffic_loses_nothing_on_the_way() {
    if !weft_host::testing::privileged("a_stop_in_the_middle_of_traffic_loses_nothing_on_the_way") {
        return;
    }
    // Each stop meets a packet between its doorbell and the device with some chance only. The receive backlog of
    // one core has room for what the rings of three flows hold, and for the uplink's packets beside it.
    for _ in 0..10 {
        let Bench { nic, bed, .. } = Bench::start("stp", POLICY, &config(2000), 60, |_| ());
        let ended = AtomicBool::new(false);
        let totals = std::thread::scope(|scope| {
            for _ in 0..3 {
                let socket = bench::socket(&bed.sender, bench::unspecified(false));
                let ended = &ended;
                scope.spawn(move || {
                    while !ended.load(Ordering::Relaxed) {
                        let _ = socket.send_to(&[1; 100], (RECEIVER, 6000));
                    }
                });
            }
            let posted = || nic.totals().expect("totals").sum(|c| c.posted).packets.get();
            weft_host::testing::wait_for("packets", || posted() >= 1000);
            let totals = nic.stop(Nanos::from_secs(2)).expect("stop");
            ended.store(true, Ordering::Relaxed);
            totals
        });
        assert_eq!(
            (totals.drops, totals.lost, totals.events.strays.get()),
            (Default::default(), 0, 0),
            "{totals:#?}"
        );
        let arrived = totals.arrivals.count;
        assert_eq!(totals.sum(|c| c.posted), arrived, "what was announced reached the far end: {totals:#?}");
        assert_eq!(arrived, totals.sum(|c| c.sent) + totals.sum(|c| c.held), "{totals:#?}");
    }
}

#[test]
fn without_overload_every_byte_is_accounted_for() {
    if !weft_host::testing::privileged("without_overload_every_byte_is_accounted_for") {
        return;
    }
    let bench = Bench::roomy("cns", POLICY, 100);
    let span = Duration::from_millis(500);
    let until = Instant::now() + span;
    let sink = bench.receiver(false, 6000);
    let sent = std::thread::scope(|scope| {
        let socket = bench.sender(false);
        let flood = scope.spawn(move || {
            let mut sent = 0;
            while Instant::now() < until {
                sent += u64::from(socket.send_to(&[1; 900], (RECEIVER, 6000)).is_ok());
            }
            sent
        });
        let bytes = tcp_for(&bench, &bench.bed.sender, 2, span);
        assert!(bytes > 1_000_000, "{bytes}");
        flood.join().expect("sender")
    });
    bench.wait_closed();
    let class = bench.class("u");
    let settled = bench.settle(Duration::from_secs(20));
    let received = bench::arrivals(&sink, settled.classes[class].wire.packets.get() as usize).len() as u64;
    let totals = bench.nic.stop(Nanos::from_secs(2)).expect("stop");
    conserved(&totals);
    assert_eq!((totals.drops, totals.lost, totals.events.strays.get()), (Default::default(), 0, 0));
    for class in &totals.classes {
        assert_eq!(class.posted, class.fetched, "packets and bytes: {totals:#?}");
    }
    let udp = &totals.classes[class];
    assert_eq!((udp.posted.packets.get(), received), (sent, sent));
    assert_eq!(udp.posted.bytes.get(), sent * (900 + 42));
    assert_eq!(udp.wire.bytes.get(), sent * (900 + 42 + 24), "preamble, checksum and gap on the wire");
}

#[test]
fn udp_segmentation_offload_counts_segment_by_segment() {
    if !weft_host::testing::privileged("udp_segmentation_offload_counts_segment_by_segment") {
        return;
    }
    let bench = Bench::roomy("gso", POLICY, 500);
    bench.add_ipv6();
    let mut expected = (0, 0);
    for ipv6 in [false, true] {
        let sink = bench.receiver(ipv6, 6000);
        let socket = bench.sender(ipv6);
        setsockopt(&socket, sockopt::UdpGsoSegment, &1000).expect("UDP_SEGMENT");
        let to = sink.local_addr().expect("address");
        for _ in 0..50 {
            socket.send_to(&[3; 10_500], to).expect("send");
        }
        // A packet that is not cut, and one of exactly two segments.
        socket.send_to(&[3; 700], to).expect("send");
        socket.send_to(&[3; 2000], to).expect("send");
        let headers = if ipv6 { 62 } else { 42 };
        let datagrams = bench::arrivals(&sink, 50 * 11 + 1 + 2);
        for length in &datagrams {
            assert!(*length <= 1000);
            expected = (expected.0 + 1, expected.1 + *length as u64 + headers);
        }
        assert_eq!(datagrams.len(), 50 * 11 + 1 + 2);
    }
    let class = bench.class("u");
    let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
    conserved(&totals);
    let udp = &totals.classes[class];
    assert_eq!((udp.posted.packets.get(), udp.posted.bytes.get()), expected);
    assert_eq!((udp.fetched, totals.events.strays.get()), (udp.posted, 0));
}

#[test]
fn forwarded_packets_are_classified_and_counted() {
    if !weft_host::testing::privileged("forwarded_packets_are_classified_and_counted") {
        return;
    }
    let policy = "class far = from 10.98.0.0/24\nclass near = from 10.99.0.1\nroot = wfq { fair of far: 1, fair of near: 1 }";
    let bench = Bench::roomy("fwd", policy, 500);
    let far = NetNs::create(&weft_host::testing::unique("fwdfar")).expect("namespace");
    let sender = &bench.bed.sender;
    let macs = [Some(Mac::local(10)), Some(Mac::local(11))];
    link::create_veth((&far, "far0"), (sender, "far1"), &VethOptions { macs, ..VethOptions::default() })
        .expect("veth");
    for (ns, name, address) in [(&far, "far0", "10.98.0.2"), (sender, "far1", "10.98.0.1")] {
        link::set_up(ns, name).expect("up");
        link::add_address(ns, name, address.parse().expect("address"), 24).expect("address");
    }
    link::wait_running(&far, "far0", weft_host::testing::PATIENCE).expect("far");
    sysctl::set(sender, "net.ipv4.ip_forward", "1").expect("forward");
    let route = |ns: &NetNs, destination: &str, gateway: &str| {
        let (destination, gateway) = (destination.parse().expect("net"), gateway.parse().ok());
        link::add_route(ns, &Route { destination, prefix_len: 24, link: None, gateway }).expect("route");
    };
    route(&far, "10.99.0.0", "10.98.0.1");
    route(&bench.bed.receiver, "10.98.0.0", "10.99.0.1");
    let bytes = tcp_for(&bench, &far, 2, Duration::from_millis(400));
    assert!(bytes > 1_000_000, "{bytes}");
    let socket = bench.sender(false);
    set_mark(&socket, 9);
    for _ in 0..20 {
        socket.send_to(&[0; 100], (RECEIVER, 6000)).expect("send");
    }
    let classes = (bench.class("far"), bench.class("near"));
    let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
    conserved(&totals);
    let (far, near) = (&totals.classes[classes.0], &totals.classes[classes.1]);
    assert_eq!(near.posted.packets.get(), 20);
    assert_eq!((far.posted, totals.events.strays.get()), (far.fetched, 0));
    assert!(far.posted.bytes.get() > bytes, "all that arrived was far's: {totals:#?}");
    assert!(far.wire.packets.get() > 2 * far.posted.packets.get(), "super-packets were forwarded whole");
}

#[test]
fn a_stop_waits_until_the_uplink_s_device_has_counted_its_packets() {
    if !weft_host::testing::privileged("a_stop_waits_until_the_uplink_s_device_has_counted_its_packets") {
        return;
    }
    let wire = Wire::new();
    let nic = wire.port(&wire.app, "p0", Mac::local(1), Receive::Auto);
    // The worker has written all long before the queue of its device is empty: two thirds of a second.
    let slow = Tbf { rate: BitsPerSec(500_000), overhead: 0, burst: Bytes(2_000), limit: Bytes(1_000_000) };
    TcDevice::open(&wire.nic, "p0-up")
        .and_then(|mut device| device.add(&TcObject::tbf(slow)))
        .expect("a slow queue");
    link::wait_running(&wire.app, "p0", PATIENCE).expect("running");
    let [here, there] = ["10.99.0.1", "10.99.0.2"].map(|text| text.parse().expect("address"));
    link::add_address(&wire.app, "p0", here, 24).expect("address");
    link::add_neighbor(&wire.app, "p0", there, PEER).expect("neighbour");
    let socket = bench::socket(&wire.app, bench::unspecified(false));
    for _ in 0..40 {
        socket.send_to(&[1; 1000], (there, 7000)).expect("send");
    }
    let written = || nic.totals().expect("totals").uplink_writes.packets >= Packets(40);
    assert!(until(PATIENCE, written), "the worker wrote all");
    let totals = nic.stop(Nanos::from_secs(1)).expect("stop");
    assert_eq!(totals.uplink_arrived, totals.uplink_writes, "{totals:#?}");
}
