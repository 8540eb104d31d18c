//! Changes while flows wait: the exchange of the program ([`PolicyTree::prepare`] and [`PolicyTree::change`]), and the move of a
//! flow to another lane ([`PolicyTree::move_flow`]).
//!
//! # The exchange
//! Whatever has the same id in both programs is the same thing and keeps its state. A lane that the new program does not
//! have hands its flows to its *heir*, which the caller names. The steps:
//!
//! 1. `prepare` builds the tree of the new program, with all memory that the change needs. It may run in any thread.
//! 2. `change` checks what only the running tree has, and refuses without any effect.
//! 3. The two trees are exchanged, and the new one takes over, in this order: limits, leaves, lanes with their flows, the
//!    shaping queue, and the nodes from the leaves upwards.
//! 4. The old tree's memory returns to the caller in [`Changed`], so that the worker frees nothing.
//!
//! The semantics:
//! * A limit keeps its debt, to the bit.
//! * A leaf keeps its virtual time while it has lanes and its discipline stays.
//! * A flow keeps its account, its rank and its tie while its leaf and the leaf's discipline stay, also when it gets another
//!   lane there. A flow that enters another leaf joins it as a newly backlogged flow: in a fair leaf with `S = V` and a new
//!   account; in a first-in first-out leaf with the number of its arrival. Flows that join a leaf together keep their
//!   order, lane by lane in the order of the old ids, first those of lanes that stay, then those of lanes that are gone.
//! * A lane that is parked stays parked, with the release time that its limits now have. Flows of a lane that is gone are
//!   parked if their heir is.
//! * A node that stays a fair queueing node keeps its virtual time. A child that stays below the same such node keeps
//!   finish tag, start tag and held tag; its remainder is scaled to the new weight, which counts from the next charge on.
//!   A child that is new there and takes the place of one that is gone keeps that one's. Every other child joins with `S = V`.
//! * A child that has nothing to offer after the change leaves without a held tag. A child that has something to offer only
//!   since the change enters with `S = max(V, F)`, and its held tag is discarded. Those of one node enter in the order of
//!   the children.
//!
//! A change to the same program therefore alters nothing. The cost is linear in lanes, leaves, children and flows, with a
//! sort of each lane whose flows enter another leaf. Nothing is allocated or freed.
//!
//! # The child that takes another's place
//! A node of one child is not in a program: its child is in its place. So a group that gets its second class becomes a
//! node where a leaf was, and one that loses it a leaf where a node was; for the node above it is the same child. The rule is
//! by leaves, since a program has no other names for both: a child that is new below a node takes the place of the only
//! child that is gone from there and shares a leaf with it, unless that one shares a leaf with other new children, too. Such
//! children are [`Counterparts`].
//!
//! # The move of a flow
//! It has the semantics of a flow whose lane the exchange replaces. Nodes above both lanes see no gap: the flow enters the new
//! place first.

use thiserror::Error;
use weft_rank::Metadata;
use weft_units::{FlowId, Instant, LaneId};

use super::script::{arrival_of, list_script};
use super::service::offer_of;
use super::{FlowError, FlowHead, FlowState, PolicyTree, service};
use crate::entry::Entry;
use crate::leaf::{Leaf, LeafOrder};
use crate::node::{Leave, NO_LEAF, Return};
use crate::pifo::Pifo;
use crate::program::{Child, Program};
use crate::validate::{self, ProgramError};
use weft_units::Counted;

/// A tree that is ready to take over from the running one, and after the change the old tree. Free it outside the worker.
#[derive(Debug)]
pub struct Prepared(Box<Parts>);

#[derive(Debug)]
struct Parts {
    tree: PolicyTree,
    /// The nodes of the new tree, every child before its parent.
    upwards: Vec<u32>,
    /// The limits that are not vacant.
    limits: Vec<u32>,
    /// The new lane of each old one, or [`NO_LANE`].
    targets: Vec<u32>,
    /// The number of flows that the memory has places for.
    flows: usize,
    spare: Spare,
    /// Whether `tree` is the old tree.
    spent: bool,
}

