//! A packet-by-packet walk over plans, and the invariants of every plan.

use std::collections::BTreeMap;
use weft_packet::{HeaderMatch, Toeplitz};
use weft_steer::nic::{Nic, Order, Usage};
use weft_steer::policy::{Item, PolicyFile, Tally};
use weft_steer::search::{HashKey, Options, Placement, Planner, SteeredFlowId};
use weft_steer::{Action, Flow};
use weft_units::{FlowKey, RxQueueId};

pub(crate) const DRAGONET: Options = Options {
    queues: None,
    reserve_default: true,
    most_moved: None,
    all_tables: false,
    effort: 20_000,
    seed: 1,
    key: HashKey::Standard,
};

pub(crate) fn planner(nic: Nic, policy: impl Into<PolicyFile>, options: Options) -> Planner {
    Planner::new(nic, policy, options).expect("a planner")
}

/// Returns the queue of a packet by definition: tables in the graph's order, which is that of their numbers here; in a table the
/// rule with precedence; then the hash; then queue 0.
pub(crate) fn receive(nic: &Nic, plan: &weft_steer::search::Plan, key: &FlowKey) -> (RxQueueId, bool) {
    let packet = HeaderMatch::of_flow(key);
    for (id, table) in nic.tables() {
        let hits: Vec<_> =
            plan.configuration.rules.iter().filter(|r| r.table == id && r.headers.covers(&packet)).collect();
        let hit = match table.order {
            Order::Newest => hits.last().copied(),
            // The first rule of the highest priority: max_by_key returns the last, so the list is reversed.
            _ => hits.iter().rev().max_by_key(|rule| rule.priority).copied(),
        };
        if let Some(rule) = hit {
            let Action::Queue(queue) = rule.action else { panic!("only queues are planned") };
            return (queue, true);
        }
    }
    let Some(rss) = &nic.rss else { return (RxQueueId(0), false) };
    let hash = Toeplitz::new(&plan.configuration.key).flow(key, rss.hashed_fields(key.protocol));
    (plan.configuration.contexts[0].indirection[(hash % rss.indirection) as usize], false)
}

/// Checks the invariants of every plan.
pub(crate) fn check(planner: &Planner, flows: &BTreeMap<SteeredFlowId, Flow>) {
    let (plan, nic) = (planner.plan(), planner.nic());
    Usage::of(nic, &plan.configuration).unwrap_or_else(|(rule, refusal)| {
        panic!("rule {rule} {:?}: {refusal}", plan.configuration.rules[rule])
    });
    assert_eq!(
        plan.placements.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        flows.keys().copied().collect::<Vec<_>>()
    );
    let mut tally = Tally::new(planner.tally().queues().to_vec(), nic.queues);
    for queue in plan.configuration.contexts.iter().flat_map(|context| &context.indirection) {
        tally.move_entry(None, Some(*queue));
    }
    for (id, placement) in &plan.placements {
        assert_eq!(planner.queue_of(*id), Some(*placement));
        let flow = &flows[id];
        let class = tally.intern(planner.policy().classes.of(flow));
        tally.add(Item { class, load: flow.weight.into(), core: flow.core }, placement.queue());
        if let Some(key) = flow.headers.flow() {
            let (queue, by_rule) = receive(nic, &plan, &key);
            assert_eq!(Some(queue), placement.queue(), "{key:?} is where the plan says: {placement:?}");
            assert_eq!(by_rule, matches!(placement, Placement::Rule(_)));
        }
    }
    let whole = planner.policy().policy.cost(&tally);
    assert!((whole.value - plan.cost.value).abs() < 1e-6, "{whole} is {}", plan.cost);
    assert_eq!(whole.violations, plan.cost.violations);
}

pub(crate) fn set(planner: &mut Planner, flows: &[Flow]) -> BTreeMap<SteeredFlowId, Flow> {
    let ids = planner.set(flows.to_vec());
    let all: BTreeMap<SteeredFlowId, Flow> = ids.into_iter().zip(flows.iter().cloned()).collect();
    check(planner, &all);
    all
}
