//! The papers' statements about fairness, judged on measurements.

use super::{Results, hash_row};
use crate::experiments::titan::measured::settings::RunSettings;
use std::collections::BTreeSet;
use weft_facts::stats;
use weft_report::judgement::Judgement;
use weft_report::reproduce::{Claim, Experiment, TableCell};

/// The factor that all of Titan must be fairer than hashing by, over a second. The report's factors (C6 over T3 and
/// TX3 in Tables 3 and 5) are 1/6 and 1/75 with 12 flows, 1/2 and 1/18 with 48.
const LONG_FACTOR: f64 = 0.1;
/// The greatest NFM over a second that counts as fair.
const LONG_BOUND: f64 = 0.15;
/// The factor over a millisecond that DSOS leaves of hashing's NFM, which falls by at least 58 % (ATC'17, abstract).
const SHORT_FACTOR: f64 = 0.42;

/// Pairs of rows, and the column in which the first must be no fairer than the second; `hash` is the hash's row.
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

/// Returns all claims about an experiment whose measured cells are filled. Flow counts that the papers do not have
/// get the same claims; orders that the papers' own numbers contradict get none.
pub fn claims(experiment: &Experiment, results: &Results, settings: &RunSettings) -> Vec<Claim> {
    let flows: BTreeSet<u32> = results.runs.keys().map(|(_, flows)| *flows).collect();
    let here =
        |flows: &u32| experiment.cells.iter().any(|cell| cell.flows == *flows && cell.measured.is_some());
    let cells = Cells { experiment, hash: hash_row(settings.inner) };
    let judged = |flows: u32| {
        let waited = longest_core_wait(results, flows);
        of_flows(&cells, flows, settings).into_iter().map(move |claim| unless_short_of_cores(claim, waited))
    };
    flows.into_iter().filter(here).flat_map(judged).collect()
}

/// Returns the longest wait for a core in any run with `flows` flows, as a fraction of the measured time.
fn longest_core_wait(results: &Results, flows: u32) -> f64 {
    let runs = results.runs.iter().filter(|((_, of), _)| *of == flows).flat_map(|(_, runs)| runs);
    runs.filter_map(|run| run.core_wait).fold(0.0, f64::max)
}

/// Turns a failed claim into one that cannot be shown, if a sender, a receiver or the NIC lacked a core for as large
/// a fraction of the time as the unfairness that counts: the wait alone takes as large a part from a flow.
fn unless_short_of_cores(mut claim: Claim, waited: f64) -> Claim {
    if claim.judgement() == Judgement::Fails && waited > LONG_BOUND {
        claim.not_shown = Some(format!(
            "in one run a sender, a receiver or the NIC was ready for {:.0} % of the time and had no core",
            waited * 100.0
        ));
    }
    claim
}

struct Cells<'a> {
    experiment: &'a Experiment,
    hash: &'static str,
}

impl<'a> Cells<'a> {
    /// Returns the measured cell of a row.
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
        let as_hash = format!("{row} is as the hash");
        if let Some((ours, hash)) = pair("nfm_1s") {
            let fairer = |nfm: f64| Judgement::of(nfm < LONG_FACTOR * hash);
            claims.push(
                claim(
                    format!("Measured, {flows} flows: NFM over 1 s of {row} is below a tenth of the hash's"),
                    format!("< {LONG_FACTOR} * hash"),
                    format!("{ours:.3} against {hash:.3}"),
                    fairer(ours),
                )
                .with_null(as_hash.clone(), &fairer(hash)),
            );
        }
        if let Some((_, ours)) = cells.get(row, "nfm_1s", flows) {
            let small = |nfm: f64| Judgement::of(nfm < LONG_BOUND);
            let small_claim = claim(
                format!("Measured, {flows} flows: NFM over 1 s of {row} is small"),
                format!("< {LONG_BOUND}"),
                format!("{ours:.3}"),
                small(ours),
            );
            claims.push(match pair("nfm_1s") {
                Some((_, hash)) => small_claim.with_null(as_hash.clone(), &small(hash)),
                None => small_claim,
            });
        }
        for column in [Some("nfm_1ms".to_owned()), settings.equal_packets_column()].into_iter().flatten() {
            if let Some((ours, hash)) = pair(&column) {
                let fairer = |nfm: f64| Judgement::of(nfm <= SHORT_FACTOR * hash);
                claims.push(
                    claim(
                        format!(
                            "Measured, {flows} flows: {column} of {row} is at least 58 % below the hash's"
                        ),
                        format!("<= {SHORT_FACTOR} * hash"),
                        format!("{ours:.3} against {hash:.3}"),
                        fairer(ours),
                    )
                    .with_null(as_hash.clone(), &fairer(hash)),
                );
            }
        }
    }
    claims.extend(ORDERS.iter().filter_map(|(column, more, less)| order(cells, flows, column, more, less)));
    claims
}

