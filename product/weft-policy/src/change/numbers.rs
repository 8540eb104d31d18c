//! The numbers of a policy's things beside the policy, for a process that continues with them.
//!
//! Numbers depend on all policies before. They are enough to give an equal policy the same ones again, so none of those before is
//! needed.

use super::ids;
use super::{CompiledPolicy, Resting};
use crate::compiled::ClassInfo;
use serde::{Deserialize, Serialize};
use weft_sched::{Child, LaneSpec, LeafSpec, LimitSpec, NodeSpec, Program};
use weft_units::{ClassId, LeafId, LimitId, Packets};

/// The names of a policy's things, each at its number; empty for a vacant one.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Numbers {
    classes: Vec<String>,
    leaves: Vec<String>,
    limits: Vec<String>,
    nodes: Vec<String>,
    /// The class, the leaf and the limits of each lane, by their numbers.
    lanes: Vec<Option<(u32, u32, Vec<u32>)>>,
}

impl Numbers {
    /// The numbers of `policy`.
    pub fn of(policy: &CompiledPolicy) -> Self {
        let program = &policy.program;
        let lane = |lane: &LaneSpec| {
            let limits = lane.limits.iter().map(|limit| limit.0).collect();
            (!lane.is_vacant()).then_some((lane.class.0, lane.leaf.0, limits))
        };
        Self {
            classes: policy.classes.iter().map(|class| class.name.clone()).collect(),
            leaves: program.leaves.iter().map(|leaf| leaf.name.clone()).collect(),
            limits: program.limits.iter().map(|limit| limit.name.clone()).collect(),
            nodes: program.nodes.iter().map(|node| node.name.clone()).collect(),
            lanes: program.lanes.iter().map(lane).collect(),
        }
    }

    /// Gives `policy` these numbers. Things that had none get others.
    pub fn give(&self, policy: CompiledPolicy) -> CompiledPolicy {
        ids::renumber(&self.outline(), policy, &Resting::default())
    }

    /// A policy with these numbers, of which nothing else is known.
    fn outline(&self) -> CompiledPolicy {
        let lane = |of: &Option<(u32, u32, Vec<u32>)>| match of {
            Some((class, leaf, limits)) => LaneSpec {
                class: ClassId(*class),
                leaf: LeafId(*leaf),
                limits: limits.iter().copied().map(LimitId).collect(),
                packet_bound: Packets::ZERO,
            },
            None => LaneSpec::vacant(),
        };
        let program = Program {
            root: Child::Leaf(LeafId(0)),
            nodes: named(&self.nodes, |name| NodeSpec { name, ..NodeSpec::vacant() }),
            leaves: named(&self.leaves, |name| LeafSpec { name, ..LeafSpec::vacant() }),
            limits: named(&self.limits, |name| LimitSpec { name, ..LimitSpec::vacant() }),
            lanes: self.lanes.iter().map(lane).collect(),
        };
        CompiledPolicy {
            link: None,
            program,
            classes: named(&self.classes, |name| ClassInfo { name, latency: None }),
            rules: Vec::new(),
            destinations: vec![Vec::new(); self.classes.len()],
            cgroups: Vec::new(),
            ports: Vec::new(),
            steering: Vec::new(),
        }
    }
}

fn named<T>(names: &[String], thing: impl Fn(String) -> T) -> Vec<T> {
    names.iter().cloned().map(thing).collect()
}
