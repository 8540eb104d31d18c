//! Steering clauses: their text, their names, what received packets belong to, and the files that they take the place of.

use crate::common::{check, compiled};
use expect_test::expect;
use proptest::prelude::*;
use weft_policy::explain::DescribedPacket;
use weft_policy::{
    CompileOptions, FileError, FileText, NoFiles, Source, TenantFiles, Wanted, compile_with, describe,
    explain, fuzz_goals, fuzz_policy, read_goals, reformat, steer_with, weigh,
};
use weft_steer::nic;
use weft_steer::policy::PolicyFile;
use weft_steer::search::{Options, Plan, Planner};
use weft_steer::{Flow, flows_csv};
use weft_units::Weight;

const CLASSES: &str = "class kvs = tcp and sport 11211\nclass web = tcp and sport 80..443\n";

/// A policy with the classes `kvs` and `web`.
fn with(clauses: &str) -> String {
    format!("{CLASSES}root = priority {{ kvs, web }}\n{clauses}\n")
}

fn goals(text: &str) -> PolicyFile {
    let (goals, compilation) = steer_with(Source { name: "p", text }, &NoFiles, &CompileOptions::default());
    assert!(!compilation.has_errors(), "{text}: {:#?}", compilation.diagnostics);
    goals.unwrap_or_else(|| panic!("no goals: {text}"))
}

fn flow(text: &str) -> Flow {
    flows_csv::read_flow(text).expect("a flow").expect("not empty")
}

#[test]
fn each_goal_is_that_of_the_planner() {
    for clause in [
        "balance",
        "balance by rate",
        "isolate kvs on 4 queues",
        "priority kvs by 8 flows",
        "static { kvs: 0..3, web: 4 }",
        "locality",
        "locality { 0: 4, 1: 5 }",
        "expression \"variance(load) + 10 * count(class kvs outside 0..3)\"",
        "1 * balance + 0.5 * locality",
    ] {
        let text = with(&format!("steer {clause}"));
        assert_eq!(compiled(&text).diagnostics, [], "{clause}");
        assert_eq!(goals(&text).policy.name(), clause);
    }
    let several =
        goals(&with("steer isolate kvs on 1 queue +\n    2*balance by weight\nsteer locality{0:4,}"));
    assert_eq!(several.policy.name(), "1 * isolate kvs on 1 queues + 2 * balance + 1 * locality { 0: 4 }");
    let none = steer_with(Source { name: "p", text: &with("") }, &NoFiles, &CompileOptions::default());
    assert!(none.0.is_none() && !none.1.has_errors());
}

#[test]
fn a_received_packet_is_of_the_class_of_its_answers() {
    let read = goals(&with("steer isolate kvs on 4 queues"));
    for (received, class) in [
        ("tcp,192.0.2.1,40000,198.51.100.1,11211", "kvs"),
        ("tcp,*,*,198.51.100.1,443", "web"),
        ("tcp,192.0.2.1,11211,198.51.100.1,40000", ""),
        ("tcp,*,*,198.51.100.1,*", ""),
    ] {
        assert_eq!(read.classes.of(&flow(received)), class, "{received}");
    }
}

#[test]
fn the_words_of_steering_may_be_names() {
    let text = "class steer = tcp\nclass isolate = udp\nclass queues = icmp\nclass static = sctp\n\
                balance = wfq { steer: 1, isolate: 2, queues: 1 }\nroot = priority {\n    static,\n    balance,\n}\n\
                bound 5 packets of steer\nsteer isolate isolate on 2 queues\n";
    assert_eq!(compiled(text).diagnostics, []);
    let named =
        "class a = tcp\nsteer = wfq {\n    a: 1,\n    default: 1,\n}\nroot = priority {\n    steer,\n}\n";
    assert_eq!(compiled(named).diagnostics, []);
    let own = "algorithm steer(balance: time) { rank = now + balance }\nclass a = tcp\nroot = priority {\n\
               steer 3ms of a,\n}\n";
    let errors: Vec<String> = compiled(own).diagnostics.iter().map(|found| found.one_line()).collect();
    assert!(errors.iter().all(|error| !error.contains("[E0001]")), "{errors:#?}");
}

