//! Random NICs, configurations and packets for tests: small enough that packets match rules.

use super::{
    Actions, Exclusion, Fact, FieldSupport, Interface, Masks, Nic, Node, NodeId, NodeKind, Operator, Order,
    Pool, PoolId, Port, RssModel, Table, TableId, Target,
};
use crate::nic::configuration::{Action, Configuration, ContextId, RssContext, Rule};
use crate::predicate::Predicate;
use crate::predicate::tests::{some_headers, some_predicate};
use proptest::collection::vec;
use proptest::prelude::*;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_packet::rss::RssKey;
use weft_units::RxQueueId;

/// Number of queues of random NICs.
const QUEUES: u32 = 6;
/// Number of tables of random NICs.
const TABLES: u16 = 3;

fn some_table(index: u16) -> impl Strategy<Value = Table> {
    let order =
        prop_oneof![Just(Order::Priority), Just(Order::Location), Just(Order::Newest), Just(Order::Disjoint)];
    let masks = prop_oneof![Just(Masks::Exact), Just(Masks::Prefix), Just(Masks::Any)];
    let interface = prop_oneof![
        Just(Interface::Ntuple),
        Just(Interface::Flower),
        Just(Interface::RteFlow),
        Just(Interface::None)
    ];
    (
        order,
        vec((masks, any::<bool>()), 1..10),
        vec(some_headers(), 0..3),
        interface,
        any::<[bool; 4]>(),
        1u8..30,
    )
        .prop_map(move |(order, masks, within, interface, flags, bits)| Table {
            name: format!("table-{index}"),
            capacity: u32::from(bits),
            pool: (index < 2).then_some(PoolId(index)),
            fields: Field::ALL
                .into_iter()
                .zip(masks)
                .map(|(field, (masks, required))| FieldSupport { field, masks, required })
                .collect(),
            within,
            one_mask: flags[0],
            priorities: if flags[1] { (1, bits) } else { (0, 0) },
            order,
            actions: Actions { queue: true, context: flags[2], drop: flags[3] },
            last_queue: RxQueueId(u32::from(bits) % QUEUES),
            signature_bits: flags[1].then_some(bits),
            interface,
        })
}

/// The plan of a node; numbers are taken modulo the number of choices.
#[derive(Clone, Debug)]
enum Plan {
    Classify(Vec<(Predicate, Vec<(u16, bool)>)>),
    Logic(Operator, u8, Vec<(u16, bool)>, Vec<(u16, bool)>),
    Filter(u16, u16),
    Rss(u16),
    Queue(u32),
    Drop,
}

fn some_plan() -> impl Strategy<Value = Plan> {
    let targets = || vec((any::<u16>(), any::<bool>()), 0..3);
    let operator =
        prop_oneof![Just(Operator::And), Just(Operator::Or), Just(Operator::Nand), Just(Operator::Nor)];
    prop_oneof![
        4 => vec((some_predicate(), targets()), 0..4).prop_map(Plan::Classify),
        2 => (operator, 1u8..4, targets(), targets()).prop_map(|(o, n, t, f)| Plan::Logic(o, n, t, f)),
        4 => (any::<u16>(), any::<u16>()).prop_map(|(table, miss)| Plan::Filter(table, miss)),
        1 => any::<u16>().prop_map(Plan::Rss),
        2 => (0..QUEUES).prop_map(Plan::Queue),
        1 => Just(Plan::Drop),
    ]
}

/// Builds nodes from plans. Edges lead to later nodes only; the first node feeds every node without another predecessor.
fn nodes(plans: &[Plan]) -> Vec<Node> {
    // The first node, one per plan, one per table, and the default queue.
    let total = 1 + plans.len() + usize::from(TABLES) + 2;
    let operands = |node: usize| match node.checked_sub(1).and_then(|plan| plans.get(plan)) {
        Some(Plan::Logic(_, operands, ..)) => Some(*operands),
        _ => None,
    };
    let target = |from: usize, (number, value): (u16, bool)| {
        let node = from + 1 + usize::from(number) % (total - from - 1);
        let id = NodeId(node as u16);
        operands(node).map_or(Target::Node(id), |operands| Target::Operand {
            node: id,
            operand: (number / 7 % u16::from(operands)) as u8,
            value,
        })
    };
    let all = |from: usize, to: &[(u16, bool)]| to.iter().map(|one| target(from, *one)).collect::<Vec<_>>();
    let mut kinds = vec![NodeKind::Classify { ports: vec![] }];
    for (index, plan) in plans.iter().enumerate() {
        let from = index + 1;
        kinds.push(match plan {
            Plan::Classify(ports) => NodeKind::Classify {
                ports: ports
                    .iter()
                    .enumerate()
                    .map(|(place, (when, to))| Port {
                        name: format!("p{place}"),
                        when: when.clone(),
                        to: all(from, to),
                    })
                    .collect(),
            },
            Plan::Logic(operator, operands, on_true, on_false) => NodeKind::Logic {
                operator: *operator,
                operands: *operands,
                on_true: all(from, on_true),
                on_false: all(from, on_false),
            },
            Plan::Filter(table, miss) => {
                NodeKind::Filter { table: TableId(table % TABLES), miss: target(from, (*miss, true)) }
            }
            Plan::Rss(miss) => NodeKind::Rss { miss: target(from, (*miss, true)) },
            Plan::Queue(queue) => NodeKind::Queue(RxQueueId(*queue)),
            Plan::Drop => NodeKind::Drop,
        });
    }
    for table in 0..TABLES {
        let miss = Target::Node(NodeId(kinds.len() as u16 + 1));
        kinds.push(NodeKind::Filter { table: TableId(table), miss });
    }
    kinds.push(NodeKind::Rss { miss: Target::Node(NodeId(kinds.len() as u16 + 1)) });
    kinds.push(NodeKind::Queue(RxQueueId(0)));
    let fed = |target: &Target| kinds.iter().any(|kind| kind.targets().any(|one| same_end(one, target)));
    let mut to = Vec::new();
    for node in 1..total {
        let id = NodeId(node as u16);
        match operands(node) {
            None => to.push(Target::Node(id)),
            Some(operands) => to.extend((0..operands).map(|operand| Target::Operand {
                node: id,
                operand,
                value: (node + usize::from(operand)) % 2 == 0,
            })),
        }
    }
    to.retain(|target| !fed(target));
    kinds[0] = NodeKind::Classify { ports: vec![Port { name: "in".into(), when: Predicate::TRUE, to }] };
    kinds.into_iter().enumerate().map(|(index, kind)| Node { name: format!("n{index}"), kind }).collect()
}

