//! The engine's guarantees: one test per guarantee or known trap.

use std::collections::BTreeMap;

use weft_sched::{
    BurstEnd, Child, Departure, Dequeue, Descriptor, Discipline, EnqueueError, FlowError, LaneSpec,
    LeafDiscipline, LeafSpec, LimitSpec, Next, NodeSpec, PacketScheduler, Place, PolicyTree, Program,
    ProgramError, RateError, TreeCounters,
};
use weft_units::{
    BitsPerSec, Bytes, ClassId, ExactRate, FlowId, Instant, LaneId, LeafId, LimitId, NodeId, Packets, Weight,
};

const MEGABIT: u64 = 1_000_000;

fn weight(value: u32) -> Weight {
    Weight::new(value).unwrap()
}

fn leaf(discipline: LeafDiscipline) -> LeafSpec {
    LeafSpec { name: "leaf".to_owned(), discipline }
}

fn lane(class: u32, leaf: u32, limits: &[u32]) -> LaneSpec {
    let limits = limits.iter().copied().map(LimitId).collect();
    LaneSpec { class: ClassId(class), leaf: LeafId(leaf), limits, packet_bound: Packets(100_000) }
}

fn limit(rate: u64, burst: u64) -> LimitSpec {
    LimitSpec { name: "limit".to_owned(), rate: BitsPerSec(rate), burst: Bytes(burst) }
}

/// One inner node over fair leaves, with the given lanes and limits.
fn flat(discipline: Discipline, leaves: u32, lanes: Vec<LaneSpec>, limits: Vec<LimitSpec>) -> Program {
    let children = (0..leaves).map(|at| Child::Leaf(LeafId(at))).collect();
    Program {
        root: Child::Node(NodeId(0)),
        nodes: vec![NodeSpec { name: "root".to_owned(), discipline, children }],
        leaves: (0..leaves).map(|_| leaf(LeafDiscipline::Fair)).collect(),
        limits,
        lanes,
    }
}

fn wfq(weights: &[u32]) -> Discipline {
    Discipline::Wfq(weights.iter().map(|w| weight(*w)).collect())
}

fn put(scheduler: &mut PacketScheduler, flow: FlowId, len: u64, handle: u64) {
    scheduler.enqueue(flow, Descriptor { len: Bytes(len), handle }, Instant::ZERO).unwrap();
}

/// The handle of the packet sent at `now`.
#[track_caller]
fn sent(scheduler: &mut PacketScheduler, now: Instant) -> u64 {
    match scheduler.dequeue(now) {
        Dequeue::Packet(departure) => departure.descriptor.handle,
        other => panic!("at {now}: {other:?}"),
    }
}

#[test]
fn each_parking_of_a_limited_lane_is_counted_once() {
    let lanes = vec![lane(0, 0, &[0]), lane(1, 1, &[])];
    let program = flat(Discipline::Priority, 2, lanes, vec![limit(8 * MEGABIT, 0)]);
    let mut scheduler = PacketScheduler::new(&program).unwrap();
    let limited = scheduler.add_flow(LaneId(0), Weight::ONE).unwrap();
    (0..3).for_each(|handle| put(&mut scheduler, limited, 1000, handle));
    let parkings = |scheduler: &PacketScheduler| scheduler.tree().counters().parkings;
    assert_eq!((sent(&mut scheduler, Instant::ZERO), parkings(&scheduler)), (0, 0));
    // Asking again while the lane is parked parks it no second time.
    for _ in 0..3 {
        assert_eq!(scheduler.dequeue(Instant::ZERO), Dequeue::Wait(Instant::from_millis(1)));
        assert_eq!(parkings(&scheduler), 1);
    }
    assert_eq!((sent(&mut scheduler, Instant::from_millis(1)), parkings(&scheduler)), (1, 1));
    assert_eq!(scheduler.dequeue(Instant::from_millis(1)), Dequeue::Wait(Instant::from_millis(2)));
    assert_eq!((sent(&mut scheduler, Instant::from_millis(2)), parkings(&scheduler)), (2, 2));
    assert_eq!(scheduler.dequeue(Instant::from_millis(2)), Dequeue::Empty);
    assert_eq!(scheduler.tree().counters(), TreeCounters { parkings: 2, rebases: 0 });
}

