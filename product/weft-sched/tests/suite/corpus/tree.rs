//! Programs of the corpus, written as trees.

use std::sync::Arc;

use weft_rank::{Algorithm, Kind};
use weft_sched::{
    Child, Custom, Discipline, HeadUse, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, Program,
};
use weft_units::{BitsPerSec, Bytes, ClassId, LeafId, LimitId, NodeId, Packets, Weight};

/// A rate limit: bits per second, and a burst in bytes.
pub(crate) type Limit = (u64, u64);

/// A subtree.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "a handful of them, in tests")]
pub(crate) enum Tree {
    /// A class whose packets leave in the order of arrival.
    Class(&'static str),
    /// A class whose flows an algorithm orders, with its parameters and its dropper.
    Flows(&'static str, Algorithm, Vec<u64>, Option<(Algorithm, Vec<u64>)>),
    /// A class whose flows share it fairly.
    Fair(&'static str),
    Priority(Vec<Tree>),
    Wfq(Vec<(Tree, u32)>),
    /// An algorithm with the parameters of each child.
    Node(Algorithm, HeadUse, Vec<(Tree, Vec<u64>)>),
    /// A limit on all classes below.
    Limited(Limit, Box<Tree>),
}

/// A program with the names of its classes, which are its lanes.
#[derive(Clone)]
pub(crate) struct Built {
    pub(crate) program: Program,
    pub(crate) classes: Vec<&'static str>,
}

impl Tree {
    pub(crate) fn build(&self) -> Built {
        let program = Program {
            root: Child::Leaf(LeafId(0)),
            nodes: Vec::new(),
            leaves: Vec::new(),
            limits: Vec::new(),
            lanes: Vec::new(),
        };
        let mut built = Built { program, classes: Vec::new() };
        built.program.root = built.add(self, &[]);
        built
    }
}

impl Built {
    pub(crate) fn lane(&self, class: &str) -> usize {
        self.classes.iter().position(|known| *known == class).expect("a class of the policy")
    }

    /// Adds a limit shared by the classes.
    pub(crate) fn limit(&mut self, (rate, burst): Limit, classes: &[&str]) {
        let id = LimitId::from_index(self.program.limits.len());
        let (name, rate) = (format!("limit{}", id.0), BitsPerSec(rate));
        self.program.limits.push(LimitSpec { name, rate, burst: Bytes(burst) });
        for class in classes {
            let lane = self.lane(class);
            self.program.lanes[lane].limits.push(id);
        }
    }

    fn add(&mut self, tree: &Tree, limits: &[LimitId]) -> Child {
        let one = |algorithm: &Algorithm, parameters: &Vec<u64>| {
            Custom::new(Arc::new(algorithm.clone()), vec![parameters.clone()])
        };
        match tree {
            Tree::Class(name) => self.leaf(name, LeafDiscipline::Fifo, limits),
            Tree::Fair(name) => self.leaf(name, LeafDiscipline::Fair, limits),
            Tree::Flows(name, algorithm, parameters, dropper) => {
                let mut custom = one(algorithm, parameters);
                custom.dropper = dropper.as_ref().map(|(dropper, parameters)| {
                    assert_eq!(dropper.kind, Kind::Dropper);
                    Arc::new(one(dropper, parameters))
                });
                self.leaf(name, LeafDiscipline::Custom(Arc::new(custom)), limits)
            }
            Tree::Priority(children) => {
                let children = children.iter().map(|child| self.add(child, limits)).collect();
                self.node(Discipline::Priority, children)
            }
            Tree::Wfq(children) => {
                let weights =
                    children.iter().map(|(_, weight)| Weight::new(*weight).expect("a weight")).collect();
                let children = children.iter().map(|(child, _)| self.add(child, limits)).collect();
                self.node(Discipline::Wfq(weights), children)
            }
            Tree::Node(algorithm, head, children) => {
                let parameters = children.iter().map(|(_, parameters)| parameters.clone()).collect();
                let mut custom = Custom::new(Arc::new(algorithm.clone()), parameters);
                custom.head = *head;
                let children = children.iter().map(|(child, _)| self.add(child, limits)).collect();
                self.node(Discipline::Custom(Arc::new(custom)), children)
            }
            Tree::Limited((rate, burst), child) => {
                let id = LimitId::from_index(self.program.limits.len());
                let (name, rate) = (format!("limit{}", id.0), BitsPerSec(*rate));
                self.program.limits.push(LimitSpec { name, rate, burst: Bytes(*burst) });
                self.add(child, &[limits, &[id]].concat())
            }
        }
    }

    fn leaf(&mut self, name: &'static str, discipline: LeafDiscipline, limits: &[LimitId]) -> Child {
        let leaf = LeafId::from_index(self.program.leaves.len());
        self.program.leaves.push(LeafSpec { name: name.to_owned(), discipline });
        let class = ClassId::from_index(self.classes.len());
        self.program.lanes.push(LaneSpec {
            class,
            leaf,
            limits: limits.to_vec(),
            packet_bound: Packets::MAX,
        });
        self.classes.push(name);
        Child::Leaf(leaf)
    }

    fn node(&mut self, discipline: Discipline, children: Vec<Child>) -> Child {
        let name = format!("node{}", self.program.nodes.len());
        self.program.nodes.push(NodeSpec { name, discipline, children });
        Child::Node(NodeId::from_index(self.program.nodes.len() - 1))
    }
}
