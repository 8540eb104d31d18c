//! The host's clock. The crates on lower floors take time as an argument.

use std::num::NonZeroU64;

use rustix::time::{ClockId, clock_gettime};
use weft_units::Instant;

use crate::error::OsError;

/// The monotonic clock, which `bpf_ktime_get_ns` reads too, unless [`offset`] says otherwise.
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// The seconds from the kernel's monotonic clock, which eBPF programs read, to that of this process's time namespace:
/// time_namespaces(7). 0 outside of one, and where the kernel has none.
pub fn offset() -> f64 {
    let text = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    text.lines().find_map(monotonic).unwrap_or(0.0)
}

/// The offset of a line `monotonic SECONDS NANOSECONDS`.
fn monotonic(line: &str) -> Option<f64> {
    let mut words = line.split_whitespace();
    // CLOCK_MONOTONIC is named or numbered, by the kernel's version.
    words.next().filter(|clock| ["monotonic", "1"].contains(clock))?;
    let (seconds, nanos): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    Some(seconds + nanos / 1e9)
}

/// Limits the delay of the calling thread's timers to 1 ns. The kernel's default of 50 us coalesces wake-ups. Threads that it
/// starts later inherit the setting.
pub fn set_timer_slack() -> Result<(), OsError> {
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))
        .map_err(|e| OsError::new("set the timer slack of this thread to 1 ns", e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Nanos;

    #[test]
    fn an_offset_is_that_of_the_monotonic_clock() {
        let offsets = |text: &str| text.lines().find_map(monotonic);
        assert_eq!(offsets("monotonic           0         0\nboottime     500         0\n"), Some(0.0));
        assert_eq!(offsets("boottime     500         0\nmonotonic   -86400 500000000\n"), Some(-86399.5));
        assert_eq!(offsets(""), None);
    }

    #[test]
    fn time_goes_on_and_the_slack_is_set_for_this_thread() {
        let before = now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(now() - before >= Nanos::from_millis(2));
        set_timer_slack().expect("slack");
        assert_eq!(rustix::thread::current_timer_slack(), Ok(1));
    }
}
