//! A NIC between two namespaces, and sockets in them.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::num::NonZeroU32;
use nix::sys::socket::{setsockopt, sockopt};
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weft_host::netns::NetNs;
use weft_host::sock_diag::{SockDiag, Socket, State};
use weft_host::testing::{PATIENCE, until, wait_for};
use weft_host::{Mac, link, sysctl};
use weft_nic::doorbell::{Doorbells, Shared};
use weft_nic::nic::{ClassTotals, NicConfig, NicPlan, SoftwareNic, Totals};
use weft_nic::plan::{Mode, RingPlan};
use weft_nic::port::{Port, Uplink};
use weft_nic::testbed::{RECEIVER, Testbed};
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{CompileOptions, CompiledPolicy, Source, compile};
use weft_units::{BitsPerSec, Nanos};

/// IPv6 addresses of sender and receiver, for tests that need them.
pub(crate) const SENDER6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
pub(crate) const RECEIVER6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));

/// Compiles a valid policy.
pub(crate) fn policy(text: &str) -> CompiledPolicy {
    let compiled = compile(Source { name: "test", text }, &CompileOptions::default());
    compiled.policy.unwrap_or_else(|| panic!("{text}: {:?}", compiled.diagnostics))
}

/// The default configuration: interleaving segment by segment, Loom's mode, 64 rings.
pub(crate) fn config(megabits: u64) -> NicConfig {
    NicConfig {
        mode: Mode::Loom,
        rate: BitsPerSec(megabits * 1_000_000),
        link: weft_nic::link::LinkKind::Emulated,
        segments_per_turn: SegmentsPerTurn::AtMost(NonZeroU32::MIN),
        catch_up: Nanos::from_millis(50),
        window: Nanos::from_millis(50),
        cgroups: Vec::new(),
        flows: Vec::new(),
        rings: 64,
        departures: None,
    }
}

/// A running NIC.
pub(crate) struct Bench {
    pub(crate) nic: SoftwareNic,
    pub(crate) policy: CompiledPolicy,
    pub(crate) bed: Testbed,
}

impl Bench {
    /// Starts a NIC; `edit` may change the plan of its rings.
    pub(crate) fn start(
        role: &str,
        text: &str,
        config: &NicConfig,
        ring_packets: u32,
        edit: impl FnOnce(&mut NicPlan),
    ) -> Self {
        Self::start_on(role, text, config, edit, |bed, rings| {
            bed.devices_with(rings, ring_packets, true).expect("devices")
        })
    }

    /// Starts a NIC with a compiled policy.
    pub(crate) fn start_compiled(role: &str, policy: CompiledPolicy, config: &NicConfig) -> Self {
        let make = |bed: &Testbed, rings| bed.devices_with(rings, 1000, true).expect("devices");
        Self::start_policy(role, policy, config, |_| (), make)
    }

    /// Starts a NIC on the devices that `make` makes for a number of rings.
    pub(crate) fn start_on(
        role: &str,
        text: &str,
        config: &NicConfig,
        edit: impl FnOnce(&mut NicPlan),
        make: impl FnOnce(&Testbed, u32) -> (Port, Uplink),
    ) -> Self {
        Self::start_policy(role, policy(text), config, edit, make)
    }

    fn start_policy(
        role: &str,
        policy: CompiledPolicy,
        config: &NicConfig,
        edit: impl FnOnce(&mut NicPlan),
        make: impl FnOnce(&Testbed, u32) -> (Port, Uplink),
    ) -> Self {
        let bed = Testbed::create(role).expect("testbed");
        let mut plan = NicPlan::new(&policy, config.clone()).expect("plan");
        edit(&mut plan);
        let (port, uplink) = make(&bed, plan.ring_count());
        let nic = SoftwareNic::start(plan, port, uplink).expect("nic");
        bed.connect().expect("connect");
        let wait = PATIENCE;
        link::wait_running(&bed.sender, "port0", wait).expect("port");
        link::wait_running(&bed.receiver, "wire0", wait).expect("wire");
        Self { nic, policy, bed }
    }

    /// A NIC with rings that hold all packets of a test.
    pub(crate) fn roomy(role: &str, text: &str, megabits: u64) -> Self {
        Self::start(role, text, &config(megabits), 8000, |_| ())
    }

    /// Gives both ends IPv6 addresses.
    pub(crate) fn add_ipv6(&self) {
        let ends = [(&self.bed.sender, "port0", SENDER6), (&self.bed.receiver, "wire0", RECEIVER6)];
        for (ns, name, address) in ends {
            sysctl::set(ns, &format!("net/ipv6/conf/{name}/disable_ipv6"), "0").expect("ipv6");
            link::add_address(ns, name, address, 64).expect("address");
        }
        let wire = link::get_mac(&self.bed.receiver, "wire0").expect("wire").expect("mac");
        link::add_neighbor(&self.bed.sender, "port0", RECEIVER6, wire).expect("neighbour");
        link::add_neighbor(&self.bed.receiver, "wire0", SENDER6, Mac::local(1)).expect("neighbour");
    }

