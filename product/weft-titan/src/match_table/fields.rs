//! The fields of a row as values under masks (`struct weft_fields`, bpf/tables.h).

use core::net::IpAddr;
use std::collections::BTreeMap;
use weft_packet::{Attribute, Match, PortRange, Prefix};

/// The bytes that masks cover: all but the numbers of the group and the cgroup.
pub(super) const MASKED: usize = 72;

const SRC: usize = 0;
const DST: usize = 16;
const SPORT: usize = 32;
const DPORT: usize = 34;
const PROTOCOL: usize = 36;
const FAMILY: usize = 37;
const PORT: usize = 38;
pub(super) const MARK: usize = 40;
pub(super) const PRIORITY: usize = 44;
pub(super) const FRAME: usize = 48;
pub(super) const USER: usize = 52;
pub(super) const CLASSID: usize = 56;
pub(super) const COOKIE: usize = 60;
pub(super) const PROCESS: usize = 68;
const GROUP: usize = 72;
const MEMBER: usize = 74;

/// The group of entries that have the number of a process for its name (`WEFT_NAMES`).
const NAMES: u16 = u16::MAX;
const _: () = assert!(super::GROUPS <= NAMES as usize);

/// The values of `family`. They have one bit in common. A row that tests no address tests this bit for IP.
const IPV4: u8 = 4;
const IPV6: u8 = 6;
const IS_IP: u8 = IPV4 & IPV6;

const _: () = assert!(IS_IP != 0);

/// The parts of the field `frame` (`WEFT_FRAME_*`): the traffic class, the tag's control information, and whether there is a tag.
const FRAME_ECN: u32 = 3;
const FRAME_DSCP: u32 = 63 << 2;
const FRAME_VLAN: u32 = 0xfff << 8;
const FRAME_PCP: u32 = 7 << 21;
const FRAME_TAGGED: u32 = 1 << 24;
/// The bits that distinguish the owner of a flow (`WEFT_FRAME_VLAN`).
pub(super) const OWNING_VLAN: u32 = FRAME_VLAN | FRAME_TAGGED;

/// The masks of a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Masks(pub(super) [u8; MASKED]);

impl Masks {
    /// The word at byte `at`.
    pub(super) fn word(&self, at: usize) -> u32 {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk::<4>());
        bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }
}

/// The values of a row's fields, zero where its masks are, and the number of its cgroup, or of its port in a group by port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Fields {
    values: [u8; MASKED],
    member: u16,
}

impl Fields {
    /// The size of a key (`struct weft_fields`).
    pub(super) const BYTES: usize = 76;

    /// The key of an entry in group `group`.
    pub(super) fn key(&self, group: u16) -> [u8; Self::BYTES] {
        let mut key = [0; Self::BYTES];
        key[..MASKED].copy_from_slice(&self.values);
        key[GROUP..MEMBER].copy_from_slice(&group.to_ne_bytes());
        key[MEMBER..].copy_from_slice(&self.member.to_ne_bytes());
        key
    }
}

/// The processes that rows test, and their numbers in keys, from 1.
#[derive(Debug, Default)]
pub(super) struct Processes(BTreeMap<u128, u32>);

impl Processes {
    /// The value of an attribute as keys have it.
    fn in_keys(&mut self, (attribute, value): (Attribute, u128)) -> (Attribute, u128) {
        if attribute != Attribute::Process {
            return (attribute, value);
        }
        let next = self.0.len() as u32 + 1;
        (attribute, (*self.0.entry(value).or_insert(next)).into())
    }

    /// The keys of the entries that have the numbers.
    pub(super) fn keys(self) -> impl Iterator<Item = ([u8; Fields::BYTES], u32)> {
        self.0.into_iter().map(|(name, number)| (key_of_process(name), number))
    }
}

