//! The boxes of a drawing and the edges between them, without places.

use super::text::clean;
use super::{Part, Role};
use crate::compiled::SteerClause;
use crate::disciplines::Children::Ordered;
use crate::lowering::model::{Branch, Policy};
use crate::steering;
use crate::syntax::{self, SyntaxKind, SyntaxNode};
use crate::validate::graph::{Graph, Kind, Node};
use crate::validate::shape::Shape;
use std::collections::BTreeMap;

/// A box without a place.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) role: Role,
    pub(super) title: String,
    pub(super) detail: String,
    /// The label of its line towards the link: a weight, a place, arguments.
    pub(super) label: String,
    /// The boxes that follow it away from the link, in the policy's order.
    pub(super) sources: Vec<usize>,
}

/// The boxes, each before those that follow it away from the link; the first is the link.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    pub(super) items: Vec<Item>,
}

/// The boxes that represent a node.
#[derive(Clone, Debug, Default)]
struct Stands {
    /// The box from which packets continue to the link.
    last: usize,
    /// The boxes to which packets come.
    first: Vec<usize>,
}

/// The sketch of a checked policy.
pub(super) fn sketch(parts: &[Part], policy: &Policy, graph: &Graph, shape: &Shape) -> Sketch {
    let mut sketch = Sketcher {
        graph,
        policy,
        texts: Texts::new(parts),
        items: Vec::new(),
        stands: vec![Stands::default(); graph.nodes.len()],
        clauses: steering::clauses(policy, graph),
    };
    let rate = policy.link.as_ref().map_or_else(String::new, |link| link.value.to_string());
    sketch.add(Role::Link, "link", rate);
    for at in shape.order.iter().copied() {
        sketch.node(at);
    }
    for at in shape.order.iter().copied() {
        sketch.edges(at);
    }
    if let Some(root) = graph.root {
        let last = sketch.stands[root].last;
        sketch.items[0].sources.push(last);
    }
    Sketch { items: sketch.items }
}

struct Sketcher<'a> {
    graph: &'a Graph,
    policy: &'a Policy,
    texts: Texts,
    items: Vec<Item>,
    stands: Vec<Stands>,
    clauses: Vec<SteerClause>,
}

