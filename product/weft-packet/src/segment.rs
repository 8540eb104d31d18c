//! Segmentation of super-packets in user space.
//!
//! The steps:
//!
//! 1. [`SuperPacket::parse`] validates a packet once, when it is fetched from its ring. It keeps offsets and never borrows the
//!    frame.
//! 2. The scheduler picks chunks of one or more segments, interleaved with those of other rings.
//! 3. [`SuperPacket::emit`] writes the chunk's headers into a reusable [`ChunkHeader`] and returns the payload's range of the
//!    original frame. The caller passes both to one `writev`, so no payload is copied and nothing is allocated.
//! 4. A chunk of several segments is again a super-packet, which the kernel or the NIC cuts further. A chunk of one segment is a
//!    plain frame.
//!
//! The rewritten fields follow the kernel's own segmentation: `tcp_gso_segment` (net/ipv4/tcp_offload.c), `__udp_gso_segment`
//! (net/ipv4/udp_offload.c), `inet_gso_segment` (net/ipv4/af_inet.c).
//!
//! Rules that must hold:
//!
//! * The headers are checked in `parse`. `emit` only checks that the frame has the parsed length, that the segments exist, and
//!   that the checksum of a packet that is not cut lies within [`HEADER_MAX`].
//! * The chunks of a packet cover its payload in order, without gap or overlap; [`fuzz_segment`] checks this.
//! * The sum of [`SuperPacket::wire_bytes`] over the chunks equals that of the whole, because the engine charges by it.
//! * A super-packet without an open checksum (`NEEDS_CSUM`) is refused: its sum is final and would be wrong for its segments.
//!
//! Tunnels and packets above 64 KB are not cut. `parse` returns an error, and the caller sends the super-packet whole. This
//! module is without state, so it counts nothing: each rare branch is a variant of [`SegmentError`].

use crate::ethernet::wire_of;
use crate::headers::{Fragment, Headers, Network, PacketError, TcpFlags, parse_headers};
use crate::vnet::{GsoType, VnetHeader};
use core::ops::Range;
use thiserror::Error;
use weft_units::{Bytes, Protocol};

mod chunk;
mod sum;

pub use chunk::{Checksum, ChunkHeader};

/// The maximum length of the rewritten Ethernet, IP and transport headers, in bytes. Two VLAN tags, IPv6 and a TCP header with
/// all of its options take 122; the remainder is for IPv6 extension headers.
pub const HEADER_MAX: usize = 256;
/// The maximum length of an IP packet, in bytes: the limit of its length field.
const IP_PACKET_MAX: usize = 65_535;

