//! The push-in first-out queue: a 4-ary heap.
//!
//! Four children of 24 bytes lie in one or two cache lines, so a level of the heap costs about one miss and the heap
//! has half the levels of a binary one. An entry that is alone lies in the queue's own record, which then needs no other
//! memory.

/// An entry of a PIFO: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The rank; the smallest leaves first.
    pub(crate) rank: u64,
    /// The order of insertion, which decides between equal ranks.
    pub(crate) tie: u64,
    /// The referenced flow or lane.
    pub(crate) id: u32,
}

impl Entry {
    /// Rank and tie as one number, so that a comparison is one subtraction with borrow and no branch.
    #[inline]
    pub(crate) fn key(&self) -> u128 {
        key(self.rank, self.tie)
    }

    /// The absence of an entry.
    const ABSENT: Self = Self { rank: u64::MAX, tie: u64::MAX, id: u32::MAX };

    #[inline]
    fn is_absent(&self) -> bool {
        self.id == u32::MAX
    }
}

/// The key of a rank and a tie.
#[inline]
pub(crate) fn key(rank: u64, tie: u64) -> u128 {
    (u128::from(rank) << 64) | u128::from(tie)
}

/// Children of a heap position.
const ARITY: usize = 4;

/// A push-in first-out queue with a stable order of equal ranks.
#[derive(Debug)]
pub(crate) struct Pifo {
    /// The only entry, of an id below `u32::MAX`, or [`Entry::ABSENT`].
    only: Entry,
    /// The entries, if there is none in `only`.
    heap: Vec<Entry>,
}

impl Default for Pifo {
    fn default() -> Self {
        Self { only: Entry::ABSENT, heap: Vec::new() }
    }
}

impl Pifo {
    #[inline]
    pub(crate) fn peek(&self) -> Option<&Entry> {
        if self.only.is_absent() { self.heap.first() } else { Some(&self.only) }
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len() + usize::from(!self.only.is_absent())
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.only.is_absent() && self.heap.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.heap.iter().chain((!self.only.is_absent()).then_some(&self.only))
    }

    /// Reserves memory for `total` entries, so that no later push allocates.
    pub(crate) fn reserve_total(&mut self, total: usize) {
        if total > 1 {
            self.heap.reserve(total.saturating_sub(self.heap.len()));
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, entry: Entry) {
        if self.is_empty() {
            self.only = entry;
            return;
        }
        if !self.only.is_absent() {
            self.heap.push(self.only);
            self.only = Entry::ABSENT;
        }
        let at = self.heap.len();
        self.heap.push(entry);
        self.sift_up(at, entry);
    }

    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Entry> {
        if !self.only.is_absent() {
            return Some(core::mem::replace(&mut self.only, Entry::ABSENT));
        }
        let last = self.heap.pop()?;
        match self.heap.first() {
            Some(&first) => {
                self.replace_top(last);
                Some(first)
            }
            None => Some(last),
        }
    }

    /// Replaces the first entry: a pop and a push in one pass. Has no effect on an empty queue.
    #[inline]
    pub(crate) fn replace_top(&mut self, entry: Entry) {
        if !self.only.is_absent() {
            self.only = entry;
            return;
        }
        self.sift_down(entry.rank, entry.tie, entry.id);
    }

    /// The entry comes in registers: one that was just written to memory, field by field, and is read back as a whole
    /// stalls the processor.
    fn sift_down(&mut self, rank: u64, tie: u64, id: u32) {
        let heap = self.heap.as_mut_slice();
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
            *place = Entry { rank, tie, id };
        }
    }

    #[inline]
    fn sift_up(&mut self, mut at: usize, entry: Entry) {
        let heap = self.heap.as_mut_slice();
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

    /// Changes every rank by `change` and restores the order. Linear in the number of entries; for rare events.
    pub(crate) fn rerank(&mut self, mut change: impl FnMut(&Entry) -> u64) {
        if !self.only.is_absent() {
            self.only.rank = change(&self.only);
        }
        for entry in &mut self.heap {
            entry.rank = change(entry);
        }
        // A sorted array is a heap, and this path is too rare to justify a heapify function.
        self.heap.sort_unstable_by_key(Entry::key);
    }

    /// Removes all entries and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.only = Entry::ABSENT;
        self.heap.clear();
    }

    /// The number of entries for which there is memory.
    pub(crate) fn capacity(&self) -> usize {
        self.heap.capacity().max(1)
    }

    /// Removes the entry of `id`. Linear in the number of entries; for rare events.
    pub(crate) fn remove(&mut self, id: u32) -> Option<Entry> {
        if !self.only.is_absent() && self.only.id == id {
            return self.pop();
        }
        let at = self.heap.iter().position(|entry| entry.id == id)?;
        let removed = self.heap.swap_remove(at);
        self.heap.sort_unstable_by_key(Entry::key);
        Some(removed)
    }

    /// Moves all entries into `larger`, which is empty and has room for them, and exchanges the two.
    pub(crate) fn move_into(&mut self, larger: &mut Self) {
        larger.heap.append(&mut self.heap);
        larger.only = core::mem::replace(&mut self.only, Entry::ABSENT);
        core::mem::swap(self, larger);
    }

    /// The entries in the order in which they would leave. Sorts in place; for rare events.
    pub(crate) fn sorted(&mut self) -> &mut [Entry] {
        if !self.only.is_absent() {
            return core::slice::from_mut(&mut self.only);
        }
        self.heap.sort_unstable_by_key(Entry::key);
        &mut self.heap
    }

    pub(crate) fn is_valid(&self) -> bool {
        let alone = self.only.is_absent() || self.heap.is_empty();
        alone && (1..self.heap.len()).all(|at| self.heap[(at - 1) / ARITY].key() < self.heap[at].key())
    }
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
            pifo.push(Entry { rank: tie % 3, tie, id: tie as u32 });
        }
        let order: Vec<_> = core::iter::from_fn(|| pifo.pop()).map(|e| (e.rank, e.tie)).collect();
        assert!(order.is_sorted());
        assert_eq!(order.len(), 100);
    }

    proptest! {
        #[test]
        fn agrees_with_a_sorted_list(operations in prop::collection::vec((0..12_u8, 0..20_u64), 0..300)) {
            let mut pifo = Pifo::default();
            let mut list: Vec<(u64, u64)> = Vec::new();
            for (tie, (what, rank)) in operations.into_iter().enumerate() {
                let tie = tie as u64;
                let id = tie as u32;
                list.sort_unstable();
                match what {
                    0..4 => {
                        let expected = if list.is_empty() { None } else { Some(list.remove(0)) };
                        prop_assert_eq!(pifo.pop().map(|e| (e.rank, e.tie)), expected);
                    }
                    4 | 5 if !list.is_empty() => {
                        list[0] = (rank, tie);
                        pifo.replace_top(Entry { rank, tie, id });
                    }
                    6 if !list.is_empty() => {
                        let removed = list.remove(rank as usize % list.len());
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
                    9 if rank == 0 => {
                        let found: Vec<_> = pifo.sorted().iter().map(|e| (e.rank, e.tie)).collect();
                        prop_assert_eq!(found, list.clone());
                    }
                    _ => {
                        list.push((rank, tie));
                        pifo.push(Entry { rank, tie, id });
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
}
