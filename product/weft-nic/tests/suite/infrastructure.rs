//! ARP, neighbour discovery and the like: no policy starves them, and no flood of them gains priority.

use crate::common::bench;
use crate::common::bench::{Bench, config, conserved, socket};
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weft_host::testing::{PATIENCE, wait_for};
use weft_host::{NetNs, Spawn, link};
use weft_nic::testbed::{RECEIVER, SENDER};
use weft_units::Nanos;

/// A policy without infrastructure: all of UDP is served first.
const POLICY: &str = "class first = udp\nroot = priority { first, default }";

/// Runs `ip` with `args` in `ns`.
fn ip(ns: &NetNs, args: &[&str]) {
    let ended = Spawn::new("ip").args(args).netns(ns).start().expect("ip").wait().expect("end");
    assert!(ended.success(), "ip {args:?}");
}

/// Sends UDP through the port as fast as possible, by eight sockets, while `work` runs.
fn under_load<T>(bench: &Bench, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let sockets: Vec<_> = (0..8).map(|_| bench.sender(false)).collect();
    std::thread::scope(|scope| {
        for socket in &sockets {
            socket.set_write_timeout(Some(Duration::from_millis(100))).expect("timeout");
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let _ = socket.send_to(&[7; 1400], (RECEIVER, 6000));
                }
            });
        }
        wait_for("a hundred packets have left", || {
            bench.nic.totals().expect("totals").classes[0].sent.packets.get() >= 100
        });
        let done = work();
        stop.store(true, Ordering::Relaxed);
        done
    })
}

#[test]
fn the_peer_finds_us_whatever_the_policy_forgot() {
    if !weft_host::testing::privileged("the_peer_finds_us_whatever_the_policy_forgot") {
        return;
    }
    let bench = Bench::start("inf", POLICY, &config(20), 2000, |_| ());
    let here = socket(&bench.bed.sender, SocketAddr::new(SENDER, 7000));
    here.set_read_timeout(Some(PATIENCE)).expect("timeout");
    let peer = bench.receiver(false, 7001);
    let address = SENDER.to_string();
    let found = under_load(&bench, || {
        let ask = |_: &usize| {
            ip(&bench.bed.receiver, &["neigh", "del", &address, "dev", "wire0"]);
            peer.send_to(&[1], (SENDER, 7000)).expect("send");
            here.recv_from(&mut [0; 10]).is_ok()
        };
        (0..3).filter(ask).count()
    });
    assert_eq!(found, 3, "the peer resolves our address");
    let totals = bench.nic.stop(Nanos::from_secs(5)).expect("stop");
    let infrastructure = &totals.classes[2];
    assert!(infrastructure.sent.packets.get() >= 3, "{totals:#?}");
    conserved(&totals);
}

/// A flood of DHCP gains no priority: beyond the share of infrastructure it is UDP like any other.
#[test]
fn a_flood_of_infrastructure_has_no_more_than_its_share() {
    if !weft_host::testing::privileged("a_flood_of_infrastructure_has_no_more_than_its_share") {
        return;
    }
    // The share on a link of 20 Mb/s.
    const SHARE: f64 = 1e6 / 8.0;
    let policy = "class dhcp = udp port 67\nroot = priority { default, dhcp }";
    let bench = Bench::start("flo", policy, &config(20), 2000, |_| ());
    let client = socket(&bench.bed.sender, SocketAddr::new(SENDER, 68));
    let start = Instant::now();
    for _ in 0..400 {
        client.send_to(&[7; 1000], (RECEIVER, 67)).expect("send");
    }
    let most = start.elapsed().as_secs_f64() * SHARE + 16.0 * 1024.0 + 1042.0;
    let totals = bench.nic.stop(Nanos::from_secs(10)).expect("stop");
    let of = |name| totals.classes.get(bench_class(&totals, name)).expect("class").posted;
    let (first, rest) = (of("infrastructure"), of("dhcp"));
    assert!(first.bytes.get() > 0 && first.bytes.get() as f64 <= most, "{} bytes, {most}", first.bytes);
    assert_eq!(first.packets.get() + rest.packets.get(), 400, "{totals:#?}");
    assert_eq!(totals.events.infrastructure_excess.get(), rest.packets.get());
    conserved(&totals);
}

/// The number of a class of the policy above, where `dhcp` is the first and infrastructure the last.
fn bench_class(totals: &weft_nic::nic::Totals, name: &str) -> usize {
    if name == "dhcp" { 0 } else { totals.classes.len() - 1 }
}

