//! What left when, and what waited: bytes by class in windows of the link's time.

use std::sync::mpsc::Sender;
use weft_units::{Bytes, ClassId, Instant, Nanos};

/// One window of the link's time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Its start, on the kernel's monotonic clock.
    pub start: Instant,
    /// Its length.
    pub window: Nanos,
    /// Wire bytes that departed in it, by class.
    pub wire: Vec<Bytes>,
    /// Bytes that stood in the NIC at its end, by class: posted, and not yet sent.
    pub standing: Vec<Bytes>,
    /// Rings with something in them at its end.
    pub backlogged_rings: u32,
    /// Whether the NIC could have sent a packet of the class at any time of the window, by class: it had one throughout.
    pub waited: Vec<bool>,
    /// The longest that a packet which left in it had waited at the head of its ring, by class, in the link's time.
    pub longest_wait: Vec<Nanos>,
    /// Link time of the window that was lost: the worker had not run for longer than the catch-up.
    pub lost: Nanos,
}

/// How things stand when a window closes.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Rings with something in them.
    pub backlogged_rings: u32,
    /// Bytes posted and not yet sent, by class.
    pub bytes: Vec<Bytes>,
    /// Whether the NIC could send a packet of the class now, by class.
    pub ready: Vec<bool>,
    /// Link time lost since the NIC started.
    pub lost: Nanos,
}

/// Cuts departures into windows.
#[derive(Debug)]
pub struct Sampler {
    window: Nanos,
    start: Instant,
    wire: Vec<Bytes>,
    /// Classes of which the NIC has had nothing to send at some time of the window that is open.
    dry: Vec<bool>,
    longest_wait: Vec<Nanos>,
    /// Lost link time that windows have been charged with.
    lost: Nanos,
    out: Sender<Sample>,
}

impl Sampler {
    /// Windows of length `window` from `start` on; the samples go to `out`.
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

    /// Whether the window that is open ends at or before `now`.
    pub fn due(&self, now: Instant) -> bool {
        now >= self.start + self.window
    }

    /// Counts a departure in the window that is open; ask [`due`](Self::due) first.
    pub fn count(&mut self, class: ClassId, wire: Bytes) {
        if let Some(sum) = self.wire.get_mut(class.index()) {
            *sum += wire;
        }
    }

    /// A packet of `class` has left that had waited for `wait` at the head of its ring.
    pub fn waited(&mut self, class: ClassId, wait: Nanos) {
        if let Some(longest) = self.longest_wait.get_mut(class.index()) {
            *longest = wait.max(*longest);
        }
    }

    /// The NIC has nothing of `class` that it could send.
    pub fn ran_dry(&mut self, class: ClassId) {
        if let Some(dry) = self.dry.get_mut(class.index()) {
            *dry = true;
        }
    }

    /// Closes the windows that end at or before `now`. `standing` tells how things stand.
    pub fn close(&mut self, now: Instant, standing: impl FnOnce() -> Standing) {
        if !self.due(now) {
            return;
        }
        let standing = standing();
        while self.due(now) {
            let classes = self.wire.len();
            // Link time is lost in one piece, before whatever made the windows due was sent.
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
            // Nobody listening is no error: the NIC goes on.
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
