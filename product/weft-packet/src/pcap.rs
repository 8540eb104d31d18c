//! Capture files: pcap (microseconds or nanoseconds, either byte order) and pcapng for reading, nanosecond pcap for
//! writing.
//!
//! The `pcap-file` crate parses the formats. This module adds a reader whose memory is bounded by the largest record instead of
//! the file, and errors that name the packet and the byte. Only Ethernet captures are supported.
//!
//! The errors do not name the file, because a reader has no name. Callers prefix them with `capture NAME: `.

use core::ops::Range;
use core::time::Duration;
use pcap_file::pcap::{
    PcapHeader, PcapParseError, PcapParser, PcapTsResolution, PcapWriteError, RawPcapPacket,
};
use pcap_file::pcapng::blocks::{ENHANCED_PACKET_BLOCK, PACKET_BLOCK, SIMPLE_PACKET_BLOCK};
use pcap_file::pcapng::{Block, PcapNgParseError, PcapNgParser};
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::io::{self, BufWriter, Read, Write};
use thiserror::Error;
use weft_units::{Bytes, Instant, Nanos};

/// The maximum length of a record that is read, in bytes; Wireshark's limit for a pcapng block.
pub const RECORD_MAX: usize = 16 << 20;
/// The maximum length of a packet that is written, in bytes (`MAXIMUM_SNAPLEN` of libpcap).
pub const PACKET_MAX: usize = 256 << 10;
/// The maximum number of interfaces in a pcapng section.
pub const INTERFACES_MAX: usize = 4096;

/// The size of a read from the source, in bytes. The buffer only grows for longer records.
const BUFFER: usize = 256 << 10;
/// The block type at the start of a pcapng file; a palindrome, so it is independent of byte order.
const PCAPNG_MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// `LINKTYPE_ETHERNET`.
const ETHERNET: u32 = 1;
/// The bits of the header's field that hold the link type; the bits above are the length of a frame check sequence.
const LINK_TYPE_MASK: u32 = 0x0fff_ffff;

/// An error in reading or writing a capture. Packets are counted from 1, as in Wireshark; bytes from the file's start.
#[derive(Debug, Error)]
pub enum PcapError {
    /// The source returned an error.
    #[error("cannot read behind byte {offset}: {source}")]
    Read {
        /// Number of bytes read before the error.
        offset: u64,
        /// The source's error.
        source: io::Error,
    },
    /// The sink returned an error.
    #[error("cannot write packet {packet}: {source}")]
    Write {
        /// The packet, counted from 1; 0 for the file header.
        packet: u64,
        /// The sink's error.
        source: io::Error,
    },
    /// The file has no capture's magic number.
    #[error("not a capture: it {}", beginning(first))]
    NotACapture {
        /// The first bytes, at most four.
        first: Vec<u8>,
    },
    /// The file ends inside the file header.
    #[error("the file header is cut off at byte {offset}; the capture holds no packets")]
    HeaderCutOff {
        /// Offset of the end of the file.
        offset: u64,
    },
    /// The file header is invalid.
    #[error("the file header is damaged: {what}")]
    HeaderDamaged {
        /// The format parser's message.
        what: String,
    },
    /// The file ends inside a record.
    #[error(
        "packet {packet} is cut off at byte {offset} (it begins at byte {start}); \
         the {} before it are whole: the capture was still being written, or was copied in part",
        packet - 1
    )]
    CutOff {
        /// The incomplete packet.
        packet: u64,
        /// Offset of its record.
        start: u64,
        /// Offset of the end of the file.
        offset: u64,
    },
    /// A record is longer than [`RECORD_MAX`].
    #[error(
        "the record of packet {packet} at byte {start} claims more than {RECORD_MAX} bytes; the file is damaged"
    )]
    RecordTooLong {
        /// The packet.
        packet: u64,
        /// Offset of its record.
        start: u64,
    },
    /// A record is invalid.
    #[error("packet {packet} at byte {start} is damaged: {what}")]
    Damaged {
        /// The packet.
        packet: u64,
        /// Offset of its record.
        start: u64,
        /// The format parser's message.
        what: String,
    },
    /// The packets are not Ethernet frames.
    #[error("the link type is {given}, only Ethernet ({ETHERNET}) is read; capture on an Ethernet interface")]
    LinkType {
        /// The link type's number (tcpdump.org/linktypes.html).
        given: u32,
    },
    /// More than [`INTERFACES_MAX`] interfaces.
    #[error(
        "the capture describes more than {INTERFACES_MAX} interfaces at byte {start}; the file is damaged"
    )]
    TooManyInterfaces {
        /// Offset of the description of the first interface beyond the limit.
        start: u64,
    },
    /// A packet cannot be represented in the format.
    #[error("packet {packet} cannot be written: {what}")]
    NotWritable {
        /// The packet, counted from 1.
        packet: u64,
        /// The reason.
        what: &'static str,
    },
}

