//! The reasons that packets of a class wait, from the policy in force and the daemon's counters of the last second.

use core::fmt;
use weft_facts::status::{ServiceStatus, StatusClass};
use weft_policy::{CompiledPolicy, words};
use weft_sched::program::{Child, Discipline, LeafDiscipline, Program};
use weft_units::{BitsPerSec, LaneId, LeafId, NodeId};

/// The part of a limit's or the link's rate from which it counts as used up: the rates are those of a second, in which it may
/// have been free for a moment.
const USED: f64 = 0.9;

/// A class that sends, and its rate.
type Sending = (String, f64);

/// A reason that packets wait.
#[derive(Clone, PartialEq, Debug)]
pub enum Reason {
    /// No packet waits.
    Nothing,
    /// The uplink has no carrier.
    NoCarrier {
        /// The interface.
        interface: String,
    },
    /// A limit is used up.
    Limit {
        /// Its name.
        limit: String,
        /// Its rate in bits per second.
        limit_bps: f64,
        /// The classes that use it.
        by: Vec<Sending>,
    },
    /// Branches that strict priority serves before.
    Before {
        /// The node.
        node: String,
        /// Their classes.
        by: Vec<Sending>,
    },
    /// Branches beside it, between which a node divides the link.
    Beside {
        /// The node.
        node: String,
        /// The words of its order, such as `weight 1 of 4`.
        order: String,
        /// Their classes.
        by: Vec<Sending>,
    },
    /// Packets of the class itself, which fill what is left for it.
    Own {
        /// The order of the packets.
        order: String,
        /// The rate of the class.
        bps: f64,
    },
    /// The transmit worker has no more time.
    Worker,
    /// Neither the link nor a limit is used up: the packets have just arrived.
    Passing,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("nothing waits"),
            Self::NoCarrier { interface } => write!(f, "the uplink {interface} has no carrier"),
            Self::Limit { limit, limit_bps, by } => {
                write!(f, "the limit {limit} of {} is used up, by {}", rate(*limit_bps), sending(by))
            }
            Self::Before { node, by } => write!(f, "{node} serves {} before it", sending(by)),
            Self::Beside { node, order, by } => {
                write!(f, "{node} divides the link ({order}): {} beside it", sending(by))
            }
            Self::Own { order, bps } => {
                write!(f, "its own packets: it sends {}, and more waits ({order})", rate(*bps))
            }
            Self::Worker => f.write_str("the transmit worker is the bottleneck, and not the link"),
            Self::Passing => {
                f.write_str("neither the link nor a limit is used up: the packets have just arrived")
            }
        }
    }
}

fn rate(bps: f64) -> BitsPerSec {
    BitsPerSec(bps.max(0.0).round() as u64)
}

/// Classes with their rates, in the order of the policy; the first few of many.
fn sending(by: &[Sending]) -> String {
    const SHOWN: usize = 4;
    let one = |(class, bps): &Sending| format!("{class} at {}", rate(*bps));
    let mut words: Vec<String> = by.iter().take(SHOWN).map(one).collect();
    if by.len() > SHOWN {
        let rest: f64 = by[SHOWN..].iter().map(|(_, bps)| bps).sum();
        words.push(format!("{} others at {}", by.len() - SHOWN, rate(rest)));
    }
    words.join(", ")
}

/// The reasons that packets of `lane` wait under `policy`, whose counters are in `status`; the nearest to the class first.
pub fn reasons(policy: &CompiledPolicy, lane: LaneId, status: &ServiceStatus) -> Vec<Reason> {
    let of = Of { policy, status };
    let Some(spec) = policy.program.lanes.get(lane.index()) else { return Vec::new() };
    let Some(class) = of.class(spec.class.index()) else { return Vec::new() };
    if class.backlog_bytes == 0 {
        return vec![Reason::Nothing];
    }
    if !status.uplink.up {
        return vec![Reason::NoCarrier { interface: status.uplink.interface.clone() }];
    }
    let mut found: Vec<Reason> = spec.limits.iter().filter_map(|limit| of.limit(limit.index())).collect();
    let held = !found.is_empty();
    if status.worker_bound {
        found.push(Reason::Worker);
    }
    if of.link_is_used() {
        found.extend(of.order(spec.leaf));
    }
    let none = found.is_empty();
    if class.bps > 0.0 && (held || !none) {
        found.push(Reason::Own { order: order_within(&policy.program, spec.leaf), bps: class.bps });
    }
    if none {
        found.push(Reason::Passing);
    }
    found
}

