//! The settings of a session: those of its NIC, those of each port, and both for a session with one port.

use super::{SessionError, UNKNOWN_RATE, WINDOW};
use core::net::IpAddr;
use core::num::NonZeroUsize;
use weft_facts::ports::PortLimit;
use weft_host::RunId;
use weft_host::clock;
use weft_host::life::Life;
use weft_host::link::{self, Link, LinkError, Mac};
use weft_host::netns::{NetNs, NetNsError};
use weft_host::tap::{self, TapError};
use weft_host::tc::Tbf;
use weft_nic::link::{DeviceLink, LinkKind, LinkRate};
use weft_nic::nic::{NIC_RINGS, NicConfig, NicError, NicPlan};
use weft_nic::plan::{FLOW_TABLE, Mode, PlanError, PortShare};
use weft_nic::port::Receive;
use weft_nic::redirect::ThreadReason;
use weft_nic::worker::SegmentsPerTurn;
use weft_packet::ethernet;
use weft_policy::CompiledPolicy;
use weft_sched::queues::{Inner, Service};
use weft_units::{BitsPerSec, Bytes, Nanos};

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

/// The kind of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PortKind {
    /// A veth whose far end carries a macvtap. Works on every kernel.
    Veth,
    /// A TAP that holds senders back (Linux 7.3).
    Tap,
    /// The better one of those that the kernel has: at present a veth (docs/kernels.md, "The kinds of port").
    #[default]
    Auto,
}

impl PortKind {
    /// Checks that the kernel has the kind.
    ///
    /// # Errors
    /// When a TAP was requested and would drop packets at a full ring.
    pub(super) fn check(self) -> Result<(), TapError> {
        match self {
            Self::Veth | Self::Auto => Ok(()),
            Self::Tap => tap::require_backpressure(),
        }
    }

    /// Checks that the kernel can carry received packets to a port of this kind, if `receive` requires it.
    ///
    /// # Errors
    /// When a TAP shall receive in the kernel.
    pub(super) fn check_receive(self, receive: Receive) -> Result<(), ThreadReason> {
        match (self, receive) {
            (Self::Tap, Receive::Kernel) => Err(ThreadReason::TapPort),
            _ => Ok(()),
        }
    }
}

/// The settings of a session's NIC, without ports.
#[derive(Clone, Debug)]
pub struct NicSettings {
    /// The interface through which packets leave.
    pub uplink: String,
    /// The namespace of that interface; `None` for the caller's.
    pub uplink_netns: Option<String>,
    /// The rate of the link.
    pub rate: BitsPerSec,
    /// The hardware queues that replace a policy's scheduling, if any; the policy is then
    /// [`ONE_CLASS`](super::ONE_CLASS), and the session has one port.
    pub queues: Option<Queues>,
    /// The number of transmit workers that share the policy. A port belongs to one of them.
    pub workers: NonZeroUsize,
    /// The treatment of the uplink.
    pub link: LinkKind,
    /// The unit of segmentation. A NIC with hardware queues sends super-packets whole.
    pub segments_per_turn: SegmentsPerTurn,
    /// The maximum lag of the link's clock behind the wall clock.
    pub catch_up: Nanos,
    /// Whether departures are logged, for [`Session::take_departures`](super::Session::take_departures).
    pub log: bool,
}

/// The settings of a port.
#[derive(Clone, Debug)]
pub struct PortSettings {
    /// Its name, unique in the session.
    pub name: String,
    /// The namespace of its near end; `None` for the caller's.
    pub netns: Option<String>,
    /// Its addresses.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Its hardware address. Two ports on one network must not share one.
    pub mac: Mac,
    /// Its kind.
    pub kind: PortKind,
    /// The carrier wanted for its received packets.
    pub receive: Receive,
    /// Its share of the NIC's resources.
    pub share: PortShare,
    /// The limit of what it receives; what it sends is limited by the policy.
    pub ingress: Option<PortLimit>,
}

/// The longest time that a packet to a port waits for its limit.
const QUEUE: Nanos = Nanos::from_millis(25);
/// The least burst, as a time at the rate, so that a late timer loses nothing.
const TICK: Nanos = Nanos::from_millis(2);

/// The token bucket of what a port of this MTU receives.
pub(super) fn bucket(limit: PortLimit, mtu: u32) -> Tbf {
    let frame = ethernet::wire_of(ethernet::frame_of(Bytes(u64::from(mtu))));
    let two = frame + frame;
    let burst = limit.burst.max(limit.rate.bytes_in(TICK)).max(two);
    let overhead = (frame - ethernet::frame_of(Bytes(u64::from(mtu)))).get() as u16;
    Tbf { rate: limit.rate, overhead, burst, limit: limit.rate.bytes_in(QUEUE).max(two) }
}

impl PortSettings {
    /// The default share of a port beside others: 64 rings, so that 64 ports fit, and 16,384 flows.
    pub const SHARE: PortShare = PortShare { rings: 64, flows: 16_384, spare: 24 };
}

