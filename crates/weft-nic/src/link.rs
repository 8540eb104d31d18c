//! The link's own clock.
//!
//! The engine's time is the time on the wire, not on the wall: a packet's departure is when the link has sent it. When the
//! worker was kept from running while packets waited, the link's clock lags, and the worker catches up by sending without
//! pause until it is level again; limits and shares are then exact in the link's time. What lies further back than the
//! catch-up is lost link time and is counted.

use weft_units::{BitsPerSec, Bytes, ExactRate, Instant, Nanos};

/// How long what waits below the NIC may keep an urgent packet waiting, where the rate is high enough that pieces do not decide.
const BELOW: Nanos = Nanos::from_micros(200);
/// A super-packet, whole.
pub(crate) const WHOLE: u64 = 65_536;

/// How much may wait below the NIC, in bytes of kernel memory, when chunks of at most `piece` bytes leave at `rate`: two, so
/// that the device below never runs dry between one and the next, and no more, since a packet of the top class waits behind all of
/// it. Two pieces of a fast link are so little time that the worker would be late: there, what leaves in 200 us, up to two
/// whole super-packets (measured with pieces of 12 KB at 300 Mb/s behind a queue: a wait of 0.44 ms in the median with two
/// pieces, of 3.7 ms with the kernel's default).
pub fn queue_below(rate: BitsPerSec, piece: Bytes) -> Bytes {
    let piece = piece.get().min(WHOLE);
    Bytes(rate.bytes_in(BELOW).get().clamp(2 * piece, 2 * WHOLE))
}

/// A link of a certain rate.
#[derive(Clone, Debug)]
pub struct Link {
    /// The rate, and the fraction of a nanosecond that `free_at` is behind: keeps long runs exact.
    exact: ExactRate,
    catch_up: Nanos,
    /// The link's clock: everything up to here is either sent or known to have been idle.
    free_at: Instant,
    lost: Nanos,
}

impl Link {
    /// A link that is free from `now` on.
    pub fn new(rate: BitsPerSec, catch_up: Nanos, now: Instant) -> Self {
        Self { exact: ExactRate::at_least_one(rate), catch_up, free_at: now, lost: Nanos::ZERO }
    }

    /// The link's clock: the engine's "now".
    pub fn now(&self) -> Instant {
        self.free_at
    }

    /// Link time that was lost because the worker did not run for longer than the catch-up.
    pub fn lost(&self) -> Nanos {
        self.lost
    }

    /// The rate.
    pub fn rate(&self) -> BitsPerSec {
        self.exact.rate()
    }

    /// Lets the link's clock follow the wall clock as far as the catch-up demands. Call before scheduling.
    pub fn follow(&mut self, wall: Instant) {
        let earliest = wall.saturating_sub(self.catch_up);
        if self.free_at < earliest {
            self.lost += earliest - self.free_at;
            self.free_at = earliest;
        }
    }

    /// Nothing could be sent before `until`: the link was idle.
    pub fn idle_until(&mut self, until: Instant) {
        self.free_at = self.free_at.max(until);
    }

    /// Whether the link is free at `wall`; otherwise when it will be.
    pub fn busy_until(&self, wall: Instant) -> Option<Instant> {
        (self.free_at > wall).then_some(self.free_at)
    }

    /// Puts `bytes` on the wire. Returns the departure: when the last bit is sent.
    pub fn send(&mut self, bytes: Bytes) -> Instant {
        self.free_at += self.exact.take(bytes);
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_pieces_wait_below_and_on_a_fast_link_more() {
        let at = |megabits: u64, piece| queue_below(BitsPerSec(megabits * 1_000_000), Bytes(piece)).get();
        assert_eq!(at(300, 12_112), 24_224);
        assert_eq!(at(1000, 12_112), 25_000);
        assert_eq!(at(3000, 12_112), 75_000);
        assert_eq!(at(20_000, 12_112), 131_072, "two super-packets");
        assert_eq!(at(300, 72_112), 131_072, "a chunk is never more than a super-packet");
    }

    #[test]
    fn a_second_of_frames_takes_a_second() {
        let mut link = Link::new(BitsPerSec(500_000_000), Nanos::from_millis(50), Instant::ZERO);
        let mut sent = 0;
        while link.now() < Instant::from_secs(1) {
            link.send(Bytes(1538));
            sent += 1;
        }
        // 500e6 / 8 / 1538 = 40637.2 frames
        assert_eq!(sent, 40_638);
    }

    #[test]
    fn a_stall_is_repaid_up_to_the_catch_up() {
        let mut link = Link::new(BitsPerSec(1_000_000_000), Nanos::from_millis(50), Instant::ZERO);
        link.follow(Instant::from_millis(30));
        assert_eq!(link.now(), Instant::ZERO, "30 ms behind: still to be sent");
        link.follow(Instant::from_millis(80));
        assert_eq!(link.now(), Instant::from_millis(30));
        assert_eq!(link.lost(), Nanos::from_millis(30), "beyond 50 ms it is lost, and said so");
    }

    #[test]
    fn idle_time_is_not_banked() {
        let mut link = Link::new(BitsPerSec(1_000_000_000), Nanos::from_millis(50), Instant::ZERO);
        link.idle_until(Instant::from_millis(20));
        assert_eq!(link.busy_until(Instant::from_millis(20)), None);
        link.send(Bytes(1250));
        assert_eq!(link.busy_until(Instant::from_millis(20)), Some(Instant::from_nanos(20_010_000)));
    }
}
