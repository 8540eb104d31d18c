//! The classification of packets by the egress program: the same as the compiler's own evaluation of the policy.

use crate::common::bench;
mod processes;

use crate::common::bench::{Bench, config, conserved, posted, set_mark, set_priority, set_traffic_class};
use core::net::{IpAddr, SocketAddr};
use proptest::test_runner::{RngAlgorithm, TestRng};
use std::net::UdpSocket;
use std::time::Duration;
use weft_host::link::{self, Route};
use weft_host::testing::{PATIENCE, wait_for};
use weft_host::{Hierarchy, Spawn};
use weft_nic::doorbell::CgroupEntry;
use weft_nic::testbed::{RECEIVER, SENDER};
use weft_units::{FlowKey, Nanos, PacketMeta, ProcessName, Protocol};

/// The conditions of the random policies' classes. `ME` is a placeholder for the name of this process.
const CONDITIONS: [&str; 21] = [
    "udp and dport 2000..2999",
    "udp and port 1000",
    "tcp",
    "mark 5",
    "mark 0x10/0xf0",
    "priority 3",
    "to 10.50.1.0/24",
    "to 10.50.0.0/16 and mark 1",
    "to fd01::/64",
    "to ::/0 and priority 1",
    "to ::/8",
    "from 10.99.0.1 and dport 1..1500",
    "to 0.0.0.0/0 and priority 2",
    "from fd00::/16 and dport 3000..65535",
    "sport 40000..50000 and mark 2",
    "to 10.50.1.7/32 or to fd01::7/128",
    "dscp ef",
    "ecn ect0 and dport 1..2000",
    "dscp af11 or ecn ce",
    "user 1000",
    "process \"ME\" and dport 1000..2500",
];

/// The name of this process: that of its first thread, and not that of the one that runs a test.
fn me() -> ProcessName {
    let name = std::fs::read("/proc/self/comm").expect("a name");
    ProcessName::new(name.trim_ascii_end()).expect("a name")
}

fn pick<T: Copy>(rng: &mut TestRng, of: &[T]) -> T {
    use proptest::prelude::Rng as _;
    of[rng.next_u32() as usize % of.len()]
}

fn random_policy(rng: &mut TestRng) -> String {
    let mut left = CONDITIONS.to_vec();
    let mut text = String::new();
    for i in 0..8 {
        let condition = pick(rng, &left);
        left.retain(|c| *c != condition);
        text += &format!("class c{i} = {condition}\n");
    }
    let children: Vec<String> = (0..8).map(|i| format!("c{i}: 1")).collect();
    text.replace("ME", &me().to_string()) + &format!("root = wfq {{ {} }}\n", children.join(", "))
}

#[test]
fn random_packets_get_the_class_that_the_compiler_gives_them() {
    if !weft_host::testing::privileged("random_packets_get_the_class_that_the_compiler_gives_them") {
        return;
    }
    for seed in 0..3_u8 {
        let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let text = random_policy(&mut rng);
        let bench = Bench::roomy(&format!("cls{seed}"), &text, 500);
        bench.add_ipv6();
        let via = |net: &str, gateway| Route {
            destination: net.parse().expect("net"),
            prefix_len: 16,
            link: None,
            gateway: Some(gateway),
        };
        link::add_route(&bench.bed.sender, &via("10.50.0.0", RECEIVER)).expect("route");
        link::add_route(&bench.bed.sender, &via("fd01::", bench::RECEIVER6)).expect("route");
        let mut expected = posted(&bench.settle(Duration::from_millis(200)));
        for _ in 0..300 {
            let meta = send_one(&bench, &mut rng);
            let lane = bench.policy.classify(&meta);
            expected[bench.policy.program.lanes[lane.index()].class.index()] += 1;
        }
        bench.end_ipv6();
        bench.settle(PATIENCE);
        let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
        conserved(&totals);
        let fetched: Vec<u64> = totals.classes.iter().map(|c| c.fetched.packets.get()).collect();
        assert_eq!(fetched, posted(&totals), "{text}");
        assert_eq!(fetched[..8], expected[..8], "{text}");
        // The stack occasionally sends other packets (multicast listener reports).
        assert!(
            (expected[8]..expected[8] + 10).contains(&fetched[8]),
            "{expected:?}, but {fetched:?}: {text}"
        );
    }
}

