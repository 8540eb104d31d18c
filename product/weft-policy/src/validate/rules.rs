//! The rules of Loom's restricted DAG (section 4), and the other rules for the graph.

use super::graph::{Graph, Kind};
use super::root;
use super::shape::Shape;
use crate::code::Code;
use crate::diagnostic::SpannedDiagnostic;
use std::collections::BTreeSet;
use weft_text::{Span, quoted};
use weft_units::BitsPerSec;

/// Checks the reachable part of the graph against all rules.
pub(crate) fn check(graph: &Graph, shape: &Shape) -> Vec<SpannedDiagnostic> {
    let mut diagnostics = Vec::new();
    for at in shape.order.iter().copied() {
        diagnostics.extend(check_parents(graph, shape, at));
        match graph.nodes[at].kind {
            Kind::FIFO => diagnostics.extend(check_fifo(graph, at)),
            Kind::Fair => diagnostics.extend(check_fair(graph, at)),
            _ => {}
        }
        diagnostics.extend(check_destinations(graph, shape, at));
    }
    diagnostics
}

fn name(graph: &Graph, at: usize) -> String {
    quoted(&graph.nodes[at].name)
}

/// The place where `parent` names `child`.
fn edge_span(graph: &Graph, parent: usize, child: usize) -> Span {
    let edge = graph.nodes[parent].children.iter().find(|edge| edge.to == child);
    edge.map_or(graph.nodes[parent].span, |edge| edge.span)
}

/// The rules for a node with several parents: all parents must be shaping nodes, and they must join in one FIFO.
fn check_parents(graph: &Graph, shape: &Shape, at: usize) -> Option<SpannedDiagnostic> {
    let parents = &shape.parents[at];
    let (first, last) = (*parents.first()?, *parents.last()?);
    if parents.len() < 2 {
        return None;
    }
    let shaping = parents.iter().filter(|parent| graph.nodes[**parent].kind.shapes()).count();
    let span = edge_span(graph, last, at);
    let (child, one, other) = (name(graph, at), name(graph, first), name(graph, last));
    if shaping == parents.len() {
        return check_join(graph, shape, at);
    }
    let (code, message) = if shaping == 0 {
        (Code::SharedChild, format!("{child} has several parents: {one} and {other}"))
    } else {
        (
            Code::MixedParents,
            format!("{child} has several parents, and not all of them are limits: {one}, {other}"),
        )
    };
    let help =
        "packets that were scheduled once may take separate paths for limits only: use the name in one place";
    Some(SpannedDiagnostic::new(code, span, message, help).note(code.meaning()))
}

/// Checks that sibling shaping nodes join in a single FIFO, with only shaping nodes and FIFOs on the way.
fn check_join(graph: &Graph, shape: &Shape, at: usize) -> Option<SpannedDiagnostic> {
    let join = shape.join(at);
    let mut seen = BTreeSet::new();
    let mut todo = shape.parents[at].clone();
    let mut culprit = (graph.nodes[join].kind != Kind::FIFO).then_some(join);
    while let Some(node) = todo.pop() {
        if node == join || !seen.insert(node) {
            continue;
        }
        let kind = &graph.nodes[node].kind;
        if !kind.shapes() && *kind != Kind::FIFO {
            culprit = Some(node);
        }
        todo.extend(shape.parents[node].iter().copied());
    }
    let culprit = culprit?;
    let limits: Vec<String> = shape.parents[at].iter().take(4).map(|p| name(graph, *p)).collect();
    let message = format!(
        "the limits {} of {} must meet in one FIFO, but their paths split or join at {}, which is {}",
        limits.join(" and "),
        name(graph, at),
        name(graph, culprit),
        describe_kind(&graph.nodes[culprit].kind),
    );
    let span = graph.nodes[*shape.parents[at].last()?].span;
    let help = format!("join them: `NAME = fifo {{ {} }}`", limits.join(", ").replace('`', ""));
    Some(SpannedDiagnostic::new(Code::NoCommonFifo, span, message, help).note(Code::NoCommonFifo.meaning()))
}

fn describe_kind(kind: &Kind) -> &'static str {
    match kind {
        Kind::Class(_) => "a class",
        Kind::Native(native) => native.row().noun,
        Kind::Fair => "fair queueing",
        Kind::Limit(_) => "a limit",
        Kind::Algorithm(_) => "an algorithm",
        Kind::Broken => "unreadable",
    }
}