/// A policy that defines the class keeps its definition.
#[test]
fn a_policy_may_place_infrastructure_itself() {
    let named =
        bench::policy("class infrastructure = udp port 67\nroot = priority { default, infrastructure }");
    let forgot = bench::policy(POLICY);
    let plan =
        |policy| weft_nic::plan::RingPlan::new(policy, weft_nic::plan::Mode::Loom, 8, &[]).expect("plan");
    assert_eq!(plan(&named).infrastructure, None);
    assert_eq!(*plan(&named).program, named.program);
    let added = plan(&forgot);
    assert_eq!(added.infrastructure.map(|lane| lane.index()), Some(forgot.program.lanes.len()));
    assert_eq!(added.classes(), forgot.classes.len() + 1);
    let full = weft_nic::plan::RingPlan::new(&forgot, weft_nic::plan::Mode::Loom, 2, &[]);
    assert!(full.is_err(), "two lanes and infrastructure need three rings");
}

/// A frame of Ethernet with this payload.
fn ethernet(to: [u8; 6], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&to[..], &[2, 0, 0, 0, 0, 1], &kind.to_be_bytes(), payload].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// A packet of IPv4 with a TTL.
fn ipv4(protocol: u8, ttl: u8, to: [u8; 4], payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len() as u16).to_be_bytes();
    let head = [0x45, 0, length[0], length[1], 0, 0, 0, 0, ttl, protocol, 0, 0, 10, 0, 0, 1];
    ethernet([2, 0, 0, 0, 0, 9], 0x0800, &[&head, &to[..], payload].concat())
}

/// A packet of ICMPv6 of a type, with a hop limit. `from` and `to` are the first two bytes of its addresses.
fn icmpv6(kind: u8, hops: u8, from: u16, to: u16) -> Vec<u8> {
    let address = |top: u16| [&top.to_be_bytes()[..], &[0; 13], &[u8::from(top != 0)]].concat();
    let head = [0x60, 0, 0, 0, 0, 24, 58, hops];
    let body = [kind, 0, 0, 0].into_iter().chain([0; 20]).collect::<Vec<u8>>();
    ethernet([2, 0, 0, 0, 0, 9], 0x86dd, &[&head[..], &address(from), &address(to), &body].concat())
}

fn udp(from: u16, to: u16) -> Vec<u8> {
    [&from.to_be_bytes()[..], &to.to_be_bytes(), &[0, 100, 0, 0], &[0; 92]].concat()
}

const LINK_LOCAL: u16 = 0xfe80;
const GLOBAL: u16 = 0xfd00;
const GROUP6: u16 = 0xff02;
const HOST: [u8; 4] = [10, 0, 0, 2];
const GROUP: [u8; 4] = [224, 0, 0, 22];

/// Frames, and whether a network requires them.
fn frames() -> Vec<(&'static str, Vec<u8>, bool)> {
    vec![
        ("ARP", ethernet([255; 6], 0x0806, &[0; 28]), true),
        ("LLDP", ethernet([1, 0x80, 0xc2, 0, 0, 14], 0x88cc, &[0; 40]), true),
        ("DHCP of a client", ipv4(17, 64, [255; 4], &udp(68, 67)), true),
        ("DHCP of a client, again", ipv4(17, 64, HOST, &udp(68, 67)), true),
        ("DHCP of a server", ipv4(17, 64, HOST, &udp(67, 68)), true),
        ("DHCP of a relay", ipv4(17, 64, HOST, &udp(67, 67)), true),
        ("DHCP between clients", ipv4(17, 64, HOST, &udp(68, 68)), false),
        ("IGMP to a group", ipv4(2, 1, GROUP, &[0x22, 0, 0, 0, 0, 0, 0, 0]), true),
        ("IGMP to a host", ipv4(2, 1, HOST, &[0x22, 0, 0, 0, 0, 0, 0, 0]), false),
        ("IGMP beyond the link", ipv4(2, 64, GROUP, &[0x22, 0, 0, 0, 0, 0, 0, 0]), false),
        ("router solicitation", icmpv6(133, 255, LINK_LOCAL, GROUP6), true),
        ("router advertisement", icmpv6(134, 255, LINK_LOCAL, GROUP6), true),
        ("neighbour solicitation", icmpv6(135, 255, GLOBAL, GROUP6), true),
        ("neighbour advertisement", icmpv6(136, 255, GLOBAL, GLOBAL), true),
        ("neighbour advertisement that was forwarded", icmpv6(136, 254, GLOBAL, GLOBAL), false),
        ("redirect", icmpv6(137, 255, LINK_LOCAL, GLOBAL), false),
        ("listener query", icmpv6(130, 1, LINK_LOCAL, GROUP6), true),
        ("listener report", icmpv6(143, 1, LINK_LOCAL, GROUP6), true),
        ("listener report without an address", icmpv6(143, 1, 0, GROUP6), true),
        ("listener report beyond the link", icmpv6(143, 64, LINK_LOCAL, GROUP6), false),
        ("listener report of another network", icmpv6(131, 1, GLOBAL, GROUP6), false),
        ("listener report to a host", icmpv6(131, 1, LINK_LOCAL, LINK_LOCAL), false),
        ("echo", icmpv6(128, 255, LINK_LOCAL, GROUP6), false),
    ]
}