/// A packet of a capture. Its bytes stay in the reader's buffer until the next packet is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapturedPacket<'a> {
    /// Capture time since 1970-01-01 00:00:00 UTC. A pcapng "simple packet" has no time and repeats the previous one.
    pub timestamp: Instant,
    /// Length on the wire; never less than the length of `data`, which a snapshot length may have truncated.
    pub orig_len: Bytes,
    /// The frame from its destination MAC address on, without the check sequence.
    pub data: &'a [u8],
}

/// The format of a file.
#[derive(Debug)]
enum Format {
    Pcap(PcapParser),
    PcapNg(Box<PcapNgParser>),
}

/// A record found in the buffer.
struct Record {
    /// Length of the record in bytes.
    taken: usize,
    /// The packet, if the record has one: timestamp, original length, range of the data within the record.
    packet: Option<(Instant, u64, Range<usize>)>,
}

/// Reads a capture packet by packet.
#[derive(Debug)]
pub struct PcapReader<R> {
    source: R,
    format: Format,
    buffer: Vec<u8>,
    /// The unread part of `buffer`.
    unread: Range<usize>,
    /// Offset of `unread` in the file.
    offset: u64,
    /// Number of packets returned.
    packets: u64,
    last_timestamp: Instant,
}

/// Reads more bytes into `buffer` after `unread`, and may move `unread` to the front. `Ok(false)` at the end of the source.
fn fill(
    source: &mut impl Read,
    buffer: &mut Vec<u8>,
    unread: &mut Range<usize>,
    offset: u64,
) -> Result<bool, PcapError> {
    if unread.start > 0 {
        buffer.copy_within(unread.clone(), 0);
        *unread = 0..unread.len();
    }
    if unread.end == buffer.len() {
        buffer.resize((buffer.len() * 2).clamp(BUFFER, RECORD_MAX + BUFFER), 0);
    }
    loop {
        match source.read(&mut buffer[unread.end..]) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                unread.end = (unread.end + count).min(buffer.len());
                return Ok(true);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => return Err(PcapError::Read { offset: offset + unread.len() as u64, source }),
        }
    }
}

impl<R: Read> PcapReader<R> {
    /// Reads the file header of `source`. The reader buffers, so `source` needs no buffer.
    ///
    /// # Errors
    /// The source cannot be read, is not a capture, or is not an Ethernet capture.
    pub fn new(mut source: R) -> Result<Self, PcapError> {
        let (mut buffer, mut unread) = (Vec::new(), 0..0);
        let (format, taken) = loop {
            let bytes = &buffer[unread.clone()];
            if let Some(found) = parse_file_header(bytes)? {
                break found;
            }
            if unread.len() > RECORD_MAX {
                return Err(PcapError::HeaderDamaged {
                    what: format!("it claims more than {RECORD_MAX} bytes"),
                });
            }
            if !fill(&mut source, &mut buffer, &mut unread, 0)? {
                return match unread.len() {
                    0..4 => Err(PcapError::NotACapture { first: buffer[unread].to_vec() }),
                    len => Err(PcapError::HeaderCutOff { offset: len as u64 }),
                };
            }
        };
        unread.start += taken;
        let (offset, packets, last_timestamp) = (taken as u64, 0, Instant::ZERO);
        Ok(Self { source, format, buffer, unread, offset, packets, last_timestamp })
    }

