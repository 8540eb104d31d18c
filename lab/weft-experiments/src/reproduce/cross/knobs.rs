//! Fitted keys: those marked so by their source, in a parameter file, its scenario, and the scenario's cost file.

use crate::catalogue::overlay;
use crate::reproduce::catalogue;
use crate::reproduce::file::{ExperimentFileError, Parameters};
use toml::{Table, Value};
use weft_sim::scenario::{FittedColumn, Origin, SourceEntry, SourcedFile, sources};

/// The kind of file that a key is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Parameters,
    Scenario,
    Costs,
}

/// A fitted key.
#[derive(Clone, Debug)]
pub(super) struct Knob {
    place: Place,
    /// The file's name below `experiments/`.
    pub(super) file: String,
    pub(super) key: String,
    pub(super) candidates: Vec<Value>,
    /// The index of the file's own value among the candidates.
    pub(super) present: usize,
    pub(super) targets: Vec<FittedColumn>,
}

/// The reason that the source of a fitted key contradicts its file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
enum KnobError {
    /// The file lacks the key.
    #[error("there is no `{0}`")]
    NoKey(String),
    /// The file's own value is not among the candidates.
    #[error("`{0}` has none of its candidates")]
    NoCandidate(String),
}

/// Returns all fitted keys, in the order of their sources: costs, scenario, parameters.
pub(super) fn knobs(name: &str, parameters: &Parameters) -> Result<Vec<Knob>, ExperimentFileError> {
    let scenario = catalogue::text(&parameters.scenario)?;
    let base = parameters.base()?;
    let costs = base.get("costs").and_then(Value::as_str).map(|path| path.trim_start_matches("../"));
    let mut knobs = Vec::new();
    let costs = costs.filter(|path| *path != "free");
    let files = [
        costs.map(|path| (Place::Costs, path, SourcedFile::Costs)),
        Some((Place::Scenario, parameters.scenario.as_str(), SourcedFile::Scenario)),
        Some((Place::Parameters, name, SourcedFile::Parameters)),
    ];
    for (place, file, kind) in files.into_iter().flatten() {
        let text = if place == Place::Scenario { scenario } else { catalogue::text(file)? };
        let wrong = |reason: String| ExperimentFileError::Invalid { file: file.to_owned(), reason };
        let document: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        for source in sources(text, file, kind).map_err(|error| wrong(error.to_string()))? {
            if let Some(knob) = knob(place, file, &source, &document) {
                knobs.push(knob.map_err(|error| wrong(error.to_string()))?);
            }
        }
    }
    Ok(knobs)
}

/// Returns the fitted key of a source; `None` if the source is not a fit.
fn knob(place: Place, file: &str, source: &SourceEntry, document: &Table) -> Option<Result<Knob, KnobError>> {
    let Origin::Fitted { to, candidates } = &source.origin else { return None };
    let key = source.keys.first()?;
    let read = |text: &String| {
        let table: Table = format!("x = {text}").parse().ok()?;
        table.get("x").cloned()
    };
    let knob = || {
        let candidates: Vec<Value> = candidates.iter().filter_map(read).collect();
        let value = find(document, place, key).ok_or_else(|| KnobError::NoKey(key.clone()))?;
        let present = candidates.iter().position(|candidate| *candidate == value);
        let present = present.ok_or_else(|| KnobError::NoCandidate(key.clone()))?;
        let (file, key, targets) = (file.to_owned(), key.clone(), to.clone());
        Ok(Knob { place, file, key, candidates, present, targets })
    };
    Some(knob())
}

/// Splits the path of a parameter file's key into the keys of its table and the setting.
fn setting(key: &str) -> Option<(Vec<&str>, &str)> {
    let (section, rest) = key.split_once('.')?;
    let (name, rest) = rest.split_once('.')?;
    match section {
        "in_preset" => rest.split_once('.').map(|(inner, rest)| (vec![section, name, inner], rest)),
        _ => Some((vec![section, name], rest)),
    }
}

fn find(document: &Table, place: Place, key: &str) -> Option<Value> {
    if place == Place::Parameters {
        let (tables, setting) = setting(key)?;
        let inner = tables.iter().try_fold(document, |table, name| table.get(*name)?.as_table());
        return inner?.get(setting).cloned();
    }
    let mut parts = key.split('.');
    let first = document.get(parts.next()?)?;
    let value = parts.try_fold(first, |value, part| match value {
        Value::Array(list) => list.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    });
    value.cloned()
}

