//! Many ports of one session: they reach the network and each other, and come and go without touching the others.

use crate::common;
use crate::common::numbered;
use crate::common::{
    FAR, GRACE, World, address, arrived, connect, finish, flood, retransmitted, transfer, udp,
};
use core::net::{IpAddr, Ipv4Addr};
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_host::NetNs;
use weft_host::link;
use weft_host::testing::{privileged, until};
use weft_run::session::{PortSettings, PortShare, PortState, Receive, Session, SessionError};

const ANY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);
const FAIR: &str = "root = fair of default";

fn names(session: &Session) -> Vec<String> {
    session.ports().into_iter().map(|port| port.name).collect()
}

#[test]
fn ports_reach_the_network_and_each_other_and_each_packet_arrives_once() {
    if !privileged("ports_reach_the_network_and_each_other_and_each_packet_arrives_once") {
        return;
    }
    for receive in [Receive::Kernel, Receive::Thread] {
        let world = World::new();
        let mut session = world.session(FAIR, 500);
        let apps: Vec<NetNs> = (0..3)
            .map(|number| {
                let app = common::add_namespace();
                let settings = PortSettings { receive, ..world.port(&app, number) };
                session.add_port(&settings).expect("port");
                app
            })
            .collect();
        transfer(&apps[0], (&apps[1], address(1)), 2_000_000);
        transfer(&apps[1], (&world.far, FAR), 2_000_000);
        transfer(&world.far, (&apps[2], address(2)), 2_000_000);
        for (to, port) in [(IpAddr::V4(Ipv4Addr::BROADCAST), 6001), (IpAddr::V4(GROUP), 6002)] {
            let others: Vec<_> = [&apps[1], &apps[2], &world.far].map(|ns| udp(ns, (ANY, port))).into();
            if port == 6002 {
                let ends = [address(1), address(2), FAR];
                for (socket, own) in others.iter().zip(ends) {
                    let IpAddr::V4(own) = own else { panic!("IPv4") };
                    socket.join_multicast_v4(&GROUP, &own).expect("join");
                }
            }
            let before = session.ports()[0].received.packets;
            let sender = udp(&apps[0], (address(0), 6000));
            let route = if port == 6002 { sender.set_multicast_ttl_v4(1) } else { Ok(()) };
            route.expect("time to live");
            sender.connect((to, port)).expect("a route");
            (0..50).for_each(|_| _ = sender.send(&[1; 50]).expect("send"));
            let counts: Vec<usize> = others.iter().map(arrived).collect();
            assert_eq!(counts, [50, 50, 50], "{receive:?} {to}");
            // The sender's own broadcast does not return. Memberships and ARP of others may arrive.
            let own = session.ports()[0].received.packets.saturating_sub(before);
            assert!(own.get() < 25, "{receive:?} {to}: {own} returned");
        }
        finish(session);
    }
}

/// Each port has a separate worker; what one sends to another passes both.
#[test]
fn ports_of_several_workers_reach_the_network_and_each_other() {
    if !privileged("ports_of_several_workers_reach_the_network_and_each_other") {
        return;
    }
    let world = World::new();
    let two = NonZeroUsize::new(2).expect("two");
    let mut session = world.session_of(two, FAIR, 500);
    let apps: Vec<NetNs> = (0..3).map(|number| world.add(&mut session, number)).collect();
    transfer(&apps[0], (&apps[1], address(1)), 2_000_000);
    transfer(&apps[1], (&world.far, FAR), 2_000_000);
    transfer(&world.far, (&apps[2], address(2)), 2_000_000);
    // A port that goes leaves its worker to the next.
    session.remove_port("p1", GRACE).expect("removed");
    let again = world.add(&mut session, 3);
    transfer(&again, (&apps[0], address(0)), 2_000_000);
    finish(session);
}

