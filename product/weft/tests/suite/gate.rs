//! The gate: what `policy check`, `run --dry-run` and `daemon --check` say is what the start says.

use crate::common::service::{PATIENCE, Service};
use crate::common::world::World;
use crate::common::{Running, Said, file, run, until, weft};
use crate::policies::{Rng, policy};
use rustix::process::Signal;
use std::fmt::Write;
use weft_host::link;
use weft_host::testing::privileged;

const PLAIN: &str = "class web = tcp port 80\nroot = priority { web, default }\n";

/// A policy with `count` limits by destination.
fn limits(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|number| format!("l{number}")).collect();
    let mut text = format!(
        "class web = tcp port 80\nroot = priority {{ all, default }}\nall = fifo {{ {} }}\n",
        names.join(", ")
    );
    for number in 0..count {
        let _ = writeln!(text, "l{number} = limit 1mbps to 10.{}.{}.0/24 of web", number / 250, number % 250);
    }
    text
}

/// A policy with a class for each of 260 users.
fn users() -> String {
    let mut text: String = (0..260).map(|user| format!("class u{user} = user {user}\n")).collect();
    let names: Vec<String> = (0..260).map(|user| format!("u{user}: 1")).collect();
    let _ = writeln!(text, "root = wfq {{ {}, default: 1 }}", names.join(", "));
    text
}

/// The last line of standard error.
fn last(said: &Said) -> &str {
    said.err.lines().last().unwrap_or_default()
}

/// `weft run` at the world's uplink.
fn run_at(world: &World, policy: &str, more: &[&str]) -> Said {
    let at = ["run", policy, "--uplink-netns", world.host.name(), "--plain"];
    weft().args(at).args(more).output().expect("weft").into()
}

/// `weft daemon --check` of a configuration at the world's uplink.
fn check_daemon(world: &World, policy: &str, uplink: &str, more: &str) -> Said {
    let (host, socket) = (world.host.name(), world.folder.path().join("io.weft"));
    let text = format!(
        "uplink = \"{uplink}\"\nuplink-netns = \"{host}\"\npolicy = \"{policy}\"\nsocket = \"{}\"\n{more}",
        socket.display()
    );
    let config = file(&world.folder, "weft.toml", text);
    run(&["daemon", "--check", "--config", &config])
}

#[test]
fn what_is_right_is_the_same_for_all_who_say_it() {
    if !privileged("what_is_right_is_the_same_for_all_who_say_it") {
        return;
    }
    let world = World::new();
    let codel = "class web = tcp port 80\nroot = priority { codel target 5ms of web, default }\n";
    // The policy, whether a port and the daemon can run it, and a word of the reason.
    let rows = [
        ("codel", codel.to_owned(), false, false, "to drop packets"),
        ("limits1000", limits(1000), false, false, "1002 lanes"),
        ("limits100", limits(100), true, false, "its port has 64 rings"),
        ("users260", users(), false, false, "261 lanes"),
        ("plain", PLAIN.to_owned(), true, true, ""),
    ];
    for (name, text, port, daemon, reason) in rows {
        let path = file(&world.folder, &format!("{name}.weft"), text);
        let word = |runs: bool| if runs { "yes" } else { "no (" };
        let said = run(&["policy", "check", &path]);
        let note = format!("{path}: note: runs in: port {}", word(port));
        assert!(said.code == 0 && said.out.contains(&note), "{name}: {said:?}");
        assert!(said.out.contains(&format!("; daemon {}", word(daemon))), "{name}: {}", said.out);
        for (place, runs) in [("port", port), ("daemon", daemon)] {
            let said = run(&["policy", "check", &path, "--for", place]);
            assert_eq!(said.code, i32::from(!runs), "{name} {place}: {said:?}");
            if !runs {
                let first = said.out.lines().next().expect("a line");
                assert!(first.starts_with(&format!("{path}:")) && first.contains("error[E0512]"), "{first}");
                assert!(first.contains(reason) && first.contains("; "), "{name}: {first}");
            }
        }
        let dry = run_at(&world, &path, &["--uplink", "up0", "--dry-run"]);
        let real = run_at(&world, &path, &["--uplink", "up0", "--duration", "0.1"]);
        assert_eq!((dry.code, real.code), (i32::from(!port), i32::from(!port)), "{name}: {dry:?} {real:?}");
        if !port {
            assert!(last(&dry).contains(reason), "{name}: {}", dry.err);
            assert_eq!(last(&dry), last(&real), "{name}");
        }
        let checked = check_daemon(&world, &path, "up0", "");
        assert_eq!(checked.code, i32::from(!daemon), "{name}: {checked:?}");
        assert!(last(&checked).contains(reason) && checked.err.matches("error").count() < 2, "{checked:?}");
    }
}

