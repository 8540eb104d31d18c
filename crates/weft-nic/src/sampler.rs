//! What left when: bytes by class in windows of the link's time.

use std::sync::mpsc::Sender;
use weft_units::{Bytes, ClassId, Nanos};

/// One window of the link's time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Its start, on the kernel's monotonic clock.
    pub start: Nanos,
    /// Its length.
    pub window: Nanos,
    /// Wire bytes that departed in it, by class.
    pub wire: Vec<Bytes>,
    /// Bytes that stood in the NIC at its end, by class: rung, and not yet sent.
    pub standing: Vec<Bytes>,
    /// Rings with something in them at its end.
    pub backlogged_rings: u32,
}

/// Cuts departures into windows.
#[derive(Debug)]
pub struct Sampler {
    window: Nanos,
    start: Nanos,
    wire: Vec<Bytes>,
    out: Sender<Sample>,
}

impl Sampler {
    /// Windows of length `window` from `start` on; the samples go to `out`.
    pub fn new(window: Nanos, start: Nanos, classes: usize, out: Sender<Sample>) -> Self {
        Self { window, start, wire: vec![Bytes::ZERO; classes], out }
    }

    /// Whether the window that is open ends at or before `now`.
    pub fn due(&self, now: Nanos) -> bool {
        now >= self.start + self.window
    }

    /// Counts a departure in the window that is open; ask [`due`](Self::due) first.
    pub fn count(&mut self, class: ClassId, wire: Bytes) {
        if let Some(sum) = self.wire.get_mut(class.index()) {
            *sum += wire;
        }
    }

    /// Closes the windows that end at or before `now`. `standing` tells what stands in the NIC.
    pub fn close(&mut self, now: Nanos, backlogged_rings: u32, standing: impl Fn() -> Vec<Bytes>) {
        while self.due(now) {
            let wire = self.wire.clone();
            self.wire.fill(Bytes::ZERO);
            let sample = Sample {
                start: self.start,
                window: self.window,
                wire,
                standing: standing(),
                backlogged_rings,
            };
            // Nobody listening is no error: the NIC goes on.
            let _ = self.out.send(sample);
            self.start += self.window;
        }
    }
}
