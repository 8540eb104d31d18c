//! The program of a policy tree: the output of the policy compiler and the input of the engine.
//!
//! A program is a tree of [`NodeSpec`]s over [`LeafSpec`]s, without the shaping nodes (Loom, section 4: "the policy
//! graph forms a tree if all shaping nodes are removed"). The shaping nodes are the [`LimitSpec`]s. The lane of a
//! packet ([`LaneSpec`]) determines which of them it passes.

use weft_units::{BitsPerSec, Bytes, ClassId, LeafId, LimitId, NodeId, Packets, Weight};

/// A child of an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Child {
    /// Another inner node.
    Node(NodeId),
    /// A leaf.
    Leaf(LeafId),
}

/// The order in which an inner node serves its children.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Discipline {
    /// Strict priority in the order of the children: the first backlogged child is served.
    Priority,
    /// Weighted fair queueing (start-time fair queueing), one weight per child, in the order of the children.
    Wfq(Vec<Weight>),
}

/// An inner node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeSpec {
    /// The name in the policy.
    pub name: String,
    /// The order of service of the children.
    pub discipline: Discipline,
    /// The children, at least one.
    pub children: Vec<Child>,
}

/// The order in which a leaf serves its flows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LeafDiscipline {
    /// One queue: packets leave in the order of arrival, whatever their flow.
    Fifo,
    /// Fair queueing over the flows (start-time fair queueing). A flow's weight is given when it is added.
    Fair,
}

/// A leaf: the place of waiting packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeafSpec {
    /// The name in the policy.
    pub name: String,
    /// The order of service of the flows.
    pub discipline: LeafDiscipline,
}

/// A rate limit (a shaping node).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitSpec {
    /// The name in the policy.
    pub name: String,
    /// The rate, in the bytes that the caller charges; never zero.
    pub rate: BitsPerSec,
    /// The bytes that may leave back to back after a pause. Zero spaces every packet.
    pub burst: Bytes,
}

/// A lane: the packets of one class that enter one leaf and pass the same limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneSpec {
    /// The class under which reports and counters list its packets.
    pub class: ClassId,
    /// The leaf that its packets enter.
    pub leaf: LeafId,
    /// The limits that its packets pass, each at most once, in any order. A packet is sent when all of them allow it.
    pub limits: Vec<LimitId>,
    /// The maximum number of waiting packets, so that one class cannot exhaust a shared resource. Further packets are
    /// refused with the reason "class full".
    pub packet_bound: Packets,
}

/// A complete policy as the engine runs it. `LaneId`, `LeafId` and the other ids index these lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Program {
    /// The child that the link serves: the root of the tree.
    pub root: Child,
    /// Inner nodes.
    pub nodes: Vec<NodeSpec>,
    /// Leaves.
    pub leaves: Vec<LeafSpec>,
    /// Rate limits.
    pub limits: Vec<LimitSpec>,
    /// Lanes.
    pub lanes: Vec<LaneSpec>,
}
