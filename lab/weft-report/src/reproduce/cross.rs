//! The document of `weft reproduce --cross`: the simulator's accuracy on cells to which its parameters were not fitted, beside those
//! to which they were.

use super::TableCell;
use super::score::{Score, score};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weft_facts::record::{Document, Host};
use weft_facts::table::{Column, Table};

/// The document of `weft reproduce --cross`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossReport {
    /// `weft-cross/1`.
    pub schema: String,
    /// The host of the run.
    pub host: Host,
    /// The first seed.
    pub seed: u64,
    /// Runs of each cell with the same parameters.
    pub seeds: u32,
    /// The fitted parameters.
    pub parameters: Vec<CrossParameter>,
    /// The fits and their results.
    pub fits: Vec<CrossFit>,
    /// Scores by paper, column and sample.
    pub scores: Vec<CrossScore>,
    /// The scored cells.
    pub cells: Vec<CrossCell>,
    /// The number of runs. Parameters that several fits tried were simulated once.
    pub runs: u64,
    /// The duration, in seconds.
    pub wall_s: f64,
}

/// A fitted parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossParameter {
    /// Its file below `experiments/`.
    pub file: String,
    /// Its key.
    pub key: String,
    /// The candidate values; the first is the value without a fit.
    pub candidates: Vec<String>,
    /// The value in the file.
    pub shipped: String,
    /// The experiments and columns to which it is fitted.
    pub fitted_to: Vec<String>,
}

/// A fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossFit {
    /// A paper (`tr`, `atc`), or `without N`: both papers without the cells of N flows.
    pub name: String,
    /// The rows and flow counts to which it was fitted.
    pub cells: usize,
    /// The fitted values, in the order of the parameters.
    pub values: Vec<String>,
}

/// The parameters with which a cell is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sample {
    /// Fitted to the cell's own paper.
    InSample,
    /// Fitted to the other paper.
    OtherPaper,
    /// Fitted to both papers without the cell's flow count.
    FlowsLeftOut,
    /// The first candidate of each parameter.
    Unfitted,
    /// The values in the files.
    Shipped,
}

impl Sample {
    /// All samples, in the order of the tables.
    pub const ALL: [Self; 5] =
        [Self::InSample, Self::OtherPaper, Self::FlowsLeftOut, Self::Unfitted, Self::Shipped];

    /// Its column heading in a table.
    const fn head(self) -> &'static str {
        match self {
            Self::InSample => "in sample",
            Self::OtherPaper => "fitted on the other paper",
            Self::FlowsLeftOut => "flow count left out",
            Self::Unfitted => "not fitted",
            Self::Shipped => "as shipped",
        }
    }
}

/// A cell: a row and column at a number of flows, with one simulated value per sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossCell {
    /// The paper: `tr` or `atc`.
    pub paper: String,
    /// Configuration.
    pub row: String,
    /// Metric.
    pub column: String,
    /// Number of flows.
    pub flows: u32,
    /// The published value.
    pub published: Option<f64>,
    /// The least denominator of the relative error.
    pub floor: f64,
    /// The simulated values by sample; null if a run has no such value.
    pub simulated: BTreeMap<Sample, Option<f64>>,
}

/// The agreement with a column of a paper under one sample of parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CrossScore {
    /// The paper.
    pub paper: String,
    /// The column.
    pub column: String,
    /// The sample of parameters.
    pub sample: Sample,
    /// The number of cells with both values.
    pub cells: usize,
    /// Kendall's tau-b over all pairs of these cells.
    pub tau: Option<f64>,
    /// Median relative error.
    pub median_relative_error: Option<f64>,
    /// The fraction of cells within 25 %, from 0 to 1; null without cells.
    pub within_25_percent: Option<f64>,
}

impl CrossReport {
    /// Computes the scores.
    #[must_use]
    pub fn finish(mut self) -> Self {
        self.scores.clear();
        for (paper, column) in self.heads() {
            let here: Vec<&CrossCell> =
                self.cells.iter().filter(|cell| (&cell.paper, &cell.column) == (&paper, &column)).collect();
            for sample in Sample::ALL {
                let cells: Vec<TableCell> = here.iter().map(|cell| cell.of(sample)).collect();
                let Score { cells, tau, median_relative_error, within_25_percent, .. } =
                    score(&column, &cells);
                let share = (cells > 0).then(|| within_25_percent as f64 / cells.max(1) as f64);
                let (paper, column) = (paper.clone(), column.clone());
                let scored = CrossScore {
                    paper,
                    column,
                    sample,
                    cells,
                    tau,
                    median_relative_error,
                    within_25_percent: share,
                };
                self.scores.push(scored);
            }
        }
        self
    }

