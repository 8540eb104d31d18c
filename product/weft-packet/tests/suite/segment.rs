//! Segmentation against etherparse: the chunks hold the same bytes as a NIC's segmentation of the super-packet.

use crate::frames::{Below, Transport, check_sums, folded, frame, tcp};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use weft_packet::ethernet::{AROUND, wire_of};
use weft_packet::headers::parse_headers;
use weft_packet::mutation::mutate;
use weft_packet::segment::{Checksum, ChunkHeader, SegmentError, SuperPacket, fuzz_segment};
use weft_packet::tap::fuzz_tap;
use weft_packet::vnet::{GsoType, NEEDS_CSUM, VnetHeader};
use weft_units::Bytes;

/// Turns a complete frame into a super-packet as Linux passes it on: the checksum field holds the sum of the pseudo-header.
fn open(mut frame: Vec<u8>, gso_size: u16, gso: GsoType) -> (VnetHeader, Vec<u8>) {
    let headers = parse_headers(&frame).expect("built well");
    let l4 = headers.l4.expect("transport");
    let csum_offset = if gso == GsoType::UdpL4 { 6 } else { 16 };
    let at = l4 + csum_offset;
    let pseudo_sum = {
        let key = headers.flow_key.expect("IP");
        let mut pseudo = Vec::new();
        match (key.src, key.dst) {
            (std::net::IpAddr::V4(s), std::net::IpAddr::V4(d)) => {
                pseudo.extend([s.octets(), d.octets()].concat())
            }
            (std::net::IpAddr::V6(s), std::net::IpAddr::V6(d)) => {
                pseudo.extend([s.octets(), d.octets()].concat())
            }
            _ => unreachable!(),
        }
        pseudo.extend([0, key.protocol.0]);
        pseudo.extend(((frame.len() - l4) as u32).to_be_bytes());
        folded(&pseudo)
    };
    frame[at..at + 2].copy_from_slice(&pseudo_sum.to_be_bytes());
    let vnet = VnetHeader {
        flags: NEEDS_CSUM,
        gso,
        ecn: false,
        hdr_len: headers.payload as u16,
        gso_size,
        csum_start: l4 as u16,
        csum_offset: csum_offset as u16,
        num_buffers: 0,
    };
    (vnet, frame)
}

