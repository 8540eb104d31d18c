//! Flows: their order in every mode, the bound on tracked flows, and the segmentation and interleaving of their
//! packets.

use crate::common::bench;
use crate::common::bench::{Bench, Until, config, conserved, doorbells_only, in_order, set_mark};
use core::net::SocketAddr;
use core::num::NonZeroU32;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_host::testing::{PATIENCE, until};
use weft_nic::doorbell::{FLOW_IDLE, end_hashing};
use weft_nic::nic::{NicConfig, NicPlan};
use weft_nic::plan::{Mode, RingPlan};
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_nic::worker::SegmentsPerTurn;
use weft_units::Nanos;

const POLICY: &str = "class u = udp\nclass t = tcp\nroot = wfq { fair of u: 1, fair of t: 1 }";

/// The sockets of two senders. They stay open until all have sent: the port of a closed one may be another's, and its numbers begin
/// anew.
fn senders(bed: &Testbed, flows: usize) -> [Vec<UdpSocket>; 2] {
    [(); 2].map(|()| (0..flows).map(|_| bench::socket(&bed.sender, bench::unspecified(false))).collect())
}

/// Sends `packets` numbered packets on each of `sockets`, in turns, from processor `cpu`.
fn numbered(sockets: &[UdpSocket], packets: u32, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // On a machine with one processor both threads share it.
    let _ = sched_setaffinity(None, &set);
    for number in 0..packets {
        for socket in sockets {
            let mut packet = [0; 400];
            packet[..4].copy_from_slice(&number.to_ne_bytes());
            socket.send_to(&packet, (RECEIVER, 6000)).expect("send");
        }
    }
}

#[test]
fn no_mode_reorders_a_flow() {
    if !weft_host::testing::privileged("no_mode_reorders_a_flow") {
        return;
    }
    let modes = [Mode::OneRing, Mode::HashedRings { queues: 3 }, Mode::RingPerFlow, Mode::Loom];
    for mode in modes {
        let config = NicConfig { mode, flows: vec![6, 2, 1], rings: 12, ..config(200) };
        let bench = Bench::start(&format!("ord{}", mode.name()), POLICY, &config, 8000, |_| ());
        let sink = bench.receiver(false, 6000);
        let senders = senders(&bench.bed, 4);
        let received = std::thread::scope(|scope| {
            let receive = scope.spawn(|| in_order(&sink, Until::Arrived(8000)));
            for (cpu, sockets) in senders.iter().enumerate() {
                scope.spawn(move || numbered(sockets, 1000, cpu));
            }
            let bed = &bench.bed;
            scope.spawn(move || transfer(bed, 5000, 500_000));
            receive.join().expect("in order")
        });
        assert_eq!(received, 8000, "{mode:?}");
        let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
        conserved(&totals);
        assert_eq!((totals.drops, totals.events.strays.get()), (Default::default(), 0), "{mode:?}");
        for class in &totals.classes {
            assert_eq!(class.posted, class.fetched, "each class its own, in {mode:?}: {totals:#?}");
        }
    }
}

/// The byte at position `i` of a transfer.
fn pattern(i: usize) -> u8 {
    (i ^ (i >> 8) ^ (i >> 16)) as u8
}

/// Transfers `bytes` over TCP and compares them.
fn transfer(bed: &Testbed, port: u16, bytes: usize) {
    let address = SocketAddr::new(RECEIVER, port);
    let listener = bed.receiver.run(|| TcpListener::bind(address)).expect("ns").expect("listener");
    let mut stream = bed.sender.run(|| TcpStream::connect(address)).expect("ns").expect("connected");
    let (mut far, _) = listener.accept().expect("accepted");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let data: Vec<u8> = (0..bytes).map(pattern).collect();
            stream.write_all(&data).expect("written");
        });
        let mut data = Vec::with_capacity(bytes);
        far.set_read_timeout(Some(PATIENCE)).expect("timeout");
        far.read_to_end(&mut data).expect("read");
        assert_eq!(data.len(), bytes);
        let wrong = data.iter().enumerate().find(|(i, b)| **b != pattern(*i));
        assert_eq!(wrong, None, "intact");
    });
}

