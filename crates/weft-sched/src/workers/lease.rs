//! A worker's lease of a limit: a slot of the limit's time, as bytes in the worker's engine.
//!
//! The engine needs nothing for it: a lent limit is a bucket that is not refilled ([`PolicyTree::lend`]). A lease of `X` bytes lets
//! packets begin while at most `X` less a segment were sent, so it is never overdrawn.
//!
//! The states of a lease, each left by an exchange only:
//! 1. *None*. If a parked lane waits for the limit, the worker takes a slot: of returned time if there is enough for a segment, else
//!    the limit's next. Returned time keeps its origin, and is void when that is too long ago; so time cannot wander among the
//!    workers until all use it at once.
//! 2. *Pending*: the slot begins later. If no lane waits any more, or the rate has changed, it is returned.
//! 3. *Lent*: the slot has begun and is worth bytes. It ends when another segment may not fit, when nothing of it is sent for some exchanges, when it
//!    has expired, or when the rate has changed; the rest is returned, as time. So the bytes that are left at a change of the rate are worth what they are at the
//!    new one.
//!
//! Bytes and nanoseconds are converted with the remainder carried, so nothing is lost however many leases there are.

use weft_units::{BIT_NANOS_PER_BYTE, BitsPerSec, Bytes, Instant, LimitId, Nanos};

use super::line::LimitLine;
use crate::tree::PolicyTree;

/// The times and sizes of leases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The largest segment that a turn may send.
    pub segment: Bytes,
    /// The span after which a worker exchanges what it sent and learns what the others did.
    pub period: Nanos,
    /// The largest slot of a limit's time that a worker has, unless a segment takes longer.
    pub slot: Nanos,
}

impl Default for Settings {
    /// Ethernet frames; 20 us, and 40 us, by which a limit is exceeded by less than 1 % per 100 ms from 250 Mb/s on.
    fn default() -> Self {
        Self { segment: Bytes(1518), period: Nanos::from_micros(20), slot: Nanos::from_micros(40) }
    }
}

/// The slots' worth of time after which time may no longer be lent, if a slot is a segment; otherwise twice that.
const AGE: u64 = 4;

/// The slots of a limit at a rate.
#[derive(Clone, Copy, Debug)]
struct Slots {
    /// The span of a segment.
    least: u64,
    /// The span of a slot that was used before.
    full: u64,
}

impl Settings {
    fn slots(&self, rate: u64) -> Slots {
        let least = BitsPerSec(rate).time_for(self.segment).get().max(1);
        Slots { least, full: least.max(self.slot.get()) }
    }

    /// The age from which on time is not lent any more.
    fn age(&self, rate: u64) -> u64 {
        let usual = self.slot.get().saturating_mul(2 * AGE);
        usual.max(self.slots(rate).full.saturating_mul(AGE))
    }

    /// The time beyond its span for which a lease lasts.
    fn grace(&self, rate: u64) -> u64 {
        self.slots(rate).full.max(self.slot.get().saturating_mul(AGE))
    }

    /// The lateness at which a worker may take a slot without a loss: the burst of the limit, and at least what exchanges take.
    fn lateness(&self, rate: u64, burst: Bytes) -> u64 {
        let exchanges = self.period.get().saturating_mul(3);
        BitsPerSec(rate).time_for(burst).get().max(exchanges)
    }

    /// The bytes by which a limit of `rate` and `burst` may be exceeded in any span, over all workers. What is sent in the span was
    /// taken from the limit's time not long before: it was lent before it was too old, as a lease of up to two slots that ends after
    /// its span, some grace and an exchange; and a slot that begins in the span may end after it.
    pub fn excess(&self, rate: BitsPerSec, burst: Bytes) -> Bytes {
        let Slots { full, .. } = self.slots(rate.get());
        let rate_now = rate.get();
        let slots =
            full.saturating_mul(3).saturating_add(self.age(rate_now)).saturating_add(self.grace(rate_now));
        let slots = slots.saturating_add(self.period.get());
        rate.bytes_in(Nanos(slots.saturating_add(self.lateness(rate.get(), burst)))) + self.segment
    }
}

/// The time and bytes of a worker's leases of a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LeaseCounters {
    /// Slots taken.
    pub slots: u64,
    /// Their time, with that of returned slots that were taken again.
    pub taken: Nanos,
    /// Time given back, with what was forfeited of it.
    pub returned: Nanos,
    /// The part of the returned time that the line did not keep.
    pub forfeited: Nanos,
    /// Bytes sent by leases.
    pub spent: Bytes,
}

