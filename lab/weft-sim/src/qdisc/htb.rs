//! Hierarchical token buckets with one level of classes (`htb`).

use super::Qdisc;
use super::alarms::Alarms;
use super::bucket::TokenBucket;
use crate::segment::{Backlog, Dequeued, Segment};
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The maximum packet length that `tc` assumes for a burst (`htb_parse_class_opt` of iproute2).
const BURST_MTU: u64 = 1600;

/// Ticks per second for `tc`'s computation of a burst: `get_hz` of iproute2 returns those of high-resolution timers.
const TICKS_PER_SECOND: u64 = 1_000_000_000;

/// Quotient of rate and quantum (`r2q`), and the bounds of a quantum (`htb_change_class`).
const RATE_TO_QUANTUM: u64 = 10;
const QUANTUM_MIN: u64 = 1000;
const QUANTUM_MAX: u64 = 200_000;

/// The permission of a class to send (`htb_cmode`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// It has no segments.
    Idle,
    /// It may send within its own rate.
    CanSend,
    /// Its rate is used up; it may borrow from the rate of the whole.
    MayBorrow,
    /// Its ceiling is used up.
    CannotSend,
    /// Its segments must wait in the child.
    ChildWaits,
}

impl Mode {
    /// Returns the row of classes in which it takes turns (`row[level]`); `None` if it may not send.
    const fn row(self) -> Option<usize> {
        match self {
            Self::CanSend => Some(0),
            Self::MayBorrow => Some(1),
            Self::Idle | Self::CannotSend | Self::ChildWaits => None,
        }
    }
}

/// A class.
struct Class {
    child: Box<dyn Qdisc>,
    rate: TokenBucket,
    ceiling: TokenBucket,
    /// Remaining bytes of a turn, by row.
    deficit: [i64; 2],
    mode: Mode,
}

/// A set of classes that take turns in numeric order.
struct Row {
    words: Vec<u64>,
    /// The class with the current turn, or the next one in the set.
    turn: usize,
}

impl Row {
    fn new(classes: usize) -> Self {
        Self { words: vec![0; classes.div_ceil(64)], turn: 0 }
    }

    fn insert(&mut self, class: usize) {
        self.words[class / 64] |= 1 << (class % 64);
    }

    fn remove(&mut self, class: usize) {
        self.words[class / 64] &= !(1 << (class % 64));
    }

    /// Returns the member with the current turn; examines one word per 64 classes.
    fn current(&self) -> Option<usize> {
        let from = self.turn / 64;
        let later = !0 << (self.turn % 64);
        let first = self.words.get(from).map_or(0, |word| word & later);
        let rest = (from + 1..self.words.len()).chain(0..self.words.len().min(from + 1));
        std::iter::once((from, first))
            .chain(rest.map(|word| (word, self.words[word])))
            .find(|(_, bits)| *bits != 0)
            .map(|(word, bits)| word * 64 + bits.trailing_zeros() as usize)
    }
}

/// Classes with equal guaranteed rates, which may borrow from each other up to the rate of the whole. In `tc`'s terms: a root
/// class with rate and ceiling of the whole, and a child per traffic class with an equal part of the rate and the same ceiling.
///
/// As in `htb_dequeue`, classes within their own rate come first and take turns. Borrowing classes come next, if the whole has no
/// debt. A segment is charged after it has left, so a bucket may go into debt. This keeps the rate even with segments larger than
/// the burst.
pub struct HtbQdisc {
    classes: Vec<Class>,
    whole: TokenBucket,
    rows: [Row; 2],
    /// By class: the time at which its mode changes without further segments.
    alarms: Alarms,
    quantum: i64,
    backlog: Backlog,
}

impl HtbQdisc {
    /// Creates a class per child, together at `rate`. A segment's class beyond the last child counts as the last. Without a
    /// child, all segments are dropped.
    pub fn new(rate: BitsPerSec, children: impl IntoIterator<Item = Box<dyn Qdisc>>) -> Self {
        let children: Vec<_> = children.into_iter().collect();
        let share = BitsPerSec(rate.get() / children.len().max(1) as u64);
        let bucket =
            |rate: BitsPerSec| TokenBucket::new(rate, Bytes(rate.get() / 8 / TICKS_PER_SECOND + BURST_MTU));
        let class = |child| Class {
            child,
            rate: bucket(share),
            ceiling: bucket(rate),
            deficit: [0; 2],
            mode: Mode::Idle,
        };
        let quantum = (share.get() / 8 / RATE_TO_QUANTUM).clamp(QUANTUM_MIN, QUANTUM_MAX);
        Self {
            rows: [Row::new(children.len()), Row::new(children.len())],
            alarms: Alarms::new(children.len().max(1)),
            classes: children.into_iter().map(class).collect(),
            whole: bucket(rate),
            quantum: i64::try_from(quantum).expect("clamped"),
            backlog: Backlog::default(),
        }
    }

