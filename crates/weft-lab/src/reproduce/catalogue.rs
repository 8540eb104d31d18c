//! The experiments' files, which are part of the program.

use super::file::{self, FileError};
use super::native;

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        /// Name below `experiments/`, and text.
        const FILES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../experiments/", $name)))),*];
    };
}

files! {
    "published/titan.csv",
    "costs/free.toml",
    "costs/xeon-e5-1410.toml",
    "costs/xeon-gold-6128.toml",
    "scenarios/titan.toml",
    "scenarios/shuffle.toml",
    "scenarios/memcached.toml",
    "scenarios/loom-isolation.toml",
    "scenarios/loom-limit.toml",
    "scenarios/loom-memcached-limit.toml",
    "scenarios/loom-jobs.toml",
    "scenarios/loom-hierarchy.toml",
    "scenarios/loom-doorbells.toml",
    "scenarios/hoststack.toml",
    "scenarios/hoststack-all-to-all.toml",
    "titan.toml",
    "shuffle.toml",
    "memcached.toml",
    "loom-isolation.toml",
    "loom-limit.toml",
    "loom-memcached-limit.toml",
    "loom-jobs.toml",
    "loom-hierarchy.toml",
    "loom-doorbells-parameters.toml",
    "hoststack.toml",
    "hoststack-all-to-all-parameters.toml",
    "titan-tr-table3.toml",
    "titan-tr-table4.toml",
    "titan-tr-table5.toml",
    "titan-tr-fig2.toml",
    "titan-tr-fig3.toml",
    "titan-tr-fig4.toml",
    "titan-tr-fig5.toml",
    "titan-tr-fig6.toml",
    "titan-tr-fig7.toml",
    "titan-tr-fig8.toml",
    "titan-atc17-table3.toml",
    "titan-atc17-fig2.toml",
    "titan-atc17-fig3.toml",
    "titan-atc17-fig4.toml",
    "titan-atc17-memcached.toml",
    "loom-fig2.toml",
    "loom-fig3.toml",
    "loom-fig4.toml",
    "loom-fig9.toml",
    "loom-fig10.toml",
    "loom-fig11.toml",
    "loom-fig12.toml",
    "loom-fig13.toml",
    "loom-doorbells.toml",
    "hoststack-outcast.toml",
    "hoststack-all-to-all.toml",
    "scenarios/kernel-tcp.toml",
    "kernel-tcp-parameters.toml",
    "kernel-tcp.toml",
    "published/dragonet.csv",
    "scores.toml",
}

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
    "hoststack-outcast",
    "hoststack-all-to-all",
    "kernel-tcp",
    "dragonet-search-cost",
    "dragonet-isolation",
    "titan-shuffle",
    "titan-order",
];

/// The text of a file.
pub(super) fn text(name: &str) -> Result<&'static str, FileError> {
    let found = FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    found.ok_or_else(|| FileError::Missing(name.to_owned()))
}

/// A cost file that a scenario names relative to `scenarios/`.
pub(crate) fn cost_file(path: &str) -> Result<String, String> {
    let name = path.trim_start_matches("../");
    text(name).map(str::to_owned).map_err(|error| error.to_string())
}

/// Ids of all experiments.
pub const fn ids() -> &'static [&'static str] {
    IDS
}

/// An experiment's title and source; none for an id that there is not.
pub fn title(id: &str) -> Option<(String, String)> {
    let native = native::of(id).map(|native| (native.title.to_owned(), native.source.to_owned()));
    native.or_else(|| file::experiment(id).ok().map(|file| (file.title, file.source)))
}
