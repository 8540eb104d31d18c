//! One link in virtual time, driven by a scheduler.
//!
//! Packets are offered in the order of their arrival. Whenever the link is free, the scheduler provides the next one. There is no
//! clock: time follows from the arrivals and the link's rate, so a run is a pure function of its input. The scheduler decides at
//! time `t` with every arrival up to and including `t` in its queues.
//!
//! Not done here: reading packets, classifying them, modelling the host.

use weft_packet::ethernet;
use weft_units::LinkTransmitter;
use weft_units::{BitsPerSec, Bytes, FlowId, LaneId, Nanos, Packets, Weight};

/// The link's requirements for a scheduler. Implemented by the engine; tests use slow reference schedulers.
pub trait Scheduler {
    /// The reason for a refusal.
    type Refused;

    /// Returns the reason as one of a few fixed texts, which are the keys of the counts of drops.
    fn reason(refused: &Self::Refused) -> &'static str;

    /// Adds a flow to a lane.
    ///
    /// # Errors
    /// The scheduler has no such lane or no room for another flow.
    fn add_flow(&mut self, lane: LaneId, weight: Weight) -> Result<FlowId, Self::Refused>;

    /// Queues a packet of `len` bytes. `dequeue` returns its `handle`.
    ///
    /// # Errors
    /// The packet is not queued: a bound is reached, or the flow is unknown.
    fn enqueue(&mut self, flow: FlowId, len: Bytes, handle: u64, now: Nanos) -> Result<(), Self::Refused>;

    /// Returns the packet to send at `now`, which never decreases.
    fn dequeue(&mut self, now: Nanos) -> LinkDequeue;

    /// The number of queued packets.
    fn held(&self) -> Packets;
}

/// A scheduler's answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkDequeue {
    /// Send this packet.
    Packet {
        /// Its flow.
        flow: FlowId,
        /// Its lane.
        lane: LaneId,
        /// Its length when it was queued.
        len: Bytes,
        /// Its handle when it was queued.
        handle: u64,
        /// Whether it is to be marked as having experienced congestion.
        marked: bool,
    },
    /// The scheduler has dropped this packet. The next decision is at the same time.
    Drop {
        /// Its lane.
        lane: LaneId,
        /// Its handle when it was queued.
        handle: u64,
    },
    /// Rate limits hold back all queued packets; none may be sent before this time.
    Wait(Nanos),
    /// Nothing is queued.
    Empty,
}

/// The overhead of a frame on a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Framing {
    /// Shorter frames are padded to this length.
    pub frame_min: Bytes,
    /// Overhead of every frame after padding.
    pub overhead: Bytes,
}

impl Framing {
    /// Ethernet, with frames given without their check sequence ([`weft_packet::ethernet`]).
    pub const ETHERNET: Self = Self { frame_min: ethernet::FRAME_MIN, overhead: ethernet::AROUND };
    /// No overhead.
    pub const NONE: Self = Self { frame_min: Bytes::ZERO, overhead: Bytes::ZERO };

    /// Returns the bytes that a frame of `len` bytes occupies on the link.
    pub fn wire_bytes(&self, len: Bytes) -> Bytes {
        len.max(self.frame_min) + self.overhead
    }
}

/// A sent packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentPacket {
    /// Departure of its first bit: the time of the scheduler's decision.
    pub start: Nanos,
    /// End of its transmission, with [`Framing`]; the link is free again. Rounded down to whole nanoseconds. The fraction is
    /// carried within a busy period, so that the rate holds over any number of packets.
    pub end: Nanos,
    /// Its lane.
    pub lane: LaneId,
    /// Its flow.
    pub flow: FlowId,
    /// Its length, without framing.
    pub len: Bytes,
    /// Its handle.
    pub handle: u64,
    /// Whether the scheduler marked it as having experienced congestion.
    pub marked: bool,
}

