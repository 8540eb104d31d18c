//! A policy enforced on a host's own traffic, between a port for applications and an uplink on an existing interface.
//! Alternatively, a plain multiqueue NIC without policy in the same place.
//!
//! The near end of the port is a network device in the host's or another namespace. The descriptor rings and the uplink
//! are in a namespace without a name. The uplink is a macvtap in bridge mode on the user's interface, with the port's
//! hardware address, so that frames for the port return through it. The interface itself is not changed.
//!
//! [`Session::start`], in this order:
//! 1. Check that the uplink's interface exists and the port's name is free.
//! 2. Create the unnamed namespace and disable IPv6 in it.
//! 3. Resolve the policy's cgroups and plan the rings.
//! 4. Create the uplink, which the kernel may refuse for its hardware address, then the port.
//! 5. Set the port's MTU and carrier, the ARP settings if port and uplink share a namespace, and the addresses. A
//!    process that sees the port running can then use its routes.
//! 6. Start the NIC, which brings the port up, and the thread that follows cgroups.
//!
//! Ownership: only this process holds the unnamed namespace. The kernel removes it with its devices when the process
//! ends, however it ends, so no port remains that swallows packets. The field order of [`Session`] drops the NIC before
//! the namespace. Interfaces are followed by index, since names may change.
//!
//! Rare branches: a failed update of MTU or carrier (`not_followed`) and a failed read of the kernel's counters
//! (`unread`) add to [`Status::failed`]. Setting `disable_ipv6` may fail without a counter, since a kernel without IPv6
//! needs it not.

mod arp;
mod describe;
mod port;
mod report;

use core::net::IpAddr;
use std::time::{Duration, Instant};
use weft_host::bpf::RunStats;
use weft_host::cgroup::CgroupError;
use weft_host::link::{self, Link, LinkError, Mac, Numbered};
use weft_host::netns::{NetNs, NetNsError};
use weft_host::tap::TapError;
use weft_host::{OsError, RunId, sysctl};
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_nic::nic::{NicConfig, NicError, NicPlan, SoftwareNic, Totals};
use weft_nic::plan::Mode;
use weft_nic::port::{PortError, Uplink};
use weft_nic::redirect::ReceivePath;
use weft_nic::sampler::Sample;
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{CompiledPolicy, INFRASTRUCTURE};
use weft_report::run::{RunDrops, RunReport};
use weft_sched::queues::Service;
use weft_units::{BitsPerSec, Bytes, Nanos};

use crate::cgroups::{self, Follower};

use arp::Arp;
pub use describe::describe_plan;
pub use port::PortKind;
pub use weft_nic::port::Receive;
pub use weft_sched::queues::Inner;

/// The capacity of a ring in packets: room for hundreds of flows that share a ring, two packets each.
pub const RING_PACKETS: u32 = 2000;
/// The length of the windows in which rates are measured.
const WINDOW: Nanos = Nanos::from_millis(250);
/// The number of windows over which the rate "now" is averaged.
const WINDOWS: usize = 4;

/// The busy fraction, in thousandths, from which on the worker is reported as the bottleneck. From 900 on its time is
/// charged to shares.
const WORKER_BOUND: u64 = 950;

/// The rate in [`Settings::rate`] of a link without a rate of its own ([`LinkRate::Observed`]): the host's own
/// infrastructure traffic has its share of that.
pub const UNKNOWN_RATE: BitsPerSec = BitsPerSec(1_000_000_000);

/// The policy of a NIC without one: all traffic is one class.
pub const ONE_CLASS: &str = "root = fair of default";

/// The hardware queues of a plain multiqueue NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queues {
    /// The number of queues, 1 to 256.
    pub count: u16,
    /// The service order of the flows in a queue.
    pub inner: Inner,
}

impl Queues {
    /// The mode of the NIC. The queues are served in turns, one packet each, like a multiqueue NIC without weights
    /// (Intel 82599 data sheet, section 7.2), until weights are requested in their page.
    fn mode(self) -> Mode {
        Mode::Multiqueue { queues: self.count, inner: self.inner, service: Service::RoundRobin }
    }
}

