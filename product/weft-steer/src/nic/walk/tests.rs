//! Walks compared with the reference evaluation, packet by packet.

use super::*;
use crate::nic::TableId;
use crate::nic::configuration::{Action, RssContext, Rule};
use crate::nic::random::{some_configuration, some_nic, some_packet};
use proptest::prelude::*;
use weft_packet::header_match::Field;
use weft_units::{FlowKey, Protocol};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn walks_and_steering_are_what_is_worked_out_slowly(
        nic in some_nic(),
        configuration in some_configuration(),
        packets in proptest::collection::vec(some_packet(), 8),
    ) {
        let walker = Walker::new(&nic, &configuration);
        let steering = Steering::new(&nic, &configuration);
        for (packet, flow) in packets {
            let expected = reference::queue(&nic, &configuration, &packet);
            prop_assert_eq!(steering.queue(&packet), expected, "{}", packet);

            let routes = walker.walk(&flow);
            let holding: Vec<&Route> = routes.iter().filter(|route| route.holds(&packet)).collect();
            prop_assert_eq!(holding.len(), 1, "{} is in one route of {}", packet, flow);
            match &holding[0].destination {
                Destination::Queue(queue) => prop_assert_eq!(Some(*queue), expected),
                Destination::AnyOf(_, queues) => prop_assert!(expected.is_some_and(|queue| queues.contains(&queue))),
                Destination::Dropped => prop_assert_eq!(None, expected),
            }
            for route in &routes {
                prop_assert!(flow.covers(&route.packets) && route.packets.exceeds(&route.except), "{}", route);
            }
            let mapping = Mapping::of(&routes);
            match expected {
                Some(queue) => prop_assert!(mapping.queues().contains(&queue)),
                None => prop_assert!(matches!(mapping, Mapping::Dropped | Mapping::MayDrop(_))),
            }
            if packet == flow {
                let must = expected.map_or(Mapping::Dropped, Mapping::Must);
                prop_assert_eq!(mapping, must, "all is known of a packet");
            }
        }
    }

    #[test]
    fn the_shipped_models_are_walked_alike(
        which in 0..crate::nic::shipped().len(),
        mut configuration in some_configuration(),
        packets in proptest::collection::vec(some_packet(), 8),
    ) {
        let nic = crate::nic::shipped_model(crate::nic::shipped()[which].0).expect("read by a test");
        for rule in &mut configuration.rules {
            rule.table = TableId((rule.table.0 * 7 + u16::from(rule.priority)) % (nic.tables.len() as u16).max(1));
        }
        let walker = Walker::new(&nic, &configuration);
        let steering = Steering::new(&nic, &configuration);
        for (packet, flow) in packets {
            let expected = reference::queue(&nic, &configuration, &packet);
            prop_assert_eq!(steering.queue(&packet), expected, "{}", packet);
            let must = expected.map_or(Mapping::Dropped, Mapping::Must);
            prop_assert_eq!(walker.mapping(&packet), must, "{}", packet);
            let routes = walker.walk(&flow);
            prop_assert_eq!(routes.iter().filter(|route| route.holds(&packet)).count(), 1, "{}", flow);
        }
    }

    #[test]
    fn every_route_has_a_packet(
        nic in some_nic(),
        configuration in some_configuration(),
        (_, flow) in some_packet(),
    ) {
        for route in nic.walk(&configuration, &flow) {
            let mut left = vec![route.packets];
            for headers in &route.except {
                left = left.iter().flat_map(|part| part.subtract(headers)).collect();
            }
            let Some(packet) = left.first().map(HeaderMatch::whole) else {
                return Err(TestCaseError::fail(format!("{route} has no packet")));
            };
            let found = reference::queue(&nic, &configuration, &packet);
            match &route.destination {
                Destination::Queue(queue) => prop_assert_eq!(found, Some(*queue)),
                Destination::AnyOf(_, queues) => prop_assert!(found.is_some_and(|queue| queues.contains(&queue))),
                Destination::Dropped => prop_assert_eq!(found, None),
            }
        }
    }
}

