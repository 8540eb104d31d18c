//! Emission of a chunk: its rewritten headers and checksums.

use super::sum::Sum;
use super::{Cut, HEADER_MAX, SegmentError, SuperPacket};
use crate::headers::TcpFlags;
use crate::vnet::{GsoType, NEEDS_CSUM, VnetHeader};
use core::ops::Range;

/// Offset of TCP's checksum in its header (RFC 9293, 3.1).
pub(super) const TCP_CHECKSUM: u16 = 16;
/// Offset of UDP's checksum in its header (RFC 768).
pub(super) const UDP_CHECKSUM: u16 = 6;

/// Field offsets within the IPv4 header (RFC 791, 3.1).
mod ipv4 {
    pub(super) const TOTAL_LENGTH: usize = 2;
    pub(super) const IDENTIFICATION: usize = 4;
    pub(super) const CHECKSUM: usize = 10;
}

/// Length of the fixed IPv6 header and the offset of its payload length (RFC 8200, 3).
mod ipv6 {
    pub(super) const HEADER: usize = 40;
    pub(super) const PAYLOAD_LENGTH: usize = 4;
}

/// Field offsets within the TCP header (RFC 9293, 3.1).
mod tcp {
    pub(super) const SEQUENCE: usize = 4;
    pub(super) const FLAGS: usize = 13;
}

/// Offset of the length in the UDP header (RFC 768).
const UDP_LENGTH: usize = 4;

/// The party that completes the checksum of a chunk of one segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Checksum {
    /// The receiver: the field holds the sum of the pseudo-header, and `NEEDS_CSUM` stays set. Costs nothing.
    #[default]
    Partial,
    /// The sender: the payload is read once.
    Full,
}

/// The headers of one chunk: its virtio-net header and its rewritten Ethernet, IP and transport headers. Reuse one for every
/// chunk, since it never allocates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkHeader {
    bytes: [u8; VnetHeader::LEN + HEADER_MAX],
    len: usize,
}

impl Default for ChunkHeader {
    fn default() -> Self {
        Self { bytes: [0; VnetHeader::LEN + HEADER_MAX], len: VnetHeader::LEN }
    }
}

impl ChunkHeader {
    /// The virtio-net header followed by the frame's headers: the first part of the `writev`.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The frame's headers without the virtio-net header. Empty for an unchanged packet.
    pub fn frame_headers(&self) -> &[u8] {
        &self.bytes[VnetHeader::LEN..self.len]
    }

    /// The virtio-net header.
    pub fn vnet(&self) -> VnetHeader {
        self.bytes.first_chunk().map(VnetHeader::parse).unwrap_or_default()
    }

    /// Copies `headers`, at most [`HEADER_MAX`] bytes, and returns them for rewriting.
    fn load(&mut self, headers: &[u8]) -> &mut [u8] {
        debug_assert!(headers.len() <= HEADER_MAX, "checked by the caller");
        let len = headers.len().min(HEADER_MAX);
        self.len = VnetHeader::LEN + len;
        let room = &mut self.bytes[VnetHeader::LEN..self.len];
        room.copy_from_slice(&headers[..len]);
        room
    }

    fn set_vnet(&mut self, vnet: VnetHeader) {
        self.bytes[..VnetHeader::LEN].copy_from_slice(&vnet.emit());
    }
}