/// The reason why a super-packet cannot be cut. The caller may still send it whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SegmentError {
    /// The headers could not be parsed.
    #[error("the super-packet's headers cannot be read: {0}")]
    Packet(#[from] PacketError),
    /// The segmentation type is unknown or that of a tunnel.
    #[error("segmentation type {0:?} is not supported; send the super-packet whole")]
    UnsupportedType(GsoType),
    /// The virtio-net header and the packet's headers name different protocols.
    #[error("segmentation type {gso:?} does not fit the packet ({network:?}, protocol {protocol:?})")]
    TypeMismatch {
        /// The type in the virtio-net header.
        gso: GsoType,
        /// The frame's network layer.
        network: Network,
        /// Its transport protocol.
        protocol: Option<Protocol>,
    },
    /// A fragment cannot be a super-packet.
    #[error("an IP fragment cannot be cut into segments")]
    Fragment,
    /// The segment size is zero.
    #[error("the segment size is 0 bytes")]
    ZeroSegmentSize,
    /// The checksum is not open. The super-packet's sum is final and would be wrong for its segments.
    #[error("a super-packet must leave its checksum open (NEEDS_CSUM); send it whole")]
    NoPartialChecksum,
    /// The open checksum is not that of the outer transport header: the packet is a tunnel's.
    #[error(
        "the open checksum is at {csum_start}+{csum_offset}, the transport header's at {l4}+{expected}: \
         encapsulated packets are not cut; send the super-packet whole"
    )]
    ForeignChecksum {
        /// Start of the summed bytes, in bytes from the start of the frame.
        csum_start: u16,
        /// Position of the checksum field, in bytes from `csum_start`.
        csum_offset: u16,
        /// Offset of the transport header in the frame.
        l4: usize,
        /// Position of its checksum field, in bytes from `l4`.
        expected: u16,
    },
    /// The checksum field lies outside the frame.
    #[error("the checksum field at {csum_start}+{csum_offset} lies outside the frame of {frame_len} bytes")]
    ChecksumOutside {
        /// Start of the summed bytes, in bytes from the start of the frame.
        csum_start: u16,
        /// Position of the checksum field, in bytes from `csum_start`.
        csum_offset: u16,
        /// Length of the frame in bytes.
        frame_len: usize,
    },
    /// The headers are longer than [`HEADER_MAX`].
    #[error(
        "the headers take {given} bytes, at most {HEADER_MAX} can be rewritten; send the super-packet whole"
    )]
    HeadersTooLong {
        /// Length of the headers in bytes.
        given: usize,
    },
    /// The IP packet is longer than its length field can represent.
    #[error(
        "the IP packet has {given} bytes, at most {IP_PACKET_MAX} can be cut; send the super-packet whole"
    )]
    PacketTooLong {
        /// Length of the IP packet in bytes.
        given: usize,
    },
    /// The IP length field and the frame disagree.
    #[error("the IP length field ends the packet at byte {by_field} of a frame of {frame_len} bytes")]
    LengthMismatch {
        /// End of the packet by its length field, in bytes from the start of the frame.
        by_field: u64,
        /// Length of the frame in bytes.
        frame_len: usize,
    },
    /// The frame differs in length from the parsed one.
    #[error("the frame has {given} bytes, the parsed one had {parsed}: pass the frame that was parsed")]
    OtherFrame {
        /// Length of the given frame, in bytes.
        given: usize,
        /// Length of the parsed frame, in bytes.
        parsed: usize,
    },
    /// The chunk is empty or reaches beyond the last segment.
    #[error("segments {first}..{first}+{count} of a packet of {segments}: ask for at least one that exists")]
    NoSuchSegments {
        /// The first segment.
        first: u32,
        /// The number of requested segments.
        count: u32,
        /// The number of segments of the packet.
        segments: u32,
    },
}

/// The method that cuts a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    /// The packet is not cut.
    Whole,
    /// TCP: sequence numbers and flags per segment.
    Tcp,
    /// UDP: one datagram per segment.
    Udp,
}

/// A packet fetched from its ring, with the offsets needed to cut it. It borrows nothing: pass the same frame to
/// [`emit`](Self::emit).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SuperPacket {
    /// The header that was read with the packet.
    vnet: VnetHeader,
    /// The method of cutting.
    cut: Cut,
    /// Whether the network header is IPv6 (only meaningful if the packet is cut).
    ipv6: bool,
    /// Offset of the network header.
    l3: u16,
    /// Offset of the transport header.
    l4: u16,
    /// Number of header bytes repeated before each segment's payload; 0 for a packet that is not cut.
    header_len: u16,
    /// Length of the frame in bytes.
    frame_len: u32,
    /// Number of segments, at least 1.
    segments: u32,
}

impl SuperPacket {
    /// Parses a packet once. A packet without segmentation offload is one segment, and its frame is not parsed.
    ///
    /// # Errors
    /// The packet cannot be cut; the [`SegmentError`] has the reason.
    pub fn parse(vnet: VnetHeader, frame: &[u8]) -> Result<Self, SegmentError> {
        Self::parse_with(vnet, frame, || parse_headers(frame))
    }

    /// As [`parse`](Self::parse), with `headers` to parse the frame's headers. It is only called for packets with segmentation
    /// offload.
    pub(crate) fn parse_with(
        vnet: VnetHeader,
        frame: &[u8],
        headers: impl FnOnce() -> Result<Headers, PacketError>,
    ) -> Result<Self, SegmentError> {
        let frame_len =
            u32::try_from(frame.len()).map_err(|_| SegmentError::PacketTooLong { given: frame.len() })?;
        let cut = match vnet.gso {
            GsoType::None => Cut::Whole,
            GsoType::TcpV4 | GsoType::TcpV6 => Cut::Tcp,
            GsoType::UdpL4 => Cut::Udp,
            GsoType::UdpFragment | GsoType::Other(_) => return Err(SegmentError::UnsupportedType(vnet.gso)),
        };
        if cut == Cut::Whole {
            return Self::parse_whole(vnet, frame_len);
        }
        if vnet.gso_size == 0 {
            return Err(SegmentError::ZeroSegmentSize);
        }
        let (ipv6, l3, l4, header_len) = headers_of_gso(vnet, frame, &headers()?)?;
        let payload = frame_len - u32::from(header_len);
        let segments = payload.div_ceil(u32::from(vnet.gso_size)).max(1);
        Ok(Self { vnet, cut, ipv6, l3, l4, header_len, frame_len, segments })
    }

