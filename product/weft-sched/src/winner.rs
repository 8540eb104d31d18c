//! A winner tree: the smallest of a fixed set of slots, and the value that goes with it.
//!
//! Used where the members are few and known beforehand (children of an inner node, lanes of a leaf). Any slot may
//! change or leave in `log4(slots)` steps, without the position map that a heap would need.
//!
//! Four slots form a group, whose keys are one cache line. A group's smallest key is repeated in the group above. The top
//! group lies in the tree itself: a node of up to four children follows no pointer.

use crate::entry::key;

/// The key of a slot that does not take part.
pub(crate) const ABSENT: u128 = u128::MAX;

/// The value of a tree in which no slot takes part.
pub(crate) const NO_VALUE: u32 = u32::MAX;

/// The slots of a group.
const ARITY: usize = 4;

/// Four slots, or four groups of the level below.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(crate) struct Group {
    pub(crate) keys: [u128; ARITY],
    pub(crate) values: [u32; ARITY],
}

impl Group {
    pub(crate) const EMPTY: Self = Self { keys: [ABSENT; ARITY], values: [NO_VALUE; ARITY] };

    /// The place of the smallest key. Without branches, since no predictor learns the outcome.
    #[inline(always)]
    pub(crate) fn smallest(&self) -> usize {
        Self::smallest_of(&self.keys)
    }

    /// The place of the smallest of four keys, as [`Self::smallest`].
    #[inline(always)]
    pub(crate) fn smallest_of(keys: &[u128; ARITY]) -> usize {
        let left = usize::from(keys[1] < keys[0]);
        let right = 2 + usize::from(keys[3] < keys[2]);
        let right_wins = keys[right] < keys[left];
        core::hint::select_unpredictable(right_wins, right, left)
    }
}

/// The smallest of a fixed set of slots by (rank, tie).
#[derive(Debug)]
pub(crate) struct WinnerTree {
    top: Group,
    /// The groups below the top, from the upper levels to the lower: children `4 i` to `4 i + 3` of group `i`, where the top
    /// is group 0 and `below[0]` is group 1.
    below: Box<[Group]>,
    /// The number of the first group that holds slots.
    bottom: u32,
    /// The value of the smallest slot, or [`NO_VALUE`].
    best: u32,
}

impl WinnerTree {
    pub(crate) fn new(slots: usize) -> Self {
        let (mut width, mut bottom) = (ARITY, 0);
        while width < slots {
            (width, bottom) = (width * ARITY, bottom * ARITY + 1);
        }
        let groups = bottom + width / ARITY;
        let below = vec![Group::EMPTY; groups - 1].into();
        Self { top: Group::EMPTY, below, bottom: bottom as u32, best: NO_VALUE }
    }

    /// The value of the winning slot, or [`NO_VALUE`] when no slot takes part.
    #[inline]
    pub(crate) fn best(&self) -> u32 {
        self.best
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.best == NO_VALUE
    }

    /// The group that holds `slot`, and the place there.
    #[inline]
    fn place_of(&self, slot: usize) -> (&Group, usize) {
        let group = match self.bottom.checked_sub(1) {
            None => &self.top,
            Some(first) => &self.below[first as usize + slot / ARITY],
        };
        (group, slot % ARITY)
    }

    /// The key of `slot`, which must take part.
    #[inline]
    pub(crate) fn key(&self, slot: usize) -> u128 {
        let (group, place) = self.place_of(slot);
        group.keys[place]
    }

    #[inline]
    pub(crate) fn contains(&self, slot: usize) -> bool {
        self.key(slot) != ABSENT
    }

    /// The value of `slot`, which must take part.
    pub(crate) fn value(&self, slot: usize) -> u32 {
        let (group, place) = self.place_of(slot);
        group.values[place]
    }

    /// Lets `slot` take part, with a value other than [`NO_VALUE`].
    #[inline]
    pub(crate) fn set(&mut self, slot: usize, rank: u64, tie: u64, value: u32) {
        self.update(slot, key(rank, tie), value);
    }

