//! The lag of each leaf behind the fluid schedule of its program (generalised processor sharing).
//!
//! The fluid schedule serves all backlogged leaves at the same time, each at its share. The *due* of a leaf is what the
//! fluid schedule has given it, out of the bytes that were really sent; the *lag* is its due less its own bytes. A packet
//! scheduler serves one chunk after the other, so a lag of some chunks is unavoidable; [`FluidLag::bound`] says how many.
//!
//! Shares among the backlogged leaves: a weighted fair node divides by the weights of its backlogged children; a strict
//! priority gives everything to its first backlogged child.
//!
//! The fluid schedule has separate backlogs. A leaf that became idle ahead of its due is still being served there, and
//! keeps its share until its due has caught up (its *debt* is paid). A leaf that became idle behind its due was empty
//! there before; what it was given too much goes to the others.
//!
//! A leaf with a rate limit may be backlogged and not allowed to send. It has no due. Its bytes are taken from the leaves
//! that it competes with: those below its nearest ancestor that has another backlogged leaf.
//!
//! Steps and costs:
//! 1. [`FluidLag::sent`] adds the bytes to one sum: O(leaves in debt), or O(leaves) for a limited leaf.
//! 2. When the fluid schedule's set of leaves changes, the dues are brought up to date and the shares are computed anew
//!    before the next bytes: O(leaves + nodes).
//! 3. The lag of a leaf is checked before its own bytes count, when it is largest.
//!
//! Floating point: nothing is scheduled by these numbers. Their error is far below a byte in the time between two
//! changes.

use crate::program::{Child, Discipline, Program};
use weft_units::{Bytes, LaneId, LeafId, NodeId};

const NO_PARENT: u32 = u32::MAX;

/// The lag of one leaf.
#[derive(Clone, Debug, Default)]
struct LeafLag {
    /// Backlogged flows.
    flows: u32,
    /// Whether it is idle and ahead of its due.
    in_debt: bool,
    limited: bool,
    /// The share of the bytes of all leaves.
    share: f64,
    /// Due less sent.
    lag: f64,
    /// The sum of all bytes up to which `lag` is up to date.
    settled: f64,
    largest: f64,
}

impl LeafLag {
    /// Adds the share of the bytes that were distributed up to `sum`.
    fn bring_up_to(&mut self, sum: f64) {
        self.lag += (sum - self.settled) * self.share;
        self.settled = sum;
    }
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
    /// The bytes that the fluid schedule has distributed.
    sum: f64,
    /// Bytes that leaves without a backlog were given too much.
    unpaid: f64,
    debts: Vec<usize>,
    /// Whether the shares must be computed anew. The lags are up to date then.
    stale: bool,
    open: Vec<(Child, f64)>,
}

