//! Lowering of algorithms at nodes and leaves: the definition that a name means, and the arguments of the children.

use super::items::Lowering;
use super::model::{Child, Expression, Spanned};
use super::nodes::{head_span, is_closed, name_of, span_of, spanned_text};
use crate::algorithm::uses::{ArgumentText, Place, Use, check_place, words};
use crate::code::Code;
use crate::syntax::{SyntaxKind, SyntaxNode};
use weft_text::Span;

impl Lowering<'_> {
    /// `NAME { a: ARGUMENTS, ... }` or `NAME ARGUMENTS of x`
    pub(super) fn algorithm(&mut self, node: &SyntaxNode) -> Expression {
        let Some(name) = name_of(node, SyntaxKind::NameRef) else { return Expression::Broken };
        let braced = node.children_with_tokens().any(|part| part.kind() == SyntaxKind::OpenBrace);
        let place = if braced { Place::Children } else { Place::Flows };
        let whole = span_of(node.text_range());
        let line = Span::new(whole.start, whole.end + 1);
        let algorithm = self.scope.get(&name.value).filter(|_| !self.broken.within(line));
        if let Some(wrong) = algorithm.as_ref().and_then(|algorithm| check_place(algorithm, &name, place)) {
            self.report(wrong);
        }
        let items: Vec<SyntaxNode> = match place {
            Place::Children => {
                node.children().filter(|child| child.kind() == SyntaxKind::ChildItem).collect()
            }
            Place::Flows => vec![node.clone()],
        };
        if braced && items.is_empty() && is_closed(node) {
            let help = "list its children in the braces, such as `edf { a: 2ms, b: 9ms }`";
            self.find(Code::NoChildren, name.span, "the node has no children", help);
        }
        let number = self.policy.uses.len();
        self.policy.uses.push(Use { algorithm: algorithm.clone(), name, place, parameters: Vec::new() });
        let mut children = Vec::with_capacity(items.len());
        let mut told = false;
        for item in &items {
            let expression = self.below(item);
            let span = if braced { expression.span } else { head_span(node) };
            let given = arguments(item);
            if let Some(algorithm) = &algorithm {
                match words(algorithm, &given, span) {
                    Ok(words) => self.policy.uses[number].parameters.push(words),
                    // The same parameter is most likely missing for each child.
                    Err(diagnostic) if given.is_empty() && told => drop(diagnostic),
                    Err(diagnostic) => {
                        told |= given.is_empty();
                        self.report(*diagnostic);
                    }
                }
            }
            children.push(Child { expression, weight: None });
        }
        Expression::Algorithm(number, children)
    }

    /// The expression below a child or behind `of`, which follows the algorithm's own name.
    fn below(&mut self, item: &SyntaxNode) -> Spanned<Expression> {
        if item.kind() == SyntaxKind::ChildItem {
            return self.expression_in(item);
        }
        let rest = item.children().filter(|child| child.kind() != SyntaxKind::Arguments).skip(1);
        let found = rest.into_iter().find_map(|child| {
            let value = self.expression(&child)?;
            Some(Spanned { value, span: head_span(&child) })
        });
        found.unwrap_or_else(|| Spanned { value: Expression::Broken, span: span_of(item.text_range()) })
    }
}

/// The arguments below a child or an algorithm, as written.
fn arguments(node: &SyntaxNode) -> Vec<ArgumentText> {
    let list = node.children().find(|child| child.kind() == SyntaxKind::Arguments);
    let mut name = None;
    let mut found = Vec::new();
    for part in list.iter().flat_map(SyntaxNode::children) {
        match part.kind() {
            SyntaxKind::Name => name = Some(spanned_text(&part)),
            SyntaxKind::Value => found.push(ArgumentText { name: name.take(), value: spanned_text(&part) }),
            _ => {}
        }
    }
    found
}
