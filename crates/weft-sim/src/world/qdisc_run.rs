//! From the stack to the ring: queue assignment, qdisc, byte queue limit, doorbell, completion.

use super::transmit::frame;
use super::{Body, Event, Packet, Skb, World, host};
use crate::assignment::FlowFacts;
use crate::cost::{Category, Operation};
use crate::ids::{CoreId, HostId, StreamId};
use crate::segment::{Dequeued, Segment};
use crate::trace::{Observer, PacketEventKind};
use crate::world::processor::Work;
use weft_units::{Bytes, Nanos, QueueId, Weight};

/// What a socket is charged for a segment beside its payload: `SKB_TRUESIZE` of an empty one with its header room
/// (sk_buff 256, shared info 320, MAX_TCP_HEADER and slab rounding: 2304 in all, research on Linux 4.4).
const SKB_OVERHEAD: u32 = 2304;

/// What a segment of this payload charges its socket.
pub(super) const fn truesize(payload: u32) -> u32 {
    payload + SKB_OVERHEAD
}

/// A segment to be sent.
#[derive(Clone, Copy)]
pub(super) struct Outgoing {
    pub(super) stream: StreamId,
    pub(super) body: Body,
    pub(super) payload: u32,
    /// Payload of each packet but the last.
    pub(super) packet_payload: u32,
}

