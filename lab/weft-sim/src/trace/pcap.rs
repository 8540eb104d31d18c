//! Captures of a run's data packets. The headers are synthetic but valid.

use super::{Observer, PacketEvent, PacketEventKind};
use crate::ids::{GroupId, HostId};
use pcap_file::pcap::{PcapHeader, PcapTsResolution, PcapWriteError, PcapWriter, RawPcapPacket};
use pcap_file::{DataLink, Endianness};
use std::borrow::Cow;
use std::io::{BufWriter, Write};
use thiserror::Error;

/// Ethernet, IPv4 and TCP headers without options.
const ETHERNET: usize = weft_packet::ethernet::HEADER.0 as usize;
const IPV4: usize = 20;
const TCP: usize = 20;
const HEADERS: usize = ETHERNET + IPV4 + TCP;
/// The maximum length of an IPv4 packet.
const IPV4_MAX: u64 = 65_535;

/// An error in writing a capture.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PcapTraceError {
    /// The sink returned an error.
    #[error("the capture cannot be written: {0}")]
    Write(std::io::Error),
    /// There are more hosts than addresses.
    #[error("host {0} has no address: the networks for documentation have room for 762 hosts")]
    NoAddress(HostId),
    /// An event of an unknown group.
    #[error("an event is of flow group {0}, whose ends are unknown")]
    UnknownGroup(GroupId),
    /// A length that IPv4 cannot represent.
    #[error("a packet of {0} bytes is not an Ethernet frame with IPv4 and TCP headers")]
    Length(u64),
    /// A time beyond the format's range.
    #[error("a time of {0} ns is beyond the 32 bits of seconds of a pcap file")]
    Time(u64),
}

/// The ends of a group's flows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ends {
    /// Index of the sending host.
    pub from: HostId,
    /// Index of the receiving host.
    pub to: HostId,
    /// The increment of the sequence number per packet: the payload of a full packet, which is the MTU less 40 with these
    /// headers.
    pub mss: u32,
}

/// The point of capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CapturePoint {
    /// The sending hosts.
    Senders,
    /// The receiving hosts.
    Receivers,
    /// Both: every packet that is not lost appears twice, with time to live 64 at its sender and 63 at its receiver.
    Both,
}

/// Writes a nanosecond pcap file of packets that were sent and delivered. Time 0 is the start of the run.
///
/// Addresses: host h has the h-th address of the networks of RFC 5737; flow f has source port 49152 + f modulo 16384 and
/// destination port 49152 + f / 16384 modulo 16384. Packets of the receiving host have them reversed. Sequence numbers are packet
/// numbers times the MSS. The payload is zeros. Marked packets carry congestion experienced (RFC 3168); others are not
/// ECN-capable, since events do not state their flow's capability.
#[derive(Debug)]
pub struct PcapTrace<W: Write> {
    file: PcapWriter<BufWriter<W>>,
    groups: Vec<Ends>,
    point: CapturePoint,
    snaplen: usize,
    frame: Vec<u8>,
    /// The first error; nothing is written after it.
    failed: Option<PcapTraceError>,
}

impl<W: Write> PcapTrace<W> {
    /// Starts a capture of flows of these groups, of at most `snaplen` bytes per packet.
    ///
    /// # Errors
    /// Writing to the sink failed, or a host's index is above 761.
    pub fn new(
        sink: W,
        groups: Vec<Ends>,
        point: CapturePoint,
        snaplen: u16,
    ) -> Result<Self, PcapTraceError> {
        for ends in &groups {
            address(ends.from)?;
            address(ends.to)?;
        }
        let header = PcapHeader {
            snaplen: snaplen.into(),
            datalink: DataLink::ETHERNET,
            ts_resolution: PcapTsResolution::NanoSecond,
            endianness: Endianness::Little,
            ..PcapHeader::default()
        };
        let file = PcapWriter::with_header(BufWriter::new(sink), header).map_err(write_error)?;
        Ok(Self { file, groups, point, snaplen: snaplen.into(), frame: Vec::new(), failed: None })
    }

    /// Writes the buffered packets and returns the sink.
    ///
    /// # Errors
    /// The first error of any event.
    pub fn finish(self) -> Result<W, PcapTraceError> {
        match self.failed {
            Some(error) => Err(error),
            None => {
                self.file.into_inner().into_inner().map_err(|error| PcapTraceError::Write(error.into_error()))
            }
        }
    }

