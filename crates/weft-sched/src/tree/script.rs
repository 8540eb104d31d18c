//! Turns below algorithms of one's own.
//!
//! A leaf is *scripted* if it or a node above it has an algorithm of one's own ([`Custom`](crate::program::Custom)). Its
//! events take the way that this module describes, step by step up to the root; those of other leaves do not.
//! [`crate::script`] has the semantics.

use weft_rank::{Metadata, Metadatum};
use weft_units::{Bytes, FlowId, Instant, LaneId, Weight};

use super::service::{charge_first, rank_of};
use super::{FlowState, PolicyTree, StaleTurn, Turn};
use crate::leaf::{Lane, Leaf};
use crate::node::{Leave, NO_LEAF, Node, Return};
use crate::pifo::Entry;
use crate::program::Program;
use crate::script::leaf::{ScriptLeaf, Verdict};
use crate::script::node::{Event, Head, one};
use crate::script::scheduler::{At, Children, Cx, Joins, Sight, Tie, TurnEnd};
use crate::script::timers::{Alarm, Owner, Timers};
use crate::traffic::Traffic;
use crate::validate::Parent;
use crate::virtual_time;

/// The most packets that are dropped before one is sent.
pub(crate) const DROPS_MAX: u32 = 8;

/// The first packet of a flow, and what waits in the flow, as far as it was told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowHead {
    pub(crate) packet: Metadata,
    pub(crate) arrival: u64,
    pub(crate) queued: Traffic,
}

