//! The classes of HTB.

use super::{ExportError, Losses};
use crate::compiled::CompiledPolicy;
use crate::lowering::model::default_burst;
use crate::promise::{LIMITS, ORDER};
use std::collections::{BTreeMap, BTreeSet};
use weft_sched::guarantee::guaranteed_rates;
use weft_sched::program::{Child, Discipline, LeafDiscipline, Program};
use weft_units::{BitsPerSec, Bytes, ClassId, LaneId, LeafId, LimitId, NodeId, Packets};

/// The most inner classes between the root and a leaf, with that of the whole link (`TC_HTB_MAXDEPTH`, `htb_change_class`).
const INNER_MAX: usize = 7;
/// The last value of `prio` (`TC_HTB_NUMPRIO`).
const PRIO_MAX: u32 = 7;
/// The rate of a class without a guarantee: HTB has no class without a rate.
const RATE_MIN: BitsPerSec = BitsPerSec(8_000);
/// The range of `quantum`, in bytes: one frame, and what tc warns above.
const QUANTUM: (u64, u64) = (1538, 199_940);
/// The first minor number of a lane's class.
const LANES: u32 = 0x10;
/// The first minor number of a node's class.
const NODES: u32 = 0x8000;
/// The class of the whole link.
pub(super) const WHOLE: u32 = 1;

/// An HTB class.
#[derive(Debug)]
pub(super) struct Class {
    /// The comment above its command.
    pub(super) title: String,
    pub(super) minor: u32,
    parent: u32,
    rate: BitsPerSec,
    ceil: BitsPerSec,
    ceil_burst: Option<Bytes>,
    prio: u32,
    quantum: u64,
    /// The length of its FIFO; `None` for an inner class.
    pub(super) packets: Option<Packets>,
}

/// The HTB classes of a policy, every parent before its children.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) classes: Vec<Class>,
    /// The class of each lane.
    minors: Vec<u32>,
}

impl Tree {
    /// The minor number of the class of `lane`.
    pub(super) fn minor(&self, lane: LaneId) -> u32 {
        self.minors.get(lane.index()).copied().unwrap_or(WHOLE)
    }

    /// The class of packets that no filter takes: that of the last destination of the last row's class.
    pub(super) fn default_minor(&self, policy: &CompiledPolicy) -> u32 {
        let class = policy.rules.last().map_or_else(ClassId::default, |rule| rule.class);
        let last = policy.destinations.get(class.index()).and_then(|rows| rows.last());
        last.map_or(WHOLE, |row| self.minor(row.lane))
    }
}

impl Class {
    /// The command that adds the class.
    pub(super) fn command(&self, device: &str) -> String {
        let parent = if self.minor == WHOLE { String::new() } else { format!("{:x}", self.parent) };
        let ceil_burst = self.ceil_burst.unwrap_or_else(|| default_burst(self.ceil));
        let leaf = match self.packets {
            Some(_) => format!(" prio {} quantum {}", self.prio, self.quantum),
            None => format!(" quantum {}", self.quantum),
        };
        format!(
            "tc class add dev {device} parent 1:{parent} classid 1:{:x} htb rate {}bit ceil {}bit burst {}b cburst {}b overhead 24{leaf}",
            self.minor,
            self.rate.get(),
            self.ceil.get(),
            default_burst(self.rate).get(),
            ceil_burst.get().max(1600),
        )
    }
}

/// A class's parent and depth while the tree is built.
#[derive(Clone, Copy)]
struct Place {
    parent: u32,
    inner: usize,
    ceil: BitsPerSec,
}

struct Builder<'a> {
    policy: &'a CompiledPolicy,
    program: &'a Program,
    link: BitsPerSec,
    guaranteed: Vec<BitsPerSec>,
    prios: Vec<u32>,
    /// The limits that a class of a whole branch enforces.
    covered: BTreeSet<LimitId>,
    /// The lanes of each limit.
    lanes: BTreeMap<LimitId, BTreeSet<usize>>,
    tree: Tree,
    losses: &'a mut Losses,
}

