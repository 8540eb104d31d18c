//! Replays of synthetic captures, checked against the definition of the policy.

use std::collections::{BTreeMap, HashMap, VecDeque};
use weft_packet::headers::parse_headers;
use weft_packet::pcap::{PcapError, PcapReader, PcapWriter};
use weft_packet::{Match, PortRange};
use weft_policy::trial::{Departure as TrialDeparture, TrialPacket, Trials};
use weft_policy::{ClassInfo, CompileOptions, CompiledPolicy, Destination, Rule, Source, compile};
use weft_replay::link::{LinkDequeue, Scheduler};
use weft_replay::{
    DROPPER, Departed, Progress, ReplayArrival, ReplayError, ReplayOptions, ReplayOrder, ReplayOutcome,
    order, replay, replay_with,
};
use weft_sched::{Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, Program};
use weft_units::{
    BitsPerSec, Bytes, ClassId, Counted, FlowId, Instant, LaneId, LeafId, LimitId, Nanos, NodeId, Packets,
    Weight,
};

/// Strict priority over lanes with one bounded FIFO each: simple enough to be obviously correct.
struct Strict {
    lanes: Vec<VecDeque<(FlowId, Bytes, u64)>>,
    bounds: Vec<usize>,
    lane_of_flow: Vec<LaneId>,
}

impl Strict {
    fn new(program: &Program) -> Self {
        let bounds: Vec<usize> = program.lanes.iter().map(|lane| lane.packet_bound.0 as usize).collect();
        Self { lanes: vec![VecDeque::new(); bounds.len()], bounds, lane_of_flow: vec![] }
    }
}

impl Scheduler for Strict {
    type Refused = &'static str;

    fn reason(refused: &&'static str) -> &'static str {
        refused
    }

    fn add_flow(&mut self, lane: LaneId, _: Weight) -> Result<FlowId, &'static str> {
        self.lane_of_flow.push(lane);
        Ok(FlowId::from_index(self.lane_of_flow.len() - 1))
    }

    fn enqueue(&mut self, flow: FlowId, len: Bytes, handle: u64, _: Nanos) -> Result<(), &'static str> {
        let lane = self.lane_of_flow.get(flow.index()).ok_or("unknown flow")?.index();
        if self.lanes[lane].len() >= self.bounds[lane] {
            return Err("class full");
        }
        self.lanes[lane].push_back((flow, len, handle));
        Ok(())
    }

    fn dequeue(&mut self, _: Nanos) -> LinkDequeue {
        for (i, queue) in self.lanes.iter_mut().enumerate() {
            if let Some((flow, len, handle)) = queue.pop_front() {
                return LinkDequeue::Packet { flow, lane: LaneId::from_index(i), len, handle, marked: false };
            }
        }
        LinkDequeue::Empty
    }

    fn held(&self) -> Packets {
        Packets(self.lanes.iter().map(|q| q.len() as u64).sum())
    }
}

/// `priority { high, low, default }`: high is UDP port 53, low is UDP port 80.
fn policy(link: Option<u64>, bound: u64) -> CompiledPolicy {
    let port = |port| Match { dport: Some(PortRange { first: port, last: port }), ..Match::default() };
    let rule = |matcher, class| Rule { matcher, class: ClassId(class) };
    let lane =
        |i| LaneSpec { class: ClassId(i), leaf: LeafId(i), limits: vec![], packet_bound: Packets(bound) };
    let names = ["high", "low", "default"];
    let leaf = |name: &&str| LeafSpec { name: (*name).to_owned(), discipline: LeafDiscipline::Fair };
    let root = NodeSpec {
        name: "root".to_owned(),
        discipline: Discipline::Priority,
        children: (0..3).map(|i| Child::Leaf(LeafId(i))).collect(),
    };
    CompiledPolicy {
        link: link.map(BitsPerSec),
        program: Program {
            root: Child::Node(NodeId(0)),
            nodes: vec![root],
            leaves: names.iter().map(leaf).collect(),
            limits: vec![],
            lanes: (0..3).map(lane).collect(),
        },
        classes: names.iter().map(|name| ClassInfo { name: (*name).to_owned(), latency: None }).collect(),
        rules: vec![rule(port(53), 0), rule(port(80), 1), rule(Match::default(), 2)],
        destinations: (0..3)
            .map(|lane| vec![Destination { to: None, port: None, lane: LaneId(lane) }])
            .collect(),
        cgroups: vec![],
        ports: vec![],
        steering: vec![],
    }
}

