//! Hover: the meaning of a name, its share of the link and its cost.

use crate::host::Compiler;
use crate::symbols::{Definition, Kind, Place, Scope, Symbols};
use core::fmt::Write;
use weft_policy::algorithm::{CheckedAlgorithm, algorithms, shipped_algorithm};
use weft_policy::cost::{PolicyCost, Profile};
use weft_policy::explain::path_to;
use weft_policy::syntax::SyntaxNode;
use weft_policy::{CompiledPolicy, Source, library, parse};
use weft_sched::guarantee::guaranteed_rates;
use weft_sched::program::Child;
use weft_text::Span;
use weft_units::{BitsPerSec, LeafId};

/// The text about the name at `offset`, in Markdown, and the place of the name.
pub(crate) fn hover(compiler: Compiler<'_>, text: &str, offset: usize) -> Option<(String, Span)> {
    let (tree, _) = parse(Source { name: "", text });
    let symbols = Symbols::new(&tree);
    let place = symbols.at(offset)?;
    let found = symbols.find(place.scope, &place.name);
    let about = match (place.scope, found) {
        (Scope::Algorithms, _) => algorithm(text, place, found)?,
        (Scope::Tree, Some(found)) => definition(compiler, text, found),
        (Scope::Tree, None) if place.name == "default" => {
            "**class default**: packets that no other class takes\n".to_owned()
                + &facts(compiler, text, Kind::Class, "default")
        }
        (Scope::Tree, None) => return None,
    };
    Some((about, place.span))
}

/// A class or a node: its text, and what the compiler makes of it.
fn definition(compiler: Compiler<'_>, text: &str, found: &Definition) -> String {
    let head = code(&found.item.text().to_string());
    format!("**{} {}**\n\n{head}\n", found.kind.word(), found.name)
        + &facts(compiler, text, found.kind, &found.name)
}

fn code(text: &str) -> String {
    format!("```weft\n{}\n```", text.trim())
}

/// Share and cost; empty if the policy is refused.
fn facts(compiler: Compiler<'_>, text: &str, kind: Kind, name: &str) -> String {
    let Some((policy, cost)) = compiler.priced(text) else { return String::new() };
    let leaves = match kind {
        Kind::Class => leaves_of_class(&policy, name),
        Kind::Node | Kind::Limit | Kind::Algorithm => leaves_below(&policy, name),
    };
    let mut out = String::new();
    if kind != Kind::Limit {
        out += &share(&policy, &leaves);
    }
    if kind == Kind::Class {
        out += &way(&policy, &leaves, name);
        out += &steered(&policy, name);
    }
    if let Some(cost) = cost {
        out += &cost_of(&cost, &policy, kind, name, &leaves);
    }
    out
}

/// The leaves of a class, each once.
fn leaves_of_class(policy: &CompiledPolicy, name: &str) -> Vec<LeafId> {
    let lanes = policy.program.lanes.iter().filter(|lane| !lane.is_vacant());
    let named = |class: usize| policy.classes.get(class).is_some_and(|class| class.name == name);
    let mut leaves: Vec<LeafId> =
        lanes.filter(|lane| named(lane.class.index())).map(|lane| lane.leaf).collect();
    leaves.sort_unstable();
    leaves.dedup();
    leaves
}

/// The leaves below the node of a name.
fn leaves_below(policy: &CompiledPolicy, name: &str) -> Vec<LeafId> {
    let program = &policy.program;
    let mut open: Vec<Child> = program
        .nodes
        .iter()
        .filter(|node| node.name == name)
        .flat_map(|node| node.children.clone())
        .collect();
    let mut leaves = Vec::new();
    while let Some(child) = open.pop() {
        match child {
            Child::Leaf(leaf) => leaves.push(leaf),
            Child::Node(node) => {
                open.extend(
                    program.nodes.get(node.index()).into_iter().flat_map(|node| node.children.clone()),
                );
            }
        }
    }
    leaves
}

/// The rate that no other leaf can take from the leaves.
fn share(policy: &CompiledPolicy, leaves: &[LeafId]) -> String {
    let Some(link) = policy.link.filter(|_| !leaves.is_empty()) else {
        return "\n- share: `link` does not state a rate\n".to_owned();
    };
    let rates = guaranteed_rates(&policy.program, link);
    let sum = leaves.iter().filter_map(|leaf| rates.get(leaf.index())).map(|rate| rate.get()).sum::<u64>();
    let percent = 100.0 * sum as f64 / link.get() as f64;
    format!("\n- share: {} of {link} ({percent:.1} %), while every class sends\n", BitsPerSec(sum))
}

