//! The lines that workers share, and the only operations on them: each is one atomic operation, or a loop that another worker's
//! success ends.
//!
//! ```text
//! line of a limit, 128 B                line of 4 classes (children of fair nodes), 64 B
//! +----------------------------+        +--------------------------+
//! | next      u64  ns          |        | bytes     u64            |
//! | returned  u32 origin       |        | wanted    u64  ns        |
//! |   4 times u32  ns          |        | ...       three more     |
//! | rate      u64  bits/s      |        | (nothing of other kinds) |
//! +----------------------------+        +--------------------------+
//! ```
//!
//! The origin of returned time is when the oldest of it began, in microseconds (of 1,024 ns). Time of different origins lies in different
//! words, so that what is old does not make void what is new. A worker that takes from several words has the parts, spends the
//! oldest first, and returns what is left of each with the origin that it had.
//!
//! The line of a limit is a pair of cache lines of 64 bytes, since processors fetch them in pairs. Classes lie side by side.
//!
//! Ownership: every worker changes `next`, `returned` and `bytes`; the caller that changes the policy stores `rate`. Nothing else
//! is published by these words, so no order between them is needed and all accesses are relaxed.
//!
//! Invariants, which the model checker holds in all orders of threads (`tests/loom_workers.rs`):
//! * Slots taken by [`LimitLine::take`] are disjoint.
//! * Time returned is taken again at most once, and what is neither taken nor kept was reported to be forfeited.
//! * The bytes of a class are those of all workers, and each worker learns those of the others exactly once.

use super::sync::{AtomicU64, Ordering};

/// The bits of a span in a word of returned time.
const SPAN: u64 = (1 << 32) - 1;

/// The words of returned time. Each is for origins of a part of the age up to which time is lent, in turn.
const KEPT: usize = 4;

/// The number of the word for time that began at `origin`.
fn place(origin: u64, age: u64) -> usize {
    ((origin / (age / KEPT as u64).max(1)) % KEPT as u64) as usize
}

/// The binary logarithm of the unit of origins, in nanoseconds. An origin is rounded once for each worker that has the time, so a
/// larger unit ages it. They wrap around after 73 minutes; time that lies there for just so long counts as new, once.
const UNIT: u32 = 10;

/// The most units that the clock of a worker may be behind that of another: a millisecond.
const BEHIND: u32 = 1 << 10;

/// The age of the origin in `word`, rounded up.
fn age_of(word: u64, now: u64) -> u64 {
    let units = ((now >> UNIT) as u32).wrapping_sub((word >> 32) as u32);
    let units = if units > u32::MAX - BEHIND { 0 } else { units };
    (u64::from(units) + 1) << UNIT
}

/// The span of returned time in `word` that may be lent.
fn fresh(word: u64, now: u64, age: u64) -> u64 {
    if age_of(word, now) <= age { word & SPAN } else { 0 }
}

/// Takes up to `most` of the time in a word, unless it is too old. Returns it with its origin.
fn take_from(place: &AtomicU64, most: u64, now: u64, age: u64) -> (u64, u64) {
    let mut word = place.load(Ordering::Relaxed);
    loop {
        let kept = fresh(word, now, age);
        let taken = kept.min(most);
        if taken == 0 {
            return (0, now);
        }
        let left = if taken == kept { 0 } else { word - taken };
        match place.compare_exchange_weak(word, left, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return (taken, now.saturating_sub(age_of(word, now))),
            Err(seen) => word = seen,
        }
    }
}

/// The parts that time of a worker may have: those of each word, and of its slot.
const PARTS: usize = KEPT + 1;

/// Time in parts of different origins, the oldest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Parts {
    /// Span and origin of each.
    parts: [(u64, u64); PARTS],
    count: usize,
}

impl Parts {
    /// Adds `span` of `origin`. What finds no place, which is more than a worker can take at once, joins the newest.
    pub(crate) fn add(&mut self, span: u64, origin: u64) {
        if span == 0 {
            return;
        }
        let at = self.parts[..self.count].partition_point(|(_, of)| *of <= origin);
        if self.count == PARTS {
            self.parts[at.saturating_sub(1)].0 += span;
            return;
        }
        self.parts.copy_within(at..self.count, at + 1);
        self.parts[at] = (span, origin);
        self.count += 1;
    }

