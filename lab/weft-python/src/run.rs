//! `weftline.run`: a scenario in the simulator.

use crate::background::interruptible;
use crate::failure::Failure;
use crate::files;
use crate::input::{self, Given};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::collections::BTreeMap;
use std::fs;
use std::num::NonZero;
use std::thread;
use std::time::Instant;
use weft_campaign::document::{SeededRun, report};
use weft_facts::record::Host;
use weft_policy::{FileError, Severity};
use weft_sim::overlay;
use weft_sim::run::{DiagnosticInText, policy_diagnostics, simulate};
use weft_sim::scenario::{self, Scenario};

/// Simulates a scenario with some of its values replaced. Returns the document of `weft sim`, and warnings of its policies.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Bound<'_, PyAny>,
    sets: &Bound<'_, PyDict>,
    seed: u64,
) -> PyResult<(String, Vec<String>)> {
    let given = Given::read(scenario, "scenario")?;
    let scenario = read(&given, sets)?;
    let warnings = warnings(&given, &scenario)?;
    let begin = Instant::now();
    let work = move || simulate(&scenario, seed).map(|outcome| (scenario, outcome));
    let (scenario, outcome) = interruptible(py, work)?.map_err(|error| Failure::plain(error, ""))?;
    let wall_s = begin.elapsed().as_secs_f64();
    let text = report(&scenario, &[SeededRun { seed, outcome }], wall_s, host())
        .and_then(|report| serde_json::to_string(&report).ok());
    let text = text.ok_or_else(|| Failure::plain("the outcome cannot be written", ""))?;
    Ok((text, warnings))
}

/// Reads a scenario with values set over it.
fn read(given: &Given, sets: &Bound<'_, PyDict>) -> Result<Scenario, Failure> {
    let folder = given.folder();
    let mut files = |name: &str| -> Result<String, FileError> { files::text(&folder.join(name)) };
    let document = given.text.parse::<toml::Table>();
    let (false, Ok(mut document)) = (sets.is_empty(), document) else {
        return Ok(scenario::read(&given.text, &given.name, &mut files)?);
    };
    // Sources describe the file's values, not those that are set.
    document.remove("source");
    for (key, value) in sets {
        let key: String = key.extract()?;
        let value = input::value(&value, &mut vec![key.clone()])?;
        let help = "keys are those of `weft sim --set`, such as host.stack.qdisc or flows.0.count";
        overlay::apply(&mut document, &key, value).map_err(|error| Failure::plain(error, help))?;
    }
    let name = format!("{} with settings", given.name);
    Ok(scenario::read(&document.to_string(), &name, &mut files)?)
}

/// The warnings of the hosts' policies, a line each.
fn warnings(given: &Given, scenario: &Scenario) -> Result<Vec<String>, Failure> {
    let folder = given.folder();
    let located =
        policy_diagnostics(scenario).into_iter().map(|DiagnosticInText { mut diagnostic, .. }| {
            if scenario.files.contains_key(&diagnostic.file) {
                diagnostic.file = folder.join(&diagnostic.file).display().to_string();
            }
            diagnostic
        });
    let all: Vec<_> = located.collect();
    if all.iter().any(weft_policy::Diagnostic::is_error) {
        return Err(Failure::Policy(all));
    }
    let warnings = all.iter().filter(|one| one.severity == Severity::Warning);
    Ok(warnings.map(weft_policy::Diagnostic::one_line).collect())
}

/// The facts of this host that every document has.
pub(crate) fn host() -> Host {
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    Host {
        kernel: kernel.trim().to_owned(),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        detected: BTreeMap::new(),
    }
}
