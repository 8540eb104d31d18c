//! The receive side's parser of frames, compared with etherparse.

use crate::frames::{Below, Transport, frame, tcp};
use etherparse::{LinkExtSlice, NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use weft_nic::receive::headers::fuzz_headers;
use weft_nic::receive::packet_headers;
use weft_packet::mutation::mutate;
use weft_packet::{Field, HeaderMatch};

fn below() -> impl Strategy<Value = Below> {
    let vlans = proptest::collection::vec(0_u16.., 0..=2);
    let fragment = proptest::option::weighted(0.2, (0_u16..8191, any::<bool>()));
    (vlans, any::<bool>(), proptest::option::of(0_u8..=10), fragment, any::<(u8, u8)>()).prop_map(
        |(vlans, v6, options, fragment, hosts)| Below { vlans, v6, options, fragment, id: 0, hosts },
    )
}

fn transport() -> impl Strategy<Value = Transport> {
    prop_oneof![
        (any::<(u16, u16, u32)>(), 0_u8..=10, any::<(bool, bool, bool)>()).prop_map(
            |((s, d, q), w, (syn, fin, ece))| {
                let mut header = tcp(s, d, q, w);
                (header.syn, header.fin, header.ece) = (syn, fin, ece);
                Transport::Tcp(header)
            }
        ),
        any::<(u16, u16)>().prop_map(|(s, d)| Transport::Udp(s, d)),
        proptest::collection::vec(any::<u8>(), 12..40).prop_map(|bytes| Transport::Raw(132, bytes)),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| Transport::Raw(47, bytes)),
    ]
}

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// The header match of a frame, built from etherparse's view of it.
fn expected(frame: &[u8]) -> HeaderMatch {
    let sliced = SlicedPacket::from_ethernet(frame).expect("etherparse reads its own frames");
    let tag = sliced.link_exts.first().map_or(0, |tag| match tag {
        LinkExtSlice::Vlan(tag) => u128::from(
            u16::from(u8::from(tag.priority_code_point())) << 13
                | u16::from(tag.drop_eligible_indicator()) << 12
                | tag.vlan_identifier().value(),
        ),
        other => panic!("{other:?}"),
    });
    let all = Field::ALL.into_iter().fold(HeaderMatch::ALL, |headers, field| headers.exact(field, 0));
    let mut headers = all
        .exact(Field::DstMac, number(&frame[..6]))
        .exact(Field::SrcMac, number(&frame[6..12]))
        .exact(Field::Vlan, tag);
    let payload = match sliced.net.as_ref().expect("IP") {
        NetSlice::Ipv4(ip) => {
            let header = ip.header();
            headers = headers
                .exact(Field::EtherType, 0x0800)
                .exact(Field::SrcIp, number(&header.source()))
                .exact(Field::DstIp, number(&header.destination()));
            ip.payload().clone()
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header();
            headers = headers
                .exact(Field::EtherType, 0x86dd)
                .exact(Field::SrcIp, number(&header.source()))
                .exact(Field::DstIp, number(&header.destination()));
            ip.payload().clone()
        }
        NetSlice::Arp(_) => panic!("not IP"),
    };
    headers = headers.exact(Field::IpProtocol, payload.ip_number.0.into());
    if payload.fragmented {
        return headers;
    }
    let ports = |headers: HeaderMatch, bytes: &[u8]| {
        headers.exact(Field::SrcPort, number(&bytes[..2])).exact(Field::DstPort, number(&bytes[2..4]))
    };
    match sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            ports(headers, tcp.slice()).exact(Field::TcpFlags, tcp.slice()[13].into())
        }
        Some(TransportSlice::Udp(udp)) => ports(headers, udp.slice()),
        _ if payload.ip_number.0 == 132 => ports(headers, payload.payload),
        _ => headers,
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
        bytes.resize(bytes.len() + padding, 0xaa);
        prop_assert_eq!(packet_headers(&bytes), Some(expected(&bytes)));
    }

    #[test]
    fn any_bytes_have_all_fields(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz_headers(&bytes);
    }
}

#[test]
fn mutated_frames_have_all_fields() {
    let frames: Vec<_> = [false, true]
        .into_iter()
        .flat_map(|v6| {
            let below = Below { vlans: vec![5, 6], v6, options: Some(1), ..Below::default() };
            let fragment = Below { fragment: Some((0, true)), v6, ..Below::default() };
            [
                frame(&below, &Transport::Tcp(tcp(1, 2, 3, 4)), b"data"),
                frame(&fragment, &Transport::Udp(1, 2), &[1; 32]),
            ]
        })
        .collect();
    let corpus: Vec<_> = frames.iter().map(Vec::as_slice).collect();
    mutate(11, &corpus, 30_000, fuzz_headers).expect("no input breaks a promise");
}

#[test]
fn what_is_cut_off_or_not_ip_keeps_its_ethernet_fields() {
    let whole = frame(&Below::default(), &Transport::Udp(7, 8), b"data");
    assert_eq!(packet_headers(&whole[..13]), None);
    let cut = packet_headers(&whole[..30]).expect("an Ethernet header is there");
    assert_eq!(cut.ether_type(), Some(0x0800));
    assert_eq!(cut.get(Field::SrcIp), (0, u128::MAX));
    let mut arp = whole[..14].to_vec();
    arp[12..].copy_from_slice(&[0x08, 0x06]);
    arp.extend([0; 28]);
    let arp = packet_headers(&arp).expect("a frame");
    assert_eq!((arp.ether_type(), arp.get(Field::DstIp).0), (Some(0x0806), 0));
}

#[test]
fn a_third_tag_is_not_followed() {
    let mut bytes = frame(&Below { vlans: vec![1, 2], ..Below::default() }, &Transport::Udp(7, 8), b"");
    // Another tag between the second one and IP.
    bytes.splice(20..20, [0x81, 0x00, 0x00, 0x03]);
    let headers = packet_headers(&bytes).expect("a frame");
    assert_eq!((headers.get(Field::Vlan).0, headers.ether_type()), (1, Some(0x8100)));
    assert_eq!(headers.get(Field::SrcIp).0, 0);
}
