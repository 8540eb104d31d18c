//! The overdraft in virtual time: what an urgent class gains by it, against a link that holds every packet.

use super::*;
use crate::link::Link;
use std::collections::VecDeque;
use weft_policy::{CompileOptions, Source, compile};
use weft_sched::{Next, PolicyTree};
use weft_units::{FlowId, Weight};

const RATE: BitsPerSec = BitsPerSec(1_000_000_000);
const BULK: Bytes = Bytes(66_000);
const STEP: Nanos = Nanos::from_micros(10);

fn program(text: &str) -> Program {
    compile(Source { name: "t", text }, &CompileOptions::default()).policy.expect("policy").program
}

/// A worker on two rings in virtual time: `u` with the given arrivals, and a bulk class that always has packets.
struct Model {
    urgency: Urgency,
    tree: PolicyTree,
    flows: [FlowId; 2],
    link: Link,
    waiting: VecDeque<Bytes>,
    overdraw: Nanos,
    ahead_max: Nanos,
    /// The bytes of `u` that have left, by step.
    sent: Vec<u64>,
}

impl Model {
    fn new(text: &str, overdraw: Nanos) -> Self {
        let program = program(text);
        let mut tree = PolicyTree::new(&program).expect("tree");
        let flows = [0, 1].map(|lane| tree.add_flow(LaneId(lane), Weight::ONE).expect("flow"));
        tree.activate(flows[1]);
        let mut urgency = Urgency::new(program, Some(RATE));
        let _ = [0, 1].map(|ring| urgency.add_ring(ring, LaneId::from_index(ring)));
        Self {
            urgency,
            tree,
            flows,
            link: Link::new(RATE, Nanos::from_millis(10), Instant::ZERO),
            waiting: VecDeque::new(),
            overdraw,
            ahead_max: Nanos::ZERO,
            sent: vec![0],
        }
    }

    /// The decisions of one iteration of the worker's loop at `wall`, as `send_while_free`.
    fn run(&mut self, wall: Instant, arrived: &[Bytes]) {
        let mut urgent_waits = false;
        for packet in arrived {
            self.waiting.push_back(*packet);
            urgent_waits |= self.tree.activate(self.flows[0]) && self.urgency.is_urgent(0);
        }
        self.link.follow(wall);
        self.urgency.settle(wall);
        let mut left = *self.sent.last().expect("a step");
        loop {
            let ahead = self.link.now().saturating_since(wall);
            if ahead > Nanos::ZERO {
                let lane = self
                    .tree
                    .upcoming_lane(self.link.now())
                    .filter(|_| urgent_waits && ahead < self.overdraw);
                if !lane.is_some_and(|lane| self.urgency.may_overdraw(lane, wall)) {
                    break;
                }
                self.ahead_max = self.ahead_max.max(ahead);
            }
            let now = self.link.now();
            let Next::Turn(turn) = self.tree.next(now) else { panic!("the bulk class is backlogged") };
            let of_u = turn.flow() == self.flows[0];
            let bytes = if of_u { self.waiting.pop_front().expect("a packet") } else { BULK };
            self.link.send(bytes);
            self.tree.finish(turn, bytes, !of_u || !self.waiting.is_empty(), now).expect("the turn");
            self.urgency.charge(usize::from(!of_u), bytes, (wall, self.link.now()));
            left += if of_u { bytes.get() } else { 0 };
        }
        self.sent.push(left);
    }

    /// The bytes of `u` in each span of 100 ms.
    fn windows(&self) -> impl Iterator<Item = u64> + '_ {
        let span = (100_000_000 / STEP.get()) as usize;
        self.sent.iter().zip(&self.sent[span..]).map(|(before, after)| after - before)
    }
}

/// Runs `seconds` with random arrivals of at most `most` bytes, at `load` of the link in the mean, in bursts.
fn compare(text: &str, overdraw: Nanos, (most, load): (u64, f64)) -> (Model, Model) {
    let [mut strict, mut over] = [Nanos::ZERO, overdraw].map(|overdraw| Model::new(text, overdraw));
    let mut state = most ^ 0x51_7c_c1_b7;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as f64 / (1_u64 << 31) as f64
    };
    let (mut wall, mut credit, mut on) = (Instant::ZERO, 0.0, false);
    for _ in 0..100_000 {
        wall += STEP;
        credit += RATE.bytes_in(STEP).get() as f64 * load;
        if random() < 0.002 {
            on = !on;
        }
        let mut arrived = Vec::new();
        while on && credit > most as f64 {
            let bytes = (most as f64 * (0.1 + 0.9 * random())) as u64;
            credit -= bytes as f64;
            arrived.push(Bytes(bytes));
        }
        strict.run(wall, &arrived);
        over.run(wall, &arrived);
    }
    (strict, over)
}