/// The absence of a lane.
const NO_LANE: u32 = u32::MAX;

impl Prepared {
    /// The lane that has the flows of lane `at` of the old program.
    pub(crate) fn target_of(&self, at: usize) -> Option<usize> {
        self.0.targets.get(at).filter(|target| **target != NO_LANE).map(|target| *target as usize)
    }
}

/// The effect of a change.
#[derive(Debug)]
pub struct Changed<P = Prepared> {
    /// The number of flows that were handed to the heir of their lane.
    pub moved: usize,
    /// The memory of the old tree. It cannot be used for another change.
    pub retired: P,
}

/// A change that was refused. The tree runs on as before.
#[derive(Debug, Error)]
#[error("{why}")]
pub struct RefusedChange<P: core::fmt::Debug = Prepared> {
    /// The reason.
    pub why: ChangeError,
    /// The change, unused.
    pub prepared: P,
}

/// The reason why a change was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum ChangeError {
    /// A turn is outstanding, and its charge would be lost.
    #[error("flow {flow} has the outstanding turn; finish the turn before the change")]
    TurnOutstanding {
        /// The flow of the turn.
        flow: FlowId,
    },
    /// The change took place before. What it returned is the old tree.
    #[error("the change took place before; prepare another one")]
    Spent,
    /// A lane has flows and is not in the new program.
    #[error("lane {lane} is gone and has {flows} flows, but no heir; name the lane that takes them over")]
    NoHeir {
        /// The lane.
        lane: LaneId,
        /// The number of its flows.
        flows: u32,
    },
    /// The tree has more flows than the change was prepared for.
    #[error("the tree has {flows} flows, but the change was prepared for {prepared}; prepare it for more")]
    TooManyFlows {
        /// The flows of the tree.
        flows: usize,
        /// The flows that the memory has places for.
        prepared: usize,
    },
}

/// The children below the same node of the other tree that share a leaf with a child, of those that are not in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Counterparts {
    #[default]
    None,
    /// One, at this slot.
    One(u32),
    Many,
}

impl Counterparts {
    fn add(&mut self, slot: u32) {
        *self = match *self {
            Self::None => Self::One(slot),
            Self::One(known) if known == slot => return,
            _ => Self::Many,
        };
    }
}

/// The exchange of the program.
impl PolicyTree {
    /// Prepares a change to `program`. `heirs` names, for each lane that is gone, the lane that takes over its flows; a
    /// pair whose heir is not in the program is ignored. `flows` is the most flows that the tree will have at the change.
    ///
    /// # Errors
    /// As [`PolicyTree::new`].
    pub fn prepare(
        program: &Program,
        heirs: &[(LaneId, LaneId)],
        flows: usize,
    ) -> Result<Prepared, ProgramError> {
        let mut layout = validate::check(program)?;
        let mut upwards = core::mem::take(&mut layout.order);
        upwards.reverse();
        let tree = Self::build(program, layout, flows);
        let last = heirs.iter().map(|(gone, _)| gone.index() + 1).max().unwrap_or(0);
        let kept = |lane: usize| tree.lanes.get(lane).is_some_and(|lane| lane.leaf != NO_LEAF);
        let target = |at: usize| if kept(at) { at as u32 } else { NO_LANE };
        let mut targets: Vec<u32> = (0..last.max(tree.lanes.len())).map(target).collect();
        let mut taking: Vec<u32> = Vec::with_capacity(heirs.len());
        for (gone, heir) in heirs {
            if targets[gone.index()] == NO_LANE && kept(heir.index()) {
                targets[gone.index()] = heir.0;
                taking.push(heir.0);
            }
        }
        taking.sort_unstable();
        taking.dedup();
        let limits = program.limits.iter().zip(0..).filter(|(limit, _)| !limit.is_vacant());
        let limits = limits.map(|(_, at)| at).collect();
        let spare = Spare::new(taking.len(), flows);
        Ok(Prepared(Box::new(Parts { tree, upwards, limits, targets, flows, spare, spent: false })))
    }

