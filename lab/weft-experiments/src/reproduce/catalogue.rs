//! The list of experiments.

use super::file::{self, ExperimentFileError};
use super::native;
use crate::catalogue::files;

/// The experiments, in the order in which they run.
const IDS: &[&str] = &[
    "titan-tr-table3",
    "titan-tr-table4",
    "titan-tr-table5",
    "titan-tr-fig2",
    "titan-tr-fig3",
    "titan-tr-fig4",
    "titan-tr-fig5",
    "titan-tr-fig6",
    "titan-tr-fig7",
    "titan-tr-fig8",
    "titan-atc17-table3",
    "titan-atc17-fig2",
    "titan-atc17-fig3",
    "titan-atc17-fig4",
    "titan-atc17-memcached",
    "loom-fig2",
    "loom-fig3",
    "loom-fig4",
    "loom-fig9",
    "loom-fig10",
    "loom-fig11",
    "loom-fig12",
    "loom-fig13",
    "loom-doorbells",
    "loom-cpu",
    "hoststack-outcast",
    "hoststack-all-to-all",
    "kernel-tcp",
    "dragonet-search-cost",
    "dragonet-isolation",
    "titan-shuffle",
    "titan-order",
];

/// Returns the text of a file.
pub(super) fn text(name: &str) -> Result<&'static str, ExperimentFileError> {
    files::text(name).ok_or_else(|| ExperimentFileError::Missing(name.to_owned()))
}

/// Returns the ids of all experiments.
pub const fn ids() -> &'static [&'static str] {
    IDS
}

/// Returns the number of claims in a simulated experiment's file; 0 for an id without a file.
pub fn claims_of(id: &str) -> usize {
    file::experiment(id).map_or(0, |file| file.claims.len())
}

/// Returns an experiment's title and source; `None` for an unknown id.
pub fn title(id: &str) -> Option<(String, String)> {
    let native = native::of(id).map(|native| (native.title.to_owned(), native.source.to_owned()));
    native.or_else(|| file::experiment(id).ok().map(|file| (file.title, file.source)))
}
