//! Tests of the shipped models: the couplings and precedences that justify each model.

use super::{Mapping, Nic, Refusal, TableId, Usage, shipped, shipped_model};
use crate::nic::configuration::{Action, Configuration, ContextId, RssContext, Rule};
use crate::predicate::{Predicate, read_predicate};
use std::collections::BTreeSet;
use weft_packet::header_match::{Field, HeaderMatch};
use weft_units::RxQueueId;

fn model(name: &str) -> Nic {
    shipped_model(name).expect(name)
}

fn table(nic: &Nic, name: &str) -> TableId {
    nic.tables().find(|(_, table)| table.name == name).map(|(id, _)| id).expect(name)
}

fn headers(text: &str) -> HeaderMatch {
    match read_predicate(text) {
        Ok(Predicate::Is(headers)) => headers,
        other => panic!("{text}: {other:?}"),
    }
}

fn rule(nic: &Nic, name: &str, text: &str, queue: u32) -> Rule {
    Rule {
        table: table(nic, name),
        headers: headers(text),
        priority: 1,
        action: Action::Queue(RxQueueId(queue)),
    }
}

const FLOW: &str = "udp src-ip 10.0.0.1 dst-ip 10.0.0.2 src-port 7777 dst-port 1001";

/// Returns the reason why the second rule is refused beside the first.
fn refused(nic: &Nic, first: &Rule, second: &Rule) -> Refusal {
    let mut usage = Usage::new(nic);
    usage.add(nic, first).expect("the first rule fits");
    usage.admits(nic, second).expect_err("the second rule does not")
}

#[test]
fn the_82599_knows_its_couplings() {
    let nic = model("intel-82599");
    let perfect = rule(&nic, "fdir-perfect", FLOW, 3);
    let masked = rule(&nic, "fdir-perfect", "ipv4 udp dst-port 5", 3);
    assert!(matches!(refused(&nic, &perfect, &masked), Refusal::OneMask { .. }));
    let signature = rule(&nic, "fdir-signature", FLOW, 3);
    assert!(matches!(refused(&nic, &perfect, &signature), Refusal::Excluded { .. }));
    let syn = |name: &str| rule(&nic, name, "tcp tcp-flags 0x2/0x2", 1);
    assert!(matches!(refused(&nic, &syn("syn-first"), &syn("syn-last")), Refusal::Excluded { .. }));
    let six = rule(&nic, "five-tuple", "src-ip fd00::1", 1);
    assert!(matches!(Usage::new(&nic).admits(&nic, &six), Err(Refusal::Outside { .. })));
    let partly = rule(&nic, "five-tuple", "src-ip 10.0.0.0/8", 1);
    assert!(matches!(Usage::new(&nic).admits(&nic, &partly), Err(Refusal::Mask { .. })));
    let eighth = Rule { priority: 8, ..rule(&nic, "five-tuple", FLOW, 1) };
    assert!(matches!(Usage::new(&nic).admits(&nic, &eighth), Err(Refusal::Priority { .. })));
}

#[test]
fn the_82599_keeps_its_order() {
    let nic = model("intel-82599");
    let flow = headers(FLOW);
    let mut configuration = Configuration {
        contexts: vec![RssContext { id: ContextId::MAIN, indirection: vec![RxQueueId(9); 128] }],
        ..Configuration::default()
    };
    assert_eq!(nic.mapping(&configuration, &flow), Mapping::Must(RxQueueId(9)), "RSS");
    configuration.rules.push(rule(&nic, "fdir-perfect", FLOW, 1));
    assert_eq!(nic.mapping(&configuration, &flow), Mapping::Must(RxQueueId(1)));
    configuration.rules.push(rule(&nic, "five-tuple", "ipv4 dst-port 1001", 2));
    assert_eq!(nic.mapping(&configuration, &flow), Mapping::Must(RxQueueId(2)));
    configuration.rules.push(Rule { priority: 5, ..rule(&nic, "five-tuple", "ipv4 src-port 7777", 3) });
    assert_eq!(nic.mapping(&configuration, &flow), Mapping::Must(RxQueueId(3)));
    configuration.rules.push(rule(&nic, "ether-type", "ether-type 0x0800", 4));
    assert_eq!(nic.mapping(&configuration, &flow), Mapping::Must(RxQueueId(4)));
    let fcoe = headers("ether-type 0x8906");
    configuration.rules.push(rule(&nic, "fcoe", "ether-type 0x8906", 5));
    assert_eq!(nic.mapping(&configuration, &fcoe), Mapping::Must(RxQueueId(5)));
}