    /// Exchanges the program at `now`. Allocates and frees nothing. See the module's documentation for what keeps its state.
    ///
    /// # Errors
    /// See [`ChangeError`]; the tree is unchanged then.
    pub fn change(&mut self, prepared: Prepared, now: Instant) -> Result<Changed, RefusedChange> {
        self.change_with(prepared, now, |_| Default::default())
    }

    /// Exchanges the program as [`PolicyTree::change`]. `waiting` has the metadata of a flow's first packet, and what waits in the
    /// flow: of flows whose packets no user-defined algorithm had before.
    ///
    /// # Errors
    /// As [`PolicyTree::change`].
    pub fn change_with(
        &mut self,
        prepared: Prepared,
        now: Instant,
        waiting: impl Fn(FlowId) -> (Metadata, Counted),
    ) -> Result<Changed, RefusedChange> {
        let arrival = |entry: &Entry, order| match order {
            LeafOrder::Fifo => entry.rank,
            // A turn takes its arrival number when its reference goes in.
            LeafOrder::Fair | LeafOrder::Script => entry.tie,
        };
        self.change_by(prepared, now, arrival, |flow| FlowHead::of(waiting(flow)))
    }

    /// Exchanges the program as [`PolicyTree::change`]. `arrival` gives the number of arrival of a flow's first packet, from
    /// its reference and the order of its old leaf; `waiting` its metadata, and what waits in the flow.
    pub(crate) fn change_by(
        &mut self,
        mut prepared: Prepared,
        now: Instant,
        arrival: impl Fn(&Entry, LeafOrder) -> u64,
        waiting: impl Fn(FlowId) -> FlowHead,
    ) -> Result<Changed, RefusedChange> {
        if let Err(why) = self.check_change(&prepared.0) {
            return Err(RefusedChange { why, prepared });
        }
        let Parts { tree: old, upwards, limits, targets, spare, spent, .. } = &mut *prepared.0;
        *spent = true;
        core::mem::swap(self, old);
        self.carry_counts(old);
        for at in limits.iter().map(|at| *at as usize) {
            if let (Some(limit), Some(old)) = (self.limits.get_mut(at), old.limits.get(at)) {
                limit.carry(old, now);
                self.all_clear = self.all_clear.max(limit.release());
            }
        }
        for at in 0..self.leaves.len().min(old.leaves.len()) {
            let leaf = &self.leaves[at];
            if leaf.continues(&old.leaves[at]) && !leaf.lanes.is_empty() {
                *self.leaf_time_mut(at as u32) = old.leaf_time(at as u32);
            }
        }
        self.carry_lane_states(old, targets);
        self.carry_scripts(old, targets, now, &arrival, waiting);
        self.carry_flows(old, targets);
        let moved = self.carry_lanes(old, targets, spare, arrival);
        self.carry_parked(old, targets);
        self.fill_leaves();
        self.count_below();
        self.find_counterparts(old);
        self.carry_nodes(old, upwards);
        self.forget_counterparts();
        self.first_leaf = self.offered_by(self.root);
        Ok(Changed { moved, retired: prepared })
    }

    /// Whether [`PolicyTree::change`] would make the change now.
    ///
    /// # Errors
    /// The reason that it would refuse.
    pub fn may_change(&self, prepared: &Prepared) -> Result<(), ChangeError> {
        self.check_change(&prepared.0)
    }

    fn check_change(&self, parts: &Parts) -> Result<(), ChangeError> {
        if parts.spent {
            return Err(ChangeError::Spent);
        }
        if let Some(flow) = self.in_service {
            return Err(ChangeError::TurnOutstanding { flow });
        }
        let flows = self.flows.len() - self.vacant.len();
        // The state of an algorithm's flows is found by the flow's number.
        let flows = if parts.tree.has_scripts() { self.flows.len() } else { flows };
        if flows > parts.flows {
            return Err(ChangeError::TooManyFlows { flows, prepared: parts.flows });
        }
        let lost = |(at, _): &(usize, _)| parts.targets.get(*at).is_none_or(|target| *target == NO_LANE);
        let mut held = self.lanes.iter().enumerate().filter(|(_, lane)| lane.flows > 0);
        match held.find(lost) {
            Some((at, lane)) => Err(ChangeError::NoHeir { lane: LaneId::from_index(at), flows: lane.flows }),
            None => Ok(()),
        }
    }

