//! Sets of packet headers: header fields under a mask, packed into words.
//!
//! A header match is a conjunction of tests `header & mask == value`. NIC filters, flows with wildcards and single packets are
//! all header matches. Intersection, containment and difference each take a few operations on seven words.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weft_units::{FlowKey, Protocol};

use crate::classifier::Prefix;

/// Ethernet type of IPv4 (IEEE 802 numbers).
pub const ETHER_TYPE_IPV4: u16 = 0x0800;
/// Ethernet type of IPv6.
pub const ETHER_TYPE_IPV6: u16 = 0x86dd;
/// TCP's SYN flag in its flags octet (RFC 9293, section 3.1).
pub const TCP_SYN: u8 = 0x02;

/// A header field that NICs match. An IPv4 address occupies the low 32 bits of an address field and comes with its Ethernet type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Field {
    /// Destination MAC address, 48 bits.
    DstMac,
    /// VLAN tag control information, whose low 12 bits are the identifier; 0 in a packet without a tag.
    Vlan,
    /// Source MAC address, 48 bits.
    SrcMac,
    /// Ethernet type after VLAN tags, 16 bits.
    EtherType,
    /// Source IP address.
    SrcIp,
    /// Destination IP address.
    DstIp,
    /// Source port of TCP, UDP or SCTP.
    SrcPort,
    /// Destination port.
    DstPort,
    /// IPv4 protocol or IPv6 next header, 8 bits.
    IpProtocol,
    /// TCP's flags octet.
    TcpFlags,
}

impl Field {
    /// All fields.
    pub const ALL: [Self; 10] = [
        Self::DstMac,
        Self::SrcMac,
        Self::Vlan,
        Self::EtherType,
        Self::IpProtocol,
        Self::SrcIp,
        Self::DstIp,
        Self::SrcPort,
        Self::DstPort,
        Self::TcpFlags,
    ];

    /// Width in bits.
    pub const fn bits(self) -> u32 {
        match self {
            Self::DstMac | Self::SrcMac => 48,
            Self::Vlan | Self::EtherType | Self::SrcPort | Self::DstPort => 16,
            Self::SrcIp | Self::DstIp => 128,
            Self::IpProtocol | Self::TcpFlags => 8,
        }
    }

    /// The word of the field's lowest bit, and that bit's position in the word.
    const fn place(self) -> (usize, u32) {
        match self {
            Self::DstMac => (0, 0),
            Self::Vlan => (0, 48),
            Self::SrcMac => (1, 0),
            Self::EtherType => (1, 48),
            Self::SrcIp => (2, 0),
            Self::DstIp => (4, 0),
            Self::SrcPort => (6, 0),
            Self::DstPort => (6, 16),
            Self::IpProtocol => (6, 32),
            Self::TcpFlags => (6, 40),
        }
    }

    /// The field's name in model files, policies and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DstMac => "dst-mac",
            Self::SrcMac => "src-mac",
            Self::Vlan => "vlan",
            Self::EtherType => "ether-type",
            Self::IpProtocol => "ip-proto",
            Self::SrcIp => "src-ip",
            Self::DstIp => "dst-ip",
            Self::SrcPort => "src-port",
            Self::DstPort => "dst-port",
            Self::TcpFlags => "tcp-flags",
        }
    }

    /// Returns the field with a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }

    /// A mask of all bits of the field.
    pub const fn all_bits(self) -> u128 {
        u128::MAX >> (128 - self.bits())
    }
}

/// The number of words of a packed header.
const WORDS: usize = 7;

/// A conjunction of tests. The default matches every packet. Bits of `value` outside of `mask` are zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HeaderMatch {
    value: [u64; WORDS],
    mask: [u64; WORDS],
}

/// The relation of one set of packets to another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// No packet is in both.
    Disjoint,
    /// Some packets are in both, and some are not.
    Overlaps,
    /// Every packet of the first is in the second.
    Inside,
}

fn put(words: &mut [u64; WORDS], field: Field, bits: u128) {
    let (word, shift) = field.place();
    let mut set = |word: usize, shift: u32, width: u32, bits: u64| {
        let all = (u64::MAX >> (64 - width)) << shift;
        words[word] = (words[word] & !all) | (bits << shift & all);
    };
    if field.bits() == 128 {
        set(word, 0, 64, bits as u64);
        set(word + 1, 0, 64, (bits >> 64) as u64);
    } else {
        set(word, shift, field.bits(), bits as u64);
    }
}