/// Returns the scenario document of a row, with one candidate of each knob.
pub(super) fn document(
    parameters: &Parameters,
    (preset, row): (Option<&str>, &str),
    knobs: &[Knob],
    choice: &[usize],
) -> Result<Table, ExperimentFileError> {
    let mut parameters = parameters.clone();
    let mut base = parameters.base()?;
    with_costs(&mut base)?;
    for (knob, candidate) in knobs.iter().zip(choice) {
        let wrong = |reason: String| ExperimentFileError::Invalid { file: knob.file.clone(), reason };
        let missing = || wrong(format!("`{}` cannot be set", knob.key));
        let value = knob.candidates.get(*candidate).cloned().ok_or_else(missing)?;
        match knob.place {
            Place::Parameters => {
                let (tables, setting) = setting(&knob.key).ok_or_else(missing)?;
                let table = match tables[..] {
                    ["presets", name] => parameters.presets.get_mut(name),
                    ["configurations", name] => parameters.configurations.get_mut(name),
                    ["in_preset", preset, name] => {
                        parameters.in_preset.get_mut(preset).and_then(|all| all.get_mut(name))
                    }
                    _ => None,
                };
                table.ok_or_else(missing)?.insert(setting.to_owned(), value);
            }
            Place::Scenario => {
                overlay::apply(&mut base, &knob.key, value).map_err(|error| wrong(error.to_string()))?;
            }
            Place::Costs => {
                let path = format!("costs.{}", knob.key);
                overlay::apply(&mut base, &path, value).map_err(|error| wrong(error.to_string()))?;
            }
        }
    }
    parameters.over(base, preset, row)
}

/// Replaces the path of the cost file in the document by the file's tables.
fn with_costs(document: &mut Table) -> Result<(), ExperimentFileError> {
    let path = document.get("costs").and_then(Value::as_str).filter(|path| *path != "free");
    let Some(path) = path.map(str::to_owned) else { return Ok(()) };
    let wrong = |reason: String| ExperimentFileError::Invalid { file: path.clone(), reason };
    let text = crate::catalogue::files::beside_scenarios(&path).map_err(|error| wrong(error.to_string()))?;
    let tables: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
    document.insert("costs".to_owned(), Value::Table(tables));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{document, knobs};
    use crate::reproduce::file;

    #[test]
    fn the_known_fits_of_titan_are_all_there_and_fit_columns_that_there_are() {
        let parameters = file::parameters("titan.toml").expect("right");
        let knobs = knobs("titan.toml", &parameters).expect("right");
        for key in [
            "copy_in_byte.data_copy",
            "contention.socket_transfer_ns",
            "contention.interrupt_latency_ns",
            "host.stack.qdisc.prio+sfq.quantum",
            "presets.tr.host.stack.small_queue_floor",
            "presets.atc.host.stack.small_queue_floor",
            "presets.atc.probes.0.core",
            "presets.atc.probes.0.interval",
            "probes.0.interval",
        ] {
            assert!(knobs.iter().any(|knob| knob.key == key), "{key}");
        }
        for target in knobs.iter().flat_map(|knob| &knob.targets) {
            let experiment = file::experiment(&target.experiment).expect("an experiment");
            assert!(experiment.columns.iter().any(|column| column.name == target.column), "{target:?}");
        }
    }

    #[test]
    fn with_the_present_candidates_a_row_s_scenario_is_that_of_the_files() {
        use crate::catalogue::files::beside_scenarios;
        let parameters = file::parameters("titan.toml").expect("right");
        let knobs = knobs("titan.toml", &parameters).expect("right");
        let present: Vec<usize> = knobs.iter().map(|knob| knob.present).collect();
        let read = |table: toml::Table| {
            let text = table.to_string();
            weft_sim::scenario::read(&text, "a.toml", &mut |path| beside_scenarios(path)).expect("right")
        };
        for (preset, row) in [("tr", "C1"), ("tr", "T2"), ("atc", "Cvanilla"), ("atc", "TX3")] {
            let ours = document(&parameters, (Some(preset), row), &knobs, &present).expect("right");
            let theirs = parameters.document(Some(preset), row).expect("right");
            assert_eq!(read(ours), read(theirs), "{preset} {row}");
            let mut other = present.clone();
            other[0] = usize::from(present[0] == 0);
            let changed = document(&parameters, (Some(preset), row), &knobs, &other).expect("right");
            assert_ne!(read(changed), read(parameters.document(Some(preset), row).expect("right")));
        }
    }
}
