//! Header views: the offsets of a frame's headers and its flow key, without copying or allocating.
//!
//! [`parse_headers`] reads a frame in these steps:
//!
//! 1. Ethernet II with up to two VLAN tags. An EtherType other than IPv4 or IPv6 (ARP, LLDP) ends here: no error, and no flow
//!    key.
//! 2. IPv4 with options, or IPv6. The IP length field sets `end`, so that the padding of a short frame is never parsed as a
//!    header. A length of 0 means "as long as the frame": Linux writes it for super-packets above 64 KB.
//! 3. IPv6 extension headers, at most [`IPV6_EXTENSIONS_MAX`]. The chain is bounded because its length is the sender's choice.
//! 4. The ports of TCP, UDP and SCTP, and TCP's flags. A later fragment has no transport header, so its ports are 0.
//!
//! Rules that must hold:
//!
//! * `l3 <= l4 <= payload <= end <= frame.len()`, for any input. Callers slice by these offsets without further checks;
//!   [`fuzz_packet`] checks them.
//! * No input makes the parser panic. All reads go through `bytes_at` and `require`, which return [`PacketError::Truncated`].
//! * The bytes after the headers never decide about success. A capture may hold only the beginning of each packet: if addresses,
//!   ports and the fixed part of the transport header are present, the frame parses, and [`Headers::cut`] is set.
//! * One flow has one key on both sides of a doorbell: [`Headers::flow_key_of_whole`] must agree with `bpf/flow_key.h`.
//!
//! The parser has no state and no counters. Each rare branch is a variant of [`PacketError`]. A replay counts such frames as
//! unreadable. The software NIC schedules a frame by its ring and needs no key.
//!
//! Not done here: verifying checksums, parsing tunnels, following TCP state.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use thiserror::Error;
use weft_units::{Bytes, FlowKey, PacketMeta, Protocol, VlanTag};

/// Length of an Ethernet header without tags (IEEE 802.3).
pub const ETHERNET_HEADER: usize = 14;
/// The maximum number of VLAN tags that are parsed (IEEE 802.1ad: one of the provider, one of the customer).
pub const VLAN_TAGS_MAX: u8 = 2;
/// The maximum number of IPv6 extension headers that are parsed: each kind at most once, destination options twice (RFC 8200,
/// 4.1).
pub const IPV6_EXTENSIONS_MAX: usize = 8;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_ARP: u16 = 0x0806;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_QINQ: u16 = 0x88a8;

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
const UDP_HEADER: usize = 8;
const SCTP_HEADER: usize = 12;

/// A header that is part of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Layer {
    /// Ethernet with its VLAN tags.
    Ethernet,
    /// IPv4 with its options.
    Ipv4,
    /// IPv6, the fixed header.
    Ipv6,
    /// An IPv6 extension header.
    Ipv6Extension,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP, the common header.
    Sctp,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ethernet => "Ethernet",
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
            Self::Ipv6Extension => "IPv6 extension",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
            Self::Sctp => "SCTP",
        })
    }
}

/// An error in the headers of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PacketError {
    /// The frame, or the IP packet by its own length field, ends inside a header.
    #[error(
        "the {layer} header is cut off: {needed} bytes are needed at offset {offset}, the packet ends at {end}"
    )]
    Truncated {
        /// The header.
        layer: Layer,
        /// Offset in the frame at which the missing bytes begin.
        offset: usize,
        /// Number of bytes required at that offset.
        needed: usize,
        /// Offset in the frame at which the packet ends.
        end: usize,
    },
    /// A field has a value that no valid packet has.
    #[error("the {layer} header is malformed at offset {offset}: {what}")]
    Malformed {
        /// The header.
        layer: Layer,
        /// Offset of the field in the frame.
        offset: usize,
        /// The violated rule.
        what: &'static str,
    },
    /// More extension headers than [`IPV6_EXTENSIONS_MAX`].
    #[error("more than {IPV6_EXTENSIONS_MAX} IPv6 extension headers, the next one at offset {offset}")]
    TooManyExtensions {
        /// Offset of the first extension header that was not parsed.
        offset: usize,
    },
}

/// The network layer of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Network {
    /// Address resolution: not IP.
    Arp,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// Anything else.
    Other,
}

/// The part of an IP datagram that a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fragment {
    /// All of it.
    Whole,
    /// The first fragment: it carries the transport header.
    First,
    /// A later fragment: it carries no ports.
    Later,
}

