//! Frames that arrive at the interface below a port reach the port once and whole, whether the kernel or the thread
//! carries them.

use crate::common::bench;
use crate::common::wire;
use crate::common::wire::{Arrival, BROADCAST, Counter, Wire, frame, ipv4};
use std::collections::BTreeMap;
use std::time::Duration;
use weft_host::tc::{self, FilterFound, Handle};
use weft_host::testing::{privileged, wait_for};
use weft_host::{Mac, NetNs, link};
use weft_nic::nic::{NicError, NicPlan, SoftwareNic, Totals};
use weft_nic::port::{Receive, Uplink};
use weft_nic::redirect::{ReceivePath, ThreadReason};
use weft_nic::testbed::Testbed;
use weft_packet::fragment::fragments;
use weft_units::{Nanos, Packets};

const WAYS: [Receive; 2] = [Receive::Kernel, Receive::Thread];
const PORT: Mac = Mac([2, 0, 0, 0, 1, 1]);
const SECOND: Mac = Mac([2, 0, 0, 0, 1, 2]);
/// The types of packets (linux/if_packet.h).
const HOST: u32 = 0;
const TO_ALL: u32 = 1;
const TO_GROUP: u32 = 2;
/// The types of frames.
const IPV4: u16 = 0x0800;
const ARP: u16 = 0x0806;
const IPV6: u16 = 0x86dd;

/// Stops a NIC and checks that what it received was delivered or dropped, by the counters of the way.
fn end(nic: SoftwareNic, way: Receive, dropped: u64) -> Totals {
    let totals = nic.stop(Nanos::from_secs(1)).expect("stop");
    let (received, delivered) = (totals.received(), totals.rx_delivered);
    assert_eq!(received.packets, delivered.packets + Packets(dropped), "{totals:#?}");
    let bounds = totals.rx_dropped.bounds(totals.rx_refused.packets.get());
    assert!(bounds.contains(&dropped), "{dropped}: {totals:#?}");
    if dropped == 0 {
        assert_eq!(received, delivered, "{totals:#?}");
    }
    let idle = if way == Receive::Kernel { totals.rx } else { totals.rx_redirected };
    assert_eq!(idle.packets, Packets(0), "{totals:#?}");
    totals
}

/// Frames, and how each arrives.
fn frames() -> Vec<(Vec<u8>, Arrival)> {
    let ipv4_group = Mac([1, 0, 0x5e, 1, 2, 3]);
    let solicited = Mac([0x33, 0x33, 0xff, 0, 0, 1]);
    let bridges = Mac([1, 0x80, 0xc2, 0, 0, 0x0e]);
    vec![
        (frame(PORT, &[], IPV4, 60), (60, 0, HOST)),
        (frame(PORT, &[], IPV6, 90), (90, 0, HOST)),
        (frame(PORT, &[], ARP, 61), (61, 0, HOST)),
        (frame(BROADCAST, &[], ARP, 62), (62, 0, TO_ALL)),
        (frame(ipv4_group, &[], IPV4, 63), (63, 0, TO_GROUP)),
        (frame(solicited, &[], IPV6, 86), (86, 0, TO_GROUP)),
        (frame(bridges, &[], 0x88cc, 64), (64, 0, TO_GROUP)),
        (frame(PORT, &[7], IPV4, 104), (100, 7, HOST)),
        (frame(BROADCAST, &[7], ARP, 64), (60, 7, TO_ALL)),
        (frame(PORT, &[7, 8], IPV4, 128), (124, 7, HOST)),
        (frame(PORT, &[], IPV4, 1514), (1514, 0, HOST)),
        (frame(PORT, &[9], IPV4, 1518), (1514, 9, HOST)),
    ]
}

#[test]
fn each_kind_of_frame_arrives_once_and_as_on_a_wire() {
    if !privileged("each_kind_of_frame_arrives_once_and_as_on_a_wire") {
        return;
    }
    for way in WAYS {
        for beside in [false, true] {
            let wire = Wire::new();
            // In the namespace of the interface, and in another.
            let app = if beside { &wire.host } else { &wire.app };
            let nic = wire.port(app, "port0", PORT, way);
            assert_eq!(
                matches!(nic.ports()[0].receive_path(), ReceivePath::Kernel(_)),
                way == Receive::Kernel
            );
            let counter = Counter::at(app, "port0");
            let mut expected = BTreeMap::new();
            for (bytes, arrival) in frames() {
                wire.arrive(&bytes);
                *expected.entry(arrival).or_insert(0) += 1;
            }
            // Another address is the interface's own business.
            wire.arrive(&frame(SECOND, &[], IPV4, 70));
            assert_eq!(counter.wait(frames().len() as u64), expected, "{way:?}, beside: {beside}");
            end(nic, way, 0);
        }
    }
}

