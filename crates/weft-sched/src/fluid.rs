//! The lag of each leaf behind the fluid schedule of its program (generalised processor sharing).
//!
//! The fluid schedule serves all backlogged leaves at the same time, each at its share. The *due* of a leaf is what the
//! fluid schedule would have given it since it became backlogged, out of the bytes that were really sent; the *lag* is
//! its due less its own bytes. A packet scheduler serves one chunk after the other, so a lag of some chunks is
//! unavoidable; [`FluidLag::bound`] says how many.
//!
//! Shares among the backlogged leaves: a weighted fair node divides by the weights of its backlogged children; a strict
//! priority gives everything to its first backlogged child.
//!
//! A leaf with a rate limit may be backlogged and not allowed to send. It has no due. Its bytes are taken from the leaves
//! with which it competes: those below its nearest ancestor that has another backlogged leaf.
//!
//! Steps and costs:
//! 1. [`FluidLag::sent`] adds the bytes to one sum: O(1), or O(leaves) for a limited leaf.
//! 2. When a leaf becomes backlogged or idle, the dues are brought up to date and the shares are computed anew before the
//!    next bytes: O(leaves + nodes).
//! 3. The lag of a leaf is checked before its own bytes count, when it is largest.
//!
//! Floating point: nothing is scheduled by these numbers. Their error is far below a byte in the time between two
//! changes.

use crate::program::{Child, Discipline, Program};
use weft_units::{Bytes, LeafId};

const NO_PARENT: u32 = u32::MAX;

/// The lag of one leaf.
#[derive(Clone, Debug, Default)]
struct LeafLag {
    /// Backlogged flows.
    flows: u32,
    limited: bool,
    /// The share of the bytes of all leaves.
    share: f64,
    /// Due less sent.
    lag: f64,
    /// The sum of all bytes up to which `lag` is up to date.
    settled: f64,
    largest: f64,
}

/// An inner node.
#[derive(Clone, Debug)]
struct NodeShare {
    children: Vec<(Child, u32)>,
    priority: bool,
    parent: u32,
    /// The number of backlogged leaves without a limit below it.
    active: u32,
    share: f64,
}

/// The measurement.
#[derive(Clone, Debug)]
pub struct FluidLag {
    root: Child,
    leaves: Vec<LeafLag>,
    parent_of_leaf: Vec<u32>,
    nodes: Vec<NodeShare>,
    leaf_of_lane: Vec<u32>,
    /// The bytes of all leaves.
    sum: f64,
    stale: bool,
    open: Vec<(Child, f64)>,
}

impl FluidLag {
    /// The measurement for `program`, which must be valid, with all leaves idle.
    pub fn new(program: &Program) -> Self {
        let node = |spec: &crate::program::NodeSpec| NodeShare {
            children: match &spec.discipline {
                Discipline::Priority => spec.children.iter().map(|child| (*child, 1)).collect(),
                Discipline::Wfq(weights) => {
                    spec.children.iter().zip(weights).map(|(child, weight)| (*child, weight.get())).collect()
                }
            },
            priority: spec.discipline == Discipline::Priority,
            parent: NO_PARENT,
            active: 0,
            share: 0.0,
        };
        let mut nodes: Vec<NodeShare> = program.nodes.iter().map(node).collect();
        let mut parent_of_leaf = vec![NO_PARENT; program.leaves.len()];
        for (number, spec) in program.nodes.iter().enumerate() {
            for child in &spec.children {
                match child {
                    Child::Node(id) => nodes[id.index()].parent = number as u32,
                    Child::Leaf(id) => parent_of_leaf[id.index()] = number as u32,
                }
            }
        }
        let mut leaves = vec![LeafLag::default(); program.leaves.len()];
        for lane in &program.lanes {
            leaves[lane.leaf.index()].limited |= !lane.limits.is_empty();
        }
        let leaf_of_lane = program.lanes.iter().map(|lane| lane.leaf.0).collect();
        let open = Vec::with_capacity(program.leaves.len() + program.nodes.len());
        Self { root: program.root, leaves, parent_of_leaf, nodes, leaf_of_lane, sum: 0.0, stale: false, open }
    }

    fn leaf_of(&self, lane: weft_units::LaneId) -> Option<usize> {
        self.leaf_of_lane.get(lane.index()).map(|leaf| *leaf as usize)
    }

    /// Records that a flow of `lane` became backlogged.
    pub fn activated(&mut self, lane: weft_units::LaneId) {
        let Some(leaf) = self.leaf_of(lane) else { return };
        self.leaves[leaf].flows += 1;
        if self.leaves[leaf].flows == 1 && !self.leaves[leaf].limited {
            self.settle();
            self.leaves[leaf].lag = 0.0;
            self.count(leaf, |active| active + 1);
        }
    }

    /// Records that a flow of `lane` became idle.
    pub fn idled(&mut self, lane: weft_units::LaneId) {
        let Some(leaf) = self.leaf_of(lane) else { return };
        let state = &mut self.leaves[leaf];
        if state.flows == 0 {
            return;
        }
        state.flows -= 1;
        if state.flows == 0 && !state.limited {
            self.settle();
            self.count(leaf, |active| active.saturating_sub(1));
            self.leaves[leaf].share = 0.0;
        }
    }

