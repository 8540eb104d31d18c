//! Deficit round robin with weights, as the Intel 82599 arbitrates between VMDq pools (datasheet, section 7.2.1.2.4; Titan TR, section
//! 4.2: "each queue its own pool of credits that are decreased proportional to the number of bytes sent").
//!
//! When a queue's turn comes it is given weight x quantum of credit, and it keeps the turn while its credit is positive. The scheduler
//! does not know the next packet's size, so the last packet of a turn may overdraw the credit; the debt is kept (surplus round robin,
//! which has DRR's fairness). A queue that runs empty loses its credit and keeps its debt no longer, as in DRR.

use super::{NicScheduler, Pick};
use std::collections::VecDeque;
use weft_units::{Bytes, Nanos, QueueId};

/// Queues, their credits, and the turns.
#[derive(Clone, Debug)]
pub struct Deficit {
    quantum: i64,
    queues: Vec<Account>,
    turns: VecDeque<QueueId>,
    /// The queue that keeps the turn.
    current: Option<QueueId>,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    weight: u32,
    credit: i64,
}

impl Deficit {
    /// Queues of weight 1. `quantum` is the credit of weight 1, at least one byte.
    pub fn new(queues: u32, quantum: Bytes) -> Self {
        let quantum = i64::try_from(quantum.0).unwrap_or(i64::MAX / i64::from(u32::MAX)).clamp(1, 1 << 30);
        let queues = vec![Account { weight: 1, credit: 0 }; queues as usize];
        Self { quantum, queues, turns: VecDeque::new(), current: None }
    }
}

impl NicScheduler for Deficit {
    fn activate(&mut self, queue: QueueId, _: Nanos) {
        self.turns.push_back(queue);
    }

    fn next(&mut self, _: Nanos) -> Pick {
        if let Some(queue) = self.current {
            return Pick::Queue(queue);
        }
        // Each visit adds credit, so the loop ends: debts are at most a segment.
        while let Some(queue) = self.turns.pop_front() {
            let account = &mut self.queues[queue.index()];
            account.credit += i64::from(account.weight) * self.quantum;
            if account.credit > 0 {
                self.current = Some(queue);
                return Pick::Queue(queue);
            }
            self.turns.push_back(queue);
        }
        Pick::Idle
    }

    fn finish(&mut self, queue: QueueId, sent: Bytes, backlogged: bool, _: Nanos) {
        let account = &mut self.queues[queue.index()];
        account.credit -= i64::try_from(sent.0).unwrap_or(i64::MAX);
        if !backlogged {
            account.credit = 0;
            self.current = None;
        } else if account.credit <= 0 {
            self.current = None;
            self.turns.push_back(queue);
        }
    }

    fn set_weight(&mut self, queue: QueueId, weight: u32) {
        self.queues[queue.index()].weight = weight.max(1);
    }
}
