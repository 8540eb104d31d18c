//! `weft apply`, `weft remove` and `weft status --device` as a user runs them, on an interface of the test.

use crate::common::service::{PATIENCE, Service};
use crate::common::{Said, assert_fits, file, run, weft, weft_without_rights};
use rustix::process::Signal;
use serde_json::Value;
use std::net::IpAddr;
use std::net::UdpSocket;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use weft_host::NetNs;
use weft_host::bpf::tcx_egress;
use weft_host::link::{self, PathEnd, VethOptions};
use weft_host::tc::{Handle, Qdisc, QdiscFound, Tbf, TcDevice, TcObject, TcPlace};
use weft_host::testing::{privileged, unique, until};
use weft_run::kernel::KernelPath;
use weft_units::{BitsPerSec, Bytes};

const POLICY: &str = "link 100mbps\nclass web = tcp dport 443\nclass bulk = udp dport 9\n\
    root = priority { web, bulk.lim, default }\nbulk.lim = limit 20mbps of bulk\n";

struct World {
    host: NetNs,
    _far: NetNs,
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let [host, far] = ["apply", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
        let address = |text: &str| text.parse::<IpAddr>().expect("address");
        let ends = [
            PathEnd { ns: &host, link: "up0", address: address("10.99.0.1") },
            PathEnd { ns: &far, link: "far0", address: address("10.99.0.2") },
        ];
        link::create_path(ends, 24, &VethOptions::default()).expect("path");
        Self { host, _far: far, folder: TempDir::new().expect("a folder") }
    }

    fn policy(&self, text: &str) -> String {
        file(&self.folder, "p.weft", text)
    }

    fn at(&self, args: &[&str]) -> Said {
        run(&[args, &["--netns", self.host.name()]].concat())
    }

    fn apply(&self, policy: &str, more: &[&str]) -> Said {
        self.at(&[&["apply", policy, "--device", "up0"], more].concat())
    }

    fn done(said: &Said) -> &Said {
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
        said
    }

    fn status(&self) -> Value {
        let said = self.at(&["status", "--device", "up0", "--window", "50ms", "--json", "-"]);
        serde_json::from_str(&Self::done(&said).out).expect("only JSON on standard output")
    }

    fn qdiscs(&self) -> Vec<(TcPlace, String)> {
        let found: Vec<QdiscFound> =
            TcDevice::open(&self.host, "up0").expect("device").qdiscs().expect("read");
        found.into_iter().map(|one| (one.place, one.kind)).collect()
    }

    /// The programs at the egress, as kernels with tcx have them.
    fn programs(&self) -> usize {
        let index = link::index(&self.host, "up0").expect("a device");
        self.host.run(|| tcx_egress(index)).expect("enter").expect("read").len()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.at(&["remove", "up0"]);
    }
}

#[test]
fn a_policy_is_applied_shown_changed_and_removed() {
    if !privileged("a_policy_is_applied_shown_changed_and_removed") {
        return;
    }
    let world = World::new();
    let (policy, before) = (world.policy(POLICY), world.qdiscs());
    let said = world.apply(&policy, &["--dry-run"]);
    let planned = &World::done(&said).out;
    for line in ["tc qdisc add dev up0 root handle 7e57: htb", "weft_classify", "tc class add dev up0"] {
        assert!(planned.contains(line), "{line}: {planned}");
    }
    assert_eq!(world.qdiscs(), before);
    let said = world.apply(&policy, &["--json", "-"]);
    let report: Value = serde_json::from_str(&World::done(&said).out).expect("JSON");
    assert_fits(&report, "weft-apply");
    assert_eq!((report["action"].as_str(), report["generation"].as_u64()), (Some("applied"), Some(1)));
    let socket = world.host.run(|| UdpSocket::bind("10.99.0.1:0")).expect("enter").expect("bind");
    for _ in 0..7 {
        socket.send_to(&[0; 200], "10.99.0.2:9").expect("sent");
    }
    let counted = |status: &Value| {
        let classes = status["classes"].as_array().cloned().unwrap_or_default();
        classes
            .iter()
            .find(|class| class["class"] == "bulk")
            .map_or(0, |class| class["packets"].as_u64().unwrap_or(0))
    };
    assert!(until(Duration::from_secs(5), || counted(&world.status()) == 7), "{}", world.status());
    let status = world.status();
    assert_fits(&status, "weft-status");
    assert_eq!(
        (status["uplink"]["backend"].as_str(), status["generation"].as_u64()),
        (Some("kernel"), Some(1))
    );
    // A change in place keeps the counters.
    let changed = world.policy(&POLICY.replace("20mbps", "30mbps"));
    let said = world.apply(&changed, &[]);
    assert!(World::done(&said).err.contains("(changed)"), "{}", said.err);
    let status = world.status();
    assert_eq!((counted(&status), status["generation"].as_u64()), (7, Some(2)));
    assert_eq!(status["limits"][0]["limit_bps"].as_f64(), Some(30e6));
    let table = world.at(&["status", "--device", "up0", "--window", "50ms"]);
    let table = &World::done(&table).out;
    assert!(
        table.contains("in the kernel") && !table.contains("WARNING") && !table.contains("Ports"),
        "{table}"
    );
    let top = world.at(&["top", "--device", "up0", "--plain", "--count", "1", "--interval", "50ms"]);
    assert!(World::done(&top).out.contains("class bulk"), "{}", top.out);
    let explained =
        world.at(&["policy", "explain", "--device", "up0", "--packet", "udp 10.99.0.1:1 > 10.99.0.2:9"]);
    assert!(World::done(&explained).out.contains("bulk"), "{}", explained.out);
    let removed = world.at(&["remove", "up0"]);
    assert!(World::done(&removed).err.contains("former qdisc"), "{}", removed.err);
    assert_eq!((world.qdiscs(), world.programs()), (before, 0));
    let again = world.at(&["status", "--device", "up0"]);
    assert!(again.code == 1 && again.err.contains("no policy is in the kernel at up0"), "{}", again.err);
}