const MODEL: &str = r#"
nic test "Test"
queues 8
table five-tuple {
  capacity 8
  match ether-type exact
  match ip-proto exact
  match dst-port any
  priorities 1 to 7
  order priority
  actions queue, context, drop
  interface ntuple
}
rss {
  entries 4 settable
  queues 4
  contexts 1
  key 40 bytes fixed
  ports tcp
}
node in classify {
  port ip when ipv4 or ipv6 -> filters
  port other -> rest
}
node filters filter five-tuple else spread
node spread rss else rest
node rest queue 7
"#;

fn flow(protocol: Protocol, dport: u16) -> HeaderMatch {
    HeaderMatch::of_flow(&FlowKey {
        src: "66.9.149.187".parse().expect("address"),
        dst: "161.142.100.80".parse().expect("address"),
        sport: 2794,
        dport,
        protocol,
    })
}

fn configuration() -> Configuration {
    let rule = |headers: HeaderMatch, priority, action| Rule { table: TableId(0), headers, priority, action };
    let port = |port| HeaderMatch::ALL.exact(Field::DstPort, port);
    Configuration {
        rules: vec![
            rule(port(53), 1, Action::Queue(RxQueueId(1))),
            rule(port(53).exact(Field::IpProtocol, 17), 2, Action::Queue(RxQueueId(2))),
            rule(port(54), 1, Action::Context(ContextId(1))),
            rule(port(55), 1, Action::Drop),
            rule(port(56), 1, Action::Context(ContextId(9))),
        ],
        contexts: vec![
            RssContext { id: ContextId::MAIN, indirection: [0, 1, 2, 3].map(RxQueueId).to_vec() },
            RssContext { id: ContextId(1), indirection: [4, 5, 4, 4].map(RxQueueId).to_vec() },
        ],
        ..Configuration::default()
    }
}

#[test]
fn known_flows_go_to_their_queues() {
    let nic = crate::nic::read(MODEL, "test.nic").expect("model");
    let configuration = configuration();
    let walker = Walker::new(&nic, &configuration);
    // Hashes of Microsoft's table: 0x51ccc178 with port 1766, 0x323e8fc2 without ports.
    for (headers, mapping) in [
        (flow(Protocol::TCP, 1766), Mapping::Must(RxQueueId(0))),
        (flow(Protocol::UDP, 1766), Mapping::Must(RxQueueId(2))),
        (flow(Protocol::UDP, 53), Mapping::Must(RxQueueId(2))),
        (flow(Protocol::TCP, 53), Mapping::Must(RxQueueId(1))),
        (flow(Protocol::UDP, 54), Mapping::Must(RxQueueId(4))),
        (flow(Protocol::UDP, 55), Mapping::Dropped),
        (flow(Protocol::UDP, 56), Mapping::Dropped),
        (
            flow(Protocol::TCP, 1766).without(Field::SrcPort),
            Mapping::May([0, 1, 2, 3].map(RxQueueId).to_vec()),
        ),
        (flow(Protocol::UDP, 1766).without(Field::SrcPort), Mapping::Must(RxQueueId(2))),
        (flow(Protocol::UDP, 54).without(Field::SrcIp), Mapping::May([4, 5].map(RxQueueId).to_vec())),
        (
            flow(Protocol::UDP, 0).without(Field::IpProtocol).with(Field::DstPort, 54, 0xfffe),
            Mapping::MayDrop([4, 5].map(RxQueueId).to_vec()),
        ),
        (HeaderMatch::ALL.exact(Field::EtherType, 0x0806), Mapping::Must(RxQueueId(7))),
    ] {
        assert_eq!(walker.mapping(&headers), mapping, "{headers}");
    }
    let off = Configuration { contexts: vec![], ..configuration.clone() };
    assert_eq!(nic.mapping(&off, &flow(Protocol::TCP, 1766)), Mapping::Must(RxQueueId(7)), "RSS is off");
}

