//! The qdisc layer of a host: queue assignment, qdiscs, byte queue limits, and handing over to the NIC's rings.
//!
//! A segment is sent into its queue's qdisc under the queue's lock. A run of the qdisc moves segments to the ring while the byte queue
//! limit and the ring have room. Segments that a qdisc drops wait in a list until they are released, as those are that the NIC has
//! sent.

mod choice;
mod queue;
mod weights;

use crate::accounting::{Passed, Stage};
use crate::assignment::QueueAssignment;
use crate::cost::Operation;
use crate::event::{Agenda, Event};
use crate::host::cpu::{Processors, Work};
use crate::host::nic::NicTransmit;
use crate::host::socket::{Socket, Stream};
use crate::ids::{CoreId, HostId, StreamId, Table};
use crate::outcome::Amount;
use crate::packet::{Body, Outgoing, Skb, Skbs};
use crate::qdisc::Qdisc;
use crate::scenario::ByteQueueLimit;
use crate::segment::{Dequeued, Segment};
use choice::{Chosen, QueueChoice};
use queue::TransmitQueue;
use weft_units::{Bytes, Nanos, TxQueueId, Weight};
use weights::Weights;

pub(crate) use choice::Pools;
pub(crate) use queue::Runner;
pub(crate) use weights::WeightTiming;

/// Where segments are cut into packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Segmentation {
    /// In the NIC (TSO).
    Nic,
    /// In the stack, before the ring.
    Stack,
}

/// Parameters of a qdisc layer.
pub(crate) struct QdiscParameters {
    pub(crate) byte_queue_limit: ByteQueueLimit,
    pub(crate) segmentation: Segmentation,
    /// Size of segments while streams share queues (dynamic segmentation offload sizing).
    pub(crate) shared_size: Option<Bytes>,
    /// Of queue weights; none where the NIC has none.
    pub(crate) weights: Option<WeightTiming>,
    pub(crate) pools: Pools,
}

/// What the layer's work uses: the processors, the unit of work under way, the agenda, and the pool of segments.
pub(crate) struct Kernel<'a> {
    pub(crate) cpu: &'a mut Processors,
    pub(crate) work: &'a mut Work,
    pub(crate) agenda: &'a mut Agenda,
    pub(crate) skbs: &'a mut Skbs,
}

