//! Every size has a bound; larger inputs are refused quickly and with a reason.

use crate::common::compiled;
use expect_test::{Expect, expect};
use std::fmt::Write;
use weft_policy::{CompileOptions, DIAGNOSTICS_MAX, ROWS_MAX, Source, Steps, compile, syntax};
use weft_units::BitsPerSec;

/// Compares the compiler's first line with the snapshot.
#[track_caller]
fn check_first(text: &str, said: &Expect) {
    let compilation = compiled(text);
    said.assert_eq(&compilation.diagnostics.first().map_or(String::new(), |d| d.one_line()));
}

fn classes(count: usize, condition: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for number in 0..count {
        writeln!(text, "class c{number} = {}", condition(number)).expect("a string takes all");
    }
    let names: Vec<String> = (0..count).map(|number| format!("c{number}")).collect();
    text + &format!("root = priority {{ {} }}\n", names.join(", "))
}

#[test]
fn nesting() {
    let parens = |depth: usize| format!("class a = {}tcp{}\nroot = a", "(".repeat(depth), ")".repeat(depth));
    assert!(compiled(&parens(syntax::NESTING_MAX - 1)).policy.is_some());
    check_first(
        &parens(syntax::NESTING_MAX),
        &expect!["p:1:75: error[E0004]: this is nested more than 64 deep"],
    );
    check_first(
        &format!("root = {} default", "fair of ".repeat(70)),
        &expect!["p:1:520: error[E0004]: this is nested more than 64 deep"],
    );
}

#[test]
fn size_of_the_text() {
    check_first(
        &"#".repeat(syntax::TEXT_MAX + 1),
        &expect!["p:1:1: error[E0005]: the file has 16777217 bytes; at most 16777216 can be a policy"],
    );
}

#[test]
fn cgroups() {
    let distinct = |count| classes(count, |number| format!("cgroup \"T{number}\""));
    assert!(compiled(&distinct(64)).policy.is_some());
    check_first(&distinct(65), &expect!["p:65:20: error[E0401]: the rules name more than 64 cgroups"]);
}

#[test]
fn ports() {
    let distinct = |count| classes(count, |number| format!("port \"p{number}\" or port \"p0\""));
    assert_eq!(compiled(&distinct(1024)).policy.map(|p| p.ports.len()), Some(1024));
    check_first(&distinct(1025), &expect!["p:1025:20: error[E0407]: the rules name more than 1024 ports"]);
}

#[test]
fn rows() {
    // A row of the table is that of `default`.
    let distinct = |count: usize, each: usize| {
        let any_of = |class: usize| (0..each).map(move |n| format!("priority {}", class * each + n));
        classes(count, |class| any_of(class).collect::<Vec<_>>().join(" or "))
    };
    assert_eq!(compiled(&distinct(127, 129)).policy.map(|p| p.rules.len()), Some(ROWS_MAX));
    check_first(
        &distinct(128, 128),
        &expect!["p:128:7: error[E0402]: with this class, the match table needs more than 16384 rows"],
    );
    let destinations: Vec<String> =
        (0..6000).map(|n| format!("10.{}.{}.0/24: 1gbps", n / 250, n % 250)).collect();
    let limits = format!(
        "root = limit by destination {{ {} }} of priority {{ x, default }}\n",
        destinations.join(", ")
    );
    let three = classes(3, |n| format!("priority {n}")).replace("root", "x");
    check_first(
        &(limits + &three),
        &expect!["p:4:7: error[E0402]: with this class, the match table needs more than 16384 rows"],
    );
}

#[test]
fn alternatives_of_one_condition() {
    let any_of = |field: &str| (0..30).map(|n| format!("{field} {}", n + 1)).collect::<Vec<_>>().join(" or ");
    let text = format!("class a = ({}) and ({})\nroot = a", any_of("sport"), any_of("dport"));
    check_first(
        &text,
        &expect!["p:1:7: error[E0403]: the condition of `a` has too many alternatives and exceptions"],
    );
}

#[test]
fn levels() {
    let chain = |depth: usize| {
        let mut text = String::from("root = limit 1gbps of n1\n");
        for level in 1..depth {
            writeln!(text, "n{level} = limit 1gbps of n{}", level + 1).expect("a string takes all");
        }
        text + &format!("n{depth} = fair of default\n")
    };
    assert!(compiled(&chain(60)).policy.is_some());
    check_first(&chain(70), &expect!["p:66:1: error[E0404]: `n65` lies more than 64 levels below the root"]);
    check_first(
        &chain(4000),
        &expect!["p:66:1: error[E0404]: `n65` lies more than 64 levels below the root"],
    );
}

#[test]
fn nodes() {
    check_first(
        &classes(17_000, |number| format!("priority {number}")),
        &expect![
            "p:17001:1: error[E0406]: the policy has 17001 classes and nodes; at most 16384 are possible"
        ],
    );
    let inline = "fair of default: 1, ".repeat(17_000);
    check_first(
        &format!("root = wfq {{ {inline} }}"),
        &expect!["p:1:327654: error[E0406]: the policy has more than 16384 classes and nodes"],
    );
}