#[test]
fn what_the_kernel_does_not_keep_is_said_before_anything_is_made() {
    let name = "what_the_kernel_does_not_keep_is_said_before_anything_is_made";
    if !privileged(name) {
        return;
    }
    let world = World::new();
    let (policy, before) =
        (world.policy("link 10mbps\nclass a = udp\nroot = edf { a, default }\n"), world.qdiscs());
    let said = world.apply(&policy, &[]);
    assert!(said.code == 1 && said.err.contains("p.weft:3:") && said.err.contains("edf"), "{}", said.err);
    let said = world.apply(&policy, &["--check"]);
    assert!(said.code == 1 && said.out.contains("algorithm edf"), "{}{}", said.out, said.err);
    assert_eq!(world.qdiscs(), before);
    let said = world.apply(&policy, &["--accept-less"]);
    assert!(World::done(&said).err.contains("not kept: algorithm edf"), "{}", said.err);
}

#[test]
fn bad_input_is_a_line_and_changes_nothing() {
    if !privileged("bad_input_is_a_line_and_changes_nothing") {
        return;
    }
    let world = World::new();
    let (policy, before) = (world.policy(POLICY), world.qdiscs());
    let unrated = file(&world.folder, "unrated.weft", POLICY.replace("link 100mbps\n", ""));
    for (args, words) in [
        (["apply", policy.as_str(), "--device", "lo"], "lo (loopback) carries no Ethernet frames"),
        (["apply", policy.as_str(), "--device", "absent0"], "absent0"),
        (["apply", policy.as_str(), "--device", "up%d"], "up%d"),
        (["apply", unrated.as_str(), "--device", "up0"], "the rate of the link is unknown"),
    ] {
        let said = world.at(&args);
        let lines = said.err.lines().filter(|line| !line.starts_with("note:")).count();
        assert!(said.code == 1 && said.err.contains(words) && lines == 1, "{args:?}: {}", said.err);
    }
    assert_eq!((world.qdiscs(), world.programs()), (before, 0));
    // A root with classes of another program is not replaced silently.
    let tc = ["qdisc", "add", "dev", "up0", "root", "handle", "5:", "htb"];
    let status = std::process::Command::new("tc").args(["-n", world.host.name()]).args(tc).status();
    assert!(status.expect("tc runs").success());
    let said = world.apply(&policy, &[]);
    assert!(said.code == 1 && said.err.contains("htb 5:") && said.err.contains("--replace"), "{}", said.err);
    World::done(&world.apply(&policy, &["--replace"]));
}

