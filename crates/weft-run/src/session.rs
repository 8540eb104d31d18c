//! A policy enforced on a host's own traffic: a port that applications use, and an uplink on an existing interface. Or a
//! plain multiqueue NIC in the same place, which knows no policy.
//!
//! The port's near end is a network device in the host's or another namespace. Behind it, in a namespace without a name, are
//! the descriptor rings and the uplink: a macvtap in bridge mode on the user's interface, with the port's hardware address,
//! so that frames for the port find their way back. The interface itself is not changed. Nothing but this process holds that
//! namespace, so the kernel removes it with all its devices when the process ends, however it ends, and a port never stays
//! behind that swallows packets. Interfaces are followed by their number, whatever they are called later.

mod arp;
mod describe;
mod report;

use core::net::IpAddr;
use std::time::{Duration, Instant};
use weft_host::cgroup::CgroupError;
use weft_host::link::{self, LinkError, Mac, Numbered};
use weft_host::netns::{NetNs, NetNsError};
use weft_host::{OsError, RunId, sysctl};
use weft_nic::nic::{NicConfig, NicError, NicPlan, SoftwareNic, Totals};
use weft_nic::plan::Mode;
use weft_nic::port::{Port, PortConfig, PortError, Uplink};
use weft_nic::sampler::Sample;
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::{CompiledPolicy, INFRASTRUCTURE};
use weft_report::run::{RunDrops, RunReport};
use weft_sched::queues::Service;
use weft_units::{BitsPerSec, Bytes, Nanos};

use crate::cgroups::{self, Follower};

use arp::Arp;
pub use describe::describe_plan;
pub use weft_sched::queues::Inner;

/// Packets that a ring holds: room for hundreds of flows that share a ring, two packets each.
pub const RING_PACKETS: u32 = 2000;
/// Length of the windows in which rates are measured.
const WINDOW: Nanos = Nanos::from_millis(250);
/// Windows that the rate "now" is the mean of.
const WINDOWS: usize = 4;

/// From which part of its time on, in thousandths, the worker counts as what runs short: it is charged to whom it is spent on
/// from 900 on.
const WORKER_BOUND: u64 = 950;

/// The policy of a NIC that knows none: all traffic is one class.
pub const ONE_CLASS: &str = "root = fair of default";

/// The hardware queues of a plain multiqueue NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queues {
    /// How many, 1 to 256.
    pub count: u16,
    /// What takes turns inside a queue.
    pub inner: Inner,
}

impl Queues {
    /// The queues are served in turns, one packet each, as a multiqueue NIC without weights does (Intel 82599 data sheet,
    /// section 7.2), until weights are asked for in their page.
    fn mode(self) -> Mode {
        Mode::Multiqueue { queues: self.count, inner: self.inner, service: Service::RoundRobin }
    }
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The port's name.
    pub name: String,
    /// The namespace of the port's near end; `None` for the caller's.
    pub port_netns: Option<String>,
    /// The interface that packets leave by.
    pub uplink: String,
    /// The namespace of that interface; `None` for the caller's.
    pub uplink_netns: Option<String>,
    /// The port's addresses.
    pub addresses: Vec<(IpAddr, u8)>,
    /// The port's hardware address, and the uplink's.
    pub mac: Mac,
    /// The rate that is kept to.
    pub rate: BitsPerSec,
    /// Hardware queues in place of a policy's scheduling; the policy is then [`ONE_CLASS`].
    pub queues: Option<Queues>,
    /// How super-packets are cut. A NIC with hardware queues sends them whole.
    pub segments_per_turn: SegmentsPerTurn,
    /// Descriptor rings of the port.
    pub rings: usize,
    /// How far the link's clock may lag behind the wall clock.
    pub catch_up: Nanos,
}

