//! Identifiers and small enums shared by the parts of the planner's state.

use weft_packet::HeaderMatch;

/// A flow's index in the planner's state. It is reused after the flow is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::search) struct Slot(pub(super) u32);

impl Slot {
    /// The greatest slot, which no flow has.
    pub(in crate::search) const MAX: Self = Self(u32::MAX);
    /// The smallest slot.
    pub(in crate::search) const MIN: Self = Self(0);

    /// Returns the slot of an index.
    pub(in crate::search) const fn from_index(index: usize) -> Self {
        Self(index as u32)
    }

    /// Returns the index of the slot.
    pub(in crate::search) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A steering entry's number. A rule's number is reused after the rule is removed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in crate::search) struct EntryId(pub(super) u32);

impl EntryId {
    /// The queue of packets that match no rule and are not hashed.
    pub(in crate::search) const DEFAULT: Self = Self(0);
    /// The hash as a whole, for flows with wildcards.
    pub(in crate::search) const SPREAD: Self = Self(1);
    /// The first entry of the indirection table.
    const INDIRECTION: u32 = 2;

    /// Returns an entry of the indirection table.
    pub(in crate::search) const fn indirection(place: u32) -> Self {
        Self(Self::INDIRECTION + place)
    }

    /// Returns the index in the indirection table, without a check of its end.
    pub(in crate::search) fn place(self) -> Option<usize> {
        self.0.checked_sub(Self::INDIRECTION).map(|place| place as usize)
    }

    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Whether a flow's queue changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::search) enum QueueChange {
    /// The queue is the previous one.
    Same,
    /// The queue differs, or the flow had none.
    Other,
}

/// The extent of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::search) enum RuleShape {
    /// One five-tuple.
    FiveTuple,
    /// More than one five-tuple.
    Wildcards,
}

impl RuleShape {
    /// Returns the shape of a rule for these packets.
    pub(in crate::search) fn of(headers: &HeaderMatch) -> Self {
        if headers.flow().is_some() { Self::FiveTuple } else { Self::Wildcards }
    }
}
