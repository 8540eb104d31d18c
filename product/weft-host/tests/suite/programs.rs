//! Programs run in the given namespace and cgroup, and end in time.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use weft_host::process::{Output, ProcessError};
use weft_host::{Hierarchy, NetNs, Spawn, testing};

/// Set in a child process that a test makes of this program.
const ROLE: &str = "WEFT_HOST_TEST_ROLE";

fn alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[test]
fn a_program_is_in_its_namespace_and_cgroup_and_session() {
    if !testing::privileged("a_program_is_in_its_namespace_and_cgroup_and_session") {
        return;
    }
    let ns = NetNs::anonymous().expect("ns");
    let cgroup = Hierarchy::detect().expect("cgroup2").create(&testing::unique("prog")).expect("cgroup");
    let mut process = Spawn::new("sleep").arg("60").netns(&ns).cgroup(&cgroup).start().expect("start");
    let pid = process.pid();
    let link = std::fs::read_link(format!("/proc/{}/ns/net", pid.as_raw_nonzero())).expect("ns link");
    assert_eq!(link, PathBuf::from(format!("net:[{}]", ns.inode().expect("inode"))));
    assert_eq!(cgroup.processes().expect("processes"), [pid]);
    assert_eq!(rustix::process::getsid(Some(pid)).expect("sid"), pid);
    assert_eq!(process.try_wait().expect("try_wait"), None);
    assert_eq!(process.wait_timeout(Duration::from_millis(20)).expect("wait"), None);
    let path = cgroup.path().to_path_buf();
    drop(process);
    assert!(!alive(pid));
    drop(cgroup);
    assert!(!path.exists());
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_after_its_grace() {
    use std::os::unix::process::ExitStatusExt;
    let mut obedient = Spawn::new("sleep").arg("60").start().expect("start");
    let status = obedient.stop(Duration::from_secs(10)).expect("stop");
    assert_eq!(status.signal(), Some(Signal::TERM.as_raw()));
    assert_eq!(obedient.stop(Duration::ZERO).expect("stop again"), status);

    let script = "trap '' TERM; echo ready; while :; do sleep 0.05; done";
    let mut stubborn = Spawn::new("sh").args(["-c", script]).stdout(Output::Capture).start().expect("start");
    assert!(testing::until(Duration::from_secs(10), || stubborn.stdout().text() == "ready\n"));
    let status = stubborn.stop(Duration::from_millis(50)).expect("stop");
    assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
}

#[test]
fn output_is_captured_whole() {
    let script = "head -c 300000 /dev/zero; echo oops >&2; exit 3";
    let mut process = Spawn::new("sh")
        .args(["-c", script])
        .stdout(Output::Capture)
        .stderr(Output::Capture)
        .start()
        .expect("start");
    assert_eq!(process.wait().expect("wait").code(), Some(3));
    assert_eq!(process.stdout().bytes.len(), 300_000);
    assert_eq!(process.stderr().text(), "oops\n");
    assert_eq!(process.try_wait().expect("again").and_then(|s| s.code()), Some(3));
}

#[test]
fn a_missing_program_names_its_package() {
    let error = Spawn::new("weft-no-such-program").start().expect_err("missing");
    assert_eq!(error.to_string(), "the program weft-no-such-program is not installed");
    let error = ProcessError::NotInstalled {
        program: "memaslap".into(),
        package: weft_host::programs::package_of("memaslap"),
    };
    let install =
        "the program memaslap is not installed; install it with: apt-get install libmemcached-tools";
    assert_eq!(error.to_string(), install);
}

/// A helper process, not a test: the child of the test below, which starts a program and waits to be killed.
#[test]
fn role_parent_of_a_program() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    // Started from a thread that ends at once: the program must live as long as the process.
    let process =
        std::thread::spawn(|| Spawn::new("sleep").arg("60").start()).join().expect("join").expect("start");
    println!("started {}", process.pid().as_raw_nonzero());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn programs_die_with_this_process_but_not_with_the_thread() {
    let me = std::env::current_exe().expect("own path");
    let mut parent = Spawn::new(me.to_str().expect("text"))
        .args(["--exact", "programs::role_parent_of_a_program", "--nocapture", "--test-threads=1"])
        .env(ROLE, "parent")
        .stdout(Output::Capture)
        .start()
        .expect("start");
    let mut pid = None;
    assert!(testing::until(Duration::from_secs(20), || {
        let text = parent.stdout().text();
        let started = text.split("started ").nth(1).filter(|rest| rest.contains('\n'));
        pid = started.and_then(|rest| rest.lines().next()?.parse().ok()).and_then(Pid::from_raw);
        pid.is_some()
    }));
    let pid = pid.expect("pid");
    std::thread::sleep(Duration::from_millis(100));
    assert!(alive(pid), "the thread that asked for it has ended, and it lives on");
    parent.signal(Signal::KILL).expect("kill");
    assert!(testing::until(Duration::from_secs(5), || !alive(pid)), "it dies with the process");
}
