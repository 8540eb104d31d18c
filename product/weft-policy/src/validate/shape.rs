//! The shape of the graph as a whole: reachable nodes, their order and depth, and where paths join.

use super::graph::Graph;
use crate::code::Code;
use crate::diagnostic::SpannedDiagnostic;
use weft_text::quoted;

/// The most levels of a policy from the root to a class. It bounds every recursion over the graph.
pub(crate) const LEVELS_MAX: usize = 64;

/// The shape of the part of an acyclic graph that is reachable from the root.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The reachable nodes, every parent before its children.
    pub(crate) order: Vec<usize>,
    /// The reachable parents of each node.
    pub(crate) parents: Vec<Vec<usize>>,
    /// The first node on every path from a node to the root, where its edges meet again in Loom's direction.
    join: Vec<usize>,
    levels: Vec<usize>,
}

/// The colour of a node in the search for cycles.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Colour {
    New,
    Open,
    Done,
}

/// Reports every cycle once.
pub(crate) fn find_cycles(graph: &Graph) -> Vec<SpannedDiagnostic> {
    let mut diagnostics = Vec::new();
    let mut colours = vec![Colour::New; graph.nodes.len()];
    for start in 0..graph.nodes.len() {
        if colours[start] != Colour::New {
            continue;
        }
        colours[start] = Colour::Open;
        let mut path = vec![(start, 0)];
        while let Some((at, next)) = path.last_mut() {
            let Some(edge) = graph.nodes[*at].children.get(*next).copied() else {
                colours[*at] = Colour::Done;
                path.pop();
                continue;
            };
            *next += 1;
            match colours[edge.to] {
                Colour::Done => {}
                Colour::New => {
                    colours[edge.to] = Colour::Open;
                    path.push((edge.to, 0));
                }
                Colour::Open => {
                    let on_path = path.iter().skip_while(|(node, _)| *node != edge.to);
                    let names: Vec<String> =
                        on_path.take(6).map(|(node, _)| quoted(&graph.nodes[*node].name)).collect();
                    let target = quoted(&graph.nodes[edge.to].name);
                    let message =
                        format!("{target} is below itself: {} and again {target}", names.join(", "));
                    let diagnostic = SpannedDiagnostic::new(
                        Code::Cycle,
                        edge.span,
                        message,
                        "remove one of these references",
                    );
                    diagnostics.push(diagnostic.note(Code::Cycle.meaning()));
                }
            }
        }
    }
    diagnostics
}

impl Shape {
    /// Computes the shape of a graph, which must have a root and no cycle.
    pub(crate) fn new(graph: &Graph, root: usize) -> Self {
        let order = topological(graph, root);
        let mut parents = vec![Vec::new(); graph.nodes.len()];
        for at in &order {
            for edge in &graph.nodes[*at].children {
                parents[edge.to].push(*at);
            }
        }
        parents.iter_mut().for_each(|of_one| of_one.sort_unstable());
        let mut shape =
            Self { order, parents, join: vec![root; graph.nodes.len()], levels: vec![0; graph.nodes.len()] };
        let mut join_depth = vec![0_usize; graph.nodes.len()];
        for at in shape.order.clone() {
            let Some((first, others)) = shape.parents[at].split_first() else { continue };
            let join = others.iter().fold(*first, |a, b| shape.meet(&join_depth, a, *b));
            shape.levels[at] = shape.parents[at].iter().map(|p| shape.levels[*p] + 1).max().unwrap_or(0);
            join_depth[at] = join_depth[join] + 1;
            shape.join[at] = join;
        }
        shape
    }

    /// The first node that lies on all paths from `a` and from `b` to the root.
    fn meet(&self, depth: &[usize], mut a: usize, mut b: usize) -> usize {
        while a != b {
            if depth[a] >= depth[b] {
                a = self.join[a];
            } else {
                b = self.join[b];
            }
        }
        a
    }

    /// The node where the paths from `at` to the root join; for a node with one parent, that parent.
    pub(crate) fn join(&self, at: usize) -> usize {
        self.join[at]
    }

    /// Whether `at` is reachable from the root.
    pub(crate) fn reaches(&self, graph: &Graph, at: usize) -> bool {
        graph.root == Some(at) || !self.parents[at].is_empty()
    }

    /// Reports a graph with more levels than [`LEVELS_MAX`].
    pub(crate) fn check_levels(&self, graph: &Graph) -> Option<SpannedDiagnostic> {
        let deep = self.order.iter().find(|at| self.levels[**at] > LEVELS_MAX)?;
        let message =
            format!("{} lies more than {LEVELS_MAX} levels below the root", quoted(&graph.nodes[*deep].name));
        Some(SpannedDiagnostic::new(
            Code::TooDeepTree,
            graph.nodes[*deep].span,
            message,
            "flatten the policy",
        ))
    }
}

/// The nodes reachable from `root`, every parent before its children.
fn topological(graph: &Graph, root: usize) -> Vec<usize> {
    let mut seen = vec![false; graph.nodes.len()];
    let mut finished = Vec::new();
    let mut path = vec![(root, 0)];
    seen[root] = true;
    while let Some((at, next)) = path.last_mut() {
        match graph.nodes[*at].children.get(*next) {
            Some(edge) => {
                *next += 1;
                if !seen[edge.to] {
                    seen[edge.to] = true;
                    path.push((edge.to, 0));
                }
            }
            None => {
                finished.push(*at);
                path.pop();
            }
        }
    }
    finished.reverse();
    finished
}
