//! The link's clock: the time up to which the emulated link is busy.
//!
//! The engine's time is the time on the wire, not the wall clock. A packet departs when the link has sent it. The clock
//! advances in three ways:
//! 1. [`Link::send`] adds the transmission time of a chunk, exact to the fraction of a nanosecond.
//! 2. [`Link::idle_until`] skips time in which no packet could be sent.
//! 3. [`Link::follow`] skips time that exceeds the catch-up.
//!
//! If the worker did not run while packets waited, the clock lags behind the wall clock. The worker then sends without
//! pause until both are level again, so limits and shares stay exact in the link's time. A lag beyond the catch-up is
//! lost link time. It is counted ([`Link::lost`], reported as `link_lost`).
//!
//! A link without a configured rate ([`Link::observed`]) is free whenever the device below has room: its clock follows
//! the wall clock, and nothing is ever lost.
//!
//! The clock belongs to the transmit worker. It never decreases. It is ahead of the wall clock by at most one chunk,
//! and then the link is busy. Above a device, urgent classes may overdraw it (`worker/urgency.rs` has the bound).

use weft_units::{BitsPerSec, Bytes, ExactRate, Instant, Nanos};

/// The delay that the queue below the NIC may add to an urgent packet, on links fast enough that chunks are short.
const BELOW: Nanos = Nanos::from_micros(200);
/// The longest chunk in link time while an urgent class is active, unless configured: at most this is added to the
/// wait of a class that may not overdraw. At 500 Mb/s and above, a super-packet takes less.
pub const PIECE: Nanos = Nanos::from_millis(1);
/// The size of a whole super-packet in bytes.
pub(crate) const WHOLE: u64 = 65_536;

/// The bound of the queue below the NIC, in bytes of kernel memory, for chunks of at most `piece` bytes at `rate`. Two
/// chunks, so that the device below never runs dry between them, and no more, since a packet of the top class waits
/// behind all of them. On a fast link two chunks take less time than the worker needs to respond: there the bound is
/// the bytes of 200 us, up to two whole super-packets. Measured with chunks of 12 KB at 300 Mb/s above a queue: a
/// median wait of 0.44 ms with two chunks, and of 3.7 ms with the kernel's default.
pub fn queue_below(rate: BitsPerSec, piece: Bytes) -> Bytes {
    let piece = piece.get().min(WHOLE);
    Bytes(rate.bytes_in(BELOW).get().clamp(2 * piece, 2 * WHOLE))
}

/// The link below the worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkKind {
    /// A link that exists only as a clock of the given rate: nothing leaves before the link is free, in chunks of a
    /// fixed number of segments. For the demo and the experiments.
    Emulated,
    /// A device, which sends at its own pace.
    Device(DeviceLink),
}

/// The treatment of an uplink's device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceLink {
    /// The source of the rate.
    pub rate: LinkRate,
    /// The longest chunk in link time while another class has a better claim; `None` for the default.
    pub piece: Option<Nanos>,
}

/// The source of a link's rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LinkRate {
    /// The rate of the configuration: a limit that the device can keep.
    Given,
    /// No limit but the back-pressure of the device.
    Observed,
}

/// A link of a fixed rate.
#[derive(Clone, Debug)]
pub struct Link {
    /// The rate, with the fraction of a nanosecond missing from `free_at`, which keeps long runs exact. `None`: the
    /// device below alone says when the link is busy.
    exact: Option<ExactRate>,
    catch_up: Nanos,
    /// The link's clock: until then the link has been busy or known to be idle.
    free_at: Instant,
    lost: Nanos,
}

impl Link {
    /// Creates a link that is free from `now` on.
    pub fn new(rate: BitsPerSec, catch_up: Nanos, now: Instant) -> Self {
        let exact = Some(ExactRate::at_least_one(rate));
        Self { exact, catch_up, free_at: now, lost: Nanos::ZERO }
    }

    /// Creates a link without a configured rate: its clock is the wall clock, and packets take no time of it. The device
    /// below says by its back-pressure when it is busy.
    pub fn observed(now: Instant) -> Self {
        Self { exact: None, catch_up: Nanos::ZERO, free_at: now, lost: Nanos::ZERO }
    }

    /// Changes the rate; `None` for a link without a configured one. The clock stays where it is.
    pub fn change(&mut self, rate: Option<BitsPerSec>, catch_up: Nanos) {
        self.exact = rate.map(ExactRate::at_least_one);
        self.catch_up = if rate.is_some() { catch_up } else { Nanos::ZERO };
    }

    /// The link's clock: the engine's "now".
    pub fn now(&self) -> Instant {
        self.free_at
    }

    /// The link time lost because the worker did not run for longer than the catch-up.
    pub fn lost(&self) -> Nanos {
        self.lost
    }

    /// The rate; `None` for a link without a configured rate.
    pub fn rate(&self) -> Option<BitsPerSec> {
        self.exact.map(|exact| exact.rate())
    }

    /// Advances the link's clock to the wall clock less the catch-up, if it is behind. Called before scheduling.
    pub fn follow(&mut self, wall: Instant) {
        let earliest = wall.saturating_sub(self.catch_up);
        if self.free_at < earliest {
            if self.exact.is_some() {
                self.lost += earliest - self.free_at;
            }
            self.free_at = earliest;
        }
    }

    /// Records that no packet could be sent before `until`: the link was idle.
    pub fn idle_until(&mut self, until: Instant) {
        self.free_at = self.free_at.max(until);
    }

    /// The time at which the link will be free, or `None` if it is free at `wall`.
    pub fn busy_until(&self, wall: Instant) -> Option<Instant> {
        (self.free_at > wall).then_some(self.free_at)
    }

    /// Sends `bytes`. Returns the departure: the time of the last bit.
    pub fn send(&mut self, bytes: Bytes) -> Instant {
        if let Some(exact) = self.exact.as_mut() {
            self.free_at += exact.take(bytes);
        }
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
