//! The urgent classes: those that use less than the policy guarantees them, and that may overdraw the link's clock.
//!
//! A device is often faster than the rate that it is limited to, and has long sent the packet that still keeps the link's
//! clock busy. To hold a small request until that packet's time is over costs it latency and helps no other class. An urgent
//! class is therefore served although the link is busy, as long as the clock is less than [`OVERDRAW`] ahead of the wall
//! clock. The clock advances by what is sent, so the rate holds in the mean, and the engine's order does not change: only a
//! lane that is next in turn is served. HTB does the same for a class within its rate (`htb_class_mode`, net/sched/sch_htb.c).
//!
//! Only what other classes have sent is overdrawn. A class that waits behind its own packets gains nothing when the clock runs
//! further ahead: it would wait the longer, and in one piece, when it has used its guarantee.
//!
//! A class is urgent while its bytes stay below seven eighths of its guaranteed rate, over [`DEPTH`]. The measure
//! is the generic cell rate algorithm (ITU-T I.371): `used` is the time up to which the class has used its rate. A
//! class with a standing backlog uses its whole guarantee and more, so it is never urgent for long, and the overdraft
//! stays free for others. A class that was not urgent becomes so again after half of the depth.
//!
//! Ownership: the worker owns this state. When a class becomes urgent or ceases to be, the worker writes its rings' bits
//! to the pages of the ports before its next sleep ([`Urgency::take_changed`]). There the eBPF program reads which doorbells
//! wake a worker that sleeps until the link is free.
//!
//! Counters: turns on overdraft (`overdrawn`), and the furthest that the clock was ahead (`ahead_max`).

use weft_sched::Program;
use weft_sched::guarantee::guaranteed_rates;
use weft_units::{BitsPerSec, Bytes, Instant, LaneId, Nanos};

/// The most that the link's clock may be ahead of the wall clock when an urgent turn begins. The turn itself is cut to
/// the time that is left, or to one segment. So the link's clock is never further ahead than this and one frame, and a
/// class gains at most the bytes of this span, once, over a link that holds every packet for its time.
pub(crate) const OVERDRAW: Nanos = Nanos::from_millis(2);
/// The span over which a class may use its guarantee at once.
const DEPTH: Nanos = Nanos::from_millis(10);
/// The least depth, for classes with a low guarantee, in bytes.
const DEPTH_MIN: Bytes = Bytes(4 * 1538);
/// The time that an urgent class counts as active after a turn.
const ACTIVE: Nanos = Nanos::from_millis(100);

/// The use that a leaf of the policy makes of its guarantee.
#[derive(Clone, Debug)]
struct LeafUse {
    /// Seven eighths of the guaranteed rate.
    rate: BitsPerSec,
    depth: Nanos,
    /// The time up to which the rate is used.
    used: Instant,
    urgent: bool,
}

impl LeafUse {
    fn set_rate(&mut self, guaranteed: BitsPerSec) {
        self.rate = BitsPerSec(guaranteed.get() / 8 * 7);
        self.depth = DEPTH.max(self.rate.time_for(DEPTH_MIN));
    }

    /// Takes back the urgency of a leaf that uses more, and restores it after half the depth. Returns whether it changed.
    fn settle(&mut self, now: Instant) -> bool {
        let ahead = self.used.saturating_since(now);
        let bound = if self.urgent { self.depth } else { Nanos(self.depth.get() / 2) };
        let urgent = self.rate != BitsPerSec::ZERO && ahead <= bound;
        core::mem::replace(&mut self.urgent, urgent) != urgent
    }
}

/// The urgency of the rings of a policy.
#[derive(Debug)]
pub(crate) struct Urgency {
    program: Program,
    leaves: Vec<LeafUse>,
    /// By slot of the worker's rings.
    leaf_of_ring: Vec<usize>,
    /// The leaves whose urgency has changed since the last call of [`Self::take_changed`].
    changed: Vec<usize>,
    /// The end of the time in which an urgent class counts as active.
    active_until: Instant,
    turns: Turns,
}

/// The classes whose bytes the link's clock counts.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    /// The leaf of the last turn.
    leaf: usize,
    /// The link's clock after its last turn.
    clock: Instant,
    /// The link's clock after the last turn of another leaf.
    others: Instant,
}

impl Urgency {
    /// The urgency of the classes of `program`, without rings, on a link of `rate`; without a rate no class is urgent.
    pub(crate) fn new(program: Program, rate: Option<BitsPerSec>) -> Self {
        let none = LeafUse { rate: BitsPerSec::ZERO, depth: DEPTH, used: Instant::ZERO, urgent: false };
        let leaves = vec![none; program.leaves.len().max(1)];
        let (leaf_of_ring, changed) = (Vec::new(), Vec::new());
        let (active_until, turns) = (Instant::ZERO, Turns::default());
        let mut urgency = Self { program, leaves, leaf_of_ring, changed, active_until, turns };
        if let Some(rate) = rate {
            urgency.set_rate(rate);
        }
        urgency
    }

