//! The queue of future events: a radix heap, and a short sorted list of its next events.
//!
//! Simulated time never decreases, so the queue only needs a monotone order (Ahuja et al. 1990, "Faster algorithms for the
//! shortest path problem"). That makes it three to five times as fast as a binary heap.
//!
//! 1. A time is a number of 64 bits in digits of 6. Each level of the queue belongs to a digit and has a bucket per value of the
//!    digit.
//! 2. `push` compares the event's time with `origin`. The highest digit in which they differ selects the level, the event's digit
//!    there selects the bucket. An event before `horizon` goes to its place in the list instead.
//! 3. `pop` removes the last event of the list, which is sorted by falling time.
//! 4. When the list is empty, `refill` takes the first bucket of the lowest occupied level. Few events are sorted into the list, with
//!    the bucket's end as the horizon. Otherwise `origin` becomes the time of the earliest, and they are distributed over the levels
//!    below.
//!
//! An event moves down at most once per level, usually once, and all accesses to buckets are to the ends of arrays. In a steady state
//! most events are pushed into the list, whose few cache lines stay in the processor's nearest cache.
//!
//! Rules that must hold:
//!
//! * Events of equal times are removed in the order of their insertion. They always share a bucket, since an event's bucket only
//!   changes when it is spread, and spreading keeps the order; or the list, where a new event comes after its equals.
//! * `last` and `origin` never decrease. A `push` with an earlier time than `last` is clamped to it.
//! * All events of the list are before `horizon`, all others are not.
//! * Buckets keep their memory, so a run in its steady state does not allocate.
//!
//! The clamp in `push` is the only rare branch. It has no counter: it is the documented meaning of an event that is due at once.

use weft_units::Nanos;

const DIGIT_BITS: u32 = 6;
const DIGITS: usize = 1 << DIGIT_BITS;
/// The number of 6-bit digits in 64 bits of time.
const LEVELS: usize = 11;

/// The greatest number of events that are sorted into the list at once. More are spread first, unless their times are equal.
const LIST_MAX: usize = 16;

/// An event and its time.
#[derive(Clone, Copy, Debug)]
struct Entry<E> {
    time: u64,
    event: E,
}

/// Events by time, first in first out among equal times.
#[derive(Clone, Debug)]
pub struct EventQueue<E> {
    /// Time of the last removed event.
    last: u64,
    /// The next events, the earliest last.
    list: Vec<Entry<E>>,
    /// The time before which all events are in the list.
    horizon: u64,
    /// The time to which the buckets' digits refer.
    origin: u64,
    /// `LEVELS` times `DIGITS` buckets.
    buckets: Vec<Vec<Entry<E>>>,
    /// By level, the set of occupied buckets.
    occupied: [u64; LEVELS],
    /// The set of occupied levels.
    levels: u16,
    len: usize,
    /// Reusable memory for the bucket that is being spread.
    spread: Vec<Entry<E>>,
}

impl<E: Copy> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E: Copy> EventQueue<E> {
    /// Creates an empty queue at time zero.
    pub fn new() -> Self {
        Self {
            last: 0,
            list: Vec::with_capacity(2 * LIST_MAX),
            horizon: 0,
            origin: 0,
            buckets: (0..LEVELS * DIGITS).map(|_| Vec::new()).collect(),
            occupied: [0; LEVELS],
            levels: 0,
            len: 0,
            spread: Vec::new(),
        }
    }

    /// The number of queued events.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no event is queued.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event. A time in the past is replaced by the time of the last removed event.
    #[inline]
    pub fn push(&mut self, time: Nanos, event: E) {
        self.len += 1;
        let entry = Entry { time: time.0.max(self.last), event };
        if entry.time < self.horizon {
            self.insert(entry);
        } else {
            self.place(entry);
        }
    }

    /// Puts an entry into the list, after those of its time.
    #[inline]
    fn insert(&mut self, entry: Entry<E>) {
        self.list.push(entry);
        let list = self.list.as_mut_slice();
        for at in (1..list.len()).rev() {
            if list[at - 1].time > entry.time {
                list[at] = entry;
                return;
            }
            list[at] = list[at - 1];
        }
        list[0] = entry;
    }

    /// Returns the level and digit of a time, relative to the origin.
    #[inline]
    const fn bucket_of(&self, time: u64) -> (usize, usize) {
        let differing = time ^ self.origin;
        let level = if differing == 0 { 0 } else { (differing.ilog2() / DIGIT_BITS) as usize };
        let digit = (time >> (level as u32 * DIGIT_BITS)) as usize & (DIGITS - 1);
        (level, digit)
    }

    #[inline]
    fn place(&mut self, entry: Entry<E>) {
        let (level, digit) = self.bucket_of(entry.time);
        self.occupied[level] |= 1 << digit;
        self.levels |= 1 << level;
        self.buckets[level * DIGITS + digit].push(entry);
    }