    /// The number of packets returned so far.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// The number of bytes of the file consumed so far.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the next packet, or `None` at the end of the file. After an error the reader makes no further progress.
    ///
    /// # Errors
    /// The source cannot be read, or the next record is incomplete or damaged.
    pub fn next_packet(&mut self) -> Result<Option<CapturedPacket<'_>>, PcapError> {
        let (start, record, packet) = loop {
            let Some(record) = self.next_record()? else { return Ok(None) };
            let start = self.unread.start;
            self.unread.start += record.taken;
            self.offset += record.taken as u64;
            if let Some(packet) = record.packet {
                break (start, packet.2, (packet.0, packet.1));
            }
        };
        self.packets += 1;
        self.last_timestamp = packet.0;
        let data = &self.buffer[start + record.start..start + record.end];
        let orig_len = Bytes(packet.1.max(data.len() as u64));
        Ok(Some(CapturedPacket { timestamp: packet.0, orig_len, data }))
    }

    /// Returns the next record, and reads as many bytes as it needs.
    fn next_record(&mut self) -> Result<Option<Record>, PcapError> {
        loop {
            let (packet, start) = (self.packets + 1, self.offset);
            let bytes = &self.buffer[self.unread.clone()];
            let found = match &mut self.format {
                _ if bytes.is_empty() => Err(Unfinished::Needs(1)),
                Format::Pcap(parser) => pcap_record(parser, bytes),
                Format::PcapNg(parser) => pcapng_record(parser, bytes, self.last_timestamp),
            };
            match found {
                Ok(record) => return Ok(Some(record)),
                Err(Unfinished::Failed(what)) => return Err(PcapError::Damaged { packet, start, what }),
                Err(Unfinished::LinkType(given)) => return Err(PcapError::LinkType { given }),
                Err(Unfinished::Interfaces) => return Err(PcapError::TooManyInterfaces { start }),
                Err(Unfinished::Needs(needed)) if needed > RECORD_MAX || bytes.len() > RECORD_MAX => {
                    return Err(PcapError::RecordTooLong { packet, start });
                }
                Err(Unfinished::Needs(_)) => {}
            }
            if !fill(&mut self.source, &mut self.buffer, &mut self.unread, self.offset)? {
                let offset = self.offset + self.unread.len() as u64;
                return if offset == start {
                    Ok(None)
                } else {
                    Err(PcapError::CutOff { packet, start, offset })
                };
            }
        }
    }
}

/// The reason why no record was found.
enum Unfinished {
    /// More bytes are needed: an estimate of their number.
    Needs(usize),
    Failed(String),
    LinkType(u32),
    Interfaces,
}

/// The beginning of a file that is no capture, and the remedy.
fn beginning(first: &[u8]) -> String {
    let text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    match first.iter().all(text) {
        true => format!(
            "is a text that begins with {:?}; pcap and pcapng files are read, such as `tcpdump -w` writes",
            String::from_utf8_lossy(first)
        ),
        false => format!("begins with {first:02x?}; pcap and pcapng files are read (decompress it first?)"),
    }
}

/// Parses the file header and returns the format and the header's length; `None` if more bytes are needed.
fn parse_file_header(bytes: &[u8]) -> Result<Option<(Format, usize)>, PcapError> {
    let Some(magic) = bytes.first_chunk::<4>() else { return Ok(None) };
    if *magic == PCAPNG_MAGIC {
        return match PcapNgParser::new(bytes) {
            Ok((rest, parser)) => Ok(Some((Format::PcapNg(Box::new(parser)), bytes.len() - rest.len()))),
            Err(PcapNgParseError::IncompleteBuffer(..)) => Ok(None),
            Err(error) => Err(PcapError::HeaderDamaged { what: error.to_string() }),
        };
    }
    if !matches!(u32::from_be_bytes(*magic), 0xa1b2_c3d4 | 0xa1b2_3c4d | 0xd4c3_b2a1 | 0x4d3c_b2a1) {
        return Err(PcapError::NotACapture { first: magic.to_vec() });
    }
    match PcapParser::new(bytes) {
        Ok((rest, parser)) => {
            let given = u32::from(parser.header().datalink) & LINK_TYPE_MASK;
            if given != ETHERNET {
                return Err(PcapError::LinkType { given });
            }
            Ok(Some((Format::Pcap(parser), bytes.len() - rest.len())))
        }
        Err(PcapParseError::IncompleteBuffer(..)) => Ok(None),
        Err(error) => Err(PcapError::HeaderDamaged { what: error.to_string() }),
    }
}

