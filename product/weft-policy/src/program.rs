//! The last pass: from the checked graph and the rows of the classes to the engine's program and the match table.
//!
//! The graph schedules and shapes. The engine does both in different places: scheduling in a tree, shaping in the
//! limits of a lane. Loom shows that they separate: "the policy graph forms a tree if all shaping nodes are removed"
//! (section 4). The steps of [`compile`]:
//!
//! 1. The tree. From the root down, a scheduling node becomes a node, and a class, a FIFO over classes, or a `fair` becomes a leaf.
//!    Shaping nodes, FIFOs that only join limits, and nodes with one child are skipped, since they order nothing.
//! 2. The limits. The limits of every reachable shaping node are numbered in the order of the file.
//! 3. The paths. For each class, `Walk` goes up to the root and collects the limits on the way. Where limits are side by
//!    side, the path splits by port and destination, longest prefix first; packets without a limit continue at the node where the
//!    paths join.
//! 4. The lanes. A lane is a class with one list of limits. Two paths of a class with equal lists share one lane.
//! 5. The tables. The rows of the classes become the classification table, and the paths of a class its destination table.
//!
//! The pass owns no state beyond one call. Its input has passed every check of `validate`: it has a root, no cycle, and
//! exactly one join for each set of limits. These rules hold for its output:
//!
//! - Every class has a leaf, and a packet of any destination has exactly one lane within its class.
//! - Limits do not change the tree: all lanes of a class have the same leaf.
//! - Ids are dense. There are at most [`ROWS_MAX`] rules, and as many destinations of all classes together.
//!
//! The one rare branch is [`TooManyRows`], which becomes the diagnostic `E0402`.

pub(crate) mod placed;

use self::placed::{Placed, placed};
use crate::algorithm::uses::Use;
use crate::budget::{Budget, Steps};
use crate::compiled::{ClassInfo, CompiledPolicy, Destination, Rule};
use crate::disciplines::Children::{Ordered, Weighted};
use crate::disciplines::Native;
use crate::lowering::model::{Branch, Policy, default_burst};
use crate::region::{Region, Regions};
use crate::steering;
use crate::validate::build::DEFAULT;
use crate::validate::graph::{Edge, Graph, Kind, Node};
use crate::validate::rows::ClassRow;
use crate::validate::shape::Shape;
use crate::validate::terms::ROWS_MAX;
use std::collections::BTreeMap;
use std::rc::Rc;
use weft_sched::program::{
    Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, Program,
};
use weft_units::{ClassId, LaneId, LeafId, LimitId, NodeId, Packets, Weight};

/// The most packets of a class that may wait, in a policy without bounds.
pub const BOUND_DEFAULT: Packets = Packets(10_000);

/// Places `default` at the bottom of the tree, unless the policy has placed it: below the limits at the beginning of the root, as the
/// last child of a `priority`, as a child of weight 1 of a `wfq`, and under anything else with a separate strict priority.
pub(crate) fn place_default(graph: &mut Graph, uses: &[Use]) {
    let Some(root) = graph.root else { return };
    let limit = last_limit(graph, uses, root);
    let top = limit.and_then(|at| graph.nodes[at].children.first()).map_or(root, |edge| edge.to);
    let default = graph.classes;
    let span = graph.nodes[top].span;
    let edge = Edge { to: default, span, weight: None };
    match graph.nodes[top].kind {
        Kind::Native(of) if of.has(Ordered) => graph.nodes[top].children.push(edge),
        Kind::Native(of) if of.has(Weighted) => {
            graph.nodes[top].children.push(Edge { weight: Some(Weight::ONE), ..edge });
        }
        _ => {
            let name = format!("{}+{DEFAULT}", graph.nodes[root].name);
            let children = vec![Edge { to: top, span, weight: None }, edge];
            graph.nodes.push(Node {
                name,
                span,
                kind: Kind::Native(Native::Priority),
                children,
                named: false,
            });
            let new = graph.nodes.len() - 1;
            match limit.and_then(|at| graph.nodes[at].children.first_mut()) {
                Some(edge) => edge.to = new,
                None => graph.root = Some(new),
            }
        }
    }
}

/// The last limit at the beginning of a node: on the way down from it, through names, as long as everything is limited together.
fn last_limit(graph: &Graph, uses: &[Use], from: usize) -> Option<usize> {
    let (mut last, mut at) = (None, from);
    // The graph has no cycle.
    loop {
        let node = &graph.nodes[at];
        match &node.kind {
            Kind::Limit(branches) if limits_all(branches) => last = Some(at),
            Kind::Algorithm(number) if uses.get(*number).is_some_and(Use::shapes_all) => last = Some(at),
            Kind::Native(Native::Fifo) if node.children.len() == 1 => {}
            _ => return last,
        }
        at = node.children.first()?.to;
    }
}

