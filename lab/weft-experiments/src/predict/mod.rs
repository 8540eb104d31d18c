//! `weft profile predict`: configurations to which no cost was fitted, simulated with a machine's costs and measured on it.
//!
//! 1. `machine` reads the file of `weft profile fit`: the costs, and the cells that they were fitted to.
//! 2. `cells` lists the configurations; those that were fitted are left out.
//! 3. `simulated` builds a scenario from `experiments/veth.toml` for each, runs it, and lays the two simulated hosts over the
//!    processors that they share here.
//! 4. `measured` runs the same configurations as sessions of `weft-profile`.
//! 5. The document judges the errors ([`weft_report::profile::predict`]).

mod cells;
mod machine;
mod measured;
mod simulated;

use crate::reproduce::ExperimentFileError;
use cells::Group;
use weft_facts::record::Host;
use weft_profile::categories::Categories;
use weft_profile::error::ProfileError;
use weft_profile::session::TrialPlan;
use weft_report::profile::predict::{Cell, PredictReport};
use weft_sim::run::RunError;
use weft_text::LocatedError;

pub use machine::{Machine, MachineError};

/// The testbed of trials as a scenario, for `weft tune --try`.
pub(crate) mod testbed {
    use super::{ExperimentFileError, cells, simulated};
    use crate::reproduce::file;
    use toml::Table;
    use weft_profile::level::Level;
    use weft_profile::pattern::FlowLayout;
    use weft_profile::traffic::TrafficLoad;
    use weft_report::profile::predict::Figures;
    use weft_sim::outcome::RunOutcome;

    pub(crate) use cells::LINK;

    /// The document of bulk flows of a layout, over a link of [`LINK`] or without one.
    pub(crate) fn document(
        layout: &FlowLayout,
        costs: &str,
        limited: bool,
    ) -> Result<Table, ExperimentFileError> {
        let parameters = file::parameters(simulated::PARAMETERS)?;
        let config = if limited { "C1" } else { Level::TsoGro.name() };
        simulated::document(&parameters, (layout, TrafficLoad::Bulk), costs, config)
    }

    /// The figures of a run, whose two hosts share this machine's processors.
    pub(crate) fn figures(outcome: &RunOutcome, layout: &FlowLayout) -> Figures {
        simulated::figures(outcome, (layout, TrafficLoad::Bulk), Level::TsoGro)
    }
}

/// The options of predictions.
#[derive(Clone, Debug)]
pub struct PredictOptions {
    /// Whether to measure the configurations too.
    pub measured: bool,
    /// Their trials.
    pub trials: TrialPlan,
    /// Only configurations whose names contain this text; empty for all.
    pub only: String,
}

/// The reason that nothing was predicted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictError {
    /// The files of the configurations are invalid.
    #[error(transparent)]
    File(#[from] ExperimentFileError),
    /// A scenario, or the file of costs, is invalid.
    #[error(transparent)]
    Scenario(#[from] LocatedError),
    /// A simulation failed.
    #[error("{cell}: {error}")]
    Run {
        /// The configuration.
        cell: String,
        /// The reason.
        error: RunError,
    },
    /// A measurement failed.
    #[error("{cell}: {error}")]
    Measured {
        /// The configuration.
        cell: String,
        /// The reason.
        error: Box<ProfileError>,
    },
    /// No configuration is left.
    #[error(
        "no configuration's name contains `{0}`, or all of them were fitted; names are those of the table"
    )]
    Nothing(String),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

/// Predicts all configurations, and measures them if asked to. `heard` receives each step in words.
///
/// # Errors
/// If the file of costs is invalid, a run fails, the machine is loaded, or the caller asks to stop.
pub fn run(
    options: &PredictOptions,
    machine: &Machine,
    categories: &Categories,
    host: Host,
    stop: &(dyn Fn() -> bool + Sync),
    mut heard: impl FnMut(&str),
) -> Result<PredictReport, PredictError> {
    let (groups, fitted) = cells::groups(&options.trials.processors, &machine.fitted_cells, &options.only);
    if groups.is_empty() {
        return Err(PredictError::Nothing(options.only.clone()));
    }
    let mut labels = Vec::new();
    if groups.iter().any(|group| !group.layout.shortage.is_empty()) {
        labels.push("patterns ask for more cores than this machine has, so flows share them".to_owned());
    }
    if !fitted.is_empty() {
        labels.push(format!("fitted, and so not predicted: {}", fitted.join(", ")));
    }
    let mut cells = simulated::run(&groups, machine, stop)?;
    heard(&format!("{} configurations were simulated", cells.len()));
    if options.measured {
        labels.extend(measured::fill(&mut cells, &groups, options, categories, stop, &mut heard)?);
    }
    let report = PredictReport {
        host,
        costs: machine.name.clone(),
        fitted_cells: machine.fitted_cells.clone(),
        null_model: machine.null_model,
        cells,
        measured: options.measured,
        labels,
        ..PredictReport::default()
    };
    Ok(report.finish())
}

/// The names of a group's cells, in their order.
fn names(group: &Group) -> impl Iterator<Item = &str> {
    group.cells.iter().map(|cell| cell.name.as_str())
}

/// The document's cell of this name.
fn named<'a>(cells: &'a mut [Cell], name: &str) -> Option<&'a mut Cell> {
    cells.iter_mut().find(|cell| cell.name == name)
}
