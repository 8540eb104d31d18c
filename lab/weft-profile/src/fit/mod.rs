//! Costs of this machine, fitted to the runs of profiles.
//!
//! A side's processor time is modelled as a sum over what moved: bytes, segments that GRO took in, skbs, waits, and
//! acknowledgements, each times a cost that is not negative. The time of processes and that of softirqs are fitted apart, each to
//! what it works on: a reader's copies run on its own core, its packets' softirqs on the sender's, so a prediction
//! of throughput needs both. Rows count by their relative error: each is divided by its measured time. A cell (document, level) is held back in turn, the costs are fitted to the others, and its time is predicted; the error
//! of a fit is the median over these predictions.
//!
//! Runs on which others had more than [`FOREIGN_MAX`] of the samples are left out if undisturbed ones remain.

mod fitted;
mod machine;
mod nnls;

use weft_facts::human;
use weft_facts::stats;
use weft_facts::table::{Column, Table};
use weft_report::profile::{FOREIGN_MAX, ProfileReport, Run, Side, Work};

use crate::probes::EVERY;

pub use fitted::{Fitted, cell_name};
pub use machine::machine_file;

/// Something that costs time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CostSource {
    /// A payload byte.
    Byte,
    /// A segment that GRO took in; sampled, so an estimate.
    Segment,
    /// An skb that the stack passed.
    Skb,
    /// A wait of an application, with its wake-up.
    Wait,
    /// An acknowledgement.
    Acknowledgement,
}

impl CostSource {
    /// All costs.
    pub const ALL: [Self; 5] = [Self::Byte, Self::Segment, Self::Skb, Self::Wait, Self::Acknowledgement];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Byte => "byte",
            Self::Segment => "segment into GRO",
            Self::Skb => "skb",
            Self::Wait => "wait",
            Self::Acknowledgement => "acknowledgement",
        }
    }

    /// The number of units in a run.
    fn units(self, run: &Run, side: Side) -> f64 {
        let work = &run.work;
        let merged = || run.sizes.as_ref().map_or(0, |sizes| sizes.before_gro.total()) * u64::from(EVERY);
        let count = match (self, side) {
            (Self::Skb, _) => return simulated_skbs(work),
            (Self::Byte, _) => work.bytes,
            (Self::Segment, Side::Receiver) => merged(),
            (Self::Segment, Side::Sender) => 0,
            (Self::Wait, Side::Sender) => work.sender_waits,
            (Self::Wait, Side::Receiver) => work.receiver_waits,
            (Self::Acknowledgement, _) => work.acks,
        };
        count as f64
    }
}

/// The skbs that the simulator makes of the same bytes, since the costs are the simulator's. It sends the rest of each write in an
/// separate skb; the kernel joins about half of the rests with the next write (`tcp_should_autocork`). Without segments larger
/// than a packet there is nothing to join, and the measured number counts, which has retransmissions.
fn simulated_skbs(work: &Work) -> f64 {
    // The default block of iperf3, and the skbs of at most 64 KiB in it.
    const WRITE: f64 = 131_072.0;
    const OF_A_WRITE: f64 = 3.0;
    const PACKET_MAX: f64 = 9000.0;
    let (bytes, skbs) = (work.bytes as f64, work.skbs as f64);
    if bytes > PACKET_MAX * skbs { bytes / WRITE * OF_A_WRITE } else { skbs }
}

/// Where processor time passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Context {
    /// Applications and their system calls.
    Process,
    /// Softirqs.
    Softirq,
}

impl Context {
    const ALL: [Self; 2] = [Self::Process, Self::Softirq];

    /// The measured time of a run.
    fn seconds(self, run: &Run, side: Side) -> f64 {
        let time = run.side(side);
        match self {
            Self::Process => time.user_s + time.system_s,
            Self::Softirq => time.softirq_s,
        }
    }

