//! A NIC whose port is a TAP, between real TCP/IP stacks. Where the kernel has TAPs that hold senders back, the rings are
//! small; elsewhere they hold all packets of a test, and all but the holding back is the same.

use crate::common::bench;
use crate::common::bench::{Bench, Until, config, conserved, posted};
use crate::common::raw::Raw;
use crate::frames::{Below, Transport, frame};
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use weft_host::Mac;
use weft_host::link::{self, VethOptions};
use weft_host::testing::privileged;
use weft_nic::nic::{NicError, NicPlan, SoftwareNic, Totals};
use weft_nic::plan::Mode;
use weft_nic::port::{PortDrops, Receive, Uplink};
use weft_nic::redirect::{ReceivePath, ThreadReason};
use weft_nic::testbed::{RECEIVER, SENDER, Testbed, WIRE};
use weft_units::Nanos;

const POLICY: &str = "class a = udp and port 7001\nclass b = udp and port 7002\nclass t = tcp\n\
                      root = wfq { fair of a: 1, fair of b: 1, fair of t: 1, fair of default: 1 }";

/// A NIC at `megabits` on a TAP with rings of four packets.
fn start(role: &str, megabits: u64, rings: usize) -> Bench {
    let mut config = config(megabits);
    config.rings = rings;
    Bench::start_on(
        role,
        POLICY,
        &config,
        |_| (),
        |bed, rings| bed.tap_devices(rings, 2000, 4).expect("devices"),
    )
}

/// Checks that the NIC carried all that was posted, each packet in a ring of its class, and delivered all that it received.
fn all_went(totals: &Totals) {
    conserved(totals);
    assert_eq!(totals.received(), totals.rx_delivered, "{totals:#?}");
    assert_eq!((totals.rx_refused, totals.rx_dropped), Default::default(), "{totals:#?}");
    assert_eq!(
        (totals.lost, totals.events.strays.get(), totals.drops),
        (0, 0, Default::default()),
        "{totals:#?}"
    );
    for class in &totals.classes {
        assert_eq!(class.posted, class.sent, "{totals:#?}");
    }
}

#[test]
fn every_class_has_its_own_rings_and_loses_nothing() {
    if !privileged("every_class_has_its_own_rings_and_loses_nothing") {
        return;
    }
    let bench = start("tprings", 100, 40);
    let ends = [7001, 7002, 7003].map(|port| bench.receiver(false, port));
    // All stay open: a port of one that is closed may be given to a later one, whose numbers begin anew.
    let flows: Vec<Vec<_>> = (0..4).map(|_| (0..5).map(|_| bench.sender(false)).collect()).collect();
    for sockets in &flows {
        for number in 0_u32..10 {
            for socket in sockets {
                for (end, times) in [(7001, 1), (7002, 2), (7003, 1)] {
                    for time in 0..times {
                        let bytes = [(number * 2 + time).to_ne_bytes(), [7; 4]].concat();
                        socket.send_to(&bytes, (RECEIVER, end)).expect("send");
                    }
                }
            }
        }
    }
    let sent = [200, 400, 200];
    let arrived = [0, 1, 2].map(|at: usize| bench::in_order(&ends[at], Until::Arrived(sent[at])));
    assert_eq!(arrived, sent);
    let totals = bench.nic.stop(Nanos::from_secs(5)).expect("stop");
    assert_eq!(posted(&totals)[..2], [200, 400], "{totals:#?}");
    all_went(&totals);
}

#[test]
fn what_goes_around_the_egress_reaches_no_ring() {
    if !privileged("what_goes_around_the_egress_reaches_no_ring") {
        return;
    }
    let bench = start("tpbypass", 100, 8);
    let end = bench.receiver(false, 7001);
    let bytes = frame(&Below::default(), &Transport::Udp(4000, 7001), &[7; 400]);
    let bypass = Raw::open(&bench, 0x0800).around_the_qdisc();
    (0..20).for_each(|_| bypass.send(&bytes));
    let announced = bench.sender(false);
    announced.send_to(&[1, 0, 0, 0], (RECEIVER, 7001)).expect("send");
    assert_eq!(bench::in_order(&end, Until::Arrived(1)), 1);
    let totals = bench.nic.stop(Nanos::from_secs(5)).expect("stop");
    assert_eq!((totals.events.unannounced_drops.get(), posted(&totals)[0]), (20, 1), "{totals:#?}");
    all_went(&totals);
}

