//! Changes of a port from inside its namespace: other programs delete it, move it, or delete its filters.

use crate::common::service::{PATIENCE, Service};
use crate::common::until;
use crate::common::world::{FAR, NEAR, World, transfer, wait_until_up};
use rustix::process::Signal;
use std::time::Duration;
use weft_host::link;
use weft_host::testing::{privileged, unique};
use weft_host::{NetNs, sysctl};

#[test]
fn a_run_ends_with_an_error_when_its_port_is_deleted() {
    if !privileged("a_run_ends_with_an_error_when_its_port_is_deleted") {
        return;
    }
    let world = World::new();
    let running = world.start(&[]);
    link::delete(&world.app, "weft0").expect("delete");
    let said = running.wait(PATIENCE);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("the devices of port weft0 were deleted"), "{}", said.err);
    world.assert_clean();
}

/// A container deletes the daemon's only port, and ends nothing but that.
#[test]
fn a_daemon_goes_on_without_its_only_port_and_makes_others() {
    if !privileged("a_daemon_goes_on_without_its_only_port_and_makes_others") {
        return;
    }
    for hold in ["auto", "off"] {
        let service = Service::with(&format!("hold = \"{hold}\"\n"));
        let daemon = service.start();
        let world = &service.world;
        wait_until_up(&world.app, "weft0");
        transfer(&world.app, &world.far, FAR);
        let delete = || {
            std::process::Command::new("ip").args(["link", "del", "weft0"]).status().expect("ip").success()
        };
        assert!(world.app.run(delete).expect("enter"));
        let listed = || service.done(&["port", "list"]);
        assert!(until(PATIENCE, || listed().contains("veth (deleted)")), "{}", listed());
        // Several ticks later it still runs.
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(service.status()["worker"], "running");
        let app = world.app.name();
        let again = ["port", "add", "weft1", "--netns", app, "--address", "10.97.0.1/24"];
        service.done(&again);
        transfer(&world.app, &world.far, FAR);
        service.done(&["port", "remove", "weft0"]);
        service.done(&["port", "remove", "weft1"]);
        service.done(&["port", "add", "weft0", "--netns", app, "--address", "10.97.0.1/24"]);
        transfer(&world.app, &world.far, FAR);
        let said = service.stop(daemon);
        let line = "warning: the devices of port weft0 were deleted; remove the port";
        assert!(said.err.contains(line), "{}", said.err);
    }
}

/// A port that was moved is followed by this daemon, and by one that takes it over.
#[test]
fn a_moved_port_carries_packets_and_is_taken_over_where_it_is() {
    if !privileged("a_moved_port_carries_packets_and_is_taken_over_where_it_is") {
        return;
    }
    let service = Service::new();
    let daemon = service.start();
    let world = &service.world;
    wait_until_up(&world.app, "weft0");
    let elsewhere = NetNs::create(&unique("else")).expect("namespace");
    let _ = sysctl::set(&elsewhere, "net.ipv6.conf.default.disable_ipv6", "1");
    link::move_to(&world.app, "weft0", &elsewhere).expect("move");
    link::set_up(&elsewhere, "weft0").expect("up");
    link::add_address(&elsewhere, "weft0", NEAR, 24).expect("address");
    link::wait_running(&elsewhere, "weft0", PATIENCE).expect("running");
    transfer(&elsewhere, &world.far, FAR);
    daemon.signal(Signal::KILL);
    let said = daemon.wait(PATIENCE);
    let line = format!("was moved to the namespace {}/{}", weft_host::netns::NETNS_DIR, elsewhere.name());
    assert!(said.err.contains(&line), "{}", said.err);
    let daemon = service.start();
    transfer(&elsewhere, &world.far, FAR);
    // Its filter is the successor's, which puts it back as well.
    let delete =
        || std::process::Command::new("tc").args(["qdisc", "del", "dev", "weft0", "clsact"]).status();
    assert!(elsewhere.run(delete).expect("enter").expect("tc").success());
    transfer(&elsewhere, &world.far, FAR);
    let said = service.stop(daemon);
    assert!(said.err.contains("took over 1 port"), "{}", said.err);
    assert!(said.err.contains("port weft0: its clsact was deleted by"), "{}", said.err);
}

#[test]
fn a_port_s_name_that_is_a_format_is_refused_and_leaves_nothing() {
    if !privileged("a_port_s_name_that_is_a_format_is_refused_and_leaves_nothing") {
        return;
    }
    let service = Service::bare("");
    let daemon = service.start();
    let app = service.world.app.name();
    let error = service.refused(&["port", "add", "audit%d", "--netns", app]);
    assert!(error.contains("percent sign"), "{error}");
    let links = link::list(&service.world.app).expect("links");
    assert!(links.iter().all(|link| !link.name.contains("audit")), "{links:?}");
    service.stop(daemon);
}
