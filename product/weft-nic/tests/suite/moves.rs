//! A flow that belongs to another class, since the mark or priority of its TCP socket or the policy has changed, moves there in
//! bounded time, with its packets in order, although it is never silent and its old ring never empty.

use crate::common::bench;
use crate::common::bench::{Bench, Until, config, conserved, in_order};
use core::net::SocketAddr;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weft_host::netns::NetNs;
use weft_host::testing::{PATIENCE, until};
use weft_nic::testbed::RECEIVER;
use weft_units::{Counted, Nanos};

/// A policy in which unmarked packets are slow: a flow that left packets in its old ring would overtake them.
const POLICY: &str = "class fast = mark 7 or priority 3\nclass slow = any\n\
                      root = priority { fair of fast, limit 20mbps of fair of slow }";
/// As [`POLICY`], with the datagrams to a port for the fast class.
const PORT_IS_FAST: &str = "class fast = udp and dport 6000\nclass slow = any\n\
                            root = priority { fair of fast, limit 20mbps of fair of slow }";
/// The number of packets posted in the new class from which on a flow counts as moved.
const MOVED: u64 = 20;
/// The bytes that the slow class sends in a second, in which a flow moves.
const SECOND_OF_SLOW: u64 = 20_000_000 / 8;

/// The packets that class `name` has posted.
fn posted(bench: &Bench, name: &str) -> Counted {
    bench.of(&bench.nic.totals().expect("totals"), name).posted
}

/// Waits until the flow has moved from a class to another: until [`MOVED`] more packets were posted there. Returns what was posted
/// in its former class meanwhile; `None` if it does not move. A time would depend on the speed of the machine.
fn until_moved(bench: &Bench, from: &str, to: &str) -> Option<Counted> {
    let before = [from, to].map(|name| posted(bench, name));
    let moved = || posted(bench, to).packets.get() >= before[1].packets.get() + MOVED;
    until(PATIENCE, moved).then(|| posted(bench, from).saturating_sub(before[0]))
}

/// Segments that the TCP of `ns` received out of order.
fn out_of_order(ns: &NetNs) -> u64 {
    let text =
        ns.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat")).expect("ns").expect("netstat");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let mut pairs = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = pairs.find(|(name, _)| *name == "TCPOFOQueue").expect("TCPOFOQueue");
    value.parse().expect("a number")
}

/// Saturates the slow class by TCP, then applies `change` to the socket.
fn saturating_tcp(role: &str, change: impl Fn(&TcpStream)) {
    let bench = Bench::roomy(role, POLICY, 100);
    let address = SocketAddr::new(RECEIVER, 5000);
    let listener = bench.bed.receiver.run(|| TcpListener::bind(address)).expect("ns").expect("listener");
    let stop = AtomicBool::new(false);
    let near = bench.bed.sender.run(|| TcpStream::connect(address)).expect("ns").expect("connected");
    near.set_write_timeout(Some(Duration::from_millis(100))).expect("timeout");
    let (mut far, _) = listener.accept().expect("accepted");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            far.set_read_timeout(Some(PATIENCE)).expect("timeout");
            let mut buffer = vec![0; 1 << 16];
            while far.read(&mut buffer).is_ok_and(|n| n > 0) {}
        });
        let sender = scope.spawn(|| {
            let mut stream = &near;
            while !stop.load(Ordering::Relaxed) {
                let _ = stream.write(&[7; 60_000]);
            }
            let _ = near.shutdown(std::net::Shutdown::Both);
        });
        let saturated = until(PATIENCE, || posted(&bench, "slow").bytes.get() > SECOND_OF_SLOW / 2);
        let before = out_of_order(&bench.bed.receiver);
        change(&near);
        let meanwhile = until_moved(&bench, "slow", "fast");
        // What could be overtaken has left, and more behind it.
        let sent = until(PATIENCE, || {
            let totals = bench.nic.totals().expect("totals");
            let (slow, fast) = (bench.of(&totals, "slow"), bench.of(&totals, "fast"));
            slow.sent == slow.posted && fast.sent.packets.get() > 10 * MOVED
        });
        let after = out_of_order(&bench.bed.receiver);
        stop.store(true, Ordering::Relaxed);
        sender.join().expect("sender");
        assert!(saturated && sent, "{:#?}", bench.nic.totals());
        let meanwhile = meanwhile.unwrap_or_else(|| panic!("not moved: {:#?}", bench.nic.totals()));
        assert!(meanwhile.bytes.get() < SECOND_OF_SLOW, "{meanwhile:?} in the former class");
        assert_eq!(after - before, 0, "nothing overtakes");
    });
    bench.wait_closed();
    let totals = bench.nic.stop(Nanos::from_secs(2)).expect("stop");
    conserved(&totals);
    for class in &totals.classes {
        assert_eq!(class.posted, class.fetched, "each class its own: {totals:#?}");
    }
}

#[test]
fn saturating_tcp_moves_when_its_mark_changes() {
    if !weft_host::testing::privileged("saturating_tcp_moves_when_its_mark_changes") {
        return;
    }
    saturating_tcp("mvm", |stream| setsockopt(stream, sockopt::Mark, &7).expect("mark"));
}