/// Sends one packet of a new flow. Returns the properties that the policy may test.
fn send_one(bench: &Bench, rng: &mut TestRng) -> PacketMeta {
    let v4 = ["10.50.1.7", "10.50.1.8", "10.50.2.7", "10.99.0.2"];
    let v6 = ["fd01::7", "fd01::8", "fd01:0:0:1::7", "fd00::2"];
    let addresses = pick(rng, &[v4, v6]);
    let dst: IpAddr = pick(rng, &addresses).parse().expect("address");
    let dport = pick(rng, &[1, 1000, 1500, 1501, 2000, 2999, 3000, 65_535]);
    let mark = pick(rng, &[0, 0, 1, 2, 5, 0x10, 0x1f, 0x20]);
    let priority = pick(rng, &[0, 0, 1, 2, 3, 4]);
    let src = if dst.is_ipv4() { SENDER } else { bench::SENDER6 };
    let socket = bench.sender(dst.is_ipv6());
    let traffic_class = pick(rng, &[0, 0, 46 << 2, 46 << 2 | 2, 10 << 2 | 3, 2]);
    let user = pick(rng, &[0, 0, 1000]);
    set_traffic_class(&socket, traffic_class);
    set_priority(&socket, priority);
    set_mark(&socket, mark);
    set_user(&socket, user);
    socket.send_to(&[0; 64], SocketAddr::new(dst, dport)).expect("send");
    let sport = socket.local_addr().expect("address").port();
    let key = FlowKey { src, dst, sport, dport, protocol: Protocol::UDP };
    let (key, priority, user) = (Some(key), priority as u32, Some(user));
    PacketMeta { key, mark, priority, traffic_class, user, process: Some(me()), ..PacketMeta::default() }
}

/// Makes `user` the owner of a socket.
fn set_user(socket: &UdpSocket, user: u32) {
    let file = std::fs::File::from(std::os::fd::OwnedFd::from(socket.try_clone().expect("descriptor")));
    std::os::unix::fs::fchown(file, Some(user), None).expect("owner");
}

/// One five-tuple: what its socket is and what its packets carry changes, one after another.
#[test]
fn a_socket_is_classified_by_what_it_is_and_says() {
    if !weft_host::testing::privileged("a_socket_is_classified_by_what_it_is_and_says") {
        return;
    }
    let cookie = |socket: &UdpSocket| rustix::net::sockopt::socket_cookie(socket).expect("cookie");
    let text = |cookie: u64| {
        format!(
            "class mine = cookie {cookie}\nclass voice = user 1000 and dscp ef\nclass user = user 1000\n\
             class net = classid 10:1\nclass dscp = dscp ef\nroot = wfq {{ mine: 1, voice: 1, user: 1, net: 1, dscp: 1 }}"
        )
    };
    let mut bench = Bench::start("who", &text(u64::MAX), &config(100), 1000, |_| ());
    let (mine, other) = (bench.sender(false), bench.sender(false));
    let changed = bench::policy(&text(cookie(&mine)));
    let settings = config(100);
    let prepared = bench.nic.prepare_policy(&changed, (settings.rate, settings.link)).expect("prepared");
    bench.nic.change_policy(prepared, &[]).expect("changed");
    let send = |socket: &UdpSocket| {
        socket.send_to(&[0; 100], (RECEIVER, 6000)).expect("send");
        bench.settle(PATIENCE)
    };
    set_user(&mine, 1000);
    send(&mine);
    send(&other);
    set_traffic_class(&other, 46 << 2);
    send(&other);
    set_user(&other, 1000);
    send(&other);
    set_traffic_class(&other, 0);
    send(&other);
    in_net_cls(&bench, "0x100001");
    let totals = bench.settle(PATIENCE);
    let of = |name| bench.of(&totals, name).posted.packets.get();
    let net = u64::from(weft_host::net_cls::has_net_cls());
    let counted = ["mine", "dscp", "voice", "user", "net"].map(of);
    assert_eq!(counted, [1, 1, 1, 1, net], "{totals:#?}");
    conserved(&bench.nic.stop(Nanos::from_secs(1)).expect("stop"));
}

