//! The interface between the worker and a scheduler: turns, and the hooks of a multiqueue NIC.

use super::SegmentsPerTurn;
use crate::counters::Counters;
use std::sync::Arc;
use weft_packet::segment::SuperPacket;
use weft_rank::Metadata;
use weft_sched::queues::QueueError;
use weft_sched::workers::Shared;
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