#[derive(Clone, Copy, Debug)]
enum State {
    None,
    Pending { start: u64, span: u64 },
    Lent { bytes: u64, since: Instant, until: u64 },
}

/// After a slot that was used the next is longer by this part.
const GROWTH: u64 = 8;

/// The exchanges after which a lease is given back of which nothing is sent.
const STILL: u32 = 4;

/// A worker's lease of one limit.
#[derive(Debug)]
pub(super) struct Lease {
    id: LimitId,
    burst: Bytes,
    /// The rate of the present lease.
    rate: u64,
    /// The span of the next slot: a part longer after a slot that was used, and after another what was used of it.
    span: u64,
    /// Billionths of a bit that were taken and are less than a byte, or less than a nanosecond at the rate.
    fraction: u64,
    state: State,
    /// The time at which the slot of the lease began.
    origin: u64,
    /// The span of the lease's own time.
    own: u64,
    /// Time that others returned, with its origin: it is spent first.
    again: (u64, u64),
    /// The bytes spent at the last exchange, and the number of exchanges since they changed.
    seen: u64,
    still: u32,
    counters: LeaseCounters,
}

/// The circumstances of an exchange of leases.
#[derive(Clone, Copy)]
pub(super) struct Exchange<'a> {
    pub(super) settings: &'a Settings,
    pub(super) line: &'a LimitLine,
    /// Whether a parked lane waits for the limit.
    pub(super) wanted: bool,
    pub(super) now: Instant,
}

impl Lease {
    /// The lease of a worker that has none, whose engine may send nothing.
    pub(super) fn new(
        id: LimitId,
        burst: Bytes,
        line: &LimitLine,
        tree: &mut PolicyTree,
        now: Instant,
    ) -> Self {
        tree.lend(id, None, now);
        let counters = LeaseCounters::default();
        Self {
            id,
            burst,
            rate: line.rate(),
            span: 0,
            fraction: 0,
            state: State::None,
            origin: 0,
            own: 0,
            again: (0, 0),
            seen: 0,
            still: 0,
            counters,
        }
    }

    /// One exchange. Returns the beginning of a slot that is pending.
    pub(super) fn exchange(&mut self, with: Exchange<'_>, tree: &mut PolicyTree) -> Option<Instant> {
        match self.state {
            State::Lent { .. } => self.look(with, tree),
            State::Pending { span, .. } => self.look_at_pending(with, span),
            State::None => {}
        }
        if let (State::None, true) = (self.state, with.wanted) {
            self.take(with);
        }
        let State::Pending { start, span } = self.state else { return None };
        if start > with.now.as_nanos() {
            return Some(Instant::from_nanos(start));
        }
        self.lend(with, span, tree);
        None
    }

    /// Gives back a slot that nobody waits for, that is of another rate, or whose time has passed.
    fn look_at_pending(&mut self, with: Exchange<'_>, span: u64) {
        let late = with.now.as_nanos().saturating_sub(self.origin) > with.settings.age(self.rate);
        if late || !with.wanted || with.line.rate() != self.rate {
            self.state = State::None;
            self.give_back(with, u128::from(span) * u128::from(self.rate));
            self.span = (self.span / 2).max(with.settings.slots(self.rate).least);
        }
    }

    /// Whether a slot was taken that has not begun.
    pub(super) fn is_pending(&self, now: Instant) -> bool {
        matches!(self.state, State::Pending { start, .. } if start > now.as_nanos())
    }

    /// Ends a lease that is used up, has expired, or is of another rate.
    fn look(&mut self, with: Exchange<'_>, tree: &mut PolicyTree) {
        let State::Lent { bytes, since, until } = self.state else { return };
        let spent = tree.spent(self.id, since).get();
        let left = bytes.saturating_sub(spent);
        let used_up = left < with.settings.segment.get();
        self.still = if spent == self.seen { self.still + 1 } else { 0 };
        self.seen = spent;
        if !used_up && self.still < STILL && with.now.as_nanos() <= until && with.line.rate() == self.rate {
            return;
        }
        tree.lend(self.id, None, with.now);
        self.state = State::None;
        self.counters.spent += Bytes(spent);
        let slots = with.settings.slots(self.rate);
        self.span = if used_up {
            (self.span + self.span / GROWTH).min(slots.full)
        } else {
            let used = u128::from(spent) * u128::from(BIT_NANOS_PER_BYTE) / u128::from(self.rate);
            u64::try_from(used).unwrap_or(u64::MAX).clamp(slots.least, slots.full)
        };
        self.give_back(with, u128::from(left) * u128::from(BIT_NANOS_PER_BYTE));
    }