/// The flags of a TCP header (RFC 9293, 3.1; CWR and ECE: RFC 3168, 6.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Resets the connection.
    pub const RST: u8 = 0x04;
    /// Asks the receiver to deliver without delay.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement field is valid.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is valid.
    pub const URG: u8 = 0x20;
    /// Echoes a congestion mark (ECE).
    pub const ECE: u8 = 0x40;
    /// The congestion window was reduced (CWR).
    pub const CWR: u8 = 0x80;

    /// Whether every flag of `mask` is set.
    pub const fn contains(self, mask: u8) -> bool {
        self.0 & mask == mask
    }
}

/// The offsets and the main fields of a frame's headers. Offsets are in bytes from the start of the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// The network layer.
    pub network: Network,
    /// The EtherType after the VLAN tags. A value below 1536 is a length (IEEE 802.3).
    pub ethertype: u16,
    /// The number of VLAN tags.
    pub vlan_tags: u8,
    /// The outermost VLAN tag.
    pub vlan: Option<VlanTag>,
    /// The traffic class of an IP packet: DSCP and ECN. 0 for others.
    pub traffic_class: u8,
    /// Offset of the network header.
    pub l3: usize,
    /// Offset of the transport header; `None` for non-IP frames and for later fragments.
    pub l4: Option<usize>,
    /// Offset of the first byte after the last parsed header; never beyond `end`.
    pub payload: usize,
    /// Offset of the packet's end: by its IP length field, or the end of the frame if that is earlier. Ethernet padding lies
    /// beyond it.
    pub end: usize,
    /// Length of the IP packet by its length field, network header included. For non-IP frames, and for a length field of 0
    /// (jumbograms and super-packets above 64 KB), the length of the frame without its Ethernet header.
    pub total_len: Bytes,
    /// Whether the frame is shorter than the IP length field, as in a capture with a snapshot length.
    pub cut: bool,
    /// The transport protocol of an IP packet.
    pub protocol: Option<Protocol>,
    /// The part of a datagram that the packet carries.
    pub fragment: Fragment,
    /// The flags of a TCP header.
    pub tcp_flags: Option<TcpFlags>,
    /// The five-tuple of an IP packet. Ports are 0 for later fragments and for protocols without ports.
    pub flow_key: Option<FlowKey>,
}

impl Headers {
    /// The flow key that the eBPF program uses (bpf/flow_key.h). Ports are 0 for every fragment, the first included, so that all
    /// fragments of a datagram belong to one flow.
    pub fn flow_key_of_whole(&self) -> Option<FlowKey> {
        let key = self.flow_key?;
        let whole = self.fragment == Fragment::Whole;
        Some(if whole { key } else { FlowKey { sport: 0, dport: 0, ..key } })
    }

    /// The metadata that the frame itself has. That of the sender's socket is unknown.
    pub fn meta(&self) -> PacketMeta {
        PacketMeta {
            key: self.flow_key,
            vlan: self.vlan,
            traffic_class: self.traffic_class,
            ..PacketMeta::default()
        }
    }
}

/// Returns the `N` bytes at `at`, or an error that names the header.
fn bytes_at<const N: usize>(packet: &[u8], layer: Layer, at: usize) -> Result<[u8; N], PacketError> {
    let truncated = PacketError::Truncated { layer, offset: at, needed: N, end: packet.len() };
    packet.get(at..).and_then(|rest| rest.first_chunk::<N>()).copied().ok_or(truncated)
}

/// Checks that `needed` bytes are present at `at`.
fn require(packet: &[u8], layer: Layer, at: usize, needed: usize) -> Result<(), PacketError> {
    let end = packet.len();
    if at.checked_add(needed).is_some_and(|last| last <= end) {
        return Ok(());
    }
    Err(PacketError::Truncated { layer, offset: at, needed, end })
}