#[test]
fn the_doctor_says_whether_an_interface_is_fit_and_who_uses_it() {
    if !privileged("the_doctor_says_whether_an_interface_is_fit_and_who_uses_it") {
        return;
    }
    let world = World::new();
    let said = world.at(&["doctor", "up0"]);
    let text = &World::done(&said).out;
    assert!(text.starts_with("up0 can have a policy in the kernel, with "), "{text}");
    let state = |id: &str| {
        let said = world.at(&["doctor", "up0", "--json", "-"]);
        let report: Value = serde_json::from_str(&World::done(&said).out).expect("JSON");
        assert_fits(&report, "weft-doctor");
        let all = report["facilities"].as_array().cloned().unwrap_or_default();
        let found = all.into_iter().find(|f| f["id"] == id).expect(id);
        (
            found["state"].as_str().unwrap_or_default().to_owned(),
            found["detail"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(state("device.others").0, "ready");
    let tc = |args: &str| {
        let args = args.split(' ');
        let status = std::process::Command::new("tc").args(["-n", world.host.name()]).args(args).status();
        assert!(status.expect("tc runs").success());
    };
    tc("qdisc add dev up0 root handle 5: htb");
    tc("qdisc add dev up0 clsact");
    tc("filter add dev up0 egress prio 9 u32 match u32 0 0 flowid 1:1");
    let (root, others) = (state("device.root"), state("device.others"));
    assert!(root.0 == "limited" && root.1.contains("htb 5:"), "{root:?}");
    assert!(others.0 == "limited" && others.1.contains("a filter u32"), "{others:?}");
    let lo = world.at(&["doctor", "lo"]);
    assert!(World::done(&lo).out.starts_with("lo cannot have a policy"), "{}", lo.out);
}

#[test]
fn without_rights_the_command_says_what_it_needs() {
    let folder = TempDir::new().expect("a folder");
    let policy = file(&folder, "p.weft", POLICY);
    let said = weft_without_rights().args(["apply", &policy, "--device", "up0"]).output().expect("runs");
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.code() == Some(1) && text.contains("CAP_NET_ADMIN"), "{text}");
}

#[test]
fn a_killed_apply_leaves_the_device_as_it_was_or_as_it_should_be() {
    if !privileged("a_killed_apply_leaves_the_device_as_it_was_or_as_it_should_be") {
        return;
    }
    let world = World::new();
    let policy = world.policy(POLICY);
    let tbf = Tbf { rate: BitsPerSec(8_000_000), overhead: 24, burst: Bytes(10_000), limit: Bytes(100_000) };
    TcDevice::open(&world.host, "up0")
        .expect("device")
        .add(&TcObject::root(Handle::qdisc(0x42), Qdisc::Tbf(tbf)))
        .expect("a root");
    let before = world.qdiscs();
    // How long an apply takes here, so that the moments are spread over it.
    let begin = Instant::now();
    World::done(&world.apply(&policy, &[]));
    let whole = begin.elapsed();
    let applied = world.qdiscs();
    World::done(&world.at(&["remove", "up0"]));
    let rounds = if std::env::var_os("WEFT_LONG").is_some() { 200 } else { 20 };
    for round in 0..rounds {
        let mut child = weft()
            .args(["apply", &policy, "--device", "up0", "--netns", world.host.name()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start weft");
        std::thread::sleep(whole * round / rounds);
        let _ = child.kill();
        let _ = child.wait();
        // The process beside it undoes what was begun.
        let settled = until(Duration::from_secs(20), || {
            let record = KernelPath::all(Some(&world.host)).expect("records").pop();
            let (now, programs) = (world.qdiscs(), world.programs());
            match record {
                None => now == before && programs == 0,
                Some(record) => record.is_complete() && now == applied && programs == 1,
            }
        });
        assert!(settled, "round {round}: {:?}, {} programs", world.qdiscs(), world.programs());
        if world.qdiscs() == applied {
            World::done(&world.at(&["remove", "up0"]));
        }
        assert_eq!((world.qdiscs(), world.programs()), (before.clone(), 0), "round {round}");
    }
}

#[test]
fn a_killed_change_leaves_one_of_the_two_policies_whole() {
    if !privileged("a_killed_change_leaves_one_of_the_two_policies_whole") {
        return;
    }
    let world = World::new();
    let classes = |count: u32| {
        let class = |n: u32| format!("class c{n} = udp dport {}\n", 100 + n);
        let names: String = (0..count).map(|n| format!("c{n}: {}, ", n + 1)).collect();
        let text: String = (0..count).map(class).collect();
        file(
            &world.folder,
            &format!("{count}.weft"),
            format!("link 100mbps\n{text}root = wfq {{ {names}default: 1 }}\n"),
        )
    };
    let policies = [classes(20), classes(40)];
    let begin = Instant::now();
    World::done(&world.apply(&policies[0], &[]));
    let first = world.qdiscs();
    World::done(&world.apply(&policies[1], &[]));
    let (whole, second) = (begin.elapsed() / 2, world.qdiscs());
    let rounds = if std::env::var_os("WEFT_LONG").is_some() { 200 } else { 20 };
    for round in 0..rounds {
        let to = &policies[round as usize % 2];
        let mut child = weft()
            .args(["apply", to, "--device", "up0", "--netns", world.host.name()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start weft");
        std::thread::sleep(whole * (round % 10 + 1) / 10);
        let _ = child.kill();
        let _ = child.wait();
        let settled = until(Duration::from_secs(20), || {
            let record =
                KernelPath::all(Some(&world.host)).expect("records").pop().expect("a policy is in force");
            let tree = if record.policy.text.contains("c39") { &second } else { &first };
            record.is_complete() && same(&world.qdiscs(), tree) && world.programs() == 1
        });
        assert!(settled, "round {round}: {:?}", world.qdiscs());
    }
}

/// Whether two devices have the same qdiscs, in whatever order.
fn same(a: &[(TcPlace, String)], b: &[(TcPlace, String)]) -> bool {
    a.len() == b.len() && a.iter().all(|one| b.contains(one))
}

#[test]
fn a_policy_that_is_not_confirmed_is_taken_back() {
    if !privileged("a_policy_that_is_not_confirmed_is_taken_back") {
        return;
    }
    let world = World::new();
    let (policy, before) = (world.policy(POLICY), world.qdiscs());
    let said = world.apply(&policy, &["--confirm", "300ms"]);
    assert!(
        said.code == 1 && said.err.contains("not confirmed in time: up0 is as it was before"),
        "{}",
        said.err
    );
    assert_eq!((world.qdiscs(), world.programs()), (before, 0));
    let slow = world.policy(&POLICY.replace("100mbps", "500kbps").replace("20mbps", "100kbps"));
    let refused = weft()
        .args(["apply", &slow, "--device", "up0", "--netns", world.host.name()])
        .env("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && text.contains("--confirm 60s"), "{text}");
}

/// A policy that each kernel keeps, with a limit of bulk.
fn kept(limit: &str) -> String {
    format!(
        "link 100mbps\nclass bulk = udp dport 9\nroot = priority {{ bulk.lim, default }}\nbulk.lim = limit {limit} of bulk\n"
    )
}

#[test]
fn a_daemon_keeps_a_policy_in_the_kernel_and_its_end_changes_nothing() {
    let name = "a_daemon_keeps_a_policy_in_the_kernel_and_its_end_changes_nothing";
    if !privileged(name) {
        return;
    }
    let service = Service::bare("backend = \"kernel\"\n");
    let netns = service.world.host.name();
    let _removed = RemovedAtEnd(netns);
    file(&service.world.folder, "p.weft", kept("20mbps"));
    let mut running = service.start();
    let status = service.status();
    assert_fits(&status, "weft-status");
    assert_eq!(status["uplink"]["backend"].as_str(), Some("kernel"));
    let refused = service.refused(&["port", "add", "p0", "--netns", service.world.app.name()]);
    assert!(refused.contains("without ports"), "{refused}");
    let other = file(&service.world.folder, "q.weft", kept("30mbps"));
    assert!(service.done(&["policy", "diff", &other]).contains("change 7e57:"), "a class changes");
    service.done(&["policy", "load", &other]);
    let rate = || {
        let said = run(&["status", "--device", "up0", "--netns", netns, "--window", "10ms", "--json", "-"]);
        let status: Value = serde_json::from_str(&said.out).unwrap_or_default();
        status["limits"][0]["limit_bps"].as_f64()
    };
    assert_eq!(rate(), Some(30e6));
    // Not even a sudden end changes anything.
    running.0.kill().expect("kill");
    running.0.wait().expect("end");
    assert_eq!(rate(), Some(30e6));
    // The next daemon has the policy of its configuration, and changes to it in place.
    let running = service.start();
    assert_eq!(rate(), Some(20e6));
    running.signal(Signal::TERM);
    assert_eq!(running.wait(PATIENCE).code, 0);
    assert_eq!(rate(), Some(20e6), "it stays when the daemon is stopped");
}

#[test]
fn a_policy_that_the_kernel_does_not_keep_is_for_ports() {
    let name = "a_policy_that_the_kernel_does_not_keep_is_for_ports";
    if !privileged(name) {
        return;
    }
    let service = Service::bare("backend = \"auto\"\n");
    let text = "link 100mbps\nclass web = tcp port 5201\nroot = edf { web, default }\n";
    file(&service.world.folder, "p.weft", text);
    let running = service.start_with_log();
    service.wait_for_line("by ports, since the kernel does not keep the policy: algorithm edf");
    assert_eq!(service.status()["uplink"]["backend"].as_str(), Some("port"));
    service.stop(running);
}

/// Takes the policy away, whatever the test has left.
struct RemovedAtEnd<'a>(&'a str);

impl Drop for RemovedAtEnd<'_> {
    fn drop(&mut self) {
        let _ = run(&["remove", "up0", "--netns", self.0]);
    }
}
