//! The rules of single queueing disciplines: rates against closed forms, and the order of sending and dropping.

use weft_sim::qdisc::{self, Drr, FqCodel, HtbQdisc, Pfifo, Prio, Qdisc, Sfq, SfqParameters, TbfQdisc};
use weft_sim::scenario::config::QdiscKind;
use weft_sim::segment::{Dequeued, Segment, SkbId, StreamId};
use weft_units::{BitsPerSec, Bytes, Nanos};

const GIGABIT: BitsPerSec = BitsPerSec(1_000_000_000);

/// Segment number `id` of a flow.
fn segment(id: u32, flow: u32, len: u32) -> Segment {
    let packets = len.div_ceil(1514) as u16;
    Segment { skb: SkbId(id), flow: StreamId(flow), len, packets, class: 0, band: 1, marked: false }
}

fn in_class(id: u32, class: u16, len: u32) -> Segment {
    Segment { class, ..segment(id, class.into(), len) }
}

fn boxed(qdisc: impl Qdisc + 'static) -> Box<dyn Qdisc> {
    Box::new(qdisc)
}

/// Returns the bytes by class that leave from `now`, during `span`, on a wire faster than the discipline; `backlogged` classes
/// are constantly backlogged.
fn shaped(qdisc: &mut dyn Qdisc, backlogged: &[u16], len: u32, (mut now, span): (Nanos, Nanos)) -> Vec<u64> {
    let (mut id, mut dropped, end) = (0, Vec::new(), now + span);
    let mut bytes = vec![0; 4];
    let mut arrive = |qdisc: &mut dyn Qdisc, class, now| {
        id += 1;
        qdisc.enqueue(in_class(id, class, len), now, &mut dropped);
    };
    backlogged.iter().for_each(|class| (0..3).for_each(|_| arrive(qdisc, *class, now)));
    while now < end {
        match qdisc.dequeue(now, &mut Vec::new()) {
            Dequeued::Segment(segment) => {
                bytes[usize::from(segment.class)] += u64::from(segment.len);
                arrive(qdisc, segment.class, now);
            }
            Dequeued::Wait(time) => now = time,
            Dequeued::Empty => panic!("always backlogged"),
        }
    }
    bytes
}

#[test]
fn htb_guarantees_equal_rates_and_lends_what_is_not_used() {
    for (active, len) in
        [(1, 1514), (2, 1514), (3, 1514), (4, 1514), (1, 65_536), (2, 65_536), (3, 65_536), (4, 65_536)]
    {
        let mut htb = HtbQdisc::new(GIGABIT, (0..4).map(|_| boxed(Pfifo::new(100))));
        let classes: Vec<u16> = (0..active).collect();
        let bytes = shaped(&mut htb, &classes, len, (Nanos::ZERO, Nanos::from_secs(1)));
        let total: u64 = bytes.iter().sum();
        // The rate of the whole for a second, a burst, and a segment of debt per class.
        let slack = 5 * u64::from(len) + 20_000;
        assert!(total.abs_diff(125_000_000) <= slack, "{active} of {len}: {total}");
        for share in &bytes[..usize::from(active)] {
            let fair = 125_000_000 / u64::from(active);
            // Borrowing alternates by turns of at least a quantum.
            assert!(share.abs_diff(fair) <= fair / 100 + 2 * 200_000, "{active} of {len}: {bytes:?}");
        }
    }
}

#[test]
fn tbf_sends_its_burst_and_then_its_rate() {
    for len in [1500, 10_000, 65_536] {
        let mut tbf = TbfQdisc::new(GIGABIT, Bytes(15_000), 10);
        let total: u64 = shaped(&mut tbf, &[0], len, (Nanos::ZERO, Nanos::from_millis(100))).iter().sum();
        let expected = 12_500_000 + 15_000;
        assert!(
            total <= expected + u64::from(len) && total + 2 * u64::from(len) > expected,
            "{len}: {total}"
        );
    }
    // Exactly the burst leaves at once.
    let mut tbf = TbfQdisc::new(GIGABIT, Bytes(15_000), 20);
    (0..20).for_each(|id| tbf.enqueue(segment(id, 0, 1500), Nanos::ZERO, &mut Vec::new()));
    let at_once =
        (0..20).take_while(|_| matches!(tbf.dequeue(Nanos::ZERO, &mut Vec::new()), Dequeued::Segment(_)));
    assert_eq!(at_once.count(), 10);
    assert_eq!(tbf.dequeue(Nanos::ZERO, &mut Vec::new()), Dequeued::Wait(Nanos(12_000)));
}

