//! The policy tree at run time: flows take turns.
//!
//! # Turns
//! A flow is known to the tree as idle or backlogged; its packets lie elsewhere (in a descriptor ring, in a FIFO of
//! [`crate::PacketScheduler`]) and need not be known before they are fetched. [`PolicyTree::next`] says whose turn it
//! is, the caller sends one segment of that flow, and [`PolicyTree::finish`] charges what was really sent. One turn is
//! outstanding at a time; flows may be activated in between.
//!
//! # Ranks
//! * Every inner node and every leaf is a PIFO: the smallest rank leaves first, equal ranks in the order in which the
//!   references were inserted.
//! * Strict priority: the rank is the position among the children.
//! * Fair queueing, in inner nodes and fair leaves, is start-time fair queueing. A child becomes active with start tag
//!   `S = max(V, F)`. When its turn begins, virtual time becomes `V = max(V, S)`; when it ends, `F = S + bytes / weight`
//!   and, if the child has more, it is inserted again with `S = max(V, F)`. See the error bound in `virtual_time`.
//! * A first-in first-out leaf ranks by a sequence number, taken when a flow is activated and again whenever its turn
//!   ends with more to send; in [`crate::PacketScheduler`] it is the number of the packet's arrival.
//!
//! Only the first reference of each child stands in its parent, and its tag is computed when the one before has been
//! served ("lazy charge"). For start-time fair queueing that equals the tree with a reference per packet, because a
//! backlogged child has `S = F`.
//!
//! # Rate limits
//! Limits belong to lanes. They are looked at when a lane's turn would come (Loom, section 4.2.2: on dequeue) and
//! charged with what was sent when a turn finishes, never when a lane is held back. A lane that may not send yet is
//! taken out of the tree as a whole and parked in the one global shaping queue; the node's other traffic goes on
//! (Loom, Figures 6 and 8). When its time has come it is put back with the ranks that its references had:
//! * References of flows keep their start tags. Each is served at its old tag once; after that `S = max(V, F)` applies
//!   as always, so the time in the shaping queue earns at most one segment per flow and no more.
//! * A flow that becomes backlogged while its lane is parked joins the lane's own PIFO with `S = max(V, F)`; the tree
//!   is not touched.
//! * A child of an inner node that leaves because all that it has was parked is *held*: it keeps its start tag. If it
//!   comes back because a lane was released, it takes part with the held tag. If a fresh flow brings it back first, its
//!   tag is `max(V, F)` and the held tag is forgotten. A later release of another lane below it changes nothing.
//! * Released lanes are put back in the order of their release times, those of equal time in the order of parking.
//!
//! Lanes that share a limit are released together; the first takes the turn and the others are parked again when the
//! tree comes to them. A packet therefore costs at most one parking per lane of its limit.
//!
//! # Layout and cost
//! A turn touches the flow (24 bytes), its lane (one line), the lane's PIFO (24 bytes per backlogged flow), the leaf and
//! per level one node. The path to the root lies in the leaf, so the levels are charged independently of each other, and
//! every node knows the leaf that it leads to, so the next turn is found without a descent.
//!
//! What did not help, measured on a busy machine with [`crate::workload::ClosedLoop`] (least of 400 runs of 3200 packets):
//! choosing the smallest of four heap entries without branches (1 to 5 ns slower from 1000 flows on; perhaps because a
//! guessed branch lets the next level's load begin early), and reading the record of a lane's next flow ahead after each
//! dequeue (no difference). What did: no copy of a winner tree's best key (up to 6 ns; it stalled on the stores just
//! made), comparisons of winner trees as part of an address together with the known leaf (5 ns at 10 flows), and reading
//! the flows of an enqueue burst ahead (a third less time at a million flows that come and go; no gain, perhaps a loss,
//! when all of them stay backlogged).

mod audit;
mod service;

pub use audit::InvariantError;

use thiserror::Error;
use weft_units::{BitsPerSec, FlowId, Instant, LaneId, LeafId, LimitId, Weight};

use crate::leaf::{Lane, Leaf};
use crate::limit::Limit;
use crate::node::Node;
use crate::pifo::Pifo;
use crate::program::{Child, Program};
use crate::validate::{self, Layout, ProgramError};
use crate::virtual_time::Account;
use crate::winner::WinnerTree;

/// A flow's right to send one segment. Hand it back with [`PolicyTree::finish`].
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

    /// Its lane.
    #[inline]
    pub fn lane(&self) -> LaneId {
        self.lane
    }
}

