//! The entries of PIFOs.

/// The absence of a place.
pub(crate) const NO_PLACE: u32 = u32::MAX;

/// An entry of a PIFO: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The rank; the smallest leaves first.
    pub(crate) rank: u64,
    /// The order of insertion, which decides between equal ranks.
    pub(crate) tie: u64,
    /// The referenced flow or lane, below `u32::MAX`.
    pub(crate) id: u32,
    /// In a wheel, the next entry of the same list, or [`NO_PLACE`].
    pub(crate) link: u32,
}

impl Entry {
    /// The absence of an entry.
    pub(crate) const ABSENT: Self = Self { rank: u64::MAX, tie: u64::MAX, id: u32::MAX, link: NO_PLACE };

    #[inline]
    pub(crate) fn new(rank: u64, tie: u64, id: u32) -> Self {
        Self { rank, tie, id, link: NO_PLACE }
    }

    /// Rank and tie as one number, so that a comparison is one subtraction with borrow and no branch.
    #[inline]
    pub(crate) fn key(&self) -> u128 {
        key(self.rank, self.tie)
    }

    #[inline]
    pub(crate) fn is_absent(&self) -> bool {
        self.id == u32::MAX
    }
}

/// The key of a rank and a tie.
#[inline]
pub(crate) fn key(rank: u64, tie: u64) -> u128 {
    (u128::from(rank) << 64) | u128::from(tie)
}
