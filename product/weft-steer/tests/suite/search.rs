//! The planner against slow reference searches, and its rules against a packet-by-packet walk.

use crate::common::{DRAGONET, check, planner, set};
use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_packet::header_match::Field;
use weft_packet::{HeaderMatch, RssKey};
use weft_steer::Flow;
use weft_steer::nic::Usage;
use weft_steer::policy::{
    Balance, Combined, Expression, Isolate, Locality, Policy, PolicyFile, Priority, Reserved,
};
use weft_steer::search::{
    Degradation, HashKey, Options, Placement, Planner, SteeredFlowId, dragonet, exhaustive, workload,
};
use weft_units::{Protocol, RxQueueId};

fn gap(planner: &Planner, queues: core::ops::Range<u32>) -> f64 {
    let loads: Vec<f64> = queues.map(|queue| planner.tally().total_load(RxQueueId(queue))).collect();
    loads.iter().copied().fold(f64::MIN, f64::max) - loads.iter().copied().fold(f64::MAX, f64::min)
}

#[test]
fn the_slides_workload_is_balanced() {
    for n in [10, 100, 250, 500] {
        let mut planner = planner(workload::dragonet_nic(10), Balance::default(), DRAGONET);
        let mut flows = set(&mut planner, &workload::slides(n));
        assert!(planner.cost().is_allowed() && gap(&planner, 1..10) <= 1.0, "{n}: {}", planner.cost());
        assert_eq!(planner.plan().degraded, []);
        let more = workload::slides_more(1, 10);
        let ids = planner.add(more.clone());
        flows.extend(ids.iter().copied().zip(more));
        check(&planner, &flows);
        assert!(gap(&planner, 1..10) <= 1.0);
        assert_eq!(planner.moved(), 0, "new flows displace none");
        planner.remove(&ids[..5]);
        ids[..5].iter().for_each(|id| drop(flows.remove(id)));
        check(&planner, &flows);
        assert!(gap(&planner, 1..10) <= 1.0 && planner.moved() <= 5, "{} moved", planner.moved());
    }
}

#[test]
fn the_slides_isolation() {
    let policy = Isolate { class: "hp".into(), queues: 4 };
    let mut planner = planner(workload::dragonet_nic(10), policy, DRAGONET);
    set(&mut planner, &workload::isolation());
    let hp = planner.tally().class("hp").expect("class");
    let be = planner.tally().class("be").expect("class");
    let counts = |class| (1..10).map(|q| planner.tally().flows(class, RxQueueId(q))).collect::<Vec<_>>();
    assert_eq!(counts(hp), [8, 8, 8, 8, 0, 0, 0, 0, 0]);
    let mut others = counts(be);
    others.sort_unstable();
    assert_eq!(others, [0, 0, 0, 0, 57, 57, 58, 58, 58]);
    assert_eq!(planner.plan().degraded, []);
}

#[test]
fn a_full_table_shares_rules_before_it_gives_up() {
    // 320 flows of 20 clients, 128 rules: one rule per client fits.
    let policy = Isolate { class: "hp".into(), queues: 4 };
    let mut plan = planner(workload::one_table_nic(10, 128), policy.clone(), DRAGONET);
    set(&mut plan, &workload::isolation());
    assert!(plan.cost().is_allowed(), "{}", plan.cost());
    let degraded = plan.plan().degraded;
    assert!(degraded.iter().any(|d| matches!(d, Degradation::Aggregated { .. })), "{degraded:?}");
    // Without wildcards rules cannot be shared: flows without a rule stay on queue 0, and the plan reports it.
    let mut plan = planner(workload::exact_table_nic(10, 128), policy, DRAGONET);
    set(&mut plan, &workload::isolation());
    assert_eq!(plan.cost().violations, 192.0);
    let degraded = plan.plan().degraded;
    assert!(
        degraded.contains(&Degradation::LeftToDefault { flows: 192, queue: RxQueueId(0) }),
        "{degraded:?}"
    );
}

