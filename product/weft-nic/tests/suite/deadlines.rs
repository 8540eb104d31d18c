//! The claims of senders about their packets, through the NIC and without any right: the order of algorithms that read them. By `SO_TXTIME`,
//! by the socket option for messages, and by nothing but a TCP socket's state.

use crate::common::bench;
use crate::common::bench::{Bench, conserved, set_mark};
use core::time::Duration;
use nix::sys::socket::{setsockopt, sockopt};
use nix::{libc, setsockopt_impl, sockopt_impl};
use rustix::net::{AddressFamily, SocketType, netlink, socket};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use weft_message::{Heard, Message, now, send_at, tell, use_times};
use weft_nic::testbed::RECEIVER;
use weft_units::Nanos;

const PORT: u16 = 6000;
/// On the wire: 8.5 kbit.
const PAYLOAD: usize = 1000;

sockopt_impl!(
    /// The rate of a socket in bytes per second.
    MaxPacingRate,
    SetOnly,
    libc::SOL_SOCKET,
    libc::SO_MAX_PACING_RATE,
    u32
);

/// The socket option is the host's: a test that needs it not offered writes, the others read.
static OPTION: RwLock<()> = RwLock::new(());

/// Lets test `name` run beside others; `None` without the rights that it needs.
fn shared(name: &str) -> Option<RwLockReadGuard<'static, ()>> {
    weft_host::testing::privileged(name).then(|| OPTION.read().unwrap_or_else(PoisonError::into_inner))
}

/// A connected socket whose datagrams may have times.
fn sender(bench: &Bench) -> UdpSocket {
    let socket = bench.sender(false);
    setsockopt(&socket, sockopt::SndBufForce, &(8 << 20)).expect("buffer");
    use_times(&socket).expect("SO_TXTIME");
    socket.connect((RECEIVER, PORT)).expect("connect");
    socket
}

fn send(socket: &UdpSocket, name: u8, count: usize, at: Option<Duration>) {
    for _ in 0..count {
        let payload = [name; PAYLOAD];
        let sent = at.map_or_else(|| socket.send(&payload), |at| send_at(socket, &payload, at));
        assert_eq!(sent.expect("send"), PAYLOAD);
    }
}

fn within(seconds: u64) -> Duration {
    now() + Duration::from_secs(seconds)
}

fn due(deadline: Duration) -> Message {
    Message { deadline: Some(deadline), bytes: None }
}

/// The names of the next `count` datagrams.
fn received(sink: &UdpSocket, count: usize) -> String {
    let mut payload = [0; PAYLOAD];
    let mut next = || sink.recv(&mut payload).map(|_| char::from(payload[0]));
    (0..count).map(|at| next().unwrap_or_else(|error| panic!("datagram {at}: {error}"))).collect()
}

/// The datagrams of others between the first and the last of `name`.
fn between(order: &str, name: char) -> usize {
    let first = order.find(name).expect("its first");
    let last = order.rfind(name).expect("its last");
    order[first..=last].chars().filter(|other| *other != name).count()
}

/// The order in which the datagrams of `senders` leave: 60 of `c`, without a claim, 40 of `l`, due in seven seconds, and
/// then 40 of `s`, due in three.
fn order_of(role: &str, order: &str, senders: impl FnOnce(&Bench)) -> String {
    let policy = format!("class rpc = udp\nroot = priority {{ {order} of rpc, default }}");
    let bench = Bench::roomy(role, &policy, 2);
    let sink = bench.receiver(false, PORT);
    senders(&bench);
    let order = received(&sink, 140);
    conserved(&bench.nic.stop(Nanos::from_secs(2)).expect("stop"));
    order
}

/// Checks an order by deadlines. Others leave between those that are due only while the sender pauses.
fn by_deadlines(order: &str) {
    assert!(between(order, 's') <= 5, "{order}");
    assert!(order.rfind('l') > order.rfind('s') && order.rfind('c') > order.rfind('l'), "{order}");
}

