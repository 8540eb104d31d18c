//! The commands of docs/operating.md, run in their order against a daemon.

use crate::common;
use crate::common::service::{PATIENCE, Service};
use crate::common::world::{FAR, POLICY, World};
use crate::common::{file, until, weft};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_host::NetNs;
use weft_host::testing::privileged;

/// The indented `weft` commands of the guide.
fn commands() -> Vec<Vec<String>> {
    let path = format!("{}/../../docs/operating.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the guide");
    let lines = text.lines().filter_map(|line| line.strip_prefix("    weft "));
    let found: Vec<Vec<String>> = lines.map(words).collect();
    assert!(found.len() > 10, "{found:?}");
    found
}

/// The words of a command; single quotes keep spaces.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate();
    let parts = parts.flat_map(|(at, part)| match at % 2 {
        1 => vec![part.to_owned()],
        _ => part.split_whitespace().map(str::to_owned).collect(),
    });
    parts.collect()
}

/// The commands without a daemon.
const OFFLINE: [&str; 2] = ["check", "show"];

/// Runs a command of the guide in the test's folder, against the daemon.
#[track_caller]
fn run(service: &Service, words: &[&str]) {
    // The usual places are another host's.
    if words == ["daemon", "--check"] {
        return;
    }
    let netns = service.world.app.name();
    let words: Vec<&str> = words.iter().map(|word| if *word == "web" { netns } else { word }).collect();
    let mut run = weft();
    run.args(&words).current_dir(service.world.folder.path());
    if words[0] != "daemon" && !words.iter().any(|word| OFFLINE.contains(word)) {
        run.arg("--socket").arg(&service.socket);
    }
    let said: common::Said = run.output().expect("run").into();
    assert_eq!(said.code, 0, "{words:?}: {}", said.err);
}

#[test]
fn the_commands_of_the_guide_work() {
    if !privileged("the_commands_of_the_guide_work") {
        return;
    }
    let service = Service::new();
    let folder = &service.world.folder;
    let tenants =
        POLICY.replace("root = wfq {", "vm1 = tenant \"vm1.weft\" of cgroup \"/vm1\"\nroot = wfq { vm1: 1,");
    file(folder, "p.weft", &tenants);
    file(folder, "new.weft", tenants.replace("100mbps", "50mbps"));
    file(folder, "mine.weft", "root = fair of default\n");
    file(folder, "newer.weft", "class db = udp\nroot = priority { db }\n");
    let daemon = service.start();
    let mut seen = Vec::new();
    for command in commands() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        seen.push(words[..words.len().min(2)].join(" "));
        if !words.contains(&"--uplink") {
            run(&service, &words);
        }
    }
    for verb in [
        "status",
        "top --plain",
        "config",
        "policy load",
        "policy diff",
        "policy restore",
        "port add",
        "tenant attach",
        "tenant replace",
        "tenant detach",
        "tenant list",
    ] {
        assert!(
            seen.iter().any(|command| command == verb),
            "the guide does not show `weft {verb}`: {seen:?}"
        );
    }
    service.stop(daemon);
}

#[test]
fn the_commands_for_one_of_several_uplinks_work() {
    if !privileged("the_commands_for_one_of_several_uplinks_work") {
        return;
    }
    let (service, second) = (Service::bare(""), World::new());
    let folder = &service.world.folder;
    file(folder, "wan.weft", POLICY.replace("100mbps", "50mbps"));
    let table = |name: &str, host: &NetNs| {
        format!("[uplink.{name}]\ndevice = \"up0\"\nnetns = \"{}\"\n", host.name())
    };
    let (lan, wan) = (table("lan", &service.world.host), table("wan", &second.host));
    let socket = service.socket.display();
    let text = format!("policy = \"p.weft\"\ngroup = \"nogroup\"\nsocket = \"{socket}\"\n{lan}{wan}");
    file(folder, "weft.toml", text);
    let daemon = service.start();
    let commands = commands();
    let named = commands.iter().filter(|command| command.iter().any(|word| word == "--uplink"));
    let named: Vec<Vec<&str>> = named.map(|words| words.iter().map(String::as_str).collect()).collect();
    assert!(named.len() > 5, "{named:?}");
    named.iter().for_each(|words| run(&service, words));
    service.stop(daemon);
    second.assert_clean();
}

/// A policy in whose class `web` more comes than its limit lets pass.
const LIMITED: &str = "link 100mbps\nclass web = udp dport 7000\nclass bulk = tcp\n\
                       root = priority { limit 5mbps of web, bulk, default }\n";

#[test]
fn a_packet_is_explained_while_others_of_its_class_wait() {
    if !privileged("a_packet_is_explained_while_others_of_its_class_wait") {
        return;
    }
    let service = Service::new();
    let limited = file(&service.world.folder, "limited.weft", LIMITED);
    let daemon = service.start();
    fn explain<'a>(more: &[&'a str]) -> Vec<&'a str> {
        [&["policy", "explain", "--live", "--packet", "udp 10.97.0.1:9 > 10.97.0.2:7000"], more].concat()
    }
    let other = service.refused(&explain(&[&limited]));
    assert!(other.contains("another policy in force") && other.contains("generation 1"), "{other}");
    service.done(&["policy", "load", &limited]);
    let idle = service.done(&explain(&[]));
    assert!(idle.contains("class      web (line 2") && idle.contains("because    nothing waits"), "{idle}");
    let stop = AtomicBool::new(false);
    let socket = service.world.app.run(|| UdpSocket::bind("0.0.0.0:0")).expect("enter").expect("bind");
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                (0..20).for_each(|_| _ = socket.send_to(&[1; 1400], (FAR, 7000)));
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        // A second at the limit, and the daemon's next read of the counters.
        let mut said = String::new();
        let used = until(PATIENCE, || {
            said = service.done(&explain(&[&limited]));
            said.contains("is used up, by web at")
        });
        stop.store(true, Ordering::Relaxed);
        assert!(used, "{said}");
        said
    });
    assert!(said.contains("of 5 Mb/s is used up") && said.contains("its own packets: it sends"), "{said}");
    assert!(said.contains("99 of 100 packets within"), "{said}");
    service.stop(daemon);
}
