//! What the worker asks of an engine: whose turn it is, and what the kind of NIC that it makes does besides.

use super::SegmentsPerTurn;
use crate::counters::Counters;
use weft_packet::segment::SuperPacket;
use weft_sched::{Next, PolicyTree, Turn};
use weft_units::{Bytes, FlowId, FlowKey, Instant, TxQueueId};

/// What to do next.
pub(crate) enum Decision<T> {
    /// A chunk of this flow is to be sent; the turn is to be finished.
    Turn(FlowId, T),
    /// Nothing may be sent before this time.
    Wait(Instant),
    /// Nothing waits.
    Idle,
}

/// The scheduler of a NIC. Its flows are the rings.
pub(crate) trait Engine {
    /// What `next` gives and `finish` takes back.
    type Turn;
    /// A ring has something.
    fn activate(&mut self, flow: FlowId) -> bool;
    /// Whose turn it is.
    fn next(&mut self, now: Instant) -> Decision<Self::Turn>;
    /// The turn has ended. `share` is what it is charged in its class's share, where that is not what was sent.
    fn finish(&mut self, turn: Self::Turn, sent: Bytes, share: Bytes, backlogged: bool, now: Instant);
    /// The hardware queue that a ring belongs to.
    fn queue_of(&self, flow: FlowId) -> TxQueueId;
    /// How a packet of a ring is cut now, if the NIC's own segments_per_turn does not say.
    fn segments_per_turn(&self, _flow: FlowId, _packet: &SuperPacket) -> Option<SegmentsPerTurn> {
        None
    }
    /// What it looks after now and then, between packets.
    fn look(&mut self, _wall: Instant, _counters: &Counters) {}
    /// A packet is about to be taken off a ring. `sent_later`: it is not sent in the turn in which it is taken.
    fn fetch_begins(&mut self, _ring: FlowId, _sent_later: bool) {}
    /// No packet is between its ring and the wire, except those that are held.
    fn fetch_ends(&mut self) {}
    /// A packet of `flow` has been fetched and will be sent to its end in a later turn. Returns what to release then.
    fn hold(&mut self, _flow: impl FnOnce() -> Option<FlowKey>) -> Option<u16> {
        None
    }
    /// A packet that was held has been sent to its end, or never will be.
    fn release(&mut self, _held: Option<u16>) {}
}

impl Engine for PolicyTree {
    type Turn = Turn;

    fn activate(&mut self, flow: FlowId) -> bool {
        Self::activate(self, flow)
    }

    fn next(&mut self, now: Instant) -> Decision<Turn> {
        match Self::next(self, now) {
            Next::Turn(turn) => Decision::Turn(turn.flow(), turn),
            Next::Wait(until) => Decision::Wait(until),
            Next::Idle => Decision::Idle,
        }
    }

    fn finish(&mut self, turn: Turn, sent: Bytes, share: Bytes, backlogged: bool, now: Instant) {
        // The turn is the one that `next` has just given.
        let _ = self.finish_charging(turn, sent, share, backlogged, now);
    }

    /// A policy knows no queues: each ring is one.
    fn queue_of(&self, flow: FlowId) -> TxQueueId {
        TxQueueId(flow.0)
    }
}
