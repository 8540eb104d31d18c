//! The policy tree as a NIC's scheduler: each queue is a flow of the tree.

use super::{AfterTurn, NicScheduler, Pick};
use thiserror::Error;
use weft_rank::Metadata;
use weft_sched::{ChangeError, FlowError, LeafVerdict, Next, PolicyTree, Prepared, RateError, Turn};
use weft_units::{BitsPerSec, Bytes, Counted, FlowId, Instant, LaneId, LimitId, Nanos, TxQueueId, Weight};

/// The exclusive maximum of queue numbers. Loom's NIC has many thousands of queues (NSDI 2019, section 4.3), and a simulated one
/// has a queue per flow.
pub const QUEUES_MAX: u32 = 1 << 24;

/// A queue without a flow, and a flow without a queue.
const NONE: u32 = u32::MAX;

/// The reason why a queue cannot be added or removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PolicyQueueError {
    /// Its number is too high.
    #[error("queue {given} cannot be added, the highest number is {}; use lower numbers again", QUEUES_MAX - 1)]
    NumberTooHigh {
        /// The queue that was given.
        given: TxQueueId,
    },
    /// The queue exists.
    #[error("queue {given} has been added before; use a number that is free, or remove that queue first")]
    Exists {
        /// The queue that was given.
        given: TxQueueId,
    },
    /// The queue does not exist.
    #[error("queue {given} has not been added (or no more)")]
    Unknown {
        /// The queue that was given.
        given: TxQueueId,
    },
    /// Two queues would share a flow.
    #[error("{flow} belongs to {other} already; give each queue a flow of its own")]
    FlowTaken {
        /// The flow that was given twice.
        flow: FlowId,
        /// The queue that has it.
        other: TxQueueId,
    },
    /// The tree refused.
    #[error(transparent)]
    Tree(#[from] FlowError),
}

/// The reason why a policy cannot take over from the one in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PolicyExchangeError {
    /// The tree refused; the policy in force stays.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The new policy is in force, and a queue keeps its former lane.
    #[error("a queue cannot go to its new lane: {0}")]
    Lane(#[from] FlowError),
}

/// The engine of the real data path inside the NIC (Loom, section 4.2), with a queue per flow of the tree. A turn allocates nothing.
#[derive(Debug)]
pub struct PolicyScheduler {
    tree: PolicyTree,
    /// By queue.
    flows: Vec<u32>,
    /// By flow.
    queues: Vec<u32>,
    turn: Option<(TxQueueId, Turn)>,
}

impl PolicyScheduler {
    /// Creates a scheduler without queues. The tree must not have backlogged flows: such a flow has no queue, and its turns are
    /// skipped.
    pub const fn new(tree: PolicyTree) -> Self {
        Self { tree, flows: Vec::new(), queues: Vec::new(), turn: None }
    }

    /// Creates a scheduler for queues with the given flows, in order. The tree has these flows, and all of them are idle.
    ///
    /// # Errors
    /// [`PolicyQueueError::Tree`] for a flow that the tree does not have or that is backlogged, [`PolicyQueueError::FlowTaken`],
    /// [`PolicyQueueError::NumberTooHigh`].
    pub fn with_flows(tree: PolicyTree, flows_by_queue: Vec<FlowId>) -> Result<Self, PolicyQueueError> {
        let mut scheduler = Self::new(tree);
        for (index, flow) in flows_by_queue.into_iter().enumerate() {
            let queue = TxQueueId::from_index(index);
            if scheduler.tree.lane_of(flow).is_none() {
                return Err(FlowError::UnknownFlow { given: flow }.into());
            }
            if scheduler.tree.is_active(flow) {
                return Err(FlowError::Backlogged { given: flow }.into());
            }
            scheduler.check_free(queue)?;
            scheduler.join(queue, flow)?;
        }
        Ok(scheduler)
    }

