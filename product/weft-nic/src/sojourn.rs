//! The times that packets wait in the NIC, by class.
//!
//! **What is measured.** The wait of a packet begins when the worker takes its doorbell, and ends with its last bit on the
//! link: by the link's clock, or, if that is behind, by the wall clock and the chunk's time on the link. The time between the
//! doorbell and the worker's look at it is not in it: a wake-up, or, while the link is busy and no urgent class waits, at most a
//! millisecond of sleep. The worker reads the wall clock at least once in 16 chunks, so short waits may be that much too
//! short. Packets refused by the uplink and strays are not measured.
//!
//! **Arrivals.** A ring holds packets in the order of their doorbells, so a time and the count posted until then give the arrival
//! of every packet up to that count. A ring keeps at most `MARKS` such marks (`Arrivals`), at least a sixteenth of its last wait
//! apart. A packet between two marks takes the earlier time: waits are never understated, and overstated by at most that distance.
//!
//! **Buckets.** Each octave from 1.024 us to 17 s has eight buckets of equal width ([`SojournHistogram`]), so a percentile is at
//! most an eighth too large. A class has 1.6 KB, whatever it sends. One thread writes, any reads; nothing is allocated per packet.

use core::sync::atomic::{AtomicU64, Ordering};
use weft_units::{Instant, Nanos};

/// The marks of a ring.
const MARKS: usize = 32;
/// The binary logarithm of the buckets of an octave.
const SUB_BITS: u32 = 3;
const SUB: usize = 1 << SUB_BITS;
/// The binary logarithm of the width of the first buckets, in nanoseconds.
const FIRST_BITS: u32 = 7;
/// The octaves above the first, which ends at 1.024 us.
const OCTAVES: usize = 24;
/// The buckets: those of the first octave, of the others, and one for longer waits.
const BUCKETS: usize = SUB + OCTAVES * SUB + 1;

/// The bucket of a wait.
fn bucket_of(wait: Nanos) -> usize {
    let unit = wait.get() >> FIRST_BITS;
    if unit < SUB as u64 {
        return unit as usize;
    }
    let exponent = unit.ilog2();
    let within = (unit >> (exponent - SUB_BITS)) as usize - SUB;
    (SUB + (exponent - SUB_BITS) as usize * SUB + within).min(BUCKETS - 1)
}

/// The end of a bucket; of the last one, its begin.
fn end_of(bucket: usize) -> Nanos {
    let bucket = bucket.min(BUCKETS - 2) + 1;
    if bucket <= SUB {
        return Nanos((bucket as u64) << FIRST_BITS);
    }
    let (octave, within) = ((bucket - SUB) / SUB, (bucket - SUB) % SUB);
    Nanos(((SUB + within) as u64) << (octave as u32 + FIRST_BITS))
}

/// The waits of a class, counted by the worker.
#[derive(Debug)]
pub struct SojournHistogram {
    counts: [AtomicU64; BUCKETS],
    sum: AtomicU64,
}

impl Default for SojournHistogram {
    fn default() -> Self {
        Self { counts: core::array::from_fn(|_| AtomicU64::default()), sum: AtomicU64::default() }
    }
}

impl SojournHistogram {
    /// Counts a wait. Only one thread may, so a load and a store suffice.
    pub(crate) fn record(&self, wait: Nanos) {
        let count = &self.counts[bucket_of(wait)];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let sum = self.sum.load(Ordering::Relaxed).saturating_add(wait.get());
        self.sum.store(sum, Ordering::Relaxed);
    }

    /// Reads the histogram.
    pub fn get(&self) -> Sojourns {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        Sojourns { counts, sum: Nanos(self.sum.load(Ordering::Relaxed)) }
    }
}

/// A reading of a [`SojournHistogram`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sojourns {
    /// By bucket; empty without a reading.
    counts: Vec<u64>,
    /// The sum of all waits.
    pub sum: Nanos,
}

