//! The price of a policy: the orders that a packet passes, the operations of algorithms, and the state that they keep.
//!
//! [`PolicyCost`] counts; a [`Profile`] says what a place of execution offers, and refuses a policy that needs more. A refusal names
//! the term that costs most, its place and a cure.

mod text;

use crate::algorithm::Place;
use crate::algorithm::uses::Use;
use crate::code::Code;
use crate::diagnostic::SpannedDiagnostic;
use crate::lowering::model::Policy;
use crate::validate::graph::{Graph, Kind};
use crate::validate::shape::Shape;
use weft_rank::{Cost, Effect, Part};
use weft_text::{Span, quoted};

/// The work of an order for a packet besides insertion and removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Needs {
    /// It holds children back until a virtual time, which takes a second order.
    pub second_order: bool,
    /// It holds children back until a time.
    pub holds: bool,
    /// It gives waiting children another rank at a time.
    pub timer: bool,
    /// An arrival may rank a waiting child anew.
    pub reranks: bool,
    /// It ranks a child anew when the child's next packet changes.
    pub follows_head: bool,
    /// It drops or marks fetched packets.
    pub drops: bool,
}

/// The price of one order: a node over its children, or a leaf over its flows.
#[derive(Clone, Debug)]
pub struct OrderCost {
    /// The node's name.
    pub name: String,
    /// The algorithm, or the native discipline.
    pub algorithm: String,
    /// The place of the algorithm in the text, in bytes.
    pub span: Span,
    /// Whether the engine has it natively, without a program.
    pub native: bool,
    /// Whether it ranks, holds or drops.
    pub kind: weft_rank::Kind,
    /// The things that it orders.
    pub place: Place,
    /// The number of children of an inner node.
    pub children: usize,
    /// The number of orders above it, with itself.
    pub level: usize,
    /// The operations of the parts, and the state.
    pub cost: Cost,
    /// Its other work.
    pub needs: Needs,
}

/// The price of a policy.
#[derive(Clone, Debug, Default)]
pub struct PolicyCost {
    /// The orders, every parent before its children.
    pub orders: Vec<OrderCost>,
    /// The orders that a packet passes at most.
    pub depth: usize,
    /// The name of the class with the longest path.
    pub deepest: String,
    /// The operations of algorithms for one packet on that path on which they are most.
    pub operations: usize,
    /// Whether a limit or a shaper may hold a packet, which is then inserted twice.
    pub held: bool,
    /// The rate limits.
    pub limits: usize,
}

impl PolicyCost {
    /// The bytes of state of inner nodes and their children, which are there for as long as the policy.
    pub fn state_bytes(&self) -> usize {
        let of = |order: &OrderCost| match order.place {
            Place::Children => {
                order.cost.node_bytes + order.children * (order.cost.child_bytes + order.cost.parameter_bytes)
            }
            Place::Flows => order.cost.node_bytes + order.cost.parameter_bytes,
        };
        self.orders.iter().map(of).sum()
    }

    /// The most bytes of state of a flow.
    pub fn flow_bytes(&self) -> usize {
        let flows = self.orders.iter().filter(|order| order.place == Place::Flows);
        flows.map(|order| order.cost.child_bytes).max().unwrap_or(0)
    }
}

/// Counts the price of a checked policy.
pub(crate) fn count(policy: &Policy, graph: &Graph, shape: &Shape) -> PolicyCost {
    let mut cost = PolicyCost::default();
    let mut levels = vec![0_usize; graph.nodes.len()];
    let mut operations = vec![0_usize; graph.nodes.len()];
    for at in shape.order.iter().copied() {
        let node = &graph.nodes[at];
        let above = shape.parents[at].iter().map(|parent| levels[*parent]).max().unwrap_or(0);
        let before = shape.parents[at].iter().map(|parent| operations[*parent]).max().unwrap_or(0);
        (levels[at], operations[at]) = (above, before);
        if let Kind::Limit(branches) = &node.kind {
            (cost.limits, cost.held) = (cost.limits + branches.len(), true);
        }
        if let Some(mut order) = order(policy, graph, at) {
            // A shaper holds and orders nothing, and a dropper works on what another order has chosen.
            levels[at] = above + usize::from(order.kind == weft_rank::Kind::Algorithm);
            order.level = levels[at];
            operations[at] = before + order.cost.per_packet();
            cost.held |= order.needs.holds;
            cost.orders.push(order);
        }
        if graph.class_of(at).is_some() {
            cost.operations = cost.operations.max(operations[at]);
            if levels[at] > cost.depth {
                (cost.depth, cost.deepest) = (levels[at], node.name.clone());
            }
        }
    }
    cost
}

