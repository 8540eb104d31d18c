//! The NIC's transmit side: scheduler, fetch, segmentation, wire.

use super::{Body, Event, Packet, World, host};
use crate::ids::{HostId, RxQueueId};
use crate::nic::scheduler::Pick;
use crate::trace::{Observer, PacketEvent, PacketEventKind};
use weft_packet::ethernet;
use weft_units::{Bytes, Nanos, QueueId};

/// Frame bytes of a TCP packet beside its payload: Ethernet 14, IPv4 20, TCP 20 with 12 of timestamps.
pub(super) const TCP_HEADERS: u32 = 66;
/// Of a UDP or ICMP packet: Ethernet 14, IPv4 20, UDP or ICMP 8.
pub(super) const UDP_HEADERS: u32 = 42;

/// Frame bytes of a packet with this payload.
#[inline]
pub(super) fn frame(body: Body, payload: u32) -> u32 {
    let headers = match body {
        Body::Data { .. } | Body::Ack { .. } => TCP_HEADERS,
        Body::Datagram { .. } | Body::Probe { .. } => UDP_HEADERS,
    };
    (payload + headers).max(ethernet::FRAME_MIN.0 as u32)
}

impl<O: Observer> World<'_, O> {
    /// Makes sure that the NIC looks at its rings at `at`, or as soon as it may fetch.
    pub(super) fn ring_doorbell(&mut self, host: HostId, at: Nanos) {
        let nic = &mut self.hosts[host].nic;
        if !nic.pending {
            nic.pending = true;
            self.queue.push(at.max(nic.next_fetch), Event::Transmit { host });
        }
    }

    /// Fetches and sends packets until another event may come first.
    pub(super) fn transmit(&mut self, host: HostId) {
        self.hosts[host].nic.pending = false;
        loop {
            let nic = &mut self.hosts[host].nic;
            let next = match nic.scheduler.next(self.now) {
                Pick::Queue(queue) => {
                    self.send_turn(host, queue);
                    self.hosts[host].nic.next_fetch.max(self.now)
                }
                Pick::Wait(until) => until.max(self.now + Nanos(1)),
                Pick::Idle => return,
            };
            if next >= self.queue.earliest_possible() || next > self.end {
                self.hosts[host].nic.pending = true;
                self.queue.push(next, Event::Transmit { host });
                return;
            }
            self.now = next;
            self.events += 1;
        }
    }

    /// One turn of a queue: a packet with TSO interleaving, a segment without.
    fn send_turn(&mut self, host: HostId, queue: QueueId) {
        let interleaving = self.scenario.hosts[host.index()].nic.interleaving;
        let mut sent = 0u64;
        loop {
            let state = &mut self.hosts[host];
            let Some(&segment) = state.queues[queue].ring.front() else { break };
            let skb = &mut self.skbs[segment.skb];
            let (offset, created) = (u32::from(skb.fetched) * skb.packet_payload, skb.created);
            let payload = skb.packet_payload.min(skb.payload - offset.min(skb.payload));
            let body = match skb.body {
                Body::Data { first } => Body::Data { first: first + u64::from(skb.fetched) },
                other => other,
            };
            skb.fetched += 1;
            let last = skb.fetched >= segment.packets;
            let len = frame(body, payload);
            sent += u64::from(len);
            let packet = Packet { body, created, stream: segment.flow, payload, len, marked: segment.marked };
            self.put_on_wire(host, packet, segment.class, queue);
            if last {
                self.fetched(host, queue);
            }
            if interleaving || last {
                break;
            }
        }
        let state = &mut self.hosts[host];
        let backlogged = !state.queues[queue].ring.is_empty();
        state.queues[queue].active = backlogged;
        state.nic.scheduler.finish(queue, Bytes(sent), backlogged, self.now);
        // The on-chip buffer lets the NIC fetch ahead of the wire by as much as it holds.
        state.nic.next_fetch = state.nic.wire.free_at().saturating_sub(state.nic.ahead);
    }

    /// The last packet of the segment at a ring's front has been fetched: its descriptor is done.
    fn fetched(&mut self, host: HostId, queue: QueueId) {
        let state = &mut self.hosts[host];
        let Some(segment) = state.queues[queue].ring.pop_front() else { return };
        host::count(&mut state.ring_books.left, u64::from(segment.packets), u64::from(segment.len));
        let vector = RxQueueId(queue.0 % state.vectors.len() as u32);
        state.vectors[vector].done.push((queue, segment));
        self.arm(host, vector, self.now);
    }

    #[inline]
    fn put_on_wire(&mut self, host: HostId, packet: Packet, class: u16, queue: QueueId) {
        let departure =
            self.hosts[host].nic.wire.transmit(self.now, Bytes(packet.len.into()) + ethernet::AROUND);
        let stream = &mut self.streams[packet.stream];
        stream.sent += u64::from(packet.len);
        let to = stream.to;
        self.counters.packets += 1;
        if stream.flow.is_some() {
            self.measure.sent(class, packet.len);
        }
        if O::WANTED {
            self.observe(host, PacketEventKind::Sent, departure, &packet, Some(queue));
        }
        self.travel(host, to, packet, departure);
    }

    /// Tells the observer of a packet.
    pub(super) fn observe(
        &mut self,
        host: HostId,
        kind: PacketEventKind,
        at: Nanos,
        packet: &Packet,
        queue: Option<QueueId>,
    ) {
        let stream = &self.streams[packet.stream];
        let number = match packet.body {
            Body::Data { first } => first,
            Body::Datagram { number } => number,
            Body::Ack { content } => self.acks[content].top,
            Body::Probe { asked, .. } => asked.0,
        };
        let group = self.group_of(stream.flow);
        self.observer.packet(&PacketEvent {
            at,
            host,
            kind,
            flow: packet.stream,
            group,
            queue,
            number,
            len: Bytes(u64::from(packet.len)),
            marked: packet.marked,
        });
    }
}
