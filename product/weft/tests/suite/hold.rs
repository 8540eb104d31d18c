//! The ports of `weft daemon` survive the daemon: its crash, its restart, its hang.

use crate::common::datagrams::Datagrams;
use crate::common::flows::Flows;
use crate::common::service::{PATIENCE, Service};
use crate::common::world::{FAR, POLICY, transfer, wait_until_up};
use crate::common::{Running, file, left_by, until};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_host::link;
use weft_host::tc::{Tbf, TcDevice, TcObject};
use weft_host::testing::{alone, privileged, wait_for};
use weft_units::{BitsPerSec, Bytes};

/// The longest pause where packets pass: 0.1 s, and what connections add that have lost a packet.
const STALL: Duration = Duration::from_secs(1);
/// The time after which the worker gives up a packet that is in no ring, and some.
const GIVEN_UP: Duration = Duration::from_millis(300);
/// The number of connections.
const FLOWS: usize = 340;

/// The number of the port's near end, which a new device would not have.
fn index(service: &Service) -> u32 {
    link::show(&service.world.app, "weft0").expect("the port").index
}

#[test]
fn connections_survive_a_killed_daemon() {
    if !privileged("connections_survive_a_killed_daemon") {
        return;
    }
    let _alone = alone();
    let service = Service::new();
    let mut daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    let port = index(&service);
    let flows = Flows::start(&service.world, FLOWS);
    let longest = longest_pause(&flows);
    let first = daemon.0.id();
    for _ in 0..3 {
        let mut without = Duration::ZERO;
        let pause = flows.pause_during(|| {
            let begin = Instant::now();
            daemon.signal(Signal::KILL);
            let _ = daemon.0.wait();
            daemon = service.start();
            without = begin.elapsed();
        });
        println!("killed and started again: a pause of {pause:?}, {without:?} until the daemon answered");
        assert_eq!(index(&service), port, "the port is another device");
        assert!(pause < without + longest, "{pause:?}, {without:?} without a daemon, and {longest:?}");
        let status = service.status();
        assert_eq!((&status["worker"], &status["generation"]), (&"running".into(), &1.into()));
        assert_eq!(status["ports"][0]["configured"], true);
        println!("{}", status["dropped"]);
    }
    drop(flows);
    service.stop(daemon);
    assert!(left_by(first).is_empty());
}

/// The number of hand-overs without `WEFT_HAND_OVERS`; the full test has 200.
const HAND_OVERS: usize = 10;

/// A program that uses a processor. Dropping it ends it.
struct Spin(Arc<AtomicBool>);

