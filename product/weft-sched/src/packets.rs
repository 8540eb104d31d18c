//! The descriptor layer: a policy tree that also stores the packets of its flows, as descriptors.
//!
//! A flow is backlogged exactly while its FIFO holds a descriptor, and a dequeue is a turn that begins and ends at the
//! same time. The first descriptor of a flow is stored in the flow's own record. A flow that holds one packet at a time
//! (the common case: the rest waits in the socket) touches no other memory. Further descriptors are linked through a
//! slab whose free places are reused, last freed first.
//!
//! Below user-defined algorithms a dequeue takes its steps one by one, and a packet may be dropped in it. The metadata of
//! packets lies beside the slab, at the same places, so that other packets do not grow by it. The first packet's is with the
//! tree's flow.
//!
//! A change of the program ([`PacketScheduler::change`]; the tree's part is [`PolicyTree::change`]) takes place under waiting
//! packets. A lane that stays keeps its counters. Packets of a lane that is gone count as enqueued in its heir, and no longer
//! in their old lane, so that for every lane what was enqueued is what was dequeued and what is held. Waiting packets are never
//! refused: a bound that is lower than what waits refuses only new ones.

use thiserror::Error;
use weft_rank::{Metadata, Metadatum};
use weft_units::{BitsPerSec, Bytes, ClassId, FlowId, Instant, LaneId, LimitId, Packets, Weight};

use crate::entry::Entry;
use crate::prefetch::prefetch;
use crate::program::{LaneSpec, Program};
use crate::script::leaf::LeafVerdict;
use crate::script::node::one;
use crate::tree::{
    ChangeError, Changed, FlowError, FlowHead, InvariantError, Next, PolicyTree, Prepared, RateError,
    RefusedChange, Served, Turn,
};
use crate::validate::ProgramError;
use weft_units::Counted;

/// A packet or segment stored elsewhere: its length, and the handle that its owner finds it by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Descriptor {
    /// The bytes to charge.
    pub len: Bytes,
    /// The owner's handle; the scheduler only carries it.
    pub handle: u64,
}

/// An arriving packet, for [`PacketScheduler::enqueue_burst`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrival {
    /// Its flow.
    pub flow: FlowId,
    /// The packet.
    pub descriptor: Descriptor,
}

/// A packet that leaves the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// Its flow.
    pub flow: FlowId,
    /// Its lane.
    pub lane: LaneId,
    /// The packet.
    pub descriptor: Descriptor,
}

/// The result of a dequeue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeue {
    /// Send this packet.
    Packet(Departure),
    /// A user-defined algorithm dropped this packet, so its owner frees it. The next call is at the same time.
    Drop(Departure),
    /// All waiting packets are rate-limited; nothing may be sent before this time.
    Wait(Instant),
    /// No packet waits.
    Empty,
}

/// The reason that a burst ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BurstEnd {
    /// As many packets as the caller's slice has places were sent or dropped.
    Full,
    /// All remaining packets are rate-limited until this time.
    Wait(Instant),
    /// No packet waits.
    Empty,
}

/// The reason that a packet was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The lane holds as many packets as its bound allows.
    #[error(
        "class {class} full: {bound} packets of lane {lane} wait; send later or raise the lane's packet bound"
    )]
    ClassFull {
        /// The class of the packet.
        class: ClassId,
        /// The lane of the packet.
        lane: LaneId,
        /// The lane's bound.
        bound: Packets,
    },
    /// The flow does not exist, or was removed.
    #[error("flow {given} does not exist or was removed; add it before sending")]
    UnknownFlow {
        /// The flow that was given.
        given: FlowId,
    },
}

/// The packets of a lane since the start. Offered = enqueued + refused; enqueued = dequeued + dropped + held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneCounters {
    /// Packets accepted.
    pub enqueued: Counted,
    /// Packets dequeued.
    pub dequeued: Counted,
    /// Packets refused because the class was full.
    pub refused: Counted,
    /// Accepted packets that a user-defined algorithm dropped.
    pub dropped: Counted,
}

impl LaneCounters {
    /// The packets that wait.
    #[inline]
    pub fn held(&self) -> Counted {
        let mut held = self.enqueued;
        held -= self.dequeued;
        held -= self.dropped;
        held
    }
}

/// The absence of a descriptor.
const NONE: u32 = u32::MAX;

/// The number of flows from which on records are prefetched: they exceed a second-level cache of 1 MB.
const PREFETCH_FROM: usize = 1 << 13;

