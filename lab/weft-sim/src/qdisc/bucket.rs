//! Token buckets without rounding.

use weft_units::{BIT_NANOS_PER_BYTE, BitsPerSec, Bytes, Nanos};

/// Units of a bucket's level per byte: bits times nanoseconds per second, so that a refill of rate times time is exact.
const BYTE: i128 = BIT_NANOS_PER_BYTE as i128;

/// The maximum debt, as a time at the bucket's rate: `mbuffer` of `sch_htb`, 60 s.
const LONGEST_DEBT: i128 = 60 * 1_000_000_000;

/// A token bucket whose level may be negative. The kernel counts in nanoseconds at the bucket's rate (`psched_l2t_ns`). This one
/// counts in fractions of a byte, which is the same rule without rounding.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenBucket {
    rate: i128,
    burst: i128,
    level: i128,
    at: Nanos,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub(super) fn new(rate: BitsPerSec, burst: Bytes) -> Self {
        let burst = i128::from(burst.get()) * BYTE;
        Self { rate: rate.get().into(), burst, level: burst, at: Nanos::ZERO }
    }

    fn level(&self, now: Nanos) -> i128 {
        (self.level + self.rate * i128::from(now.saturating_sub(self.at).get())).min(self.burst)
    }

    /// Whether the level is not negative.
    pub(super) fn is_solvent(&self, now: Nanos) -> bool {
        self.level(now) >= 0
    }

    /// Returns the time at which the level is not negative; `now` if it already is not.
    pub(super) fn solvent_at(&self, now: Nanos) -> Nanos {
        self.reaches(0, now)
    }

    /// Returns the time at which the bucket holds `bytes` or is full.
    pub(super) fn holds_at(&self, bytes: Bytes, now: Nanos) -> Nanos {
        self.reaches((i128::from(bytes.get()) * BYTE).min(self.burst), now)
    }

    fn reaches(&self, level: i128, now: Nanos) -> Nanos {
        let missing = level - self.level(now);
        match missing {
            ..=0 => now,
            _ if self.rate == 0 => Nanos::MAX,
            _ => now + Nanos(u64::try_from((missing + self.rate - 1) / self.rate).unwrap_or(u64::MAX)),
        }
    }

    /// Removes `bytes`, into debt if necessary.
    pub(super) fn charge(&mut self, bytes: Bytes, now: Nanos) {
        let floor = 1 - self.rate * LONGEST_DEBT;
        self.level = (self.level(now) - i128::from(bytes.get()) * BYTE).max(floor.min(0));
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_fills_at_its_rate_without_rounding() {
        // 3 b/s: a byte takes 2 2/3 s, three bytes exactly 8 s.
        let mut bucket = TokenBucket::new(BitsPerSec(3), Bytes(1));
        bucket.charge(Bytes(4), Nanos::ZERO);
        assert!(!bucket.is_solvent(Nanos(7_999_999_999)));
        assert_eq!(bucket.solvent_at(Nanos::ZERO), Nanos::from_secs(8));
        assert!(bucket.is_solvent(Nanos::from_secs(8)));
        assert_eq!(bucket.holds_at(Bytes(1), Nanos::ZERO), Nanos(10_666_666_667));
        assert_eq!(bucket.holds_at(Bytes(100), Nanos::ZERO), Nanos(10_666_666_667), "it never holds more");
        bucket.charge(Bytes(1_000_000), Nanos::from_secs(8));
        assert_eq!(bucket.solvent_at(Nanos::from_secs(8)), Nanos::from_secs(68), "debts are at most 60 s");
    }

    #[test]
    fn a_rate_of_zero_never_fills() {
        let mut bucket = TokenBucket::new(BitsPerSec::ZERO, Bytes(10));
        bucket.charge(Bytes(10), Nanos(5));
        assert!(bucket.is_solvent(Nanos(5)));
        assert_eq!(bucket.holds_at(Bytes(1), Nanos(5)), Nanos::MAX);
    }
}
