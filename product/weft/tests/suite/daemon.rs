//! `weft daemon` and its client commands, between namespaces of the test.

use crate::common;
use crate::common::service::{PATIENCE, Service, port};
use crate::common::world::{BYTES, FAR, POLICY, transfer, wait_until_up};
use crate::common::{assert_fits, assert_head, file, left_by, until, weft};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use weft_control::Client;
use weft_host::testing::{has_program, privileged};

#[test]
fn a_daemon_carries_traffic_and_counts_it() {
    if !privileged("a_daemon_carries_traffic_and_counts_it") {
        return;
    }
    let service = Service::new();
    let daemon = service.start();
    let pid = daemon.0.id();
    wait_until_up(&service.world.app, "weft0");
    transfer(&service.world.app, &service.world.far, FAR);
    let status = service.status();
    assert_head(&status, "weft-status/1");
    assert_fits(&status, "weft-status");
    assert_eq!((&status["generation"], &status["worker"]), (&1.into(), &"running".into()));
    assert_eq!(status["policy_hash"].as_str().map(str::len), Some(64));
    let web = &status["classes"][0];
    assert_eq!(web["class"], "web");
    assert!(web["bytes"].as_u64().is_some_and(|bytes| bytes > BYTES as u64), "{web}");
    let entitled = web["entitled_bps"].as_f64().expect("a rate");
    assert!(entitled > 30e6 && entitled <= 50e6, "half of the link, less the infrastructure's share: {web}");
    let waits = |part: &str| web["sojourn_s"][part].as_f64().expect("a time");
    assert!(waits("p50") > 0.0 && waits("p50") <= waits("p99") && waits("p999") < 10.0, "{web}");
    assert!(web["sojourn_histogram"]["count"] == web["packets"] && web["sojourn_reason"].is_null(), "{web}");
    let idle = &status["classes"][1];
    assert!(idle["sojourn_s"].is_null() == idle["sojourn_reason"].is_string(), "{idle}");
    assert!(web["dropped"]["ring_full"].is_u64() && web["backlog_bytes"].is_u64(), "{web}");
    assert_eq!(
        (&status["ports"][0]["port"], &status["ports"][0]["configured"]),
        (&"weft0".into(), &true.into())
    );
    let table = service.done(&["status"]);
    assert!(table.contains("web") && table.contains("weft0") && table.contains("generation 1"), "{table}");
    let lines = service.done(&["top", "--plain", "--count", "2", "--interval", "100ms"]);
    assert_eq!(lines.lines().filter(|line| line.starts_with("class web ")).count(), 2, "{lines}");
    service.stop(daemon);
    assert!(left_by(pid).is_empty());
}

#[test]
fn ports_come_and_go_by_name() {
    if !privileged("ports_come_and_go_by_name") {
        return;
    }
    let service = Service::new();
    let daemon = service.start();
    let app = service.world.app.name();
    let again = service.refused(&["port", "add", "weft0", "--netns", app]);
    assert!(again.contains("a port weft0 exists already"), "{again}");
    let other = service.refused(&["port", "remove", "weft9"]);
    assert!(other.contains("there is no port weft9"), "{other}");
    assert!(service.done(&["port", "list"]).contains("weft0"));
    service.done(&["port", "remove", "weft0"]);
    service.world.assert_clean();
    assert!(!service.done(&["port", "list"]).contains("weft0"));
    let added = service.done(&["port", "add", "tenant1", "--netns", app, "--address", "10.97.0.1/24"]);
    assert!(added.starts_with("port tenant1 is there, hardware address 02:"), "{added}");
    wait_until_up(&service.world.app, "tenant1");
    transfer(&service.world.app, &service.world.far, FAR);
    let nowhere = service.refused(&["port", "add", "other", "--netns", "weft-no-such-namespace"]);
    assert!(nowhere.starts_with("error: "), "{nowhere}");
    service.stop(daemon);
}

