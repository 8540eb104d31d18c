//! Lowering of tenants: the clause to its definition, and to the node and the class that represent the tenant's file.

use super::items::Lowering;
use super::model::{
    Child, ClassDefinition, ClassRole, Expression, NodeDefinition, Quotas, Spanned, TenantDefinition,
    name_below,
};
use super::nodes::{first_word, head_span, span_of, token_of, value_of};
use super::values;
use crate::code::Code;
use crate::compiled::DEFAULT;
use crate::disciplines::Native;
use crate::files::Quota;
use crate::syntax::{SyntaxKind, SyntaxNode};
use weft_text::{Span, quoted};

impl Lowering<'_> {
    /// `NAME = tenant "FILE" of condition { quotas }`
    pub(super) fn tenant(&mut self, name: Spanned<String>, node: &SyntaxNode) {
        let (condition, of_sender) = self.class_condition(node);
        let (quotas, trust) = self.quotas(node);
        let class = Spanned { value: name_below(&name.value, DEFAULT), span: name.span };
        let below = Spanned { value: Expression::Name(class.value.clone()), span: name.span };
        // A separate node, so that nothing that needs a class takes the tenant for one.
        let node_of = Expression::Native(Native::Priority, vec![Child { expression: below, weight: None }]);
        let expression = Spanned { value: node_of, span: head_span(node) };
        self.policy.classes.push(ClassDefinition {
            name: class,
            condition,
            of_sender,
            role: ClassRole::Rest,
        });
        self.policy.nodes.push(NodeDefinition { name: name.clone(), expression });
        let Some(quotes) = token_of(node, SyntaxKind::Text) else { return };
        let span = span_of(quotes.text_range());
        if let Some(value) = self.keep(values::tenant_file(quotes.text(), span)) {
            let file = Spanned { value, span };
            self.policy.tenants.push(TenantDefinition { name, file, quotas, trust });
        }
    }

    /// A tenant inside another expression.
    pub(super) fn unnamed_tenant(&mut self, node: &SyntaxNode) -> Expression {
        let message = "a tenant needs a name of its own, with which the names of its file begin";
        let help = "define it on a line of its own, such as `vm1 = tenant \"vm1.weft\" of cgroup \"/vm1\"`";
        self.find(Code::TenantUnnamed, head_span(node), message, help);
        Expression::Broken
    }

    /// The quotas in braces, and the place of `trust`.
    fn quotas(&mut self, node: &SyntaxNode) -> (Quotas, Option<Span>) {
        let (mut quotas, mut trust) = (Quotas::default(), None);
        for item in node.children().filter(|part| part.kind() == SyntaxKind::QuotaItem) {
            let Some(word) = first_word(&item) else { continue };
            let span = span_of(word.text_range());
            let twice = match word.text() {
                "trust" => trust.replace(span).is_some(),
                "cost" => {
                    let read = value_of(&item).and_then(|text| {
                        let value = self.keep(values::cost(&text.value, text.span))?;
                        Some(Spanned { value, span: text.span })
                    });
                    read.is_some_and(|read| quotas.cost.replace(read).is_some())
                }
                other => {
                    let read = value_of(&item).and_then(|text| {
                        let value = self.keep(values::quota(&text.value, text.span))?;
                        Some(Spanned { value, span: text.span })
                    });
                    let quota = Quota::COUNTS.into_iter().find(|quota| quota.as_str() == other);
                    let counted = quota.zip(read);
                    counted.is_some_and(|(quota, read)| quotas.counts.insert(quota, read).is_some())
                }
            };
            if twice {
                let message = format!("{} is stated twice", quoted(word.text()));
                self.find(Code::StatedTwice, span, message, "leave one of them out");
            }
        }
        (quotas, trust)
    }
}
