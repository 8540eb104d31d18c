//! The commands of docs/operating.md, run in their order against a daemon.

mod common;
#[path = "common/service.rs"]
mod service;
#[path = "common/world.rs"]
mod world;

use common::{file, weft};
use service::Service;
use weft_host::NetNs;
use weft_host::testing::privileged;
use world::{POLICY, World};

/// The indented `weft` commands of the guide.
fn commands() -> Vec<Vec<String>> {
    let path = format!("{}/../../docs/operating.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the guide");
    let lines = text.lines().filter_map(|line| line.strip_prefix("    weft "));
    let found: Vec<Vec<String>> = lines.map(|line| line.split(' ').map(str::to_owned).collect()).collect();
    assert!(found.len() > 10, "{found:?}");
    found
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
