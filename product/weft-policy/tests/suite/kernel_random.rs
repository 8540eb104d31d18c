//! Properties of the kernel form over random policies.
//!
//! A draft is a tree of its own, which becomes the text of a policy. The ideal rates are computed from the draft, and never from what
//! the compiler makes of it.

use crate::kernel::policy;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use weft_policy::kernel::{
    ClassKind, FRAME, Handle, HtbClass, KernelDifference, KernelPart, KernelQdiscs, KernelTree, LowerError,
    Lowered, Parent, QdiscKind, diff, lower, lower_on,
};
use weft_policy::{CompiledPolicy, renumber};
use weft_units::BitsPerSec;
use weft_units::testing::Rng;

const LINK: u64 = 1_000_000_000;

/// A branch of a draft.
#[derive(Clone, Debug)]
enum Draft {
    /// A class, by its number, with the words before its name.
    Class(u32, &'static str),
    /// Two classes in one queue.
    Fifo(u32, u32),
    Priority(Vec<Draft>),
    Wfq(Vec<(Draft, u32)>),
    /// A limit in Mb/s.
    Limit(u64, Box<Draft>),
    /// A limit in Mb/s to the destination of the class.
    Destination(u64, u32),
}

/// The kinds of branches that drafts may have.
#[derive(Clone, Copy, Debug)]
struct Taste {
    limits: bool,
    /// Limits below weights, which make HTB classes of them.
    below: bool,
    destinations: bool,
    algorithms: bool,
    fifos: bool,
    priorities: bool,
}

const ANYTHING: Taste =
    Taste { limits: true, below: true, destinations: true, algorithms: true, fifos: true, priorities: true };

struct Drafter<'a> {
    rng: &'a mut Rng,
    classes: u32,
    taste: Taste,
}

impl Drafter<'_> {
    fn class(&mut self) -> u32 {
        self.classes += 1;
        self.classes
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.rng.below(count) == 0
    }

    fn leaf(&mut self) -> Draft {
        let number = self.class();
        if self.taste.fifos && self.one_in(8) {
            return Draft::Fifo(number, self.class());
        }
        if self.taste.destinations && self.one_in(8) {
            return Draft::Destination(1 + u64::from(self.rng.below(300)), number);
        }
        let words = if self.taste.algorithms { 4 } else { 2 };
        Draft::Class(
            number,
            ["", "fair of ", "las of ", "codel target 5ms of "][self.rng.below(words) as usize],
        )
    }

    /// A branch. `limits`: it may have some.
    fn branch(&mut self, depth: u32, limits: bool) -> Draft {
        let inner = if depth == 0 || self.one_in(3) {
            self.leaf()
        } else {
            let count = 2 + self.rng.below(3);
            if self.taste.priorities && self.one_in(2) {
                Draft::Priority((0..count).map(|_| self.branch(depth - 1, limits)).collect())
            } else {
                let below = limits && self.taste.below;
                Draft::Wfq(
                    (0..count).map(|_| (self.branch(depth - 1, below), 1 + self.rng.below(9))).collect(),
                )
            }
        };
        let held = matches!(inner, Draft::Destination(..));
        if limits && self.taste.limits && !held && self.one_in(5) {
            return Draft::Limit(1 + u64::from(self.rng.below(500)), Box::new(inner));
        }
        inner
    }
}

impl Draft {
    fn random(seed: u64, taste: Taste) -> (Self, u32) {
        let mut rng = Rng::new(seed);
        let mut drafter = Drafter { rng: &mut rng, classes: 0, taste };
        let mut first = drafter.branch(3, taste.limits);
        let mut second = drafter.branch(2, taste.limits);
        if !taste.priorities || drafter.one_in(2) {
            let rest = Self::Class(0, "");
            let draft = Self::Wfq(vec![(first, 1 + drafter.rng.below(4)), (second, 2), (rest, 1)]);
            if taste.below || !draft.is_limited() {
                return (draft, drafter.classes);
            }
            let Self::Wfq(children) = draft else { unreachable!("made above") };
            let mut children = children.into_iter().map(|(child, _)| child);
            (first, second) = (children.next().expect("first"), children.next().expect("second"));
        }
        (Self::Priority(vec![first, second, Self::Class(0, "")]), drafter.classes)
    }

