//! A policy in the kernel, on real packets: what it keeps, how it changes, and what is left of it.

use crate::common::{FAR, PREFIX, policy, silent};
use core::net::{IpAddr, Ipv4Addr};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use nix::sys::socket::{setsockopt, sockopt};
use std::net::UdpSocket;
use std::time::Instant;
use weft_host::link::{self, PathEnd, VethOptions};
use weft_host::tc::{EgressKinds, Handle, Qdisc, Tbf, TcDevice, TcObject};
use weft_host::testing::{alone, privileged, skip, until};
use weft_host::{NetNs, sysctl};
use weft_policy::CompiledPolicy;
use weft_policy::kernel::KernelDifference;
use weft_run::kernel::{FOLDER, KernelClass, KernelCounters, KernelError, KernelPath, KernelPlan};
use weft_run::session::AuthoredPolicy;
use weft_units::{BitsPerSec, Bytes, Packets};

const HOST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 0, 1));
const DEVICE: &str = "up0";
/// Three classes by port, on a link that a busy machine can fill.
const CLASSES: &str = "link 40mbps
class a = udp dport 7001
class b = udp dport 7002
class c = udp dport 7003
";
/// The time in which shares are measured, and before it the time in which queues fill.
const SPAN: Duration = Duration::from_secs(2);
/// The part of a rate that must be seen: a machine that stands still for a while sends less, and none sends more.
const PACE: core::ops::Range<f64> = 0.5..1.02;
const FILL: Duration = Duration::from_millis(400);

/// A host with an interface, and the network behind it.
struct Bed {
    host: NetNs,
    far: NetNs,
}

impl Bed {
    fn new() -> Self {
        let [host, far] = ["kernel", "far"].map(silent);
        let ends = [
            PathEnd { ns: &host, link: DEVICE, address: HOST },
            PathEnd { ns: &far, link: "far0", address: FAR },
        ];
        link::create_path(ends, PREFIX, &VethOptions::default()).expect("path");
        Self { host, far }
    }

    fn apply(&self, text: &str) -> Result<KernelPath, KernelError> {
        let plan = KernelPlan::new(&policy(text), KernelPlan::qdiscs_here()).expect("a kernel form");
        KernelPath::apply(&self.host, DEVICE, authored(text), plan, false)
    }

    fn open(&self) -> KernelPath {
        KernelPath::open(&self.host, DEVICE, &compile).expect("in force")
    }

    /// The counters of classes while datagrams are sent to `ports` without a pause.
    fn counted(&self, ports: &[u16]) -> Counted {
        self.while_sending(ports, || {
            std::thread::sleep(FILL);
            let mut path = self.open();
            let (begin, before) = (Instant::now(), path.counters().expect("counters"));
            std::thread::sleep(SPAN);
            // A reading takes some milliseconds on a slow machine.
            let span = begin.elapsed();
            Counted { before, after: path.counters().expect("counters"), span }
        })
    }

    fn while_sending<R>(&self, ports: &[u16], middle: impl FnOnce() -> R) -> R {
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for port in ports {
                let (socket, stop) = (self.socket(), &stop);
                // Some tenths of a second of the link, so that a class stays backlogged while its thread has no processor.
                setsockopt(&socket, sockopt::SndBufForce, &(2 << 20)).expect("a send buffer");
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        // It waits while its queue is full.
                        let _ = socket.send_to(&[7; 1400], (FAR, *port));
                    }
                });
            }
            let _stopping = StopAtEnd(&stop);
            middle()
        })
    }

    /// A socket of the host. It is not connected, so that nothing at the far side refuses its datagrams.
    fn socket(&self) -> UdpSocket {
        self.host.run(|| UdpSocket::bind((HOST, 0))).expect("enter").expect("bind")
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // A test that failed: what it made at the device goes with the device, but not its record and pins.
        let _ = KernelPath::remove(&self.host, DEVICE);
    }
}

/// Stops the threads of a test, also when it fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn authored(text: &str) -> AuthoredPolicy {
    AuthoredPolicy {
        name: "test".to_owned(),
        text: text.to_owned(),
        rate_bps: None,
        port_limits: Vec::new(),
        tenants: Vec::new(),
    }
}

fn compile(source: &AuthoredPolicy) -> Option<CompiledPolicy> {
    Some(policy(&source.text))
}

fn class<'a>(counters: &'a KernelCounters, name: &str) -> &'a KernelClass {
    counters.classes.iter().find(|class| class.name == name).expect("a class")
}

/// Two readings.
struct Counted {
    before: KernelCounters,
    after: KernelCounters,
    span: Duration,
}

