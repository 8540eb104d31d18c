//! The binary form of filters compared with hand-written bytes, and priorities compared with a slow search.

use std::os::fd::AsFd;

use proptest::prelude::*;

use super::*;
use crate::tc::message::Entry;

fn filter(chain: u32, priority: u16, handle: u32) -> FilterFound {
    let kind = BPF.to_owned();
    FilterFound { kind, priority, protocol: ETH_P_ALL, handle, chain, class: None, program: None }
}

/// A filter of the program that is the null device.
fn bpf<'a>(program: BorrowedFd<'a>, name: &'a str, direct_action: bool) -> Filter<'a> {
    let rule = FilterRule::Bpf { program, name, direct_action };
    Filter::new(Handle::EGRESS, 7, 9, rule)
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
        let read = |bytes: &[u8]| FilterFound::of(Entry::parse(bytes));
        let _ = read(&bytes);
        let with_kind = [&[0; 8], &1_u32.to_ne_bytes()[..], &[0; 8], b"\x08\x00\x01\x00bpf\0", &bytes].concat();
        prop_assert!(read(&with_kind).handle == 1);
    }
}

#[test]
fn the_heads_of_priorities_go_where_filters_are() {
    let dump = vec![filter(0, 5, 0), filter(0, 5, 1), filter(0, 5, 2), filter(0, 3, 0), filter(1, 5, 0)];
    let left: Vec<_> = in_order(dump).iter().map(|f| (f.chain, f.priority, f.handle)).collect();
    assert_eq!(left, [(0, 3, 0), (0, 5, 1), (0, 5, 2), (1, 5, 0)]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let file = std::fs::File::open("/dev/null").expect("null");
    let program = file.as_fd();
    assert!(bpf(program, "w", true).encode().is_ok());
    let why = |filter: Filter<'_>| filter.encode().expect_err("refused").to_string();
    let by_hash = |queues| Some(FilterAction::QueueByHash(queues));
    assert_eq!(
        why(Filter { action: by_hash(0..=3), ..bpf(program, "w", true) }),
        "filter: `w`: a filter of direct action runs no actions"
    );
    #[expect(clippy::reversed_empty_ranges, reason = "the range is refused")]
    let empty = Filter { action: by_hash(3..=2), ..bpf(program, "w", false) };
    let all = Filter { action: by_hash(0..=u16::MAX), ..bpf(program, "w", false) };
    assert_eq!(why(all), "filter: the range of queues has more than 65535 queues");
    assert_eq!(why(empty), "filter: the range of queues is empty");
    assert!(why(bpf(program, "", true)).contains("1 to 255 bytes"));
    let u32_of = |keys| Filter { rule: FilterRule::U32(keys), ..bpf(program, "w", true) };
    let key = U32Key { offset: 3, mask: 1, value: 1 };
    assert!(why(u32_of(vec![])).contains("1 to 255 keys"));
    assert!(why(u32_of(vec![key])).contains("multiple of 4"));
}

/// The name in the TCA_OPTIONS that `tc filter add ... bpf object-file t.o section tc` of iproute2 6.1 sends, after the descriptor.
const NAME: &[u8] = &[0x0d, 0, 0x07, 0, b't', b'.', b'o', b':', b'[', b't', b'c', b']', 0, 0, 0, 0];

fn fd_and_name(program: BorrowedFd<'_>) -> Vec<u8> {
    [&[0x08, 0, 0x06, 0][..], &program.as_raw_fd().to_ne_bytes(), NAME].concat()
}

/// The same with `direct-action`: the flag is last.
#[test]
#[cfg(target_endian = "little")]
fn a_filter_of_direct_action_has_the_bytes_that_tc_sends() {
    let file = std::fs::File::open("/dev/null").expect("null");
    let (program, name) = (file.as_fd(), "t.o:[tc]");
    let expected = [&fd_and_name(program)[..], &[0x08, 0, 0x08, 0, 1, 0, 0, 0]].concat();
    assert_eq!(bpf(program, name, true).encode().expect("options"), expected);
    assert_eq!(bpf(program, name, false).encode().expect("options"), fd_and_name(program));
    let with_class = Filter { class: Some(Handle::new(2, 1)), ..bpf(program, name, true) };
    let class = [&[0x08, 0, 0x03, 0, 1, 0, 2, 0], &expected[..]].concat();
    assert_eq!(with_class.encode().expect("options"), class);
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
    let file = std::fs::File::open("/dev/null").expect("null");
    let program = file.as_fd();
    let expected = [&action[..], &fd_and_name(program)].concat();
    let action = Some(FilterAction::QueueByHash(2..=5));
    assert_eq!(Filter { action, ..bpf(program, "t.o:[tc]", false) }.encode().expect("options"), expected);
}

#[test]
#[cfg(target_endian = "little")]
#[rustfmt::skip]
fn u32_and_matchall_have_the_bytes_that_tc_sends() {
    let file = std::fs::File::open("/dev/null").expect("null");
    let filter = |rule, class, action| Filter { rule, class, action, ..bpf(file.as_fd(), "w", true) };
    // u32 match ip sport 80 0xffff flowid 1:1
    let key = U32Key { offset: 20, mask: 0xffff_0000, value: 80 << 16 };
    let sport = filter(FilterRule::U32(vec![key]), Some(Handle::new(1, 1)), None);
    assert_eq!(sport.encode().expect("options"), b"\x08\x00\x01\x00\x01\x00\x01\x00\x24\x00\x05\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00\x00\x50\x00\x00\x14\x00\x00\x00\x00\x00\x00\x00");
    // u32 match ip dst 10.0.0.0/8 action mirred egress redirect dev vb, whose number is 2
    let mirred = b"\x34\x00\x01\x00\x0b\x00\x01\x00\x6d\x69\x72\x72\x65\x64\x00\x00\x24\x00\x02\x80\x20\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00";
    let key = U32Key { offset: 16, mask: 0xff00_0000, value: 0x0a00_0000 };
    let redirect = filter(FilterRule::U32(vec![key]), None, Some(FilterAction::RedirectEgress(2)));
    let selector = b"\x24\x00\x05\x00\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\x00\x00\x00\x0a\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00";
    assert_eq!(redirect.encode().expect("options"), [b"\x38\x00\x07\x00", &mirred[..], selector].concat());
    // matchall action mirred egress redirect dev vb; matchall classid 1:2
    let all = filter(FilterRule::Matchall, None, Some(FilterAction::RedirectEgress(2)));
    assert_eq!(all.encode().expect("options"), [b"\x38\x00\x02\x00", &mirred[..]].concat());
    let class = filter(FilterRule::Matchall, Some(Handle::new(1, 2)), None);
    assert_eq!(class.encode().expect("options"), b"\x08\x00\x01\x00\x02\x00\x01\x00");
}

#[test]
#[cfg(target_endian = "little")]
fn protocol_and_priority_stand_where_tc_puts_them() {
    let file = std::fs::File::open("/dev/null").expect("null");
    let info = bpf(file.as_fd(), "w", true).info();
    assert_eq!(info.to_ne_bytes(), [0, 3, 7, 0], "as `tc filter add pref 7 protocol all` sends them");
}
