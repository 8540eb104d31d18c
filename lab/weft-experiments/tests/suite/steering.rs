//! Plans on packets: the planner's placement, the model graph's, and the software NIC's receive side.

use weft_experiments::experiments::dragonet::search_cost;
use weft_experiments::experiments::dragonet::verification::verify_plan;
use weft_host::testing::privileged;
use weft_packet::{Field, HeaderMatch};
use weft_run::steering::input;
use weft_run::steering::planning::plan;
use weft_steer::policy::{Balance, Isolate, PolicyFile};
use weft_steer::search::workload::{isolation, slides};
use weft_steer::search::{Options, Placement};
use weft_steer::{Configuration, Flow};

/// Flows of the slides, of two classes, and some with wildcards.
fn flows() -> Vec<Flow> {
    let mut flows = slides(40);
    flows.extend(isolation().into_iter().step_by(5));
    let open = |headers: HeaderMatch| Flow { headers, weight: 1, rate: None, class: None, core: None };
    let udp4 = HeaderMatch::ALL.exact(Field::EtherType, 0x0800).exact(Field::IpProtocol, 17);
    flows.push(open(udp4.exact(Field::DstPort, 5353)));
    flows.push(open(HeaderMatch::ALL.exact(Field::EtherType, 0x88cc)));
    flows
}

fn options(queues: u32) -> Options {
    Options { queues: Some(queues), all_tables: true, ..Options::default() }
}

#[test]
fn every_shipped_model_sends_packets_where_planner_and_graph_say() {
    if !privileged("every_shipped_model_sends_packets_where_planner_and_graph_say") {
        return;
    }
    for name in input::model_names() {
        let nic = input::model(name).expect(name);
        let policies = [
            PolicyFile::from(Balance::default()),
            PolicyFile::from(Isolate { class: "hp".to_owned(), queues: 1 }),
        ];
        for policy in policies {
            let queues = nic.queues.min(8);
            let planned =
                plan(&nic, policy, flows(), options(queues), &Configuration::default()).expect(name);
            for ((_, placement), flow) in planned.plan.placements.iter().zip(&planned.flows) {
                let mapping = nic.mapping(&planned.plan.configuration, &flow.headers);
                match placement {
                    Placement::Spread => {}
                    Placement::Rule(queue) | Placement::Hash(queue) | Placement::Default(queue) => {
                        assert_eq!(mapping.queues(), [*queue], "{name}: {} {placement:?}", flow.headers);
                    }
                }
            }
            let report =
                verify_plan(&planned, 3, 1, &|| false, &mut |_| ()).expect(name).expect("not stopped");
            let wrong: Vec<_> = report.flows.iter().filter(|flow| !flow.ok).collect();
            assert!(report.ok && report.flows.len() == planned.flows.len(), "{name}: {wrong:?}");
        }
    }
}

#[test]
fn the_search_s_table_has_its_cells_and_what_was_published() {
    let options = weft_experiments::reproduce::ReproduceOptions {
        ids: vec![search_cost::ID.to_owned()],
        flows: Some(100),
        ..Default::default()
    };
    let done = weft_experiments::reproduce::run(&options, &|| false, |_, _| ()).expect("runs");
    let cell = |row: &str, column: &str| {
        done[0].cells.iter().find(|cell| cell.row == row && cell.column == column).expect(column)
    };
    assert_eq!(cell("naive", "full_s").published, Some(1.2));
    assert_eq!(cell("incremental", "add_10_s").published, Some(0.094));
    assert_eq!(cell("weftline", "full_s").published, None);
    for column in ["full_s", "add_1_s", "add_10_s", "remove_1_s", "remove_10_s"] {
        let seconds = cell("weftline", column).measured.expect("measured");
        assert!(seconds > 0.0 && seconds < 10.0, "{column}: {seconds}");
    }
}
