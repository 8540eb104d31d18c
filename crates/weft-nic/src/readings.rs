//! The last readings of the kernel's counters, for the devices and programs of a port, and for the uplink.

use crate::counters::Count;
use crate::doorbell::Doorbells;
use crate::port::{Deliveries, Port, PortDrops, Uplink};
use crate::redirect::ReceivePath;
use crate::sync::Ordering;
use std::sync::{Mutex, PoisonError};
use weft_host::bpf::RunStats;

/// Readings of the kernel's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readings {
    /// Packets dropped between the port's egress and its rings.
    pub(crate) drops: PortDrops,
    /// The run-time cost of the program at the egress.
    pub(crate) bpf: RunStats,
    /// The run-time cost of the program at the port's far end.
    pub(crate) guard: RunStats,
    /// Packets redirected to the port.
    pub(crate) redirected: Count,
    /// Packets delivered to the port, and those dropped before it.
    pub(crate) deliveries: Deliveries,
    /// The number of failed readings.
    pub(crate) failed: u64,
}

/// The last readings of a port. A failed reading keeps the previous one, since an unreadable counter is no reason to
/// stop carrying packets.
#[derive(Debug, Default)]
pub(crate) struct LastReadings(Mutex<Readings>);

impl LastReadings {
    /// Reads all counters.
    pub(crate) fn read(&self, port: &Port, doorbells: &Doorbells, receive: &ReceivePath) -> Readings {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Readings { drops, bpf, guard, redirected, deliveries, failed } = &mut *last;
        take(failed, drops, port.drops().map(|drops| without_bypassing(drops, port, doorbells)));
        take(failed, bpf, doorbells.run_stats());
        take(failed, guard, doorbells.guard_stats());
        let delivered = port.deliveries();
        // A deleted device takes its counter with it: what was redirected since the last reading has no other side.
        if delivered.is_ok() {
            take(failed, redirected, receive.redirected());
        }
        take(failed, deliveries, delivered);
        *last
    }
}

/// The last reading of the uplink's device: the packets that it counts as arrived and as dropped, and the number of
/// failed readings.
#[derive(Debug)]
pub(crate) struct UplinkReadings(Mutex<((Count, u64), u64)>);

impl UplinkReadings {
    /// Starts with the baseline `before`.
    pub(crate) fn new(before: Count) -> Self {
        Self(Mutex::new(((before, 0), 0)))
    }

    /// Reads the counters.
    pub(crate) fn read(&self, uplink: &Uplink) -> ((Count, u64), u64) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (arrived, failed) = &mut *last;
        take(failed, arrived, uplink.arrived());
        *last
    }
}

/// A TAP counts the packets that its guard dropped as dropped at a ring; they have a counter of their own.
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
    fn a_reading_that_fails_leaves_the_last_and_is_counted() {
        let (mut failed, mut last) = (0, 5);
        take(&mut failed, &mut last, Err("gone"));
        assert_eq!((failed, last), (1, 5));
        take::<_, ()>(&mut failed, &mut last, Ok(7));
        assert_eq!((failed, last), (1, 7));
    }
}
