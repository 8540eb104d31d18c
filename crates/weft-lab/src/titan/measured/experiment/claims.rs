//! What the papers say of fairness, held against what was measured.

use super::cells::equal_packets_column;
use super::{Results, hash_row};
use crate::titan::measured::settings::RunSettings;
use std::collections::BTreeSet;
use weft_report::judgement::Judgement;
use weft_report::reproduce::{Claim, Experiment, TableCell};
use weft_report::stats;

/// Over a second, all of Titan is to be fairer than hashing by this factor. The report's own factors (C6 over T3 and TX3 in
/// Tables 3 and 5) are 1/6 and 1/75 with 12 flows, 1/2 and 1/18 with 48.
const LONG_FACTOR: f64 = 0.1;
/// The greatest NFM over a second that counts as fair.
const LONG_BOUND: f64 = 0.15;
/// Over a millisecond, what DSOS leaves of hashing's: at least 58 % are gone (ATC'17, abstract).
const SHORT_FACTOR: f64 = 0.42;

/// The part of the machine above which a run is short of processors.
const BUSY: f64 = 0.95;

/// Pairs of rows and the column in which the first is to be no fairer than the second; `hash` is the hash's row.
const ORDERS: [(&str, &str, &str); 10] = [
    ("nfm_1s", "hash", "T1"),
    ("nfm_1s", "T1", "T2"),
    ("nfm_1s", "T1", "T3"),
    ("nfm_1s", "hash", "XPS"),
    ("nfm_1s", "XPS", "TX2"),
    ("nfm_1s", "TX1", "TX2"),
    ("nfm_1s", "TX1", "TX3"),
    ("nfm_1ms", "hash", "T3"),
    ("nfm_1ms", "T2", "T3"),
    ("nfm_1ms", "TX2", "TX3"),
];

/// All claims about an experiment whose measured cells are filled. The same is asked at flow counts that the papers do not
/// have; orders that the papers' own numbers do not have are not asked for.
pub fn claims(experiment: &Experiment, results: &Results, settings: &RunSettings) -> Vec<Claim> {
    let flows: BTreeSet<u32> = results.runs.keys().map(|(_, flows)| *flows).collect();
    let here =
        |flows: &u32| experiment.cells.iter().any(|cell| cell.flows == *flows && cell.measured.is_some());
    let cells = Cells { experiment, hash: hash_row(settings.inner) };
    let judged = |flows: u32| {
        let busy = busiest(results, flows);
        of_flows(&cells, flows, settings)
            .into_iter()
            .map(move |claim| unless_short_of_processors(claim, busy))
    };
    flows.into_iter().filter(here).flat_map(judged).collect()
}

/// The part of the machine's processors that was not idle, in the busiest run with so many flows.
fn busiest(results: &Results, flows: u32) -> f64 {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let runs = results.runs.iter().filter(|((_, of), _)| *of == flows).flat_map(|(_, runs)| runs);
    runs.map(|run| run.cpu_percent / (100.0 * cores as f64)).fold(0.0, f64::max)
}

/// A claim that fails while the processors were busy all the time cannot be shown: flows that wait for a processor have no packets to share
/// the link with.
fn unless_short_of_processors(mut claim: Claim, busy: f64) -> Claim {
    if claim.judgement() == Judgement::Fails && busy > BUSY {
        let why = format!(
            "in one run the processors were busy for {:.0} % of the time, and flows waited for them",
            busy * 100.0
        );
        claim.not_shown = Some(why);
    }
    claim
}

struct Cells<'a> {
    experiment: &'a Experiment,
    hash: &'static str,
}

impl<'a> Cells<'a> {
    /// The measured cell of a row.
    fn get(&self, row: &str, column: &str, flows: u32) -> Option<(&'a TableCell, f64)> {
        let row = if row == "hash" { self.hash } else { row };
        let mut cells = self.experiment.cells.iter();
        let cell = cells.find(|cell| cell.row == row && cell.column == column && cell.flows == flows)?;
        Some((cell, cell.measured?))
    }
}

