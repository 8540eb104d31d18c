//! The ready policies compile without diagnostics, to the snapshots below.

use expect_test::{Expect, expect};
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile, describe, to_dot};
use weft_units::BitsPerSec;

fn compiled(name: &str, options: &CompileOptions) -> CompiledPolicy {
    let path = format!("{}/../../policies/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the policy is there");
    let compilation = compile(Source { name, text: &text }, options);
    assert_eq!(compilation.diagnostics, []);
    let policy = compilation.policy.expect("no diagnostics, so a policy");
    policy.check_invariants();
    policy
}

#[track_caller]
fn check(name: &str, shape: &Expect) {
    shape.assert_eq(&describe(&compiled(name, &CompileOptions::default())));
}

#[test]
fn every_ready_policy_has_its_shape_tested() {
    let folder = format!("{}/../../policies", env!("CARGO_MANIFEST_DIR"));
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["figure1.weft", "figure11.weft", "rate-limit.weft", "tenants.weft"]);
}

#[test]
fn tenants_share_equally() {
    check(
        "tenants.weft",
        &expect![[r#"
            tree
              root: weighted fair queueing
                weight 1: T0: fair over its flows
                weight 1: T1: fair over its flows
                weight 1: T2: fair over its flows
                weight 1: T3: fair over its flows
                weight 1: T4: fair over its flows
                weight 1: default: FIFO
            lanes
              0: class T0, leaf T0, not limited, at most 10000 packets wait
              1: class T1, leaf T1, not limited, at most 10000 packets wait
              2: class T2, leaf T2, not limited, at most 10000 packets wait
              3: class T3, leaf T3, not limited, at most 10000 packets wait
              4: class T4, leaf T4, not limited, at most 10000 packets wait
              5: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: cgroup "T0" -> T0
              2: cgroup "T1" -> T1
              3: cgroup "T2" -> T2
              4: cgroup "T3" -> T3
              5: cgroup "T4" -> T4
              6: any -> default
            destinations; the longest prefix decides
              T0: any -> lane 0
              T1: any -> lane 1
              T2: any -> lane 2
              T3: any -> lane 3
              T4: any -> lane 4
              default: any -> lane 5
        "#]],
    );
}

#[test]
fn figure_1_of_loom() {
    check(
        "figure1.weft",
        &expect![[r#"
            link of 40 Gb/s
            tree
              root: strict priority, the first child with packets is served
                1. mgmt: FIFO
                2. tenants: weighted fair queueing
                  weight 1: vm1.apps: strict priority, the first child with packets is served
                    1. vm1.kvs: FIFO
                    2. vm1.batch: weighted fair queueing
                      weight 1: vm1.hadoop: fair over its flows
                      weight 1: vm1.spark: fair over its flows
                  weight 2: vm2: FIFO
                  weight 4: vm3: FIFO
                3. default: FIFO
            limits
              vm1[10.0.1.0/24]: 2 Gb/s, bursts up to 503 kB
              vm1[10.0.2.0/24]: 500 Mb/s, bursts up to 128 kB
            lanes
              0: class mgmt, leaf mgmt, not limited, at most 10000 packets wait
              1: class vm1.kvs, leaf vm1.kvs, limited by vm1[10.0.1.0/24], at most 10000 packets wait
              2: class vm1.kvs, leaf vm1.kvs, limited by vm1[10.0.2.0/24], at most 10000 packets wait
              3: class vm1.kvs, leaf vm1.kvs, not limited, at most 10000 packets wait
              4: class vm1.hadoop, leaf vm1.hadoop, limited by vm1[10.0.1.0/24], at most 10000 packets wait
              5: class vm1.hadoop, leaf vm1.hadoop, limited by vm1[10.0.2.0/24], at most 10000 packets wait
              6: class vm1.hadoop, leaf vm1.hadoop, not limited, at most 10000 packets wait
              7: class vm1.spark, leaf vm1.spark, limited by vm1[10.0.1.0/24], at most 10000 packets wait
              8: class vm1.spark, leaf vm1.spark, limited by vm1[10.0.2.0/24], at most 10000 packets wait
              9: class vm1.spark, leaf vm1.spark, not limited, at most 10000 packets wait
              10: class vm2, leaf vm2, not limited, at most 10000 packets wait
              11: class vm3, leaf vm3, not limited, at most 10000 packets wait
              12: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: cgroup "/system.slice/mgmt" -> mgmt
              2: tcp and sport 11211 and cgroup "/vm1" -> vm1.kvs
              3: tcp and dport 11211 and cgroup "/vm1" -> vm1.kvs
              4: cgroup "/vm1/hadoop" -> vm1.hadoop
              5: cgroup "/vm1/spark" -> vm1.spark
              6: cgroup "/vm2" -> vm2
              7: cgroup "/vm3" -> vm3
              8: any -> default
            destinations; the longest prefix decides
              mgmt: any -> lane 0
              vm1.kvs: to 10.0.1.0/24 -> lane 1
              vm1.kvs: to 10.0.2.0/24 -> lane 2
              vm1.kvs: any other -> lane 3
              vm1.hadoop: to 10.0.1.0/24 -> lane 4
              vm1.hadoop: to 10.0.2.0/24 -> lane 5
              vm1.hadoop: any other -> lane 6
              vm1.spark: to 10.0.1.0/24 -> lane 7
              vm1.spark: to 10.0.2.0/24 -> lane 8
              vm1.spark: any other -> lane 9
              vm2: any -> lane 10
              vm3: any -> lane 11
              default: any -> lane 12
        "#]],
    );
}

#[test]
fn figure_11_of_loom() {
    check(
        "figure11.weft",
        &expect![[r#"
            tree
              root: weighted fair queueing
                weight 1: T1.jobs: weighted fair queueing
                  weight 1: J0: fair over its flows
                  weight 1: J1: fair over its flows
                  weight 1: J2: fair over its flows
                weight 1: T2: fair over its flows
                weight 1: T3: fair over its flows
                weight 1: T4: fair over its flows
                weight 1: default: FIFO
            limits
              destination2: 2.5 Gb/s, bursts up to 628 kB
            lanes
              0: class J0, leaf J0, limited by destination2, at most 10000 packets wait
              1: class J0, leaf J0, not limited, at most 10000 packets wait
              2: class J1, leaf J1, limited by destination2, at most 10000 packets wait
              3: class J1, leaf J1, not limited, at most 10000 packets wait
              4: class J2, leaf J2, limited by destination2, at most 10000 packets wait
              5: class J2, leaf J2, not limited, at most 10000 packets wait
              6: class T2, leaf T2, not limited, at most 10000 packets wait
              7: class T3, leaf T3, not limited, at most 10000 packets wait
              8: class T4, leaf T4, not limited, at most 10000 packets wait
              9: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: cgroup "J0" -> J0
              2: cgroup "J1" -> J1
              3: cgroup "J2" -> J2
              4: cgroup "T2" -> T2
              5: cgroup "T3" -> T3
              6: cgroup "T4" -> T4
              7: any -> default
            destinations; the longest prefix decides
              J0: to 10.99.1.2 -> lane 0
              J0: any other -> lane 1
              J1: to 10.99.1.2 -> lane 2
              J1: any other -> lane 3
              J2: to 10.99.1.2 -> lane 4
              J2: any other -> lane 5
              T2: any -> lane 6
              T3: any -> lane 7
              T4: any -> lane 8
              default: any -> lane 9
        "#]],
    );
}

#[test]
fn one_application_is_limited() {
    check(
        "rate-limit.weft",
        &expect![[r#"
            tree
              root: strict priority, the first child with packets is served
                1. app.flows: fair over its flows, of memcached
                2. default: FIFO
            limits
              app: 2 Gb/s, bursts up to 503 kB
            lanes
              0: class memcached, leaf app.flows, limited by app, at most 10000 packets wait
              1: class default, leaf default, not limited, at most 10000 packets wait
            rules; the first match decides
              1: tcp and sport 11211 -> memcached
              2: tcp and dport 11211 -> memcached
              3: any -> default
            destinations; the longest prefix decides
              memcached: any -> lane 0
              default: any -> lane 1
        "#]],
    );
}

#[test]
fn the_limit_of_figure_11_can_be_set_from_outside() {
    let rate = BitsPerSec(500_000_000);
    let options = CompileOptions {
        overrides: vec![("destination2".to_owned(), rate)],
        link: Some(BitsPerSec(1)),
        ..CompileOptions::default()
    };
    let path = format!("{}/../../policies/figure11.weft", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the policy is there");
    let compilation = compile(Source { name: "figure11.weft", text: &text }, &options);
    let policy = compilation.policy.expect("only a warning");
    assert_eq!(policy.program.limits[0].rate, rate);
    assert_eq!(policy.link, Some(BitsPerSec(1)));
    let lines: Vec<String> = compilation.diagnostics.iter().map(|d| d.one_line()).collect();
    expect![
        "figure11.weft:16:22: warning[W0002]: a limit of 500 Mb/s on a link of 1 b/s never delays a packet"
    ]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn figure_11_as_a_drawing() {
    expect![[r#"
        digraph policy {
          rankdir=TB;
          node [fontname="sans-serif"];
          class0 [label="J0", shape=plaintext];
          class1 [label="J1", shape=plaintext];
          class2 [label="J2", shape=plaintext];
          class3 [label="T2", shape=plaintext];
          class4 [label="T3", shape=plaintext];
          class5 [label="T4", shape=plaintext];
          class6 [label="default", shape=plaintext];
          limit0 [label="destination2\n2.5 Gb/s", shape=box, style=rounded];
          leaf0 [label="J0\nfair", shape=ellipse];
          leaf1 [label="J1\nfair", shape=ellipse];
          leaf2 [label="J2\nfair", shape=ellipse];
          leaf3 [label="T2\nfair", shape=ellipse];
          leaf4 [label="T3\nfair", shape=ellipse];
          leaf5 [label="T4\nfair", shape=ellipse];
          leaf6 [label="default\nfifo", shape=ellipse];
          node0 [label="root\nwfq", shape=ellipse];
          node1 -> node0 [label="w:1"];
          leaf3 -> node0 [label="w:1"];
          leaf4 -> node0 [label="w:1"];
          leaf5 -> node0 [label="w:1"];
          leaf6 -> node0 [label="w:1"];
          node1 [label="T1.jobs\nwfq", shape=ellipse];
          leaf0 -> node1 [label="w:1"];
          leaf1 -> node1 [label="w:1"];
          leaf2 -> node1 [label="w:1"];
          class0 -> leaf0;
          class0 -> limit0;
          class1 -> leaf1;
          class1 -> limit0;
          class2 -> leaf2;
          class2 -> limit0;
          class3 -> leaf3;
          class4 -> leaf4;
          class5 -> leaf5;
          class6 -> leaf6;
          limit0 -> leaf0;
          limit0 -> leaf1;
          limit0 -> leaf2;
        }
    "#]]
    .assert_eq(&to_dot(&compiled("figure11.weft", &CompileOptions::default())));
}
