//! Events of the uplink's interface while `weft daemon` runs: each is followed, or reported. Down, up, renamed, MTU and moved
//! away: `hold.rs`.

use crate::common::flows::Flows;
use crate::common::service::{PATIENCE, Service};
use crate::common::until;
use crate::common::world::{FAR, transfer};
use std::process::Command;
use weft_host::link::{self, VethOptions};
use weft_host::testing::{has_program, privileged};

fn is_up(service: &Service) -> bool {
    link::show(&service.world.app, "weft0").is_ok_and(|link| link.running)
}

/// Makes the uplink's interface, with `queues` of each direction.
fn make_uplink(service: &Service, queues: u32) {
    let (host, far) = (&service.world.host, &service.world.far);
    let options = VethOptions { queues: Some(queues), ..VethOptions::default() };
    link::create_veth((host, "up0"), (far, "far0"), &options).expect("veth");
    link::set_up(host, "up0").expect("up");
    link::set_up(far, "far0").expect("up");
    link::add_address(far, "far0", FAR, 24).expect("address");
}

#[test]
fn another_number_of_queues_is_followed() {
    let name = "another_number_of_queues_is_followed";
    if !privileged(name) || !has_program(name, "ethtool") {
        return;
    }
    let service = Service::new();
    link::delete(&service.world.host, "up0").expect("delete");
    make_uplink(&service, 4);
    let daemon = service.start();
    assert!(until(PATIENCE, || is_up(&service)));
    let flows = Flows::start(&service.world, 20);
    for queues in ["1", "3", "2", "4"] {
        let set = || Command::new("ethtool").args(["-L", "up0", "tx", queues, "rx", queues]).status();
        assert!(service.world.host.run(set).expect("enter").expect("ethtool").success());
        flows.assert_all_go_on();
    }
    let status = service.status();
    assert_eq!((&status["worker"], &status["uplink"]["up"]), (&"running".into(), &true.into()));
    assert_eq!(status["dropped"]["refused"], 0, "{}", status["dropped"]);
    drop(flows);
    service.stop(daemon);
}

#[test]
fn an_interface_that_is_made_again_is_taken_up() {
    if !privileged("an_interface_that_is_made_again_is_taken_up") {
        return;
    }
    let service = Service::new();
    let daemon = service.start();
    assert!(until(PATIENCE, || is_up(&service)));
    transfer(&service.world.app, &service.world.far, FAR);
    link::delete(&service.world.host, "up0").expect("delete");
    assert!(until(PATIENCE, || service.status()["uplink"]["up"] == false));
    make_uplink(&service, 1);
    assert!(until(PATIENCE, || is_up(&service) && service.status()["uplink"]["up"] == true), "it stays down");
    transfer(&service.world.app, &service.world.far, FAR);
    let said = service.stop(daemon);
    for line in ["warning: the uplink up0 was deleted", "warning: up0 is another interface than before"] {
        assert!(said.err.contains(line), "{line}: {}", said.err);
    }
}

#[test]
fn an_interface_that_is_moved_away_and_back_is_followed() {
    if !privileged("an_interface_that_is_moved_away_and_back_is_followed") {
        return;
    }
    let service = Service::new();
    let daemon = service.start();
    assert!(until(PATIENCE, || is_up(&service)));
    let (host, elsewhere) = (&service.world.host, &service.world.app);
    link::move_to(host, "up0", elsewhere).expect("move");
    assert!(until(PATIENCE, || !is_up(&service)));
    link::move_to(elsewhere, "up0", host).expect("move back");
    link::set_up(host, "up0").expect("up");
    assert!(until(PATIENCE, || is_up(&service)), "it stays down");
    transfer(&service.world.app, &service.world.far, FAR);
    let said = service.stop(daemon);
    assert!(said.err.contains("moved to another namespace"), "{}", said.err);
}
