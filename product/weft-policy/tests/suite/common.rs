//! The helper of the snapshot tests.

use expect_test::Expect;
use weft_policy::{Compilation, CompileOptions, Diagnostic, Source, Users, compile, parse};

/// Compiles `text` with no options, under the name `p`.
pub(crate) fn compiled(text: &str) -> Compilation {
    compile(Source { name: "p", text }, &CompileOptions::default())
}

/// Counts over the texts that differ from a whole one in one token.
#[derive(Default, Debug)]
pub(crate) struct WrongTokens {
    pub(crate) count: usize,
    /// Texts with at most one error.
    pub(crate) single: usize,
    /// Texts whose first error has a fix.
    pub(crate) offered: usize,
    /// Fixes after which the text has no error.
    pub(crate) right: usize,
}

impl WrongTokens {
    /// Writes each token of `whole` in the ways of `wrong`.
    pub(crate) fn of(
        whole: &str,
        wrong: impl Fn(&str) -> Vec<String>,
        errors: impl Fn(&str) -> Vec<Diagnostic>,
    ) -> Self {
        assert_eq!(errors(whole), []);
        let (tree, _) = parse(Source { name: "p", text: whole });
        let tokens = tree.descendants_with_tokens().filter_map(|part| part.into_token());
        let mut found = Self::default();
        for token in tokens.filter(|token| !token.kind().is_trivia()) {
            let range = core::ops::Range::<usize>::from(token.text_range());
            for way in wrong(token.text()) {
                let text = [&whole[..range.start], &way, &whole[range.end..]].concat();
                let said = errors(&text);
                found.count += 1;
                found.single += usize::from(said.len() <= 1);
                if let Some(fix) = said.first().and_then(|error| error.fix.as_ref()) {
                    found.offered += 1;
                    found.right += usize::from(errors(&fix.apply(&text)).is_empty());
                }
            }
        }
        println!("{found:?}");
        found
    }
}

/// Compares the diagnostics for `text`, with help lines and notes indented, with the snapshot.
#[track_caller]
pub(crate) fn check(text: &str, said: &Expect) {
    let mut out = String::new();
    for diagnostic in compiled(text).diagnostics {
        out.push_str(&diagnostic.one_line());
        out.push_str(&format!("\n  help: {}\n", diagnostic.help));
        for note in &diagnostic.notes {
            out.push_str(&format!("  note: {note}\n"));
        }
    }
    said.assert_eq(&out);
    corrections_help(text);
}

/// Checks that the text of each correction compiles, or has fewer errors. One of a warning removes the warning, and adds no error.
/// Returns the number of corrections.
#[track_caller]
pub(crate) fn corrections_help(text: &str) -> usize {
    let users = Users::from_passwd("alice:x:1000:1000::/:/bin/sh\n");
    let options = CompileOptions { users, ..CompileOptions::default() };
    let compiled = |text: &str| compile(Source { name: "p", text }, &options).diagnostics;
    let before = compiled(text);
    let errors = |of: &[Diagnostic]| of.iter().filter(|found| found.is_error()).count();
    let alike = |of: &[Diagnostic], code| of.iter().filter(|found| found.code == code).count();
    let mut corrections = 0;
    for (found, fix) in before.iter().filter_map(|found| Some((found, found.fix.as_ref()?))) {
        let new = fix.apply(text);
        let after = compiled(&new);
        let helps = match found.is_error() {
            true => errors(&after) < errors(&before),
            false => {
                errors(&after) <= errors(&before) && alike(&after, found.code) < alike(&before, found.code)
            }
        };
        assert!(helps, "{found}\n\n{text}\n\nbecomes\n\n{new}\n\n{after:#?}");
        corrections += 1;
    }
    corrections
}
