//! Options compared with those that iproute2 6.1 sends (recorded by `strace -e trace=sendmsg tc ...`), and read back.

use proptest::prelude::*;
use weft_units::{BitsPerSec, Bytes, Nanos, Packets};

use super::*;

const MBIT: u64 = 1_000_000;

/// Checks the bytes of a qdisc, and that they are read as the same qdisc.
#[track_caller]
fn check(qdisc: Qdisc, bytes: &[u8]) {
    let encoded = qdisc.encode().expect("options");
    assert_eq!(encoded, bytes, "{qdisc:?}");
    assert_eq!(Qdisc::decode(qdisc.kind(), &encoded), qdisc);
}

#[test]
#[cfg(target_endian = "little")]
#[rustfmt::skip]
fn options_have_the_bytes_that_tc_sends() {
    // tc qdisc add dev va root handle 1: htb default 14 direct_qlen 77
    let htb = Htb { direct_queue: Some(Packets(77)), ..Htb::with_default(0x14) };
    check(Qdisc::Htb(htb), b"\x18\x00\x02\x00\x03\x00\x00\x00\x0a\x00\x00\x00\x14\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x05\x00\x4d\x00\x00\x00");
    // ... hfsc default 20
    check(Qdisc::Hfsc { default_class: 0x20 }, b"\x20\x00");
    // ... drr
    check(Qdisc::Drr, b"");
    // ... pfifo limit 7, bfifo limit 4096
    check(Qdisc::Pfifo { limit: Some(Packets(7)) }, b"\x07\x00\x00\x00");
    check(Qdisc::Bfifo { limit: Some(Bytes(4096)) }, b"\x00\x10\x00\x00");
    // ... fq_codel limit 1000 flows 256 target 4ms interval 80ms quantum 1514 ecn memory_limit 4mb ce_threshold 1ms drop_batch 32
    let fq_codel = FqCodel {
        limit: Some(Packets(1000)),
        flows: Some(256),
        target: Some(Nanos::from_millis(4)),
        interval: Some(Nanos::from_millis(80)),
        quantum: Some(Bytes(1514)),
        ecn: Some(true),
        memory_limit: Some(Bytes(4 << 20)),
        ce_threshold: Some(Nanos::from_millis(1)),
        drop_batch: Some(Packets(32)),
    };
    check(Qdisc::FqCodel(fq_codel), b"\x08\x00\x02\x00\xe8\x03\x00\x00\x08\x00\x05\x00\x00\x01\x00\x00\x08\x00\x06\x00\xea\x05\x00\x00\x08\x00\x03\x00\x80\x38\x01\x00\x08\x00\x01\x00\xa0\x0f\x00\x00\x08\x00\x04\x00\x01\x00\x00\x00\x08\x00\x07\x00\xe8\x03\x00\x00\x08\x00\x09\x00\x00\x00\x40\x00\x08\x00\x08\x00\x20\x00\x00\x00");
    // ... fq limit 5000 flow_limit 50 quantum 3028 initial_quantum 15140 maxrate 80mbit buckets 1024 nopacing refill_delay 40ms
    // orphan_mask 1023 low_rate_threshold 550kbit ce_threshold 2ms timer_slack 10us horizon 10s horizon_drop
    let fq = Fq {
        limit: Some(Packets(5000)),
        flow_limit: Some(Packets(50)),
        quantum: Some(Bytes(3028)),
        initial_quantum: Some(Bytes(15140)),
        max_rate: Some(BitsPerSec(80 * MBIT)),
        buckets_log: Some(10),
        pacing: Some(false),
        refill_delay: Some(Nanos::from_millis(40)),
        orphan_mask: Some(1023),
        // tc rounds down to whole bytes per second.
        low_rate_threshold: Some(BitsPerSec(550_000 / 8 * 8)),
        ce_threshold: Some(Nanos::from_millis(2)),
        timer_slack: Some(Nanos::from_micros(10)),
        horizon: Some(Nanos::from_secs(10)),
        horizon_drop: Some(true),
        ..Fq::default()
    };
    check(Qdisc::Fq(Box::new(fq)), b"\x08\x00\x08\x00\x0a\x00\x00\x00\x08\x00\x01\x00\x88\x13\x00\x00\x08\x00\x02\x00\x32\x00\x00\x00\x08\x00\x03\x00\xd4\x0b\x00\x00\x08\x00\x04\x00\x24\x3b\x00\x00\x08\x00\x05\x00\x00\x00\x00\x00\x08\x00\x07\x00\x80\x96\x98\x00\x08\x00\x0b\x00\x8e\x0c\x01\x00\x08\x00\x09\x00\x40\x9c\x00\x00\x08\x00\x0a\x00\xff\x03\x00\x00\x08\x00\x0c\x00\xd0\x07\x00\x00\x08\x00\x0d\x00\x10\x27\x00\x00\x08\x00\x0e\x00\x80\x96\x98\x00\x05\x00\x0f\x00\x01\x00\x00\x00");
    // ... sfq limit 1000 quantum 1514 perturb 10 depth 100 divisor 1024 flows 127
    let sfq = Sfq {
        quantum: Some(Bytes(1514)),
        perturb: Nanos::from_secs(10),
        limit: Some(Packets(1000)),
        divisor: Some(1024),
        flows: Some(127),
        depth: Some(Packets(100)),
        head_drop: false,
    };
    let mut bytes = b"\xea\x05\x00\x00\x0a\x00\x00\x00\xe8\x03\x00\x00\x00\x04\x00\x00\x7f\x00\x00\x00\x64\x00\x00\x00".to_vec();
    bytes.resize(72, 0);
    check(Qdisc::Sfq(sfq), &bytes);
    check(Qdisc::Sfq(Sfq::default()), b"");
}

