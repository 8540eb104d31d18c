//! The lowering: the engine's tree becomes qdiscs and classes.

use super::Lowered;
use super::classes::{self, ClassMap};
use super::parts::{self, Claim, FRAME, Fraction, LEAST_BURST, QUANTUM, burst, divide, limit_burst, whole};
use super::promises::{self, NodeForm, Notes};
use super::qdiscs::KernelQdiscs;
use super::shape::{BANDS, Form, LEVELS, Shape};
use super::tree::{Class, ClassKind, Handle, HtbClass, KernelPart, Parent, Qdisc, QdiscKind};
use crate::compiled::{CompiledPolicy, infrastructure_rate};
use crate::promise::{About, Refusal};
use crate::words::of_discipline;
use std::collections::BTreeMap;
use weft_sched::program::{Child, Discipline, LeafDiscipline};
use weft_units::{BitsPerSec, Bytes, ClassId, LeafId, NodeId, Packets};

/// The most inner classes of HTB between the qdisc and a leaf, with that of the link (`TC_HTB_MAXDEPTH`, `htb_change_class`).
const INNER_MAX: usize = 7;
/// The most qdiscs below each other: those of the kernel's own check of loops (`check_loop_fn`).
const NESTED_MAX: usize = 8;
/// The most packets of infrastructure that wait.
const INFRASTRUCTURE_BOUND: Packets = Packets(1_000);
/// The fewest packets of a flow that wait for a clock, as fq has it.
const FLOW_LIMIT: u64 = 100;

/// An error of the lowering: the policy has no kernel form.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// Ceilings and quanta need the link's rate.
    #[error(
        "the rate of the link is unknown; state it in the policy, such as `link 10gbps`, or give it by --rate: a little less than the rate of the next link that is full"
    )]
    NoLinkRate,
    /// The kernel keeps rates in bytes per second.
    #[error("a link of {0} is too slow for {1} classes; give it a higher rate")]
    LinkTooSlow(BitsPerSec, usize),
    /// The kernel numbers classes with 16 bits.
    #[error(
        "the policy has {leaves} leaves and {nodes} nodes, and the kernel has numbers for {} and {}; merge classes",
        Handle::LEAVES_MAX,
        Handle::NODES_MAX
    )]
    TooManyParts {
        /// The leaves.
        leaves: usize,
        /// The inner nodes.
        nodes: usize,
    },
    /// The kernel calls each qdisc from the one above it.
    #[error("`{0}` is below more than {NESTED_MAX} levels of qdiscs; write fewer levels of `wfq`")]
    TooDeep(String),
    /// A prio qdisc has 16 bands.
    #[error(
        "the priority `{0}`, which shares by weights, has {1} levels, and the kernel has {BANDS} there; merge some of them"
    )]
    TooManyBands(String, usize),
}

impl LowerError {
    /// The refusal of the policy.
    pub fn refusal(&self) -> Refusal {
        let about = match self {
            Self::TooDeep(name) | Self::TooManyBands(name, _) => About::Named(name.clone()),
            Self::NoLinkRate | Self::LinkTooSlow(..) | Self::TooManyParts { .. } => About::Surroundings,
        };
        Refusal::split(about, &self.to_string())
    }
}

/// The kernel form of `policy`, for a kernel that has all qdiscs.
///
/// # Errors
/// If the kernel has no form of the policy, even one that keeps less.
pub fn lower(policy: &CompiledPolicy) -> Result<Lowered, LowerError> {
    lower_on(policy, KernelQdiscs::ALL)
}

