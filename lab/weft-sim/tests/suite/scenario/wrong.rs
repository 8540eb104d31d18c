//! Invalid files, and the two lines of each error.

use super::read_alone;
use expect_test::{Expect, expect};
use weft_sim::cost::Costs;
use weft_sim::scenario::read;

/// Returns the error of a text.
fn refused(text: &str) -> String {
    match read_alone(text) {
        Ok(scenario) => panic!("{text}\nwas read as {scenario:?}"),
        Err(error) => error.to_string(),
    }
}

/// Checks the error of each text; texts that need a flow get one at their end.
fn check(cases: &[(&str, Expect)]) {
    for (text, lines) in cases {
        lines.assert_eq(&refused(text));
    }
}

/// Declares a test of wrong files.
macro_rules! wrong {
    ($($name:ident { $($text:literal => $lines:expr;)+ })+) => {
        $(#[test] fn $name() { check(&[$(($text, $lines)),+]); })+
    };
}

wrong! {
    what_is_not_toml_or_unknown {
        "seed = \n" => expect![[r#"
            a.toml:1:8: error: this is not TOML: string values must be quoted, expected literal string
              hint: write texts in quotes; tables begin with [name]"#]];
        "seed = 1\nseed = 2\n" => expect![[r#"
            a.toml:2:1: error: this is not TOML: duplicate key
              hint: write texts in quotes; tables begin with [name]"#]];
        "durration = \"1s\"\n" => expect![[r#"
            a.toml:1:1: error: unknown key `durration` in the file's head
              hint: did you mean `duration`?"#]];
        "colour = \"red\"\n" => expect![[r#"
            a.toml:1:1: error: unknown key `colour` in the file's head
              hint: there are: name, seed, warm_up, duration, fairness_intervals, sample_interval, classes, costs, network, host, hosts, flows, probes, changes, files, source"#]];
        "[network]\nbandwidth = \"10gbps\"\n" => expect![[r#"
            a.toml:2:1: error: unknown key `bandwidth` in [network]
              hint: did you mean `rate`?"#]];
        "[host.stack]\nbyte_queue_limit = \"off\"\n" => expect![[r#"
            a.toml:2:1: error: unknown key `byte_queue_limit` in [host.stack]
              hint: did you mean `bql`?"#]];
        "[host.nic]\ntransmit-queue = 8\n" => expect![[r#"
            a.toml:2:1: error: unknown key `transmit-queue` in [host.nic]
              hint: did you mean `transmit_queues`?"#]];
        "[network.switch]\nalfa = 1\n" => expect![[r#"
            a.toml:2:1: error: unknown key `alfa` in [network.switch]
              hint: there are: buffer, alpha, ecn_threshold"#]];
        "[[hosts]]\n[hosts.stak]\n" => expect![[r#"
            a.toml:2:8: error: unknown key `stak` in [[hosts]]
              hint: did you mean `stack`?"#]];
        "[[flows]]\ntraffic = { udp = { rate = \"1gbps\", sise = \"1472\" } }\n" => expect![[r#"
            a.toml:2:37: error: unknown key `sise` in udp
              hint: did you mean `size`?"#]];
    }
    wrong_types {
        "seed = \"one\"\n" => expect![[r#"
            a.toml:1:8: error: `seed` must be a whole number, not the text `one`
              hint: write a whole number of at least 0"#]];
        "seed = -1\n" => expect![[r#"
            a.toml:1:8: error: `seed` cannot be `-1`
              hint: write a whole number of at least 0"#]];
        "name = 5\n" => expect![[r#"
            a.toml:1:8: error: `name` must be a text, not the number `5`
              hint: write `name = "..."`"#]];
        "name = \"\"\n" => expect![[r#"
            a.toml:1:8: error: `name` cannot be ``
              hint: write a name of visible characters on one line"#]];
        "classes = \"T1\"\n" => expect![[r#"
            a.toml:1:11: error: `classes` must be a list, not the text `T1`
              hint: write `classes = [...]`"#]];
        "network = \"star\"\n" => expect![[r#"
            a.toml:1:11: error: `network` must be a table, not the text `star`
              hint: write its keys below `[network]`"#]];
        "hosts = \"two\"\n" => expect![[r#"
            a.toml:1:9: error: `hosts` must be a number or [[hosts]], not the text `two`
              hint: write `hosts = 2`, or begin each host with [[hosts]]"#]];
        "flows = 3\n" => expect![[r#"
            a.toml:1:9: error: `flows` must be a list, not the number `3`
              hint: begin each with [[flows]]"#]];
        "[host.stack]\ntso = \"yes\"\n" => expect![[r#"
            a.toml:2:7: error: `tso` must be true or false, not the text `yes`
              hint: write `tso = true` or `tso = false`"#]];
        "[network]\nloss = \"1%\"\n" => expect![[r#"
            a.toml:2:8: error: `loss` must be a number, not the text `1%`
              hint: write a probability from 0 up to, but not including, 1"#]];
        "[network]\ntopology = 3\n" => expect![[r#"
            a.toml:2:12: error: `topology` must be a name or a table, not the number `3`
              hint: write "star" or { dumbbell = { left = 4 } }"#]];
        "[[flows]]\ncores = [0, \"1\"]\n" => expect![[r#"
            a.toml:2:13: error: `cores` must be a whole number, not the text `1`
              hint: write a whole number from 0 to 8192"#]];
    }
    missing_units {
        "duration = 1\n" => expect![[r#"
            a.toml:1:12: error: `duration` needs a unit
              hint: write it as text with a unit, such as "1ms""#]];
        "duration = \"10\"\n" => expect![[r#"
            a.toml:1:12: error: `duration` needs a unit
              hint: write "10ms", say"#]];
        "[network]\nrate = 10\n" => expect![[r#"
            a.toml:2:8: error: `rate` needs a unit
              hint: write it as text with a unit, such as "10gbps""#]];
        "[host.stack]\nmtu = 1500\n" => expect![[r#"
            a.toml:2:7: error: `mtu` needs a unit
              hint: write it as text with a unit, such as "1500B""#]];
        "[host.stack]\nmtu = \"1500 metres\"\n" => expect![[r#"
            a.toml:2:7: error: `mtu`: `1500 metres` is not a size such as 1500, 16kib or 4mb
              hint: write `mtu = "1B"`, say"#]];
        "fairness_intervals = [\"1ms\", 5]\n" => expect![[r#"
            a.toml:1:30: error: `fairness_intervals` needs a unit
              hint: write it as text with a unit, such as "5ms""#]];
        "[host.stack]\nbql = 256\n" => expect![[r#"
            a.toml:2:7: error: `bql` needs a unit
              hint: write "dynamic", "off" or a size such as "256KB" (write it as text with a unit, such as "256B")"#]];
        "[host.stack]\nsmall_queue = 256\n" => expect![[r#"
            a.toml:2:15: error: `small_queue` needs a unit
              hint: write it as text with a unit, such as "256B", or "off""#]];
    }
    impossible_values {
        "duration = \"0s\"\n" => expect![[r#"
            a.toml:1:12: error: `duration` cannot be zero
              hint: write a time such as "10ms""#]];
        "fairness_intervals = [\"0ms\"]\n" => expect![[r#"
            a.toml:1:23: error: `fairness_intervals` cannot be zero
              hint: write a time such as "10ms""#]];
        "[network]\nrate = \"0gbps\"\n" => expect![[r#"
            a.toml:2:8: error: `rate` cannot be zero
              hint: write a rate such as "10gbps""#]];
        "[network]\nrate = \"-1gbps\"\n" => expect![[r#"
            a.toml:2:8: error: `rate` cannot be negative: `-1gbps`
              hint: write `rate = "1gbps"`, say"#]];
        "[network]\nloss = 1.5\n" => expect![[r#"
            a.toml:2:8: error: `loss` cannot be `1.5`
              hint: write a probability from 0 up to, but not including, 1"#]];
        "[network]\nloss = nan\n" => expect![[r#"
            a.toml:2:8: error: `loss` cannot be `nan`
              hint: write a probability from 0 up to, but not including, 1"#]];
        "[network.switch]\nalpha = 0\n" => expect![[r#"
            a.toml:2:9: error: `alpha` cannot be `0`
              hint: write a number above 0"#]];
        "[host]\ncores = 0\n" => expect![[r#"
            a.toml:2:9: error: `cores` cannot be `0`
              hint: write a whole number from 1 to 8192"#]];
        "[host]\ncores = 2\nnuma_nodes = 4\n" => expect![[r#"
            a.toml:3:14: error: 4 NUMA nodes for 2 cores
              hint: a node needs at least one core"#]];
        "[host.nic]\ntransmit_queues = 0\n" => expect![[r#"
            a.toml:2:19: error: `transmit_queues` cannot be `0`
              hint: write a whole number from 1 to 65535, or "per-flow" for a queue of its own for each flow"#]];
        "[host.nic]\nreceive_queues = 0\n" => expect![[r#"
            a.toml:2:18: error: `receive_queues` cannot be `0`
              hint: write a whole number from 1 to 65535"#]];
        "[host.nic]\ntransmit_buffer = \"64B\"\n" => expect![[r#"
            a.toml:2:19: error: a transmit buffer of 64 bytes holds no packet
              hint: write `transmit_buffer` at least as large as `mtu`"#]];
        "[host.stack]\nmtu = \"100B\"\n" => expect![[r#"
            a.toml:2:7: error: `mtu` cannot be `100B`
              hint: write at least "576B" and at most "65535B""#]];
        "[host.stack]\nmtu = \"70000B\"\n" => expect![[r#"
            a.toml:2:7: error: `mtu` cannot be `70000B`
              hint: write at least "576B" and at most "65535B""#]];
        "[host.stack]\nmtu = \"9000B\"\ngso = \"4KB\"\n" => expect![[r#"
            a.toml:3:7: error: segments of 4000 bytes are smaller than the MTU of 9000
              hint: write `gso` at least as large as `mtu`"#]];
        "[host.stack]\ndynamic_segment = \"1KB\"\n" => expect![[r#"
            a.toml:2:19: error: `dynamic_segment` cannot be 1000 bytes
              hint: write a size from `mtu` (1500) to `gso` (65536)"#]];
        "[host.nic]\nscheduler = \"policy\"\n" => expect![[r#"
            a.toml:2:13: error: the scheduler `policy` needs a policy
              hint: write the policy's text as `policy` of the host's stack, or its path as `policy_file`"#]];
        "[[flows]]\nband = 16\n" => expect![[r#"
            a.toml:2:8: error: `band` cannot be `16`
              hint: write a whole number from 0 to 15"#]];
        "[[flows]]\ncount = 0\n" => expect![[r#"
            a.toml:2:9: error: `count` cannot be `0`
              hint: write a whole number from 1 to 1000000"#]];
        "[[flows]]\nweight = 0\n" => expect![[r#"
            a.toml:2:10: error: `weight` cannot be `0`
              hint: write a whole number from 1 to 4294967295"#]];
        "[[flows]]\nstart = \"2s\"\nstop = \"1s\"\n" => expect![[r#"
            a.toml:3:8: error: the flows stop before they start
              hint: write a later `stop`, or leave it out to send until the end"#]];
    }
    unknown_names {
        "[host.stack]\ncongestion_control = \"qubic\"\n" => expect![[r#"
            a.toml:2:22: error: there is no congestion control `qubic`
              hint: did you mean `cubic`? there are: reno, cubic, dctcp"#]];
        "[host.stack]\nqueue_assignment = \"magic\"\n" => expect![[r#"
            a.toml:2:20: error: there is no queue assignment `magic`
              hint: there are: hash, dqa, overflow, round-robin, two-choices"#]];
        "[host.stack]\nqdisc = \"pfifo-fast\"\n" => expect![[r#"
            a.toml:2:9: error: `pfifo-fast` is not a `qdisc`
              hint: did you mean `pfifo_fast`? there are: pfifo_fast, prio+sfq, fq_codel, htb, tbf, drr+prio+sfq"#]];
        "[host.nic]\nscheduler = \"deficit-round-robin\"\n" => expect![[r#"
            a.toml:2:13: error: `deficit-round-robin` is not a `scheduler`
              hint: there are: round-robin, deficit, dcb, policy"#]];
        "[host.nic]\nreceive_steering = \"arfs\"\n" => expect![[r#"
            a.toml:2:20: error: `arfs` is not a `receive_steering`
              hint: there are: rss, to-transmit-queue, to-application, away-from-application"#]];
        "classes = [\"T1\", \"T2\"]\n[[flows]]\nclass = \"T3\"\n" => expect![[r#"
            a.toml:3:9: error: there is no class `T3`
              hint: did you mean `T1`? there are: T1, T2"#]];
        "classes = [\"T1\", \"T1\"]\n" => expect![[r#"
            a.toml:1:11: error: the class `T1` is listed twice
              hint: leave one of them out"#]];
        "classes = []\n" => expect![[r#"
            a.toml:1:11: error: there are no classes
              hint: leave `classes` out to have one, named `default`"#]];
        "[[flows]]\ntraffic = \"bulky\"\n" => expect![[r#"
            a.toml:2:11: error: `bulky` is not a `traffic`
              hint: did you mean `bulk`? there are: bulk, transfer, request-response, short, udp"#]];
        "[network]\ntopology = \"ring\"\n" => expect![[r#"
            a.toml:2:12: error: `ring` is not a `topology`
              hint: there are: back-to-back, star, dumbbell, leaf-spine"#]];
    }
    choices_and_their_keys {
        "[host.stack]\nqdisc = \"tbf\"\n" => expect![[r#"
            a.toml:2:9: error: `tbf` needs `rate`
              hint: write `qdisc = { tbf = { rate = ... } }`; its keys: rate, burst"#]];
        "[host.stack]\nqdisc = { tbf = { rate = \"1gbps\" } }\n" => expect![[r#"
            a.toml:2:9: error: `tbf` needs `burst`
              hint: write `qdisc = { tbf = { burst = ... } }`; its keys: rate, burst"#]];
        "[host.stack]\nqdisc = { fq_codel = { target = \"5ms\" } }\n" => expect![[r#"
            a.toml:2:22: error: `fq_codel` has no keys
              hint: write "fq_codel""#]];
        "[[flows]]\ntraffic = { udp = {}, short = {} }\n" => expect![[r#"
            a.toml:2:11: error: `traffic` must name one thing, not 2
              hint: write "bulk" or { transfer = "1GB" }"#]];
        "[[flows]]\ntraffic = \"transfer\"\n" => expect![[r#"
            a.toml:2:11: error: `transfer` needs a size
              hint: write `traffic = { transfer = "1GB" }`"#]];
        "[network]\ntopology = \"dumbbell\"\n" => expect![[r#"
            a.toml:2:12: error: `dumbbell` needs `left`
              hint: write `topology = { dumbbell = { left = ... } }`; its keys: left"#]];
    }
    hosts_that_do_not_fit {
        "hosts = 3\n[[flows]]\n" => expect![[r#"
            a.toml:1:9: error: back-to-back has 2 hosts, not 3
              hint: write `topology = "star"`, or `hosts = 2`"#]];
        "hosts = 0\n" => expect![[r#"
            a.toml:1:9: error: `hosts` cannot be `0`
              hint: write a whole number from 1 to 10000"#]];
        "hosts = 8\n[network]\ntopology = { dumbbell = { left = 9 } }\n[[flows]]\n" => expect![[r#"
            a.toml:3:12: error: 9 of 8 hosts cannot be at the left switch
              hint: write a smaller `left`, or more `hosts`"#]];
        "[network]\ntopology = { leaf-spine = { leaves = 3 } }\n[[flows]]\n" => expect![[r#"
            a.toml:2:12: error: 2 hosts cannot be spread over 3 leaves
              hint: take fewer `leaves`, or more `hosts`"#]];
        "[[hosts]]\nindex = 1\n[[hosts]]\nindex = 1\n" => expect![[r#"
            a.toml:4:9: error: host 1 is described twice
              hint: without `index`, an entry is for the host after those of the entry before"#]];
        "[[flows]]\nfrom = 2\n" => expect![[r#"
            a.toml:2:8: error: `from`: there is no host 2
              hint: the 2 hosts have the indices 0 to 1"#]];
        "[[flows]]\nfrom = 1\n" => expect![[r#"
            a.toml:2:8: error: host 1 cannot send to itself
              hint: write another host as `to`"#]];
        "[[probes]]\nfrom = 1\nto = 1\n" => expect![[r#"
            a.toml:3:6: error: host 1 cannot send to itself
              hint: write another host as `to`"#]];
        "[host]\ncores = 2\n[[flows]]\ncores = [0, 2]\n" => expect![[r#"
            a.toml:4:9: error: `cores`: host 0 has no core 2
              hint: its 2 cores have the numbers 0 to 1"#]];
        "[[probes]]\ncore = 8\n" => expect![[r#"
            a.toml:2:8: error: `core`: host 0 has no core 8
              hint: its 8 cores have the numbers 0 to 7"#]];
        "duration = \"1s\"\n" => expect![[r#"
            a.toml:1:1: error: the scenario has no flows and no probes
              hint: begin a group of flows with [[flows]]; it may be empty, which is one bulk flow from host 0 to host 1"#]];
        "flows = []\n" => expect![[r#"
            a.toml:1:9: error: the scenario has no flows and no probes
              hint: begin a group of flows with [[flows]]; it may be empty, which is one bulk flow from host 0 to host 1"#]];
    }
    costs_in_a_scenario {
        "costs = \"x.toml\"\n[[flows]]\n" => expect![[r#"
            a.toml:1:9: error: the cost file `x.toml` cannot be read: x.toml does not exist
              hint: its path counts from the scenario file's folder; `costs = "free"` does without one"#]];
        "costs = 5\n[[flows]]\n" => expect![[r#"
            a.toml:1:9: error: `costs` must be a table, not the number `5`
              hint: write its keys below `[costs]`"#]];
        "[[flows]]\n[costs.system_call]\netc = 300\n" => expect![[r#"
            a.toml:3:7: error: `system_call.etc` has no source
              hint: name it in the `keys` of a [[source]] with `paper`, `kernel`, `datasheet`, `standard`, `fitted` or `assumed`"#]];
    }
}

/// A host with a policy, and the beginning of a change.
const POLICY: &str =
    "[host.nic]\nscheduler = \"policy\"\n[host.stack]\npolicy = \"root = default\"\n[[flows]]\n";

#[test]
fn changes_of_policies() {
    for (text, lines) in [
        (
            "[[changes]]\nat = \"1s\"\n",
            expect![[r#"
                a.toml:6:1: error: a change is of a `policy`, of a `policy_file` or of a `tenant`
                  hint: write one of the three"#]],
        ),
        (
            "[[changes]]\ntenant = \"a\"\n",
            expect![[r#"
                a.toml:7:10: error: `tenant` without `file`
                  hint: write `file = "vm1.weft"`, say, or `file = "off"` to take the tenant's file away"#]],
        ),
        (
            "[[changes]]\npolicy = \"root = default\"\nfile = \"a\"\n",
            expect![[r#"
                a.toml:8:8: error: `file` without `tenant`
                  hint: name the tenant whose file it is"#]],
        ),
        (
            "[[changes]]\npolicy_file = \"a.weft\"\n",
            expect![[r#"
                a.toml:7:15: error: `policy_file`: there is no file a.weft
                  hint: its path counts from the scenario file's folder; its text may also stand in [files]"#]],
        ),
        (
            "[[changes]]\nhost = 2\npolicy_file = \"a.weft\"\n",
            expect![[r#"
                a.toml:7:8: error: `host`: there is no host 2
                  hint: the hosts have the indices 0 to 1"#]],
        ),
        (
            "[files]\n\"a\\n\" = \"\"\n",
            expect![[r#"
                a.toml:7:1: error: `a\u{a}` is no path
                  hint: write the path by which a policy names the file"#]],
        ),
    ] {
        lines.assert_eq(&refused(&format!("{POLICY}{text}")));
    }
    expect![[r#"
        a.toml:2:8: error: host 0 has no policy that could change
          hint: give its NIC the scheduler `policy`, and its stack a policy"#]]
    .assert_eq(&refused("[[changes]]\nhost = 0\npolicy = \"root = default\"\n[[flows]]\n"));
    expect![[r#"
        a.toml:3:15: error: `policy` and `policy_file` exclude each other
          hint: leave one of them out"#]]
    .assert_eq(&refused("[host.stack]\npolicy = \"root = default\"\npolicy_file = \"a.weft\"\n"));
    expect![[r#"
        a.toml:2:10: error: a file of a tenant cannot be read: b does not exist
          hint: its path counts from the folder of the file that names it"#]]
    .assert_eq(&refused("[host.stack]\npolicy = 'a = tenant \"b\" of mark 1'\n[[flows]]\n"));
}

/// Returns the error of a cost file.
fn costs_refused(text: &str) -> String {
    Costs::read(text, "c.toml").expect_err(text).to_string()
}

#[test]
fn cost_files() {
    for (text, lines) in [
        (
            "[system_cal]\netc = 0\n",
            expect![[r#"
            c.toml:1:2: error: there is no operation `system_cal`
              hint: did you mean `system_call`?"#]],
        ),
        (
            "[interrupt]\nscheduling = 0\n",
            expect![[r#"
            c.toml:2:1: error: unknown key `scheduling` in [interrupt]
              hint: there are: data_copy, tcpip, netdev, skb, mem, lock, sched, etc"#]],
        ),
        (
            "[interrupt]\netc = 100\n",
            expect![[r#"
            c.toml:2:7: error: `interrupt.etc` has no source
              hint: name it in the `keys` of a [[source]] with `paper`, `kernel`, `datasheet`, `standard`, `fitted` or `assumed`"#]],
        ),
        (
            "[interrupt]\netc = 100\nsource = \"x\"\n",
            expect![[r#"
            c.toml:3:1: error: unknown key `source` in [interrupt]
              hint: there are: data_copy, tcpip, netdev, skb, mem, lock, sched, etc"#]],
        ),
        (
            "[interrupt]\netc = -1\n",
            expect![[r#"
            c.toml:2:7: error: `etc` cannot be `-1`
              hint: write nanoseconds, 0 or more, without a unit"#]],
        ),
        (
            "[interrupt]\netc = \"1us\"\n",
            expect![[r#"
            c.toml:2:7: error: `etc` must be a number, not the text `1us`
              hint: write nanoseconds, 0 or more, without a unit"#]],
        ),
        (
            "[contention]\nnuma_factor = 0.5\n",
            expect![[r#"
            c.toml:2:15: error: `numa_factor` cannot be `0.5`
              hint: write a factor of at least 1"#]],
        ),
        (
            "[contention]\nmiss_base = 0.5\n",
            expect![[r#"
            c.toml:2:13: error: the greatest share of misses, 0, is below the least, 0.5
              hint: write `miss_max` at least as large as `miss_base`"#]],
        ),
        (
            "[contention]\nnuma_factor = 1.5\n",
            expect![[r#"
            c.toml:2:15: error: `contention.numa_factor` has no source
              hint: name it in the `keys` of a [[source]] with `paper`, `kernel`, `datasheet`, `standard`, `fitted` or `assumed`"#]],
        ),
        (
            "interrupt = 5\n",
            expect![[r#"
            c.toml:1:13: error: `interrupt` must be a table, not the number `5`
              hint: write its keys below `[interrupt]`"#]],
        ),
    ] {
        lines.assert_eq(&costs_refused(text));
    }
}

#[test]
fn an_error_of_a_cost_file_points_into_that_file() {
    let text = "costs = \"../costs/x.toml\"\n[[flows]]\n";
    let mut asked = Vec::new();
    let error = read(text, "experiments/scenarios/a.toml", &mut |path| {
        asked.push(path.to_owned());
        Ok("# costs\n[interrupts]\n".to_owned())
    })
    .expect_err("the cost file is wrong");
    assert_eq!(asked, ["../costs/x.toml"]);
    expect![[r#"
        experiments/scenarios/../costs/x.toml:2:2: error: there is no operation `interrupts`
          hint: did you mean `interrupt`?"#]]
    .assert_eq(&error.to_string());
}

#[test]
fn a_rate_is_corrected_to_what_it_means() {
    for (written, meant) in [
        ("\"900e6\"", "write `rate = \"900mbps\"`"),
        ("\"0.9G\"", "write `rate = \"0.9gbps\"`"),
        ("\"100MB/s\"", "write `rate = \"800mbps\"`"),
        ("900e6", "such as \"900mbps\""),
    ] {
        let error = read_alone(&format!("[network]\nrate = {written}\n")).expect_err(written).to_string();
        assert!(error.ends_with(meant), "{error}");
    }
}

#[test]
fn an_error_is_drawn_with_its_line() {
    let error = read_alone("[network]\nrate = \"10 gigabit\" # fast\n").expect_err("no such unit");
    expect![[r#"
        error: `rate`: `10 gigabit` is not a rate such as 500mbps or 2.5gbps
         --> a.toml:2:8
          |
        2 | rate = "10 gigabit" # fast
          |        ^^^^^^^^^^^^
          |
          = help: write `rate = "1gbps"`, say"#]]
    .assert_eq(&error.render(weft_text::Style::Plain));
}

#[test]
fn columns_count_characters_and_nothing_steers_the_terminal() {
    let error = read_alone("classes = [\"größe\", \"\\u001b[2J\"]\n").expect_err("a control character");
    expect![[r#"
        a.toml:1:21: error: `classes` cannot be `\u{1b}[2J`
          hint: write a name of visible characters on one line"#]]
    .assert_eq(&error.to_string());
}

#[test]
fn a_text_of_megabytes_is_refused_at_once() {
    assert!(refused(&"#".repeat(5 << 20)).contains("more than"));
}
