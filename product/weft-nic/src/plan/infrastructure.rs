//! The lane of ARP, neighbour discovery, DHCP and similar packets, which the NIC adds above the policy's tree.

use crate::layout::{LaneEntry, Spread};
use weft_policy::{BOUND_DEFAULT, ClassInfo, CompiledPolicy, INFRASTRUCTURE};
use weft_sched::{Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, NodeSpec};
use weft_units::{ClassId, LaneId, LeafId, NodeId};

/// Adds a class, a leaf and a lane for infrastructure to `policy`, with the next numbers, above the whole tree. No row leads
/// to the lane: the egress program selects it. It needs no limit, since that program admits only its share. A policy
/// with a class of that name stays as it is.
pub(super) fn add(policy: &CompiledPolicy) -> (CompiledPolicy, Option<LaneId>) {
    let mut whole = policy.clone();
    if policy.names_infrastructure() {
        return (whole, None);
    }
    let class = ClassId::from_index(whole.classes.len());
    let program = &mut whole.program;
    let leaf = LeafId::from_index(program.leaves.len());
    let lane = LaneId::from_index(program.lanes.len());
    let discipline = LeafDiscipline::Fifo;
    program.leaves.push(LeafSpec { name: INFRASTRUCTURE.to_owned(), discipline });
    program.lanes.push(LaneSpec { class, leaf, limits: Vec::new(), packet_bound: BOUND_DEFAULT });
    let first = Child::Leaf(leaf);
    let root = match program.root {
        Child::Node(node) => program.nodes.get_mut(node.index()),
        Child::Leaf(_) => None,
    };
    match root {
        Some(NodeSpec { discipline: Discipline::Priority, children, .. }) => children.insert(0, first),
        _ => {
            let node = NodeId::from_index(program.nodes.len());
            let children = vec![first, program.root];
            let name = format!("{INFRASTRUCTURE}+root");
            program.nodes.push(NodeSpec { name, discipline: Discipline::Priority, children });
            program.root = Child::Node(node);
        }
    }
    whole.destinations.push(Vec::new());
    whole.classes.push(ClassInfo { name: INFRASTRUCTURE.to_owned(), latency: None });
    (whole, Some(lane))
}

/// The entry of the lane: its flows are not tracked, since the egress program sends its packets there without a look-up.
pub(super) fn untracked(entry: LaneEntry) -> LaneEntry {
    LaneEntry { spread: Spread::Hash, flow_bound: 0, ..entry }
}

/// The lane of infrastructure in `whole`, a policy to which it was added and which may have been renumbered since.
pub(super) fn lane(whole: &CompiledPolicy) -> Option<LaneId> {
    let of =
        |lane: &LaneSpec| whole.classes.get(lane.class.index()).is_some_and(|c| c.name == INFRASTRUCTURE);
    whole.program.lanes.iter().position(of).map(LaneId::from_index)
}
