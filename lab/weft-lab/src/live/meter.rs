//! Current rates, from the NIC's windows.

use std::collections::VecDeque;
use weft_nic::sampler::Sample;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The last windows.
#[derive(Debug)]
pub(crate) struct Meter {
    windows: VecDeque<Sample>,
    most: usize,
}

impl Meter {
    /// Returns a meter over the last `most` windows.
    pub(crate) fn new(most: usize) -> Self {
        Self { windows: VecDeque::new(), most }
    }

    /// Adds a window.
    pub(crate) fn add(&mut self, sample: &Sample) {
        if self.windows.len() == self.most {
            self.windows.pop_front();
        }
        self.windows.push_back(sample.clone());
    }

    /// Removes all windows.
    pub(crate) fn clear(&mut self) {
        self.windows.clear();
    }

    /// Returns the wire rate of a class.
    pub(crate) fn rate(&self, class: usize) -> BitsPerSec {
        let bytes: Bytes = self.windows.iter().filter_map(|w| w.wire.get(class)).copied().sum();
        let span: Nanos = self.windows.iter().map(|w| w.window).sum();
        BitsPerSec::from_bytes_over(bytes, span)
    }

    /// Returns the mean backlog of a class in the NIC.
    pub(crate) fn standing(&self, class: usize) -> Bytes {
        let sum: Bytes = self.windows.iter().filter_map(|w| w.standing.get(class)).copied().sum();
        Bytes(sum.get() / self.windows.len().max(1) as u64)
    }

    /// Returns the number of rings with packets at the end of the last window.
    pub(crate) fn backlogged_rings(&self) -> u32 {
        self.windows.back().map_or(0, |w| w.backlogged_rings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Instant;

    #[test]
    fn only_the_last_windows_count() {
        let sample = |bytes| Sample {
            start: Instant::ZERO,
            window: Nanos::from_millis(100),
            wire: vec![Bytes(bytes)],
            standing: vec![Bytes(bytes)],
            backlogged_rings: 3,
            waited: vec![true],
            longest_wait: vec![Nanos::ZERO],
            lost: Nanos::ZERO,
        };
        let mut meter = Meter::new(2);
        for bytes in [9_999, 1_000, 3_000] {
            meter.add(&sample(bytes));
        }
        assert_eq!(meter.rate(0), BitsPerSec(160_000));
        assert_eq!((meter.standing(0), meter.backlogged_rings()), (Bytes(2_000), 3));
        assert_eq!(meter.rate(1), BitsPerSec::ZERO);
    }
}