/// Whether a limit is one for all packets below it, and not one for some destinations or ports.
pub(crate) fn limits_all(branches: &[Branch]) -> bool {
    matches!(branches, [one] if one.of == Region::default())
}

/// The node of the limits of ports that are not part of the text. No name of a policy is a word of the language.
const PORT_LIMITS: &str = "port";

/// Puts `branches`, limits of ports, between the link and the root.
pub(crate) fn limit_root(graph: &mut Graph, branches: Vec<Branch>) {
    let Some(root) = graph.root else { return };
    let span = graph.nodes[root].span;
    let children = vec![Edge { to: root, span, weight: None }];
    let name = PORT_LIMITS.to_owned();
    graph.nodes.push(Node { name, span, kind: Kind::Limit(branches), children, named: false });
    graph.root = Some(graph.nodes.len() - 1);
}

/// A class that gives its owner more destinations than it may have, or uses up its steps.
pub(crate) struct TooManyRows {
    pub(crate) class: usize,
}

/// A path of a class: the limits that its packets of a region pass.
struct Path {
    of: Region,
    limits: Vec<LimitId>,
}

/// Makes the program and the tables of a policy that has passed all checks.
pub(crate) fn compile(
    policy: &Policy,
    graph: &Graph,
    shape: &Shape,
    rows: &[ClassRow],
    budget: &Budget,
) -> Result<CompiledPolicy, Vec<TooManyRows>> {
    let mut tree = Tree::new(graph, &policy.uses);
    let root = tree.child(graph.root.unwrap_or(graph.classes));
    let (limits, limit_ids) = limits(graph, shape);
    let mut lanes = Lanes {
        leaf_of_class: &tree.leaf_of_class,
        bounds: bounds(policy, graph),
        lanes: Vec::new(),
        known: BTreeMap::new(),
    };
    let mut walk = Walk::new(graph, shape, &limit_ids, budget);
    let mut tables = Vec::with_capacity(graph.classes + 1);
    for class in 0..=graph.classes {
        let Some(paths) = walk.paths(class) else { continue };
        let ids: Vec<LaneId> = paths.iter().map(|path| lanes.lane(class, &path.limits)).collect();
        tables.push(destinations(&paths, &ids));
    }
    if !walk.refused.is_empty() {
        return Err(walk.refused.into_values().map(|class| TooManyRows { class }).collect());
    }
    let lanes = lanes.lanes;
    let rules = rows
        .iter()
        .map(|ClassRow { row, class, .. }| Rule { matcher: row.clone(), class: ClassId::from_index(*class) })
        .collect();
    let classes = graph.nodes[..=graph.classes].iter().map(|node| class_info(policy, &node.name)).collect();
    Ok(CompiledPolicy {
        link: policy.link.as_ref().map(|link| link.value),
        program: Program { root, nodes: tree.nodes, leaves: tree.leaves, limits, lanes },
        classes,
        rules,
        destinations: tables,
        cgroups: policy.cgroups.clone(),
        ports: policy.ports.clone(),
        steering: steering::clauses(policy, graph),
    })
}

/// The number of paths up from each of these nodes.
pub(crate) fn paths_above(graph: &Graph, shape: &Shape, nodes: &[Option<usize>]) -> Vec<usize> {
    let (_, limit_ids) = limits(graph, shape);
    let budget = Budget::new(Steps::WHOLE);
    let mut walk = Walk::new(graph, shape, &limit_ids, &budget);
    let mut count = |node: usize| {
        walk.up(node, Region::default(), &mut Vec::new());
        core::mem::take(&mut walk.found).len()
    };
    nodes.iter().map(|node| node.map_or(0, &mut count)).collect()
}

/// The engine's tree under construction.
struct Tree<'a> {
    graph: &'a Graph,
    uses: &'a [Use],
    nodes: Vec<NodeSpec>,
    leaves: Vec<LeafSpec>,
    /// The leaf of each class, `default` last.
    leaf_of_class: Vec<LeafId>,
}

impl<'a> Tree<'a> {
    fn new(graph: &'a Graph, uses: &'a [Use]) -> Self {
        let leaf_of_class = vec![LeafId::default(); graph.classes + 1];
        Self { graph, uses, nodes: Vec::new(), leaves: Vec::new(), leaf_of_class }
    }

