//! The program's answers to wrong usage, and its help.

use crate::common;
use crate::common::{assert_head, file, links, run, weft, weft_without_rights};
use std::io::Read;

const POLICY: &str = "link 1gbps\nclass web = tcp port 80\nroot = wfq { fair of web: 1, default: 1 }\n";

#[test]
fn no_command_prints_help() {
    let said = run(&[]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("Usage: weft") && said.err.contains("demo"), "{}", said.err);
}

#[test]
fn wrong_usage_has_exit_code_2_and_names_what_is_wrong() {
    for (args, named) in [
        (&["no-such-command"][..], "no-such-command"),
        (&["run", "x.weft"], "--uplink"),
        (&["run", "x.weft", "--uplink", "eth0", "--rate", "0gbps"], "a rate of zero sends nothing"),
        (&["run", "x.weft", "--uplink", "eth0", "--address", "10.0.0.1"], "prefix length"),
        (&["run", "x.weft", "--uplink", "eth0", "--workers", "65"], "--workers"),
        (&["run", "--queues", "2", "--uplink", "eth0", "--workers", "2"], "--queues"),
        (&["replay", "a", "b", "c", "--rate", "0kbps"], "a rate of zero sends nothing"),
        (&["completions", "tcsh"], "tcsh"),
    ] {
        let said = run(args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert!(said.err.contains(named) && said.out.is_empty(), "{args:?}: {}", said.err);
    }
}

#[test]
fn several_workers_need_a_rate_and_a_policy_that_they_can_share() {
    let folder = tempfile::tempdir().expect("folder");
    let fair = file(&folder, "fair.weft", "class a = tcp port 1\nroot = fair of a\n");
    let own = file(&folder, "own.weft", "class a = tcp port 1\nroot = las of a\n");
    let with = |policy: &str, more: &[&str]| {
        let args = ["run", policy, "--uplink", "lo", "--workers", "2", "--dry-run"];
        weft_without_rights().args([&args[..], more].concat()).output().map(common::Said::from).expect("run")
    };
    let said = with(&fair, &["--rate", "1gbps"]);
    assert!(said.code == 0 && said.out.contains("2 transmit workers"), "{}{}", said.out, said.err);
    let said = with(&fair, &[]);
    assert!(said.code == 1 && said.err.contains("--rate"), "{}", said.err);
    let said = with(&own, &["--rate", "1gbps"]);
    assert!(said.code == 1 && said.err.contains("run it with one worker"), "{}", said.err);
    let said = with(&fair, &["--rate", "1gbps", "--departures", "d.csv"]);
    assert!(said.code == 1 && said.err.contains("no common order"), "{}", said.err);
}

#[test]
fn hardware_queues_need_a_rate_and_a_policy_does_not() {
    let folder = tempfile::tempdir().expect("folder");
    let said = run(&["run", "--queues", "2", "--uplink", "lo", "--dry-run"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("--rate"), "{}", said.err);
    for text in ["", "link auto\n"] {
        let policy = file(&folder, "p.weft", format!("{text}class web = tcp port 80\nroot = fair of web\n"));
        let args = ["run", &policy, "--uplink", "lo", "--dry-run"];
        let said: common::Said = weft_without_rights().args(args).output().expect("run").into();
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.out.contains("as fast as lo takes packets"), "{}", said.out);
    }
}

#[test]
fn an_absent_file_is_named_with_the_reason() {
    for args in [
        &["policy", "check", "absent.weft"][..],
        &["policy", "show", "absent.weft"],
        &["run", "absent.weft", "--uplink", "lo"],
        &["replay", "absent.weft", "a.pcap", "b.pcap"],
        &["demo", "--policy", "absent.weft"],
    ] {
        let said = run(args);
        assert_eq!(said.code, 1, "{args:?}: {}", said.err);
        assert!(said.err.contains("absent.weft: No such file or directory"), "{args:?}: {}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    }
}

#[test]
fn a_wrong_policy_is_told_by_line_and_column() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "bad.weft", "class web = tcp port 80\nroot = wfq { webb: 1 }\n");
    let said = run(&["policy", "check", &policy]);
    assert_eq!((said.code, said.err.as_str()), (1, ""));
    assert!(said.out.starts_with(&format!("{policy}:2:14: error[E")), "{}", said.out);
    assert!(said.out.lines().all(|line| line.starts_with(&policy)), "one line each: {}", said.out);

    let quiet = run(&["policy", "check", "--quiet", &policy]);
    assert_eq!((quiet.code, quiet.out.as_str()), (1, ""));

    // Every command that takes a policy prints the same, before any side effect.
    let demo = run(&["demo", "--policy", &policy, "--no-html"]);
    assert_eq!(demo.code, 1);
    assert_eq!(demo.err.trim_end(), said.out.trim_end());
}

#[test]
fn check_gives_diagnostics_as_objects() {
    let folder = tempfile::tempdir().expect("folder");
    let bad = file(&folder, "bad.weft", "class web = tcp port 80\nroot = wfq { webb: 1 }\n");
    let good = file(&folder, "good.weft", POLICY);
    let said = run(&["policy", "check", &good, &bad, "--json", "-"]);
    assert_eq!(said.code, 1, "{}", said.err);
    let document = serde_json::from_str(&said.out).expect("only JSON on standard output");
    assert_head(&document, "weft-policy-check/1");
    let first = &document["diagnostics"][0];
    assert_eq!((&first["file"], &first["line"], &first["column"]), (&bad.into(), &2.into(), &14.into()));
    assert_eq!(first["severity"], "error");
    assert!(first["code"].is_string() && first["message"].is_string());
    assert_eq!(run(&["policy", "check", &good]).code, 0);
}

#[test]
fn a_policy_can_be_shown_and_drawn() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let shown = run(&["policy", "show", &policy]);
    assert!(shown.code == 0 && shown.out.contains("weighted fair queueing"), "{shown:?}");
    let drawn = run(&["policy", "draw", &policy]);
    assert!(drawn.code == 0 && drawn.out.starts_with("<svg "), "{drawn:?}");
    let graph = run(&["policy", "draw", &policy, "--as", "dot"]);
    assert!(graph.code == 0 && graph.out.starts_with("digraph"), "{graph:?}");
}

