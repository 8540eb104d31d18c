//! Changes of the program, case by case. The semantics are in `weft_sched::tree::change`.

use crate::testing::tenants_program;
use weft_sched::{
    ChangeError, Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, Next, NodeSpec,
    PolicyTree, Program, ProgramError,
};
use weft_units::testing::Rng;
use weft_units::{
    BitsPerSec, Bytes, ClassId, FlowId, Instant, LaneId, LeafId, LimitId, Nanos, NodeId, Packets, Weight,
};

/// Leaves of one lane each below one fair queueing node.
pub(crate) fn program(weights: &[u32]) -> Program {
    let ids = || 0..weights.len() as u32;
    Program {
        root: Child::Node(NodeId(0)),
        nodes: vec![NodeSpec {
            name: "root".to_owned(),
            discipline: Discipline::Wfq(weights.iter().map(|w| Weight::new(*w).unwrap()).collect()),
            children: ids().map(|at| Child::Leaf(LeafId(at))).collect(),
        }],
        leaves: ids()
            .map(|at| LeafSpec { name: format!("leaf{at}"), discipline: LeafDiscipline::Fair })
            .collect(),
        limits: Vec::new(),
        lanes: ids()
            .map(|at| LaneSpec {
                class: ClassId(at),
                leaf: LeafId(at),
                limits: Vec::new(),
                packet_bound: Packets::MAX,
            })
            .collect(),
    }
}

/// A tree with `flows` backlogged flows per lane.
fn tree(program: &Program, flows: u32) -> PolicyTree {
    let mut tree = PolicyTree::new(program).unwrap();
    for at in 0..program.lanes.len() as u32 * flows {
        let flow = tree.add_flow(LaneId(at / flows), Weight::ONE).unwrap();
        tree.activate(flow);
    }
    tree
}

fn serve(tree: &mut PolicyTree, len: u64, now: Instant) -> Option<(FlowId, LaneId)> {
    let Next::Turn(turn) = tree.next(now) else { return None };
    let served = (turn.flow(), turn.lane());
    tree.finish(turn, Bytes(len), true, now).unwrap();
    Some(served)
}

fn change(tree: &mut PolicyTree, program: &Program, heirs: &[(LaneId, LaneId)], now: Instant) -> usize {
    let prepared = PolicyTree::prepare(program, heirs, 4096).unwrap();
    let moved = tree.change(prepared, now).unwrap().moved;
    tree.check_invariants().unwrap();
    moved
}

#[test]
fn a_change_to_the_same_program_alters_nothing() {
    let mut program = tenants_program();
    program.limits.push(LimitSpec {
        name: "l".to_owned(),
        rate: BitsPerSec(300_000_007),
        burst: Bytes(3000),
    });
    for lane in program.lanes.iter_mut().step_by(3) {
        lane.limits.push(LimitId(0));
    }
    let (mut plain, mut changed) = (tree(&program, 4), tree(&program, 4));
    let mut rng = Rng::new(5);
    let mut now = Instant::ZERO;
    for turn in 0..20_000 {
        if turn % 7 == 0 {
            assert_eq!(change(&mut changed, &program, &[], now), 0);
        }
        let (flow, len) = (FlowId(rng.below(256)), Bytes(64 + u64::from(rng.below(9000))));
        let more = rng.below(3) > 0;
        now += Nanos(u64::from(rng.below(5000)));
        let (Next::Turn(one), Next::Turn(other)) = (plain.next(now), changed.next(now)) else {
            panic!("work")
        };
        assert_eq!((one.flow(), one.lane()), (other.flow(), other.lane()), "turn {turn}");
        plain.finish(one, len, more, now).unwrap();
        changed.finish(other, len, more, now).unwrap();
        assert_eq!(plain.activate(flow), changed.activate(flow));
    }
    assert!(plain.counters().parkings > 100);
}

