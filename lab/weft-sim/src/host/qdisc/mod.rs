//! The qdisc layer of a host: queue assignment, qdiscs, byte queue limits, and the hand-over to the NIC's rings.
//!
//! A segment's path:
//!
//! 1. `piece_size` decides whether dynamic segment sizing cuts it first: while streams share queues, segments are smaller.
//! 2. `send` picks the stream's queue (`choice`), charges the socket, and enqueues the segment into the queue's qdisc under the
//!    queue's lock.
//! 3. `begin_run` decides which core runs the qdisc, as `qdisc_run_begin` does: a core that finds it running leaves the work to
//!    the runner.
//! 4. `hand_over` moves segments from the qdisc to the ring while the byte queue limit and the ring have room. Without TSO the
//!    stack cuts them into packets here. A rate-limited qdisc returns a time, at which [`Event::Qdisc`] runs it again.
//! 5. `completed` reports freed bytes to the byte queue limit; `release` ends the socket's charge, and the stream leaves the
//!    queue with its last segment.
//!
//! Rules that must hold:
//!
//! * A stream keeps its queue while it has outstanding segments, so that they are not reordered.
//! * A socket's charge and a queue's occupancy count a segment from `send` until `release`, in the ring too.
//! * Each segment leaves through `hand_over` or through the list of dropped segments, and both end in `release`.
//!
//! The layer owns queues, qdiscs, occupancy and weights. Sockets and the pool of segments belong to the run and are passed in.
//!
//! Rare branches and their counters: a drop by a qdisc (`passed.dropped`, and the observer), a segment cut by dynamic sizing
//! ([`HostCounters::resegmented`](crate::outcome::HostCounters::resegmented)), a weight update
//! ([`HostCounters::weight_updates`](crate::outcome::HostCounters::weight_updates)). A superseded watchdog and a run left to another core
//! lose nothing and have no counter.

mod choice;
mod queue;
mod weights;

use crate::accounting::{Passed, Stage};
use crate::assignment::QueueAssignment;
use crate::cost::CostedOperation;
use crate::event::{Agenda, Event};
use crate::host::cpu::{Processors, Work};
use crate::host::nic::NicTransmit;
use crate::host::socket::{Socket, Stream};
use crate::ids::{CoreId, HostId, StreamId, Table};
use crate::packet::{Body, Outgoing, Skb, Skbs};
use crate::qdisc::Qdisc;
use crate::scenario::{ByteQueueLimit, DoorbellWrites};
use crate::segment::{Dequeued, Segment};
use choice::{Chosen, QueueChoice};
use queue::TransmitQueue;
use weft_units::{Bytes, Counted, Nanos, TxQueueId, Weight};
use weights::Weights;

pub(crate) use choice::Pools;
pub(crate) use queue::Runner;
pub(crate) use weights::WeightTiming;

/// The place where segments are cut into packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Segmentation {
    /// The NIC (TSO).
    Nic,
    /// The stack, before the ring.
    Stack,
}

/// Parameters of a qdisc layer.
pub(crate) struct QdiscParameters {
    pub(crate) byte_queue_limit: ByteQueueLimit,
    pub(crate) segmentation: Segmentation,
    /// The maximum size of segments while streams share queues (dynamic segmentation offload sizing).
    pub(crate) shared_size: Option<Bytes>,
    /// Timing of queue weights; `None` if the NIC has no weights.
    pub(crate) weights: Option<WeightTiming>,
    pub(crate) pools: Pools,
}

/// The environment of the layer's work: the processors, the current unit of work, the agenda, and the pool of segments.
pub(crate) struct Kernel<'a> {
    pub(crate) cpu: &'a mut Processors,
    pub(crate) work: &'a mut Work,
    pub(crate) agenda: &'a mut Agenda,
    pub(crate) skbs: &'a mut Skbs,
}

/// The result of a qdisc run.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Handed {
    pub(crate) segments: u64,
    /// Number of descriptors: of segments, or of the packets into which the stack has cut them.
    pub(crate) descriptors: u64,
    /// Number of changes of stream between consecutive segments.
    pub(crate) changes: u64,
}

impl Handed {
    /// Register writes that announce the descriptors of a run, which has handed over at least one.
    pub(crate) const fn doorbells(self, kind: DoorbellWrites) -> u64 {
        match kind {
            DoorbellWrites::None => 0,
            DoorbellWrites::PerBatch => 1,
            DoorbellWrites::PerFlow => 1 + self.changes,
            DoorbellWrites::PerSkb => self.descriptors,
        }
    }
}

/// The qdisc layer of a host.
pub(crate) struct QdiscLayer {
    host: HostId,
    queues: Table<TxQueueId, TransmitQueue>,
    choice: QueueChoice,
    weights: Option<Weights>,
    segmentation: Segmentation,
    shared_size: Option<Bytes>,
    passed: Passed,
    /// Segments dropped by a qdisc and not yet released.
    dropped: Vec<Segment>,
}