#[test]
fn a_wrong_policy_is_told_in_a_line_and_changes_nothing() {
    if !privileged("a_wrong_policy_is_told_in_a_line_and_changes_nothing") {
        return;
    }
    let service = Service::new();
    let daemon = service.start();
    let before = service.done(&["config"]);
    assert!(before.ends_with(POLICY) && before.contains("# generation 1; the configured policy"), "{before}");
    let bad = file(&service.world.folder, "bad.weft", "link 1gbps\nroot = nothing\n");
    for verb in ["load", "diff"] {
        let line = service.refused(&["policy", verb, &bad]);
        assert!(line.starts_with(&format!("{bad}:2:8: error[E")), "{line}");
    }
    let stale = service.refused(&["policy", "load", service.config_policy(), "--generation", "7"]);
    assert!(stale.contains("generation 1 is in force"), "{stale}");
    assert_eq!(service.done(&["policy", "diff", service.config_policy()]), "no difference\n");
    assert_eq!(service.done(&["config"]), before);
    service.stop(daemon);
}

impl Service {
    /// The policy of the configuration.
    fn config_policy(&self) -> &'static str {
        // Leaked once per test: the arguments of commands borrow it.
        let path = self.world.folder.path().join("p.weft");
        Box::leak(path.display().to_string().into_boxed_str())
    }
}

#[test]
fn policies_are_loaded_compared_and_restored() {
    if !privileged("policies_are_loaded_compared_and_restored") {
        return;
    }
    let service = Service::bare("");
    let daemon = service.start();
    let text = POLICY.replace("100mbps", "50mbps").replace("fair of web: 1", "fair of web: 3");
    let new = file(&service.world.folder, "new.weft", &text);
    let steps = service.done(&["policy", "diff", &new]);
    assert!(steps.contains("100 Mb/s") && steps.contains("50 Mb/s"), "{steps}");
    assert_eq!(service.status()["generation"], 1);
    let loaded = service.done(&["policy", "load", &new, "--generation", "1", "--drain", "2s"]);
    assert!(loaded.contains("generation 2 is in force"), "{loaded}");
    let json: serde_json::Value =
        serde_json::from_str(&service.done(&["config", "--json", "-"])).expect("JSON");
    assert_head(&json, "weft-config/1");
    assert_fits(&json, "weft-config");
    assert_eq!((&json["text"], &json["is_default"]), (&text.into(), &false.into()));
    assert!(service.done(&["policy", "restore"]).contains("generation 3 is in force"));
    assert!(service.done(&["config"]).ends_with(POLICY));
    service.stop(daemon);
}

#[test]
fn sighup_reads_the_configuration_again() {
    if !privileged("sighup_reads_the_configuration_again") {
        return;
    }
    let service = Service::bare("");
    let daemon = service.start_with_log();
    let policy = service.config_policy();
    std::fs::write(policy, POLICY.replace("100mbps", "70mbps")).expect("write");
    let text = std::fs::read_to_string(&service.config).expect("read") + &port(&service.world, "weft0");
    std::fs::write(&service.config, &text).expect("write");
    daemon.signal(Signal::HUP);
    assert!(until(PATIENCE, || service.status()["ports"][0]["port"] == "weft0"), "{}", service.status());
    assert_eq!(service.status()["generation"], 2);
    assert_eq!(service.status()["uplink"]["rate_bps"], 70e6);
    std::fs::write(&service.config, "uplnk = 1\n").expect("write");
    daemon.signal(Signal::HUP);
    service.wait_for_line("weft.toml:1:1: error: unknown key `uplnk` in the file");
    assert_eq!(service.status()["generation"], 2);
    std::fs::write(&service.config, &text).expect("write");
    service.stop(daemon);
}