fn get(words: &[u64; WORDS], field: Field) -> u128 {
    let (word, shift) = field.place();
    if field.bits() == 128 {
        u128::from(words[word]) | u128::from(words[word + 1]) << 64
    } else {
        u128::from(words[word] >> shift) & field.all_bits()
    }
}

impl HeaderMatch {
    /// The match of every packet.
    pub const ALL: Self = Self { value: [0; WORDS], mask: [0; WORDS] };

    /// Replaces the test of a field: its bits under `mask` must equal those of `value`. Bits beyond the field's width are
    /// ignored.
    #[must_use]
    pub fn with(mut self, field: Field, value: u128, mask: u128) -> Self {
        put(&mut self.value, field, value & mask);
        put(&mut self.mask, field, mask);
        self
    }

    /// Replaces the test of a field: it must equal `value`.
    #[must_use]
    pub fn exact(self, field: Field, value: u128) -> Self {
        self.with(field, value, u128::MAX)
    }

    /// Removes the test of a field.
    #[must_use]
    pub fn without(self, field: Field) -> Self {
        self.with(field, 0, 0)
    }

    /// Replaces the test of an address field ([`Field::SrcIp`], [`Field::DstIp`]) by a prefix, and adds the Ethernet type of its
    /// family.
    #[must_use]
    pub fn prefix(self, field: Field, prefix: Prefix) -> Self {
        match prefix.addr {
            IpAddr::V4(addr) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix.len)).unwrap_or(0);
                self.exact(Field::EtherType, ETHER_TYPE_IPV4.into()).with(
                    field,
                    u32::from(addr).into(),
                    mask.into(),
                )
            }
            IpAddr::V6(addr) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix.len)).unwrap_or(0);
                self.exact(Field::EtherType, ETHER_TYPE_IPV6.into()).with(field, addr.into(), mask)
            }
        }
    }

    /// Returns the match of one five-tuple.
    pub fn of_flow(key: &FlowKey) -> Self {
        Self::ALL
            .prefix(Field::SrcIp, Prefix::host(key.src))
            .prefix(Field::DstIp, Prefix::host(key.dst))
            .exact(Field::IpProtocol, key.protocol.0.into())
            .exact(Field::SrcPort, key.sport.into())
            .exact(Field::DstPort, key.dport.into())
    }

    /// Returns the five-tuple, if all of its fields are tested exactly.
    pub fn flow(&self) -> Option<FlowKey> {
        let whole = |field: Field| {
            let (value, mask) = self.get(field);
            (mask == field.all_bits()).then_some(value)
        };
        let address = |field: Field| match self.ether_type()? {
            ETHER_TYPE_IPV4 => {
                let (value, mask) = self.get(field);
                (mask as u32 == u32::MAX).then(|| IpAddr::V4(Ipv4Addr::from(value as u32)))
            }
            ETHER_TYPE_IPV6 => whole(field).map(|value| IpAddr::V6(Ipv6Addr::from(value))),
            _ => None,
        };
        Some(FlowKey {
            src: address(Field::SrcIp)?,
            dst: address(Field::DstIp)?,
            sport: whole(Field::SrcPort)? as u16,
            dport: whole(Field::DstPort)? as u16,
            protocol: Protocol(whole(Field::IpProtocol)? as u8),
        })
    }

    /// Returns the Ethernet type, if all of its bits are tested.
    pub fn ether_type(&self) -> Option<u16> {
        let (value, mask) = self.get(Field::EtherType);
        (mask == Field::EtherType.all_bits()).then_some(value as u16)
    }

    /// Returns a field's value and mask; the mask is 0 if the field is not tested.
    pub fn get(&self, field: Field) -> (u128, u128) {
        (get(&self.value, field), get(&self.mask, field))
    }

    /// Whether a field is tested.
    pub fn tests(&self, field: Field) -> bool {
        get(&self.mask, field) != 0
    }

    /// The fields that are tested.
    pub fn fields(&self) -> impl Iterator<Item = Field> + '_ {
        Field::ALL.into_iter().filter(|field| self.tests(*field))
    }

    /// Whether no packet is in both sets.
    #[inline]
    pub fn is_disjoint(&self, other: &Self) -> bool {
        (0..WORDS).any(|i| (self.value[i] ^ other.value[i]) & self.mask[i] & other.mask[i] != 0)
    }

    /// Whether every packet of `other` is in this set.
    #[inline]
    pub fn covers(&self, other: &Self) -> bool {
        (0..WORDS).all(|i| {
            self.mask[i] & !other.mask[i] == 0 && (self.value[i] ^ other.value[i]) & self.mask[i] == 0
        })
    }

    /// Returns the relation of this set to `other`.
    #[inline]
    pub fn relation(&self, other: &Self) -> Relation {
        if self.is_disjoint(other) {
            Relation::Disjoint
        } else if other.covers(self) {
            Relation::Inside
        } else {
            Relation::Overlaps
        }
    }

    /// Returns the packets in both sets.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        if self.is_disjoint(other) {
            return None;
        }
        let mut both = *self;
        for i in 0..WORDS {
            both.value[i] |= other.value[i];
            both.mask[i] |= other.mask[i];
        }
        Some(both)
    }

    /// Returns the packets of this set that are not in `other`, as disjoint header matches: one per bit that only `other` tests.
    pub fn subtract(&self, other: &Self) -> Vec<Self> {
        if self.is_disjoint(other) {
            return vec![*self];
        }
        let mut rest = *self;
        let mut out = Vec::new();
        for i in 0..WORDS {
            let mut bits = other.mask[i] & !self.mask[i];
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                bits ^= bit;
                let mut part = rest;
                part.mask[i] |= bit;
                part.value[i] |= !other.value[i] & bit;
                out.push(part);
                rest.mask[i] |= bit;
                rest.value[i] |= other.value[i] & bit;
            }
        }
        out
    }

    /// Returns the tested bits without their values. Rules with equal masks can share a table that has one mask for all of its
    /// rules.
    #[must_use]
    pub const fn mask_only(&self) -> Self {
        Self { value: [0; WORDS], mask: self.mask }
    }

    /// Restricts the tests to the bits that `other` also tests.
    #[must_use]
    pub fn under(mut self, other: &Self) -> Self {
        for i in 0..WORDS {
            self.value[i] &= other.mask[i];
            self.mask[i] &= other.mask[i];
        }
        self
    }

    /// Whether `other` tests every bit that this header match tests.
    pub fn fewer_bits(&self, other: &Self) -> bool {
        (0..WORDS).all(|i| self.mask[i] & !other.mask[i] == 0)
    }

    /// The number of tested bits. Of nested header matches, the inner one tests more.
    pub fn bits_tested(&self) -> u32 {
        self.mask.iter().map(|word| word.count_ones()).sum()
    }

    /// Returns the values of the bits that `mask` tests, if this header match tests all of them. They are the key under which a
    /// rule with that mask matches its packets.
    #[inline]
    pub fn project(&self, mask: &Self) -> Option<Self> {
        if (0..WORDS).any(|i| mask.mask[i] & !self.mask[i] != 0) {
            return None;
        }
        Some(Self { value: core::array::from_fn(|i| self.value[i] & mask.mask[i]), mask: mask.mask })
    }

    /// The number of bits that `other` tests and this header match does not.
    pub fn bits_beyond(&self, other: &Self) -> u32 {
        (0..WORDS).map(|i| (other.mask[i] & !self.mask[i]).count_ones()).sum()
    }

    /// Returns the one packet of this set whose untested bits are zero.
    #[inline]
    #[must_use]
    pub const fn whole(&self) -> Self {
        Self { value: self.value, mask: [u64::MAX; WORDS] }
    }

    /// Whether some packet of this set is in none of `others`.
    ///
    /// If `others` have fewer packets in total than this set, some remain. Only otherwise are they subtracted one by one, the
    /// largest first.
    pub fn exceeds(&self, others: &[Self]) -> bool {
        let mut meeting: Vec<(u32, &Self)> = others
            .iter()
            .filter(|other| !self.is_disjoint(other))
            .map(|other| (self.bits_beyond(other), other))
            .collect();
        let held: f64 = meeting.iter().map(|(bits, _)| (-f64::from(*bits)).exp2()).sum();
        if held < 0.99 {
            return true;
        }
        meeting.sort_by_key(|(bits, _)| *bits);
        let Some(((bits, largest), rest)) = meeting.split_first() else { return true };
        if *bits == 0 {
            return false;
        }
        let rest: Vec<Self> = rest.iter().map(|(_, other)| **other).collect();
        self.subtract(largest).iter().any(|part| part.exceeds(&rest))
    }

    /// Returns header matches that cover a range of a field's values, ends included, within this header match: at most two per
    /// bit of the field.
    pub fn range(&self, field: Field, first: u128, last: u128) -> Vec<Self> {
        let last = last.min(field.all_bits());
        let mut out = Vec::new();
        let mut from = first;
        while from <= last {
            let aligned = from.trailing_zeros().min(field.bits());
            let room = (last - from).checked_add(1).map_or(128, u128::ilog2);
            let bits = aligned.min(room);
            let below = if bits == 128 { u128::MAX } else { (1 << bits) - 1 };
            out.push(self.with(field, from, field.all_bits() & !below));
            let Some(next) = from.checked_add(below).and_then(|end| end.checked_add(1)) else { break };
            from = next;
        }
        out
    }
}

