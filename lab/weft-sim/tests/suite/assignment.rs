//! Queue assignments: their rules, and the resulting unfairness.

use proptest::prelude::*;
use weft_sim::assignment::{FlowFacts, NAMES, Occupancy, QueueAssignment, build};
use weft_sim::ids::{CoreId, StreamId};
use weft_units::{Bytes, TxQueueId};

fn assignment(name: &str) -> Box<dyn QueueAssignment> {
    build(name).expect("a known name")
}

fn flow(hash: u32) -> FlowFacts {
    FlowFacts { flow: StreamId(0), hash, weight: 1, before: None, core: CoreId(0) }
}

/// Returns queues with these numbers of flows, each of weight 1.
fn holding(flows: &[u32]) -> Vec<Occupancy> {
    let queue = |flows: &u32| Occupancy {
        weight: u64::from(*flows),
        flows: *flows,
        bytes: Bytes(1500 * u64::from(*flows)),
    };
    flows.iter().map(queue).collect()
}

fn all(queues: u32) -> Vec<TxQueueId> {
    (0..queues).map(TxQueueId).collect()
}

/// SplitMix64: hashes for the statistics.
fn random(state: &mut u64) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 32) as u32
}

/// Assigns flows that arrive one by one and stay; returns the number of flows per queue.
fn place(name: &str, flows: u32, queues: u32, seed: u64) -> Vec<u32> {
    let mut assignment = assignment(name);
    // Seeds are spread; neighbouring ones would draw from the same sequence.
    let mut state = seed.wrapping_mul(0xd134_2543_de82_ef95);
    let mut count = vec![0; queues as usize];
    for _ in 0..flows {
        let queue = assignment.assign(&flow(random(&mut state)), &all(queues), &holding(&count));
        count[queue.index()] += 1;
    }
    count
}

/// Returns the unfairness if used queues share the link equally and each queue's flows share its part: the greatest difference
/// between two flows over the fair share (NFM, Titan TR section 3).
fn unfairness(count: &[u32]) -> f64 {
    let used: Vec<f64> = count.iter().filter(|n| **n > 0).map(|n| f64::from(*n)).collect();
    let flows: f64 = used.iter().sum();
    let least = used.iter().copied().fold(f64::INFINITY, f64::min);
    let most = used.iter().copied().fold(0.0, f64::max);
    flows / used.len() as f64 * (1.0 / least - 1.0 / most)
}

fn mean_unfairness(name: &str, flows: u32) -> f64 {
    const SEEDS: u64 = 20_000;
    (0..SEEDS).map(|seed| unfairness(&place(name, flows, 8, seed))).sum::<f64>() / SEEDS as f64
}

/// Balls in bins. By hand: of three flows, two share a queue with probability 3 * 8 * 7 / 8^3, and NFM is then 3/2 * (1 - 1/2).
#[test]
fn hash_is_as_unfair_as_balls_in_bins() {
    let exact = 0.75 * 168.0 / 512.0;
    for (flows, expected, tolerance) in [(3, exact, 0.01), (12, 1.30, 0.02), (48, 1.85, 0.05)] {
        let mean = mean_unfairness("hash", flows);
        assert!((mean - expected).abs() < tolerance, "{flows} flows: {mean}");
    }
}

/// 12 flows in 8 queues: four queues with two, 12/8 * (1 - 1/2).
#[test]
fn dynamic_assignment_is_as_even_as_can_be() {
    for name in ["dqa", "round-robin"] {
        for (flows, expected) in [(3, 0.0), (8, 0.0), (12, 0.75), (48, 0.0)] {
            let nfm = unfairness(&place(name, flows, 8, 1));
            assert!((nfm - expected).abs() < 1e-12, "{name}, {flows} flows: {nfm}");
        }
    }
}

#[test]
fn two_choices_are_fairer_than_one_and_less_fair_than_all() {
    for (flows, all) in [(12, 0.75), (48, 0.0)] {
        let (one, two) = (mean_unfairness("hash", flows), mean_unfairness("two-choices", flows));
        assert!(all < two && two < 0.8 * one, "{flows} flows: {one} and {two}");
    }
}

/// Each queue is equally likely as the first candidate (all others empty) and as the remaining one when the first is full.
#[test]
fn both_choices_are_uniform_and_different() {
    const DRAWS: u32 = 80_000;
    let (mut state, queues) = (5, all(8));
    let mut pairs = [[0_u32; 8]; 8];
    let mut assignment = assignment("two-choices");
    for _ in 0..DRAWS {
        let facts = flow(random(&mut state));
        let first = assignment.assign(&facts, &queues, &[]).index();
        let mut full = vec![0; 8];
        full[first] = 1;
        let second = assignment.assign(&facts, &queues, &holding(&full)).index();
        pairs[first][second] += 1;
    }
    for (first, row) in pairs.iter().enumerate() {
        for (second, count) in row.iter().enumerate() {
            let expected = if first == second { 0.0 } else { f64::from(DRAWS) / 56.0 };
            // Five standard deviations of a count.
            assert!(
                (f64::from(*count) - expected).abs() <= 5.0 * expected.sqrt(),
                "{first} {second}: {count}"
            );
        }
    }
}