#[test]
fn strict_bands_go_first() {
    for mut qdisc in [
        qdisc::build(&QdiscKind::PfifoFast, 1, 0),
        qdisc::build(&QdiscKind::PrioSfq { quantum: Bytes(1514) }, 1, 0),
        qdisc::build(&QdiscKind::FqCodel, 1, 0),
        qdisc::build(&QdiscKind::DrrPrioSfq { quantum: Bytes(1514) }, 1, 0),
    ] {
        for (id, band) in [(0, 1), (1, 9), (2, 0), (3, 0)] {
            qdisc.enqueue(Segment { band, ..segment(id, id, 1000) }, Nanos::ZERO, &mut Vec::new());
        }
        let order = std::iter::from_fn(|| match qdisc.dequeue(Nanos::ZERO, &mut Vec::new()) {
            Dequeued::Segment(segment) => Some(segment.band),
            _ => None,
        });
        assert_eq!(order.collect::<Vec<_>>(), [0, 0, 1, 9]);
    }
}

#[test]
fn sfq_drops_from_the_longest_slot_and_forgets_debts_of_emptied_ones() {
    let mut sfq = Sfq::new(SfqParameters { limit: 4, ..SfqParameters::new(Bytes(1514)) }, 7);
    let mut dropped = Vec::new();
    for (id, flow) in [(0, 0), (1, 1), (2, 0), (3, 0), (4, 1)] {
        sfq.enqueue(segment(id, flow, 1500), Nanos::ZERO, &mut dropped);
    }
    assert_eq!(dropped, [segment(3, 0, 1500)], "the last of flow 0, although flow 1 came last");
    let mut sfq = Sfq::new(SfqParameters::new(Bytes(1514)), 7);
    sfq.enqueue(segment(0, 0, 60_000), Nanos::ZERO, &mut dropped);
    assert!(matches!(sfq.dequeue(Nanos::ZERO, &mut dropped), Dequeued::Segment(_)));
    // Flow 0 had a debt of 58 kB; as it emptied, it is first again. In a backlogged slot flow 1 would send 39 segments first.
    sfq.enqueue(segment(1, 0, 1500), Nanos::ZERO, &mut dropped);
    sfq.enqueue(segment(2, 1, 1500), Nanos::ZERO, &mut dropped);
    assert_eq!(sfq.dequeue(Nanos::ZERO, &mut dropped), Dequeued::Segment(segment(1, 0, 1500)));
}

/// A queue above the target: the first drop after an interval, later ones by `interval / sqrt(count)` (RFC 8289).
#[test]
fn codel_drops_by_its_control_law() {
    let mut qdisc = FqCodel::new(3);
    // 10 ms of delay at one segment per 100 us, kept up by an arrival per departure.
    (0..100).for_each(|id| qdisc.enqueue(segment(id, 0, 1514), Nanos::ZERO, &mut Vec::new()));
    let (mut id, mut drops) = (100, Vec::new());
    for tick in 1..20_000_u64 {
        let (now, mut dropped) = (Nanos::from_micros(100 * tick), Vec::new());
        assert!(matches!(qdisc.dequeue(now, &mut dropped), Dequeued::Segment(_)));
        for _ in 0..=dropped.len() {
            id += 1;
            qdisc.enqueue(segment(id, 0, 1514), now, &mut Vec::new());
        }
        drops.extend(dropped.iter().map(|_| now));
    }
    // Above the target from 5 ms.
    let mut due = 105_100_000.0;
    assert!(drops.len() > 100, "{}", drops.len());
    for (count, drop) in (1..).zip(&drops) {
        let late = drop.get() as f64 - due;
        assert!(
            (-10.0 * f64::from(count)..=200_000.0).contains(&late),
            "drop {count} at {drop} and not {due}"
        );
        due += 1e8 / f64::from(count).sqrt();
    }
}