/// A UDP frame of `len` bytes with its number after the headers.
fn udp(sport: u16, dport: u16, number: u32, len: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0x00, 0x45, 0]);
    frame.extend(((len - 14) as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(
        [sport.to_be_bytes(), dport.to_be_bytes(), ((len - 34) as u16).to_be_bytes(), [0, 0]].concat(),
    );
    frame.extend(number.to_be_bytes());
    frame.resize(len, 0);
    frame
}

/// The capture's first timestamp: replays must not depend on the epoch.
const ORIGIN: u64 = 1_700_000_000_000_000_000;

fn capture(packets: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new()).expect("memory");
    for (at, frame) in packets {
        writer.write(Instant::from_nanos(ORIGIN + at), Bytes(frame.len() as u64), &frame).expect("memory");
    }
    writer.finish().expect("memory")
}

/// `(nanoseconds after ORIGIN, source port, destination port, number)` of every packet.
fn read(file: &[u8]) -> Vec<(u64, u16, u16, u32)> {
    let mut reader = PcapReader::new(file).expect("a capture");
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet().expect("whole packets") {
        let key = parse_headers(packet.data).ok().and_then(|h| h.flow_key);
        let number = packet.data.get(42..46).map_or(0, |b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]));
        let (sport, dport) = key.map_or((0, 0), |key| (key.sport, key.dport));
        packets.push((packet.timestamp.as_nanos() - ORIGIN, sport, dport, number));
    }
    packets
}

fn run(policy: &CompiledPolicy, input: &[u8], options: ReplayOptions<'_>) -> (ReplayOutcome, Vec<u8>) {
    let mut output = Vec::new();
    let report = replay(policy, input, &mut output, options).expect("replays");
    assert!(report.conservation.imbalances().is_empty(), "{report:?}");
    let left: u64 = report.classes.iter().map(|class| class.packets).sum();
    assert_eq!((left, read(&output).len() as u64), (report.conservation.total.out_packets, left));
    (report, output)
}

#[track_caller]
fn in_order_within_flows(packets: &[(u64, u16, u16, u32)]) {
    let mut last = HashMap::new();
    for (_, sport, dport, number) in packets {
        let before = last.insert((*sport, *dport), *number);
        assert!(
            before.is_none_or(|before| before < *number),
            "flow {sport} -> {dport}: {before:?}, then {number}"
        );
    }
}

#[test]
fn the_rate_is_kept_and_idle_links_start_at_once() {
    // 976 bytes and 24 around them: 8 us at 1 Gb/s.
    let input = capture([(0, udp(1, 80, 0, 976)), (0, udp(1, 80, 1, 976)), (50_000, udp(1, 80, 2, 976))]);
    let (report, output) = run(&policy(Some(1_000_000_000), 100), &input, ReplayOptions::default());
    let times: Vec<_> = read(&output).iter().map(|p| p.0).collect();
    assert_eq!(times, [8_000, 16_000, 58_000]);
    assert_eq!(report.link_bps, 1_000_000_000);
    let low = &report.classes[1];
    assert_eq!((low.class.as_str(), low.packets, low.bytes), ("low", 3, 3 * 976));
    assert_eq!((low.first_s, low.last_s), (Some(8e-6), Some(58e-6)));
    assert_eq!((report.classes[0].packets, report.classes[0].first_s), (0, None));
}

