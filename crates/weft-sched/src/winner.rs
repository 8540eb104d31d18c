//! A winner tree: the smallest of a fixed set of slots.
//!
//! Used where the members are few and known beforehand (children of an inner node, lanes of a leaf). Any slot may
//! change or leave in `log2(slots)` steps, without the position map that a heap would need.

use crate::pifo::key;

/// The key of a slot that does not take part.
const ABSENT: u128 = u128::MAX;

/// The smallest of a fixed set of slots by (rank, tie).
#[derive(Debug)]
pub(crate) struct WinnerTree {
    /// Key per slot, padded to a power of two. Four slots are one cache line.
    keys: Box<[u128]>,
    /// The winners: `winners[1]` of all slots, `winners[i]` of `2 i` and `2 i + 1`. The slots themselves follow.
    winners: Box<[u32]>,
    /// The number of slots that take part. (A copy of the winning key would serve as well, but a copy of a key just
    /// written as two halves stalls on the store buffer.)
    present: usize,
}

impl WinnerTree {
    pub(crate) fn new(slots: usize) -> Self {
        let width = slots.max(1).next_power_of_two();
        let mut winners: Vec<u32> = vec![0; 2 * width];
        for (slot, place) in winners[width..].iter_mut().enumerate() {
            *place = slot as u32;
        }
        let mut tree = Self { keys: vec![ABSENT; width].into(), winners: winners.into(), present: 0 };
        tree.rebuild();
        tree
    }

    /// The winning slot, or `None` when no slot takes part.
    #[inline]
    pub(crate) fn best(&self) -> Option<usize> {
        if self.present == 0 { None } else { Some(self.winners[1] as usize) }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.present == 0
    }

    /// The rank of `slot`, which must take part.
    #[inline]
    pub(crate) fn rank(&self, slot: usize) -> u64 {
        (self.keys[slot] >> 64) as u64
    }

    pub(crate) fn contains(&self, slot: usize) -> bool {
        self.keys[slot] != ABSENT
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: usize, rank: u64, tie: u64) {
        self.update(slot, key(rank, tie));
    }

    #[inline]
    pub(crate) fn clear(&mut self, slot: usize) {
        self.update(slot, ABSENT);
    }

    #[inline]
    fn update(&mut self, slot: usize, key: u128) {
        let before = core::mem::replace(&mut self.keys[slot], key);
        self.present += usize::from(before == ABSENT);
        self.present -= usize::from(key == ABSENT);
        let mut at = (self.keys.len() + slot) / 2;
        while at > 0 {
            self.play(at);
            at /= 2;
        }
    }

    /// Plays the match at inner position `at`.
    #[inline]
    fn play(&mut self, at: usize) {
        let (left, right) = (self.winners[2 * at], self.winners[2 * at + 1]);
        let right_wins = self.keys[right as usize] < self.keys[left as usize];
        // The comparison becomes part of an address, since its outcome is random and no predictor learns it.
        self.winners[at] = self.winners[2 * at + usize::from(right_wins)];
    }

    /// Replaces the rank of every slot that takes part. Linear in the slots; for rare events.
    pub(crate) fn rerank(&mut self, mut change: impl FnMut(u64) -> u64) {
        for key in self.keys.iter_mut().filter(|key| **key != ABSENT) {
            *key = self::key(change((*key >> 64) as u64), *key as u64);
        }
        self.rebuild();
    }

    /// Sets the key of a slot that does not take part, without its matches. [`Self::rebuild`] must follow.
    pub(crate) fn place(&mut self, slot: usize, rank: u64, tie: u64) {
        self.present += usize::from(self.keys[slot] == ABSENT);
        self.keys[slot] = key(rank, tie);
    }

    /// The tie of `slot`, which must take part.
    pub(crate) fn tie(&self, slot: usize) -> u64 {
        self.keys[slot] as u64
    }

    /// Plays all matches. Linear in the slots; for rare events.
    pub(crate) fn rebuild(&mut self) {
        for at in (1..self.keys.len()).rev() {
            self.play(at);
        }
    }

    pub(crate) fn ranks(&self) -> impl Iterator<Item = u64> {
        self.keys.iter().filter(|key| **key != ABSENT).map(|key| (key >> 64) as u64)
    }

    pub(crate) fn is_valid(&self) -> bool {
        let winner = self.keys[self.winners[1] as usize];
        self.keys.iter().min() == Some(&winner)
            && self.keys.iter().filter(|key| **key != ABSENT).count() == self.present
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_linear_scan(
            slots in 1..70_usize,
            operations in prop::collection::vec((0..70_usize, prop::option::of(0..9_u64)), 0..200),
        ) {
            let mut tree = WinnerTree::new(slots);
            let mut list = vec![None; slots];
            for (tie, (slot, rank)) in operations.into_iter().enumerate() {
                let slot = slot % slots;
                list[slot] = rank.map(|rank| (rank, tie as u64));
                match rank {
                    Some(rank) => tree.set(slot, rank, tie as u64),
                    None => tree.clear(slot),
                }
                let best = list.iter().enumerate().filter_map(|(s, k)| k.map(|k| (k, s))).min();
                prop_assert_eq!(tree.best(), best.map(|(_, slot)| slot));
                prop_assert_eq!(tree.is_empty(), best.is_none());
                prop_assert!(tree.is_valid());
            }
        }
    }
}
