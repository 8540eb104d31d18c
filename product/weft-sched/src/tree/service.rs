//! Activation, turns, parking and release: the steps of the policy tree.
//!
//! Activation ([`PolicyTree::activate`]):
//! 1. Mark the flow backlogged and push a reference to it into its lane's PIFO.
//! 2. If the lane is parked, stop: the release will find the reference.
//! 3. If the reference is the lane's new head, update the leaf. If the leaf was empty, insert it into its parent, and
//!    so on upwards (`climb`) until a node offers the same leaf as before.
//!
//! Dequeue ([`PolicyTree::next`]):
//! 1. Reinsert the lanes whose release time has passed (`release_due`).
//! 2. Take the sole lane that the root leads to, or the best lane of the leaf that it leads to.
//! 3. If a limit of the lane delays it, remove the lane from the tree, push it into the shaping queue (`park`) and
//!    repeat from 2. Each iteration parks one lane, so the loop ends.
//! 4. Otherwise advance virtual time at every level (`begin`) and return the turn. With no leaf left, return the
//!    earliest release time, or idle.
//!
//! Completion ([`PolicyTree::finish`]):
//! 1. Check the serial number; a stale turn changes nothing.
//! 2. Charge the limits of the lane, then the account of the flow. Replace the flow's reference, or remove it if the
//!    flow is idle.
//! 3. Charge every node on the path to the root and update the leaf that it leads to.
//! 4. Rebase the leaf's virtual time if it has reached its threshold. Nodes rebase themselves.
//!
//! Only bytes that were sent are charged, and only after they were sent. Parking therefore changes no account, and an
//! abandoned turn needs no undo.

use weft_rank::Metadata;
use weft_units::{Bytes, FlowId, Instant, LaneId};

use super::offers::offer_of;
use super::{Flow, FlowState, Next, PolicyTree, StaleTurn, Turn};
use crate::entry::Entry;
use crate::leaf::{Lane, LeafOrder, Offer};
use crate::limit::Limit;
use crate::node::{Leave, NO_LEAF, Return};
use crate::pifo::Pifo;
use crate::traffic::Traffic;
use crate::virtual_time;

/// The decision of [`PolicyTree::serve`].
pub(crate) enum Served {
    /// A segment of this flow was served.
    Segment(FlowId, LaneId),
    /// Nothing may be sent before this time.
    Wait(Instant),
    /// No flow is backlogged.
    Idle,
    /// The next turn is below a user-defined algorithm, and takes its steps one by one.
    Scripted,
}

/// The time from which on all limits of `lane` allow it to send.
#[inline]
pub(super) fn release_time(lane: &Lane, limits: &[Limit]) -> Instant {
    lane.limits.iter().map(|limit| limits[limit.index()].release()).max().unwrap_or(Instant::ZERO)
}

/// Charges `bytes` sent at `now` to the limits of `lane`.
#[inline]
pub(super) fn charge_limits(
    lane: &Lane,
    limits: &mut [Limit],
    all_clear: &mut Instant,
    bytes: Bytes,
    now: Instant,
) {
    for limit in &*lane.limits {
        let limit = &mut limits[limit.index()];
        limit.charge(bytes, now);
        *all_clear = (*all_clear).max(limit.release());
    }
}

/// The rank of a reference to `flow` that is inserted now, in a leaf of this order and virtual time.
#[inline]
pub(super) fn rank_of(flow: &Flow, order: LeafOrder, virtual_time: u64, arrival: u64) -> u64 {
    if order == LeafOrder::Fair { flow.account.start(virtual_time) } else { arrival }
}

impl PolicyTree {
    /// The next number of the insertion counter; also the arrival number of a packet.
    #[inline]
    pub(crate) fn tick(&mut self) -> u64 {
        self.ticks += 1;
        self.ticks
    }

    /// Marks `flow` as backlogged. Returns true when it was idle before.
    ///
    /// Has no effect on a backlogged flow, except on the flow in service. Its turn then ends as backlogged, whatever
    /// the caller of [`PolicyTree::finish`] passes, so a doorbell posted during a turn cannot be lost. An unknown flow
    /// is ignored (false).
    #[inline]
    pub fn activate(&mut self, flow: FlowId) -> bool {
        if self.is_active(flow) {
            self.posted |= self.in_service == Some(flow);
            self.arrived_unknown(flow);
            return false;
        }
        let arrival = self.tick();
        match self.lane_of(flow) {
            Some(lane) if self.is_scripted(lane) => {
                self.activate_scripted(flow, arrival, &Metadata::UNKNOWN);
                true
            }
            _ => self.activate_at(flow, arrival),
        }
    }