/// The order of the packets of a leaf.
fn order_within(program: &Program, leaf: LeafId) -> String {
    match program.leaves.get(leaf.index()).map(|leaf| &leaf.discipline) {
        Some(LeafDiscipline::Fair) => "its flows share".to_owned(),
        Some(LeafDiscipline::Custom(custom)) => format!("{} over its flows", custom.algorithm.name),
        _ => "in the order of arrival".to_owned(),
    }
}

struct Of<'a> {
    policy: &'a CompiledPolicy,
    status: &'a ServiceStatus,
}

impl Of<'_> {
    fn class(&self, number: usize) -> Option<&StatusClass> {
        let name = &self.policy.classes.get(number)?.name;
        self.status.classes.iter().find(|class| class.class == *name)
    }

    fn limit(&self, number: usize) -> Option<Reason> {
        let name = &self.policy.program.limits.get(number)?.name;
        let limit = self.status.limits.iter().find(|limit| limit.limit == *name)?;
        let of = |class: &&StatusClass| limit.classes.contains(&class.class) && class.bps > 0.0;
        let by: Vec<Sending> =
            self.status.classes.iter().filter(of).map(|c| (c.class.clone(), c.bps)).collect();
        // Classes that send with and without the limit have no rate of it.
        let used = limit.bps.is_none_or(|bps| bps >= USED * limit.limit_bps) && !by.is_empty();
        used.then(|| Reason::Limit { limit: name.clone(), limit_bps: limit.limit_bps, by })
    }

    /// Whether the classes together use the link. A link without a known rate is used as long as packets wait.
    fn link_is_used(&self) -> bool {
        let uplink = &self.status.uplink;
        let sum: f64 = self.status.classes.iter().map(|class| class.bps).sum();
        let least = [uplink.rate_bps, uplink.observed_bps].into_iter().flatten().reduce(f64::min);
        least.is_none_or(|rate| sum >= USED * rate)
    }

    /// The nodes above `leaf` at which other branches send, the nearest first.
    fn order(&self, leaf: LeafId) -> Vec<Reason> {
        let mut path = Vec::new();
        find(&self.policy.program, self.policy.program.root, leaf, &mut path);
        path.into_iter().filter_map(|(node, place)| self.turn(node, place)).collect()
    }

    fn turn(&self, node: NodeId, place: usize) -> Option<Reason> {
        let spec = self.policy.program.nodes.get(node.index())?;
        let by = |of: &dyn Fn(usize) -> bool| -> Vec<Sending> {
            let branches = spec.children.iter().enumerate().filter(|(at, _)| of(*at));
            branches.flat_map(|(_, child)| self.sending_below(*child)).collect()
        };
        let (name, beside) = (spec.name.clone(), by(&|at| at != place));
        let reason = match &spec.discipline {
            Discipline::Priority => Reason::Before { node: name, by: by(&|at| at < place) },
            Discipline::Wfq(weights) => {
                let own = weights.get(place).map_or(1, |weight| weight.get());
                let all: u64 = weights.iter().map(|weight| u64::from(weight.get())).sum();
                Reason::Beside { node: name, order: format!("weight {own} of {all}"), by: beside }
            }
            other => {
                let order = format!("by {}", words::of_discipline(other));
                Reason::Beside { node: name, order, by: beside }
            }
        };
        let (Reason::Before { by, .. } | Reason::Beside { by, .. }) = &reason else { return None };
        (!by.is_empty()).then_some(reason)
    }

    /// The classes below `child` that send.
    fn sending_below(&self, child: Child) -> Vec<Sending> {
        let program = &self.policy.program;
        match child {
            Child::Node(node) => {
                let children = program.nodes.get(node.index()).map_or(&[][..], |node| &node.children);
                children.iter().flat_map(|child| self.sending_below(*child)).collect()
            }
            Child::Leaf(leaf) => {
                let lanes = program.lanes.iter().filter(|lane| lane.leaf == leaf);
                let mut classes: Vec<usize> = lanes.map(|lane| lane.class.index()).collect();
                classes.dedup();
                let of = |class: &usize| self.class(*class).filter(|class| class.bps > 0.0);
                classes.iter().filter_map(of).map(|class| (class.class.clone(), class.bps)).collect()
            }
        }
    }
}

