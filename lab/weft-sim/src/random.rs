//! Random numbers of a run, from its seed.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use weft_units::Nanos;

/// The single sequence of random numbers of a run, drawn in the order of its events.
#[derive(Debug)]
pub(crate) struct Random(Pcg64Mcg);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    pub(crate) fn bits32(&mut self) -> u32 {
        self.0.next_u32()
    }

    pub(crate) fn bits64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with a probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// Returns an exponentially distributed time if it is less than `limit`. Draws as [`exponential`](Self::exponential) does, but takes
    /// the logarithm only if a bound does not decide: -ln(1 - u) is at least 2u / (2 - u).
    #[inline]
    pub(crate) fn exponential_below(&mut self, mean: Nanos, limit: Nanos) -> Option<Nanos> {
        let uniform = self.uniform();
        // Far more than the rounding errors of both sides.
        let least = 2.0 * uniform / (2.0 - uniform) * (1.0 - 1e-9);
        if least * mean.0 as f64 >= limit.0 as f64 {
            return None;
        }
        let time = Nanos((-(1.0 - uniform).ln() * mean.0 as f64) as u64);
        (time < limit).then_some(time)
    }

    /// Returns an exponentially distributed time.
    pub(crate) fn exponential(&mut self, mean: Nanos) -> Nanos {
        Nanos((-(1.0 - self.uniform()).ln() * mean.0 as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_does_not_change_what_is_drawn() {
        let mean = Nanos(10_000);
        for limit in [0, 1, 9, 1000, 5000, 10_000, 30_000, 200_000, u64::MAX].map(Nanos) {
            let (mut plain, mut bounded) = (Random::new(limit.0), Random::new(limit.0));
            for _ in 0..10_000 {
                let drawn = plain.exponential(mean);
                assert_eq!(bounded.exponential_below(mean, limit), (drawn < limit).then_some(drawn));
            }
        }
    }
}
