//! What occupies a link, and for how long: serialisation at a rate, with the fraction of a nanosecond carried.

use weft_units::{BitsPerSec, Bytes, Nanos};

/// Bits of a byte times nanoseconds of a second: bytes times this, over bits per second, is nanoseconds.
const BITS_BY_NANOS: u64 = 8 * 1_000_000_000;

/// One direction of a link: sends one frame after the other at its rate.
///
/// Times are rounded down to whole nanoseconds; the fraction is carried within a busy period, so that the rate holds over
/// any number of frames.
#[derive(Clone, Debug)]
pub(crate) struct Serializer {
    rate: u64,
    /// When the link is free.
    free: Nanos,
    /// The fraction of a nanosecond by which `free` is too early, in units of 1/rate nanoseconds; less than `rate`.
    carry: u64,
}

impl Serializer {
    /// A free link; `None` for a rate of zero, on which nothing would ever leave.
    pub(crate) fn new(rate: BitsPerSec) -> Option<Self> {
        (rate.0 > 0).then_some(Self { rate: rate.0, free: Nanos::ZERO, carry: 0 })
    }

    /// When the link is free: the end of the last frame.
    pub(crate) const fn free_at(&self) -> Nanos {
        self.free
    }

    /// Sends `wire` bytes, framing included, as soon as the link is free and `ready` has come. Gives the time at which the
    /// last bit has left.
    #[inline]
    pub(crate) fn occupy(&mut self, ready: Nanos, wire: Bytes) -> Nanos {
        let start = if ready > self.free {
            self.carry = 0;
            ready
        } else {
            self.free
        };
        let work = wire.0.checked_mul(BITS_BY_NANOS).and_then(|work| work.checked_add(self.carry));
        let time = match work {
            // 64 bits hold frames of up to two gigabytes; a division of 128 bits takes several times as long.
            Some(work) => {
                self.carry = work % self.rate;
                Nanos(work / self.rate)
            }
            None => {
                let (work, rate) = (u128::from(wire.0) * u128::from(BITS_BY_NANOS), u128::from(self.rate));
                let work = work + u128::from(self.carry);
                self.carry = u64::try_from(work % rate).unwrap_or(0);
                Nanos(u64::try_from(work / rate).unwrap_or(u64::MAX))
            }
        };
        self.free = start + time;
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Within a busy period the k-th frame ends at the rounded sum; beyond 64 bits too.
    #[test]
    fn fractions_add_up_in_both_widths() {
        for (rate, wire) in [(3_000_000_000, 1), (7, 11), (100_000_000_007, 1538), (u64::MAX, 1 << 40)] {
            let mut link = Serializer::new(BitsPerSec(rate)).expect("a rate");
            for k in 1..=1000_u128 {
                let end = k * u128::from(wire) * 8_000_000_000 / u128::from(rate);
                assert_eq!(u128::from(link.occupy(Nanos::ZERO, Bytes(wire)).0), end);
            }
        }
    }

    proptest! {
        /// The ends are those of exact arithmetic: a frame begins at the exact end of the one before, or, when it comes
        /// after the whole nanosecond of that end, at its own time.
        #[test]
        fn agrees_with_exact_arithmetic(
            rate in 1..=400_000_000_000_u64,
            frames in prop::collection::vec((0..2000_u64, 1..10_000_u64), 1..200),
        ) {
            let mut link = Serializer::new(BitsPerSec(rate)).expect("a rate");
            // The exact end in units of 1/rate nanoseconds.
            let (mut end, mut now) = (0_u128, 0_u64);
            for (gap, wire) in frames {
                now += gap;
                let start = if u128::from(now) > end / u128::from(rate) { u128::from(now) * u128::from(rate) } else { end };
                end = start + u128::from(wire) * 8_000_000_000;
                let got = link.occupy(Nanos(now), Bytes(wire));
                prop_assert_eq!(u128::from(got.0), end / u128::from(rate));
                prop_assert_eq!(got, link.free_at());
            }
        }
    }
}
