//! Every counted packet is counted out: also those dropped, cut or reset, and those of a terminated process.

use crate::common::assigned::{Assigned, PAYLOAD, get, pin, slow};
use crate::common::bench;
use core::net::SocketAddr;
use core::time::Duration;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;
use weft_host::Spawn;
use weft_host::process::Output;
use weft_host::testing::{PATIENCE, privileged, wait_for};
use weft_nic::multiqueue::Multiqueue;
use weft_nic::testbed::RECEIVER;
use weft_titan::settings::Settings;
use weft_units::BitsPerSec;

#[test]
fn what_a_full_ring_drops_has_left() {
    if !privileged("what_a_full_ring_drops_has_left") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let wanted = Multiqueue { ring_packets: 4, ..slow(4000) };
    let assigned = Assigned::start("tef", &wanted, &Settings::default());
    let flows: Vec<_> = (0..12).map(|_| assigned.flow()).collect();
    for _ in 0..3 {
        flows.iter().for_each(|flow| flow.send(40));
        std::thread::sleep(Duration::from_millis(20));
    }
    assigned.settled();
    let packets: u64 = assigned.queues().iter().map(|queue| get(&queue.packets)).sum();
    assert_eq!(packets, 12 * 3 * 40);
    let dropped = assigned.nic().totals().expect("totals").drops.ring_full;
    let delivered = assigned.delivered(packets.saturating_sub(dropped) as usize) as u64;
    let (totals, _) = assigned.finish();
    assert!(totals.drops.ring_full > 100, "{totals:?}");
    assert_eq!(delivered + totals.drops.ring_full, packets);
}

#[test]
fn a_packet_that_is_cut_is_counted_piece_by_piece() {
    if !privileged("a_packet_that_is_cut_is_counted_piece_by_piece") {
        return;
    }
    let _alone = weft_host::testing::alone();
    // With room for all, and with rings too small for most.
    for ring_packets in [4000, 3] {
        let wanted = Multiqueue { ring_packets, ..slow(40_000) };
        let assigned = Assigned::start("teg", &wanted, &Settings::default());
        let segment =
            |socket: &_| setsockopt(socket, sockopt::UdpGsoSegment, &(PAYLOAD as i32)).expect("segment");
        let flows: Vec<_> = (0..3).map(|_| assigned.flow_with(segment)).collect();
        for _ in 0..5 {
            for flow in &flows {
                for length in [10_500, 700, 2000] {
                    assert_eq!(flow.socket.send(&vec![3; length]).expect("sent"), length);
                }
            }
        }
        assigned.settled();
        let packets: u64 = assigned.queues().iter().map(|queue| get(&queue.packets)).sum();
        assert_eq!(packets, 3 * 5 * (11 + 1 + 2), "segments are counted");
        let all = if ring_packets == 3 { 0 } else { packets as usize };
        let delivered = assigned.delivered(all) as u64;
        if ring_packets == 3 {
            assert!(delivered < packets, "{delivered}");
            // The kernel's own counters do not balance for dropped super-packets, which this test does not check.
        } else {
            assert_eq!(delivered, packets);
            assigned.finish();
        }
    }
}

#[test]
fn a_killed_senders_flows_are_counted_out() {
    if !privileged("a_killed_senders_flows_are_counted_out") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let wanted = Multiqueue::new(BitsPerSec(30_000_000));
    let assigned = Assigned::start("tek", &wanted, &Settings::default());
    let mut server = Spawn::new("iperf3")
        .args(["--server", "--one-off", "--version4"])
        .netns(&assigned.bed.receiver)
        .stdout(Output::Capture)
        .start()
        .expect("server");
    bench::wait_listening(&assigned.bed.receiver, 5201);
    let mut client = Spawn::new("iperf3")
        .args(["--client", &RECEIVER.to_string(), "--parallel", "10", "--time", "20"])
        .netns(&assigned.bed.sender)
        .stdout(Output::Capture)
        .start()
        .expect("client");
    wait_for("all connections send", || assigned.active() >= 10);
    client.signal(rustix::process::Signal::KILL).expect("killed");
    assert!(!client.wait().expect("ended").success());
    assigned.settled();
    server.stop(Duration::from_millis(100)).expect("server ended");
    assigned.settled();
    assigned.finish();
}

/// A connection from the sender to the receiver.
fn connect(assigned: &Assigned) -> (TcpStream, TcpStream) {
    let address = SocketAddr::new(RECEIVER, 5001);
    let listener = assigned.bed.receiver.run(|| TcpListener::bind(address)).expect("ns").expect("listener");
    let out = assigned.bed.sender.run(|| TcpStream::connect(address)).expect("ns").expect("connected");
    (out, listener.accept().expect("accepted").0)
}