/// Adds the nodes from `leaf` up to `at`, each with the place of the branch. Returns whether the leaf is below.
fn find(program: &Program, at: Child, leaf: LeafId, path: &mut Vec<(NodeId, usize)>) -> bool {
    let node = match at {
        Child::Leaf(id) => return id == leaf,
        Child::Node(node) => node,
    };
    let children = program.nodes.get(node.index()).map_or(&[][..], |node| &node.children);
    let place = children.iter().position(|child| find(program, *child, leaf, path));
    path.extend(place.map(|place| (node, place)));
    place.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entitlement;
    use weft_policy::{CompileOptions, Source, compile};

    const TEXT: &str = "link 1gbps\nclass mgmt = tcp port 22\nclass web = tcp port 80\nclass bulk = tcp\n\
                        root = priority { mgmt, work }\nwork = wfq { web: 3, limit 100mbps of fair of bulk: 1, default: 1 }\n";

    fn policy() -> CompiledPolicy {
        compile(Source { name: "p", text: TEXT }, &CompileOptions::default()).policy.expect("a policy")
    }

    /// The reasons of a class at these rates in Mb/s, with 10 kB waiting in each class that is named in `waits`.
    fn said(class: &str, rates: &[(&str, f64)], change: impl Fn(&mut ServiceStatus)) -> Vec<String> {
        let policy = policy();
        let mut status = ServiceStatus::default();
        (status.uplink.up, status.uplink.rate_bps) = (true, Some(1e9));
        status.classes = policy
            .classes
            .iter()
            .map(|of| StatusClass {
                class: of.name.clone(),
                backlog_bytes: 10_000,
                bps: rates.iter().find(|(name, _)| *name == of.name).map_or(0.0, |(_, rate)| rate * 1e6),
                ..StatusClass::default()
            })
            .collect();
        status.limits = entitlement::limits(&policy, &status.classes);
        change(&mut status);
        let number = policy.classes.iter().position(|of| of.name == class).expect("a class");
        let lane = policy.program.lanes.iter().position(|lane| lane.class.index() == number).expect("a lane");
        reasons(&policy, LaneId::from_index(lane), &status).iter().map(Reason::to_string).collect()
    }

    #[test]
    fn what_a_class_waits_for_is_said_with_numbers() {
        let rates = [("mgmt", 300.0), ("web", 600.0), ("bulk", 100.0)];
        assert_eq!(
            said("web", &rates, |_| {}),
            [
                "work divides the link (weight 3 of 5): bulk at 100 Mb/s beside it",
                "root serves mgmt at 300 Mb/s before it",
                "its own packets: it sends 600 Mb/s, and more waits (in the order of arrival)"
            ]
        );
        let bulk = said("bulk", &rates, |_| {});
        assert!(
            bulk[0].starts_with("the limit bulk")
                || bulk[0].contains("of 100 Mb/s is used up, by bulk at 100 Mb/s"),
            "{bulk:?}"
        );
        assert!(bulk.last().is_some_and(|own| own.ends_with("(its flows share)")), "{bulk:?}");
        assert_eq!(said("mgmt", &rates, |_| {}).len(), 1, "nothing is before it");
    }

    #[test]
    fn a_free_link_an_empty_class_and_a_missing_carrier_are_said() {
        let idle = [("web", 10.0)];
        let one = |class, change: fn(&mut ServiceStatus)| said(class, &idle, change).join("; ");
        assert_eq!(
            one("web", |_| {}),
            "neither the link nor a limit is used up: the packets have just arrived"
        );
        assert_eq!(one("web", |s| s.classes[1].backlog_bytes = 0), "nothing waits");
        assert_eq!(
            one("web", |s| (s.uplink.up, s.uplink.interface) = (false, "eth7".into())),
            "the uplink eth7 has no carrier"
        );
        assert!(one("web", |s| s.worker_bound = true).starts_with("the transmit worker is the bottleneck"));
    }
}
