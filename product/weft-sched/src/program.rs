//! The program of a policy tree: the output of the policy compiler and the input of the engine.
//!
//! A program is a tree of [`NodeSpec`]s over [`LeafSpec`]s, without the shaping nodes (Loom, section 4: "the policy
//! graph forms a tree if all shaping nodes are removed"). The shaping nodes are the [`LimitSpec`]s. The lane of a
//! packet ([`LaneSpec`]) determines which of them it passes.
//!
//! # Vacant ids
//! While a policy changes, whatever stays keeps its id. The ids of what is gone are *vacant* until a later change gives
//! them to something new. A vacant id has a special spec, made by `vacant()`:
//! * a vacant lane enters no leaf, has no flows and matches nothing;
//! * a vacant leaf or node has no name and is not in the tree, and a vacant node has no children;
//! * a vacant limit has no name and no lane.

use core::mem::discriminant;
use std::sync::Arc;

use weft_rank::{Algorithm, Effect, Effects, Execute, Inputs, Part};
use weft_units::{BitsPerSec, Bytes, ClassId, LeafId, LimitId, NodeId, Packets, Weight};

/// A child of an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Child {
    /// Another inner node.
    Node(NodeId),
    /// A leaf.
    Leaf(LeafId),
}

/// The order in which an inner node serves its children. The smallest rank leaves first, and equal ranks leave in the order in which
/// the references were inserted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Discipline {
    /// Strict priority in the order of the children: the first backlogged child is served. The rank is the position among the children.
    Priority,
    /// Weighted fair queueing (start-time fair queueing), one weight per child, in the order of the children. The rank is the start tag.
    Wfq(Vec<Weight>),
    /// A user-defined algorithm, with parameters for each child, in the order of the children.
    Custom(Arc<Custom>),
}

impl Discipline {
    /// A constructor of each discipline but the user-defined ones; the weights are those of the children, where these have some.
    pub const NATIVE: &[fn(Vec<Weight>) -> Self] = &[|_| Self::Priority, Self::Wfq];

    /// The place in [`Self::NATIVE`]; `None` for a user-defined algorithm.
    pub fn native(&self) -> Option<usize> {
        Self::NATIVE.iter().position(|make| discriminant(&make(Vec::new())) == discriminant(self))
    }

    /// The weights of the children, if they have some.
    pub fn weights(&self) -> Option<&[Weight]> {
        if let Self::Wfq(weights) = self { Some(weights) } else { None }
    }

    /// The user-defined algorithm, if it is one.
    pub fn custom(&self) -> Option<&Arc<Custom>> {
        if let Self::Custom(custom) = self { Some(custom) } else { None }
    }
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
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LeafDiscipline {
    /// One queue: packets leave in the order of arrival, whatever their flow.
    Fifo,
    /// Fair queueing over the flows (start-time fair queueing). A flow's weight is given when it is added.
    Fair,
    /// A user-defined algorithm, with one list of parameters for all flows. A flow's weight is the parameter `weight`.
    Custom(Arc<Custom>),
}

/// The use that an inner node's algorithm makes of packets.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum HeadUse {
    /// Programs see no packet, so a packet's sender has no influence on the order of the children.
    Hidden,
    /// Programs see the first packet of a child and arriving packets, and a child whose first packet changes is ranked anew.
    Followed,
}

/// A user-defined algorithm, at one node or leaf. Equal ones have equal algorithms, parameters, uses and droppers; what
/// runs them does not matter.
#[derive(Clone)]
pub struct Custom {
    /// The algorithm. At an inner node it orders or shapes the children.
    pub algorithm: Arc<Algorithm>,
    /// The compiled form of the algorithm, which runs instead of the interpreter.
    pub executor: Option<Arc<dyn Execute>>,
    /// The parameters of each child, or one list for all flows of a leaf.
    pub parameters: Vec<Vec<u64>>,
    /// The use of packets; leaves always see them.
    pub head: HeadUse,
    /// An algorithm that drops or marks packets, with one list of parameters; only in leaves.
    pub dropper: Option<Arc<Custom>>,
}

