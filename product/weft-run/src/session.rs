//! A policy enforced on a host's own traffic, between ports for applications and an uplink on an existing interface.
//! Alternatively, a plain multiqueue NIC without policy in the same place.
//!
//! The near end of a port is a network device in the host's or another namespace. The descriptor rings and the devices
//! on the uplink are in a namespace without a name. These are macvtaps in bridge mode on the user's interface: one
//! transmits for all ports, and each port has one with its hardware address, so that frames for the port return through
//! it. The interface itself is not changed.
//!
//! [`Session::start`] starts a session with one port, by [`Session::start_without_port`], in this order, and
//! [`Session::add_port`]:
//! 1. Check that the uplink's interface exists.
//! 2. Create the unnamed namespace and disable IPv6 in it.
//! 3. Resolve the policy's cgroups and plan the rings.
//! 4. Create the uplink.
//! 5. Start the NIC, and the thread that follows cgroups.
//!
//! Ownership: only this process holds the unnamed namespace. The kernel removes it with its devices when the process
//! ends, however it ends, so no port remains that swallows packets. The field order of [`Session`] drops the NIC before
//! the namespace. Interfaces are followed by index, since names may change.
//!
//! Rare branches: a failed update of MTU or carrier (`not_followed`) and a failed read of the kernel's counters
//! (`unread`) add to [`ServiceStatus::failed_readings`](weft_facts::status::ServiceStatus::failed_readings). Setting `disable_ipv6` may fail without a counter, since a kernel without IPv6
//! needs it not.

mod arp;
mod change;
mod describe;
mod hold;
mod missing_support;
mod port;
mod ports;
mod report;
mod settings;
mod source;
mod status;

use std::time::{Duration, Instant};
use weft_facts::run::RunReport;
use weft_host::bpf::RunStats;
use weft_host::cgroup::CgroupError;
use weft_host::link::{LinkError, Numbered};
use weft_host::netns::{NetNs, NetNsError};
use weft_host::tap::TapError;
use weft_host::{OsError, RunId, sysctl};
use weft_nic::departures::DepartureLog;
use weft_nic::nic::{ClassTotals, NicError, OnFailure, SoftwareNic, Totals};
use weft_nic::port::{PortError, Uplink};
use weft_nic::redirect::ReceivePath;
use weft_nic::sampler::Sample;
use weft_nic::sojourn::Sojourns;
use weft_policy::CompiledPolicy;
use weft_units::{BitsPerSec, Nanos};

use crate::cgroups::{self, Follower};

use arp::Arp;
use change::Names;
pub use change::PreparedChange;
pub use describe::describe_plan;
pub use hold::{Abandoned, AdoptedSession};
use ports::SessionPort;
pub use ports::{PortState, PortStatus};
use settings::namespace;
pub use settings::{NicSettings, PortKind, PortSettings, Queues, SessionSettings};
pub use source::AuthoredPolicy;
pub use status::ClassCounts;
pub use weft_nic::nic::{PortId, PortTotals, WireCounters};
pub use weft_nic::plan::PortShare;
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

/// The rate in [`SessionSettings::rate`] of a link without a configured rate ([`weft_nic::link::LinkRate::Observed`]): the host's own
/// infrastructure traffic has its share of that.
pub const UNKNOWN_RATE: BitsPerSec = BitsPerSec(1_000_000_000);

