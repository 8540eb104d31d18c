//! The parts of a tree about which the parser has said everything.

use super::nodes::span_of;
use crate::diagnostic::SpannedDiagnostic;
use crate::syntax::{SyntaxKind, SyntaxNode};
use std::collections::BTreeSet;
use weft_text::Span;

/// The smallest constructs with values, where they contain a syntax error. A value in one of them is not reported: it is a
/// part of the mistake.
pub(super) struct Broken {
    /// Their spans, disjoint and in order.
    spans: Vec<Span>,
    /// The places of the errors, in order.
    places: Vec<usize>,
}

impl Broken {
    /// The constructs of `tree` in which one of `errors` lies.
    pub(super) fn new(tree: &SyntaxNode, errors: &[SpannedDiagnostic]) -> Self {
        let mut places: Vec<usize> = errors.iter().map(|error| error.span().start).collect();
        places.sort_unstable();
        let mut spans: Vec<Span> = Vec::new();
        if places.is_empty() {
            return Self { spans, places };
        }
        for node in tree.descendants().filter(|node| is_unit(node.kind())) {
            let span = with_gap(&node);
            let first = places.partition_point(|place| *place < span.start);
            // Nodes come in the order of their starts, an outer one before its inner ones.
            let covered = spans.last().is_some_and(|last| span.end <= last.end);
            if places.get(first).is_some_and(|place| *place <= span.end) && !covered {
                spans.push(span);
            }
        }
        Self { spans, places }
    }

    /// Whether an error lies in `span`.
    pub(super) fn within(&self, span: Span) -> bool {
        let first = self.places.partition_point(|place| *place < span.start);
        self.places.get(first).is_some_and(|place| *place <= span.end)
    }

    /// Whether `span` begins in such a construct.
    pub(super) fn contains(&self, span: Span) -> bool {
        let after = self.spans.partition_point(|unit| unit.start <= span.start);
        after.checked_sub(1).is_some_and(|last| span.start <= self.spans[last].end)
    }
}

/// The span of a construct and of the gap behind it, where the parser reports what is missing.
fn with_gap(node: &SyntaxNode) -> Span {
    let span = span_of(node.text_range());
    let next = node.last_token().and_then(|last| last.next_token());
    let gap = next.filter(|next| next.kind() == SyntaxKind::Whitespace && !next.text().contains('\n'));
    Span::new(span.start, gap.map_or(span.end, |gap| span_of(gap.text_range()).end))
}

fn is_unit(kind: SyntaxKind) -> bool {
    use SyntaxKind::*;
    matches!(
        kind,
        LinkItem
            | BoundItem
            | LatencyItem
            | Test
            | ChildItem
            | DestinationItem
            | PortItem
            | Burst
            | QuotaItem
            | GoalPart
    )
}

/// The words of the parts that could not be parsed.
pub(super) fn unread(tree: &SyntaxNode) -> BTreeSet<String> {
    let errors = tree.descendants().filter(|node| node.kind() == SyntaxKind::Error);
    let tokens = errors.flat_map(|node| node.descendants_with_tokens());
    let words =
        tokens.filter_map(rowan::NodeOrToken::into_token).filter(|token| token.kind() == SyntaxKind::Word);
    words.map(|token| token.text().to_owned()).collect()
}

/// Whether a definition has no name that could be read.
pub(super) fn nameless(tree: &SyntaxNode) -> bool {
    tree.children().any(|item| match item.kind() {
        SyntaxKind::ClassItem | SyntaxKind::NodeItem => {
            let named = item.children().any(|child| child.kind() == SyntaxKind::Name);
            // A name with a character that names do not have is there to be seen.
            let rest = item.next_sibling().and_then(|rest| rest.first_token());
            !named && rest.is_none_or(|first| first.kind() != SyntaxKind::Unknown)
        }
        SyntaxKind::Error => item.first_token().is_some_and(|first| first.kind() == SyntaxKind::Equals),
        _ => false,
    })
}