/// Soon after a dropping state, the next one starts at its rate instead of one drop per interval.
#[test]
fn codel_remembers_its_drop_rate() {
    let (mut qdisc, mut id, mut now, mut drops) = (FqCodel::new(3), 0, Nanos::ZERO, Vec::new());
    let mut stand = |ticks: u32| {
        drops.clear();
        let mut dropped = Vec::new();
        for tick in 0..ticks {
            let wanted = if tick == 0 { 100 } else { 1 + dropped.len() };
            for _ in 0..wanted {
                id += 1;
                qdisc.enqueue(segment(id, 0, 1514), now, &mut Vec::new());
            }
            dropped.clear();
            now += Nanos::from_micros(100);
            qdisc.dequeue(now, &mut dropped);
            drops.extend(dropped.iter().map(|_| now));
        }
        while let Dequeued::Segment(_) = qdisc.dequeue(now, &mut Vec::new()) {}
        (drops[1] - drops[0], drops.len())
    };
    let (gap, count) = stand(20_000);
    assert!(gap >= Nanos::from_millis(99), "{gap}");
    let (gap, _) = stand(3_000);
    let expected = Nanos((1e8 / (count as f64 - 1.0).sqrt()) as u64);
    assert!(gap.get().abs_diff(expected.get()) <= 500_000, "{gap} and not {expected}");
}

#[test]
fn fq_codel_drops_half_of_the_fattest_queue_from_its_head() {
    let (mut qdisc, mut dropped) = (FqCodel::with_limit(9, 2), Vec::new());
    for (id, flow, len) in [(0, 0, 100), (1, 0, 100), (2, 0, 100), (3, 0, 100), (4, 0, 100), (5, 1, 1000)] {
        qdisc.enqueue(segment(id, flow, len), Nanos::ZERO, &mut dropped);
    }
    (6..10).for_each(|id| qdisc.enqueue(segment(id, 1, 1000), Nanos::ZERO, &mut dropped));
    // Flow 1 holds 5000 bytes, flow 0 as many segments: 2500 bytes must be dropped.
    let lost: Vec<_> = dropped.iter().map(|segment| segment.skb.0).collect();
    assert_eq!(lost, [5, 6, 7]);
}

#[test]
fn fq_codel_lets_a_flow_that_returns_wait_for_the_old_ones() {
    let (mut qdisc, mut dropped) = (FqCodel::new(3), Vec::new());
    let mut leaves = |qdisc: &mut FqCodel| match qdisc.dequeue(Nanos::ZERO, &mut dropped) {
        Dequeued::Segment(segment) => segment.flow.0,
        other => panic!("{other:?}"),
    };
    (0..9).for_each(|id| qdisc.enqueue(segment(id, 0, 500), Nanos::ZERO, &mut Vec::new()));
    (0..4).for_each(|_| assert_eq!(leaves(&mut qdisc), 0));
    qdisc.enqueue(segment(9, 1, 100), Nanos::ZERO, &mut Vec::new());
    assert_eq!(leaves(&mut qdisc), 1, "new flows go first");
    assert_eq!(leaves(&mut qdisc), 0);
    qdisc.enqueue(segment(10, 1, 100), Nanos::ZERO, &mut Vec::new());
    assert_eq!(leaves(&mut qdisc), 0, "it is an old one now, and flow 0 has credit");
}

