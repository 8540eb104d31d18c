//! Diagnostics of the compiler, and its corrections as edits.

use crate::host::Compiler;
use crate::line_index::LineIndex;
use gen_lsp_types::{
    Code, CodeAction, CodeActionKind, Diagnostic, DiagnosticSeverity, Message, Range, TextEdit, Uri,
    WorkspaceEdit,
};
use std::collections::HashMap;
use weft_policy::{Fix, Severity};
use weft_text::{Span, quoted};

/// The name under which an editor shows the diagnostics.
const SOURCE: &str = "weft";

/// A diagnostic with its correction.
pub(crate) struct Found {
    pub(crate) shown: Diagnostic,
    fix: Option<Fix>,
}

/// The diagnostics of a text, as `weft policy check` has them.
pub(crate) fn diagnostics(compiler: Compiler<'_>, text: &str, lines: &LineIndex<'_>) -> Vec<Found> {
    let compilation = compiler.compile(text);
    let shown = |mut found: weft_policy::Diagnostic| {
        if found.file != compiler.name() {
            // Of a tenant's file: the editor has no place for it in this text but the first.
            found.message = found.one_line();
            (found.span, found.fix) = (Span::default(), None);
        }
        let facts = [found.message, found.help].into_iter().chain(found.notes);
        let facts: Vec<String> = facts.filter(|line| !line.is_empty()).collect();
        Found {
            shown: Diagnostic {
                range: lines.range(found.span),
                severity: Some(match found.severity {
                    Severity::Error => DiagnosticSeverity::Error,
                    Severity::Warning => DiagnosticSeverity::Warning,
                    Severity::Note => DiagnosticSeverity::Information,
                }),
                code: Some(Code::String(found.code.as_str().to_owned())),
                code_description: None,
                source: Some(SOURCE.to_owned()),
                message: Message::String(facts.join("\n")),
                tags: None,
                related_information: None,
                data: None,
            },
            fix: found.fix,
        }
    };
    compilation.diagnostics.into_iter().map(shown).collect()
}

/// The corrections of the diagnostics that touch the lines of `range`.
pub(crate) fn corrections(compiler: Compiler<'_>, uri: &Uri, text: &str, range: Range) -> Vec<CodeAction> {
    let lines = LineIndex::new(text);
    let near = |found: &Found| {
        let own = found.shown.range;
        own.start.line <= range.end.line && range.start.line <= own.end.line
    };
    let found = diagnostics(compiler, text, &lines).into_iter().filter(near);
    found.filter_map(|found| correction(uri, text, &lines, found)).collect()
}

fn correction(uri: &Uri, text: &str, lines: &LineIndex<'_>, found: Found) -> Option<CodeAction> {
    let fix = found.fix?;
    let edit = TextEdit { range: lines.range(fix.span), new_text: fix.text.clone() };
    Some(CodeAction {
        title: title(text, &fix),
        kind: Some(CodeActionKind::QuickFix),
        diagnostics: Some(vec![found.shown]),
        is_preferred: Some(true),
        edit: Some(edits(uri, vec![edit])),
        ..CodeAction::default()
    })
}

fn title(text: &str, fix: &Fix) -> String {
    let before = text.get(fix.span.start..fix.span.end).unwrap_or_default();
    match (before.trim().is_empty(), fix.text.trim().is_empty()) {
        (true, _) => format!("insert {}", quoted(fix.text.trim())),
        (false, true) => format!("delete {}", quoted(before.trim())),
        (false, false) => format!("replace {} by {}", quoted(before), quoted(&fix.text)),
    }
}

/// Edits of one text.
pub(crate) fn edits(uri: &Uri, edits: Vec<TextEdit>) -> WorkspaceEdit {
    WorkspaceEdit { changes: Some(HashMap::from([(uri.clone(), edits)])), ..WorkspaceEdit::default() }
}
