//! Books that break: each stage with a packet or a byte that is missing.

use super::*;
use std::collections::BTreeSet;
use weft_nic::nic::{Arrivals, ClassTotals, PortTotals};
use weft_nic::port::PortDrops;

fn count(packets: u64, bytes: u64) -> Counted {
    Counted::new(packets, bytes)
}

/// Ten packets of 100 bytes that all left, and two received ones.
fn totals() -> Totals {
    let ten = count(10, 1000);
    let ports = PortTotals {
        classes: vec![ClassTotals { posted: ten, fetched: ten, sent: ten, ..ClassTotals::default() }],
        arrivals: Arrivals { count: ten, unseen_ports: 0 },
        rx: count(2, 120),
        rx_passed: count(2, 120),
        rx_redirected: count(3, 300),
        rx_delivered: count(5, 420),
        ..PortTotals::default()
    };
    Totals { ports, uplink_writes: ten, uplink_arrived: ten, ..Totals::default() }
}

fn violations(totals: &Totals) -> usize {
    conservation(totals).violations().len()
}

#[test]
fn what_one_side_did_not_count_is_seen() {
    assert_eq!(violations(&totals()), 0);
    let mut wrong = totals();
    wrong.rx_passed = count(2, 119);
    assert_eq!(violations(&wrong), 1, "a byte is missing on the way back");
    let mut wrong = totals();
    wrong.classes[0].posted = count(10, 1001);
    assert_eq!(violations(&wrong), 2, "a byte is missing before the far end, and in total");
    let mut wrong = totals();
    wrong.uplink_arrived = count(9, 900);
    assert_eq!(violations(&wrong), 1, "a packet that nobody dropped is missing on the uplink");
}

#[test]
fn received_packets_are_counted_at_both_ends() {
    let violations = |edit: fn(&mut Totals)| {
        let mut totals = totals();
        edit(&mut totals);
        conservation(&totals).violations().len()
    };
    assert_eq!(violations(|t| t.rx_redirected = count(4, 360)), 1, "redirected and never delivered");
    assert_eq!(violations(|t| t.rx_redirected = count(3, 299)), 1, "a byte too few redirected");
    assert_eq!(violations(|t| t.rx_delivered = count(5, 421)), 1, "a byte too many delivered");
    assert_eq!(violations(|t| t.rx_delivered = count(6, 420)), 1, "delivered twice");
    assert_eq!(violations(|t| t.rx_refused = count(1, 60)), 2, "refused and written too");
    assert_eq!(
        violations(|t| (t.rx, t.rx_passed) = (count(3, 180), count(3, 180))),
        1,
        "written, not delivered"
    );
}

#[test]
fn received_packets_that_the_veth_dropped_are_known_by_number() {
    let mut dropped = totals();
    (dropped.rx_redirected, dropped.rx_dropped.veth) = (count(4, 1800), 1);
    let accounting = conservation(&dropped);
    assert_eq!(accounting.violations(), [""; 0]);
    assert_eq!(accounting.uncounted_bytes, ["receive"]);
    dropped.rx_dropped.macvtap = 1;
    assert_eq!(violations(&dropped), 0, "both count the same packet");
    dropped.rx_redirected = count(5, 1860);
    assert_eq!(violations(&dropped), 0, "or one each");
    dropped.rx_redirected = count(6, 1920);
    assert_eq!(violations(&dropped), 1, "more missing than dropped");
    (dropped.rx_redirected, dropped.rx_dropped.veth) = (count(4, 1800), 2);
    assert_eq!(violations(&dropped), 1, "more dropped than missing");
}

#[test]
fn a_thread_without_work_is_no_stage() {
    let names = |totals: &Totals| {
        let stages = conservation(totals).stages;
        stages
            .into_iter()
            .map(|stage| stage.name)
            .filter(|name| name.starts_with("receive"))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&totals()), ["receive thread", "receive"]);
    let nothing = count(0, 0);
    let mut kernel = totals();
    (kernel.rx, kernel.rx_passed, kernel.rx_delivered) = (nothing, nothing, count(3, 300));
    assert_eq!((names(&kernel), violations(&kernel)), (vec!["receive".to_owned()], 0));
}

