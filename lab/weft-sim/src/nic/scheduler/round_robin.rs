//! Round robin: active queues take one turn each.

use super::ring::{Links, Ring};
use super::{AfterTurn, NicScheduler, Pick};
use weft_units::{Bytes, Nanos, TxQueueId};

/// Active queues in a ring, one turn each. A queue that becomes active, or is still backlogged after its turn, moves to the end.
/// This is how a multiqueue NIC without weights shares the link (Intel 82599 data sheet, section 7.2). A turn takes constant
/// time.
#[derive(Debug)]
pub struct RoundRobin {
    links: Links,
    ring: Ring,
    turn: Option<TxQueueId>,
}

impl RoundRobin {
    /// Creates the scheduler of queues below `queues`; others are ignored.
    pub fn new(queues: u32) -> Self {
        Self { links: Links::new(queues), ring: Ring::EMPTY, turn: None }
    }
}

impl NicScheduler for RoundRobin {
    fn activate(&mut self, queue: TxQueueId, _: Nanos) {
        self.ring.push(&mut self.links, queue.0);
    }

    fn next(&mut self, _: Nanos) -> Pick {
        self.turn = self.ring.head().map(TxQueueId);
        self.turn.map_or(Pick::Idle, Pick::Queue)
    }

    fn finish(&mut self, queue: TxQueueId, _: Bytes, after: AfterTurn, _: Nanos) {
        if self.turn != Some(queue) {
            return;
        }
        self.turn = None;
        if after == AfterTurn::Backlogged {
            self.ring.rotate(&mut self.links);
        } else {
            self.ring.pop(&mut self.links);
        }
    }

    fn set_weight(&mut self, _: TxQueueId, _: u32) {}
}
