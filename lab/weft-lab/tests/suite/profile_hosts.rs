//! `weft profile --to`: two namespaces, joined by a veth pair, as two hosts.

use crate::common::{Running, Said, file, json, run, until, weft};
use crate::schema;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use weft_host::link::{self, VethOptions};
use weft_host::sock_diag::{SockDiag, State};
use weft_host::testing::{has_program, privileged, unique};
use weft_host::{NetNs, sysctl};
use weft_profile::level::DeviceSettings;

const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 98, 0, 1));
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 98, 0, 2));
const NEAR6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0x98, 0, 0, 0, 0, 0, 1));
const FAR6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0x98, 0, 0, 0, 0, 0, 2));
const SHORT: [&str; 8] = ["--loaded", "--repeats", "1", "--span", "500ms", "--warm-up", "200ms", "--rate"];

/// Tests take turns: each samples all processors, and none makes another late.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    // A test that failed has not left a state.
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two namespaces with a path between them.
struct Hosts {
    _turn: MutexGuard<'static, ()>,
    near: NetNs,
    far: NetNs,
    folder: tempfile::TempDir,
}

impl Hosts {
    fn new() -> Self {
        let _turn = turn();
        let [near, far] = ["near", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
        link::create_veth((&near, "h0"), (&far, "h1"), &VethOptions::default()).expect("veth");
        for (ns, device, address) in [(&near, "h0", NEAR), (&far, "h1", FAR)] {
            // Router and neighbour discovery would be packets without a known process.
            let _ = sysctl::set(ns, "net.ipv6.conf.all.disable_ipv6", "1");
            link::add_address(ns, device, address, 24).expect("address");
            link::set_up(ns, device).expect("up");
        }
        for (ns, device) in [(&near, "h0"), (&far, "h1")] {
            link::wait_running(ns, device, Duration::from_secs(30)).expect("running");
        }
        Self { _turn, near, far, folder: tempfile::tempdir().expect("folder") }
    }

    /// Starts a server at the far host, and waits until it listens.
    fn server(&self) -> Running {
        self.server_with(&[])
    }

    fn server_with(&self, more: &[&str]) -> Running {
        self.server_at("10.98.0.2", more)
    }

    fn server_at(&self, address: &str, more: &[&str]) -> Running {
        let server = start(&self.far, weft().args(["profile", "server", "--listen", address]).args(more));
        let listens = || self.far_has(5200, State::Listen);
        assert!(until(Duration::from_secs(60), listens), "the server does not listen");
        server
    }

    /// Whether the far host has a TCP socket at this port in this state. A connection to find out would keep the server busy.
    fn far_has(&self, port: u16, state: State) -> bool {
        let sockets = SockDiag::open(&self.far).and_then(|mut diag| diag.tcp()).expect("sockets");
        sockets.iter().any(|(s, _)| s.local.port() == port && s.state == state)
    }

    /// Whether flows are connected.
    fn traffic(&self) -> bool {
        self.far_has(5201, State::Established)
    }

    fn client(&self, args: &[&str]) -> Said {
        self.client_of("10.98.0.2", args)
    }

    fn client_of(&self, to: &str, args: &[&str]) -> Said {
        start(&self.near, weft().arg("profile").args(args).args(["--to", to])).wait(Duration::from_secs(240))
    }

    /// Gives both hosts IPv6 addresses; returns false where the kernel has no IPv6.
    fn add_ipv6(&self) -> bool {
        let ends = [(&self.near, "h0", NEAR6), (&self.far, "h1", FAR6)];
        let enabled = |(ns, device, _): &(&NetNs, &str, IpAddr)| {
            // An address without detection of duplicates can be used at once.
            let set = |key: &str, value| sysctl::set(ns, &format!("net/ipv6/conf/{device}/{key}"), value);
            set("accept_dad", "0").and_then(|()| set("disable_ipv6", "0")).is_ok()
        };
        if !ends.iter().all(enabled) {
            return false;
        }
        for (ns, device, address) in ends {
            link::add_address(ns, device, address, 64).expect("address");
        }
        true
    }
}

fn start(ns: &NetNs, command: &mut Command) -> Running {
    Running(ns.run(|| command.spawn()).expect("enter").expect("start weft"))
}

fn connect(ns: &NetNs) -> std::io::Result<TcpStream> {
    let to = (FAR, 5200).into();
    ns.run(|| TcpStream::connect_timeout(&to, Duration::from_secs(5))).expect("enter")
}

/// A document, which fits its schema.
#[track_caller]
fn document_of(path: &str) -> Value {
    let schema = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas/weft-profile.schema.json");
    let document = json(path);
    assert_eq!(schema::errors(&json(schema), &document), Vec::<String>::new());
    document
}

/// Asserts that both sides of a level have figures, and that their counts agree.
#[track_caller]
fn assert_both_sides(config: &Value) {
    for side in ["sender", "receiver"] {
        let used = &config["sides"][side]["utilisation"];
        let sum: f64 = ["user", "system", "softirq"].iter().filter_map(|part| used[part].as_f64()).sum();
        assert!(sum > 0.0, "{side}: {used}");
        let per_byte = config["sides"][side]["ns_per_byte"].as_object().expect("categories").values();
        assert!(per_byte.filter_map(Value::as_f64).sum::<f64>() > 0.0, "{side}");
    }
    let counted = &config["runs"][0]["counted"];
    let [acked, received, sent] =
        ["acked", "received", "sent"].map(|end| counted[end].as_u64().expect("a count"));
    // What was received lies between what was acknowledged before and sent after: the difference is in flight.
    assert!(0 < acked && acked <= received && received <= sent, "{counted}");
}

#[test]
fn a_host_sends_to_another_and_both_count_the_same() {
    let name = "a_host_sends_to_another_and_both_count_the_same";
    if !privileged(name) || !has_program(name, "iperf3") || !has_program(name, "sockperf") {
        return;
    }
    let hosts = Hosts::new();
    let server = hosts.server();
    let path = |name: &str| file(&hosts.folder, name, "");
    for (case, args) in
        [("outcast.json", &["outcast", "--flows", "3"][..]), ("requests.json", &["single", "--rpc", "4kb"])]
    {
        let document = path(case);
        let said = hosts.client(&[args, &SHORT, &["999", "--json", &document]].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.out.contains("Receiver: 10.98.0.2"), "{}", said.out);
        let report = document_of(&document);
        assert_eq!(
            (&report["schema"], &report["peer"]["name"]),
            (&"weft-profile/1".into(), &"10.98.0.2".into())
        );
        let config = &report["configs"][0];
        assert_eq!(config["level"], "as-is");
        assert!(config["bps"].as_f64().is_some_and(|bps| bps > 1e5), "{config}");
        assert_both_sides(config);
        let moved = config["runs"][0]["work"]["bytes"].as_u64().expect("bytes");
        assert!(moved > 0 && config["flows"] == if case == "outcast.json" { 3 } else { 1 }, "{config}");
    }
    server.signal(Signal::INT);
    let said = server.wait(Duration::from_secs(60));
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(said.err.contains("came") && said.err.contains("is done"), "{}", said.err);
    for ns in [&hosts.near, &hosts.far] {
        let names: Vec<String> = link::list(ns).expect("links").into_iter().map(|link| link.name).collect();
        assert_eq!(names.len(), 2, "{names:?}");
    }
}

/// With and without brackets, and also by a server that listens at all addresses.
#[test]
fn hosts_reach_each_other_by_ipv6() {
    let name = "hosts_reach_each_other_by_ipv6";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let hosts = Hosts::new();
    if !hosts.add_ipv6() {
        return weft_units::testing::skip(name, "no IPv6 in this kernel");
    }
    for (listen, to) in [("fd00:98::2", "fd00:98::2"), ("[::]:5200", "[fd00:98::2]:5200")] {
        let server = hosts.server_at(listen, &[]);
        let document = file(&hosts.folder, "ipv6.json", "");
        let said = hosts.client_of(
            to,
            &[&["incast", "--flows", "2"], &SHORT[..], &["999", "--json", &document]].concat(),
        );
        assert_eq!(said.code, 0, "{}", said.err);
        let report = document_of(&document);
        assert_eq!(report["peer"]["address"], "fd00:98::2");
        let config = &report["configs"][0];
        assert!(config["bps"].as_f64().is_some_and(|bps| bps > 1e5), "{config}");
        assert_both_sides(config);
        server.signal(Signal::INT);
        assert_eq!(server.wait(Duration::from_secs(60)).code, 130);
    }
}

#[test]
fn a_server_that_is_busy_or_stopped_says_so() {
    let name = "a_server_that_is_busy_or_stopped_says_so";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let hosts = Hosts::new();
    let server = hosts.server();
    let long = ["profile", "single", "--loaded", "--span", "120s", "--to", "10.98.0.2"];
    let first = start(&hosts.near, weft().args(long));
    assert!(until(Duration::from_secs(120), || hosts.traffic()), "no traffic");
    let second = hosts.client(&["single", "--loaded"]);
    assert!(second.code == 1 && second.err.contains("try again later"), "{second:?}");
    server.signal(Signal::TERM);
    assert_eq!(server.wait(Duration::from_secs(60)).code, 143);
    let said = first.wait(Duration::from_secs(60));
    assert!(said.code == 1 && said.err.contains("10.98.0.2:5200"), "{said:?}");
    assert!(until(Duration::from_secs(60), || !hosts.traffic()), "the applications ended with the server");
}

/// The settings that levels change.
fn settings(ns: &NetNs, device: &str) -> DeviceSettings {
    DeviceSettings::read(ns, device).expect("settings")
}

#[test]
fn levels_at_devices_of_both_hosts_are_restored() {
    let name = "levels_at_devices_of_both_hosts_are_restored";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let hosts = Hosts::new();
    let before = [settings(&hosts.near, "h0"), settings(&hosts.far, "h1")];
    let server = hosts.server_with(&["--device", "h1"]);
    let document = file(&hosts.folder, "levels.json", "");
    let levels = ["single", "--device", "h0", "--levels", "noopt,jumbo"];
    let said = hosts.client(&[&levels[..], &SHORT, &["999", "--json", &document]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let report = document_of(&document);
    let names: Vec<&Value> =
        report["configs"].as_array().expect("levels").iter().map(|c| &c["level"]).collect();
    assert_eq!(names, ["noopt", "jumbo"]);
    let skb = |config: usize| report["configs"][config]["skb_bytes"]["transmit"]["mean"].as_f64();
    if let (Some(small), Some(large)) = (skb(0), skb(1)) {
        assert!(small <= 1514.0 && large > small, "{small} {large}");
    }
    assert!(!said.out.contains("has no --device"), "{}", said.out);
    assert_eq!([settings(&hosts.near, "h0"), settings(&hosts.far, "h1")], before);
    let elsewhere = hosts.client(&["single", "--loaded", "--device", "lo", "--levels", "noopt"]);
    assert_eq!(elsewhere.code, 1, "{elsewhere:?}");
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(60)).code, 130);
}

/// The process that waits beside a run to restore its device.
fn guard_of(run: &Running) -> Pid {
    let children = format!("/proc/{}/task", run.0.id());
    let of_thread = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("children")).ok();
    let children: Vec<String> =
        std::fs::read_dir(children).expect("threads").flatten().filter_map(of_thread).collect();
    let is_guard = |pid: &&str| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("\0restore\0--guard\0")
    };
    let children = children.join(" ");
    let found = children.split_whitespace().find(is_guard).expect("a guard");
    Pid::from_raw(found.parse().expect("a number")).expect("a process")
}

