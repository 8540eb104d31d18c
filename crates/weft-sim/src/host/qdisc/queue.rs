//! A transmit queue as the stack sees it: its qdisc, its byte queue limit, its lock, and who runs it.

use crate::byte_queue_limit::ByteQueue;
use crate::host::cpu::Work;
use crate::ids::{CoreId, StreamId};
use crate::qdisc::Qdisc;
use crate::scenario::ByteQueueLimit;
use weft_units::Nanos;

/// The core that runs a queue's qdisc next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Runner {
    /// The one that asked.
    This,
    /// Another one, which runs it now and goes on at `until` with what has come.
    Other {
        /// Which.
        core: CoreId,
        /// When.
        until: Nanos,
    },
    /// Another one, which knows already that it is to go on.
    OtherKnows,
}

/// A transmit queue.
pub(super) struct TransmitQueue {
    pub(super) qdisc: Box<dyn Qdisc>,
    pub(super) limit: ByteQueue,
    /// The core that held the queue's lock last.
    pub(super) last_core: Option<CoreId>,
    /// When its holder gives the lock back.
    pub(super) unlocked: Nanos,
    /// Until when, and on which core, its qdisc is run; and whether that core is to run it again.
    running: Nanos,
    runner: CoreId,
    rerun: bool,
    /// When the qdisc will be run again because of a rate limit.
    retry: Option<Nanos>,
    /// Stream of the segment handed over last, for counting doorbells.
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

    /// Takes note that the qdisc lets nothing through before `until`; whether that time is news.
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
