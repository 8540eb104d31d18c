//! Rings out of step with their doorbells: late packets, lost packets and strays.
//!
//! * Late: the ring of a posted doorbell is empty (`put_aside`). It is fetched again after [`LATE_RETRY`], with
//!   doubling intervals (`retry_late`).
//! * Lost: the packets are still missing after [`NEVER_CAME`](crate::ring_accounting::NEVER_CAME). The accounting gives
//!   them up, which frees their places.
//! * Stray: a packet without a doorbell. The sweep finds it (`sweep`).

use super::{Engine, LATE_RETRY, LATE_RETRY_MAX, Worker};
use crate::doorbell::Shared;
use crate::records::RecordSource;
use crate::ring::{Fetch, Ring};
use crate::ring_accounting::Empty;
use crate::sync::Ordering;
use rustix::event::{PollFd, PollFlags, poll};
use weft_host::clock;
use weft_units::{Instant, Nanos};

/// The longest wait, at the end, for packets that were posted and are not yet in their rings.
pub(super) const REFILL: Nanos = Nanos::from_millis(100);
const REFILL_STEP: Nanos = Nanos::from_millis(1);

/// Publishes the `done` count of a ring. The places of its class are returned afterwards, so that the rings never hold
/// more packets than the class has places.
pub(super) fn publish_done(shared: &Shared, number: usize, ring: &Ring) {
    let (doorbell, done) = (&shared.rings[number].done, ring.accounting.done());
    let more = done.saturating_sub(doorbell.load(Ordering::Relaxed));
    doorbell.store(done, Ordering::Release);
    if let Some(class) = ring.class {
        // This thread is the only writer of both.
        let total = &shared.classes[class.index()].done;
        total.store(total.load(Ordering::Relaxed) + more, Ordering::Release);
    }
}

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Handles an empty ring. If its doorbell was ahead of a packet, the ring is marked as late and retried soon.
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

    /// Fetches a packet at the end. The ring of a TAP is filled again from the FIFO above it, slightly after it was read.
    pub(super) fn fetch_rest(&mut self, number: usize, until: Instant) -> Fetch {
        loop {
            let found = self.parts.rings[number].fetch();
            let missing = self.posted(number) > self.parts.rings[number].accounting.done();
            if !matches!(found, Fetch::Empty) || !missing || clock::now() >= until {
                return found;
            }
            let _ = poll(&mut [], Some(&super::sleep::timespec(REFILL_STEP)));
        }
    }

    /// Settles the accounting of an empty ring. Returns whether no packet is missing.
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

    /// Undoes the count of strays whose doorbells were posted later.
    pub(super) fn match_strays(&mut self, number: usize) {
        let matched = self.parts.rings[number].accounting.matched();
        if matched > 0 {
            self.parts.counters.strays.take_back(matched);
        }
    }

    /// Publishes, for each ring, a time before which all posted packets are done. A flow that has been silent since
    /// then may leave the ring, although the ring is never empty.
    pub(super) fn note_passed(&mut self, wall: Instant) {
        for (ring, doorbell) in self.parts.rings.iter_mut().zip(&self.shared.rings) {
            if ring.accounting.done() >= ring.mark.0 {
                doorbell.passed.store(ring.mark.1.as_nanos(), Ordering::Release);
                // The time was read before the count, so the count includes all packets posted before that time.
                ring.mark = (doorbell.packets.load(Ordering::Acquire), wall);
            }
        }
    }

    /// Fetches again from the late rings. Packets that remain missing are given up. Returns whether a packet has
    /// arrived.
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
                    if self.engine.activate(self.parts.rings[number].flow) {
                        self.became_ready(number);
                    }
                    true
                }
                // A failing ring fails again when its turn comes.
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

    /// Finds packets without a doorbell: strays, and packets that arrived after they were given up. One poll over all
    /// rings.
    pub(super) fn sweep(&mut self) -> bool {
        let mut fds: Vec<PollFd<'_>> =
            self.parts.rings.iter().map(|ring| PollFd::new(&ring.fd, PollFlags::IN)).collect();
        let zero = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut fds, Some(&zero)).unwrap_or(0) == 0 {
            return false;
        }
        let readable = fds.iter().map(|fd| fd.revents().contains(PollFlags::IN)).collect::<Vec<bool>>();
        for number in (0..readable.len()).filter(|number| readable[*number]) {
            let ring = &self.parts.rings[number];
            if !ring.late && self.engine.activate(ring.flow) {
                self.became_ready(number);
            }
        }
        true
    }
}
