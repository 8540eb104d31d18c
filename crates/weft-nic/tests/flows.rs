//! Flows: their order in every mode, the bound on how many are tracked, and how their packets are cut and interleaved.

#[path = "common/bench.rs"]
mod bench;

use bench::{Bench, config, conserved, in_order};
use core::net::SocketAddr;
use core::num::NonZeroU32;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_host::netns::NetNs;
use weft_host::{Mac, link};
use weft_nic::doorbell::{Doorbells, FLOW_IDLE};
use weft_nic::nic::NicConfig;
use weft_nic::plan::{Mode, RingPlan};
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_nic::worker::Grain;
use weft_units::Nanos;

const POLICY: &str = "class u = udp\nclass t = tcp\nroot = wfq { fair of u: 1, fair of t: 1 }";

/// Sends `packets` numbered packets on each of `flows` sockets, in turns, from processor `cpu`.
fn numbered(bed: &Testbed, flows: usize, packets: u32, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // On a machine of one processor both threads share it.
    let _ = sched_setaffinity(None, &set);
    let sockets: Vec<_> = (0..flows).map(|_| bench::socket(&bed.sender, bench::unspecified(false))).collect();
    for number in 0..packets {
        for socket in &sockets {
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
    let modes = [Mode::Sq, Mode::Mq { queues: 3 }, Mode::Qpf, Mode::Loom];
    for mode in modes {
        let config = NicConfig { mode, flows: vec![6, 2, 1], rings: 12, ..config(200) };
        let bench = Bench::start(&format!("ord{}", mode.name()), POLICY, &config, 8000, |_| ());
        let sink = bench.receiver(false, 6000);
        let received = std::thread::scope(|scope| {
            let receive = scope.spawn(|| in_order(&sink));
            for cpu in 0..2 {
                let bed = &bench.bed;
                scope.spawn(move || numbered(bed, 4, 1000, cpu));
            }
            let bed = &bench.bed;
            scope.spawn(move || transfer(bed, 5000, 500_000));
            receive.join().expect("in order")
        });
        assert_eq!(received, 8000, "{mode:?}");
        let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
        conserved(&totals);
        assert_eq!((totals.drops, totals.strays), (Default::default(), 0), "{mode:?}");
        for class in &totals.classes {
            assert_eq!(class.rung, class.fetched, "each class its own, in {mode:?}: {totals:#?}");
        }
    }
}

/// The byte at `i` of what is transferred.
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
        far.set_read_timeout(Some(Duration::from_secs(5))).expect("timeout");
        far.read_to_end(&mut data).expect("read");
        assert_eq!(data.len(), bytes);
        let wrong = data.iter().enumerate().find(|(i, b)| **b != pattern(*i));
        assert_eq!(wrong, None, "intact");
    });
}

/// A socket that sees the frames of the wire.
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
fn super_packets_are_cut_by_the_grain_and_interleave() {
    if !weft_host::testing::privileged("super_packets_are_cut_by_the_grain_and_interleave") {
        return;
    }
    let grain = |n| NonZeroU32::new(n).map_or(Grain::Whole, Grain::Segments);
    // In the middle of the transfer both flows have packets waiting: after each grain the other one goes.
    for (name, segments) in [("one", 1), ("four", 4), ("whole", 0)] {
        let config = NicConfig { grain: grain(segments), ..config(100) };
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
                assert!(longest <= 66 + 1448 * n as usize, "{longest} bytes at grain {n}");
                let frames = middle.len();
                assert!(turns * 10 >= frames * 7, "{turns} changes in {frames} frames at grain {n}");
            }
        }
        let tcp = &totals.classes[1];
        assert!(tcp.wire.packets.get() >= 6_000_000 / 1448, "MTU-size frames are counted: {totals:#?}");
        assert_eq!(tcp.sent, tcp.rung);
    }
}

