//! The kernel form of policies: the trees of known ones, and what each of them keeps.

use crate::common::compiled;
use expect_test::{Expect, expect};
use std::fmt::Write;
use weft_policy::kernel::{
    KernelDifference, KernelPart, KernelQdiscs, LowerError, Lowered, NewRoot, diff, lower, lower_on,
};
use weft_policy::promise::{About, Kept};
use weft_policy::{CompiledPolicy, infrastructure_rate, renumber};
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
    let mut out: String = commands
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    for filter in &lowered.map.filters {
        let _ = write!(out, "filter {}", filter.qdisc);
        for (value, class) in &filter.classes {
            let _ = write!(out, " {value} -> {class}");
        }
        let _ = writeln!(
            out,
            "{}",
            filter.otherwise.map_or_else(String::new, |class| format!(" others -> {class}"))
        );
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
        let _ =
            writeln!(out, "{}", promise.instead.map_or_else(String::new, |instead| format!(" -> {instead}")));
    }
    out
}

#[track_caller]
fn check(text: &str, tree: &Expect) {
    let policy = policy(text);
    tree.assert_eq(&shown(&lower(&policy).expect("a tree"), &policy));
}

/// The parts of the tree without infrastructure, and without the rest.
#[track_caller]
fn check_tree(text: &str, tree: &Expect) {
    let commands = lowered(text).tree.commands("eth0").replace(" dev eth0", "").replace("tc ", "");
    let shown = commands
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#') && !line.contains("7e57:2 "));
    tree.assert_eq(&shown.map(|line| format!("{line}\n")).collect::<String>());
}

/// The first statement that is not kept, with what to write instead.
fn refused(text: &str) -> (About, String, String) {
    let refusal = lowered(text).refusal().expect("a refusal");
    (refusal.about, refusal.reason, refusal.instead)
}

/// A policy of the repository, with a link where it has none.
fn ready(name: &str) -> CompiledPolicy {
    let path = format!("{}/../../policies/{name}", env!("CARGO_MANIFEST_DIR"));
    let policy = policy(&std::fs::read_to_string(path).expect("the policy is there"));
    CompiledPolicy { link: policy.link.or(Some(BitsPerSec(10_000_000_000))), ..policy }
}

