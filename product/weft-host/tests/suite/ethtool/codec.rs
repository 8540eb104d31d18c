//! The binary form of rules: compared with the system's header, encoded and decoded, and decoded from random bytes.

use std::collections::BTreeMap;
use std::num::NonZeroU8;
use std::process::Command;

use proptest::prelude::*;
use weft_host::ethtool::{
    Action, ContextId, DecodeError, Extension, Flow, Ip, L4, Location, Masked, Ports, RULE_LEN, RxRule,
    decode_rule, encode_rule, fuzz_rule,
};
use weft_host::{Mac, testing};
use weft_units::RxQueueId;

const fn masked<T>(value: T, mask: T) -> Masked<T> {
    Masked { value, mask }
}

fn rule(flow: Flow, action: Action, location: Location) -> RxRule {
    RxRule { location, ..RxRule::new(flow, action) }
}

fn exact<T: weft_host::ethtool::Field>(value: T) -> Masked<T> {
    Masked::exact(value)
}

/// The rules of `rules.c`, each with its ethtool arguments.
fn examples() -> Vec<(&'static str, RxRule, &'static str)> {
    let tcp4 = Flow::Ports4(Ports {
        protocol: L4::Tcp,
        source: masked(0x0a01_0203, 0xffff_ff00),
        destination: exact(0xc0a8_0001),
        source_port: masked(1024, 0xfc00),
        destination_port: exact(443),
        tos: masked(0x2e, 0xfc),
    });
    let udp6 = Flow::Ports6(Ports {
        protocol: L4::Udp,
        source: masked(0x2001_0db8 << 96 | 1, 0xffff_ffff << 96),
        destination: exact(0x2001_0db8 << 96 | 2),
        source_port: exact(53),
        destination_port: exact(5353),
        tos: exact(4),
    });
    let sctp4 = Flow::Ports4(Ports { destination_port: exact(36412), ..Ports::any(L4::Sctp) });
    let ip4 = Flow::Ip4(Ip {
        source: masked(0x0a00_0000, 0xff00_0000),
        destination: Masked::any(),
        l4_bytes: exact(0x0102_0304),
        tos: exact(8),
        protocol: exact(47),
    });
    let vlan = Extension {
        vlan_ethertype: exact(0x8100),
        vlan_tci: masked(100, 0x0fff),
        user: [exact(0x1111_1111), masked(0x2222_2222, 0x0000_ffff)],
    };
    let function = Action::Function { function: NonZeroU8::new(2).expect("not zero"), queue: RxQueueId(5) };
    let ip6 = Flow::Ip6(Ip {
        source: Masked::any(),
        destination: masked(0x2001_0db8 << 96 | 3, 0xffff_ffff_ffff << 80),
        l4_bytes: masked(0x0506_0708, 0xffff_0000),
        tos: exact(7),
        protocol: exact(58),
    });
    let ether = Flow::Ether {
        destination: exact(Mac::local(1)),
        source: masked(Mac::local(2), Mac([0xff, 0xff, 0xff, 0, 0, 0])),
        ethertype: exact(0x88f7),
    };
    let (mut value, mut mask) = ([0; 52], [0; 52]);
    value[8..12].copy_from_slice(&[0, 0, 0x12, 0x34]);
    mask[8..12].fill(0xff);
    let esp4 = Flow::Other { kind: 0x0a, value, mask };
    let to_context = Action::Context { context: ContextId(3), first: RxQueueId(4) };
    vec![
        (
            "tcp4",
            rule(tcp4, Action::Queue(RxQueueId(2)), Location::At(7)),
            "flow-type tcp4 src-ip 10.1.2.3 m 0.0.0.255 dst-ip 192.168.0.1 tos 0x2e m 0x3 src-port 1024 m 1023 \
             dst-port 443 action 2 loc 7",
        ),
        (
            "udp6-drop",
            rule(udp6, Action::Drop, Location::Any),
            "flow-type udp6 src-ip 2001:db8::1 m ::ffff:ffff:ffff:ffff:ffff:ffff dst-ip 2001:db8::2 tclass 0x4 \
             src-port 53 dst-port 5353 action -1",
        ),
        (
            "sctp4-context",
            rule(sctp4, to_context, Location::First),
            "flow-type sctp4 dst-port 36412 context 3 action 4 loc 4294967294",
        ),
        (
            "ip4-vlan-function",
            RxRule { extension: Some(vlan), ..rule(ip4, function, Location::Last) },
            "flow-type ip4 src-ip 10.0.0.0 m 0.255.255.255 tos 0x8 l4proto 47 l4data 0x1020304 vlan-etype 0x8100 \
             vlan 0x64 m 0xf000 user-def 0x1111111122222222 m 0xffff0000 vf 1 queue 5 loc 4294967293",
        ),
        (
            "ip6-mac-wake",
            RxRule { mac: Some(exact(Mac::local(42))), ..rule(ip6, Action::Wake, Location::At(1)) },
            "flow-type ip6 dst-ip 2001:db8::3 m ::ffff:ffff:ffff:ffff:ffff tclass 0x7 l4proto 58 \
             l4data 0x5060708 m 0xffff dst-mac 02:00:00:00:00:2a action -2 loc 1",
        ),
        (
            "ether",
            rule(ether, Action::Queue(RxQueueId(0)), Location::At(0)),
            "flow-type ether src 02:00:00:00:00:02 m 00:00:00:ff:ff:ff dst 02:00:00:00:00:01 proto 0x88f7 \
             action 0 loc 0",
        ),
        ("esp4", rule(esp4, Action::Queue(RxQueueId(1)), Location::At(9)), "flow-type 0xa action 1 loc 9"),
    ]
}

