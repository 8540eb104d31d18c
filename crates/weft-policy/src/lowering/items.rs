//! Lowering of items and expressions, from the tree to the model.

use super::model::{Branch, Child, ClassDefinition, Expression, NodeDefinition, Policy, Spanned};
use super::values::{self, Read};
use crate::code::Code;
use crate::diagnostic::SpannedDiagnostic;
use crate::syntax::{SyntaxKind, SyntaxNode};
use weft_text::Span;
use weft_units::Bytes;

/// The model under construction, its diagnostics, and the codes that were reported.
pub(super) struct Lowering {
    pub(super) policy: Policy,
    diagnostics: Vec<SpannedDiagnostic>,
    told: Vec<Code>,
}

/// Whether the children of a node have weights.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weights {
    Wanted,
    Unwanted,
}

/// Lowers a policy's tree; the diagnostics report values that cannot be parsed.
pub(crate) fn lower(tree: &SyntaxNode) -> (Policy, Vec<SpannedDiagnostic>) {
    let mut lowering = Lowering { policy: Policy::default(), diagnostics: Vec::new(), told: Vec::new() };
    for item in tree.children() {
        match item.kind() {
            SyntaxKind::LinkItem => lowering.link(&item),
            SyntaxKind::BoundItem => lowering.bound(&item),
            SyntaxKind::LatencyItem => lowering.latency(&item),
            SyntaxKind::ClassItem => lowering.class(&item),
            SyntaxKind::NodeItem => lowering.node(&item),
            _ => {}
        }
    }
    (lowering.policy, lowering.diagnostics)
}

impl Lowering {
    pub(super) fn find(&mut self, code: Code, span: Span, message: impl AsRef<str>, help: impl AsRef<str>) {
        self.diagnostics.push(SpannedDiagnostic::new(code, span, message, help));
    }

    /// Records a diagnostic, unless one with the same code was recorded before.
    pub(super) fn find_once(&mut self, code: Code, span: Span, message: String, help: &str) {
        if !self.told.contains(&code) {
            self.told.push(code);
            self.find(code, span, message, help);
        }
    }

    /// Returns the value, or records its diagnostic.
    pub(super) fn keep<T>(&mut self, read: Read<T>) -> Option<T> {
        read.map_err(|diagnostic| self.diagnostics.push(*diagnostic)).ok()
    }

    fn link(&mut self, item: &SyntaxNode) {
        let Some(text) = value_of(item) else { return };
        let span = text.span;
        if self.policy.link.is_some() || self.policy.link_is_auto {
            self.find(
                Code::StatedTwice,
                span,
                "the link's rate is stated twice",
                "leave one of the lines out",
            );
        } else if text.value == "auto" {
            self.policy.link_is_auto = true;
        } else if let Some(value) = self.keep(values::rate(&text.value, span)) {
            self.policy.link = Some(Spanned { value, span });
        }
    }

    fn bound(&mut self, item: &SyntaxNode) {
        let Some(text) = value_of(item) else { return };
        let span = text.span;
        let Some(value) = self.keep(values::packets(&text.value, span)) else { return };
        match name_of(item, SyntaxKind::NameRef) {
            Some(class) => self.policy.class_bounds.push((class, value)),
            None if self.policy.bound.is_some() => {
                let help = "leave one of them out, or say of which class it is: `bound 500 packets of bulk`";
                self.find(Code::StatedTwice, span, "the bound of all classes is stated twice", help);
            }
            None => self.policy.bound = Some(Spanned { value, span }),
        }
    }

    fn latency(&mut self, item: &SyntaxNode) {
        let Some((text, class)) = value_of(item).zip(name_of(item, SyntaxKind::NameRef)) else { return };
        if let Some(value) = self.keep(values::latency(&text.value, text.span)) {
            self.policy.class_latencies.push((class, value));
        }
    }

    fn class(&mut self, item: &SyntaxNode) {
        let Some(name) = name_of(item, SyntaxKind::Name) else { return };
        let condition = self.condition_in(item);
        self.policy.classes.push(ClassDefinition { name, condition });
    }

    fn node(&mut self, item: &SyntaxNode) {
        let Some(name) = name_of(item, SyntaxKind::Name) else { return };
        let expression = self.expression_in(item);
        self.policy.nodes.push(NodeDefinition { name, expression });
    }

    /// The expression below `parent`.
    fn expression_in(&mut self, parent: &SyntaxNode) -> Spanned<Expression> {
        let mut children = parent.children();
        children
            .find_map(|node| Some(Spanned { value: self.expression(&node)?, span: head_span(&node) }))
            .unwrap_or_else(|| Spanned { value: Expression::Broken, span: span_of(parent.text_range()) })
    }

    /// The expression that `node` is, if it is one.
    fn expression(&mut self, node: &SyntaxNode) -> Option<Expression> {
        Some(match node.kind() {
            SyntaxKind::NameRef => Expression::Name(node.text().to_string()),
            SyntaxKind::PriorityExpr => Expression::Priority(self.children(node, Weights::Unwanted)),
            SyntaxKind::WfqExpr => Expression::Wfq(self.children(node, Weights::Wanted)),
            SyntaxKind::FifoExpr => Expression::Fifo(self.children(node, Weights::Unwanted)),
            SyntaxKind::FairExpr => Expression::Fair(Box::new(self.expression_in(node))),
            SyntaxKind::LimitExpr => self.limit(node),
            _ => return None,
        })
    }

