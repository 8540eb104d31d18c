//! The virtio-net header that precedes every frame of TUN and macvtap.
//!
//! It states whether the frame's checksum is incomplete, and whether the frame is a super-packet that the receiver has to cut
//! (`linux/virtio_net.h`, `struct virtio_net_hdr_v1`; virtio 1.2, section 5.1.6). The device must be set to this length:
//! `TUNSETVNETHDRSZ` with [`VnetHeader::LEN`]. TUN's default is 10 bytes, without `num_buffers`.
//!
//! **Byte order.** TUN and macvtap use the host's order unless `TUNSETVNETLE` or `TUNSETVNETBE` was called, and so does this
//! module. On little-endian hosts this equals the order of virtio 1.x.

/// Byte ranges of the fields (`struct virtio_net_hdr_v1`).
mod field {
    use core::ops::Range;

    pub(super) const FLAGS: usize = 0;
    pub(super) const GSO_TYPE: usize = 1;
    pub(super) const HDR_LEN: Range<usize> = 2..4;
    pub(super) const GSO_SIZE: Range<usize> = 4..6;
    pub(super) const CSUM_START: Range<usize> = 6..8;
    pub(super) const CSUM_OFFSET: Range<usize> = 8..10;
    pub(super) const NUM_BUFFERS: Range<usize> = 10..12;
}

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the sum from `csum_start` to the end has to be written at `csum_start + csum_offset`, which
/// holds the sum of the pseudo-header.
pub const NEEDS_CSUM: u8 = 1;
/// `VIRTIO_NET_HDR_F_DATA_VALID`: the checksum was verified.
pub const DATA_VALID: u8 = 2;
/// `VIRTIO_NET_HDR_GSO_ECN`: the super-packet's TCP header has CWR set, which only the first segment may keep.
pub const GSO_ECN: u8 = 0x80;

/// The segmentation that the receiver has to perform (`VIRTIO_NET_HDR_GSO_*` without the ECN bit).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum GsoType {
    /// No segmentation: the packet is one frame.
    #[default]
    None,
    /// TCP over IPv4.
    TcpV4,
    /// UDP fragmentation (UFO), which Linux has removed.
    UdpFragment,
    /// TCP over IPv6.
    TcpV6,
    /// UDP with one datagram per segment (`UDP_SEGMENT`).
    UdpL4,
    /// A value unknown to this module, such as a tunnel's.
    Other(u8),
}

impl GsoType {
    /// Returns the type of a field's value without the ECN bit.
    pub const fn from_bits(bits: u8) -> Self {
        match bits & !GSO_ECN {
            0 => Self::None,
            1 => Self::TcpV4,
            3 => Self::UdpFragment,
            4 => Self::TcpV6,
            5 => Self::UdpL4,
            other => Self::Other(other),
        }
    }

    /// Returns the field's value without the ECN bit.
    pub const fn bits(self) -> u8 {
        match self {
            Self::None => 0,
            Self::TcpV4 => 1,
            Self::UdpFragment => 3,
            Self::TcpV6 => 4,
            Self::UdpL4 => 5,
            Self::Other(bits) => bits & !GSO_ECN,
        }
    }
}

/// A virtio-net header. The default describes a complete frame that needs neither cutting nor a checksum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct VnetHeader {
    /// [`NEEDS_CSUM`], [`DATA_VALID`] and flags of later versions.
    pub flags: u8,
    /// The segmentation that the receiver has to perform.
    pub gso: GsoType,
    /// The [`GSO_ECN`] bit of the type.
    pub ecn: bool,
    /// Length of the Ethernet, IP and transport headers in bytes; a hint, 0 if nothing has to be cut.
    pub hdr_len: u16,
    /// Payload bytes of each segment.
    pub gso_size: u16,
    /// Start of the summed bytes, in bytes from the start of the frame.
    pub csum_start: u16,
    /// Position of the checksum field, in bytes from `csum_start`.
    pub csum_offset: u16,
    /// Number of buffers of the frame; TUN leaves it unchanged.
    pub num_buffers: u16,
}

impl VnetHeader {
    /// Length in bytes: `sizeof(struct virtio_net_hdr_v1)`.
    pub const LEN: usize = 12;

    /// Parses a header. Every value is representable, so this cannot fail.
    pub fn parse(bytes: &[u8; Self::LEN]) -> Self {
        let word = |at: core::ops::Range<usize>| u16::from_ne_bytes([bytes[at.start], bytes[at.start + 1]]);
        Self {
            flags: bytes[field::FLAGS],
            gso: GsoType::from_bits(bytes[field::GSO_TYPE]),
            ecn: bytes[field::GSO_TYPE] & GSO_ECN != 0,
            hdr_len: word(field::HDR_LEN),
            gso_size: word(field::GSO_SIZE),
            csum_start: word(field::CSUM_START),
            csum_offset: word(field::CSUM_OFFSET),
            num_buffers: word(field::NUM_BUFFERS),
        }
    }

    /// Returns the header's bytes; the inverse of [`parse`](Self::parse).
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[field::FLAGS] = self.flags;
        bytes[field::GSO_TYPE] = self.gso.bits() | if self.ecn { GSO_ECN } else { 0 };
        bytes[field::HDR_LEN].copy_from_slice(&self.hdr_len.to_ne_bytes());
        bytes[field::GSO_SIZE].copy_from_slice(&self.gso_size.to_ne_bytes());
        bytes[field::CSUM_START].copy_from_slice(&self.csum_start.to_ne_bytes());
        bytes[field::CSUM_OFFSET].copy_from_slice(&self.csum_offset.to_ne_bytes());
        bytes[field::NUM_BUFFERS].copy_from_slice(&self.num_buffers.to_ne_bytes());
        bytes
    }

    /// Whether the checksum is incomplete.
    pub const fn needs_csum(&self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }

    /// Whether the frame is a super-packet.
    pub fn is_gso(&self) -> bool {
        self.gso != GsoType::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_tcp_super_packet_as_linux_writes_it() {
        let mut bytes = [0; VnetHeader::LEN];
        bytes[0] = 1;
        bytes[1] = 0x81;
        bytes[2..4].copy_from_slice(&66_u16.to_ne_bytes());
        bytes[4..6].copy_from_slice(&1448_u16.to_ne_bytes());
        bytes[6..8].copy_from_slice(&34_u16.to_ne_bytes());
        bytes[8..10].copy_from_slice(&16_u16.to_ne_bytes());
        let header = VnetHeader::parse(&bytes);
        let expected = VnetHeader {
            flags: NEEDS_CSUM,
            gso: GsoType::TcpV4,
            ecn: true,
            hdr_len: 66,
            gso_size: 1448,
            csum_start: 34,
            csum_offset: 16,
            num_buffers: 0,
        };
        assert_eq!(header, expected);
        assert!(header.needs_csum() && header.is_gso());
        assert_eq!(VnetHeader::default().emit(), [0; 12], "the default asks for nothing");
    }

    proptest! {
        #[test]
        fn every_header_survives_parse_and_emit(bytes: [u8; VnetHeader::LEN]) {
            prop_assert_eq!(VnetHeader::parse(&bytes).emit(), bytes);
        }
    }
}
