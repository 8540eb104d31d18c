//! Header views against etherparse, on frames that etherparse built.

use crate::frames::{Below, Transport, frame, tcp};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use std::net::IpAddr;
use weft_packet::headers::{
    Fragment, Headers, Layer, Network, PacketError, TcpFlags, fuzz_packet, parse_headers,
};
use weft_packet::mutation::mutate;
use weft_units::{Bytes, FlowKey, Protocol, VlanTag};

fn below() -> impl Strategy<Value = Below> {
    let vlans = proptest::collection::vec(0_u16..4096, 0..=2);
    let fragment = proptest::option::weighted(0.2, (0_u16..8191, any::<bool>()));
    (vlans, any::<bool>(), proptest::option::of(0_u8..=10), fragment, any::<(u8, u8)>()).prop_map(
        |(vlans, v6, options, fragment, hosts)| Below { vlans, v6, options, fragment, id: 0, hosts },
    )
}

fn transport() -> impl Strategy<Value = Transport> {
    prop_oneof![
        (any::<(u16, u16, u32)>(), 0_u8..=10).prop_map(|((s, d, q), w)| Transport::Tcp(tcp(s, d, q, w))),
        any::<(u16, u16)>().prop_map(|(s, d)| Transport::Udp(s, d)),
        proptest::collection::vec(any::<u8>(), 12..40).prop_map(|bytes| Transport::Raw(132, bytes)),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Transport::Raw(47, bytes)),
    ]
}

/// Compares with etherparse's view of the same bytes.
fn agree(headers: &Headers, frame: &[u8]) {
    let sliced = SlicedPacket::from_ethernet(frame).expect("etherparse reads its own frames");
    assert_eq!(usize::from(headers.vlan_tags), sliced.link_exts.len());
    let key = headers.flow_key.expect("IP");
    let (src, dst, ip_payload) = match sliced.net.as_ref().expect("IP") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            (IpAddr::V4(header.source_addr()), IpAddr::V4(header.destination_addr()), ip.payload().clone())
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            (IpAddr::V6(header.source_addr()), IpAddr::V6(header.destination_addr()), ip.payload().clone())
        }
        NetSlice::Arp(_) => panic!("not IP"),
    };
    assert_eq!((key.src, key.dst), (src, dst));
    assert_eq!(headers.protocol, Some(Protocol(ip_payload.ip_number.0)));
    let offset_of = |part: &[u8]| part.as_ptr() as usize - frame.as_ptr() as usize;
    assert_eq!(headers.fragment == Fragment::Whole, !ip_payload.fragmented);
    if ip_payload.fragmented {
        return;
    }
    assert_eq!(headers.l4, Some(offset_of(ip_payload.payload)));
    match sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            assert_eq!((key.sport, key.dport), (tcp.source_port(), tcp.destination_port()));
            assert_eq!(headers.payload, offset_of(tcp.payload()));
            let flags = headers.tcp_flags.expect("TCP");
            assert_eq!(flags.contains(TcpFlags::ACK), tcp.ack());
        }
        Some(TransportSlice::Udp(udp)) => {
            assert_eq!((key.sport, key.dport), (udp.source_port(), udp.destination_port()));
            assert_eq!(headers.payload, offset_of(udp.payload()));
        }
        _ if key.protocol == Protocol::SCTP => {
            let ports = [key.sport.to_be_bytes(), key.dport.to_be_bytes()].concat();
            assert_eq!(ports, ip_payload.payload[..4]);
        }
        _ => assert_eq!((key.sport, key.dport), (0, 0)),
    }
}

