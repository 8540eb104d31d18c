//! Rate limits: the generic cell rate algorithm (ITU-T I.371), exact.
//!
//! A limit keeps its theoretical arrival time (TAT): the time at which the bytes sent so far would have ended at the
//! limit's rate.
//! * Check: a packet may leave when `TAT - burst / rate <= now`.
//! * Charge: after a packet was sent, `TAT = max(TAT, now) + bytes * 8e9 / rate`.
//!
//! The division's fraction of a nanosecond is kept as a numerator over the rate, so the rate does not drift.
//! Comparisons drop the fraction, so a packet may leave less than one nanosecond early, never late.
//!
//! Unused time earns at most the burst. A caller that arrives later than the release time forfeits the difference
//! unless the burst covers it.
//!
//! A limit is owned by the tree and shared by its lanes; it has no queue. Sums saturate at the largest time,
//! so an extreme charge delays its lanes for ever instead of wrapping. No branch here drops or refuses a packet, so
//! none has a counter.

use weft_units::{BitsPerSec, Bytes, ExactRate, Instant, Nanos};

/// The rate of a lent limit: a byte takes a second, which no lease lasts.
const LENT: BitsPerSec = BitsPerSec(8);

/// The state of one rate limit: 48 bytes, in a separate cache line. A charge touches all of them, a check only the first 8.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Limit {
    /// The earliest time at which a packet may leave: `tat - burst_time`.
    release: Instant,
    /// Theoretical arrival time, without its fraction.
    tat: Instant,
    /// The rate, with the fraction of `tat`.
    exact: ExactRate,
    /// The duration of the burst at the rate.
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

    /// The earliest time at which a packet may leave.
    #[inline]
    pub(crate) fn release(&self) -> Instant {
        self.release
    }

    pub(crate) fn rate(&self) -> BitsPerSec {
        self.exact.rate()
    }

    /// Charges `bytes` sent at `now`.
    #[inline]
    pub(crate) fn charge(&mut self, bytes: Bytes, now: Instant) {
        if self.tat < now {
            self.tat = now;
            self.exact.restart();
        }
        self.tat += self.exact.take(bytes);
        self.release = self.tat.saturating_sub(self.burst_time);
    }

    /// Changes the rate at `now`. The debt stays the same to the bit, so lanes do not wait out the time of a rate that
    /// was far too low by mistake.
    pub(crate) fn set_rate(&mut self, rate: BitsPerSec, now: Instant) {
        if self.tat < now {
            self.exact = ExactRate::at_least_one(rate);
        } else {
            self.tat = now + self.exact.change(rate, self.tat.saturating_since(now));
        }
        self.burst_time = self.rate().time_for(self.burst);
        self.release = self.tat.saturating_sub(self.burst_time);
    }

    /// Takes over the debt of `old` at `now`: as it is under an equal rate, else as [`Self::set_rate`] does.
    pub(crate) fn carry(&mut self, old: &Self, now: Instant) {
        let rate = self.rate();
        (self.tat, self.exact) = (old.tat, old.exact);
        if rate != old.rate() {
            self.set_rate(rate, now);
        }
        self.release = self.tat.saturating_sub(self.burst_time);
    }

    /// Lets packets leave, from `now` on, while at most `allowance` bytes were charged since; without one, none. The arithmetic is
    /// the same as ever, for a bucket that is as good as not refilled: at [`LENT`] a byte takes a second.
    pub(crate) fn lend(&mut self, allowance: Option<Bytes>, now: Instant) {
        self.exact = ExactRate::at_least_one(LENT);
        (self.tat, self.burst_time) = match allowance {
            Some(bytes) => (now, LENT.time_for(bytes)),
            None => (Instant::MAX, Nanos::ZERO),
        };
        self.release = self.tat.saturating_sub(self.burst_time);
    }

    /// The bytes charged since a loan that was made at `since`, if that is less than a second ago; else more.
    pub(crate) fn spent(&self, since: Instant) -> Bytes {
        Bytes(self.tat.saturating_since(since).get() / LENT.time_for(Bytes(1)).get())
    }

    /// Ends lending at `now`: a limit of this rate and burst, none of which has been earned yet.
    pub(crate) fn end_lending(&mut self, rate: BitsPerSec, burst: Bytes, now: Instant) {
        *self = Self::new(rate, burst);
        self.tat = now + self.burst_time;
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
        // Three packets fill the burst exactly; the fourth is allowed because the limit owes nothing beyond the burst
        // yet.
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
    fn a_lent_limit_counts_bytes_whatever_the_time() {
        let mut limit = Limit::new(BitsPerSec(1_000_000_000), Bytes(3000));
        limit.lend(None, Instant::from_secs(1));
        assert_eq!(limit.release(), Instant::MAX);
        let now = Instant::from_secs(2);
        limit.lend(Some(Bytes(3000)), now);
        let mut sent = 0;
        while limit.release() <= now + Nanos(sent) {
            assert_eq!(limit.spent(now), Bytes(sent));
            limit.charge(Bytes(1500), now + Nanos(sent));
            sent += 1500;
        }
        // The third begins when 3000 bytes were sent, which is not more than the allowance.
        assert_eq!((sent, limit.spent(now)), (4500, Bytes(4500)));
        limit.end_lending(BitsPerSec(8_000_000_000), Bytes(3000), now);
        assert_eq!((limit.release(), limit.rate()), (now, BitsPerSec(8_000_000_000)));
        assert!(limit.is_valid());
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