    /// Parses a packet that is one frame.
    fn parse_whole(vnet: VnetHeader, frame_len: u32) -> Result<Self, SegmentError> {
        let checksum_end = u32::from(vnet.csum_start) + u32::from(vnet.csum_offset) + 2;
        if vnet.needs_csum() && checksum_end > frame_len {
            let (csum_start, csum_offset) = (vnet.csum_start, vnet.csum_offset);
            return Err(SegmentError::ChecksumOutside {
                csum_start,
                csum_offset,
                frame_len: frame_len as usize,
            });
        }
        let cut = Cut::Whole;
        Ok(Self { vnet, cut, ipv6: false, l3: 0, l4: 0, header_len: 0, frame_len, segments: 1 })
    }

    /// The number of segments, at least 1.
    pub const fn segments(&self) -> u32 {
        self.segments
    }

    /// The payload of every segment but the last, in bytes; for a packet that is not cut, the length of its frame.
    pub fn segment_payload(&self) -> Bytes {
        match self.cut {
            Cut::Whole => Bytes(u64::from(self.frame_len)),
            Cut::Tcp | Cut::Udp => Bytes(u64::from(self.vnet.gso_size)),
        }
    }

    /// The number of header bytes repeated before each segment's payload; 0 for a packet that is not cut.
    pub const fn header_len(&self) -> usize {
        self.header_len as usize
    }

    /// The length of the parsed frame.
    pub const fn frame_len(&self) -> usize {
        self.frame_len as usize
    }

    /// The virtio-net header that was read with the packet.
    pub const fn vnet(&self) -> VnetHeader {
        self.vnet
    }

    /// The bytes on an Ethernet link of `count` segments from `first`, each as its own frame with headers, padding and
    /// [`AROUND`](crate::ethernet::AROUND). Segments beyond the last count 0.
    pub fn wire_bytes(&self, first: u32, count: u32) -> Bytes {
        let end = first.saturating_add(count).min(self.segments);
        if first >= end {
            return Bytes::ZERO;
        }
        let header = u64::from(self.header_len);
        let body = u64::from(self.frame_len) - header;
        let full = self.segment_payload().0;
        let last = self.segments - 1;
        let full_frames = u64::from(end.min(last).saturating_sub(first));
        let mut total = Bytes(wire_of(Bytes(header + full)).0.saturating_mul(full_frames));
        if end == self.segments {
            let rest = body.saturating_sub(u64::from(last).saturating_mul(full));
            total += wire_of(Bytes(header + rest));
        }
        total
    }

    /// Writes the headers of the chunk of `count` segments from `first` into `out`, and returns the range of `frame` that is its
    /// payload. The chunk is `out.as_bytes()` followed by that range.
    ///
    /// A chunk of several segments is itself a super-packet, and its checksum stays open regardless of `checksum`. A chunk of one
    /// segment is a plain frame. The IPv4 identification grows by one per segment, the TCP sequence number by the payload. FIN
    /// and PSH stay on the last segment, CWR on the first.
    ///
    /// # Errors
    /// `frame` is not the parsed one, or the segments do not exist. For a packet that is not cut, completing the checksum fails
    /// if its field lies beyond [`HEADER_MAX`].
    pub fn emit(
        &self,
        frame: &[u8],
        first: u32,
        count: u32,
        checksum: Checksum,
        out: &mut ChunkHeader,
    ) -> Result<Range<usize>, SegmentError> {
        if frame.len() != self.frame_len() {
            return Err(SegmentError::OtherFrame { given: frame.len(), parsed: self.frame_len() });
        }
        let segments = self.segments;
        if count == 0 || first.checked_add(count).is_none_or(|end| end > segments) {
            return Err(SegmentError::NoSuchSegments { first, count, segments });
        }
        match self.cut {
            Cut::Whole => chunk::emit_whole(self, frame, checksum, out),
            Cut::Tcp | Cut::Udp => chunk::emit_cut(self, frame, first, count, checksum, out),
        }
    }
}

