//! Documents of the commands against `docs/schemas`: each command with `--json` is run, and its document is checked.

use crate::common;
use crate::common::world::wait_until_up;
use crate::common::{Running, Said, file, run, until, weft};
use crate::schema;
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;
use weft_host::testing::{has_program, privileged, unique};
use weft_host::{NetNs, link};

const POLICY: &str = "link 10mbps\nclass web = udp port 80\nroot = priority { web, default }\n";

/// Returns the schema that a document names.
fn schema_of(document: &Value) -> Value {
    let title = document["schema"].as_str().expect("a document names its schema");
    let name = title.split('/').next().expect("a name");
    let path = format!("{}/../../docs/schemas/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(schema["title"], title);
    schema
}

/// Asserts that a document has this name and fits its schema.
#[track_caller]
fn check(document: &Value, name: &str) {
    assert!(document["schema"].as_str().is_some_and(|s| s.starts_with(&format!("{name}/"))), "{document}");
    assert_eq!(schema::errors(&schema_of(document), document), Vec::<String>::new(), "{name}");
    assert!(PROMISED.contains(&name), "{name} is not in the list of this test");
}

/// Returns the document that a command writes to standard output.
#[track_caller]
fn written(args: &[&str], codes: &[i32]) -> Value {
    parsed(&run(&[args, &["--json", "-"]].concat()), codes, args)
}

#[track_caller]
fn parsed(said: &Said, codes: &[i32], args: &[&str]) -> Value {
    assert!(codes.contains(&said.code), "{args:?}: code {}: {}", said.code, said.err);
    serde_json::from_str(&said.out)
        .unwrap_or_else(|error| panic!("{args:?}: {error}: {}; {}", said.out, said.err))
}

/// The documents that this file checks, each in one test.
const PROMISED: [&str; 26] = [
    "weft-bench",
    "weft-bench-cost",
    "weft-bench-roofline",
    "weft-bench-workers",
    "weft-campaign",
    "weft-campaign-status",
    "weft-demo",
    "weft-doctor",
    "weft-policy-check",
    "weft-policy-cost",
    "weft-policy-diff",
    "weft-policy-explain",
    "weft-policy-test",
    "weft-predict",
    "weft-profile",
    "weft-profile-attached",
    "weft-replay",
    "weft-reproduce",
    "weft-run",
    "weft-sim",
    "weft-steer-import",
    "weft-steer-models",
    "weft-steer-plan",
    "weft-steer-verify",
    "weft-titan-status",
    "weft-tune",
];

/// Documents of commands that need more than a machine or this test has; their own tests check them. A probe needs a
/// NIC that takes rules: see `product/weft-run/src/steering/device/tests.rs`. Scores out of sample take minutes: see
/// `lab/weft-experiments/tests/suite/cross.rs`, and `product/weft-report/tests/suite/schemas.rs` for the document. Documents of a daemon, and of a policy in the kernel: see
/// `product/weft/tests/suite/daemon.rs`, `product/weft/tests/suite/apply.rs` and `product/weft/tests/suite/tenants.rs`; answers of the playground: `lab/weft-playground/tests/playground`.
const ELSEWHERE: [&str; 7] = [
    "weft-apply",
    "weft-config",
    "weft-cross",
    "weft-playground",
    "weft-status",
    "weft-steer-probe",
    "weft-tenants",
];

#[test]
fn every_schema_has_a_document_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    let names = std::fs::read_dir(folder).expect("the schemas").flatten();
    let there: BTreeSet<String> = names
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".schema.json")?.to_owned()))
        .collect();
    let checked: BTreeSet<String> =
        PROMISED.iter().chain(&ELSEWHERE).map(|name| (*name).to_owned()).collect();
    assert_eq!(there, checked);
}