/// The HTB classes of `policy` on a link of `link`.
pub(super) fn tree(
    policy: &CompiledPolicy,
    link: BitsPerSec,
    losses: &mut Losses,
) -> Result<Tree, ExportError> {
    let program = &policy.program;
    let (count, most) =
        (program.lanes.len() + program.nodes.len() + program.leaves.len(), (NODES - LANES) as usize);
    if count > most {
        return Err(ExportError::TooManyClasses(count, most));
    }
    let mut lanes: BTreeMap<LimitId, BTreeSet<usize>> = BTreeMap::new();
    for (number, lane) in program.lanes.iter().enumerate() {
        for limit in &lane.limits {
            lanes.entry(*limit).or_default().insert(number);
        }
    }
    let mut prios = vec![0; program.leaves.len()];
    let last = assign_prios(program, program.root, 0, &mut prios);
    if last > PRIO_MAX + 1 {
        losses.add(ORDER, format!(
            "strict priority: HTB has {} orders of spare rate, the policy {last}; the last ones are equal",
            PRIO_MAX + 1
        ));
    }
    let mut builder = Builder {
        policy,
        program,
        link,
        guaranteed: guaranteed_rates(program, link),
        prios,
        covered: BTreeSet::new(),
        lanes,
        tree: Tree { classes: Vec::new(), minors: vec![WHOLE; program.lanes.len()] },
        losses,
    };
    builder.build();
    Ok(builder.tree)
}

/// Numbers the leaves below `child` from `prio` on in the order of strict priority. Returns the number after the last.
fn assign_prios(program: &Program, child: Child, prio: u32, prios: &mut [u32]) -> u32 {
    let node = match child {
        Child::Leaf(leaf) => {
            prios.iter_mut().skip(leaf.index()).take(1).for_each(|of| *of = prio.min(PRIO_MAX));
            return prio + 1;
        }
        Child::Node(id) => program.nodes.get(id.index()),
    };
    let Some(node) = node else { return prio };
    match &node.discipline {
        Discipline::Priority => {
            node.children.iter().fold(prio, |next, child| assign_prios(program, *child, next, prios))
        }
        Discipline::Wfq(_) | Discipline::Custom(_) => {
            let ends = node.children.iter().map(|child| assign_prios(program, *child, prio, prios));
            ends.max().unwrap_or(prio)
        }
    }
}