#[test]
fn the_syn_filter_stands_before_or_after_five_tuples() {
    let nic = model("intel-82599");
    let tcp = headers("tcp src-ip 10.0.0.1 dst-ip 10.0.0.2 src-port 7777 dst-port 80");
    for (name, syn_goes_to) in [("syn-first", 6), ("syn-last", 7)] {
        let configuration = Configuration {
            rules: vec![
                rule(&nic, name, "tcp tcp-flags 0x2/0x2", 6),
                rule(&nic, "five-tuple", "ipv4 dst-port 80", 7),
            ],
            ..Configuration::default()
        };
        assert_eq!(Usage::of(&nic, &configuration).err(), None);
        let syn = tcp.exact(Field::TcpFlags, 2);
        assert_eq!(nic.mapping(&configuration, &syn), Mapping::Must(RxQueueId(syn_goes_to)), "{name}");
        let ack = tcp.exact(Field::TcpFlags, 0x10);
        assert_eq!(nic.mapping(&configuration, &ack), Mapping::Must(RxQueueId(7)), "{name}");
        let both = if name == "syn-first" {
            Mapping::May(vec![RxQueueId(6), RxQueueId(7)])
        } else {
            Mapping::Must(RxQueueId(7))
        };
        assert_eq!(nic.mapping(&configuration, &tcp), both, "{name}");
    }
}

#[test]
fn dragonets_model_is_dragonets() {
    let nic = model("intel-82599-simple");
    let mut usage = Usage::new(&nic);
    let flow = |port: u32| format!("udp src-ip 0.0.0.123 dst-ip 0.0.0.127 src-port 7777 dst-port {port}");
    let mut held = [0; 2];
    for port in 1..=3000 {
        let rules = ["five-tuple", "flow-director"].map(|name| rule(&nic, name, &flow(port), port % 10));
        if let Some(which) = rules.iter().position(|rule| usage.add(&nic, rule).is_ok()) {
            held[which] += 1;
        }
    }
    assert_eq!((nic.queues, held), (10, [128, 2048]));
    assert_eq!(nic.mapping(&Configuration::default(), &headers(FLOW)), Mapping::Must(RxQueueId(0)));
}

#[test]
fn the_e810_has_an_input_set_for_each_type() {
    let nic = model("e810");
    let tuple = rule(&nic, "fdir-udp4", FLOW, 3);
    let port = rule(&nic, "fdir-udp4", "ipv4 udp dst-port 53", 3);
    assert!(matches!(refused(&nic, &tuple, &port), Refusal::OneMask { .. }));
    let mut usage = Usage::new(&nic);
    usage.add(&nic, &tuple).expect("fits");
    usage
        .add(&nic, &rule(&nic, "fdir-tcp4", "ipv4 tcp dst-port 53", 3))
        .expect("another type, another input set");
    assert_eq!(usage.room(&nic, table(&nic, "fdir-ip6")), 15_360 - 2);
    let mut configuration = Configuration { rules: vec![tuple], ..Configuration::default() };
    assert_eq!(nic.mapping(&configuration, &headers(FLOW)), Mapping::Must(RxQueueId(3)));
    configuration.rules.push(rule(&nic, "flower", "ipv4 udp", 8));
    assert_eq!(
        nic.mapping(&configuration, &headers(FLOW)),
        Mapping::Must(RxQueueId(8)),
        "tc before flow director"
    );
}