    fn is_limited(&self) -> bool {
        match self {
            Self::Class(..) | Self::Fifo(..) => false,
            Self::Limit(..) | Self::Destination(..) => true,
            Self::Priority(children) => children.iter().any(Self::is_limited),
            Self::Wfq(children) => children.iter().any(|(child, _)| child.is_limited()),
        }
    }

    fn name(number: u32) -> String {
        if number == 0 { "default".to_owned() } else { format!("c{number}") }
    }

    fn expression(&self) -> String {
        match self {
            Self::Class(number, words) => format!("{words}{}", Self::name(*number)),
            Self::Fifo(a, b) => format!("fifo {{ {}, {} }}", Self::name(*a), Self::name(*b)),
            Self::Limit(rate, below) => format!("limit {rate}mbps of {}", below.expression()),
            Self::Destination(rate, class) => {
                format!(
                    "limit by destination {{ 10.0.{}.0/24: {rate}mbps }} of {}",
                    class % 256,
                    Self::name(*class)
                )
            }
            Self::Priority(children) => {
                let children: Vec<String> = children.iter().map(Self::expression).collect();
                format!("priority {{ {} }}", children.join(", "))
            }
            Self::Wfq(children) => {
                let children: Vec<String> = children
                    .iter()
                    .map(|(child, weight)| format!("{}: {weight}", child.expression()))
                    .collect();
                format!("wfq {{ {} }}", children.join(", "))
            }
        }
    }

    fn text(&self, classes: u32) -> String {
        let mut text = format!("link {LINK}bps\n");
        for number in 1..=classes {
            let _ = writeln!(text, "class c{number} = mark {number}");
        }
        let _ = writeln!(text, "root = {}", self.expression());
        text
    }

    fn has(&self, active: &BTreeSet<u32>) -> bool {
        match self {
            Self::Class(number, _) | Self::Destination(_, number) => active.contains(number),
            Self::Fifo(a, b) => active.contains(a) || active.contains(b),
            Self::Limit(_, below) => below.has(active),
            Self::Priority(children) => children.iter().any(|child| child.has(active)),
            Self::Wfq(children) => children.iter().any(|(child, _)| child.has(active)),
        }
    }

    /// The most that a branch can use, in b/s.
    fn most(&self, active: &BTreeSet<u32>) -> f64 {
        match self {
            _ if !self.has(active) => 0.0,
            Self::Class(..) | Self::Fifo(..) | Self::Destination(..) => f64::INFINITY,
            Self::Limit(rate, below) => below.most(active).min(*rate as f64 * 1e6),
            Self::Priority(children) => children.iter().map(|child| child.most(active)).sum(),
            Self::Wfq(children) => children.iter().map(|(child, _)| child.most(active)).sum(),
        }
    }

    /// The ideal rate of each class that has a backlog, by the meaning of the nodes alone.
    fn ideal(&self, rate: f64, active: &BTreeSet<u32>, rates: &mut BTreeMap<u32, f64>) {
        let rate = rate.min(self.most(active));
        match self {
            _ if !self.has(active) => {}
            Self::Class(number, _) | Self::Destination(_, number) | Self::Fifo(number, _) => {
                rates.insert(*number, rate);
            }
            Self::Limit(_, below) => below.ideal(rate, active, rates),
            Self::Priority(children) => {
                let mut left = rate;
                for child in children {
                    let used = left.min(child.most(active));
                    child.ideal(used, active, rates);
                    left -= used;
                }
            }
            Self::Wfq(children) => {
                // Raises the level of all until the rate is used: children that can use no more leave the group.
                let mut open: Vec<&(Self, u32)> =
                    children.iter().filter(|(child, _)| child.has(active)).collect();
                let full = |of: &(Self, u32)| of.0.most(active) / f64::from(of.1);
                open.sort_by(|a, b| full(a).total_cmp(&full(b)));
                let mut left = rate;
                let mut sum: f64 = open.iter().map(|(_, weight)| f64::from(*weight)).sum();
                for (child, weight) in open {
                    let share = (left * f64::from(*weight) / sum).min(child.most(active));
                    child.ideal(share, active, rates);
                    left -= share;
                    sum -= f64::from(*weight);
                }
            }
        }
    }
}