#[test]
fn every_number_of_flows_around_the_table_s_size() {
    for n in [127, 128, 129, 200, 300] {
        let mut planner = planner(workload::exact_table_nic(10, 128), Balance::default(), DRAGONET);
        let flows = set(&mut planner, &workload::slides(n));
        assert_eq!(planner.cost().violations, f64::from(n.saturating_sub(128)));
        // The freed rule is reused if there are flows without one.
        let pinned =
            flows.keys().find(|id| matches!(planner.queue_of(**id), Some(Placement::Rule(_)))).copied();
        planner.remove(&[pinned.expect("pinned")]);
        assert_eq!(planner.cost().violations, f64::from(n.saturating_sub(129)));
    }
}

#[test]
fn adding_and_removing_one_flow_again_and_again_leaks_nothing() {
    let mut planner = planner(workload::exact_table_nic(10, 8), Balance::default(), DRAGONET);
    let mut flows = set(&mut planner, &workload::slides(7));
    for _ in 0..50 {
        let flow = workload::slides_more(1, 1);
        let ids = planner.add(flow.clone());
        assert!(planner.cost().is_allowed(), "its rule was freed");
        flows.insert(ids[0], flow[0].clone());
        check(&planner, &flows);
        planner.remove(&ids);
        planner.remove(&ids);
        flows.remove(&ids[0]);
        check(&planner, &flows);
    }
    assert_eq!(planner.plan().configuration.rules.len(), 7);
}

#[test]
fn the_hash_carries_what_it_can() {
    let mut planner = planner(workload::both_nic(8, 1_000, 128), Balance::default(), Options::default());
    set(&mut planner, &workload::many(10_000));
    assert!(gap(&planner, 0..8) <= 1.0, "{}", planner.cost());
    let rules = planner.plan().configuration.rules.len();
    assert!(rules < 300, "{rules} rules for what the hash does not do");
    let mut planner = self::planner(workload::rss_nic(8, 128), Balance::default(), Options::default());
    set(&mut planner, &workload::many(10_000));
    assert!(gap(&planner, 0..8) < 40.0, "{}", gap(&planner, 0..8));
}

#[test]
fn priority_grows_and_shrinks() {
    let policy = Priority { class: "hp".into(), flows_per_queue: 8 };
    let mut planner = planner(workload::dragonet_nic(10), policy, DRAGONET);
    let flow =
        |i: u16, class: &str| Flow { class: Some(class.into()), ..workload::slides(i).pop().expect("flow") };
    let be: Vec<Flow> = (1..=90).map(|i| flow(i, "be")).collect();
    let mut flows = set(&mut planner, &be);
    let mut ids = Vec::new();
    for i in 91..=120 {
        let id = planner.add(vec![flow(i, "hp")]);
        flows.insert(id[0], flow(i, "hp"));
        ids.extend(id);
        check(&planner, &flows);
        assert!(planner.cost().is_allowed(), "{i}: {}", planner.cost());
    }
    let hp = planner.tally().class("hp").expect("class");
    assert_eq!((1..10).filter(|q| planner.tally().flows(hp, RxQueueId(*q)) > 0).count(), 4);
    planner.remove(&ids);
    ids.iter().for_each(|id| drop(flows.remove(id)));
    check(&planner, &flows);
    assert!(gap(&planner, 1..10) <= 1.0, "the queues are for all again");
}

