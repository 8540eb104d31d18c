//! First lines of documentation: a noun phrase or a third-person verb, as in rustdoc's lists of items.

use crate::Finding;

/// Words that begin a clause and not a phrase: `What a flow costs` becomes `The cost of a flow`.
const CLAUSES: [&str; 6] = ["What", "How", "Why", "Who", "Whose", "That"];

/// Documentation comments whose first line begins with a clause.
pub fn clauses(source: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut inside = false;
    for (number, line) in source.lines().enumerate() {
        let text = line.trim_start();
        let doc = ["///", "//!"].iter().find_map(|mark| text.strip_prefix(mark));
        let Some(doc) = doc else {
            inside = false;
            continue;
        };
        let first = doc.split_whitespace().next().unwrap_or_default().trim_end_matches(['.', ':', ',']);
        if !inside && CLAUSES.contains(&first) {
            findings.push(Finding::at(number + 1, format!("`{first}` begins a clause, not a phrase")));
        }
        inside = true;
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_first_lines_are_judged() {
        let source = "//! What a module is.\n\n/// Gives back\n/// What it took.\nfn f() {}\n    /// Why.\n    a: u8,\n";
        let lines: Vec<usize> = clauses(source).into_iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [1, 6]);
        assert!(clauses("/// Whatever comes.\n// What a plain comment says.\n").is_empty());
    }
}
