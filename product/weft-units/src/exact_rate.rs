//! Transmission times without rounding errors: the fraction of a nanosecond left by one packet is added to the next.

use crate::{BitsPerSec, Bytes, Nanos};

/// Bits per byte times nanoseconds per second. Bytes times this, divided by bits per second, is nanoseconds.
pub const BIT_NANOS_PER_BYTE: u64 = 8 * 1_000_000_000;

/// A rate, with the carried fraction of a nanosecond. The k-th packet of a busy period ends at the rounded sum of k exact times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ExactRate {
    /// At least 1.
    rate: u64,
    /// In units of 1/rate nanoseconds; less than `rate`.
    carry: u64,
}

/// The time of a length at a rate, divided once: most packets are as long as the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Divided {
    whole: Nanos,
    /// In units of 1/rate nanoseconds; less than the rate.
    rest: u64,
}

impl ExactRate {
    /// A rate without a carried fraction; `None` for a rate of zero, at which no transmission would end.
    pub const fn new(rate: BitsPerSec) -> Option<Self> {
        if rate.0 == 0 { None } else { Some(Self { rate: rate.0, carry: 0 }) }
    }

    /// A rate without a carried fraction; a rate of zero becomes one bit per second.
    pub const fn at_least_one(rate: BitsPerSec) -> Self {
        Self { rate: if rate.0 == 0 { 1 } else { rate.0 }, carry: 0 }
    }

    /// The rate.
    #[inline]
    pub const fn rate(&self) -> BitsPerSec {
        BitsPerSec(self.rate)
    }

    /// Discards the fraction: the next packet starts a new busy period.
    #[inline]
    pub const fn restart(&mut self) {
        self.carry = 0;
    }

    /// The whole nanoseconds that `bytes` take, including the carried fraction; carries the remainder. `Nanos::MAX` on overflow.
    #[inline]
    pub fn take(&mut self, bytes: Bytes) -> Nanos {
        match bytes.0.checked_mul(BIT_NANOS_PER_BYTE).and_then(|work| work.checked_add(self.carry)) {
            // 64 bits suffice for frames of up to two gigabytes; a 128-bit division takes several times as long.
            Some(work) => {
                self.carry = work % self.rate;
                Nanos(work / self.rate)
            }
            None => self.take_wide(bytes),
        }
    }

    /// The time of `bytes` for [`Self::take_divided`], at this rate only; `None` on overflow.
    pub const fn divide(&self, bytes: Bytes) -> Option<Divided> {
        match bytes.0.checked_mul(BIT_NANOS_PER_BYTE) {
            Some(work) => Some(Divided { whole: Nanos(work / self.rate), rest: work % self.rate }),
            None => None,
        }
    }

    /// As [`Self::take`], without a division.
    #[inline]
    pub fn take_divided(&mut self, Divided { whole, rest }: Divided) -> Nanos {
        let missing = self.rate - rest;
        if self.carry >= missing {
            self.carry -= missing;
            whole + Nanos(1)
        } else {
            self.carry += rest;
            whole
        }
    }

    /// Changes the rate. Returns the whole nanoseconds at `rate` for the bytes that take `span` and the carried fraction at the
    /// present rate, and carries the remainder, so that no bit is lost. A rate of zero becomes one bit per second; `Nanos::MAX` on
    /// overflow.
    pub fn change(&mut self, rate: BitsPerSec, span: Nanos) -> Nanos {
        let work = u128::from(span.0) * u128::from(self.rate) + u128::from(self.carry);
        *self = Self::at_least_one(rate);
        let rate = u128::from(self.rate);
        self.carry = u64::try_from(work % rate).unwrap_or(0);
        Nanos(u64::try_from(work / rate).unwrap_or(u64::MAX))
    }

    #[cold]
    fn take_wide(&mut self, bytes: Bytes) -> Nanos {
        let work = u128::from(bytes.0) * u128::from(BIT_NANOS_PER_BYTE) + u128::from(self.carry);
        let rate = u128::from(self.rate);
        self.carry = u64::try_from(work % rate).unwrap_or(0);
        Nanos(u64::try_from(work / rate).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_rate_loses_no_bit() {
        let mut rate = ExactRate::at_least_one(BitsPerSec(562_000_000));
        let span = rate.take(Bytes(4910));
        assert_eq!(rate.change(BitsPerSec(161_000_000), span), Nanos(4910 * 8_000_000_000 / 161_000_000));
        assert_eq!(rate.change(BitsPerSec(8_000_000_000), Nanos(243_975)), Nanos(4910));
        assert_eq!(rate, ExactRate::at_least_one(BitsPerSec(8_000_000_000)));
        assert_eq!(rate.change(BitsPerSec(0), Nanos::MAX), Nanos::MAX);
    }

    /// Within a busy period the k-th frame ends at the rounded sum, also beyond 64 bits.
    #[test]
    fn fractions_add_up_in_both_widths() {
        for (rate, length) in [(3_000_000_000, 1), (7, 11), (100_000_000_007, 1538), (u64::MAX, 1 << 40)] {
            let mut exact = ExactRate::new(BitsPerSec(rate)).expect("a rate");
            let mut end = 0_u128;
            for k in 1..=1000_u128 {
                let divided = exact.divide(Bytes(length)).filter(|_| k % 3 > 0);
                let time = match divided {
                    Some(divided) => exact.take_divided(divided),
                    None => exact.take(Bytes(length)),
                };
                end += u128::from(time.0);
                assert_eq!(end, k * u128::from(length) * 8_000_000_000 / u128::from(rate));
            }
        }
    }

    #[test]
    fn a_restart_forgets_the_fraction_and_a_rate_of_zero_is_refused() {
        let mut exact = ExactRate::new(BitsPerSec(3_000_000_000)).expect("a rate");
        assert_eq!(exact.take(Bytes(1)), Nanos(2));
        exact.restart();
        assert_eq!(exact.take(Bytes(1)), Nanos(2), "2.67 ns and nothing carried");
        assert_eq!(exact.take(Bytes(1)), Nanos(3));
        assert_eq!(ExactRate::new(BitsPerSec::ZERO), None);
        let mut slow = ExactRate::new(BitsPerSec(1)).expect("a rate");
        assert_eq!(slow.take(Bytes(u64::MAX)), Nanos::MAX);
    }
}
