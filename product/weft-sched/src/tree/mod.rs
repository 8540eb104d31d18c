//! The policy tree at run time: flows take turns.
//!
//! # Turns
//! To the tree a flow is idle or backlogged. Its packets are stored elsewhere (in a descriptor ring, or in a FIFO of
//! [`crate::PacketScheduler`]) and need not be known before they are fetched. A turn has three steps:
//! 1. [`PolicyTree::next`] selects the flow.
//! 2. The caller sends one segment of that flow.
//! 3. [`PolicyTree::finish`] charges the bytes that were sent.
//!
//! One turn is outstanding at a time. Flows may be activated during a turn.
//!
//! # Ranks
//! * Every inner node and every leaf is a PIFO: the smallest rank leaves first, and equal ranks leave in the order in
//!   which the references were inserted. [`Discipline`](crate::Discipline) has the rank of each.
//! * Fair queueing, in inner nodes and fair leaves, is start-time fair queueing. A child becomes active with start tag
//!   `S = max(V, F)`. When its turn begins, virtual time becomes `V = max(V, S)`. When the turn ends, `F = S + bytes /
//!   weight`. A child with more to send is inserted again with `S = max(V, F)`. The module `virtual_time` has the error bound.
//! * A first-in first-out leaf ranks by a sequence number. A flow takes one when it is activated and when a turn ends
//!   with more to send. In [`crate::PacketScheduler`] it is the number of the packet's arrival.
//!
//! A parent holds only the first reference of each child, and computes its tag when the previous reference has been
//! served ("lazy charge"). For start-time fair queueing this equals a tree with one reference per packet, because a
//! backlogged child has `S = F`.
//!
//! # Rate limits
//! Limits belong to lanes. They are checked on dequeue, when a lane's turn is due (Loom, section 4.2.2). They are
//! charged the bytes sent when a turn finishes, never when a lane is delayed. A lane that may not send yet is removed
//! from the tree as a whole and parked in the one global shaping queue; the node's other traffic continues (Loom,
//! Figures 6 and 8). At its release time the lane is reinserted with the ranks that its references had:
//! * References to flows keep their start tags. Each is served at its old tag once; after that `S = max(V, F)` applies.
//!   The time in the shaping queue therefore earns at most one segment per flow.
//! * A flow that becomes backlogged while its lane is parked joins the lane's own PIFO with `S = max(V, F)`. The tree
//!   does not change.
//! * A child of an inner node that leaves because all its lanes are parked is *held*: it keeps its start tag. If a
//!   released lane brings it back, it uses the held tag. If a newly backlogged flow brings it back first, its tag is
//!   `max(V, F)` and the held tag is discarded. A later release of another lane below it has no effect on its tag.
//! * Released lanes are reinserted in the order of their release times, and for equal times in the order of parking.
//!
//! Lanes that share a limit are released together. The first takes the turn; the others are parked again when their
//! turns are due. A packet therefore costs at most one parking per lane of its limit.
//!
//! # Change
//! [`PolicyTree::change`] exchanges the program between two turns. The module `change` has its semantics.
//!
//! # Ownership and invariants
//! * A flow slot holds the flow's account (finish tag, remainder, weight). A lane holds the PIFO of references to its
//!   flows. A leaf holds the first reference of each of its lanes, if it has several, and a node the best of each child.
//! * A flow is backlogged exactly while its lane's PIFO holds one reference to it.
//! * A lane is in its leaf or in the shaping queue, never in both; an empty lane is in neither.
//! * `leads_to` of every node names the leaf that a descent would find, or the leaf's only lane. No limit is released after
//!   `all_clear`.
//!
//! [`PolicyTree::check_invariants`] checks these.
//!
//! Rare branches and their counters: a lane parked and a virtual time rebased ([`TreeCounters`]). Refusals are returned
//! as errors, [`PolicyTree::parked_lanes`] is the length of the shaping queue, and packets are counted where they are
//! stored.
//!
//! # Layout and cost
//! A turn touches the flow (half a cache line), its lane (two lines), the lane's PIFO (24 bytes per backlogged flow, if
//! several are), the leaf if it has several lanes, and one node per level. The path to the root is stored in leaf and lane,
//! so the charges of the levels do not depend on each other. Every node has the leaf that it leads to, so the next turn is found without a descent.
//! docs/engine.md has the layout and docs/notes what each part of it costs.
//!
//! # User-defined algorithms
//! A node or leaf may have a [`Custom`](crate::Custom) discipline. The module `script` has its semantics, and
//! `tree/script` the way of its events; trees without one have one test per packet for it.