/// The number of lanes from which on these are prefetched too: their records exceed a quarter of such a cache.
const PREFETCH_LANES_FROM: usize = 1 << 11;

/// A descriptor with the number of its arrival: 24 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    descriptor: Descriptor,
    arrival: u64,
}

/// A flow's FIFO: 32 bytes, half a cache line.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Queue {
    /// The first descriptor, valid while the flow is backlogged.
    first: Waiting,
    /// The second and the last descriptor in the slab, or [`NONE`].
    second: u32,
    last: u32,
}

/// A place in the slab: 32 bytes, half a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Place {
    waiting: Waiting,
    /// The next of the same flow, or the next free place.
    next: u32,
}

/// The packets of a lane as they are counted: accepted, gone (sent or dropped) and refused.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    enqueued: Counted,
    left: Counted,
    refused: Counted,
}

impl Counts {
    #[inline]
    fn held(&self) -> Counted {
        let mut held = self.enqueued;
        held -= self.left;
        held
    }
}

/// A lane's counters and bound: one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct LaneState {
    counters: Counts,
    bound: Packets,
    class: ClassId,
}

impl LaneState {
    fn new(spec: &LaneSpec) -> Self {
        Self { counters: Counts::default(), bound: spec.packet_bound, class: spec.class }
    }

    /// Counts a packet as accepted, or refuses it.
    #[inline]
    fn admit(&mut self, lane: LaneId, len: Bytes) -> Result<(), EnqueueError> {
        if self.counters.held().packets >= self.bound {
            self.counters.refused += Counted::one(len);
            return Err(EnqueueError::ClassFull { class: self.class, lane, bound: self.bound });
        }
        self.counters.enqueued += Counted::one(len);
        Ok(())
    }
}

/// A packet scheduler: the policy tree with its packets.
#[derive(Debug)]
pub struct PacketScheduler {
    tree: PolicyTree,
    queues: Vec<Queue>,
    slab: Vec<Place>,
    /// The first free place of the slab, or [`NONE`].
    free: u32,
    lanes: Vec<LaneState>,
    /// The metadata of the packets in the slab, where a user-defined algorithm may read it; else empty.
    metadata: Vec<Metadata>,
    /// The packets of each lane that user-defined algorithms dropped.
    dropped: Vec<Counted>,
    /// Whether the last packet that was dequeued is to be marked.
    marked: bool,
}

/// A change of a packet scheduler; see [`Prepared`].
#[derive(Debug)]
pub struct PreparedPackets {
    tree: Option<Prepared>,
    lanes: Vec<LaneState>,
    dropped: Vec<Counted>,
}

impl PacketScheduler {
    /// Builds a scheduler that runs `program`, without flows.
    ///
    /// # Errors
    /// As [`PolicyTree::new`].
    pub fn new(program: &Program) -> Result<Self, ProgramError> {
        let tree = PolicyTree::new(program)?;
        let lanes = program.lanes.iter().map(LaneState::new).collect();
        let (queues, slab, metadata) = (Vec::new(), Vec::new(), Vec::new());
        let dropped = vec![Counted::default(); program.lanes.len()];
        Ok(Self { tree, queues, slab, free: NONE, lanes, metadata, dropped, marked: false })
    }

    /// Reserves memory for `packets` waiting packets beyond one per flow. Without it the slab grows, and allocates, up
    /// to the largest number that ever waited.
    pub fn reserve(&mut self, packets: Packets) {
        let total = usize::try_from(packets.get()).unwrap_or(usize::MAX).min(NONE as usize);
        self.slab.reserve(total.saturating_sub(self.slab.len()));
        if self.tree.has_scripts() {
            self.metadata.reserve(total.saturating_sub(self.metadata.len()));
        }
    }

    /// Adds an idle flow to `lane`; see [`PolicyTree::add_flow`].
    ///
    /// # Errors
    /// [`FlowError::UnknownLane`], [`FlowError::TooManyFlows`].
    pub fn add_flow(&mut self, lane: LaneId, weight: Weight) -> Result<FlowId, FlowError> {
        let flow = self.tree.add_flow(lane, weight)?;
        if flow.index() == self.queues.len() {
            self.queues.push(Queue { first: Waiting::default(), second: NONE, last: NONE });
        }
        Ok(flow)
    }

    /// Removes an idle flow; see [`PolicyTree::remove_flow`].
    ///
    /// # Errors
    /// [`FlowError::UnknownFlow`], [`FlowError::Backlogged`].
    pub fn remove_flow(&mut self, flow: FlowId) -> Result<(), FlowError> {
        self.tree.remove_flow(flow)
    }