    /// Takes over what does not depend on the program.
    fn carry_counts(&mut self, old: &mut Self) {
        core::mem::swap(&mut self.flows, &mut old.flows);
        core::mem::swap(&mut self.vacant, &mut old.vacant);
        (self.ticks, self.serial, self.backlogged) = (old.ticks, old.serial, old.backlogged);
        self.counters = old.counters;
    }

    /// Whether the flows of lane `at` of `old` keep their ranks in lane `target`.
    pub(super) fn keeps_ranks(&self, old: &Self, at: usize, target: u32) -> bool {
        let (before, after) = (old.lanes[at].leaf, self.lanes[target as usize].leaf);
        let leaves = old.leaves.get(before as usize).zip(self.leaves.get(after as usize));
        before == after && leaves.is_some_and(|(before, after)| after.continues(before))
    }

    /// Gives each flow its new lane, and a new account if it enters another leaf.
    fn carry_flows(&mut self, old: &Self, targets: &[u32]) {
        let mut flows = core::mem::take(&mut self.flows);
        for flow in flows.iter_mut().filter(|flow| flow.state != FlowState::Vacant) {
            let target = targets[flow.lane as usize];
            if !self.keeps_ranks(old, flow.lane as usize, target) {
                flow.account.restart();
            }
            flow.lane = target;
        }
        self.flows = flows;
    }

    /// Takes over the references to flows: first those of the lanes that stay, then those of the lanes that are gone.
    /// Returns the number of flows in the latter.
    fn carry_lanes(
        &mut self,
        old: &mut Self,
        targets: &[u32],
        spare: &mut Spare,
        arrival: impl Fn(&Entry, LeafOrder) -> u64,
    ) -> usize {
        let mut moved = 0;
        for at in 0..old.lanes.len() {
            let flows = old.lanes[at].flows;
            let Some(target) = targets.get(at).copied().filter(|_| flows > 0) else { continue };
            let keeps = self.keeps_ranks(old, at, target);
            let lane = &mut self.lanes[target as usize];
            lane.flows += flows;
            if target as usize != at {
                moved += flows as usize;
                continue;
            }
            let order = if keeps { LeafOrder::Fair } else { list_script(old, at) };
            let lane = &mut self.lanes[target as usize];
            core::mem::swap(&mut lane.pifo, &mut old.lanes[at].pifo);
            if keeps {
                continue;
            }
            let mut entries = core::mem::take(&mut lane.pifo);
            self.join_leaf(target, entries.sorted(), |entry| {
                arrival_of(entry, order, old.scripts.as_deref(), &arrival)
            });
            if self.has_script(target) {
                entries.clear();
            }
            entries.sorted();
            self.lanes[target as usize].pifo = entries;
        }
        if moved > 0 {
            self.take_over(old, targets, spare, arrival);
        }
        moved
    }

    /// Hands the references of the lanes that are gone to their heirs.
    fn take_over(
        &mut self,
        old: &mut Self,
        targets: &[u32],
        spare: &mut Spare,
        arrival: impl Fn(&Entry, LeafOrder) -> u64,
    ) {
        for (at, &target) in targets.iter().enumerate().take(old.lanes.len()) {
            let gone = old.lanes[at].flows > 0 && target as usize != at;
            if !gone {
                continue;
            }
            let keeps = self.keeps_ranks(old, at, target);
            let order = if keeps { LeafOrder::Fair } else { list_script(old, at) };
            let lane = &mut self.lanes[target as usize];
            spare.enlarge(&mut lane.pifo, lane.flows as usize);
            let entries = old.lanes[at].pifo.sorted();
            if !keeps {
                self.join_leaf(target, entries, |entry| {
                    arrival_of(entry, order, old.scripts.as_deref(), &arrival)
                });
            }
            if !self.has_script(target) {
                let lane = &mut self.lanes[target as usize];
                entries.iter().for_each(|entry| lane.pifo.push(*entry));
            }
        }
    }

