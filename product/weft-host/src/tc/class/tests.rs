//! Options of classes compared with those that iproute2 6.1 sends (recorded by `strace -e trace=sendmsg tc ...`), and read back.

use proptest::prelude::*;
use weft_units::{BitsPerSec, Bytes, Nanos};

use super::*;

const MBIT: u64 = 1_000_000;

#[track_caller]
fn check(class: Class, bytes: &[u8]) {
    let encoded = class.encode().expect("options");
    assert_eq!(encoded, bytes, "{class:?}");
    assert_eq!(Class::decode(class.kind(), &encoded), class);
}

#[test]
#[cfg(target_endian = "little")]
fn options_have_the_bytes_that_tc_sends() {
    // tc class add dev va parent 1:1 classid 1:5 drr quantum 3000
    check(Class::Drr { quantum: Some(Bytes(3000)) }, b"\x08\x00\x01\x00\xb8\x0b\x00\x00");
    // tc class add dev va parent 1:1 classid 1:6 hfsc ls m1 8mbit d 10ms m2 4mbit ul rate 80mbit
    let (first, until, then) = (BitsPerSec(8 * MBIT), Nanos::from_millis(10), BitsPerSec(4 * MBIT));
    let class = HfscClass {
        real_time: None,
        link_share: Some(ServiceCurve { first, until, then }),
        upper_limit: Some(ServiceCurve::constant(BitsPerSec(80 * MBIT))),
    };
    check(
        Class::Hfsc(class),
        b"\x10\x00\x02\x00\x40\x42\x0f\x00\x10\x27\x00\x00\x20\xa1\x07\x00\
          \x10\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x96\x98\x00",
    );
}

/// tc class add dev va parent 1: classid 1:1 htb rate 24mbit ceil 24mbit burst 70kb cburst 70kb quantum 60000 overhead 24,
/// with one entry of each rate table.
#[rustfmt::skip]
const HTB: &[u8] = b"\x30\x00\x01\x00\x03\x01\x18\x00\xff\xff\x00\x00\xc0\xc6\x2d\x00\x03\x01\x18\x00\xff\xff\x00\x00\xc0\xc6\x2d\x00\x50\xb2\x05\x00\x50\xb2\x05\x00\x60\xea\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x04\x00\x1f\x00\x00\x00\x08\x00\x03\x00\x1f\x00\x00\x00";

#[test]
#[cfg(target_endian = "little")]
fn htb_is_read_from_the_message_of_tc() {
    let rate = BitsPerSec(24 * MBIT);
    let class = HtbClass {
        rate,
        ceil: rate,
        burst: Bytes(70 * 1024),
        cburst: Bytes(70 * 1024),
        priority: 0,
        quantum: Some(Bytes(60_000)),
        overhead: 24,
        mpu: 0,
    };
    let Class::Htb(read) = Class::decode("htb", HTB) else { panic!("no class of HTB") };
    // tc rounds ticks down to whole microseconds.
    assert!((71_660..=71_680).contains(&read.burst.0), "{read:?}");
    assert_eq!(HtbClass { burst: class.burst, cburst: class.cburst, ..read }, class);
    let ours = class.encode().expect("options");
    assert_eq!(ours.len(), 48 + 12 + 12);
    // The structure is the same, but for what belongs to the rate tables and the roundings of the depths.
    assert_eq!((&ours[..4], &ours[12..16], &ours[36..48]), (&HTB[..4], &HTB[12..16], &HTB[36..48]));
    // ... htb rate 80gbit ceil 80gbit ...: the wide rates.
    let wide = HtbClass { rate: BitsPerSec(80_000 * MBIT), ceil: BitsPerSec(80_000 * MBIT), ..class };
    let ours = wide.encode().expect("options");
    assert_eq!(
        &ours[48..],
        b"\x0c\x00\x06\x00\x00\xe4\x0b\x54\x02\x00\x00\x00\x0c\x00\x07\x00\x00\xe4\x0b\x54\x02\x00\x00\x00"
    );
    assert_eq!(ours[12..16], [0xff; 4]);
}

#[test]
fn a_change_has_only_the_curves_that_are_given() {
    let change =
        HfscClass { upper_limit: Some(ServiceCurve::constant(BitsPerSec(8))), ..HfscClass::default() };
    let options = change.encode().expect("options");
    assert_eq!((options.len(), options[2]), (16, 3));
}

