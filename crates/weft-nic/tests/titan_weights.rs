//! Weights of flows, and what the NIC makes of queues' weights and of queues that are shared.

#[path = "common/assigned.rs"]
mod assigned;
#[path = "common/bench.rs"]
mod bench;

use assigned::{Assigned, Flow, alone, get, slow, wait_for};
use bench::{set_mark, socket};
use core::net::SocketAddr;
use core::time::Duration;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::{TcpListener, TcpStream};
use weft_host::process::Output;
use weft_host::testing::{privileged, unique};
use weft_host::{Hierarchy, Spawn, clock};
use weft_nic::departures::{Departure, DepartureLog};
use weft_nic::multiqueue::Multiqueue;
use weft_nic::testbed::RECEIVER;
use weft_titan::settings::{Parts, Settings};
use weft_titan::weights::WeightTable;
use weft_units::{BitsPerSec, Bytes, Nanos, QueueId};

const MARKS: &str = "default = 3\n[[flow]]\nmark = \"1\"\nweight = 1\n[[flow]]\nmark = \"2\"\nweight = 2\n\
                     [[flow]]\nmark = \"0x10/0xf0\"\nweight = 4\n";

fn table(text: &str) -> WeightTable {
    WeightTable::read(text, "weights.toml", |_| panic!("no policy")).expect("a table")
}

fn by_mark() -> Settings {
    Settings { weights: table(MARKS), ..Settings::default() }
}

fn marked(assigned: &Assigned, mark: u32) -> Flow {
    assigned.flow_with(|socket| set_mark(socket, mark))
}

#[test]
fn occupancy_counts_weights_and_not_flows() {
    if !privileged("occupancy_counts_weights_and_not_flows") {
        return;
    }
    let _alone = alone();
    let wanted = Multiqueue { queues: 2, ..slow(85) };
    let assigned = Assigned::start("two", &wanted, &by_mark());
    let heavy = marked(&assigned, 0x1f);
    heavy.send(30);
    let at = assigned.queue(&heavy);
    assert_eq!(assigned.record(&heavy).weight, 4);
    // Four of weight 1 go to the other queue, the fifth may go to either.
    let light: Vec<Flow> = (0..4).map(|_| marked(&assigned, 1)).collect();
    for (number, flow) in light.iter().enumerate() {
        flow.send(30);
        let record = assigned.record(flow);
        assert_eq!((record.weight, record.queue.index()), (1, 1 - at), "flow {number}");
    }
    assert_eq!(assigned.weights(), [4, 4]);
    let mut flows = assigned.flows();
    assert_eq!((flows[at], flows[1 - at]), (1, 4));
    // Weight 2 makes one of them heavier; the default of 3 then goes to the other.
    let (second, other) = (marked(&assigned, 2), marked(&assigned, 9));
    second.send(30);
    other.send(30);
    let (second, other) = (assigned.record(&second), assigned.record(&other));
    assert_eq!((second.weight, other.weight), (2, 3));
    assert_ne!(second.queue, other.queue);
    let mut weights = assigned.weights();
    weights.sort_unstable();
    assert_eq!(weights, [6, 7]);
    flows = assigned.flows();
    assert_eq!(flows.iter().sum::<u64>(), 7);
    assigned.finish();
}

#[test]
fn a_new_mark_is_a_new_weight_when_the_flow_is_active_again() {
    if !privileged("a_new_mark_is_a_new_weight_when_the_flow_is_active_again") {
        return;
    }
    let _alone = alone();
    let assigned = Assigned::start("twn", &slow(2000), &by_mark());
    let flow = marked(&assigned, 1);
    flow.send(20);
    assert_eq!(assigned.record(&flow).weight, 1);
    set_mark(&flow.socket, 2);
    flow.send(10);
    assert_eq!(assigned.record(&flow).weight, 1, "as it was counted in, so it is counted out");
    assigned.quiet();
    flow.send(10);
    assert_eq!(assigned.record(&flow).weight, 2);
    assert_eq!(assigned.weights().iter().sum::<u64>(), 2);
    assigned.settled();
    assigned.finish();
}