/// Both wait for the segment that may leave first, and neither delays a class that need not wait.
#[test]
fn a_class_that_must_wait_holds_back_no_other() {
    let slow = || boxed(TbfQdisc::new(BitsPerSec(1_000_000), Bytes(1000), 10));
    let fast = || boxed(TbfQdisc::new(BitsPerSec(8_000_000), Bytes(1000), 10));
    let children = || [slow(), fast(), slow(), boxed(Pfifo::new(10))];
    let mut qdiscs = [
        boxed(Prio::new(children())),
        boxed(Drr::new(Bytes(1514), children())),
        boxed(HtbQdisc::new(GIGABIT, children())),
    ];
    for qdisc in &mut qdiscs {
        let dequeue = |qdisc: &mut Box<dyn Qdisc>, now| qdisc.dequeue(Nanos(now), &mut Vec::new());
        for id in 0..9 {
            let class = (id % 3) as u8;
            let segment = Segment { band: class, class: class.into(), ..segment(id, class.into(), 1000) };
            qdisc.enqueue(segment, Nanos::ZERO, &mut Vec::new());
        }
        (0..3).for_each(|_| assert!(matches!(dequeue(qdisc, 0), Dequeued::Segment(_)), "the bursts"));
        assert_eq!(dequeue(qdisc, 0), Dequeued::Wait(Nanos(1_000_000)));
        qdisc.enqueue(Segment { band: 3, class: 3, ..segment(9, 3, 1000) }, Nanos(1), &mut Vec::new());
        assert!(matches!(dequeue(qdisc, 1), Dequeued::Segment(Segment { class: 3, .. })));
        assert_eq!(dequeue(qdisc, 1), Dequeued::Wait(Nanos(1_000_000)));
        assert!(matches!(dequeue(qdisc, 1_000_000), Dequeued::Segment(Segment { class: 1, .. })));
    }
}

#[test]
fn drr_gives_a_new_class_its_quantum_at_once() {
    let mut drr = Drr::new(Bytes(1500), (0..2).map(|_| boxed(Pfifo::new(10))));
    (0..3).for_each(|id| drr.enqueue(in_class(id, 0, 1500), Nanos::ZERO, &mut Vec::new()));
    assert_eq!(drr.dequeue(Nanos::ZERO, &mut Vec::new()), Dequeued::Segment(in_class(0, 0, 1500)));
    drr.enqueue(in_class(3, 1, 1500), Nanos::ZERO, &mut Vec::new());
    assert_eq!(drr.dequeue(Nanos::ZERO, &mut Vec::new()), Dequeued::Segment(in_class(3, 1, 1500)));
}

/// Borrowing is not charged to the borrower: within its own rate it precedes another class that borrows now.
#[test]
fn htb_does_not_charge_what_is_borrowed_to_the_borrower() {
    let mut htb = HtbQdisc::new(GIGABIT, (0..2).map(|_| boxed(Pfifo::new(100))));
    let (second, turn) = (Nanos::from_secs(1), Nanos::from_millis(3));
    shaped(&mut htb, &[0], 10_000, (Nanos::ZERO, second));
    for i in 0..20 {
        let mut now = second + Nanos(i * turn.get());
        shaped(&mut htb, &[1], 10_000, (now, turn));
        now += turn;
        htb.enqueue(in_class(0, 0, 10_000), now, &mut Vec::new());
        let mut before = 0;
        loop {
            match htb.dequeue(now, &mut Vec::new()) {
                Dequeued::Segment(Segment { class: 0, .. }) => break,
                Dequeued::Segment(_) => before += 1,
                Dequeued::Wait(time) => now = time,
                Dequeued::Empty => panic!("it was enqueued"),
            }
        }
        assert!(before <= 1, "{before} segments of the borrower went first");
    }
}

#[test]
fn fq_codel_puts_new_flows_first() {
    let mut qdisc = FqCodel::new(3);
    (0..50).for_each(|id| qdisc.enqueue(segment(id, 0, 1514), Nanos::ZERO, &mut Vec::new()));
    (0..5).for_each(|_| assert!(matches!(qdisc.dequeue(Nanos::ZERO, &mut Vec::new()), Dequeued::Segment(_))));
    qdisc.enqueue(segment(50, 1, 100), Nanos::ZERO, &mut Vec::new());
    assert_eq!(qdisc.dequeue(Nanos::ZERO, &mut Vec::new()), Dequeued::Segment(segment(50, 1, 100)));
}
