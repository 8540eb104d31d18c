//! The compiler's output: the engine's program, and the match table that assigns packets to its lanes.

use weft_packet::Match;
use weft_sched::Program;
use weft_sched::program::{Child, Discipline};
use weft_units::{BitsPerSec, ClassId, LaneId, Nanos, PacketMeta};

/// The class of ARP, neighbour discovery, DHCP and similar traffic. A network fails without it, so it is served above the
/// policy's tree, unless the policy has a class of this name.
pub const INFRASTRUCTURE: &str = "infrastructure";

/// A traffic class of the policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassInfo {
    /// Its name in the policy (`T1`, `vm1.kvs`).
    pub name: String,
    /// The most link time that a chunk of another class may take, if the policy asks for less than the port's own bound.
    pub latency: Option<Nanos>,
}

impl ClassInfo {
    /// The entry of an id that no class has.
    pub fn vacant() -> Self {
        Self { name: String::new(), latency: None }
    }

    /// Whether no class has this id, until a later change gives it to one.
    pub fn is_vacant(&self) -> bool {
        self.name.is_empty()
    }
}

/// One row of the match table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The tests that a packet must pass.
    pub matcher: Match,
    /// The lane of packets that pass.
    pub lane: LaneId,
}

/// The class of packets that no other class takes. Every policy has it.
pub(crate) const DEFAULT: &str = "default";

/// A compiled policy. It does not depend on where it will run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledPolicy {
    /// The link's rate, if the policy states one.
    pub link: Option<BitsPerSec>,
    /// The engine's program.
    pub program: Program,
    /// The classes; `ClassId` indexes them. After a change some may be vacant.
    pub classes: Vec<ClassInfo>,
    /// The match table: the first matching row decides. The last row matches everything.
    pub rules: Vec<Rule>,
    /// The cgroups that rules name, as written, relative to the root of the cgroup2 hierarchy. Bit i of
    /// [`PacketMeta::cgroups`] is set for cgroup i. At most 64.
    pub cgroups: Vec<String>,
}

impl CompiledPolicy {
    /// The class `default`, for packets that no other class takes.
    pub fn default_class(&self) -> ClassId {
        let at = self.classes.iter().rposition(|class| class.name == DEFAULT);
        ClassId::from_index(at.unwrap_or_default())
    }

    /// The least latency that a class asks for.
    pub fn least_latency(&self) -> Option<Nanos> {
        self.classes.iter().filter_map(|class| class.latency).min()
    }

    /// The lane of a packet, from the first matching row.
    pub fn classify(&self, meta: &PacketMeta) -> LaneId {
        self.rules.iter().find(|rule| rule.matcher.matches(meta)).map_or(LaneId(0), |rule| rule.lane)
    }

    /// Whether the policy has a class `infrastructure` of its own. If not, the caller that runs the policy adds one.
    pub fn names_infrastructure(&self) -> bool {
        self.classes.iter().any(|class| class.name == INFRASTRUCTURE)
    }

    /// Asserts what the engine relies on: every id is in range, every leaf and every node occurs once in the tree, every
    /// node has at least two children, no rate is zero, and the last rule matches everything.
    pub fn check_invariants(&self) {
        let program = &self.program;
        let (mut nodes, mut leaves) = (vec![0; program.nodes.len()], vec![0; program.leaves.len()]);
        let children = program.nodes.iter().flat_map(|node| &node.children);
        for child in children.chain([&program.root]) {
            match child {
                Child::Node(id) => nodes[id.index()] += 1,
                Child::Leaf(id) => leaves[id.index()] += 1,
            }
        }
        let in_tree = |vacant: bool, parents: i32| parents == i32::from(!vacant);
        let nodes = program.nodes.iter().zip(nodes).all(|(node, n)| in_tree(node.is_vacant(), n));
        let leaves = program.leaves.iter().zip(leaves).all(|(leaf, n)| in_tree(leaf.is_vacant(), n));
        assert!(nodes && leaves, "a tree: {program:?}");
        for node in program.nodes.iter().filter(|node| !node.is_vacant()) {
            assert!(node.children.len() > 1, "{node:?}");
            if let Discipline::Wfq(weights) = &node.discipline {
                assert_eq!(weights.len(), node.children.len(), "{node:?}");
            }
        }
        assert!(program.limits.iter().all(|limit| limit.rate.get() > 0));
        for lane in program.lanes.iter().filter(|lane| !lane.is_vacant()) {
            assert!(
                lane.class.index() < self.classes.len() && lane.leaf.index() < program.leaves.len(),
                "{lane:?}"
            );
            assert!(lane.limits.iter().all(|limit| limit.index() < program.limits.len()), "{lane:?}");
            let mut once = lane.limits.clone();
            once.sort();
            once.dedup();
            assert_eq!(once.len(), lane.limits.len(), "each limit at most once: {lane:?}");
        }
        let leads = |lane: LaneId| program.lanes.get(lane.index()).is_some_and(|lane| !lane.is_vacant());
        assert!(self.rules.iter().all(|rule| leads(rule.lane)));
        assert!(self.rules.last().is_some_and(|rule| rule.matcher == Match::default()));
        assert!(self.cgroups.len() <= 64 && self.classes[self.default_class().index()].name == DEFAULT);
    }
}
