//! Packets that Titan leaves to the device's own choice: packets without a socket, flows that were active before it was
//! attached, flows beyond the bound. And the state that remains after it is detached.

use crate::common::assigned::{Assigned, Flow, get, slow};
use crate::common::bench::{socket, unspecified};
use crate::common::held::{HeldWire, STAYS};
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto};
use weft_host::link::{self, Mac, Route, VethOptions};
use weft_host::netns::NetNs;
use weft_host::sysctl;
use weft_host::tc::{self, Filter, FilterRule, Handle, TcDevice, TcObject};
use weft_host::testing::{privileged, unique, wait_for};
use weft_nic::multiqueue::{Multiqueue, start_over};
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_titan::device::Titan;
use weft_titan::error::TitanError;
use weft_titan::page::{Load, LoadWord};
use weft_titan::settings::Settings;
use weft_units::BitsPerSec;

/// A host routed through the sender, whose packets the sender forwards to the port.
fn host_behind(bed: &Testbed) -> NetNs {
    let far = NetNs::create(&unique("far")).expect("namespace");
    let sender = &bed.sender;
    let macs = [Some(Mac::local(10)), Some(Mac::local(11))];
    link::create_veth((&far, "far0"), (sender, "far1"), &VethOptions { macs, ..VethOptions::default() })
        .expect("veth");
    for (ns, name, address) in [(&far, "far0", "10.98.0.2"), (sender, "far1", "10.98.0.1")] {
        link::set_up(ns, name).expect("up");
        link::add_address(ns, name, address.parse().expect("address"), 24).expect("address");
    }
    link::wait_running(&far, "far0", weft_host::testing::PATIENCE).expect("far");
    sysctl::set(sender, "net.ipv4.ip_forward", "1").expect("forward");
    let (destination, gateway) = ("10.99.0.0".parse().expect("net"), "10.98.0.1".parse().ok());
    link::add_route(&far, &Route { destination, prefix_len: 24, link: None, gateway }).expect("route");
    far
}

/// Sends `count` ICMP echo requests by a raw socket of `ns`.
fn ping(ns: &NetNs, count: u64) {
    let open = || rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP));
    let raw = ns.run(open).expect("ns").expect("raw socket");
    let echo = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
    for _ in 0..count {
        let sent = rustix::net::sendto(&raw, &echo, SendFlags::empty(), &SocketAddr::new(RECEIVER, 0));
        assert_eq!(sent, Ok(echo.len()));
    }
}

#[test]
fn packets_without_a_socket_are_left_alone_and_counted() {
    if !privileged("packets_without_a_socket_are_left_alone_and_counted") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let assigned = Assigned::start("tps", &slow(50_000), &Settings::default());
    let totals = assigned.titan().totals();
    let far = host_behind(&assigned.bed);
    let forwarded = socket(&far, unspecified(false));
    // The first may be lost to ARP; wait until one has arrived.
    wait_for("a forwarded packet", || {
        forwarded.send_to(&[1; 10], assigned.sink.local_addr().expect("address")).expect("sent");
        assigned.delivered(0) > 0
    });
    let before = get(&totals.without_socket);
    assert!(before > 0);
    for _ in 0..50 {
        forwarded.send_to(&[2; 500], assigned.sink.local_addr().expect("address")).expect("sent");
    }
    assert_eq!(assigned.delivered(50), 50);
    assert_eq!(get(&totals.without_socket), before + 50);
    ping(&assigned.bed.sender, 20);
    wait_for("raw packets", || get(&totals.without_socket) >= before + 70);
    assert_eq!(get(&totals.without_socket), before + 70);
    // Packets of a socket in between are assigned as usual.
    let flow = assigned.flow();
    flow.send(10);
    assert_eq!(assigned.delivered(10), 10);
    assigned.settled();
    let packets: u64 = assigned.queues().iter().map(|queue| get(&queue.packets)).sum();
    assert_eq!((packets, assigned.titan().page().activations() > 0), (10, true), "{totals:?}");
    assert_eq!(assigned.titan().flows().len(), 1);
    assigned.finish();
}