/// A socket that captures the frames of the wire.
fn tap_wire(bench: &Bench) -> OwnedFd {
    let open = || {
        let (family, kind) = (AddressFamily::Packet, SockType::Raw);
        nix::sys::socket::socket(family, kind, SockFlag::SOCK_NONBLOCK, SockProtocol::EthAll)
    };
    let socket = bench.bed.receiver.run(open).expect("namespace").expect("packet socket");
    nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBufForce, &(64 << 20))
        .expect("buffer");
    socket
}

/// Destination port and length of each TCP frame with data that the receiver got, in order.
fn data_frames(wire: &OwnedFd) -> Vec<(u16, usize)> {
    let mut frames = Vec::new();
    let mut buffer = vec![0; 70_000];
    while let Ok(length) = nix::sys::socket::recv(wire.as_raw_fd(), &mut buffer, MsgFlags::empty()) {
        let frame = &buffer[..length];
        if length > 1000 && frame[12..14] == [8, 0] && frame[23] == 6 {
            let port = u16::from_be_bytes([frame[36], frame[37]]);
            if port < 6000 {
                frames.push((port, length));
            }
        }
    }
    frames
}

#[test]
fn super_packets_are_cut_and_interleave() {
    if !weft_host::testing::privileged("super_packets_are_cut_and_interleave") {
        return;
    }
    let segments_per_turn = |n| NonZeroU32::new(n).map_or(SegmentsPerTurn::Whole, SegmentsPerTurn::AtMost);
    // In the middle of the transfer both flows have waiting packets: after each turn the other flow sends.
    for (name, segments) in [("one", 1), ("four", 4), ("whole", 0)] {
        let config = NicConfig { segments_per_turn: segments_per_turn(segments), ..config(100) };
        let bench = Bench::start(&format!("grn{name}"), POLICY, &config, 8000, |_| ());
        let wire = tap_wire(&bench);
        std::thread::scope(|scope| {
            for port in [5001, 5002] {
                let bed = &bench.bed;
                scope.spawn(move || transfer(bed, port, 3_000_000));
            }
        });
        let frames = data_frames(&wire);
        let longest = frames.iter().map(|f| f.1).max().unwrap_or(0);
        let middle = &frames[frames.len() / 4..frames.len() / 2];
        let turns = middle.windows(2).filter(|pair| pair[0].0 != pair[1].0).count();
        let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
        conserved(&totals);
        match segments {
            0 => assert!(longest > 10_000, "whole super-packets on the wire: {longest}"),
            n => {
                assert!(longest <= 66 + 1448 * n as usize, "{longest} bytes at segments_per_turn {n}");
                let frames = middle.len();
                assert!(
                    turns * 10 >= frames * 7,
                    "{turns} changes in {frames} frames at segments_per_turn {n}"
                );
            }
        }
        let tcp = &totals.classes[1];
        assert!(tcp.wire.packets.get() >= 6_000_000 / 1448, "MTU-size frames are counted: {totals:#?}");
        assert_eq!(tcp.sent, tcp.posted);
    }
}

