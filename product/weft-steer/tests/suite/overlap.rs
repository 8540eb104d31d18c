//! Rules with wildcards on random NICs: a packet-by-packet walk confirms each flow's planned queue.

use crate::common::check;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_packet::HeaderMatch;
use weft_packet::header_match::Field;
use weft_steer::Flow;
use weft_steer::nic::{Exclusion, Masks, Nic, Node, NodeId, NodeKind, Order, Pool, PoolId, TableId, Target};
use weft_steer::policy::{Balance, Isolate, Locality, PolicyFile};
use weft_steer::search::{Options, Planner, SteeredFlowId, workload};
use weft_units::RxQueueId;

/// Random NICs with up to three tables with all kinds of restrictions, with and without RSS behind them.
fn some_nic() -> impl Strategy<Value = Nic> {
    let table = (0u32..12, 0u8..4, any::<bool>(), any::<bool>(), any::<bool>(), 2u32..4);
    let tables = proptest::collection::vec(table, 0..4);
    (tables, 0u32..4, proptest::option::of(0u32..6), any::<bool>()).prop_map(
        |(tables, entries, pool, exclusive)| {
            let mut nic = match entries {
                0 => workload::exact_table_nic(4, 0),
                more => workload::rss_nic(4, 1 << more),
            };
            let example = workload::one_table_nic(4, 0).tables.remove(0);
            nic.tables.clear();
            for (index, (capacity, order, one_mask, exact, pooled, last)) in tables.into_iter().enumerate() {
                let mut table = example.clone();
                table.name = format!("table-{index}");
                table.order = match order {
                    0 => Order::Priority,
                    1 => Order::Newest,
                    2 => Order::Location,
                    _ => Order::Disjoint,
                };
                table.one_mask = one_mask || table.order == Order::Disjoint;
                table.capacity = capacity;
                table.pool = (pooled && pool.is_some()).then_some(PoolId(0));
                table.last_queue = RxQueueId(last);
                for field in &mut table.fields {
                    field.required = exact && field.field == Field::SrcPort;
                    field.masks = Masks::Any;
                }
                nic.tables.push(table);
            }
            nic.pools.extend(pool.map(|capacity| Pool { name: "shared".into(), capacity }));
            if exclusive && nic.tables.len() > 1 {
                nic.exclusions
                    .push(Exclusion { tables: vec![TableId(0), TableId(1)], reason: "one unit".into() });
            }
            nic.nodes = nodes(&nic);
            nic
        },
    )
}

fn nodes(nic: &Nic) -> Vec<Node> {
    let mut kinds: Vec<NodeKind> = Vec::new();
    let next = |kinds: &[NodeKind]| Target::Node(NodeId(kinds.len() as u16 + 1));
    for (table, _) in nic.tables() {
        kinds.push(NodeKind::Filter { table, miss: next(&kinds) });
    }
    if nic.rss.is_some() {
        kinds.push(NodeKind::Rss { miss: next(&kinds) });
    }
    kinds.push(NodeKind::Queue(RxQueueId(0)));
    kinds.into_iter().enumerate().map(|(index, kind)| Node { name: format!("n{index}"), kind }).collect()
}

/// Random flows over few headers, some with wildcards, some equal: they overlap in all ways.
fn some_flow() -> impl Strategy<Value = Flow> {
    (0u32..3, 0u16..4, 0u16..6, 0u8..12, 0u8..3, 0u32..6, 1u32..4).prop_map(
        |(src, sport, dport, wild, class, core, weight)| {
            let mut key = workload::slides(1)[0].headers.flow().expect("five-tuple");
            key.src = std::net::Ipv4Addr::from((10 << 24) + src).into();
            (key.sport, key.dport) = (sport, dport);
            let mut headers = HeaderMatch::of_flow(&key);
            let dropped: &[Field] = match wild {
                0 => &[Field::SrcIp, Field::SrcPort],
                1 => &[Field::DstPort],
                2 => &[Field::SrcIp, Field::SrcPort, Field::DstPort],
                3 => &[Field::SrcIp, Field::DstIp, Field::SrcPort, Field::EtherType],
                _ => &[],
            };
            for field in dropped {
                headers = headers.without(*field);
            }
            let class = ["", "hp", "be"][usize::from(class)];
            Flow {
                headers,
                weight,
                rate: None,
                class: (!class.is_empty()).then(|| class.to_owned()),
                core: (core < 4).then_some(core),
            }
        },
    )
}

fn some_policy() -> impl Strategy<Value = fn() -> PolicyFile> {
    prop_oneof![
        Just((|| Balance::default().into()) as fn() -> PolicyFile),
        Just((|| Isolate { class: "hp".into(), queues: 1 }.into()) as fn() -> PolicyFile),
        Just((|| Locality::default().into()) as fn() -> PolicyFile),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn flows_are_received_where_the_plan_says(
        nic in some_nic(),
        policy in some_policy(),
        reserve_default in any::<bool>(),
        first in proptest::collection::vec(some_flow(), 0..25),
        events in proptest::collection::vec((any::<bool>(), some_flow(), any::<prop::sample::Index>()), 0..25),
        most_moved in proptest::option::of(0u32..5),
    ) {
        let options = Options { reserve_default, most_moved, ..Options::default() };
        let mut planner = Planner::new(nic, policy(), options).expect("fits");
        let ids = planner.set(first.clone());
        let mut known: BTreeMap<SteeredFlowId, Flow> = ids.into_iter().zip(first).collect();
        check(&planner, &known);
        for (add, flow, index) in events {
            let before: BTreeMap<SteeredFlowId, _> = planner.plan().placements.into_iter().collect();
            if add || known.is_empty() {
                let ids = planner.add(vec![flow.clone()]);
                known.insert(ids[0], flow);
            } else {
                let id = *index.get(&known.keys().copied().collect::<Vec<_>>());
                planner.remove(&[id]);
                known.remove(&id);
            }
            check(&planner, &known);
            let moved = before.iter().filter(|(id, place)| {
                planner.queue_of(**id).is_some_and(|now| now.queue() != place.queue())
            });
            let moved = moved.count() as u32;
            prop_assert!(moved <= most_moved.unwrap_or(u32::MAX), "{} moved", moved);
        }
        let all: Vec<SteeredFlowId> = known.keys().copied().collect();
        planner.remove(&all);
        prop_assert!(planner.is_empty() && planner.plan().configuration.rules.is_empty(), "no rule is left over");
    }
}
