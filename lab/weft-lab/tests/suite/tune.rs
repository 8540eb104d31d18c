//! `weft tune`: its answers to known and unknown facts, and that nothing of a host changes, also after kill -9.

use crate::common;
use crate::common::{Running, Said, file, left_by, run, until, weft};
use rustix::process::Signal;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;
use std::time::Duration;
use weft_host::link::{self, VethOptions};
use weft_host::sock_diag::{SockDiag, State};
use weft_host::testing::{has_program, privileged, unique};
use weft_host::transmit::Facts;
use weft_host::{NetNs, sysctl};
use weft_profile::level::DeviceSettings;

/// A namespace with a device of two queues, as a host.
struct World {
    near: NetNs,
    far: NetNs,
}

impl World {
    fn new() -> Self {
        let [near, far] = ["near", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
        let options = VethOptions { queues: Some(2), ..VethOptions::default() };
        link::create_veth((&near, "t0"), (&far, "t1"), &options).expect("veth");
        link::set_up(&near, "t0").expect("up");
        link::set_up(&far, "t1").expect("up");
        Self { near, far }
    }

    fn args<'a>(&'a self, wish: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["tune", "--for", wish, "--netns", self.near.name(), "--device", "t0"], more].concat()
    }

    fn tune(&self, wish: &str, more: &[&str]) -> Said {
        run(&self.args(wish, more))
    }
}

/// A short simulation of the namespace's device.
const GIVEN: [&str; 14] = [
    "--rate",
    "100mbps",
    "--flows",
    "4",
    "--seeds",
    "2",
    "--set",
    "host.stack.congestion_control=cubic",
    "--set",
    "warm_up=10ms",
    "--set",
    "duration=50ms",
    "--set",
    "fairness_intervals=[\"50ms\"]",
];

