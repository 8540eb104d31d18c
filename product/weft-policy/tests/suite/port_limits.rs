//! Limits by port: their lanes and rows, their errors, and those that are not part of a policy's text.

use crate::common::{check as says, compiled};
use expect_test::{Expect, expect};
use weft_facts::ports::{LimitedPort, PortLimit};
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile, describe, renumber};
use weft_units::{BitsPerSec, Bytes, PacketMeta};

const BY_PORT: &str = "class a = tcp
class b = udp
x = limit by port { \"vm1\": 100mbps burst 30kb, \"vm2\": 1gbps } of wfq { a: 1, b: 2 }
root = x
";

fn shown(policy: &CompiledPolicy, shape: &Expect) {
    policy.check_invariants();
    shape.assert_eq(&describe(policy));
}

#[test]
fn a_class_has_a_lane_for_each_port_and_one_for_the_others() {
    shown(
        &compiled(BY_PORT).policy.expect("a policy"),
        &expect![[r#"
        tree
          root+default: strict priority, the first child with packets is served
            1. x#1: weighted fair queueing
              weight 1: a: FIFO
              weight 2: b: FIFO
            2. default: FIFO
        limits
          x[vm1]: 100 Mb/s, bursts up to 30 kB
          x[vm2]: 1 Gb/s, bursts up to 253 kB
        lanes
          0: class a, leaf a, limited by x[vm1], at most 10000 packets wait
          1: class a, leaf a, limited by x[vm2], at most 10000 packets wait
          2: class a, leaf a, not limited, at most 10000 packets wait
          3: class b, leaf b, limited by x[vm1], at most 10000 packets wait
          4: class b, leaf b, limited by x[vm2], at most 10000 packets wait
          5: class b, leaf b, not limited, at most 10000 packets wait
          6: class default, leaf default, not limited, at most 10000 packets wait
        rules; the first match decides
          1: tcp -> a
          2: udp -> b
          3: any -> default
        destinations; the longest prefix decides; rows of a port are for its packets alone
          a: port "vm1" -> lane 0
          a: port "vm2" -> lane 1
          a: any other -> lane 2
          b: port "vm1" -> lane 3
          b: port "vm2" -> lane 4
          b: any other -> lane 5
          default: any -> lane 6
    "#]],
    );
}

#[test]
fn limits_of_ports_precede_those_of_destinations_beside_them() {
    let text = "class a = any
d = limit by destination { 10.0.0.0/8: 2gbps, 10.1.0.0/16: 3gbps } of a
p = limit by port { \"vm1\": 100mbps } of a
root = fifo { d, p }
";
    shown(
        &compiled(text).policy.expect("a policy"),
        &expect![[r#"
        tree
          root+default: strict priority, the first child with packets is served
            1. a: FIFO
            2. default: FIFO
        limits
          d[10.0.0.0/8]: 2 Gb/s, bursts up to 503 kB
          d[10.1.0.0/16]: 3 Gb/s, bursts up to 753 kB
          p[vm1]: 100 Mb/s, bursts up to 28.1 kB
        lanes
          0: class a, leaf a, limited by p[vm1], at most 10000 packets wait
          1: class a, leaf a, limited by d[10.1.0.0/16], at most 10000 packets wait
          2: class a, leaf a, limited by d[10.0.0.0/8], at most 10000 packets wait
          3: class a, leaf a, not limited, at most 10000 packets wait
          4: class default, leaf default, not limited, at most 10000 packets wait
        rules; the first match decides
          1: any -> a
        destinations; the longest prefix decides; rows of a port are for its packets alone
          a: port "vm1" -> lane 0
          a: to 10.1.0.0/16 -> lane 1
          a: to 10.0.0.0/8 -> lane 2
          a: any other -> lane 3
          default: any -> lane 4
    "#]],
    );
}

#[test]
fn errors_of_limits_by_port() {
    says(
        "root = limit by port { \"vm1\": 1gbps, \"vm2\": 1gbps, \"vm1\": 2gbps } of default",
        &expect![[r#"
        p:1:52: error[E0211]: `default` has two limits for the port `vm1`
          help: leave one of the limits out, or nest one limit in the other: `limit ... of d1`
    "#]],
    );
    says(
        "root = limit by port { } of default",
        &expect![[r#"
        p:1:8: error[E0205]: the limit names no port
          help: name ports and their rates, such as `{ "vm1": 100mbps }`
    "#]],
    );
    says(
        "root = limit by port { \"a b\": 1gbps } of default",
        &expect![[r#"
        p:1:24: error[E0116]: `a b` is not the name of a port
          help: such as port "vm1": at most 63 bytes without spaces; a port of a five-tuple is a number, such as port 443
    "#]],
    );
    says(
        "root = limit by port { \"vm1\": 0bps } of default",
        &expect![[r#"
        p:1:31: error[E0102]: a rate of zero would hold its packets forever
          help: set a rate above zero
    "#]],
    );
    says(
        "root = limit by destination { \"vm1\": 1gbps } of default",
        &expect![[r#"
        p:1:31: error[E0001]: expected an address prefix, found `"vm1"`
          help: such as `10.0.1.0/24: 2gbps`
    "#]],
    );
}

fn with_limits(text: &str, limits: &[(&str, u64)]) -> CompiledPolicy {
    let limit = |(port, rate): &(&str, u64)| LimitedPort {
        port: (*port).to_owned(),
        limit: PortLimit { rate: BitsPerSec(*rate), burst: Bytes(15_000) },
    };
    let options =
        CompileOptions { port_limits: limits.iter().map(limit).collect(), ..CompileOptions::default() };
    let compilation = compile(Source { name: "p", text }, &options);
    let policy = compilation.policy.unwrap_or_else(|| panic!("{:?}", compilation.diagnostics));
    policy.check_invariants();
    policy
}

const PLAIN: &str = "class a = tcp\nclass b = port \"vm9\"\nroot = limit 5gbps of wfq { a: 1, b: 1 }";

/// A limit that is added holds for every class, `default` too, and changes nothing else.
#[test]
fn limits_of_ports_beside_the_policy_hold_for_all_its_classes() {
    let old = with_limits(PLAIN, &[]);
    let one = renumber(&old, with_limits(PLAIN, &[("vm1", 10_000_000)]));
    let steps: Vec<String> = one.steps.iter().map(ToString::to_string).collect();
    expect![[r#"
        limits of a: root -> port[vm1], root
        limits of b: root -> port[vm1], root
        limits of default: root -> port[vm1], root
        limit port[vm1] added: 10 Mb/s"#]]
    .assert_eq(&steps.join("\n"));
    assert!(one.heirs.is_empty() && one.warnings.is_empty(), "{one:?}");
    let number = one.policy.port_number("vm1");
    for class in (0..3).map(weft_units::ClassId) {
        let at = |port| {
            let lane = one.policy.lane_of(class, &PacketMeta { port, ..PacketMeta::default() });
            let spec = &one.policy.program.lanes[lane.index()];
            assert_eq!(spec.class, class);
            let names =
                spec.limits.iter().map(|limit| one.policy.program.limits[limit.index()].name.as_str());
            (lane, names.collect::<Vec<_>>())
        };
        assert!(at(number).1.contains(&"port[vm1]"), "{:?}", at(number));
        assert_eq!(at(0).0, old.lane_of(class, &PacketMeta::default()), "the others keep their lane");
        assert!(!at(0).1.contains(&"port[vm1]"));
    }
    let two = renumber(&one.policy, with_limits(PLAIN, &[("vm1", 10_000_000), ("vm2", 20_000_000)]));
    assert!(two.heirs.is_empty());
    let none = renumber(&two.policy, with_limits(PLAIN, &[("vm2", 20_000_000)]));
    assert_eq!(none.heirs.len(), 3);
    for (gone, heir) in &none.heirs {
        let class = two.policy.program.lanes[gone.index()].class;
        assert_eq!(*heir, old.lane_of(class, &PacketMeta::default()), "back to the lane of the others");
    }
}

#[test]
fn rates_of_limits_of_ports_change_in_place() {
    let old = with_limits(PLAIN, &[("vm1", 10_000_000)]);
    let change = renumber(&old, with_limits(PLAIN, &[("vm1", 20_000_000)]));
    assert_eq!(change.policy.program.lanes, old.program.lanes);
    let steps: Vec<String> = change.steps.iter().map(ToString::to_string).collect();
    assert_eq!(steps, ["limit port[vm1]: 10 Mb/s -> 20 Mb/s"]);
}
