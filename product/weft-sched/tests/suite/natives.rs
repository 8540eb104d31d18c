//! The built-in disciplines and their texts as programs give the same order, on random trees under random traffic.

use std::sync::Arc;

use proptest::prelude::*;
use weft_rank::{Algorithm, Reading, Scale, samples};
use weft_sched::{
    Child, Custom, Dequeue, Descriptor, Discipline, LaneSpec, LeafDiscipline, LeafSpec, NodeSpec,
    PacketScheduler, Program,
};
use weft_units::testing::Rng;
use weft_units::{
    BitsPerSec, Bytes, ClassId, FlowId, Instant, LaneId, LeafId, Nanos, NodeId, Packets, Weight,
};

/// A random tree of priorities and weighted fair queueing over fair and first-in first-out leaves.
fn native(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let mut program = Program {
        root: Child::Leaf(LeafId(0)),
        nodes: Vec::new(),
        leaves: Vec::new(),
        limits: Vec::new(),
        lanes: Vec::new(),
    };
    let depth = 1 + rng.below(3);
    program.root = child(&mut program, &mut rng, depth);
    program
}

fn child(program: &mut Program, rng: &mut Rng, depth: u32) -> Child {
    if depth == 0 {
        let leaf = LeafId::from_index(program.leaves.len());
        let discipline = if rng.below(3) == 0 { LeafDiscipline::Fifo } else { LeafDiscipline::Fair };
        program.leaves.push(LeafSpec { name: format!("leaf{}", leaf.0), discipline });
        for _ in 0..1 + rng.below(2) {
            let class = ClassId::from_index(program.lanes.len());
            program.lanes.push(LaneSpec { class, leaf, limits: Vec::new(), packet_bound: Packets::MAX });
        }
        return Child::Leaf(leaf);
    }
    let children: Vec<Child> = (0..1 + rng.below(4)).map(|_| child(program, rng, depth - 1)).collect();
    let weight = |rng: &mut Rng| Weight::new([1, 1, 2, 3, 7, 1000][rng.below(6) as usize]).expect("a weight");
    let discipline = match rng.below(2) {
        0 => Discipline::Priority,
        _ => Discipline::Wfq(children.iter().map(|_| weight(rng)).collect()),
    };
    program.nodes.push(NodeSpec { name: format!("node{}", program.nodes.len()), discipline, children });
    Child::Node(NodeId::from_index(program.nodes.len() - 1))
}

fn custom(algorithm: Algorithm, parameters: Vec<Vec<u64>>) -> Arc<Custom> {
    Arc::new(Custom::new(Arc::new(algorithm), parameters))
}

/// The same tree with programs at some of its places.
fn as_programs(native: &Program, seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let mut program = native.clone();
    for node in program.nodes.iter_mut().filter(|_| rng.below(3) > 0) {
        node.discipline = Discipline::Custom(match &node.discipline {
            Discipline::Wfq(weights) => {
                custom(samples::stfq(), weights.iter().map(|weight| vec![weight.get().into()]).collect())
            }
            _ => {
                custom(samples::strict(), (0..node.children.len() as u64).map(|level| vec![level]).collect())
            }
        });
    }
    for leaf in program.leaves.iter_mut().filter(|_| rng.below(3) > 0) {
        leaf.discipline = LeafDiscipline::Custom(match leaf.discipline {
            LeafDiscipline::Fair => custom(samples::stfq(), vec![vec![1]]),
            _ => custom(samples::codel(), vec![vec![u64::MAX, u64::MAX, 0]]),
        });
    }
    program
}

fn flows(scheduler: &mut PacketScheduler, lanes: usize) -> Vec<FlowId> {
    let weight = |at: usize| Weight::new([1, 2, 5][at % 3]).expect("a weight");
    let add = |at| scheduler.add_flow(LaneId::from_index(at % lanes), weight(at)).expect("a flow");
    (0..12).map(add).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

    #[test]
    fn programs_give_the_order_of_the_built_in_disciplines(
        seed in any::<u64>(),
        operations in prop::collection::vec(prop::option::of((0..12_usize, 1..2000_u64)), 1..300),
    ) {
        let program = native(seed);
        let scripted = as_programs(&program, seed);
        let mut one = PacketScheduler::new(&program).expect("a program");
        let mut other = PacketScheduler::new(&scripted).expect("a program");
        let ids = flows(&mut one, program.lanes.len());
        flows(&mut other, program.lanes.len());
        let drain = std::iter::repeat_n(None, operations.len());
        for (at, operation) in operations.into_iter().chain(drain).enumerate() {
            let now = Instant::from_nanos(at as u64 * 100);
            match operation {
                Some((flow, len)) => {
                    let descriptor = Descriptor { len: Bytes(len), handle: at as u64 };
                    prop_assert!(one.enqueue(ids[flow], descriptor, now).is_ok());
                    prop_assert!(other.enqueue(ids[flow], descriptor, now).is_ok());
                }
                None => prop_assert_eq!(one.dequeue(now), other.dequeue(now)),
            }
        }
        prop_assert_eq!(other.dequeue(Instant::MAX), Dequeue::Empty);
    }
}