    /// Recomputes a class's mode (`htb_class_mode`) and the time of its next change.
    fn refresh(&mut self, class: usize, now: Nanos) {
        let entry = &self.classes[class];
        let (mode, change) = if entry.child.backlog().segments == 0 {
            (Mode::Idle, Nanos::MAX)
        } else if !entry.ceiling.is_solvent(now) {
            (Mode::CannotSend, entry.ceiling.solvent_at(now))
        } else if entry.rate.is_solvent(now) {
            (Mode::CanSend, Nanos::MAX)
        } else {
            (Mode::MayBorrow, entry.rate.solvent_at(now))
        };
        self.set_mode(class, mode, change);
    }

    fn set_mode(&mut self, class: usize, mode: Mode, change: Nanos) {
        let before = std::mem::replace(&mut self.classes[class].mode, mode);
        if before.row() != mode.row() {
            before.row().into_iter().for_each(|row| self.rows[row].remove(class));
            mode.row().into_iter().for_each(|row| self.rows[row].insert(class));
        }
        self.alarms.set(class, change);
    }

    /// Lets a class of a row send (`htb_dequeue_tree`), and charges it (`htb_charge_class`).
    fn serve(&mut self, row: usize, class: usize, now: Nanos, dropped: &mut Vec<Segment>) -> Option<Segment> {
        let entry = &mut self.classes[class];
        let segment = match entry.child.dequeue(now, dropped) {
            Dequeued::Segment(segment) => segment,
            Dequeued::Wait(time) => {
                self.set_mode(class, Mode::ChildWaits, time.max(now + Nanos(1)));
                return None;
            }
            Dequeued::Empty => {
                self.set_mode(class, Mode::Idle, Nanos::MAX);
                return None;
            }
        };
        entry.deficit[row] -= i64::from(segment.len);
        self.rows[row].turn = class;
        if entry.deficit[row] < 0 {
            entry.deficit[row] += self.quantum;
            self.rows[row].turn = class + 1;
        }
        let len = Bytes(segment.len.into());
        if row == 0 {
            entry.rate.charge(len, now);
        }
        entry.ceiling.charge(len, now);
        self.whole.charge(len, now);
        self.refresh(class, now);
        Some(segment)
    }

    /// Returns the next segment, or the time of the next attempt.
    fn choose(&mut self, now: Nanos, dropped: &mut Vec<Segment>) -> Dequeued {
        loop {
            let (alarm, class) = self.alarms.first();
            if alarm <= now {
                self.refresh(class, now);
                continue;
            }
            let borrower = self.rows[1].current();
            let choice = match (self.rows[0].current(), borrower) {
                (Some(class), _) => Some((0, class)),
                (None, Some(class)) if self.whole.is_solvent(now) => Some((1, class)),
                _ => None,
            };
            if let Some((row, class)) = choice {
                match self.serve(row, class, now, dropped) {
                    Some(segment) => return Dequeued::Segment(segment),
                    None => continue,
                }
            }
            return match borrower {
                Some(_) => Dequeued::Wait(alarm.min(self.whole.solvent_at(now))),
                // Without an alarm, only classes with a rate of zero can wait.
                None if alarm == Nanos::MAX && self.classes.iter().all(|class| class.mode == Mode::Idle) => {
                    Dequeued::Empty
                }
                None => Dequeued::Wait(alarm),
            };
        }
    }
}

impl Qdisc for HtbQdisc {
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
        if matches!(class.mode, Mode::Idle | Mode::ChildWaits) {
            self.refresh(index, now);
        }
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Vec<Segment>) -> Dequeued {
        let before = dropped.len();
        let answer = self.choose(now, dropped);
        dropped[before..].iter().for_each(|lost| self.backlog.take(lost));
        if let Dequeued::Segment(segment) = &answer {
            self.backlog.take(segment);
        }
        answer
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn walk(&self, visit: &mut dyn FnMut(&Segment)) {
        self.classes.iter().for_each(|class| class.child.walk(visit));
    }
}
