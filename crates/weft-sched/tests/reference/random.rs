//! Random programs.

use weft_sched::workload::Rng;
use weft_sched::{Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, Program};
use weft_units::{BitsPerSec, Bytes, ClassId, LeafId, LimitId, NodeId, Packets, Weight};

/// A random program of depth 1 to 5 with random disciplines, lanes and shared limits; equal seeds, equal programs.
pub(crate) fn program(seed: u64) -> Program {
    let mut rng = Rng::new(seed);
    let mut program = Program {
        root: Child::Leaf(LeafId(0)),
        nodes: Vec::new(),
        leaves: Vec::new(),
        limits: Vec::new(),
        lanes: Vec::new(),
    };
    let depth = rng.below(5);
    program.root = child(&mut program, &mut rng, depth);
    for at in 0..rng.below(4) {
        program.limits.push(LimitSpec {
            name: format!("limit{at}"),
            rate: BitsPerSec(rate(&mut rng)),
            burst: Bytes([0, 0, 1500, 20_000][rng.below(4) as usize]),
        });
    }
    for leaf in 0..program.leaves.len() {
        for _ in 0..1 + rng.below(3) {
            let limits = (0..program.limits.len()).filter(|_| rng.below(3) == 0).map(LimitId::from_index);
            let limits = limits.collect();
            program.lanes.push(LaneSpec {
                class: ClassId(rng.below(5)),
                leaf: LeafId::from_index(leaf),
                limits,
                packet_bound: Packets([3, 1000][rng.below(2) as usize]),
            });
        }
    }
    program
}

/// Rates that do not divide anything evenly, from 10 Mb/s to 20 Gb/s.
pub(crate) fn rate(rng: &mut Rng) -> u64 {
    10_000_019 << rng.below(11)
}

/// Weights of all sizes, equal ones often.
pub(crate) fn weight(rng: &mut Rng) -> u32 {
    [1, 1, 1, 2, 3, 7, 1000, u32::MAX][rng.below(8) as usize]
}

fn child(program: &mut Program, rng: &mut Rng, depth: u32) -> Child {
    if depth == 0 || (depth < 4 && rng.below(4) == 0) {
        let discipline = if rng.below(3) == 0 { LeafDiscipline::Fifo } else { LeafDiscipline::Fair };
        program.leaves.push(LeafSpec { name: format!("leaf{}", program.leaves.len()), discipline });
        return Child::Leaf(LeafId::from_index(program.leaves.len() - 1));
    }
    let children: Vec<Child> = (0..1 + rng.below(3)).map(|_| child(program, rng, depth - 1)).collect();
    let discipline = match rng.below(2) {
        0 => Discipline::Priority,
        _ => Discipline::Wfq(children.iter().map(|_| Weight::new(weight(rng)).unwrap()).collect()),
    };
    program.nodes.push(NodeSpec { name: format!("node{}", program.nodes.len()), discipline, children });
    Child::Node(NodeId::from_index(program.nodes.len() - 1))
}
