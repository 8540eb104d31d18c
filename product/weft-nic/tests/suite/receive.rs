//! The receive side on real packets: flows between namespaces, counted at each queue.

use core::num::NonZeroU32;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use weft_host::{NetNs, link, testing};
use weft_nic::receive::{Budget, ReceiveConfig, ReceiveNic};
use weft_nic::testbed::{RECEIVER, SENDER, Testbed};
use weft_packet::{Field, HashedFields, HeaderMatch, RssKey, Toeplitz};
use weft_units::{FlowKey, Nanos, Packets, Protocol, RxQueueId};

const QUEUES: u32 = 4;
const PORT: u16 = 7000;

fn budget(rate: u32, burst: u32) -> Budget {
    let some = |n| NonZeroU32::new(n).expect("not zero");
    Budget { packets_per_s: some(rate), burst: some(burst) }
}

/// A model in a few lines: UDP to port 7001 is steered to queue 3, port 7002 is dropped, port 7003 to a missing queue,
/// and all other packets by their hash over the first three queues.
fn steer(headers: &HeaderMatch) -> Option<RxQueueId> {
    let toeplitz = Toeplitz::new(&RssKey::default());
    match headers.get(Field::DstPort).0 {
        7001 => Some(RxQueueId(3)),
        7002 => None,
        7003 => Some(RxQueueId(99)),
        _ => Some(RxQueueId(
            headers.flow().map_or(0, |flow| toeplitz.flow(&flow, HashedFields::AddressesAndPorts) % 128 % 3),
        )),
    }
}

fn key(sport: u16, dport: u16) -> FlowKey {
    FlowKey { src: SENDER, dst: RECEIVER, sport, dport, protocol: Protocol::UDP }
}

/// A UDP socket of a namespace.
fn socket(ns: &NetNs, address: IpAddr, port: u16) -> UdpSocket {
    let socket = ns.run(|| UdpSocket::bind(SocketAddr::new(address, port))).expect("entered").expect("bound");
    socket.set_read_timeout(Some(Duration::from_secs(2))).expect("a timeout");
    socket
}

fn start(config: &ReceiveConfig, steer: fn(&HeaderMatch) -> Option<RxQueueId>) -> (Testbed, ReceiveNic) {
    let testbed = Testbed::create(&testing::unique("rx")).expect("namespaces");
    let (wire, host) = testbed.devices(1, 4000).expect("devices");
    let nic = ReceiveNic::start(config, wire, host, Arc::new(steer)).expect("started");
    testbed.connect().expect("connected");
    (testbed, nic)
}

#[test]
fn each_flow_is_counted_at_the_queue_that_the_model_says() {
    if !testing::privileged("each_flow_is_counted_at_the_queue_that_the_model_says") {
        return;
    }
    let config = ReceiveConfig { queues: QUEUES, ring_packets: 1024, budget: budget(100_000, 64) };
    let (testbed, nic) = start(&config, steer);
    let server = socket(&testbed.receiver, RECEIVER, PORT);
    let special: Vec<_> = (7001..=7003).map(|port| socket(&testbed.receiver, RECEIVER, port)).collect();
    let toeplitz = Toeplitz::new(&RssKey::default());
    let mut expected = [0; QUEUES as usize];
    // Kept open: a reply to a closed one would cause an ICMP error, which is a packet too.
    let mut clients = Vec::new();
    for flow in 0..40u16 {
        let client = socket(&testbed.sender, SENDER, 20_000 + flow);
        let queue = toeplitz.flow(&key(20_000 + flow, PORT), HashedFields::AddressesAndPorts) % 128 % 3;
        let packets = u64::from(flow % 7 + 1);
        for _ in 0..packets {
            client.send_to(b"to the hash's queue", (RECEIVER, PORT)).expect("sent");
        }
        expected[queue as usize] += packets;
        clients.push(client);
    }
    let client = socket(&testbed.sender, SENDER, 30_000);
    for (port, packets) in [(7001, 5), (7002, 3), (7003, 2)] {
        for _ in 0..packets {
            client.send_to(b"by a rule", (RECEIVER, port)).expect("sent");
        }
    }
    expected[3] += 5;
    // The other direction.
    let mut buffer = [0; 64];
    let (_, from) = server.recv_from(&mut buffer).expect("a packet came through");
    server.send_to(b"reply", from).expect("sent");
    assert!(nic.drain(Nanos::from_secs(5)).expect("devices"), "served in time");
    while nic.counters().rx.get().packets == Packets(0) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let totals = nic.stop(Nanos::from_secs(5)).expect("stopped");
    let counted: Vec<_> = totals.queues.iter().map(|queue| queue.delivered.packets.get()).collect();
    assert_eq!(counted, expected, "{totals:?}");
    let elsewhere = [totals.filtered, totals.misrouted, totals.runts].map(|count| count.packets.get());
    assert_eq!(elsewhere, [3, 2, 0]);
    totals.check().expect("nothing is lost");
    drop((special, clients));
}

#[test]
fn a_queue_serves_its_budget_and_its_ring_drops_the_rest() {
    if !testing::privileged("a_queue_serves_its_budget_and_its_ring_drops_the_rest") {
        return;
    }
    // 50 packets a second: within the test's time no more than the burst and a few packets leave.
    let config = ReceiveConfig { queues: QUEUES, ring_packets: 10, budget: budget(50, 2) };
    let (testbed, nic) = start(&config, |_| Some(RxQueueId(1)));
    let client = socket(&testbed.sender, SENDER, 20_000);
    // The queue serves from the first on, however long the others take to be sent.
    let began = std::time::Instant::now();
    for _ in 0..100 {
        client.send_to(b"burst", (RECEIVER, PORT)).expect("sent");
    }
    assert!(nic.drain(Nanos::from_secs(10)).expect("devices"), "what the ring holds is served");
    let took = began.elapsed();
    let totals = nic.stop(Nanos::ZERO).expect("stopped");
    let queue = totals.queues[1];
    assert_eq!(queue.arrived.packets, Packets(100));
    assert_eq!(queue.most_held, Packets(10));
    // The thread may serve between two packets of the burst; a served packet frees a place for one more.
    let served = queue.served().packets.get();
    assert!(served + queue.dropped.packets.get() == 100 && served >= 12, "{queue:?}");
    assert!(took >= Duration::from_millis(20 * (served - 3)), "{served} packets in {took:?}");
    totals.check().expect("nothing is lost");
}