fn by_times(bench: &Bench) {
    let [calm, late, soon] = [(); 3].map(|()| sender(bench));
    send(&calm, b'c', 60, None);
    send(&late, b'l', 40, Some(within(7)));
    send(&soon, b's', 40, Some(within(3)));
}

#[test]
fn the_datagrams_that_are_due_first_leave_first() {
    let Some(_shared) = shared("the_datagrams_that_are_due_first_leave_first") else { return };
    by_deadlines(&order_of("due", "edf budget 9s", by_times));
    let null = order_of("duenull", "fair", by_times);
    assert!(between(&null, 's') >= 30, "fair knows no deadlines: {null}");
}

/// Runs a program in the sender's namespace, which gives up all rights.
fn run(bench: &Bench, program: &Path, arguments: &[&Path]) {
    let mut command = Command::new(program);
    command.args(arguments).arg(RECEIVER.to_string()).arg(PORT.to_string());
    let output = bench.bed.sender.run(|| command.output()).expect("namespace").expect("run");
    assert!(output.status.success(), "{program:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_process_without_rights_tells_by_each_helper() {
    let Some(_shared) = shared("a_process_without_rights_tells_by_each_helper") else { return };
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let sdk = here.join("../../sdk");
    let compiled = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("weft-tell");
    let mut gcc = Command::new("gcc");
    gcc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I"]).arg(&sdk).arg("-o").arg(&compiled);
    assert!(gcc.arg(here.join("tests/suite/common/tell.c")).status().expect("gcc").success());
    let script = here.join("tests/suite/common/tell.py");
    let in_rust = |bench: &Bench| {
        let [calm, late, soon] = [(); 3].map(|()| sender(bench));
        assert_eq!(tell(&late, due(within(7))).expect("told"), Heard::Yes);
        assert_eq!(tell(&soon, due(within(3))).expect("told"), Heard::Yes);
        send(&calm, b'c', 60, None);
        send(&late, b'l', 40, None);
        send(&soon, b's', 40, None);
    };
    by_deadlines(&order_of("tellc", "edf budget 9s", |bench| run(bench, &compiled, &[])));
    by_deadlines(&order_of("tellpy", "edf budget 9s", |bench| {
        run(bench, Path::new("python3"), &[&script, &sdk]);
    }));
    by_deadlines(&order_of("tellrs", "edf budget 9s", in_rust));
}

/// A server writes a message as the socket has room. A socket keeps the last four messages: each is claimed once.
#[test]
fn a_message_that_is_written_in_parts_is_told_once() {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let sdk = here.join("../../sdk");
    let compile = |source: &Path, name: &str, arguments: &[&str]| {
        let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let mut gcc = Command::new("gcc");
        gcc.args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I"]).arg(&sdk).args(arguments);
        assert!(gcc.arg("-o").arg(&out).arg(source).status().expect("gcc").success());
        out
    };
    let preload = compile(&sdk.join("preload.c"), "weft-preload.so", &["-shared", "-fPIC"]);
    let program = compile(&here.join("tests/suite/common/partial.c"), "weft-partial", &["-rdynamic"]);
    let output = Command::new(program).env("LD_PRELOAD", preload).env("WEFT_BUDGET_MS", "20").output();
    let output = output.expect("run");
    let text = String::from_utf8_lossy(&output.stdout);
    let counts: Vec<(u32, u32)> = text
        .lines()
        .map(|line| {
            let numbers: Vec<u32> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            (numbers[0], numbers[1])
        })
        .collect();
    assert!(output.status.success() && counts.len() == 3, "{output:?}");
    assert!(counts[0].1 > 10, "one message in many tries: {text}");
    assert_eq!([counts[0].0, counts[1].0, counts[2].0], [1, 3, 1], "{text}");
}

#[test]
fn a_datagram_is_held_until_its_time() {
    let Some(_shared) = shared("a_datagram_is_held_until_its_time") else { return };
    let bench = Bench::roomy("held", "class paced = udp\nroot = priority { edt of paced, default }", 100);
    let sink = bench.receiver(false, PORT);
    let [timed, other] = [(); 2].map(|()| sender(&bench));
    let at = now() + Duration::from_millis(250);
    send(&timed, b't', 1, Some(at));
    send(&other, b'o', 1, None);
    assert_eq!(received(&sink, 1), "o");
    assert_eq!(received(&sink, 1), "t");
    assert!(now() >= at, "before its time");
    conserved(&bench.nic.stop(Nanos::from_secs(2)).expect("stop"));
}

#[test]
fn the_lesser_priority_of_a_socket_leaves_first() {
    let Some(_shared) = shared("the_lesser_priority_of_a_socket_leaves_first") else { return };
    let own = "algorithm by_priority { rank = head.prio }";
    let policy =
        |order: &str| format!("{own}\nclass rpc = udp\nroot = priority {{ {order} of rpc, default }}");
    let leave = |role: &str, order: &str| {
        let bench = Bench::roomy(role, &policy(order), 2);
        let sink = bench.receiver(false, PORT);
        for (name, priority) in [(b'c', 6), (b'l', 4), (b's', 1)] {
            let socket = sender(&bench);
            setsockopt(&socket, sockopt::Priority, &priority).expect("up to 6 without any right");
            send(&socket, name, if name == b'c' { 60 } else { 40 }, None);
        }
        let order = received(&sink, 140);
        conserved(&bench.nic.stop(Nanos::from_secs(2)).expect("stop"));
        order
    };
    by_deadlines(&leave("prio", "by_priority"));
    let null = leave("prionull", "fair");
    assert!(between(&null, 's') >= 30, "fair knows no priorities: {null}");
}

#[test]
fn the_packets_of_a_socket_are_spaced_by_its_own_rate() {
    let Some(_shared) = shared("the_packets_of_a_socket_are_spaced_by_its_own_rate") else { return };
    // Ten datagrams of 1066 bytes on the wire at 20 kB/s take 0.5 s, and 0.9 ms on the link.
    let leave = |role: &str, order: &str| {
        let policy = format!("class rpc = udp\nroot = priority {{ {order} of rpc, default }}");
        let bench = Bench::roomy(role, &policy, 100);
        let sink = bench.receiver(false, PORT);
        let [paced, other] = [(); 2].map(|()| sender(&bench));
        setsockopt(&paced, MaxPacingRate, &20_000).expect("without any right");
        let begin = now();
        send(&paced, b'p', 10, None);
        send(&other, b'o', 30, None);
        let order = received(&sink, 40);
        let took = now() - begin;
        conserved(&bench.nic.stop(Nanos::from_secs(2)).expect("stop"));
        (took, order)
    };
    let (took, order) = leave("pace", "paced");
    // The first leaves at once, and so may the second: a flow without a next packet has no rate.
    assert!(took >= Duration::from_millis(400), "{took:?}: {order}");
    assert!(order.ends_with("ppp"), "who is not paced does not wait: {order}");
    let (_, null) = leave("pacenull", "fair");
    assert!(null.ends_with('o'), "fair knows no rates: {null}");
}

/// The bytes of a first TCP connection that have arrived when the second, which begins to write 50 ms later, has all its
/// bytes; each claims `messages` and writes its number of bytes.
fn race(role: &str, order: &str, sizes: [usize; 2], messages: [Message; 2]) -> usize {
    let policy = format!("class rpc = tcp\nroot = priority {{ {order} of rpc, default }}");
    let bench = Bench::roomy(role, &policy, 4);
    let to = SocketAddr::new(RECEIVER, PORT);
    let listener = bench.bed.receiver.run(|| TcpListener::bind(to)).expect("namespace").expect("listener");
    let ends = [(); 2].map(|()| {
        let out = bench.bed.sender.run(|| TcpStream::connect(to)).expect("namespace").expect("connect");
        setsockopt(&out, sockopt::SndBufForce, &(4 << 20)).expect("buffer");
        (out, listener.accept().expect("accept").0)
    });
    let arrived = [(); 2].map(|()| AtomicUsize::new(0));
    let at_the_end = std::thread::scope(|scope| {
        let mut readers = Vec::new();
        for (number, (out, end)) in ends.iter().enumerate() {
            let (arrived, mine, size) = (&arrived, &arrived[number], sizes[number]);
            readers.push(scope.spawn(move || {
                let (mut end, mut buffer) = (end, vec![0; 1 << 16]);
                while mine.load(Ordering::SeqCst) < size {
                    let count = end.read(&mut buffer).expect("read");
                    assert!(count > 0, "the connection ended");
                    mine.fetch_add(count, Ordering::SeqCst);
                }
                arrived[0].load(Ordering::SeqCst)
            }));
            tell(out, messages[number]).expect("told");
            let (mut out, text) = (out, vec![7; size]);
            out.write_all(&text).expect("write");
            std::thread::sleep(Duration::from_millis(50));
        }
        readers.pop().expect("the second").join().expect("no panic")
    });
    conserved(&bench.nic.stop(Nanos::from_secs(2)).expect("stop"));
    at_the_end
}

#[test]
fn the_message_that_is_due_first_arrives_first_over_tcp() {
    let Some(_shared) = shared("the_message_that_is_due_first_arrives_first_over_tcp") else { return };
    let sizes = [200_000; 2];
    let of = |seconds| Message { deadline: Some(within(seconds)), bytes: Some(200_000) };
    // 50 ms of the link are 25 kB: what had left before the second began, and a pause of the machine.
    let before = race("tcpdue", "edf budget 9s", sizes, [of(8), of(3)]);
    assert!(before < 120_000, "{before} bytes of the later one before");
    let null = race("tcpnull", "fair", sizes, [of(8), of(3)]);
    assert!(null > 150_000, "fair knows no deadlines: {null}");
}

#[test]
fn the_connection_with_fewer_bytes_left_goes_first_although_nobody_tells() {
    let Some(_shared) = shared("the_connection_with_fewer_bytes_left_goes_first_although_nobody_tells")
    else {
        return;
    };
    let (sizes, nothing) = ([400_000, 150_000], [Message::default(); 2]);
    let before = race("left", "srpt", sizes, nothing);
    assert!(before < 100_000, "{before} bytes of the longer one before");
    let null = race("leftnull", "fair", sizes, nothing);
    assert!(null > 120_000, "fair knows no sizes: {null}");
}

#[test]
fn a_tenant_that_lies_about_deadlines_orders_its_own_packets_only() {
    let Some(_shared) = shared("a_tenant_that_lies_about_deadlines_orders_its_own_packets_only") else {
        return;
    };
    let policy = "class liar = mark 7\nclass honest = udp\n\
                  root = wfq { edf of liar: 1, edf budget 5s of honest: 1, default: 1 }";
    let bench = Bench::roomy("lie", policy, 1);
    let sink = bench.receiver(false, PORT);
    let [honest, liar] = [(); 2].map(|()| sender(&bench));
    set_mark(&liar, 7);
    // The earliest deadline that there is.
    let message = Message { deadline: Some(Duration::from_nanos(1)), bytes: None };
    assert_eq!(tell(&liar, message).expect("told"), Heard::Yes);
    send(&honest, b'h', 60, None);
    send(&liar, b'l', 60, None);
    let order = received(&sink, 120);
    // From the liar's first packet on, until the honest tenant has none left, they take turns.
    let first = order.find('l').expect("the liar's");
    let end = order.rfind('h').expect("the honest one's");
    let both = &order[first..=end];
    let lies = both.chars().filter(|name| *name == 'l').count();
    assert!(both.len() >= 40 && lies.abs_diff(both.len() - lies) <= 2, "{lies} of {}: {order}", both.len());
    conserved(&bench.nic.stop(Nanos::from_secs(2)).expect("stop"));
}

#[test]
fn a_message_ends_with_its_bytes_and_the_option_with_the_policy_that_reads_it() {
    if !weft_host::testing::privileged(
        "a_message_ends_with_its_bytes_and_the_option_with_the_policy_that_reads_it",
    ) {
        return;
    }
    let _alone = OPTION.write().unwrap_or_else(PoisonError::into_inner);
    let (ns, doorbells) = bench::doorbells_only(
        "message",
        "class a = udp\nroot = priority { least_slack line 1gbps of a, default }",
        100,
    );
    let plan = |text: &str| {
        weft_nic::plan::RingPlan::new(&bench::policy(text), weft_nic::plan::Mode::Loom, 16, &[])
            .expect("plan")
    };
    let reads = plan("class a = udp\nroot = priority { least_slack line 1gbps of a, default }");
    doorbells.maps().offer_messages(&reads);
    assert_eq!(doorbells.maps().messages_missing(), None);
    let udp = bench::socket(&ns, bench::unspecified(false));
    udp.connect("10.77.0.2:9").expect("connect");
    let deadline = within(60);
    let told = || {
        let ring = doorbells.shared().rings.iter().find(|ring| ring.packets.load(Ordering::SeqCst) > 0);
        let ring = ring.expect("the flow's ring");
        (ring.asked.swap(0, Ordering::SeqCst), ring.last_or_left.swap(0, Ordering::SeqCst))
    };
    udp.send(&[0; PAYLOAD]).expect("send");
    assert_eq!(told(), (0, 0));
    let message = Message { deadline: Some(deadline), bytes: Some(2500) };
    // The number of its protocol is that of TCP, and its family is not (NETLINK_XFRM).
    let other = ns.run(|| socket(AddressFamily::NETLINK, SocketType::RAW, Some(netlink::XFRM)));
    let other = other.expect("namespace").expect("a netlink socket");
    assert_eq!(tell(&other, message).expect("told"), Heard::ByNobody);
    assert_eq!(tell(&udp, message).expect("told"), Heard::Yes);
    let asked = deadline.as_nanos() as u64;
    for left in [2500, 1500, 500] {
        udp.send(&[0; PAYLOAD]).expect("send");
        assert_eq!(told(), (asked, left));
    }
    udp.send(&[0; PAYLOAD]).expect("send");
    assert_eq!(told(), (0, 0), "the message has been sent");
    // Two datagrams between two looks: the least of each kind.
    tell(&udp, message).expect("told");
    (0..2).for_each(|_| _ = udp.send(&[0; PAYLOAD]).expect("send"));
    assert_eq!(told(), (asked, 1500));
    doorbells.maps().offer_messages(&plan("class a = udp\nroot = priority { fair of a, default }"));
    assert_eq!(tell(&udp, message).expect("told"), Heard::ByNobody);
}

/// With more flows than rings, a flow that requests a late time holds no other flow: its claim is not taken, and counted. A flow
/// that has its ring for itself may request one.
#[test]
fn a_late_time_holds_no_flow_that_shares_the_ring() {
    let Some(_shared) = shared("a_late_time_holds_no_flow_that_shares_the_ring") else { return };
    let text = "class paced = udp\nroot = priority { edt of paced, default }";
    let settings = weft_nic::nic::NicConfig { rings: 4, ..bench::config(10) };
    let bench = Bench::start("latecl", text, &settings, 1000, |_| ());
    let sink = bench.receiver(false, PORT);
    let late: Vec<UdpSocket> = (0..2).map(|_| sender(&bench)).collect();
    let due = within(9);
    late.iter().for_each(|socket| send(socket, b'l', 1, Some(due)));
    let others: Vec<UdpSocket> = (0..8).map(|_| sender(&bench)).collect();
    for _ in 0..5 {
        others.iter().for_each(|socket| send(socket, b'o', 1, None));
        // More of the late ones, now that they share.
        late.iter().for_each(|socket| send(socket, b'l', 1, Some(due)));
    }
    let mut left = 40;
    let mut payload = [0; PAYLOAD];
    while left > 0 {
        sink.recv(&mut payload).expect("a datagram");
        left -= usize::from(payload[0] == b'o');
        assert!(now() + Duration::from_secs(3) < due, "{left} datagrams of others wait");
    }
    let totals = bench.nic.totals().expect("totals");
    // One of the two may hold its ring, which is half of the class's.
    assert!(bench.of(&totals, "paced").events.late_claims.get() >= 6, "{totals:#?}");
    conserved(&bench.nic.stop(Nanos::from_secs(2)).expect("stop"));
}
