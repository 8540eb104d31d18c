//! The accounting of `weft run` on real packets: a packet that no counter of the kernel explains breaks it, with exit code 1,
//! and what the kernel counts does not.

use crate::common::world::{FAR, NEAR, World};
use crate::common::{Running, Said, json};
use rustix::process::Signal;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::time::Duration;
use weft_host::testing::privileged;
use weft_host::{NetNs, link};

const POLICY: &str = "link 200mbps\nclass u = udp\nroot = priority { u, default }\n";
/// The port of the datagrams that arrive, and of the one that does not.
const OPEN: u16 = 6000;
const PLANTED: u16 = 9999;
const DATAGRAMS: usize = 3000;

/// Runs `program` in `ns`.
#[track_caller]
fn do_in(ns: &NetNs, program: &str, args: &str) {
    let run = || Command::new(program).args(args.split_whitespace()).output();
    let said = ns.run(run).expect("enter").expect(program);
    assert!(said.status.success(), "{program} {args}: {}", String::from_utf8_lossy(&said.stderr));
}

/// The namespace of the devices that `running` has made.
fn namespace_of(running: &Running) -> NetNs {
    let open = std::fs::read_dir(format!("/proc/{}/fd", running.0.id())).expect("descriptors");
    let namespaces = open.filter_map(Result::ok).filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with("net:["))
    });
    let opened = |entry: std::fs::DirEntry| {
        let ns = NetNs::received(OwnedFd::from(std::fs::File::open(entry.path()).ok()?), "nic");
        link::exists(&ns, "weft0-nic").is_ok_and(|there| there).then_some(ns)
    };
    namespaces.filter_map(opened).next().expect("the devices are in a namespace of the run")
}

/// Drops packets to the planted port at a hook of `device`, before (`preference` 1) or behind (65000) what weft has there. No
/// counter of a device or qdisc shows it.
fn plant(ns: &NetNs, device: &str, hook: &str, preference: u32) {
    // It exists already where weft has a program.
    let _ = ns.run(|| Command::new("tc").args(["qdisc", "add", "dev", device, "clsact"]).output());
    // The destination port of UDP over IPv4 without options.
    let program = format!("4,40 0 0 36,21 0 1 {PLANTED},6 0 0 2,6 0 0 4294967295");
    let args = ["filter", "add", "dev", device, hook, "pref", &preference.to_string(), "protocol", "all"];
    let said = ns
        .run(|| Command::new("tc").args(args).args(["bpf", "bytecode", &program, "direct-action"]).output());
    let said = said.expect("enter").expect("tc");
    assert!(said.status.success(), "{device} {hook}: {}", String::from_utf8_lossy(&said.stderr));
}

fn bind(ns: &NetNs, at: IpAddr, port: u16) -> UdpSocket {
    let socket = ns.run(|| UdpSocket::bind((at, port))).expect("enter").expect("bind");
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
    socket
}

/// Sends datagrams from `from` to `to` at `at`, and one in their midst to the planted port. All others arrive.
fn send(from: (&NetNs, IpAddr), to: (&NetNs, IpAddr)) {
    let (socket, end) = (bind(from.0, from.1, 0), bind(to.0, to.1, OPEN));
    let mut buffer = [0; 2000];
    for number in 0..DATAGRAMS {
        socket.send_to(&[1; 500], (to.1, OPEN)).expect("send");
        if number == DATAGRAMS / 2 {
            socket.send_to(&[1; 500], (to.1, PLANTED)).expect("send");
        }
        // In step, so that nothing overflows on the way.
        end.recv(&mut buffer).expect("it arrives");
    }
}

/// Ends the run.
fn end(running: Running) -> Said {
    running.signal(Signal::TERM);
    running.wait(Duration::from_secs(30))
}

/// The devices of the run by role: the first macvtap that is not behind the port, which transmits.
fn transmitter(ns: &NetNs) -> String {
    let names = link::list(ns).expect("links").into_iter().map(|link| link.name);
    let own = |name: &String| name != "lo" && !name.starts_with("weft0-");
    let found: Vec<String> = names.filter(own).collect();
    let is_transmitter = |name: &&String| name.contains("tx") || name.contains("up");
    found.iter().find(is_transmitter).unwrap_or_else(|| panic!("none of {found:?} transmits")).clone()
}

/// Runs with one packet of thousands shot at a place, and checks that the verdict names the stage.
fn loses_one(stage: Option<&str>, shoot: impl FnOnce(&NetNs), receives: bool) {
    let world = World::new();
    let running = world.start_with(POLICY, &[]);
    shoot(&namespace_of(&running));
    match receives {
        true => send((&world.far, FAR), (&world.app, NEAR)),
        false => send((&world.app, NEAR), (&world.far, FAR)),
    }
    let said = end(running);
    let broken: Vec<&str> =
        said.err.lines().filter(|line| line.contains("the accounting is broken")).collect();
    match stage {
        None => assert_eq!((said.code, broken.len()), (143, 0), "{said:?}"),
        Some(stage) => {
            let named = broken.iter().any(|line| line.contains(&format!("{stage}: ")));
            assert!(said.code == 1 && named, "{stage}: {said:?}");
        }
    }
}

#[test]
fn one_lost_packet_of_thousands_breaks_the_accounting_at_its_stage() {
    if !privileged("one_lost_packet_of_thousands_breaks_the_accounting_at_its_stage") {
        return;
    }
    loses_one(None, |_| (), false);
    loses_one(None, |_| (), true);
    loses_one(Some("port to far end"), |ns| plant(ns, "weft0-nic", "ingress", 1), false);
    loses_one(Some("descriptor rings"), |ns| plant(ns, "weft0-tap", "ingress", 65_000), false);
    loses_one(Some("uplink"), |ns| plant(ns, &transmitter(ns), "egress", 65_000), false);
    loses_one(Some("receive"), |ns| plant(ns, "weft0-nic", "egress", 65_000), true);
}

/// The qdisc is slower than its sender, so it drops; some wait in it when the port goes down, which empties it.
#[test]
fn drops_of_a_qdisc_at_the_port_are_read_from_it() {
    if !privileged("drops_of_a_qdisc_at_the_port_are_read_from_it") {
        return;
    }
    let world = World::new();
    let counters = world.folder.path().join("counters.json");
    let running = world.start_with(POLICY, &["--json", counters.to_str().expect("UTF-8")]);
    do_in(&world.app, "tc", "qdisc add dev weft0 root tbf rate 400kbit burst 3000 limit 6000");
    let socket = bind(&world.app, NEAR, 0);
    // The first waits for the neighbour's address.
    let end_of = bind(&world.far, FAR, OPEN);
    socket.send_to(&[1; 1000], (FAR, OPEN)).expect("send");
    end_of.recv(&mut [0; 2000]).expect("it arrives");
    for _ in 0..400 {
        // The stack reports the qdisc's drop as an error.
        let _ = socket.send_to(&[1; 1000], (FAR, OPEN));
    }
    let said = end(running);
    assert_eq!(said.code, 143, "{said:?}");
    let document = json(&counters);
    let of = |reason: &str| document["dropped"][reason].as_u64().expect("a number");
    assert!(of("qdisc") > 300 && of("lost") == 0, "{document}");
}
