//! The urgent classes: those that use less than the policy guarantees them, and for which the link's clock may be
//! overdrawn.
//!
//! A device is often faster than the rate that it is limited to, and has long sent the packet for which the link's
//! clock still counts as busy. To hold a small request until that packet's time is over costs it latency and gains
//! nobody anything. An urgent class is therefore served although the link is busy, as long as the clock is less than
//! [`OVERDRAW`] ahead of the wall clock. The clock advances by what is sent, so the rate holds in the mean, and the
//! engine's order does not change: only a lane that is next in turn is served. HTB does the same for a class within its
//! rate (`htb_class_mode`, net/sched/sch_htb.c).
//!
//! A class is urgent while its bytes stay below seven eighths of its guaranteed rate, over [`DEPTH`]. The measure
//! is the generic cell rate algorithm (ITU-T I.371): `used` is the time up to which the class has used its rate. A
//! class with a standing backlog uses its whole guarantee and more, so it is never urgent for long, and the overdraft
//! stays free for others. A class that was not urgent becomes so again after half of the depth.
//!
//! Ownership: the worker owns this state, and copies the rings' bits to the shared page, where the eBPF program reads
//! for which doorbells it wakes a worker that sleeps until the link is free.
//!
//! Counters: turns on overdraft (`overdrawn`), and the furthest that the clock was ahead (`ahead_max`).

use crate::doorbell::RINGS;
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
/// The time for which an urgent class counts as active after a turn.
const ACTIVE: Nanos = Nanos::from_millis(100);

/// The words of a set of rings.
pub(crate) type RingSet = [u64; RINGS / 64];

/// The use that a leaf of the policy makes of its guarantee.
#[derive(Clone, Debug)]
struct LeafUse {
    /// Seven eighths of the guaranteed rate.
    rate: BitsPerSec,
    depth: Nanos,
    /// The time up to which the rate is used.
    used: Instant,
    urgent: bool,
    rings: RingSet,
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
    leaf_of_ring: Vec<usize>,
    /// The urgent rings.
    rings: RingSet,
    /// The end of the time in which an urgent class counts as active.
    active_until: Instant,
}

impl Urgency {
    /// The urgency of rings with the lanes `lane_of_ring`, on a link of `rate`; without a rate no class is urgent.
    pub(crate) fn new(program: Program, lane_of_ring: &[LaneId], rate: Option<BitsPerSec>) -> Self {
        let leaf_of = |lane: LaneId| program.lanes.get(lane.index()).map_or(0, |lane| lane.leaf.index());
        let leaf_of_ring: Vec<usize> = lane_of_ring.iter().map(|lane| leaf_of(*lane)).collect();
        let none = LeafUse {
            rate: BitsPerSec::ZERO,
            depth: DEPTH,
            used: Instant::ZERO,
            urgent: false,
            rings: RingSet::default(),
        };
        let mut leaves = vec![none; program.leaves.len().max(1)];
        for (ring, leaf) in leaf_of_ring.iter().enumerate() {
            leaves[*leaf].rings[ring / 64] |= 1 << (ring % 64);
        }
        let rings = RingSet::default();
        let mut urgency = Self { program, leaves, leaf_of_ring, rings, active_until: Instant::ZERO };
        if let Some(rate) = rate {
            urgency.set_rate(rate);
        }
        urgency
    }

    /// Divides a link of `rate` anew.
    pub(crate) fn set_rate(&mut self, rate: BitsPerSec) {
        for (leaf, guaranteed) in self.leaves.iter_mut().zip(guaranteed_rates(&self.program, rate)) {
            leaf.set_rate(guaranteed);
        }
    }

    /// Whether `ring` belongs to an urgent class.
    pub(crate) fn is_urgent(&self, ring: usize) -> bool {
        self.rings.get(ring / 64).is_some_and(|word| word >> (ring % 64) & 1 == 1)
    }

    /// Whether the lane `lane` belongs to an urgent class.
    pub(crate) fn is_urgent_lane(&self, lane: LaneId) -> bool {
        let leaf = self.program.lanes.get(lane.index()).and_then(|lane| self.leaves.get(lane.leaf.index()));
        leaf.is_some_and(|leaf| leaf.urgent)
    }

    /// The urgent rings.
    pub(crate) fn rings(&self) -> &RingSet {
        &self.rings
    }

    /// Whether an urgent class has sent lately while another class did.
    pub(crate) fn is_active(&self, now: Instant) -> bool {
        now < self.active_until
    }

    /// Charges the class of `ring` with `bytes`.
    pub(crate) fn charge(&mut self, ring: usize, bytes: Bytes, now: Instant) {
        let Some(leaf) = self.leaf_of_ring.get(ring).and_then(|leaf| self.leaves.get_mut(*leaf)) else {
            return;
        };
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
            self.collect();
        }
    }

    /// Settles all classes at `now`.
    pub(crate) fn settle(&mut self, now: Instant) {
        let mut changed = false;
        for leaf in &mut self.leaves {
            changed |= leaf.settle(now);
        }
        if changed {
            self.collect();
        }
    }

    fn collect(&mut self) {
        self.rings = RingSet::default();
        for leaf in self.leaves.iter().filter(|leaf| leaf.urgent) {
            self.rings.iter_mut().zip(leaf.rings).for_each(|(word, of)| *word |= of);
        }
    }
}

#[cfg(test)]
mod tests;
