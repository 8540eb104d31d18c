//! Rate limits: the generic cell rate algorithm, exact.
//!
//! A limit keeps its theoretical arrival time (TAT), the time at which what has been sent would have ended at the limit's
//! rate. It allows a packet when `TAT - burst / rate <= now` and moves on `TAT = max(TAT, now) + bytes * 8e9 / rate` when
//! one was sent. The fraction of a nanosecond that the division leaves is kept, as a numerator over the rate, so there
//! is no drift at all; comparisons drop it, so a packet may leave less than one nanosecond early, never late. Time that
//! passes unused is worth nothing beyond the burst: a caller that comes later than the time it was told gives the
//! difference away unless the burst covers it.

use weft_units::{BitsPerSec, Bytes, ExactRate, Instant, Nanos};

/// State of one rate limit: 48 bytes, of which a charge touches all and a check only the first 8.
#[derive(Debug)]
pub(crate) struct Limit {
    /// `tat - burst_time`: from when on the limit allows a packet.
    release: Instant,
    /// Theoretical arrival time, without its fraction.
    tat: Instant,
    /// The rate, and the fraction of `tat`.
    exact: ExactRate,
    /// How long the burst lasts at the rate.
    burst_time: Nanos,
    burst: Bytes,
}

impl Limit {
    pub(crate) fn new(rate: BitsPerSec, burst: Bytes) -> Self {
        let burst_time = rate.time_for(burst);
        Self {
            release: Instant::ZERO,
            tat: Instant::ZERO,
            exact: ExactRate::at_least_one(rate),
            burst_time,
            burst,
        }
    }

    /// From when on it allows a packet.
    #[inline]
    pub(crate) fn release(&self) -> Instant {
        self.release
    }

    pub(crate) fn rate(&self) -> BitsPerSec {
        self.exact.rate()
    }

    /// Charges `bytes` that were sent at `now`.
    #[inline]
    pub(crate) fn charge(&mut self, bytes: Bytes, now: Instant) {
        if self.tat < now {
            self.tat = now;
            self.exact.restart();
        }
        self.tat += self.exact.take(bytes);
        self.release = self.tat.saturating_sub(self.burst_time);
    }

    /// Changes the rate at `now`. What is owed stays the same in bytes, so a limit that was set far too low by mistake
    /// does not make its lanes wait for the time that the mistake would have taken.
    pub(crate) fn set_rate(&mut self, rate: BitsPerSec, now: Instant) {
        let owed = u128::from(self.tat.saturating_since(now).get()) * u128::from(self.rate().get());
        self.exact = ExactRate::at_least_one(rate);
        if owed > 0 {
            let owed_nanos = u64::try_from(owed / u128::from(self.rate().get())).unwrap_or(u64::MAX);
            self.tat = now + Nanos(owed_nanos);
        }
        self.burst_time = self.rate().time_for(self.burst);
        self.release = self.tat.saturating_sub(self.burst_time);
    }

    pub(crate) fn is_valid(&self) -> bool {
        self.release == self.tat.saturating_sub(self.burst_time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_drift_over_a_million_packets() {
        for rate in [999_999_937, 1_000_000_007, 39_999_999_979] {
            let mut limit = Limit::new(BitsPerSec(rate), Bytes::ZERO);
            for _ in 0..1_000_000 {
                limit.charge(Bytes(64), limit.release());
                assert!(limit.is_valid());
            }
            let exact = 64_000_000_u128 * 8_000_000_000 / u128::from(rate);
            assert_eq!(u128::from(limit.release().as_nanos()), exact);
        }
    }

    #[test]
    fn idle_time_is_worth_the_burst_and_no_more() {
        let mut limit = Limit::new(BitsPerSec(8_000_000_000), Bytes(3000));
        let now = Instant::from_secs(5);
        let mut sent = 0;
        while limit.release() <= now {
            limit.charge(Bytes(1000), now);
            sent += 1;
        }
        // Three packets fill the burst exactly, and the fourth is allowed because nothing is owed beyond it yet.
        assert_eq!(sent, 4);
    }

    #[test]
    fn retuning_keeps_the_debt_in_bytes() {
        let mut limit = Limit::new(BitsPerSec(8_000), Bytes::ZERO);
        limit.charge(Bytes(1000), Instant::ZERO);
        assert_eq!(limit.release(), Instant::from_secs(1));
        limit.set_rate(BitsPerSec(80_000), Instant::from_millis(500));
        assert_eq!(limit.release(), Instant::from_millis(550));
    }

    #[test]
    fn monstrous_charges_saturate() {
        let mut limit = Limit::new(BitsPerSec(1), Bytes::ZERO);
        limit.charge(Bytes::MAX, Instant::MAX);
        limit.charge(Bytes::MAX, Instant::MAX);
        assert!(limit.is_valid());
        assert_eq!(limit.release(), Instant::MAX);
    }
}