impl Counted {
    /// The rate of a class on the wire, where a frame counts 24 bytes more than in its queue.
    fn rate(&self, name: &str) -> f64 {
        let bytes = |counters| class(counters, name).queue.sent.bytes.get();
        (bytes(&self.after) - bytes(&self.before)) as f64 * 8.0 / self.span.as_secs_f64() * 1466.0 / 1442.0
    }
}

#[test]
fn weights_hold_on_an_interface_and_nothing_needs_a_process() {
    let name = "weights_hold_on_an_interface_and_nothing_needs_a_process";
    if !privileged(name) {
        return;
    }
    let _alone = alone();
    let bed = Bed::new();
    let before = EgressKinds::of_device(&bed.host, DEVICE).expect("read");
    // The value holds descriptors only.
    drop(bed.apply(&format!("{CLASSES}root = wfq {{ a: 3, b: 1, c: 4, default: 1 }}\n")).expect("applied"));
    let counted = bed.counted(&[7001, 7002]);
    let [a, b] = ["a", "b"].map(|name| counted.rate(name));
    // HTB gives what c leaves by quantum, so the ratio is not exact; with drr it is.
    let within = if KernelPlan::qdiscs_here().drr { 2.94..3.06 } else { 2.6..3.4 };
    assert!(within.contains(&(a / b)), "{a} {b}");
    assert!(PACE.contains(&((a + b) / 40e6)), "{a} {b}");
    let warnings = bed.open().warnings().expect("read");
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(KernelPath::remove(&bed.host, DEVICE).expect("removed"), None);
    assert_eq!(EgressKinds::of_device(&bed.host, DEVICE).expect("read"), before);
    assert!(matches!(KernelPath::remove(&bed.host, DEVICE), Err(KernelError::NotApplied { .. })));
}

#[test]
fn priority_and_limits_hold_and_each_packet_is_counted() {
    if !privileged("priority_and_limits_hold_and_each_packet_is_counted") {
        return;
    }
    let _alone = alone();
    let bed = Bed::new();
    let text = format!("{CLASSES}root = priority {{ a.lim, b, c, default }}\na.lim = limit 10mbps of a\n");
    bed.apply(&text).expect("applied");
    let counted = bed.counted(&[7001, 7002, 7003]);
    let [a, b, c] = ["a", "b", "c"].map(|name| counted.rate(name));
    assert!(PACE.contains(&(a / 10e6)), "a has its limit: {a}");
    assert!((2.8..3.2).contains(&(b / a)), "b has the rest: {b} beside {a}");
    assert!(c < 0.4e6, "c waits: {c}");
    // What the classifier has given to a class has left, waits, or was dropped: counted by other code.
    assert!(until(Duration::from_secs(10), || {
        let counters = bed.open().counters().expect("counters");
        ["a", "b", "c"].iter().all(|name| {
            let class = class(&counters, name);
            let queue = &class.queue;
            class.had.packets == queue.sent.packets + queue.backlog.packets + queue.dropped
        })
    }));
}

#[test]
fn a_limit_by_destination_holds_where_the_kernel_has_fq() {
    let name = "a_limit_by_destination_holds_where_the_kernel_has_fq";
    if !privileged(name) {
        return;
    }
    if !KernelPlan::qdiscs_here().fq {
        skip(name, "this kernel has no fq (CONFIG_NET_SCH_FQ)");
        return;
    }
    let _alone = alone();
    let bed = Bed::new();
    let text = format!(
        "{CLASSES}root = priority {{ near, b, c, default }}\nnear = limit by destination {{ {FAR}/32: 8mbps }} of a\n"
    );
    bed.apply(&text).expect("applied");
    let counted = bed.counted(&[7001, 7002]);
    let [a, b] = ["a", "b"].map(|name| counted.rate(name));
    assert!((0.5..1.04).contains(&(a / 8e6)), "{a}");
    assert!((3.7..4.3).contains(&(b / a)), "b has the rest: {b} beside {a}");
}

#[test]
fn a_sender_cannot_choose_its_class() {
    if !privileged("a_sender_cannot_choose_its_class") {
        return;
    }
    let _alone = alone();
    let bed = Bed::new();
    let mut path = bed.apply(&format!("{CLASSES}root = priority {{ a, b, c, default }}\n")).expect("applied");
    let socket = bed.socket();
    let counters = path.counters().expect("counters");
    for leaf in [class(&counters, "a").leaf.value(), 0, 6, 0x7e57_0000] {
        setsockopt(&socket, sockopt::Priority, &(leaf as i32)).expect("a priority");
        socket.send_to(&[1; 100], (FAR, 7003)).expect("sent");
    }
    let counters = path.counters().expect("counters");
    let had = ["a", "b", "c"].map(|name| class(&counters, name).had.packets.get());
    assert_eq!(had, [0, 0, 4]);
    assert_eq!(class(&counters, "c").queue.sent.packets, Packets(4), "and the qdisc believes the classifier");
}

