//! The worker's sleep: until a doorbell, a release time, a free link, or room in the uplink.
//!
//! * Nothing may be sent, and the link is free: any doorbell wakes the worker.
//! * The link is busy: a doorbell changes nothing, except one of an urgent ring of a device, which may overdraw the
//!   link's clock. Only that wakes the worker. The sleep lasts at least the moderation interval, since a wake-up per
//!   frame costs more processor time than the frame. The interval is longer beside a standing backlog ([`Device::moderation`]).
//! * The uplink has no room: doorbells change nothing, so no wake-up is requested (`wait_for_room`).
//!
//! A sleep ends early at the next retry of a late ring. While the link is busy only an urgent late ring shortens the
//! moderation interval.
//!
//! Counters: sleeps for a doorbell (`sleeps`), those that missed their wake-up (`wakeups_lost`), and the longest sleep
//! beside a late ring (`late_sleep_max`).

use super::{Device, Engine, MODERATION, SLEEP_MAX, Served, Worker};
use crate::doorbell::protocol;
use crate::records::RecordSource;
use rustix::event::{PollFd, PollFlags, poll};
use weft_host::clock;
use weft_units::{Instant, Nanos};

/// The doorbells that end a sleep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WakeFor {
    Any,
    Urgent,
}

/// The longest wait that is spent spinning, since a timer would be later.
const SPIN: Nanos = Nanos::from_micros(3);

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Reads the wall clock for the times of arrivals and departures. Workers that share a policy take it for their engine's
    /// time, too. Returns the time of the loop, which was `wall`.
    #[inline]
    pub(super) fn stamp(&mut self, wall: Instant) -> Instant {
        self.stamp = clock::now();
        if !self.engine.is_shared() {
            return wall;
        }
        self.parts.link.follow(self.stamp);
        self.stamp
    }

    /// Sleeps until there is work.
    pub(super) fn sleep_until_work(&mut self, wait: Served) {
        if matches!(wait, Served::Progress) {
            return;
        }
        let now = clock::now();
        self.sleep(wait, now);
        self.pace.slept(clock::now().saturating_since(now));
    }

    fn sleep(&mut self, wait: Served, now: Instant) {
        let idle = matches!(wait, Served::Idle);
        let (until, busy_until) = match wait {
            Served::Progress => return,
            Served::Blocked(room) => return self.wait_for_room(room, now),
            Served::Wait(until) => (until, self.parts.link.busy_until(now)),
            Served::Idle => (now + SLEEP_MAX, None),
        };
        let mut until = until.min(now + SLEEP_MAX);
        if let Some(due) = self.late.next() {
            until = until.min(due.max(now));
        }
        if until <= now + SPIN {
            return;
        }
        if !self.late.is_empty() {
            let longest = &self.parts.counters.late_sleep_max;
            longest.set(longest.get().max((until - now).get()));
        }
        if let Some(busy_until) = busy_until {
            let ahead = busy_until - now;
            let of = |device: &Device| device.moderation(now, ahead, |enough| self.waits(enough));
            let moderation = self.parts.device.as_ref().map_or(MODERATION, of);
            return self.sleep_while_busy(until, moderation, now);
        }
        let device = self.parts.device.as_mut();
        if idle && device.is_some_and(|device| device.moderates()) {
            return self.sleep_while_busy(until.min(now + MODERATION), Nanos::ZERO, now);
        }
        let words = self.ports.len().div_ceil(64);
        if protocol::prepare_sleep(&self.summary.ready_ports[..words], &self.summary.sleeping) {
            self.sleep_for_doorbell(until - now, WakeFor::Any);
        }
    }

    /// Sleeps until `until`, and for at least `moderation`. Only an urgent doorbell wakes the worker.
    fn sleep_while_busy(&mut self, until: Instant, moderation: Nanos, now: Instant) {
        let Some(device) = self.parts.device.as_mut() else {
            let _ = poll(&mut [], Some(&timespec((until - now).max(moderation))));
            return;
        };
        device.urgency.settle(now);
        let late = self.late.any(|ring| device.urgency.is_urgent(ring));
        let span = if late { until - now } else { (until - now).max(moderation) };
        self.write_urgency();
        let (summary, ports) = (&self.summary, &self.ports);
        let words = &summary.ready_ports[..ports.len().div_ceil(64)];
        let posted = |port| Self::has_urgent(ports, port);
        if protocol::prepare_urgent_sleep(words, &summary.sleeping, posted) {
            self.sleep_for_doorbell(span, WakeFor::Urgent);
        }
    }

    /// Sleeps for `span` or until a doorbell that the worker has requested a wake-up for, or a command.
    fn sleep_for_doorbell(&mut self, span: Nanos, wake: WakeFor) {
        self.parts.counters.sleeps.add(1, 0);
        let mut fds = [self.records.wake_fd(), self.commands.wake_fd()]
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        let woken = poll(&mut fds, Some(&timespec(span)));
        if fds[1].revents().contains(PollFlags::IN) {
            self.commands.clear();
        }
        if woken == Ok(0) && self.wakeup_was_lost(wake) {
            self.parts.counters.wakeups_lost.add(1, 0);
        }
        protocol::awake(&self.summary.sleeping);
        self.records.consume();
    }
}

pub(super) fn timespec(span: Nanos) -> rustix::time::Timespec {
    let (secs, nanos) = (span.get() / 1_000_000_000, span.get() % 1_000_000_000);
    rustix::time::Timespec { tv_sec: secs as i64, tv_nsec: nanos as i64 }
}