/// The key of the entry that has the number of the process with that name.
pub(crate) fn key_of_process(name: u128) -> [u8; Fields::BYTES] {
    let mut draft = Draft::NEW;
    draft.set(SRC, name.to_be_bytes(), [0; 16]);
    let (_, fields) = draft.finish(0);
    fields.key(NAMES)
}

/// A row under construction.
#[derive(Clone, Copy)]
struct Draft {
    masks: [u8; MASKED],
    values: [u8; MASKED],
}

impl Draft {
    const NEW: Self = Self { masks: [0; MASKED], values: [0; MASKED] };

    fn set<const N: usize>(&mut self, at: usize, value: [u8; N], mask: [u8; N]) {
        self.masks[at..at + N].copy_from_slice(&mask);
        self.values[at..at + N].copy_from_slice(&value);
    }

    fn set_prefix(&mut self, at: usize, prefix: Prefix) {
        let (net, mask) = prefix_words(prefix);
        self.set(at, net, mask);
        self.set(FAMILY, [if prefix.addr.is_ipv6() { IPV6 } else { IPV4 }], [u8::MAX]);
    }

    fn set_port(&mut self, at: usize, (value, mask): (u16, u16)) {
        self.set(at, value.to_ne_bytes(), mask.to_ne_bytes());
    }

    /// Adds the test of an attribute.
    fn set_attribute(&mut self, (attribute, value): (Attribute, u128)) {
        let word = value as u32;
        let frame = match attribute {
            Attribute::Ecn => (word, FRAME_ECN),
            Attribute::Dscp => (word << 2, FRAME_DSCP),
            Attribute::Vlan => (word << 8 | FRAME_TAGGED, FRAME_VLAN | FRAME_TAGGED),
            Attribute::Pcp => (word << 21 | FRAME_TAGGED, FRAME_PCP | FRAME_TAGGED),
            Attribute::User => return self.set(USER, word.to_ne_bytes(), [u8::MAX; 4]),
            Attribute::ClassId => return self.set(CLASSID, word.to_ne_bytes(), [u8::MAX; 4]),
            Attribute::Cookie => return self.set(COOKIE, halves(value as u64), [u8::MAX; 8]),
            // Its number in keys.
            Attribute::Process => return self.set(PROCESS, word.to_ne_bytes(), [u8::MAX; 4]),
        };
        self.or_word(FRAME, frame);
    }

    /// Adds bits of the word at `at`, which has none of them yet but those that are equal.
    fn or_word(&mut self, at: usize, (value, mask): (u32, u32)) {
        for (bytes, more) in [(&mut self.values, value), (&mut self.masks, mask)] {
            for (byte, bits) in bytes[at..at + 4].iter_mut().zip(more.to_ne_bytes()) {
                *byte |= bits;
            }
        }
    }

    const fn finish(self, member: u16) -> (Masks, Fields) {
        (Masks(self.masks), Fields { values: self.values, member })
    }
}

/// A number as two words, the lower half first.
fn halves(value: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&(value as u32).to_ne_bytes());
    bytes[4..].copy_from_slice(&((value >> 32) as u32).to_ne_bytes());
    bytes
}

/// Converts an address prefix to address and mask in network order; IPv4 is `::ffff:a.b.c.d`.
pub(super) fn prefix_words(prefix: Prefix) -> ([u8; 16], [u8; 16]) {
    let (address, length) = match prefix.addr {
        IpAddr::V4(a) => (a.to_ipv6_mapped().octets(), 96 + u32::from(prefix.len)),
        IpAddr::V6(a) => (a.octets(), u32::from(prefix.len)),
    };
    let mask = u128::MAX.checked_shl(128 - length.min(128)).unwrap_or(0);
    let net = u128::from_be_bytes(address) & mask;
    (net.to_be_bytes(), mask.to_be_bytes())
}

/// The values under masks that together are the range; one of mask 0 for no range.
pub(super) fn port_masks(range: Option<PortRange>) -> Vec<(u16, u16)> {
    range.map_or_else(|| vec![(0, 0)], |range| range.under_masks())
}

