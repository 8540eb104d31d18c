//! Numbered datagrams, and their reader's counts.

use super::MixReport;
use std::collections::BTreeMap;
use std::net::UdpSocket;
use weft_units::Packets;

/// The mark of these datagrams.
const MAGIC: [u8; 4] = *b"weft";
/// Length of the header: magic, flow, number.
pub(super) const HEADER: usize = 16;
/// Datagrams of one socket before the next one's turn.
const READS: u32 = 512;

/// Writes a datagram's header: its flow and its number within the flow.
pub(super) fn write_header(buffer: &mut [u8], flow: u32, number: u64) {
    buffer[..4].copy_from_slice(&MAGIC);
    buffer[4..8].copy_from_slice(&flow.to_be_bytes());
    buffer[8..HEADER].copy_from_slice(&number.to_be_bytes());
}

fn read_header(bytes: &[u8]) -> Option<(u32, u64)> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    let (flow, rest) = rest.split_first_chunk::<4>()?;
    let number = rest.first_chunk::<8>()?;
    (*magic == MAGIC).then(|| (u32::from_be_bytes(*flow), u64::from_be_bytes(*number)))
}

/// A server's counts.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The highest number plus one, by flow.
    next: BTreeMap<u32, u64>,
    delivered: u64,
    late: u64,
}

impl Arrivals {
    /// Reads available datagrams, within bounds. Returns whether there were any.
    pub(super) fn take(&mut self, socket: &UdpSocket, buffer: &mut [u8]) -> bool {
        for read in 0..READS {
            let Ok(length) = socket.recv(buffer) else {
                return read > 0;
            };
            if let Some((flow, number)) = read_header(&buffer[..length]) {
                self.note(flow, number);
            }
        }
        true
    }

    fn note(&mut self, flow: u32, number: u64) {
        let next = self.next.entry(flow).or_default();
        self.delivered += 1;
        self.late += u64::from(number < *next);
        *next = (*next).max(number.saturating_add(1));
    }

    pub(super) fn count(&self, report: &mut MixReport) {
        report.datagrams_delivered += Packets(self.delivered);
        report.datagrams_late += Packets(self.late);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_behind_a_later_one_of_its_flow_is_late() {
        let mut arrivals = Arrivals::default();
        for (flow, number) in [(1, 0), (1, 2), (2, 5), (1, 1), (2, 6), (1, 3), (1, 0)] {
            let mut bytes = [0; HEADER];
            write_header(&mut bytes, flow, number);
            assert_eq!(read_header(&bytes), Some((flow, number)));
            arrivals.note(flow, number);
        }
        assert_eq!((arrivals.delivered, arrivals.late), (7, 2));
        assert_eq!(read_header(b"weft"), None);
        assert_eq!(read_header(&[0; HEADER]), None);
    }
}
