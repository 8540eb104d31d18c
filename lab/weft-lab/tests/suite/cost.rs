//! `weft bench cost`: it leaves nothing behind, however it ends, and its messages say what is missing.

use crate::common::{Running, Said, left_by, links, program, run, until, weft, weft_without_rights};
use rustix::process::Signal;
use std::time::Duration;
use weft_host::testing::{has_program, privileged};

/// The shortest rounds.
const SHORT: [&str; 7] = ["bench", "cost", "--runs", "1", "--span", "100ms", "--warm-up"];

fn start(warm_up: &str, cases: &[&str]) -> Running {
    Running(weft().args(SHORT).arg(warm_up).args(cases).spawn().expect("start weft"))
}

#[test]
fn a_run_and_an_interrupted_one_leave_nothing() {
    let name = "a_run_and_an_interrupted_one_leave_nothing";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let before = links();
    let whole = start("50ms", &["latency-priority-340-flows-500m"]);
    let pid = whole.0.id();
    let said = whole.wait(Duration::from_secs(120));
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.err.contains("round 1 of 1, htb: ") && said.out.contains("what limits"), "{said:?}");
    assert!(!said.out.contains('\x1b'), "colours without a terminal");
    assert!(left_by(pid).is_empty());
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let interrupted = start("60s", &["cost-8-flows-1g"]);
        let pid = interrupted.0.id();
        assert!(until(Duration::from_secs(30), || left_by(pid).len() >= 2), "it does not begin");
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
fn idle_ports_are_measured_beside_the_busy_ones_alone() {
    let name = "idle_ports_are_measured_beside_the_busy_ones_alone";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let said = start("50ms", &["port-4-flows", "--ports", "6"]).wait(Duration::from_secs(120));
    assert_eq!(said.code, 0, "{}", said.err);
    for variant in ["busy", "ours"] {
        assert!(said.err.contains(&format!("round 1 of 1, {variant}: ")), "{}", said.err);
    }
    assert!(!said.err.contains("forwarder: ") && said.out.contains("<= 1.05"), "{said:?}");
}

#[test]
fn a_missing_program_is_named_and_strict_says_that_nothing_can_be_shown() {
    if !privileged("a_missing_program_is_named_and_strict_says_that_nothing_can_be_shown") {
        return;
    }
    // Programs are also searched in the administrator's folders, so a mount namespace hides iperf3.
    let hidden = |more: &[&str]| -> Said {
        let hide = "for p in $(which -a iperf3) /usr/bin/iperf3; do [ -e $p ] && mount --bind /dev/null $p; done; exec \"$@\"";
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c", hide, "sh", &program()]);
        command.args(SHORT).args(["50ms", "cost-8-flows-1g"]).args(more);
        command.output().expect("run").into()
    };
    let plain = hidden(&[]);
    assert_eq!(plain.code, 1, "{}", plain.err);
    assert!(
        plain.err.contains("iperf3 is not installed; install it with: apt-get install iperf3"),
        "{}",
        plain.err
    );
    assert_eq!(hidden(&["--strict"]).code, 3);
}

#[test]
fn rights_and_names_are_checked_before_anything_is_made() {
    let said: Said = weft_without_rights().args(["bench", "cost"]).output().expect("run").into();
    assert_eq!(said.code, 1);
    assert!(said.err.contains("CAP_NET_ADMIN") && said.err.contains("run as root"), "{}", said.err);
    let unknown = run(&["bench", "cost", "cost-of-everything"]);
    assert!(unknown.code == 2 && unknown.err.contains("cost-8-flows-1g"), "{}", unknown.err);
    let mixed = run(&["bench", "engine", "cost"]);
    assert_eq!(mixed.code, 2, "{}", mixed.err);
    let help = run(&["bench", "cost", "--help"]);
    assert!(help.code == 0 && help.out.contains("  weft bench cost --json"), "{}", help.out);
}