/// Parses the headers of a frame that begins with its destination MAC address.
///
/// # Errors
/// The frame ends inside a header, or a field has a value that no valid packet has. Bytes after the headers never cause an error.
pub fn parse_headers(frame: &[u8]) -> Result<Headers, PacketError> {
    require(frame, Layer::Ethernet, 0, ETHERNET_HEADER)?;
    let (mut l3, mut vlan_tags) = (ETHERNET_HEADER, 0);
    let mut ethertype = u16::from_be_bytes(bytes_at(frame, Layer::Ethernet, l3 - 2)?);
    while matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_QINQ) && vlan_tags < VLAN_TAGS_MAX {
        l3 += 4;
        vlan_tags += 1;
        ethertype = u16::from_be_bytes(bytes_at(frame, Layer::Ethernet, l3 - 2)?);
    }
    let vlan = match vlan_tags {
        0 => None,
        _ => {
            Some(VlanTag::of_control(u16::from_be_bytes(bytes_at(frame, Layer::Ethernet, ETHERNET_HEADER)?)))
        }
    };
    let network = match ethertype {
        ETHERTYPE_IPV4 => Network::Ipv4,
        ETHERTYPE_IPV6 => Network::Ipv6,
        ETHERTYPE_ARP => Network::Arp,
        _ => Network::Other,
    };
    let headers = Headers {
        network,
        ethertype,
        vlan_tags,
        vlan,
        traffic_class: 0,
        l3,
        l4: None,
        payload: l3,
        end: frame.len(),
        total_len: Bytes((frame.len() - l3) as u64),
        cut: false,
        protocol: None,
        fragment: Fragment::Whole,
        tcp_flags: None,
        flow_key: None,
    };
    match network {
        Network::Ipv4 => parse_ipv4(frame, headers),
        Network::Ipv6 => parse_ipv6(frame, headers),
        Network::Arp | Network::Other => Ok(headers),
    }
}

/// Sets the end of the packet from the IP length field. A field of 0 means the end of the frame (Linux writes it for
/// super-packets above 64 KB, RFC 2675 for jumbograms).
fn bound<'a>(frame: &'a [u8], headers: &mut Headers, length: usize) -> &'a [u8] {
    if length == 0 {
        return frame;
    }
    headers.total_len = Bytes(length as u64);
    headers.cut = headers.l3 + length > frame.len();
    headers.end = frame.len().min(headers.l3 + length);
    &frame[..headers.end]
}

/// Parses IPv4 (RFC 791, 3.1).
fn parse_ipv4(frame: &[u8], mut headers: Headers) -> Result<Headers, PacketError> {
    const LAYER: Layer = Layer::Ipv4;
    let l3 = headers.l3;
    let fixed: [u8; IPV4_HEADER] = bytes_at(frame, LAYER, l3)?;
    let malformed = |offset, what| Err(PacketError::Malformed { layer: LAYER, offset, what });
    if fixed[0] >> 4 != 4 {
        return malformed(l3, "the version is not 4");
    }
    let header_len = usize::from(fixed[0] & 0x0f) * 4;
    if header_len < IPV4_HEADER {
        return malformed(l3, "the header length is below 20 bytes");
    }
    let total_len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if total_len != 0 && total_len < header_len {
        return malformed(l3 + 2, "the total length is below the header length");
    }
    let packet = bound(frame, &mut headers, total_len);
    require(packet, LAYER, l3, header_len)?;

    let fragment = u16::from_be_bytes([fixed[6], fixed[7]]);
    let (more, offset) = (fragment & 0x2000 != 0, fragment & 0x1fff);
    headers.fragment = match (offset, more) {
        (0, false) => Fragment::Whole,
        (0, true) => Fragment::First,
        _ => Fragment::Later,
    };
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = fixed;
    let src = IpAddr::V4(Ipv4Addr::new(s0, s1, s2, s3));
    let dst = IpAddr::V4(Ipv4Addr::new(d0, d1, d2, d3));
    headers.payload = l3 + header_len;
    headers.traffic_class = fixed[1];
    parse_transport(packet, headers, src, dst, Protocol(fixed[9]))
}

/// Parses IPv6 (RFC 8200, 3 and 4).
fn parse_ipv6(frame: &[u8], mut headers: Headers) -> Result<Headers, PacketError> {
    let l3 = headers.l3;
    let fixed: [u8; IPV6_HEADER] = bytes_at(frame, Layer::Ipv6, l3)?;
    if fixed[0] >> 4 != 6 {
        let what = "the version is not 6";
        return Err(PacketError::Malformed { layer: Layer::Ipv6, offset: l3, what });
    }
    let payload_len = usize::from(u16::from_be_bytes([fixed[4], fixed[5]]));
    let length = if payload_len == 0 { 0 } else { IPV6_HEADER + payload_len };
    let packet = bound(frame, &mut headers, length);
    headers.traffic_class = fixed[0] << 4 | fixed[1] >> 4;
    let address = |at: usize| -> Result<IpAddr, PacketError> {
        Ok(IpAddr::V6(Ipv6Addr::from(bytes_at::<16>(packet, Layer::Ipv6, at)?)))
    };
    let (src, dst) = (address(l3 + 8)?, address(l3 + 24)?);
    headers.payload = l3 + IPV6_HEADER;
    let protocol = walk_extensions(packet, &mut headers, fixed[6])?;
    parse_transport(packet, headers, src, dst, protocol)
}

