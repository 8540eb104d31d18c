//! From the checked graph to the engine's program: shaping nodes leave the tree and become limits of lanes (Loom,
//! section 4: "the policy graph forms a tree if all shaping nodes are removed").

use crate::compiled::{ClassInfo, CompiledPolicy, Rule};
use crate::lowering::model::{Branch, Policy, default_burst};
use crate::validate::build::DEFAULT;
use crate::validate::graph::{Edge, Graph, Kind, Node};
use crate::validate::rows::{ClassRow, ROWS_MAX};
use crate::validate::shape::Shape;
use std::collections::BTreeMap;
use weft_packet::{Match, Prefix};
use weft_sched::program::{
    Child, Discipline, LaneSpec, LeafDiscipline, LeafSpec, LimitSpec, NodeSpec, Program,
};
use weft_text::Span;
use weft_units::{ClassId, LaneId, LeafId, LimitId, NodeId, Packets, Weight};

/// How many packets of a class may wait where the policy does not say.
pub const BOUND_DEFAULT: Packets = Packets(10_000);

/// Gives `default` a place at the bottom of the tree, unless the policy has placed it: last under a `priority` root, with
/// weight 1 under a `wfq` root, otherwise after the whole root under a strict priority of its own.
pub(crate) fn place_default(graph: &mut Graph) {
    let Some(root) = graph.root else { return };
    let default = graph.classes;
    let span = graph.nodes[root].span;
    let edge = Edge { to: default, span, weight: None };
    match graph.nodes[root].kind {
        Kind::Priority => graph.nodes[root].children.push(edge),
        Kind::Wfq => graph.nodes[root].children.push(Edge { weight: Some(Weight::ONE), ..edge }),
        _ => {
            let name = format!("{}+{DEFAULT}", graph.nodes[root].name);
            let children = vec![Edge { to: root, span, weight: None }, edge];
            graph.nodes.push(Node { name, span, kind: Kind::Priority, children, named: false });
            graph.root = Some(graph.nodes.len() - 1);
        }
    }
}

/// The class whose lanes need more than [`ROWS_MAX`] rows.
pub(crate) struct TooManyRows {
    pub(crate) class: Span,
}

/// Where a class's packets go that are sent to `to` (`None`: all others): the limits they pass.
struct Path {
    to: Option<Prefix>,
    limits: Vec<LimitId>,
}

/// Makes the program and the rules of a policy that passed all checks.
pub(crate) fn compile(
    policy: &Policy,
    graph: &Graph,
    shape: &Shape,
    rows: &[ClassRow],
) -> Result<CompiledPolicy, TooManyRows> {
    let mut tree = Tree::new(graph);
    let root = tree.child(graph.root.unwrap_or(graph.classes));
    let (limits, limit_ids) = limits(graph, shape);
    let mut paths = Vec::with_capacity(graph.classes + 1);
    for class in 0..=graph.classes {
        let mut found = Vec::new();
        let mut walk = Walk { graph, shape, limit_ids: &limit_ids, found: &mut found };
        if !walk.up(class, None, &mut Vec::new()) {
            return Err(TooManyRows { class: graph.nodes[class].span });
        }
        paths.push(found);
    }
    let mut lanes =
        Lanes { leaf_of_class: &tree.leaf_of_class, bounds: bounds(policy, graph), lanes: Vec::new() };
    let lane_ids: Vec<Vec<LaneId>> = paths
        .iter()
        .enumerate()
        .map(|(class, paths)| paths.iter().map(|path| lanes.lane(class, &path.limits)).collect())
        .collect();
    let lanes = lanes.lanes;
    let rules = rules(graph, rows, &paths, &lane_ids)?;
    let classes =
        graph.nodes[..=graph.classes].iter().map(|node| ClassInfo { name: node.name.clone() }).collect();
    Ok(CompiledPolicy {
        link: policy.link.as_ref().map(|link| link.value),
        program: Program { root, nodes: tree.nodes, leaves: tree.leaves, limits, lanes },
        classes,
        rules,
        cgroups: policy.cgroups.clone(),
    })
}

/// The tree under construction.
struct Tree<'a> {
    graph: &'a Graph,
    nodes: Vec<NodeSpec>,
    leaves: Vec<LeafSpec>,
    /// The leaf of each class, `default` last.
    leaf_of_class: Vec<LeafId>,
}

impl<'a> Tree<'a> {
    fn new(graph: &'a Graph) -> Self {
        let leaf_of_class = vec![LeafId::default(); graph.classes + 1];
        Self { graph, nodes: Vec::new(), leaves: Vec::new(), leaf_of_class }
    }

    /// What the tree has in the place of graph node `at`. Shaping nodes, FIFOs that only join limits, and inner nodes
    /// with one child are looked through.
    fn child(&mut self, at: usize) -> Child {
        let node = &self.graph.nodes[at];
        match &node.kind {
            Kind::Class(_) => self.leaf(at, LeafDiscipline::Fifo, &[at]),
            Kind::Fair => self.leaf(at, LeafDiscipline::Fair, &self.graph.content(at)),
            Kind::Fifo => match self.graph.content(at)[..] {
                [one] => self.child(one),
                ref classes => self.leaf(at, LeafDiscipline::Fifo, classes),
            },
            Kind::Wfq => {
                let weights = node.children.iter().map(|edge| edge.weight.unwrap_or(Weight::ONE));
                self.inner(at, Discipline::Wfq(weights.collect()))
            }
            // A limit has one child, and a policy with a broken node is not compiled.
            Kind::Priority | Kind::Limit(_) | Kind::Broken => self.inner(at, Discipline::Priority),
        }
    }

