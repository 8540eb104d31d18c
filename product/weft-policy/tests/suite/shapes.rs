//! The results of compilation: placement of `default`, limits in sets and in series, exceptions by order.

use crate::common::compiled;
use expect_test::{Expect, expect};
use weft_policy::{Code, describe, render};

#[track_caller]
fn check(text: &str, shape: &Expect) {
    let compilation = compiled(text);
    let policy = compilation.policy.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    policy.check_invariants();
    shape.assert_eq(&describe(&policy));
}

#[test]
fn default_goes_last_wherever_the_root_has_a_bottom() {
    check(
        "class a = tcp\nroot = priority { a }",
        &expect![[r#"
            tree
              root: strict priority, the first child with packets is served
                1. a: FIFO
                2. default: FIFO
            lanes
              0: class a, leaf a, not limited, at most 10000 packets wait
              1: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: tcp -> a
              2: any -> default
            destinations; the longest prefix decides
              a: any -> lane 0
              default: any -> lane 1
        "#]],
    );
    check(
        "class a = tcp\nroot = wfq { a: 5 }",
        &expect![[r#"
            tree
              root: weighted fair queueing
                weight 5: a: FIFO
                weight 1: default: FIFO
            lanes
              0: class a, leaf a, not limited, at most 10000 packets wait
              1: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: tcp -> a
              2: any -> default
            destinations; the longest prefix decides
              a: any -> lane 0
              default: any -> lane 1
        "#]],
    );
    check(
        "class a = tcp\nroot = limit 1gbps burst 64kib of a",
        &expect![[r#"
            tree
              root+default: strict priority, the first child with packets is served
                1. a: FIFO
                2. default: FIFO
            limits
              root: 1 Gb/s, bursts up to 65.5 kB
            lanes
              0: class a, leaf a, limited by root, at most 10000 packets wait
              1: class default, leaf default, limited by root, at most 10000 packets wait
            rules; the first match decides
              1: tcp -> a
              2: any -> default
            destinations; the longest prefix decides
              a: any -> lane 0
              default: any -> lane 1
        "#]],
    );
    check(
        "class a = tcp\nroot = priority { default, a }",
        &expect![[r#"
            tree
              root: strict priority, the first child with packets is served
                1. default: FIFO
                2. a: FIFO
            lanes
              0: class a, leaf a, not limited, at most 10000 packets wait
              1: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: tcp -> a
              2: any -> default
            destinations; the longest prefix decides
              a: any -> lane 0
              default: any -> lane 1
        "#]],
    );
    check(
        "root = default",
        &expect![[r#"
            tree
              default: FIFO
            lanes
              0: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: any -> default
            destinations; the longest prefix decides
              default: any -> lane 0
        "#]],
    );
    check(
        "class default = any\nclass a = tcp\nroot = wfq { default: 3, a: 1 }",
        &expect![[r#"
            tree
              root: weighted fair queueing
                weight 3: default: FIFO
                weight 1: a: FIFO
            lanes
              0: class a, leaf a, not limited, at most 10000 packets wait
              1: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: tcp -> a
              2: any -> default
            destinations; the longest prefix decides
              a: any -> lane 0
              default: any -> lane 1
        "#]],
    );
}

#[test]
fn a_fifo_merges_classes_into_one_leaf() {
    check(
        "class a = tcp\nclass b = udp\nroot = wfq { fifo { a, limit 1gbps of b }: 2, default: 1 }",
        &expect![[r#"
            tree
              root: weighted fair queueing
                weight 2: root#1: FIFO, of a and b
                weight 1: default: FIFO
            limits
              root#2: 1 Gb/s, bursts up to 253 kB
            lanes
              0: class a, leaf root#1, not limited, at most 10000 packets wait
              1: class b, leaf root#1, limited by root#2, at most 10000 packets wait
              2: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: tcp -> a
              2: udp -> b
              3: any -> default
            destinations; the longest prefix decides
              a: any -> lane 0
              b: any -> lane 1
              default: any -> lane 2
        "#]],
    );
}

#[test]
fn bounds_hold_for_all_classes_or_for_one() {
    check(
        "bound 500 packets\nbound 7 packets of a\nclass a = tcp\nclass b = udp\nroot = wfq { a: 1, b: 1 }",
        &expect![[r#"
            tree
              root: weighted fair queueing
                weight 1: a: FIFO
                weight 1: b: FIFO
                weight 1: default: FIFO
            lanes
              0: class a, leaf a, not limited, at most 7 packets wait
              1: class b, leaf b, not limited, at most 500 packets wait
              2: class default, leaf default, not limited, at most 500 packets wait
            rules; the first match decides
              1: tcp -> a
              2: udp -> b
              3: any -> default
            destinations; the longest prefix decides
              a: any -> lane 0
              b: any -> lane 1
              default: any -> lane 2
        "#]],
    );
}

#[test]
fn what_is_excluded_is_decided_by_the_classes_after() {
    check(
        "class a = udp and not mark 1\nclass b = mark 1/1\nroot = priority { a, b }",
        &expect![[r#"
            tree
              root: strict priority, the first child with packets is served
                1. a: FIFO
                2. b: FIFO
                3. default: FIFO
            lanes
              0: class a, leaf a, not limited, at most 10000 packets wait
              1: class b, leaf b, not limited, at most 10000 packets wait
              2: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: udp and mark 0x1 -> b
              2: udp -> a
              3: mark 0x1/0x1 -> b
              4: any -> default
            destinations; the longest prefix decides
              a: any -> lane 0
              b: any -> lane 1
              default: any -> lane 2
        "#]],
    );
    check(
        "class a = tcp and not port 22\nroot = a",
        &expect![[r#"
            tree
              root+default: strict priority, the first child with packets is served
                1. a: FIFO
                2. default: FIFO
            lanes
              0: class a, leaf a, not limited, at most 10000 packets wait
              1: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: tcp and sport 23..65535 and dport 23..65535 -> a
              2: tcp and sport 23..65535 and dport 0..21 -> a
              3: tcp and sport 0..21 and dport 23..65535 -> a
              4: tcp and sport 0..21 and dport 0..21 -> a
              5: any -> default
            destinations; the longest prefix decides
              a: any -> lane 0
              default: any -> lane 1
        "#]],
    );
}

#[test]
fn the_longest_prefix_of_a_set_wins_and_nested_sets_add_up() {
    check(
        "class a = udp
apps = priority { a, default }
far = limit 2gbps to 10.0.0.0/8 of apps
d1 = limit 1gbps to 10.0.1.0/24 of far
d2 = limit 1gbps to 10.0.2.0/24 of far
d = fifo { d1, d2 }
near = limit 3gbps to 10.0.2.0/25 of apps
root = fifo { d, near }",
        &expect![[r#"
            tree
              apps: strict priority, the first child with packets is served
                1. a: FIFO
                2. default: FIFO
            limits
              far: 2 Gb/s, bursts up to 503 kB
              d1: 1 Gb/s, bursts up to 253 kB
              d2: 1 Gb/s, bursts up to 253 kB
              near: 3 Gb/s, bursts up to 753 kB
            lanes
              0: class a, leaf a, limited by near, at most 10000 packets wait
              1: class a, leaf a, limited by far, d1, at most 10000 packets wait
              2: class a, leaf a, limited by far, d2, at most 10000 packets wait
              3: class a, leaf a, limited by far, at most 10000 packets wait
              4: class a, leaf a, not limited, at most 10000 packets wait
              5: class default, leaf default, limited by near, at most 10000 packets wait
              6: class default, leaf default, limited by far, d1, at most 10000 packets wait
              7: class default, leaf default, limited by far, d2, at most 10000 packets wait
              8: class default, leaf default, limited by far, at most 10000 packets wait
              9: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: udp -> a
              2: any -> default
            destinations; the longest prefix decides
              a: to 10.0.2.0/25 -> lane 0
              a: to 10.0.1.0/24 -> lane 1
              a: to 10.0.2.0/24 -> lane 2
              a: to 10.0.0.0/8 -> lane 3
              a: any other -> lane 4
              default: to 10.0.2.0/25 -> lane 5
              default: to 10.0.1.0/24 -> lane 6
              default: to 10.0.2.0/24 -> lane 7
              default: to 10.0.0.0/8 -> lane 8
              default: any other -> lane 9
        "#]],
    );
}

#[test]
fn explicit_parallel_limits_mean_the_same_as_limit_by_destination() {
    let sugar = "class a = tcp\nvm = limit by destination { 10.0.1.0/24: 2gbps, 10.0.2.0/24: 500mbps } of a\nroot = vm";
    let plain = "class a = tcp\nd1 = limit 2gbps to 10.0.1.0/24 of a\nd2 = limit 500mbps to 10.0.2.0/24 of a\n\
                 vm = fifo { d1, d2 }\nroot = vm";
    let compile = |text| compiled(text).policy.expect("both are right");
    let (sugar, plain) = (compile(sugar), compile(plain));
    assert_eq!(sugar.rules, plain.rules);
    assert_eq!(sugar.program.lanes, plain.program.lanes);
    assert_eq!(sugar.program.nodes, plain.program.nodes);
}

#[test]
fn the_pretty_form_shows_the_line() {
    let text = "# a comment\nclass wéb = tcp\nroot = priority { a }\n";
    let drawn: Vec<String> =
        compiled(text).diagnostics.iter().map(|d| render(d, text, weft_text::Style::Plain)).collect();
    expect![[r#"
        error[E0002]: the character `é` has no meaning here
         --> p:2:7
          |
        2 | class wéb = tcp
          |       ^^^
          |
          = help: names have the letters a to z and A to Z, digits, `_`, `-` and `.`

        error[E0201]: nothing in the policy has the name `a`
         --> p:3:19
          |
        3 | root = priority { a }
          |                   ^
          |
          = help: define it: `class a = ...` or `a = ...`"#]]
    .assert_eq(&drawn.join("\n\n"));
    let circle = "x = fifo { x }\nroot = x";
    let drawn: Vec<String> =
        compiled(circle).diagnostics.iter().map(|d| render(d, circle, weft_text::Style::Plain)).collect();
    expect![[r#"
        error[E0304]: `x` is below itself: `x` and again `x`
         --> p:1:12
          |
        1 | x = fifo { x }
          |            ^
          |
          = note: Loom, section 4: the policy must be a tree once its shaping nodes are removed; here it has a cycle.
          = help: remove one of these references"#]].assert_eq(&drawn.join("\n\n"));
    let coloured = render(&compiled(text).diagnostics[0], text, weft_text::Style::Colored);
    assert!(coloured.contains("\u{1b}["), "colours only when asked for");
}

#[test]
fn every_code_is_in_the_book_and_in_a_test() {
    let here = env!("CARGO_MANIFEST_DIR");
    let read =
        |path: String| std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let book = read(format!("{here}/../../docs/policy-language.md"));
    let tests = [
        "errors_syntax",
        "errors_values",
        "errors_meaning",
        "errors_dag",
        "errors_algorithms",
        "bounds",
        "default_place",
        "policies",
        "latency",
        "steering",
        "tenants",
    ];
    let tests: String = tests.iter().map(|name| read(format!("{here}/tests/suite/{name}.rs"))).collect();
    for code in Code::ALL {
        assert!(book.contains(&format!("| {code} |")), "docs/policy-language.md does not list {code}");
        assert!(tests.contains(&format!("[{code}]")), "no test provokes {code}");
    }
}
