//! One count for each packet in the ring: whatever the kernel merges or cuts between the egress program and the rings, on
//! real packets.

use crate::common::bench;
use crate::common::bench::{Bench, config, conserved, standing};
use crate::common::streams::{Acceptor, Streams};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use nix::sys::socket::{IpMembershipRequest, setsockopt, sockopt};
use std::process::Command;
use std::time::Instant;
use weft_host::netns::NetNs;
use weft_host::sysctl;
use weft_host::testing::{PATIENCE, privileged, skip, wait_for};
use weft_nic::nic::Totals;
use weft_nic::testbed::{PORT, RECEIVER};
use weft_units::Nanos;

const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 1, 1);
const TO_ALL: Ipv4Addr = Ipv4Addr::BROADCAST;
const MEGABITS: u64 = 200;

/// Runs a command in a namespace. Returns whether it succeeded.
fn run(ns: &NetNs, command: &str) -> bool {
    let mut words = command.split(' ');
    let mut of = Command::new(words.next().expect("a program"));
    let output = ns.run(|| of.args(words).output()).expect("namespace").expect(command);
    output.status.success()
}

fn must(ns: &NetNs, command: &str) {
    assert!(run(ns, command), "{command}");
}

/// A policy of two classes, one for the packets of the test and one without packets.
const FRAGMENTS: &str = "class ours = udp and port 9999\nclass other = udp and port 7777\n\
                         root = wfq { fair of ours: 1, fair of other: 1, default: 1 }";

#[test]
fn fragments_to_a_group_and_to_all_arrive_in_their_class() {
    if !privileged("fragments_to_a_group_and_to_all_arrive_in_their_class") {
        return;
    }
    const SENT: usize = 50;
    let bench = Bench::roomy("frg", FRAGMENTS, 900);
    let sockets: Vec<_> = (0..SENT).map(|_| bench.sender(false)).collect();
    let IpAddr::V4(at) = RECEIVER else { unreachable!("an IPv4 address") };
    must(&bench.bed.sender, &format!("ip route add default dev {PORT}"));
    let sink =
        bench.bed.receiver.run(|| std::net::UdpSocket::bind("0.0.0.0:9999")).expect("ns").expect("bound");
    setsockopt(&sink, sockopt::RcvBufForce, &(32 << 20)).expect("buffer");
    let membership = IpMembershipRequest::new(GROUP, Some(at));
    setsockopt(&sink, sockopt::IpAddMembership, &membership).expect("member");
    for to in [GROUP, TO_ALL] {
        for socket in &sockets {
            socket.set_broadcast(true).expect("broadcast");
            setsockopt(socket, sockopt::IpMulticastTtl, &1).expect("ttl");
            socket.send_to(&[7; 4000], (to, 9999)).expect("send");
        }
    }
    let lengths = bench::arrivals(&sink, 2 * SENT);
    let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
    let posted = |name| {
        totals.classes[bench.policy.classes.iter().position(|c| c.name == name).expect("class")].posted
    };
    assert_eq!(posted("ours").packets.get(), 2 * SENT as u64 * 3, "three fragments each: {totals:#?}");
    assert_eq!(posted("other").packets.get(), 0);
    for class in &totals.classes {
        assert_eq!(class.posted, class.fetched, "{totals:#?}");
    }
    assert_eq!(
        (totals.lost, totals.events.strays.get(), totals.events.unannounced_drops.get()),
        (0, 0, 0),
        "{totals:#?}"
    );
    assert_eq!(lengths, vec![4000; 2 * SENT]);
    conserved(&totals);
}