/// Why a policy cannot be enforced.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// A namespace.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A link or an address.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The port or the uplink.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The NIC.
    #[error(transparent)]
    Nic(#[from] NicError),
    /// The cgroup hierarchy.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The interface that is to be the uplink is not there.
    #[error("there is no interface {name} in {place} to be the uplink; there are: {there}")]
    NoUplink {
        /// The name asked for.
        name: String,
        /// Where it was looked for.
        place: String,
        /// What is there.
        there: String,
    },
    /// A device of the port's name is there already.
    #[error("an interface {name} exists already in {place}; choose another name with --name")]
    NameTaken {
        /// The name.
        name: String,
        /// Where it was looked for.
        place: String,
    },
}

/// The namespace `name`, or the caller's.
fn namespace(name: Option<&str>) -> Result<NetNs, NetNsError> {
    name.map_or_else(NetNs::current, NetNs::named)
}

/// How people call the namespace `name`.
fn place(name: Option<&str>) -> String {
    name.map_or_else(|| "this network namespace".to_owned(), |name| format!("network namespace {name}"))
}

impl Settings {
    /// The plan of the rings; touches nothing and needs no rights.
    ///
    /// # Errors
    /// When the policy does not fit the port.
    pub fn plan(&self, policy: &CompiledPolicy) -> Result<NicPlan, SessionError> {
        Ok(NicPlan::new(policy, self.config(policy, Vec::new()))?)
    }

    /// Looks whether the uplink's interface is there and the port's name is free.
    ///
    /// # Errors
    /// When one of them is not so.
    pub fn check_host(&self) -> Result<(), SessionError> {
        let uplink_ns = namespace(self.uplink_netns.as_deref())?;
        let links = link::list(&uplink_ns)?;
        if !links.iter().any(|l| l.name == self.uplink) {
            let there: Vec<_> = links.into_iter().map(|l| l.name).filter(|name| name != "lo").collect();
            let there = if there.is_empty() { "none besides lo".to_owned() } else { there.join(", ") };
            let (name, place) = (self.uplink.clone(), place(self.uplink_netns.as_deref()));
            return Err(SessionError::NoUplink { name, place, there });
        }
        if link::exists(&namespace(self.port_netns.as_deref())?, &self.name)? {
            let (name, place) = (self.name.clone(), place(self.port_netns.as_deref()));
            return Err(SessionError::NameTaken { name, place });
        }
        Ok(())
    }

