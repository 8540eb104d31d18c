//! Native experiments: they run on this machine and are not simulated.

use super::{ReproduceError, ReproduceOptions};
use crate::experiments::dragonet::{isolation_panels, search_cost};
use crate::experiments::titan::order::experiment as order;
use crate::experiments::titan::shuffle::experiment as shuffle;
use crate::experiments::{ExperimentError, ExperimentRequest};
use weft_report::reproduce::Experiment;

/// Runs an experiment, given the request, a stop condition, and an observer for the steps done and in all.
type Run = fn(
    &ExperimentRequest,
    &(dyn Fn() -> bool + Sync),
    &mut dyn FnMut(usize, usize),
) -> Result<Experiment, ExperimentError>;

/// A native experiment.
pub(super) struct Native {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) source: &'static str,
    /// Whether it needs network rights, for namespaces.
    pub(super) needs_rights: bool,
    run: Run,
}

const NATIVE: &[Native] = &[
    Native {
        id: search_cost::ID,
        title: search_cost::TITLE,
        source: search_cost::SOURCE,
        needs_rights: false,
        run: search_cost::experiment,
    },
    Native {
        id: isolation_panels::ID,
        title: isolation_panels::TITLE,
        source: isolation_panels::SOURCE,
        needs_rights: true,
        run: isolation_panels::experiment,
    },
    Native {
        id: shuffle::ID,
        title: shuffle::TITLE,
        source: shuffle::SOURCE,
        needs_rights: true,
        run: shuffle::experiment,
    },
    Native {
        id: order::ID,
        title: order::TITLE,
        source: order::SOURCE,
        needs_rights: true,
        run: order::experiment,
    },
];

impl Native {
    /// Runs the experiment; fails if the rights that it needs are missing.
    pub(super) fn start(
        &self,
        options: &ReproduceOptions,
        cancelled: &(dyn Fn() -> bool + Sync),
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<Experiment, ReproduceError> {
        if self.needs_rights {
            weft_host::require_network_rights().map_err(|missing| ReproduceError::NotHere {
                id: self.id.to_owned(),
                reason: missing.to_string(),
            })?;
        }
        Ok((self.run)(&options.request(), cancelled, progress)?)
    }
}

/// Returns the native experiment with this id.
pub(super) fn of(id: &str) -> Option<&'static Native> {
    NATIVE.iter().find(|native| native.id == id)
}
