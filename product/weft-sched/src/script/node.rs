//! An inner node under a user-defined algorithm.

use std::sync::Arc;

use weft_rank::Metadata;
use weft_units::{Bytes, Instant, Packets};

use super::children::{Children, Reference};
use super::scheduler::{At, Cx, Joins, Scheduler, Sight, Tie, TurnEnd};
use super::timers::{Alarm, Owner, Timers};
use crate::program::{Custom, HeadUse};
use crate::winner::NO_VALUE as NO_LEAF;
use weft_units::Counted;

/// The first packet below a child.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    /// The flow and the number of arrival: equal numbers, equal packets.
    pub(crate) id: (u32, u64),
    pub(crate) packet: &'a Metadata,
}

impl<'a> Head<'a> {
    /// The first packet of a flow.
    pub(crate) fn of(flow: u32, head: &'a FlowHead) -> Self {
        Self { id: (flow, head.arrival), packet: &head.packet }
    }
}

/// The first packet of a flow, and what waits in the flow, as far as it was reported.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowHead {
    pub(crate) packet: Metadata,
    pub(crate) arrival: u64,
    pub(crate) queued: Counted,
}

impl FlowHead {
    /// A first packet whose number of arrival is not known, and what waits.
    pub(crate) fn of((packet, queued): (Metadata, Counted)) -> Self {
        Self { packet, arrival: 0, queued }
    }
}

/// An event below a node, as it comes up to the root.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event<'a> {
    /// A packet or a doorbell reached a flow.
    Arrived {
        /// Whether the flow was idle.
        activated: bool,
        packet: &'a Metadata,
        /// The packet, if its length is known.
        queued: Counted,
    },
    /// A turn ended.
    Sent {
        /// The bytes that are charged.
        share: Bytes,
        /// The packets that left the flow.
        taken: Counted,
        /// Whether the flow has nothing left.
        idle: bool,
        /// The packet of the turn.
        packet: &'a Metadata,
    },
    /// A backlogged flow came from elsewhere, with what it has.
    Joined { queued: Counted },
    /// A backlogged flow went elsewhere.
    Left { queued: Counted },
    /// A lane or a child was parked or returned from the shaping queue, or the order below changed.
    Reordered,
}

/// The subtree of a child, as its node has it.
#[derive(Clone, Debug)]
struct Below {
    /// The leaf that it leads to, or [`NO_LEAF`].
    leaf: u32,
    /// The backlogged flows.
    backlog: u32,
    queued: Counted,
    /// The head that it was ranked with.
    head: Option<(u32, u64)>,
}

/// An inner node under a user-defined algorithm.
#[derive(Debug)]
pub(crate) struct ScriptNode {
    pub(crate) scheduler: Scheduler,
    pub(crate) children: Children,
    below: Box<[Below]>,
    /// The number of its first child among the children of all nodes with an algorithm.
    first_child: u32,
}

impl ScriptNode {
    pub(crate) fn new(custom: &Arc<Custom>, count: usize, first_child: u32) -> Self {
        let algorithm = &custom.algorithm;
        let scheduler = Scheduler::of_node(custom);
        let mut children = Children::new(count, algorithm.child.len(), algorithm.aggregates.lowest.is_some());
        for id in 0..count as u32 {
            scheduler.make_new(&mut children, id);
            children.references[id as usize].withheld = true;
        }
        let below = Below { leaf: NO_LEAF, backlog: 0, queued: Counted::default(), head: None };
        Self { scheduler, children, below: vec![below; count].into(), first_child }
    }

    /// The leaf that the node leads to, or [`NO_LEAF`].
    #[inline]
    pub(crate) fn offer(&self) -> u32 {
        self.scheduler.first().map_or(NO_LEAF, |(_, slot)| self.below[slot as usize].leaf)
    }

    /// The leaf that the child at `slot` leads to, or [`NO_LEAF`].
    pub(crate) fn leads_to(&self, slot: usize) -> u32 {
        self.below[slot].leaf
    }

    /// The reference of the child at `slot`, if it has something to send, with the owner of its times.
    pub(crate) fn reference(&self, slot: u32) -> Option<(&Reference, Owner)> {
        let reference = self.children.references.get(slot as usize).filter(|reference| reference.active)?;
        Some((reference, self.at(slot).owner))
    }

