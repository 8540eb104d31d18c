//! `weft sim` and `weft reproduce` as a user runs them.

use crate::common::{Running, assert_conserved, file, json, run, weft};
use rustix::process::Signal;
use serde_json::Value;
use std::time::Duration;
use weft_host::testing::wait_for;

const SCENARIO: &str = "duration = \"20ms\"\nwarm_up = \"5ms\"\n[[flows]]\ncount = 3\n[[probes]]\n";

fn scenario(folder: &tempfile::TempDir) -> String {
    file(folder, "small.toml", SCENARIO)
}

#[test]
fn a_wrong_scenario_is_named_with_place_and_hint() {
    let folder = tempfile::tempdir().expect("folder");
    let path = file(&folder, "wrong.toml", "[host.nic]\ntransmit_queus = 8\n");
    let said = run(&["sim", &path]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    assert!(
        said.err.contains("wrong.toml:2:1: error") && said.err.contains("transmit_queues"),
        "{}",
        said.err
    );
    assert_eq!(said.err.lines().count(), 2, "what and hint, once: {}", said.err);
    let said = run(&["sim", "absent.toml"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("absent.toml"), "{}", said.err);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
}

#[test]
fn wrong_settings_and_options_say_what_is_wrong() {
    let folder = tempfile::tempdir().expect("folder");
    let path = scenario(&folder);
    for (args, code, named) in [
        (&["sim", &path, "--set", "flows.7.count=2"][..], 1, "flows.7"),
        (&["sim", &path, "--set", "host.nic.transmit_queues=0"], 1, "transmit_queues"),
        (&["sim", &path, "--set", "nonsense"], 2, "KEY=VALUE"),
        (&["sim", &path, "--set", "hots.nic.transmit_queues=4"], 1, "unknown key `hots`"),
        (&["sim", &path, "--set", "seed.x=4"], 1, "`seed`"),
        (&["sim", &path, "--seeds", "0"], 2, "--seeds"),
        (&["sim", &path, "--seed", "18446744073709551615"], 2, "seeds from"),
        (&["sim"], 2, "SCENARIO.toml"),
        (&["sim", "--example", "no-such-scenario"], 2, "titan-12-flows"),
        (&["sim", "--example", "incast", "--seeds", "2"], 2, "--example"),
        (&["sim", &path, "--trace", "/no-such-folder/t.csv"], 1, "/no-such-folder/t.csv"),
        (&["reproduce", "titan-tr-table9"], 2, "titan-tr-table9"),
        (&["reproduce", "--flows", "0"], 2, "--flows"),
        (&["reproduce", "titan-tr-fig8", "--transfer", "0KB"], 2, "--transfer"),
        (&["reproduce", "titan", "--rate", "500mbps"], 2, "--measured"),
        (&["reproduce", "titan", "--measured", "--duration", "900ms"], 2, "second"),
        (&["reproduce", "titan", "--measured", "--rate", "1kbps"], 2, "1 Mb/s"),
        (&["reproduce", "loom-fig3", "--measured"], 1, "titan-tr-table3"),
        (&["reproduce", "titan-weights"], 1, "--measured"),
    ] {
        let said = run(args);
        assert_eq!(said.code, code, "{args:?}: {}", said.err);
        assert!(said.err.contains(named), "{args:?}: {}", said.err);
    }
}

#[test]
fn a_scenario_s_json_has_the_promised_fields() {
    let folder = tempfile::tempdir().expect("folder");
    let said = run(&["sim", &scenario(&folder), "--seeds", "2", "--seed", "9", "--json", "-"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).expect("JSON and nothing else");
    for field in [
        "/events",
        "/wall_s",
        "/sim_s",
        "/flows/2/bytes",
        "/flows/0/bps",
        "/nfm/1ms",
        "/latency_s",
        "/cpu/1/7/tcpip",
        "/host/kernel",
    ] {
        assert!(document.pointer(field).is_some_and(|value| !value.is_null()), "{field}");
    }
    assert_eq!((document["seed"].as_u64(), document["seeds"].as_u64()), (Some(9), Some(2)));
    assert!(said.err.contains("Conservation") && !said.err.contains("off by"), "{}", said.err);
    assert_conserved(&document["conservation"]);
    assert!(document.get("stopped").is_none() && document.get("unbalanced_seeds").is_none());
    for (counter, row) in
        [("retransmission_timeouts", "retransmission timeouts"), ("tail_loss_probes", "tail loss probes")]
    {
        assert_eq!(document["counters"][counter].as_u64(), Some(0), "no packet is lost");
        assert!(said.err.contains(row), "{}", said.err);
    }
    assert!(
        said.err.contains("throughput_bps, mean of 2 seeds") && said.err.contains("Gb/s ("),
        "{}",
        said.err
    );
}

/// The same seed gives the same figures, alone or among others.
#[test]
fn a_run_is_a_function_of_its_seed() {
    let folder = tempfile::tempdir().expect("folder");
    let path = scenario(&folder);
    let flows = |args: &[&str]| {
        let said = run(&[&["sim", &path, "--json", "-"], args].concat());
        let document: Value = serde_json::from_str(&said.out).expect("JSON");
        document["flows"].clone()
    };
    let alone = flows(&["--seed", "5"]);
    assert_eq!(alone, flows(&["--seed", "5", "--seeds", "3"]));
    assert_ne!(alone, flows(&["--seed", "6"]));
    let traced = folder.path().join("t.csv").display().to_string();
    assert_eq!(alone, flows(&["--seed", "5", "--seeds", "2", "--trace", &traced]), "looking changes nothing");
}

#[test]
fn an_example_is_a_scenario_that_stands_alone() {
    let folder = tempfile::tempdir().expect("folder");
    let printed = run(&["sim", "--example", "titan"]);
    assert_eq!((printed.code, printed.err.as_str()), (0, ""));
    assert!(printed.out.contains("[costs.") && !printed.out.contains("../costs"), "{}", printed.out);
    let path = file(&folder, "titan.toml", &printed.out);
    let short = ["--set", "warm_up=1ms", "--set", "duration=5ms"];
    let said = run(&[&["sim", &path][..], &short].concat());
    assert!(said.code == 0 && said.out.contains("Processors"), "{said:?}");
    let completions =
        std::process::Command::new(crate::PROGRAM).args(["completions", "bash"]).output().expect("run");
    assert!(String::from_utf8_lossy(&completions.stdout).contains("titan-12-flows"));
}

/// The time that a process has used of the processors, in hundredths of a second (proc_pid_stat(5)).
fn processor_ticks(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, rest) = stat.rsplit_once(") ").expect("its name");
    rest.split(' ').nth(11).expect("utime").parse().expect("a number")
}

#[test]
fn ctrl_c_ends_a_long_run_at_once() {
    let folder = tempfile::tempdir().expect("folder");
    let path = file(&folder, "long.toml", "duration = \"10m\"\n[[flows]]\n");
    let document = folder.path().join("out.json").display().to_string();
    let child = Running(weft().args(["sim", &path, "--json", &document]).spawn().expect("run"));
    // The document's file is made just before signals are caught.
    wait_for_handler(child.0.id(), Signal::INT);
    child.signal(Signal::INT);
    let said = child.wait(Duration::from_secs(10));
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(said.err.contains("stopped after 0 of 1 runs") && said.out.is_empty(), "{said:?}");
    assert!(!std::path::Path::new(&document).exists(), "no run, no document");
}

#[test]
fn what_had_ended_before_ctrl_c_is_told_and_marked() {
    let folder = tempfile::tempdir().expect("folder");
    let path = scenario(&folder);
    let (document, trace) =
        (folder.path().join("out.json"), folder.path().join("t.csv").display().to_string());
    let args = ["sim", &path, "--seeds", "1000000", "--trace", &trace, "--json"];
    let child = Running(weft().args(args).arg(&document).spawn().expect("run"));
    // A run takes some milliseconds of a processor.
    wait_for("a second of work", || processor_ticks(child.0.id()) >= 100);
    child.signal(Signal::INT);
    let said = child.wait(Duration::from_secs(20));
    assert_eq!(said.code, 130, "{}", said.err);
    assert!(said.err.contains("of 1000000 runs") && said.out.contains("stopped: only the"), "{said:?}");
    let document = json(document);
    assert_eq!(document["stopped"], true);
    assert!(document["seeds"].as_u64().is_some_and(|seeds| (1..1_000_000).contains(&seeds)), "{document}");
}

#[test]
fn settings_change_the_scenario_and_show_prints_it() {
    let folder = tempfile::tempdir().expect("folder");
    let path = scenario(&folder);
    let said = run(&["sim", &path, "--set", "host.stack.queue_assignment=dqa", "--show"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("queue_assignment = \"dqa\""), "{}", said.out);
    // The printed text is a scenario.
    let again = run(&["sim", &file(&folder, "shown.toml", &said.out), "--show"]);
    assert_eq!((again.code, again.out), (0, said.out));
}

#[test]
fn traces_and_captures_have_content() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let said =
        run(&["sim", &scenario(&folder), "--trace", &path("events.csv"), "--pcap", &path("packets.pcap")]);
    assert_eq!(said.code, 0, "{}", said.err);
    let events = std::fs::read_to_string(path("events.csv")).expect("the trace");
    assert!(events.lines().count() > 1000 && events.contains("queued") && events.contains("delivered"));
    let capture = std::fs::read(path("packets.pcap")).expect("the capture");
    assert!(capture.len() > 100_000, "{}", capture.len());
}

#[test]
fn a_reproduction_writes_table_json_and_page() {
    let folder = tempfile::tempdir().expect("folder");
    let page = folder.path().join("page.html").display().to_string();
    let said = run(&["reproduce", "loom-fig2", "--seeds", "1", "--json", "-", "--html", &page]);
    assert_eq!(said.code, 0, "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).expect("JSON and nothing else");
    let experiment = &document["experiments"][0];
    assert_eq!(experiment["id"], "loom-fig2");
    for field in ["row", "column", "flows", "published", "simulated", "measured"] {
        assert!(experiment["cells"][0].get(field).is_some(), "{field}");
    }
    assert!(experiment.get("tau").is_some() && experiment.get("median_relative_error").is_some());
    assert!(said.err.contains("Summary"), "{}", said.err);
    assert!(std::fs::read_to_string(page).expect("the page").contains("loom-fig2"));
    let list = run(&["reproduce", "--list"]);
    assert!(list.out.contains("titan-tr-table3") && list.out.contains("hoststack-outcast"), "{}", list.out);
}

/// The results that the real demo shows too: Loom shares within 5 %, and latencies have the order MQ, QPF, Loom.
#[test]
fn the_demo_can_be_simulated_without_rights() {
    let said =
        run(&["demo", "--simulated", "--duration", "8", "--rate", "300mbps", "--json", "-", "--no-html"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let document: Value = serde_json::from_str(&said.out).expect("JSON and nothing else");
    let mode = |name: &str| {
        let modes = document["modes"].as_array().expect("modes");
        modes.iter().find(|mode| mode["mode"] == name).expect("the mode").clone()
    };
    let figure =
        |name: &str, place: &str| mode(name).pointer(place).and_then(Value::as_f64).unwrap_or(f64::NAN);
    assert!(figure("loom", "/share_error_p95") < 0.05);
    assert!(figure("mq", "/share_error_p95") > 0.5 && figure("qpf", "/share_error_p95") > 0.5);
    let p90 = |name: &str| figure(name, "/latency_s/p90");
    assert!(
        p90("loom") < 0.2 * p90("qpf") && p90("qpf") < p90("mq"),
        "{} {} {}",
        p90("loom"),
        p90("qpf"),
        p90("mq")
    );
    let wrong = run(&["demo", "--simulated", "--figure", "11"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
    assert!(wrong.err.contains("loom-fig11"), "{}", wrong.err);
}

#[test]
fn tenants_and_their_changes_are_told() {
    let folder = tempfile::tempdir().expect("folder");
    let path = file(&folder, "tenants.toml", run(&["sim", "--example", "tenants"]).out);
    let out = folder.path().join("out.json");
    let said = run(&["sim", &path, "--json", out.to_str().expect("UTF-8")]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    let document = json(&out);
    let changes = document["policy_changes"].as_array().expect("changes");
    let told: Vec<(&str, bool)> =
        changes.iter().map(|of| (of["what"].as_str().expect("a text"), of["refused"].is_string())).collect();
    let expected = [
        ("tenant vm1: vm1-new.weft", false),
        ("tenant vm1: vm1-broken.weft", true),
        ("tenant vm2: no file", false),
        ("policy host-new.weft", false),
    ];
    assert_eq!(told, expected);
    let refused = changes[1]["refused"].as_str().expect("a reason");
    assert!(refused.starts_with("vm1-broken.weft:2:24: error["), "{refused}");
    assert!(
        said.out.contains("tenant vm1: vm1-broken.weft, refused") && said.out.contains(refused),
        "{}",
        said.out
    );
    let rate = |change: usize, class: &str, when: &str| -> f64 {
        let classes = changes[change]["classes"].as_array().expect("classes");
        let class = classes.iter().find(|of| of["class"] == class).expect(class);
        class[when].as_f64().expect("a rate")
    };
    // The files share vm1's part 1:1, then 4:1; the operator at last shares the link 1:3.
    let share = |change, when| rate(change, "vm1.web", when) / rate(change, "vm1.db", when);
    assert!((share(0, "before_bps") - 1.0).abs() < 0.1 && (share(0, "after_bps") / 4.0 - 1.0).abs() < 0.1);
    assert!((share(1, "after_bps") / 4.0 - 1.0).abs() < 0.1, "the last good file stays");
    let both = rate(3, "vm1.web", "after_bps") + rate(3, "vm1.db", "after_bps");
    // The policy comes with a file of vm2, so it has one again.
    let vm2 = rate(3, "vm2.web", "after_bps") + rate(3, "vm2.default", "after_bps");
    assert!((vm2 / both / 3.0 - 1.0).abs() < 0.1, "{vm2} against {both}");

    // Files beside the scenario; what is wrong in one is said with its place.
    let text = "[host.nic]\nscheduler = \"policy\"\ntransmit_queues = \"per-flow\"\n[host.stack]\npolicy_file = \"op.weft\"\n";
    let path = file(&folder, "beside.toml", format!("{SCENARIO}{text}"));
    file(&folder, "op.weft", "a = tenant \"a.weft\" of tcp\nroot = wfq { a: 1, default: 1 }\n");
    let said = run(&["sim", &path]);
    assert!(said.code == 0 && said.err.contains("op.weft:1:12: warning[W0005]"), "{}", said.err);
    file(&folder, "a.weft", "class b = dport 80\nroot = fifo { bb, default }\n");
    let said = run(&["sim", &path]);
    assert_eq!((said.code, said.out.as_str()), (1, ""));
    let place = format!("{}: error[", folder.path().join("a.weft:2:15").display());
    assert!(said.err.starts_with(&place), "{}", said.err);
}

/// Waits until the process `pid` catches `signal`, which would end it before that.
fn wait_for_handler(pid: u32, signal: rustix::process::Signal) {
    let caught = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
    };
    weft_host::testing::wait_for(format!("a handler of {signal:?} in process {pid}"), caught);
}
