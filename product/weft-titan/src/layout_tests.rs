//! Comparison of the shared structures, field by field, with those of the compiled programs.

use crate::layout::{DeviceTotals, ProgramConfig, TitanFlow, TitanFlowTable, pool_bytes};
use crate::page::{Queue, QueuePage};
use crate::programs::OBJECT;
use core::mem::offset_of;
use weft_host::bpf::StructLayout;
use weft_packet::{Attribute, AttributeTests, Match, PortRange, Prefix};
use weft_units::{ProcessName, Protocol, TxQueueId};

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
        ("socket", offset_of!(TitanFlow, socket)),
        ("state", offset_of!(TitanFlow, state)),
        ("bytes", offset_of!(TitanFlow, bytes)),
        ("bytes_out", offset_of!(TitanFlow, bytes_out)),
        ("weighed", offset_of!(TitanFlow, weighed)),
        ("idle_since", offset_of!(TitanFlow, idle_since)),
        ("swept", offset_of!(TitanFlow, swept)),
        ("claim", offset_of!(TitanFlow, claim)),
        ("hash", offset_of!(TitanFlow, hash)),
        // Both ports are in one word here.
        ("local_port", offset_of!(TitanFlow, ports)),
        ("remote_port", offset_of!(TitanFlow, ports) + 2),
    ];
    same("weft_titan_flow", size_of::<TitanFlow>(), &flow);
    same("weft_titan_flows", size_of::<TitanFlowTable>(), &[("flow", offset_of!(TitanFlowTable, flows))]);
    let totals = [
        ("kept", offset_of!(DeviceTotals, kept)),
        ("beyond", offset_of!(DeviceTotals, beyond)),
        ("without_socket", offset_of!(DeviceTotals, without_socket)),
        ("passed", offset_of!(DeviceTotals, passed)),
        ("repaired", offset_of!(DeviceTotals, repaired)),
        ("swept", offset_of!(DeviceTotals, swept)),
        ("retries", offset_of!(DeviceTotals, retries)),
        ("given_up", offset_of!(DeviceTotals, given_up)),
    ];
    same("weft_titan_totals", size_of::<DeviceTotals>(), &totals);
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
    let config = ProgramConfig {
        queues: 10,
        least_occupied: true,
        pooled: false,
        rules: 11,
        most_flows: 13,
        with_action: true,
        device_holds: false,
        default_weight: 14,
        net_cls: true,
    };
    let (bytes, layout) = (config.to_bytes(), of("weft_titan_config"));
    assert_eq!(bytes.len(), layout.size);
    let expected = [
        ("queues", 10_u32),
        ("assignment", 1),
        ("pooled", 0),
        ("rules", 11),
        ("most_flows", 13),
        ("with_action", 1),
        ("device_holds", 0),
        ("default_weight", 14),
        ("net_cls", 1),
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
fn the_match_tables_are_the_programs_field_by_field() {
    use crate::match_table::{Bank, CgroupWord, GroupLine, TablePage, TestedWord};
    let page = [("current", offset_of!(TablePage, current)), ("bank", offset_of!(TablePage, bank))];
    same("weft_tables", size_of::<TablePage>(), &page);
    let bank = [
        ("groups", offset_of!(Bank, groups)),
        ("destinations", offset_of!(Bank, destinations)),
        ("cgroups", offset_of!(Bank, cgroups)),
        ("rekeyed_ns", offset_of!(Bank, rekeyed)),
        ("tested", offset_of!(Bank, tested)),
        ("keyed", offset_of!(Bank, keyed)),
        ("cgroup", offset_of!(Bank, cgroup)),
        ("group", offset_of!(Bank, group)),
    ];
    same("weft_bank", size_of::<Bank>(), &bank);
    let tested = [
        ("flags", offset_of!(TestedWord, flags)),
        ("frame", offset_of!(TestedWord, frame)),
        ("mark", offset_of!(TestedWord, mark)),
        ("priority", offset_of!(TestedWord, priority)),
    ];
    same("weft_tested", size_of::<TestedWord>(), &tested);
    let group = [
        ("mask", offset_of!(GroupLine, mask)),
        ("first", offset_of!(GroupLine, first)),
        ("by", offset_of!(GroupLine, by)),
    ];
    same("weft_group", size_of::<GroupLine>(), &group);
    let cgroup = [("id", offset_of!(CgroupWord, id)), ("level", offset_of!(CgroupWord, level))];
    same("weft_cgroup", size_of::<CgroupWord>(), &cgroup);
}

#[test]
fn an_entry_is_the_programs_field_by_field() {
    let prefix = |text: &str| text.parse::<Prefix>().expect("a prefix");
    let matcher = Match {
        protocol: Some(Protocol(6)),
        src: Some(prefix("2001:db8::/32")),
        dst: Some(prefix("2001:db8:1::/48")),
        sport: Some(PortRange::single(1)),
        dport: Some(PortRange::single(3)),
        mark: Some((4, 6)),
        priority: Some(7),
        cgroup: Some(8),
        port: Some(11),
        attributes: [
            (Attribute::Vlan, 0x123),
            (Attribute::Pcp, 5),
            (Attribute::Dscp, 46),
            (Attribute::Ecn, 1),
            (Attribute::User, 1000),
            (Attribute::ClassId, 0x10_0001),
            (Attribute::Cookie, 0x5_0000_0006),
            (Attribute::Process, ProcessName::new(b"fifteen letters").expect("a name").number()),
        ]
        .into_iter()
        .fold(AttributeTests::NONE, |all, (attribute, value)| all.with(attribute, value)),
    };
    let (masks, key, value) = crate::match_table::only_entry(&matcher, 9, Some(10));
    let layout = of("weft_fields");
    assert_eq!((key.len(), masks.len() + 4), (layout.size, layout.size));
    let field = |name: &str, size| part(&key, &layout, name, size);
    let mask = |name: &str, size| part(&masks, &layout, name, size);
    assert_eq!(
        (field("src", 5), mask("src", 5)),
        (&[0x20, 1, 0xd, 0xb8, 0][..], &[255, 255, 255, 255, 0][..])
    );
    assert_eq!(
        (field("dst", 7), mask("dst", 7)),
        (&[0x20, 1, 0xd, 0xb8, 0, 1, 0][..], &[255, 255, 255, 255, 255, 255, 0][..])
    );
    for (name, value) in [("sport", 1_u16), ("dport", 3), ("port", 11)] {
        assert_eq!((field(name, 2), mask(name, 2)), (&value.to_ne_bytes()[..], &[255; 2][..]), "{name}");
    }
    // The drop eligibility of the tag, bit 12 of its control information, is not tested.
    let frame = (1 << 24 | 0xa123 << 8 | 46 << 2 | 1, 1 << 24 | 0xefff << 8 | 0xff);
    for (name, value, under) in [
        ("mark", 4_u32, 6_u32),
        ("priority", 7, u32::MAX),
        ("frame", frame.0, frame.1),
        ("user", 1000, u32::MAX),
        ("classid", 0x10_0001, u32::MAX),
        ("cookie", 6, u32::MAX),
    ] {
        assert_eq!(
            (field(name, 4), mask(name, 4)),
            (&value.to_ne_bytes()[..], &under.to_ne_bytes()[..]),
            "{name}"
        );
    }
    for (name, value) in [("protocol", 6), ("family", 6)] {
        assert_eq!((field(name, 1), mask(name, 1)), (&[value][..], &[255][..]), "{name}");
    }
    assert_eq!((field("group", 2), field("member", 2)), (&0_u16.to_ne_bytes()[..], &8_u16.to_ne_bytes()[..]));
    let upper = layout.offset("cookie").expect("the cookie") + 4;
    assert_eq!(key[upper..upper + 4], 5_u32.to_ne_bytes());
    // The first process that rows test.
    assert_eq!((field("process", 4), mask("process", 4)), (&1_u32.to_ne_bytes()[..], &[255; 4][..]));
    let named = crate::match_table::key_of_process(u128::from_be_bytes(*b"fifteen letters\0"));
    assert_eq!(part(&named, &layout, "src", 16), b"fifteen letters\0");
    assert_eq!(part(&named, &layout, "group", 2), [255; 2]);
    assert_eq!(layout.offsets.len(), 16, "the fields have some that nobody compares");
    let layout = of("weft_entry");
    assert_eq!((value.len(), layout.offsets.len()), (layout.size, 3));
    assert_eq!(part(&value, &layout, "row", 4), 0_u32.to_ne_bytes());
    assert_eq!(part(&value, &layout, "given", 2), 9_u16.to_ne_bytes());
    assert_eq!(part(&value, &layout, "class", 2), 10_u16.to_ne_bytes());
}