    /// Ends IPv6 at the sender, whose stack then sends nothing by itself while the NIC stops: reports of groups and requests for
    /// neighbours come at times of its choice.
    pub(crate) fn end_ipv6(&self) {
        sysctl::set(&self.bed.sender, "net/ipv6/conf/port0/disable_ipv6", "1").expect("ipv6");
    }

    /// A UDP socket of the sender.
    pub(crate) fn sender(&self, ipv6: bool) -> UdpSocket {
        socket(&self.bed.sender, unspecified(ipv6))
    }

    /// A UDP socket of the receiver at `port`, with a large buffer, that waits for as long as a stall may take.
    pub(crate) fn receiver(&self, ipv6: bool, port: u16) -> UdpSocket {
        let address = SocketAddr::new(if ipv6 { RECEIVER6 } else { RECEIVER }, port);
        let socket = socket(&self.bed.receiver, address);
        setsockopt(&socket, sockopt::RcvBufForce, &(32 << 20)).expect("buffer");
        socket.set_read_timeout(Some(PATIENCE)).expect("timeout");
        socket
    }

    /// Waits until all posted packets have left, at most `patience`, and returns the totals.
    pub(crate) fn settle(&self, patience: Duration) -> Totals {
        let totals = || self.nic.totals().expect("totals");
        let _ = until(patience, || {
            let totals = totals();
            let gone = (totals.sum(|c| c.sent) + totals.sum(|c| c.refused)).packets.get();
            gone + totals.lost >= totals.sum(|c| c.posted).packets.get()
        });
        totals()
    }

    /// Waits until no TCP connection between the ends has a packet to send: the last one of a connection answers the
    /// other end's FIN, and a NIC that stops before has it in its backlog.
    pub(crate) fn wait_closed(&self) {
        for ns in [&self.bed.sender, &self.bed.receiver] {
            let mut sockets = SockDiag::open(ns).expect("sockets");
            let over = |state| matches!(state, State::TimeWait | State::Listen);
            wait_for("the connections are closed", || {
                sockets.tcp().expect("sockets").iter().all(|(socket, _)| over(socket.state))
            });
        }
    }

    /// The number of the class `name`.
    pub(crate) fn class(&self, name: &str) -> usize {
        self.policy.classes.iter().position(|c| c.name == name).expect("class")
    }

    /// The totals of the class `name`.
    pub(crate) fn of<'a>(&self, totals: &'a Totals, name: &str) -> &'a ClassTotals {
        &totals.classes[self.class(name)]
    }
}

/// The packets of `class` in the rings. Posted counts are read before done counts, so the result is never too large.
pub(crate) fn standing(doorbells: &Shared, plan: &RingPlan, class: usize) -> u64 {
    let mine = || {
        plan.rings.iter().zip(&doorbells.rings).filter(|(r, _)| r.class.is_some_and(|c| c.index() == class))
    };
    let posted: u64 = mine().map(|(_, doorbell)| doorbell.packets.load(Ordering::SeqCst)).sum();
    let done: u64 = mine().map(|(_, doorbell)| doorbell.done.load(Ordering::SeqCst)).sum();
    posted.saturating_sub(done)
}

/// The packets posted, by class.
pub(crate) fn posted(totals: &Totals) -> Vec<u64> {
    totals.classes.iter().map(|c| c.posted.packets.get()).collect()
}

/// The program on a link without a reader: only the doorbells show the state.
pub(crate) fn doorbells_only(role: &str, text: &str, flow_bound: u32) -> (NetNs, Arc<Doorbells>) {
    let policy = policy(text);
    let mut plan = RingPlan::new(&policy, Mode::Loom, 16, &[]).expect("plan");
    plan.lanes.iter_mut().for_each(|lane| lane.flow_bound = flow_bound);
    let doorbells = Doorbells::load(&plan, &[]).expect("program");
    let ns = NetNs::create(&weft_host::testing::unique(role)).expect("namespace");
    let _ = weft_host::sysctl::set(&ns, "net.ipv6.conf.default.disable_ipv6", "1");
    link::create_veth((&ns, "a"), (&ns, "b"), &link::VethOptions::default()).expect("veth");
    let index = link::index(&ns, "a").expect("index");
    ns.run(|| doorbells.attach(index)).expect("namespace").expect("attached");
    link::set_up(&ns, "b").expect("up");
    link::set_up(&ns, "a").expect("up");
    link::wait_running(&ns, "a", PATIENCE).expect("running");
    link::add_address(&ns, "a", "10.77.0.1".parse().expect("address"), 24).expect("address");
    link::add_neighbor(&ns, "a", "10.77.0.2".parse().expect("address"), Mac::local(9)).expect("neighbour");
    (ns, doorbells)
}

/// Checks that no packet was created or lost at any stage, and that the receiver accepted all. Exact after the NIC has
/// stopped.
pub(crate) fn conserved(totals: &Totals) {
    conserved_to_the_uplink(totals);
    assert_eq!(totals.uplink_dropped, 0, "{totals:#?}");
}