/// The most that `over` has above `strict` in a span of 100 ms.
fn gain(strict: &Model, over: &Model) -> u64 {
    over.windows().zip(strict.windows()).map(|(over, strict)| over.saturating_sub(strict)).max().unwrap_or(0)
}

const FAIR: &str = "class u = udp\nclass bulk = tcp\nroot = wfq { u: 1, bulk: 1, default: 1 }";
const FIRST: &str = "class u = udp\nclass bulk = tcp\nroot = priority { u, bulk, default }";

#[test]
fn an_urgent_class_gains_no_more_than_the_overdraft_in_any_tenth_of_a_second() {
    let mut used = 0;
    for text in [FAIR, FIRST] {
        for (most, load) in [(200, 0.02), (1538, 0.1), (1538, 0.3), (66_000, 0.3), (66_000, 0.9)] {
            let (strict, over) = compare(text, OVERDRAW, (most, load));
            let bound = RATE.bytes_in(OVERDRAW).get() + most;
            let gain = gain(&strict, &over);
            assert!(gain <= bound, "{gain} bytes of {bound} with {most} at {load}, {text}");
            assert!(over.ahead_max < OVERDRAW, "{:?}", over.ahead_max);
            used += u32::from(over.ahead_max > Nanos::ZERO);
        }
    }
    assert!(used >= 6, "the overdraft was used in {used} cases");
}

#[test]
fn without_the_bound_it_would_gain_more() {
    let (strict, over) = compare(FIRST, Nanos::from_secs(1), (66_000, 0.9));
    assert!(gain(&strict, &over) > RATE.bytes_in(OVERDRAW).get() + 66_000);
}

#[test]
fn a_class_does_not_overdraw_what_it_has_sent_itself() {
    let mut urgency = Urgency::new(program(FAIR), Some(RATE));
    let _ = [0, 1].map(|ring| urgency.add_ring(ring, LaneId::from_index(ring)));
    let at = |micros| Instant::ZERO + Nanos::from_micros(micros);
    urgency.settle(at(0));
    urgency.charge(1, BULK, (at(0), at(528)));
    assert!(urgency.may_overdraw(LaneId(0), at(10)), "behind a packet of bulk");
    urgency.charge(0, Bytes(1500), (at(10), at(540)));
    assert!(urgency.may_overdraw(LaneId(0), at(520)), "the packet of bulk still counts");
    assert!(!urgency.may_overdraw(LaneId(0), at(530)), "its own packet");
    urgency.charge(1, Bytes::ZERO, (at(540), at(540)));
    assert!(!urgency.may_overdraw(LaneId(0), at(530)), "an empty turn of bulk");
    urgency.charge(1, BULK, (at(540), at(1068)));
    assert!(urgency.may_overdraw(LaneId(0), at(1060)), "the next packet of bulk");
}

#[test]
fn a_class_is_urgent_while_it_uses_less_than_seven_eighths_of_its_guarantee() {
    let mut urgency = Urgency::new(program(FAIR), Some(RATE));
    let _ = [0, 1].map(|ring| urgency.add_ring(ring, LaneId::from_index(ring)));
    let third = RATE.get() / 3;
    let run = |urgency: &mut Urgency, from_ms: u64, bps: u64| {
        for ms in from_ms..from_ms + 500 {
            let now = Instant::from_millis(ms);
            urgency.settle(now);
            urgency.charge(0, BitsPerSec(bps).bytes_in(Nanos::from_millis(1)), (now, now));
        }
        urgency.is_urgent(0)
    };
    assert!(run(&mut urgency, 0, third * 8 / 10));
    assert!(!run(&mut urgency, 500, third), "all of its guarantee");
    assert!(!run(&mut urgency, 1000, third * 3), "more than that");
    assert!(run(&mut urgency, 1500, third / 2), "again");
    assert!(urgency.is_active(Instant::from_millis(2050)) && !urgency.is_active(Instant::from_millis(2200)));
    let mut unknown = Urgency::new(program(FAIR), None);
    unknown.add_ring(0, LaneId(0));
    assert!(!unknown.is_urgent(0), "no rate, no guarantee");
}