impl fmt::Debug for HeaderMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for HeaderMatch {
    /// Writes tests in the syntax of model files and policies: `ip-proto 17 dst-ip 10.0.0.0/24 dst-port 53`, or `any` without
    /// tests.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for field in self.fields() {
            write!(f, "{separator}{} ", field.name())?;
            self.write_test(f, field)?;
            separator = " ";
        }
        if separator.is_empty() { f.write_str("any") } else { Ok(()) }
    }
}

impl HeaderMatch {
    fn write_test(&self, f: &mut fmt::Formatter<'_>, field: Field) -> fmt::Result {
        let (value, mask) = self.get(field);
        // Without a family, or with bits set beyond IPv4's 32, an address is printed as a number. Those bits are zero in IPv4
        // packets, so a test of them by a complete packet adds nothing.
        let beyond = (value >> 32, mask >> 32);
        let family = match self.ether_type() {
            Some(ETHER_TYPE_IPV4) if beyond == (0, 0) || beyond == (0, u128::MAX >> 32) => {
                Some((Ipv4Addr::from(value as u32).into(), 32))
            }
            Some(ETHER_TYPE_IPV6) => Some((IpAddr::V6(Ipv6Addr::from(value)), 128)),
            _ => None,
        };
        match (field, family) {
            (Field::SrcIp | Field::DstIp, Some((address, width))) => {
                let aligned = mask << (128 - width);
                let len = aligned.leading_ones();
                match (aligned.count_ones() == len, len == width) {
                    (true, true) => write!(f, "{address}"),
                    (true, false) => write!(f, "{address}/{len}"),
                    _ => write!(f, "{address}&{mask:#x}"),
                }
            }
            // Users write `vlan 5` for the identifier, 12 bits.
            (Field::Vlan, _) if mask == 0xfff => write!(f, "{value}"),
            (Field::Vlan, _) => write!(f, "{value:#x}&{mask:#x}"),
            (Field::EtherType | Field::DstMac | Field::SrcMac | Field::TcpFlags, _)
                if mask == field.all_bits() =>
            {
                write!(f, "{value:#x}")
            }
            _ if mask == field.all_bits() => write!(f, "{value}"),
            _ => write!(f, "{value:#x}&{mask:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Header matches over few bits, so that they often intersect: low bits of a port, an address, a protocol.
    fn some_headers() -> impl Strategy<Value = HeaderMatch> {
        (0u128..8, 0u128..8, 0u128..8, 0u128..8, 0u128..4, 0u128..4).prop_map(|(a, am, b, bm, c, cm)| {
            HeaderMatch::ALL.with(Field::DstPort, a, am).with(Field::SrcIp, b << 62, bm << 62).with(
                Field::TcpFlags,
                c,
                cm,
            )
        })
    }

    /// Every header over those bits.
    fn all_headers() -> impl Iterator<Item = HeaderMatch> {
        (0u128..8).flat_map(|a| {
            (0u128..8).flat_map(move |b| {
                (0u128..4).map(move |c| {
                    HeaderMatch::ALL
                        .exact(Field::DstPort, a)
                        .exact(Field::SrcIp, b << 62)
                        .exact(Field::TcpFlags, c)
                })
            })
        })
    }

    proptest! {
        #[test]
        fn sets_of_headers_behave_as_sets(a in some_headers(), b in some_headers()) {
            let inside = |headers: &HeaderMatch| all_headers().filter(|h| headers.covers(h)).collect::<Vec<_>>();
            let (of_a, of_b) = (inside(&a), inside(&b));
            let both: Vec<_> = of_a.iter().filter(|h| of_b.contains(h)).copied().collect();
            prop_assert_eq!(a.is_disjoint(&b), both.is_empty());
            prop_assert_eq!(b.covers(&a), both.len() == of_a.len());
            prop_assert_eq!(a.intersect(&b).map_or(Vec::new(), |c| inside(&c)), both.clone());
            let rest = a.subtract(&b);
            for header in &of_a {
                let parts = rest.iter().filter(|part| part.covers(header)).count();
                prop_assert_eq!(parts, usize::from(!both.contains(header)), "{}: parts are disjoint", header);
            }
            for part in &rest {
                prop_assert!(a.covers(part) && part.is_disjoint(&b));
            }
            let expected = if both.is_empty() { Relation::Disjoint }
                else if both.len() == of_a.len() { Relation::Inside } else { Relation::Overlaps };
            prop_assert_eq!(a.relation(&b), expected);
        }

        #[test]
        fn what_exceeds_others_is_what_is_left_of_it(a in some_headers(), others in proptest::collection::vec(some_headers(), 0..12)) {
            let left = all_headers().any(|h| a.covers(&h) && others.iter().all(|other| !other.covers(&h)));
            prop_assert_eq!(a.exceeds(&others), left);
        }

        #[test]
        fn a_projection_is_a_rules_key(a in some_headers(), rule in some_headers()) {
            match a.project(&rule.mask_only()) {
                Some(key) => prop_assert_eq!(key == rule, rule.covers(&a)),
                None => prop_assert!(!rule.covers(&a)),
            }
            prop_assert_eq!(a.bits_beyond(&rule) == 0, a.project(&rule.mask_only()).is_some());
        }

        #[test]
        fn a_range_is_its_values(first in 0u16.., last in 0u16.., probes in proptest::collection::vec(0u16.., 50)) {
            let header_matches = HeaderMatch::ALL.range(Field::DstPort, first.into(), last.into());
            prop_assert!(header_matches.len() <= 30);
            for probe in probes.into_iter().chain([first, last]) {
                let header = HeaderMatch::ALL.exact(Field::DstPort, probe.into());
                let holding = header_matches.iter().filter(|headers| headers.covers(&header)).count();
                prop_assert_eq!(holding, usize::from((first..=last).contains(&probe)));
            }
        }
    }

    #[test]
    fn a_five_tuple_and_back() {
        for (src, dst) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let key = FlowKey {
                src: src.parse().expect("address"),
                dst: dst.parse().expect("address"),
                sport: 7777,
                dport: 53,
                protocol: Protocol::UDP,
            };
            assert_eq!(HeaderMatch::of_flow(&key).flow(), Some(key));
            assert_eq!(HeaderMatch::of_flow(&key).without(Field::SrcPort).flow(), None);
        }
    }

    #[test]
    fn what_is_shown_names_fields_as_files_do() {
        let dns = HeaderMatch::ALL
            .prefix(Field::DstIp, "10.0.0.0/24".parse().expect("prefix"))
            .exact(Field::IpProtocol, 17)
            .exact(Field::DstPort, 53);
        assert_eq!(dns.to_string(), "ether-type 0x800 ip-proto 17 dst-ip 10.0.0.0/24 dst-port 53");
        assert_eq!(HeaderMatch::ALL.to_string(), "any");
        assert_eq!(HeaderMatch::ALL.with(Field::TcpFlags, 2, 2).to_string(), "tcp-flags 0x2&0x2");
        assert_eq!(HeaderMatch::ALL.with(Field::Vlan, 5, 0xfff).to_string(), "vlan 5");
        assert_eq!(HeaderMatch::ALL.exact(Field::Vlan, 5).to_string(), "vlan 0x5&0xffff");
        let four = HeaderMatch::ALL.prefix(Field::SrcIp, "10.0.0.1".parse().expect("address")).whole();
        assert!(four.to_string().contains("src-ip 10.0.0.1 dst-ip 0.0.0.0 "), "{four}");
        assert_eq!(HeaderMatch::ALL.exact(Field::SrcIp, 7).to_string(), "src-ip 7", "of no family");
        for field in Field::ALL {
            assert_eq!(Field::from_name(field.name()), Some(field));
        }
    }

    #[test]
    fn the_whole_of_a_wide_field_is_one_headers() {
        assert_eq!(HeaderMatch::ALL.range(Field::SrcIp, 0, u128::MAX), [HeaderMatch::ALL]);
        assert_eq!(HeaderMatch::ALL.range(Field::DstPort, 5, 4), []);
    }
}
