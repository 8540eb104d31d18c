//! The tables in user space: a search as the programs do it finds the first row that matches.

use super::fields::{Fields, MASKED, key_of_process, of_packet, port_masks, prefix_words};
use super::*;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_packet::strategies::{self, Values};
use weft_packet::{Attribute, AttributeTests, PortRange};
use weft_units::{FlowKey, PacketMeta, ProcessName, Protocol};

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
fn a_row_without_tests_is_one_group_without_masks() {
    let row = Row { matcher: &Match::default(), given: 3, class: None };
    let tables = Tables::build([row], [], Tested::default()).expect("fits");
    assert_eq!((tables.groups(), tables.entries()), ((1, 0), 1));
    assert_eq!(tables.groups[0].masks.0, [0; MASKED]);
    assert_eq!(tables.entries[0].1, entry_bytes(0, 3, None));
}

/// The search of bpf/match.h in user space.
fn search(tables: &Tables, meta: &PacketMeta) -> u16 {
    counted(tables, meta).0
}

/// As [`search`], with the number of look-ups.
fn counted(tables: &Tables, meta: &PacketMeta) -> (u16, usize) {
    let mut look_ups = 0;
    let map: BTreeMap<_, _> = tables.entries.iter().copied().collect();
    let mut number_of = |name: ProcessName| {
        look_ups += 1;
        let found = map.get(&key_of_process(name.number()))?;
        Some(u32::from_ne_bytes(*found.first_chunk().expect("four bytes")))
    };
    let tested = tables.tested_bits().flags & TestedBits::PROCESSES != 0;
    let process = meta.process.filter(|_| tested).and_then(&mut number_of);
    let mut packet = of_packet(meta, process.unwrap_or(0));
    let (classifying, destinations) = tables.groups();
    let mut best = [u8::MAX; ENTRY_BYTES];
    for (from, count) in [(0, classifying), (classifying, destinations)] {
        let mut row = u32::MAX;
        for (number, group) in tables.groups.iter().enumerate().skip(from).take(count) {
            if row <= group.first {
                break;
            }
            let members: Vec<u16> = (0..64).filter(|bit| meta.cgroups >> bit & 1 == 1).collect();
            let all = match group.by {
                By::None => vec![0],
                By::Cgroup => members,
                By::Port => vec![meta.port],
            };
            for member in all {
                let mut key = [0; Fields::BYTES];
                for (at, mask) in group.masks.0.iter().enumerate() {
                    key[at] = packet[at] & mask;
                }
                key[MASKED..MASKED + 2].copy_from_slice(&(number as u16).to_ne_bytes());
                key[MASKED + 2..].copy_from_slice(&member.to_ne_bytes());
                look_ups += 1;
                let Some(found) = map.get(&key) else { continue };
                let number = u32::from_ne_bytes(*found.first_chunk().expect("four bytes"));
                if number < row {
                    (row, best) = (number, *found);
                }
            }
        }
        let class = u16::from_ne_bytes([best[6], best[7]]);
        if class == ANY_DESTINATION {
            break;
        }
        packet[38..40].copy_from_slice(&class.to_ne_bytes());
    }
    (u16::from_ne_bytes([best[4], best[5]]), look_ups)
}

fn address(six: bool) -> impl Strategy<Value = IpAddr> {
    (0_u8..8).prop_map(move |low| match six {
        true => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, low.into())),
        false => IpAddr::V4(Ipv4Addr::new(10, 0, 0, low)),
    })
}

fn prefix() -> impl Strategy<Value = Prefix> + Clone {
    let six = any::<bool>().prop_flat_map(|six| (address(six), 0_u8..=4));
    six.prop_map(|(addr, short)| Prefix { len: Prefix::host(addr).len - short, addr }.network())
}

fn ports() -> impl Strategy<Value = PortRange> + Clone {
    (0_u16..64, 0_u16..64).prop_map(|(first, more)| PortRange { first, last: first + more })
}