/// Deficit round robin in the queue scheduler serves whole turns; its text is a node's. Both have the shares of the
/// quanta, and a turn's surplus is taken from the next one.
#[test]
fn round_robin_and_drr_have_the_shares_of_their_turns() {
    for (algorithm, parameters, expected) in [
        (samples::round_robin(), vec![vec![], vec![], vec![]], [1.0, 1.0, 1.0]),
        (samples::weighted_round_robin(), vec![vec![1], vec![2], vec![3]], [1.0, 2.0, 3.0]),
        (samples::drr(), vec![vec![500], vec![1000], vec![1500]], [1.0, 2.0, 3.0]),
    ] {
        let name = algorithm.name.clone();
        let leaf = |at: u32| LeafSpec { name: format!("leaf{at}"), discipline: LeafDiscipline::Fifo };
        let lane = |at| LaneSpec {
            class: ClassId(at),
            leaf: LeafId(at),
            limits: Vec::new(),
            packet_bound: Packets::MAX,
        };
        let node = NodeSpec {
            name: "root".to_owned(),
            discipline: Discipline::Custom(custom(algorithm, parameters)),
            children: (0..3).map(|at| Child::Leaf(LeafId(at))).collect(),
        };
        let program = Program {
            root: Child::Node(NodeId(0)),
            nodes: vec![node],
            leaves: (0..3).map(leaf).collect(),
            limits: Vec::new(),
            lanes: (0..3).map(lane).collect(),
        };
        let mut scheduler = PacketScheduler::new(&program).expect("a program");
        let ids: Vec<FlowId> =
            (0..3).map(|at| scheduler.add_flow(LaneId(at), Weight::ONE).expect("a flow")).collect();
        let mut sent = [0.0; 3];
        for at in 0..30_000_u64 {
            for id in &ids {
                let descriptor = Descriptor { len: Bytes(700), handle: at };
                if scheduler.counters(LaneId(id.0)).expect("a lane").held().packets < Packets(2) {
                    scheduler.enqueue(*id, descriptor, Instant::from_nanos(at)).expect("room");
                }
            }
            let Dequeue::Packet(departure) = scheduler.dequeue(Instant::from_nanos(at)) else {
                panic!("a packet")
            };
            sent[departure.lane.index()] += departure.descriptor.len.get() as f64;
        }
        let expected_sum: f64 = expected.iter().sum();
        for (found, expected) in sent.iter().zip(expected) {
            let share = found / sent.iter().sum::<f64>();
            let wanted = expected / expected_sum;
            assert!((share - wanted).abs() < 0.001, "{name}: {sent:?}");
        }
    }
}

/// A sample whose virtual times begin at `from`.
fn beginning_at(mut algorithm: Algorithm, from: u64) -> Algorithm {
    let fields = algorithm.node.iter_mut().chain(&mut algorithm.child);
    for field in fields.filter(|field| field.reading == Reading::VirtualTime) {
        field.initial = from;
    }
    algorithm
}

/// The order of departures where all fair queueing is by programs whose virtual times begin at `from`, and the rebases.
fn order_from(seed: u64, from: u64) -> (Vec<u64>, u64) {
    let mut program = native(seed);
    let mut rng = Rng::new(seed);
    for node in &mut program.nodes {
        let children = node.children.len();
        let weights = |rng: &mut Rng| (0..children).map(|_| vec![1 + u64::from(rng.below(4))]).collect();
        let (algorithm, parameters) = match rng.below(3) {
            0 => (samples::stfq(), weights(&mut rng)),
            1 => (samples::wf2q(), weights(&mut rng)),
            _ => {
                let rate = Scale::time_per_byte(BitsPerSec(4_000_000_000)).word();
                (samples::floors(), vec![vec![rate, rate, 1, 300]; children])
            }
        };
        node.discipline = Discipline::Custom(custom(beginning_at(algorithm, from), parameters));
    }
    for leaf in &mut program.leaves {
        let algorithm = if rng.below(2) == 0 { samples::stfq() } else { samples::wf2q() };
        leaf.discipline = LeafDiscipline::Custom(custom(beginning_at(algorithm, from), vec![vec![1]]));
    }
    let mut scheduler = PacketScheduler::new(&program).expect("a program");
    let ids = flows(&mut scheduler, program.lanes.len());
    let (mut order, mut now) = (Vec::new(), Instant::ZERO);
    for at in 0..3000 {
        let descriptor = Descriptor { len: Bytes(64 + u64::from(rng.below(1400))), handle: at };
        scheduler.enqueue(ids[rng.below(12) as usize], descriptor, now).expect("room");
        now = match scheduler.dequeue(now) {
            _ if at % 5 > 2 => now,
            Dequeue::Packet(departure) => {
                order.push(departure.descriptor.handle);
                now + Nanos(1000)
            }
            Dequeue::Wait(until) => until,
            Dequeue::Drop(_) | Dequeue::Empty => now,
        };
        if at % 64 == 0 {
            scheduler.check_invariants().expect("sound");
        }
    }
    (order, scheduler.tree().counters().rebases)
}

#[test]
fn virtual_times_of_programs_that_come_near_their_end_change_no_order() {
    let mut rebases = 0;
    for seed in 0..60 {
        let (expected, none) = order_from(seed, 0);
        assert_eq!(none, 0);
        for distance in [1, 1 << 20, 1 << 22] {
            let (found, count) = order_from(seed, (1 << 62) - distance);
            assert!(found == expected, "seed {seed}, distance {distance}");
            rebases += count;
        }
    }
    assert!(rebases > 100, "{rebases}");
}