/// The settings of a session with one port.
#[derive(Clone, Debug)]
pub struct SessionSettings {
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
    /// The hardware address of the port, and of the device that it receives by.
    pub mac: Mac,
    /// The rate of the link.
    pub rate: BitsPerSec,
    /// The hardware queues that replace a policy's scheduling, if any; the policy is then
    /// [`ONE_CLASS`](super::ONE_CLASS).
    pub queues: Option<Queues>,
    /// The number of transmit workers that share the policy. A port belongs to one of them, so this session has work for one.
    pub workers: NonZeroUsize,
    /// The treatment of the uplink. [`LinkKind::Emulated`] holds each packet until the link's clock is free, whatever the
    /// device could send.
    pub link: LinkKind,
    /// The unit of segmentation. A NIC with hardware queues sends super-packets whole.
    pub segments_per_turn: SegmentsPerTurn,
    /// The maximum number of the port's descriptor rings.
    pub rings: usize,
    /// The maximum lag of the link's clock behind the wall clock.
    pub catch_up: Nanos,
    /// Whether departures are logged, for [`Session::take_departures`](super::Session::take_departures).
    pub log: bool,
    /// The kind of port.
    pub port: PortKind,
    /// The carrier wanted for received packets.
    pub receive: Receive,
}

/// The kinds of device that take the packets of their parts before a macvlan could (`netdev_rx_handler_register`).
const TAKERS: [&str; 4] = ["bridge", "bond", "team", "openvswitch"];

/// The default of the largest lag of the link's clock.
const CATCH_UP: Nanos = Nanos::from_millis(10);

/// The departures that a log has memory for from the start, before it allocates: those of some milliseconds at a high rate.
const LOGGED: usize = 20_000;

/// Opens the namespace `name`, or the caller's.
pub(super) fn namespace(name: Option<&str>) -> Result<NetNs, NetNsError> {
    name.map_or_else(NetNs::current, NetNs::named)
}

/// The display name of the namespace `name`.
pub(super) fn place(name: Option<&str>) -> String {
    name.map_or_else(|| "this network namespace".to_owned(), |name| format!("network namespace {name}"))
}

impl SessionSettings {
    /// Plans the rings. Changes nothing and needs no privilege.
    ///
    /// # Errors
    /// When the policy exceeds the port, or the kind of port cannot receive as required.
    pub fn plan(&self, policy: &CompiledPolicy) -> Result<NicPlan, SessionError> {
        self.port.check_receive(self.receive).map_err(NicError::from)?;
        self.nic().plan(policy, Vec::new(), self.rings)
    }

    /// Checks that the uplink's interface exists, the port's name is free, and the kernel has the kind of port.
    ///
    /// # Errors
    /// When one of these conditions fails.
    pub fn check_host(&self) -> Result<(), SessionError> {
        self.port.check().map_err(SessionError::NoSuchPort)?;
        self.nic().check_host()?;
        self.port_settings().check_name()
    }

    /// The settings of the NIC.
    pub fn nic(&self) -> NicSettings {
        NicSettings {
            uplink: self.uplink.clone(),
            uplink_netns: self.uplink_netns.clone(),
            rate: self.rate,
            queues: self.queues,
            workers: self.workers,
            link: self.link,
            segments_per_turn: self.segments_per_turn,
            catch_up: self.catch_up,
            log: self.log,
        }
    }

    /// The settings of the port, which has all flows.
    pub fn port_settings(&self) -> PortSettings {
        PortSettings {
            name: self.name.clone(),
            netns: self.port_netns.clone(),
            addresses: self.addresses.clone(),
            mac: self.mac,
            kind: self.port,
            receive: self.receive,
            share: PortShare { rings: self.rings, flows: FLOW_TABLE, spare: 0 },
            ingress: None,
        }
    }

    pub(super) fn segments_per_turn(&self) -> SegmentsPerTurn {
        self.nic().segments_per_turn()
    }

    /// The name of the macvtap on the uplink's interface that transmits.
    pub fn uplink_device(&self) -> String {
        RunId::current().device("up")
    }
}

impl NicSettings {
    /// The settings of a NIC with one worker that runs `policy`, above an uplink without a name yet.
    pub fn of_policy(policy: &CompiledPolicy) -> Self {
        let source = if policy.link.is_some() { LinkRate::Given } else { LinkRate::Observed };
        Self {
            uplink: String::new(),
            uplink_netns: None,
            rate: policy.link.unwrap_or(UNKNOWN_RATE),
            queues: None,
            workers: NonZeroUsize::MIN,
            link: LinkKind::Device(DeviceLink { rate: source, piece: policy.least_latency() }),
            segments_per_turn: SegmentsPerTurn::Whole,
            catch_up: CATCH_UP,
            log: false,
        }
    }

    /// Checks that the uplink's interface exists and that its rate can be known.
    ///
    /// # Errors
    /// When one of these conditions fails.
    pub fn check_host(&self) -> Result<(), SessionError> {
        let ahead = clock::offset();
        if ahead != 0.0 {
            return Err(SessionError::OtherClock { ahead });
        }
        let links = link::list(&namespace(self.uplink_netns.as_deref())?)?;
        if !links.iter().any(|l| l.name == self.uplink) {
            let there: Vec<_> = links.into_iter().map(|l| l.name).filter(|name| name != "lo").collect();
            let there = if there.is_empty() { "none besides lo".to_owned() } else { there.join(", ") };
            let (name, place) = (self.uplink.clone(), place(self.uplink_netns.as_deref()));
            return Err(SessionError::NoUplink { name, place, there });
        }
        self.check_carries(&links)?;
        self.check_back_pressure(&links)
    }