fn same_end(one: &Target, other: &Target) -> bool {
    match (one, other) {
        (Target::Operand { node: a, operand: i, .. }, Target::Operand { node: b, operand: j, .. }) => {
            (a, i) == (b, j)
        }
        _ => one == other,
    }
}

/// A random model that survives writing and reading, with nodes of all kinds.
pub(crate) fn some_nic() -> impl Strategy<Value = Nic> {
    let tables = (some_table(0), some_table(1), some_table(2)).prop_map(|(a, b, c)| vec![a, b, c]);
    let rss = (0u32..4, any::<[bool; 2]>(), vec(prop_oneof![Just(6u8), Just(17), Just(132), Just(99)], 0..3));
    (tables, vec(some_plan(), 0..8), rss, any::<bool>()).prop_map(
        |(tables, plans, (size, settable, ports), more)| Nic {
            name: "random".into(),
            title: "A random NIC, with # and {}".into(),
            queues: QUEUES,
            nodes: nodes(&plans),
            tables,
            pools: vec![Pool { name: "one".into(), capacity: 5 }, Pool { name: "other".into(), capacity: 9 }],
            rss: Some(RssModel {
                indirection: 1 << size,
                queues: QUEUES - size,
                contexts: size,
                key_bytes: 40,
                key_settable: settable[0],
                indirection_settable: settable[1],
                hashed_with_ports: ports,
            }),
            exclusions: if more {
                vec![Exclusion { tables: vec![TableId(2), TableId(0)], reason: "one unit".into() }]
            } else {
                vec![]
            },
            facts: vec![
                Fact {
                    text: "it is random".into(),
                    source: "a seed".into(),
                    about: vec!["order".into()]
                };
                usize::from(more)
            ],
        },
    )
}

fn some_action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (0..QUEUES).prop_map(|queue| Action::Queue(RxQueueId(queue))),
        2 => (0u32..4).prop_map(|context| Action::Context(ContextId(context))),
        1 => Just(Action::Drop),
    ]
}

/// Random rules of all tables, and contexts 0 to 2, some of them missing.
pub(super) fn some_configuration() -> impl Strategy<Value = Configuration> {
    let rule = (0..TABLES, some_headers(), some_kind(), 0u8..4, some_action()).prop_map(
        |(table, headers, kind, priority, action)| Rule {
            table: TableId(table),
            headers: headers.intersect(&kind).unwrap_or(headers),
            priority,
            action,
        },
    );
    let context = (0u32..4, 0u32..3).prop_flat_map(|(size, id)| {
        let queues = (0..QUEUES).prop_map(RxQueueId);
        vec(queues, 1 << size).prop_map(move |indirection| RssContext { id: ContextId(id), indirection })
    });
    (vec(rule, 0..24), vec(context, 0..4), vec(any::<u8>(), 40)).prop_map(|(rules, mut contexts, key)| {
        contexts.sort_by_key(|context| context.id);
        contexts.dedup_by_key(|context| context.id);
        Configuration { rules, contexts, key: RssKey(key) }
    })
}

/// Tests of Ethernet type and protocol, or no test.
fn some_kind() -> impl Strategy<Value = HeaderMatch> {
    let ether_type = prop_oneof![Just(0x0800u128), Just(0x86dd), Just(0x0806)];
    let protocol = prop_oneof![Just(6u128), Just(17), Just(1)];
    (proptest::option::of(ether_type), proptest::option::of(protocol)).prop_map(|(ether_type, protocol)| {
        let headers =
            ether_type.map_or(HeaderMatch::ALL, |one| HeaderMatch::ALL.exact(Field::EtherType, one));
        protocol.map_or(headers, |one| headers.exact(Field::IpProtocol, one))
    })
}

/// A random packet, and a flow that contains it.
pub(super) fn some_packet() -> impl Strategy<Value = (HeaderMatch, HeaderMatch)> {
    (some_headers(), some_kind(), 0u16..1024, any::<bool>()).prop_map(|(headers, kind, keep, whole)| {
        let packet = headers.intersect(&kind).unwrap_or(headers).whole();
        let flow = Field::ALL.into_iter().enumerate().fold(packet, |flow, (bit, field)| {
            if whole || keep >> bit & 1 == 1 { flow } else { flow.without(field) }
        });
        (packet, flow)
    })
}