#[test]
fn values_beyond_the_fields_of_the_kernel_are_refused() {
    let text = |class: Class| class.encode().expect_err("refused").to_string();
    let rate = BitsPerSec(8000);
    let class = HtbClass {
        rate,
        ceil: rate,
        burst: Bytes(1600),
        cburst: Bytes(1600),
        priority: 0,
        quantum: None,
        overhead: 0,
        mpu: 0,
    };
    assert!(class.encode().is_ok());
    for wrong in [HtbClass { rate: BitsPerSec(7), ..class }, HtbClass { ceil: BitsPerSec(7999), ..class }] {
        assert_eq!(
            text(Class::Htb(wrong)),
            "htb class: it needs a rate of at least 8 b/s, and a ceil that is not below it"
        );
    }
    assert!(text(Class::Htb(HtbClass { priority: 8, ..class })).contains("0 to 7"));
    assert!(text(Class::Htb(HtbClass { quantum: Some(Bytes(0)), ..class })).contains("quantum"));
    let fast = HfscClass {
        link_share: Some(ServiceCurve::constant(BitsPerSec(40_000 * MBIT))),
        ..HfscClass::default()
    };
    assert_eq!(
        text(Class::Hfsc(fast)),
        "hfsc class: the second slope must be at most 34.3 Gb/s, not 40 Gb/s"
    );
    assert_eq!(text(Class::Hfsc(HfscClass::default())), "hfsc class: it needs a curve");
}

fn curve() -> impl Strategy<Value = Option<ServiceCurve>> {
    let rate = || any::<u32>().prop_map(|bytes| BitsPerSec(8 * u64::from(bytes)));
    let time = any::<u32>().prop_map(|micros| Nanos::from_micros(micros.into()));
    prop::option::of((rate(), time, rate()).prop_map(|(first, until, then)| ServiceCurve {
        first,
        until,
        then,
    }))
}

fn any_htb() -> impl Strategy<Value = HtbClass> {
    let rate = 1000_u64..1 << 37;
    let depth = || 0_u64..1_000_000;
    let more = (0_u8..8, prop::option::of(1..u32::MAX), any::<u16>(), any::<u16>());
    (rate, 0_u64..1 << 37, depth(), depth(), more).prop_map(|(rate, more, burst, cburst, rest)| HtbClass {
        rate: BitsPerSec(8 * rate),
        ceil: BitsPerSec(8 * (rate + more)),
        burst: Bytes(burst),
        cburst: Bytes(cburst),
        priority: rest.0,
        quantum: rest.1.map(|quantum| Bytes(quantum.into())),
        overhead: rest.2,
        mpu: rest.3,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn classes_of_htb_are_read_back(class in any_htb()) {
        let options = class.encode().expect("options");
        let read = HtbClass::decode(&options).expect("a class");
        prop_assert_eq!(HtbClass { burst: class.burst, cburst: class.cburst, ..read }, class);
        // The depths within a tick of 64 ns.
        for (rate, set, read) in [(class.rate, class.burst, read.burst), (class.ceil, class.cburst, read.cburst)] {
            prop_assert!(read <= set && set.0 - read.0 <= rate.0 / 125_000_000, "{} {} {}", rate, set, read);
        }
        prop_assert_eq!(read.encode().expect("options"), options, "a class that was read makes the same message");
    }

    #[test]
    fn classes_of_hfsc_and_drr_are_read_back(curves in prop::array::uniform3(curve()), quantum in prop::option::of(1..u32::MAX)) {
        let [real_time, link_share, upper_limit] = curves;
        let hfsc = HfscClass { real_time, link_share, upper_limit };
        let drr = Class::Drr { quantum: quantum.map(|bytes| Bytes(bytes.into())) };
        for class in [drr, Class::Hfsc(hfsc)].into_iter().take(if curves == [None; 3] { 1 } else { 2 }) {
            let options = class.encode().expect("options");
            prop_assert_eq!(Class::decode(class.kind(), &options), class);
        }
    }

    #[test]
    fn any_options_are_read_without_a_panic(
        kind in prop::sample::select(vec!["htb", "drr", "hfsc"]),
        attributes in prop::collection::vec((0_u16..10, prop::collection::vec(any::<u8>(), 0..48)), 0..6),
        rest in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        let options = attributes.iter().fold(crate::netlink::Attributes::default(), |all, (kind, value)| all.with(*kind, value));
        let class = Class::decode(kind, &[options.bytes(), rest].concat());
        prop_assert_eq!(class.kind(), kind);
        let _ = class.encode();
    }
}
