//! The places of a flow in the orders on its way to the link, for callers that show them to people.

use weft_rank::Rank;
use weft_units::{FlowId, Instant, LeafId, NodeId};

use super::{FlowState, PolicyTree, service};
use crate::leaf::LeafOrder;
use crate::node::Node;
use crate::program::Child;
use crate::script::children::Reference;
use crate::script::timers::{Alarm, Owner, Timers};
use crate::virtual_time::SCALE;

/// The place of a flow, or of the child that leads to it, in one order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The slot under strict priority, from 0.
    Slot(usize),
    /// The number of the arrival in a first-in first-out queue.
    Arrival(u64),
    /// The start tag under weighted fair queueing or fair queueing, in bytes divided by the weight, rounded down.
    Tag(u64),
    /// The rank under a user-defined algorithm.
    Rank(Rank),
}

/// The standing of a flow in one order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The leaf whose flows, or the node whose children, are ordered.
    pub order: Child,
    /// The place.
    pub place: Place,
    /// Whether a user-defined algorithm holds it back, until a time or a virtual time.
    pub held: bool,
}

impl PolicyTree {
    /// The standings of a backlogged flow at `now`, from its leaf up to the root; empty for any other flow. Nodes in which the
    /// child takes no part, because all below it is delayed by limits, are left out. Allocates; not for the way of a packet.
    pub fn standings(&self, flow: FlowId, now: Instant) -> Vec<Standing> {
        let Some(slot) = self.flows.get(flow.index()).filter(|slot| slot.state == FlowState::Backlogged)
        else {
            return Vec::new();
        };
        let Some(lane) = self.lanes.get(slot.lane as usize) else { return Vec::new() };
        let Some(leaf) = self.leaves.get(lane.leaf as usize) else { return Vec::new() };
        let order = Child::Leaf(LeafId(lane.leaf));
        let native = || lane.pifo.iter().find(|entry| entry.id == flow.0).map(|entry| entry.rank);
        let own = match leaf.order {
            LeafOrder::Script => self.scripted_flow(flow.0, now),
            LeafOrder::Fair => native().map(|rank| (Place::Tag(rank / SCALE), false)),
            LeafOrder::Fifo => native().map(|rank| (Place::Arrival(rank), false)),
        };
        let own = own.map(|(place, held)| Standing { order, place, held });
        let above = leaf.path.iter().filter_map(|(node, slot)| self.standing_in(*node, *slot, now));
        own.into_iter().chain(above).collect()
    }

    /// The time from which on the limits of a flow let it send.
    pub fn released_at(&self, flow: FlowId) -> Option<Instant> {
        let lane = self.lanes.get(self.lane_of(flow)?.index())?;
        Some(service::release_time(lane, &self.limits))
    }

    fn scripted_flow(&self, flow: u32, now: Instant) -> Option<(Place, bool)> {
        let scripts = self.scripts.as_ref()?;
        let reference = scripts.flows.references.get(flow as usize).filter(|reference| reference.active)?;
        Some(ranked(reference, &scripts.timers, Owner::Flow(flow), now))
    }

    /// The standing of the child at `slot` of a node.
    fn standing_in(&self, at: u32, slot: u32, now: Instant) -> Option<Standing> {
        let order = Child::Node(NodeId(at));
        if let Some(node) = self.script_node(at) {
            let (reference, owner) = node.reference(slot)?;
            let (place, held) = ranked(reference, &self.scripts.as_ref()?.timers, owner, now);
            return Some(Standing { order, place, held });
        }
        let node = &self.nodes.get(at as usize)?.node;
        let place = match node {
            Node::Strict(_) => Place::Slot(slot as usize),
            Node::Wfq(node) => Place::Tag(node.start(slot as usize)? / SCALE),
        };
        Some(Standing { order, place, held: false })
    }
}

/// The rank of a reference at `now`, and whether it is held. A time that has come counts, whether or not it was handled.
fn ranked(reference: &Reference, timers: &Timers, owner: Owner, now: Instant) -> (Place, bool) {
    let due = |alarm| timers.pending(owner, alarm).is_some_and(|(time, _)| time <= now);
    let rank = if due(Alarm::Until) { reference.later_rank() } else { reference.rank };
    let held = (reference.waits && !due(Alarm::From)) || reference.is_early();
    (Place::Rank(rank), held)
}
