//! The promises of a policy in the kernel form. The figures are those of `docs/kernel-path.md`.

use super::parts::{RATIO_MAX, limit_burst};
use super::shape::{BANDS, LEVELS, Shape};
use super::tree::QdiscKind;
use crate::compiled::CompiledPolicy;
use crate::promise::{About, CLASSES, ORDER, Promise};
use crate::words::of_discipline;
use std::collections::BTreeSet;
use weft_packet::Attribute;
use weft_sched::program::{Child, Discipline, LeafDiscipline, LimitSpec, Program};
use weft_units::{BitsPerSec, LeafId, LimitId, NodeId};

/// Below this rate HTB forgets part of a super-packet's debt, since it keeps at most a minute of it.
const SLOW: BitsPerSec = BitsPerSec(9_000);

/// A statement of a policy, and the extent to which the kernel form keeps it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelStatement {
    /// The part of the policy.
    pub about: About,
    /// The promise.
    pub promise: Promise,
}

/// The form that a node has in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NodeForm {
    /// HTB's orders of spare rate.
    Order,
    /// Bands of a prio qdisc.
    Bands,
    /// A drr qdisc.
    Turns,
    /// HTB classes with guaranteed rates.
    Guaranteed,
    /// HTB classes that share spare rate.
    Spare,
    /// A priority below such classes.
    Flat,
}

/// The choices of the lowering.
#[derive(Debug)]
pub(super) struct Notes {
    forms: Vec<Option<NodeForm>>,
    queues: Vec<Option<QdiscKind>>,
    /// The orders of spare rate that HTB would need.
    pub(super) levels: usize,
    /// Limits for which HTB has no class.
    pub(super) lost: BTreeSet<LimitId>,
    /// Nodes whose weights differ by too much.
    pub(super) uneven: Vec<NodeId>,
}

impl Notes {
    pub(super) fn new(program: &Program) -> Self {
        let (forms, queues) = (vec![None; program.nodes.len()], vec![None; program.leaves.len()]);
        Self { forms, queues, levels: 0, lost: BTreeSet::new(), uneven: Vec::new() }
    }

    pub(super) fn form(&mut self, node: NodeId, form: NodeForm) {
        if let Some(slot) = self.forms.get_mut(node.index()) {
            *slot = Some(form);
        }
    }

    /// Notes a priority whose levels, with those of the priorities among its children, are bands.
    pub(super) fn bands(&mut self, node: NodeId, program: &Program) {
        self.form(node, NodeForm::Bands);
        let children =
            program.nodes.get(node.index()).map(|node| node.children.as_slice()).unwrap_or_default();
        for child in children {
            let Child::Node(below) = child else { continue };
            if program.nodes.get(below.index()).is_some_and(|node| node.discipline == Discipline::Priority) {
                self.bands(*below, program);
            }
        }
    }

    pub(super) fn queue(&mut self, leaf: LeafId, kind: QdiscKind) {
        if let Some(slot) = self.queues.get_mut(leaf.index()) {
            *slot = Some(kind);
        }
    }
}

/// The statements of `policy`: classes, nodes from the root on, queues, limits, bounds, latencies, infrastructure.
pub(super) fn statements(policy: &CompiledPolicy, shape: &Shape<'_>, notes: &Notes) -> Vec<KernelStatement> {
    let mut found = Found(Vec::new());
    found.classes(policy);
    found.nodes(policy, shape, notes);
    found.leaves(policy, notes);
    for (number, limit) in policy.program.limits.iter().enumerate().filter(|(_, limit)| !limit.is_vacant()) {
        let id = LimitId::from_index(number);
        let timed = shape.clock_of(id).is_some();
        found.limit(limit, (timed, shape.has.fq), notes.lost.contains(&id));
    }
    found.whole(policy);
    found.0
}

fn named(name: &str) -> About {
    About::Named(name.to_owned())
}

fn broken(promise: impl Into<String>, reason: impl Into<String>, instead: impl Into<String>) -> Promise {
    Promise { instead: Some(instead.into()), ..Promise::broken(promise, reason) }
}

struct Found(Vec<KernelStatement>);

impl Found {
    fn add(&mut self, about: About, promise: Promise) {
        self.0.push(KernelStatement { about, promise });
    }

