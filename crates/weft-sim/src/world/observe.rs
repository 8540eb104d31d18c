//! Reports to observers.

use super::World;
use crate::ids::HostId;
use crate::packet::{Body, Packet};
use crate::segment::Segment;
use crate::trace::{Observer, PacketEvent, PacketEventKind};
use weft_units::{Bytes, Nanos, TxQueueId};

impl<O: Observer> World<'_, O> {
    /// Reports a packet to the observer, if it wants events.
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
            self.tell(host, kind, at, packet, queue);
        }
    }

    /// Reports a segment to the observer, if it wants events.
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
            self.tell(host, kind, at, &packet, Some(queue));
        }
    }

    fn tell(
        &mut self,
        host: HostId,
        kind: PacketEventKind,
        at: Nanos,
        packet: &Packet,
        queue: Option<TxQueueId>,
    ) {
        let number = match packet.body {
            Body::Data { first } => first,
            Body::Datagram { number } => number,
            Body::Ack { content } => self.acks[content].next,
            Body::Ping { asked, .. } => asked.0,
        };
        let flow = self.streams[packet.stream].flow;
        self.observer.packet(&PacketEvent {
            at,
            host,
            kind,
            flow: packet.stream,
            group: flow.map(|flow| self.applications[flow].group),
            queue,
            number,
            len: Bytes(u64::from(packet.len)),
            marked: packet.marked,
        });
    }
}