#[test]
fn a_killed_daemon_leaves_nothing_in_the_way() {
    if !privileged("a_killed_daemon_leaves_nothing_in_the_way") {
        return;
    }
    let service = Service::new();
    let killed = service.start();
    let pid = killed.0.id();
    killed.signal(Signal::KILL);
    killed.wait(PATIENCE);
    assert!(service.socket.exists(), "a killed daemon leaves its socket");
    let gone = service.client(&["status"]);
    assert!(gone.code == 1 && gone.err.contains("no daemon answers"), "{}", gone.err);
    let next = service.start();
    wait_until_up(&service.world.app, "weft0");
    transfer(&service.world.app, &service.world.far, FAR);
    service.stop(next);
    assert!(left_by(pid).is_empty());
}

#[test]
fn a_second_daemon_is_refused_by_the_pid_of_the_first() {
    if !privileged("a_second_daemon_is_refused_by_the_pid_of_the_first") {
        return;
    }
    let service = Service::new();
    let first = service.start();
    let second: common::Said = service.command().output().expect("run").into();
    let expected =
        format!("a daemon runs already at {} (process {})", service.socket.display(), first.0.id());
    assert!(second.code == 1 && second.err.contains(&expected), "{}", second.err);
    assert_eq!(service.status()["ports"][0]["port"], "weft0", "the first is untouched");
    service.stop(first);
}

#[test]
fn odd_clients_stop_nobody() {
    if !privileged("odd_clients_stop_nobody") {
        return;
    }
    let service = Service::bare("");
    let daemon = service.start();
    let connect = || UnixStream::connect(&service.socket).expect("connect");
    let twenty_calls = || {
        let begin = Instant::now();
        (0..20).for_each(|_| assert_eq!(service.status()["generation"], 1));
        begin.elapsed()
    };
    let alone = twenty_calls();
    // Half-open connections, more than there is room for.
    let half: Vec<UnixStream> = (0..200)
        .map(|_| {
            let mut stream = connect();
            let _ = stream.write_all(b"{\"method\":\"io.we");
            stream
        })
        .collect();
    // A call that waits for the half-open ones would take seconds; the start of the client takes what it took without them.
    let beside = twenty_calls();
    assert!(beside < 5 * alone + Duration::from_secs(8), "{beside:?}, {alone:?} without the others");
    // One that asks without end and never reads.
    let mut deaf = connect();
    deaf.set_nonblocking(true).expect("set");
    let ask = b"{\"method\":\"io.weft.Config\"}\0".repeat(1000);
    while matches!(deaf.write(&ask), Ok(written) if written > 0) {}
    let mut watcher = connect();
    watcher
        .write_all(b"{\"method\":\"io.weft.Monitor\",\"more\":true,\"parameters\":{\"interval_ms\":100}}\0")
        .expect("sent");
    // No calls at all.
    for bytes in [
        &b"hello\0"[..],
        b"\0",
        b"[[[[\0",
        b"{\"method\":\"io.weft.Status\",\"parameters\":7}\0",
        &[0xff; 100],
    ] {
        let mut stream = connect();
        stream.write_all(bytes).expect("sent");
        stream.shutdown(std::net::Shutdown::Write).expect("shut down");
        let mut answer = Vec::new();
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.read_to_end(&mut answer).expect("an answer or an end");
        let text = String::from_utf8_lossy(&answer);
        assert!(bytes[0] == 0xff || text.contains("no varlink call"), "{bytes:?}: {text}");
    }
    // A message without an end.
    let mut endless = connect();
    endless.set_write_timeout(Some(PATIENCE)).expect("set");
    let block = vec![b'x'; 1 << 20];
    let sent = (0..64).take_while(|_| endless.write_all(&block).is_ok()).count();
    assert!(sent < 32, "{sent} MiB were taken");
    assert_eq!(service.status()["generation"], 1);
    assert!(service.done(&["config"]).ends_with(POLICY));
    drop((half, deaf, watcher, endless));
    service.stop(daemon);
}