#[test]
fn bytes_that_the_kernel_did_not_count_are_not_claimed() {
    let mut dropped = totals();
    dropped.classes[0].posted = count(12, 1200);
    dropped.drops = PortDrops { qdisc: 1, backlog: 1, ring_full: 0 };
    let accounting = conservation(&dropped);
    assert_eq!(accounting.violations(), [""; 0]);
    assert_eq!(accounting.uncounted_bytes, [FAR_END, "total"]);
    // The bytes cannot belong to these numbers of packets: too few for two, and too many for none.
    dropped.classes[0].posted = count(12, 1020);
    assert_eq!(violations(&dropped), 2);
    dropped.classes[0].posted = count(12, 1000 + (3 << 20));
    assert_eq!(violations(&dropped), 2);
}

#[test]
fn bytes_behind_the_far_end_are_checked_although_packets_were_dropped_before() {
    let mut dropped = totals();
    dropped.classes[0].posted = count(12, 1200);
    dropped.drops.backlog = 2;
    assert_eq!(violations(&dropped), 0);
    dropped.arrivals.count = count(10, 1001);
    assert_eq!(named(&dropped), BTreeSet::from([RINGS, "total"]), "a byte less was fetched");
}

#[test]
fn a_packet_that_no_counter_explains_is_named_with_what_was_read() {
    let mut vanished = totals();
    vanished.classes[0].posted = count(15, 1500);
    vanished.drops = PortDrops { qdisc: 1, backlog: 1, ring_full: 7 };
    let accounting = conservation(&vanished);
    let sentence = "port to far end: 3 packets are missing that no counter of the kernel explains (drops read: the port's \
                    qdisc 1, the receive backlog 1)";
    assert_eq!(accounting.unexplained, [sentence]);
    assert!(accounting.violations().iter().any(|violation| violation == sentence));
    let mut unseen = vanished;
    unseen.arrivals = Arrivals { unseen_ports: 1, ..Arrivals::default() };
    assert_eq!(conservation(&unseen).unexplained, [""; 0], "as one stage, nine were dropped");
    unseen.drops = PortDrops::default();
    assert_eq!(named(&unseen), BTreeSet::from([RINGS, "total"]));
}

#[test]
fn what_the_kernel_dropped_of_unannounced_packets_never_entered() {
    let mut bypassing = totals();
    bypassing.drops = PortDrops { qdisc: 0, backlog: 3, ring_full: 1 };
    assert_eq!(violations(&bypassing), 0);
}

#[test]
fn a_super_packet_that_the_kernel_drops_before_it_is_cut_counts_once() {
    let mut dropped = totals();
    dropped.classes[0].posted = count(21, 2100);
    (dropped.drops.backlog, dropped.cut) = (1, 10);
    assert_eq!(violations(&dropped), 0, "eleven segments were one packet");
    dropped.cut = 9;
    assert_ne!(violations(&dropped), 0);
    (dropped.drops.backlog, dropped.cut) = (0, 100);
    assert_ne!(violations(&dropped), 0, "and nothing was dropped");
    // A full ring, whose drop of a super-packet the kernel does not count.
    dropped.arrivals.unseen_ports = 1;
    assert_eq!(violations(&dropped), 0);
}

#[test]
fn what_came_without_a_doorbell_is_a_violation() {
    let mut strayed = totals();
    let eleven = count(11, 1060);
    (strayed.classes[0].fetched, strayed.classes[0].sent) = (eleven, eleven);
    (strayed.uplink_writes, strayed.uplink_arrived) = (eleven, eleven);
    assert_eq!(named(&strayed), BTreeSet::from([RINGS, "total"]));
    strayed.events.strays = Packets(1);
    assert_eq!(conservation(&strayed).unexplained, ["descriptor rings: 1 packets came without a doorbell"]);
    // Another packet that is missing does not make up for it.
    strayed.classes[0].posted = eleven;
    strayed.arrivals.count = eleven;
    assert_eq!(named(&strayed), BTreeSet::from([RINGS]));
}

#[test]
fn what_is_unexplained_while_the_nic_runs_is_what_was_given_up() {
    let mut running = totals();
    running.lost = 5;
    running.drops = PortDrops { qdisc: 1, backlog: 2, ring_full: 1 };
    assert_eq!(unexplained(&running), 1);
    running.cut = 1;
    assert_eq!(unexplained(&running), 0);
}

