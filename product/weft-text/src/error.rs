//! Errors in a text, first with a span of bytes, then with file, line and column.

use crate::draw::{Drawing, Excerpt, Level, Style};
use crate::quote::printable;
use crate::span::{LineIndex, Position, Span};
use core::fmt;

/// An error in a text, without file and line.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ParseError {
    /// Its place.
    pub span: Span,
    /// The error, in one line.
    pub what: String,
    /// The remedy, in one line; may be empty.
    pub hint: String,
}

impl ParseError {
    /// An error at `span`. Makes both texts printable, which keeps each to one line.
    pub fn new(span: impl Into<Span>, what: impl AsRef<str>, hint: impl AsRef<str>) -> Self {
        Self { span: span.into(), what: printable(what.as_ref()), hint: printable(hint.as_ref()) }
    }

    /// The same error with a hint derived from its own.
    pub fn map_hint(self, hint: impl FnOnce(&str) -> String) -> Self {
        Self { hint: printable(&hint(&self.hint)), ..self }
    }

    /// The same error in a text with `bytes` more bytes before it.
    pub fn behind(self, bytes: usize) -> Self {
        Self { span: self.span.behind(bytes), ..self }
    }

    /// Adds file and line. `text` must be the text that was read.
    pub fn locate(self, file: &str, text: &str) -> LocatedError {
        let Position { line, column } = LineIndex::new(text).position(self.span.start);
        let excerpt = Box::new(Excerpt::new(text, self.span, line));
        LocatedError { file: printable(file), line, column, what: self.what, hint: self.hint, excerpt }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { span, what, hint } = self;
        write!(f, "{what} (at byte {})", span.start)?;
        if hint.is_empty() { Ok(()) } else { write!(f, "; {hint}") }
    }
}

impl core::error::Error for ParseError {}

/// The first error in a file, which makes the file unusable.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LocatedError {
    /// The file's name as the caller gave it, made printable.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The error, in one line.
    pub what: String,
    /// The remedy, in one line; may be empty.
    pub hint: String,
    /// The line with the error.
    pub excerpt: Box<Excerpt>,
}

impl LocatedError {
    /// The error drawn with its line.
    pub fn render(&self, style: Style) -> String {
        let Self { file, what, hint, excerpt, .. } = self;
        let drawing =
            Drawing { level: Level::Error, code: "", what, file, excerpt, notes: &[], hint, write: "" };
        drawing.render(style)
    }
}

impl fmt::Display for LocatedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, file, line, column, hint, .. } = self;
        write!(f, "{file}:{line}:{column}: error: {what}")?;
        if hint.is_empty() { Ok(()) } else { write!(f, "\n  hint: {hint}") }
    }
}

impl core::error::Error for LocatedError {}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn an_error_is_shown_in_two_lines_and_drawn() {
        let error = ParseError::new(6..9, "`b\u{1b}` is\nodd", "write `b`").behind(1);
        let error = error.map_hint(|hint| format!("{hint}\r")).locate("a\u{7}.toml", "a = ä\nbad = 1 \n");
        expect![[r#"
            a\u{7}.toml:2:1: error: `b\u{1b}` is\u{a}odd
              hint: write `b`\u{d}"#]]
        .assert_eq(&error.to_string());
        expect![[r#"
            error: `b\u{1b}` is\u{a}odd
             --> a\u{7}.toml:2:1
              |
            2 | bad = 1
              | ^^^
              |
              = help: write `b`\u{d}"#]]
        .assert_eq(&error.render(Style::Plain));
    }

    #[test]
    fn without_a_hint_there_is_no_line_for_it() {
        let error = ParseError::new(Span::at(99), "it ends too early", "");
        assert_eq!(error.to_string(), "it ends too early (at byte 99)");
        let error = error.locate("f", "ab\n");
        assert_eq!(error.to_string(), "f:2:1: error: it ends too early");
        assert!(!error.render(Style::Plain).contains("help"));
        let error = ParseError::new(Span::at(1), "no", "yes");
        assert_eq!(error.to_string(), "no (at byte 1); yes");
    }
}
