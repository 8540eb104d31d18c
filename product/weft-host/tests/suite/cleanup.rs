//! The objects of a killed run are removed; those of a live run, and those with similar names, are not.

use std::path::Path;

use rustix::process::{Pid, Signal};
use weft_host::link::{self, VethOptions};
use weft_host::netns::NETNS_DIR;
use weft_host::process::Output;
use weft_host::testing::PATIENCE;
use weft_host::{Hierarchy, NetNs, RunId, Spawn, cleanup_stale, testing};

/// Set in a child process that a test makes of this program.
const ROLE: &str = "WEFT_HOST_TEST_ROLE";

/// The arguments that make this program run a single test; the test's name follows.
const ONE: [&str; 3] = ["--nocapture", "--test-threads=1", "--exact"];

/// A helper process, not a test: a run that makes objects and waits to be killed.
#[test]
fn role_run() {
    if std::env::var_os(ROLE).is_none_or(|role| role != "run") {
        return;
    }
    let id = RunId::current();
    let here = NetNs::current().expect("current");
    let _ns = NetNs::create(&id.name("ns")).expect("namespace");
    let hierarchy = Hierarchy::detect().expect("cgroup2");
    let cgroup = hierarchy.create(&id.to_string()).expect("cgroup");
    let inner = cgroup.child("tenant").expect("child");
    let (a, b) = (id.device("a"), id.device("b"));
    link::create_veth((&here, &a), (&here, &b), &VethOptions::default()).expect("veth");
    link::set_alias(&here, &a, &id.alias()).expect("alias");
    link::set_alias(&here, &b, &id.alias()).expect("alias");
    // A program without a death signal: it outlives its run.
    let mut orphan = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
    inner.add_process(Pid::from_child(&orphan)).expect("join");
    println!("run {id} orphan {}", orphan.id());
    let _ = orphan.wait();
}

/// A helper process, not a test: a later run that cleans up, in the namespaces in which it was started.
#[test]
fn role_clean() {
    if std::env::var_os(ROLE).is_some_and(|role| role == "clean") {
        println!("report: {}", cleanup_stale());
    }
}

struct Made {
    id: RunId,
    orphan: i32,
}

impl Made {
    fn start(ns: &NetNs) -> (weft_host::Process, Made) {
        Made::start_by(ns, &[])
    }

    /// Starts it through a program that runs another, such as `unshare`.
    fn start_by(ns: &NetNs, by: &[&str]) -> (weft_host::Process, Made) {
        let me = std::env::current_exe().expect("own path");
        let words = [by, &[me.to_str().expect("text")], &ONE[..], &["cleanup::role_run"]].concat();
        let mut run = Spawn::new(words[0])
            .args(&words[1..])
            .env(ROLE, "run")
            .netns(ns)
            .stdout(Output::Capture)
            .start()
            .expect("start");
        let mut made = || {
            let text = run.stdout().text();
            let line = text.split_inclusive('\n').find(|l| l.contains(" orphan ") && l.ends_with('\n'))?;
            let words: Vec<_> = line.trim_end().split(' ').rev().collect();
            Some(Made { id: words[2].parse().expect("id"), orphan: words[0].parse().expect("pid") })
        };
        let _ = testing::until(PATIENCE, || made().is_some());
        let made = made().unwrap_or_else(|| panic!("the run did not start: {}", run.stdout().text()));
        (run, made)
    }

    /// The existence of its namespace, cgroup, link and orphan.
    fn there(&self, ns: &NetNs) -> [bool; 4] {
        let cgroup = Hierarchy::detect().expect("cgroup2").mount_point().join(self.id.to_string());
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.orphan)).unwrap_or_default();
        [
            Path::new(NETNS_DIR).join(self.id.name("ns")).exists(),
            cgroup.exists(),
            link::exists(ns, &self.id.device("a")).expect("exists"),
            !stat.is_empty() && !stat.contains(") Z "),
        ]
    }
}

