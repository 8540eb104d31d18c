//! The document of `weft reproduce`: published, simulated and measured values side by side, with a verdict for each cell.
//!
//! Verdicts and scores are computed here from the cells, series and claims of the document.

mod band;
mod cross;
mod page;
mod score;
mod tables;

pub use band::band_of_mean;
pub use cross::{CrossCell, CrossFit, CrossParameter, CrossReport, CrossScore, Sample};
pub use page::reproduce_html;
pub use score::{Score, kendall_tau, score};

use crate::judgement::Judgement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weft_facts::record::{Document, Host};
use weft_facts::table::Table;

/// The document of `weft reproduce`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReproduceReport {
    /// `weft-reproduce/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The first seed.
    pub seed: u64,
    /// The experiments in the order in which they ran.
    pub experiments: Vec<Experiment>,
}

/// An experiment: a table or a figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// Its id, such as `titan-tr-table3`.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Paper and table or figure.
    pub source: String,
    /// Cells of its table.
    pub cells: Vec<TableCell>,
    /// Kendall's tau by column, over all rows and flow counts with both values; null with fewer than two.
    pub tau: BTreeMap<String, Option<f64>>,
    /// Median of |simulated - published| / published over all cells with both values, with the column's floor as the least
    /// denominator.
    pub median_relative_error: Option<f64>,
    /// Scores by column.
    pub scores: Vec<Score>,
    /// The series of its plots.
    pub series: Vec<Series>,
    /// The paper's claims in words.
    pub claims: Vec<Claim>,
    /// Notes for readers.
    pub notes: Vec<String>,
    /// The host and time of the measured values; absent if the document's own host measured them in this run.
    pub measured_on: Option<String>,
    /// The simulated events of all its runs.
    pub events: u64,
    /// The duration, in seconds.
    pub wall_s: f64,
}

/// A cell: a row (configuration) and column (metric) at a number of flows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableCell {
    /// Configuration.
    pub row: String,
    /// Metric.
    pub column: String,
    /// Number of flows, or value of the parameter that the experiment varies.
    pub flows: u32,
    /// The published value.
    pub published: Option<f64>,
    /// Mean over the simulated runs.
    pub simulated: Option<f64>,
    /// The measured value, from this machine or the one that the measurement names; the mean of several runs.
    pub measured: Option<f64>,
    /// The smallest and the largest of the measured runs.
    pub measured_spread: Option<[f64; 2]>,
    /// The measured runs, in the order of their seeds.
    pub measured_runs: Vec<f64>,
    /// Unit of the values.
    pub unit: String,
    /// 5th and 95th percentile of the mean of as many runs as the paper averaged.
    pub band: Option<[f64; 2]>,
    /// The number of runs in the paper.
    pub runs: u32,
    /// The number of simulated runs.
    pub seeds: u32,
    /// The least denominator of the relative error; smaller differences are meaningless.
    pub floor: f64,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason for a deviation, if known.
    pub note: Option<String>,
}

/// The verdict on a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Verdict {
    /// The published value lies in the band.
    #[serde(rename = "inside band")]
    InsideBand,
    /// It lies outside the band, and the simulated mean is within 25 % of it.
    #[serde(rename = "within 25 %")]
    Within,
    /// Neither.
    #[serde(rename = "off")]
    Off,
    /// No value was published, or none was simulated.
    #[default]
    #[serde(rename = "not comparable")]
    NotComparable,
}

/// A series of a plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// The plot that contains it.
    pub plot: String,
    /// Its name.
    pub name: String,
    /// The quantity on x.
    pub x_label: String,
    /// The quantity on y.
    pub y_label: String,
    /// `line`, `step`, `points` or `reference`.
    pub kind: String,
    /// x, ascending.
    pub x: Vec<f64>,
    /// y.
    pub y: Vec<f64>,
}

/// A claim of the paper, with the corresponding figures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// The statement.
    pub statement: String,
    /// The condition on the figures.
    pub expected: String,
    /// The figures: simulated, or measured where the statement or the experiment says so.
    pub simulated: String,
    /// Whether it holds.
    pub holds: bool,
    /// The null model: the figures that would result if the claim were false; absent for exact counts.
    pub null: Option<String>,
    /// Whether the conditions hold for the null model's figures; absent without a null model.
    #[serde(default)]
    pub null_passes: Option<bool>,
    /// The reason why these figures cannot show the claim, such as that its null model would pass too. The claim then does not hold.
    pub not_shown: Option<String>,
}

impl Claim {
    /// A claim without a null model.
    pub fn new(statement: String, expected: String, simulated: String, judgement: Judgement) -> Self {
        let holds = judgement == Judgement::Holds;
        let not_shown = match judgement {
            Judgement::NotShown(reason) => Some(reason),
            Judgement::Holds | Judgement::Fails => None,
        };
        Self { statement, expected, simulated, holds, null: None, null_passes: None, not_shown }
    }