/// The settings of a session.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the port.
    pub name: String,
    /// The namespace of the port's near end; `None` for the caller's.
    pub port_netns: Option<String>,
    /// The interface through which packets leave.
    pub uplink: String,
    /// The namespace of that interface; `None` for the caller's.
    pub uplink_netns: Option<String>,
    /// The addresses of the port.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The hardware address of the port and of the uplink.
    pub mac: Mac,
    /// The rate of the link.
    pub rate: BitsPerSec,
    /// The hardware queues that replace a policy's scheduling, if any; the policy is then [`ONE_CLASS`].
    pub queues: Option<Queues>,
    /// The treatment of the uplink. [`LinkKind::Emulated`] holds each packet until the link's clock is free, whatever the
    /// device could send.
    pub link: LinkKind,
    /// The unit of segmentation. A NIC with hardware queues sends super-packets whole.
    pub segments_per_turn: SegmentsPerTurn,
    /// The maximum number of the port's descriptor rings.
    pub rings: usize,
    /// The maximum lag of the link's clock behind the wall clock.
    pub catch_up: Nanos,
    /// The kind of port.
    pub port: PortKind,
    /// The carrier wanted for received packets.
    pub receive: Receive,
}

/// Errors from enforcing a policy.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A namespace operation failed.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A link or an address failed.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The port or the uplink failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The NIC failed.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// The cgroup hierarchy is not available.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The kernel lacks the kind of port that was asked for.
    #[error("{0}; leave out --port tap")]
    NoSuchPort(TapError),
    /// The uplink's interface does not exist.
    #[error("there is no interface {name} in {place} for the uplink; there are: {there}")]
    NoUplink {
        /// The name given.
        name: String,
        /// The namespace searched.
        place: String,
        /// The interfaces that exist.
        there: String,
    },
    /// The uplink's device gives no back-pressure, and no rate is given.
    #[error(
        "{name} is a TAP, which takes packets without saying when it has sent them, so its rate cannot be observed: give \
         the rate with --rate 900mbps, or begin the policy with `link 900mbps`"
    )]
    NoBackPressure {
        /// The interface.
        name: String,
    },
    /// The name of the port is in use.
    #[error("an interface {name} exists already in {place}; choose another name with --name")]
    NameTaken {
        /// The name.
        name: String,
        /// The namespace searched.
        place: String,
    },
}

/// Opens the namespace `name`, or the caller's.
fn namespace(name: Option<&str>) -> Result<NetNs, NetNsError> {
    name.map_or_else(NetNs::current, NetNs::named)
}

/// The display name of the namespace `name`.
fn place(name: Option<&str>) -> String {
    name.map_or_else(|| "this network namespace".to_owned(), |name| format!("network namespace {name}"))
}

impl Settings {
    /// Plans the rings. Changes nothing and needs no privilege.
    ///
    /// # Errors
    /// When the policy exceeds the port, or the kind of port cannot receive as required.
    pub fn plan(&self, policy: &CompiledPolicy) -> Result<NicPlan, SessionError> {
        self.port.check_receive(self.receive).map_err(NicError::from)?;
        Ok(NicPlan::new(policy, self.config(policy, Vec::new()))?)
    }

    /// Checks that the uplink's interface exists, the port's name is free, and the kernel has the kind of port.
    ///
    /// # Errors
    /// When one of these conditions fails.
    pub fn check_host(&self) -> Result<(), SessionError> {
        self.port.check().map_err(SessionError::NoSuchPort)?;
        let uplink_ns = namespace(self.uplink_netns.as_deref())?;
        let links = link::list(&uplink_ns)?;
        if !links.iter().any(|l| l.name == self.uplink) {
            let there: Vec<_> = links.into_iter().map(|l| l.name).filter(|name| name != "lo").collect();
            let there = if there.is_empty() { "none besides lo".to_owned() } else { there.join(", ") };
            let (name, place) = (self.uplink.clone(), place(self.uplink_netns.as_deref()));
            return Err(SessionError::NoUplink { name, place, there });
        }
        self.check_back_pressure(&links)?;
        if link::exists(&namespace(self.port_netns.as_deref())?, &self.name)? {
            let (name, place) = (self.name.clone(), place(self.port_netns.as_deref()));
            return Err(SessionError::NameTaken { name, place });
        }
        Ok(())
    }

    /// Checks that the uplink's device keeps packets charged until it has sent them, where the link has no rate of its
    /// own. A TAP releases them when it takes them (`skb_orphan` in `tun_net_xmit`, drivers/net/tun.c), and drops what its
    /// reader does not take.
    fn check_back_pressure(&self, links: &[Link]) -> Result<(), SessionError> {
        let observed = matches!(self.link, LinkKind::Device(DeviceLink { rate: LinkRate::Observed, .. }));
        let is_tap = |link: &&Link| link.name == self.uplink && link.kind.as_deref() == Some("tun");
        match links.iter().find(is_tap) {
            Some(_) if observed => Err(SessionError::NoBackPressure { name: self.uplink.clone() }),
            _ => Ok(()),
        }
    }

