//! The last readings of the kernel's counters, for the NIC's devices and programs.

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
    /// Packets that the uplink's device counts as arrived and as dropped.
    pub(crate) arrived: (Count, u64),
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

/// The last readings of a NIC. A failed reading keeps the previous one, since an unreadable counter is no reason to
/// stop carrying packets.
#[derive(Debug)]
pub(crate) struct LastReadings(Mutex<Readings>);

impl LastReadings {
    /// Starts without readings, except the baseline `before` of the uplink's device.
    pub(crate) fn new(before: Count) -> Self {
        Self(Mutex::new(Readings { arrived: (before, 0), ..Readings::default() }))
    }

    /// Reads all counters.
    pub(crate) fn read(
        &self,
        port: &Port,
        uplink: &Uplink,
        doorbells: &Doorbells,
        receive: &ReceivePath,
    ) -> Readings {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Readings { drops, arrived, bpf, guard, redirected, deliveries, failed } = &mut *last;
        take(failed, drops, port.drops().map(|drops| without_bypassing(drops, port, doorbells)));
        take(failed, arrived, uplink.arrived());
        take(failed, bpf, doorbells.run_stats());
        take(failed, guard, doorbells.guard_stats());
        take(failed, redirected, receive.redirected());
        take(failed, deliveries, port.deliveries());
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