    /// Removes `span` from the newest parts, or what there is. Returns a part, or `None` if nothing of `span` is left.
    pub(crate) fn remove_newest(&mut self, span: &mut u64) -> Option<(u64, u64)> {
        let last = self.count.checked_sub(1).filter(|_| *span > 0)?;
        let (kept, origin) = &mut self.parts[last];
        let removed = (*kept).min(*span);
        (*kept, *span) = (*kept - removed, *span - removed);
        if *kept == 0 {
            self.count = last;
        }
        Some((removed, *origin))
    }

    /// The sum of the parts.
    pub(crate) fn span(&self) -> u64 {
        self.parts[..self.count].iter().map(|(span, _)| span).sum()
    }

    /// The beginning of the oldest.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.parts[..self.count].first().map(|(_, origin)| *origin)
    }
}

/// Returned time that was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Returned {
    /// The time; zero if there was not enough.
    pub(crate) span: u64,
    /// The beginning of the oldest of it.
    pub(crate) origin: u64,
    /// The same time, by origins.
    pub(crate) parts: Parts,
    /// The time that was void when it was put back.
    pub(crate) lost: u64,
}

/// The shared state of a limit.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct LimitLine {
    /// The beginning of the limit's time that no worker has yet.
    next: AtomicU64,
    /// Time that workers had and did not use: its origin, its span; by origin.
    returned: [AtomicU64; KEPT],
    /// Bits per second, never zero.
    rate: AtomicU64,
}

impl LimitLine {
    pub(crate) fn new(rate: u64) -> Self {
        let returned = core::array::from_fn(|_| AtomicU64::new(0));
        Self { next: AtomicU64::new(0), returned, rate: AtomicU64::new(rate) }
    }

    /// The beginning of the time that no worker has yet.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Takes the next `span` of the limit's time, and none before `earliest`. Returns the beginning of the slot.
    pub(crate) fn take(&self, span: u64, earliest: u64) -> u64 {
        let mut next = self.next.load(Ordering::Relaxed);
        loop {
            let start = next.max(earliest);
            let end = start.saturating_add(span);
            match self.next.compare_exchange_weak(next, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return start,
                Err(seen) => next = seen,
            }
        }
    }

    /// Takes from `least` to `most` of the time that was returned, the oldest first, and none that is older than `age` at `now`.
    pub(crate) fn take_returned(&self, (least, most): (u64, u64), now: u64, age: u64) -> Returned {
        let mut got = Returned { span: 0, origin: now, parts: Parts::default(), lost: 0 };
        let all = self.returned.iter().map(|word| fresh(word.load(Ordering::Relaxed), now, age));
        let all = all.fold(0, u64::saturating_add);
        if all == 0 || all < least {
            return got;
        }
        let oldest = place(now.saturating_sub(age), age);
        for at in 0..KEPT {
            let word = &self.returned[(oldest + at) % KEPT];
            let (span, origin) = take_from(word, most - got.span, now, age);
            got.span += span;
            got.parts.add(span, origin);
        }
        if got.span < least {
            // Others took some of it meanwhile.
            let mut left = core::mem::take(&mut got.span);
            while let Some(part) = got.parts.remove_newest(&mut left) {
                got.lost += self.give_back(part, now, age);
            }
        }
        got.origin = got.parts.oldest().unwrap_or(now);
        got
    }

    /// Returns `span` of unused time that began at `origin`, and keeps nothing that is older than `age` at `now`. Returns what is
    /// forfeited, of this and of what was kept before.
    pub(crate) fn give_back(&self, (span, origin): (u64, u64), now: u64, age: u64) -> u64 {
        let aged = now.saturating_sub(origin);
        if span == 0 || aged > age {
            return span;
        }
        let place = &self.returned[place(origin, age)];
        let mut word = place.load(Ordering::Relaxed);
        loop {
            let kept = word & SPAN;
            let (fresh, old) = match age_of(word, now) {
                old if kept > 0 && old <= age => (kept, old.max(aged)),
                _ => (0, aged),
            };
            let sum = fresh.saturating_add(span).min(SPAN);
            let stamp = ((now.saturating_sub(old) >> UNIT) & SPAN) << 32;
            match place.compare_exchange_weak(word, stamp | sum, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return kept + span - sum,
                Err(seen) => word = seen,
            }
        }
    }

    /// Whether no worker has taken the limit's time from `time` on.
    pub(crate) fn is_left(&self, time: u64) -> bool {
        self.next.load(Ordering::Relaxed) <= time
    }