#[test]
fn the_interface_describes_itself() {
    if !privileged("the_interface_describes_itself") {
        return;
    }
    let service = Service::bare("");
    let daemon = service.start();
    let mut stream = UnixStream::connect(&service.socket).expect("connect");
    let calls = "{\"method\":\"org.varlink.service.GetInfo\"}\0{\"method\":\"org.varlink.service.GetInterfaceDescription\",\
        \"parameters\":{\"interface\":\"io.weft\"}}\0{\"method\":\"io.weft.Status\",\"oneway\":true}\0{\"method\":\"io.weft.Config\"}\0";
    stream.write_all(calls.as_bytes()).expect("sent");
    stream.shutdown(std::net::Shutdown::Write).expect("shut down");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answers");
    let answers: Vec<serde_json::Value> =
        text.split_terminator('\0').map(|answer| serde_json::from_str(answer).expect("JSON")).collect();
    assert_eq!(answers.len(), 3, "a call with oneway has no answer: {text}");
    assert_eq!(answers[0]["parameters"]["product"], "weft");
    assert_eq!(answers[1]["parameters"]["description"], weft_control::DEFINITION);
    assert_eq!(answers[2]["parameters"]["text"], POLICY);
    service.stop(daemon);
}

/// A client command as the user `nobody` of the group `nogroup`.
fn as_nobody(service: &Service, args: &[&str], groups: &str) -> common::Said {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", groups, "--clear-groups", "--inh-caps=-all", "--"]);
    command.arg(weft().get_program()).args(args).arg("--socket").arg(&service.socket);
    command.stdin(Stdio::null()).output().expect("setpriv").into()
}