#[test]
#[cfg(target_endian = "little")]
fn prio_has_the_structure_that_tc_sends() {
    // tc qdisc add dev va root handle 1: prio bands 4 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 3
    let sent =
        b"\x04\x00\x00\x00\x01\x02\x02\x02\x01\x02\x00\x00\x01\x01\x01\x01\x01\x01\x01\x03\x04\x00\x02\x00";
    let mut prio = Prio { bands: 4, ..Prio::default() };
    prio.priomap[15] = 3;
    check(Qdisc::Prio(prio), &sent[..20]);
    assert_eq!(Qdisc::decode("prio", sent), Qdisc::Prio(prio), "with the attribute that the kernel ignores");
}

#[test]
#[cfg(target_endian = "little")]
fn tbf_is_read_from_the_message_of_tc() {
    // tc qdisc add dev va root handle 1: tbf rate 8mbit burst 2000 limit 10000, without the last 254 entries of the rate table.
    let sent = b"\x28\x00\x01\x00\x03\x01\x00\x00\xff\xff\x00\x00\x40\x42\x0f\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x27\x00\x00\x12\x7a\x00\x00\x00\x00\x00\x00\x08\x00\x06\x00\xd0\x07\x00\x00\x0c\x00\x02\x00\x7d\x00\x00\x00\xfa\x00\x00\x00";
    let tbf = Tbf { rate: BitsPerSec(8 * MBIT), overhead: 0, burst: Bytes(2000), limit: Bytes(10_000) };
    assert_eq!(Qdisc::decode("tbf", sent), Qdisc::Tbf(tbf));
    assert_eq!(
        Qdisc::decode("tbf", &sent[..40]),
        Qdisc::Tbf(tbf),
        "from the ticks alone, as the kernel dumps them"
    );
    let ours = tbf.encode().expect("options");
    // Beyond cell_log and cell_align, which belong to the rate table, the structures are the same.
    assert_eq!((ours.len(), &ours[12..40]), (40 + 12 + 8, &sent[12..40]));
}

