//! The link's own clock.
//!
//! The engine's time is the time on the wire, not on the wall: a packet's departure is when the link has sent it. When the
//! worker was kept from running while packets waited, the link's clock lags, and the worker catches up by sending without
//! pause until it is level again; limits and shares are then exact in the link's time. What lies further back than the
//! catch-up is lost link time and is counted.

use weft_units::{BitsPerSec, Bytes, Nanos};

/// A link of a certain rate.
#[derive(Clone, Debug)]
pub struct Link {
    rate: BitsPerSec,
    catch_up: Nanos,
    /// The link's clock: everything up to here is either sent or known to have been idle.
    free_at: Nanos,
    /// Fraction of a nanosecond that `free_at` is behind, in units of 1/rate: keeps long runs exact.
    remainder: u64,
    lost: Nanos,
}

impl Link {
    /// A link that is free from `now` on.
    pub fn new(rate: BitsPerSec, catch_up: Nanos, now: Nanos) -> Self {
        Self { rate, catch_up, free_at: now, remainder: 0, lost: Nanos::ZERO }
    }

    /// The link's clock: the engine's "now".
    pub fn now(&self) -> Nanos {
        self.free_at
    }

    /// Link time that was lost because the worker did not run for longer than the catch-up.
    pub fn lost(&self) -> Nanos {
        self.lost
    }

    /// The rate.
    pub fn rate(&self) -> BitsPerSec {
        self.rate
    }

    /// Lets the link's clock follow the wall clock as far as the catch-up demands. Call before scheduling.
    pub fn follow(&mut self, wall: Nanos) {
        let earliest = wall.saturating_sub(self.catch_up);
        if self.free_at < earliest {
            self.lost += earliest - self.free_at;
            self.free_at = earliest;
        }
    }

    /// Nothing could be sent before `until`: the link was idle.
    pub fn idle_until(&mut self, until: Nanos) {
        self.free_at = self.free_at.max(until);
    }

    /// Whether the link is free at `wall`; otherwise when it will be.
    pub fn busy_until(&self, wall: Nanos) -> Option<Nanos> {
        (self.free_at > wall).then_some(self.free_at)
    }

    /// Puts `bytes` on the wire. Returns the departure: when the last bit is sent.
    pub fn send(&mut self, bytes: Bytes) -> Nanos {
        let bits = u128::from(bytes.get()) * 8 * 1_000_000_000 + u128::from(self.remainder);
        let rate = u128::from(self.rate.get().max(1));
        self.free_at += Nanos((bits / rate) as u64);
        self.remainder = (bits % rate) as u64;
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_frames_takes_a_second() {
        let mut link = Link::new(BitsPerSec(500_000_000), Nanos::from_millis(50), Nanos::ZERO);
        let mut sent = 0;
        while link.now() < Nanos::from_secs(1) {
            link.send(Bytes(1538));
            sent += 1;
        }
        // 500e6 / 8 / 1538 = 40637.2 frames
        assert_eq!(sent, 40_638);
    }

    #[test]
    fn a_stall_is_repaid_up_to_the_catch_up() {
        let mut link = Link::new(BitsPerSec(1_000_000_000), Nanos::from_millis(50), Nanos::ZERO);
        link.follow(Nanos::from_millis(30));
        assert_eq!(link.now(), Nanos::ZERO, "30 ms behind: still to be sent");
        link.follow(Nanos::from_millis(80));
        assert_eq!(link.now(), Nanos::from_millis(30));
        assert_eq!(link.lost(), Nanos::from_millis(30), "beyond 50 ms it is lost, and said so");
    }

    #[test]
    fn idle_time_is_not_banked() {
        let mut link = Link::new(BitsPerSec(1_000_000_000), Nanos::from_millis(50), Nanos::ZERO);
        link.idle_until(Nanos::from_millis(20));
        assert_eq!(link.busy_until(Nanos::from_millis(20)), None);
        link.send(Bytes(1250));
        assert_eq!(link.busy_until(Nanos::from_millis(20)), Some(Nanos(20_010_000)));
    }
}
