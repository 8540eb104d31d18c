//! The push-in first-out queue: its first entry, and a heap or a wheel behind it.
//!
//! The first entry lies in the queue's own record, so that the next turn reads no other memory, and a queue of one entry needs none.
//! Few entries are in a 4-ary heap: four children of 24 bytes lie in one or two cache lines, so a level of the heap costs about
//! one miss and the heap has half the levels of a binary one. Many flows are in a [wheel](crate::wheel).

use crate::entry::{Entry, key};
use crate::wheel::Wheel;

/// Children of a heap position.
const ARITY: usize = 4;

/// The number of entries from which on a queue of flows is a wheel.
const WHEEL_FROM: usize = 1024;

/// A push-in first-out queue with a stable order of equal ranks.
#[derive(Debug)]
pub(crate) struct Pifo {
    /// The first entry, or [`Entry::ABSENT`] in an empty queue or after [`Self::sorted`].
    first: Entry,
    rest: Rest,
}

/// The entries behind the first; after [`Pifo::sorted`], all.
#[derive(Debug)]
enum Rest {
    Heap(Vec<Entry>),
    Wheel(Box<Wheel>),
}

impl Default for Pifo {
    fn default() -> Self {
        Self { first: Entry::ABSENT, rest: Rest::Heap(Vec::new()) }
    }
}

impl Pifo {
    #[inline]
    pub(crate) fn peek(&self) -> Option<&Entry> {
        if self.first.is_absent() { self.in_order().first() } else { Some(&self.first) }
    }

