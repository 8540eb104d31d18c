//! A worker's lease of a limit: a slot of the limit's time, as bytes in the worker's engine.
//!
//! The engine needs nothing for it: a lent limit is a bucket that is not refilled ([`PolicyTree::lend`]). A lease of `X` bytes lets
//! packets begin while at most `X` less a segment were sent, so it is never overdrawn.
//!
//! A worker has up to two things of a limit, which change at exchanges only:
//! * A **slot** that it took and that has not begun, or that no packet has come for. If a parked lane waits for the limit, the
//!   worker takes returned time, and of the limit's next time what it lacks. A slot is kept until it begins, since no worker could
//!   use it before; then it is lent, or returned if no lane waits. It is time, so it is of any rate.
//! * **Lent** bytes: a slot that has begun, or returned time. They end when another segment may not fit, or what an exchange takes at the
//!   pace so far (the lane need not wait then and lose its turn); when nothing of them is sent for some exchanges, or for one
//!   without packets; when they have expired; or when the rate has changed. The rest is returned, as time. So the bytes that are
//!   left at a change of the rate are worth what they are at the new one.
//!
//! The next slot is as long as one exchange takes at the pace of the lease before, or two if that was used up: a worker with a slow link
//! has short ones. Time keeps its origin, and is void when that is too long ago, whether a worker had it or none; so time cannot wander
//! among the workers until all use it at once.
//!
//! Bytes and nanoseconds are converted with the remainder carried, so nothing is lost however many leases there are.

use weft_units::{BIT_NANOS_PER_BYTE, BitsPerSec, Bytes, Instant, LimitId, Nanos};

use super::line::{LimitLine, Parts, Returned};
use crate::tree::PolicyTree;

/// The taker of lent bytes: an engine's limits, or the gate of a link.
pub(super) trait Purse {
    /// Lets packets begin while at most `allowance` bytes were sent from `now` on; without one, none.
    fn lend(&mut self, limit: LimitId, allowance: Option<Bytes>, now: Instant);
    /// The bytes sent since a loan that was made at `since`.
    fn spent(&self, limit: LimitId, since: Instant) -> Bytes;
    /// Ends lending: the limit has this rate and burst again, if it has one.
    fn end_lending(&mut self, limit: LimitId, rate: BitsPerSec, burst: Bytes, now: Instant);
}

impl Purse for PolicyTree {
    fn lend(&mut self, limit: LimitId, allowance: Option<Bytes>, now: Instant) {
        Self::lend(self, limit, allowance, now);
    }

    fn spent(&self, limit: LimitId, since: Instant) -> Bytes {
        Self::spent(self, limit, since)
    }

    fn end_lending(&mut self, limit: LimitId, rate: BitsPerSec, burst: Bytes, now: Instant) {
        Self::end_lending(self, limit, rate, burst, now);
    }
}

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
    /// Ethernet frames; 20 us, and 40 us. These exceed a limit by less than 1 % per 100 ms from 250 Mb/s on.
    fn default() -> Self {
        Self { segment: Bytes(1518), period: Nanos::from_micros(20), slot: Nanos::from_micros(40) }
    }
}

/// The slots' worth of time after which time may no longer be lent, and the same where a segment is longer than a usual slot.
const AGE: u64 = 10;
const AGE_OF_SEGMENTS: u64 = 4;

