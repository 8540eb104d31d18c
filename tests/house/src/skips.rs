//! Tests that skip without `skip`, so that `make test` does not count them.

use crate::Finding;
use crate::mask::{Keep, mask};

/// Calls that print.
const PRINTS: [&str; 4] = ["println!(", "print!(", "eprintln!(", "eprint!("];
/// Calls that find out that something is missing, after which a test may end early.
const MISSING: [&str; 2] = ["programs::find(", "Command::new("];
/// The most lines between such a call and an early end.
const NEAR: usize = 4;

/// Lines of a test's source that print a skip, and early ends after a missing program, without a call of
/// `skip`.
pub fn ad_hoc(source: &str) -> Vec<Finding> {
    let (code, strings) = (mask(source, Keep::Code), mask(source, Keep::Strings));
    let (code, strings): (Vec<&str>, Vec<&str>) = (code.lines().collect(), strings.lines().collect());
    let mut findings = Vec::new();
    for (index, line) in code.iter().enumerate() {
        if PRINTS.iter().any(|print| line.contains(print)) && strings[index].to_lowercase().contains("\"skip")
        {
            findings.push(Finding::at(
                index + 1,
                "prints that it is skipped; `weft_units::testing::skip` counts it too",
            ));
        }
        if MISSING.iter().any(|what| line.contains(what)) {
            let near = &code[index..code.len().min(index + NEAR)];
            let end = near.iter().position(|line| ends_early(line));
            let told = near.iter().take(end.map_or(0, |end| end + 1)).any(|line| line.contains("skip("));
            if end.is_some() && !told {
                findings.push(Finding::at(
                    index + 1,
                    "ends without a word where a program is missing; use `testing::has_program`",
                ));
            }
        }
    }
    findings
}

/// Whether a line ends a test or continues with its next case.
fn ends_early(line: &str) -> bool {
    let line = line.trim();
    ["return;", "return };", "{ return }", "continue;", "continue };"].iter().any(|end| line.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skips_of_another_kind_are_found() {
        for source in [
            "fn t() {\n    println!(\"skipped: no tool\");\n}\n",
            "fn t() {\n    eprintln!(\"Skipping this\");\n}\n",
            "fn t() {\n    let Some(a) = programs::find(\"a\") else { return };\n}\n",
            "fn t() {\n    if find::programs::find(a).is_none() {\n        continue;\n    }\n}\n",
            "fn t() {\n    let Ok(a) = Command::new(\"a\").spawn() else {\n        return;\n    };\n}\n",
        ] {
            assert_eq!(ad_hoc(source).len(), 1, "{source}");
        }
    }

    #[test]
    fn skips_that_are_counted_pass() {
        for source in [
            "fn t() {\n    let Some(a) = programs::find(\"a\") else {\n        return testing::skip(\"t\", \"no a\");\n    };\n}\n",
            "fn t() {\n    if !has_program(\"t\", \"a\") {\n        return;\n    }\n}\n",
            "fn t() {\n    Command::new(\"a\").spawn().expect(\"a\");\n}\n",
            "fn t() {\n    // println!(\"skip\")\n}\n",
        ] {
            assert_eq!(ad_hoc(source), [], "{source}");
        }
    }
}