    /// After [`Self::sorted`], all entries in order.
    #[inline]
    fn in_order(&self) -> &[Entry] {
        match &self.rest {
            Rest::Heap(heap) => heap,
            Rest::Wheel(wheel) => wheel.in_order(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        let rest = match &self.rest {
            Rest::Heap(heap) => heap.len(),
            Rest::Wheel(wheel) => wheel.len(),
        };
        rest + usize::from(!self.first.is_absent())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_absent() && self.in_order().is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        let rest = match &self.rest {
            Rest::Heap(heap) => heap,
            Rest::Wheel(wheel) => wheel.all_places(),
        };
        rest.iter().chain([&self.first]).filter(|entry| !entry.is_absent())
    }

    /// Reserves memory for `total` entries, so that no later push allocates.
    pub(crate) fn reserve_total(&mut self, total: usize) {
        match &mut self.rest {
            Rest::Heap(heap) if total > 1 => heap.reserve(total.saturating_sub(heap.len())),
            Rest::Wheel(wheel) if wheel.capacity() < total => self.enlarge(total.next_power_of_two()),
            _ => {}
        }
    }

    /// Reserves memory as [`Self::reserve_total`], for flows that may be many.
    pub(crate) fn reserve_flows(&mut self, total: usize) {
        if total >= WHEEL_FROM && matches!(self.rest, Rest::Heap(_)) {
            self.enlarge(total.next_power_of_two());
        }
        self.reserve_total(total);
    }

    /// Moves all entries into a wheel with memory for `total`.
    fn enlarge(&mut self, total: usize) {
        let rest = Rest::Wheel(Box::new(Wheel::new(total)));
        self.move_into(&mut Self { first: Entry::ABSENT, rest });
    }

    #[inline]
    pub(crate) fn push(&mut self, mut entry: Entry) {
        if self.first.is_absent() {
            if self.in_order().is_empty() {
                if let Rest::Wheel(wheel) = &mut self.rest {
                    wheel.begin(entry.rank);
                }
                self.first = entry;
                return;
            }
            self.settle();
        }
        if entry.key() < self.first.key() {
            core::mem::swap(&mut entry, &mut self.first);
        }
        match &mut self.rest {
            Rest::Heap(heap) => {
                let at = heap.len();
                heap.push(entry);
                sift_up(heap, at, entry);
            }
            Rest::Wheel(wheel) => wheel.insert(entry),
        }
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        if self.first.is_absent() && !self.settle() {
            return None;
        }
        let next = self.take_rest();
        Some(core::mem::replace(&mut self.first, next))
    }

    /// Removes the first entry behind the first, or nothing.
    #[inline]
    fn take_rest(&mut self) -> Entry {
        match &mut self.rest {
            Rest::Heap(heap) => pop(heap),
            Rest::Wheel(wheel) => wheel.take_first().unwrap_or(Entry::ABSENT),
        }
    }

    /// Brings the first entry back to its place after [`Self::sorted`]. Returns false in an empty queue.
    #[cold]
    fn settle(&mut self) -> bool {
        if self.in_order().is_empty() {
            return false;
        }
        if let Rest::Wheel(wheel) = &mut self.rest {
            wheel.relink();
        }
        self.first = self.take_rest();
        !self.first.is_absent()
    }

    /// Replaces the first entry: a pop and a push in one pass. Has no effect on an empty queue.
    #[inline]
    pub(crate) fn replace_top(&mut self, entry: Entry) {
        if self.first.is_absent() && !self.settle() {
            return;
        }
        match &mut self.rest {
            Rest::Wheel(wheel) => self.first = wheel.exchange(entry),
            Rest::Heap(heap) => match heap.first() {
                Some(next) if next.key() < entry.key() => {
                    self.first = *next;
                    sift_down(heap, entry.rank, entry.tie, entry.id);
                }
                _ => self.first = entry,
            },
        }
    }

    /// Changes every rank by `change` and restores the order. Linear in the number of entries; for rare events.
    pub(crate) fn rerank(&mut self, mut change: impl FnMut(&Entry) -> u64) {
        for entry in self.sorted() {
            entry.rank = change(entry);
        }
        self.sorted();
    }

    /// Removes all entries and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.first = Entry::ABSENT;
        match &mut self.rest {
            Rest::Heap(heap) => heap.clear(),
            Rest::Wheel(wheel) => wheel.clear(),
        }
    }

    /// The number of entries that the memory has places for.
    pub(crate) fn capacity(&self) -> usize {
        match &self.rest {
            Rest::Heap(heap) => heap.capacity().max(1),
            Rest::Wheel(wheel) => wheel.capacity(),
        }
    }

    /// Removes the entry of `id`. Linear in the number of entries; for rare events.
    pub(crate) fn remove(&mut self, id: u32) -> Option<Entry> {
        let at = self.sorted().iter().position(|entry| entry.id == id)?;
        Some(match &mut self.rest {
            Rest::Heap(heap) => heap.remove(at),
            Rest::Wheel(wheel) => wheel.remove(at),
        })
    }

    /// Moves all entries into `larger`, which is empty and has room for them, and exchanges the two.
    pub(crate) fn move_into(&mut self, larger: &mut Self) {
        for entry in self.sorted() {
            larger.push(*entry);
        }
        self.clear();
        core::mem::swap(self, larger);
    }

    /// The entries in the order in which they would leave. Sorts in place, and the next change sorts again; for rare events.
    pub(crate) fn sorted(&mut self) -> &mut [Entry] {
        let first = core::mem::replace(&mut self.first, Entry::ABSENT);
        let first = (!first.is_absent()).then_some(first);
        match &mut self.rest {
            Rest::Heap(heap) => {
                heap.extend(first);
                heap.sort_unstable_by_key(Entry::key);
                heap
            }
            Rest::Wheel(wheel) => wheel.loose(first),
        }
    }

    pub(crate) fn is_valid(&self) -> bool {
        if self.first.is_absent() {
            return self.in_order().is_sorted_by_key(Entry::key);
        }
        let first = self.iter().all(|entry| self.first.key() <= entry.key());
        first
            && match &self.rest {
                Rest::Heap(heap) => (1..heap.len()).all(|at| heap[(at - 1) / ARITY].key() < heap[at].key()),
                Rest::Wheel(wheel) => wheel.is_valid(),
            }
    }
}

/// Removes the first entry of a heap, or nothing.
#[inline]
fn pop(heap: &mut Vec<Entry>) -> Entry {
    let Some(last) = heap.pop() else { return Entry::ABSENT };
    match heap.first() {
        Some(&first) => {
            sift_down(heap, last.rank, last.tie, last.id);
            first
        }
        None => last,
    }
}

/// Replaces the first entry of a heap. The entry comes in registers: one that was just written to memory, field by field, and is
/// read back as a whole stalls the processor.
fn sift_down(heap: &mut [Entry], rank: u64, tie: u64, id: u32) {
    let key = key(rank, tie);
    let mut at = 0;
    loop {
        let first = at * ARITY + 1;
        let Some((child, child_key)) = smallest_child(heap, first) else { break };
        if key <= child_key {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    if let Some(place) = heap.get_mut(at) {
        *place = Entry::new(rank, tie, id);
    }
}

#[inline]
fn sift_up(heap: &mut [Entry], mut at: usize, entry: Entry) {
    let key = entry.key();
    while at > 0 {
        let parent = (at - 1) / ARITY;
        if heap[parent].key() <= key {
            break;
        }
        heap[at] = heap[parent];
        at = parent;
    }
    heap[at] = entry;
}

/// The smallest of up to four entries from `first` on, with its key.
#[inline]
fn smallest_child(heap: &[Entry], first: usize) -> Option<(usize, u128)> {
    if let Some(four) = heap.get(first..first + ARITY) {
        // A tournament of two rounds: the first two comparisons are independent.
        let keys = [four[0].key(), four[1].key(), four[2].key(), four[3].key()];
        let left = if keys[1] < keys[0] { (1, keys[1]) } else { (0, keys[0]) };
        let right = if keys[3] < keys[2] { (3, keys[3]) } else { (2, keys[2]) };
        let best = if right.1 < left.1 { right } else { left };
        return Some((first + best.0, best.1));
    }
    let rest = heap.get(first..)?;
    let (at, entry) = rest.iter().enumerate().min_by_key(|(_, entry)| entry.key())?;
    Some((first + at, entry.key()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_ranks_leave_in_the_order_of_insertion() {
        let mut pifo = Pifo::default();
        for tie in 0..100 {
            pifo.push(Entry::new(tie % 3, tie, tie as u32));
        }
        let order: Vec<_> = core::iter::from_fn(|| pifo.pop()).map(|e| (e.rank, e.tie)).collect();
        assert!(order.is_sorted());
        assert_eq!(order.len(), 100);
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_list(
            operations in prop::collection::vec((0..12_u8, 0..20_u64), 0..300),
            scale in 0..40_u32,
            many in any::<bool>(),
        ) {
            let mut pifo = Pifo::default();
            pifo.reserve_flows(if many { WHEEL_FROM } else { 1 });
            let mut list: Vec<(u64, u64)> = Vec::new();
            for (tie, (what, rank)) in operations.into_iter().enumerate() {
                let tie = tie as u64;
                let id = tie as u32;
                let (step, rank) = (rank, rank << scale);
                list.sort_unstable();
                match what {
                    0..4 => {
                        let expected = if list.is_empty() { None } else { Some(list.remove(0)) };
                        prop_assert_eq!(pifo.pop().map(|e| (e.rank, e.tie)), expected);
                    }
                    4 | 5 if !list.is_empty() => {
                        list[0] = (rank, tie);
                        pifo.replace_top(Entry::new(rank, tie, id));
                    }
                    6 if !list.is_empty() => {
                        let removed = list.remove(step as usize % list.len());
                        prop_assert_eq!(pifo.remove(removed.1 as u32).map(|e| (e.rank, e.tie)), Some(removed));
                        prop_assert_eq!(pifo.remove(u32::MAX), None);
                    }
                    7 => {
                        list.iter_mut().for_each(|entry| entry.0 = entry.0.saturating_sub(rank));
                        pifo.rerank(|entry| entry.rank.saturating_sub(rank));
                    }
                    8 => {
                        let mut larger = Pifo::default();
                        larger.reserve_total(pifo.len() + 1);
                        pifo.move_into(&mut larger);
                        prop_assert!(larger.is_empty() && pifo.capacity() > list.len());
                    }
                    9 if step == 0 => {
                        let found: Vec<_> = pifo.sorted().iter().map(|e| (e.rank, e.tie)).collect();
                        prop_assert_eq!(found, list.clone());
                    }
                    _ => {
                        list.push((rank, tie));
                        pifo.push(Entry::new(rank, tie, id));
                    }
                }
                prop_assert!(pifo.is_valid());
                prop_assert_eq!(pifo.len(), list.len());
                prop_assert_eq!(pifo.is_empty(), list.is_empty());
                prop_assert_eq!(pifo.peek().map(|e| (e.rank, e.tie)), list.iter().min().copied());
                prop_assert_eq!(pifo.iter().count(), list.len());
            }
        }
    }
    /// Flows of a fair leaf: the first returns behind by what it sent, or leaves, and others come at virtual time, or with a tag that
    /// is older, or far ahead. The widths of buckets follow.
    #[test]
    fn many_flows_leave_in_the_order_of_their_tags() {
        let mut rng = weft_units::testing::Rng::new(5);
        for scale in [0, 12, 30, 44] {
            let mut pifo = Pifo::default();
            pifo.reserve_flows(4 * WHEEL_FROM);
            let mut list = std::collections::BTreeSet::new();
            let mut widths = std::collections::BTreeSet::new();
            for tie in 0..150_000_u64 {
                let (rank, id) = (pifo.peek().map_or(0, |first| first.rank), tie as u32);
                let tag = match rng.below(64) {
                    0 => rank + (u64::from(rng.below(65_536)) << scale),
                    1 => rank.saturating_sub(u64::from(rng.below(3000)) << scale),
                    2..10 => rank,
                    _ => {
                        rank + ([64, 594, 1518, 1518][rng.below(4) as usize] << scale)
                            / u64::from(1 + rng.below(4))
                    }
                };
                let least = list.first().copied();
                match rng.below(8) {
                    0 if tie > 10_000 => {
                        list.pop_first();
                        assert_eq!(pifo.pop().map(|entry| (entry.rank, entry.tie)), least);
                    }
                    1..7 if least.is_some() => {
                        list.pop_first();
                        list.insert((tag, tie));
                        pifo.replace_top(Entry::new(tag, tie, id));
                    }
                    _ if list.len() < 4 * WHEEL_FROM => {
                        list.insert((tag, tie));
                        pifo.push(Entry::new(tag, tie, id));
                    }
                    _ => {}
                }
                assert_eq!(pifo.peek().map(|entry| (entry.rank, entry.tie)), list.first().copied());
                if tie % 5000 == 0 {
                    assert!(pifo.is_valid() && pifo.len() == list.len());
                    let Rest::Wheel(wheel) = &pifo.rest else { panic!("these are many") };
                    widths.insert(wheel.width());
                }
            }
            assert!(widths.len() > 1, "the width follows what is inserted: {widths:?}");
            let order: Vec<_> =
                core::iter::from_fn(|| pifo.pop()).map(|entry| (entry.rank, entry.tie)).collect();
            assert!(order.iter().eq(list.iter()));
        }
    }
}
