//! The standard form of policies: what it looks like, and that it changes white space only.

use crate::common::compiled;
use expect_test::{Expect, expect};
use proptest::prelude::*;
use weft_policy::syntax::SyntaxKind;
use weft_policy::{Source, parse, reformat};

fn formatted(text: &str) -> String {
    reformat(Source { name: "p", text }).unwrap_or_else(|errors| panic!("{text}\n{errors:#?}"))
}

#[track_caller]
fn check(text: &str, shown: &Expect) {
    let new = formatted(text);
    shown.assert_eq(&new);
    assert_same(text);
}

/// Asserts that the standard form of `text` is a fixed point with the same meaning and the same comments.
#[track_caller]
fn assert_same(text: &str) {
    let new = formatted(text);
    assert_eq!(formatted(&new), new, "a fixed point of\n{text}");
    assert_eq!(compiled(&new).policy, compiled(text).policy, "{text}\n{new}");
    assert_eq!(parts(&new), parts(text), "{text}\n{new}");
}

/// The comments of a text in sorted order, and its other tokens but commas, in order.
fn parts(text: &str) -> (Vec<String>, Vec<String>) {
    let (tree, _) = parse(Source { name: "p", text });
    let tokens = tree.descendants_with_tokens().filter_map(|part| part.into_token());
    let kept = tokens.filter(|t| !matches!(t.kind(), SyntaxKind::Whitespace | SyntaxKind::Comma));
    let texts = kept.map(|token| (token.kind(), token.text().trim_end().to_owned()));
    let (comments, others): (Vec<_>, Vec<_>) = texts.partition(|(kind, _)| *kind == SyntaxKind::Comment);
    let mut comments: Vec<String> = comments.into_iter().map(|(_, text)| text).collect();
    comments.sort();
    (comments, others.into_iter().map(|(_, text)| text).collect())
}

fn ready() -> Vec<String> {
    let folder = format!("{}/../../policies", env!("CARGO_MANIFEST_DIR"));
    let paths =
        std::fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = paths.collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read_to_string(path).expect("a policy")).collect()
}

#[test]
fn the_ready_policies_have_the_standard_form() {
    for text in ready() {
        assert_eq!(formatted(&text), text);
        assert_same(&text);
    }
}

