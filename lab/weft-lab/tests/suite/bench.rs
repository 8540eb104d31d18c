//! `weft bench`: its options, and the messages on what it cannot measure. One test needs rights.

use crate::common::{file, json, run};

/// Limits of two kinds, an algorithm's order, and a class for each of two destinations.
const POLICY: &str = "link 10gbps
class web = tcp port 80
class bulk = tcp port 81
root = priority { web, rest }
rest = limit by destination { 192.0.2.0/24: 1gbps, 198.51.100.0/24: 2gbps } of flows
flows = wfq { fair of bulk: 2, default: 1 }
";

#[test]
fn a_policy_is_measured_at_three_lengths() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let said = run(&["bench", "engine", "--policy", &policy, "--runs", "1", "--flows", "64"]);
    assert_eq!(said.code, 0, "{}", said.err);
    for length in ["policy, 64 bytes", "policy, 594 bytes", "policy, 1518 bytes"] {
        assert!(said.out.contains(length), "{length}: {}", said.out);
    }
    assert!(said.out.contains("b/s") && said.out.contains("time each"), "{}", said.out);
}

#[test]
fn a_policy_that_cannot_be_measured_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let few = run(&["bench", "engine", "--policy", &policy, "--flows", "2"]);
    assert_eq!(few.code, 1, "{}", few.err);
    assert!(few.err.contains("lanes") && few.err.contains("--flows"), "{}", few.err);
    let wrong = file(&folder, "wrong.weft", "root = nothing\n");
    let wrong = run(&["bench", "engine", "--policy", &wrong]);
    assert!(wrong.code == 1 && wrong.err.contains("wrong.weft:1:8"), "{}", wrong.err);
    let absent = run(&["bench", "engine", "--policy", "absent.weft"]);
    assert!(absent.code == 1 && absent.err.contains("absent.weft: No such file"), "{}", absent.err);
}

#[test]
fn options_of_the_engine_belong_to_it() {
    for (args, named) in [
        (&["bench", "port", "--policy", "p.weft"][..], "weft bench engine --policy"),
        (&["bench", "engine", "sim-hold", "--policy", "p.weft"], "weft bench engine --policy"),
        (&["bench", "engine", "--flows", "10"], "--policy"),
        (&["bench", "engine", "--policy", "p.weft", "--flows", "0"], "--flows"),
        (&["bench", "engine", "--policy", "p.weft", "--rate", "0gbps"], "a rate of zero"),
        (&["bench", "engine", "--workers", "2"], "weft bench port --workers"),
        (&["bench", "port", "sim-hold", "--workers", "2"], "weft bench port --workers"),
        (&["bench", "port", "--workers", "0"], "--workers"),
    ] {
        let said = run(args);
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert!(said.err.contains(named) && said.out.is_empty(), "{args:?}: {}", said.err);
    }
}

#[test]
fn workers_of_a_port_are_measured_in_turns() {
    if !weft_host::testing::privileged("workers_of_a_port_are_measured_in_turns") {
        return;
    }
    let folder = tempfile::tempdir().expect("folder");
    let document = folder.path().join("port.json");
    let name = document.to_str().expect("UTF-8");
    let said = run(&["bench", "port", "--workers", "1,2", "--runs", "1", "--json", name]);
    assert_eq!(said.code, 0, "{}", said.err);
    let cases = &json(&document)["cases"];
    for (at, workers) in [1, 2].into_iter().enumerate() {
        assert_eq!(cases[at]["case"], format!("port-2-ports-{workers}-workers"), "{cases}");
        assert!(cases[at]["ours_pps"].as_f64().is_some_and(|pps| pps > 0.0), "{cases}");
    }
    assert_eq!(cases[0]["ratio_to_first"], 1.0);
}

#[test]
fn workers_are_measured_beside_one_and_beside_a_lock() {
    let folder = tempfile::tempdir().expect("folder");
    let document = folder.path().join("workers.json");
    let name = document.to_str().expect("UTF-8");
    let said = run(&["bench", "workers", "--runs", "1", "--flows", "64", "--json", name]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("2, one policy") && said.out.contains("2, one lock"), "{}", said.out);
    assert!(said.out.contains("2, nothing shared"), "{}", said.out);
    let speed = &json(&document)["speed"];
    for way in ["one", "shared", "lock", "apart"] {
        assert!(speed[format!("{way}_pps")].as_f64().is_some_and(|pps| pps > 0.0), "{way}: {speed}");
        assert_eq!(speed[format!("{way}_runs_pps")].as_array().map(Vec::len), Some(1));
    }
}

