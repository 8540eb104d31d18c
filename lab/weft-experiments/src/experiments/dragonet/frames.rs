//! Frames of a flow: packets in the flow's set, as they would arrive from the wire.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;
use weft_nic::receive::packet_headers;
use weft_packet::header_match::{ETHER_TYPE_IPV4, ETHER_TYPE_IPV6};
use weft_packet::{Field, HeaderMatch};
use weft_units::Protocol;

const SHORTEST: usize = weft_packet::ethernet::FRAME_MIN.0 as usize;
/// The source of unmatched addresses: locally administered ones, distinct from those of the testbed's devices.
const SRC_MAC: u128 = 0x0200_0000_5701;
const DST_MAC: u128 = 0x0200_0000_5702;
/// Flags of a segment within a connection: ACK (RFC 9293, 3.1).
const ACK: u128 = 0x10;
/// Tag protocol identifier of a customer's VLAN (IEEE 802.1Q).
const TPID: u16 = 0x8100;
/// Payload bytes after the transport header.
const PAYLOAD: usize = 18;

/// The flow's fields contradict each other, such as ports in ICMP.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no packet can be built for the flow `{flow}`: its fields contradict each other")]
pub struct NoPacket {
    /// The flow.
    pub flow: Box<HeaderMatch>,
}

/// Returns a frame of a packet in `flow`. Bits of addresses and ports that the flow does not match are drawn from
/// `random`; other unmatched fields get common values: no VLAN tag, IPv4, UDP, and for TCP a segment with ACK.
///
/// # Errors
/// Fails when the flow's fields contradict each other. The finished frame is parsed as in the NIC to find out.
pub fn frame_of(flow: &HeaderMatch, random: &mut Pcg64Mcg) -> Result<Vec<u8>, NoPacket> {
    let field = |field: Field, otherwise: u128| {
        let (value, mask) = flow.get(field);
        value | otherwise & !mask & field.all_bits()
    };
    let mut any = || u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
    let is_tcp = flow.get(Field::TcpFlags).0 != 0;
    let ether_type = field(Field::EtherType, ETHER_TYPE_IPV4.into()) as u16;
    let protocol = Protocol(field(
        Field::IpProtocol,
        if is_tcp { Protocol::TCP.0 } else { Protocol::UDP.0 }.into(),
    ) as u8);
    let ports = [field(Field::SrcPort, any()) as u16, field(Field::DstPort, any()) as u16];
    let flags = field(Field::TcpFlags, ACK) as u8;
    let transport = transport(protocol, ports, flags);
    let addresses = [field(Field::SrcIp, any()), field(Field::DstIp, any())];

    let mut frame = Vec::with_capacity(128);
    frame.extend_from_slice(&field(Field::DstMac, DST_MAC).to_be_bytes()[10..]);
    frame.extend_from_slice(&field(Field::SrcMac, SRC_MAC).to_be_bytes()[10..]);
    let tag = field(Field::Vlan, 0) as u16;
    if tag != 0 {
        frame.extend_from_slice(&TPID.to_be_bytes());
        frame.extend_from_slice(&tag.to_be_bytes());
    }
    frame.extend_from_slice(&ether_type.to_be_bytes());
    match ether_type {
        ETHER_TYPE_IPV4 => ipv4(&mut frame, protocol, addresses.map(|a| a as u32), &transport),
        ETHER_TYPE_IPV6 => ipv6(&mut frame, protocol, addresses, &transport),
        _ => {}
    }
    frame.resize(frame.len().max(SHORTEST), 0);
    match packet_headers(&frame) {
        Some(packet) if flow.covers(&packet) => Ok(frame),
        _ => Err(NoPacket { flow: Box::new(*flow) }),
    }
}

/// Appends transport header and payload. A UDP checksum of 0 means none (RFC 768). The other checksums are not read,
/// since no socket in the testbed receives these packets.
fn transport(protocol: Protocol, [src, dst]: [u16; 2], flags: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    let ports = |bytes: &mut Vec<u8>| {
        bytes.extend_from_slice(&src.to_be_bytes());
        bytes.extend_from_slice(&dst.to_be_bytes());
    };
    match protocol {
        Protocol::TCP => {
            ports(&mut bytes);
            bytes.extend_from_slice(&[0; 8]);
            // A header of five words.
            bytes.extend_from_slice(&[5 << 4, flags]);
            bytes.extend_from_slice(&[0; 6]);
        }
        Protocol::UDP => {
            ports(&mut bytes);
            bytes.extend_from_slice(&(8 + PAYLOAD as u16).to_be_bytes());
            bytes.extend_from_slice(&[0; 2]);
        }
        Protocol::SCTP => {
            ports(&mut bytes);
            bytes.extend_from_slice(&[0; 8]);
        }
        _ => {}
    }
    bytes.resize(bytes.len() + PAYLOAD, 0);
    bytes
}

