//! A program for tests, inside the crate and beside it.

use crate::{Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, NodeSpec, Program};
use weft_units::{ClassId, LeafId, NodeId, Packets, Weight};

/// Shares of four tenants, strict priority of four classes of each, and shares of four applications of each class: fair leaves with
/// one lane each. Shares are weights of 1 to 4.
pub(crate) fn tenants_program() -> Program {
    let weights: Vec<Weight> = (1..=4).filter_map(Weight::new).collect();
    // The children of node `n` are `4n + 1` to `4n + 4`; from the twenty-first on they are leaves.
    let child = |at: u32| if at < 21 { Child::Node(NodeId(at)) } else { Child::Leaf(LeafId(at - 21)) };
    let node = |at: u32| NodeSpec {
        name: format!("node{at}"),
        discipline: if (1..5).contains(&at) {
            Discipline::Priority
        } else {
            Discipline::Wfq(weights.clone())
        },
        children: (1..5).map(|of| child(4 * at + of)).collect(),
    };
    let leaf = |at: u32| LeafSpec { name: format!("leaf{at}"), discipline: LeafDiscipline::Fair };
    let lane = |at: u32| LaneSpec {
        class: ClassId(at),
        leaf: LeafId(at),
        limits: Vec::new(),
        packet_bound: Packets::MAX,
    };
    Program {
        root: Child::Node(NodeId(0)),
        nodes: (0..21).map(node).collect(),
        leaves: (0..64).map(leaf).collect(),
        limits: Vec::new(),
        lanes: (0..64).map(lane).collect(),
    }
}
