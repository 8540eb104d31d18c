//! `weft run --port`: the kinds of port, and the message of a kernel without TAPs that hold senders back.

use crate::common::world::{FAR, POLICY, World, transfer};
use crate::common::{assert_conserved, file, json, weft};
use rustix::process::Signal;
use std::time::Duration;
use weft_host::{link, tap, testing::privileged};

/// A transfer over a port of this kind.
fn carries(kind: &str, device: &str) {
    let world = World::new();
    let counters = world.folder.path().join("counters.json");
    let running = world.start(&["--port", kind, "--json", counters.to_str().expect("UTF-8")]);
    assert_eq!(link::kind(&world.app, "weft0").expect("port").as_deref(), Some(device));
    transfer(&world.app, &world.far, FAR);
    running.signal(Signal::TERM);
    let said = running.wait(Duration::from_secs(20));
    assert_eq!(said.code, 143, "{}", said.err);
    assert_conserved(&json(&counters)["conservation"]);
    world.assert_clean();
}

#[test]
fn a_veth_carries_traffic_wherever_it_is_asked_for() {
    if privileged("a_veth_carries_traffic_wherever_it_is_asked_for") {
        carries("veth", "veth");
    }
}

#[test]
fn a_tap_carries_traffic_or_the_kernel_is_said_to_be_too_old() {
    if !privileged("a_tap_carries_traffic_or_the_kernel_is_said_to_be_too_old") {
        return;
    }
    let Err(reason) = tap::require_backpressure() else { return carries("tap", "tun") };
    let world = World::new();
    let policy = file(&world.folder, "p.weft", POLICY);
    let said = weft()
        .args(["run", &policy, "--uplink", "up0", "--uplink-netns", world.host.name()])
        .args(["--netns", world.app.name(), "--port", "tap"])
        .output()
        .expect("weft");
    let err = String::from_utf8_lossy(&said.stderr).into_owned();
    assert_eq!(said.status.code(), Some(1), "{err}");
    assert_eq!(err, format!("error: {reason}; leave out --port tap\n"));
    world.assert_clean();
}

#[test]
fn another_kind_is_wrong_usage() {
    let said = weft().args(["run", "p.weft", "--uplink", "up0", "--port", "bridge"]).output().expect("weft");
    let err = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.code() == Some(2) && err.contains("`veth`, `tap` or `auto`"), "{err}");
}

#[test]
fn a_tap_receives_by_the_thread_only() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let dry = |receive: &str| {
        let args = ["run", &policy, "--uplink", "up0", "--port", "tap", "--receive", receive, "--dry-run"];
        weft().args(args).output().expect("weft")
    };
    let said = dry("auto");
    let out = String::from_utf8_lossy(&said.stdout);
    assert!(out.contains("receive: by a thread: the port is a TAP, which has no far end"), "{out}");
    let said = dry("kernel");
    let err = String::from_utf8_lossy(&said.stderr);
    assert_eq!((said.status.code(), err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.contains("the port is a TAP") && err.contains("--receive auto"), "{err}");
}
