//! The interface between the worker and a scheduler: turns, and the hooks of a multiqueue NIC ([`Engine`]). Schedulers with a
//! policy are a tree ([`PolicyTree`]), and that of one of several workers with one policy ([`SharedTree`]): a separate tree, and a
//! handle on what all share. The module `queues` has the scheduler of a multiqueue NIC.
//!
//! # Workers with one policy
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

use super::SegmentsPerTurn;
use crate::counters::Counters;
use std::sync::Arc;
use weft_packet::segment::SuperPacket;
use weft_rank::Metadata;
use weft_sched::queues::QueueError;
use weft_sched::workers::{Shared, SharedError, Worker};
use weft_sched::{ChangeError, FlowError, Next, PolicyTree, Prepared, Turn};
use weft_units::{Bytes, FlowId, FlowKey, Instant, LaneId, RingId, TxQueueId, Weight};

/// An error from adding a ring to an engine: a bug of the plan, reported instead of executed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RingError {
    /// The policy's tree refuses it.
    #[error(transparent)]
    Flow(#[from] FlowError),
    /// The scheduler of queues refuses it.
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// The reason that an engine keeps its program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The scheduler has queues instead of a policy.
    #[error("this mode of the NIC has no policy to change")]
    NoPolicy,
    /// The policy's tree refuses the change.
    #[error(transparent)]
    Tree(#[from] ChangeError),
    /// The policy that the workers share is not that of the change.
    #[error("the policy that the workers share has other limits")]
    OtherProgram,
}

/// The decision of an engine.
pub(crate) enum Decision<T> {
    /// A chunk of this flow is to be sent and the turn finished.
    Turn(FlowId, T),
    /// Nothing may be sent before this time.
    Wait(Instant),
    /// No flow is backlogged.
    Idle,
}

/// The scheduler of a NIC. Its flows are the rings.
pub(crate) trait Engine {
    /// The turn that `next` returns and `finish` takes.
    type Turn;
    /// Adds ring `ring` of its port, with packets of `lane`, as an idle flow. May allocate.
    ///
    /// # Errors
    /// When the engine has no such lane or queue.
    fn add_ring(&mut self, lane: LaneId, ring: RingId) -> Result<FlowId, RingError>;
    /// Removes an idle ring.
    fn remove_ring(&mut self, flow: FlowId);
    /// Exchanges the program at `now`, between two turns. Returns the memory of the old one, or the change unused with the
    /// reason. Allocates and frees nothing.
    fn change(&mut self, change: Prepared, _now: Instant) -> Result<Prepared, (Prepared, ExchangeError)> {
        Err((change, ExchangeError::NoPolicy))
    }
    /// Whether it would exchange the program. Abandons the outstanding turn.
    fn may_change(&mut self, _change: &Prepared) -> Result<(), ExchangeError> {
        Err(ExchangeError::NoPolicy)
    }
    /// Shares the limits and classes of `shared`, whose program it runs, from `now` on, if it shares any.
    ///
    /// # Errors
    /// When it runs another program.
    fn join(&mut self, _shared: Arc<Shared>, _now: Instant) -> Result<(), ExchangeError> {
        Ok(())
    }
    /// Whether it shares its policy with other workers, whose clock is the wall clock.
    fn is_shared(&self) -> bool {
        false
    }
    /// Moves a ring to another lane. Abandons the outstanding turn.
    fn move_ring(&mut self, _flow: FlowId, _lane: LaneId) {}
    /// Whether packets of `lane` may go by the lane `by` without passing fewer limits.
    fn may_escort(&self, _lane: LaneId, _by: LaneId) -> bool {
        false
    }
    /// Whether it orders rings by what is known of their packets before they are fetched.
    fn reads_packets(&self) -> bool {
        false
    }
    /// Marks a ring as backlogged by a packet of which `packet` is known. Returns true when it was idle before.
    fn activate(&mut self, flow: FlowId, packet: &Metadata, now: Instant) -> bool;
    /// Selects the flow whose turn it is.
    fn next(&mut self, now: Instant) -> Decision<Self::Turn>;
    /// Ends a turn that sent `sent` bytes and is charged `share` bytes in the share of its class. `next` is what is known of the
    /// ring's next packet, if it has one.
    fn finish(&mut self, turn: Self::Turn, sent: Bytes, share: Bytes, next: Option<&Metadata>, now: Instant);
    /// The lane whose turn is next at `now`, without beginning it; `None` for a scheduler without lanes.
    fn upcoming_lane(&mut self, _now: Instant) -> Option<LaneId> {
        None
    }
    /// The hardware queue of a ring.
    fn queue_of(&self, flow: FlowId) -> TxQueueId;
    /// The segments per turn of this packet, or `None` for the NIC's configured value.
    fn segments_per_turn(&self, _flow: FlowId, _packet: &SuperPacket) -> Option<SegmentsPerTurn> {
        None
    }
    /// Polls the control page of the engine, if it has one. Called between packets.
    fn look(&mut self, _wall: Instant, _counters: &Counters) {}
    /// Announces that a packet will be fetched from a ring. `sent_later`: it is not sent in the turn in which it is
    /// fetched.
    fn fetch_begins(&mut self, _ring: FlowId, _sent_later: bool) {}
    /// Announces that no packet is between its ring and the wire, except those that are held.
    fn fetch_ends(&mut self) {}
    /// Records a packet of `flow` that was fetched and will be completed in a later turn. Returns the value for
    /// `release`.
    fn hold(&mut self, _flow: impl FnOnce() -> Option<FlowKey>) -> Option<u16> {
        None
    }
    /// Records that a held packet was completed or dropped.
    fn release(&mut self, _held: Option<u16>) {}
}

impl Engine for PolicyTree {
    type Turn = Turn;

    fn add_ring(&mut self, lane: LaneId, _ring: RingId) -> Result<FlowId, RingError> {
        Ok(self.add_flow(lane, Weight::ONE)?)
    }

    fn remove_ring(&mut self, flow: FlowId) {
        // The flow is known and idle: only the worker's own rings are removed, after their last turn.
        let _ = self.remove_flow(flow);
    }

    fn change(&mut self, change: Prepared, now: Instant) -> Result<Prepared, (Prepared, ExchangeError)> {
        // The turn of a chunk that found no room in the uplink is decided anew in any case.
        self.abandon();
        match Self::change(self, change, now) {
            Ok(changed) => Ok(changed.retired),
            Err(refused) => Err((refused.prepared, refused.why.into())),
        }
    }

    fn may_change(&mut self, change: &Prepared) -> Result<(), ExchangeError> {
        self.abandon();
        Ok(Self::may_change(self, change)?)
    }

    fn move_ring(&mut self, flow: FlowId, lane: LaneId) {
        self.abandon();
        // Flow and lane are known: both come from the plan of a change, or were requested.
        let _ = self.move_flow(flow, lane);
    }

    fn may_escort(&self, lane: LaneId, by: LaneId) -> bool {
        self.passes_limits_of(by, lane)
    }

    fn reads_packets(&self) -> bool {
        self.has_scripts()
    }

    fn activate(&mut self, flow: FlowId, packet: &Metadata, now: Instant) -> bool {
        match self.has_scripts() {
            true => self.activate_with(flow, packet, now),
            false => Self::activate(self, flow),
        }
    }

    fn next(&mut self, now: Instant) -> Decision<Turn> {
        match Self::next(self, now) {
            Next::Turn(turn) => Decision::Turn(turn.flow(), turn),
            Next::Wait(until) => Decision::Wait(until),
            Next::Idle => Decision::Idle,
        }
    }

    fn finish(&mut self, turn: Turn, sent: Bytes, share: Bytes, next: Option<&Metadata>, now: Instant) {
        // The turn is the outstanding one: `next` has just returned it.
        let _ = match self.has_scripts() {
            true => self.finish_charging_with(turn, (sent, share), next, now),
            false => self.finish_charging(turn, sent, share, next.is_some(), now),
        };
    }

    fn upcoming_lane(&mut self, now: Instant) -> Option<LaneId> {
        Self::upcoming_lane(self, now)
    }

    /// A policy has no hardware queues: each ring counts as one.
    fn queue_of(&self, flow: FlowId) -> TxQueueId {
        TxQueueId(flow.0)
    }
}

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
    unreported: bool,
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
        Ok(Self { tree, shared, handle, sent: Vec::new(), unreported: false, due: now, at_gate: false })
    }

    fn exchange(&mut self, now: Instant) {
        let Self { tree, handle, sent, .. } = self;
        let Some(handle) = handle else { return };
        tree.abandon();
        self.due = handle.exchange_tree(tree, |lane| bytes_of(sent, lane), now);
        self.unreported = false;
    }

    /// Whether this worker has nothing of any limit, and has reported all that it sent.
    fn is_at_rest(&self) -> bool {
        !self.unreported && self.handle.as_ref().is_none_or(Worker::is_at_rest)
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
        (self.unreported, self.due) = (false, now);
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
        self.unreported = true;
        Engine::finish(&mut self.tree, turn, sent, share, next, now);
    }

    fn upcoming_lane(&mut self, now: Instant) -> Option<LaneId> {
        self.tree.upcoming_lane(now)
    }

    fn queue_of(&self, flow: FlowId) -> TxQueueId {
        self.tree.queue_of(flow)
    }
}
