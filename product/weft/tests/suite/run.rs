//! `weft run` between namespaces of the test: a real TCP transfer crosses the port and the uplink, and algorithms of a policy order real
//! packets.

use crate::common::load::{Load, SOON, end};
use crate::common::world::{BYTES, FAR, World, transfer};
use crate::common::{assert_conserved, assert_head, file, json, left_by, weft};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use weft_host::testing::{privileged, unique};

#[test]
fn a_transfer_crosses_the_port_and_sigterm_takes_all_down() {
    if !privileged("a_transfer_crosses_the_port_and_sigterm_takes_all_down") {
        return;
    }
    let world = World::new();
    let counters = world.folder.path().join("counters.json");
    let running = world.start(&["--json", counters.to_str().expect("UTF-8")]);
    let pid = running.0.id();
    let took = transfer(&world.app, &world.far, FAR);
    assert!(took > Duration::from_millis(300), "{took:?} is faster than the link");
    running.signal(Signal::TERM);
    let said = running.wait(Duration::from_secs(20));
    assert_eq!(said.code, 143, "{}", said.err);
    assert!(said.out.contains("web") && said.err.contains("everything was removed"), "{said:?}");

    let document = json(&counters);
    assert_head(&document, "weft-run/1");
    assert_conserved(&document["conservation"]);
    for stage in document["conservation"]["stages"].as_array().expect("stages") {
        assert_conserved(stage);
    }
    assert_eq!(document["classes"][0]["class"], "web");
    assert!(document["classes"][0]["bytes"].as_u64().expect("bytes") > BYTES as u64, "{document}");
    world.assert_clean();
    assert!(left_by(pid).is_empty());
}

/// `ip netns exec` mounts another /sys over the host's, which hides the cgroup hierarchy.
#[test]
fn cgroups_are_found_where_ip_netns_exec_hides_them() {
    if !privileged("cgroups_are_found_where_ip_netns_exec_hides_them") {
        return;
    }
    let world = World::new();
    let cgroup = weft_host::Hierarchy::detect().expect("cgroup2").create(&unique("cg")).expect("cgroup");
    let name = cgroup.path().file_name().and_then(|name| name.to_str()).expect("name").to_owned();
    let text = format!(
        "class s = cgroup \"/{name}\"\nclass gone = cgroup \"/{name}/gone\"\nroot = priority {{ s, gone }}\n"
    );
    let policy = file(&world.folder, "c.weft", &text);
    let mut run = std::process::Command::new("ip");
    run.args(["netns", "exec", world.host.name()]).arg(weft().get_program());
    run.args(["run", &policy, "--uplink", "up0", "--rate", "100mbps", "--dry-run"]);
    let said = run.output().expect("ip");
    let err = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && !err.contains("is not visible"), "{err}");
    assert!(err.contains(&format!("no cgroup /{name}/gone")), "{err}");
    assert!(
        !err.contains(&format!("no cgroup /{name} ")) && !err.contains(&format!("no cgroup /{name}:")),
        "{err}"
    );
}

#[test]
fn a_killed_run_is_cleaned_up_by_the_next() {
    if !privileged("a_killed_run_is_cleaned_up_by_the_next") {
        return;
    }
    let world = World::new();
    let killed = world.start(&[]);
    let pid = killed.0.id();
    killed.signal(Signal::KILL);
    killed.wait(Duration::from_secs(10));
    let next = world.start(&["--duration", "2"]);
    assert!(left_by(pid).is_empty());
    let said = next.wait(Duration::from_secs(20));
    assert_eq!(said.code, 0, "{}", said.err);
    world.assert_clean();
}

/// The bytes that arrive in about `span`, in the order of the load's ports, and the span.
fn arrived_in(load: &Load<'_>, span: Duration) -> (Vec<u64>, Duration) {
    let (before, begin) = (load.arrived(), Instant::now());
    std::thread::sleep(span);
    let bytes = load.arrived().iter().zip(before).map(|(after, before)| after - before).collect();
    (bytes, begin.elapsed())
}