#[test]
fn only_what_dead_runs_made_is_removed() {
    if !testing::privileged("only_what_dead_runs_made_is_removed") {
        return;
    }
    // The links are made in a namespace of this test, in which the cleanup then runs.
    let ns = NetNs::anonymous().expect("ns");
    let foreign_name = format!("weft-foo-{}", std::process::id());
    let foreign = NetNs::create(&foreign_name).expect("foreign");
    let mine = NetNs::create(&testing::unique("mine")).expect("mine");
    link::create_veth((&ns, "other0"), (&ns, "other1"), &VethOptions::default()).expect("veth");
    link::set_alias(&ns, "other0", "weftline is nice").expect("alias");
    let (mut dying, dead) = Made::start(&ns);
    let (living, alive) = Made::start(&ns);
    assert_eq!((dead.there(&ns), alive.there(&ns)), ([true; 4], [true; 4]));

    dying.signal(Signal::KILL).expect("kill");
    dying.wait().expect("wait");
    let report = ns.run(cleanup_stale).expect("run");
    assert_eq!((dead.there(&ns), alive.there(&ns)), ([false; 4], [true; 4]), "{report}");
    for name in [foreign.name(), mine.name()] {
        assert!(Path::new(NETNS_DIR).join(name).exists(), "{name}");
    }
    assert!(link::exists(&ns, "other0").expect("exists"));
    assert!(report.links.iter().all(|name| *name != alive.id.device("a")));
    assert!(report.failed.is_empty(), "{report}");
    drop(living);
    let report = ns.run(cleanup_stale).expect("run");
    assert_eq!(alive.there(&ns), [false; 4], "{report}");
}

/// The case of PID namespaces: the numbers of processes inside have no meaning outside, and vice versa.
const ELSEWHERE: [&str; 5] = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];

#[test]
fn what_a_run_of_another_pid_namespace_owns_stays() {
    const TEST: &str = "what_a_run_of_another_pid_namespace_owns_stays";
    if !testing::privileged(TEST) || !testing::has_program(TEST, "unshare") {
        return;
    }
    let ns = NetNs::anonymous().expect("ns");
    let (near, near_made) = Made::start(&ns);
    let (mut far, far_made) = Made::start_by(&ns, &ELSEWHERE);
    let me = std::env::current_exe().expect("own path");
    let clean = || {
        let mut command = std::process::Command::new(ELSEWHERE[0]);
        command.args(&ELSEWHERE[1..]).arg(&me).args(ONE).arg("cleanup::role_clean").env(ROLE, "clean");
        ns.run(|| command.output()).expect("enter").expect("run")
    };
    // The orphan's number is that of its namespace.
    let whole = |made: &Made| made.there(&ns)[..3] == [true; 3];
    assert!(whole(&near_made) && whole(&far_made));

    let said = clean();
    assert!(said.status.success(), "{said:?}");
    assert_eq!(near_made.there(&ns), [true; 4], "{}", String::from_utf8_lossy(&said.stdout));
    let report = ns.run(cleanup_stale).expect("run");
    assert!(whole(&far_made) && whole(&near_made), "{report}");

    // Once dead, it is removed from outside, although its number is unknown there.
    far.signal(Signal::KILL).expect("kill");
    far.wait().expect("wait");
    let gone = || {
        let report = ns.run(cleanup_stale).expect("run");
        (far_made.there(&ns)[..3] == [false; 3]).then_some(report)
    };
    testing::wait_for("what the far run made is removed", || gone().is_some());
    drop(near);
}

#[test]
fn a_report_says_what_was_done() {
    let mut report = weft_host::cleanup::Report::default();
    assert_eq!(report.to_string(), "nothing was left behind by an earlier run");
    report.links.push("w00001a".into());
    report.killed.extend(Pid::from_raw(7));
    assert_eq!(report.to_string(), "removed what earlier runs left behind: 1 link; killed 1 process");
}
