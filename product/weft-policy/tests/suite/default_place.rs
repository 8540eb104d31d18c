//! The place of `default` where the text has none: below the limits at the beginning of the root.

use crate::common::compiled;
use weft_policy::{
    Code, CompileOptions, CompiledPolicy, FileError, FileText, Source, TenantFiles, Wanted, compile_with,
};
use weft_sched::{Child, Discipline};

/// A policy of the tree and the classes that it names.
fn with_classes(tree: &str) -> String {
    let dns = if tree.contains("dns") { "class dns = udp dport 53\n" } else { "" };
    let web = if tree.contains("web") { "class web = tcp dport 443\n" } else { "" };
    format!("{web}{dns}{tree}\n")
}

/// The rates in Mb/s of the limits that packets of a class pass, in all of its lanes.
fn limits(policy: &CompiledPolicy, class: &str) -> Vec<u64> {
    let class = policy.classes.iter().position(|of| of.name == class).expect("the class");
    let lanes = policy.program.lanes.iter().filter(|lane| lane.class.index() == class);
    let limits = lanes.flat_map(|lane| &lane.limits);
    let mut rates: Vec<u64> =
        limits.map(|limit| policy.program.limits[limit.index()].rate.get() / 1_000_000).collect();
    rates.sort_unstable();
    rates
}

#[test]
fn default_goes_below_the_limits_with_which_the_root_begins() {
    for (tree, expected) in [
        ("root = limit 18mbps of fair of web", &[18][..]),
        ("root = limit 18mbps of web", &[18]),
        ("root = limit 18mbps of fifo { web, dns }", &[18]),
        ("root = limit 18mbps of wfq { web: 1, dns: 2 }", &[18]),
        ("root = limit 18mbps of priority { web, dns }", &[18]),
        ("root = limit 18mbps of apps\napps = priority { web, dns }", &[18]),
        ("root = all\nall = limit 18mbps of fair of web", &[18]),
        ("root = limit 18mbps of limit 9mbps of web", &[9, 18]),
        ("root = bucket rate 99mbps of limit 18mbps of web", &[18]),
        ("root = limit 18mbps of priority { default, web }", &[18]),
        ("root = limit 18mbps of codel of web", &[18]),
        // What the listed children have for themselves is theirs.
        ("root = priority { limit 18mbps of web }", &[]),
        ("root = wfq { limit 18mbps of web: 1, dns: 1 }", &[]),
        ("root = fair of web", &[]),
        ("root = priority { limit 18mbps of web, default }", &[]),
    ] {
        let text = with_classes(tree);
        let found = compiled(&text);
        let policy = found.policy.unwrap_or_else(|| panic!("{text}{:?}", found.diagnostics));
        policy.check_invariants();
        assert_eq!(limits(&policy, "default"), expected, "{text}");
        assert!(found.diagnostics.iter().all(|of| of.code != Code::DefaultOutside), "{text}");
    }
}

#[test]
fn default_keeps_its_place_among_its_siblings_below_a_limit() {
    let order = |tree: &str| {
        let text = with_classes(&format!("root = limit 18mbps of {tree}"));
        let program = compiled(&text).policy.expect("a policy").program;
        let Child::Node(root) = program.root else { panic!("{text}") };
        let node = &program.nodes[root.index()];
        let name = |child: &Child| match child {
            Child::Leaf(leaf) => program.leaves[leaf.index()].name.clone(),
            Child::Node(node) => program.nodes[node.index()].name.clone(),
        };
        let weights = match &node.discipline {
            Discipline::Wfq(weights) => weights.iter().map(|weight| weight.get()).collect(),
            _ => Vec::new(),
        };
        (node.children.iter().map(name).collect::<Vec<_>>(), weights)
    };
    assert_eq!(order("priority { web, dns }").0.last().map(String::as_str), Some("default"));
    assert_eq!(order("wfq { web: 3, dns: 2 }").1, [3, 2, 1]);
    assert_eq!(order("fair of web").0.last().map(String::as_str), Some("default"));
}

