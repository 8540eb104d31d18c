//! Files of tenants at a running daemon: under load, over its end, and by users to whom cgroups are delegated.

use crate::common;
use crate::common::flows::Flows;
use crate::common::service::{PATIENCE, Service};
use crate::common::world::{FAR, wait_until_up};
use crate::common::{Said, assert_head, file, until, weft};
use crate::schema;
use rustix::process::{Gid, Signal, Uid};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_host::testing::{has_program, privileged, unique};
use weft_host::{Cgroup, Hierarchy};

/// The ports of datagrams: of a class that never changes, and of the tenant.
const STEADY: u16 = 5202;
const TENANT: u16 = 5203;
const FILE: &str = "class small = udp and dport 5203\nroot = priority { fair of small }\n";
const BROKEN: &str = "class small = udp\nroot = priorty { small }\n";
/// A user without rights, and its group, which may open the test's sockets.
const USER: u32 = 65_534;

/// A policy with the tenant `vm1` of `condition`.
fn policy(condition: &str) -> String {
    format!(
        "link 100mbps\nclass web = tcp port 5201\nclass steady = udp and dport {STEADY}\n\
         vm1 = tenant \"vm1.weft\" of {condition} {{ classes 2 }}\n\
         root = wfq {{ fair of web: 4, fair of steady: 2, vm1: 2, default: 1 }}\n"
    )
}

impl Service {
    /// A running port under a policy with the tenant `vm1` of `condition`.
    fn with_tenant(condition: &str) -> Self {
        let service = Self::new();
        file(&service.world.folder, "p.weft", policy(condition));
        file(&service.world.folder, "file.weft", FILE);
        file(&service.world.folder, "other.weft", FILE.replace("small", "other"));
        file(&service.world.folder, "broken.weft", BROKEN);
        service
    }

    fn path(&self, name: &str) -> String {
        self.world.folder.path().join(name).display().to_string()
    }

    /// The tenants of the status, in words.
    fn tenants(&self) -> String {
        let status = self.status();
        let tenant = |of: &serde_json::Value| {
            let file = of["file"].as_str().map_or("FIFO", |file| file.rsplit('/').next().unwrap_or_default());
            format!(
                "{} {file} {}",
                of["tenant"].as_str().unwrap_or_default(),
                of["origin"].as_str().unwrap_or_default()
            )
        };
        status["tenants"].as_array().expect("tenants").iter().map(tenant).collect::<Vec<_>>().join(", ")
    }
}

/// Sends numbered datagrams to `port` every two milliseconds while `act` runs. Returns how many left, how many arrived, and how many of
/// these were overtaken.
fn numbered(service: &Service, port: u16, act: impl FnOnce()) -> (u64, u64, u64) {
    let at = SocketAddr::new(FAR, port);
    let receiver = service.world.far.run(|| UdpSocket::bind(at)).expect("enter").expect("bind");
    receiver.set_read_timeout(Some(Duration::from_millis(500))).expect("timeout");
    let sender =
        service.world.app.run(|| UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))).expect("enter").expect("bind");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sent = scope.spawn(|| {
            let mut number = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let mut datagram = [0; 600];
                datagram[..8].copy_from_slice(&number.to_be_bytes());
                number += u64::from(sender.send_to(&datagram, at).is_ok());
                std::thread::sleep(Duration::from_millis(2));
            }
            number
        });
        let arrived = scope.spawn(|| {
            let (mut count, mut overtaken, mut next, mut buffer) = (0, 0, 0, [0; 600]);
            loop {
                match receiver.recv(&mut buffer) {
                    Ok(_) => {
                        let number = buffer[..8].try_into().map_or(0, u64::from_be_bytes);
                        count += 1;
                        overtaken += u64::from(number < next);
                        next = next.max(number + 1);
                    }
                    Err(_) if stop.load(Ordering::Relaxed) => return (count, overtaken),
                    Err(_) => {}
                }
            }
        });
        act();
        stop.store(true, Ordering::Relaxed);
        let (count, overtaken) = arrived.join().expect("received");
        (sent.join().expect("sent"), count, overtaken)
    })
}