/// Loom, Figures 6 and 8: a packet for D1, and one of higher priority for D2 whose rate limit is exhausted.
#[test]
fn figures_6_and_8_only_the_limited_destination_waits() {
    let lanes = vec![lane(0, 0, &[0]), lane(1, 1, &[])];
    let q1 = flat(Discipline::Priority, 2, lanes, vec![limit(8 * MEGABIT, 0)]);
    let mut root = q1.clone();
    root.nodes.push(NodeSpec {
        name: "root".to_owned(),
        discipline: wfq(&[1]),
        children: vec![Child::Node(NodeId(0))],
    });
    root.root = Child::Node(NodeId(1));
    let mut scheduler = PacketScheduler::new(&root).unwrap();
    let d2 = scheduler.add_flow(LaneId(0), Weight::ONE).unwrap();
    let d1 = scheduler.add_flow(LaneId(1), Weight::ONE).unwrap();
    put(&mut scheduler, d2, 1000, 20);
    assert_eq!(sent(&mut scheduler, Instant::ZERO), 20);
    let release = Instant::from_millis(1);

    put(&mut scheduler, d1, 1000, 10);
    put(&mut scheduler, d2, 1000, 21);
    assert_eq!(sent(&mut scheduler, Instant::from_nanos(1)), 10, "D1 is not held back by D2");
    assert_eq!(
        scheduler.dequeue(Instant::from_nanos(2)),
        Dequeue::Wait(release),
        "D2 is not sent in the place of D1"
    );
    put(&mut scheduler, d1, 1000, 11);
    put(&mut scheduler, d1, 1000, 12);
    assert_eq!(sent(&mut scheduler, Instant::from_nanos(3)), 11);
    assert_eq!(sent(&mut scheduler, release), 21, "released, D2 has its old rank: before D1");
    assert_eq!(sent(&mut scheduler, release), 12);
    assert_eq!(scheduler.dequeue(release), Dequeue::Empty);
}

/// The same within one leaf: lanes of one first-in first-out queue are held back separately.
#[test]
fn a_limited_destination_does_not_block_the_fifo_it_shares() {
    let mut program =
        flat(Discipline::Priority, 1, vec![lane(0, 0, &[0]), lane(0, 0, &[])], vec![limit(8 * MEGABIT, 0)]);
    program.leaves[0] = leaf(LeafDiscipline::Fifo);
    let mut scheduler = PacketScheduler::new(&program).unwrap();
    let limited = scheduler.add_flow(LaneId(0), Weight::ONE).unwrap();
    let open = scheduler.add_flow(LaneId(1), Weight::ONE).unwrap();
    for (flow, handle) in [(limited, 1), (limited, 2), (open, 3), (limited, 4), (open, 5)] {
        put(&mut scheduler, flow, 1000, handle);
    }
    assert_eq!(sent(&mut scheduler, Instant::ZERO), 1);
    assert_eq!(sent(&mut scheduler, Instant::ZERO), 3);
    assert_eq!(sent(&mut scheduler, Instant::from_millis(1)), 2, "released in front of what arrived later");
    assert_eq!(sent(&mut scheduler, Instant::from_millis(1)), 5);
    assert_eq!(scheduler.dequeue(Instant::from_millis(1)), Dequeue::Wait(Instant::from_millis(2)));
    assert_eq!(sent(&mut scheduler, Instant::from_millis(2)), 4);
}

#[test]
fn trap_equal_ranks_leave_in_the_order_of_insertion() {
    let program = flat(wfq(&[1]), 1, vec![lane(0, 0, &[])], vec![]);
    let mut scheduler = PacketScheduler::new(&program).unwrap();
    let flows: Vec<_> = (0..100).map(|_| scheduler.add_flow(LaneId(0), Weight::ONE).unwrap()).collect();
    for round in 0..3 {
        for (at, flow) in flows.iter().enumerate() {
            put(&mut scheduler, *flow, 1500, round * 100 + at as u64);
        }
    }
    let order: Vec<u64> = (0..300).map(|_| sent(&mut scheduler, Instant::ZERO)).collect();
    assert_eq!(order, (0..300).collect::<Vec<_>>());
}