#[test]
fn the_sfc9020_knows_full_and_wild_filters() {
    let nic = model("sfc9020");
    let wild = rule(&nic, "ip-wild", "udp dst-ip 10.0.0.2 dst-port 1001", 1);
    let mut configuration = Configuration { rules: vec![wild], ..Configuration::default() };
    assert_eq!(nic.mapping(&configuration, &headers(FLOW)), Mapping::Must(RxQueueId(1)));
    configuration.rules.push(rule(&nic, "ip-full", FLOW, 2));
    assert_eq!(nic.mapping(&configuration, &headers(FLOW)), Mapping::Must(RxQueueId(2)));
    let usage = Usage::of(&nic, &configuration).expect("fits");
    assert_eq!(usage.room(&nic, table(&nic, "ip-full")), 8190, "one hash table for both");
    let neither = rule(&nic, "ip-wild", "udp src-ip 10.0.0.2 src-port 1001", 1);
    assert!(matches!(usage.admits(&nic, &neither), Err(Refusal::Field { .. })));
}

#[test]
fn contexts_are_where_they_are() {
    for (name, contexts) in
        [("mlx5", 15), ("ethtool-generic", 7), ("e810", 0), ("virtio-net", 0), ("igb", 0), ("sfc9020", 0)]
    {
        assert_eq!(model(name).rss.map(|rss| rss.contexts), Some(contexts), "{name}");
    }
    assert!(model("virtio-net").tables.is_empty());
    let nic = model("mlx5");
    let to_context = Rule { action: Action::Context(ContextId(1)), ..rule(&nic, "ethtool", FLOW, 0) };
    let configuration = Configuration {
        rules: vec![to_context],
        contexts: vec![RssContext {
            id: ContextId(1),
            indirection: [RxQueueId(4), RxQueueId(5)].repeat(128),
        }],
        ..Configuration::default()
    };
    let Mapping::Must(queue) = nic.mapping(&configuration, &headers(FLOW)) else {
        panic!("the hash is known")
    };
    assert!(matches!(queue.0, 4 | 5));
    // The rule takes one five-tuple of the wider flow, whose hash is known.
    let wild = headers(FLOW).without(Field::SrcPort).without(Field::SrcIp);
    assert_eq!(
        nic.mapping(&configuration, &wild),
        Mapping::May(vec![RxQueueId(0), queue]),
        "no main context"
    );
}

#[test]
fn every_model_sends_every_packet_somewhere() {
    for (name, _) in shipped() {
        let nic = model(name);
        let routes = nic.walk(&Configuration::default(), &HeaderMatch::ALL);
        assert!(routes.iter().all(|route| route.except.is_empty()), "{name} has no rules");
        assert_eq!(Mapping::of(&routes), Mapping::Must(RxQueueId(0)), "{name}");
    }
}

#[test]
fn every_model_is_shipped_and_stands_in_the_guide() {
    let here = env!("CARGO_MANIFEST_DIR");
    let names: BTreeSet<&str> = shipped().iter().map(|(name, _)| *name).collect();
    let folder = std::fs::read_dir(format!("{here}/models")).expect("the folder is there");
    let files: Vec<String> = folder.map(|e| e.expect("an entry").file_name().display().to_string()).collect();
    let files: BTreeSet<&str> = files.iter().filter_map(|file| file.strip_suffix(".nic")).collect();
    assert_eq!(files, names, "product/weft-steer/models and product/weft-steer/src/nic/models.rs differ");
    let guide =
        std::fs::read_to_string(format!("{here}/../../docs/nic-models.md")).expect("the guide is there");
    let rows = guide.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let rows: BTreeSet<&str> = rows.map(|(name, _)| name).collect();
    let missing: Vec<_> = names.difference(&rows).collect();
    assert!(missing.is_empty(), "docs/nic-models.md has no row for {missing:?}");
}