/// The stages that violations name.
fn named(totals: &Totals) -> BTreeSet<&'static str> {
    let violations = conservation(totals).violations();
    let of = |violation: &String| {
        let name = violation.split(':').next().unwrap_or_default();
        STAGES.into_iter().chain(["total"]).find(|stage| *stage == name).unwrap_or("another")
    };
    violations.iter().map(of).collect()
}

/// A fault of one stage: it loses what, between the code that counts what enters and the code that counts what leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Packet,
    Byte,
}

/// A million packets in each direction, each counted where the NIC counts it. `fault` happens to one of them, at a stage.
/// `honest`: each device and qdisc drops some packets, and counts them.
fn a_million(fault: Option<(&str, Fault)>, honest: bool) -> Totals {
    const MILLION: u64 = 1_000_000;
    let ports = PortTotals { classes: vec![ClassTotals::default()], ..PortTotals::default() };
    let mut totals = Totals { ports, ..Totals::default() };
    for number in 0..MILLION {
        let one = count(1, 60 + number * 7919 % 1455);
        let passes = |stage: &str, sum: &mut Counted| match fault {
            Some((at, Fault::Packet)) if at == stage && number == 777_776 => false,
            Some((at, Fault::Byte)) if at == stage && number == 777_776 => {
                *sum += count(1, one.bytes.get() - 1);
                true
            }
            _ => {
                *sum += one;
                true
            }
        };
        let drops = |of: u64| honest && number % 100_000 == of;
        let [_, _, engine, uplink, thread, receive] = STAGES;
        outwards(&mut totals, one, (&drops, &passes), [engine, uplink]);
        // By the thread, and by the kernel.
        if number % 2 == 0 {
            totals.rx += one;
            if drops(8) {
                totals.rx_refused += one;
            } else if passes(thread, &mut totals.rx_passed) {
                passes(receive, &mut totals.rx_delivered);
            }
        } else {
            totals.rx_redirected += one;
            if drops(9) {
                totals.rx_dropped.veth += 1;
            } else {
                passes(receive, &mut totals.rx_delivered);
            }
        }
    }
    totals
}

/// Passes a packet through a stage, into the count behind it. Returns whether the stage did not lose it.
type Passes<'a> = dyn Fn(&str, &mut Counted) -> bool + 'a;

/// Sends one packet.
fn outwards(
    totals: &mut Totals,
    one: Counted,
    (drops, passes): (&dyn Fn(u64) -> bool, &Passes<'_>),
    [engine, uplink]: [&str; 2],
) {
    let ports = &mut totals.ports;
    let class = &mut ports.classes[0];
    class.posted += one;
    if drops(1) {
        ports.drops.qdisc += 1;
    } else if drops(2) {
        ports.drops.backlog += 1;
    } else if passes(FAR_END, &mut ports.arrivals.count) {
        if drops(3) {
            ports.drops.ring_full += 1;
        } else if passes(RINGS, &mut class.fetched) {
            if drops(4) {
                class.refused += one;
            } else if drops(5) {
                class.held += one;
            } else if passes(engine, &mut class.sent) {
                totals.uplink_writes += one;
                if drops(6) {
                    totals.uplink_dropped += 1;
                } else {
                    passes(uplink, &mut totals.uplink_arrived);
                }
            }
        }
    }
}

/// A stage that is not in [`STAGES`], or that [`a_million`] has no fault for, fails here.
#[test]
fn a_model_that_loses_one_packet_in_a_million_turns_every_verdict_red() {
    let names = |totals: &Totals| -> Vec<String> {
        conservation(totals).stages.into_iter().map(|stage| stage.name).collect()
    };
    for honest in [false, true] {
        let whole = a_million(None, honest);
        assert_eq!(names(&whole), STAGES);
        assert_eq!(conservation(&whole).violations(), [""; 0], "honest drops: {honest}");
        for stage in STAGES {
            let lossy = a_million(Some((stage, Fault::Packet)), honest);
            assert!(named(&lossy).contains(stage), "{stage}, honest drops: {honest}");
        }
    }
}

#[test]
fn a_model_that_loses_one_byte_in_a_million_packets_turns_every_verdict_red() {
    for stage in STAGES {
        let lossy = a_million(Some((stage, Fault::Byte)), false);
        assert!(named(&lossy).contains(stage), "{stage}");
    }
}
