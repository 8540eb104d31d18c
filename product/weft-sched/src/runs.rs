//! Runs: the smallest of many slots that mostly leave and return in the same order.
//!
//! Children of equal weight that are served in the order of their tags also return in that order, as far as they sent the same
//! number of bytes. So their keys form a few ascending *runs*, one for each usual length and one for those that were idle. A run
//! is a list: a slot is removed at its front and returns at the end of one, whatever the number of slots, and the next ones are
//! known. A slot whose key fits behind no run is a *stray*, and waits in a winner tree. The order is exact in any case; only the
//! cost depends on the number of runs that the keys need.

use crate::entry::key;
use crate::winner::{ABSENT, Group, NO_VALUE, WinnerTree};

/// The runs of a node: as many as a group of the winner tree has keys.
const RUNS: usize = 4;

/// The place of a slot that is a stray.
const STRAY: u32 = RUNS as u32;

/// The place of a slot that does not take part.
const OUT: u32 = STRAY + 1;

/// The absence of a slot.
const NO_SLOT: u32 = u32::MAX;

/// A slot: 32 bytes, half a cache line.
#[derive(Clone, Copy, Debug)]
struct Member {
    key: u128,
    value: u32,
    /// The run, [`STRAY`] or [`OUT`].
    place: u32,
    /// The neighbours in the run.
    before: u32,
    after: u32,
}

/// The smallest of a fixed set of slots by (rank, tie).
#[derive(Debug)]
pub(crate) struct Runs {
    /// The smallest key of each run, and its slot.
    heads: Group,
    /// The largest key of each run, or 0, behind which any key fits.
    tails: [u128; RUNS],
    last: [u32; RUNS],
    /// The smallest slot, or [`NO_SLOT`].
    first: u32,
    /// Its value, or [`NO_VALUE`].
    best: u32,
    members: Box<[Member]>,
    /// The strays; the value of each is its slot.
    strays: WinnerTree,
}

impl Runs {
    pub(crate) fn new(slots: usize) -> Self {
        let out = Member { key: ABSENT, value: NO_VALUE, place: OUT, before: NO_SLOT, after: NO_SLOT };
        Self {
            heads: Group::EMPTY,
            tails: [0; RUNS],
            last: [NO_SLOT; RUNS],
            first: NO_SLOT,
            best: NO_VALUE,
            members: vec![out; slots].into(),
            strays: WinnerTree::new(slots),
        }
    }

    /// The value of the smallest slot, or [`NO_VALUE`].
    #[inline]
    pub(crate) fn best(&self) -> u32 {
        self.best
    }

    pub(crate) fn contains(&self, slot: usize) -> bool {
        self.members[slot].place != OUT
    }

    /// The key of `slot`, which must take part.
    #[inline]
    pub(crate) fn key(&self, slot: usize) -> u128 {
        self.members[slot].key
    }

    /// The value of `slot`, which must take part.
    pub(crate) fn value(&self, slot: usize) -> u32 {
        self.members[slot].value
    }

    /// The values of the slots that are `near` and `far` places behind the smallest in its run, or [`NO_VALUE`].
    #[inline]
    pub(crate) fn upcoming(&self, near: usize, far: usize) -> (u32, u32) {
        let behind = |slot: u32, steps: usize| {
            (0..steps)
                .fold(slot, |slot, _| self.members.get(slot as usize).map_or(NO_SLOT, |member| member.after))
        };
        let value = |slot: u32| self.members.get(slot as usize).map_or(NO_VALUE, |member| member.value);
        let near_slot = behind(self.first, near);
        (value(near_slot), value(behind(near_slot, far - near)))
    }

    /// Lets `slot` take part, with a value other than [`NO_VALUE`].
    #[inline]
    pub(crate) fn set(&mut self, slot: usize, rank: u64, tie: u64, value: u32) {
        let was_stray = self.members[slot].place == STRAY;
        if !was_stray {
            self.detach(slot);
        }
        let key = key(rank, tie);
        // The run with the largest tail that is not above the key; the difference of one that is above wraps around.
        let run = Group::smallest_of(&self.tails.map(|tail| key.wrapping_sub(tail)));
        if self.tails[run] <= key {
            if was_stray {
                self.strays.clear(slot);
            }
            self.append(run, slot, key, value);
        } else {
            self.members[slot] = Member { key, value, place: STRAY, before: NO_SLOT, after: NO_SLOT };
            self.strays.set(slot, rank, tie, slot as u32);
        }
        self.choose();
    }