impl<O: Observer> World<'_, O> {
    /// Sends a segment down: to its queue's qdisc, and, unless the qdisc is to be run later, from there to the ring.
    /// Gives the queue.
    pub(super) fn emit(&mut self, outgoing: Outgoing, run: bool, work: &mut Work) -> QueueId {
        let queue = self.queue_of(outgoing.stream, work);
        let stream = &mut self.streams[outgoing.stream];
        let packets = outgoing.payload.div_ceil(outgoing.packet_payload.max(1)).max(1);
        let last = outgoing.payload - (packets - 1) * outgoing.packet_payload.min(outgoing.payload);
        let len = (packets - 1) * frame(outgoing.body, outgoing.packet_payload) + frame(outgoing.body, last);
        let skb = Skb {
            body: outgoing.body,
            created: work.now(),
            payload: outgoing.payload,
            truesize: truesize(outgoing.payload),
            packet_payload: outgoing.packet_payload,
            fetched: 0,
        };
        stream.charged += u64::from(skb.truesize);
        let segment = Segment {
            skb: self.skbs.insert(skb),
            flow: outgoing.stream,
            len,
            packets: packets as u16,
            class: stream.class,
            band: stream.band,
            marked: false,
        };
        if O::WANTED {
            let packet = Packet {
                body: skb.body,
                created: skb.created,
                stream: outgoing.stream,
                payload: skb.payload,
                len,
                marked: false,
            };
            self.observe(work.host, PacketEventKind::Queued, work.now(), &packet, Some(queue));
        }
        self.lock_queue(queue, work);
        self.enqueue(work.host, queue, segment, work.now());
        self.hosts[work.host].queues[queue].unlocked = work.now();
        if run {
            self.qdisc_run(queue, work);
        }
        queue
    }

    /// The queue for a stream's next segment; counts the segment in.
    fn queue_of(&mut self, stream: StreamId, work: &mut Work) -> QueueId {
        let state = &mut self.hosts[work.host];
        let facts = &mut self.streams[stream];
        let assigned = match facts.queue {
            Some(queue) if facts.outstanding > 0 || !state.assignment.is_dynamic() => queue,
            before => {
                let flow = FlowFacts {
                    flow: stream,
                    hash: facts.hash,
                    weight: facts.weight,
                    before,
                    core: facts.core,
                };
                let queue = if state.nic.queue_per_flow {
                    QueueId(stream.0)
                } else {
                    let cores = state.cores.len();
                    let any = state.pools.len() / cores - 1;
                    let class = facts.traffic_class.map_or(any, |class| (class as usize).min(any));
                    let allowed = &state.pools[class * cores + facts.core.index()];
                    state.assignment.assign(&flow, allowed, state.occupancy.as_slice())
                };
                facts.queue = Some(queue);
                if state.assignment.is_dynamic() {
                    self.charge(Operation::AssignQueue, 1.0, work);
                }
                queue
            }
        };
        let facts = &mut self.streams[stream];
        facts.outstanding += 1;
        if facts.outstanding == 1 {
            let weight = facts.weight;
            self.occupy(work.host, assigned, weight, true, work.now());
        }
        assigned
    }

    /// Counts a flow in or out of a queue.
    fn occupy(&mut self, host: HostId, queue: QueueId, weight: u32, enters: bool, now: Nanos) {
        let state = &mut self.hosts[host];
        let occupancy = &mut state.occupancy[queue];
        if enters {
            occupancy.flows += 1;
            occupancy.weight += u64::from(weight);
            state.shared_queues += u32::from(occupancy.flows == 2);
        } else {
            state.shared_queues -= u32::from(occupancy.flows == 2);
            occupancy.flows -= 1;
            occupancy.weight -= u64::from(weight);
        }
        let nic = &self.scenario.hosts[host.index()].nic;
        if nic.queue_weights && !state.stale_weights[queue] {
            state.stale_weights[queue] = true;
            state.stale.push(queue);
            if !state.weights_due {
                state.weights_due = true;
                let at = (now + nic.weight_delay).max(state.weights_written + nic.weight_interval);
                self.queue.push(at, Event::Weights { host });
            }
        }
    }

    /// Writes the weights that changed to the NIC. A queue without flows keeps its last weight, as Titan's kernel does.
    pub(super) fn weights(&mut self, host: HostId) {
        let state = &mut self.hosts[host];
        state.weights_due = false;
        state.weights_written = self.now;
        let mut written = 0u32;
        while let Some(queue) = state.stale.pop() {
            state.stale_weights[queue] = false;
            let weight = state.occupancy[queue].weight;
            if let Some(weight) = u32::try_from(weight).ok().and_then(Weight::new) {
                state.nic.scheduler.set_weight(queue, weight.get());
                written += 1;
            }
        }
        self.counters.weight_updates += u64::from(written);
        // The writes are made by whichever core changed the weights; over time all of them do.
        let core = CoreId::from_index(self.counters.weight_updates as usize % self.hosts[host].cores.len());
        let state = &mut self.hosts[host].cores[core];
        state.done[Operation::RegisterWrite as usize] += f64::from(written);
        let nanos = self.totals[Operation::RegisterWrite as usize] * f64::from(written);
        state.free += Nanos(nanos as u64);
    }

    /// Takes a queue's lock (`qdisc_lock`): spins until its holder is done, and moves its cache line from the core that had it.
    fn lock_queue(&mut self, queue: QueueId, work: &mut Work) {
        let state = &mut self.hosts[work.host].queues[queue];
        let spin = state.unlocked.saturating_sub(work.now());
        let moved = state.last_core != Some(work.core);
        state.last_core = Some(work.core);
        if spin > Nanos::ZERO {
            self.charge_time(Category::Lock, spin.0 as f64, work);
        }
        if moved {
            self.charge_time(Category::Lock, self.scenario.costs.contention.lock_transfer_ns, work);
        }
    }

    fn enqueue(&mut self, host: HostId, queue: QueueId, segment: Segment, now: Nanos) {
        self.measure.standing(segment.class, i64::from(segment.len), now);
        let state = &mut self.hosts[host];
        host::count(&mut state.qdisc_books.entered, u64::from(segment.packets), u64::from(segment.len));
        state.occupancy[queue].bytes += Bytes(u64::from(segment.len));
        let mut dropped = std::mem::take(&mut self.dropped);
        state.queues[queue].qdisc.enqueue(segment, now, &mut dropped);
        self.drop_all(host, queue, &mut dropped, now);
        self.dropped = dropped;
    }

    fn drop_all(&mut self, host: HostId, queue: QueueId, dropped: &mut Vec<Segment>, now: Nanos) {
        for segment in dropped.drain(..) {
            let books = &mut self.hosts[host].qdisc_books;
            host::count(&mut books.dropped, u64::from(segment.packets), u64::from(segment.len));
            if O::WANTED {
                let skb = self.skbs[segment.skb];
                let packet = Packet {
                    body: skb.body,
                    created: skb.created,
                    stream: segment.flow,
                    payload: skb.payload,
                    len: segment.len,
                    marked: segment.marked,
                };
                self.observe(host, PacketEventKind::Dropped, now, &packet, Some(queue));
            }
            self.forget(self.skbs[segment.skb].body);
            self.release(host, queue, segment, now);
        }
    }

    /// Runs a queue's qdisc, unless another core does (`qdisc_run_begin`): then that one goes on with what has come.
    pub(super) fn qdisc_run(&mut self, queue: QueueId, work: &mut Work) {
        let state = &mut self.hosts[work.host].queues[queue];
        if state.running > work.now() && state.runner != work.core {
            let (runner, until) = (state.runner, state.running);
            if !state.rerun {
                state.rerun = true;
                self.hosts[work.host].cores[runner].net_tx.push_back(queue);
                self.wake(work.host, runner, until);
            }
            return;
        }
        state.rerun = false;
        self.run_qdisc(queue, work);
        let state = &mut self.hosts[work.host].queues[queue];
        state.running = work.now();
        state.runner = work.core;
    }

    /// Moves segments from a queue's qdisc to its ring while the byte queue limit and the ring have room (`__qdisc_run`), and rings
    /// the doorbell once.
    fn run_qdisc(&mut self, queue: QueueId, work: &mut Work) {
        let host = work.host;
        let config = &self.scenario.hosts[host.index()];
        let ring_size = config.nic.transmit_ring as usize;
        let mut dropped = std::mem::take(&mut self.dropped);
        let (mut handed, mut changes) = (0u64, 0u64);
        loop {
            let state = &mut self.hosts[host];
            let transmit = &mut state.queues[queue];
            if !transmit.limit.available() || transmit.ring.len() >= ring_size {
                break;
            }
            match transmit.qdisc.dequeue(work.now(), &mut dropped) {
                Dequeued::Segment(segment) => {
                    transmit.limit.queued(Bytes(u64::from(segment.len)));
                    changes += u64::from(handed > 0 && transmit.last_flow != Some(segment.flow));
                    transmit.last_flow = Some(segment.flow);
                    handed += 1;
                    host::count(
                        &mut state.qdisc_books.left,
                        u64::from(segment.packets),
                        u64::from(segment.len),
                    );
                    host::count(
                        &mut state.ring_books.entered,
                        u64::from(segment.packets),
                        u64::from(segment.len),
                    );
                    if config.stack.tso || segment.packets == 1 {
                        transmit.ring.push_back(segment);
                    } else {
                        self.segment_in_software(queue, segment, work);
                    }
                }
                Dequeued::Wait(until) => {
                    if transmit.retry <= self.now || until < transmit.retry {
                        transmit.retry = until;
                        self.queue.push(until, Event::Qdisc { host, queue });
                    }
                    break;
                }
                Dequeued::Empty => break,
            }
        }
        self.drop_all(host, queue, &mut dropped, work.now());
        self.dropped = dropped;
        self.charge(Operation::TransmitSegment, handed as f64, work);
        if handed > 0 {
            self.doorbell(queue, handed, changes, work);
        }
    }

    fn doorbell(&mut self, queue: QueueId, handed: u64, changes: u64, work: &mut Work) {
        self.counters.segments += handed;
        self.counters.doorbells += 1;
        self.counters.doorbells_unbatched += 1 + changes;
        self.charge(Operation::RegisterWrite, 1.0, work);
        let state = &mut self.hosts[work.host];
        if !state.queues[queue].active {
            state.queues[queue].active = true;
            state.nic.scheduler.activate(queue, self.now);
        }
        self.ring_doorbell(work.host, work.now());
    }

    /// A rate limit's time has come.
    pub(super) fn qdisc_event(&mut self, host: HostId, queue: QueueId) {
        let state = &mut self.hosts[host];
        if state.queues[queue].retry != self.now {
            return;
        }
        // The watchdog's timer runs in softirq on the queue's core.
        let core = CoreId(queue.0 % state.cores.len() as u32);
        let mut work = self.work_on(host, core);
        self.qdisc_run(queue, &mut work);
        self.end_work(&work);
    }

    /// Cuts a segment into packets before the ring (`skb_gso_segment` in `validate_xmit_skb`), each with a descriptor of its own.
    fn segment_in_software(&mut self, queue: QueueId, segment: Segment, work: &mut Work) {
        self.charge(Operation::SoftwareSegment, f64::from(segment.packets), work);
        let whole = self.skbs.remove(segment.skb);
        let stream = &mut self.streams[segment.flow];
        stream.outstanding += u32::from(segment.packets) - 1;
        stream.charged -= u64::from(whole.truesize);
        for index in 0..u32::from(segment.packets) {
            let payload = whole.packet_payload.min(whole.payload - index * whole.packet_payload);
            let body = match whole.body {
                Body::Data { first } => Body::Data { first: first + u64::from(index) },
                other => other,
            };
            // The charge is shared; the last piece takes what is left over.
            let share = whole.truesize / u32::from(segment.packets);
            let is_last = index + 1 == u32::from(segment.packets);
            let charge = if is_last { whole.truesize - share * index } else { share };
            self.streams[segment.flow].charged += u64::from(charge);
            let piece = Skb { body, payload, truesize: charge, fetched: 0, ..whole };
            let piece =
                Segment { skb: self.skbs.insert(piece), len: frame(body, payload), packets: 1, ..segment };
            self.hosts[work.host].queues[queue].ring.push_back(piece);
        }
    }

    /// A segment is freed: its socket is charged less, its flow may leave the queue.
    pub(super) fn release(&mut self, host: HostId, queue: QueueId, segment: Segment, now: Nanos) -> bool {
        self.measure.standing(segment.class, -i64::from(segment.len), now);
        let skb = self.skbs.remove(segment.skb);
        let occupancy = &mut self.hosts[host].occupancy[queue];
        occupancy.bytes -= Bytes(u64::from(segment.len));
        let stream = &mut self.streams[segment.flow];
        stream.charged -= u64::from(skb.truesize);
        stream.outstanding -= 1;
        if stream.outstanding == 0 {
            let weight = stream.weight;
            self.occupy(host, queue, weight, false, now);
        }
        matches!(skb.body, Body::Data { .. })
    }
}
