//! The differences between two policies, in the policy's words.

mod compare;

pub(super) use compare::{kept, steps};

use core::fmt;
use weft_units::{BitsPerSec, Bytes, Nanos, Packets, Weight};

/// The phase of a change in which a step takes place, in the order of the phases.
///
/// Those up to [`Phase::Added`] take place together, between two packets. Then the match tables are exchanged. What is gone is
/// given up last, when no packet of it is left.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// A value changes in place.
    Adjusted,
    /// Something has another place in the tree, or packets pass other limits.
    Moved,
    /// The children of a node, or the flows of a class, are ordered anew.
    Reranked,
    /// Something is new.
    Added,
    /// Packets that arrive go to another class.
    Reclassified,
    /// Something is gone; its packets are those of another class from the exchange on.
    Removed,
}

impl Phase {
    /// The phase in one word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Adjusted => "adjusted",
            Self::Moved => "moved",
            Self::Reranked => "reranked",
            Self::Added => "added",
            Self::Reclassified => "reclassified",
            Self::Removed => "removed",
        }
    }
}

/// A difference between two policies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The link's rate; `None` if the policy states none.
    Link {
        /// The rate before.
        from: Option<BitsPerSec>,
        /// The rate after.
        to: Option<BitsPerSec>,
    },
    /// A class that is new.
    ClassAdded {
        /// The class.
        class: String,
        /// The node or leaf that serves it.
        under: String,
    },
    /// A class that is gone.
    ClassRemoved {
        /// The class.
        class: String,
        /// The class that takes over its waiting packets.
        heir: String,
    },
    /// The packets that a class takes.
    Rules {
        /// The class.
        class: String,
    },
    /// The order in which classes are tested.
    RuleOrder,
    /// The latency that a class requires.
    Latency {
        /// The class.
        class: String,
        /// The latency before.
        from: Option<Nanos>,
        /// The latency after.
        to: Option<Nanos>,
    },
    /// The most packets of a class that may wait.
    Bound {
        /// The class.
        class: String,
        /// The bound before.
        from: Packets,
        /// The bound after.
        to: Packets,
    },
    /// The limits that packets of a class pass.
    Limits {
        /// The class.
        class: String,
        /// The limits before.
        from: Vec<String>,
        /// The limits after.
        to: Vec<String>,
    },
    /// A limit that is new.
    LimitAdded {
        /// The limit.
        limit: String,
        /// Its rate.
        rate: BitsPerSec,
    },
    /// A limit that is gone.
    LimitRemoved {
        /// The limit.
        limit: String,
    },
    /// The rate of a limit.
    Rate {
        /// The limit.
        limit: String,
        /// The rate before.
        from: BitsPerSec,
        /// The rate after.
        to: BitsPerSec,
    },
    /// The burst of a limit.
    Burst {
        /// The limit.
        limit: String,
        /// The burst before.
        from: Bytes,
        /// The burst after.
        to: Bytes,
    },
    /// A node that is new.
    NodeAdded {
        /// The node.
        node: String,
        /// The node that serves it.
        under: String,
    },
    /// A node that is gone.
    NodeRemoved {
        /// The node.
        node: String,
    },
    /// A node, leaf or class with another place in the tree.
    Moved {
        /// The node, leaf or class.
        name: String,
        /// The node or leaf that served it.
        from: String,
        /// The node or leaf that serves it.
        to: String,
    },
    /// The order of service in a node or leaf.
    Discipline {
        /// The node or leaf.
        name: String,
        /// The discipline before.
        from: String,
        /// The discipline after.
        to: String,
    },
    /// The text of the algorithm that orders a node or leaf.
    Algorithm {
        /// The node or leaf.
        name: String,
        /// The algorithm.
        algorithm: String,
    },
    /// The arguments of an algorithm, for one child or for all flows of a leaf.
    Arguments {
        /// The child or leaf.
        name: String,
        /// The node or leaf of the algorithm.
        of: String,
    },
    /// The weight of a child.
    Weight {
        /// The child.
        name: String,
        /// Its node.
        node: String,
        /// The weight before.
        from: Weight,
        /// The weight after.
        to: Weight,
    },
    /// The order of the children of a strict priority.
    Order {
        /// The node.
        node: String,
    },
}