/// Appends an IPv4 packet (RFC 791, 3.1).
fn ipv4(frame: &mut Vec<u8>, protocol: Protocol, [src, dst]: [u32; 2], transport: &[u8]) {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&(20 + transport.len() as u16).to_be_bytes());
    header[8] = 64;
    header[9] = protocol.0;
    header[12..16].copy_from_slice(&src.to_be_bytes());
    header[16..20].copy_from_slice(&dst.to_be_bytes());
    let sum = header.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum::<u32>();
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    header[10..12].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    frame.extend_from_slice(&header);
    frame.extend_from_slice(transport);
}

/// Appends an IPv6 packet (RFC 8200, 3).
fn ipv6(frame: &mut Vec<u8>, protocol: Protocol, [src, dst]: [u128; 2], transport: &[u8]) {
    frame.extend_from_slice(&[0x60, 0, 0, 0]);
    frame.extend_from_slice(&(transport.len() as u16).to_be_bytes());
    frame.extend_from_slice(&[protocol.0, 64]);
    frame.extend_from_slice(&src.to_be_bytes());
    frame.extend_from_slice(&dst.to_be_bytes());
    frame.extend_from_slice(transport);
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_packet::Prefix;
    use weft_units::FlowKey;

    fn random() -> Pcg64Mcg {
        Pcg64Mcg::new(7)
    }

    fn key(src: &str, dst: &str, protocol: Protocol) -> FlowKey {
        let address = |text: &str| text.parse().expect("address");
        FlowKey { src: address(src), dst: address(dst), sport: 1234, dport: 53, protocol }
    }

    #[test]
    fn a_flow_of_a_five_tuple_gives_its_packet() {
        for protocol in [Protocol::TCP, Protocol::UDP, Protocol::SCTP] {
            for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
                let key = key(src, dst, protocol);
                let frame = frame_of(&HeaderMatch::of_flow(&key), &mut random()).expect("a packet");
                assert_eq!(packet_headers(&frame).and_then(|packet| packet.flow()), Some(key));
            }
        }
    }

    #[test]
    fn wildcards_are_filled_anew_for_each_packet() {
        let prefix = |text: &str| text.parse::<Prefix>().expect("prefix");
        let flow = HeaderMatch::ALL
            .prefix(Field::SrcIp, prefix("10.1.0.0/16"))
            .exact(Field::DstPort, 11_211)
            .exact(Field::Vlan, 7);
        let mut random = random();
        let packets: Vec<_> = (0..20)
            .map(|_| packet_headers(&frame_of(&flow, &mut random).expect("a packet")).expect("a frame"))
            .collect();
        assert!(packets.iter().all(|packet| flow.covers(packet)));
        let sources: std::collections::BTreeSet<_> =
            packets.iter().map(|packet| packet.get(Field::SrcIp)).collect();
        assert!(sources.len() > 10, "{sources:?}");
    }

    #[test]
    fn flags_make_it_tcp_and_other_types_have_no_ip() {
        let syn = HeaderMatch::ALL.with(Field::TcpFlags, 0x02, 0x12);
        let packet = packet_headers(&frame_of(&syn, &mut random()).expect("a packet")).expect("a frame");
        assert_eq!(packet.get(Field::IpProtocol).0, 6);
        assert_eq!(packet.get(Field::TcpFlags).0, 0x02);
        let fcoe = HeaderMatch::ALL.exact(Field::EtherType, 0x8906).exact(Field::DstMac, 0x0efc_0001_0203);
        let frame = frame_of(&fcoe, &mut random()).expect("a frame");
        assert_eq!(frame.len(), SHORTEST);
    }

    #[test]
    fn what_no_packet_has_is_an_error() {
        for flow in [
            HeaderMatch::ALL.exact(Field::IpProtocol, 1).exact(Field::DstPort, 53),
            HeaderMatch::ALL.exact(Field::EtherType, 0x0806).exact(Field::IpProtocol, 17),
            HeaderMatch::ALL.exact(Field::EtherType, 0x8100),
            HeaderMatch::ALL.exact(Field::IpProtocol, 17).exact(Field::TcpFlags, 2),
        ] {
            assert_eq!(frame_of(&flow, &mut random()), Err(NoPacket { flow: Box::new(flow) }));
        }
    }
}