#[test]
fn a_cgroup_and_a_class_have_weights() {
    if !privileged("a_cgroup_and_a_class_have_weights") {
        return;
    }
    let _alone = alone();
    let gold = Hierarchy::detect().expect("cgroup2").create(&unique("gold")).expect("cgroup");
    let below = gold.child("web").expect("child");
    let root = Hierarchy::detect().expect("cgroup2");
    let path = gold.path().strip_prefix(root.mount_point()).expect("below the root").display().to_string();
    let text = format!(
        "policy = \"p\"\ndefault = 2\n[[flow]]\ncgroup = \"/{path}\"\nweight = 5\n[[flow]]\nclass = \"web\"\nweight = 7\n"
    );
    let policy = "class web = udp and port 6001\nclass rest = udp\nroot = wfq { web: 1, rest: 1 }";
    let weights = WeightTable::read(&text, "w.toml", |_| Ok(bench::policy(policy))).expect("a table");
    let assigned = Assigned::start("twg", &slow(85), &Settings { weights, ..Settings::default() });
    let _web = socket(&assigned.bed.receiver, SocketAddr::new(RECEIVER, 6001));
    let (web, rest) = (assigned.flow(), assigned.flow());
    web.socket.connect((RECEIVER, 6001)).expect("connected");
    web.send(20);
    rest.send(20);
    assert_eq!((assigned.record(&web).weight, assigned.record(&rest).weight), (7, 2));
    let script = format!("exec 3>/dev/udp/{RECEIVER}/6000; for i in 1 2 3 4 5 6 7 8; do echo $i >&3; done; sleep 9");
    let mut child = Spawn::new("bash")
        .args(["-c", &script])
        .netns(&assigned.bed.sender)
        .cgroup(&below)
        .stdout(Output::Capture)
        .start()
        .expect("a process of the cgroup");
    let sum = || assigned.weights().iter().sum::<u64>();
    wait_for("the cgroup's flow", || sum() == 7 + 2 + 5);
    child.stop(Duration::from_millis(10)).expect("ended");
    assigned.finish();
}

/// A backlogged TCP connection of a mark.
fn stream(assigned: &Assigned, mark: u32) -> (TcpStream, TcpStream) {
    let address = SocketAddr::new(RECEIVER, 5002);
    let listener = assigned.bed.receiver.run(|| TcpListener::bind(address)).expect("ns").expect("listener");
    let out = assigned.bed.sender.run(|| TcpStream::connect(address)).expect("ns").expect("connected");
    setsockopt(&out, sockopt::Mark, &mark).expect("mark");
    (out, listener.accept().expect("accepted").0)
}

/// Bytes that left each queue from `from` to `to`.
fn bytes_of(log: &DepartureLog, from: Nanos, to: Nanos) -> [f64; 3] {
    let mut bytes = [0.0; 3];
    for d in log.departures.iter().filter(|d| d.start >= from && d.end < to) {
        bytes[d.queue.index()] += d.wire().get() as f64;
    }
    bytes
}

