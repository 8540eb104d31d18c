//! Running scenarios: one, or many on all processors.

use crate::outcome::Outcome;
use crate::scenario::Scenario;
use crate::trace::{NoObserver, Observer};
use crate::world;
use thiserror::Error;

/// Why a scenario cannot run, although its values are possible each by itself.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// A name that no table has.
    #[error("there is no {kind} named {given:?}; there are: {known}")]
    UnknownName {
        /// What kind of thing.
        kind: &'static str,
        /// The name given.
        given: String,
        /// What there is.
        known: String,
    },
    /// A value that does not fit the others.
    #[error("{what}; {hint}")]
    Impossible {
        /// What is wrong.
        what: String,
        /// What to do.
        hint: String,
    },
}

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