impl Custom {
    /// The algorithm by the interpreter, without a dropper, and with hidden packets.
    pub fn new(algorithm: Arc<Algorithm>, parameters: Vec<Vec<u64>>) -> Self {
        Self { algorithm, executor: None, parameters, head: HeadUse::Hidden, dropper: None }
    }

    /// Whether `other` has the same algorithm, so that its state is of use here.
    pub(crate) fn continues(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.algorithm, &other.algorithm) || self.algorithm == other.algorithm
    }

    /// The parameter that is the weight of a child.
    pub(crate) fn weight_parameter(&self) -> Option<usize> {
        let named = || self.algorithm.parameters.iter().position(|parameter| parameter.name == "weight");
        self.algorithm.aggregates.weights.map(usize::from).or_else(named)
    }

    /// Whether references may wait for times.
    pub(crate) fn has_times(&self) -> bool {
        let effects = self.algorithm.parts.rank.iter().flat_map(|program| program.effects());
        effects.into_iter().any(|effect| matches!(effect, Effect::FromTime(_) | Effect::Until { .. }))
    }
}

impl Execute for Custom {
    #[inline]
    fn run(
        &self,
        part: Part,
        inputs: &Inputs,
        parameters: &[u64],
        node: &mut [u64],
        child: &mut [u64],
    ) -> Effects {
        match &self.executor {
            Some(compiled) => compiled.run(part, inputs, parameters, node, child),
            None => self.algorithm.run(part, inputs, parameters, node, child),
        }
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        let Self { parameters, head, dropper, .. } = self;
        self.continues(other)
            && (parameters, head, dropper) == (&other.parameters, &other.head, &other.dropper)
    }
}

impl Eq for Custom {}

impl core::fmt::Debug for Custom {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { algorithm, parameters, head, dropper, .. } = self;
        let mut out = f.debug_struct("Custom");
        out.field("algorithm", &algorithm.name).field("parameters", parameters);
        out.field("head", head).field("dropper", dropper).finish_non_exhaustive()
    }
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

    /// The user-defined algorithm, if it has one.
    pub(crate) fn custom(&self) -> Option<&Arc<Custom>> {
        if let LeafDiscipline::Custom(custom) = &self.discipline { Some(custom) } else { None }
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

impl Program {
    /// The user-defined algorithms, without droppers.
    pub(crate) fn customs(&self) -> impl Iterator<Item = &Arc<Custom>> {
        let nodes = self.nodes.iter().filter_map(|node| node.discipline.custom());
        nodes.chain(self.leaves.iter().filter_map(LeafSpec::custom))
    }

    /// The user-defined algorithms and the droppers, each once.
    pub fn algorithms(&self) -> Vec<Arc<Algorithm>> {
        let mut found: Vec<Arc<Algorithm>> = Vec::new();
        let all = self.customs().flat_map(|custom| [Some(custom), custom.dropper.as_ref()]);
        for custom in all.flatten() {
            if !found.contains(&custom.algorithm) {
                found.push(custom.algorithm.clone());
            }
        }
        found
    }

    /// Lets each algorithm be run by what `executor` returns for it; `None` is the interpreter.
    pub fn run_by(&mut self, mut executor: impl FnMut(&Algorithm) -> Option<Arc<dyn Execute>>) {
        let nodes = self.nodes.iter_mut().filter_map(|node| match &mut node.discipline {
            Discipline::Custom(custom) => Some(custom),
            _ => None,
        });
        let leaves = self.leaves.iter_mut().filter_map(|leaf| match &mut leaf.discipline {
            LeafDiscipline::Custom(custom) => Some(custom),
            _ => None,
        });
        for custom in nodes.chain(leaves) {
            let custom = Arc::make_mut(custom);
            custom.executor = executor(&custom.algorithm);
            if let Some(dropper) = custom.dropper.as_mut().map(Arc::make_mut) {
                dropper.executor = executor(&dropper.algorithm);
            }
        }
    }
}
