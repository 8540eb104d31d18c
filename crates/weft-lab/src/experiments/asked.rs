//! What experiments share whoever runs them: what is asked of one, and why one does not run.

use thiserror::Error;

/// What is asked of an experiment that runs on this machine.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The number of flows (or hosts) instead of the experiment's.
    pub flows: Option<u32>,
    /// The first seed.
    pub seed: u64,
    /// Runs of each cell instead of the experiment's own number.
    pub seeds: Option<u32>,
    /// Bytes that each pair of a shuffle transfers, such as `10MB`, instead of the experiment's.
    pub transfer: Option<String>,
    /// Threads.
    pub threads: usize,
    /// Factor of the times; 1 is the paper's. The experiment's own default without it.
    pub time_scale: Option<f64>,
}

/// Why an experiment does not run.
#[derive(Debug, Error)]
pub enum ExperimentError {
    /// It cannot, on this machine.
    #[error("{id}: {reason}")]
    Failed {
        /// The experiment.
        id: String,
        /// Why.
        reason: String,
    },
    /// Stopped by the user.
    #[error("stopped before all runs were made")]
    Stopped,
}
