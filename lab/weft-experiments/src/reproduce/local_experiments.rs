//! `--measured` for experiments with a simulated and a measured part, where each is measured in its own way.

use super::{MeasuringOptions, ReproduceError, fig2, hoststack, kernel_path, loom_cpu};
use weft_report::reproduce::Experiment;

/// Measures an experiment's cells, given the options, runs of each cell, a stop condition, and an observer for the
/// number of runs done.
pub(super) type Fill = fn(
    &mut Experiment,
    &MeasuringOptions,
    u32,
    &(dyn Fn() -> bool + Sync),
    &mut dyn FnMut(usize),
) -> Result<(), ReproduceError>;

/// An experiment whose cells are measured on this machine.
pub(super) struct LocalExperiment {
    pub(super) id: &'static str,
    /// The default number of runs of each cell.
    pub(super) runs: u32,
    /// The number of cells.
    pub(super) cells: usize,
    pub(super) fill: Fill,
}

/// All such experiments.
pub(super) const LOCAL_EXPERIMENTS: &[LocalExperiment] = &[
    LocalExperiment { id: fig2::ID, runs: 1, cells: fig2::ROWS, fill: fig2::fill },
    LocalExperiment {
        id: hoststack::OUTCAST,
        runs: hoststack::RUNS,
        cells: hoststack::CELLS,
        fill: hoststack::fill_outcast,
    },
    LocalExperiment {
        id: hoststack::ALL_TO_ALL,
        runs: hoststack::RUNS,
        cells: hoststack::CELLS,
        fill: hoststack::fill_all_to_all,
    },
    LocalExperiment { id: loom_cpu::ID, runs: loom_cpu::RUNS, cells: loom_cpu::CELLS, fill: loom_cpu::fill },
    LocalExperiment { id: kernel_path::ID, runs: 1, cells: kernel_path::CELLS, fill: kernel_path::fill },
];

/// Returns the experiment with this id, if it is one of these.
pub(super) fn of(id: &str) -> Option<&'static LocalExperiment> {
    LOCAL_EXPERIMENTS.iter().find(|local| local.id == id)
}
