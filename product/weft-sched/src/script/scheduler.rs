//! The order of children under a user-defined algorithm: its programs, and the references that they rank.
//!
//! The orders are those of lanes by their first references, and of the references of each lane; references that are held for a
//! virtual time have separate ones. Virtual times return towards zero long before their end, as [`crate::virtual_time`] does it
//! for the built-in disciplines.

use std::sync::Arc;

use weft_rank::{Algorithm, Effects, Eligibility, Execute, Inputs, Metadata, Part, Rank, RankWord, Reading};
use weft_units::{Bytes, Instant, Nanos};

use super::children::{Children, Place};
use super::heaps::{EMPTY, Heaps, Key};
use super::timers::{Alarm, Owner, Timers};
use crate::program::Custom;
use crate::virtual_time::{REBASE_AT, rebase_base};
use weft_units::Counted;

/// The circumstances of an event, as far as programs may see them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    pub(crate) now: Instant,
    /// The next packet of the child; in `begin`, `sent` and `idle` the one of the turn.
    pub(crate) head: &'a Metadata,
    /// The packet at hand.
    pub(crate) packet: &'a Metadata,
    /// The packets that wait in the child.
    pub(crate) queued: Counted,
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

impl TurnEnd {
    /// The end of no turn.
    const NONE: Self = Self { bytes: Bytes::ZERO, more: false };
}

/// The place of a child: its owner of timers, its number among the children, and its lane.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) owner: Owner,
    pub(crate) id: u32,
    pub(crate) lane: usize,
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

/// The orders.
impl Scheduler {
    /// The lane and the child that are served next.
    #[inline]
    pub(crate) fn first(&self) -> Option<(usize, u32)> {
        let lane = self.lanes.get(self.first_ready as usize)?;
        Some((self.first_ready as usize, lane.ready))
    }

    /// The first child of a lane that is not parked.
    pub(crate) fn first_of(&self, lane: usize) -> Option<u32> {
        self.lanes.get(lane).map(|lane| lane.ready).filter(|id| *id != EMPTY)
    }

    /// Moves a child to another lane, with its rank.
    pub(crate) fn relocate(&mut self, children: &mut Children, at: &At, lane: usize) {
        if children.references[at.id as usize].active {
            self.take_out(children, at);
            self.lanes[at.lane].active -= 1;
            self.lanes[lane].active += 1;
            self.place(children, &At { lane, ..*at });
        }
    }

    /// Takes a child out of the orders, until it is placed again.
    pub(crate) fn take_out(&mut self, children: &mut Children, at: &At) {
        let reference = &mut children.references[at.id as usize];
        let lane = &mut self.lanes[at.lane];
        match core::mem::replace(&mut reference.place, Place::Out) {
            Place::Out => {}
            Place::Ready => children.order.remove(&mut lane.ready, at.id),
            Place::Early => children.order.remove(&mut lane.early, at.id),
        }
        self.refer(children, at.lane);
    }

    /// Whether no child of a lane has anything to send.
    pub(crate) fn is_empty(&self, lane: usize) -> bool {
        self.lanes[lane].active == 0
    }

    /// Puts a child into the order of its lane whatever it waits for: its rank ends.
    pub(crate) fn unite(&mut self, children: &mut Children, at: &At) {
        let reference = &mut children.references[at.id as usize];
        (reference.waits, reference.withheld, reference.from) = (false, false, 0);
        self.place(children, at);
    }

    /// Removes the first child of a lane from the lane's order.
    pub(crate) fn pop(&mut self, children: &mut Children, lane: usize) -> Option<u32> {
        children.order.pop(&mut self.lanes.get_mut(lane)?.ready).map(|(id, _)| id)
    }

    /// Whether the orders of all lanes agree with each other and with `children`.
    pub(crate) fn is_valid(&self, children: &Children) -> bool {
        let key = |root: u32| children.order.first(root).map(|(_, key)| key);
        let lane = |(at, lane): (usize, &Lane)| {
            let shown = |heaps: &Heaps, root: u32| {
                let expected = key(root).filter(|_| !lane.parked);
                let found = heaps.contains(at as u32).then(|| heaps.key(at as u32));
                expected == found
            };
            let valid = |root| children.order.is_valid(root, &mut |_| {});
            valid(lane.ready)
                && valid(lane.early)
                && shown(&self.ready, lane.ready)
                && shown(&self.early, lane.early)
        };
        let lanes = self.lanes.iter().enumerate().all(lane);
        let settled = self.first_ready != EMPTY || self.first_early == EMPTY;
        lanes && (settled || self.turn.is_some())
    }

    /// Marks a lane as parked or not, before its children are there.
    pub(crate) fn mark_parked(&mut self, lane: usize, parked: bool) {
        self.lanes[lane].parked = parked;
    }

    /// The virtual time that `from` is compared with.
    fn clock(&self) -> Option<u64> {
        let field = self.custom.algorithm.aggregates.clock?;
        self.state.get(usize::from(field)).copied()
    }

    /// Puts a reference where it belongs.
    pub(crate) fn place(&mut self, children: &mut Children, at: &At) {
        self.take_out(children, at);
        let lane = &mut self.lanes[at.lane];
        let reference = &mut children.references[at.id as usize];
        if reference.active && !reference.waits && !reference.withheld {
            if reference.from > 0 {
                reference.place = Place::Early;
                children.order.insert(&mut lane.early, at.id, (Rank::new(reference.from, 0), reference.tie));
            } else {
                reference.place = Place::Ready;
                children.order.insert(&mut lane.ready, at.id, (reference.rank, reference.tie));
            }
        }
        self.refer(children, at.lane);
    }

