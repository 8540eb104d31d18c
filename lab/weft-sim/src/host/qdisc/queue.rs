//! A transmit queue in the stack: its qdisc, byte queue limit, lock and runner.

use crate::byte_queue_limit::ByteQueue;
use crate::host::cpu::Work;
use crate::ids::{CoreId, StreamId};
use crate::qdisc::Qdisc;
use crate::scenario::ByteQueueLimit;
use crate::segment::{Dequeued, Segment};
use weft_units::Nanos;

/// The core that runs a queue's qdisc next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runner {
    /// The working core.
    This,
    /// Another core, which is running it and continues at `until` with the new segments.
    Other {
        /// The core.
        core: CoreId,
        /// The time.
        until: Nanos,
    },
    /// Another core, which already has the order to continue.
    OtherKnows,
}

/// A transmit queue.
pub(super) struct TransmitQueue {
    qdisc: Box<dyn Qdisc>,
    /// Whether the qdisc is forgetful, so that a single segment passes beside it.
    forgetful: bool,
    /// The only segment of the queue, with the time of its enqueueing; the qdisc is then empty.
    single: Option<(Segment, Nanos)>,
    /// Number of segments in the qdisc.
    queued: u32,
    pub(super) limit: ByteQueue,
    /// The core that held the queue's lock last.
    pub(super) last_core: Option<CoreId>,
    /// Time at which its holder releases the lock.
    pub(super) unlocked: Nanos,
    /// End of the current run of its qdisc, the core that runs it, and whether that core must run it again.
    running: Nanos,
    runner: CoreId,
    rerun: bool,
    /// Time of the next run because of a rate limit.
    retry: Option<Nanos>,
    /// Stream of the last segment handed over, for counting doorbells.
    pub(super) last_stream: Option<StreamId>,
}

impl TransmitQueue {
    pub(super) fn new(qdisc: Box<dyn Qdisc>, limit: ByteQueueLimit) -> Self {
        Self {
            forgetful: qdisc.is_forgetful(),
            qdisc,
            single: None,
            queued: 0,
            limit: ByteQueue::new(limit),
            last_core: None,
            unlocked: Nanos::ZERO,
            running: Nanos::ZERO,
            runner: CoreId(0),
            rerun: false,
            retry: None,
            last_stream: None,
        }
    }

    /// Enqueues a segment; dropped ones are pushed to `dropped`.
    #[inline]
    pub(super) fn enqueue(&mut self, segment: Segment, now: Nanos, dropped: &mut Vec<Segment>) {
        if self.forgetful && self.queued == 0 && self.single.is_none() {
            self.single = Some((segment, now));
            return;
        }
        if let Some((first, at)) = self.single.take() {
            self.put(first, at, dropped);
        }
        self.put(segment, now, dropped);
    }

    fn put(&mut self, segment: Segment, now: Nanos, dropped: &mut Vec<Segment>) {
        let before = dropped.len();
        self.qdisc.enqueue(segment, now, dropped);
        self.queued += 1;
        self.queued -= (dropped.len() - before) as u32;
    }

    /// Returns the next segment; dropped ones are pushed to `dropped`.
    #[inline]
    pub(super) fn dequeue(&mut self, now: Nanos, dropped: &mut Vec<Segment>) -> Dequeued {
        if let Some((segment, _)) = self.single.take() {
            return Dequeued::Segment(segment);
        }
        if self.forgetful && self.queued == 0 {
            return Dequeued::Empty;
        }
        let before = dropped.len();
        let answer = self.qdisc.dequeue(now, dropped);
        let left = usize::from(matches!(answer, Dequeued::Segment(_)));
        self.queued -= (left + dropped.len() - before) as u32;
        answer
    }

    /// Visits every segment.
    pub(super) fn walk(&self, visit: &mut dyn FnMut(&Segment)) {
        self.single.iter().for_each(|(segment, _)| visit(segment));
        self.qdisc.walk(visit);
    }

    #[cfg(test)]
    pub(super) fn replace_qdisc(&mut self, qdisc: Box<dyn Qdisc>) {
        self.forgetful = qdisc.is_forgetful();
        self.qdisc = qdisc;
    }

    #[inline]
    pub(super) fn begin_run(&mut self, work: &Work) -> Runner {
        if self.running <= work.now() || self.runner == work.core {
            self.rerun = false;
            return Runner::This;
        }
        if std::mem::replace(&mut self.rerun, true) {
            return Runner::OtherKnows;
        }
        Runner::Other { core: self.runner, until: self.running }
    }

    #[inline]
    pub(super) fn end_run(&mut self, work: &Work) {
        self.running = work.now();
        self.runner = work.core;
    }

    /// Records that the qdisc sends nothing before `until`; returns whether a new event is needed.
    #[inline]
    pub(super) fn retries_at(&mut self, until: Nanos, now: Nanos) -> bool {
        let is_news = self.retry.is_none_or(|retry| retry <= now || until < retry);
        if is_news {
            self.retry = Some(until);
        }
        is_news
    }

    pub(super) fn is_retry(&self, now: Nanos) -> bool {
        self.retry == Some(now)
    }
}
