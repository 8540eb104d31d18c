//! Words, places and texts of the tree's nodes.

use super::model::Spanned;
use crate::syntax::{SyntaxKind, SyntaxNode, SyntaxToken};
use weft_text::Span;

/// The span of a range of the tree.
pub(super) fn span_of(range: rowan::TextRange) -> Span {
    Span::new(range.start().into(), range.end().into())
}

/// The span at which a message points for an expression: its first word, without its braces.
pub(super) fn head_span(node: &SyntaxNode) -> Span {
    if node.kind() == SyntaxKind::AlgorithmExpr {
        let name = node.children().find(|child| child.kind() == SyntaxKind::NameRef);
        return span_of(name.as_ref().unwrap_or(node).text_range());
    }
    let first = first_word(node);
    first.map_or_else(|| span_of(node.text_range()), |word| span_of(word.text_range()))
}

pub(super) fn has_word(node: &SyntaxNode, word: &str) -> bool {
    let mut tokens = node.children_with_tokens().filter_map(rowan::NodeOrToken::into_token);
    tokens.any(|token| token.kind() == SyntaxKind::Word && token.text() == word)
}

pub(super) fn has_token(node: &SyntaxNode, kind: SyntaxKind) -> bool {
    node.children_with_tokens().any(|part| part.kind() == kind)
}

/// Whether the parser reached the node's closing brace. If not, it has reported what is missing.
pub(super) fn is_closed(node: &SyntaxNode) -> bool {
    has_token(node, SyntaxKind::CloseBrace)
}

/// The text of a node without the spaces and quotes that the parser has reported.
pub(super) fn spanned_text(node: &SyntaxNode) -> Spanned<String> {
    let text = node.text().to_string();
    let text = if text.contains(char::is_whitespace) { text.split_whitespace().collect() } else { text };
    Spanned { value: text.trim_matches('"').to_owned(), span: span_of(node.text_range()) }
}

/// The value that is a direct child of `parent`.
pub(super) fn value_of(parent: &SyntaxNode) -> Option<Spanned<String>> {
    parent.children().find(|node| node.kind() == SyntaxKind::Value).map(|node| spanned_text(&node))
}

/// The text of the first child of a kind.
pub(super) fn name_of(parent: &SyntaxNode, kind: SyntaxKind) -> Option<Spanned<String>> {
    parent.children().find(|node| node.kind() == kind).map(|node| spanned_text(&node))
}

/// The first token of a kind.
pub(super) fn token_of(node: &SyntaxNode, kind: SyntaxKind) -> Option<SyntaxToken> {
    node.children_with_tokens().filter_map(rowan::NodeOrToken::into_token).find(|token| token.kind() == kind)
}

/// The word that a test begins with.
pub(super) fn first_word(node: &SyntaxNode) -> Option<SyntaxToken> {
    token_of(node, SyntaxKind::Word)
}