    fn config(
        &self,
        policy: &CompiledPolicy,
        cgroups: Vec<Option<weft_nic::doorbell::CgroupEntry>>,
    ) -> NicConfig {
        NicConfig {
            mode: self.queues.map_or(Mode::Loom, Queues::mode),
            rate: self.rate,
            link: self.link,
            segments_per_turn: self.segments_per_turn(),
            catch_up: self.catch_up,
            window: WINDOW,
            cgroups,
            flows: vec![1; policy.classes.len()],
            rings: self.rings,
            departures: None,
        }
    }

    fn segments_per_turn(&self) -> SegmentsPerTurn {
        if self.queues.is_some() { SegmentsPerTurn::Whole } else { self.segments_per_turn }
    }

    /// The name of the macvtap on the uplink's interface.
    pub fn uplink_device(&self) -> String {
        RunId::current().device("up")
    }
}

/// The cgroups of `policy` that do not exist on this host. Their rules match nothing until they are created.
pub fn missing_cgroups(policy: &CompiledPolicy) -> Vec<String> {
    let watch = cgroups::watch(policy);
    let missing = policy.cgroups.iter().zip(watch.places()).filter(|(_, place)| place.is_none());
    missing.map(|(name, _)| name.clone()).collect()
}

/// Whether this process sees the host's cgroups.
pub fn sees_cgroups() -> bool {
    weft_host::Hierarchy::detect().is_ok()
}

/// The current status of a class.
#[derive(Clone, Debug, Default)]
pub struct ClassStatus {
    /// The name of the class.
    pub name: String,
    /// The wire rate over the last second.
    pub now: BitsPerSec,
    /// Packets sent so far.
    pub packets: u64,
    /// Bytes sent so far.
    pub bytes: Bytes,
    /// The bytes posted and not yet sent.
    pub standing: Bytes,
    /// Packets refused by the uplink.
    pub refused: u64,
}

/// The current status of a session.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// The time since the start.
    pub elapsed: Duration,
    /// The classes, in the order of the policy.
    pub classes: Vec<ClassStatus>,
    /// The number of backlogged rings.
    pub backlogged_rings: u32,
    /// Packets received through the uplink.
    pub received: u64,
    /// Packets dropped, by reason.
    pub dropped: RunDrops,
    /// The rate that the uplink's device shows by its back-pressure; `None` while it is not the bottleneck.
    pub observed_rate: Option<BitsPerSec>,
    /// Whether the transmit worker, not the link, is the bottleneck: with small packets it sends less than the link
    /// carries.
    pub worker_bound: bool,
    /// Failed reads of the kernel's counters, and failed updates of the port's MTU and carrier.
    pub failed: u64,
}

/// A running session. Its devices and programs are removed when it is dropped.
#[derive(Debug)]
pub struct Session {
    nic: SoftwareNic,
    names: Vec<String>,
    started: Instant,
    recent: Vec<Sample>,
    uplink: Numbered,
    /// The MTU and carrier last applied to the port.
    followed: (u32, bool),
    not_followed: u64,
    arp: Option<Arp>,
    _cgroups: Follower,
    // Last, so that the devices in it are dropped first.
    _namespace: NetNs,
}

impl Session {
    /// Creates the port and the uplink, and starts the NIC.
    ///
    /// # Errors
    /// When a device cannot be created or the kernel rejects the eBPF program; nothing remains then.
    pub fn start(policy: &CompiledPolicy, settings: &Settings) -> Result<Self, SessionError> {
        settings.check_host()?;
        let run = RunId::current();
        let app = namespace(settings.port_netns.as_deref())?;
        let outside = namespace(settings.uplink_netns.as_deref())?;
        let interface = Numbered::named(&outside, &settings.uplink)?;
        let namespace = NetNs::anonymous()?;
        // Router discovery by the NIC's own devices would reach the applications. A kernel without IPv6 sends none.
        for of in ["all", "default"] {
            let _ = sysctl::set(&namespace, &format!("net.ipv6.conf.{of}.disable_ipv6"), "1");
        }
        let watch = cgroups::watch(policy);
        let config = settings.config(policy, cgroups::entries(&watch));
        let plan = NicPlan::new(policy, config)?;
        // First, since the kernel may refuse its hardware address.
        let device = settings.uplink_device();
        let parent = (&outside, settings.uplink.as_str());
        let uplink =
            Uplink::on_interface(parent, (&namespace, &device), settings.mac)?.with_receive(settings.receive);
        let port = settings.create_port((&app, &namespace), plan.ring_count())?;
        link::set_alias(&app, &settings.name, &run.alias())?;
        let state = interface.show()?;
        port.follow(state.mtu, true)?;
        let beside = app.inode()? == outside.inode()?;
        let arp = beside.then(|| Arp::keep_apart(&interface, &settings.name));
        // Before the port comes up: a process that sees it running can then use its routes.
        for (address, length) in &settings.addresses {
            link::add_address(&app, &settings.name, *address, *length)?;
        }
        let mut names: Vec<String> = policy.classes.iter().map(|class| class.name.clone()).collect();
        names.extend(plan.rings().infrastructure.map(|_| INFRASTRUCTURE.to_owned()));
        let nic = SoftwareNic::start(plan, port, uplink)?;
        nic.follow(state.mtu, state.running)?;
        let follower = Follower::start(watch, nic.cgroups())
            .map_err(|e| CgroupError::from(OsError::new("start the thread that follows cgroups", e)))?;
        Ok(Self {
            nic,
            names,
            started: Instant::now(),
            recent: Vec::new(),
            uplink: interface,
            followed: (state.mtu, state.running),
            not_followed: 0,
            arp,
            _cgroups: follower,
            _namespace: namespace,
        })
    }