/// What to do next.
#[derive(PartialEq, Eq, Debug)]
pub enum Next {
    /// Send a segment of this flow.
    Turn(Turn),
    /// All that waits is rate-limited; nothing may be sent before this time.
    Wait(Instant),
    /// No flow is backlogged.
    Idle,
}

/// Why a flow could not be added, removed or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum FlowError {
    /// There is no such lane.
    #[error("lane {given} is not in the program, which has {count} lanes; add the flow to one of them")]
    UnknownLane {
        /// The lane that was given.
        given: LaneId,
        /// How many lanes there are.
        count: usize,
    },
    /// There is no such flow, or it was removed.
    #[error("flow {given} does not exist (or no more); use the id that adding it returned")]
    UnknownFlow {
        /// The flow that was given.
        given: FlowId,
    },
    /// Only an idle flow can be removed.
    #[error("flow {given} is backlogged; let it send what it has before removing it")]
    Backlogged {
        /// The flow that was given.
        given: FlowId,
    },
    /// Flow ids are 32 bits.
    #[error("there are {count} flows, as many as there are flow ids; remove some first")]
    TooManyFlows {
        /// How many there are.
        count: usize,
    },
}

/// Why a rate could not be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RateError {
    /// There is no such limit.
    #[error("limit {given} is not in the program, which has {count} limits; change one of them")]
    UnknownLimit {
        /// The limit that was given.
        given: LimitId,
        /// How many limits there are.
        count: usize,
    },
    /// A rate of zero would hold the traffic for ever.
    #[error("limit {given} cannot have rate zero, it would never send; give a rate above zero")]
    ZeroRate {
        /// The limit that was given.
        given: LimitId,
    },
}

/// A turn was finished that is not the outstanding one: [`PolicyTree::next`] was called again after it, or it belongs to
/// another tree. Nothing was charged.
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

/// A flow: 24 bytes.
#[derive(Clone, Debug)]
struct Flow {
    account: Account,
    lane: u32,
    state: FlowState,
}

/// "No leaf": what a node that has nothing to offer offers.
const NO_LEAF: u32 = u32::MAX;

/// An inner node with its children.
#[derive(Debug)]
struct Inner {
    node: Node,
    /// The leaf that the child at each slot leads to; valid for the slots that take part.
    leads_to: Box<[u32]>,
    children: Box<[Child]>,
}

impl Inner {
    /// The leaf that this node leads to, or [`NO_LEAF`].
    #[inline]
    fn offer(&self) -> u32 {
        self.node.best().map_or(NO_LEAF, |slot| self.leads_to[slot])
    }
}

/// The policy tree: schedules flows whose packets lie elsewhere. See the module's documentation for its semantics.
#[derive(Debug)]
pub struct PolicyTree {
    root: Child,
    /// The leaf that the references from the root lead to, or [`NO_LEAF`].
    first_leaf: u32,
    nodes: Vec<Inner>,
    leaves: Vec<Leaf>,
    lanes: Vec<Lane>,
    limits: Vec<Limit>,
    flows: Vec<Flow>,
    vacant: Vec<u32>,
    /// The one global shaping queue: parked lanes by release time.
    shaping: Pifo,
    /// Counts insertions, so that equal ranks leave in order. 64 bits last for centuries.
    ticks: u64,
    /// Number of the outstanding turn.
    serial: u64,
    /// The flow of the outstanding turn.
    in_service: Option<FlowId>,
    /// It was activated during its turn.
    posted: bool,
    backlogged: usize,
}

impl PolicyTree {
    /// A tree that runs `program`, with no flows.
    ///
    /// # Errors
    /// When the program is not a tree, refers to what it does not have, or could never send. See [`ProgramError`].
    pub fn new(program: &Program) -> Result<Self, ProgramError> {
        let layout = validate::check(program)?;
        let limits = program.limits.iter().map(|spec| Limit::new(spec.rate, spec.burst)).collect();
        let inner = |spec: &crate::program::NodeSpec| Inner {
            node: Node::new(&spec.discipline, spec.children.len()),
            leads_to: vec![NO_LEAF; spec.children.len()].into(),
            children: spec.children.clone().into(),
        };
        let (leaves, lanes) = leaves_and_lanes(program, &layout);
        let mut shaping = Pifo::default();
        shaping.reserve_total(program.lanes.len());
        Ok(Self {
            root: program.root,
            first_leaf: NO_LEAF,
            nodes: program.nodes.iter().map(inner).collect(),
            leaves,
            lanes,
            limits,
            flows: Vec::new(),
            vacant: Vec::new(),
            shaping,
            ticks: 0,
            serial: 0,
            in_service: None,
            posted: false,
            backlogged: 0,
        })
    }

