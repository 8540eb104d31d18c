//! The results of a program's run, as the engine reads them.

use weft_units::Instant;

/// A child's place in its node's order: the smallest goes first, and equal ranks keep the order in which they went in.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(C)]
pub struct Rank {
    /// The component that is compared first.
    pub first: u64,
    /// The component that decides between equal first ones.
    pub second: u64,
}

impl Rank {
    /// The rank of two components.
    pub const fn new(first: u64, second: u64) -> Self {
        Self { first, second }
    }
}

/// The point from which a child may have a turn.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Eligibility {
    /// A time: until then the child is in the shaping queue.
    Time(Instant),
    /// A virtual time of the node: until then the child is held in the node, which jumps ahead if no child is eligible.
    VirtualTime(u64),
}

/// A change of rank at a time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Until {
    /// The time of the change.
    pub time: Instant,
    /// The rank from then on.
    pub rank: Rank,
}

/// The effects of a run. A bit of `present` says which of the words mean something; the others are 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Effects {
    /// The effects that the run has, as bits: [`Effects::RANK`] and so on.
    pub present: u64,
    /// The rank.
    pub rank: Rank,
    /// The time or the virtual time from which the child may have a turn.
    pub from: u64,
    /// The time of the change of rank.
    pub until: u64,
    /// The rank from the time `until` on.
    pub until_rank: Rank,
}

impl Effects {
    /// The bit of a rank.
    pub const RANK: u64 = 1;
    /// The bit of a time from which the child may have a turn.
    pub const FROM_TIME: u64 = 1 << 1;
    /// The bit of a virtual time from which the child may have a turn.
    pub const FROM_VIRTUAL_TIME: u64 = 1 << 2;
    /// The bit of a later change of rank.
    pub const UNTIL: u64 = 1 << 3;
    /// The bit of a new ranking.
    pub const RERANK: u64 = 1 << 4;
    /// The bit of a drop.
    pub const DROP: u64 = 1 << 5;
    /// The bit of a mark.
    pub const MARK: u64 = 1 << 6;

    /// The effects of a part that an algorithm does not have.
    pub const NONE: Self =
        Self { present: 0, rank: Rank::new(0, 0), from: 0, until: 0, until_rank: Rank::new(0, 0) };

    #[inline]
    const fn has(&self, bit: u64) -> bool {
        self.present & bit != 0
    }

    /// The rank, if the program yields one.
    #[inline]
    pub fn rank(&self) -> Option<Rank> {
        self.has(Self::RANK).then_some(self.rank)
    }

    /// The point from which the child may have a turn, if the program yields one.
    #[inline]
    pub fn from(&self) -> Option<Eligibility> {
        if self.has(Self::FROM_TIME) {
            return Some(Eligibility::Time(Instant::from_nanos(self.from)));
        }
        self.has(Self::FROM_VIRTUAL_TIME).then_some(Eligibility::VirtualTime(self.from))
    }

    /// The later change of rank, if the program yields one.
    #[inline]
    pub fn until(&self) -> Option<Until> {
        let until = Until { time: Instant::from_nanos(self.until), rank: self.until_rank };
        self.has(Self::UNTIL).then_some(until)
    }

    /// Whether the child is to be ranked anew.
    #[inline]
    pub const fn reranks(&self) -> bool {
        self.has(Self::RERANK)
    }

    /// Whether the packet is to be dropped.
    #[inline]
    pub const fn drops(&self) -> bool {
        self.has(Self::DROP)
    }

    /// Whether the packet is to be marked.
    #[inline]
    pub const fn marks(&self) -> bool {
        self.has(Self::MARK)
    }
}
