//! Limits of ports on real packets: they hold in each window, delay no other port, and come and go under load.

use crate::common;
use crate::common::numbered::{receive, send};
use crate::common::{FAR, World, add_namespace, address, finish, udp};
use core::net::{IpAddr, Ipv4Addr};
use core::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use weft_facts::ports::{LimitedPort, PortLimit};
use weft_host::NetNs;
use weft_host::testing::{privileged, until};
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile};
use weft_run::session::{PortSettings, Session, WireCounters};
use weft_units::{BitsPerSec, Bytes};

const LINK: BitsPerSec = BitsPerSec(300_000_000);
const RATE: BitsPerSec = BitsPerSec(10_000_000);
const BURST: Bytes = Bytes(15_000);
/// The bytes of a datagram, and of its frame on the wire.
const DATAGRAM: usize = 1000;
const FRAME: u64 = 1000 + 28 + 14 + 24;
/// The largest lag of the link's clock behind the wall clock, and the furthest that it is ahead.
const CLOCK_ERROR: Duration = Duration::from_millis(10 + 2);
/// The number of times that a limit comes and goes.
const ROUNDS: u32 = 10;
const SOCKET: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// A class of each port, so that their bytes are counted apart. The operator's policy, which says nothing of limits.
const POLICY: &str = "class a = port \"p0\"\nclass b = port \"p1\"\n\
                      root = wfq { fair of a: 1, fair of b: 1, default: 1 }\n";

fn limited(ports: &[&str]) -> CompiledPolicy {
    let limit =
        |port: &&str| LimitedPort { port: (*port).to_owned(), limit: PortLimit { rate: RATE, burst: BURST } };
    let options =
        CompileOptions { port_limits: ports.iter().map(limit).collect(), ..CompileOptions::default() };
    compile(Source { name: "test", text: POLICY }, &options).policy.expect("a policy")
}

/// Puts the policy in force with limits of these ports.
fn limit(session: &mut Session, ports: &[&str]) {
    let link = LinkKind::Device(DeviceLink { rate: LinkRate::Given, piece: None });
    let prepared = session.prepare_policy(&limited(ports), (LINK, link)).expect("prepared");
    session.change_policy(prepared).expect("changed");
}

fn number_of(session: &mut Session, name: &str) -> usize {
    let classes = session.class_counts().expect("counts");
    classes.iter().find(|class| class.name == name).expect("a class").number
}

/// The wire bytes of a class between two times.
#[derive(Clone, Copy, Debug)]
struct Reading {
    before: Instant,
    after: Instant,
    bytes: u64,
}

fn read(counters: &WireCounters, class: usize) -> Reading {
    let before = Instant::now();
    let bytes = counters.sent(class).bytes.get();
    Reading { before, after: Instant::now(), bytes }
}

/// The bytes that the limit lets pass in `span`: the rate, the burst and a packet.
fn allowed(span: Duration) -> f64 {
    RATE.get() as f64 / 8.0 * (span + CLOCK_ERROR).as_secs_f64() + (BURST.get() + FRAME) as f64
}

/// Asserts the limit between any two readings that are at least 100 ms apart, and returns the part of it that is used.
fn check(readings: &[Reading]) -> f64 {
    let mut end = 0;
    for (at, first) in readings.iter().enumerate() {
        while end < readings.len() && readings[end].before < first.after + Duration::from_millis(100) {
            end += 1;
        }
        let Some(last) = readings.get(end) else { break };
        let (bytes, span) = (last.bytes - first.bytes, last.after - first.before);
        assert!(bytes as f64 <= allowed(span), "window {at}: {bytes} bytes in {span:?}");
    }
    let (first, last) = (readings[0], readings[readings.len() - 1]);
    (last.bytes - first.bytes) as f64 / allowed(last.before - first.after)
}

/// A session with the ports `p0` and `p1`, and their namespaces.
fn session(world: &World, limits: &[&str], ingress: Option<PortLimit>) -> (Session, [NetNs; 2]) {
    let mut session = world.session(POLICY, LINK.get() / 1_000_000);
    limit(&mut session, limits);
    let mut add = |number, ingress| {
        let app = add_namespace();
        let settings = PortSettings { ingress, ..world.port(&app, number) };
        session.add_port(&settings).expect("port");
        app
    };
    let apps = [add(0, ingress), add(1, None)];
    (session, apps)
}

