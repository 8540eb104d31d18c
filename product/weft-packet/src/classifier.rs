//! Rows of a match table: conjunctions of tests on header fields and metadata.
//!
//! 1. A [`Match`] has one optional test per field. A test that is `None` passes; a row passes when every test that is `Some`
//!    passes.
//! 2. [`Match::matches`] evaluates a row on a packet's metadata, which the caller has parsed once. No header is read here.
//! 3. A classifier is a list of rows, and the first row that passes gives the class. The caller owns the list and its order.
//! 4. `intersection` compares rows without packets: containment and intersection. The policy compiler uses it to find unreachable
//!    rows.
//!
//! Rules that must hold:
//!
//! * A test of addresses, ports or protocol fails for a packet without a five-tuple (ARP, LLDP). The row stays total: no input is
//!   an error.
//! * A test of ports fails for protocols without ports, whose key carries 0. A row for port 0 would otherwise match ICMP.
//! * Address families are disjoint: an IPv4 prefix contains no IPv6 address, not even a mapped one.
//! * A test of a field that a packet does not have fails (`attributes`): a tag, a socket, a traffic class.
//! * The eBPF program finds the same rows in the kernel (`bpf/match.h`), so a change of meaning here is a change there too.
//!
//! The mark, the priority, the cgroup, the user and the like belong to the socket and are invisible to a NIC; [`header_match`](crate::header_match)
//! has the tests that a NIC can execute.
//!
//! No branch needs a counter: a row passes or fails, and the class counts its packets.

mod attributes;
mod intersection;

pub use attributes::{Attribute, AttributeTests};
pub use intersection::Intersection;

use core::net::IpAddr;
use weft_units::{PacketMeta, Protocol};

/// An address prefix. Bits beyond `len` are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Prefix {
    /// The network address.
    pub addr: IpAddr,
    /// Length in bits: at most 32 for IPv4, 128 for IPv6.
    pub len: u8,
}

/// An inclusive range of ports.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortRange {
    /// The first port.
    pub first: u16,
    /// The last port, not below `first`.
    pub last: u16,
}

/// A conjunction of tests: each one that is `Some` must hold. The default matches every packet.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Match {
    /// Transport protocol.
    pub protocol: Option<Protocol>,
    /// Source address.
    pub src: Option<Prefix>,
    /// Destination address.
    pub dst: Option<Prefix>,
    /// Source port.
    pub sport: Option<PortRange>,
    /// Destination port.
    pub dport: Option<PortRange>,
    /// `(value, mask)`: the mark under the mask equals the value.
    pub mark: Option<(u32, u32)>,
    /// The socket buffer's priority.
    pub priority: Option<u32>,
    /// The index of one of the policy's cgroups, below 64. The sender must be in that cgroup or below it.
    pub cgroup: Option<u8>,
    /// The number of one of the policy's ports, from 1. The packet must leave at that port.
    pub port: Option<u16>,
    /// Fields of the frame and of the sender's socket that have one value.
    pub attributes: AttributeTests,
}

impl Prefix {
    /// Whether the prefix contains `addr`. An address of the other family is never contained.
    pub fn contains(&self, addr: IpAddr) -> bool {
        match (self.addr, addr) {
            (IpAddr::V4(net), IpAddr::V4(a)) => {
                let shift = 32_u32.saturating_sub(u32::from(self.len));
                (u32::from(net) ^ u32::from(a)).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(net), IpAddr::V6(a)) => {
                let shift = 128_u32.saturating_sub(u32::from(self.len));
                (u128::from(net) ^ u128::from(a)).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

impl PortRange {
    /// Whether the range contains `port`.
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }

    /// The values under masks that together are the range, at most 30: `(value, mask)` is all ports with `port & mask == value`.
    pub fn under_masks(&self) -> Vec<(u16, u16)> {
        let mut parts = Vec::new();
        let (mut at, end) = (u32::from(self.first), u32::from(self.last) + 1);
        while at < end {
            let aligned = if at == 0 { u16::BITS } else { at.trailing_zeros() };
            let bits = aligned.min((end - at).ilog2());
            parts.push((at as u16, u32::MAX.checked_shl(bits).unwrap_or(0) as u16));
            at += 1 << bits;
        }
        parts
    }
}

impl Match {
    /// Whether the packet passes every test. Tests of addresses, ports or protocol fail for non-IP packets. Tests of ports fail
    /// for protocols without ports, whose key carries 0.
    pub fn matches(&self, meta: &PacketMeta) -> bool {
        let key_tests = self.protocol.is_some()
            || self.src.is_some()
            || self.dst.is_some()
            || self.sport.is_some()
            || self.dport.is_some();
        let key_passes = match meta.key {
            None => !key_tests,
            Some(key) => {
                self.protocol.is_none_or(|p| p == key.protocol)
                    && self.src.is_none_or(|p| p.contains(key.src))
                    && self.dst.is_none_or(|p| p.contains(key.dst))
                    && self.sport.is_none_or(|r| r.contains(key.sport))
                    && self.dport.is_none_or(|r| r.contains(key.dport))
            }
        };
        key_passes
            && self.mark.is_none_or(|(value, mask)| meta.mark & mask == value)
            && self.priority.is_none_or(|p| p == meta.priority)
            && self.cgroup.is_none_or(|c| meta.cgroups.checked_shr(u32::from(c)).unwrap_or(0) & 1 == 1)
            && self.port.is_none_or(|port| port == meta.port)
            && self.attributes.matches(meta)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::FlowKey;

    #[test]
    fn prefixes_of_every_length() {
        let any = Prefix { addr: "0.0.0.0".parse().expect("address"), len: 0 };
        let host = Prefix { addr: "10.0.1.7".parse().expect("address"), len: 32 };
        assert!(any.contains("255.1.2.3".parse().expect("address")));
        assert!(!any.contains("::1".parse().expect("address")), "families never mix");
        assert!(host.contains("10.0.1.7".parse().expect("address")));
        assert!(!host.contains("10.0.1.6".parse().expect("address")));
    }

    #[test]
    fn what_is_not_ip_matches_only_metadata() {
        let arp = PacketMeta { mark: 5, ..PacketMeta::default() };
        assert!(Match::default().matches(&arp));
        assert!(Match { mark: Some((5, 0xff)), ..Match::default() }.matches(&arp));
        assert!(!Match { protocol: Some(Protocol::TCP), ..Match::default() }.matches(&arp));
    }

    #[test]
    fn every_test_must_hold() {
        let key = FlowKey {
            src: "10.0.0.1".parse().expect("address"),
            dst: "10.0.1.2".parse().expect("address"),
            sport: 40_000,
            dport: 11_211,
            protocol: Protocol::TCP,
        };
        let meta = PacketMeta { key: Some(key), cgroups: 0b10, ..PacketMeta::default() };
        let kvs = Match {
            protocol: Some(Protocol::TCP),
            dport: Some(PortRange { first: 11_211, last: 11_211 }),
            cgroup: Some(1),
            ..Match::default()
        };
        assert!(kvs.matches(&meta));
        assert!(!Match { cgroup: Some(0), ..kvs.clone() }.matches(&meta));
        assert!(!Match { dport: Some(PortRange { first: 1, last: 1023 }), ..kvs }.matches(&meta));
    }
}