    /// Checks that the kernel puts a macvtap on the uplink's interface: one of Ethernet that is no loopback and whose packets no
    /// other device takes (`macvlan_port_create`, drivers/net/macvlan.c).
    fn check_carries(&self, links: &[Link]) -> Result<(), SessionError> {
        let Some(uplink) = links.iter().find(|link| link.name == self.uplink) else { return Ok(()) };
        let name = || self.uplink.clone();
        if !uplink.is_ethernet {
            return Err(SessionError::NotEthernet { name: name() });
        }
        let master = links.iter().find(|link| Some(link.index) == uplink.master);
        let taken = |link: &&Link| link.kind.as_deref().is_some_and(|kind| TAKERS.contains(&kind));
        match master.filter(taken) {
            Some(master) => Err(SessionError::Enslaved { name: name(), master: master.name.clone() }),
            None => Ok(()),
        }
    }

    /// Checks that the uplink's device keeps packets charged until it has sent them, where the link has no configured
    /// rate. A TAP releases them when it takes them (`skb_orphan` in `tun_net_xmit`, drivers/net/tun.c), and drops what
    /// its reader does not take.
    fn check_back_pressure(&self, links: &[Link]) -> Result<(), SessionError> {
        let observed = matches!(self.link, LinkKind::Device(DeviceLink { rate: LinkRate::Observed, .. }));
        let is_tap = |link: &&Link| link.name == self.uplink && link.kind.as_deref() == Some("tun");
        match links.iter().find(is_tap) {
            Some(_) if observed => Err(SessionError::NoBackPressure { name: self.uplink.clone() }),
            _ => Ok(()),
        }
    }

    /// Plans a NIC whose ports have the default share, with the ports of these names: whether it has room for each of them,
    /// and for one that the policy does not name.
    ///
    /// # Errors
    /// When the policy exceeds a port, or the ports exceed the NIC.
    pub fn plan_for_ports(&self, policy: &CompiledPolicy, names: &[&str]) -> Result<NicPlan, SessionError> {
        let plan = self.plan(policy, Vec::new(), PortSettings::SHARE.rings)?;
        let mut left = NIC_RINGS;
        for name in names {
            let rings = plan.for_port(name, PortSettings::SHARE).map_err(NicError::from)?.rings.len();
            left = left.checked_sub(rings).ok_or(NicError::from(PlanError::NicRings { rings, left }))?;
        }
        Ok(plan)
    }

    /// Plans a port of `rings` rings.
    ///
    /// # Errors
    /// When the policy exceeds the port, or the workers cannot share it.
    pub fn plan(
        &self,
        policy: &CompiledPolicy,
        cgroups: Vec<Option<weft_nic::doorbell::CgroupEntry>>,
        rings: usize,
    ) -> Result<NicPlan, SessionError> {
        let plan = NicPlan::new(policy, self.config(policy, cgroups, rings))?;
        Ok(plan.with_workers(self.workers).map_err(NicError::from)?)
    }

    /// The configuration of the NIC under `policy`.
    pub(super) fn config(
        &self,
        policy: &CompiledPolicy,
        cgroups: Vec<Option<weft_nic::doorbell::CgroupEntry>>,
        rings: usize,
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
            rings,
            departures: self.log.then_some(LOGGED),
        }
    }

    fn segments_per_turn(&self) -> SegmentsPerTurn {
        if self.queues.is_some() { SegmentsPerTurn::Whole } else { self.segments_per_turn }
    }
}

impl PortSettings {
    /// Checks that the port's name is one, and free in its namespace. What a dead run has left does not count: it is removed
    /// before a port is made.
    ///
    /// # Errors
    /// When there is no such namespace, or the name cannot be had there.
    pub fn check_name(&self) -> Result<(), SessionError> {
        match link::show(&namespace(self.netns.as_deref())?, &self.name) {
            Err(LinkError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
            Ok(link) if owner(&link).is_some_and(|run| run.life() == Life::Dead) => Ok(()),
            Ok(_) => {
                let (name, place) = (self.name.clone(), place(self.netns.as_deref()));
                Err(SessionError::NameTaken { name, place })
            }
        }
    }

    /// Whether the interface of the port's name is the port of a process that lives, such as that of a running daemon.
    pub fn is_running(&self) -> bool {
        let link = namespace(self.netns.as_deref()).ok().and_then(|ns| link::show(&ns, &self.name).ok());
        link.is_some_and(|link| owner(&link).is_some_and(|run| run.life() != Life::Dead))
    }
}

/// The run that made a link, if one did.
fn owner(link: &Link) -> Option<RunId> {
    link.alias.as_deref().and_then(RunId::owner_of_alias)
}
