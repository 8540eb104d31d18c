//! Scenario files: accepted and refused texts, errors, and written files.

mod documentation;
mod examples;
mod fuzz;
mod random;
mod round_trip;
mod sources;
mod wrong;

use weft_sim::scenario::{Scenario, read};
use weft_text::LocatedError;

/// Reads a scenario that names no cost file.
fn read_alone(text: &str) -> Result<Scenario, LocatedError> {
    read(text, "a.toml", &mut |path| Err(format!("{path} does not exist")))
}
