//! The commands of docs/operating.md, run in their order against a daemon.

mod common;
#[path = "common/service.rs"]
mod service;
#[path = "common/world.rs"]
mod world;

use common::{file, weft};
use service::Service;
use weft_host::testing::privileged;
use world::POLICY;

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
const OFFLINE: [&str; 1] = ["check"];

#[test]
fn the_commands_of_the_guide_work() {
    if !privileged("the_commands_of_the_guide_work") {
        return;
    }
    let service = Service::new();
    let folder = &service.world.folder;
    file(folder, "new.weft", POLICY.replace("100mbps", "50mbps"));
    let daemon = service.start();
    let mut seen = Vec::new();
    for command in commands() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        seen.push(words[..words.len().min(2)].join(" "));
        // The usual places are another host's.
        if let ["daemon", "--check"] = words.as_slice() {
            continue;
        }
        let netns = service.world.app.name();
        let words: Vec<&str> =
            words.into_iter().map(|word| if word == "web" { netns } else { word }).collect();
        let mut run = weft();
        run.args(&words).current_dir(folder.path());
        if words[0] != "daemon" && !words.iter().any(|word| OFFLINE.contains(word)) {
            run.arg("--socket").arg(&service.socket);
        }
        let said: common::Said = run.output().expect("run").into();
        assert_eq!(said.code, 0, "{words:?}: {}", said.err);
    }
    for verb in
        ["status", "top --plain", "config", "policy load", "policy diff", "policy restore", "port add"]
    {
        assert!(
            seen.iter().any(|command| command == verb),
            "the guide does not show `weft {verb}`: {seen:?}"
        );
    }
    service.stop(daemon);
}