#[test]
fn names_and_addresses_are_unique_and_a_removed_port_s_are_free_again() {
    if !privileged("names_and_addresses_are_unique_and_a_removed_port_s_are_free_again") {
        return;
    }
    let world = World::new();
    let mut session = world.session(FAIR, 500);
    let app = world.add(&mut session, 0);
    let other = common::add_namespace();
    let same_name = PortSettings { netns: Some(other.name().to_owned()), ..world.port(&app, 0) };
    assert!(
        matches!(session.add_port(&same_name), Err(SessionError::PortExists { name }) if name == "p0"),
        "by name"
    );
    let same_mac = PortSettings { mac: world.port(&app, 0).mac, ..world.port(&other, 1) };
    let refused = session.add_port(&same_mac).expect_err("the address is taken").to_string();
    assert!(refused.contains("is in use on up0"), "{refused}");
    link::create_veth((&other, "p1"), (&other, "peer"), &link::VethOptions::default()).expect("veth");
    assert!(matches!(session.add_port(&world.port(&other, 1)), Err(SessionError::NameTaken { .. })));
    let many = PortSettings { share: PortShare { rings: 1, flows: 10, spare: 0 }, ..world.port(&other, 2) };
    assert!(session.add_port(&many).is_err(), "a lane and infrastructure need two rings");
    assert_eq!(names(&session), ["p0"]);
    // Two names that begin alike.
    for name in ["container-a-00", "container-a-01"] {
        let number = 10 + usize::from(name.ends_with('1'));
        let settings = PortSettings { name: name.to_owned(), ..world.port(&other, number) };
        session.add_port(&settings).expect("a port");
    }
    let error = session.remove_port("p9", GRACE).expect_err("no such port").to_string();
    assert!(error.contains("p9") && error.contains("container-a-00"), "{error}");
    let last = session.remove_port("p0", GRACE).expect("removed");
    assert_eq!((last.name.as_str(), last.state), ("p0", PortState::Running));
    assert!(!link::exists(&app, "p0").expect("look"));
    session.add_port(&world.port(&app, 0)).expect("again");
    transfer(&app, (&world.far, FAR), 100_000);
    finish(session);
}

/// The network's host and two ports under load, while other ports come and go.
#[test]
fn ports_come_and_go_without_touching_the_others() {
    if !privileged("ports_come_and_go_without_touching_the_others") {
        return;
    }
    let text = "class a = tcp port 5301\nclass b = tcp port 5302\nroot = wfq { fair of a: 3, fair of b: 1, default: 1 }";
    let world = World::new();
    let mut session = world.session(text, 300);
    let [first, second] = [0, 1].map(|number| world.add(&mut session, number));
    let (stop, counts) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
    std::thread::scope(|scope| {
        for (from, port, count) in [(&first, 5301, &counts[0]), (&second, 5302, &counts[1])] {
            for _ in 0..2 {
                flood(scope, connect(from, (&world.far, FAR), port), &stop, count);
            }
        }
        std::thread::sleep(Duration::from_secs(1));
        let resent = || retransmitted(&first) + retransmitted(&second);
        let (before, was) = (counts.each_ref().map(|c| c.load(Ordering::Relaxed)), resent());
        let other = common::add_namespace();
        let start = Instant::now();
        for round in 0..10 {
            session.add_port(&world.port(&other, 2)).expect("port");
            transfer(&other, (&world.far, FAR), 200_000);
            let last = session.remove_port("p2", GRACE).expect("removed");
            assert!(last.sent.bytes.get() > 200_000, "round {round}: {last:?}");
        }
        let took = start.elapsed();
        let [a, b] = [0, 1].map(|i| counts[i].load(Ordering::Relaxed) - before[i]);
        let (share, resent) = (a as f64 / b as f64, resent() - was);
        println!("share {share:.3} for 3, {resent} sent again, 10 rounds in {took:?}");
        stop.store(true, Ordering::Relaxed);
        assert!((2.7..=3.3).contains(&share), "{share}");
        assert_eq!(resent, 0, "segments of other ports were sent again");
    });
    finish(session);
}

#[test]
fn a_deleted_namespace_or_device_is_reported_and_ends_no_other_port() {
    if !privileged("a_deleted_namespace_or_device_is_reported_and_ends_no_other_port") {
        return;
    }
    let world = World::new();
    let mut session = world.session(FAIR, 500);
    let mut apps: Vec<NetNs> = (0..3).map(|number| world.add(&mut session, number)).collect();
    assert_eq!(session.warnings(), [""; 0]);
    let deleted = std::process::Command::new("ip").args(["netns", "del", apps[0].name()]).status();
    assert!(deleted.expect("ip").success());
    let gone = std::process::Command::new("ip").args(["-n", apps[1].name(), "link", "del", "p1"]).status();
    assert!(gone.expect("ip").success());
    let states = |session: &mut Session| {
        let _ = session.status().expect("status");
        session.ports().into_iter().map(|port| port.state).collect::<Vec<_>>()
    };
    let expected = [PortState::NamespaceDeleted, PortState::DeviceDeleted, PortState::Running];
    assert!(until(Duration::from_secs(5), || states(&mut session) == expected), "{:?}", states(&mut session));
    assert_eq!(session.warnings().len(), 2, "{:?}", session.warnings());
    assert!(session.is_running());
    transfer(&apps[2], (&world.far, FAR), 500_000);
    for name in ["p0", "p1"] {
        session.remove_port(name, GRACE).expect("removed");
    }
    assert_eq!(names(&session), ["p2"]);
    apps[0] = world.add(&mut session, 0);
    transfer(&apps[0], (&apps[2], address(2)), 500_000);
    finish(session);
}