fn htb(tree: &KernelTree, handle: Handle) -> Option<HtbClass> {
    match tree.class(handle)?.kind {
        ClassKind::Htb(class) => Some(class),
        _ => None,
    }
}

/// The rates of the leaves of `tree` that have a backlog, by what each kind of qdisc does. HTB's rates without a guarantee are too small to
/// count, and no two HTB leaves with a backlog have the same order here.
fn implied(tree: &KernelTree, active: &BTreeSet<Handle>) -> BTreeMap<Handle, f64> {
    let mut rates = BTreeMap::new();
    let mut left: BTreeMap<Handle, f64> = BTreeMap::new();
    let mut leaves = Vec::new();
    for class in tree.classes() {
        let Some(of) = htb(tree, class.handle) else { continue };
        left.insert(class.handle, of.ceil.get() as f64);
        if tree.queue(class.handle).is_some() && has_backlog(tree, class.handle, active) {
            leaves.push((of.prio, class.handle));
        }
    }
    leaves.sort();
    for (_, leaf) in leaves {
        let mut above = vec![leaf];
        while let Some(class) =
            above.last().and_then(|at| tree.class(*at)).filter(|class| !class.parent.is_qdisc())
        {
            above.push(class.parent);
        }
        let rate = above.iter().map(|class| left[class]).fold(f64::INFINITY, f64::min);
        above.iter().for_each(|class| *left.get_mut(class).expect("a class") -= rate);
        share(tree, leaf, rate, active, &mut rates);
    }
    rates
}

/// The classes or bands of the qdisc at `at`, each with its quantum.
fn below(tree: &KernelTree, at: Handle) -> Option<(QdiscKind, Vec<(Handle, f64)>)> {
    let qdisc = tree.queue(at)?;
    let children = match qdisc.kind {
        QdiscKind::Drr => tree
            .classes()
            .filter(|class| class.parent == qdisc.handle)
            .filter_map(|class| match class.kind {
                ClassKind::Drr { quantum } => Some((class.handle, quantum.get() as f64)),
                _ => None,
            })
            .collect(),
        QdiscKind::Prio { bands, .. } => {
            (1..=u16::from(bands)).map(|minor| (Handle { minor, ..qdisc.handle }, 1.0)).collect()
        }
        _ => Vec::new(),
    };
    Some((qdisc.kind, children))
}

fn has_backlog(tree: &KernelTree, at: Handle, active: &BTreeSet<Handle>) -> bool {
    active.contains(&at)
        || below(tree, at)
            .is_some_and(|(_, of)| of.iter().any(|(child, _)| has_backlog(tree, *child, active)))
}

fn share(
    tree: &KernelTree,
    at: Handle,
    rate: f64,
    active: &BTreeSet<Handle>,
    rates: &mut BTreeMap<Handle, f64>,
) {
    if active.contains(&at) {
        rates.insert(at, rate);
        return;
    }
    let (kind, children) = below(tree, at).expect("a qdisc");
    let mut children: Vec<_> =
        children.into_iter().filter(|(child, _)| has_backlog(tree, *child, active)).collect();
    if matches!(kind, QdiscKind::Prio { .. }) {
        children.truncate(1);
    }
    let sum: f64 = children.iter().map(|(_, quantum)| quantum).sum();
    for (child, quantum) in children {
        share(tree, child, rate * quantum / sum, active, rates);
    }
}