#[test]
fn values_beyond_the_fields_of_the_kernel_are_refused() {
    let text = |qdisc: Qdisc| qdisc.encode().expect_err("refused").to_string();
    let tbf = Tbf { rate: BitsPerSec(8 * MBIT), overhead: 24, burst: Bytes(2000), limit: Bytes(10_000) };
    assert_eq!(
        text(Qdisc::Tbf(Tbf { rate: BitsPerSec(7), ..tbf })),
        "tbf: the link needs a rate of at least 8 b/s"
    );
    assert_eq!(text(Qdisc::Tbf(Tbf { limit: Bytes(0), ..tbf })), "tbf: the limit must be at least 1 byte");
    assert_eq!(
        text(Qdisc::Tbf(Tbf { burst: Bytes(1 << 32), ..tbf })),
        "tbf: the burst must be below 4294967296, not 4294967296"
    );
    let fast = Fq { max_rate: Some(BitsPerSec(40_000 * MBIT)), ..Fq::default() };
    assert_eq!(
        text(Qdisc::Fq(Box::new(fast))),
        "fq: the rate of a flow must be at most 34.3 Gb/s, not 40 Gb/s"
    );
    let late = FqCodel { target: Some(Nanos::from_secs(5000)), ..FqCodel::default() };
    assert_eq!(text(Qdisc::FqCodel(late)), "fq_codel: the target must be below 4294 s, not 5000 s");
    let half = Sfq { perturb: Nanos::from_millis(500), ..Sfq::default() };
    assert!(text(Qdisc::Sfq(half)).contains("whole seconds"));
    assert!(text(Qdisc::Prio(Prio { bands: 2, ..Prio::default() })).contains("2 to 16 bands"));
    assert!(text(Qdisc::Noqueue).contains("when the root is deleted"));
    let large = Qdisc::Other { kind: "cake".to_owned(), options: vec![0; 70_000] };
    assert!(text(large).contains("do not fit"));
}

#[test]
fn what_has_no_type_is_kept_as_it_is() {
    let cake = Qdisc::decode("cake", b"\x08\x00\x01\x00\x01\x00\x00\x00");
    assert_eq!(
        cake,
        Qdisc::Other { kind: "cake".to_owned(), options: b"\x08\x00\x01\x00\x01\x00\x00\x00".to_vec() }
    );
    let newer =
        [&FqCodel::default().encode().expect("options")[..], b"\x05\x00\x63\x00\x01\x00\x00\x00"].concat();
    assert!(
        matches!(Qdisc::decode("fq_codel", &newer), Qdisc::Other { .. }),
        "an attribute of a newer kernel"
    );
    let peak = {
        let tbf = Tbf { rate: BitsPerSec(8 * MBIT), overhead: 0, burst: Bytes(2000), limit: Bytes(10_000) };
        let mut options = tbf.encode().expect("options");
        options[4 + 20] = 1;
        options
    };
    assert!(matches!(Qdisc::decode("tbf", &peak), Qdisc::Other { .. }), "a peak rate");
}

fn word() -> impl Strategy<Value = u64> {
    0..=u64::from(u32::MAX)
}

fn maybe<T: std::fmt::Debug>(
    of: impl Strategy<Value = u64>,
    unit: fn(u64) -> T,
) -> impl Strategy<Value = Option<T>> {
    prop::option::of(of.prop_map(unit))
}

fn micros() -> impl Strategy<Value = Option<Nanos>> {
    maybe(word(), Nanos::from_micros)
}

fn rate() -> impl Strategy<Value = Option<BitsPerSec>> {
    maybe(word(), |bytes| BitsPerSec(8 * bytes))
}

fn any_htb() -> impl Strategy<Value = Qdisc> {
    (any::<u16>(), any::<u32>(), maybe(word(), Packets)).prop_map(
        |(default_class, rate_to_quantum, direct_queue)| {
            Qdisc::Htb(Htb { default_class, rate_to_quantum, direct_queue })
        },
    )
}

fn any_tbf() -> impl Strategy<Value = Qdisc> {
    (1_u64..1 << 40, any::<u16>(), 1..=u64::from(u32::MAX), 1..=u64::from(u32::MAX)).prop_map(
        |(rate, overhead, burst, limit)| {
            Qdisc::Tbf(Tbf { rate: BitsPerSec(8 * rate), overhead, burst: Bytes(burst), limit: Bytes(limit) })
        },
    )
}

fn any_prio() -> impl Strategy<Value = Qdisc> {
    (2_u8..=16).prop_flat_map(|bands| {
        prop::array::uniform16(0..bands).prop_map(move |priomap| Qdisc::Prio(Prio { bands, priomap }))
    })
}

fn any_fq_codel() -> impl Strategy<Value = Qdisc> {
    let counts = (maybe(word(), Packets), prop::option::of(any::<u32>()), maybe(word(), Packets));
    let times = (micros(), micros(), micros());
    (counts, times, maybe(word(), Bytes), maybe(word(), Bytes), any::<Option<bool>>()).prop_map(
        |((limit, flows, drop_batch), (target, interval, ce_threshold), quantum, memory_limit, ecn)| {
            Qdisc::FqCodel(FqCodel {
                limit,
                flows,
                target,
                interval,
                quantum,
                ecn,
                ce_threshold,
                drop_batch,
                memory_limit,
            })
        },
    )
}

