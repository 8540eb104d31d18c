//! The ports of `weft daemon` survive the daemon: its crash, its restart, its hang.

mod common;
#[path = "common/flows.rs"]
mod flows;
#[path = "common/service.rs"]
mod service;
#[path = "common/world.rs"]
mod world;

use common::{left_by, until};
use flows::Flows;
use rustix::process::Signal;
use service::{PATIENCE, Service};
use std::time::Duration;
use weft_host::link;
use weft_host::testing::privileged;

/// The number of connections.
const FLOWS: usize = 340;

/// The number of the port's near end, which a new device would not have.
fn index(service: &Service) -> u32 {
    link::show(&service.world.app, "weft0").expect("the port").index
}

fn wait_for_port(service: &Service) {
    assert!(until(PATIENCE, || link::show(&service.world.app, "weft0").is_ok_and(|l| l.running)));
}

#[test]
fn connections_survive_a_killed_daemon() {
    if !privileged("connections_survive_a_killed_daemon") {
        return;
    }
    let service = Service::new();
    let mut daemon = service.start();
    wait_for_port(&service);
    let port = index(&service);
    let flows = Flows::start(&service.world, FLOWS);
    flows.assert_all_go_on();
    let first = daemon.0.id();
    for _ in 0..3 {
        let pause = flows.pause_during(|| {
            daemon.signal(Signal::KILL);
            let _ = daemon.0.wait();
            daemon = service.start();
        });
        println!("killed and started again: a pause of {pause:?}");
        assert_eq!(index(&service), port, "the port is another device");
        assert!(pause < Duration::from_secs(5), "{pause:?}");
        let status = service.status();
        assert_eq!((&status["worker"], &status["generation"]), (&"running".into(), &1.into()));
        assert_eq!(status["ports"][0]["configured"], true);
        println!("{}", status["dropped"]);
    }
    drop(flows);
    service.stop(daemon);
    assert!(left_by(first).is_empty());
}

#[test]
fn a_daemon_hands_over_to_its_successor() {
    if !privileged("a_daemon_hands_over_to_its_successor") {
        return;
    }
    let service = Service::new();
    let mut daemon = service.start();
    wait_for_port(&service);
    let port = index(&service);
    let flows = Flows::start(&service.world, FLOWS);
    flows.assert_all_go_on();
    for _ in 0..3 {
        let pause = flows.pause_during(|| {
            daemon.signal(Signal::USR2);
            let status = daemon.0.wait().expect("wait");
            assert!(status.success(), "{status}");
            daemon = service.start();
        });
        println!("handed over: a pause of {pause:?}");
        assert_eq!(index(&service), port, "the port is another device");
        assert!(pause < Duration::from_secs(5), "{pause:?}");
        let status = service.status();
        println!("{}", status["dropped"]);
        assert_eq!(status["dropped"]["lost"], 0, "{}", status["dropped"]);
    }
    drop(flows);
    service.stop(daemon);
}