#[test]
fn forwarded_packets_have_the_class_of_the_device_where_they_came_in_and_no_user() {
    let name = "forwarded_packets_have_the_class_of_the_device_where_they_came_in_and_no_user";
    if !privileged(name) {
        return;
    }
    let _alone = alone();
    let bed = Bed::new();
    let pod = silent("pod");
    let inside = IpAddr::V4(Ipv4Addr::new(10, 98, 0, 2));
    let outside = IpAddr::V4(Ipv4Addr::new(10, 98, 0, 1));
    let ends = [
        PathEnd { ns: &pod, link: "eth0", address: inside },
        PathEnd { ns: &bed.host, link: "pod0", address: outside },
    ];
    link::create_path(ends, 24, &VethOptions::default()).expect("path");
    sysctl::set(&bed.host, "net.ipv4.ip_forward", "1").expect("forwarding");
    let destination = IpAddr::V4(Ipv4Addr::new(10, 97, 0, 0));
    let route = link::Route { destination, prefix_len: PREFIX, link: Some("eth0"), gateway: Some(outside) };
    link::add_route(&pod, &route).expect("route");
    // 65534 is what the kernel says of a packet without a socket.
    let text = "link 40mbps\nclass nobody = user 65534\nclass pods = port \"pod0\"\nclass own = udp\n\
        root = priority { nobody, pods, own, default }\n";
    let mut path = bed.apply(text).expect("applied");
    let socket = pod.run(|| UdpSocket::bind((inside, 0))).expect("enter").expect("bind");
    for _ in 0..5 {
        socket.send_to(&[1; 100], (FAR, 7001)).expect("sent");
    }
    bed.socket().send_to(&[1; 100], (FAR, 7001)).expect("sent");
    let had = |path: &mut KernelPath| {
        let counters = path.counters().expect("counters");
        ["nobody", "pods", "own"].map(|name| class(&counters, name).had.packets.get())
    };
    assert!(until(Duration::from_secs(5), || had(&mut path) == [0, 5, 1]), "{:?}", had(&mut path));
}

#[test]
fn changes_under_load_lose_nothing_and_hold_at_once() {
    if !privileged("changes_under_load_lose_nothing_and_hold_at_once") {
        return;
    }
    let _alone = alone();
    let bed = Bed::new();
    let text = |a: u32, rate: u32, more: &str| {
        // A class that is defined has a place in the tree.
        let e = if more.contains("e:") { "class e = udp dport 7005\n" } else { "" };
        format!(
            "{CLASSES}class d = udp dport 7004\n{e}root = wfq {{ a: {a}, b.lim: 4, rest: 1 }}\n\
             b.lim = limit {rate}mbps of b\nrest = wfq {{ c: 1{more}, default: 1 }}\n"
        )
    };
    bed.apply(&text(1, 10, ", d: 1, e: 1")).expect("applied");
    let receiver = bed.far.run(|| UdpSocket::bind((FAR, 7001))).expect("enter").expect("bind");
    receiver.set_read_timeout(Some(Duration::from_millis(500))).expect("timeout");
    let (stop, received) = (AtomicBool::new(false), AtomicU64::new(0));
    let sent = std::thread::scope(|scope| {
        let counting = scope.spawn(|| {
            let mut buffer = [0; 2000];
            loop {
                match receiver.recv(&mut buffer) {
                    Ok(_) => received.fetch_add(1, Ordering::Relaxed),
                    Err(_) if stop.load(Ordering::Relaxed) => return,
                    Err(_) => continue,
                };
            }
        });
        let sender = scope.spawn(|| {
            let socket = bed.socket();
            let mut sent = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                sent += u64::from(socket.send_to(&[9; 200], (FAR, 7001)).is_ok());
                std::thread::sleep(Duration::from_micros(400));
            }
            sent
        });
        let stopping = StopAtEnd(&stop);
        let mut path = bed.open();
        for round in 0..1000 {
            let more = if round % 2 == 0 { ", e: 2, d: 1" } else { ", d: 3" };
            let (weight, rate) = (1 + round % 5, 5 + round % 7);
            let text = text(weight, rate, more);
            let plan = path.plan_change(policy(&text)).expect("a plan");
            match path.difference(&plan) {
                KernelDifference::InPlace(_) => path.change(authored(&text), plan, false).expect("changed"),
                KernelDifference::NewRoot(reason) => panic!("{reason}"),
            }
        }
        drop(stopping);
        let sent = sender.join().expect("sender");
        counting.join().expect("receiver");
        sent
    });
    assert_eq!(received.load(Ordering::Relaxed), sent);
    // The last change holds: a process that opens the policy has the tree that the kernel has.
    let mut path = bed.open();
    assert_eq!(path.record().generation, 1001);
    let classes = TcDevice::open(&bed.host, DEVICE).expect("device").classes().expect("classes").len();
    assert_eq!(classes, path.plan().lowered.tree.classes().count());
    let limit = path.plan().policy.program.limits[0].rate;
    assert_eq!(limit, BitsPerSec(1_000_000 * (5 + 999 % 7)));
    assert!(path.warnings().expect("read").is_empty());
}

