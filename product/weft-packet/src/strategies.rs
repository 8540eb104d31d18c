//! Test support: random rows, and the attributes of random packets, for property tests (feature `testing`).
//!
//! Values are few, so that rows and packets often match.

use crate::classifier::{Attribute, AttributeTests, Match, PortRange, Prefix};
use core::ops::Range;
use proptest::option::of as maybe;
use proptest::prelude::*;
use weft_units::{PacketMeta, ProcessName, Protocol, VlanTag};

/// The numbers from which rows take their values.
#[derive(Clone, Debug)]
pub struct Values {
    /// Protocols.
    pub protocols: Range<u8>,
    /// Numbers of cgroups.
    pub cgroups: Range<u8>,
    /// Values of attributes.
    pub attributes: Range<u64>,
}

/// Rows with the prefixes `prefix` and the ranges of ports `ports`.
pub fn row(
    prefix: impl Strategy<Value = Prefix> + Clone,
    ports: impl Strategy<Value = PortRange> + Clone,
    values: Values,
) -> impl Strategy<Value = Match> {
    let key = (
        maybe(values.protocols.prop_map(Protocol)),
        maybe(prefix.clone()),
        maybe(prefix),
        maybe(ports.clone()),
        maybe(ports),
    );
    let mark = (0_u32..8, 0_u32..8).prop_map(|(value, mask)| (value & mask, mask));
    let attributes = attributes(values.attributes);
    (key, maybe(mark), maybe(0_u32..2), maybe(values.cgroups), maybe(1_u16..3), attributes).prop_map(
        |((protocol, src, dst, sport, dport), mark, priority, cgroup, port, attributes)| Match {
            protocol,
            src,
            dst,
            sport,
            dport,
            mark,
            priority,
            cgroup,
            port,
            attributes,
        },
    )
}

/// Up to two tests of attributes.
fn attributes(values: Range<u64>) -> impl Strategy<Value = AttributeTests> {
    let one = (proptest::sample::select(Attribute::ALL.as_slice()), values);
    proptest::collection::vec(one, 0..3).prop_map(|tests| {
        let tests = tests.into_iter().map(|(attribute, number)| (attribute, value_of(attribute, number)));
        tests.fold(AttributeTests::NONE, |all, (attribute, value)| all.with(attribute, value))
    })
}

/// The value of an attribute that a small number represents.
fn value_of(attribute: Attribute, number: u64) -> u128 {
    match attribute {
        Attribute::Process => name_of(number).map_or(0, ProcessName::number),
        _ => number.into(),
    }
}

/// The name of a process that a number represents.
fn name_of(number: u64) -> Option<ProcessName> {
    ProcessName::new(format!("p{number}").as_bytes())
}

/// Packets with attributes and nothing else.
pub fn origin() -> impl Strategy<Value = PacketMeta> {
    let tag = maybe((0_u16..3, 0_u8..3).prop_map(|(id, priority)| VlanTag { id, priority }));
    (tag, 0_u8..12, maybe(0_u32..3), 0_u32..3, 0_u64..3, maybe(0_u64..3)).prop_map(
        |(vlan, traffic_class, user, classid, cookie, process)| PacketMeta {
            vlan,
            traffic_class,
            user,
            classid,
            cookie,
            process: process.and_then(name_of),
            ..PacketMeta::default()
        },
    )
}
