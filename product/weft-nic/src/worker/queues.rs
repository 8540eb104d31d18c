//! The engine of a multiqueue NIC: the scheduler of its queues, and the page shared with a program that assigns queues.
//! By the page the program requests weights and segmentation, and sees the packets held in the NIC.
//!
//! # Weights
//! 1. The writer changes a queue's weight, then sets `changed_ns` from 0 to the current time.
//! 2. The NIC reads the time, then the weight.
//! 3. The NIC applies the weight and clears the time.
//! 4. If the weight has changed since, its writer may have found the time still set, so the NIC sets it again.
//!
//! A time of 0 therefore means that the NIC has applied the weight, or that the writer has yet to set the time. No
//! weight is missed in either case, since the NIC compares weights, not times.
//!
//! # Held packets
//! At most one packet is between its ring and the wire without being held.
//! * A packet sent whole is written completely before the next is read, so it cannot be overtaken and is not announced.
//! * A packet that may be cut waits for further turns. `fetching` names its queue from before it is read until it has
//!   been written completely or counts as held under its flow.
//!
//! Consider a reader who sees, after a flow's packets have left the rings, that `fetching` is not the flow's queue and
//! that the flow's `held` is 0. No packet that leaves a ring from then on can precede one of the flow's earlier
//! packets.
//!
//! Whether a packet may be cut is decided before it is read. The read frees the packet, and its sender sends the next
//! one within the same call (TSQ, `tcp_wfree`). If that flow were announced at that time, it would keep its queue
//! although it had nothing else outstanding, and two flows that once shared a queue would share it for ever.

use super::SegmentsPerTurn;
use super::engine::{Decision, Engine, RingError};
use crate::counters::Counters;
use crate::sync::{AtomicU64, Ordering};
use core::num::NonZeroU32;
use core::ops::Deref;
use weft_packet::segment::SuperPacket;
use weft_rank::Metadata;
use weft_sched::queues::{DEFAULT_CREDIT, Service, Turn};
use weft_sched::{QueueScheduler, WeightUpdates};
use weft_titan::page::{self, LoadWord, QueuePage};
use weft_units::{Bytes, FlowId, FlowKey, Instant, LaneId, Nanos, RingId, TxQueueId};

/// The minimum interval of polls of the page. A poll costs two loads per queue.
const LOOK: Nanos = Nanos::from_micros(50);

/// The engine.
#[derive(Debug)]
pub(crate) struct QueueEngine<P> {
    scheduler: QueueScheduler,
    rings_per_queue: usize,
    page: P,
    /// The service order of the queues while no weights are requested.
    configured: Service,
    updates: WeightUpdates,
    next_look: Instant,
    /// Whether segmentation is requested in all queues and a queue is shared, as of the last poll.
    any_shared: bool,
    /// Whether the packet being read may be cut.
    cut: Option<bool>,
}

impl<P: Deref<Target = QueuePage>> QueueEngine<P> {
    /// The engine of `scheduler`, each of whose queues has `rings_per_queue` rings.
    pub(crate) fn new(scheduler: QueueScheduler, rings_per_queue: usize, page: P) -> Self {
        let (configured, queues) = (scheduler.service(), scheduler.queues());
        let updates = WeightUpdates::new(queues, Nanos::ZERO);
        Self {
            scheduler,
            rings_per_queue,
            page,
            configured,
            updates,
            next_look: Instant::ZERO,
            any_shared: false,
            cut: None,
        }
    }

    fn is_shared(&self, queue: TxQueueId) -> bool {
        self.page.load(queue).flows > 1
    }

    /// Whether packets of a ring are cut now: Titan's dynamic segmentation offload sizing, in the place of the qdisc
    /// (ATC 2017, section 3.3).
    fn cuts(&self, ring: FlowId) -> bool {
        let asked = self.page.segment_bytes.load(Ordering::Relaxed) > 0;
        asked && (self.any_shared || self.is_shared(self.queue_of(ring)))
    }

    /// Applies the page's weights to the queues.
    fn take_weights(&mut self, wall: Instant, counters: &Counters) {
        let credit = match self.configured {
            Service::Deficit { credit } => credit,
            Service::RoundRobin => DEFAULT_CREDIT,
        };
        self.scheduler.set_service(Service::Deficit { credit });
        let page = &*self.page;
        self.updates.set_interval(Nanos(page.update_interval_ns.load(Ordering::Relaxed)));
        let read = |queue: TxQueueId| {
            let Some((load, changed)) = of_queue(page, queue) else { return (0, None) };
            let changed = changed.load(Ordering::SeqCst);
            (load.get().weight, (changed != 0).then_some(Instant::from_nanos(changed)))
        };
        for update in self.updates.take(wall, read) {
            // The scheduler has as many queues as the updates.
            let _ = self.scheduler.set_weight(update.queue, update.weight);
            if let (Some(queue), Some(changed)) = (of_queue(page, update.queue), update.changed_at) {
                acknowledge(queue, update.weight, changed, wall);
            }
        }
        let staleness = self.updates.staleness();
        counters.weights_taken.set(staleness.count);
        counters.weights_age.set(staleness.sum.get());
        counters.weights_age_max.set(staleness.max.get());
    }

