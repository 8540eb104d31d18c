//! The time of a turn: the same algorithm in Rust, as machine code by Cranelift, and interpreted.
//!
//! Five rounds, in each of which the three take turns; the medians are printed. `cargo bench -p weft-rank-cranelift`. With two
//! arguments, an algorithm and an executor, only this one runs: for counting instructions from outside.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant as Clock;
use weft_rank::arithmetic::{VIRTUAL_UNITS_PER_BYTE, over_sqrt};
use weft_rank::{Algorithm, Effects, Execute, Inputs, Metadatum, Part, Rank, samples};
use weft_rank_cranelift::compile;
use weft_units::{Bytes, Instant};

const ROUNDS: usize = 5;
const TURNS: u64 = 2_000_000;
/// The turns of a run as a test.
const TEST_TURNS: u64 = 1_000;

/// All parts of an algorithm as a function.
type Parts = fn(Part, &Inputs, &[u64], &mut [u64], &mut [u64]) -> Effects;

/// An algorithm in Rust.
struct Native(Parts);

impl Execute for Native {
    fn run(
        &self,
        part: Part,
        inputs: &Inputs,
        parameters: &[u64],
        node: &mut [u64],
        child: &mut [u64],
    ) -> Effects {
        (self.0)(part, inputs, parameters, node, child)
    }
}

fn ranked(first: u64, second: u64) -> Effects {
    Effects { present: Effects::RANK, rank: Rank::new(first, second), ..Effects::NONE }
}

fn stfq(part: Part, inputs: &Inputs, parameters: &[u64], node: &mut [u64], child: &mut [u64]) -> Effects {
    let ([v], [f, rest], [weight]) = (node, child, parameters) else { return Effects::NONE };
    match part {
        Part::Rank => return ranked((*f).max(*v), 0),
        Part::Begin => *v = (*v).max(inputs.rank.first),
        Part::Sent => {
            let carried = if inputs.rank.first == *f { *rest } else { 0 };
            let work = inputs.bytes.get().saturating_mul(VIRTUAL_UNITS_PER_BYTE).saturating_add(carried);
            let share = work.checked_div(*weight).unwrap_or(0);
            *rest = work.checked_rem(*weight).unwrap_or(work);
            *f = inputs.rank.first.saturating_add(share);
        }
        _ => {}
    }
    Effects::NONE
}

fn drr(part: Part, inputs: &Inputs, parameters: &[u64], node: &mut [u64], child: &mut [u64]) -> Effects {
    let ([round], [turn, fresh, credit], [quantum]) = (node, child, parameters) else { return Effects::NONE };
    match part {
        Part::Rank => return ranked(*turn, *fresh),
        Part::Begin => (*round, *fresh) = (*turn, 0),
        Part::Sent => {
            let after = (*credit as i64).saturating_sub(inputs.bytes.get() as i64);
            *credit = after as u64;
            if after <= 0 {
                let owed = (*quantum as i64).saturating_sub(after) as u64;
                let rounds = owed.checked_div(*quantum).unwrap_or(0);
                *credit = after.saturating_add(rounds.saturating_mul(*quantum) as i64) as u64;
                (*turn, *fresh) = (turn.saturating_add(rounds), 1);
            }
        }
        _ => {}
    }
    Effects::NONE
}

fn lstf(part: Part, inputs: &Inputs, parameters: &[u64], _: &mut [u64], _: &mut [u64]) -> Effects {
    match (part, parameters) {
        (Part::Rank, [slack]) => {
            let slack = inputs.head.get(Metadatum::Slack).unwrap_or(*slack);
            ranked(inputs.head.value(Metadatum::Arrived).saturating_add(slack), 0)
        }
        _ => Effects::NONE,
    }
}

fn codel(part: Part, inputs: &Inputs, parameters: &[u64], node: &mut [u64], _: &mut [u64]) -> Effects {
    const NEVER: u64 = u64::MAX;
    let ([above, next, count], [target, interval, least]) = (node, parameters) else { return Effects::NONE };
    if part != Part::Fetched {
        return Effects::NONE;
    }
    let now = inputs.now.as_nanos();
    let sojourn = now.saturating_sub(inputs.packet.value(Metadatum::Arrived));
    let mut drops = false;
    if sojourn < *target || inputs.queued_bytes.get() <= *least {
        (*above, *next) = (NEVER, NEVER);
    } else if *above == NEVER {
        *above = now.saturating_add(*interval);
    } else if *next == NEVER {
        drops = *above <= now;
        if drops {
            (*count, *next) = (1, now.saturating_add(*interval));
        }
    } else if *next <= now {
        drops = true;
        *count = count.saturating_add(1);
        *next = next.saturating_add(over_sqrt(*interval, *count));
    }
    Effects { present: if drops { Effects::DROP } else { 0 }, ..Effects::NONE }
}

