//! Conservation: packets and bytes that entered a stage have left it, were dropped there, or are held.
//!
//! Passing packets are counted as they pass. Held packets are found at the end by walking the queues. The two sides share no
//! counter, so an unreported loss of a stage becomes visible.

use crate::packet::Packet;
use crate::segment::Segment;
use weft_facts::record::{self, Balance};
use weft_units::Counted;

/// The counters of a stage.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Passed {
    pub(crate) entered: Counted,
    pub(crate) left: Counted,
    pub(crate) dropped: Counted,
}

/// A part that holds packets. A host lists its stages in `Host::stages`, whose pattern names every field of a host: a new field
/// that is not listed there does not compile.
pub(crate) trait Stage {
    /// Its name in reports, in the plural: `qdiscs` of host 0 are `host 0 qdiscs`.
    fn name(&self) -> &'static str;

    /// Returns the stage's counters.
    fn passed(&self) -> &Passed;

    /// Returns the held packets, found by a walk over all of its queues.
    fn held(&self) -> Counted;
}

/// Returns the balance of a stage.
pub(crate) fn balance(place: &str, stage: &dyn Stage) -> record::Stage {
    let Passed { entered, left, dropped } = *stage.passed();
    let balance = Balance::of(entered, left, dropped, stage.held());
    record::Stage { name: format!("{place} {}", stage.name()), balance }
}

/// Returns the count of a packet.
pub(crate) fn of_packet(packet: &Packet) -> Counted {
    Counted::one(packet.bytes())
}

/// Returns the count of a segment.
#[inline]
pub(crate) fn of_segment(segment: &Segment) -> Counted {
    Counted::new(segment.packets.into(), segment.len.into())
}
