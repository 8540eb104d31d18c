//! Inspection of a tree: its invariants, for tests and self-checks, and the positions of a flow in the orders on its way to the
//! link, for callers that show them to people. Nothing here changes the tree or is on the way of a packet.

use thiserror::Error;
use weft_rank::Rank;
use weft_units::{FlowId, Instant, LeafId, NodeId};

use super::{FlowState, PolicyTree, service};
use crate::leaf::{Leaf, LeafOrder};
use crate::node::{NO_LEAF, Node};
use crate::program::Child;
use crate::script::children::Reference;
use crate::script::node::ScriptNode;
use crate::script::timers::{Alarm, Owner, Timers};
use crate::virtual_time::SCALE;

/// A broken invariant of the engine: what is wrong, and where.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct InvariantError(pub(crate) String);

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

/// The position of a flow in one order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePosition {
    /// The leaf whose flows, or the node whose children, are ordered.
    pub order: Child,
    /// The place.
    pub place: Place,
    /// Whether a user-defined algorithm holds it back, until a time or a virtual time.
    pub held: bool,
}

/// The invariants.
impl PolicyTree {
    /// Checks every structure of the tree. Linear in the size of the tree; for tests and self-checks.
    ///
    /// # Errors
    /// The first broken invariant, with its place. Any error is a bug of this crate.
    pub fn check_invariants(&self) -> Result<(), InvariantError> {
        self.check_flows()?;
        self.check_lanes()?;
        self.check_nodes()
    }

    fn check_flows(&self) -> Result<(), InvariantError> {
        let mut referred = vec![0_u32; self.flows.len()];
        for (at, lane) in self.lanes.iter().enumerate() {
            ensure(lane.pifo.is_valid(), || format!("lane {at}: its PIFO is not in rank order"))?;
            for entry in lane.pifo.iter() {
                referred[entry.id as usize] += 1;
                let home = self.flows[entry.id as usize].lane;
                ensure(home as usize == at, || {
                    format!("lane {at} refers to flow {} of lane {home}", entry.id)
                })?;
            }
        }
        self.check_script_flows(&mut referred)?;
        let mut counted = vec![0; self.lanes.len()];
        for flow in self.flows.iter().filter(|flow| flow.state != FlowState::Vacant) {
            counted[flow.lane as usize] += 1;
        }
        for (at, (lane, counted)) in self.lanes.iter().zip(counted).enumerate() {
            ensure(lane.flows == counted, || format!("lane {at}: {counted} flows, not {}", lane.flows))?;
        }
        let mut backlogged = 0;
        for (at, flow) in self.flows.iter().enumerate() {
            let expected = u32::from(flow.state == FlowState::Backlogged);
            backlogged += expected as usize;
            ensure(referred[at] == expected, || {
                format!("flow {at} ({:?}): {} references", flow.state, referred[at])
            })?;
            ensure(flow.account.is_valid(), || format!("flow {at}: its account is broken"))?;
        }
        ensure(backlogged == self.backlogged, || {
            format!("{backlogged} flows backlogged, not {}", self.backlogged)
        })
    }

    /// Counts the references to flows under user-defined algorithms in `referred`.
    fn check_script_flows(&self, referred: &mut [u32]) -> Result<(), InvariantError> {
        let Some(scripts) = &self.scripts else { return Ok(()) };
        for (at, flow) in self.flows.iter().enumerate().filter(|(_, flow)| flow.state != FlowState::Vacant) {
            let leaf = &self.leaves[self.lanes[flow.lane as usize].leaf as usize];
            if leaf.script.is_some() {
                referred[at] += u32::from(scripts.flows.references[at].active);
                ensure(scripts.flows.is_placed_right(at as u32), || format!("flow {at}: in a wrong order"))?;
            }
        }
        Ok(())
    }