    /// Notes for the operator at the start: changed settings, and missing conditions.
    pub fn notes(&self) -> Vec<String> {
        let name = self.uplink.first_name();
        let down = (!self.followed.1)
            .then(|| format!("{name} is not running, so the port has no carrier until it is"));
        let path = self.receive_path();
        let thread = path.fallback().map(|_| format!("receive: {path}"));
        down.into_iter().chain(self.arp.as_ref().map(|arp| arp.note(name))).chain(thread).collect()
    }

    /// The carrier of received packets.
    pub fn receive_path(&self) -> &ReceivePath {
        self.nic.receive_path()
    }

    /// Applies the MTU and the carrier of the uplink's interface to the port. An interface that no longer exists has no
    /// carrier.
    fn follow(&mut self) {
        let (mtu, _) = self.followed;
        self.followed = self.uplink.show().map_or((mtu, false), |link| (link.mtu, link.running));
        if self.nic.follow(self.followed.0, self.followed.1).is_err() {
            self.not_followed += 1;
        }
    }

    /// Whether the session still runs; it ends early only when its devices are deleted.
    pub fn is_running(&self) -> bool {
        self.nic.is_running()
    }

    /// The current status. Also applies changes of the uplink's interface to the port, so it should be called often.
    ///
    /// # Errors
    /// None at present.
    pub fn status(&mut self) -> Result<Status, SessionError> {
        self.follow();
        self.recent.extend(self.nic.samples().try_iter());
        let old = self.recent.len().saturating_sub(WINDOWS);
        self.recent.drain(..old);
        let totals = self.nic.totals()?;
        let last = self.recent.last();
        let class = |(i, name): (usize, &String)| {
            let wire = self.recent.iter().filter_map(|s| s.wire.get(i)).copied().sum();
            let span: Nanos = self.recent.iter().map(|s| s.window).sum();
            let c = totals.classes.get(i).cloned().unwrap_or_default();
            ClassStatus {
                name: name.clone(),
                now: BitsPerSec::from_bytes_over(wire, span),
                packets: c.sent.packets.get(),
                bytes: c.sent.bytes,
                standing: last.and_then(|s| s.standing.get(i)).copied().unwrap_or_default(),
                refused: c.refused.packets.get(),
            }
        };
        Ok(Status {
            elapsed: self.started.elapsed(),
            classes: self.names.iter().enumerate().map(class).collect(),
            backlogged_rings: last.map_or(0, |s| s.backlogged_rings),
            received: totals.received().packets.get(),
            dropped: report::dropped(&totals),
            observed_rate: totals.observed_rate,
            worker_bound: totals.worker_busy >= WORKER_BOUND,
            failed: totals.unread + self.not_followed,
        })
    }

    /// The totals of the NIC so far.
    ///
    /// # Errors
    /// None at present.
    pub fn totals(&self) -> Result<Totals, SessionError> {
        Ok(self.nic.totals()?)
    }

    /// The runs and the time of the port's eBPF programs so far; zero while the kernel's statistics are off
    /// ([`weft_host::bpf_stats::BpfStats`]).
    ///
    /// # Errors
    /// None at present.
    pub fn program_cost(&self) -> Result<RunStats, SessionError> {
        let totals = self.nic.totals()?;
        let [egress, peer] = [totals.bpf, totals.guard];
        Ok(RunStats { runs: egress.runs + peer.runs, nanos: egress.nanos + peer.nanos })
    }

    /// Takes the port down, sends its packets for at most `grace`, removes everything, and returns the totals.
    ///
    /// # Errors
    /// When the NIC failed before, with the reason.
    pub fn finish(self, grace: Nanos) -> Result<RunReport, SessionError> {
        let duration = self.started.elapsed();
        let path = report::path(self.receive_path());
        let totals: Totals = self.nic.stop(grace)?;
        Ok(report::report(&self.names, &totals, duration, path))
    }
}