    /// The claim with its null model, `null` in words, and the result of the claim's conditions on it. A claim that holds for its
    /// null model too cannot be shown: it would hold if the statement were false.
    #[must_use]
    pub fn with_null(mut self, null: String, under_null: &Judgement) -> Self {
        let passes = *under_null == Judgement::Holds;
        if self.holds && passes {
            self.holds = false;
            self.not_shown = Some(format!("its null model passes too: {null}"));
        }
        self.null = Some(null);
        self.null_passes = Some(passes);
        self
    }

    /// The judgement of the claim.
    pub fn judgement(&self) -> Judgement {
        match &self.not_shown {
            Some(reason) => Judgement::NotShown(reason.clone()),
            None => Judgement::of(self.holds),
        }
    }
}

impl TableCell {
    /// Relative error, if both values exist.
    pub fn relative_error(&self) -> Option<f64> {
        let (published, simulated) = self.published.zip(self.simulated)?;
        Some((simulated - published).abs() / published.abs().max(self.floor))
    }

    /// Sets the values of measured runs: mean, smallest and largest. Has no effect without runs.
    pub fn take_measured(&mut self, runs: Vec<f64>) {
        let spread = weft_facts::stats::min(&runs).zip(weft_facts::stats::max(&runs));
        if let Some((least, greatest)) = spread {
            self.measured = weft_facts::stats::mean(&runs);
            self.measured_spread = Some([least, greatest]);
            self.measured_runs = runs;
        }
    }

    fn judge(&mut self) {
        self.verdict = match (self.published, self.band, self.relative_error()) {
            (Some(published), Some([low, high]), _) if low <= published && published <= high => {
                Verdict::InsideBand
            }
            (_, _, Some(error)) if error <= 0.25 => Verdict::Within,
            (_, _, Some(_)) => Verdict::Off,
            _ => Verdict::NotComparable,
        };
    }
}

impl Experiment {
    /// An experiment without cells.
    pub fn new(id: &str, title: &str, source: &str) -> Self {
        Self { id: id.to_owned(), title: title.to_owned(), source: source.to_owned(), ..Self::default() }
    }

    /// Removes stored measured values, before others are measured: a table never mixes two machines or times.
    pub fn forget_measured(&mut self) {
        self.measured_on = None;
        for cell in &mut self.cells {
            cell.measured = None;
            cell.measured_spread = None;
            cell.measured_runs.clear();
        }
    }

    /// Adds a claim of the paper.
    pub fn claim(&mut self, statement: &str, expected: &str, simulated: String, holds: bool) {
        self.claim_judged(statement, expected, simulated, Judgement::of(holds));
    }

    /// Sets the last claim's null model, `null` in words, and the result of the claim's conditions on it ([`Claim::with_null`]).
    pub fn null_of_last(&mut self, null: &str, under_null: &Judgement) {
        if let Some(last) = self.claims.pop() {
            self.claims.push(last.with_null(null.to_owned(), under_null));
        }
    }

    /// Adds a claim that possibly cannot be shown.
    pub fn claim_judged(&mut self, statement: &str, expected: &str, simulated: String, judgement: Judgement) {
        self.claims.push(Claim::new(statement.to_owned(), expected.to_owned(), simulated, judgement));
    }

    /// Judges the cells and computes the scores.
    #[must_use]
    pub fn finish(mut self) -> Self {
        for cell in &mut self.cells {
            cell.judge();
        }
        let mut columns: Vec<String> = Vec::new();
        for cell in &self.cells {
            if !columns.contains(&cell.column) {
                columns.push(cell.column.clone());
            }
        }
        self.scores = columns.iter().map(|column| score(column, &self.cells)).collect();
        self.tau = self.scores.iter().map(|score| (score.column.clone(), score.tau)).collect();
        let errors: Vec<f64> = self.cells.iter().filter_map(TableCell::relative_error).collect();
        self.median_relative_error = weft_facts::stats::median(&errors);
        self
    }
}

impl ReproduceReport {
    /// The judgements of all claims, for `--strict`.
    pub fn judgements(&self) -> Vec<Judgement> {
        self.experiments.iter().flat_map(|one| &one.claims).map(Claim::judgement).collect()
    }
}

impl Document for ReproduceReport {
    const SCHEMA: &'static str = "weft-reproduce/1";

    fn tables(&self) -> Vec<Table> {
        self.experiments
            .iter()
            .flat_map(tables::of_experiment)
            .chain([tables::summary(&self.experiments)])
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::TableCell;

    #[test]
    fn measured_runs_give_mean_and_spread() {
        let mut cell = TableCell { measured: Some(9.0), ..TableCell::default() };
        cell.take_measured(Vec::new());
        assert_eq!((cell.measured, cell.measured_spread), (Some(9.0), None), "nothing was measured");
        cell.take_measured(vec![3.0, 1.0, 5.0]);
        assert_eq!((cell.measured, cell.measured_spread), (Some(3.0), Some([1.0, 5.0])));
        assert_eq!(cell.measured_runs, [3.0, 1.0, 5.0]);
    }
}
