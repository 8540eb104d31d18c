//! Edges of the graph.

use super::{NodeId, NodeKind, Target};

impl NodeKind {
    /// The targets of the node's edges, without the queues named by a table's rules or by RSS.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        let (ports, others): (&[super::Port], [&[Target]; 2]) = match self {
            Self::Classify { ports } => (ports, [&[], &[]]),
            Self::Logic { on_true, on_false, .. } => (&[], [on_true, on_false]),
            Self::Filter { miss, .. } | Self::Rss { miss } => (&[], [core::slice::from_ref(miss), &[]]),
            Self::Queue(_) | Self::Drop => (&[], [&[], &[]]),
        };
        ports.iter().flat_map(|port| &port.to).chain(others.into_iter().flatten())
    }
}

impl Target {
    /// The target node.
    pub const fn node(&self) -> NodeId {
        match self {
            Self::Node(node) | Self::Operand { node, .. } => *node,
        }
    }
}