/// The time that a lease lasts beyond its span, in usual slots.
const GRACE: u64 = 3;

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

    /// The age from which on time is not lent any more, whether a worker had it or none: the burst of the limit, and at least what
    /// leases take to come back.
    pub(super) fn age(&self, rate: u64, burst: Bytes) -> u64 {
        let usual = self.slot.get().saturating_mul(AGE);
        let usual = usual.max(self.slots(rate).full.saturating_mul(AGE_OF_SEGMENTS));
        usual.max(BitsPerSec(rate).time_for(burst).get())
    }

    /// The time that a lease lasts beyond its span.
    fn grace(&self, rate: u64) -> u64 {
        self.slots(rate).full.max(self.slot.get().saturating_mul(GRACE))
    }

    /// The most bytes above a limit of `rate` and `burst` in any span, over all workers. What is sent in the span was taken from
    /// the limit's time not long before: it was lent before it was too old, as a lease of up to two slots that ends after its span,
    /// some grace and an exchange; and a slot that begins in the span may end after it. No time is lent before it begins.
    pub fn excess(&self, rate: BitsPerSec, burst: Bytes) -> Bytes {
        let Slots { full, .. } = self.slots(rate.get());
        let (age, grace) = (self.age(rate.get(), burst), self.grace(rate.get()));
        let late = full.saturating_mul(3).saturating_add(age).saturating_add(grace);
        rate.bytes_in(Nanos(late.saturating_add(self.period.get()))) + self.segment
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

/// Bytes that are lent to the engine.
#[derive(Clone, Copy, Debug)]
struct Lent {
    bytes: u64,
    since: Instant,
    until: u64,
    /// Its time: some that this worker took, and some that others returned. The oldest is sent first.
    parts: Parts,
}

/// A slot that was taken and is not lent yet.
#[derive(Clone, Copy, Debug)]
struct Slot {
    start: u64,
    span: u64,
}

/// The exchanges that a slot shall last at the pace of the lease before it, if that was used up: it could have been longer.
const MORE: u64 = 2;

/// The exchanges after which a lease is given back if nothing of it is sent, though packets wait for it.
const STILL: u32 = 4;

/// The same, if no packets wait for it.
const IDLE: u32 = 1;

/// A worker's lease of one limit.
#[derive(Debug)]
pub(super) struct Lease {
    id: LimitId,
    burst: Bytes,
    /// The rate of the present lease.
    rate: u64,
    /// The span of the next slot, by the pace of the last lease.
    span: u64,
    /// Billionths of a bit that were taken and are less than a byte, or less than a nanosecond at the rate.
    fraction: u64,
    lent: Option<Lent>,
    pending: Option<Slot>,
    /// The bytes spent at the last exchange, and the number of exchanges since they changed.
    seen: u64,
    still: u32,
    counters: LeaseCounters,
}

/// The end of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ended {
    /// Its bytes were sent, or will be before the next exchange.
    UsedUp,
    /// It was returned before.
    Unused,
}

/// The packets at a worker that pass a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Demand {
    /// No packets.
    None,
    /// Some lane has packets.
    Some,
    /// A parked lane waits for the limit.
    Waiting,
    /// There are some, and others' packets are before them: no more is taken.
    HeldBack,
}

/// The circumstances of an exchange of leases.
#[derive(Clone, Copy)]
pub(super) struct Exchange<'a> {
    pub(super) settings: &'a Settings,
    pub(super) line: &'a LimitLine,
    pub(super) demand: Demand,
    pub(super) now: Instant,
    /// The number of workers, at least one.
    pub(super) workers: u64,
    /// The bytes of the longest slot to take, unless that of a segment is longer.
    pub(super) most: Bytes,
}

impl Lease {
    /// The lease of a worker that has none, whose engine may send nothing.
    pub(super) fn new(
        id: LimitId,
        burst: Bytes,
        line: &LimitLine,
        tree: &mut impl Purse,
        now: Instant,
    ) -> Self {
        tree.lend(id, None, now);
        Self {
            id,
            burst,
            rate: line.rate(),
            span: 0,
            fraction: 0,
            lent: None,
            pending: None,
            seen: 0,
            still: 0,
            counters: LeaseCounters::default(),
        }
    }

    /// One exchange. Returns the beginning of a slot that is pending.
    pub(super) fn exchange(&mut self, with: Exchange<'_>, tree: &mut impl Purse) -> Option<Instant> {
        let ended = self.look(with, tree);
        // No other worker takes time that lies there, so a lane whose turn is rare keeps a lease for it.
        let renewed = ended == Some(Ended::Unused) && with.line.next() <= with.now.as_nanos();
        self.look_at_pending(with);
        let begun = self.pending.is_some_and(|slot| slot.start <= with.now.as_nanos());
        let wanted = match with.demand {
            Demand::None => false,
            Demand::Some => ended == Some(Ended::UsedUp) || begun || renewed,
            Demand::HeldBack => begun,
            Demand::Waiting => true,
        };
        if self.lent.is_none() && wanted {
            self.take(with, tree);
        }
        let start = self.pending?.start;
        (start > with.now.as_nanos()).then(|| Instant::from_nanos(start))
    }

    /// Whether a lease began at `now`.
    pub(super) fn is_new(&self, now: Instant) -> bool {
        self.lent.is_some_and(|lent| lent.since == now)
    }

    /// The bytes of a lease that began at `now`.
    pub(super) fn new_bytes(&self, now: Instant) -> Bytes {
        Bytes(self.lent.filter(|lent| lent.since == now).map_or(0, |lent| lent.bytes))
    }

    /// Takes a lease of `need` bytes, of time that is there now, for a lane that has as many of another limit.
    pub(super) fn complete(&mut self, with: Exchange<'_>, need: Bytes, tree: &mut impl Purse) {
        if let Some(Lent { bytes, since, parts, .. }) = self.lent {
            let spent = tree.spent(self.id, since);
            let left = bytes.saturating_sub(spent.get());
            if left >= need.get() {
                return;
            }
            tree.lend(self.id, None, with.now);
            self.lent = None;
            self.counters.spent += spent;
            self.give_back_work(with, u128::from(left) * u128::from(BIT_NANOS_PER_BYTE), parts);
        }
        let kept = self.span;
        self.span = BitsPerSec(with.line.rate()).time_for(need).get();
        self.take(with, tree);
        self.span = kept;
    }