mod change;
mod inspect;
mod script;
mod service;

use change::Counterparts;
pub use change::{ChangeError, Changed, Prepared, RefusedChange};
pub use inspect::{InvariantError, Place, QueuePosition};
pub(crate) use script::FlowHead;
use script::Scripts;
pub(crate) use service::Served;

use thiserror::Error;
use weft_units::{BitsPerSec, FlowId, Instant, LaneId, LeafId, LimitId, Weight};

use crate::leaf::{Lane, Leaf, LeafOrder};
use crate::limit::Limit;
use crate::node::{NO_LEAF, Node};
use crate::pifo::Pifo;
use crate::program::{Child, Program};
use crate::script::leaf::ScriptLeaf;
use crate::script::timers::FLOWS_MAX;
use crate::validate::{self, Layout, Parent, ProgramError};
use crate::virtual_time::Account;
use crate::winner::WinnerTree;

/// The right of a flow to send one segment. Return it with [`PolicyTree::finish`].
#[derive(PartialEq, Eq, Debug)]
#[must_use = "the flow is charged and put back only when the turn is finished"]
pub struct Turn {
    flow: FlowId,
    lane: LaneId,
    serial: u64,
}

impl Turn {
    /// The flow that sends.
    #[inline]
    pub fn flow(&self) -> FlowId {
        self.flow
    }

    /// The flow's lane.
    #[inline]
    pub fn lane(&self) -> LaneId {
        self.lane
    }
}

/// The decision of [`PolicyTree::next`].
#[derive(PartialEq, Eq, Debug)]
pub enum Next {
    /// Send a segment of this flow.
    Turn(Turn),
    /// All backlogged flows are rate-limited; nothing may be sent before this time.
    Wait(Instant),
    /// No flow is backlogged.
    Idle,
}

/// Errors from adding, removing or changing a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum FlowError {
    /// The lane does not exist.
    #[error("lane {given} is not in the program, which has {count} lanes; add the flow to one of them")]
    UnknownLane {
        /// The lane that was given.
        given: LaneId,
        /// The number of lanes.
        count: usize,
    },
    /// The flow does not exist, or was removed.
    #[error("flow {given} does not exist or was removed; use the id that adding it returned")]
    UnknownFlow {
        /// The flow that was given.
        given: FlowId,
    },
    /// The flow is backlogged; only an idle flow can be removed.
    #[error("flow {given} is backlogged; let it send what it has before removing it")]
    Backlogged {
        /// The flow that was given.
        given: FlowId,
    },
    /// The flow has the outstanding turn, so it cannot move.
    #[error("flow {given} has the outstanding turn; finish the turn before moving the flow")]
    InService {
        /// The flow that was given.
        given: FlowId,
    },
    /// All 32-bit flow ids are in use.
    #[error("all {count} flow ids are in use; remove a flow first")]
    TooManyFlows {
        /// The number of flows.
        count: usize,
    },
}

/// Errors from changing a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RateError {
    /// The limit does not exist.
    #[error("limit {given} is not in the program, which has {count} limits; change one of them")]
    UnknownLimit {
        /// The limit that was given.
        given: LimitId,
        /// The number of limits.
        count: usize,
    },
    /// The rate is zero, which would hold the traffic for ever.
    #[error("limit {given} cannot have rate zero, since it would never send; give a rate above zero")]
    ZeroRate {
        /// The limit that was given.
        given: LimitId,
    },
}

