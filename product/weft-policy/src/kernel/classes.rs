//! The classes of packets: the value that the classifying program writes for each of them, and the filters on the way to its leaf.
//!
//! A value in `skb->priority` addresses one qdisc, the one that holds the leaf. Each qdisc above it needs a filter that maps the value to
//! one of its own classes.

use super::shape::{LimitClock, Shape, find};
use super::tree::{Handle, KernelPart, KernelTree, Parent, QdiscKind, parents, up};
use crate::compiled::CompiledPolicy;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use weft_units::{ClassId, LaneId, LimitId};

/// The filter of one qdisc, as data for a cls_bpf program in direct-action mode. The program stores the minor number in
/// `skb->tc_classid`; the major number comes from the filter's `classid`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassFilter {
    /// The qdisc.
    pub qdisc: Handle,
    /// The class in it for each leaf that belongs to a qdisc below.
    pub classes: BTreeMap<Handle, Handle>,
    /// The class of all other packets, on the way to the leaf of packets that no class takes. Without it drr drops them.
    pub otherwise: Option<Handle>,
}

/// The classes of packets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClassMap {
    /// The leaf of each class, by `ClassId`; `None` for a vacant one. Its [`value`](Handle::value) is what the program writes.
    pub classes: Vec<Option<Handle>>,
    /// The leaf of infrastructure within its share, unless the policy has a class of this name.
    pub infrastructure: Option<Handle>,
    /// The filters, those of outer qdiscs first.
    pub filters: Vec<ClassFilter>,
    /// The limits by destination and port.
    pub clocks: Vec<LimitClock>,
    /// The clocks of each lane, by `LaneId`.
    pub lanes: Vec<Vec<LimitId>>,
}

impl ClassMap {
    pub(super) fn new(
        policy: &CompiledPolicy,
        tree: &KernelTree,
        leaves: &[Option<Handle>],
        (shape, infrastructure): (&Shape<'_>, bool),
    ) -> Self {
        let mut classes = vec![None; policy.classes.len()];
        for lane in policy.program.lanes.iter().filter(|lane| !lane.is_vacant()) {
            if let Some(slot) = classes.get_mut(lane.class.index()) {
                *slot = leaves.get(lane.leaf.index()).copied().flatten();
            }
        }
        let infrastructure = infrastructure.then_some(Handle::INFRASTRUCTURE);
        let filters = filters(tree, leaves);
        Self { classes, infrastructure, filters, clocks: shape.clocks.clone(), lanes: shape.lanes.clone() }
    }

    /// The leaf of `class`.
    pub fn leaf(&self, class: ClassId) -> Option<Handle> {
        self.classes.get(class.index()).copied().flatten()
    }

    /// The clocks of `lane`.
    pub fn clocks_of(&self, lane: LaneId) -> impl Iterator<Item = &LimitClock> {
        let limits = self.lanes.get(lane.index()).map(Vec::as_slice).unwrap_or_default();
        limits.iter().filter_map(|limit| find(&self.clocks, *limit))
    }

    /// The way of a packet with the value of `leaf` from the root: each qdisc, with the class that it chooses for the value. Empty if a
    /// qdisc on the way chooses no class.
    pub fn way(&self, tree: &KernelTree, leaf: Handle) -> Vec<(Handle, Handle)> {
        let mut way = Vec::new();
        let mut at = Handle::ROOT;
        while at != leaf.qdisc() {
            let filter = self.filters.iter().find(|filter| filter.qdisc == at);
            let Some(class) = filter.and_then(|filter| filter.classes.get(&leaf)) else { return Vec::new() };
            way.push((at, *class));
            match tree.queue(*class) {
                Some(below) if way.len() < tree.parts.len() => at = below.handle,
                _ => return Vec::new(),
            }
        }
        way.push((at, leaf));
        way
    }
}

fn filters(tree: &KernelTree, leaves: &[Option<Handle>]) -> Vec<ClassFilter> {
    let parents = parents(&tree.parts);
    let mut classes: BTreeMap<Handle, BTreeMap<Handle, Handle>> = BTreeMap::new();
    for leaf in leaves.iter().flatten() {
        for (qdisc, class) in up(&parents, *leaf).into_iter().skip(1) {
            classes.entry(qdisc).or_default().insert(*leaf, class);
        }
    }
    let default: HashMap<Handle, Handle> = up(&parents, tree.default).into_iter().collect();
    let filter = |qdisc: &super::Qdisc| {
        let classes = classes.remove(&qdisc.handle).unwrap_or_default();
        // HTB and prio have a parameter for such packets.
        let drr = qdisc.kind == QdiscKind::Drr;
        let otherwise = default.get(&qdisc.handle).copied().filter(|_| drr);
        let needed = !classes.is_empty() || otherwise.is_some();
        needed.then_some(ClassFilter { qdisc: qdisc.handle, classes, otherwise })
    };
    tree.qdiscs().filter_map(filter).collect()
}

/// The parts in the order in which they are made: what leads to the leaf `default` first.
pub(super) fn ordered(mut parts: Vec<KernelPart>, default: Handle) -> KernelTree {
    let parents = parents(&parts);
    let way = up(&parents, default);
    let mut first: BTreeSet<Handle> = way.iter().flat_map(|(qdisc, class)| [*qdisc, *class]).collect();
    let classes: HashMap<Handle, Handle> = parts
        .iter()
        .filter_map(|part| {
            if let KernelPart::Class(class) = part { Some((class.handle, class.parent)) } else { None }
        })
        .collect();
    let htb = way.last().map_or(default, |(_, class)| *class);
    let mut at = htb;
    while let Some(parent) = classes.get(&at) {
        first.insert(*parent);
        at = *parent;
    }
    for part in &mut parts {
        let KernelPart::Qdisc(qdisc) = part else { continue };
        if qdisc.parent == Parent::Class(default) {
            first.insert(qdisc.handle);
        }
        match &mut qdisc.kind {
            QdiscKind::Htb { default } => *default = htb,
            QdiscKind::Prio { unclassified, .. } => {
                let band = way.iter().find(|(of, _)| *of == qdisc.handle).map(|(_, band)| band.minor);
                *unclassified = band.map_or(*unclassified, |band| band as u8);
            }
            _ => {}
        }
    }
    parts.sort_by_key(|part| !first.contains(&part.handle()));
    KernelTree { parts, default }
}
