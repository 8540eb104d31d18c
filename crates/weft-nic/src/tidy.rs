//! The flow table's housekeeping, in a thread of its own: no flood of packets in either direction keeps it from running.

use crate::doorbell::{Doorbells, FlowTable, LaneEntry, end_hashing};
use core::time::Duration;
use weft_host::clock;
use weft_units::Nanos;

/// How often the table is looked through.
const EVERY: Nanos = Nanos::from_secs(1);
/// How soon a stop is noticed.
const PAUSE: Duration = Duration::from_millis(20);

/// Tidies until `stop` says so.
pub(crate) fn run(doorbells: &Doorbells, table: &FlowTable, lanes: &[LaneEntry], stop: impl Fn() -> bool) {
    let mut next = clock::now() + EVERY;
    while !stop() {
        std::thread::sleep(PAUSE);
        let now = clock::now();
        if now >= next {
            // A walk that the kernel refused is tried again with the next.
            let _ = table.expire(now);
            end_hashing(doorbells.shared(), lanes, now);
            next = now + EVERY;
        }
    }
}