/// One flow per class, so that the strict scheduler of lane FIFOs and the engine must agree byte for byte.
#[test]
fn the_engine_agrees_with_a_scheduler_too_simple_to_be_wrong() {
    let mut rng = weft_packet::mutation::TestRng::new(11);
    let mut at = 0;
    let packets: Vec<_> = (0..5000)
        .map(|i| {
            at += rng.below(11_000) as u64;
            (at, udp(1, [53, 80, 99][rng.below(3)], i, 60 + rng.below(1400)))
        })
        .collect();
    let input = capture(packets);
    let policy = policy(Some(1_000_000_000), 20);
    let (report, output) = run(&policy, &input, ReplayOptions::default());
    let mut expected = Vec::new();
    let strict = Strict::new(&policy.program);
    let by_strict = replay_with(&policy, strict, &input[..], &mut expected, ReplayOptions::default());
    assert_eq!(by_strict.expect("replays"), report);
    assert!(output == expected, "packet by packet and time by time");
    assert!(
        report.conservation.total.dropped_packets > 0 && report.classes.iter().all(|class| class.packets > 0)
    );
}

/// `wfq { high: 3, low: 1 }` under overload: three bytes to one while both wait.
#[test]
fn weights_share_the_link() {
    let mut policy = policy(Some(1_000_000_000), 100_000);
    let weights = [3, 1, 1].map(|w| Weight::new(w).expect("not zero")).to_vec();
    policy.program.nodes[0].discipline = Discipline::Wfq(weights);
    let packets = (0..8000).map(|i| (0, udp(1, [53, 80][i as usize % 2], i, 1000)));
    let (_, output) = run(&policy, &capture(packets), ReplayOptions::default());
    let both = &read(&output)[..4000];
    let high = both.iter().filter(|p| p.2 == 53).count();
    assert!((2998..=3002).contains(&high), "{high} of 4000");
}

/// A limit of 100 Mb/s counts frame bytes: 1000 bytes every 80 us. The other class keeps the link busy, so a packet
/// waits for at most one other, 8192 ns, after its release time. Without a burst this delay is not made up for; with
/// one it is.
#[test]
fn a_limited_class_is_spaced_and_others_go_on() {
    for burst in [0, 1000] {
        let mut policy = policy(Some(1_000_000_000), 100_000);
        let limit = LimitSpec { name: "high".to_owned(), rate: BitsPerSec(100_000_000), burst: Bytes(burst) };
        policy.program.limits.push(limit);
        policy.program.lanes[0].limits.push(LimitId(0));
        let packets = (0..4000).map(|i| (0, udp(1, if i % 20 == 0 { 53 } else { 80 }, i, 1000)));
        let (report, output) = run(&policy, &capture(packets), ReplayOptions::default());
        let left = read(&output);
        in_order_within_flows(&left);
        let high: Vec<u64> = left.iter().filter(|p| p.2 == 53).map(|p| p.0).collect();
        assert_eq!(high.len(), 200);
        for (k, pair) in high.windows(2).enumerate() {
            let gap = pair[1] - pair[0];
            assert!(burst > 0 || (80_000..=88_192).contains(&gap), "packet {k}: a gap of {gap}");
            let ideal = 8_192 + (k as u64 + 1) * 80_000;
            let early = burst * 80;
            let soon = pair[1] + early >= ideal && pair[1] <= ideal + 8_192;
            assert!(burst == 0 || soon, "packet {k} left at {}, not around {ideal}", pair[1]);
        }
        // The link is never idle while the other class waits.
        let low_last = report.classes[1].last_s.expect("low packets");
        assert!(low_last < 4000.0 * 8_192e-9, "{low_last}");
    }
}

#[test]
fn a_class_can_test_the_port() {
    let mut policy = policy(Some(1_000_000_000), 100);
    policy.ports = vec!["vm1".to_owned()];
    policy.rules[0].matcher = Match { port: Some(1), ..Match::default() };
    let input = capture([(0, udp(1, 80, 0, 976))]);
    for (port, expected) in [("vm1", [1, 0]), ("vm2", [0, 1]), ("", [0, 1])] {
        let (report, _) = run(&policy, &input, ReplayOptions { port, ..ReplayOptions::default() });
        assert_eq!([report.classes[0].packets, report.classes[1].packets], expected, "{port}");
    }
}

/// The packets of a capture as arrivals, on the capture's clock.
fn arrivals(input: &[u8]) -> Vec<ReplayArrival> {
    let mut reader = PcapReader::new(input).expect("a capture");
    let mut found = Vec::new();
    while let Some(packet) = reader.next_packet().expect("whole packets") {
        let meta = parse_headers(packet.data).expect("headers").meta();
        let at = Nanos(packet.timestamp.as_nanos());
        found.push(ReplayArrival { at, len: packet.orig_len, meta, ..ReplayArrival::default() });
    }
    found
}

