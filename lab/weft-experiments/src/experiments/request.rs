//! Common parts of experiments: the request, and the errors.

use thiserror::Error;

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
