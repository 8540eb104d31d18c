//! The comparison of two policies with common numbers.

use super::Step;
use crate::compiled::{ClassInfo, CompiledPolicy, Destination};
use crate::program::placed::IN_ORDER;
use crate::words::of_discipline;
use std::collections::{BTreeMap, BTreeSet};
use weft_facts::policy_diff::PolicyKept;
use weft_packet::Match;
use weft_sched::{Child, Custom, Discipline, LeafDiscipline, LimitSpec, NodeSpec};
use weft_units::{ClassId, LaneId, LeafId, NodeId, Packets, Weight};

/// A policy with what a comparison asks of it by number.
struct View<'a> {
    policy: &'a CompiledPolicy,
    /// The lanes of each class.
    lanes: Vec<Vec<LaneId>>,
    /// The rows of each class.
    rows: Vec<Vec<&'a Match>>,
    /// The parent of each leaf and node.
    leaf_parents: Vec<Option<NodeId>>,
    node_parents: Vec<Option<NodeId>>,
}

/// The differences between `old` and `new`, which has the numbers of `old`.
pub(in crate::change) fn steps(
    old: &CompiledPolicy,
    new: &CompiledPolicy,
    heirs: &[(LaneId, LaneId)],
) -> Vec<Step> {
    if old == new {
        return Vec::new();
    }
    let (old, new) = (View::new(old), View::new(new));
    let mut steps = Vec::new();
    let (from, to) = (old.policy.link, new.policy.link);
    if from != to {
        steps.push(Step::Link { from, to });
    }
    classes(&old, &new, heirs, &mut steps);
    rule_order(&old, &new, &mut steps);
    limits(&old, &new, &mut steps);
    leaves(&old, &new, &mut steps);
    nodes(&old, &new, &mut steps);
    steps.sort_by_key(Step::phase);
    steps
}

/// The things that both policies have.
pub(in crate::change) fn kept(old: &CompiledPolicy, new: &CompiledPolicy) -> PolicyKept {
    fn both<T>(old: &[T], new: &[T], is_vacant: fn(&T) -> bool) -> usize {
        old.iter().zip(new).filter(|(old, new)| !is_vacant(old) && !is_vacant(new)).count()
    }
    let (before, after) = (&old.program, &new.program);
    PolicyKept {
        classes: both(&old.classes, &new.classes, ClassInfo::is_vacant),
        nodes: both(&before.nodes, &after.nodes, NodeSpec::is_vacant),
        limits: both(&before.limits, &after.limits, LimitSpec::is_vacant),
    }
}

impl<'a> View<'a> {
    fn new(policy: &'a CompiledPolicy) -> Self {
        let program = &policy.program;
        let mut view = Self {
            policy,
            lanes: vec![Vec::new(); policy.classes.len()],
            rows: vec![Vec::new(); policy.classes.len()],
            leaf_parents: vec![None; program.leaves.len()],
            node_parents: vec![None; program.nodes.len()],
        };
        for (at, lane) in program.lanes.iter().enumerate() {
            if let Some(lanes) = view.lanes.get_mut(lane.class.index()) {
                lanes.push(LaneId::from_index(at));
            }
        }
        for rule in &policy.rules {
            if let Some(rows) = view.rows.get_mut(rule.class.index()) {
                rows.push(&rule.matcher);
            }
        }
        for (at, node) in program.nodes.iter().enumerate() {
            for child in &node.children {
                let parent = match child {
                    Child::Leaf(leaf) => view.leaf_parents.get_mut(leaf.index()),
                    Child::Node(node) => view.node_parents.get_mut(node.index()),
                };
                if let Some(parent) = parent {
                    *parent = Some(NodeId::from_index(at));
                }
            }
        }
        view
    }