/// After kill -9 the processes that wait beside the runs restore both devices, without another run.
#[test]
fn a_killed_run_s_guard_restores_the_device() {
    let name = "a_killed_run_s_guard_restores_the_device";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let hosts = Hosts::new();
    let before = [settings(&hosts.near, "h0"), settings(&hosts.far, "h1")];
    let server = hosts.server_with(&["--device", "h1"]);
    let long = ["profile", "single", "--loaded", "--span", "120s", "--to", "10.98.0.2"];
    let client = start(&hosts.near, weft().args(long).args(["--device", "h0", "--levels", "noopt"]));
    assert!(until(Duration::from_secs(120), || hosts.traffic()), "no traffic");
    assert!(settings(&hosts.near, "h0").gso_max_segs == 1 && settings(&hosts.far, "h1").gso_max_segs == 1);
    // Both are stopped first: a process that lives on restores its device when the other is gone.
    for signal in [Signal::STOP, Signal::KILL] {
        client.signal(signal);
        server.signal(signal);
    }
    let restored = || [settings(&hosts.near, "h0"), settings(&hosts.far, "h1")] == before;
    assert!(until(Duration::from_secs(60), restored), "not restored");
    for process in [client, server] {
        let said = process.wait(Duration::from_secs(60));
        assert!(said.code == -1 && said.err.contains("has its settings back"), "{said:?}");
    }
}

