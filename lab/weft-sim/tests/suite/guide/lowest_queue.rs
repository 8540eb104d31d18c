//! Strict priority by queue number: the lowest backlogged queue sends.

use super::{AfterTurn, NicScheduler, Pick};
use std::collections::BTreeSet;
use weft_units::{Bytes, Nanos, TxQueueId};

/// Strict priority, queue 0 the most urgent.
#[derive(Default, Debug)]
pub struct LowestQueue {
    active: BTreeSet<TxQueueId>,
}

impl NicScheduler for LowestQueue {
    fn activate(&mut self, queue: TxQueueId, _: Nanos) {
        self.active.insert(queue);
    }

    fn next(&mut self, _: Nanos) -> Pick {
        self.active.first().copied().map_or(Pick::Idle, Pick::Queue)
    }

    fn finish(&mut self, queue: TxQueueId, _: Bytes, after: AfterTurn, _: Nanos) {
        if after == AfterTurn::Empty {
            self.active.remove(&queue);
        }
    }

    fn set_weight(&mut self, _: TxQueueId, _: u32) {}
}
