//! The weights of flows, and their effect: weights of queues, and segmentation in shared queues.

use crate::common::assigned::{Assigned, Flow, slow};
use crate::common::bench::{set_mark, socket};
use core::net::SocketAddr;
use core::time::Duration;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use weft_host::process::Output;
use weft_host::testing::{PATIENCE, privileged, unique, wait_for};
use weft_host::{Hierarchy, Spawn, clock};
use weft_nic::departures::{Departure, DepartureLog};
use weft_nic::multiqueue::Multiqueue;
use weft_nic::testbed::RECEIVER;
use weft_policy::{NoFiles, Source};
use weft_titan::settings::{Parts, Settings};
use weft_titan::weights::WeightTable;
use weft_units::{BitsPerSec, Bytes, Instant, Nanos};

const MARKS: &str = "class one = mark 1\nclass two = mark 2\nclass four = mark 0x10/0xf0\n\
                     root = wfq { one: 1, two: 2, four: 4, default: 3 }\n";

fn table(text: &str) -> WeightTable {
    WeightTable::of_policy(Source { name: "p", text }, &NoFiles).expect("a table")
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
    let _alone = weft_host::testing::alone();
    let wanted = Multiqueue { queues: 2, ..slow(85) };
    let assigned = Assigned::start("two", &wanted, &by_mark());
    let heavy = marked(&assigned, 0x1f);
    heavy.send(30);
    let at = assigned.queue(&heavy);
    assert_eq!(assigned.record(&heavy).weight, 4);
    // Four of weight 1 are assigned to the other queue; the fifth may be assigned to either.
    let light: Vec<Flow> = (0..4).map(|_| marked(&assigned, 1)).collect();
    for (number, flow) in light.iter().enumerate() {
        flow.send(30);
        let record = assigned.record(flow);
        assert_eq!((record.weight, record.queue.index()), (1, 1 - at), "flow {number}");
    }
    assert_eq!(assigned.weights(), [4, 4]);
    let mut flows = assigned.flows();
    assert_eq!((flows[at], flows[1 - at]), (1, 4));
    // Weight 2 makes one of them heavier; the default of 3 then selects the other.
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
    let _alone = weft_host::testing::alone();
    let assigned = Assigned::start("twn", &slow(1000), &by_mark());
    let flow = marked(&assigned, 1);
    flow.send(50);
    assert_eq!(assigned.record(&flow).weight, 1);
    set_mark(&flow.socket, 2);
    flow.send(10);
    assert_eq!(assigned.record(&flow).weight, 1, "as it was counted in, so it is counted out");
    assigned.quiet();
    flow.send(50);
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
    let _alone = weft_host::testing::alone();
    let gold = Hierarchy::detect().expect("cgroup2").create(&unique("gold")).expect("cgroup");
    let below = gold.child("web").expect("child");
    let root = Hierarchy::detect().expect("cgroup2");
    let path = gold.path().strip_prefix(root.mount_point()).expect("below the root").display().to_string();
    let text = format!(
        "class gold = cgroup \"/{path}\"\nclass web = udp and port 6001\nclass rest = udp\n\
         root = wfq {{ gold: 5, web: 7, rest: 2, default: 2 }}\n"
    );
    let weights = table(&text);
    let assigned = Assigned::start("twg", &slow(85), &Settings { weights, ..Settings::default() });
    let _web = socket(&assigned.bed.receiver, SocketAddr::new(RECEIVER, 6001));
    let (web, rest) = (assigned.flow(), assigned.flow());
    web.socket.connect((RECEIVER, 6001)).expect("connected");
    web.send(20);
    rest.send(20);
    assert_eq!((assigned.record(&web).weight, assigned.record(&rest).weight), (7, 2));
    let script =
        format!("exec 3>/dev/udp/{RECEIVER}/6000; for i in 1 2 3 4 5 6 7 8; do echo $i >&3; done; sleep 9");
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

#[test]
fn a_policys_tree_has_the_weights() {
    if !privileged("a_policys_tree_has_the_weights") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let text = "class web = udp and dport 6001\nclass gold = mark 2\n\
                root = wfq { web: 20, rest: 40, default: 20 }\nrest = wfq { gold: 3, infrastructure: 1 }\n\
                class infrastructure = icmp\n";
    let weights = WeightTable::of_policy(Source { name: "p.weft", text }, &NoFiles).expect("a table");
    let assigned = Assigned::start("twt", &slow(85), &Settings { weights, ..Settings::default() });
    let _web = socket(&assigned.bed.receiver, SocketAddr::new(RECEIVER, 6001));
    let (web, gold, other) = (assigned.flow(), marked(&assigned, 2), marked(&assigned, 3));
    web.socket.connect((RECEIVER, 6001)).expect("connected");
    for (flow, weight) in [(&web, 2), (&gold, 3), (&other, 2)] {
        flow.send(12);
        assert_eq!(assigned.record(flow).weight, weight);
    }
    assert_eq!(assigned.weights().iter().sum::<u64>(), 2 + 3 + 2);
    assigned.finish();
}

/// Bytes that left each queue from `from` to `to`.
fn bytes_of(log: &DepartureLog, from: Instant, to: Instant) -> [f64; 3] {
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
    let _alone = weft_host::testing::alone();
    let rate = BitsPerSec(100_000_000);
    let wanted =
        Multiqueue { queues: 3, departures: Some(100_000), ring_packets: 8000, ..Multiqueue::new(rate) };
    let parts = Parts { dqa: true, dqwa: true, dsos: false };
    let assigned = Assigned::start("twr", &wanted, &Settings { parts, ..by_mark() });
    let pairs: Vec<_> = [1, 2, 0x10].map(|mark| marked(&assigned, mark)).into_iter().collect();
    // Each is refilled so that it always has a packet.
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
    let all = assigned.weights();
    let weights: Vec<u64> = places.iter().map(|place| all[*place]).collect();
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

/// The 99th percentile of the delay of datagrams, for a flow that sends one at a time while two flows keep their queues
/// backlogged. All have the weight `default`.
fn ping_p99(role: &str, default: u32) -> Duration {
    let wanted = Multiqueue { queues: 3, ring_packets: 8000, ..Multiqueue::new(BitsPerSec(50_000_000)) };
    let parts = Parts { dqa: true, dqwa: true, dsos: false };
    // Weights are the smallest whole numbers: a class without packets has 1.
    let weights = table(&format!("class none = mark 77\nroot = wfq {{ none: 1, default: {default} }}\n"));
    let assigned = Assigned::start(role, &wanted, &Settings { parts, weights, ..Settings::default() });
    let (busy, probe) = ([assigned.flow(), assigned.flow()], assigned.flow());
    let echo = socket(&assigned.bed.receiver, SocketAddr::new(RECEIVER, 6003));
    echo.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    probe.socket.connect((RECEIVER, 6003)).expect("connected");
    let mut times = std::thread::scope(|scope| {
        let probing = scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(100));
            let ping = |_| {
                let begin = std::time::Instant::now();
                probe.send(1);
                echo.recv(&mut [0; 2000]).expect("the probe comes");
                let time = begin.elapsed();
                std::thread::sleep(Duration::from_millis(3));
                time
            };
            (0..100).map(ping).collect::<Vec<Duration>>()
        });
        while !probing.is_finished() {
            for flow in &busy {
                let waiting = assigned.find(flow).map_or(0, |record| record.segments.get());
                flow.send(400_usize.saturating_sub(waiting as usize));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        probing.join().expect("the probe")
    });
    assigned.quiet();
    assigned.finish();
    times.sort_unstable();
    println!("default = {default}: {:?} in the median, {:?} the 99th percentile", times[50], times[98]);
    times[98]
}

#[test]
fn a_ping_waits_as_long_with_large_weights_as_with_small() {
    if !privileged("a_ping_waits_as_long_with_large_weights_as_with_small") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let small = ping_p99("twp", 1);
    for (role, weight) in [("twq", 1000), ("twx", 65_535)] {
        let large = ping_p99(role, weight);
        // A visit of 1000 times 3072 bytes takes half a second at this rate; the machine may delay the worker for some
        // milliseconds.
        assert!(large <= small * 3 + Duration::from_millis(60), "{large:?} with {weight}, {small:?} with 1");
    }
}

/// A backlogged connection, and its threads.
struct Stream {
    out: TcpStream,
    threads: [std::thread::JoinHandle<()>; 2],
}

impl Stream {
    fn start(assigned: &Assigned) -> Self {
        let address = SocketAddr::new(RECEIVER, 5002);
        let bind = || TcpListener::bind(address);
        let listener = assigned.bed.receiver.run(bind).expect("ns").expect("listener");
        let out = assigned.bed.sender.run(|| TcpStream::connect(address)).expect("ns").expect("connected");
        let mut end = listener.accept().expect("accepted").0;
        let receive = std::thread::spawn(move || drop(std::io::copy(&mut end, &mut std::io::sink())));
        let mut to = out.try_clone().expect("clone");
        let send = std::thread::spawn(move || while to.write_all(&[7; 60_000]).is_ok() {});
        Self { out, threads: [receive, send] }
    }

    fn queue(&self, assigned: &Assigned) -> usize {
        let port = self.out.local_addr().expect("address").port();
        let flows = assigned.titan().flows();
        flows.into_iter().find(|flow| flow.local_port == port).expect("a flow").queue.index()
    }

    fn end(self) {
        self.out.shutdown(std::net::Shutdown::Both).expect("ended");
        self.threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}

/// A time in which the flows stayed in their queues, and the queue that two of them share, if any.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: Instant,
    to: Instant,
    shared: Option<usize>,
}

impl Stretch {
    /// The part whose departures were queued in this stretch: the link's clock may be 50 ms behind, and a packet in
    /// progress follows.
    fn inside(&self) -> (Instant, Instant) {
        (self.from + Nanos::from_millis(60), self.to.saturating_sub(Nanos::from_millis(60)))
    }

    fn length(&self) -> Nanos {
        let (from, to) = self.inside();
        if to > from { to - from } else { Nanos::ZERO }
    }
}

/// The queue that two of three flows share in the next 20 ms; `Some(None)` if each of two flows has its own, `None` if
/// a flow left its queue meanwhile.
fn look(assigned: &Assigned, flows: u32) -> Option<Option<usize>> {
    let (begin, mut sums, mut looks) = (clock::now(), [0.0; 2], 0.0);
    while clock::now() < begin + Nanos::from_millis(20) {
        sums.iter_mut().zip(assigned.flows()).for_each(|(sum, flows)| *sum += flows as f64);
        looks += 1.0;
        std::thread::sleep(Duration::from_micros(300));
    }
    let has = |queue: usize, flows: f64| (sums[queue] / looks - flows).abs() < 0.2;
    match flows {
        3 => (0..2).find(|queue| has(*queue, 2.0) && has(1 - queue, 1.0)).map(Some),
        _ => (has(0, 1.0) && has(1, 1.0)).then_some(None),
    }
}

/// Watches the queues until `flows` flows have stayed where they were for half a second in all. A sender that is not
/// scheduled leaves its queue and may be assigned to the other: such times are in no stretch.
fn watch(assigned: &Assigned, flows: u32) -> Vec<Stretch> {
    let (mut stretches, until) = (Vec::<Stretch>::new(), clock::now() + Nanos::from_secs(PATIENCE.as_secs()));
    let mut goes_on = false;
    while stretches.iter().map(|stretch| stretch.length().get()).sum::<u64>() < 500_000_000 {
        let from = clock::now();
        assert!(from < until, "the flows did not stay in their queues: {stretches:?}");
        let Some(shared) = look(assigned, flows) else {
            goes_on = false;
            continue;
        };
        match stretches.last_mut() {
            Some(last) if goes_on && last.shared == shared => last.to = clock::now(),
            _ => stretches.push(Stretch { from, to: clock::now(), shared }),
        }
        goes_on = true;
    }
    stretches
}

/// Waits until the NIC has sent nearly `bytes` bytes more: they are counted without the headers of the link.
fn wait_for_sent(assigned: &Assigned, bytes: Bytes) {
    let sent = || assigned.nic().totals().expect("totals").sum(|class| class.sent).bytes.get();
    let wanted = sent() + bytes.get() * 9 / 10;
    wait_for(format_args!("{bytes} sent"), || sent() >= wanted);
}

/// The share of bytes that left in chunks of more than 16 KB: of the shared queue in these stretches, or of the others.
fn large(log: &DepartureLog, stretches: &[Stretch], of_shared: bool) -> f64 {
    let of = |d: &&Departure| {
        stretches.iter().any(|stretch| {
            let (from, to) = stretch.inside();
            d.start >= from && d.end < to && (stretch.shared == Some(d.queue.index())) == of_shared
        })
    };
    let bytes = |d: &Departure| d.wire().get() as f64;
    let all: f64 = log.departures.iter().filter(of).map(bytes).sum();
    // 16 KB hold eleven segments of 1448 bytes.
    let large = log.departures.iter().filter(of).filter(|d| d.segments > 11).map(bytes).sum::<f64>();
    assert!(all > 0.0, "no departures in {stretches:?}");
    large / all
}

#[test]
fn shared_queues_send_pieces_and_others_send_whole_packets() {
    if !privileged("shared_queues_send_pieces_and_others_send_whole_packets") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let rate = BitsPerSec(150_000_000);
    let wanted = Multiqueue { queues: 2, departures: Some(1_000_000), ..Multiqueue::new(rate) };
    let assigned = Assigned::start("tws", &wanted, &Settings::default());
    let mut streams: Vec<Stream> = (0..3).map(|_| Stream::start(&assigned)).collect();
    // Slow start is over.
    wait_for_sent(&assigned, rate.bytes_in(Nanos::from_millis(1500)));
    let before = watch(&assigned, 3);
    // One of the two ends; the other has its own queue then.
    let queues: Vec<usize> = streams.iter().map(|stream| stream.queue(&assigned)).collect();
    let is_shared = |queue: &usize| queues.iter().filter(|other| *other == queue).count() > 1;
    streams.remove(queues.iter().position(is_shared).expect("three in two queues")).end();
    wait_for("two flows remain", || assigned.active() == 2);
    // What the three left in the queues, pieces of packets, has gone.
    wait_for_sent(&assigned, rate.bytes_in(Nanos::from_millis(500)));
    let after = watch(&assigned, 2);
    streams.into_iter().for_each(Stream::end);
    assigned.settled();
    let (_, log) = assigned.finish();
    let (shared, lone) = (large(&log, &before, true), large(&log, &before, false));
    println!("{before:?}: {shared}, {lone}\n{after:?}: {}", large(&log, &after, false));
    // A flow that is briefly idle leaves the queue to the other.
    assert!(shared < 0.1 && lone > 0.5, "{before:?}: {shared}, {lone}");
    for queue in 0..2 {
        let one: Vec<Stretch> = after.iter().map(|s| Stretch { shared: Some(queue), ..*s }).collect();
        let share = large(&log, &one, true);
        assert!(share > 0.5, "queue {queue}: {after:?}: {share}");
    }
}