    /// Takes over what the classes of `old` have used, as far as they are the same, and the memory for its rings. The leaves
    /// of both have the same numbers where they have the same names.
    pub(crate) fn take_over(&mut self, old: &mut Self) {
        let names = self.program.leaves.iter().zip(&old.program.leaves);
        for ((leaf, before), (name, name_before)) in self.leaves.iter_mut().zip(&old.leaves).zip(names) {
            if name.name == name_before.name {
                (leaf.used, leaf.urgent) = (before.used, before.urgent);
            }
        }
        core::mem::swap(&mut self.leaf_of_ring, &mut old.leaf_of_ring);
        self.active_until = old.active_until;
        self.turns = old.turns;
    }

    /// Sets the lane of `ring`, a new one. Returns its leaf.
    pub(crate) fn add_ring(&mut self, ring: usize, lane: LaneId) -> usize {
        let leaf = self.program.lanes.get(lane.index()).map_or(0, |lane| lane.leaf.index());
        if self.leaf_of_ring.len() <= ring {
            self.leaf_of_ring.resize(ring + 1, 0);
        }
        self.leaf_of_ring[ring] = leaf;
        // So that its bit is written.
        note(&mut self.changed, leaf);
        leaf
    }

    /// Divides a link of `rate` anew.
    pub(crate) fn set_rate(&mut self, rate: BitsPerSec) {
        for (leaf, guaranteed) in self.leaves.iter_mut().zip(guaranteed_rates(&self.program, rate)) {
            leaf.set_rate(guaranteed);
        }
    }

    /// Whether `ring` belongs to an urgent class.
    pub(crate) fn is_urgent(&self, ring: usize) -> bool {
        self.leaf_of_ring.get(ring).is_some_and(|leaf| self.is_urgent_leaf(*leaf))
    }

    fn is_urgent_leaf(&self, leaf: usize) -> bool {
        self.leaves.get(leaf).is_some_and(|leaf| leaf.urgent)
    }

    /// Whether the lane `lane` belongs to an urgent class while the link is busy at `now` with what others have sent.
    pub(crate) fn may_overdraw(&self, lane: LaneId, now: Instant) -> bool {
        let Some(leaf) = self.program.lanes.get(lane.index()).map(|lane| lane.leaf.index()) else {
            return false;
        };
        let others = if leaf == self.turns.leaf { self.turns.others } else { self.turns.clock };
        self.is_urgent_leaf(leaf) && now < others
    }

    /// Calls `write` for each leaf whose urgency may have changed since the last call.
    pub(crate) fn take_changed(&mut self, mut write: impl FnMut(usize, bool)) {
        while let Some(leaf) = self.changed.pop() {
            write(leaf, self.is_urgent_leaf(leaf));
        }
    }

    /// Whether an urgent class has sent lately while another class did.
    pub(crate) fn is_active(&self, now: Instant) -> bool {
        now < self.active_until
    }

    /// Charges the class of `ring` with `bytes`, after which the link's clock shows `clock`.
    pub(crate) fn charge(&mut self, ring: usize, bytes: Bytes, (now, clock): (Instant, Instant)) {
        let Some(number) = self.leaf_of_ring.get(ring).copied() else { return };
        if number != self.turns.leaf && bytes > Bytes::ZERO {
            (self.turns.leaf, self.turns.others) = (number, self.turns.clock);
        }
        self.turns.clock = clock;
        let Some(leaf) = self.leaves.get_mut(number) else { return };
        if leaf.rate == BitsPerSec::ZERO {
            return;
        }
        if leaf.urgent {
            self.active_until = now + ACTIVE;
        }
        // Twice the depth is remembered: a class that pauses is urgent again soon.
        let most = now + leaf.depth + leaf.depth;
        leaf.used = (leaf.used.max(now) + leaf.rate.time_for(bytes)).min(most);
        if leaf.settle(now) {
            note(&mut self.changed, number);
        }
    }

    /// Settles all classes at `now`.
    pub(crate) fn settle(&mut self, now: Instant) {
        for (number, leaf) in self.leaves.iter_mut().enumerate() {
            if leaf.settle(now) {
                note(&mut self.changed, number);
            }
        }
    }
}

/// Adds a leaf to the changed ones, once: a device without sleeps never takes them.
fn note(changed: &mut Vec<usize>, leaf: usize) {
    if !changed.contains(&leaf) {
        changed.push(leaf);
    }
}

#[cfg(test)]
mod tests;
