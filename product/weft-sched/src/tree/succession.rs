//! The child that takes another's place at a change of the program.
//!
//! A node of one child is not in a program: its child is in its place. So a group that gets its second class becomes a
//! node where a leaf was, and one that loses it a leaf where a node was; for the node above it is the same child. The rule is
//! by leaves, since a program has no other names for both: a child that is new below a node takes the place of the only
//! child that is gone from there and shares a leaf with it, unless that one shares a leaf with other new children, too.

use super::PolicyTree;
use crate::program::Child;

/// The children below the same node of the other tree that share a leaf with a child, of those that are not in both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Relatives {
    #[default]
    None,
    /// One, at this slot.
    One(u32),
    Many,
}

impl Relatives {
    fn add(&mut self, slot: u32) {
        *self = match *self {
            Self::None => Self::One(slot),
            Self::One(known) if known == slot => return,
            _ => Self::Many,
        };
    }
}

impl PolicyTree {
    /// Finds the relatives of the children that are not in both trees, in a pass over the leaves.
    pub(super) fn find_relatives(&mut self, old: &mut Self) {
        for leaf in 0..self.leaves.len().min(old.leaves.len()) {
            for at in 0..self.leaves[leaf].path.len() {
                let (node, slot) = self.leaves[leaf].path[at];
                let Some(&(_, before)) = old.leaves[leaf].path.iter().find(|(other, _)| *other == node)
                else {
                    continue;
                };
                let new = self.nodes[node as usize].children[slot as usize];
                let gone = old.nodes[node as usize].children[before as usize];
                if old.is_below(new, node) || self.is_below(gone, node) {
                    continue;
                }
                self.nodes[node as usize].relatives[slot as usize].add(before);
                old.nodes[node as usize].relatives[before as usize].add(slot);
            }
        }
    }

    /// Forgets what [`Self::find_relatives`] found, so that this tree may be the old one at the next change.
    pub(super) fn forget_relatives(&mut self) {
        self.nodes.iter_mut().for_each(|inner| inner.relatives.fill(Relatives::None));
    }

    /// The slot below node `at` of `old` whose place the child at `slot` takes: its own, or that of its only relative.
    pub(super) fn place_before(&self, old: &Self, at: u32, slot: usize) -> Option<usize> {
        let inner = &self.nodes[at as usize];
        if let Some((node, before)) = old.place_of(inner.children[slot])
            && node == at
        {
            return Some(before as usize);
        }
        let Relatives::One(before) = inner.relatives[slot] else { return None };
        let back = old.nodes[at as usize].relatives[before as usize];
        (back == Relatives::One(slot as u32)).then_some(before as usize)
    }

    /// Whether `child` is a child of `node`.
    fn is_below(&self, child: Child, node: u32) -> bool {
        self.place_of(child).is_some_and(|(above, _)| above == node)
    }
}