proptest! {
    #[test]
    fn etherparse_sees_the_same(
        below in below(),
        transport in transport(),
        payload in proptest::collection::vec(any::<u8>(), 0..64),
        padding in 0_usize..20,
    ) {
        let mut bytes = frame(&below, &transport, &payload);
        let end = bytes.len();
        bytes.resize(end + padding, 0xaa);
        let headers = parse_headers(&bytes).expect("a valid frame");
        agree(&headers, &bytes);
        prop_assert_eq!(headers.end, end, "padding lies behind the packet");
        prop_assert!(!headers.cut);
        if headers.fragment == Fragment::Later {
            let key = headers.flow_key.expect("IP");
            prop_assert_eq!((headers.l4, key.sport, key.dport), (None, 0, 0));
        }
    }

    #[test]
    fn every_cut_of_a_frame_is_an_error_or_keeps_its_flow(below in below(), transport in transport()) {
        let whole = frame(&below, &transport, &[7; 40]);
        let headers = parse_headers(&whole).expect("a valid frame");
        for len in 0..whole.len() {
            match parse_headers(&whole[..len]) {
                Ok(cut) => {
                    prop_assert!(cut.cut && cut.end == len);
                    prop_assert_eq!(cut.flow_key, headers.flow_key);
                }
                Err(PacketError::Truncated { offset, needed, end, .. }) => {
                    prop_assert!(end == len && offset + needed > len);
                }
                Err(other) => prop_assert!(false, "{}", other),
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_packet(&bytes);
    }
}

#[test]
fn a_tcp_segment_in_a_vlan() {
    let below = Below { vlans: vec![7], hosts: (1, 2), ..Below::default() };
    let headers =
        parse_headers(&frame(&below, &Transport::Tcp(tcp(40_000, 443, 9, 3)), b"data")).expect("valid");
    let expected = Headers {
        network: Network::Ipv4,
        ethertype: 0x0800,
        vlan_tags: 1,
        vlan: Some(VlanTag { id: 7, priority: 0 }),
        traffic_class: 0,
        l3: 18,
        l4: Some(38),
        payload: 70,
        end: 74,
        total_len: Bytes(56),
        cut: false,
        protocol: Some(Protocol::TCP),
        fragment: Fragment::Whole,
        tcp_flags: Some(TcpFlags(TcpFlags::ACK)),
        flow_key: Some(FlowKey {
            src: "10.0.0.1".parse().expect("address"),
            dst: "10.0.1.2".parse().expect("address"),
            sport: 40_000,
            dport: 443,
            protocol: Protocol::TCP,
        }),
    };
    assert_eq!(headers, expected);
}

/// Against etherparse, for both families, below no tag, one and two.
#[test]
fn the_traffic_class_and_the_outermost_tag_are_read() {
    for (v6, vlans, class) in
        [(false, vec![], 0xb8_u8), (true, vec![4095], 0xb9), (false, vec![1, 2], 3), (true, vec![], 0x5a)]
    {
        let below = Below { vlans: vlans.clone(), v6, hosts: (1, 2), ..Below::default() };
        let mut bytes = frame(&below, &Transport::Udp(1, 2), b"data");
        let l3 = 14 + 4 * vlans.len();
        if v6 {
            (bytes[l3], bytes[l3 + 1]) = (0x60 | class >> 4, class << 4 | 7);
        } else {
            bytes[l3 + 1] = class;
        }
        if !vlans.is_empty() {
            bytes[14] |= 0xa0;
        }
        let headers = parse_headers(&bytes).expect("valid");
        let sliced = SlicedPacket::from_ethernet(&bytes).expect("valid");
        let theirs = match sliced.net.as_ref().expect("IP") {
            NetSlice::Ipv4(ip) => ip.header().dcp().value() << 2 | ip.header().ecn().value(),
            NetSlice::Ipv6(ip) => ip.header().traffic_class(),
            NetSlice::Arp(_) => panic!("not IP"),
        };
        assert_eq!((headers.traffic_class, theirs), (class, class));
        assert_eq!(headers.vlan, vlans.first().map(|id| VlanTag { id: *id, priority: 5 }));
        assert_eq!(headers.meta().key, headers.flow_key);
    }
}

#[test]
fn what_is_not_ip_is_no_error() {
    let mut arp = vec![0xff; 12];
    arp.extend([0x08, 0x06]);
    arp.resize(60, 0);
    let headers = parse_headers(&arp).expect("ARP");
    assert_eq!((headers.network, headers.flow_key, headers.l3), (Network::Arp, None, 14));
    arp[12..14].copy_from_slice(&[0x88, 0xcc]);
    assert_eq!(parse_headers(&arp).expect("LLDP").network, Network::Other);
}

#[test]
fn errors_name_the_header_and_the_offset() {
    let good = frame(&Below::default(), &Transport::Tcp(tcp(1, 2, 3, 0)), b"");
    let text = |frame: &[u8]| parse_headers(frame).expect_err("an error").to_string();
    assert_eq!(
        text(&good[..10]),
        "the Ethernet header is cut off: 14 bytes are needed at offset 0, the packet ends at 10"
    );
    let mut bad = good.clone();
    bad[14] = 0x65;
    assert_eq!(text(&bad), "the IPv4 header is malformed at offset 14: the version is not 4");
    let mut bad = good.clone();
    bad[46] = 0x40;
    assert_eq!(text(&bad), "the TCP header is malformed at offset 46: the data offset is below 20 bytes");
    let mut bad = good.clone();
    bad[16..18].copy_from_slice(&24_u16.to_be_bytes());
    let padded = PacketError::Truncated { layer: Layer::Tcp, offset: 34, needed: 20, end: 38 };
    assert_eq!(parse_headers(&bad), Err(padded), "padding is never read as a header");
}

#[test]
fn a_snapshot_length_may_cut_tcp_options() {
    let whole = frame(&Below::default(), &Transport::Tcp(tcp(1, 2, 3, 3)), &[0; 100]);
    let headers = parse_headers(&whole[..60]).expect("the ports are there");
    assert!(headers.cut);
    assert_eq!((headers.payload, headers.end, headers.total_len), (60, 60, Bytes(152)));
}

#[test]
fn an_authentication_header_counts_in_four_byte_words() {
    let below = Below { v6: true, ..Below::default() };
    // RFC 4302, 2.2: 4 + 2 words, then UDP.
    let mut bytes = vec![17, 4];
    bytes.resize(24, 0);
    bytes.extend([0, 53, 0, 80, 0, 8, 0, 0]);
    let mut authenticated = frame(&below, &Transport::Raw(59, bytes), b"");
    authenticated[14 + 6] = 51;
    let headers = parse_headers(&authenticated).expect("valid");
    let key = headers.flow_key.expect("IP");
    assert_eq!((headers.l4, key.sport, key.dport, key.protocol), (Some(78), 53, 80, Protocol::UDP));
}

#[test]
fn a_chain_of_extension_headers_is_bounded() {
    let below = Below { v6: true, ..Below::default() };
    // Nine hop-by-hop headers of 8 bytes, each naming another.
    let mut endless = frame(&below, &Transport::Raw(59, [0; 8].repeat(9)), b"");
    endless[14 + 6] = 0;
    assert_eq!(parse_headers(&endless), Err(PacketError::TooManyExtensions { offset: 14 + 40 + 72 }));
}

#[test]
fn mutated_packets_never_panic() {
    let mut corpus = Vec::new();
    for v6 in [false, true] {
        for fragment in [None, Some((0, true)), Some((9, false))] {
            let below = Below { v6, fragment, vlans: vec![1, 2], options: Some(2), ..Below::default() };
            corpus.push(frame(&below, &Transport::Tcp(tcp(1, 2, 3, 3)), b"payload"));
            corpus.push(frame(&below, &Transport::Udp(1, 2), b"payload"));
        }
    }
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    assert_eq!(mutate(0xace, &corpus, 1_000_000, fuzz_packet), Ok(()));
}