    /// Activates an idle flow of a leaf that is not scripted, as [`PolicyTree::activate`], with the arrival number of its first packet, which is also
    /// the order of its insertion.
    #[inline(always)]
    pub(crate) fn activate_at(&mut self, id: FlowId, arrival: u64) -> bool {
        let Some(flow) = self.flows.get_mut(id.index()) else { return false };
        if flow.state != FlowState::Idle {
            return false;
        }
        let at = flow.lane;
        let lane = &mut self.lanes[at as usize];
        flow.state = FlowState::Backlogged;
        self.backlogged += 1;
        if lane.sole {
            let was_empty = lane.pifo.is_empty();
            let rank = rank_of(flow, lane.order, lane.virtual_time, arrival);
            lane.pifo.push(Entry::new(rank, arrival, id.0));
            // A lane that is parked is not empty.
            if was_empty {
                self.climb(at, arrival, Return::Fresh);
            }
            return true;
        }
        let leaf = &mut self.leaves[lane.leaf as usize];
        let rank = rank_of(flow, leaf.order, leaf.virtual_time, arrival);
        lane.pifo.push(Entry::new(rank, arrival, id.0));
        // Only a new head changes the lane's rank in the leaf.
        let is_first = lane.pifo.peek().is_some_and(|first| first.id == id.0);
        if is_first && !lane.parked {
            let was_empty = leaf.heads.is_empty();
            leaf.heads.set(lane.slot as usize, rank, arrival, at);
            if was_empty {
                self.climb(at, arrival, Return::Fresh);
            }
        }
        true
    }

    /// Inserts the leaf of lane `id`, which was empty, into the nodes above it.
    #[inline]
    pub(super) fn climb(&mut self, id: u32, tie: u64, why: Return) {
        let lane = &self.lanes[id as usize];
        let mut offer = if lane.sole { Offer::Lane(id).number() } else { Offer::Leaf(lane.leaf).number() };
        let mut entering = true;
        for &(node, slot) in lane.path(&self.leaves) {
            let node = &mut self.nodes[node as usize].node;
            let before = node.offer();
            offer = if entering {
                node.enter(slot as usize, offer, tie, why)
            } else {
                node.lead(slot as usize, offer)
            };
            entering = before == NO_LEAF;
            if offer == before {
                return;
            }
        }
        self.first_leaf = offer;
    }

    /// Selects the flow whose turn it is at `now`. A `now` before an earlier one is safe, but may delay traffic again.
    ///
    /// A second call before [`PolicyTree::finish`] abandons the outstanding turn: nothing is charged and its flow keeps
    /// its place. [`Next::Wait`] carries the earliest release time. Nothing can be sent before it unless a flow is
    /// activated or a rate changed.
    #[inline]
    pub fn next(&mut self, now: Instant) -> Next {
        self.abandon();
        match self.peek_any(now) {
            Some(id) => self.begin(id),
            None => self.first_release().map_or(Next::Idle, Next::Wait),
        }
    }

    /// Ends the outstanding turn, if any, without a charge, as [`next`](Self::next) does.
    #[inline]
    pub fn abandon(&mut self) {
        if let (Some(flow), true) = (self.in_service.take(), self.has_scripts()) {
            self.abandon_scripted(flow);
        }
        self.posted = false;
        self.serial += 1;
    }

    /// The lane that [`next`](Self::next) would serve at `now`, without beginning its turn: virtual time stays, so a
    /// class that becomes backlogged before the turn is not placed behind it. For use between turns.
    #[inline]
    pub fn upcoming_lane(&mut self, now: Instant) -> Option<LaneId> {
        self.peek_any(now).map(LaneId)
    }

    /// As [`Self::peek`], after the times of user-defined algorithms.
    #[inline]
    pub(super) fn peek_any(&mut self, now: Instant) -> Option<u32> {
        if self.has_scripts() {
            self.release_scripted(now);
        }
        self.peek(now)
    }

    /// The lane whose turn it is at `now`. Parks lanes that a limit delays.
    #[inline(always)]
    fn peek(&mut self, now: Instant) -> Option<u32> {
        self.release_due(now);
        while let Some(id) = self.lane_offered(self.first_leaf) {
            if self.all_clear <= now {
                return Some(id);
            }
            let release = release_time(self.lanes.get(id as usize)?, &self.limits);
            if release <= now {
                return Some(id);
            }
            self.park(id, release);
        }
        None
    }

