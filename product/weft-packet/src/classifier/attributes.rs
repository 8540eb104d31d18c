//! Tests of attributes for one value: those of the frame, and those of the socket that sent it.
//!
//! Each attribute has one representation as a number, the name of a process the one of its bytes, so that rows compare, intersect and contain each other in one way for all of
//! them. A packet without the attribute (no tag, no socket, not IP) passes no test of it.

use core::fmt;
use weft_units::{PacketMeta, ProcessName};

/// An attribute that a row may test for one value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Attribute {
    /// The VLAN of the outermost tag (IEEE 802.1Q).
    Vlan,
    /// The priority code point of the outermost tag.
    Pcp,
    /// The differentiated services code point of an IP packet (RFC 2474).
    Dscp,
    /// The congestion notification of an IP packet (RFC 3168).
    Ecn,
    /// The user of the sender's socket.
    User,
    /// The class of the sender's net_cls group (cgroup v1).
    ClassId,
    /// The cookie of the sender's socket.
    Cookie,
    /// The name of the process that made the sender's socket ([`ProcessName::number`]).
    Process,
}

impl Attribute {
    /// All attributes.
    pub const ALL: [Self; 8] = [
        Self::Vlan,
        Self::Pcp,
        Self::Dscp,
        Self::Ecn,
        Self::User,
        Self::ClassId,
        Self::Cookie,
        Self::Process,
    ];