fn from_hex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal"))
        .collect()
}

/// The output of `rules.c`.
fn by_the_header() -> BTreeMap<String, Vec<u8>> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/ethtool/rules.c");
    let program = std::env::temp_dir().join(testing::unique("rules"));
    let compiled = Command::new("cc").arg("-o").arg(&program).arg(source).output().expect("cc runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = Command::new(&program).output().expect("it runs");
    std::fs::remove_file(&program).expect("removed");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines()
        .map(|line| line.split_once(' ').expect("two words"))
        .map(|(a, b)| (a.into(), from_hex(b)))
        .collect()
}

#[test]
fn rules_are_laid_out_as_in_the_system_header() {
    let fixtures = by_the_header();
    assert_eq!(fixtures.len(), examples().len());
    for (name, rule, arguments) in examples() {
        let fixture = &fixtures[name];
        assert_eq!(encode_rule(&rule).as_slice(), fixture, "{name}");
        assert_eq!(decode_rule(fixture), Ok(rule), "{name}");
        assert_eq!(rule.to_string(), arguments, "{name}");
    }
}

#[test]
fn what_is_no_rule_is_refused() {
    let bytes = encode_rule(&examples()[0].1);
    assert_eq!(decode_rule(&bytes[..RULE_LEN - 1]), Err(DecodeError::Short(191)));
    let changed = |at: usize, with: &[u8]| {
        let mut bytes = bytes;
        bytes[at..at + with.len()].copy_from_slice(with);
        decode_rule(&bytes)
    };
    assert_eq!(changed(176, &0x8000_0000_u32.to_ne_bytes()), Err(DecodeError::Location(0x8000_0000)));
    assert_eq!(changed(168, &(1_u64 << 40).to_ne_bytes()), Err(DecodeError::Cookie(1 << 40)));
    // A queue of a virtual function and a context at once.
    let mut both = encode_rule(&examples()[3].1);
    let flow_type = u32::from_ne_bytes(both[16..20].try_into().expect("four bytes")) | 0x2000_0000;
    both[16..20].copy_from_slice(&flow_type.to_ne_bytes());
    assert_eq!(decode_rule(&both), Err(DecodeError::Cookie(2 << 32 | 5)));
}

fn any_masked<T: Arbitrary>() -> impl Strategy<Value = Masked<T>> {
    any::<(T, T)>().prop_map(|(value, mask)| Masked { value, mask })
}

fn any_mac() -> impl Strategy<Value = Masked<Mac>> {
    any::<([u8; 6], [u8; 6])>().prop_map(|(value, mask)| Masked { value: Mac(value), mask: Mac(mask) })
}

fn any_ports<A: Arbitrary>() -> impl Strategy<Value = Ports<A>> {
    let protocol = prop_oneof![Just(L4::Tcp), Just(L4::Udp), Just(L4::Sctp)];
    (protocol, any_masked(), any_masked(), any_masked(), any_masked(), any_masked()).prop_map(
        |(protocol, source, destination, source_port, destination_port, tos)| Ports {
            protocol,
            source,
            destination,
            source_port,
            destination_port,
            tos,
        },
    )
}

