//! Effects of a change that its author may not have meant.

use crate::compiled::CompiledPolicy;
use core::fmt;
use std::collections::BTreeSet;
use weft_packet::ethernet;
use weft_sched::guarantee::guaranteed_rates;
use weft_sched::{Child, Discipline, Program};
use weft_units::{BitsPerSec, LeafId, Nanos};

/// The most warnings of one kind. Those beyond rarely add information.
const WARNINGS_MAX: usize = 100;

/// The rate of a link whose policy states none. Only whether a guarantee is zero counts.
const SOME_LINK: BitsPerSec = BitsPerSec(10_000_000_000);

/// The time between two packets from which on a limit looks like a mistake.
const SLOW: Nanos = Nanos::from_millis(100);

/// An effect that the author of a change may not have meant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Warning {
    /// A class had a guaranteed rate and has none.
    NoRate {
        /// The class.
        class: String,
        /// A class that is served strictly before it, if there is one.
        behind: Option<String>,
    },
    /// Control traffic, or the class that the policy puts first, is now served after something else.
    Overtaken {
        /// The class.
        class: String,
        /// The leaves that are served before it and were not.
        by: Vec<String>,
    },
    /// A limit lets less than one full packet pass in a tenth of a second.
    SlowLimit {
        /// The limit.
        limit: String,
        /// Its rate.
        rate: BitsPerSec,
    },
}

impl Warning {
    /// The kind of the effect, in one word.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NoRate { .. } => "no-rate",
            Self::Overtaken { .. } => "overtaken",
            Self::SlowLimit { .. } => "slow-limit",
        }
    }

    /// The remedy, in one line.
    pub const fn help(&self) -> &'static str {
        match self {
            Self::NoRate { .. } => "limit what is served before it, or share by `wfq`",
            Self::Overtaken { .. } => "put control traffic first, or limit what is served before it",
            Self::SlowLimit { .. } => "check the unit of the rate: kbps, mbps, gbps",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRate { class, behind: Some(behind) } => {
                write!(f, "class {class} is left without a rate of its own: {behind} goes before it")
            }
            Self::NoRate { class, behind: None } => {
                write!(f, "class {class} is left without a rate of its own")
            }
            Self::Overtaken { class, by } => {
                let shown: Vec<&str> = by.iter().take(3).map(String::as_str).collect();
                let more = if by.len() > 3 { ", ..." } else { "" };
                write!(f, "class {class} was served first and now waits for {}{more}", shown.join(", "))
            }
            Self::SlowLimit { limit, rate } => {
                write!(f, "limit {limit}: at {rate} a full packet needs more than {SLOW}")
            }
        }
    }
}

/// The warnings for a change from `old` to `new`, which has the numbers of `old`.
pub(super) fn warnings(old: &CompiledPolicy, new: &CompiledPolicy) -> Vec<Warning> {
    if old == new {
        return Vec::new();
    }
    let mut warnings = without_rate(old, new);
    warnings.extend(overtaken(old, new));
    warnings.extend(slow_limits(old, new));
    warnings
}

/// The leaf of each class of `policy` that is not vacant.
fn class_leaves(policy: &CompiledPolicy) -> Vec<Option<LeafId>> {
    let mut leaves = vec![None; policy.classes.len()];
    for lane in policy.program.lanes.iter().filter(|lane| !lane.is_vacant()) {
        if let Some(leaf) = leaves.get_mut(lane.class.index()) {
            *leaf = Some(lane.leaf);
        }
    }
    leaves
}

fn without_rate(old: &CompiledPolicy, new: &CompiledPolicy) -> Vec<Warning> {
    let rates = |policy: &CompiledPolicy| guaranteed_rates(&policy.program, policy.link.unwrap_or(SOME_LINK));
    let (before, after) = (rates(old), rates(new));
    let (old_leaves, new_leaves) = (class_leaves(old), class_leaves(new));
    let rate = |rates: &[BitsPerSec], leaf: LeafId| rates.get(leaf.index()).copied().unwrap_or_default();
    let lost = |(_, (from, to)): &(usize, (&Option<LeafId>, &Option<LeafId>))| match (from, to) {
        (Some(from), Some(to)) => {
            rate(&before, *from) > BitsPerSec::ZERO && rate(&after, *to) == BitsPerSec::ZERO
        }
        _ => false,
    };
    let classes = old_leaves.iter().zip(&new_leaves).enumerate().filter(lost).take(WARNINGS_MAX);
    let warning = |(class, (_, leaf)): (usize, (&Option<LeafId>, &Option<LeafId>))| {
        let ahead = leaf.map(|leaf| ahead_of(&new.program, leaf)).unwrap_or_default();
        let open = ahead.into_iter().rev().find(|leaf| !limited(&new.program, *leaf));
        let behind = open.map(|leaf| new.program.leaves[leaf.index()].name.clone());
        Warning::NoRate { class: new.classes[class].name.clone(), behind }
    };
    classes.map(warning).collect()
}