#[test]
fn trap_every_packet_of_a_batch_is_charged_before_the_next_is_chosen() {
    let lanes = vec![lane(0, 0, &[]), lane(1, 1, &[0])];
    let program = flat(wfq(&[1, 1]), 2, lanes, vec![limit(1000 * MEGABIT, 3000)]);
    let mut scheduler = PacketScheduler::new(&program).unwrap();
    let flows = [0, 1].map(|at| scheduler.add_flow(LaneId(at), Weight::ONE).unwrap());
    for handle in 0..32 {
        put(&mut scheduler, flows[0], 1500, handle);
        put(&mut scheduler, flows[1], 1500, handle);
    }
    let mut batch = [Departure::default(); 32];
    assert_eq!(scheduler.dequeue_burst(&mut batch, Instant::ZERO, |_| {}), (32, BurstEnd::Full));
    let lanes: Vec<u32> = batch.iter().map(|departure| departure.lane.0).collect();
    assert_eq!(lanes[..6], [0, 1, 0, 1, 0, 1], "fair within the batch");
    assert!(
        lanes[6..].iter().all(|lane| *lane == 0),
        "the limit's burst of 3000 bytes holds within the batch"
    );
}

/// KVS and bulk traffic to one destination share its limit. Delayed bulk traffic must not consume the limit's future
/// capacity.
#[test]
fn trap_limited_bulk_does_not_delay_a_later_high_priority_flow_of_the_same_limit() {
    let lanes = vec![lane(0, 0, &[0]), lane(1, 1, &[0])];
    let program = flat(Discipline::Priority, 2, lanes, vec![limit(8 * MEGABIT, 0)]);
    let mut scheduler = PacketScheduler::new(&program).unwrap();
    let kvs = scheduler.add_flow(LaneId(0), Weight::ONE).unwrap();
    for flow in 0..50 {
        let bulk = scheduler.add_flow(LaneId(1), Weight::ONE).unwrap();
        for packet in 0..10 {
            put(&mut scheduler, bulk, 1000, 1000 + flow * 10 + packet);
        }
    }
    assert!(sent(&mut scheduler, Instant::ZERO) >= 1000);
    assert_eq!(scheduler.dequeue(Instant::from_nanos(1)), Dequeue::Wait(Instant::from_millis(1)));
    put(&mut scheduler, kvs, 1000, 7);
    assert_eq!(scheduler.dequeue(Instant::from_nanos(2)), Dequeue::Wait(Instant::from_millis(1)));
    assert_eq!(sent(&mut scheduler, Instant::from_millis(1)), 7, "the very next release is the KVS packet's");
    assert!(sent(&mut scheduler, Instant::from_millis(2)) >= 1000);
}

#[test]
fn wfq_shares_are_exact_within_a_thousandth() {
    let lanes = (0..4).map(|at| lane(at, at, &[])).collect();
    let program = flat(wfq(&[1, 2, 3, 4]), 4, lanes, vec![]);
    let mut tree = PolicyTree::new(&program).unwrap();
    let mut total = [0_u64; 4];
    for at in 0..4 {
        let flow = tree.add_flow(LaneId(at), Weight::ONE).unwrap();
        tree.activate(flow);
    }
    for turn in 0..1_000_000_u64 {
        // The sizes differ between the classes and vary in time, so that equal packet counts would fail.
        let Next::Turn(granted) = tree.next(Instant::ZERO) else { panic!("all are backlogged") };
        let class = granted.lane().index();
        let len = [64, 1500, 594, 9000][class] + turn * 7 % 57;
        total[class] += len;
        tree.finish(granted, Bytes(len), true, Instant::ZERO).unwrap();
    }
    let sum: u64 = total.iter().sum();
    for (at, bytes) in total.iter().enumerate() {
        let error = *bytes as f64 / sum as f64 * 10.0 / (at + 1) as f64 - 1.0;
        assert!(error.abs() < 0.001, "class {at} is off by {error}");
    }
}

