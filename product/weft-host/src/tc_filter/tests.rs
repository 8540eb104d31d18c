//! The binary form of filters compared with hand-written bytes, and priorities compared with a slow search.

use proptest::prelude::*;

use super::*;

fn filter(chain: u32, priority: u16, handle: u32) -> Filter {
    Filter { kind: "bpf".to_string(), priority, protocol: ETH_P_ALL, handle, chain, program: None }
}

#[test]
fn the_first_priority_goes_before_all_others() {
    let free = |used: &[u16]| free_priority(&used.iter().map(|p| filter(0, *p, 1)).collect::<Vec<_>>());
    assert_eq!(free(&[]), Some(1));
    assert_eq!(free(&[49152]), Some(49151));
    assert_eq!(free(&[10, 2, 30]), Some(1));
    assert_eq!(free(&[1]), Some(2));
    assert_eq!(free(&[1, 2, 4]), Some(3));
    assert_eq!(free(&(1..=u16::MAX).collect::<Vec<_>>()), None);
    assert_eq!(free_priority(&[filter(7, 1, 1)]), Some(1), "other chains have priorities of their own");
}

proptest! {
    #[test]
    fn a_free_priority_is_free_and_first_where_one_can_be(used in prop::collection::vec(1_u16..40, 0..60)) {
        let filters: Vec<_> = used.iter().map(|p| filter(0, *p, 1)).collect();
        let free = free_priority(&filters).expect("most are free");
        prop_assert!(free > 0 && !used.contains(&free));
        if used.contains(&1) {
            prop_assert!((1..free).all(|p| used.contains(&p)));
        } else {
            prop_assert!(used.iter().all(|p| free < *p));
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = message::parse(&bytes);
        let with_kind = [&[0; 8], &1_u32.to_ne_bytes()[..], &[0; 8], b"\x08\x00\x01\x00bpf\0", &bytes].concat();
        prop_assert!(message::parse(&with_kind).handle == 1);
    }
}

#[test]
fn the_heads_of_priorities_go_where_filters_are() {
    let dump = vec![filter(0, 5, 0), filter(0, 5, 1), filter(0, 5, 2), filter(0, 3, 0), filter(1, 5, 0)];
    let left: Vec<_> = without_heads(dump).iter().map(|f| (f.chain, f.priority, f.handle)).collect();
    assert_eq!(left, [(0, 3, 0), (0, 5, 1), (0, 5, 2), (1, 5, 0)]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    use std::os::fd::AsFd;
    let file = std::fs::File::open("/dev/null").expect("null");
    let good = BpfFilter {
        program: file.as_fd(),
        name: "w",
        priority: 1,
        handle: 1,
        direct_action: true,
        queue_by_hash: None,
    };
    assert!(check(&good).is_ok());
    let why = |filter: BpfFilter<'_>| check(&filter).expect_err("refused").to_string();
    assert_eq!(
        why(BpfFilter { queue_by_hash: Some(0..=3), ..good.clone() }),
        "eBPF filter: `w`: a filter of direct action runs no actions"
    );
    #[expect(clippy::reversed_empty_ranges, reason = "what is to be refused")]
    let empty = BpfFilter { queue_by_hash: Some(3..=2), direct_action: false, ..good.clone() };
    let all = BpfFilter { queue_by_hash: Some(0..=u16::MAX), direct_action: false, ..good.clone() };
    assert_eq!(why(all), "eBPF filter: `w`: the range of queues has more than 65535 queues");
    assert_eq!(why(empty), "eBPF filter: `w`: the range of queues is empty");
    assert!(why(BpfFilter { handle: 0, ..good.clone() }).contains("must not be zero"));
    assert!(why(BpfFilter { name: "", ..good }).contains("1 to 255 bytes"));
}

/// The TCA_OPTIONS that `tc filter add ... bpf object-file t.o section tc` of iproute2 6.1 sends: the descriptor 6, the name.
#[rustfmt::skip]
const FD_AND_NAME: &[u8] = &[
    0x08, 0, 0x06, 0, 6, 0, 0, 0,
    0x0d, 0, 0x07, 0, b't', b'.', b'o', b':', b'[', b't', b'c', b']', 0, 0, 0, 0,
];

/// The same with `direct-action`: the flag is last.
#[test]
#[cfg(target_endian = "little")]
fn a_filter_of_direct_action_has_the_bytes_that_tc_sends() {
    let expected = [FD_AND_NAME, &[0x08, 0, 0x08, 0, 1, 0, 0, 0]].concat();
    assert_eq!(message::bpf_options(6, "t.o:[tc]", true, None), expected);
    assert_eq!(message::bpf_options(6, "t.o:[tc]", false, None), FD_AND_NAME);
}

/// The action of `action skbedit queue_mapping 2 continue` as iproute2 6.1 sends it, plus the two attributes that later
/// versions send for `skbedit queue_mapping 2 5 skbhash`, with lengths adjusted.
#[test]
#[cfg(target_endian = "little")]
fn the_choice_of_a_queue_by_hash_has_the_bytes_of_the_headers() {
    #[rustfmt::skip]
    let action = [
        0x4c, 0, 0x01, 0, // TCA_BPF_ACT
        0x48, 0, 0x01, 0, // the first action
        0x0c, 0, 0x01, 0, b's', b'k', b'b', b'e', b'd', b'i', b't', 0, // TCA_ACT_KIND
        0x38, 0, 0x02, 0x80, // TCA_ACT_OPTIONS, nested
        0x18, 0, 0x02, 0, // TCA_SKBEDIT_PARMS: index, capab, action -1, refcnt, bindcnt
        0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0,
        0x06, 0, 0x04, 0, 2, 0, 0, 0, // TCA_SKBEDIT_QUEUE_MAPPING
        0x06, 0, 0x0a, 0, 5, 0, 0, 0, // TCA_SKBEDIT_QUEUE_MAPPING_MAX
        0x0c, 0, 0x09, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, // TCA_SKBEDIT_FLAGS: SKBEDIT_F_TXQ_SKBHASH
    ];
    let expected = [&action[..], FD_AND_NAME].concat();
    assert_eq!(message::bpf_options(6, "t.o:[tc]", false, Some(&(2..=5))), expected);
}

#[test]
#[cfg(target_endian = "little")]
fn protocol_priority_and_parent_stand_where_tc_puts_them() {
    let place = egress_place(3, 7, 9);
    assert_eq!(place.info.to_ne_bytes(), [0, 3, 7, 0], "as `tc filter add pref 7 protocol all` sends them");
    assert_eq!(place.parent.to_ne_bytes(), [0xf3, 0xff, 0xff, 0xff]);
}