    /// Whether a slot was taken that has not begun, and nothing is lent.
    pub(super) fn is_pending(&self, now: Instant) -> bool {
        self.lent.is_none() && self.pending.is_some_and(|slot| slot.start > now.as_nanos())
    }

    /// Gives back a slot that has begun and that no lane waits for, or whose time has passed. One that has not begun is kept: no
    /// other could use it now. It is of any rate, since it is time, unless it is less than a segment.
    fn look_at_pending(&mut self, with: Exchange<'_>) {
        let Some(Slot { start, span }) = self.pending.filter(|slot| slot.start <= with.now.as_nanos()) else {
            return;
        };
        let rate = with.line.rate();
        let late = with.now.as_nanos() - start > with.settings.age(rate, self.burst);
        let short = span < with.settings.slots(rate).least;
        if late || short || (with.demand == Demand::None && self.lent.is_none()) {
            self.pending = None;
            self.give_back(with, (span, start));
        }
    }

    /// Ends a lease that is used up or soon will be, that has expired, or that is of another rate.
    fn look(&mut self, with: Exchange<'_>, tree: &mut impl Purse) -> Option<Ended> {
        let Lent { bytes, since, until, parts } = self.lent?;
        let spent = tree.spent(self.id, since).get();
        let left = bytes.saturating_sub(spent);
        // What an exchange takes at this pace would not last until the next one.
        let pace =
            with.settings.period.get().saturating_mul(spent) / with.now.saturating_since(since).get().max(1);
        let soon = with.demand != Demand::None && spent > self.seen && left < pace;
        let used_up = soon || left < with.settings.segment.get();
        self.still = if spent == self.seen { self.still + 1 } else { 0 };
        self.seen = spent;
        let patience = if with.demand == Demand::None { IDLE } else { STILL };
        if !used_up && self.still < patience && with.now.as_nanos() <= until && with.line.rate() == self.rate
        {
            return None;
        }
        tree.lend(self.id, None, with.now);
        self.lent = None;
        self.counters.spent += Bytes(spent);
        let exchanges = if used_up { MORE } else { 1 };
        self.span = self.next_span(with, spent, with.now.saturating_since(since), exchanges);
        self.give_back_work(with, u128::from(left) * u128::from(BIT_NANOS_PER_BYTE), parts);
        Some(if used_up { Ended::UsedUp } else { Ended::Unused })
    }

    /// The span of a slot for some exchanges, at the pace of a lease of which `spent` bytes were sent in `lasted`.
    fn next_span(&self, with: Exchange<'_>, spent: u64, lasted: Nanos, exchanges: u64) -> u64 {
        let slots = with.settings.slots(self.rate);
        let ahead = with.settings.period.get().saturating_mul(exchanges);
        let work = u128::from(spent) * u128::from(BIT_NANOS_PER_BYTE) / u128::from(self.rate);
        let span = work.saturating_mul(u128::from(ahead)) / u128::from(lasted.get().max(1));
        u64::try_from(span).unwrap_or(u64::MAX).clamp(slots.least, slots.full)
    }

    /// Gives back time worth `work` billionths of a bit, and the fraction.
    fn give_back_work(&mut self, with: Exchange<'_>, work: u128, mut parts: Parts) {
        let work = work + u128::from(self.fraction);
        let rate = u128::from(self.rate);
        let mut span = u64::try_from(work / rate).unwrap_or(u64::MAX);
        self.fraction = u64::try_from(work % rate).unwrap_or(0);
        let oldest = parts.oldest();
        while let Some(part) = parts.remove_newest(&mut span) {
            self.give_back(with, part);
        }
        // A nanosecond of fractions of earlier leases.
        if let (Some(origin), true) = (oldest, span > 0) {
            self.give_back(with, (span, origin));
        }
    }

    fn give_back(&mut self, with: Exchange<'_>, (span, origin): (u64, u64)) {
        let age = with.settings.age(self.rate, self.burst);
        self.counters.returned += Nanos(span);
        let lost = with.line.give_back((span, origin), with.now.as_nanos(), age);
        self.counters.forfeited += Nanos(lost);
    }