    /// Adds an idle flow to `lane`. Its weight counts in fair leaves and is ignored in first-in first-out ones. Slots of
    /// removed flows, and so their ids, are used again. May allocate.
    ///
    /// # Errors
    /// [`FlowError::UnknownLane`], [`FlowError::TooManyFlows`].
    pub fn add_flow(&mut self, lane: LaneId, weight: Weight) -> Result<FlowId, FlowError> {
        let count = self.lanes.len();
        let home = self.lanes.get_mut(lane.index()).ok_or(FlowError::UnknownLane { given: lane, count })?;
        let flow = Flow { account: Account::new(weight), lane: lane.0, state: FlowState::Idle };
        let id = match self.vacant.pop() {
            Some(slot) => {
                self.flows[slot as usize] = flow;
                FlowId(slot)
            }
            None => {
                let count = self.flows.len();
                // The last id stays free: it is what an out-of-range position saturates to.
                if count >= u32::MAX as usize {
                    return Err(FlowError::TooManyFlows { count });
                }
                self.flows.push(flow);
                FlowId::from_index(count)
            }
        };
        home.flows += 1;
        home.pifo.reserve_total(home.flows as usize);
        Ok(id)
    }

    /// Removes an idle flow. What it owed to its leaf's fairness is forgotten.
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

    /// The lane of `flow`, or `None` if there is no such flow.
    #[inline]
    pub fn lane_of(&self, flow: FlowId) -> Option<LaneId> {
        self.flow(flow).map(|slot| LaneId(slot.lane))
    }

    /// The weight of `flow`, or `None` if there is no such flow.
    pub fn weight_of(&self, flow: FlowId) -> Option<Weight> {
        self.flow(flow).map(|slot| slot.account.weight())
    }

    /// Whether `flow` is backlogged (waiting in the tree, parked, or in service).
    #[inline]
    pub fn is_active(&self, flow: FlowId) -> bool {
        self.flow(flow).is_some_and(|slot| slot.state == FlowState::Backlogged)
    }

    /// How many flows are backlogged.
    pub fn active_flows(&self) -> usize {
        self.backlogged
    }

    /// How many lanes wait in the shaping queue.
    pub fn parked_lanes(&self) -> usize {
        self.shaping.len()
    }

    /// Changes a flow's weight from its next charge on.
    ///
    /// # Errors
    /// [`FlowError::UnknownFlow`].
    pub fn set_weight(&mut self, flow: FlowId, weight: Weight) -> Result<(), FlowError> {
        self.flow_mut(flow)?.account.set_weight(weight);
        Ok(())
    }

    /// The rate of `limit`, or `None` if there is no such limit.
    pub fn rate_of(&self, limit: LimitId) -> Option<BitsPerSec> {
        self.limits.get(limit.index()).map(Limit::rate)
    }

    /// Changes the rate of `limit` at `now`. What its lanes owe stays the same in bytes, and the release times of parked
    /// lanes move accordingly. Linear in the number of parked lanes.
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
        let (lanes, limits) = (&self.lanes, &self.limits);
        self.shaping.rerank(|entry| service::release_time(&lanes[entry.id as usize], limits).as_nanos());
        Ok(())
    }
}

fn leaves_and_lanes(program: &Program, layout: &Layout) -> (Vec<Leaf>, Vec<Lane>) {
    let mut slots: Vec<Vec<u32>> = vec![Vec::new(); program.leaves.len()];
    let mut lanes = Vec::with_capacity(program.lanes.len());
    for (index, spec) in program.lanes.iter().enumerate() {
        let members = &mut slots[spec.leaf.index()];
        lanes.push(Lane {
            pifo: Pifo::default(),
            limits: spec.limits.clone().into(),
            leaf: spec.leaf.0,
            slot: members.len() as u32,
            flows: 0,
            parked: false,
        });
        members.push(index as u32);
    }
    let leaf = |(index, lanes): (usize, Vec<u32>)| Leaf {
        heads: WinnerTree::new(lanes.len()),
        virtual_time: 0,
        discipline: program.leaves[index].discipline,
        lanes,
        path: path_to_root(layout, LeafId::from_index(index)),
    };
    (slots.into_iter().enumerate().map(leaf).collect(), lanes)
}

fn path_to_root(layout: &Layout, leaf: LeafId) -> Box<[(u32, u32)]> {
    core::iter::successors(layout.leaf_parents[leaf.index()], |(node, _)| layout.node_parents[*node as usize])
        .collect()
}
