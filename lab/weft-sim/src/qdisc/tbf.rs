//! A token bucket before a FIFO (`tbf`).

use super::bucket::TokenBucket;
use super::{Pfifo, Qdisc};
use crate::segment::{Backlog, Dequeued, Segment};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// A token bucket: the first segment leaves when the bucket holds its bytes (`tbf_dequeue`). The kernel cuts a segment larger
/// than the burst into packets (`tbf_segment`). Here it leaves whole when the bucket is full, and the remainder becomes a debt,
/// so that the rate over time is the same.
#[derive(Clone, Debug)]
pub struct TbfQdisc {
    bucket: TokenBucket,
    queue: Pfifo,
}

impl TbfQdisc {
    /// Creates one that sends at `rate`, at most `burst` at once after a pause, and holds at most `limit` segments.
    pub fn new(rate: BitsPerSec, burst: Bytes, limit: u32) -> Self {
        Self { bucket: TokenBucket::new(rate, burst), queue: Pfifo::new(limit) }
    }
}

impl Qdisc for TbfQdisc {
    fn enqueue(&mut self, segment: Segment, now: Nanos, dropped: &mut Vec<Segment>) {
        self.queue.enqueue(segment, now, dropped);
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Vec<Segment>) -> Dequeued {
        let Some(first) = self.queue.front() else { return Dequeued::Empty };
        let len = Bytes(first.len.into());
        let time = self.bucket.holds_at(len, now);
        if time > now {
            return Dequeued::Wait(time);
        }
        self.bucket.charge(len, now);
        self.queue.dequeue(now, dropped)
    }

    fn backlog(&self) -> Backlog {
        self.queue.backlog()
    }

    fn walk(&self, visit: &mut dyn FnMut(&Segment)) {
        self.queue.walk(visit);
    }
}
