//! `weft run` and its uplink: back-pressure, MTU, carrier, names, addresses, and the uplink's removal.

use crate::common;
use crate::common::load::{Load, SOON, end};
use crate::common::world::{FAR, NEAR, POLICY, World, transfer};
use crate::common::{Said, until, weft};
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_host::link;
use weft_host::tc::{Tbf, TcDevice, TcObject};
use weft_host::testing::privileged;
use weft_host::{Mac, NetNs, sysctl};
use weft_units::{BitsPerSec, Bytes};

/// Returns the segments that the TCP of this namespace has retransmitted.
fn retransmitted(ns: &NetNs) -> u64 {
    weft_host::net_counters::NetCounters::read(ns).expect("counters").retransmitted
}

#[test]
fn an_uplink_slower_than_the_rate_keeps_the_shares_and_loses_nothing() {
    if !privileged("an_uplink_slower_than_the_rate_keeps_the_shares_and_loses_nothing") {
        return;
    }
    let policy =
        "class a = tcp port 5201\nclass b = tcp port 5202\nroot = wfq { fair of a: 3, fair of b: 1 }\n";
    for rate in ["900mbps", "20gbps"] {
        let world = World::new();
        let slow = Tbf {
            rate: BitsPerSec(300_000_000),
            overhead: 0,
            burst: Bytes(65_536),
            limit: Bytes(15_000_000),
        };
        TcDevice::open(&world.host, "up0")
            .and_then(|mut device| device.add(&TcObject::tbf(slow)))
            .expect("tbf");
        let counters = world.folder.path().join("counters.json");
        let more = ["--rate", rate, "--json", counters.to_str().expect("UTF-8")];
        let running = world.start_with(policy, &more);
        let load = Load::new(&world, &[5201, 5202]);
        let (mut share, mut total) = (0.0, 0);
        std::thread::scope(|scope| {
            let _ends = load.stop_at_end();
            for port in [5201, 5202] {
                load.start(scope, (port, 4), load.stop());
            }
            // A second of the slower one.
            load.wait_for_more(&[5201, 5202], 9_000_000);
            let before = load.arrived();
            std::thread::sleep(Duration::from_secs(4));
            let [a, b] = std::array::from_fn(|i| load.arrived()[i] - before[i]);
            (share, total) = (a as f64 / b as f64, a + b);
        });
        let again = retransmitted(&world.app);
        let (said, document) = end(running, &counters);
        let dropped = document["conservation"]["dropped_packets"].as_u64().expect("dropped");
        let told =
            format!("--rate {rate}: {share:.3} for 3, {total} bytes, {again} sent again, {dropped} dropped");
        println!("{told}");
        assert!((2.85..=3.15).contains(&share), "{told}");
        assert!(dropped == 0 && again <= 5, "{told}, {said:?}");
        assert!(
            document["classes"][0]["bytes"].as_u64().is_some_and(|bytes| bytes > 10_000_000),
            "{document}"
        );
    }
}

/// Sends a datagram of `bytes` from one namespace to the other and back, as one packet or not at all.
fn echo(world: &World, bytes: usize) -> Result<(), String> {
    let bind = |ns: &NetNs, at| ns.run(|| UdpSocket::bind((at, 7000))).expect("enter").expect("bind");
    let (near, far) = (bind(&world.app, NEAR), bind(&world.far, FAR));
    for socket in [&near, &far] {
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("timeout");
    }
    let mut last = String::new();
    let mut buffer = vec![0; 70_000];
    // The first may wait for ARP, and a loaded machine may be late.
    for _ in 0..6 {
        for (from, to, at) in [(&near, &far, FAR), (&far, &near, NEAR)] {
            if let Err(error) = from.send_to(&vec![3; bytes], (at, 7000)) {
                last = format!("send to {at}: {error}");
                break;
            }
            match to.recv(&mut buffer) {
                Ok(n) if n == bytes => last.clear(),
                other => last = format!("receive at {at}: {other:?}"),
            }
            if !last.is_empty() {
                break;
            }
        }
        if last.is_empty() {
            return Ok(());
        }
    }
    Err(last)
}

#[test]
fn the_port_has_the_mtu_of_its_uplink_and_follows_it() {
    if !privileged("the_port_has_the_mtu_of_its_uplink_and_follows_it") {
        return;
    }
    let world = World::new();
    let set = |mtu| {
        link::set_mtu(&world.host, "up0", mtu).expect("mtu");
        link::set_mtu(&world.far, "far0", mtu).expect("mtu");
    };
    let of_port = || link::show(&world.app, "weft0").expect("port").mtu;
    set(1400);
    let counters = world.folder.path().join("counters.json");
    let running = world.start(&["--json", counters.to_str().expect("UTF-8")]);
    assert_eq!(of_port(), 1400, "at its start");
    for mtu in [1400, 9000, 1300, 65_535, 1500] {
        set(mtu);
        assert!(until(SOON, || of_port() == mtu), "MTU {mtu}: the port's is {}", of_port());
        // IPv4 and UDP headers are 28 bytes.
        assert_eq!(echo(&world, mtu as usize - 28), Ok(()), "MTU {mtu}");
        transfer(&world.app, &world.far, FAR);
    }
    end(running, &counters);
    world.assert_clean();
}