    /// The part of the tree that takes the place of graph node `at`. Skips shaping nodes, FIFOs that only join limits,
    /// and inner nodes with one child.
    fn child(&mut self, at: usize) -> Child {
        let node = &self.graph.nodes[at];
        match &node.kind {
            Kind::Class(_) => self.leaf(at, LeafDiscipline::Fifo, &[at]),
            Kind::Fair => self.leaf(at, LeafDiscipline::Fair, &self.graph.content(at)),
            Kind::Native(native) => match (native.row().engine, &self.graph.content(at)[..]) {
                (Some(engine), _) => {
                    let weights = node.children.iter().map(|edge| edge.weight.unwrap_or(Weight::ONE));
                    self.inner(at, engine(weights.collect()))
                }
                (None, [one]) => self.child(*one),
                (None, classes) => self.leaf(at, LeafDiscipline::Fifo, classes),
            },
            Kind::Algorithm(number) => {
                match self.uses.get(*number).and_then(|used| placed(self.graph, at, used, self.uses)) {
                    Some(Placed::Node(custom)) => self.node(at, Discipline::Custom(custom)),
                    Some(Placed::Leaf(custom)) => {
                        self.leaf(at, LeafDiscipline::Custom(custom), &self.graph.content(at))
                    }
                    // A policy with a broken algorithm is not compiled.
                    None => self.inner(at, Discipline::Priority),
                }
            }
            // A limit has one child, and a policy with a broken node is not compiled.
            Kind::Limit(_) | Kind::Broken => self.inner(at, Discipline::Priority),
        }
    }

    /// A node that orders nothing with one child, which takes its place.
    fn inner(&mut self, at: usize, discipline: Discipline) -> Child {
        match self.graph.nodes[at].children[..] {
            [only] => self.child(only.to),
            _ => self.node(at, discipline),
        }
    }

    fn node(&mut self, at: usize, discipline: Discipline) -> Child {
        let node = &self.graph.nodes[at];
        let id = NodeId::from_index(self.nodes.len());
        self.nodes.push(NodeSpec { name: node.name.clone(), discipline, children: Vec::new() });
        let children = node.children.iter().map(|edge| self.child(edge.to)).collect();
        self.nodes[id.index()].children = children;
        Child::Node(id)
    }

    fn leaf(&mut self, at: usize, discipline: LeafDiscipline, classes: &[usize]) -> Child {
        let id = LeafId::from_index(self.leaves.len());
        let name = match classes {
            [one] if !self.graph.nodes[at].named => &self.graph.nodes[*one].name,
            _ => &self.graph.nodes[at].name,
        };
        self.leaves.push(LeafSpec { name: name.clone(), discipline });
        for class in classes {
            if let Some(leaf) = self.leaf_of_class.get_mut(*class) {
                *leaf = id;
            }
        }
        Child::Leaf(id)
    }
}

/// The limits of the reachable shaping nodes in the order of the file, and the id of each node's first limit.
fn limits(graph: &Graph, shape: &Shape) -> (Vec<LimitSpec>, BTreeMap<usize, LimitId>) {
    let mut specs = Vec::new();
    let mut ids = BTreeMap::new();
    let reached = graph.nodes.iter().enumerate().filter(|(at, _)| shape.reaches(graph, *at));
    for (at, node) in reached {
        let Kind::Limit(branches) = &node.kind else { continue };
        ids.insert(at, LimitId::from_index(specs.len()));
        specs.extend(branches.iter().map(|branch| LimitSpec {
            name: limit_name(&node.name, branch),
            rate: branch.rate,
            burst: branch.burst.unwrap_or_else(|| default_burst(branch.rate)),
        }));
    }
    (specs, ids)
}

/// The name of a limit: its node's name, with the destination or the port if the node limits by them.
pub(crate) fn limit_name(node: &str, branch: &Branch) -> String {
    match &branch.label {
        Some(label) => format!("{node}[{label}]"),
        None => node.to_owned(),
    }
}

/// A limit above a node: the parent, the limit, and the packets that it applies to.
type LimitAbove = (usize, LimitId, Region);

/// A walk from each class up to the root, which collects its paths.
struct Walk<'a> {
    graph: &'a Graph,
    shape: &'a Shape,
    limit_ids: &'a BTreeMap<usize, LimitId>,
    /// The limits above a node, once it was visited.
    above: BTreeMap<usize, Rc<[LimitAbove]>>,
    /// Counts the limits examined, including those whose destinations are disjoint from the path's.
    budget: &'a Budget,
    /// The number of paths of the classes before, for each one who pays for them.
    before: Vec<usize>,
    /// The first class that gives a tenant or the operator too many.
    refused: BTreeMap<usize, usize>,
    payer: usize,
    found: Vec<Path>,
}

impl<'a> Walk<'a> {
    fn new(
        graph: &'a Graph,
        shape: &'a Shape,
        limit_ids: &'a BTreeMap<usize, LimitId>,
        budget: &'a Budget,
    ) -> Self {
        let (above, refused, before) = (BTreeMap::new(), BTreeMap::new(), vec![0; budget.payers()]);
        Self { graph, shape, limit_ids, above, budget, before, refused, payer: 0, found: Vec::new() }
    }

