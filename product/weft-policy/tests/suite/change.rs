//! Changes from one policy to another: numbers, steps, warnings and heirs.

use crate::common::compiled;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use std::fmt::Write;
use weft_policy::{CompiledPolicy, Numbers, Renumbered, renumber};
use weft_sched::{Next, PolicyTree};
use weft_units::{Bytes, FlowKey, Instant, LaneId, PacketMeta, Weight};

fn policy(text: &str) -> CompiledPolicy {
    let compilation = compiled(text);
    compilation.policy.unwrap_or_else(|| panic!("{text}\n{:?}", compilation.diagnostics))
}

fn lane_name(policy: &CompiledPolicy, lane: LaneId) -> String {
    let spec = &policy.program.lanes[lane.index()];
    let limits = spec.limits.iter().map(|limit| policy.program.limits[limit.index()].name.as_str());
    let mut name = policy.classes[spec.class.index()].name.clone();
    for limit in limits {
        write!(name, " in {limit}").unwrap();
    }
    name
}

#[track_caller]
fn check(old: &str, new: &str, expected: &Expect) {
    let old = policy(old);
    let change = renumber(&old, policy(new));
    change.policy.check_invariants();
    let mut text = String::new();
    for step in &change.steps {
        writeln!(text, "{step}").unwrap();
    }
    for warning in &change.warnings {
        writeln!(text, "warning: {warning}; {}", warning.help()).unwrap();
    }
    for (gone, heir) in &change.heirs {
        writeln!(text, "heir of {}: {}", lane_name(&old, *gone), lane_name(&change.policy, *heir)).unwrap();
    }
    expected.assert_eq(&text);
}

const BASE: &str = "\
link 1gbps
bound 100 packets of b
class a = tcp dport 80
class b = tcp dport 443
class c = udp
root = priority { a, rest }
rest = wfq { capped: 2, c: 1, default: 1 }
capped = limit 8mbps of b
";

#[test]
fn a_policy_that_did_not_change_has_no_steps() {
    check(BASE, BASE, &expect![[""]]);
    check(BASE, &BASE.replace("link 1gbps", "# A comment.\nlink 1000mbps"), &expect![[""]]);
}