#[test]
fn others_may_read_with_the_group_and_write_never() {
    let name = "others_may_read_with_the_group_and_write_never";
    if !privileged(name) || !has_program(name, "setpriv") {
        return;
    }
    let service = Service::bare("");
    let daemon = service.start();
    let outsider = as_nobody(&service, &["status"], "--regid=12345");
    assert!(outsider.code == 1 && outsider.err.contains("may not be opened"), "{}", outsider.err);
    let member = as_nobody(&service, &["status"], "--regid=65534");
    assert_eq!(member.code, 0, "{}", member.err);
    for (args, action) in [
        (&["policy", "load", service.config_policy()][..], "not permitted to load a policy: "),
        (&["policy", "restore"], "not permitted to restore the policy: "),
        (&["port", "add", "p1"], "not permitted to add port p1: "),
        (&["port", "remove", "weft0"], "not permitted to remove port weft0: "),
    ] {
        let said = as_nobody(&service, args, "--regid=65534");
        assert!(said.code == 1 && said.err.contains(action), "{args:?}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    }
    assert_eq!(as_nobody(&service, &["policy", "diff", service.config_policy()], "--regid=65534").code, 0);
    service.stop(daemon);
}

#[test]
fn without_rights_the_daemon_does_not_start() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let config = file(&folder, "weft.toml", format!("uplink = \"lo\"\npolicy = \"{policy}\"\n"));
    let said: common::Said =
        common::weft_without_rights().args(["daemon", "--config", &config]).output().expect("run").into();
    assert!(said.code == 1 && said.err.contains("CAP_NET_ADMIN"), "{}", said.err);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
}

#[test]
fn a_configuration_is_checked_without_rights() {
    let folder = tempfile::tempdir().expect("folder");
    file(&folder, "p.weft", POLICY);
    let check = |text: &str| -> common::Said {
        let config = file(&folder, "weft.toml", text);
        common::weft_without_rights()
            .args(["daemon", "--check", "--config", &config])
            .output()
            .expect("run")
            .into()
    };
    let good = check("uplink = \"lo\"\npolicy = \"p.weft\"\n[[ports]]\nname = \"weft0\"\n");
    assert!(good.code == 0 && good.out.contains("ports weft0") && good.out.contains("2 classes"), "{good:?}");
    let bad = check("uplink = \"lo\"\npolcy = \"p.weft\"\n");
    assert!(
        bad.code == 1 && bad.err.contains("weft.toml:2:1: error: unknown key `polcy` in the file"),
        "{}",
        bad.err
    );
    assert!(bad.err.contains("hint: did you mean `policy`?"), "{}", bad.err);
    let pass = check("uplink = \"lo\"\npolicy = \"p.weft\"\nhold = \"off\"\non-failure = \"pass\"\n");
    assert!(pass.code == 1 && pass.err.contains("use \"hold\""), "{}", pass.err);
    file(&folder, "p.weft", "root = nothing\n");
    let wrong = check("uplink = \"lo\"\npolicy = \"p.weft\"\n");
    assert!(wrong.code == 1 && wrong.err.contains("p.weft:1:8: error[E"), "{}", wrong.err);
}

#[test]
fn the_service_manager_is_told() {
    if !privileged("the_service_manager_is_told") {
        return;
    }
    let service = Service::bare("");
    let path = service.world.folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("bind");
    manager.set_read_timeout(Some(PATIENCE)).expect("set");
    let next = || {
        let mut bytes = [0; 4096];
        let length = manager.recv(&mut bytes).expect("a notice");
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };
    let mut command = service.command();
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000000");
    let daemon = common::Running(command.spawn().expect("start"));
    let until_one = |word: &str| {
        let found = (0..50).map(|_| next()).find(|text| text.starts_with(word));
        found.unwrap_or_else(|| panic!("no {word}"))
    };
    assert!(until_one("READY=1").contains("STATUS=policy "));
    // One comes within each second, but where the machine keeps the daemon or this test from running.
    until_one("WATCHDOG=1");
    let in_time = || {
        let begin = Instant::now();
        until_one("WATCHDOG=1");
        begin.elapsed() < Duration::from_secs(1)
    };
    let found = (0..30).filter(|_| in_time()).take(3).count();
    assert_eq!(found, 3, "notices that come in time");
    daemon.signal(Signal::HUP);
    assert!(until_one("RELOADING=1").contains("MONOTONIC_USEC="));
    until_one("READY=1");
    daemon.signal(Signal::TERM);
    until_one("STOPPING=1");
    assert_eq!(daemon.wait(PATIENCE).code, 0);
}

#[test]
fn a_socket_of_the_service_manager_is_used() {
    let name = "a_socket_of_the_service_manager_is_used";
    if !privileged(name) || !has_program(name, "systemd-socket-activate") {
        return;
    }
    let service = Service::bare("");
    let daemon = service.command();
    let mut command = Command::new("systemd-socket-activate");
    command
        .arg("--listen")
        .arg(&service.socket)
        .arg("--fdname=control")
        .arg(daemon.get_program())
        .args(daemon.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = common::Running(command.spawn().expect("start"));
    // The manager makes the socket's file before it listens, and refuses connections between the two.
    let mut client = None;
    let connected = || {
        client = Client::connect(&service.socket).ok();
        client.is_some()
    };
    assert!(until(PATIENCE, connected), "the manager does not listen");
    let mut client = client.expect("connected");
    assert_eq!(client.status().expect("the daemon answers").generation, 1);
    running.signal(Signal::TERM);
    assert_eq!(running.wait(PATIENCE).code, 0);
    assert!(service.socket.exists(), "the socket is the manager's");
}

#[test]
fn two_clients_watch_while_a_third_works() {
    if !privileged("two_clients_watch_while_a_third_works") {
        return;
    }
    let service = Service::bare("");
    let daemon = service.start();
    let mut watchers: Vec<Client> =
        (0..2).map(|_| Client::connect(&service.socket).expect("connect")).collect();
    watchers.iter_mut().for_each(|client| client.monitor(100).expect("sent"));
    let new = file(&service.world.folder, "new.weft", POLICY.replace("100mbps", "60mbps"));
    service.done(&["policy", "load", &new]);
    for client in &mut watchers {
        let seen = (0..50).map(|_| client.next_status().expect("a status").generation).find(|g| *g == 2);
        assert_eq!(seen, Some(2), "the change is seen");
    }
    service.stop(daemon);
    let ended = (0..50).map(|_| watchers[0].next_status()).find_map(Result::err);
    assert!(ended.is_some(), "the watchers end with the daemon");
}

/// The capabilities of the unit are enough, beside root's number: systemd bounds them in the same way.
#[test]
fn the_capabilities_of_the_unit_suffice() {
    let name = "the_capabilities_of_the_unit_suffice";
    if !privileged(name) || !has_program(name, "setpriv") {
        return;
    }
    let unit = format!("{}/../../packaging/systemd/weft.service", env!("CARGO_MANIFEST_DIR"));
    let unit = std::fs::read_to_string(unit).expect("the unit");
    let kept =
        unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).expect("a bounding set");
    let kept: String = kept.split(' ').map(|cap| cap.replace("CAP_", ",+").to_lowercase()).collect();
    let service = Service::new();
    let mut command = Command::new("setpriv");
    command.arg(format!("--bounding-set=-all{kept}")).args(["--inh-caps=-all", "--no-new-privs", "--"]);
    let daemon = service.command();
    command.arg(daemon.get_program()).args(daemon.get_args());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let running = common::Running(command.spawn().expect("start"));
    assert!(until(PATIENCE, || service.client(&["status"]).code == 0), "the daemon does not answer");
    wait_until_up(&service.world.app, "weft0");
    transfer(&service.world.app, &service.world.far, FAR);
    service.stop(running);
}

/// A `pkcheck` of the test's that allows, after a while.
fn allowing_pkcheck(service: &Service) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let folder = service.world.folder.path().join("bin");
    std::fs::create_dir(&folder).expect("folder");
    let script = folder.join("pkcheck");
    std::fs::write(&script, "#!/bin/sh\n: > \"$0.asked\"\nuntil [ -e \"$0.answer\" ]; do sleep 0.01; done\necho \"$@\" >> \"$0.log\"\n").expect("write");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("mode");
    folder
}

