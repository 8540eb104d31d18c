//! `loom-fig2 --measured`: a rate limit for an application of several threads, on real packets.
//!
//! The software NIC has a queue for each of eight threads (a cgroup and a class each). Limits are on each queue with
//! the whole rate, on each queue with its part of the rate, or on all queues together. Each thread sends bulk flows.
//! Their numbers are not ours to choose: the first 16 hexadecimal digits of pi after the point, modulo 8, which leave
//! one thread without a flow.

use super::{MeasuringOptions, ReproduceError};
use crate::experiments::loom::{DemoError, DemoOptions, ModeOutcome, run};
use core::fmt::Write as _;
use weft_facts::stats;
use weft_policy::{CompileOptions, Source, compile};
use weft_report::judgement::Judgement;
use weft_report::reproduce::{Experiment, TableCell};
use weft_report::rounds::Rounds;
use weft_units::{BitsPerSec, Nanos};

/// The experiment's id.
pub(super) const ID: &str = "loom-fig2";
/// The number of measured rows.
pub(super) const ROWS: usize = 3;
const COLUMN: &str = "of_limit";
const THREADS: [(&str, u32); 8] = [
    ("thread0", 5),
    ("thread1", 0),
    ("thread2", 3),
    ("thread3", 3),
    ("thread4", 1),
    ("thread5", 2),
    ("thread6", 1),
    ("thread7", 1),
];
/// The link's rate, and the limit: a fifth, as the paper's 2 of 10 Gb/s, and so slow that a machine in other use shows it.
const LINK: BitsPerSec = BitsPerSec(50_000_000);
const LIMIT: BitsPerSec = BitsPerSec(10_000_000);
/// Time left out at the beginning, for connections and slow start.
const WARM_UP: Nanos = Nanos::from_secs(2);
/// The rate over the limit up to which a run counts as accurate: a limit is exact on the wire, but windows cut
/// packets at their edges.
const ABOVE: f64 = 1.01;
const BELOW: f64 = 0.975;
/// The greatest fraction of time without the worker at which the lower bound is still judged.
const LOST: f64 = 0.01;

/// Returns the rows, each with the policy that makes its limits.
fn rows() -> [(&'static str, String); ROWS] {
    let each = LIMIT.get() / THREADS.len() as u64;
    [("MQ-2G", per_queue(LIMIT.get())), ("MQ-125M", per_queue(each)), ("Loom", together())]
}

fn classes() -> String {
    let mut text = String::new();
    for (name, _) in THREADS {
        let _ = writeln!(text, "class {name} = cgroup \"{name}\"");
    }
    text
}

fn per_queue(bps: u64) -> String {
    let children: Vec<String> =
        THREADS.iter().map(|(name, _)| format!("limit {bps}bps of fair of {name}: 1")).collect();
    format!("{}root = wfq {{ {} }}\n", classes(), children.join(", "))
}

fn together() -> String {
    let children: Vec<String> = THREADS.iter().map(|(name, _)| format!("fair of {name}: 1")).collect();
    format!("{}root = limit {}bps of wfq {{ {} }}\n", classes(), LIMIT.get(), children.join(", "))
}

/// Measures the three rows, and adds the paper's statements as claims.
pub(super) fn fill(
    experiment: &mut Experiment,
    how: &MeasuringOptions,
    runs: u32,
    cancelled: &(dyn Fn() -> bool + Sync),
    progress: &mut dyn FnMut(usize),
) -> Result<(), ReproduceError> {
    let flows = THREADS.iter().map(|(_, flows)| flows).sum();
    let rows = rows();
    let rounds = Rounds::measure(runs, &rows, &|| false, |turn| {
        let seen = measure(&turn.variant.1, how.measure.settings.duration, cancelled)?;
        progress(turn.done as usize);
        Ok::<_, ReproduceError>(seen)
    })?;
    for (at, (row, _)) in rows.iter().enumerate() {
        let mut cell = TableCell {
            row: (*row).to_owned(),
            column: COLUMN.to_owned(),
            flows,
            unit: "1".to_owned(),
            ..TableCell::default()
        };
        cell.take_measured(rounds.figures(at, |seen| seen.of_limit));
        experiment.cells.push(cell);
    }
    claims(experiment, &rounds);
    experiment.notes.push(format!(
        "measured: the software NIC at {LINK}, eight threads of {flows} bulk flows in all, a limit of {LIMIT}; `{COLUMN}` is the rate \
         that they sent on the wire over the limit"
    ));
    Ok(())
}

/// The figures of a run.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Rate that all threads sent, over the limit.
    of_limit: f64,
    /// The fraction of the run in which the worker was ready but did not run.
    lost: f64,
}

