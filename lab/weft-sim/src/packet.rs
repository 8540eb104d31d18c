//! Segments with their content, and the packets that NICs cut from them.

use crate::ids::{AckId, ProbeId, SkbId, StreamId};
use weft_packet::ethernet;
use weft_units::{Bytes, Nanos};

/// Frame bytes of a TCP packet without its payload: Ethernet 14, IPv4 20, TCP 20 and 12 of timestamps.
pub(crate) const TCP_HEADERS: u32 = 66;
/// Frame bytes of a UDP or ICMP packet without its payload: Ethernet 14, IPv4 20, UDP or ICMP 8.
pub(crate) const UDP_HEADERS: u32 = 42;

/// The charge of a segment to its socket apart from its payload: `SKB_TRUESIZE` of an empty one with its header room (sk_buff
/// 256, shared info 320, MAX_TCP_HEADER and slab rounding: 2304 in total, for Linux 4.4).
const SKB_OVERHEAD: u32 = 2304;

/// The charge of a segment with this payload to its socket.
pub(crate) const fn truesize(payload: u32) -> u32 {
    payload + SKB_OVERHEAD
}

/// The content of a segment or packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Body {
    /// TCP data: number of the first packet.
    Data { first: u64 },
    /// A datagram.
    Datagram { number: u64 },
    /// An acknowledgement for the stream's reverse. Its content is in a separate pool, which keeps packets small.
    Ack { content: AckId },
    /// A probe's message; `asked` is the start of its round.
    Ping { probe: ProbeId, way: Way, asked: Nanos },
}

impl Body {
    /// Returns the content `packets` further on in the segment.
    #[inline]
    pub(crate) const fn after(self, packets: u32) -> Self {
        match self {
            Self::Data { first } => Self::Data { first: first + packets as u64 },
            other => other,
        }
    }

    /// Returns the frame bytes of a packet with this payload.
    #[inline]
    pub(crate) fn frame(self, payload: u32) -> u32 {
        let headers = match self {
            Self::Data { .. } | Self::Ack { .. } => TCP_HEADERS,
            Self::Datagram { .. } | Self::Ping { .. } => UDP_HEADERS,
        };
        (payload + headers).max(ethernet::FRAME_MIN.0 as u32)
    }
}

/// The direction of a probe's message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    Request,
    Reply,
}

/// The content of an acknowledgement. It is cumulative, so the loss of one loses no information.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Ack {
    /// One more than the greatest packet number received.
    pub(crate) next: u64,
    /// Packets received.
    pub(crate) packets: u64,
    /// Payload bytes received.
    pub(crate) bytes: u64,
    /// Creation time of the newest packet's segment.
    pub(crate) echo: Nanos,
    /// Packets received with a congestion mark.
    pub(crate) marked: u32,
    /// Payload bytes that the receiver has room for.
    pub(crate) window: u32,
}

/// A segment to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outgoing {
    pub(crate) stream: StreamId,
    pub(crate) body: Body,
    pub(crate) payload: u32,
    /// Payload of each packet except the last.
    pub(crate) packet_payload: u32,
}

impl Outgoing {
    /// Creates a segment of one packet.
    pub(crate) const fn single(stream: StreamId, body: Body, payload: u32) -> Self {
        Self { stream, body, payload, packet_payload: payload }
    }

    /// Returns the number of its packets on the wire.
    #[inline]
    pub(crate) fn packets(&self) -> u32 {
        if self.payload <= self.packet_payload {
            1
        } else {
            self.payload.div_ceil(self.packet_payload.max(1))
        }
    }

    /// Returns the bytes of all its frames (`qdisc_pkt_len_init`).
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        if self.payload <= self.packet_payload {
            return self.body.frame(self.payload);
        }
        let packets = self.packets();
        let last = self.payload - (packets - 1) * self.packet_payload.min(self.payload);
        (packets - 1) * self.body.frame(self.packet_payload) + self.body.frame(last)
    }
}

/// A segment in the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Skb {
    pub(crate) body: Body,
    /// Creation time.
    pub(crate) created: Nanos,
    /// Payload bytes.
    pub(crate) payload: u32,
    /// The charge to its socket (`skb->truesize`).
    pub(crate) truesize: u32,
    /// Payload of each packet except the last.
    pub(crate) packet_payload: u32,
    /// Number of packets already fetched by the NIC.
    pub(crate) fetched: u16,
}

impl Skb {
    /// Creates a segment at `now`.
    #[inline]
    pub(crate) const fn new(outgoing: &Outgoing, now: Nanos) -> Self {
        Self {
            body: outgoing.body,
            created: now,
            payload: outgoing.payload,
            truesize: truesize(outgoing.payload),
            packet_payload: outgoing.packet_payload,
            fetched: 0,
        }
    }
}

/// Sent segments that are not freed yet.
pub(crate) type Skbs = crate::ids::Pool<SkbId, Skb>;

/// Contents of the acknowledgements in transit.
pub(crate) type Acks = crate::ids::Pool<AckId, Ack>;

/// A packet on a wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Packet {
    pub(crate) body: Body,
    pub(crate) created: Nanos,
    pub(crate) stream: StreamId,
    pub(crate) payload: u32,
    /// Frame bytes.
    pub(crate) len: u32,
    pub(crate) marked: bool,
}

impl Packet {
    #[inline]
    pub(crate) const fn bytes(&self) -> Bytes {
        Bytes(self.len as u64)
    }
}
