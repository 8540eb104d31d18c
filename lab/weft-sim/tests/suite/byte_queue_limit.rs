//! Byte queue limits on a simulated ring whose wire drains at a constant rate and whose completions come in batches.

use std::collections::VecDeque;
use weft_sim::byte_queue_limit::ByteQueue;
use weft_sim::scenario::config::ByteQueueLimit;
use weft_units::{BitsPerSec, Bytes, Nanos};

const TEN_GIGABIT: BitsPerSec = BitsPerSec(10_000_000_000);

/// A ring with an endless supply of segments.
struct Ring {
    queue: ByteQueue,
    segment: Bytes,
    /// Departure of each segment in the ring.
    sent: VecDeque<Nanos>,
    /// Time at which the wire is free, and its total idle time while segments waited outside.
    free: Nanos,
    starved: Nanos,
    now: Nanos,
}

impl Ring {
    fn new(kind: ByteQueueLimit, segment: u64) -> Self {
        let mut ring = Self {
            queue: ByteQueue::new(kind),
            segment: Bytes(segment),
            sent: VecDeque::new(),
            free: Nanos::ZERO,
            starved: Nanos::ZERO,
            now: Nanos::ZERO,
        };
        ring.refill();
        ring
    }

    fn refill(&mut self) {
        while self.queue.available() && self.sent.len() < 4096 {
            self.queue.queued(self.segment);
            self.starved += self.now.saturating_sub(self.free);
            self.free = self.free.max(self.now) + TEN_GIGABIT.time_for(self.segment);
            self.sent.push_back(self.free);
        }
    }

    /// Runs with completions every `interval`, for `span`.
    fn run(&mut self, interval: Nanos, span: Nanos) {
        let end = self.now + span;
        while self.now < end {
            self.now += interval;
            let done = self.sent.iter().take_while(|sent| **sent <= self.now).count();
            self.sent.drain(..done);
            self.queue.completed(Bytes(done as u64 * self.segment.get()), self.now);
            assert_eq!(self.queue.in_flight(), Bytes(self.sent.len() as u64 * self.segment.get()));
            self.refill();
        }
    }
}

/// With rate r, completions every T and segments of S, a batch has at most rT + S bytes. After a completion the ring is filled to
/// at most limit + S, which must last until the next one: a limit below rT - S starves the wire, and starvation raises it. The
/// least slack over the hold time is limit + overrun - 2 batches, and the limit shrinks by it, so it does not stay above 2(rT +
/// S).
#[test]
fn the_dynamic_limit_converges_between_one_batch_and_two_and_does_not_starve() {
    for interval in [5, 20, 50, 100, 250].map(Nanos::from_micros) {
        for segment in [1514, 9014, 20_000, 65_536] {
            let mut ring = Ring::new(ByteQueueLimit::Dynamic, segment);
            ring.run(interval, Nanos::from_millis(4500));
            let starved = ring.starved;
            ring.run(interval, Nanos::from_millis(3000));
            let (limit, drained) = (ring.queue.limit().get(), TEN_GIGABIT.bytes_in(interval).get());
            let bounds = drained.saturating_sub(segment)..=2 * (drained + segment);
            println!("{interval} {segment}: {limit} in {bounds:?}, starved {starved}, then {}", ring.starved);
            assert!(bounds.contains(&limit), "{interval}, {segment}: {limit} is not in {bounds:?}");
            assert!(starved > Nanos::ZERO, "it begins with nothing");
            assert_eq!(ring.starved, starved, "{interval}, {segment}: starved after convergence");
        }
    }
}

#[test]
fn the_limit_grows_at_once_and_shrinks_after_the_hold_time() {
    let mut ring = Ring::new(ByteQueueLimit::Dynamic, 1514);
    ring.run(Nanos::from_micros(25), Nanos::from_millis(500));
    ring.run(Nanos::from_micros(250), Nanos::from_millis(50));
    let grown = ring.queue.limit();
    assert!(grown >= TEN_GIGABIT.bytes_in(Nanos::from_micros(200)), "{grown} after 50 ms");
    // Smaller batches need less, but this shows only after the hold time since the last starvation.
    ring.run(Nanos::from_micros(25), Nanos::from_millis(900));
    assert_eq!(ring.queue.limit(), grown);
    ring.run(Nanos::from_micros(25), Nanos::from_millis(1200));
    let shrunk = ring.queue.limit();
    assert!(shrunk <= Bytes(2 * (31_250 + 1514)), "{shrunk}");
}