#[test]
fn large_super_packets_are_not_cut_off() {
    if !privileged("large_super_packets_are_not_cut_off") {
        return;
    }
    let world = World::new();
    let counters = world.folder.path().join("counters.json");
    let running = world.start(&["--rate", "900mbps", "--json", counters.to_str().expect("UTF-8")]);
    // BIG TCP, set by an administrator during the run.
    let sizes = link::GsoSizes { max: 190_000, ipv4_max: Some(190_000) };
    let before = link::gso_sizes(&world.app, "weft0").expect("sizes");
    let sizes = link::GsoSizes { ipv4_max: before.ipv4_max.and(sizes.ipv4_max), ..sizes };
    link::set_gso_sizes(&world.app, "weft0", sizes).expect("BIG TCP");
    for _ in 0..5 {
        // The transfer asserts that the received bytes are those sent.
        transfer(&world.app, &world.far, FAR);
    }
    let now = || link::gso_sizes(&world.app, "weft0").expect("sizes");
    assert!(until(SOON, || now() == before), "{:?}: not what a ring can cut", now());
    let (_, document) = end(running, &counters);
    assert_eq!(document["conservation"]["dropped_packets"], 0);
}

#[test]
fn the_port_has_a_carrier_while_its_uplink_has() {
    if !privileged("the_port_has_a_carrier_while_its_uplink_has") {
        return;
    }
    let world = World::new();
    let counters = world.folder.path().join("counters.json");
    let running = world.start(&["--json", counters.to_str().expect("UTF-8")]);
    let has = || link::show(&world.app, "weft0").expect("port").running;
    for _ in 0..2 {
        link::set_down(&world.far, "far0").expect("down");
        assert!(until(SOON, || !has()), "the port keeps its carrier");
        link::set_up(&world.far, "far0").expect("up");
        assert!(until(SOON, has), "the port has no carrier again");
        transfer(&world.app, &world.far, FAR);
    }
    end(running, &counters);
    world.assert_clean();
}

#[test]
fn a_killed_run_leaves_no_port_that_swallows_packets() {
    if !privileged("a_killed_run_leaves_no_port_that_swallows_packets") {
        return;
    }
    let world = World::new();
    let running = world.start(&[]);
    transfer(&world.app, &world.far, FAR);
    running.signal(Signal::KILL);
    running.wait(SOON);
    let gone = || !link::exists(&world.app, "weft0").expect("links");
    assert!(until(SOON, gone), "the port is still there: {:?}", link::show(&world.app, "weft0"));
    let names = || link::list(&world.host).expect("links").into_iter().map(|l| l.name).collect::<Vec<_>>();
    assert!(until(SOON, || names() == ["lo", "up0"]), "{:?}", names());
}

#[test]
fn other_names_change_nothing() {
    if !privileged("other_names_change_nothing") {
        return;
    }
    let world = World::new();
    let counters = world.folder.path().join("counters.json");
    let running = world.start(&["--json", counters.to_str().expect("UTF-8")]);
    let rename = |ns: &NetNs, from: &str, to: &str| link::rename(ns, from, to).expect("rename");
    rename(&world.app, "weft0", "other0");
    rename(&world.host, "up0", "other1");
    for link in link::list(&world.host).expect("links") {
        if link.kind.as_deref() == Some("macvtap") {
            rename(&world.host, &link.name, "other2");
        }
    }
    // Another program's devices with the old names must not be taken for ours.
    link::create_veth((&world.app, "weft0"), (&world.host, "up0"), &Default::default()).expect("veth");
    link::set_mtu(&world.host, "up0", 1280).expect("mtu");
    std::thread::sleep(Duration::from_millis(500));
    transfer(&world.app, &world.far, FAR);
    assert_eq!(link::show(&world.app, "other0").expect("port").mtu, 1500, "its uplink is now other1");
    link::set_mtu(&world.host, "other1", 1400).expect("mtu");
    let followed = || link::show(&world.app, "other0").expect("port").mtu == 1400;
    assert!(until(SOON, followed), "the uplink is followed under its new name");
    end(running, &counters);
    let names = |ns: &NetNs| link::list(ns).expect("links").into_iter().map(|l| l.name).collect::<Vec<_>>();
    assert_eq!(names(&world.app), ["lo", "weft0"]);
    assert_eq!(names(&world.host), ["lo", "other1", "up0"]);
}

/// Returns the links in the test's namespaces.
fn inventory(world: &World) -> Vec<Vec<(String, u32)>> {
    let of = |ns| link::list(ns).expect("links").into_iter().map(|l| (l.name, l.index)).collect();
    [&world.app, &world.host, &world.far].map(of).into()
}