    fn class(&self, at: usize) -> Option<&'a str> {
        self.policy.classes.get(at).filter(|class| !class.is_vacant()).map(|class| class.name.as_str())
    }

    fn class_of(&self, lane: LaneId) -> ClassId {
        self.policy.program.lanes.get(lane.index()).map_or(ClassId(u32::MAX), |lane| lane.class)
    }

    fn class_name_of(&self, lane: LaneId) -> String {
        self.class(self.class_of(lane).index()).unwrap_or_default().to_owned()
    }

    fn leaf_of_class(&self, class: usize) -> Option<LeafId> {
        let lane = self.lanes[class].first()?;
        Some(self.policy.program.lanes[lane.index()].leaf)
    }

    fn node(&self, at: usize) -> Option<&'a NodeSpec> {
        self.policy.program.nodes.get(at).filter(|node| !node.is_vacant())
    }

    fn leaf_name(&self, leaf: LeafId) -> Option<&'a str> {
        let spec = self.policy.program.leaves.get(leaf.index()).filter(|leaf| !leaf.is_vacant());
        spec.map(|leaf| leaf.name.as_str())
    }

    fn child_name(&self, child: Child) -> &'a str {
        match child {
            Child::Leaf(leaf) => self.leaf_name(leaf),
            Child::Node(node) => self.node(node.index()).map(|node| node.name.as_str()),
        }
        .unwrap_or_default()
    }

    fn parent_name(&self, parent: Option<NodeId>) -> String {
        parent.and_then(|at| self.node(at.index())).map_or("the link".to_owned(), |node| node.name.clone())
    }

    /// The leaf that a class shares or that has another name, or else the node above it.
    fn place_of_class(&self, class: usize) -> String {
        let Some(leaf) = self.leaf_of_class(class) else { return String::new() };
        match self.leaf_name(leaf) {
            Some(name) if self.class(class) != Some(name) => name.to_owned(),
            _ => self.parent_name(self.leaf_parents[leaf.index()]),
        }
    }

    fn bound(&self, class: usize) -> Packets {
        let lane = self.lanes[class].first().map(|lane| &self.policy.program.lanes[lane.index()]);
        lane.map_or(Packets::ZERO, |lane| lane.packet_bound)
    }

    /// The names of all limits that packets of a class may pass.
    fn limits_of(&self, class: usize) -> Vec<String> {
        let program = &self.policy.program;
        let passed = self.lanes[class].iter().flat_map(|lane| &program.lanes[lane.index()].limits);
        let names: BTreeSet<&str> = passed.map(|limit| program.limits[limit.index()].name.as_str()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// The rows of the destination table of a class, with the names of their ports.
    fn destinations(&self, class: usize) -> impl Iterator<Item = (Destination, Option<&'a str>)> {
        let rows = self.policy.destinations.get(class).map(Vec::as_slice).unwrap_or_default();
        let ports = &self.policy.ports;
        rows.iter().map(move |row| {
            let name = row.port.and_then(|number| ports.get(usize::from(number).wrapping_sub(1)));
            (Destination { port: None, ..*row }, name.map(String::as_str))
        })
    }

    /// The tests of a row, with its cgroup's path.
    fn tests(&self, row: &Match) -> (Match, [Option<&'a str>; 2]) {
        let path = row.cgroup.and_then(|number| self.policy.cgroups.get(usize::from(number)));
        let port = row.port.and_then(|number| self.policy.ports.get(usize::from(number).wrapping_sub(1)));
        (Match { cgroup: None, port: None, ..row.clone() }, [path, port].map(|name| name.map(String::as_str)))
    }
}

fn classes(old: &View<'_>, new: &View<'_>, heirs: &[(LaneId, LaneId)], steps: &mut Vec<Step>) {
    for at in 0..new.policy.classes.len().max(old.policy.classes.len()) {
        match (old.class(at), new.class(at)) {
            (None, Some(class)) => {
                steps.push(Step::ClassAdded { class: class.to_owned(), under: new.place_of_class(at) });
            }
            (Some(class), None) => {
                let lane = heirs.iter().find(|(gone, _)| old.class_of(*gone).index() == at);
                let heir = lane.map_or_else(String::new, |(_, heir)| new.class_name_of(*heir));
                steps.push(Step::ClassRemoved { class: class.to_owned(), heir });
            }
            (Some(class), Some(_)) => class_changes(old, new, (at, class), steps),
            (None, None) => {}
        }
    }
}

/// The changes of a class that stays.
fn class_changes(old: &View<'_>, new: &View<'_>, (at, name): (usize, &str), steps: &mut Vec<Step>) {
    let class = || name.to_owned();
    let (from, to) = (old.policy.classes[at].latency, new.policy.classes[at].latency);
    if from != to {
        steps.push(Step::Latency { class: class(), from, to });
    }
    let (from, to) = (old.bound(at), new.bound(at));
    if from != to {
        steps.push(Step::Bound { class: class(), from, to });
    }
    let (from, to) = (old.limits_of(at), new.limits_of(at));
    let limits_differ = from != to;
    if limits_differ {
        steps.push(Step::Limits { class: class(), from, to });
    }
    if old.leaf_of_class(at) != new.leaf_of_class(at) {
        let (from, to) = (old.place_of_class(at), new.place_of_class(at));
        steps.push(Step::Moved { name: class(), from, to });
    }
    let same_lanes = || old.destinations(at).eq(new.destinations(at));
    if !same_rows(old, new, at) || (!limits_differ && old.lanes[at] == new.lanes[at] && !same_lanes()) {
        steps.push(Step::Rules { class: class() });
    }
}

/// Whether a class takes the same packets, as far as its own rows say.
fn same_rows(old: &View<'_>, new: &View<'_>, class: usize) -> bool {
    let (a, b) = (&old.rows[class], &new.rows[class]);
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| old.tests(a) == new.tests(b))
}

/// Whether the classes with equal rows are tested in another order.
fn rule_order(old: &View<'_>, new: &View<'_>, steps: &mut Vec<Step>) {
    let count = old.rows.len().min(new.rows.len());
    let same: Vec<bool> = (0..count).map(|class| same_rows(old, new, class)).collect();
    let order = |view: &View<'_>| -> Vec<ClassId> {
        let classes = view.policy.rules.iter().map(|rule| rule.class);
        classes.filter(|class| same.get(class.index()) == Some(&true)).collect()
    };
    if order(old) != order(new) {
        steps.push(Step::RuleOrder);
    }
}