#[test]
fn no_event_moves_more_than_may_be() {
    let policy = Priority { class: "hp".into(), flows_per_queue: 4 };
    let options = Options { most_moved: Some(2), ..DRAGONET };
    let mut planner = planner(workload::dragonet_nic(10), policy, options);
    let flow =
        |i: u16, class: &str| Flow { class: Some(class.into()), ..workload::slides(i).pop().expect("flow") };
    let mut flows = set(&mut planner, &(1..=60).map(|i| flow(i, "be")).collect::<Vec<_>>());
    let (mut limited, mut last) = (false, Vec::new());
    for i in 61..=70 {
        let before: BTreeMap<SteeredFlowId, _> = planner.plan().placements.into_iter().collect();
        let id = planner.add(vec![flow(i, "hp")]);
        flows.insert(id[0], flow(i, "hp"));
        check(&planner, &flows);
        let moved = before
            .iter()
            .filter(|(id, place)| planner.queue_of(**id).map(|p| p.queue()) != Some(place.queue()));
        let moved = moved.count();
        assert!(moved <= 2 && moved as u32 <= planner.moved(), "{moved}");
        let degraded = planner.plan().degraded;
        limited |= degraded.iter().any(|d| matches!(d, Degradation::MoveLimit { .. }));
        last = id;
    }
    assert!(limited, "a queue that changes its class has more than two flows");
    // Later events continue with the remaining flows.
    for _ in 0..40 {
        planner.remove(&last);
        flows.remove(&last[0]);
        last = planner.add(vec![flow(70, "hp")]);
        flows.insert(last[0], flow(70, "hp"));
    }
    check(&planner, &flows);
    assert!(planner.cost().is_allowed(), "{}", planner.cost());
}

#[test]
fn flows_are_where_their_processors_are() {
    let with_core = |(i, flow): (usize, Flow)| Flow { core: (i % 5 != 4).then_some(i as u32 % 7), ..flow };
    let flows: Vec<Flow> = workload::many(200).into_iter().enumerate().map(with_core).collect();
    let mut planner = planner(workload::both_nic(8, 1_000, 64), Locality::default(), Options::default());
    set(&mut planner, &flows);
    assert_eq!(planner.cost(), weft_steer::policy::Cost::ZERO);
    let mut planner = self::planner(workload::both_nic(8, 20, 64), Locality::default(), Options::default());
    set(&mut planner, &flows);
    let few = planner.cost().value;
    let mut planner = self::planner(workload::rss_nic(8, 64), Locality::default(), Options::default());
    set(&mut planner, &flows);
    assert!(few > 0.0 && planner.cost().value >= few + 20.0, "each rule brings one flow home");
}

#[test]
fn many_flows_and_queues() {
    let nic = workload::both_nic(1_024, 8_192, 4_096);
    let policy = Isolate { class: "hp".into(), queues: 24 };
    let mut planner = planner(nic, policy, Options::default());
    let class =
        |(i, flow): (usize, Flow)| Flow { class: Some(if i % 50 == 0 { "hp" } else { "be" }.into()), ..flow };
    let flows: Vec<Flow> = workload::many(100_000).into_iter().enumerate().map(class).collect();
    let ids = planner.set(flows.clone());
    let plan = planner.plan();
    Usage::of(planner.nic(), &plan.configuration).expect("fits");
    assert_eq!(plan.degraded, []);
    assert!(planner.cost().is_allowed() && gap(&planner, 24..1_024) <= 40.0, "{}", gap(&planner, 24..1_024));
    assert!(gap(&planner, 0..24) <= 1.0, "the class has rules");
    for chunk in ids.chunks(1_000).take(20) {
        planner.remove(chunk);
        assert!(planner.moved() <= 2_000 && planner.cost().is_allowed());
    }
    planner.add(flows[..20_000].to_vec());
    assert!(planner.cost().is_allowed() && planner.len() == 100_000);
}

#[test]
fn formulas_are_searched_locally() {
    let formula = Expression::read("variance(load) + 10 * count(class hp outside 1..3)").expect("a formula");
    let mut planner = planner(workload::dragonet_nic(8), formula, DRAGONET);
    let flow = |(i, flow): (usize, Flow)| Flow { class: (i % 4 == 0).then(|| "hp".into()), ..flow };
    let flows: Vec<Flow> = workload::slides(70).into_iter().enumerate().map(flow).collect();
    let mut all = set(&mut planner, &flows);
    assert!(planner.cost() == weft_steer::policy::Cost::ZERO, "{}: 10 on each of 7 queues", planner.cost());
    let more = workload::slides_more(1, 7);
    let ids = planner.add(more.clone());
    all.extend(ids.into_iter().zip(more));
    check(&planner, &all);
    assert!(planner.cost() == weft_steer::policy::Cost::ZERO, "{}", planner.cost());
    // Two goals at once: preferred queues, and balance among the others.
    let parts: Vec<(f64, Box<dyn Policy>)> =
        vec![(1.0, Box::new(Balance::default())), (2.0, Box::new(Locality::default()))];
    let mut planner = self::planner(workload::both_nic(4, 100, 16), Combined { parts }, Options::default());
    let core = |(i, flow): (usize, Flow)| Flow { core: (i < 4).then_some(i as u32), ..flow };
    set(&mut planner, &workload::slides(20).into_iter().enumerate().map(core).collect::<Vec<_>>());
    assert!(planner.cost() == weft_steer::policy::Cost::ZERO, "{}", planner.cost());
}

