//! Comparison of the shared structures, field by field, with those of the compiled programs.

use super::OBJECT;
use super::guard::Guard;
use crate::layout::{
    ClassBell, LaneEntry, LaneFlows, Reads, Record, RecordKind, RingBell, RingFlows, RingSocket, Shared,
    Spread, Summary,
};
use core::mem::offset_of;
use weft_host::bpf::StructLayout;
use weft_titan::page::{Queue, QueuePage};
use weft_units::Protocol;

fn of(name: &str) -> StructLayout {
    StructLayout::of(OBJECT, name).expect("the object has its types")
}

/// `same!(Rust, "C": field, field = "its name in C", ...)`. Every named field of C except padding must be listed.
macro_rules! same {
    ($rust:ident, $c:literal: $($field:ident $(= $name:literal)?),* $(,)?) => {{
        let layout = of($c);
        assert_eq!(layout.size, size_of::<$rust>(), $c);
        let mut seen = Vec::new();
        $(
            let name = [$($name,)? stringify!($field)][0];
            assert_eq!(layout.offset(name), Some(offset_of!($rust, $field)), "{}.{name}", $c);
            seen.push(name);
        )*
        let all = layout.offsets.keys().map(String::as_str).filter(|name| !name.starts_with("pad"));
        let missing: Vec<_> = all.filter(|name| !seen.contains(name)).collect();
        assert!(missing.is_empty(), "{} has fields that nobody compares: {missing:?}", $c);
    }};
}

#[test]
fn the_shared_page_is_the_programs_field_by_field() {
    same!(RingBell, "weft_ring_doorbell": packets, taken, done, last_or_left, passed = "passed_ns",
        drained, drained_done, asked = "asked_ns");
    same!(Shared, "weft_doorbells": ready, urgent, records, records_lost, rings, classes, lanes, awaited, sockets, ring_flows);
    same!(RingSocket, "weft_ring_socket": priority, pace);
    same!(RingFlows, "weft_ring_flows": held = "held_ns", flows);
    same!(Summary, "weft_summary": ready_ports, sleeping, wakeups, heartbeat = "heartbeat_ns", pass_to);
    same!(LaneFlows, "weft_lane_flows": flows, next, untracked = "untracked_ns");
    // Refusals are separate fields of packets and bytes in C, and pairs here.
    let class = of("weft_class_doorbell");
    assert_eq!(class.size, size_of::<ClassBell>());
    for (name, offset) in [
        ("packets", offset_of!(ClassBell, packets)),
        ("bytes", offset_of!(ClassBell, bytes)),
        ("done", offset_of!(ClassBell, done)),
        ("done_bytes", offset_of!(ClassBell, done_bytes)),
        ("untracked", offset_of!(ClassBell, untracked)),
        ("bound_packets", offset_of!(ClassBell, bound)),
        ("bound_bytes", offset_of!(ClassBell, bound) + 8),
        ("full_packets", offset_of!(ClassBell, full)),
        ("full_bytes", offset_of!(ClassBell, full) + 8),
        ("moving_packets", offset_of!(ClassBell, moving)),
        ("moving_bytes", offset_of!(ClassBell, moving) + 8),
        ("late_claims", offset_of!(ClassBell, late_claims)),
    ] {
        assert_eq!(class.offset(name), Some(offset), "weft_class_doorbell.{name}");
    }
    Guard::same_as(&of("weft_guard"));
    // The page of queues belongs to weft-titan; the same header is compiled into another object.
    same!(Queue, "weft_queue": packets, bytes, moves, activations, left_packets, left_bytes, unseen_packets, unseen_bytes);
    same!(QueuePage, "weft_queues": use_weights, segment_bytes, update_interval_ns, nic_queues, segment_all, sweep_off,
        fetching, holding, held, loads = "load", changed_ns, queues);
}