#[test]
fn interfaces_namespaces_and_names_are_looked_at() {
    if !privileged("interfaces_namespaces_and_names_are_looked_at") {
        return;
    }
    let world = World::new();
    let path = file(&world.folder, "p.weft", PLAIN);
    link::create_veth((&world.app, "taken"), (&world.far, "other"), &link::VethOptions::default())
        .expect("veth");
    let app = world.app.name();
    let rows: [(&[&str], &str); 7] = [
        (&["--uplink", "eth7"], "there is no interface eth7"),
        (&["--uplink", "lo"], "lo carries no Ethernet frames"),
        (&["--uplink", "up0", "--name", "averyverylongportname"], "1 to 15 bytes"),
        (&["--uplink", "up0", "--name", "a/b"], "without '/'"),
        (&["--uplink", "up0", "--netns", "nosuchns"], "no network namespace nosuchns"),
        (&["--uplink", "up0", "--name", "taken", "--netns", app], "an interface taken exists already"),
        (&["--uplink", "up0", "--name", "free", "--netns", app], ""),
    ];
    for (flags, reason) in rows {
        let dry = run_at(&world, &path, &[flags, &["--dry-run"]].concat());
        let real = run_at(&world, &path, &[flags, &["--duration", "0.1"]].concat());
        let code = i32::from(!reason.is_empty());
        assert_eq!((dry.code, real.code), (code, code), "{flags:?}: {dry:?} {real:?}");
        if code > 0 {
            assert!(last(&dry).contains(reason), "{flags:?}: {}", dry.err);
            assert_eq!(last(&dry), last(&real), "{flags:?}");
        }
    }
    for uplink in ["eth7", "lo"] {
        let said = check_daemon(&world, &path, uplink, "");
        assert!(said.code == 1 && said.err.contains(uplink) && said.out.is_empty(), "{uplink}: {said:?}");
    }
    let port = format!(
        "[[ports]]\nname = \"taken\"\nnetns = \"{app}\"\n[[ports]]\nname = \"p\"\nnetns = \"nosuchns\"\n"
    );
    let said = check_daemon(&world, &path, "up0", &port);
    assert!(said.code == 1 && said.err.contains("port taken: ") && said.err.contains("port p: "), "{said:?}");
}

#[test]
fn all_mistakes_of_a_configuration_are_said_once() {
    let folder = tempfile::tempdir().expect("folder");
    let text = "uplnk = \"x\"\nrate = \"fast\"\npolicy = \"p\"\n[[ports]]\nname = \"a/b\"\n";
    let config = file(&folder, "weft.toml", text);
    let said = run(&["daemon", "--check", "--config", &config]);
    let starts: Vec<bool> =
        ["1:1", "2:8", "5:8"].map(|place| said.err.contains(&format!("{config}:{place}: error: "))).into();
    assert_eq!((said.code, starts), (1, vec![true; 3]), "{}", said.err);
    assert!(!said.err.contains("error: /"), "{}", said.err);
    assert_eq!(said.err.matches("error: ").count(), 3, "{}", said.err);
}

