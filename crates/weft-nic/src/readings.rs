//! The kernel's counters of the NIC's devices and program, as they were read last.

use crate::counters::Count;
use crate::doorbell::Doorbells;
use crate::port::{Port, PortDrops, Uplink};
use std::sync::{Mutex, PoisonError};
use weft_host::bpf::RunStats;

/// Readings of the kernel's counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Readings {
    /// Dropped between the port's egress and its rings.
    pub(crate) drops: PortDrops,
    /// What the uplink's device counts as arrived and as dropped.
    pub(crate) arrived: (Count, u64),
    /// Cost of the program at the egress.
    pub(crate) bpf: RunStats,
    /// Cost of the program at the port's far end.
    pub(crate) guard: RunStats,
    /// Readings that failed so far.
    pub(crate) failed: u64,
}

/// The readings of a NIC. One that fails leaves the last in place: a counter that cannot be read is no reason to stop
/// carrying packets.
#[derive(Debug)]
pub(crate) struct LastReadings(Mutex<Readings>);

impl LastReadings {
    /// None but what the uplink's device counted `before`.
    pub(crate) fn new(before: Count) -> Self {
        Self(Mutex::new(Readings { arrived: (before, 0), ..Readings::default() }))
    }

    /// Reads all.
    pub(crate) fn read(&self, port: &Port, uplink: &Uplink, doorbells: &Doorbells) -> Readings {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Readings { drops, arrived, bpf, guard, failed } = &mut *last;
        take(failed, drops, port.drops());
        take(failed, arrived, uplink.arrived());
        take(failed, bpf, doorbells.run_stats());
        take(failed, guard, doorbells.guard_stats());
        *last
    }
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
