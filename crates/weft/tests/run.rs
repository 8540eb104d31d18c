//! `weft run` between namespaces of the test: a real TCP transfer crosses the port and the uplink.

mod common;

use common::{Running, assert_conserved, assert_head, file, json, left_by, until, weft};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weft_host::link::{self, VethOptions};
use weft_host::testing::{privileged, unique};
use weft_host::{NetNs, RunId};

const POLICY: &str = "link 100mbps\nclass web = tcp port 5201\nroot = wfq { fair of web: 1, default: 1 }\n";
/// Bytes that are carried: 0.32 s at 100 Mb/s.
const BYTES: usize = 4_000_000;

fn address(text: &str) -> IpAddr {
    text.parse().expect("address")
}

/// Sends [`BYTES`] from `from` to a listener in `to`; how long that took.
fn transfer(from: &NetNs, to: &NetNs, at: IpAddr) -> Duration {
    let listener = to.run(|| TcpListener::bind((at, 5201))).expect("enter").expect("bind");
    let receiver = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).expect("receive");
        bytes
    });
    let start = Instant::now();
    let stream = from.run(|| TcpStream::connect_timeout(&(at, 5201).into(), Duration::from_secs(5)));
    let mut stream = stream.expect("enter").expect("connect");
    let sent: Vec<u8> = (0..BYTES).map(|i| (i % 251) as u8).collect();
    stream.write_all(&sent).expect("send");
    drop(stream);
    assert!(receiver.join().expect("receiver") == sent, "what arrives is what was sent");
    start.elapsed()
}

/// Where the applications are, where the uplink's interface is, and where it leads to.
struct World {
    app: NetNs,
    host: NetNs,
    far: NetNs,
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let [app, host, far] =
            ["app", "host", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
        link::create_veth((&host, "up0"), (&far, "far0"), &VethOptions::default()).expect("veth");
        link::set_up(&host, "up0").expect("up");
        link::set_up(&far, "far0").expect("up");
        link::add_address(&far, "far0", address("10.97.0.2"), 24).expect("address");
        Self { app, host, far, folder: tempfile::tempdir().expect("folder") }
    }

    /// Starts the program and waits until the port is up.
    fn start(&self, more: &[&str]) -> Running {
        let policy = file(&self.folder, "p.weft", POLICY);
        let running = weft()
            .args(["run", &policy, "--uplink", "up0", "--uplink-netns", self.host.name()])
            .args(["--netns", self.app.name(), "--address", "10.97.0.1/24", "--plain"])
            .args(more)
            .spawn();
        let running = Running(running.expect("start weft"));
        let ours = || link::alias(&self.app, "weft0").ok().flatten().and_then(|a| RunId::owner_of_alias(&a));
        let up = || link::show(&self.app, "weft0").is_ok_and(|l| l.running);
        let started = || up() && ours().is_some_and(|run| run.pid == running.0.id());
        assert!(until(Duration::from_secs(20), started), "the port does not come up");
        running
    }

    /// Asserts that only what the test made is there.
    fn assert_clean(&self) {
        let names =
            |ns: &NetNs| link::list(ns).expect("links").into_iter().map(|l| l.name).collect::<Vec<_>>();
        assert_eq!(
            (names(&self.app), names(&self.host)),
            (vec!["lo".into()], vec!["lo".into(), "up0".into()])
        );
    }
}

#[test]
fn a_transfer_crosses_the_port_and_sigterm_takes_all_down() {
    if !privileged("a_transfer_crosses_the_port_and_sigterm_takes_all_down") {
        return;
    }
    let world = World::new();
    let counters = world.folder.path().join("counters.json");
    let running = world.start(&["--json", counters.to_str().expect("UTF-8")]);
    let pid = running.0.id();
    let took = transfer(&world.app, &world.far, address("10.97.0.2"));
    assert!(took > Duration::from_millis(300), "{took:?} is faster than the link");
    running.signal(Signal::TERM);
    let said = running.wait(Duration::from_secs(20));
    assert_eq!(said.code, 143, "{}", said.err);
    assert!(said.out.contains("web") && said.err.contains("everything was taken down"), "{said:?}");

    let document = json(&counters);
    assert_head(&document, "weft-run/1");
    assert_conserved(&document["conservation"]);
    for station in document["conservation"]["stations"].as_array().expect("stations") {
        assert_conserved(station);
    }
    assert_eq!(document["classes"][0]["class"], "web");
    assert!(document["classes"][0]["bytes"].as_u64().expect("bytes") > BYTES as u64, "{document}");
    world.assert_clean();
    assert!(left_by(pid).is_empty());
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
