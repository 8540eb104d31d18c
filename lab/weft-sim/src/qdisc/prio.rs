//! Strict priority bands, each with its own queueing discipline (`prio`).

use super::Qdisc;
use crate::segment::{Backlog, Dequeued, Segment};
use weft_units::Nanos;

/// Strict bands, the first the most urgent (`prio_dequeue`). While a band must wait, later bands may send.
pub struct Prio {
    bands: Vec<Box<dyn Qdisc>>,
    backlog: Backlog,
}

impl Prio {
    /// Creates a band per child, the most urgent first. A segment's band beyond the last child counts as the last. Without a
    /// child, all segments are dropped.
    pub fn new(children: impl IntoIterator<Item = Box<dyn Qdisc>>) -> Self {
        Self { bands: children.into_iter().collect(), backlog: Backlog::default() }
    }
}

impl Qdisc for Prio {
    fn enqueue(&mut self, segment: Segment, now: Nanos, dropped: &mut Vec<Segment>) {
        let last = self.bands.len().saturating_sub(1);
        let Some(band) = self.bands.get_mut(usize::from(segment.band).min(last)) else {
            dropped.push(segment);
            return;
        };
        let before = dropped.len();
        self.backlog.add(&segment);
        band.enqueue(segment, now, dropped);
        dropped[before..].iter().for_each(|lost| self.backlog.take(lost));
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Vec<Segment>) -> Dequeued {
        let before = dropped.len();
        let mut answer = Dequeued::Empty;
        for band in &mut self.bands {
            match (band.dequeue(now, dropped), answer) {
                (Dequeued::Segment(segment), _) => {
                    self.backlog.take(&segment);
                    answer = Dequeued::Segment(segment);
                    break;
                }
                (Dequeued::Wait(time), Dequeued::Wait(earliest)) => {
                    answer = Dequeued::Wait(time.min(earliest))
                }
                (Dequeued::Wait(time), _) => answer = Dequeued::Wait(time),
                (Dequeued::Empty, _) => {}
            }
        }
        dropped[before..].iter().for_each(|lost| self.backlog.take(lost));
        answer
    }

    fn is_forgetful(&self) -> bool {
        !self.bands.is_empty() && self.bands.iter().all(|band| band.is_forgetful())
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn walk(&self, visit: &mut dyn FnMut(&Segment)) {
        self.bands.iter().for_each(|band| band.walk(visit));
    }
}
