//! Many flows and lanes, whose records are fetched before they are needed: the order is that of turns, which fetch nothing.

use weft_sched::{
    Child, Dequeue, Descriptor, Discipline, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, Next, NodeSpec,
    PacketScheduler, PolicyTree, Program,
};
use weft_units::testing::Rng;
use weft_units::{
    BitsPerSec, Bytes, ClassId, FlowId, Instant, LaneId, LeafId, LimitId, Nanos, NodeId, Packets, Weight,
};

/// Above the numbers of flows and of lanes from which on records are fetched.
const FLOWS: usize = 9000;
const PIPES: u32 = 160;
/// The classes of each pipe.
const CLASSES: u32 = 16;

/// Pipes that share equally, each with classes of strict priority. A lane has a limit of its class, one of its pipe, and two of all.
fn pipes_program(rate: BitsPerSec) -> Program {
    let classes = |pipe: u32| pipe * CLASSES..(pipe + 1) * CLASSES;
    let node = |name: &str, discipline, children| NodeSpec { name: name.to_owned(), discipline, children };
    let pipe = |pipe| {
        let leaves = classes(pipe).map(|at| Child::Leaf(LeafId(at))).collect();
        node("pipe", Discipline::Priority, leaves)
    };
    let shares = Discipline::Wfq(vec![Weight::ONE; PIPES as usize]);
    let root = node("root", shares, (0..PIPES).map(|at| Child::Node(NodeId(at))).collect());
    let lane = |at: u32| LaneSpec {
        class: ClassId(at),
        leaf: LeafId(at),
        limits: [2 + PIPES + at, 2 + at / CLASSES, 0, 1].map(LimitId).to_vec(),
        packet_bound: Packets::MAX,
    };
    let limit = |_| LimitSpec { name: "limit".to_owned(), rate, burst: Bytes(1 << 20) };
    let leaf = |_| LeafSpec { name: "leaf".to_owned(), discipline: LeafDiscipline::Fifo };
    let lanes = PIPES * CLASSES;
    Program {
        root: Child::Node(NodeId(PIPES)),
        nodes: (0..PIPES).map(pipe).chain([root]).collect(),
        leaves: (0..lanes).map(leaf).collect(),
        limits: (0..2 + PIPES + lanes).map(limit).collect(),
        lanes: (0..lanes).map(lane).collect(),
    }
}

/// Serves `turns` packets by a packet scheduler and by turns, with one packet per flow, and compares each.
fn compare(program: &Program, turns: usize) {
    let mut packets = PacketScheduler::new(program).unwrap();
    let mut tree = PolicyTree::new(program).unwrap();
    let lanes = program.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_vacant());
    let lanes: Vec<usize> = lanes.map(|(at, _)| at).collect();
    let mut rng = Rng::new(11);
    let mut idle = Vec::new();
    for at in 0..FLOWS {
        let lane = LaneId::from_index(lanes[at % lanes.len()]);
        let flow = packets.add_flow(lane, Weight::ONE).unwrap();
        assert_eq!(tree.add_flow(lane, Weight::ONE), Ok(flow));
        idle.push(flow);
    }
    let mut lengths = [Bytes::ZERO; FLOWS];
    let (mut now, mut done) = (Instant::ZERO, 0);
    while done < turns {
        while idle.len() > FLOWS / 8 {
            let flow: FlowId = idle.swap_remove(rng.below(idle.len() as u32) as usize);
            let len = Bytes([64, 594, 1518, 1518, 64 + u64::from(rng.below(9000))][rng.below(5) as usize]);
            lengths[flow.index()] = len;
            packets.enqueue(flow, Descriptor { len, handle: 0 }, now).unwrap();
            assert!(tree.activate(flow));
        }
        now += Nanos(1000);
        match (packets.dequeue(now), tree.next(now)) {
            (Dequeue::Packet(packet), Next::Turn(turn)) => {
                assert_eq!((packet.flow, packet.lane), (turn.flow(), turn.lane()), "turn {done}");
                tree.finish(turn, lengths[packet.flow.index()], false, now).unwrap();
                idle.push(packet.flow);
                done += 1;
            }
            (Dequeue::Wait(until), Next::Wait(release)) => {
                assert_eq!(until, release);
                now = until;
            }
            (packet, turn) => panic!("{packet:?} {turn:?}"),
        }
    }
    packets.check_invariants().unwrap();
    tree.check_invariants().unwrap();
}

#[test]
fn pipes_without_a_limit_that_binds() {
    compare(&pipes_program(BitsPerSec(800_000_000_000)), 30_000);
}

#[test]
fn pipes_with_limits_that_bind() {
    let mut program = pipes_program(BitsPerSec(8_000_000_000));
    // Some pipes and classes are slow.
    for limit in program.limits.iter_mut().skip(2).step_by(5) {
        limit.rate = BitsPerSec(50_000_000);
        limit.burst = Bytes(3000);
    }
    compare(&program, 30_000);
}

#[test]
fn lanes_that_share_a_leaf_among_lanes_that_do_not() {
    let mut program = pipes_program(BitsPerSec(800_000_000_000));
    for at in (0..program.lanes.len()).step_by(3) {
        let lane = LaneSpec { limits: vec![LimitId(0)], ..program.lanes[at].clone() };
        program.lanes.push(lane);
    }
    compare(&program, 20_000);
}
