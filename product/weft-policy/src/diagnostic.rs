//! A diagnostic of the compiler: its code, its place, the message and the remedy, as words and as an edit of the text.

use crate::code::{Code, Severity};
use core::fmt;
use weft_facts::diagnostic::{PolicyDiagnostic, PolicyFix, TextPosition};
use weft_text::{LineIndex, ParseError, Position, Span, printable};

/// One diagnostic.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Its stable code.
    pub code: Code,
    /// Its severity, which is always that of the code.
    pub severity: Severity,
    /// The policy's name, as the caller gave it.
    pub file: String,
    /// Its place in the text, in bytes.
    pub span: Span,
    /// The position of its first character.
    pub start: Position,
    /// The position after its last character.
    pub end: Position,
    /// The error, in one line.
    pub message: String,
    /// The remedy, in one line.
    pub help: String,
    /// Additional facts, one line each.
    pub notes: Vec<String>,
    /// The remedy as an edit of the text, where the compiler can find what was meant.
    pub fix: Option<Fix>,
}

/// An edit that removes the cause of a diagnostic: the text of `span` is replaced by `text`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fix {
    /// The replaced part of the text, in bytes; empty for an insertion.
    pub span: Span,
    /// The position of its first character.
    pub start: Position,
    /// The position after its last character.
    pub end: Position,
    /// The new text; empty for a deletion.
    pub text: String,
    /// The corrected lines; `None` if they are long, or if the edit removes them.
    pub write: Option<String>,
}

/// The longest corrected text that is kept, in bytes. It bounds the memory of all diagnostics of a file of one long line.
const WRITE_MAX: usize = 1000;

impl Fix {
    fn locate(edit: Edit, lines: &LineIndex<'_>) -> Self {
        let Edit { span, text } = edit;
        let whole = lines.lines_of(span);
        let part = |start: usize, end: usize| lines.text().get(start..end).unwrap_or_default();
        let (before, after) = (part(whole.start, span.start), part(span.end, whole.end));
        let short = before.len() + text.len() + after.len() <= WRITE_MAX;
        let write = short.then(|| {
            let lines = [before, &text, after].concat().replace('\t', "    ");
            lines
                .trim_start_matches('\u{feff}')
                .lines()
                .map(|line| printable(line.trim_end()))
                .collect::<Vec<_>>()
                .join("\n")
                .trim_end()
                .to_owned()
        });
        let write = write.filter(|write| !write.is_empty());
        let (start, end) = (lines.position(span.start), lines.position(span.end));
        Self { span, start, end, text, write }
    }

    /// The text after the edit. `source` must be the text that was compiled.
    pub fn apply(&self, source: &str) -> String {
        let part = |range: Option<&str>| range.unwrap_or_default().to_owned();
        part(source.get(..self.span.start)) + &self.text + &part(source.get(self.span.end..))
    }
}

/// An edit without line numbers, as the compiler's passes propose it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Edit {
    pub(crate) span: Span,
    pub(crate) text: String,
}

impl Edit {
    /// Replaces `span` by `text`.
    pub(crate) fn replace(span: Span, text: impl Into<String>) -> Self {
        Self { span, text: text.into() }
    }

    /// Inserts `text` before byte `offset`.
    pub(crate) fn insert(offset: usize, text: impl Into<String>) -> Self {
        Self::replace(Span::at(offset), text)
    }

    /// Deletes `span`.
    pub(crate) fn delete(span: Span) -> Self {
        Self::replace(span, "")
    }
}

fn position(Position { line, column }: Position) -> TextPosition {
    TextPosition { line: line as u64, column: column as u64 }
}

impl Diagnostic {
    /// `FILE:LINE:COLUMN: error[CODE]: text`, always a single line.
    pub fn one_line(&self) -> String {
        self.to_string()
    }

    /// The diagnostic as documents have it.
    pub fn stated(&self) -> PolicyDiagnostic {
        let fix = |fix: &Fix| PolicyFix {
            start: position(fix.start),
            end: position(fix.end),
            text: fix.text.clone(),
            write: fix.write.clone(),
        };
        let TextPosition { line, column } = position(self.start);
        PolicyDiagnostic {
            file: self.file.clone(),
            line,
            column,
            end: Some(position(self.end)),
            severity: self.severity.as_str().to_owned(),
            code: self.code.as_str().to_owned(),
            message: self.message.clone(),
            help: self.help.clone(),
            notes: self.notes.clone(),
            fix: self.fix.as_ref().map(fix),
        }
    }