#[test]
fn saturating_tcp_moves_when_its_priority_changes() {
    if !weft_host::testing::privileged("saturating_tcp_moves_when_its_priority_changes") {
        return;
    }
    saturating_tcp("mvp", |stream| setsockopt(stream, sockopt::Priority, &3).expect("priority"));
}

/// Sends numbered packets at intervals of at least `pause` until `stop`, and counts them in `sent`.
fn send_numbered(socket: &UdpSocket, to: u16, pause: Duration, (stop, sent): (&AtomicBool, &AtomicU64)) {
    for number in 0_u32.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        sent.fetch_add(1, Ordering::SeqCst);
        let mut packet = [0; 1200];
        packet[..4].copy_from_slice(&number.to_ne_bytes());
        socket.send_to(&packet, (RECEIVER, to)).expect("send");
        std::thread::sleep(pause);
    }
}

/// Puts another policy into force.
fn change(bench: &mut Bench, megabits: u64, text: &str) {
    let settings = config(megabits);
    let policy = bench::policy(text);
    let prepared = bench.nic.prepare_policy(&policy, (settings.rate, settings.link)).expect("prepared");
    bench.nic.change_policy(prepared, &[]).expect("changed");
}

/// The pause between two packets of the flood.
const PAUSE: Duration = Duration::from_micros(100);

#[test]
fn a_udp_flood_moves_in_order() {
    if !weft_host::testing::privileged("a_udp_flood_moves_in_order") {
        return;
    }
    let mut bench = Bench::roomy("mvu", POLICY, 100);
    let sink = bench.receiver(false, 6000);
    let socket = bench.sender(false);
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let received = scope.spawn(|| in_order(&sink, Until::Stopped(&stop)));
        scope.spawn(|| send_numbered(&socket, 6000, PAUSE, (&stop, &sent)));
        let saturated = until(PATIENCE, || posted(&bench, "slow").packets.get() > 2000);
        change(&mut bench, 100, PORT_IS_FAST);
        let there = until_moved(&bench, "slow", "fast");
        change(&mut bench, 100, POLICY);
        let back = until_moved(&bench, "fast", "slow");
        change(&mut bench, 100, PORT_IS_FAST);
        let again = until_moved(&bench, "slow", "fast");
        stop.store(true, Ordering::Relaxed);
        assert!(saturated, "{:#?}", bench.nic.totals());
        for meanwhile in [there, back, again] {
            let meanwhile = meanwhile.unwrap_or_else(|| panic!("not moved: {:#?}", bench.nic.totals()));
            // No more than are sent in a second.
            let most = (Duration::from_secs(1).as_micros() / PAUSE.as_micros()) as u64;
            assert!(meanwhile.packets.get() < most, "{meanwhile:?} in the former class");
        }
        assert!(received.join().expect("in order") > 100);
    });
    let totals = bench.nic.stop(Nanos::from_secs(2)).expect("stop");
    conserved(&totals);
}

/// A flood that overflows its ring does not affect the ring's other flows: they move.
#[test]
fn a_flow_moves_out_of_a_ring_that_overflows() {
    if !weft_host::testing::privileged("a_flow_moves_out_of_a_ring_that_overflows") {
        return;
    }
    let policy =
        |fast: &str| format!("class fast = {fast}\nclass slow = any\nroot = priority {{ fast, slow }}");
    // A class without `fair` has one ring.
    let mut bench = Bench::start("mvo", &policy("mark 7"), &config(20), 50, |_| ());
    let sink = bench.receiver(false, 6000);
    let (stop, socket) = (AtomicBool::new(false), bench.sender(false));
    let (sent, of_others) = (AtomicU64::new(0), AtomicU64::new(0));
    let (stop, moving, sent, of_others) = (&stop, &socket, &sent, &of_others);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let socket = bench.sender(false);
            setsockopt(&socket, sockopt::SndBufForce, &(8 << 20)).expect("buffer");
            scope.spawn(move || send_numbered(&socket, 6001, Duration::from_micros(50), (stop, of_others)));
        }
        let received = scope.spawn(|| in_order(&sink, Until::Stopped(stop)));
        let sender =
            scope.spawn(move || send_numbered(moving, 6000, Duration::from_millis(10), (stop, sent)));
        let overflows = until(PATIENCE, || {
            let totals = bench.nic.totals().expect("totals");
            let full = totals.drops.ring_full + bench.of(&totals, "slow").full.packets.get();
            full > 1000 && sent.load(Ordering::SeqCst) > 2 * MOVED
        });
        change(&mut bench, 20, &policy("udp and dport 6000"));
        let before = (sent.load(Ordering::SeqCst), posted(&bench, "fast").packets.get());
        let moved = until_moved(&bench, "slow", "fast").is_some();
        stop.store(true, Ordering::Relaxed);
        sender.join().expect("sender");
        assert!(overflows && moved, "not moved: {:#?}", bench.nic.totals());
        let after = (sent.load(Ordering::SeqCst), posted(&bench, "fast").packets.get());
        let elsewhere = (after.0 - before.0).saturating_sub(after.1 - before.1);
        // It sends a hundred in a second.
        assert!(elsewhere < 100, "{elsewhere} of its packets were not posted in its new class");
        // The packets that it sent into the full ring before may all be lost.
        assert!(received.join().expect("in order") >= MOVED as usize);
    });
    let totals = bench.nic.stop(Nanos::from_secs(2)).expect("stop");
    conserved(&totals);
}
