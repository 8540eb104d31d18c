//! Conservation: packets and bytes that entered a stage have left it, were dropped there, or are held.
//!
//! Passing packets are counted as they pass. Held packets are found at the end by walking the queues. The two sides share no
//! counter, so an unreported loss of a stage becomes visible.

use crate::outcome::{Amount, StageBalance};
use crate::packet::Packet;
use crate::segment::Segment;
use weft_units::{Bytes, Packets};

/// The counters of a stage.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Passed {
    pub(crate) entered: Amount,
    pub(crate) left: Amount,
    pub(crate) dropped: Amount,
}

/// A part that holds packets. A host lists its stages in `Host::stages`, whose pattern names every field of a host: a new field
/// that is not listed there does not compile.
pub(crate) trait Stage {
    /// Its name in reports, in the plural: `qdiscs` of host 0 are `host 0 qdiscs`.
    fn name(&self) -> &'static str;

    /// Returns the stage's counters.
    fn passed(&self) -> &Passed;

    /// Returns the held packets, found by a walk over all of its queues.
    fn held(&self) -> Amount;
}

/// Returns the balance of a stage.
pub(crate) fn balance(place: &str, stage: &dyn Stage) -> StageBalance {
    let Passed { entered, left, dropped } = *stage.passed();
    StageBalance { name: format!("{place} {}", stage.name()), entered, left, dropped, held: stage.held() }
}

impl Amount {
    /// The amount of one packet.
    pub(crate) fn of_packet(packet: &Packet) -> Self {
        Self { packets: Packets(1), bytes: packet.bytes() }
    }

    /// Adds packets and bytes.
    #[inline]
    pub(crate) fn count(&mut self, packets: u64, bytes: u64) {
        self.packets += Packets(packets);
        self.bytes += Bytes(bytes);
    }

    /// Adds a segment.
    #[inline]
    pub(crate) fn count_segment(&mut self, segment: &Segment) {
        self.count(segment.packets.into(), segment.len.into());
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
    }

    /// Removes a part.
    pub(crate) fn remove(&mut self, part: Self) {
        self.packets -= part.packets;
        self.bytes -= part.bytes;
    }
}
