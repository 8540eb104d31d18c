//! Changes of all places and names of a model, so that a tenant's model becomes a part of another.

use super::model::{Branch, Child, Condition, Expression, Policy, Spanned, TenantDefinition};
use crate::region::Region;
use weft_packet::Match;
use weft_text::Span;

/// A change of each part of a model. A name comes before its place.
pub(crate) trait Visit {
    /// Changes a place in the text.
    fn span(&mut self, span: &mut Span) {
        let _ = span;
    }

    /// Changes a name, where it is defined and where it is used.
    fn name(&mut self, name: &mut String) {
        let _ = name;
    }

    /// Changes a row of a condition.
    fn row(&mut self, row: &mut Match) {
        let _ = row;
    }

    /// Changes the packets of a limit.
    fn region(&mut self, region: &mut Region) {
        let _ = region;
    }

    /// Changes the number of the use of an algorithm.
    fn number(&mut self, number: &mut usize) {
        let _ = number;
    }
}

impl Policy {
    /// Applies `visit` to all parts.
    pub(crate) fn visit(&mut self, visit: &mut impl Visit) {
        if let Some(link) = &mut self.link {
            visit.span(&mut link.span);
        }
        if let Some(bound) = &mut self.bound {
            visit.span(&mut bound.span);
        }
        self.class_latencies.iter_mut().for_each(|(class, _)| named(class, visit));
        self.class_bounds.iter_mut().for_each(|(class, _)| named(class, visit));
        for class in &mut self.classes {
            named(&mut class.name, visit);
            if let Some(test) = &mut class.of_sender {
                visit.span(&mut test.span);
            }
            if let Some(condition) = &mut class.condition {
                condition.visit(visit);
            }
        }
        for node in &mut self.nodes {
            named(&mut node.name, visit);
            expression(&mut node.expression, visit);
        }
        self.uses.iter_mut().for_each(|used| visit.span(&mut used.name.span));
        self.tenants.iter_mut().for_each(|of| tenant(of, visit));
    }
}

impl Condition {
    fn visit(&mut self, visit: &mut impl Visit) {
        match self {
            Self::Row(row) => visit.row(row),
            Self::And(parts) | Self::Or(parts) => parts.iter_mut().for_each(|part| part.visit(visit)),
            Self::Not(inner) => inner.visit(visit),
        }
    }
}

fn named(name: &mut Spanned<String>, visit: &mut impl Visit) {
    visit.name(&mut name.value);
    visit.span(&mut name.span);
}

fn expression(of: &mut Spanned<Expression>, visit: &mut impl Visit) {
    match &mut of.value {
        Expression::Name(name) => visit.name(name),
        Expression::Native(_, all) => children(all, visit),
        Expression::Fair(inner) => expression(inner, visit),
        Expression::Limit(branches, inner) => {
            branches.iter_mut().for_each(|of| branch(of, visit));
            expression(inner, visit);
        }
        Expression::Algorithm(number, all) => {
            visit.number(number);
            children(all, visit);
        }
        Expression::Broken => {}
    }
    visit.span(&mut of.span);
}

fn children(all: &mut [Child], visit: &mut impl Visit) {
    all.iter_mut().for_each(|child| expression(&mut child.expression, visit));
}

fn branch(of: &mut Branch, visit: &mut impl Visit) {
    visit.region(&mut of.of);
    visit.span(&mut of.span);
}

fn tenant(of: &mut TenantDefinition, visit: &mut impl Visit) {
    named(&mut of.name, visit);
    visit.span(&mut of.file.span);
    let quotas = &mut of.quotas;
    quotas.counts.values_mut().for_each(|quota| visit.span(&mut quota.span));
    if let Some(cost) = &mut quotas.cost {
        visit.span(&mut cost.span);
    }
    if let Some(trust) = &mut of.trust {
        visit.span(trust);
    }
}