#[test]
fn packets_without_a_capture_leave_as_those_of_one() {
    let mut rng = weft_packet::mutation::TestRng::new(12);
    let mut at = 0;
    let packets: Vec<_> = (0..5000)
        .map(|i| {
            at += rng.below(11_000) as u64;
            // Some come late.
            let late = at.saturating_sub(rng.below(20) as u64 / 19 * 50_000);
            (late, udp(1 + rng.below(5) as u16, [53, 80, 99][rng.below(3)], i, 60 + rng.below(1400)))
        })
        .collect();
    let input = capture(packets.clone());
    let policy = policy(Some(1_000_000_000), 20);
    let options = || ReplayOptions { flows_per_class: 3, ..ReplayOptions::default() };
    let (report, output) = run(&policy, &input, options());
    let done = order(&policy, arrivals(&input), options()).expect("orders");
    let same = |of: &Departed| {
        let frame = &packets[of.packet].1;
        let key = parse_headers(frame).expect("headers").flow_key.expect("UDP");
        (of.end.0 - ORIGIN, key.sport, key.dport, of.packet as u32)
    };
    assert_eq!(done.departed.iter().map(same).collect::<Vec<_>>(), read(&output));
    let dropped: usize = done.dropped.values().map(Vec::len).sum();
    assert_eq!(
        (dropped as u64, done.late),
        (report.conservation.total.dropped_packets, report.late_timestamps)
    );
    assert!(dropped > 0 && done.late > 0 && done.overflow_packets > 0);
    assert_eq!((done.overflow_packets, done.link), (report.overflow_packets, BitsPerSec(1_000_000_000)));
}

#[test]
fn classes_and_flows_can_be_given() {
    let policy = policy(Some(1_000_000_000), 100);
    let class =
        |class| ReplayArrival { len: Bytes(976), class: Some(ClassId(class)), ..ReplayArrival::default() };
    let by_class = order(&policy, [class(2), class(1), class(0)], ReplayOptions::default()).expect("orders");
    let left = |done: &ReplayOrder| done.departed.iter().map(|of| of.packet).collect::<Vec<_>>();
    assert_eq!(left(&by_class), [2, 1, 0]);
    assert_eq!(by_class.departed[0].lane, LaneId(0));
    // Two flows take turns, and one flow does not.
    let flow = |flow| ReplayArrival { flow: Some(flow), ..class(1) };
    let done = order(&policy, [flow(7), flow(7), flow(9)], ReplayOptions::default()).expect("orders");
    assert_eq!(left(&done), [0, 2, 1]);
    let error = order(&policy, [class(0), class(3)], ReplayOptions::default()).expect_err("no such class");
    let said = "packet 1 is of class number 3, and the policy has 3, counted from 0";
    assert_eq!(error.to_string(), said);
    let error = order(&self::policy(None, 1), [], ReplayOptions::default()).expect_err("no rate");
    assert!(matches!(error, ReplayError::NoRate));
}

#[test]
fn the_callers_rate_comes_before_the_policys() {
    let input = capture([(0, udp(1, 80, 0, 976))]);
    let options = ReplayOptions { rate: Some(BitsPerSec(100_000_000)), ..ReplayOptions::default() };
    let (_, output) = run(&policy(Some(1_000_000_000), 100), &input, options);
    assert_eq!(read(&output)[0].0, 80_000);
}

#[test]
fn the_high_class_leaves_first_under_overload() {
    let packets = (0..2000).map(|i| (u64::from(i) * 10, udp(1, if i % 4 == 0 { 53 } else { 80 }, i, 976)));
    let (report, output) =
        run(&policy(Some(1_000_000_000), 10_000), &capture(packets), ReplayOptions::default());
    let left = read(&output);
    in_order_within_flows(&left);
    // All arrive within 20 us, in which two or three packets leave.
    let last_high = left.iter().rposition(|p| p.2 == 53).expect("high packets");
    assert!(left[3..=last_high].iter().all(|p| p.2 == 53));
    assert_eq!(report.conservation.total.dropped_packets, 0);
    assert!(report.classes[0].last_s < report.classes[1].last_s);
}