    fn write(&mut self, event: &PacketEvent) -> Result<(), PcapTraceError> {
        let ends = event.group.and_then(|group| self.groups.get(group.index()));
        let ends = ends.ok_or(PcapTraceError::UnknownGroup(event.group.unwrap_or(GroupId(u32::MAX))))?;
        build(&mut self.frame, event, *ends)?;
        let ts_sec =
            u32::try_from(event.at.0 / 1_000_000_000).map_err(|_| PcapTraceError::Time(event.at.0))?;
        let orig_len = u32::try_from(event.len.0).map_err(|_| PcapTraceError::Length(event.len.0))?;
        self.frame.resize((orig_len as usize).min(self.snaplen), 0);
        let packet = RawPcapPacket {
            ts_sec,
            ts_frac: (event.at.0 % 1_000_000_000) as u32,
            incl_len: self.frame.len() as u32,
            orig_len,
            data: Cow::Borrowed(&self.frame),
        };
        self.file.write_raw_packet(&packet).map_err(write_error)?;
        Ok(())
    }
}

impl<W: Write> Observer for PcapTrace<W> {
    fn packet(&mut self, event: &PacketEvent) {
        let wanted = match event.kind {
            PacketEventKind::Sent => self.point != CapturePoint::Receivers,
            PacketEventKind::Delivered => self.point != CapturePoint::Senders,
            _ => false,
        };
        if wanted && self.failed.is_none() {
            self.failed = self.write(event).err();
        }
    }
}

fn write_error(error: PcapWriteError) -> PcapTraceError {
    PcapTraceError::Write(match error {
        PcapWriteError::Io(error) | PcapWriteError::FieldWriteFailed(_, error) => error,
        other => std::io::Error::other(other),
    })
}

fn address(host: HostId) -> Result<[u8; 4], PcapTraceError> {
    crate::address::of_host(host).map(|address| address.octets()).ok_or(PcapTraceError::NoAddress(host))
}

/// Returns a locally administered address (IEEE 802, section 8.4) that ends with the host's index.
fn mac(host: HostId) -> [u8; 6] {
    let [a, b, c, d] = host.0.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// Returns the internet checksum (RFC 1071) of parts of even length.
fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let words = parts.iter().flat_map(|part| part.chunks_exact(2));
    let mut sum: u64 = words.map(|word| u64::from(word[0]) << 8 | u64::from(word[1])).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Writes the three headers of a packet into `frame`.
fn build(frame: &mut Vec<u8>, event: &PacketEvent, ends: Ends) -> Result<(), PcapTraceError> {
    let total = event.len.0.checked_sub(ETHERNET as u64).filter(|len| *len <= IPV4_MAX);
    let total = total.filter(|len| *len >= (IPV4 + TCP) as u64).ok_or(PcapTraceError::Length(event.len.0))?;
    let total = total as u16;
    let sent = event.kind == PacketEventKind::Sent;
    let reverse = event.host == if sent { ends.to } else { ends.from } && ends.from != ends.to;
    let ports = crate::address::ports(event.flow);
    let mut way = [(ends.from, ports.0), (ends.to, ports.1)];
    if reverse {
        way.reverse();
    }
    let [(from, sport), (to, dport)] = way;
    let (source, destination) = (address(from)?, address(to)?);

    let [t0, t1] = total.to_be_bytes();
    // Version and header length, ECN field, identification 0 with "don't fragment", time to live, protocol TCP, checksum.
    let mut ip =
        [0x45, if event.marked { 3 } else { 0 }, t0, t1, 0, 0, 0x40, 0, 63 + u8::from(sent), 6, 0, 0];
    let sum = checksum(&[&ip, &source, &destination]);
    ip[10..].copy_from_slice(&sum);

    let sequence = event.number.wrapping_mul(ends.mss.into()) as u32;
    let mut tcp = [0; TCP];
    tcp[0..2].copy_from_slice(&sport.to_be_bytes());
    tcp[2..4].copy_from_slice(&dport.to_be_bytes());
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    // Acknowledges 1; five words of header; the acknowledgement flag; the largest window.
    tcp[8..16].copy_from_slice(&[0, 0, 0, 1, 0x50, 0x10, 0xFF, 0xFF]);
    // The payload is zeros, which do not change the sum.
    let length = (total - IPV4 as u16).to_be_bytes();
    let sum = checksum(&[&source, &destination, &[0, 6], &length, &tcp]);
    tcp[16..18].copy_from_slice(&sum);

    frame.clear();
    frame.reserve(HEADERS);
    let parts: [&[u8]; 7] = [&mac(to), &mac(from), &[0x08, 0x00], &ip, &source, &destination, &tcp];
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    Ok(())
}