#[test]
fn a_class_that_comes_and_goes_elsewhere_does_not_alter_the_order_of_the_others() {
    // Strict priority above: the changing part below is idle throughout.
    let nested = |extra: &[u32]| {
        let mut whole = program(&[3, 5, 7]);
        let low = program(extra);
        whole.nodes[0].name = "high".to_owned();
        let first = whole.leaves.len() as u32;
        whole.leaves.extend(low.leaves);
        whole
            .lanes
            .extend(low.lanes.into_iter().map(|lane| LaneSpec { leaf: LeafId(lane.leaf.0 + first), ..lane }));
        let children = (0..extra.len() as u32).map(|at| Child::Leaf(LeafId(at + first))).collect();
        whole.nodes.push(NodeSpec { name: "low".to_owned(), children, ..low.nodes[0].clone() });
        let children = vec![Child::Node(NodeId(0)), Child::Node(NodeId(1))];
        whole.nodes.push(NodeSpec { name: "root".to_owned(), discipline: Discipline::Priority, children });
        whole.root = Child::Node(NodeId(2));
        whole
    };
    let run = |changes: bool| {
        let mut tree = PolicyTree::new(&nested(&[1])).unwrap();
        for at in 0..9 {
            let flow = tree.add_flow(LaneId(at % 3), Weight::ONE).unwrap();
            tree.activate(flow);
        }
        let mut order = Vec::new();
        for turn in 0..3000_u64 {
            if changes && turn % 5 == 0 {
                let extra = if turn % 2 == 0 { &[1, 4][..] } else { &[2][..] };
                change(&mut tree, &nested(extra), &[], Instant::ZERO);
            }
            order.push(serve(&mut tree, 100 + turn * 977 % 1400, Instant::ZERO));
        }
        order
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn a_new_weight_counts_from_the_change_on() {
    let mut tree = tree(&program(&[1, 1]), 1);
    let share = |tree: &mut PolicyTree| {
        let mut served = [0_u32; 2];
        for _ in 0..4000 {
            let (_, lane) = serve(tree, 1500, Instant::ZERO).unwrap();
            served[lane.index()] += 1;
        }
        served
    };
    assert_eq!(share(&mut tree), [2000, 2000]);
    change(&mut tree, &program(&[3, 1]), &[], Instant::ZERO);
    let [heavy, light] = share(&mut tree);
    assert!(heavy.abs_diff(3000) <= 1 && light.abs_diff(1000) <= 1, "{heavy} {light}");
}

/// Over any window the limited lane sends no more than rate x time + burst + one packet, whatever changes elsewhere.
#[test]
fn a_limit_is_exact_over_every_window_across_changes() {
    let limited = |weight: u32, lanes: usize| {
        let mut program = program(&[weight, 1, 1][..lanes]);
        program.limits.push(LimitSpec {
            name: "l".to_owned(),
            rate: BitsPerSec(8_000_000),
            burst: Bytes(3000),
        });
        program.lanes[0].limits.push(LimitId(0));
        program
    };
    let mut tree = tree(&limited(1, 2), 1);
    let (mut now, mut sent, mut rng) = (Instant::ZERO, Vec::new(), Rng::new(3));
    while now < Instant::from_secs(2) {
        if rng.below(20) == 0 {
            let lanes = 2 + rng.below(2) as usize;
            change(&mut tree, &limited(1 + rng.below(9), lanes), &[], now);
        }
        if let Some((_, LaneId(0))) = serve(&mut tree, 1000, now) {
            sent.push(now);
        }
        now += Nanos(50_000 + u64::from(rng.below(100_000)));
    }
    // One byte is a microsecond.
    for (at, from) in sent.iter().enumerate() {
        for (count, to) in sent[at..].iter().enumerate() {
            let most = to.saturating_since(*from).get() / 1000 + 3000 + 1000;
            assert!((count as u64 + 1) * 1000 <= most, "{count} packets from {from:?} to {to:?}");
        }
    }
    let total = sent.len() as u64 * 1000;
    assert!((1_990_000..=2_004_000).contains(&total), "{total}");
}

#[test]
fn a_new_rate_keeps_the_debt_in_bytes() {
    let limited = |rate: u64| {
        let mut program = program(&[1]);
        program.limits.push(LimitSpec { name: "l".to_owned(), rate: BitsPerSec(rate), burst: Bytes::ZERO });
        program.lanes[0].limits.push(LimitId(0));
        program
    };
    let mut tree = tree(&limited(8_000), 1);
    assert!(serve(&mut tree, 1000, Instant::ZERO).is_some());
    assert_eq!(tree.next(Instant::ZERO), Next::Wait(Instant::from_secs(1)));
    change(&mut tree, &limited(80_000), &[], Instant::from_millis(500));
    assert_eq!(tree.next(Instant::from_millis(500)), Next::Wait(Instant::from_millis(550)));
    change(&mut tree, &program(&[1]), &[], Instant::from_millis(510));
    assert_eq!(tree.parked_lanes(), 1);
    assert!(serve(&mut tree, 1000, Instant::from_millis(510)).is_some(), "no limit, no wait");
}

/// The program with a first-in first-out leaf and lane 1 gone or there.
fn fifo(lanes: usize) -> Program {
    let mut program = program(&[1, 1]);
    program.leaves.iter_mut().for_each(|leaf| leaf.discipline = LeafDiscipline::Fifo);
    if lanes == 1 {
        program.lanes[1] = LaneSpec::vacant();
    }
    program
}

#[test]
fn packets_of_a_lane_that_is_gone_keep_their_order_of_arrival() {
    let mut tree = PolicyTree::new(&fifo(2)).unwrap();
    let flows: Vec<FlowId> = (0..6).map(|at| tree.add_flow(LaneId(at % 2), Weight::ONE).unwrap()).collect();
    for at in [3, 0, 5, 2, 1, 4] {
        tree.activate(flows[at]);
    }
    assert_eq!(change(&mut tree, &fifo(1), &[(LaneId(1), LaneId(0))], Instant::ZERO), 3);
    let served: Vec<_> = (0..6).filter_map(|_| serve(&mut tree, 100, Instant::ZERO)).collect();
    assert_eq!(served, [3, 0, 5, 2, 1, 4].map(|at| (flows[at], LaneId(0))));
}

#[test]
fn what_cannot_change_is_refused_and_alters_nothing() {
    let mut tree = PolicyTree::new(&fifo(2)).unwrap();
    let flow = tree.add_flow(LaneId(1), Weight::ONE).unwrap();
    tree.activate(flow);
    let prepare = |heirs: &[(LaneId, LaneId)], flows| PolicyTree::prepare(&fifo(1), heirs, flows).unwrap();
    let refused = tree.change(prepare(&[], 1), Instant::ZERO).unwrap_err();
    assert_eq!(refused.why, ChangeError::NoHeir { lane: LaneId(1), flows: 1 });
    let heirs = [(LaneId(1), LaneId(0))];
    let refused = tree.change(prepare(&heirs, 0), Instant::ZERO).unwrap_err();
    assert_eq!(refused.why, ChangeError::TooManyFlows { flows: 1, prepared: 0 });
    let Next::Turn(turn) = tree.next(Instant::ZERO) else { panic!("a flow is backlogged") };
    let refused = tree.change(prepare(&heirs, 1), Instant::ZERO).unwrap_err();
    assert_eq!(refused.why, ChangeError::TurnOutstanding { flow });
    tree.finish(turn, Bytes(100), true, Instant::ZERO).unwrap();
    assert_eq!(tree.lane_of(flow), Some(LaneId(1)));
    let changed = tree.change(refused.prepared, Instant::ZERO).unwrap();
    assert_eq!((changed.moved, tree.lane_of(flow)), (1, Some(LaneId(0))));
    let refused = tree.change(changed.retired, Instant::ZERO).unwrap_err();
    assert_eq!(refused.why, ChangeError::Spent);
    tree.check_invariants().unwrap();
}

#[test]
fn a_vacant_lane_takes_no_flow_and_needs_no_leaf() {
    let mut tree = PolicyTree::new(&fifo(1)).unwrap();
    assert!(tree.add_flow(LaneId(1), Weight::ONE).is_err());
    let mut program = fifo(1);
    program.nodes.push(NodeSpec::vacant());
    program.leaves.push(LeafSpec::vacant());
    program.limits.push(LimitSpec::vacant());
    assert!(PolicyTree::new(&program).is_ok());
    program.lanes[1] = LaneSpec { leaf: LeafId(2), ..program.lanes[0].clone() };
    let unreachable = ProgramError::Unreachable { child: Child::Leaf(LeafId(2)) };
    assert_eq!(PolicyTree::new(&program).unwrap_err(), unreachable);
}
