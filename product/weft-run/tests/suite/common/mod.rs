//! A session between namespaces of applications and a network.

pub(crate) mod numbered;
pub(crate) mod policies;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;
use weft_host::link::{self, Mac, VethOptions};
use weft_host::testing::unique;
use weft_host::{NetNs, sysctl};
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile};
use weft_run::session::{NicSettings, PortKind, PortSettings, Receive, Session};
use weft_units::{BitsPerSec, Nanos};

/// The address of the network's host.
pub(crate) const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 97, 200, 1));
pub(crate) const PREFIX: u8 = 16;
pub(crate) const SOON: Duration = Duration::from_secs(10);
pub(crate) const GRACE: Nanos = Nanos::from_secs(2);

pub(crate) fn policy(text: &str) -> CompiledPolicy {
    let compiled = compile(Source { name: "test", text }, &CompileOptions::default());
    compiled.policy.unwrap_or_else(|| panic!("{text}: {:?}", compiled.diagnostics))
}

/// A namespace whose stack sends nothing by itself.
pub(crate) fn silent(role: &str) -> NetNs {
    let ns = NetNs::create(&unique(role)).expect("namespace");
    sysctl::disable_ipv6(&ns);
    ns
}

/// A namespace of applications.
pub(crate) fn add_namespace() -> NetNs {
    silent("app")
}

/// The address of port `number`.
pub(crate) fn address(number: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 97, (number / 200) as u8, (number % 200 + 1) as u8))
}

/// The namespace of the uplink's interface, and of the network's host.
pub(crate) struct World {
    pub(crate) host: NetNs,
    pub(crate) far: NetNs,
}

impl World {
    pub(crate) fn new() -> Self {
        let [host, far] = ["host", "far"].map(silent);
        link::create_veth((&host, "up0"), (&far, "far0"), &VethOptions::default()).expect("veth");
        link::set_up(&host, "up0").expect("up");
        link::set_up(&far, "far0").expect("up");
        link::add_address(&far, "far0", FAR, PREFIX).expect("address");
        Self { host, far }
    }

    /// A session without ports on a link of `megabits`.
    pub(crate) fn session(&self, text: &str, megabits: u64) -> Session {
        self.session_of(NonZeroUsize::MIN, text, megabits)
    }

    /// The same, with several transmit workers.
    pub(crate) fn session_of(&self, workers: NonZeroUsize, text: &str, megabits: u64) -> Session {
        let settings = NicSettings {
            uplink: "up0".to_owned(),
            uplink_netns: Some(self.host.name().to_owned()),
            rate: BitsPerSec(megabits * 1_000_000),
            queues: None,
            workers,
            link: LinkKind::Device(DeviceLink { rate: LinkRate::Given, piece: None }),
            segments_per_turn: SegmentsPerTurn::Whole,
            catch_up: Nanos::from_millis(10),
            log: false,
        };
        Session::start_without_port(&policy(text), &settings).expect("session")
    }

    /// The settings of port `number`, `pN`, in `app`.
    pub(crate) fn port(&self, app: &NetNs, number: usize) -> PortSettings {
        PortSettings {
            name: format!("p{number}"),
            netns: Some(app.name().to_owned()),
            addresses: vec![(address(number), PREFIX)],
            mac: Mac([2, 0, 0, 1, (number >> 8) as u8, number as u8]),
            kind: PortKind::Veth,
            receive: Receive::Auto,
            share: PortSettings::SHARE,
            ingress: None,
        }
    }

    /// Adds port `number` in a separate namespace.
    pub(crate) fn add(&self, session: &mut Session, number: usize) -> NetNs {
        let app = add_namespace();
        session.add_port(&self.port(&app, number)).expect("port");
        app
    }
}

/// A UDP socket in `ns`, which waits for at most 300 ms.
pub(crate) fn udp(ns: &NetNs, at: (IpAddr, u16)) -> UdpSocket {
    let socket = ns.run(|| UdpSocket::bind(SocketAddr::from(at))).expect("enter").expect("bind");
    socket.set_read_timeout(Some(Duration::from_millis(300))).expect("timeout");
    socket.set_broadcast(true).expect("broadcast");
    socket
}

/// The datagrams that have arrived.
pub(crate) fn arrived(socket: &UdpSocket) -> usize {
    let mut buffer = [0; 2000];
    std::iter::from_fn(|| socket.recv_from(&mut buffer).ok()).count()
}

/// The TCP segments that this namespace has retransmitted.
pub(crate) fn retransmitted(ns: &NetNs) -> u64 {
    weft_host::net_counters::NetCounters::read(ns).expect("counters").retransmitted
}

/// Has TCP of port `number` of `ns` send again only what is missing at the receiver. By default it also sends again what was not
/// acknowledged in time (200 ms, `TCP_RTO_MIN`), which on a busy machine says that a process did not run.
pub(crate) fn resend_lost_only(ns: &NetNs, number: usize) {
    sysctl::set(ns, "net.ipv4.tcp_early_retrans", "0").expect("no probes of the tail");
    let (name, port) = (ns.name(), format!("p{number}"));
    let network = format!("10.97.0.0/{PREFIX}");
    let address = address(number).to_string();
    let route = ["proto", "kernel", "scope", "link", "src", &address, "rto_min", "60s"];
    let status = std::process::Command::new("ip")
        .args(["-n", name, "route", "change", &network, "dev", &port])
        .args(route)
        .status()
        .expect("ip runs");
    assert!(status.success(), "a route with a minimum of TCP's timeout");
}

/// A connection from `from` to `port` of `to` in `ns`.
pub(crate) fn connect(from: &NetNs, (ns, to): (&NetNs, IpAddr), port: u16) -> (TcpStream, TcpStream) {
    let at = SocketAddr::new(to, port);
    let listener = ns.run(|| TcpListener::bind(at)).expect("enter").expect("bind");
    let stream = from.run(|| TcpStream::connect_timeout(&at, SOON)).expect("enter").expect("connect");
    let (accepted, _) = listener.accept().expect("accept");
    (stream, accepted)
}

/// Sends `bytes` over a new connection and checks that they arrive.
pub(crate) fn transfer(from: &NetNs, to: (&NetNs, IpAddr), bytes: usize) {
    let (mut stream, mut accepted) = connect(from, to, 5201);
    let receiver = std::thread::spawn(move || {
        let mut all = Vec::new();
        accepted.read_to_end(&mut all).expect("receive");
        all.len()
    });
    stream.write_all(&vec![7; bytes]).expect("send");
    drop(stream);
    assert_eq!(receiver.join().expect("receiver"), bytes);
}

/// Sends without end over `stream` until `stop`; the receiver counts in `count`.
pub(crate) fn flood<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    (mut stream, mut accepted): (TcpStream, TcpStream),
    stop: &'s AtomicBool,
    count: &'s AtomicU64,
) {
    stream.set_write_timeout(Some(Duration::from_millis(200))).expect("timeout");
    accepted.set_read_timeout(Some(SOON)).expect("timeout");
    scope.spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            let _ = stream.write(&[7; 1 << 16]);
        }
    });
    scope.spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(n) = accepted.read(&mut buffer)
            && n > 0
        {
            count.fetch_add(n as u64, Ordering::Relaxed);
        }
    });
}

/// Ends a session and checks its accounting.
pub(crate) fn finish(session: Session) {
    let report = session.finish(GRACE).expect("finish");
    let accounting = &report.conservation;
    // A session without packets has no accounting.
    if accounting.total.in_packets > 0 {
        assert_eq!(accounting.violations(), [""; 0], "{report:#?}");
    }
}
