//! Programs of regular shapes, with a lane for each leaf.

use weft_sched::{Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, Program};
use weft_units::{BitsPerSec, Bytes, ClassId, LeafId, LimitId, NodeId, Packets, Weight};

/// A level of a program: the number of each node's children, and how they share.
#[derive(Clone, Copy)]
enum Level {
    Priority(usize),
    /// Fair queueing of the weights 1, 2 and so on.
    Fair(usize),
}

/// Builds a program with the shape of the network policy in Loom's Figure 1. Its levels are strict priority over
/// tenants' fair queueing (4 tenants of weights 1 to 4), strict priority within a tenant (4 classes), fair queueing
/// over the applications of each class (4 of weights 1 to 4), and fair queueing over the flows of each of the 64
/// leaves. One lane per leaf, no limits.
pub fn figure1_program() -> Program {
    program(&[Level::Priority(1), Level::Fair(4), Level::Priority(4), Level::Fair(4)])
}

/// Builds one fair queueing node of weights 1 to `children` over as many fair leaves.
pub fn wfq_program(children: usize) -> Program {
    program(&[Level::Fair(children)])
}

/// Builds `depth` nodes of fair queueing, one below the other, over four fair leaves.
pub fn chain_program(depth: usize) -> Program {
    let mut levels = vec![Level::Fair(1); depth.saturating_sub(1)];
    levels.push(Level::Fair(4));
    program(&levels)
}

/// The traffic classes of a pipe of [`pipes_program`]: twelve of strict priority, and best effort.
pub const PIPE_CLASSES: usize = 13;

/// The lanes of a pipe: one of each class, and three more of best effort.
pub const PIPE_LANES: usize = 16;

/// The limits of a pipe, its own first.
pub const PIPE_LIMITS: usize = 1 + PIPE_CLASSES;

/// The first limit of the first pipe: port and subport come before.
pub const FIRST_PIPE_LIMIT: usize = 2;

/// Builds a program with the hierarchy of DPDK's rte_sched: a port with a subport, `pipes` pipes that share it equally,
/// and in each pipe 13 classes of strict priority, of which the last has four queues. Queues are first in, first out.
/// Port, subport, each pipe and each class of a pipe have a limit of `rate`. Lane `16 p + c` is class `c` of pipe `p`;
/// the last four lanes of a pipe are best effort.
pub fn pipes_program(pipes: usize, rate: BitsPerSec) -> Program {
    let mut program = empty();
    let equal = |children| Discipline::Wfq(vec![Weight::ONE; children]);
    let mut each = Vec::with_capacity(pipes);
    for _ in 0..pipes {
        let mut classes: Vec<Child> = (1..PIPE_CLASSES).map(|_| subtree(&mut program, &[])).collect();
        let queues: Vec<Child> = (PIPE_CLASSES..=PIPE_LANES).map(|_| subtree(&mut program, &[])).collect();
        classes.push(node(&mut program, equal(queues.len()), queues));
        each.push(node(&mut program, Discipline::Priority, classes));
    }
    program.root = node(&mut program, equal(pipes), each);
    program.leaves.iter_mut().for_each(|leaf| leaf.discipline = LeafDiscipline::Fifo);
    let limits = 0..FIRST_PIPE_LIMIT + pipes * PIPE_LIMITS;
    program.limits =
        limits.map(|at| LimitSpec { name: format!("limit{at}"), rate, burst: Bytes(1 << 20) }).collect();
    for (at, lane) in program.lanes.iter_mut().enumerate() {
        let (pipe, class) = (at / PIPE_LANES, (at % PIPE_LANES).min(PIPE_CLASSES - 1));
        let first = FIRST_PIPE_LIMIT + pipe * PIPE_LIMITS;
        lane.limits = [first + 1 + class, first, 0, 1].map(LimitId::from_index).to_vec();
    }
    program
}

/// Gives each of the first `limits` lanes of `program` a separate limit of `rate`.
pub fn limit_lanes(program: &mut Program, limits: usize, rate: BitsPerSec) {
    for (at, lane) in program.lanes.iter_mut().enumerate().take(limits) {
        lane.limits.push(LimitId::from_index(program.limits.len()));
        program.limits.push(LimitSpec { name: format!("limit{at}"), rate, burst: Bytes(3000) });
    }
}

fn empty() -> Program {
    let (nodes, leaves, limits, lanes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    Program { root: Child::Leaf(LeafId(0)), nodes, leaves, limits, lanes }
}

/// A program whose nodes of one level are alike.
fn program(levels: &[Level]) -> Program {
    let mut program = empty();
    program.root = subtree(&mut program, levels);
    program
}

/// Adds a tree of `levels`, which without any is a fair leaf with a lane.
fn subtree(program: &mut Program, levels: &[Level]) -> Child {
    let Some((level, below)) = levels.split_first() else {
        let at = program.leaves.len();
        let (class, leaf) = (ClassId::from_index(at), LeafId::from_index(at));
        program.leaves.push(LeafSpec { name: format!("leaf{at}"), discipline: LeafDiscipline::Fair });
        program.lanes.push(LaneSpec { class, leaf, limits: Vec::new(), packet_bound: Packets::MAX });
        return Child::Leaf(leaf);
    };
    let (Level::Priority(count) | Level::Fair(count)) = *level;
    let children = (0..count).map(|_| subtree(program, below)).collect();
    let discipline = match level {
        Level::Priority(_) => Discipline::Priority,
        Level::Fair(_) => Discipline::Wfq((1..=count as u32).filter_map(Weight::new).collect()),
    };
    node(program, discipline, children)
}

fn node(program: &mut Program, discipline: Discipline, children: Vec<Child>) -> Child {
    let at = program.nodes.len();
    program.nodes.push(NodeSpec { name: format!("node{at}"), discipline, children });
    Child::Node(NodeId::from_index(at))
}
