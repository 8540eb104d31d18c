//! Conditions as sets of received packets: those whose answers match.

use crate::lowering::model::Condition;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_packet::{Attribute, Match, PortRange};
use weft_steer::Predicate;

/// The bits of a VLAN identifier in the tag (IEEE 802.1Q).
const VLAN_BITS: u128 = 0xfff;

/// The received packets whose answers match `condition`, which tests nothing of its sender: the condition's destination is
/// their source.
pub(super) fn predicate(condition: &Condition) -> Predicate {
    let all = |parts: &[Condition]| parts.iter().map(predicate).collect();
    match condition {
        Condition::Row(row) => self::row(row),
        Condition::And(parts) => Predicate::All(all(parts)),
        Condition::Or(parts) => Predicate::Any(all(parts)),
        Condition::Not(inner) => Predicate::Not(Box::new(predicate(inner))),
    }
}

fn row(row: &Match) -> Predicate {
    let mut parts = Vec::new();
    let mut is = |headers: HeaderMatch| parts.push(Predicate::Is(headers));
    if let Some(protocol) = row.protocol {
        is(HeaderMatch::ALL.exact(Field::IpProtocol, protocol.0.into()));
    }
    if let Some(prefix) = row.dst {
        is(HeaderMatch::ALL.prefix(Field::SrcIp, prefix));
    }
    if let Some(prefix) = row.src {
        is(HeaderMatch::ALL.prefix(Field::DstIp, prefix));
    }
    if let Some(vlan) = row.attributes.get(Attribute::Vlan) {
        is(HeaderMatch::ALL.with(Field::Vlan, vlan, VLAN_BITS));
    }
    parts.extend(row.dport.map(|range| ports(Field::SrcPort, range)));
    parts.extend(row.sport.map(|range| ports(Field::DstPort, range)));
    if parts.len() == 1 { parts.remove(0) } else { Predicate::All(parts) }
}

fn ports(field: Field, range: PortRange) -> Predicate {
    let matches = HeaderMatch::ALL.range(field, range.first.into(), range.last.into());
    Predicate::Any(matches.into_iter().map(Predicate::Is).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weft_packet::Prefix;
    use weft_units::{FlowKey, PacketMeta, Protocol};

    fn address() -> impl Strategy<Value = core::net::IpAddr> {
        let texts = ["10.0.0.1", "10.0.1.1", "10.1.0.1", "fd00::1", "fd00:1::1"];
        prop::sample::select(texts.to_vec()).prop_map(|text| text.parse().expect("an address"))
    }

    fn prefix() -> impl Strategy<Value = Prefix> {
        let texts = ["10.0.0.0/24", "10.0.0.0/15", "0.0.0.0/0", "::/0", "fd00::/32", "10.0.1.1/32"];
        prop::sample::select(texts.to_vec()).prop_map(|text| text.parse().expect("a prefix"))
    }

    fn test() -> impl Strategy<Value = Condition> {
        let ports = || (1_u16..6, 0_u16..4).prop_map(|(first, more)| PortRange { first, last: first + more });
        let row = Match::default;
        prop_oneof![
            prop::sample::select(vec![1_u8, 6, 17])
                .prop_map(move |n| Match { protocol: Some(Protocol(n)), ..row() }),
            prefix().prop_map(move |src| Match { src: Some(src), ..row() }),
            prefix().prop_map(move |dst| Match { dst: Some(dst), ..row() }),
            ports().prop_map(move |sport| Match { sport: Some(sport), ..row() }),
            ports().prop_map(move |dport| Match { dport: Some(dport), ..row() }),
            Just(row()),
        ]
        .prop_map(Condition::Row)
    }

    fn condition() -> impl Strategy<Value = Condition> {
        test().prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(Condition::And),
                prop::collection::vec(inner.clone(), 1..4).prop_map(Condition::Or),
                inner.prop_map(|of| Condition::Not(Box::new(of))),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_received_packet_is_of_the_class_of_its_answer(
            condition in condition(),
            (src, dst) in (address(), address()).prop_filter("one family", |(a, b)| a.is_ipv4() == b.is_ipv4()),
            (sport, dport) in (1_u16..8, 1_u16..8),
            protocol in prop::sample::select(vec![1_u8, 6, 17]),
        ) {
            // A protocol without ports carries 0.
            let (sport, dport) = if protocol == 1 { (0, 0) } else { (sport, dport) };
            let answer = FlowKey { src, dst, sport, dport, protocol: Protocol(protocol) };
            let received = FlowKey { src: dst, dst: src, sport: dport, dport: sport, ..answer };
            let meta = PacketMeta { key: Some(answer), ..PacketMeta::default() };
            let packet = HeaderMatch::of_flow(&received).whole();
            prop_assert_eq!(predicate(&condition).passes(&packet), condition.matches(&meta));
        }
    }
}
