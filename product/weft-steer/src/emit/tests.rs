//! Commands in all dialects for one plan.

use super::*;
use crate::change::changes;
use crate::nic::configuration::{Action, ContextId, RssContext};
use crate::nic::{Actions, FieldSupport, Masks, Order, Table, TableId};
use weft_units::RxQueueId;

fn nic(interface: Interface) -> Nic {
    let fields = Field::ALL.map(|field| FieldSupport { field, masks: Masks::Any, required: false }).to_vec();
    Nic {
        name: "test".into(),
        title: "test".into(),
        queues: 8,
        nodes: vec![],
        tables: vec![Table {
            name: "filters".into(),
            capacity: 8,
            pool: None,
            fields,
            within: vec![],
            one_mask: false,
            priorities: (0, 1),
            order: Order::Location,
            actions: Actions { queue: true, context: true, drop: true },
            last_queue: RxQueueId(7),
            signature_bits: None,
            interface,
        }],
        pools: vec![],
        rss: None,
        exclusions: vec![],
        facts: vec![],
    }
}

fn rule(headers: HeaderMatch, priority: u8, action: Action) -> Rule {
    Rule { table: TableId(0), headers, priority, action }
}

fn prefix(field: Field, text: &str) -> HeaderMatch {
    HeaderMatch::ALL.prefix(field, text.parse().expect("prefix"))
}

fn some_rules() -> Vec<Rule> {
    let dns = prefix(Field::DstIp, "192.0.2.0/24").exact(Field::IpProtocol, 17).exact(Field::DstPort, 53);
    let six = prefix(Field::SrcIp, "2001:db8::/32")
        .exact(Field::IpProtocol, 6)
        .with(Field::DstPort, 0x400, 0xfc00)
        .with(Field::Vlan, 7, 0xfff);
    let pause = HeaderMatch::ALL.exact(Field::EtherType, 0x8808).exact(Field::DstMac, 0x0180_c200_0001);
    vec![
        rule(dns, 0, Action::Queue(RxQueueId(3))),
        rule(six, 1, Action::Context(ContextId(1))),
        rule(pause, 0, Action::Drop),
    ]
}

fn context(id: u32, queues: &[u32]) -> RssContext {
    RssContext { id: ContextId(id), indirection: queues.iter().copied().map(RxQueueId).collect() }
}

fn emitted(interface: Interface, dialect: Dialect) -> Script {
    let nic = nic(interface);
    let to = Configuration {
        rules: some_rules(),
        contexts: vec![context(0, &[0, 0, 1, 2]), context(1, &[5, 4, 5, 4])],
        ..Configuration::default()
    };
    let mut from = Configuration { rules: vec![to.rules[2]], ..to.clone() };
    from.rules.push(rule(prefix(Field::DstIp, "192.0.2.9"), 1, Action::Queue(RxQueueId(1))));
    from.contexts.clear();
    let plan = changes(&nic, &from, &to).expect("fits");
    script(&nic, &from, &plan, "eth7", dialect)
}

#[test]
fn ethtool_s_commands() {
    let script = emitted(Interface::Ntuple, Dialect::Ethtool);
    assert_eq!(
        script.lines,
        [
            "ethtool -N eth7 flow-type udp4 dst-ip 192.0.2.0 m 0.0.0.255 dst-port 0x35 action 3 loc 5",
            "ethtool -N eth7 flow-type tcp6 vlan 0x7 m 0xf000 src-ip 2001:db8:: m ::ffff:ffff:ffff:ffff:ffff:ffff \
             dst-port 0x400 m 0x3ff context 1 loc 1",
            "ethtool -X eth7 weight 2 1 1",
            "ethtool -N eth7 delete 0",
        ]
    );
    assert_eq!(script.cannot.len(), 1);
    assert!(script.text().starts_with("# not expressible: change 1, make RSS context 1: queues 4 to 5 x2: "));
}

#[test]
fn tables_that_go_round_the_queues_are_equal_ones() {
    let nic = nic(Interface::Ntuple);
    let to = Configuration {
        contexts: vec![
            context(0, &[0, 1, 2, 0, 1, 2, 0, 1]),
            context(1, &[0, 0, 0, 0]),
            context(2, &[4, 5, 4, 5]),
            context(3, &[2, 2, 2, 3]),
        ],
        ..Configuration::default()
    };
    let from = Configuration::default();
    let plan = changes(&nic, &from, &to).expect("fits");
    assert_eq!(
        script(&nic, &from, &plan, "eth7", Dialect::Ethtool).lines,
        [
            "ethtool -X eth7 context new equal 1",
            "ethtool -X eth7 context new start 4 equal 2",
            "ethtool -X eth7 context new start 2 weight 3 1",
            "ethtool -X eth7 equal 3",
        ]
    );
}

#[test]
fn flower_s_commands() {
    let script = emitted(Interface::Flower, Dialect::Flower);
    assert_eq!(
        script.lines,
        [
            "tc filter add dev eth7 ingress protocol ip pref 6 flower ip_proto udp dst_ip 192.0.2.0/24 dst_port 53 \
             skip_sw action skbedit queue_mapping 3",
            "tc filter del dev eth7 ingress protocol ip pref 1 flower",
        ]
    );
    assert!(script.cannot.iter().any(|reason| reason.ends_with("tc cannot send packets to an RSS context")));
}

#[test]
fn testpmd_s_commands() {
    let script = emitted(Interface::RteFlow, Dialect::RteFlow);
    assert_eq!(
        script.lines,
        [
            "flow create 0 priority 255 ingress pattern eth / ipv4 dst spec 192.0.2.0 dst mask 255.255.255.0 / \
             udp dst is 0x35 / end actions queue index 3 / end",
            "flow create 0 priority 254 ingress pattern eth / vlan tci spec 0x7 tci mask 0xfff / ipv6 src spec 2001:db8:: \
             src mask ffff:ffff:: / tcp dst spec 0x400 dst mask 0xfc00 / end actions rss queues 4 5 end / end",
            "port config 0 rss reta (0,0),(1,0),(2,1),(3,2)",
            "flow destroy 0 rule 1",
        ]
    );
}

#[test]
fn a_table_of_another_interface_is_named() {
    let script = emitted(Interface::None, Dialect::Ethtool);
    assert!(script.cannot.iter().any(|reason| {
        reason.ends_with("table filters is not set this way but by nothing that a driver offers")
    }));
}

#[test]
fn locations_keep_the_order_of_priorities_and_of_overlapping_rules() {
    let nic = nic(Interface::Ntuple);
    let mut locations = Locations::default();
    let wide = rule(prefix(Field::DstIp, "192.0.2.0/24"), 0, Action::Drop);
    let narrow = rule(prefix(Field::DstIp, "192.0.2.1"), 0, Action::Drop);
    let high = rule(prefix(Field::DstIp, "192.0.2.2"), 1, Action::Drop);
    let first = rule(prefix(Field::DstIp, "198.51.100.1"), 0, Action::Drop);
    assert_eq!(locations.add(&nic, &first), Some(4));
    assert_eq!(locations.add(&nic, &wide), Some(5));
    assert_eq!(locations.remove(&first), Some(4));
    assert_eq!(locations.add(&nic, &narrow), Some(6), "behind the older rule that holds its packets");
    assert_eq!(locations.add(&nic, &high), Some(0), "higher priorities come first");
    assert_eq!(locations.add(&nic, &first), Some(4), "what overlaps nothing takes any place");
}
