//! Policies with tenants: their files in the place of their names, quotas, names, cgroups, claims.

use expect_test::{Expect, expect};
use std::collections::BTreeMap;
use weft_policy::explain::DescribedPacket;
use weft_policy::trial::run::run;
use weft_policy::trial::{TrialPacket, Trials};
use weft_policy::{
    Compilation, CompileOptions, CompiledPolicy, FileError, FileText, Source, TenantFiles, Wanted, compile,
    compile_with, describe, explain_with, price_with,
};
use weft_units::Bytes;

/// Files by their paths.
struct Files(BTreeMap<String, String>);

impl TenantFiles for Files {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        let text = self.0.get(wanted.path).ok_or_else(|| FileError::Missing(wanted.path.to_owned()))?;
        Ok(FileText { name: wanted.path.to_owned(), text: text.clone() })
    }
}

fn files(files: &[(&str, &str)]) -> Files {
    Files(files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
}

fn compiled(text: &str, of: &[(&str, &str)]) -> Compilation {
    compile_with(Source { name: "op.weft", text }, &files(of), &CompileOptions::default())
}

fn policy(text: &str, of: &[(&str, &str)]) -> CompiledPolicy {
    let compilation = compiled(text, of);
    let policy = compilation.policy.unwrap_or_else(|| panic!("{:#?}", compilation.diagnostics));
    policy.check_invariants();
    policy
}

#[track_caller]
fn says(text: &str, of: &[(&str, &str)], said: &Expect) {
    let mut out = String::new();
    for diagnostic in compiled(text, of).diagnostics {
        out.push_str(&diagnostic.one_line());
        out.push_str(&format!("\n  help: {}\n", diagnostic.help));
        diagnostic.notes.iter().for_each(|note| out.push_str(&format!("  note: {note}\n")));
    }
    said.assert_eq(&out);
}

const OPERATOR: &str = "\
link 10gbps
class mgmt = cgroup \"/mgmt\"
vm1 = tenant \"vm1.weft\" of cgroup \"/vm1\" { classes 64, flows 20001, cost 60ns }
vm2 = tenant \"vm2.weft\" of port \"vm2\"
root = priority { mgmt, tenants }
tenants = wfq { vm1: 1, vm2: 3 }
";

const VM1: &str = "\
class web = tcp and dport 80..443
class db = cgroup \"/db\"
root = priority { x, db }
x = limit 1gbps of fair of web
bound 50 packets of db
";

#[test]
fn a_file_takes_the_place_of_its_tenant() {
    let policy = policy(OPERATOR, &[("vm1.weft", VM1), ("vm2.weft", "root = fair of default\n")]);
    expect![[r#"
        link of 10 Gb/s
        tree
          root: strict priority, the first child with packets is served
            1. mgmt: FIFO
            2. tenants: weighted fair queueing
              weight 1: vm1: strict priority, the first child with packets is served
                1. vm1.web: fair over its flows
                2. vm1.db: FIFO
                3. vm1.default: FIFO
              weight 3: vm2: fair over its flows, of vm2.default
            3. default: FIFO
        limits
          vm1.x: 1 Gb/s, bursts up to 253 kB
        lanes
          0: class mgmt, leaf mgmt, not limited, at most 10000 packets wait
          1: class vm1.web, leaf vm1.web, limited by vm1.x, at most 10000 packets wait
          2: class vm1.db, leaf vm1.db, not limited, at most 50 packets wait
          3: class vm1.default, leaf vm1.default, not limited, at most 10000 packets wait
          4: class vm2.default, leaf vm2, not limited, at most 10000 packets wait
          5: class default, leaf default, not limited, at most 10000 packets wait
        rules; the first match decides
          1: cgroup "/mgmt" -> mgmt
          2: tcp and dport 80..443 and cgroup "/vm1" -> vm1.web
          3: cgroup "/vm1/db" -> vm1.db
          4: cgroup "/vm1" -> vm1.default
          5: port "vm2" -> vm2.default
          6: any -> default
        destinations; the longest prefix decides
          mgmt: any -> lane 0
          vm1.web: any -> lane 1
          vm1.db: any -> lane 2
          vm1.default: any -> lane 3
          vm2.default: any -> lane 4
          default: any -> lane 5
    "#]]
    .assert_eq(&describe(&policy));
}

#[test]
fn names_cgroups_and_conditions_are_those_below_the_tenant() {
    let policy = policy(OPERATOR, &[("vm1.weft", VM1)]);
    assert_eq!(policy.cgroups, ["/mgmt", "/vm1", "/vm1/db"]);
    assert_eq!(policy.ports, ["vm2"]);
    let class = |packet: &str| {
        let packet: DescribedPacket = packet.parse().expect("a packet");
        let class = policy.class_of(&packet.meta(&policy));
        policy.classes[class.index()].name.clone()
    };
    assert_eq!(class("tcp 1.1.1.1:9 > 2.2.2.2:80 cgroup /vm1"), "vm1.web");
    assert_eq!(class("udp 1.1.1.1:9 > 2.2.2.2:80 cgroup /vm1/db/7"), "vm1.db");
    assert_eq!(class("udp 1.1.1.1:9 > 2.2.2.2:80 cgroup /vm1/x"), "vm1.default");
    // What the tenant describes is its own only.
    assert_eq!(class("tcp 1.1.1.1:9 > 2.2.2.2:80 cgroup /db"), "default");
    assert_eq!(class("tcp 1.1.1.1:9 > 2.2.2.2:80 port vm2"), "vm2.default");
}

#[test]
fn a_tenant_without_a_file_is_a_fifo_with_a_warning() {
    says(
        OPERATOR,
        &[("vm1.weft", VM1)],
        &expect![[r#"
        op.weft:4:14: warning[W0005]: `vm2` has no file: there is no `vm2.weft`
          help: its packets share one FIFO until there is one
    "#]],
    );
    let policy = policy(OPERATOR, &[("vm1.weft", VM1)]);
    assert!(describe(&policy).contains("weight 3: vm2.default: FIFO"), "{}", describe(&policy));
    let nothing = compile(Source { name: "p", text: OPERATOR }, &CompileOptions::default());
    assert!(nothing.diagnostics[0].message.contains("this command reads no files of tenants"));
}

#[test]
fn errors_are_in_the_right_file() {
    let wrong = "class web = tcp prot 80\nroot = priority { web, db }\nlink 1gbps\n";
    says(
        OPERATOR,
        &[("vm1.weft", wrong), ("vm2.weft", "root = fair of defualt\n")],
        &expect![[r#"
        vm1.weft:1:17: error[E0001]: expected a test, found `prot`: did you mean `port`?
          help: a test is one of: any, tcp, udp, sctp, icmp, icmpv6, protocol N, port P, sport P, dport P, from PREFIX, to PREFIX, mark V/MASK, priority N, cgroup "PATH", port "NAME", vlan N, pcp N, dscp N, ecn N, user "NAME", classid N, cookie N, process "NAME"
        vm1.weft:2:24: error[E0201]: nothing in the policy has the name `db`
          help: define it: `class db = ...` or `db = ...`
        vm1.weft:3:6: error[E0605]: the link's rate is the operator's
          help: a tenant has what the tree above it leaves; to send less, write a limit
        vm2.weft:1:16: error[E0201]: nothing in the policy has the name `defualt`: did you mean `default`?
          help: a name is used as it is defined, with capitals and small letters
    "#]],
    );
    let loose =
        "class web = tcp\nclass all = any\nclass ssh = dport 22\nroot = wfq { web: 1, all: 1, ssh: 1 }\n";
    says(
        OPERATOR,
        &[("vm1.weft", loose), ("vm2.weft", "root = default\n")],
        &expect![[r#"
            vm1.weft:3:7: warning[W0003]: the class `vm1.ssh` never gets a packet: `vm1.all` before it takes them all
              help: the first class that matches takes a packet: move the narrower class up
        "#]],
    );
}

#[test]
fn quotas_say_use_and_place() {
    let small = "vm1 = tenant \"a\" of cgroup \"/a\" { classes 1, nodes 2, limits 1, flows 10001, cost 5ns }\nroot = vm1\n";
    let file = "\
class a = tcp
class b = udp
class c = icmp
root = wfq { x: 1, y: 1, c: 1 }
x = limit by destination { 10.0.0.0/8: 1gbps, 11.0.0.0/8: 1gbps } of fair of a
y = fair of b
";
    says(
        small,
        &[("a", file)],
        &expect![[r#"
        a:2:7: error[E0606]: the quota of `vm1` is `classes 1`, and its file uses 3 classes
          help: leave some out, or ask the operator for more
          note: the quota is stated at op.weft:1:43
        a:5:47: error[E0606]: the quota of `vm1` is `limits 1`, and its file uses 2 limits
          help: leave some out, or ask the operator for more
          note: the quota is stated at op.weft:1:62
        a:5:70: error[E0606]: the quota of `vm1` is `cost 5 ns`, and its file uses 24 ns for a packet: 2 orders on the path of `b`, each passed twice by packets that are held
          help: take orders off the path of a packet, or ask the operator for more
          note: the quota is stated at op.weft:1:83
        a:6:1: error[E0606]: the quota of `vm1` is `nodes 2`, and its file uses 4 nodes
          help: leave some out, or ask the operator for more
          note: the quota is stated at op.weft:1:52
    "#]],
    );
    let enough = "vm1 = tenant \"a\" of cgroup \"/a\" { classes 3, nodes 5, limits 2, flows 20003, cost 24ns }\nroot = vm1\n";
    says(enough, &[("a", file)], &expect![""]);
}

#[test]
fn tenants_have_tenants_up_to_a_depth_and_in_no_circle() {
    let operator = "vm1 = tenant \"a\" of cgroup \"/a\"\nroot = wfq { vm1: 1, default: 1 }\n";
    let a =
        "db = tenant \"b\" of cgroup \"db\" { classes 2 }\nclass web = tcp\nroot = priority { db, web }\n";
    let b = "class old = cgroup \"old\"\nroot = priority { default, old }\n";
    let policy = policy(operator, &[("a", a), ("b", b)]);
    let names: Vec<&str> = policy.classes.iter().map(|class| class.name.as_str()).collect();
    assert_eq!(names, ["vm1.db.old", "vm1.db.default", "vm1.web", "vm1.default", "default"]);
    assert_eq!(policy.cgroups, ["/a", "/a/db", "/a/db/old"]);
    let compilation = compiled(operator, &[("a", a), ("b", b)]);
    let tenants: Vec<_> =
        compilation.tenants.iter().map(|of| (of.name.as_str(), of.cgroup.as_deref())).collect();
    assert_eq!(tenants, [("vm1", Some("/a")), ("vm1.db", Some("/a/db"))]);
    let circle = "x = tenant \"a\" of tcp\nroot = x\n";
    says(
        operator,
        &[("a", a), ("b", circle)],
        &expect![[r#"
        b:1:12: error[E0602]: files of tenants go in a circle: `a` names `b` names `a`
          help: a file cannot be its own tenant; name another
    "#]],
    );
    let deep: Vec<(String, String)> =
        (0..6).map(|n| (format!("f{n}"), format!("x = tenant \"f{}\" of tcp\nroot = x\n", n + 1))).collect();
    let deep: Vec<(&str, &str)> = deep.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
    says(
        "x = tenant \"f0\" of tcp\nroot = x\n",
        &deep,
        &expect![[r#"
        f3:1:12: error[E0603]: `x.x.x.x.x` is more than 4 levels below the operator
          help: write its classes into the file that names it
    "#]],
    );
}

#[test]
fn what_is_not_the_tenants_is_refused() {
    let operator = "\
bound 100 packets
class vm1.x = tcp
class a = udp
vm1 = tenant \"a\" of tcp
root = priority { vm1, vm1.default, fair of vm2, tenant \"b\" of udp, a }
vm2 = tenant \"b\" of udp { classes 0, cost 3, trsut, nodes 1, nodes 2 }
bound 7 packets of vm1.web
";
    says(
        operator,
        &[],
        &expect![[r#"
        op.weft:2:7: error[E0604]: `vm1.x` belongs to the file of the tenant `vm1`
          help: what is below a tenant is defined and used in its file only; choose another name
        op.weft:4:14: warning[W0005]: `vm1` has no file: there is no `a`
          help: its packets share one FIFO until there is one
        op.weft:5:24: error[E0604]: `vm1.default` belongs to the file of the tenant `vm1`
          help: what is below a tenant is defined and used in its file only; choose another name
        op.weft:5:50: error[E0610]: a tenant needs a name of its own, with which the names of its file begin
          help: define it on a line of its own, such as `vm1 = tenant "vm1.weft" of cgroup "/vm1"`
        op.weft:6:14: warning[W0005]: `vm2` has no file: there is no `b`
          help: its packets share one FIFO until there is one
        op.weft:6:35: error[E0609]: `0` is not a number
          help: a quota is a whole number from 1 to 4294967295
        op.weft:6:46: error[E0001]: expected a quota, found `trsut`: did you mean `trust`?
          help: a quota is one of: classes N, nodes N, limits N, flows N, cgroups N, ports N, rows N, masks N, entries N, cost TIME; or `trust`
        op.weft:6:62: error[E0208]: `nodes` is stated twice
          help: leave one of them out
        op.weft:7:20: error[E0604]: `vm1.web` belongs to the file of the tenant `vm1`
          help: what is below a tenant is defined and used in its file only; choose another name
    "#]],
    );
    let operator = "bound 100 packets\nvm1 = tenant \"a\" of tcp\nroot = vm1\n";
    let file = "\
link 1gbps
bound 200 packets
latency 1ms of a
class a = udp
x = tenant \"../b\" of udp
root = priority { a, x }
";
    says(
        operator,
        &[("a", file)],
        &expect![[r#"
        a:1:6: error[E0605]: the link's rate is the operator's
          help: a tenant has what the tree above it leaves; to send less, write a limit
        a:2:7: error[E0605]: a bound of 200 packets is above that of the operator, 100
          help: a tenant's bound can only be lower
        a:3:16: error[E0605]: a latency shortens the chunks of other tenants: only the operator may ask for one
          help: leave it out
        a:5:12: error[E0601]: `../b` is not below the folder of the tenant's file
          help: a tenant's file names files beside it or below it
    "#]],
    );
    says(
        operator,
        &[("a", "class a = cgroup \"x\"\nroot = a\n")],
        &expect![[r#"
        op.weft:2:14: error[E0608]: the file of `vm1` tests the cgroup `x`, but `vm1` has none
          help: cgroups of a tenant's file are relative to its own: restrict the tenant by `cgroup "PATH"`
    "#]],
    );
}

#[test]
fn tenant_is_a_name_like_any_other() {
    let text = "\
class tenant = tcp
class cost = udp
classes = priority { tenant, trust }
trust = cost
root = classes
";
    assert_eq!(compile(Source { name: "p", text }, &CompileOptions::default()).diagnostics, []);
}

/// `packets` of each class and flow, all backlogged from the start.
fn backlog(lines: &str) -> Trials {
    lines.parse().expect("trials")
}

#[test]
fn a_lying_tenant_gains_nothing() {
    let operator = "\
vm1 = tenant \"vm1\" of cgroup \"/vm1\"
vm2 = tenant \"vm2\" of cgroup \"/vm2\"
root = wfq { vm1: 1, vm2: 1 }
";
    // It claims deadlines, priority and little left, and weights as large as there are.
    let liar = "\
class all = any
class two = tcp
root = wfq { edf of all: 4294967295, pfabric of two: 4294967295 }
";
    let policy = policy(operator, &[("vm1", liar), ("vm2", "root = fair of default\n")]);
    let mut trials = backlog("test \"liar\"\npacket a 1000\n");
    let trial = &mut trials.cases[0];
    trial.packets.clear();
    let packet = |name: String, class: &str| TrialPacket {
        name,
        bytes: Bytes(1000),
        class: Some(class.to_owned()),
        ..TrialPacket::default()
    };
    for number in 0..200 {
        let lie = TrialPacket {
            deadline: Some(weft_units::Nanos(0)),
            slack: Some(weft_units::Nanos(0)),
            left: Some(Bytes(0)),
            prio: Some(u64::from(u32::MAX)),
            flow: Some(format!("f{number}")),
            ..packet(format!("l{number}"), "vm1.all")
        };
        trial.packets.push(lie);
        trial.packets.push(packet(format!("h{number}"), "vm2.default"));
    }
    let outcome = run(trial, &policy).expect("an end");
    // Of any prefix, half is the liar's, within a packet.
    let mut liars = 0_i64;
    for (sent, of) in outcome.sent.iter().enumerate() {
        liars += i64::from(of.name.starts_with('l'));
        assert!((2 * liars - (sent as i64 + 1)).abs() <= 2, "{liars} of {}", sent + 1);
    }
    assert_eq!(outcome.sent.len(), 400);
}

#[test]
fn claims_order_tenants_only_where_the_operator_trusts_them() {
    let operator = |trust: &str| {
        format!(
            "vm1 = tenant \"a\" of tcp{trust}\nclass b = udp\nroot = edf {{ x: 2ms, b: 1ms }}\nx = priority {{ vm1 }}\n"
        )
    };
    says(
        &operator(""),
        &[("a", "root = default\n")],
        &expect![[r#"
        op.weft:3:8: error[E0607]: `edf` orders `vm1` by what its packets claim: the deadline
          help: order tenants by `wfq` or `priority`, or write `trust` in the braces of the tenant
    "#]],
    );
    says(&operator(" { trust }"), &[("a", "root = default\n")], &expect![[""]]);
    // An algorithm that reads no claim orders tenants as it likes.
    let las = "vm1 = tenant \"a\" of tcp\nclass b = udp\nroot = drr { vm1: 1500, b: 1500 }\n";
    says(las, &[("a", "root = default\n")], &expect![[""]]);
}

#[test]
fn the_tools_know_the_files() {
    let of = [("vm1.weft", VM1), ("vm2.weft", "root = fair of default\n")];
    let compilation = compiled(OPERATOR, &of);
    let policy = compilation.policy.as_ref().expect("a policy");
    let explained = |packet: &str| {
        let packet: DescribedPacket = packet.parse().expect("a packet");
        let source = Source { name: "op.weft", text: OPERATOR };
        let text = explain_with(source, &compilation.tenants, policy, &packet).to_string();
        text.lines().nth(1).unwrap_or_default().to_owned()
    };
    expect!["class      vm1.web (vm1.weft, line 1: class web = tcp and dport 80..443)"]
        .assert_eq(&explained("tcp 1.1.1.1:9 > 2.2.2.2:80 cgroup /vm1"));
    expect![[r#"class      vm1.default (line 3: vm1 = tenant "vm1.weft" of cgroup "/vm1" { classes 64, flows 20001, cost 60ns })"#]].assert_eq(&explained("udp 1.1.1.1:9 > 2.2.2.2:80 cgroup /vm1"));
    let (cost, priced) = price_with(Source { name: "op.weft", text: OPERATOR }, &files(&of), &[]);
    assert_eq!(priced.diagnostics, []);
    let cost = cost.expect("a price");
    assert!(cost.orders.iter().any(|order| order.name == "vm1.x#1"), "{cost}");
    let form = "vm1  = tenant \"a\" of cgroup \"/a\" and tcp { classes 64, cost 60ns, trust }\nroot = vm1\n";
    let loose = "vm1=tenant \"a\"  of cgroup \"/a\" and tcp{classes 64,cost 60ns , trust,}\nroot=vm1";
    let source = Source { name: "p", text: loose };
    assert_eq!(weft_policy::reformat(source), Ok(form.to_owned()));
}

#[test]
fn the_examples_of_the_guide_compile() {
    let path = format!("{}/../../docs/policy-language.md", env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(path).expect("the guide is there");
    let (_, section) = guide.split_once("\n## Tenants\n").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let mut blocks = vec![String::new()];
    for line in section.lines() {
        match line.strip_prefix("    ") {
            Some(code) => blocks.last_mut().expect("a block").extend([code, "\n"]),
            None if line.is_empty() => blocks.last_mut().expect("a block").push('\n'),
            None => blocks.push(String::new()),
        }
    }
    blocks.retain(|block| !block.trim().is_empty());
    let [operator, vm1, trusting] = &blocks[..] else { panic!("{blocks:#?}") };
    let of = [("vm1.weft", vm1.as_str()), ("vm2.weft", "root = default\n")];
    for text in [operator, trusting] {
        assert_eq!(compiled(text, &of).diagnostics, [], "{text}");
    }
    assert_eq!(compiled(vm1, &[]).diagnostics, []);
}

/// The tenants at fault, each with the place of its first error.
fn at_fault(text: &str, of: &[(&str, &str)]) -> Vec<String> {
    let compilation = compiled(text, of);
    assert_eq!(compilation.policy.is_none(), compilation.has_errors());
    let place = |(name, error): (&String, &weft_policy::Diagnostic)| {
        format!("{name}: {}:{}:{}", error.file, error.start.line, error.start.column)
    };
    compilation.at_fault.iter().map(place).collect()
}

#[test]
fn an_error_has_its_tenant() {
    let good = "root = fair of default\n";
    assert_eq!(at_fault(OPERATOR, &[("vm1.weft", VM1), ("vm2.weft", good)]), [""; 0]);
    let both = [("vm1.weft", "root = nothing\n"), ("vm2.weft", "class a = cgroup \"a\"\nroot = a\n")];
    assert_eq!(at_fault(OPERATOR, &both), ["vm1: vm1.weft:1:8"], "the others are put in their places later");
    // The tenant of a port cannot test cgroups: the error is at its clause.
    assert_eq!(at_fault(OPERATOR, &both[1..]), ["vm2: op.weft:4:14"]);
    // Two quotas at a time.
    let narrow =
        OPERATOR.replace("classes 64", "classes 1").replace("port \"vm2\"", "port \"vm2\" { cost 1ns }");
    let found = at_fault(&narrow, &[("vm1.weft", VM1), ("vm2.weft", good)]);
    assert_eq!((found.len(), found[0].as_str()), (2, "vm1: vm1.weft:2:7"));
    assert!(found[1].starts_with("vm2: vm2.weft:1:"), "{found:?}");
    // A tenant below a tenant, and the operator.
    let below = "db = tenant \"db.weft\" of cgroup \"db\"\nroot = priority { db }\n";
    let deep = [("vm1.weft", below), ("db.weft", "root = nothing\n"), ("vm2.weft", good)];
    assert_eq!(at_fault(OPERATOR, &deep), ["vm1.db: db.weft:1:8"]);
    let outside = [("vm1.weft", "db = tenant \"../db.weft\" of tcp\nroot = priority { db }\n")];
    assert_eq!(at_fault(OPERATOR, &outside), ["vm1.db: vm1.weft:1:13"]);
    let wrong = OPERATOR.replace("wfq {", "wqf {");
    assert_eq!(at_fault(&wrong, &[("vm1.weft", VM1)]), [""; 0], "the operator's own error is no tenant's");
}

#[test]
fn quotas_have_their_use() {
    let uses = |of: &[(&str, &str)]| {
        let tenants = compiled(OPERATOR, of).tenants;
        let quotas = tenants[0].quotas.iter();
        quotas.map(|of| format!("{} {} of {}", of.quota.as_str(), of.used, of.most)).collect::<Vec<_>>()
    };
    let used = uses(&[("vm1.weft", VM1)]);
    assert_eq!(used[..2], ["classes 2 of 64", "flows 10002 of 20001"]);
    assert!(used[2].starts_with("cost ") && used[2].ends_with(" of 60"), "{used:?}");
    assert_eq!(uses(&[]), ["classes 0 of 64", "flows 0 of 20001", "cost 0 of 60"]);
}
