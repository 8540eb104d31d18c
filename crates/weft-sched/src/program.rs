//! The program of a policy tree: what the policy compiler hands to the engine.
//!
//! A program is a tree of [`NodeSpec`]s over [`LeafSpec`]s, with the shaping nodes taken out (Loom, section 4: "the
//! policy graph forms a tree if all shaping nodes are removed"). The shaping nodes are the [`LimitSpec`]s; which of them
//! a packet passes is a property of its lane ([`LaneSpec`]).

use weft_units::{BitsPerSec, Bytes, ClassId, LeafId, LimitId, NodeId, Packets, Weight};

/// A child of an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Child {
    /// Another inner node.
    Node(NodeId),
    /// A leaf.
    Leaf(LeafId),
}

/// How an inner node orders its children.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Discipline {
    /// Strict priority in the order of the children: the first that has something to send goes.
    Priority,
    /// Weighted fair queueing (start-time fair queueing), one weight per child, in the order of the children.
    Wfq(Vec<Weight>),
}

/// An inner node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeSpec {
    /// The policy's name for it.
    pub name: String,
    /// How it orders its children.
    pub discipline: Discipline,
    /// Its children, at least one.
    pub children: Vec<Child>,
}

/// How a leaf orders its flows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LeafDiscipline {
    /// One queue: packets leave in the order of their arrival, whatever their flow.
    Fifo,
    /// Fair queueing over the flows (start-time fair queueing, a flow's weight is given when it is added).
    Fair,
}

/// A leaf: where packets wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeafSpec {
    /// The policy's name for it.
    pub name: String,
    /// How it orders its flows.
    pub discipline: LeafDiscipline,
}

/// A rate limit (a shaping node).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LimitSpec {
    /// The policy's name for it.
    pub name: String,
    /// The rate, counted in the bytes that the caller charges; never zero.
    pub rate: BitsPerSec,
    /// How much may be sent back to back after a pause. Zero spaces every packet.
    pub burst: Bytes,
}

/// A lane: the packets of one class that enter one leaf and pass the same limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LaneSpec {
    /// The class that reports and counters attribute its packets to.
    pub class: ClassId,
    /// The leaf it enters.
    pub leaf: LeafId,
    /// The limits its packets pass, each at most once, in any order; a packet is sent when all of them allow it.
    pub limits: Vec<LimitId>,
    /// How many packets may wait in it, so that one class cannot use up what all share. A packet beyond is refused with
    /// the reason "class full".
    pub packet_bound: Packets,
}

/// A whole policy as the engine runs it. `LaneId`, `LeafId` and so on index these lists.
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
