//! A wheel of buckets: many entries by (rank, tie), at a cost that does not grow with their number.
//!
//! A bucket holds the entries of a range of ranks, in any order. The first bucket that is not empty is *open*: its entries, and all
//! that are inserted before its end, are in a small heap, so the order is exact whatever the width of a bucket. Further buckets are
//! found by a bitmap. An entry beyond the last bucket waits in a second heap. So both heaps may grow, with ranks that are
//! alike or far apart, and the cost of the worst case is that of a heap.
//!
//! The width of a bucket is a power of two of ranks, and follows from what is inserted: it doubles when many entries fall beyond the
//! last bucket, and halves when few fall into the upper half of the buckets. A change of the width sorts all entries into buckets
//! anew, in a pass that is linear in them and takes place at most once in four times as many insertions as there are buckets.

use crate::entry::{Entry, NO_PLACE};
use crate::prefetch::prefetch;

/// The bits of a word.
const WORD: usize = 64;

/// The fewest and the most buckets.
const BUCKETS_MIN: usize = 256;
const BUCKETS_MAX: usize = 1 << 15;

/// The width of a bucket before anything is known, as a power of two: two bytes of service at weight 1.
const FIRST_SHIFT: u32 = 13;

/// Insertions per bucket between two decisions about the width.
const EPOCH: usize = 4;

/// The part of the insertions that is few.
const FEW: u32 = 16;

/// The number of entries up to which none need buckets.
const FEW_ENTRIES: usize = 8;

/// Entries by (rank, tie).
#[derive(Debug)]
pub(crate) struct Wheel {
    /// All entries, and free places, which are [absent](Entry::ABSENT) and linked.
    slab: Vec<Entry>,
    free: u32,
    count: usize,
    /// Bits of a rank within a bucket.
    shift: u32,
    /// The number of the open bucket: all bucket numbers up to it are open.
    cursor: u64,
    /// The first and the last of a list of open entries in order.
    open: u32,
    last: u32,
    /// The open entries that fit into no order, as a heap of places.
    near: Vec<u32>,
    /// The entries that were inserted beyond the last bucket, as a heap of places.
    far: Vec<u32>,
    /// The first entry of each bucket's list. A bucket's place is its number modulo the number of buckets, a power of two.
    buckets: Box<[u32]>,
    /// A bit for each bucket that is not empty, and one for each word of these that is not zero.
    bits: Box<[u64]>,
    summary: Box<[u64]>,
    /// Insertions since the last decision about the width; in the upper half and beyond; and beyond.
    inserted: u32,
    upper: u32,
    beyond: u32,
}

impl Wheel {
    /// A wheel with memory for `total` entries.
    pub(crate) fn new(total: usize) -> Self {
        let count = (2 * total).next_power_of_two().clamp(BUCKETS_MIN, BUCKETS_MAX);
        let words = count / WORD;
        Self {
            slab: Vec::with_capacity(total),
            free: NO_PLACE,
            count: 0,
            shift: FIRST_SHIFT,
            cursor: 0,
            open: NO_PLACE,
            last: NO_PLACE,
            near: Vec::with_capacity(total),
            far: Vec::with_capacity(total),
            buckets: vec![NO_PLACE; count].into(),
            bits: vec![0; words].into(),
            summary: vec![0; words.div_ceil(WORD)].into(),
            inserted: 0,
            upper: 0,
            beyond: 0,
        }
    }

    /// The number of entries.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The width of a bucket, as a power of two.
    #[cfg(test)]
    pub(crate) fn width(&self) -> u32 {
        self.shift
    }

    /// The number of entries that the memory has places for.
    pub(crate) fn capacity(&self) -> usize {
        self.slab.capacity()
    }

    /// The places of all entries, and free ones.
    pub(crate) fn all_places(&self) -> &[Entry] {
        &self.slab
    }

    /// After [`Self::loose`], the entries in order.
    #[inline]
    pub(crate) fn in_order(&self) -> &[Entry] {
        self.slab.get(..self.count).unwrap_or_default()
    }

    /// Removes the entry at `at` of [`Self::in_order`].
    pub(crate) fn remove(&mut self, at: usize) -> Entry {
        self.count -= 1;
        self.slab.remove(at)
    }

    /// Removes all entries and keeps the memory and the width.
    pub(crate) fn clear(&mut self) {
        self.slab.clear();
        (self.free, self.count) = (NO_PLACE, 0);
        self.forget_lists();
    }