#[test]
fn files_come_and_go_under_load() {
    if !privileged("files_come_and_go_under_load") {
        return;
    }
    let service = Service::with_tenant(&format!("udp and dport {TENANT}"));
    let daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    let flows = Flows::start(&service.world, 6);
    let [first, other, broken] = ["file.weft", "other.weft", "broken.weft"].map(|name| service.path(name));
    let changes = || {
        let told = service.done(&["tenant", "attach", "vm1", &first]);
        assert!(told.contains("tenant vm1 has ") && told.contains("generation 2 is in force"), "{told}");
        let said = service.client(&["tenant", "replace", "vm1", &broken]);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains("broken.weft:2:8: error[E0001]"), "{}", said.err);
        assert!(said.err.ends_with(&format!("tenant vm1 keeps {first}\n")), "{}", said.err);
        service.done(&["tenant", "replace", "vm1", &other, "--generation", "2"]);
        service.done(&["tenant", "replace", "vm1", &first]);
        service.done(&["tenant", "detach", "vm1"]);
        service.done(&["tenant", "attach", "vm1", &other]);
    };
    let mut of_tenant = (0, 0, 0);
    let steady = numbered(&service, STEADY, || of_tenant = numbered(&service, TENANT, changes));
    assert!(steady.0 > 100 && steady.0 == steady.1, "of others nothing is lost: {steady:?}");
    assert_eq!((steady.2, of_tenant.2), (0, 0), "nothing is overtaken");
    assert_eq!(of_tenant.0, of_tenant.1, "of the tenant neither");
    flows.assert_all_go_on();
    let status = service.status();
    assert_eq!((&status["generation"], service.tenants().as_str()), (&6.into(), "vm1 other.weft attached"));
    assert!(status["tenants"][0]["refusal"].is_null(), "a later file was accepted");
    let said: serde_json::Value =
        serde_json::from_str(&service.done(&["tenant", "list", "--json", "-"])).expect("JSON");
    assert_head(&said, "weft-tenants/1");
    for (document, name) in [(&said, "weft-tenants"), (&status, "weft-status")] {
        let path = format!("{}/../../docs/schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(schema::errors(&common::json(path), document), Vec::<String>::new(), "{name}");
    }
    let table = service.done(&["tenant", "list"]);
    assert!(table.contains("(attached by user 0)") && table.contains("classes 1 of 2"), "{table}");
    let config = service.done(&["config"]);
    assert!(config.contains("; attached by user 0\n#   class other = udp"), "{config}");
    drop(flows);
    service.stop(daemon);
}

#[test]
fn what_is_attached_outlives_the_daemon() {
    if !privileged("what_is_attached_outlives_the_daemon") {
        return;
    }
    let service = Service::with_tenant(&format!("udp and dport {TENANT}"));
    let mut daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    // Numbers of classes that no policy alone would have.
    for name in ["file.weft", "other.weft", "file.weft"] {
        let action = if service.tenants().contains("FIFO") { "attach" } else { "replace" };
        service.done(&["tenant", action, "vm1", &service.path(name)]);
    }
    let before = service.status();
    for signal in [Signal::KILL, Signal::USR2] {
        daemon.signal(signal);
        daemon.wait(PATIENCE);
        daemon = service.start();
        let after = service.status();
        assert_eq!((&after["generation"], &after["tenants"]), (&before["generation"], &before["tenants"]));
        assert_eq!(after["ports"][0]["port"], "weft0");
    }
    let (sent, arrived, _) = numbered(&service, TENANT, || std::thread::sleep(Duration::from_millis(300)));
    assert_eq!(sent, arrived);
    // The operator's file does not disturb it, broken or not.
    file(&service.world.folder, "vm1.weft", BROKEN);
    file(&service.world.folder, "p.weft", policy("udp and dport 5203").replace("vm1: 2", "vm1: 3"));
    daemon.signal(Signal::HUP);
    assert!(until(PATIENCE, || service.status()["generation"] == 5), "{}", service.status());
    assert_eq!(service.tenants(), "vm1 file.weft attached");
    service.stop(daemon);
}

/// Runs `act` as a thread of user `uid`, in the group that may open the test's sockets.
fn as_user<T: Send>(uid: u32, act: impl FnOnce() -> T + Send) -> T {
    let thread = || {
        let (group, user) = (Gid::from_raw(USER), Uid::from_raw(uid));
        rustix::thread::set_thread_groups(&[]).expect("groups");
        rustix::thread::set_thread_res_gid(group, group, group).expect("a group");
        rustix::thread::set_thread_res_uid(user, user, user).expect("a user");
        act()
    };
    std::thread::scope(|scope| scope.spawn(thread).join().expect("the thread"))
}

/// A client command as the user `uid`.
fn client_as(service: &Service, uid: u32, args: &[&str]) -> Said {
    let mut command = Command::new("setpriv");
    command.args([&format!("--reuid={uid}"), "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"]);
    command.arg(weft().get_program()).args(args).arg("--socket").arg(&service.socket);
    command.stdin(Stdio::null()).output().expect("setpriv").into()
}

/// Delegates a cgroup as systemd does.
fn delegate(cgroup: &Cgroup, uid: u32) {
    for path in [cgroup.path().to_owned(), cgroup.path().join("cgroup.procs")] {
        std::os::unix::fs::chown(path, Some(uid), None).expect("chown");
    }
}

