//! Byte queue limits: the maximum number of a queue's bytes in the NIC's ring.

use crate::scenario::config::ByteQueueLimit;
use weft_units::{Bytes, Nanos};

/// The maximum of a dynamic limit (`DQL_MAX_LIMIT`: half of 2^32 less `DQL_MAX_OBJECT`, a sixteenth of it).
const MAX_LIMIT: u64 = u32::MAX as u64 / 2 - u32::MAX as u64 / 16;

/// The time that slack is observed before the limit shrinks by its least value (`dql_init` with one second, `netdev_queue`).
const SLACK_HOLD_TIME: Nanos = Nanos::from_secs(1);

/// The limit of one transmit queue (`struct dql`). The kernel's counters wrap at 2^32; these do not.
#[derive(Clone, Debug)]
pub struct ByteQueue {
    kind: ByteQueueLimit,
    /// Total bytes handed to the ring (`num_queued`).
    queued: u64,
    /// Total bytes completed (`num_completed`).
    completed: u64,
    limit: u64,
    /// `limit` plus the completed bytes at its computation (`adj_limit`).
    adjusted: u64,
    /// Bytes of the last call of [`ByteQueue::queued`] (`last_obj_cnt`).
    last_object: u64,
    /// `num_queued` and `last_obj_cnt` at the last completion, and the excess over the limit at that time.
    previous_queued: u64,
    previous_last_object: u64,
    previous_over: u64,
    /// The least slack since `slack_start`; the maximum before the first sample.
    lowest_slack: u64,
    slack_start: Nanos,
}

impl ByteQueue {
    /// Creates an empty ring. A dynamic limit starts at 0 (`dql_reset`), which passes one segment at a time and grows at once.
    pub const fn new(kind: ByteQueueLimit) -> Self {
        let limit = match kind {
            ByteQueueLimit::Off => u64::MAX,
            ByteQueueLimit::Fixed(bytes) => bytes.get(),
            ByteQueueLimit::Dynamic => 0,
        };
        Self {
            kind,
            queued: 0,
            completed: 0,
            limit,
            adjusted: limit,
            last_object: 0,
            previous_queued: 0,
            previous_last_object: 0,
            previous_over: 0,
            lowest_slack: u64::MAX,
            slack_start: Nanos::ZERO,
        }
    }

    /// Counts a segment handed to the ring (`dql_queued`).
    pub const fn queued(&mut self, bytes: Bytes) {
        self.last_object = bytes.get();
        self.queued += bytes.get();
    }

    /// Whether the ring accepts another segment of any size: `dql_avail` is not negative.
    pub const fn available(&self) -> bool {
        self.adjusted >= self.queued
    }

    /// Returns the limit; [`Bytes::MAX`] if the queue has no limit.
    pub const fn limit(&self) -> Bytes {
        Bytes(self.limit)
    }

    /// The number of bytes in the ring.
    pub const fn in_flight(&self) -> Bytes {
        Bytes(self.queued - self.completed)
    }

    /// Counts segments of `bytes` in total that were sent and freed in one batch (`dql_completed`; 0 bytes have no effect, as in
    /// `netdev_tx_completed_queue`). Bytes beyond those in flight are ignored.
    pub fn completed(&mut self, bytes: Bytes, now: Nanos) {
        let bytes = bytes.get().min(self.queued - self.completed);
        if bytes == 0 {
            return;
        }
        if self.kind == ByteQueueLimit::Dynamic {
            self.adapt(bytes, now);
        }
        self.completed += bytes;
        self.adjusted = self.limit.saturating_add(self.completed);
        self.previous_last_object = self.last_object;
        self.previous_queued = self.queued;
    }

    /// Grows the limit if the ring may have run empty while segments waited, and shrinks it by the slack.
    fn adapt(&mut self, bytes: u64, now: Nanos) {
        let completed = self.completed + bytes;
        let over = (self.queued - self.completed).saturating_sub(self.limit);
        let in_progress = self.queued > completed;
        let was_in_progress = self.previous_queued > self.completed;
        // The bytes both queued and completed since the last completion; it also completes all bytes queued before.
        let since = completed.saturating_sub(self.previous_queued);
        let mut limit = self.limit;
        if (over > 0 && !in_progress) || (self.previous_over > 0 && since > 0) {
            limit += since + self.previous_over;
            self.slack_start = now;
            self.lowest_slack = u64::MAX;
        } else if in_progress && was_in_progress && since == 0 {
            // Twice a batch of completions is an upper bound: one batch on the wire, one in reserve. The part of the last segment
            // within the limit is also slack, since a segment may start when a single byte is left.
            let slack = (limit + self.previous_over).saturating_sub(2 * bytes);
            let of_last = match self.previous_over {
                0 => 0,
                over => self.previous_last_object.saturating_sub(over),
            };
            self.lowest_slack = self.lowest_slack.min(slack.max(of_last));
            if now > self.slack_start + SLACK_HOLD_TIME {
                limit = limit.saturating_sub(self.lowest_slack);
                self.slack_start = now;
                self.lowest_slack = u64::MAX;
            }
        }
        limit = limit.min(MAX_LIMIT);
        self.previous_over = if limit == self.limit { over } else { 0 };
        self.limit = limit;
    }
}
