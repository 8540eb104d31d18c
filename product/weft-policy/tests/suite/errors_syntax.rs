//! Diagnostics of the parser.

use crate::common::check;
use expect_test::expect;

#[test]
fn an_item_is_expected() {
    check(
        r#"root"#,
        &expect![[r#"
            p:1:1: error[E0001]: expected `class`, `link`, `bound` or `NAME = ...`, found `root`
              help: each line defines one item, such as `root = priority { mgmt, tenants }`
        "#]],
    );
    check(
        r#"}"#,
        &expect![[r#"
            p:1:1: error[E0001]: expected `class`, `link`, `bound` or `NAME = ...`, found `}`
              help: each line defines one item, such as `root = priority { mgmt, tenants }`
        "#]],
    );
    check(
        r#"class a = tcp
root = a extra words
"#,
        &expect![[r#"
            p:2:10: error[E0001]: expected the end of the line, found `extra`
              help: each item begins on a line of its own, and a comment with `#`
        "#]],
    );
    check(
        r#"= = ="#,
        &expect![[r#"
            p:1:1: error[E0001]: expected `class`, `link`, `bound` or `NAME = ...`, found `=`
              help: each line defines one item, such as `root = priority { mgmt, tenants }`
        "#]],
    );
    check(
        r#""lonely""#,
        &expect![[r#"
            p:1:1: error[E0001]: expected `class`, `link`, `bound` or `NAME = ...`, found `"lonely"`
              help: each line defines one item, such as `root = priority { mgmt, tenants }`
        "#]],
    );
}

#[test]
fn an_item_begins_on_its_own_line() {
    check(
        "class a = tcp bound 5 packets\nroot = a",
        &expect![[r#"
        p:1:15: error[E0001]: expected the end of the line, found `bound`
          help: each item begins on a line of its own; the bound of one class is `bound 500 packets of NAME`
    "#]],
    );
    check(
        "class a = tcp root = a",
        &expect![[r#"
        p:1:15: error[E0001]: expected the end of the line, found `root`
          help: each item begins on a line of its own; the bound of one class is `bound 500 packets of NAME`
    "#]],
    );
}

#[test]
fn an_item_is_incomplete() {
    check(
        r#"class"#,
        &expect![[r#"
        p:1:6: error[E0001]: expected the name of the class, found the end of the file
          help: a name begins with a letter and goes on with letters, digits, `_`, `-` and `.`
    "#]],
    );
    check(
        r#"class a"#,
        &expect![[r#"
        p:1:8: error[E0001]: expected `=`, found the end of the file
          help: such as `class web = tcp and dport 80..443`
    "#]],
    );
    check(
        r#"class a ="#,
        &expect![[r#"
            p:1:10: error[E0001]: expected a test, found the end of the file
              help: a test is one of: any, tcp, udp, sctp, icmp, icmpv6, protocol N, port P, sport P, dport P, from PREFIX, to PREFIX, mark V/MASK, priority N, cgroup "PATH", port "NAME", vlan N, pcp N, dscp N, ecn N, user "NAME", classid N, cookie N, process "NAME"
        "#]],
    );
    check(
        r#"class a = tcp and"#,
        &expect![[r#"
            p:1:18: error[E0001]: expected a test, found the end of the file
              help: a test is one of: any, tcp, udp, sctp, icmp, icmpv6, protocol N, port P, sport P, dport P, from PREFIX, to PREFIX, mark V/MASK, priority N, cgroup "PATH", port "NAME", vlan N, pcp N, dscp N, ecn N, user "NAME", classid N, cookie N, process "NAME"
        "#]],
    );
    check(
        r#"link"#,
        &expect![[r#"
            p:1:5: error[E0001]: expected the link's rate, found the end of the file
              help: such as `link 40gbps` or `link auto`
        "#]],
    );
    check(
        r#"link 40 gbps
root = default"#,
        &expect![[r#"
            p:1:9: error[E0001]: the unit `gbps` stands apart from its number: write `40gbps`
              help: write them together, such as `40gbps` or `64kib`
        "#]],
    );
    check(
        r#"bound 7"#,
        &expect![[r#"
        p:1:8: error[E0001]: expected `packets`, found the end of the file
          help: such as `bound 20000 packets` or `bound 500 packets of bulk`
    "#]],
    );
    check(
        r#"bound packets"#,
        &expect![[r#"
        p:1:7: error[E0001]: expected a number of packets, found `packets`
          help: such as `bound 20000 packets` or `bound 500 packets of bulk`
    "#]],
    );
    check(
        r#"root ="#,
        &expect![[r#"
        p:1:7: error[E0001]: expected a name, `priority`, `wfq`, `fair`, `fifo` or `limit`, found the end of the file
          help: a name begins with a letter and goes on with letters, digits, `_`, `-` and `.`
    "#]],
    );
    check(
        r#"root = priority"#,
        &expect![[r#"
            p:1:16: error[E0001]: expected `{`, found the end of the file
              help: list its entries in braces, separated by commas
        "#]],
    );
    check(
        r#"root = fair a"#,
        &expect![[r#"
        p:1:13: error[E0001]: expected `of`, found `a`
          help: write `fair of CLASS`: its flows share fairly
    "#]],
    );
    check(
        r#"root = limit 2gbps"#,
        &expect![[r#"
        p:1:19: error[E0001]: expected `of`, found the end of the file
          help: such as `limit 2gbps of apps`, `limit 2gbps burst 64kib to 10.0.1.0/24 of apps` or `limit by destination { 10.0.1.0/24: 2gbps } of apps`
    "#]],
    );
    check(
        r#"root = limit by 2gbps of default"#,
        &expect![[r#"
            p:1:17: error[E0001]: expected `destination`, found `2gbps`
              help: such as `limit 2gbps of apps`, `limit 2gbps burst 64kib to 10.0.1.0/24 of apps` or `limit by destination { 10.0.1.0/24: 2gbps } of apps`
        "#]],
    );
    check(
        r#"x = y = default"#,
        &expect![[r#"
            p:1:5: error[E0001]: expected an expression, found `y`
              help: an item begins here, but the one before it is not finished
        "#]],
    );
}

#[test]
fn braces_are_not_closed() {
    check(
        r#"root = priority { default"#,
        &expect![[r#"
        p:1:26: error[E0001]: expected `}`, found the end of the file
          help: close the brace
    "#]],
    );
    check(
        r#"class a = tcp
root = wfq { a: 1
x = fifo { a }"#,
        &expect![[r#"
            p:2:18: error[E0001]: expected `}`, found the end of the line
              help: close the brace
        "#]],
    );
    check(
        r#"class a = (tcp or udp
root = a"#,
        &expect![[r#"
            p:1:22: error[E0001]: expected `)`, found the end of the line
              help: close the parenthesis
        "#]],
    );
}

#[test]
fn children_are_not_separated() {
    check(
        r#"class a = tcp
class b = udp
root = priority { a b }"#,
        &expect![[r#"
            p:3:21: error[E0001]: expected `,` or `}`, found `b`
              help: separate the entries in braces by commas
        "#]],
    );
    check(
        r#"root = priority { default; }"#,
        &expect![[r#"
            p:1:26: error[E0002]: the character `;` has no meaning here
              help: entries in braces are separated by commas; an item ends with its line
        "#]],
    );
    check(
        r#"class a = tcp
root = wfq { a 1 }"#,
        &expect![[r#"
            p:2:16: error[E0001]: expected `:` before the weight, found `1`
              help: a value follows its name after a colon
        "#]],
    );
}

#[test]
fn a_broken_character_or_text() {
    check(
        r#"root = default $"#,
        &expect![[r#"
        p:1:16: error[E0002]: the character `$` has no meaning here
          help: leave it out; a comment begins with `#`
    "#]],
    );
    check(
        r#"class a = cgroup "T1
root = a
"#,
        &expect![[r#"
            p:1:18: error[E0003]: the text in quotes does not end on this line
              help: close it with `"`
        "#]],
    );
    check(
        r#"class ä = tcp
root = default"#,
        &expect![[r#"
            p:1:7: error[E0002]: the character `ä` has no meaning here
              help: leave it out; a comment begins with `#`
        "#]],
    );
    check(
        r#"root = priority { default, ü }"#,
        &expect![[r#"
        p:1:28: error[E0002]: the character `ü` has no meaning here
          help: leave it out; a comment begins with `#`
    "#]],
    );
}

#[test]
fn a_word_of_the_language_is_no_name() {
    check(
        r#"class tcp = udp
root = default"#,
        &expect![[r#"
            p:1:7: error[E0006]: `tcp` is a word of the language and cannot be a name
              help: choose another name, such as one with a prefix
        "#]],
    );
    check(
        r#"limit = default
root = default"#,
        &expect![[r#"
            p:1:1: error[E0006]: `limit` is a word of the language and cannot be a name
              help: choose another name, such as one with a prefix
        "#]],
    );
    check(
        r#"root = priority { class }"#,
        &expect![[r#"
            p:1:19: error[E0006]: `class` is a word of the language and cannot be a name
              help: choose another name, such as one with a prefix
        "#]],
    );
}

#[test]
fn a_name_is_malformed() {
    check(
        r#"class 9to5 = tcp
root = default"#,
        &expect![[r#"
            p:1:7: error[E0001]: expected the name of the class, found `9to5`
              help: a name begins with a letter and goes on with letters, digits, `_`, `-` and `.`
        "#]],
    );
    check(
        r#"class a. = tcp
root = default"#,
        &expect![[r#"
            p:1:7: error[E0001]: expected the name of the class, found `a.`
              help: a name begins with a letter and goes on with letters, digits, `_`, `-` and `.`
        "#]],
    );
    check(
        r#"root = 10.0.0.1"#,
        &expect![[r#"
        p:1:8: error[E0001]: expected a name, `priority`, `wfq`, `fair`, `fifo` or `limit`, found `10.0.0.1`
          help: a name begins with a letter and goes on with letters, digits, `_`, `-` and `.`
    "#]],
    );
}

#[test]
fn a_test_is_expected() {
    check(
        r#"class a = tcp and udpp
root = a"#,
        &expect![[r#"
            p:1:19: error[E0001]: expected a test, found `udpp`: did you mean `udp`?
              help: a test is one of: any, tcp, udp, sctp, icmp, icmpv6, protocol N, port P, sport P, dport P, from PREFIX, to PREFIX, mark V/MASK, priority N, cgroup "PATH", port "NAME", vlan N, pcp N, dscp N, ecn N, user "NAME", classid N, cookie N, process "NAME"
        "#]],
    );
    check(
        r#"class a = 80
root = a"#,
        &expect![[r#"
            p:1:11: error[E0001]: expected a test, found `80`
              help: a test is one of: any, tcp, udp, sctp, icmp, icmpv6, protocol N, port P, sport P, dport P, from PREFIX, to PREFIX, mark V/MASK, priority N, cgroup "PATH", port "NAME", vlan N, pcp N, dscp N, ecn N, user "NAME", classid N, cookie N, process "NAME"
        "#]],
    );
    check(
        r#"class a = port
root = a"#,
        &expect![[r#"
            p:1:15: error[E0001]: expected a port, found the end of the line
              help: such as `dport 443` or `port 8000..8080`
        "#]],
    );
    check(
        r#"class a = cgroup T1
root = a"#,
        &expect![[r#"
            p:1:18: error[E0001]: expected a path in quotes, found `T1`
              help: such as `cgroup "/system.slice/mgmt"`
        "#]],
    );
    check(
        r#"class a = from and tcp
root = a"#,
        &expect![[r#"
            p:1:16: error[E0001]: expected an address prefix, found `and`
              help: such as `to 10.0.1.0/24` or `from fd00::/8`
        "#]],
    );
}

#[test]
fn several_errors_are_told_at_once() {
    check(
        r#"class a = prot 6
class b = dport 0
link fast
root = priority { a, b, c }
root = default"#,
        &expect![[r#"
            p:1:11: error[E0001]: expected a test, found `prot`: did you mean `port`?
              help: a test is one of: any, tcp, udp, sctp, icmp, icmpv6, protocol N, port P, sport P, dport P, from PREFIX, to PREFIX, mark V/MASK, priority N, cgroup "PATH", port "NAME", vlan N, pcp N, dscp N, ecn N, user "NAME", classid N, cookie N, process "NAME"
            p:2:17: error[E0106]: `0` is not a port or a range of ports
              help: ports are numbers from 1 to 65535, a range is written 80..443; packets without ports carry 0
            p:3:6: error[E0101]: `fast` is not a rate
              help: such as 500mbps or 2.5gbps: bits per second
            p:4:25: error[E0201]: nothing in the policy has the name `c`
              help: define it: `class c = ...` or `c = ...`
            p:5:1: error[E0202]: `root` is defined twice
              help: give one of them another name
              note: it is first defined on line 4
        "#]],
    );
}

#[test]
fn a_file_is_not_text() {
    let said = |bytes: &[u8]| {
        weft_policy::decode("p", bytes.to_vec())
            .map_err(|error| format!("{}\n  help: {}\n", error.one_line(), error.help))
    };
    assert_eq!(said("root = default # größe\n".as_bytes()).as_deref(), Ok("root = default # größe\n"));
    expect![[r#"
        p:2:4: error[E0007]: the byte 0xf6 is not UTF-8 text
          help: save the file as UTF-8, such as by `iconv -f LATIN1 -t UTF-8`
    "#]]
    .assert_eq(&said(b"root = default\n# r\xf6ot\n").expect_err("Latin-1"));
    expect![[r#"
        p:1:1: error[E0007]: the file is UTF-16 text, and a policy is UTF-8 text
          help: convert it, such as by `iconv -f UTF-16 -t UTF-8`
    "#]]
    .assert_eq(&said(b"\xff\xfer\0o\0o\0t\0").expect_err("UTF-16"));
}