/// As [`conserved`], for frames that the receiver's stack drops in part, since it has no handler for their protocol.
pub(crate) fn conserved_to_the_uplink(totals: &Totals) {
    let sum = |pick: fn(&ClassTotals) -> weft_units::Counted| totals.sum(pick).packets.get();
    let (posted, fetched) = (sum(|c| c.posted), sum(|c| c.fetched));
    let gone = sum(|c| c.sent) + sum(|c| c.refused) + sum(|c| c.held);
    assert_eq!(fetched, gone, "{totals:#?}");
    assert_eq!(posted + totals.events.strays.get(), gone + totals.lost, "{totals:#?}");
    assert_eq!(totals.lost, totals.drops.total(), "{totals:#?}");
    assert_eq!(totals.uplink_writes, totals.uplink_arrived, "{totals:#?}");
    for class in &totals.classes {
        let gone = (class.sent + class.refused) + class.held;
        assert_eq!(class.fetched, gone, "{totals:#?}");
    }
}

pub(crate) fn unspecified(ipv6: bool) -> SocketAddr {
    let any = if ipv6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { "0.0.0.0".parse().expect("address") };
    SocketAddr::new(any, 0)
}

pub(crate) fn socket(ns: &NetNs, address: SocketAddr) -> UdpSocket {
    ns.run(|| UdpSocket::bind(address)).expect("namespace").expect("socket")
}

pub(crate) fn set_mark(socket: &UdpSocket, mark: u32) {
    setsockopt(socket, sockopt::Mark, &mark).expect("mark");
}

pub(crate) fn set_priority(socket: &UdpSocket, priority: i32) {
    setsockopt(socket, sockopt::Priority, &priority).expect("priority");
}

/// Sets the traffic class, DSCP and ECN. On IPv4 the kernel derives a priority from it: set that after.
pub(crate) fn set_traffic_class(socket: &UdpSocket, class: u8) {
    if socket.local_addr().expect("address").is_ipv6() {
        setsockopt(socket, sockopt::Ipv6TClass, &class.into()).expect("traffic class");
    } else {
        setsockopt(socket, sockopt::Ipv4Tos, &class.into()).expect("traffic class");
    }
}

/// The silence after which nothing more is expected, once all that was sent has arrived or has had the time to.
const SILENCE: Duration = Duration::from_secs(1);
/// As [`SILENCE`], for what should not come at all.
const SURPLUS: Duration = Duration::from_millis(300);

/// Waits until a process in `ns` listens on the TCP port `port`.
pub(crate) fn wait_listening(ns: &NetNs, port: u16) {
    let mut sockets = SockDiag::open(ns).expect("sockets");
    let listens = |socket: &Socket| socket.state == State::Listen && socket.local.port() == port;
    wait_for(format!("a listener on port {port}"), || {
        sockets.tcp().expect("sockets").iter().any(|(socket, _)| listens(socket))
    });
}

/// Reads datagrams until `wanted` have arrived, and then those that should not come. Returns their lengths.
pub(crate) fn arrivals(socket: &UdpSocket, wanted: usize) -> Vec<usize> {
    let (mut lengths, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    let patience = |longest| socket.set_read_timeout(Some(longest)).expect("timeout");
    patience(PATIENCE);
    loop {
        if lengths.len() == wanted {
            patience(SURPLUS);
        }
        match socket.recv(&mut buffer) {
            Ok(length) => lengths.push(length),
            // The process was stopped and continued.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return lengths,
        }
    }
}

/// The end of a stream of numbered packets. Silence alone is not the end: a sender may pause.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until<'a> {
    /// This many have arrived.
    Arrived(usize),
    /// The senders have stopped.
    Stopped(&'a AtomicBool),
}

/// Reads numbered packets until the stream is over and none arrives for a while. Checks that each flow's numbers only
/// grow, and returns the count.
pub(crate) fn in_order(socket: &UdpSocket, until: Until<'_>) -> usize {
    in_order_so_far(socket, until, &AtomicU64::new(0))
}

/// The same, with the count so far for senders that keep few packets on their way.
pub(crate) fn in_order_so_far(socket: &UdpSocket, until: Until<'_>, so_far: &AtomicU64) -> usize {
    let mut last = std::collections::HashMap::new();
    let mut buffer = [0; 2000];
    let (mut count, mut silent) = (0, Duration::ZERO);
    socket.set_read_timeout(Some(SILENCE)).expect("timeout");
    loop {
        let over = match until {
            Until::Arrived(wanted) => count >= wanted,
            Until::Stopped(stopped) => stopped.load(Ordering::SeqCst),
        };
        let (length, from) = match socket.recv_from(&mut buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(_) => {
                silent += SILENCE;
                if over || silent >= PATIENCE {
                    return count;
                }
                continue;
            }
        };
        silent = Duration::ZERO;
        let number = buffer[..length].first_chunk().map(|b| u32::from_ne_bytes(*b)).expect("a number");
        if let Some(before) = last.insert(from, number) {
            assert!(number > before, "{from}: {number} after {before}");
        }
        count += 1;
        so_far.store(count as u64, Ordering::Relaxed);
    }
}
