//! The back-pressure of the uplink's device: the rate that it shows, and the longest chunk that follows from it.
//!
//! A write that finds no room says that the device holds as much as it may. Between two such writes, if the worker had
//! packets all the time, the device sent what was written in between: that is its rate. The worker measures over
//! windows of at least [`WINDOW`], each from one blocked write to another. A moment without packets ends a window, since
//! the device may have run dry.
//!
//! While the device holds packets back, the queue below the NIC is real, and an urgent packet waits behind it. So the
//! chunks are then at most [`PRESSED_PIECE`] of the observed rate. A write is accepted while less than one and a half of
//! them wait ([`Pressure::bound`]), so at most two and a half do: 1 ms of the bottleneck, or 24 KB where that is more
//! ([`PIECE_MIN`]).
//!
//! Rare branches: a window that a pause ended is discarded, and needs no counter, since the next one replaces it. Blocked
//! writes count in `uplink_waits`.

use weft_units::{BitsPerSec, Bytes, Instant, Nanos};

/// The least length of a window of measurement.
const WINDOW: Nanos = Nanos::from_millis(20);
/// The time that the device counts as holding packets back after a blocked write.
const PRESSED: Nanos = Nanos::from_millis(200);
/// The time after which an observed rate is forgotten.
const FORGET: Nanos = Nanos::from_secs(1);
/// The longest chunk for a device that holds packets back, in link time: two fifths of the queue that may wait there.
const PRESSED_PIECE: Nanos = Nanos::from_micros(400);
/// The longest chunk for a slow device: six MTU-size segments. Shorter ones cost more processor time than they give.
pub(crate) const PIECE_MIN: Bytes = Bytes(9600);

/// The measurement.
#[derive(Debug, Default)]
pub(crate) struct Pressure {
    /// The bytes written, on the wire.
    written: Bytes,
    /// The start of the window, and the bytes written until then.
    window: Option<(Instant, Bytes)>,
    observed: Option<BitsPerSec>,
    blocked_at: Option<Instant>,
}

impl Pressure {
    /// Counts a chunk of `wire` bytes.
    pub(crate) fn wrote(&mut self, wire: Bytes) {
        self.written += wire;
    }

    /// The bytes written so far, on the wire.
    pub(crate) fn written(&self) -> Bytes {
        self.written
    }

    /// Records a write that found no room at `now`. Returns true when there is a new observed rate.
    pub(crate) fn blocked(&mut self, now: Instant) -> bool {
        self.blocked_at = Some(now);
        let Some((start, before)) = self.window else {
            self.window = Some((now, self.written));
            return false;
        };
        let span = now.saturating_since(start);
        let sent = self.written.saturating_sub(before);
        // A slow device may send nothing for longer than a window.
        if span < WINDOW || sent == Bytes::ZERO {
            return false;
        }
        self.window = Some((now, self.written));
        let seen = BitsPerSec::from_bytes_over(sent, span).get();
        let mean = self.observed.map_or(seen, |old| old.get() / 2 + seen / 2);
        self.observed = Some(BitsPerSec(mean.max(1)));
        true
    }

    /// Records that there is nothing to send: the device may run dry.
    pub(crate) fn paused(&mut self) {
        self.window = None;
    }

    /// Forgets a rate that was not observed again for long. Returns true when it was forgotten at `now`.
    pub(crate) fn settle(&mut self, now: Instant) -> bool {
        let old = self.blocked_at.is_some_and(|at| now.saturating_since(at) > FORGET);
        if old {
            (self.window, self.blocked_at) = (None, None);
            return self.observed.take().is_some();
        }
        false
    }

    /// The observed rate of the device; `None` while it is not the bottleneck.
    pub(crate) fn observed(&self) -> Option<BitsPerSec> {
        self.observed
    }

    /// Whether the device holds packets back.
    pub(crate) fn is_on(&self, now: Instant) -> bool {
        self.blocked_at.is_some_and(|at| now.saturating_since(at) <= PRESSED)
    }

    /// The longest chunk while the device holds packets back, of at most `most`.
    pub(crate) fn piece(&self, most: Bytes) -> Bytes {
        let of = self.observed.map_or(most, |rate| rate.bytes_in(PRESSED_PIECE).max(PIECE_MIN));
        of.min(most)
    }

    /// The bound of the queue below for such chunks. The kernel compares it before a write, with the chunk not yet counted.
    pub(crate) fn bound(&self, most: Bytes) -> Bytes {
        let piece = self.piece(most).get();
        Bytes(piece + piece / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes at `rate` from one blocked write to the next, every millisecond of `from_ms..to_ms`.
    fn run(pressure: &mut Pressure, rate: BitsPerSec, from_ms: u64, to_ms: u64) {
        for ms in from_ms..to_ms {
            pressure.wrote(rate.bytes_in(Nanos::from_millis(1)));
            pressure.blocked(Instant::from_millis(ms));
        }
    }

    #[test]
    fn a_bottleneck_is_observed_and_followed() {
        let mut pressure = Pressure::default();
        assert_eq!(pressure.observed(), None);
        run(&mut pressure, BitsPerSec(300_000_000), 0, 200);
        let seen = pressure.observed().expect("a rate").get();
        assert!((290_000_000..=310_000_000).contains(&seen), "{seen}");
        let piece = pressure.piece(Bytes(65_536)).get();
        assert!((14_500..=15_500).contains(&piece), "{piece}");
        assert_eq!(pressure.bound(Bytes(65_536)).get(), piece + piece / 2);
        run(&mut pressure, BitsPerSec(50_000_000), 200, 600);
        let seen = pressure.observed().expect("a rate").get();
        assert!((49_000_000..=51_500_000).contains(&seen), "{seen}");
        assert_eq!(pressure.piece(Bytes(65_536)), PIECE_MIN);
        assert!(pressure.is_on(Instant::from_millis(700)) && !pressure.is_on(Instant::from_millis(900)));
        assert!(!pressure.settle(Instant::from_millis(1500)) && pressure.settle(Instant::from_millis(1700)));
        assert_eq!(pressure.observed(), None);
    }

    #[test]
    fn a_device_that_sends_nothing_for_a_while_has_a_rate_still() {
        let mut pressure = Pressure::default();
        // A packet each 47 ms, and an attempt each 20.
        for ms in (0..2000_u64).step_by(20) {
            if ms / 47 != ms.saturating_sub(20) / 47 {
                pressure.wrote(Bytes(1466));
            }
            pressure.blocked(Instant::from_millis(ms));
            let seen = pressure.observed().map_or(250_000, BitsPerSec::get);
            assert!((100_000..=600_000).contains(&seen), "{seen} after {ms} ms");
        }
        assert!(pressure.observed().is_some());
    }

    #[test]
    fn a_pause_is_not_taken_for_a_slow_device() {
        let mut pressure = Pressure::default();
        run(&mut pressure, BitsPerSec(300_000_000), 0, 100);
        pressure.paused();
        run(&mut pressure, BitsPerSec(300_000_000), 600, 700);
        let seen = pressure.observed().expect("a rate").get();
        assert!((290_000_000..=310_000_000).contains(&seen), "{seen}");
    }
}
