//! Classes by the process that made a socket: programs with different names, which are links to the same one.

use crate::common::bench::{self, Bench, config, conserved};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, ipproto};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command};
use std::time::Duration;
use weft_host::process::Process;
use weft_host::testing::{PATIENCE, until, wait_for};
use weft_host::{Spawn, programs};
use weft_nic::testbed::{RECEIVER, SENDER};
use weft_units::Nanos;

const PORT: u16 = 6000;
/// The port at which a program listens.
const SERVICE: u16 = 7000;
/// Sends each line of the standard input as a packet of the socket 3.
const SEND: &str = "while read -r line; do echo $line >&3; done";
/// Listens, accepts one connection, and sends each line of the standard input on it.
const LISTEN: &str = "import socket, sys\n\
    listener = socket.create_server(('', 7000))\n\
    connection, _ = listener.accept()\n\
    for line in sys.stdin: connection.sendall(line.encode())";

/// As [`LISTEN`], by MPTCP, for connections one after the other.
const LISTEN_MPTCP: &str = "import socket, sys\n\
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)\n\
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n\
    listener.bind(('', 7000))\n\
    listener.listen()\n\
    for n in range(CONNECTIONS):\n    \
        connection, _ = listener.accept()\n    \
        connection.sendall(sys.stdin.readline().encode())";

/// Links to programs, so that their processes have other names. The folder goes with it.
struct Names(PathBuf);