#[test]
fn a_flow_under_way_is_left_alone_until_it_has_been_quiet() {
    if !privileged("a_flow_under_way_is_left_alone_until_it_has_been_quiet") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let bed = Testbed::create("tpu").expect("testbed");
    let (wire, uplink) = HeldWire::create(&bed);
    let nic = start_over(&bed, &Multiqueue { service: STAYS, ..slow(50_000) }, uplink).expect("nic");
    let mut assigned = Assigned::with(bed, nic);
    let (old, new) = (assigned.flow(), assigned.flow());
    // No packet leaves its ring until all are sent and what the programs made of them is read, however long that takes.
    let held = wire.hold(assigned.nic());
    old.send(60);
    assigned.attach(&Settings::default());
    old.send(20);
    new.send(20);
    let totals = assigned.titan().totals();
    assert_eq!(get(&totals.passed), 20, "{totals:?}");
    assert!(!assigned.record(&old).is_active());
    assert!(assigned.record(&new).is_active());
    let activations = assigned.titan().page().activations() - get(&totals.kept);
    assert_eq!((assigned.titan().page().active(), activations), (1, 1), "{totals:?}");
    // All its packets have left: its next packets are assigned.
    wire.release(assigned.nic(), held);
    assert_eq!(wire.delivered(100), 100);
    assigned.settled();
    let held = wire.hold(assigned.nic());
    old.send(20);
    assert!(assigned.record(&old).is_active());
    let activations = assigned.titan().page().activations() - get(&totals.kept);
    assert_eq!((get(&totals.passed), activations), (20, 2), "{totals:?}");
    wire.release(assigned.nic(), held);
    assert_eq!(wire.delivered(20), 20);
    assigned.settled();
    assigned.finish();
}

#[test]
fn no_more_flows_are_active_than_the_bound_says() {
    if !privileged("no_more_flows_are_active_than_the_bound_says") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let assigned = Assigned::start("tpb", &slow(2000), &Settings { most_flows: 4, ..Settings::default() });
    let flows: Vec<Flow> = (0..10).map(|_| assigned.flow()).collect();
    let totals = assigned.titan().totals();
    flows.iter().for_each(|flow| flow.send(20));
    assert_eq!(assigned.titan().page().active(), 4);
    assert!(get(&totals.beyond) >= 6, "{totals:?}");
    let active = |flow: &Flow| assigned.find(flow).is_some_and(|record| record.is_active());
    let at_work: Vec<bool> = flows.iter().map(active).collect();
    assert_eq!(at_work, core::array::from_fn::<bool, 10, _>(|i| i < 4), "the first four");
    let activations = assigned.titan().page().activations();
    assert_eq!(assigned.delivered(200), 200);
    assigned.settled();
    // The bound applies to flows active at the same time: now others get their turn.
    for round in 0..30 {
        flows[4 + round % 6].send(3);
        flows[round % 10].send(2);
        assert!(assigned.titan().page().active() <= 4, "{totals:?}");
    }
    assert!(assigned.titan().page().activations() > activations, "{totals:?}");
    assert_eq!(assigned.delivered(150), 150);
    assigned.settled();
    let later = flows.iter().skip(4).filter_map(|flow| assigned.find(flow));
    assert!(later.map(|record| record.bytes.get()).sum::<u64>() > 0, "later flows were assigned");
    assigned.finish();
}

