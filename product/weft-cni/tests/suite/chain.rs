//! The plugin after another: marks and limits of a veth between a host and a container, both namespaces of the test.

use serde_json::{Value, json};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;
use weft_cni::plugin::{PluginOutcome, run};
use weft_host::link::{self, VethOptions};
use weft_host::tc::{Handle, TcDevice, TcPlace};
use weft_host::{NetNs, testing};

/// A host and a container, joined as `ptp` joins them.
struct Pair {
    host: NetNs,
    container: NetNs,
}

impl Pair {
    fn new() -> Self {
        let (host, container) =
            (NetNs::anonymous().expect("a host"), NetNs::anonymous().expect("a container"));
        link::create_veth((&host, "veth1"), (&container, "eth0"), &VethOptions::default()).expect("a veth");
        // Another container's, which must be left alone.
        link::create_veth((&host, "veth2"), (&host, "veth3"), &VethOptions::default()).expect("a veth");
        for (ns, link, last) in [(&host, "veth1", 1), (&container, "eth0", 2)] {
            link::add_address(ns, link, Ipv4Addr::new(10, 98, 7, last).into(), 24).expect("an address");
            link::set_up(ns, link).expect("up");
        }
        for (ns, link) in [(&host, "veth1"), (&container, "eth0")] {
            link::wait_running(ns, link, weft_host::testing::PATIENCE).expect("running");
        }
        Self { host, container }
    }

    fn sandbox(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.container.fd().as_raw_fd())
    }

    fn config(&self, more: Value) -> Value {
        let mut config = json!({
            "cniVersion": "1.0.0", "name": "pods", "type": "weft",
            "prevResult": {
                "cniVersion": "1.0.0",
                "interfaces": [ { "name": "veth2" }, { "name": "veth1" }, { "name": "eth0", "sandbox": self.sandbox() } ],
                "ips": [ { "address": "10.98.7.2/24", "gateway": "10.98.7.1", "interface": 2 } ],
                "future": { "kept": true }
            }
        });
        for (key, value) in more.as_object().expect("keys") {
            config[key] = value.clone();
        }
        config
    }

    /// Runs a call in the host's namespace, as a runtime does.
    fn call(&self, verb: &str, config: &Value) -> PluginOutcome {
        let get = |name: &str| match name {
            "CNI_COMMAND" => Some(verb.to_owned()),
            "CNI_CONTAINERID" => Some("c1".to_owned()),
            "CNI_NETNS" => Some(self.sandbox()),
            "CNI_IFNAME" => Some("eth0".to_owned()),
            _ => None,
        };
        let text = config.to_string();
        let call = || run(&get, text.as_bytes(), &mut |_| unreachable!("no daemon is asked"));
        self.host.run(call).expect("entered")
    }
}

fn done(outcome: PluginOutcome) -> Value {
    match outcome {
        PluginOutcome::Done(text) if text.is_empty() => Value::Null,
        PluginOutcome::Done(text) => serde_json::from_str(&text).expect("JSON"),
        PluginOutcome::Failed(text) => panic!("failed: {text}"),
    }
}

#[test]
fn the_previous_result_is_returned_as_it_is() {
    if !testing::privileged("the_previous_result_is_returned_as_it_is") {
        return;
    }
    let pair = Pair::new();
    let config = pair.config(json!({}));
    assert_eq!(done(pair.call("ADD", &config)), config["prevResult"]);
    assert_eq!(done(pair.call("CHECK", &config)), Value::Null);
    assert_eq!(done(pair.call("DEL", &config)), Value::Null);
}

