//! The list of experiments: the ids, what each reproduces, and the ways in which it runs.

use super::file::{self, ExperimentFileError};
use super::measured::TITAN;
use super::{MeasuringOptions, ReproduceError, fig2, hoststack, kernel_path, loom_cpu};
use crate::catalogue::files;
use crate::experiments::Native;
use crate::experiments::dragonet::{isolation_panels, search_cost};
use crate::experiments::titan::measured::experiment::WEIGHTS_ID;
use crate::experiments::titan::order::experiment as order;
use crate::experiments::titan::shuffle::experiment as shuffle;
use Measures::{Cells, Nothing, Rows, Weights};
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

/// The part of an experiment that `--measured` measures on this machine.
#[derive(Clone, Copy)]
pub(super) enum Measures {
    /// None.
    Nothing,
    /// Rows and flow counts, in the way of all of Titan's.
    Rows,
    /// Rows with weights, which are not simulated.
    Weights,
    /// As many cells, in a separate way, with a default number of runs each.
    Cells(usize, u32, Fill),
}

/// An experiment: what it reproduces, and the ways in which it runs.
pub(super) trait Reproduction {
    /// The id, which is also the name of its file.
    fn id(&self) -> &'static str;

    /// The title and the source; `None` without a file.
    fn about(&self) -> Option<(String, String)> {
        file::experiment(self.id()).ok().map(|file| (file.title, file.source))
    }

    /// The run of one that runs on this machine, and is not simulated.
    fn native(&self) -> Option<&Native> {
        None
    }

    /// The part that `--measured` measures.
    fn measures(&self) -> Measures {
        Nothing
    }

    /// Whether the runs of its file are simulated.
    fn is_simulated(&self) -> bool {
        self.native().is_none() && !matches!(self.measures(), Weights)
    }
}

/// An experiment by its id, and what is measured of it.
struct Listed(&'static str, Measures);

impl Reproduction for Listed {
    fn id(&self) -> &'static str {
        self.0
    }

    fn measures(&self) -> Measures {
        self.1
    }
}

impl Reproduction for Native {
    fn id(&self) -> &'static str {
        self.id
    }

    fn about(&self) -> Option<(String, String)> {
        Some((self.title.to_owned(), self.source.to_owned()))
    }

    fn native(&self) -> Option<&Native> {
        Some(self)
    }
}

/// Fails without the rights that the experiment `id` needs for namespaces.
pub(super) fn require_rights(id: &str) -> Result<(), ReproduceError> {
    weft_host::require_network_rights()
        .map_err(|missing| ReproduceError::NotHere { id: id.to_owned(), reason: missing.to_string() })
}

/// The experiments, in the order in which they run. Of Titan's report, table 4 shows best runs and Figures 7 and 8 need several machines,
/// and ATC'17 measures latency in another way, so none of these is measured.
pub(super) const EXPERIMENTS: &[&dyn Reproduction] = &[
    &Listed("titan-tr-table3", Rows),
    &Listed("titan-tr-table4", Nothing),
    &Listed("titan-tr-table5", Rows),
    &Listed("titan-tr-fig2", Rows),
    &Listed("titan-tr-fig3", Rows),
    &Listed("titan-tr-fig4", Rows),
    &Listed("titan-tr-fig5", Rows),
    &Listed("titan-tr-fig6", Rows),
    &Listed("titan-tr-fig7", Nothing),
    &Listed("titan-tr-fig8", Nothing),
    &Listed("titan-atc17-table3", Nothing),
    &Listed("titan-atc17-fig2", Nothing),
    &Listed("titan-atc17-fig3", Nothing),
    &Listed("titan-atc17-fig4", Nothing),
    &Listed("titan-atc17-memcached", Nothing),
    &Listed(WEIGHTS_ID, Weights),
    &Listed(fig2::ID, Cells(fig2::ROWS, 1, fig2::fill)),
    &Listed("loom-fig3", Nothing),
    &Listed("loom-fig4", Nothing),
    &Listed("loom-fig9", Nothing),
    &Listed("loom-fig10", Nothing),
    &Listed("loom-fig11", Nothing),
    &Listed("loom-fig12", Nothing),
    &Listed("loom-fig13", Nothing),
    &Listed("loom-doorbells", Nothing),
    &Listed(loom_cpu::ID, Cells(loom_cpu::CELLS, loom_cpu::RUNS, loom_cpu::fill)),
    &Listed(hoststack::OUTCAST, Cells(hoststack::CELLS, hoststack::RUNS, hoststack::fill)),
    &Listed(hoststack::ALL_TO_ALL, Cells(hoststack::CELLS, hoststack::RUNS, hoststack::fill)),
    &Listed(kernel_path::ID, Cells(kernel_path::CELLS, 1, kernel_path::fill)),
    &search_cost::NATIVE,
    &isolation_panels::NATIVE,
    &shuffle::NATIVE,
    &order::NATIVE,
];

/// The ids of the experiments of which `which` is true.
pub(super) fn ids_where(which: impl Fn(&dyn Reproduction) -> bool) -> Vec<&'static str> {
    EXPERIMENTS.iter().filter(|one| which(**one)).map(|one| one.id()).collect()
}

/// The experiment with this id.
pub(super) fn of(id: &str) -> Option<&'static dyn Reproduction> {
    EXPERIMENTS.iter().copied().find(|one| one.id() == id)
}

/// Returns the text of a file.
pub(super) fn text(name: &str) -> Result<&'static str, ExperimentFileError> {
    files::text(name).ok_or_else(|| ExperimentFileError::Missing(name.to_owned()))
}

/// Returns the ids of all experiments that run without `--measured`, in the order in which they run.
pub fn ids() -> Vec<&'static str> {
    ids_where(|one| !matches!(one.measures(), Weights))
}

/// Returns the names that [`run`](super::run) accepts: the group of Titan's experiments, and all ids.
pub fn names() -> Vec<&'static str> {
    [vec![TITAN, WEIGHTS_ID], ids()].concat()
}

/// Returns the number of claims in a simulated experiment's file; 0 for an id without a file.
pub fn claims_of(id: &str) -> usize {
    file::experiment(id).map_or(0, |file| file.claims.len())
}

/// Returns an experiment's title and source; `None` for an unknown id.
pub fn title(id: &str) -> Option<(String, String)> {
    of(id)?.about()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each id is listed once, and each experiment runs in one way: it has a file and is simulated, or it is native, or only measured.
    #[test]
    fn each_experiment_runs_in_one_way() {
        for one in EXPERIMENTS {
            let id = one.id();
            assert_eq!(ids_where(|other| other.id() == id), [id]);
            assert_eq!(file::experiment(id).is_ok(), one.is_simulated(), "{id}");
            assert_eq!(one.about().is_some(), ids().contains(&id), "{id}");
        }
        assert_eq!(ids_where(|one| one.native().is_some()).len(), 4);
        assert_eq!(names().len(), EXPERIMENTS.len() + 1);
    }
}