#[test]
fn a_second_run_with_the_same_name_or_address_is_refused_before_anything_is_made() {
    if !privileged("a_second_run_with_the_same_name_or_address_is_refused_before_anything_is_made") {
        return;
    }
    let world = World::new();
    let mac = "02:00:5e:00:00:07";
    let counters = world.folder.path().join("counters.json");
    let first = world.start(&["--mac", mac, "--json", counters.to_str().expect("UTF-8")]);
    let before = inventory(&world);
    let policy = common::file(&world.folder, "second.weft", POLICY);
    let second = |name: &str, mac: &str| {
        let said: Said = weft()
            .args(["run", &policy, "--uplink", "up0", "--uplink-netns", world.host.name()])
            .args(["--netns", world.app.name(), "--name", name, "--mac", mac, "--duration", "1"])
            .output()
            .expect("run")
            .into();
        assert_eq!(said.code, 1, "{said:?}");
        assert_eq!(inventory(&world), before, "{said:?}");
        said.err
    };
    let own = link::get_mac(&world.host, "up0").expect("link").expect("mac").to_string();
    let taken = second("weft1", mac);
    assert!(taken.contains(mac) && taken.contains("--mac"), "{taken}");
    let taken = second("weft1", &own);
    assert!(taken.contains(&own) && taken.contains("--mac"), "{taken}");
    let taken = second("weft0", &Mac::local(9).to_string());
    assert!(taken.contains("weft0") && taken.contains("--name"), "{taken}");
    transfer(&world.app, &world.far, FAR);
    end(first, &counters);
    world.assert_clean();
}

#[test]
fn in_one_namespace_each_device_answers_for_its_own_address() {
    if !privileged("in_one_namespace_each_device_answers_for_its_own_address") {
        return;
    }
    let mut world = World::new();
    // The port is in the same namespace as its uplink.
    world.app = world.host.handle().expect("handle");
    link::add_address(&world.host, "up0", "10.97.0.9".parse().expect("address"), 24).expect("address");
    let settings = ["arp_ignore", "arp_announce"].map(|name| format!("net/ipv4/conf/up0/{name}"));
    let read = || settings.each_ref().map(|key| sysctl::get(&world.host, key).expect("setting"));
    let before = read();
    let counters = world.folder.path().join("counters.json");
    let mac = "02:00:5e:00:00:07";
    let running = world.start(&["--mac", mac, "--json", counters.to_str().expect("UTF-8")]);
    assert_eq!(read(), ["1", "2"]);
    let far = world.far.run(|| UdpSocket::bind((FAR, 0))).expect("enter").expect("bind");
    let known = || {
        world.far.run(|| std::fs::read_to_string("/proc/thread-self/net/arp")).expect("enter").expect("arp")
    };
    let resolved = || {
        let _ = far.send_to(b"?", (NEAR, 7000));
        known().lines().any(|line| line.starts_with("10.97.0.1 ") && !line.contains("00:00:00:00:00:00"))
    };
    assert!(until(SOON, resolved), "{}", known());
    let line = known().lines().find(|line| line.starts_with("10.97.0.1 ")).expect("entry").to_owned();
    assert!(line.contains(mac), "{line}");
    running.signal(Signal::TERM);
    assert_eq!(running.wait(Duration::from_secs(30)).code, 143);
    assert_eq!(read(), before, "restored");
}

#[test]
fn the_live_line_says_what_was_dropped_and_why() {
    if !privileged("the_live_line_says_what_was_dropped_and_why") {
        return;
    }
    let world = World::new();
    let counters = world.folder.path().join("counters.json");
    let policy = "class u = udp\nroot = wfq { u: 1, default: 1 }\n";
    let mut running =
        world.start_with(policy, &["--rate", "1mbps", "--json", counters.to_str().expect("UTF-8")]);
    let lines = BufReader::new(running.0.stderr.take().expect("standard error")).lines();
    let (told, seen) = (&AtomicBool::new(false), &Mutex::new(Vec::new()));
    // A ring holds 2000 packets, and a socket's send buffer fewer.
    let sockets: Vec<UdpSocket> = (0..24)
        .map(|_| world.app.run(|| UdpSocket::bind((NEAR, 0))).expect("enter").expect("bind"))
        .collect();
    for socket in &sockets {
        socket.set_nonblocking(true).expect("nonblocking");
    }
    let document = std::thread::scope(|scope| {
        scope.spawn(move || {
            for line in lines.map(|line| line.expect("UTF-8")) {
                let says = |words| line.contains(words);
                if says(" in the NIC, ") && says(" dropped (") && says("ring_full ") {
                    told.store(true, Ordering::Relaxed);
                }
                seen.lock().expect("lines").push(line);
            }
        });
        let _ = until(SOON, || {
            let send = |socket: &UdpSocket| socket.send_to(&[1; 100], (FAR, 7000)).is_ok();
            (0..50).for_each(|_| sockets.iter().for_each(|socket| _ = send(socket)));
            told.load(Ordering::Relaxed)
        });
        // Standard error ends with it, and the reader.
        end(running, &counters).1
    });
    assert!(told.load(Ordering::Relaxed), "{:?}", seen.lock());
    assert!(document["dropped"]["ring_full"].as_u64().is_some_and(|n| n > 0), "{document}");
}