#[test]
fn values_change_in_place() {
    let new = BASE
        .replace("1gbps", "2gbps")
        .replace("100 packets", "50 packets")
        .replace("capped: 2", "capped: 3")
        .replace("8mbps", "9mbps burst 64kib");
    check(
        BASE,
        &new,
        &expect![[r#"
        link rate: 1 Gb/s -> 2 Gb/s
        bound of b: 100 -> 50 packets
        limit capped: 8 Mb/s -> 9 Mb/s
        burst of capped: 5.08 kB -> 65.5 kB
        weight b: 2 -> 3 in rest
    "#]],
    );
}

#[test]
fn a_class_comes() {
    let new =
        BASE.replace("class c", "class d = tcp dport 22\nclass c").replace("c: 1", "c: 1, fair of d: 4");
    check(
        BASE,
        &new,
        &expect![[r#"
        class d added under rest
    "#]],
    );
}

#[test]
fn a_class_goes() {
    let new = BASE.replace("class c = udp\n", "").replace("c: 1, ", "");
    check(
        BASE,
        &new,
        &expect![[r#"
        class c removed, its packets go to default
        heir of c: default
    "#]],
    );
}

#[test]
fn the_heir_is_where_all_the_traffic_goes() {
    // A rule for a part of the traffic of `c` comes first and does not inherit.
    let new = BASE
        .replace("class c = udp\n", "class dns = udp dport 53\nclass all = udp or sctp\n")
        .replace("{ a, rest }", "{ dns, a, rest }")
        .replace("c: 1, ", "all: 1, ");
    check(
        BASE,
        &new,
        &expect![[r#"
        class dns added under root
        class all added under rest
        class c removed, its packets go to all
        warning: class a is left without a rate of its own: dns goes before it; limit what is served before it, or share by `wfq`
        warning: class a was served first and now waits for dns; put control traffic first, or limit what is served before it
        heir of c: all
    "#]],
    );
}

#[test]
fn a_limit_comes_and_a_class_keeps_its_packets() {
    let new = BASE.replace("c: 1", "slow: 1") + "slow = limit 100kbps of c\n";
    check(
        BASE,
        &new,
        &expect![[r#"
        limits of c: none -> slow
        limit slow added: 100 kb/s
        warning: limit slow: at 100 kb/s a full packet needs more than 100 ms; check the unit of the rate: kbps, mbps, gbps
        heir of c: c in slow
    "#]],
    );
}

#[test]
fn a_limit_goes() {
    let new = BASE.replace("capped: 2", "b: 2").replace("capped = limit 8mbps of b\n", "");
    check(
        BASE,
        &new,
        &expect![[r#"
        limits of b: capped -> none
        limit capped removed
        heir of b in capped: b
    "#]],
    );
}

#[test]
fn nodes_and_classes_move() {
    let new =
        BASE.replace("root = priority { a, rest }", "root = priority { c, a, rest }").replace("c: 1, ", "");
    check(
        BASE,
        &new,
        &expect![[r#"
        c moved: rest -> root
        warning: class a is left without a rate of its own: c goes before it; limit what is served before it, or share by `wfq`
        warning: class a was served first and now waits for c; put control traffic first, or limit what is served before it
    "#]],
    );
    let new = BASE.replace("wfq { capped: 2, c: 1, default: 1 }", "priority { c, capped, default }");
    check(
        BASE,
        &new,
        &expect![[r#"
        order of service in rest: wfq -> priority
    "#]],
    );
    check(
        BASE,
        &BASE.replace("{ a, rest }", "{ rest, a }"),
        &expect![[r#"
        order of the children of root changed
        warning: class a is left without a rate of its own: default goes before it; limit what is served before it, or share by `wfq`
        warning: class a was served first and now waits for b, c, default; put control traffic first, or limit what is served before it
    "#]],
    );
}

#[test]
fn algorithms_change() {
    let base = "algorithm mine(n: count) { rank = n }\nclass a = tcp\nclass b = udp\nclass c = icmp\n\
                root = stfq { las of a: 2, mine { b: 1, c: 2 }: 3, default: 1 }\n";
    let new = base
        .replace("las of a: 2", "edf budget 2us of a: 4")
        .replace("rank = n }", "rank = n + 1 }")
        .replace("default: 1", "codel of default: 1");
    check(
        base,
        &new,
        &expect![[r#"
        arguments of a in root changed
        order of service in a: las -> edf
        order of service in default: fifo -> codel of fifo
        algorithm mine of root#2 changed
    "#]],
    );
    check(
        &new,
        &new.replace("2us", "3us").replace("codel of", "codel target 1ms of").replace("b: 1", "b: 5"),
        &expect![[r#"
        arguments of a changed
        arguments of default changed
        arguments of b in root#2 changed
    "#]],
    );
    check(
        base,
        &base.replace("root = stfq", "root = wf2q"),
        &expect![[r#"
        order of service in root: stfq -> wf2q
    "#]],
    );
}

#[test]
fn steps_are_in_the_order_in_which_they_take_place() {
    let new = BASE
        .replace("class c = udp\n", "class d = sctp\nclass e = icmp\n")
        .replace("dport 80", "dport 8080")
        .replace("wfq { capped: 2, c: 1, default: 1 }", "priority { d, e }")
        .replace("priority { a, rest }", "priority { a, rest, late }")
        .replace("8mbps of b", "9mbps burst 5076 of b\nlate = wfq { capped: 1, default: 1 }");
    check(
        BASE,
        &new,
        &expect![[r#"
        limit capped: 8 Mb/s -> 9 Mb/s
        b moved: rest -> late
        default moved: rest -> late
        order of service in rest: wfq -> priority
        class d added under rest
        class e added under rest
        node late added under root
        class a: takes other packets
        class c removed, its packets go to default
        heir of c: default
    "#]],
    );
    let change = renumber(&policy(BASE), policy(&new));
    let phases: Vec<&str> = change.steps.iter().map(|step| step.phase().word()).collect();
    let expected =
        ["adjusted", "moved", "moved", "reranked", "added", "added", "added", "reclassified", "removed"];
    assert_eq!(phases, expected);
    assert_eq!(change.kept.to_string(), "3 classes, 2 nodes, 1 limit");
}

#[test]
fn rules_change() {
    check(
        BASE,
        &BASE.replace("dport 80", "dport 8080"),
        &expect![[r#"
        class a: takes other packets
    "#]],
    );
    let new = BASE.replace(
        "class a = tcp dport 80\nclass b = tcp dport 443\n",
        "class b = tcp dport 443\nclass a = tcp dport 80\n",
    );
    check(
        BASE,
        &new,
        &expect![[r#"
        classes are tested in another order
    "#]],
    );
    check(
        BASE,
        &BASE.replace("c: 1", "fair of c: 1"),
        &expect![[r#"
        order of service in c: fifo -> fair
    "#]],
    );
}

#[test]
fn cgroups_are_compared_by_path() {
    let old = "class a = cgroup \"/x\"\nclass b = cgroup \"/y\"\nroot = wfq { a: 1, b: 1 }";
    // The numbers of the cgroups are exchanged, the paths are not.
    let same = "class b = cgroup \"/y\"\nclass a = cgroup \"/x\"\nroot = wfq { a: 1, b: 1 }";
    check(
        old,
        same,
        &expect![[r#"
        classes are tested in another order
    "#]],
    );
    let new = "class c = cgroup \"/y\"\nclass a = cgroup \"/x\"\nroot = wfq { a: 1, c: 1 }";
    check(
        old,
        new,
        &expect![[r#"
        class c added under root
        class b removed, its packets go to c
        heir of b: c
    "#]],
    );
}

/// A random policy over a few names, so that two of them have much in common.
pub(crate) fn text() -> impl Strategy<Value = String> {
    let class = (0..3_u8, 0..3_u8, 1..4_u32, prop::bool::weighted(0.3));
    let classes = prop::collection::btree_map(0..6_u16, class, 0..6);
    (classes, prop::bool::ANY, 1..3_u64, prop::bool::ANY).prop_map(|(classes, strict, rate, reverse)| {
        let mut text = String::new();
        let mut groups = [Vec::new(), Vec::new(), Vec::new()];
        for (name, (group, ports, weight, fair)) in &classes {
            writeln!(text, "class c{name} = tcp dport {}..{}", 10 * ports + 1, 10 * ports + 20).unwrap();
            let child = if *fair { format!("fair of c{name}") } else { format!("c{name}") };
            groups[usize::from(*group)].push(format!("{child}: {weight}"));
        }
        let mut children = vec!["default".to_owned()];
        for (number, group) in groups.iter().enumerate().filter(|(_, group)| !group.is_empty()) {
            writeln!(text, "g{number} = wfq {{ {} }}", group.join(", ")).unwrap();
            if number == 1 {
                writeln!(text, "capped = limit {rate}mbps of g1").unwrap();
                children.push("capped".to_owned());
            } else {
                children.push(format!("g{number}"));
            }
        }
        if reverse {
            children.reverse();
        }
        if strict {
            writeln!(text, "root = priority {{ {} }}", children.join(", ")).unwrap();
        } else {
            writeln!(text, "root = wfq {{ {}: 1 }}", children.join(": 1, ")).unwrap();
        }
        text
    })
}

fn packet(port: u16) -> PacketMeta {
    let key = FlowKey {
        src: [10, 0, 0, 1].into(),
        dst: [10, 0, 0, 2].into(),
        sport: 1000,
        dport: port,
        protocol: weft_units::Protocol::TCP,
    };
    PacketMeta { key: Some(key), ..PacketMeta::default() }
}

fn used<T>(items: &[T], vacant: impl Fn(&T) -> bool) -> usize {
    items.iter().filter(|item| !vacant(item)).count()
}

fn check_change(old: &CompiledPolicy, fresh: &CompiledPolicy) -> Result<Renumbered, TestCaseError> {
    let change = renumber(old, fresh.clone());
    let new = &change.policy;
    new.check_invariants();
    prop_assert_eq!(change.steps.is_empty(), new == old, "{:?}", change.steps);
    for port in 0..70 {
        let (before, after) = (fresh.classify(&packet(port)), new.classify(&packet(port)));
        prop_assert_eq!(lane_name(fresh, before), lane_name(new, after));
    }
    // Equal names, equal numbers; the numbers of what is gone are vacant.
    for (before, after) in old.classes.iter().zip(&new.classes) {
        prop_assert!(before.is_vacant() || after.is_vacant() || before.name == after.name);
    }
    for (at, lane) in old.program.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_vacant()) {
        let id = LaneId::from_index(at);
        let stays = !new.program.lanes[at].is_vacant();
        prop_assert_eq!(change.heirs.iter().filter(|(gone, _)| *gone == id).count(), usize::from(!stays));
        if stays {
            prop_assert_eq!(lane_name(old, id), lane_name(new, id));
            prop_assert_eq!(lane.leaf, new.program.lanes[at].leaf);
        }
    }
    Ok(change)
}

/// Every lane has a backlogged flow; after the change each of them is served once.
fn check_engine(old: &CompiledPolicy, change: &Renumbered) -> Result<(), TestCaseError> {
    let mut tree = PolicyTree::new(&old.program).expect("sound");
    let mut flows = 0;
    for (at, _) in old.program.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_vacant()) {
        let flow = tree.add_flow(LaneId::from_index(at), Weight::ONE).expect("a lane");
        tree.activate(flow);
        flows += 1;
    }
    let prepared = PolicyTree::prepare(&change.policy.program, &change.heirs, flows).expect("sound");
    prop_assert!(tree.change(prepared, Instant::ZERO).is_ok());
    prop_assert_eq!(tree.check_invariants(), Ok(()));
    let mut served = 0;
    while let Next::Turn(turn) = tree.next(Instant::from_secs(1 + served)) {
        tree.finish(turn, Bytes(1000), false, Instant::from_secs(1 + served)).expect("outstanding");
        served += 1;
    }
    prop_assert_eq!(served as usize, flows);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn random_changes_keep_what_stays(texts in prop::collection::vec(text(), 2..6)) {
        let mut old = policy(&texts[0]);
        for text in &texts[1..] {
            let change = check_change(&old, &policy(text))?;
            check_engine(&old, &change)?;
            let again = renumber(&change.policy, policy(text));
            prop_assert_eq!(&again.policy, &change.policy);
            let kept = serde_json::to_string(&Numbers::of(&change.policy)).expect("text");
            let numbers: Numbers = serde_json::from_str(&kept).expect("numbers");
            prop_assert_eq!(&numbers.give(policy(text)), &change.policy, "the numbers alone are enough");
            prop_assert!(again.steps.is_empty() && again.heirs.is_empty() && again.warnings.is_empty());
            old = change.policy;
        }
    }
}

#[test]
fn a_thousand_changes_do_not_grow_the_tables() {
    let text = |n: u32| {
        let classes: String = (0..8).map(|c| format!("class c{} = tcp dport {}\n", n + c, 100 + c)).collect();
        let children: Vec<String> = (0..8).map(|c| format!("c{}: 1", n + c)).collect();
        format!("{classes}root = wfq {{ {} }}", children.join(", "))
    };
    let mut old = policy(&text(0));
    for n in 1..1000 {
        old = renumber(&old, policy(&text(n * 3))).policy;
        old.check_invariants();
    }
    let lanes = used(&old.program.lanes, weft_sched::LaneSpec::is_vacant);
    assert_eq!((lanes, used(&old.classes, weft_policy::ClassInfo::is_vacant)), (9, 9));
    // Nine in use, and up to eight of the change before.
    assert!(old.program.lanes.len() <= 17 && old.classes.len() <= 17, "{}", old.classes.len());
}
