//! The pretty form of a diagnostic, with the line it speaks of.

use crate::code::Severity;
use crate::diagnostic::Diagnostic;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use core::ops::Range;

/// The longest line that is shown whole, in bytes; of a longer one only the part around the finding is read.
const LINE_MAX: usize = 4096;

/// Draws `diagnostic` with the lines of `source` it speaks of. `source` is the text that was compiled. Colours are used
/// only when `color` says so.
pub fn render(diagnostic: &Diagnostic, source: &str, color: bool) -> String {
    let (window, first_line) = window(source, diagnostic);
    let span = diagnostic.span.start - window.start.min(diagnostic.span.start)
        ..diagnostic.span.end.clamp(window.start, window.end) - window.start;
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
        Severity::Note => Level::NOTE,
    };
    let snippet = Snippet::source(&source[window])
        .path(&diagnostic.file)
        .line_start(first_line)
        .annotation(AnnotationKind::Primary.span(span));
    let mut group = level.primary_title(&diagnostic.message).id(diagnostic.code.as_str()).element(snippet);
    for note in &diagnostic.notes {
        group = group.element(Level::NOTE.message(note));
    }
    if !diagnostic.help.is_empty() {
        group = group.element(Level::HELP.message(&diagnostic.help));
    }
    let renderer = if color { Renderer::styled() } else { Renderer::plain() };
    renderer.render(&[group])
}

/// The part of `source` to show: the line on which the finding starts, at most [`LINE_MAX`] bytes to either side; and
/// that line's number.
fn window(source: &str, diagnostic: &Diagnostic) -> (Range<usize>, usize) {
    let at = floor_char(source, diagnostic.span.start.min(source.len()));
    let line_start = source[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = source[at..].find('\n').map_or(source.len(), |newline| at + newline);
    let start = floor_char(source, line_start.max(at.saturating_sub(LINE_MAX)));
    let end = floor_char(source, line_end.min(at.saturating_add(LINE_MAX)));
    (start..end.max(at), diagnostic.start.line)
}

/// The character boundary at or before `offset`.
fn floor_char(text: &str, mut offset: usize) -> usize {
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
