//! Children under user-defined algorithms: their state and their references.

use weft_rank::Rank;
use weft_units::Instant;

use super::heaps::Heaps;

/// The whereabouts of a reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In no order: idle, waiting for a time, or without anything to offer.
    Out,
    /// Eligible, by rank.
    Ready,
    /// Not eligible yet, by the virtual time from which it is.
    Early,
}

/// A child in its node's order. It has a rank while it has something to send.
#[derive(Clone, Debug)]
pub(crate) struct Reference {
    pub(crate) rank: Rank,
    pub(crate) tie: u64,
    /// The virtual time from which it is eligible; 0 if it is.
    pub(super) from: u64,
    /// The rank from the time of its timer on.
    pub(super) until: Rank,
    pub(crate) place: Place,
    /// Whether it has something to send.
    pub(crate) active: bool,
    /// Whether it waits for the time of its `from`.
    pub(crate) waits: bool,
    /// Whether nothing of what it has may be sent.
    pub(crate) withheld: bool,
    /// The last time at which it became idle.
    pub(super) idle_since: Instant,
}

impl Reference {
    const IDLE: Self = Self {
        rank: Rank::new(0, 0),
        tie: 0,
        from: 0,
        until: Rank::new(0, 0),
        place: Place::Out,
        active: false,
        waits: false,
        withheld: false,
        idle_since: Instant::ZERO,
    };

    /// The rank from the time of its timer on.
    pub(crate) fn later_rank(&self) -> Rank {
        self.until
    }

    /// Whether it waits for a virtual time.
    pub(crate) fn is_early(&self) -> bool {
        self.place == Place::Early
    }
}

/// Children with their state: those of a node, or the flows of all leaves.
#[derive(Debug)]
pub(crate) struct Children {
    pub(crate) references: Vec<Reference>,
    states: Vec<u64>,
    stride: usize,
    /// The orders of the references that are ready or early.
    pub(crate) order: Heaps,
    /// The orders by the field whose least value programs read. Without room where no algorithm has one.
    pub(super) lowest: Heaps,
    has_lowest: bool,
}

impl Children {
    pub(crate) fn new(count: usize, stride: usize, has_lowest: bool) -> Self {
        let mut this = Self {
            references: Vec::new(),
            states: Vec::new(),
            stride,
            order: Heaps::default(),
            lowest: Heaps::default(),
            has_lowest,
        };
        this.grow(count);
        this
    }

    /// Makes room for `count` children. May allocate.
    pub(crate) fn grow(&mut self, count: usize) {
        if self.references.len() < count {
            self.references.resize(count, Reference::IDLE);
            self.states.resize(count * self.stride, 0);
            self.order.grow(count);
            self.lowest.grow(if self.has_lowest { count } else { 0 });
        }
    }

    /// Whether a child is in an order exactly if it may be.
    pub(crate) fn is_placed_right(&self, id: u32) -> bool {
        let reference = &self.references[id as usize];
        let expected = reference.active && !reference.waits && !reference.withheld;
        (reference.place != Place::Out) == expected && self.order.contains(id) == expected
    }

    pub(crate) fn state_mut(&mut self, id: u32) -> &mut [u64] {
        let first = id as usize * self.stride;
        &mut self.states[first..first + self.stride]
    }

    pub(crate) fn state(&self, id: u32) -> &[u64] {
        let first = id as usize * self.stride;
        &self.states[first..first + self.stride]
    }

    /// Makes a child new: idle, without any past.
    pub(crate) fn restart(&mut self, id: u32) {
        self.references[id as usize] = Reference::IDLE;
    }

    /// Makes an active child idle, without a program.
    pub(crate) fn end(&mut self, id: u32, now: Instant) {
        let reference = &mut self.references[id as usize];
        (reference.active, reference.idle_since) = (false, now);
    }

    /// Takes over the state of a child of `old`, which has the same fields.
    pub(crate) fn carry(&mut self, id: u32, old: &Self, before: u32) {
        let known = &old.references[before as usize];
        self.references[id as usize] = Reference { place: Place::Out, ..known.clone() };
        let fields = self.stride.min(old.stride);
        self.state_mut(id)[..fields].copy_from_slice(&old.state(before)[..fields]);
    }
}
