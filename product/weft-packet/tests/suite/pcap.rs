//! Captures written by the pcap-file crate or by hand, read back.

use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::simple_packet::SimplePacketBlock;
use pcap_file::{DataLink, Endianness};
use proptest::prelude::*;
use std::borrow::Cow;
use std::io::Read;
use weft_packet::mutation::mutate;
use weft_packet::pcap::{PACKET_MAX, PcapError, PcapReader, PcapWriter, fuzz_pcap};
use weft_units::{Bytes, Instant};

type Packet = (Instant, Bytes, Vec<u8>);

fn read_all(source: impl Read) -> Result<Vec<Packet>, PcapError> {
    let mut reader = PcapReader::new(source)?;
    let mut packets = Vec::new();
    while let Some(packet) = reader.next_packet()? {
        packets.push((packet.timestamp, packet.orig_len, packet.data.to_vec()));
    }
    assert_eq!(reader.packets(), packets.len() as u64);
    Ok(packets)
}

fn write_all(packets: &[Packet]) -> Vec<u8> {
    let mut writer = PcapWriter::new(Vec::new()).expect("memory");
    for (timestamp, orig_len, data) in packets {
        writer.write(*timestamp, *orig_len, data).expect("memory");
    }
    writer.finish().expect("memory")
}

/// Builds a pcap file by hand: magic, link type, records of (seconds, fraction, bytes).
fn classic(big: bool, nanos: bool, link: u32, records: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let word = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut file = word(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
    file.extend([half(2), half(4)].concat());
    file.extend([word(0), word(0), word(65_535), word(link)].concat());
    for (seconds, fraction, data) in records {
        let len = data.len() as u32;
        file.extend([word(*seconds), word(*fraction), word(len), word(len + 4)].concat());
        file.extend_from_slice(data);
    }
    file
}

/// Builds a pcapng file with a microsecond and a nanosecond interface, and a packet without a time.
fn pcapng(endianness: Endianness, link: DataLink) -> Vec<u8> {
    let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).expect("memory");
    let mut nanos = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 0xffff);
    let resolution = pcap_file::pcapng::blocks::interface_description::InterfaceTsResolution::NANO;
    nanos.options.push(InterfaceDescriptionOption::IfTsResol(resolution));
    writer.write_pcapng_block(InterfaceDescriptionBlock::new(link, 0xffff)).expect("memory");
    writer.write_pcapng_block(nanos).expect("memory");
    for (interface_id, nanos) in [(1, 1_000_000_007), (0, 2_000_003_000)] {
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: std::time::Duration::from_nanos(nanos),
            original_len: 100,
            data: Cow::Borrowed(b"abcde"),
            options: vec![],
        };
        writer.write_pcapng_block(block).expect("memory");
    }
    let simple = SimplePacketBlock { original_len: 3, data: Cow::Borrowed(b"xyz") };
    writer.write_pcapng_block(simple).expect("memory");
    writer.into_inner()
}

#[test]
fn classic_files_of_every_kind() {
    for (big, nanos) in [(false, false), (false, true), (true, false), (true, true)] {
        let file = classic(big, nanos, 1, &[(5, 7, b"first"), (6, 0, b"")]);
        let unit = if nanos { 1 } else { 1000 };
        let expected = vec![
            (Instant::from_nanos(5_000_000_000 + 7 * unit), Bytes(9), b"first".to_vec()),
            (Instant::from_nanos(6_000_000_000), Bytes(4), vec![]),
        ];
        assert_eq!(read_all(&file[..]).expect("valid"), expected);
    }
}

#[test]
fn pcapng_files_of_both_orders() {
    for endianness in [Endianness::Big, Endianness::Little] {
        let packets = read_all(&pcapng(endianness, DataLink::ETHERNET)[..]).expect("valid");
        let expected = vec![
            (Instant::from_nanos(1_000_000_007), Bytes(100), b"abcde".to_vec()),
            (Instant::from_nanos(2_000_003_000), Bytes(100), b"abcde".to_vec()),
            (Instant::from_nanos(2_000_003_000), Bytes(3), b"xyz".to_vec()),
        ];
        assert_eq!(packets, expected);
    }
}