    /// Ranks `entries`, which are in order, as references to flows that join the leaf of `lane`.
    fn join_leaf(&mut self, lane: u32, entries: &mut [Entry], arrival: impl Fn(&Entry) -> u64) {
        self.keep_arrivals(entries, &arrival);
        if self.has_script(lane) {
            self.join_script(lane, entries);
        } else {
            let at = self.lanes[lane as usize].leaf;
            let time = self.leaves[at as usize].is_fair().then(|| self.leaf_time(at));
            join(entries, time, &mut self.ticks, arrival);
        }
    }

    /// Takes over the shaping queue, with the release times of the new limits.
    fn carry_parked(&mut self, old: &Self, targets: &[u32]) {
        let stays = |entry: &&Entry| targets.get(entry.id as usize) == Some(&entry.id);
        for entry in old.shaping.iter().filter(stays) {
            let release = service::release_time(&self.lanes[entry.id as usize], &self.limits);
            self.shaping.push(Entry { rank: release.as_nanos(), ..*entry });
        }
    }

    /// Fills the leaves with the heads of their lanes.
    fn fill_leaves(&mut self) {
        for leaf in self.leaves.iter_mut().filter(|leaf| leaf.sole().is_none()) {
            let mut filled = false;
            for (slot, &id) in leaf.lanes.iter().enumerate() {
                let lane = &self.lanes[id as usize];
                if let (false, Some(head)) = (lane.parked, lane.pifo.peek()) {
                    leaf.heads.place(slot, head.rank, head.tie, id);
                    filled = true;
                }
            }
            if filled {
                leaf.heads.rebuild();
            }
        }
        self.fill_scripts();
    }

    /// Takes over the nodes, every child before its parent.
    fn carry_nodes(&mut self, old: &Self, upwards: &[u32]) {
        for &at in upwards {
            let before = old.nodes.get(at as usize).map(|inner| &inner.node);
            if self.script_node(at).is_some() {
                self.carry_script_node(old, at);
                continue;
            }
            if let Some(before) = before {
                self.nodes[at as usize].node.carry(before);
            }
            for slot in 0..self.nodes[at as usize].children.len() {
                let child = self.nodes[at as usize].children[slot];
                let offer = self.offered_by(child);
                let entry = (offer != NO_LEAF).then(|| (self.tick(), offer));
                let known = before.zip(self.place_before(old, at, slot));
                self.nodes[at as usize].node.carry_child(slot, known, entry);
            }
            self.nodes[at as usize].node.rebuild();
        }
    }

    /// The parent of `child` and its slot there.
    pub(super) fn place_of(&self, child: Child) -> Option<(u32, u32)> {
        match child {
            Child::Leaf(leaf) => self.leaves.get(leaf.index()).and_then(|leaf| leaf.path.first().copied()),
            Child::Node(node) => self.node_parents.get(node.index()).copied().flatten(),
        }
    }

    /// The offer of `child`, or [`NO_LEAF`].
    pub(super) fn offered_by(&self, child: Child) -> u32 {
        match child {
            Child::Leaf(leaf) => self.offered_by_leaf(leaf.0),
            Child::Node(node) => match self.script_node(node.0) {
                Some(node) => node.offer(),
                None => self.nodes[node.index()].node.offer(),
            },
        }
    }
}

/// Children that take the place of others.
impl PolicyTree {
    /// Finds the counterparts of the children that are not in both trees, in a pass over the leaves.
    fn find_counterparts(&mut self, old: &mut Self) {
        for leaf in 0..self.leaves.len().min(old.leaves.len()) {
            for at in 0..self.leaves[leaf].path.len() {
                let (node, slot) = self.leaves[leaf].path[at];
                let Some(&(_, before)) = old.leaves[leaf].path.iter().find(|(other, _)| *other == node)
                else {
                    continue;
                };
                let new = self.nodes[node as usize].children[slot as usize];
                let gone = old.nodes[node as usize].children[before as usize];
                if old.is_below(new, node) || self.is_below(gone, node) {
                    continue;
                }
                self.nodes[node as usize].counterparts[slot as usize].add(before);
                old.nodes[node as usize].counterparts[before as usize].add(slot);
            }
        }
    }