fn limits(old: &View<'_>, new: &View<'_>, steps: &mut Vec<Step>) {
    let (before, after) = (&old.policy.program.limits, &new.policy.program.limits);
    for at in 0..after.len().max(before.len()) {
        let old = before.get(at).filter(|limit| !limit.is_vacant());
        let new = after.get(at).filter(|limit| !limit.is_vacant());
        match (old, new) {
            (None, Some(new)) => {
                steps.push(Step::LimitAdded { limit: new.name.clone(), rate: new.rate });
            }
            (Some(old), None) => steps.push(Step::LimitRemoved { limit: old.name.clone() }),
            (Some(old), Some(new)) => {
                let limit = || new.name.clone();
                if old.rate != new.rate {
                    steps.push(Step::Rate { limit: limit(), from: old.rate, to: new.rate });
                }
                if old.burst != new.burst {
                    steps.push(Step::Burst { limit: limit(), from: old.burst, to: new.burst });
                }
            }
            (None, None) => {}
        }
    }
}

fn leaves(old: &View<'_>, new: &View<'_>, steps: &mut Vec<Step>) {
    for at in 0..old.leaf_parents.len().min(new.leaf_parents.len()) {
        let leaf = LeafId::from_index(at);
        let (Some(name), Some(_)) = (old.leaf_name(leaf), new.leaf_name(leaf)) else { continue };
        let order = |view: &View<'_>| view.policy.program.leaves[at].discipline.clone();
        let (before, after) = (order(old), order(new));
        discipline(name, leaf_word(&before), leaf_word(&after), steps);
        if let (LeafDiscipline::Custom(before), LeafDiscipline::Custom(after)) = (&before, &after)
            && !text_changed(name, before, after, steps)
            && before != after
        {
            steps.push(Step::Arguments { name: name.to_owned(), of: name.to_owned() });
        }
        moved(name, (old, old.leaf_parents[at]), (new, new.leaf_parents[at]), steps);
    }
}

fn leaf_word(discipline: &LeafDiscipline) -> String {
    match discipline {
        LeafDiscipline::Fifo => "fifo".to_owned(),
        LeafDiscipline::Fair => "fair".to_owned(),
        LeafDiscipline::Custom(custom) => custom_word(custom),
    }
}

/// The names of an algorithm and of its dropper.
fn custom_word(custom: &Custom) -> String {
    let name = &custom.algorithm.name;
    match &custom.dropper {
        None => name.clone(),
        Some(dropper) if name == IN_ORDER => format!("{} of fifo", dropper.algorithm.name),
        Some(dropper) => format!("{} of {name}", dropper.algorithm.name),
    }
}

