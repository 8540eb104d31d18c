//! `weft daemon` with several uplinks: each has its policy, and what happens to one leaves the other alone.

use crate::common;
use crate::common::flows::Flows;
use crate::common::service::{PATIENCE, Service};
use crate::common::world::{BYTES, FAR, World, transfer};
use crate::common::{Running, Said, file, left_by, until};
use crate::schema;
use rustix::process::Signal;
use std::time::Duration;
use weft_host::link::{self, VethOptions};
use weft_host::testing::privileged;

/// A daemon with the uplinks `lan`, at 100 Mb/s, and `wan`, at 40 Mb/s, with a port each.
struct Two {
    service: Service,
    wan: World,
}

impl Two {
    fn new() -> Self {
        let service = Service::bare("");
        let wan = World::new();
        file(&service.world.folder, "lan.weft", policy("100mbps"));
        file(&service.world.folder, "wan.weft", policy("40mbps"));
        let two = Self { service, wan };
        std::fs::write(&two.service.config, two.text()).expect("write");
        two
    }

    /// The configuration.
    fn text(&self) -> String {
        let table = |name: &str, world: &World| {
            format!(
                "[uplink.{name}]\ndevice = \"up0\"\nnetns = \"{}\"\npolicy = \"{name}.weft\"\n\
                 [[uplink.{name}.ports]]\nname = \"{name}0\"\nnetns = \"{}\"\naddresses = [\"10.97.0.1/24\"]\n",
                world.host.name(),
                world.app.name()
            )
        };
        let (lan, wan) = (table("lan", &self.service.world), table("wan", &self.wan));
        let metrics = self.service.world.folder.path().join("metrics");
        format!(
            "group = \"nogroup\"\nsocket = \"{}\"\nmetrics = \"unix:{}\"\n{lan}{wan}",
            self.service.socket.display(),
            metrics.display()
        )
    }

