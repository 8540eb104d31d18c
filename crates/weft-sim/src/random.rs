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

    /// Returns an exponentially distributed time.
    pub(crate) fn exponential(&mut self, mean: Nanos) -> Nanos {
        Nanos((-(1.0 - self.uniform()).ln() * mean.0 as f64) as u64)
    }
}
