//! `weft run` between namespaces of the test: a real TCP transfer crosses the port and the uplink.

mod common;
#[path = "common/world.rs"]
mod world;

use common::{assert_conserved, assert_head, file, json, left_by, weft};
use rustix::process::Signal;
use std::time::Duration;
use weft_host::testing::{privileged, unique};
use world::{BYTES, FAR, World, transfer};

#[test]
fn a_transfer_crosses_the_port_and_sigterm_takes_all_down() {
    if !privileged("a_transfer_crosses_the_port_and_sigterm_takes_all_down") {
        return;
    }
    let world = World::new();
    let counters = world.folder.path().join("counters.json");
    let running = world.start(&["--json", counters.to_str().expect("UTF-8")]);
    let pid = running.0.id();
    let took = transfer(&world.app, &world.far, FAR);
    assert!(took > Duration::from_millis(300), "{took:?} is faster than the link");
    running.signal(Signal::TERM);
    let said = running.wait(Duration::from_secs(20));
    assert_eq!(said.code, 143, "{}", said.err);
    assert!(said.out.contains("web") && said.err.contains("everything was removed"), "{said:?}");

    let document = json(&counters);
    assert_head(&document, "weft-run/1");
    assert_conserved(&document["conservation"]);
    for stage in document["conservation"]["stages"].as_array().expect("stages") {
        assert_conserved(stage);
    }
    assert_eq!(document["classes"][0]["class"], "web");
    assert!(document["classes"][0]["bytes"].as_u64().expect("bytes") > BYTES as u64, "{document}");
    world.assert_clean();
    assert!(left_by(pid).is_empty());
}

/// `ip netns exec` mounts another /sys over the host's, which hides the cgroup hierarchy.
#[test]
fn cgroups_are_found_where_ip_netns_exec_hides_them() {
    if !privileged("cgroups_are_found_where_ip_netns_exec_hides_them") {
        return;
    }
    let world = World::new();
    let cgroup = weft_host::Hierarchy::detect().expect("cgroup2").create(&unique("cg")).expect("cgroup");
    let name = cgroup.path().file_name().and_then(|name| name.to_str()).expect("name").to_owned();
    let text = format!(
        "class s = cgroup \"/{name}\"\nclass gone = cgroup \"/{name}/gone\"\nroot = priority {{ s, gone }}\n"
    );
    let policy = file(&world.folder, "c.weft", &text);
    let mut run = std::process::Command::new("ip");
    run.args(["netns", "exec", world.host.name()]).arg(weft().get_program());
    run.args(["run", &policy, "--uplink", "up0", "--rate", "100mbps", "--dry-run"]);
    let said = run.output().expect("ip");
    let err = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && !err.contains("is not visible"), "{err}");
    assert!(err.contains(&format!("no cgroup /{name}/gone")), "{err}");
    assert!(
        !err.contains(&format!("no cgroup /{name} ")) && !err.contains(&format!("no cgroup /{name}:")),
        "{err}"
    );
}

#[test]
fn a_killed_run_is_cleaned_up_by_the_next() {
    if !privileged("a_killed_run_is_cleaned_up_by_the_next") {
        return;
    }
    let world = World::new();
    let killed = world.start(&[]);
    let pid = killed.0.id();
    killed.signal(Signal::KILL);
    killed.wait(Duration::from_secs(10));
    let next = world.start(&["--duration", "2"]);
    assert!(left_by(pid).is_empty());
    let said = next.wait(Duration::from_secs(20));
    assert_eq!(said.code, 0, "{}", said.err);
    world.assert_clean();
}
