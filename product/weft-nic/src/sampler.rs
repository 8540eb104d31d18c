//! Samples of departures and backlogs: bytes by class in windows of the link's time.

use std::sync::mpsc::Sender;
use weft_units::{Bytes, ClassId, Instant, Nanos};

/// One window of the link's time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The start of the window, on the kernel's monotonic clock.
    pub start: Instant,
    /// The length of the window.
    pub window: Nanos,
    /// Wire bytes that departed in the window, by class.
    pub wire: Vec<Bytes>,
    /// Bytes posted and not yet sent at the end of the window, by class.
    pub standing: Vec<Bytes>,
    /// The number of backlogged rings at the end of the window.
    pub backlogged_rings: u32,
    /// Whether the NIC had a packet of the class to send throughout the window, by class.
    pub waited: Vec<bool>,
    /// The longest wait at the head of a ring among the packets that left in the window, by class, in the link's time.
    pub longest_wait: Vec<Nanos>,
    /// Link time of the window that was lost because the worker did not run for longer than the catch-up.
    pub lost: Nanos,
}

/// The backlog of the NIC when a window closes.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The number of backlogged rings.
    pub backlogged_rings: u32,
    /// Bytes posted and not yet sent, by class.
    pub bytes: Vec<Bytes>,
    /// Whether the NIC could send a packet of the class now, by class.
    pub ready: Vec<bool>,
    /// Link time lost since the NIC started.
    pub lost: Nanos,
}

/// The sampler, which divides departures into windows.
#[derive(Debug)]
pub struct Sampler {
    window: Nanos,
    start: Instant,
    wire: Vec<Bytes>,
    /// Classes without a packet to send at some time of the open window.
    dry: Vec<bool>,
    longest_wait: Vec<Nanos>,
    /// The lost link time charged to windows so far.
    lost: Nanos,
    out: Sender<Sample>,
}

impl Sampler {
    /// Creates windows of length `window` from `start` on; the samples are sent to `out`.
    pub fn new(window: Nanos, start: Instant, classes: usize, out: Sender<Sample>) -> Self {
        Self {
            window,
            start,
            wire: vec![Bytes::ZERO; classes],
            dry: vec![true; classes],
            longest_wait: vec![Nanos::ZERO; classes],
            lost: Nanos::ZERO,
            out,
        }
    }

    /// Whether the open window ends at or before `now`.
    pub fn due(&self, now: Instant) -> bool {
        now >= self.start + self.window
    }

    /// Counts a departure in the open window. The caller must check [`due`](Self::due) first.
    pub fn count(&mut self, class: ClassId, wire: Bytes) {
        if let Some(sum) = self.wire.get_mut(class.index()) {
            *sum += wire;
        }
    }

    /// Records that a packet of `class` has left after a wait of `wait` at the head of its ring.
    pub fn waited(&mut self, class: ClassId, wait: Nanos) {
        if let Some(longest) = self.longest_wait.get_mut(class.index()) {
            *longest = wait.max(*longest);
        }
    }

    /// Records that the NIC has no packet of `class` to send.
    pub fn ran_dry(&mut self, class: ClassId) {
        if let Some(dry) = self.dry.get_mut(class.index()) {
            *dry = true;
        }
    }

    /// Closes the windows that end at or before `now`. `standing` returns the current backlog.
    pub fn close(&mut self, now: Instant, standing: impl FnOnce() -> Standing) {
        if !self.due(now) {
            return;
        }
        let standing = standing();
        while self.due(now) {
            let classes = self.wire.len();
            // Link time is lost at once, before the packets that made the windows due were sent.
            let lost = standing.lost.saturating_sub(self.lost).min(self.window);
            self.lost += lost;
            let sample = Sample {
                start: self.start,
                window: self.window,
                wire: core::mem::replace(&mut self.wire, vec![Bytes::ZERO; classes]),
                standing: standing.bytes.clone(),
                backlogged_rings: standing.backlogged_rings,
                waited: self.dry.iter().map(|dry| !dry).collect(),
                longest_wait: core::mem::replace(&mut self.longest_wait, vec![Nanos::ZERO; classes]),
                lost,
            };
            for (dry, ready) in self.dry.iter_mut().zip(&standing.ready) {
                *dry = !ready;
            }
            // A missing reader is no error: the NIC continues.
            let _ = self.out.send(sample);
            self.start += self.window;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const A: ClassId = ClassId(0);
    const B: ClassId = ClassId(1);

    fn standing(ready: [bool; 2], lost_ms: u64) -> Standing {
        Standing {
            backlogged_rings: 0,
            bytes: vec![Bytes::ZERO; 2],
            ready: ready.to_vec(),
            lost: Nanos::from_millis(lost_ms),
        }
    }

    #[test]
    fn a_class_has_waited_when_it_never_ran_dry() {
        let (out, samples) = channel();
        let mut sampler = Sampler::new(Nanos::from_millis(10), Instant::ZERO, 2, out);
        let close = |sampler: &mut Sampler, ms: u64, ready| {
            sampler.close(Instant::from_millis(ms), || standing(ready, 0));
            samples.try_iter().map(|s| s.waited).collect::<Vec<_>>()
        };
        assert_eq!(close(&mut sampler, 10, [true, true]), [[false, false]], "nothing at the beginning");
        assert_eq!(close(&mut sampler, 20, [true, true]), [[true, true]]);
        sampler.ran_dry(A);
        assert_eq!(
            close(&mut sampler, 30, [true, false]),
            [[false, true]],
            "dry, and there again at the end"
        );
        sampler.count(B, Bytes(1538));
        let two = close(&mut sampler, 50, [true, true]);
        assert_eq!(two, [[true, false], [true, true]], "what B got came after the window had begun");
    }

    #[test]
    fn waits_and_lost_time_go_to_their_windows() {
        let (out, samples) = channel();
        let mut sampler = Sampler::new(Nanos::from_millis(10), Instant::ZERO, 2, out);
        sampler.waited(B, Nanos(300));
        sampler.waited(B, Nanos(200));
        sampler.close(Instant::from_millis(40), || standing([true, true], 25));
        sampler.close(Instant::from_millis(50), || standing([true, true], 25));
        let samples: Vec<Sample> = samples.try_iter().collect();
        assert_eq!(samples[0].longest_wait, [Nanos::ZERO, Nanos(300)]);
        assert_eq!(samples[1].longest_wait, [Nanos::ZERO; 2]);
        let lost: Vec<u64> = samples.iter().map(|s| s.lost.get() / 1_000_000).collect();
        assert_eq!(lost, [10, 10, 5, 0, 0]);
    }
}