    /// Enqueues a packet of `flow` at `now`. A user-defined algorithm sees the time of its arrival and its length;
    /// [`PacketScheduler::enqueue_with`] has more.
    ///
    /// # Errors
    /// [`EnqueueError::ClassFull`] when the lane's packet bound is reached, [`EnqueueError::UnknownFlow`].
    #[inline]
    pub fn enqueue(
        &mut self,
        flow: FlowId,
        descriptor: Descriptor,
        now: Instant,
    ) -> Result<(), EnqueueError> {
        let (lane, active) =
            self.tree.lane_and_active(flow).ok_or(EnqueueError::UnknownFlow { given: flow })?;
        self.lanes[lane.index()].admit(lane, descriptor.len)?;
        if self.tree.has_scripts() && self.tree.is_scripted(lane) {
            self.accept(flow, descriptor, active, &Metadata::UNKNOWN, now);
            return Ok(());
        }
        let arrival = self.tree.tick();
        let waiting = Waiting { descriptor, arrival };
        if active {
            let at = self.append(flow, waiting);
            // Nothing is known of it, should its flow come below an algorithm.
            if let Some(metadata) = self.metadata.get_mut(at as usize) {
                *metadata = Metadata::UNKNOWN;
            }
        } else {
            self.queues[flow.index()].first = waiting;
            self.tree.activate_at(flow, arrival);
        }
        Ok(())
    }

    /// Dequeues the next packet at `now` and charges it as sent at `now`, or drops it and charges nothing. A call takes one packet at
    /// most, so its work is bounded however many packets in a row a dropper drops.
    #[inline]
    pub fn dequeue(&mut self, now: Instant) -> Dequeue {
        let Self { tree, queues, slab, free, lanes, marked, .. } = self;
        let mut descriptor = Descriptor::default();
        let served = tree.serve(now, |flow| {
            let queue = &mut queues[flow.index()];
            descriptor = queue.first.descriptor;
            (descriptor.len, advance(queue, slab, free))
        });
        match served {
            Served::Segment(flow, lane) => {
                *marked = false;
                lanes[lane.index()].counters.left += Counted::one(descriptor.len);
                if queues.len() >= PREFETCH_FROM {
                    tree.prefetch_next(lane, queues, |queue| prefetch(slab, queue.second as usize));
                    if lanes.len() >= PREFETCH_LANES_FROM {
                        tree.prefetch_ahead(lane, queues, lanes);
                    }
                }
                Dequeue::Packet(Departure { flow, lane, descriptor })
            }
            Served::Wait(until) => Dequeue::Wait(until),
            Served::Idle => Dequeue::Empty,
            Served::Scripted => self.dequeue_scripted(now),
        }
    }

    /// Enqueues a burst at `now`. Calls `refused` with the position and error of each packet that was refused. Returns
    /// the number of accepted packets.
    pub fn enqueue_burst(
        &mut self,
        burst: &[Arrival],
        now: Instant,
        mut refused: impl FnMut(usize, EnqueueError),
    ) -> usize {
        self.prefetch_burst(burst);
        let mut taken = 0;
        for (at, arrival) in burst.iter().enumerate() {
            match self.enqueue(arrival.flow, arrival.descriptor, now) {
                Ok(()) => taken += 1,
                Err(error) => refused(at, error),
            }
        }
        taken
    }

    /// Fills `out` from the front at `now`, and calls `dropped` with each packet that a user-defined algorithm drops; both together
    /// are at most as many as `out` has places. Returns the number of packets written and the reason for the end.
    pub fn dequeue_burst(
        &mut self,
        out: &mut [Departure],
        now: Instant,
        mut dropped: impl FnMut(Departure),
    ) -> (usize, BurstEnd) {
        let mut sent = 0;
        for _ in 0..out.len() {
            match self.dequeue(now) {
                Dequeue::Packet(departure) => {
                    out[sent] = departure;
                    sent += 1;
                }
                Dequeue::Drop(departure) => dropped(departure),
                Dequeue::Wait(until) => return (sent, BurstEnd::Wait(until)),
                Dequeue::Empty => return (sent, BurstEnd::Empty),
            }
        }
        (sent, BurstEnd::Full)
    }