    /// Changes the value of `slot`, which must take part. No two slots have the same value.
    #[inline]
    pub(crate) fn set_value(&mut self, slot: usize, value: u32) {
        if self.bottom == 0 {
            let before = core::mem::replace(&mut self.top.values[slot % ARITY], value);
            // The order stays, so the first slot is the first again.
            self.best = core::hint::select_unpredictable(self.best == before, value, self.best);
        } else {
            self.update(slot, self.key(slot), value);
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self, slot: usize) {
        self.update(slot, ABSENT, NO_VALUE);
    }

    #[inline(always)]
    fn update(&mut self, slot: usize, key: u128, value: u32) {
        // Up to four slots: no loop and no pointer.
        let (place, key, value) =
            if self.bottom == 0 { (slot, key, value) } else { self.update_below(slot, key, value) };
        let place = place % ARITY;
        (self.top.keys[place], self.top.values[place]) = (key, value);
        // A slot that does not take part has the value of an empty tree.
        self.best = self.top.values[self.top.smallest()];
    }

    /// Updates the groups below the top. Returns the place of the last one in the top, with its smallest key and the
    /// value of that.
    fn update_below(&mut self, slot: usize, mut key: u128, mut value: u32) -> (usize, u128, u32) {
        let (mut group, mut place) = (self.bottom as usize + slot / ARITY, slot % ARITY);
        while let Some(below) = group.checked_sub(1) {
            let at = &mut self.below[below];
            (at.keys[place], at.values[place]) = (key, value);
            let first = at.smallest();
            (key, value) = (at.keys[first], at.values[first]);
            (group, place) = (below / ARITY, below % ARITY);
        }
        (place, key, value)
    }

    /// Replaces the rank of every slot that takes part. Linear in the slots; for rare events.
    pub(crate) fn rerank(&mut self, mut change: impl FnMut(u64) -> u64) {
        for key in self.slots_mut().filter(|key| **key != ABSENT) {
            *key = self::key(change((*key >> 64) as u64), *key as u64);
        }
        self.rebuild();
    }

    /// The groups that hold slots.
    fn slots_mut(&mut self) -> impl Iterator<Item = &mut u128> {
        let bottom = self.bottom as usize;
        let top = (bottom == 0).then_some(&mut self.top);
        let below = self.below.iter_mut().skip(bottom.saturating_sub(1));
        top.into_iter().chain(below).flat_map(|group| &mut group.keys)
    }

    /// The keys of the slots that take part.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u128> {
        let bottom = self.bottom as usize;
        let top = (bottom == 0).then_some(&self.top);
        let below = self.below.iter().skip(bottom.saturating_sub(1));
        top.into_iter().chain(below).flat_map(|group| group.keys).filter(|key| *key != ABSENT)
    }

    /// Sets key and value of a slot that does not take part, without its matches. [`Self::rebuild`] must follow.
    pub(crate) fn place(&mut self, slot: usize, rank: u64, tie: u64, value: u32) {
        let (group, place) = (self.bottom as usize + slot / ARITY, slot % ARITY);
        let group = self.group_mut(group);
        (group.keys[place], group.values[place]) = (key(rank, tie), value);
    }

    /// Changes the rank of `slot`, which must take part, without its matches. [`Self::rebuild`] must follow.
    #[inline]
    pub(crate) fn postpone(&mut self, slot: usize, rank: u64) {
        let group = self.group_mut(self.bottom as usize + slot / ARITY);
        let key = &mut group.keys[slot % ARITY];
        *key = self::key(rank, *key as u64);
    }

    #[inline]
    fn group_mut(&mut self, group: usize) -> &mut Group {
        match group.checked_sub(1) {
            None => &mut self.top,
            Some(below) => &mut self.below[below],
        }
    }

    /// Plays all matches. Linear in the slots; for rare events.
    #[inline]
    pub(crate) fn rebuild(&mut self) {
        for below in (0..self.below.len()).rev() {
            let group = self.below[below];
            let first = group.smallest();
            let above = self.group_mut(below / ARITY);
            (above.keys[below % ARITY], above.values[below % ARITY]) =
                (group.keys[first], group.values[first]);
        }
        self.best = self.top.values[self.top.smallest()];
    }

    pub(crate) fn is_valid(&self) -> bool {
        let first = self.top.smallest();
        self.keys().min().unwrap_or(ABSENT) == self.top.keys[first] && self.best == self.top.values[first]
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
                    Some(rank) => tree.set(slot, rank, tie as u64, 100 + slot as u32),
                    None => tree.clear(slot),
                }
                let best = list.iter().enumerate().filter_map(|(s, k)| k.map(|k| (k, s))).min();
                prop_assert_eq!(tree.best(), best.map_or(NO_VALUE, |(_, slot)| 100 + slot as u32));
                prop_assert_eq!(tree.is_empty(), best.is_none());
                prop_assert!(tree.is_valid());
            }
        }
    }
}