impl Step {
    /// The kind of the difference, in one word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Link { .. } => "link",
            Self::ClassAdded { .. } => "class-added",
            Self::ClassRemoved { .. } => "class-removed",
            Self::Rules { .. } => "rules",
            Self::RuleOrder => "rule-order",
            Self::Latency { .. } => "latency",
            Self::Bound { .. } => "bound",
            Self::Limits { .. } => "limits",
            Self::LimitAdded { .. } => "limit-added",
            Self::LimitRemoved { .. } => "limit-removed",
            Self::Rate { .. } => "rate",
            Self::Burst { .. } => "burst",
            Self::NodeAdded { .. } => "node-added",
            Self::NodeRemoved { .. } => "node-removed",
            Self::Moved { .. } => "moved",
            Self::Discipline { .. } => "discipline",
            Self::Algorithm { .. } => "algorithm",
            Self::Arguments { .. } => "arguments",
            Self::Weight { .. } => "weight",
            Self::Order { .. } => "order",
        }
    }

    /// The phase in which the step takes place.
    pub const fn phase(&self) -> Phase {
        match self {
            Self::Link { .. }
            | Self::Latency { .. }
            | Self::Bound { .. }
            | Self::Rate { .. }
            | Self::Burst { .. }
            | Self::Arguments { .. }
            | Self::Weight { .. } => Phase::Adjusted,
            Self::Moved { .. } | Self::Limits { .. } => Phase::Moved,
            Self::Discipline { .. } | Self::Algorithm { .. } | Self::Order { .. } => Phase::Reranked,
            Self::ClassAdded { .. } | Self::LimitAdded { .. } | Self::NodeAdded { .. } => Phase::Added,
            Self::Rules { .. } | Self::RuleOrder => Phase::Reclassified,
            Self::ClassRemoved { .. } | Self::LimitRemoved { .. } | Self::NodeRemoved { .. } => {
                Phase::Removed
            }
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link { from, to } => write!(f, "link rate: {} -> {}", or_none(from), or_none(to)),
            Self::ClassAdded { class, under } => write!(f, "class {class} added under {under}"),
            Self::ClassRemoved { class, heir } => {
                write!(f, "class {class} removed, its packets go to {heir}")
            }
            Self::Rules { class } => write!(f, "class {class}: takes other packets"),
            Self::RuleOrder => f.write_str("classes are tested in another order"),
            Self::Latency { class, from, to } => {
                write!(f, "latency of {class}: {} -> {}", or_none(from), or_none(to))
            }
            Self::Bound { class, from, to } => {
                write!(f, "bound of {class}: {} -> {} packets", from.get(), to.get())
            }
            Self::Limits { class, from, to } => {
                write!(f, "limits of {class}: {} -> {}", listed(from), listed(to))
            }
            Self::LimitAdded { limit, rate } => write!(f, "limit {limit} added: {rate}"),
            Self::LimitRemoved { limit } => write!(f, "limit {limit} removed"),
            Self::Rate { limit, from, to } => write!(f, "limit {limit}: {from} -> {to}"),
            Self::Burst { limit, from, to } => write!(f, "burst of {limit}: {from} -> {to}"),
            Self::NodeAdded { node, under } => write!(f, "node {node} added under {under}"),
            Self::NodeRemoved { node } => write!(f, "node {node} removed"),
            Self::Moved { name, from, to } => write!(f, "{name} moved: {from} -> {to}"),
            Self::Discipline { name, from, to } => write!(f, "order of service in {name}: {from} -> {to}"),
            Self::Algorithm { name, algorithm } => write!(f, "algorithm {algorithm} of {name} changed"),
            Self::Arguments { name, of } if name == of => write!(f, "arguments of {name} changed"),
            Self::Arguments { name, of } => write!(f, "arguments of {name} in {of} changed"),
            Self::Weight { name, node, from, to } => {
                write!(f, "weight {name}: {} -> {} in {node}", from.get(), to.get())
            }
            Self::Order { node } => write!(f, "order of the children of {node} changed"),
        }
    }
}

fn or_none<T: fmt::Display>(value: &Option<T>) -> String {
    value.as_ref().map_or("none".to_owned(), T::to_string)
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