fn row() -> impl Strategy<Value = Match> {
    let values = Values { protocols: 1..4, cgroups: 0..4, attributes: 0..3 };
    strategies::row(prefix(), ports(), values)
}

fn packet() -> impl Strategy<Value = PacketMeta> {
    let addresses = any::<bool>().prop_flat_map(|six| (address(six), address(six)));
    let key =
        (addresses, 0_u16..128, 0_u16..128, 1_u8..4).prop_map(|((src, dst), sport, dport, protocol)| {
            FlowKey { src, dst, sport, dport, protocol: Protocol(protocol) }
        });
    (proptest::option::weighted(0.9, key), 0_u32..8, 0_u32..2, 0_u64..16, 0_u16..3, strategies::origin())
        .prop_map(|(key, mark, priority, cgroups, port, origin)| PacketMeta {
            key,
            mark,
            priority,
            cgroups,
            port,
            ..origin
        })
}

/// The result by definition: the first row, then the longest prefix of its class.
fn expected(rows: &[Row<'_>], destinations: &[Destination], meta: &PacketMeta) -> u16 {
    let row = rows.iter().find(|row| row.matcher.matches(meta)).expect("the last row matches");
    let mine = |d: &&Destination| Some(d.class) == row.class;
    // A port that a class names has separate rows, and no others.
    let own = destinations.iter().filter(mine).any(|d| d.port == Some(meta.port));
    let port = own.then_some(meta.port);
    let to = |to: Prefix| meta.key.is_some_and(|key| to.contains(key.dst));
    let holds = |d: &&Destination| mine(d) && d.port == port && d.to.is_none_or(to);
    let longest = destinations.iter().filter(holds).max_by_key(|d| d.to.map(|to| to.len));
    longest.map_or(row.given, |d| d.given)
}

proptest! {
    #[test]
    fn the_search_finds_the_first_row_and_the_longest_prefix(
        matchers in proptest::collection::vec(row(), 0..40),
        to in proptest::collection::btree_set((0_u16..3, proptest::option::of(1_u16..3), prefix()), 0..12),
        packets in proptest::collection::vec(packet(), 32),
    ) {
        let any = Match::default();
        let rows: Vec<Row<'_>> = matchers.iter().chain([&any]).enumerate().map(|(number, matcher)| Row {
            matcher,
            given: number as u16,
            class: Some(number as u16 % 4).filter(|class| *class < 3),
        }).collect();
        let mut destinations: Vec<Destination> = to
            .iter()
            .enumerate()
            .map(|(number, (class, port, to))| Destination { class: *class, port: *port, to: Some(*to), given: 1000 + number as u16 })
            .collect();
        let ports: std::collections::BTreeSet<_> = to.iter().filter_map(|(class, port, _)| Some((*class, (*port)?))).collect();
        let rest = |(number, (class, port)): (usize, &(u16, u16))| Destination {
            class: *class,
            port: Some(*port),
            to: None,
            given: 2000 + number as u16,
        };
        destinations.extend(ports.iter().enumerate().map(rest));
        let tables = Tables::build(rows.iter().copied(), destinations.iter().copied(), Tested::default()).expect("fits");
        for meta in &packets {
            prop_assert_eq!(search(&tables, meta), expected(&rows, &destinations, meta), "{:?} in {:?}", meta, rows);
        }
    }

    #[test]
    fn a_range_of_ports_is_its_parts(first in any::<u16>(), more in any::<u16>(), port in any::<u16>()) {
        let range = PortRange { first, last: first.saturating_add(more) };
        let parts = port_masks(Some(range));
        prop_assert!(parts.len() <= 30, "{parts:?}");
        for port in [port, range.first, range.last, range.first.wrapping_sub(1), range.last.wrapping_add(1)] {
            let holding = parts.iter().filter(|(value, mask)| port & mask == *value).count();
            prop_assert_eq!(holding, usize::from(range.contains(port)), "{} in {:?}", port, parts);
        }
    }
}