/// The memory of a process, in kB.
fn resident_kb(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the status");
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_user_changes_the_tenant_of_a_delegated_cgroup() {
    let name = "a_user_changes_the_tenant_of_a_delegated_cgroup";
    if !privileged(name) || !has_program(name, "setpriv") {
        return;
    }
    let cgroup = Hierarchy::detect().expect("cgroup2").create(&unique("vm1")).expect("a cgroup");
    let path = format!("/{}", cgroup.path().file_name().expect("a name").to_string_lossy());
    let service = Service::with_tenant(&format!("cgroup \"{path}\""));
    let second = policy(&format!("cgroup \"{path}\"")).replace("default: 1", "vm2: 1, default: 1");
    file(&service.world.folder, "p.weft", second + "vm2 = tenant \"vm2.weft\" of cgroup \"/weft-none\"\n");
    let daemon = service.start();
    let (first, other, broken) =
        (service.path("file.weft"), service.path("other.weft"), service.path("broken.weft"));
    let user = |args: &[&str]| client_as(&service, USER, args);
    let refused = user(&["tenant", "attach", "vm1", &first]);
    let reason = format!("its cgroup {path} belongs to user 0, not to {USER}");
    assert!(refused.code == 1 && refused.err.contains(&reason), "{}", refused.err);
    assert_eq!(refused.err.lines().count(), 1, "{}", refused.err);
    delegate(&cgroup, USER);
    let done = user(&["tenant", "attach", "vm1", &first]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert_eq!(service.status()["tenants"][0]["owner_uid"], USER);
    assert_eq!(user(&["tenant", "replace", "vm1", &broken]).code, 1);
    assert_eq!(user(&["tenant", "replace", "vm1", &other]).code, 0);
    for (uid, args) in [
        (USER, &["tenant", "attach", "vm2", &first][..]),
        (12_345, &["tenant", "replace", "vm1", &first]),
        (12_345, &["tenant", "detach", "vm1"]),
        (USER, &["policy", "restore"]),
    ] {
        let said = client_as(&service, uid, args);
        assert!(said.code == 1 && said.err.contains("not permitted to "), "{args:?}: {}", said.err);
    }
    let three = "class a = tcp\nclass b = udp\nclass c = icmp\nroot = priority { a, b, c }\n";
    let over = user(&["tenant", "replace", "vm1", &file(&service.world.folder, "three.weft", three)]);
    assert!(
        over.err.contains("the quota of `vm1` is `classes 2`, and its file uses 3 classes"),
        "{}",
        over.err
    );
    assert_eq!(service.tenants(), "vm1 other.weft attached, vm2 FIFO policy");
    assert_eq!(user(&["tenant", "detach", "vm1"]).code, 0);
    service.stop(daemon);
}

#[test]
fn a_user_s_floods_end_in_refusals() {
    let name = "a_user_s_floods_end_in_refusals";
    if !privileged(name) || !has_program(name, "setpriv") {
        return;
    }
    let cgroup = Hierarchy::detect().expect("cgroup2").create(&unique("vm1")).expect("a cgroup");
    let path = format!("/{}", cgroup.path().file_name().expect("a name").to_string_lossy());
    delegate(&cgroup, USER);
    let service = Service::with_tenant(&format!("cgroup \"{path}\""));
    let daemon = service.start();
    let pid = daemon.0.id();
    // 16 MiB are more than any call may have, 8 MiB than one of a user, and a little less is more than a user's file may have.
    for (bytes, expected) in [(16 << 20, "at most"), (8 << 20, "at most"), (512 << 10, "for a user's file")] {
        let long = file(&service.world.folder, "long.weft", vec![b'#'; bytes]);
        let said = client_as(&service, USER, &["tenant", "attach", "vm1", &long]);
        assert!(said.code == 1 && said.err.contains(expected), "{}", said.err);
    }
    let before = resident_kb(pid);
    let mut stream = as_user(USER, || UnixStream::connect(&service.socket).expect("connect"));
    stream.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let call = |action: &str| {
        let text = FILE.replace('\n', "\\n");
        format!(
            "{{\"method\":\"io.weft.{action}Tenant\",\"parameters\":{{\"tenant\":\"vm1\",\"name\":\"n\",\"text\":\"{text}\"}}}}\0"
        )
    };
    let flood = [call("Attach"), call("Replace")].concat().repeat(400);
    let mut reader = stream.try_clone().expect("clone");
    let answers = std::thread::scope(|scope| {
        let answers = scope.spawn(move || {
            let mut text = String::new();
            reader.read_to_string(&mut text).expect("answers");
            text
        });
        stream.write_all(flood.as_bytes()).expect("sent");
        // Others are served meanwhile.
        assert_eq!(service.status()["worker"], "running");
        stream.shutdown(std::net::Shutdown::Write).expect("shut down");
        answers.join().expect("answers")
    });
    let answers: Vec<&str> = answers.split_terminator('\0').collect();
    let busy = answers.iter().filter(|answer| answer.contains("io.weft.Busy")).count();
    assert_eq!(answers.len(), 800);
    assert!(busy > 400 && answers.iter().any(|answer| !answer.contains("io.weft.Busy")), "{busy}");
    let after = resident_kb(pid);
    assert!(after < before + (64 << 10), "{before} kB before and {after} kB after");
    // Administrators are not bound.
    assert_eq!(service.done(&["tenant", "list"]).matches("vm1").count(), 1);
    service.done(&["tenant", "replace", "vm1", &service.path("other.weft")]);
    service.stop(daemon);
}