/// Parses a record of a pcap file. Lengths and fractions that contradict the file header are accepted, because other programs
/// write them.
fn pcap_record(parser: &PcapParser, bytes: &[u8]) -> Result<Record, Unfinished> {
    const HEADER: usize = 16;
    match parser.next_raw_packet(bytes) {
        Ok((rest, raw)) => {
            let nanos = match parser.header().ts_resolution {
                PcapTsResolution::MicroSecond => u64::from(raw.ts_frac) * 1000,
                PcapTsResolution::NanoSecond => u64::from(raw.ts_frac),
            };
            let timestamp = Instant::from_secs(u64::from(raw.ts_sec)) + Nanos(nanos);
            let taken = bytes.len() - rest.len();
            Ok(Record { taken, packet: Some((timestamp, u64::from(raw.orig_len), HEADER..taken)) })
        }
        Err(PcapParseError::IncompleteBuffer(needed, _)) => Err(Unfinished::Needs(needed)),
        Err(error) => Err(Unfinished::Failed(error.to_string())),
    }
}

/// Parses a block of a pcapng file; blocks without a packet are skipped.
fn pcapng_record(parser: &mut PcapNgParser, bytes: &[u8], last: Instant) -> Result<Record, Unfinished> {
    // Offsets of the data in an enhanced (and obsolete) packet block and in a simple packet block (draft-ietf-opsawg-pcapng, 4.3
    // and 4.4).
    const DATA: usize = 28;
    const SIMPLE_DATA: usize = 12;
    let (rest, raw) = match parser.next_raw_block(bytes) {
        Ok(found) => found,
        Err(PcapNgParseError::IncompleteBuffer(needed, _)) => return Err(Unfinished::Needs(needed)),
        Err(error) => return Err(Unfinished::Failed(error.to_string())),
    };
    let taken = bytes.len() - rest.len();
    if parser.interfaces().len() > INTERFACES_MAX {
        return Err(Unfinished::Interfaces);
    }
    if !matches!(raw.type_, ENHANCED_PACKET_BLOCK | PACKET_BLOCK | SIMPLE_PACKET_BLOCK) {
        return Ok(Record { taken, packet: None });
    }
    let block = raw.try_into_block(parser.state()).map_err(|error| Unfinished::Failed(error.to_string()))?;
    let time = |since_1970: Duration| Instant::after_epoch(since_1970.into());
    let (interface, timestamp, orig_len, at, len) = match block {
        Block::EnhancedPacket(b) => (b.interface_id, time(b.timestamp), b.original_len, DATA, b.data.len()),
        Block::Packet(b) => (b.interface_id.into(), time(b.timestamp), b.original_len, DATA, b.data.len()),
        Block::SimplePacket(b) => (0, last, b.original_len, SIMPLE_DATA, b.data.len()),
        _ => return Ok(Record { taken, packet: None }),
    };
    let Some(description) = parser.interfaces().get(interface as usize) else {
        return Err(Unfinished::Failed(format!("it names interface {interface}, which is not described")));
    };
    let given = u32::from(description.linktype) & LINK_TYPE_MASK;
    if given != ETHERNET {
        return Err(Unfinished::LinkType(given));
    }
    if at + len > taken {
        return Err(Unfinished::Failed("its data lies outside its block".to_owned()));
    }
    Ok(Record { taken, packet: Some((timestamp, u64::from(orig_len), at..at + len)) })
}