/// Checks the rules of every tree.
fn check(found: &Lowered, policy: &CompiledPolicy) -> Result<(), TestCaseError> {
    let tree = &found.tree;
    let mut known = BTreeSet::new();
    for part in &tree.parts {
        prop_assert!(known.insert(part.handle()), "{} twice", part.handle());
        match part {
            KernelPart::Qdisc(qdisc) => check_qdisc(tree, &known, qdisc)?,
            KernelPart::Class(class) => {
                prop_assert!(known.contains(&class.parent), "{} before {}", class.handle, class.parent);
                check_class(tree, class.handle, class.kind)?;
            }
        }
    }
    check_default(tree, found)?;
    let mut leaves: BTreeMap<Handle, BTreeSet<u32>> = BTreeMap::new();
    for lane in &policy.program.lanes {
        let leaf = found.map.leaf(lane.class).expect("a leaf");
        leaves.entry(leaf).or_default().insert(lane.leaf.0);
        let way = found.map.way(tree, leaf);
        prop_assert_eq!(&way, &found.tree.ways()(leaf));
        prop_assert_eq!(way.first().map(|(qdisc, _)| *qdisc), Some(Handle::ROOT), "{} is not found", leaf);
        prop_assert!(tree.queue(leaf).is_some_and(|queue| queue.kind.is_leaf()));
        // Each of the limits is a ceiling on the way or a clock.
        let timed: Vec<_> = found.map.clocks_of(policy_lane(policy, lane)).map(|clock| clock.limit).collect();
        for limit in lane.limits.iter().filter(|limit| !timed.contains(limit)) {
            let rate = policy.program.limits[limit.index()].rate;
            let last = way.first().expect("HTB").1;
            prop_assert!(htb(tree, last).is_some_and(|class| class.ceil <= rate), "{leaf} is above {rate}");
        }
    }
    prop_assert!(leaves.values().all(|of| of.len() == 1), "a leaf of the policy has its own: {leaves:?}");
    prop_assert_eq!(leaves.len(), policy.program.leaves.len());
    match diff(tree, tree) {
        KernelDifference::InPlace(edits) => prop_assert!(edits.is_empty()),
        KernelDifference::NewRoot(reason) => prop_assert!(false, "{reason}"),
    }
    Ok(())
}

fn policy_lane(policy: &CompiledPolicy, lane: &weft_sched::LaneSpec) -> weft_units::LaneId {
    let at = policy.program.lanes.iter().position(|of| core::ptr::eq(of, lane));
    weft_units::LaneId::from_index(at.expect("one of them"))
}

fn check_qdisc(
    tree: &KernelTree,
    known: &BTreeSet<Handle>,
    qdisc: &weft_policy::kernel::Qdisc,
) -> Result<(), TestCaseError> {
    if let Parent::Class(class) = qdisc.parent {
        let parent = if known.contains(&class) { class } else { class.qdisc() };
        prop_assert!(known.contains(&parent), "{} before {class}", qdisc.handle);
    }
    match qdisc.kind {
        QdiscKind::Prio { bands, unclassified } => {
            prop_assert!((2..=16).contains(&bands) && (1..=bands).contains(&unclassified));
        }
        QdiscKind::FqCodel { limit, target } => prop_assert!(limit.get() > 0 && target.get() >= 5_000_000),
        QdiscKind::Pfifo { limit } => prop_assert!(limit.get() > 0),
        QdiscKind::Fq { limit, flow_limit } => {
            prop_assert!(flow_limit.get() > 0 && limit >= flow_limit);
            prop_assert!(htb(tree, qdisc.at()).is_some(), "it holds packets, and is not directly below HTB");
        }
        _ => {}
    }
    Ok(())
}

fn check_class(tree: &KernelTree, handle: Handle, kind: ClassKind) -> Result<(), TestCaseError> {
    match kind {
        ClassKind::Drr { quantum } => prop_assert!(quantum >= FRAME),
        ClassKind::Htb(of) => {
            prop_assert!(of.rate.get() >= 8 && of.rate <= of.ceil && of.prio < 8 && of.quantum >= FRAME);
            prop_assert!(of.burst.get() > 0 && of.cburst.get() > 0);
            let children = tree.classes().filter(|class| class.parent == handle);
            let rates: BitsPerSec =
                children.filter_map(|class| htb(tree, class.handle)).map(|class| class.rate).sum();
            prop_assert!(rates <= of.rate, "{handle} guarantees {rates} of {}", of.rate);
        }
        _ => {}
    }
    Ok(())
}

