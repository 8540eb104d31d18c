//! Rings and doorbells out of step: rings whose doorbell is ahead of their packet, and packets of which no doorbell speaks.

use super::{Engine, LATE_RETRY, LATE_RETRY_MAX, Worker};
use crate::doorbell::Shared;
use crate::records::RecordSource;
use crate::ring::{Fetch, Ring};
use crate::ring_accounting::Empty;
use crate::sync::Ordering;
use rustix::event::{PollFd, PollFlags, poll};
use weft_host::clock;
use weft_units::Instant;

/// Says on the page how much of a ring is done. The places in its class come back afterwards, so that never more packets are
/// in the rings than the class has places.
pub(super) fn publish_done(shared: &Shared, number: usize, ring: &Ring) {
    let (doorbell, done) = (&shared.rings[number].done, ring.accounting.done());
    let more = done.saturating_sub(doorbell.load(Ordering::Relaxed));
    doorbell.store(done, Ordering::Release);
    if let Some(class) = ring.class {
        // This thread alone writes both.
        let total = &shared.classes[class.index()].done;
        total.store(total.load(Ordering::Relaxed) + more, Ordering::Release);
    }
}

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// The ring is empty. If its doorbell was ahead of a packet, it is looked at again soon.
    pub(super) fn put_aside(&mut self, number: usize) {
        let now = clock::now();
        if self.settle_empty(number, now) {
            return;
        }
        self.parts.rings[number].late = true;
        self.late.push(number);
        self.late_step = LATE_RETRY;
        self.next_late = now + self.late_step;
        self.parts.counters.doorbell_ahead.add(1, 0);
        self.ring_was_late(number);
    }

    /// Settles the accounting of a ring that was found empty. Returns whether nothing is missing in it (any more).
    fn settle_empty(&mut self, number: usize, now: Instant) -> bool {
        let posted = self.posted(number);
        let accounting = &mut self.parts.rings[number].accounting;
        if let Empty::Lost(missing) = accounting.empty(posted, now) {
            self.parts.counters.lost.add(missing, 0);
            self.count_lost(number, |n| n + missing);
        }
        let done = self.parts.rings[number].accounting.done();
        self.match_strays(number);
        publish_done(self.shared, number, &self.parts.rings[number]);
        done >= posted
    }

    /// Takes back what was counted as a stray and only came before its doorbell.
    pub(super) fn match_strays(&mut self, number: usize) {
        let matched = self.parts.rings[number].accounting.matched();
        if matched > 0 {
            self.parts.counters.strays.take_back(matched);
        }
    }

    /// Says of each ring until when all that was posted for it is done: what a flow that has been silent since needs to know to
    /// leave the ring although that is never empty.
    pub(super) fn note_passed(&mut self, wall: Instant) {
        for (ring, doorbell) in self.parts.rings.iter_mut().zip(&self.shared.rings) {
            if ring.accounting.done() >= ring.mark.0 {
                doorbell.passed.store(ring.mark.1.as_nanos(), Ordering::Release);
                // The time was read before the count: of what was posted before it, all is counted.
                ring.mark = (doorbell.packets.load(Ordering::Acquire), wall);
            }
        }
    }

    /// Looks again at the rings whose doorbell was ahead; what does not come is given up, with that reason.
    /// Returns whether a packet has come.
    pub(super) fn retry_late(&mut self, wall: Instant) -> bool {
        self.late_step =
            if self.next_late == Instant::ZERO { LATE_RETRY } else { self.late_step + self.late_step };
        self.late_step = self.late_step.min(LATE_RETRY_MAX);
        self.next_late = wall + self.late_step;
        let (mut i, mut any) = (0, false);
        while i < self.late.len() {
            let number = self.late[i];
            self.engine.fetch_begins(self.parts.rings[number].flow, true);
            let found = match self.parts.rings[number].fetch() {
                Fetch::Packet(length) => {
                    self.accept(number, length);
                    self.engine.activate(self.parts.rings[number].flow);
                    self.ready_from_now(number);
                    true
                }
                // A ring that fails fails again when it is its turn.
                _ => false,
            };
            self.fetch_ends(number);
            any |= found;
            if found || self.settle_empty(number, wall) {
                self.parts.rings[number].late = false;
                self.late.swap_remove(i);
            } else {
                i += 1;
            }
        }
        any
    }

    /// Finds packets that no doorbell speaks of: after a miscount, or later than it was given up. One poll over all rings.
    pub(super) fn sweep(&mut self) -> bool {
        let mut fds: Vec<PollFd<'_>> =
            self.parts.rings.iter().map(|ring| PollFd::new(&ring.fd, PollFlags::IN)).collect();
        let zero = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut fds, Some(&zero)).unwrap_or(0) == 0 {
            return false;
        }
        let readable = fds.iter().map(|fd| fd.revents().contains(PollFlags::IN)).collect::<Vec<bool>>();
        let waiting =
            self.parts.rings.iter().zip(readable).filter(|(ring, readable)| *readable && !ring.late);
        for (ring, _) in waiting {
            self.engine.activate(ring.flow);
        }
        true
    }
}
