//! Stochastic fair queueing, after the kernel's `sch_sfq`.

use super::Qdisc;
use super::hash::mix;
use super::store::{List, Store};
use crate::segment::{Backlog, Dequeued, Segment, StreamId};
use std::collections::VecDeque;
use weft_units::{Bytes, Nanos};

/// The default number of hash buckets (`SFQ_DEFAULT_HASH_DIVISOR`).
pub const DEFAULT_DIVISOR: u16 = 1024;

/// The default number of slots, and so of simultaneous flows (`SFQ_DEFAULT_FLOWS`).
pub const DEFAULT_FLOWS: u16 = 128;

/// The maximum number of segments in one slot, and by default in total (`SFQ_MAX_DEPTH`).
pub const MAX_DEPTH: u16 = 127;

/// The default quantum: `psched_mtu` of an Ethernet device, in bytes.
pub const DEFAULT_QUANTUM: u64 = 1514;

/// Unit of credits in bytes, rounded up per segment (`SFQ_ALLOT_SHIFT`).
const ALLOT_UNIT: u64 = 8;

/// The maximum number of slots (`SFQ_MAX_FLOWS`).
const MAX_FLOWS: u16 = u16::MAX - MAX_DEPTH;

/// The absence of a slot (`SFQ_EMPTY_SLOT`).
const NONE: u16 = u16::MAX;

/// Parameters of the discipline (`tc_sfq_qopt_v1`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SfqParameters {
    /// Credit of a slot per round. A value below the MTU works, but needs many rounds per segment.
    pub quantum: Bytes,
    /// The maximum number of segments in total, at least 1.
    pub limit: u32,
    /// The maximum number of segments of one slot, 1 to [`MAX_DEPTH`].
    pub depth: u16,
    /// The maximum number of slots in use; segments of a further flow are dropped.
    pub flows: u16,
    /// Number of hash buckets, at least 1.
    pub divisor: u16,
}

impl SfqParameters {
    /// Returns the kernel's defaults (`sfq_init`) with this quantum.
    pub const fn new(quantum: Bytes) -> Self {
        let (depth, flows, divisor) = (MAX_DEPTH, DEFAULT_FLOWS, DEFAULT_DIVISOR);
        Self { quantum, limit: MAX_DEPTH as u32, depth, flows, divisor }
    }
}

/// A slot: the FIFO of the flows of one bucket.
#[derive(Clone, Copy, Debug)]
struct Slot {
    list: List,
    /// Remaining credit of this round, in [`ALLOT_UNIT`]s.
    allot: i64,
    bucket: u16,
    /// Neighbours among the slots with the same number of segments.
    previous: u16,
    next: u16,
}

/// Stochastic fair queueing. Flows are hashed into buckets, and backlogged buckets take turns by deficit. A slot sends while its
/// `allot` is positive, so it may overdraw by almost a segment, and waits for it later. Two details of `sfq_dequeue` matter.
/// `allot` counts units of eight bytes, rounded up per segment. A slot that empties is released with its debt, so a flow whose
/// queue often empties gets a new quantum each time.
#[derive(Clone, Debug)]
pub struct Sfq {
    parameters: SfqParameters,
    perturbation: u64,
    /// Credit per round, in [`ALLOT_UNIT`]s.
    quantum: i64,
    /// By bucket: its slot.
    table: Vec<u16>,
    slots: Vec<Slot>,
    free: Vec<u16>,
    /// The slots in the round, the one with the current turn first.
    round: VecDeque<u16>,
    /// By number of segments: a chain of the slots with this number (`dep`).
    by_depth: Vec<u16>,
    /// Number of segments of the longest slot.
    deepest: u16,
    store: Store,
    backlog: Backlog,
}

impl Sfq {
    /// Creates an empty one; parameters are clamped to their ranges. Its hash depends on `perturbation`, which does not change.
    pub fn new(parameters: SfqParameters, perturbation: u64) -> Self {
        let depth = parameters.depth.clamp(1, MAX_DEPTH);
        let flows = parameters.flows.clamp(1, MAX_FLOWS);
        // A limit beyond the capacity of all slots has no effect (`sfq_change`).
        let limit = parameters.limit.clamp(1, u32::from(depth) * u32::from(flows));
        let divisor = parameters.divisor.max(1);
        let quantum = parameters.quantum.get().div_ceil(ALLOT_UNIT).clamp(1, u32::MAX.into());
        Self {
            parameters: SfqParameters { depth, flows, limit, divisor, ..parameters },
            perturbation,
            quantum: i64::try_from(quantum).expect("clamped to 32 bits"),
            table: vec![NONE; usize::from(divisor)],
            slots: Vec::new(),
            free: Vec::new(),
            round: VecDeque::new(),
            by_depth: vec![NONE; usize::from(depth) + 1],
            deepest: 0,
            store: Store::new(),
            backlog: Backlog::default(),
        }
    }