#[test]
fn packets_of_the_container_are_marked() {
    if !testing::privileged("packets_of_the_container_are_marked") {
        return;
    }
    let pair = Pair::new();
    let config = pair.config(json!({ "mark": "0x10/0xff" }));
    assert!(matches!(pair.call("CHECK", &config), PluginOutcome::Failed(_)), "not yet");
    done(pair.call("ADD", &config));
    assert_eq!(done(pair.call("CHECK", &config)), Value::Null);
    assert!(
        !TcDevice::open(&pair.host, "veth2").and_then(|mut device| device.has_clsact()).expect("read"),
        "another's link"
    );
    // A rule that routes by the mark shows it: without the mark the host answers, with it the route is a black hole.
    assert!(echoed(&pair), "no rule tests the mark");
    // The table of local addresses is looked up first, unless it is moved.
    ip(&pair.host, &["rule", "add", "lookup", "local", "pref", "10"]);
    ip(&pair.host, &["rule", "del", "pref", "0"]);
    assert!(echoed(&pair), "the table is moved");
    ip(&pair.host, &["rule", "add", "fwmark", "0x10/0xff", "iif", "veth1", "blackhole", "pref", "5"]);
    assert!(!echoed(&pair), "the packet carries the mark");
}

/// Runs `ip` in the namespace.
fn ip(ns: &NetNs, args: &[&str]) {
    let output =
        ns.run(|| std::process::Command::new("ip").args(args).output()).expect("entered").expect("ip");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Whether a datagram of the container reaches the host.
fn echoed(pair: &Pair) -> bool {
    let host = pair.host.run(|| UdpSocket::bind("10.98.7.1:0")).expect("entered").expect("bound");
    host.set_read_timeout(Some(Duration::from_millis(300))).expect("set");
    let to = host.local_addr().expect("an address");
    let sender = pair.container.run(|| UdpSocket::bind("10.98.7.2:0")).expect("entered").expect("bound");
    sender.send_to(b"x", to).expect("sent");
    host.recv(&mut [0; 8]).is_ok()
}

#[test]
fn limits_are_buckets_of_some_milliseconds() {
    if !testing::privileged("limits_are_buckets_of_some_milliseconds") {
        return;
    }
    let pair = Pair::new();
    let limits =
        json!({ "egressRate": 10_000_000, "egressBurst": 2_147_483_647u64, "ingressRate": 20_000_000 });
    let config = pair.config(json!({ "runtimeConfig": { "bandwidth": limits } }));
    done(pair.call("ADD", &config));
    assert_eq!(done(pair.call("CHECK", &config)), Value::Null);
    // More than the bucket holds, at once: most of it waits or is dropped, and the kernel counts it.
    let sender = pair.container.run(|| UdpSocket::bind("10.98.7.2:0")).expect("entered").expect("bound");
    for _ in 0..200 {
        let _ = sender.send_to(&[0; 1400], "10.98.7.1:9");
    }
    let found = TcDevice::open(&pair.container, "eth0")
        .and_then(|mut device| device.qdisc(Handle::FIRST))
        .expect("counters");
    assert!(found.counters.sent.bytes.0 < 60_000, "12.5 kB at once, and 10 Mb/s after it: {found:?}");
    TcDevice::open(&pair.host, "veth1")
        .and_then(|mut device| device.delete_qdisc(TcPlace::root(Handle::FIRST)))
        .expect("it is there");
    assert!(matches!(pair.call("CHECK", &config), PluginOutcome::Failed(_)), "the limit is gone");
}

#[test]
fn a_chain_without_a_veth_is_refused() {
    if !testing::privileged("a_chain_without_a_veth_is_refused") {
        return;
    }
    let pair = Pair::new();
    let mut config = pair.config(json!({ "mark": 1 }));
    config["prevResult"]["interfaces"] =
        json!([ { "name": "veth2" }, { "name": "eth0", "sandbox": pair.sandbox() } ]);
    let PluginOutcome::Failed(text) = pair.call("ADD", &config) else { panic!("refused") };
    assert!(text.contains("\"code\":7") && text.contains("bridge"), "{text}");
    config["prevResult"] = Value::Null;
    let PluginOutcome::Failed(text) = pair.call("ADD", &config) else { panic!("refused") };
    assert!(text.contains("prevResult"), "{text}");
}
