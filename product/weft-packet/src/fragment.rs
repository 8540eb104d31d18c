//! Cutting an IPv4 datagram into fragments (RFC 791, section 2.3 and the procedure of section 3.2).
//!
//! A macvlan reassembles the fragments of frames to groups and to all (`ip_check_defrag`, net/ipv4/ip_fragment.c). What it
//! makes of them is longer than the MTU of the next device, which drops it. [`fragments`] undoes that.
//!
//! As in the kernel (`ip_options_fragment`), options that only the first fragment has are replaced by no-operations in the
//! others. The flag "don't fragment" stays as it is: the kernel sets it in the datagram if all its fragments had it.

use crate::headers::{Network, parse_headers};

/// The offset of a fragment's data counts in units of so many bytes.
const UNIT: usize = 8;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
/// Options of one byte: the end of the list, and no operation. The bit of those that all fragments have.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const COPIED: u8 = 0x80;
/// The bytes of an IPv4 header without options.
const HEADER: usize = 20;

/// The fragments of the IPv4 datagram in `frame`, as frames, for a device that takes IP packets of `mtu` bytes. `None` if it is
/// no IPv4 datagram, is incomplete, or has no room for data in a packet of that length. A datagram that is not too long is its only fragment.
pub fn fragments(frame: &[u8], mtu: usize) -> Option<Vec<Vec<u8>>> {
    let headers =
        parse_headers(frame).ok().filter(|headers| headers.network == Network::Ipv4 && !headers.cut)?;
    let datagram = frame.get(headers.l3..headers.end)?;
    let length = usize::from(datagram.first()? & 15) * 4;
    let (header, data) = datagram.split_at_checked(length).filter(|_| length >= HEADER)?;
    let most = match length + data.len() <= mtu {
        true => data.len().max(UNIT),
        false => mtu.checked_sub(length)? / UNIT * UNIT,
    };
    if most == 0 {
        return None;
    }
    let word = u16::from_be_bytes([header[6], header[7]]);
    let pieces = data.len().div_ceil(most).max(1);
    let piece = |number: usize| {
        let part = &data[number * most..data.len().min((number + 1) * most)];
        let mut header = header.to_vec();
        let offset = (word & OFFSET).checked_add(u16::try_from(number * most / UNIT).ok()?)?;
        let more = if number + 1 < pieces { MORE_FRAGMENTS } else { 0 };
        if number > 0 {
            drop_first_options(header.get_mut(HEADER..)?);
        }
        header[2..4].copy_from_slice(&u16::try_from(length + part.len()).ok()?.to_be_bytes());
        header[6..8].copy_from_slice(&(word & !OFFSET | more | offset).to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        Some([&frame[..headers.l3], &header, part].concat())
    };
    (0..pieces).map(piece).collect()
}

/// Replaces the options that only the first fragment has by no-operations.
fn drop_first_options(options: &mut [u8]) {
    let mut at = 0;
    while let Some(kind) = options.get(at).copied().filter(|kind| *kind != END) {
        let length = match kind {
            NO_OPERATION => 1,
            _ => options.get(at + 1).map_or(0, |length| usize::from(*length)),
        };
        let Some(option) = options.get_mut(at..at + length).filter(|option| !option.is_empty()) else {
            return;
        };
        if kind & COPIED == 0 {
            option.fill(NO_OPERATION);
        }
        at += length;
    }
}

/// The Internet checksum of a header (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let sum: u32 = header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ETHERNET: usize = 14;

    /// A frame with an IPv4 datagram: its options, padded to words, the word of flags and offset, and its data.
    fn frame(tagged: bool, options: &[u8], word: u16, data: &[u8]) -> Vec<u8> {
        let mut frame = vec![0xff; 6];
        frame.extend([2, 0, 0, 0, 0, 1]);
        if tagged {
            frame.extend([0x81, 0, 0, 7]);
        }
        frame.extend([8, 0]);
        let length = HEADER + options.len().next_multiple_of(4);
        let l3 = frame.len();
        frame.extend([0x40 | (length / 4) as u8, 0]);
        frame.extend(((length + data.len()) as u16).to_be_bytes());
        frame.extend([1, 2]);
        frame.extend(word.to_be_bytes());
        frame.extend([64, 17, 0, 0, 10, 0, 0, 1, 239, 1, 1, 1]);
        frame.extend(options);
        frame.resize(l3 + length, END);
        let sum = checksum(&frame[l3..]);
        frame[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
        frame.extend(data);
        frame
    }

    /// Reassembles byte by byte: each byte of data is at its offset, and comes once. Returns the data and the flag of the last.
    fn reassembled(fragments: &[Vec<u8>], l3: usize, mtu: usize) -> (Vec<u8>, bool) {
        let mut bytes = std::collections::BTreeMap::new();
        let mut last = None;
        for fragment in fragments {
            let ip = &fragment[l3..];
            let length = usize::from(ip[0] & 15) * 4;
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.len());
            assert!(ip.len() <= mtu, "{} bytes", ip.len());
            assert_eq!(checksum(&ip[..length]), 0, "a header with its checksum sums to none");
            let word = u16::from_be_bytes([ip[6], ip[7]]);
            let from = usize::from(word & OFFSET) * UNIT;
            for (at, byte) in ip[length..].iter().enumerate() {
                assert_eq!(bytes.insert(from + at, *byte), None, "byte {} comes twice", from + at);
            }
            if last.is_none_or(|(before, _)| from >= before) {
                last = Some((from, word & MORE_FRAGMENTS != 0));
            }
        }
        let first = bytes.keys().next().copied().unwrap_or(0);
        assert!(bytes.keys().copied().eq(first..first + bytes.len()), "a hole");
        (bytes.into_values().collect(), last.expect("a fragment").1)
    }

    proptest! {
        #[test]
        fn fragments_make_the_datagram_again(
            tagged: bool,
            options in proptest::collection::vec(any::<u8>(), 0..=40),
            word in prop_oneof![Just(0), Just(0x4000), Just(0x2000), Just(0x2010), Just(0x0010)],
            data in proptest::collection::vec(any::<u8>(), 0..6000),
            mtu in 68_usize..2000,
        ) {
            let whole = frame(tagged, &options, word, &data);
            let l3 = ETHERNET + if tagged { 4 } else { 0 };
            let cut = fragments(&whole, mtu).expect("fragments");
            let (bytes, more) = reassembled(&cut, l3, mtu);
            prop_assert_eq!(bytes, data);
            prop_assert_eq!(more, word & MORE_FRAGMENTS != 0);
            let header = |of: &[u8]| of[..l3 + 2].iter().chain(&of[l3 + 4..l3 + 6]).copied().collect::<Vec<_>>();
            for fragment in &cut {
                prop_assert_eq!(header(fragment), header(&whole));
                prop_assert_eq!(fragment[l3 + 6] & 0x40, whole[l3 + 6] & 0x40, "the flag DF");
            }
            prop_assert_eq!(&cut[0][l3 + HEADER..l3 + usize::from(whole[l3] & 15) * 4],
                &whole[l3 + HEADER..l3 + usize::from(whole[l3] & 15) * 4], "the first has all options");
        }

        #[test]
        fn no_frame_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), mtu in 0_usize..200) {
            let _ = fragments(&bytes, mtu);
        }
    }

    #[test]
    fn only_copied_options_are_in_later_fragments() {
        // Record route (7), strict source route (137), no operation.
        let options = [7, 3, 4, 137, 3, 4, 1];
        let cut = fragments(&frame(false, &options, 0, &[5; 100]), 68).expect("fragments");
        assert_eq!(cut[0][34..41], options);
        assert_eq!(cut[1][34..41], [1, 1, 1, 137, 3, 4, 1]);
    }

    #[test]
    fn what_is_no_datagram_or_has_no_room_is_not_cut() {
        let whole = frame(false, &[], 0, &[5; 100]);
        assert_eq!(fragments(&whole, 27), None);
        assert_eq!(fragments(&whole[..60], 1500), None, "incomplete");
        assert_eq!(fragments(&[0; 60], 1500), None);
        assert_eq!(fragments(&whole, 1500), Some(vec![whole.clone()]));
    }
}