fn listener(port: u16) -> Flow {
    let headers = HeaderMatch::ALL
        .exact(Field::EtherType, 0x0800)
        .exact(Field::IpProtocol, 17)
        .exact(Field::DstPort, port.into());
    Flow { headers, ..workload::slides(1).remove(0) }
}

#[test]
fn a_listening_socket_takes_what_has_no_rule_and_no_more() {
    let policy = Reserved {
        classes: vec![("hp".into(), RxQueueId(0), RxQueueId(0)), ("be".into(), RxQueueId(1), RxQueueId(3))],
    };
    let flow = |i: u16, class: &str| {
        let mut key = workload::slides(1)[0].headers.flow().expect("five-tuple");
        (key.sport, key.dport) = (i, 53);
        Flow { class: Some(class.into()), ..Flow::new(&key) }
    };
    let mut flows: Vec<Flow> = (0..6).map(|i| flow(i, if i % 2 == 0 { "hp" } else { "be" })).collect();
    flows.push(Flow { class: Some("be".into()), ..listener(53) });
    let mut planner = planner(workload::wildcard_nic(4, 8, 16), policy, Options::default());
    let all = set(&mut planner, &flows);
    assert!(planner.cost().is_allowed(), "{}", planner.cost());
    // The same flows, added one at a time.
    let mut later = self::planner(workload::wildcard_nic(4, 8, 16), Balance::default(), Options::default());
    let mut known = BTreeMap::new();
    for flow in flows.iter().rev() {
        let id = later.add(vec![flow.clone()]);
        known.insert(id[0], flow.clone());
        check(&later, &known);
    }
    for id in all.keys() {
        planner.remove(&[*id]);
        assert!(planner.cost().is_allowed());
    }
    assert_eq!(planner.plan().configuration.rules, []);
}

#[test]
fn a_listening_socket_comes_when_the_table_is_full() {
    // Flows that hash to allowed queues do not depend on their rules.
    let policy = Isolate { class: "hp".into(), queues: 2 };
    let mut plan = planner(workload::wildcard_nic(8, 16, 32), policy, Options::default());
    let mut flows = set(&mut plan, &workload::many(500));
    let id = plan.add(vec![Flow { class: Some("hp".into()), ..listener(53) }]);
    flows.insert(id[0], listener(53));
    assert!(
        matches!(plan.queue_of(id[0]), Some(Placement::Rule(RxQueueId(0 | 1)))),
        "{:?}",
        plan.queue_of(id[0])
    );
    // If all rules are needed, the flow is spread or sent to queue 0, and the plan reports it.
    for nic in [workload::wildcard_nic(4, 4, 32), workload::one_table_nic(4, 4)] {
        let policy = Isolate { class: "hp".into(), queues: 2 };
        let mut plan = planner(nic, policy, DRAGONET);
        let hp = |flow: Flow| Flow { class: Some("hp".into()), ..flow };
        let exact: Vec<Flow> = workload::slides(4).into_iter().map(hp).collect();
        plan.set(exact);
        let id = plan.add(vec![
            hp(listener(53)),
            hp(listener(54)),
            hp(listener(55)),
            hp(listener(56)),
            hp(listener(57)),
        ]);
        let without = id.iter().filter(|id| !matches!(plan.queue_of(**id), Some(Placement::Rule(_)))).count();
        let plan = plan.plan();
        assert!(without > 0 && plan.configuration.rules.len() == 4);
        assert!(!plan.degraded.is_empty() && plan.degraded.iter().all(|d| !d.to_string().contains('\n')));
    }
}