    #[inline]
    fn append(&mut self, run: usize, slot: usize, key: u128, value: u32) {
        let last = core::mem::replace(&mut self.last[run], slot as u32);
        match self.members.get_mut(last as usize) {
            Some(last) => last.after = slot as u32,
            None => (self.heads.keys[run], self.heads.values[run]) = (key, slot as u32),
        }
        self.tails[run] = key;
        self.members[slot] = Member { key, value, place: run as u32, before: last, after: NO_SLOT };
    }

    /// Changes the value of `slot`, which must take part.
    #[inline]
    pub(crate) fn set_value(&mut self, slot: usize, value: u32) {
        self.members[slot].value = value;
        if self.first == slot as u32 {
            self.best = value;
        }
    }

    #[inline]
    pub(crate) fn clear(&mut self, slot: usize) {
        self.detach(slot);
        self.choose();
    }

    /// Removes `slot`, if it takes part.
    #[inline]
    fn detach(&mut self, slot: usize) {
        let Member { place, before, after, .. } = self.members[slot];
        if place == OUT {
            return;
        }
        self.members[slot].place = OUT;
        if place == STRAY {
            self.strays.clear(slot);
            return;
        }
        let run = place as usize % RUNS;
        match self.members.get_mut(before as usize) {
            Some(before) => before.after = after,
            None => {
                let key = self.members.get(after as usize).map_or(ABSENT, |after| after.key);
                (self.heads.keys[run], self.heads.values[run]) = (key, after);
            }
        }
        match self.members.get_mut(after as usize) {
            Some(after) => after.before = before,
            None => {
                self.tails[run] = self.members.get(before as usize).map_or(0, |before| before.key);
                self.last[run] = before;
            }
        }
    }

    /// Finds the smallest slot.
    #[inline]
    fn choose(&mut self) {
        let run = self.heads.smallest();
        self.first = self.heads.values[run];
        if !self.strays.is_empty() {
            let stray = self.strays.best();
            if self.members[stray as usize].key < self.heads.keys[run] {
                self.first = stray;
            }
        }
        self.best = self.members.get(self.first as usize).map_or(NO_VALUE, |member| member.value);
    }

    /// Replaces the rank of every slot that takes part. Linear in the slots; for rare events.
    pub(crate) fn rerank(&mut self, mut change: impl FnMut(u64) -> u64) {
        for slot in 0..self.members.len() {
            let Member { key, value, .. } = self.members[slot];
            if self.contains(slot) {
                self.place(slot, change((key >> 64) as u64), key as u64, value);
            }
        }
        self.rebuild();
    }

    /// Sets key and value of a slot without its matches. [`Self::rebuild`] must follow.
    pub(crate) fn place(&mut self, slot: usize, rank: u64, tie: u64, value: u32) {
        let (before, after) = (NO_SLOT, NO_SLOT);
        self.members[slot] = Member { key: key(rank, tie), value, place: STRAY, before, after };
        self.strays.place(slot, rank, tie, slot as u32);
    }

    /// Plays all matches after every slot that takes part was [placed](Self::place): they are strays until they are served.
    pub(crate) fn rebuild(&mut self) {
        (self.heads, self.tails, self.last) = (Group::EMPTY, [0; RUNS], [NO_SLOT; RUNS]);
        self.strays.rebuild();
        self.choose();
    }