#[test]
fn flows_beyond_the_bound_share_rings_and_harm_nobody() {
    if !weft_host::testing::privileged("flows_beyond_the_bound_share_rings_and_harm_nobody") {
        return;
    }
    let text = "class many = udp and dport 6000\nclass few = udp and dport 7000\nroot = wfq { fair of many: 1, fair of few: 1 }";
    let bound = |plan: &mut NicPlan| plan.lanes_mut()[0].flow_bound = 8;
    let bench = Bench::start("bnd", text, &NicConfig { rings: 16, ..config(200) }, 8000, bound);
    let sink = bench.receiver(false, 6000);
    let other = bench.receiver(false, 7000);
    let senders = senders(&bench.bed, 30);
    let received = std::thread::scope(|scope| {
        let receive = scope.spawn(|| in_order(&sink, Until::Arrived(6000)));
        for (cpu, sockets) in senders.iter().enumerate() {
            scope.spawn(move || numbered(sockets, 100, cpu));
        }
        let bed = &bench.bed;
        scope.spawn(move || {
            for _ in 0..10 {
                let socket = bench::socket(&bed.sender, bench::unspecified(false));
                socket.send_to(&[0; 100], (RECEIVER, 7000)).expect("send");
            }
        });
        receive.join().expect("in order")
    });
    assert_eq!(received, 6000, "none is lost");
    assert_eq!(bench::arrivals(&other, 10).len(), 10);
    let flows = bench.nic.flows_by_class();
    assert_eq!(flows[..2], [8, 10], "to the flow");
    let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
    conserved(&totals);
    assert!(totals.classes[0].events.untracked.get() >= 51 * 100, "{totals:#?}");
    assert_eq!(totals.classes[1].events.untracked.get(), 0);
    assert_eq!((totals.classes[0].posted, totals.events.strays.get()), (totals.classes[0].fetched, 0));
}

/// A flow that was beyond the bound keeps its ring when it becomes tracked, since its earlier packets are still there.
#[test]
fn a_flow_that_is_tracked_late_does_not_overtake_itself() {
    if !weft_host::testing::privileged("a_flow_that_is_tracked_late_does_not_overtake_itself") {
        return;
    }
    let text = "class u = udp\nroot = fair of u";
    let (ns, doorbells) = doorbells_only("late", text, 1);
    let shared = doorbells.shared();
    let sockets: Vec<_> = (0..20).map(|_| bench::socket(&ns, bench::unspecified(false))).collect();
    let packets = || shared.rings.iter().map(|r| r.packets.load(Ordering::SeqCst)).collect::<Vec<u64>>();
    let ring_of = |i: usize| {
        let before = packets();
        sockets[i].send_to(&[0; 50], ("10.77.0.2", 1)).expect("send");
        before.iter().zip(packets()).position(|(b, a)| *b != a).expect("a doorbell")
    };
    let tracked = || shared.lanes[0].flows.load(Ordering::SeqCst);
    let first: Vec<usize> = (0..20).map(ring_of).collect();
    assert_eq!(tracked(), 1);
    let table = doorbells.flow_table().expect("table");
    for (i, first) in first.into_iter().enumerate().skip(1) {
        // The tracked flow has been silent for long, and its packets have left: there is room for another.
        packets().iter().zip(&shared.rings).for_each(|(&n, ring)| ring.done.store(n, Ordering::SeqCst));
        table.expire(weft_units::Instant::MAX).expect("tidied");
        assert_eq!(tracked(), 0);
        assert_eq!(ring_of(i), first, "flow {i}");
        assert_eq!(tracked(), 1);
    }
}

