//! The lag on small programs, and the bound on random trees under the engine.

use super::*;
use crate::program::{LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec};
use crate::{Next, PolicyTree};
use weft_units::{BitsPerSec, ClassId, FlowId, Instant, LimitId, Packets, Weight};

fn leaf(number: u32) -> Child {
    Child::Leaf(LeafId(number))
}

fn wfq(weights: &[u32], children: Vec<Child>) -> NodeSpec {
    let weights = weights.iter().map(|weight| Weight::new(*weight).expect("weight")).collect();
    NodeSpec { name: String::new(), discipline: Discipline::Wfq(weights), children }
}

fn priority(children: Vec<Child>) -> NodeSpec {
    NodeSpec { name: String::new(), discipline: Discipline::Priority, children }
}

fn program(nodes: Vec<NodeSpec>, limits: &[Option<u64>]) -> Program {
    let (mut lanes, mut all) = (Vec::new(), Vec::new());
    for (number, limit) in limits.iter().enumerate() {
        let mut passes = Vec::new();
        if let Some(rate) = limit {
            passes.push(LimitId::from_index(all.len()));
            all.push(LimitSpec { name: String::new(), rate: BitsPerSec(*rate), burst: Bytes::ZERO });
        }
        let (class, leaf) = (ClassId::from_index(number), LeafId::from_index(number));
        lanes.push(LaneSpec { class, leaf, limits: passes, packet_bound: Packets::MAX });
    }
    let spec = LeafSpec { name: String::new(), discipline: LeafDiscipline::Fifo };
    Program { root: Child::Node(NodeId(0)), nodes, leaves: vec![spec; limits.len()], limits: all, lanes }
}

#[test]
fn a_leaf_that_is_not_served_lags_by_its_share() {
    let mut lag = FluidLag::new(&program(vec![wfq(&[3, 1], vec![leaf(0), leaf(1)])], &[None, None]));
    (0..2).for_each(|lane| lag.activated(LaneId(lane)));
    lag.sent(LaneId(1), Bytes(4000));
    lag.sent(LaneId(0), Bytes(4000));
    assert_eq!(lag.largest(LeafId(0)), Some(Bytes(3000)), "three quarters of what the other sent");
    assert_eq!(lag.largest(LeafId(1)), Some(Bytes(0)));
    lag.sent(LaneId(1), Bytes(0));
    assert_eq!(lag.largest(LeafId(1)), Some(Bytes(0)), "it had 4,000 of 2,000 due");
}

#[test]
fn an_idle_leaf_has_no_due_and_the_first_of_a_priority_has_all() {
    let nodes = vec![priority(vec![leaf(0), Child::Node(NodeId(1))]), wfq(&[1, 1], vec![leaf(1), leaf(2)])];
    let mut lag = FluidLag::new(&program(nodes, &[None; 3]));
    lag.activated(LaneId(1));
    lag.sent(LaneId(1), Bytes(10_000));
    lag.activated(LaneId(0));
    lag.activated(LaneId(2));
    lag.sent(LaneId(1), Bytes(600));
    lag.sent(LaneId(0), Bytes(100));
    lag.idled(LaneId(0));
    assert_eq!(lag.largest(LeafId(0)), Some(Bytes(600)));
    lag.sent(LaneId(1), Bytes(500));
    lag.sent(LaneId(2), Bytes(500));
    // What the urgent leaf was due when it ran empty, 700 less the 100 that it sent, goes to both.
    assert_eq!(lag.largest(LeafId(2)), Some(Bytes(550)), "only since the urgent leaf is idle");
}

#[test]
fn a_leaf_that_comes_and_goes_is_still_served_in_the_fluid_schedule() {
    let mut lag = FluidLag::new(&program(vec![wfq(&[1, 1], vec![leaf(0), leaf(1)])], &[None, None]));
    lag.activated(LaneId(0));
    for _ in 0..1000 {
        // One chunk of each in turn, as an exact scheduler serves them, and the second is idle in between.
        lag.activated(LaneId(1));
        lag.sent(LaneId(1), Bytes(1500));
        lag.idled(LaneId(1));
        lag.sent(LaneId(0), Bytes(1500));
    }
    assert!(lag.largest(LeafId(0)).expect("due") <= Bytes(1500), "{lag:?}");
    assert!(lag.largest(LeafId(1)).expect("due") <= Bytes(1500), "{lag:?}");
}