    /// Adds a queue, idle, as a new flow of `lane`. May allocate.
    ///
    /// # Errors
    /// [`PolicyQueueError::Exists`], [`PolicyQueueError::NumberTooHigh`], [`PolicyQueueError::Tree`] for an unknown lane.
    pub fn add_queue(
        &mut self,
        queue: TxQueueId,
        lane: LaneId,
        weight: Weight,
    ) -> Result<(), PolicyQueueError> {
        self.check_free(queue)?;
        let flow = self.tree.add_flow(lane, weight)?;
        self.join(queue, flow)
    }

    /// Removes an idle queue and its flow; its number can be reused.
    ///
    /// # Errors
    /// [`PolicyQueueError::Unknown`], [`PolicyQueueError::Tree`] while it is backlogged.
    pub fn remove_queue(&mut self, queue: TxQueueId) -> Result<(), PolicyQueueError> {
        let flow = self.flow_of(queue).ok_or(PolicyQueueError::Unknown { given: queue })?;
        self.tree.remove_flow(flow)?;
        self.flows[queue.index()] = NONE;
        self.queues[flow.index()] = NONE;
        Ok(())
    }

    /// Returns the flow of a queue; `None` if the queue does not exist.
    pub fn flow_of(&self, queue: TxQueueId) -> Option<FlowId> {
        self.flows.get(queue.index()).filter(|flow| **flow != NONE).map(|flow| FlowId(*flow))
    }

    /// Returns the tree.
    pub const fn tree(&self) -> &PolicyTree {
        &self.tree
    }

    /// Changes the rate of a limit, as [`PolicyTree::set_rate`].
    ///
    /// # Errors
    /// As [`PolicyTree::set_rate`].
    pub fn set_rate(&mut self, limit: LimitId, rate: BitsPerSec, now: Nanos) -> Result<(), RateError> {
        self.tree.set_rate(limit, rate, Instant::after_epoch(now))
    }

    /// Exchanges the policy between two turns, as [`PolicyTree::change`]. Then each queue of `lanes` goes to its lane of the new policy,
    /// with the segments that wait in it. A queue that does not exist is passed over. `waiting` has the first packet of a queue and
    /// what waits in it.
    ///
    /// # Errors
    /// See [`PolicyExchangeError`].
    pub fn exchange(
        &mut self,
        prepared: Prepared,
        lanes: &[(TxQueueId, LaneId)],
        waiting: impl Fn(TxQueueId) -> (Metadata, Counted),
        now: Nanos,
    ) -> Result<(), PolicyExchangeError> {
        let queues = &self.queues;
        let of_flow = |flow: FlowId| match queues.get(flow.index()) {
            Some(queue) if *queue != NONE => waiting(TxQueueId(*queue)),
            _ => Default::default(),
        };
        let changed = self.tree.change_with(prepared, Instant::after_epoch(now), of_flow);
        changed.map_err(|refused| refused.why)?;
        for (queue, lane) in lanes {
            if let Some(flow) = self.flow_of(*queue) {
                self.tree.move_flow_with(flow, *lane, || waiting(*queue))?;
            }
        }
        Ok(())
    }

    /// Whether the policy has an algorithm, which may read packets. Then [`Self::arrives`] announces each in place of
    /// [`NicScheduler::activate`], [`Self::fetched`] judges it, and [`Self::finish_with`] ends a turn.
    pub fn looks_at_packets(&self) -> bool {
        self.tree.has_scripts()
    }

    /// Announces a packet that was posted in a queue, which may be backlogged already.
    pub fn arrives(&mut self, queue: TxQueueId, packet: &Metadata, now: Nanos) {
        if let Some(flow) = self.flow_of(queue) {
            self.tree.activate_with(flow, packet, Instant::after_epoch(now));
        }
    }

    /// Returns the verdict on a packet of the outstanding turn.
    pub fn fetched(&mut self, packet: &Metadata, now: Nanos) -> LeafVerdict {
        let Some((_, turn)) = &self.turn else { return LeafVerdict::Send };
        self.tree.fetched(turn, packet, Instant::after_epoch(now)).unwrap_or(LeafVerdict::Send)
    }