/// Checks that the way to the leaf of packets that no class takes is made first, and takes them.
fn check_default(tree: &KernelTree, found: &Lowered) -> Result<(), TestCaseError> {
    let queue = tree.queue(tree.default).expect("a queue");
    let mut way = vec![queue.handle];
    loop {
        let at = *way.last().expect("not empty");
        let up = match (tree.qdisc(at).map(|qdisc| qdisc.parent), tree.class(at)) {
            (Some(Parent::Root), _) => break,
            (Some(Parent::Class(class)), _) if tree.class(class).is_none() => class.qdisc(),
            (Some(Parent::Class(class)), _) => class,
            (None, class) => class.expect("a part").parent,
        };
        way.push(up);
    }
    let first: BTreeSet<Handle> = tree.parts.iter().take(way.len()).map(KernelPart::handle).collect();
    prop_assert_eq!(first, way.into_iter().collect::<BTreeSet<_>>());
    let mut at = tree.qdisc(Handle::ROOT).expect("a root");
    loop {
        let class = match at.kind {
            QdiscKind::Htb { default } => default,
            QdiscKind::Prio { unclassified, .. } => Handle { minor: unclassified.into(), ..at.handle },
            QdiscKind::Drr => {
                let filter = found.map.filters.iter().find(|filter| filter.qdisc == at.handle);
                filter.and_then(|filter| filter.otherwise).expect("drr drops what no class takes")
            }
            _ => break,
        };
        at = tree.queue(class).expect("a queue");
    }
    prop_assert_eq!(at.handle, queue.handle);
    Ok(())
}

/// The lowered form. `None` for a tree that is too deep or too wide, the only reasons that are accepted.
fn lowered(policy: &CompiledPolicy) -> Option<Lowered> {
    accepted(lower(policy))
}