#[test]
fn infrastructure_is_what_a_network_requires_and_no_more() {
    if !weft_host::testing::privileged("infrastructure_is_what_a_network_requires_and_no_more") {
        return;
    }
    let policy = bench::policy(POLICY);
    let plan = weft_nic::plan::RingPlan::new(&policy, weft_nic::plan::Mode::Loom, 8, &[]).expect("plan");
    let doorbells = weft_nic::doorbell::Doorbells::load(&plan, &[]).expect("program");
    let lane = plan.infrastructure.expect("a lane").index();
    let ring = &doorbells.shared().rings[usize::from(plan.lanes[lane].first_ring)];
    let posted = || ring.packets.load(Ordering::SeqCst);
    for (name, frame, required) in frames() {
        let before = posted();
        doorbells.test(&frame, weft_host::bpf::SkbFields::default(), 1).expect("run");
        assert_eq!(posted() - before, u64::from(required), "{name}");
    }
}

/// A namespace whose packets the sender forwards.
struct Forwarded {
    ns: NetNs,
}

impl Forwarded {
    fn new(bench: &Bench, role: &str) -> Self {
        let ns = NetNs::create(&weft_host::testing::unique(role)).expect("namespace");
        let host = &bench.bed.sender;
        link::create_veth((&ns, "in0"), (host, "out0"), &link::VethOptions::default()).expect("veth");
        link::set_up(&ns, "in0").expect("up");
        link::set_up(host, "out0").expect("up");
        link::add_address(host, "out0", "10.50.0.1".parse().expect("address"), 24).expect("address");
        link::add_address(&ns, "in0", "10.50.0.2".parse().expect("address"), 24).expect("address");
        link::wait_running(&ns, "in0", Duration::from_secs(20)).expect("running");
        weft_host::sysctl::set(host, "net/ipv4/ip_forward", "1").expect("forwarding");
        ip(&ns, &["route", "add", "default", "via", "10.50.0.1"]);
        Self { ns }
    }
}

/// A container's flood takes from its own share, an eighth, and the host's neighbour discovery has all of the host's.
#[test]
fn a_forwarded_flood_takes_nothing_from_the_host() {
    if !weft_host::testing::privileged("a_forwarded_flood_takes_nothing_from_the_host") {
        return;
    }
    // The share on a link of 1 Mb/s is 100 kb/s: 16 KiB ahead are more than a second.
    let bench = Bench::start("fwd", POLICY, &config(1), 2000, |_| ());
    let container = Forwarded::new(&bench, "fwdc");
    let client = socket(&container.ns, "0.0.0.0:68".parse().expect("address"));
    let sent = || {
        let totals = bench.nic.totals().expect("totals");
        (totals.classes[2].posted, totals.events.infrastructure_excess.get())
    };
    // The neighbours of the container are found before.
    client.send_to(&[7; 10], (RECEIVER, 67)).expect("send");
    bench.settle(Duration::from_secs(5));
    let (before, _) = sent();
    let start = Instant::now();
    for _ in 0..200 {
        client.send_to(&[7; 1000], (RECEIVER, 67)).expect("send");
    }
    wait_for("a hundred packets in excess", || sent().1 >= 100);
    let (flood, excess) = sent();
    // An eighth of the share, a quarter of 16 KiB ahead, and a packet.
    let most = start.elapsed().as_secs_f64() * 100e3 / 64.0 + 4096.0 + 1042.0;
    let taken = (flood.bytes.get() - before.bytes.get()) as f64;
    assert!(taken <= most, "{taken} bytes of {most}");
    // The host resolves a neighbour: an ARP request, of the kernel.
    let own = bench.sender(false);
    own.send_to(&[0], ("10.99.0.77", 1)).expect("send");
    wait_for("the host's request", || {
        assert!(sent().1 <= excess.max(201), "the host's request is in excess");
        sent().0.packets != flood.packets
    });
}