fn order(policy: &Policy, graph: &Graph, at: usize) -> Option<OrderCost> {
    let node = &graph.nodes[at];
    let children = node.children.len();
    let native = |algorithm: &str, place| OrderCost {
        name: node.name.clone(),
        algorithm: algorithm.to_owned(),
        span: node.span,
        native: true,
        kind: weft_rank::Kind::Algorithm,
        place,
        children,
        level: 0,
        cost: Cost::default(),
        needs: Needs::default(),
    };
    match node.kind {
        // A node with one child orders nothing, and the compiler leaves it out.
        Kind::Native(of) if children > 1 && of.row().engine.is_some() => {
            Some(native(of.row().word, Place::Children))
        }
        Kind::Fair => Some(native("fair", Place::Flows)),
        Kind::Algorithm(number) => {
            let Use { algorithm, name, place, .. } = policy.uses.get(number)?;
            let algorithm = algorithm.as_ref()?;
            Some(OrderCost {
                algorithm: algorithm.name.clone(),
                span: name.span,
                native: false,
                kind: algorithm.kind,
                cost: algorithm.program.cost(),
                needs: needs(&algorithm.program, algorithm.follows_head && *place == Place::Children),
                ..native("", *place)
            })
        }
        _ => None,
    }
}

fn needs(algorithm: &weft_rank::Algorithm, follows_head: bool) -> Needs {
    let effects = |part: Part| algorithm.parts.get(part).map_or(&[][..], |program| program.effects());
    let has = |part, wanted: fn(&Effect) -> bool| effects(part).iter().any(wanted);
    Needs {
        second_order: has(Part::Rank, |effect| matches!(effect, Effect::FromVirtualTime(_))),
        holds: has(Part::Rank, |effect| matches!(effect, Effect::FromTime(_))),
        timer: has(Part::Rank, |effect| matches!(effect, Effect::Until { .. })),
        reranks: has(Part::Arrives, |effect| matches!(effect, Effect::Rerank(_))),
        follows_head,
        drops: has(Part::Fetched, |effect| matches!(effect, Effect::Drop(_) | Effect::Mark(_))),
    }
}

/// A place of execution.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// The software NIC: anything, at a price in nanoseconds.
    Software,
    /// Loom's NIC at 1 GHz with 64-byte frames at 100 Gb/s (NSDI'19, section 4.2.3), on the PIFO blocks of SIGCOMM'16.
    Loom1Ghz,
    /// A qdisc in eBPF (Linux 6.16 and later).
    Kernel,
}

/// Nanoseconds of an order of the software NIC: its tree of five orders takes 22 to 34 ns (docs/measuring.md).
const SOFTWARE_ORDER_NS: f64 = 6.0;
/// Nanoseconds of an operation in the interpreter, an estimate.
const SOFTWARE_OPERATION_NS: f64 = 1.5;
/// The PIFO blocks of Loom's NIC, and the most orders that its authors expect of a policy.
const LOOM_BLOCKS: usize = 10;
/// The cycles after which a PIFO can be popped again, and each packet pops the root (SIGCOMM'16, section 5.2).
const LOOM_POP_CYCLES: usize = 4;
/// The nanoseconds between two frames of 64 bytes at 100 Gb/s, without preamble and gap.
const LOOM_BUDGET_NS: f64 = 5.12;

/// The price of a policy at a place of execution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Priced {
    /// The nanoseconds of a packet.
    pub nanos: f64,
    /// The nanoseconds that there are; `None` if any number is accepted.
    pub budget: Option<f64>,
}

