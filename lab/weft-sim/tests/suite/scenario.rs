//! Scenario files: accepted and refused texts, errors, and written files.

mod documentation;
mod examples;
mod fuzz;
mod random;
mod round_trip;
mod sources;
mod wrong;

use weft_policy::FileError;
use weft_sim::scenario::{Scenario, read};
use weft_text::LocatedError;

/// Reads a scenario that names no file.
fn read_alone(text: &str) -> Result<Scenario, LocatedError> {
    // A tenant may have no file.
    let refuse = |path: &str| match path.ends_with(".weft") {
        true => FileError::Missing(path.to_owned()),
        false => FileError::Unreadable(format!("{path} does not exist")),
    };
    read(text, "a.toml", &mut |path| Err(refuse(path)))
}