impl QdiscLayer {
    pub(crate) fn new(
        host: HostId,
        qdiscs: Vec<Box<dyn Qdisc>>,
        assignment: Box<dyn QueueAssignment>,
        parameters: QdiscParameters,
    ) -> Self {
        let queues = qdiscs.len() as u32;
        let limit = parameters.byte_queue_limit;
        Self {
            host,
            queues: qdiscs.into_iter().map(|qdisc| TransmitQueue::new(qdisc, limit)).collect(),
            choice: QueueChoice::new(queues, assignment, parameters.pools),
            weights: parameters.weights.map(|timing| Weights::new(queues, timing)),
            segmentation: parameters.segmentation,
            shared_size: parameters.shared_size,
            passed: Passed::default(),
            dropped: Vec::new(),
        }
    }

    /// Enqueues a segment into the qdisc of its stream's queue; returns both.
    pub(crate) fn send(
        &mut self,
        outgoing: &Outgoing,
        facts: &Stream,
        socket: &mut Socket,
        kernel: &mut Kernel<'_>,
    ) -> (TxQueueId, Segment) {
        let queue = self.queue_of(outgoing.stream, facts, socket, kernel);
        let skb = Skb::new(outgoing, kernel.work.now());
        socket.charged += u64::from(skb.truesize);
        let segment = Segment {
            skb: kernel.skbs.insert(skb),
            flow: outgoing.stream,
            len: outgoing.len(),
            packets: outgoing.packets() as u16,
            class: facts.class,
            band: facts.band,
            marked: false,
        };
        let state = &mut self.queues[queue];
        kernel.cpu.take_lock(&mut state.last_core, state.unlocked, kernel.work);
        let now = kernel.work.now();
        self.passed.entered += crate::accounting::of_segment(&segment);
        self.choice.occupancy[queue].bytes += Bytes(u64::from(segment.len));
        state.enqueue(segment, now, &mut self.dropped);
        state.unlocked = now;
        (queue, segment)
    }

    /// Returns the queue for a stream's next segment, and counts the segment.
    #[inline]
    fn queue_of(
        &mut self,
        stream: StreamId,
        facts: &Stream,
        socket: &mut Socket,
        kernel: &mut Kernel<'_>,
    ) -> TxQueueId {
        let chosen = self.choice.choose(stream, facts, socket);
        let queue = chosen.queue();
        socket.queue = Some(queue);
        if let Chosen::Dynamically(_) = chosen {
            kernel.cpu.charge(CostedOperation::AssignQueue, 1.0, kernel.work);
        }
        socket.outstanding += 1;
        if socket.outstanding == 1 {
            self.choice.enters(queue, facts.weight);
            self.weight_changes(queue, kernel.work.now(), kernel.agenda);
        }
        queue
    }

    #[inline]
    fn weight_changes(&mut self, queue: TxQueueId, now: Nanos, agenda: &mut Agenda) {
        if let Some(weights) = &mut self.weights {
            weights.changes(queue, self.host, now, agenda);
        }
    }

    /// Frees a segment: reduces its socket's charge, and its stream leaves the queue with its last segment.
    #[inline]
    pub(crate) fn release(
        &mut self,
        (queue, segment): (TxQueueId, &Segment),
        truesize: u32,
        (facts, socket): (&Stream, &mut Socket),
        now: Nanos,
        agenda: &mut Agenda,
    ) {
        self.choice.occupancy[queue].bytes -= Bytes(u64::from(segment.len));
        socket.charged -= u64::from(truesize);
        socket.outstanding -= 1;
        if socket.outstanding == 0 {
            self.choice.leaves(queue, facts.weight);
            self.weight_changes(queue, now, agenda);
        }
    }

    #[inline]
    pub(crate) const fn has_dropped(&self) -> bool {
        !self.dropped.is_empty()
    }

    /// Removes the dropped segments, which the caller releases. The caller returns the list for reuse of its memory.
    pub(crate) fn take_dropped(&mut self) -> Vec<Segment> {
        self.dropped.iter().for_each(|segment| self.passed.dropped += crate::accounting::of_segment(segment));
        std::mem::take(&mut self.dropped)
    }

    pub(crate) fn reuse_dropped(&mut self, mut list: Vec<Segment>) {
        list.clear();
        self.dropped = list;
    }

    /// Returns the size of a segment's pieces while streams share queues (Titan, ATC 2017, section 3.3); `None` if it is sent
    /// whole.
    #[inline]
    pub(crate) fn piece_size(&self, whole: &Outgoing) -> Option<u32> {
        let size = self.shared_size.filter(|_| self.choice.some_queue_is_shared())?;
        let Body::Data { .. } = whole.body else { return None };
        let packets = (size.0 / u64::from(whole.packet_payload + crate::packet::TCP_HEADERS)).max(1);
        let size = packets as u32 * whole.packet_payload;
        (whole.payload > size).then_some(size)
    }

    /// Returns the core that runs a queue's qdisc: the working core, or the one that is running it (`qdisc_run_begin`).
    #[inline]
    pub(crate) fn begin_run(&mut self, queue: TxQueueId, work: &Work) -> Runner {
        self.queues[queue].begin_run(work)
    }

