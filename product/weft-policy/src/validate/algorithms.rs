//! The rules for algorithms in the graph: what may be below them.

use super::graph::{Graph, Kind};
use super::shape::Shape;
use crate::algorithm::Place;
use crate::algorithm::uses::Use;
use crate::code::Code;
use crate::diagnostic::SpannedDiagnostic;
use weft_text::quoted;

/// Checks that algorithms over flows are before one class, and droppers before one queue.
pub(crate) fn check(graph: &Graph, shape: &Shape, uses: &[Use]) -> Vec<SpannedDiagnostic> {
    let mut diagnostics = Vec::new();
    for at in shape.order.iter().copied() {
        let Kind::Algorithm(number) = graph.nodes[at].kind else { continue };
        let Some(used) = uses.get(number).filter(|used| used.place == Place::Flows) else { continue };
        diagnostics.extend(check_flows(graph, at, used));
    }
    diagnostics
}

fn check_flows(graph: &Graph, at: usize, used: &Use) -> Option<SpannedDiagnostic> {
    let algorithm = used.algorithm.as_ref()?;
    let content = graph.content(at);
    let class = |node: &usize| graph.class_of(*node).is_some();
    let queue = |node: &usize| match graph.nodes[*node].kind {
        Kind::Fair => true,
        Kind::Algorithm(_) => graph.content(*node).iter().all(class),
        _ => class(node),
    };
    let (fits, help) = match algorithm.kind {
        weft_rank::Kind::Dropper => (
            content.len() == 1 && content.iter().all(queue),
            "a dropper stands before one class, or before the algorithm of its flows: `codel of fair of a`",
        ),
        weft_rank::Kind::Shaper if !algorithm.holds_flows() => (true, ""),
        weft_rank::Kind::Shaper => (
            content.len() == 1 && content.iter().all(class),
            "it holds each flow of one class by itself: `NAME of a`",
        ),
        _ => (
            content.len() == 1 && content.iter().all(class),
            "it orders the flows of one class: `NAME of a`; between nodes, write `NAME { a: ..., b: ... }`",
        ),
    };
    if fits || content.is_empty() {
        return None;
    }
    let child = graph.nodes[at].children.first()?;
    let message = format!(
        "{} needs one class below it, but {} is not one",
        quoted(&used.name.value),
        quoted(&graph.nodes[child.to].name)
    );
    Some(SpannedDiagnostic::new(Code::FairNotOneClass, child.span, message, help))
}