#[test]
fn conservation_when_bounds_are_hit() {
    let packets =
        (0..5000).map(|i| (u64::from(i) * 1000, udp(i as u16 % 7, [53, 80, 99][i as usize % 3], i, 1000)));
    let (report, output) = run(&policy(Some(1_000_000_000), 50), &capture(packets), ReplayOptions::default());
    in_order_within_flows(&read(&output));
    let c = &report.conservation;
    assert_eq!((c.total.in_packets, c.total.in_bytes, c.total.held_packets), (5000, 5_000_000, 0));
    assert!(c.total.dropped_packets > 3000, "8 us each, one every 1 us: {c:?}");
    assert_eq!(c.drops.keys().collect::<Vec<_>>(), ["class full"]);
    assert_eq!(c.drops["class full"].bytes.get(), c.total.dropped_bytes);
}

/// A scheduler that forgets one of its packets.
struct Forgets {
    scheduler: Strict,
    after: u64,
}

impl Scheduler for Forgets {
    type Refused = &'static str;

    fn reason(refused: &&'static str) -> &'static str {
        refused
    }

    fn add_flow(&mut self, lane: LaneId, weight: Weight) -> Result<FlowId, &'static str> {
        self.scheduler.add_flow(lane, weight)
    }

    fn enqueue(&mut self, flow: FlowId, len: Bytes, handle: u64, now: Nanos) -> Result<(), &'static str> {
        self.scheduler.enqueue(flow, len, handle, now)
    }

    fn dequeue(&mut self, now: Nanos) -> LinkDequeue {
        self.after = self.after.wrapping_sub(1);
        if self.after == 0 {
            self.scheduler.dequeue(now);
        }
        self.scheduler.dequeue(now)
    }

    fn held(&self) -> Packets {
        self.scheduler.held()
    }
}

#[test]
fn a_scheduler_that_loses_one_packet_of_a_hundred_thousand_breaks_the_balance() {
    const PACKETS: u32 = 100_000;
    let input = capture((0..PACKETS).map(|i| (u64::from(i) * 1000, udp(1, 80, i, 100))));
    let policy = policy(Some(1_000_000_000), 50);
    for (after, whole) in [(u64::MAX, true), (77_777, false)] {
        let scheduler = Forgets { scheduler: Strict::new(&policy.program), after };
        let report = replay_with(&policy, scheduler, &input[..], Vec::new(), ReplayOptions::default());
        let c = report.expect("replays").conservation;
        assert_eq!((c.imbalances().is_empty(), c.total.held_packets), (whole, 0), "{c:?}");
        assert_eq!(c.total.out_packets, u64::from(PACKETS) - u64::from(!whole));
    }
}

#[test]
fn flows_beyond_the_bound_share_a_queue_and_keep_their_order() {
    let packets = (0..3000).map(|i| (u64::from(i) * 100, udp(i as u16 % 100, 80, i, 200)));
    let options = ReplayOptions { flows_per_class: 10, ..ReplayOptions::default() };
    let (report, output) = run(&policy(Some(1_000_000_000), 10_000), &capture(packets), options);
    assert_eq!((report.flows, report.overflow_packets), (10, 2700));
    assert_eq!(report.conservation.total.out_packets, 3000);
    in_order_within_flows(&read(&output));
}

#[test]
fn what_cannot_be_read_is_sent_as_default_and_counted() {
    let mut broken = udp(1, 53, 1, 100);
    broken[14] = 0x41;
    let arp = [[2; 12].as_slice(), &[8, 6], &[0; 46]].concat();
    let input = capture([(0, broken), (0, arp), (0, vec![1, 2, 3]), (0, vec![])]);
    let (report, _) = run(&policy(Some(1_000_000_000), 10), &input, ReplayOptions::default());
    assert_eq!(report.unreadable, 3);
    assert_eq!((report.classes[2].packets, report.classes[0].packets), (4, 0));
}

