//! Conservation: packets and bytes that entered a stage have left it, were dropped there, or are held.
//!
//! What passes is counted as it passes; what is held is found at the end by walking what lies there. The two sides share no counter,
//! so a packet that a stage loses without saying so shows.

use crate::outcome::{Amount, StageBalance};
use crate::segment::Segment;
use weft_units::{Bytes, Packets};

/// What a stage counts as things pass.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Passed {
    pub(crate) entered: Amount,
    pub(crate) left: Amount,
    pub(crate) dropped: Amount,
}

/// A part that holds packets. A host lists its own in `Host::stages`, whose pattern names every part of a host: one that is added
/// there and not listed does not compile.
pub(crate) trait Stage {
    /// Its name in reports, in the plural: `qdiscs` of host 0 are `host 0 qdiscs`.
    fn name(&self) -> &'static str;

    /// What it counted.
    fn passed(&self) -> &Passed;

    /// What it holds, found by looking at every packet where it lies.
    fn held(&self) -> Amount;
}

/// The balance of a stage.
pub(crate) fn balance(place: &str, stage: &dyn Stage) -> StageBalance {
    let Passed { entered, left, dropped } = *stage.passed();
    StageBalance { name: format!("{place} {}", stage.name()), entered, left, dropped, held: stage.held() }
}

impl Amount {
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
}
