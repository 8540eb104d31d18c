//! The graph's edges.

use super::{NodeId, NodeKind, Target};

impl NodeKind {
    /// Where the node's edges lead. Those that a table's rules and RSS take beside are not among them.
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
    /// The node.
    pub const fn node(&self) -> NodeId {
        match self {
            Self::Node(node) | Self::Operand { node, .. } => *node,
        }
    }
}
