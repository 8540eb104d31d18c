//! The times at which references under user-defined algorithms become eligible or get another rank.
//!
//! They belong to the one global shaping queue: the tree handles them and the releases of lanes in the order of time, and
//! of insertion among equal times.

use weft_rank::Rank;
use weft_units::Instant;

use super::heaps::{EMPTY, Heaps};

/// The event at the time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Alarm {
    /// The reference may have a turn: the time of its `from`.
    From,
    /// The reference gets another rank: the time of its `until`.
    Until,
}

/// The owner of a reference: a flow, or a child of a node by its number among the children of all nodes with an algorithm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A flow.
    Flow(u32),
    /// A child.
    Child(u32),
}

impl Owner {
    /// The number of the owner's first timer: two of each four are a flow's, two a child's.
    fn base(self) -> u32 {
        match self {
            Self::Flow(flow) => flow * 4,
            Self::Child(child) => child * 4 + 2,
        }
    }

    fn timer(self, alarm: Alarm) -> u32 {
        self.base() + u32::from(alarm == Alarm::Until)
    }

    fn of(timer: u32) -> (Self, Alarm) {
        let owner = if timer & 2 == 0 { Self::Flow(timer / 4) } else { Self::Child(timer / 4) };
        (owner, if timer & 1 == 0 { Alarm::From } else { Alarm::Until })
    }
}

/// The most flows that have timers.
pub(crate) const FLOWS_MAX: usize = 1 << 30;

/// The pending times.
#[derive(Debug)]
pub(crate) struct Timers {
    heaps: Heaps,
    from: u32,
    until: u32,
}

impl Timers {
    /// Timers for `owners` flows and as many children.
    pub(crate) fn new(owners: usize) -> Self {
        Self { heaps: Heaps::new(owners * 4), from: EMPTY, until: EMPTY }
    }

    /// Makes room for `owners` flows and as many children. May allocate.
    pub(crate) fn grow(&mut self, owners: usize) {
        self.heaps.grow(owners * 4);
    }

    /// Sets the timer of `owner`, which must not be pending.
    pub(crate) fn set(&mut self, owner: Owner, alarm: Alarm, time: Instant, tie: u64) {
        let root = if alarm == Alarm::From { &mut self.from } else { &mut self.until };
        self.heaps.insert(root, owner.timer(alarm), (Rank::new(time.as_nanos(), 0), tie));
    }

    /// Removes the timers of `owner`.
    pub(crate) fn cancel(&mut self, owner: Owner) {
        self.heaps.remove(&mut self.from, owner.timer(Alarm::From));
        self.heaps.remove(&mut self.until, owner.timer(Alarm::Until));
    }

    /// The pending time of `owner`, with its tie.
    pub(crate) fn pending(&self, owner: Owner, alarm: Alarm) -> Option<(Instant, u64)> {
        let timer = owner.timer(alarm);
        let key = || self.heaps.key(timer);
        self.heaps.contains(timer).then(|| (Instant::from_nanos(key().0.first), key().1))
    }

    /// The first time at which a reference becomes eligible.
    pub(crate) fn first_from(&self) -> Option<Instant> {
        self.heaps.first(self.from).map(|(_, key)| Instant::from_nanos(key.0.first))
    }

    /// The first pending time of either kind, with its tie.
    pub(crate) fn first(&self) -> Option<(u64, u64)> {
        let key = |root| self.heaps.first(root).map(|(_, (time, tie))| (time.first, tie));
        [key(self.from), key(self.until)].into_iter().flatten().min()
    }

    /// Removes the first timer.
    pub(crate) fn pop(&mut self) -> Option<(Owner, Alarm)> {
        let (from, until) = (self.heaps.first(self.from), self.heaps.first(self.until));
        let key = |first: Option<(u32, super::heaps::Key)>| first.map(|(_, key)| key);
        let root = match (key(from), key(until)) {
            (Some(from), Some(until)) if until < from => &mut self.until,
            (Some(_), _) => &mut self.from,
            _ => &mut self.until,
        };
        self.heaps.pop(root).map(|(timer, _)| Owner::of(timer))
    }
}