    /// The keys of the slots that take part.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u128> {
        self.members.iter().filter(|member| member.place != OUT).map(|member| member.key)
    }

    pub(crate) fn is_valid(&self) -> bool {
        let smallest = self.keys().min();
        let first = self.members.get(self.first as usize);
        let chosen = first.filter(|first| first.place != OUT).map(|first| first.key) == smallest;
        let named = self.best == first.map_or(NO_VALUE, |first| first.value);
        let stray = |(slot, member): (usize, &Member)| {
            self.strays.contains(slot) == (member.place == STRAY)
                && (member.place != STRAY || self.strays.key(slot) == member.key)
        };
        let in_runs = self.members.iter().filter(|member| member.place < STRAY).count();
        let lengths: Option<usize> = (0..RUNS).map(|run| self.length_of(run)).sum();
        let strays = self.strays.is_valid() && self.members.iter().enumerate().all(stray);
        chosen && named && strays && lengths == Some(in_runs)
    }

    /// The number of slots of a run, or `None` if it is broken.
    fn length_of(&self, run: usize) -> Option<usize> {
        let (mut slot, mut before, mut length) = (self.heads.values[run], NO_SLOT, 0);
        let (mut largest, mut head) = (0, ABSENT);
        while let Some(member) = self.members.get(slot as usize) {
            let sound = member.place as usize == run && member.before == before && largest <= member.key;
            if !sound || length > self.members.len() {
                return None;
            }
            head = if length == 0 { member.key } else { head };
            (largest, before, slot, length) = (member.key, slot, member.after, length + 1);
        }
        let ends = self.tails[run] == largest && self.last[run] == before && self.heads.keys[run] == head;
        ends.then_some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An operation on a slot.
    #[derive(Clone, Debug)]
    enum Step {
        /// The smallest slot returns with a rank that is larger by so much.
        Serve(u64),
        Set(usize, u64),
        Clear(usize),
        Value(usize),
        /// All ranks fall by so much, down to zero at most.
        Rebase(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            12 => prop_oneof![Just(64_u64), Just(594), Just(1518), 0..2000_u64].prop_map(Step::Serve),
            4 => (0..70_usize, 0..4000_u64).prop_map(|(slot, rank)| Step::Set(slot, rank)),
            2 => (0..70_usize).prop_map(Step::Clear),
            2 => (0..70_usize).prop_map(Step::Value),
            1 => (0..3000_u64).prop_map(Step::Rebase),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_a_linear_scan(slots in 1..70_usize, steps in prop::collection::vec(step(), 0..600)) {
            let mut runs = Runs::new(slots);
            let mut list: Vec<Option<(u64, u64, u32)>> = vec![None; slots];
            for (slot, entry) in list.iter_mut().enumerate() {
                runs.set(slot, 0, slot as u64, 1000 + slot as u32);
                *entry = Some((0, slot as u64, 1000 + slot as u32));
            }
            for (at, step) in steps.into_iter().enumerate() {
                let tie = (slots + at) as u64;
                let first = (0..slots).filter(|slot| list[*slot].is_some()).min_by_key(|slot| list[*slot]);
                match (step, first) {
                    (Step::Serve(by), Some(first)) => {
                        let (rank, _, value) = list[first].unwrap();
                        list[first] = Some((rank + by, tie, value));
                        runs.set(first, rank + by, tie, value);
                    }
                    (Step::Serve(_), None) => {}
                    (Step::Set(slot, rank), _) => {
                        list[slot % slots] = Some((rank, tie, 5000 + tie as u32));
                        runs.set(slot % slots, rank, tie, 5000 + tie as u32);
                    }
                    (Step::Clear(slot), _) => {
                        list[slot % slots] = None;
                        runs.clear(slot % slots);
                    }
                    (Step::Value(slot), _) => {
                        if let Some((_, _, value)) = &mut list[slot % slots] {
                            *value = 9000 + tie as u32;
                            runs.set_value(slot % slots, *value);
                        }
                    }
                    (Step::Rebase(base), _) => {
                        list.iter_mut().flatten().for_each(|entry| entry.0 = entry.0.saturating_sub(base));
                        runs.rerank(|rank| rank.saturating_sub(base));
                    }
                }
                let best = list.iter().flatten().min();
                prop_assert_eq!(runs.best(), best.map_or(NO_VALUE, |(_, _, value)| *value));
                prop_assert!(runs.is_valid());
                for (slot, entry) in list.iter().enumerate() {
                    prop_assert_eq!(runs.contains(slot), entry.is_some());
                    if let Some((rank, tie, value)) = entry {
                        prop_assert_eq!((runs.key(slot), runs.value(slot)), (key(*rank, *tie), *value));
                    }
                }
            }
        }
    }

    /// Slots that always send the same are in one run, and those of three lengths in three.
    #[test]
    fn equal_lengths_need_one_run_each() {
        for (lengths, expected) in [(&[1518][..], 1), (&[64, 594, 1518], 3)] {
            let mut runs = Runs::new(1000);
            (0..1000).for_each(|slot| runs.set(slot, 0, slot as u64, slot as u32));
            for turn in 0..20_000 {
                let slot = runs.best() as usize;
                let rank = (runs.key(slot) >> 64) as u64;
                runs.set(
                    slot,
                    rank + lengths[(turn * 7919 + turn / 64) % lengths.len()],
                    1000 + turn as u64,
                    slot as u32,
                );
                assert!(runs.strays.is_empty());
            }
            assert!(runs.tails.iter().filter(|tail| **tail > 0).count() <= expected + 1);
        }
    }
}