/// Rates by weight and by limits in each span of ten thousand packets of a class, with packets of all lengths.
#[test]
fn rates_are_within_a_thousandth_in_every_ten_thousand_packets() {
    const SPAN: u64 = 10_000;
    // A link of 10 Gb/s: two limited classes, and four that share what these leave by their weights.
    let link = BitsPerSec(10_000_000_000);
    let limited = [1_234_567_891_u64, 777_777_777];
    let limits = limited.iter().map(|rate| limit(*rate, 3000)).collect();
    let bound = |at: u32| if at < 2 { vec![at] } else { vec![] };
    let lanes = (0..6).map(|at| lane(at, at, &bound(at))).collect();
    let program = flat(wfq(&[1000, 1000, 1, 2, 3, 4]), 6, lanes, limits);
    let mut tree = PolicyTree::new(&program).unwrap();
    for at in 0..6 {
        let flow = tree.add_flow(LaneId(at), Weight::ONE).unwrap();
        tree.activate(flow);
    }
    let rest = link.get() - limited.iter().sum::<u64>();
    let due = |class: usize| match class {
        0 | 1 => limited[class],
        _ => rest * (class as u64 - 1) / 10,
    };
    let (mut now, mut draw, mut exact) = (Instant::ZERO, 1_u64, ExactRate::at_least_one(link));
    let (mut packets, mut bytes, mut begin) = ([0_u64; 6], [0_u64; 6], [Instant::ZERO; 6]);
    let mut spans = [0; 6];
    while spans.iter().any(|spans| *spans < 5) {
        let Next::Turn(granted) = tree.next(now) else { panic!("four classes have no limit") };
        let class = granted.lane().index();
        draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let len = [64, 594, 1518, 1518][(draw >> 40) as usize % 4];
        now += exact.take(Bytes(len));
        tree.finish(granted, Bytes(len), true, now).unwrap();
        (packets[class], bytes[class]) = (packets[class] + 1, bytes[class] + len);
        if packets[class] == SPAN {
            let seconds = now.saturating_since(begin[class]).get() as f64 / 1e9;
            let error = bytes[class] as f64 * 8.0 / seconds / due(class) as f64 - 1.0;
            // The first span includes the beginning, at which no class has a debt.
            assert!(
                spans[class] == 0 || error.abs() < 0.001,
                "class {class}, span {}: {error}",
                spans[class]
            );
            (packets[class], bytes[class], begin[class]) = (0, 0, now);
            spans[class] += 1;
        }
    }
}

#[test]
fn extreme_weights_share_by_bytes() {
    for weights in [[u32::MAX, u32::MAX / 2 + 1], [u32::MAX, u32::MAX], [100_000, 50_000]] {
        let program = flat(wfq(&[1]), 1, vec![lane(0, 0, &[])], vec![]);
        let mut tree = PolicyTree::new(&program).unwrap();
        for value in weights {
            let flow = tree.add_flow(LaneId(0), weight(value)).unwrap();
            tree.activate(flow);
        }
        let mut total = [0_u64; 2];
        while total[0] + total[1] < 3_000_000_000 {
            let Next::Turn(turn) = tree.next(Instant::ZERO) else { panic!("both are backlogged") };
            let len = [65_536, 9000][turn.flow().index()];
            total[turn.flow().index()] += len;
            tree.finish(turn, Bytes(len), true, Instant::ZERO).unwrap();
        }
        let ratio = total[0] as f64 / total[1] as f64;
        let expected = f64::from(weights[0]) / f64::from(weights[1]);
        assert!((ratio / expected - 1.0).abs() < 0.002, "{weights:?}: {ratio}, expected {expected}");
    }
}