impl Spin {
    fn start() -> Self {
        let ended = Arc::<AtomicBool>::default();
        let seen = Arc::clone(&ended);
        std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Self(ended)
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ends `daemon` for a successor, and starts that in its place.
fn hand_over(service: &Service, daemon: &mut Running) {
    daemon.signal(Signal::USR2);
    let status = daemon.0.wait().expect("wait");
    assert!(status.success(), "{status}");
    *daemon = service.start();
}

/// Waits until the worker has sent another packet.
#[track_caller]
fn wait_for_sent(service: &Service) {
    let sent = || -> u64 {
        let status = service.status();
        let classes = status["classes"].as_array().expect("classes");
        classes.iter().map(|class| class["packets"].as_u64().expect("a count")).sum()
    };
    let before = sent();
    wait_for("the worker sends", || sent() > before);
}

/// Asserts that no posted packet is missing beside further traffic. A packet that a worker held at a hand-over is missed when its
/// ring is read to the end, and given up a fifth of a second later: the worker sends before and after that time. One that was
/// given up and arrives later is not lost, and the count says so then.
#[track_caller]
fn assert_nothing_lost(service: &Service) {
    wait_for_sent(service);
    std::thread::sleep(GIVEN_UP);
    wait_for_sent(service);
    let lost = || service.status()["dropped"]["lost"].clone();
    assert!(until(PATIENCE, || lost() == 0), "{} lost packets", lost());
}

/// The longest pause that connections may have: [`STALL`], and ten times what this machine keeps from the test's own threads while
/// nothing happens.
fn longest_pause(flows: &Flows) -> Duration {
    let own = flows.pause_during(|| std::thread::sleep(Duration::from_secs(1)));
    println!("a pause of {own:?} while nothing happens");
    STALL + 10 * own
}

#[test]
fn a_daemon_hands_over_to_its_successor() {
    if !privileged("a_daemon_hands_over_to_its_successor") {
        return;
    }
    let _alone = alone();
    let count = std::env::var("WEFT_HAND_OVERS").ok().and_then(|n| n.parse().ok()).unwrap_or(HAND_OVERS);
    let service = Service::new();
    let mut daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    let port = index(&service);
    let flows = Flows::start(&service.world, FLOWS);
    flows.assert_all_go_on();
    let datagrams = Datagrams::start(&service.world, 64, Duration::from_millis(1));
    let spin = Spin::start();
    let mut pauses = Vec::new();
    for _ in 0..count {
        pauses.push(flows.pause_during(|| hand_over(&service, &mut daemon)));
        assert_eq!(index(&service), port, "the port is another device");
        assert_nothing_lost(&service);
    }
    drop(spin);
    drop(flows);
    // A ring of a connection that always has packets is first read to its end now.
    assert_nothing_lost(&service);
    let sent = datagrams.assert_each_arrived_once();
    pauses.sort_unstable();
    let [median, most] = [count / 2, (count * 99).div_ceil(100) - 1].map(|at| pauses[at]);
    println!("{count} hand-overs beside {sent} datagrams: pauses of {median:?} (p50) and {most:?} (p99)");
    service.stop(daemon);
}

#[test]
fn a_hand_over_loses_no_packet_that_waits_for_room_in_the_uplink() {
    if !privileged("a_hand_over_loses_no_packet_that_waits_for_room_in_the_uplink") {
        return;
    }
    let service = Service::new();
    // The bottleneck is below the NIC, so a packet that was read waits for room: 47 ms for each that leaves.
    let (rate, burst, limit) = (BitsPerSec(250_000), Bytes(3_000), Bytes(1_000_000));
    let bucket = Tbf { rate, overhead: 24, burst, limit };
    TcDevice::open(&service.world.host, "up0")
        .and_then(|mut device| device.add(&TcObject::tbf(bucket)))
        .expect("bottleneck");
    let mut daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    let datagrams = Datagrams::start(&service.world, 1400, Duration::ZERO);
    for _ in 0..3 {
        let full = |status: &serde_json::Value| {
            status["uplink"]["observed_bps"].is_number() && status["classes"][1]["backlog_bytes"] != 0
        };
        assert!(until(PATIENCE, || full(&service.status())), "{}", service.status());
        hand_over(&service, &mut daemon);
        assert_nothing_lost(&service);
    }
    datagrams.assert_each_arrived_once();
    service.stop(daemon);
}

/// The bits per second that arrive over `span`.
fn rate(flows: &Flows, span: Duration) -> f64 {
    let (begin, before) = (Instant::now(), flows.total());
    std::thread::sleep(span);
    (flows.total() - before) as f64 * 8.0 / begin.elapsed().as_secs_f64()
}

/// Waits until the rate is that of the policy's link again, and not above.
#[track_caller]
fn assert_scheduled(flows: &Flows) {
    let scheduled = || (20e6..110e6).contains(&rate(flows, Duration::from_millis(500)));
    assert!(until(PATIENCE, scheduled), "{:.0} Mb/s", rate(flows, Duration::from_millis(500)) / 1e6);
    flows.assert_all_go_on();
}

/// Waits until the rate is above that of the policy's link.
#[track_caller]
fn assert_unbound(flows: &Flows, what: &str) {
    let unbound = || rate(flows, Duration::from_secs(1)) > 120e6;
    assert!(until(PATIENCE, unbound), "{what}: {:.0} Mb/s", rate(flows, Duration::from_secs(1)) / 1e6);
}

#[test]
fn traffic_passes_while_no_daemon_runs() {
    if !privileged("traffic_passes_while_no_daemon_runs") {
        return;
    }
    let _alone = alone();
    let service = Service::with("on-failure = \"pass\"\n");
    let daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    let flows = Flows::start(&service.world, 40);
    assert_scheduled(&flows);
    let longest = longest_pause(&flows);
    let pause = flows.pause_during(|| {
        daemon.signal(Signal::KILL);
        daemon.wait(PATIENCE);
    });
    println!("killed: a pause of {pause:?}, then {:.0} Mb/s", rate(&flows, Duration::from_secs(1)) / 1e6);
    assert!(pause < longest, "{pause:?} of at most {longest:?}");
    assert_unbound(&flows, "unscheduled traffic is not bound by the policy");
    let daemon = service.start();
    assert_scheduled(&flows);
    let pause = flows.pause_during(|| daemon.signal(Signal::STOP));
    println!("stopped: a pause of {pause:?}, then {:.0} Mb/s", rate(&flows, Duration::from_secs(1)) / 1e6);
    assert!(pause < longest, "{pause:?} of at most {longest:?}");
    assert_unbound(&flows, "a hung daemon does not bind it either");
    daemon.signal(Signal::CONT);
    assert_scheduled(&flows);
    println!("{}", service.status()["dropped"]);
    drop(flows);
    service.stop(daemon);
}

#[test]
fn without_pass_packets_wait_for_the_daemon() {
    if !privileged("without_pass_packets_wait_for_the_daemon") {
        return;
    }
    let _alone = alone();
    let service = Service::with("on-failure = \"hold\"\n");
    let mut daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    let flows = Flows::start(&service.world, 40);
    flows.assert_all_go_on();
    daemon.signal(Signal::KILL);
    daemon.0.wait().expect("wait");
    // What is below the NIC still arrives.
    assert!(until(PATIENCE, || rate(&flows, Duration::from_secs(1)) == 0.0), "packets leave unscheduled");
    assert_eq!(rate(&flows, Duration::from_secs(1)), 0.0, "and do so again");
    daemon = service.start();
    assert_scheduled(&flows);
    drop(flows);
    service.stop(daemon);
}

#[test]
fn what_changed_before_a_crash_is_in_force_after_it() {
    if !privileged("what_changed_before_a_crash_is_in_force_after_it") {
        return;
    }
    let service = Service::new();
    let mut daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    let host = service.world.host.name();
    let limits = ["--egress-limit", "20mbps,30kb", "--ingress-limit", "30mbps"];
    service.done(
        &[&["port", "add", "mine", "--netns", host, "--address", "10.97.0.3/24"], &limits[..]].concat(),
    );
    // Other classes get other numbers, and the port keeps its own.
    for text in [
        "class a = udp port 1\nroot = wfq { default: 2, a: 1 }\n",
        "class b = udp port 2\nroot = wfq { b: 2, default: 1 }\n",
    ] {
        let policy = file(&service.world.folder, "new.weft", format!("link 90mbps\n{text}"));
        service.done(&["policy", "load", &policy]);
    }
    let before = link::show(&service.world.app, "weft0").expect("the port").index;
    daemon.signal(Signal::KILL);
    daemon.0.wait().expect("wait");
    daemon = service.start();
    let status = service.status();
    assert_eq!(link::show(&service.world.app, "weft0").expect("the port").index, before);
    let ports = status["ports"].as_array().expect("ports");
    let configured: Vec<_> = ports.iter().map(|port| (&port["port"], &port["configured"])).collect();
    assert_eq!(configured, [(&"weft0".into(), &true.into()), (&"mine".into(), &false.into())]);
    let limits = [&ports[1]["egress_limit"]["rate_bps"], &ports[1]["ingress_limit"]["rate_bps"]];
    assert_eq!(
        limits,
        [&serde_json::Value::from(20_000_000), &30_000_000.into()],
        "of a port outlive a crash"
    );
    let in_force =
        |limit: &&serde_json::Value| limit["limit"].as_str().is_some_and(|name| name.contains("mine"));
    let kept = status["limits"].as_array().expect("limits").iter().find(in_force).expect("the port's limit");
    assert_eq!(kept["limit_bps"].as_f64(), Some(2e7), "{kept}");
    // Taken over with the loaded policy, generation 3, and then changed to the configured one.
    assert_eq!(status["generation"], 4);
    assert!(service.done(&["config"]).ends_with(POLICY));
    transfer(&service.world.app, &service.world.far, FAR);
    service.done(&["port", "remove", "mine"]);
    service.stop(daemon);
}

#[test]
fn an_uplink_is_followed_or_missed_aloud() {
    if !privileged("an_uplink_is_followed_or_missed_aloud") {
        return;
    }
    let service = Service::new();
    let mut daemon = service.start();
    wait_until_up(&service.world.app, "weft0");
    let host = &service.world.host;
    let port = || link::show(&service.world.app, "weft0").expect("the port");
    link::set_down(host, "up0").expect("down");
    assert!(until(PATIENCE, || !port().running && service.status()["uplink"]["up"] == false));
    link::rename(host, "up0", "other").expect("rename");
    link::set_up(host, "other").expect("up");
    assert!(until(PATIENCE, || port().running && service.status()["uplink"]["up"] == true));
    link::set_mtu(host, "other", 1400).expect("mtu");
    assert!(until(PATIENCE, || port().mtu == 1400));
    transfer(&service.world.app, &service.world.far, FAR);
    // A successor finds it by number.
    daemon.signal(Signal::USR2);
    daemon.0.wait().expect("wait");
    daemon = service.start_with_log();
    transfer(&service.world.app, &service.world.far, FAR);
    link::set_down(host, "other").expect("down");
    link::rename(host, "other", "up0").expect("rename");
    link::move_to(host, "up0", &service.world.app).expect("move");
    assert!(until(PATIENCE, || !port().running));
    service.wait_for_line("moved to another namespace");
    link::move_to(&service.world.app, "up0", host).expect("move back");
    daemon.signal(Signal::TERM);
    let said = daemon.wait(PATIENCE);
    assert_eq!(said.code, 0, "{}", said.err);
    service.world.assert_clean();
}
