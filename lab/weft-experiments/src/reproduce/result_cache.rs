//! The cache of results: those of single runs in a store, so that interrupted tables continue.

use std::collections::BTreeMap;
use weft_campaign::key::{Identity, ScenarioHash};
use weft_campaign::record::{NamedFigures, ResultRecord};
use weft_campaign::store::{Lookup, ResultStore, ResultStoreError};
use weft_sim::MODEL_VERSION;
use weft_sim::run::RunError;
use weft_sim::scenario::Scenario;

/// The kind of the cached figures: metrics by name. A change of a metric's meaning is another kind.
const KIND: &str = "metrics/1";

/// The figure with the number of events.
const EVENTS: &str = "events";

/// The cache of the runs of a reproduction.
#[derive(Clone, Debug)]
pub struct ResultCache {
    /// The store.
    pub store: ResultStore,
    /// Tells the user a line about a file that is no result.
    pub tell: fn(&str),
}

/// The metrics of a run by name, and its number of events.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct CachedResult {
    pub(super) metrics: NamedFigures,
    pub(super) events: u64,
}

/// The reason that a run gives nothing.
pub(super) enum Refused {
    Run(RunError),
    Store(ResultStoreError),
}

impl From<ResultStoreError> for Refused {
    fn from(error: ResultStoreError) -> Self {
        Self::Store(error)
    }
}

impl ResultCache {
    /// Returns the result for a scenario, as it is simulated with all that a set has changed, and a seed.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub(super) fn get(
        &self,
        scenario: &ScenarioHash,
        seed: u64,
    ) -> Result<Option<CachedResult>, ResultStoreError> {
        let key = identity(scenario, seed).key();
        match self.store.look(&key)? {
            Lookup::Whole(ResultRecord { mut figures, .. }) => {
                let events = figures.remove(EVENTS).flatten();
                Ok(events.map(|events| CachedResult { metrics: figures, events: events as u64 }))
            }
            Lookup::Broken(error) => {
                (self.tell)(&format!("{}: {error}; it is made again", self.store.path(&key).display()));
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Keeps a result, with the metrics of `before` that it lacks. One with a figure that is not finite is not kept.
    ///
    /// # Errors
    /// If the store cannot be written.
    pub(super) fn put(
        &self,
        scenario: &ScenarioHash,
        seed: u64,
        result: CachedResult,
        before: Option<CachedResult>,
    ) -> Result<(), ResultStoreError> {
        let mut figures: BTreeMap<_, _> = before.map(|before| before.metrics).unwrap_or_default();
        figures.extend(result.metrics);
        figures.insert(EVENTS.to_owned(), Some(result.events as f64));
        let identity = identity(scenario, seed);
        let key = identity.key();
        let text = ResultRecord { identity, figures }.write();
        let (_, error) = self.store.write(&text.map(|text| (key, text)).into_iter().collect::<Vec<_>>());
        error.map_or(Ok(()), Err)
    }
}

/// Returns the hash of a scenario.
pub(super) fn hash(scenario: &Scenario) -> ScenarioHash {
    ScenarioHash::of(scenario)
}

fn identity(scenario: &ScenarioHash, seed: u64) -> Identity {
    Identity {
        kind: KIND.to_owned(),
        model: MODEL_VERSION,
        scenario: scenario.clone(),
        parameters: serde_json::Map::new(),
        seed,
    }
}