#[test]
fn workers_are_measured_with_a_policy_of_the_users_own() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let document = folder.path().join("workers.json");
    let options = ["--runs", "1", "--flows", "64", "--packet", "594", "--rate", "40gbps"];
    let name = ["--json", document.to_str().expect("UTF-8")];
    let said = run(&[&["bench", "workers", "--policy", &policy][..], &options, &name].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("p.weft") && said.out.contains("2, one policy"), "{}", said.out);
    let speed = &json(&document)["speed"];
    assert_eq!(speed["policy"]["packet_bytes"], 594, "{speed}");
    assert_eq!(speed["policy"]["link_bps"], 40e9, "{speed}");
    assert!(speed["shared_pps"].as_f64().is_some_and(|pps| pps > 0.0), "{speed}");
    let own = file(&folder, "own.weft", "class a = tcp port 1\nroot = las of a\n");
    let own = run(&["bench", "workers", "--policy", &own, "--runs", "1"]);
    assert!(own.code == 1 && own.err.contains("`las` cannot be shared"), "{}", own.err);
    let few = run(&["bench", "workers", "--policy", &policy, "--flows", "1"]);
    assert!(few.code == 1 && few.err.contains("lanes") && few.err.contains("--flows"), "{}", few.err);
    let alone = run(&["bench", "workers", "--packet", "594"]);
    assert!(alone.code == 2 && alone.err.contains("--policy"), "{}", alone.err);
    let mixed = run(&["bench", "workers", "--policy", &policy, "--errors"]);
    assert!(mixed.code == 2 && mixed.err.contains("--errors"), "{}", mixed.err);
}

#[test]
fn errors_of_workers_are_simulated_and_drawn() {
    let folder = tempfile::tempdir().expect("folder");
    let [document, drawing] = ["errors.json", "errors.svg"].map(|name| folder.path().join(name));
    let args = ["bench", "workers", "--errors", "--up-to", "2", "--svg", drawing.to_str().expect("UTF-8")];
    let said = run(&[&args[..], &["--json", document.to_str().expect("UTF-8")]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let document = json(&document);
    let rows = document["errors"].as_array().expect("rows");
    let ways: Vec<&str> = rows.iter().filter_map(|row| row["way"].as_str()).collect();
    assert_eq!(ways, ["shared", "one-lock", "equal-split"]);
    // In virtual time, so the same on every machine.
    assert!(rows[0]["share_error"].as_f64().is_some_and(|error| error < 0.001), "{}", rows[0]);
    for error in ["limit", "moving", "changes"] {
        for side in ["above", "below"] {
            let found = rows[0][format!("{error}_{side}")].as_f64();
            assert!(found.is_some_and(|found| found < 0.005), "{error}_{side}: {}", rows[0]);
        }
    }
    let svg = std::fs::read_to_string(drawing).expect("the drawing");
    assert!(svg.starts_with("<svg ") && svg.contains("equal-split: share"), "{svg}");
    let both = run(&["bench", "workers", "--errors", "--svg", "-", "--json", "-"]);
    assert!(both.code == 2 && both.err.contains("name a file"), "{}", both.err);
    let mixed = run(&["bench", "workers", "--svg", "x.svg"]);
    assert!(mixed.code == 2 && mixed.err.contains("--errors"), "{}", mixed.err);
}

#[test]
fn the_limit_of_each_cost_is_named() {
    let folder = tempfile::tempdir().expect("folder");
    let [document, drawing] = ["roofline.json", "roofline.svg"].map(|name| folder.path().join(name));
    let args = ["bench", "roofline", "flows", "depth", "--flows-max", "1000", "--runs", "1"];
    let files = ["--json", document.to_str().expect("UTF-8"), "--svg", drawing.to_str().expect("UTF-8")];
    let said = run(&[&args[..], &files].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("Cost of a packet") && said.out.contains("limited by"), "{}", said.out);
    let document = json(&document);
    let points = document["points"].as_array().expect("points");
    let values = |series: &str| {
        let of = points.iter().filter(|point| point["series"] == series);
        of.filter_map(|point| point["value"].as_u64()).collect::<Vec<_>>()
    };
    assert_eq!((values("flows"), values("depth")), (vec![10, 100, 1000], vec![1, 2, 3, 5, 7, 10]));
    assert!(points.iter().all(|point| point["limited_by"].as_str().is_some_and(|limit| !limit.is_empty())));
    assert!(std::fs::read_to_string(drawing).expect("the drawing").contains("<polyline"));
}