impl Sojourns {
    /// The number of measured packets.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The waits of both.
    #[must_use]
    pub fn plus(mut self, other: &Self) -> Self {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, more)| *sum += more);
        self.sum += other.sum;
        self
    }

    /// The waits since `base`.
    #[must_use]
    pub fn minus(&self, base: &Self) -> Self {
        let before = base.counts.iter().copied().chain(core::iter::repeat(0));
        let counts = self.counts.iter().zip(before).map(|(now, before)| now.saturating_sub(before)).collect();
        Self { counts, sum: self.sum.saturating_sub(base.sum) }
    }

    /// The wait that `part` of the packets do not exceed, to an eighth above; `None` without packets.
    pub fn quantile(&self, part: f64) -> Option<Nanos> {
        let count = self.count();
        let rank = ((count as f64 * part).ceil() as u64).clamp(1, count.max(1));
        let mut below = 0;
        let bucket = self.counts.iter().position(|of| {
            below += of;
            below >= rank
        })?;
        Some(end_of(bucket))
    }

    /// The octaves: the end of each with its packets, and the packets that waited longer than all.
    pub fn octaves(&self) -> (Vec<(Nanos, u64)>, u64) {
        let sum = |octave: usize| self.counts.iter().skip(octave * SUB).take(SUB).sum();
        let octaves = (0..=OCTAVES).map(|octave| (end_of(octave * SUB + SUB - 1), sum(octave)));
        (octaves.collect(), self.counts.last().copied().unwrap_or_default())
    }
}

/// Packets up to the number `count` that arrived from `at` on.
#[derive(Clone, Copy, Debug)]
struct Mark {
    count: u64,
    at: Instant,
}

/// The arrivals of the packets that a ring holds.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    marks: [Mark; MARKS],
    first: usize,
    len: usize,
    /// The least distance of a new mark to the one before.
    spacing: Nanos,
    /// The packets done when the last wait was reported.
    done: u64,
}

impl Default for Arrivals {
    fn default() -> Self {
        let none = Mark { count: 0, at: Instant::ZERO };
        Self { marks: [none; MARKS], first: 0, len: 0, spacing: Nanos::ZERO, done: 0 }
    }
}

impl Arrivals {
    fn mark(&mut self, at: usize) -> &mut Mark {
        &mut self.marks[(self.first + at) % MARKS]
    }

    /// Records that `count` packets were posted until `now`.
    pub(crate) fn posted(&mut self, count: u64, now: Instant) {
        if self.len > 0 {
            let spacing = self.spacing;
            let last = self.mark(self.len - 1);
            if count <= last.count {
                return;
            }
            if now.saturating_since(last.at) < spacing {
                last.count = count;
                return;
            }
        }
        if count <= self.done {
            return;
        }
        if self.len == MARKS {
            self.halve();
        }
        *self.mark(self.len) = Mark { count, at: now };
        self.len += 1;
    }

    /// Joins pairs of marks, and doubles their distance.
    fn halve(&mut self) {
        let span = self.mark(MARKS - 1).at.saturating_since(self.mark(0).at);
        for to in 0..MARKS / 2 {
            let (at, count) = (self.mark(2 * to).at, self.mark(2 * to + 1).count);
            *self.mark(to) = Mark { count, at };
        }
        self.len = MARKS / 2;
        self.spacing = Nanos(span.get() / (MARKS as u64 / 2)).max(self.spacing);
    }

    /// The arrival of the packet after the first `done`; `None` for one that no look has found.
    pub(crate) fn of_next(&self, done: u64) -> Option<Instant> {
        let mut marks = (0..self.len).map(|at| &self.marks[(self.first + at) % MARKS]);
        marks.find(|mark| mark.count > done).map(|mark| mark.at)
    }

    /// The arrival of the last packet that a look has found.
    pub(crate) fn of_newest(&self) -> Option<Instant> {
        let last = self.len.checked_sub(1)?;
        Some(self.marks[(self.first + last) % MARKS].at)
    }

    /// Returns the wait of a packet that left at `at`, as number `done`; `None` for one without a doorbell. A packet that
    /// no mark covers was posted after the last look, and has just arrived.
    pub(crate) fn left(&mut self, done: u64, (now, at): (Instant, Instant)) -> Option<Nanos> {
        if done <= self.done {
            return None;
        }
        self.done = done;
        while self.len > 0 && self.mark(0).count < done {
            self.first = (self.first + 1) % MARKS;
            self.len -= 1;
        }
        let since = if self.len > 0 { self.mark(0).at } else { now };
        let wait = at.saturating_since(since);
        if self.len > 0 && self.mark(0).count == done {
            self.first = (self.first + 1) % MARKS;
            self.len -= 1;
        }
        self.spacing = Nanos(wait.get() / (MARKS as u64 / 2));
        Some(wait)
    }
}

#[cfg(test)]
mod tests;