#[test]
fn wrong_use_has_exit_code_2_and_an_absent_device_is_named() {
    for (args, named) in [
        (&["tune"][..], "--for"),
        (&["tune", "--for", "beauty"], "fairness"),
        (&["tune", "--for", "latency", "--rate", "0gbps"], "a rate of zero"),
        (&["tune", "--for", "latency", "--set", "network.delay"], "KEY=VALUE"),
        (&["tune", "--for", "latency", "--repeats", "3"], "--try"),
        (&["tune", "--for", "latency", "--json", "-", "--scenario", "-"], "two files"),
    ] {
        let said = run(args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert!(said.err.contains(named) && said.out.is_empty(), "{args:?}: {}", said.err);
    }
    let said = run(&["tune", "--for", "latency", "--device", "absent0"]);
    assert!(said.code == 1 && said.err.contains("there is no device absent0; there are: "), "{said:?}");
    let said = run(&["tune", "--for", "latency", "--device", "lo", "--machine", "absent.toml"]);
    assert!(said.code == 1 && said.err.contains("absent.toml"), "{said:?}");
}

#[test]
fn it_says_when_it_does_not_know() {
    if !privileged("it_says_when_it_does_not_know") {
        return;
    }
    let world = World::new();
    let said = world.tune("fairness", &[]);
    assert_eq!(said.code, 3, "{said:?}");
    assert!(said.out.contains("does not know") && said.out.contains("which has no wire"), "{}", said.out);
    assert!(said.out.lines().all(|line| line.chars().count() < 200), "too wide for a terminal: {}", said.out);
    let said = world.tune("processor", &GIVEN);
    assert!(said.code == 3 && said.out.contains("weft profile fit"), "{said:?}");
    let folder = tempfile::tempdir().expect("folder");
    let wrong = file(&folder, "machine.toml", "[no_such_operation]\ntcpip = 1\n");
    let said = world.tune("processor", &[&GIVEN[..], &["--machine", &wrong]].concat());
    assert!(said.code == 1 && said.err.contains("no_such_operation"), "{said:?}");
}

#[test]
fn a_host_s_scenario_is_simulated_and_written() {
    if !privileged("a_host_s_scenario_is_simulated_and_written") {
        return;
    }
    let world = World::new();
    link::set_gso_max_size(&world.near, "t0", 30_000).expect("set");
    sysctl::set(&world.near, "net.ipv4.tcp_limit_output_bytes", "600000").expect("set");
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("host.toml");
    let scenario = path.to_str().expect("UTF-8");
    let said = world.tune("latency", &[&GIVEN[..], &["--scenario", scenario, "--json", "-"]].concat());
    assert!([0, 1, 3].contains(&said.code), "{said:?}");
    let document: Value = serde_json::from_str(&said.out).expect("JSON");
    let kind = document["verdict"]["conclusion"].as_str().expect("a verdict");
    let code = ["advice", "nothing-better", "", "does-not-know"].iter().position(|one| *one == kind);
    assert_eq!(code, Some(said.code as usize), "{kind}");
    let fact = |name: &str| {
        let facts = document["facts"].as_array().expect("facts").iter();
        facts.clone().find(|fact| fact["name"] == name).map(|fact| fact["value"].clone()).expect("a fact")
    };
    assert_eq!((fact("transmit queues"), fact("qdisc")), ("2".into(), "noqueue".into()));
    assert_eq!((fact("TCP small queues"), fact("link")), ("600 000 B".into(), Value::Null));
    let shown = run(&["sim", scenario, "--show"]);
    assert!(shown.code == 0 && shown.out.contains("gso = \"30KB\""), "{shown:?}");
    assert!(
        shown.out.contains("small_queue = \"600KB\"") && shown.out.contains("count = 4"),
        "{}",
        shown.out
    );
    // The same seeds give the same figures.
    let again = world.tune("latency", &[&GIVEN[..], &["--json", "-"]].concat());
    let other: Value = serde_json::from_str(&again.out).expect("JSON");
    assert_eq!(other["candidates"], document["candidates"]);
}

const TRIALS: [&str; 8] = ["--try", "--loaded", "--repeats", "2", "--most", "1", "--span", "300ms"];

#[test]
fn the_best_are_tried_on_real_packets_and_nothing_changes() {
    let name = "the_best_are_tried_on_real_packets_and_nothing_changes";
    if !privileged(name) || !has_program(name, "iperf3") || !has_program(name, "ping") {
        return;
    }
    let world = World::new();
    let facts = || Facts::read(&world.near, "t0", &[]).expect("facts");
    let before = facts();
    let more = ["--warm-up", "200ms", "--json", "-"];
    let said = world.tune("throughput", &[&GIVEN[..], &TRIALS, &more].concat());
    assert!([0, 1, 3].contains(&said.code), "{said:?}");
    let document: Value = serde_json::from_str(&said.out).expect("JSON");
    let tried: Vec<&Value> = document["candidates"]
        .as_array()
        .expect("candidates")
        .iter()
        .filter(|one| one["tried"]["measured"].as_array().is_some_and(|runs| !runs.is_empty()))
        .collect();
    assert_eq!(tried.len(), 2, "the present setting and the best: {document}");
    for run in tried.iter().flat_map(|one| one["tried"]["measured"].as_array().expect("runs")) {
        let positive = |figure: &str| run[figure].as_f64().is_some_and(|figure| figure > 0.0);
        assert!(positive("bps") && positive("latency_s") && positive("ns_per_byte"), "{run}");
        assert!(run["nfm"].as_f64().is_some_and(|nfm| nfm >= 0.0), "{run}");
    }
    assert!(tried.iter().all(|one| one["tried"]["simulated"].as_array().is_some_and(|runs| runs.len() == 2)));
    assert_eq!(facts(), before);
}

#[test]
fn a_killed_run_leaves_nothing_and_has_changed_nothing() {
    let name = "a_killed_run_leaves_nothing_and_has_changed_nothing";
    if !privileged(name) || !has_program(name, "iperf3") || !has_program(name, "ping") {
        return;
    }
    let world = World::new();
    let facts = || Facts::read(&world.near, "t0", &[]).expect("facts");
    let here = || sysctl::get(&NetNs::current().expect("namespace"), "net.ipv4.tcp_limit_output_bytes");
    let before = (facts(), here().expect("setting"));
    let long = ["--warm-up", "100s"];
    let child = weft().args(world.args("throughput", &[&GIVEN[..], &TRIALS, &long].concat())).spawn();
    let running = Running(child.expect("start weft"));
    let pid = running.0.id();
    let in_the_middle = || left_by(pid).len() >= 2;
    assert!(until(Duration::from_secs(120), in_the_middle), "no namespaces of a trial");
    running.signal(Signal::KILL);
    assert!(until(Duration::from_secs(60), || left_by(pid).is_empty()), "left: {:?}", left_by(pid));
    let said = running.wait(Duration::from_secs(60));
    assert_eq!(said.code, -1, "{said:?}");
    assert_eq!((facts(), here().expect("setting")), before);
}

/// Two namespaces as two hosts. The device of the first is tried, and as it was before after the run, and after kill -9 in the middle.
#[test]
fn a_device_that_is_tried_is_restored_also_after_a_kill() {
    let name = "a_device_that_is_tried_is_restored_also_after_a_kill";
    if !privileged(name) || !has_program(name, "iperf3") || !has_program(name, "ping") {
        return;
    }
    let world = World::new();
    let far = &world.far;
    for (ns, device, address) in [(&world.near, "t0", NEAR), (far, "t1", FAR)] {
        let _ = sysctl::set(ns, "net.ipv6.conf.all.disable_ipv6", "1");
        link::add_address(ns, device, address, 24).expect("address");
        link::wait_running(ns, device, Duration::from_secs(30)).expect("running");
    }
    let settings = || DeviceSettings::read(&world.near, "t0").expect("settings");
    let before = settings();
    let server = start(far, weft().args(["profile", "server", "--listen", "10.99.0.2"]));
    let has = |port: u16, state: State| {
        let sockets = SockDiag::open(far).and_then(|mut diag| diag.tcp()).expect("sockets");
        sockets.iter().any(|(socket, _)| socket.local.port() == port && socket.state == state)
    };
    assert!(until(Duration::from_secs(60), || has(5200, State::Listen)), "the server does not listen");
    let args = ["tune", "--for", "processor", "--device", "t0", "--to", "10.99.0.2"];
    let folder = tempfile::tempdir().expect("folder");
    let machine = file(&folder, "machine.toml", MACHINE);
    let args = [&args[..], &GIVEN, &TRIALS, &["--machine", &machine]].concat();
    let path = folder.path().join("tune.json");
    let json = path.to_str().expect("UTF-8");
    let short = start(&world.near, weft().args(&args).args(["--warm-up", "200ms", "--json", json]));
    let short = short.wait(Duration::from_secs(300));
    assert!([0, 1, 3].contains(&short.code), "{short:?}");
    let document = common::json(&path);
    let tried = |one: &&Value| one["tried"]["measured"].as_array().is_some_and(|runs| runs.len() == 2);
    assert_eq!(
        document["candidates"].as_array().expect("candidates").iter().filter(tried).count(),
        2,
        "{document}"
    );
    assert_eq!(settings(), before);
    let running = start(&world.near, weft().args(&args).args(["--warm-up", "5s"]));
    // The present setting and the other take turns: wait for the other.
    assert!(until(Duration::from_secs(120), || settings() != before), "no change was tried");
    running.signal(Signal::KILL);
    assert!(until(Duration::from_secs(60), || settings() == before), "not restored: {:?}", settings());
    assert_eq!(running.wait(Duration::from_secs(60)).code, -1);
    server.signal(Signal::TERM);
    assert_eq!(server.wait(Duration::from_secs(60)).code, 143);
}

/// A machine on which an skb costs most, so that larger ones are better.
const MACHINE: &str =
    "[send_segment]\ntcpip = 1000\n[[source]]\nkeys = [\"send_segment\"]\nassumed = \"a test's machine\"\n";
const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 1));
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 99, 0, 2));

/// Starts a program in a namespace.
fn start(ns: &NetNs, command: &mut Command) -> Running {
    Running(ns.run(|| command.spawn()).expect("enter").expect("start weft"))
}
