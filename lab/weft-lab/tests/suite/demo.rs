//! `weft demo` on real packets: its output, and its cleanup.

use crate::common::{Running, assert_conserved, assert_head, file, json, left_by, until, weft};
use rustix::process::Signal;
use std::time::Duration;
use weft_host::testing::privileged;

/// The flags of the shortest demo.
const SHORT: [&str; 11] = [
    "demo",
    "--plain",
    "--no-html",
    "--modes",
    "loom",
    "--rate",
    "100mbps",
    "--flows",
    "1,1,1,1",
    "--duration",
    "3",
];

fn start(more: &[&str]) -> Running {
    Running(weft().args(SHORT).args(more).spawn().expect("start weft"))
}

/// Waits until the demo's tenants send: its namespaces and cgroups exist.
fn sends(demo: &Running) -> bool {
    until(Duration::from_secs(20), || left_by(demo.0.id()).len() >= 4)
}

fn is_gone(pid: u32) -> bool {
    left_by(pid).is_empty()
}

#[test]
fn two_demos_at_once_both_succeed() {
    if !privileged("two_demos_at_once_both_succeed") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let paths = ["a.json", "b.json"].map(|name| folder.path().join(name));
    let demos = paths.each_ref().map(|path| start(&["--json", path.to_str().expect("UTF-8")]));
    for (demo, path) in demos.into_iter().zip(&paths) {
        let pid = demo.0.id();
        let said = demo.wait(Duration::from_secs(40));
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(said.out.contains("Verdicts") && said.err.contains("mode 1 of 1"), "{said:?}");
        assert!(is_gone(pid));
        let document = json(path);
        assert_head(&document, "weft-demo/1");
        assert_eq!(document["link_bps"], 100_000_000);
        let mode = &document["modes"][0];
        assert_eq!(mode["mode"], "loom");
        assert!(!mode["samples"].as_array().expect("samples").is_empty());
        assert_conserved(&mode["conservation"]);
    }
}

#[test]
fn ctrl_c_and_sigterm_take_everything_down() {
    if !privileged("ctrl_c_and_sigterm_take_everything_down") {
        return;
    }
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let demo = start(&[]);
        let pid = demo.0.id();
        assert!(sends(&demo), "the demo does not begin");
        std::thread::sleep(Duration::from_millis(1500));
        demo.signal(signal);
        let said = demo.wait(Duration::from_secs(20));
        assert_eq!(said.code, code, "{}", said.err);
        assert!(said.err.contains("interrupted; everything was removed"), "{}", said.err);
        assert!(said.out.is_empty() && is_gone(pid), "{:?}", left_by(pid));
    }
}

#[test]
fn the_next_start_removes_what_a_killed_demo_left() {
    if !privileged("the_next_start_removes_what_a_killed_demo_left") {
        return;
    }
    let killed = start(&[]);
    let pid = killed.0.id();
    assert!(sends(&killed), "the demo does not begin");
    killed.signal(Signal::KILL);
    killed.wait(Duration::from_secs(5));
    let next = start(&[]);
    let cleaned = until(Duration::from_secs(20), || is_gone(pid));
    next.signal(Signal::INT);
    let said = next.wait(Duration::from_secs(20));
    assert!(cleaned, "{:?}; {}", left_by(pid), said.err);
}

#[test]
fn json_alone_on_standard_output() {
    if !privileged("json_alone_on_standard_output") {
        return;
    }
    let demo = Running(weft().args(SHORT).args(["--figure", "11", "--json", "-"]).spawn().expect("start"));
    // Figure 11 has six senders.
    let said = demo.wait(Duration::from_secs(40));
    assert!(said.code == 2 && said.err.contains("J0, J1, J2"), "{said:?}");
    let demo = start(&["--json", "-"]);
    let said = demo.wait(Duration::from_secs(40));
    assert_eq!(said.code, 0, "{}", said.err);
    let document = serde_json::from_str(&said.out).expect("only JSON on standard output");
    assert_head(&document, "weft-demo/1");
    assert!(said.err.contains("Verdicts"), "{}", said.err);
}

