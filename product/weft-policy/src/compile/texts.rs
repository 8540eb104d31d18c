//! The texts of a compilation, one behind the other: a place in one number says the file, too.

use crate::diagnostic::{Diagnostic, SpannedDiagnostic};
use std::rc::Rc;
use weft_text::{LineIndex, Span};

/// A text of the compilation.
#[derive(Clone, Debug)]
pub(super) struct Text {
    pub(super) name: Rc<str>,
    pub(super) text: Rc<str>,
    /// The place of its first byte among all texts.
    pub(super) base: usize,
}

/// The texts: the policy's own, then those of tenants.
#[derive(Debug)]
pub(super) struct Texts {
    texts: Vec<Text>,
}

impl Texts {
    /// The text of a policy alone.
    pub(super) fn new(name: &str, text: &str) -> Self {
        Self { texts: vec![Text { name: name.into(), text: text.into(), base: 0 }] }
    }

    /// Adds a text, unless it is there already. Returns its number.
    pub(super) fn add(&mut self, name: &str, text: &str) -> usize {
        if let Some(known) = self.texts.iter().position(|of| *of.name == *name && *of.text == *text) {
            return known;
        }
        // A byte between two texts, so that the end of one is not the start of the next.
        let base = self.texts.last().map_or(0, |last| last.base + last.text.len() + 1);
        self.texts.push(Text { name: name.into(), text: text.into(), base });
        self.texts.len() - 1
    }

    /// The text of a number that [`Self::add`] has returned.
    pub(super) fn get(&self, number: usize) -> Option<&Text> {
        self.texts.get(number)
    }

    /// `FILE:LINE:COLUMN` of a place.
    pub(super) fn place(&self, span: Span) -> String {
        let of = self.of(span);
        let position = LineIndex::new(&of.text).position(span.start - of.base);
        format!("{}:{}:{}", of.name, position.line, position.column)
    }

    /// The number of the text in which a place is.
    pub(super) fn number_of(&self, span: Span) -> usize {
        self.texts.partition_point(|of| of.base <= span.start).max(1) - 1
    }

    fn of(&self, span: Span) -> &Text {
        &self.texts[self.number_of(span)]
    }

    /// The diagnostics with their files and lines. They are in the order of their places.
    pub(super) fn locate(&self, diagnostics: Vec<SpannedDiagnostic>) -> Vec<Diagnostic> {
        let mut located = Vec::with_capacity(diagnostics.len());
        let mut at: Option<(usize, LineIndex<'_>)> = None;
        for diagnostic in diagnostics {
            let of = self.of(diagnostic.span());
            let lines = match at.take() {
                Some((base, lines)) if base == of.base => lines,
                _ => LineIndex::new(&of.text),
            };
            located.push(diagnostic.before(of.base).locate(&of.name, &lines));
            at = Some((of.base, lines));
        }
        located
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    #[test]
    fn a_place_says_the_file() {
        let mut texts = Texts::new("a", "x\ny");
        assert_eq!((texts.add("b", ""), texts.add("c", "p\nqr"), texts.add("b", "")), (1, 2, 1));
        let base = texts.get(2).expect("c").base;
        assert_eq!(texts.place(Span::at(3)), "a:2:2");
        assert_eq!(texts.place(Span::at(4)), "b:1:1");
        assert_eq!(texts.place(Span::at(base + 3)), "c:2:2");
        let at = |at: usize| SpannedDiagnostic::new(Code::UnknownName, Span::at(at), "m", "h");
        let located = texts.locate(vec![at(0), at(2), at(base + 2)]);
        let lines: Vec<String> = located.iter().map(ToString::to_string).collect();
        assert_eq!(lines, ["a:1:1: error[E0201]: m", "a:2:1: error[E0201]: m", "c:2:1: error[E0201]: m"]);
        assert_eq!(located[2].span, Span::at(2));
    }
}
