//! The program of a policy tree: the output of the policy compiler and the input of the engine.
//!
//! A program is a tree of [`NodeSpec`]s over [`LeafSpec`]s, without the shaping nodes (Loom, section 4: "the policy
//! graph forms a tree if all shaping nodes are removed"). The shaping nodes are the [`LimitSpec`]s. The lane of a
//! packet ([`LaneSpec`]) determines which of them it passes.
//!
//! # Vacant ids
//! While a policy changes, whatever stays keeps its id. The ids of what is gone are *vacant* until a later change gives
//! them to something new. A vacant id has a spec of its own, made by `vacant()`:
//! * a vacant lane enters no leaf, has no flows and matches nothing;
//! * a vacant leaf or node has no name and is not in the tree, and a vacant node has no children;
//! * a vacant limit has no name and no lane.

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

impl NodeSpec {
    /// The spec of an id that no node has.
    pub fn vacant() -> Self {
        Self { name: String::new(), discipline: Discipline::Priority, children: Vec::new() }
    }

    /// Whether no node has this id.
    pub fn is_vacant(&self) -> bool {
        self.name.is_empty() && self.children.is_empty()
    }
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

impl LeafSpec {
    /// The spec of an id that no leaf has.
    pub fn vacant() -> Self {
        Self { name: String::new(), discipline: LeafDiscipline::Fifo }
    }

    /// Whether no leaf has this id.
    pub fn is_vacant(&self) -> bool {
        self.name.is_empty()
    }
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

impl LimitSpec {
    /// The spec of an id that no limit has.
    pub fn vacant() -> Self {
        Self { name: String::new(), rate: BitsPerSec(1), burst: Bytes::ZERO }
    }

    /// Whether no limit has this id.
    pub fn is_vacant(&self) -> bool {
        self.name.is_empty()
    }
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

/// The leaf and the class of a vacant lane: the largest id, which indexes nothing.
const NOTHING: u32 = u32::MAX;

impl LaneSpec {
    /// The spec of an id that no lane has.
    pub fn vacant() -> Self {
        let (class, leaf) = (ClassId(NOTHING), LeafId(NOTHING));
        Self { class, leaf, limits: Vec::new(), packet_bound: Packets::ZERO }
    }

    /// Whether no lane has this id.
    pub fn is_vacant(&self) -> bool {
        self.leaf == LeafId(NOTHING)
    }
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
