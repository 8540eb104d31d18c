//! Bad input to `weft daemon`: one clear line, nothing changed, nothing lost. What needs no traffic: `daemon.rs`.

use crate::common::flows::Flows;
use crate::common::service::{PATIENCE, Service};
use crate::common::world::{FAR, transfer, wait_until_up};
use crate::common::{Running, Said, file, until, weft};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weft_host::link::{self, VethOptions};
use weft_host::testing::{has_program, privileged};

/// The answer to bytes that are sent as a call.
fn answer(service: &Service, call: &[u8]) -> String {
    let mut stream = UnixStream::connect(&service.socket).expect("connect");
    stream.write_all(call).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("shut down");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// The state that no refused call may change.
fn state(service: &Service) -> (serde_json::Value, Vec<serde_json::Value>, String) {
    let status = service.status();
    let ports = status["ports"].as_array().expect("ports").iter().map(|port| port["port"].clone()).collect();
    (status["generation"].clone(), ports, service.done(&["config"]))
}

#[test]
fn refused_calls_change_nothing_and_lose_nothing_under_traffic() {
    if !privileged("refused_calls_change_nothing_and_lose_nothing_under_traffic") {
        return;
    }
    let service = Service::new();
    let daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    let app = service.world.app.name();
    // An interface that the daemon did not make.
    let other = ((&service.world.host, "theirs"), (&service.world.far, "theirs1"));
    link::create_veth(other.0, other.1, &VethOptions::default()).expect("veth");
    let host = service.world.host.name();
    let bad = file(&service.world.folder, "bad.weft", "link 1gbps\nroot = nothing\n");
    let flows = Flows::start(&service.world, 20);
    flows.assert_all_go_on();
    let before = state(&service);
    for (args, expected) in [
        (&["policy", "load", &bad][..], "bad.weft:2:8: error[E"),
        (&["policy", "load", &bad, "--uplink", "wan"], "there is no uplink wan; there are: up0"),
        (&["port", "add", "weft0", "--netns", app], "a port weft0 exists already"),
        (
            &["port", "add", "theirs", "--netns", host],
            "an interface theirs exists already in network namespace",
        ),
        (&["port", "add", "p1", "--netns", "nowhere"], "nowhere"),
        (
            &["port", "add", "p1", "--netns", app, "--mac", "01:00:00:00:00:01"],
            "mac: six bytes with colons, of no group",
        ),
        (&["port", "add", "way-too-long-a-name"], "name: an interface has 1 to 15 characters"),
        (&["port", "remove", "theirs"], "there is no port theirs"),
    ] {
        let line = service.refused(args);
        assert!(line.contains(expected), "{args:?}: {line}");
    }
    for (call, expected) in [
        (&b"{\"method\":\"io.weft.LoadPolicy\",\"parameters\":{\"name\":7}}\0"[..], "InvalidParameter"),
        (
            b"{\"method\":\"io.weft.AddPort\",\"parameters\":{\"name\":\"p\",\"uplink\":\"x\"}}\0",
            "NoSuchUplink",
        ),
        (b"{\"method\":\"io.weft.Status\",\"parameters\":{\"uplinks\":[]}}\0", "InvalidParameter"),
        (b"{\"method\":\"io.weft.Stop\"}\0", "MethodNotFound"),
        (b"{\"method\":\0", "no varlink call"),
    ] {
        let text = answer(&service, call);
        assert!(text.contains(expected) && text.ends_with('\0'), "{text}");
    }
    flows.assert_all_go_on();
    assert_eq!(state(&service), before);
    let dropped = &service.status()["dropped"];
    assert_eq!((&dropped["lost"], &dropped["stray"]), (&0.into(), &0.into()), "{dropped}");
    drop(flows);
    link::delete(&service.world.host, "theirs").expect("delete");
    service.stop(daemon);
}

/// A file system that a test fills.
struct Small(PathBuf);

impl Small {
    /// One in the test's folder with room for `files` files.
    fn new(folder: &Path, files: u32) -> Self {
        let path = folder.join("small");
        std::fs::create_dir(&path).expect("folder");
        let options = format!("nr_inodes={files},size=64k,mode=755");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "weft-test"]).arg(&path).status();
        assert!(mounted.expect("mount").success());
        Self(path)
    }

    /// Makes files until there is no room.
    fn fill(&self) {
        let full = (0..1000).any(|at| std::fs::write(self.0.join(format!("filler{at}")), "x").is_err());
        assert!(full, "it has more room than asked for");
    }

    fn empty(&self) {
        for entry in std::fs::read_dir(&self.0).expect("folder").flatten() {
            if entry.file_name().to_string_lossy().starts_with("filler") {
                std::fs::remove_file(entry.path()).expect("remove");
            }
        }
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// The only line of a daemon that does not start.
#[track_caller]
fn no_start(service: &Service) -> String {
    let said: Said = service.command().output().expect("run").into();
    let errors: Vec<&str> = said.err.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!((said.code, errors.len()), (1, 1), "{}", said.err);
    errors.concat()
}

#[test]
fn a_full_disk_is_told_and_loses_no_port() {
    let name = "a_full_disk_is_told_and_loses_no_port";
    if !privileged(name) || !has_program(name, "mount") {
        return;
    }
    let mut service = Service::new();
    let small = Small::new(service.world.folder.path(), 12);
    let socket = small.0.join("io.weft");
    let text = std::fs::read_to_string(&service.config).expect("read");
    let text = text.replace(&service.socket.display().to_string(), &socket.display().to_string());
    std::fs::write(&service.config, text).expect("write");
    service.socket = socket;
    small.fill();
    let line = no_start(&service);
    assert!(line.contains("No space left on device"), "{line}");
    service.world.assert_clean();
    small.empty();
    let daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    let port = || link::show(&service.world.app, "weft0").expect("the port").index;
    let (before, flows) = (port(), Flows::start(&service.world, 5));
    small.fill();
    // A running daemon needs no room.
    let new = file(&service.world.folder, "new.weft", "link 90mbps\nroot = fair of default\n");
    service.done(&["policy", "load", &new]);
    let json = small.0.join("status.json").display().to_string();
    let line = service.refused(&["status", "--json", &json]);
    assert!(line.contains("No space left on device"), "{line}");
    // A successor does, says so, and leaves the ports to the one after it.
    daemon.signal(Signal::KILL);
    daemon.wait(PATIENCE);
    let line = no_start(&service);
    assert!(line.contains("No space left on device"), "{line}");
    small.empty();
    let daemon = service.start();
    flows.assert_all_go_on();
    assert_eq!(port(), before, "the port is another device");
    drop(flows);
    service.stop(daemon);
}

#[test]
fn a_place_without_rights_is_told_in_a_line() {
    if !privileged("a_place_without_rights_is_told_in_a_line") {
        return;
    }
    let service = Service::new();
    let plain = file(&service.world.folder, "plain", "somebody's");
    for (place, expected) in
        [("/proc/none/io.weft", "/proc/none/io.weft"), (plain.as_str(), "exists and is no socket")]
    {
        let mut command = weft();
        command.args(["daemon", "--config", &service.config, "--socket", place]);
        let said: Said = command.output().expect("run").into();
        assert!(said.code == 1 && said.err.contains(expected), "{place}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    }
    assert_eq!(std::fs::read_to_string(&plain).expect("it is there"), "somebody's");
    service.world.assert_clean();
}

/// A `pkcheck` of the test's that allows everything.
fn allow_all(service: &Service) -> PathBuf {
    let folder = service.world.folder.path().join("bin");
    std::fs::create_dir(&folder).expect("folder");
    let script = folder.join("pkcheck");
    std::fs::write(&script, "#!/bin/sh\nexit 0\n").expect("write");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("mode");
    folder
}

#[test]
fn who_may_make_ports_cannot_reach_other_users_namespaces_or_ports() {
    let name = "who_may_make_ports_cannot_reach_other_users_namespaces_or_ports";
    if !privileged(name) || !has_program(name, "setpriv") {
        return;
    }
    let service = Service::new();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = service.command();
    command.env("PATH", format!("{}:{path}", allow_all(&service).display()));
    let daemon = Running(command.spawn().expect("start"));
    assert!(until(PATIENCE, || service.client(&["status"]).code == 0));
    let app = service.world.app.name().to_owned();
    let as_user = |uid: &str, args: &[&str]| -> Said {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={uid}"), "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"]);
        command.arg(weft().get_program()).args(args).arg("--socket").arg(&service.socket);
        command.stdin(Stdio::null()).output().expect("setpriv").into()
    };
    let before = state(&service);
    for (args, expected) in [
        (["port", "add", "p1", "--netns", "/proc/1/ns/net"], "only root names a namespace by its path"),
        (["port", "add", "p1", "--netns", "../../proc/1/ns/net"], "netns: a name as `ip netns` shows it"),
    ] {
        let said = as_user("65534", &args);
        assert!(said.code == 1 && said.err.contains(expected), "{args:?}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    }
    let of_configuration = as_user("65534", &["port", "remove", "weft0"]);
    assert!(of_configuration.err.contains("port weft0 belongs to user 0"), "{}", of_configuration.err);
    assert_eq!(state(&service), before);
    assert_eq!(as_user("65534", &["port", "add", "p1", "--netns", &app]).code, 0);
    let of_another = as_user("12345", &["port", "remove", "p1"]);
    assert!(of_another.err.contains("port p1 belongs to user 65534"), "{}", of_another.err);
    transfer(&service.world.app, &service.world.far, FAR);
    service.done(&["port", "remove", "p1"]);
    service.stop(daemon);
}