#[test]
fn two_policies_are_compared() {
    let folder = tempfile::tempdir().expect("folder");
    let old = file(&folder, "old.weft", POLICY);
    let new = file(&folder, "new.weft", POLICY.replace("web: 1", "web: 3").replace("1gbps", "2gbps"));
    let said = run(&["policy", "diff", &old, &new]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (0, "kept: 2 classes, 1 node, 0 limits\nlink rate: 1 Gb/s -> 2 Gb/s\nweight web: 1 -> 3 in root\n")
    );
    let document = run(&["policy", "diff", &old, &new, "--json", "-"]);
    let document: serde_json::Value = serde_json::from_str(&document.out).expect("JSON");
    assert_eq!(
        (&document["steps"][1]["phase"], &document["kept"]["classes"]),
        (&"adjusted".into(), &2.into())
    );
    let added = file(
        &folder,
        "added.weft",
        format!("class mail = tcp port 25\n{POLICY}").replace("web: 1", "web: 1, mail: 1"),
    );
    let said = run(&["policy", "diff", &old, &added]);
    let drained = "class mail added under root\nflows that change their class wait for packets that they have left, at most 30 s";
    assert!(said.out.contains(drained), "{}", said.out);
    let said = run(&["policy", "diff", &old, &old, "--exit-code"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    assert_eq!(run(&["policy", "diff", &old, &new, "--exit-code"]).code, 3);
    let first = POLICY.replace("wfq { fair of web: 1, default: 1 }", "priority { default, fair of web }");
    let said = run(&["policy", "diff", &old, &file(&folder, "first.weft", first)]);
    let lost = "warning: class web is left without a rate of its own: default goes before it\n  help: ";
    assert!(said.code == 0 && said.out.contains(lost), "{}", said.out);
    let bad = file(&folder, "bad.weft", "root = nothing\n");
    let said = run(&["policy", "diff", &old, &bad, "--json", "-"]);
    assert!(said.code == 1 && said.out.is_empty() && said.err.starts_with(&bad), "{}", said.err);
}

#[test]
fn a_wrong_interface_is_told_with_those_that_exist() {
    if !weft_host::testing::privileged("a_wrong_interface_is_told_with_those_that_exist") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let said = run(&["run", &policy, "--uplink", "absent0"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("no interface absent0") && said.err.contains("there are:"), "{}", said.err);
    // A note on removed remains of a killed run may precede it.
    let others = said.err.lines().filter(|line| !line.starts_with("note: removed what earlier runs"));
    assert_eq!(others.count(), 1, "{}", said.err);
    let said = run(&["run", &policy, "--uplink", "lo", "--netns", "no-such-namespace"]);
    assert!(said.code == 1 && said.err.contains("no-such-namespace"), "{}", said.err);
}

#[test]
fn missing_rights_are_named() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let said: common::Said =
        weft_without_rights().args(["run", &policy, "--uplink", "lo"]).output().expect("run").into();
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("CAP_NET_ADMIN") && said.err.contains("run as root"), "{}", said.err);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
}

#[test]
fn a_dry_run_needs_no_rights_and_touches_nothing() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", &(POLICY.to_owned() + "class dream = cgroup \"/weft-no-such\"\n"));
    let policy = std::fs::read_to_string(&policy)
        .map(|text| file(&folder, "q.weft", text.replace("default: 1", "fair of dream: 1")))
        .expect("policy");
    let args = ["run", &policy, "--uplink", "absent0", "--name", "weftdry0", "--dry-run"];
    let said: common::Said = weft_without_rights().args(args).output().expect("run").into();
    assert_eq!(said.code, 0, "{}", said.err);
    for named in ["tree", "lane 0 (web): rings", "weftdry0-tap", "absent0", "eBPF program", "1 Gb/s"] {
        assert!(said.out.contains(named), "{named}: {}", said.out);
    }
    assert!(said.err.contains("no cgroup /weft-no-such"), "{}", said.err);
    if weft_host::require_network_rights().is_ok() {
        let said = run(&args);
        let last = said.err.lines().last().expect("the reason");
        assert!(said.code == 1 && last.contains("there is no interface absent0"), "{}", said.err);
        assert!(!links().iter().any(|name| name.contains("weftdry0")), "{:?}", links());
    }
}