    /// Ends a run of a queue's qdisc.
    #[inline]
    pub(crate) fn end_run(&mut self, queue: TxQueueId, work: &Work) {
        self.queues[queue].end_run(work);
    }

    /// Moves segments from a queue's qdisc to its ring while the byte queue limit and the ring have room (`__qdisc_run`). Each
    /// that enters the ring is noted with its time.
    pub(crate) fn hand_over(
        &mut self,
        queue: TxQueueId,
        nic: &mut NicTransmit,
        sockets: &mut Table<StreamId, Socket>,
        kernel: &mut Kernel<'_>,
        mut note: impl FnMut(&Segment, Nanos),
    ) -> Handed {
        let mut handed = Handed::default();
        let state = &mut self.queues[queue];
        while state.limit.available() && nic.has_room(queue) {
            match state.dequeue(kernel.work.now(), &mut self.dropped) {
                Dequeued::Segment(segment) => {
                    state.limit.queued(Bytes(u64::from(segment.len)));
                    let last = state.last_stream.replace(segment.flow);
                    handed.changes += u64::from(handed.segments > 0 && last != Some(segment.flow));
                    handed.segments += 1;
                    self.passed.left += crate::accounting::of_segment(&segment);
                    nic.count_in(&segment);
                    if self.segmentation == Segmentation::Nic || segment.packets == 1 {
                        handed.descriptors += 1;
                        note(&segment, kernel.work.now());
                        nic.push(queue, segment, kernel.work.event_time());
                    } else {
                        handed.descriptors += u64::from(segment.packets);
                        let at = kernel.work.event_time();
                        let push = |piece: Segment, now| {
                            note(&piece, now);
                            nic.push(queue, piece, at);
                        };
                        cut(segment, &mut sockets[segment.flow], kernel, push);
                    }
                }
                Dequeued::Wait(until) => {
                    if state.retries_at(until, kernel.work.event_time()) {
                        kernel.agenda.push(until, Event::Qdisc { host: self.host, queue });
                    }
                    break;
                }
                Dequeued::Empty => break,
            }
        }
        handed
    }

    /// Handles a queue's watchdog: returns the core that runs the qdisc; `None` if another time superseded this one.
    pub(crate) fn retry(&self, queue: TxQueueId, now: Nanos, cores: u32) -> Option<CoreId> {
        // The watchdog's timer runs in softirq on the queue's core.
        self.queues[queue].is_retry(now).then_some(CoreId(queue.0 % cores))
    }

    /// Counts a queue's bytes that were sent and freed in one batch (`netdev_tx_completed_queue`).
    #[inline]
    pub(crate) fn completed(&mut self, queue: TxQueueId, bytes: Bytes, now: Nanos) {
        self.queues[queue].limit.completed(bytes, now);
    }

    /// Starts an update of queue weights.
    pub(crate) fn begin_weights(&mut self, now: Nanos) {
        if let Some(weights) = &mut self.weights {
            weights.begin(now);
        }
    }

    /// Returns the next weight to write to the NIC.
    pub(crate) fn next_weight(&mut self) -> Option<(TxQueueId, Weight)> {
        self.weights.as_mut()?.next(&self.choice.occupancy)
    }

    /// Replaces all qdiscs.
    #[cfg(test)]
    pub(crate) fn replace_qdiscs(&mut self, make: impl Fn() -> Box<dyn Qdisc>) {
        self.queues.iter_mut().for_each(|queue| queue.replace_qdisc(make()));
    }
}

/// Cuts a segment into packets before the ring (`skb_gso_segment` in `validate_xmit_skb`), each with its own descriptor.
fn cut(segment: Segment, socket: &mut Socket, kernel: &mut Kernel<'_>, mut push: impl FnMut(Segment, Nanos)) {
    let packets = u32::from(segment.packets);
    kernel.cpu.charge(CostedOperation::SoftwareSegment, f64::from(packets), kernel.work);
    let whole = kernel.skbs.remove(segment.skb);
    socket.outstanding += packets - 1;
    // The charge is divided equally; the last piece takes the remainder.
    let share = whole.truesize / packets;
    for index in 0..packets {
        let payload = whole.packet_payload.min(whole.payload - index * whole.packet_payload);
        let truesize = if index + 1 == packets { whole.truesize - share * index } else { share };
        let body = whole.body.after(index);
        let skb = kernel.skbs.insert(Skb { body, payload, truesize, fetched: 0, ..whole });
        push(Segment { skb, len: body.frame(payload), packets: 1, ..segment }, kernel.work.now());
    }
}

impl Stage for QdiscLayer {
    fn name(&self) -> &'static str {
        "qdiscs"
    }

    fn passed(&self) -> &Passed {
        &self.passed
    }

    fn held(&self) -> Counted {
        let mut held = Counted::default();
        for queue in self.queues.iter() {
            queue.walk(&mut |segment| held += crate::accounting::of_segment(segment));
        }
        held
    }
}

#[cfg(test)]
mod tests;