/// Sends a packet from a group of net_cls of that class, in a separate mount namespace.
fn in_net_cls(bench: &Bench, class: &str) {
    if !weft_host::net_cls::has_net_cls() {
        return;
    }
    let name = weft_host::testing::unique("cls");
    let script = format!(
        "set -e; mount -t tmpfs none /mnt; mkdir /mnt/v1; mount -t cgroup -o net_cls none /mnt/v1; mkdir /mnt/v1/{name}; \
         echo {class} > /mnt/v1/{name}/net_cls.classid; \
         bash -c 'echo $$ > /mnt/v1/{name}/cgroup.procs; echo x > /dev/udp/{RECEIVER}/6000'; rmdir /mnt/v1/{name}"
    );
    let spawn = Spawn::new("unshare").args(["-m", "bash", "-c", &script]).netns(&bench.bed.sender);
    assert!(spawn.start().expect("unshare").wait().expect("end").success(), "{script}");
}

#[test]
fn cgroups_count_with_all_that_lies_below_them() {
    if !weft_host::testing::privileged("cgroups_count_with_all_that_lies_below_them") {
        return;
    }
    let hierarchy = Hierarchy::detect().expect("cgroup2");
    let outer = hierarchy.create(&weft_host::testing::unique("nic")).expect("cgroup");
    let (inner, other) = (outer.child("inner").expect("inner"), outer.child("other").expect("other"));
    let entry = |g: &weft_host::Cgroup| Some(CgroupEntry { id: g.id().expect("id"), level: g.level() });
    let text =
        "class inner = cgroup \"inner\"\nclass outer = cgroup \"outer\"\nroot = wfq { inner: 1, outer: 1 }";
    let mut config = config(100);
    let groups = bench::policy(text).cgroups;
    config.cgroups = groups.iter().map(|name| entry(if name == "inner" { &inner } else { &outer })).collect();
    let bench = Bench::start("cgr", text, &config, 1000, |_| ());
    let send = |cgroup, packets| {
        let script = format!("for i in $(seq {packets}); do echo $i > /dev/udp/{RECEIVER}/6000; done");
        let mut spawn = Spawn::new("bash").args(["-c", &script]).netns(&bench.bed.sender);
        if let Some(cgroup) = cgroup {
            spawn = spawn.cgroup(cgroup);
        }
        assert!(spawn.start().expect("bash").wait().expect("end").success());
    };
    send(Some(&inner), 3);
    send(Some(&other), 5);
    send(Some(&outer), 7);
    send(None, 11);
    let totals = bench.settle(PATIENCE);
    assert_eq!(bench.of(&totals, "inner").fetched.packets.get(), 3);
    assert_eq!(bench.of(&totals, "outer").fetched.packets.get(), 12);
    assert_eq!(bench.of(&totals, "default").fetched.packets.get(), 11);
    conserved(&bench.nic.stop(Nanos::from_secs(1)).expect("stop"));
}

/// An operator's policy with two tenants; their files test cgroups below their own, headers, and what is not theirs.
const OPERATOR: &str = "vm1 = tenant \"vm1.weft\" of cgroup \"/vm1\"\n\
    vm2 = tenant \"vm2.weft\" of cgroup \"/vm2\" and udp\nroot = wfq { vm1: 1, vm2: 2, default: 1 }";
const TENANTS: [(&str, &str); 2] = [
    (
        "vm1.weft",
        "class low = udp and dport 1..1023\nclass db = cgroup \"db\"\nclass vm2 = cgroup \"/vm2\"\nroot = wfq { low: 1, db: 1, vm2: 1 }",
    ),
    ("vm2.weft", "class db = cgroup \"db\" and udp\nclass rest = any\nroot = priority { db, rest }"),
];
/// The cgroups of senders, which are the classes of scenarios.
const SENDERS: [&str; 6] = ["vm1", "vm1/db", "vm1/vm2", "vm2", "vm2/db", "db"];