    /// Whether it refuses the policy.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Position { line, column } = self.start;
        write!(f, "{}:{line}:{column}: {}[{}]: {}", self.file, self.severity, self.code, self.message)
    }
}

/// A diagnostic without file and line numbers, as the compiler's passes produce it.
#[derive(Clone, Debug)]
pub(crate) struct SpannedDiagnostic {
    code: Code,
    error: ParseError,
    notes: Vec<String>,
    fix: Option<Edit>,
}

impl SpannedDiagnostic {
    /// A diagnostic at `span`. Makes message and help printable, and keeps each to one line.
    pub(crate) fn new(code: Code, span: Span, message: impl AsRef<str>, help: impl AsRef<str>) -> Self {
        Self { code, error: ParseError::new(span, message, help), notes: Vec::new(), fix: None }
    }

    /// Adds the edit that removes the cause, if one is known.
    pub(crate) fn fix(mut self, edit: impl Into<Option<Edit>>) -> Self {
        self.fix = edit.into();
        self
    }

    /// Adds a note.
    pub(crate) fn note(mut self, note: impl AsRef<str>) -> Self {
        self.notes.push(printable(note.as_ref()));
        self
    }

    /// The same diagnostic behind `bytes` more bytes of text.
    pub(crate) fn behind(mut self, bytes: usize) -> Self {
        self.error.span = self.error.span.behind(bytes);
        self.fix = self.fix.map(|edit| Edit { span: edit.span.behind(bytes), ..edit });
        self
    }

    /// The same diagnostic without the first `bytes` bytes of text, behind which it is.
    pub(crate) fn before(mut self, bytes: usize) -> Self {
        let back = |span: Span| Span::new(span.start.saturating_sub(bytes), span.end.saturating_sub(bytes));
        self.error.span = back(self.error.span);
        self.fix = self.fix.map(|edit| Edit { span: back(edit.span), ..edit });
        self
    }

    /// Adds the file's name and the line numbers.
    pub(crate) fn locate(self, file: &str, lines: &LineIndex<'_>) -> Diagnostic {
        let ParseError { span, what, hint, .. } = self.error;
        Diagnostic {
            code: self.code,
            severity: self.code.severity(),
            file: printable(file),
            span,
            start: lines.position(span.start),
            end: lines.position(span.end),
            message: what,
            help: hint,
            notes: self.notes,
            fix: self.fix.map(|edit| Fix::locate(edit, lines)),
        }
    }

    /// The sort key. Of diagnostics with equal keys, one is kept.
    pub(crate) fn place(&self) -> (Span, Code) {
        (self.error.span, self.code)
    }

    /// The error, in one line.
    pub(crate) fn message(&self) -> &str {
        &self.error.what
    }

    /// Its place in the text.
    pub(crate) fn span(&self) -> Span {
        self.error.span
    }

    /// Whether the diagnostic is a note.
    pub(crate) fn is_note(&self) -> bool {
        self.code.severity() == Severity::Note
    }

    /// Whether the diagnostic is an error, which refuses the policy.
    pub(crate) fn is_error(&self) -> bool {
        self.code.severity() == Severity::Error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic() -> Diagnostic {
        let text = "link 1gbps\nroot = ä\u{1b}\n";
        let bad = SpannedDiagnostic::new(
            Code::UnknownCharacter,
            Span::new(20, 21),
            "`\u{1b}`\nis odd",
            "leave it out",
        );
        let bad = bad.fix(Edit::delete(Span::new(18, 21)));
        bad.note("a note").locate("a.weft", &LineIndex::new(text))
    }

    #[test]
    fn columns_count_characters_and_a_message_stays_on_its_line() {
        assert_eq!(diagnostic().one_line(), "a.weft:2:9: error[E0002]: `\\u{1b}`\\u{a}is odd");
    }

    #[test]
    fn documents_have_its_place_its_words_and_its_correction() {
        let stated = diagnostic().stated();
        assert_eq!(stated.to_string(), diagnostic().one_line());
        assert_eq!(stated.end, Some(TextPosition { line: 2, column: 10 }));
        assert_eq!(
            (stated.help.as_str(), stated.notes.as_slice()),
            ("leave it out", &["a note".to_owned()][..])
        );
        let fix = PolicyFix {
            start: TextPosition { line: 2, column: 8 },
            end: TextPosition { line: 2, column: 10 },
            text: String::new(),
            write: Some("root =".to_owned()),
        };
        assert_eq!(stated.fix, Some(fix));
    }
}