#[test]
fn idle_flows_expire_once_their_packets_are_gone() {
    if !weft_host::testing::privileged("idle_flows_expire_once_their_packets_are_gone") {
        return;
    }
    let (ns, doorbells) = doorbells_only("idle", "class u = udp\nroot = fair of u", 100);
    let shared = doorbells.shared();
    let flows = || shared.lanes[0].flows.load(Ordering::SeqCst);
    for _ in 0..10 {
        let socket = bench::socket(&ns, bench::unspecified(false));
        socket.send_to(&[0; 50], ("10.77.0.2", 1)).expect("send");
    }
    assert_eq!(flows(), 10);
    let table = doorbells.flow_table().expect("table");
    let now = weft_host::clock::now();
    table.expire(now + FLOW_IDLE).expect("tidied");
    assert_eq!(flows(), 10, "not yet");
    let later = now + FLOW_IDLE + Nanos::from_secs(1);
    table.expire(later).expect("tidied");
    assert_eq!(flows(), 10, "a flow of which a packet waits would overtake it in another ring");
    // One ring is done completely. The other is never empty, but all packets posted until a much later time are done.
    let mut posted = shared.rings.iter().filter(|ring| ring.packets.load(Ordering::SeqCst) > 0);
    let (one, another) = (posted.next().expect("a ring"), posted.next().expect("another ring"));
    one.done.store(one.packets.load(Ordering::SeqCst), Ordering::SeqCst);
    another.passed.store(now.as_nanos() + 1_000_000_000, Ordering::SeqCst);
    let left = 10 - [one, another].map(|ring| ring.packets.load(Ordering::SeqCst) as u32).iter().sum::<u32>();
    let tidied = table.expire(later).expect("tidied");
    assert_eq!((tidied.seen, tidied.expired, flows()), (10, 10 - left, left));
    for ring in &shared.rings {
        ring.done.store(ring.packets.load(Ordering::SeqCst), Ordering::SeqCst);
    }
    table.expire(later).expect("tidied");
    assert_eq!(flows(), 0);
}

#[test]
fn a_flow_is_looked_at_however_many_there_are() {
    if !weft_host::testing::privileged("a_flow_is_looked_at_however_many_there_are") {
        return;
    }
    let (ns, doorbells) = doorbells_only("many", "class u = udp\nroot = fair of u", 100);
    let shared = doorbells.shared();
    let sockets: Vec<_> = (0..50).map(|_| bench::socket(&ns, bench::unspecified(false))).collect();
    let send = |i: usize| sockets[i].send_to(&[0; 50], ("10.77.0.2", 1)).expect("send");
    (0..50).for_each(|i| _ = send(i));
    // A clock of one kernel: the packets have passed the program when `send_to` returns.
    let silent_since = weft_host::clock::now();
    // Half of them continue to send; the others must be found among them.
    (0..25).for_each(|i| _ = send(i));
    for ring in &shared.rings {
        ring.done.store(ring.packets.load(Ordering::SeqCst), Ordering::SeqCst);
    }
    let table = doorbells.flow_table().expect("table");
    let tidied = table.expire(silent_since + FLOW_IDLE).expect("tidied");
    assert_eq!((tidied.seen, tidied.expired), (50, 25));
    assert_eq!(shared.lanes[0].flows.load(Ordering::SeqCst), 25);
}

/// Sends packets to `port` at the other end as fast as it can until `stop`.
fn flood(socket: &UdpSocket, port: u16, to: core::net::IpAddr, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        let _ = socket.send_to(&[0; 100], (to, port));
    }
}

/// The silent flows stay for ten seconds, in which they are counted.
const FLOWS_SEEN: Duration = Duration::from_secs(5);

/// Neither received traffic nor traffic that overflows a ring keeps silent flows in the table.
#[test]
fn silent_flows_expire_during_floods_of_both_directions() {
    if !weft_host::testing::privileged("silent_flows_expire_during_floods_of_both_directions") {
        return;
    }
    let bench = Bench::start("exf", "class u = udp\nroot = u", &config(20), 50, |_| ());
    // Open at the same time, so that each has its own port.
    let silent: Vec<_> = (0..100).map(|_| bench.sender(false)).collect();
    silent.iter().for_each(|socket| _ = socket.send_to(&[0; 50], (RECEIVER, 6000)).expect("send"));
    let (out, back) = (bench.sender(false), bench.receiver(false, 0));
    let stop = AtomicBool::new(false);
    let (before, left) = std::thread::scope(|scope| {
        scope.spawn(|| flood(&out, 6001, RECEIVER, &stop));
        scope.spawn(|| flood(&back, 6002, weft_nic::testbed::SENDER, &stop));
        let _ = until(FLOWS_SEEN, || bench.nic.flows_by_class()[0] >= 101);
        let before = bench.nic.flows_by_class()[0];
        std::thread::sleep(Duration::from_secs(1) + Duration::from_nanos(FLOW_IDLE.get()));
        let _ = until(PATIENCE, || bench.nic.flows_by_class()[0] <= 1);
        stop.store(true, Ordering::Relaxed);
        (before, bench.nic.flows_by_class()[0])
    });
    assert_eq!(before, 101);
    assert_eq!(left, 1, "all but the flood's own flow");
    let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
    assert!(totals.rx.packets.get() > 1000, "{totals:#?}");
    conserved(&totals);
}

