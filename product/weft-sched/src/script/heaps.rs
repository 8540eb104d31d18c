//! Leftist heaps over one array: the orders of references under user-defined algorithms.
//!
//! A rank is a pair of numbers. Unlike in the engine's own PIFOs, a reference may change its rank or leave from the middle,
//! and two heaps become one, each in logarithmic time at worst (Crane, 1972). The cell of a reference is found by its
//! number, so that all lanes share one array, no heap needs separate memory, and no operation allocates.

use weft_rank::Rank;

/// The key of a reference: its rank, and the order of insertion among equal ranks.
pub(crate) type Key = (Rank, u64);

/// The root of an empty heap.
pub(crate) const EMPTY: u32 = u32::MAX;

/// The place of a reference: 40 bytes.
#[derive(Clone, Debug)]
struct Cell {
    key: Key,
    left: u32,
    right: u32,
    parent: u32,
    /// The number of cells on the way down to the right, this one included; zero outside every heap.
    height: u32,
}

impl Cell {
    const ABSENT: Self =
        Self { key: (Rank::new(0, 0), 0), left: EMPTY, right: EMPTY, parent: EMPTY, height: 0 };
}

/// The cells of a set of references, each in at most one heap. A heap is the number of its first cell, or [`EMPTY`].
#[derive(Debug, Default)]
pub(crate) struct Heaps {
    cells: Vec<Cell>,
}

impl Heaps {
    /// The cells of `references` references, in no heap.
    pub(crate) fn new(references: usize) -> Self {
        Self { cells: vec![Cell::ABSENT; references] }
    }

    /// Makes room for the references below `references`. May allocate.
    pub(crate) fn grow(&mut self, references: usize) {
        if self.cells.len() < references {
            self.cells.resize(references, Cell::ABSENT);
        }
    }

