//! The kernel form of policies: the trees of known ones, and what each of them keeps.

use crate::common::compiled;
use expect_test::{Expect, expect};
use std::fmt::Write;
use weft_policy::kernel::{LowerError, Lowered, lower};
use weft_policy::{CompiledPolicy, infrastructure_rate};
use weft_units::BitsPerSec;

/// The policy of the measurements: a is limited to a tenth of the link.
pub(crate) const MEASURED: &str = "link 24mbps
class a = mark 1
class b = mark 2
class c = mark 3
class d = mark 4
root  = priority { a.lim, rest, default }
a.lim = limit 2400kbps of a
rest  = wfq { x: 3, d: 1 }
x     = wfq { b: 1, c: 4 }
";

#[track_caller]
pub(crate) fn policy(text: &str) -> CompiledPolicy {
    let compilation = compiled(text);
    compilation.policy.unwrap_or_else(|| panic!("{text}\n{:?}", compilation.diagnostics))
}

#[track_caller]
pub(crate) fn lowered(text: &str) -> Lowered {
    lower(&policy(text)).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// The tree as commands without comments, the filters, the values of classes and the promises.
fn shown(lowered: &Lowered, policy: &CompiledPolicy) -> String {
    let commands = lowered.tree.commands("eth0").replace(" dev eth0", "").replace("tc ", "");
    let mut out: String =
        commands.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    for filter in &lowered.map.filters {
        let _ = write!(out, "filter {}", filter.qdisc);
        for (value, class) in &filter.classes {
            let _ = write!(out, " {value} -> {class}");
        }
        let _ = writeln!(out, "{}", filter.otherwise.map_or_else(String::new, |class| format!(" others -> {class}")));
    }
    for (class, leaf) in policy.classes.iter().zip(&lowered.map.classes) {
        let _ = writeln!(out, "class {} = {}", class.name, leaf.expect("a leaf"));
    }
    for clock in &lowered.map.clocks {
        let _ = writeln!(out, "clock {} {} horizon {}", clock.name, clock.rate, clock.horizon);
    }
    for promise in lowered.promises() {
        let _ = write!(out, "{}: {}", promise.promise, promise.kept.as_str());
        let _ = write!(out, "{}", promise.within.map_or_else(String::new, |within| format!(" ({within})")));
        let _ = writeln!(out, "{}", promise.instead.map_or_else(String::new, |instead| format!(" -> {instead}")));
    }
    out
}

#[track_caller]
fn check(text: &str, tree: &Expect) {
    let policy = policy(text);
    tree.assert_eq(&shown(&lower(&policy).expect("a tree"), &policy));
}

/// A policy of the repository, with a link where it has none.
fn ready(name: &str) -> CompiledPolicy {
    let path = format!("{}/../../policies/{name}", env!("CARGO_MANIFEST_DIR"));
    let policy = policy(&std::fs::read_to_string(path).expect("the policy is there"));
    CompiledPolicy { link: policy.link.or(Some(BitsPerSec(10_000_000_000))), ..policy }
}

#[test]
fn the_measured_policy_is_the_measured_tree() {
    check(MEASURED, &expect![[r#"
        qdisc add root handle 7e57: htb default 14
        class add parent 7e57: classid 7e57:1 htb rate 24000000bit ceil 24000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
        class add parent 7e57:1 classid 7e57:14 htb rate 8000bit ceil 24000000bit burst 1600b cburst 67050b prio 2 quantum 60000 overhead 24
        qdisc add parent 7e57:14 handle 14: fq_codel limit 10000 target 5000us
        class add parent 7e57:1 classid 7e57:2 htb rate 2000000bit ceil 2000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
        qdisc add parent 7e57:2 handle 2: pfifo limit 1000
        class add parent 7e57:1 classid 7e57:10 htb rate 8000bit ceil 2400000bit burst 1600b cburst 67050b prio 0 quantum 60000 overhead 24
        qdisc add parent 7e57:10 handle 10: fq_codel limit 10000 target 10094us
        class add parent 7e57:1 classid 7e57:8001 htb rate 8000bit ceil 24000000bit burst 1600b cburst 67050b prio 1 quantum 60000 overhead 24
        qdisc add parent 7e57:8001 handle 7e59: drr
        class add parent 7e59: classid 7e59:8002 drr quantum 4542
        qdisc add parent 7e59:8002 handle 7e5a: drr
        class add parent 7e5a: classid 7e5a:11 drr quantum 1514
        qdisc add parent 7e5a:11 handle 11: fq_codel limit 10000 target 6729us
        class add parent 7e5a: classid 7e5a:12 drr quantum 6056
        qdisc add parent 7e5a:12 handle 12: fq_codel limit 10000 target 5000us
        class add parent 7e59: classid 7e59:13 drr quantum 1514
        qdisc add parent 7e59:13 handle 13: fq_codel limit 10000 target 5000us
        filter 7e57: 7e59:13 -> 7e57:8001 7e5a:11 -> 7e57:8001 7e5a:12 -> 7e57:8001
        filter 7e59: 7e5a:11 -> 7e59:8002 7e5a:12 -> 7e59:8002
        class a = 7e57:10
        class b = 7e5a:11
        class c = 7e5a:12
        class d = 7e59:13
        class default = 7e57:14
        packets are in their classes: yes
        root: strict priority: within (each class below keeps 8 kb/s)
        rest: shares by weights: within (1 % over 5 s, and 4 % in a single second)
        x: shares by weights: within (1 % over 5 s, and 4 % in a single second)
        packets of a class leave in the order of arrival: within (flows of a class have turns (fq_codel or fq) and each keeps the order of its packets)
        limit a.lim: within (1.6 %: a super-packet counts the bytes around one frame; 67 kB may leave at once, as much as a super-packet)
        bounds hold: within (fq_codel drops earlier, when packets wait for long, and at the bound those of the largest flow; classes in one `fifo` share the sum of their bounds; below limits by destination or port, fq has bounds of its own; a super-packet counts as one)
        infrastructure has a share: within (a class above all others has twice its share: the host's own packets, and those that it forwards; no share of it for each cgroup)
        limits hold: within (each as listed)
    "#]]);
}
