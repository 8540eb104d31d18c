//! The match table in the layout of the eBPF program (`struct weft_rule`, bpf/match.h).

use core::net::IpAddr;
use weft_packet::{Match, Prefix};

/// The maximum number of rows of the match table.
pub const RULES: usize = 512;
/// The maximum number of cgroups that rows name.
pub const CGROUPS: usize = 64;
/// The size of a row in the map.
pub const RULE_BYTES: usize = 96;

const TEST_PROTOCOL: u8 = 1;
const TEST_ADDRESS: u8 = 2;
const TEST_PORTS: u8 = 4;
const TEST_MARK: u8 = 8;
const TEST_PRIORITY: u8 = 16;
const TEST_CGROUP: u8 = 32;
const TEST_IPV6: u8 = 64;

/// Converts an address prefix to four words of address and mask in network order; IPv4 is `::ffff:a.b.c.d`.
fn prefix_words(prefix: Prefix) -> ([u8; 16], [u8; 16]) {
    let (address, length) = match prefix.addr {
        IpAddr::V4(a) => (a.to_ipv6_mapped().octets(), 96 + u32::from(prefix.len)),
        IpAddr::V6(a) => (a.octets(), u32::from(prefix.len)),
    };
    let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
    let net = u128::from_be_bytes(address) & mask;
    (net.to_be_bytes(), mask.to_be_bytes())
}

/// The size of a cgroup in the map (`struct weft_cgroup`).
pub const CGROUP_BYTES: usize = 16;

/// A cgroup in the form that the programs compare: its number and its level in the hierarchy.
pub fn cgroup_bytes(id: u64, level: u32) -> [u8; CGROUP_BYTES] {
    let mut element = [0; CGROUP_BYTES];
    element[..8].copy_from_slice(&id.to_ne_bytes());
    element[8..12].copy_from_slice(&level.to_ne_bytes());
    element
}

/// Encodes one row. Packets that `m` matches get `given`: a lane of the software NIC, or a flow's weight.
pub fn encode(m: &Match, given: u32) -> [u8; RULE_BYTES] {
    let mut out = [0; RULE_BYTES];
    let mut tests = 0;
    if let Some(protocol) = m.protocol {
        tests |= TEST_PROTOCOL;
        out[1] = protocol.0;
    }
    if let Some(cgroup) = m.cgroup {
        tests |= TEST_CGROUP;
        out[2] = cgroup;
    }
    out[4..6].copy_from_slice(&(given as u16).to_ne_bytes());
    for (prefix, at) in [(m.src, 8), (m.dst, 40)] {
        if let Some(prefix) = prefix {
            tests |= TEST_ADDRESS | if prefix.addr.is_ipv6() { TEST_IPV6 } else { 0 };
            let (net, mask) = prefix_words(prefix);
            out[at..at + 16].copy_from_slice(&net);
            out[at + 16..at + 32].copy_from_slice(&mask);
        }
    }
    for (range, at) in [(m.sport, 72), (m.dport, 76)] {
        let (first, last) = range.map_or((0, u16::MAX), |r| (r.first, r.last));
        if range.is_some() {
            tests |= TEST_PORTS;
        }
        out[at..at + 2].copy_from_slice(&first.to_ne_bytes());
        out[at + 2..at + 4].copy_from_slice(&last.to_ne_bytes());
    }
    if let Some((value, mask)) = m.mark {
        tests |= TEST_MARK;
        out[80..84].copy_from_slice(&value.to_ne_bytes());
        out[84..88].copy_from_slice(&mask.to_ne_bytes());
    }
    if let Some(priority) = m.priority {
        tests |= TEST_PRIORITY;
        out[88..92].copy_from_slice(&priority.to_ne_bytes());
    }
    out[0] = tests;
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_prefix_is_a_mapped_ipv6_prefix() {
        let prefix = Prefix { addr: "10.1.2.0".parse().expect("address"), len: 24 };
        let (net, mask) = prefix_words(prefix);
        assert_eq!(net, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 0]);
        assert_eq!(mask, [255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0]);
        let any4 = Prefix { addr: "0.0.0.0".parse().expect("address"), len: 0 };
        assert_eq!(prefix_words(any4).1[11..], [255, 0, 0, 0, 0], "any IPv4 is still IPv4 only");
        let any6 = Prefix { addr: "::".parse().expect("address"), len: 0 };
        assert_eq!(prefix_words(any6).1, [0; 16]);
    }

    #[test]
    fn a_row_without_tests_matches_everything() {
        let row = encode(&Match::default(), 3);
        assert_eq!(row[0], 0);
        assert_eq!(u16::from_ne_bytes([row[4], row[5]]), 3);
    }
}
