//! Fair queueing with controlled delay (`fq_codel`, RFC 8290).

use super::Qdisc;
use super::codel::{Codel, Head};
use super::hash::mix;
use super::store::{List, Store};
use crate::segment::{Backlog, Dequeued, Segment};
use std::collections::VecDeque;
use weft_units::Nanos;

/// Number of queues (`fq_codel_init`; RFC 8290, section 5.2.5).
pub const FLOWS: u16 = 1024;

/// The maximum number of segments in total (`fq_codel_init`; RFC 8290, section 5.2.3).
pub const LIMIT: u32 = 10_240;

/// Credit of a queue per round, bytes: `psched_mtu` of an Ethernet device (RFC 8290, section 5.2.4).
pub const QUANTUM: u32 = 1514;

/// The maximum number of segments dropped at once when the limit is exceeded (`drop_batch_size`).
const DROP_BATCH: u32 = 64;

/// The absence of a queue.
const NONE: u16 = u16::MAX;

/// A queue.
#[derive(Clone, Copy, Debug)]
struct Flow {
    list: List,
    /// The remaining bytes of this round.
    deficit: i64,
    /// Whether it is in one of the two lists.
    listed: bool,
    codel: Codel,
}

/// Flows are hashed to queues that take turns, new ones before old ones, and CoDel drops at each queue's head. Memory is not
/// limited. Nothing is marked, because a [`Segment`] does not state its ECN capability.
#[derive(Clone, Debug)]
pub struct FqCodel {
    perturbation: u64,
    limit: u32,
    /// By hash: its queue, after its first segment. An empty queue keeps its CoDel state.
    table: Vec<u16>,
    flows: Vec<Flow>,
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    store: Store,
    backlog: Backlog,
}

impl FqCodel {
    /// Creates one with the kernel's defaults, and a hash that depends on `perturbation`.
    pub fn new(perturbation: u64) -> Self {
        Self::with_limit(LIMIT, perturbation)
    }

    /// Creates one that holds at most `limit` segments.
    pub fn with_limit(limit: u32, perturbation: u64) -> Self {
        Self {
            perturbation,
            limit,
            table: vec![NONE; usize::from(FLOWS)],
            flows: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            store: Store::new(),
            backlog: Backlog::default(),
        }
    }

    /// Returns the queue of a segment's flow.
    fn queue_of(&mut self, segment: &Segment) -> u16 {
        let hash = mix(self.perturbation, segment.flow.0) % u64::from(FLOWS);
        let entry = &mut self.table[hash as usize];
        if *entry == NONE {
            *entry = u16::try_from(self.flows.len()).expect("a queue per hash");
            self.flows.push(Flow { list: List::EMPTY, deficit: 0, listed: false, codel: Codel::default() });
        }
        *entry
    }

    /// Drops from the head of the queue with the most bytes until half of them or a batch are dropped (`fq_codel_drop`). The
    /// linear search, as in the kernel, is amortised over a batch of segments.
    fn drop_fattest(&mut self, dropped: &mut Vec<Segment>) {
        let holding = self.flows.iter_mut().filter(|flow| flow.list.backlog.segments > 0);
        let Some(flow) =
            holding.reduce(|a, b| if b.list.backlog.bytes > a.list.backlog.bytes { b } else { a })
        else {
            return;
        };
        let threshold = flow.list.backlog.bytes.get() / 2;
        let (mut segments, mut bytes) = (0, 0);
        while let Some((segment, _)) = self.store.pop_front(&mut flow.list) {
            self.backlog.take(&segment);
            dropped.push(segment);
            segments += 1;
            bytes += u64::from(segment.len);
            if segments >= DROP_BATCH || bytes >= threshold {
                break;
            }
        }
        flow.codel.dropped_for_room(segments);
    }
}

impl Qdisc for FqCodel {
    fn enqueue(&mut self, segment: Segment, now: Nanos, dropped: &mut Vec<Segment>) {
        let index = self.queue_of(&segment);
        let flow = &mut self.flows[usize::from(index)];
        self.store.push_back(&mut flow.list, segment, now);
        self.backlog.add(&segment);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = QUANTUM.into();
            self.new.push_back(index);
        }
        if self.backlog.segments > self.limit {
            self.drop_fattest(dropped);
        }
    }

    fn dequeue(&mut self, now: Nanos, dropped: &mut Vec<Segment>) -> Dequeued {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let Some(&index) = list.front() else { return Dequeued::Empty };
            let flow = &mut self.flows[usize::from(index)];
            if flow.deficit <= 0 {
                flow.deficit += i64::from(QUANTUM);
                list.pop_front();
                self.old.push_back(index);
                continue;
            }
            let (store, backlog, queue) = (&mut self.store, &mut self.backlog, &mut flow.list);
            let pop = || {
                let (segment, at) = store.pop_front(queue)?;
                backlog.take(&segment);
                Some(Head { segment, at, rest: backlog.bytes })
            };
            if let Some(segment) = flow.codel.dequeue(now, pop, dropped) {
                flow.deficit -= i64::from(segment.len);
                return Dequeued::Segment(segment);
            }
            list.pop_front();
            // A new queue that empties passes through the old ones once, to prevent starvation of the old ones.
            if is_new && !self.old.is_empty() {
                self.old.push_back(index);
            } else {
                flow.listed = false;
            }
        }
    }

    fn backlog(&self) -> Backlog {
        self.backlog
    }

    fn walk(&self, visit: &mut dyn FnMut(&Segment)) {
        self.flows.iter().for_each(|flow| self.store.walk(&flow.list, visit));
    }
}
