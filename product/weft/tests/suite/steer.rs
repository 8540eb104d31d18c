//! `weft steer` as a user runs it.

use crate::common::{Running, assert_head, file, flow_list, json, run, until, weft};
use rustix::process::Signal;
use std::time::Duration;
use weft_host::testing::{has_program, privileged, unique};
use weft_host::{NetNs, link};

#[test]
fn a_plan_s_json_has_the_promised_fields() {
    let folder = tempfile::tempdir().expect("folder");
    let flows = flow_list(&folder);
    let path = folder.path().join("plan.json");
    let args = ["steer", "plan", "--nic", "intel-82599", "--flows", &flows, "--queues", "6", "--policy"];
    let said =
        run(&[&args[..], &["isolate hp on 2 queues", "--json", path.to_str().expect("UTF-8")]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("isolate hp on 2 queues") && said.out.contains("Queues"), "{}", said.out);
    let plan = json(&path);
    assert_head(&plan, "weft-steer-plan/1");
    assert!(plan["cost"].is_number() && plan["wall_s"].is_number() && plan["degraded"].is_array());
    let queues = plan["queues"].as_array().expect("queues");
    assert_eq!(queues.len(), 6);
    for queue in queues {
        let number = queue["queue"].as_u64().expect("a number");
        let class = if number < 2 { "be" } else { "hp" };
        assert!(queue["flows"].is_u64() && queue["classes"].get(class).is_none(), "{queue}");
    }
    let certain: u64 = queues.iter().filter_map(|queue| queue["flows"].as_u64()).sum();
    let all = plan["flows"].as_array().expect("flows");
    let spread = all.iter().filter(|flow| flow["queue"].is_null()).count() as u64;
    assert_eq!((certain + spread, all.len()), (25, 25));
    assert!(!plan["filters"].as_array().expect("filters").is_empty());
}

#[test]
fn a_policy_with_clauses_plans_as_its_goal_alone() {
    let folder = tempfile::tempdir().expect("folder");
    let flows = flow_list(&folder);
    let goal = "isolate hp on 2 queues";
    let policy =
        format!("class hp = udp and sport 1001..1004\nroot = fifo {{ hp, default }}\nsteer {goal}\n");
    let policy = file(&folder, "host.weft", policy);
    let args =
        ["steer", "plan", "--nic", "intel-82599", "--flows", &flows, "--queues", "6", "--script", "ethtool"];
    let plans = [goal, &policy].map(|policy| run(&[&args[..], &["--policy", policy]].concat()));
    for plan in &plans {
        assert_eq!((plan.code, &plan.out), (0, &plans[0].out), "{}", plan.err);
    }
    assert!(plans[0].out.contains("ethtool -N"), "{}", plans[0].out);
    let blind = file(&folder, "blind.weft", "class hp = user 0\nroot = hp\nsteer isolate hp on 2 queues\n");
    let refused = run(&[&args[..], &["--policy", &blind]].concat());
    assert!(refused.code != 0 && refused.err.contains("blind.weft:1:12: error[E0702]"), "{}", refused.err);
}

#[test]
fn plans_are_written_as_commands() {
    let folder = tempfile::tempdir().expect("folder");
    let own = flow_list(&folder);
    let plain = std::fs::read_to_string(&own).expect("flows");
    // Rules of whole networks, which the flow director of e810 cannot compare.
    let networks = "tcp,192.0.2.0/24,*,198.51.100.2,443,hp\ntcp,192.0.3.0/24,*,198.51.100.2,443,be\n";
    let flows = file(&folder, "networks.csv", format!("{plain}{networks}"));
    let models = run(&["steer", "models", "--json", "-"]);
    let models: serde_json::Value = serde_json::from_str(&models.out).expect("JSON");
    for (nic, interface, script, begin) in [
        ("ethtool-generic", "ethtool ntuple rules", "ethtool", "ethtool -N dev7 flow-type "),
        ("e810", "tc flower", "flower", "tc filter add dev dev7 ingress "),
        ("intel-82599", "DPDK's rte_flow", "rte-flow", "flow create 0 "),
    ] {
        let plan = folder.path().join("plan.json");
        // This NIC has no address masks: the policy would reject the plan.
        let flows = if nic == "intel-82599" { &own } else { &flows };
        let args = ["steer", "plan", "--nic", nic, "--flows", flows, "--queues", "4"];
        let policy = ["--policy", "static { hp: 0..1, be: 2..3 }", "--json", plan.to_str().expect("UTF-8")];
        let said = run(&[&args[..], &policy, &["--script", script, "--device", "dev7"]].concat());
        assert_eq!(said.code, 0, "{nic}: {}", said.err);
        // Each rule of a table that the dialect can set is a command.
        let model = models["models"].as_array().and_then(|all| all.iter().find(|m| m["name"] == nic));
        let tables = model.expect("the model")["tables"].as_array().expect("tables");
        let settable = |rule: &&serde_json::Value| {
            tables.iter().any(|table| table["name"] == rule["table"] && table["interface"] == interface)
        };
        let plan = json(&plan);
        let rules = plan["filters"].as_array().expect("filters");
        let commands = said.out.lines().filter(|line| line.starts_with(begin)).count();
        // DPDK drives a NIC's tables itself, whatever Linux offers of them.
        let expected = if script == "rte-flow" { rules.len() } else { rules.iter().filter(settable).count() };
        assert!(commands > 0 && commands == expected, "{nic}: {expected} of: {}", said.out);
        // Each other rule is listed.
        let told =
            said.out.lines().filter(|line| line.starts_with("# not expressible") && line.contains(", add "));
        assert_eq!(told.count(), rules.len() - commands, "{nic}: {}", said.out);
    }
}

#[test]
fn models_can_be_listed_printed_and_drawn() {
    let listed = run(&["steer", "models"]);
    for name in ["intel-82599", "sfc9020", "e810", "mlx5", "virtio-net", "igb", "ethtool-generic"] {
        assert!(listed.out.contains(name), "{}", listed.out);
        let text = run(&["steer", "models", "--text", name]);
        let folder = tempfile::tempdir().expect("folder");
        let own = file(&folder, "own.nic", &text.out);
        for nic in [name, &own] {
            let drawn = run(&["steer", "draw", nic]);
            assert!(drawn.code == 0 && drawn.out.starts_with("digraph"), "{nic}: {drawn:?}");
        }
    }
}

#[test]
fn a_flow_s_way_is_told_node_by_node() {
    let folder = tempfile::tempdir().expect("folder");
    let flows = flow_list(&folder);
    let explain = |flow: &str| {
        run(&["steer", "explain", flow, "--nic", "intel-82599", "--flows", &flows, "--policy", "balance"])
    };
    let known = explain("udp,192.0.2.1,7001,198.51.100.1,1001");
    assert!(known.code == 0 && known.out.contains("-> queue "), "{known:?}");
    let wide = explain("tcp,*,*,198.51.100.7,81");
    assert!(wide.code == 0 && wide.out.contains("-> "), "{wide:?}");
    let wrong = explain("udp,192.0.2.1");
    assert!(wrong.code == 1 && wrong.err.contains("is not a flow"), "{wrong:?}");
    assert_eq!(wrong.err.lines().count(), 1, "{}", wrong.err);
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let folder = tempfile::tempdir().expect("folder");
    let good = flow_list(&folder);
    let bad_flows =
        file(&folder, "bad.csv", "proto,src,sport,dst,dport\nudp,192.0.2.1,70000,198.51.100.1,1\n");
    let bad_model = file(&folder, "bad.nic", "nic broken \"x\"\nqueues 0\n");
    let bad_policy = file(&folder, "bad.weft", "class hp = tcp\nroot = hp\nsteer isolate hp on 0 queues\n");
    for (nic, flows, policy, named) in [
        ("intel-82598", good.as_str(), "balance", "intel-82599"),
        ("absent.nic", &good, "balance", "absent.nic"),
        (&bad_model, &good, "balance", "bad.nic:"),
        ("mlx5", &bad_flows, "balance", "bad.csv:2"),
        ("mlx5", "absent.csv", "balance", "absent.csv"),
        ("mlx5", &good, "isolat hp on 2 queues", "isolate"),
        ("mlx5", &good, &bad_policy, "bad.weft:3"),
        ("mlx5", &good, "isolate hp on 999 queues", "999"),
    ] {
        let said = run(&["steer", "plan", "--nic", nic, "--flows", flows, "--policy", policy]);
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains(named) && said.err.lines().count() <= 2, "{named}: {}", said.err);
        assert_eq!(said.out, "");
    }
}