#[test]
fn a_limit_of_a_port_holds_from_its_first_packet_and_holds_no_other_port_back() {
    if !privileged("a_limit_of_a_port_holds_from_its_first_packet_and_holds_no_other_port_back") {
        return;
    }
    let world = World::new();
    let (mut session, [slow, free]) = session(&world, &["p0"], None);
    let [class, free_class] = ["a", "b"].map(|name| number_of(&mut session, name));
    let counters = session.wire_counters();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sink = receive(scope, (&world.far, (FAR, 7001)), &stop);
        let idle = receive(scope, (&world.far, (FAR, 7000)), &stop);
        // Five times the limit's rate, and twice as much beside it.
        let begin = Instant::now();
        let mut readings = vec![read(&counters, class)];
        let flood = send(scope, (&slow, (FAR, 7000)), (12, DATAGRAM, Duration::from_millis(2)), &stop);
        let other = send(scope, (&free, (FAR, 7001)), (20, DATAGRAM, Duration::from_millis(2)), &stop);
        while begin.elapsed() < Duration::from_millis(2500) {
            std::thread::sleep(Duration::from_millis(10));
            readings.push(read(&counters, class));
        }
        stop.store(true, Ordering::Relaxed);
        let (sent, passed) = (other.join().expect("sender"), sink.join().expect("sink"));
        let _ = (flood.join(), idle.join());
        let first =
            readings.iter().take_while(|r| r.after < begin + Duration::from_secs(1)).last().expect("one");
        let most = RATE.get() / 8 + BURST.get() + FRAME;
        println!("first second: {} bytes of {most}", first.bytes - readings[0].bytes);
        assert!(first.bytes - readings[0].bytes <= most, "{} of {most}", first.bytes - readings[0].bytes);
        let used = check(&readings);
        println!("{used:.3} of what is allowed; the other port {} of {sent}", passed.count);
        assert!(used > 0.8, "the rate is not reached: {used}");
        // The receiver's socket may have been full.
        assert_eq!(counters.sent(free_class).packets.get(), sent, "the other port loses nothing");
        assert_eq!(passed.overtaken, 0);
    });
    session.remove_port("p0", common::GRACE).expect("removed");
    finish(session);
}

#[test]
fn limits_come_and_go_under_load_and_another_port_loses_nothing() {
    if !privileged("limits_come_and_go_under_load_and_another_port_loses_nothing") {
        return;
    }
    let world = World::new();
    let (mut session, [slow, free]) = session(&world, &[], None);
    let [class, other] = ["a", "b"].map(|name| number_of(&mut session, name));
    let counters = session.wire_counters();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let sinks = [7000, 7001].map(|port| receive(scope, (&world.far, (FAR, port)), &stop));
        let senders = [(&slow, 7000), (&free, 7001)]
            .map(|(ns, port)| send(scope, (ns, (FAR, port)), (4, DATAGRAM, Duration::from_millis(2)), &stop));
        let mut all = 0.0;
        for _ in 0..ROUNDS {
            limit(&mut session, &["p0"]);
            let mut readings = Vec::new();
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(250) {
                readings.push(read(&counters, class));
                std::thread::sleep(Duration::from_millis(10));
            }
            let used = check(&readings);
            all += used;
            limit(&mut session, &[]);
            std::thread::sleep(Duration::from_millis(100));
        }
        stop.store(true, Ordering::Relaxed);
        let sent = senders.map(|sender| sender.join().expect("sender"));
        let passed = sinks.map(|sink| sink.join().expect("sink"));
        println!("sent {sent:?}, arrived {passed:?}, {:.3} of what is allowed", all / f64::from(ROUNDS));
        assert!(all > 0.5 * f64::from(ROUNDS), "limits do not stop the port: {all}");
        // The receiver's socket may have been full.
        assert_eq!(counters.sent(other).packets.get(), sent[1], "the other port loses nothing");
        assert_eq!((passed[0].overtaken, passed[1].overtaken), (0, 0), "and both keep their order");
    });
    finish(session);
}

#[test]
fn what_a_port_receives_is_limited_and_goes_with_the_port() {
    if !privileged("what_a_port_receives_is_limited_and_goes_with_the_port") {
        return;
    }
    let world = World::new();
    let ingress = Some(PortLimit { rate: RATE, burst: BURST });
    let (mut session, [slow, free]) = session(&world, &[], ingress);
    for (number, limited) in [(0, true), (1, false)] {
        let app = if limited { &slow } else { &free };
        let sink = udp(app, (SOCKET, 7000));
        sink.set_read_timeout(Some(Duration::from_millis(100))).expect("timeout");
        let source = udp(&world.far, (SOCKET, 0));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut sent = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    for _ in 0..12 {
                        sent += u64::from(source.send_to(&[7; DATAGRAM], (address(number), 7000)).is_ok());
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
                sent
            });
            let (mut buffer, mut count) = ([0; 2000], 0_u64);
            assert!(until(common::SOON, || sink.recv(&mut buffer).is_ok()), "the first packet");
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_secs(1) {
                count += u64::from(sink.recv(&mut buffer).is_ok());
            }
            stop.store(true, Ordering::Relaxed);
            let sent = sender.join().expect("sender");
            while sink.recv(&mut buffer).is_ok() {
                count += 1;
            }
            let bytes = count * FRAME;
            // What waits, at most 25 ms at the rate, arrives in the end.
            let most = allowed(begin.elapsed() + Duration::from_millis(25));
            println!("port {number}: {count} of {sent} datagrams, {bytes} bytes, {most:.0} allowed");
            if limited {
                assert!(bytes as f64 <= most && bytes > RATE.get() / 8 * 7 / 10, "{bytes} of {most}");
            } else {
                assert!(count + 20 > sent, "{count} of {sent}");
            }
        });
    }
    session.remove_port("p0", common::GRACE).expect("removed");
    finish(session);
}