/// The class that the simulator gives the datagrams of a scenario's class.
fn simulated_class(sender: &str) -> String {
    let files: String = TENANTS.iter().map(|(name, text)| format!("\"{name}\" = '''{text}'''\n")).collect();
    let text = format!(
        "warm_up = \"0s\"\nduration = \"1ms\"\nclasses = [\"{sender}\"]\n[host.nic]\nscheduler = \"policy\"\n\
         transmit_queues = \"per-flow\"\n[host.stack]\npolicy = '''{OPERATOR}'''\n\
         [[flows]]\ntraffic = {{ udp = {{ rate = \"1gbps\" }} }}\n[files]\n{files}"
    );
    let missing = |path: &str| Err(weft_policy::FileError::Missing(path.to_owned()));
    let scenario = weft_sim::scenario::read(&text, "a.toml", &mut |path| missing(path)).expect("a scenario");
    let outcome = weft_sim::run::simulate(&scenario, 1).expect("a run");
    let used = outcome.policies[0].classes.iter().filter(|class| class.sent.packets.get() > 0);
    let used: Vec<&str> = used.map(|class| class.class.as_str()).collect();
    assert_eq!(used.len(), 1, "{sender}: {used:?}");
    used[0].to_owned()
}

/// One policy with two tenants in the NIC and in the simulator: the same packets have the same classes.
#[test]
fn tenants_classify_as_in_the_simulator() {
    if !weft_host::testing::privileged("tenants_classify_as_in_the_simulator") {
        return;
    }
    let hierarchy = Hierarchy::detect().expect("cgroup2");
    let base = hierarchy.create(&weft_host::testing::unique("tnt")).expect("cgroup");
    let top = ["vm1", "vm2", "db"].map(|name| base.child(name).expect("cgroup"));
    let inner = [top[0].child("db"), top[0].child("vm2"), top[1].child("db")].map(|of| of.expect("cgroup"));
    let groups = [&top[0], &inner[0], &inner[1], &top[1], &inner[2], &top[2]];
    let texts = TENANTS.map(|(name, text)| {
        let tenant = name.trim_end_matches(".weft").to_owned();
        (tenant, weft_policy::FileText { name: name.to_owned(), text: text.to_owned() })
    });
    let texts = weft_policy::TenantTexts(texts.into_iter().collect());
    let source = weft_policy::Source { name: "op.weft", text: OPERATOR };
    let compiled = weft_policy::compile_with(source, &texts, &weft_policy::CompileOptions::default());
    let policy = compiled.policy.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics));
    let entry = |path: &String| {
        let at = SENDERS.iter().position(|known| *known == path.trim_start_matches('/'));
        let group = at.map(|at| groups[at]);
        group.map(|of| CgroupEntry { id: of.id().expect("id"), level: of.level() })
    };
    let config =
        weft_nic::nic::NicConfig { cgroups: policy.cgroups.iter().map(entry).collect(), ..config(100) };
    let bench = Bench::start_compiled("tnt", policy, &config);
    for (sender, group) in SENDERS.iter().zip(groups) {
        let before = posted(&bench.settle(PATIENCE));
        let script = format!("for i in $(seq 9); do echo $i > /dev/udp/{RECEIVER}/6000; done");
        let spawn = Spawn::new("bash").args(["-c", &script]).netns(&bench.bed.sender).cgroup(group);
        assert!(spawn.start().expect("bash").wait().expect("end").success());
        let after = posted(&bench.settle(PATIENCE));
        let got = after.iter().zip(&before).position(|(after, before)| after - before >= 9);
        let class = got.and_then(|at| bench.policy.classes.get(at)).map(|class| class.name.clone());
        assert_eq!(class, Some(simulated_class(sender)), "{sender}: {before:?}, then {after:?}");
    }
    conserved(&bench.nic.stop(Nanos::from_secs(1)).expect("stop"));
}

