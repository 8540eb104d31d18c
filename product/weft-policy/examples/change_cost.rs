//! The cost of a change of one line to a policy of many classes, by part.
//!
//! `cargo run --release -p weft-policy --example change_cost -- [CLASSES]`
#![allow(clippy::disallowed_methods, reason = "it measures time")]

use std::fmt::Write;
use std::time::{Duration, Instant};
use weft_policy::{CompileOptions, CompiledPolicy, Renumbered, Source, compile, parse, renumber};
use weft_sched::PolicyTree;
use weft_units::{LaneId, Weight};

/// The flows that wait during the change.
const FLOWS: usize = 4096;

/// The shortest of this many runs counts.
const RUNS: usize = 5;

fn main() {
    let classes: usize = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(500);
    let (old, new) = (text(classes, 1), text(classes, 2));
    show("parse", shortest(|| parse(Source { name: "new", text: &new })));
    let compiled = |text: &str| {
        let compilation = compile(Source { name: "policy", text }, &CompileOptions::default());
        compilation.policy.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics))
    };
    show("compile, with parse", shortest(|| compiled(&new)));
    let (old, new) = (compiled(&old), compiled(&new));
    show("renumber, with a copy", shortest(|| renumber(&old, new.clone())));
    let change = renumber(&old, new);
    assert_eq!(change.steps.len(), 1, "{:?}", change.steps);
    let prepare = || PolicyTree::prepare(&change.policy.program, &change.heirs, FLOWS).expect("sound");
    show("prepare", shortest(prepare));
    show("change, in the worker", (0..RUNS).map(|_| swap(&old, &change)).min().unwrap_or_default());
}

/// The time of the exchange alone, with a flow backlogged in every lane up to [`FLOWS`].
fn swap(old: &CompiledPolicy, change: &Renumbered) -> Duration {
    let mut tree = PolicyTree::new(&old.program).expect("sound");
    for at in 0..FLOWS {
        let lane = LaneId::from_index(at % old.program.lanes.len());
        let flow = tree.add_flow(lane, Weight::ONE).expect("a lane");
        tree.activate(flow);
    }
    let prepared = PolicyTree::prepare(&change.policy.program, &change.heirs, FLOWS).expect("sound");
    let begin = Instant::now();
    let changed = tree.change(prepared, weft_units::Instant::ZERO);
    let took = begin.elapsed();
    assert!(changed.is_ok());
    took
}

/// A policy of `classes` classes in groups of a hundred, the first of which has weight `weight`.
fn text(classes: usize, weight: usize) -> String {
    let mut text = String::new();
    for class in 0..classes {
        let [a, b] = [class / 250, class % 250];
        writeln!(text, "class c{class} = tcp and from 10.{a}.{b}.0/24 and dport 1000..2000")
            .expect("a string");
    }
    let groups = classes.div_ceil(100);
    for group in 0..groups {
        let children = (group * 100..classes.min((group + 1) * 100))
            .map(|class| format!("c{class}: {}", if class == 0 { weight } else { 1 }));
        let children: Vec<String> = children.collect();
        writeln!(text, "g{group} = wfq {{ {} }}", children.join(", ")).expect("a string");
    }
    let groups: Vec<String> = (0..groups).map(|group| format!("g{group}: 1")).collect();
    writeln!(text, "root = wfq {{ {} }}", groups.join(", ")).expect("a string");
    text
}

fn shortest<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut run = || {
        let begin = Instant::now();
        let result = work();
        let took = begin.elapsed();
        drop(result);
        took
    };
    (0..RUNS).map(|_| run()).min().unwrap_or_default()
}

fn show(part: &str, time: Duration) {
    println!("{part:24} {:>9.3} ms", time.as_secs_f64() * 1e3);
}
