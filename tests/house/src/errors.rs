//! Interfaces whose error is a text: callers cannot tell one failure from another.

use crate::Finding;
use crate::mask::{Keep, end_of_item, mask, members, starts_word, without_tests};

/// Reports `Result<_, String>` in the signatures of visible functions, in visible types and traits, and in type aliases.
pub fn texts(source: &str) -> Vec<Finding> {
    let code = without_tests(&mask(source, Keep::Code));
    let mut found: Vec<usize> = interfaces(&code)
        .flat_map(|(start, end)| results(&code[start..end]).map(move |at| start + at))
        .collect();
    found.sort_unstable();
    found.dedup();
    let finding = |at: usize| {
        let line = code[..at].matches('\n').count() + 1;
        Finding::at(line, "`Result<_, String>` in an interface: give the error a type")
    };
    found.into_iter().map(finding).collect()
}

/// The ranges of signatures, visible types and traits, and type aliases.
fn interfaces(code: &str) -> impl Iterator<Item = (usize, usize)> + '_ {
    let visible = code.match_indices("pub").filter_map(move |(at, _)| {
        let start = at + starts_word(code, at).then(|| after_visibility(&code[at..])).flatten()?;
        let mut words =
            code[start..].split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
        let item = words.find(|word| !matches!(*word, "const" | "async" | "unsafe" | "extern"))?;
        match item {
            "fn" => Some((at, end_of_signature(code, start))),
            "struct" | "enum" | "union" | "trait" => Some((at, end_of_item(code, start))),
            _ => None,
        }
    });
    let aliases = code
        .match_indices("type ")
        .filter(move |(at, _)| starts_word(code, *at))
        .map(move |(at, _)| (at, end_of_signature(code, at)));
    visible.chain(aliases)
}

/// The end of `pub`, `pub(crate)` and the like at the start of `code`; `None` if another word begins with `pub`.
fn after_visibility(code: &str) -> Option<usize> {
    let rest = &code[3..];
    if rest.starts_with('(') {
        return rest.find(')').map(|end| 3 + end + 1);
    }
    rest.starts_with(char::is_whitespace).then_some(3)
}

/// The end of a function's signature or an alias: its `;`, or the `{` of its body.
fn end_of_signature(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, c) in code[from..].char_indices() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '{' | ';' if depth == 0 => return from + at,
            _ => {}
        }
    }
    code.len()
}

/// The places of results with a text as their error.
fn results(code: &str) -> impl Iterator<Item = usize> + '_ {
    let is_text = |inside: &str| {
        let arguments = members(inside);
        arguments.len() == 2 && arguments[1].rsplit("::").next() == Some("String")
    };
    code.match_indices("Result<")
        .filter(move |(at, word)| is_text(&code[at + word.len()..]))
        .map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_as_the_error_of_an_interface_is_found() {
        for bad in [
            "pub fn f() -> Result<(), String> {}",
            "pub(crate) const fn f() -> Result<(), std::string::String> {}",
            "pub(super) async fn f<T>(\n    a: [u8; 2],\n) -> Result<\n    Vec<T>,\n    String,\n> {}",
            "pub fn f() -> Result<Option<f64>, String> where u8: Copy {}",
            "pub fn f(g: &mut dyn FnMut(&str) -> Result<String, String>) {}",
            "pub fn f(g: impl Fn() -> Result<fn() -> u8, String>) {}",
            "type F<'a> = dyn FnMut(&[u8]) -> Result<u8, String> + 'a;",
            "pub trait T { fn f(&self) -> Result<(), String>; }",
            "pub struct S { f: fn() -> Result<(), String> }",
        ] {
            assert_eq!(texts(bad).len(), 1, "{bad}");
        }
        assert_eq!(texts("fn a() {}\n\npub fn f() -> Result<(), String> {}")[0].line, 3);
    }

    #[test]
    fn other_errors_and_what_nobody_else_sees_are_not() {
        for good in [
            "pub fn f() -> Result<String, Wrong> {}",
            "pub fn f() -> Result<String> {}",
            "pub fn f() -> Result<u8, Vec<String>> {}",
            "pub fn f() -> BTreeMap<u8, String> {}",
            "fn f() -> Result<(), String> {}",
            "pub fn f() { let g = || -> Result<(), String> { Ok(()) }; }",
            "/// A `Result<(), String>`.\npub fn f() {}",
            "publish(); fn f() -> Result<(), String> {}",
            "#[cfg(test)]\nmod tests { pub fn f() -> Result<(), String> {} }",
        ] {
            assert_eq!(texts(good), [], "{good}");
        }
    }
}
