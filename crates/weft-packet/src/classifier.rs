//! Conjunctions of header and metadata tests: the rows of a match table.

mod intersection;

pub use intersection::Intersection;

use core::net::IpAddr;
use weft_units::{PacketMeta, Protocol};

/// An address prefix. Bits beyond `len` are zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Prefix {
    /// The network address.
    pub addr: IpAddr,
    /// Length in bits: at most 32 for IPv4, 128 for IPv6.
    pub len: u8,
}

/// An inclusive range of ports.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortRange {
    /// First port.
    pub first: u16,
    /// Last port, not below `first`.
    pub last: u16,
}

/// A conjunction: every test that is `Some` must hold. The default matches every packet.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
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
    /// The number (below 64) of a cgroup of the policy, in which or below which the sender must be.
    pub cgroup: Option<u8>,
}

impl Prefix {
    /// Whether `addr` lies in the prefix. Families never mix.
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
    /// Whether `port` lies in the range.
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl Match {
    /// Whether the packet passes every test. A test of addresses, ports or protocol fails for what is not IP; a test of
    /// ports fails for protocols without ports, whose key carries 0.
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
