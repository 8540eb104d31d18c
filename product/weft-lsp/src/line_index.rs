//! Positions of the protocol: lines and UTF-16 code units from 0.

use gen_lsp_types::{Position, Range};
use weft_text::Span;

/// The index of a text by lines.
pub(crate) struct LineIndex<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> LineIndex<'a> {
    /// Finds the lines, which end with `\n`, `\r\n` or `\r`.
    pub(crate) fn new(text: &'a str) -> Self {
        let bytes = text.as_bytes();
        let ends =
            |at: &usize| bytes[*at] == b'\n' || (bytes[*at] == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
        let starts = core::iter::once(0).chain((0..bytes.len()).filter(ends).map(|at| at + 1)).collect();
        Self { text, starts }
    }

    /// The position of byte `offset`; inside a character, that character's.
    pub(crate) fn position(&self, offset: usize) -> Position {
        let offset = self.text.floor_char_boundary(offset);
        let line = self.starts.partition_point(|start| *start <= offset).max(1) - 1;
        let before = self.text.get(self.starts[line]..offset).unwrap_or_default();
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Position { line: number(line), character: number(before.encode_utf16().count()) }
    }

    /// The range of a span.
    pub(crate) fn range(&self, span: Span) -> Range {
        Range { start: self.position(span.start), end: self.position(span.end) }
    }

    /// The byte at a position; beyond the end of a line or of the text, that end.
    pub(crate) fn offset(&self, position: Position) -> usize {
        let line = position.line as usize;
        let Some(start) = self.starts.get(line).copied() else { return self.text.len() };
        let end = self.starts.get(line + 1).copied().unwrap_or(self.text.len());
        let text = self.text[start..end].trim_end_matches(['\r', '\n']);
        let mut units = 0;
        for (at, c) in text.char_indices() {
            units += c.len_utf16();
            if units > position.character as usize {
                return start + at;
            }
        }
        start + text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_utf_16_units_and_lead_back() {
        let text = "# größe 😀\r\n\"😀\" a\rb\n";
        let lines = LineIndex::new(text);
        let at = |part: &str| lines.position(text.find(part).expect("there"));
        assert_eq!(at("😀\r"), Position { line: 0, character: 8 });
        assert_eq!(at(" a"), Position { line: 1, character: 4 });
        assert_eq!(at("b"), Position { line: 2, character: 0 });
        for (offset, _) in text.char_indices().filter(|(_, c)| !matches!(c, '\r' | '\n')) {
            assert_eq!(lines.offset(lines.position(offset)), offset);
        }
        assert_eq!(
            lines.offset(Position { line: 1, character: 2 }),
            text.find("😀\"").expect("there"),
            "half a character"
        );
        assert_eq!(lines.offset(Position { line: 0, character: 99 }), text.find('\r').expect("there"));
        assert_eq!(lines.offset(Position { line: 99, character: 0 }), text.len());
    }
}