/// Writes a nanosecond pcap file of Ethernet frames, little-endian as most are. Writes are buffered; the file is complete after
/// [`finish`](Self::finish).
#[derive(Debug)]
pub struct PcapWriter<W: Write> {
    file: pcap_file::pcap::PcapWriter<BufWriter<W>>,
    packets: u64,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header to `sink`. The writer buffers, so `sink` needs no buffer.
    ///
    /// # Errors
    /// Writing to the sink failed.
    pub fn new(sink: W) -> Result<Self, PcapError> {
        let sink = BufWriter::with_capacity(BUFFER, sink);
        let header = PcapHeader {
            snaplen: PACKET_MAX as u32,
            datalink: DataLink::ETHERNET,
            ts_resolution: PcapTsResolution::NanoSecond,
            endianness: Endianness::Little,
            ..PcapHeader::default()
        };
        let file = pcap_file::pcap::PcapWriter::with_header(sink, header);
        Ok(Self { file: file.map_err(|error| write_error(0, error))?, packets: 0 })
    }

    /// Appends a frame with its departure time since 1970-01-01 00:00:00 UTC and its length on the wire. If `orig_len` is less
    /// than the length of `data`, the latter is written.
    ///
    /// # Errors
    /// Writing to the sink failed, the time is after the year 2106, or the frame is longer than [`PACKET_MAX`].
    pub fn write(&mut self, timestamp: Instant, orig_len: Bytes, data: &[u8]) -> Result<(), PcapError> {
        let packet = self.packets + 1;
        let refuse = |what| PcapError::NotWritable { packet, what };
        let ts_sec = u32::try_from(timestamp.as_nanos() / 1_000_000_000);
        let ts_sec =
            ts_sec.map_err(|_| refuse("its time is beyond the 32 bits of seconds of a pcap file"))?;
        let incl_len = u32::try_from(data.len()).ok().filter(|len| *len as usize <= PACKET_MAX);
        let incl_len = incl_len.ok_or_else(|| refuse("it is longer than 256 KiB"))?;
        let raw = RawPcapPacket {
            ts_sec,
            ts_frac: (timestamp.as_nanos() % 1_000_000_000) as u32,
            incl_len,
            orig_len: u32::try_from(orig_len.0).unwrap_or(u32::MAX).max(incl_len),
            data: Cow::Borrowed(data),
        };
        self.file.write_raw_packet(&raw).map_err(|error| write_error(packet, error))?;
        self.packets = packet;
        Ok(())
    }

    /// The number of packets written.
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Writes the buffered bytes and returns the sink.
    ///
    /// # Errors
    /// Writing to the sink failed.
    pub fn finish(self) -> Result<W, PcapError> {
        let packet = self.packets;
        self.file
            .into_inner()
            .into_inner()
            .map_err(|error| PcapError::Write { packet, source: error.into_error() })
    }
}

fn write_error(packet: u64, error: PcapWriteError) -> PcapError {
    let source = match error {
        PcapWriteError::Io(source) | PcapWriteError::FieldWriteFailed(_, source) => source,
        PcapWriteError::Validation(error) => io::Error::other(error),
    };
    PcapError::Write { packet, source }
}

/// Reads arbitrary bytes as a capture and checks the reader's guarantees. A fuzz target.
///
/// # Panics
/// If a guarantee is violated, which is a finding of the fuzzer.
pub fn fuzz_pcap(data: &[u8]) {
    let Ok(mut reader) = PcapReader::new(data) else { return };
    let mut taken = reader.offset();
    loop {
        match reader.next_packet() {
            Ok(Some(packet)) => {
                assert!(packet.orig_len.0 >= packet.data.len() as u64);
                let length = packet.data.len() as u64;
                assert!(reader.offset() >= taken + length, "a packet is at least its data");
                taken = reader.offset();
            }
            Ok(None) => return assert_eq!(reader.offset(), data.len() as u64, "the whole file was taken"),
            Err(_) => return assert!(reader.offset() <= data.len() as u64),
        }
    }
}
