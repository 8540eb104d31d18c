//! `weft run` without a rate: the policy over a bottleneck that changes; and the overdraft and the lag of runs with a rate.

use crate::common::load::{Load, SOON, end};
use crate::common::world::{FAR, World};
use crate::common::{file, weft};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_host::link;
use weft_host::tc::{Handle, Tbf, TcDevice, TcObject, TcPlace};
use weft_host::testing::{PATIENCE, privileged, unique, until};
use weft_host::{NetNs, tap};
use weft_units::{BitsPerSec, Bytes};

/// The bytes that arrive in a while, and those that wait meanwhile.
struct Measured {
    /// The bytes by port.
    bytes: Vec<u64>,
    span: Duration,
    /// The largest backlog of the queue.
    most: Bytes,
}

/// Measures for `span`, and for as long as the machine makes of it.
fn measure(load: &Load<'_>, span: Duration, mut queue: Option<&mut TcDevice>) -> Measured {
    let (before, begin, mut most) = (load.arrived(), Instant::now(), Bytes::ZERO);
    while begin.elapsed() < span {
        if let Some(reader) = queue.as_mut() {
            most = most.max(reader.qdisc(Handle::FIRST).expect("the TBF").counters.backlog.bytes);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let bytes = load.arrived().iter().zip(before).map(|(after, before)| after - before).collect();
    Measured { bytes, span: begin.elapsed(), most }
}

fn bottleneck(megabits: u64) -> Tbf {
    let rate = BitsPerSec(megabits * 1_000_000);
    Tbf { rate, overhead: 0, burst: Bytes(65_536), limit: Bytes(15_000_000) }
}

/// The most that may wait below the NIC: 1 ms of the bottleneck or 24 KB, with the headers of the qdisc's count.
fn standing_bound(megabits: u64) -> Bytes {
    Bytes((megabits * 1_000_000 / 8 / 1000).max(24 * 1024) * 105 / 100)
}

#[test]
fn without_a_rate_the_policy_holds_over_a_bottleneck_that_changes() {
    if !privileged("without_a_rate_the_policy_holds_over_a_bottleneck_that_changes") {
        return;
    }
    let policy = "link auto\nclass first = tcp port 5200\nclass a = tcp port 5201\nclass b = tcp port 5202\n\
                  class c = tcp port 5203\nroot = priority { fair of first, tenants }\n\
                  tenants = wfq { fair of a: 2, fair of b: 1, capped: 1, default: 1 }\n\
                  capped = limit 8mbps of fair of c\n";
    let world = World::new();
    TcDevice::open(&world.host, "up0")
        .and_then(|mut device| device.add(&TcObject::tbf(bottleneck(300))))
        .expect("tbf");
    let counters = world.folder.path().join("counters.json");
    let running = world.start_with(policy, &["--json", counters.to_str().expect("UTF-8")]);
    let first_stops = AtomicBool::new(false);
    let load = Load::new(&world, &[5200, 5201, 5202, 5203]);
    let mut queue = TcDevice::open(&world.host, "up0").expect("device");
    let shares = |what: &str, bytes: &[u64], span: Duration| {
        println!("{what}: {bytes:?}");
        let ratio = bytes[1] as f64 / bytes[2] as f64;
        assert!((1.9..=2.1).contains(&ratio), "{what}: a and b as {ratio:.3}, {bytes:?}");
        // TCP's payload: what the limit of 8 Mb/s carries, less headers.
        let capped = bytes[3] as f64 * 8.0 / span.as_secs_f64();
        assert!((7.1e6..=8.4e6).contains(&capped), "{what}: {capped:.0} b/s of 8 Mb/s");
    };
    std::thread::scope(|scope| {
        let _ends = load.stop_at_end();
        for port in [5201, 5202, 5203] {
            load.start(scope, (port, 4), load.stop());
        }
        // The slowest, of 8 Mb/s, has sent for a second.
        load.wait_for_more(&[5201, 5202, 5203], 1_000_000);
        for megabits in [300, 50] {
            TcDevice::open(&world.host, "up0")
                .and_then(|mut device| device.change(&TcObject::tbf(bottleneck(megabits))))
                .expect("change");
            // The old rate's queue drains, and the new rate is observed: for 1.5 s, of which the limited class has 8 Mb/s.
            load.wait_for_more(&[5203], 1_400_000);
            let Measured { bytes, span, most } = measure(&load, Duration::from_secs(3), Some(&mut queue));
            shares(&format!("{megabits} Mb/s"), &bytes, span);
            let all = bytes.iter().sum::<u64>() as f64 * 8.0 / span.as_secs_f64();
            assert!(all > megabits as f64 * 0.85e6, "{megabits} Mb/s: only {all:.0} b/s");
            assert!(most <= standing_bound(megabits), "{most} wait below at {megabits} Mb/s");
        }
        load.start(scope, (5200, 2), &first_stops);
        // A second of the link.
        load.wait_for_more(&[5200], 5_500_000);
        let bytes = measure(&load, Duration::from_secs(2), None).bytes;
        assert!(bytes[0] > 20 * (bytes[1] + bytes[2] + bytes[3]), "strict priority: {bytes:?}");
        first_stops.store(true, Ordering::Relaxed);
        TcDevice::open(&world.host, "up0")
            .and_then(|mut device| device.delete_qdisc(TcPlace::root(Handle::FIRST)))
            .expect("remove");
        // The strict class ends, and the others observe the new rate for some seconds, of which the limited class has 8 Mb/s.
        load.wait_for_more(&[5203], 2_400_000);
        // The applications' processors are the limit now: a class whose rings are empty at times has less than its
        // weight, and is due no more. The lag, below, says whether any class had less while its packets waited.
        let faster = || {
            let bytes = measure(&load, Duration::from_secs(2), None).bytes;
            println!("no bottleneck: {bytes:?}");
            bytes[1] + bytes[2] > 2 * 300_000_000 / 8 * 2
        };
        assert!(until(PATIENCE, faster), "not twice as fast as through the first bottleneck");
        load.stop().store(true, Ordering::Relaxed);
    });
    let (_, document) = end(running, &counters);
    let dropped = &document["dropped"];
    for reason in ["refused", "ring_full", "bound", "stray", "moving"] {
        assert_eq!(dropped[reason], 0, "nothing is dropped by the NIC: {dropped}");
    }
    assert!(document["uplink"]["waits"].as_u64() > Some(100), "{document}");
    let lags = document["lags"].as_array().expect("lags");
    assert!(
        ["first", "a", "b"].iter().all(|class| lags.iter().any(|lag| lag["class"] == *class)),
        "{lags:?}"
    );
    for lag in lags {
        let [bytes, bound] = ["lag_bytes", "bound_bytes"].map(|name| lag[name].as_u64().expect("bytes"));
        println!("{lag}");
        assert!(bytes <= bound, "{lag}");
    }
}

/// Requests of `bytes` bytes to `port`, one after the other, until `stop`. Returns their number.
fn requests(world: &World, port: u16, stop: &AtomicBool) -> u64 {
    let at = SocketAddr::new(FAR, port);
    let listener = world.far.run(|| TcpListener::bind(at)).expect("enter").expect("bind");
    let stream = world.app.run(|| TcpStream::connect_timeout(&at, SOON));
    let mut stream = stream.expect("enter").expect("connect");
    stream.set_nodelay(true).expect("nodelay");
    let (mut accepted, _) = listener.accept().expect("accept");
    accepted.set_nodelay(true).expect("nodelay");
    let server = std::thread::spawn(move || {
        let mut request = [0; 64];
        while accepted.read_exact(&mut request).is_ok() && accepted.write_all(&request).is_ok() {}
    });
    let mut done = 0;
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(&[1; 64]).expect("send");
        stream.read_exact(&mut [0; 64]).expect("receive");
        done += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(stream);
    server.join().expect("server");
    done
}

#[test]
fn small_requests_overdraw_the_clock_within_its_bound_and_every_class_says_its_lag() {
    if !privileged("small_requests_overdraw_the_clock_within_its_bound_and_every_class_says_its_lag") {
        return;
    }
    for (tree, urgent) in [
        ("root = priority { fast, wfq { fair of a: 2, fair of b: 1 }, default }", "fast"),
        ("root = wfq { fast: 2, fair of a: 2, fair of b: 1, default: 1 }", "fast"),
    ] {
        let policy =
            format!("class fast = tcp port 5200\nclass a = tcp port 5201\nclass b = tcp port 5202\n{tree}\n");
        let world = World::new();
        let counters = world.folder.path().join("counters.json");
        let more = ["--rate", "200mbps", "--json", counters.to_str().expect("UTF-8")];
        let running = world.start_with(&policy, &more);
        let load = Load::new(&world, &[5201, 5202]);
        let (mut bytes, mut span, mut done) = (Vec::new(), Duration::ZERO, 0);
        std::thread::scope(|scope| {
            let _ends = load.stop_at_end();
            for port in [5201, 5202] {
                load.start(scope, (port, 4), load.stop());
            }
            // A second of the link, of which the lighter has a third at least.
            load.wait_for_more(&[5201, 5202], 7_000_000);
            let requests = scope.spawn(|| requests(&world, 5200, load.stop()));
            Measured { bytes, span, .. } = measure(&load, Duration::from_secs(3), None);
            load.stop().store(true, Ordering::Relaxed);
            done = requests.join().expect("requests");
        });
        let (_, document) = end(running, &counters);
        let uplink = &document["uplink"];
        println!("{tree}: {bytes:?}, {done} requests, {uplink}");
        let ratio = bytes[0] as f64 / bytes[1] as f64;
        assert!((1.9..=2.1).contains(&ratio), "a and b as {ratio:.3}");
        let rate = bytes.iter().sum::<u64>() as f64 * 8.0 / span.as_secs_f64();
        assert!(rate < 200e6 * 1.005, "the overdraft is paid back: {rate:.0} b/s");
        assert!(
            done > 20 && uplink["overdrawn_turns"].as_u64() > Some(done / 4),
            "{done} requests, {uplink}"
        );
        assert!(uplink["ahead_max_s"].as_f64().is_some_and(|ahead| ahead < 2e-3), "{uplink}");
        let lags = document["lags"].as_array().expect("lags");
        assert!(lags.iter().any(|lag| lag["class"] == urgent), "{lags:?}");
        for lag in lags {
            let [bytes, bound] = ["lag_bytes", "bound_bytes"].map(|name| lag[name].as_u64().expect("bytes"));
            assert!(bytes <= bound, "{lag}");
            assert!(lag["lag_s"].as_f64().is_some(), "the rate is known: {lag}");
        }
        assert!(lags.iter().any(|lag| lag["lag_bytes"].as_u64() > Some(1000)), "{lags:?}");
    }
}

#[test]
fn an_uplink_without_back_pressure_needs_a_rate() {
    if !privileged("an_uplink_without_back_pressure_needs_a_rate") {
        return;
    }
    let ns = NetNs::create(&unique("tap")).expect("namespace");
    let _queues = tap::create(&ns, "tap0", 1).expect("tap");
    link::set_up(&ns, "tap0").expect("up");
    let folder = tempfile::tempdir().expect("folder");
    let policy = file(&folder, "p.weft", "link auto\nroot = fair of default\n");
    let run = |more: &[&str]| {
        let mut command = weft();
        command.args(["run", &policy, "--uplink", "tap0", "--uplink-netns", ns.name()]);
        command.args(["--duration", "100ms", "--plain"]).args(more).output().expect("run weft")
    };
    let refused = run(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success(), "{said}");
    assert!(said.contains("tap0 is a TAP") && said.contains("give the rate with --rate 900mbps"), "{said}");
    let allowed = run(&["--rate", "100mbps"]);
    assert!(allowed.status.success(), "{}", String::from_utf8_lossy(&allowed.stderr));
}
