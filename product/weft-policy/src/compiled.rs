//! The compiler's output: the engine's program, and the two tables that assign packets to its lanes.
//!
//! The classification table gives the class of a packet, and the destination table the lane within the class. A product of the
//! two would have a row for each class and destination.

use crate::region::{Region, Regions};
use std::collections::BTreeSet;
use weft_packet::{Attribute, Match, Prefix};
use weft_sched::Program;
use weft_sched::program::{Child, Discipline};
use weft_units::{BitsPerSec, ClassId, LaneId, Nanos, PacketMeta};

/// The class of ARP, neighbour discovery, DHCP and similar traffic. A network fails without it, so it is served above the
/// policy's tree, unless the policy has a class of this name.
pub const INFRASTRUCTURE: &str = "infrastructure";

/// The share of the host's infrastructure on a link of `rate`: a hundredth, at least 1 Mb/s, but no more than a tenth.
pub fn infrastructure_rate(rate: BitsPerSec) -> BitsPerSec {
    const LEAST: u64 = 1_000_000;
    BitsPerSec((rate.get() / 100).max(LEAST.min(rate.get() / 10)).max(1))
}

/// A traffic class of the policy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassInfo {
    /// Its name in the policy (`T1`, `vm1.kvs`).
    pub name: String,
    /// The most link time that a chunk of another class may take, if the policy requires less than the port's own bound.
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

/// One row of the classification table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rule {
    /// The tests that a packet must pass.
    pub matcher: Match,
    /// The class of packets that pass.
    pub class: ClassId,
}

/// A row of the destination table of a class. The first row that holds for a packet gives its lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Destination {
    /// The destination; `None` for all packets to which no other row of the class applies, also those without one.
    pub to: Option<Prefix>,
    /// The number of the port, from 1, if the row holds for packets of that port alone.
    pub port: Option<u16>,
    /// The lane of these packets.
    pub lane: LaneId,
}

impl Destination {
    fn region(&self) -> Region {
        Region { to: self.to, port: self.port }
    }
}

/// The class of packets that no other class takes. Every policy has it.
pub(crate) const DEFAULT: &str = "default";

/// A steering clause. It concerns the NIC's receive queues, and nothing that sends packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SteerClause {
    /// Its text, in the standard form and without `steer`.
    pub text: String,
    /// The classes that it distinguishes from others.
    pub classes: Vec<String>,
}

/// A compiled policy. It does not depend on where it will run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompiledPolicy {
    /// The link's rate, if the policy states one.
    pub link: Option<BitsPerSec>,
    /// The engine's program.
    pub program: Program,
    /// The classes; `ClassId` indexes them. After a change some may be vacant.
    pub classes: Vec<ClassInfo>,
    /// The classification table: the first matching row decides. The last row matches everything.
    pub rules: Vec<Rule>,
    /// The destination table of each class: the longest matching prefix decides, and it is also the first that matches. The last
    /// row of a class is that of all other packets.
    pub destinations: Vec<Vec<Destination>>,
    /// The cgroups that rules name, as written, relative to the root of the cgroup2 hierarchy. Bit i of
    /// [`PacketMeta::cgroups`] is set for cgroup i. At most 64.
    pub cgroups: Vec<String>,
    /// The ports that rules name. [`PacketMeta::port`] is the number of a port in this list, from 1.
    pub ports: Vec<String>,
    /// The steering clauses, which are added up.
    pub steering: Vec<SteerClause>,
}

impl CompiledPolicy {
    /// The class `default`, for packets that no other class takes.
    pub fn default_class(&self) -> ClassId {
        let at = self.classes.iter().rposition(|class| class.name == DEFAULT);
        ClassId::from_index(at.unwrap_or_default())
    }

    /// The least latency that a class requires.
    pub fn least_latency(&self) -> Option<Nanos> {
        self.classes.iter().filter_map(|class| class.latency).min()
    }

    /// Whether a row tests `attribute`.
    pub fn tests(&self, attribute: Attribute) -> bool {
        self.rules.iter().any(|rule| rule.matcher.attributes.get(attribute).is_some())
    }

    /// The lane of a packet by both tables.
    pub fn classify(&self, meta: &PacketMeta) -> LaneId {
        self.lane_of(self.class_of(meta), meta)
    }

    /// The class of a packet, from the first matching row.
    pub fn class_of(&self, meta: &PacketMeta) -> ClassId {
        self.rules.iter().find(|rule| rule.matcher.matches(meta)).map_or(ClassId(0), |rule| rule.class)
    }

