//! NICs and flows of published experiments, for tests and benchmarks.

use crate::flow::Flow;
use crate::nic::{
    Actions, FieldSupport, Interface, Masks, Nic, Node, NodeId, NodeKind, Order, RssModel, Table, TableId,
    Target,
};
use core::net::Ipv4Addr;
use weft_packet::header_match::Field;
use weft_units::{FlowKey, Protocol, RxQueueId};

/// The network of Dragonet's benchmark, which has integers as addresses: here the last bytes of `10.0.0.0/24`.
const NETWORK: u32 = 10 << 24;

fn udp(source: u32, sport: u16, destination: u32, dport: u16) -> Flow {
    let address = |last: u32| Ipv4Addr::from(NETWORK + last).into();
    Flow::new(&FlowKey {
        src: address(source),
        dst: address(destination),
        sport,
        dport,
        protocol: Protocol::UDP,
    })
}

/// Returns flows 1 to `n` of Dragonet's search benchmark (`tests/benchSearch.hs`, "full"): UDP, source 123 port 7777, destination
/// 127 port 1000 + i.
pub fn slides(n: u16) -> Vec<Flow> {
    (1..=n).map(|i| udp(123, 7777, 127, 1000 + i)).collect()
}

/// Returns flows of the same benchmark's incremental part: source 100 port 7777, destination 127 ports from 1000 + `first`.
pub fn slides_more(first: u16, n: u16) -> Vec<Flow> {
    (0..n).map(|i| udp(100, 7777, 127, 1000 + first + i)).collect()
}

/// Returns the flows of the isolation experiment (TRIOS'15, "Experiment #2"): 20 clients with 16 UDP flows each to memcached; the
/// first two are of class `hp`, the others of class `be`.
pub fn isolation() -> Vec<Flow> {
    let client = |client: u32| {
        (0..16).map(move |flow| {
            let class = if client < 2 { "hp" } else { "be" };
            Flow { class: Some(class.to_owned()), ..udp(1 + client, 8000 + flow, 127, 11_211) }
        })
    };
    (0..20).flat_map(client).collect()
}

/// Returns many flows of many clients to one server: flow i has client i mod 60,000, a port by i, and weight 1.
pub fn many(n: u32) -> Vec<Flow> {
    let flow = |i: u32| {
        let key = FlowKey {
            src: Ipv4Addr::from(NETWORK + 0x1_0000 + i % 60_000).into(),
            dst: Ipv4Addr::from(NETWORK + 1).into(),
            sport: 1024 + (i / 60_000) as u16 * 7 + (i % 1_009) as u16,
            dport: 443,
            protocol: Protocol::TCP,
        };
        Flow::new(&key)
    };
    (0..n).map(flow).collect()
}

/// Whether rules of a table may omit fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wildcards {
    Allowed,
    Refused,
}

/// Returns a table over five-tuples.
fn table(name: &str, capacity: u32, queues: u32, wildcards: Wildcards) -> Table {
    let required = wildcards == Wildcards::Refused;
    let fields = [
        (Field::EtherType, Masks::Exact),
        (Field::IpProtocol, Masks::Exact),
        (Field::SrcIp, Masks::Exact),
        (Field::DstIp, Masks::Exact),
        (Field::SrcPort, Masks::Exact),
        (Field::DstPort, Masks::Exact),
    ];
    Table {
        name: name.to_owned(),
        capacity,
        pool: None,
        fields: fields.map(|(field, masks)| FieldSupport { field, masks, required }).to_vec(),
        within: Vec::new(),
        one_mask: required,
        priorities: (0, 0),
        order: if required { Order::Disjoint } else { Order::Priority },
        actions: Actions { queue: true, ..Actions::default() },
        last_queue: RxQueueId(queues.saturating_sub(1)),
        signature_bits: None,
        interface: Interface::Ntuple,
    }
}

/// Returns the model of Dragonet's benchmark (`prgE10kImpl-simple.unicorn`): 128 five-tuple filters with optional fields and
/// priorities 1 to 7; then 2,048 flow director filters without wildcards; then queue 0.
pub fn dragonet_nic(queues: u32) -> Nic {
    let mut five = table("five-tuple", 128, queues, Wildcards::Allowed);
    five.priorities = (1, 7);
    nic("dragonet", queues, vec![five, table("flow-director", 2_048, queues, Wildcards::Refused)], None)
}

/// A NIC with only one table, whose rules may leave fields out.
pub fn one_table_nic(queues: u32, capacity: u32) -> Nic {
    nic(
        "one-table",
        queues,
        vec![Table { priorities: (1, 7), ..table("five-tuple", capacity, queues, Wildcards::Allowed) }],
        None,
    )
}

/// A NIC with only one table, whose rules are five-tuples.
pub fn exact_table_nic(queues: u32, capacity: u32) -> Nic {
    nic("exact-table", queues, vec![table("five-tuple", capacity, queues, Wildcards::Refused)], None)
}

/// A NIC with RSS and no tables.
pub fn rss_nic(queues: u32, entries: u32) -> Nic {
    nic("rss", queues, Vec::new(), Some(entries))
}

/// Returns a NIC with RSS behind a table of five-tuples without wildcards.
pub fn both_nic(queues: u32, capacity: u32, entries: u32) -> Nic {
    nic("both", queues, vec![table("five-tuple", capacity, queues, Wildcards::Refused)], Some(entries))
}

/// Returns a NIC with RSS behind a table whose rules may omit fields.
pub fn wildcard_nic(queues: u32, capacity: u32, entries: u32) -> Nic {
    let table = Table { priorities: (1, 7), ..table("five-tuple", capacity, queues, Wildcards::Allowed) };
    nic("wildcards", queues, vec![table], Some(entries))
}

fn nic(name: &str, queues: u32, tables: Vec<Table>, entries: Option<u32>) -> Nic {
    let next = |index: usize| Target::Node(NodeId(index as u16 + 1));
    let mut nodes: Vec<Node> = Vec::new();
    for (index, table) in tables.iter().enumerate() {
        let kind = NodeKind::Filter { table: TableId(index as u16), miss: next(nodes.len()) };
        nodes.push(Node { name: table.name.clone(), kind });
    }
    if entries.is_some() {
        nodes.push(Node { name: "rss".to_owned(), kind: NodeKind::Rss { miss: next(nodes.len()) } });
    }
    nodes.push(Node { name: "queue-0".to_owned(), kind: NodeKind::Queue(RxQueueId(0)) });
    let rss = entries.map(|indirection| RssModel {
        indirection,
        queues,
        contexts: 0,
        key_bytes: 40,
        key_settable: true,
        indirection_settable: true,
        hashed_with_ports: vec![Protocol::TCP.0, Protocol::UDP.0],
    });
    Nic {
        name: name.to_owned(),
        title: name.to_owned(),
        queues,
        nodes,
        tables,
        pools: Vec::new(),
        rss,
        exclusions: Vec::new(),
        facts: Vec::new(),
    }
}