    /// Forgets what [`Self::find_counterparts`] found, so that this tree may be the old one at the next change.
    fn forget_counterparts(&mut self) {
        self.nodes.iter_mut().for_each(|inner| inner.counterparts.fill(Counterparts::None));
    }

    /// The slot below node `at` of `old` whose place the child at `slot` takes: its own, or that of its only counterpart.
    pub(super) fn place_before(&self, old: &Self, at: u32, slot: usize) -> Option<usize> {
        let inner = &self.nodes[at as usize];
        if let Some((node, before)) = old.place_of(inner.children[slot])
            && node == at
        {
            return Some(before as usize);
        }
        let Counterparts::One(before) = inner.counterparts[slot] else { return None };
        let back = old.nodes[at as usize].counterparts[before as usize];
        (back == Counterparts::One(slot as u32)).then_some(before as usize)
    }

    /// Whether `child` is a child of `node`.
    fn is_below(&self, child: Child, node: u32) -> bool {
        self.place_of(child).is_some_and(|(above, _)| above == node)
    }
}

/// The move of a flow.
impl PolicyTree {
    /// Moves `flow` to `lane`, also while it is backlogged. Within its leaf it keeps its account and its rank. In another
    /// leaf it joins as a newly backlogged flow: in a fair leaf with `S = V` and a new account; a first-in first-out leaf
    /// ranks it by its arrival. Linear in the backlogged flows of the two lanes. May allocate.
    ///
    /// # Errors
    /// [`FlowError::UnknownFlow`], [`FlowError::UnknownLane`], [`FlowError::InService`].
    pub fn move_flow(&mut self, flow: FlowId, lane: LaneId) -> Result<(), FlowError> {
        self.move_flow_with(flow, lane, Default::default)
    }

    /// Moves a flow as [`PolicyTree::move_flow`]. `waiting` has the metadata of its first packet, and what waits in it, if no
    /// user-defined algorithm had its packets before.
    ///
    /// # Errors
    /// As [`PolicyTree::move_flow`].
    pub fn move_flow_with(
        &mut self,
        flow: FlowId,
        lane: LaneId,
        waiting: impl FnOnce() -> (Metadata, Counted),
    ) -> Result<(), FlowError> {
        let fair = self.lane_of(flow).is_some_and(|lane| self.is_fair(lane));
        let arrival = |entry: &Entry| if fair { entry.tie } else { entry.rank };
        self.move_flow_by(flow, lane, arrival, || FlowHead::of(waiting()))
    }

    /// Moves a flow as [`PolicyTree::move_flow`]. `arrival` gives the number of arrival of its first packet, `waiting` the
    /// packet's metadata and what waits in the flow.
    pub(crate) fn move_flow_by(
        &mut self,
        id: FlowId,
        lane: LaneId,
        arrival: impl Fn(&Entry) -> u64,
        waiting: impl FnOnce() -> FlowHead,
    ) -> Result<(), FlowError> {
        self.lane_mut(lane)?;
        let flow = self.flow_mut(id)?;
        let (from, backlogged) = (LaneId(flow.lane), flow.state == FlowState::Backlogged);
        if self.in_service == Some(id) {
            return Err(FlowError::InService { given: id });
        }
        if from == lane {
            return Ok(());
        }
        let stays = self.lanes[from.index()].leaf == self.lanes[lane.index()].leaf;
        let flow = &mut self.flows[id.index()];
        flow.lane = lane.0;
        if !stays {
            flow.account.restart();
        }
        self.lanes[from.index()].flows -= 1;
        let target = &mut self.lanes[lane.index()];
        target.flows += 1;
        target.pifo.reserve_flows(target.flows as usize);
        let reference = if backlogged { self.lanes[from.index()].pifo.remove(id.0) } else { None };
        if self.is_scripted(from) || self.is_scripted(lane) {
            let arrival = reference.filter(|_| !stays).map(|entry| arrival(&entry));
            let head = if self.is_scripted(from) { None } else { Some(waiting()) };
            self.move_scripted(id, from, (reference, arrival), head);
            return Ok(());
        }
        if let Some(mut entry) = reference {
            if !stays {
                let time = self.leaf_time(self.lanes[lane.index()].leaf);
                let rank = if self.is_fair(lane) { time } else { arrival(&entry) };
                entry = Entry { rank, tie: self.tick(), ..entry };
            }
            // The new place first: nodes above both lanes then see no gap.
            self.enter(lane, entry);
            self.withdraw(from);
        }
        Ok(())
    }

