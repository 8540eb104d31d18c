//! The published orders, as tests of policies: text, compiler and engine together.

use std::path::{Path, PathBuf};
use weft_policy::trial::run::{Outcome, TrialError, run};
use weft_policy::trial::{Departure, Trials};

pub(crate) fn corpus() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let entries = std::fs::read_dir(folder).expect("the corpus").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|of| of == "wefttest")).collect();
    files.sort();
    files
}

pub(crate) fn read(path: &Path) -> (Trials, weft_policy::CompiledPolicy) {
    let trials: Trials =
        std::fs::read_to_string(path).expect("text").parse().unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let policy = path.with_file_name(trials.policy.as_deref().expect("a policy"));
    let text = std::fs::read_to_string(policy).expect("a policy");
    let compilation = crate::common::compiled(&text);
    (trials, compilation.policy.unwrap_or_else(|| panic!("{path:?}: {:?}", compilation.diagnostics)))
}

#[test]
fn the_published_orders_hold() {
    let mut count = 0;
    for path in corpus() {
        let (trials, policy) = read(&path);
        for trial in &trials.cases {
            let outcome = run(trial, &policy).expect("an end");
            assert_eq!(outcome.difference(trial), None, "{}", trial.name);
            // Another order fails.
            let mut other = trial.clone();
            other.expect.reverse();
            assert!(outcome.difference(&other).is_some(), "{}", trial.name);
            count += 1;
        }
    }
    assert!(count >= 16, "{count} cases");
}

#[test]
fn differences_are_told() {
    let path = corpus().into_iter().find(|path| path.ends_with("bucket.wefttest")).expect("the bucket");
    let (trials, policy) = read(&path);
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
