//! Deficit round robin between classes (`drr`).

use super::Qdisc;
use crate::segment::{Backlog, Dequeued, Segment};
use std::collections::VecDeque;
use weft_units::{Bytes, Nanos};

/// A class.
struct Class {
    child: Box<dyn Qdisc>,
    /// The child's next segment, removed to learn its length, as in `qdisc_peek_dequeued`. It leaves next even if the child
    /// receives a more urgent one in the meantime.
    peeked: Option<Segment>,
    /// The remaining bytes of this round.
    deficit: u64,
    /// Whether it is in the round.
    active: bool,
}

/// Deficit round robin (Shreedhar and Varghese 1995) between classes, as in the kernel's `drr_enqueue` and `drr_dequeue`. A class
/// that becomes active joins the end of the round with one quantum. A class that empties loses its deficit.
pub struct Drr {
    classes: Vec<Class>,
    /// Backlogged classes, the one with the current turn first.
    active: VecDeque<u16>,
    quantum: u64,
    backlog: Backlog,
}

impl Drr {
    /// Creates a class per child, all with the same quantum (0 counts as 1). A segment's class beyond the last child counts as
    /// the last. Without a child, all segments are dropped. At most 65536 children are used.
    pub fn new(quantum: Bytes, children: impl IntoIterator<Item = Box<dyn Qdisc>>) -> Self {
        let class = |child| Class { child, peeked: None, deficit: 0, active: false };
        let classes: Vec<_> = children.into_iter().map(class).take(1 << 16).collect();
        let active = VecDeque::with_capacity(classes.len());
        Self { classes, active, quantum: quantum.get().max(1), backlog: Backlog::default() }
    }

    /// Lets the class with the current turn send its next segment, refills its quantum, or removes it from the round.
    fn turn(&mut self, front: u16, now: Nanos, dropped: &mut Vec<Segment>) -> Turn {
        let class = &mut self.classes[usize::from(front)];
        let segment = match class.peeked.map_or_else(|| class.child.dequeue(now, dropped), Dequeued::Segment)
        {
            Dequeued::Segment(segment) => segment,
            Dequeued::Wait(time) => {
                self.active.rotate_left(1);
                return Turn::Waits(time);
            }
            Dequeued::Empty => {
                class.active = false;
                self.active.pop_front();
                return Turn::Passed;
            }
        };
        if u64::from(segment.len) > class.deficit {
            class.peeked = Some(segment);
            class.deficit += self.quantum;
            self.active.rotate_left(1);
            return Turn::Passed;
        }
        class.deficit -= u64::from(segment.len);
        class.peeked = None;
        if class.child.backlog().segments == 0 {
            class.active = false;
            self.active.pop_front();
        }
        Turn::Sends(segment)
    }
}

/// The result of a class's turn.
enum Turn {
    Sends(Segment),
    Passed,
    Waits(Nanos),
}

impl Qdisc for Drr {
    fn enqueue(&mut self, segment: Segment, now: Nanos, dropped: &mut Vec<Segment>) {
        let index = usize::from(segment.class).min(self.classes.len().saturating_sub(1));
        let Some(class) = self.classes.get_mut(index) else {
            dropped.push(segment);
            return;
        };
        let before = dropped.len();
        self.backlog.add(&segment);
        class.child.enqueue(segment, now, dropped);
        dropped[before..].iter().for_each(|lost| self.backlog.take(lost));
        if !class.active && class.child.backlog().segments > 0 {
            class.active = true;
            class.deficit = self.quantum;
            self.active.push_back(u16::try_from(index).expect("at most 65536 classes"));
        }
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Vec<Segment>) -> Dequeued {
        let before = dropped.len();
        let mut answer = Dequeued::Empty;
        // Number of consecutive classes that must wait; if all must, so must the whole.
        let (mut waiting, mut earliest) = (0, Nanos::MAX);
        while let Some(&front) = self.active.front() {
            match self.turn(front, now, dropped) {
                Turn::Sends(segment) => {
                    self.backlog.take(&segment);
                    answer = Dequeued::Segment(segment);
                    break;
                }
                Turn::Passed => (waiting, earliest) = (0, Nanos::MAX),
                Turn::Waits(time) => (waiting, earliest) = (waiting + 1, earliest.min(time)),
            }
            if waiting > 0 && waiting >= self.active.len() {
                answer = Dequeued::Wait(earliest);
                break;
            }
        }
        dropped[before..].iter().for_each(|lost| self.backlog.take(lost));
        answer
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn walk(&self, visit: &mut dyn FnMut(&Segment)) {
        for class in &self.classes {
            class.peeked.iter().for_each(&mut *visit);
            class.child.walk(visit);
        }
    }
}
