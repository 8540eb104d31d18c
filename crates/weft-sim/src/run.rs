//! Running scenarios: one, or many on all processors.

pub use crate::run_error::RunError;

use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::trace::{NoObserver, Observer};
use crate::world;

/// Runs a scenario with a seed.
///
/// # Errors
/// The scenario's parts do not fit together.
pub fn simulate(scenario: &Scenario, seed: u64) -> Result<Outcome, RunError> {
    simulate_observed(scenario, seed, NoObserver).map(|(outcome, _)| outcome)
}

/// The same, telling an observer of every packet; gives it back.
///
/// # Errors
/// The scenario's parts do not fit together.
pub fn simulate_observed<O: Observer>(
    scenario: &Scenario,
    seed: u64,
    observer: O,
) -> Result<(Outcome, O), RunError> {
    world::run(scenario, seed, observer)
}
