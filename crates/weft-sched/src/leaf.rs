//! Leaves and lanes: where references to flows wait.
//!
//! A leaf's order is the merge of its lanes by (rank, tie). Each lane has a PIFO of its own, so that the shaping queue
//! can take a lane out of the tree and put it back in the time of one slot of the leaf, however many flows it has.

use weft_units::LimitId;

use crate::pifo::{Entry, Pifo};
use crate::program::LeafDiscipline;
use crate::winner::WinnerTree;

/// A leaf's state.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// The heads of its lanes that are not parked.
    pub(crate) heads: WinnerTree,
    pub(crate) virtual_time: u64,
    pub(crate) discipline: LeafDiscipline,
    /// The lane at each slot of `heads`.
    pub(crate) lanes: Vec<u32>,
    /// From the leaf upwards: (node, slot at that node). Static, so that a charge starts on all levels at once.
    pub(crate) path: Box<[(u32, u32)]>,
}

impl Leaf {
    /// The lane whose turn it is.
    #[inline]
    pub(crate) fn best_lane(&self) -> Option<u32> {
        self.heads.best().map(|slot| self.lanes[slot])
    }

    /// The slot's lane has `head` in front now.
    #[inline]
    pub(crate) fn set_head(&mut self, slot: usize, head: Option<&Entry>) {
        match head {
            Some(entry) => self.heads.set(slot, entry.rank, entry.tie),
            None => self.heads.clear(slot),
        }
    }

    /// Whether its ranks are start tags.
    #[inline]
    pub(crate) fn is_fair(&self) -> bool {
        self.discipline == LeafDiscipline::Fair
    }

    /// A flow of rank `rank` goes into service.
    #[inline]
    pub(crate) fn begin(&mut self, rank: u64) {
        if self.is_fair() {
            self.virtual_time = self.virtual_time.max(rank);
        }
    }
}

/// A lane's state: one cache line.
#[derive(Debug)]
pub(crate) struct Lane {
    /// References to its backlogged flows.
    pub(crate) pifo: Pifo,
    /// The limits that it passes.
    pub(crate) limits: Box<[LimitId]>,
    pub(crate) leaf: u32,
    /// Its slot in the leaf.
    pub(crate) slot: u32,
    /// How many flows it has, idle ones included: what `pifo` must have room for.
    pub(crate) flows: u32,
    /// It waits in the shaping queue: Loom's "is limited" flag (section 4.2.2).
    pub(crate) parked: bool,
}