impl Sketcher<'_> {
    fn add(&mut self, role: Role, title: &str, detail: String) -> usize {
        let (title, detail) = (clean(title), clean(&detail));
        self.items.push(Item { role, title, detail, label: String::new(), sources: Vec::new() });
        self.items.len() - 1
    }

    fn node(&mut self, at: usize) {
        let node = &self.graph.nodes[at];
        let title = if node.named || matches!(node.kind, Kind::Class(_)) { node.name.as_str() } else { "" };
        let stands = match &node.kind {
            Kind::Limit(branches) => self.limit(title, branches),
            Kind::Class(_) => {
                let condition = self.texts.conditions.get(&node.name).cloned();
                let condition = condition.unwrap_or_else(|| match node.name.rsplit_once('.') {
                    Some((tenant, _)) => format!("what no class of {tenant} takes"),
                    None => "what no class takes".to_owned(),
                });
                let one = self.add(Role::Class, title, condition + &self.steered(&node.name));
                Stands { last: one, first: vec![one] }
            }
            kind => {
                let one = self.add(Role::Scheduling, title, self.discipline(kind));
                Stands { last: one, first: vec![one] }
            }
        };
        self.stands[at] = stands;
    }

    /// The goals of steering that a class has, behind its condition.
    fn steered(&self, class: &str) -> String {
        let clauses = self.clauses.iter().filter(|clause| clause.classes.iter().any(|of| of == class));
        clauses.map(|clause| format!("; steer {}", clause.text)).collect()
    }

    /// A limit is a box; several side by side meet in a FIFO.
    fn limit(&mut self, title: &str, branches: &[Branch]) -> Stands {
        if let [branch] = branches {
            let one = self.add(Role::Shaping, title, self.branch(branch));
            return Stands { last: one, first: vec![one] };
        }
        let last = self.add(Role::Scheduling, title, "fifo".to_owned());
        let first: Vec<usize> =
            branches.iter().map(|branch| self.add(Role::Shaping, "", self.branch(branch))).collect();
        self.items[last].sources.extend(&first);
        Stands { last, first }
    }

    fn branch(&self, branch: &Branch) -> String {
        let to = branch.of.to.map(|to| format!("to {to}"));
        let port = branch.of.port.and_then(|port| self.policy.ports.get(usize::from(port).checked_sub(1)?));
        let port = port.map(|port| format!("port \"{port}\""));
        let burst = branch.burst.map(|burst| format!("burst {burst}"));
        let words = [Some(format!("limit {}", branch.rate)), to, port, burst];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn discipline(&self, kind: &Kind) -> String {
        match kind {
            Kind::Native(of) => of.row().word.to_owned(),
            Kind::Fair => "fair".to_owned(),
            Kind::Algorithm(number) => {
                let Some(found) = self.policy.uses.get(*number) else { return String::new() };
                let arguments = self.texts.of_flows.get(&found.name.span.start);
                let arguments = arguments.map_or_else(String::new, |arguments| format!(" {arguments}"));
                format!("{}{arguments}", found.name.value)
            }
            Kind::Class(_) | Kind::Limit(_) | Kind::Broken => String::new(),
        }
    }

    fn edges(&mut self, at: usize) {
        let node = &self.graph.nodes[at];
        for (place, edge) in node.children.iter().enumerate() {
            let last = self.stands[edge.to].last;
            self.items[last].label = clean(&self.label(node, place));
            for first in self.stands[at].first.clone() {
                self.items[first].sources.push(last);
            }
        }
    }

    fn label(&self, node: &Node, place: usize) -> String {
        let Some(edge) = node.children.get(place) else { return String::new() };
        match (&node.kind, edge.weight) {
            (_, Some(weight)) => format!("w:{}", weight.get()),
            (Kind::Native(of), None) if of.has(Ordered) && node.children.len() > 1 => {
                format!("{}.", place + 1)
            }
            (Kind::Algorithm(_), None) => {
                self.texts.of_children.get(&edge.span.start).cloned().unwrap_or_default()
            }
            _ => String::new(),
        }
    }
}

/// Parts of the policy's text that the graph does not have.
#[derive(Default)]
struct Texts {
    /// The condition of each class.
    conditions: BTreeMap<String, String>,
    /// The arguments of an algorithm over flows, by the place of its name.
    of_flows: BTreeMap<usize, String>,
    /// The arguments of a child, by its place.
    of_children: BTreeMap<usize, String>,
}

impl Texts {
    fn new(parts: &[Part]) -> Self {
        let mut texts = Self::default();
        parts.iter().for_each(|part| texts.add(part));
        texts
    }

    fn add(&mut self, part: &Part) {
        let (tree, _) = syntax::parse(&part.text);
        for node in tree.descendants() {
            match node.kind() {
                SyntaxKind::ClassItem => {
                    let mut parts = node.children();
                    if let (Some(name), Some(condition)) = (parts.next(), parts.next()) {
                        let name = format!("{}{}", part.of, name.text());
                        self.conditions.insert(name, line(&condition));
                    }
                }
                SyntaxKind::Arguments => {
                    let Some(parent) = node.parent() else { continue };
                    let start = part.base + usize::from(parent.text_range().start());
                    let of = match parent.kind() {
                        SyntaxKind::ChildItem => &mut self.of_children,
                        _ => &mut self.of_flows,
                    };
                    of.insert(start, line(&node));
                }
                _ => {}
            }
        }
    }
}

/// The text of a node on one line, without comments.
fn line(node: &SyntaxNode) -> String {
    let tokens = node.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
    let kept: String = tokens
        .map(|token| match token.kind() {
            SyntaxKind::Whitespace | SyntaxKind::Comment => " ".to_owned(),
            _ => token.text().to_owned(),
        })
        .collect();
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}
