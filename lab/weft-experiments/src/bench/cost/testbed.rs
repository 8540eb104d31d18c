//! The testbed of one sample: sender and receiver, joined by a veth pair whose sender's end is the uplink.
//!
//! ```text
//! sender: applications - port0 - [variant] - up0 ===== wire0 - applications :receiver
//! ```
//!
//! With HTB, and with the policy in the kernel, the uplink itself has the address, and there is no port.

use super::case::{CostCase, REQUEST_PORT, Sharing};
use super::error::CostError;
use super::forwarder::Forwarder;
use super::ports::{self, PortCount};
use super::redirect::Redirect;
use super::settings::settings;
use crate::testbed::htb::{self, Share};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use weft_host::bpf::RunStats;
use weft_host::link::{self, Mac, VethOptions};
use weft_host::tc::{ETH_P_IP, Filter, FilterRule, Handle, TcDevice, TcObject, U32Key};
use weft_host::{NetNs, RunId, sysctl};
use weft_packet::ethernet;
use weft_report::bench::cost::Variant;
use weft_run::kernel::{KernelPath, KernelPlan};
use weft_run::session::{AuthoredPolicy, Session};
use weft_units::BitsPerSec;

/// The sender's address.
pub(super) const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 98, 0, 1));
/// The receiver's address.
pub(super) const RECEIVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 98, 0, 2));
/// The prefix length of their network.
pub(super) const PREFIX: u8 = 24;
/// The sender's end of the veth pair.
pub(super) const UPLINK: &str = "up0";
/// The port's name.
pub(super) const PORT: &str = "port0";
/// The port's hardware address.
pub(super) const PORT_MAC: Mac = Mac([2, 0, 0, 0, 0, 3]);
const UPLINK_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const WIRE_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);
/// The receiver's end of the veth pair.
const WIRE: &str = "wire0";
/// The time allowed for links to come up.
const PATIENCE: Duration = Duration::from_secs(10);
/// HTB's class of requests; the other class is bulk.
const REQUEST_CLASS: u16 = 0;
/// The guarantee of the requests' class above bulk, in percent of the link: ten times their need at 500 Mb/s.
const GUARANTEE_PERCENT: u64 = 10;

/// The priority of the requests' packets: HTB's class. Others ignore it.
pub(super) fn request_priority() -> u32 {
    htb::class(REQUEST_CLASS).raw()
}

/// The two namespaces; they are removed with their devices when the value is dropped.
#[derive(Debug)]
pub(super) struct Testbed {
    pub(super) sender: NetNs,
    pub(super) receiver: NetNs,
}

/// A variant in place. It ends when the value is dropped.
#[derive(Debug)]
pub(super) enum Way {
    /// Devices and qdiscs of the kernel alone.
    Plain,
    /// A policy in the kernel.
    Applied {
        /// Held for its removal.
        _held: Applied,
    },
    /// The port of `weft run`.
    Session(Box<Session>),
    /// The floor.
    Forwarder {
        /// Held for its devices and threads.
        _running: Box<Forwarder>,
    },
    /// eBPF redirects.
    Redirect {
        /// Held for its programs.
        _running: Redirect,
    },
}

/// A policy in the kernel at the uplink, which is removed when the value is dropped.
#[derive(Debug)]
pub(super) struct Applied(NetNs);

impl Drop for Applied {
    fn drop(&mut self) {
        let _ = KernelPath::remove(&self.0, UPLINK);
    }
}

impl Way {
    /// Reads the status, as `weft run` does in this interval, so that its cost is included.
    pub(super) fn look(&mut self) -> Result<(), CostError> {
        if let Self::Session(session) = self {
            if !session.is_running() {
                return Err(CostError::Ended);
            }
            let _ = session.status()?;
        }
        Ok(())
    }

    /// The run-time statistics of its eBPF programs, if it counts them.
    pub(super) fn program_cost(&self) -> Result<RunStats, CostError> {
        match self {
            Self::Session(session) => Ok(session.program_cost()?),
            _ => Ok(RunStats::default()),
        }
    }
}

