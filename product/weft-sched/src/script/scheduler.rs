//! The order of children under a user-defined algorithm: its programs, and the references that they rank.

mod order;
mod rebase;

use std::sync::Arc;

use weft_rank::{Algorithm, Effects, Eligibility, Execute, Inputs, Metadata, Part, Rank, Reading};
use weft_units::{Bytes, Instant, Nanos};

use super::children::Children;
use super::heaps::{EMPTY, Heaps};
use super::timers::{Alarm, Owner, Timers};
use crate::program::Custom;
use crate::traffic::Traffic;

/// The circumstances of an event, as far as programs may see them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    pub(crate) now: Instant,
    /// The next packet of the child; in `begin`, `sent` and `idle` the one of the turn.
    pub(crate) head: &'a Metadata,
    /// The packet at hand.
    pub(crate) packet: &'a Metadata,
    /// The packets that wait in the child.
    pub(crate) queued: Traffic,
    /// The number of arrival of the next packet.
    pub(crate) arrival: u64,
    /// The weight of a flow.
    pub(crate) weight: u64,
}

/// The end of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TurnEnd {
    /// The bytes that are charged.
    pub(crate) bytes: Bytes,
    /// Whether the child has more to send.
    pub(crate) more: bool,
}

/// The place of a child: its owner of timers, its number among the children, and its lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) owner: Owner,
    pub(crate) id: u32,
    pub(crate) lane: usize,
}

/// The orders of a lane. An inner node has one lane.
#[derive(Clone, Debug)]
struct Lane {
    ready: u32,
    early: u32,
    /// The active children, also those in no order.
    active: u32,
    parked: bool,
}

/// An algorithm at work at a node or a leaf.
pub(crate) struct Scheduler {
    pub(crate) custom: Arc<Custom>,
    pub(crate) state: Box<[u64]>,
    /// The parameters of all children one after the other; of a leaf, those of the flow at hand.
    parameters: Box<[u64]>,
    is_leaf: bool,
    /// The parameter that is a flow's weight.
    weight_at: Option<usize>,
    /// The sum of the weights of all children, idle ones included: what a virtual time of the link as a whole needs.
    weights: u64,
    /// The fields of the node that are virtual times.
    virtual_times: Box<[u8]>,
    /// The child in service, and the rank that won its turn.
    turn: Option<u32>,
    turn_rank: Rank,
    /// The order of the active children by the field whose least value programs read.
    lowest: u32,
    lanes: Box<[Lane]>,
    /// The lanes by their first ready reference, and by their first early one.
    ready: Heaps,
    first_ready: u32,
    early: Heaps,
    first_early: u32,
}

impl core::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { custom, state, weights, turn, .. } = self;
        f.debug_struct("Scheduler")
            .field("custom", custom)
            .field("state", state)
            .field("weights", weights)
            .field("turn", turn)
            .finish_non_exhaustive()
    }
}

impl Scheduler {
    /// The algorithm at an inner node.
    pub(crate) fn of_node(custom: &Arc<Custom>) -> Self {
        let mut this = Self::new(custom, 1, custom.parameters.concat().into(), false);
        for list in &custom.parameters {
            this.count_in(this.weight_at.and_then(|at| list.get(at)).copied().unwrap_or(1));
        }
        this
    }

    /// The algorithm in a leaf with `lanes` lanes.
    pub(crate) fn of_leaf(custom: &Arc<Custom>, lanes: usize) -> Self {
        let parameters = custom.parameters.first().cloned().unwrap_or_default();
        Self::new(custom, lanes, parameters.into(), true)
    }

    fn new(custom: &Arc<Custom>, lanes: usize, parameters: Box<[u64]>, is_leaf: bool) -> Self {
        let lane = Lane { ready: EMPTY, early: EMPTY, active: 0, parked: false };
        Self {
            state: custom.algorithm.node.iter().map(|field| field.initial).collect(),
            weight_at: custom.weight_parameter(),
            custom: custom.clone(),
            parameters,
            is_leaf,
            weights: 0,
            virtual_times: virtual_times(&custom.algorithm),
            turn: None,
            turn_rank: Rank::default(),
            lowest: EMPTY,
            lanes: vec![lane; lanes].into(),
            ready: Heaps::new(lanes),
            first_ready: EMPTY,
            early: Heaps::new(lanes),
            first_early: EMPTY,
        }
    }

    /// The child in service.
    pub(crate) fn turn(&self) -> Option<u32> {
        self.turn
    }

    /// Ends the turn in service without any effect.
    pub(crate) fn abandon(&mut self) {
        self.turn = None;
    }