    /// Lends returned time, and the limit's next time if more is wanted; this is lent when it begins.
    fn take(&mut self, with: Exchange<'_>, tree: &mut impl Purse) {
        let rate = with.line.rate();
        if rate != self.rate {
            // Less than a byte at the former rate.
            (self.rate, self.fraction) = (rate, 0);
        }
        let now = with.now.as_nanos();
        let slots = with.settings.slots(rate);
        self.span = self.span.clamp(slots.least, slots.full);
        // Time that no worker took is for longer leases: lanes wait less. Those of all workers shall not outlast it.
        let idle = now.saturating_sub(with.line.next()).min(with.settings.age(rate, self.burst));
        if idle >= slots.full {
            self.span = self.span.max(idle / with.workers).max(2 * slots.least).min(slots.full);
        }
        if with.most < Bytes(u64::MAX) {
            self.span = self.span.min(BitsPerSec(rate).time_for(with.most).get().max(slots.least));
        }
        let begun = self.pending.is_some_and(|slot| slot.start <= now);
        let mut returned = Returned::default();
        if !begun {
            returned = self.take_returned(with, (slots.least, self.span));
        }
        if self.pending.is_none() && returned.span < self.span {
            let span = (self.span - returned.span).max(slots.least);
            let start = with.line.take(span, now.saturating_sub(with.settings.age(rate, self.burst)));
            self.counters.slots += 1;
            self.counters.taken += Nanos(span);
            self.pending = Some(Slot { start, span });
        }
        let own = self.pending.take_if(|slot| slot.start <= now);
        if let (Some(slot), 0) = (own, returned.span) {
            returned = self.take_returned(with, (1, slot.span));
        }
        let mut parts = returned.parts;
        if let Some(slot) = own {
            parts.add(slot.span, slot.start);
        }
        if parts.span() > 0 {
            self.lend(with, parts, tree);
        }
    }

    /// Takes time that others returned.
    fn take_returned(&mut self, with: Exchange<'_>, span: (u64, u64)) -> Returned {
        let age = with.settings.age(self.rate, self.burst);
        let taken = with.line.take_returned(span, with.now.as_nanos(), age);
        self.counters.taken += Nanos(taken.span);
        self.counters.forfeited += Nanos(taken.lost);
        taken
    }

    fn lend(&mut self, with: Exchange<'_>, parts: Parts, tree: &mut impl Purse) {
        let span = parts.span();
        let work = u128::from(span) * u128::from(self.rate) + u128::from(self.fraction);
        let byte = u128::from(BIT_NANOS_PER_BYTE);
        let bytes = u64::try_from(work / byte).unwrap_or(u64::MAX);
        self.fraction = u64::try_from(work % byte).unwrap_or(0);
        let expires = span.saturating_add(with.settings.grace(self.rate));
        let until = with.now.as_nanos().saturating_add(expires);
        tree.lend(self.id, Some(Bytes(bytes).saturating_sub(with.settings.segment)), with.now);
        (self.seen, self.still) = (0, 0);
        self.lent = Some(Lent { bytes, since: with.now, until, parts });
    }

    /// Gives back what is left, and lets the engine send at the limit's own rate again. A slot that has not begun is forfeited,
    /// since no worker may have it now.
    pub(super) fn leave(&mut self, with: Exchange<'_>, tree: &mut impl Purse) {
        if let Some(Lent { bytes, since, parts, .. }) = self.lent.take() {
            let spent = tree.spent(self.id, since);
            self.counters.spent += spent;
            let left = u128::from(bytes.saturating_sub(spent.get()));
            self.give_back_work(with, left * u128::from(BIT_NANOS_PER_BYTE), parts);
        }
        if let Some(Slot { start, span }) = self.pending.take() {
            if start <= with.now.as_nanos() {
                self.give_back(with, (span, start));
            } else {
                self.counters.returned += Nanos(span);
                self.counters.forfeited += Nanos(span);
            }
        }
        tree.end_lending(self.id, BitsPerSec(with.line.rate()), self.burst, with.now);
    }

    /// Whether this worker has nothing of the limit.
    pub(super) fn is_at_rest(&self) -> bool {
        self.lent.is_none() && self.pending.is_none()
    }

    /// The counters, without what the present lease has spent.
    pub(super) fn counters(&self) -> LeaseCounters {
        self.counters
    }

    /// The bytes that the present lease has spent.
    pub(super) fn spending(&self, tree: &impl Purse) -> Bytes {
        self.lent.map_or(Bytes::ZERO, |lent| tree.spent(self.id, lent.since))
    }

    /// The billionths of a bit that this worker has of the limit's time and has not sent.
    pub(super) fn holds(&self, tree: &impl Purse) -> u128 {
        let pending = self.pending.map_or(0, |slot| u128::from(slot.span) * u128::from(self.rate));
        let lent = self.lent.map_or(0, |lent| {
            let left = lent.bytes.saturating_sub(tree.spent(self.id, lent.since).get());
            u128::from(left) * u128::from(BIT_NANOS_PER_BYTE)
        });
        pending + lent + u128::from(self.fraction)
    }
}