/// Four limits of odd rates, each shared by five lanes of ten flows, on a link that they do not fill.
#[test]
fn rate_limits_are_exact_within_a_ten_thousandth_in_every_second() {
    let rates = [999_999_937, 333_333_333, 2_718_281_828, 77_777_777];
    let limits = rates.iter().map(|rate| limit(*rate, 65_536)).collect();
    let lanes = (0..20).map(|at| lane(at, at % 5, &[at % 4])).collect();
    let program = flat(wfq(&[1, 2, 3, 4, 5]), 5, lanes, limits);
    let mut tree = PolicyTree::new(&program).unwrap();
    for at in 0..200 {
        let flow = tree.add_flow(LaneId(at % 20), weight(1 + at % 3)).unwrap();
        tree.activate(flow);
    }
    let link = BitsPerSec(10_000_000_000);
    let mut now = Instant::ZERO;
    let mut seconds: BTreeMap<u64, [u64; 4]> = BTreeMap::new();
    while now < Instant::from_secs(4) {
        match tree.next(now) {
            Next::Idle => panic!("all flows are backlogged"),
            Next::Wait(until) => now = until,
            Next::Turn(turn) => {
                let len = Bytes(64 + now.as_nanos() % 1455);
                seconds.entry(now.as_nanos() / 1_000_000_000).or_default()[turn.lane().index() % 4] +=
                    len.get();
                tree.finish(turn, len, true, now).unwrap();
                now += link.time_for(len);
            }
        }
    }
    // The first second contains the burst.
    for second in 1..4 {
        for (at, rate) in rates.iter().enumerate() {
            let exact = *rate as f64 / 8.0;
            let error = seconds[&second][at] as f64 - exact;
            // One packet may count on either side of the boundary.
            assert!(error.abs() < exact * 0.0001 + 1518.0, "second {second}, limit {at}: {error} bytes off");
        }
    }
    for (at, rate) in rates.iter().enumerate() {
        let three: u64 = (1..4).map(|second| seconds[&second][at]).sum();
        let error = three as f64 / (*rate as f64 * 3.0 / 8.0) - 1.0;
        assert!(error.abs() < 0.0001, "limit {at} is off by {error}");
    }
}

#[test]
fn time_in_the_shaping_queue_earns_one_segment_and_no_more() {
    let lanes = vec![lane(0, 0, &[0]), lane(1, 1, &[])];
    let program = flat(wfq(&[1, 1]), 2, lanes, vec![limit(8 * MEGABIT, 100_000_000)]);
    let mut tree = PolicyTree::new(&program).unwrap();
    let flows = [0, 1].map(|at| tree.add_flow(LaneId(at), Weight::ONE).unwrap());
    for flow in flows {
        tree.activate(flow);
    }
    let serve = |tree: &mut PolicyTree, now: Instant, len: u64| {
        let Next::Turn(turn) = tree.next(now) else { panic!("both are backlogged") };
        let flow = turn.flow();
        tree.finish(turn, Bytes(len), true, now).unwrap();
        flow
    };
    // The limited flow uses up its burst at once, then waits while the other sends twice as much.
    assert_eq!(serve(&mut tree, Instant::ZERO, 200_000_000), flows[0]);
    for _ in 0..400_000 {
        assert_eq!(serve(&mut tree, Instant::from_nanos(1), 1000), flows[1]);
    }
    let late = Instant::from_secs(1000);
    let order: Vec<_> = (0..6).map(|_| serve(&mut tree, late, 1000)).collect();
    let limited = order.iter().filter(|flow| **flow == flows[0]).count();
    assert!(limited <= 4, "{order:?}");
    assert_eq!(
        order[4..].iter().filter(|flow| **flow == flows[0]).count(),
        1,
        "alternating again: {order:?}"
    );
}

#[test]
fn a_doorbell_during_a_turn_is_not_lost() {
    let program = flat(wfq(&[1]), 1, vec![lane(0, 0, &[])], vec![]);
    let mut tree = PolicyTree::new(&program).unwrap();
    let flow = tree.add_flow(LaneId(0), Weight::ONE).unwrap();
    assert!(tree.activate(flow));
    let Next::Turn(turn) = tree.next(Instant::ZERO) else { panic!("the flow is backlogged") };
    assert!(!tree.activate(flow));
    tree.finish(turn, Bytes(100), false, Instant::ZERO).unwrap();
    assert!(tree.is_active(flow));
    let Next::Turn(turn) = tree.next(Instant::ZERO) else { panic!("the doorbell was lost") };
    tree.finish(turn, Bytes::ZERO, false, Instant::ZERO).unwrap();
    assert_eq!(tree.next(Instant::ZERO), Next::Idle);
}