    /// Asks for the records of the burst's flows, so that their cache misses overlap.
    #[inline]
    fn prefetch_burst(&self, burst: &[Arrival]) {
        if self.queues.len() < PREFETCH_FROM {
            return;
        }
        for arrival in burst {
            self.tree.prefetch_flow(arrival.flow);
            prefetch(&self.queues, arrival.flow.index());
        }
        // By now the first of these are here. A queue that holds several packets is continued behind its last one.
        for arrival in burst {
            if let Some(queue) = self.queues.get(arrival.flow.index()) {
                prefetch(&self.slab, queue.last as usize);
            }
        }
        if self.lanes.len() < PREFETCH_LANES_FROM {
            return;
        }
        for arrival in burst {
            self.tree.prefetch_lane(arrival.flow, &self.lanes);
        }
        for arrival in burst {
            self.tree.prefetch_node(arrival.flow);
        }
    }

    /// Appends to a flow that holds at least one descriptor.
    #[inline]
    fn append(&mut self, flow: FlowId, waiting: Waiting) -> u32 {
        let at = self.allocate(Place { waiting, next: NONE });
        let queue = &mut self.queues[flow.index()];
        if queue.second == NONE {
            queue.second = at;
        } else {
            self.slab[queue.last as usize].next = at;
        }
        queue.last = at;
        at
    }

    #[inline]
    fn allocate(&mut self, place: Place) -> u32 {
        match self.slab.get_mut(self.free as usize) {
            Some(free) => {
                let at = self.free;
                self.free = free.next;
                *free = place;
                at
            }
            None => {
                self.slab.push(place);
                (self.slab.len() - 1) as u32
            }
        }
    }

    /// The tree underneath, for its accessors.
    pub fn tree(&self) -> &PolicyTree {
        &self.tree
    }

    /// The tree underneath, for what other workers did.
    pub(crate) fn tree_mut(&mut self) -> &mut PolicyTree {
        &mut self.tree
    }

    /// Changes the rate of a limit; see [`PolicyTree::set_rate`].
    ///
    /// # Errors
    /// [`RateError::UnknownLimit`], [`RateError::ZeroRate`].
    pub fn set_rate(&mut self, limit: LimitId, rate: BitsPerSec, now: Instant) -> Result<(), RateError> {
        self.tree.set_rate(limit, rate, now)
    }

    /// Changes a flow's weight from its next charge on.
    ///
    /// # Errors
    /// [`FlowError::UnknownFlow`].
    pub fn set_weight(&mut self, flow: FlowId, weight: Weight) -> Result<(), FlowError> {
        self.tree.set_weight(flow, weight)
    }

    /// The counters of `lane`, or `None` for an unknown lane.
    pub fn counters(&self, lane: LaneId) -> Option<LaneCounters> {
        let Counts { enqueued, mut left, refused } = self.lanes.get(lane.index())?.counters;
        let dropped = self.dropped.get(lane.index()).copied().unwrap_or_default();
        left -= dropped;
        Some(LaneCounters { enqueued, dequeued: left, refused, dropped })
    }

    /// The number of packets that wait in all lanes.
    pub fn held(&self) -> Packets {
        self.lanes.iter().map(|state| state.counters.held().packets).sum()
    }

    /// Checks conservation and the invariants of the tree. Per lane, packets and bytes accepted equal those dequeued
    /// plus those in its queues, counted by walking the queues. Linear in flows and packets.
    ///
    /// # Errors
    /// The first broken invariant, with its place. Any error is a bug of this crate.
    pub fn check_invariants(&self) -> Result<(), InvariantError> {
        self.tree.check_invariants()?;
        let mut walked = vec![Counted::default(); self.lanes.len()];
        let mut in_slab = 0;
        for (at, queue) in self.queues.iter().enumerate() {
            let flow = FlowId::from_index(at);
            let Some(lane) = self.tree.lane_of(flow).filter(|_| self.tree.is_active(flow)) else { continue };
            walked[lane.index()] += Counted::one(queue.first.descriptor.len);
            let mut next = queue.second;
            while let Some(place) = self.slab.get(next as usize) {
                walked[lane.index()] += Counted::one(place.waiting.descriptor.len);
                in_slab += 1;
                next = place.next;
            }
        }
        for (at, (state, found)) in self.lanes.iter().zip(&walked).enumerate() {
            let counted = state.counters.held();
            if counted != *found {
                let text = format!("lane {at}: counters say {counted:?} held, its queues hold {found:?}");
                return Err(InvariantError(text));
            }
        }
        let free =
            core::iter::successors(self.slab.get(self.free as usize), |p| self.slab.get(p.next as usize));
        match in_slab + free.count() {
            all if all == self.slab.len() => Ok(()),
            all => {
                let text = format!("{} slab places, but {all} are used or free", self.slab.len());
                Err(InvariantError(text))
            }
        }
    }
}