/// The end of a packet's time in the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketFate {
    /// It was sent.
    Sent(SentPacket),
    /// The scheduler dropped it in place of sending it.
    Dropped {
        /// The time of the scheduler's decision.
        at: Nanos,
        /// Its lane.
        lane: LaneId,
        /// Its handle.
        handle: u64,
    },
}

impl PacketFate {
    /// Returns the departure; `None` for a packet that was dropped.
    pub const fn sent(self) -> Option<SentPacket> {
        match self {
            Self::Sent(departure) => Some(departure),
            Self::Dropped { .. } => None,
        }
    }
}

/// A link in virtual time.
#[derive(Clone, Debug)]
pub struct VirtualLink<S> {
    scheduler: S,
    framing: Framing,
    wire: LinkTransmitter,
    /// Time of the scheduler's next decision; [`Nanos::MAX`] while nothing is queued.
    next: Nanos,
    /// The latest arrival.
    now: Nanos,
}

impl<S: Scheduler> VirtualLink<S> {
    /// Creates a free link; `None` for a rate of zero, on which nothing would ever leave.
    pub fn new(scheduler: S, rate: BitsPerSec, framing: Framing) -> Option<Self> {
        let wire = LinkTransmitter::new(rate)?;
        Some(Self { scheduler, framing, wire, next: Nanos::MAX, now: Nanos::ZERO })
    }

    /// Returns the scheduler.
    pub const fn scheduler(&self) -> &S {
        &self.scheduler
    }

    /// Returns the scheduler, for adding flows.
    pub const fn scheduler_mut(&mut self) -> &mut S {
        &mut self.scheduler
    }

    /// Returns the time at which the link is free: the end of the last departure.
    pub const fn free_at(&self) -> Nanos {
        self.wire.free_at()
    }

    /// Offers a packet that arrives at `at`; a time before the last arrival counts as the last arrival. The fates of all packets that
    /// left the scheduler before are first passed to `left`.
    ///
    /// # Errors
    /// The scheduler refused the packet.
    pub fn arrive(
        &mut self,
        at: Nanos,
        (flow, len, handle): (FlowId, Bytes, u64),
        left: impl FnMut(PacketFate),
    ) -> Result<(), S::Refused> {
        let at = at.max(self.now);
        self.run_until(at, left);
        self.scheduler.enqueue(flow, len, handle, at)?;
        self.next = self.next.min(self.wire.free_at().max(at));
        Ok(())
    }

    /// Sends or drops all packets on which the scheduler decides before `until`. A decision at `until` itself may depend on arrivals at
    /// that time, and is postponed.
    pub fn run_until(&mut self, until: Nanos, mut left: impl FnMut(PacketFate)) {
        while self.next < until {
            if let Some(fate) = self.decide() {
                left(fate);
            }
        }
        self.now = self.now.max(until);
    }

    /// Sends or drops all queued packets.
    pub fn drain(&mut self, left: impl FnMut(PacketFate)) {
        let now = self.now;
        self.run_until(Nanos::MAX, left);
        self.now = now.max(self.wire.free_at());
    }

    /// Makes one decision of the scheduler, at `next`.
    fn decide(&mut self) -> Option<PacketFate> {
        let start = self.next;
        match self.scheduler.dequeue(start) {
            LinkDequeue::Packet { flow, lane, len, handle, marked } => {
                let end = self.wire.transmit(start, self.framing.wire_bytes(len));
                self.next = end;
                Some(PacketFate::Sent(SentPacket { start, end, lane, flow, len, handle, marked }))
            }
            LinkDequeue::Drop { lane, handle } => Some(PacketFate::Dropped { at: start, lane, handle }),
            LinkDequeue::Wait(time) => {
                // A time in the past would be requested forever.
                self.next = time.max(start + Nanos(1));
                None
            }
            LinkDequeue::Empty => {
                self.next = Nanos::MAX;
                None
            }
        }
    }
}