#[test]
fn surveys_and_policies() {
    let folder = tempfile::tempdir().expect("folder");
    check(&written(&["doctor"], &[0, 1]), "weft-doctor");
    let good = file(&folder, "good.weft", POLICY);
    let bad = file(&folder, "bad.weft", "link 10mbps\nroot = nothing\n");
    check(&written(&["policy", "check", &good], &[0]), "weft-policy-check");
    let found = written(&["policy", "check", &bad], &[1]);
    check(&found, "weft-policy-check");
    check(&written(&["policy", "cost", &good], &[0]), "weft-policy-cost");
    let packet = ["policy", "explain", &good, "--packet", "udp 192.0.2.1:9 > 192.0.2.2:80"];
    check(&written(&packet, &[0]), "weft-policy-explain");
    let other = file(&folder, "other.weft", POLICY.replace("10mbps", "20mbps"));
    check(&written(&["policy", "diff", &good, &other], &[0]), "weft-policy-diff");
    let text = "policy \"good.weft\"\npacket a 100\nchange \"other.weft\" after a\npacket b 1\nexpect a b\n";
    let tests = file(&folder, "good.wefttest", text);
    check(&written(&["policy", "test", &tests], &[0]), "weft-policy-test");
}

/// Returns a capture of one UDP packet of 1000 bytes.
fn capture() -> Vec<u8> {
    let words = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1, 1_000_000, 0, 1000, 1000];
    let mut pcap: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0, 0x03, 0xda, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
    frame.extend([0x10, 0, 0, 80, 0x03, 0xc6, 0, 0]);
    frame.resize(1000, 0);
    pcap.extend(frame);
    pcap
}

#[test]
fn profiles() {
    if !privileged("profiles") || !has_program("profiles", "iperf3") {
        return;
    }
    let args = [
        "profile",
        "single",
        "--levels",
        "tso-gro",
        "--repeats",
        "1",
        "--span",
        "300ms",
        "--warm-up",
        "100ms",
    ];
    check(&written(&[&args[..], &["--loaded", "--try"]].concat(), &[0]), "weft-profile");
    check(&written(&["profile", "--attach", "--span", "200ms"], &[0]), "weft-profile-attached");
}

/// A machine without a fit: its predictions are wrong or show nothing, and are a document all the same.
const MACHINE: &str = "[copy_in_byte]\ndata_copy = 0.1\n[[source]]\nkeys = [\"copy_in_byte\"]\nassumed = \"a test's machine\"\n";

#[test]
fn predictions() {
    let folder = tempfile::tempdir().expect("folder");
    let machine = file(&folder, "machine.toml", MACHINE);
    let simulated = written(&["profile", "predict", &machine, "--only", "2x"], &[0]);
    check(&simulated, "weft-predict");
    assert_eq!(simulated["cells"][0]["measured"], Value::Null);
    if !privileged("predictions") || !has_program("predictions", "iperf3") {
        return;
    }
    let short = ["--measured", "--repeats", "1", "--span", "300ms", "--warm-up", "100ms", "--loaded"];
    // C1 runs where the kernel has a token bucket; T1 never does.
    let args = [&["profile", "predict", &machine, "--only", "1, 3 flows"], &short[..]].concat();
    let measured = written(&args, &[1, 3]);
    check(&measured, "weft-predict");
    let [c1, t1] = [0, 1].map(|cell| measured["cells"][cell].clone());
    assert!(c1["measured"].is_null() != c1["not_measured"].is_null(), "{c1}");
    assert!(t1["measured"].is_null() && t1["not_measured"].is_string(), "{t1}");
}