/// Claims that `more` has no smaller value than `less`. `None` where either was not measured, or the paper's own
/// numbers have the opposite order. Values count as equal within half of the column's floor, as in the tables. Noise
/// must not decide: where the means are too uncertain, the claim cannot be shown; nor where both are alike, so that
/// the opposite passes too.
fn order(cells: &Cells<'_>, flows: u32, column: &str, more: &str, less: &str) -> Option<Claim> {
    let (a, above) = cells.get(more, column, flows)?;
    let (b, below) = cells.get(less, column, flows)?;
    if a.published.zip(b.published).is_some_and(|(above, below)| above < below) {
        return None;
    }
    let equal = a.floor.max(b.floor) / 2.0;
    let errors = error_of_mean(&a.measured_runs).zip(error_of_mean(&b.measured_runs));
    let known_to = errors.map(|(of_above, of_below)| ERRORS * of_above.hypot(of_below));
    let claim = claim(
        format!("Measured, {flows} flows: {column} of {less} is no greater than that of {more}"),
        format!("<= {more} + {equal:.3}"),
        format!("{below:.3} against {above:.3}"),
        within(below - above - equal, known_to),
    );
    let swapped = format!("{less} is as {more}, and {more} as {less}");
    Some(claim.with_null(swapped, &within(above - below - equal, known_to)))
}

/// Judges whether an excess, known to within `known_to`, is at most zero.
fn within(excess: f64, known_to: Option<f64>) -> Judgement {
    let Some(known_to) = known_to else {
        return Judgement::NotShown("a single run has no spread; make more (--seeds)".to_owned());
    };
    match (excess + known_to <= 0.0, excess - known_to > 0.0) {
        (true, _) => Judgement::Holds,
        (_, true) => Judgement::Fails,
        _ => Judgement::NotShown(format!(
            "the difference of the means is known to within {known_to:.3} only; make more runs (--seeds)"
        )),
    }
}

/// Width of the confidence interval of a difference of means, in standard errors: 95 % lie within.
const ERRORS: f64 = 2.0;

/// Returns the standard error of the mean of runs; `None` for fewer than two.
fn error_of_mean(runs: &[f64]) -> Option<f64> {
    let mean = stats::mean(runs).filter(|_| runs.len() > 1)?;
    let squares: f64 = runs.iter().map(|run| (run - mean).powi(2)).sum();
    Some((squares / (runs.len() - 1) as f64 / runs.len() as f64).sqrt())
}

fn claim(statement: String, expected: String, figures: String, judgement: Judgement) -> Claim {
    Claim::new(statement, expected, figures, judgement)
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

    fn fair(ours: f64) -> Claim {
        claim("fair".to_owned(), "< 1".to_owned(), ours.to_string(), Judgement::of(ours < 1.0))
    }

    #[test]
    fn only_a_claim_that_fails_without_cores_cannot_be_shown() {
        assert_eq!(unless_short_of_cores(fair(0.5), 1.0).judgement(), Judgement::Holds);
        assert_eq!(unless_short_of_cores(fair(2.0), 0.1).judgement(), Judgement::Fails);
        let unseen = unless_short_of_cores(fair(2.0), 0.3).judgement();
        assert!(matches!(&unseen, Judgement::NotShown(why) if why.contains("30 %")), "{unseen:?}");
    }
}
