//! The match tables in the kernel: the same result as in user space, and replacement while packets are classified by them.

use crate::common::bench;
use crate::common::bench::{Bench, Until, conserved, in_order_so_far, policy};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weft_host::Hierarchy;
use weft_host::bpf::SkbFields;
use weft_nic::doorbell::{CgroupEntry, Doorbells, NicMaps, PortNumbers, PrepareError, RingPlace};
use weft_nic::plan::{Mode, PortShare, RingPlan};
use weft_nic::testbed::RECEIVER;
use weft_policy::CompiledPolicy;
use weft_units::{FlowKey, LaneId, Nanos, PacketMeta, Protocol, VlanTag};

/// A plan in which every packet is classified: no flow is tracked, and no bound refuses a packet.
fn plan_of(policy: &CompiledPolicy) -> RingPlan {
    let mut plan = RingPlan::new(policy, Mode::Loom, 256, &[]).expect("plan");
    for lane in &mut plan.lanes {
        (lane.flow_bound, lane.packet_bound) = (0, 0);
    }
    plan
}

/// The plan of the port `name`, in which every packet is classified.
fn port_plan(plan: &RingPlan, name: &str) -> RingPlan {
    let share = PortShare { rings: 256, flows: 1, spare: 0 };
    let mut plan = plan.of_port(name, Mode::Loom, share, &[]).expect("plan");
    for lane in &mut plan.lanes {
        (lane.flow_bound, lane.packet_bound) = (0, 0);
    }
    plan
}

fn below(rng: &mut TestRng, count: usize) -> usize {
    use proptest::prelude::Rng as _;
    rng.next_u32() as usize % count
}

fn pick<'a>(rng: &mut TestRng, of: &[&'a str]) -> &'a str {
    of[below(rng, of.len())]
}

/// A random conjunction of tests.
fn alternative(rng: &mut TestRng) -> String {
    let (low, port) = (below(rng, 16), below(rng, 60) + 1);
    let len = [24, 28, 30, 31, 32][below(rng, 5)];
    let net = |low: usize| low & !((1 << (32 - len)) - 1) & 15;
    let test = |rng: &mut TestRng| match below(rng, 16) {
        0 => pick(rng, &["tcp", "udp", "protocol 50"]).to_owned(),
        1 | 2 => format!("to 10.0.0.{}/{len}", net(low)),
        3 => format!("from 10.0.1.{}/{len}", net(low)),
        4 => format!("to fd00::{low:x}"),
        5 => format!("dport {port}"),
        6 => format!("dport {port}..{}", port + below(rng, 40)),
        7 => format!("sport {port}..{}", port + below(rng, 9)),
        8 => format!("mark {}/{}", low & 5, 5),
        9 => format!("priority {}", below(rng, 4)),
        10 => format!("cgroup \"{}\"", pick(rng, &["/mine", "/none", "/other"])),
        11 => format!("{} {}", pick(rng, &["vlan", "pcp"]), low & 3),
        12 => format!("dscp {}", low & 3),
        13 => format!("ecn {}", low & 3),
        14 => pick(rng, &["user 0", "user 7", "classid 1:1", "cookie 1", "process \"nginx\""]).to_owned(),
        _ => format!("port \"{}\"", pick(rng, &["a", "b"])),
    };
    let first = test(rng);
    if below(rng, 3) == 0 { first } else { format!("{first} and {}", test(rng)) }
}

