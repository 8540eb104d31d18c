//! Lowering of items and expressions, from the tree to the model.

use super::model::{Branch, Child, ClassDefinition, ClassRole, Expression, NodeDefinition, Policy, Spanned};
use super::nodes::{
    first_word, has_token, has_word, head_span, is_closed, name_of, span_of, spanned_text, value_of,
};
use super::units::{Broken, nameless, unread};
use super::values::{self, Read};
use crate::algorithm::read::definitions;
use crate::algorithm::uses::Scope;
use crate::code::Code;
use crate::corrections;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::disciplines::{Children, Native};
use crate::region::Region;
use crate::syntax::{SyntaxKind, SyntaxNode};
use crate::users::Users;
use std::collections::BTreeSet;
use weft_packet::Prefix;
use weft_text::{Span, quoted};
use weft_units::Bytes;

/// The model under construction, its diagnostics, and the codes that were reported.
pub(super) struct Lowering<'a> {
    pub(super) policy: Policy,
    /// The algorithms.
    pub(super) scope: Scope,
    diagnostics: Vec<SpannedDiagnostic>,
    told: Vec<Code>,
    /// The values with a syntax error, about which the parser has said everything.
    pub(super) broken: Broken,
    /// All defined names.
    names: BTreeSet<String>,
    /// The host's users, if their names are checked.
    pub(super) users: Option<&'a Users>,
    /// The first test of the condition being read that only a sender's packets can pass.
    pub(super) of_sender: Option<Spanned<&'static str>>,
}

/// Lowers a policy's tree; the diagnostics report values that cannot be parsed. `errors` are the syntax errors. Without `users`,
/// the names of users are not checked, and mean user 0.
pub(crate) fn lower(
    tree: &SyntaxNode,
    errors: &[SpannedDiagnostic],
    users: Option<&Users>,
) -> (Policy, Vec<SpannedDiagnostic>) {
    let broken_at = |span: Span| {
        errors.iter().any(|error| span.start <= error.span().start && error.span().start <= span.end)
    };
    let (scope, diagnostics) = Scope::new(&definitions(tree, &broken_at));
    let mut lowering = Lowering {
        policy: Policy { unread: unread(tree), nameless: nameless(tree), ..Policy::default() },
        scope,
        diagnostics,
        told: Vec::new(),
        broken: Broken::new(tree, errors),
        names: tree.children().filter_map(|item| Some(name_of(&item, SyntaxKind::Name)?.value)).collect(),
        users,
        of_sender: None,
    };
    for item in tree.children() {
        match item.kind() {
            SyntaxKind::LinkItem => lowering.link(&item),
            SyntaxKind::BoundItem => lowering.bound(&item),
            SyntaxKind::LatencyItem => lowering.latency(&item),
            SyntaxKind::SteerItem => lowering.steer(&item),
            SyntaxKind::ClassItem => lowering.class(&item),
            SyntaxKind::NodeItem => lowering.node(&item),
            _ => {}
        }
    }
    (lowering.policy, lowering.diagnostics)
}

