//! Tables that all tenants share: what one tenant writes never decides whether another one's file is accepted.

use expect_test::{Expect, expect};
use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_facts::ports::{LimitedPort, PortLimit};
use weft_policy::{
    AtFault, Compilation, CompileOptions, Fallback, FileText, Source, Steps, TenantTexts, compile_with,
    compile_with_fallback,
};
use weft_units::BitsPerSec;
use weft_units::Bytes;

const OPERATOR: &str = "link 1gbps\nvm1 = tenant \"a\" of cgroup \"/vm1\"\nvm2 = tenant \"b\" of cgroup \"/vm2\"\n\
    root = wfq { vm1: 1, vm2: 1 }\n";

fn texts(of: &[(&str, &str)]) -> TenantTexts {
    let text = |(tenant, text): &(&str, &str)| {
        ((*tenant).to_owned(), FileText { name: format!("{tenant}.weft"), text: (*text).to_owned() })
    };
    TenantTexts(of.iter().map(text).collect())
}

fn compiled(operator: &str, of: &[(&str, &str)], options: &CompileOptions) -> Compilation {
    let compilation = compile_with(Source { name: "op.weft", text: operator }, &texts(of), options);
    if let Some(policy) = &compilation.policy {
        policy.check_invariants();
    }
    compilation
}

/// The tenants at fault, each with the place and the code of its first error.
fn faults(compilation: &Compilation) -> Vec<String> {
    let fault = |(tenant, error): (&String, &weft_policy::Diagnostic)| {
        format!("{tenant} {} {}:{}", error.code, error.file, error.start.line)
    };
    compilation.at_fault.iter().map(fault).collect()
}

/// A file of many classes, each with one of the conditions.
fn file(conditions: impl Iterator<Item = String>) -> String {
    let conditions: Vec<String> = conditions.collect();
    let classes = conditions.iter().enumerate().map(|(at, of)| format!("class c{at} = {of}\n"));
    let names: Vec<String> = (0..conditions.len()).map(|at| format!("c{at}")).collect();
    format!("{}root = fifo {{ {}, default }}\n", classes.collect::<String>(), names.join(", "))
}

fn any(tests: impl Iterator<Item = String>) -> String {
    format!("({})", tests.collect::<Vec<_>>().join(" or "))
}

fn cgroups(count: usize) -> String {
    file((0..count).map(|at| format!("cgroup \"c{at}\"")))
}

fn ports(count: usize) -> String {
    file((0..count).map(|at| format!("port \"p{at}\"")))
}

fn rows(count: usize) -> String {
    file((0..count).map(|at| format!("mark {at}")))
}

/// The longest prefixes are first, so that none covers another one.
fn masks(count: usize) -> String {
    file((0..count).map(|at| format!("from 128.0.0.0/{} and to 128.0.0.0/{}", 32 - at / 32, 32 - at % 32)))
}

fn entries(count: usize) -> String {
    file((0..count).map(|at| format!("tcp and sport 1..65534 and dport 1..65534 and mark {at}")))
}

fn exceptions(count: usize) -> String {
    file((0..count).map(|at| format!("mark {at} and not priority {at}")))
}

fn destinations(count: usize) -> String {
    let all: Vec<String> = (0..count).map(|at| format!("10.0.{}.{}/32: 1mbps", at / 256, at % 256)).collect();
    format!("root = limit by destination {{ {} }} of default\n", all.join(", "))
}

/// Conditions that join many alternatives.
fn work() -> String {
    let any = |word: &str, first: usize| any((first..first + 22).map(|at| format!("{word} {at}")));
    let some = |first| {
        let dscp = any("dscp", 0);
        format!("(({} and {dscp}) or ({} and {dscp}))", any("priority", first), any("priority", first + 22))
    };
    file(core::iter::once(format!("{} and {}", some(1), some(101))))
}

const MODEST: &str =
    "class db = cgroup \"db\"\nclass web = tcp and dport 80..443\nroot = priority { db, web }\n";

/// Each file takes more than half of one table, and no other bound refuses it.
#[test]
fn a_greedy_file_is_refused_and_the_other_one_is_not() {
    let greedy = [
        ("cgroups", cgroups(62), "E0606"),
        ("ports", ports(513), "E0606"),
        ("rows", rows(8_200), "E0606"),
        ("masks", masks(520), "E0606"),
        ("entries", entries(160), "E0606"),
        ("exceptions", exceptions(5_000), "E0408"),
        ("destinations", destinations(8_200), "E0606"),
        ("steps", work(), "E0408"),
    ];
    for (what, greedy, code) in greedy {
        for (first, second) in [("vm1", "vm2"), ("vm2", "vm1")] {
            let both = compiled(OPERATOR, &[(first, &greedy), (second, MODEST)], &CompileOptions::default());
            let found = faults(&both);
            assert_eq!(found.len(), 1, "{what}: {found:?}");
            assert!(found[0].starts_with(&format!("{first} {code} {first}.weft:")), "{what}: {found:?}");
        }
    }
}

