//! `--measured` for experiments that are measured here beside what is simulated: each its own way.

use super::{Measured, ReproduceError, fig2, kernel_path};
use weft_report::reproduce::Experiment;

/// Measures an experiment's cells: how, runs of each cell, first seed, whether to stop, and who is told how many runs are done.
type Fill = fn(
    &mut Experiment,
    &Measured,
    u32,
    &(dyn Fn() -> bool + Sync),
    &mut dyn FnMut(usize),
) -> Result<(), ReproduceError>;

/// An experiment whose cells are measured here.
pub(super) struct Here {
    pub(super) id: &'static str,
    /// Runs where nobody says how many.
    pub(super) runs: u32,
    /// How many runs it makes for each run of a cell.
    pub(super) cells: usize,
    pub(super) fill: Fill,
}

/// All of them.
pub(super) const HERE: &[Here] = &[
    Here { id: fig2::ID, runs: 1, cells: fig2::ROWS, fill: fig2::fill },
    Here { id: kernel_path::ID, runs: 1, cells: kernel_path::CELLS, fill: kernel_path::fill },
];

/// The one of an id, if it is one of these.
pub(super) fn of(id: &str) -> Option<&'static Here> {
    HERE.iter().find(|here| here.id == id)
}
