//! Comparison of the shared structures, field by field, with those of the compiled programs.

use crate::layout::{Config, Flow, FlowTable, Totals, pool_bytes};
use crate::match_table::{RULE_BYTES, encode};
use crate::page::{Queue, QueuePage};
use crate::programs::OBJECT;
use core::mem::offset_of;
use weft_host::bpf::StructLayout;
use weft_packet::{Match, PortRange, Prefix};
use weft_units::{Protocol, TxQueueId};

fn of(name: &str) -> StructLayout {
    StructLayout::of(OBJECT, name).expect("the object has its types")
}

/// Checks each named field of C except padding against its offset here.
#[track_caller]
fn same(name: &str, size: usize, fields: &[(&str, usize)]) {
    let layout = of(name);
    assert_eq!(layout.size, size, "{name}");
    for (field, offset) in fields {
        assert_eq!(layout.offset(field), Some(*offset), "{name}.{field}");
    }
    let named = layout.offsets.keys().filter(|field| !field.starts_with("pad")).count();
    assert_eq!(named, fields.len(), "{name} has fields that nobody compares");
}

#[test]
fn shared_pages_are_the_programs_field_by_field() {
    let flow = [
        ("socket", offset_of!(Flow, socket)),
        ("state", offset_of!(Flow, state)),
        ("bytes", offset_of!(Flow, bytes)),
        ("bytes_out", offset_of!(Flow, bytes_out)),
        ("weighed", offset_of!(Flow, weighed)),
        ("idle_since", offset_of!(Flow, idle_since)),
        ("swept", offset_of!(Flow, swept)),
        ("claim", offset_of!(Flow, claim)),
        ("hash", offset_of!(Flow, hash)),
        // Both ports are in one word here.
        ("local_port", offset_of!(Flow, ports)),
        ("remote_port", offset_of!(Flow, ports) + 2),
    ];
    same("weft_titan_flow", size_of::<Flow>(), &flow);
    same("weft_titan_flows", size_of::<FlowTable>(), &[("flow", offset_of!(FlowTable, flows))]);
    let totals = [
        ("kept", offset_of!(Totals, kept)),
        ("beyond", offset_of!(Totals, beyond)),
        ("without_socket", offset_of!(Totals, without_socket)),
        ("passed", offset_of!(Totals, passed)),
        ("repaired", offset_of!(Totals, repaired)),
        ("swept", offset_of!(Totals, swept)),
        ("retries", offset_of!(Totals, retries)),
        ("given_up", offset_of!(Totals, given_up)),
    ];
    same("weft_titan_totals", size_of::<Totals>(), &totals);
    let queue = [
        ("packets", offset_of!(Queue, packets)),
        ("bytes", offset_of!(Queue, bytes)),
        ("moves", offset_of!(Queue, moves)),
        ("activations", offset_of!(Queue, activations)),
        ("left_packets", offset_of!(Queue, left_packets)),
        ("left_bytes", offset_of!(Queue, left_bytes)),
        ("unseen_packets", offset_of!(Queue, unseen_packets)),
        ("unseen_bytes", offset_of!(Queue, unseen_bytes)),
    ];
    same("weft_queue", size_of::<Queue>(), &queue);
    let page = [
        ("use_weights", offset_of!(QueuePage, use_weights)),
        ("segment_bytes", offset_of!(QueuePage, segment_bytes)),
        ("update_interval_ns", offset_of!(QueuePage, update_interval_ns)),
        ("nic_queues", offset_of!(QueuePage, nic_queues)),
        ("segment_all", offset_of!(QueuePage, segment_all)),
        ("sweep_off", offset_of!(QueuePage, sweep_off)),
        ("fetching", offset_of!(QueuePage, fetching)),
        ("holding", offset_of!(QueuePage, holding)),
        ("held", offset_of!(QueuePage, held)),
        ("load", offset_of!(QueuePage, loads)),
        ("changed_ns", offset_of!(QueuePage, changed_ns)),
        ("queues", offset_of!(QueuePage, queues)),
    ];
    same("weft_queues", size_of::<QueuePage>(), &page);
}