/// Tells of an algorithm, or a dropper, that has the same name and another text. Returns whether the texts or the names differ.
fn text_changed(name: &str, before: &Custom, after: &Custom, steps: &mut Vec<Step>) -> bool {
    if custom_word(before) != custom_word(after) {
        return true;
    }
    let droppers = before.dropper.as_ref().zip(after.dropper.as_ref());
    let same =
        |before: &Custom, after: &Custom| before.algorithm == after.algorithm && before.head == after.head;
    let changed = !same(before, after) || droppers.is_some_and(|(before, after)| !same(before, after));
    if changed {
        steps.push(Step::Algorithm { name: name.to_owned(), algorithm: custom_word(after) });
    }
    changed
}

fn discipline(name: &str, from: String, to: String, steps: &mut Vec<Step>) {
    if from != to {
        steps.push(Step::Discipline { name: name.to_owned(), from, to });
    }
}

fn moved(
    name: &str,
    (old, from): (&View<'_>, Option<NodeId>),
    (new, to): (&View<'_>, Option<NodeId>),
    steps: &mut Vec<Step>,
) {
    if from != to {
        let (from, to) = (old.parent_name(from), new.parent_name(to));
        steps.push(Step::Moved { name: name.to_owned(), from, to });
    }
}

fn nodes(old: &View<'_>, new: &View<'_>, steps: &mut Vec<Step>) {
    for at in 0..old.node_parents.len().max(new.node_parents.len()) {
        match (old.node(at), new.node(at)) {
            (None, Some(node)) => {
                let under = new.parent_name(new.node_parents[at]);
                steps.push(Step::NodeAdded { node: node.name.clone(), under });
            }
            (Some(node), None) => steps.push(Step::NodeRemoved { node: node.name.clone() }),
            (Some(before), Some(after)) => {
                moved(&after.name, (old, old.node_parents[at]), (new, new.node_parents[at]), steps);
                discipline(&after.name, word(before), word(after), steps);
                children(before, after, new, steps);
            }
            (None, None) => {}
        }
    }
}

fn word(node: &NodeSpec) -> String {
    of_discipline(&node.discipline).to_owned()
}

/// The changes of children that stay below the same node.
fn children(before: &NodeSpec, after: &NodeSpec, new: &View<'_>, steps: &mut Vec<Step>) {
    if before == after {
        return;
    }
    match (&before.discipline, &after.discipline) {
        (Discipline::Wfq(old_weights), Discipline::Wfq(weights)) => {
            let known: std::collections::HashMap<Child, Weight> =
                before.children.iter().copied().zip(old_weights.iter().copied()).collect();
            for (child, to) in after.children.iter().zip(weights) {
                if let Some(from) = known.get(child).filter(|from| *from != to) {
                    let (name, node) = (new.child_name(*child).to_owned(), after.name.clone());
                    steps.push(Step::Weight { name, node, from: *from, to: *to });
                }
            }
        }
        (Discipline::Priority, Discipline::Priority) => {
            let (old, new): (BTreeSet<_>, BTreeSet<_>) =
                (before.children.iter().map(key).collect(), after.children.iter().map(key).collect());
            let stays = |child: &&Child| old.contains(&key(child)) && new.contains(&key(child));
            if before.children.iter().filter(stays).ne(after.children.iter().filter(stays)) {
                steps.push(Step::Order { node: after.name.clone() });
            }
        }
        (Discipline::Custom(old_custom), Discipline::Custom(custom)) => {
            if text_changed(&after.name, old_custom, custom, steps) {
                return;
            }
            let known: BTreeMap<_, _> = before.children.iter().map(key).zip(&old_custom.parameters).collect();
            for (child, list) in after.children.iter().zip(&custom.parameters) {
                if known.get(&key(child)).is_some_and(|known| *known != list) {
                    let name = new.child_name(*child).to_owned();
                    steps.push(Step::Arguments { name, of: after.name.clone() });
                }
            }
        }
        _ => {}
    }
}

/// A key that orders children.
fn key(child: &Child) -> (bool, u32) {
    match child {
        Child::Leaf(leaf) => (false, leaf.0),
        Child::Node(node) => (true, node.0),
    }
}
