//! A FIFO with a limit in segments (`pfifo`).

use super::Qdisc;
use crate::segment::{Backlog, Dequeued, Segment};
use std::collections::VecDeque;
use weft_units::Nanos;

/// The default limit in segments: the transmit queue length of an Ethernet device (`DEFAULT_TX_QUEUE_LEN`), as in `fifo_init`.
pub const DEFAULT_LIMIT: u32 = 1000;

/// A FIFO that drops what arrives when it is full.
#[derive(Clone, Debug)]
pub struct Pfifo {
    queue: VecDeque<Segment>,
    limit: u32,
    backlog: Backlog,
}

impl Pfifo {
    /// Creates one that holds at most `limit` segments.
    pub const fn new(limit: u32) -> Self {
        Self {
            queue: VecDeque::new(),
            limit,
            backlog: Backlog { segments: 0, bytes: weft_units::Bytes::ZERO },
        }
    }

    /// Returns the next segment without removing it.
    pub fn front(&self) -> Option<&Segment> {
        self.queue.front()
    }
}

impl Qdisc for Pfifo {
    fn enqueue(&mut self, segment: Segment, _: Nanos, dropped: &mut Vec<Segment>) {
        if self.backlog.segments >= self.limit {
            dropped.push(segment);
            return;
        }
        self.backlog.add(&segment);
        self.queue.push_back(segment);
    }

    fn dequeue(&mut self, _: Nanos, _: &mut Vec<Segment>) -> Dequeued {
        let Some(segment) = self.queue.pop_front() else { return Dequeued::Empty };
        self.backlog.take(&segment);
        Dequeued::Segment(segment)
    }

    fn is_forgetful(&self) -> bool {
        self.limit > 0
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn walk(&self, visit: &mut dyn FnMut(&Segment)) {
        self.queue.iter().for_each(visit);
    }
}
