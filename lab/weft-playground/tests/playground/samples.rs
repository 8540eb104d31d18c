//! The samples, and the words of the page.

use crate::answers::ask;
use serde_json::Value;
use std::collections::BTreeSet;
use weft_playground::{SAMPLES, start};

#[test]
fn every_sample_runs_as_it_expects() {
    for sample in SAMPLES.iter().filter(|sample| sample.name != "mistakes") {
        let found = ask(sample.policy, sample.arrivals);
        let wrong: Vec<String> =
            found.diagnostics.iter().filter(|one| one.severity != "note").map(ToString::to_string).collect();
        assert_eq!(wrong, Vec::<String>::new(), "{}", sample.name);
        let outcome = found
            .run
            .unwrap_or_else(|| panic!("{}: {:?} {:?}", sample.name, found.error, found.arrivals_error));
        assert!(!outcome.cut && outcome.difference.is_none(), "{}: {:?}", sample.name, outcome.difference);
        assert!(outcome.packets.iter().all(|packet| packet.fate == "sent"), "{}", sample.name);
        assert!(found.drawing.is_some() && found.cost.is_some(), "{}", sample.name);
    }
    let own = SAMPLES.iter().map(|sample| sample.name).collect::<BTreeSet<_>>();
    assert_eq!(own.len(), SAMPLES.len(), "links name samples");
}

/// Each mistake has one error, and the fixes lead to a policy that compiles.
#[test]
fn the_mistakes_are_mended_by_their_fixes() {
    let sample = SAMPLES.iter().find(|sample| sample.name == "mistakes").expect("it is there");
    let mut text = sample.policy.to_owned();
    let first = ask(&text, sample.arrivals);
    assert_eq!(
        first.diagnostics.iter().filter(|one| one.severity == "error").count(),
        3,
        "{:?}",
        first.diagnostics
    );
    assert!(first.diagnostics.iter().all(|one| one.fix.is_some()), "{:?}", first.diagnostics);
    for _ in 0..3 {
        let found = ask(&text, sample.arrivals);
        let fix = found.diagnostics.iter().find_map(|one| one.fix.clone()).expect("a mistake is left");
        text = fix.apply(&text);
    }
    let found = ask(&text, sample.arrivals);
    assert!(found.run.is_some(), "{text}\n{:?}", found.diagnostics);
}

/// The page colours tests and types apart from other words; both are words of the language.
#[test]
fn the_page_knows_no_other_words() {
    let path = format!("{}/page/colour.js", env!("CARGO_MANIFEST_DIR"));
    let script = std::fs::read_to_string(path).expect("the script is there");
    let start: Value = serde_json::from_str(&start()).expect("JSON");
    let known = |lists: &[&str]| -> BTreeSet<String> {
        let words = lists.iter().flat_map(|list| start["words"][list].as_array().expect("a list"));
        words.map(|word| word.as_str().expect("a word").to_owned()).collect()
    };
    for (name, lists) in [("TESTS", &["reserved", "contextual"][..]), ("TYPES", &["algorithm"])] {
        let line = script.lines().find(|line| line.starts_with(&format!("const {name} = "))).expect(name);
        let words: BTreeSet<String> =
            line.split('"').nth(1).expect("words").split(' ').map(str::to_owned).collect();
        let known = known(lists);
        let unknown: Vec<_> = words.difference(&known).collect();
        assert!(words.len() > 5 && unknown.is_empty(), "{name}: {unknown:?}");
    }
    assert!(known(&["lines"]).contains("packet") && known(&["facts"]).contains("deadline"));
    assert!(known(&["kinds"]).contains("shaper") && known(&["names"]).contains("head.deadline"));
}