    /// Papers and columns, each once, in the order of the cells.
    fn heads(&self) -> Vec<(String, String)> {
        let mut heads: Vec<(String, String)> = Vec::new();
        for cell in &self.cells {
            let head = (cell.paper.clone(), cell.column.clone());
            if !heads.contains(&head) {
                heads.push(head);
            }
        }
        heads
    }
}

impl CrossCell {
    fn of(&self, sample: Sample) -> TableCell {
        TableCell {
            row: self.row.clone(),
            column: self.column.clone(),
            flows: self.flows,
            published: self.published,
            simulated: self.simulated.get(&sample).copied().flatten(),
            floor: self.floor,
            ..TableCell::default()
        }
    }
}

impl Document for CrossReport {
    const SCHEMA: &'static str = "weft-cross/1";

    fn tables(&self) -> Vec<Table> {
        let samples = Sample::ALL.map(|sample| Column::right(sample.head()));
        let columns = [Column::left("paper"), Column::left("column"), Column::right("cells")];
        let mut scores = Table::new("Kendall's tau, median relative error, share within 25 %")
            .columns(columns.into_iter().chain(samples));
        for (paper, column) in self.heads() {
            let of = |sample| {
                self.scores.iter().find(|s| (&s.paper, &s.column, s.sample) == (&paper, &column, sample))
            };
            let cells = of(Sample::Shipped).map_or(0, |score| score.cells).to_string();
            let texts = Sample::ALL.map(|sample| of(sample).map_or_else(|| "-".to_owned(), shown));
            scores.row([paper.clone(), column.clone(), cells].into_iter().chain(texts));
        }
        let heads = self.fits.iter().map(|fit| Column::right(fit.name.clone()));
        let names = [Column::left("parameter"), Column::left("candidates"), Column::right("shipped")];
        let mut fits =
            Table::new("Fitted values, by what they were fitted on").columns(names.into_iter().chain(heads));
        for (index, parameter) in self.parameters.iter().enumerate() {
            let values = self.fits.iter().map(|fit| fit.values.get(index).cloned().unwrap_or_default());
            let known = [parameter.key.clone(), parameter.candidates.join(" "), parameter.shipped.clone()];
            fits.row(known.into_iter().chain(values));
        }
        vec![scores, fits]
    }
}

/// The text of a score in a table cell.
fn shown(score: &CrossScore) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    let share =
        score.within_25_percent.map_or_else(|| "-".to_owned(), |share| format!("{:.0} %", share * 100.0));
    format!("{} {} {share}", number(score.tau), number(score.median_relative_error))
}

#[cfg(test)]
mod tests {
    use super::{CrossCell, CrossReport, Sample};

    /// Four cells computed by hand: in sample all are exact, out of sample the order is reversed and every value is off by at least 50 %.
    #[test]
    fn scores_in_and_out_of_sample_are_those_worked_by_hand() {
        let cell = |flows: u32, published: f64, other: f64| CrossCell {
            paper: "tr".to_owned(),
            row: "C6".to_owned(),
            column: "nfm_1s".to_owned(),
            flows,
            published: Some(published),
            floor: 0.1,
            simulated: [(Sample::InSample, Some(published)), (Sample::OtherPaper, Some(other))].into(),
        };
        let cells = vec![cell(3, 1.0, 8.0), cell(12, 2.0, 3.0), cell(48, 4.0, 1.0), cell(96, 8.0, 0.5)];
        let report = CrossReport { cells, ..CrossReport::default() }.finish();
        let of = |sample| report.scores.iter().find(|score| score.sample == sample).expect("scored");
        let inside = of(Sample::InSample);
        assert_eq!((inside.tau, inside.median_relative_error), (Some(1.0), Some(0.0)));
        assert_eq!(inside.within_25_percent, Some(1.0));
        let other = of(Sample::OtherPaper);
        // Errors 7, 0.5, 0.75, 0.9375.
        assert_eq!(other.tau, Some(-1.0));
        assert!(other.median_relative_error.is_some_and(|error| (error - 0.843_75).abs() < 1e-12));
        assert_eq!(other.within_25_percent, Some(0.0));
        let none = of(Sample::Shipped);
        assert_eq!((none.cells, none.tau, none.within_25_percent), (0, None, None));
    }
}