/// The bytes of a field.
fn part<'a>(bytes: &'a [u8], layout: &StructLayout, field: &str, size: usize) -> &'a [u8] {
    let at = layout.offset(field).unwrap_or_else(|| panic!("no field {field}"));
    &bytes[at..at + size]
}

#[test]
fn the_settings_are_the_programs_field_by_field() {
    let config = Config {
        queues: 10,
        least_occupied: true,
        pooled: false,
        rules: 11,
        cgroups: 12,
        most_flows: 13,
        with_action: true,
        device_holds: false,
        default_weight: 14,
    };
    let (bytes, layout) = (config.to_bytes(), of("weft_titan_config"));
    assert_eq!(bytes.len(), layout.size);
    let expected = [
        ("queues", 10_u32),
        ("assignment", 1),
        ("pooled", 0),
        ("rules", 11),
        ("cgroups", 12),
        ("most_flows", 13),
        ("with_action", 1),
        ("device_holds", 0),
        ("default_weight", 14),
    ];
    assert_eq!(expected.len(), layout.offsets.len());
    for (field, value) in expected {
        assert_eq!(part(&bytes, &layout, field, 4), value.to_ne_bytes(), "{field}");
    }
    let (bytes, pool) = (pool_bytes(&[TxQueueId(3), TxQueueId(4)]), of("weft_titan_pool"));
    assert_eq!(bytes.len(), pool.size);
    assert_eq!(part(&bytes, &pool, "queues", 4), 2_u32.to_ne_bytes());
    assert_eq!(part(&bytes, &pool, "queue", 2), [3, 4]);
}

#[test]
fn a_row_is_the_programs_field_by_field() {
    let prefix = |text: &str| text.parse::<Prefix>().expect("a prefix");
    let matcher = Match {
        protocol: Some(Protocol(6)),
        src: Some(prefix("2001:db8::/32")),
        dst: Some(prefix("192.0.2.0/24")),
        sport: Some(PortRange { first: 1, last: 2 }),
        dport: Some(PortRange { first: 3, last: 4 }),
        mark: Some((5, 6)),
        priority: Some(7),
        cgroup: Some(8),
    };
    let (bytes, layout) = (encode(&matcher, 9), of("weft_rule"));
    assert_eq!((bytes.len(), RULE_BYTES), (layout.size, layout.size));
    let field = |name: &str, size| part(&bytes, &layout, name, size);
    assert_eq!(field("tests", 1), [127], "all of WEFT_TEST_*");
    assert_eq!((field("protocol", 1), field("cgroup", 1)), (&[6][..], &[8][..]));
    assert_eq!(field("lane", 2), 9_u16.to_ne_bytes());
    assert_eq!(field("src", 4), [0x20, 0x01, 0x0d, 0xb8]);
    assert_eq!(field("src_mask", 5), [255, 255, 255, 255, 0]);
    assert_eq!(field("dst", 16)[10..], [255, 255, 192, 0, 2, 0]);
    assert_eq!(field("dst_mask", 16)[12..], [255, 255, 255, 0]);
    for (name, value) in [("sport_first", 1_u16), ("sport_last", 2), ("dport_first", 3), ("dport_last", 4)] {
        assert_eq!(field(name, 2), value.to_ne_bytes(), "{name}");
    }
    for (name, value) in [("mark", 5_u32), ("mark_mask", 6), ("priority", 7)] {
        assert_eq!(field(name, 4), value.to_ne_bytes(), "{name}");
    }
    let named = layout.offsets.keys().filter(|name| !name.starts_with("pad")).count();
    assert_eq!(named, 15, "the row has fields that nobody compares");
    let (bytes, cgroup) = (crate::match_table::cgroup_bytes(8, 9), of("weft_cgroup"));
    assert_eq!(bytes.len(), cgroup.size);
    assert_eq!(part(&bytes, &cgroup, "id", 8), 8_u64.to_ne_bytes());
    assert_eq!(part(&bytes, &cgroup, "level", 4), 9_u32.to_ne_bytes());
}
