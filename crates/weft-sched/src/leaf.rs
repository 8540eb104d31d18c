//! Leaves and lanes: the places of references to flows.
//!
//! The order of a leaf is the merge of its lanes by (rank, tie). Each lane has its own PIFO. The shaping queue can
//! therefore remove or reinsert a lane at the cost of one slot of the leaf, whatever its number of flows.

use weft_units::LimitId;

use crate::pifo::{Entry, Pifo};
use crate::program::LeafDiscipline;
use crate::script::leaf::ScriptLeaf;
use crate::winner::WinnerTree;

/// The order of a leaf's flows, in a byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeafOrder {
    /// By arrival.
    Fifo,
    /// By start tags.
    Fair,
    /// By an algorithm of one's own.
    Script,
}

impl LeafOrder {
    pub(crate) fn of(discipline: &LeafDiscipline) -> Self {
        match discipline {
            LeafDiscipline::Fifo => Self::Fifo,
            LeafDiscipline::Fair => Self::Fair,
            LeafDiscipline::Custom(_) => Self::Script,
        }
    }
}

/// The state of a leaf.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// The heads of the lanes that are not parked.
    pub(crate) heads: WinnerTree,
    pub(crate) virtual_time: u64,
    pub(crate) order: LeafOrder,
    /// Whether an algorithm of one's own orders its flows, or the children of a node above.
    pub(crate) scripted: bool,
    /// The algorithm of one's own that orders its flows.
    pub(crate) script: Option<Box<ScriptLeaf>>,
    /// The lane at each slot of `heads`.
    pub(crate) lanes: Vec<u32>,
    /// The path from the leaf upwards: (node, slot at that node). Static, so that the charges of all levels start at
    /// once.
    pub(crate) path: Box<[(u32, u32)]>,
}

impl Leaf {
    /// The lane to be served next, or [`NO_VALUE`](crate::winner::NO_VALUE).
    #[inline]
    pub(crate) fn best_lane(&self) -> u32 {
        self.heads.best()
    }

    /// Replaces the head of `lane`, at `slot`, by `head`.
    #[inline]
    pub(crate) fn set_head(&mut self, slot: usize, lane: u32, head: Option<&Entry>) {
        match head {
            Some(entry) => self.heads.set(slot, entry.rank, entry.tie, lane),
            None => self.heads.clear(slot),
        }
    }

    /// Whether the leaf has the order that `old` has, so that its state is of use here.
    pub(crate) fn continues(&self, old: &Self) -> bool {
        let same = self.script.as_ref().zip(old.script.as_ref());
        self.order == old.order && same.is_none_or(|(new, old)| new.continues(old))
    }

    /// Whether the ranks are start tags.
    #[inline]
    pub(crate) fn is_fair(&self) -> bool {
        self.order == LeafOrder::Fair
    }

    /// Puts a flow of rank `rank` into service.
    #[inline]
    pub(crate) fn begin(&mut self, rank: u64) {
        if self.is_fair() {
            self.virtual_time = self.virtual_time.max(rank);
        }
    }
}

/// The state of a lane: one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Lane {
    /// References to the backlogged flows.
    pub(crate) pifo: Pifo,
    /// The limits that its packets pass.
    pub(crate) limits: Box<[LimitId]>,
    pub(crate) leaf: u32,
    /// The slot in the leaf.
    pub(crate) slot: u32,
    /// The number of flows, idle ones included: the capacity that `pifo` needs.
    pub(crate) flows: u32,
    /// Whether it waits in the shaping queue: Loom's "is limited" flag (section 4.2.2).
    pub(crate) parked: bool,
}
