//! Running scenarios.

pub use crate::run_error::RunError;

use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::trace::{NoObserver, Observer};
use crate::world;

/// Runs a scenario with a seed.
///
/// # Errors
/// The scenario's parts are inconsistent.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<Outcome, RunError> {
    simulate_observed(scenario, seed, NoObserver).map(|(outcome, _)| outcome)
}

/// Runs a scenario with a seed, and reports every packet to an observer; returns the observer.
///
/// # Errors
/// The scenario's parts are inconsistent.
pub fn simulate_observed<O: Observer>(
    scenario: &Scenario,
    seed: u64,
    observer: O,
) -> Result<(Outcome, O), RunError> {
    world::run(scenario, seed, observer)
}