#[test]
fn a_session_whose_only_port_is_deleted_says_so_and_takes_another() {
    if !privileged("a_session_whose_only_port_is_deleted_says_so_and_takes_another") {
        return;
    }
    let world = World::new();
    let mut session = world.session(FAIR, 500);
    let app = world.add(&mut session, 0);
    assert!(session.is_running());
    link::delete(&app, "p0").expect("delete");
    assert!(until(Duration::from_secs(20), || !session.is_running()), "the session does not notice it");
    assert!(session.workers_run());
    assert_eq!(session.ports()[0].state, PortState::DeviceDeleted);
    let other = world.add(&mut session, 1);
    assert!(session.is_running());
    transfer(&other, (&world.far, FAR), 500_000);
    session.remove_port("p0", GRACE).expect("removed");
    let again = world.add(&mut session, 0);
    transfer(&again, (&other, address(1)), 500_000);
    finish(session);
}

#[test]
fn sixty_four_ports_share_by_the_policy() {
    if !privileged("sixty_four_ports_share_by_the_policy") {
        return;
    }
    const PORTS: usize = 64;
    let text = "class a = udp and dport 7001\nclass b = udp and dport 7002\nroot = wfq { fair of a: 3, fair of b: 1, default: 1 }";
    let world = World::new();
    let mut session = world.session(text, 200);
    let start = Instant::now();
    let apps: Vec<NetNs> = (0..PORTS).map(|number| world.add(&mut session, number)).collect();
    println!("{PORTS} ports in {:?}", start.elapsed());
    let stop = AtomicBool::new(false);
    let share = std::thread::scope(|scope| {
        for (number, app) in apps.iter().enumerate() {
            let (stop, to) = (&stop, (FAR, 7001 + (number % 2) as u16));
            scope.spawn(move || {
                let socket = udp(app, (ANY, 0));
                while !stop.load(Ordering::Relaxed) {
                    // A full class refuses.
                    (0..20).for_each(|_| _ = socket.send_to(&[3; 1400], to));
                    std::thread::sleep(Duration::from_millis(10));
                }
            });
        }
        std::thread::sleep(Duration::from_secs(2));
        let mut sent = || {
            let classes = session.status().expect("status").classes;
            [classes[0].bytes, classes[1].bytes]
        };
        let before = sent();
        std::thread::sleep(Duration::from_secs(4));
        let now = sent();
        stop.store(true, Ordering::Relaxed);
        (now[0] - before[0]) as f64 / (now[1] - before[1]) as f64
    });
    let ports = session.ports();
    let least = ports.iter().map(|port| port.sent.packets.get()).min();
    println!("share {share:.3} for 3, the least port sent {least:?} packets");
    assert!((2.7..=3.3).contains(&share), "{share}");
    assert!(ports.len() == PORTS && least > Some(10), "{least:?}");
    assert!(ports.iter().all(|port| port.state == PortState::Running));
    finish(session);
}

#[test]
fn bursts_of_a_socket_keep_their_order_on_a_busy_host() {
    if !privileged("bursts_of_a_socket_keep_their_order_on_a_busy_host") {
        return;
    }
    let world = World::new();
    let mut session = world.session(FAIR, 500);
    let apps: Vec<NetNs> = (0..2).map(|number| world.add(&mut session, number)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The scheduler has reasons to move threads: three more than there are processors.
        let busy = std::thread::available_parallelism().map_or(1, usize::from) + 3;
        for _ in 0..busy {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::black_box(0_u64);
                }
            });
        }
        let sinks = [7000, 7001].map(|port| numbered::receive(scope, (&world.far, (FAR, port)), &stop));
        let senders = [(&apps[0], 7000), (&apps[1], 7001)].map(|(ns, port)| {
            numbered::send(scope, (ns, (FAR, port)), (60, 400, Duration::from_millis(1)), &stop)
        });
        std::thread::sleep(Duration::from_millis(1500));
        stop.store(true, Ordering::Relaxed);
        let sent = senders.map(|sender| sender.join().expect("sender"));
        let passed = sinks.map(|sink| sink.join().expect("sink"));
        println!("sent {sent:?}, arrived {passed:?}");
        assert!(passed.iter().all(|of| of.count > 0 && of.overtaken == 0), "{passed:?}");
    });
    finish(session);
}