/// The kernel form of `policy`, for a kernel that has these qdiscs.
///
/// # Errors
/// As [`lower`].
pub fn lower_on(policy: &CompiledPolicy, has: KernelQdiscs) -> Result<Lowered, LowerError> {
    let link = policy.link.ok_or(LowerError::NoLinkRate)?;
    let program = &policy.program;
    let (leaves, nodes) = (program.leaves.len(), program.nodes.len());
    if leaves > Handle::LEAVES_MAX || nodes > Handle::NODES_MAX {
        return Err(LowerError::TooManyParts { leaves, nodes });
    }
    let shape = Shape::new(program, has);
    let classes = shape.htb_leaves(program.root, false);
    let infrastructure = (!policy.names_infrastructure()).then(|| {
        let share = infrastructure_rate(link);
        whole(share + share)
    });
    let available = link.saturating_sub(infrastructure.unwrap_or_default());
    if available.get() / 8 < classes as u64 {
        return Err(LowerError::LinkTooSlow(link, classes));
    }
    let mut builder = Builder {
        policy,
        least: shape.tightest(program.root, available, false),
        link: whole(link),
        shape,
        parts: Vec::new(),
        leaves: vec![None; leaves],
        fractions: Vec::new(),
        notes: Notes::new(program),
    };
    builder.build(infrastructure, available)?;
    Ok(builder.finish(infrastructure.is_some()))
}

/// The place of a branch below HTB.
#[derive(Clone, Copy, Debug)]
struct Spot {
    parent: Handle,
    /// The inner classes above.
    inner: usize,
    ceil: BitsPerSec,
    cburst: Bytes,
    /// Whether the ceiling is lower than the parent's.
    limited: bool,
    prio: usize,
    /// The guarantee, if it has one.
    rate: Option<BitsPerSec>,
    /// Without a guarantee, the rate that the classes of an order here may be guaranteed.
    left: Option<BitsPerSec>,
    /// The part of a group with weights, inside one.
    weighted: Option<Fraction>,
    /// The part of the link while all send, without those that have priority.
    share: Fraction,
}

struct Builder<'a> {
    policy: &'a CompiledPolicy,
    shape: Shape<'a>,
    link: BitsPerSec,
    /// The rate of a class without a guarantee.
    least: BitsPerSec,
    parts: Vec<KernelPart>,
    /// The place of each leaf.
    leaves: Vec<Option<Handle>>,
    /// The HTB leaf classes of a group with weights, by their places in `parts`.
    fractions: Vec<(usize, Fraction)>,
    notes: Notes,
}

