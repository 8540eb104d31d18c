//! Numbers and small words that the parts of the planner's state share.

use weft_packet::HeaderMatch;

/// A flow's place in the planner's state. It is given to another flow once its own has left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::search) struct Slot(pub(super) u32);

impl Slot {
    /// The last of all, which no flow has.
    pub(in crate::search) const MAX: Self = Self(u32::MAX);
    /// The first of all.
    pub(in crate::search) const MIN: Self = Self(0);

    /// The slot of a place in a list.
    pub(in crate::search) const fn from_index(index: usize) -> Self {
        Self(index as u32)
    }

    /// The place in a list by slot.
    pub(in crate::search) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A steering entry's number. That of a rule is used again once the rule is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::search) struct EntryId(pub(super) u32);

impl EntryId {
    /// The queue of packets that nothing takes.
    pub(in crate::search) const DEFAULT: Self = Self(0);
    /// The hash as a whole, for flows with wildcards.
    pub(in crate::search) const SPREAD: Self = Self(1);
    /// The first entry of the indirection table.
    const INDIRECTION: u32 = 2;

    /// An entry of the indirection table.
    pub(in crate::search) const fn indirection(place: u32) -> Self {
        Self(Self::INDIRECTION + place)
    }

    /// The place in the indirection table, also of numbers beyond its end.
    pub(in crate::search) fn place(self) -> Option<usize> {
        self.0.checked_sub(Self::INDIRECTION).map(|place| place as usize)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whether a flow came to another queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::search) enum QueueChange {
    /// It is where it was last.
    Same,
    /// It is elsewhere, or was nowhere.
    Other,
}

/// How much a rule holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::search) enum RuleShape {
    /// One five-tuple.
    FiveTuple,
    /// More than that.
    Wildcards,
}

impl RuleShape {
    /// The shape of a rule for these packets.
    pub(in crate::search) fn of(headers: &HeaderMatch) -> Self {
        if headers.flow().is_some() { Self::FiveTuple } else { Self::Wildcards }
    }
}
