//! The policy's tree with its limits: which branch each of them covers, and which of them need a clock.

use super::parts::Fraction;
use super::qdiscs::KernelQdiscs;
use std::collections::{BTreeMap, BTreeSet};
use weft_sched::program::{Child, Discipline, Program};
use weft_units::{BitsPerSec, Bytes, LaneId, LeafId, LimitId, Nanos, NodeId};

/// A limit of some packets of a branch, by destination or port. The classifying program gives each packet the time from which it may be
/// sent, the latest of all clocks of its lane, and charges all of them. A packet beyond the horizon is dropped before it is charged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitClock {
    /// The limit.
    pub limit: LimitId,
    /// Its name in the policy.
    pub name: String,
    /// Its rate.
    pub rate: BitsPerSec,
    /// The bytes that may leave at once.
    pub burst: Bytes,
    /// The most that a packet may wait.
    pub horizon: Nanos,
}

/// The most that a packet waits for a clock: more would fill the qdisc that holds it.
const HORIZON: Nanos = Nanos::from_millis(100);
/// The orders of spare rate in HTB (`TC_HTB_NUMPRIO`).
pub(super) const LEVELS: usize = 8;
/// The bands of a prio qdisc (`TCQ_PRIO_BANDS`).
pub(super) const BANDS: usize = 16;

/// The clock of `limit` among `clocks`, which are in the order of their limits.
pub(super) fn find(clocks: &[LimitClock], limit: LimitId) -> Option<&LimitClock> {
    let at = clocks.binary_search_by_key(&limit, |clock| clock.limit).ok()?;
    clocks.get(at)
}

/// The knowledge of a branch.
#[derive(Clone, Default, Debug)]
struct Branch {
    lanes: BTreeSet<usize>,
    limits: Vec<LimitId>,
    /// Whether packets are held in it or below it by a limit.
    held: bool,
    /// The most that it can use.
    most: BitsPerSec,
}

/// The form of a branch in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// One queue.
    Leaf(LeafId),
    /// The only child of a node that the kernel has nothing for.
    Through(Child),
    /// An HTB leaf class, with work-conserving qdiscs below it.
    Turns(NodeId),
    /// HTB classes in an order.
    Order(NodeId),
    /// HTB classes with weights.
    Weights(NodeId),
}

/// The tree with what is known of its branches.
#[derive(Debug)]
pub(super) struct Shape<'a> {
    pub(super) program: &'a Program,
    nodes: Vec<Branch>,
    leaves: Vec<Branch>,
    pub(super) clocks: Vec<LimitClock>,
    /// The clocks of each lane.
    pub(super) lanes: Vec<Vec<LimitId>>,
    /// Whether priorities without limits below are prio qdiscs, since HTB has too few levels.
    compact: bool,
    pub(super) has: KernelQdiscs,
}

impl<'a> Shape<'a> {
    pub(super) fn new(program: &'a Program, has: KernelQdiscs) -> Self {
        let mut shape = Self {
            program,
            nodes: vec![Branch::default(); program.nodes.len()],
            leaves: vec![Branch::default(); program.leaves.len()],
            clocks: Vec::new(),
            lanes: program.lanes.iter().map(|lane| lane.limits.clone()).collect(),
            compact: false,
            has,
        };
        let (mut by_leaf, mut by_limit) = (vec![BTreeSet::new(); program.leaves.len()], BTreeMap::new());
        for (number, lane) in program.lanes.iter().enumerate() {
            if let Some(lanes) = by_leaf.get_mut(lane.leaf.index()) {
                lanes.insert(number);
            }
            for limit in &lane.limits {
                by_limit.entry(*limit).or_insert_with(BTreeSet::new).insert(number);
            }
        }
        shape.find_lanes(program.root, &by_leaf);
        shape.cover(program.root, &by_limit);
        let timed: BTreeSet<LimitId> = shape.lanes.iter().flatten().copied().collect();
        shape.clocks = timed.into_iter().filter_map(|limit| shape.clock(limit)).collect();
        shape.hold(program.root);
        shape.compact = shape.levels(program.root, false) > LEVELS;
        shape
    }

    fn branch(&self, child: Child) -> Option<&Branch> {
        match child {
            Child::Node(id) => self.nodes.get(id.index()),
            Child::Leaf(id) => self.leaves.get(id.index()),
        }
    }

    fn branch_mut(&mut self, child: Child) -> Option<&mut Branch> {
        match child {
            Child::Node(id) => self.nodes.get_mut(id.index()),
            Child::Leaf(id) => self.leaves.get_mut(id.index()),
        }
    }

