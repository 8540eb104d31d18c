//! Cases 8, 24 to 28 and 33: shares, limits and drops over time.

use std::collections::HashMap;

use weft_rank::{Scale, samples};
use weft_sched::HeadUse;

use super::cases::word;
use super::run::{Arrival, Both, arrivals};
use super::tree::Built;
use super::tree::Tree::{self, Class, Flows, Limited, Node, Priority, Wfq};

const SECOND: u64 = 1_000_000_000;

/// Megabits per second by class.
fn megabits(both: &mut Both, classes: &[&str], span: u64) -> Vec<f64> {
    let bytes: HashMap<String, u64> = both.share(classes, span);
    let rate = |class: &&str| *bytes.get(*class).unwrap_or(&0) as f64 * 8000.0 / span as f64;
    classes.iter().map(rate).collect()
}

/// A link of so many megabits per second.
fn link(tree: &Tree, megabits: u64) -> Both {
    at_rate(&tree.build(), megabits)
}

fn at_rate(built: &Built, megabits: u64) -> Both {
    let mut both = Both::new(built);
    both.byte_ps = 8_000_000 / megabits;
    both
}

#[track_caller]
fn close(found: &[f64], expected: &[f64], within: f64) {
    let fits = |(found, expected): (&f64, &f64)| (found - expected).abs() <= within;
    assert!(
        found.len() == expected.len() && found.iter().zip(expected).all(fits),
        "{found:?}, not {expected:?}"
    );
}

fn hpfq(node: impl Fn(Vec<(Tree, u32)>) -> Tree) -> Tree {
    let left = node(vec![(Class("A"), 3), (Class("B"), 7)]);
    let right = node(vec![(Class("C"), 4), (Class("D"), 6)]);
    node(vec![(left, 1), (right, 9)])
}

fn stfq(children: Vec<(Tree, u32)>) -> Tree {
    let children = children.into_iter().map(|(child, weight)| (child, vec![u64::from(weight)])).collect();
    Node(samples::stfq(), HeadUse::Hidden, children)
}

#[test]
fn case_8_hierarchical_shares() {
    let round =
        "packet A 1000 class A\npacket B 1000 class B\npacket C 1000 class C\npacket D 1000 class D\n";
    for tree in [hpfq(Wfq), hpfq(stfq)] {
        let text: Vec<Arrival> = arrivals(&round.repeat(700));
        let mut both = Both::new(&tree.build());
        text.iter().for_each(|arrival| both.arrive(arrival));
        let order: Vec<String> = (0..1000).map(|_| both.turn().expect("a packet").0).collect();
        // After nine packets of the right side both sides have the same tag, and the reference of the left went in first.
        // (The corpus has D before B: its model had fractions in floating point.)
        assert_eq!(order[..12].concat(), "ACDDCDCDDCBD");
        let count = |class: &str| order.iter().filter(|name| *name == class).count();
        assert_eq!(["A", "B", "C", "D"].map(count), [30, 70, 360, 540]);
    }
}

#[test]
fn case_24_a_limit_in_the_tree_of_case_8() {
    let tree = |node: fn(Vec<(Tree, u32)>) -> Tree| {
        let left = node(vec![(Class("A"), 3), (Class("B"), 7)]);
        let right = Limited((5_000_000, 0), Box::new(node(vec![(Class("C"), 4), (Class("D"), 6)])));
        node(vec![(left, 1), (right, 9)])
    };
    for tree in [tree(Wfq), tree(stfq)] {
        let found = megabits(&mut link(&tree, 10), &["A", "B", "C", "D"], 10 * SECOND);
        close(&found, &[1.5, 3.5, 2.0, 3.0], 0.01);
    }
}