/// The state that a tree has for algorithms of one's own.
#[derive(Debug)]
pub(crate) struct Scripts {
    /// The time of the last event.
    pub(crate) clock: Instant,
    /// The flows of scripted leaves, by their numbers.
    pub(crate) flows: Children,
    pub(crate) heads: Vec<FlowHead>,
    pub(crate) timers: Timers,
    has_timers: bool,
    /// The children of nodes with an algorithm: their node and slot.
    children: Vec<(u32, u32)>,
    /// The packets dropped since the last one that was sent.
    drops: u32,
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
    /// The state for `program` and the flows below `flows`, if it has an algorithm of one's own.
    pub(crate) fn new(program: &Program, flows: usize) -> Option<Box<Self>> {
        let mut customs = program.customs().peekable();
        customs.peek()?;
        let mut children = Vec::new();
        for (at, spec) in program.nodes.iter().enumerate().filter(|(_, spec)| spec.custom().is_some()) {
            children.extend((0..spec.children.len() as u32).map(|slot| (at as u32, slot)));
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
            children,
            drops: 0,
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

    /// The number of the first child of `node` among all children.
    pub(crate) fn first_child(&self, node: u32) -> u32 {
        self.children.iter().position(|(at, _)| *at == node).unwrap_or(0) as u32
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
    /// Whether the events of `lane` concern an algorithm of one's own.
    #[inline]
    pub(crate) fn is_scripted(&self, lane: LaneId) -> bool {
        let lane = self.lanes.get(lane.index());
        lane.and_then(|lane| self.leaves.get(lane.leaf as usize)).is_some_and(|leaf| leaf.scripted)
    }

    /// Whether the program has an algorithm of one's own.
    pub(crate) fn has_scripts(&self) -> bool {
        self.scripts.is_some()
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

    /// Marks `flow` as backlogged, as [`PolicyTree::activate`], with a packet whose metadata is known, or tells of a further
    /// packet. Returns true when the flow was idle before.
    pub fn activate_with(&mut self, flow: FlowId, packet: &Metadata, now: Instant) -> bool {
        self.observe(now);
        let Some((lane, active)) = self.standing_of(flow) else { return false };
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

    /// Marks an idle flow of a scripted leaf as backlogged, of whose first packet nothing is known.
    #[cold]
    pub(super) fn activate_unknown(&mut self, flow: FlowId, arrival: u64) {
        self.activate_scripted(flow, arrival, &Metadata::UNKNOWN);
    }

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
                let rank = rank_of(slot, leaf, head.arrival);
                lane.pifo.push(Entry { rank, tie, id: flow.0 });
                if !lane.parked {
                    leaf.set_head(lane.slot as usize, slot.lane, lane.pifo.peek());
                }
            }
        }
        lane.leaf
    }

    /// Tells of a further packet or doorbell of a backlogged flow of a scripted leaf.
    pub(crate) fn arrived(&mut self, flow: FlowId, packet: &Metadata) {
        let Some(mut scripts) = self.scripts.take() else { return };
        let queued = one(packet.get(Metadatum::Length).map(Bytes));
        scripts.heads[flow.index()].queued.merge(queued);
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
    pub(super) fn offer_scripted(&mut self, scripts: &mut Scripts, leaf: u32) {
        let leaf = &mut self.leaves[leaf as usize];
        let Some(script) = &mut leaf.script else { return };
        script.scheduler.settle(&mut scripts.flows);
        let offered = script.scheduler.first().map(|(lane, _)| lane);
        let before = core::mem::replace(&mut script.offered, offered);
        if before != offered {
            before.into_iter().for_each(|slot| leaf.heads.clear(slot));
            offered.into_iter().for_each(|slot| leaf.heads.set(slot, 0, 0, leaf.lanes[slot]));
        }
    }

    /// Carries an event below `leaf` up to the root.
    pub(super) fn ascend(&mut self, scripts: &mut Scripts, leaf: u32, event: &Event<'_>, why: Why) {
        let below = &self.leaves[leaf as usize];
        let offer = if below.heads.is_empty() { NO_LEAF } else { leaf };
        let parent = below.path.first().copied();
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
            let node = &mut self.nodes[at as usize].node;
            if let Node::Script(node) = node {
                let first = self.leaves.get(offer as usize).and_then(|leaf| first_flow(leaf, &self.lanes));
                let head = first.map(|flow| {
                    let head = &scripts.heads[flow as usize];
                    Head { id: (flow, head.arrival), packet: &head.packet }
                });
                let cx = &mut Cx { ticks: &mut self.ticks, timers: &mut scripts.timers };
                node.pass(slot, offer, head, event, scripts.clock, cx);
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
                None => leaf.begin(state.pifo.peek().map_or(0, |entry| entry.rank)),
            }
            for &(node, slot) in &leaf.path {
                match &mut self.nodes[node as usize].node {
                    Node::Script(node) => node.begin(slot, scripts.clock, &head.packet),
                    node => node.begin(slot as usize),
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
        for &(node, _) in &leaf.path {
            if let Node::Script(node) = &mut self.nodes[node as usize].node {
                node.scheduler.abandon();
            }
        }
    }

    /// The verdict of the leaf's programs on a packet of the outstanding turn, once it has been fetched. Nothing is dropped
    /// after eight drops in a row. End the turn of a dropped packet with nothing sent.
    ///
    /// # Errors
    /// [`StaleTurn`] when another turn has begun since; no program runs then.
    pub fn fetched(&mut self, turn: &Turn, packet: &Metadata, now: Instant) -> Result<Verdict, StaleTurn> {
        if turn.serial != self.serial || self.in_service != Some(turn.flow) {
            return Err(StaleTurn { flow: turn.flow });
        }
        self.observe(now);
        let Some(scripts) = &mut self.scripts else { return Ok(Verdict::Send) };
        let slot = &self.flows[turn.flow.index()];
        let lane = &self.lanes[slot.lane as usize];
        let Some(script) = &mut self.leaves[lane.leaf as usize].script else {
            scripts.drops = 0;
            return Ok(Verdict::Send);
        };
        let head = FlowHead { packet: *packet, ..scripts.heads[turn.flow.index()] };
        let sight = sight(&head, packet, scripts.clock, slot.account.weight().get());
        let verdict = script.fetched(&mut scripts.flows, turn.flow.0, &sight);
        if verdict != Verdict::Drop {
            scripts.drops = 0;
            return Ok(verdict);
        }
        scripts.drops += 1;
        if scripts.drops > DROPS_MAX {
            scripts.drops = 0;
            return Ok(Verdict::Send);
        }
        Ok(Verdict::Drop)
    }

    /// Ends a turn as [`PolicyTree::finish`], with the metadata of the flow's next packet, if it has one. Below an algorithm
    /// of one's own; elsewhere the metadata is ignored.
    ///
    /// # Errors
    /// [`StaleTurn`] when another turn has begun since; nothing is charged then.
    pub fn finish_with(
        &mut self,
        turn: Turn,
        sent: Bytes,
        next: Option<&Metadata>,
        now: Instant,
    ) -> Result<(), StaleTurn> {
        let arrival = if next.is_some() || self.posted { Some(self.tick()) } else { None };
        let next = arrival.map(|arrival| (arrival, *next.unwrap_or(&Metadata::UNKNOWN)));
        self.finish_packet(turn, (sent, sent), one(Some(sent)), next, now)
    }

    /// Ends a turn in which `taken` left the flow's queue, with the arrival number and the metadata of the next packet.
    pub(crate) fn finish_packet(
        &mut self,
        turn: Turn,
        charges: (Bytes, Bytes),
        taken: Traffic,
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
        taken: Traffic,
        next: Option<(u64, Metadata)>,
        now: Instant,
    ) {
        self.observe(now);
        let Some(mut scripts) = self.scripts.take() else { return };
        for limit in &self.lanes[id as usize].limits {
            self.limits[limit.index()].charge(sent, now);
        }
        let place = &mut scripts.heads[flow.index()];
        let before = *place;
        place.queued.remove(taken);
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
            charge_first(lane, leaf, slot, share, arrival, Entry { rank: 0, tie, id: flow.0 });
            leaf.set_head(lane.slot as usize, id, lane.pifo.peek());
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
            None => leaf.set_head(lane.slot as usize, id, lane.pifo.peek().filter(|_| !lane.parked)),
        }
        self.ascend(&mut scripts, at, &Event::Reordered, SHAPED);
        self.scripts = Some(scripts);
    }

    /// Tells of a further doorbell of a backlogged flow, if that concerns an algorithm.
    pub(super) fn arrived_unknown(&mut self, flow: FlowId) {
        if self.lane_of(flow).is_some_and(|lane| self.is_scripted(lane)) {
            self.arrived(flow, &Metadata::UNKNOWN);
        }
    }

    /// Gives a new flow its first contents. May allocate.
    pub(super) fn make_script_flow(&mut self, flow: FlowId) {
        let Some(scripts) = &mut self.scripts else { return };
        scripts.grow(self.flows.len());
        scripts.heads[flow.index()] = FlowHead::default();
        let lane = &self.lanes[self.flows[flow.index()].lane as usize];
        if let Some(script) = &self.leaves[lane.leaf as usize].script {
            script.make_new(&mut scripts.flows, flow.0);
        }
    }

    /// Accounts for the new weight of a flow.
    pub(super) fn reweigh_scripted(&mut self, flow: FlowId, before: Weight, after: Weight) {
        let slot = &self.flows[flow.index()];
        let lane = &self.lanes[slot.lane as usize];
        if let (FlowState::Backlogged, Some(script)) =
            (slot.state, &mut self.leaves[lane.leaf as usize].script)
        {
            script.scheduler.reweigh(before.get().into(), after.get().into());
        }
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
                if let Node::Script(node) = &mut self.nodes[at as usize].node {
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

    /// Moves a flow from a lane, from or to a scripted leaf. The flow has its new lane and account already, and its native
    /// reference was removed. `head` is given if it was not known.
    pub(super) fn move_scripted(
        &mut self,
        flow: FlowId,
        from: LaneId,
        (reference, arrival): (Option<Entry>, Option<u64>),
        head: Option<FlowHead>,
    ) {
        let Some(mut scripts) = self.scripts.take() else { return };
        let backlogged = self.flows[flow.index()].state == FlowState::Backlogged;
        let old = self.lanes[from.index()].leaf;
        let new = self.lanes[self.flows[flow.index()].lane as usize].leaf;
        let place = &mut scripts.heads[flow.index()];
        *place = head.filter(|_| backlogged).unwrap_or(*place);
        place.arrival = arrival.unwrap_or(place.arrival);
        if old == new {
            self.relocate_scripted(&mut scripts, flow, from, reference);
        } else {
            if backlogged {
                self.detach_scripted(&mut scripts, flow, from);
            }
            if let Some(script) = &self.leaves[new as usize].script {
                script.make_new(&mut scripts.flows, flow.0);
            }
            if backlogged {
                self.join_scripted(&mut scripts, flow, old);
            }
        }
        self.scripts = Some(scripts);
    }

    /// Moves a flow between lanes of a leaf. A native reference was removed from the old lane.
    fn relocate_scripted(
        &mut self,
        scripts: &mut Scripts,
        flow: FlowId,
        from: LaneId,
        reference: Option<Entry>,
    ) {
        let id = self.flows[flow.index()].lane;
        let before = at_of(flow.0, &self.lanes[from.index()]);
        let lane = &mut self.lanes[id as usize];
        let (at, slot) = (lane.leaf, lane.slot as usize);
        let leaf = &mut self.leaves[at as usize];
        match (&mut leaf.script, reference) {
            (Some(script), _) => script.scheduler.relocate(&mut scripts.flows, &before, slot),
            (None, Some(entry)) => lane.pifo.push(entry),
            (None, None) => {}
        }
        self.release_empty(scripts, from);
        self.offer_native(at);
        self.offer_scripted(scripts, at);
        self.ascend(scripts, at, &Event::Reordered, MOVED);
    }

    /// Removes the reference of a flow from its old leaf, which goes on offering what it offered.
    fn detach_scripted(&mut self, scripts: &mut Scripts, flow: FlowId, from: LaneId) {
        let lane = &self.lanes[from.index()];
        let head = scripts.heads[flow.index()];
        if let Some(script) = &mut self.leaves[lane.leaf as usize].script {
            let weight = self.flows[flow.index()].account.weight().get();
            let sight = sight(&head, &Metadata::UNKNOWN, scripts.clock, weight);
            let cx = &mut Cx { ticks: &mut self.ticks, timers: &mut scripts.timers };
            script.scheduler.depart(&mut scripts.flows, &at_of(flow.0, lane), &sight, cx);
        }
        self.release_empty(scripts, from);
    }

    /// Lets a flow that came from the leaf `old` join its new leaf, and then tells the nodes above the old one.
    fn join_scripted(&mut self, scripts: &mut Scripts, flow: FlowId, old: u32) {
        let new = self.lanes[self.flows[flow.index()].lane as usize].leaf;
        let queued = scripts.heads[flow.index()].queued;
        // The new place first: nodes above both leaves then see no gap.
        self.enter_scripted(scripts, flow, &Metadata::UNKNOWN, Joins::Moving);
        self.offer_scripted(scripts, new);
        self.ascend(scripts, new, &Event::Joined { queued }, FRESH);
        self.offer_native(old);
        self.offer_scripted(scripts, old);
        self.ascend(scripts, old, &Event::Left { queued }, MOVED);
    }

    /// Brings a native leaf up to date with the heads of its lanes.
    fn offer_native(&mut self, leaf: u32) {
        let leaf = &mut self.leaves[leaf as usize];
        if leaf.script.is_some() {
            return;
        }
        for slot in 0..leaf.lanes.len() {
            let id = leaf.lanes[slot];
            let lane = &self.lanes[id as usize];
            leaf.set_head(slot, id, lane.pifo.peek().filter(|_| !lane.parked));
        }
    }

    /// Takes a parked lane without flows to send out of the shaping queue.
    fn release_empty(&mut self, scripts: &mut Scripts, from: LaneId) {
        let lane = &mut self.lanes[from.index()];
        let slot = lane.slot as usize;
        let script = &mut self.leaves[lane.leaf as usize].script;
        let empty = match script {
            Some(script) => script.scheduler.is_empty(slot),
            None => lane.pifo.is_empty(),
        };
        if lane.parked && empty {
            lane.parked = false;
            self.shaping.remove(from.0);
            if let Some(script) = script {
                script.scheduler.set_parked(&mut scripts.flows, slot, false);
            }
        }
    }
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

/// The circumstances of an event of a flow.
pub(super) fn sight<'a>(head: &'a FlowHead, packet: &'a Metadata, now: Instant, weight: u32) -> Sight<'a> {
    let FlowHead { packet: first, arrival, queued } = head;
    Sight { now, head: first, packet, queued: *queued, arrival: *arrival, weight: weight.into() }
}