    /// Whether a cost passes here. A sender's skbs pass in both: sent by the application, and freed or sent after an acknowledgement
    /// by a softirq. A receiver's pass in softirqs: the reader takes bytes and waits.
    const fn has(self, cost: CostSource, side: Side) -> bool {
        match (self, side) {
            (Self::Process, Side::Sender) => {
                matches!(cost, CostSource::Byte | CostSource::Skb | CostSource::Wait)
            }
            (Self::Softirq, Side::Sender) => matches!(cost, CostSource::Skb | CostSource::Acknowledgement),
            (Self::Process, Side::Receiver) => matches!(cost, CostSource::Byte | CostSource::Wait),
            (Self::Softirq, Side::Receiver) => {
                matches!(cost, CostSource::Segment | CostSource::Skb | CostSource::Acknowledgement)
            }
        }
    }
}

/// The reason that costs cannot be fitted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FitError {
    /// A profile of two hosts.
    #[error(
        "a profile between this host and {0} has the costs of two machines; fit profiles of one host, without --to"
    )]
    TwoHosts(String),
    /// Too few cells.
    #[error("{found} levels were measured, {needed} are needed; profile more levels or patterns")]
    TooFew {
        /// Cells in the documents.
        found: usize,
        /// Cells that a fit needs: one to hold back and one for each cost that can be distinguished.
        needed: usize,
    },
}

/// The least number of cells.
const CELLS_MIN: usize = 4;

/// A cell with its prediction by costs that were fitted without it.
#[derive(Clone, PartialEq, Debug)]
pub struct HeldBack {
    /// The pattern and level.
    pub cell: String,
    /// Measured time in nanoseconds per byte.
    pub measured: f64,
    /// Predicted time.
    pub predicted: f64,
}

impl HeldBack {
    /// The relative error.
    pub fn error(&self) -> f64 {
        stats::relative_error(self.predicted, self.measured)
    }
}

/// The fitted costs of a side.
#[derive(Clone, PartialEq, Debug)]
pub struct SideFit {
    /// The side.
    pub side: Side,
    /// Nanoseconds per unit, in the order of [`CostSource::ALL`].
    pub costs_ns: [f64; CostSource::ALL.len()],
    /// Waits of the runs that were fitted.
    pub waits: f64,
    /// The median relative residual of the rows that were fitted.
    pub residual: f64,
    /// Predictions of cells that were held back.
    pub held_back: Vec<HeldBack>,
}

impl SideFit {
    /// Nanoseconds of a unit.
    fn cost_ns(&self, cost: CostSource) -> f64 {
        self.costs_ns[cost as usize]
    }

    /// The median relative error of the cells held back.
    pub fn error(&self) -> f64 {
        stats::median(&self.held_back.iter().map(HeldBack::error).collect::<Vec<_>>()).unwrap_or(0.0)
    }
}

/// A run as a row of the system.
struct Row {
    cell: String,
    units: Vec<f64>,
    /// In the order of [`Context::ALL`].
    seconds: [f64; Context::ALL.len()],
}

impl Row {
    fn total_s(&self) -> f64 {
        self.seconds.iter().sum()
    }
}

/// Fits both sides to the runs of the documents.
///
/// # Errors
/// If there are too few levels.
pub fn fit(reports: &[ProfileReport]) -> Result<[SideFit; 2], FitError> {
    if let Some(peer) = reports.iter().find_map(|report| report.peer.as_ref()) {
        return Err(FitError::TwoHosts(peer.name.clone()));
    }
    Ok([fit_side(reports, Side::Sender)?, fit_side(reports, Side::Receiver)?])
}

fn fit_side(reports: &[ProfileReport], side: Side) -> Result<SideFit, FitError> {
    let rows = rows(reports, side);
    let mut cells: Vec<&str> = rows.iter().map(|row| row.cell.as_str()).collect();
    cells.dedup();
    if cells.len() < CELLS_MIN {
        return Err(FitError::TooFew { found: cells.len(), needed: CELLS_MIN });
    }
    let fitted = costs(rows.iter(), side);
    let residuals: Vec<f64> =
        rows.iter().map(|row| stats::relative_error(predict(row, &fitted), row.total_s())).collect();
    let held_back = |cell: &&str| {
        let others = costs(rows.iter().filter(|row| row.cell != *cell), side);
        let own: Vec<&Row> = rows.iter().filter(|row| row.cell == *cell).collect();
        let mean = |of: &dyn Fn(&Row) -> f64| {
            let per_byte =
                own.iter().filter(|row| row.units[0] > 0.0).map(|row| of(row) * 1e9 / row.units[0]);
            stats::mean(&per_byte.collect::<Vec<_>>()).unwrap_or(0.0)
        };
        let (measured, predicted) = (mean(&Row::total_s), mean(&|row| predict(row, &others)));
        HeldBack { cell: (*cell).to_owned(), measured, predicted }
    };
    let mut costs_ns = [0.0; CostSource::ALL.len()];
    costs_ns.iter_mut().zip(&fitted).for_each(|(ns, seconds)| *ns = seconds * 1e9);
    Ok(SideFit {
        side,
        costs_ns,
        waits: rows.iter().map(|row| row.units[CostSource::Wait as usize]).sum(),
        residual: stats::median(&residuals).unwrap_or(0.0),
        held_back: cells.iter().map(held_back).collect(),
    })
}