    /// Restores the configured service order, with equal weights.
    fn forget_weights(&mut self) {
        self.scheduler.set_service(self.configured);
        if self.updates.applied().iter().any(|weight| *weight != 0) {
            self.updates.reset();
            for queue in 0..self.scheduler.queues() {
                let _ = self.scheduler.set_weight(TxQueueId::from_index(queue), 0);
            }
        }
    }
}

/// The load of a queue, and the time of its first change.
fn of_queue(page: &QueuePage, queue: TxQueueId) -> Option<(&LoadWord, &AtomicU64)> {
    page.loads.get(queue.index()).zip(page.changed_ns.get(queue.index()))
}

/// Clears the time of a change whose weight was applied; the module's documentation has the protocol.
fn acknowledge((load, time): (&LoadWord, &AtomicU64), applied: u64, changed: Instant, now: Instant) {
    let cleared = time.compare_exchange(changed.as_nanos(), 0, Ordering::SeqCst, Ordering::SeqCst);
    if cleared.is_ok() && load.get().weight != applied {
        // A writer that was faster has set the better time.
        let _ = time.compare_exchange(0, now.as_nanos(), Ordering::SeqCst, Ordering::SeqCst);
    }
}

impl<P: Deref<Target = QueuePage>> Engine for QueueEngine<P> {
    type Turn = Turn;

    fn add_ring(&mut self, _lane: LaneId, ring: RingId) -> Result<FlowId, RingError> {
        let queue = TxQueueId::from_index(ring.index() / self.rings_per_queue.max(1));
        Ok(self.scheduler.add_flow(queue)?)
    }

    /// The flow stays, idle for ever: a multiqueue NIC has one port, whose rings go with it.
    fn remove_ring(&mut self, _flow: FlowId) {}

    fn activate(&mut self, flow: FlowId, _packet: &Metadata, _now: Instant) -> bool {
        self.scheduler.activate(flow)
    }

    fn next(&mut self, _now: Instant) -> Decision<Turn> {
        self.scheduler.next().map_or(Decision::Idle, |turn| Decision::Turn(turn.flow(), turn))
    }

    /// A plain multiqueue NIC shares by bytes, or by packets.
    fn finish(&mut self, turn: Turn, sent: Bytes, _share: Bytes, next: Option<&Metadata>, _now: Instant) {
        // The turn is the outstanding one: `next` has just returned it.
        let _ = self.scheduler.finish(turn, sent, next.is_some());
    }

    fn queue_of(&self, flow: FlowId) -> TxQueueId {
        self.scheduler.queue_of(flow).unwrap_or(TxQueueId(0))
    }

    /// Whole packets, unless segmentation is requested and more than one flow is active in the queue. A chunk is whole
    /// segments, at least one.
    fn segments_per_turn(&self, flow: FlowId, packet: &SuperPacket) -> Option<SegmentsPerTurn> {
        if !self.cut.unwrap_or_else(|| self.cuts(flow)) {
            return Some(SegmentsPerTurn::Whole);
        }
        let bytes = u64::from(self.page.segment_bytes.load(Ordering::Relaxed));
        let segments = bytes.checked_div(packet.segment_payload().get()).unwrap_or(1);
        Some(SegmentsPerTurn::AtMost(NonZeroU32::new(segments as u32).unwrap_or(NonZeroU32::MIN)))
    }

    fn look(&mut self, wall: Instant, counters: &Counters) {
        if wall < self.next_look {
            return;
        }
        self.next_look = wall + LOOK;
        let all = self.page.segment_all.load(Ordering::Relaxed) == 1;
        self.any_shared =
            all && (0..self.scheduler.queues()).any(|q| self.is_shared(TxQueueId::from_index(q)));
        if self.page.use_weights.load(Ordering::Acquire) == 1 {
            self.take_weights(wall, counters);
        } else {
            self.forget_weights();
        }
    }

    fn fetch_begins(&mut self, ring: FlowId, sent_later: bool) {
        let cut = sent_later || self.cuts(ring);
        self.cut = Some(cut);
        if cut {
            self.page.fetching.store(u64::from(self.queue_of(ring).0) + 1, Ordering::SeqCst);
        }
    }

    fn fetch_ends(&mut self) {
        if self.cut.take() == Some(true) {
            self.page.fetching.store(0, Ordering::SeqCst);
        }
    }

    fn hold(&mut self, flow: impl FnOnce() -> Option<FlowKey>) -> Option<u16> {
        // A packet without a flow has no queue assignment.
        let slot = page::held_slot(&flow()?);
        let held = self.page.held.get(slot)?;
        self.page.holding.fetch_add(1, Ordering::SeqCst);
        held.fetch_add(1, Ordering::SeqCst);
        u16::try_from(slot).ok()
    }

    fn release(&mut self, held: Option<u16>) {
        if let Some(count) = held.and_then(|slot| self.page.held.get(usize::from(slot))) {
            count.fetch_sub(1, Ordering::SeqCst);
            self.page.holding.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests;