#[test]
fn rows_with_equal_masks_are_one_group() {
    let host = |low: u16| Prefix::host(IpAddr::V4(Ipv4Addr::new(10, 0, (low >> 8) as u8, low as u8)));
    let matchers: Vec<Match> =
        (0..10_000).map(|low| Match { dst: Some(host(low)), ..Match::default() }).collect();
    let rows = matchers.iter().map(|matcher| Row { matcher, given: 0, class: None });
    let destinations =
        (0..10_000).map(|low| Destination { class: 0, port: None, to: Some(host(low)), given: 0 });
    let tables = Tables::build(rows, destinations, Tested::default()).expect("fits");
    assert_eq!((tables.groups(), tables.entries()), ((1, 1), 20_000));
}

/// A row of one of nine kinds, the numbers of which differ.
fn row_of_a_kind(number: u32) -> Match {
    let one = |attribute| AttributeTests::one(attribute, u128::from(number / 9 + 1));
    let process = ProcessName::new(format!("p{number}").as_bytes()).expect("a name");
    let row = Match::default();
    match number % 9 {
        0 => Match { attributes: one(Attribute::User), ..row },
        1 => Match { attributes: one(Attribute::Cookie), ..row },
        2 => Match { attributes: one(Attribute::ClassId), ..row },
        3 => Match { attributes: one(Attribute::Vlan).with(Attribute::Dscp, u128::from(number) % 64), ..row },
        4 => Match { mark: Some((number, u32::MAX)), ..row },
        5 => Match { priority: Some(number), ..row },
        6 => Match {
            cgroup: Some((number / 9 % 64) as u8),
            dport: Some(PortRange::single(number as u16)),
            ..row
        },
        7 => Match { dst: Some(Prefix::host(IpAddr::V4(Ipv4Addr::from(number)))), ..row },
        _ => Match { attributes: AttributeTests::one(Attribute::Process, process.number()), ..row },
    }
}

/// The look-ups of a packet that no row but the last matches, by the number of rows.
fn look_ups(rows: u32, cgroups: u64) -> usize {
    let any = Match::default();
    let matchers: Vec<Match> = (0..rows).map(row_of_a_kind).collect();
    let rows = matchers.iter().chain([&any]).map(|matcher| Row { matcher, given: 0, class: None });
    let tables = Tables::build(rows, [], Tested::default()).expect("fits");
    let meta = PacketMeta {
        user: Some(u32::MAX - 1),
        cookie: u64::MAX,
        process: ProcessName::new(b"none"),
        cgroups,
        ..PacketMeta::default()
    };
    counted(&tables, &meta).1
}

#[test]
fn ten_thousand_rows_cost_as_many_look_ups_as_ten() {
    for cgroups in [0_u64, 1, 0b111] {
        // Eight groups besides that of cgroups, the last row, and the number of the process.
        let of_groups = 10 + cgroups.count_ones() as usize;
        assert_eq!([10, 100, 10_000].map(|rows| look_ups(rows, cgroups)), [of_groups; 3]);
    }
}

#[test]
fn too_many_groups_and_entries_are_refused() {
    let marks: Vec<Match> =
        (1..=GROUPS as u32 + 1).map(|mask| Match { mark: Some((0, mask)), ..Match::default() }).collect();
    let rows = marks.iter().map(|matcher| Row { matcher, given: 0, class: None });
    let refused = Tables::build(rows, [], Tested::default());
    assert_eq!(refused, Err(TableError::Groups { given: GROUPS + 1 }));
    let range = Some(PortRange { first: 1, last: 65_534 });
    let wide: Vec<Match> = (0..400)
        .map(|mark| Match { sport: range, dport: range, mark: Some((mark, u32::MAX)), ..Match::default() })
        .collect();
    let rows = wide.iter().map(|matcher| Row { matcher, given: 0, class: None });
    let refused = Tables::build(rows, [], Tested::default());
    assert!(matches!(refused, Err(TableError::Entries { given }) if given > ENTRIES), "{refused:?}");
}
