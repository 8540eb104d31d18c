//! Places in a text: as bytes, and as lines and columns.

use core::ops::Range;

/// A range of bytes in a text; `start <= end`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The bytes from `start` up to `end`.
    pub const fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The empty span before byte `offset`.
    pub const fn at(offset: usize) -> Self {
        Self { start: offset, end: offset }
    }

    /// The smallest span that contains both.
    pub fn to(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), end: self.end.max(other.end) }
    }

    /// The same span in a text with `bytes` more bytes before it.
    pub const fn behind(self, bytes: usize) -> Self {
        Self { start: self.start + bytes, end: self.end + bytes }
    }
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

/// A place as line and column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

/// The starts of a text's lines.
#[derive(Clone, Debug)]
pub struct LineIndex<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    /// Finds the lines of `text`.
    pub fn new(text: &'a str) -> Self {
        let after_newlines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(at, _)| at + 1);
        Self { text, starts: core::iter::once(0).chain(after_newlines).collect() }
    }

    /// The text.
    pub const fn text(&self) -> &'a str {
        self.text
    }

    /// The span of the whole lines that `span` touches, without the last line's end.
    pub fn lines_of(&self, span: Span) -> Span {
        let start = self.text.floor_char_boundary(span.start);
        let end = self.text.floor_char_boundary(span.end).max(start);
        let first = self.starts.partition_point(|line| *line <= start).max(1) - 1;
        let after = self.text[end..].find('\n').map_or(self.text.len(), |newline| end + newline);
        Span::new(self.starts[first], after)
    }

    /// The position of byte `offset`. Inside a character, that character's; beyond the end, the end's.
    pub fn position(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let before = self.text.get(self.starts[line - 1]..offset).unwrap_or_default();
        Position { line, column: before.chars().count() + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_and_columns_count_from_one() {
        let lines = LineIndex::new("ab\nä€z\n");
        let place = |offset| {
            let Position { line, column } = lines.position(offset);
            (line, column)
        };
        for (offset, expected) in [
            (0, (1, 1)),
            (2, (1, 3)),
            (3, (2, 1)),
            (4, (2, 1)),
            (5, (2, 2)),
            (6, (2, 2)),
            (8, (2, 3)),
            (9, (2, 4)),
            (10, (3, 1)),
            (99, (3, 1)),
        ] {
            assert_eq!(place(offset), expected, "byte {offset}");
        }
    }

    #[test]
    fn the_lines_of_a_span_are_whole() {
        let lines = LineIndex::new("ab\nä€z\n");
        for (span, expected) in [((0, 0), (0, 2)), ((1, 2), (0, 2)), ((1, 4), (0, 9)), ((99, 99), (10, 10))] {
            assert_eq!(
                lines.lines_of(Span::new(span.0, span.1)),
                Span::new(expected.0, expected.1),
                "{span:?}"
            );
        }
        assert_eq!(lines.text().len(), 10);
    }

    #[test]
    fn spans_join_and_move() {
        assert_eq!(Span::new(3, 4).to(Span::new(1, 2)), Span::new(1, 4));
        assert_eq!(Span::at(2).behind(5), Span::from(7..7));
    }

    #[test]
    fn the_object_form_has_line_and_column() {
        let position = serde_json::to_value(Position { line: 2, column: 3 }).expect("serializes");
        assert_eq!(position, serde_json::json!({ "line": 2, "column": 3 }));
    }

    proptest! {
        #[test]
        fn positions_are_those_counted_from_the_start(text in "[aä\n]{0,12}", offset in 0usize..20) {
            let before = &text[..text.floor_char_boundary(offset)];
            let line = before.split('\n').count();
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            prop_assert_eq!(LineIndex::new(&text).position(offset), Position { line, column });
        }
    }
}