    /// The lane of a packet of `class`, by its destination and its port.
    pub fn lane_of(&self, class: ClassId, meta: &PacketMeta) -> LaneId {
        self.destination_of(class, meta).map_or(LaneId(0), |row| row.lane)
    }

    /// The row of the destination table of `class` that decides for a packet.
    pub(crate) fn destination_of(&self, class: ClassId, meta: &PacketMeta) -> Option<Destination> {
        let holds = |row: &&Destination| {
            row.port.is_none_or(|port| port == meta.port)
                && row.to.is_none_or(|to| meta.key.is_some_and(|key| to.contains(key.dst)))
        };
        self.destinations.get(class.index())?.iter().find(holds).copied()
    }

    /// The rows of `class` that packets at port number `port` can reach. Among them the longest prefix is the first.
    pub fn destinations_at(&self, class: ClassId, port: u16) -> Vec<Destination> {
        let rows = self.destinations.get(class.index()).map(Vec::as_slice).unwrap_or_default();
        let mut seen = Regions::default();
        let here = rows.iter().filter(|row| row.port.is_none_or(|of| of == port));
        here.filter(|row| {
            let of = Region { to: row.to, port: None };
            let reached = !seen.cover(&of);
            seen.add(of);
            reached
        })
        .copied()
        .collect()
    }

    /// The numbers of the ports that have separate rows in `class`, in order.
    pub fn ports_of(&self, class: ClassId) -> BTreeSet<u16> {
        let rows = self.destinations.get(class.index()).map(Vec::as_slice).unwrap_or_default();
        rows.iter().filter_map(|row| row.port).collect()
    }

    /// Whether packets at port number `port` can reach each lane.
    pub fn lanes_at(&self, port: u16) -> Vec<bool> {
        let lanes = &self.program.lanes;
        let mut reached: Vec<bool> = lanes.iter().map(|lane| !lane.is_vacant()).collect();
        for class in (0..self.destinations.len()).map(ClassId::from_index) {
            if self.ports_of(class).is_empty() {
                continue;
            }
            for (lane, reached) in lanes.iter().zip(&mut reached).filter(|(lane, _)| lane.class == class) {
                *reached &= lane.is_vacant();
            }
            for row in self.destinations_at(class, port) {
                if let Some(reached) = reached.get_mut(row.lane.index()) {
                    *reached = true;
                }
            }
        }
        reached
    }

    /// The number of the port `name`, from 1, in the metadata of packets; 0 if no rule names it.
    pub fn port_number(&self, name: &str) -> u16 {
        self.ports.iter().position(|known| known == name).map_or(0, |index| index as u16 + 1)
    }

    /// Whether the policy defines a class `infrastructure`. If not, the caller that runs the policy adds one.
    pub fn names_infrastructure(&self) -> bool {
        self.classes.iter().any(|class| class.name == INFRASTRUCTURE)
    }

    /// Asserts what the engine relies on: every id is in range, every leaf and every node occurs once in the tree, every
    /// node has at least two children, or one below an algorithm, no rate is zero, the last rule matches everything, and every class has separate lanes for
    /// all destinations.
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
            // An algorithm stays where it orders nothing: its state has a place, and a child may be added to it.
            let least = if matches!(node.discipline, Discipline::Custom(_)) { 1 } else { 2 };
            assert!(node.children.len() >= least, "{node:?}");
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
        assert!(self.rules.iter().all(|rule| rule.class.index() < self.classes.len()));
        assert!(
            self.rules
                .iter()
                .all(|rule| usize::from(rule.matcher.port.unwrap_or(1)) <= self.ports.len().max(1))
        );
        assert_eq!(self.destinations.len(), self.classes.len());
        for (class, rows) in self.destinations.iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
            let lane = |row: &Destination| program.lanes.get(row.lane.index()).map(|lane| lane.class.index());
            assert!(rows.iter().all(|row| lane(row) == Some(class)), "{rows:?}");
            let all = |row: &Destination| row.region() == Region::default();
            assert_eq!(rows.iter().position(all), Some(rows.len() - 1), "{rows:?}");
            assert!(rows.iter().all(|row| usize::from(row.port.unwrap_or(1)) <= self.ports.len().max(1)));
        }
        assert!(self.rules.last().is_some_and(|rule| rule.matcher == Match::default()));
        assert!(self.cgroups.len() <= 64 && self.classes[self.default_class().index()].name == DEFAULT);
    }
}