/// The datagrams that an IFB sends by the port again. It sets `tc_skip_classify`, which hides a packet from one device.
#[test]
fn packets_that_an_ifb_hides_from_a_program_are_dropped_and_counted() {
    if !privileged("packets_that_an_ifb_hides_from_a_program_are_dropped_and_counted") {
        return;
    }
    const SENT: usize = 400;
    let bench = Bench::roomy("ifb", FRAGMENTS, 900);
    let sender = &bench.bed.sender;
    if !run(sender, "ip link add ifb0 type ifb") {
        skip("packets_that_an_ifb_hides_from_a_program_are_dropped_and_counted", "no IFB in this kernel");
        return;
    }
    must(sender, "ip link set ifb0 up");
    // Half of the packets by chance (SKF_AD_RANDOM) to the IFB, which sends them by the port again. The program at the egress goes
    // first again when the NIC has noticed.
    let chance = "4,32 0 0 4294963256,69 0 1 1,6 0 0 4294967295,6 0 0 0";
    let filter = ["filter", "add", "dev", PORT, "egress", "pref", "1", "bpf", "bytecode", chance];
    let action = ["action", "mirred", "egress", "redirect", "dev", "ifb0"];
    let added =
        sender.run(|| Command::new("tc").args(filter).args(action).status()).expect("ns").expect("tc");
    assert!(added.success());
    let sockets: Vec<_> = (0..SENT).map(|_| bench.sender(false)).collect();
    for socket in &sockets {
        socket.send_to(&[7; 1000], (RECEIVER, 9999)).expect("send");
    }
    let ended =
        |totals: &Totals| totals.events.unannounced_drops.get() + totals.sum(|c| c.sent).packets.get();
    wait_for("all have left or are dropped", || ended(&bench.nic.totals().expect("totals")) >= SENT as u64);
    let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
    assert!(totals.events.unannounced_drops.get() > 0, "no packet was hidden: {totals:#?}");
    assert_eq!((ended(&totals), totals.events.strays.get()), (SENT as u64, 0), "{totals:#?}");
    conserved(&totals);
}

const TCP: &str = "class bulk = tcp\nroot = wfq { fair of bulk: 1, default: 1 }";

/// The bytes that four connections bring in a second or longer, and the totals at the end. `change` is made before they send, and
/// then again `until` its effect shows: the NIC restores what it needs, perhaps before the first packet.
fn tcp_after(role: &str, change: impl Fn(&Bench), until: impl Fn(&Totals) -> bool) -> (u64, Totals) {
    let bench = Bench::start(role, TCP, &config(MEGABITS), 8000, |_| ());
    let acceptor = Acceptor::open(&bench.bed);
    let idle: Vec<_> = (0..4).map(|_| acceptor.connect()).collect();
    change(&bench);
    let mut streams = Streams::start(idle);
    wait_for("the effect of the change", || {
        let shows = until(&bench.nic.totals().expect("totals"));
        if !shows {
            change(&bench);
        }
        shows
    });
    std::thread::sleep(Duration::from_secs(1));
    let bytes = streams.close().iter().sum();
    bench.wait_closed();
    bench.settle(PATIENCE);
    (bytes, bench.nic.stop(Nanos::from_secs(5)).expect("stop"))
}

/// Checks that each packet in the rings had its doorbell.
fn counted(totals: &Totals) {
    assert_eq!(totals.events.strays.get(), 0, "{totals:#?}");
    for class in &totals.classes {
        let lost = if class.posted.packets.get() > 0 { totals.lost } else { 0 };
        assert_eq!(class.posted.packets.get(), class.fetched.packets.get() + lost, "{totals:#?}");
        if lost == 0 {
            assert_eq!(class.posted.bytes, class.fetched.bytes, "{totals:#?}");
        }
    }
    conserved(totals);
}

#[test]
fn super_packets_cut_behind_the_doorbell_are_counted_segment_by_segment() {
    if !privileged("super_packets_cut_behind_the_doorbell_are_counted_segment_by_segment") {
        return;
    }
    let ethtool = |what: &'static str| {
        move |bench: &Bench| must(&bench.bed.sender, &format!("ethtool -K {PORT} {what}"))
    };
    let (whole, totals) = tcp_after("whole", |_| (), |_| true);
    counted(&totals);
    assert_eq!(totals.events.cut_packets.get(), 0, "{totals:#?}");
    for what in ["tso off", "tx off", "sg off"] {
        let (bytes, totals) = tcp_after("cut", ethtool(what), |totals| totals.events.cut_packets.get() > 0);
        counted(&totals);
        assert!(bytes > whole / 2, "{what}: {bytes} bytes, {whole} as a whole");
    }
    // The sockets keep the limit that the device had when they connected.
    let lower = |bench: &Bench| must(&bench.bed.sender, &format!("ip link set {PORT} gso_max_size 8000"));
    let (bytes, totals) = tcp_after("low", lower, |_| true);
    counted(&totals);
    assert!(bytes > whole / 2, "an old limit: {bytes} bytes, {whole} as a whole");
}

