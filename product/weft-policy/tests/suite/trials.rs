//! The published orders, as tests of policies: text, compiler and engine together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weft_policy::trial::run::{Outcome, TrialError, run, run_changing};
use weft_policy::trial::{Departure, Trials};
use weft_policy::{
    Compilation, CompileOptions, CompiledPolicy, Fallback, FileError, FileText, Source, TenantFiles,
    TenantTexts, Wanted, compile_with_fallback, texts_of,
};

pub(crate) fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let entries = std::fs::read_dir(folder).expect("the corpus").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|of| of == "wefttest")).collect();
    files.sort();
    files
}

/// The policies of a file of tests, by the paths that it gives them.
pub(crate) type Policies = BTreeMap<String, CompiledPolicy>;

/// The tests of a file, the policy under which they begin, and those that they change to.
pub(crate) fn read(path: &Path) -> (Trials, CompiledPolicy, Policies) {
    let trials: Trials =
        std::fs::read_to_string(path).expect("text").parse().unwrap_or_else(|e| panic!("{path:?}: {e}"));
    // A tenant whose file is refused keeps its last good one.
    let around = |name: &str, good: Option<&TenantTexts>| {
        let text = std::fs::read_to_string(path.with_file_name(name)).expect("a policy");
        let (source, none) = (Source { name: "p", text: &text }, TenantTexts::default());
        let fallback = Fallback { yields: &|_| good.is_some(), good: good.unwrap_or(&none) };
        let compiled = compile_with_fallback(source, &Beside(path), &CompileOptions::default(), fallback);
        let Compilation { policy, diagnostics, tenants, .. } = compiled.expect("few are refused").0;
        (policy.unwrap_or_else(|| panic!("{path:?}: {name}: {diagnostics:?}")), texts_of(&tenants))
    };
    let (first, good) = around(trials.policy.as_deref().expect("a policy"), None);
    let changes = trials.cases.iter().flat_map(|trial| &trial.changes);
    let changed = |path: &String| (path.clone(), around(path, Some(&good)).0);
    let policies = changes.map(|change| changed(&change.policy)).collect();
    (trials, first, policies)
}

/// Files beside one of tests.
struct Beside<'a>(&'a Path);

impl TenantFiles for Beside<'_> {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        let text = std::fs::read_to_string(self.0.with_file_name(wanted.path));
        let text = text.map_err(|_| FileError::Missing(wanted.path.to_owned()))?;
        Ok(FileText { name: wanted.path.to_owned(), text })
    }
}

#[test]
fn the_published_orders_hold() {
    let (mut count, mut live) = (0, 0);
    for path in corpus() {
        let (trials, policy, policies) = read(&path);
        for trial in &trials.cases {
            let outcome = run_changing(trial, &policy, &policies).expect("an end");
            assert_eq!(outcome.difference(trial), None, "{}", trial.name);
            // Another order fails.
            let mut other = trial.clone();
            other.expect.reverse();
            assert!(outcome.difference(&other).is_some(), "{}", trial.name);
            count += 1;
            live += usize::from(!trial.changes.is_empty());
        }
    }
    assert!(count >= 25 && live >= 9, "{count} cases, {live} of them with a change");
}

#[test]
fn a_change_that_cannot_take_place_is_an_error() {
    let path = corpus().into_iter().find(|path| path.ends_with("live_wfq.wefttest")).expect("the test");
    let (trials, policy, policies) = read(&path);
    let trial = &trials.cases[0];
    let error = run(trial, &policy).expect_err("a policy is missing");
    assert_eq!(error, TrialError::UnknownPolicy { path: "live_weights.weft".to_owned() });
    let mut dropped = trial.clone();
    dropped.packets.retain(|packet| packet.name != "B1");
    let error = run_changing(&dropped, &policy, &policies).expect_err("the packet does not leave");
    assert_eq!(error.to_string(), "the change to live_weights.weft is to follow B1, which did not leave");
    let mut early = trial.clone();
    early.packets[0].class = Some("C".to_owned());
    let error = run_changing(&early, &policy, &policies).expect_err("no such class before or after");
    assert!(matches!(error, TrialError::UnknownClass { .. }), "{error}");
}

#[test]
fn differences_are_told() {
    let path = corpus().into_iter().find(|path| path.ends_with("bucket.wefttest")).expect("the bucket");
    let (trials, policy, _) = read(&path);
    let trial = &trials.cases[0];
    let outcome = run(trial, &policy).expect("an end");
    let mut late = trial.clone();
    late.expect[1].at = Some(weft_units::Nanos(7_000));
    assert_eq!(outcome.difference(&late).as_deref(), Some("expected `A2` at 7 us, and it left at 8 us"));
    let lost = Outcome { dropped: vec!["A3".to_owned()], ..outcome.clone() };
    assert_eq!(lost.difference(trial).as_deref(), Some("expected drops of nothing, and dropped were A3"));
    let mut unknown = trial.clone();
    unknown.packets[0].class = Some("b".to_owned());
    let error = run(&unknown, &policy).expect_err("a class that is not there");
    assert!(matches!(&error, TrialError::UnknownClass { .. }), "{error}");
    assert!(error.to_string().contains("it has: a"), "{error}");
    assert_eq!(outcome.sent[0], Departure { name: "A1".to_owned(), at: Some(weft_units::Nanos(0)) });
}
