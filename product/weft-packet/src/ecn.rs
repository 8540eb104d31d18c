//! Explicit congestion notification: the mark in an IP header (RFC 3168).

use crate::headers::{Headers, Network};

/// The ECN field of an IPv4 header's second byte, and of an IPv6 header's.
const IPV4_FIELD: u8 = 0b11;
const IPV6_FIELD: u8 = 0b11 << 4;

/// Marks a frame as having experienced congestion, with IPv4's checksum corrected. Returns whether it has the mark now; a frame whose
/// transport is not capable of ECN, or that is not IP, has not, and stays as it is (RFC 3168, section 5).
pub fn mark_congestion(frame: &mut [u8], headers: &Headers) -> bool {
    let at = headers.l3;
    let field = match headers.network {
        Network::Ipv4 => IPV4_FIELD,
        Network::Ipv6 => IPV6_FIELD,
        Network::Arp | Network::Other => return false,
    };
    let Some(header) = frame.get_mut(at..headers.end) else { return false };
    let Some([before, after]) = header.get(1).map(|byte| [*byte, *byte | field]) else { return false };
    if before & field == 0 {
        return false;
    }
    header[1] = after;
    if headers.network == Network::Ipv4
        && let Some([high, low]) = header.get_mut(10..12)
    {
        // RFC 1624, equation 3: the sum of ones' complements, of which one byte of one word changes.
        let sum =
            u32::from(!u16::from_be_bytes([*high, *low])) + 0xffff - u32::from(before) + u32::from(after);
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = (folded & 0xffff) + (folded >> 16);
        [*high, *low] = (!(folded as u16)).to_be_bytes();
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::parse_headers;

    /// A UDP frame over IPv4 with this ECN field and a right checksum.
    fn ipv4(ecn: u8, ident: u16) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x08, 0x00, 0x45, 0xb8 | ecn, 0, 32]);
        frame.extend(ident.to_be_bytes());
        frame.extend([0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9, 0, 12, 0, 0, 1, 2, 3, 4]);
        let sum = !sum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// The ones' complement sum of a header.
    fn sum(header: &[u8]) -> u16 {
        let words = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        let sum: u32 = words.sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        ((folded & 0xffff) + (folded >> 16)) as u16
    }

    #[test]
    fn a_capable_packet_is_marked_and_its_checksum_stays_right() {
        for ident in (0..=u16::MAX).step_by(13) {
            for ecn in 0..4 {
                let mut frame = ipv4(ecn, ident);
                let before = frame.clone();
                let headers = parse_headers(&frame).expect("a frame");
                assert_eq!(mark_congestion(&mut frame, &headers), ecn > 0);
                assert_eq!(frame[15], if ecn > 0 { 0xbb } else { 0xb8 });
                assert_eq!(sum(&frame[14..34]), 0xffff, "{ident} {ecn}");
                assert_eq!(frame[26..], before[26..]);
            }
        }
    }

    #[test]
    fn ipv6_has_no_checksum_and_others_no_mark() {
        let mut frame = vec![2; 12];
        frame.extend([0x86, 0xdd, 0x60, 0x25, 0, 0, 0, 8, 17, 64]);
        frame.extend([1; 32]);
        frame.extend([0, 7, 0, 9, 0, 8, 0, 0]);
        let headers = parse_headers(&frame).expect("a frame");
        assert!(mark_congestion(&mut frame, &headers));
        assert_eq!(frame[14..16], [0x60, 0x35]);
        let mut arp = [&[2; 12][..], &[8, 6], &[0; 28]].concat();
        let headers = parse_headers(&arp).expect("a frame");
        assert!(!mark_congestion(&mut arp, &headers));
    }
}
