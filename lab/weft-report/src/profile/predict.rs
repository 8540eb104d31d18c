//! The document of `weft profile predict`: configurations to which no cost was fitted, simulated and measured.
//!
//! 1. A [`Cell`] is a configuration with its [`Figures`]: those of the simulator, and those of real traffic or the reason that these
//!    are absent.
//! 2. Each figure of a cell that was measured has a relative error. Throughput that a link limits has none: it is the link's.
//! 3. [`PredictReport::judgement`] compares the median error with [`ERROR_MAX`]. The null model gives every configuration the means of
//!    the cells to which the costs were fitted; if its errors are as small, the run shows nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Run, Side};
use crate::html::{Check, HtmlPage, PageBlock, Section};
use crate::judgement::Judgement;
use weft_facts::human;
use weft_facts::record::{Document, Host};
use weft_facts::stats;
use weft_facts::table::{Column, Table};

/// The largest median error of predictions that hold.
pub const ERROR_MAX: f64 = 0.15;

/// The figures of a configuration.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Processor time of the sender in nanoseconds per payload byte.
    pub sender_ns_per_byte: f64,
    /// Processor time of the receiver, likewise.
    pub receiver_ns_per_byte: f64,
    /// Throughput in payload bits per second.
    pub bps: f64,
}

impl Figures {
    /// The medians over runs; `None` without a run in which bytes moved.
    pub fn of_runs(runs: &[Run]) -> Option<Self> {
        let moved = || runs.iter().filter(|run| run.work.bytes > 0);
        let median = |of: &dyn Fn(&Run) -> f64| stats::median(&moved().map(of).collect::<Vec<_>>());
        let per_byte = |side: Side| median(&|run| run.side(side).total_s() * 1e9 / run.work.bytes as f64);
        Some(Self {
            sender_ns_per_byte: per_byte(Side::Sender)?,
            receiver_ns_per_byte: per_byte(Side::Receiver)?,
            bps: median(&|run| run.bare_bps)?,
        })
    }

    /// Processor time of a side in nanoseconds per payload byte.
    pub fn ns_per_byte(&self, side: Side) -> f64 {
        match side {
            Side::Sender => self.sender_ns_per_byte,
            Side::Receiver => self.receiver_ns_per_byte,
        }
    }

    /// Processors that a side keeps busy at this throughput.
    pub fn busy_cores(&self, side: Side) -> f64 {
        self.ns_per_byte(side) * self.bps / 8e9
    }
}

/// A figure that is predicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    /// Processor time of a side.
    Time(Side),
    /// Throughput.
    Throughput,
}

impl Figure {
    /// All figures.
    pub const ALL: [Self; 3] = [Self::Time(Side::Sender), Self::Time(Side::Receiver), Self::Throughput];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time(Side::Sender) => "sender, ns/B",
            Self::Time(Side::Receiver) => "receiver, ns/B",
            Self::Throughput => "throughput",
        }
    }

    fn of(self, figures: &Figures) -> f64 {
        match self {
            Self::Time(side) => figures.ns_per_byte(side),
            Self::Throughput => figures.bps,
        }
    }

    fn write(self, figures: &Figures) -> String {
        match self {
            Self::Time(_) => format!("{:.4}", self.of(figures)),
            Self::Throughput => human::rate(self.of(figures)),
        }
    }
}

/// A configuration.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// Its name.
    pub name: String,
    /// The rate of its link in bits per second; absent where only processors limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_bps: Option<f64>,
    /// The simulator's figures.
    pub simulated: Figures,
    /// The figures of real traffic; null without.
    pub measured: Option<Figures>,
    /// The reason that this machine cannot measure it; null otherwise.
    pub not_measured: Option<String>,
    /// The largest share of samples that other processes had; null if it was not measured.
    pub foreign_share: Option<f64>,
}