#[test]
fn a_stale_turn_charges_nothing() {
    let program = flat(wfq(&[1]), 1, vec![lane(0, 0, &[])], vec![]);
    let mut tree = PolicyTree::new(&program).unwrap();
    let flow = tree.add_flow(LaneId(0), Weight::ONE).unwrap();
    tree.activate(flow);
    let Next::Turn(stale) = tree.next(Instant::ZERO) else { panic!("the flow is backlogged") };
    let Next::Turn(turn) = tree.next(Instant::ZERO) else { panic!("the flow keeps its place") };
    let error = tree.finish(stale, Bytes(1), false, Instant::ZERO).unwrap_err();
    assert_eq!(error.flow, flow);
    tree.finish(turn, Bytes(1), false, Instant::ZERO).unwrap();
}

#[test]
fn packets_are_conserved_and_refused_with_the_reason() {
    let mut program = flat(wfq(&[1]), 1, vec![lane(3, 0, &[])], vec![]);
    program.lanes[0].packet_bound = Packets(2);
    let mut scheduler = PacketScheduler::new(&program).unwrap();
    let flow = scheduler.add_flow(LaneId(0), Weight::ONE).unwrap();
    put(&mut scheduler, flow, 100, 1);
    put(&mut scheduler, flow, 200, 2);
    let full = EnqueueError::ClassFull { class: ClassId(3), lane: LaneId(0), bound: Packets(2) };
    let third = Descriptor { len: Bytes(300), handle: 3 };
    assert_eq!(scheduler.enqueue(flow, third, Instant::ZERO), Err(full));
    assert_eq!(sent(&mut scheduler, Instant::ZERO), 1);
    let counters = scheduler.counters(LaneId(0)).unwrap();
    assert_eq!((counters.enqueued.bytes, counters.dequeued.bytes), (Bytes(300), Bytes(100)));
    assert_eq!((counters.refused.packets, counters.refused.bytes), (Packets(1), Bytes(300)));
    assert_eq!((counters.held().packets, counters.held().bytes), (Packets(1), Bytes(200)));
    assert_eq!(scheduler.check_invariants(), Ok(()));
    let unknown = FlowId(9);
    assert_eq!(
        scheduler.enqueue(unknown, third, Instant::ZERO),
        Err(EnqueueError::UnknownFlow { given: unknown })
    );
}

#[test]
fn flows_come_and_go() {
    let program = flat(wfq(&[1]), 1, vec![lane(0, 0, &[])], vec![]);
    let mut tree = PolicyTree::new(&program).unwrap();
    let flow = tree.add_flow(LaneId(0), Weight::ONE).unwrap();
    tree.activate(flow);
    assert_eq!(tree.remove_flow(flow), Err(FlowError::Backlogged { given: flow }));
    let Next::Turn(turn) = tree.next(Instant::ZERO) else { panic!("the flow is backlogged") };
    tree.finish(turn, Bytes(1), false, Instant::ZERO).unwrap();
    assert_eq!(tree.remove_flow(flow), Ok(()));
    assert_eq!(tree.remove_flow(flow), Err(FlowError::UnknownFlow { given: flow }));
    assert!(!tree.activate(flow), "a removed flow is unknown");
    assert_eq!(tree.add_flow(LaneId(0), weight(5)), Ok(flow), "its slot is used again");
    assert_eq!(tree.weight_of(flow), Some(weight(5)));
    let unknown = FlowError::UnknownLane { given: LaneId(7), count: 1 };
    assert_eq!(tree.add_flow(LaneId(7), Weight::ONE), Err(unknown));
    assert_eq!(
        tree.set_rate(LimitId(0), BitsPerSec(1), Instant::ZERO),
        Err(RateError::UnknownLimit { given: LimitId(0), count: 0 })
    );
}

