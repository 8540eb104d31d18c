//! The plugin's program with a real daemon, and real containers. Both need the program `weft` beside the plugin's, which a
//! build of the workspace makes.

use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use weft_host::link::{self, VethOptions};
use weft_host::{NetNs, testing};
use weft_units::testing::skip;

const PLUGIN: &str = env!("CARGO_BIN_EXE_weft-cni");

/// The program `weft` of the same build.
fn weft(test: &str) -> Option<PathBuf> {
    let path = Path::new(PLUGIN).with_file_name("weft");
    if !path.is_file() {
        skip(test, "the program weft is not built; `cargo build --package weft` builds it");
        return None;
    }
    Some(path)
}

/// A daemon on a host, whose uplink leads to the world.
struct Host {
    ns: NetNs,
    world: NetNs,
    folder: tempfile::TempDir,
    daemon: Child,
}

impl Host {
    fn start(weft: &Path) -> Self {
        let (ns, world) = (NetNs::anonymous().expect("a host"), NetNs::anonymous().expect("a world"));
        link::create_veth((&ns, "uplink0"), (&world, "world0"), &VethOptions::default()).expect("a veth");
        link::add_address(&world, "world0", [10, 98, 9, 1].into(), 24).expect("an address");
        link::set_up(&world, "world0").and_then(|()| link::set_up(&ns, "uplink0")).expect("up");
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).expect("written");
        file("p.weft", "root = fair of default\n");
        file("weft.toml", "uplink = \"uplink0\"\npolicy = \"p.weft\"\n");
        let mut command = Command::new(weft);
        command.arg("daemon").current_dir(folder.path()).args(["--config", "weft.toml", "--socket", "s"]);
        command.stderr(std::fs::File::create(folder.path().join("log")).expect("a log"));
        let daemon = ns.run(|| command.spawn()).expect("entered").expect("started");
        let host = Self { ns, world, folder, daemon };
        assert!(testing::until(testing::PATIENCE, || host.socket().exists()), "{}", host.log());
        host
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("s")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Runs the plugin as a runtime does.
    fn plugin(&self, verb: &str, netns: &str, more: Value) -> Output {
        let mut config = json!({ "cniVersion": "1.1.0", "name": "n", "type": "weft", "socket": self.socket(), "ipam": {} });
        for (key, value) in more.as_object().into_iter().flatten() {
            config[key] = value.clone();
        }
        let mut command = Command::new(PLUGIN);
        command.env_clear().envs([("CNI_COMMAND", verb), ("CNI_CONTAINERID", "c"), ("CNI_IFNAME", "eth0")]);
        command.env("CNI_NETNS", netns).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.ns.run(|| command.spawn()).expect("entered").expect("started");
        let mut input = child.stdin.take().expect("a pipe");
        // VERSION ends without reading it.
        let _ = input.write_all(config.to_string().as_bytes());
        drop(input);
        child.wait_with_output().expect("ended")
    }

    fn done(&self, verb: &str, netns: &str, more: Value) -> Value {
        let output = self.plugin(verb, netns, more);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success(), "{verb}: {text}\n{}", self.log());
        serde_json::from_str(&text).unwrap_or_default()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Whether a datagram from the container reaches the world.
fn reaches(container: &NetNs, world: &NetNs) -> bool {
    let bind =
        |ns: &NetNs, at: &str| ns.run(|| std::net::UdpSocket::bind(at)).expect("entered").expect("bound");
    let receiver = bind(world, "10.98.9.1:0");
    receiver.set_read_timeout(Some(testing::PATIENCE)).expect("set");
    let sender = bind(container, "10.98.9.7:0");
    sender.send_to(b"x", receiver.local_addr().expect("an address")).expect("sent");
    receiver.recv(&mut [0; 8]).is_ok()
}

#[test]
fn a_container_has_a_port_of_the_daemon() {
    let name = "a_container_has_a_port_of_the_daemon";
    if !testing::privileged(name) {
        return;
    }
    let Some(weft) = weft(name) else { return };
    let host = Host::start(&weft);
    // A path such as a runtime without `ip netns`' folder has.
    let container = NetNs::anonymous().expect("a container");
    let sleeper =
        container.run(|| Command::new("sleep").arg("60").spawn()).expect("entered").expect("started");
    let mut sleeper = sleeper;
    let netns = format!("/proc/{}/ns/net", sleeper.id());
    assert_eq!(host.done("STATUS", "", json!({})), Value::Null);
    let result = host.done("ADD", &netns, json!({}));
    assert_eq!(result["interfaces"][0]["name"], "eth0");
    link::add_address(&container, "eth0", [10, 98, 9, 7].into(), 24).expect("an address");
    assert!(reaches(&container, &host.world), "{}", host.log());
    host.done("CHECK", &netns, json!({ "prevResult": result }));
    let limited = host.plugin(
        "ADD",
        "/proc/self/ns/net",
        json!({ "runtimeConfig": { "bandwidth": { "egressRate": 1_000_000 } } }),
    );
    assert!(!limited.status.success(), "the name of the port is taken, or limits are refused");
    host.done("DEL", &netns, json!({}));
    assert!(!link::exists(&container, "eth0").expect("read"));
    host.done("DEL", &netns, json!({}));
    let _ = sleeper.kill();
    let _ = sleeper.wait();
}

#[test]
fn an_end_of_the_daemon_is_told_by_status() {
    let name = "an_end_of_the_daemon_is_told_by_status";
    if !testing::privileged(name) {
        return;
    }
    let Some(weft) = weft(name) else { return };
    let mut host = Host::start(&weft);
    let _ = host.daemon.kill();
    let _ = host.daemon.wait();
    let output = host.plugin("STATUS", "", json!({}));
    let error: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &error["code"]), (Some(1), &json!(51)), "{error}");
    // A store may keep the port for the next daemon, so the removal is to be tried again.
    let output = host.plugin("DEL", "", json!({}));
    let error: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((output.status.code(), &error["code"]), (Some(1), &json!(11)), "{error}");
}

/// `scripts/demo-containers` for some seconds: two containers of crun, and the policy's shares.
#[test]
fn containers_share_the_link_by_the_policy() {
    let name = "containers_share_the_link_by_the_policy";
    if !testing::privileged(name) {
        return;
    }
    let Some(weft) = weft(name) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let figures = folder.path().join("figures");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/demo-containers");
    let output = Command::new(script)
        .args(["--short", "--json"])
        .arg(&figures)
        .envs([("WEFT_OFFLINE", "1")])
        .env("WEFT_BINARIES", weft.parent().expect("a folder"))
        .output()
        .expect("run");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.code() == Some(3) {
        let why = said.lines().find_map(|line| line.strip_prefix("skipped: ")).unwrap_or(&said);
        skip(name, why);
        return;
    }
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let figures: Value = serde_json::from_slice(&std::fs::read(figures).expect("written")).expect("JSON");
    let ratio = figures["shares"]["ratio"].as_f64().expect("a number");
    assert!((2.2..3.8).contains(&ratio), "weights 3 and 1: {figures}");
}
