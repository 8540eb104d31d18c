//! Queueing disciplines on random sequences: conservation and order for all, shares against slow references.

use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use weft_sim::qdisc::{
    self, Drr, FqCodel, HtbQdisc, Pfifo, PfifoFast, Prio, Qdisc, Sfq, SfqParameters, TbfQdisc,
};
use weft_sim::scenario::config::QdiscKind;
use weft_sim::segment::{Backlog, Dequeued, Segment, SkbId, StreamId};
use weft_units::{BitsPerSec, Bytes, Nanos};

const GIGABIT: BitsPerSec = BitsPerSec(1_000_000_000);

/// Returns segment number `id` of a flow, whose class and band follow from the flow.
fn segment(id: u32, flow: u32, len: u32) -> Segment {
    let (class, band) = ((flow % 3) as u16, (flow % 4) as u8);
    let packets = len.div_ceil(1514) as u16;
    Segment { skb: SkbId(id), flow: StreamId(flow), len, packets, class, band, marked: false }
}

fn in_class(id: u32, class: u16, len: u32) -> Segment {
    Segment { class, ..segment(id, class.into(), len) }
}

fn boxed(qdisc: impl Qdisc + 'static) -> Box<dyn Qdisc> {
    Box::new(qdisc)
}

/// Every discipline that [`qdisc::build`] creates.
fn kinds() -> Vec<(&'static str, QdiscKind)> {
    let quantum = Bytes(1514);
    vec![
        ("pfifo_fast", QdiscKind::PfifoFast),
        ("prio sfq", QdiscKind::PrioSfq { quantum }),
        ("fq_codel", QdiscKind::FqCodel),
        ("htb", QdiscKind::Htb { rate: GIGABIT }),
        ("tbf", QdiscKind::Tbf { rate: GIGABIT, burst: Bytes(20_000) }),
        ("drr prio sfq", QdiscKind::DrrPrioSfq { quantum }),
    ]
}

#[test]
fn every_kind_is_tried() {
    let names: Vec<&str> = kinds().iter().map(|(_, kind)| kind.name()).collect();
    let missing: Vec<_> = QdiscKind::NAMES.iter().filter(|name| !names.contains(name)).collect();
    assert!(missing.is_empty(), "`kinds` in tests/suite/qdisc.rs has no {missing:?}");
}

/// Every discipline that [`qdisc::build`] makes, and small ones that run into their limits.
fn all() -> Vec<(&'static str, Box<dyn Qdisc>)> {
    let quantum = Bytes(1514);
    let small = SfqParameters { limit: 12, depth: 4, flows: 5, divisor: 7, ..SfqParameters::new(quantum) };
    let shaped = || boxed(TbfQdisc::new(BitsPerSec(30_000_000), Bytes(3000), 6));
    let limited = vec![
        ("small pfifo", boxed(Pfifo::new(7))),
        ("small pfifo_fast", boxed(PfifoFast::new(7))),
        ("small sfq", boxed(Sfq::new(small, 1))),
        ("tiny sfq", boxed(Sfq::new(SfqParameters { limit: 1, ..small }, 1))),
        ("small fq_codel", boxed(FqCodel::with_limit(9, 2))),
        ("prio of shaped", boxed(Prio::new([shaped(), boxed(Pfifo::new(5)), shaped()]))),
        ("drr of shaped", boxed(Drr::new(quantum, [shaped(), boxed(Pfifo::new(5)), shaped()]))),
        ("htb of shaped", boxed(HtbQdisc::new(GIGABIT, [shaped(), boxed(Sfq::new(small, 3)), shaped()]))),
        ("no children", boxed(Drr::new(quantum, []))),
        ("no classes", boxed(HtbQdisc::new(GIGABIT, []))),
        ("no bands", boxed(Prio::new([]))),
    ];
    kinds().into_iter().map(|(name, kind)| (name, qdisc::build(&kind, 3, 42))).chain(limited).collect()
}

/// The invariants of a discipline from its caller's view.
#[derive(Default)]
struct Accounting {
    held: BTreeMap<u32, Segment>,
    /// By flow: the last segment that left. Segments are numbered in the order of arrival.
    last: BTreeMap<u32, u32>,
    entered: u64,
    left: u64,
    dropped: u64,
}

impl Accounting {
    fn enqueue(&mut self, name: &str, qdisc: &mut dyn Qdisc, segment: Segment, now: Nanos) {
        let mut dropped = Vec::new();
        self.entered += u64::from(segment.len);
        self.held.insert(segment.skb.0, segment);
        qdisc.enqueue(segment, now, &mut dropped);
        self.check(name, qdisc, &dropped);
    }