fn any_fq() -> impl Strategy<Value = Qdisc> {
    let counts = (maybe(word(), Packets), maybe(word(), Packets), any::<Option<u8>>(), any::<Option<u32>>());
    let bytes = (maybe(word(), Bytes), maybe(word(), Bytes));
    let times = (micros(), micros(), micros(), micros(), maybe(word(), Nanos));
    let bands = (
        prop::option::of(prop::array::uniform16(0_u8..3)),
        prop::option::of(prop::array::uniform3(word().prop_map(Bytes))),
    );
    (counts, bytes, times, (rate(), rate()), (any::<Option<bool>>(), any::<Option<bool>>()), bands).prop_map(
        |(counts, bytes, times, rates, (pacing, horizon_drop), (priomap, weights))| {
            Qdisc::Fq(Box::new(Fq {
                limit: counts.0,
                flow_limit: counts.1,
                buckets_log: counts.2,
                orphan_mask: counts.3,
                quantum: bytes.0,
                initial_quantum: bytes.1,
                refill_delay: times.0,
                ce_threshold: times.1,
                horizon: times.2,
                offload_horizon: times.3,
                timer_slack: times.4,
                max_rate: rates.0,
                low_rate_threshold: rates.1,
                pacing,
                horizon_drop,
                priomap,
                weights,
            }))
        },
    )
}

fn any_sfq() -> impl Strategy<Value = Qdisc> {
    let given = || 1..=u64::from(u32::MAX);
    let counts = (maybe(given(), Packets), maybe(given(), Packets));
    let numbers = (prop::option::of(1..u32::MAX), prop::option::of(1..u32::MAX));
    (counts, numbers, maybe(given(), Bytes), 0..1_u64 << 31, any::<bool>()).prop_map(
        |((limit, depth), (divisor, flows), quantum, seconds, head_drop)| {
            let perturb = Nanos::from_secs(seconds);
            Qdisc::Sfq(Sfq { quantum, perturb, limit, divisor, flows, depth, head_drop })
        },
    )
}

fn any_qdisc() -> impl Strategy<Value = Qdisc> {
    prop_oneof![
        any_htb(),
        any_tbf(),
        any_prio(),
        any_fq_codel(),
        any_fq(),
        any_sfq(),
        any::<u16>().prop_map(|default_class| Qdisc::Hfsc { default_class }),
        maybe(word(), Packets).prop_map(|limit| Qdisc::Pfifo { limit }),
        maybe(word(), Bytes).prop_map(|limit| Qdisc::Bfifo { limit }),
        prop::sample::select(vec![Qdisc::Mq, Qdisc::Drr, Qdisc::PfifoFast, Qdisc::Ingress, Qdisc::Clsact]),
        prop::collection::vec(any::<u8>(), 0..80)
            .prop_map(|options| Qdisc::Other { kind: "another".to_owned(), options }),
    ]
}

const KINDS: [&str; 15] = [
    "htb",
    "tbf",
    "mq",
    "drr",
    "prio",
    "hfsc",
    "fq_codel",
    "fq",
    "pfifo",
    "bfifo",
    "pfifo_fast",
    "sfq",
    "ingress",
    "clsact",
    "noqueue",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn each_qdisc_is_read_back(qdisc in any_qdisc()) {
        let options = qdisc.encode().expect("options");
        prop_assert_eq!(Qdisc::decode(qdisc.kind(), &options), qdisc);
    }

    #[test]
    fn any_options_are_read_without_a_panic(kind in prop::sample::select(&KINDS[..]), options in prop::collection::vec(any::<u8>(), 0..100)) {
        let qdisc = Qdisc::decode(kind, &options);
        prop_assert_eq!(qdisc.kind(), kind);
        let _ = qdisc.encode();
        let _ = direct_packets(&options);
    }

    /// Attributes with likely types and lengths, which a decoder does not refuse at once.
    #[test]
    fn any_attributes_are_read_without_a_panic(
        kind in prop::sample::select(&KINDS[..]),
        attributes in prop::collection::vec((0_u16..20, prop::collection::vec(any::<u8>(), 0..48)), 0..6),
    ) {
        let options = attributes.iter().fold(crate::netlink::Attributes::default(), |all, (kind, value)| all.with(*kind, value)).bytes();
        let _ = Qdisc::decode(kind, &options).encode();
    }
}
