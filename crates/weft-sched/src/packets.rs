//! The descriptor layer: a policy tree whose flows hold their packets here.
//!
//! A thin wrapper: a flow is backlogged exactly while its FIFO holds a descriptor, and a dequeue is one turn that begins
//! and ends at the same time. The first descriptor of a flow lies in the flow's own record, so a flow that holds one
//! packet at a time (the common case: the rest waits in the socket) touches no other memory; the others are linked
//! through a slab whose free places are used again, last freed first.

use thiserror::Error;
use weft_units::{BitsPerSec, Bytes, ClassId, FlowId, Instant, LaneId, LimitId, Packets, Weight};

use crate::program::Program;
use crate::tree::{FlowError, InvariantError, Next, PolicyTree, RateError};
use crate::validate::ProgramError;

/// A packet or segment that waits elsewhere: its length, and whatever its owner needs to find it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Descriptor {
    /// How many bytes it is charged for.
    pub len: Bytes,
    /// The owner's handle; the scheduler only carries it.
    pub handle: u64,
}

/// A packet that comes in, for [`PacketScheduler::enqueue_burst`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrival {
    /// Its flow.
    pub flow: FlowId,
    /// The packet.
    pub descriptor: Descriptor,
}

/// A packet whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Departure {
    /// Its flow.
    pub flow: FlowId,
    /// Its lane.
    pub lane: LaneId,
    /// The packet.
    pub descriptor: Descriptor,
}

/// What a dequeue gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeue {
    /// Send this packet.
    Packet(Departure),
    /// All that waits is rate-limited; nothing may be sent before this time.
    Wait(Instant),
    /// Nothing waits.
    Empty,
}

/// Why a burst ended where it did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BurstEnd {
    /// The caller's slice is full.
    Full,
    /// All that still waits is rate-limited until this time.
    Wait(Instant),
    /// Nothing waits any more.
    Empty,
}

/// Why a packet was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// As many packets of the lane wait as its bound allows.
    #[error(
        "class {class} full: {bound} packets of lane {lane} wait; send later or raise the lane's packet bound"
    )]
    ClassFull {
        /// The class that the packet belongs to.
        class: ClassId,
        /// Its lane.
        lane: LaneId,
        /// The lane's bound.
        bound: Packets,
    },
    /// There is no such flow, or it was removed.
    #[error("flow {given} does not exist (or no more); add it before sending")]
    UnknownFlow {
        /// The flow that was given.
        given: FlowId,
    },
}

/// A number of packets and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// How many packets.
    pub packets: Packets,
    /// Their bytes.
    pub bytes: Bytes,
}

impl Traffic {
    #[inline]
    fn add(&mut self, len: Bytes) {
        self.packets += Packets(1);
        self.bytes += len;
    }
}

/// What happened to a lane's packets since the start. Offered = enqueued + refused; enqueued = dequeued + held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaneCounters {
    /// Taken in.
    pub enqueued: Traffic,
    /// Given out.
    pub dequeued: Traffic,
    /// Refused because the class was full.
    pub refused: Traffic,
}

impl LaneCounters {
    /// What waits.
    #[inline]
    pub fn held(&self) -> Traffic {
        Traffic {
            packets: self.enqueued.packets.saturating_sub(self.dequeued.packets),
            bytes: self.enqueued.bytes.saturating_sub(self.dequeued.bytes),
        }
    }
}

/// "No descriptor".
const NONE: u32 = u32::MAX;

/// From how many flows on a burst reads ahead: their records no longer fit into a second-level cache of 2 MB.
const TOUCH_FROM: usize = 1 << 15;

/// A descriptor with the number of its arrival: 24 bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    descriptor: Descriptor,
    arrival: u64,
}

/// A flow's FIFO: 32 bytes.
#[derive(Clone, Debug)]
struct Queue {
    /// The first descriptor, valid while the flow is backlogged.
    first: Waiting,
    /// The second and the last one in the slab, or [`NONE`].
    second: u32,
    last: u32,
}

/// A place in the slab: 32 bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    waiting: Waiting,
    /// The next of the same flow, or the next free place.
    next: u32,
}

/// A lane's counters and bound: one cache line.
#[derive(Clone, Debug)]
struct LaneState {
    counters: LaneCounters,
    bound: Packets,
    class: ClassId,
}

/// A packet scheduler: the policy tree with its packets.
#[derive(Debug)]
pub struct PacketScheduler {
    tree: PolicyTree,
    queues: Vec<Queue>,
    slab: Vec<Place>,
    /// First free place of the slab, or [`NONE`].
    free: u32,
    lanes: Vec<LaneState>,
}

impl PacketScheduler {
    /// A scheduler that runs `program`, with no flows.
    ///
    /// # Errors
    /// As [`PolicyTree::new`].
    pub fn new(program: &Program) -> Result<Self, ProgramError> {
        let tree = PolicyTree::new(program)?;
        let lane = |spec: &crate::program::LaneSpec| LaneState {
            counters: LaneCounters::default(),
            bound: spec.packet_bound,
            class: spec.class,
        };
        let lanes = program.lanes.iter().map(lane).collect();
        Ok(Self { tree, queues: Vec::new(), slab: Vec::new(), free: NONE, lanes })
    }

