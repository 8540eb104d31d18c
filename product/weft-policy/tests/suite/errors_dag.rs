//! The restricted DAG of Loom, section 4: the examples of Figure 5 as the section describes them, and cycles.

use crate::common::check;
use expect_test::expect;

#[test]
fn figure_5_valid_a_tree_of_scheduling_nodes() {
    check(
        r#"class a = tcp
class b = udp
class c = sctp
root = priority { a, x }
x = wfq { b: 1, c: 2 }"#,
        &expect![[r#""#]],
    );
}

#[test]
fn figure_5_valid_parallel_limits_of_scheduled_traffic_share_a_fifo() {
    check(
        r#"class a = tcp
class b = udp
apps = priority { a, b }
d1 = limit 2gbps to 10.0.1.0/24 of apps
d2 = limit 500mbps to 10.0.2.0/24 of apps
vm1 = fifo { d1, d2 }
root = wfq { vm1: 1, default: 1 }"#,
        &expect![[r#""#]],
    );
}

#[test]
fn figure_5_valid_a_nested_set_of_parallel_limits() {
    check(
        r#"class a = tcp
class b = udp
apps = priority { a, b }
far = limit 2gbps to 10.0.0.0/8 of apps
d1 = limit 1gbps to 10.0.1.0/24 of far
d2 = limit 1gbps to 10.0.2.0/24 of far
d = fifo { d1, d2 }
near = limit 3gbps to 192.168.0.0/16 of apps
root = fifo { d, near }"#,
        &expect![[r#""#]],
    );
}

#[test]
fn figure_5_valid_a_limit_under_a_scheduling_node() {
    check(
        r#"class a = tcp
class b = udp
root = wfq { limit 1gbps of a: 1, limit 2gbps of b: 2 }"#,
        &expect![[r#""#]],
    );
}

#[test]
fn figure_5_invalid_two_scheduling_parents() {
    check(
        r#"class a = tcp
class b = udp
class c = sctp
x = wfq { a: 1, b: 1 }
y = wfq { b: 1, c: 1 }
root = priority { x, y }"#,
        &expect![[r#"
            p:5:11: error[E0301]: `b` has several parents: `x` and `y`
              help: packets that were scheduled once may take separate paths for limits only: use the name in one place
              note: Loom, section 4: a node whose parent is a scheduling node may have at most one parent.
        "#]],
    );
    check(
        r#"class a = tcp
x = fair of a
y = fifo { a }
root = wfq { x: 1, y: 1 }"#,
        &expect![[r#"
            p:3:12: error[E0301]: `a` has several parents: `x` and `y`
              help: packets that were scheduled once may take separate paths for limits only: use the name in one place
              note: Loom, section 4: a node whose parent is a scheduling node may have at most one parent.
        "#]],
    );
}

#[test]
fn figure_5_invalid_a_scheduling_parent_beside_a_limit() {
    check(
        r#"class a = tcp
class b = udp
d1 = limit 1gbps to 10.0.1.0/24 of a
root = priority { d1, a, b }"#,
        &expect![[r#"
            p:4:23: error[E0302]: `a` has several parents, and not all of them are limits: `d1`, `root`
              help: packets that were scheduled once may take separate paths for limits only: use the name in one place
              note: Loom, section 4: a node may have several parents only if all of them are shaping nodes.
        "#]],
    );
}

#[test]
fn figure_5_invalid_parallel_limits_under_wfq() {
    check(
        r#"class a = tcp
class b = udp
apps = priority { a, b }
d1 = limit 1gbps to 10.0.1.0/24 of apps
d2 = limit 1gbps to 10.0.2.0/24 of apps
root = wfq { d1: 1, d2: 1 }"#,
        &expect![[r#"
            p:5:1: error[E0303]: the limits `d1` and `d2` of `apps` must meet in one FIFO, but their paths split or join at `root`, which is weighted fair queueing
              help: join them: `NAME = fifo { d1, d2 }`
              note: Loom, section 4: all sibling shaping nodes must share a single FIFO parent.
        "#]],
    );
}

#[test]
fn figure_5_invalid_parallel_limits_in_two_fifos() {
    check(
        r#"class a = tcp
class b = udp
d1 = limit 1gbps to 10.0.1.0/24 of a
d2 = limit 1gbps to 10.0.2.0/24 of a
x = fifo { d1 }
y = fifo { d2, b }
root = priority { x, y }"#,
        &expect![[r#"
            p:4:1: error[E0303]: the limits `d1` and `d2` of `a` must meet in one FIFO, but their paths split or join at `root`, which is strict priority
              help: join them: `NAME = fifo { d1, d2 }`
              note: Loom, section 4: all sibling shaping nodes must share a single FIFO parent.
        "#]],
    );
}

#[test]
fn figure_5_invalid_scheduling_between_parallel_limits_and_their_fifo() {
    check(
        r#"class a = tcp
class b = udp
d1 = limit 1gbps to 10.0.1.0/24 of a
d2 = limit 1gbps to 10.0.2.0/24 of a
x = priority { d1, b }
root = fifo { x, d2 }"#,
        &expect![[r#"
            p:4:1: error[E0303]: the limits `d1` and `d2` of `a` must meet in one FIFO, but their paths split or join at `x`, which is strict priority
              help: join them: `NAME = fifo { d1, d2 }`
              note: Loom, section 4: all sibling shaping nodes must share a single FIFO parent.
            p:6:1: error[E0305]: `root` would merge `a` with `x`, which has already ordered its packets
              help: a FIFO merges classes, or joins limits of one node; use `priority` or `wfq` here
        "#]],
    );
}

#[test]
fn circles() {
    check(
        r#"root = root"#,
        &expect![[r#"
            p:1:8: error[E0304]: `root` is below itself: `root` and again `root`
              help: remove one of these references
              note: Loom, section 4: the policy must be a tree once its shaping nodes are removed; here it has a cycle.
        "#]],
    );
    check(
        r#"x = priority { y, default }
y = limit 1gbps of x
root = x"#,
        &expect![[r#"
            p:2:20: error[E0304]: `x` is below itself: `x`, `y` and again `x`
              help: remove one of these references
              note: Loom, section 4: the policy must be a tree once its shaping nodes are removed; here it has a cycle.
        "#]],
    );
    check(
        r#"a = fifo { b }
b = fifo { a }
c = fifo { c }
root = default"#,
        &expect![[r#"
            p:2:12: error[E0304]: `a` is below itself: `a`, `b` and again `a`
              help: remove one of these references
              note: Loom, section 4: the policy must be a tree once its shaping nodes are removed; here it has a cycle.
            p:3:12: error[E0304]: `c` is below itself: `c` and again `c`
              help: remove one of these references
              note: Loom, section 4: the policy must be a tree once its shaping nodes are removed; here it has a cycle.
        "#]],
    );
    check(
        r#"a1 = fifo { a2 }
a2 = fifo { a3 }
a3 = fifo { a4 }
a4 = fifo { a5 }
a5 = fifo { a6 }
a6 = fifo { a7 }
a7 = fifo { a1 }
root = a1"#,
        &expect![[r#"
            p:7:13: error[E0304]: `a1` is below itself: `a1`, `a2`, `a3`, `a4`, `a5`, `a6` and again `a1`
              help: remove one of these references
              note: Loom, section 4: the policy must be a tree once its shaping nodes are removed; here it has a cycle.
        "#]],
    );
}