/// An algorithm with its twin in Rust, its parameters and the parts of a turn.
struct Case {
    algorithm: Algorithm,
    native: Native,
    parameters: Vec<u64>,
    turn: &'static [Part],
}

fn cases() -> Vec<Case> {
    use Part::{Begin, Fetched, Rank, Sent};
    let case = |algorithm, native, parameters: &[u64], turn| Case {
        algorithm,
        native: Native(native),
        parameters: parameters.to_vec(),
        turn,
    };
    vec![
        case(samples::stfq(), stfq, &[3], &[Begin, Sent, Rank]),
        case(samples::drr(), drr, &[1522], &[Begin, Sent, Rank]),
        case(samples::lstf(), lstf, &[10_000_000], &[Rank]),
        case(samples::codel(), codel, &[5_000_000, 100_000_000, 1514], &[Fetched]),
    ]
}

/// Runs turns, and returns a number that depends on all of them.
fn turns(case: &Case, execute: &dyn Execute, count: u64) -> u64 {
    let initial = |fields: &[weft_rank::Field]| fields.iter().map(|field| field.initial).collect::<Vec<_>>();
    let (mut node, mut child) = (initial(&case.algorithm.node), initial(&case.algorithm.child));
    let (mut inputs, mut sum) = (Inputs::default(), 0_u64);
    inputs.queued_bytes = Bytes(100_000);
    for turn in 0..count {
        let now = turn * 1200;
        inputs.now = Instant::from_nanos(now);
        inputs.bytes = Bytes(64 + ((turn * 7919) & 1023));
        inputs.packet.set(Metadatum::Arrived, now.saturating_sub(turn & 0xff_ffff));
        inputs.head.set(Metadatum::Arrived, now);
        if turn & 1 == 0 {
            inputs.head.set(Metadatum::Slack, turn & 0xffff);
        } else {
            inputs.head.clear(Metadatum::Slack);
        }
        for part in case.turn {
            let effects = execute.run(*part, black_box(&inputs), &case.parameters, &mut node, &mut child);
            inputs.rank = effects.rank().unwrap_or(inputs.rank);
            sum = sum.wrapping_mul(31).wrapping_add(effects.present ^ effects.rank.first);
        }
    }
    let state = node.iter().chain(&child).fold(sum, |sum, word| sum.wrapping_mul(31).wrapping_add(*word));
    black_box(state)
}

fn median(mut samples: [f64; ROUNDS]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[ROUNDS / 2]
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    // `cargo test` runs benchmarks too, to see that they work.
    let measures = std::env::args().any(|word| word == "--bench") || !wanted.is_empty();
    let count = if measures { TURNS } else { TEST_TURNS };
    println!("nanoseconds a turn, medians of {ROUNDS} rounds");
    println!("{:8} {:>9} {:>9} {:>11} {:>16}", "", "Rust", "Cranelift", "interpreter", "Cranelift / Rust");
    for case in cases() {
        let code = compile(&[Arc::new(case.algorithm.clone())]).expect("machine code");
        let executors: [(&str, &dyn Execute); 3] =
            [("native", &case.native), ("cranelift", &code[0]), ("interpreter", &case.algorithm)];
        if let [algorithm, executor] = &wanted[..] {
            let chosen =
                executors.iter().filter(|(name, _)| *algorithm == case.algorithm.name && name == executor);
            chosen.for_each(|(_, execute)| println!("{}", turns(&case, *execute, count)));
            continue;
        }
        let mut samples = [[0.0; 3]; ROUNDS];
        let mut results = Vec::new();
        for round in &mut samples {
            for ((_, execute), sample) in executors.iter().zip(round) {
                let start = Clock::now();
                results.push(turns(&case, *execute, count));
                *sample = start.elapsed().as_nanos() as f64 / count as f64;
            }
        }
        assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{}: results differ", case.algorithm.name);
        let [native, cranelift, interpreter] = [0, 1, 2].map(|of| median(samples.map(|round| round[of])));
        let ratio = cranelift / native;
        println!("{:8} {native:9.2} {cranelift:9.2} {interpreter:11.2} {ratio:16.2}", case.algorithm.name);
    }
}