    fn worlds(&self) -> [(&'static str, &World); 2] {
        [("lan0", &self.service.world), ("wan0", &self.wan)]
    }

    fn is_up(&self, port: &str) -> bool {
        let world = if port == "lan0" { &self.service.world } else { &self.wan };
        link::show(&world.app, port).is_ok_and(|link| link.running)
    }

    /// Starts the daemon, and waits for both ports.
    fn start(&self) -> Running {
        let daemon = self.service.start();
        assert!(until(PATIENCE, || self.is_up("lan0") && self.is_up("wan0")), "the ports do not come up");
        daemon
    }

    /// The time of a transfer through each uplink, both at once.
    fn transfers(&self) -> [Duration; 2] {
        std::thread::scope(|scope| {
            let wan = scope.spawn(|| transfer(&self.wan.app, &self.wan.far, FAR));
            let lan = transfer(&self.service.world.app, &self.service.world.far, FAR);
            [lan, wan.join().expect("transfer")]
        })
    }

    /// Repeats the transfers until the one through `lan` was faster than `mbps` allow, the rate of `wan`: with that rate, none would be.
    /// A busy machine makes each slower. Each through `wan` takes its time.
    fn only_wan_has(&self, mbps: f64) {
        let mut seen = Vec::new();
        let faster = until(PATIENCE, || {
            let [lan, wan] = self.transfers();
            assert!(lan >= least(100.0) && wan >= least(mbps), "100 and {mbps} Mb/s: {lan:?} {wan:?}");
            seen.push(lan);
            lan < least(mbps)
        });
        assert!(faster, "{:?} at {mbps} Mb/s; lan takes {seen:?}", least(mbps));
    }

    fn stop(&self, daemon: Running) -> Said {
        let said = self.service.stop(daemon);
        self.wan.assert_clean();
        let folder = std::fs::read_dir(self.service.world.folder.path()).expect("folder");
        let left: Vec<_> = folder.flatten().map(|entry| entry.file_name()).collect();
        assert!(!left.iter().any(|name| name.to_string_lossy().contains("keeper")), "{left:?}");
        said
    }

    /// The counters of the uplink `name`.
    fn status(&self, name: &str) -> serde_json::Value {
        let text = self.service.done(&["status", "--uplink", name, "--json", "-"]);
        serde_json::from_str(&text).expect("JSON")
    }
}

fn policy(rate: &str) -> String {
    format!("link {rate}\nclass web = tcp port 5201\nroot = wfq {{ fair of web: 1, default: 1 }}\n")
}

/// The least time of a transfer at `mbps`.
fn least(mbps: f64) -> Duration {
    Duration::from_secs_f64(BYTES as f64 * 8.0 / (mbps * 1e6))
}

#[test]
fn each_uplink_has_its_policy_at_the_same_time() {
    if !privileged("each_uplink_has_its_policy_at_the_same_time") {
        return;
    }
    let two = Two::new();
    let daemon = two.start();
    let pid = daemon.0.id();
    two.only_wan_has(40.0);
    let status = two.service.status();
    let path = format!("{}/../../docs/schemas/weft-status.schema.json", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(schema::errors(&common::json(path), &status), Vec::<String>::new());
    let names: Vec<_> = (0..2).map(|at| status["uplinks"][at]["uplink"]["name"].clone()).collect();
    assert_eq!(names, ["lan", "wan"]);
    assert_eq!(status["uplinks"][1]["uplink"]["rate_bps"], 40e6);
    assert_eq!(two.status("wan")["ports"][0]["port"], "wan0");
    // A live change of one leaves the other alone.
    let slow = file(&two.service.world.folder, "slow.weft", policy("20mbps"));
    let several = two.service.refused(&["policy", "load", &slow]);
    assert!(several.contains("there are several uplinks: lan, wan; name one with --uplink"), "{several}");
    let unknown = two.service.refused(&["policy", "diff", &slow, "--uplink", "dmz"]);
    assert!(unknown.contains("there is no uplink dmz; there are: lan, wan"), "{unknown}");
    assert!(two.service.done(&["policy", "diff", &slow, "--uplink", "wan"]).contains("20 Mb/s"));
    let loaded = two.service.done(&["policy", "load", &slow, "--uplink", "wan"]);
    assert!(loaded.contains("uplink wan: generation 2 is in force"), "{loaded}");
    two.only_wan_has(20.0);
    assert_eq!((&two.status("lan")["generation"], &two.status("wan")["generation"]), (&1.into(), &2.into()));
    let config = two.service.done(&["config", "--uplink", "wan"]);
    assert!(config.contains("slow.weft, uplink wan") && config.ends_with(&policy("20mbps")), "{config}");
    two.service.done(&["policy", "restore", "--uplink", "wan"]);
    let lines = two.service.done(&["top", "--plain", "--count", "1"]);
    assert!(lines.contains("lan: policy ") && lines.contains("wan: policy "), "{lines}");
    let table = two.service.done(&["status"]);
    assert!(table.contains("Classes of uplink lan") && table.contains("Ports of uplink wan"), "{table}");
    two.stop(daemon);
    assert!(left_by(pid).is_empty());
}

#[test]
fn ports_of_two_uplinks_have_one_list_and_one_set_of_metrics() {
    if !privileged("ports_of_two_uplinks_have_one_list_and_one_set_of_metrics") {
        return;
    }
    let two = Two::new();
    let daemon = two.start();
    let app = two.wan.app.name();
    let taken = two.service.refused(&["port", "add", "lan0", "--netns", app, "--uplink", "wan"]);
    assert!(taken.contains("a port lan0 exists already"), "{taken}");
    two.service.done(&["port", "add", "more", "--netns", app, "--uplink", "wan"]);
    let list = two.service.done(&["port", "list"]);
    for port in ["lan0 (uplink lan)", "wan0 (uplink wan)", "more (uplink wan)"] {
        assert!(list.contains(port), "{list}");
    }
    assert!(!two.service.done(&["port", "list", "--uplink", "lan"]).contains("wan0"));
    let metrics = two.service.world.folder.path().join("metrics");
    let scraped = || scrape(&metrics);
    assert!(
        until(PATIENCE, || scraped().contains("weft_port_sent_packets_total{uplink=\"wan\",port=\"more\"}"))
    );
    let text = scraped();
    for line in ["weft_class_sent_bytes_total{uplink=\"lan\",class=\"web\"}", "weft_uplink_up{uplink=\"wan\""]
    {
        assert!(text.contains(line), "{line}: {text}");
    }
    two.service.done(&["port", "remove", "more"]);
    two.stop(daemon);
}

/// The metrics at a socket.
fn scrape(path: &std::path::Path) -> String {
    use std::io::{Read, Write};
    let mut stream = std::os::unix::net::UnixStream::connect(path).expect("connect");
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn connections_of_both_uplinks_survive_a_killed_daemon() {
    if !privileged("connections_of_both_uplinks_survive_a_killed_daemon") {
        return;
    }
    let two = Two::new();
    let mut daemon = two.start();
    let indexes = || two.worlds().map(|(port, world)| link::show(&world.app, port).expect("the port").index);
    let before = indexes();
    let flows = two.worlds().map(|(_, world)| Flows::start(world, 20));
    flows.iter().for_each(Flows::assert_all_go_on);
    let slow = file(&two.service.world.folder, "slow.weft", policy("30mbps"));
    two.service.done(&["policy", "load", &slow, "--uplink", "wan"]);
    for signal in [Signal::KILL, Signal::USR2] {
        daemon.signal(signal);
        let _ = daemon.0.wait();
        daemon = two.service.start();
        flows.iter().for_each(Flows::assert_all_go_on);
        assert_eq!(indexes(), before, "a port is another device");
    }
    // Taken over with the loaded policy, and then changed to the configured one.
    assert_eq!((&two.status("lan")["generation"], &two.status("wan")["generation"]), (&1.into(), &3.into()));
    drop(flows);
    two.stop(daemon);
}

#[test]
fn one_uplink_s_failure_does_not_end_the_other() {
    if !privileged("one_uplink_s_failure_does_not_end_the_other") {
        return;
    }
    let two = Two::new();
    link::delete(&two.wan.host, "up0").expect("delete");
    let daemon = two.service.start();
    assert!(until(PATIENCE, || two.is_up("lan0")));
    assert_eq!(two.status("wan")["worker"], "ended");
    let slow = file(&two.service.world.folder, "slow.weft", policy("30mbps"));
    let refused = two.service.refused(&["policy", "load", &slow, "--uplink", "wan"]);
    assert!(refused.contains("there is no interface up0"), "{refused}");
    let flows = Flows::start(&two.service.world, 5);
    // The interface comes, and the uplink with it.
    let (wan, far) = (&two.wan.host, &two.wan.far);
    link::create_veth((wan, "up0"), (far, "far0"), &VethOptions::default()).expect("veth");
    link::set_up(wan, "up0").expect("up");
    link::set_up(far, "far0").expect("up");
    link::add_address(far, "far0", FAR, 24).expect("address");
    assert!(until(PATIENCE, || two.is_up("wan0")), "the uplink does not come back");
    transfer(&two.wan.app, &two.wan.far, FAR);
    // Its port's devices are deleted without a call to the daemon, which reports it; the port is made anew.
    link::delete(&two.wan.app, "wan0").expect("delete");
    let listed = || two.service.done(&["port", "list"]);
    assert!(until(PATIENCE, || listed().contains("veth (deleted)")), "{}", listed());
    two.service.done(&["port", "remove", "wan0"]);
    let app = two.wan.app.name();
    two.service.done(&[
        "port",
        "add",
        "wan0",
        "--netns",
        app,
        "--address",
        "10.97.0.1/24",
        "--uplink",
        "wan",
    ]);
    assert!(until(PATIENCE, || two.is_up("wan0")), "the port does not come back");
    transfer(&two.wan.app, &two.wan.far, FAR);
    flows.assert_all_go_on();
    drop(flows);
    let said = two.stop(daemon);
    for line in [
        "error: uplink wan: there is no interface up0",
        "uplink wan: runs again",
        "warning: uplink wan: the devices of port wan0 were deleted; remove the port",
    ] {
        assert!(said.err.contains(line), "{line}: {}", said.err);
    }
}

#[test]
fn ports_of_an_uplink_that_is_configured_no_more_are_removed() {
    if !privileged("ports_of_an_uplink_that_is_configured_no_more_are_removed") {
        return;
    }
    let two = Two::new();
    let daemon = two.start();
    daemon.signal(Signal::KILL);
    daemon.wait(PATIENCE);
    let text = two.text();
    let (lan, _) = text.split_once("[uplink.wan]").expect("two tables");
    std::fs::write(&two.service.config, lan).expect("write");
    let daemon = two.service.start();
    assert!(until(PATIENCE, || two.is_up("lan0")));
    two.wan.assert_clean();
    transfer(&two.service.world.app, &two.service.world.far, FAR);
    two.stop(daemon);
}

#[test]
fn a_nic_that_cannot_be_steered_is_refused_in_a_line() {
    if !privileged("a_nic_that_cannot_be_steered_is_refused_in_a_line") {
        return;
    }
    let service = Service::new();
    let text = std::fs::read_to_string(&service.config).expect("read");
    let steer = format!("{text}[steer]\npolicy = \"balance\"\nwatch = true\n");
    std::fs::write(&service.config, &steer).expect("write");
    let said: Said = service.command().output().expect("run").into();
    assert!(
        said.code == 1 && said.err.contains("error: steer: ") && said.err.contains("veth"),
        "{}",
        said.err
    );
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    service.world.assert_clean();
    let absent = steer.replace("[steer]", "[steer]\ndevice = \"absent0\"");
    std::fs::write(&service.config, absent).expect("write");
    let said: Said = service.command().output().expect("run").into();
    assert!(said.code == 1 && said.err.contains("absent0"), "{}", said.err);
    std::fs::write(&service.config, text).expect("write");
    let daemon = service.start_with_log();
    std::fs::write(&service.config, &steer).expect("write");
    daemon.signal(Signal::HUP);
    service.wait_for_line("`steer` changes with the next start of the daemon");
    service.stop(daemon);
}
