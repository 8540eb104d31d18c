//! Three namespaces with `weft run` between them.

use crate::common::{Running, file, weft};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use weft_host::link::{self, VethOptions};
use weft_host::testing::{unique, wait_for};
use weft_host::{NetNs, RunId};

pub(crate) const POLICY: &str =
    "link 100mbps\nclass web = tcp port 5201\nroot = wfq { fair of web: 1, default: 1 }\n";
/// Bytes per transfer: 0.32 s at 100 Mb/s.
pub(crate) const BYTES: usize = 4_000_000;
/// Addresses of the port, and of the uplink's other end.
pub(crate) const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 0, 1));
pub(crate) const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 0, 2));

/// Sends [`BYTES`] from `from` to a listener in `to`, and returns the time taken.
pub(crate) fn transfer(from: &NetNs, to: &NetNs, at: IpAddr) -> Duration {
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

/// Waits until the link `name` of a namespace runs.
#[track_caller]
pub(crate) fn wait_until_up(ns: &NetNs, name: &str) {
    wait_for(format_args!("{name} is up"), || link::show(ns, name).is_ok_and(|link| link.running));
}

/// Waits until the port of this run is up among the applications.
#[track_caller]
pub(crate) fn wait_for_port(app: &NetNs, running: &Running) {
    let run = || link::alias(app, "weft0").ok().flatten().and_then(|alias| RunId::owner_of_alias(&alias));
    wait_for("the port of this run", || run().is_some_and(|run| run.pid == running.0.id()));
    wait_until_up(app, "weft0");
}

/// Namespaces of the applications, of the uplink's interface, and of its other end.
pub(crate) struct World {
    pub(crate) app: NetNs,
    pub(crate) host: NetNs,
    pub(crate) far: NetNs,
    pub(crate) folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let [app, host, far] =
            ["app", "host", "far"].map(|role| NetNs::create(&unique(role)).expect("namespace"));
        link::create_veth((&host, "up0"), (&far, "far0"), &VethOptions::default()).expect("veth");
        link::set_up(&host, "up0").expect("up");
        link::set_up(&far, "far0").expect("up");
        link::add_address(&far, "far0", FAR, 24).expect("address");
        Self { app, host, far, folder: tempfile::tempdir().expect("folder") }
    }

    /// Starts the program with [`POLICY`] and waits until the port is up.
    pub(crate) fn start(&self, more: &[&str]) -> Running {
        self.start_with(POLICY, more)
    }

    /// Starts the program with `policy` and waits until the port is up.
    pub(crate) fn start_with(&self, policy: &str, more: &[&str]) -> Running {
        let policy = file(&self.folder, "p.weft", policy);
        let running = weft()
            .args(["run", &policy, "--uplink", "up0", "--uplink-netns", self.host.name()])
            .args(["--netns", self.app.name(), "--address", "10.97.0.1/24", "--plain"])
            .args(more)
            .spawn();
        let running = Running(running.expect("start weft"));
        wait_for_port(&self.app, &running);
        running
    }

    /// Asserts that only the test's own devices exist.
    pub(crate) fn assert_clean(&self) {
        let names =
            |ns: &NetNs| link::list(ns).expect("links").into_iter().map(|l| l.name).collect::<Vec<_>>();
        assert_eq!(
            (names(&self.app), names(&self.host)),
            (vec!["lo".into()], vec!["lo".into(), "up0".into()])
        );
    }
}