    /// The tests of classes that see less than the policy says.
    fn classes(&mut self, policy: &CompiledPolicy) {
        let before = self.0.len();
        let mut within = |tested: bool, bound: &str| {
            if tested {
                self.add(About::Surroundings, Promise::within(CLASSES, bound));
            }
        };
        within(
            !policy.cgroups.is_empty(),
            "`cgroup` has packets of this host's sockets: none that the host routes, and those that it bridges only where br_netfilter is off",
        );
        within(
            policy.tests(Attribute::User),
            "`user` has packets of this host's sockets, and none that the host forwards, or that the kernel sends for a closed connection",
        );
        within(
            policy.rules.iter().any(|rule| rule.matcher.port.is_some()),
            "`port \"NAME\"` has packets that came in at that device and are forwarded, and none of the host's own",
        );
        if policy.tests(Attribute::Process) {
            let reason = "`process`: a qdisc's packet does not say who made its socket";
            self.add(
                About::Surroundings,
                broken(CLASSES, reason, "start the program in a cgroup, and test that"),
            );
        }
        if self.0.len() == before {
            self.add(About::Surroundings, Promise::kept(CLASSES));
        }
    }

    fn nodes(&mut self, policy: &CompiledPolicy, shape: &Shape<'_>, notes: &Notes) {
        for (number, node) in policy.program.nodes.iter().enumerate().filter(|(_, node)| !node.is_vacant()) {
            let id = NodeId::from_index(number);
            let form = notes.forms.get(number).copied().flatten();
            match &node.discipline {
                Discipline::Priority => {
                    self.add(named(&node.name), priority(&node.name, form, why(shape, id)))
                }
                Discipline::Wfq(_) => {
                    let uneven = notes.uneven.contains(&id);
                    self.add(named(&node.name), weights(&node.name, form, uneven, why(shape, id)));
                }
                other => self.algorithm(&node.name, of_discipline(other), node.children.len(), false),
            }
        }
        if notes.levels > LEVELS {
            let reason = format!(
                "strict priority has {} levels, and HTB has {LEVELS}: the last ones are served as one",
                notes.levels
            );
            self.add(
                About::Surroundings,
                broken(ORDER, reason, format!("write fewer levels, or at most {BANDS} without limits")),
            );
        }
    }

    /// An order that the kernel does not have, at a node, or at a leaf (`children` is 0), where it may drop.
    fn algorithm(&mut self, place: &str, algorithm: &str, children: usize, drops: bool) {
        let (share, instead) = match children {
            0 if drops => ("its flows share evenly", "`fair of`, whose queues drop by CoDel"),
            0 => ("its flows share evenly", "`fair of`"),
            1 => ("nothing holds what is below", "`limit RATE of`"),
            _ => ("its children share evenly", "`priority` or `wfq`"),
        };
        let algorithm = algorithm.to_owned();
        let promise = format!("algorithm {algorithm}");
        let reason = format!("the kernel runs none: at `{place}`, {share}");
        self.add(
            About::Algorithm { place: place.to_owned(), algorithm },
            broken(promise, reason, format!("write {instead}, or run the policy by `weft run`")),
        );
    }

    fn leaves(&mut self, policy: &CompiledPolicy, notes: &Notes) {
        let mut mixed = false;
        for (number, leaf) in policy.program.leaves.iter().enumerate().filter(|(_, leaf)| !leaf.is_vacant()) {
            let kind = notes.queues.get(number).copied().flatten();
            let timed = matches!(kind, Some(QdiscKind::Fq { .. }));
            match &leaf.discipline {
                LeafDiscipline::Custom(custom) => {
                    let named = custom.dropper.as_ref().unwrap_or(custom);
                    self.algorithm(&leaf.name, &named.algorithm.name, 0, custom.dropper.is_some());
                }
                LeafDiscipline::Fair if matches!(kind, Some(QdiscKind::Pfifo { .. })) => {
                    let promise = format!("{}: fair over its flows", leaf.name);
                    let instead = "load its module (sch_fq_codel), or run the policy by `weft run`";
                    let broken =
                        broken(promise, "this kernel has no fq_codel: its flows share a FIFO", instead);
                    self.add(named(&leaf.name), broken);
                }
                LeafDiscipline::Fair => {
                    let bound = if timed {
                        "flows have turns (fq), each as far as the limits by destination and port let it"
                    } else {
                        "flows share by fq_codel: one beside 16 others had 7.0 % where 5.9 % is even"
                    };
                    self.add(
                        named(&leaf.name),
                        Promise::within(format!("{}: fair over its flows", leaf.name), bound),
                    );
                }
                LeafDiscipline::Fifo if matches!(kind, Some(QdiscKind::Pfifo { .. })) => {
                    let promise = format!("{}: one queue for its classes", leaf.name);
                    self.add(named(&leaf.name), Promise::kept(promise));
                }
                LeafDiscipline::Fifo => mixed = true,
            }
        }
        if mixed {
            let bound =
                "flows of a class have turns (fq_codel or fq) and each keeps the order of its packets";
            self.add(
                About::Surroundings,
                Promise::within("packets of a class leave in the order of arrival", bound),
            );
        }
    }