/// The policy of a NIC without one: all traffic is one class.
pub const ONE_CLASS: &str = "root = fair of default";

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
    /// The store of descriptors failed.
    #[error(transparent)]
    Store(#[from] weft_host::store::StoreError),
    /// The cgroup hierarchy is not available.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The kernel lacks the kind of port that was requested.
    #[error("{0}; leave out --port tap")]
    NoSuchPort(TapError),
    /// The clock of this process is not that of the programs in the kernel, and both exchange times.
    #[error(
        "the monotonic clock of this time namespace is {ahead} s ahead of the kernel's, by which packets are timed; start weft in the host's time namespace"
    )]
    OtherClock {
        /// The seconds that it is ahead.
        ahead: f64,
    },
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
    /// The uplink's interface is of a kind that carries no macvtap.
    #[error(
        "{name} carries no Ethernet frames to a network, so no port can be above it; name the interface by which packets leave"
    )]
    NotEthernet {
        /// The interface.
        name: String,
    },
    /// The uplink's interface is a part of another, which takes its packets.
    #[error("{name} is a part of {master}, which takes its packets; name {master} as the uplink")]
    Enslaved {
        /// The interface.
        name: String,
        /// The other interface.
        master: String,
    },
    /// The session has a port of this name.
    #[error("the session has a port {name} already; choose another name, or remove that port")]
    PortExists {
        /// The name.
        name: String,
    },
    /// The session has no port of this name.
    #[error("there is no port {name}; there are: {there}")]
    NoPort {
        /// The name.
        name: String,
        /// The ports that exist.
        there: String,
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

/// A running session. Its devices and programs are removed when it is dropped.
#[derive(Debug)]
pub struct Session {
    nic: SoftwareNic,
    names: Names,
    started: Instant,
    recent: Vec<Sample>,
    uplink: Numbered,
    /// The MTU and carrier last applied to the ports.
    followed: (u32, bool),
    /// The number of ports that were given them last, and the time.
    ports_followed: Option<(usize, Instant)>,
    /// Whether the interface is not where it was.
    uplink_gone: bool,
    not_followed: u64,
    arp: Option<Arp>,
    ports: Vec<ports::SessionPort>,
    /// The number of receiving devices made so far.
    made: u32,
    cgroups: Option<Follower>,
    /// The store that keeps the session beyond this process.
    hold: Option<hold::Hold>,
    /// The reason that a store was given up.
    not_held: Option<String>,
    // Last, so that the devices in it are dropped first.
    namespace: NetNs,
}

impl Session {
    /// Starts a session with one port.
    ///
    /// # Errors
    /// When a device cannot be created or the kernel rejects the eBPF program; nothing remains then.
    pub fn start(policy: &CompiledPolicy, settings: &SessionSettings) -> Result<Self, SessionError> {
        settings.check_host()?;
        let mut session = Self::start_with_rings(policy, &settings.nic(), settings.rings)?;
        session.add_port(&settings.port_settings())?;
        Ok(session)
    }

    /// Starts a session without ports.
    ///
    /// # Errors
    /// When the uplink does not exist, its device cannot be created, or the kernel rejects an eBPF map; nothing remains
    /// then.
    pub fn start_without_port(policy: &CompiledPolicy, settings: &NicSettings) -> Result<Self, SessionError> {
        settings.check_host()?;
        // The policy must fit a port of the largest size.
        Self::start_with_rings(policy, settings, weft_nic::doorbell::RINGS)
    }

    /// Starts the NIC, whose ports have `rings` rings unless they are given others.
    fn start_with_rings(
        policy: &CompiledPolicy,
        settings: &NicSettings,
        rings: usize,
    ) -> Result<Self, SessionError> {
        let outside = namespace(settings.uplink_netns.as_deref())?;
        let interface = Numbered::named(&outside, &settings.uplink)?;
        let namespace = NetNs::anonymous()?;
        // Router discovery by the NIC's own devices would reach the applications. A kernel without IPv6 sends none.
        sysctl::disable_ipv6(&namespace);
        let watch = cgroups::watch(policy);
        let plan = settings.plan(policy, cgroups::entries(&watch), rings)?;
        let device = RunId::current().device("up");
        let uplink = Uplink::transmit_on((&outside, &settings.uplink), (&namespace, &device))?;
        let nic = SoftwareNic::start_without_port(plan, uplink)?;
        let follower = Follower::start(watch, nic.cgroups())
            .map_err(|e| CgroupError::from(OsError::new("start the thread that follows cgroups", e)))?;
        let mut session = Self::of(nic, interface, namespace, Some(follower));
        let state = session.uplink.show()?;
        session.followed = (state.mtu, state.running);
        Ok(session)
    }

    /// A session of `nic` above the interface `uplink`.
    fn of(nic: SoftwareNic, uplink: Numbered, namespace: NetNs, cgroups: Option<Follower>) -> Self {
        Self {
            names: Names::of(nic.plan().whole()),
            nic,
            started: Instant::now(),
            recent: Vec::new(),
            uplink,
            followed: (0, false),
            ports_followed: None,
            uplink_gone: false,
            not_followed: 0,
            arp: None,
            ports: Vec::new(),
            made: 0,
            cgroups,
            hold: None,
            not_held: None,
            namespace,
        }
    }

    /// Notes for the operator at the start: changed settings, and missing conditions.
    pub fn notes(&self) -> Vec<String> {
        let name = self.uplink.first_name();
        let down = (!self.followed.1)
            .then(|| format!("{name} is not running, so the port has no carrier until it is"));
        let path = self.receive_path();
        let thread = path.filter(|path| path.fallback().is_some()).map(|path| format!("receive: {path}"));
        down.into_iter().chain(self.arp.as_ref().map(|arp| arp.note(name))).chain(thread).collect()
    }

    /// Warnings for the operator: ports whose devices or namespaces were deleted, an uplink that is gone, a store that
    /// failed, what the policy needs of the kernel and does not get.
    pub fn warnings(&self) -> Vec<String> {
        let warning = |port: &ports::SessionPort| port.warning(self.nic.port(port.id())?);
        let held = self.not_held.as_ref().map(|why| format!("the ports will end with this process: {why}"));
        let gone = self.uplink_gone.then(|| {
            let name = self.uplink.first_name();
            format!(
                "the uplink {name} was deleted, or moved to another namespace, where it is not followed: the ports have no \
                 carrier; move it back, or start again with the uplink's new place"
            )
        });
        let missing = missing_support::warnings(&self.nic);
        self.ports.iter().filter_map(warning).chain(held).chain(gone).chain(missing).collect()
    }

    /// The carrier of packets received by the first port.
    pub fn receive_path(&self) -> Option<&ReceivePath> {
        self.nic.ports().first().map(|port| port.receive_path())
    }

    /// Applies the MTU and the carrier of the uplink's interface to the ports. An interface that no longer exists has no
    /// carrier.
    fn follow(&mut self) {
        let before = self.followed;
        let shown = self.uplink.show();
        self.uplink_gone = shown.is_err();
        self.followed = shown.map_or((before.0, false), |link| (link.mtu, link.running));
        // Each port costs system calls, so without a change they are checked once a second, and less often if they are many.
        let (ports, now) = (self.nic.ports().len(), Instant::now());
        let rest = Duration::from(self.nic.rest());
        let fresh = |(of, at): (usize, Instant)| of == ports && now.duration_since(at) < rest;
        if self.followed == before && self.ports_followed.is_some_and(fresh) {
            return;
        }
        self.ports_followed = Some((ports, now));
        if self.nic.follow(self.followed.0, self.followed.1).is_err() {
            self.not_followed += 1;
        }
        for port in &mut self.ports {
            if let Some(of_nic) = self.nic.port(port.id()) {
                port.look(of_nic);
            }
        }
    }

    /// Whether the uplink's interface had a carrier at the last [`status`](Self::status).
    pub fn uplink_is_up(&self) -> bool {
        self.followed.1
    }

    /// Whether the uplink's interface was deleted, or moved to another namespace, at the last [`status`](Self::status).
    pub fn uplink_is_gone(&self) -> bool {
        self.uplink_gone
    }

    /// The age of the worker's last heartbeat. A worker that runs has one every 20 ms.
    pub fn heartbeat_age(&self) -> Nanos {
        self.nic.heartbeat_age()
    }

    /// Sets the fate of packets while no worker runs.
    pub fn on_failure(&self, fate: OnFailure) {
        self.nic.on_failure(fate);
    }

    /// Whether the session still runs; it ends early only when the devices of all its ports are deleted.
    pub fn is_running(&self) -> bool {
        self.nic.is_running()
    }

    /// Whether its transmit workers run, whatever became of its ports.
    pub fn workers_run(&self) -> bool {
        self.nic.workers_run()
    }

    /// The changes by other programs at the ports since the last call, and what became of them, one line each.
    pub fn take_changes(&self) -> Vec<String> {
        self.nic.take_changes()
    }

    /// The totals of the NIC so far.
    ///
    /// # Errors
    /// None at present.
    pub fn totals(&self) -> Result<Totals, SessionError> {
        Ok(self.nic.totals()?)
    }

    /// The totals of the port `name` so far.
    pub fn port_totals(&self, name: &str) -> Option<PortTotals> {
        let port = self.ports.iter().find(|port| port.name() == name)?;
        Some(self.nic.port(port.id())?.totals())
    }

    /// A reader of what the present ports have sent by class, for another thread.
    pub fn wire_counters(&self) -> WireCounters {
        self.nic.wire_counters()
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
}

/// The end of a session, and the departures that it logged.
impl Session {
    /// Takes the ports down, sends their packets for at most `grace`, removes everything, and returns the totals.
    ///
    /// # Errors
    /// When the NIC failed before, with the reason.
    pub fn finish(self, grace: Nanos) -> Result<RunReport, SessionError> {
        self.finish_with_log(grace).map(|(report, _)| report)
    }

    /// Finishes the session as [`finish`](Self::finish), and returns the departures that were not taken.
    ///
    /// # Errors
    /// When the NIC failed before, with the reason.
    pub fn finish_with_log(mut self, grace: Nanos) -> Result<(RunReport, DepartureLog), SessionError> {
        let duration = self.started.elapsed();
        let path = self.receive_path().map(report::path);
        let hold = self.hold.take();
        let stopped = self.nic.stop_with_log(grace);
        // Last: until then a crash leaves something that the next process can remove.
        if let Some(hold) = hold {
            hold.end();
        }
        let (totals, log): (Totals, DepartureLog) = stopped?;
        Ok((report::report(&self.names.last, &totals, duration, path), log))
    }

    /// The departures since the last call, but for the last thousands, which come later; none unless
    /// [`SessionSettings::log`] is set. The departures that are not taken are kept in memory.
    pub fn take_departures(&self) -> DepartureLog {
        self.nic.take_departures()
    }

    /// The names of the classes by their numbers in departures; a class that is gone has its last one.
    pub fn class_names(&self) -> &[String] {
        &self.names.last
    }
}
