//! The order of a node's children by (rank, tie).

use weft_units::Weight;

use crate::runs::Runs;
use crate::winner::{NO_VALUE, WinnerTree};

/// The number of children from which on those of equal weight are kept in runs: a winner tree then has three levels or more.
const RUNS_FROM: usize = 33;

/// The children that take part, by (rank, tie).
#[derive(Debug)]
pub(crate) enum Order {
    /// Few children, or children of different weights, whose tags need many runs.
    Tree(WinnerTree),
    /// Many children of equal weight.
    Runs(Box<Runs>),
}

impl Order {
    /// The structure for children of these weights.
    pub(crate) fn new(weights: &[Weight]) -> Self {
        let equal = weights.windows(2).all(|pair| pair[0] == pair[1]);
        if equal && weights.len() >= RUNS_FROM {
            Self::Runs(Box::new(Runs::new(weights.len())))
        } else {
            Self::Tree(WinnerTree::new(weights.len()))
        }
    }

    /// The value of the first child, or [`NO_VALUE`] if none takes part.
    #[inline]
    pub(crate) fn best(&self) -> u32 {
        match self {
            Self::Tree(tree) => tree.best(),
            Self::Runs(runs) => runs.best(),
        }
    }

    /// The values of the children `near` and `far` turns from now, where that is known; else those of none. A guess: the order may
    /// change before.
    #[inline]
    pub(crate) fn upcoming(&self, near: usize, far: usize) -> (u32, u32) {
        match self {
            Self::Tree(_) => (NO_VALUE, NO_VALUE),
            Self::Runs(runs) => runs.upcoming(near, far),
        }
    }

    #[inline]
    fn key(&self, slot: usize) -> u128 {
        match self {
            Self::Tree(tree) => tree.key(slot),
            Self::Runs(runs) => runs.key(slot),
        }
    }

    /// The rank of `slot`, which must take part.
    #[inline]
    pub(crate) fn rank(&self, slot: usize) -> u64 {
        (self.key(slot) >> 64) as u64
    }

    /// The tie of `slot`, which must take part.
    pub(crate) fn tie(&self, slot: usize) -> u64 {
        self.key(slot) as u64
    }

    #[inline]
    pub(crate) fn contains(&self, slot: usize) -> bool {
        match self {
            Self::Tree(tree) => tree.contains(slot),
            Self::Runs(runs) => runs.contains(slot),
        }
    }

    /// The value of `slot`, which must take part.
    #[inline]
    pub(crate) fn value(&self, slot: usize) -> u32 {
        match self {
            Self::Tree(tree) => tree.value(slot),
            Self::Runs(runs) => runs.value(slot),
        }
    }

    /// Lets `slot` take part, with a value other than that of none.
    #[inline(always)]
    pub(crate) fn set(&mut self, slot: usize, rank: u64, tie: u64, value: u32) {
        match self {
            Self::Tree(tree) => tree.set(slot, rank, tie, value),
            Self::Runs(runs) => runs.set(slot, rank, tie, value),
        }
    }

    /// Changes the rank of `slot`, which must take part. [`Self::settle`] must follow the last of such changes.
    #[inline]
    pub(crate) fn postpone(&mut self, slot: usize, rank: u64) {
        match self {
            Self::Tree(tree) => tree.postpone(slot, rank),
            Self::Runs(runs) => runs.set(slot, rank, runs.key(slot) as u64, runs.value(slot)),
        }
    }

    /// Plays the matches that [`Self::postpone`] left out. Linear in the slots.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if let Self::Tree(tree) = self {
            tree.rebuild();
        }
    }

    /// Changes the value of `slot`, which must take part. No two slots have the same value.
    #[inline(always)]
    pub(crate) fn set_value(&mut self, slot: usize, value: u32) {
        match self {
            Self::Tree(tree) => tree.set_value(slot, value),
            Self::Runs(runs) => runs.set_value(slot, value),
        }
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self, slot: usize) {
        match self {
            Self::Tree(tree) => tree.clear(slot),
            Self::Runs(runs) => runs.clear(slot),
        }
    }

    /// Replaces the rank of every slot that takes part. Linear in the slots; for rare events.
    pub(crate) fn rerank(&mut self, change: impl FnMut(u64) -> u64) {
        match self {
            Self::Tree(tree) => tree.rerank(change),
            Self::Runs(runs) => runs.rerank(change),
        }
    }

    /// Sets key and value of a slot that does not take part, without its matches. [`Self::rebuild`] must follow.
    pub(crate) fn place(&mut self, slot: usize, rank: u64, tie: u64, value: u32) {
        match self {
            Self::Tree(tree) => tree.place(slot, rank, tie, value),
            Self::Runs(runs) => runs.place(slot, rank, tie, value),
        }
    }

    /// Plays all matches. Linear in the slots; for rare events.
    pub(crate) fn rebuild(&mut self) {
        match self {
            Self::Tree(tree) => tree.rebuild(),
            Self::Runs(runs) => runs.rebuild(),
        }
    }

    /// The smallest rank, if any slot takes part. Linear in the slots; for rare events.
    pub(crate) fn least_rank(&self) -> Option<u64> {
        let least = match self {
            Self::Tree(tree) => tree.keys().min(),
            Self::Runs(runs) => runs.keys().min(),
        };
        least.map(|key| (key >> 64) as u64)
    }

    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Self::Tree(tree) => tree.is_valid(),
            Self::Runs(runs) => runs.is_valid(),
        }
    }
}
