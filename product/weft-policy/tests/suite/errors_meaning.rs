//! Diagnostics of policies that can be parsed but are not meaningful.

use crate::common::check;
use expect_test::expect;

#[test]
fn the_root_is_missing() {
    check(
        r#""#,
        &expect![[r#"
            p:1:1: error[E0203]: the policy does not say what the link serves: write `root = default`
              help: define `root`, such as `root = priority { mgmt, tenants }`
        "#]],
    );
    check(
        r#"# nothing but a comment
"#,
        &expect![[r#"
            p:1:1: error[E0203]: the policy does not say what the link serves: write `root = default`
              help: define `root`, such as `root = priority { mgmt, tenants }`
        "#]],
    );
    check(
        r#"class a = tcp
x = a"#,
        &expect![[r#"
            p:2:1: error[E0203]: the policy does not say what the link serves: write `root = x`
              help: define `root`, such as `root = priority { mgmt, tenants }`
        "#]],
    );
}

#[test]
fn a_name_is_unknown() {
    check(
        r#"root = priority { defautl }"#,
        &expect![[r#"
            p:1:19: error[E0201]: nothing in the policy has the name `defautl`: did you mean `default`?
              help: a name is used as it is defined, with capitals and small letters
        "#]],
    );
    check(
        r#"class vm1.kvs = tcp
root = priority { vm1.kv, missing }"#,
        &expect![[r#"
            p:2:19: error[E0201]: nothing in the policy has the name `vm1.kv`: did you mean `vm1.kvs`?
              help: a name is used as it is defined, with capitals and small letters
            p:2:27: error[E0201]: nothing in the policy has the name `missing`
              help: define it: `class missing = ...` or `missing = ...`
        "#]],
    );
    check(
        r#"root = limit 1gbps of nowhere"#,
        &expect![[r#"
        p:1:23: error[E0201]: nothing in the policy has the name `nowhere`
          help: define it: `class nowhere = ...` or `nowhere = ...`
    "#]],
    );
    check(
        r#"bound 5 packets of nobody
root = default"#,
        &expect![[r#"
            p:1:20: error[E0201]: nothing in the policy has the name `nobody`
              help: name a class
        "#]],
    );
}

#[test]
fn a_name_is_defined_twice() {
    check(
        r#"class a = tcp
class a = udp
root = a"#,
        &expect![[r#"
            p:2:7: error[E0202]: `a` is defined twice
              help: give one of them another name
              note: it is first defined on line 1
        "#]],
    );
    check(
        r#"class a = tcp
a = fair of default
root = a"#,
        &expect![[r#"
            p:2:1: error[E0202]: `a` is defined twice
              help: give one of them another name
              note: it is first defined on line 1
        "#]],
    );
    check(
        r#"root = default
root = fair of default"#,
        &expect![[r#"
            p:2:1: error[E0202]: `root` is defined twice
              help: give one of them another name
              note: it is first defined on line 1
        "#]],
    );
}

#[test]
fn a_statement_stands_twice() {
    check(
        r#"link 1gbps
link 2gbps
root = default"#,
        &expect![[r#"
            p:2:6: error[E0208]: the link's rate is stated twice
              help: leave one of the lines out
        "#]],
    );
    check(
        r#"bound 5 packets
bound 6 packets
root = default"#,
        &expect![[r#"
            p:2:7: error[E0208]: the bound of all classes is stated twice
              help: leave one of them out, or say of which class it is: `bound 500 packets of bulk`
        "#]],
    );
    check(
        r#"class a = tcp
bound 5 packets of a
bound 6 packets of a
root = a"#,
        &expect![[r#"
            p:3:20: error[E0208]: the bound of `a` is stated twice
              help: leave one of the lines out
        "#]],
    );
}

#[test]
fn a_bound_is_for_classes() {
    check(
        r#"bound 5 packets of root
root = default"#,
        &expect![[r#"
            p:1:20: error[E0212]: `root` is not a class
              help: bounds hold for classes; give one to each class below it
        "#]],
    );
}

#[test]
fn default_is_what_is_left() {
    check(
        r#"class default = tcp
root = default"#,
        &expect![[r#"
            p:1:7: error[E0207]: `default` takes all remaining packets and cannot have a test
              help: write `class default = any`, or give the class another name
        "#]],
    );
    check(
        r#"default = fair of x
class x = tcp
root = x"#,
        &expect![[r#"
            p:1:1: error[E0207]: `default` is a class and cannot be a node
              help: name it in the tree, such as `priority { mgmt, default }`
        "#]],
    );
    check(
        r#"class default = any
class default = any
root = default"#,
        &expect![[r#"
            p:2:7: error[E0202]: `default` is defined twice
              help: leave one out
        "#]],
    );
}

#[test]
fn a_class_is_not_placed() {
    check(
        r#"class a = tcp
class b = udp
root = a"#,
        &expect![[r#"
            p:2:7: error[E0204]: the class `b` is not placed below the root
              help: name it in the tree, so that its packets have a place to wait
        "#]],
    );
    check(
        r#"class a = tcp
lonely = fair of a
root = default"#,
        &expect![[r#"
            p:1:7: error[E0204]: the class `a` is not placed below the root
              help: name it in the tree, so that its packets have a place to wait
              note: it is below `lonely`, which is not placed
            p:2:1: warning[W0001]: `lonely` is not used: nothing below the root names it
              help: name it in the tree, or leave it out; until then it has no effect
        "#]],
    );
}

#[test]
fn a_node_is_not_used() {
    check(
        r#"class a = tcp
root = a
spare = fifo { default }"#,
        &expect![[r#"
            p:3:1: warning[W0001]: `spare` is not used: nothing below the root names it
              help: name it in the tree, or leave it out; until then it has no effect
        "#]],
    );
}

#[test]
fn a_node_has_no_children() {
    check(
        r#"root = priority { }"#,
        &expect![[r#"
            p:1:8: error[E0205]: the node has no children
              help: list its children in the braces, such as `priority { mgmt, tenants }`
        "#]],
    );
    check(
        r#"root = wfq {}"#,
        &expect![[r#"
            p:1:8: error[E0205]: the node has no children
              help: list its children in the braces, such as `priority { mgmt, tenants }`
        "#]],
    );
    check(
        r#"root = fifo { }"#,
        &expect![[r#"
            p:1:8: error[E0205]: the node has no children
              help: list its children in the braces, such as `priority { mgmt, tenants }`
        "#]],
    );
    check(
        r#"root = limit by destination { } of default"#,
        &expect![[r#"
        p:1:8: error[E0205]: the limit names no destination
          help: name destinations and their rates, such as `{ 10.0.1.0/24: 2gbps }`
    "#]],
    );
}

#[test]
fn a_child_is_listed_twice() {
    check(
        r#"class a = tcp
root = wfq { a: 1, default: 1, a: 2 }"#,
        &expect![[r#"
            p:2:32: error[E0206]: `a` is listed twice
              help: leave one of the two out
        "#]],
    );
}

#[test]
fn a_weight_is_missing_or_unwanted() {
    check(
        r#"class a = tcp
root = wfq { a, default: 1 }"#,
        &expect![[r#"
            p:2:14: error[E0209]: a child of `wfq` needs a weight
              help: write it after a colon, such as `vm1: 2`; equal weights share equally
        "#]],
    );
    check(
        r#"class a = tcp
root = priority { a: 1, default }"#,
        &expect![[r#"
            p:2:22: error[E0210]: only the children of `wfq` have weights
              help: leave the weight out, or make the node a `wfq`
        "#]],
    );
}

#[test]
fn a_destination_is_limited_twice() {
    check(
        r#"root = limit by destination { 10.0.0.1: 1gbps, 10.0.0.1/32: 2gbps } of default"#,
        &expect![[r#"
            p:1:48: error[E0211]: `default` has two limits for 10.0.0.1
              help: leave one of the limits out, or nest one limit in the other: `limit ... of d1`
        "#]],
    );
    check(
        r#"d1 = limit 1gbps of default
d2 = limit 2gbps of default
root = fifo { d1, d2 }"#,
        &expect![[r#"
            p:2:12: error[E0211]: `default` has two limits for every destination
              help: leave one of the limits out, or nest one limit in the other: `limit ... of d1`
        "#]],
    );
}

#[test]
fn fair_is_for_one_class() {
    check(
        r#"class a = tcp
class b = udp
x = priority { a, b }
root = fair of x"#,
        &expect![[r#"
            p:4:16: error[E0306]: `fair of` needs one class, but `x` is not one
              help: share between nodes by `wfq { a: 1, b: 1 }`, between the flows of one class by `fair of a`
        "#]],
    );
    check(
        r#"class a = tcp
class b = udp
root = fair of fifo { a, b }"#,
        &expect![[r#"
            p:3:16: error[E0306]: `fair of` needs one class, but `root#1` is not one
              help: share between nodes by `wfq { a: 1, b: 1 }`, between the flows of one class by `fair of a`
        "#]],
    );
}

#[test]
fn a_fifo_does_not_merge_what_was_scheduled() {
    check(
        r#"class a = tcp
class b = udp
class c = sctp
x = priority { a, b }
root = fifo { x, c }"#,
        &expect![[r#"
            p:5:1: error[E0305]: `root` would merge `c` with `x`, which has already ordered its packets
              help: a FIFO merges classes, or joins limits of one node; use `priority` or `wfq` here
        "#]],
    );
}

#[test]
fn a_limit_is_above_the_link() {
    check(
        r#"link 1gbps
root = limit by destination { 10.0.0.1: 2gbps, 10.0.0.2: 1gbps } of default"#,
        &expect![[r#"
            p:2:31: warning[W0002]: a limit of 2 Gb/s on a link of 1 Gb/s never delays a packet
              help: lower it or leave it out
        "#]],
    );
}

#[test]
fn attributes_shadow_and_exclude_each_other() {
    check(
        r#"class a = vlan 7
class b = user 1000 or dscp ef
class c = vlan 7 and dscp af11 and pcp 5
class d = dscp 46 and ecn ce and tcp
class e = user 1000 and cookie 0x1f
class f = dscp ef and dscp af11
class g = classid 10:1 and not classid 0x100001
class h = user 1001
root = fifo { a, b, c, d, e, f, g, h }"#,
        &expect![[r#"
            p:3:7: warning[W0003]: the class `c` never gets a packet: `a` before it takes them all
              help: the first class that matches takes a packet: move the narrower class up
            p:4:7: warning[W0003]: the class `d` never gets a packet: `b` before it takes them all
              help: the first class that matches takes a packet: move the narrower class up
            p:5:7: warning[W0003]: the class `e` never gets a packet: `b` before it takes them all
              help: the first class that matches takes a packet: move the narrower class up
            p:6:7: warning[W0004]: no packet can pass all tests of the class `f`
              help: check for tests joined by `and` that exclude each other
            p:7:7: warning[W0004]: no packet can pass all tests of the class `g`
              help: check for tests joined by `and` that exclude each other
        "#]],
    );
}

#[test]
fn processes_shadow_and_exclude_each_other() {
    check(
        r#"class a = process "nginx"
class b = process "nginx" and tcp
class c = process "sshd" and process "redis-server"
class d = process "redis-server"
root = fifo { a, b, c, d }"#,
        &expect![[r#"
            p:2:7: warning[W0003]: the class `b` never gets a packet: `a` before it takes them all
              help: the first class that matches takes a packet: move the narrower class up
            p:3:7: warning[W0004]: no packet can pass all tests of the class `c`
              help: check for tests joined by `and` that exclude each other
        "#]],
    );
}

#[test]
fn a_class_is_shadowed() {
    check(
        r#"class a = tcp
class b = tcp and dport 80..443
root = priority { a, b }"#,
        &expect![[r#"
            p:2:7: warning[W0003]: the class `b` never gets a packet: `a` before it takes them all
              help: the first class that matches takes a packet: move the narrower class up
        "#]],
    );
    check(
        r#"class a = cgroup "/x"
class b = cgroup "/x/y" and not udp
root = priority { a, b }"#,
        &expect![[r#"
            p:2:7: warning[W0003]: the class `b` never gets a packet: `a` before it takes them all
              help: the first class that matches takes a packet: move the narrower class up
        "#]],
    );
    check(
        r#"class a = any
class b = udp
root = priority { a, b }"#,
        &expect![[r#"
            p:2:7: warning[W0003]: the class `b` never gets a packet: `a` before it takes them all
              help: the first class that matches takes a packet: move the narrower class up
        "#]],
    );
    check(
        r#"class a = dport 1..99
class b = dport 50..150
class c = tcp and (dport 7 or dport 100..120)
root = priority { a, b, c }"#,
        &expect![[r#"
            p:3:7: warning[W0003]: the class `c` never gets a packet: the classes before it take them all
              help: the first class that matches takes a packet: move the narrower class up
        "#]],
    );
}

#[test]
fn a_condition_is_never_true() {
    check(
        r#"class a = tcp and udp
root = a"#,
        &expect![[r#"
            p:1:7: warning[W0004]: no packet can pass all tests of the class `a`
              help: check for tests joined by `and` that exclude each other
        "#]],
    );
    check(
        r#"class a = tcp and not tcp
root = a"#,
        &expect![[r#"
            p:1:7: warning[W0004]: no packet can pass all tests of the class `a`
              help: check for tests joined by `and` that exclude each other
        "#]],
    );
    check(
        r#"class a = from 10.0.0.1 and to fd00::1
root = a"#,
        &expect![[r#"
            p:1:7: warning[W0004]: no packet can pass all tests of the class `a`
              help: check for tests joined by `and` that exclude each other
        "#]],
    );
    check(
        r#"class a = dport 80 and dport 81
root = a"#,
        &expect![[r#"
            p:1:7: warning[W0004]: no packet can pass all tests of the class `a`
              help: check for tests joined by `and` that exclude each other
        "#]],
    );
    check(
        r#"class a = cgroup "/a" and cgroup "/b"
root = a"#,
        &expect![[r#"
            p:1:7: warning[W0004]: no packet can pass all tests of the class `a`
              help: check for tests joined by `and` that exclude each other
        "#]],
    );
    check(
        r#"class a = not any
root = a"#,
        &expect![[r#"
            p:1:7: warning[W0004]: no packet can pass all tests of the class `a`
              help: check for tests joined by `and` that exclude each other
        "#]],
    );
    check(
        r#"class a = mark 1/3 and mark 2/2
root = a"#,
        &expect![[r#"
            p:1:7: warning[W0004]: no packet can pass all tests of the class `a`
              help: check for tests joined by `and` that exclude each other
        "#]],
    );
}

#[test]
fn cgroup_paths_of_two_kinds_do_not_join() {
    check(
        r#"class a = cgroup "/a" and cgroup "b"
root = a"#,
        &expect![[r#"
            p:1:7: error[E0405]: the rows of `a` would test a cgroup path from the root and one from the run's own cgroup together
              help: begin all paths with `/`, or none
        "#]],
    );
    check(
        r#"class a = not cgroup "/a"
class b = cgroup "b"
root = priority { a, b }"#,
        &expect![[r#"
            p:2:7: error[E0405]: the rows of `b` would test a cgroup path from the root and one from the run's own cgroup together
              help: begin all paths with `/`, or none
        "#]],
    );
}

#[test]
fn a_priority_that_anyone_may_set_is_noted_once() {
    check(
        r#"class a = priority 6 or priority 3
class b = priority 7
root = priority { a, b }"#,
        &expect![[r#"
            p:1:20: note[N0001]: any program may set priority 6 on its packets, and so choose this class
              help: priorities from 7 up need CAP_NET_ADMIN, marks CAP_NET_ADMIN or CAP_NET_RAW; a program cannot choose its cgroup
        "#]],
    );
}