    pub(crate) fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    pub(crate) fn set_rate(&self, rate: u64) {
        self.rate.store(rate, Ordering::Relaxed);
    }
}

/// The shared state of a class: the bytes that all workers sent of it. Four have a cache line together: a worker adds to those of all
/// its classes one after the other, so it waits for a line that another had once, not once for each.
#[derive(Debug)]
pub(crate) struct ClassLine {
    bytes: AtomicU64,
    /// The last time at which a worker had packets of it that only the link keeps.
    wanted: AtomicU64,
}

/// The classes of a policy, with no other data on their lines.
#[derive(Debug)]
pub(crate) struct Classes {
    lines: Box<[ClassLine]>,
}

/// The classes of a pair of cache lines.
const PAIR: usize = 128 / size_of::<ClassLine>();

impl Classes {
    pub(crate) fn new(count: usize) -> Self {
        Self { lines: (0..count + 2 * PAIR).map(|_| ClassLine::new()).collect() }
    }
}

impl core::ops::Deref for Classes {
    type Target = [ClassLine];

    #[inline]
    fn deref(&self) -> &[ClassLine] {
        // What is before and after them shares their lines with nothing else.
        &self.lines[PAIR..self.lines.len() - PAIR]
    }
}

impl ClassLine {
    pub(crate) fn new() -> Self {
        Self { bytes: AtomicU64::new(0), wanted: AtomicU64::new(0) }
    }

    /// Tells that a worker has packets at `now` that wait for nothing but the link.
    pub(crate) fn want(&self, now: u64) {
        self.wanted.fetch_max(now, Ordering::Relaxed);
    }

    /// Reports that a worker that had some has none now. Another that has some reports so at its next exchange.
    pub(crate) fn want_no_more(&self) {
        self.wanted.store(0, Ordering::Relaxed);
    }

    /// The last time at which one had.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Relaxed)
    }

    /// Adds `own` bytes. Returns the bytes of all workers before.
    pub(crate) fn add(&self, own: u64) -> u64 {
        if own == 0 {
            self.bytes.load(Ordering::Relaxed)
        } else {
            self.bytes.fetch_add(own, Ordering::Relaxed)
        }
    }
}

/// A worker's knowledge of a class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Known {
    /// The bytes that this worker added.
    mine: u64,
    /// The bytes of the others that it has read.
    others: u64,
}

impl Known {
    /// Adds `own` bytes to `line`. Returns the bytes that the others added since the last exchange.
    pub(crate) fn exchange(&mut self, line: &ClassLine, own: u64) -> u64 {
        let others = line.add(own).wrapping_sub(self.mine);
        self.mine = self.mine.wrapping_add(own);
        let news = others.wrapping_sub(self.others);
        self.others = others;
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_parts_is_the_newest() {
        let mut parts = Parts::default();
        for (span, origin) in [(10, 300), (20, 100), (0, 50), (30, 200)] {
            parts.add(span, origin);
        }
        assert_eq!((parts.span(), parts.oldest()), (60, Some(100)));
        let mut left = 45;
        let mut removed = || parts.remove_newest(&mut left);
        assert_eq!(
            [removed(), removed(), removed(), removed()],
            [Some((10, 300)), Some((30, 200)), Some((5, 100)), None]
        );
        assert_eq!((parts.span(), parts.oldest()), (15, Some(100)));
        let mut more = 20;
        assert_eq!(parts.remove_newest(&mut more), Some((15, 100)));
        assert_eq!((parts.remove_newest(&mut more), more, parts.oldest()), (None, 5, None));
    }

    #[test]
    fn parts_beyond_the_places_lose_no_time() {
        let mut parts = Parts::default();
        (0..2 * PARTS as u64).for_each(|at| parts.add(1, at));
        assert_eq!((parts.span(), parts.oldest()), (2 * PARTS as u64, Some(0)));
    }

    #[test]
    fn an_age_survives_clocks_that_differ_and_hours() {
        let word = |origin: u64| ((origin >> UNIT) & SPAN) << 32;
        let now = 7_200_000_000_000;
        for aged in [0, 1, 1_000, 400_000, 1_000_000_000, 2_400_000_000_000] {
            let age = age_of(word(now - aged), now);
            assert!((aged..=aged + (2 << UNIT)).contains(&age), "{aged}: {age}");
        }
        assert_eq!(age_of(word(now + 20_000), now), 1 << UNIT, "a clock that is behind");
    }
}