    fn dequeue(&mut self, name: &str, qdisc: &mut dyn Qdisc, now: Nanos) -> Dequeued {
        let mut dropped = Vec::new();
        let answer = qdisc.dequeue(now, &mut dropped);
        match answer {
            Dequeued::Segment(segment) => {
                assert_eq!(
                    self.held.remove(&segment.skb.0),
                    Some(segment),
                    "{name}: gives what it was given, once"
                );
                self.left += u64::from(segment.len);
                let last = self.last.insert(segment.flow.0, segment.skb.0);
                assert!(last < Some(segment.skb.0), "{name}: a flow's segments leave in order");
            }
            Dequeued::Wait(time) => assert!(time > now, "{name}: waits for what is to come"),
            Dequeued::Empty => {}
        }
        self.check(name, qdisc, &dropped);
        assert_eq!(
            matches!(answer, Dequeued::Wait(_)),
            !self.held.is_empty() && !matches!(answer, Dequeued::Segment(_))
        );
        answer
    }

    fn check(&mut self, name: &str, qdisc: &dyn Qdisc, dropped: &[Segment]) {
        for segment in dropped {
            assert_eq!(self.held.remove(&segment.skb.0), Some(*segment), "{name}: drops what it held, once");
            self.dropped += u64::from(segment.len);
        }
        let bytes: u64 = self.held.values().map(|segment| u64::from(segment.len)).sum();
        let backlog = Backlog { segments: self.held.len() as u32, bytes: Bytes(bytes) };
        assert_eq!(qdisc.backlog(), backlog, "{name}");
        assert_eq!(self.entered, self.left + self.dropped + bytes, "{name}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Arrive { flow: u32, len: u32 },
    Depart,
    Pass { nanos: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let len = prop_oneof![1 => Just(0_u32), 4 => 60_u32..1514, 4 => 1514_u32..=65_536];
    prop_oneof![
        6 => (0_u32..12, len).prop_map(|(flow, len)| Step::Arrive { flow, len }),
        4 => Just(Step::Depart),
        2 => (0_u64..200_000_000).prop_map(|nanos| Step::Pass { nanos }),
        2 => (0_u64..20_000).prop_map(|nanos| Step::Pass { nanos }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_enters_leaves_is_dropped_or_held_and_flows_keep_their_order(
        steps in prop::collection::vec(step(), 0..400),
    ) {
        for (name, mut qdisc) in all() {
            let mut accounting = Accounting::default();
            let mut now = Nanos::ZERO;
            for (id, step) in (0_u32..).zip(&steps) {
                match *step {
                    Step::Arrive { flow, len } => accounting.enqueue(name, &mut *qdisc, segment(id, flow, len), now),
                    Step::Depart => drop(accounting.dequeue(name, &mut *qdisc, now)),
                    Step::Pass { nanos } => now += Nanos(nanos),
                }
            }
            // Polled at the times that it returns, it releases all held segments.
            for _ in 0..10_000 {
                match accounting.dequeue(name, &mut *qdisc, now) {
                    Dequeued::Segment(_) => {}
                    Dequeued::Wait(time) => now = time,
                    Dequeued::Empty => break,
                }
            }
            prop_assert!(accounting.held.is_empty(), "{} keeps {} segments", name, accounting.held.len());
        }
    }

    /// Against deficit round robin as Shreedhar and Varghese describe it, with plain queues and a walk over all flows. The bound
    /// is one quantum and one segment; the two agree segment by segment.
    #[test]
    fn drr_shares_as_its_slow_reference(
        lens in prop::collection::vec(prop::collection::vec(1_u32..=9000, 1..20), 2..6),
        quantum in 200_u64..4000,
    ) {
        let mut drr = Drr::new(Bytes(quantum), lens.iter().map(|_| boxed(Pfifo::new(1000))));
        let mut reference = SlowDrr::new(quantum, &lens);
        let (mut id, mut dropped) = (0, Vec::new());
        let mut next = vec![0; lens.len()];
        let mut arrive = |drr: &mut Drr, class: usize| {
            let len = lens[class][next[class] % lens[class].len()];
            next[class] += 1;
            id += 1;
            drr.enqueue(in_class(id, class as u16, len), Nanos::ZERO, &mut dropped);
        };
        (0..lens.len()).for_each(|class| (0..3).for_each(|_| arrive(&mut drr, class)));
        let (mut bytes, mut expected) = (vec![0_i64; lens.len()], vec![0_i64; lens.len()]);
        for _ in 0..500 {
            let Dequeued::Segment(segment) = drr.dequeue(Nanos::ZERO, &mut Vec::new()) else { panic!("always backlogged") };
            arrive(&mut drr, segment.class.into());
            let (class, len) = reference.next();
            prop_assert_eq!((segment.class, segment.len), (class as u16, len));
            bytes[usize::from(segment.class)] += i64::from(segment.len);
            expected[class] += i64::from(len);
            for (bytes, expected) in bytes.iter().zip(&expected) {
                prop_assert!((bytes - expected).abs() <= quantum as i64 + 9000);
            }
        }
    }

    /// Constantly backlogged flows of different slots get equal shares at any time, in SFQ's units of charge, within one quantum
    /// and one segment. The slow reference's shares are within the same bound.
    #[test]
    fn sfq_shares_evenly_and_as_its_slow_reference(
        lens in prop::collection::vec(prop::collection::vec(1_u32..=65_536, 1..20), 2..6),
        quantum in 200_u64..20_000,
        seed in any::<u64>(),
    ) {
        let mut sfq = Sfq::new(SfqParameters::new(Bytes(quantum)), seed);
        let mut flows: Vec<u32> = Vec::new();
        for flow in 0.. {
            if flows.len() == lens.len() { break; }
            if flows.iter().all(|other| sfq.bucket(StreamId(*other)) != sfq.bucket(StreamId(flow))) { flows.push(flow); }
        }
        let charged: Vec<Vec<u32>> = lens.iter().map(|l| l.iter().map(|len| len.div_ceil(8)).collect()).collect();
        let mut reference = SlowDrr::new(quantum.div_ceil(8), &charged);
        reference.overdraws = true;
        let (mut id, mut dropped) = (0, Vec::new());
        let mut next = vec![0; lens.len()];
        let mut arrive = |sfq: &mut Sfq, which: usize| {
            let len = lens[which][next[which] % lens[which].len()];
            next[which] += 1;
            id += 1;
            sfq.enqueue(segment(id, flows[which], len), Nanos::ZERO, &mut dropped);
        };
        (0..lens.len()).for_each(|which| (0..3).for_each(|_| arrive(&mut sfq, which)));
        let bound = quantum.div_ceil(8) as i64 + 8192;
        let (mut sent, mut expected) = (vec![0_i64; lens.len()], vec![0_i64; lens.len()]);
        for _ in 0..300 {
            let Dequeued::Segment(segment) = sfq.dequeue(Nanos::ZERO, &mut Vec::new()) else { panic!("always backlogged") };
            let which = flows.iter().position(|flow| *flow == segment.flow.0).expect("a known flow");
            arrive(&mut sfq, which);
            sent[which] += i64::from(segment.len.div_ceil(8));
            let (whose, units) = reference.next();
            expected[whose] += i64::from(units);
            prop_assert!(sent.iter().max().unwrap() - sent.iter().min().unwrap() <= bound, "{:?}", sent);
            for (sent, expected) in sent.iter().zip(&expected) {
                prop_assert!((sent - expected).abs() <= bound);
            }
        }
        prop_assert!(dropped.is_empty());
    }
}

/// Deficit round robin over constantly backlogged flows with repeating lengths.
struct SlowDrr {
    quantum: i64,
    queues: Vec<VecDeque<u32>>,
    credit: Vec<i64>,
    turn: usize,
    /// Whether a flow sends while it has any credit, instead of only within its credit.
    overdraws: bool,
}

impl SlowDrr {
    fn new(quantum: u64, lens: &[Vec<u32>]) -> Self {
        let queues = lens.iter().map(|lens| lens.iter().copied().collect()).collect();
        let mut credit = vec![0; lens.len()];
        credit[0] = quantum as i64;
        Self { quantum: quantum as i64, queues, credit, turn: 0, overdraws: false }
    }

    fn next(&mut self) -> (usize, u32) {
        loop {
            let (flow, len) = (self.turn, self.queues[self.turn][0]);
            let needed = if self.overdraws { 1 } else { i64::from(len) };
            if self.credit[flow] >= needed {
                self.credit[flow] -= i64::from(len);
                self.queues[flow].rotate_left(1);
                return (flow, len);
            }
            self.turn = (flow + 1) % self.queues.len();
            self.credit[self.turn] += self.quantum;
        }
    }
}
