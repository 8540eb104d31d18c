//! The fuzz target: the properties that must hold for any input.

use crate::algorithm::algorithms;
use crate::compile::{Compilation, CompileOptions, Source, compile_with};
use crate::describe::{describe, to_dot};
use crate::files::{FileError, FileText, TenantFiles, Wanted};
use crate::format::reformat;
use crate::render::render;
use crate::syntax;
use weft_units::PacketMeta;

/// The most diagnostics drawn per input.
const DRAWN_MAX: usize = 4;

/// The input as the file of each tenant that it names, once; a tenant of the tenant has none.
struct Itself<'a>(&'a str);

impl TenantFiles for Itself<'_> {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        match wanted.tenant.contains('.') {
            true => Err(FileError::Missing(wanted.path.to_owned())),
            false => Ok(FileText { name: "tenant.weft".to_owned(), text: self.0.to_owned() }),
        }
    }
}

fn compiled(text: &str) -> Compilation {
    let source = Source { name: "fuzz.weft", text };
    compile_with(source, &Itself(text), &CompileOptions::default())
}

/// Parses, checks and, if possible, compiles `data` as text. Panics when the tree's text differs from the input, a
/// diagnostic or a fix points outside it, its standard form has another meaning, a policy is returned together with errors, neither is returned, or a compiled policy
/// has an id that is out of range.
pub fn fuzz_policy(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (tree, _) = syntax::parse(&text);
    assert!(text.len() > syntax::TEXT_MAX || tree.text() == *text, "the tree lost text");
    let compilation = compiled(&text);
    assert_eq!(
        compilation.policy.is_none(),
        compilation.has_errors(),
        "a policy, or an error: {compilation:?}"
    );
    for diagnostic in &compilation.diagnostics {
        let span = diagnostic.span;
        assert!(text.get(span.start..span.end).is_some(), "{span:?} is not a part of the text");
        assert!(!diagnostic.one_line().contains('\n'), "one line: {diagnostic:?}");
        assert!(diagnostic.start <= diagnostic.end, "{diagnostic:?}");
        if let Some(fix) = &diagnostic.fix {
            let (span, length) = (fix.span, fix.span.end - fix.span.start);
            assert!(text.get(span.start..span.end).is_some(), "the fix is outside the text: {diagnostic:?}");
            assert_eq!(fix.apply(&text).len(), text.len() - length + fix.text.len(), "{diagnostic:?}");
        }
    }
    for diagnostic in compilation.diagnostics.iter().take(DRAWN_MAX) {
        assert!(render(diagnostic, &text, weft_text::Style::Plain).contains(diagnostic.code.as_str()));
    }
    if let Ok(new) = reformat(Source { name: "fuzz.weft", text: &text }) {
        let source = Source { name: "fuzz.weft", text: &new };
        assert_eq!(reformat(source).ok().as_ref(), Some(&new), "the standard form is a fixed point");
        assert_eq!(compiled(&new).policy, compilation.policy, "the meaning stays");
        assert_eq!(algorithms(&new), algorithms(&text), "the programs stay");
    }
    let Some(policy) = compilation.policy else { return };
    policy.check_invariants();
    assert!(describe(&policy).contains("rules") && to_dot(&policy).ends_with("}\n"));
    policy.classify(&PacketMeta::default());
}