#[test]
fn a_former_root_comes_back_and_one_of_another_program_stays() {
    if !privileged("a_former_root_comes_back_and_one_of_another_program_stays") {
        return;
    }
    let _alone = alone();
    let bed = Bed::new();
    let mut device = TcDevice::open(&bed.host, DEVICE).expect("device");
    let tbf = Tbf { rate: BitsPerSec(8_000_000), overhead: 24, burst: Bytes(10_000), limit: Bytes(100_000) };
    device.add(&TcObject::root(Handle::qdisc(0x42), Qdisc::Tbf(tbf))).expect("a root");
    let before = device.root().expect("read").expect("a root");
    let text = format!("{CLASSES}root = priority {{ a, b, c, default }}\n");
    bed.apply(&text).expect("applied");
    KernelPath::remove(&bed.host, DEVICE).expect("removed");
    let after = device.root().expect("read").expect("a root");
    assert_eq!((after.place, &after.kind, &after.options), (before.place, &before.kind, &before.options));
    bed.apply(&text).expect("applied");
    device.replace(&TcObject::root(Handle::qdisc(0x43), Qdisc::Tbf(tbf))).expect("another root");
    let warnings = bed.open().warnings().expect("read");
    assert!(warnings.iter().any(|line| line.contains("tbf 43:")), "{warnings:?}");
    assert_eq!(KernelPath::remove(&bed.host, DEVICE).expect("removed").as_deref(), Some("tbf"));
    assert_eq!(device.root().expect("read").expect("a root").place.handle, Handle::qdisc(0x43));
}

#[test]
fn a_failed_apply_leaves_the_device_as_it_was() {
    if !privileged("a_failed_apply_leaves_the_device_as_it_was") {
        return;
    }
    let _alone = alone();
    let bed = Bed::new();
    let before = TcDevice::open(&bed.host, DEVICE).expect("device").qdiscs().expect("read");
    let text = format!("{CLASSES}root = priority {{ a, b, c, default }}\n");
    let plan = KernelPlan::new(&policy(&text), KernelPlan::qdiscs_here()).expect("a kernel form");
    let error = KernelPath::apply(&bed.host, "lo", authored(&text), plan, false).expect_err("lo");
    assert!(matches!(error, KernelError::NotEthernet { .. }), "{error}");
    let path = bed.apply(&text).expect("applied");
    assert!(std::path::Path::new(FOLDER).exists());
    drop(path);
    let plan = KernelPlan::new(&policy(&text), KernelPlan::qdiscs_here()).expect("a kernel form");
    // A second policy beside the first, whatever it may replace.
    let error = KernelPath::apply(&bed.host, DEVICE, authored(&text), plan, true).expect_err("twice");
    assert!(matches!(error, KernelError::Applied { .. }), "{error}");
    assert!(bed.open().warnings().expect("read").is_empty(), "the first is in force");
    // A process that has opened it before another one changed it changes nothing.
    let [mut early, mut late] = [bed.open(), bed.open()];
    let [one, two] = ["priority { b, a, c, default }", "priority { c, a, b, default }"]
        .map(|root| format!("{CLASSES}root = {root}\n"));
    let plan = early.plan_change(policy(&one)).expect("a plan");
    early.change(authored(&one), plan, true).expect("changed");
    let plan = late.plan_change(policy(&two)).expect("a plan");
    let error = late.change(authored(&two), plan, true).expect_err("too late");
    assert!(matches!(error, KernelError::Meanwhile { .. }), "{error}");
    KernelPath::remove(&bed.host, DEVICE).expect("removed");
    let after = TcDevice::open(&bed.host, DEVICE).expect("device").qdiscs().expect("read");
    let places = |found: &[weft_host::tc::QdiscFound]| {
        found.iter().map(|one| (one.place, one.kind.clone())).collect::<Vec<_>>()
    };
    assert_eq!(places(&before), places(&after));
}