/// After kill -9 in the middle, of the guard too, the device is restored by `weft profile restore`, or by the next run.
#[test]
fn a_killed_run_s_devices_are_restored() {
    let name = "a_killed_run_s_devices_are_restored";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let hosts = Hosts::new();
    let before = [settings(&hosts.near, "h0"), settings(&hosts.far, "h1")];
    for next in [&["profile", "restore"][..], &["profile", "single", "--to", "192.0.2.1"]] {
        let server = hosts.server_with(&["--device", "h1"]);
        let long = ["profile", "single", "--loaded", "--span", "120s", "--to", "10.98.0.2"];
        let client = start(&hosts.near, weft().args(long).args(["--device", "h0", "--levels", "noopt"]));
        assert!(until(Duration::from_secs(120), || hosts.traffic()), "no traffic");
        assert!(
            settings(&hosts.near, "h0").gso_max_segs == 1 && settings(&hosts.far, "h1").gso_max_segs == 1
        );
        // Another run leaves the device of a living one alone.
        let other = start(&hosts.near, weft().args(["profile", "restore"])).wait(Duration::from_secs(60));
        assert!(other.code == 0 && settings(&hosts.near, "h0").gso_max_segs == 1, "{other:?}");
        for run in [&client, &server] {
            kill_process(guard_of(run), Signal::KILL).expect("kill the guard");
        }
        // Both are stopped first: a process that lives on restores its device when the other is gone.
        for signal in [Signal::STOP, Signal::KILL] {
            client.signal(signal);
            server.signal(signal);
        }
        for process in [client, server] {
            assert_eq!(process.wait(Duration::from_secs(60)).code, -1);
        }
        assert!(
            settings(&hosts.near, "h0").gso_max_segs == 1 && settings(&hosts.far, "h1").gso_max_segs == 1
        );
        for (ns, device) in [(&hosts.near, "h0"), (&hosts.far, "h1")] {
            let said = start(ns, weft().args(next)).wait(Duration::from_secs(120));
            assert!(said.err.contains(&format!("device {device} has its settings back")), "{said:?}");
        }
        assert_eq!([settings(&hosts.near, "h0"), settings(&hosts.far, "h1")], before);
        let again = start(&hosts.near, weft().args(["profile", "restore"])).wait(Duration::from_secs(60));
        assert!(again.code == 0 && again.err.contains("no device was left changed"), "{again:?}");
    }
}