fn of_flows(cells: &Cells<'_>, flows: u32, settings: &RunSettings) -> Vec<Claim> {
    let mut claims = Vec::new();
    for row in ["T3", "TX3"] {
        let pair =
            |column: &str| Some((cells.get(row, column, flows)?.1, cells.get("hash", column, flows)?.1));
        if let Some((ours, hash)) = pair("nfm_1s") {
            claims.push(claim(
                format!("Measured, {flows} flows: NFM over 1 s of {row} is below a tenth of the hash's"),
                format!("< {LONG_FACTOR} * hash"),
                format!("{ours:.3} against {hash:.3}"),
                ours < LONG_FACTOR * hash,
            ));
        }
        if let Some((_, ours)) = cells.get(row, "nfm_1s", flows) {
            claims.push(claim(
                format!("Measured, {flows} flows: NFM over 1 s of {row} is small"),
                format!("< {LONG_BOUND}"),
                format!("{ours:.3}"),
                ours < LONG_BOUND,
            ));
        }
        for column in [Some("nfm_1ms".to_owned()), equal_packets_column(settings)].into_iter().flatten() {
            if let Some((ours, hash)) = pair(&column) {
                claims.push(claim(
                    format!("Measured, {flows} flows: {column} of {row} is at least 58 % below the hash's"),
                    format!("<= {SHORT_FACTOR} * hash"),
                    format!("{ours:.3} against {hash:.3}"),
                    ours <= SHORT_FACTOR * hash,
                ));
            }
        }
    }
    claims.extend(ORDERS.iter().filter_map(|(column, more, less)| order(cells, flows, column, more, less)));
    claims
}

/// That `more` has no smaller value than `less`; `None` where either was not measured, or the paper's own numbers are the other way
/// round. Values count as equal within half of the column's floor, as in the tables. Noise decides nothing: where the means are not known
/// well enough to tell, the claim cannot be shown.
fn order(cells: &Cells<'_>, flows: u32, column: &str, more: &str, less: &str) -> Option<Claim> {
    let (a, above) = cells.get(more, column, flows)?;
    let (b, below) = cells.get(less, column, flows)?;
    if a.published.zip(b.published).is_some_and(|(above, below)| above < below) {
        return None;
    }
    let equal = a.floor.max(b.floor) / 2.0;
    let excess = below - above - equal;
    let judgement = match error_of_mean(&a.measured_runs).zip(error_of_mean(&b.measured_runs)) {
        None => Judgement::NotShown("a single run has no spread; make more (--seeds)".to_owned()),
        Some((of_above, of_below)) => {
            let known_to = ERRORS * of_above.hypot(of_below);
            match (excess + known_to <= 0.0, excess - known_to > 0.0) {
                (true, _) => Judgement::Holds,
                (_, true) => Judgement::Fails,
                _ => Judgement::NotShown(format!(
                    "the difference of the means is known to within {known_to:.3} only; make more runs (--seeds)"
                )),
            }
        }
    };
    let mut claim = claim(
        format!("Measured, {flows} flows: {column} of {less} is no greater than that of {more}"),
        format!("<= {more} + {equal:.3}"),
        format!("{below:.3} against {above:.3}"),
        judgement == Judgement::Holds,
    );
    if let Judgement::NotShown(reason) = judgement {
        claim.not_shown = Some(reason);
    }
    Some(claim)
}

/// Standard errors within which a difference of means is known: 95 of 100 lie there.
const ERRORS: f64 = 2.0;

/// The standard error of the mean of runs; `None` for fewer than two, of which nobody knows it.
fn error_of_mean(runs: &[f64]) -> Option<f64> {
    let mean = stats::mean(runs).filter(|_| runs.len() > 1)?;
    let squares: f64 = runs.iter().map(|run| (run - mean).powi(2)).sum();
    Some((squares / (runs.len() - 1) as f64 / runs.len() as f64).sqrt())
}

fn claim(statement: String, expected: String, figures: String, holds: bool) -> Claim {
    Claim { statement, expected, simulated: figures, holds, null: None, not_shown: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_mean_is_the_deviation_of_a_sample_over_the_root_of_its_size() {
        assert_eq!(error_of_mean(&[]), None);
        assert_eq!(error_of_mean(&[3.0]), None);
        let error = error_of_mean(&[1.0, 2.0, 3.0, 4.0]);
        assert!(error.is_some_and(|error| (error - (5.0f64 / 12.0).sqrt()).abs() < 1e-12));
    }

    #[test]
    fn only_a_claim_that_fails_on_busy_processors_cannot_be_shown() {
        let claim = |holds| claim("fair".to_owned(), "< 1".to_owned(), "2".to_owned(), holds);
        assert_eq!(unless_short_of_processors(claim(true), 1.0).judgement(), Judgement::Holds);
        assert_eq!(unless_short_of_processors(claim(false), 0.5).judgement(), Judgement::Fails);
        let unseen = unless_short_of_processors(claim(false), 0.99).judgement();
        assert!(matches!(&unseen, Judgement::NotShown(why) if why.contains("99 %")), "{unseen:?}");
    }
}
