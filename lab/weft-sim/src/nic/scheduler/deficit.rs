//! Weighted deficit round robin over queues.

use super::surplus::Surplus;
use super::{AfterTurn, NicScheduler, Pick};
use weft_units::{Bytes, Nanos, TxQueueId};

/// The weighted arbitration of the Intel 82599 between VMDq pools, which Titan uses for its queue weights (TR, section 4.2). At
/// its turn a queue gets a credit of its weight times the quantum, and it keeps the turn while its credit is positive. Excess
/// bytes reduce its next credit. An emptied queue loses its credit or debt.
///
/// Titan's driver sets the credit (register `RTTDT1C`) to the weight times half an MTU, rounded up to units of 64 bytes: 768 bytes for
/// an MTU of 1500.
#[derive(Debug)]
pub struct Deficit {
    queues: Surplus,
    turn: Option<TxQueueId>,
}

impl Deficit {
    /// Creates the scheduler of queues below `queues`, all of weight 1; others are ignored. A quantum of zero counts as one byte.
    pub fn new(queues: u32, quantum: Bytes) -> Self {
        Self { queues: Surplus::new(queues, quantum), turn: None }
    }
}

impl NicScheduler for Deficit {
    fn activate(&mut self, queue: TxQueueId, _: Nanos) {
        self.queues.activate(queue.0);
    }

    fn next(&mut self, _: Nanos) -> Pick {
        self.turn = self.queues.next().map(TxQueueId);
        self.turn.map_or(Pick::Idle, Pick::Queue)
    }

    fn finish(&mut self, queue: TxQueueId, sent: Bytes, after: AfterTurn, _: Nanos) {
        if self.turn == Some(queue) {
            self.turn = None;
            self.queues.finish(sent, after);
        }
    }

    /// Takes effect with the queue's next credit, at the latest in the next round. 0 counts as 1.
    fn set_weight(&mut self, queue: TxQueueId, weight: u32) {
        self.queues.set_weight(queue.0, weight);
    }
}
