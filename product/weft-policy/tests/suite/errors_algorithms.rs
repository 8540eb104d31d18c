//! Errors of algorithms, as they are printed.

use crate::common::check;
use expect_test::expect;
use weft_policy::cost::Profile;
use weft_policy::{Diagnostic, Source, price};

#[test]
fn units_and_divisors() {
    check(
        "algorithm a { rank = head.len + 5ms }\nroot = default\n",
        &expect![[r#"
        p:1:22: error[E0501]: bytes and duration cannot be added
          help: divide the bytes by a rate, which gives a duration: `bytes / rate`
    "#]],
    );
    check(
        "algorithm a { child n: bytes; rank = head.len / n }\nroot = default\n",
        &expect![[r#"
        p:1:49: error[E0502]: the divisor may be 0
          help: `or` says what divides in place of 0, such as `bytes / (n or 1)`; rates, weights and parameters are never 0
    "#]],
    );
    check(
        "algorithm a { rank = head.deadline }\nroot = default\n",
        &expect![[r#"
        p:1:22: error[E0503]: `head.deadline` may be missing: `or` says what holds without it
          help: the sender of a packet tells its deadline, slack, size left, lateness, send time and rate, or does not
    "#]],
    );
    check(
        "algorithm a { rank = 5parsecs }\nroot = default\n",
        &expect![[r#"
        p:1:22: error[E0514]: `5parsecs` is not a quantity
          help: such as 5ms, 64kib, 1gbps or 3
    "#]],
    );
}

#[test]
fn names_and_parts() {
    check(
        "algorithm a { rank = head.due or now }\nroot = default\n",
        &expect![[r#"
        p:1:22: error[E0504]: the algorithm knows no value `head.due`: did you mean `head.deadline`?
          help: a packet has: len, arrived, deadline, slack, left, late, prio, txtime, pace
    "#]],
    );
    check(
        "algorithm a { rank = bytes }\nroot = default\n",
        &expect![[r#"
        p:1:22: error[E0505]: `bytes` has no value in `rank`
          help: it has one in `sent`
    "#]],
    );
    check(
        "algorithm a { sent { } }\nroot = default\n",
        &expect![[r#"
        p:1:11: error[E0506]: `a` has no part `rank`
          help: say what is served first, such as `rank = head.arrived`
    "#]],
    );
    check(
        "algorithm a { rank = 0; fetched { drop } }\nroot = default\n",
        &expect![[r#"
        p:1:25: error[E0507]: an algorithm has no part `fetched`
          help: packets are dropped and marked by a `dropper`
    "#]],
    );
    check(
        "algorithm a(w: count) { rank = w; sent { w += 1 } }\nroot = default\n",
        &expect![[r#"
            p:1:42: error[E0509]: `w` cannot be assigned: it is a parameter, whose value the policy gives
              help: what is to last is a field: `node NAME: TYPE` or `child NAME: TYPE`
        "#]],
    );
    check(
        "algorithm a { child b, c, d, e, f, g, h, i, j: count; rank = b }\nroot = default\n",
        &expect![[r#"
            p:1:45: error[E0508]: a child has 72 bytes of state; at most 64 are possible
              help: each field takes 8 bytes: compute one from the others where that is possible
        "#]],
    );
}

#[test]
fn uses() {
    check(
        "root = drr { default: 1ms }\n",
        &expect![[r#"
            p:1:23: error[E0510]: expected bytes, found a duration: `1ms`
              help: the argument has the unit of its parameter
        "#]],
    );
    check(
        "root = codel { default }\n",
        &expect![[r#"
        p:1:8: error[E0511]: `codel` is a dropper and orders no children
          help: it stands before one leaf: `NAME of x`
    "#]],
    );
    let text = "root = wf2q { default: 1 }\n";
    let (_, found) = price(Source { name: "p", text }, &[Profile::Loom1Ghz]);
    let found: Vec<String> = found.iter().map(Diagnostic::one_line).collect();
    expect!["p:1:8: error[E0512]: the profile loom-1ghz cannot run `wf2q`: it holds children back until a virtual time, and this NIC has one order for a node"].assert_eq(&found.join("\n"));
}
