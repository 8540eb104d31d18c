//! One link in virtual time, driven by a scheduler.
//!
//! Packets are offered in the order of their arrival; whenever the link is free, the scheduler is asked for the next one.
//! There is no clock: time is that of the arrivals and of what the link's rate makes of them, so a run is a pure function
//! of its input. The scheduler decides at time `t` with every arrival up to and including `t` in its queues.
//!
//! Does not: read packets, classify them, or model the host.

use crate::link_transmitter::LinkTransmitter;
use weft_packet::ethernet;
use weft_units::{BitsPerSec, Bytes, FlowId, LaneId, Nanos, Packets, Weight};

/// What the link needs of a scheduler. Implemented by the engine; tests have slow and obvious ones.
pub trait Scheduler {
    /// Why something was refused.
    type Refused;

    /// The reason in a few fixed words, by which drops are counted.
    fn reason(refused: &Self::Refused) -> &'static str;

    /// Adds a flow to a lane.
    ///
    /// # Errors
    /// The scheduler has no such lane or no room for another flow.
    fn add_flow(&mut self, lane: LaneId, weight: Weight) -> Result<FlowId, Self::Refused>;

    /// Queues a packet of `len` bytes. `handle` comes back when it is dequeued.
    ///
    /// # Errors
    /// The packet is not queued: a bound is reached, or the flow is unknown.
    fn enqueue(&mut self, flow: FlowId, len: Bytes, handle: u64, now: Nanos) -> Result<(), Self::Refused>;

    /// What may be sent at `now`, which never goes back.
    fn dequeue(&mut self, now: Nanos) -> Dequeue;

    /// How many packets are queued.
    fn held(&self) -> Packets;
}

/// A scheduler's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dequeue {
    /// Send this packet.
    Packet {
        /// Its flow.
        flow: FlowId,
        /// Its lane.
        lane: LaneId,
        /// Its length, as it was queued.
        len: Bytes,
        /// Its handle, as it was queued.
        handle: u64,
    },
    /// Rate limits hold back all that is queued; nothing may be sent before this time.
    Wait(Nanos),
    /// Nothing is queued.
    Empty,
}

/// What a frame occupies on a link beyond its own bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// Shorter frames are padded to this length.
    pub frame_min: Bytes,
    /// What is added to every frame after padding.
    pub overhead: Bytes,
}

impl Framing {
    /// Ethernet, frames given without their check sequence ([`weft_packet::ethernet`]).
    pub const ETHERNET: Self = Self { frame_min: ethernet::FRAME_MIN, overhead: ethernet::AROUND };
    /// Nothing is added.
    pub const NONE: Self = Self { frame_min: Bytes::ZERO, overhead: Bytes::ZERO };

    /// What a frame of `len` bytes occupies.
    pub fn wire_bytes(&self, len: Bytes) -> Bytes {
        len.max(self.frame_min) + self.overhead
    }
}

/// A packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Departure {
    /// When its first bit left: the time of the scheduler's decision.
    pub start: Nanos,
    /// When the link was free again: its frame and [`Framing`] have passed. Rounded down to whole nanoseconds; the fraction
    /// is carried within a busy period, so that the rate holds over any number of packets.
    pub end: Nanos,
    /// Its lane.
    pub lane: LaneId,
    /// Its flow.
    pub flow: FlowId,
    /// Its length, without framing.
    pub len: Bytes,
    /// Its handle.
    pub handle: u64,
}

/// A link in virtual time.
#[derive(Clone, Debug)]
pub struct VirtualLink<S> {
    scheduler: S,
    framing: Framing,
    wire: LinkTransmitter,
    /// When the scheduler is asked next; [`Nanos::MAX`] while nothing is queued.
    next: Nanos,
    /// The latest arrival.
    now: Nanos,
}

impl<S: Scheduler> VirtualLink<S> {
    /// A free link; `None` for a rate of zero, on which nothing would ever leave.
    pub fn new(scheduler: S, rate: BitsPerSec, framing: Framing) -> Option<Self> {
        let wire = LinkTransmitter::new(rate)?;
        Some(Self { scheduler, framing, wire, next: Nanos::MAX, now: Nanos::ZERO })
    }

    /// The scheduler.
    pub const fn scheduler(&self) -> &S {
        &self.scheduler
    }

    /// The scheduler, to add flows.
    pub const fn scheduler_mut(&mut self) -> &mut S {
        &mut self.scheduler
    }

    /// When the link is free: the end of the last departure.
    pub const fn free_at(&self) -> Nanos {
        self.wire.free_at()
    }

    /// Offers a packet that arrives at `at`; an earlier time than that of the last arrival counts as that one. Everything
    /// that leaves before is given to `departed` first.
    ///
    /// # Errors
    /// The scheduler refused the packet.
    pub fn arrive(
        &mut self,
        at: Nanos,
        (flow, len, handle): (FlowId, Bytes, u64),
        departed: impl FnMut(Departure),
    ) -> Result<(), S::Refused> {
        let at = at.max(self.now);
        self.run_until(at, departed);
        self.scheduler.enqueue(flow, len, handle, at)?;
        self.next = self.next.min(self.wire.free_at().max(at));
        Ok(())
    }

    /// Sends what the scheduler decides to send before `until`. What it decides at `until` itself may depend on arrivals at
    /// that time and is left for later.
    pub fn run_until(&mut self, until: Nanos, mut departed: impl FnMut(Departure)) {
        while self.next < until {
            if let Some(departure) = self.decide() {
                departed(departure);
            }
        }
        self.now = self.now.max(until);
    }

    /// Sends all that is queued.
    pub fn drain(&mut self, departed: impl FnMut(Departure)) {
        let now = self.now;
        self.run_until(Nanos::MAX, departed);
        self.now = now.max(self.wire.free_at());
    }

    /// Asks the scheduler once, at `next`.
    fn decide(&mut self) -> Option<Departure> {
        let start = self.next;
        match self.scheduler.dequeue(start) {
            Dequeue::Packet { flow, lane, len, handle } => {
                let end = self.wire.transmit(start, self.framing.wire_bytes(len));
                self.next = end;
                Some(Departure { start, end, lane, flow, len, handle })
            }
            Dequeue::Wait(time) => {
                // A time that has come would be asked for again and again.
                self.next = time.max(start + Nanos(1));
                None
            }
            Dequeue::Empty => {
                self.next = Nanos::MAX;
                None
            }
        }
    }
}
