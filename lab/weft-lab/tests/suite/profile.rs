//! `weft profile`: it leaves nothing behind, however it ends, and its messages say what is missing.

use crate::common::{Running, Said, file, left_by, links, run, until, weft, weft_without_rights};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_facts::json::to_json_pretty;
use weft_facts::record::Document;
use weft_host::testing::{has_program, privileged};
use weft_report::profile::ProfileReport;

const SHORT: [&str; 9] =
    ["profile", "single", "--loaded", "--levels", "tso-gro", "--repeats", "1", "--warm-up", "100ms"];

#[test]
fn a_run_and_an_interrupted_one_leave_nothing() {
    let name = "a_run_and_an_interrupted_one_leave_nothing";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let before = links();
    let folder = tempfile::tempdir().expect("folder");
    let path = |file: &str| folder.path().join(file).to_str().expect("UTF-8").to_owned();
    let files = ["json", "html", "folded", "speedscope"].map(|kind| (format!("--{kind}"), path(kind)));
    let outputs = files.iter().flat_map(|(flag, path)| [flag.as_str(), path]);
    let said = run(&SHORT.into_iter().chain(["--span", "300ms"]).chain(outputs).collect::<Vec<_>>());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("1 of 1: tso-gro, repeat 1: ") && said.out.contains("Clock: "), "{said:?}");
    for (_, path) in &files {
        assert!(std::fs::metadata(path).is_ok_and(|file| file.len() > 100), "{path}");
    }
    let same = run(&["profile", "diff", &files[0].1, &files[0].1]);
    assert!(same.code == 0 && same.out.contains("+0.0000"), "{same:?}");
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut interrupted =
            Running(weft().args(SHORT).args(["--span", "60s"]).spawn().expect("start weft"));
        let pid = interrupted.0.id();
        let mut ended = || interrupted.0.try_wait().expect("wait").is_some();
        let begun = until(Duration::from_secs(30), || left_by(pid).len() >= 2 || ended());
        assert!(begun, "neither begun nor ended: {:?}", left_by(pid));
        assert!(!ended(), "it ended early: {:?}", interrupted.wait(Duration::from_secs(1)));
        std::thread::sleep(Duration::from_millis(700));
        interrupted.signal(signal);
        let said = interrupted.wait(Duration::from_secs(30));
        assert_eq!(said.code, code, "{}", said.err);
        assert!(said.err.contains("interrupted; everything was removed"), "{}", said.err);
        assert!(left_by(pid).is_empty());
    }
    assert_eq!(links(), before);
}

#[test]
fn an_attached_profile_needs_no_traffic_and_ends_when_asked() {
    if !privileged("an_attached_profile_needs_no_traffic_and_ends_when_asked") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let path = |file: &str| folder.path().join(file).to_str().expect("UTF-8").to_owned();
    let none = path("no-socket");
    let files = ["json", "html", "folded", "speedscope"].map(|kind| (format!("--{kind}"), path(kind)));
    let outputs = files.iter().flat_map(|(flag, path)| [flag.as_str(), path]);
    let attach = ["profile", "--attach", "--device", "lo", "--socket", &none];
    let said = run(&attach.into_iter().chain(["--span", "400ms"]).chain(outputs).collect::<Vec<_>>());
    assert_eq!(said.code, 0, "{}", said.err);
    for text in ["Mode: attached", "device lo", "Clock: ", "softirq", "probes"] {
        assert!(said.out.contains(text), "{text}: {}", said.out);
    }
    assert!(!said.out.contains("Classes of policy"), "no daemon, no classes: {}", said.out);
    // An idle machine may have no stacks, so the folded ones may be empty.
    for (_, path) in files.iter().filter(|(kind, _)| kind != "--folded") {
        assert!(std::fs::metadata(path).is_ok_and(|file| file.len() > 100), "{path}");
    }
    let trials = ProfileReport { schema: ProfileReport::SCHEMA.to_owned(), ..ProfileReport::default() };
    let trials = file(&folder, "trials.json", to_json_pretty(&trials).expect("JSON"));
    let mixed = run(&["profile", "diff", &files[0].1, &trials]);
    assert!(mixed.code == 1 && mixed.err.contains("only two of a kind compare"), "{mixed:?}");
    let judged = run(&["profile", "symbols", "--profile", &files[0].1]);
    assert!(judged.err.contains("innermost functions without a rule"), "{judged:?}");

    let mut interrupted = Running(weft().args(attach).args(["--span", "60s"]).spawn().expect("start weft"));
    // An idle machine has no samples.
    let errors = interrupted.0.stderr.take().expect("standard error");
    let busy = &AtomicBool::new(true);
    let first = std::thread::scope(|scope| {
        scope.spawn(move || {
            while busy.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let first = BufReader::new(errors).lines().next();
        busy.store(false, Ordering::Relaxed);
        first
    });
    let first = first.expect("a line").expect("UTF-8");
    assert!(first.contains("measuring for 60 s; Ctrl-C ends it and reports"), "{first}");
    interrupted.signal(Signal::INT);
    let said = interrupted.wait(Duration::from_secs(30));
    assert!(said.code == 0 && said.out.contains("Mode: attached"), "{said:?}");
}

#[test]
fn wrong_usage_and_missing_rights_are_said() {
    for args in [
        &["profile"][..],
        &["profile", "everywhere"],
        &["profile", "single", "--flows", "25"],
        &["profile", "single", "--levels", "jumbo,jumbo"],
        &["profile", "single", "--rate", "0"],
        &["profile", "single", "--attach"],
        &["profile", "single", "--pid", "1"],
        &["profile", "single", "--device", "lo"],
        &["profile", "single", "--to", "a", "--try"],
        &["profile", "--attach", "--pid", "1", "--device", "lo"],
        &["profile", "--attach", "--top", "0"],
    ] {
        assert_eq!(run(args).code, 2, "{args:?}");
    }
    assert_eq!(run(&["profile", "diff", "/no/such/file", "/no/such/file"]).code, 1);
    for args in [&["profile", "single"][..], &["profile", "--attach"]] {
        let said = weft_without_rights().args(args).output().map(Said::from).expect("run weft");
        assert!(said.code == 1 && said.err.contains("root"), "{said:?}");
        assert_eq!(said.err.lines().count(), 1, "{said:?}");
    }
}
