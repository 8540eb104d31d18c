//! The late rings, whose doorbell is ahead of their packet, in the order of their next looks.
//!
//! Each ring has a separate time, so that its looks do not depend on how many others are late, and a doorbell brings forward
//! the look at its own ring alone. Between two looks at a ring passes twice as much time as before, and from half a
//! millisecond on half as much again, up to [`LATE_RETRY_MAX`]: a packet waits about as long as it is late at most, and a
//! doorbell without a packet costs at most some forty looks until the packet is given up
//! ([`NEVER_CAME`](crate::ring_accounting::NEVER_CAME)).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use weft_units::{Instant, Nanos};

/// The time until the first look.
const LATE_RETRY: Nanos = Nanos::from_micros(30);
/// The longest time between two looks, below that of the sweep.
pub(crate) const LATE_RETRY_MAX: Nanos = Nanos::from_millis(10);
/// Looks further apart than this are at multiples of it, so that one wake-up of the worker serves many rings.
const TOGETHER: Nanos = Nanos::from_micros(500);

/// The next look at a late ring, and the time that passed since the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Look {
    due: Instant,
    step: Nanos,
}

/// The late rings, by slot.
#[derive(Debug, Default)]
pub(crate) struct LateRings {
    looks: Vec<Option<Look>>,
    count: usize,
    /// By time. An entry whose time is not that of its ring's next look is skipped.
    queue: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl LateRings {
    /// The number of late rings.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether no ring is late.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether a late ring is one of those that `test` picks.
    pub(crate) fn any(&self, mut test: impl FnMut(usize) -> bool) -> bool {
        self.looks.iter().enumerate().any(|(slot, look)| look.is_some() && test(slot))
    }

    /// The time of the next look; not later than that, if entries are to be skipped.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.queue.peek().map(|Reverse((due, _))| *due).filter(|_| self.count > 0)
    }

    /// Adds the ring in `slot`, which was found empty at `now`.
    pub(crate) fn begin(&mut self, slot: usize, now: Instant) {
        if self.looks.len() <= slot {
            self.looks.resize(slot + 1, None);
        }
        self.count += usize::from(self.looks[slot].is_none());
        self.set(slot, Look { due: now + LATE_RETRY, step: LATE_RETRY });
    }

    /// Makes a look at the ring in `slot` due, since it was posted again.
    pub(crate) fn posted(&mut self, slot: usize) {
        let due = Instant::ZERO;
        if self.look(slot).is_some_and(|look| look.due != due) {
            self.set(slot, Look { due, step: LATE_RETRY });
        }
    }

    /// A ring whose look is due at `now`. [`again`](Self::again) or [`end`](Self::end) follows.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<usize> {
        while let Some(Reverse((due, slot))) = self.queue.peek().copied().filter(|first| first.0.0 <= now) {
            self.queue.pop();
            if self.look(slot).is_some_and(|look| look.due == due) {
                return Some(slot);
            }
        }
        None
    }

    /// Records that the ring in `slot` was empty at `now`.
    pub(crate) fn again(&mut self, slot: usize, now: Instant) {
        if let Some(Look { step, .. }) = self.look(slot) {
            let more = if step < TOGETHER { step.get() } else { step.get() / 2 };
            let step = Nanos(step.get() + more).min(LATE_RETRY_MAX);
            let due = (now + step).as_nanos();
            let due = if step > TOGETHER { due - due % TOGETHER.get() } else { due };
            self.set(slot, Look { due: Instant::from_nanos(due), step });
        }
    }

    /// Removes the ring in `slot`, if it is late.
    pub(crate) fn end(&mut self, slot: usize) {
        let look = self.looks.get_mut(slot).and_then(Option::take);
        self.count -= usize::from(look.is_some());
        if self.count == 0 {
            self.queue.clear();
        }
    }

    fn look(&self, slot: usize) -> Option<Look> {
        self.looks.get(slot).copied().flatten()
    }

    fn set(&mut self, slot: usize, look: Look) {
        self.looks[slot] = Some(look);
        self.queue.push(Reverse((look.due, slot)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring_accounting::NEVER_CAME;

    /// The looks at ring `slot` until `end`, if it stays empty, and `posted` says when it is posted.
    fn looks(late: &mut LateRings, slots: usize, end: Instant) -> Vec<u32> {
        let mut looks = vec![0; slots];
        while let Some(now) = late.next().filter(|now| *now <= end) {
            while let Some(slot) = late.take_due(now) {
                looks[slot] += 1;
                late.again(slot, now);
            }
        }
        looks
    }

    #[test]
    fn a_doorbell_without_a_packet_costs_a_number_of_looks_whatever_else_is_late() {
        let start = Instant::from_secs(5);
        for slots in [1, 200] {
            let mut late = LateRings::default();
            (0..slots).for_each(|slot| late.begin(slot, start));
            let looks = looks(&mut late, slots, start + NEVER_CAME);
            assert!(looks.iter().all(|count| (20..45).contains(count)), "{looks:?}");
        }
    }

    #[test]
    fn a_doorbell_brings_forward_the_look_at_its_own_ring() {
        let start = Instant::from_secs(5);
        let mut late = LateRings::default();
        (0..3).for_each(|slot| late.begin(slot, start));
        looks(&mut late, 3, start + Nanos::from_millis(50));
        let next = late.next().expect("late");
        late.posted(1);
        late.posted(1);
        assert_eq!(late.take_due(start), Some(1));
        late.again(1, start + Nanos::from_millis(50));
        assert_eq!(late.take_due(start + Nanos::from_millis(50)), None, "the others are not due");
        late.end(1);
        late.end(1);
        assert_eq!((late.len(), late.take_due(next).is_some()), (2, true));
    }
}
