//! Common parts of native experiments: what they are, the request, and the errors.

use thiserror::Error;
use weft_report::reproduce::Experiment;

/// Runs an experiment, given the request, a stop condition, and an observer for the steps done and in all.
type NativeRun = fn(
    &ExperimentRequest,
    &(dyn Fn() -> bool + Sync),
    &mut dyn FnMut(usize, usize),
) -> Result<Experiment, ExperimentError>;

/// An experiment that runs on this machine, and is not simulated.
pub(crate) struct Native {
    /// The id.
    pub(crate) id: &'static str,
    /// The title.
    pub(crate) title: &'static str,
    /// The publication.
    pub(crate) source: &'static str,
    /// Whether it needs network rights, for namespaces.
    pub(crate) needs_rights: bool,
    pub(crate) run: NativeRun,
}

impl Native {
    /// Returns the experiment's record, without cells.
    pub(crate) fn record(&self) -> Experiment {
        Experiment::new(self.id, self.title, self.source)
    }
}

/// A request for an experiment that runs on this machine.
#[derive(Clone, Debug, Default)]
pub struct ExperimentRequest {
    /// The number of flows (or hosts), in place of the experiment's.
    pub flows: Option<u32>,
    /// The first seed.
    pub seed: u64,
    /// Runs of each cell, in place of the experiment's number.
    pub seeds: Option<u32>,
    /// Bytes that each pair of a shuffle transfers, such as `10MB`, in place of the experiment's.
    pub transfer: Option<String>,
    /// Threads.
    pub threads: usize,
    /// Factor on all times; 1 is the paper's. `None` takes the experiment's default.
    pub time_scale: Option<f64>,
}

/// The reason that an experiment did not run.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// This machine cannot run it.
    #[error("{id}: {reason}")]
    Failed {
        /// The experiment.
        id: String,
        /// The reason, in words.
        reason: String,
    },
    /// Stopped by the user.
    #[error("stopped before all runs were made")]
    Stopped,
}