#[test]
fn timestamps_that_go_back_are_counted() {
    let input =
        capture([(10_000, udp(1, 80, 0, 976)), (0, udp(1, 80, 1, 976)), (10_001, udp(1, 80, 2, 976))]);
    let (report, output) = run(&policy(Some(1_000_000_000), 10), &input, ReplayOptions::default());
    assert_eq!(report.late_timestamps, 1);
    let times: Vec<_> = read(&output).iter().map(|p| p.0).collect();
    assert_eq!(times, [18_000, 26_000, 34_000]);
}

#[test]
fn a_cut_file_gives_what_came_before_and_the_error() {
    let input = capture((0..10).map(|i| (0, udp(1, 80, i, 976))));
    let mut output = Vec::new();
    let policy = policy(Some(1_000_000_000), 100);
    let cut = &input[..input.len() - 5];
    let error = replay(&policy, cut, &mut output, ReplayOptions::default()).expect_err("cut off");
    assert!(error.to_string().starts_with("packet 10 is cut off at byte 9939"), "{error}");
    let ReplayError::Input { source: PcapError::CutOff { .. }, report: Some(report) } = error else {
        panic!("{error:?}")
    };
    assert_eq!((report.conservation.total.out_packets, read(&output).len()), (9, 9));
}

#[test]
fn errors_say_what_to_do() {
    let fail = |policy: &CompiledPolicy, input: &[u8]| {
        replay(policy, input, Vec::new(), ReplayOptions::default()).expect_err("fails").to_string()
    };
    let empty = capture([]);
    assert!(fail(&policy(None, 1), &empty).contains("--rate"));
    assert!(fail(&policy(Some(0), 1), &empty).contains("--rate"));
    assert!(fail(&policy(Some(1), 1), b"no capture").contains("not a capture"));
    let mut wrong = policy(Some(1), 1);
    wrong.destinations[0][0].lane = LaneId(9);
    assert_eq!(
        fail(&wrong, &empty),
        "the compiled policy is not consistent: rule 0 names lane 9, which does not exist"
    );
}

#[test]
fn an_output_that_fails_ends_the_run() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let policy = policy(Some(1_000_000_000), 100);
    let input = capture((0..1000).map(|i| (0, udp(1, 80, i, 976))));
    let error = replay(&policy, &input[..], Full, ReplayOptions::default()).expect_err("full");
    assert!(matches!(error, ReplayError::Output(PcapError::Write { .. })), "{error:?}");
}

#[test]
fn an_empty_capture_gives_an_empty_one() {
    let mut calls = Vec::new();
    let mut progress = |p: Progress| calls.push(p);
    let options = ReplayOptions { progress: Some(&mut progress), ..ReplayOptions::default() };
    let (report, output) = run(&policy(Some(1), 1), &capture([]), options);
    assert_eq!((report.conservation.total.in_packets, output.len()), (0, 24));
    assert_eq!(calls, [Progress { packets: 0, input_bytes: 24 }]);
}

/// The corpus of droppers: its tests, and the policy.
fn droppers() -> (Trials, CompiledPolicy) {
    let trials = include_str!("../../weft-policy/tests/corpus/droppers.wefttest").parse().expect("tests");
    (trials, compiled(include_str!("../../weft-policy/tests/corpus/droppers.weft")))
}

fn compiled(text: &str) -> CompiledPolicy {
    let compilation = compile(Source { name: "p.weft", text }, &CompileOptions::default());
    compilation.policy.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics))
}

/// The rate at which a frame of the corpus takes the time that it takes there, with what is around it on the wire.
const DROPPERS_LINK: BitsPerSec = BitsPerSec(1_000_000_000);

