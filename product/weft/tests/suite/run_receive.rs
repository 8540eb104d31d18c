//! The receive direction of `weft run`, carried by the kernel and by the thread: the same network for the applications,
//! and what the program says about it.

use crate::common::world::{BYTES, FAR, NEAR, POLICY, World, transfer};
use crate::common::{Running, Said, assert_conserved, file, json, run, until, weft};
use rustix::process::Signal;
use serde_json::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;
use weft_host::bpf::{program_info, programs_named};
use weft_host::link::{self, Route};
use weft_host::testing::{has_program, privileged, skip};
use weft_host::{NetNs, sysctl};

const SOON: Duration = weft_host::testing::PATIENCE;
const WAYS: [&str; 2] = ["kernel", "thread"];

/// A run in one of the ways.
struct Run<'a> {
    world: &'a World,
    running: Running,
    way: &'static str,
}

impl<'a> Run<'a> {
    fn start(world: &'a World, way: &'static str) -> Self {
        Self::start_with(world, way, &[])
    }

    fn start_with(world: &'a World, way: &'static str, more: &[&str]) -> Self {
        let counters = counters(world);
        let args = ["--receive", way, "--rate", "900mbps", "--json", counters.to_str().expect("UTF-8")];
        let running = world.start(&[&args, more].concat());
        Self { world, running, way }
    }

    /// Ends the run; its accounting must be exact, and the way the one that was asked for.
    fn end(self) -> (Said, Value) {
        self.running.signal(Signal::TERM);
        let said = self.running.wait(Duration::from_secs(30));
        assert_eq!(said.code, 143, "{said:?}");
        let document = json(counters(self.world));
        assert_conserved(&document["conservation"]);
        for stage in document["conservation"]["stages"].as_array().expect("stages") {
            assert_conserved(stage);
        }
        let receive = &document["receive"];
        assert_eq!(receive["by"], self.way, "{document}");
        let redirected = receive["redirected_packets"].as_u64().expect("a count");
        assert_eq!(redirected > 0, self.way == "kernel", "{document}");
        (said, document)
    }
}

fn counters(world: &World) -> PathBuf {
    world.folder.path().join("counters.json")
}

fn bind(ns: &NetNs, at: impl Into<SocketAddr>) -> UdpSocket {
    let at = at.into();
    let socket = ns.run(|| UdpSocket::bind(at)).expect("enter").expect("bind");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("timeout");
    socket
}