#[test]
fn files_without_an_end_are_not_read_to_it() {
    for args in [
        &["policy", "check", "/dev/zero"][..],
        &["steer", "draw", "/dev/zero"],
        &["steer", "explain", "udp,*,*,*,1", "--nic", "/dev/zero", "--policy", "balance"],
    ] {
        let said = run(args);
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{args:?}: {}", said.err);
        assert!(said.err.contains("/dev/zero") && said.err.contains("bytes"), "{args:?}: {}", said.err);
    }
}

#[test]
fn the_doctor_needs_nothing_and_reports_facilities() {
    let said: common::Said =
        weft_without_rights().args(["doctor", "--json", "-"]).output().expect("run").into();
    assert_eq!(said.code, 0, "{}", said.err);
    let document = serde_json::from_str(&said.out).expect("only JSON on standard output");
    assert_head(&document, "weft-doctor/1");
    let facilities = document["facilities"].as_array().expect("facilities");
    let of_titan = |id| {
        facilities
            .iter()
            .any(|f| f["id"] == id && f["brings"].as_str().is_some_and(|b| b.contains("weft titan")))
    };
    assert!(of_titan("titan.programs") && of_titan("titan.queues"), "{facilities:?}");
    let macvtap = facilities.iter().find(|f| f["id"] == "macvtap").expect("macvtap");
    assert!(macvtap["state"].is_string() && macvtap["brings"].is_string(), "{macvtap}");
    let table = run(&["doctor"]);
    assert!(table.code == 0 && table.out.contains("iperf3") && !table.out.contains('\x1b'), "{table:?}");
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in ["run", "replay", "policy", "doctor", "completions", "man"] {
        let said = run(&[command, "--help"]);
        assert_eq!(said.code, 0);
        assert!(said.out.contains(&format!("  weft {command}")), "{command}: {}", said.out);
    }
    for command in ["check", "show", "draw", "fmt", "explain", "cost", "export", "diff"] {
        let said = run(&["policy", command, "--help"]);
        assert!(said.out.contains(&format!("  weft policy {command}")), "{command}: {}", said.out);
    }
    assert!(run(&["--version"]).out.starts_with("weft "));
}

#[test]
fn completions_and_manual_pages_are_there() {
    for shell in ["bash", "zsh", "fish"] {
        let said = run(&["completions", shell]);
        assert!(said.code == 0 && said.out.contains("replay"), "{shell}");
    }
    assert!(run(&["man"]).out.contains(".TH weft"));
    let folder = tempfile::tempdir().expect("folder");
    assert_eq!(run(&["man", "--folder", folder.path().to_str().expect("UTF-8")]).code, 0);
    assert!(folder.path().join("weft-demo.1").exists());
}

#[test]
fn a_reader_that_goes_away_is_no_panic() {
    let mut child = weft().args(["completions", "zsh"]).spawn().expect("run");
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().expect("standard error").read_to_string(&mut err).expect("read");
    assert_eq!((child.wait().expect("wait").code(), err.as_str()), (Some(0), ""));
}
