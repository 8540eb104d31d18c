//! The shipped scenarios, compiled into the program: texts for users to start from.

use crate::catalogue::files::beside_scenarios;

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => {
        /// Names and texts.
        const EXAMPLES: &[(&str, &str)] = &[$((
            $name,
            include_str!(concat!("../../../../experiments/scenarios/", $name, ".toml")),
        )),*];
    };
}

scenarios! {
    "dctcp-leaf-spine",
    "hoststack",
    "hoststack-all-to-all",
    "incast",
    "kernel-tcp",
    "loom-doorbells",
    "loom-hierarchy",
    "loom-isolation",
    "loom-jobs",
    "loom-limit",
    "loom-memcached-limit",
    "memcached",
    "request-response",
    "shuffle",
    "tenants",
    "titan",
    "titan-12-flows",
    "tune",
    "udp-fq-codel",
    "veth",
}

/// Returns the scenarios' names.
pub fn examples() -> impl Iterator<Item = &'static str> {
    EXAMPLES.iter().map(|(name, _)| *name)
}

/// Returns a scenario's text with its cost file included, so that it can be saved anywhere; `None` for an unknown
/// name.
pub fn example(name: &str) -> Option<String> {
    EXAMPLES.iter().find(|(known, _)| *known == name).map(|(_, text)| with_costs(text))
}

/// Replaces the path of a scenario's cost file by the file's tables, at the end. A path that names no shipped file
/// stays.
fn with_costs(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut tables = String::new();
    for line in text.lines() {
        let path = line.strip_prefix("costs = \"").and_then(|rest| rest.strip_suffix('"'));
        match path.and_then(|path| beside_scenarios(path).ok()) {
            Some(costs) => tables = below_costs(&costs),
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    out + &tables
}

/// Rewrites a cost file's text as a part of a scenario: `[poll]` becomes `[costs.poll]`, `[[source]]` becomes
/// `[[costs.source]]`.
fn below_costs(text: &str) -> String {
    let mut out = String::from("\n");
    for line in text.lines() {
        match (line.strip_prefix("[["), line.strip_prefix('[')) {
            (Some(head), _) => out.extend(["[[costs.", head]),
            (None, Some(head)) => out.extend(["[costs.", head]),
            _ => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use weft_sim::scenario::read;

    #[test]
    fn every_shipped_scenario_is_an_example_that_stands_alone_and_says_the_same() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/scenarios");
        let mut files: Vec<String> = std::fs::read_dir(&folder)
            .expect("the folder is there")
            .map(|entry| entry.expect("an entry").path().file_stem().expect("a name").to_os_string())
            .map(|stem| stem.into_string().expect("UTF-8"))
            .collect();
        files.sort();
        assert_eq!(files, examples().collect::<Vec<_>>());
        for name in examples() {
            let path = folder.join(format!("{name}.toml"));
            let original = super::super::read(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
            let text = example(name).expect("an example");
            let alone = read(&text, &format!("{name}.toml"), &mut |path| {
                Err(weft_policy::FileError::Unreadable(format!("{path} is asked for")))
            });
            assert_eq!(alone.unwrap_or_else(|error| panic!("{error}")), original);
        }
        assert_eq!(example("no-such-scenario"), None);
    }
}
