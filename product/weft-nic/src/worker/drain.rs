//! Rings that must drain: a flow that has moved to another class sends nothing there before the packets that it left in its
//! former ring have gone (`held_back` in bpf/moves.h). The former class may not get a turn for long, such as below a busy
//! priority. So the wait has a limit:
//!
//! 1. A core that refuses a packet of such a flow writes the flow's lane, and the count until which it waits, beside the
//!    doorbell of the former ring (`await_ring`).
//! 2. The sweep notes since when a ring is awaited ([`Drains::look`]).
//! 3. After the limit the ring is *escorted*: the class that takes the flow sends the ring's packets up to that count, in their
//!    order and at its own expense. Nothing is dropped, and nothing overtakes. Then the ring is its class's again.
//!
//! A ring whose class passes a limit that the other class does not pass is not escorted: the limit would not hold. Such a
//! ring continues at the pace of its limit.

use super::{Engine, Worker};
use crate::layout::awaited;
use crate::records::RecordSource;
use crate::sync::Ordering;
use weft_units::{Instant, LaneId, Nanos};

/// A ring that flows wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Drain {
    slot: usize,
    since: Instant,
    /// The lane that takes the flow, and the count until which it waits.
    lane: LaneId,
    until: u64,
    /// The ring's own lane, while it is escorted.
    home: Option<LaneId>,
}

/// The next step of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The limit is over: the ring's packets go by this lane.
    Escort(LaneId),
    /// The packets have gone: the ring goes back to this lane.
    Home(LaneId),
}

/// The rings that flows wait for.
#[derive(Debug, Default)]
pub(super) struct Drains(Vec<Drain>);

impl Drains {
    /// Looks at ring `slot`, of which `done` packets are completed, at `now`. `awaited` is what a flow waits for, for at most
    /// `limit`.
    pub(super) fn look(
        &mut self,
        slot: usize,
        (done, awaited): (u64, Option<(LaneId, u64)>),
        (now, limit): (Instant, Nanos),
    ) -> Option<Step> {
        let awaited = awaited.filter(|(_, until)| *until > done);
        let Some(at) = self.0.iter().position(|drain| drain.slot == slot) else {
            if let Some((lane, until)) = awaited {
                self.0.push(Drain { slot, since: now, lane, until, home: None });
            }
            return None;
        };
        let drain = &mut self.0[at];
        match (drain.home, awaited) {
            // Flows that have begun to wait since have their own limit.
            (Some(home), _) if done >= drain.until => {
                self.0.swap_remove(at);
                Some(Step::Home(home))
            }
            (Some(_), _) => None,
            (None, None) => {
                self.0.swap_remove(at);
                None
            }
            (None, Some((lane, until))) => {
                (drain.lane, drain.until) = (lane, until);
                (now.saturating_since(drain.since) > limit).then_some(Step::Escort(lane))
            }
        }
    }

    /// Records that ring `slot`, whose own lane is `home`, is escorted.
    pub(super) fn escorted(&mut self, slot: usize, home: LaneId) {
        if let Some(drain) = self.0.iter_mut().find(|drain| drain.slot == slot) {
            drain.home = Some(home);
        }
    }

    /// Forgets ring `slot`.
    pub(super) fn forget(&mut self, slot: usize) {
        self.0.retain(|drain| drain.slot != slot);
    }

    /// The number of rings, and the time since which the first has been waited for.
    fn longest(&self) -> (usize, Option<Instant>) {
        (self.0.len(), self.0.iter().map(|drain| drain.since).min())
    }
}

impl<R: RecordSource, E: Engine> Worker<'_, R, E> {
    /// Looks at the rings in `slots`.
    pub(super) fn look_at_drains(&mut self, slots: core::ops::Range<usize>, wall: Instant) {
        let limit = Nanos(self.parts.counters.drain_limit.get());
        for slot in slots {
            let ring = &self.rings[slot];
            let awaited = awaited(ring.awaited().load(Ordering::Relaxed));
            if awaited.is_some() && ring.fd.is_some() {
                match self.drains.look(slot, (ring.accounting.done(), awaited), (wall, limit)) {
                    Some(Step::Escort(lane)) => self.escort(slot, lane),
                    Some(Step::Home(lane)) => self.put_ring(slot, lane),
                    None => {}
                }
            }
        }
        let (count, since) = self.drains.longest();
        let counters = &self.parts.counters;
        counters.draining.set(count as u64);
        counters.draining_for.set(since.map_or(0, |since| wall.saturating_since(since).get()));
    }

    /// Lets ring `slot` go by `lane`, if it then passes all limits of its own lane.
    fn escort(&mut self, slot: usize, lane: LaneId) {
        let home = self.rings[slot].lane;
        if self.engine.may_escort(home, lane) {
            self.put_ring(slot, lane);
            self.drains.escorted(slot, home);
            self.parts.counters.escorts.add(1, 0);
        }
    }

    /// Gives all escorted rings back to their own lanes and forgets who waits, before the lanes change: their numbers may
    /// mean others then. A flow that still waits says so with its next packet, and its wait begins anew.
    pub(super) fn end_drains(&mut self) {
        for Drain { slot, home, .. } in core::mem::take(&mut self.drains.0) {
            self.rings[slot].awaited().store(0, Ordering::Relaxed);
            if let Some(home) = home {
                self.put_ring(slot, home);
            }
        }
    }

    /// Moves ring `slot` to `lane`.
    fn put_ring(&mut self, slot: usize, lane: LaneId) {
        let ring = &mut self.rings[slot];
        self.engine.move_ring(ring.flow, lane);
        ring.lane = lane;
        if let Some(device) = self.parts.device.as_mut() {
            device.move_ring(slot, lane, ring.backlogged);
        }
    }
}

#[cfg(test)]
mod tests;
