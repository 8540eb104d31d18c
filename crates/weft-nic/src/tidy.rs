//! The expiry of flows from the flow table, in its own thread, so that no flood of packets in either direction delays
//! it.

use crate::doorbell::{Doorbells, FlowTable, LaneEntry, end_hashing};
use core::time::Duration;
use weft_host::clock;
use weft_units::Nanos;

/// The interval of expiry passes.
const EVERY: Nanos = Nanos::from_secs(1);
/// The maximum delay of a stop.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs expiry passes until `stop` returns true.
pub(crate) fn run(doorbells: &Doorbells, table: &FlowTable, lanes: &[LaneEntry], stop: impl Fn() -> bool) {
    let mut next = clock::now() + EVERY;
    while !stop() {
        std::thread::sleep(PAUSE);
        let now = clock::now();
        if now >= next {
            // A pass rejected by the kernel is retried with the next.
            let _ = table.expire(now);
            end_hashing(doorbells.shared(), lanes, now);
            next = now + EVERY;
        }
    }
}