/// Packets below user-defined algorithms.
impl PacketScheduler {
    /// Enqueues a packet of `flow` at `now`, as [`PacketScheduler::enqueue`], with what is known of it. Length and arrival
    /// are filled in. A user-defined algorithm may rank by the rest; elsewhere it is ignored.
    ///
    /// # Errors
    /// As [`PacketScheduler::enqueue`].
    pub fn enqueue_with(
        &mut self,
        flow: FlowId,
        descriptor: Descriptor,
        metadata: &Metadata,
        now: Instant,
    ) -> Result<(), EnqueueError> {
        match self.tree.lane_and_active(flow) {
            Some((lane, active)) if self.tree.is_scripted(lane) => {
                self.lanes[lane.index()].admit(lane, descriptor.len)?;
                self.accept(flow, descriptor, active, metadata, now);
                Ok(())
            }
            _ => self.enqueue(flow, descriptor, now),
        }
    }

    /// Enqueues a packet that was counted, below a user-defined algorithm.
    #[cold]
    fn accept(
        &mut self,
        flow: FlowId,
        descriptor: Descriptor,
        active: bool,
        metadata: &Metadata,
        now: Instant,
    ) {
        let metadata =
            metadata.with(Metadatum::Length, descriptor.len.get()).with(Metadatum::Arrived, now.as_nanos());
        self.tree.observe(now);
        let arrival = self.tree.tick();
        let waiting = Waiting { descriptor, arrival };
        if active {
            let at = self.append(flow, waiting) as usize;
            if self.metadata.len() <= at {
                self.metadata.resize(at + 1, Metadata::UNKNOWN);
            }
            self.metadata[at] = metadata;
            self.tree.arrived(flow, &metadata);
        } else {
            self.queues[flow.index()].first = waiting;
            self.tree.activate_packet(flow, arrival, &metadata);
        }
    }

    /// Dequeues the next packet, whose turn is below a user-defined algorithm.
    #[cold]
    fn dequeue_scripted(&mut self, now: Instant) -> Dequeue {
        let turn = match self.tree.next(now) {
            Next::Turn(turn) => turn,
            Next::Wait(until) => return Dequeue::Wait(until),
            Next::Idle => return Dequeue::Empty,
        };
        let head = self.tree.head_of(turn.flow());
        // A stale turn cannot be: it is the one just begun.
        let verdict = self.tree.fetched(&turn, &head, now).unwrap_or(LeafVerdict::Send);
        let departure = self.take(turn, verdict, now);
        self.marked = verdict == LeafVerdict::Mark;
        if verdict == LeafVerdict::Drop { Dequeue::Drop(departure) } else { Dequeue::Packet(departure) }
    }

    /// Takes the first packet of a turn from its queue, and ends the turn.
    fn take(&mut self, turn: Turn, verdict: LeafVerdict, now: Instant) -> Departure {
        let (flow, lane) = (turn.flow(), turn.lane());
        let queue = &mut self.queues[flow.index()];
        let (descriptor, second) = (queue.first.descriptor, queue.second as usize);
        let next = advance(queue, &mut self.slab, &mut self.free);
        let metadata = self.metadata.get(second).copied().unwrap_or(Metadata::UNKNOWN);
        let next_len = queue.first.descriptor.len;
        self.lanes[lane.index()].counters.left += Counted::one(descriptor.len);
        let sent = if verdict == LeafVerdict::Drop {
            self.dropped[lane.index()] += Counted::one(descriptor.len);
            Bytes::ZERO
        } else {
            descriptor.len
        };
        let next = next.map(|arrival| (arrival, metadata.with(Metadatum::Length, next_len.get())));
        let ended = self.tree.finish_packet(turn, (sent, sent), one(Some(descriptor.len)), next, now);
        debug_assert!(ended.is_ok(), "the turn is the outstanding one");
        Departure { flow, lane, descriptor }
    }

    /// Whether the packet dequeued last is to be marked as having experienced congestion.
    pub fn marked(&self) -> bool {
        self.marked
    }
}

/// The exchange of the program, and the move of a flow.
impl PacketScheduler {
    /// Prepares a change to `program`; see [`PolicyTree::prepare`].
    ///
    /// # Errors
    /// As [`PolicyTree::new`].
    pub fn prepare(
        program: &Program,
        heirs: &[(LaneId, LaneId)],
        flows: usize,
    ) -> Result<PreparedPackets, ProgramError> {
        let tree = Some(PolicyTree::prepare(program, heirs, flows)?);
        let lanes = program.lanes.iter().map(LaneState::new).collect();
        Ok(PreparedPackets { tree, lanes, dropped: vec![Counted::default(); program.lanes.len()] })
    }