/// The demo with all its verdicts, as short as possible, with a load that any machine carries. TCP keeps two small packets of a flow
/// below its socket, about 7 kB on a slow link, and sends more when the kernel's softirq runs. So the flows of each tenant are for at
/// least 100 ms of its share (T1 has the link alone, T4 a quarter of it), and no wait for a processor empties them. And a round of all
/// flows takes 150 ms, of which a fifth is more than T0 waits for a processor.
#[test]
fn a_short_demo_holds_all_its_verdicts() {
    if !privileged("a_short_demo_holds_all_its_verdicts") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("demo.json");
    let mut weft = weft();
    // All send for 4 s: beside other programs the one that asks may have no processor for a second or two.
    weft.args(["demo", "--strict", "--plain", "--no-html", "--modes", "qpf,loom", "--rate", "10mbps"]);
    weft.args(["--flows", "96,16,8,6", "--duration", "24", "--json"]).arg(&path);
    let said = Running(weft.spawn().expect("start weft")).wait(Duration::from_secs(180));
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    assert!(!said.out.contains("SHORT") && !said.out.contains("cannot be shown"), "{}", said.out);
    let document = json(&path);
    for mode in document["modes"].as_array().expect("modes") {
        assert_conserved(&mode["conservation"]);
        // The document has backlog and departures, from which all verdicts follow.
        let fine = &mode["fine"];
        let windows = fine["bytes"].as_array().expect("windows").len();
        assert!(windows >= 1_900 && fine["waiting"].as_array().expect("sets").len() == windows, "{windows}");
    }
}

/// The null model on real packets: a policy that gives T1 three times as much is not the equal sharing that the demo
/// judges.
#[test]
fn an_unfair_policy_fails_the_strict_demo() {
    if !privileged("an_unfair_policy_fails_the_strict_demo") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let policy = folder.path().join("unfair.weft");
    let tenants = [0, 1, 2, 3, 4];
    let classes = tenants.map(|i| format!("class T{i} = cgroup \"T{i}\"\n")).concat();
    let parts = tenants.map(|i| format!("fair of T{i}: {}", if i == 1 { 3 } else { 1 })).join(", ");
    std::fs::write(&policy, format!("{classes}root = wfq {{ {parts} }}\n")).expect("policy");
    let demo = start(&["--strict", "--policy", policy.to_str().expect("UTF-8")]);
    let said = demo.wait(Duration::from_secs(40));
    let lag = said.out.lines().find(|line| line.contains("largest lag behind the ideal schedule"));
    assert!(lag.is_some_and(|line| line.starts_with("SHORT")), "{}{}", said.out, said.err);
    assert_eq!(said.code, 1, "{}", said.err);
    let lenient = start(&["--policy", policy.to_str().expect("UTF-8")]).wait(Duration::from_secs(40));
    assert_eq!(lenient.code, 0, "{}", lenient.err);
}

/// The simulated demo has the files of its policy's tenants, like the measured one.
#[test]
fn a_simulated_demo_reads_the_files_of_tenants() {
    let folder = tempfile::tempdir().expect("folder");
    let tenants =
        [0, 1, 2, 3, 4].map(|i| format!("T{i} = tenant \"T{i}.weft\" of cgroup \"T{i}\"\n")).concat();
    let policy =
        file(&folder, "op.weft", format!("{tenants}root = wfq {{ T0: 1, T1: 1, T2: 1, T3: 1, T4: 1 }}\n"));
    for i in 0..5 {
        file(&folder, &format!("T{i}.weft"), "class web = tcp\nroot = priority { fair of web, default }\n");
    }
    let short =
        ["demo", "--simulated", "--no-html", "--duration", "3", "--modes", "loom", "--rate", "20mbps"];
    let run = || {
        let mut weft = weft();
        let demo = weft.args(short).args(["--policy", &policy]).spawn().expect("start weft");
        Running(demo).wait(Duration::from_secs(60))
    };
    let said = run();
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{}", said.out);
    file(&folder, "T3.weft", "class web = tcp\nroot = priority { wbe }\n");
    let said = run();
    assert!(said.code == 1 && said.err.contains("T3.weft:2:19: error["), "{}", said.err);
}