#[test]
fn bytes_of_a_limited_leaf_come_from_its_rivals() {
    // x (limited) and y share a half, z has the other.
    let nodes =
        vec![wfq(&[1, 1], vec![Child::Node(NodeId(1)), leaf(2)]), wfq(&[1, 1], vec![leaf(0), leaf(1)])];
    let mut lag = FluidLag::new(&program(nodes, &[Some(1000), None, None]));
    (0..3).for_each(|lane| lag.activated(LaneId(lane)));
    for _ in 0..100 {
        // x a tenth, y four tenths, z a half.
        lag.sent(LaneId(0), Bytes(100));
        lag.sent(LaneId(1), Bytes(400));
        lag.sent(LaneId(2), Bytes(500));
    }
    assert_eq!(lag.largest(LeafId(0)), None, "a limited leaf has no due");
    assert!(lag.largest(LeafId(1)).expect("due") <= Bytes(0));
    assert!(lag.largest(LeafId(2)).expect("due") <= Bytes(250), "{lag:?}");
    // Alone with x, z is due what x leaves.
    lag.idled(LaneId(1));
    for _ in 0..100 {
        lag.sent(LaneId(0), Bytes(100));
        lag.sent(LaneId(2), Bytes(500));
    }
    assert!(lag.largest(LeafId(2)).expect("due") <= Bytes(250), "{lag:?}");
}

/// The engine stays within the bound, and a scheduler that ignores the weights does not.
#[test]
fn the_engine_stays_within_the_bound_on_random_trees() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut broken = 0;
    for _ in 0..200 {
        let weights: Vec<u32> = (0..5).map(|_| 1 + next(9) as u32).collect();
        let nodes = vec![
            priority(vec![leaf(0), Child::Node(NodeId(1))]),
            wfq(&weights[..3], vec![leaf(1), Child::Node(NodeId(2)), leaf(4)]),
            wfq(&weights[3..], vec![leaf(2), leaf(3)]),
        ];
        let program = program(nodes, &[None; 5]);
        let mut tree = PolicyTree::new(&program).expect("tree");
        let flows: Vec<FlowId> =
            (0..5).map(|lane| tree.add_flow(LaneId(lane), Weight::ONE).expect("flow")).collect();
        let [mut lag, mut naive] = [(); 2].map(|()| FluidLag::new(&program));
        let mut turns = 0;
        for _ in 0..3000 {
            let lane = next(if turns % 50 == 0 { 5 } else { 30 });
            if lane < 5 && tree.activate(flows[lane as usize]) {
                lag.activated(LaneId(lane as u32));
                naive.activated(LaneId(lane as u32));
            }
            let Next::Turn(turn) = tree.next(Instant::ZERO) else { continue };
            turns += 1;
            let (lane, bytes) = (turn.lane(), Bytes(64 + next(1436)));
            let stays = next(if lane.0 == 0 { 2 } else { 200 }) > 0;
            tree.finish(turn, bytes, stays, Instant::ZERO).expect("the turn");
            lag.sent(lane, bytes);
            naive.sent(LaneId(4), bytes);
            if !stays {
                lag.idled(lane);
                naive.idled(lane);
            }
        }
        for leaf in (0..5).map(LeafId) {
            let (largest, bound) = (lag.largest(leaf).expect("due"), lag.bound(leaf, Bytes(1500)));
            assert!(largest <= bound, "leaf {}: {largest:?} of {bound:?}", leaf.0);
            broken += u32::from(naive.largest(leaf).expect("due") > bound);
        }
    }
    assert!(broken > 100, "another order must not pass: {broken}");
}