#[test]
fn a_cut_file_names_the_packet_and_the_byte() {
    let file = write_all(&[
        (Instant::from_nanos(1), Bytes(4), b"abcd".to_vec()),
        (Instant::from_nanos(2), Bytes(4), b"abcd".to_vec()),
    ]);
    assert_eq!(file.len(), 24 + 2 * 20);
    let error = read_all(&file[..50]).expect_err("cut off");
    assert_eq!(
        error.to_string(),
        "packet 2 is cut off at byte 50 (it begins at byte 44); the 1 before it are whole: \
         the capture was still being written, or was copied in part"
    );
    for len in 0..file.len() {
        match (len, read_all(&file[..len])) {
            (24 | 44, Ok(_)) | (0..4, Err(PcapError::NotACapture { .. })) => {}
            (4..24, Err(PcapError::HeaderCutOff { offset })) => assert_eq!(offset, len as u64),
            (_, Err(PcapError::CutOff { packet, offset, .. })) => {
                assert_eq!((packet, offset), (if len < 44 { 1 } else { 2 }, len as u64));
            }
            (_, other) => panic!("{len} bytes: {other:?}"),
        }
    }
}

#[test]
fn what_is_no_ethernet_capture_is_refused() {
    assert!(matches!(read_all(&b"<html>"[..]), Err(PcapError::NotACapture { .. })));
    let said = |bytes: &[u8]| read_all(bytes).map(|_| ()).expect_err("no capture").to_string();
    assert!(said(b"hallo").contains("is a text that begins with \"hall\""), "{}", said(b"hallo"));
    assert!(said(b"\x1f\x8b\x08\x00").contains("decompress it"), "a gzip file");
    let error = read_all(&classic(false, false, 113, &[])[..]).expect_err("Linux cooked");
    assert_eq!(
        error.to_string(),
        "the link type is 113, only Ethernet (1) is read; capture on an Ethernet interface"
    );
    let cooked = pcapng(Endianness::Little, DataLink::from(113));
    assert!(matches!(read_all(&cooked[..]), Err(PcapError::LinkType { given: 113 })));
}

#[test]
fn a_length_that_cannot_be_is_refused_without_reading_on() {
    let mut file = classic(false, true, 1, &[(1, 1, b"abcd")]);
    file[32..36].fill(0xff);
    let endless = file.as_slice().chain(std::io::repeat(0));
    assert!(matches!(read_all(endless), Err(PcapError::RecordTooLong { packet: 1, start: 24 })));
}

#[test]
fn what_a_pcap_file_cannot_hold_is_not_written() {
    let mut writer = PcapWriter::new(Vec::new()).expect("memory");
    let long = vec![0; PACKET_MAX + 1];
    let error = writer.write(Instant::from_nanos(0), Bytes(1), &long).expect_err("too long");
    assert_eq!(error.to_string(), "packet 1 cannot be written: it is longer than 256 KiB");
    let error = writer.write(Instant::MAX, Bytes(1), b"").expect_err("too late");
    assert!(matches!(error, PcapError::NotWritable { packet: 1, .. }));
    assert_eq!(writer.packets(), 0);
}

/// A source that returns a few bytes per read.
struct Trickle<'a>(&'a [u8], usize);

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(self.0.len()).min(buffer.len());
        let (now, later) = self.0.split_at(count);
        buffer[..count].copy_from_slice(now);
        self.0 = later;
        Ok(count)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn written_is_read_whatever_the_source_gives_at_once(
        packets in proptest::collection::vec((0_u64..1 << 61, 0_usize..3000), 0..300),
        at_once in 1_usize..5000,
    ) {
        let packets: Vec<Packet> = packets
            .into_iter()
            .map(|(t, len)| (Instant::from_nanos(t), Bytes(len as u64 + t % 3), vec![t as u8; len]))
            .collect();
        let file = write_all(&packets);
        prop_assert_eq!(read_all(Trickle(&file, at_once)).expect("valid"), packets);
    }
}

#[test]
fn mutated_captures_never_panic() {
    let corpus = [
        classic(false, false, 1, &[(5, 7, b"first"), (6, 0, b"")]),
        classic(true, true, 1, &[(5, 7, b"first"), (6, 0, b"second")]),
        pcapng(Endianness::Big, DataLink::ETHERNET),
        pcapng(Endianness::Little, DataLink::ETHERNET),
    ];
    let corpus: Vec<&[u8]> = corpus.iter().map(Vec::as_slice).collect();
    assert_eq!(mutate(0xcab, &corpus, 100_000, fuzz_pcap), Ok(()));
}