#[test]
fn white_space_becomes_standard() {
    check(
        "\u{feff}\r\n\r\nlink   10gbps\r\nclass a=tcp   port 80 # web \r\nclass voice = ( udp  and dport 5060..5070 )or mark 1/0xff\r\n\r\n\r\nroot =wfq{a:1,voice : 2 ,}\r\n",
        &expect![[r#"
            link 10gbps
            class a     = tcp port 80  # web
            class voice = (udp and dport 5060..5070) or mark 1/0xff

            root = wfq { a: 1, voice: 2 }
        "#]],
    );
}

#[test]
fn comments_keep_their_places() {
    check(
        "# first\n\n\n# second\nclass a = tcp # of a\n   and dport 80 # ports\n# between\nroot = wfq { # list\n a: 1, # of a\n\n # before default\n default: 1 # last\n # end\n} # behind\n# after\n",
        &expect![[r#"
            # first

            # second
            class a = tcp  # of a
                and dport 80  # ports
            # between
            root = wfq {  # list
                a: 1,  # of a

                # before default
                default: 1,  # last
                # end
            }  # behind
            # after
        "#]],
    );
    check(
        "# only a comment",
        &expect![[r#"
        # only a comment
    "#]],
    );
    check("\n\n", &expect![[""]]);
}

#[test]
fn what_does_not_fit_on_a_line_is_broken() {
    check(
        "class a = from 10.1.0.0/16 and to 10.2.0.0/16 and tcp and dport 8000..8080 and cgroup \"/system.slice/backup\"\nroot = priority { limit by destination { 10.0.1.0/24: 2gbps, 10.0.2.0/24: 500mbps burst 64kib, fd00::1: 1gbps } of a, default }\n",
        &expect![[r#"
            class a = from 10.1.0.0/16
                and to 10.2.0.0/16
                and tcp
                and dport 8000..8080
                and cgroup "/system.slice/backup"
            root = priority {
                limit by destination {
                    10.0.1.0/24: 2gbps,
                    10.0.2.0/24: 500mbps burst 64kib,
                    fd00::1: 1gbps,
                } of a,
                default,
            }
        "#]],
    );
}

#[test]
fn a_text_with_syntax_errors_is_not_formatted() {
    let errors = reformat(Source { name: "p", text: "root = priorty { default }" }).expect_err("an error");
    assert_eq!((errors.len(), errors[0].start.column), (1, 8));
    assert!(
        reformat(Source { name: "p", text: "root = unknown" }).is_ok(),
        "names are no part of the syntax"
    );
}

/// A random test.
fn some_test() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "any",
        "tcp",
        "tcp port 80",
        "udp and dport 1..9",
        "icmp",
        "protocol 47",
        "from 10.0.0.0/8",
        "to fd00::/8",
        "to ::1",
        "mark 0x10/0xff",
        "priority 9",
        "cgroup \"/a b\"",
        "not sport 7",
        "not (tcp or udp)",
    ])
    .prop_map(str::to_owned)
}

fn some_condition() -> impl Strategy<Value = String> {
    some_test().prop_recursive(3, 8, 3, |inner| {
        let several = proptest::collection::vec(inner, 2..4);
        (several, any::<bool>())
            .prop_map(|(parts, and)| format!("({})", parts.join(if and { " and " } else { " or " })))
    })
}

/// A random policy of one to four classes, each in a separate place.
fn some_policy() -> impl Strategy<Value = String> {
    let class = (some_condition(), 0_usize..6, 1_u32..9);
    proptest::collection::vec(class, 1..5).prop_map(|classes| {
        let mut text = String::from("link 10gbps\nbound 500 packets\n");
        let mut children = Vec::new();
        for (number, (condition, place, weight)) in classes.into_iter().enumerate() {
            let class = format!("{}{number}", ["a", "class.of-some_tenant", "b"][number % 3]);
            text += &format!("class {class} = {condition}\nlatency 1ms of {class}\n");
            let place = match place {
                0 => format!("fair of {class}"),
                1 => format!("limit 2gbps burst 64kib of {class}"),
                2 => format!(
                    "limit by destination {{ 10.0.0.0/8: 1gbps, fd00::1: 2gbps burst 0, }} of fair of {class}"
                ),
                3 => format!("priority {{ limit by port {{ \"vm1\": 1gbps burst 30kb , \"vm2\" : 2gbps, }} of {class} }}"),
                4 => format!("limit 1gbps to 10.0.0.0/8 of {class}"),
                _ => class,
            };
            children.push(format!("{place} : {weight} "));
        }
        text + &format!("root = wfq {{ {} }}\n", children.join(","))
    })
}

/// `text` with other white space and with comments, drawn from `draws` again and again.
fn disturbed(text: &str, draws: &[usize]) -> String {
    const INSIDE: &[&str] = &[" ", "\n", "  \t ", " # c\n", "\n\n\n", "\n # own\n\n  # two\n", " "];
    const BETWEEN: &[&str] = &["\n", "\n\n\n", " # behind\n", "\n# own\n", "\r\n"];
    let (tree, _) = parse(Source { name: "p", text });
    let mut out = String::new();
    let mut draws = draws.iter().cycle();
    for token in tree.descendants_with_tokens().filter_map(|part| part.into_token()) {
        let outside = token.parent().is_some_and(|parent| parent.kind() == SyntaxKind::File);
        let choices = match token.kind() {
            SyntaxKind::Whitespace if outside => BETWEEN,
            SyntaxKind::Whitespace => INSIDE,
            _ => {
                out += token.text();
                continue;
            }
        };
        // The line end behind a comment stays.
        let commented = out.rsplit('\n').next().is_some_and(|line| line.contains('#'));
        let draw = *draws.next().expect("a cycle has no end");
        out += if commented { "\n" } else { choices[draw % choices.len()] };
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_policy_keeps_its_meaning_and_its_comments(
        text in some_policy(),
        draws in proptest::collection::vec(0_usize..100, 1..40),
    ) {
        prop_assert!(compiled(&text).policy.is_some(), "{text}\n{:?}", compiled(&text).diagnostics);
        assert_same(&text);
        let disturbed = disturbed(&text, &draws);
        prop_assert_eq!(compiled(&disturbed).policy, compiled(&text).policy);
        assert_same(&disturbed);
    }

    #[test]
    fn ready_policies_keep_their_meaning_and_their_comments(
        number in 0_usize..4,
        draws in proptest::collection::vec(0_usize..100, 1..40),
    ) {
        let text = &ready()[number];
        assert_same(&disturbed(text, &draws));
    }
}