/// Eight classes of `each` alternatives, six of them below limits by destination and four of these below limits by port: 62
/// lanes for port a and 38 for the others.
fn random_policy(rng: &mut TestRng, each: usize) -> String {
    let mut text = String::new();
    for class in 0..8 {
        // One that names every cgroup and port, so that their numbers are the same in all policies.
        let first = if class == 0 {
            "mark 77 and (cgroup \"/mine\" or cgroup \"/none\" or cgroup \"/other\" or port \"a\" or port \"b\")"
        } else {
            "mark 77"
        };
        let alternatives: Vec<String> = (0..each).map(|_| format!("({})", alternative(rng))).collect();
        text += &format!("class c{class} = ({first}) or {}\n", alternatives.join(" or "));
    }
    let limits = "10.0.0.0/28: 1gbps, 10.0.0.4/30: 1gbps, 10.0.0.5: 1gbps, fd00::/126: 1gbps";
    let ports = "limit by port { \"a\": 1gbps, \"b\": 2gbps }";
    text + &format!(
        "four = {ports} of wfq {{ c0: 1, c1: 1, c2: 1, c3: 1 }}\nsix = limit by destination {{ {limits} }} of wfq {{ four: 1, c4: 1, c5: 1 }}\nc = {ports} of c6\nroot = wfq {{ six: 1, c: 1, c7: 1 }}\n"
    )
}

/// The sender of a frame of a test: a socket of the kernel, whose user is root, whose cookie no policy has, and which no process made.
const SENDER: PacketMeta = PacketMeta {
    key: None,
    mark: 0,
    priority: 0,
    cgroups: 0,
    port: 0,
    vlan: None,
    traffic_class: 0,
    user: Some(0),
    cookie: u64::MAX,
    process: None,
    classid: 0,
};

/// A random frame, and what a policy may test of it.
fn random_packet(rng: &mut TestRng) -> (Vec<u8>, SkbFields, PacketMeta) {
    let given = SkbFields { mark: below(rng, 8) as u32, priority: below(rng, 4) as u32 };
    let mut meta = PacketMeta { mark: given.mark, priority: given.priority, ..SENDER };
    let mut frame = vec![2; 12];
    for _ in 0..below(rng, 3) {
        let tag = VlanTag { id: below(rng, 4) as u16, priority: below(rng, 4) as u8 };
        meta.vlan = meta.vlan.or(Some(tag));
        frame.extend([0x81, 0].iter().chain(&tag.control().to_be_bytes()));
    }
    if below(rng, 12) == 0 {
        frame.extend([0x88, 0xb5]);
        frame.resize(68, 0);
        return (frame, given, meta);
    }
    let (low, from) = (below(rng, 16) as u16, below(rng, 16) as u16);
    let protocol = [6, 17, 50][below(rng, 3)];
    let (sport, dport) = match protocol {
        50 => (0, 0),
        // Below those of DHCP, which is infrastructure.
        _ => (below(rng, 60) as u16, below(rng, 100) as u16),
    };
    let six = below(rng, 4) == 0;
    meta.traffic_class = below(rng, 16) as u8;
    let (src, dst): (IpAddr, IpAddr) = if six {
        let address = |low| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, low);
        let class = meta.traffic_class;
        frame.extend([0x86, 0xdd, 0x60 | class >> 4, class << 4, 0, 0, 0, 20, protocol, 64]);
        frame.extend(address(from).octets().iter().chain(&address(low).octets()));
        (address(from).into(), address(low).into())
    } else {
        let (src, dst) = (Ipv4Addr::new(10, 0, 1, from as u8), Ipv4Addr::new(10, 0, 0, low as u8));
        frame.extend([0x08, 0, 0x45, meta.traffic_class, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0]);
        frame.extend(src.octets().iter().chain(&dst.octets()));
        (src.into(), dst.into())
    };
    frame.extend([sport.to_be_bytes(), dport.to_be_bytes()].concat());
    frame.resize(100, 0);
    let key = FlowKey { src, dst, sport, dport, protocol: Protocol(protocol) };
    (frame, given, PacketMeta { key: Some(key), ..meta })
}

/// The lane in whose ring the frame's doorbell was posted.
fn lane_of(doorbells: &Doorbells, plan: &RingPlan, frame: &[u8], given: SkbFields) -> LaneId {
    let posted = || {
        doorbells.shared().rings.iter().map(|ring| ring.packets.load(Ordering::SeqCst)).collect::<Vec<_>>()
    };
    let before = posted();
    doorbells.test(frame, given, 1).expect("run");
    let ring = posted().iter().zip(&before).position(|(now, before)| now > before).expect("a doorbell");
    let holds = |lane: &weft_nic::doorbell::LaneEntry| {
        (lane.first_ring..lane.first_ring + lane.rings).contains(&(ring as u16))
    };
    LaneId(plan.lanes.iter().position(holds).expect("a lane") as u32)
}