impl Profile {
    /// All profiles.
    pub const ALL: [Self; 3] = [Self::Software, Self::Loom1Ghz, Self::Kernel];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Software => "software",
            Self::Loom1Ghz => "loom-1ghz",
            Self::Kernel => "kernel",
        }
    }

    /// The price of a policy; `None` where nothing was measured or published.
    pub fn price(self, cost: &PolicyCost) -> Option<Priced> {
        let twice = 1 + usize::from(cost.held);
        match self {
            Self::Software => {
                let orders = (cost.depth * twice) as f64 * SOFTWARE_ORDER_NS;
                let nanos = orders + cost.operations as f64 * SOFTWARE_OPERATION_NS;
                Some(Priced { nanos, budget: None })
            }
            Self::Loom1Ghz => {
                let cycles = (cost.depth.div_ceil(LOOM_BLOCKS) * twice).max(LOOM_POP_CYCLES * twice);
                Some(Priced { nanos: cycles as f64, budget: Some(LOOM_BUDGET_NS) })
            }
            Self::Kernel => None,
        }
    }

    /// The reasons why the place cannot run a policy; none if it can.
    pub fn over(self, cost: &PolicyCost) -> Vec<String> {
        self.refusals(cost).iter().map(|refusal| refusal.message().to_owned()).collect()
    }

    /// The orders that the place cannot run, with the reason and a cure.
    pub(crate) fn refusals(self, cost: &PolicyCost) -> Vec<SpannedDiagnostic> {
        let mut found: Vec<SpannedDiagnostic> =
            cost.orders.iter().filter_map(|order| self.refusal(order)).collect();
        if let Some(Priced { nanos, budget: Some(budget) }) = self.price(cost)
            && nanos > budget
        {
            found.extend(self.over_budget(cost, nanos, budget));
        }
        found
    }

    fn refusal(self, order: &OrderCost) -> Option<SpannedDiagnostic> {
        let needs = order.needs;
        let (why, cure) = match self {
            Self::Software => return None,
            Self::Loom1Ghz if needs.second_order => (
                "holds children back until a virtual time, and this NIC has one order for a node",
                "`wfq` gives the same shares; a child may then be ahead by one packet",
            ),
            Self::Loom1Ghz if needs.timer => (
                "changes the rank of waiting children at a time (`until`), and a PIFO only inserts and removes",
                "leave `until` out",
            ),
            Self::Loom1Ghz if needs.reranks || needs.follows_head => (
                "ranks waiting children anew, and a PIFO only inserts and removes",
                "rank by what is known when a packet arrives",
            ),
            Self::Loom1Ghz if needs.drops => (
                "looks at packets that were fetched, which the scheduler of this NIC does not see",
                "drop in the host",
            ),
            Self::Kernel if needs.timer => (
                "changes the rank of waiting children at a time (`until`), and an eBPF qdisc has no timer for each of them",
                "leave `until` out",
            ),
            _ => return None,
        };
        let message =
            format!("the profile {} cannot run {}: it {why}", self.name(), quoted(&order.algorithm));
        let help = format!("{cure}; or run this node in software");
        Some(SpannedDiagnostic::new(Code::ProfileRefuses, order.span, message, help))
    }

    /// The refusal of a policy whose price is above the budget, at the term that costs most.
    fn over_budget(self, cost: &PolicyCost, nanos: f64, budget: f64) -> Option<SpannedDiagnostic> {
        let deepest = cost.orders.iter().max_by_key(|order| order.level)?;
        let (term, cure) = match (cost.held, cost.depth > LOOM_BLOCKS) {
            (_, true) => (
                format!(
                    "{} orders on the path of {} pass {LOOM_BLOCKS} blocks more than once",
                    cost.depth,
                    quoted(&cost.deepest)
                ),
                "join nested nodes of one kind",
            ),
            (true, false) => (
                format!(
                    "a packet that a limit holds pops the root twice, {LOOM_POP_CYCLES} cycles each time"
                ),
                "frames of 80 bytes and more fit, with preamble and gap; or leave the limits to the host",
            ),
            (false, false) => return None,
        };
        let message = format!(
            "the profile {} has {budget} ns for a packet, and the policy takes {nanos}: {term}",
            self.name()
        );
        Some(SpannedDiagnostic::new(Code::ProfileRefuses, deepest.span, message, cure))
    }
}