    /// Puts the first flow of `lane` into service and advances virtual time at every level.
    #[inline]
    fn begin(&mut self, lane: u32) -> Next {
        let leaf = self.lanes[lane as usize].leaf;
        if self.leaves[leaf as usize].scripted {
            self.in_service = self.begin_scripted(leaf, lane);
            let turn = |flow| Next::Turn(Turn { flow, lane: LaneId(lane), serial: self.serial });
            return self.in_service.map_or(Next::Idle, turn);
        }
        let Some(&Entry { rank, id, .. }) = self.lanes[lane as usize].pifo.peek() else { return Next::Idle };
        if self.leaves[leaf as usize].is_fair() {
            let time = self.leaf_time_mut(leaf);
            *time = rank.max(*time);
        }
        for &(node, slot) in self.lanes[lane as usize].path(&self.leaves) {
            self.nodes[node as usize].node.begin(slot as usize);
        }
        let flow = FlowId(id);
        self.in_service = Some(flow);
        Next::Turn(Turn { flow, lane: LaneId(lane), serial: self.serial })
    }

    /// Ends a turn: charges `sent` at every level and to every limit of the lane, and reinserts the flow if it is still
    /// `backlogged`. `now` is the time at which the segment was sent. A turn may end with nothing sent, since a
    /// doorbell may arrive before its packet. Fair queueing charges at most 1 TiB per turn.
    ///
    /// # Errors
    /// [`StaleTurn`] when another turn has begun since; nothing is charged then.
    #[inline]
    pub fn finish(
        &mut self,
        turn: Turn,
        sent: Bytes,
        backlogged: bool,
        now: Instant,
    ) -> Result<(), StaleTurn> {
        self.finish_charging(turn, sent, sent, backlogged, now)
    }

    /// Ends a turn as [`PolicyTree::finish`], with different charges: `sent` to the limits and `share` to the shares.
    /// For a turn that costs its class more than the bytes sent.
    ///
    /// # Errors
    /// [`StaleTurn`] when another turn has begun since; nothing is charged then.
    #[inline]
    pub fn finish_charging(
        &mut self,
        turn: Turn,
        sent: Bytes,
        share: Bytes,
        backlogged: bool,
        now: Instant,
    ) -> Result<(), StaleTurn> {
        let arrival = if backlogged || self.posted { Some(self.tick()) } else { None };
        self.finish_at(turn, (sent, share), arrival, now)
    }

    /// Ends a turn as [`PolicyTree::finish_charging`], with the arrival number of the flow's next packet, if any.
    #[inline]
    pub(crate) fn finish_at(
        &mut self,
        turn: Turn,
        (sent, share): (Bytes, Bytes),
        next_arrival: Option<u64>,
        now: Instant,
    ) -> Result<(), StaleTurn> {
        if turn.serial != self.serial || self.in_service != Some(turn.flow) {
            return Err(StaleTurn { flow: turn.flow });
        }
        self.in_service = None;
        if self.is_scripted(turn.lane) {
            let next = next_arrival.map(|arrival| (arrival, Metadata::UNKNOWN));
            self.settle_scripted(turn.lane.0, turn.flow, (sent, share), Traffic::default(), next, now);
        } else {
            self.settle(turn.lane.0, turn.flow, (sent, share), next_arrival, now);
        }
        Ok(())
    }