/// A thread that sends alternately from two cores keeps its packets in order, whatever the load of the cores.
#[test]
fn a_thread_that_changes_cores_is_not_reordered() {
    if !weft_host::testing::privileged("a_thread_that_changes_cores_is_not_reordered") {
        return;
    }
    let bench = Bench::roomy("mig", POLICY, 1000);
    let sink = bench.receiver(false, 6000);
    let stop = AtomicBool::new(false);
    const PACKETS: u32 = 30_000;
    let received = std::thread::scope(|scope| {
        let receive = scope.spawn(|| in_order(&sink, Until::Stopped(&stop)));
        for cpu in 0..2 {
            let (socket, stop) = (bench.sender(false), &stop);
            scope.spawn(move || {
                let mut set = CpuSet::new();
                set.set(cpu);
                let _ = sched_setaffinity(None, &set);
                flood(&socket, 6001, RECEIVER, stop);
            });
        }
        let (socket, stop) = (bench.sender(false), &stop);
        scope.spawn(move || {
            for number in 0..PACKETS {
                let mut set = CpuSet::new();
                set.set((number / 3 % 2) as usize);
                let _ = sched_setaffinity(None, &set);
                socket.send_to(&number.to_ne_bytes(), (RECEIVER, 6000)).expect("send");
            }
            stop.store(true, Ordering::Relaxed);
        });
        receive.join().expect("in order")
    });
    assert!(received > 1000, "{received}");
    conserved(&bench.nic.stop(Nanos::from_secs(1)).expect("stop"));
}

/// A class with more flows than its bound places new flows by hash, and only while packets of the excess flows may
/// wait.
#[test]
fn a_class_returns_from_hashing_when_the_crowd_has_left() {
    if !weft_host::testing::privileged("a_class_returns_from_hashing_when_the_crowd_has_left") {
        return;
    }
    let (ns, doorbells) = doorbells_only("hsh", "class u = udp\nroot = fair of u", 15);
    let shared = doorbells.shared();
    let policy = bench::policy("class u = udp\nroot = fair of u");
    let plan = RingPlan::new(&policy, Mode::Loom, 16, &[]).expect("plan");
    let send = |count: usize| {
        let sockets: Vec<_> = (0..count).map(|_| bench::socket(&ns, bench::unspecified(false))).collect();
        sockets.iter().for_each(|socket| _ = socket.send_to(&[0; 50], ("10.77.0.2", 1)).expect("send"));
    };
    let posted = || shared.rings.iter().map(|r| r.packets.load(Ordering::SeqCst)).collect::<Vec<u64>>();
    let all_done = || {
        posted().iter().zip(&shared.rings).for_each(|(&n, ring)| ring.done.store(n, Ordering::SeqCst));
    };
    let hashing = || shared.lanes[0].untracked.load(Ordering::SeqCst) != 0;
    let table = doorbells.flow_table().expect("table");
    let later = || weft_host::clock::now() + FLOW_IDLE + Nanos::from_secs(1);
    send(40);
    assert!(hashing());
    end_hashing(shared, &plan.lanes, later());
    assert!(hashing(), "packets of the crowd wait");
    all_done();
    end_hashing(shared, &plan.lanes, weft_host::clock::now());
    assert!(hashing(), "one of the crowd may be between its doorbell and its ring");
    table.expire(later()).expect("tidied");
    end_hashing(shared, &plan.lanes, later());
    assert!(!hashing());
    let before = posted();
    let rings = plan.lanes[0].rings.min(15);
    send(usize::from(rings));
    let after = posted();
    let each: Vec<u64> = after.iter().zip(&before).map(|(a, b)| a - b).filter(|&n| n > 0).collect();
    assert_eq!(each, vec![1; usize::from(rings)], "each new flow in a ring of its own");
}