/// Checks the headers of a super-packet and returns `(ipv6, l3, l4, header_len)`. Cutting relies on every check here.
fn headers_of_gso(
    vnet: VnetHeader,
    frame: &[u8],
    headers: &Headers,
) -> Result<(bool, u16, u16, u16), SegmentError> {
    let (network, protocol) = (headers.network, headers.protocol);
    let fits = match vnet.gso {
        GsoType::TcpV4 => network == Network::Ipv4 && protocol == Some(Protocol::TCP),
        GsoType::TcpV6 => network == Network::Ipv6 && protocol == Some(Protocol::TCP),
        _ => protocol == Some(Protocol::UDP),
    };
    if !fits {
        return Err(SegmentError::TypeMismatch { gso: vnet.gso, network, protocol });
    }
    let Some(l4) = headers.l4.filter(|_| headers.fragment == Fragment::Whole) else {
        return Err(SegmentError::Fragment);
    };
    let given = frame.len() - headers.l3;
    if given > IP_PACKET_MAX {
        return Err(SegmentError::PacketTooLong { given });
    }
    if headers.cut || headers.end != frame.len() {
        let by_field = headers.l3 as u64 + headers.total_len.0;
        return Err(SegmentError::LengthMismatch { by_field, frame_len: frame.len() });
    }
    if headers.payload > HEADER_MAX {
        return Err(SegmentError::HeadersTooLong { given: headers.payload });
    }
    if !vnet.needs_csum() {
        return Err(SegmentError::NoPartialChecksum);
    }
    let expected = if protocol == Some(Protocol::TCP) { chunk::TCP_CHECKSUM } else { chunk::UDP_CHECKSUM };
    if usize::from(vnet.csum_start) != l4 || vnet.csum_offset != expected {
        let (csum_start, csum_offset) = (vnet.csum_start, vnet.csum_offset);
        return Err(SegmentError::ForeignChecksum { csum_start, csum_offset, l4, expected });
    }
    // None exceeds HEADER_MAX: the largest was checked above.
    Ok((network == Network::Ipv6, headers.l3 as u16, l4 as u16, headers.payload as u16))
}

const _: () = assert!(HEADER_MAX <= u16::MAX as usize);

/// Segments arbitrary bytes: 12 bytes of virtio-net header, 1 byte that selects the chunk size, then the frame. Checks that the
/// chunks cover the payload and that their sizes on the wire add up. A fuzz target.
///
/// # Panics
/// If a guarantee is violated, which is a finding of the fuzzer.
pub fn fuzz_segment(data: &[u8]) {
    let Some((vnet, rest)) = data.split_first_chunk::<{ VnetHeader::LEN }>() else { return };
    let Some((&choice, frame)) = rest.split_first() else { return };
    let Ok(packet) = SuperPacket::parse(VnetHeader::parse(vnet), frame) else { return };
    let count = u32::from(choice & 0x3f) + 1;
    let checksum = if choice & 0x80 == 0 { Checksum::Partial } else { Checksum::Full };
    let mut out = ChunkHeader::default();
    let (mut first, mut next, mut wire) = (0, packet.header_len(), Bytes::ZERO);
    while first < packet.segments() {
        let count = count.min(packet.segments() - first);
        let Ok(payload) = packet.emit(frame, first, count, checksum, &mut out) else {
            assert_eq!(packet.segments(), 1, "only a packet that is not cut may fail here");
            return;
        };
        if packet.segments() > 1 {
            assert_eq!(payload.start, next, "the chunks leave nothing out");
            let flags = out.as_bytes().get(VnetHeader::LEN + usize::from(packet.l4) + 13).copied();
            let ends = first + count == packet.segments() || packet.cut != Cut::Tcp;
            assert!(ends || flags.is_some_and(|f| f & (TcpFlags::FIN | TcpFlags::PSH) == 0));
        }
        assert!(frame.get(payload.clone()).is_some());
        next = payload.end;
        wire += packet.wire_bytes(first, count);
        first += count;
    }
    assert_eq!(next, frame.len(), "the chunks end where the frame ends");
    assert_eq!(wire, packet.wire_bytes(0, packet.segments()));
    assert!(packet.emit(frame, first, 1, checksum, &mut out).is_err());
}
