//! Runs of one scenario, one after the other on one thread: what `scripts/bench-peers titan` measures of two builds.
//!
//! `runs SCENARIO.toml FIRST COUNT [KEY=VALUE...]` simulates the scenario with these settings and the seeds from FIRST on. It prints the
//! runs, their events, and the digest of their outcomes, as JSON. Files that the scenario names lie beside it.

use std::error::Error;
use std::path::Path;
use weft_policy::FileError;
use weft_sim::overlay::{self, KeyedValue};
use weft_sim::run::simulate;
use weft_sim::scenario::{self, Scenario};

fn scenario(file: &Path, settings: &[String]) -> Result<Scenario, Box<dyn Error>> {
    let name = file.display().to_string();
    let mut document: toml::Table = std::fs::read_to_string(file)?.parse()?;
    // The settings have their sources elsewhere.
    document.remove("source");
    for setting in settings {
        let KeyedValue { path, value } = KeyedValue::parse(setting)?;
        overlay::apply(&mut document, &path, value)?;
    }
    let folder = file.parent().unwrap_or(Path::new("."));
    let mut beside = |path: &str| {
        std::fs::read_to_string(folder.join(path)).map_err(|error| FileError::Unreadable(error.to_string()))
    };
    Ok(scenario::read(&document.to_string(), &name, &mut beside)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, first, count, settings @ ..] = &words[..] else {
        return Err("name a scenario's file, the first seed, the number of seeds, and settings".into());
    };
    let (first, count): (u64, u64) = (first.parse()?, count.parse()?);
    let scenario = scenario(Path::new(file), settings)?;
    let (mut events, mut digest) = (0, 0xcbf2_9ce4_8422_2325_u64);
    for seed in first..first + count {
        let outcome = simulate(&scenario, seed)?;
        events += outcome.events;
        // FNV-1a with 64 bits.
        for byte in format!("{outcome:?}").bytes() {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    println!(r#"{{"runs": {count}, "events": {events}, "digest": "{digest:016x}"}}"#);
    Ok(())
}