impl Cell {
    /// The relative error of what `predicted` says of a figure; `None` for one that was not measured, and for throughput that
    /// the link limits.
    fn error(&self, figure: Figure, predicted: &Figures) -> Option<f64> {
        let measured = self.measured.as_ref()?;
        let limited = figure == Figure::Throughput && self.link_bps.is_some();
        (!limited).then(|| stats::relative_error(figure.of(predicted), figure.of(measured)))
    }

    fn busy(&self) -> String {
        let of = |figures: &Figures| {
            let [sender, receiver] = Side::ALL.map(|side| figures.busy_cores(side));
            format!("{sender:.2}+{receiver:.2}")
        };
        match &self.measured {
            Some(measured) => format!("{} | {}", of(&self.simulated), of(measured)),
            None => of(&self.simulated),
        }
    }
}

/// The document of `weft profile predict`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct PredictReport {
    /// `weft-predict/1`.
    pub schema: String,
    /// The host of the runs.
    pub host: Host,
    /// The file of costs.
    pub costs: String,
    /// The cells to which the costs were fitted.
    pub fitted_cells: Vec<String>,
    /// The null model, the means of these cells; null where the file has none.
    pub null_model: Option<Figures>,
    /// The configurations.
    pub cells: Vec<Cell>,
    /// Whether real traffic was asked for.
    pub measured: bool,
    /// The median relative error of all figures; null if nothing was measured.
    pub median_error: Option<f64>,
    /// The median error of the null model; null without one.
    pub null_error: Option<f64>,
    /// Limits of the figures.
    pub labels: Vec<String>,
}

impl PredictReport {
    /// Computes the errors from the cells.
    #[must_use]
    pub fn finish(mut self) -> Self {
        Self::SCHEMA.clone_into(&mut self.schema);
        self.median_error = self.errors(&Figure::ALL, |cell| Some(&cell.simulated));
        self.null_error = self.errors(&Figure::ALL, |_| self.null_model.as_ref());
        self
    }