#[test]
fn one_mask_is_that_of_most_flows() {
    let mut nic = workload::exact_table_nic(4, 64);
    nic.tables[0].fields.iter_mut().for_each(|field| field.required = false);
    let policy = Isolate { class: "hp".into(), queues: 1 };
    let hp = |flow: Flow| Flow { class: Some("hp".into()), ..flow };
    let mut flows: Vec<Flow> = workload::slides(10).into_iter().map(hp).collect();
    flows.push(hp(listener(53)));
    let mut planner = planner(nic, policy, DRAGONET);
    set(&mut planner, &flows);
    let degraded = planner.plan().degraded;
    assert!(
        degraded.contains(&Degradation::MaskConflict { flows: 1, table: "five-tuple".into() }),
        "{degraded:?}"
    );
    assert_eq!(planner.cost().violations, 1.0);
    // After the last of the others is removed, the table accepts it.
    let exact: Vec<SteeredFlowId> = planner.plan().placements.iter().map(|(id, _)| *id).take(10).collect();
    planner.remove(&exact);
    assert!(planner.cost().is_allowed() && planner.plan().degraded.is_empty());
}

/// Random flows with classes, weights and processors over few five-tuples.
fn some_flows(most: usize, weights: bool) -> impl Strategy<Value = Vec<Flow>> {
    let flow = (0u16..500, 0u8..3, 1u32..20, 0u32..4);
    proptest::collection::btree_map(0u16..500, flow, 1..=most).prop_map(move |flows| {
        let build = |(port, (sport, class, weight, core)): (u16, (u16, u8, u32, u32))| {
            let mut key = workload::slides(1)[0].headers.flow().expect("five-tuple");
            (key.sport, key.dport, key.protocol) = (sport, port, Protocol::TCP);
            let class = ["", "hp", "be"][usize::from(class)];
            let class = (!class.is_empty()).then(|| class.to_owned());
            let weight = if weights { weight } else { 1 };
            Flow { class, weight, core: (core < 3).then_some(core), ..Flow::new(&key) }
        };
        flows.into_iter().map(build).collect()
    })
}