/// Checks that a FIFO merges classes, or joins limits of one node. It cannot merge packets that were scheduled below it.
fn check_fifo(graph: &Graph, at: usize) -> Option<SpannedDiagnostic> {
    let content = graph.content(at);
    let scheduled = content.iter().copied().find(|node| graph.class_of(*node).is_none())?;
    if content.len() < 2 {
        return None;
    }
    let other = content.iter().copied().find(|node| *node != scheduled)?;
    let message = format!(
        "{} would merge {} with {}, which has already ordered its packets",
        name(graph, at),
        name(graph, other),
        name(graph, scheduled)
    );
    let help = "a FIFO merges classes, or joins limits of one node; use `priority` or `wfq` here";
    Some(SpannedDiagnostic::new(Code::FifoOverScheduled, graph.nodes[at].span, message, help))
}

/// Checks that fair queueing has one class below it, whose flows share.
fn check_fair(graph: &Graph, at: usize) -> Option<SpannedDiagnostic> {
    let content = graph.content(at);
    if content.is_empty() || matches!(content[..], [one] if graph.class_of(one).is_some()) {
        return None;
    }
    let child = graph.nodes[at].children.first()?;
    let message = format!("`fair of` needs one class, but {} is not one", name(graph, child.to));
    let help = "share between nodes by `wfq { a: 1, b: 1 }`, between the flows of one class by `fair of a`";
    Some(SpannedDiagnostic::new(Code::FairNotOneClass, child.span, message, help))
}

/// Checks that limits side by side have distinct destinations and ports; a duplicate would never apply.
fn check_destinations(graph: &Graph, shape: &Shape, at: usize) -> Vec<SpannedDiagnostic> {
    let mut diagnostics = Vec::new();
    let mut seen = BTreeSet::new();
    for parent in &shape.parents[at] {
        let Kind::Limit(branches) = &graph.nodes[*parent].kind else { continue };
        for branch in branches {
            if !seen.insert(branch.of) {
                let to = match (branch.of.to, branch.of.port, &branch.label) {
                    (Some(prefix), ..) => prefix.to_string(),
                    (None, Some(_), Some(name)) => format!("the port {}", quoted(name)),
                    _ => "every destination".to_owned(),
                };
                let message = format!("{} has two limits for {to}", name(graph, at));
                let help = "leave one of the limits out, or nest one limit in the other: `limit ... of d1`";
                diagnostics.push(SpannedDiagnostic::new(Code::DestinationTwice, branch.span, message, help));
            }
        }
    }
    diagnostics
}

fn class_not_placed(graph: &Graph, class: usize, top: usize) -> SpannedDiagnostic {
    let message = format!("the class {} is not placed below the root", name(graph, class));
    let help = "name it in the tree, so that its packets have a place to wait";
    let diagnostic = SpannedDiagnostic::new(Code::ClassNotPlaced, graph.nodes[class].span, message, help);
    let diagnostic = diagnostic.fix(root::placement(graph, &graph.nodes[top].name));
    if top == class {
        return diagnostic;
    }
    diagnostic.note(format!("it is below {}, which is not placed", name(graph, top)))
}

/// Reports classes and nodes that are not reachable from the root.
pub(crate) fn check_reached(graph: &Graph, shape: &Shape) -> Vec<SpannedDiagnostic> {
    let mut diagnostics = Vec::new();
    // Classes below one node that is not placed are one mistake.
    let (tops, mut told) = (root::parents(graph), BTreeSet::new());
    for (at, node) in graph.nodes.iter().enumerate() {
        let eclipsed = graph.names.get(&node.name) != Some(&at);
        if shape.reaches(graph, at) || !node.named || eclipsed {
            continue;
        }
        match node.kind {
            Kind::Class(number) if number < graph.classes => {
                let top = root::top_of(graph, &tops, at);
                if told.insert(top) || top == at {
                    diagnostics.push(class_not_placed(graph, at, top));
                }
            }
            Kind::Class(_) => {}
            _ => {
                let message = format!("{} is not used: nothing below the root names it", quoted(&node.name));
                let help = "name it in the tree, or leave it out; until then it has no effect";
                diagnostics.push(SpannedDiagnostic::new(Code::UnusedNode, node.span, message, help));
            }
        }
    }
    diagnostics
}

/// Warns about limits above the link's rate, which never delay a packet.
pub(crate) fn check_link(graph: &Graph, shape: &Shape, link: BitsPerSec) -> Vec<SpannedDiagnostic> {
    let mut diagnostics = Vec::new();
    for at in &shape.order {
        let Kind::Limit(branches) = &graph.nodes[*at].kind else { continue };
        for branch in branches.iter().filter(|branch| branch.rate > link) {
            let message = format!("a limit of {} on a link of {link} never delays a packet", branch.rate);
            diagnostics.push(SpannedDiagnostic::new(
                Code::LimitAboveLink,
                branch.span,
                message,
                "lower it or leave it out",
            ));
        }
    }
    diagnostics
}