#[test]
fn it_goes_and_comes_again_while_traffic_flows() {
    if !privileged("it_goes_and_comes_again_while_traffic_flows") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let mut assigned = Assigned::start("tpd", &slow(3000), &Settings::default());
    let mut sent = 0;
    for round in 0..3 {
        let flows: Vec<Flow> = (0..12).map(|_| assigned.flow()).collect();
        flows.iter().for_each(|flow| flow.send(15));
        let record = assigned.record(&flows[0]);
        assert!(record.is_active(), "{record:?}");
        let pinned = assigned.titan().state().pins.clone();
        assert!(pinned.exists());
        assert!(assigned.active() > 6, "{:?}", assigned.titan().totals());
        assigned.detach();
        assert!(!pinned.exists());
        let left = tc::filters(&assigned.bed.sender, "port0", Handle::EGRESS).expect("filters");
        let ours = left.iter().filter(|filter| format!("{filter:?}").contains(weft_titan::programs::FILTER));
        assert_eq!(ours.count(), 0, "{left:?}");
        let page = assigned.nic().queue_page();
        for (number, load) in page.loads.iter().enumerate() {
            assert_eq!(load.get(), Load::default(), "round {round}, queue {number}");
        }
        let gone = Titan::open(&assigned.bed.sender, "port0").err();
        assert!(matches!(gone, Some(TitanError::NotAttached { .. })), "{gone:?}");
        flows.iter().for_each(|flow| flow.send(5));
        sent += 12 * 20;
        assert_eq!(assigned.delivered(12 * 20), 12 * 20, "traffic goes on");
        for load in &assigned.nic().queue_page().loads {
            assert_eq!(load.get(), Load::default(), "nobody counts any more");
        }
        assigned.attach(&Settings::default());
        let twice = Titan::attach(&assigned.bed.sender, "port0", &Settings::default()).err();
        assert!(matches!(twice, Some(TitanError::Attached { .. })), "{twice:?}");
        let flow = assigned.flow();
        flow.send(10);
        assert_eq!(assigned.delivered(10), 10);
        sent += 10;
        // Packets outstanding at the detachment are in no current count.
        assigned.settled();
        let packets: u64 = assigned.queues().iter().map(|queue| get(&queue.packets)).sum();
        assert_eq!(packets, 10, "counted since it came");
    }
    let pinned = assigned.titan().state().pins.clone();
    let (totals, _) = assigned.finish();
    assert_eq!(totals.sum(|class| class.sent).packets.get(), sent);
    assert!(!pinned.exists(), "nothing is left");
}

/// Gives a link another name.
fn rename(ns: &NetNs, from: &str, to: &str) {
    let renamed = ns.run(|| {
        let set =
            |args: &[&str]| std::process::Command::new("ip").args(["link", "set", from]).args(args).status();
        // Where the kernel renames links that are up, the first call suffices.
        if set(&["name", to])?.success() {
            Ok(true)
        } else {
            set(&["down"])
                .and(set(&["name", to]))?
                .success()
                .then_some(true)
                .ok_or_else(|| std::io::Error::other("refused"))
        }
    });
    assert!(renamed.expect("namespace").expect("ip"), "{from} to {to}");
}

#[test]
fn it_goes_from_the_device_that_it_came_to_whatever_that_is_called() {
    if !privileged("it_goes_from_the_device_that_it_came_to_whatever_that_is_called") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let mut assigned = Assigned::start("tpn", &slow(50_000), &Settings::default());
    let sender = assigned.bed.sender.handle().expect("namespace");
    // Another device has its name now, and a filter of the same priority.
    rename(&sender, "port0", "port9");
    link::create_veth((&sender, "port0"), (&sender, "other1"), &VethOptions::default()).expect("veth");
    TcDevice::open(&sender, "port0").and_then(|mut device| device.add(&TcObject::clsact())).expect("clsact");
    let titans = tc::filters(&sender, "port9", Handle::EGRESS).expect("filters");
    let state = assigned.titan().state().clone();
    let id = titans
        .iter()
        .find(|f| f.priority == state.priority)
        .and_then(|f| f.program.as_ref())
        .expect("ours")
        .id;
    let program = weft_host::bpf::ProgramFd::by_id(id).expect("a program");
    let rule = FilterRule::Bpf { program: program.as_fd(), name: "another", direct_action: true };
    let foreign = Filter::new(Handle::EGRESS, state.priority, state.handle, rule);
    TcDevice::open(&sender, "port0")
        .and_then(|mut device| device.claim_filter(&foreign))
        .expect("another's filter");
    drop(program);
    let named = Titan::all(Some(&sender)).expect("all");
    assert_eq!(named.iter().map(|state| state.device.as_str()).collect::<Vec<_>>(), ["port9"]);
    assigned.detach();
    let left = |link: &str| tc::filters(&sender, link, Handle::EGRESS).expect("filters");
    let ours = left("port9")
        .iter()
        .filter(|f| f.program.as_ref().is_some_and(|p| p.name == weft_titan::programs::FILTER))
        .count();
    assert_eq!((left("port0").len(), ours), (1, 0), "another's stays, ours is gone");
    link::delete(&sender, "port0").expect("deleted");
    rename(&sender, "port9", "port0");
    assigned.finish();
}

