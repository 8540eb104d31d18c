//! The engine of one of several workers with one policy: a separate tree, and a handle on what all share.
//!
//! ```text
//!   next(now)                            finish(turn)
//!     due?  abandon the turn, exchange     bytes of the lane, as charged to shares
//!     the tree's turn
//!     it waits, for a limit or the link, and this worker has nothing of either: exchange, and ask again
//!     it waits: until the next exchange at the latest
//! ```
//!
//! Exchanges happen between two turns, when the time has come that the last one set. A worker without packets continues until it
//! has returned what it had of the limits and reported what it sent; then it waits, and sleeps as one alone does. Its first packet
//! afterwards finds an exchange due.
//!
//! A change of the program leaves the old shared policy, exchanges the program, and joins the new one, in one step. Nothing is sent
//! in between. The old parts are freed here, which a worker alone leaves to its caller.
//!
//! Time is the wall clock, which all workers have: a link that lags behind it would lend a limit's time twice.

use super::engine::{Decision, Engine, ExchangeError, RingError};
use std::sync::Arc;
use weft_rank::Metadata;
use weft_sched::workers::{Shared, SharedError, Worker};
use weft_sched::{Next, PolicyTree, Prepared, Turn};
use weft_units::{Bytes, FlowId, Instant, LaneId, RingId, TxQueueId};

/// A tree whose limits and classes other workers share.
#[derive(Debug)]
pub(crate) struct SharedTree {
    tree: PolicyTree,
    shared: Arc<Shared>,
    /// `None` only when it could not join; then the tree has no leases, and enforces its limits alone.
    handle: Option<Worker>,
    /// The bytes of each lane since it joined, as they were charged to shares.
    sent: Vec<Bytes>,
    /// Whether some were sent since the last exchange.
    untold: bool,
    due: Instant,
    /// Whether a turn waits for the link.
    at_gate: bool,
}

impl SharedTree {
    /// Lets `tree`, which has sent nothing, run the policy of `shared`.
    ///
    /// # Errors
    /// When it runs another program.
    pub(crate) fn new(mut tree: PolicyTree, shared: Arc<Shared>, now: Instant) -> Result<Self, SharedError> {
        let handle = Some(Worker::join_tree(&shared, &mut tree, now)?);
        Ok(Self { tree, shared, handle, sent: Vec::new(), untold: false, due: now, at_gate: false })
    }

    fn exchange(&mut self, now: Instant) {
        let Self { tree, handle, sent, .. } = self;
        let Some(handle) = handle else { return };
        tree.abandon();
        self.due = handle.exchange_tree(tree, |lane| bytes_of(sent, lane), now);
        self.untold = false;
    }

    /// Whether this worker has nothing of any limit, and has reported all that it sent.
    fn is_at_rest(&self) -> bool {
        !self.untold && self.handle.as_ref().is_none_or(Worker::is_at_rest)
    }

    /// The tree's decision, as the link has it.
    fn ask(&mut self, now: Instant) -> Decision<Turn> {
        self.at_gate = false;
        match self.tree.next(now) {
            Next::Turn(turn) if self.handle.as_mut().is_none_or(Worker::may_send) => {
                Decision::Turn(turn.flow(), turn)
            }
            Next::Turn(_) => {
                self.tree.abandon();
                self.at_gate = true;
                Decision::Wait(self.due)
            }
            Next::Wait(until) => Decision::Wait(until),
            Next::Idle => Decision::Idle,
        }
    }

    fn leave(&mut self, now: Instant) {
        if let Some(handle) = self.handle.take() {
            let Self { tree, sent, .. } = self;
            handle.leave_tree(tree, |lane| bytes_of(sent, lane), now);
        }
    }

    fn join_again(&mut self, now: Instant) -> Result<(), ExchangeError> {
        self.sent.clear();
        (self.untold, self.due) = (false, now);
        let joined = Worker::join_tree(&self.shared, &mut self.tree, now);
        self.handle = Some(joined.map_err(|_| ExchangeError::OtherProgram)?);
        Ok(())
    }
}

fn bytes_of(sent: &[Bytes], lane: LaneId) -> Bytes {
    sent.get(lane.index()).copied().unwrap_or(Bytes::ZERO)
}

impl Engine for SharedTree {
    type Turn = Turn;

    fn is_shared(&self) -> bool {
        true
    }

    fn add_ring(&mut self, lane: LaneId, ring: RingId) -> Result<FlowId, RingError> {
        self.tree.add_ring(lane, ring)
    }

    fn remove_ring(&mut self, flow: FlowId) {
        self.tree.remove_ring(flow);
    }

    fn change(&mut self, change: Prepared, now: Instant) -> Result<Prepared, (Prepared, ExchangeError)> {
        self.tree.abandon();
        self.leave(now);
        let changed = Engine::change(&mut self.tree, change, now);
        if changed.is_err() {
            // The program is as before, so it fits.
            let _ = self.join_again(now);
        }
        changed
    }

    fn may_change(&mut self, change: &Prepared) -> Result<(), ExchangeError> {
        Engine::may_change(&mut self.tree, change)
    }

    fn join(&mut self, shared: Arc<Shared>, now: Instant) -> Result<(), ExchangeError> {
        self.leave(now);
        self.shared = shared;
        self.join_again(now)
    }

    fn move_ring(&mut self, flow: FlowId, lane: LaneId) {
        self.tree.move_ring(flow, lane);
    }

    fn may_escort(&self, lane: LaneId, by: LaneId) -> bool {
        self.tree.may_escort(lane, by)
    }

    fn activate(&mut self, flow: FlowId, packet: &Metadata, now: Instant) -> bool {
        Engine::activate(&mut self.tree, flow, packet, now)
    }

    fn next(&mut self, now: Instant) -> Decision<Turn> {
        let exchanged = now >= self.due && (self.tree.active_flows() > 0 || !self.is_at_rest());
        if exchanged {
            self.exchange(now);
        }
        let mut next = self.ask(now);
        if matches!(next, Decision::Wait(_)) && (self.is_at_rest() || self.at_gate && !exchanged) {
            // What was lent is used up, or nothing was: the next exchange takes something for what is here.
            self.exchange(now);
            next = self.ask(now);
        }
        match next {
            Decision::Wait(until) => Decision::Wait(until.min(self.due)),
            Decision::Idle if !self.is_at_rest() => Decision::Wait(self.due),
            decided => decided,
        }
    }

    fn finish(&mut self, turn: Turn, sent: Bytes, share: Bytes, next: Option<&Metadata>, now: Instant) {
        let lane = turn.lane().index();
        if self.sent.len() <= lane {
            self.sent.resize(lane + 1, Bytes::ZERO);
        }
        self.sent[lane] += share;
        if let Some(handle) = self.handle.as_mut() {
            handle.has_sent(sent);
        }
        self.untold = true;
        Engine::finish(&mut self.tree, turn, sent, share, next, now);
    }

    fn upcoming_lane(&mut self, now: Instant) -> Option<LaneId> {
        self.tree.upcoming_lane(now)
    }

    fn queue_of(&self, flow: FlowId) -> TxQueueId {
        self.tree.queue_of(flow)
    }
}
