//! The form of sources: module comments, lengths, marks of unfinished work.

use crate::Finding;
use crate::mask::{Keep, end_of_item, mask, without_tests};

/// The most lines of a function.
pub const FUNCTION_LINES_MAX: usize = 70;
/// The most lines of a source file without its tests.
pub const FILE_LINES_MAX: usize = 900;

/// Reports a file that does not begin with a `//!` comment.
pub fn module_comment(source: &str) -> Option<Finding> {
    let first = source.lines().find(|line| !line.trim().is_empty() && !line.starts_with("#!["));
    match first {
        Some(line) if line.starts_with("//!") && line.len() > 8 => None,
        _ => Some(Finding::at(1, "begins without a `//!` line that says what the module is")),
    }
}

/// A function: its name, its first line and its length.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Its first line, from 1.
    pub line: usize,
    /// Its length in lines.
    pub lines: usize,
}

/// The functions with a body, without tests.
pub fn functions(source: &str) -> Vec<Function> {
    let code = without_tests(&mask(source, Keep::Code));
    let mut found = Vec::new();
    for (start, _) in code.match_indices("fn ") {
        if code[..start].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            continue;
        }
        let rest = &code[start + 3..];
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let end = end_of_item(&code, start);
        if name.is_empty() || !code[..end].ends_with('}') {
            continue;
        }
        let line = code[..start].matches('\n').count() + 1;
        let lines = code[start..end].matches('\n').count() + 1;
        found.push(Function { name, line, lines });
    }
    found
}

/// Functions longer than [`FUNCTION_LINES_MAX`] that `excepted` does not name.
pub fn long_functions(source: &str, excepted: &[&str]) -> Vec<Finding> {
    let long = |f: &Function| f.lines > FUNCTION_LINES_MAX && !excepted.contains(&f.name.as_str());
    let what = |f: Function| {
        let Function { name, line, lines } = f;
        Finding::at(line, format!("function `{name}` has {lines} lines; at most {FUNCTION_LINES_MAX}"))
    };
    functions(source).into_iter().filter(long).map(what).collect()
}

/// The lines of a source that are built for tests only. Comments and empty lines between two of them are among them.
pub fn lines_for_tests(source: &str) -> usize {
    let code = mask(source, Keep::Code);
    let kept = without_tests(&code);
    let (mut found, mut between, mut inside) = (0, 0, false);
    for (all, kept) in code.lines().zip(kept.lines()) {
        if all != kept {
            found += 1 + between;
            (between, inside) = (0, true);
        } else if all.trim().is_empty() && inside {
            between += 1;
        } else {
            (between, inside) = (0, false);
        }
    }
    found
}

/// Reports a file longer than [`FILE_LINES_MAX`] without its tests.
pub fn long_file(source: &str) -> Option<Finding> {
    let lines = source.lines().count() - lines_for_tests(source);
    (lines > FILE_LINES_MAX)
        .then(|| Finding::at(0, format!("has {lines} lines without its tests; at most {FILE_LINES_MAX}")))
}

/// Marks that finished text does not contain. Each is in two halves, so that this file does not contain them either.
const MARKS: [[&str; 2]; 5] =
    [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["unimple", "mented!"], ["to", "do!"]];

/// Marks of unfinished work, as whole words.
pub fn unfinished(text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for mark in MARKS.map(|halves| halves.concat()) {
        for (at, _) in text.match_indices(&mark) {
            let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
            if text[..at].ends_with(part_of_word) || text[at + mark.len()..].starts_with(part_of_word) {
                continue;
            }
            let line = text[..at].matches('\n').count() + 1;
            found.push(Finding::at(line, format!("`{mark}`: finish it, or say in words what is not done")));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function_of(lines: usize) -> String {
        format!(
            "impl X {{\n    fn long(\n        a: u8,\n    ) {{\n{}    }}\n}}\n",
            "        a();\n".repeat(lines - 4)
        )
    }

    #[test]
    fn a_module_needs_a_comment() {
        assert_eq!(module_comment("//! What it is.\nuse x;"), None);
        assert_eq!(module_comment("#![no_std]\n\n//! What it is.\n"), None);
        for bad in ["use x;\n//! Too late.", "// What it is.", "//!\n", ""] {
            assert!(module_comment(bad).is_some(), "{bad:?}");
        }
    }

    #[test]
    fn long_functions_are_found_and_may_be_excepted() {
        assert_eq!(long_functions(&function_of(70), &[]), []);
        let long = function_of(71);
        assert_eq!(functions(&long), [Function { name: "long".into(), line: 2, lines: 71 }]);
        assert_eq!(long_functions(&long, &[]).len(), 1);
        assert_eq!(long_functions(&long, &["long"]), []);
        assert_eq!(long_functions(&format!("#[cfg(test)]\nmod tests {{\n{long}\n}}"), &[]), []);
    }

    #[test]
    fn declarations_and_pointers_are_no_functions() {
        assert_eq!(functions("trait T { fn a(x: [u8; 2]); } type F = fn (u8); let fnord = 1;"), []);
    }

    #[test]
    fn long_files_are_found_without_their_tests() {
        let code = "a();\n".repeat(FILE_LINES_MAX);
        assert_eq!(long_file(&code), None);
        assert_eq!(long_file(&format!("{code}#[cfg(test)]\nmod tests {{\n{code}}}\n")), None);
        assert!(long_file(&format!("{code}a();\n")).is_some());
        assert!(long_file(&"// words\n".repeat(FILE_LINES_MAX + 1)).is_some(), "comments count");
    }

    #[test]
    fn marks_of_unfinished_work_are_found() {
        for mark in MARKS.map(|halves| halves.concat()) {
            assert_eq!(unfinished(&format!("a\nb {mark} c")).len(), 1, "{mark}");
            assert_eq!(unfinished(&format!("a{mark}")), [], "part of a word");
        }
        assert_eq!(unfinished("nothing to do here"), []);
    }

    #[test]
    fn lines_for_tests_are_counted_with_what_is_between_them() {
        let source = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    // why\n\n    fn b() {}\n}\n\nfn c() {}\n";
        assert_eq!(lines_for_tests(source), 6);
        assert_eq!(lines_for_tests("fn a() {}\n"), 0);
    }
}