    /// Serves one segment: a turn that begins and ends at `now`, while none is outstanding. `segment` gives its length and
    /// the arrival number of the flow's next packet, if any.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        now: Instant,
        segment: impl FnOnce(FlowId) -> (Bytes, Option<u64>),
    ) -> Served {
        if self.has_scripts() && self.is_next_scripted(now) {
            return Served::Scripted;
        }
        let Some(id) = self.peek(now) else {
            return self.first_release().map_or(Served::Idle, Served::Wait);
        };
        let Some(first) = self.lanes[id as usize].pifo.peek() else { return Served::Idle };
        let flow = FlowId(first.id);
        let (sent, next_arrival) = segment(flow);
        self.settle(id, flow, (sent, sent), next_arrival, now);
        Served::Segment(flow, LaneId(id))
    }

    /// Charges a segment of `flow`, the first of `lane`, at every level and to every limit, and reinserts the flow if it
    /// has a next packet.
    #[inline]
    pub(super) fn settle(
        &mut self,
        id: u32,
        flow: FlowId,
        (sent, share): (Bytes, Bytes),
        next_arrival: Option<u64>,
        now: Instant,
    ) {
        let tie = self.tick();
        let lane = &mut self.lanes[id as usize];
        charge_limits(lane, &mut self.limits, &mut self.all_clear, sent, now);
        let at = lane.leaf;
        let entry = Entry::new(0, tie, flow.0);
        let flow = &mut self.flows[flow.index()];
        self.backlogged -= usize::from(next_arrival.is_none());
        let (mut offer, time) = if lane.sole {
            let order = (lane.order, &mut lane.virtual_time);
            charge_first(&mut lane.pifo, order, flow, share, next_arrival, entry);
            let offer = if lane.pifo.is_empty() { NO_LEAF } else { Offer::Lane(id).number() };
            (offer, lane.virtual_time)
        } else {
            let leaf = &mut self.leaves[at as usize];
            let order = (leaf.order, &mut leaf.virtual_time);
            charge_first(&mut lane.pifo, order, flow, share, next_arrival, entry);
            leaf.update_head(id, lane);
            let offer = if leaf.heads.is_empty() { NO_LEAF } else { Offer::Leaf(at).number() };
            (offer, leaf.virtual_time)
        };
        for &(node, slot) in lane.path(&self.leaves) {
            let node = &mut self.nodes[node as usize].node;
            offer = node.served(slot as usize, share, offer, tie, &mut self.counters.rebases);
        }
        self.first_leaf = offer;
        if time >= virtual_time::REBASE_AT {
            self.rebase_leaf(at);
        }
    }

    /// Removes a lane that may not send before `release` from the tree.
    fn park(&mut self, id: u32, release: Instant) {
        let tie = self.tick();
        self.counters.parkings += 1;
        let lane = &mut self.lanes[id as usize];
        lane.parked = true;
        self.shaping.push(Entry::new(release.as_nanos(), tie, id));
        let leaf = &mut self.leaves[lane.leaf as usize];
        if leaf.scripted {
            self.shape_scripted(id);
            return;
        }
        leaf.update_head(id, lane);
        self.leave(id, Leave::Parked);
    }

    /// Tells the nodes above the leaf of lane `id` that the lane left it without service.
    pub(super) fn leave(&mut self, id: u32, why: Leave) {
        let lane = &self.lanes[id as usize];
        let mut offer = offer_of(id, lane, &self.leaves[lane.leaf as usize]);
        for &(node, slot) in lane.path(&self.leaves) {
            let node = &mut self.nodes[node as usize].node;
            if offer == NO_LEAF {
                node.leave_unserved(slot as usize, why);
                offer = node.offer();
            } else {
                offer = node.lead(slot as usize, offer);
            }
        }
        self.first_leaf = offer;
    }

    /// Reinserts the lanes whose release time has passed.
    #[inline]
    fn release_due(&mut self, now: Instant) {
        while self.shaping.peek().is_some_and(|first| first.rank <= now.as_nanos()) {
            self.release_first();
        }
    }

    pub(super) fn release_first(&mut self) {
        let Some(first) = self.shaping.pop() else { return };
        let tie = self.tick();
        let lane = &mut self.lanes[first.id as usize];
        lane.parked = false;
        let leaf = &mut self.leaves[lane.leaf as usize];
        if leaf.scripted {
            self.shape_scripted(first.id);
            return;
        }
        let was_empty = lane.sole || leaf.heads.is_empty();
        leaf.update_head(first.id, lane);
        if was_empty {
            self.climb(first.id, tie, Return::Released);
        }
    }
}

/// Puts the first flow of a lane of this PIFO into service, charges it and replaces its reference by `entry`, or removes it if
/// the flow has no next packet. The leaf has this order and virtual time.
#[inline(always)]
pub(super) fn charge_first(
    pifo: &mut Pifo,
    (order, virtual_time): (LeafOrder, &mut u64),
    flow: &mut Flow,
    sent: Bytes,
    next_arrival: Option<u64>,
    mut entry: Entry,
) {
    if let (LeafOrder::Fair, Some(served)) = (order, pifo.peek()) {
        *virtual_time = served.rank.max(*virtual_time);
        flow.account.charge(served.rank, sent);
    }
    match next_arrival {
        Some(arrival) => {
            entry.rank = rank_of(flow, order, *virtual_time, arrival);
            pifo.replace_top(entry);
        }
        None => {
            flow.state = FlowState::Idle;
            pifo.pop();
        }
    }
}