    fn check_script_leaf(&self, leaf: &Leaf) -> Result<(), &'static str> {
        let (Some(scripts), Some(script)) = (&self.scripts, &leaf.script) else { return Ok(()) };
        let first = script.scheduler.first().map(|(lane, _)| lane);
        let offered = if leaf.heads.is_empty() { None } else { Some(leaf.best_lane()) };
        if !script.scheduler.is_valid(&scripts.flows) {
            Err("its orders are broken")
        } else if script.offered != first || first.map(|slot| leaf.lanes[slot]) != offered {
            Err("it does not offer its first flow")
        } else {
            Ok(())
        }
    }

    fn check_lanes(&self) -> Result<(), InvariantError> {
        let parked = self.lanes.iter().filter(|lane| lane.parked).count();
        ensure(self.shaping.is_valid(), || "the shaping queue is not in rank order".to_owned())?;
        ensure(parked == self.shaping.len(), || {
            format!("{parked} lanes parked, {} queued", self.shaping.len())
        })?;
        for (at, lane) in self.lanes.iter().enumerate() {
            let Some(leaf) = self.leaves.get(lane.leaf as usize) else {
                ensure(lane.flows == 0 && lane.pifo.is_empty(), || {
                    format!("lane {at} is vacant and has flows")
                })?;
                continue;
            };
            let slot = lane.slot as usize;
            if let Some(script) = &leaf.script {
                ensure(lane.pifo.is_empty(), || format!("lane {at} has native references"))?;
                ensure(!lane.parked || !script.scheduler.is_empty(slot), || {
                    format!("lane {at}: parked, empty")
                })?;
                continue;
            }
            ensure(!lane.parked || !lane.pifo.is_empty(), || format!("lane {at} is parked and empty"))?;
            let room = lane.flows as usize >= lane.pifo.len();
            ensure(room, || format!("lane {at}: more references than flows"))?;
            ensure(lane.sole == (leaf.sole() == Some(at as u32)), || {
                format!("lane {at}: sole {}", lane.sole)
            })?;
            ensure(lane.path(&self.leaves) == &*leaf.path, || {
                format!("lane {at}: its path is not its leaf's")
            })?;
            ensure(lane.order == leaf.order, || format!("lane {at}: its order is not its leaf's"))?;
            if lane.sole {
                ensure(leaf.heads.is_empty(), || format!("lane {at}: sole, and its leaf has heads"))?;
                continue;
            }
            let present = leaf.heads.contains(slot);
            let expected = lane.takes_part();
            ensure(present == expected, || format!("lane {at}: in its leaf {present}, expected {expected}"))?;
            let same = !present || lane.pifo.peek().is_some_and(|head| head.key() == leaf.heads.key(slot));
            ensure(same, || format!("lane {at}: its head is not what its leaf ranks"))?;
        }
        let clear = self.limits.iter().all(|limit| limit.release() <= self.all_clear);
        ensure(clear, || format!("a limit is released after {}", self.all_clear))?;
        match self.limits.iter().position(|limit| !limit.is_valid()) {
            Some(at) => Err(InvariantError(format!("limit {at}: its state is broken"))),
            None => Ok(()),
        }
    }

    fn check_nodes(&self) -> Result<(), InvariantError> {
        for (at, leaf) in self.leaves.iter().enumerate() {
            ensure(leaf.heads.is_valid(), || format!("leaf {at}: its winner tree is inconsistent"))?;
            self.check_script_leaf(leaf).map_err(|what| InvariantError(format!("leaf {at}: {what}")))?;
            ensure(!leaf.is_fair() || self.leaf_time(at as u32) < u64::MAX / 2, || {
                format!("leaf {at}: virtual time")
            })?;
        }
        for (at, inner) in self.nodes.iter().enumerate() {
            let script = self.script_node(at as u32);
            let valid = inner.node.is_valid() && script.is_none_or(ScriptNode::is_valid);
            ensure(valid, || format!("node {at}: its state is broken"))?;
            for (slot, child) in inner.children.iter().enumerate() {
                let offers = self.offered_by(*child);
                let leads_to = match script {
                    Some(node) => node.leads_to(slot),
                    None if inner.node.contains(slot) => inner.node.leads_to(slot),
                    None => NO_LEAF,
                };
                ensure(leads_to == offers, || {
                    format!("node {at}, child {slot}: leads to {leads_to}, offers {offers}")
                })?;
            }
        }
        let offer = self.offered_by(self.root);
        ensure(offer == self.first_leaf, || format!("the root offers leaf {offer}, not {}", self.first_leaf))
    }
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), InvariantError> {
    if holds { Ok(()) } else { Err(InvariantError(what())) }
}

/// Positions.
impl PolicyTree {
    /// The positions of a backlogged flow at `now`, from its leaf up to the root; empty for any other flow. Nodes in which the
    /// child takes no part, because all below it is delayed by limits, are left out. Allocates; not for the way of a packet.
    pub fn positions(&self, flow: FlowId, now: Instant) -> Vec<QueuePosition> {
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
        let own = own.map(|(place, held)| QueuePosition { order, place, held });
        let above = leaf.path.iter().filter_map(|(node, slot)| self.position_in(*node, *slot, now));
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

    /// The position of the child at `slot` of a node.
    fn position_in(&self, at: u32, slot: u32, now: Instant) -> Option<QueuePosition> {
        let order = Child::Node(NodeId(at));
        if let Some(node) = self.script_node(at) {
            let (reference, owner) = node.reference(slot)?;
            let (place, held) = ranked(reference, &self.scripts.as_ref()?.timers, owner, now);
            return Some(QueuePosition { order, place, held });
        }
        let node = &self.nodes.get(at as usize)?.node;
        let place = match node {
            Node::Strict(_) => Place::Slot(slot as usize),
            Node::Wfq(node) => Place::Tag(node.start(slot as usize)? / SCALE),
        };
        Some(QueuePosition { order, place, held: false })
    }
}

/// The rank of a reference at `now`, and whether it is held. A time that has come counts, whether or not it was handled.
fn ranked(reference: &Reference, timers: &Timers, owner: Owner, now: Instant) -> (Place, bool) {
    let due = |alarm| timers.pending(owner, alarm).is_some_and(|(time, _)| time <= now);
    let rank = if due(Alarm::Until) { reference.later_rank() } else { reference.rank };
    let held = (reference.waits && !due(Alarm::From)) || reference.is_early();
    (Place::Rank(rank), held)
}
