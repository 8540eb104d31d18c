//! The counters of the receive side, by stage, and the check of their balance.

use crate::counters::{Counter, Gauge};
use crate::port::PortDrops;
use weft_units::{Counted, Nanos, Packets};

/// The counters of one queue; written by one thread, read by any.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct QueueCounters {
    /// Packets steered to the queue.
    pub arrived: Counter,
    /// Packets dropped because the ring was full.
    pub dropped: Counter,
    /// Packets served and accepted by the host.
    pub delivered: Counter,
    /// Packets served and refused by the host's device.
    pub refused: Counter,
    /// Packets left in the ring when the NIC stopped.
    pub left: Counter,
    /// The greatest number of packets that the ring has held.
    pub most_held: Gauge,
}

impl QueueCounters {
    /// Reads the counters.
    pub fn totals(&self) -> QueueTotals {
        // The later stage is read first: a packet that moves in between counts as held, never as a surplus.
        let (delivered, refused) = (self.delivered.get(), self.refused.get());
        let dropped = self.dropped.get();
        QueueTotals {
            arrived: self.arrived.get(),
            dropped,
            delivered,
            refused,
            left: self.left.get(),
            most_held: Packets(self.most_held.get()),
        }
    }
}

/// A reading of a queue's counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct QueueTotals {
    /// Packets steered to the queue.
    pub arrived: Counted,
    /// Packets dropped because the ring was full.
    pub dropped: Counted,
    /// Packets served and accepted by the host.
    pub delivered: Counted,
    /// Packets served and refused by the host's device.
    pub refused: Counted,
    /// Packets left in the ring when the NIC stopped; 0 while it runs.
    pub left: Counted,
    /// The greatest number of packets that the ring has held.
    pub most_held: Packets,
}

impl QueueTotals {
    /// Packets served: accepted or refused by the host.
    pub fn served(&self) -> Counted {
        self.delivered + self.refused
    }

    /// Packets in the ring: arrived, and neither dropped nor served.
    pub fn held(&self) -> Packets {
        self.arrived.packets.saturating_sub(self.dropped.packets + self.served().packets)
    }
}

/// The counters of the whole receive side.
#[derive(Debug, Default)]
pub struct ReceiveCounters {
    /// Packets read from the wire.
    pub read: Counter,
    /// Frames shorter than an Ethernet header.
    pub runts: Counter,
    /// Packets dropped by a rule, or without a destination.
    pub filtered: Counter,
    /// Packets steered to a queue that the NIC does not have.
    pub misrouted: Counter,
    /// By queue.
    pub queues: Vec<QueueCounters>,
    /// Packets read from the host (towards the wire).
    pub rx: Counter,
    /// Packets refused by the wire (from the host).
    pub rx_refused: Counter,
    /// The processor time of the receive thread, in nanoseconds.
    pub cpu: Gauge,
    /// The number of replacements of the steering.
    pub generation: Gauge,
}

impl ReceiveCounters {
    /// Creates counters for `queues` queues.
    pub fn new(queues: u32) -> Self {
        Self { queues: (0..queues).map(|_| QueueCounters::default()).collect(), ..Self::default() }
    }
}

/// A reading of all counters.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReceiveTotals {
    /// Packets that the wire's sender transmitted, from the kernel's counters of its device.
    pub wire: Counted,
    /// Packets dropped by the kernel between the sender and the NIC.
    pub wire_drops: PortDrops,
    /// Packets read from the wire.
    pub read: Counted,
    /// Frames shorter than an Ethernet header.
    pub runts: Counted,
    /// Packets dropped by a rule, or without a destination.
    pub filtered: Counted,
    /// Packets steered to a queue that the NIC does not have.
    pub misrouted: Counted,
    /// By queue.
    pub queues: Vec<QueueTotals>,
    /// Packets that the host's device received from the NIC, from the kernel's counters.
    pub host: Counted,
    /// Packets read from the host (towards the wire).
    pub rx: Counted,
    /// Packets refused by the wire (from the host).
    pub rx_refused: Counted,
    /// The processor time of the receive thread.
    pub cpu: Nanos,
}

/// A stage whose balance is broken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{stage}: {entered} packets came in, {left} are accounted for")]
pub struct Imbalance {
    /// The stage.
    pub stage: &'static str,
    /// Packets that entered.
    pub entered: Packets,
    /// Packets that left, were dropped, or are held.
    pub left: Packets,
}

impl ReceiveTotals {
    /// The sum over the queues.
    pub fn sum(&self, pick: impl Fn(&QueueTotals) -> Packets) -> Packets {
        self.queues.iter().map(pick).fold(Packets(0), |sum, packets| sum + packets)
    }

    /// The sum over the queues, with bytes.
    pub fn total(&self, pick: impl Fn(&QueueTotals) -> Counted) -> Counted {
        self.queues.iter().map(pick).sum()
    }

    /// Checks the balance of every stage, from the kernel's counter of packets that entered the wire to its counter of
    /// packets that the host received. For readings after the NIC has stopped: while it runs, packets are between
    /// stages.
    ///
    /// # Errors
    /// The first stage whose balance is broken.
    pub fn check(&self) -> Result<(), Imbalance> {
        let same = |stage, entered: Packets, left: Packets| {
            if entered == left { Ok(()) } else { Err(Imbalance { stage, entered, left }) }
        };
        let drops = Packets(self.wire_drops.ring_full);
        same("wire to NIC", self.wire.packets, self.read.packets + drops)?;
        let unsteered = (self.runts + self.filtered) + self.misrouted;
        let steered = self.sum(|queue| queue.arrived.packets);
        same("steering", self.read.packets, unsteered.packets + steered)?;
        for queue in &self.queues {
            let gone = queue.dropped.packets + queue.served().packets;
            same("a receive queue", queue.arrived.packets, gone + queue.left.packets)?;
        }
        same("NIC to host", self.sum(|queue| queue.delivered.packets), self.host.packets)
    }
}