#[test]
fn a_reset_that_the_kernel_answers_with_is_no_packet_of_the_flow() {
    if !privileged("a_reset_that_the_kernel_answers_with_is_no_packet_of_the_flow") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let assigned = Assigned::start("ter", &slow(2000), &Settings::default());
    for _ in 0..5 {
        let (mut out, mut end) = connect(&assigned);
        // Closed with much unsent data: packets from the other end are answered with a reset, which carries the socket
        // and is not charged to it (skb_set_owner_edemux in ip_send_unicast_reply, net/ipv4/ip_output.c).
        out.write_all(&[5; 60_000]).expect("written");
        end.set_read_timeout(Some(PATIENCE)).expect("timeout");
        end.peek(&mut [0]).expect("the first data");
        drop(out);
        end.write_all(&[6; 100]).expect("written");
        let mut buffer = vec![0; 1 << 16];
        let ended = loop {
            match end.read(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(_) => {}
                Err(error) => break Err(error.kind()),
            }
        };
        assert_eq!(ended, Err(std::io::ErrorKind::ConnectionReset));
    }
    assigned.settled();
    assigned.finish();
}

#[test]
fn a_reset_behind_a_waiting_fin_counts_nothing_out() {
    if !privileged("a_reset_behind_a_waiting_fin_counts_nothing_out") {
        return;
    }
    let _alone = weft_host::testing::alone();
    // 280 ms per datagram: later packets wait.
    let assigned = Assigned::start("tew", &slow(30), &Settings::default());
    for _ in 0..3 {
        let (out, mut end) = connect(&assigned);
        assigned.quiet();
        let flow = assigned.flow();
        flow.send(4);
        drop(out);
        let active = assigned.active();
        assert_eq!(active, 2, "the FIN waits");
        // Data for a closed socket: the reset is not charged to it, so that the FIN's charge may look like its own.
        let posted = || assigned.nic().totals().expect("totals").sum(|class| class.posted).packets.get();
        let before = posted();
        end.write_all(&[6; 100]).expect("written");
        wait_for("the reset is sent", || posted() > before);
        assert_eq!(assigned.active(), 2, "the FIN waits still: {:?}", assigned.titan().totals());
        assert_eq!(get(&assigned.titan().totals().repaired), 0, "{:?}", assigned.titan().totals());
        assigned.settled();
    }
    assigned.finish();
}

#[test]
fn a_flow_that_waits_for_long_stays_counted() {
    if !privileged("a_flow_that_waits_for_long_stays_counted") {
        return;
    }
    let _alone = weft_host::testing::alone();
    // 570 ms per datagram: the sweep has checked the flow several times before its last packet has left.
    let assigned = Assigned::start("tes", &slow(15), &Settings::default());
    assigned.titan().page().sweep_off.store(0, std::sync::atomic::Ordering::SeqCst);
    let (first, flow) = (assigned.flow(), assigned.flow());
    first.send(1);
    // The first flow that ends starts the sweep.
    assigned.quiet();
    flow.send(15);
    // For four seconds of the link; the others wait for four more, however late the test looks.
    let sent = || assigned.nic().totals().expect("totals").sum(|class| class.sent).packets.get();
    wait_for("seven datagrams are sent", || sent() > 7);
    assert!(assigned.record(&flow).is_active(), "{:?}", assigned.titan().totals());
    assert_eq!(get(&assigned.titan().totals().swept), 0, "its socket's charge says that it waits");
    assigned.settled();
    assigned.finish();
}

#[test]
fn a_socket_that_two_cores_send_from_keeps_the_accounting() {
    if !privileged("a_socket_that_two_cores_send_from_keeps_the_accounting") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let wanted = Multiqueue::new(BitsPerSec(2_000_000_000));
    let assigned = Assigned::start("tec", &wanted, &Settings::default());
    let flows: Vec<_> = (0..4).map(|_| assigned.flow()).collect();
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get()).min(4);
    let page = assigned.titan().page();
    // Until all flows have ended, however slow the machine; the other cores may continue to send.
    let pause = || {
        let until = Instant::now() + Duration::from_millis(50);
        while page.active() > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(100));
        }
    };
    std::thread::scope(|scope| {
        for core in 0..cores {
            let (flows, pause) = (&flows, &pause);
            scope.spawn(move || {
                pin(core);
                for round in 0..4000 {
                    flows[round % flows.len()].send(1);
                    if round % 64 == 0 {
                        pause();
                    }
                }
            });
        }
    });
    let totals = assigned.titan().totals();
    assert!(assigned.titan().page().activations() > 100, "they ended and began: {totals:?}");
    assigned.settled();
    assigned.finish();
}
