//! The offers of leaves: what they report to the nodes above them.

use super::PolicyTree;
use crate::leaf::{Lane, Leaf, Offer};
use crate::node::NO_LEAF;

/// The offer of the leaf of lane `id`, or [`NO_LEAF`].
#[inline]
pub(super) fn offer_of(id: u32, lane: &Lane, leaf: &Leaf) -> u32 {
    match lane {
        lane if lane.sole && lane.takes_part() => Offer::Lane(id).number(),
        lane if !lane.sole && !leaf.heads.is_empty() => Offer::Leaf(lane.leaf).number(),
        _ => NO_LEAF,
    }
}

impl PolicyTree {
    /// The offer of a leaf, or [`NO_LEAF`].
    pub(super) fn offered_by_leaf(&self, at: u32) -> u32 {
        let leaf = &self.leaves[at as usize];
        match leaf.sole() {
            Some(id) => offer_of(id, &self.lanes[id as usize], leaf),
            None if leaf.heads.is_empty() => NO_LEAF,
            None => Offer::Leaf(at).number(),
        }
    }

    /// The lane that an offer leads to.
    #[inline]
    pub(super) fn lane_offered(&self, offer: u32) -> Option<u32> {
        let lane = match Offer::from_number(offer) {
            Offer::Lane(lane) => lane,
            Offer::Leaf(leaf) => self.leaves.get(leaf as usize)?.best_lane(),
        };
        ((lane as usize) < self.lanes.len()).then_some(lane)
    }

    /// The virtual time of a leaf.
    pub(super) fn leaf_time(&self, at: u32) -> u64 {
        let leaf = &self.leaves[at as usize];
        leaf.sole().map_or(leaf.virtual_time, |lane| self.lanes[lane as usize].virtual_time)
    }

    /// The place of the virtual time of a leaf.
    pub(super) fn leaf_time_mut(&mut self, at: u32) -> &mut u64 {
        let leaf = &mut self.leaves[at as usize];
        match leaf.sole() {
            Some(lane) => &mut self.lanes[lane as usize].virtual_time,
            None => &mut leaf.virtual_time,
        }
    }
}
