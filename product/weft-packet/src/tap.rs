//! Packets read from TAP and macvtap devices: a virtio-net header followed by the frame.
//!
//! The headers of a packet are parsed at most once. A super-packet is parsed when it is read, since cutting needs its offsets. A
//! plain frame is parsed when its flow is first requested, which most frames never need.

use crate::headers::{Headers, parse_headers};
use crate::segment::SuperPacket;
use crate::vnet::VnetHeader;
use core::cell::OnceCell;
use weft_units::{Bytes, FlowKey};

/// A packet read from a device. It keeps lengths and offsets but no bytes: pass the buffer into which it was read.
#[derive(Clone, Debug)]
pub struct TapPacket {
    /// Number of bytes read, virtio-net header included.
    length: usize,
    vnet: VnetHeader,
    /// The parsed packet; `None` if it cannot be cut and is sent whole.
    segmentation: Option<SuperPacket>,
    flow_key: OnceCell<Option<FlowKey>>,
}

impl TapPacket {
    /// Parses the bytes that were read; `None` if no frame follows the header.
    pub fn parse(read: &[u8]) -> Option<Self> {
        frame_bytes(read.len())?;
        let (vnet, frame) = read.split_first_chunk::<{ VnetHeader::LEN }>()?;
        let vnet = VnetHeader::parse(vnet);
        let flow_key = OnceCell::new();
        let headers = || {
            let headers = parse_headers(frame);
            // Cannot fail: the cell is new, and the closure runs once.
            let _ = flow_key.set(headers.as_ref().ok().and_then(Headers::flow_key_of_whole));
            headers
        };
        let segmentation = SuperPacket::parse_with(vnet, frame, headers).ok();
        Some(Self { length: read.len(), vnet, segmentation, flow_key })
    }

    /// The virtio-net header.
    pub fn vnet(&self) -> VnetHeader {
        self.vnet
    }

    /// Returns the packet's segmentation; `None` if it cannot be cut and is sent whole.
    pub fn segmentation(&self) -> Option<SuperPacket> {
        self.segmentation
    }

    /// Length of the frame.
    pub fn bytes(&self) -> Bytes {
        frame_bytes(self.length).unwrap_or(Bytes::ZERO)
    }

    /// The header and the frame within the buffer; empty if the buffer is too short.
    pub fn whole<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        buffer.get(..self.length).unwrap_or_default()
    }

    /// The frame within the buffer; empty if the buffer is too short.
    pub fn frame<'b>(&self, buffer: &'b [u8]) -> &'b [u8] {
        buffer.get(VnetHeader::LEN..self.length).unwrap_or_default()
    }

    /// Returns the flow by the key of [`Headers::flow_key_of_whole`], or `None` for non-IP frames. The first call parses the
    /// headers of the frame in `buffer`.
    pub fn flow_key(&self, buffer: &[u8]) -> Option<FlowKey> {
        *self.flow_key.get_or_init(|| parse_headers(self.frame(buffer)).ok()?.flow_key_of_whole())
    }
}

/// Returns the length of the frame in `length` bytes that were read or written; `None` if no frame follows the virtio-net header.
pub fn frame_bytes(length: usize) -> Option<Bytes> {
    length.checked_sub(VnetHeader::LEN).filter(|frame| *frame > 0).map(|frame| Bytes(frame as u64))
}

/// Parses arbitrary bytes as read from a device, and compares the packet with its separately parsed parts. A fuzz target.
///
/// # Panics
/// If a guarantee is violated, which is a finding of the fuzzer.
pub fn fuzz_tap(read: &[u8]) {
    let Some(packet) = TapPacket::parse(read) else { return };
    let frame = packet.frame(read);
    assert_eq!((packet.bytes(), packet.whole(read)), (Bytes(frame.len() as u64), read));
    assert_eq!(packet.segmentation(), SuperPacket::parse(packet.vnet(), frame).ok());
    let key = parse_headers(frame).ok().and_then(|headers| headers.flow_key_of_whole());
    assert_eq!((packet.flow_key(read), packet.flow_key(read)), (key, key), "parsed early, late, and again");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vnet::GsoType;
    use core::net::{IpAddr, Ipv4Addr};
    use weft_units::Protocol;

    /// An IPv4 UDP datagram of 4 bytes; `fragment` are the flags and the offset of its IP header.
    fn frame(fragment: u16) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([0x08, 0x00, 0x45, 0, 0, 32, 0, 0]);
        frame.extend(fragment.to_be_bytes());
        frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([0, 7, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
        frame
    }

    fn read(vnet: VnetHeader, frame: &[u8]) -> Vec<u8> {
        [&vnet.emit()[..], frame].concat()
    }

    fn key(sport: u16, dport: u16) -> FlowKey {
        let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        FlowKey { src: address(1), dst: address(2), sport, dport, protocol: Protocol::UDP }
    }

    #[test]
    fn a_plain_frame_is_parsed_when_its_flow_is_asked_for() {
        let bytes = read(VnetHeader::default(), &frame(0));
        let packet = TapPacket::parse(&bytes).expect("a packet");
        assert_eq!(packet.flow_key.get(), None, "nobody has asked");
        assert_eq!(packet.segmentation().map(|whole| whole.segments()), Some(1));
        assert_eq!((packet.bytes(), packet.whole(&bytes).len()), (Bytes(46), 46 + VnetHeader::LEN));
        assert_eq!(packet.flow_key(&bytes), Some(key(7, 9)));
        // The second answer does not read the buffer.
        assert_eq!(packet.flow_key(&[]), Some(key(7, 9)));
    }

    #[test]
    fn no_fragment_has_ports() {
        for fragment in [0x2000, 0x0001] {
            let bytes = read(VnetHeader::default(), &frame(fragment));
            let packet = TapPacket::parse(&bytes).expect("a packet");
            assert_eq!(packet.flow_key(&bytes), Some(key(0, 0)), "{fragment:#x}");
        }
    }

    #[test]
    fn a_super_packet_is_parsed_when_it_is_read_even_if_it_cannot_be_cut() {
        let vnet = VnetHeader { gso: GsoType::UdpL4, gso_size: 2, ..VnetHeader::default() };
        let bytes = read(vnet, &frame(0));
        let packet = TapPacket::parse(&bytes).expect("a packet");
        assert_eq!(packet.segmentation(), None, "its checksum is final");
        assert_eq!(packet.flow_key.get(), Some(&Some(key(7, 9))));
    }

    #[test]
    fn nothing_behind_the_header_is_no_packet() {
        assert!(TapPacket::parse(&[]).is_none());
        assert!(TapPacket::parse(&[0; VnetHeader::LEN]).is_none());
        let one = TapPacket::parse(&[0; VnetHeader::LEN + 1]).expect("a byte");
        assert_eq!(one.flow_key(&[0; VnetHeader::LEN + 1]), None);
    }
}