#[test]
fn shipped_algorithms_share_the_link_as_the_built_in_ones_do() {
    if !privileged("shipped_algorithms_share_the_link_as_the_built_in_ones_do") {
        return;
    }
    // Without its floor `d` had a sixth of what `guarded` has. The grace covers the chunks that a floor waits for. The bucket's burst
    // makes up for turns that begin late: without one, what a busy host takes from the worker is lost to the bucket.
    let policy = "class first = tcp port 5200\nclass a = tcp port 5201\nclass b = tcp port 5202\n\
                  class c = tcp port 5203\nclass d = tcp port 5204\nclass e = tcp port 5205\n\
                  root = strict { fair of first: 0, tenants: 1, default: 2 }\n\
                  tenants = stfq { fair of a: 2, fair of b: 1, capped: 1, guarded: 2 }\n\
                  capped = bucket rate 8mbps burst 20kb of fair of c\n\
                  guarded = floors { fair of d: min 40mbps max 1gbps grace 10ms, fair of e: min 1mbps max 1gbps weight 5 }\n";
    let world = World::new();
    let counters = world.folder.path().join("counters.json");
    let more = ["--rate", "200mbps", "--json", counters.to_str().expect("UTF-8")];
    let running = world.start_with(policy, &more);
    let load = Load::new(&world, &[5200, 5201, 5202, 5203, 5204, 5205]);
    std::thread::scope(|scope| {
        let _ends = load.stop_at_end();
        for port in 5201..=5205 {
            load.start(scope, (port, 4), load.stop());
        }
        // The slowest, of 8 Mb/s, has sent for half a second.
        load.wait_for_more(&[5201, 5202, 5203, 5204, 5205], 500_000);
        let (bytes, span) = arrived_in(&load, Duration::from_secs(2));
        println!("{bytes:?}");
        let ratio = bytes[1] as f64 / bytes[2] as f64;
        assert!((1.9..=2.1).contains(&ratio), "a and b as {ratio:.3}: {bytes:?}");
        // TCP's payload: what limit and floor carry, less headers.
        let rate = |at: usize| bytes[at] as f64 * 8.0 / span.as_secs_f64();
        assert!((7.1e6..=8.4e6).contains(&rate(3)), "{:.0} b/s of 8 Mb/s", rate(3));
        assert!((35.5e6..=42e6).contains(&rate(4)), "{:.0} b/s at a floor of 40 Mb/s", rate(4));
        let guarded = (bytes[4] + bytes[5]) as f64 / bytes[1] as f64;
        assert!((0.95..=1.05).contains(&guarded), "guarded and a as {guarded:.3}: {bytes:?}");
        load.start(scope, (5200, 2), load.stop());
        // 0.4 s of the link.
        load.wait_for_more(&[5200], 9_000_000);
        let (bytes, _) = arrived_in(&load, Duration::from_millis(600));
        assert!(bytes[0] > 20 * bytes[1..].iter().sum::<u64>(), "strict priority: {bytes:?}");
        load.stop().store(true, Ordering::Relaxed);
    });
    let (_, document) = end(running, &counters);
    for reason in ["refused", "ring_full", "bound", "stray", "moving"] {
        assert_eq!(document["dropped"][reason], 0, "nothing is dropped by the NIC: {}", document["dropped"]);
    }
}

/// The bytes that `load` carries while a new connection to `port` carries `bytes` bytes.
fn beside_short_transfer(load: &Load<'_>, world: &World, port: u16, bytes: usize) -> u64 {
    let at = SocketAddr::new(FAR, port);
    let listener = world.far.run(|| TcpListener::bind(at)).expect("enter").expect("bind");
    let before = load.arrived()[0];
    let stream = world.app.run(|| TcpStream::connect_timeout(&at, SOON));
    let mut stream = stream.expect("enter").expect("connect");
    let (mut accepted, _) = listener.accept().expect("accept");
    let sender = std::thread::spawn(move || stream.write_all(&vec![7; bytes]).expect("send"));
    let mut arrived = vec![0; bytes];
    accepted.read_exact(&mut arrived).expect("receive");
    let beside = load.arrived()[0] - before;
    sender.join().expect("sender");
    beside
}

#[test]
fn the_flow_that_has_had_least_passes_beside_bulk() {
    if !privileged("the_flow_that_has_had_least_passes_beside_bulk") {
        return;
    }
    let policy = "class web = tcp port 5201..5202\nroot = priority { las of web, default }\n";
    let world = World::new();
    let counters = world.folder.path().join("counters.json");
    let running =
        world.start_with(policy, &["--rate", "100mbps", "--json", counters.to_str().expect("UTF-8")]);
    let load = Load::new(&world, &[5201]);
    std::thread::scope(|scope| {
        let _ends = load.stop_at_end();
        load.start(scope, (5201, 9), load.stop());
        // Each of the nine has had more than a short transfer, which passes them for all of its length.
        load.wait_for_more(&[5201], 9 * 1_500_000);
        // In a fair tenth of the link nine times as much would pass beside it.
        let mut beside = [(); 3].map(|()| beside_short_transfer(&load, &world, 5202, 1_000_000));
        beside.sort_unstable();
        println!("{beside:?}");
        assert!(beside[1] < 4_000_000, "{beside:?}");
        load.wait_for_more(&[5201], 1);
        load.stop().store(true, Ordering::Relaxed);
    });
    end(running, &counters);
}