/// An attempt to finish a turn that is not the outstanding one. Either [`PolicyTree::next`] was called since, or the
/// turn belongs to another tree. Nothing was charged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the turn of flow {flow} is not the outstanding one; finish each turn before asking for the next")]
pub struct StaleTurn {
    /// The turn's flow.
    pub flow: FlowId,
}

/// The state of a flow slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FlowState {
    /// The slot is free.
    Vacant,
    /// Nothing to send.
    Idle,
    /// In its lane's PIFO.
    Backlogged,
}

/// A flow: 32 bytes, half a cache line.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Flow {
    account: Account,
    lane: u32,
    state: FlowState,
}

/// The rare branches taken by a tree since it was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TreeCounters {
    /// Lanes removed from the tree because a limit delayed them. A lane counts each time.
    pub parkings: u64,
    /// Rebases of virtual times, of leaves and of nodes.
    pub rebases: u64,
}

/// An inner node with its children.
#[derive(Debug)]
struct Inner {
    node: Node,
    children: Box<[Child]>,
    /// For each child, what a change finds out about it.
    counterparts: Box<[Counterparts]>,
}

/// The policy tree: schedules flows whose packets are stored elsewhere. The module's documentation has its semantics.
#[derive(Debug)]
pub struct PolicyTree {
    root: Child,
    /// The [`Offer`](crate::leaf::Offer) of the root, as a number, or [`NO_LEAF`].
    first_leaf: u32,
    nodes: Vec<Inner>,
    /// The parent of each node, and its slot there.
    node_parents: Vec<Parent>,
    leaves: Vec<Leaf>,
    lanes: Vec<Lane>,
    limits: Vec<Limit>,
    /// The latest release time that any limit ever had: from then on no limit delays any lane, so none is read.
    all_clear: Instant,
    flows: Vec<Flow>,
    vacant: Vec<u32>,
    /// The one global shaping queue: parked lanes by release time.
    shaping: Pifo,
    /// The number of insertions so far, which orders equal ranks. 64 bits last for centuries.
    ticks: u64,
    /// Number of the outstanding turn.
    serial: u64,
    /// The flow of the outstanding turn.
    in_service: Option<FlowId>,
    /// Whether the flow in service was activated during its turn.
    posted: bool,
    backlogged: usize,
    counters: TreeCounters,
    /// The state of user-defined algorithms, if there are any.
    scripts: Option<Box<Scripts>>,
}

impl PolicyTree {
    /// Builds a tree that runs `program`, without flows.
    ///
    /// # Errors
    /// When the program is not a tree, contains an invalid reference, or could never send. See [`ProgramError`].
    pub fn new(program: &Program) -> Result<Self, ProgramError> {
        let layout = validate::check(program)?;
        Ok(Self::build(program, layout, 0))
    }

    /// Builds a tree that runs `program`, which was checked, with room for user-defined algorithms for `flows` flows.
    fn build(program: &Program, layout: Layout, flows: usize) -> Self {
        let limits = program.limits.iter().map(|spec| Limit::new(spec.rate, spec.burst)).collect();
        let scripts = Scripts::new(program, flows);
        let inner = |spec: &crate::program::NodeSpec| Inner {
            node: Node::new(&spec.discipline, spec.children.len()),
            children: spec.children.clone().into(),
            counterparts: vec![Counterparts::None; spec.children.len()].into(),
        };
        let (leaves, lanes) = leaves_and_lanes(program, &layout);
        let mut shaping = Pifo::default();
        shaping.reserve_total(program.lanes.len());
        Self {
            root: program.root,
            first_leaf: NO_LEAF,
            nodes: program.nodes.iter().map(inner).collect(),
            node_parents: layout.node_parents,
            leaves,
            lanes,
            limits,
            all_clear: Instant::ZERO,
            flows: Vec::new(),
            vacant: Vec::new(),
            shaping,
            ticks: 0,
            serial: 0,
            in_service: None,
            posted: false,
            backlogged: 0,
            counters: TreeCounters::default(),
            scripts,
        }
    }