#[test]
fn queues_are_served_by_the_weights_of_their_flows() {
    if !privileged("queues_are_served_by_the_weights_of_their_flows") {
        return;
    }
    let _alone = alone();
    let rate = BitsPerSec(100_000_000);
    let wanted = Multiqueue { queues: 3, departures: Some(100_000), ring_packets: 8000, ..Multiqueue::new(rate) };
    let parts = Parts { dqa: true, dqwa: true, dsos: false };
    let assigned = Assigned::start("twr", &wanted, &Settings { parts, ..by_mark() });
    let pairs: Vec<_> = [1, 2, 0x10].map(|mark| marked(&assigned, mark)).into_iter().collect();
    // Each is topped up so that it is never without a packet.
    let until = clock::now() + Nanos::from_millis(2600);
    let from = clock::now() + Nanos::from_millis(400);
    let mut places = [0; 3];
    while clock::now() < until {
        for (flow, place) in pairs.iter().zip(&mut places) {
            let record = assigned.find(flow);
            let waiting = record.map_or(0, |record| record.segments.get());
            flow.send(600_usize.saturating_sub(waiting as usize));
            *place = assigned.queue(flow);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let weights: Vec<u64> = places.iter().map(|place| get(&assigned.queues()[*place].weight)).collect();
    assert_eq!(weights, [1, 2, 4], "{places:?}");
    assigned.settled();
    let (totals, log) = assigned.finish();
    let mut sent = [0.0; 3];
    for second in 0..2 {
        let begin = from + Nanos::from_secs(second);
        let window = bytes_of(&log, begin, begin + Nanos::from_secs(1));
        println!("{window:?}");
        sent.iter_mut().zip(window).for_each(|(sum, bytes)| *sum += bytes);
    }
    let all: f64 = sent.iter().sum();
    assert!(all > 0.9 * 2.0 * 100e6 / 8.0, "the link is full: {sent:?}");
    for (place, weight) in places.iter().zip([1.0, 2.0, 4.0]) {
        let share = sent[*place] / all * 7.0 / weight;
        assert!((share - 1.0).abs() < 0.05, "weight {weight}: {share} of its share");
    }
    let stale = totals.staleness;
    println!("{stale:?}");
    assert!(stale.count >= 3, "{stale:?}");
    assert!(stale.mean() < Nanos::from_millis(6), "{stale:?}");
}

/// The largest departure of a queue between two times, in segments and bytes on the wire.
fn most(log: &DepartureLog, queue: QueueId, (from, to): (Nanos, Nanos)) -> Option<(u32, Bytes)> {
    let of = |d: &&Departure| d.queue == queue && d.start >= from && d.end < to;
    let largest = log.departures.iter().filter(of).max_by_key(|d| d.segments)?;
    Some((largest.segments, largest.wire()))
}

#[test]
fn shared_queues_send_pieces_and_others_send_whole_packets() {
    if !privileged("shared_queues_send_pieces_and_others_send_whole_packets") {
        return;
    }
    let _alone = alone();
    let wanted = Multiqueue { departures: Some(100_000), ..Multiqueue::new(BitsPerSec(300_000_000)) };
    let assigned = Assigned::start("tws", &wanted, &Settings::default());
    let mut streams: Vec<_> = (0..9).map(|_| stream(&assigned, 1)).collect();
    let port_of = |pair: &(TcpStream, TcpStream)| pair.0.local_addr().expect("address").port();
    let ports: Vec<u16> = streams.iter().map(port_of).collect();
    let outs: Vec<TcpStream> = streams.iter().map(|pair| pair.0.try_clone().expect("clone")).collect();
    let ends: Vec<TcpStream> = streams.drain(..).map(|pair| pair.1).collect();
    let mut handles = Vec::new();
    for mut end in ends {
        handles.push(std::thread::spawn(move || std::io::copy(&mut end, &mut std::io::sink())));
    }
    let senders: Vec<_> = outs
        .iter()
        .map(|out| {
            let mut out = out.try_clone().expect("clone");
            std::thread::spawn(move || while std::io::Write::write_all(&mut out, &[7; 60_000]).is_ok() {})
        })
        .collect();
    let where_is = |port: u16| {
        let flows = assigned.titan().flows().expect("flows");
        flows.into_iter().find(|record| record.local.port() == port).expect("a flow").queue
    };
    std::thread::sleep(Duration::from_millis(700));
    let queues: Vec<QueueId> = ports.iter().map(|port| where_is(*port)).collect();
    let (first, seen) = watch(&assigned);
    // Of a queue that was shared all the time all but one end; it has the queue to itself then.
    let shared = seen.iter().position(|(least, _)| *least > 1).expect("nine flows on eight queues");
    let of_it = queues.iter().enumerate().filter(|(_, queue)| queue.index() == shared);
    for (ending, _) in of_it.skip(1) {
        outs[ending].shutdown(std::net::Shutdown::Both).expect("ended");
    }
    std::thread::sleep(Duration::from_millis(300));
    let (second, again) = watch(&assigned);
    outs.iter().for_each(|out| drop(out.shutdown(std::net::Shutdown::Both)));
    senders.into_iter().for_each(|thread| thread.join().expect("no panic"));
    handles.into_iter().for_each(|thread| drop(thread.join().expect("no panic")));
    assigned.settled();
    let (_, log) = assigned.finish();
    println!("{seen:?}\n{again:?}");
    for (queue, (least, largest)) in seen.iter().enumerate() {
        let Some((segments, wire)) = most(&log, QueueId(queue as u32), first) else { continue };
        println!("queue {queue}: {segments} segments, {wire}");
        if *least > 1 {
            // 16 KB hold eleven segments of 1448 bytes.
            assert!(wire <= Bytes(11 * (1514 + 24)) && segments <= 11, "{segments} segments, {wire}");
        } else if (*least, *largest) == (1, 1) {
            assert!(segments > 11, "queue {queue}: {segments} segments, {wire}");
        }
    }
    assert_eq!(again[shared], (1, 1), "{again:?}");
    let (segments, wire) = most(&log, QueueId(shared as u32), second).expect("it sends");
    assert!(segments > 11, "whole again: {segments} segments, {wire}");
}

/// Looks at the queues for 600 ms: from when to when, and the fewest and most flows of each.
fn watch(assigned: &Assigned) -> ((Nanos, Nanos), Vec<(u64, u64)>) {
    let begin = clock::now();
    let mut seen: Vec<(u64, u64)> = assigned.flows().into_iter().map(|flows| (flows, flows)).collect();
    while clock::now() < begin + Nanos::from_millis(600) {
        for ((least, most), flows) in seen.iter_mut().zip(assigned.flows()) {
            (*least, *most) = ((*least).min(flows), (*most).max(flows));
        }
        std::thread::sleep(Duration::from_micros(300));
    }
    // The link's clock may be 50 ms behind, and a packet that has been begun follows.
    let inside = (begin + Nanos::from_millis(100), clock::now().saturating_sub(Nanos::from_millis(100)));
    (inside, seen)
}
