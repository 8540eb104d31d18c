//! The differences between two policies, in the policy's words.

mod compare;

pub(super) use compare::steps;

use core::fmt;
use weft_units::{BitsPerSec, Bytes, Nanos, Packets, Weight};

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
    /// The latency that a class asks for.
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
        from: &'static str,
        /// The discipline after.
        to: &'static str,
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
            Self::Weight { .. } => "weight",
            Self::Order { .. } => "order",
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