#[track_caller]
fn says(operator: &str, file: &str, said: &Expect) {
    let compilation = compiled(operator, &[("vm1", file)], &CompileOptions::default());
    let mut out = String::new();
    for of in compilation.diagnostics.iter().filter(|of| of.is_error()) {
        out.push_str(&format!("{}\n  help: {}\n", of.one_line(), of.help));
        of.notes.iter().for_each(|note| out.push_str(&format!("  note: {note}\n")));
    }
    said.assert_eq(&out);
}

#[test]
fn an_error_says_the_table_the_quota_the_use_and_the_remedy() {
    says(
        OPERATOR,
        &cgroups(32),
        &expect![[r#"
        vm1.weft:32:7: error[E0606]: the quota of `vm1` is an equal share, `cgroups 31`, and its file uses 32 cgroups
          help: name a common parent of several cgroups, or ask the operator for more
          note: all tenants share this table; `cgroups N` in the braces at op.weft:2:1 gives this one another part
    "#]],
    );
    let stated = OPERATOR.replace("\"/vm1\"", "\"/vm1\" { cgroups 40, masks 3 }");
    says(
        &stated,
        &cgroups(41),
        &expect![[r#"
        vm1.weft:41:7: error[E0606]: the quota of `vm1` is `cgroups 40`, and its file uses 41 cgroups
          help: name a common parent of several cgroups, or ask the operator for more
          note: the quota is stated at op.weft:2:45
    "#]],
    );
    says(
        &stated,
        &masks(5),
        &expect![[r#"
        vm1.weft:4:7: error[E0606]: the quota of `vm1` is `masks 3`, and its file uses 5 masks
          help: use fewer lengths of prefixes, or ranges of ports that begin and end at multiples of a power of two, or ask the operator for more
          note: the quota is stated at op.weft:2:55
    "#]],
    );
    let beyond = stated.replace("\"/vm2\"", "\"/vm2\" { cgroups 23 }");
    says(
        &beyond,
        "root = fair of default\n",
        &expect![[r#"
        op.weft:3:45: error[E0609]: the tenants' quotas of cgroups are 63 together, and this file leaves 62
          help: state lower ones, or leave some out
    "#]],
    );
}

/// The operator's names are free, also those of ports with limits, and so is a name that occurs twice.
#[test]
fn what_a_file_above_names_is_not_counted() {
    let operator = "link 1gbps\nclass own = cgroup \"/vm1/c0\"\nvm1 = tenant \"a\" of cgroup \"/vm1\" { cgroups 2, ports 1 }\n\
        root = wfq { vm1: 1, own: 1 }\n";
    let limit = LimitedPort {
        port: "p0".to_owned(),
        limit: PortLimit { rate: BitsPerSec(1_000_000), burst: Bytes(15_000) },
    };
    let options = CompileOptions { port_limits: vec![limit], ..CompileOptions::default() };
    let text = file(
        ["cgroup \"c0\"", "cgroup \"/c1\"", "cgroup \"c1\" and port \"p0\"", "cgroup \"c2\" and port \"p1\""]
            .map(str::to_owned)
            .into_iter(),
    );
    let compilation = compiled(operator, &[("vm1", &text)], &options);
    assert_eq!(faults(&compilation), [""; 0]);
    let used: Vec<_> =
        compilation.tenants[0].quotas.iter().map(|of| (of.quota.as_str(), of.used, of.most)).collect();
    assert_eq!(used, [("cgroups", 2, 2), ("ports", 1, 1)]);
}

/// Tenants of a tenant share its part.
#[test]
fn tenants_of_a_tenant_share_its_part() {
    let below = "db = tenant \"db\" of cgroup \"db\"\nweb = tenant \"web\" of cgroup \"web\"\nroot = fifo { db, web }\n";
    let below = below.replace("fifo", "priority");
    let of = |db: usize| {
        let greedy = cgroups(db);
        let files =
            [("vm1", below.as_str()), ("vm1.db", greedy.as_str()), ("vm1.web", MODEST), ("vm2", MODEST)];
        faults(&compiled(OPERATOR, &files, &CompileOptions::default()))
    };
    // 64 less the operator's 2, in two parts; 31 less the 2 of vm1, in two parts.
    assert_eq!(of(14), [""; 0]);
    assert_eq!(of(15).len(), 1);
    assert!(of(15)[0].starts_with("vm1.db E0606 vm1.db.weft:"), "{:?}", of(15));
}

/// However many tenants are greedy at once, the policy is in force with the files of the others.
#[test]
fn a_crowd_of_greedy_tenants_keeps_no_file_from_another() {
    let names: Vec<String> = (0..50).map(|at| format!("t{at}")).collect();
    let clauses: String =
        names.iter().map(|of| format!("{of} = tenant \"{of}\" of port \"{of}\"\n")).collect();
    let operator = format!(
        "link 1gbps\n{clauses}root = wfq {{ {} }}\n",
        names.iter().map(|of| format!("{of}: 1")).collect::<Vec<_>>().join(", ")
    );
    for greedy in [ports(1_000), rows(400), masks(100), work()] {
        let mut of: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), greedy.as_str())).collect();
        of[49].1 = "class web = tcp\nroot = priority { web }\n";
        let around = Fallback { yields: &|_| true, good: &TenantTexts::default() };
        let source = Source { name: "op.weft", text: &operator };
        let (compilation, refused): (_, AtFault) =
            compile_with_fallback(source, &texts(&of), &CompileOptions::default(), around)
                .expect("few rounds");
        assert!(
            refused.len() == 49 && !refused.contains_key("t49"),
            "{refused:?} {:?}",
            compilation.diagnostics.first()
        );
        let policy = compilation.policy.expect("a policy");
        assert!(policy.classes.iter().any(|class| class.name == "t49.web"));
    }
}

/// A user's file, whose text has fewer steps than an operator's, is not refused for what another tenant's needs.
#[test]
fn steps_of_other_tenants_are_not_a_tenants() {
    let some = rows(2_000);
    let steps = |of: &[(&str, &str)], most: Steps| {
        let options = CompileOptions { steps: most, ..CompileOptions::default() };
        let compilation = compiled(OPERATOR, of, &options);
        (faults(&compilation), compilation.steps)
    };
    let (_, before) = steps(&[("vm1", &some)], Steps::WHOLE);
    assert_eq!(steps(&[("vm1", &some), ("vm2", MODEST)], before.and(Steps::SMALL)).0, [""; 0]);
    let (found, _) = steps(&[("vm1", &some), ("vm2", &work())], before.and(Steps::SMALL));
    assert_eq!((found.len(), found[0].starts_with("vm2 E0408 vm2.weft:")), (1, true), "{found:?}");
}

fn some_file() -> impl Strategy<Value = String> {
    let near = |most: usize| prop_oneof![0..20_usize, (most - 3)..(most + 4)].prop_map(|count| count + 1);
    prop_oneof![
        near(31).prop_map(cgroups),
        near(512).prop_map(ports),
        near(508).prop_map(masks),
        near(140).prop_map(entries),
        (1..3_000_usize).prop_map(exceptions),
        (1..9_000_usize).prop_map(rows),
        (1..9_000_usize).prop_map(destinations),
        Just(work()),
        Just("root = nothing\n".to_owned()),
        Just(MODEST.to_owned()),
        (1..9_usize, 1..9_usize).prop_map(|(some, others)| {
            file((0..some).flat_map(|at| {
                (0..others)
                    .map(move |of| format!("mark {at} and not tcp dport {of} and not cgroup \"x{at}\""))
            }))
        }),
    ]
}

/// The places that a policy may name tenants by; packets of both are in the second and the third.
const TENANTS: [&str; 4] = [
    OPERATOR,
    "link 1gbps\nvm1 = tenant \"a\" of cgroup \"/vm\" and tcp\nvm2 = tenant \"b\" of cgroup \"/vm\"\nroot = wfq { vm1: 1, vm2: 1 }\n",
    "link 1gbps\nvm1 = tenant \"a\" of cgroup \"/vm\" and (tcp or udp)\nvm2 = tenant \"b\" of cgroup \"/vm\" and (dport 1..99 or to 10.0.0.0/8)\n\
     root = limit 500mbps of wfq { vm1: 1, vm2: 1 }\n",
    "link 1gbps\nclass own = dport 22 and not tcp and not cgroup \"/vm1/own\"\nvm1 = tenant \"a\" of cgroup \"/vm1\" { masks 600 }\n\
     vm2 = tenant \"b\" of cgroup \"/vm2\" { rows 5000 }\nroot = wfq { vm1: 1, vm2: 1, own: 1 }\n",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_tenants_file_is_accepted_whatever_the_other_one_writes(
        operator in prop::sample::select(&TENANTS[..]),
        one in some_file(),
        other in some_file(),
    ) {
        let around = |of: &[(&str, &str)]| {
            let files = texts(of);
            let around = Fallback { yields: &|_| true, good: &TenantTexts(BTreeMap::new()) };
            let source = Source { name: "op.weft", text: operator };
            let compiled = compile_with_fallback(source, &files, &CompileOptions::default(), around);
            let (compilation, refused) = compiled.expect("few rounds");
            assert!(compilation.policy.is_some(), "{:?}", compilation.diagnostics);
            refused
        };
        let code = |refused: &AtFault, of: &str| refused.get(of).map(|error| error.code);
        let both = around(&[("vm1", &one), ("vm2", &other)]);
        prop_assert_eq!(code(&both, "vm1"), code(&around(&[("vm1", &one)]), "vm1"));
        prop_assert_eq!(code(&both, "vm2"), code(&around(&[("vm2", &other)]), "vm2"));
    }
}