/// The masks and values of a row: several if it tests ranges of ports, and none if no packet can match it.
pub(super) fn of_match(row: &Match, processes: &mut Processes) -> Vec<(Masks, Fields)> {
    let families = row.src.zip(row.dst).is_some_and(|(src, dst)| src.addr.is_ipv4() != dst.addr.is_ipv4());
    let outside = row.mark.is_some_and(|(value, mask)| value & !mask != 0);
    // A value that no packet has would be that of packets without the attribute.
    let impossible = |(attribute, value): (Attribute, u128)| {
        let (least, most) = attribute.range();
        !(least..=most).contains(&value)
    };
    if families || outside || row.attributes.iter().any(impossible) {
        return Vec::new();
    }
    let mut draft = Draft::NEW;
    if row.tests_key() {
        draft.set(FAMILY, [IS_IP], [IS_IP]);
    }
    for (prefix, at) in [(row.src, SRC), (row.dst, DST)] {
        if let Some(prefix) = prefix {
            draft.set_prefix(at, prefix);
        }
    }
    if let Some(protocol) = row.protocol {
        draft.set(PROTOCOL, [protocol.0], [u8::MAX]);
    }
    if let Some(port) = row.port {
        draft.set_port(PORT, (port, u16::MAX));
    }
    if let Some((value, mask)) = row.mark {
        draft.set(MARK, value.to_ne_bytes(), mask.to_ne_bytes());
    }
    if let Some(priority) = row.priority {
        draft.set(PRIORITY, priority.to_ne_bytes(), [u8::MAX; 4]);
    }
    for tested in row.attributes.iter() {
        draft.set_attribute(processes.in_keys(tested));
    }
    let cgroup = row.cgroup.map_or(0, u16::from);
    let mut parts = Vec::new();
    for sport in port_masks(row.sport) {
        for dport in port_masks(row.dport) {
            let mut part = draft;
            part.set_port(SPORT, sport);
            part.set_port(DPORT, dport);
            parts.push(part.finish(cgroup));
        }
    }
    parts
}

/// The masks and values of a row of the destination table.
pub(super) fn of_destination(class: u16, port: Option<u16>, to: Option<Prefix>) -> (Masks, Fields) {
    let mut draft = Draft::NEW;
    if let Some(to) = to {
        draft.set_prefix(DST, to);
    }
    draft.set_port(PORT, (class, u16::MAX));
    draft.finish(port.unwrap_or(0))
}

/// The fields of a packet as the programs read them, for a search in user space; `process` is the number of its process.
#[cfg(test)]
pub(super) fn of_packet(meta: &weft_units::PacketMeta, process: u32) -> [u8; MASKED] {
    let mut draft = Draft::NEW;
    if let Some(weft_units::FlowKey { src, dst, sport, dport, protocol }) = meta.key {
        draft.set_prefix(SRC, Prefix::host(src));
        draft.set_prefix(DST, Prefix::host(dst));
        draft.set_port(SPORT, (sport, u16::MAX));
        draft.set_port(DPORT, (dport, u16::MAX));
        draft.set(PROTOCOL, [protocol.0], [u8::MAX]);
    }
    draft.set_port(PORT, (meta.port, u16::MAX));
    draft.set(MARK, meta.mark.to_ne_bytes(), [u8::MAX; 4]);
    draft.set(PRIORITY, meta.priority.to_ne_bytes(), [u8::MAX; 4]);
    draft.set(USER, u32::MAX.to_ne_bytes(), [u8::MAX; 4]);
    for attribute in Attribute::ALL {
        let value = attribute.of(meta);
        let value = if attribute == Attribute::Process { Some(process.into()) } else { value };
        value.into_iter().for_each(|value| draft.set_attribute((attribute, value)));
    }
    draft.values
}