/// The group of this process, which a tested packet has not, and another one: frames of a test have no sender.
fn cgroups() -> Vec<Option<CgroupEntry>> {
    let root = Hierarchy::detect().and_then(|h| h.open("")).ok().and_then(|root| root.place().ok());
    let root =
        root.map(|place| CgroupEntry { id: place.id, level: place.level.unwrap_or(CgroupEntry::ANY_LEVEL) });
    vec![root, None, Some(CgroupEntry { id: u64::MAX, level: 3 })]
}

#[test]
fn kernel_and_user_space_agree_on_random_packets_under_random_policies() {
    if !weft_host::testing::privileged("kernel_and_user_space_agree_on_random_packets_under_random_policies")
    {
        return;
    }
    let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let first = policy(&random_policy(&mut rng, 3));
    let plan = plan_of(&first);
    let maps = NicMaps::create(&plan, &[]).expect("maps");
    let load = |place, name: &str| {
        let numbers = PortNumbers { place, name: maps.number_of(name), ..PortNumbers::default() };
        Doorbells::for_port(&maps, &port_plan(&plan, name), numbers, RingPlace::Veth).expect("program")
    };
    let ports = ["a", "b", "c"].map(|name| (name, load(0, name)));
    // Which of the policy's cgroups hold a frame of a test depends on the kernel: its root always does, or never.
    let mut groups = cgroups();
    let member = is_member(&plan, groups[0]);
    if member.is_none() {
        groups[0] = None;
    }
    for each in [1, 2, 5, 10, 30, 60, 120, 120] {
        let text = random_policy(&mut rng, each);
        let policy = policy(&text);
        let plan = plan_of(&policy);
        let plans = ["a", "b", "c"].map(|name| port_plan(&plan, name));
        for ((_, doorbells), plan) in ports.iter().zip(&plans) {
            doorbells.set_lanes(&plan.lanes).expect("lanes");
        }
        maps.prepare_tables(&plan, &groups).expect("prepared").commit().expect("committed");
        for _ in 0..400 {
            let (frame, given, meta) = random_packet(&mut rng);
            let meta = PacketMeta { cgroups: u64::from(member == Some(true)), ..meta };
            for ((name, doorbells), plan) in ports.iter().zip(&plans) {
                let meta = PacketMeta { port: policy.port_number(name), ..meta };
                let expected = policy.classify(&meta);
                assert_eq!(lane_of(doorbells, plan, &frame, given), expected, "{name}: {meta:?} in {text}");
            }
        }
    }
}

/// Whether a frame of a test is in `cgroup`; `None` if no such cgroup exists.
fn is_member(_plan: &RingPlan, cgroup: Option<CgroupEntry>) -> Option<bool> {
    let policy = policy("class in = cgroup \"/mine\"\nroot = wfq { in: 1 }");
    let plan = plan_of(&policy);
    let doorbells = Doorbells::load(&plan, &[Some(cgroup?)]).expect("program");
    let (frame, given, _) = random_packet(&mut TestRng::from_seed(RngAlgorithm::ChaCha, &[1; 32]));
    Some(lane_of(&doorbells, &plan, &frame, given) == LaneId(0))
}