/// A peer that sends random or wrong lines, or nothing, ends in an error at either end.
#[test]
fn a_peer_that_lies_ends_in_an_error() {
    if !privileged("a_peer_that_lies_ends_in_an_error") {
        return;
    }
    let hosts = Hosts::new();
    for answer in ["nonsense\n", "{\"begun\":1}\n", "\"begun\"\n", "{\"refused\":{\"why\":\"no\"}}\n", ""] {
        let listener = hosts.far.run(|| TcpListener::bind((FAR, 5200))).expect("enter").expect("bind");
        let liar = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accept");
            let mut line = String::new();
            BufReader::new(stream.try_clone().expect("stream")).read_line(&mut line).expect("hello");
            stream.write_all(answer.as_bytes()).expect("write");
            line
        });
        let said = hosts.client(&["single", "--loaded"]);
        assert!(said.code == 1 && said.err.contains("10.98.0.2:5200"), "{answer}: {said:?}");
        assert!(liar.join().expect("liar").contains("\"protocol\":2"));
    }
    let server = hosts.server();
    let free = || !hosts.far_has(5200, State::Established);
    for request in [&b"nonsense\n"[..], b"\"counts\"\n", b"{\"hello\":{\"protocol\":9}}\n", &[b'x'; 100_000]]
    {
        assert!(until(Duration::from_secs(60), free), "the server does not let go");
        let mut stream = connect(&hosts.near).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("timeout");
        // The server may close before it has read everything.
        let _ = stream.write_all(request);
        let mut answer = String::new();
        let ended = stream.read_to_string(&mut answer);
        assert!(answer.contains("refused") || ended.is_err(), "{answer}");
    }
    // It serves on.
    assert!(connect(&hosts.near).is_ok());
    server.signal(Signal::INT);
    assert_eq!(server.wait(Duration::from_secs(60)).code, 130);
}

#[test]
fn wrong_usage_is_said() {
    for args in [
        &["profile", "single", "--to", ""][..],
        &["profile", "single", "--to", "a:0"],
        &["profile", "single", "--to", "a", "--levels", "noopt"],
        &["profile", "single", "--to", "a", "--device", "h0", "--levels", "arfs"],
        &["profile", "--attach", "--to", "a"],
        &["profile", "server", "--listen", "a b"],
    ] {
        assert_eq!(run(args).code, 2, "{args:?}");
    }
}
