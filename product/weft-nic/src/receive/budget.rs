//! The service rate of a receive queue: a token bucket of packets per second, exact over any time.

use core::num::NonZeroU32;
use weft_units::Instant;

/// Nanoseconds in a second.
const SECOND: u128 = 1_000_000_000;

/// The service capacity of a receive queue's processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// Packets a second.
    pub packets_per_s: NonZeroU32,
    /// Packets that may be served at once after a pause, as in one pass of a polling loop.
    pub burst: NonZeroU32,
}

/// A token bucket over packets.
///
/// The state is the time at which the bucket would be full, in units of 1/rate nanoseconds, so nothing is rounded. Over
/// any span it allows at most `burst + rate * span` packets, and under constant load at least `rate * span`.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    /// The scaled time per token: a second.
    rate: u128,
    /// The scaled time to fill the bucket.
    depth: u128,
    /// The scaled time at which the bucket is full.
    full_at: u128,
}

impl TokenBucket {
    /// Creates a bucket that is full at `now`.
    pub fn new(budget: Budget, now: Instant) -> Self {
        let rate = u128::from(budget.packets_per_s.get());
        let depth = u128::from(budget.burst.get()) * SECOND;
        Self { rate, depth, full_at: u128::from(now.as_nanos()) * rate }
    }

    /// Takes a token, if one is available at `now`.
    pub fn take(&mut self, now: Instant) -> bool {
        let now = u128::from(now.as_nanos()) * self.rate;
        let full_at = self.full_at.max(now) + SECOND;
        if full_at > now + self.depth {
            return false;
        }
        self.full_at = full_at;
        true
    }

    /// The time at which the next token is available; not after now when one is available already.
    pub fn ready_at(&self) -> Instant {
        let scaled = (self.full_at + SECOND).saturating_sub(self.depth);
        Instant::from_nanos(u64::try_from(scaled.div_ceil(self.rate)).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn budget(rate: u32, burst: u32) -> Budget {
        let some = |n| NonZeroU32::new(n).expect("not zero");
        Budget { packets_per_s: some(rate), burst: some(burst) }
    }

    #[test]
    fn a_backlogged_queue_is_served_at_its_rate() {
        let mut bucket = TokenBucket::new(budget(3000, 4), Instant::ZERO);
        let (mut now, mut served) = (Instant::ZERO, 0);
        while now < Instant::from_secs(7) {
            while bucket.take(now) {
                served += 1;
            }
            now = bucket.ready_at();
        }
        // A third of a millisecond does not divide evenly: rounding errors must not accumulate.
        assert_eq!(served, 7 * 3000 + 4 - 1);
    }

    /// The definition: a level in fractions of a token, refilled at each call.
    struct Slow {
        level: u128,
        last: u64,
    }

    proptest! {
        #[test]
        fn it_is_the_bucket_of_the_definition(
            rate in 1u32..5_000_000,
            burst in 1u32..100,
            gaps in proptest::collection::vec(prop_oneof![Just(0u64), 1..1000u64, 0..3_000_000_000u64], 1..200),
        ) {
            let mut bucket = TokenBucket::new(budget(rate, burst), Instant::from_nanos(5));
            let depth = u128::from(burst) * SECOND;
            let mut slow = Slow { level: depth, last: 5 };
            let mut now = 5;
            for gap in gaps {
                now += gap;
                slow.level = depth.min(slow.level + u128::from(now - slow.last) * u128::from(rate));
                slow.last = now;
                let allowed = slow.level >= SECOND;
                prop_assert_eq!(bucket.ready_at() <= Instant::from_nanos(now), allowed);
                prop_assert_eq!(bucket.take(Instant::from_nanos(now)), allowed);
                if allowed {
                    slow.level -= SECOND;
                }
            }
        }
    }
}