#[test]
fn unsound_programs_are_refused() {
    let sound = flat(wfq(&[1, 1]), 2, vec![lane(0, 0, &[0]), lane(1, 1, &[])], vec![limit(1, 0)]);
    assert!(PolicyTree::new(&sound).is_ok());
    let refused = |change: fn(&mut Program)| {
        let mut program = sound.clone();
        change(&mut program);
        let error = PolicyTree::new(&program).unwrap_err();
        assert!(!error.to_string().contains('\n'));
        error
    };
    assert!(matches!(refused(|p| p.limits[0].rate = BitsPerSec(0)), ProgramError::ZeroRate { .. }));
    assert!(matches!(refused(|p| p.lanes[0].leaf = LeafId(9)), ProgramError::UnknownLeaf { .. }));
    assert!(matches!(refused(|p| p.lanes[0].limits[0] = LimitId(9)), ProgramError::UnknownLimit { .. }));
    assert!(matches!(refused(|p| p.lanes[0].limits.push(LimitId(0))), ProgramError::RepeatedLimit { .. }));
    assert!(matches!(refused(|p| p.root = Child::Node(NodeId(4))), ProgramError::UnknownNode { .. }));
    assert!(matches!(refused(|p| p.root = Child::Leaf(LeafId(0))), ProgramError::Unreachable { .. }));
    assert!(matches!(refused(|p| p.nodes[0].children.clear()), ProgramError::NoChildren { .. }));
    assert!(matches!(refused(|p| p.nodes[0].discipline = wfq(&[1])), ProgramError::WeightCount { .. }));
    let cycle: fn(&mut Program) = |p| p.nodes[0].children[1] = Child::Node(NodeId(0));
    assert!(matches!(refused(cycle), ProgramError::NotATree { .. }));
    let shared: fn(&mut Program) = |p| p.nodes[0].children[1] = Child::Leaf(LeafId(0));
    assert!(matches!(refused(shared), ProgramError::NotATree { .. }));
}

/// Positions are what the tree chooses by: the flow of each turn has the least tag at the root, and among the flows of its leaf.
#[test]
fn the_next_flow_is_the_first_in_every_order() {
    let program = flat(wfq(&[1, 3]), 2, vec![lane(0, 0, &[]), lane(1, 1, &[])], Vec::new());
    let mut scheduler = PacketScheduler::new(&program).unwrap();
    let flows: Vec<FlowId> =
        (0..6).map(|at| scheduler.add_flow(LaneId(at % 2), weight(1 + at)).unwrap()).collect();
    for round in 0..40_u64 {
        let flow = flows[(round * 7 % 6) as usize];
        put(&mut scheduler, flow, 64 + round * 331 % 1400, round);
    }
    let tag = |place: Place| if let Place::Tag(tag) = place { tag } else { panic!("{place:?}") };
    for _ in 0..40 {
        let of = |flow: &FlowId| scheduler.tree().positions(*flow, Instant::ZERO);
        let positions: Vec<_> = flows.iter().map(|flow| (*flow, of(flow))).collect();
        let Dequeue::Packet(Departure { flow, lane, .. }) = scheduler.dequeue(Instant::ZERO) else {
            panic!("a packet waits")
        };
        let chosen = &positions.iter().find(|(known, _)| *known == flow).expect("a flow").1;
        assert_eq!(chosen[0].order, Child::Leaf(LeafId(lane.0)), "the leaf first");
        assert_eq!(chosen[1].order, Child::Node(NodeId(0)), "then the root");
        for (_, other) in positions.iter().filter(|(_, positions)| !positions.is_empty()) {
            assert!(tag(chosen[1].place) <= tag(other[1].place));
            assert!(other[0].order != chosen[0].order || tag(chosen[0].place) <= tag(other[0].place));
        }
    }
    assert!(
        flows.iter().all(|flow| scheduler.tree().positions(*flow, Instant::ZERO).is_empty()),
        "all are idle"
    );
    assert!(scheduler.tree().positions(FlowId(99), Instant::ZERO).is_empty(), "no such flow");
}
