//! The policy graph, with names resolved. Edges run from a node to its children; Loom draws them the other way, from the
//! packets' source towards the link, and calls "parent" the node nearer to the link, as we do.

use crate::lowering::model::Branch;
use std::collections::BTreeMap;
use weft_text::Span;
use weft_units::Weight;

/// What a node does. Scheduling nodes order packets, shaping nodes delay them (Loom, section 4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The packets of the class of this number.
    Class(usize),
    Priority,
    Wfq,
    Fifo,
    Fair,
    /// A shaping node: limits side by side, of which at most one holds for a packet.
    Limit(Vec<Branch>),
    /// It could not be read.
    Broken,
}

impl Kind {
    /// Whether it is a shaping node.
    pub(crate) fn shapes(&self) -> bool {
        matches!(self, Self::Limit(_))
    }
}

/// A use of a node by its parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) to: usize,
    pub(crate) span: Span,
    /// Set under `wfq`.
    pub(crate) weight: Option<Weight>,
}

/// A node of the graph.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) kind: Kind,
    pub(crate) children: Vec<Edge>,
    /// Whether the policy gives it a name; what stands inside another expression has none.
    pub(crate) named: bool,
}

/// The whole graph. The classes come first, in the order of the file; after them `default`; after it all others.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: BTreeMap<String, usize>,
    /// The number of classes without `default`, which is also the number of `default`.
    pub(crate) classes: usize,
    /// The node that the link serves.
    pub(crate) root: Option<usize>,
    /// Whether every name was resolved and every expression read. Checks of the graph as a whole need that.
    pub(crate) complete: bool,
}

impl Graph {
    /// What stands below `from` when shaping and FIFO nodes are looked through, each once, in order.
    pub(crate) fn content(&self, from: usize) -> Vec<usize> {
        let mut seen = std::collections::BTreeSet::new();
        let mut found = Vec::new();
        let mut todo: Vec<usize> = self.nodes[from].children.iter().rev().map(|edge| edge.to).collect();
        while let Some(at) = todo.pop() {
            if !seen.insert(at) {
                continue;
            }
            let node = &self.nodes[at];
            if node.kind.shapes() || node.kind == Kind::Fifo {
                todo.extend(node.children.iter().rev().map(|edge| edge.to));
            } else {
                found.push(at);
            }
        }
        found
    }

    /// The class of node `at`, if it is one.
    pub(crate) fn class_of(&self, at: usize) -> Option<usize> {
        match self.nodes[at].kind {
            Kind::Class(class) => Some(class),
            _ => None,
        }
    }
}