/// Facts that decide are unknown, or given: both are documents.
#[test]
fn advice_on_settings() {
    if !privileged("advice_on_settings") {
        return;
    }
    let [near, far] = ["near", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
    link::create_veth((&near, "v0"), (&far, "v1"), &link::VethOptions::default()).expect("veth");
    let args = ["tune", "--for", "fairness", "--netns", near.name(), "--device", "v0"];
    let unknown = written(&args, &[3]);
    check(&unknown, "weft-tune");
    assert!(unknown["unknown"].as_array().is_some_and(|unknown| !unknown.is_empty()), "{unknown}");
    let given = ["--rate", "100mbps", "--flows", "3", "--seeds", "2", "--set", "duration=20ms"];
    let also =
        ["fairness_intervals=[\"20ms\"]", "host.stack.congestion_control=cubic", "host.stack.qdisc=fq_codel"];
    let also: Vec<&str> = also.iter().flat_map(|set| ["--set", set]).collect();
    check(&written(&[&args[..], &given, &also].concat(), &[0, 1, 3]), "weft-tune");
}

#[test]
fn replays_and_simulations() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let input = file(&folder, "in.pcap", capture());
    let out = folder.path().join("out.pcap");
    let replay = ["replay", &policy, &input, out.to_str().expect("UTF-8")];
    check(&written(&replay, &[0]), "weft-replay");
    let scenario = "duration = \"20ms\"\nwarm_up = \"5ms\"\n[[flows]]\ncount = 3\n[[probes]]\n";
    let scenario = file(&folder, "small.toml", scenario);
    check(&written(&["sim", &scenario], &[0]), "weft-sim");
    let grid = file(&folder, "grid.toml", "scenario = \"small.toml\"\nseeds = 2\n");
    let store = folder.path().join("store");
    let store = store.to_str().expect("UTF-8");
    assert_eq!(run(&["campaign", "run", &grid, "--out", store]).code, 0);
    check(&written(&["campaign", "status", &grid, "--out", store], &[0]), "weft-campaign-status");
    let export = ["campaign", "export", store, "--format", "json"];
    check(&parsed(&run(&export), &[0], &export), "weft-campaign");
    // The two kinds of experiments: cells of a simulation, and native ones.
    for id in ["loom-doorbells", "dragonet-search-cost"] {
        check(&written(&["reproduce", id, "--flows", "10", "--seeds", "1"], &[0]), "weft-reproduce");
    }
}