#[test]
fn routes_say_why() {
    let nic = crate::nic::read(MODEL, "test.nic").expect("model");
    let configuration = configuration();
    let headers =
        flow(Protocol::UDP, 53).without(Field::IpProtocol).without(Field::SrcIp).without(Field::DstIp);
    let routes = nic.walk(&configuration, &headers.without(Field::SrcPort));
    let lines: Vec<String> = routes.iter().flat_map(|route| route.explain(&nic, &configuration)).collect();
    assert_eq!(
        lines,
        [
            "ether-type 0x800 ip-proto 17 dst-port 53",
            "  in: port ip, as ether-type 0x800 or ether-type 0x86dd",
            "  filters: rule 1 (ip-proto 17 dst-port 53, priority 2): to queue 2",
            "  -> queue 2",
            "ether-type 0x800 dst-port 53, but not ip-proto 17 dst-port 53",
            "  in: port ip, as ether-type 0x800 or ether-type 0x86dd",
            "  filters: rule 0 (dst-port 53, priority 1): to queue 1",
            "  -> queue 1",
        ]
    );
    let known = nic.walk(&configuration, &flow(Protocol::TCP, 1766));
    assert_eq!(
        known[0].explain(&nic, &configuration)[2..],
        [
            "  filters: no rule holds them",
            "  spread: the hash names entry 0 of the main RSS context",
            "  -> queue 0"
        ]
    );
}

#[test]
fn thousands_of_rules_under_a_wide_flow_are_walked_exactly() {
    let nic = crate::nic::read(MODEL, "test.nic").expect("model");
    let rules = (0..4000u16).map(|port| Rule {
        table: TableId(0),
        headers: HeaderMatch::ALL.exact(Field::DstPort, port.into()).exact(Field::IpProtocol, 17),
        priority: 1,
        action: Action::Queue(RxQueueId(u32::from(port) % 4)),
    });
    let configuration = Configuration { rules: rules.collect(), ..Configuration::default() };
    let routes = nic.walk(&configuration, &flow(Protocol::UDP, 0).without(Field::DstPort));
    assert_eq!(routes.len(), 4001);
    assert_eq!(routes[4000].except.len(), 4000);
    assert_eq!(routes[4000].destination, Destination::Queue(RxQueueId(7)));
}

#[test]
fn graphs_of_hundreds_of_nodes_are_walked() {
    // A ladder of forks: each port leads to the next fork and to an operand of a node that decides after all 255. Its result is
    // activated after the drop of port 255, and before that of port 256.
    let mut text = String::from("nic long \"Long\"\nqueues 4\n");
    for i in 0..300 {
        let operand = i.min(254);
        text.push_str(&format!("node n{i} classify {{ port p when dst-port {i} -> drop port q -> n{}, all operand {operand} is true }}\n", i + 1));
    }
    text.push_str(
        "node n300 classify { port p -> all operand 254 is true }\nnode all and 255 { true -> end }\n",
    );
    text.push_str("node end queue 3\nnode drop drop\n");
    let nic = crate::nic::read(&text, "long.nic").expect("model");
    let configuration = Configuration::default();
    let steering = Steering::new(&nic, &configuration);
    for port in [0u128, 150, 254, 255, 256, 299, 9000] {
        let packet = HeaderMatch::ALL.exact(Field::DstPort, port).whole();
        let expected = (port >= 256).then_some(RxQueueId(3));
        assert_eq!(reference::queue(&nic, &configuration, &packet), expected, "{port}");
        assert_eq!(steering.queue(&packet), expected, "{port}");
        assert_eq!(nic.mapping(&configuration, &packet), expected.map_or(Mapping::Dropped, Mapping::Must));
    }
}