/// Skips extension headers up to the transport header, a later fragment, or an opaque header (ESP).
fn walk_extensions(packet: &[u8], headers: &mut Headers, first: u8) -> Result<Protocol, PacketError> {
    const HOP_BY_HOP: u8 = 0;
    const ROUTING: u8 = 43;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    const DESTINATION: u8 = 60;
    const MOBILITY: u8 = 135;
    const HIP: u8 = 139;
    const SHIM6: u8 = 140;

    const LAYER: Layer = Layer::Ipv6Extension;
    let mut next = first;
    for _ in 0..=IPV6_EXTENSIONS_MAX {
        let at = headers.payload;
        let length = match next {
            HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY | HIP | SHIM6 => {
                8 + usize::from(bytes_at::<2>(packet, LAYER, at)?[1]) * 8
            }
            // RFC 4302, 2.2: in 4-byte words, minus 2.
            AUTHENTICATION => 8 + usize::from(bytes_at::<2>(packet, LAYER, at)?[1]) * 4,
            FRAGMENT => 8,
            _ => return Ok(Protocol(next)),
        };
        require(packet, LAYER, at, length)?;
        let fixed: [u8; 4] = bytes_at(packet, LAYER, at)?;
        let was_fragment = next == FRAGMENT;
        next = fixed[0];
        headers.payload = at + length;
        if was_fragment {
            let field = u16::from_be_bytes([fixed[2], fixed[3]]);
            headers.fragment = match (field >> 3, field & 1) {
                (0, 0) => Fragment::Whole,
                (0, _) => Fragment::First,
                _ => Fragment::Later,
            };
            if headers.fragment == Fragment::Later {
                return Ok(Protocol(next));
            }
        }
    }
    Err(PacketError::TooManyExtensions { offset: headers.payload })
}

/// Parses the ports and TCP's flags, and sets the payload's offset.
fn parse_transport(
    packet: &[u8],
    mut headers: Headers,
    src: IpAddr,
    dst: IpAddr,
    protocol: Protocol,
) -> Result<Headers, PacketError> {
    headers.protocol = Some(protocol);
    let mut key = FlowKey { src, dst, sport: 0, dport: 0, protocol };
    headers.flow_key = Some(key);
    if headers.fragment == Fragment::Later {
        return Ok(headers);
    }
    let l4 = headers.payload;
    headers.l4 = Some(l4);
    let (layer, fixed) = match protocol {
        Protocol::TCP => (Layer::Tcp, TCP_HEADER),
        Protocol::UDP => (Layer::Udp, UDP_HEADER),
        Protocol::SCTP => (Layer::Sctp, SCTP_HEADER),
        _ => return Ok(headers),
    };
    require(packet, layer, l4, fixed)?;
    let [s0, s1, d0, d1] = bytes_at(packet, layer, l4)?;
    key.sport = u16::from_be_bytes([s0, s1]);
    key.dport = u16::from_be_bytes([d0, d1]);
    headers.flow_key = Some(key);
    headers.payload = l4 + fixed;
    if layer == Layer::Tcp {
        let [offset, flags] = bytes_at(packet, layer, l4 + 12)?;
        headers.tcp_flags = Some(TcpFlags(flags));
        let length = usize::from(offset >> 4) * 4;
        if length < TCP_HEADER {
            let what = "the data offset is below 20 bytes";
            return Err(PacketError::Malformed { layer, offset: l4 + 12, what });
        }
        if !headers.cut {
            require(packet, layer, l4, length)?;
        }
        headers.payload = (l4 + length).min(headers.end);
    }
    Ok(headers)
}

/// Parses arbitrary bytes and checks the guarantees on the offsets. A fuzz target.
///
/// # Panics
/// If a guarantee is violated, which is a finding of the fuzzer.
pub fn fuzz_packet(data: &[u8]) {
    if let Ok(headers) = parse_headers(data) {
        assert!(headers.l3 <= headers.payload, "{headers:?}");
        assert!(headers.payload <= headers.end && headers.end <= data.len(), "{headers:?}");
        assert!(headers.l4.is_none_or(|l4| l4 > headers.l3 && l4 <= headers.payload), "{headers:?}");
        assert_eq!(headers.flow_key.is_some(), headers.protocol.is_some(), "{headers:?}");
        assert!(headers.flow_key.is_none_or(|key| key.src.is_ipv4() == key.dst.is_ipv4()), "{headers:?}");
        assert!(headers.vlan_tags <= VLAN_TAGS_MAX, "{headers:?}");
    }
}