/// Runs until the senders keep a backlog for a while; a machine in other use may need a longer run.
fn measure(
    policy: &str,
    duration: Nanos,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Seen, ReproduceError> {
    for longer in [1, 2, 4] {
        if let Some(seen) = measure_once(policy, Nanos(longer * duration.get()), cancelled)? {
            return Ok(seen);
        }
    }
    let reason =
        "the senders never kept packets waiting for half a second: this machine has no processor for them";
    Err(ReproduceError::NotHere { id: ID.to_owned(), reason: reason.to_owned() })
}

/// `None` when no window was steady.
fn measure_once(
    policy: &str,
    duration: Nanos,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Seen>, ReproduceError> {
    let failed = |reason: String| ReproduceError::Native { id: ID.to_owned(), reason };
    let compilation = compile(Source { name: "limit", text: policy }, &CompileOptions::default());
    let first = compilation.diagnostics.first().map(ToString::to_string);
    let policy = compilation.policy.ok_or_else(|| failed(first.unwrap_or_default()))?;
    let options = DemoOptions::figure2(&THREADS, LINK, WARM_UP + duration);
    let outcomes = run(&policy, &options, &|| cancelled(), &mut |_| {}).map_err(|error| match error {
        DemoError::Interrupted => ReproduceError::Stopped,
        other => failed(other.to_string()),
    })?;
    Ok(outcomes.first().and_then(seen))
}

/// Returns the figures of the steady windows.
fn seen(outcome: &ModeOutcome) -> Option<Seen> {
    let (mut bytes, mut span) = (0, Nanos::ZERO);
    for window in outcome.windows.iter().filter(|window| window.steady && window.at >= WARM_UP) {
        bytes += window.wire.iter().map(|bytes| bytes.get()).sum::<u64>();
        span += window.span;
    }
    let seconds = span.as_secs_f64();
    let lost = outcome.totals.link_lost.as_secs_f64() / outcome.elapsed.as_secs_f64().max(1e-9);
    (seconds > 0.0).then(|| Seen { of_limit: bytes as f64 * 8.0 / seconds / LIMIT.get() as f64, lost })
}

fn claims(experiment: &mut Experiment, rounds: &Rounds<Seen>) {
    let text = |runs: &[f64]| runs.iter().map(|value| format!("{value:.3}")).collect::<Vec<_>>().join(", ");
    let [each, part, whole] = [0, 1, 2].map(|row| rounds.figures(row, |seen| seen.of_limit));
    let accurate = |row| accurate(&rounds.of(row).copied().collect::<Vec<_>>());
    let over = |runs: &[f64]| Judgement::of(stats::min(runs).is_some_and(|least| least > 1.1));
    experiment.claim_judged(
        "Measured: the limit at each queue over-utilises",
        "every run > 1.1 of the limit",
        text(&each),
        over(&each),
    );
    experiment.null_of_last("the limit is over all queues", &over(&whole));
    let under = |runs: &[f64]| Judgement::of(stats::max(runs).is_some_and(|most| most < 0.95));
    experiment.claim_judged(
        "Measured: its part at each queue under-utilises",
        "every run < 0.95 of the limit",
        text(&part),
        under(&part),
    );
    experiment.null_of_last("the limit is over all queues", &under(&whole));
    experiment.claim_judged(
        "Measured: Loom accurately limits all queues together",
        &format!("every run from {BELOW} to {ABOVE} of the limit"),
        text(&whole),
        accurate(2),
    );
    experiment.null_of_last("the limit is at each queue", &accurate(0));
}

/// Judges the accuracy. Too high a rate fails on any machine; too low a rate only where the worker could run.
fn accurate(runs: &[Seen]) -> Judgement {
    let within = |seen: &Seen| (BELOW..=ABOVE).contains(&seen.of_limit);
    let lost = runs.iter().map(|seen| seen.lost).fold(0.0, f64::max);
    if runs.iter().any(|seen| seen.of_limit > ABOVE) {
        Judgement::Fails
    } else if !runs.iter().all(within) && lost > LOST {
        Judgement::NotShown(format!(
            "the NIC's worker did not get to run in {:.1} % of the time",
            lost * 100.0
        ))
    } else {
        Judgement::of(runs.iter().all(within))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(values: [f64; 3], lost: f64) -> Vec<Judgement> {
        let mut experiment = Experiment::new(ID, "", "");
        claims(&mut experiment, &Rounds(vec![values.map(|of_limit| Seen { of_limit, lost }).to_vec()]));
        experiment.claims.iter().map(weft_report::reproduce::Claim::judgement).collect()
    }

    /// The null models of the claims: no claim is shown where all rows are alike.
    #[test]
    fn each_claim_fails_where_the_rows_are_alike() {
        use Judgement::{Fails, Holds, NotShown};
        assert_eq!(judged([5.0, 0.875, 1.0], 0.0), [Holds, Holds, Holds]);
        for (alike, values) in [("all as Loom", 1.0), ("no limit", 5.0), ("all as a part each", 0.875)] {
            let judged = judged([values; 3], 0.0);
            assert!(!judged.contains(&Holds), "{alike}: {judged:?}");
        }
        assert!(matches!(judged([5.0, 0.875, 0.9], 0.2)[2], NotShown(_)), "the machine was busy");
        assert_eq!(judged([5.0, 0.875, 1.2], 0.2)[2], Fails, "too much is wrong on any machine");
    }

    #[test]
    fn the_policies_compile() {
        for (row, text) in rows() {
            let compilation = compile(Source { name: row, text: &text }, &CompileOptions::default());
            assert!(compilation.policy.is_some(), "{row}: {:?}\n{text}", compilation.diagnostics);
        }
    }
}
