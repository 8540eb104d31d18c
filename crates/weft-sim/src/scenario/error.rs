//! What a reader of scenarios says about a wrong file: what, where, and what to do.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use core::fmt;
use core::ops::Range;

/// The longest piece of a file's own text that a message repeats, in characters.
const QUOTED_MAX: usize = 40;
/// The most bytes of a line to either side of a finding that are shown.
const SHOWN_MAX: usize = 200;

/// Why a scenario file or a cost file cannot be used: the first thing that is wrong with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// What is wrong, in one line.
    pub what: String,
    /// The file's name, as the caller gave it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What to do about it, in one line.
    pub hint: String,
    /// The line that it speaks of, or the part of it around the place, and which bytes of that part are meant.
    excerpt: Box<(String, Range<usize>)>,
}

impl ScenarioError {
    /// The error with the line of the file that it speaks of, drawn as the policy compiler draws its diagnostics. Colours are
    /// used only when `color` says so.
    pub fn render(&self, color: bool) -> String {
        let (text, span) = &*self.excerpt;
        let snippet = Snippet::source(text)
            .path(&self.file)
            .line_start(self.line)
            .annotation(AnnotationKind::Primary.span(span.clone()));
        let group = Level::ERROR.primary_title(&self.what).element(snippet);
        let group = group.element(Level::HELP.message(&self.hint));
        let renderer = if color { Renderer::styled() } else { Renderer::plain() };
        renderer.render(&[group])
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, file, line, column, hint, .. } = self;
        write!(f, "{file}:{line}:{column}: error: {what}\n  hint: {hint}")
    }
}

impl core::error::Error for ScenarioError {}

/// A finding before its file and line are known.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// Bytes of the text.
    pub(super) span: Range<usize>,
    /// What is wrong.
    pub(super) what: String,
    /// What to do.
    pub(super) hint: String,
}

impl Fault {
    /// A finding at `span`.
    pub(super) fn new(span: Range<usize>, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { span, what: what.into(), hint: hint.into() }
    }

    /// Gives the finding its file and line.
    pub(super) fn locate(self, file: &str, text: &str) -> ScenarioError {
        let start = floor_char(text, self.span.start);
        let end = floor_char(text, self.span.end).max(start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let from = floor_char(text, line_start.max(start.saturating_sub(SHOWN_MAX)));
        let to = floor_char(text, line_end.min(start.saturating_add(SHOWN_MAX)));
        let excerpt = text[from..to.max(start)].trim_end().to_owned();
        let shown = |at: usize| at.clamp(from, from + excerpt.len()) - from;
        let span = shown(start)..shown(end);
        ScenarioError {
            what: printable(&self.what),
            file: printable(file),
            line: text[..start].bytes().filter(|b| *b == b'\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
            hint: printable(&self.hint),
            excerpt: Box::new((excerpt, span)),
        }
    }
}

/// A piece of the file's own text for use in a message, in backquotes and shortened.
pub(super) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_MAX) {
        Some((cut, _)) => format!("`{}...`", &text[..cut]),
        None => format!("`{text}`"),
    }
}

/// Whether a character would break a line or steer a terminal.
pub(super) fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text` with control characters written as escapes, so that it stays one line and cannot steer a terminal.
fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// The character boundary at or before `offset`, which may lie beyond the end.
fn floor_char(text: &str, offset: usize) -> usize {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    offset
}
