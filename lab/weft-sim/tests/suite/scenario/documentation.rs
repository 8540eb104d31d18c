//! Checks docs/scenario-files.md: every key known to the reader is listed with its default.

use super::examples::folder;
use super::read_alone;
use std::collections::BTreeMap;
use weft_sim::cost::{CostCategory, CostedOperation};
use weft_sim::scenario::{QdiscKind, known_keys};
use weft_sim::{assignment, congestion};

/// Returns the rows of the page's tables: first and second cell, by the table named in the heading above in backquotes.
fn rows(page: &str) -> BTreeMap<String, Vec<(String, String)>> {
    let mut rows: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    let mut table = String::new();
    for line in page.lines() {
        if line.starts_with('#') {
            table = line.split('`').nth(1).unwrap_or_default().trim_matches(['[', ']']).to_owned();
        }
        let cells: Vec<&str> = line.split(" | ").map(str::trim).collect();
        if let [first, default, _, ..] = cells[..]
            && let Some(key) = first.strip_prefix("| `").and_then(|key| key.strip_suffix('`'))
        {
            rows.entry(table.clone()).or_default().push((key.to_owned(), default.to_owned()));
        }
    }
    rows
}

#[test]
fn every_key_stands_in_the_page_with_its_default() {
    let page = std::fs::read_to_string(folder("docs/scenario-files.md")).expect("the page is there");
    let rows = rows(&page);
    let mut missing = Vec::new();
    for known in known_keys() {
        // Qdiscs, schedulers and traffic share a table, with keys such as `udp.rate`.
        let quoted = [format!("`{}`", known.default), known.default.clone()];
        let of = |table: &str, key: &str| {
            rows.get(table)
                .is_some_and(|rows| rows.iter().any(|(k, default)| k == key && quoted.contains(default)))
        };
        let choice = format!("{}.{}", known.table, known.key);
        if !of(known.table, known.key) && !rows.keys().any(|table| of(table, &choice)) {
            missing.push(known);
        }
    }
    assert!(missing.is_empty(), "missing, or with another default: {missing:#?}");
}

#[test]
fn the_page_has_no_keys_that_the_reader_does_not_know() {
    let page = std::fs::read_to_string(folder("docs/scenario-files.md")).expect("the page is there");
    let known: Vec<String> =
        known_keys().into_iter().flat_map(|k| [k.key.to_owned(), format!("{}.{}", k.table, k.key)]).collect();
    let words = rows(&page).into_values().flatten().map(|(key, _)| key);
    let unknown: Vec<String> = words.filter(|key| !known.contains(key)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn names_and_operations_stand_in_the_page() {
    let page = std::fs::read_to_string(folder("docs/scenario-files.md")).expect("the page is there");
    let names = congestion::NAMES.iter().chain(assignment::NAMES.iter()).copied();
    let costs =
        CostedOperation::ALL.iter().map(|o| o.name()).chain(CostCategory::ALL.iter().map(|c| c.name()));
    let missing: Vec<&str> = names.chain(costs).filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_qdisc_stands_in_the_page() {
    let page = std::fs::read_to_string(folder("docs/scenario-files.md")).expect("the page is there");
    let (_, behind) = page.split_once("\nQdiscs: ").expect("a paragraph tells the qdiscs");
    let paragraph = behind.split("\n\n").next().unwrap_or_default();
    let missing: Vec<_> = QdiscKind::NAMES
        .iter()
        .filter(|name| {
            !paragraph.contains(&format!("`\"{name}\"`")) && !paragraph.contains(&format!("{{ {name} ="))
        })
        .collect();
    assert!(missing.is_empty(), "docs/scenario-files.md, \"Qdiscs\", does not tell {missing:?}");
}

/// Reads the page's complete examples, so that they stay valid.
#[test]
fn the_examples_of_the_page_read() {
    let page = std::fs::read_to_string(folder("docs/scenario-files.md")).expect("the page is there");
    let blocks: Vec<&str> =
        page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert!(blocks.len() >= 2, "{}", blocks.len());
    for block in blocks {
        if let Err(error) = read_alone(block) {
            panic!("{}", error.render(weft_text::Style::Plain));
        }
    }
}
