//! The expiry of flows from the flow tables of all ports, in its own thread, so that no flood of packets in either
//! direction delays it. A port without tracked flows costs a sum over its lanes.

use crate::doorbell::{NicMaps, end_hashing};
use core::time::Duration;
use weft_host::clock;
use weft_units::Nanos;

/// The interval of expiry passes.
const EVERY: Nanos = Nanos::from_secs(1);
/// The maximum delay of a stop.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs expiry passes until `stop` returns true.
pub(crate) fn run(maps: &NicMaps, stop: impl Fn() -> bool) {
    let mut next = clock::now() + EVERY;
    while !stop() {
        std::thread::sleep(PAUSE);
        let now = clock::now();
        if now >= next {
            for port in maps.ports() {
                if port.flows() > 0 {
                    // A pass rejected by the kernel is retried with the next.
                    let _ = port.flow_table().and_then(|table| table.expire(now));
                }
                end_hashing(port.shared(), &port.lanes(), now);
            }
            next = now + EVERY;
        }
    }
}
