//! The engine of a multiqueue NIC: the scheduler of its queues, and the page by which a program that assigns queues asks for
//! weights and pieces, and sees what the NIC holds.
//!
//! # Weights
//! The writer changes a queue's weight and then sets `changed_ns` from 0 to its time. The NIC reads the time, then the
//! weight, and clears the time when it has applied the weight. If the weight is another by then, its writer may have found
//! the time still set: so the NIC sets it again. A time of 0 therefore means that the NIC knows the weight, or that the
//! writer has yet to set it; and no weight is missed in any case, since the NIC compares weights and not times.
//!
//! # What is held
//! Only one packet at a time is between its ring and the wire. One that is sent whole is written to its end before another is read,
//! so nothing can overtake it, and it needs not be announced. One that may be cut waits for turns with its rest: `fetching`
//! says of which queue, from before it is read until it has been written to its end, or counts as held under its flow. So whoever
//! sees that `fetching` is not a flow's queue, and the flow's `held` 0, after its packets have left the rings, knows that
//! nothing which leaves a ring from then on comes before them.
//!
//! Whether a packet may be cut is decided before it is read. Reading it frees it, upon which its sender sends the next at
//! once, within the same call (TSQ, `tcp_wfree`): a flow that is announced then, though it has nothing else under way, keeps its
//! queue, and two flows that once share a queue would share it for ever.

use super::SegmentsPerTurn;
use super::engine::{Decision, Engine};
use crate::counters::Counters;
use crate::sync::{AtomicU64, Ordering};
use core::num::NonZeroU32;
use core::ops::Deref;
use weft_packet::segment::SuperPacket;
use weft_sched::queues::{DEFAULT_CREDIT, Service, Turn};
use weft_sched::{QueueScheduler, WeightUpdates};
use weft_titan::page::{self, LoadWord, QueuePage};
use weft_units::{Bytes, FlowId, FlowKey, Instant, Nanos, TxQueueId};

/// How often the page is looked at, at most: a look costs two loads for each queue.
const LOOK: Nanos = Nanos::from_micros(50);

/// The engine.
#[derive(Debug)]
pub(crate) struct QueueEngine<P> {
    scheduler: QueueScheduler,
    page: P,
    /// How the queues are served while no weights are asked for.
    configured: Service,
    updates: WeightUpdates,
    next_look: Instant,
    /// Pieces are asked for in all queues, and a queue is shared; as of the last look.
    any_shared: bool,
    /// While a packet is read: whether it may be cut.
    cut: Option<bool>,
}

impl<P: Deref<Target = QueuePage>> QueueEngine<P> {
    pub(crate) fn new(scheduler: QueueScheduler, page: P) -> Self {
        let (configured, queues) = (scheduler.service(), scheduler.queues());
        let updates = WeightUpdates::new(queues, Nanos::ZERO);
        Self { scheduler, page, configured, updates, next_look: Instant::ZERO, any_shared: false, cut: None }
    }

    fn is_shared(&self, queue: TxQueueId) -> bool {
        self.page.load(queue).flows > 1
    }

    /// Whether packets of a ring are cut now: Titan's dynamic segmentation offload sizing, at the stage of the qdisc
    /// (ATC 2017, section 3.3).
    fn cuts(&self, ring: FlowId) -> bool {
        let asked = self.page.segment_bytes.load(Ordering::Relaxed) > 0;
        asked && (self.any_shared || self.is_shared(self.queue_of(ring)))
    }

    /// Serves the queues by the page's weights.
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

    /// Serves the queues as configured, all of the same weight.
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

/// A queue's load, and the time of its first change.
fn of_queue(page: &QueuePage, queue: TxQueueId) -> Option<(&LoadWord, &AtomicU64)> {
    page.loads.get(queue.index()).zip(page.changed_ns.get(queue.index()))
}

/// Clears the time of a change whose weight has been applied; see the module's documentation.
fn acknowledge((load, time): (&LoadWord, &AtomicU64), applied: u64, changed: Instant, now: Instant) {
    let cleared = time.compare_exchange(changed.as_nanos(), 0, Ordering::SeqCst, Ordering::SeqCst);
    if cleared.is_ok() && load.get().weight != applied {
        // Whoever was faster has set the better time.
        let _ = time.compare_exchange(0, now.as_nanos(), Ordering::SeqCst, Ordering::SeqCst);
    }
}

impl<P: Deref<Target = QueuePage>> Engine for QueueEngine<P> {
    type Turn = Turn;

    fn activate(&mut self, flow: FlowId) -> bool {
        self.scheduler.activate(flow)
    }

    fn next(&mut self, _now: Instant) -> Decision<Turn> {
        self.scheduler.next().map_or(Decision::Idle, |turn| Decision::Turn(turn.flow(), turn))
    }

    /// A plain multiqueue NIC shares by bytes, or by packets.
    fn finish(&mut self, turn: Turn, sent: Bytes, _share: Bytes, backlogged: bool, _now: Instant) {
        // The turn is the one that `next` has just given.
        let _ = self.scheduler.finish(turn, sent, backlogged);
    }

    fn queue_of(&self, flow: FlowId) -> TxQueueId {
        self.scheduler.queue_of(flow).unwrap_or(TxQueueId(0))
    }

    /// Whole, unless pieces are asked for and more than one flow is active in the queue. A piece is whole segments, at least one.
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
        // What has no flow is assigned by nobody.
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
