//! What the receive side counts, by stage, and whether it adds up.

use crate::counters::{Count, Counter, Gauge};
use crate::port::PortDrops;
use weft_units::{Nanos, Packets};

/// What one queue counts; one thread writes, anybody reads.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct QueueCounters {
    /// Steered to it.
    pub arrived: Counter,
    /// Found its ring full.
    pub dropped: Counter,
    /// Served, and taken by the host.
    pub delivered: Counter,
    /// Served, and refused by the host's device.
    pub refused: Counter,
    /// Found in its ring when the NIC stopped.
    pub left: Counter,
    /// The most packets that its ring has held.
    pub most_held: Gauge,
}

impl QueueCounters {
    /// A reading.
    pub fn totals(&self) -> QueueTotals {
        // What comes later is read first: a packet that moves on meanwhile is counted as held, never as one too many.
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
    /// Steered to it.
    pub arrived: Count,
    /// Found its ring full.
    pub dropped: Count,
    /// Served, and taken by the host.
    pub delivered: Count,
    /// Served, and refused by the host's device.
    pub refused: Count,
    /// Found in its ring when the NIC stopped; 0 while it runs.
    pub left: Count,
    /// The most packets that its ring has held.
    pub most_held: Packets,
}

impl QueueTotals {
    /// Served: taken or refused by the host.
    pub fn served(&self) -> Count {
        self.delivered.plus(self.refused)
    }

    /// In the ring now: what came and has not gone.
    pub fn held(&self) -> Packets {
        self.arrived.packets.saturating_sub(self.dropped.packets + self.served().packets)
    }
}

/// What the whole receive side counts.
#[derive(Debug, Default)]
pub struct ReceiveCounters {
    /// Read from the wire.
    pub read: Counter,
    /// Shorter than an Ethernet header.
    pub runts: Counter,
    /// Dropped by a rule, or with nowhere to go.
    pub filtered: Counter,
    /// Steered to a queue that the NIC does not have.
    pub misrouted: Counter,
    /// By queue.
    pub queues: Vec<QueueCounters>,
    /// The other direction: read from the host.
    pub reverse: Counter,
    /// The other direction: refused by the wire.
    pub reverse_refused: Counter,
    /// Processor time that the receive thread has used, in nanoseconds.
    pub cpu: Gauge,
    /// The steering that is in force: how often it was replaced.
    pub generation: Gauge,
}

impl ReceiveCounters {
    /// Counters for `queues` queues.
    pub fn new(queues: u32) -> Self {
        Self { queues: (0..queues).map(|_| QueueCounters::default()).collect(), ..Self::default() }
    }
}

/// A reading of everything.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReceiveTotals {
    /// What the wire's sender transmitted into the wire, by the kernel's counters of its device.
    pub wire: Count,
    /// What the kernel dropped between there and the NIC.
    pub wire_drops: PortDrops,
    /// Read from the wire.
    pub read: Count,
    /// Shorter than an Ethernet header.
    pub runts: Count,
    /// Dropped by a rule, or with nowhere to go.
    pub filtered: Count,
    /// Steered to a queue that the NIC does not have.
    pub misrouted: Count,
    /// By queue.
    pub queues: Vec<QueueTotals>,
    /// What the host's device received from the NIC, by the kernel's counters.
    pub host: Count,
    /// The other direction: read from the host.
    pub reverse: Count,
    /// The other direction: refused by the wire.
    pub reverse_refused: Count,
    /// Processor time of the receive thread.
    pub cpu: Nanos,
}

/// A stage whose ins and outs differ.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{stage}: {entered} packets came in, {left} are accounted for")]
pub struct Imbalance {
    /// Which one.
    pub stage: &'static str,
    /// What came in.
    pub entered: Packets,
    /// What went out, was dropped, or is held.
    pub left: Packets,
}

impl ReceiveTotals {
    /// The sum over the queues.
    pub fn sum(&self, pick: impl Fn(&QueueTotals) -> Packets) -> Packets {
        self.queues.iter().map(pick).fold(Packets(0), |sum, packets| sum + packets)
    }

    /// The sum over the queues, with bytes.
    pub fn total(&self, pick: impl Fn(&QueueTotals) -> Count) -> Count {
        self.queues.iter().map(pick).fold(Count::default(), Count::plus)
    }

    /// Checks that no packet was lost or made at any stage, from the kernel's counter of what entered the wire to its counter of
    /// what the host received. For readings after the NIC has stopped: while it runs, packets are between stages.
    ///
    /// # Errors
    /// The first stage that does not add up.
    pub fn check(&self) -> Result<(), Imbalance> {
        let same = |stage, entered: Packets, left: Packets| {
            if entered == left { Ok(()) } else { Err(Imbalance { stage, entered, left }) }
        };
        let drops = Packets(self.wire_drops.ring_full);
        same("wire to NIC", self.wire.packets, self.read.packets + drops)?;
        let unsteered = self.runts.plus(self.filtered).plus(self.misrouted);
        let steered = self.sum(|queue| queue.arrived.packets);
        same("steering", self.read.packets, unsteered.packets + steered)?;
        for queue in &self.queues {
            let gone = queue.dropped.packets + queue.served().packets;
            same("a receive queue", queue.arrived.packets, gone + queue.left.packets)?;
        }
        same("NIC to host", self.sum(|queue| queue.delivered.packets), self.host.packets)
    }
}