impl Lowering<'_> {
    pub(super) fn find(&mut self, code: Code, span: Span, message: impl AsRef<str>, help: impl AsRef<str>) {
        self.report(SpannedDiagnostic::new(code, span, message, help));
    }

    /// Records a diagnostic, unless the parser has reported the value.
    pub(super) fn report(&mut self, diagnostic: SpannedDiagnostic) {
        if !self.broken.contains(diagnostic.span()) {
            self.diagnostics.push(diagnostic);
        }
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
        read.map_err(|diagnostic| self.report(*diagnostic)).ok()
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
        let (condition, of_sender) = self.class_condition(item);
        let role = ClassRole::Described;
        self.policy.classes.push(ClassDefinition { name, condition, of_sender, role });
    }

    fn node(&mut self, item: &SyntaxNode) {
        let Some(name) = name_of(item, SyntaxKind::Name) else { return };
        if let Some(tenant) = item.children().find(|part| part.kind() == SyntaxKind::TenantExpr) {
            return self.tenant(name, &tenant);
        }
        let expression = self.expression_in(item);
        self.policy.nodes.push(NodeDefinition { name, expression });
    }

    /// The expression below `parent`.
    pub(super) fn expression_in(&mut self, parent: &SyntaxNode) -> Spanned<Expression> {
        let mut children = parent.children();
        children
            .find_map(|node| Some(Spanned { value: self.expression(&node)?, span: head_span(&node) }))
            .unwrap_or_else(|| Spanned { value: Expression::Broken, span: span_of(parent.text_range()) })
    }

    /// The expression that `node` is, if it is one.
    pub(super) fn expression(&mut self, node: &SyntaxNode) -> Option<Expression> {
        Some(match node.kind() {
            SyntaxKind::NameRef => Expression::Name(spanned_text(node).value),
            SyntaxKind::DisciplineExpr => {
                let native = Native::meant(first_word(node)?.text())?;
                Expression::Native(native, self.children(node, native))
            }
            SyntaxKind::FairExpr => Expression::Fair(Box::new(self.expression_in(node))),
            SyntaxKind::LimitExpr => self.limit(node),
            SyntaxKind::AlgorithmExpr => self.algorithm(node),
            SyntaxKind::TenantExpr => self.unnamed_tenant(node),
            _ => return None,
        })
    }

    fn children(&mut self, node: &SyntaxNode, native: Native) -> Vec<Child> {
        let items: Vec<SyntaxNode> = node.children().filter(|c| c.kind() == SyntaxKind::ChildItem).collect();
        if items.is_empty() && is_closed(node) {
            let help = "list its children in the braces, such as `priority { mgmt, tenants }`";
            self.find(Code::NoChildren, head_span(node), "the node has no children", help);
        }
        let weighted = native.has(Children::Weighted);
        let readable = weighted && !self.decimal_weights(node, &items);
        match weighted {
            true if readable => self.check_weights(node, &items, native.row().word),
            true => {}
            false => self.check_no_weights(node, &items),
        }
        items.iter().map(|item| self.child(item, readable)).collect()
    }

    fn child(&mut self, item: &SyntaxNode, weighted: bool) -> Child {
        let expression = self.expression_in(item);
        let text = value_of(item).filter(|_| weighted);
        let weight = text.and_then(|text| self.keep(values::weight(&text.value, text.span)));
        Child { expression, weight }
    }

    /// Reports weights with a decimal point, once for the node. Returns whether there are some. The correction is whole numbers in the
    /// same proportions.
    fn decimal_weights(&mut self, node: &SyntaxNode, items: &[SyntaxNode]) -> bool {
        let weights: Vec<Spanned<String>> = items.iter().filter_map(value_of).collect();
        let decimal = |of: &&Spanned<String>| {
            of.value.contains('.') && of.value.parse::<f64>().is_ok_and(|value| value > 0.0)
        };
        let Some(first) = weights.iter().find(decimal) else { return false };
        let message = format!("{} is not a weight", quoted(&first.value));
        let help = "weights are whole numbers from 1 to 4294967295; only their proportions count";
        let texts: Vec<&str> = weights.iter().map(|of| &*of.value).collect();
        let edit = corrections::proportions(&texts).and_then(|whole| {
            let edits =
                weights.iter().zip(whole).map(|(of, whole)| Edit::replace(of.span, whole.to_string()));
            joined(node, edits.collect())
        });
        self.report(SpannedDiagnostic::new(Code::BadWeight, first.span, message, help).fix(edit));
        true
    }

    /// Reports the children without a weight of a node whose word is `word`, once for the node.
    fn check_weights(&mut self, node: &SyntaxNode, items: &[SyntaxNode], word: &str) {
        let bare = |item: &&SyntaxNode| value_of(item).is_none() && !has_token(item, SyntaxKind::Colon);
        let expressions: Vec<SyntaxNode> = items
            .iter()
            .filter(bare)
            .filter_map(|item| item.children().find(|part| is_expression(part.kind())))
            .filter(|expression| !self.broken.contains(span_of(expression.text_range())))
            .collect();
        let Some(first) = expressions.first() else { return };
        let edits = expressions.iter().map(|e| Edit::insert(span_of(e.text_range()).end, ": 1")).collect();
        let help = "write it after a colon, such as `vm1: 2`; equal weights share equally";
        let message = format!("a child of `{word}` needs a weight");
        let diagnostic = SpannedDiagnostic::new(Code::WeightMissing, head_span(first), message, help);
        self.report(diagnostic.fix(joined(node, edits)));
    }

    /// Reports the children of another node that have a weight, once for the node.
    fn check_no_weights(&mut self, node: &SyntaxNode, items: &[SyntaxNode]) {
        let weights: Vec<SyntaxNode> = items
            .iter()
            .filter_map(|item| item.children().find(|part| part.kind() == SyntaxKind::Value))
            .filter(|value| !self.broken.contains(span_of(value.text_range())))
            .collect();
        let Some(first) = weights.first() else { return };
        let edit = if weights.len() == items.len() && items.len() > 1 {
            Some(Edit::replace(head_span(node), "wfq"))
        } else {
            let behind = |value: &SyntaxNode| {
                let name = value.prev_sibling().map_or(0, |sibling| span_of(sibling.text_range()).end);
                Edit::delete(Span::new(name, span_of(value.text_range()).end))
            };
            joined(node, weights.iter().map(behind).collect())
        };
        let help = "leave the weight out, or make the node a `wfq`";
        let message = "only the children of `wfq` have weights";
        let span = span_of(first.text_range());
        self.report(SpannedDiagnostic::new(Code::WeightUnwanted, span, message, help).fix(edit));
    }

    fn limit(&mut self, node: &SyntaxNode) -> Expression {
        let items = |kind| -> Vec<SyntaxNode> { node.children().filter(|c| c.kind() == kind).collect() };
        let (ports, destinations) = (items(SyntaxKind::PortItem), items(SyntaxKind::DestinationItem));
        let branches: Vec<Branch> = if !items(SyntaxKind::Value).is_empty() {
            self.single_limit(node).into_iter().collect()
        } else if has_word(node, "port") || !ports.is_empty() {
            let help = "name ports and their rates, such as `{ \"vm1\": 100mbps }`";
            self.check_named(node, &ports, "the limit names no port", help);
            ports.iter().filter_map(|item| self.port_limit(item)).collect()
        } else {
            let help = "name destinations and their rates, such as `{ 10.0.1.0/24: 2gbps }`";
            self.check_named(node, &destinations, "the limit names no destination", help);
            destinations.iter().filter_map(|item| self.destination(item)).collect()
        };
        Expression::Limit(branches, Box::new(self.expression_in(node)))
    }

    /// Reports an empty list of what a limit distinguishes.
    fn check_named(&mut self, node: &SyntaxNode, items: &[SyntaxNode], message: &str, help: &str) {
        if items.is_empty() && is_closed(node) {
            self.find(Code::NoChildren, head_span(node), message, help);
        }
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
                Some(self.prefix(&text.value, text.span)?)
            }
            None => None,
        };
        Some(Branch { of: Region { to, port: None }, rate: rate?, burst, span: text.span, label: None })
    }

    /// `PREFIX: RATE [burst SIZE]`
    fn destination(&mut self, item: &SyntaxNode) -> Option<Branch> {
        let mut texts = item.children().filter(|c| c.kind() == SyntaxKind::Value).map(|v| spanned_text(&v));
        let (to, rate) = (texts.next()?, texts.next());
        let prefix = self.prefix(&to.value, to.span);
        let rate = rate.and_then(|text| self.keep(values::rate(&text.value, text.span)));
        let burst = self.burst(item)?;
        let prefix = prefix?;
        let of = Region { to: Some(prefix), port: None };
        Some(Branch { of, rate: rate?, burst, span: to.span, label: Some(prefix.to_string()) })
    }

    /// `TEXT: RATE [burst SIZE]`
    fn port_limit(&mut self, item: &SyntaxNode) -> Option<Branch> {
        let rate = value_of(item).and_then(|text| self.keep(values::rate(&text.value, text.span)));
        let burst = self.burst(item)?;
        let (number, span) = self.port(item)?;
        let name = self.policy.ports.get(usize::from(number) - 1)?.clone();
        let of = Region { to: None, port: Some(number) };
        Some(Branch { of, rate: rate?, burst, span, label: Some(name) })
    }

    /// An address prefix. Reports a name in its place as an error.
    pub(super) fn prefix(&mut self, text: &str, span: Span) -> Option<Prefix> {
        if self.names.contains(text) && text.parse::<Prefix>().is_err() {
            let message = format!("{} is a name and not an address prefix", quoted(text));
            let help = format!(
                "`to` and `from` take addresses; the class or node is limited by `limit ... of {text}`"
            );
            self.find(Code::BadPrefix, span, message, help);
            return None;
        }
        self.keep(values::prefix(text, span))
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

/// The most bytes of a list that an edit of several places repeats.
const JOINED_MAX: usize = 4096;

/// Several edits of `node`'s text, in their order, as one.
fn joined(node: &SyntaxNode, edits: Vec<Edit>) -> Option<Edit> {
    let base = span_of(node.text_range()).start;
    let span = edits.first()?.span.to(edits.last()?.span);
    if span.end - span.start > JOINED_MAX || edits.len() == 1 {
        return edits.into_iter().next().filter(|edit| edit.span == span);
    }
    let text = node.text().to_string();
    let (mut out, mut at) = (String::new(), span.start);
    for edit in edits {
        out += text.get(at - base..edit.span.start - base)?;
        out += &edit.text;
        at = edit.span.end;
    }
    Some(Edit::replace(span, out))
}

fn is_expression(kind: SyntaxKind) -> bool {
    use SyntaxKind::*;
    matches!(kind, NameRef | DisciplineExpr | FairExpr | LimitExpr | AlgorithmExpr | TenantExpr)
}