/// Reads the big-endian word at `at`, which the caller has checked.
fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Writes the big-endian word at `at`, which the caller has checked.
fn set_word(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Emits a packet that is not cut: unchanged, or with its checksum completed.
pub(super) fn emit_whole(
    packet: &SuperPacket,
    frame: &[u8],
    checksum: Checksum,
    out: &mut ChunkHeader,
) -> Result<Range<usize>, SegmentError> {
    let mut vnet = packet.vnet;
    if !vnet.needs_csum() || checksum == Checksum::Partial {
        out.load(&[]);
        out.set_vnet(vnet);
        return Ok(0..frame.len());
    }
    let start = usize::from(vnet.csum_start);
    let at = start + usize::from(vnet.csum_offset);
    if at + 2 > HEADER_MAX {
        return Err(SegmentError::HeadersTooLong { given: at + 2 });
    }
    let sum = Sum::default().bytes(&frame[start..]);
    set_word(out.load(&frame[..at + 2]), at, sum.checksum_not_zero());
    vnet.flags &= !NEEDS_CSUM;
    vnet.csum_start = 0;
    vnet.csum_offset = 0;
    out.set_vnet(vnet);
    Ok(at + 2..frame.len())
}

/// Emits a chunk of a super-packet. The caller has checked that the segments exist and that `frame` is the parsed one, so every
/// offset of `packet` lies within it.
pub(super) fn emit_cut(
    packet: &SuperPacket,
    frame: &[u8],
    first: u32,
    count: u32,
    checksum: Checksum,
    out: &mut ChunkHeader,
) -> Result<Range<usize>, SegmentError> {
    let header_len = packet.header_len();
    let size = usize::from(packet.vnet.gso_size);
    let skipped = first as usize * size;
    let start = (header_len + skipped).min(frame.len());
    let end = (start + count as usize * size).min(frame.len());
    let is_last = first + count == packet.segments;

    let headers = out.load(&frame[..header_len]);
    let l4_len = header_len - usize::from(packet.l4) + (end - start);
    rewrite_network(packet, headers, l4_len, first);
    let field = match packet.cut {
        Cut::Tcp => {
            rewrite_tcp(packet, headers, skipped, first == 0, is_last);
            TCP_CHECKSUM
        }
        // Length of the datagram, or of all datagrams if the chunk is cut further.
        Cut::Udp | Cut::Whole => {
            set_word(headers, usize::from(packet.l4) + UDP_LENGTH, l4_len as u16);
            UDP_CHECKSUM
        }
    };
    let at = usize::from(packet.l4) + usize::from(field);
    // The open field holds the sum of the pseudo-header, in which only the length changes.
    let old_len = frame.len() - usize::from(packet.l4);
    let pseudo = Sum::default().word(word(frame, at)).minus(old_len as u16).word(l4_len as u16);
    set_word(headers, at, pseudo.folded());

    let complete = count == 1 && checksum == Checksum::Full;
    if complete {
        // Transport headers have an even length, so the payload continues the sum at an even offset.
        let sum = Sum::default().bytes(&headers[usize::from(packet.l4)..]).bytes(&frame[start..end]);
        set_word(headers, at, sum.checksum_not_zero());
    }
    out.set_vnet(chunk_vnet(packet, first, count, complete));
    Ok(start..end)
}

/// Returns the virtio-net header of a chunk.
fn chunk_vnet(packet: &SuperPacket, first: u32, count: u32, complete: bool) -> VnetHeader {
    let mut vnet = packet.vnet;
    // The ECN bit means CWR, which leaves with the first segment.
    vnet.ecn &= first == 0;
    if count == 1 {
        vnet.gso = GsoType::None;
        vnet.gso_size = 0;
        vnet.ecn = false;
        vnet.hdr_len = 0;
    }
    if complete {
        vnet.flags &= !NEEDS_CSUM;
        vnet.csum_start = 0;
        vnet.csum_offset = 0;
    }
    vnet
}

/// Rewrites lengths, IPv4 identification and IPv4 header checksum. `l4_len` counts the transport header and the payload.
///
/// The identification grows by one per segment even if "don't fragment" is set. virtio has no equivalent of the kernel's
/// `SKB_GSO_TCP_FIXEDID`, and the field has no meaning then (RFC 6864, 4.1).
fn rewrite_network(packet: &SuperPacket, headers: &mut [u8], l4_len: usize, first: u32) {
    let (l3, l4) = (usize::from(packet.l3), usize::from(packet.l4));
    // At most the length of the super-packet's IP packet, which was checked.
    let ip_len = (l4 - l3 + l4_len) as u16;
    let header = &mut headers[l3..l4];
    if packet.ipv6 {
        set_word(header, ipv6::PAYLOAD_LENGTH, ip_len - ipv6::HEADER as u16);
        return;
    }
    set_word(header, ipv4::TOTAL_LENGTH, ip_len);
    let identification = word(header, ipv4::IDENTIFICATION).wrapping_add(first as u16);
    set_word(header, ipv4::IDENTIFICATION, identification);
    set_word(header, ipv4::CHECKSUM, 0);
    let sum = Sum::default().bytes(header).checksum();
    set_word(header, ipv4::CHECKSUM, sum);
}

/// Rewrites the sequence number and flags (`tcp_gso_segment`). The urgent pointer is unchanged, as in the kernel.
fn rewrite_tcp(packet: &SuperPacket, headers: &mut [u8], skipped: usize, is_first: bool, is_last: bool) {
    let header = &mut headers[usize::from(packet.l4)..];
    let at = tcp::SEQUENCE;
    let sequence = u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    header[at..at + 4].copy_from_slice(&sequence.wrapping_add(skipped as u32).to_be_bytes());
    let mut cleared = 0;
    if !is_first {
        cleared |= TcpFlags::CWR;
    }
    if !is_last {
        cleared |= TcpFlags::FIN | TcpFlags::PSH;
    }
    header[tcp::FLAGS] &= !cleared;
}