    fn is_fair(&self, lane: LaneId) -> bool {
        let leaf = self.lanes.get(lane.index()).and_then(|lane| self.leaves.get(lane.leaf as usize));
        leaf.is_some_and(Leaf::is_fair)
    }

    /// Adds a reference to `lane`.
    fn enter(&mut self, lane: LaneId, entry: Entry) {
        let tie = self.tick();
        let id = lane.0;
        let lane = &mut self.lanes[lane.index()];
        let leaf = &mut self.leaves[lane.leaf as usize];
        let was_empty = offer_of(id, lane, leaf) == NO_LEAF;
        lane.pifo.push(entry);
        if lane.parked {
            return;
        }
        leaf.update_head(id, lane);
        if was_empty {
            self.climb(id, tie, Return::Fresh);
        }
    }

    /// Brings the tree up to date after a reference was removed from `lane`.
    fn withdraw(&mut self, lane: LaneId) {
        let id = lane.0;
        let lane = &mut self.lanes[lane.index()];
        if lane.parked {
            if lane.pifo.is_empty() {
                lane.parked = false;
                self.shaping.remove(id);
            }
            return;
        }
        self.leaves[lane.leaf as usize].update_head(id, lane);
        self.leave(id, Leave::Moved);
    }
}

/// Ranks `entries`, which are in order, as references to flows that join a leaf, which has this virtual time if it is fair.
fn join(entries: &mut [Entry], time: Option<u64>, ticks: &mut u64, arrival: impl Fn(&Entry) -> u64) {
    for entry in entries {
        *ticks += 1;
        entry.rank = time.unwrap_or_else(|| arrival(entry));
        entry.tie = *ticks;
    }
}

/// Memory for the references of heirs. It suffices for any division of the flows among them: a buffer of `2^k` entries is
/// needed by an heir with more than half as many flows, of which there cannot be more than `flows / 2^(k-1)`.
#[derive(Debug)]
struct Spare {
    /// Buffers by `k`, and how many of them are in use.
    classes: Vec<(Vec<Pifo>, usize)>,
}

impl Spare {
    fn new(heirs: usize, flows: usize) -> Self {
        let largest = if heirs == 0 { 0 } else { class_of(flows) + 1 };
        let class = |k: usize| {
            let count = heirs.min(2 * flows / (1 << k) + 1);
            let buffer = |_| {
                let mut buffer = Pifo::default();
                buffer.reserve_flows(1 << k);
                buffer
            };
            ((0..count).map(buffer).collect(), 0)
        };
        Self { classes: (0..largest).map(class).collect() }
    }

    /// Makes room for `flows` references in `pifo`.
    fn enlarge(&mut self, pifo: &mut Pifo, flows: usize) {
        if pifo.capacity() >= flows {
            return;
        }
        if let Some((buffers, used)) = self.classes.get_mut(class_of(flows))
            && let Some(buffer) = buffers.get_mut(*used)
        {
            *used += 1;
            pifo.move_into(buffer);
        }
    }
}

/// The smallest `k` with `2^k >= flows`.
fn class_of(flows: usize) -> usize {
    flows.max(1).next_power_of_two().trailing_zeros() as usize
}
