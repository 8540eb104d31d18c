//! The policy graph, with names resolved. Edges run from a node to its children. Loom draws them the other way, from the
//! packets' source towards the link; its "parent" is the node nearer to the link, as here.

use crate::disciplines::Native;
use crate::lowering::model::Branch;
use std::collections::BTreeMap;
use weft_text::Span;
use weft_units::Weight;

/// The node that the link serves.
pub(crate) const ROOT: &str = "root";

/// The kind of a node. Scheduling nodes order packets, shaping nodes delay them (Loom, section 4).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The class of this number.
    Class(usize),
    Native(Native),
    Fair,
    /// A shaping node: alternative limits, of which at most one applies to a packet.
    Limit(Vec<Branch>),
    /// An algorithm: the use of this number in the policy.
    Algorithm(usize),
    /// A node that could not be parsed.
    Broken,
}

impl Kind {
    /// A node that merges what is below it.
    pub(crate) const FIFO: Self = Self::Native(Native::Fifo);

    /// Whether it is a shaping node.
    pub(crate) fn shapes(&self) -> bool {
        matches!(self, Self::Limit(_))
    }
}

/// A reference to a node by its parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) to: usize,
    pub(crate) span: Span,
    /// Set where children are weighted.
    pub(crate) weight: Option<Weight>,
}

/// A node of the graph.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) span: Span,
    pub(crate) kind: Kind,
    pub(crate) children: Vec<Edge>,
    /// Whether the policy names it. A node inside another expression has no name.
    pub(crate) named: bool,
}

/// The whole graph: first the classes in the order of the file, then `default`, then all other nodes.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    pub(crate) names: BTreeMap<String, usize>,
    /// The number of classes without `default`, which is also the index of `default`.
    pub(crate) classes: usize,
    /// The node that the link serves.
    pub(crate) root: Option<usize>,
    /// Whether every name was resolved and every expression parsed. Checks of the graph as a whole require it.
    pub(crate) complete: bool,
}

impl Graph {
    /// The nodes below `from` after skipping shaping and FIFO nodes, each once, in order.
    pub(crate) fn content(&self, from: usize) -> Vec<usize> {
        let mut seen = std::collections::BTreeSet::new();
        let mut found = Vec::new();
        let mut todo: Vec<usize> = self.nodes[from].children.iter().rev().map(|edge| edge.to).collect();
        while let Some(at) = todo.pop() {
            if !seen.insert(at) {
                continue;
            }
            let node = &self.nodes[at];
            if node.kind.shapes() || node.kind == Kind::FIFO {
                todo.extend(node.children.iter().rev().map(|edge| edge.to));
            } else {
                found.push(at);
            }
        }
        found
    }

    /// All nodes below `from`, in order.
    pub(crate) fn below(&self, from: usize) -> Vec<usize> {
        let (mut seen, mut todo) = (std::collections::BTreeSet::new(), vec![from]);
        while let Some(at) = todo.pop() {
            todo.extend(self.nodes[at].children.iter().map(|edge| edge.to).filter(|to| seen.insert(*to)));
        }
        seen.into_iter().collect()
    }

    /// The class number of node `at`, if it is a class.
    pub(crate) fn class_of(&self, at: usize) -> Option<usize> {
        match self.nodes[at].kind {
            Kind::Class(class) => Some(class),
            _ => None,
        }
    }
}
