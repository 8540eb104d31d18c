//! Turns below user-defined algorithms.
//!
//! A leaf is *scripted* if it or a node above it has a user-defined algorithm ([`Custom`](crate::program::Custom)). Its
//! events take the way that this module describes, step by step up to the root; those of other leaves do not.
//! [`crate::script`] has the semantics.

mod change;
mod events;
mod moves;
mod shaping;
mod turns;

pub(super) use change::{arrival_of, list_script};

use weft_rank::Metadata;
use weft_units::{FlowId, Instant, LaneId, Weight};

use super::PolicyTree;
use crate::leaf::{Lane, Leaf};
use crate::node::{Leave, Return};
use crate::program::Program;
use crate::script::children::Children;
use crate::script::leaf::ScriptLeaf;
pub(crate) use crate::script::node::FlowHead;
use crate::script::node::ScriptNode;
use crate::script::scheduler::{At, Sight};
use crate::script::timers::{Owner, Timers};

/// The state that a tree has for user-defined algorithms.
#[derive(Debug)]
pub(crate) struct Scripts {
    /// The time of the last event.
    pub(crate) clock: Instant,
    /// The flows of scripted leaves, by their numbers.
    pub(crate) flows: Children,
    pub(crate) heads: Vec<FlowHead>,
    pub(crate) timers: Timers,
    has_timers: bool,
    /// The nodes with an algorithm, by the numbers of all nodes.
    nodes: Vec<Option<Box<ScriptNode>>>,
    /// The children of nodes with an algorithm: their node and slot.
    children: Vec<(u32, u32)>,
}

/// The way in which native nodes learn of a change below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Why {
    returns: Return,
    leaves: Leave,
}

/// A packet arrived, or the order below changed with it.
const FRESH: Why = Why { returns: Return::Fresh, leaves: Leave::Parked };
/// Something was parked, or returned from the shaping queue.
const SHAPED: Why = Why { returns: Return::Released, leaves: Leave::Parked };
/// A flow moved.
const MOVED: Why = Why { returns: Return::Fresh, leaves: Leave::Moved };

impl Scripts {
    /// The state for `program` and the flows below `flows`, if it has a user-defined algorithm.
    pub(crate) fn new(program: &Program, flows: usize) -> Option<Box<Self>> {
        let mut customs = program.customs().peekable();
        customs.peek()?;
        let (mut nodes, mut children) = (Vec::with_capacity(program.nodes.len()), Vec::new());
        for (at, spec) in program.nodes.iter().enumerate() {
            let count = spec.children.len();
            let node = |custom| Box::new(ScriptNode::new(custom, count, children.len() as u32));
            nodes.push(spec.custom().map(node));
            if spec.custom().is_some() {
                children.extend((0..count as u32).map(|slot| (at as u32, slot)));
            }
        }
        let has_timers = program.customs().any(|custom| custom.has_times());
        let has_lowest = program.customs().any(|custom| custom.algorithm.aggregates.lowest.is_some());
        let words =
            program.leaves.iter().filter_map(|leaf| leaf.custom()).map(|custom| ScriptLeaf::words(custom));
        let mut this = Self {
            clock: Instant::ZERO,
            flows: Children::new(0, words.max().unwrap_or(0), has_lowest),
            heads: Vec::new(),
            timers: Timers::new(if has_timers { children.len() } else { 0 }),
            has_timers,
            nodes,
            children,
        };
        this.grow(flows);
        Some(Box::new(this))
    }

    /// Makes room for `flows` flows. May allocate.
    pub(crate) fn grow(&mut self, flows: usize) {
        if self.heads.len() < flows {
            self.heads.resize(flows, FlowHead::default());
        }
        self.flows.grow(flows);
        if self.has_timers {
            self.timers.grow(flows);
        }
    }

    /// A node with an algorithm.
    #[inline]
    pub(crate) fn node(&self, at: u32) -> Option<&ScriptNode> {
        self.nodes.get(at as usize).and_then(|node| node.as_deref())
    }