    /// Makes room for `packets` waiting packets beyond one per flow. Without it the slab grows to the largest number
    /// that ever waited and allocates while it grows.
    pub fn reserve(&mut self, packets: Packets) {
        let total = usize::try_from(packets.get()).unwrap_or(usize::MAX).min(NONE as usize);
        self.slab.reserve(total.saturating_sub(self.slab.len()));
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

    /// Takes a packet of `flow` in at `now`. None of today's disciplines ranks by the time of arrival; it is part of the
    /// interface for those that will.
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
        let _ = now;
        let lane = self.tree.lane_of(flow).ok_or(EnqueueError::UnknownFlow { given: flow })?;
        let state = &mut self.lanes[lane.index()];
        if state.counters.held().packets >= state.bound {
            state.counters.refused.add(descriptor.len);
            return Err(EnqueueError::ClassFull { class: state.class, lane, bound: state.bound });
        }
        state.counters.enqueued.add(descriptor.len);
        let arrival = self.tree.tick();
        let waiting = Waiting { descriptor, arrival };
        if self.tree.is_active(flow) {
            self.append(flow, waiting);
        } else {
            self.queues[flow.index()].first = waiting;
            self.tree.activate_at(flow, arrival);
        }
        Ok(())
    }

    /// The packet whose turn it is at `now`; it is charged as sent at `now`.
    #[inline]
    pub fn dequeue(&mut self, now: Instant) -> Dequeue {
        let turn = match self.tree.next(now) {
            Next::Turn(turn) => turn,
            Next::Wait(until) => return Dequeue::Wait(until),
            Next::Idle => return Dequeue::Empty,
        };
        let (flow, lane) = (turn.flow(), turn.lane());
        let descriptor = self.queues[flow.index()].first.descriptor;
        let next = self.advance(flow);
        let finished = self.tree.finish_at(turn, (descriptor.len, descriptor.len), next, now);
        debug_assert!(finished.is_ok(), "a turn begun here is the outstanding one");
        self.lanes[lane.index()].counters.dequeued.add(descriptor.len);
        Dequeue::Packet(Departure { flow, lane, descriptor })
    }

    /// Takes a burst in, all at `now`. Calls `refused` with the position and the reason of each packet that was not
    /// taken; returns how many were.
    pub fn enqueue_burst(
        &mut self,
        burst: &[Arrival],
        now: Instant,
        mut refused: impl FnMut(usize, EnqueueError),
    ) -> usize {
        self.touch(burst);
        let mut taken = 0;
        for (at, arrival) in burst.iter().enumerate() {
            match self.enqueue(arrival.flow, arrival.descriptor, now) {
                Ok(()) => taken += 1,
                Err(error) => refused(at, error),
            }
        }
        taken
    }

    /// Fills `out` from the front, all at `now`. Returns how many packets were written and why it stopped.
    pub fn dequeue_burst(&mut self, out: &mut [Departure], now: Instant) -> (usize, BurstEnd) {
        for (at, place) in out.iter_mut().enumerate() {
            match self.dequeue(now) {
                Dequeue::Packet(departure) => *place = departure,
                Dequeue::Wait(until) => return (at, BurstEnd::Wait(until)),
                Dequeue::Empty => return (at, BurstEnd::Empty),
            }
        }
        (out.len(), BurstEnd::Full)
    }

    /// Reads what the burst's flows will need, so that their cache misses overlap instead of following each other: a
    /// prefetch in safe code. Not worth its instructions while the flows fit into the cache.
    #[inline]
    fn touch(&self, burst: &[Arrival]) {
        if self.queues.len() < TOUCH_FROM {
            return;
        }
        let mut seen = 0;
        for arrival in burst {
            seen ^= self.tree.lane_of(arrival.flow).map_or(0, |lane| lane.0);
            seen ^= self.queues.get(arrival.flow.index()).map_or(0, |queue| queue.last);
        }
        core::hint::black_box(seen);
    }

    /// Appends to a flow that holds at least one descriptor.
    #[inline]
    fn append(&mut self, flow: FlowId, waiting: Waiting) {
        let at = self.allocate(Place { waiting, next: NONE });
        let queue = &mut self.queues[flow.index()];
        if queue.second == NONE {
            queue.second = at;
        } else {
            self.slab[queue.last as usize].next = at;
        }
        queue.last = at;
    }

    /// Drops the first descriptor of `flow` and moves the second up. Returns its arrival number, if there is one.
    #[inline]
    fn advance(&mut self, flow: FlowId) -> Option<u64> {
        let queue = &mut self.queues[flow.index()];
        let at = queue.second;
        // The slab's length is far below NONE, so this is also the test for "no second".
        let place = self.slab.get_mut(at as usize)?;
        queue.first = place.waiting;
        queue.second = place.next;
        place.next = self.free;
        self.free = at;
        Some(queue.first.arrival)
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

    /// The counters of `lane`, or `None` if there is no such lane.
    pub fn counters(&self, lane: LaneId) -> Option<&LaneCounters> {
        self.lanes.get(lane.index()).map(|state| &state.counters)
    }

    /// How many packets wait in all lanes.
    pub fn held(&self) -> Packets {
        self.lanes.iter().map(|state| state.counters.held().packets).sum()
    }

    /// Checks conservation (per lane, what was taken in = what was given out + what its queues hold now, packets and
    /// bytes, counted by walking them) and the invariants of the tree. Linear in flows and packets.
    ///
    /// # Errors
    /// The first broken invariant. Any error is a fault of this crate.
    pub fn check_invariants(&self) -> Result<(), InvariantError> {
        self.tree.check_invariants()?;
        let mut walked = vec![Traffic::default(); self.lanes.len()];
        let mut in_slab = 0;
        for (at, queue) in self.queues.iter().enumerate() {
            let flow = FlowId::from_index(at);
            let Some(lane) = self.tree.lane_of(flow).filter(|_| self.tree.is_active(flow)) else { continue };
            walked[lane.index()].add(queue.first.descriptor.len);
            let mut next = queue.second;
            while let Some(place) = self.slab.get(next as usize) {
                walked[lane.index()].add(place.waiting.descriptor.len);
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
