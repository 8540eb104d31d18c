//! Packets below user-defined algorithms: their metadata, and a dequeue step by step, in which a packet may be dropped.
//!
//! Metadata lies beside the slab, at the same places, so that other packets do not grow by it. The first packet's is with
//! the tree's flow.

use weft_rank::{Metadata, Metadatum};
use weft_units::{Bytes, FlowId, Instant};

use super::{Departure, Dequeue, Descriptor, EnqueueError, PacketScheduler, Place, Queue, Waiting, advance};
use crate::script::leaf::Verdict;
use crate::script::node::one;
use crate::tree::{FlowHead, Next, Turn};

impl PacketScheduler {
    /// Enqueues a packet of `flow` at `now`, as [`PacketScheduler::enqueue`], with what is known of it. Length and arrival
    /// are filled in. A user-defined algorithm may rank by the rest; elsewhere it is ignored.
    ///
    /// # Errors
    /// As [`PacketScheduler::enqueue`].
    pub fn enqueue_with(
        &mut self,
        flow: FlowId,
        descriptor: Descriptor,
        metadata: &Metadata,
        now: Instant,
    ) -> Result<(), EnqueueError> {
        match self.tree.standing_of(flow) {
            Some((lane, active)) if self.tree.is_scripted(lane) => {
                self.lanes[lane.index()].admit(lane, descriptor.len)?;
                self.accept(flow, descriptor, active, metadata, now);
                Ok(())
            }
            _ => self.enqueue(flow, descriptor, now),
        }
    }

    /// Enqueues a packet that was counted, below a user-defined algorithm.
    #[cold]
    pub(super) fn accept(
        &mut self,
        flow: FlowId,
        descriptor: Descriptor,
        active: bool,
        metadata: &Metadata,
        now: Instant,
    ) {
        let metadata =
            metadata.with(Metadatum::Length, descriptor.len.get()).with(Metadatum::Arrived, now.as_nanos());
        self.tree.observe(now);
        let arrival = self.tree.tick();
        let waiting = Waiting { descriptor, arrival };
        if active {
            let at = self.append(flow, waiting) as usize;
            if self.metadata.len() <= at {
                self.metadata.resize(at + 1, Metadata::UNKNOWN);
            }
            self.metadata[at] = metadata;
            self.tree.arrived(flow, &metadata);
        } else {
            self.queues[flow.index()].first = waiting;
            self.tree.activate_packet(flow, arrival, &metadata);
        }
    }

    /// Dequeues the next packet, whose turn is below a user-defined algorithm.
    #[cold]
    pub(super) fn dequeue_scripted(&mut self, now: Instant) -> Dequeue {
        let turn = match self.tree.next(now) {
            Next::Turn(turn) => turn,
            Next::Wait(until) => return Dequeue::Wait(until),
            Next::Idle => return Dequeue::Empty,
        };
        let head = self.tree.head_of(turn.flow());
        // A stale turn cannot be: it is the one just begun.
        let verdict = self.tree.fetched(&turn, &head, now).unwrap_or(Verdict::Send);
        let departure = self.take(turn, verdict, now);
        self.marked = verdict == Verdict::Mark;
        if verdict == Verdict::Drop { Dequeue::Drop(departure) } else { Dequeue::Packet(departure) }
    }

    /// Takes the first packet of a turn from its queue, and ends the turn.
    fn take(&mut self, turn: Turn, verdict: Verdict, now: Instant) -> Departure {
        let (flow, lane) = (turn.flow(), turn.lane());
        let queue = &mut self.queues[flow.index()];
        let (descriptor, second) = (queue.first.descriptor, queue.second as usize);
        let next = advance(queue, &mut self.slab, &mut self.free);
        let metadata = self.metadata.get(second).copied().unwrap_or(Metadata::UNKNOWN);
        let next_len = queue.first.descriptor.len;
        self.lanes[lane.index()].counters.left.add(descriptor.len);
        let sent = if verdict == Verdict::Drop {
            self.dropped[lane.index()].add(descriptor.len);
            Bytes::ZERO
        } else {
            descriptor.len
        };
        let next = next.map(|arrival| (arrival, metadata.with(Metadatum::Length, next_len.get())));
        let ended = self.tree.finish_packet(turn, (sent, sent), one(Some(descriptor.len)), next, now);
        debug_assert!(ended.is_ok(), "the turn is the outstanding one");
        Departure { flow, lane, descriptor }
    }

    /// Whether the packet dequeued last is to be marked as having experienced congestion.
    pub fn marked(&self) -> bool {
        self.marked
    }
}

/// The first packet of a flow that no algorithm ordered so far, and what waits in the flow.
pub(super) fn waiting(queue: &Queue, slab: &[Place]) -> FlowHead {
    let first = queue.first;
    let mut queued = one(Some(first.descriptor.len));
    let mut next = queue.second;
    while let Some(place) = slab.get(next as usize) {
        queued.add(place.waiting.descriptor.len);
        next = place.next;
    }
    let packet = Metadata::UNKNOWN.with(Metadatum::Length, first.descriptor.len.get());
    FlowHead { packet, arrival: first.arrival, queued }
}
