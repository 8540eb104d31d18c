//! ARP, neighbour discovery and the like: no policy starves them, and no flood of them gains priority.

#[path = "common/bench.rs"]
mod bench;

use bench::{Bench, config, conserved, socket};
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use weft_host::{NetNs, Spawn};
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
        let backlogged = Instant::now() + Duration::from_secs(10);
        while Instant::now() < backlogged
            && bench.nic.totals().expect("totals").classes[0].sent.packets.get() < 100
        {
            std::thread::sleep(Duration::from_millis(10));
        }
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
    here.set_read_timeout(Some(Duration::from_secs(5))).expect("timeout");
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
    assert_eq!(totals.infrastructure_excess, rest.packets.get());
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