/// Sends the numbers from 0 to 29 and returns those that arrive.
fn numbers(from: &UdpSocket, to: SocketAddr, at: &UdpSocket) -> Vec<u8> {
    for number in 0..30 {
        from.send_to(&[number; 100], to).expect("send");
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut buffer = [0; 2000];
    std::iter::from_fn(|| at.recv(&mut buffer).ok().map(|_| buffer[0])).collect()
}

#[test]
fn tcp_crosses_in_both_directions_and_the_report_says_how() {
    if !privileged("tcp_crosses_in_both_directions_and_the_report_says_how") {
        return;
    }
    for (way, told) in WAYS.into_iter().zip(["in the kernel (redirect)", "by a thread: as requested"]) {
        let world = World::new();
        let run = Run::start(&world, way);
        transfer(&world.app, &world.far, FAR);
        transfer(&world.far, &world.app, NEAR);
        let (said, document) = run.end();
        assert!(said.err.contains(&format!("receive: {told}\n")), "{said:?}");
        let receive = &document["receive"];
        assert_eq!(receive["reason"].as_str(), (way == "thread").then_some("as requested"));
        let carried = if way == "kernel" { "redirected_bytes" } else { "thread_bytes" };
        assert!(receive[carried].as_u64().is_some_and(|n| n > BYTES as u64), "{document}");
        world.assert_clean();
    }
}

#[test]
fn broadcast_and_multicast_arrive_once() {
    if !privileged("broadcast_and_multicast_arrive_once") {
        return;
    }
    let group = Ipv4Addr::new(239, 9, 9, 9);
    let all = IpAddr::V4(Ipv4Addr::new(10, 97, 0, 255));
    for way in WAYS {
        let world = World::new();
        let run = Run::start(&world, way);
        let near = bind(&world.app, (Ipv4Addr::UNSPECIFIED, 7000));
        let own = Ipv4Addr::new(10, 97, 0, 1);
        world.app.run(|| near.join_multicast_v4(&group, &own)).expect("enter").expect("join");
        let route = Route { destination: group.into(), prefix_len: 32, link: Some("far0"), gateway: None };
        link::add_route(&world.far, &route).expect("route");
        let far = bind(&world.far, (FAR, 7000));
        far.set_broadcast(true).expect("broadcast");
        for to in [all, group.into(), NEAR] {
            let expected: Vec<u8> = (0..30).collect();
            assert_eq!(numbers(&far, (to, 7000).into(), &near), expected, "{way}: {to}");
        }
        run.end();
    }
}

#[test]
fn ipv6_finds_its_neighbours_and_groups() {
    if !privileged("ipv6_finds_its_neighbours_and_groups") {
        return;
    }
    let [near_address, far_address]: [Ipv6Addr; 2] =
        ["fd00::1", "fd00::2"].map(|a| a.parse().expect("address"));
    let group: Ipv6Addr = "ff02::4:2".parse().expect("group");
    for way in WAYS {
        let world = World::new();
        if sysctl::get(&world.app, "net/ipv6/conf/all/disable_ipv6").is_err() {
            return skip("ipv6_finds_its_neighbours_and_groups", "this kernel has no IPv6");
        }
        link::add_address(&world.far, "far0", far_address.into(), 64).expect("address");
        let run = Run::start_with(&world, way, &["--address", "fd00::1/64"]);
        // Neighbours are solicited by multicast, in both directions.
        let (near, far) = (bind(&world.app, (near_address, 7000)), bind(&world.far, (far_address, 7000)));
        let found = |from: &UdpSocket, to: Ipv6Addr, at: &UdpSocket| {
            let _ = from.send_to(&[1; 50], (to, 7000));
            at.recv(&mut [0; 100]).is_ok()
        };
        assert!(until(SOON, || found(&far, near_address, &near)), "{way}: to the port");
        assert!(until(SOON, || found(&near, far_address, &far)), "{way}: from the port");
        let index = link::index(&world.app, "weft0").expect("port");
        let listener = bind(&world.app, (Ipv6Addr::UNSPECIFIED, 7001));
        world.app.run(|| listener.join_multicast_v6(&group, index)).expect("enter").expect("join");
        let scope = link::index(&world.far, "far0").expect("far0");
        let to = SocketAddrV6::new(group, 7001, 0, scope);
        assert_eq!(numbers(&far, to.into(), &listener), (0..30).collect::<Vec<u8>>(), "{way}");
        run.end();
    }
}

/// Runs `ip` in a namespace; returns whether it succeeded.
fn ip(ns: &NetNs, arguments: &str) -> bool {
    let mut command = std::process::Command::new("ip");
    let output = command.args(["-n", ns.name()]).args(arguments.split(' ')).output().expect("ip");
    output.status.success()
}

#[test]
fn vlan_devices_reach_each_other() {
    const TEST: &str = "vlan_devices_reach_each_other";
    if !privileged(TEST) || !has_program(TEST, "ip") {
        return;
    }
    for way in WAYS {
        let world = World::new();
        let run = Run::start(&world, way);
        for (ns, parent, address) in [(&world.app, "weft0", "10.98.0.1"), (&world.far, "far0", "10.98.0.2")] {
            if !ip(ns, &format!("link add link {parent} name tagged type vlan id 7")) {
                return skip(
                    TEST,
                    "this kernel has no VLAN devices; tests/redirect.rs of weft-nic sends tagged frames",
                );
            }
            link::add_address(ns, "tagged", address.parse().expect("address"), 24).expect("address");
            link::set_up(ns, "tagged").expect("up");
        }
        transfer(&world.far, &world.app, "10.98.0.1".parse().expect("address"));
        transfer(&world.app, &world.far, "10.98.0.2".parse().expect("address"));
        run.end();
    }
}

#[test]
fn a_port_beside_its_uplink_is_reached() {
    if !privileged("a_port_beside_its_uplink_is_reached") {
        return;
    }
    for way in WAYS {
        let mut world = World::new();
        world.app = world.host.handle().expect("handle");
        let run = Run::start(&world, way);
        transfer(&world.far, &world.host, NEAR);
        transfer(&world.host, &world.far, FAR);
        run.end();
    }
}

#[test]
fn an_uplink_with_another_name_still_receives() {
    if !privileged("an_uplink_with_another_name_still_receives") {
        return;
    }
    for way in WAYS {
        let world = World::new();
        let run = Run::start(&world, way);
        transfer(&world.far, &world.app, NEAR);
        link::rename(&world.host, "up0", "other0").expect("rename");
        link::set_mtu(&world.far, "far0", 1300).expect("mtu");
        link::set_mtu(&world.host, "other0", 1300).expect("mtu");
        let followed = || link::show(&world.app, "weft0").expect("port").mtu == 1300;
        assert!(until(SOON, followed), "{way}: the MTU is not followed");
        transfer(&world.far, &world.app, NEAR);
        run.end();
    }
}

#[test]
fn merged_packets_are_redirected_whole() {
    if !privileged("merged_packets_are_redirected_whole") {
        return;
    }
    for way in WAYS {
        let world = World::new();
        // BIG TCP, where the kernel has it; otherwise the sizes stay as they are.
        for (ns, name) in [(&world.far, "far0"), (&world.host, "up0")] {
            let before = link::gso_sizes(ns, name).expect("sizes");
            let sizes = link::GsoSizes { max: 190_000, ipv4_max: before.ipv4_max.map(|_| 190_000) };
            let _ = link::set_gso_sizes(ns, name, sizes);
        }
        let run = Run::start(&world, way);
        for _ in 0..3 {
            transfer(&world.far, &world.app, NEAR);
        }
        let (_, document) = run.end();
        let of = |what: &str| {
            let receive = &document["receive"];
            ["redirected", "thread"].map(|by| receive[format!("{by}_{what}")].as_u64().expect("a count"))
        };
        let [packets, bytes] = [of("packets"), of("bytes")].map(|counts| counts.iter().sum::<u64>());
        assert!(bytes / packets > 5000, "{way}: {bytes} bytes in {packets} packets");
    }
}

/// The ids of the redirect's program that the process holds.
fn programs_of(pid: u32) -> Vec<u32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).expect("descriptors").flatten();
    let held: Vec<u32> = entries
        .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
        .filter_map(|text| text.lines().find_map(|line| line.strip_prefix("prog_id:")?.trim().parse().ok()))
        .collect();
    programs_named("weft_receive").into_iter().filter(|id| held.contains(id)).collect()
}