    /// Gives back time worth `work` billionths of a bit.
    fn give_back(&mut self, with: Exchange<'_>, work: u128) {
        let work = work + u128::from(self.fraction);
        let rate = u128::from(self.rate);
        let span = u64::try_from(work / rate).unwrap_or(u64::MAX);
        self.fraction = u64::try_from(work % rate).unwrap_or(0);
        if span > 0 {
            let most = with.settings.slots(self.rate).full.saturating_mul(2);
            let age = with.settings.age(self.rate);
            self.counters.returned += Nanos(span);
            let (again, before) = self.again;
            // The rest is of the lease's own time, unless it is more than that.
            let origin = if again > 0 && span > self.own { before.min(self.origin) } else { self.origin };
            let lost = with.line.give_back((span, origin), most, with.now.as_nanos(), age);
            self.counters.forfeited += Nanos(lost);
        }
    }

    fn take(&mut self, with: Exchange<'_>) {
        let rate = with.line.rate();
        if rate != self.rate {
            // Less than a byte at the former rate.
            (self.rate, self.fraction) = (rate, 0);
        }
        let now = with.now.as_nanos();
        let slots = with.settings.slots(rate);
        self.span = self.span.clamp(slots.least, slots.full);
        let returned = with.line.take_returned((slots.least, self.span), now, with.settings.age(rate));
        let (start, span) = if returned.0 > 0 {
            self.origin = returned.1;
            (now, returned.0)
        } else {
            let lateness = with.settings.lateness(rate, self.burst);
            let start = with.line.take(self.span, now.saturating_sub(lateness));
            // The lateness is what the limit itself allows.
            self.origin = start.max(now);
            (start, self.span)
        };
        (self.own, self.again) = (span, (0, 0));
        self.counters.slots += 1;
        self.counters.taken += Nanos(span);
        self.state = State::Pending { start, span };
    }

    fn lend(&mut self, with: Exchange<'_>, span: u64, tree: &mut PolicyTree) {
        let now = with.now.as_nanos();
        self.again = with.line.take_returned((1, span), now, with.settings.age(self.rate));
        self.counters.taken += Nanos(self.again.0);
        let span = span.saturating_add(self.again.0);
        let work = u128::from(span) * u128::from(self.rate) + u128::from(self.fraction);
        let byte = u128::from(BIT_NANOS_PER_BYTE);
        let bytes = u64::try_from(work / byte).unwrap_or(u64::MAX);
        self.fraction = u64::try_from(work % byte).unwrap_or(0);
        let expires = span.saturating_add(with.settings.grace(self.rate));
        let until = with.now.as_nanos().saturating_add(expires);
        tree.lend(self.id, Some(Bytes(bytes).saturating_sub(with.settings.segment)), with.now);
        (self.seen, self.still) = (0, 0);
        self.state = State::Lent { bytes, since: with.now, until };
    }

    /// Gives back what is left, and lets the engine send at the limit's rate of its own again.
    pub(super) fn leave(&mut self, with: Exchange<'_>, tree: &mut PolicyTree) {
        let work = match self.state {
            State::None => 0,
            State::Pending { span, .. } => u128::from(span) * u128::from(self.rate),
            State::Lent { bytes, since, .. } => {
                let spent = tree.spent(self.id, since);
                self.counters.spent += spent;
                u128::from(bytes.saturating_sub(spent.get())) * u128::from(BIT_NANOS_PER_BYTE)
            }
        };
        self.state = State::None;
        self.give_back(with, work);
        tree.end_lending(self.id, BitsPerSec(with.line.rate()), self.burst, with.now);
    }

    /// The counters, without what the present lease has spent.
    pub(super) fn counters(&self) -> LeaseCounters {
        self.counters
    }

    /// The bytes that the present lease has spent.
    pub(super) fn spending(&self, tree: &PolicyTree) -> Bytes {
        if let State::Lent { since, .. } = self.state { tree.spent(self.id, since) } else { Bytes::ZERO }
    }

    /// The billionths of a bit that this worker has of the limit's time and has not sent.
    pub(super) fn holds(&self, tree: &PolicyTree) -> u128 {
        let held = match self.state {
            State::None => 0,
            State::Pending { span, .. } => u128::from(span) * u128::from(self.rate),
            State::Lent { bytes, since, .. } => {
                let left = bytes.saturating_sub(tree.spent(self.id, since).get());
                u128::from(left) * u128::from(BIT_NANOS_PER_BYTE)
            }
        };
        held + u128::from(self.fraction)
    }
}
