//! Round robin: active queues take turns of a packet, or of a segment without TSO interleaving (Intel 82599 datasheet, section 7.2).

use super::{NicScheduler, Pick};
use std::collections::VecDeque;
use weft_units::{Bytes, Nanos, QueueId};

/// Active queues in the order of their turns.
#[derive(Clone, Default, Debug)]
pub struct RoundRobin {
    turns: VecDeque<QueueId>,
}

impl RoundRobin {
    /// Whether no queue is active.
    pub fn is_idle(&self) -> bool {
        self.turns.is_empty()
    }
}

impl NicScheduler for RoundRobin {
    fn activate(&mut self, queue: QueueId, _: Nanos) {
        self.turns.push_back(queue);
    }

    fn next(&mut self, _: Nanos) -> Pick {
        self.turns.pop_front().map_or(Pick::Idle, Pick::Queue)
    }

    fn finish(&mut self, queue: QueueId, _: Bytes, backlogged: bool, _: Nanos) {
        if backlogged {
            self.turns.push_back(queue);
        }
    }

    fn set_weight(&mut self, _: QueueId, _: u32) {}
}
