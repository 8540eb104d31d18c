//! The policy tree: the engine of the real data path, with a flow of the engine for each queue.

use super::{NicScheduler, Pick};
use weft_sched::{FlowError, Next, PolicyTree, Turn};
use weft_units::{Bytes, FlowId, LaneId, Nanos, QueueId, Weight};

/// The engine as the NIC's scheduler.
pub struct PolicyScheduler {
    tree: PolicyTree,
    /// By queue; none for a queue that never sends.
    flows: Vec<Option<FlowId>>,
    /// By flow.
    queues: Vec<QueueId>,
    turn: Option<Turn>,
}

impl PolicyScheduler {
    /// A scheduler without queues.
    pub const fn new(tree: PolicyTree) -> Self {
        Self { tree, flows: Vec::new(), queues: Vec::new(), turn: None }
    }

    /// Adds a queue whose packets belong to a lane.
    ///
    /// # Errors
    /// The tree has no such lane.
    pub fn add_queue(&mut self, queue: QueueId, lane: LaneId, weight: Weight) -> Result<(), FlowError> {
        let flow = self.tree.add_flow(lane, weight)?;
        if self.flows.len() <= queue.index() {
            self.flows.resize(queue.index() + 1, None);
        }
        self.flows[queue.index()] = Some(flow);
        if self.queues.len() <= flow.index() {
            self.queues.resize(flow.index() + 1, queue);
        }
        self.queues[flow.index()] = queue;
        Ok(())
    }
}

impl NicScheduler for PolicyScheduler {
    fn activate(&mut self, queue: QueueId, _: Nanos) {
        if let Some(Some(flow)) = self.flows.get(queue.index()) {
            self.tree.activate(*flow);
        }
    }

    fn next(&mut self, now: Nanos) -> Pick {
        match self.tree.next(now) {
            Next::Turn(turn) => {
                let queue = self.queues[turn.flow().index()];
                self.turn = Some(turn);
                Pick::Queue(queue)
            }
            Next::Wait(until) => Pick::Wait(until),
            Next::Idle => Pick::Idle,
        }
    }

    fn finish(&mut self, _: QueueId, sent: Bytes, backlogged: bool, now: Nanos) {
        if let Some(turn) = self.turn.take() {
            // The turn is the one that `next` has just given, so it cannot be stale.
            let finished = self.tree.finish(turn, sent, backlogged, now);
            debug_assert!(finished.is_ok());
        }
    }

    fn set_weight(&mut self, queue: QueueId, weight: u32) {
        if let (Some(Some(flow)), Some(weight)) = (self.flows.get(queue.index()), Weight::new(weight)) {
            let set = self.tree.set_weight(*flow, weight);
            debug_assert!(set.is_ok());
        }
    }
}
