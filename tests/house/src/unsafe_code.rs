//! Unsafe code: only in listed files, with a reason at each use.

use crate::Finding;
use crate::mask::{Keep, mask};

/// The most lines between the start of a reason and its `unsafe`.
const REASON_LINES_MAX: usize = 8;

/// The lines that contain `unsafe`, from 1.
pub fn uses(source: &str) -> Vec<usize> {
    let code = mask(source, Keep::Code);
    let word = |line: &str| crate::mask::words(line).contains(&"unsafe");
    code.lines().enumerate().filter(|(_, line)| word(line)).map(|(index, _)| index + 1).collect()
}

/// Uses without a `SAFETY:` comment or a `# Safety` section on the same line or in the lines above.
pub fn unexplained(source: &str) -> Vec<Finding> {
    let lines: Vec<&str> = source.lines().collect();
    let explained = |line: usize| {
        let first = line.saturating_sub(REASON_LINES_MAX + 1);
        lines[first..line].iter().any(|text| {
            text.find("//")
                .is_some_and(|at| text[at..].contains("SAFETY:") || text[at..].contains("# Safety"))
        })
    };
    let what = "`unsafe` without a `SAFETY:` comment above it";
    uses(source).into_iter().filter(|&line| !explained(line)).map(|line| Finding::at(line, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsafe_block_needs_its_reason() {
        assert_eq!(unexplained("// SAFETY: it is ours.\nunsafe { f() }"), []);
        assert_eq!(unexplained("/// # Safety\n/// By the caller.\npub unsafe fn f() {}"), []);
        assert_eq!(unexplained("let a = 1;\nunsafe { f() }").len(), 1);
        assert_eq!(unexplained("let a = \"SAFETY: x\";\nunsafe { f() }").len(), 1, "a string is no comment");
        let far = format!("// SAFETY: it is ours.\n{}unsafe {{ f() }}", "a();\n".repeat(9));
        assert_eq!(unexplained(&far).len(), 1);
    }

    #[test]
    fn words_and_attributes_are_no_uses() {
        assert_eq!(uses("#![forbid(unsafe_code)]\n// unsafe\nlet a = \"unsafe\";"), Vec::<usize>::new());
        assert_eq!(uses("a();\nunsafe impl Send for X {}"), [2]);
    }
}