impl Builder<'_> {
    fn build(&mut self, infrastructure: Option<BitsPerSec>, available: BitsPerSec) -> Result<(), LowerError> {
        let (link, big) = (self.link, burst(self.link, Bytes::ZERO));
        // Its class is set when the leaves are known.
        let root = QdiscKind::Htb { default: Handle::LINK };
        self.qdisc(Handle::ROOT, Parent::Root, "the link".to_owned(), root);
        let class = HtbClass { rate: link, ceil: link, burst: big, cburst: big, prio: 0, quantum: QUANTUM };
        self.htb_class(Handle::LINK, Handle::ROOT, "the link".to_owned(), class);
        if let Some(rate) = infrastructure {
            let big = burst(rate, Bytes::ZERO);
            let class = HtbClass { rate, ceil: rate, burst: big, cburst: big, prio: 0, quantum: QUANTUM };
            let title = crate::compiled::INFRASTRUCTURE.to_owned();
            self.htb_class(Handle::INFRASTRUCTURE, Handle::LINK, title.clone(), class);
            let queue = QdiscKind::Pfifo { limit: INFRASTRUCTURE_BOUND };
            self.qdisc(Handle::infrastructure_queue(), Parent::Class(Handle::INFRASTRUCTURE), title, queue);
        }
        let root = self.policy.program.root;
        let weights = matches!(self.shape.form(root, false), Form::Weights(_));
        let spot = Spot {
            parent: Handle::LINK,
            inner: 1,
            ceil: link,
            cburst: big,
            limited: false,
            prio: 0,
            rate: weights.then(|| whole(available.min(self.shape.most(root)))),
            left: (!weights).then(|| whole(available)),
            weighted: None,
            share: Fraction::ALL,
        };
        self.notes.levels = self.htb(root, spot)?;
        Ok(())
    }

    /// Adds a branch below HTB. Returns the order of spare rate after its last one.
    fn htb(&mut self, child: Child, spot: Spot) -> Result<usize, LowerError> {
        let spot = self.limited(child, spot);
        match self.shape.form(child, spot.weighted.is_some()) {
            Form::Through(only) => self.htb(only, spot),
            Form::Leaf(leaf) => {
                let handle = Handle::ROOT.leaf(leaf);
                self.htb_leaf(handle, self.leaf_title(leaf), spot);
                self.queue(leaf, handle, spot.share.rate(self.link).min(spot.ceil));
                Ok(spot.prio + 1)
            }
            Form::Turns(node) => {
                let handle = Handle::ROOT.node(node);
                self.htb_leaf(handle, self.node_title(node), spot);
                self.nested(child, handle, (spot.ceil, spot.share), 1)?;
                Ok(spot.prio + 1)
            }
            Form::Order(node) => self.order(child, node, spot),
            Form::Weights(node) => self.weights(child, node, spot),
        }
    }

    /// The place of a branch below its own limits.
    fn limited(&self, child: Child, spot: Spot) -> Spot {
        match self.shape.limit(child) {
            Some((rate, stated)) if rate < spot.ceil => {
                let (ceil, cburst) = (whole(rate), limit_burst(rate, stated));
                let most = |of: Option<BitsPerSec>| of.map(|of| of.min(ceil));
                Spot { ceil, cburst, limited: true, rate: most(spot.rate), left: most(spot.left), ..spot }
            }
            _ => spot,
        }
    }

    /// Adds the classes of a priority.
    fn order(&mut self, child: Child, node: NodeId, spot: Spot) -> Result<usize, LowerError> {
        // A priority counts for all classes that borrow from the same one: below weights without a guarantee, the children after the first
        // one would wait for all the others.
        let flat = spot.weighted.is_some() && spot.rate.is_none();
        self.notes.form(node, if flat { NodeForm::Flat } else { NodeForm::Order });
        let inside = self.inner(child, node, spot);
        let children = self.shape.children(node);
        let mut guaranteed = self.in_order(children, spot).into_iter();
        let mut next = spot.prio;
        let mut last = spot.prio;
        for below in children {
            let even = |of: Fraction| if flat { of.of(1, children.len() as u64) } else { of };
            let prio = if flat { spot.prio } else { next };
            let of = guaranteed.next().flatten();
            let ordered = matches!(self.shape.form(*below, spot.weighted.is_some()), Form::Order(_));
            let (rate, left) = if ordered { (None, of) } else { (of, None) };
            let at = Spot { prio, rate, left, weighted: spot.weighted.map(even), ..inside };
            next = self.htb(*below, at)?;
            last = last.max(next);
        }
        Ok(last)
    }

    /// The guarantees of the children of a priority, which are what they have while all send: each takes what those before it leave. A class
    /// that only borrows waits until the link has paid for the super-packet of another one, 0.5 ms at 1 Gb/s; one within its guarantee does not.
    fn in_order(&self, children: &[Child], spot: Spot) -> Vec<Option<BitsPerSec>> {
        let least = |child: &Child| {
            let leaves = self.shape.htb_leaves(*child, spot.weighted.is_some()) as u64;
            BitsPerSec(self.least.get().saturating_mul(leaves))
        };
        let Some(all) = spot.rate.or(spot.left) else { return Vec::new() };
        let mut left = all.saturating_sub(children.iter().map(least).sum());
        let take = |child: &Child| {
            let most = self.shape.most(*child).min(spot.ceil);
            let more = left.min(most.saturating_sub(least(child)));
            left = left.saturating_sub(more);
            (more > BitsPerSec::ZERO).then(|| whole(least(child) + more))
        };
        children.iter().map(take).collect()
    }

    /// Adds the classes of a node with weights, below which limits hold packets. HFSC, which is exact here but stalls on some kernels,
    /// would take this place.
    fn weights(&mut self, child: Child, node: NodeId, spot: Spot) -> Result<usize, LowerError> {
        self.notes.form(node, if spot.rate.is_some() { NodeForm::Guaranteed } else { NodeForm::Spare });
        let inside = self.inner(child, node, spot);
        let children = self.shape.children(node);
        let rates = spot.rate.map(|rate| divide(rate, &self.claims(node)));
        let outermost = spot.weighted.is_none();
        let begin = self.fractions.len();
        let fractions = self.shape.fractions(node, spot.weighted.unwrap_or(Fraction::ALL));
        let shares = self.shape.fractions(node, spot.share);
        let mut last = spot.prio;
        for (at, below) in children.iter().enumerate() {
            let rate = rates.as_ref().and_then(|rates| rates.get(at)).map(|rate| whole(*rate));
            let share = shares.get(at).copied().unwrap_or(Fraction::ALL);
            let place = Spot { rate, left: None, weighted: fractions.get(at).copied(), share, ..inside };
            last = last.max(self.htb(*below, place)?);
        }
        if outermost {
            self.set_quanta(begin);
        }
        Ok(last)
    }

    /// The claims of the children of a node with weights.
    fn claims(&self, node: NodeId) -> Vec<Claim> {
        let weights = self.shape.weights(node);
        let children = self.shape.children(node).iter().zip(weights);
        children
            .map(|(child, weight)| {
                let floor = BitsPerSec(self.least.get() * self.shape.htb_leaves(*child, true) as u64);
                let most = self.shape.most(*child).max(floor);
                Claim { weight: u64::from(weight.get()), floor, most }
            })
            .collect()
    }

    /// Sets the quanta of the group whose fractions begin at `begin`.
    fn set_quanta(&mut self, begin: usize) {
        let group: Vec<_> = self.fractions.drain(begin..).collect();
        let fractions = || group.iter().map(|(_, fraction)| *fraction);
        let (least, most) = (fractions().min(), fractions().max());
        let (least, most) = (least.unwrap_or(Fraction::ALL), most.unwrap_or(Fraction::ALL));
        for (at, fraction) in &group {
            if let Some(KernelPart::Class(Class { kind: ClassKind::Htb(class), .. })) =
                self.parts.get_mut(*at)
            {
                class.quantum = fraction.quantum(least, most);
            }
        }
    }

    /// Adds an inner class, where a group has a ceiling or a guarantee of its own. Returns the place of its children.
    fn inner(&mut self, child: Child, node: NodeId, spot: Spot) -> Spot {
        if !spot.limited && spot.rate.is_none() {
            return spot;
        }
        if spot.inner >= INNER_MAX {
            self.notes.lost.extend(self.shape.limits(child).iter().copied());
            return spot;
        }
        let handle = Handle::ROOT.node(node);
        let leaves = self.shape.htb_leaves(child, spot.weighted.is_some()) as u64;
        let guaranteed = spot.rate.or(spot.left);
        let rate = guaranteed.unwrap_or(BitsPerSec(self.least.get().saturating_mul(leaves)));
        let rate = rate.min(spot.ceil);
        let class = HtbClass {
            rate,
            ceil: spot.ceil,
            burst: if guaranteed.is_some() {
                burst(rate, Bytes::ZERO)
            } else {
                parts::fitting(rate, LEAST_BURST)
            },
            cburst: spot.cburst,
            prio: 0,
            quantum: QUANTUM,
        };
        self.htb_class(handle, spot.parent, self.node_title(node), class);
        Spot { parent: handle, inner: spot.inner + 1, limited: false, ..spot }
    }

    /// Adds a leaf class of HTB.
    fn htb_leaf(&mut self, handle: Handle, title: String, spot: Spot) {
        let rate = spot.rate.unwrap_or(self.least).min(spot.ceil);
        let class = HtbClass {
            rate,
            ceil: spot.ceil,
            burst: if spot.rate.is_some() {
                burst(rate, Bytes::ZERO)
            } else {
                parts::fitting(rate, LEAST_BURST)
            },
            cburst: spot.cburst,
            prio: spot.prio.min(LEVELS - 1) as u8,
            quantum: QUANTUM,
        };
        if let Some(fraction) = spot.weighted {
            self.fractions.push((self.parts.len(), fraction));
        }
        self.htb_class(handle, spot.parent, title, class);
    }

    /// Adds the qdiscs of a branch that holds no packets, at the class or band `at`. `rate` is what it can use at most.
    fn nested(
        &mut self,
        child: Child,
        at: Handle,
        (rate, share): (BitsPerSec, Fraction),
        depth: usize,
    ) -> Result<(), LowerError> {
        let node = match child {
            Child::Leaf(leaf) => {
                self.queue(leaf, at, share.rate(self.link).min(rate));
                return Ok(());
            }
            Child::Node(node) => node,
        };
        let children = self.shape.children(node);
        let discipline = self.policy.program.nodes.get(node.index()).map(|node| &node.discipline);
        if let (Some(Discipline::Custom(_)), [only]) = (discipline, children) {
            return self.nested(*only, at, (rate, share), depth);
        }
        if depth >= NESTED_MAX {
            return Err(LowerError::TooDeep(self.node_name(node)));
        }
        if discipline.is_none_or(|of| *of == Discipline::Priority) {
            return self.bands(node, at, (rate, share), depth);
        }
        let qdisc = Handle::qdisc_of(node);
        self.qdisc(qdisc, Parent::Class(at), self.node_title(node), QdiscKind::Drr);
        self.notes.form(node, NodeForm::Turns);
        let weights = self.shape.weights(node);
        let quanta = parts::quanta(&weights, rate).unwrap_or_else(|| {
            self.notes.uneven.push(node);
            let most = weights.iter().map(|weight| u64::from(weight.get())).max().unwrap_or(1);
            let scaled =
                |weight: u64| (u128::from(weight) * u128::from(parts::RATIO_MAX) / u128::from(most)).max(1);
            weights.iter().map(|of| Bytes(FRAME.get() * scaled(u64::from(of.get())) as u64)).collect()
        });
        let shares = self.shape.fractions(node, share);
        for (number, below) in children.iter().enumerate() {
            let (handle, title) = match below {
                Child::Leaf(leaf) => (qdisc.leaf(*leaf), self.leaf_title(*leaf)),
                Child::Node(node) => (qdisc.node(*node), self.node_title(*node)),
            };
            let kind = ClassKind::Drr { quantum: quanta.get(number).copied().unwrap_or(FRAME) };
            self.parts.push(KernelPart::Class(Class { handle, parent: qdisc, title, kind }));
            let share = shares.get(number).copied().unwrap_or(Fraction::ALL);
            self.nested(*below, handle, (rate, share), depth + 1)?;
        }
        Ok(())
    }

    /// Adds the prio qdisc of a priority without limits below it.
    fn bands(
        &mut self,
        node: NodeId,
        at: Handle,
        of: (BitsPerSec, Fraction),
        depth: usize,
    ) -> Result<(), LowerError> {
        let bands = self.shape.bands(node);
        if bands.len() > BANDS {
            return Err(LowerError::TooManyBands(self.node_name(node), bands.len()));
        }
        self.notes.bands(node, &self.policy.program);
        let qdisc = Handle::qdisc_of(node);
        let count = bands.len().clamp(2, BANDS) as u8;
        let kind = QdiscKind::Prio { bands: count, unclassified: count };
        self.qdisc(qdisc, Parent::Class(at), self.node_title(node), kind);
        for (number, below) in bands.iter().enumerate() {
            let band = Handle { minor: number as u16 + 1, ..qdisc };
            self.nested(*below, band, of, depth + 1)?;
        }
        Ok(())
    }

    /// Adds the queue of a leaf at the class or band `at`, which has `rate` while all send.
    fn queue(&mut self, leaf: LeafId, at: Handle, rate: BitsPerSec) {
        let child = Child::Leaf(leaf);
        let mut bounds: BTreeMap<ClassId, Packets> = BTreeMap::new();
        for lane in self.shape.lanes_of(child).filter_map(|lane| self.policy.program.lanes.get(lane)) {
            let bound = bounds.entry(lane.class).or_default();
            *bound = lane.packet_bound.max(*bound);
        }
        let limit = bounds.values().copied().sum::<Packets>();
        let fits = |packets: Packets| Packets(packets.get().clamp(1, u64::from(u32::MAX)));
        let limit = fits(limit);
        let clocks =
            self.shape.timed_lanes(child).filter_map(|lane| self.shape.lanes.get(lane.index())).flatten();
        let clocks = clocks.filter_map(|limit| self.shape.clock_of(*limit));
        let held = clocks.map(|clock| clock.rate.bytes_in(clock.horizon).get().div_ceil(FRAME.get())).max();
        let fifo = self.policy.program.leaves.get(leaf.index()).map(|leaf| &leaf.discipline);
        let kind = match held {
            Some(packets) if self.shape.has.fq => {
                let flow_limit = fits(Packets(packets.max(FLOW_LIMIT)));
                QdiscKind::Fq { limit: fits(Packets(flow_limit.get().saturating_mul(10))), flow_limit }
            }
            _ if !self.shape.has.fq_codel => QdiscKind::Pfifo { limit },
            None if bounds.len() > 1 && fifo == Some(&LeafDiscipline::Fifo) => QdiscKind::Pfifo { limit },
            _ => QdiscKind::FqCodel { limit, target: parts::target(rate) },
        };
        if let Some(slot) = self.leaves.get_mut(leaf.index()) {
            *slot = Some(at);
        }
        self.notes.queue(leaf, kind);
        self.qdisc(Handle::queue_of(leaf), Parent::Class(at), self.leaf_title(leaf), kind);
    }

    fn qdisc(&mut self, handle: Handle, parent: Parent, title: String, kind: QdiscKind) {
        self.parts.push(KernelPart::Qdisc(Qdisc { handle, parent, title, kind }));
    }

    fn htb_class(&mut self, handle: Handle, parent: Handle, title: String, class: HtbClass) {
        self.parts.push(KernelPart::Class(Class { handle, parent, title, kind: ClassKind::Htb(class) }));
    }

    fn node_name(&self, node: NodeId) -> String {
        self.policy.program.nodes.get(node.index()).map_or_else(String::new, |node| node.name.clone())
    }

    fn node_title(&self, node: NodeId) -> String {
        let spec = self.policy.program.nodes.get(node.index());
        let order = of_discipline(spec.map_or(&Discipline::Priority, |spec| &spec.discipline));
        format!("{}: {order}", self.node_name(node))
    }

    fn leaf_title(&self, leaf: LeafId) -> String {
        let lanes = self.shape.lanes_of(Child::Leaf(leaf)).filter_map(|at| self.policy.program.lanes.get(at));
        let classes = lanes.filter_map(|lane| self.policy.classes.get(lane.class.index()));
        let mut names: Vec<&str> = classes.map(|class| class.name.as_str()).collect();
        names.dedup();
        names.join(" and ")
    }

    /// The tree in the order in which it is made, with the classes of packets and the promises.
    fn finish(self, infrastructure: bool) -> Lowered {
        let statements = promises::statements(self.policy, &self.shape, &self.notes);
        let last = self.policy.rules.last().map(|rule| rule.class).unwrap_or_default();
        let lane = self.policy.program.lanes.iter().find(|lane| lane.class == last);
        let default = lane.and_then(|lane| self.leaves.get(lane.leaf.index()).copied().flatten());
        let tree = classes::ordered(self.parts, default.unwrap_or(Handle::LINK));
        let map = ClassMap::new(self.policy, &tree, &self.leaves, (&self.shape, infrastructure));
        Lowered { tree, map, statements }
    }
}
