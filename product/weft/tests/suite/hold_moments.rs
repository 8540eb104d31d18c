//! A daemon that is killed at random moments of its start, its changes and its end leaves nothing behind after the next
//! start and stop. `WEFT_MOMENTS` is the number of moments; the full test has 200.

use crate::common;
use crate::common::service::{PATIENCE, Service};
use crate::common::world::{FAR, POLICY, transfer};
use crate::common::{file, until, weft};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;
use weft_host::bpf::programs_named;
use weft_host::link;
use weft_host::tc::{self, Handle};
use weft_host::testing::privileged;

/// The number of moments without `WEFT_MOMENTS`.
const MOMENTS: usize = 16;

/// A generator of pseudorandom numbers (Knuth's MMIX) with a fixed seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn pause(&mut self, most_ms: u64) {
        std::thread::sleep(Duration::from_micros(self.below(most_ms * 1000)));
    }
}

/// Numbers behind `key` in the descriptors' descriptions of all processes.
fn held(key: &str) -> BTreeSet<u32> {
    let mut held = BTreeSet::new();
    for process in std::fs::read_dir("/proc").expect("proc").flatten() {
        let Ok(descriptors) = std::fs::read_dir(process.path().join("fdinfo")) else { continue };
        for descriptor in descriptors.flatten() {
            let text = std::fs::read_to_string(descriptor.path()).unwrap_or_default();
            held.extend(text.lines().filter_map(|line| line.strip_prefix(key)?.trim().parse::<u32>().ok()));
        }
    }
    held
}

/// The programs at ports that no process holds: they are at devices that no process will remove.
fn orphans() -> BTreeSet<u32> {
    // Not weft_receive: at a device that only transmits, the filter alone holds it.
    let names = ["weft_egress", "weft_peer_ingre"];
    let there: BTreeSet<u32> = names.into_iter().flat_map(programs_named).collect();
    let held = held("prog_id:");
    there.into_iter().filter(|program| !held.contains(program)).collect()
}

/// Processes whose arguments, and UNIX sockets whose paths, are in the folder of the test.
fn in_use(service: &Service) -> Vec<String> {
    let folder = service.world.folder.path().display().to_string();
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").expect("proc").flatten() {
        let arguments = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        if arguments.contains(&folder) {
            found.push(arguments);
        }
    }
    let sockets = std::fs::read_to_string("/proc/net/unix").expect("sockets");
    found.extend(sockets.lines().filter(|line| line.contains(&folder)).map(str::to_owned));
    found
}

/// The files of the folder, and the links and filters of the namespaces.
fn inventory(service: &Service) -> Vec<String> {
    let world = &service.world;
    let files = std::fs::read_dir(world.folder.path()).expect("folder").flatten();
    let mut found: Vec<String> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    for (role, ns) in [("app", &world.app), ("host", &world.host), ("far", &world.far)] {
        for link in link::list(ns).expect("links") {
            let filters = tc::filters(ns, &link.name, Handle::EGRESS).expect("filters").len();
            found.push(format!("{role} {} with {filters} filters", link.name));
        }
    }
    found.sort();
    found
}

/// Starts a daemon, changes it, ends it, and kills it within one of these steps.
fn one_moment(service: &Service, random: &mut Random) -> String {
    let spawn = || common::Running(service.command().stderr(Stdio::null()).spawn().expect("start weft"));
    let kind = random.below(4);
    let daemon = if kind == 0 { spawn() } else { service.start() };
    match kind {
        0 => random.pause(120),
        1 => {
            let host = service.world.host.name();
            let policy = service.world.folder.path().join("new.weft").display().to_string();
            let mut clients = Vec::new();
            for arguments in [
                &["policy", "load", &policy][..],
                &["port", "add", "extra", "--netns", host],
                &["port", "remove", "extra"],
                &["policy", "restore"],
            ] {
                let socket = service.socket.to_str().expect("UTF-8");
                let mut client = weft();
                client.args(arguments).args(["--socket", socket]);
                clients.push(client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("client"));
                random.pause(60);
            }
            daemon.signal(Signal::KILL);
            clients.into_iter().for_each(|mut client| _ = client.wait());
        }
        2 => {
            daemon.signal(Signal::TERM);
            random.pause(60);
        }
        _ => {
            daemon.signal(if random.below(2) == 0 { Signal::INT } else { Signal::USR2 });
            random.pause(60);
        }
    }
    // A daemon that ended by itself is waited for all the same.
    let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&daemon.0), Signal::KILL);
    daemon.wait(PATIENCE);
    ["start", "change", "stop", "interrupt or hand-over"][kind as usize].to_owned()
}

#[test]
fn a_daemon_killed_at_any_moment_leaves_nothing_behind() {
    if !privileged("a_daemon_killed_at_any_moment_leaves_nothing_behind") {
        return;
    }
    let moments = std::env::var("WEFT_MOMENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(MOMENTS);
    let service = Service::new();
    file(
        &service.world.folder,
        "new.weft",
        POLICY
            .replace("class web", "class other = udp port 9\nclass web")
            .replace("default: 1", "default: 1, other: 2"),
    );
    let (before, orphans_before) = (inventory(&service), orphans());
    let mut random = Random(2026);
    for moment in 0..moments {
        let kind = one_moment(&service, &mut random);
        // The next start finds a world that it can work in.
        if moment % 8 == 7 || moment + 1 == moments {
            let daemon = service.start();
            let up = || link::show(&service.world.app, "weft0").is_ok_and(|link| link.running);
            assert!(until(PATIENCE, up), "no port after moment {moment} ({kind})");
            transfer(&service.world.app, &service.world.far, FAR);
            daemon.signal(Signal::TERM);
            let said = daemon.wait(PATIENCE);
            assert_eq!(said.code, 0, "after moment {moment} ({kind}): {}", said.err);
            assert_eq!(inventory(&service), before, "after moment {moment} ({kind}): {}", said.err);
            assert!(until(PATIENCE, || in_use(&service).is_empty()), "{:?}", in_use(&service));
        }
    }
    let new = || -> Vec<u32> { orphans().difference(&orphans_before).copied().collect() };
    assert!(until(PATIENCE, || new().is_empty()), "programs {:?} are at devices that nobody removes", new());
}