#[test]
fn what_a_queue_still_holds_at_the_end_is_counted() {
    if !testing::privileged("what_a_queue_still_holds_at_the_end_is_counted") {
        return;
    }
    let config = ReceiveConfig { queues: 1, ring_packets: 100, budget: budget(1, 3) };
    let (testbed, nic) = start(&config, |_| Some(RxQueueId(0)));
    let client = socket(&testbed.sender, SENDER, 20_000);
    let began = std::time::Instant::now();
    for _ in 0..20 {
        client.send_to(b"one a second", (RECEIVER, PORT)).expect("sent");
    }
    assert!(!nic.drain(Nanos::from_millis(300)).expect("devices"), "17 wait for their second");
    let totals = nic.stop(Nanos::ZERO).expect("stopped");
    // Three leave at once, and one more in each whole second that the test paused.
    let seconds = began.elapsed().as_secs();
    let left = totals.queues[0].left.packets;
    assert!((17_u64.saturating_sub(seconds)..=17).contains(&left.get()), "{left:?} after {seconds} s");
    totals.check().expect("nothing is lost");
    let mut wrong = totals.clone();
    wrong.queues[0].left.packets = Packets(left.get() - 1);
    assert_eq!(wrong.check().expect_err("one is missing").stage, "a receive queue");
    wrong = totals;
    wrong.host.packets += Packets(1);
    assert_eq!(wrong.check().expect_err("one too many").stage, "NIC to host");
}

#[test]
fn what_the_host_refuses_is_counted() {
    if !testing::privileged("what_the_host_refuses_is_counted") {
        return;
    }
    let config = ReceiveConfig { queues: 1, ring_packets: 100, budget: budget(10_000, 64) };
    let (testbed, nic) = start(&config, |_| Some(RxQueueId(0)));
    // A TAP that is down refuses writes.
    link::set_down(&testbed.receiver, nic.host().name()).expect("down");
    let client = socket(&testbed.sender, SENDER, 20_000);
    for _ in 0..9 {
        client.send_to(b"nobody is there", (RECEIVER, PORT)).expect("sent");
    }
    let totals = nic.stop(Nanos::from_secs(5)).expect("stopped");
    assert_eq!(totals.queues[0].refused.packets, Packets(9));
    assert_eq!(totals.host.packets, Packets(0));
    totals.check().expect("nothing is lost");
}

#[test]
fn a_replacement_under_load_loses_nothing() {
    if !testing::privileged("a_replacement_under_load_loses_nothing") {
        return;
    }
    let config = ReceiveConfig { queues: 2, ring_packets: 4096, budget: budget(200_000, 64) };
    let (testbed, nic) = start(&config, |_| Some(RxQueueId(0)));
    let server = socket(&testbed.receiver, RECEIVER, PORT);
    let stop = AtomicBool::new(false);
    // It holds all: what arrives does not wait for a thread.
    setsockopt(&server, sockopt::RcvBufForce, &(32 << 20)).expect("buffer");
    let sent = std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let client = socket(&testbed.sender, SENDER, 20_000);
            let mut sent = 0u64;
            while !stop.load(Ordering::Relaxed) {
                client.send_to(&sent.to_be_bytes(), (RECEIVER, PORT)).expect("sent");
                sent += 1;
                std::thread::sleep(Duration::from_micros(100));
            }
            sent
        });
        for round in 0..50 {
            let queue = RxQueueId(round % 2);
            nic.replace(Arc::new(move |_: &HeaderMatch| Some(queue)));
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
        sender.join().expect("sender")
    });
    let totals = nic.stop(Nanos::from_secs(5)).expect("stopped");
    let received = core::iter::from_fn(|| server.recv(&mut [0; 64]).ok()).count() as u64;
    assert!(totals.queues.iter().all(|queue| queue.delivered.packets > Packets(0)), "{totals:?}");
    assert_eq!(totals.sum(|queue| queue.delivered.packets), Packets(sent));
    assert_eq!(received, sent);
    totals.check().expect("nothing is lost");
}

#[test]
fn a_packet_sent_after_a_replacement_sees_it() {
    if !testing::privileged("a_packet_sent_after_a_replacement_sees_it") {
        return;
    }
    let config = ReceiveConfig { queues: 8, ring_packets: 1024, budget: budget(100_000, 64) };
    let (testbed, nic) = start(&config, |_| None);
    let client = socket(&testbed.sender, SENDER, 20_000);
    for round in 0..200 {
        let queue = RxQueueId(round % 8);
        nic.replace(Arc::new(move |_: &HeaderMatch| Some(queue)));
        client.send_to(b"new", (RECEIVER, PORT)).expect("sent");
    }
    let totals = nic.stop(Nanos::from_secs(5)).expect("stopped");
    // Later replacements may overtake a packet in the wire's ring; none may see an older one, least of all the first.
    assert_eq!(totals.filtered.packets, Packets(0));
    assert_eq!(totals.sum(|queue| queue.delivered.packets), Packets(200));
    totals.check().expect("nothing is lost");
}
