//! The layouts of the programs' maps, compared with the type information of the compiled object.

use super::programs::{CLOCKS, INFRASTRUCTURE, LANE_CLOCKS, LEAVES, OBJECT, leaf_bytes};
use weft_host::bpf::StructLayout;
use weft_policy::kernel::Handle;
use weft_units::LimitId;

fn offsets(name: &str, fields: &[&str]) -> (usize, Vec<Option<usize>>) {
    let layout = StructLayout::of(OBJECT, name).expect("type information");
    (layout.size, fields.iter().map(|field| layout.offset(field)).collect())
}

#[test]
fn the_maps_have_the_layouts_of_the_programs() {
    let words = |offsets: &[usize]| offsets.iter().copied().map(Some).collect::<Vec<_>>();
    assert_eq!(offsets("weft_leaf", &["priority", "class", "clocks", "clock"]), (16, words(&[0, 4, 6, 8])));
    let count = ["packets", "bytes", "late", "late_bytes"];
    assert_eq!(offsets("weft_class_count", &count), (32, words(&[0, 8, 16, 24])));
    let clock = ["next_ns", "nanos_per_kib", "burst_ns", "horizon_ns"];
    assert_eq!(offsets("weft_clock", &clock), (32, words(&[0, 8, 16, 24])));
    assert_eq!(offsets("weft_way", &["qdisc", "priority"]), (8, words(&[0, 4])));
}

#[test]
fn a_leaf_has_its_fields_where_the_program_reads_them() {
    let leaf = Handle { major: 0x7e57, minor: 0x12 };
    let bytes = leaf_bytes(leaf, 0x0304, &[LimitId(5), LimitId(6)]);
    assert_eq!(bytes[..4], 0x7e57_0012_u32.to_ne_bytes());
    let halves: Vec<u16> =
        bytes[4..].chunks_exact(2).map(|half| u16::from_ne_bytes([half[0], half[1]])).collect();
    assert_eq!(halves, [0x0304, 2, 5, 6, 0, 0]);
    assert_eq!((LEAVES, CLOCKS, LANE_CLOCKS, usize::from(INFRASTRUCTURE)), (8192, 8192, 4, LEAVES - 1));
}
