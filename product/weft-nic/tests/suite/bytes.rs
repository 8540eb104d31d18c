//! The bytes of packets have one rule at the egress, at the far end and at the ring (`bpf/gso.h`): what a read returns.

use crate::common::bench;
use crate::common::bench::{Bench, conserved_to_the_uplink};
use crate::common::raw::{Raw, set_option};
use core::net::{IpAddr, SocketAddr};
use nix::libc;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;
use weft_host::link::{self, Mac, VethOptions};
use weft_host::netns::NetNs;
use weft_host::testing::{privileged, wait_for};
use weft_nic::nic::Totals;
use weft_nic::testbed::{RECEIVER, SENDER};
use weft_units::Nanos;

const POLICY: &str = "class u = udp\nclass t = tcp\nroot = wfq { fair of u: 1, fair of t: 1 }";
/// The addresses inside the tunnel.
const INSIDE: [&str; 2] = ["10.5.0.1", "10.5.0.2"];
/// Four times the IP option "no operation" (RFC 791, section 3.1).
const NO_OPERATION: i32 = 0x0101_0101;

/// Runs `ip` in `ns`.
#[track_caller]
fn ip(ns: &NetNs, args: &str) {
    let run = || Command::new("ip").args(args.split_whitespace()).output();
    let said = ns.run(run).expect("namespace").expect("ip");
    assert!(said.status.success(), "ip {args}: {}", String::from_utf8_lossy(&said.stderr));
}

/// A VXLAN tunnel between the ends.
fn tunnel(bench: &Bench) {
    for (ns, device, [here, there], inside) in [
        (&bench.bed.sender, "port0", [SENDER, RECEIVER], INSIDE[0]),
        (&bench.bed.receiver, "wire0", [RECEIVER, SENDER], INSIDE[1]),
    ] {
        ip(
            ns,
            &format!("link add vx0 type vxlan id 5 local {here} remote {there} dstport 4789 dev {device}"),
        );
        ip(ns, &format!("addr add {inside}/24 dev vx0"));
        ip(ns, "link set vx0 up");
    }
}

/// Sends a megabyte over TCP in super-packets.
fn transfer(bench: &Bench, to: IpAddr) {
    let at = SocketAddr::new(to, 5300);
    let listener = bench.bed.receiver.run(|| TcpListener::bind(at)).expect("ns").expect("listener");
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        listener.accept().expect("accept").0.read_to_end(&mut bytes).expect("read");
        bytes.len()
    });
    let connect = || TcpStream::connect_timeout(&at, Duration::from_secs(20));
    let mut stream = bench.bed.sender.run(connect).expect("ns").expect("connect");
    stream.write_all(&[7; 1 << 20]).expect("send");
    drop(stream);
    assert_eq!(reader.join().expect("reader"), 1 << 20);
}

/// Sends UDP super-packets, and waits for their segments.
fn datagrams(bench: &Bench, to: IpAddr, port: u16, options: bool) {
    let end = bench::socket(&bench.bed.receiver, SocketAddr::new(to, port));
    end.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    let socket = bench.sender(to.is_ipv6());
    if options {
        set_option(&socket, libc::IPPROTO_IP, libc::IP_OPTIONS, NO_OPERATION);
    }
    setsockopt(&socket, sockopt::UdpGsoSegment, &700).expect("UDP_SEGMENT");
    for _ in 0..20 {
        socket.send_to(&[3; 7300], (to, port)).expect("send");
        let mut rest = 7300;
        while rest > 0 {
            rest -= end.recv(&mut [0; 2000]).expect("a segment");
        }
    }
}

/// Stops the NIC, and compares the counts of both sides, class by class.
#[track_caller]
fn stop_and_compare_ends(bench: Bench, what: &str) -> Totals {
    bench.settle(Duration::from_secs(20));
    let totals = bench.nic.stop(Nanos::from_secs(5)).expect("stop");
    conserved_to_the_uplink(&totals);
    for class in &totals.classes {
        assert_eq!(class.posted, class.fetched, "{what}: {totals:#?}");
    }
    assert_eq!((totals.lost, totals.events.strays.get()), (0, 0), "{what}: {totals:#?}");
    totals
}

/// As [`stop_and_compare_ends`], and compares them with the count at the far end.
#[track_caller]
fn stop_and_compare(bench: Bench, what: &str) -> Totals {
    let totals = stop_and_compare_ends(bench, what);
    assert_eq!(totals.arrivals.count, totals.sum(|c| c.fetched), "{what}: {totals:#?}");
    assert_eq!(totals.arrivals.unseen_ports, 0);
    totals
}