    fn limit(&mut self, limit: &LimitSpec, (timed, has_fq): (bool, bool), lost: bool) {
        let name = &limit.name;
        let promise = format!("limit {name}");
        let about = named(name);
        if lost {
            let reason = "HTB has no level of classes left for it";
            return self.add(about, broken(promise, reason, "write fewer levels above it"));
        }
        if timed && !has_fq {
            let instead = "load its module (sch_fq), or run the policy by `weft run`";
            let reason = "this kernel has no fq, which holds packets until their time";
            return self.add(about, broken(promise, reason, instead));
        }
        if timed {
            let bound =
                "by the time of each packet: 0.1 % with eight flows, 1.9 % with one, 3 % in a single second";
            return self.add(about, Promise::within(promise, bound));
        }
        let mut bounds = vec!["1.6 %: a super-packet counts the bytes around one frame".to_owned()];
        let burst = limit_burst(limit.rate, limit.burst);
        if burst > limit.burst {
            bounds.push(format!("{burst} may leave at once, as much as a super-packet"));
        }
        if limit.rate < SLOW {
            bounds.push("at rates below 9 kb/s HTB forgets part of a super-packet".to_owned());
        }
        self.add(about, Promise::within(promise, bounds.join("; ")));
    }

    /// Bounds, latencies and infrastructure.
    fn whole(&mut self, policy: &CompiledPolicy) {
        let bound = "fq_codel drops earlier, when packets wait for long, and at the bound those of the largest flow; classes in one `fifo` share the sum of their bounds; below limits by destination or port, fq has bounds of its own; a super-packet counts as one";
        self.add(About::Surroundings, Promise::within("bounds hold", bound));
        for class in &policy.classes {
            let Some(latency) = class.latency else { continue };
            let size = policy.link.map(|link| link.bytes_in(latency).get()).unwrap_or_default();
            let reason = "a qdisc sends super-packets whole";
            let instead = format!(
                "set `gso_max_size {size}` at the device (ip link), and remove `latency` from the policy"
            );
            self.add(named(&class.name), broken(format!("latency of {}", class.name), reason, instead));
        }
        if !policy.names_infrastructure() {
            let bound = "a class above all others has twice its share: the host's own packets, and those that it forwards; no share of it for each cgroup";
            self.add(About::Surroundings, Promise::within("infrastructure has a share", bound));
        }
    }
}

/// The reason why a node is classes of HTB and no qdisc.
fn why(shape: &Shape<'_>, node: NodeId) -> &'static str {
    if shape.holds_below(Child::Node(node)) {
        "limits hold packets below it"
    } else {
        "this kernel has no drr or no prio qdisc for it"
    }
}

fn priority(name: &str, form: Option<NodeForm>, why: &str) -> Promise {
    let promise = format!("{name}: strict priority");
    match form {
        Some(NodeForm::Bands) => Promise::kept(promise),
        Some(NodeForm::Flat) => broken(
            promise,
            format!(
                "{why}, and HTB counts priority for all classes that share by weights above it: its children share evenly"
            ),
            format!("write `{name}` without limits, or above the `wfq`"),
        ),
        _ => Promise::within(promise, "each class below keeps 8 kb/s"),
    }
}

fn weights(name: &str, form: Option<NodeForm>, uneven: bool, why: &str) -> Promise {
    let promise = format!("{name}: shares by weights");
    match form {
        _ if uneven => broken(
            promise,
            format!("the largest weight is more than {RATIO_MAX} times the smallest"),
            "write weights that differ by less",
        ),
        Some(NodeForm::Guaranteed) => Promise::within(
            promise,
            format!(
                "{why}: 0.1 % while all send; what others leave goes by class and not by the tree, so a share may be off by as much as is left (2.0 to 2.6 for 3 where a tenth of the link was)"
            ),
        ),
        Some(NodeForm::Spare) => Promise::within(
            promise,
            format!(
                "{why}: classes share roughly by weight, since HTB sends a super-packet whole in each turn, and what an idle class leaves goes to all of them and not first to its siblings"
            ),
        ),
        _ => Promise::within(promise, "1 % over 5 s, and 4 % in a single second"),
    }
}
