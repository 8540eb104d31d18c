//! Transmission of frames on a link: serialisation at a rate, with the fraction of a nanosecond carried.

use crate::{BitsPerSec, Bytes, Divided, ExactRate, Nanos};

/// One direction of a link: sends frames one after the other at its rate.
///
/// Times are rounded down to whole nanoseconds. The fraction is carried within a busy period, so that the rate holds over any
/// number of frames.
#[derive(Clone, Debug)]
pub struct LinkTransmitter {
    /// The rate, and the fraction of a nanosecond that `free` is too early.
    exact: ExactRate,
    /// The time at which the link is free.
    free: Nanos,
    /// The length of the last frame and its time, if it was divided.
    known: Option<(Bytes, Divided)>,
}

impl LinkTransmitter {
    /// Creates a free link; `None` for a rate of zero, on which nothing would ever leave.
    pub fn new(rate: BitsPerSec) -> Option<Self> {
        Some(Self { exact: ExactRate::new(rate)?, free: Nanos::ZERO, known: None })
    }

    /// Returns the time at which the link is free: the end of the last frame.
    pub const fn free_at(&self) -> Nanos {
        self.free
    }

    /// Sends `wire` bytes, framing included, once the link is free and `ready` is reached. Returns the departure of the last bit.
    #[inline]
    pub fn transmit(&mut self, ready: Nanos, wire: Bytes) -> Nanos {
        let start = if ready > self.free {
            self.exact.restart();
            ready
        } else {
            self.free
        };
        self.free = start + self.time_of(wire);
        self.free
    }

    #[inline]
    fn time_of(&mut self, wire: Bytes) -> Nanos {
        if let Some((length, divided)) = self.known
            && length == wire
        {
            return self.exact.take_divided(divided);
        }
        self.known = self.exact.divide(wire).map(|divided| (wire, divided));
        self.exact.take(wire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Compares with exact arithmetic: a frame starts at the exact end of the previous one, or at its own time if that is
        /// after the whole nanosecond of the end.
        #[test]
        fn agrees_with_exact_arithmetic(
            rate in 1..=400_000_000_000_u64,
            frames in prop::collection::vec((0..2000_u64, prop_oneof![1..10_000_u64, Just(1538_u64)]), 1..200),
        ) {
            let mut link = LinkTransmitter::new(BitsPerSec(rate)).expect("a rate");
            // The exact end in units of 1/rate nanoseconds.
            let (mut end, mut now) = (0_u128, 0_u64);
            for (gap, wire) in frames {
                now += gap;
                let start = if u128::from(now) > end / u128::from(rate) { u128::from(now) * u128::from(rate) } else { end };
                end = start + u128::from(wire) * 8_000_000_000;
                let got = link.transmit(Nanos(now), Bytes(wire));
                prop_assert_eq!(u128::from(got.0), end / u128::from(rate));
                prop_assert_eq!(got, link.free_at());
            }
        }
    }
}