#[test]
fn a_udp_super_packet_is_one_packet_of_the_ring() {
    if !privileged("a_udp_super_packet_is_one_packet_of_the_ring") {
        return;
    }
    let bench = start("tpgso", 100, 8);
    let end = bench.receiver(false, 7001);
    let socket = bench.sender(false);
    setsockopt(&socket, sockopt::UdpGsoSegment, &1000).expect("UDP_SEGMENT");
    for _ in 0..10 {
        socket.send_to(&[7; 20_500], (RECEIVER, 7001)).expect("send");
    }
    let datagrams = bench::arrivals(&end, 210);
    assert_eq!((datagrams.len(), datagrams.iter().sum()), (210, 205_000_usize));
    let totals = bench.nic.stop(Nanos::from_secs(5)).expect("stop");
    let class = &totals.classes[0];
    assert_eq!((class.posted.packets.get(), class.wire.packets.get()), (10, 210), "{totals:#?}");
    all_went(&totals);
}

#[test]
fn tcp_fills_the_link_in_both_directions() {
    if !privileged("tcp_fills_the_link_in_both_directions") {
        return;
    }
    const BYTES: usize = 2_000_000;
    let bench = start("tptcp", 200, 16);
    let address = SocketAddr::new(RECEIVER, 5000);
    let listener = bench.bed.receiver.run(|| TcpListener::bind(address)).expect("ns").expect("listener");
    let mut out = bench.bed.sender.run(|| TcpStream::connect(address)).expect("ns").expect("connected");
    let (mut back, _) = listener.accept().expect("accepted");
    out.set_read_timeout(Some(Duration::from_secs(30))).expect("timeout");
    let echo = move || {
        let mut buffer = vec![0; 1 << 16];
        let mut left = BYTES;
        while left > 0 {
            let length = back.read(&mut buffer).expect("read");
            assert!(length > 0, "{left} bytes are missing");
            back.write_all(&buffer[..length]).expect("write");
            left -= length;
        }
    };
    let mut input = out.try_clone().expect("duplicate");
    std::thread::scope(|scope| {
        scope.spawn(echo);
        scope.spawn(move || input.write_all(&vec![7; BYTES]).expect("write"));
        let mut returned = vec![0; BYTES];
        out.read_exact(&mut returned).expect("all of it");
    });
    drop(out);
    bench.wait_closed();
    let totals = bench.nic.stop(Nanos::from_secs(5)).expect("stop");
    assert!(totals.sum(|c| c.sent).bytes.get() >= BYTES as u64, "{totals:#?}");
    assert!(totals.rx_delivered.bytes.get() >= BYTES as u64, "{totals:#?}");
    all_went(&totals);
}

#[test]
fn what_waits_at_the_end_is_held_and_none_is_lost() {
    if !privileged("what_waits_at_the_end_is_held_and_none_is_lost") {
        return;
    }
    // 10 kb/s: an MTU takes more than a second.
    let mut slow = config(1);
    slow.rate = weft_units::BitsPerSec(10_000);
    slow.rings = 8;
    let devices = |bed: &weft_nic::testbed::Testbed, rings| bed.tap_devices(rings, 2000, 4).expect("devices");
    let bench = Bench::start_on("tpheld", POLICY, &slow, |_| (), devices);
    let socket = bench.sender(false);
    for _ in 0..60 {
        socket.send_to(&[7; 1000], (RECEIVER, 7001)).expect("send");
    }
    let totals = bench.nic.stop(Nanos::from_millis(100)).expect("stop");
    let class = &totals.classes[0];
    assert_eq!(class.posted.packets.get(), 60);
    assert!(class.held.packets.get() > 40, "{totals:#?}");
    assert_eq!(
        (totals.lost, totals.events.strays.get(), totals.drops),
        (0, 0, Default::default()),
        "{totals:#?}"
    );
    conserved(&totals);
}

#[test]
fn a_port_without_policy_takes_what_its_rings_hold() {
    if !privileged("a_port_without_policy_takes_what_its_rings_hold") {
        return;
    }
    let mut hashed = config(100);
    hashed.mode = Mode::HashedRings { queues: 4 };
    let devices = |bed: &weft_nic::testbed::Testbed, rings| bed.tap_devices(rings, 2000, 4).expect("devices");
    let bench = Bench::start_on("tpmq", POLICY, &hashed, |_| (), devices);
    let end = bench.receiver(false, 7001);
    let sockets: Vec<_> = (0..20).map(|_| bench.sender(false)).collect();
    for number in 0_u32..20 {
        for socket in &sockets {
            socket.send_to(&number.to_ne_bytes(), (RECEIVER, 7001)).expect("send");
        }
    }
    assert_eq!(bench::in_order(&end, Until::Arrived(400)), 400);
    all_went(&bench.nic.stop(Nanos::from_secs(5)).expect("stop"));
}