    fn at(&self, slot: u32) -> At {
        At { owner: Owner::Child(self.first_child + slot), id: slot, lane: 0 }
    }

    fn follows(&self) -> bool {
        self.scheduler.custom.head == HeadUse::Followed
    }

    /// The circumstances of an event of the child at `slot`.
    fn sight<'a>(
        &self,
        slot: u32,
        now: Instant,
        head: Option<&'a Metadata>,
        packet: Option<&'a Metadata>,
    ) -> Sight<'a> {
        let seen =
            |packet: Option<&'a Metadata>| packet.filter(|_| self.follows()).unwrap_or(&Metadata::UNKNOWN);
        let queued = self.below[slot as usize].queued;
        Sight { now, head: seen(head), packet: seen(packet), queued, arrival: 0, weight: 0 }
    }

    /// Begins a turn of the child at `slot`.
    pub(crate) fn begin(&mut self, slot: u32, now: Instant, packet: &Metadata) {
        let (at, sight) = (self.at(slot), self.sight(slot, now, Some(packet), None));
        self.scheduler.begin(&mut self.children, &at, &sight);
    }

    /// Handles an event below the child at `slot`, which now leads to `leaf` and begins with `head`. Returns the
    /// number of rebases.
    pub(crate) fn pass(
        &mut self,
        slot: u32,
        leaf: u32,
        head: Option<Head<'_>>,
        event: &Event<'_>,
        now: Instant,
        cx: &mut Cx<'_>,
    ) -> u64 {
        let id = slot as usize;
        self.count(id, event);
        self.below[id].leaf = leaf;
        self.children.references[id].withheld = leaf == NO_LEAF;
        let packet = if let Event::Arrived { packet, .. } = event { Some(*packet) } else { None };
        let (at, sight) = (self.at(slot), self.sight(slot, now, head.map(|head| head.packet), packet));
        let ranked = self.apply(&at, event, &sight, cx);
        self.follow(&at, head, ranked, &sight, cx);
        u64::from(self.settle())
    }

    /// Runs the programs of an event, and puts the child where it belongs. Returns whether the child was ranked with what it
    /// begins with.
    fn apply(&mut self, at: &At, event: &Event<'_>, sight: &Sight<'_>, cx: &mut Cx<'_>) -> bool {
        let was_active = self.children.references[at.id as usize].active;
        let is_active = self.below[at.id as usize].backlog > 0;
        let follows = self.follows();
        let (scheduler, children) = (&mut self.scheduler, &mut self.children);
        match event {
            Event::Sent { share, packet, .. } => {
                let head = if follows { packet } else { &Metadata::UNKNOWN };
                let ended = Sight { head, ..*sight };
                scheduler.sent(children, at, &ended, TurnEnd { bytes: *share, more: is_active });
                if is_active {
                    scheduler.rank(children, at, sight, Tie::New, cx);
                } else {
                    scheduler.leave(children, at, &ended, cx);
                }
            }
            _ if is_active && !was_active => {
                let arrived = matches!(event, Event::Arrived { .. });
                let joins = if arrived { Joins::Arriving } else { Joins::Moving };
                scheduler.join(children, at, sight, joins, cx);
            }
            _ if was_active && !is_active => scheduler.leave(children, at, sight, cx),
            Event::Arrived { .. } => {
                scheduler.arrive(children, at, sight, cx);
                scheduler.place(children, at);
                return false;
            }
            _ => {
                scheduler.place(children, at);
                return false;
            }
        }
        is_active
    }

    /// Ranks a child anew whose head changed since it was ranked.
    fn follow(&mut self, at: &At, head: Option<Head<'_>>, ranked: bool, sight: &Sight<'_>, cx: &mut Cx<'_>) {
        if !self.follows() || !self.children.references[at.id as usize].active {
            return;
        }
        let id = head.map(|head| head.id);
        let known = &mut self.below[at.id as usize].head;
        if ranked {
            *known = id;
        } else if id.is_some() && *known != id && self.scheduler.turn() != Some(at.id) {
            // The end of its turn ranks a child in service.
            *known = id;
            self.scheduler.rank(&mut self.children, at, sight, Tie::Kept, cx);
        }
    }

    /// Whether it has the algorithm that `old` has.
    pub(crate) fn continues(&self, old: &Self) -> bool {
        self.scheduler.custom.continues(&old.scheduler.custom)
    }

    /// Takes over the state of the node itself.
    pub(crate) fn carry_state(&mut self, old: &Self) {
        self.scheduler.state.copy_from_slice(&old.scheduler.state);
    }

    /// Counts a backlogged flow below the child at `slot`.
    pub(crate) fn count_flow(&mut self, slot: usize, queued: Counted) {
        self.below[slot].backlog += 1;
        self.below[slot].queued += queued;
    }

    /// Takes over the child at `slot`, which leads to `leaf`, from the child at a slot of the node before a change.
    pub(crate) fn carry(
        &mut self,
        slot: u32,
        leaf: u32,
        known: Option<((&Self, u32), &Timers)>,
        now: Instant,
        timers: &mut Timers,
    ) {
        let id = slot as usize;
        self.below[id].leaf = leaf;
        if let Some(((old, before), old_timers)) = known {
            self.children.carry(slot, &old.children, before);
            self.below[id].head = old.below[before as usize].head;
            self.children.references[id].withheld = leaf == NO_LEAF;
            let active = self.below[id].backlog > 0;
            if self.children.references[id].active && active {
                let (at, owner) = (self.at(slot), old.at(before).owner);
                self.scheduler.adopt(&mut self.children, &at, timers, (old_timers, owner));
            } else if self.children.references[id].active {
                self.children.end(slot, now);
            }
        }
        self.children.references[id].withheld = leaf == NO_LEAF;
    }

    /// Lets the child at `slot` begin that has something to send since a change, after all children were carried.
    pub(crate) fn complete(&mut self, slot: u32, head: Option<Head<'_>>, now: Instant, cx: &mut Cx<'_>) {
        let (at, sight) = (self.at(slot), self.sight(slot, now, head.map(|head| head.packet), None));
        let joins = self.below[slot as usize].backlog > 0 && !self.children.references[slot as usize].active;
        if joins {
            self.scheduler.join(&mut self.children, &at, &sight, Joins::Moving, cx);
        }
        self.follow(&at, head, joins, &sight, cx);
    }

    /// Brings eligibility up to date. Returns whether virtual time was rebased.
    pub(crate) fn settle(&mut self) -> bool {
        self.scheduler.settle(&mut self.children);
        let late = self.scheduler.is_late();
        if late {
            let first = self.first_child;
            let at = |id| At { owner: Owner::Child(first + id), id, lane: 0 };
            self.scheduler.rebase(&mut self.children, (0..self.below.len() as u32).map(at));
        }
        late
    }

    /// Whether counts, references and orders agree.
    pub(crate) fn is_valid(&self) -> bool {
        let child = |(below, reference): (&Below, &Reference)| {
            reference.active == (below.backlog > 0) && reference.withheld == (below.leaf == NO_LEAF)
        };
        self.below.iter().zip(&self.children.references).all(child)
            && (0..self.below.len() as u32).all(|id| self.children.is_placed_right(id))
            && self.scheduler.is_valid(&self.children)
    }

    fn count(&mut self, slot: usize, event: &Event<'_>) {
        let below = &mut self.below[slot];
        match event {
            Event::Arrived { activated, queued, .. } => {
                below.backlog += u32::from(*activated);
                below.queued += *queued;
            }
            Event::Sent { taken, idle, .. } => {
                below.backlog -= u32::from(*idle);
                below.queued -= *taken;
            }
            Event::Joined { queued } => {
                below.backlog += 1;
                below.queued += *queued;
            }
            Event::Left { queued } => {
                below.backlog -= 1;
                below.queued -= *queued;
            }
            Event::Reordered => {}
        }
    }

    /// Handles a time of the child at `slot` that has come.
    pub(crate) fn alarm(&mut self, slot: u32, alarm: Alarm) {
        let at = self.at(slot);
        self.scheduler.alarm(&mut self.children, &at, alarm);
        self.scheduler.settle(&mut self.children);
    }
}

/// A number of packets and their bytes, of a packet whose length is known.
pub(crate) fn one(len: Option<Bytes>) -> Counted {
    len.map_or(Counted::default(), |bytes| Counted { packets: Packets(1), bytes })
}