    /// Returns a lower bound on the times of all queued events. It is exact if the list is not empty, and otherwise the start of the
    /// next bucket.
    #[inline]
    pub fn earliest_possible(&self) -> Nanos {
        if let Some(next) = self.list.last() {
            return Nanos(next.time);
        }
        if self.len == 0 {
            return Nanos::MAX;
        }
        let level = self.levels.trailing_zeros();
        Nanos(self.bucket_start(level, self.occupied[level as usize].trailing_zeros()))
    }

    /// Returns the earliest time of a bucket.
    #[inline]
    fn bucket_start(&self, level: u32, digit: u32) -> u64 {
        let shift = level * DIGIT_BITS;
        // The bits above this level's digit equal those of the origin.
        let above = self
            .origin
            .checked_shr(shift + DIGIT_BITS)
            .and_then(|high| high.checked_shl(shift + DIGIT_BITS))
            .unwrap_or(0);
        above | u64::from(digit) << shift
    }

    /// Removes the earliest event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Nanos, E)> {
        if self.list.is_empty() {
            self.refill();
        }
        let entry = self.list.pop()?;
        self.last = entry.time;
        self.len -= 1;
        Some((Nanos(entry.time), entry.event))
    }

    /// Fills the empty list with the earliest bucket that is small enough.
    #[inline(never)]
    fn refill(&mut self) {
        while self.levels != 0 {
            let level = self.levels.trailing_zeros();
            let digit = self.occupied[level as usize].trailing_zeros();
            let start = self.bucket_start(level, digit);
            self.occupied[level as usize] &= self.occupied[level as usize] - 1;
            if self.occupied[level as usize] == 0 {
                self.levels &= !(1 << level);
            }
            let mut entries = std::mem::take(&mut self.spread);
            std::mem::swap(&mut entries, &mut self.buckets[level as usize * DIGITS + digit as usize]);
            let few = level == 0 || entries.len() <= LIST_MAX;
            if few {
                self.origin = start;
                // The last nanosecond of time has no end; nothing comes after it.
                self.horizon = start.saturating_add(1 << (level * DIGIT_BITS));
                if level == 0 {
                    self.list.extend(entries.iter().rev());
                } else {
                    entries.iter().for_each(|&entry| self.insert(entry));
                }
            } else {
                // Relative to its earliest event, every event of the bucket differs only in lower digits.
                self.origin = entries.iter().map(|entry| entry.time).min().unwrap_or(start);
                entries.iter().for_each(|&entry| self.place(entry));
            }
            entries.clear();
            self.spread = entries;
            if few {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EventQueue;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    use weft_units::Nanos;

    /// A small generator of the tests' operations.
    fn next(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn agrees_with_a_heap_of_times_and_serial_numbers() {
        for seed in 1..200u64 {
            let mut random = seed;
            let (mut ours, mut reference) = (EventQueue::new(), BinaryHeap::new());
            let (mut serial, mut now) = (0u64, 0u64);
            for _ in 0..2000 {
                if next(&mut random) % 5 < 3 {
                    // Delays of all magnitudes, including zero, so that equal times are frequent.
                    let delay = next(&mut random) >> (next(&mut random) % 64);
                    let time = now.saturating_add(delay % (1 << (next(&mut random) % 40)));
                    ours.push(Nanos(time), serial);
                    reference.push(Reverse((time, serial)));
                    serial += 1;
                } else {
                    let expected = reference.pop().map(|Reverse(pair)| pair);
                    assert!(
                        ours.earliest_possible().0 <= expected.map_or(u64::MAX, |(time, _)| time),
                        "seed {seed}"
                    );
                    let got = ours.pop().map(|(time, event)| (time.0, event));
                    assert_eq!(got, expected, "seed {seed}");
                    now = expected.map_or(now, |(time, _)| time);
                }
                assert_eq!(ours.len(), reference.len());
            }
        }
    }

    #[test]
    fn equal_times_leave_in_order_even_when_added_between() {
        let mut queue = EventQueue::new();
        queue.push(Nanos(1 << 40), 0);
        queue.push(Nanos(5), 1);
        queue.push(Nanos(1 << 40), 2);
        assert_eq!(queue.pop(), Some((Nanos(5), 1)));
        queue.push(Nanos(1 << 40), 3);
        assert_eq!(queue.pop(), Some((Nanos(1 << 40), 0)));
        queue.push(Nanos(1 << 40), 4);
        let rest: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(rest, [2, 3, 4]);
    }

    #[test]
    fn the_end_of_time_is_a_time() {
        let mut queue = EventQueue::new();
        queue.push(Nanos::MAX, 'b');
        queue.push(Nanos(0), 'a');
        assert_eq!(queue.pop(), Some((Nanos(0), 'a')));
        assert_eq!(queue.earliest_possible().0 >> 60, 15);
        assert_eq!(queue.pop(), Some((Nanos::MAX, 'b')));
        assert_eq!(queue.pop(), None);
    }
}