/// Whether every lane of `leaf` has a limit.
fn limited(program: &Program, leaf: LeafId) -> bool {
    program.lanes.iter().filter(|lane| lane.leaf == leaf).all(|lane| !lane.limits.is_empty())
}

fn overtaken(old: &CompiledPolicy, new: &CompiledPolicy) -> Vec<Warning> {
    let first = first_leaf(&old.program);
    let (old_leaves, new_leaves) = (class_leaves(old), class_leaves(new));
    let mut warnings = Vec::new();
    for (class, info) in old.classes.iter().enumerate() {
        let (Some(before), Some(Some(after))) = (old_leaves[class], new_leaves.get(class)) else { continue };
        if info.name != crate::compiled::INFRASTRUCTURE && Some(before) != first {
            continue;
        }
        let known: BTreeSet<LeafId> = ahead_of(&old.program, before).into_iter().collect();
        let ahead = ahead_of(&new.program, *after).into_iter().filter(|leaf| !known.contains(leaf));
        let by: Vec<String> = ahead.map(|leaf| new.program.leaves[leaf.index()].name.clone()).collect();
        if !by.is_empty() {
            warnings.push(Warning::Overtaken { class: info.name.clone(), by });
        }
    }
    warnings
}

/// The leaf that strict priority alone puts before everything else.
fn first_leaf(program: &Program) -> Option<LeafId> {
    let mut at = program.root;
    loop {
        match at {
            Child::Leaf(leaf) => return Some(leaf).filter(|_| at != program.root),
            Child::Node(node) => match program.nodes.get(node.index()) {
                Some(node) if node.discipline == Discipline::Priority => at = *node.children.first()?,
                _ => return None,
            },
        }
    }
}

/// The leaves that are served strictly before `leaf`, in order from the root down.
fn ahead_of(program: &Program, leaf: LeafId) -> Vec<LeafId> {
    let mut path = Vec::new();
    if !path_to(program, leaf, &mut path) {
        return Vec::new();
    }
    let mut ahead = Vec::new();
    for (node, slot) in path {
        let node = &program.nodes[node];
        if node.discipline == Discipline::Priority {
            node.children[..slot].iter().for_each(|child| leaves_below(program, *child, &mut ahead));
        }
    }
    ahead
}

/// The nodes and slots from the root down to `leaf`; false if it is not in the tree.
fn path_to(program: &Program, leaf: LeafId, path: &mut Vec<(usize, usize)>) -> bool {
    let mut parents = std::collections::BTreeMap::new();
    for (at, node) in program.nodes.iter().enumerate() {
        for (slot, child) in node.children.iter().enumerate() {
            match child {
                Child::Leaf(id) if *id == leaf => path.push((at, slot)),
                Child::Leaf(_) => {}
                Child::Node(id) => _ = parents.insert(id.index(), (at, slot)),
            }
        }
    }
    while let Some(above) = path.last().and_then(|(node, _)| parents.get(node)) {
        path.push(*above);
    }
    path.reverse();
    !path.is_empty()
}

fn leaves_below(program: &Program, child: Child, found: &mut Vec<LeafId>) {
    let mut open = vec![child];
    while let Some(child) = open.pop() {
        match child {
            Child::Leaf(leaf) => found.push(leaf),
            Child::Node(node) => open.extend(program.nodes[node.index()].children.iter().rev().copied()),
        }
    }
}

fn slow_limits(old: &CompiledPolicy, new: &CompiledPolicy) -> Vec<Warning> {
    let frame = ethernet::wire_of(ethernet::frame_of(ethernet::MTU));
    let mut warnings = Vec::new();
    for (at, limit) in new.program.limits.iter().enumerate().filter(|(_, limit)| !limit.is_vacant()) {
        let known = old.program.limits.get(at).is_some_and(|old| old.rate == limit.rate && !old.is_vacant());
        if !known && limit.rate.time_for(frame) > SLOW && warnings.len() < WARNINGS_MAX {
            warnings.push(Warning::SlowLimit { limit: limit.name.clone(), rate: limit.rate });
        }
    }
    warnings
}
