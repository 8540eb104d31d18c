//! The packets held by a worker that another process succeeds: fetched, so in no ring any more, and not sent completely. They were
//! late, a part of them has been sent, or the uplink had no room.
//!
//! They go to the successor in a memfd ([`write`], [`read`]): for each packet [`Head`] as native 32-bit numbers, then its bytes. So a
//! hand-over waits for nothing: not for room in the uplink, and not for a processor that another program uses.

use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// A packet held by a worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct InHand {
    /// The number of its port.
    pub(crate) port: usize,
    /// The number of its ring at the port.
    pub(crate) ring: usize,
    /// The first segment that has not been sent.
    pub(crate) next_segment: u32,
    /// The packet as it was read, with its virtio-net header.
    pub(crate) bytes: Vec<u8>,
}

/// Port, ring, next segment, and the number of bytes.
type Head = [u32; 4];

/// Writes `packets` to a new memfd.
///
/// # Errors
/// When the kernel refuses it, or has no memory.
pub(crate) fn write(packets: &[InHand]) -> io::Result<OwnedFd> {
    let fd = memfd_create("weft-in-hand", MemfdFlags::CLOEXEC)?;
    let mut file = io::BufWriter::new(File::from(fd));
    for packet in packets {
        let head: Head =
            [packet.port as u32, packet.ring as u32, packet.next_segment, packet.bytes.len() as u32];
        for word in head {
            file.write_all(&word.to_ne_bytes())?;
        }
        file.write_all(&packet.bytes)?;
    }
    Ok(file.into_inner().map_err(io::IntoInnerError::into_error)?.into())
}

/// Reads the packets of [`write`]. What follows a packet that is cut off is ignored.
///
/// # Errors
/// When the memfd cannot be read.
pub(crate) fn read(fd: OwnedFd) -> io::Result<Vec<InHand>> {
    let file = File::from(fd);
    let mut bytes = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut bytes, 0)?;
    let (mut rest, mut packets) = (&bytes[..], Vec::new());
    while let Some((packet, behind)) = first(rest) {
        packets.push(packet);
        rest = behind;
    }
    Ok(packets)
}

/// The first packet in `bytes`, and what follows it.
fn first(bytes: &[u8]) -> Option<(InHand, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<{ size_of::<Head>() }>()?;
    let word = |at: usize| head[4 * at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
    let (packet, rest) = rest.split_at_checked(word(3) as usize)?;
    let bytes = packet.to_vec();
    Some((InHand { port: word(0) as usize, ring: word(1) as usize, next_segment: word(2), bytes }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_they_were_written() {
        let packet =
            |port, ring, next_segment, bytes: &[u8]| InHand { port, ring, next_segment, bytes: bytes.into() };
        for packets in
            [vec![], vec![packet(3, 255, 7, &[9; 65_000]), packet(0, 0, 0, &[]), packet(4095, 1, 0, b"x")]]
        {
            assert_eq!(read(write(&packets).expect("write")).expect("read"), packets);
        }
    }

    #[test]
    fn a_packet_that_is_cut_off_is_ignored() {
        let mut bytes = Vec::new();
        [0_u32, 0, 0, 2].iter().for_each(|word| bytes.extend(word.to_ne_bytes()));
        bytes.push(1);
        assert_eq!(first(&bytes), None);
        assert_eq!(first(&bytes[..15]), None);
    }
}