#[test]
fn flows_beyond_the_bound_share_rings_and_harm_nobody() {
    if !weft_host::testing::privileged("flows_beyond_the_bound_share_rings_and_harm_nobody") {
        return;
    }
    let text = "class many = udp and dport 6000\nclass few = udp and dport 7000\nroot = wfq { fair of many: 1, fair of few: 1 }";
    let bound = |plan: &mut RingPlan| plan.lanes[0].flow_bound = 8;
    let bench = Bench::start("bnd", text, &NicConfig { rings: 16, ..config(200) }, 8000, bound);
    let sink = bench.receiver(false, 6000);
    let other = bench.receiver(false, 7000);
    let received = std::thread::scope(|scope| {
        let receive = scope.spawn(|| in_order(&sink));
        for cpu in 0..2 {
            let bed = &bench.bed;
            scope.spawn(move || numbered(bed, 30, 100, cpu));
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
    let mut others = 0;
    while other.recv(&mut [0; 200]).is_ok() {
        others += 1;
    }
    assert_eq!(others, 10);
    let flows = bench.nic.flows_by_class();
    // Two processors may find the last place at once.
    assert!((8..=9).contains(&flows[0]) && flows[1] == 10, "{flows:?}");
    let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
    conserved(&totals);
    assert!(totals.classes[0].untracked.get() >= 51 * 100, "{totals:#?}");
    assert_eq!(totals.classes[1].untracked.get(), 0);
    assert_eq!((totals.classes[0].rung, totals.strays), (totals.classes[0].fetched, 0));
}

/// A flow that was beyond the bound keeps its ring when there is room for it: what it sent before is still there.
#[test]
fn a_flow_that_is_tracked_late_does_not_overtake_itself() {
    if !weft_host::testing::privileged("a_flow_that_is_tracked_late_does_not_overtake_itself") {
        return;
    }
    let text = "class u = udp\nroot = fair of u";
    let (ns, doorbells) = bells_only("late", text, 1);
    let shared = doorbells.shared();
    let sockets: Vec<_> = (0..20).map(|_| bench::socket(&ns, bench::unspecified(false))).collect();
    let packets = || shared.rings.iter().map(|r| r.packets.load(Ordering::SeqCst)).collect::<Vec<u64>>();
    let ring_of = |i: usize| {
        let before = packets();
        sockets[i].send_to(&[0; 50], ("10.77.0.2", 1)).expect("send");
        before.iter().zip(packets()).position(|(b, a)| *b != a).expect("a bell")
    };
    let tracked = || shared.lanes[0].flows.load(Ordering::SeqCst);
    let first: Vec<usize> = (0..20).map(ring_of).collect();
    assert_eq!(tracked(), 1);
    let table = doorbells.flow_table().expect("table");
    for (i, first) in first.into_iter().enumerate().skip(1) {
        // The flow that is tracked has been silent for long, and its packet is gone: there is room for one.
        packets().iter().zip(&shared.rings).for_each(|(&n, ring)| ring.done.store(n, Ordering::SeqCst));
        table.expire(shared, Nanos(u64::MAX), 1000);
        assert_eq!(tracked(), 0);
        assert_eq!(ring_of(i), first, "flow {i}");
        assert_eq!(tracked(), 1);
    }
}

/// The program on a link whose packets nobody takes: what the bells say is all there is.
fn bells_only(role: &str, text: &str, flow_bound: u32) -> (NetNs, Doorbells) {
    let policy = bench::policy(text);
    let mut plan = RingPlan::new(&policy, Mode::Loom, 16, &[]).expect("plan");
    plan.lanes.iter_mut().for_each(|lane| lane.flow_bound = flow_bound);
    let doorbells = Doorbells::load(&policy, &plan, &[]).expect("program");
    let ns = NetNs::create(&weft_host::RunId::current().name(role)).expect("namespace");
    let _ = weft_host::sysctl::set(&ns, "net.ipv6.conf.default.disable_ipv6", "1");
    link::create_veth((&ns, "a"), (&ns, "b"), &link::VethOptions::default()).expect("veth");
    let index = link::index(&ns, "a").expect("index");
    ns.run(|| doorbells.attach(index)).expect("namespace").expect("attached");
    link::set_up(&ns, "b").expect("up");
    link::set_up(&ns, "a").expect("up");
    link::wait_running(&ns, "a", Duration::from_secs(2)).expect("running");
    link::add_address(&ns, "a", "10.77.0.1".parse().expect("address"), 24).expect("address");
    link::add_neighbor(&ns, "a", "10.77.0.2".parse().expect("address"), Mac::local(9)).expect("neighbour");
    (ns, doorbells)
}

#[test]
fn idle_flows_expire_once_their_packets_are_gone() {
    if !weft_host::testing::privileged("idle_flows_expire_once_their_packets_are_gone") {
        return;
    }
    let (ns, doorbells) = bells_only("idle", "class u = udp\nroot = fair of u", 100);
    let shared = doorbells.shared();
    let flows = || shared.lanes[0].flows.load(Ordering::SeqCst);
    for _ in 0..10 {
        let socket = bench::socket(&ns, bench::unspecified(false));
        socket.send_to(&[0; 50], ("10.77.0.2", 1)).expect("send");
    }
    assert_eq!(flows(), 10);
    let table = doorbells.flow_table().expect("table");
    let now = weft_host::clock::now();
    table.expire(shared, now + FLOW_IDLE, 1000);
    assert_eq!(flows(), 10, "not yet");
    let later = now + FLOW_IDLE + Nanos::from_secs(1);
    table.expire(shared, later, 1000);
    assert_eq!(flows(), 10, "a flow of which a packet waits would overtake it in another ring");
    for ring in &shared.rings {
        ring.done.store(ring.packets.load(Ordering::SeqCst), Ordering::SeqCst);
    }
    table.expire(shared, later, 4);
    assert_eq!(flows(), 6, "no more than it may look at");
    table.expire(shared, later, 1000);
    assert_eq!(flows(), 0);
}

#[test]
fn a_flow_is_looked_at_however_many_there_are() {
    if !weft_host::testing::privileged("a_flow_is_looked_at_however_many_there_are") {
        return;
    }
    let (ns, doorbells) = bells_only("many", "class u = udp\nroot = fair of u", 100);
    let shared = doorbells.shared();
    let sockets: Vec<_> = (0..50).map(|_| bench::socket(&ns, bench::unspecified(false))).collect();
    let send = |i: usize| sockets[i].send_to(&[0; 50], ("10.77.0.2", 1)).expect("send");
    (0..50).for_each(|i| _ = send(i));
    std::thread::sleep(Duration::from_millis(300));
    let silent_since = weft_host::clock::now();
    // Half of them go on sending; the others are to be found among them, ten at a time.
    (0..25).for_each(|i| _ = send(i));
    for ring in &shared.rings {
        ring.done.store(ring.packets.load(Ordering::SeqCst), Ordering::SeqCst);
    }
    let table = doorbells.flow_table().expect("table");
    let started = Instant::now();
    for _ in 0..10 {
        table.expire(shared, silent_since + FLOW_IDLE, 10);
    }
    assert!(started.elapsed() < Duration::from_secs(1));
    assert_eq!(shared.lanes[0].flows.load(Ordering::SeqCst), 25);
}