#[test]
fn case_25_limits() {
    let mut flat = Wfq(vec![(Class("A"), 1), (Class("B"), 1), (Class("C"), 1)]).build();
    // A burst of two packets makes up for the waits for the busy link.
    flat.limit((10_000_000, 2000), &["A", "B"]);
    close(&megabits(&mut at_rate(&flat, 30), &["A", "B", "C"], SECOND), &[5.0, 5.0, 20.0], 0.05);
    close(&megabits(&mut at_rate(&flat, 30), &["A", "C"], SECOND), &[10.0, 20.0], 0.05);
    let tree = Priority(vec![Class("HI"), Limited((10_000_000, 0), Box::new(Class("LO")))]);
    let mut link = link(&tree, 100);
    close(&megabits(&mut link, &["HI", "LO"], SECOND), &[100.0, 0.0], 0.01);
    // HI ends; LO has no credit from the time in which it had to wait.
    for _ in 0..10 {
        let found = megabits(&mut link, &["LO"], SECOND / 10);
        assert!(found[0] <= 10.1, "{found:?}");
    }
}

#[test]
fn case_26_a_limit_over_some_jobs() {
    let jobs = Wfq(vec![(Class("J0"), 1), (Class("J1"), 1), (Class("J2"), 1)]);
    let mut built = Wfq(vec![(jobs, 1), (Class("T2"), 1), (Class("T3"), 1)]).build();
    built.limit((2_500_000_000, 2000), &["J1", "J2"]);
    let found = megabits(&mut at_rate(&built, 10_000), &["J0", "J1", "J2"], SECOND / 50);
    close(&found, &[7500.0, 1250.0, 1250.0], 20.0);
    let found = megabits(&mut at_rate(&built, 10_000), &["J0", "J1", "J2", "T2", "T3"], SECOND / 50);
    close(&found, &[1111.0, 1111.0, 1111.0, 3333.0, 3333.0], 20.0);
}

#[test]
fn case_27_floors() {
    let never = Scale::new(u32::MAX, 0).word();
    let gigabit = |rate: u64| word(rate * 1_000_000_000);
    for (weights, expected) in [([1, 1, 1], [4000.0, 3000.0, 3000.0]), ([1, 1, 8], [4000.0, 1000.0, 5000.0])]
    {
        let child = |class, least, weight: u64| (Class(class), vec![least, gigabit(10), weight, 3000]);
        let children = vec![
            child("A", gigabit(4), weights[0]),
            child("B", gigabit(1), weights[1]),
            child("C", never, weights[2]),
        ];
        let tree = Node(samples::floors(), HeadUse::Hidden, children);
        let found = megabits(&mut link(&tree, 10_000), &["A", "B", "C"], SECOND / 50);
        close(&found, &expected, 50.0);
    }
}

#[test]
fn case_28_codel() {
    let codel = (samples::codel(), vec![5_000_000, 100_000_000, 1514]);
    let in_leaf = Flows("K", codel.0.clone(), codel.1.clone(), None);
    let beside = Flows("K", samples::stfq(), vec![1], Some(codel));
    for tree in [in_leaf, beside] {
        let mut both = Both::new(&tree.build());
        both.byte_ps = 0;
        // A packet each 0.1 ms, which waits 10 ms.
        let packet = |tick: u64| arrivals(&format!("packet p{tick} 1000 class K")).remove(0);
        let (mut drops, mut last) = (Vec::new(), None);
        for tick in 0..3_500_u64 {
            both.now = tick * 100_000;
            both.arrive(&packet(tick));
            // What was dropped before is made up for, so that the wait stays.
            if tick >= 100 + drops.len() as u64 {
                let (name, _) = both.turn().expect("a packet");
                let name: u64 = name[1..].parse().expect("a number");
                if last.is_some_and(|last| name > last + 1) {
                    drops.push((tick - 100) / 10);
                }
                last = Some(name);
            }
        }
        assert_eq!(drops[..4], [100, 200, 270, 328], "{drops:?}");
    }
}

#[test]
fn case_33_a_tenant_that_lies_gains_nothing_outside() {
    let lying = Flows("vm1", samples::edf(), vec![5_000], None);
    let mut both = Both::new(&Wfq(vec![(lying, 1), (Class("vm2"), 1)]).build());
    let lie = arrivals("packet vm1 1000 class vm1 deadline 0us").remove(0);
    let honest = arrivals("packet vm2 1000 class vm2").remove(0);
    for _ in 0..200 {
        both.arrive(&lie);
        both.arrive(&honest);
    }
    let first: Vec<String> = (0..100).map(|_| both.turn().expect("a packet").0).collect();
    assert_eq!(first.iter().filter(|name| *name == "vm1").count(), 50);
}