#[test]
fn hash_scales_as_the_kernel() {
    let mut hash = assignment("hash");
    // Computed by hand: 8 queues take the three top bits; 3 queues thirds of 2^32.
    let cases = [(0, 8, 0), (0x1fff_ffff, 8, 0), (0x2000_0000, 8, 1), (u32::MAX, 8, 7), (0x5555_5555, 3, 0)];
    for (value, queues, expected) in cases.into_iter().chain([(0x5555_5556, 3, 1), (0xaaaa_aaab, 3, 2)]) {
        assert_eq!(
            hash.assign(&flow(value), &all(queues), &[]),
            TxQueueId(expected),
            "{value:#x} of {queues}"
        );
    }
    let pool = [TxQueueId(6), TxQueueId(2)];
    assert_eq!(
        hash.assign(&flow(u32::MAX), &pool, &holding(&[0, 0, 9])),
        TxQueueId(2),
        "from the pool, full or not"
    );
}

#[test]
fn dqa_takes_the_first_empty_queue_or_the_first_of_the_lightest() {
    let mut dqa = assignment("dqa");
    let mut queue = |held: &[u32], allowed: &[u32]| {
        let allowed: Vec<_> = allowed.iter().map(|queue| TxQueueId(*queue)).collect();
        dqa.assign(&flow(0), &allowed, &holding(held)).0
    };
    assert_eq!(queue(&[1, 0, 0], &[0, 1, 2]), 1);
    assert_eq!(queue(&[3, 2, 2], &[0, 1, 2]), 1);
    assert_eq!(queue(&[3, 2, 2], &[0, 2, 1]), 2, "in the order of the pool");
    assert_eq!(queue(&[3, 0, 2], &[0, 2]), 2, "of the pool only");
    // By weight, not by number of flows.
    let heavy = Occupancy { weight: 10, flows: 1, bytes: Bytes(1) };
    let light = Occupancy { weight: 3, flows: 3, bytes: Bytes(9) };
    assert_eq!(dqa.assign(&flow(0), &all(2), &[heavy, light]), TxQueueId(1));
}

#[test]
fn overflow_has_one_queue_for_all_that_find_none_empty() {
    assert_eq!(place("overflow", 12, 8, 1), [1, 1, 1, 1, 1, 1, 1, 5]);
    let mut overflow = assignment("overflow");
    assert_eq!(overflow.assign(&flow(0), &all(3), &holding(&[1, 0, 4])), TxQueueId(1));
}

proptest! {


    /// Flows arrive and leave their queue when they have nothing outstanding. While they only arrive, no two queues differ by
    /// more than one, so none is empty while another has two.
    #[test]
    fn dqa_leaves_no_queue_empty_while_another_has_two(queues in 1..20_u32, flows in 0..60_u32) {
        let mut dqa = assignment("dqa");
        let mut count = vec![0; queues as usize];
        for hash in 0..flows {
            let queue = dqa.assign(&flow(hash), &all(queues), &holding(&count));
            count[queue.index()] += 1;
            prop_assert!(count.iter().max() <= count.iter().min().map(|least| least + 1).as_ref());
        }
    }

    /// The same with departures: an arriving flow never joins another flow while a queue is empty.
    #[test]
    fn dqa_and_overflow_never_pass_an_empty_queue_by(
        steps in proptest::collection::vec(proptest::option::of(0..8_usize), 1..200),
    ) {
        for name in ["dqa", "overflow"] {
            let mut assignment = assignment(name);
            let mut count = vec![0_u32; 8];
            for step in &steps {
                if let Some(leaves) = step {
                    count[*leaves] = count[*leaves].saturating_sub(1);
                    continue;
                }
                let empty = count.contains(&0);
                let queue = assignment.assign(&flow(0), &all(8), &holding(&count)).index();
                prop_assert!(!empty || count[queue] == 0);
                count[queue] += 1;
            }
        }
    }

    /// An assignment always returns one of the allowed queues.
    #[test]
    fn every_answer_is_allowed(
        hashes in proptest::collection::vec(any::<u32>(), 1..20),
        allowed in proptest::collection::vec(0..40_u32, 1..20),
        held in proptest::collection::vec(0..5_u32, 0..40),
    ) {
        let allowed: Vec<_> = allowed.into_iter().map(TxQueueId).collect();
        for name in NAMES {
            let mut assignment = assignment(name);
            for hash in &hashes {
                prop_assert!(allowed.contains(&assignment.assign(&flow(*hash), &allowed, &holding(&held))));
                assignment.assign(&flow(*hash), &[], &[]);
            }
        }
    }
}

#[test]
fn names_are_known_and_others_are_not() {
    let dynamic: Vec<_> = NAMES.iter().map(|name| (*name, assignment(name).is_dynamic())).collect();
    let expected =
        [("hash", false), ("dqa", true), ("overflow", true), ("round-robin", false), ("two-choices", true)];
    assert_eq!(dynamic, expected);
    assert!(build("Hash").is_none());
}