/// A socket for segments of TCP, which go out as they are. Its descriptor is wrapped for its `send_to`, which any socket of IPv4 has.
fn tcp_segments(ns: &weft_host::netns::NetNs) -> UdpSocket {
    let open = || {
        nix::sys::socket::socket(
            AddressFamily::Inet,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::Tcp,
        )
    };
    UdpSocket::from(ns.run(open).expect("namespace").expect("raw socket"))
}

/// Two cores send on TCP flows whose marks change, while flows are removed from the table: the lanes' counts stay
/// consistent with the table.
#[test]
fn moves_and_expiry_at_once_keep_the_counts_of_the_lanes() {
    if !weft_host::testing::privileged("moves_and_expiry_at_once_keep_the_counts_of_the_lanes") {
        return;
    }
    let text = "class a = mark 1\nclass b = mark 2\nroot = wfq { fair of a: 1, fair of b: 1 }";
    let (ns, doorbells) = doorbells_only("cnt", text, 1000);
    let shared = doorbells.shared();
    let sockets: Vec<_> = (0..8).map(|_| tcp_segments(&ns)).collect();
    let table = doorbells.flow_table().expect("table");
    let stop = AtomicBool::new(false);
    let counts = || shared.lanes.iter().map(|l| l.flows.load(Ordering::SeqCst)).collect::<Vec<u32>>();
    let (sockets, stop) = (&sockets, &stop);
    let records = doorbells.records(|_| ()).expect("records");
    std::thread::scope(|scope| {
        for cpu in 0..2 {
            scope.spawn(move || {
                let mut set = CpuSet::new();
                set.set(cpu);
                let _ = sched_setaffinity(None, &set);
                while !stop.load(Ordering::Relaxed) {
                    for (port, socket) in (1..).zip(sockets) {
                        let mut segment = [0; 50];
                        (segment[1], segment[12]) = (port, 5 << 4);
                        let _ = socket.send_to(&segment, ("10.77.0.2", 1));
                    }
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // A NIC that takes all packets at once.
                for ring in &shared.rings {
                    ring.done.store(ring.packets.load(Ordering::SeqCst), Ordering::SeqCst);
                }
                for class in &shared.classes {
                    class.done.store(class.packets.load(Ordering::SeqCst), Ordering::SeqCst);
                }
                std::thread::yield_now();
            }
        });
        let until = Instant::now() + Duration::from_secs(2);
        let mut round = 0_u32;
        while Instant::now() < until {
            for (i, socket) in sockets.iter().enumerate() {
                set_mark(socket, 1 + (round + i as u32) % 2);
            }
            if round.is_multiple_of(10) {
                table.expire(weft_host::clock::now() + FLOW_IDLE + Nanos::from_secs(1)).expect("tidied");
            }
            records.consume();
            round += 1;
            let counts = counts();
            assert!(counts.iter().all(|&n| n <= 16), "{counts:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let all: u32 = counts().iter().sum();
    for ring in &shared.rings {
        ring.done.store(ring.packets.load(Ordering::SeqCst), Ordering::SeqCst);
    }
    let later = weft_host::clock::now() + FLOW_IDLE + Nanos::from_secs(1);
    let tidied = table.expire(later).expect("tidied");
    assert_eq!((tidied.seen, tidied.expired), (all, all));
    assert!(counts().iter().all(|&n| n == 0), "{:?}", counts());
}