#[test]
fn super_packets_pass_whole_and_frames_above_the_mtu_do_not() {
    if !privileged("super_packets_pass_whole_and_frames_above_the_mtu_do_not") {
        return;
    }
    for way in WAYS {
        let wire = Wire::new();
        let nic = wire.port(&wire.app, "port0", PORT, way);
        let counter = Counter::at(&wire.app, "port0");
        for length in [4000, 20_000, 60_000] {
            wire.arrive_merged(PORT, length);
        }
        for length in [1519, 4000, 9000] {
            wire.arrive(&frame(PORT, &[], IPV4, length));
        }
        let whole = [4000, 20_000, 60_000].map(|length| ((length, 0, HOST), 1));
        assert_eq!(counter.wait(3), BTreeMap::from(whole), "{way:?}");
        // A larger MTU, as the NIC sets it when it follows the interface.
        link::set_mtu(&wire.host, "up0", 9000).expect("mtu");
        nic.follow(9000, true).expect("follow");
        wire.arrive(&frame(PORT, &[], IPV4, 9014));
        assert_eq!(counter.wait(4).get(&(9014, 0, HOST)), Some(&1), "{way:?}");
        let totals = end(nic, way, 3);
        assert_eq!(totals.received().packets, Packets(7));
    }
}

/// The macvlan on the interface reassembles datagrams to groups and to all, and the port takes no longer frame than its MTU.
#[test]
fn fragments_to_a_group_or_to_all_arrive_as_fragments() {
    if !privileged("fragments_to_a_group_or_to_all_arrive_as_fragments") {
        return;
    }
    const UDP: u8 = 17;
    for way in WAYS {
        for (to, kind) in [(Mac([1, 0, 0x5e, 1, 1, 1]), TO_GROUP), (BROADCAST, TO_ALL)] {
            let wire = Wire::new();
            let nic = wire.port(&wire.app, "port0", PORT, way);
            let counter = Counter::at(&wire.app, "port0");
            for part in fragments(&ipv4(to, UDP, 4042), 1500).expect("fragments") {
                wire.arrive(&part);
            }
            wire.arrive(&ipv4(to, UDP, 1514));
            let expected = BTreeMap::from([((1514, 0, kind), 3), ((1082, 0, kind), 1)]);
            assert_eq!(counter.wait(4), expected, "{way:?}");
            let totals = nic.stop(Nanos::from_secs(1)).expect("stop");
            assert_eq!((totals.received(), totals.received().packets), (totals.rx_delivered, Packets(4)));
            assert_eq!(totals.rx_dropped.veth, 0, "{totals:#?}");
        }
    }
}

#[test]
fn a_port_that_is_down_or_moves_elsewhere_is_followed() {
    if !privileged("a_port_that_is_down_or_moves_elsewhere_is_followed") {
        return;
    }
    for way in WAYS {
        let wire = Wire::new();
        let nic = wire.port(&wire.host, "port0", PORT, way);
        let counter = Counter::at(&wire.host, "port0");
        wire.arrive(&frame(PORT, &[], IPV4, 100));
        assert_eq!(counter.wait(1).get(&(100, 0, HOST)), Some(&1), "{way:?}");
        link::set_down(&wire.host, "port0").expect("down");
        wire.arrive(&frame(PORT, &[], IPV4, 101));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(counter.read().get(&(101, 0, HOST)), None);
        let elsewhere = wire::silent("else");
        link::move_to(&wire.host, "port0", &elsewhere).expect("move");
        link::set_up(&elsewhere, "port0").expect("up");
        link::wait_running(&elsewhere, "port0", weft_host::testing::PATIENCE).expect("running");
        let counter = Counter::at(&elsewhere, "port0");
        wire.arrive(&frame(PORT, &[], IPV4, 102));
        assert_eq!(counter.wait(1).get(&(102, 0, HOST)), Some(&1), "{way:?}");
        sends(&elsewhere, "port0", &nic);
        end(nic, way, 1);
    }
}

/// Sends from the device until the NIC has sent a packet.
fn sends(ns: &NetNs, device: &str, nic: &SoftwareNic) {
    link::add_address(ns, device, "10.8.0.1".parse().expect("address"), 24).expect("address");
    link::add_neighbor(ns, device, "10.8.0.2".parse().expect("address"), wire::PEER).expect("neighbour");
    let socket = bench::socket(ns, bench::unspecified(false));
    let sent = || nic.totals().expect("totals").sum(|class| class.sent).packets;
    wait_for("a packet leaves", || {
        socket.send_to(&[1; 100], "10.8.0.2:9").expect("send");
        sent() > Packets(0)
    });
}

/// The filters at the interface's ingress.
fn filters(host: &NetNs) -> Vec<FilterFound> {
    tc::filters(host, "up0", Handle::INGRESS).expect("filters")
}

