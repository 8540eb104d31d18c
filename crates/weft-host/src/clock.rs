//! The host's clock. The crates on lower floors take time as an argument.

use std::num::NonZeroU64;

use rustix::time::{ClockId, clock_gettime};
use weft_units::Instant;

use crate::error::OsError;

/// The monotonic clock, which `bpf_ktime_get_ns` reads too.
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
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
    fn time_goes_on_and_the_slack_is_set_for_this_thread() {
        let before = now();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(now() - before >= Nanos::from_millis(2));
        set_timer_slack().expect("slack");
        assert_eq!(rustix::thread::current_timer_slack(), Ok(1));
    }
}