impl Testbed {
    /// Makes namespaces and uplink.
    pub(super) fn create() -> Result<Self, CostError> {
        let make = |part: &str| NetNs::create(&RunId::current().name(&format!("cost{part}")));
        let testbed = Self { sender: make("snd")?, receiver: make("rcv")? };
        for ns in [&testbed.sender, &testbed.receiver] {
            sysctl::disable_ipv6(ns);
        }
        let options = VethOptions { macs: [Some(UPLINK_MAC), Some(WIRE_MAC)], ..VethOptions::default() };
        let ends = [(&testbed.sender, UPLINK), (&testbed.receiver, WIRE)];
        link::create_veth(ends[0], ends[1], &options)?;
        for (ns, name) in ends {
            link::set_up(ns, name)?;
        }
        link::add_address(&testbed.receiver, WIRE, RECEIVER, PREFIX)?;
        for (ns, name) in ends {
            link::wait_running(ns, name, PATIENCE)?;
        }
        Ok(testbed)
    }

    /// Puts a variant in place, so that sender and receiver reach each other.
    /// A session has `all` ports, or those of them that carry flows.
    pub(super) fn open(&self, variant: Variant, case: CostCase, all: PortCount) -> Result<Way, CostError> {
        let PortCount(ports) = all.of(variant);
        let mut way = match variant {
            Variant::Htb => {
                self.install_htb(case)?;
                Way::Plain
            }
            Variant::Kernel => {
                self.apply(case)?;
                Way::Applied { _held: Applied(self.sender.handle()?) }
            }
            Variant::Forwarder => Way::Forwarder { _running: Box::new(Forwarder::start(self, case.rate())?) },
            Variant::Redirect => Way::Redirect { _running: Redirect::start(self)? },
            Variant::Ours | Variant::Busy => {
                let mut settings = settings(case, self.sender.name());
                settings.rings = settings.rings.min(ports::rings(ports));
                Way::Session(Box::new(Session::start(&case.policy()?, &settings)?))
            }
        };
        let on_uplink = matches!(variant, Variant::Htb | Variant::Kernel);
        let (device, mac) = if on_uplink { (UPLINK, UPLINK_MAC) } else { (PORT, PORT_MAC) };
        // A session has given the port its address.
        if !matches!(way, Way::Session(_)) {
            link::add_address(&self.sender, device, SENDER, PREFIX)?;
        }
        link::add_neighbor(&self.sender, device, RECEIVER, WIRE_MAC)?;
        link::add_neighbor(&self.receiver, WIRE, SENDER, mac)?;
        link::wait_running(&self.sender, device, PATIENCE)?;
        if let (Way::Session(session), true) = (&mut way, ports > 1) {
            ports::add(session, self, ports, WIRE_MAC)?;
        }
        Ok(way)
    }

    /// Puts the policy into the kernel at the uplink.
    fn apply(&self, case: CostCase) -> Result<(), CostError> {
        let plan = KernelPlan::new(&case.policy()?, KernelPlan::qdiscs_here())?;
        let source = AuthoredPolicy {
            name: "cost".to_owned(),
            text: case.text(),
            rate_bps: Some(case.rate().get()),
            port_limits: Vec::new(),
            tenants: Vec::new(),
        };
        KernelPath::apply(&self.sender, UPLINK, source, plan, false)?;
        Ok(())
    }

    /// Installs a class of HTB for each class of the policy.
    fn install_htb(&self, case: CostCase) -> Result<(), CostError> {
        // HTB counts frames, the link counts wire bytes.
        let (frame, wire) =
            (ethernet::frame_of(ethernet::MTU), ethernet::wire_of(ethernet::frame_of(ethernet::MTU)));
        let rate = BitsPerSec(case.rate().get() / wire.get() * frame.get());
        let (guarantee, bulk_priority) = match case.sharing() {
            Sharing::Priority => (GUARANTEE_PERCENT, 1),
            Sharing::Wfq => (50, 0),
        };
        let share = |percent: u64, priority| Share { rate: BitsPerSec(rate.get() / 100 * percent), priority };
        let shares = [share(guarantee, 0), share(100 - guarantee, bulk_priority)];
        htb::install(&self.sender, UPLINK, rate, &shares)?;
        if case.has_web_server() { self.classify_answers() } else { Ok(()) }
    }

    /// Puts the packets of the web server, which sets no priority, into HTB's class of requests: its port is the first half of
    /// the word after an IPv4 header without options.
    fn classify_answers(&self) -> Result<(), CostError> {
        let port = U32Key { offset: 20, mask: 0xffff_0000, value: u32::from(REQUEST_PORT) << 16 };
        let any = Filter::new(Handle::FIRST, 0, 0, FilterRule::U32(vec![port]));
        let class = Some(htb::class(REQUEST_CLASS));
        let filter = Filter { class, protocol: ETH_P_IP, ..any };
        Ok(TcDevice::open(&self.sender, UPLINK)?.add(&TcObject::Filter(filter))?)
    }
}