/// A restarted service has another cgroup, and a socket older than the cgroup's table entry is classified again.
#[test]
fn a_socket_follows_the_table_of_cgroups() {
    if !weft_host::testing::privileged("a_socket_follows_the_table_of_cgroups") {
        return;
    }
    let hierarchy = Hierarchy::detect().expect("cgroup2");
    let cgroup = hierarchy.create(&weft_host::testing::unique("tbl")).expect("cgroup");
    let text = "class service = cgroup \"/service\"\nroot = priority { service, default }";
    let config = weft_nic::nic::NicConfig { cgroups: vec![None], ..config(100) };
    let bench = Bench::start("tbl", text, &config, 1000, |_| ());
    // An ICMP error from the receiver would block the sender's next packet.
    let _sink = bench::socket(&bench.bed.receiver, std::net::SocketAddr::new(RECEIVER, 6000));
    // One socket; a packet for each line on its standard input.
    let script = format!("exec 3>/dev/udp/{RECEIVER}/6000; while read line; do echo $line >&3; done");
    let spawn = Spawn::new("bash").args(["-c", &script]).netns(&bench.bed.sender).cgroup(&cgroup);
    let mut process = spawn.stdin_piped().start().expect("bash");
    let mut lines = process.take_stdin().expect("a pipe");
    let mut counted = |service: u64, default: u64| {
        std::io::Write::write_all(&mut lines, b"a line\n").expect("write");
        wait_for(format!("{service} packets of the service, {default} of the default"), || {
            let totals = bench.nic.totals().expect("totals");
            ["service", "default"].map(|name| bench.of(&totals, name).sent.packets.get())
                == [service, default]
        });
    };
    let place = cgroup.place().expect("place");
    let known = CgroupEntry { id: place.id, level: place.level.unwrap_or(CgroupEntry::ANY_LEVEL) };
    counted(0, 1);
    bench.nic.cgroups().set(0, Some(known)).expect("set");
    counted(1, 1);
    // As in a cgroup namespace, from which the root is not visible.
    bench.nic.cgroups().set(0, Some(CgroupEntry { level: CgroupEntry::ANY_LEVEL, ..known })).expect("set");
    counted(2, 1);
    bench.nic.cgroups().set(0, None).expect("set");
    counted(2, 2);
    drop(lines);
    assert!(process.wait().expect("end").success());
    conserved(&bench.nic.stop(Nanos::from_secs(1)).expect("stop"));
}

/// Two tenants that ping one host send the same five-tuple at the same time, and are two flows.
#[test]
fn one_five_tuple_from_two_cgroups_is_two_flows() {
    if !weft_host::testing::privileged("one_five_tuple_from_two_cgroups_is_two_flows") {
        return;
    }
    let hierarchy = Hierarchy::detect().expect("cgroup2");
    let outer = hierarchy.create(&weft_host::testing::unique("two")).expect("cgroup");
    let groups = ["a", "b"].map(|name| outer.child(name).expect("cgroup"));
    let entry = |g: &weft_host::Cgroup| Some(CgroupEntry { id: g.id().expect("id"), level: g.level() });
    let text = "class a = cgroup \"a\"\nclass b = cgroup \"b\"\nroot = wfq { a: 1, b: 1 }";
    // Slow enough that packets of both are always waiting.
    let mut config = config(1);
    config.cgroups = groups.iter().map(entry).collect();
    let bench = Bench::start("two", text, &config, 1000, |_| ());
    let ping = |cgroup| {
        let to = RECEIVER.to_string();
        let args = ["-q", "-c", "40", "-i", "0.005", "-s", "1000", "-W", "5", &to];
        Spawn::new("ping").args(args).netns(&bench.bed.sender).cgroup(cgroup).start().expect("ping")
    };
    let mut pings = groups.each_ref().map(ping);
    pings.iter_mut().for_each(|ping| _ = ping.wait().expect("end"));
    let totals = bench.settle(PATIENCE);
    let posted = |name| bench.of(&totals, name).posted.packets.get();
    assert_eq!((posted("a"), posted("b")), (40, 40), "{totals:#?}");
    conserved(&bench.nic.stop(Nanos::from_secs(5)).expect("stop"));
}

/// Fragments are classified by the ports of their datagram where rings have classes, and ARP precedes all. In a shared
/// ring, where the policy is unknown, a fragment has no ports and ARP no priority, and each packet still counts in its
/// class.
#[test]
fn fragments_and_arp_in_every_kind_of_ring() {
    if !weft_host::testing::privileged("fragments_and_arp_in_every_kind_of_ring") {
        return;
    }
    let text = "class ports = udp and dport 6000\nclass u = udp\nroot = wfq { ports: 1, u: 1 }";
    for mode in [weft_nic::plan::Mode::Loom, weft_nic::plan::Mode::OneRing] {
        let bench =
            Bench::start("frg", text, &weft_nic::nic::NicConfig { mode, ..config(100) }, 1000, |_| ());
        bench.add_ipv6();
        bench.settle(Duration::from_millis(100));
        let before = posted(&bench.nic.totals().expect("totals"));
        let (v4, v6) = (bench.sender(false), bench.sender(true));
        for (socket, to) in [(&v4, RECEIVER), (&v6, bench::RECEIVER6)] {
            socket.send_to(&[0; 100], (to, 6000)).expect("send");
            socket.send_to(&[0; 4000], (to, 6000)).expect("send");
        }
        arp(&bench, &v4);
        let totals = bench.settle(PATIENCE);
        let after: Vec<u64> = posted(&totals).iter().zip(&before).map(|(a, b)| a - b).collect();
        let fetched: Vec<u64> = totals.classes.iter().map(|c| c.fetched.packets.get()).collect();
        let of_classes = mode == weft_nic::plan::Mode::Loom;
        let expected = if of_classes { [8, 0] } else { [2, 6] };
        assert_eq!(after[..2], expected, "two whole datagrams, two in three fragments");
        assert!(after[if of_classes { 3 } else { 2 }] >= 1, "ARP is infrastructure, or nobody's");
        assert_eq!(fetched, posted(&totals), "{mode:?}");
        assert_eq!(totals.lost, 0, "broadcasts reach the ring");
        conserved(&bench.nic.stop(Nanos::from_secs(1)).expect("stop"));
    }
}

