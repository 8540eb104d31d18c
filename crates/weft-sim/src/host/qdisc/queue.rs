//! A transmit queue in the stack: its qdisc, byte queue limit, lock and runner.

use crate::byte_queue_limit::ByteQueue;
use crate::host::cpu::Work;
use crate::ids::{CoreId, StreamId};
use crate::qdisc::Qdisc;
use crate::scenario::ByteQueueLimit;
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
    /// Another core, which has already been told to continue.
    OtherKnows,
}

/// A transmit queue.
pub(super) struct TransmitQueue {
    pub(super) qdisc: Box<dyn Qdisc>,
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
            qdisc,
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