fn any_ip<A: Arbitrary>() -> impl Strategy<Value = Ip<A>> {
    (any_masked(), any_masked(), any_masked(), any_masked(), any_masked()).prop_map(
        |(source, destination, l4_bytes, tos, protocol)| Ip { source, destination, l4_bytes, tos, protocol },
    )
}

fn any_flow() -> impl Strategy<Value = Flow> {
    let bytes = || proptest::array::uniform26(any::<(u8, u8)>());
    let pairs = |pairs: [(u8, u8); 26]| {
        let mut union = [0; 52];
        union.chunks_exact_mut(2).zip(pairs).for_each(|(to, (a, b))| to.copy_from_slice(&[a, b]));
        union
    };
    let other = (prop_oneof![Just(0x04_u32), 0x08..0x0d_u32, 0x13..0x1000_u32], bytes(), bytes())
        .prop_map(move |(kind, value, mask)| Flow::Other { kind, value: pairs(value), mask: pairs(mask) });
    prop_oneof![
        any_ports().prop_map(Flow::Ports4),
        any_ports().prop_map(Flow::Ports6),
        any_ip().prop_map(Flow::Ip4),
        any_ip().prop_map(Flow::Ip6),
        (any_mac(), any_mac(), any_masked()).prop_map(|(destination, source, ethertype)| Flow::Ether {
            destination,
            source,
            ethertype
        }),
        other,
    ]
}

fn any_rule() -> impl Strategy<Value = RxRule> {
    let location = prop_oneof![
        (0..0x8000_0000_u32).prop_map(Location::At),
        Just(Location::Any),
        Just(Location::First),
        Just(Location::Last)
    ];
    let extension = (any_masked(), any_masked(), any_masked(), any_masked())
        .prop_map(|(vlan_ethertype, vlan_tci, a, b)| Extension { vlan_ethertype, vlan_tci, user: [a, b] });
    let action = prop_oneof![
        any::<u32>().prop_map(|queue| Action::Queue(RxQueueId(queue))),
        (any::<NonZeroU8>(), any::<u32>())
            .prop_map(|(function, queue)| Action::Function { function, queue: RxQueueId(queue) }),
        any::<(u32, u32)>().prop_map(|(context, first)| Action::Context {
            context: ContextId(context),
            first: RxQueueId(first)
        }),
        Just(Action::Drop),
        Just(Action::Wake),
    ];
    (location, any_flow(), proptest::option::of(extension), proptest::option::of(any_mac()), action).prop_map(
        |(location, flow, extension, mac, action)| RxRule { location, flow, extension, mac, action },
    )
}

proptest! {
    #[test]
    fn a_rule_survives_being_written_and_read(rule in any_rule()) {
        prop_assert_eq!(decode_rule(&encode_rule(&rule)), Ok(rule));
        fuzz_rule(&encode_rule(&rule));
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014).
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) as usize
}

#[test]
fn any_bytes_are_refused_or_are_a_rule() {
    const INTERESTING: [u8; 6] = [0, 1, 0x20, 0x7f, 0x80, 0xff];
    let (corpus, mut state) = (examples(), 0xe7001);
    let (mut read, rounds) = (0, 200_000);
    for _ in 0..rounds {
        let mut data = encode_rule(&corpus[random(&mut state) % corpus.len()].1).to_vec();
        for _ in 0..random(&mut state) % 8 {
            // Bytes are placed at type, cookie and location more often, since these decide the meaning of the others.
            let at = match random(&mut state) % 3 {
                0 => 16 + random(&mut state) % 4,
                1 => 168 + random(&mut state) % 20,
                _ => random(&mut state) % data.len(),
            };
            data[at] = match random(&mut state) % 2 {
                0 => INTERESTING[random(&mut state) % INTERESTING.len()],
                _ => random(&mut state) as u8,
            };
        }
        if random(&mut state).is_multiple_of(16) {
            data.truncate(random(&mut state) % data.len());
        }
        fuzz_rule(&data);
        read += usize::from(decode_rule(&data).is_ok());
    }
    assert!(
        read > rounds / 10 && read < rounds * 9 / 10,
        "some are rules and some are not: {read} of {rounds}"
    );
}