/// The rows of all documents, with equal cells together.
fn rows(reports: &[ProfileReport], side: Side) -> Vec<Row> {
    let disturbed = |run: &Run| run.foreign_share() > FOREIGN_MAX;
    let mut all = Vec::new();
    for (number, report) in reports.iter().enumerate() {
        for config in &report.configs {
            let quiet = config.runs.iter().any(|run| !disturbed(run));
            for run in config.runs.iter().filter(|run| !quiet || !disturbed(run)) {
                let seconds = Context::ALL.map(|context| context.seconds(run, side));
                if seconds.iter().sum::<f64>() > 0.0 {
                    let cell =
                        format!("{} {} {}x: {}", number + 1, report.pattern, config.flows, config.level);
                    let units = CostSource::ALL.map(|cost| cost.units(run, side)).to_vec();
                    all.push(Row { cell, units, seconds });
                }
            }
        }
    }
    all
}

/// Seconds per unit: the sum over the contexts. Rows are divided by their time, so that the sum of squared relative errors is
/// least.
fn costs<'a>(rows: impl Iterator<Item = &'a Row>, side: Side) -> Vec<f64> {
    let rows: Vec<&Row> = rows.collect();
    let mut all = vec![0.0; CostSource::ALL.len()];
    for (number, context) in Context::ALL.into_iter().enumerate() {
        let here = CostSource::ALL.map(|cost| if context.has(cost, side) { 1.0 } else { 0.0 });
        let timed = rows.iter().filter(|row| row.seconds[number] > 0.0);
        let a: Vec<Vec<f64>> = timed
            .map(|row| row.units.iter().zip(here).map(|(u, here)| u * here / row.seconds[number]).collect())
            .collect();
        let solved = nnls::solve(&a, &vec![1.0; a.len()]);
        all.iter_mut().zip(solved).for_each(|(sum, cost)| *sum += cost);
    }
    all
}

fn predict(row: &Row, costs: &[f64]) -> f64 {
    row.units.iter().zip(costs).map(|(units, cost)| units * cost).sum()
}

/// The costs, and the predictions beside what was measured, as tables.
pub fn tables(fits: &[SideFit]) -> Vec<Table> {
    let columns =
        [Column::left("side")].into_iter().chain(CostSource::ALL.map(|cost| Column::right(cost.name())));
    let more = ["residual", "error, held back"].map(Column::right);
    let mut costs = Table::new("Costs of this machine, nanoseconds").columns(columns.chain(more));
    let heads = [Column::left("cell"), Column::left("side")];
    let figures = ["simulated", "measured", "error"].map(Column::right);
    let mut cells = Table::new("Nanoseconds per byte, each cell by costs that were fitted without it")
        .columns(heads.into_iter().chain(figures));
    for fit in fits {
        let ns = fit.costs_ns.map(|ns| format!("{ns:.3}"));
        let errors = [human::percent(fit.residual), human::percent(fit.error())];
        costs.row([fit.side.name().to_owned()].into_iter().chain(ns).chain(errors));
        for one in &fit.held_back {
            cells.row([
                one.cell.clone(),
                fit.side.name().to_owned(),
                format!("{:.4}", one.predicted),
                format!("{:.4}", one.measured),
                human::percent(one.error()),
            ]);
        }
    }
    cells.note("\"simulated\" is the fitted model's time for the counted work, not a run of the simulator.");
    vec![costs, cells]
}

#[cfg(test)]
mod tests;