fn accepted(lowered: Result<Lowered, LowerError>) -> Option<Lowered> {
    match lowered {
        Ok(found) => Some(found),
        Err(LowerError::TooManyBands(_, bands)) => {
            assert!(bands > 16, "{bands}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A tree after edits, by handle.
fn edited(old: &KernelTree, new: &KernelTree) -> Option<BTreeMap<Handle, KernelPart>> {
    let KernelDifference::InPlace(edits) = diff(old, new) else { return None };
    let mut parts: BTreeMap<Handle, KernelPart> =
        old.parts.iter().map(|part| (part.handle(), part.clone())).collect();
    for part in edits.added {
        assert!(parts.insert(part.handle(), part).is_none());
    }
    for part in edits.changed.into_iter().chain(edits.replaced) {
        assert!(parts.insert(part.handle(), part).is_some());
    }
    for part in edits.removed {
        let has = |of: &KernelPart| match of {
            KernelPart::Qdisc(qdisc) => qdisc.at() == part.handle() && qdisc.handle != part.handle(),
            KernelPart::Class(class) => class.parent == part.handle(),
        };
        assert!(!parts.values().any(has), "{} goes before what is below it", part.handle());
        assert!(parts.remove(&part.handle()).is_some());
    }
    Some(parts)
}

/// The part as a command, which has no title: trees that differ in titles only are equal.
fn untitled(part: &KernelPart) -> String {
    part.command("eth0")
}

proptest! {
    #[test]
    fn every_tree_is_sound(seed in any::<u64>()) {
        let (draft, classes) = Draft::random(seed, ANYTHING);
        let policy = policy(&draft.text(classes));
        if let Some(found) = lowered(&policy) {
            check(&found, &policy)?;
        }
    }

    #[test]
    fn every_tree_has_only_qdiscs_that_the_kernel_has(seed in any::<u64>(), kernel in 0_u8..16) {
        let (draft, classes) = Draft::random(seed, ANYTHING);
        let policy = policy(&draft.text(classes));
        let kinds = ["drr", "prio", "fq_codel", "fq"];
        let has = |kind: &str| kinds.iter().position(|known| *known == kind).is_none_or(|at| kernel >> at & 1 == 1);
        if let Some(found) = accepted(lower_on(&policy, KernelQdiscs::of(has))) {
            check(&found, &policy)?;
            for qdisc in found.tree.qdiscs() {
                prop_assert!(has(qdisc.kind.name()), "{} of {kernel:04b}", qdisc.kind.name());
            }
        }
    }

    #[test]
    fn shares_of_drr_and_priorities_are_ideal(seed in any::<u64>(), set in any::<u64>()) {
        let taste = Taste { below: false, destinations: false, algorithms: false, fifos: false, ..ANYTHING };
        let (draft, classes) = Draft::random(seed, taste);
        let policy = policy(&draft.text(classes));
        let Some(found) = lowered(&policy) else { return Ok(()) };
        // More levels than HTB has are a promise that is not kept.
        prop_assume!(found.refusal().is_none());
        let mut rng = Rng::new(set);
        let active: BTreeSet<u32> = (0..=classes).filter(|_| rng.below(2) == 0).collect();
        let mut ideal = BTreeMap::new();
        draft.ideal(LINK as f64, &active, &mut ideal);
        let leaf = |number: u32| {
            let name = Draft::name(number);
            let class = policy.classes.iter().position(|class| class.name == name).expect("a class");
            found.map.classes[class].expect("a leaf")
        };
        let implied = implied(&found.tree, &active.iter().map(|number| leaf(*number)).collect());
        for number in active {
            let (ideal, implied) = (ideal.get(&number).copied().unwrap_or(0.0), implied.get(&leaf(number)).copied().unwrap_or(0.0));
            prop_assert!((ideal - implied).abs() <= 1e-6 * LINK as f64, "c{number}: {implied} for {ideal}\n{}", draft.text(classes));
        }
    }

    #[test]
    fn guarantees_of_weights_are_the_ideal_rates_of_all(seed in any::<u64>()) {
        let taste = Taste { destinations: false, algorithms: false, fifos: false, priorities: false, ..ANYTHING };
        let (draft, classes) = Draft::random(seed, taste);
        let text = draft.text(classes);
        prop_assume!(draft.is_limited());
        let policy = policy(&text);
        let found = lowered(&policy).expect("a tree");
        let infrastructure = htb(&found.tree, Handle::INFRASTRUCTURE).expect("a class").rate;
        let mut ideal = BTreeMap::new();
        draft.ideal((LINK - infrastructure.get()) as f64, &(0..=classes).collect(), &mut ideal);
        for (number, ideal) in ideal {
            let name = Draft::name(number);
            let class = policy.classes.iter().position(|class| class.name == name).expect("a class");
            let leaf = found.map.classes[class].expect("a leaf");
            // Branches without a limit are drr below an HTB class.
            let Some(of) = htb(&found.tree, leaf) else { continue };
            let error = (of.rate.get() as f64 - ideal).abs();
            prop_assert!(error <= 1e-3 * ideal + 1e5, "{name}: {} for {ideal}\n{text}", of.rate.get());
        }
    }

    #[test]
    fn edits_make_the_new_tree(texts in prop::collection::vec(crate::change::text(), 2..5)) {
        let rated = |text: &String| policy(&format!("link 1gbps\n{text}"));
        let mut old = rated(&texts[0]);
        for text in &texts[1..] {
            let new = renumber(&old, rated(text)).policy;
            let (before, after) = (lowered(&old).expect("old"), lowered(&new).expect("new"));
            if let Some(parts) = edited(&before.tree, &after.tree) {
                let expected: BTreeMap<Handle, String> =
                    after.tree.parts.iter().map(|part| (part.handle(), untitled(part))).collect();
                let got: BTreeMap<Handle, String> =
                    parts.iter().map(|(handle, part)| (*handle, untitled(part))).collect();
                prop_assert_eq!(got, expected);
            }
            old = new;
        }
    }
}