/// Makes the sender resolve an address that no host has.
fn arp(bench: &Bench, socket: &UdpSocket) {
    let all = || posted(&bench.nic.totals().expect("totals")).iter().skip(2).sum::<u64>();
    let before = all();
    socket.send_to(&[0], ("10.99.77.77", 1)).expect("send");
    wait_for("a request for the address", || all() > before);
}

/// Neighbour discovery is multicast: without it a port with IPv6 reaches no host.
#[test]
fn multicast_reaches_the_ring() {
    if !weft_host::testing::privileged("multicast_reaches_the_ring") {
        return;
    }
    let bench = Bench::roomy("mcs", "class u = udp\nroot = wfq { u: 1 }", 100);
    bench.add_ipv6();
    let socket = bench.sender(true);
    for host in 0x10..0x40_u16 {
        let to = core::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, host, host);
        socket.send_to(&[0], (to, 1)).expect("send");
    }
    wait_for("a request for each host", || {
        bench.nic.totals().expect("totals").classes[2].posted.packets.get() >= 0x30
    });
    bench.end_ipv6();
    bench.settle(PATIENCE);
    let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
    let infrastructure = &totals.classes[2];
    assert!(infrastructure.posted.packets.get() >= 0x30, "{totals:#?}");
    assert_eq!((infrastructure.fetched.packets, totals.lost), (infrastructure.posted.packets, 0));
}

#[test]
fn each_mark_of_one_five_tuple_has_a_class_and_an_order() {
    if !weft_host::testing::privileged("each_mark_of_one_five_tuple_has_a_class_and_an_order") {
        return;
    }
    let text = "class slow = mark 1\nclass fast = mark 2\nroot = priority { fast, slow }";
    let bench = Bench::start("mrk", text, &config(5), 1000, |_| ());
    let sink = bench.receiver(false, 6000);
    let socket = bench.sender(false);
    let mut numbers = [0_u32; 2];
    let mut send = |mark: u8, packets| {
        set_mark(&socket, mark.into());
        for _ in 0..packets {
            let mut packet = [mark; 1000];
            let number = &mut numbers[usize::from(mark) - 1];
            packet[..4].copy_from_slice(&number.to_ne_bytes());
            *number += 1;
            socket.send_to(&packet, (RECEIVER, 6000)).expect("send");
        }
    };
    send(1, 20);
    // These overtake: "fast" is served first.
    send(2, 20);
    bench.settle(PATIENCE);
    send(2, 20);
    bench.settle(PATIENCE);
    send(1, 5);
    let (mut packet, mut next) = ([0; 1000], [0_u32; 2]);
    for _ in 0..65 {
        sink.recv(&mut packet).expect("a datagram");
        let next = &mut next[usize::from(packet[4]) - 1];
        assert_eq!(packet.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes)), Some(*next));
        *next += 1;
    }
    let totals = bench.settle(PATIENCE);
    assert_eq!(bench.of(&totals, "slow").sent.packets.get(), 25);
    assert_eq!(bench.of(&totals, "fast").sent.packets.get(), 40);
    assert_eq!(totals.records, 2, "one for each when it was new");
    assert_eq!(bench.nic.flows_by_class(), [1, 1, 0, 0], "each is counted where it is");
    conserved(&bench.nic.stop(Nanos::from_secs(1)).expect("stop"));
}