#[test]
fn a_classifier_that_nobody_knows_of_is_not_joined_by_a_second() {
    if !privileged("a_classifier_that_nobody_knows_of_is_not_joined_by_a_second") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let assigned = Assigned::start("tpk", &slow(50_000), &Settings::default());
    let sender = &assigned.bed.sender;
    let state = assigned.titan().state().clone();
    // The state left by a process that is killed before it writes its record.
    use weft_host::device_record::DeviceRecord;
    state.remove(std::path::Path::new(weft_titan::state::FOLDER));
    let twice = Titan::attach(sender, "port0", &Settings::default()).err();
    let said = twice.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(matches!(twice, Some(TitanError::Unknown { .. })), "{twice:?}");
    assert!(said.contains(&format!("tc filter del dev port0 egress prio {}", state.priority)), "{said}");
    let filters = tc::filters(sender, "port0", Handle::EGRESS).expect("filters");
    let ours =
        filters.iter().filter(|f| f.program.as_ref().is_some_and(|p| p.name == weft_titan::programs::FILTER));
    assert_eq!(ours.count(), 1);
    assigned.finish();
}

#[test]
fn another_number_of_queues_and_much_forwarded_traffic_are_said() {
    if !privileged("another_number_of_queues_and_much_forwarded_traffic_are_said") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let assigned = Assigned::start("tpq", &slow(50_000), &Settings::default());
    let said = |word: &str| assigned.titan().notes().expect("notes").iter().any(|note| note.contains(word));
    assert!(!said("queues by now") && !said("without a socket"));
    assigned.titan().page().nic_queues.store(4, Ordering::Release);
    assert!(said("has 4 queues now, and flows are assigned to 8") && said("weft titan detach port0"));
    assigned.titan().page().nic_queues.store(8, Ordering::Release);
    assigned.titan().totals().without_socket.store(5000, Ordering::Relaxed);
    assert!(said("5000 packets arrived without a socket"));
    assigned.finish();
}

#[test]
fn the_page_is_empty_when_it_has_gone_from_a_busy_port() {
    if !privileged("the_page_is_empty_when_it_has_gone_from_a_busy_port") {
        return;
    }
    let _alone = weft_host::testing::alone();
    let wanted = Multiqueue::new(BitsPerSec(2_000_000_000));
    let mut assigned = Assigned::start("tpz", &wanted, &Settings::default());
    let flows: Vec<Flow> = (0..8).map(|_| assigned.flow()).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for flows in flows.chunks(4) {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    flows.iter().for_each(|flow| flow.send(2));
                    std::thread::yield_now();
                }
            });
        }
        // Also when the code below panics, since the scope waits for the senders.
        let _stop = Stop(&stop);
        let (mut wrong, mut counted) = (Vec::new(), 0);
        for round in 0..10 {
            std::thread::sleep(Duration::from_millis(20));
            // Flows that are never idle are not assigned: not every round has some.
            counted += assigned.titan().page().activations();
            assigned.detach();
            let at_once: Vec<_> = standing(&assigned);
            std::thread::sleep(Duration::from_millis(20));
            let later = standing(&assigned);
            if !at_once.is_empty() || !later.is_empty() {
                wrong.push((round, at_once, later));
            }
            assigned.attach(&Settings::default());
        }
        stop.store(true, Ordering::Relaxed);
        assert!(counted > 0, "flows were counted in");
        assert!(wrong.is_empty(), "round, queues with weight and flows: {wrong:?}");
    });
    assigned.settled();
    assigned.finish();
}

/// A guard that stops the senders when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Queues that have a weight or flows.
fn standing(assigned: &Assigned) -> Vec<(usize, Load)> {
    let loads = assigned.nic().queue_page().loads.iter().map(LoadWord::get).enumerate();
    loads.filter(|(_, load)| *load != Load::default()).collect()
}
