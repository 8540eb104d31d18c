//! The numbers of a policy, taken from the policy before it.

use super::Resting;
use crate::compiled::{ClassInfo, CompiledPolicy};
use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::Hash;
use weft_sched::{Child, LaneSpec, LeafSpec, LimitSpec, NodeSpec};
use weft_units::{ClassId, LaneId, LeafId, LimitId, NodeId};

/// The number of something in the new policy, by its number before.
struct Ids {
    ids: Vec<u32>,
    /// The length of the table with these numbers.
    len: usize,
}

/// The number of what is vacant before.
const NONE: u32 = u32::MAX;

impl Ids {
    /// Gives each key of `new` its number in `old`, or else a vacant number of `old`, or else the next beyond. `None` is
    /// vacant.
    fn assign<K: Hash + Eq>(
        old: impl ExactSizeIterator<Item = Option<K>> + Clone,
        new: impl ExactSizeIterator<Item = Option<K>> + Clone,
    ) -> Self {
        Self::assign_around(old, new, |_| false)
    }

    /// Gives the keys their numbers as [`Self::assign`], and no vacant number that `rests`.
    fn assign_around<K: Hash + Eq>(
        old: impl ExactSizeIterator<Item = Option<K>> + Clone,
        new: impl ExactSizeIterator<Item = Option<K>> + Clone,
        rests: impl Fn(u32) -> bool,
    ) -> Self {
        let mut len = old.len();
        // Most changes are of a few values: everything has its place already, and no key need be looked up.
        if new.len() == len && old.clone().zip(new.clone()).all(|(old, new)| new.is_some() && old == new) {
            return Self { ids: (0..len as u32).collect(), len };
        }
        let mut known = HashMap::with_capacity(len);
        let mut vacant = Vec::new();
        for (at, key) in old.enumerate() {
            match key {
                Some(key) => _ = known.entry(key).or_insert(at as u32),
                None if rests(at as u32) => {}
                None => vacant.push(at as u32),
            }
        }
        let mut vacant = vacant.into_iter();
        let mut fresh = || {
            vacant.next().unwrap_or_else(|| {
                len += 1;
                (len - 1) as u32
            })
        };
        let id = |key: Option<K>| key.map_or(NONE, |key| known.remove(&key).unwrap_or_else(&mut fresh));
        let ids = new.map(id).collect();
        Self { ids, len }
    }

    fn of(&self, before: usize) -> u32 {
        self.ids.get(before).copied().unwrap_or(NONE)
    }

    /// The table with `items` at their new numbers.
    fn place<T>(&self, items: Vec<T>, vacant: impl Fn() -> T) -> Vec<T> {
        if items.len() == self.len && self.ids.iter().zip(0..).all(|(id, at)| *id == at) {
            return items;
        }
        let mut table: Vec<T> = (0..self.len).map(|_| vacant()).collect();
        for (item, id) in items.into_iter().zip(&self.ids) {
            if let Some(place) = table.get_mut(*id as usize) {
                *place = item;
            }
        }
        table
    }
}

/// Reads the name of an item that is not vacant.
type Name<T> = fn(&T) -> Option<&str>;

const CLASS: Name<ClassInfo> = |class| Some(class.name.as_str()).filter(|_| !class.is_vacant());
const LEAF: Name<LeafSpec> = |leaf| Some(leaf.name.as_str()).filter(|_| !leaf.is_vacant());
const LIMIT: Name<LimitSpec> = |limit| Some(limit.name.as_str()).filter(|_| !limit.is_vacant());
const NODE: Name<NodeSpec> = |node| Some(node.name.as_str()).filter(|_| !node.is_vacant());

/// The class, the leaf and the limits of a lane, which make it what it is.
fn lane_key(lane: &LaneSpec) -> Option<(ClassId, LeafId, Cow<'_, [LimitId]>)> {
    let mut limits = Cow::Borrowed(lane.limits.as_slice());
    if !limits.is_sorted() {
        limits.to_mut().sort_unstable();
    }
    (!lane.is_vacant()).then_some((lane.class, lane.leaf, limits))
}

/// Gives `new` the numbers of `old`.
pub(super) fn renumber(old: &CompiledPolicy, new: CompiledPolicy, resting: &Resting) -> CompiledPolicy {
    let (before, mut program) = (&old.program, new.program);
    let rests = |id| resting.classes.contains(&ClassId(id));
    let classes = Ids::assign_around(old.classes.iter().map(CLASS), new.classes.iter().map(CLASS), rests);
    let leaves = Ids::assign(before.leaves.iter().map(LEAF), program.leaves.iter().map(LEAF));
    let limits = Ids::assign(before.limits.iter().map(LIMIT), program.limits.iter().map(LIMIT));
    let nodes = Ids::assign(before.nodes.iter().map(NODE), program.nodes.iter().map(NODE));
    let child = |child: Child| match child {
        Child::Leaf(leaf) => Child::Leaf(LeafId(leaves.of(leaf.index()))),
        Child::Node(node) => Child::Node(NodeId(nodes.of(node.index()))),
    };
    for lane in program.lanes.iter_mut().filter(|lane| !lane.is_vacant()) {
        lane.class = ClassId(classes.of(lane.class.index()));
        lane.leaf = LeafId(leaves.of(lane.leaf.index()));
        lane.limits.iter_mut().for_each(|limit| *limit = LimitId(limits.of(limit.index())));
    }
    for node in &mut program.nodes {
        node.children.iter_mut().for_each(|of| *of = child(*of));
    }
    let rests = |id| resting.lanes.contains(&LaneId(id));
    let (old_lanes, new_lanes) = (before.lanes.iter().map(lane_key), program.lanes.iter().map(lane_key));
    let lanes = Ids::assign_around(old_lanes, new_lanes, rests);
    program.root = child(program.root);
    program.nodes = nodes.place(program.nodes, NodeSpec::vacant);
    program.leaves = leaves.place(program.leaves, LeafSpec::vacant);
    program.limits = limits.place(program.limits, LimitSpec::vacant);
    program.lanes = lanes.place(program.lanes, LaneSpec::vacant);
    let mut policy = CompiledPolicy {
        program,
        classes: classes.place(new.classes, ClassInfo::vacant),
        destinations: classes.place(new.destinations, Vec::new),
        rules: new.rules,
        link: new.link,
        cgroups: new.cgroups,
        ports: new.ports,
        steering: new.steering,
    };
    for rule in &mut policy.rules {
        rule.class = ClassId(classes.of(rule.class.index()));
    }
    for row in policy.destinations.iter_mut().flatten() {
        row.lane = LaneId(lanes.of(row.lane.index()));
    }
    policy
}