    /// The paths of a class; `None` if the one who pays for them has too many. Others are looked at then, too.
    fn paths(&mut self, class: usize) -> Option<Vec<Path>> {
        self.payer = self.budget.charge_tree(class);
        if self.refused.contains_key(&self.payer) {
            return None;
        }
        let fits = self.up(class, Region::default(), &mut Vec::new());
        self.before[self.payer] += self.found.len();
        let found = core::mem::take(&mut self.found);
        if !fits {
            self.refused.insert(self.payer, class);
        }
        fits.then_some(found)
    }

    /// Adds the paths of packets at node `at` to `region`, in match order: the first match decides, and the last path
    /// holds for the whole region. Returns `false` if there are too many.
    fn up(&mut self, at: usize, region: Region, passed: &mut Vec<LimitId>) -> bool {
        let parents = &self.shape.parents[at];
        let Some(first) = parents.first().copied() else {
            self.found.push(Path { of: region, limits: passed.clone() });
            // A tenant's are compared with its quota when they are all known.
            return self.before[self.payer] + self.found.len() <= ROWS_MAX;
        };
        let branches = self.branches(at);
        if self.budget.spend(branches.len()).is_err() {
            return false;
        }
        for (parent, limit, of) in branches.iter().copied() {
            let Some(inner) = region.meet(&of) else { continue };
            let all = inner == region;
            passed.push(limit);
            let fits = self.up(parent, inner, passed);
            passed.pop();
            if !fits {
                return false;
            }
            if all {
                return true;
            }
        }
        // Packets that no limit takes continue where the paths of the limits join, or past the only limit.
        let next = if parents.len() > 1 { self.shape.join(at) } else { first };
        self.up(next, region, passed)
    }

    /// The limits directly above a node: those of ports first, then those of destinations, longest prefix first.
    fn branches(&mut self, at: usize) -> Rc<[LimitAbove]> {
        if let Some(known) = self.above.get(&at) {
            return Rc::clone(known);
        }
        let mut all = Vec::new();
        for parent in &self.shape.parents[at] {
            let Kind::Limit(branches) = &self.graph.nodes[*parent].kind else { continue };
            let Some(first) = self.limit_ids.get(parent) else { continue };
            all.extend(
                branches
                    .iter()
                    .enumerate()
                    .map(|(i, b)| (*parent, LimitId::from_index(first.index() + i), b.of)),
            );
        }
        all.sort_by_key(|(_, _, of)| (of.port.is_none(), core::cmp::Reverse(of.to.map(|prefix| prefix.len))));
        let all: Rc<[LimitAbove]> = all.into();
        self.above.insert(at, Rc::clone(&all));
        all
    }
}

fn class_info(policy: &Policy, name: &str) -> ClassInfo {
    let latency = policy.class_latencies.iter().find(|(class, _)| class.value == name);
    ClassInfo { name: name.to_owned(), latency: latency.map(|(_, time)| *time) }
}

/// The most packets of each class that may wait, `default` last.
fn bounds(policy: &Policy, graph: &Graph) -> Vec<Packets> {
    let common = policy.bound.as_ref().map_or(BOUND_DEFAULT, |bound| bound.value);
    let mut bounds = vec![common; graph.classes + 1];
    for (class, bound) in &policy.class_bounds {
        let number = graph.names.get(&class.value).and_then(|at| graph.class_of(*at));
        if let Some(slot) = number.and_then(|number| bounds.get_mut(number)) {
            *slot = *bound;
        }
    }
    bounds
}

/// The lanes under construction.
struct Lanes<'a> {
    leaf_of_class: &'a [LeafId],
    bounds: Vec<Packets>,
    lanes: Vec<LaneSpec>,
    known: BTreeMap<(usize, Vec<LimitId>), LaneId>,
}

impl Lanes<'_> {
    /// The lane of `class` for packets that pass `limits`; reuses an equal lane of the class.
    fn lane(&mut self, class: usize, limits: &[LimitId]) -> LaneId {
        let key = (class, limits.to_vec());
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let id = LaneId::from_index(self.lanes.len());
        self.known.insert(key, id);
        self.lanes.push(LaneSpec {
            class: ClassId::from_index(class),
            leaf: self.leaf_of_class[class],
            limits: limits.to_vec(),
            packet_bound: self.bounds[class],
        });
        id
    }
}

/// The rows of a class's destination table. A path whose packets an earlier one covers is left out, since no packet reaches
/// it; among those that are left, the first match is the longest.
fn destinations(paths: &[Path], lanes: &[LaneId]) -> Vec<Destination> {
    let mut seen = Regions::default();
    let mut rows = Vec::with_capacity(paths.len());
    for (path, lane) in paths.iter().zip(lanes) {
        if seen.cover(&path.of) {
            continue;
        }
        let Region { to, port } = path.of;
        rows.push(Destination { to, port, lane: *lane });
        seen.add(path.of);
    }
    rows
}