    /// Brings the orders of the lanes up to date with a lane.
    fn refer(&mut self, children: &Children, at: usize) {
        let lane = &self.lanes[at];
        let key = |root: u32| children.order.first(root).filter(|_| !lane.parked).map(|(_, key)| key);
        let (ready, early) = (key(lane.ready), key(lane.early));
        set(&mut self.ready, &mut self.first_ready, at as u32, ready);
        set(&mut self.early, &mut self.first_early, at as u32, early);
    }

    /// Parks a lane, or returns it from the shaping queue.
    pub(crate) fn set_parked(&mut self, children: &mut Children, lane: usize, parked: bool) {
        self.lanes[lane].parked = parked;
        self.refer(children, lane);
        self.settle(children);
    }

    /// Makes the references eligible whose virtual time has come. If none is eligible, virtual time jumps to the first.
    pub(crate) fn settle(&mut self, children: &mut Children) {
        let Some(field) = self.custom.algorithm.aggregates.clock.map(usize::from) else { return };
        loop {
            let clock = self.clock().unwrap_or(u64::MAX);
            while let Some((at, _)) =
                self.early.first(self.first_early).filter(|(_, (from, _))| from.first <= clock)
            {
                self.promote(children, at as usize);
            }
            let first = self.early.first(self.first_early);
            match (first, self.state.get_mut(field)) {
                (Some((_, (from, _))), Some(word)) if self.first_ready == EMPTY => *word = from.first,
                _ => return,
            }
        }
    }

    /// Makes the first early reference of a lane ready.
    fn promote(&mut self, children: &mut Children, at: usize) {
        let lane = &mut self.lanes[at];
        if let Some((id, _)) = children.order.pop(&mut lane.early) {
            let reference = &mut children.references[id as usize];
            (reference.place, reference.from) = (Place::Ready, 0);
            children.order.insert(&mut lane.ready, id, (reference.rank, reference.tie));
        }
        self.refer(children, at);
    }
}

/// Sets or removes the key of `at` in a heap of `heaps`.
fn set(heaps: &mut Heaps, root: &mut u32, at: u32, key: Option<Key>) {
    if key.is_some() && heaps.contains(at) && Some(heaps.key(at)) == key {
        return;
    }
    heaps.remove(root, at);
    if let Some(key) = key {
        heaps.insert(root, at, key);
    }
}

/// The return of virtual times towards zero.
impl Scheduler {
    /// Whether a virtual time of the node has come near its end.
    #[inline]
    pub(crate) fn is_late(&self) -> bool {
        self.virtual_times.iter().any(|field| self.state[usize::from(*field)] >= REBASE_AT)
    }

    /// Subtracts one number from all virtual times: of the node, of the children `all`, and in ranks. The order stays, also
    /// that of references up to `2^61` units behind. Linear in the children.
    #[cold]
    pub(crate) fn rebase(&mut self, children: &mut Children, all: impl Iterator<Item = At> + Clone) {
        let times = self.virtual_times.iter().map(|field| self.state[usize::from(*field)]);
        let now = times.min().unwrap_or(0);
        let oldest = all.clone().filter_map(|at| self.oldest(children, at.id)).min();
        let base = rebase_base(now, oldest.unwrap_or(now));
        for at in all.clone() {
            self.take_out(children, &at);
            children.lowest.remove(&mut self.lowest, at.id);
        }
        for field in &self.virtual_times {
            let word = &mut self.state[usize::from(*field)];
            *word = word.saturating_sub(base);
        }
        self.turn_rank = self.rebased(self.turn_rank, base);
        for at in all {
            let custom = &self.custom;
            for (field, word) in custom.algorithm.child.iter().zip(children.state_mut(at.id)) {
                if field.reading == Reading::VirtualTime {
                    *word = word.saturating_sub(base);
                }
            }
            let reference = &mut children.references[at.id as usize];
            reference.rank = self.rebased(reference.rank, base);
            reference.until = self.rebased(reference.until, base);
            reference.from = reference.from.saturating_sub(base);
            self.keep_lowest(children, at.id);
            self.place(children, &at);
        }
    }

    /// The oldest virtual time of an active child.
    fn oldest(&self, children: &Children, id: u32) -> Option<u64> {
        let reference = children.references.get(id as usize).filter(|reference| reference.active)?;
        let fields = self.custom.algorithm.child.iter().zip(children.state(id));
        let times = fields.filter(|(field, _)| field.reading == Reading::VirtualTime).map(|(_, word)| *word);
        times.chain(self.virtual_rank(reference.rank)).min()
    }

    /// The component of a rank that is a virtual time.
    fn virtual_rank(&self, rank: Rank) -> Option<u64> {
        Some(match self.custom.algorithm.aggregates.virtual_rank? {
            RankWord::First => rank.first,
            RankWord::Second => rank.second,
        })
    }

    fn rebased(&self, rank: Rank, base: u64) -> Rank {
        match self.custom.algorithm.aggregates.virtual_rank {
            Some(RankWord::First) => Rank { first: rank.first.saturating_sub(base), ..rank },
            Some(RankWord::Second) => Rank { second: rank.second.saturating_sub(base), ..rank },
            None => rank,
        }
    }
}

/// The fields of a node that are virtual times.
fn virtual_times(algorithm: &Algorithm) -> Box<[u8]> {
    let fields = algorithm.node.iter().zip(0..).filter(|(field, _)| field.reading == Reading::VirtualTime);
    fields.map(|(_, at)| at).collect()
}