impl FluidLag {
    /// The measurement for `program`, which must be valid, with all leaves idle.
    pub fn new(program: &Program) -> Self {
        let node = |spec: &crate::program::NodeSpec| NodeShare {
            children: match spec.discipline.weights() {
                Some(weights) => {
                    spec.children.iter().zip(weights).map(|(child, weight)| (*child, weight.get())).collect()
                }
                // Nothing is known of a user-defined algorithm: equal shares.
                None => spec.children.iter().map(|child| (*child, 1)).collect(),
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
        for lane in program.lanes.iter().filter(|lane| !lane.is_vacant()) {
            leaves[lane.leaf.index()].limited |= !lane.limits.is_empty();
        }
        let leaf_of_lane = program.lanes.iter().map(|lane| lane.leaf.0).collect();
        let open = Vec::with_capacity(program.leaves.len() + program.nodes.len());
        Self {
            root: program.root,
            leaves,
            parent_of_leaf,
            nodes,
            leaf_of_lane,
            sum: 0.0,
            unpaid: 0.0,
            debts: Vec::new(),
            stale: false,
            open,
        }
    }

    fn leaf_of(&self, lane: LaneId) -> Option<usize> {
        self.leaf_of_lane
            .get(lane.index())
            .map(|leaf| *leaf as usize)
            .filter(|leaf| *leaf < self.leaves.len())
    }

    /// Records that a flow of `lane` became backlogged.
    pub fn activated(&mut self, lane: LaneId) {
        let Some(leaf) = self.leaf_of(lane) else { return };
        let state = &mut self.leaves[leaf];
        state.flows += 1;
        if state.flows > 1 || state.limited {
            return;
        }
        if core::mem::take(&mut state.in_debt) {
            self.debts.retain(|of| *of != leaf);
            return;
        }
        self.settle();
        self.leaves[leaf].lag = 0.0;
        self.count(leaf, |active| active + 1);
    }

    /// Records that a flow of `lane` became idle.
    pub fn idled(&mut self, lane: LaneId) {
        let Some(leaf) = self.leaf_of(lane) else { return };
        let state = &mut self.leaves[leaf];
        if state.flows == 0 {
            return;
        }
        state.flows -= 1;
        if state.flows > 0 || state.limited {
            return;
        }
        self.settle();
        let state = &mut self.leaves[leaf];
        if state.lag < 0.0 {
            state.in_debt = true;
            self.debts.push(leaf);
        } else {
            self.unpaid += core::mem::take(&mut state.lag);
            self.count(leaf, |active| active.saturating_sub(1));
        }
    }

    /// Records that a flow of `lane` sent `bytes`. To be called before [`idled`](Self::idled).
    pub fn sent(&mut self, lane: LaneId, bytes: Bytes) {
        let Some(leaf) = self.leaf_of(lane) else { return };
        if self.stale {
            self.divide();
        }
        let bytes = bytes.get() as f64;
        if self.leaves[leaf].limited {
            self.distribute(bytes);
            self.take_from_rivals(leaf, bytes);
            return;
        }
        let extra = core::mem::take(&mut self.unpaid);
        self.distribute(extra);
        let sum = self.sum;
        let state = &mut self.leaves[leaf];
        state.bring_up_to(sum);
        state.largest = state.largest.max(state.lag);
        state.lag -= bytes;
        self.distribute(bytes);
    }

    /// Gives `bytes` to the leaves of the fluid schedule. Those that pay their debt with a part of them leave it.
    fn distribute(&mut self, bytes: f64) {
        let mut left = bytes;
        while left > 0.0 {
            if self.stale {
                self.divide();
            }
            let until_paid = |leaf: &usize| {
                let state = &self.leaves[*leaf];
                let debt = -(state.lag + (self.sum - state.settled) * state.share);
                (state.share > 0.0).then(|| (debt.max(0.0) / state.share, *leaf))
            };
            let first = self.debts.iter().filter_map(until_paid).min_by(|a, b| a.0.total_cmp(&b.0));
            match first {
                Some((part, leaf)) if part <= left => {
                    self.sum += part;
                    left -= part;
                    self.settle();
                    let state = &mut self.leaves[leaf];
                    (state.in_debt, state.lag) = (false, 0.0);
                    self.debts.retain(|of| *of != leaf);
                    self.count(leaf, |active| active.saturating_sub(1));
                }
                _ => {
                    self.sum += left;
                    return;
                }
            }
        }
    }

    /// The largest lag of a leaf so far; `None` for a leaf with a rate limit, which has no due.
    pub fn largest(&self, leaf: LeafId) -> Option<Bytes> {
        let state = self.leaves.get(leaf.index())?;
        (!state.limited).then_some(Bytes(state.largest.max(0.0) as u64))
    }

    /// The largest lag that the engine's order may cause to `leaf`, for chunks of at most `chunk`: one of the leaf, and
    /// at each level above one of every child of a weighted fair node (Goyal, Vin and Cheng, SIGCOMM 1996, theorem 2, for
    /// any share), or the one being sent for a strict priority.
    pub fn bound(&self, leaf: LeafId, chunk: Bytes) -> Bytes {
        let mut chunks = 1;
        let mut node = self.parent_of_leaf.get(leaf.index()).copied().unwrap_or(NO_PARENT);
        while let Some(parent) = self.nodes.get(node as usize) {
            chunks += if parent.priority { 1 } else { parent.children.len() as u64 };
            node = parent.parent;
        }
        Bytes(chunks * chunk.get())
    }

    /// Brings the lags up to date, before the shares change.
    fn settle(&mut self) {
        if !self.stale {
            let sum = self.sum;
            for state in self.leaves.iter_mut().filter(|state| state.share > 0.0) {
                state.bring_up_to(sum);
                if state.flows > 0 {
                    state.largest = state.largest.max(state.lag);
                }
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
                (state.flows > 0 || state.in_debt) && !state.limited
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

    /// Takes the bytes of a limited leaf from the leaves that it competes with.
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
        open.push((Child::Node(NodeId(node)), 0.0));
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
