//! Fixes for a missing root, and for classes that are not placed below it.

use super::graph::{Graph, Kind, ROOT};
use crate::code::Code;
use crate::diagnostic::{Edit, SpannedDiagnostic};
use crate::disciplines::Children::{Ordered, Weighted};
use crate::lowering::model::Policy;
use std::collections::BTreeSet;
use weft_text::{LineIndex, Span, nearest, quoted};

/// Other words for the root.
const SYNONYMS: &[(&str, &str)] = &[("main", ROOT), ("top", ROOT), ("tree", ROOT), ("link", ROOT)];
/// The most classes that a proposed root lists.
const LISTED_MAX: usize = 8;

/// The diagnostic for a policy without a root.
pub(super) fn missing(graph: &Graph, policy: &Policy, lines: &LineIndex<'_>) -> SpannedDiagnostic {
    let at = policy.nodes.first().map_or(Span::default(), |node| node.name.span);
    let help = "define `root`, such as `root = priority { mgmt, tenants }`";
    let message = "the policy does not say what the link serves";
    let near = policy.nodes.iter().find(|node| nearest(&node.name.value, [ROOT], SYNONYMS).is_some());
    if let Some(near) = near {
        let message = format!("{message}: did you mean `{ROOT}` by {}?", quoted(&near.name.value));
        let diagnostic = SpannedDiagnostic::new(Code::MissingRoot, near.name.span, message, help);
        return diagnostic.fix(Edit::replace(near.name.span, ROOT));
    }
    let served = match (top(graph), &policy.classes[..]) {
        (Some(node), _) => Some(node),
        (None, _) if !policy.nodes.is_empty() => None,
        (None, []) => Some("default".to_owned()),
        (None, [one]) => Some(one.name.value.clone()),
        (None, several) if several.len() > LISTED_MAX => None,
        (None, several) => {
            let names: Vec<&str> = several.iter().map(|class| class.name.value.as_str()).collect();
            Some(format!("priority {{ {} }}", names.join(", ")))
        }
    };
    let text = lines.text();
    let gap = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let edit = served.map(|served| Edit::insert(text.len(), format!("{gap}{ROOT} = {served}\n")));
    let message = match &edit {
        Some(edit) => format!("{message}: write `{}`", edit.text.trim()),
        None => message.to_owned(),
    };
    SpannedDiagnostic::new(Code::MissingRoot, at, message, help).fix(edit)
}

/// The only named node that no other node serves.
fn top(graph: &Graph) -> Option<String> {
    let served: BTreeSet<usize> =
        graph.nodes.iter().flat_map(|node| node.children.iter().map(|edge| edge.to)).collect();
    let nodes = graph.nodes.iter().enumerate().skip(graph.classes + 1);
    let mut tops = nodes.filter(|(at, node)| node.named && !served.contains(at));
    tops.next().filter(|_| tops.next().is_none()).map(|(_, node)| node.name.clone())
}

/// The edit that places a class at the end of the root, above `default`.
pub(super) fn placement(graph: &Graph, class: &str) -> Option<Edit> {
    let root = &graph.nodes[*graph.names.get(ROOT)?];
    // An edge that the compiler has added for `default` has no place in the text.
    let written = || root.children.iter().filter(|edge| edge.span != root.span);
    let (first, last) = (written().next()?, written().next_back()?);
    let named = |to: usize| graph.nodes[to].named;
    match root.kind {
        Kind::Native(of) if of.has(Weighted) => Some(Edit::insert(first.span.start, format!("{class}: 1, "))),
        Kind::Native(of) if of.has(Ordered) && last.to == graph.classes => {
            Some(Edit::insert(last.span.start, format!("{class}, ")))
        }
        Kind::Native(of) if of.has(Ordered) && named(last.to) => {
            Some(Edit::insert(last.span.end, format!(", {class}")))
        }
        Kind::FIFO if named(first.to) && first.span == last.span => {
            let list = format!("priority {{ {}, {class} }}", graph.nodes[first.to].name);
            Some(Edit::replace(first.span, list))
        }
        _ => None,
    }
}

/// A parent of each node that has one.
pub(super) fn parents(graph: &Graph) -> Vec<Option<usize>> {
    let mut parents = vec![None; graph.nodes.len()];
    for (at, node) in graph.nodes.iter().enumerate() {
        for edge in &node.children {
            parents[edge.to] = Some(at);
        }
    }
    parents
}

/// The last named node on the way up from `at`. The graph must have no cycle.
pub(super) fn top_of(graph: &Graph, parents: &[Option<usize>], at: usize) -> usize {
    let mut way = core::iter::successors(Some(at), |at| parents[*at]).take(graph.nodes.len());
    way.by_ref().filter(|at| graph.nodes[*at].named).last().unwrap_or(at)
}
