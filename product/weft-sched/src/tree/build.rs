//! The leaves and lanes of a program.

use weft_units::LeafId;

use crate::leaf::{Lane, Leaf, LeafOrder};
use crate::node::NO_LEAF;
use crate::program::Program;
use crate::script::leaf::ScriptLeaf;
use crate::validate::Layout;
use crate::winner::WinnerTree;

/// The leaves and lanes of a program, without flows.
pub(super) fn leaves_and_lanes(program: &Program, layout: &Layout) -> (Vec<Leaf>, Vec<Lane>) {
    let mut slots: Vec<Vec<u32>> = vec![Vec::new(); program.leaves.len()];
    let mut lanes = Vec::with_capacity(program.lanes.len());
    for (index, spec) in program.lanes.iter().enumerate() {
        // The leaf of a vacant lane is past the end of `slots`.
        let members = slots.get_mut(spec.leaf.index());
        let leaf = if members.is_some() { spec.leaf.0 } else { NO_LEAF };
        let slot = members.as_ref().map_or(0, |members| members.len() as u32);
        lanes.push(Lane::new(leaf, slot, &spec.limits));
        if let Some(members) = members {
            members.push(index as u32);
        }
    }
    let leaf = |(index, lanes): (usize, Vec<u32>)| {
        let spec = &program.leaves[index];
        let path = path_to_root(layout, LeafId::from_index(index));
        let script = spec.custom().map(|custom| Box::new(ScriptLeaf::new(custom, lanes.len())));
        let above = path.iter().any(|(node, _)| program.nodes[*node as usize].custom().is_some());
        Leaf {
            heads: WinnerTree::new(lanes.len()),
            virtual_time: 0,
            order: LeafOrder::of(&spec.discipline),
            scripted: above || script.is_some(),
            script,
            lanes,
            path,
        }
    };
    let leaves: Vec<Leaf> = slots.into_iter().enumerate().map(leaf).collect();
    for lane in &mut lanes {
        if let Some(leaf) = leaves.get(lane.leaf as usize) {
            lane.join(leaf);
        }
    }
    (leaves, lanes)
}

fn path_to_root(layout: &Layout, leaf: LeafId) -> Box<[(u32, u32)]> {
    core::iter::successors(layout.leaf_parents[leaf.index()], |(node, _)| layout.node_parents[*node as usize])
        .collect()
}