    fn children(&mut self, node: &SyntaxNode, weights: Weights) -> Vec<Child> {
        let items: Vec<SyntaxNode> = node.children().filter(|c| c.kind() == SyntaxKind::ChildItem).collect();
        if items.is_empty() && is_closed(node) {
            let help = "list its children in the braces, such as `priority { mgmt, tenants }`";
            self.find(Code::NoChildren, head_span(node), "the node has no children", help);
        }
        items.iter().map(|item| self.child(item, weights)).collect()
    }

    fn child(&mut self, item: &SyntaxNode, weights: Weights) -> Child {
        let expression = self.expression_in(item);
        let weight = match (value_of(item), weights) {
            (Some(text), Weights::Wanted) => self.keep(values::weight(&text.value, text.span)),
            (Some(text), Weights::Unwanted) => {
                let help = "leave the weight out, or make the node a `wfq`";
                self.find(Code::WeightUnwanted, text.span, "only the children of `wfq` have weights", help);
                None
            }
            (None, Weights::Wanted)
                if !matches!(expression.value, Expression::Broken) && !has_token(item, SyntaxKind::Colon) =>
            {
                let help = "write it after a colon, such as `vm1: 2`; equal weights share equally";
                self.find(Code::WeightMissing, expression.span, "a child of `wfq` needs a weight", help);
                None
            }
            (None, _) => None,
        };
        Child { expression, weight }
    }

    fn limit(&mut self, node: &SyntaxNode) -> Expression {
        let destinations: Vec<SyntaxNode> =
            node.children().filter(|c| c.kind() == SyntaxKind::DestinationItem).collect();
        let branches = if node.children().any(|c| c.kind() == SyntaxKind::Value) {
            self.single_limit(node).into_iter().collect()
        } else {
            if destinations.is_empty() && is_closed(node) {
                let help = "name destinations and their rates, such as `{ 10.0.1.0/24: 2gbps }`";
                self.find(Code::NoChildren, head_span(node), "the limit names no destination", help);
            }
            destinations.iter().filter_map(|item| self.destination(item)).collect()
        };
        Expression::Limit(branches, Box::new(self.expression_in(node)))
    }

    /// `limit RATE [burst SIZE] [to PREFIX] of x`
    fn single_limit(&mut self, node: &SyntaxNode) -> Option<Branch> {
        let text = value_of(node)?;
        let rate = self.keep(values::rate(&text.value, text.span));
        let burst = self.burst(node)?;
        let tests: Vec<SyntaxNode> = node.children().filter(|c| c.kind() == SyntaxKind::Test).collect();
        if let Some(second) = tests.get(1) {
            let help = "write a limit for each destination, or `limit by destination { ... }`";
            let span = span_of(second.text_range());
            self.find(Code::StatedTwice, span, "the limit has two destinations", help);
        }
        let to = match tests.first() {
            Some(test) => {
                let text = value_of(test)?;
                Some(self.keep(values::prefix(&text.value, text.span))?)
            }
            None => None,
        };
        Some(Branch { to, rate: rate?, burst, span: text.span, by_destination: false })
    }

    /// `PREFIX: RATE [burst SIZE]`
    fn destination(&mut self, item: &SyntaxNode) -> Option<Branch> {
        let mut texts = item.children().filter(|c| c.kind() == SyntaxKind::Value).map(|v| spanned_text(&v));
        let (to, rate) = (texts.next()?, texts.next());
        let prefix = self.keep(values::prefix(&to.value, to.span));
        let rate = rate.and_then(|text| self.keep(values::rate(&text.value, text.span)));
        let burst = self.burst(item)?;
        Some(Branch { to: Some(prefix?), rate: rate?, burst, span: to.span, by_destination: true })
    }

    /// The burst size that `parent` states. The inner `None` means that it states none, the outer that it cannot be parsed.
    fn burst(&mut self, parent: &SyntaxNode) -> Option<Option<Bytes>> {
        let mut stated = parent.children().filter(|c| c.kind() == SyntaxKind::Burst);
        let Some(first) = stated.next() else { return Some(None) };
        if let Some(second) = stated.next() {
            let span = span_of(second.text_range());
            self.find(Code::StatedTwice, span, "the burst is stated twice", "leave one of them out");
        }
        let text = value_of(&first)?;
        self.keep(values::size(&text.value, text.span)).map(Some)
    }
}

/// The span of a range of the tree.
pub(super) fn span_of(range: rowan::TextRange) -> Span {
    Span::new(range.start().into(), range.end().into())
}

/// The span at which a message points for an expression: its first word, without its braces.
fn head_span(node: &SyntaxNode) -> Span {
    let first = super::conditions::first_word(node);
    first.map_or_else(|| span_of(node.text_range()), |word| span_of(word.text_range()))
}

fn has_token(node: &SyntaxNode, kind: SyntaxKind) -> bool {
    node.children_with_tokens().any(|part| part.kind() == kind)
}

/// Whether the parser reached the node's closing brace. If not, it has reported what is missing.
fn is_closed(node: &SyntaxNode) -> bool {
    has_token(node, SyntaxKind::CloseBrace)
}

fn spanned_text(node: &SyntaxNode) -> Spanned<String> {
    Spanned { value: node.text().to_string(), span: span_of(node.text_range()) }
}

/// The value that is a direct child of `parent`.
pub(super) fn value_of(parent: &SyntaxNode) -> Option<Spanned<String>> {
    parent.children().find(|node| node.kind() == SyntaxKind::Value).map(|node| spanned_text(&node))
}

fn name_of(parent: &SyntaxNode, kind: SyntaxKind) -> Option<Spanned<String>> {
    parent.children().find(|node| node.kind() == kind).map(|node| spanned_text(&node))
}