#[test]
fn a_daemon_loads_what_its_ports_can_run() {
    if !privileged("a_daemon_loads_what_its_ports_can_run") {
        return;
    }
    // Without a port there is nothing that could refuse it but the gate.
    let service = Service::bare("");
    let running = service.start();
    let path = file(&service.world.folder, "many.weft", limits(100));
    let said = service.client(&["policy", "load", &path]);
    assert!(said.code == 1 && said.err.contains("error[E0512]") && said.err.contains("64 rings"), "{said:?}");
    let diff = service.client(&["policy", "diff", &path]);
    assert!(diff.code == 1 && diff.err.contains("64"), "the daemon itself refuses it: {diff:?}");
    let fits = file(&service.world.folder, "few.weft", limits(50));
    assert_eq!(service.client(&["policy", "load", &fits]).code, 0);
    service.stop(running);
}

/// The number of random configurations that are started.
const STARTS: usize = 16;

#[test]
fn a_dry_run_says_what_a_run_says() {
    if !privileged("a_dry_run_says_what_a_run_says") {
        return;
    }
    let world = World::new();
    let mut rng = Rng(7);
    let (mut good, mut bad) = (0, 0);
    for _ in 0..STARTS {
        let path = file(&world.folder, "p.weft", policy(&mut rng));
        let rings = rng.pick(&["2", "64", "256", "256", "256"]);
        let uplink = rng.pick(&["up0", "up0", "up0", "up0", "up0", "lo", "eth7"]);
        let workers = rng.pick(&["1", "1", "1", "2"]);
        let flags = ["--uplink", uplink, "--rings", rings, "--workers", workers];
        let dry = run_at(&world, &path, &[&flags[..], &["--dry-run"]].concat());
        let real = run_at(&world, &path, &[&flags[..], &["--duration", "0.05"]].concat());
        assert_eq!(dry.code, real.code, "{flags:?} {dry:?} {real:?}");
        if dry.code == 0 {
            good += 1;
        } else {
            bad += 1;
            assert_eq!(last(&dry), last(&real), "{flags:?}");
        }
    }
    assert!(good > 2 && bad > 2, "{good} good and {bad} bad");
}

/// Whether the daemon starts with all its ports.
fn starts(service: &Service) -> bool {
    let mut running = Running(service.command().spawn().expect("start weft"));
    let mut ended = false;
    let answers = until(PATIENCE, || {
        ended = running.0.try_wait().expect("wait").is_some();
        ended || service.client(&["status"]).code == 0
    });
    assert!(answers, "the daemon neither ends nor answers");
    if ended {
        return false;
    }
    let ports = service.status()["ports"].as_array().map_or(0, Vec::len);
    running.signal(Signal::TERM);
    running.wait(PATIENCE);
    ports == 1
}

#[test]
fn a_daemon_starts_if_its_check_says_so() {
    if !privileged("a_daemon_starts_if_its_check_says_so") {
        return;
    }
    let mut rng = Rng(11);
    let (mut good, mut bad) = (0, 0);
    for round in 0..STARTS {
        let service = Service::new();
        let text = if round % 2 == 0 { policy(&mut rng) } else { limits(1 + rng.below(80) as usize) };
        file(&service.world.folder, "p.weft", text);
        if rng.below(4) == 0 {
            let text = std::fs::read_to_string(&service.config).expect("the configuration");
            let wrong = rng.pick(&[("\"up0\"", "\"lo\""), ("\"weft0\"", "\"lo\""), ("\"up0\"", "\"eth7\"")]);
            std::fs::write(&service.config, text.replace(wrong.0, wrong.1)).expect("write");
        }
        let checked = run(&["daemon", "--check", "--config", &service.config]);
        assert_eq!(checked.code == 0, starts(&service), "{checked:?}");
        if checked.code == 0 { good += 1 } else { bad += 1 }
    }
    assert!(good > 2 && bad > 2, "{good} good and {bad} bad");
}