#[test]
fn polkit_may_allow_writing_to_others() {
    let name = "polkit_may_allow_writing_to_others";
    if !privileged(name) || !has_program(name, "setpriv") {
        return;
    }
    let service = Service::bare("");
    let folder = allowing_pkcheck(&service);
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = service.command();
    command.env("PATH", format!("{}:{path}", folder.display()));
    let daemon = common::Running(command.spawn().expect("start"));
    assert!(until(PATIENCE, || service.client(&["status"]).code == 0));
    let app = service.world.app.name().to_owned();
    std::thread::scope(|scope| {
        let added =
            scope.spawn(|| as_nobody(&service, &["port", "add", "p1", "--netns", &app], "--regid=65534"));
        assert!(until(PATIENCE, || folder.join("pkcheck.asked").exists()));
        // The daemon does not wait for polkit, which answers later.
        assert_eq!(service.status()["generation"], 1);
        std::fs::write(folder.join("pkcheck.answer"), "").expect("write");
        let added = added.join().expect("added");
        assert_eq!(added.code, 0, "{}", added.err);
    });
    assert_eq!(service.status()["ports"][0]["owner_uid"], 65_534);
    let log = std::fs::read_to_string(folder.join("pkcheck.log")).expect("the question");
    assert!(log.starts_with("--action-id io.weft.manage --process ") && log.contains(",65534 "), "{log}");
    let mut other = Command::new("setpriv");
    other.args(["--reuid=12345", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"]);
    other.arg(weft().get_program()).args(["port", "remove", "p1", "--socket"]).arg(&service.socket);
    let said: common::Said = other.output().expect("setpriv").into();
    assert!(said.code == 1 && said.err.contains("port p1 belongs to user 65534"), "{}", said.err);
    let own = as_nobody(&service, &["port", "remove", "p1"], "--regid=65534");
    assert_eq!(own.code, 0, "{}", own.err);
    service.stop(daemon);
}
