//! A diagnostic drawn with an excerpt of its text, as compilers do.

use crate::span::Span;
use annotate_snippets::{self as snippets, AnnotationKind, Renderer, Snippet};
use core::ops::Range;

/// The most bytes of a line kept on either side of a diagnostic's span.
const KEPT_MAX: usize = 4096;

/// The severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Level {
    /// The text is refused.
    Error,
    /// The text is accepted, but may not do what its author meant.
    Warning,
    /// Additional information.
    Note,
}

/// The line on which a span starts, or the part of it around the span, with the bytes to mark.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Excerpt {
    text: String,
    span: Range<usize>,
    line: usize,
}

impl Excerpt {
    /// The part of `text` around `span`, which starts on line `line`.
    pub fn new(text: &str, span: Span, line: usize) -> Self {
        let start = text.floor_char_boundary(span.start);
        let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
        let from = text.floor_char_boundary(line_start.max(start.saturating_sub(KEPT_MAX)));
        let to = text.floor_char_boundary(line_end.min(start.saturating_add(KEPT_MAX))).max(start);
        let end = text.floor_char_boundary(span.end).clamp(start, to);
        // White space at the end of the line is hidden, unless it is marked.
        let to = end.max(from + text[from..to].trim_end().len());
        Self { text: text[from..to].to_owned(), span: start - from..end - from, line }
    }
}

/// A diagnostic, ready to be drawn.
#[derive(Clone, Copy, Debug)]
pub struct Drawing<'a> {
    /// The severity.
    pub level: Level,
    /// The code; empty if there is none.
    pub code: &'a str,
    /// The error, in one line.
    pub what: &'a str,
    /// The file's name.
    pub file: &'a str,
    /// The excerpt of the text.
    pub excerpt: &'a Excerpt,
    /// Additional facts, one line each.
    pub notes: &'a [String],
    /// The remedy, in one line; may be empty.
    pub hint: &'a str,
    /// The corrected text, one or more lines; may be empty.
    pub write: &'a str,
}

/// Whether a text has colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// No colours.
    Plain,
    /// The colours of a terminal.
    Colored,
}

impl Drawing<'_> {
    /// Draws the diagnostic.
    pub fn render(&self, style: Style) -> String {
        let level = match self.level {
            Level::Error => snippets::Level::ERROR,
            Level::Warning => snippets::Level::WARNING,
            Level::Note => snippets::Level::NOTE,
        };
        let Excerpt { text, span, line } = self.excerpt;
        let snippet = Snippet::source(text)
            .path(self.file)
            .line_start(*line)
            .annotation(AnnotationKind::Primary.span(span.clone()));
        let mut title = level.primary_title(self.what);
        if !self.code.is_empty() {
            title = title.id(self.code);
        }
        let mut group = title.element(snippet);
        for note in self.notes {
            group = group.element(snippets::Level::NOTE.message(note));
        }
        if !self.hint.is_empty() {
            group = group.element(snippets::Level::HELP.message(self.hint));
        }
        if !self.write.is_empty() {
            group = group.element(snippets::Level::HELP.with_name("write").message(self.write));
        }
        let renderer = match style {
            Style::Plain => Renderer::plain(),
            Style::Colored => Renderer::styled(),
        };
        renderer.render(&[group])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn a_drawing_has_code_line_notes_and_hint() {
        let excerpt = Excerpt::new("one\ntwo three  \nfour", Span::new(8, 13), 2);
        let drawing = Drawing {
            level: Level::Warning,
            code: "W01",
            what: "too many",
            file: "a.txt",
            excerpt: &excerpt,
            notes: &["two is more than one".to_owned()],
            hint: "take one",
            write: "one\nthree",
        };
        expect![[r#"
            warning[W01]: too many
             --> a.txt:2:5
              |
            2 | two three
              |     ^^^^^
              |
              = note: two is more than one
              = help: take one
              = write: one
                       three"#]]
        .assert_eq(&drawing.render(Style::Plain));
        assert!(drawing.render(Style::Colored).contains('\u{1b}'));
        let bare = Drawing { level: Level::Note, code: "", notes: &[], hint: "", write: "", ..drawing };
        assert!(
            bare.render(Style::Plain).starts_with("note: too many\n")
                && !bare.render(Style::Plain).contains("help")
        );
    }

    #[test]
    fn only_a_part_of_a_long_line_is_kept() {
        let text = format!("{}ä{}", "x".repeat(9000), "€".repeat(9000));
        let excerpt = Excerpt::new(&text, Span::new(9000, text.len()), 1);
        assert!(excerpt.text.starts_with("xx") && excerpt.text.contains('ä'));
        assert!(excerpt.text.len() <= 2 * KEPT_MAX && excerpt.span == (KEPT_MAX..excerpt.text.len()));
    }

    proptest! {
        #[test]
        fn any_span_of_any_text_is_drawn(text in "[aä \t\r\n\u{1b}]{0,12}", start in 0usize..20, end in 0usize..20) {
            let excerpt = Excerpt::new(&text, Span::new(start, end), 1);
            prop_assert!(excerpt.text.get(excerpt.span.clone()).is_some());
            let drawing = Drawing {
                level: Level::Error, code: "", what: "x", file: "f", excerpt: &excerpt, notes: &[], hint: "", write: "",
            };
            prop_assert!(drawing.render(Style::Plain).contains("f:1:"));
        }
    }
}