    /// Lets an empty wheel begin at `rank`.
    #[inline]
    pub(crate) fn begin(&mut self, rank: u64) {
        self.cursor = rank >> self.shift;
    }

    /// Adds an entry.
    #[inline]
    pub(crate) fn insert(&mut self, entry: Entry) {
        let at = match self.slab.get_mut(self.free as usize) {
            Some(place) => {
                let at = self.free;
                self.free = place.link;
                *place = entry;
                at
            }
            None => {
                self.slab.push(entry);
                (self.slab.len() - 1) as u32
            }
        };
        self.count += 1;
        // Few entries are all open: their heap costs less than buckets.
        if self.count <= FEW_ENTRIES && self.far.is_empty() && self.summary.iter().all(|words| *words == 0) {
            self.cursor = self.cursor.max(entry.rank >> self.shift);
            return self.link_open(at, entry.key());
        }
        self.link(at, entry.key());
        self.decide();
    }

    /// Removes the first entry.
    #[inline]
    pub(crate) fn take_first(&mut self) -> Option<Entry> {
        let (at, stray) = self.first()?;
        let entry = self.slab[at as usize];
        self.remove_first(stray, entry.link);
        self.slab[at as usize] = Entry { link: self.free, ..Entry::ABSENT };
        self.free = at;
        self.count -= 1;
        self.open_next();
        Some(entry)
    }

    /// Adds `entry` and removes the first.
    #[inline]
    pub(crate) fn exchange(&mut self, entry: Entry) -> Entry {
        let Some((at, stray)) = self.first() else { return entry };
        let first = self.slab[at as usize];
        if entry.key() < first.key() {
            return entry;
        }
        self.remove_first(stray, first.link);
        self.slab[at as usize] = entry;
        self.link(at, entry.key());
        self.open_next();
        self.decide();
        first
    }

    /// The place of the first entry, and whether it is in `near`.
    #[inline]
    fn first(&mut self) -> Option<(u32, bool)> {
        loop {
            if !self.near.is_empty() {
                return Some(self.first_near());
            }
            if self.open != NO_PLACE {
                return Some((self.open, false));
            }
            if !self.advance() {
                return None;
            }
        }
    }

    fn first_near(&self) -> (u32, bool) {
        let (at, open) = (self.near[0], self.slab.get(self.open as usize));
        if open.is_some_and(|open| open.key() < self.key(at)) { (self.open, false) } else { (at, true) }
    }

    /// Removes what [`Self::first`] found.
    #[inline]
    fn remove_first(&mut self, stray: bool, link: u32) {
        if stray {
            pop(&mut self.near, &self.slab);
        } else {
            self.open = link;
        }
    }

    /// Opens the next bucket early, so that its entries are there when they are needed.
    #[inline]
    fn open_next(&mut self) {
        if self.open == NO_PLACE && self.near.is_empty() && self.count > 0 {
            self.advance();
        }
        prefetch(&self.slab, self.open as usize);
    }

    /// Puts the entry at `at`, of this key, into its list or heap.
    #[inline]
    fn link(&mut self, at: u32, key: u128) {
        let bucket = (key >> 64) as u64 >> self.shift;
        self.inserted += 1;
        if bucket <= self.cursor {
            return self.link_open(at, key);
        }
        let ahead = bucket - self.cursor;
        let buckets = self.buckets.len() as u64;
        self.upper += u32::from(ahead >= buckets / 2);
        if ahead >= buckets {
            self.beyond += 1;
            self.slab[at as usize].link = NO_PLACE;
            push(&mut self.far, &self.slab, at);
            return;
        }
        let place = bucket as usize & (self.buckets.len() - 1);
        self.slab[at as usize].link = core::mem::replace(&mut self.buckets[place], at);
        self.bits[place / WORD] |= 1 << (place % WORD);
        self.summary[place / WORD / WORD] |= 1 << (place / WORD % WORD);
    }

    /// Adds an entry to those that are open.
    fn link_open(&mut self, at: u32, key: u128) {
        self.slab[at as usize].link = NO_PLACE;
        if self.open == NO_PLACE {
            (self.open, self.last) = (at, at);
        } else if self.key(self.last) <= key {
            self.slab[self.last as usize].link = at;
            self.last = at;
        } else {
            push(&mut self.near, &self.slab, at);
        }
    }

