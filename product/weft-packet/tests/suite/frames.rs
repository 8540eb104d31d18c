//! Frames for tests, built by etherparse so that the parser under test is not its own oracle.

use etherparse::{
    IpFragOffset, IpHeaders, IpNumber, Ipv4Header, Ipv4Options, Ipv6FlowLabel, Ipv6FragmentHeader,
    Ipv6Header, Ipv6RawExtHeader, PacketBuilder, TcpHeader, UdpHeader,
};

/// The headers below the transport header.
#[derive(Clone, Debug, Default)]
pub(crate) struct Below {
    /// VLAN tags, outermost first.
    pub(crate) vlans: Vec<u16>,
    /// Whether the packet is IPv6 instead of IPv4.
    pub(crate) v6: bool,
    /// Words of IPv4 options, or length field of an IPv6 destination options header.
    pub(crate) options: Option<u8>,
    /// Fragment offset in units of 8 bytes, and whether more fragments follow.
    pub(crate) fragment: Option<(u16, bool)>,
    /// IPv4 identification.
    pub(crate) id: u16,
    /// The last bytes of the source and destination addresses.
    pub(crate) hosts: (u8, u8),
}

/// The transport header.
#[derive(Clone, Debug)]
pub(crate) enum Transport {
    Tcp(TcpHeader),
    Udp(u16, u16),
    /// A protocol that etherparse does not build: its number and bytes.
    Raw(u8, Vec<u8>),
}

fn ip_headers(below: &Below) -> IpHeaders {
    let (a, b) = below.hosts;
    if below.v6 {
        let (mut source, mut destination) = ([0xfd; 16], [0xfc; 16]);
        (source[15], destination[15]) = (a, b);
        let header = Ipv6Header {
            traffic_class: 0,
            flow_label: Ipv6FlowLabel::ZERO,
            payload_length: 0,
            next_header: IpNumber::TCP,
            hop_limit: 64,
            source,
            destination,
        };
        let mut extensions = etherparse::Ipv6Extensions::default();
        if let Some(words) = below.options {
            let payload = vec![0; 6 + usize::from(words) * 8];
            let raw = Ipv6RawExtHeader::new_raw(IpNumber::TCP, &payload).expect("whole words");
            extensions.destination_options = Some(raw);
        }
        if let Some((offset, more)) = below.fragment {
            let offset = IpFragOffset::try_new(offset).expect("13 bits");
            extensions.fragment = Some(Ipv6FragmentHeader::new(IpNumber::TCP, offset, more, 7));
        }
        return IpHeaders::Ipv6(header, extensions);
    }
    let mut header =
        Ipv4Header::new(0, 64, IpNumber::TCP, [10, 0, 0, a], [10, 0, 1, b]).expect("payload of nothing fits");
    header.identification = below.id;
    if let Some(words) = below.options {
        let bytes = vec![1; usize::from(words.min(10)) * 4];
        header.options = Ipv4Options::try_from(&bytes[..]).expect("whole words");
    }
    if let Some((offset, more)) = below.fragment {
        header.dont_fragment = false;
        header.fragment_offset = IpFragOffset::try_new(offset).expect("13 bits");
        header.more_fragments = more;
    }
    IpHeaders::Ipv4(header, Default::default())
}

/// A frame with complete checksums.
pub(crate) fn frame(below: &Below, transport: &Transport, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2];
    for (i, tag) in below.vlans.iter().enumerate() {
        let tpid: u16 = if i == 0 && below.vlans.len() > 1 { 0x88a8 } else { 0x8100 };
        frame.extend_from_slice(&tpid.to_be_bytes());
        frame.extend_from_slice(&tag.to_be_bytes());
    }
    frame.extend_from_slice(if below.v6 { &[0x86, 0xdd] } else { &[0x08, 0x00] });
    let ip = PacketBuilder::ip(ip_headers(below));
    match transport {
        Transport::Tcp(header) => {
            ip.tcp_header(header.clone()).write_to_vec(&mut frame, payload).expect("fits")
        }
        Transport::Udp(s, d) => ip.udp(*s, *d).write_to_vec(&mut frame, payload).expect("fits"),
        Transport::Raw(protocol, bytes) => {
            let all = [bytes, payload].concat();
            ip.write_to_vec(&mut frame, IpNumber(*protocol), &all).expect("fits");
        }
    }
    frame
}

/// A TCP header with `words` words of options.
pub(crate) fn tcp(sport: u16, dport: u16, seq: u32, words: u8) -> TcpHeader {
    let mut header = TcpHeader::new(sport, dport, seq, 8192);
    header.acknowledgment_number = 77;
    header.ack = true;
    header.set_options_raw(&vec![1; usize::from(words) * 4]).expect("at most 40 bytes");
    header
}

/// The naive sum of RFC 1071, folded.
pub(crate) fn folded(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Checks the IP and transport checksums of a complete frame against etherparse; 0 and 0xffff are the same number.
#[track_caller]
pub(crate) fn check_sums(frame: &[u8]) {
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    let sliced = SlicedPacket::from_ethernet(frame).expect("a valid frame");
    let same = |a: u16, b: u16| a == b || (a ^ b == 0xffff && (a == 0 || b == 0));
    let (v4, v6) = match sliced.net.as_ref().expect("IP") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.calc_header_checksum(), header.header_checksum, "IPv4 header checksum");
            (Some((ip.header().source(), ip.header().destination())), None)
        }
        NetSlice::Ipv6(ip) => (None, Some((ip.header().source(), ip.header().destination()))),
        NetSlice::Arp(_) => panic!("not IP"),
    };
    let (expected, given) = match sliced.transport.as_ref().expect("a transport header") {
        TransportSlice::Tcp(tcp) => {
            let sum = match (v4, v6) {
                (Some((s, d)), _) => tcp.calc_checksum_ipv4(s, d),
                (_, Some((s, d))) => tcp.calc_checksum_ipv6(s, d),
                _ => unreachable!(),
            };
            (sum.expect("fits"), tcp.checksum())
        }
        TransportSlice::Udp(udp) => {
            let header = UdpHeader { checksum: 0, ..udp.to_header() };
            assert_eq!(usize::from(header.length), 8 + udp.payload().len());
            let sum = match (v4, v6) {
                (Some((s, d)), _) => header.calc_checksum_ipv4_raw(s, d, udp.payload()),
                (_, Some((s, d))) => header.calc_checksum_ipv6_raw(s, d, udp.payload()),
                _ => unreachable!(),
            };
            (sum.expect("fits"), udp.checksum())
        }
        other => panic!("{other:?}"),
    };
    assert!(same(expected, given), "transport checksum {given:#06x}, expected {expected:#06x}");
}