impl Builder<'_> {
    fn build(&mut self) {
        self.tree.classes.push(Class {
            title: "the whole link".to_owned(),
            minor: WHOLE,
            parent: 0,
            rate: self.link,
            ceil: self.link,
            ceil_burst: None,
            prio: 0,
            quantum: QUANTUM.1,
            packets: None,
        });
        self.say_what_priority_and_weights_lose();
        let root = self.program.root;
        self.child(root, Place { parent: WHOLE, inner: 1, ceil: self.link });
        for (limit, lanes) in core::mem::take(&mut self.lanes) {
            if lanes.len() > 1 && !self.covered.contains(&limit) {
                let name = self.program.limits.get(limit.index()).map_or("?", |limit| &limit.name);
                self.losses.add(
                    LIMITS,
                    format!(
                        "the limit {name} holds for {} classes together; here each of them has it alone",
                        lanes.len()
                    ),
                );
            }
        }
    }

    fn say_what_priority_and_weights_lose(&mut self) {
        let priority = |node: &weft_sched::program::NodeSpec| node.discipline == Discipline::Priority;
        if self.program.nodes.iter().any(priority) {
            self.losses.add(
                ORDER,
                "strict priority: HTB serves each class up to its rate first, and offers spare rate in the order of `prio`",
            );
        }
        if self.program.nodes.iter().any(|node| !priority(node)) {
            self.losses.add(ORDER, "weights: spare rate is shared between leaves by `quantum`, not by the weights on the way to them");
        }
        let custom = |node: &weft_sched::program::NodeSpec| matches!(node.discipline, Discipline::Custom(_));
        let custom_leaf =
            |leaf: &weft_sched::program::LeafSpec| matches!(leaf.discipline, LeafDiscipline::Custom(_));
        if self.program.nodes.iter().any(custom) || self.program.leaves.iter().any(custom_leaf) {
            self.losses.lose("algorithms run", "algorithms: HTB runs none; their classes share spare rate as others do, and have no guarantee");
        }
        if self.guaranteed.iter().any(|rate| *rate < RATE_MIN) {
            self.losses.add(ORDER, "a class below others in strict priority has no guarantee; HTB needs a rate, and it gets 8 kb/s");
        }
    }

    fn child(&mut self, child: Child, place: Place) {
        match child {
            Child::Leaf(leaf) => self.leaf(leaf, place),
            Child::Node(node) => self.node(node, place),
        }
    }

    fn node(&mut self, id: NodeId, place: Place) {
        let Some(node) = self.program.nodes.get(id.index()) else { return };
        let lanes = self.lanes_below(Child::Node(id));
        let place = if place.inner < INNER_MAX {
            let rate = self.sum_below(Child::Node(id));
            let title = format!("{}: {}", node.name, discipline_text(&node.discipline));
            let minor = NODES + id.0;
            self.inner(title, minor, rate, &lanes, place)
        } else {
            self.losses.add(
                ORDER,
                format!("the node {}: HTB has no level below, its children are with its parent's", node.name),
            );
            place
        };
        node.children.iter().for_each(|child| self.child(*child, place));
    }

    /// Adds an inner class for a branch with these lanes.
    fn inner(
        &mut self,
        title: String,
        minor: u32,
        rate: BitsPerSec,
        lanes: &BTreeSet<usize>,
        place: Place,
    ) -> Place {
        let own = self.own_limits(lanes);
        let (ceil, ceil_burst) = self.ceil(&own, place.ceil);
        self.tree.classes.push(Class {
            title,
            minor,
            parent: place.parent,
            rate: at_least(rate).min(ceil),
            ceil,
            ceil_burst,
            prio: 0,
            quantum: QUANTUM.1,
            packets: None,
        });
        Place { parent: minor, inner: place.inner + 1, ceil }
    }

    fn leaf(&mut self, id: LeafId, mut place: Place) {
        let Some(leaf) = self.program.leaves.get(id.index()) else { return };
        let lanes: Vec<usize> = self.lanes_below(Child::Leaf(id)).into_iter().collect();
        let rate = self.guaranteed.get(id.index()).copied().unwrap_or_default();
        if leaf.discipline == LeafDiscipline::Fair {
            self.losses.add(ORDER, format!(
                "`fair of {}`: its flows share one FIFO; where the kernel has fq_codel, put it in place of the pfifo",
                leaf.name
            ));
        }
        let mut groups: BTreeMap<Vec<LimitId>, Vec<usize>> = BTreeMap::new();
        for lane in &lanes {
            groups.entry(self.program.lanes[*lane].limits.clone()).or_default().push(*lane);
        }
        if groups.len() > 1 {
            self.losses.add(
                ORDER,
                format!(
                    "the one queue of {}: packets under different limits wait in queues of their own",
                    leaf.name
                ),
            );
            if place.inner < INNER_MAX {
                let minor = NODES + self.program.nodes.len() as u32 + id.0;
                place = self.inner(
                    format!("{}: a queue for each set of limits", leaf.name),
                    minor,
                    rate,
                    &lanes.iter().copied().collect(),
                    place,
                );
            }
        }
        let part = BitsPerSec(rate.get() / groups.len().max(1) as u64);
        for (_, lanes) in groups {
            self.queue(id, &lanes, part, place);
        }
    }

    /// Adds the class of lanes that wait in one queue.
    fn queue(&mut self, leaf: LeafId, lanes: &[usize], rate: BitsPerSec, place: Place) {
        let Some(first) = lanes.first().copied() else { return };
        let minor = LANES + first as u32;
        self.own_limits(&lanes.iter().copied().collect());
        let (ceil, ceil_burst) = self.ceil(&self.program.lanes[first].limits, place.ceil);
        lanes.iter().for_each(|lane| self.tree.minors[*lane] = minor);
        let spec = |lane: &usize| &self.program.lanes[*lane];
        let mut names: Vec<&str> = lanes
            .iter()
            .filter_map(|lane| self.policy.classes.get(spec(lane).class.index()))
            .map(|class| class.name.as_str())
            .collect();
        names.dedup();
        let limits = spec(&first).limits.iter().filter_map(|limit| self.program.limits.get(limit.index()));
        let limits: Vec<&str> = limits.map(|limit| limit.name.as_str()).collect();
        let under = if limits.is_empty() { String::new() } else { format!(", under {}", limits.join(", ")) };
        let bound = lanes.iter().map(|lane| spec(lane).packet_bound).max().unwrap_or(Packets(1));
        let class = Class {
            title: format!("{}{under}", names.join(" and ")),
            minor,
            parent: place.parent,
            rate: at_least(rate).min(ceil),
            ceil,
            ceil_burst,
            prio: self.prios.get(leaf.index()).copied().unwrap_or(PRIO_MAX),
            quantum: self.quantum(rate),
            packets: Some(bound),
        };
        self.tree.classes.push(class);
    }

    /// The limits that hold for exactly these lanes. A class with these lanes enforces them completely.
    fn own_limits(&mut self, lanes: &BTreeSet<usize>) -> Vec<LimitId> {
        let own = self.lanes.iter().filter(|(_, of)| *of == lanes).map(|(limit, _)| *limit);
        let own: Vec<LimitId> = own.collect();
        self.covered.extend(&own);
        own
    }

    /// The least of `limits` as the ceiling of a class below one with the ceiling `above`, and its burst.
    fn ceil(&self, limits: &[LimitId], above: BitsPerSec) -> (BitsPerSec, Option<Bytes>) {
        let specs = limits.iter().filter_map(|limit| self.program.limits.get(limit.index()));
        let least = specs.filter(|spec| spec.rate < above).min_by_key(|spec| spec.rate);
        least.map_or((above, None), |spec| (spec.rate, Some(spec.burst)))
    }

    /// Spare rate is shared in proportion to quanta, which represent the guaranteed rates.
    fn quantum(&self, rate: BitsPerSec) -> u64 {
        let least =
            self.guaranteed.iter().copied().filter(|rate| *rate >= RATE_MIN).min().unwrap_or(RATE_MIN);
        let scaled = u128::from(QUANTUM.0) * u128::from(rate.get()) / u128::from(least.get().max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX).clamp(QUANTUM.0, QUANTUM.1)
    }

    fn lanes_below(&self, child: Child) -> BTreeSet<usize> {
        let leaves = self.leaves_below(child);
        let lanes = self.program.lanes.iter().enumerate();
        lanes.filter(|(_, lane)| leaves.contains(&lane.leaf)).map(|(number, _)| number).collect()
    }

    fn leaves_below(&self, child: Child) -> BTreeSet<LeafId> {
        let (mut open, mut found) = (vec![child], BTreeSet::new());
        while let Some(child) = open.pop() {
            match child {
                Child::Leaf(leaf) => {
                    found.insert(leaf);
                }
                Child::Node(id) => open.extend(
                    self.program.nodes.get(id.index()).into_iter().flat_map(|n| n.children.iter().copied()),
                ),
            }
        }
        found
    }

    fn sum_below(&self, child: Child) -> BitsPerSec {
        let rates = self
            .leaves_below(child)
            .into_iter()
            .map(|leaf| self.guaranteed.get(leaf.index()).copied().unwrap_or_default());
        BitsPerSec(rates.fold(0, |sum, rate| sum.saturating_add(at_least(rate).get())))
    }
}

fn at_least(rate: BitsPerSec) -> BitsPerSec {
    rate.max(RATE_MIN)
}

fn discipline_text(discipline: &Discipline) -> &'static str {
    match discipline {
        Discipline::Priority => "strict priority",
        Discipline::Wfq(_) => "weighted fair queueing",
        Discipline::Custom(_) => "an algorithm of its own",
    }
}
