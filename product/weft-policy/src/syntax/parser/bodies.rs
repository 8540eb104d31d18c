//! The parser's view of algorithms: their names, and the ends of their bodies.

use super::Parser;
use crate::library;
use crate::syntax::body::{ALGORITHM_WORDS, meant};
use crate::syntax::kind::SyntaxKind;
use weft_text::nearest;

impl<'a> Parser<'a> {
    /// Whether the definition of an algorithm begins `ahead` tokens after the cursor. Its first word is not reserved.
    pub(in crate::syntax) fn algorithm_at(&self, ahead: usize) -> bool {
        let word = self.kind_at(ahead) == Some(SyntaxKind::Word) && self.line_start(ahead);
        let named = self.kind_at(ahead + 1) == Some(SyntaxKind::Word) && !self.line_start(ahead + 1);
        word && named && ALGORITHM_WORDS.contains(&self.text_at(ahead))
    }

    /// The word that begins an algorithm, if the next one is a misspelt form of it.
    pub(in crate::syntax) fn misspelt_algorithm(&self) -> Option<&'static str> {
        let word = meant(self.text(), self.source.get(self.span().end..)?)?;
        (word != self.text()).then_some(word)
    }

    /// Whether the text or the library has an algorithm of this name.
    pub(in crate::syntax) fn knows_algorithm(&self, name: &str) -> bool {
        self.algorithms.contains(name) || library::is_shipped(name)
    }

    /// The name of a known algorithm that `name` resembles.
    pub(in crate::syntax) fn similar_algorithm(&self, name: &str) -> Option<&'a str> {
        let shipped = library::shipped_names().map(|name| -> &'a str { name });
        nearest(name, self.algorithms.iter().copied().chain(shipped), &[])
    }

    /// Consumes the brace of an algorithm's body, and finds its end.
    pub(in crate::syntax) fn enter_body(&mut self) {
        self.bump();
        let body = self.significant.get(self.cursor).map_or(0, |at| self.tokens[*at].body);
        let rest = self.significant.get(self.cursor..).unwrap_or_default();
        let length = rest.iter().take_while(|at| body > 0 && self.tokens[**at].body == body).count();
        let last = self.cursor + length;
        // The brace that closes the body is the last token in it.
        let closes = |at: &usize| self.tokens[*at].kind == SyntaxKind::CloseBrace;
        let closed = length > 0 && self.significant.get(last - 1).is_some_and(closes);
        self.body_end = if closed { last - 1 } else { last };
    }

    /// Whether the body of the algorithm ends here.
    pub(in crate::syntax) fn at_body_end(&self) -> bool {
        self.cursor >= self.body_end
    }

    /// Whether the next token is the operator `text`.
    pub(in crate::syntax) fn at_operator_text(&self, text: &str) -> bool {
        self.at(SyntaxKind::Operator) && self.text() == text
    }
}