    fn inner(&mut self, at: usize, discipline: Discipline) -> Child {
        let node = &self.graph.nodes[at];
        if let [only] = node.children[..] {
            return self.child(only.to);
        }
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

/// The limits of the reachable shaping nodes in the order of the file, and the number of each node's first.
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

/// The name of a limit: its node's, with the destination where the node has several.
pub(crate) fn limit_name(node: &str, branch: &Branch) -> String {
    match branch.to {
        Some(to) if branch.by_destination => format!("{node}[{to}]"),
        _ => node.to_owned(),
    }
}

/// Finds the ways from a class to the root.
struct Walk<'a> {
    graph: &'a Graph,
    shape: &'a Shape,
    limit_ids: &'a BTreeMap<usize, LimitId>,
    found: &'a mut Vec<Path>,
}

impl Walk<'_> {
    /// Adds the paths of the packets at node `at` that are sent to `region`, in the order in which the first that matches
    /// decides; the last one holds for all of the region. `false` when there are too many.
    fn up(&mut self, at: usize, region: Option<Prefix>, passed: &mut Vec<LimitId>) -> bool {
        let parents = &self.shape.parents[at];
        let Some(first) = parents.first().copied() else {
            self.found.push(Path { to: region, limits: passed.clone() });
            return self.found.len() <= ROWS_MAX;
        };
        for (parent, limit, to) in self.branches(parents) {
            let (inner, all) = match (region, to) {
                (None, to) => (to, to.is_none()),
                (Some(region), None) => (Some(region), true),
                (Some(region), Some(to)) => match region.intersect(&to) {
                    Some(both) => (Some(both), both == region),
                    None => continue,
                },
            };
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
        // No limit holds for the rest: it goes on where the limits' paths meet, or past the only one.
        let next = if parents.len() > 1 { self.shape.join(at) } else { first };
        self.up(next, region, passed)
    }

    /// The limits directly above a node, the longest prefix first.
    fn branches(&self, parents: &[usize]) -> Vec<(usize, LimitId, Option<Prefix>)> {
        let mut all = Vec::new();
        for parent in parents {
            let Kind::Limit(branches) = &self.graph.nodes[*parent].kind else { continue };
            let Some(first) = self.limit_ids.get(parent) else { continue };
            all.extend(
                branches
                    .iter()
                    .enumerate()
                    .map(|(i, b)| (*parent, LimitId::from_index(first.index() + i), b.to)),
            );
        }
        all.sort_by_key(|(_, _, to)| core::cmp::Reverse(to.map(|prefix| prefix.len)));
        all
    }
}

/// How many packets of each class may wait, `default` last.
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

/// The lanes so far.
struct Lanes<'a> {
    leaf_of_class: &'a [LeafId],
    bounds: Vec<Packets>,
    lanes: Vec<LaneSpec>,
}

impl Lanes<'_> {
    /// The lane of `class` for packets that pass `limits`; one that is there already where possible.
    fn lane(&mut self, class: usize, limits: &[LimitId]) -> LaneId {
        let id = ClassId::from_index(class);
        let mine = self.lanes.iter().enumerate().rev().take_while(|(_, lane)| lane.class == id);
        if let Some((known, _)) = mine.into_iter().find(|(_, lane)| lane.limits == limits) {
            return LaneId::from_index(known);
        }
        self.lanes.push(LaneSpec {
            class: id,
            leaf: self.leaf_of_class[class],
            limits: limits.to_vec(),
            packet_bound: self.bounds[class],
        });
        LaneId::from_index(self.lanes.len() - 1)
    }
}

/// The rules: every row of a class, once for each destination that its lanes tell apart.
fn rules(
    graph: &Graph,
    rows: &[ClassRow],
    paths: &[Vec<Path>],
    lanes: &[Vec<LaneId>],
) -> Result<Vec<Rule>, TooManyRows> {
    let mut rules: Vec<Rule> = Vec::with_capacity(rows.len());
    for ClassRow { row, class } in rows {
        let first = rules.len();
        for (path, lane) in paths[*class].iter().zip(&lanes[*class]) {
            let Some(dst) = narrowed(row.dst, path.to) else { continue };
            let matcher = Match { dst, ..row.clone() };
            if rules[first..].iter().any(|earlier| earlier.matcher.covers(&matcher)) {
                continue;
            }
            rules.push(Rule { matcher, lane: *lane });
        }
        if rules.len() > ROWS_MAX {
            return Err(TooManyRows { class: graph.nodes[*class].span });
        }
    }
    Ok(rules)
}

/// Both destinations' common part, `None` where they have none.
fn narrowed(row: Option<Prefix>, path: Option<Prefix>) -> Option<Option<Prefix>> {
    match (row, path) {
        (Some(row), Some(path)) => row.intersect(&path).map(Some),
        (one, other) => Some(one.or(other)),
    }
}
