//! The experiments' files, which are part of the program.

use super::file::{self, FileError};

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
    "titan.toml",
    "titan-tr-table3.toml",
    "titan-tr-table4.toml",
    "titan-tr-table5.toml",
    "titan-atc17-table3.toml",
    "scenarios/loom-isolation.toml",
    "loom-isolation.toml",
    "loom-fig9.toml",
    "loom-fig10.toml",
    "loom-fig12.toml",
}

/// The experiments, in the order in which they run.
const IDS: &[&str] = &[
    "titan-tr-table3",
    "titan-tr-table4",
    "titan-tr-table5",
    "titan-atc17-table3",
    "loom-fig9",
    "loom-fig10",
    "loom-fig12",
];

/// The text of a file.
pub(super) fn text(name: &str) -> Result<&'static str, FileError> {
    let found = FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    found.ok_or_else(|| FileError::Missing(name.to_owned()))
}

/// A cost file that a scenario names relative to `scenarios/`.
pub(super) fn cost_file(path: &str) -> Result<String, String> {
    let name = path.trim_start_matches("../");
    text(name).map(str::to_owned).map_err(|error| error.to_string())
}

/// Ids of all experiments.
pub const fn ids() -> &'static [&'static str] {
    IDS
}

/// An experiment's title and source; none for an id that there is not.
pub fn title(id: &str) -> Option<(String, String)> {
    file::experiment(id).ok().map(|file| (file.title, file.source))
}