    /// Opens the first bucket that is not empty, while none is open. Returns false if all are empty.
    #[inline]
    fn advance(&mut self) -> bool {
        let mask = self.buckets.len() - 1;
        let from = self.cursor as usize & mask;
        let place = self.not_empty(from + 1).or_else(|| self.not_empty(0));
        let ahead = place.map(|place| (place.wrapping_sub(from) & mask) as u64);
        if !self.far.is_empty() {
            return self.advance_far(ahead);
        }
        let (Some(place), Some(ahead)) = (place, ahead) else { return false };
        self.cursor += ahead;
        self.open_bucket(place);
        true
    }

    /// Opens the next bucket while entries wait beyond the last one. The next that is not empty is so many ahead, if there is one.
    #[cold]
    fn advance_far(&mut self, ahead: Option<u64>) -> bool {
        let far = |this: &Self| this.far.first().map(|at| this.slab[*at as usize].rank >> this.shift);
        let next = ahead.map(|ahead| self.cursor + ahead);
        let Some(bucket) = next.into_iter().chain(far(self)).min() else { return false };
        self.cursor = bucket;
        if next == Some(bucket) {
            self.open_bucket(bucket as usize & (self.buckets.len() - 1));
        }
        while far(self).is_some_and(|first| first <= bucket) {
            let Some(at) = pop(&mut self.far, &self.slab) else { break };
            self.link_open(at, self.key(at));
        }
        true
    }

    /// Opens the bucket at `place`, while none is open.
    #[inline]
    fn open_bucket(&mut self, place: usize) {
        let first = core::mem::replace(&mut self.buckets[place], NO_PLACE);
        (self.open, self.last) = (first, first);
        // Alone, it is in order.
        if self.slab.get(first as usize).is_some_and(|entry| entry.link != NO_PLACE) {
            self.reverse();
        }
        let word = &mut self.bits[place / WORD];
        *word &= !(1 << (place % WORD));
        if *word == 0 {
            self.summary[place / WORD / WORD] &= !(1 << (place / WORD % WORD));
        }
    }

    /// Turns the list that was opened around. The last to be inserted is its first, and usually the largest; those that are
    /// out of this order go to `near`.
    fn reverse(&mut self) {
        let mut at = core::mem::replace(&mut self.open, NO_PLACE);
        let mut least = u128::MAX;
        while let Some(entry) = self.slab.get_mut(at as usize) {
            let (next, key) = (entry.link, entry.key());
            if key < least {
                (entry.link, self.open, least) = (self.open, at, key);
            } else {
                push(&mut self.near, &self.slab, at);
            }
            at = next;
        }
    }

    /// The first place from `from` on whose bucket is not empty.
    #[inline]
    fn not_empty(&self, from: usize) -> Option<usize> {
        let (word, rest) = (from / WORD, u64::MAX << (from % WORD));
        let bits = self.bits.get(word)? & rest;
        if bits != 0 {
            return Some(word * WORD + bits.trailing_zeros() as usize);
        }
        let (first, mut rest) = ((word + 1) / WORD, u64::MAX << ((word + 1) % WORD));
        for (at, words) in self.summary.iter().enumerate().skip(first) {
            let words = words & rest;
            if words != 0 {
                let word = at * WORD + words.trailing_zeros() as usize;
                return Some(word * WORD + self.bits.get(word)?.trailing_zeros() as usize);
            }
            rest = u64::MAX;
        }
        None
    }

    /// Decides about the width of buckets, from time to time.
    #[inline]
    fn decide(&mut self) {
        if self.inserted as usize >= EPOCH * self.buckets.len() {
            self.change_width();
        }
    }

    #[cold]
    fn change_width(&mut self) {
        let few = self.inserted / FEW;
        let shift = if self.beyond > few {
            (self.shift + 1).min(u64::BITS - 1)
        } else if self.upper < few {
            self.shift.saturating_sub(1)
        } else {
            self.shift
        };
        if shift != self.shift {
            self.shift = shift;
            self.pack();
            self.relink();
        }
        (self.inserted, self.upper, self.beyond) = (0, 0, 0);
    }

    /// Makes all entries, and `more`, a slice in order, and forgets the lists. [`Self::relink`] must follow before an entry is added
    /// or taken, also if entries of the slice were changed.
    pub(crate) fn loose(&mut self, more: Option<Entry>) -> &mut [Entry] {
        self.pack();
        self.slab.extend(more);
        self.slab.sort_unstable_by_key(Entry::key);
        self.count = self.slab.len();
        &mut self.slab
    }