/// Completes an open checksum, as the hardware does for a plain frame.
fn complete(vnet: VnetHeader, mut frame: Vec<u8>) -> Vec<u8> {
    assert_eq!(vnet.gso, GsoType::None, "only plain frames reach the wire");
    assert_eq!((vnet.gso_size, vnet.ecn), (0, false));
    if vnet.needs_csum() {
        let start = usize::from(vnet.csum_start);
        let at = start + usize::from(vnet.csum_offset);
        let sum = !folded(&frame[start..]);
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// Cuts into chunks of the given sizes, and every chunk into single frames, as the kernel would behind the port.
fn cut(vnet: VnetHeader, frame: &[u8], sizes: &[u32], checksum: Checksum) -> Vec<Vec<u8>> {
    let packet = SuperPacket::parse(vnet, frame).expect("a super-packet");
    let mut out = ChunkHeader::default();
    let (mut first, mut wire, mut frames) = (0, Bytes::ZERO, Vec::new());
    let mut sizes = sizes.iter().cycle();
    while first < packet.segments() {
        let count = (*sizes.next().expect("cycles")).min(packet.segments() - first);
        let range = packet.emit(frame, first, count, checksum, &mut out).expect("segments that exist");
        let chunk = [out.frame_headers(), &frame[range]].concat();
        assert_eq!(out.as_bytes().len(), VnetHeader::LEN + out.frame_headers().len());
        if count == 1 {
            assert!(out.vnet().needs_csum() == (checksum == Checksum::Partial));
            let len = Bytes(chunk.len() as u64);
            assert_eq!(packet.wire_bytes(first, 1), wire_of(len));
            frames.push(complete(out.vnet(), chunk));
        } else {
            assert_eq!((out.vnet().gso, out.vnet().gso_size), (vnet.gso, vnet.gso_size));
            assert_eq!(out.vnet().ecn, vnet.ecn && first == 0, "the bit goes with CWR");
            let again = SuperPacket::parse(out.vnet(), &chunk).expect("a chunk is a super-packet");
            assert_eq!(again.segments(), count);
            frames.extend(cut(out.vnet(), &chunk, &[1], Checksum::Partial));
        }
        wire += packet.wire_bytes(first, count);
        first += count;
    }
    assert_eq!(wire, packet.wire_bytes(0, packet.segments()), "chunks add up to the whole");
    assert_eq!(frames.len() as u32, packet.segments());
    frames
}

fn below() -> impl Strategy<Value = Below> {
    let vlans = proptest::collection::vec(0_u16..4096, 0..=2);
    (vlans, any::<bool>(), proptest::option::of(0_u8..=10), any::<u16>(), any::<(u8, u8)>())
        .prop_map(|(vlans, v6, options, id, hosts)| Below { vlans, v6, options, fragment: None, id, hosts })
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn tcp_chunks_carry_the_stream(
        below in below(),
        (seq, words, flags) in (any::<u32>(), 0_u8..=10, any::<u8>()),
        (gso_size, len) in (1_u16..=1460).prop_flat_map(|g| (Just(g), 0..=usize::from(g) * 40)),
        sizes in proptest::collection::vec(1_u32..=9, 1..5),
        full: bool,
    ) {
        let mut header = tcp(40_000, 443, seq, words);
        (header.fin, header.psh, header.cwr, header.ece) =
            (flags & 1 != 0, flags & 8 != 0, flags & 0x80 != 0, flags & 0x40 != 0);
        let payload = payload(len);
        let gso = if below.v6 { GsoType::TcpV6 } else { GsoType::TcpV4 };
        let (mut vnet, whole) = open(frame(&below, &Transport::Tcp(header.clone()), &payload), gso_size, gso);
        vnet.ecn = header.cwr;
        let checksum = if full { Checksum::Full } else { Checksum::Partial };
        let frames = cut(vnet, &whole, &sizes, checksum);
        let (mut stream, last) = (Vec::new(), frames.len() - 1);
        for (i, one) in frames.iter().enumerate() {
            check_sums(one);
            let sliced = SlicedPacket::from_ethernet(one).expect("valid");
            let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("not TCP") };
            prop_assert_eq!(tcp.sequence_number(), seq.wrapping_add(stream.len() as u32));
            prop_assert_eq!(tcp.options(), header.options.as_slice());
            prop_assert_eq!(tcp.fin(), header.fin && i == last);
            prop_assert_eq!(tcp.psh(), header.psh && i == last);
            prop_assert_eq!(tcp.cwr(), header.cwr && i == 0);
            prop_assert_eq!((tcp.ece(), tcp.ack()), (header.ece, true));
            prop_assert!(tcp.payload().len() == usize::from(gso_size) || i == last);
            if let Some(NetSlice::Ipv4(ip)) = sliced.net {
                prop_assert_eq!(ip.header().identification(), below.id.wrapping_add(i as u16));
            }
            prop_assert_eq!(sliced.link_exts.len(), below.vlans.len());
            stream.extend_from_slice(tcp.payload());
        }
        prop_assert_eq!(stream, payload);
    }

    #[test]
    fn udp_chunks_carry_the_datagrams(
        below in below(),
        (gso_size, len) in (1_u16..=1460).prop_flat_map(|g| (Just(g), 1..=usize::from(g) * 40)),
        sizes in proptest::collection::vec(1_u32..=9, 1..5),
        full: bool,
    ) {
        let payload = payload(len);
        let (vnet, whole) = open(frame(&below, &Transport::Udp(5000, 53), &payload), gso_size, GsoType::UdpL4);
        let checksum = if full { Checksum::Full } else { Checksum::Partial };
        let mut datagrams = Vec::new();
        for one in cut(vnet, &whole, &sizes, checksum) {
            check_sums(&one);
            let sliced = SlicedPacket::from_ethernet(&one).expect("valid");
            let Some(TransportSlice::Udp(udp)) = sliced.transport else { panic!("not UDP") };
            datagrams.push(udp.payload().to_vec());
        }
        let expected: Vec<Vec<u8>> = payload.chunks(usize::from(gso_size)).map(<[u8]>::to_vec).collect();
        prop_assert_eq!(datagrams, expected);
    }
}

/// Checks 64 KB of TCP in 1448-byte segments against figures computed by hand.
#[test]
fn wire_bytes_of_a_full_super_packet() {
    let whole = frame(&Below::default(), &Transport::Tcp(tcp(1, 2, 3, 3)), &payload(64_000));
    let (vnet, whole) = open(whole, 1448, GsoType::TcpV4);
    let packet = SuperPacket::parse(vnet, &whole).expect("a super-packet");
    assert_eq!((packet.segments(), packet.header_len()), (45, 66));
    assert_eq!(packet.segment_payload(), Bytes(1448));
    // 44 frames of 1514 bytes, one of 66 + 64000 - 44 * 1448 = 354, each with 24 around it.
    assert_eq!(packet.wire_bytes(0, 45), Bytes(44 * (1514 + 24) + 354 + 24));
    assert_eq!(packet.wire_bytes(44, 7), Bytes(354 + 24), "what does not exist counts nothing");
    assert_eq!(packet.wire_bytes(45, 1), Bytes::ZERO);
    assert_eq!(wire_of(Bytes(42)), Bytes(60) + AROUND);
    assert!(size_of::<SuperPacket>() <= 40);
}

#[test]
fn a_plain_frame_passes_unchanged_or_completed() {
    let finished = frame(&Below::default(), &Transport::Tcp(tcp(1, 2, 3, 0)), b"hello");
    let mut out = ChunkHeader::default();
    let packet = SuperPacket::parse(VnetHeader::default(), &finished).expect("plain");
    assert_eq!((packet.segments(), packet.segment_payload()), (1, Bytes(59)));
    assert_eq!(packet.emit(&finished, 0, 1, Checksum::Full, &mut out), Ok(0..59));
    assert_eq!(out.as_bytes(), [0; 12], "nothing left to do, nothing done");

    let (mut vnet, opened) = open(finished.clone(), 1, GsoType::TcpV4);
    (vnet.gso, vnet.gso_size) = (GsoType::None, 0);
    let packet = SuperPacket::parse(vnet, &opened).expect("plain");
    assert_eq!(packet.emit(&opened, 0, 1, Checksum::Partial, &mut out), Ok(0..59));
    assert_eq!(out.as_bytes(), vnet.emit(), "left open");
    let range = packet.emit(&opened, 0, 1, Checksum::Full, &mut out).expect("completed");
    assert_eq!([out.frame_headers(), &opened[range]].concat(), finished);
    assert!(!out.vnet().needs_csum());
}

/// A checksum of 0 means "none" in UDP and is written as 0xffff (RFC 768).
#[test]
fn a_checksum_of_zero_is_written_in_its_other_form() {
    let checksum_of = |payload: &[u8]| {
        let datagram = frame(&Below::default(), &Transport::Udp(5000, 53), payload);
        let (vnet, datagram) = open(datagram, 1000, GsoType::UdpL4);
        let packet = SuperPacket::parse(vnet, &datagram).expect("one segment");
        let mut out = ChunkHeader::default();
        packet.emit(&datagram, 0, 1, Checksum::Full, &mut out).expect("one segment");
        [out.frame_headers()[40], out.frame_headers()[41]]
    };
    let missing = checksum_of(&[0, 0, 1, 2]);
    assert_eq!(checksum_of(&[missing[0], missing[1], 1, 2]), [0xff, 0xff]);
}

#[test]
fn what_cannot_be_cut_says_why() {
    let (vnet, good) = open(
        frame(&Below::default(), &Transport::Tcp(tcp(1, 2, 3, 0)), &payload(3000)),
        1000,
        GsoType::TcpV4,
    );
    let refuse = |vnet, frame: &[u8]| SuperPacket::parse(vnet, frame).expect_err("refused");
    let tunnel = VnetHeader { gso: GsoType::Other(0x21), ..vnet };
    assert_eq!(refuse(tunnel, &good), SegmentError::UnsupportedType(GsoType::Other(0x21)));
    assert_eq!(refuse(VnetHeader { gso_size: 0, ..vnet }, &good), SegmentError::ZeroSegmentSize);
    assert_eq!(refuse(VnetHeader { flags: 0, ..vnet }, &good), SegmentError::NoPartialChecksum);
    let udp = VnetHeader { gso: GsoType::UdpL4, ..vnet };
    assert!(matches!(refuse(udp, &good), SegmentError::TypeMismatch { .. }));
    let inner = VnetHeader { csum_start: 84, ..vnet };
    assert!(matches!(refuse(inner, &good), SegmentError::ForeignChecksum { l4: 34, .. }));
    assert!(matches!(refuse(vnet, &good[..50]), SegmentError::Packet(_)));
    assert!(matches!(refuse(vnet, &good[..500]), SegmentError::LengthMismatch { by_field: 3054, .. }));
    let late = Below { fragment: Some((3, true)), ..Below::default() };
    assert_eq!(
        refuse(vnet, &frame(&late, &Transport::Tcp(tcp(1, 2, 3, 0)), &[0; 80])),
        SegmentError::Fragment
    );
    let far = VnetHeader { flags: NEEDS_CSUM, csum_start: 3000, csum_offset: 60, ..VnetHeader::default() };
    assert!(matches!(refuse(far, &good), SegmentError::ChecksumOutside { .. }));

    let packet = SuperPacket::parse(vnet, &good).expect("good");
    let mut out = ChunkHeader::default();
    for (first, count) in [(0, 0), (0, 4), (3, 1), (u32::MAX, 2)] {
        let given = packet.emit(&good, first, count, Checksum::Partial, &mut out);
        assert_eq!(given, Err(SegmentError::NoSuchSegments { first, count, segments: 3 }));
    }
    let other = packet.emit(&good[1..], 0, 1, Checksum::Partial, &mut out);
    assert_eq!(other, Err(SegmentError::OtherFrame { given: 3053, parsed: 3054 }));
}

#[test]
fn mutated_super_packets_never_panic() {
    let mut corpus = Vec::new();
    for v6 in [false, true] {
        let below = Below { v6, vlans: vec![5], ..Below::default() };
        let gso = if v6 { GsoType::TcpV6 } else { GsoType::TcpV4 };
        let tcp = frame(&below, &Transport::Tcp(tcp(1, 2, 3, 3)), &payload(900));
        let udp = frame(&below, &Transport::Udp(1, 2), &payload(900));
        for (vnet, frame) in [open(tcp, 100, gso), open(udp, 100, GsoType::UdpL4)] {
            corpus.push([&vnet.emit()[..], &[2], &frame].concat());
        }
    }
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    assert_eq!(mutate(0x5e9, &corpus, 1_000_000, fuzz_segment), Ok(()));
    // As read from a device: without the byte that selects the chunk size.
    let read: Vec<Vec<u8>> = corpus
        .iter()
        .map(|bytes| [&bytes[..VnetHeader::LEN], &bytes[VnetHeader::LEN + 1..]].concat())
        .collect();
    let read: Vec<&[u8]> = read.iter().map(Vec::as_slice).collect();
    assert_eq!(mutate(0x5ea, &read, 500_000, fuzz_tap), Ok(()));
}