#[test]
fn the_measured_policy_is_the_measured_tree() {
    check(
        MEASURED,
        &expect![[r#"
            qdisc add root handle 7e57: htb default 14
            class add parent 7e57: classid 7e57:1 htb rate 24000000bit ceil 24000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
            class add parent 7e57:1 classid 7e57:14 htb rate 8000bit ceil 24000000bit burst 1600b cburst 67050b prio 2 quantum 60000 overhead 24
            qdisc add parent 7e57:14 handle 14: fq_codel limit 10000 target 5000us
            class add parent 7e57:1 classid 7e57:2 htb rate 2000000bit ceil 2000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
            qdisc add parent 7e57:2 handle 2: pfifo limit 1000
            class add parent 7e57:1 classid 7e57:10 htb rate 2400000bit ceil 2400000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
            qdisc add parent 7e57:10 handle 10: fq_codel limit 10000 target 10094us
            class add parent 7e57:1 classid 7e57:8001 htb rate 19592000bit ceil 24000000bit burst 67050b cburst 67050b prio 1 quantum 60000 overhead 24
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
        "#]],
    );
}

#[test]
fn tenants_of_the_paper_share_by_turns() {
    let policy = ready("tenants.weft");
    let found = lower(&policy).expect("a tree");
    assert_eq!(found.refusal(), None);
    expect![[r#"
        qdisc add root handle 7e57: htb default 8000
        class add parent 7e57: classid 7e57:1 htb rate 10000000000bit ceil 10000000000bit burst 2500000b cburst 2500000b prio 0 quantum 60000 overhead 24
        class add parent 7e57:1 classid 7e57:8000 htb rate 8000bit ceil 10000000000bit burst 1600b cburst 2500000b prio 0 quantum 60000 overhead 24
        qdisc add parent 7e57:8000 handle 7e58: drr
        class add parent 7e58: classid 7e58:15 drr quantum 208333
        qdisc add parent 7e58:15 handle 15: fq_codel limit 10000 target 5000us
        class add parent 7e57:1 classid 7e57:2 htb rate 200000000bit ceil 200000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
        qdisc add parent 7e57:2 handle 2: pfifo limit 1000
        class add parent 7e58: classid 7e58:10 drr quantum 208333
        qdisc add parent 7e58:10 handle 10: fq_codel limit 10000 target 5000us
        class add parent 7e58: classid 7e58:11 drr quantum 208333
        qdisc add parent 7e58:11 handle 11: fq_codel limit 10000 target 5000us
        class add parent 7e58: classid 7e58:12 drr quantum 208333
        qdisc add parent 7e58:12 handle 12: fq_codel limit 10000 target 5000us
        class add parent 7e58: classid 7e58:13 drr quantum 208333
        qdisc add parent 7e58:13 handle 13: fq_codel limit 10000 target 5000us
        class add parent 7e58: classid 7e58:14 drr quantum 208333
        qdisc add parent 7e58:14 handle 14: fq_codel limit 10000 target 5000us
        filter 7e57: 7e58:10 -> 7e57:8000 7e58:11 -> 7e57:8000 7e58:12 -> 7e57:8000 7e58:13 -> 7e57:8000 7e58:14 -> 7e57:8000 7e58:15 -> 7e57:8000
        filter 7e58: others -> 7e58:15
        class T0 = 7e58:10
        class T1 = 7e58:11
        class T2 = 7e58:12
        class T3 = 7e58:13
        class T4 = 7e58:14
        class default = 7e58:15
        packets are in their classes: within (`cgroup` has packets of this host's sockets: none that the host routes, and those that it bridges only where br_netfilter is off)
        root: shares by weights: within (1 % over 5 s, and 4 % in a single second)
        T0: fair over its flows: within (flows share by fq_codel: one beside 16 others had 7.0 % where 5.9 % is even)
        T1: fair over its flows: within (flows share by fq_codel: one beside 16 others had 7.0 % where 5.9 % is even)
        T2: fair over its flows: within (flows share by fq_codel: one beside 16 others had 7.0 % where 5.9 % is even)
        T3: fair over its flows: within (flows share by fq_codel: one beside 16 others had 7.0 % where 5.9 % is even)
        T4: fair over its flows: within (flows share by fq_codel: one beside 16 others had 7.0 % where 5.9 % is even)
        packets of a class leave in the order of arrival: within (flows of a class have turns (fq_codel or fq) and each keeps the order of its packets)
        bounds hold: within (fq_codel drops earlier, when packets wait for long, and at the bound those of the largest flow; classes in one `fifo` share the sum of their bounds; below limits by destination or port, fq has bounds of its own; a super-packet counts as one)
        infrastructure has a share: within (a class above all others has twice its share: the host's own packets, and those that it forwards; no share of it for each cgroup)
    "#]].assert_eq(&shown(&found, &policy));
}

#[test]
fn a_rate_limit_is_a_ceiling() {
    let policy = ready("rate-limit.weft");
    let found = lower(&policy).expect("a tree");
    assert_eq!(found.refusal(), None);
    expect![[r#"
        qdisc add root handle 7e57: htb default 11
        class add parent 7e57: classid 7e57:1 htb rate 10000000000bit ceil 10000000000bit burst 2500000b cburst 2500000b prio 0 quantum 60000 overhead 24
        class add parent 7e57:1 classid 7e57:11 htb rate 7800000000bit ceil 10000000000bit burst 1950000b cburst 2500000b prio 1 quantum 60000 overhead 24
        qdisc add parent 7e57:11 handle 11: fq_codel limit 10000 target 5000us
        class add parent 7e57:1 classid 7e57:2 htb rate 200000000bit ceil 200000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
        qdisc add parent 7e57:2 handle 2: pfifo limit 1000
        class add parent 7e57:1 classid 7e57:10 htb rate 2000000000bit ceil 2000000000bit burst 500000b cburst 503076b prio 0 quantum 60000 overhead 24
        qdisc add parent 7e57:10 handle 10: fq_codel limit 10000 target 5000us
        class memcached = 7e57:10
        class default = 7e57:11
        packets are in their classes: yes
        root: strict priority: within (each class below keeps 8 kb/s)
        app.flows: fair over its flows: within (flows share by fq_codel: one beside 16 others had 7.0 % where 5.9 % is even)
        packets of a class leave in the order of arrival: within (flows of a class have turns (fq_codel or fq) and each keeps the order of its packets)
        limit app: within (1.6 %: a super-packet counts the bytes around one frame)
        bounds hold: within (fq_codel drops earlier, when packets wait for long, and at the bound those of the largest flow; classes in one `fifo` share the sum of their bounds; below limits by destination or port, fq has bounds of its own; a super-packet counts as one)
        infrastructure has a share: within (a class above all others has twice its share: the host's own packets, and those that it forwards; no share of it for each cgroup)
    "#]].assert_eq(&shown(&found, &policy));
}

/// The limits by destination of VM 1 hold packets below `wfq` and below a priority in it.
#[test]
fn figure_1_is_refused_unless_the_order_in_vm_1_may_go() {
    let policy = ready("figure1.weft");
    let found = lower(&policy).expect("a tree");
    let refusal = found.refusal().expect("a refusal");
    assert_eq!(refusal.about, About::Named("vm1.apps".to_owned()));
    expect![[r#"
        qdisc add root handle 7e57: htb default 16
        class add parent 7e57: classid 7e57:1 htb rate 40000000000bit ceil 40000000000bit burst 10000000b cburst 10000000b prio 0 quantum 60000 overhead 24
        class add parent 7e57:1 classid 7e57:16 htb rate 8000bit ceil 40000000000bit burst 1600b cburst 10000000b prio 2 quantum 60000 overhead 24
        qdisc add parent 7e57:16 handle 16: fq_codel limit 10000 target 5000us
        class add parent 7e57:1 classid 7e57:2 htb rate 800000000bit ceil 800000000bit burst 200000b cburst 200000b prio 0 quantum 60000 overhead 24
        qdisc add parent 7e57:2 handle 2: pfifo limit 1000
        class add parent 7e57:1 classid 7e57:10 htb rate 39199952000bit ceil 40000000000bit burst 9799988b cburst 10000000b prio 0 quantum 60000 overhead 24
        qdisc add parent 7e57:10 handle 10: fq_codel limit 10000 target 5000us
        class add parent 7e57:1 classid 7e57:11 htb rate 8000bit ceil 40000000000bit burst 1600b cburst 10000000b prio 1 quantum 24998 overhead 24
        qdisc add parent 7e57:11 handle 11: fq limit 165130 flow_limit 16513
        class add parent 7e57:1 classid 7e57:12 htb rate 8000bit ceil 40000000000bit burst 1600b cburst 10000000b prio 1 quantum 12499 overhead 24
        qdisc add parent 7e57:12 handle 12: fq limit 165130 flow_limit 16513
        class add parent 7e57:1 classid 7e57:13 htb rate 8000bit ceil 40000000000bit burst 1600b cburst 10000000b prio 1 quantum 12499 overhead 24
        qdisc add parent 7e57:13 handle 13: fq limit 165130 flow_limit 16513
        class add parent 7e57:1 classid 7e57:14 htb rate 8000bit ceil 40000000000bit burst 1600b cburst 10000000b prio 1 quantum 99992 overhead 24
        qdisc add parent 7e57:14 handle 14: fq_codel limit 10000 target 5000us
        class add parent 7e57:1 classid 7e57:15 htb rate 8000bit ceil 40000000000bit burst 1600b cburst 10000000b prio 1 quantum 199984 overhead 24
        qdisc add parent 7e57:15 handle 15: fq_codel limit 10000 target 5000us
        class mgmt = 7e57:10
        class vm1.kvs = 7e57:11
        class vm1.hadoop = 7e57:12
        class vm1.spark = 7e57:13
        class vm2 = 7e57:14
        class vm3 = 7e57:15
        class default = 7e57:16
        clock vm1[10.0.1.0/24] 2 Gb/s horizon 100 ms
        clock vm1[10.0.2.0/24] 500 Mb/s horizon 100 ms
        packets are in their classes: within (`cgroup` has packets of this host's sockets: none that the host routes, and those that it bridges only where br_netfilter is off)
        root: strict priority: within (each class below keeps 8 kb/s)
        tenants: shares by weights: within (limits hold packets below it: classes share roughly by weight, since HTB sends a super-packet whole in each turn, and what an idle class leaves goes to all of them and not first to its siblings)
        vm1.apps: strict priority: no (limits hold packets below it, and HTB counts priority for all classes that share by weights above it: its children share evenly) -> write `vm1.apps` without limits, or above the `wfq`
        vm1.batch: shares by weights: within (limits hold packets below it: classes share roughly by weight, since HTB sends a super-packet whole in each turn, and what an idle class leaves goes to all of them and not first to its siblings)
        vm1.hadoop: fair over its flows: within (flows have turns (fq), each as far as the limits by destination and port let it)
        vm1.spark: fair over its flows: within (flows have turns (fq), each as far as the limits by destination and port let it)
        packets of a class leave in the order of arrival: within (flows of a class have turns (fq_codel or fq) and each keeps the order of its packets)
        limit vm1[10.0.1.0/24]: within (by the time of each packet: 0.1 % with eight flows, 1.9 % with one, 3 % in a single second)
        limit vm1[10.0.2.0/24]: within (by the time of each packet: 0.1 % with eight flows, 1.9 % with one, 3 % in a single second)
        bounds hold: within (fq_codel drops earlier, when packets wait for long, and at the bound those of the largest flow; classes in one `fifo` share the sum of their bounds; below limits by destination or port, fq has bounds of its own; a super-packet counts as one)
        infrastructure has a share: within (a class above all others has twice its share: the host's own packets, and those that it forwards; no share of it for each cgroup)
    "#]].assert_eq(&shown(&found, &policy));
}

#[test]
fn figure_11_has_guarantees_and_a_clock() {
    let policy = ready("figure11.weft");
    let found = lower(&policy).expect("a tree");
    assert_eq!(found.refusal(), None);
    expect![[r#"
        qdisc add root handle 7e57: htb default 16
        class add parent 7e57: classid 7e57:1 htb rate 10000000000bit ceil 10000000000bit burst 2500000b cburst 2500000b prio 0 quantum 60000 overhead 24
        class add parent 7e57:1 classid 7e57:8000 htb rate 9800000000bit ceil 10000000000bit burst 2450000b cburst 2500000b prio 0 quantum 60000 overhead 24
        class add parent 7e57:8000 classid 7e57:16 htb rate 1960000000bit ceil 10000000000bit burst 490000b cburst 2500000b prio 0 quantum 48000 overhead 24
        qdisc add parent 7e57:16 handle 16: fq_codel limit 10000 target 5000us
        class add parent 7e57:1 classid 7e57:2 htb rate 200000000bit ceil 200000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
        qdisc add parent 7e57:2 handle 2: pfifo limit 1000
        class add parent 7e57:8000 classid 7e57:8001 htb rate 1960000000bit ceil 10000000000bit burst 490000b cburst 2500000b prio 0 quantum 60000 overhead 24
        class add parent 7e57:8001 classid 7e57:10 htb rate 653333328bit ceil 10000000000bit burst 163333b cburst 2500000b prio 0 quantum 16000 overhead 24
        qdisc add parent 7e57:10 handle 10: fq limit 206410 flow_limit 20641
        class add parent 7e57:8001 classid 7e57:11 htb rate 653333328bit ceil 10000000000bit burst 163333b cburst 2500000b prio 0 quantum 16000 overhead 24
        qdisc add parent 7e57:11 handle 11: fq limit 206410 flow_limit 20641
        class add parent 7e57:8001 classid 7e57:12 htb rate 653333328bit ceil 10000000000bit burst 163333b cburst 2500000b prio 0 quantum 16000 overhead 24
        qdisc add parent 7e57:12 handle 12: fq limit 206410 flow_limit 20641
        class add parent 7e57:8000 classid 7e57:13 htb rate 1960000000bit ceil 10000000000bit burst 490000b cburst 2500000b prio 0 quantum 48000 overhead 24
        qdisc add parent 7e57:13 handle 13: fq_codel limit 10000 target 5000us
        class add parent 7e57:8000 classid 7e57:14 htb rate 1960000000bit ceil 10000000000bit burst 490000b cburst 2500000b prio 0 quantum 48000 overhead 24
        qdisc add parent 7e57:14 handle 14: fq_codel limit 10000 target 5000us
        class add parent 7e57:8000 classid 7e57:15 htb rate 1960000000bit ceil 10000000000bit burst 490000b cburst 2500000b prio 0 quantum 48000 overhead 24
        qdisc add parent 7e57:15 handle 15: fq_codel limit 10000 target 5000us
        class J0 = 7e57:10
        class J1 = 7e57:11
        class J2 = 7e57:12
        class T2 = 7e57:13
        class T3 = 7e57:14
        class T4 = 7e57:15
        class default = 7e57:16
        clock destination2 2.5 Gb/s horizon 100 ms
        packets are in their classes: within (`cgroup` has packets of this host's sockets: none that the host routes, and those that it bridges only where br_netfilter is off)
        root: shares by weights: within (limits hold packets below it: 0.1 % while all send; what others leave goes by class and not by the tree, so a share may be off by as much as is left (2.0 to 2.6 for 3 where a tenth of the link was))
        T1.jobs: shares by weights: within (limits hold packets below it: 0.1 % while all send; what others leave goes by class and not by the tree, so a share may be off by as much as is left (2.0 to 2.6 for 3 where a tenth of the link was))
        J0: fair over its flows: within (flows have turns (fq), each as far as the limits by destination and port let it)
        J1: fair over its flows: within (flows have turns (fq), each as far as the limits by destination and port let it)
        J2: fair over its flows: within (flows have turns (fq), each as far as the limits by destination and port let it)
        T2: fair over its flows: within (flows share by fq_codel: one beside 16 others had 7.0 % where 5.9 % is even)
        T3: fair over its flows: within (flows share by fq_codel: one beside 16 others had 7.0 % where 5.9 % is even)
        T4: fair over its flows: within (flows share by fq_codel: one beside 16 others had 7.0 % where 5.9 % is even)
        packets of a class leave in the order of arrival: within (flows of a class have turns (fq_codel or fq) and each keeps the order of its packets)
        limit destination2: within (by the time of each packet: 0.1 % with eight flows, 1.9 % with one, 3 % in a single second)
        bounds hold: within (fq_codel drops earlier, when packets wait for long, and at the bound those of the largest flow; classes in one `fifo` share the sum of their bounds; below limits by destination or port, fq has bounds of its own; a super-packet counts as one)
        infrastructure has a share: within (a class above all others has twice its share: the host's own packets, and those that it forwards; no share of it for each cgroup)
    "#]].assert_eq(&shown(&found, &policy));
}

#[test]
fn a_priority_below_weights_is_a_prio_qdisc() {
    check_tree(
        "link 24mbps\nclass a = mark 1\nclass b = mark 2\nclass c = mark 3\nclass d = mark 4\nclass e = mark 5\n\
         root = wfq { priority { a, priority { b, wfq { c: 1, d: 2 } } }: 3, e: 1, default: 1 }\n",
        &expect![[r#"
            qdisc add root handle 7e57: htb default 8000
            class add parent 7e57: classid 7e57:1 htb rate 24000000bit ceil 24000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
            class add parent 7e57:1 classid 7e57:8000 htb rate 8000bit ceil 24000000bit burst 1600b cburst 67050b prio 0 quantum 60000 overhead 24
            qdisc add parent 7e57:8000 handle 7e58: drr
            class add parent 7e58: classid 7e58:15 drr quantum 1514
            qdisc add parent 7e58:15 handle 15: fq_codel limit 10000 target 5047us
            class add parent 7e58: classid 7e58:8001 drr quantum 4542
            qdisc add parent 7e58:8001 handle 7e59: prio bands 3 priomap 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2 2
            qdisc add parent 7e59:1 handle 10: fq_codel limit 10000 target 5000us
            qdisc add parent 7e59:2 handle 11: fq_codel limit 10000 target 5000us
            qdisc add parent 7e59:3 handle 7e5b: drr
            class add parent 7e5b: classid 7e5b:12 drr quantum 1514
            qdisc add parent 7e5b:12 handle 12: fq_codel limit 10000 target 5047us
            class add parent 7e5b: classid 7e5b:13 drr quantum 3028
            qdisc add parent 7e5b:13 handle 13: fq_codel limit 10000 target 5000us
            class add parent 7e58: classid 7e58:14 drr quantum 1514
            qdisc add parent 7e58:14 handle 14: fq_codel limit 10000 target 5047us
        "#]],
    );
}

#[test]
fn a_limit_below_weights_makes_them_htb_classes() {
    check_tree(
        "link 24mbps\nclass a = mark 1\nclass b = mark 2\nclass c = mark 3\n\
         root = wfq { limit 2400kbps of a: 3, wfq { b: 1, c: 2 }: 3, default: 1 }\n",
        &expect![[r#"
            qdisc add root handle 7e57: htb default 13
            class add parent 7e57: classid 7e57:1 htb rate 24000000bit ceil 24000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
            class add parent 7e57:1 classid 7e57:8000 htb rate 22000000bit ceil 24000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
            class add parent 7e57:8000 classid 7e57:13 htb rate 4900000bit ceil 24000000bit burst 67050b cburst 67050b prio 0 quantum 16000 overhead 24
            qdisc add parent 7e57:13 handle 13: fq_codel limit 10000 target 7066us
            class add parent 7e57:8000 classid 7e57:10 htb rate 2400000bit ceil 2400000bit burst 67050b cburst 67050b prio 0 quantum 48000 overhead 24
            qdisc add parent 7e57:10 handle 10: fq_codel limit 10000 target 10094us
            class add parent 7e57:8000 classid 7e57:8001 htb rate 14700000bit ceil 24000000bit burst 67050b cburst 67050b prio 0 quantum 48000 overhead 24
            qdisc add parent 7e57:8001 handle 7e59: drr
            class add parent 7e59: classid 7e59:11 drr quantum 1514
            qdisc add parent 7e59:11 handle 11: fq_codel limit 10000 target 7066us
            class add parent 7e59: classid 7e59:12 drr quantum 3028
            qdisc add parent 7e59:12 handle 12: fq_codel limit 10000 target 5000us
        "#]],
    );
}

#[test]
fn many_levels_of_priority_are_bands() {
    let classes: String = (0..9).map(|number| format!("class c{number} = mark {number}\n")).collect();
    let names: Vec<String> = (0..9).map(|number| format!("c{number}")).collect();
    let bands = lowered(&format!("link 1gbps\n{classes}root = priority {{ {} }}\n", names.join(", ")));
    assert_eq!(bands.refusal(), None);
    assert!(bands.tree.commands("eth0").contains("prio bands 10 priomap 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9"));
    // A limit among them takes the prio qdisc away.
    let limited = format!("link 1gbps\n{classes}root = priority {{ limit 1mbps of {} }}\n", names.join(", "));
    let (_, reason, _) = refused(&limited);
    assert!(reason.contains("strict priority has 10 levels, and HTB has 8"), "{reason}");
}

#[test]
fn several_classes_share_a_queue() {
    let found = lowered(
        "link 1gbps\nclass a = mark 1\nclass b = mark 2\nbound 5 packets of a\nbound 7 packets of b\nroot = priority { fifo { a, b }, default }\n",
    );
    let (a, b) = (found.map.classes[0].expect("a"), found.map.classes[1].expect("b"));
    assert_eq!(a, b);
    assert_eq!(found.tree.queue(a).expect("a queue").options(), "pfifo limit 12");
}

#[test]
fn a_link_without_a_rate_is_refused_with_what_to_give() {
    let error = lower(&policy("root = default\n")).expect_err("refused");
    assert_eq!(error, LowerError::NoLinkRate);
    let refusal = error.refusal();
    assert!(refusal.instead.contains("`link 10gbps`") && refusal.instead.contains("--rate"), "{refusal:?}");
    let slow = lower(&CompiledPolicy {
        link: Some(BitsPerSec(9)),
        ..policy("class a = mark 1\nroot = priority { a, default }\n")
    });
    assert!(matches!(slow, Err(LowerError::LinkTooSlow(..))), "{slow:?}");
}

#[test]
fn statements_that_no_qdisc_keeps_are_refused_with_what_to_write() {
    let classes = "link 1gbps\nclass a = udp\nclass b = tcp\nclass c = icmp\n";
    let of = |rest: &str| refused(&format!("{classes}{rest}"));
    let algorithm = |place: &str, algorithm: &str| About::Algorithm {
        place: place.to_owned(),
        algorithm: algorithm.to_owned(),
    };
    for (rest, about, instead) in [
        (
            "root = edf { a: 1ms, b: 2ms, c: 5ms, default: 9ms }\n",
            algorithm("root", "edf"),
            "`priority` or `wfq`",
        ),
        ("root = priority { las of a, b, c }\n", algorithm("a", "las"), "`fair of`"),
        ("root = priority { codel target 5ms of a, b, c }\n", algorithm("a", "codel"), "drop by CoDel"),
        (
            "latency 200us of a\nroot = priority { a, b, c }\n",
            About::Named("a".to_owned()),
            "gso_max_size 25000",
        ),
        (
            "root = priority { c, wfq { q: 1, default: 1 } }\nq = priority { limit 1mbps of a, b }\n",
            About::Named("q".to_owned()),
            "without limits",
        ),
    ] {
        let (found, reason, said) = of(rest);
        assert_eq!(found, about, "{reason}");
        assert!(said.contains(instead), "{said}");
    }
    let process = "link 1gbps\nclass a = process \"nginx\"\nroot = priority { a, default }\n";
    assert!(refused(process).1.contains("`process`"));
}

#[test]
fn tests_that_see_less_say_so() {
    let found = lowered(
        "link 1gbps\nclass a = cgroup \"/a\"\nclass b = user 1000\nclass c = port \"vm1\"\nroot = priority { a, b, c, default }\n",
    );
    let classes: Vec<String> = found.promises().into_iter().filter_map(|of| of.within).collect();
    for part in [
        "`cgroup` has packets of this host's sockets",
        "none that the host forwards",
        "came in at that device",
    ] {
        assert!(classes.iter().any(|line| line.contains(part)), "{part}: {classes:?}");
    }
    assert!(found.promises().iter().all(|of| of.kept != Kept::No));
}

/// The changes from `old` to `new`, a line each, or the reason for a new root.
fn changes(old: &str, new: &str) -> String {
    let before = policy(old);
    let after = renumber(&before, policy(new)).policy;
    let (old, new) = (lower(&before).expect("old"), lower(&after).expect("new"));
    let edits = match diff(&old.tree, &new.tree) {
        KernelDifference::NewRoot(reason) => return format!("new root: {reason}\n"),
        KernelDifference::InPlace(edits) => edits,
    };
    let lines = |word: &str, parts: &[KernelPart]| -> String {
        parts
            .iter()
            .map(|part| {
                format!("{word} {}\n", part.command("eth0").replace("tc ", "").replace(" add dev eth0", ""))
            })
            .collect()
    };
    [
        lines("add", &edits.added),
        lines("change", &edits.changed),
        lines("replace", &edits.replaced),
        lines("remove", &edits.removed),
    ]
    .concat()
}

#[test]
fn values_change_in_place_with_all_parameters() {
    let new = MEASURED
        .replace("2400kbps", "6mbps")
        .replace("c: 4", "c: 2")
        .replace("default }", "default }\nbound 50 packets of d");
    expect![[r#"
        change qdisc parent 7e57:10 handle 10: fq_codel limit 10000 target 5000us
        change class parent 7e57:1 classid 7e57:8001 htb rate 15992000bit ceil 24000000bit burst 67050b cburst 67050b prio 1 quantum 60000 overhead 24
        change qdisc parent 7e5a:11 handle 11: fq_codel limit 10000 target 5000us
        change class parent 7e5a: classid 7e5a:12 drr quantum 3028
        change qdisc parent 7e59:13 handle 13: fq_codel limit 50 target 5000us
        change class parent 7e57:1 classid 7e57:10 htb rate 6000000bit ceil 6000000bit burst 67050b cburst 67050b prio 0 quantum 60000 overhead 24
    "#]].assert_eq(&changes(MEASURED, &new));
}

#[test]
fn classes_come_beside_and_go_last() {
    let new = MEASURED.replace("c: 4", "e: 4").replace("class c", "class e");
    expect![[r#"
        add class parent 7e5a: classid 7e5a:15 drr quantum 6056
        add qdisc parent 7e5a:15 handle 15: fq_codel limit 10000 target 5000us
        remove qdisc parent 7e5a:12 handle 12: fq_codel limit 10000 target 5000us
        remove class parent 7e5a: classid 7e5a:12 drr quantum 6056
    "#]]
    .assert_eq(&changes(MEASURED, &new));
}

#[test]
fn another_shape_needs_a_new_root() {
    let moved = MEASURED.replace("b: 1, c: 4", "b: 1, d: 4").replace("d: 1", "c: 1");
    let limited = MEASURED.replace("b: 1", "limit 1mbps of b: 1");
    let said = [changes(MEASURED, &moved), changes(MEASURED, &limited)].concat();
    expect![[r#"
        new root: `d` moves to another place
        new root: `rest: wfq` has a queue in one tree and classes in the other
    "#]]
    .assert_eq(&said);
    let old = lowered("link 1gbps\nroot = default\n").tree;
    let mut new = old.clone();
    if let KernelPart::Qdisc(root) = &mut new.parts[0] {
        root.kind = weft_policy::kernel::QdiscKind::Htb { default: weft_policy::kernel::Handle::LINK };
    }
    assert!(matches!(diff(&old, &new), KernelDifference::NewRoot(NewRoot::Default(..))));
}

#[test]
fn infrastructure_has_a_small_share_of_any_link() {
    let rate = |megabits: u64| infrastructure_rate(BitsPerSec(megabits * 1_000_000)).get();
    assert_eq!([10_000, 100, 50, 5].map(rate), [100_000_000, 1_000_000, 1_000_000, 500_000]);
    assert_eq!(infrastructure_rate(BitsPerSec(1)).get(), 1);
}

#[test]
fn a_kernel_without_qdiscs_has_htb_alone_and_says_what_is_lost() {
    let text =
        format!("{MEASURED}class e = mark 5\n").replace("default }\na.lim", "fair of e, default }\na.lim");
    let policy = policy(&text);
    let found = lower_on(&policy, KernelQdiscs::of(|_| false)).expect("a tree");
    assert!(found.tree.qdiscs().all(|qdisc| ["htb", "pfifo"].contains(&qdisc.kind.name())));
    assert!(found.map.filters.is_empty(), "HTB finds its own classes");
    let refusal = found.refusal().expect("fair of");
    assert!(
        refusal.reason.contains("no fq_codel") && refusal.instead.contains("sch_fq_codel"),
        "{refusal:?}"
    );
    let rest = found.statements.iter().find(|of| of.about == About::Named("rest".to_owned())).expect("rest");
    assert_eq!(rest.promise.kept, Kept::Within);
    let within = rest.promise.within.as_deref().unwrap_or_default();
    assert!(within.starts_with("this kernel has no drr"), "{within}");
    let text = MEASURED.replace("limit 2400kbps of a", "limit by destination { 192.0.2.0/24: 1mbps } of a");
    let refusal = lower_on(&crate::kernel::policy(&text), KernelQdiscs::of(|kind| kind != "fq"))
        .expect("a tree")
        .refusal();
    assert!(refusal.is_some_and(|refusal| refusal.reason.contains("no fq,")), "limits by destination");
}