    #[inline]
    fn node_mut(&mut self, at: u32) -> Option<&mut ScriptNode> {
        self.nodes.get_mut(at as usize).and_then(|node| node.as_deref_mut())
    }
}

/// The place of a flow in its leaf.
pub(super) fn at_of(flow: u32, lane: &Lane) -> At {
    At { owner: Owner::Flow(flow), id: flow, lane: lane.slot as usize }
}

/// The flow that is served first if `leaf` is.
pub(super) fn first_flow(leaf: &Leaf, lanes: &[Lane]) -> Option<u32> {
    match &leaf.script {
        Some(script) => script.scheduler.first().map(|(_, flow)| flow),
        None => lanes.get(leaf.best_lane() as usize).and_then(|lane| lane.pifo.peek()).map(|entry| entry.id),
    }
}

impl PolicyTree {
    /// Whether the events of `lane` concern a user-defined algorithm.
    #[inline]
    pub(crate) fn is_scripted(&self, lane: LaneId) -> bool {
        let lane = self.lanes.get(lane.index());
        lane.and_then(|lane| self.leaves.get(lane.leaf as usize)).is_some_and(|leaf| leaf.scripted)
    }

    /// Whether the program has a user-defined algorithm, which may read the metadata of packets.
    pub fn has_scripts(&self) -> bool {
        self.scripts.is_some()
    }

    /// A node with an algorithm.
    pub(super) fn script_node(&self, at: u32) -> Option<&ScriptNode> {
        self.scripts.as_ref().and_then(|scripts| scripts.node(at))
    }

    /// The first packet of a flow, as far as it is known.
    pub(crate) fn head_of(&self, flow: FlowId) -> Metadata {
        let head = self.scripts.as_ref().and_then(|scripts| scripts.heads.get(flow.index()));
        head.map_or(Metadata::UNKNOWN, |head| head.packet)
    }

    /// Advances the time that programs see.
    #[inline]
    pub(crate) fn observe(&mut self, now: Instant) {
        if let Some(scripts) = &mut self.scripts {
            scripts.clock = scripts.clock.max(now);
        }
    }

    /// Gives a new flow its first contents. May allocate.
    pub(super) fn make_script_flow(&mut self, flow: FlowId) {
        let Some(scripts) = &mut self.scripts else { return };
        scripts.grow(self.flows.len());
        scripts.heads[flow.index()] = FlowHead::default();
        let slot = &self.flows[flow.index()];
        if let Some(script) = &mut self.leaves[self.lanes[slot.lane as usize].leaf as usize].script {
            script.make_new(&mut scripts.flows, flow.0);
            script.scheduler.count_in(slot.account.weight().get().into());
        }
    }

    /// Counts a flow that is removed out of its leaf.
    pub(super) fn drop_script_flow(&mut self, flow: FlowId) {
        let slot = &self.flows[flow.index()];
        if let Some(script) = &mut self.leaves[self.lanes[slot.lane as usize].leaf as usize].script {
            script.scheduler.count_out(slot.account.weight().get().into());
        }
    }

    /// Accounts for the new weight of a flow.
    pub(super) fn reweigh_scripted(&mut self, flow: FlowId, before: Weight, after: Weight) {
        let lane = &self.lanes[self.flows[flow.index()].lane as usize];
        if let Some(script) = &mut self.leaves[lane.leaf as usize].script {
            script.scheduler.count_out(before.get().into());
            script.scheduler.count_in(after.get().into());
        }
    }
}

/// The circumstances of an event of a flow.
pub(super) fn sight<'a>(head: &'a FlowHead, packet: &'a Metadata, now: Instant, weight: u32) -> Sight<'a> {
    let FlowHead { packet: first, arrival, queued } = head;
    Sight { now, head: first, packet, queued: *queued, arrival: *arrival, weight: weight.into() }
}
