//! The quotas of a tenant: what its file with those below it uses, compared with what it may use.

use super::Pass;
use crate::algorithm::Place;
use crate::code::Code;
use crate::cost::{self, PolicyCost, Profile};
use crate::diagnostic::SpannedDiagnostic;
use crate::files::{Quota, QuotaUse};
use crate::lowering::model::{Policy, Quotas, TenantDefinition};
use crate::validate::build;
use crate::validate::graph::{Graph, Kind};
use crate::validate::shape::Shape;
use core::fmt::Display;
use weft_text::{LineIndex, Span, quoted};
use weft_units::Packets;

/// The use of what a quota bounds.
struct Used {
    /// The amount.
    amount: u64,
    /// The place in the tenant's file at which it is above a quota of `quota`.
    beyond: Span,
}

/// The use of what is counted by places: the first place beyond the quota is the one that is too many.
fn counted(places: &[Span], quota: u64) -> Used {
    let beyond = usize::try_from(quota).ok().and_then(|quota| places.get(quota)).copied().unwrap_or_default();
    Used { amount: places.len() as u64, beyond }
}

impl Quotas {
    /// The quotas with no use.
    pub(super) fn unused(&self) -> Vec<QuotaUse> {
        let counts = self.counts.iter().map(|(quota, of)| (*quota, u64::from(of.value)));
        let cost = self.cost.as_ref().map(|cost| (Quota::Cost, cost.value.0));
        counts.chain(cost).map(|(quota, most)| QuotaUse { quota, most, used: 0 }).collect()
    }
}

impl Pass<'_> {
    /// Compares a tenant's use with its quotas, and returns both. `most` is the bound of a class without a stated one.
    pub(super) fn check_quotas(
        &mut self,
        policy: &mut Policy,
        tenant: &TenantDefinition,
        most: Packets,
    ) -> Vec<QuotaUse> {
        let quotas = &tenant.quotas;
        let mut uses = quotas.unused();
        if uses.is_empty() {
            return uses;
        }
        let (mut graph, _) = build::build(policy, true, &LineIndex::new(""));
        let Some((shape, _)) = self.check_graph(&mut graph, &policy.uses, None) else { return uses };
        let classes: Vec<Span> = policy.classes.iter().map(|class| class.name.span).collect();
        for of in &mut uses {
            let used = match of.quota {
                Quota::Classes => counted(&classes, of.most),
                Quota::Nodes => counted(&nodes(&graph, &shape), of.most),
                Quota::Limits => counted(&limits(&graph), of.most),
                Quota::Flows => flows(policy, &graph, most, of.most),
                Quota::Cost => {
                    of.used = self.check_cost(tenant, &cost::count(policy, &graph, &shape));
                    continue;
                }
                // Those of what tenants share are compared where all of it is known.
                Quota::Cgroups | Quota::Ports | Quota::Rows | Quota::Masks | Quota::Entries => continue,
            };
            let Some(stated) = quotas.counts.get(&of.quota).map(|quota| quota.span) else { continue };
            of.used = used.amount;
            if used.amount > of.most {
                let what = of.quota.as_str();
                self.over(tenant, what, of.most, stated, format!("{} {what}", used.amount), used.beyond);
            }
        }
        uses
    }

    /// Compares the time of a packet with its quota, and returns it in nanoseconds.
    fn check_cost(&mut self, tenant: &TenantDefinition, cost: &PolicyCost) -> u64 {
        let nanos = Profile::Software.price(cost).map_or(0.0, |price| price.nanos).ceil() as u64;
        if let Some(quota) = &tenant.quotas.cost
            && nanos > quota.value.0
        {
            let (place, term) = dearest(cost);
            let used = format!("{nanos} ns for a packet: {term}");
            self.over(tenant, Quota::Cost.as_str(), quota.value, quota.span, used, place);
        }
        nanos
    }

    /// Reports a use above a quota, at its place in the tenant's file.
    fn over(
        &mut self,
        tenant: &TenantDefinition,
        what: &str,
        quota: impl Display,
        stated: Span,
        used: String,
        place: Span,
    ) {
        let name = quoted(&tenant.name.value);
        let message = format!("the quota of {name} is `{what} {quota}`, and its file uses {used}");
        let help = match what {
            "flows" => {
                "a class whose flows are ordered may have as many flows as its bound has packets: write a lower `bound N packets of CLASS`"
            }
            "cost" => "take orders off the path of a packet, or ask the operator for more",
            _ => "leave some out, or ask the operator for more",
        };
        let diagnostic = SpannedDiagnostic::new(Code::OverQuota, place, message, help);
        let note = format!("the quota is stated at {}", self.texts.place(stated));
        self.diagnostics.push(diagnostic.note(note));
    }
}

/// The places of the nodes of the tree: all but classes.
fn nodes(graph: &Graph, shape: &Shape) -> Vec<Span> {
    let nodes = graph.nodes.iter().enumerate().skip(graph.classes + 1);
    nodes.filter(|(at, _)| shape.reaches(graph, *at)).map(|(_, node)| node.span).collect()
}

/// The places of the limits.
fn limits(graph: &Graph) -> Vec<Span> {
    let of = |kind: &Kind| match kind {
        Kind::Limit(branches) => branches.iter().map(|branch| branch.span).collect(),
        _ => Vec::new(),
    };
    graph.nodes.iter().flat_map(|node| of(&node.kind)).collect()
}

/// The most flows that can wait at once: the bound of a class whose flows are ordered, and one for any other class.
fn flows(policy: &Policy, graph: &Graph, most: Packets, quota: u64) -> Used {
    let bound = |class: usize| {
        let name = &graph.nodes[class].name;
        let own = policy.class_bounds.iter().find(|(of, _)| of.value == *name);
        own.map_or(most, |(_, bound)| *bound).get()
    };
    let mut ordered = vec![None; graph.classes + 1];
    for (at, node) in graph.nodes.iter().enumerate() {
        let over_flows = match node.kind {
            Kind::Fair => true,
            Kind::Algorithm(number) => policy.uses.get(number).is_some_and(|used| used.place == Place::Flows),
            _ => false,
        };
        let classes = if over_flows { graph.content(at) } else { Vec::new() };
        for class in classes.into_iter().filter(|class| *class <= graph.classes) {
            ordered[class] = Some(node.span);
        }
    }
    let (mut amount, mut beyond) = (0_u64, Span::default());
    for (class, place) in ordered.into_iter().enumerate() {
        let before = amount;
        amount = amount.saturating_add(place.map_or(1, |_| bound(class)));
        if before <= quota && amount > quota {
            beyond = place.unwrap_or(graph.nodes[class].span);
        }
    }
    Used { amount, beyond }
}

/// The place of the term that costs most, and the term in words.
fn dearest(cost: &PolicyCost) -> (Span, String) {
    let dearest = cost.orders.iter().max_by_key(|order| (order.cost.per_packet(), order.level));
    let place = dearest.map_or(Span::default(), |order| order.span);
    let held = if cost.held { ", each passed twice by packets that are held" } else { "" };
    let operations = match cost.operations {
        0 => String::new(),
        count => format!(" and {count} operations of algorithms"),
    };
    (place, format!("{} orders on the path of {}{operations}{held}", cost.depth, quoted(&cost.deepest)))
}
