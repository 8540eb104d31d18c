//! Leaves and lanes: the places of references to flows.
//!
//! The order of a leaf is the merge of its lanes by (rank, tie). Each lane has its own PIFO. The shaping queue can
//! therefore remove or reinsert a lane at the cost of one slot of the leaf, whatever its number of flows.
//!
//! The lane of a leaf that has no other is *sole*, unless a user-defined algorithm has to do with the leaf. Its record holds
//! all that a packet needs of the leaf: virtual time, order and path. The nodes above then name the lane and not the leaf, see
//! [`Offer`]. A leaf of a sole lane has no heads: the lane's first reference is the leaf's.

use weft_units::LimitId;

use crate::pifo::Pifo;
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
    /// By a user-defined algorithm.
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

/// The way from a child to the flow that it leads to, as nodes keep it: a leaf, or the sole lane of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Offer {
    /// A leaf whose lanes have an order.
    Leaf(u32),
    /// A sole lane.
    Lane(u32),
}

impl Offer {
    /// The mark of a lane. There are fewer lanes and leaves, since the description of each has several words.
    const LANE: u32 = 1 << 31;

    /// As a number below [`NO_VALUE`](crate::winner::NO_VALUE).
    #[inline]
    pub(crate) fn number(self) -> u32 {
        match self {
            Self::Leaf(leaf) => leaf,
            Self::Lane(lane) => lane | Self::LANE,
        }
    }

    /// From its number. That of no offer becomes a lane past the end.
    #[inline]
    pub(crate) fn from_number(number: u32) -> Self {
        if number & Self::LANE == 0 { Self::Leaf(number) } else { Self::Lane(number & !Self::LANE) }
    }
}

/// The state of a leaf.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// The heads of the lanes that are not parked; of a sole lane, nothing.
    pub(crate) heads: WinnerTree,
    /// The virtual time, unless its lane is sole.
    pub(crate) virtual_time: u64,
    pub(crate) order: LeafOrder,
    /// Whether a user-defined algorithm orders its flows, or the children of a node above.
    pub(crate) scripted: bool,
    /// The user-defined algorithm that orders its flows.
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

    /// The lane that is sole, if there is one.
    pub(crate) fn sole(&self) -> Option<u32> {
        if self.scripted { None } else { sole_of(&self.lanes) }
    }

    /// Brings the head of lane `id` up to date with the lane.
    #[inline]
    pub(crate) fn update_head(&mut self, id: u32, lane: &Lane) {
        match lane.pifo.peek() {
            _ if lane.sole => {}
            Some(entry) if !lane.parked => self.heads.set(lane.slot as usize, entry.rank, entry.tie, id),
            _ => self.heads.clear(lane.slot as usize),
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
}

fn sole_of(lanes: &[u32]) -> Option<u32> {
    if let [lane] = lanes { Some(*lane) } else { None }
}

/// The levels of a path that lie in a lane's record.
const NEAR_LEVELS: usize = 4;

/// The state of a lane: two adjacent cache lines, and with one flow at most no further memory.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Lane {
    /// References to the backlogged flows.
    pub(crate) pifo: Pifo,
    /// The limits that its packets pass.
    pub(crate) limits: Limits,
    /// The virtual time of the leaf of a sole lane.
    pub(crate) virtual_time: u64,
    pub(crate) leaf: u32,
    /// The slot in the leaf.
    pub(crate) slot: u32,
    /// The number of flows, idle ones included: the capacity that `pifo` needs.
    pub(crate) flows: u32,
    /// Whether it waits in the shaping queue: Loom's "is limited" flag (section 4.2.2).
    pub(crate) parked: bool,
    /// Whether it is the only lane of its leaf, and no user-defined algorithm has to do with the leaf.
    pub(crate) sole: bool,
    /// The order of the leaf's flows.
    pub(crate) order: LeafOrder,
    /// The number of levels in `near`, or [`DEEP`].
    levels: u8,
    /// The path of the leaf, where it fits.
    near: [(u32, u32); NEAR_LEVELS],
}

/// A path that does not fit into a lane's record.
const DEEP: u8 = u8::MAX;

const _: () = assert!(size_of::<Lane>() == 128, "two lines; see docs/engine.md");

impl Lane {
    /// An empty lane of a leaf, which is at `slot` there. A lane without a leaf is vacant.
    pub(crate) fn new(leaf: u32, slot: u32, limits: &[LimitId]) -> Self {
        Self {
            pifo: Pifo::default(),
            limits: Limits::new(limits),
            virtual_time: 0,
            leaf,
            slot,
            flows: 0,
            parked: false,
            sole: false,
            order: LeafOrder::Fifo,
            levels: DEEP,
            near: [(0, 0); NEAR_LEVELS],
        }
    }

    /// Takes over from its leaf what packets need of it.
    pub(crate) fn join(&mut self, leaf: &Leaf) {
        self.order = leaf.order;
        self.sole = leaf.sole().is_some();
        if let Some(near) = self.near.get_mut(..leaf.path.len()) {
            near.copy_from_slice(&leaf.path);
            self.levels = leaf.path.len() as u8;
        }
    }

    /// The path of its leaf, which is in `leaves`.
    #[inline]
    pub(crate) fn path<'a>(&'a self, leaves: &'a [Leaf]) -> &'a [(u32, u32)] {
        self.near.get(..usize::from(self.levels)).unwrap_or_else(|| &leaves[self.leaf as usize].path)
    }

    /// Whether it has a reference that takes part in its leaf.
    #[inline]
    pub(crate) fn takes_part(&self) -> bool {
        !self.parked && !self.pifo.is_empty()
    }
}

/// The limits of a lane: up to four in its record, more elsewhere.
#[derive(Debug)]
pub(crate) enum Limits {
    /// Up to four: as many as the number says, from the first on.
    Few(u8, [LimitId; 4]),
    Many(Box<[LimitId]>),
}

impl Limits {
    fn new(limits: &[LimitId]) -> Self {
        let mut few = [LimitId(0); 4];
        match few.get_mut(..limits.len()) {
            Some(places) => {
                places.copy_from_slice(limits);
                Self::Few(limits.len() as u8, few)
            }
            None => Self::Many(limits.into()),
        }
    }
}

impl core::ops::Deref for Limits {
    type Target = [LimitId];

    #[inline]
    fn deref(&self) -> &[LimitId] {
        match self {
            Self::Few(count, few) => few.get(..usize::from(*count)).unwrap_or(few),
            Self::Many(many) => many,
        }
    }
}
