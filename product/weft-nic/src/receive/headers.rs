//! The header fields of a frame as a NIC parses them: a header match that tests every field.

use core::net::IpAddr;
use weft_packet::headers::{ETHERNET_HEADER, Fragment, VLAN_TAGS_MAX, parse_headers};
use weft_packet::{Field, HeaderMatch};
use weft_units::FlowKey;

/// Ethernet types of VLAN tags: customer's and provider's (IEEE 802.1Q-2018, table 9-1).
const TAGS: [u16; 2] = [0x8100, 0x88a8];

/// Parses `frame`, an Ethernet frame from its destination address on, to a header match that tests every field. `None` for a
/// frame shorter than an Ethernet header.
///
/// A field that the packet does not have is 0, as in [`FlowKey`]: the VLAN tag of an untagged frame, the ports of ICMP.
/// Of two tags the outer one counts, which NICs' filters compare and the kernel calls `vlan_tci`. IPv6 extension
/// headers are walked up to [`weft_packet::headers::IPV6_EXTENSIONS_MAX`].
///
/// No fragment has ports, not even the first; otherwise a datagram's fragments would be steered to different queues.
/// (Microsoft's "RSS hashing types": only the addresses of fragments are hashed. The kernel does the same,
/// `__skb_flow_dissect` without `FLOW_DISSECTOR_F_PARSE_1ST_FRAG`.) If the IP or transport header is truncated or
/// invalid, only the Ethernet fields are known.
///
/// Only the fields are copied, and nothing is allocated.
pub fn packet_headers(frame: &[u8]) -> Option<HeaderMatch> {
    let (tag, ether_type) = ethernet(frame)?;
    let mac = |at: usize| {
        let bytes = frame.get(at..at + 6).unwrap_or_default();
        bytes.iter().fold(0, |mac, byte| mac << 8 | u128::from(*byte))
    };
    let header_match =
        Field::ALL.into_iter().fold(HeaderMatch::ALL, |header_match, field| header_match.exact(field, 0));
    let header_match = header_match
        .exact(Field::DstMac, mac(0))
        .exact(Field::SrcMac, mac(6))
        .exact(Field::Vlan, tag.into())
        .exact(Field::EtherType, ether_type.into());
    let Ok(headers) = parse_headers(frame) else { return Some(header_match) };
    let Some(key) = headers.flow_key else { return Some(header_match) };
    let whole = headers.fragment == Fragment::Whole;
    let header_match = network(header_match, &key);
    if !whole {
        return Some(header_match);
    }
    let flags = headers.tcp_flags.map_or(0, |flags| flags.0);
    Some(
        header_match
            .exact(Field::SrcPort, key.sport.into())
            .exact(Field::DstPort, key.dport.into())
            .exact(Field::TcpFlags, flags.into()),
    )
}

/// Adds the addresses and the protocol.
fn network(header_match: HeaderMatch, key: &FlowKey) -> HeaderMatch {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => address.into(),
    };
    header_match
        .exact(Field::SrcIp, bits(key.src))
        .exact(Field::DstIp, bits(key.dst))
        .exact(Field::IpProtocol, key.protocol.0.into())
}

/// The outer tag's control information (0 without a tag) and the Ethernet type after the tags.
fn ethernet(frame: &[u8]) -> Option<(u16, u16)> {
    let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk::<2>()?));
    let mut at = ETHERNET_HEADER - 2;
    let mut ether_type = word(at)?;
    let mut outer = None;
    for _ in 0..VLAN_TAGS_MAX {
        if !TAGS.contains(&ether_type) {
            break;
        }
        // A truncated tag is no tag: its type shows that there should have been one.
        let (Some(tag), Some(next)) = (word(at + 2), word(at + 4)) else { break };
        outer = outer.or(Some(tag));
        ether_type = next;
        at += 4;
    }
    Some((outer.unwrap_or(0), ether_type))
}

/// Feeds arbitrary bytes to [`packet_headers`] and checks its guarantees. For fuzzers.
///
/// # Panics
/// When a guarantee is violated, as a fuzzer expects.
pub fn fuzz_headers(data: &[u8]) {
    let Some(header_match) = packet_headers(data) else {
        assert!(data.len() < ETHERNET_HEADER, "a frame with an Ethernet header has a header_match");
        return;
    };
    for field in Field::ALL {
        assert_eq!(
            header_match.get(field).1,
            field.all_bits(),
            "{field:?} is not tested wholly: {header_match}"
        );
    }
    // Where the parser of the transmit side finds a flow, its packets are in the flow's header match.
    if let Ok(headers) = parse_headers(data)
        && let Some(key) = headers.flow_key
        && headers.fragment == Fragment::Whole
    {
        assert!(
            HeaderMatch::of_flow(&key).covers(&header_match),
            "{header_match} is not in the flow {key:?}"
        );
    }
}