    fn config(
        &self,
        policy: &CompiledPolicy,
        cgroups: Vec<Option<weft_nic::doorbell::CgroupEntry>>,
    ) -> NicConfig {
        NicConfig {
            mode: self.queues.map_or(Mode::Loom, Queues::mode),
            rate: self.rate,
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

/// The cgroups of `policy` that this host does not have: their rules match nothing until they are made.
pub fn missing_cgroups(policy: &CompiledPolicy) -> Vec<String> {
    let watch = cgroups::watch(policy);
    let missing = policy.cgroups.iter().zip(watch.places()).filter(|(_, place)| place.is_none());
    missing.map(|(name, _)| name.clone()).collect()
}

/// Whether this process can see the host's cgroups at all.
pub fn sees_cgroups() -> bool {
    weft_host::Hierarchy::detect().is_ok()
}

/// A class now.
#[derive(Clone, Debug, Default)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Its wire rate over the last second.
    pub now: BitsPerSec,
    /// Packets sent so far.
    pub packets: u64,
    /// Bytes sent so far.
    pub bytes: Bytes,
    /// Bytes that stand in the NIC.
    pub standing: Bytes,
    /// Packets that the uplink refused.
    pub refused: u64,
}

/// How it goes.
#[derive(Clone, Debug, Default)]
pub struct Status {
    /// Since the start.
    pub elapsed: Duration,
    /// The classes, in the order of the policy.
    pub classes: Vec<ClassStatus>,
    /// Rings with something in them.
    pub backlogged_rings: u32,
    /// Packets that came back through the uplink.
    pub received: u64,
    /// Packets that were dropped, by reason.
    pub dropped: RunDrops,
    /// Whether the transmit worker, and not the link, is what runs short: with small packets it sends less than the link carries.
    pub worker_bound: bool,
    /// Readings of the kernel's counters that failed, and changes of the uplink that the port could not follow.
    pub failed: u64,
}

/// A policy that is being enforced. All that was made for it goes when the value is dropped.
#[derive(Debug)]
pub struct Session {
    nic: SoftwareNic,
    names: Vec<String>,
    started: Instant,
    recent: Vec<Sample>,
    uplink: Numbered,
    /// As the port followed it last.
    followed: (u32, bool),
    not_followed: u64,
    arp: Option<Arp>,
    _cgroups: Follower,
    // Last: the devices in it go first.
    _namespace: NetNs,
}

impl Session {
    /// Makes the port and the uplink, and starts.
    ///
    /// # Errors
    /// When a device cannot be made or the kernel refuses the eBPF program; nothing is left behind then.
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
        let uplink = Uplink::on_interface(parent, (&namespace, &device), settings.mac)?;
        let port = Port::create(&PortConfig {
            app: &app,
            nic: &namespace,
            name: &settings.name,
            mac: settings.mac,
            rings: plan.ring_count(),
            ring_packets: RING_PACKETS,
            // What a flow leaves behind in a ring is known by counts, which say nothing of the order of two packets that
            // different cores sent.
            single_backlog: true,
        })?;
        link::set_alias(&app, &settings.name, &run.alias())?;
        let state = interface.show()?;
        port.follow(state.mtu, true)?;
        let beside = app.inode()? == outside.inode()?;
        let arp = beside.then(|| Arp::keep_apart(&interface, &settings.name));
        // Before the port comes up: whoever sees it running has routes through it.
        for (address, length) in &settings.addresses {
            link::add_address(&app, &settings.name, *address, *length)?;
        }
        let mut names: Vec<String> = policy.classes.iter().map(|class| class.name.clone()).collect();
        names.extend(plan.rings().infrastructure.map(|_| INFRASTRUCTURE.to_owned()));
        let nic = SoftwareNic::start(plan, port, uplink)?;
        nic.follow(state.mtu, state.running)?;
        let follower = Follower::start(watch, nic.cgroups())
            .map_err(|e| CgroupError::from(OsError::new("start the thread that watches cgroups", e)))?;
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

    /// What whoever runs this should know at its start: settings that were changed for its time, and what is missing.
    pub fn notes(&self) -> Vec<String> {
        let name = self.uplink.first_name();
        let down = (!self.followed.1)
            .then(|| format!("{name} is not running, so the port has no carrier until it is"));
        down.into_iter().chain(self.arp.as_ref().map(|arp| arp.note(name))).collect()
    }

    /// Lets the port have the MTU and the carrier of its uplink's interface. One that is gone has no carrier.
    fn follow(&mut self) {
        let (mtu, _) = self.followed;
        self.followed = self.uplink.show().map_or((mtu, false), |link| (link.mtu, link.running));
        if self.nic.follow(self.followed.0, self.followed.1).is_err() {
            self.not_followed += 1;
        }
    }

    /// Whether it goes on; it ends by itself only when its devices are taken away.
    pub fn is_running(&self) -> bool {
        self.nic.is_running()
    }

    /// How it goes. Follows what has changed about the uplink's interface since the last call: call it often.
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
            received: totals.reverse.packets.get(),
            dropped: report::dropped(&totals),
            worker_bound: totals.worker_busy >= WORKER_BOUND,
            failed: totals.unread + self.not_followed,
        })
    }

    /// Closes the port, lets what is in it leave for at most `grace`, takes everything down, and gives the totals.
    ///
    /// # Errors
    /// When the NIC had failed before, with the reason.
    pub fn finish(self, grace: Nanos) -> Result<RunReport, SessionError> {
        let duration = self.started.elapsed();
        let totals: Totals = self.nic.stop(grace)?;
        Ok(report::report(&self.names, &totals, duration))
    }
}
