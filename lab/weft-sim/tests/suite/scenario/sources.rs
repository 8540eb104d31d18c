//! Sources: every key except labels has one, in files of every kind, and a free text is not a source.

use super::examples::folder;
use super::read_alone;
use std::path::PathBuf;
use weft_sim::cost::Costs;
use weft_sim::scenario::{Origin, SourcedFile, sources};

/// Reads a cost file with this source for its only number.
fn cost(source: &str) -> Result<Costs, String> {
    let text = format!("[interrupt]\netc = 100\n{source}\n");
    Costs::read(&text, "c.toml").map_err(|error| error.to_string())
}

#[test]
fn a_free_text_is_no_source() {
    let error = cost("source = \"any string\"").expect_err("a text that leads nowhere");
    assert!(error.contains("source"), "{error}");
}

#[test]
fn each_kind_of_source_must_lead_somewhere() {
    for (kind, good, bad) in [
        ("paper", "Titan TR, section 6", "a paper"),
        ("kernel", "net/sched/sch_sfq.c, sfq_init", "the kernel"),
        ("datasheet", "Intel 82599, section 7.2", "the data sheet"),
        ("standard", "RFC 8312", "the standard"),
        ("assumed", "nobody tells it", "guess"),
    ] {
        let entry = |text: &str| cost(&format!("[[source]]\nkeys = [\"interrupt\"]\n{kind} = \"{text}\""));
        assert!(entry(good).is_ok(), "{kind}: {:?}", entry(good));
        let error = entry(bad).expect_err(bad);
        assert!(error.contains("leads nowhere"), "{error}");
    }
}

#[test]
fn what_is_fitted_says_to_what_and_over_which_values() {
    let entry = |rest: &str| cost(&format!("[[source]]\nkeys = [\"interrupt.etc\"]\n{rest}"));
    assert!(entry("fitted = [\"a cpu\"]\ncandidates = [50, 100]").is_ok());
    for (rest, said) in [
        ("fitted = [\"a cpu\"]", "without `candidates`"),
        ("fitted = \"by eye\"\ncandidates = [100]", "must be a list"),
        ("fitted = [\"table3\"]\ncandidates = [100]", "is no column of an experiment"),
        ("fitted = [\"a cpu\"]\ncandidates = [50, 60]", "is not among its candidates"),
        ("assumed = \"a b c\"\ncandidates = [100]", "without `fitted`"),
        ("assumed = \"a b c\"\nkernel = \"net/core/dev.c\"", "one kind, not 2"),
        ("note = \"a b c\"", "one kind, not 0"),
    ] {
        let error = entry(rest).expect_err(rest);
        assert!(error.contains(said), "{rest}: {error}");
    }
}

#[test]
fn a_scenario_with_sources_has_one_for_each_key() {
    let text = "[host.stack]\nbql = \"256KiB\"\nsend_buffer = \"1MiB\"\n[[flows]]\n\
        [[source]]\nkeys = [\"host.stack.bql\"]\npaper = \"Titan TR, section 6\"\n";
    let error = read_alone(text).expect_err("the send buffer has none").to_string();
    assert!(error.contains("`host.stack.send_buffer` has no source"), "{error}");
    assert!(error.starts_with("a.toml:3:15:"), "{error}");
    let covered = text.replace("[\"host.stack.bql\"]", "[\"host.stack.bql\", \"host.stack.send_buffer\"]");
    assert!(read_alone(&covered).is_ok());
}

#[test]
fn entries_are_of_keys_that_there_are_and_not_of_whole_tables() {
    let text = |key: &str| {
        format!(
            "[host.stack]\nbql = \"256KiB\"\n[[flows]]\n[[source]]\nkeys = [\"{key}\"]\npaper = \"A, Table 1\"\n"
        )
    };
    for (key, said) in [
        ("host.stack.bqls", "did you mean `host.stack.bql`?"),
        ("host.stack", "is a whole table"),
        ("host", "is a whole table"),
    ] {
        let error = read_alone(&text(key)).expect_err(key).to_string();
        assert!(error.contains(said), "{error}");
    }
    let twice = text("host.stack.bql") + "[[source]]\nkeys = [\"host.stack.bql\"]\npaper = \"B, Table 2\"\n";
    assert!(read_alone(&twice).expect_err("twice").to_string().contains("has two sources"));
}

/// Files below a folder of the project.
fn files(path: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(path)).expect("the folder is there");
    let all = entries.map(|entry| entry.expect("an entry").path());
    all.filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect()
}

#[test]
fn every_shipped_file_has_a_source_for_each_key() {
    let text = |path: &PathBuf| std::fs::read_to_string(path).expect("a text");
    let parameters =
        files("experiments").into_iter().filter(|path| text(path).contains("\n[configurations]\n"));
    let mut wrong = Vec::new();
    let mut fitted = 0;
    for (path, kind) in files("experiments/scenarios")
        .into_iter()
        .map(|path| (path, SourcedFile::Scenario))
        .chain(files("experiments/costs").into_iter().map(|path| (path, SourcedFile::Costs)))
        .chain(parameters.map(|path| (path, SourcedFile::Parameters)))
    {
        match sources(&text(&path), &path.display().to_string(), kind) {
            Ok(all) => fitted += all.iter().filter(|s| matches!(s.origin, Origin::Fitted { .. })).count(),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(fitted >= 8, "the known fits are told as such: {fitted}");
}
