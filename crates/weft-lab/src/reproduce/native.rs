//! Experiments that are not simulated: they run on this machine.

use super::{Options, ReproduceError};
use crate::steer::{isolation_panels, search_cost};
use crate::titan::order::experiment as order;
use crate::titan::shuffle::experiment as shuffle;
use weft_report::reproduce::Experiment;

/// Runs an experiment: options, whether to stop, and who is told how much of how much is done.
type Run = fn(
    &Options,
    &(dyn Fn() -> bool + Sync),
    &mut dyn FnMut(usize, usize),
) -> Result<Experiment, ReproduceError>;

/// An experiment that runs here.
pub(super) struct Native {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) source: &'static str,
    pub(super) run: Run,
}

const NATIVE: &[Native] = &[
    Native {
        id: search_cost::ID,
        title: search_cost::TITLE,
        source: search_cost::SOURCE,
        run: search_cost::experiment,
    },
    Native {
        id: isolation_panels::ID,
        title: isolation_panels::TITLE,
        source: isolation_panels::SOURCE,
        run: isolation_panels::experiment,
    },
    Native { id: shuffle::ID, title: shuffle::TITLE, source: shuffle::SOURCE, run: shuffle::experiment },
    Native { id: order::ID, title: order::TITLE, source: order::SOURCE, run: order::experiment },
];

/// The experiment of an id, if it is one of these.
pub(super) fn of(id: &str) -> Option<&'static Native> {
    NATIVE.iter().find(|native| native.id == id)
}