#[test]
fn super_packets_in_a_tunnel_have_the_bytes_of_their_segments() {
    if !privileged("super_packets_in_a_tunnel_have_the_bytes_of_their_segments") {
        return;
    }
    let bench = Bench::roomy("btun", POLICY, 500);
    tunnel(&bench);
    let inside = INSIDE[1].parse().expect("address");
    transfer(&bench, inside);
    datagrams(&bench, inside, 7000, false);
    bench.wait_closed();
    let totals = stop_and_compare(bench, "VXLAN");
    assert!(totals.cut > 100, "super-packets were cut: {totals:#?}");
}

#[test]
fn cut_datagrams_with_and_without_options_have_the_bytes_of_their_segments() {
    if !privileged("cut_datagrams_with_and_without_options_have_the_bytes_of_their_segments") {
        return;
    }
    let bench = Bench::roomy("bopt", POLICY, 500);
    transfer(&bench, RECEIVER);
    datagrams(&bench, RECEIVER, 7000, false);
    datagrams(&bench, RECEIVER, 7001, true);
    bench.wait_closed();
    let totals = stop_and_compare(bench, "IP options");
    assert_eq!(totals.cut, 2 * 20 * 10, "11 segments each");
}

/// A bridge receives frames with tags, takes the tags out of the frames, and passes them on beside.
#[test]
fn tags_outside_the_frame_are_counted_and_tags_inside_not_twice() {
    if !privileged("tags_outside_the_frame_are_counted_and_tags_inside_not_twice") {
        return;
    }
    let bench = Bench::roomy("btag", POLICY, 500);
    let sender = &bench.bed.sender;
    link::create_veth((sender, "tag0"), (sender, "tag1"), &VethOptions::default()).expect("veth");
    ip(sender, "link add br0 type bridge");
    for slave in ["tag1", "port0"] {
        ip(sender, &format!("link set {slave} master br0"));
    }
    for device in ["tag0", "tag1", "br0"] {
        ip(sender, &format!("link set {device} up"));
    }
    link::wait_running(sender, "br0", Duration::from_secs(20)).expect("bridge");
    let wire = link::get_mac(&bench.bed.receiver, "wire0").expect("wire").expect("mac");
    let frame = |from: Mac| {
        let ip = [0x45, 0, 0, 128, 0, 0, 0, 0, 64, 17, 0, 0, 10, 99, 0, 1, 10, 99, 0, 2];
        let udp = [0x1b, 0x58, 0x1b, 0x58, 0, 108, 0, 0];
        [&wire.0[..], &from.0, &[0x81, 0, 0, 5, 8, 0], &ip, &udp, &[0; 100]].concat()
    };
    let (outside, inside) = (Raw::open_at(sender, "tag0", 0x8100), Raw::open(&bench, 0x8100));
    let class = bench.class("u");
    let before = bench.nic.totals().expect("totals").classes[class].posted;
    for _ in 0..50 {
        outside.send(&frame(Mac::local(77)));
        inside.send(&frame(Mac::local(1)));
    }
    let posted = || bench.nic.totals().expect("totals").classes[class].posted.saturating_sub(before);
    wait_for("all are posted", || posted().packets.get() >= 100);
    let bytes = frame(Mac::local(1)).len() as u64;
    assert_eq!((posted().packets.get(), posted().bytes.get()), (100, 100 * bytes));
    stop_and_compare(bench, "tags");
}

/// A TAP takes UDP super-packets whole, but not those in a tunnel.
#[test]
fn a_tap_counts_super_packets_in_a_tunnel_by_their_segments() {
    if !privileged("a_tap_counts_super_packets_in_a_tunnel_by_their_segments") {
        return;
    }
    let devices = |bed: &weft_nic::testbed::Testbed, rings| bed.tap_devices(rings, 2000, 4).expect("devices");
    let bench = Bench::start_on("btap", POLICY, &bench::config(500), |_| (), devices);
    tunnel(&bench);
    let inside = INSIDE[1].parse().expect("address");
    transfer(&bench, inside);
    datagrams(&bench, inside, 7000, false);
    datagrams(&bench, RECEIVER, 7001, false);
    bench.wait_closed();
    let totals = stop_and_compare_ends(bench, "VXLAN over a TAP");
    assert!(totals.cut > 100, "super-packets were cut: {totals:#?}");
}
