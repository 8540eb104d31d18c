//! The helper of the snapshot tests.

use expect_test::Expect;
use weft_policy::{Compilation, CompileOptions, Source, compile};

/// Compiles `text` with no options, under the name `p`.
pub(crate) fn compiled(text: &str) -> Compilation {
    compile(Source { name: "p", text }, &CompileOptions::default())
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
}
