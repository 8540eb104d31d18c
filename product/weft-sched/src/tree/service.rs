//! Service: the steps in which flows become backlogged, take turns, and wait for limits.
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
//! 4. Rebase the leaf's virtual time if it has reached its threshold (`rebase_leaf`). Nodes rebase themselves.
//!
//! Only bytes that were sent are charged, and only after they were sent. Parking therefore changes no account, and an
//! abandoned turn needs no undo.
//!
//! A leaf *offers* the nodes above it its sole lane or itself ([`Offer`]), or nothing. Records of flows, lanes and nodes are
//! prefetched some turns before they are needed, which changes nothing.
//!
//! Workers that share a policy change a tree between its turns: they lend bytes of limits, and charge service that a class had
//! elsewhere; the module `workers` says what for. Nothing of that is on the way of a packet.

use weft_rank::Metadata;
use weft_units::{BitsPerSec, Bytes, FlowId, Instant, LaneId, LimitId};

use super::{Flow, FlowState, Next, PolicyTree, StaleTurn, Turn};
use crate::entry::Entry;
use crate::leaf::{Lane, Leaf, LeafOrder, Offer};
use crate::limit::Limit;
use crate::node::{Leave, NO_LEAF, Return};
use crate::pifo::Pifo;
use crate::prefetch::prefetch;
use crate::virtual_time;
use weft_units::Counted;

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