    pub(super) fn children(&self, node: NodeId) -> &'a [Child] {
        self.program.nodes.get(node.index()).map_or(&[], |node| &node.children)
    }

    fn children_of(&self, child: Child) -> &'a [Child] {
        if let Child::Node(node) = child { self.children(node) } else { &[] }
    }

    fn find_lanes(&mut self, child: Child, by_leaf: &[BTreeSet<usize>]) -> BTreeSet<usize> {
        let mut lanes = BTreeSet::new();
        match child {
            Child::Leaf(leaf) => lanes = by_leaf.get(leaf.index()).cloned().unwrap_or_default(),
            Child::Node(node) => {
                for below in self.children(node) {
                    lanes.append(&mut self.find_lanes(*below, by_leaf));
                }
            }
        }
        if let Some(branch) = self.branch_mut(child) {
            branch.lanes.clone_from(&lanes);
        }
        lanes
    }

    /// Gives each limit to the outermost branch whose lanes it has. What is left at the lanes needs clocks.
    fn cover(&mut self, child: Child, by_limit: &BTreeMap<LimitId, BTreeSet<usize>>) {
        let lanes = self.branch(child).map(|branch| branch.lanes.clone()).unwrap_or_default();
        let first = lanes.first().and_then(|lane| self.lanes.get(*lane)).cloned().unwrap_or_default();
        let own: Vec<LimitId> = first
            .into_iter()
            .filter(|limit| by_limit.get(limit).is_some_and(|with| *with == lanes))
            .collect();
        for lane in lanes.iter().filter(|_| !own.is_empty()) {
            if let Some(limits) = self.lanes.get_mut(*lane) {
                limits.retain(|limit| !own.contains(limit));
            }
        }
        if let Some(branch) = self.branch_mut(child) {
            branch.limits = own;
        }
        for below in self.children_of(child) {
            self.cover(*below, by_limit);
        }
    }

    /// The clock of a limit, if it has one.
    pub(super) fn clock_of(&self, limit: LimitId) -> Option<&LimitClock> {
        find(&self.clocks, limit)
    }

    fn clock(&self, limit: LimitId) -> Option<LimitClock> {
        let spec = self.program.limits.get(limit.index())?;
        Some(LimitClock {
            limit,
            name: spec.name.clone(),
            rate: spec.rate,
            burst: spec.burst,
            horizon: HORIZON,
        })
    }

    /// Finds the branches in which limits hold packets, and the most that each can use.
    fn hold(&mut self, child: Child) -> (bool, BitsPerSec) {
        let (mut held, mut most) = (false, BitsPerSec::ZERO);
        match child {
            Child::Leaf(_) => {
                most = BitsPerSec::MAX;
                held = self.timed_lanes(child).next().is_some();
            }
            Child::Node(node) => {
                for below in self.children(node) {
                    let (holds, uses) = self.hold(*below);
                    (held, most) = (held || holds, most + uses);
                }
            }
        }
        if let Some(limit) = self.limit(child) {
            (held, most) = (true, most.min(limit.0));
        }
        if let Some(branch) = self.branch_mut(child) {
            (branch.held, branch.most) = (held, most);
        }
        (held, most)
    }

    /// The lanes of a branch that have clocks.
    pub(super) fn timed_lanes(&self, child: Child) -> impl Iterator<Item = LaneId> {
        let lanes = self.branch(child).into_iter().flat_map(|branch| branch.lanes.iter().copied());
        lanes
            .filter(|lane| self.lanes.get(*lane).is_some_and(|clocks| !clocks.is_empty()))
            .map(LaneId::from_index)
    }

    /// The lanes of a branch.
    pub(super) fn lanes_of(&self, child: Child) -> impl Iterator<Item = usize> {
        self.branch(child).into_iter().flat_map(|branch| branch.lanes.iter().copied())
    }

    /// The limits that cover a branch, and no larger one.
    pub(super) fn limits(&self, child: Child) -> &[LimitId] {
        self.branch(child).map_or(&[], |branch| &branch.limits)
    }

    /// The rate and the burst of the tightest limit of a branch.
    pub(super) fn limit(&self, child: Child) -> Option<(BitsPerSec, Bytes)> {
        let limits = self.limits(child).iter().filter_map(|limit| self.program.limits.get(limit.index()));
        limits.map(|limit| (limit.rate, limit.burst)).min()
    }

    /// The most that a branch can use.
    pub(super) fn most(&self, child: Child) -> BitsPerSec {
        self.branch(child).map_or(BitsPerSec::MAX, |branch| branch.most)
    }

    pub(super) fn holds_below(&self, child: Child) -> bool {
        self.children_of(child).iter().any(|below| self.branch(*below).is_some_and(|branch| branch.held))
    }

    /// The form of a branch below HTB. `weighted`: it shares by weights there.
    pub(super) fn form(&self, child: Child, weighted: bool) -> Form {
        let id = match child {
            Child::Leaf(leaf) => return Form::Leaf(leaf),
            Child::Node(id) => id,
        };
        let children = self.children(id);
        let held = self.holds_below(child);
        match self.program.nodes.get(id.index()).map(|node| &node.discipline) {
            Some(Discipline::Custom(_)) if children.len() == 1 => Form::Through(children[0]),
            Some(Discipline::Priority) | None => {
                let banded = (weighted || self.compact)
                    && !held
                    && self.has.prio
                    && self.takes_turns(child)
                    && self.bands(id).len() <= BANDS;
                if banded { Form::Turns(id) } else { Form::Order(id) }
            }
            Some(_) if held || !self.takes_turns(child) => Form::Weights(id),
            Some(_) => Form::Turns(id),
        }
    }

    /// Whether the kernel has what a branch needs whose nodes are qdiscs below an HTB class.
    fn takes_turns(&self, child: Child) -> bool {
        let Child::Node(id) = child else { return true };
        let has = if self.is_priority(id) { self.has.prio } else { self.has.drr };
        has && self.children(id).iter().all(|below| self.takes_turns(*below))
    }

    /// The children of a priority, with those of the priorities among them in their places.
    pub(super) fn bands(&self, id: NodeId) -> Vec<Child> {
        let mut bands = Vec::new();
        for child in self.children(id) {
            match child {
                Child::Node(below) if self.is_priority(*below) => bands.append(&mut self.bands(*below)),
                _ => bands.push(*child),
            }
        }
        bands
    }

    fn is_priority(&self, id: NodeId) -> bool {
        self.program.nodes.get(id.index()).is_some_and(|node| node.discipline == Discipline::Priority)
    }

    /// The weights of a node's children; equal ones where the kernel has nothing for its order.
    pub(super) fn weights(&self, id: NodeId) -> Vec<weft_units::Weight> {
        match self.program.nodes.get(id.index()).map(|node| &node.discipline) {
            Some(Discipline::Wfq(weights)) => weights.clone(),
            _ => vec![weft_units::Weight::ONE; self.children(id).len()],
        }
    }

    /// The orders of spare rate that a branch needs.
    pub(super) fn levels(&self, child: Child, weighted: bool) -> usize {
        let below = |id, weighted| self.children(id).iter().map(move |child| self.levels(*child, weighted));
        match self.form(child, weighted) {
            Form::Leaf(_) | Form::Turns(_) => 1,
            Form::Through(only) => self.levels(only, weighted),
            Form::Order(id) => below(id, weighted).sum(),
            Form::Weights(id) => below(id, true).max().unwrap_or(1),
        }
    }

    /// The HTB leaf classes of a branch.
    pub(super) fn htb_leaves(&self, child: Child, weighted: bool) -> usize {
        let below =
            |id, weighted| self.children(id).iter().map(move |child| self.htb_leaves(*child, weighted));
        match self.form(child, weighted) {
            Form::Leaf(_) | Form::Turns(_) => 1,
            Form::Through(only) => self.htb_leaves(only, weighted),
            Form::Order(id) => below(id, weighted).sum(),
            Form::Weights(id) => below(id, true).sum(),
        }
    }

    /// The least limit for each HTB leaf below it.
    pub(super) fn tightest(&self, child: Child, link: BitsPerSec, weighted: bool) -> BitsPerSec {
        let own = self.limit(child).map_or(link, |limit| limit.0);
        let own = super::parts::least_rate(own, self.htb_leaves(child, weighted));
        let weighted = weighted || matches!(self.form(child, weighted), Form::Weights(_));
        let below = self.children_of(child).iter().map(|child| self.tightest(*child, link, weighted));
        below.fold(own, BitsPerSec::min)
    }

    /// The part of each child of a node.
    pub(super) fn fractions(&self, id: NodeId, of: Fraction) -> Vec<Fraction> {
        let weights = self.weights(id);
        let sum = weights.iter().map(|weight| u64::from(weight.get())).sum();
        weights.iter().map(|weight| of.of(u64::from(weight.get()), sum)).collect()
    }
}