/// Reads a number of `bytes.len()` bytes in this host's byte order.
fn number(bytes: &[u8], layout: &StructLayout, field: &str, size: usize) -> u64 {
    let at = layout.offset(field).unwrap_or_else(|| panic!("no field {field}"));
    let part = &bytes[at..at + size];
    match *part {
        [a] => a.into(),
        [a, b] => u16::from_ne_bytes([a, b]).into(),
        [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
        _ => u64::from_ne_bytes(part.try_into().expect("eight bytes")),
    }
}

/// A class and infrastructure: two rings.
fn small_plan() -> crate::plan::RingPlan {
    let source = weft_policy::Source { name: "test", text: "root = default" };
    let policy =
        weft_policy::compile(source, &weft_policy::CompileOptions::default()).policy.expect("a policy");
    crate::plan::RingPlan::new(&policy, crate::plan::Mode::Loom, 4, &[]).expect("a plan")
}

#[test]
fn elements_of_maps_are_the_programs_field_by_field() {
    let entry = LaneEntry {
        class: 1,
        first_ring: 2,
        rings: 3,
        spread: Spread::Queues,
        reads: Reads { time: true, left: true, deadline: true, priority: true, pace: true, hold: true },
        flow_bound: 4,
        qdisc_class: 5,
        packet_bound: 6,
        ring_bound: 7,
    };
    let (bytes, lane) = (entry.to_bytes(), of("weft_lane"));
    assert_eq!(bytes.len(), lane.size);
    let expected = [
        ("class", 2, 1),
        ("first_ring", 2, 2),
        ("rings", 2, 3),
        ("spread", 1, 2),
        ("reads", 1, 63),
        ("flow_bound", 4, 4),
        ("qdisc_class", 4, 5),
        ("packet_bound", 8, 6),
        ("ring_bound", 8, 7),
    ];
    assert_eq!(expected.len(), lane.offsets.len());
    for (field, size, value) in expected {
        assert_eq!(number(&bytes, &lane, field, size), value, "weft_lane.{field}");
    }
    let numbers = super::PortNumbers { place: 5, name: 3, worker: 0 };
    let fields = super::KernelFields { socket: [1234, 567], packet: [8, 9, 10, 11, 12] };
    let (bytes, config) = (super::config_bytes(&small_plan(), numbers, fields, true), of("weft_config"));
    assert_eq!((bytes.len(), config.offsets.len()), (config.size, 13));
    let net_cls = u64::from(weft_host::net_cls::has_net_cls());
    let words = [
        ("rings", 2),
        ("queues", 1),
        ("port", 3),
        ("place", 5),
        ("net_cls", net_cls),
        ("write_sequence", 1234),
        ("pacing_rate", 567),
        ("skb_head", 8),
        ("skb_end", 9),
        ("skb_frame", 10),
        ("skb_inner", 11),
        ("gso_type", 12),
        ("mptcp", 1),
    ];
    for (field, value) in words {
        assert_eq!(number(&bytes, &config, field, 4), value, "weft_config.{field}");
    }
    let expiry = of("weft_expiry");
    let offsets = ["now_ns", "idle_ns", "seen", "expired"].map(|field| expiry.offset(field));
    assert_eq!((expiry.size, offsets), (super::EXPIRY, super::EXPIRY_AT.map(Some)));
}

#[test]
fn a_record_is_read_where_the_program_writes_it() {
    let (record, key) = (of("weft_record"), of("weft_flow_key"));
    let at = |field: &str| record.offset(field).unwrap_or_else(|| panic!("no field {field}"));
    let in_key = |field: &str| at("key") + key.offset(field).unwrap_or_else(|| panic!("no field {field}"));
    let mut bytes = vec![0; record.size];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(in_key("src"), &[0xfd; 16]);
    put(in_key("dst"), &[0xfc; 16]);
    put(in_key("sport"), &1u16.to_ne_bytes());
    put(in_key("dport"), &2u16.to_ne_bytes());
    put(in_key("protocol"), &[17]);
    put(in_key("is_ip"), &[6]);
    put(at("lane"), &3u16.to_ne_bytes());
    put(at("ring"), &4u16.to_ne_bytes());
    put(at("class"), &5u16.to_ne_bytes());
    put(at("kind"), &1u16.to_ne_bytes());
    let read = Record::parse(&bytes).expect("a record");
    let flow = read.key.expect("a flow");
    assert_eq!((read.kind, read.lane, read.ring, read.class), (RecordKind::Changed, 3, 4, 5));
    assert_eq!((flow.sport, flow.dport, flow.protocol), (1, 2, Protocol(17)));
    assert_eq!(flow.src, core::net::IpAddr::from([0xfd; 16]));
    assert_eq!(flow.dst, core::net::IpAddr::from([0xfc; 16]));
}
