//! Steering clauses: the goals of a policy for a NIC's receive queues, and its classes as a planner needs them.
//!
//! A class is a set of flows, which its condition describes by the packets that this host sends. A received packet belongs to the class
//! of the packets that answer it ([`received`]), so that one definition serves both directions. A NIC sees headers only: a class that
//! tests its sender cannot be steered, and is passed over by the classes behind it.
//!
//! A clause names a class, or a node, which means all classes below it, such as a tenant.

mod received;

use crate::code::Code;
use crate::compiled::SteerClause;
use crate::diagnostic::SpannedDiagnostic;
use crate::lowering::model::{Aim, Goal};
use crate::lowering::model::{ClassDefinition, Policy, Spanned};
use crate::validate::build::unknown_name;
use crate::validate::graph::{Graph, Kind};
use std::collections::BTreeMap;
use weft_steer::Predicate;
use weft_steer::policy::{
    Balance, Classes, Combined, Isolate, Locality, Policy as Cost, PolicyFile, Priority, Reserved,
};
use weft_text::{nearest, quoted};

/// The names in a goal, each with its place.
fn names(goal: &Goal) -> Vec<Spanned<String>> {
    match &goal.aim {
        Aim::Balance(_) | Aim::Locality(_) => Vec::new(),
        Aim::Isolate { class, .. } | Aim::Priority { class, .. } => vec![class.clone()],
        Aim::Static(classes) => classes.iter().map(|(class, _, _)| class.clone()).collect(),
        Aim::Formula(formula) => {
            let name = |name: &str| Spanned { value: name.to_owned(), span: formula.span };
            formula.value.classes().into_iter().map(name).collect()
        }
    }
}

/// The numbers of the classes that node `at` means: its own, or those below it.
fn classes_of(graph: &Graph, at: usize) -> Vec<usize> {
    match graph.nodes[at].kind {
        Kind::Class(class) => vec![class],
        _ => graph.below(at).into_iter().filter_map(|below| graph.class_of(below)).collect(),
    }
}

/// Checks the names of the goals.
pub(crate) fn check(policy: &Policy, graph: &Graph) -> Vec<SpannedDiagnostic> {
    let mut found = Vec::new();
    // The name in the clause that steers each class.
    let mut steered: BTreeMap<usize, String> = BTreeMap::new();
    for name in policy.goals.iter().flat_map(names) {
        let Some(at) = graph.names.get(&name.value).copied() else {
            if graph.complete {
                let known = graph.names.keys().map(String::as_str);
                found.push(unknown_name(&name, nearest(&name.value, known, &[]), "name a class or a node"));
            }
            continue;
        };
        for class in classes_of(graph, at) {
            let other = steered.entry(class).or_insert_with(|| name.value.clone());
            if *other != name.value {
                found.push(twice(&name, other, &graph.nodes[class].name));
                break;
            }
            found.extend(policy.classes.get(class).and_then(|class| not_received(class, &name)));
        }
    }
    found
}

fn twice(name: &Spanned<String>, other: &str, class: &str) -> SpannedDiagnostic {
    let (name, span) = (quoted(&name.value), name.span);
    let message =
        format!("{name} and {}, which are both steered, have {} in common", quoted(other), quoted(class));
    SpannedDiagnostic::new(Code::SteeredTwice, span, message, "name the classes, or the node above them")
}

/// The diagnostic for a class that received packets do not show, which a clause names by `name`.
fn not_received(class: &ClassDefinition, name: &Spanned<String>) -> Option<SpannedDiagnostic> {
    let test = class.of_sender.as_ref()?;
    let message = format!(
        "`steer` names {}, but the NIC does not know {} when it receives a packet",
        quoted(&name.value),
        test.value
    );
    let help = "describe the flows by what their packets show: protocol, ports, addresses or VLAN, such as `tcp and sport 11211`";
    Some(SpannedDiagnostic::new(Code::NotReceived, test.span, message, help))
}

/// The clauses in the standard form.
pub(crate) fn clauses(policy: &Policy, graph: &Graph) -> Vec<SteerClause> {
    let clause = |goal: &Goal| {
        let at = names(goal).into_iter().filter_map(|name| graph.names.get(&name.value).copied());
        let classes = at.flat_map(|at| classes_of(graph, at)).map(|class| graph.nodes[class].name.clone());
        let factor = if goal.factor == 1.0 { String::new() } else { format!("{} * ", goal.factor) };
        SteerClause { text: factor + &cost(&goal.aim).name(), classes: classes.collect() }
    };
    policy.goals.iter().map(clause).collect()
}

/// The cost function of a goal.
fn cost(aim: &Aim) -> Box<dyn Cost> {
    match aim {
        Aim::Balance(measure) => Box::new(Balance { measure: *measure }),
        Aim::Isolate { class, queues } => Box::new(Isolate { class: class.value.clone(), queues: *queues }),
        Aim::Priority { class, flows } => {
            Box::new(Priority { class: class.value.clone(), flows_per_queue: *flows })
        }
        Aim::Static(classes) => {
            let class = |(name, first, last): &(Spanned<String>, _, _)| (name.value.clone(), *first, *last);
            Box::new(Reserved { classes: classes.iter().map(class).collect() })
        }
        Aim::Locality(queues) => Box::new(Locality { queues: queues.clone() }),
        Aim::Formula(formula) => Box::new(formula.value.clone()),
    }
}

/// The sum of the goals with the classes, for a planner; `None` without goals.
pub(crate) fn policy_file(policy: &Policy, graph: &Graph) -> Option<PolicyFile> {
    let classes = Classes { rules: rules(policy, graph) };
    Some(PolicyFile { policy: sum(&policy.goals)?, classes })
}

/// The sum of the goals; `None` without goals.
pub(crate) fn sum(goals: &[Goal]) -> Option<Box<dyn Cost>> {
    let mut parts: Vec<(f64, Box<dyn Cost>)> =
        goals.iter().map(|goal| (goal.factor, cost(&goal.aim))).collect();
    let alone = parts.len() == 1 && parts.iter().all(|(factor, _)| *factor == 1.0);
    match parts.pop()? {
        (_, only) if alone => Some(only),
        last => {
            parts.push(last);
            Some(Box::new(Combined { parts }))
        }
    }
}

/// The classes that received packets show, in the policy's order, under the names that clauses use.
fn rules(policy: &Policy, graph: &Graph) -> Vec<(String, Predicate)> {
    let mut steered: BTreeMap<usize, String> = BTreeMap::new();
    for name in policy.goals.iter().flat_map(names) {
        let at = graph.names.get(&name.value).copied();
        for class in at.into_iter().flat_map(|at| classes_of(graph, at)) {
            steered.insert(class, name.value.clone());
        }
    }
    let described = policy.classes.iter().enumerate().filter(|(_, class)| class.of_sender.is_none());
    let mut rules: Vec<(String, Predicate)> = described
        .filter_map(|(number, class)| {
            let name = steered.get(&number).unwrap_or(&class.name.value);
            Some((name.clone(), received::predicate(class.condition.as_ref()?)))
        })
        .collect();
    // Otherwise the list of flows may say of which class they are.
    if let Some(name) = steered.get(&graph.classes) {
        rules.push((name.clone(), Predicate::TRUE));
    }
    rules
}