    /// Returns the hash bucket of a flow; the discipline treats flows of one bucket as one.
    pub fn bucket(&self, flow: StreamId) -> u16 {
        let bucket = mix(self.perturbation, flow.0) % u64::from(self.parameters.divisor);
        u16::try_from(bucket).expect("the divisor has 16 bits")
    }

    /// Returns the slot of a bucket, a new one if necessary; `None` if all are in use.
    fn slot_of(&mut self, bucket: u16) -> Option<u16> {
        let slot = self.table[usize::from(bucket)];
        if slot != NONE {
            return Some(slot);
        }
        let fresh = Slot { list: List::EMPTY, allot: 0, bucket, previous: NONE, next: NONE };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[usize::from(slot)] = fresh;
            slot
        } else if self.slots.len() < usize::from(self.parameters.flows) {
            self.slots.push(fresh);
            // One entry per slot, so that releasing slots never allocates.
            self.free.reserve(self.slots.len());
            u16::try_from(self.slots.len() - 1).expect("fewer than MAX_FLOWS")
        } else {
            return None;
        };
        self.table[usize::from(bucket)] = slot;
        Some(slot)
    }

    /// Releases an empty slot that has left the round.
    fn forget(&mut self, slot: u16) {
        self.table[usize::from(self.slots[usize::from(slot)].bucket)] = NONE;
        self.free.push(slot);
    }

    fn depth(&self, slot: u16) -> u16 {
        u16::try_from(self.slots[usize::from(slot)].list.backlog.segments).expect("at most MAX_DEPTH")
    }

    /// Moves a slot that held `before` segments to the chain of its current number (`sfq_inc`, `sfq_dec`).
    fn depth_changed(&mut self, slot: u16, before: u16) {
        if before > 0 {
            let Slot { previous, next, .. } = self.slots[usize::from(slot)];
            match previous {
                NONE => self.by_depth[usize::from(before)] = next,
                _ => self.slots[usize::from(previous)].next = next,
            }
            if next != NONE {
                self.slots[usize::from(next)].previous = previous;
            }
        }
        let depth = self.depth(slot);
        if depth > 0 {
            let head = std::mem::replace(&mut self.by_depth[usize::from(depth)], slot);
            if head != NONE {
                self.slots[usize::from(head)].previous = slot;
            }
            let entry = &mut self.slots[usize::from(slot)];
            (entry.previous, entry.next) = (NONE, head);
        }
        if depth > self.deepest || (self.deepest == before && self.by_depth[usize::from(before)] == NONE) {
            self.deepest = depth;
        }
    }

    /// Drops the last segment of the longest slot (`sfq_drop`). If all hold one, that of the slot with the current turn.
    fn drop_longest(&mut self, dropped: &mut Vec<Segment>) {
        let slot = match self.deepest {
            0 => return,
            1 => self.round.pop_front().expect("slots that hold something are in the round"),
            depth => self.by_depth[usize::from(depth)],
        };
        let before = self.depth(slot);
        let last = self
            .store
            .pop_back(&mut self.slots[usize::from(slot)].list)
            .expect("the longest holds something");
        self.depth_changed(slot, before);
        if before == 1 {
            self.forget(slot);
        }
        self.backlog.take(&last);
        dropped.push(last);
    }
}

impl Qdisc for Sfq {
    fn enqueue(&mut self, segment: Segment, now: Nanos, dropped: &mut Vec<Segment>) {
        let Some(slot) = self.slot_of(self.bucket(segment.flow)) else {
            dropped.push(segment);
            return;
        };
        let before = self.depth(slot);
        if before >= self.parameters.depth {
            dropped.push(segment);
            return;
        }
        self.store.push_back(&mut self.slots[usize::from(slot)].list, segment, now);
        self.depth_changed(slot, before);
        if before == 0 {
            self.slots[usize::from(slot)].allot = self.quantum;
            self.round.push_back(slot);
        }
        self.backlog.add(&segment);
        if self.backlog.segments > self.parameters.limit {
            self.drop_longest(dropped);
        }
    }

    fn dequeue(&mut self, _: Nanos, _: &mut Vec<Segment>) -> Dequeued {
        let slot = loop {
            let Some(&front) = self.round.front() else { return Dequeued::Empty };
            let entry = &mut self.slots[usize::from(front)];
            if entry.allot > 0 {
                break front;
            }
            entry.allot += self.quantum;
            self.round.rotate_left(1);
        };
        let before = self.depth(slot);
        let entry = &mut self.slots[usize::from(slot)];
        let (segment, _) =
            self.store.pop_front(&mut entry.list).expect("a slot in the round holds something");
        entry.allot -= i64::from(segment.len.div_ceil(ALLOT_UNIT as u32));
        self.depth_changed(slot, before);
        if before == 1 {
            self.round.pop_front();
            self.forget(slot);
        }
        self.backlog.take(&segment);
        Dequeued::Segment(segment)
    }

    fn is_forgetful(&self) -> bool {
        true
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn walk(&self, visit: &mut dyn FnMut(&Segment)) {
        self.slots.iter().for_each(|slot| self.store.walk(&slot.list, visit));
    }
}