    /// Adds an idle flow to `lane`. The weight counts in fair leaves and is ignored in first-in first-out leaves. Slots
    /// of removed flows, and so their ids, are reused. May allocate.
    ///
    /// # Errors
    /// [`FlowError::UnknownLane`], [`FlowError::TooManyFlows`].
    pub fn add_flow(&mut self, lane: LaneId, weight: Weight) -> Result<FlowId, FlowError> {
        let home = self.lane_mut(lane)?;
        home.flows += 1;
        home.pifo.reserve_flows(home.flows as usize);
        let flow = Flow { account: Account::new(weight), lane: lane.0, state: FlowState::Idle };
        let id = match self.vacant.pop() {
            Some(slot) => {
                self.flows[slot as usize] = flow;
                FlowId(slot)
            }
            None => {
                let count = self.flows.len();
                // The last id stays free: it is what an out-of-range position saturates to.
                if count >= u32::MAX as usize || (self.has_scripts() && count >= FLOWS_MAX) {
                    self.lanes[lane.index()].flows -= 1;
                    return Err(FlowError::TooManyFlows { count });
                }
                self.flows.push(flow);
                FlowId::from_index(count)
            }
        };
        self.make_script_flow(id);
        Ok(id)
    }

    /// The lane of this id, unless the id is vacant.
    fn lane_mut(&mut self, given: LaneId) -> Result<&mut Lane, FlowError> {
        let count = self.lanes.len();
        let lane = self.lanes.get_mut(given.index()).filter(|lane| lane.leaf != NO_LEAF);
        lane.ok_or(FlowError::UnknownLane { given, count })
    }

    /// Removes an idle flow and discards its account in the leaf.
    ///
    /// # Errors
    /// [`FlowError::UnknownFlow`], [`FlowError::Backlogged`].
    pub fn remove_flow(&mut self, flow: FlowId) -> Result<(), FlowError> {
        let slot = self.flow_mut(flow)?;
        if slot.state == FlowState::Backlogged {
            return Err(FlowError::Backlogged { given: flow });
        }
        slot.state = FlowState::Vacant;
        let lane = slot.lane as usize;
        self.drop_script_flow(flow);
        self.lanes[lane].flows -= 1;
        self.vacant.push(flow.0);
        Ok(())
    }

    fn flow_mut(&mut self, flow: FlowId) -> Result<&mut Flow, FlowError> {
        match self.flows.get_mut(flow.index()) {
            Some(slot) if slot.state != FlowState::Vacant => Ok(slot),
            _ => Err(FlowError::UnknownFlow { given: flow }),
        }
    }

    fn flow(&self, flow: FlowId) -> Option<&Flow> {
        self.flows.get(flow.index()).filter(|slot| slot.state != FlowState::Vacant)
    }

    /// The lane of `flow`, or `None` for an unknown flow.
    #[inline]
    pub fn lane_of(&self, flow: FlowId) -> Option<LaneId> {
        self.flow(flow).map(|slot| LaneId(slot.lane))
    }

    /// Whether packets of `lane` pass every limit that packets of `other` pass.
    pub fn passes_limits_of(&self, lane: LaneId, other: LaneId) -> bool {
        let known = |lane: &&Lane| lane.leaf != NO_LEAF;
        let limits = |lane: LaneId| self.lanes.get(lane.index()).filter(known).map(|lane| &*lane.limits);
        let (Some(limits), Some(others)) = (limits(lane), limits(other)) else { return false };
        others.iter().all(|limit| limits.contains(limit))
    }

    /// The lane of `flow` and whether the flow is backlogged, or `None` for an unknown flow.
    #[inline]
    pub(crate) fn lane_and_active(&self, flow: FlowId) -> Option<(LaneId, bool)> {
        self.flow(flow).map(|slot| (LaneId(slot.lane), slot.state == FlowState::Backlogged))
    }

    /// The weight of `flow`, or `None` for an unknown flow.
    pub fn weight_of(&self, flow: FlowId) -> Option<Weight> {
        self.flow(flow).map(|slot| slot.account.weight())
    }

    /// Whether `flow` is backlogged (waiting in the tree, parked, or in service).
    #[inline]
    pub fn is_active(&self, flow: FlowId) -> bool {
        self.flow(flow).is_some_and(|slot| slot.state == FlowState::Backlogged)
    }