    /// Exchanges the program at `now`; see [`PolicyTree::change`]. Allocates and frees nothing.
    ///
    /// # Errors
    /// See [`ChangeError`]; the scheduler is unchanged then.
    pub fn change(
        &mut self,
        mut prepared: PreparedPackets,
        now: Instant,
    ) -> Result<Changed<PreparedPackets>, RefusedChange<PreparedPackets>> {
        let Some(tree) = prepared.tree.take() else {
            return Err(RefusedChange { why: ChangeError::Spent, prepared });
        };
        let (queues, slab) = (&self.queues, &self.slab);
        let arrival = |flow: u32| queues[flow as usize].first.arrival;
        let waiting = |flow: FlowId| waiting(&queues[flow.index()], slab);
        let changed = self.tree.change_by(tree, now, |entry, _| arrival(entry.id), waiting);
        let Changed { moved, retired } = match changed {
            Ok(changed) => changed,
            Err(RefusedChange { why, prepared: tree }) => {
                prepared.tree = Some(tree);
                return Err(RefusedChange { why, prepared });
            }
        };
        core::mem::swap(&mut self.lanes, &mut prepared.lanes);
        core::mem::swap(&mut self.dropped, &mut prepared.dropped);
        // First the lanes that stay, since a heir adds to its counters.
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if let (Some(old), true) = (prepared.lanes.get(at), retired.target_of(at) == Some(at)) {
                lane.counters = old.counters;
                self.dropped[at] = prepared.dropped[at];
            }
        }
        for (at, old) in prepared.lanes.iter_mut().enumerate() {
            if let Some(heir) = retired.target_of(at).filter(|heir| *heir != at) {
                let held = old.counters.held();
                old.counters.enqueued -= held;
                self.lanes[heir].counters.enqueued += held;
            }
        }
        prepared.tree = Some(retired);
        Ok(Changed { moved, retired: prepared })
    }

    /// Moves a flow with its packets to another lane; see [`PolicyTree::move_flow`].
    ///
    /// # Errors
    /// [`FlowError::UnknownFlow`], [`FlowError::UnknownLane`].
    pub fn move_flow(&mut self, flow: FlowId, lane: LaneId) -> Result<(), FlowError> {
        let from = self.tree.lane_of(flow).ok_or(FlowError::UnknownFlow { given: flow })?;
        let queues = &self.queues;
        let arrival = |entry: &Entry| queues[entry.id as usize].first.arrival;
        let first = || waiting(&queues[flow.index()], &self.slab);
        self.tree.move_flow_by(flow, lane, arrival, first)?;
        let mut held = Counted::default();
        if self.tree.is_active(flow) {
            let queue = &self.queues[flow.index()];
            held += Counted::one(queue.first.descriptor.len);
            let mut next = queue.second;
            while let Some(place) = self.slab.get(next as usize) {
                held += Counted::one(place.waiting.descriptor.len);
                next = place.next;
            }
        }
        self.lanes[from.index()].counters.enqueued -= held;
        self.lanes[lane.index()].counters.enqueued += held;
        Ok(())
    }
}

/// Removes the first descriptor of a queue and advances the second. Returns the latter's arrival number, if there is one.
#[inline]
fn advance(queue: &mut Queue, slab: &mut [Place], free: &mut u32) -> Option<u64> {
    let at = queue.second;
    // The slab's length is far below NONE, so an absent second descriptor is also past the end.
    let place = slab.get_mut(at as usize)?;
    queue.first = place.waiting;
    queue.second = place.next;
    place.next = *free;
    *free = at;
    Some(queue.first.arrival)
}

/// The first packet of a flow that no algorithm ordered so far, and what waits in the flow.
fn waiting(queue: &Queue, slab: &[Place]) -> FlowHead {
    let first = queue.first;
    let mut queued = one(Some(first.descriptor.len));
    let mut next = queue.second;
    while let Some(place) = slab.get(next as usize) {
        queued += Counted::one(place.waiting.descriptor.len);
        next = place.next;
    }
    let packet = Metadata::UNKNOWN.with(Metadatum::Length, first.descriptor.len.get());
    FlowHead { packet, arrival: first.arrival, queued }
}
