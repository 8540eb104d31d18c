//! Drains in virtual time: the state machine over the engine, without rings or a kernel.

use super::{Drains, Step};
use crate::counters::DRAIN;
use crate::worker::Engine;
use weft_policy::{CompileOptions, Source, compile};
use weft_sched::{Next, PolicyTree};
use weft_units::{Bytes, FlowId, Instant, LaneId, Nanos, RingId};

/// A policy's tree with a ring in each lane, and the lanes by the names of their classes.
struct Bench {
    tree: PolicyTree,
    drains: Drains,
    limit: Nanos,
    now: Instant,
    /// Packets that wait, and that are done, by lane.
    waiting: Vec<u64>,
    done: Vec<u64>,
    order: Vec<usize>,
}

const MS: Nanos = Nanos::from_millis(1);
/// The classes `a` and `b` are lanes 0 and 1.
const A: usize = 0;
const B: usize = 1;

impl Bench {
    fn new(text: &str) -> Self {
        let compiled = compile(Source { name: "test", text }, &CompileOptions::default());
        let policy = compiled.policy.unwrap_or_else(|| panic!("{text}: {:?}", compiled.diagnostics));
        let mut tree = PolicyTree::new(&policy.program).expect("a tree");
        let lanes = policy.program.lanes.len();
        for lane in 0..lanes {
            assert_eq!(tree.add_ring(LaneId(lane as u32), RingId(0)).expect("a ring"), FlowId(lane as u32));
        }
        let (drains, limit) = (Drains::default(), DRAIN);
        let now = Instant::from_secs(1);
        Self { tree, drains, limit, now, waiting: vec![0; lanes], done: vec![0; lanes], order: Vec::new() }
    }

    fn arrive(&mut self, ring: usize, packets: u64) {
        self.waiting[ring] += packets;
        self.tree.activate(FlowId(ring as u32));
    }

    /// A turn, which takes a millisecond, and a look at ring `b`. A flow of `a` waits for `b` until `until`.
    fn step(&mut self, until: u64) -> Option<Step> {
        if let Next::Turn(turn) = self.tree.next(self.now) {
            let ring = turn.flow().index();
            self.waiting[ring] -= 1;
            self.done[ring] += 1;
            self.order.push(ring);
            self.tree.finish(turn, Bytes(1000), self.waiting[ring] > 0, self.now).expect("outstanding");
        }
        self.now += MS;
        let awaited = Some((LaneId(A as u32), until));
        let step = self.drains.look(B, (self.done[B], awaited), (self.now, self.limit));
        match step {
            Some(Step::Escort(lane)) if self.tree.may_escort(LaneId(B as u32), lane) => {
                self.tree.move_ring(FlowId(B as u32), lane);
                self.drains.escorted(B, LaneId(B as u32));
            }
            Some(Step::Home(lane)) => self.tree.move_ring(FlowId(B as u32), lane),
            _ => {}
        }
        self.tree.check_invariants().expect("sound");
        step
    }
}

const PRIORITY: &str = "class a = mark 1\nclass b = mark 2\nroot = priority { a, b, default }\n";

/// The trap of drains: below a busy priority the ring would never be empty.
#[test]
fn the_limit_ends_a_drain_below_a_busy_priority() {
    let mut bench = Bench::new(PRIORITY);
    bench.arrive(A, 100_000);
    bench.arrive(B, 5);
    let limit = DRAIN.get() / MS.get();
    for _ in 0..=limit {
        assert_eq!(bench.step(3), None);
    }
    assert_eq!(bench.done[B], 0, "the busy priority leaves nothing");
    assert_eq!(bench.step(3), Some(Step::Escort(LaneId(A as u32))));
    let mut turns = 0;
    while bench.step(3).is_none() {
        turns += 1;
        assert!(turns < 20, "the class that takes the flow sends what stands before");
    }
    // Both of the rest stay where they were, behind the priority.
    assert_eq!((bench.done[B], bench.waiting[B]), (3, 2));
    for _ in 0..1000 {
        assert_eq!(bench.step(3), None);
    }
    assert_eq!(bench.done[B], 3);
    assert_eq!(bench.tree.lane_of(FlowId(B as u32)), Some(LaneId(B as u32)));
}

#[test]
fn a_ring_that_drains_in_time_is_left_alone() {
    let mut bench = Bench::new(PRIORITY);
    bench.arrive(A, 1000);
    bench.arrive(B, 5);
    for _ in 0..2000 {
        assert_eq!(bench.step(5), None);
    }
    assert_eq!((bench.done[B], bench.drains.longest()), (5, (0, None)));
    // A later wait has a separate limit, from its own begin.
    bench.arrive(A, 100_000);
    bench.arrive(B, 1);
    let begin = bench.now;
    while bench.step(6).is_none() {}
    assert!(bench.now.saturating_since(begin) > DRAIN);
}

#[test]
fn no_limit_is_passed_by_an_escort() {
    let mut bench = Bench::new(
        &PRIORITY
            .replace("{ a, b,", "{ a, slow,")
            .replace("default }", "default }\nslow = limit 8kbps burst 0 of b"),
    );
    bench.arrive(B, 100);
    let begin = bench.now;
    for _ in 0..60_000 {
        bench.step(100);
    }
    let seconds = bench.now.saturating_since(begin).get() / 1_000_000_000;
    assert!(bench.done[B] <= seconds + 1, "{} packets of a second each in {seconds} s", bench.done[B]);
    // Both pass the limit: the ring may go by either.
    let both = PRIORITY.replace(
        "root = priority { a, b, default }",
        "root = limit 1gbps of p\np = priority { a, b, default }",
    );
    let mut bench = Bench::new(&both);
    assert!(bench.tree.may_escort(LaneId(B as u32), LaneId(A as u32)));
    assert!(!bench.tree.may_escort(LaneId(B as u32), LaneId(99)), "no such lane");
    bench.arrive(B, 1);
    assert_eq!(bench.step(1), None);
}

#[test]
fn a_limit_of_zero_escorts_at_the_second_look() {
    let mut bench = Bench::new(PRIORITY);
    bench.limit = Nanos::ZERO;
    bench.arrive(A, 100);
    bench.arrive(B, 1);
    assert_eq!(bench.step(1), None);
    assert_eq!(bench.step(1), Some(Step::Escort(LaneId(A as u32))));
}