#[test]
fn steering() {
    let folder = tempfile::tempdir().expect("folder");
    let text =
        "proto,src,sport,dst,dport,class\nudp,192.0.2.1,7,198.51.100.1,9,a\ntcp,*,*,198.51.100.1,80,b\n";
    let flows = file(&folder, "flows.csv", text);
    check(&written(&["steer", "models"], &[0]), "weft-steer-models");
    for nic in ["intel-82599", "sfc9020", "e810", "mlx5", "virtio-net", "igb", "ethtool-generic"] {
        let args = ["steer", "plan", "--nic", nic, "--flows", &flows, "--queues", "2"];
        let plan = written(&[&args[..], &["--policy", "isolate a on 1 queue"]].concat(), &[0, 1]);
        check(&plan, "weft-steer-plan");
    }
    if !privileged("steering") {
        return;
    }
    let args = ["steer", "verify", "--nic", "igb", "--flows", &flows, "--policy", "balance"];
    check(&written(&args, &[0]), "weft-steer-verify");
    let [near, far] = ["near", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
    link::create_veth((&near, "v0"), (&far, "v1"), &link::VethOptions::default()).expect("veth");
    check(&written(&["steer", "import", "v0", "--netns", near.name()], &[0]), "weft-steer-import");
}

/// A veth takes no rules, so a probe of it fails at the start.
#[test]
fn a_probe_of_a_nic_without_rules_writes_nothing() {
    if !privileged("a_probe_of_a_nic_without_rules_writes_nothing") {
        return;
    }
    let [near, far] = ["near", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
    link::create_veth((&near, "v0"), (&far, "v1"), &link::VethOptions::default()).expect("veth");
    let said = run(&["steer", "probe", "v0", "--netns", near.name(), "--json", "-"]);
    assert_eq!((said.code, said.out.as_str()), (1, ""), "{}", said.err);
}

#[test]
fn a_port_and_its_queues() {
    if !privileged("a_port_and_its_queues") {
        return;
    }
    let [app, host, far] =
        ["app", "host", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
    link::create_veth((&host, "up0"), (&far, "far0"), &link::VethOptions::default()).expect("veth");
    link::set_up(&host, "up0").expect("up");
    link::set_up(&far, "far0").expect("up");
    let address = IpAddr::V4(Ipv4Addr::new(10, 96, 0, 2));
    link::add_address(&far, "far0", address, 24).expect("address");
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    for ways in [&[policy.as_str()][..], &["--queues", "2", "--rate", "10mbps"]] {
        let document = folder.path().join("run.json");
        let running = weft()
            .args(["run", "--uplink", "up0", "--uplink-netns", host.name(), "--netns", app.name()])
            .args(["--address", "10.96.0.1/24", "--plain", "--json", document.to_str().expect("UTF-8")])
            .args(ways)
            .spawn();
        let running = Running(running.expect("start weft"));
        wait_until_up(&app, "weft0");
        let socket = app.run(|| UdpSocket::bind("0.0.0.0:0")).expect("enter").expect("bind");
        // Until a datagram has a route: the address is set after the link is up.
        assert!(until(Duration::from_secs(60), || socket.send_to(&[0; 100], (address, 80)).is_ok()));
        if ways.contains(&"--queues") {
            let titan = |args: &[&str]| run(&[&["titan"], args, &["--netns", app.name()]].concat());
            let on = titan(&["attach", "weft0"]);
            assert_eq!(on.code, 0, "{}", on.err);
            let status = ["status", "weft0", "--window", "50ms", "--json", "-"];
            check(&parsed(&titan(&status), &[0], &status), "weft-titan-status");
            assert_eq!(titan(&["detach", "weft0"]).code, 0);
        }
        running.signal(Signal::TERM);
        let said = running.wait(Duration::from_secs(60));
        assert_eq!(said.code, 143, "{}", said.err);
        check(&common::json(&document), "weft-run");
    }
}

/// Short rounds: the document is complete, whatever its figures.
#[test]
fn a_measurement_of_cost() {
    let name = "a_measurement_of_cost";
    if !privileged(name) || !has_program(name, "iperf3") {
        return;
    }
    let short = ["bench", "cost", "--runs", "1", "--span", "200ms", "--warm-up", "100ms"];
    let cases = ["cost-8-flows-1g", "latency-wfq-1g", "receive-inbound", "port-4-flows"];
    let report = written(&[&short[..], &cases].concat(), &[0]);
    check(&report, "weft-bench-cost");
    for (case, wanted) in report["cases"].as_array().expect("cases").iter().zip(cases) {
        assert_eq!(case["case"], wanted);
        let carried = case["samples"].as_array().expect("samples").iter();
        assert!(carried.clone().all(|s| s["carried_bits"].as_f64().is_some_and(|bits| bits > 0.0)), "{case}");
        let parts = case["parts"].as_object().expect("parts").values();
        let sum: f64 = parts.filter_map(Value::as_f64).sum();
        let whole = case["ours_cores_per_gbps"].as_f64().expect("cores");
        assert!((sum - whole).abs() < 1e-6, "{sum} of {whole}");
    }
    let cases = &report["cases"];
    // HTB, the port, the policy in the kernel, and the floor.
    assert_eq!(cases[0]["samples"].as_array().map(Vec::len), Some(4));
    assert!(cases[0]["parts"]["ebpf"].as_f64().is_some_and(|ebpf| ebpf > 0.0), "{}", cases[0]["parts"]);
    assert!(
        cases[1]["p50_s"].as_f64().zip(cases[1]["p99_s"].as_f64()).is_some_and(|(a, b)| 0.0 < a && a <= b)
    );
}

#[test]
fn a_demo_and_a_benchmark() {
    let bench = ["bench", "sim-hold", "--runs", "1"];
    check(&written(&bench, &[0]), "weft-bench");
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let of_policy = ["bench", "engine", "--policy", &policy, "--flows", "100", "--runs", "1"];
    let document = written(&of_policy, &[0]);
    check(&document, "weft-bench");
    let lengths = [0, 1, 2].map(|case| document["cases"][case]["packet_bytes"].as_f64());
    assert_eq!(lengths, [Some(64.0), Some(594.0), Some(1518.0)]);
    let roofline = ["bench", "roofline", "flows", "--flows-max", "10", "--runs", "1"];
    check(&written(&roofline, &[0]), "weft-bench-roofline");
    let workers = ["bench", "workers", "--runs", "1", "--flows", "100"];
    check(&written(&workers, &[0]), "weft-bench-workers");
    let of_policy = ["bench", "workers", "--policy", &policy, "--flows", "100", "--runs", "1"];
    check(&written(&of_policy, &[0]), "weft-bench-workers");
    if !privileged("a_demo_and_a_benchmark") {
        return;
    }
    // Whatever the verdicts, the document is complete.
    let demo = ["demo", "--plain", "--no-html", "--modes", "loom", "--rate", "50mbps", "--flows", "1,1,1,1"];
    check(&written(&[&demo[..], &["--duration", "2"]].concat(), &[0, 1, 3]), "weft-demo");
}