    /// Runs the program of a part, if there is one.
    fn run(
        &mut self,
        part: Part,
        children: &mut Children,
        at: &At,
        sight: &Sight<'_>,
        end: TurnEnd,
    ) -> Effects {
        let algorithm = &self.custom.algorithm;
        if algorithm.parts.get(part).is_none() {
            return Effects::NONE;
        }
        let inputs = Inputs {
            now: sight.now,
            bytes: end.bytes,
            more: end.more,
            rank: self.turn_rank,
            weights: self.weights,
            lowest: children.lowest.first_except(self.lowest, at.id).map_or(u64::MAX, |(rank, _)| rank.first),
            queued_bytes: sight.queued.bytes,
            queued_packets: sight.queued.packets,
            head: *sight.head,
            packet: *sight.packet,
        };
        let count = algorithm.parameters.len();
        let first = if self.is_leaf { 0 } else { at.id as usize * count };
        if let (true, Some(place)) = (self.is_leaf, self.weight_at.and_then(|at| self.parameters.get_mut(at)))
        {
            *place = sight.weight;
        }
        let parameters = self.parameters.get(first..first + count).unwrap_or_default();
        let child = &mut children.state_mut(at.id)[..algorithm.child.len()];
        let effects = self.custom.run(part, &inputs, parameters, &mut self.state, child);
        self.keep_lowest(children, at.id);
        effects
    }

    /// Keeps the order by the field whose least value programs read.
    pub(super) fn keep_lowest(&mut self, children: &mut Children, id: u32) {
        let Some(field) = self.custom.algorithm.aggregates.lowest else { return };
        let value = children.state(id)[usize::from(field)];
        let kept = children.lowest.contains(id);
        if children.references[id as usize].active && !(kept && children.lowest.key(id).0.first == value) {
            children.lowest.remove(&mut self.lowest, id);
            children.lowest.insert(&mut self.lowest, id, (Rank::new(value, 0), id.into()));
        }
    }

    /// Makes an idle child active, which has something to send again. A packet arrived for it unless it `joins` from
    /// elsewhere.
    pub(crate) fn join(
        &mut self,
        children: &mut Children,
        at: &At,
        sight: &Sight<'_>,
        joins: Joins,
        cx: &mut Cx<'_>,
    ) {
        let reference = &mut children.references[at.id as usize];
        reference.active = true;
        self.lanes[at.lane].active += 1;
        let silence = sight.now.saturating_since(reference.idle_since);
        self.forget(children, at, silence);
        self.keep_lowest(children, at.id);
        self.run(Part::Active, children, at, sight, TurnEnd::NONE);
        if joins == Joins::Arriving {
            self.run(Part::Arrives, children, at, sight, TurnEnd::NONE);
        }
        self.rank(children, at, sight, Tie::New, cx);
    }

    /// Gives the fields their first contents that the silence of a child lets be forgotten.
    fn forget(&mut self, children: &mut Children, at: &At, silence: Nanos) {
        let fields = self.custom.algorithm.child.iter().zip(children.state_mut(at.id));
        for (field, word) in fields.filter(|(field, _)| field.forget.is_some_and(|after| silence >= after)) {
            *word = field.initial;
        }
    }

    /// Gives a child its first contents.
    pub(crate) fn make_new(&self, children: &mut Children, id: u32) {
        children.restart(id);
        for (field, word) in self.custom.algorithm.child.iter().zip(children.state_mut(id)) {
            *word = field.initial;
        }
    }

    /// Tells that a packet arrived for an active child.
    pub(crate) fn arrive(&mut self, children: &mut Children, at: &At, sight: &Sight<'_>, cx: &mut Cx<'_>) {
        let effects = self.run(Part::Arrives, children, at, sight, TurnEnd::NONE);
        // The end of its turn ranks a child in service.
        if effects.reranks() && self.turn != Some(at.id) {
            self.rank(children, at, sight, Tie::Kept, cx);
        }
    }

    /// Begins the turn of a child.
    pub(crate) fn begin(&mut self, children: &mut Children, at: &At, sight: &Sight<'_>) {
        self.turn = Some(at.id);
        self.turn_rank = children.references[at.id as usize].rank;
        self.run(Part::Begin, children, at, sight, TurnEnd::NONE);
    }

    /// Ends the turn of a child. [`Self::rank`] or [`Self::leave`] must follow.
    pub(crate) fn sent(&mut self, children: &mut Children, at: &At, sight: &Sight<'_>, end: TurnEnd) {
        self.run(Part::Sent, children, at, sight, end);
        self.turn = None;
    }