#[test]
fn super_packets_that_the_ring_cannot_take_are_counted_segment_by_segment() {
    if !privileged("super_packets_that_the_ring_cannot_take_are_counted_segment_by_segment") {
        return;
    }
    let bench = Bench::roomy("ecn", TCP, MEGABITS);
    let accurate = [&bench.bed.sender, &bench.bed.receiver]
        .iter()
        .all(|ns| sysctl::set(ns, "net.ipv4.tcp_ecn", "3").is_ok());
    if !accurate {
        skip(
            "super_packets_that_the_ring_cannot_take_are_counted_segment_by_segment",
            "no AccECN (Linux 6.18)",
        );
        return;
    }
    let mut streams = Streams::open(&bench.bed, 4);
    std::thread::sleep(Duration::from_secs(1));
    let bytes: u64 = streams.close().iter().sum();
    bench.wait_closed();
    bench.settle(PATIENCE);
    let totals = bench.nic.stop(Nanos::from_secs(5)).expect("stop");
    counted(&totals);
    assert!(bytes > MEGABITS * 1_000_000 / 8 / 2, "{bytes} bytes of {MEGABITS} Mb/s");
}

#[test]
fn bounds_hold_for_packets_that_are_cut_behind_the_doorbell() {
    if !privileged("bounds_hold_for_packets_that_are_cut_behind_the_doorbell") {
        return;
    }
    const BOUND: u64 = 100;
    let text = format!(
        "class bulk = tcp\nbound {BOUND} packets of bulk\nroot = wfq {{ fair of bulk: 1, default: 1 }}"
    );
    let bench = Bench::roomy("bnd", &text, 20);
    must(&bench.bed.sender, &format!("ethtool -K {PORT} tso off"));
    let class = bench.class("bulk");
    let doorbells = bench.nic.ports()[0].doorbells().clone();
    let plan = bench.nic.ports()[0].ring_plan().clone();
    let mut streams = Streams::open(&bench.bed, 8);
    let until = Instant::now() + Duration::from_secs(1);
    let mut most = 0;
    while Instant::now() < until {
        most = most.max(standing(&doorbells, &plan, class));
        std::thread::sleep(Duration::from_millis(1));
    }
    streams.close();
    bench.wait_closed();
    bench.settle(PATIENCE);
    let totals = bench.nic.stop(Nanos::from_secs(5)).expect("stop");
    assert!(most <= BOUND, "{most} packets of {BOUND}: {totals:#?}");
    assert!(totals.classes[class].bound.packets.get() > 0, "the bound was reached: {totals:#?}");
    counted(&totals);
}

#[test]
fn offloads_that_change_all_the_time_lose_nothing_uncounted() {
    if !privileged("offloads_that_change_all_the_time_lose_nothing_uncounted") {
        return;
    }
    let bench = Bench::roomy("tog", TCP, MEGABITS);
    let mut streams = Streams::open(&bench.bed, 4);
    for round in 0..60 {
        let switch = if round % 2 == 0 { "off" } else { "on" };
        must(&bench.bed.sender, &format!("ethtool -K {PORT} tso {switch}"));
    }
    let bytes: u64 = streams.close().iter().sum();
    bench.wait_closed();
    bench.settle(PATIENCE);
    let totals = bench.nic.stop(Nanos::from_secs(5)).expect("stop");
    counted(&totals);
    assert!(totals.events.cut_packets.get() > 0 && bytes > 0, "{totals:#?}");
}
