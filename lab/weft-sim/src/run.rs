//! Running scenarios.

pub use crate::run_error::{DiagnosticInText, RunError};

use crate::outcome::RunOutcome;
use crate::scenario::Scenario;
use crate::trace::{NoObserver, Observer};
use crate::world;

/// Runs a scenario with a seed.
///
/// # Errors
/// The scenario's parts are inconsistent.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<RunOutcome, RunError> {
    simulate_observed(scenario, seed, NoObserver).map(|(outcome, _)| outcome)
}

/// Returns the diagnostics of the first policies of hosts whose NIC has a policy tree, each once. A policy with an error cannot run.
pub fn policy_diagnostics(scenario: &Scenario) -> Vec<DiagnosticInText> {
    world::policy_diagnostics(scenario)
}

/// Runs a scenario with a seed, and reports every packet to an observer; returns the observer.
///
/// # Errors
/// The scenario's parts are inconsistent.
pub fn simulate_observed<O: Observer>(
    scenario: &Scenario,
    seed: u64,
    observer: O,
) -> Result<(RunOutcome, O), RunError> {
    world::run(scenario, seed, observer)
}