#[test]
fn rates_from_outside_are_checked() {
    let say = |name: &str, rate: u64, said: &Expect| {
        let options = CompileOptions {
            overrides: vec![(name.to_owned(), BitsPerSec(rate))],
            ..CompileOptions::default()
        };
        let text = "x = limit by destination { 10.0.0.1: 1gbps, 10.0.0.2: 2gbps } of default\nroot = x";
        let compilation = compile(Source { name: "p", text }, &options);
        let rates =
            compilation.policy.iter().flat_map(|policy| &policy.program.limits).map(|l| l.rate.to_string());
        let lines = compilation.diagnostics.iter().map(|d| d.one_line());
        said.assert_eq(&rates.chain(lines).collect::<Vec<_>>().join("\n"));
    };
    say(
        "x",
        5,
        &expect![[r#"
        5 b/s
        5 b/s"#]],
    );
    say(
        "x[10.0.0.2]",
        5,
        &expect![[r#"
        1 Gb/s
        5 b/s"#]],
    );
    say(
        "y",
        5,
        &expect![
            "p:1:1: error[E0213]: a rate is given from outside for `y`, but the policy has no such limit"
        ],
    );
    say("x", 0, &expect!["p:1:1: error[E0102]: the rate given for the limit `x` from outside is zero"]);
}

/// Policies of 10,000 lines and more, in shapes that would be slow in a quadratic pass. Each is checked completely, and its
/// diagnostics stay readable.
#[test]
fn long_policies_are_checked_to_their_end() {
    let comments = "# a line of explanation\n".repeat(10_000) + "root = default\n";
    let broken = "class = (((\nroot = wfq { a b c: }\n".repeat(5_000);
    let unknown = "x = priority { nowhere, elsewhere }\n".repeat(4_000);
    let many = classes(4_000, |number| format!("tcp and dport {}", number + 1));
    let one_line = format!("class a = {}\nroot = a", vec!["dport 1..9"; 20_000].join(" or "));
    let wide = classes(500, |number| format!("tcp and dport {} and from 10.0.0.0/8", number + 1));
    let duplicated = "class a = tcp and not udp\n".repeat(4_000) + "root = a\n";
    let marks = |n: usize| (0..400).map(|k| format!("mark {}", n * 400 + k)).collect::<Vec<_>>().join(" or ");
    let excluded = classes(400, |n| format!("tcp and not ({})", marks(n)));
    let overlapping = classes(200, |n| {
        let bit = 1_u32 << (n % 32);
        format!("dport {}..{} and not mark {bit}/{bit} and not priority {n}", n + 1, n + 999)
    });
    for text in [comments, broken, unknown, many, one_line, wide, duplicated, excluded, overlapping] {
        let compilation = compiled(&text);
        let head: String = text.chars().take(40).collect();
        assert!(
            compilation.diagnostics.len() <= DIAGNOSTICS_MAX,
            "{} for {head:?}",
            compilation.diagnostics.len()
        );
    }
}

/// Conditions that join many alternatives are within the bounds of each class, and the text has one for all of them, in steps.
#[test]
fn a_text_of_many_laborious_conditions_is_refused_by_its_steps() {
    let any = |word: &str, first: usize| {
        let tests: Vec<String> = (first..first + 22).map(|at| format!("{word} {at}")).collect();
        format!("({})", tests.join(" or "))
    };
    let some = |first| {
        let dscp = any("dscp", 0);
        format!("(({} and {dscp}) or ({} and {dscp}))", any("priority", first), any("priority", first + 22))
    };
    let text = |classes: usize| {
        let lines = (0..classes).map(|at| format!("class c{at} = {} and {}\n", some(1), some(101)));
        let names: String = (0..classes).map(|at| format!("c{at}, ")).collect();
        lines.collect::<String>() + &format!("root = fifo {{ {names}default }}\n")
    };
    let is_refused = |text: &str, steps| {
        let options = CompileOptions { steps, ..CompileOptions::default() };
        let found = compile(Source { name: "p", text }, &options).diagnostics;
        found.iter().any(|of| of.one_line().contains("error[E0408]"))
    };
    assert!(is_refused(&text(1), Steps::SMALL) && !is_refused(&text(1), Steps::WHOLE));
    assert!(is_refused(&text(300), Steps::WHOLE));
    let classes: String = (1..=10_000).map(|at| format!("class c{at} = tcp port {at}\n")).collect();
    let names: String = (1..=10_000).map(|at| format!("c{at}: 1, ")).collect();
    let many = format!("{classes}root = wfq {{ {names}default: 1 }}\n");
    assert!(!is_refused(&many, Steps::SMALL), "ten thousand classes are no labour");
}