#[test]
fn ten_thousand_rows_and_destinations_are_searched() {
    if !weft_host::testing::privileged("ten_thousand_rows_and_destinations_are_searched") {
        return;
    }
    let any_of = |class: usize| {
        let dports = (0..500).map(|n| format!("(udp and dport {})", class * 500 + n + 1));
        dports.collect::<Vec<_>>().join(" or ")
    };
    let classes: String = (0..20).map(|class| format!("class c{class} = {}\n", any_of(class))).collect();
    let children: Vec<String> = (0..20).map(|class| format!("c{class}: 1")).collect();
    let mut policy = policy(&format!("{classes}root = wfq {{ {} }}", children.join(", ")));
    assert_eq!(policy.rules.len(), 10_001);
    // More destinations than a port has lanes, which share those of their class.
    let default = policy.destinations.pop().expect("default");
    let rest = default[0];
    let to = |n: u32| weft_packet::Prefix::host(Ipv4Addr::from(0x0a00_0000 + n).into());
    let row = |n| weft_policy::Destination { to: Some(to(n)), port: None, lane: LaneId(n % 20) };
    policy.destinations.push((0..10_000).map(row).chain([rest]).collect());
    let plan = plan_of(&policy);
    let doorbells = Doorbells::load(&plan, &[]).expect("program");
    let frame = |protocol: u8, dst: u32, dport: u16| {
        let mut frame = vec![2; 12];
        frame.extend([0x08, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 9, 9, 9]);
        frame.extend(dst.to_be_bytes());
        frame.extend([0, 9].iter().chain(&dport.to_be_bytes()));
        frame.resize(100, 0);
        frame
    };
    let lane = |frame: &[u8]| lane_of(&doorbells, &plan, frame, SkbFields::default()).0;
    for n in (0..10_000_u32).step_by(501) {
        assert_eq!(lane(&frame(17, 1, n as u16 + 1)), n / 500, "row {n}");
        assert_eq!(lane(&frame(6, 0x0a00_0000 + n, 1)), n % 20, "destination {n}");
    }
    assert_eq!(lane(&frame(6, 0x0b00_0000, 1)), rest.lane.0);
}

