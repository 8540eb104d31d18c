//! The agreement of a column's simulated cells with the published ones.

use super::{TableCell, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weft_facts::stats;

/// Scores of a column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Score {
    /// The column.
    pub column: String,
    /// The number of cells with both values.
    pub cells: usize,
    /// Kendall's tau-b over all pairs of these cells.
    pub tau: Option<f64>,
    /// The same over pairs of equal flow count whose published difference exceeds both cells' bands and floors: pairs that a
    /// perfect model would order as published.
    pub tau_distinguishable: Option<f64>,
    /// The number of such pairs.
    pub pairs_distinguishable: usize,
    /// Cells whose published value lies in the band.
    pub inside_band: usize,
    /// Cells in the band or within 25 %.
    pub close: usize,
    /// Cells within 25 %, in the band or not.
    pub within_25_percent: usize,
    /// Median relative error.
    pub median_relative_error: Option<f64>,
}

/// Scores of a column from all cells of an experiment.
pub fn score(column: &str, cells: &[TableCell]) -> Score {
    let here: Vec<&TableCell> =
        cells.iter().filter(|cell| cell.column == column && cell.relative_error().is_some()).collect();
    let pairs: Vec<(f64, f64)> = here.iter().filter_map(|cell| cell.published.zip(cell.simulated)).collect();
    let errors: Vec<f64> = here.iter().filter_map(|cell| cell.relative_error()).collect();
    let (tau_distinguishable, pairs_distinguishable) = distinguishable(&here);
    Score {
        column: column.to_owned(),
        cells: here.len(),
        tau: kendall_tau(&pairs),
        tau_distinguishable,
        pairs_distinguishable,
        inside_band: here.iter().filter(|cell| cell.verdict == Verdict::InsideBand).count(),
        close: here
            .iter()
            .filter(|cell| matches!(cell.verdict, Verdict::InsideBand | Verdict::Within))
            .count(),
        within_25_percent: errors.iter().filter(|error| **error <= 0.25).count(),
        median_relative_error: stats::median(&errors),
    }
}

/// Kendall's tau-b (Kendall 1945): concordant minus discordant pairs, divided by the root of the product of the numbers of pairs
/// that are not tied in each list. `None` if all pairs are tied in one of them.
pub fn kendall_tau(pairs: &[(f64, f64)]) -> Option<f64> {
    let (mut balance, mut untied_a, mut untied_b) = (0i64, 0u64, 0u64);
    for (i, first) in pairs.iter().enumerate() {
        for second in &pairs[i + 1..] {
            let (a, b) = (order(first.0, second.0), order(first.1, second.1));
            balance += a * b;
            untied_a += u64::from(a != 0);
            untied_b += u64::from(b != 0);
        }
    }
    let denominator = (untied_a as f64 * untied_b as f64).sqrt();
    (denominator > 0.0).then(|| balance as f64 / denominator)
}

fn order(a: f64, b: f64) -> i64 {
    match a.partial_cmp(&b) {
        Some(std::cmp::Ordering::Less) => -1,
        Some(std::cmp::Ordering::Greater) => 1,
        _ => 0,
    }
}

/// Tau over the pairs that differ by more than chance.
fn distinguishable(cells: &[&TableCell]) -> (Option<f64>, usize) {
    let half = |cell: &TableCell| cell.band.map_or(0.0, |[low, high]| (high - low) / 2.0);
    let (mut balance, mut count) = (0i64, 0usize);
    for (i, a) in cells.iter().enumerate() {
        for b in &cells[i + 1..] {
            let (Some((pa, sa)), Some((pb, sb))) =
                (a.published.zip(a.simulated), b.published.zip(b.simulated))
            else {
                continue;
            };
            // Two means of the paper differ by chance by about the root of the sum of the squared spreads.
            let chance = half(a).hypot(half(b)).max(a.floor.max(b.floor) / 2.0);
            if a.flows == b.flows && (pa - pb).abs() > chance {
                balance += order(pa, pb) * order(sa, sb);
                count += 1;
            }
        }
    }
    ((count > 0).then(|| balance as f64 / count as f64), count)
}

#[cfg(test)]
mod tests {
    use super::{kendall_tau, score};
    use crate::reproduce::{Experiment, TableCell};

    #[test]
    fn tau_is_one_for_the_same_order_and_minus_one_for_the_reverse() {
        let same: Vec<(f64, f64)> = (0..9).map(|i| (f64::from(i), f64::from(i * i))).collect();
        let reverse: Vec<(f64, f64)> = (0..9).map(|i| (f64::from(i), -f64::from(i))).collect();
        assert_eq!(kendall_tau(&same), Some(1.0));
        assert_eq!(kendall_tau(&reverse), Some(-1.0));
        assert_eq!(kendall_tau(&[(1.0, 2.0), (1.0, 3.0)]), None);
    }

    /// Computed by hand: ten pairs, one of them tied in the second list and eight concordant, one discordant.
    #[test]
    fn tau_counts_ties_as_tau_b_does() {
        let pairs = [(1.0, 1.0), (2.0, 3.0), (3.0, 2.0), (4.0, 4.0), (5.0, 4.0)];
        let tau = kendall_tau(&pairs).unwrap_or(f64::NAN);
        assert!((tau - 7.0 / (10.0f64 * 9.0).sqrt()).abs() < 1e-12, "{tau}");
    }

    #[test]
    fn differences_below_the_bands_do_not_count() {
        let cell = |row: &str, published, simulated: f64| TableCell {
            row: row.to_owned(),
            column: "x".to_owned(),
            published: Some(published),
            simulated: Some(simulated),
            band: Some([simulated - 0.5, simulated + 0.5]),
            ..TableCell::default()
        };
        let mut experiment = Experiment::new("a", "", "");
        experiment.cells = vec![cell("a", 1.0, 1.2), cell("b", 1.1, 1.0), cell("c", 5.0, 9.0)];
        let experiment = experiment.finish();
        let score = score("x", &experiment.cells);
        assert_eq!((score.tau_distinguishable, score.pairs_distinguishable), (Some(1.0), 2));
        assert_eq!((score.cells, score.inside_band, score.close), (3, 2, 2));
    }
}