#[test]
fn a_killed_run_leaves_no_program() {
    if !privileged("a_killed_run_leaves_no_program") {
        return;
    }
    let world = World::new();
    let running = world.start(&["--receive", "kernel"]);
    transfer(&world.far, &world.app, NEAR);
    let programs = programs_of(running.0.id());
    assert_eq!(programs.len(), 1);
    running.signal(Signal::KILL);
    // It ends when the kernel has closed its rings, each with a grace period, which takes seconds beside a busy program.
    running.wait(SOON);
    assert!(until(SOON, || program_info(programs[0]).is_err()), "the program is still loaded");
    let clean = || link::list(&world.host).is_ok_and(|links| links.len() == 2);
    assert!(until(SOON, clean), "{:?}", link::list(&world.host));
}

#[test]
fn a_dry_run_says_who_would_carry_received_packets() {
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", POLICY);
    let said = |way: &str| {
        run(&["run", &policy, "--uplink", "absent0", "--name", "weftdry0", "--dry-run", "--receive", way])
    };
    let line = |way: &str| {
        let said = said(way);
        let line = said.out.lines().find_map(|line| line.trim_start().strip_prefix("receive: "));
        line.unwrap_or_else(|| panic!("{said:?}")).to_owned()
    };
    assert!(line("kernel").starts_with("in the kernel") && !line("kernel").contains("thread"));
    assert!(line("auto").starts_with("in the kernel") && line("auto").contains("or by the thread"));
    assert_eq!(line("thread"), "by the thread");
    let wrong = said("both");
    assert!(wrong.code == 2 && wrong.err.contains("`auto`, `kernel` or `thread`"), "{wrong:?}");
    let help: Said = weft().args(["run", "--help"]).output().expect("run").into();
    assert!(help.out.contains("--receive <auto|kernel|thread>"), "{help:?}");
}