fn some_policy() -> impl Strategy<Value = fn() -> PolicyFile> {
    prop_oneof![
        Just((|| Balance::default().into()) as fn() -> PolicyFile),
        Just((|| Isolate { class: "hp".into(), queues: 1 }.into()) as fn() -> PolicyFile),
        Just((|| Priority { class: "hp".into(), flows_per_queue: 2 }.into()) as fn() -> PolicyFile),
        Just((|| Locality::default().into()) as fn() -> PolicyFile),
        Just(
            (|| Reserved {
                classes: vec![
                    ("hp".into(), RxQueueId(1), RxQueueId(2)),
                    ("be".into(), RxQueueId(1), RxQueueId(1))
                ]
            }
            .into()) as fn() -> PolicyFile
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn as_good_as_any_assignment(
        flows in some_flows(6, false), policy in some_policy(), capacity in 0u32..5, entries in 0u32..3, reserve in any::<bool>(),
    ) {
        let nic = match entries {
            0 => workload::exact_table_nic(3, capacity),
            more => workload::both_nic(3, capacity, more),
        };
        let options = Options { reserve_default: reserve, ..Options::default() };
        let mut planner = planner(nic.clone(), policy(), options.clone());
        set(&mut planner, &flows);
        let best = exhaustive(&nic, &policy(), &options, &flows, 1_000_000).expect("tiny");
        prop_assert!((planner.cost().value - best.cost.value).abs() < 1e-9 && planner.cost().violations == best.cost.violations,
            "{} instead of {}: {:?}", planner.cost(), best.cost, best);
    }

    #[test]
    fn never_worse_than_the_greedy_search(
        flows in some_flows(60, true), policy in some_policy(), capacity in 0u32..70, entries in 0u32..5, reserve in any::<bool>(),
    ) {
        let nic = match entries {
            0 => workload::exact_table_nic(5, capacity),
            more => workload::both_nic(5, capacity, 1 << more),
        };
        let options = Options { reserve_default: reserve, ..Options::default() };
        let mut planner = planner(nic.clone(), policy(), options.clone());
        set(&mut planner, &flows);
        let policy = policy();
        let greedy = dragonet::naive(&nic, &policy, &options, &flows);
        let ours = planner.cost();
        prop_assert!(ours <= greedy.cost || ours.violations == greedy.cost.violations && ours.value < greedy.cost.value + 1e-9,
            "{ours} instead of {}", greedy.cost);
        let mut incremental = dragonet::Incremental::new(&nic, &policy, &options);
        for flow in &flows {
            incremental.add(flow);
        }
        let incremental = incremental.found();
        prop_assert_eq!(&incremental.queues, &greedy.queues, "the two of Dragonet's agree");
        prop_assert_eq!(incremental.rules, greedy.rules);
    }

    #[test]
    fn events_keep_accounting_and_bounds(
        flows in some_flows(40, true), policy in some_policy(), capacity in 0u32..30, wild in any::<bool>(),
        events in proptest::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 0u16..4), 1..25),
        most_moved in proptest::option::of(0u32..4),
    ) {
        let nic = if wild { workload::wildcard_nic(4, capacity, 8) } else { workload::both_nic(4, capacity, 8) };
        let options = Options { most_moved, ..Options::default() };
        let mut planner = planner(nic, policy(), options);
        let (now, later) = flows.split_at(flows.len() / 2);
        let mut known = set(&mut planner, now);
        for (add, index, port) in events {
            let before: BTreeMap<SteeredFlowId, _> = planner.plan().placements.into_iter().collect();
            if add && !later.is_empty() {
                let flow = if port == 0 { listener(index.index(500) as u16) } else { index.get(later).clone() };
                let id = planner.add(vec![flow.clone()]);
                known.insert(id[0], flow);
            } else if !known.is_empty() {
                let id = *index.get(&known.keys().copied().collect::<Vec<_>>());
                planner.remove(&[id]);
                known.remove(&id);
            }
            check(&planner, &known);
            let moved = before.iter().filter(|(id, place)| {
                planner.queue_of(**id).is_some_and(|now| now.queue() != place.queue())
            });
            let moved = moved.count() as u32;
            prop_assert!(moved <= planner.moved() && moved <= most_moved.unwrap_or(u32::MAX), "{} moved", moved);
        }
    }
}

#[test]
fn the_hash_s_key_is_the_nic_s_own() {
    let nic = workload::rss_nic(4, 128);
    let flows = workload::slides(100);
    let known = RssKey((0..40_u32).map(|byte| (byte * 37 % 251) as u8).collect());
    let plan_with = |key: HashKey| {
        let mut planner = planner(nic.clone(), Balance::default(), Options { key, ..Options::default() });
        planner.set(flows.clone());
        planner.plan()
    };
    let plan = plan_with(HashKey::Known(known.clone()));
    assert_eq!(plan.configuration.key, known);
    let differing = plan_with(HashKey::Standard);
    assert_ne!(differing.configuration.contexts, plan.configuration.contexts, "other flows share entries");
    for (flow, (_, placement)) in flows.iter().zip(&plan.placements) {
        let Placement::Hash(queue) = placement else { panic!("{placement:?}") };
        assert_eq!(nic.mapping(&plan.configuration, &flow.headers).queues(), [*queue]);
    }
    let unknown = plan_with(HashKey::Unknown);
    assert!(unknown.placements.iter().all(|(_, placement)| *placement == Placement::Spread));
    let told: Vec<String> = unknown.degraded.iter().map(ToString::to_string).collect();
    assert!(told.iter().any(|line| line.contains("100 flows")), "{told:?}");
}
