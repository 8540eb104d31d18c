//! Turns below user-defined algorithms.
//!
//! A leaf is *scripted* if it or a node above it has a user-defined algorithm ([`Custom`](crate::program::Custom)). Its
//! events take the way that this module describes, step by step up to the root (`ascend`); those of other leaves do not.
//! [`crate::script`] has the semantics. The events, in the order of the functions:
//!
//! 1. Arrivals: a packet or a doorbell of an idle flow or of a backlogged one.
//! 2. Turns: their beginning, the fetched packet, and their end.
//! 3. The shaping queue: lanes that a limit delays, and the times of references.
//!
//! The module `change` has the exchange of the program and the moves of flows.

mod change;

pub(super) use change::{arrival_of, list_script};

use weft_rank::{Metadata, Metadatum};
use weft_units::{Bytes, FlowId, Instant, LaneId, Weight};

use super::service::{charge_first, charge_limits, rank_of};
use super::{FlowState, PolicyTree, StaleTurn, Turn};
use crate::entry::Entry;
use crate::leaf::{Lane, Leaf, LeafOrder};
use crate::node::{Leave, NO_LEAF, Node, Return};
use crate::program::Program;
use crate::script::children::Children;
use crate::script::leaf::{LeafVerdict, ScriptLeaf};
pub(crate) use crate::script::node::FlowHead;
use crate::script::node::{Event, Head, ScriptNode, one};
use crate::script::scheduler::{At, Cx, Joins, Sight, Tie, TurnEnd};
use crate::script::timers::{Alarm, Owner, Timers};
use crate::validate::Parent;
use crate::virtual_time;
use weft_units::Counted;

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
            nodes.push(spec.discipline.custom().map(node));
            if spec.discipline.custom().is_some() {
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

/// Arrivals, and the way of every event up to the root.
impl PolicyTree {
    /// Marks `flow` as backlogged, as [`PolicyTree::activate`], with a packet whose metadata is known, or reports a further
    /// packet. Returns true when the flow was idle before.
    pub fn activate_with(&mut self, flow: FlowId, packet: &Metadata, now: Instant) -> bool {
        self.observe(now);
        let Some((lane, active)) = self.lane_and_active(flow) else { return false };
        self.posted |= active && self.in_service == Some(flow);
        match (active, self.is_scripted(lane)) {
            (true, true) => self.arrived(flow, packet),
            (true, false) => {}
            (false, _) => {
                let arrival = self.tick();
                self.activate_packet(flow, arrival, packet);
            }
        }
        !active
    }

    /// Marks `flow`, which must be idle, as backlogged with a first packet of this arrival number.
    #[inline]
    pub(crate) fn activate_packet(&mut self, flow: FlowId, arrival: u64, packet: &Metadata) {
        let leaf = self.lanes[self.flows[flow.index()].lane as usize].leaf;
        if self.leaves[leaf as usize].scripted {
            self.activate_scripted(flow, arrival, packet);
        } else {
            self.activate_at(flow, arrival);
        }
    }

    /// Reports a further doorbell of a backlogged flow, if algorithms order its lane.
    pub(super) fn arrived_unknown(&mut self, flow: FlowId) {
        if self.lane_of(flow).is_some_and(|lane| self.is_scripted(lane)) {
            self.arrived(flow, &Metadata::UNKNOWN);
        }
    }

    /// Marks an idle flow of a scripted leaf as backlogged.
    pub(super) fn activate_scripted(&mut self, flow: FlowId, arrival: u64, packet: &Metadata) {
        let Some(mut scripts) = self.scripts.take() else { return };
        let queued = one(packet.get(Metadatum::Length).map(Bytes));
        let head = &mut scripts.heads[flow.index()];
        *head = FlowHead { packet: *packet, arrival, queued };
        self.flows[flow.index()].state = FlowState::Backlogged;
        self.backlogged += 1;
        let leaf = self.enter_scripted(&mut scripts, flow, packet, Joins::Arriving);
        self.offer_scripted(&mut scripts, leaf);
        let event = Event::Arrived { activated: true, packet, queued };
        self.ascend(&mut scripts, leaf, &event, FRESH);
        self.scripts = Some(scripts);
    }

    /// Adds a reference to `flow` to its leaf, whose offer is brought up to date later. Returns the leaf.
    fn enter_scripted(
        &mut self,
        scripts: &mut Scripts,
        flow: FlowId,
        packet: &Metadata,
        joins: Joins,
    ) -> u32 {
        let tie = self.tick();
        let slot = &self.flows[flow.index()];
        let lane = &mut self.lanes[slot.lane as usize];
        let leaf = &mut self.leaves[lane.leaf as usize];
        let head = scripts.heads[flow.index()];
        match &mut leaf.script {
            Some(script) => {
                let at = at_of(flow.0, lane);
                let sight = sight(&head, packet, scripts.clock, slot.account.weight().get());
                let cx = &mut Cx { ticks: &mut self.ticks, timers: &mut scripts.timers };
                script.scheduler.join(&mut scripts.flows, &at, &sight, joins, cx);
            }
            None => {
                let time = if lane.sole { lane.virtual_time } else { leaf.virtual_time };
                let rank = rank_of(slot, leaf.order, time, head.arrival);
                lane.pifo.push(Entry::new(rank, tie, flow.0));
                leaf.update_head(slot.lane, lane);
            }
        }
        lane.leaf
    }

    /// Reports a further packet or doorbell of a backlogged flow to its scripted leaf.
    pub(crate) fn arrived(&mut self, flow: FlowId, packet: &Metadata) {
        let Some(mut scripts) = self.scripts.take() else { return };
        let queued = one(packet.get(Metadatum::Length).map(Bytes));
        scripts.heads[flow.index()].queued += queued;
        let slot = &self.flows[flow.index()];
        let lane = &self.lanes[slot.lane as usize];
        let at = lane.leaf;
        if let Some(script) = &mut self.leaves[at as usize].script {
            let head = scripts.heads[flow.index()];
            let sight = sight(&head, packet, scripts.clock, slot.account.weight().get());
            let cx = &mut Cx { ticks: &mut self.ticks, timers: &mut scripts.timers };
            script.scheduler.arrive(&mut scripts.flows, &at_of(flow.0, lane), &sight, cx);
            self.offer_scripted(&mut scripts, at);
        }
        let event = Event::Arrived { activated: false, packet, queued };
        self.ascend(&mut scripts, at, &event, FRESH);
        self.scripts = Some(scripts);
    }

    /// Lets a leaf with an algorithm offer the lane of its first flow.
    pub(super) fn offer_scripted(&mut self, scripts: &mut Scripts, at: u32) {
        let leaf = &mut self.leaves[at as usize];
        let Some(script) = &mut leaf.script else { return };
        script.scheduler.settle(&mut scripts.flows);
        if script.scheduler.is_late() {
            let here = self.flows.iter().zip(0..).filter(|(slot, _)| slot.state != FlowState::Vacant);
            let lanes = here.map(|(slot, id)| (id, &self.lanes[slot.lane as usize]));
            let all = lanes.filter(|(_, lane)| lane.leaf == at).map(|(id, lane)| at_of(id, lane));
            script.scheduler.rebase(&mut scripts.flows, all);
            self.counters.rebases += 1;
        }
        let offered = script.scheduler.first().map(|(lane, _)| lane);
        let before = core::mem::replace(&mut script.offered, offered);
        if before != offered {
            before.into_iter().for_each(|slot| leaf.heads.clear(slot));
            offered.into_iter().for_each(|slot| leaf.heads.set(slot, 0, 0, leaf.lanes[slot]));
        }
    }

    /// Carries an event below `leaf` up to the root.
    pub(super) fn ascend(&mut self, scripts: &mut Scripts, leaf: u32, event: &Event<'_>, why: Why) {
        let offer = self.offered_by_leaf(leaf);
        let parent = self.leaves[leaf as usize].path.first().copied();
        self.ascend_from(scripts, parent, offer, event, why);
    }

    /// Carries an event up from a child at `parent`, which now leads to the leaf `offer`.
    fn ascend_from(
        &mut self,
        scripts: &mut Scripts,
        mut parent: Parent,
        mut offer: u32,
        event: &Event<'_>,
        why: Why,
    ) {
        while let Some((at, slot)) = parent {
            let tie = self.tick();
            let Scripts { nodes, heads, timers, clock, .. } = scripts;
            let node = &mut self.nodes[at as usize].node;
            if let Some(node) = &mut nodes[at as usize] {
                let first = self.leaves.get(offer as usize).and_then(|leaf| first_flow(leaf, &self.lanes));
                let head = first.map(|flow| Head::of(flow, &heads[flow as usize]));
                let cx = &mut Cx { ticks: &mut self.ticks, timers };
                self.counters.rebases += node.pass(slot, offer, head, event, *clock, cx);
                offer = node.offer();
            } else if let Event::Sent { share, .. } = event {
                offer = node.served(slot as usize, *share, offer, tie, &mut self.counters.rebases);
            } else {
                offer = reorder(node, slot as usize, offer, tie, why);
            }
            parent = self.node_parents[at as usize];
        }
        self.first_leaf = offer;
    }
}

/// Turns of flows: their beginning, the fetched packet, and their end.
impl PolicyTree {
    /// Begins the turn of the first flow of `lane`.
    pub(super) fn begin_scripted(&mut self, at: u32, lane: u32) -> Option<FlowId> {
        let mut scripts = self.scripts.take()?;
        let leaf = &mut self.leaves[at as usize];
        let state = &self.lanes[lane as usize];
        let first = match &leaf.script {
            Some(script) => script.scheduler.first_of(state.slot as usize),
            None => state.pifo.peek().map(|entry| entry.id),
        };
        if let Some(flow) = first {
            let head = scripts.heads[flow as usize];
            match &mut leaf.script {
                Some(script) => {
                    let weight = self.flows[flow as usize].account.weight().get();
                    let sight = sight(&head, &Metadata::UNKNOWN, scripts.clock, weight);
                    script.scheduler.begin(&mut scripts.flows, &at_of(flow, state), &sight);
                }
                None if leaf.order == LeafOrder::Fair => {
                    let rank = state.pifo.peek().map_or(0, |entry| entry.rank);
                    leaf.virtual_time = leaf.virtual_time.max(rank);
                }
                None => {}
            }
            for &(node, slot) in &leaf.path {
                let clock = scripts.clock;
                match scripts.node_mut(node) {
                    Some(node) => node.begin(slot, clock, &head.packet),
                    None => self.nodes[node as usize].node.begin(slot as usize),
                }
            }
        }
        self.scripts = Some(scripts);
        first.map(FlowId)
    }

    /// Ends the outstanding turn of a flow of a scripted leaf without any effect.
    pub(super) fn abandon_scripted(&mut self, flow: FlowId) {
        let Some(slot) = self.flows.get(flow.index()) else { return };
        let Some(lane) = self.lanes.get(slot.lane as usize) else { return };
        let Some(leaf) = self.leaves.get_mut(lane.leaf as usize).filter(|leaf| leaf.scripted) else { return };
        if let Some(script) = &mut leaf.script {
            script.scheduler.abandon();
        }
        let Some(scripts) = &mut self.scripts else { return };
        for &(node, _) in &leaf.path {
            if let Some(node) = scripts.node_mut(node) {
                node.scheduler.abandon();
            }
        }
    }

    /// The verdict of the leaf's programs on a packet of the outstanding turn, once it has been fetched. End the turn of a dropped
    /// packet with nothing sent.
    ///
    /// # Errors
    /// [`StaleTurn`] when another turn has begun since; no program runs then.
    pub fn fetched(
        &mut self,
        turn: &Turn,
        packet: &Metadata,
        now: Instant,
    ) -> Result<LeafVerdict, StaleTurn> {
        if turn.serial != self.serial || self.in_service != Some(turn.flow) {
            return Err(StaleTurn { flow: turn.flow });
        }
        self.observe(now);
        let Some(scripts) = &mut self.scripts else { return Ok(LeafVerdict::Send) };
        let slot = &self.flows[turn.flow.index()];
        let lane = &self.lanes[slot.lane as usize];
        let Some(script) = &mut self.leaves[lane.leaf as usize].script else { return Ok(LeafVerdict::Send) };
        let head = FlowHead { packet: *packet, ..scripts.heads[turn.flow.index()] };
        let sight = sight(&head, packet, scripts.clock, slot.account.weight().get());
        Ok(script.fetched(&mut scripts.flows, turn.flow.0, &sight))
    }

    /// Ends a turn as [`PolicyTree::finish`], in which `taken`, with what was dropped, left the flow's queue, with the metadata of the
    /// flow's next packet, if it has one. Below a user-defined algorithm; elsewhere `taken` and the metadata are ignored.
    ///
    /// # Errors
    /// [`StaleTurn`] when another turn has begun since; nothing is charged then.
    pub fn finish_with(
        &mut self,
        turn: Turn,
        sent: Bytes,
        taken: Counted,
        next: Option<&Metadata>,
        now: Instant,
    ) -> Result<(), StaleTurn> {
        let arrival = if next.is_some() || self.posted { Some(self.tick()) } else { None };
        let next = arrival.map(|arrival| (arrival, *next.unwrap_or(&Metadata::UNKNOWN)));
        self.finish_packet(turn, (sent, sent), taken, next, now)
    }

    /// Ends a turn as [`PolicyTree::finish_charging`], with the metadata of the flow's next packet, if it has one. Elsewhere than
    /// below a user-defined algorithm the metadata is ignored.
    ///
    /// # Errors
    /// [`StaleTurn`] when another turn has begun since; nothing is charged then.
    pub fn finish_charging_with(
        &mut self,
        turn: Turn,
        charges: (Bytes, Bytes),
        next: Option<&Metadata>,
        now: Instant,
    ) -> Result<(), StaleTurn> {
        let arrival = if next.is_some() || self.posted { Some(self.tick()) } else { None };
        let next = arrival.map(|arrival| (arrival, *next.unwrap_or(&Metadata::UNKNOWN)));
        self.finish_packet(turn, charges, Counted::default(), next, now)
    }

    /// Ends a turn in which `taken` left the flow's queue, with the arrival number and the metadata of the next packet.
    pub(crate) fn finish_packet(
        &mut self,
        turn: Turn,
        charges: (Bytes, Bytes),
        taken: Counted,
        next: Option<(u64, Metadata)>,
        now: Instant,
    ) -> Result<(), StaleTurn> {
        if turn.serial != self.serial || self.in_service != Some(turn.flow) {
            return Err(StaleTurn { flow: turn.flow });
        }
        self.in_service = None;
        if self.is_scripted(turn.lane) {
            self.settle_scripted(turn.lane.0, turn.flow, charges, taken, next, now);
        } else {
            self.settle(turn.lane.0, turn.flow, charges, next.map(|(arrival, _)| arrival), now);
        }
        Ok(())
    }

    /// Charges a segment of `flow` of `lane` at every level and to every limit, and ranks the flow anew if it has a next
    /// packet.
    pub(super) fn settle_scripted(
        &mut self,
        id: u32,
        flow: FlowId,
        (sent, share): (Bytes, Bytes),
        taken: Counted,
        next: Option<(u64, Metadata)>,
        now: Instant,
    ) {
        self.observe(now);
        let Some(mut scripts) = self.scripts.take() else { return };
        charge_limits(&self.lanes[id as usize], &mut self.limits, &mut self.all_clear, sent, now);
        let place = &mut scripts.heads[flow.index()];
        let before = *place;
        place.queued -= taken;
        (place.arrival, place.packet) = next.unwrap_or_default();
        self.backlogged -= usize::from(next.is_none());
        self.charge_leaf(&mut scripts, id, flow, share, &before.packet, next.is_none());
        let at = self.lanes[id as usize].leaf;
        self.offer_scripted(&mut scripts, at);
        let event = Event::Sent { share, taken, idle: next.is_none(), packet: &before.packet };
        self.ascend(&mut scripts, at, &event, FRESH);
        self.scripts = Some(scripts);
        if self.leaves[at as usize].virtual_time >= virtual_time::REBASE_AT {
            self.rebase_leaf(at);
        }
    }

    /// Ends the turn of a flow in its leaf.
    fn charge_leaf(
        &mut self,
        scripts: &mut Scripts,
        id: u32,
        flow: FlowId,
        share: Bytes,
        packet: &Metadata,
        idle: bool,
    ) {
        let tie = self.tick();
        let lane = &mut self.lanes[id as usize];
        let leaf = &mut self.leaves[lane.leaf as usize];
        let slot = &mut self.flows[flow.index()];
        let head = scripts.heads[flow.index()];
        let Some(script) = &mut leaf.script else {
            let arrival = (!idle).then_some(head.arrival);
            let order = (leaf.order, &mut leaf.virtual_time);
            charge_first(&mut lane.pifo, order, slot, share, arrival, Entry::new(0, tie, flow.0));
            leaf.update_head(id, lane);
            return;
        };
        let weight = slot.account.weight().get();
        let at = at_of(flow.0, lane);
        let next = sight(&head, &Metadata::UNKNOWN, scripts.clock, weight);
        let ended = Sight { head: packet, ..next };
        let cx = &mut Cx { ticks: &mut self.ticks, timers: &mut scripts.timers };
        script.scheduler.sent(&mut scripts.flows, &at, &ended, TurnEnd { bytes: share, more: !idle });
        if idle {
            slot.state = FlowState::Idle;
            script.scheduler.leave(&mut scripts.flows, &at, &ended, cx);
        } else {
            script.scheduler.rank(&mut scripts.flows, &at, &next, Tie::New, cx);
        }
    }
}

/// The shaping queue: lanes that a limit delays, and the times of references.
impl PolicyTree {
    /// Brings a scripted leaf and the nodes above up to date with a lane that was parked or released.
    pub(super) fn shape_scripted(&mut self, id: u32) {
        let Some(mut scripts) = self.scripts.take() else { return };
        let lane = &self.lanes[id as usize];
        let at = lane.leaf;
        let leaf = &mut self.leaves[at as usize];
        match &mut leaf.script {
            Some(script) => {
                script.scheduler.set_parked(&mut scripts.flows, lane.slot as usize, lane.parked);
                self.offer_scripted(&mut scripts, at);
            }
            None => leaf.update_head(id, lane),
        }
        self.ascend(&mut scripts, at, &Event::Reordered, SHAPED);
        self.scripts = Some(scripts);
    }

    /// Whether the next turn at `now` is below an algorithm, after what is due.
    #[cold]
    pub(super) fn is_next_scripted(&mut self, now: Instant) -> bool {
        self.peek_any(now).is_some_and(|lane| self.is_scripted(LaneId(lane)))
    }

    /// Handles what is due at `now`: times of algorithms, and lanes in the shaping queue, in the order of time.
    #[cold]
    pub(super) fn release_scripted(&mut self, now: Instant) {
        self.observe(now);
        while let Some(alarm) = self.first_alarm(now) {
            let lane = self.shaping.peek().map(|first| (first.rank, first.tie));
            if lane.is_some_and(|lane| lane < alarm) {
                self.release_first();
            } else {
                self.release_alarm();
            }
        }
    }

    /// The first time of an algorithm's that is due at `now`, with its tie.
    fn first_alarm(&self, now: Instant) -> Option<(u64, u64)> {
        self.scripts
            .as_ref()
            .and_then(|scripts| scripts.timers.first())
            .filter(|(time, _)| *time <= now.as_nanos())
    }

    /// The first time at which a lane, a flow or a child may return from the shaping queue.
    pub(super) fn first_release(&self) -> Option<Instant> {
        let lane = self.shaping.peek().map(|first| Instant::from_nanos(first.rank));
        let script = self.scripts.as_ref().and_then(|scripts| scripts.timers.first_from());
        [lane, script].into_iter().flatten().min()
    }

    /// Handles the first time of an algorithm's, which has come.
    pub(super) fn release_alarm(&mut self) {
        let Some(mut scripts) = self.scripts.take() else { return };
        match scripts.timers.pop() {
            Some((Owner::Flow(flow), alarm)) => self.alarm_flow(&mut scripts, flow, alarm),
            Some((Owner::Child(child), alarm)) => {
                let (at, slot) = scripts.children[child as usize];
                if let Some(node) = scripts.node_mut(at) {
                    node.alarm(slot, alarm);
                    let offer = node.offer();
                    let parent = self.node_parents[at as usize];
                    self.ascend_from(&mut scripts, parent, offer, &Event::Reordered, SHAPED);
                }
            }
            None => {}
        }
        self.scripts = Some(scripts);
    }

    fn alarm_flow(&mut self, scripts: &mut Scripts, flow: u32, alarm: Alarm) {
        let lane = &self.lanes[self.flows[flow as usize].lane as usize];
        let at = lane.leaf;
        if let Some(script) = &mut self.leaves[at as usize].script {
            script.scheduler.alarm(&mut scripts.flows, &at_of(flow, lane), alarm);
            self.offer_scripted(scripts, at);
            self.ascend(scripts, at, &Event::Reordered, SHAPED);
        }
    }
}

/// The circumstances of an event of a flow.
pub(super) fn sight<'a>(head: &'a FlowHead, packet: &'a Metadata, now: Instant, weight: u32) -> Sight<'a> {
    let FlowHead { packet: first, arrival, queued } = head;
    Sight { now, head: first, packet, queued: *queued, arrival: *arrival, weight: weight.into() }
}

/// Brings a native node up to date with the child at `slot`, which now leads to the leaf `offer`. Returns the leaf that the
/// node leads to.
fn reorder(node: &mut Node, slot: usize, offer: u32, tie: u64, why: Why) -> u32 {
    match (node.contains(slot), offer != NO_LEAF) {
        (false, true) => node.enter(slot, offer, tie, why.returns),
        (true, true) => node.lead(slot, offer),
        (true, false) => {
            node.leave_unserved(slot, why.leaves);
            node.offer()
        }
        (false, false) => node.offer(),
    }
}
