//! The rates that a policy promises to its classes, and the traffic below its limits.

use std::collections::BTreeSet;
use weft_facts::status::{StatusClass, StatusLimit};
use weft_policy::{CompiledPolicy, INFRASTRUCTURE};
use weft_sched::guarantee::guaranteed_rates;
use weft_units::BitsPerSec;

/// The guaranteed rate of a class, or the reason why it has no separate one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Entitlement {
    /// The rate while every class is backlogged.
    Rate(BitsPerSec),
    /// The reason.
    Unknown(String),
}

/// The guaranteed rate of each class of `policy`, in its order, on a link of `rate`.
pub(crate) fn entitlements(policy: &CompiledPolicy, rate: Option<BitsPerSec>) -> Vec<Entitlement> {
    let guaranteed = rate.map(|rate| guaranteed_rates(&policy.program, rate));
    let classes = 0..policy.classes.len();
    classes.map(|class| entitlement(policy, class, guaranteed.as_deref())).collect()
}

fn entitlement(policy: &CompiledPolicy, class: usize, guaranteed: Option<&[BitsPerSec]>) -> Entitlement {
    let Some(guaranteed) = guaranteed else {
        return Entitlement::Unknown("the link has no known rate".to_owned());
    };
    let lanes = &policy.program.lanes;
    let leaves: BTreeSet<usize> =
        lanes.iter().filter(|lane| lane.class.index() == class).map(|lane| lane.leaf.index()).collect();
    let other = lanes.iter().find(|lane| lane.class.index() != class && leaves.contains(&lane.leaf.index()));
    if let Some(other) = other {
        let name =
            policy.classes.get(other.class.index()).map_or("another class", |class| class.name.as_str());
        return Entitlement::Unknown(format!("it shares a queue with {name}"));
    }
    if leaves.is_empty() {
        return Entitlement::Unknown("no traffic can reach it".to_owned());
    }
    let rates = leaves.iter().filter_map(|leaf| guaranteed.get(*leaf)).map(|rate| rate.get());
    Entitlement::Rate(BitsPerSec(rates.fold(0, u64::saturating_add)))
}

/// The entitlement of a class that the data path adds to the policy's.
fn of_another(name: &str) -> Entitlement {
    let reason = match name {
        INFRASTRUCTURE => "it is served before the policy, with a share of the link",
        _ => "it is no class of the policy",
    };
    Entitlement::Unknown(reason.to_owned())
}

/// Adds to the counters of classes what `policy` promises them on a link of `rate`.
pub(crate) fn describe_classes(
    policy: &CompiledPolicy,
    rate: Option<BitsPerSec>,
    classes: Vec<StatusClass>,
) -> Vec<StatusClass> {
    let entitled = entitlements(policy, rate);
    let class = |(index, class): (usize, StatusClass)| {
        let entitlement = entitled.get(index).cloned().unwrap_or_else(|| of_another(&class.class));
        let (entitled_bps, entitled_reason) = match entitlement {
            Entitlement::Rate(rate) => (Some(rate.get() as f64), None),
            Entitlement::Unknown(reason) => (None, Some(reason)),
        };
        StatusClass { entitled_bps, entitled_reason, ..class }
    };
    classes.into_iter().enumerate().map(class).collect()
}

/// The limits of `policy`, with the rates of `classes` below them.
pub(crate) fn limits(policy: &CompiledPolicy, classes: &[StatusClass]) -> Vec<StatusLimit> {
    let lanes = &policy.program.lanes;
    let of = |(index, limit): (usize, &weft_sched::program::LimitSpec)| {
        let below = |lane: &weft_sched::program::LaneSpec| lane.limits.iter().any(|l| l.index() == index);
        let inside: BTreeSet<usize> =
            lanes.iter().filter(|lane| below(lane)).map(|lane| lane.class.index()).collect();
        // A class with a lane above the limit has a rate that does not say how much of it passed the limit.
        let split = lanes.iter().any(|lane| !below(lane) && inside.contains(&lane.class.index()));
        let of_class = |class: &usize| classes.get(*class);
        let sum = inside.iter().filter_map(of_class).map(|class| class.bps).sum();
        StatusLimit {
            limit: limit.name.clone(),
            limit_bps: limit.rate.get() as f64,
            bps: (!split).then_some(sum),
            classes: inside.iter().filter_map(of_class).map(|class| class.class.clone()).collect(),
        }
    };
    policy.program.limits.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_policy::{CompileOptions, Source, compile};

    fn policy(text: &str) -> CompiledPolicy {
        compile(Source { name: "t", text }, &CompileOptions::default()).policy.expect("valid")
    }

    fn rate(entitlement: &Entitlement) -> Option<u64> {
        match entitlement {
            Entitlement::Rate(rate) => Some(rate.get()),
            Entitlement::Unknown(_) => None,
        }
    }

    #[test]
    fn weights_divide_the_link() {
        let policy = policy("class a = tcp port 1\nclass b = tcp port 2\nroot = wfq { a: 3, b: 1 }\n");
        let names: Vec<_> = policy.classes.iter().map(|class| class.name.as_str()).collect();
        let found = entitlements(&policy, Some(BitsPerSec(400_000_000)));
        let of = |name: &str| rate(&found[names.iter().position(|n| *n == name).expect("there")]);
        let (a, b) = (of("a").expect("known"), of("b").expect("known"));
        assert!(a > 2 * b && a <= 300_000_000 && b > 0, "{names:?} {found:?}");
        let unknown = entitlements(&policy, None);
        assert!(unknown.iter().all(|e| rate(e).is_none()), "{unknown:?}");
    }

    #[test]
    fn a_limit_has_the_rates_of_its_classes_only_if_they_send_nowhere_else() {
        let text = "class a = tcp port 1\nclass b = tcp port 2\n\
            capped = limit 8mbps of a\nnear = limit by destination { 192.0.2.0/24: 1mbps } of b\n\
            root = wfq { capped: 1, near: 1, default: 1 }\n";
        let policy = policy(text);
        let classes: Vec<_> = policy
            .classes
            .iter()
            .map(|class| StatusClass { class: class.name.clone(), bps: 5e6, ..StatusClass::default() })
            .collect();
        let found = limits(&policy, &classes);
        let of = |name: &str| found.iter().find(|l| l.limit.starts_with(name)).expect("there");
        assert_eq!((of("capped").limit_bps, of("capped").bps), (8e6, Some(5e6)));
        assert_eq!((of("capped").classes.clone(), of("near").bps), (vec!["a".to_owned()], None));
    }
}