    /// The median error of figures as `predicted` has them.
    fn errors<'a>(
        &'a self,
        figures: &[Figure],
        predicted: impl Fn(&'a Cell) -> Option<&'a Figures>,
    ) -> Option<f64> {
        let of = |cell: &'a Cell| {
            let predicted = predicted(cell)?;
            Some(figures.iter().filter_map(|figure| cell.error(*figure, predicted)).collect::<Vec<_>>())
        };
        stats::median(&self.cells.iter().filter_map(of).flatten().collect::<Vec<_>>())
    }

    /// Whether the predictions hold; `None` if no real traffic was asked for.
    pub fn judgement(&self) -> Option<Judgement> {
        if !self.measured {
            return None;
        }
        let Some(error) = self.median_error else {
            return Some(Judgement::NotShown("no configuration could be measured".to_owned()));
        };
        // Also a figure that is no number fails.
        let within = |error: f64| error <= ERROR_MAX;
        Some(match self.null_error {
            _ if !within(error) => Judgement::Fails,
            None => Judgement::NotShown(
                "the file of costs has no [fitted], so there is no null model: fit it again".to_owned(),
            ),
            Some(null) if within(null) => Judgement::NotShown(format!(
                "the fitted cells' means predict as well, with a median error of {}: the configurations are too alike",
                human::percent(null)
            )),
            Some(_) => Judgement::Holds,
        })
    }

    fn verdict(&self) -> String {
        match self.judgement() {
            None => "not judged: nothing was measured".to_owned(),
            Some(Judgement::Holds) => "holds".to_owned(),
            Some(Judgement::Fails) => "FAILS".to_owned(),
            Some(Judgement::NotShown(why)) => format!("cannot be shown here, because {why}"),
        }
    }

    fn cells_table(&self) -> Table {
        let heads = Figure::ALL.map(|figure| [figure.name(), "error"].map(Column::right));
        let columns = [Column::left("configuration")].into_iter().chain(heads.into_iter().flatten());
        let mut table = Table::new("Configurations to which nothing was fitted: simulated | measured")
            .columns(columns.chain([Column::right("busy cores, sender+receiver")]));
        for cell in &self.cells {
            let figure = |figure: Figure| {
                let measured = match (&cell.measured, &cell.not_measured) {
                    (Some(measured), _) => format!(" | {}", figure.write(measured)),
                    (None, Some(_)) => " | n/a".to_owned(),
                    (None, None) => String::new(),
                };
                let error = cell.error(figure, &cell.simulated);
                [figure.write(&cell.simulated) + &measured, human::or_none(error, human::percent)]
            };
            let figures = Figure::ALL.into_iter().flat_map(figure);
            table.row([cell.name.clone()].into_iter().chain(figures).chain([cell.busy()]));
        }
        for (reason, cells) in self.reasons() {
            table.note(format!("n/a: {reason} ({})", cells.join("; ")));
        }
        if self.cells.iter().any(|cell| cell.link_bps.is_some()) {
            table.note("Throughput without an error is limited by the cell's link, and not judged.");
        }
        self.labels.iter().for_each(|label| table.note(label));
        table
    }

    /// Reasons against measurements, each with its cells, in the order of the cells.
    fn reasons(&self) -> Vec<(&str, Vec<&str>)> {
        let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
        for cell in &self.cells {
            let Some(reason) = &cell.not_measured else { continue };
            match all.iter_mut().find(|(known, _)| known == reason) {
                Some((_, cells)) => cells.push(&cell.name),
                None => all.push((reason, vec![&cell.name])),
            }
        }
        all
    }

    fn errors_table(&self) -> Table {
        let mut table = Table::new("Median relative error").columns([
            Column::left("figure"),
            Column::right("simulator"),
            Column::right("null model"),
        ]);
        let mut row = |name: &str, figures: &[Figure]| {
            let simulated = self.errors(figures, |cell| Some(&cell.simulated));
            let null = self.errors(figures, |_| self.null_model.as_ref());
            table.row([
                name.to_owned(),
                human::or_none(simulated, human::percent),
                human::or_none(null, human::percent),
            ]);
        };
        for figure in Figure::ALL {
            row(figure.name(), &[figure]);
        }
        row("all", &Figure::ALL);
        table.note(format!("Median error of at most {:.0} %: {}.", ERROR_MAX * 100.0, self.verdict()));
        table.note("Null model: every configuration has the means of the fitted cells.");
        table
    }

    /// The page of the document.
    pub fn html(&self) -> String {
        let check = self.judgement().map(|judgement| {
            PageBlock::Checks(vec![Check {
                judgement,
                name: "Predictions from fitted costs".to_owned(),
                figure: format!(
                    "median error {}, null model {}",
                    human::or_none(self.median_error, human::percent),
                    human::or_none(self.null_error, human::percent)
                ),
                bound: format!("at most {:.0} %", ERROR_MAX * 100.0),
            }])
        });
        let blocks = check.into_iter().chain(self.tables().into_iter().map(PageBlock::Table));
        let fitted = format!("Costs: {}, fitted to {}.", self.costs, self.fitted_cells.join(", "));
        HtmlPage {
            title: "weft profile predict".to_owned(),
            subtitle: fitted,
            sections: vec![
                Section::new("Predictions", blocks),
                Section::new("Host", [PageBlock::Facts(self.host.facts())]),
            ],
            data: serde_json::to_value(self).ok(),
        }
        .render()
    }
}

impl Document for PredictReport {
    const SCHEMA: &'static str = "weft-predict/1";