/// What a run of a qdisc has handed to the NIC.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Handed {
    pub(crate) segments: u64,
    /// How often the stream changed from one segment to the next.
    pub(crate) changes: u64,
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
    /// Segments dropped by a qdisc and not released yet.
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

    /// Sends a segment into the qdisc of its stream's queue; returns it and the queue.
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
        self.passed.entered.count_segment(&segment);
        self.choice.occupancy[queue].bytes += Bytes(u64::from(segment.len));
        state.qdisc.enqueue(segment, now, &mut self.dropped);
        state.unlocked = now;
        (queue, segment)
    }

    /// The queue for a stream's next segment; counts the segment in.
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
            kernel.cpu.charge(Operation::AssignQueue, 1.0, kernel.work);
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

    /// A segment is freed: its socket is charged less, and its stream may leave the queue.
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

    /// Takes the segments that were dropped, which are to be released. The list is to be given back, for its room.
    pub(crate) fn take_dropped(&mut self) -> Vec<Segment> {
        self.dropped.iter().for_each(|segment| self.passed.dropped.count_segment(segment));
        std::mem::take(&mut self.dropped)
    }

    pub(crate) fn reuse_dropped(&mut self, mut list: Vec<Segment>) {
        list.clear();
        self.dropped = list;
    }

    /// The size of the pieces in which a segment goes down while streams share queues (Titan, ATC 2017, section 3.3); none if it goes
    /// as a whole.
    #[inline]
    pub(crate) fn piece_size(&self, whole: &Outgoing) -> Option<u32> {
        let size = self.shared_size.filter(|_| self.choice.some_queue_is_shared())?;
        let Body::Data { .. } = whole.body else { return None };
        let packets = (size.0 / u64::from(whole.packet_payload + crate::packet::TCP_HEADERS)).max(1);
        let size = packets as u32 * whole.packet_payload;
        (whole.payload > size).then_some(size)
    }

    /// Whether the qdisc of a queue is run by the core that works, or by which other one (`qdisc_run_begin`).
    #[inline]
    pub(crate) fn begin_run(&mut self, queue: TxQueueId, work: &Work) -> Runner {
        self.queues[queue].begin_run(work)
    }

    /// Ends a run of a queue's qdisc.
    #[inline]
    pub(crate) fn end_run(&mut self, queue: TxQueueId, work: &Work) {
        self.queues[queue].end_run(work);
    }

    /// Moves segments from a queue's qdisc to its ring while the byte queue limit and the ring have room (`__qdisc_run`).
    pub(crate) fn hand_over(
        &mut self,
        queue: TxQueueId,
        nic: &mut NicTransmit,
        sockets: &mut Table<StreamId, Socket>,
        kernel: &mut Kernel<'_>,
    ) -> Handed {
        let mut handed = Handed::default();
        let state = &mut self.queues[queue];
        while state.limit.available() && nic.has_room(queue) {
            match state.qdisc.dequeue(kernel.work.now(), &mut self.dropped) {
                Dequeued::Segment(segment) => {
                    state.limit.queued(Bytes(u64::from(segment.len)));
                    let last = state.last_stream.replace(segment.flow);
                    handed.changes += u64::from(handed.segments > 0 && last != Some(segment.flow));
                    handed.segments += 1;
                    self.passed.left.count_segment(&segment);
                    nic.count_in(&segment);
                    if self.segmentation == Segmentation::Nic || segment.packets == 1 {
                        nic.push(queue, segment);
                    } else {
                        cut(segment, &mut sockets[segment.flow], kernel, |piece| nic.push(queue, piece));
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

    /// The time of a queue's rate limit has come: returns the core whose timer runs the qdisc; none if another time has superseded it.
    pub(crate) fn retry(&self, queue: TxQueueId, now: Nanos, cores: u32) -> Option<CoreId> {
        // The watchdog's timer runs in softirq on the queue's core.
        self.queues[queue].is_retry(now).then_some(CoreId(queue.0 % cores))
    }

    /// Bytes of a queue were sent and are freed, in one batch (`netdev_tx_completed_queue`).
    #[inline]
    pub(crate) fn completed(&mut self, queue: TxQueueId, bytes: Bytes, now: Nanos) {
        self.queues[queue].limit.completed(bytes, now);
    }

    /// An update of queue weights begins.
    pub(crate) fn begin_weights(&mut self, now: Nanos) {
        if let Some(weights) = &mut self.weights {
            weights.begin(now);
        }
    }

    /// Takes the next weight that the NIC is to be told.
    pub(crate) fn next_weight(&mut self) -> Option<(TxQueueId, Weight)> {
        self.weights.as_mut()?.next(&self.choice.occupancy)
    }

    /// Replaces all qdiscs.
    #[cfg(test)]
    pub(crate) fn replace_qdiscs(&mut self, make: impl Fn() -> Box<dyn Qdisc>) {
        self.queues.iter_mut().for_each(|queue| queue.qdisc = make());
    }
}

/// Cuts a segment into packets before the ring (`skb_gso_segment` in `validate_xmit_skb`), each with a descriptor of its own.
fn cut(segment: Segment, socket: &mut Socket, kernel: &mut Kernel<'_>, mut push: impl FnMut(Segment)) {
    let packets = u32::from(segment.packets);
    kernel.cpu.charge(Operation::SoftwareSegment, f64::from(packets), kernel.work);
    let whole = kernel.skbs.remove(segment.skb);
    socket.outstanding += packets - 1;
    // The charge is shared; the last piece takes what is left over.
    let share = whole.truesize / packets;
    for index in 0..packets {
        let payload = whole.packet_payload.min(whole.payload - index * whole.packet_payload);
        let truesize = if index + 1 == packets { whole.truesize - share * index } else { share };
        let body = whole.body.after(index);
        let skb = kernel.skbs.insert(Skb { body, payload, truesize, fetched: 0, ..whole });
        push(Segment { skb, len: body.frame(payload), packets: 1, ..segment });
    }
}

impl Stage for QdiscLayer {
    fn name(&self) -> &'static str {
        "qdiscs"
    }

    fn passed(&self) -> &Passed {
        &self.passed
    }

    fn held(&self) -> Amount {
        let mut held = Amount::default();
        for queue in self.queues.iter() {
            queue.qdisc.walk(&mut |segment| held.count_segment(segment));
        }
        held
    }
}

#[cfg(test)]
mod tests;