/// The steering clauses that name a class, or a node above it.
fn steered(policy: &CompiledPolicy, name: &str) -> String {
    let clauses = policy.steering.iter().filter(|clause| clause.classes.iter().any(|class| class == name));
    clauses.map(|clause| format!("- receive queues: `steer {}`\n", clause.text)).collect()
}

/// The nodes from the root to a class, and its limits.
fn way(policy: &CompiledPolicy, leaves: &[LeafId], name: &str) -> String {
    let mut out = String::new();
    let Some(leaf) = leaves.first() else { return out };
    for step in path_to(policy, *leaf) {
        let _ = writeln!(out, "- {}: {}", step.node, step.turn);
    }
    let program = &policy.program;
    let lanes = program
        .lanes
        .iter()
        .filter(|lane| policy.classes.get(lane.class.index()).is_some_and(|c| c.name == name));
    let mut limits: Vec<_> = lanes.flat_map(|lane| &lane.limits).collect();
    limits.sort_unstable();
    limits.dedup();
    for limit in limits.into_iter().filter_map(|limit| program.limits.get(limit.index())).take(8) {
        let _ = writeln!(out, "- limit {}: {}", limit.name, limit.rate);
    }
    out
}

/// The orders that `weft policy cost` counts for the name.
fn cost_of(cost: &PolicyCost, policy: &CompiledPolicy, kind: Kind, name: &str, leaves: &[LeafId]) -> String {
    let mut names: Vec<String> = vec![name.to_owned()];
    if let Some(leaf) = leaves.first().filter(|_| kind == Kind::Class) {
        names.extend(path_to(policy, *leaf).into_iter().map(|step| step.node));
        names.extend(policy.program.leaves.get(leaf.index()).map(|leaf| leaf.name.clone()));
    }
    let orders: Vec<_> = cost.orders.iter().filter(|order| names.contains(&order.name)).collect();
    let operations: usize = orders.iter().map(|order| order.cost.per_packet()).sum();
    let mut out =
        format!("- cost: {} orders, {operations} operations of algorithms for a packet\n", orders.len());
    if let Some(price) = Profile::Software.price(cost) {
        let _ = writeln!(
            out,
            "- the whole policy: about {:.0} ns for a packet in the software NIC, estimated",
            price.nanos
        );
    }
    out
}

/// An algorithm: its head, its comment, its parameters and its cost.
fn algorithm(text: &str, place: &Place, found: Option<&Definition>) -> Option<String> {
    let (tree, checked) = match found {
        Some(found) => {
            let own = algorithms(text).into_iter().find(|own| own.name == found.name);
            (found.item.clone(), own)
        }
        None => {
            let shipped = library::shipped().iter().find(|shipped| shipped.name == place.name)?;
            let (tree, _) = parse(Source { name: "", text: shipped.text });
            (tree, shipped_algorithm(&place.name))
        }
    };
    let (comment, head) = head(&tree);
    let mut out = format!("**algorithm {}**\n\n{}\n", place.name, code(&head));
    if !comment.is_empty() {
        let _ = writeln!(out, "\n{comment}");
    }
    if let Some(checked) = checked {
        out += &parameters(&checked);
    }
    Some(out)
}

/// The comment before an algorithm, and its text up to the brace.
fn head(tree: &SyntaxNode) -> (String, String) {
    let text = tree.text().to_string();
    let is_comment = |line: &&str| line.starts_with('#') || line.trim().is_empty();
    let comment: Vec<&str> =
        text.lines().take_while(is_comment).map(|line| line.trim_start_matches(['#', ' '])).collect();
    let rest: Vec<&str> = text.lines().skip_while(is_comment).collect();
    let rest = rest.join("\n");
    let head = rest.split('{').next().unwrap_or_default().trim().to_owned();
    (comment.join(" ").trim().to_owned(), head)
}

fn parameters(checked: &CheckedAlgorithm) -> String {
    let mut out = String::from("\n");
    for parameter in checked.parameters.iter().filter(|parameter| parameter.repeats.is_none()) {
        let needed = if parameter.default.is_some() { "has a default" } else { "needed for each child" };
        let _ = writeln!(out, "- `{}`: {}, {needed}", parameter.name, parameter.of);
    }
    let cost = checked.program.cost();
    let _ = writeln!(
        out,
        "- cost: {} operations for a packet; {} B for a node, {} B for a child",
        cost.per_packet(),
        cost.node_bytes,
        cost.child_bytes
    );
    out
}