/// Each step computed by hand from the rules of `dql_completed`.
#[test]
fn the_dynamic_limit_takes_the_steps_of_the_kernel() {
    let mut queue = ByteQueue::new(ByteQueueLimit::Dynamic);
    let mut step = |queued: &[u64], completed, at, limit| {
        for bytes in queued {
            assert!(queue.available());
            queue.queued(Bytes(*bytes));
        }
        assert!(!queue.available());
        queue.completed(Bytes(completed), Nanos::from_millis(at));
        assert_eq!(queue.limit(), Bytes(limit));
    };
    // Over a limit of 0 and empty: it grows by the bytes both queued and completed.
    step(&[1000], 1000, 1, 1000);
    // 1000 over, and empty again; the overrun of an interval with a changed limit does not count the next time.
    step(&[1000, 1000], 2000, 2, 3000);
    // 1000 over, but not empty.
    step(&[1000; 4], 1000, 3, 3000);
    // Empty: the 1000 queued and completed since, and the earlier overrun.
    step(&[1000], 4000, 4, 5000);
}

/// The part of the last segment within the limit is slack: without it, the same segments would have been queued.
#[test]
fn the_dynamic_limit_does_not_keep_part_of_a_segment() {
    let mut queue = ByteQueue::new(ByteQueueLimit::Dynamic);
    let mut step = |queued: &[u64], completed, at, limit| {
        queued.iter().for_each(|bytes| queue.queued(Bytes(*bytes)));
        queue.completed(Bytes(completed), Nanos::from_millis(at));
        assert_eq!(queue.limit(), Bytes(limit));
        queue.in_flight()
    };
    step(&[5000], 5000, 1, 5000);
    step(&[10_000], 10_000, 2, 15_000);
    // Two segments of 10 000: 5000 over, 5000 of the last one within. Two batches are 20 000, limit and overrun too.
    step(&[10_000, 10_000], 10_000, 3, 15_000);
    step(&[10_000], 10_000, 500, 15_000);
    step(&[10_000], 10_000, 1002, 15_000);
    assert_eq!(step(&[10_000], 10_000, 1003, 10_000), Bytes(10_000));
}

#[test]
fn a_fixed_limit_is_overrun_by_the_last_segment_only() {
    let mut ring = Ring::new(ByteQueueLimit::Fixed(Bytes(100_000)), 30_000);
    for _ in 0..1000 {
        assert_eq!(ring.queue.in_flight(), Bytes(120_000), "four: at 90 kB one more may begin");
        assert_eq!(ring.queue.limit(), Bytes(100_000));
        ring.run(Nanos::from_micros(24), Nanos::from_micros(24));
    }
    assert_eq!(ring.starved, Nanos::ZERO);
}

#[test]
fn a_limit_that_is_met_exactly_lets_one_more_begin() {
    // `dql_avail` is zero then, and the queue stops when it is negative.
    let mut queue = ByteQueue::new(ByteQueueLimit::Fixed(Bytes(3000)));
    queue.queued(Bytes(3000));
    assert!(queue.available());
    queue.queued(Bytes(1));
    assert!(!queue.available());
    queue.completed(Bytes(3000), Nanos(1));
    assert!(queue.available());
}

#[test]
fn without_limits_the_ring_is_the_limit() {
    let mut ring = Ring::new(ByteQueueLimit::Off, 1514);
    ring.run(Nanos::from_micros(20), Nanos::from_millis(5));
    assert_eq!(ring.sent.len(), 4096);
    assert_eq!(ring.queue.limit(), Bytes::MAX);
}

#[test]
fn completing_more_than_is_queued_completes_all() {
    for kind in [ByteQueueLimit::Off, ByteQueueLimit::Fixed(Bytes(10)), ByteQueueLimit::Dynamic] {
        let mut queue = ByteQueue::new(kind);
        queue.queued(Bytes(100));
        queue.completed(Bytes(1000), Nanos(1));
        assert_eq!(queue.in_flight(), Bytes::ZERO);
        assert!(queue.available());
    }
}