    /// The attribute's word in policies.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Vlan => "vlan",
            Self::Pcp => "pcp",
            Self::Dscp => "dscp",
            Self::Ecn => "ecn",
            Self::User => "user",
            Self::ClassId => "classid",
            Self::Cookie => "cookie",
            Self::Process => "process",
        }
    }

    /// The attribute with that word.
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|attribute| attribute.word() == word)
    }

    /// The smallest and the largest value that a packet may have. The largest 32-bit number is no user (chown(2)), and 0 is the value
    /// for no class of net_cls and for no cookie. Between those of [`Attribute::Process`], some are the numbers of no name.
    pub const fn range(self) -> (u128, u128) {
        match self {
            Self::Vlan => (0, 4095),
            Self::Pcp => (0, 7),
            Self::Dscp => (0, 63),
            Self::Ecn => (0, 3),
            Self::User => (0, u32::MAX as u128 - 1),
            Self::ClassId => (1, u32::MAX as u128),
            Self::Cookie => (1, u64::MAX as u128),
            Self::Process => (1 << 120, u128::MAX << 8),
        }
    }

    /// The packet's value; `None` if it does not have the attribute.
    pub fn of(self, meta: &PacketMeta) -> Option<u128> {
        let ip = |value: u8| meta.key.map(|_| value.into());
        match self {
            Self::Vlan => meta.vlan.map(|tag| tag.id.into()),
            Self::Pcp => meta.vlan.map(|tag| tag.priority.into()),
            Self::Dscp => ip(meta.traffic_class >> 2),
            Self::Ecn => ip(meta.traffic_class & 3),
            Self::User => meta.user.map(u128::from),
            Self::ClassId => Some(meta.classid.into()).filter(|id| *id != 0),
            Self::Cookie => Some(meta.cookie.into()).filter(|cookie| *cookie != 0),
            Self::Process => meta.process.map(ProcessName::number),
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// The tests of attributes for one value each, all of which must hold.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct AttributeTests {
    /// The bits of the attributes that are tested.
    tested: u8,
    /// The values, 0 for attributes that are not tested. Those of the last one, the process, are in two parts, the upper one first.
    values: [u64; PARTS],
}

/// The number of the values' parts. Only names of processes need more than one, and rows are many.
const PARTS: usize = Attribute::ALL.len() + 1;
const _: () = assert!(Attribute::Process as usize == PARTS - 2);

impl AttributeTests {
    /// No tests.
    pub const NONE: Self = Self { tested: 0, values: [0; PARTS] };

    /// The test of one attribute.
    pub fn one(attribute: Attribute, value: u128) -> Self {
        Self::NONE.with(attribute, value)
    }

    /// These tests, with that of one attribute in place of an earlier one of it.
    #[must_use]
    pub fn with(mut self, attribute: Attribute, value: u128) -> Self {
        self.tested |= attribute.bit();
        let parts = [(value >> 64) as u64, value as u64];
        let parts = if attribute == Attribute::Process { &parts[..] } else { &parts[1..] };
        self.values.iter_mut().skip(attribute as usize).zip(parts).for_each(|(slot, part)| *slot = *part);
        self
    }

    /// The value that an attribute is compared with.
    pub fn get(&self, attribute: Attribute) -> Option<u128> {
        let parts = if attribute == Attribute::Process { 2 } else { 1 };
        let parts = self.values.iter().skip(attribute as usize).take(parts);
        let value = || parts.fold(0, |value, part| value << 64 | u128::from(*part));
        (self.tested & attribute.bit() != 0).then(value)
    }

    /// The tests in the order of [`Attribute::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = (Attribute, u128)> + '_ {
        Attribute::ALL.into_iter().filter_map(|attribute| Some((attribute, self.get(attribute)?)))
    }

    /// Whether no attribute is tested.
    pub const fn is_empty(&self) -> bool {
        self.tested == 0
    }

    /// Whether a test belongs to IP packets only.
    pub const fn needs_ip(&self) -> bool {
        self.tested & (Attribute::Dscp.bit() | Attribute::Ecn.bit()) != 0
    }

    /// Whether the packet passes all tests.
    pub fn matches(&self, meta: &PacketMeta) -> bool {
        self.iter().all(|(attribute, value)| attribute.of(meta) == Some(value))
    }

    /// Whether every packet that passes `other` passes these tests.
    pub fn covers(&self, other: &Self) -> bool {
        self.tested & !other.tested == 0 && other.under(self) == *self
    }

    /// Both tests together; `None` if no packet passes both.
    pub fn intersect(&self, other: &Self) -> Option<Self> {
        (self.under(other) == other.under(self)).then(|| {
            let mut both = *self;
            both.tested |= other.tested;
            both.values.iter_mut().zip(other.values).for_each(|(value, more)| *value |= more);
            both
        })
    }

    /// The values that a packet has of the attributes tested here, as tests.
    #[must_use]
    pub fn held_by(&self, meta: &PacketMeta) -> Self {
        let held = self.iter().filter_map(|(attribute, _)| Some((attribute, attribute.of(meta)?)));
        held.fold(Self::NONE, |all, (attribute, value)| all.with(attribute, value))
    }

    /// The tests of those attributes that `mask` tests too.
    #[must_use]
    pub fn under(&self, mask: &Self) -> Self {
        let attributes = self.iter().filter(|(attribute, _)| mask.tested & attribute.bit() != 0);
        attributes.fold(Self::NONE, |kept, (attribute, value)| kept.with(attribute, value))
    }

    /// The same attributes, each tested for 0: the attributes without the values.
    #[must_use]
    pub const fn shape(&self) -> Self {
        Self { tested: self.tested, values: Self::NONE.values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::VlanTag;

    #[test]
    fn a_packet_without_the_field_passes_no_test_of_it() {
        let bare = PacketMeta::default();
        for attribute in Attribute::ALL {
            for value in [0, 1, attribute.range().1] {
                assert!(!AttributeTests::one(attribute, value).matches(&bare), "{attribute} {value}");
            }
        }
        let tagged = PacketMeta { vlan: Some(VlanTag { id: 0, priority: 0 }), ..bare };
        assert!(AttributeTests::one(Attribute::Vlan, 0).with(Attribute::Pcp, 0).matches(&tagged));
    }

    #[test]
    fn words_and_bits_are_each_attributes_own() {
        for (at, attribute) in Attribute::ALL.into_iter().enumerate() {
            assert_eq!((attribute as usize, Attribute::named(attribute.word())), (at, Some(attribute)));
        }
        let tag = VlanTag { id: 4095, priority: 5 };
        assert_eq!((VlanTag::of_control(0xbfff), tag.control()), (tag, 0xafff));
    }
}