#[test]
fn a_device_without_steering_is_told() {
    if !privileged("a_device_without_steering_is_told") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let flows = flow_list(&folder);
    let [near, far] = ["near", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
    link::create_veth((&near, "v0"), (&far, "v1"), &link::VethOptions::default()).expect("veth");
    let at = ["--netns", near.name()];
    let imported = run(&[&["steer", "import", "v0"][..], &at].concat());
    assert!(imported.code == 0 && imported.out.contains("the driver veth"), "{imported:?}");
    let probed = run(&[&["steer", "probe", "v0"][..], &at].concat());
    assert!(probed.code == 1 && probed.err.contains("takes no receive rules"), "{probed:?}");
    let policy = ["--nic", "ethtool-generic", "--flows", &flows, "--policy", "balance"];
    let applied = run(&[&["steer", "apply", "v0"][..], &at, &policy].concat());
    assert_eq!(applied.code, 1, "{applied:?}");
    assert!(applied.err.contains("veth"), "{}", applied.err);
    let absent = run(&["steer", "import", "absent0"]);
    assert!(absent.code == 1 && absent.err.contains("absent0"), "{absent:?}");
}

#[test]
fn a_plan_is_kept_only_in_an_interface_that_takes_it() {
    if !privileged("a_plan_is_kept_only_in_an_interface_that_takes_it") {
        return;
    }
    let [near, far] = ["keep", "kept"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
    link::create_veth((&near, "v0"), (&far, "v1"), &link::VethOptions::default()).expect("veth");
    let watch = ["steer", "watch", "--nic", "ethtool-generic", "--policy", "balance", "--netns", near.name()];
    let refused = run(&[&watch[..], &["--apply", "v0"]].concat());
    assert!(refused.code == 1 && refused.err.lines().count() <= 2, "{refused:?}");
    assert!(refused.err.contains("v0") && refused.err.contains("veth"), "{}", refused.err);
    let absent = run(&[&watch[..], &["--apply", "absent0"]].concat());
    assert!(absent.code == 1 && absent.err.contains("absent0"), "{absent:?}");
}

#[test]
fn live_sockets_are_planned_for_until_ctrl_c() {
    if !privileged("live_sockets_are_planned_for_until_ctrl_c") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let log = folder.path().join("log");
    let ns = NetNs::create(&unique("watch")).expect("namespace");
    link::set_up(&ns, "lo").expect("up");
    let out = std::fs::File::create(&log).expect("log");
    let running = weft()
        .args(["steer", "watch", "--nic", "ethtool-generic", "--policy", "balance"])
        .args(["--netns", ns.name(), "--interval", "50ms"])
        .stdout(out)
        .spawn();
    let running = Running(running.expect("start weft"));
    let socket = ns.run(|| std::net::UdpSocket::bind("0.0.0.0:5353")).expect("enter").expect("bind");
    let said = |what: &str| std::fs::read_to_string(&log).is_ok_and(|text| text.contains(what));
    assert!(until(Duration::from_secs(10), || said("1 flows added, 0 removed")), "the socket is seen");
    drop(socket);
    assert!(until(Duration::from_secs(10), || said("0 flows added, 1 removed")), "and its removal");
    running.signal(Signal::INT);
    assert_eq!(running.wait(Duration::from_secs(10)).code, 130);
}

/// Runs the lines of a script in a namespace, and returns the tool's messages.
fn say(ns: &NetNs, script: &str) -> Vec<String> {
    let lines = script.lines().filter(|line| !line.starts_with('#'));
    let one = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ran = ns.run(|| std::process::Command::new(words[0]).args(&words[1..]).output());
        let ran = ran.expect("enter").expect("start the tool");
        format!("{line}: {}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
    };
    lines.map(one).collect()
}

/// A veth takes no rules, so the tools' refusals must come from the kernel and not from their own parsers.
#[test]
fn commands_are_ones_that_the_tools_understand() {
    if !privileged("commands_are_ones_that_the_tools_understand") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let rows = "udp,192.0.2.1,7,198.51.100.1,9,a\ntcp,2001:db8::/32,7,2001:db8::2,9,a\n\
                sctp,192.0.2.0/24,*,198.51.100.1,9,a\n47,*,*,198.51.100.1,*,a\n";
    let flows = file(&folder, "flows.csv", format!("proto,src,sport,dst,dport,class\n{rows}"));
    let [near, far] = ["near", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
    link::create_veth((&near, "v0"), (&far, "v1"), &link::VethOptions::default()).expect("veth");
    for (tool, nic, script, from_the_kernel) in [
        ("ethtool", "ethtool-generic", "ethtool", "Operation not supported"),
        ("tc", "e810", "flower", "Error: "),
    ] {
        if !has_program("commands_are_ones_that_the_tools_understand", tool) {
            continue;
        }
        let policy = "static { a: 3..3 }";
        let said = run(&[
            "steer", "plan", "--nic", nic, "--flows", &flows, "--policy", policy, "--queues", "4",
            "--script", script, "--device", "v0",
        ]);
        let lines = say(&near, &said.out);
        assert!(!lines.is_empty(), "{}", said.out);
        for line in lines {
            let unread = ["bad command line", "What is", "Illegal", "unknown", "Usage"];
            assert!(
                line.contains(from_the_kernel) && !unread.iter().any(|word| line.contains(word)),
                "{line}"
            );
        }
    }
}