#[test]
fn a_clause_has_a_standard_form() {
    let text = "class a=tcp\nroot=a\nsteer   2*balance+isolate a on  1 queue # why\nsteer static{a:0..3,}\n\
                steer locality {\n0:4, 1 : 5}\n";
    let new = reformat(Source { name: "p", text }).expect("no errors");
    expect![[r#"
        class a = tcp
        root = a
        steer 2 * balance + isolate a on 1 queue  # why
        steer static { a: 0..3 }
        steer locality {
            0: 4,
            1: 5,
        }
    "#]]
    .assert_eq(&new);
    assert_eq!(compiled(&new).policy, compiled(text).policy);
    assert_eq!(reformat(Source { name: "p", text: &new }).as_deref(), Ok(&*new));
}

#[test]
fn the_tools_show_clauses() {
    let text = with("steer 2 * isolate kvs on 4 queues");
    let policy = compiled(&text).policy.expect("a policy");
    assert!(describe(&policy).starts_with("receive queues: 2 * isolate kvs on 4 queues\ntree\n"));
    let packet: DescribedPacket = "tcp 192.0.2.1:11211 > 10.0.1.7:1024".parse().expect("a packet");
    let told = explain(Source { name: "p", text: &text }, &policy, &packet).to_string();
    assert!(
        told.contains("note       `steer 2 * isolate kvs on 4 queues` says which receive queues"),
        "{told}"
    );
    let drawing = weft_policy::draw(Source { name: "p", text: &text }, &NoFiles).expect("a drawing");
    assert!(drawing.to_svg().contains("steer 2"));
}

#[test]
fn a_class_that_tests_its_sender_cannot_be_steered() {
    check(
        "class a = tcp and (cgroup \"/a\" or mark 3)\nclass b = tcp\nroot = priority { a, b }\nsteer isolate a on 2 queues\n",
        &expect![[r#"
            p:1:20: error[E0702]: `steer` names `a`, but the NIC does not know the cgroup of the sender when it receives a packet
              help: describe the flows by what their packets show: protocol, ports, addresses or VLAN, such as `tcp and sport 11211`
        "#]],
    );
    check(
        "class a = tcp and process \"nginx\"\nclass b = tcp\nroot = priority { a, b }\nsteer isolate a on 2 queues\n",
        &expect![[r#"
            p:1:19: error[E0702]: `steer` names `a`, but the NIC does not know the process of the sender when it receives a packet
              help: describe the flows by what their packets show: protocol, ports, addresses or VLAN, such as `tcp and sport 11211`
        "#]],
    );
    let beside =
        "class a = cgroup \"/a\"\nclass b = tcp\nroot = priority { a, b }\nsteer isolate b on 2 queues\n";
    assert_eq!(goals(beside).classes.of(&flow("tcp,192.0.2.1,1,192.0.2.2,2")), "b", "the NIC cannot see `a`");
}

#[test]
fn wrong_clauses_are_reported_at_their_places() {
    check(
        &with(
            "steer isolate kv on 2 queues\nsteer isolate kvs on 0 queues\nsteer expression \"variance(lod)\"\n\
             steer static { web: 3..1 }\nsteer locality { 1: 2, 1: 3 }\nsteer static {}\nsteer isolate root on 1 queue",
        ),
        &expect![[r#"
            p:4:15: error[E0201]: nothing in the policy has the name `kv`: did you mean `kvs`?
              help: a name is used as it is defined, with capitals and small letters
            p:5:22: error[E0701]: `0` is not a number of queues
              help: such as `steer isolate kvs on 4 queues`
            p:6:28: error[E0701]: expected `load` or `flows`, found `lod`
              help: such as `variance(load)` or `max(flows of class "hp" on 0..3)`
            p:7:21: error[E0701]: the queues 3..1 go backwards
              help: write 1..3
            p:8:24: error[E0208]: processor 1 has a queue already
              help: give each processor one queue
            p:9:7: error[E0205]: the clause names no class
              help: such as `steer static { kvs: 0..3, web: 4 }`: queues count from 0, and both ends belong to a range
        "#]],
    );
    check(
        &with("steer isolate kvs on 2 queues\nsteer priority root by 3 flows"),
        &expect![[r#"
            p:5:16: error[E0703]: `root` and `kvs`, which are both steered, have `kvs` in common
              help: name the classes, or the node above them
        "#]],
    );
}

/// The file of every tenant.
struct Tenants(&'static str);

impl TenantFiles for Tenants {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        Ok(FileText { name: wanted.path.to_owned(), text: self.0.to_owned() })
    }
}

const OPERATOR: &str = "vm1 = tenant \"vm1.weft\" of from 10.0.1.0/24\nvm2 = tenant \"vm2.weft\" of cgroup \"/vm2\"\n\
                        root = wfq { vm1: 1, vm2: 3 }\n";
const TENANT: &str =
    "class web = tcp and sport 80\nclass db = tcp and sport 5432\nroot = wfq { web: 2, db: 1 }\n";

#[test]
fn tenants_are_steered_by_their_names_and_steer_nothing_themselves() {
    let steer = |clause: &str, tenant: &'static str| {
        let text = format!("{OPERATOR}steer {clause}\n");
        let source = Source { name: "op.weft", text: &text };
        let (goals, compilation) = steer_with(source, &Tenants(tenant), &CompileOptions::default());
        let errors: Vec<String> = compilation.diagnostics.iter().map(|found| found.one_line()).collect();
        goals.filter(|_| errors.is_empty()).ok_or(errors)
    };
    let (web, db) = (flow("tcp,192.0.2.1,9,10.0.1.5,80"), flow("tcp,192.0.2.1,9,10.0.1.5,5432"));
    let whole = steer("isolate vm1 on 2 queues", TENANT).expect("goals");
    assert_eq!((whole.classes.of(&web), whole.classes.of(&db)), ("vm1", "vm1"));
    let one = steer("expression \"count(class vm1.web outside 0..3)\"", TENANT).expect("goals");
    assert_eq!((one.classes.of(&web), one.classes.of(&db)), ("vm1.web", "vm1.db"));
    assert_eq!(one.policy.classes(), ["vm1.web"]);
    let hidden = steer("isolate vm2.web on 2 queues", TENANT).expect_err("a cgroup");
    assert!(hidden[0].starts_with("op.weft:2:28: error[E0702]"), "{hidden:?}");
    let own = steer("isolate vm1 on 2 queues", "class web = tcp\nroot = web\nsteer balance\n")
        .expect_err("its own");
    assert!(own[0].starts_with("vm1.weft:3:7: error[E0605]: a tenant does not steer"), "{own:?}");
}

#[test]
fn weights_of_a_tree_with_tenants() {
    let most = Weight::new(65_535).expect("a weight");
    let text = "vm1 = tenant \"vm1.weft\" of cgroup \"/vm1\"\nroot = wfq { vm1: 1, default: 3 }\n";
    let (weighed, _) = weigh(Source { name: "op", text }, &Tenants(TENANT), &CompileOptions::default(), most);
    let weighed = weighed.expect("weights");
    let named: Vec<(&str, u32)> = weighed
        .policy
        .classes
        .iter()
        .zip(&weighed.weights)
        .map(|(class, weight)| (class.name.as_str(), weight.get()))
        .collect();
    assert_eq!(named, [("vm1.web", 2), ("vm1.db", 1), ("vm1.default", 1), ("default", 12)]);
    let at_port = "class a = port \"eth7\"\nroot = a\n";
    let (_, refused) =
        weigh(Source { name: "op", text: at_port }, &NoFiles, &CompileOptions::default(), most);
    let found: Vec<String> = refused.diagnostics.iter().map(|found| found.one_line()).collect();
    assert!(found[0].starts_with("op:1:11: error[E0704]: Titan cannot match the port `eth7`"), "{found:?}");
    let of_process = "class a = tcp and process \"nginx\"\nroot = a\n";
    let (none, refused) =
        weigh(Source { name: "op", text: of_process }, &NoFiles, &CompileOptions::default(), most);
    let found: Vec<String> = refused.diagnostics.iter().map(|found| found.one_line()).collect();
    assert!(
        none.is_none()
            && found[0].starts_with("op:1:19: error[E0704]: Titan cannot match the process `nginx`"),
        "{found:?}"
    );
}

#[test]
fn the_example_of_the_guide_to_titan_has_the_weights_that_it_says() {
    let path = format!("{}/../../docs/titan.md", env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(path).expect("the guide is there");
    let (_, section) = guide.split_once("**A policy as weights.**").expect("a section");
    let section = section.split("\n- ").next().unwrap_or_default();
    let code: Vec<&str> = section.lines().map(|line| line.strip_prefix("    ").unwrap_or_default()).collect();
    let (text, most) = (code.join("\n"), Weight::new(65_535).expect("a weight"));
    let (weighed, _) = weigh(Source { name: "p", text: &text }, &NoFiles, &CompileOptions::default(), most);
    let weights = weighed.expect("weights").weights;
    assert_eq!(weights.iter().map(|weight| weight.get()).collect::<Vec<_>>(), [5, 12, 3, 5]);
}

fn plan(model: &str, policy: PolicyFile, flows: &[Flow]) -> Option<Plan> {
    let text = nic::shipped().iter().find(|(name, _)| *name == model).expect("a model").1;
    let nic = nic::read(text, model).expect("a model");
    let options = Options { queues: Some(8), effort: 300, ..Options::default() };
    let mut planner = Planner::new(nic, policy, options).ok()?;
    planner.set(flows.to_vec());
    Some(planner.plan())
}

/// Pieces of clauses, right and wrong.
const PIECES: [&str; 30] = [
    "steer",
    "isolate",
    "kvs",
    "on",
    "4",
    "queues",
    "queue",
    "priority",
    "by",
    "8",
    "flows",
    "static",
    "{",
    "}",
    ":",
    "0..3",
    ",",
    "locality",
    "balance",
    "rate",
    "expression",
    "\"variance(load)\"",
    "\"spread(\"",
    "0.5",
    "*",
    "+",
    "\n",
    "\nsteer ",
    "# x\n",
    "=",
];

proptest! {
    #[test]
    fn no_clause_breaks_the_compiler(pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..16)) {
        let text = with(&format!("steer {}", pieces.join(" ")));
        fuzz_policy(text.as_bytes());
        let (goals, compilation) = steer_with(Source { name: "p", text: &text }, &NoFiles, &CompileOptions::default());
        prop_assert!(goals.is_none() || !compilation.has_errors());
        fuzz_goals(pieces.join(" ").as_bytes());
        fuzz_goals(pieces.concat().as_bytes());
    }
}

#[test]
fn goals_alone_are_refused_at_their_places() {
    let wrong = [
        "",
        "balanced",
        "isolate hp on four queues",
        "priority hp",
        "static { hp: 3..0 }",
        "static { hp: 0, hp: 1 }",
        "expression \"variance(lod)\"",
        "0.5 locality",
        "  class hp = udp",
        "balance\nroot = hp",
    ];
    let lines = wrong.map(|text| {
        let errors = read_goals(Source { name: "goals", text }).expect_err(text);
        errors.iter().map(|found| found.one_line() + "\n").collect::<String>()
    });
    expect![[r#"
        goals:1:1: error[E0001]: expected a goal, found the end
        goals:1:1: error[E0001]: expected a goal, found `balanced`: did you mean `balance`?
        goals:1:15: error[E0001]: expected a number of queues, found `four`
        goals:1:12: error[E0001]: expected `by`, found the end of the file
        goals:1:14: error[E0701]: the queues 3..0 go backwards
        goals:1:17: error[E0208]: `hp` has queues already
        goals:1:22: error[E0701]: expected `load` or `flows`, found `lod`
        goals:1:5: error[E0001]: expected `*`, found `locality`
        goals:1:3: error[E0001]: expected a goal, found `class`
        goals:2:1: error[E0001]: expected a goal, found `root`
    "#]]
    .assert_eq(&lines.concat());
    let several = read_goals(Source { name: "goals", text: "0.5*locality + isolate hp on 1 queue # why" });
    assert_eq!(several.expect("goals").policy.name(), "0.5 * locality + 1 * isolate hp on 1 queues");
}

/// One goal on the command line, with the classes of the flow list, plans as a policy with that clause.
#[test]
fn a_goal_alone_plans_as_a_policy_with_it() {
    let list = format!("{}/../../experiments/steering/memcached.csv", env!("CARGO_MANIFEST_DIR"));
    let flows = flows_csv::read(std::fs::read(list).expect("flows").as_slice(), "flows").expect("flows");
    for goal in [
        "balance",
        "balance by rate",
        "isolate hp on 4 queues",
        "priority hp by 8 flows",
        "static { hp: 0..3, be: 4..7 }",
        "locality",
    ] {
        // The flow list names the classes; those of the policy match nothing.
        let classes = "class hp = not any\nclass be = not any\nroot = fifo { hp, be, default }\n";
        let whole = format!("{classes}steer {goal}\n");
        for model in ["intel-82599", "e810"] {
            let alone = read_goals(Source { name: "goal", text: goal }).expect("a goal");
            assert_eq!(alone.policy.name(), goals(&whole).policy.name());
            assert_eq!(plan(model, alone, &flows), plan(model, goals(&whole), &flows), "{model}: {goal}");
        }
    }
}

#[test]
fn the_examples_of_the_guide_compile() {
    let path = format!("{}/../../docs/policy-language.md", env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(path).expect("the guide is there");
    let (_, section) = guide.split_once("\n## Steering\n").expect("a section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let code: Vec<&str> = section.lines().map(|line| line.strip_prefix("    ").unwrap_or_default()).collect();
    let text = code.join("\n");
    assert_eq!(
        compile_with(Source { name: "guide", text: &text }, &NoFiles, &CompileOptions::default()).diagnostics,
        []
    );
    let read = goals(&text);
    assert_eq!(read.classes.of(&flow("tcp,192.0.2.1,40000,198.51.100.1,11211")), "kvs");
}