/// The offer of the leaf of lane `id`, or [`NO_LEAF`].
#[inline]
pub(super) fn offer_of(id: u32, lane: &Lane, leaf: &Leaf) -> u32 {
    match lane {
        lane if lane.sole && lane.takes_part() => Offer::Lane(id).number(),
        lane if !lane.sole && !leaf.heads.is_empty() => Offer::Leaf(lane.leaf).number(),
        _ => NO_LEAF,
    }
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
            self.settle_scripted(turn.lane.0, turn.flow, (sent, share), Counted::default(), next, now);
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

/// The rebase of virtual times.
impl PolicyTree {
    /// Moves the tags of a leaf back towards zero. Linear in the number of flows of the tree.
    #[cold]
    pub(super) fn rebase_leaf(&mut self, at: u32) {
        self.counters.rebases += 1;
        let time = self.leaf_time(at);
        let leaf = &self.leaves[at as usize];
        let starts = leaf.lanes.iter().filter_map(|lane| self.lanes[*lane as usize].pifo.peek());
        let oldest = starts.map(|entry| entry.rank).min().unwrap_or(time);
        let base = virtual_time::rebase_base(time, oldest);
        *self.leaf_time_mut(at) -= base;
        let leaf = &mut self.leaves[at as usize];
        for slot in 0..leaf.lanes.len() {
            let id = leaf.lanes[slot];
            let lane = &mut self.lanes[id as usize];
            lane.pifo.rerank(|entry| entry.rank.saturating_sub(base));
            leaf.update_head(id, lane);
        }
        for flow in &mut self.flows {
            if flow.state != FlowState::Vacant && self.lanes[flow.lane as usize].leaf == at {
                flow.account.rebase(base);
            }
        }
    }
}

/// The offers of leaves, and their virtual times.
impl PolicyTree {
    /// The offer of a leaf, or [`NO_LEAF`].
    pub(super) fn offered_by_leaf(&self, at: u32) -> u32 {
        let leaf = &self.leaves[at as usize];
        match leaf.sole() {
            Some(id) => offer_of(id, &self.lanes[id as usize], leaf),
            None if leaf.heads.is_empty() => NO_LEAF,
            None => Offer::Leaf(at).number(),
        }
    }

    /// The lane that an offer leads to.
    #[inline]
    fn lane_offered(&self, offer: u32) -> Option<u32> {
        let lane = match Offer::from_number(offer) {
            Offer::Lane(lane) => lane,
            Offer::Leaf(leaf) => self.leaves.get(leaf as usize)?.best_lane(),
        };
        ((lane as usize) < self.lanes.len()).then_some(lane)
    }

    /// The virtual time of a leaf.
    pub(super) fn leaf_time(&self, at: u32) -> u64 {
        let leaf = &self.leaves[at as usize];
        leaf.sole().map_or(leaf.virtual_time, |lane| self.lanes[lane as usize].virtual_time)
    }

    /// The place of the virtual time of a leaf.
    pub(super) fn leaf_time_mut(&mut self, at: u32) -> &mut u64 {
        let leaf = &mut self.leaves[at as usize];
        match leaf.sole() {
            Some(lane) => &mut self.lanes[lane as usize].virtual_time,
            None => &mut leaf.virtual_time,
        }
    }
}

/// The fetch of records before they are needed. Nothing here changes the tree.
impl PolicyTree {
    /// Asks for the record of `flow`.
    #[inline]
    pub(crate) fn prefetch_flow(&self, flow: FlowId) {
        prefetch(&self.flows, flow.index());
    }

    /// Asks for the lane of `flow`, here and in `others`.
    #[inline]
    pub(crate) fn prefetch_lane<S>(&self, flow: FlowId, others: &[S]) {
        if let Some(flow) = self.flows.get(flow.index()) {
            prefetch(&self.lanes, flow.lane as usize);
            prefetch(others, flow.lane as usize);
        }
    }

    /// Prefetches the node above the lane of `flow`, if an arrival changes that node.
    #[inline]
    pub(crate) fn prefetch_node(&self, flow: FlowId) {
        let lane = self.flows.get(flow.index()).and_then(|flow| self.lanes.get(flow.lane as usize));
        let lane = lane.filter(|lane| lane.sole && lane.pifo.is_empty());
        if let Some((node, _)) = lane.and_then(|lane| lane.path(&self.leaves).first()) {
            prefetch(&self.nodes, *node as usize);
        }
    }

    /// Asks for what turns some way off need, where the order of a node above the lane `served` is known that far: for lanes, and
    /// nearer for what lanes refer to, here, in `queues` by flow and in `others` by lane.
    #[inline]
    pub(crate) fn prefetch_ahead<Q, S>(&self, served: LaneId, queues: &[Q], others: &[S]) {
        let Some(lane) = self.lanes.get(served.index()) else { return };
        for (node, _) in lane.path(&self.leaves) {
            let (near, far) = self.nodes[*node as usize].node.upcoming();
            if let Offer::Lane(far) = Offer::from_number(far) {
                prefetch(&self.lanes, far as usize);
                prefetch(others, far as usize);
            }
            let Offer::Lane(near) = Offer::from_number(near) else { continue };
            let Some(lane) = self.lanes.get(near as usize) else { continue };
            if let Some(head) = lane.pifo.peek() {
                prefetch(&self.flows, head.id as usize);
                prefetch(queues, head.id as usize);
            }
            for limit in &*lane.limits {
                prefetch(&self.limits, limit.index());
            }
            if let Some((node, _)) = lane.path(&self.leaves).first() {
                prefetch(&self.nodes, *node as usize);
            }
        }
    }

    /// Asks for what the next turns need, after a turn of `served`: the records of that lane's next flow, here and in
    /// `queues`, since the lane's next turn is usually some turns away; and through `next` what the queue of the very next
    /// turn refers to.
    #[inline]
    pub(crate) fn prefetch_next<Q>(&self, served: LaneId, queues: &[Q], next: impl FnOnce(&Q)) {
        if let Some(head) = self.lanes.get(served.index()).and_then(|lane| lane.pifo.peek()) {
            prefetch(&self.flows, head.id as usize);
            prefetch(queues, head.id as usize);
        }
        let lane = self.lane_offered(self.first_leaf).and_then(|lane| self.lanes.get(lane as usize));
        let head = lane.and_then(|lane| lane.pifo.peek());
        if let Some(queue) = head.and_then(|head| queues.get(head.id as usize)) {
            next(queue);
        }
    }
}

/// Effects of other workers, for use between turns.
impl PolicyTree {
    /// The number of limits.
    pub(crate) fn limits(&self) -> usize {
        self.limits.len()
    }

    /// Lends bytes of a limit; see [`Limit::lend`](crate::limit::Limit::lend). [`Self::release_again`] must follow.
    pub(crate) fn lend(&mut self, limit: LimitId, allowance: Option<Bytes>, now: Instant) {
        let limit = &mut self.limits[limit.index()];
        limit.lend(allowance, now);
        self.all_clear = self.all_clear.max(limit.release());
    }

    /// The bytes charged to a limit that was lent at `since`.
    pub(crate) fn spent(&self, limit: LimitId, since: Instant) -> Bytes {
        self.limits[limit.index()].spent(since)
    }

    /// Gives a limit its own rate again. [`Self::release_again`] must follow.
    pub(crate) fn end_lending(&mut self, limit: LimitId, rate: BitsPerSec, burst: Bytes, now: Instant) {
        let limit = &mut self.limits[limit.index()];
        limit.end_lending(rate, burst, now);
        self.all_clear = self.all_clear.max(limit.release());
    }

    /// Finds the release times of parked lanes anew. Linear in these.
    pub(crate) fn release_again(&mut self) {
        let (lanes, limits) = (&self.lanes, &self.limits);
        self.shaping.rerank(|entry| release_time(&lanes[entry.id as usize], limits).as_nanos());
    }

    /// Calls `found` with the limits of each parked lane.
    pub(crate) fn each_parked_lane(&self, mut found: impl FnMut(&[LimitId])) {
        for entry in self.shaping.iter() {
            found(&self.lanes[entry.id as usize].limits);
        }
    }

    /// Calls `found` with the limits of each lane that has packets, parked or not.
    pub(crate) fn each_backlogged_lane(&self, mut found: impl FnMut(&[LimitId])) {
        for lane in self.lanes.iter().filter(|lane| !lane.pifo.is_empty()) {
            found(&lane.limits);
        }
    }

    /// Whether `lane` has packets and waits for no limit.
    pub(crate) fn lane_may_send(&self, lane: LaneId) -> bool {
        self.lanes.get(lane.index()).is_some_and(|lane| lane.takes_part())
    }

    /// The virtual time of a fair node; zero of others.
    #[inline]
    pub(crate) fn fair_time(&self, node: u32) -> u64 {
        self.nodes[node as usize].node.fair_time()
    }

    /// Whether the child at `slot` of a node has a backlogged flow, in a lane that is not parked or with the tag that it had before.
    #[inline]
    pub(crate) fn child_takes_part(&self, node: u32, slot: usize) -> bool {
        let node = &self.nodes[node as usize].node;
        node.contains(slot) || node.holds(slot)
    }

    /// Charges service that the child at `slot` of a fair node had elsewhere. [`Self::offer_again`] must follow.
    #[inline]
    pub(crate) fn charge_elsewhere(&mut self, node: u32, slot: usize, units: u64, lead: u64) {
        self.nodes[node as usize].node.charge_elsewhere(slot, units, lead);
    }

    /// Finds which child of `node` is the first after charges, and reports to the nodes above which leaf it leads to.
    pub(crate) fn offer_again(&mut self, node: u32) {
        let mut at = node as usize;
        self.nodes[at].node.settle();
        let mut offer = self.nodes[at].node.offer();
        while let Some((parent, slot)) = self.node_parents[at] {
            let above = &mut self.nodes[parent as usize].node;
            if !above.contains(slot as usize) {
                return;
            }
            offer = above.lead(slot as usize, offer);
            at = parent as usize;
        }
        self.first_leaf = offer;
    }
}

#[cfg(test)]
mod tests {
    use weft_units::testing::Rng;
    use weft_units::{LeafId, Weight};

    use super::*;
    use crate::TreeCounters;
    use crate::node::Node;
    use crate::program::{Child, Discipline, LeafDiscipline, NodeSpec, Program};
    use crate::testing::tenants_program;

    /// Advances all tags of the tree, as if the same amount had been served before.
    fn shift(tree: &mut PolicyTree, by: u64) {
        for at in 0..tree.leaves.len() {
            *tree.leaf_time_mut(at as u32) += by;
        }
        for flow in &mut tree.flows {
            flow.account.shift(by);
        }
        for inner in &mut tree.nodes {
            if let Node::Wfq(node) = &mut inner.node {
                node.shift(by);
            }
        }
    }

    /// The order of service of `turns` turns. Flow `i` belongs to lane `i % 64`, and all are backlogged from time zero
    /// on.
    fn order(program: &Program, shifted: u64, turns: usize) -> Vec<FlowId> {
        assert!(program.leaves.iter().all(|leaf| leaf.discipline == LeafDiscipline::Fair));
        let mut tree = PolicyTree::new(program).expect("the program is sound");
        let mut rng = Rng::new(7);
        for at in 0..256 {
            let weight = Weight::new(1 + rng.below(5)).expect("not zero");
            tree.add_flow(LaneId(at % 64), weight).expect("the lane exists");
        }
        shift(&mut tree, shifted);
        for at in 0..256 {
            tree.activate(FlowId(at));
        }
        let mut order = Vec::new();
        while order.len() < turns {
            let Next::Turn(turn) = tree.next(Instant::ZERO) else { panic!("something is backlogged") };
            let flow = turn.flow();
            order.push(flow);
            let sent = Bytes([64, 594, 1518, 64 + u64::from(rng.below(65_000))][rng.below(4) as usize]);
            tree.finish(turn, sent, rng.below(4) > 0, Instant::ZERO).expect("the turn is outstanding");
            tree.activate(FlowId(rng.below(256)));
            if order.len() % 64 == 0 {
                tree.check_invariants().expect("sound");
            }
        }
        order
    }

    #[test]
    fn virtual_time_that_comes_near_its_end_changes_no_order() {
        let turns = 20_000;
        // A node of many children of equal weight, which are in runs.
        let discipline = Discipline::Wfq(vec![Weight::ONE; 64]);
        let children = (0..64).map(|at| Child::Leaf(LeafId(at))).collect();
        let nodes = vec![NodeSpec { name: "root".to_owned(), discipline, children }];
        let many = Program { nodes, ..tenants_program() };
        for program in [&tenants_program(), &many] {
            let expected = order(program, 0, turns);
            // Every node and leaf in use passes the threshold during the run, at different times.
            for distance in [1, 1 << 20, 1 << 28, 1 << 30] {
                let shifted = order(program, virtual_time::REBASE_AT - distance, turns);
                assert!(shifted == expected, "distance {distance}");
            }
        }
    }

    #[test]
    fn a_rebase_brings_virtual_time_back() {
        let program = tenants_program();
        let mut tree = PolicyTree::new(&program).expect("the program is sound");
        let flow = tree.add_flow(LaneId(0), Weight::ONE).expect("the lane exists");
        shift(&mut tree, virtual_time::REBASE_AT);
        tree.activate(flow);
        let Next::Turn(turn) = tree.next(Instant::ZERO) else { panic!("a flow is backlogged") };
        tree.finish(turn, Bytes(1500), true, Instant::ZERO).expect("the turn is outstanding");
        assert!(tree.leaf_time(0) < virtual_time::REBASE_AT / 2 + 1);
        // The leaf, and the nodes of fair queueing above it.
        let nodes = tree.leaves[LeafId(0).index()].path.iter().map(|(node, _)| &tree.nodes[*node as usize]);
        let fair = nodes.filter(|inner| matches!(inner.node, Node::Wfq(_))).count() as u64;
        assert_eq!(tree.counters(), TreeCounters { parkings: 0, rebases: 1 + fair });
        tree.check_invariants().expect("sound");
    }
}
