//! Counters whose changes come out of order.
//!
//! A packet's arrival is often known only when it departs, while a counter needs its changes in order. A gauge keeps them until no
//! earlier one can come.

use crate::perfetto::{Perfetto, TrackId};
use std::collections::BTreeMap;
use std::io::Write;
use weft_units::Nanos;

/// A counter by its changes.
#[derive(Debug)]
pub struct TraceGauge {
    track: TrackId,
    value: i64,
    /// Changes that are not written, by time.
    open: BTreeMap<Nanos, i64>,
}

impl TraceGauge {
    /// A counter that is zero.
    pub fn new(track: TrackId) -> Self {
        Self { track, value: 0, open: BTreeMap::new() }
    }

    /// Adds `change` at a time.
    pub fn add(&mut self, at: Nanos, change: i64) {
        *self.open.entry(at).or_default() += change;
    }

    /// Writes the values before `until`: no earlier change comes. One that comes nevertheless is written late.
    pub fn settle<W: Write>(&mut self, trace: &mut Perfetto<W>, until: Nanos) {
        while let Some(entry) = self.open.first_entry().filter(|entry| *entry.key() < until) {
            let (at, change) = entry.remove_entry();
            if change != 0 {
                self.value += change;
                trace.count(self.track, at, u64::try_from(self.value).unwrap_or_default());
            }
        }
    }

    /// Writes all values.
    pub fn finish<W: Write>(&mut self, trace: &mut Perfetto<W>) {
        self.settle(trace, Nanos(u64::MAX));
    }

    /// The number of changes that are kept.
    pub fn kept(&self) -> usize {
        self.open.len()
    }
}