    /// Makes an active child idle.
    pub(crate) fn leave(&mut self, children: &mut Children, at: &At, sight: &Sight<'_>, cx: &mut Cx<'_>) {
        self.run(Part::Idle, children, at, sight, TurnEnd::NONE);
        self.depart(children, at, sight, cx);
    }

    /// Removes an active child without a program.
    pub(crate) fn depart(&mut self, children: &mut Children, at: &At, sight: &Sight<'_>, cx: &mut Cx<'_>) {
        children.lowest.remove(&mut self.lowest, at.id);
        let reference = &mut children.references[at.id as usize];
        (reference.active, reference.idle_since) = (false, sight.now);
        self.lanes[at.lane].active -= 1;
        cx.timers.cancel(at.owner);
        self.place(children, at);
    }

    /// Runs the program for a fetched packet of a child.
    pub(crate) fn fetched(&mut self, children: &mut Children, id: u32, sight: &Sight<'_>) -> Effects {
        let at = At { owner: Owner::Flow(id), id, lane: 0 };
        self.run(Part::Fetched, children, &at, sight, TurnEnd::NONE)
    }

    /// Takes over an active child, which has its state and rank already, with its pending times.
    pub(crate) fn adopt(
        &mut self,
        children: &mut Children,
        at: &At,
        timers: &mut Timers,
        (old, owner): (&Timers, Owner),
    ) {
        self.lanes[at.lane].active += 1;
        self.keep_lowest(children, at.id);
        for alarm in [Alarm::From, Alarm::Until] {
            if let Some((time, tie)) = old.pending(owner, alarm) {
                timers.set(at.owner, alarm, time, tie);
            }
        }
        self.place(children, at);
    }

    /// Counts a flow of a weight among the children of a leaf.
    pub(crate) fn count_in(&mut self, weight: u64) {
        self.weights = self.weights.saturating_add(if self.weight_at.is_some() { weight } else { 1 });
    }

    /// Counts a flow of a weight out.
    pub(crate) fn count_out(&mut self, weight: u64) {
        self.weights = self.weights.saturating_sub(if self.weight_at.is_some() { weight } else { 1 });
    }

    /// Ranks an active child.
    pub(crate) fn rank(
        &mut self,
        children: &mut Children,
        at: &At,
        sight: &Sight<'_>,
        tie: Tie,
        cx: &mut Cx<'_>,
    ) {
        let effects = self.run(Part::Rank, children, at, sight, TurnEnd::NONE);
        cx.timers.cancel(at.owner);
        let clock = self.clock().unwrap_or(u64::MAX);
        let reference = &mut children.references[at.id as usize];
        if tie == Tie::New {
            *cx.ticks += 1;
            reference.tie = *cx.ticks;
        }
        // Shapers and droppers keep the order of arrival.
        reference.rank = effects.rank().unwrap_or(Rank::new(sight.arrival, 0));
        (reference.waits, reference.from) = (false, 0);
        match effects.from() {
            Some(Eligibility::Time(time)) if time > sight.now => {
                reference.waits = true;
                cx.timers.set(at.owner, Alarm::From, time, reference.tie);
            }
            Some(Eligibility::VirtualTime(from)) if clock < from => reference.from = from,
            _ => {}
        }
        match effects.until() {
            Some(until) if until.time <= sight.now => reference.rank = until.rank,
            Some(until) => {
                reference.until = until.rank;
                cx.timers.set(at.owner, Alarm::Until, until.time, reference.tie);
            }
            None => {}
        }
        self.place(children, at);
    }

    /// Handles a time of a reference that has come.
    pub(crate) fn alarm(&mut self, children: &mut Children, at: &At, alarm: Alarm) {
        let reference = &mut children.references[at.id as usize];
        match alarm {
            Alarm::From => reference.waits = false,
            Alarm::Until => reference.rank = reference.until,
        }
        self.place(children, at);
    }
}

/// The fields of a node that are virtual times.
fn virtual_times(algorithm: &Algorithm) -> Box<[u8]> {
    let fields = algorithm.node.iter().zip(0..).filter(|(field, _)| field.reading == Reading::VirtualTime);
    fields.map(|(_, at)| at).collect()
}

impl TurnEnd {
    /// The end of no turn.
    const NONE: Self = Self { bytes: Bytes::ZERO, more: false };
}

/// The way in which an idle child becomes active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Joins {
    /// A packet arrived for it.
    Arriving,
    /// It comes from elsewhere with what it has.
    Moving,
}

/// The order of a reference among equal ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tie {
    /// It goes in now.
    New,
    /// It keeps its place.
    Kept,
}

/// The parts of a tree that ranking needs.
pub(crate) struct Cx<'a> {
    pub(crate) ticks: &'a mut u64,
    pub(crate) timers: &'a mut Timers,
}
