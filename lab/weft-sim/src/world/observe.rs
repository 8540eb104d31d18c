//! Reports to observers.

use super::World;
use crate::host::nic::Fetched;
use crate::ids::HostId;
use crate::packet::{Body, Packet};
use crate::segment::Segment;
use crate::trace::{Observer, PacketEvent, PacketEventKind};
use weft_units::{Bytes, Nanos, TxQueueId};

impl<O: Observer> World<'_, O> {
    /// Reports a packet to the observer, if it takes events.
    #[inline]
    pub(super) fn observe(
        &mut self,
        host: HostId,
        kind: PacketEventKind,
        at: Nanos,
        packet: &Packet,
        queue: Option<TxQueueId>,
    ) {
        if O::WANTED {
            self.tell(host, kind, (at, at), (packet, 1), queue);
        }
    }

    /// Reports to the observer, if it takes events, that a packet was fetched and sent.
    #[inline]
    pub(super) fn observe_sent(&mut self, host: HostId, queue: TxQueueId, fetched: &Fetched) {
        if O::WANTED {
            let (packet, wire) = (&fetched.packet, (fetched.start, fetched.departure));
            self.tell(host, PacketEventKind::Fetched, (self.now, self.now), (packet, 1), Some(queue));
            let event = self.event(host, PacketEventKind::Sent, wire, (packet, 1), Some(queue));
            self.observer.packet(&PacketEvent { last: fetched.done.is_some(), ..event });
        }
    }

    /// Reports a segment to the observer, if it takes events.
    #[inline]
    pub(super) fn observe_segment(
        &mut self,
        host: HostId,
        kind: PacketEventKind,
        at: Nanos,
        (queue, segment): (TxQueueId, &Segment),
    ) {
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
            self.tell(host, kind, (at, at), (&packet, segment.packets.into()), Some(queue));
        }
    }

    fn tell(
        &mut self,
        host: HostId,
        kind: PacketEventKind,
        times: (Nanos, Nanos),
        what: (&Packet, u32),
        queue: Option<TxQueueId>,
    ) {
        let event = self.event(host, kind, times, what, queue);
        self.observer.packet(&event);
    }

    /// Builds the event that begins and ends at these times, of so many packets.
    fn event(
        &self,
        host: HostId,
        kind: PacketEventKind,
        (begin, at): (Nanos, Nanos),
        (packet, packets): (&Packet, u32),
        queue: Option<TxQueueId>,
    ) -> PacketEvent {
        let number = match packet.body {
            Body::Data { first } => first,
            Body::Datagram { number } => number,
            // The content is gone when the packet has arrived.
            Body::Ack { .. } if kind == PacketEventKind::Freed => 0,
            Body::Ack { content } => self.acks[content].next,
            Body::Ping { asked, .. } => asked.0,
        };
        let flow = self.streams[packet.stream].flow;
        PacketEvent {
            at,
            host,
            kind,
            flow: packet.stream,
            group: flow.map(|flow| self.applications[flow].group),
            queue,
            number,
            len: Bytes(u64::from(packet.len)),
            marked: packet.marked,
            created: packet.created,
            begin,
            packets,
            last: false,
        }
    }
}