impl Names {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(weft_host::testing::unique("names"));
        std::fs::create_dir(&folder).expect("folder");
        Self(folder)
    }

    /// The path of `program` under the name `name`.
    fn of(&self, program: &Path, name: &str) -> String {
        let path = self.0.join(name);
        if !path.exists() {
            std::os::unix::fs::symlink(program, &path).expect("link");
        }
        path.to_str().expect("a path").to_owned()
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program that sends as its input says.
struct Sender {
    process: Process,
    lines: ChildStdin,
}

impl Sender {
    fn start(bench: &Bench, program: &str, script: &str) -> Self {
        let spawn = Spawn::new(program).args(["-c", script]).netns(&bench.bed.sender);
        let mut process = spawn.stdin_piped().start().expect(program);
        let lines = process.take_stdin().expect("a pipe");
        Self { process, lines }
    }

    fn send(&mut self) {
        self.lines.write_all(b"a line\n").expect("write");
    }

    fn end(self) {
        let Self { mut process, lines } = self;
        drop(lines);
        assert!(process.wait().expect("end").success());
    }
}

/// The packets of the classes `a`, `b` and `default` that were sent.
fn counted(bench: &Bench) -> [u64; 3] {
    let totals = bench.settle(Duration::from_secs(1));
    ["a", "b", "default"].map(|name| bench.of(&totals, name).sent.packets.get())
}

/// Waits for these numbers of packets.
fn expect(bench: &Bench, wanted: [u64; 3], when: &str) {
    let came = until(PATIENCE, || counted(bench) == wanted);
    assert!(came, "{when}: {:?} in place of {wanted:?}", counted(bench));
}

fn tests([a, b]: [&str; 2]) -> String {
    format!("class a = {a}\nclass b = {b}\nroot = priority {{ a, b, default }}")
}

fn change(bench: &mut Bench, text: &str) {
    let settings = config(100);
    let policy = bench::policy(text);
    let prepared = bench.nic.prepare_policy(&policy, (settings.rate, settings.link)).expect("prepared");
    bench.nic.change_policy(prepared, &[]).expect("changed");
    assert_eq!(bench.nic.socket_owners_missing(), None);
}

/// Sockets that were there before any policy tested a process, new ones, those of a process that has another name by now, and
/// those that another program got by `exec`.
#[test]
fn a_socket_is_of_the_process_that_made_it() {
    const TEST: &str = "a_socket_is_of_the_process_that_made_it";
    if !weft_host::testing::privileged(TEST) {
        return;
    }
    let (names, bash) = (Names::new(), programs::find("bash").expect("bash"));
    let bash = |name: &str| names.of(&bash, name);
    let open = format!("exec 3>/dev/udp/{RECEIVER}/{PORT}");
    let mut bench = Bench::start("prc", &tests(["mark 1", "mark 2"]), &config(100), 1000, |_| ());
    // An ICMP error from the receiver would block the sender's next packet.
    let _sink = bench::socket(&bench.bed.receiver, SocketAddr::new(RECEIVER, PORT));
    let mut older = Sender::start(&bench, &bash("weft-one"), &format!("{open}; {SEND}"));
    older.send();
    expect(&bench, [0, 0, 1], "no class tests processes");
    change(&mut bench, &tests(["process \"weft-one\"", "process \"weft-two\""]));
    older.send();
    expect(&bench, [1, 0, 1], "a socket that was there before");
    let renamed = format!("{open}; printf weft-one > /proc/$$/comm; {SEND}");
    let mut renamed = Sender::start(&bench, &bash("weft-two"), &renamed);
    renamed.send();
    expect(&bench, [1, 1, 1], "its maker has another name by now");
    let handed_on = format!("{open}; exec {} -c '{SEND}'", bash("weft-one"));
    let mut handed_on = Sender::start(&bench, &bash("weft-two"), &handed_on);
    handed_on.send();
    expect(&bench, [1, 2, 1], "its maker executes another program");
    let liar = format!("printf weft-two > /proc/$$/comm; {open}; {SEND}");
    let mut liar = Sender::start(&bench, &bash("weft-liar"), &liar);
    liar.send();
    expect(&bench, [1, 3, 1], "its maker took the name before");
    change(&mut bench, &tests(["process \"weft-two\"", "process \"nobody\""]));
    older.send();
    expect(&bench, [1, 3, 2], "the names of the policy are others");
    handed_on.send();
    expect(&bench, [2, 3, 2], "the same socket in another class");
    [older, renamed, handed_on, liar].into_iter().for_each(Sender::end);
    conserved(&bench.nic.stop(Nanos::from_secs(1)).expect("stop"));
}

/// All packets of a connection are of the process that listens, from the answer to its first one on.
#[test]
fn an_accepted_socket_is_of_the_process_that_listens() {
    const TEST: &str = "an_accepted_socket_is_of_the_process_that_listens";
    if !weft_host::testing::privileged(TEST) || !weft_host::testing::has_program(TEST, "python3") {
        return;
    }
    let (names, python) = (Names::new(), python());
    let text = tests(["process \"weft-listens\"", "process \"weft-other\""]);
    let mut bench = Bench::start("acc", &text, &config(100), 1000, |_| ());
    assert_eq!(bench.nic.socket_owners_missing(), None);
    let mut listens = Sender::start(&bench, &names.of(&python, "weft-listens"), LISTEN);
    let mut connection = bench.bed.receiver.run(connected).expect("namespace");
    // The kernel refused connections before the program listened: no process did.
    let [_, _, refused] = counted(&bench);
    let mut received = [0; 7];
    let mut receive = |sender: &mut Sender| {
        sender.send();
        connection.read_exact(&mut received).expect("a line");
        counted(&bench)
    };
    let [first, _, _] = receive(&mut listens);
    let [second, none, other] = receive(&mut listens);
    assert!(first >= 2 && second > first, "the answer to the first packet, and the lines: {first}, {second}");
    assert_eq!((none, other), (0, refused));
    change(&mut bench, &tests(["process \"weft-other\"", "process \"weft-listens\""]));
    listens.send();
    connection.read_exact(&mut received).expect("a line");
    let [after, moved, other] = counted(&bench);
    assert!((after, other) == (second, refused) && moved > 0, "{after}, {moved}, {other}");
    drop(connection);
    listens.end();
    conserved(&bench.nic.stop(Nanos::from_secs(1)).expect("stop"));
}

/// The interpreter, which a script of its name may be before.
fn python() -> PathBuf {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    PathBuf::from(String::from_utf8(asked.expect("python3").stdout).expect("a path").trim_end())
}

/// A connection to the program that listens, as soon as it does.
fn connected() -> TcpStream {
    let mut connection = None;
    wait_for("a connection to the program", || {
        connection = TcpStream::connect_timeout(&SocketAddr::new(SENDER, SERVICE), PATIENCE).ok();
        connection.is_some()
    });
    connection.expect("a connection")
}

/// As above with MPTCP, whose subflows the kernel makes, for a client of MPTCP and for one of plain TCP; and for a listener that was there
/// before a policy tested processes.
#[test]
fn subflows_of_mptcp_are_of_the_process_that_made_the_connection() {
    const TEST: &str = "subflows_of_mptcp_are_of_the_process_that_made_the_connection";
    if !weft_host::testing::privileged(TEST) || !weft_host::testing::has_program(TEST, "python3") {
        return;
    }
    let enabled = std::fs::read_to_string("/proc/sys/net/mptcp/enabled");
    if enabled.map_or(true, |text| text.trim() != "1") {
        weft_units::testing::skip(TEST, "this kernel has no MPTCP, or it is off");
        return;
    }
    let names = Names::new();
    let python = names.of(&python(), "weft-listens");
    let (before, after) =
        (tests(["mark 1", "mark 2"]), tests(["process \"weft-listens\"", "process \"weft-other\""]));
    for listens_before in [true, false] {
        let mut bench =
            Bench::start("mpt", if listens_before { &before } else { &after }, &config(100), 1000, |_| ());
        let script = LISTEN_MPTCP.replace("CONNECTIONS", "2");
        let mut listens = Sender::start(&bench, &python, &script);
        bench::wait_listening(&bench.bed.sender, SERVICE);
        if listens_before {
            change(&mut bench, &after);
        }
        assert_eq!(bench.nic.socket_owners_missing(), None);
        for protocol in [None, Some(ipproto::MPTCP)] {
            let mut connection = bench.bed.receiver.run(|| connect_by(protocol)).expect("namespace");
            let [was, ..] = counted(&bench);
            listens.send();
            let mut received = [0; 7];
            connection.read_exact(&mut received).expect("a line");
            let [is, none, other] = counted(&bench);
            assert!(is > was && was >= 1, "{protocol:?}: {was} packets, then {is}");
            assert_eq!((none, other), (0, 0), "{protocol:?}, before {listens_before}");
        }
        listens.end();
        conserved(&bench.nic.stop(Nanos::from_secs(1)).expect("stop"));
    }
}

/// No process listens: the answer is of a socket of the kernel, which no process made.
#[test]
fn packets_of_sockets_without_a_maker_are_counted() {
    const TEST: &str = "packets_of_sockets_without_a_maker_are_counted";
    if !weft_host::testing::privileged(TEST) {
        return;
    }
    let bench = Bench::start("unm", &tests(["process \"weft-one\"", "mark 9"]), &config(100), 1000, |_| ());
    let refused = || TcpStream::connect_timeout(&SocketAddr::new(SENDER, SERVICE), Duration::from_secs(5));
    assert!(bench.bed.receiver.run(refused).expect("namespace").is_err());
    let [_, _, other] = counted(&bench);
    let totals = bench.nic.stop(Nanos::from_secs(1)).expect("stop");
    assert!(other >= 1 && totals.events.unknown_makers.get() >= 1, "{totals:#?}");
    conserved(&totals);
}

/// A connection to the program that listens, by a protocol; `None` for TCP.
fn connect_by(protocol: Option<Protocol>) -> TcpStream {
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, protocol).expect("socket");
    rustix::net::connect(&socket, &SocketAddr::new(SENDER, SERVICE)).expect("connect");
    TcpStream::from(socket)
}