#[test]
fn a_shaper_of_everything_holds_default_too() {
    let text = with_classes("root = bucket rate 18mbps of fair of web");
    let program = compiled(&text).policy.expect("a policy").program;
    let Child::Node(root) = program.root else { panic!("{program:?}") };
    let root = &program.nodes[root.index()];
    assert!(matches!(root.discipline, Discipline::Custom(_)), "{root:?}");
    let [Child::Node(below)] = root.children[..] else { panic!("{root:?}") };
    assert_eq!(program.nodes[below.index()].children.len(), 2, "the class and `default`");
    // A shaper that holds the flows of one class by themselves is that class's.
    let text = with_classes("root = paced of web");
    let program = compiled(&text).policy.expect("a policy").program;
    let Child::Node(root) = program.root else { panic!("{program:?}") };
    assert_eq!(program.nodes[root.index()].discipline, Discipline::Priority);
}

#[test]
fn limits_of_some_destinations_or_ports_leave_default_beside_them_and_say_so() {
    for limits_of in ["by destination { 10.0.1.0/24: 7mbps }", "by port { \"vm1\": 7mbps }"] {
        for below in ["fair of web", "priority { web, dns }", "apps\napps = wfq { web: 1, dns: 1 }"] {
            let text = with_classes(&format!("root = limit 18mbps of limit {limits_of} of {below}"));
            let found = compiled(&text);
            let policy = found.policy.unwrap_or_else(|| panic!("{text}{:?}", found.diagnostics));
            assert_eq!(limits(&policy, "default"), [18], "{text}");
            let warning = found.diagnostics.iter().find(|of| of.code == Code::DefaultOutside);
            let warning = warning.unwrap_or_else(|| panic!("{text}"));
            assert!(warning.one_line().contains("warning[W0006]"), "{warning}");
            let again = compiled(&warning.fix.as_ref().expect("a correction").apply(&text));
            assert!(again.diagnostics.iter().all(|of| of.code != Code::DefaultOutside), "{again:?}");
            let policy = again.policy.unwrap_or_else(|| panic!("{text}{:?}", again.diagnostics));
            assert_eq!(limits(&policy, "default"), [7, 18, 18], "{text}");
        }
        // Where a class takes all packets, nothing is left for `default`.
        let text = format!("class all = any\nroot = limit {limits_of} of all\n");
        assert_eq!(compiled(&text).diagnostics, [], "{text}");
    }
}

/// One tenant's file.
struct File(&'static str);

impl TenantFiles for File {
    fn read(&self, wanted: Wanted<'_>) -> Result<FileText, FileError> {
        Ok(FileText { name: wanted.path.to_owned(), text: with_classes(self.0) })
    }
}

#[test]
fn a_tenants_default_goes_below_the_limits_of_the_tenants_root() {
    for (tree, expected) in [
        ("root = limit 18mbps of fair of web", &[18][..]),
        ("root = limit 18mbps of apps\napps = wfq { web: 1, dns: 1 }", &[18]),
        ("root = all\nall = limit 18mbps of limit 9mbps of web", &[9, 18]),
        ("root = bucket rate 99mbps of limit 18mbps of apps\napps = limit 9mbps of dns", &[9, 18]),
        ("root = priority { limit 18mbps of web }", &[]),
        ("root = all\nall = priority { web, dns }", &[]),
    ] {
        let text = "vm1 = tenant \"vm1.weft\" of cgroup \"/vm1\"\nroot = wfq { vm1: 1, default: 1 }\n";
        let found = compile_with(Source { name: "p", text }, &File(tree), &CompileOptions::default());
        let policy = found.policy.unwrap_or_else(|| panic!("{tree}{:?}", found.diagnostics));
        policy.check_invariants();
        assert_eq!(limits(&policy, "vm1.default"), expected, "{tree}");
        assert_eq!(limits(&policy, "default"), [0; 0], "{tree}");
    }
}
