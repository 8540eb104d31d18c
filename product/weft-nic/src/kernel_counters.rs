//! The kernel's counters, as they were read last, for the devices and programs of a port, and for the uplink.

use crate::doorbell::Doorbells;
use crate::port::{Deliveries, Port, PortDrops, Uplink};
use crate::redirect::ReceivePath;
use crate::sync::Ordering;
use std::sync::{Mutex, PoisonError};
use weft_host::bpf::RunStats;
use weft_host::clock;
use weft_units::{Counted, Instant, Nanos};

/// The kernel's counters of a port, as they were read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KernelCounters {
    /// Packets dropped between the port's egress and its rings.
    pub(crate) drops: PortDrops,
    /// The run-time cost of the program at the egress.
    pub(crate) bpf: RunStats,
    /// The run-time cost of the program at the port's far end.
    pub(crate) guard: RunStats,
    /// Packets redirected to the port.
    pub(crate) redirected: Counted,
    /// Packets delivered to the port, and those dropped before it.
    pub(crate) deliveries: Deliveries,
    /// The number of failed readings.
    pub(crate) failed: u64,
}

/// The shortest time that readings of an idle port are used again.
const REST: Nanos = Nanos::from_secs(1);

/// The part of the time for each idle port: 16 a second are read.
const REST_EACH: Nanos = Nanos::from_micros(62_500);

/// The time that looks at an idle port serve again. Each look costs system calls; a span that grows with the number of
/// ports gives a NIC with many idle ports the cost of one with 16.
pub(crate) fn rest_of(ports: usize) -> Nanos {
    REST.max(Nanos(REST_EACH.get().saturating_mul(ports as u64)))
}

/// The age that readings may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Freshness {
    /// They are made now.
    Now,
    /// Less than this, if the port has been idle. Each reading of the kernel's counters costs system calls, which idle ports
    /// would have ten times a second.
    Recent(Nanos),
}

/// The packets that have passed a port, by counters that cost at most one system call.
pub(crate) type Passed = [u64; 4];

/// The last readings of a port, and when they were made.
#[derive(Debug, Default)]
struct Last {
    counters: KernelCounters,
    /// The packets that had passed, and the time; `None` before the first.
    made: Option<(Passed, Instant)>,
    /// Whether nothing had passed since the readings before.
    at_rest: bool,
}

impl Last {
    /// Whether the readings serve again: a packet that was counted as passed may be counted as dropped a moment later, so the
    /// port was idle at the last two readings.
    fn serves(&self, passed: &Passed, now: Instant, rest: Nanos) -> bool {
        let same = |(of, at): &(Passed, Instant)| of == passed && now.saturating_since(*at) < rest;
        self.at_rest && self.made.as_ref().is_some_and(same)
    }

    fn made(&mut self, passed: Passed, now: Instant) {
        self.at_rest = self.made.is_some_and(|(before, _)| before == passed);
        self.made = Some((passed, now));
    }
}

/// The last readings of a port. A failed reading keeps the previous one, since an unreadable counter is no reason to
/// stop carrying packets.
#[derive(Debug, Default)]
pub(crate) struct KernelCounterCache(Mutex<Last>);

impl KernelCounterCache {
    /// Reads all counters of a port through which `passed` has passed, if the last readings do not serve.
    pub(crate) fn read(
        &self,
        (port, doorbells, receive): (&Port, &Doorbells, &ReceivePath),
        passed: Passed,
        freshness: Freshness,
    ) -> KernelCounters {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = clock::now();
        if let Freshness::Recent(rest) = freshness
            && last.serves(&passed, now, rest)
        {
            return last.counters;
        }
        last.made(passed, now);
        let KernelCounters { drops, bpf, guard, redirected, deliveries, failed } = &mut last.counters;
        take(failed, drops, port.drops().map(|drops| without_bypassing(drops, port, doorbells)));
        take(failed, bpf, doorbells.run_stats());
        take(failed, guard, doorbells.guard_stats());
        let delivered = port.deliveries();
        // A deleted device takes its counter with it: what was redirected since the last reading has no other side.
        if delivered.is_ok() {
            take(failed, redirected, receive.redirected());
        }
        take(failed, deliveries, delivered);
        last.counters
    }
}

/// The last reading of the uplink's device: the packets that it counts as arrived and as dropped, and the number of
/// failed readings.
#[derive(Debug)]
pub(crate) struct UplinkCounterCache(Mutex<((Counted, u64), u64)>);

impl UplinkCounterCache {
    /// Starts with the baseline `before`.
    pub(crate) fn new(before: Counted) -> Self {
        Self(Mutex::new(((before, 0), 0)))
    }

    /// Reads the counters.
    pub(crate) fn read(&self, uplink: &Uplink) -> ((Counted, u64), u64) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (arrived, failed) = &mut *last;
        take(failed, arrived, uplink.arrived());
        *last
    }
}

/// A TAP counts the packets that its guard dropped as dropped at a ring; they have a separate counter.
fn without_bypassing(drops: PortDrops, port: &Port, doorbells: &Doorbells) -> PortDrops {
    let unannounced = doorbells.guard().unannounced.load(Ordering::Relaxed);
    let dropped = if port.tap_queue().is_some() { unannounced } else { 0 };
    PortDrops { ring_full: drops.ring_full.saturating_sub(dropped), ..drops }
}

fn take<T, E>(failed: &mut u64, last: &mut T, reading: Result<T, E>) {
    match reading {
        Ok(value) => *last = value,
        Err(_) => *failed += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_serve_again_only_for_a_port_at_rest_and_for_a_second() {
        let (mut last, at) = (Last::default(), |ms: u64| Instant::ZERO + Nanos::from_millis(ms));
        let rest = rest_of(4);
        assert!(!last.serves(&[0; 4], at(0), rest), "none was made");
        last.made([0; 4], at(0));
        assert!(!last.serves(&[0; 4], at(100), rest), "one reading does not show rest");
        last.made([0; 4], at(100));
        assert!(last.serves(&[0; 4], at(200), rest) && !last.serves(&[0, 1, 0, 0], at(200), rest));
        assert!(!last.serves(&[0; 4], at(1100), rest), "old");
        last.made([0, 1, 0, 0], at(300));
        assert!(!last.serves(&[0, 1, 0, 0], at(400), rest), "just passed");
    }

    #[test]
    fn sixteen_ports_at_rest_are_read_a_second_however_many_there_are() {
        assert_eq!([0, 1, 16].map(rest_of), [REST; 3]);
        assert_eq!([64, 1024].map(rest_of), [4, 64].map(Nanos::from_secs));
        let mut last = Last::default();
        let at = |ms: u64| Instant::ZERO + Nanos::from_millis(ms);
        last.made([0; 4], at(0));
        last.made([0; 4], at(100));
        assert!(last.serves(&[0; 4], at(4099), rest_of(64)) && !last.serves(&[0; 4], at(4100), rest_of(64)));
        assert!(!last.serves(&[0, 0, 0, 1], at(200), rest_of(64)), "a packet makes them old at once");
    }

    #[test]
    fn a_reading_that_fails_leaves_the_last_and_is_counted() {
        let (mut failed, mut last) = (0, 5);
        take(&mut failed, &mut last, Err("gone"));
        assert_eq!((failed, last), (1, 5));
        take::<_, ()>(&mut failed, &mut last, Ok(7));
        assert_eq!((failed, last), (1, 7));
    }
}
