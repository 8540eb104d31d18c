//! A test of the match table against direct evaluation: random conditions, random packets.

use crate::code::Code;
use crate::compile::{CompileOptions, Source, compile};
use crate::lowering::lower;
use crate::lowering::model::Policy;
use crate::syntax;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use weft_packet::strategies::origin;
use weft_units::{FlowKey, PacketMeta, Protocol};

/// The limits by destination that all classes but `default` pass; the longest prefix applies.
const LIMITS: &str = "10.0.0.0/30: 1gbps, 10.0.0.2/31: 2gbps, 10.0.0.3: 3gbps, fd00::/126: 4gbps";

/// A random test. Fields have few values, so that conditions often match packets.
fn some_test() -> impl Strategy<Value = String> {
    let ports = || (1_u16..5, 0_u16..3).prop_map(|(first, more)| format!("{first}..{}", first + more));
    let prefix = || {
        const PREFIXES: &[&str] =
            &["10.0.0.0/30", "10.0.0.0/31", "10.0.0.2/31", "10.0.0.3", "fd00::/127", "fd00::1", "0.0.0.0/0"];
        proptest::sample::select(PREFIXES)
    };
    prop_oneof![
        proptest::sample::select(["any", "tcp", "udp", "protocol 17", "icmpv6", "tcp port 2"].as_slice())
            .prop_map(str::to_owned),
        ports().prop_map(|range| format!("port {range}")),
        ports().prop_map(|range| format!("sport {range}")),
        ports().prop_map(|range| format!("dport {range}")),
        prefix().prop_map(|prefix| format!("from {prefix}")),
        prefix().prop_map(|prefix| format!("to {prefix}")),
        (0_u32..4, 1_u32..4).prop_map(|(value, mask)| format!("mark {}/{mask}", value & mask)),
        (0_u32..3).prop_map(|priority| format!("priority {priority}")),
        proptest::sample::select(["/a", "/a/b", "/c"].as_slice())
            .prop_map(|path| format!("cgroup \"{path}\"")),
        proptest::sample::select(["x", "y"].as_slice()).prop_map(|name| format!("port \"{name}\"")),
        (proptest::sample::select(["vlan", "pcp", "dscp", "ecn", "user"].as_slice()), 0_u8..2)
            .prop_map(|(word, value)| format!("{word} {value}")),
        (proptest::sample::select(["classid", "cookie"].as_slice()), 1_u8..3)
            .prop_map(|(word, value)| format!("{word} {value}")),
        (0_u8..3).prop_map(|number| format!("process \"p{number}\"")),
    ]
}

fn some_condition() -> impl Strategy<Value = String> {
    some_test().prop_recursive(4, 12, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|condition| format!("not ({condition})")),
            proptest::collection::vec(inner.clone(), 2..4)
                .prop_map(|parts| format!("({})", parts.join(" and "))),
            proptest::collection::vec(inner, 2..4).prop_map(|parts| format!("({})", parts.join(" or "))),
        ]
    })
}

fn some_address(six: bool) -> impl Strategy<Value = IpAddr> {
    (0_u8..5).prop_map(move |low| {
        if six {
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(low)))
        } else {
            IpAddr::V4(Ipv4Addr::new(10, 0, 0, low))
        }
    })
}

/// A random packet, and the path of its sender's cgroup.
fn some_packet() -> impl Strategy<Value = (PacketMeta, &'static str)> {
    let key = proptest::bool::weighted(0.2).prop_flat_map(|six| {
        let protocol = proptest::sample::select([1_u8, 6, 17, 58].as_slice());
        (protocol, some_address(six), some_address(six), 0_u16..8, 0_u16..8).prop_map(
            |(protocol, src, dst, sport, dport)| FlowKey {
                src,
                dst,
                sport,
                dport,
                protocol: Protocol(protocol),
            },
        )
    });
    let path = proptest::sample::select(["/", "/a", "/a/b", "/a/b/d", "/c", "/d"].as_slice());
    (proptest::option::weighted(0.9, key), 0_u32..8, 0_u32..3, path, 0_u16..3, origin()).prop_map(
        |(key, mark, priority, path, port, origin)| {
            (PacketMeta { key, mark, priority, port, ..origin }, path)
        },
    )
}

/// The cgroup bits that the host would set for a sender in the cgroup `path`.
fn bits(policy: &Policy, path: &str) -> u64 {
    let within =
        |cgroup: &str| path == cgroup || path.strip_prefix(cgroup).is_some_and(|rest| rest.starts_with('/'));
    policy.cgroups.iter().enumerate().filter(|(_, c)| within(c)).map(|(bit, _)| 1 << bit).sum()
}

fn text_of(conditions: &[String]) -> String {
    let mut text = String::new();
    let mut names = Vec::new();
    for (number, condition) in conditions.iter().enumerate() {
        text.push_str(&format!("class c{number} = {condition}\n"));
        names.push(format!("c{number}"));
    }
    let all = names.join(", ");
    text.push_str(&format!(
        "root = limit by destination {{ {LIMITS} }} of all\nall = priority {{ {all} }}\n"
    ));
    text
}

/// The rate that the limits give to a packet of a class, in Gb/s; 0 for no limit.
fn rate_for(packet: &PacketMeta) -> u64 {
    match packet.key.map(|key| key.dst) {
        Some(IpAddr::V4(dst)) => match dst.octets()[3] {
            0 | 1 => 1,
            2 => 2,
            3 => 3,
            _ => 0,
        },
        Some(IpAddr::V6(dst)) if dst.segments()[7] < 4 => 4,
        _ => 0,
    }
}

fn check(conditions: &[String], packets: &[(PacketMeta, &str)]) -> Result<(), TestCaseError> {
    let text = text_of(conditions);
    let (policy, _) = lower(&syntax::parse(&text).0, &[], None);
    let compilation = compile(Source { name: "p", text: &text }, &CompileOptions::default());
    let Some(compiled) = compilation.policy else {
        let bounded = |code| matches!(code, Code::TooManyRows | Code::PredicateTooLarge);
        let errors: Vec<_> = compilation.diagnostics.iter().filter(|d| d.is_error()).collect();
        prop_assert!(errors.iter().all(|d| bounded(d.code)), "{errors:?} in {text}");
        return Err(TestCaseError::reject("too many rows"));
    };
    compiled.check_invariants();
    for (packet, path) in packets {
        let packet = PacketMeta { cgroups: bits(&policy, path), ..*packet };
        let meant = |class: &crate::lowering::model::ClassDefinition| {
            class.condition.as_ref().is_some_and(|condition| condition.matches(&packet))
        };
        let expected = policy.classes.iter().position(meant).unwrap_or(policy.classes.len());
        let lane = &compiled.program.lanes[compiled.classify(&packet).index()];
        prop_assert_eq!(
            lane.class.index(),
            expected,
            "{:?} in {}\n{}",
            packet,
            text,
            crate::describe(&compiled)
        );
        let rate: u64 = lane.limits.iter().map(|l| compiled.program.limits[l.index()].rate.get()).sum();
        let expected_rate = if expected < policy.classes.len() { rate_for(&packet) } else { 0 };
        prop_assert_eq!(rate, expected_rate * 1_000_000_000, "{:?} in {}", packet, text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 4096, ..ProptestConfig::with_cases(1024) })]

    #[test]
    fn rows_decide_as_the_conditions_say(
        conditions in proptest::collection::vec(some_condition(), 1..4),
        packets in proptest::collection::vec(some_packet(), 64),
    ) {
        check(&conditions, &packets)?;
    }
}