#[test]
fn other_programs_and_ports_on_the_interface_are_not_disturbed() {
    if !privileged("other_programs_and_ports_on_the_interface_are_not_disturbed") {
        return;
    }
    for way in WAYS {
        let wire = Wire::new();
        let theirs = Counter::at(&wire.host, "up0");
        let before = filters(&wire.host);
        let first = wire.port(&wire.app, "port0", PORT, way);
        let second = wire.port(&wire.host, "port1", SECOND, way);
        let counters = [Counter::at(&wire.app, "port0"), Counter::at(&wire.host, "port1")];
        for (to, length) in [(PORT, 100), (SECOND, 101), (BROADCAST, 102)] {
            wire.arrive(&frame(to, &[], IPV4, length));
        }
        let all = (102, 0, TO_ALL);
        assert_eq!(counters[0].wait(2), BTreeMap::from([((100, 0, HOST), 1), (all, 1)]), "{way:?}");
        assert_eq!(counters[1].wait(2), BTreeMap::from([((101, 0, HOST), 1), (all, 1)]), "{way:?}");
        assert_eq!(theirs.read().values().sum::<u64>(), 3, "the program of the interface sees each frame");
        assert_eq!(filters(&wire.host), before, "nothing of ours is at the interface");
        end(first, way, 0);
        wire.arrive(&frame(SECOND, &[], IPV4, 103));
        assert_eq!(counters[1].wait(3).get(&(103, 0, HOST)), Some(&1), "{way:?}");
        end(second, way, 0);
        wire.arrive(&frame(SECOND, &[], IPV4, 104));
        assert_eq!(theirs.wait(5).values().sum::<u64>(), 5);
        assert_eq!(filters(&wire.host), before);
    }
}

#[test]
fn a_counter_that_is_wrong_breaks_the_balance() {
    if !privileged("a_counter_that_is_wrong_breaks_the_balance") {
        return;
    }
    let wire = Wire::new();
    let nic = wire.port(&wire.app, "port0", PORT, Receive::Kernel);
    let counter = Counter::at(&wire.app, "port0");
    // A packet that enters behind the counting program, through the far end.
    let socket = wire.nic.run(|| std::net::UdpSocket::bind("10.7.0.1:0"));
    assert!(socket.expect("enter").is_err(), "the NIC's namespace has no address");
    link::add_address(&wire.nic, "port0-nic", "10.7.0.1".parse().expect("address"), 24).expect("address");
    link::add_neighbor(&wire.nic, "port0-nic", "10.7.0.2".parse().expect("address"), PORT)
        .expect("neighbour");
    let socket = wire.nic.run(|| std::net::UdpSocket::bind("10.7.0.1:0")).expect("enter").expect("bind");
    socket.send_to(&[1; 100], "10.7.0.2:9").expect("send");
    counter.wait(1);
    let totals = nic.stop(Nanos::from_secs(1)).expect("stop");
    assert_eq!(totals.rx_delivered.packets, totals.received().packets + Packets(1), "{totals:#?}");
}

#[test]
fn without_a_way_in_the_kernel_the_reason_is_named() {
    if !privileged("without_a_way_in_the_kernel_the_reason_is_named") {
        return;
    }
    let wire = Wire::new();
    let nic = wire.try_port(&wire.app, (&wire.host, "port0"), PORT, Receive::Auto).expect("nic");
    let ReceivePath::Thread(reason) = nic.ports()[0].receive_path() else {
        panic!("{:?}", nic.ports()[0].receive_path())
    };
    assert!(matches!(reason, ThreadReason::OtherNamespace { .. }), "{reason}");
    assert!(nic.ports()[0].receive_path().fallback().is_some());
    let counter = Counter::at(&wire.app, "port0");
    wire.arrive(&frame(PORT, &[], IPV4, 100));
    assert_eq!(counter.wait(1).get(&(100, 0, HOST)), Some(&1));
    end(nic, Receive::Thread, 0);

    let error = wire.try_port(&wire.app, (&wire.host, "port0"), PORT, Receive::Kernel).expect_err("refused");
    assert!(matches!(error, NicError::Receive(ThreadReason::OtherNamespace { .. })), "{error}");
    assert!(error.to_string().contains("--receive auto"), "{error}");

    let bed = Testbed::create("rtp").expect("testbed");
    let start = |receive: Receive| {
        let plan = NicPlan::new(&bench::policy("root = fair of default"), bench::config(100)).expect("plan");
        let (port, uplink): (_, Uplink) = bed.devices(plan.ring_count(), 100).expect("devices");
        SoftwareNic::start(plan, port, uplink.with_receive(receive))
    };
    let error = start(Receive::Kernel).expect_err("a TAP");
    assert!(matches!(error, NicError::Receive(ThreadReason::Tap)), "{error}");
    let nic = start(Receive::Auto).expect("nic");
    assert!(matches!(nic.ports()[0].receive_path(), ReceivePath::Thread(ThreadReason::Tap)));
}