    /// Ends the turn, in which `sent` bytes left and `taken`, with what was dropped, left the queue. `next` is the queue's next packet.
    pub fn finish_with(
        &mut self,
        queue: TxQueueId,
        (sent, taken): (Bytes, Counted),
        next: Option<&Metadata>,
        now: Nanos,
    ) {
        if let Some((_, turn)) = self.turn.take_if(|(whose, _)| *whose == queue) {
            let finished = self.tree.finish_with(turn, sent, taken, next, Instant::after_epoch(now));
            debug_assert_eq!(finished, Ok(()), "the turn is forgotten whenever another is asked for");
        }
    }

    fn check_free(&self, queue: TxQueueId) -> Result<(), PolicyQueueError> {
        if queue.0 >= QUEUES_MAX {
            return Err(PolicyQueueError::NumberTooHigh { given: queue });
        }
        self.flow_of(queue).map_or(Ok(()), |_| Err(PolicyQueueError::Exists { given: queue }))
    }

    /// Enters a pair with a free queue into both tables.
    fn join(&mut self, queue: TxQueueId, flow: FlowId) -> Result<(), PolicyQueueError> {
        if let Some(other) = self.queue_of(flow) {
            return Err(PolicyQueueError::FlowTaken { flow, other });
        }
        *slot(&mut self.flows, queue.index()) = flow.0;
        *slot(&mut self.queues, flow.index()) = queue.0;
        Ok(())
    }

    fn queue_of(&self, flow: FlowId) -> Option<TxQueueId> {
        self.queues.get(flow.index()).filter(|queue| **queue != NONE).map(|queue| TxQueueId(*queue))
    }
}

/// Returns an entry of a table, which grows if necessary.
fn slot(table: &mut Vec<u32>, index: usize) -> &mut u32 {
    if table.len() <= index {
        table.resize(index + 1, NONE);
    }
    &mut table[index]
}

impl NicScheduler for PolicyScheduler {
    fn activate(&mut self, queue: TxQueueId, _: Nanos) {
        if let Some(flow) = self.flow_of(queue) {
            self.tree.activate(flow);
        }
    }

    fn next(&mut self, now: Nanos) -> Pick {
        self.turn = None;
        loop {
            let turn = match self.tree.next(Instant::after_epoch(now)) {
                Next::Turn(turn) => turn,
                Next::Wait(time) => return Pick::Wait(time.since_epoch()),
                Next::Idle => return Pick::Idle,
            };
            if let Some(queue) = self.queue_of(turn.flow()) {
                self.turn = Some((queue, turn));
                return Pick::Queue(queue);
            }
            // A flow that was backlogged in the given tree and has no queue: it has no segments here.
            if self.tree.finish(turn, Bytes::ZERO, false, Instant::after_epoch(now)).is_err() {
                return Pick::Idle;
            }
        }
    }

    fn finish(&mut self, queue: TxQueueId, sent: Bytes, after: AfterTurn, now: Nanos) {
        if let Some((_, turn)) = self.turn.take_if(|(whose, _)| *whose == queue) {
            let finished =
                self.tree.finish(turn, sent, after == AfterTurn::Backlogged, Instant::after_epoch(now));
            debug_assert_eq!(finished, Ok(()), "the turn is forgotten whenever another is asked for");
        }
    }

    fn as_policy(&mut self) -> Option<&mut PolicyScheduler> {
        Some(self)
    }

    /// Takes effect with the queue's next charge; 0 counts as 1.
    fn set_weight(&mut self, queue: TxQueueId, weight: u32) {
        if let Some(flow) = self.flow_of(queue) {
            let known = self.tree.set_weight(flow, Weight::new(weight).unwrap_or(Weight::ONE));
            debug_assert_eq!(known, Ok(()), "a queue's flow is in the tree as long as the queue");
        }
    }
}