    /// The number of backlogged flows.
    pub fn active_flows(&self) -> usize {
        self.backlogged
    }

    /// The number of lanes in the shaping queue.
    pub fn parked_lanes(&self) -> usize {
        self.shaping.len()
    }

    /// The rare branches taken since the tree was built.
    pub fn counters(&self) -> TreeCounters {
        self.counters
    }

    /// Changes the weight of a flow, with effect from its next charge.
    ///
    /// # Errors
    /// [`FlowError::UnknownFlow`].
    pub fn set_weight(&mut self, flow: FlowId, weight: Weight) -> Result<(), FlowError> {
        let slot = self.flow_mut(flow)?;
        let before = slot.account.weight();
        slot.account.set_weight(weight);
        self.reweigh_scripted(flow, before, weight);
        Ok(())
    }

    /// The rate of `limit`, or `None` for an unknown limit.
    pub fn rate_of(&self, limit: LimitId) -> Option<BitsPerSec> {
        self.limits.get(limit.index()).map(Limit::rate)
    }

    /// Changes the rate of `limit` at `now`. The debt of its lanes stays the same in bytes, and the release times of
    /// parked lanes move accordingly. Linear in the number of parked lanes.
    ///
    /// # Errors
    /// [`RateError::UnknownLimit`], [`RateError::ZeroRate`].
    pub fn set_rate(&mut self, limit: LimitId, rate: BitsPerSec, now: Instant) -> Result<(), RateError> {
        let count = self.limits.len();
        if rate.get() == 0 {
            return Err(RateError::ZeroRate { given: limit });
        }
        let slot =
            self.limits.get_mut(limit.index()).ok_or(RateError::UnknownLimit { given: limit, count })?;
        slot.set_rate(rate, now);
        self.all_clear = self.all_clear.max(slot.release());
        let (lanes, limits) = (&self.lanes, &self.limits);
        self.shaping.rerank(|entry| service::release_time(&lanes[entry.id as usize], limits).as_nanos());
        Ok(())
    }
}

/// The leaves and lanes of a program, without flows.
fn leaves_and_lanes(program: &Program, layout: &Layout) -> (Vec<Leaf>, Vec<Lane>) {
    let mut slots: Vec<Vec<u32>> = vec![Vec::new(); program.leaves.len()];
    let mut lanes = Vec::with_capacity(program.lanes.len());
    for (index, spec) in program.lanes.iter().enumerate() {
        // The leaf of a vacant lane is past the end of `slots`.
        let members = slots.get_mut(spec.leaf.index());
        let leaf = if members.is_some() { spec.leaf.0 } else { NO_LEAF };
        let slot = members.as_ref().map_or(0, |members| members.len() as u32);
        lanes.push(Lane::new(leaf, slot, &spec.limits));
        if let Some(members) = members {
            members.push(index as u32);
        }
    }
    let leaf = |(index, lanes): (usize, Vec<u32>)| {
        let spec = &program.leaves[index];
        let path = path_to_root(layout, LeafId::from_index(index));
        let script = spec.custom().map(|custom| Box::new(ScriptLeaf::new(custom, lanes.len())));
        let above = path.iter().any(|(node, _)| program.nodes[*node as usize].discipline.custom().is_some());
        Leaf {
            heads: WinnerTree::new(lanes.len()),
            virtual_time: 0,
            order: LeafOrder::of(&spec.discipline),
            scripted: above || script.is_some(),
            script,
            lanes,
            path,
        }
    };
    let leaves: Vec<Leaf> = slots.into_iter().enumerate().map(leaf).collect();
    for lane in &mut lanes {
        if let Some(leaf) = leaves.get(lane.leaf as usize) {
            lane.join(leaf);
        }
    }
    (leaves, lanes)
}

fn path_to_root(layout: &Layout, leaf: LeafId) -> Box<[(u32, u32)]> {
    core::iter::successors(layout.leaf_parents[leaf.index()], |(node, _)| layout.node_parents[*node as usize])
        .collect()
}