    /// Removes the free places.
    fn pack(&mut self) {
        self.slab.retain(|entry| !entry.is_absent());
        self.free = NO_PLACE;
        self.forget_lists();
    }

    fn forget_lists(&mut self) {
        self.open = NO_PLACE;
        self.near.clear();
        self.far.clear();
        self.buckets.fill(NO_PLACE);
        self.bits.fill(0);
        self.summary.fill(0);
    }

    /// Sorts all entries into buckets. Linear in the entries and buckets.
    pub(crate) fn relink(&mut self) {
        self.count = self.slab.len();
        self.begin(self.slab.iter().map(|entry| entry.rank).min().unwrap_or(0));
        for at in 0..self.slab.len() {
            self.link(at as u32, self.slab[at].key());
        }
    }

    /// Whether every entry is where it belongs, and nowhere else.
    pub(crate) fn is_valid(&self) -> bool {
        let mut seen = vec![false; self.slab.len()];
        let mut see = |at: u32, belongs: &dyn Fn(u64) -> bool| match self.slab.get(at as usize) {
            Some(entry) if !entry.is_absent() && belongs(entry.rank >> self.shift) => {
                !core::mem::replace(&mut seen[at as usize], true)
            }
            _ => false,
        };
        let opened = |bucket: u64| bucket <= self.cursor;
        let mut valid = self.near.iter().all(|at| see(*at, &opened));
        valid &= self.far.iter().all(|at| see(*at, &|bucket| bucket > self.cursor));
        let after = |at: &u32| Some(self.slab.get(*at as usize)?.link).filter(|next| *next != NO_PLACE);
        let list = |first: u32| core::iter::successors((first != NO_PLACE).then_some(first), after);
        valid &= list(self.open).all(|at| see(at, &opened));
        let buckets = self.buckets.len() as u64;
        for (place, &first) in self.buckets.iter().enumerate() {
            let belongs = |bucket: u64| {
                let here = bucket % buckets == place as u64;
                here && bucket > self.cursor && bucket - self.cursor < buckets
            };
            valid &= list(first).all(|at| see(at, &belongs));
            valid &= (self.bits[place / WORD] >> (place % WORD) & 1 == 1) == (first != NO_PLACE);
        }
        for (at, word) in self.bits.iter().enumerate() {
            valid &= (self.summary[at / WORD] >> (at % WORD) & 1 == 1) == (*word != 0);
        }
        let heap = |heap: &[u32]| (1..heap.len()).all(|at| self.key(heap[(at - 1) / 2]) < self.key(heap[at]));
        let found = seen.iter().filter(|seen| **seen).count();
        valid
            && heap(&self.near)
            && heap(&self.far)
            && found == self.count
            && self.slab.iter().filter(|entry| !entry.is_absent()).count() == found
    }

    fn key(&self, at: u32) -> u128 {
        self.slab[at as usize].key()
    }
}

/// Adds the entry at `at` to a binary heap of places.
#[inline]
fn push(heap: &mut Vec<u32>, slab: &[Entry], at: u32) {
    let key = slab[at as usize].key();
    let mut place = heap.len();
    heap.push(at);
    while place > 0 {
        let above = (place - 1) / 2;
        if slab[heap[above] as usize].key() <= key {
            break;
        }
        heap[place] = heap[above];
        place = above;
    }
    heap[place] = at;
}

/// Removes the first of a binary heap of places.
#[inline]
fn pop(heap: &mut Vec<u32>, slab: &[Entry]) -> Option<u32> {
    let last = heap.pop()?;
    let Some(&first) = heap.first() else { return Some(last) };
    let (key, mut place) = (slab[last as usize].key(), 0);
    loop {
        let left = 2 * place + 1;
        let Some(&child) = heap.get(left) else { break };
        let (mut below, mut at, mut least) = (left, child, slab[child as usize].key());
        if let Some(&right) = heap.get(left + 1) {
            let right_key = slab[right as usize].key();
            if right_key < least {
                (below, at, least) = (left + 1, right, right_key);
            }
        }
        if key <= least {
            break;
        }
        heap[place] = at;
        place = below;
    }
    heap[place] = last;
    Some(first)
}