    /// Records that a flow of `lane` sent `bytes`. To be called before [`idled`](Self::idled).
    pub fn sent(&mut self, lane: weft_units::LaneId, bytes: Bytes) {
        let Some(leaf) = self.leaf_of(lane) else { return };
        if self.stale {
            self.divide();
        }
        let bytes = bytes.get() as f64;
        if self.leaves[leaf].limited {
            self.sum += bytes;
            self.take_from_rivals(leaf, bytes);
            return;
        }
        let sum = self.sum;
        let state = &mut self.leaves[leaf];
        state.lag += (sum - state.settled) * state.share;
        state.largest = state.largest.max(state.lag);
        state.lag += bytes * state.share - bytes;
        state.settled = sum + bytes;
        self.sum += bytes;
    }

    /// The largest lag of a leaf so far; `None` for a leaf with a rate limit, which has no due.
    pub fn largest(&self, leaf: LeafId) -> Option<Bytes> {
        let state = self.leaves.get(leaf.index())?;
        (!state.limited).then_some(Bytes(state.largest.max(0.0) as u64))
    }

    /// The largest lag that the engine's order may cause to `leaf`, for chunks of at most `chunk`.
    ///
    /// Start-time fair queueing gives a child with the share r at least its due less one chunk of its own and r chunks of
    /// each sibling (Goyal, Vin and Cheng, SIGCOMM 1996, theorem 2), at each level; a strict priority delays it by the
    /// chunk being sent.
    pub fn bound(&self, leaf: LeafId, chunk: Bytes) -> Bytes {
        let mut chunks = 1.0;
        let mut child = Child::Leaf(leaf);
        let mut node = self.parent_of_leaf.get(leaf.index()).copied().unwrap_or(NO_PARENT);
        while let Some(parent) = self.nodes.get(node as usize) {
            let weight = parent.children.iter().find(|(of, _)| *of == child).map_or(1, |(_, weight)| *weight);
            let all: f64 = parent.children.iter().map(|(_, weight)| f64::from(*weight)).sum();
            chunks += match parent.priority {
                true => 1.0,
                false => 1.0 + f64::from(weight) / all * parent.children.len() as f64,
            };
            child = Child::Node(weft_units::NodeId(node));
            node = parent.parent;
        }
        Bytes((chunks * chunk.get() as f64) as u64)
    }

    /// Brings the lags up to date, before the shares change.
    fn settle(&mut self) {
        if !self.stale {
            for state in self.leaves.iter_mut().filter(|state| state.flows > 0 || state.share > 0.0) {
                state.lag += (self.sum - state.settled) * state.share;
                state.largest = state.largest.max(state.lag);
                state.settled = self.sum;
            }
        }
        self.stale = true;
    }

    fn count(&mut self, leaf: usize, change: impl Fn(u32) -> u32) {
        let mut node = self.parent_of_leaf[leaf];
        while let Some(parent) = self.nodes.get_mut(node as usize) {
            parent.active = change(parent.active);
            node = parent.parent;
        }
    }

    fn is_active(&self, child: Child) -> bool {
        match child {
            Child::Leaf(leaf) => {
                let state = &self.leaves[leaf.index()];
                state.flows > 0 && !state.limited
            }
            Child::Node(node) => self.nodes[node.index()].active > 0,
        }
    }

    /// Computes the shares of the backlogged leaves.
    fn divide(&mut self) {
        self.stale = false;
        for state in &mut self.leaves {
            state.share = 0.0;
            state.settled = self.sum;
        }
        let mut open = core::mem::take(&mut self.open);
        open.push((self.root, 1.0));
        while let Some((child, share)) = open.pop() {
            match child {
                Child::Leaf(leaf) if self.is_active(child) => self.leaves[leaf.index()].share = share,
                Child::Leaf(_) => {}
                Child::Node(node) => {
                    self.nodes[node.index()].share = share;
                    self.divide_node(node.index(), share, &mut open);
                }
            }
        }
        self.open = open;
    }

    fn divide_node(&self, node: usize, share: f64, open: &mut Vec<(Child, f64)>) {
        let node = &self.nodes[node];
        let active = || node.children.iter().filter(|(child, _)| self.is_active(*child));
        if node.priority {
            open.extend(active().next().map(|(child, _)| (*child, share)));
            return;
        }
        let all: f64 = active().map(|(_, weight)| f64::from(*weight)).sum();
        open.extend(active().map(|(child, weight)| (*child, share * f64::from(*weight) / all)));
    }

    /// Takes the bytes of a limited leaf from the leaves with which it competes.
    fn take_from_rivals(&mut self, leaf: usize, bytes: f64) {
        let mut node = self.parent_of_leaf[leaf];
        while self.nodes.get(node as usize).is_some_and(|parent| parent.active == 0) {
            node = self.nodes[node as usize].parent;
        }
        let Some(of) = self.nodes.get(node as usize).map(|parent| parent.share).filter(|share| *share > 0.0)
        else {
            return;
        };
        let mut open = core::mem::take(&mut self.open);
        open.push((Child::Node(weft_units::NodeId(node)), 0.0));
        while let Some((child, _)) = open.pop() {
            match child {
                Child::Leaf(leaf) => {
                    let state = &mut self.leaves[leaf.index()];
                    state.lag -= bytes * state.share / of;
                }
                Child::Node(node) => {
                    open.extend(self.nodes[node.index()].children.iter().map(|(child, _)| (*child, 0.0)));
                }
            }
        }
        self.open = open;
    }
}

#[cfg(test)]
mod tests;