#[test]
fn prepared_tables_change_nothing_and_leave_nothing() {
    if !weft_host::testing::privileged("prepared_tables_change_nothing_and_leave_nothing") {
        return;
    }
    let [before, after] = ["tcp", "udp"].map(|test| {
        plan_of(&policy(&format!("class a = {test}\nclass b = any\nroot = priority {{ a, b }}")))
    });
    let doorbells = Doorbells::load(&before, &[]).expect("program");
    let mut udp = vec![2; 12];
    udp.extend([0x08, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    udp.resize(100, 0);
    let lane = || lane_of(&doorbells, &before, &udp, SkbFields::default());
    let generation = doorbells.maps().match_tables().generation();
    assert_eq!(lane(), LaneId(1));
    let prepared = doorbells.maps().prepare_tables(&after, &[]).expect("prepared");
    assert_eq!(lane(), LaneId(1), "not in use yet");
    assert!(matches!(doorbells.maps().prepare_tables(&after, &[]), Err(PrepareError::Busy)));
    drop(prepared);
    assert_eq!((lane(), doorbells.maps().match_tables().generation()), (LaneId(1), generation));
    doorbells.maps().prepare_tables(&after, &[]).expect("prepared").commit().expect("committed");
    assert_eq!(lane(), LaneId(0));
    assert_ne!(doorbells.maps().match_tables().generation(), generation);
    let many = vec![None; 65];
    assert!(matches!(doorbells.maps().prepare_tables(&after, &many), Err(PrepareError::Table(_))));
    doorbells
        .maps()
        .prepare_tables(&before, &[])
        .expect("the bank is free again")
        .commit()
        .expect("committed");
    assert_eq!(lane(), LaneId(1));
}

/// Flows to these ports, 50 to each. Those to the third change class with each change of the tables.
const SINKS: [u16; 4] = [6000, 6001, 6002, 6003];
const FLOWS_EACH: usize = 50;
const CHANGES: usize = 1000;

/// The sinks of flows that stay in their class.
const STAY: [usize; 3] = [0, 1, 3];
/// The packets of such flows that may be on their way when a sender begins another round. The kernel drops a packet when a processor's
/// receive backlog has 1,000 (`net.core.netdev_max_backlog`), as it has after a pause of that processor.
const WINDOW: u64 = 300;

/// The packets of flows that stay in their class: those sent, and those that each sink has.
#[derive(Default)]
struct OnTheirWay {
    sent: AtomicU64,
    arrived: [AtomicU64; 4],
}

impl OnTheirWay {
    fn is_full(&self) -> bool {
        let arrived: u64 = STAY.iter().map(|sink| self.arrived[*sink].load(Ordering::Relaxed)).sum();
        self.sent.load(Ordering::Relaxed).saturating_sub(arrived) > WINDOW
    }
}

/// Sends numbered packets from each socket in turn until `stop`. Returns the packets sent to each port.
fn send_all(flows: &[(u16, std::net::UdpSocket)], stop: &AtomicBool, way: &OnTheirWay) -> [u64; 4] {
    let mut sent = [0; 4];
    for number in 0_u32.. {
        while way.is_full() && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if stop.load(Ordering::Relaxed) {
            break;
        }
        way.sent.fetch_add(flows.iter().filter(|(to, _)| *to != SINKS[2]).count() as u64, Ordering::Relaxed);
        for (to, socket) in flows {
            let mut packet = [0; 200];
            packet[..4].copy_from_slice(&number.to_ne_bytes());
            socket.send_to(&packet, (RECEIVER, *to)).expect("send");
            sent[SINKS.iter().position(|port| port == to).expect("a sink")] += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    sent
}

/// Changes the tables 1,000 times under load. Flows that stay in their class lose no packet, and no flow is reordered.
#[test]
fn tables_are_replaced_a_thousand_times_under_load() {
    if !weft_host::testing::privileged("tables_are_replaced_a_thousand_times_under_load") {
        return;
    }
    let text = |third: &str| {
        format!(
            "class a = udp and dport 6000{}\nclass b = udp and (dport 6001{})\nroot = wfq {{ fair of a: 1, fair of b: 1 }}",
            if third == "a" { " or udp and dport 6002" } else { "" },
            if third == "b" { " or dport 6002" } else { " or cgroup \"/none\"" },
        )
    };
    // The second names a cgroup, so that the keys of all flows change each time.
    let (first, second) = (text("b"), text("a"));
    let mut bench = Bench::roomy("tbr", &first, 500);
    let policies = [policy(&second), policy(&first)];
    let sinks = SINKS.map(|port| bench.receiver(false, port));
    let flows: Vec<(u16, std::net::UdpSocket)> =
        (0..FLOWS_EACH).flat_map(|_| SINKS).map(|port| (port, bench.sender(false))).collect();
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let way = OnTheirWay::default();
    let (sent, received) = std::thread::scope(|scope| {
        let receivers: [_; 4] = core::array::from_fn(|at| {
            let (sink, so_far, over) = (&sinks[at], &way.arrived[at], &over);
            scope.spawn(move || in_order_so_far(sink, Until::Stopped(over), so_far))
        });
        let halves = flows.split_at(flows.len() / 2);
        let senders = [halves.0, halves.1].map(|half| scope.spawn(|| send_all(half, &stop, &way)));
        std::thread::sleep(Duration::from_millis(50));
        let config = bench::config(500);
        for policy in policies.iter().cycle().take(CHANGES) {
            let groups = vec![None; policy.cgroups.len()];
            let prepared = bench.nic.prepare_policy(policy, (config.rate, config.link)).expect("prepared");
            bench.nic.change_policy(prepared, &groups).expect("changed");
        }
        stop.store(true, Ordering::Relaxed);
        let sent = senders.map(|sender| sender.join().expect("sender"));
        bench.settle(Duration::from_secs(20));
        over.store(true, Ordering::SeqCst);
        let received = receivers.map(|receiver| receiver.join().expect("in order") as u64);
        (core::array::from_fn(|i| sent[0][i] + sent[1][i]), received)
    });
    let _: [u64; 4] = sent;
    let totals = bench.nic.stop(Nanos::from_secs(2)).expect("stop");
    conserved(&totals);
    for stays in STAY {
        assert_eq!(received[stays], sent[stays], "{:?} {totals:#?}", SINKS[stays]);
    }
    let refused = totals.sum(|class| class.moving).packets.get();
    assert_eq!(received[2] + refused, sent[2], "{totals:#?}");
    assert!(received[2] > sent[2] / 2, "{received:?} of {sent:?}");
}