#[test]
fn a_replay_drops_what_tests_of_policies_drop() {
    let (trials, policy) = droppers();
    for trial in &trials.cases {
        let arrival = |packet: &TrialPacket| ReplayArrival {
            at: packet.at,
            len: packet.bytes,
            class: policy
                .classes
                .iter()
                .position(|of| Some(&of.name) == packet.class.as_ref())
                .map(ClassId::from_index),
            flow: Some(
                packet
                    .flow
                    .as_ref()
                    .map_or(0, |flow| flow.bytes().fold(0, |sum, of| sum * 256 + u64::from(of))),
            ),
            ..ReplayArrival::default()
        };
        let options = ReplayOptions { rate: Some(DROPPERS_LINK), ..ReplayOptions::default() };
        let found = order(&policy, trial.packets.iter().map(arrival), options).expect("an order");
        let name = |number: usize| trial.packets[number].name.clone();
        let sent = found
            .departed
            .iter()
            .map(|left| TrialDeparture { name: name(left.packet), at: Some(left.start) });
        assert_eq!(sent.collect::<Vec<_>>(), trial.expect, "{}", trial.name);
        let mut dropped: Vec<_> =
            found.dropped.get(DROPPER).into_iter().flatten().map(|at| name(*at)).collect();
        let mut expected = trial.drops.clone();
        dropped.sort();
        expected.sort();
        assert_eq!(dropped, expected, "{}", trial.name);
    }
}

#[test]
fn drops_of_a_capture_are_drops_in_each_balance() {
    let policy = compiled(
        "link 1gbps\n\
         dropper all() { fetched { drop } }\n\
         class a = udp dport 53\n\
         root = priority { all of a, default }\n",
    );
    let packets = (0..40).map(|i| (0, udp(1, [53, 80][i as usize % 2], i, 976)));
    let (report, output) = run(&policy, &capture(packets), ReplayOptions::default());
    let found = &report.conservation;
    assert_eq!(
        (found.total.out_packets, found.total.dropped_packets, found.total.held_packets),
        (20, 20, 0),
        "{found:?}"
    );
    let all = Counted::new(20, 20 * 976);
    assert_eq!(found.drops, [(DROPPER.to_owned(), all)].into());
    let classes: Vec<_> =
        report.classes.iter().map(|class| (&*class.class, class.packets, &class.dropped)).collect();
    assert_eq!(classes, [("a", 0, &[(DROPPER.to_owned(), all)].into()), ("default", 20, &BTreeMap::new())]);
    // What is dropped takes no time of the link.
    assert_eq!(read(&output).last().map(|packet| packet.0), Some(20 * 8_000));
}

#[test]
fn a_mark_is_written_into_packets_that_can_carry_it() {
    let policy = compiled(
        "link 1gbps\ndropper marks() { fetched { mark } }\nclass a = udp dport 53\nroot = priority { marks of a, default }\n",
    );
    let packets = (0..8).map(|i| {
        let mut frame = udp(1, [53, 80][i as usize / 4], i, 976);
        frame[15] = i as u8 % 4;
        (0, frame)
    });
    let (report, output) = run(&policy, &capture(packets), ReplayOptions::default());
    assert_eq!((report.conservation.total.out_packets, report.conservation.total.dropped_packets), (8, 0));
    let mut reader = PcapReader::new(&output[..]).expect("a capture");
    let mut fields = Vec::new();
    while let Some(packet) = reader.next_packet().expect("whole packets") {
        fields.push(packet.data[15]);
    }
    assert_eq!(fields, [0, 3, 3, 3, 0, 1, 2, 3]);
}

#[test]
fn a_limit_at_the_root_limits_the_link_and_not_one_class_of_it() {
    let policy = compiled("link 100mbps\nclass web = udp dport 53\nroot = limit 18mbps of fair of web\n");
    // Both classes together offer 80 Mb/s for a second; each alone is above the limit.
    let packets = (0..10_000_u64).map(|i| (i * 100_000, udp(1, [53, 80][i as usize % 2], i as u32, 1000)));
    let mut output = Vec::new();
    let report =
        replay(&policy, &capture(packets)[..], &mut output, ReplayOptions::default()).expect("replays");
    assert!(
        report.conservation.imbalances().is_empty() && report.classes.iter().all(|class| class.packets > 0),
        "{report:?}"
    );
    let burst = weft_policy::default_burst(BitsPerSec(18_000_000)).get();
    let (mut sent, times) = (0, read(&output));
    for (at, ..) in &times {
        sent += 1000;
        let most = burst + 18_000_000 * at / 8 / 1_000_000_000 + 1000;
        assert!(sent <= most, "{sent} bytes after {at} ns, where {most} may leave");
    }
    assert_eq!(times.len() as u64, report.conservation.total.out_packets);
}
