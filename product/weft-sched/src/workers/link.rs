//! A link that the workers share: one wire, whose rate is what all of them together may send.
//!
//! Its time is divided as a limit's is (module `lease`), but it is no limit of the tree: lanes that wait for the link are not parked,
//! so they keep their turns, and their classes take part in the shares. A worker asks its handle before a turn
//! ([`Worker::may_send`](super::Worker::may_send)) and reports what it sent ([`Worker::has_sent`](super::Worker::has_sent)).
//!
//! **Shares over one wire.** Each worker sends, of the classes that it has, the one furthest behind. It cannot see whether that is
//! behind those of the others. So a worker whose classes all lead over some that others serve is *held back*: it takes no more
//! of the link's time, unless no worker has taken that for half of the age after which time is void. Its slots end where its
//! classes would lead. Thus a class has its share of the wire, whichever worker serves it, and no time is lost that a worker
//! can use.

use weft_units::{BitsPerSec, Bytes, Instant, LimitId};

use super::Shared;
use super::leading::LeadingClasses;
use super::lease::{Demand, Exchange, Lease, Purse};
use super::sync::Ordering;
use crate::tree::PolicyTree;

/// The bytes that a worker may send on the link.
#[derive(Clone, Copy, Debug, Default)]
struct Gate {
    allowance: Option<Bytes>,
    spent: Bytes,
}

impl Purse for Gate {
    fn lend(&mut self, _: LimitId, allowance: Option<Bytes>, _: Instant) {
        *self = Self { allowance, spent: Bytes::ZERO };
    }

    fn spent(&self, _: LimitId, _: Instant) -> Bytes {
        self.spent
    }

    fn end_lending(&mut self, _: LimitId, _: BitsPerSec, _: Bytes, _: Instant) {
        self.allowance = None;
    }
}

/// A worker's part of the link.
#[derive(Debug)]
pub(super) struct Link {
    lease: Lease,
    gate: Gate,
    leading: LeadingClasses,
    /// Whether a turn has waited for the link since the last exchange.
    waits: bool,
}

impl Link {
    /// The part of a worker that has nothing yet. `None` if the workers share no link.
    pub(super) fn new(shared: &Shared, now: Instant) -> Option<Self> {
        let mut gate = Gate::default();
        let line = shared.link.as_ref()?;
        let lease = Lease::new(LimitId(u32::MAX), Bytes::ZERO, line, &mut gate, now);
        let of = (BitsPerSec(line.rate()), shared.settings);
        let leading = LeadingClasses::new((&shared.program, &shared.layout), &shared.classes, of);
        Some(Self { lease, gate, leading, waits: false })
    }

    /// Whether a packet may begin. If not, it waits for the next exchange.
    pub(super) fn may_send(&mut self) -> bool {
        let open = self.gate.allowance.is_some_and(|allowance| self.gate.spent <= allowance);
        self.waits |= !open;
        open
    }

    pub(super) fn has_sent(&mut self, bytes: Bytes) {
        self.gate.spent += bytes;
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.lease.is_at_rest()
    }

    /// One exchange. Returns the beginning of a slot that is pending.
    pub(super) fn exchange(&mut self, shared: &Shared, tree: &PolicyTree, now: Instant) -> Option<Instant> {
        let (line, settings) = (shared.link.as_ref()?, &shared.settings);
        self.leading.look(&shared.classes, tree, now);
        let wanted = match (core::mem::take(&mut self.waits), tree.active_flows()) {
            (_, 0) => Demand::None,
            (true, _) => Demand::Waiting,
            (false, _) => Demand::Some,
        };
        let half = settings.age(line.rate(), Bytes::ZERO) / 2;
        let others_use_it = !line.is_left(now.as_nanos().saturating_sub(half));
        let held = wanted != Demand::None && others_use_it && self.leading.all_lead(tree);
        let demand = if held { Demand::HeldBack } else { wanted };
        let workers = shared.workers.load(Ordering::Relaxed).max(1);
        let most = if others_use_it { self.leading.room(tree) } else { Bytes(u64::MAX) };
        self.lease.exchange(Exchange { settings, line, demand, now, workers, most }, &mut self.gate)
    }

    /// Gives back what this worker has.
    pub(super) fn leave(&mut self, shared: &Shared, now: Instant) {
        let Some(line) = shared.link.as_ref() else { return };
        let (settings, most) = (&shared.settings, Bytes(u64::MAX));
        let with = Exchange { settings, line, demand: Demand::None, now, workers: 1, most };
        self.lease.leave(with, &mut self.gate);
    }
}