    fn tables(&self) -> Vec<Table> {
        vec![self.cells_table(), self.errors_table()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NULL: Figures = Figures { sender_ns_per_byte: 0.5, receiver_ns_per_byte: 0.4, bps: 8e9 };

    /// An invented machine: a byte costs the sender 0.2 ns and the receiver 0.1, a packet 1000 and 700 ns.
    fn truth(packet: f64) -> Figures {
        let ns = |byte: f64, per_packet: f64| byte + per_packet / packet;
        let (sender, receiver) = (ns(0.2, 1000.0), ns(0.1, 700.0));
        Figures { sender_ns_per_byte: sender, receiver_ns_per_byte: receiver, bps: 8e9 / sender }
    }

    fn report(off: f64, packets: &[f64], null: Option<Figures>) -> PredictReport {
        let cell = |packet: &f64| {
            let measured = truth(*packet);
            let simulated = Figures {
                sender_ns_per_byte: measured.sender_ns_per_byte * (1.0 + off),
                receiver_ns_per_byte: measured.receiver_ns_per_byte * (1.0 - off),
                bps: measured.bps * (1.0 + off),
            };
            Cell {
                name: format!("packets of {packet} B"),
                simulated,
                measured: Some(measured),
                ..Cell::default()
            }
        };
        let cells = packets.iter().map(cell).collect();
        PredictReport { cells, measured: true, null_model: null, ..PredictReport::default() }.finish()
    }

    #[test]
    fn a_known_breakdown_is_judged_and_the_null_model_fails() {
        let different = [1448.0, 8948.0, 20_000.0, 65_160.0];
        let good = report(0.1, &different, Some(NULL));
        assert!(good.median_error.is_some_and(|error| (error - 0.1).abs() < 1e-9), "{good:?}");
        assert!(good.null_error.is_some_and(|error| error > 0.5), "{good:?}");
        assert_eq!(good.judgement(), Some(Judgement::Holds));
        assert_eq!(report(0.16, &different, Some(NULL)).judgement(), Some(Judgement::Fails));
        let null = PredictReport {
            cells: good.cells.iter().cloned().map(|cell| Cell { simulated: NULL, ..cell }).collect(),
            ..good
        };
        assert_eq!(null.finish().judgement(), Some(Judgement::Fails), "the null model as the prediction");
    }

    #[test]
    fn configurations_that_are_alike_show_nothing() {
        let alike = report(0.1, &[1448.0, 1400.0], Some(truth(1448.0)));
        assert!(matches!(alike.judgement(), Some(Judgement::NotShown(why)) if why.contains("too alike")));
        let without = report(0.1, &[1448.0], None);
        assert!(matches!(without.judgement(), Some(Judgement::NotShown(why)) if why.contains("[fitted]")));
    }

    #[test]
    fn without_real_traffic_nothing_is_judged() {
        let mut report = report(0.1, &[1448.0], Some(NULL));
        report.cells[0].measured = None;
        report.cells[0].not_measured = Some("no such qdisc".to_owned());
        let report = report.finish();
        assert!(matches!(report.judgement(), Some(Judgement::NotShown(_))));
        let text = report.tables()[0].render(false);
        assert!(text.contains("| n/a") && text.contains("n/a: no such qdisc (packets of 1448 B)"), "{text}");
        assert_eq!(PredictReport { measured: false, ..report }.judgement(), None);
    }

    #[test]
    fn a_link_s_throughput_is_no_prediction() {
        let mut report = report(0.3, &[1448.0], Some(NULL));
        report.cells[0].link_bps = Some(1e9);
        report.cells[0].simulated = Figures { bps: 1.0, ..truth(1448.0) };
        let report = report.finish();
        assert_eq!(report.median_error, Some(0.0));
        assert!(report.html().contains("not judged"));
    }

    #[test]
    fn busy_cores_follow_from_time_and_throughput() {
        let figures = Figures { sender_ns_per_byte: 0.8, receiver_ns_per_byte: 0.4, bps: 10e9 };
        assert!((figures.busy_cores(Side::Sender) - 1.0).abs() < 1e-12);
        assert!((figures.busy_cores(Side::Receiver) - 0.5).abs() < 1e-12);
        assert_eq!(Figures::of_runs(&[Run::default()]), None);
    }
}