    /// Whether the reference is in a heap.
    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        self.height(id) > 0
    }

    /// The key of a reference in a heap.
    #[inline]
    pub(crate) fn key(&self, id: u32) -> Key {
        self.cells[id as usize].key
    }

    /// The first reference of a heap with its key.
    #[inline]
    pub(crate) fn first(&self, root: u32) -> Option<(u32, Key)> {
        self.cells.get(root as usize).map(|cell| (root, cell.key))
    }

    /// The key of the first reference of a heap other than `id`.
    pub(crate) fn first_except(&self, root: u32, id: u32) -> Option<Key> {
        let cell = self.cells.get(root as usize)?;
        if root != id {
            return Some(cell.key);
        }
        let side = |side| self.first(side).map(|(_, key)| key);
        [side(cell.left), side(cell.right)].into_iter().flatten().min()
    }

    /// Inserts a reference that is in no heap.
    pub(crate) fn insert(&mut self, root: &mut u32, id: u32, key: Key) {
        self.cells[id as usize] = Cell { key, height: 1, ..Cell::ABSENT };
        self.meld(root, id);
    }

    /// Adds all references of the heap `other`.
    pub(crate) fn meld(&mut self, root: &mut u32, other: u32) {
        *root = self.merge(*root, other);
        self.set_parent(*root, EMPTY);
    }

    /// Removes a reference from the heap that it is in. Has no effect on one that is in no heap.
    pub(crate) fn remove(&mut self, root: &mut u32, id: u32) {
        if !self.contains(id) {
            return;
        }
        let Cell { left, right, parent, .. } = core::mem::replace(&mut self.cells[id as usize], Cell::ABSENT);
        let rest = self.merge(left, right);
        self.set_parent(rest, parent);
        match self.cells.get_mut(parent as usize) {
            None => *root = rest,
            Some(above) => {
                if above.left == id {
                    above.left = rest;
                } else {
                    above.right = rest;
                }
                self.lean(parent);
            }
        }
    }

    /// Removes the first reference of a heap.
    pub(crate) fn pop(&mut self, root: &mut u32) -> Option<(u32, Key)> {
        let first = self.first(*root)?;
        self.remove(root, first.0);
        Some(first)
    }

    /// Merges two heaps along their right-hand sides, which have logarithmic length: so has the recursion.
    fn merge(&mut self, one: u32, other: u32) -> u32 {
        if one == EMPTY {
            return other;
        }
        if other == EMPTY {
            return one;
        }
        let in_order = self.key(one) <= self.key(other);
        let (first, second) = if in_order { (one, other) } else { (other, one) };
        let right = self.merge(self.cells[first as usize].right, second);
        self.cells[first as usize].right = right;
        self.set_parent(right, first);
        self.restore(first);
        first
    }

    fn set_parent(&mut self, id: u32, parent: u32) {
        if let Some(cell) = self.cells.get_mut(id as usize) {
            cell.parent = parent;
        }
    }

    fn height(&self, id: u32) -> u32 {
        self.cells.get(id as usize).map_or(0, |cell| cell.height)
    }

    /// Puts the shorter side of a cell to the right. Returns whether the cell's height changed.
    fn restore(&mut self, id: u32) -> bool {
        let (left, right) = (self.cells[id as usize].left, self.cells[id as usize].right);
        let (left_height, right_height) = (self.height(left), self.height(right));
        let cell = &mut self.cells[id as usize];
        if left_height < right_height {
            (cell.left, cell.right) = (right, left);
        }
        let height = 1 + left_height.min(right_height);
        core::mem::replace(&mut cell.height, height) != height
    }

    /// Restores the sides from `at` upwards.
    fn lean(&mut self, mut at: u32) {
        while at != EMPTY && self.restore(at) {
            at = self.cells[at as usize].parent;
        }
    }

    /// Checks a heap, and counts its references in `found`.
    pub(crate) fn is_valid(&self, root: u32, found: &mut impl FnMut(u32)) -> bool {
        let mut open = vec![(root, EMPTY)];
        while let Some((id, parent)) = open.pop() {
            let Some(cell) = self.cells.get(id as usize) else { continue };
            found(id);
            let ordered = parent == EMPTY || self.key(parent) <= cell.key;
            let leaning = self.height(cell.left) >= self.height(cell.right);
            let height = cell.height == 1 + self.height(cell.right);
            if !(ordered && leaning && height && cell.parent == parent) {
                return false;
            }
            open.extend([(cell.left, id), (cell.right, id)]);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REFERENCES: u32 = 40;

    /// Two heaps as sorted lists.
    type Lists = [Vec<(Key, u32)>; 2];

    fn check(heaps: &Heaps, roots: [u32; 2], lists: &Lists) -> Result<(), TestCaseError> {
        for (root, list) in roots.into_iter().zip(lists) {
            let mut count = 0;
            prop_assert!(heaps.is_valid(root, &mut |_| count += 1));
            prop_assert_eq!(count, list.len());
            prop_assert_eq!(heaps.first(root), list.first().map(|(key, id)| (*id, *key)));
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn agrees_with_sorted_lists(
            operations in prop::collection::vec(
                (0..REFERENCES, 0..2_usize, prop::option::of((0..4_u64, 0..4_u64)), 0..50_u32), 0..300),
        ) {
            let mut heaps = Heaps::new(REFERENCES as usize);
            let (mut roots, mut lists) = ([EMPTY; 2], Lists::default());
            for (tie, (id, heap, rank, other)) in (0..).zip(operations) {
                let known = (0..2).find(|at| lists[*at].iter().any(|(_, known)| *known == id));
                prop_assert_eq!(heaps.contains(id), known.is_some());
                if let Some(at) = known {
                    lists[at].retain(|(_, known)| *known != id);
                    heaps.remove(&mut roots[at], id);
                }
                if let Some((first, second)) = rank {
                    let rank = Rank::new(first, second);
                    lists[heap].push(((rank, tie), id));
                    heaps.insert(&mut roots[heap], id, (rank, tie));
                }
                if other == 0 {
                    let taken = std::mem::replace(&mut roots[1 - heap], EMPTY);
                    heaps.meld(&mut roots[heap], taken);
                    let taken = std::mem::take(&mut lists[1 - heap]);
                    lists[heap].extend(taken);
                }
                lists.iter_mut().for_each(|list| list.sort());
                check(&heaps, roots, &lists)?;
            }
            for (root, list) in roots.iter_mut().zip(lists) {
                for (key, id) in list {
                    prop_assert_eq!(heaps.pop(root), Some((id, key)));
                }
                prop_assert_eq!(*root, EMPTY);
            }
        }
    }
}