#[test]
fn what_a_full_port_drops_is_counted() {
    if !privileged("what_a_full_port_drops_is_counted") {
        return;
    }
    let mut slow = config(1);
    slow.mode = Mode::OneRing;
    let devices = |bed: &weft_nic::testbed::Testbed, rings| bed.tap_devices(rings, 8, 4).expect("devices");
    let bench = Bench::start_on("tpfull", POLICY, &slow, |_| (), devices);
    let end = bench.receiver(false, 7001);
    let socket = bench.sender(false);
    for number in 0_u32..60 {
        socket.send_to(&[&number.to_ne_bytes()[..], &[7; 996]].concat(), (RECEIVER, 7001)).expect("send");
    }
    let dropped = bench.nic.totals().expect("totals").drops;
    let left = 60 - dropped.total() as usize;
    let arrived = bench::in_order(&end, Until::Arrived(left)) as u64;
    let totals = bench.nic.stop(Nanos::from_secs(5)).expect("stop");
    let PortDrops { qdisc, ring_full, .. } = totals.drops;
    assert!((8..60).contains(&arrived), "{arrived}");
    assert_eq!(arrived + qdisc + ring_full, 60, "{totals:#?}");
    // The FIFO drops, or on an older kernel the ring.
    assert_eq!(qdisc > 0, weft_host::tap::require_backpressure().is_ok(), "{totals:#?}");
    conserved(&totals);
}

#[test]
fn a_tap_receives_by_the_thread_and_says_why() {
    if !privileged("a_tap_receives_by_the_thread_and_says_why") {
        return;
    }
    let bed = Testbed::create("tprx").expect("testbed");
    // An uplink whose packets the program could take.
    let pair = link::create_veth((&bed.receiver, WIRE), (&bed.nic, "far0"), &VethOptions::default());
    pair.expect("wire");
    for (ns, name) in [(&bed.receiver, WIRE), (&bed.nic, "far0")] {
        link::set_up(ns, name).expect("up");
    }
    let start = |receive: Receive| {
        let plan = NicPlan::new(&bench::policy(POLICY), config(100)).expect("plan");
        let port = bed.tap_port(plan.ring_count(), 2000, 4).expect("port");
        let parent = (&bed.nic, "far0");
        let uplink = Uplink::on_interface(parent, (&bed.nic, "up0"), Mac::local(1)).expect("uplink");
        SoftwareNic::start(plan, port, uplink.with_receive(receive))
    };
    let error = start(Receive::Kernel).expect_err("a TAP");
    assert!(matches!(error, NicError::Receive(ThreadReason::TapPort)), "{error}");
    assert!(error.to_string().contains("the port is a TAP"), "{error}");
    let nic = start(Receive::Auto).expect("nic");
    let path = nic.ports()[0].receive_path();
    assert!(matches!(path, ReceivePath::Thread(ThreadReason::TapPort)), "{path}");
    assert!(path.fallback().is_some());
    bed.connect().expect("connect");
    bed.wait_running().expect("running");
    let [from, at] = [(&bed.receiver, RECEIVER), (&bed.sender, SENDER)]
        .map(|(ns, address)| ns.run(|| UdpSocket::bind((address, 7000))).expect("ns").expect("bind"));
    at.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    let mut buffer = [0; 2000];
    for number in 0..30 {
        from.send_to(&[number; 1000], (SENDER, 7000)).expect("send");
        assert_eq!((at.recv(&mut buffer).expect("recv"), buffer[0]), (1000, number));
    }
    let totals = nic.stop(Nanos::from_secs(1)).expect("stop");
    assert!(totals.rx_delivered.packets.get() >= 30, "{totals:#?}");
    assert!(totals.rx_delivered.bytes.get() >= 30 * 1042, "{totals:#?}");
    assert_eq!((totals.received(), totals.rx_redirected), (totals.rx_delivered, Default::default()));
    assert_eq!((totals.rx_passed, totals.unread), (totals.rx, 0), "{totals:#?}");
}
