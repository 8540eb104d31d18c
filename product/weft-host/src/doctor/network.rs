//! The network: links, queues, qdiscs, sockets, TCP.

use std::io;

use netlink_sys::protocols::NETLINK_GENERIC;
use rustix::net::{AddressFamily, SocketType};

use super::{Facility, State};
use crate::error::{OsError, errno_text};
use crate::link::{self, LinkError, VethOptions};
use crate::macvtap::{self, MacvtapError, MacvtapMode};
use crate::netlink::{self, Attributes, Netlink};
use crate::netns::{NetNs, NetNsError};
use crate::sysctl::{self, SysctlError};
use crate::tap::{self, TapError};
use crate::tc::{Handle, Htb, Qdisc, TcDevice, TcError, TcObject};

/// The reason that a trial failed.
#[derive(Debug, thiserror::Error)]
enum TrialError<'a> {
    /// The namespace could not be made.
    #[error("could not be tried: {0}")]
    NoNetNs(&'a NetNsError),
    /// The veth pair could not be made.
    #[error("could not be tried: {0}")]
    NoVeth(&'a LinkError),
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error(transparent)]
    Macvtap(#[from] MacvtapError),
    #[error(transparent)]
    Tap(#[from] TapError),
    #[error(transparent)]
    Sysctl(#[from] SysctlError),
    #[error(transparent)]
    Os(#[from] OsError),
    #[error(transparent)]
    Tc(#[from] TcError),
    /// No netlink socket.
    #[error("{}", errno_text(.0))]
    Socket(io::Error),
    #[error("this kernel has no {0} qdisc")]
    NoQdisc(String),
    /// The congestion control is not among those loaded.
    #[error("this kernel has loaded: {0}")]
    Loaded(String),
    #[error("this kernel has none")]
    None,
}

/// A scratch namespace with a veth pair. Without a namespace there is no pair.
struct Bench {
    ns: Result<NetNs, NetNsError>,
    veth: Option<Result<(), LinkError>>,
}

impl Bench {
    fn new() -> Bench {
        let ns = NetNs::anonymous();
        let pair = |ns| link::create_veth((ns, "va"), (ns, "vb"), &VethOptions::default());
        let veth = ns.as_ref().ok().map(pair);
        Bench { ns, veth }
    }

    /// Tries an operation in the namespace.
    fn in_ns<'a, T>(
        &'a self,
        attempt: impl FnOnce(&NetNs) -> Result<T, TrialError<'a>>,
    ) -> Result<T, TrialError<'a>> {
        self.ns.as_ref().map_err(TrialError::NoNetNs).and_then(attempt)
    }

    /// Tries an operation that needs the veth pair.
    fn on_veth<'a, T>(
        &'a self,
        attempt: impl FnOnce(&NetNs) -> Result<T, TrialError<'a>>,
    ) -> Result<T, TrialError<'a>> {
        if let Some(Err(error)) = &self.veth {
            return Err(TrialError::NoVeth(error));
        }
        self.in_ns(attempt)
    }
}

pub(super) fn survey() -> Vec<Facility> {
    let bench = Bench::new();
    let mut facilities = links(&bench);
    facilities.extend(qdiscs(&bench));
    facilities.extend(sockets(&bench));
    facilities
}

fn links(bench: &Bench) -> Vec<Facility> {
    let macvtap = bench.on_veth(|ns| {
        macvtap::create(ns, "vb", "mvb", MacvtapMode::Passthru, 2, 500, None)?;
        Ok(macvtap::open_queues(ns, "mvb", 2)?)
    });
    vec![
        Facility {
            id: "netns",
            title: "network namespaces",
            state: State::tried(bench.ns.as_ref()),
            brings: "experiments on real packets that touch nothing of the host's network",
            remedy: "run as root, with CONFIG_NET_NS",
        },
        Facility {
            id: "veth",
            title: "veth links",
            state: State::tried(bench.on_veth(|_| Ok(()))),
            brings: "the NIC as applications see it",
            remedy: "run as root; modprobe veth",
        },
        Facility {
            id: "macvtap",
            title: "macvtap links with several queues",
            state: State::tried(macvtap),
            brings: "descriptor rings that hold the sender back until the scheduler takes a packet",
            remedy: "run as root; modprobe macvtap",
        },
        Facility {
            id: "tap",
            title: "TAP links (/dev/net/tun)",
            state: State::tried(bench.in_ns(|ns| Ok(tap::create(ns, "tb", 2)?))),
            brings: "the wire side of the software NIC",
            remedy: "run as root; modprobe tun, and pass /dev/net/tun into a container",
        },
        Facility {
            id: "tap-backpressure",
            title: "TAP links that hold senders back",
            state: State::tried(tap::require_backpressure()),
            brings: "ports of one device (weft run --port tap)",
            remedy: "use Linux 7.3 or later, or ports of a veth, the default",
        },
        Facility {
            id: "net-shaper",
            title: "hardware shapers by netlink (net-shaper)",
            state: State::tried(net_shaper()),
            brings: "queue rates and weights set in the NIC itself",
            remedy: "use Linux 6.13 or later with CONFIG_NET_SHAPER, and a NIC whose driver has it",
        },
    ]
}

fn qdiscs(bench: &Bench) -> Vec<Facility> {
    let add = |object| {
        bench.on_veth(|ns| match TcDevice::open(ns, "va").and_then(|mut device| device.add(&object)) {
            Err(TcError::NoKind { kind, .. }) => Err(TrialError::NoQdisc(kind)),
            other => Ok(other?),
        })
    };
    vec![
        Facility {
            id: "clsact",
            title: "eBPF at a link's egress (clsact)",
            state: State::tried(add(TcObject::clsact())),
            brings: "classification, queue assignment and doorbells",
            remedy: "run as root; modprobe sch_ingress (CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_BPF)",
        },
        Facility {
            id: "htb",
            title: "HTB qdisc",
            state: State::tried(add(TcObject::root(Handle::qdisc(1), Qdisc::Htb(Htb::with_default(0))))),
            brings: "the kernel's own shaper, to compare with and to export a policy to",
            remedy: "run as root; modprobe sch_htb",
        },
    ]
}

fn sockets(bench: &Bench) -> Vec<Facility> {
    let congestion = |id, title, name: &str, brings, remedy| Facility {
        id,
        title,
        state: State::tried(congestion_control(name)),
        brings,
        remedy,
    };
    vec![
        congestion("cc.cubic", "TCP CUBIC", "cubic", "the papers' congestion control", "modprobe tcp_cubic"),
        congestion("cc.bbr", "TCP BBR", "bbr", "flows that pace themselves", "modprobe tcp_bbr"),
        congestion("cc.dctcp", "TCP DCTCP", "dctcp", "flows that heed ECN marks", "modprobe tcp_dctcp"),
        Facility {
            id: "tso-rtt-log",
            title: "setting net.ipv4.tcp_tso_rtt_log",
            state: State::tried(bench.in_ns(|ns| Ok(sysctl::set(ns, "net.ipv4.tcp_tso_rtt_log", "0")?))),
            brings: "small segments for slow flows on a near link, and so a short standing queue",
            remedy: "run as root on Linux 5.18 or later",
        },
        Facility {
            id: "af-xdp",
            title: "AF_XDP sockets",
            state: af_xdp(),
            brings: "packets from and to a NIC past the kernel's stack",
            remedy: "run as root on a kernel with CONFIG_XDP_SOCKETS",
        },
    ]
}

fn congestion_control(name: &str) -> Result<(), TrialError<'static>> {
    let key = "net.ipv4.tcp_available_congestion_control";
    let available = sysctl::get(&NetNs::current()?, key)?;
    match available.split_ascii_whitespace().any(|word| word == name) {
        true => Ok(()),
        false => Err(TrialError::Loaded(available)),
    }
}

fn af_xdp() -> State {
    match rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None) {
        Ok(_) => State::PRESENT,
        Err(rustix::io::Errno::AFNOSUPPORT) => State::Missing("this kernel has none".to_string()),
        Err(e) => State::Missing(format!("could not be tried: {}", errno_text(&e.into()))),
    }
}

/// Asks generic netlink for the family "net-shaper".
fn net_shaper() -> Result<(), TrialError<'static>> {
    const GENL_ID_CTRL: u16 = 0x10;
    const CTRL_CMD_GETFAMILY: u8 = 3;
    const CTRL_ATTR_FAMILY_NAME: u16 = 2;
    const NLM_F_REQUEST_ACK: u16 = 5;
    let body = Attributes::default().with(CTRL_ATTR_FAMILY_NAME, b"net-shaper\0").bytes();
    let sequence = 1u32;
    let length = (16 + 4 + body.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(GENL_ID_CTRL.to_ne_bytes());
    message.extend(NLM_F_REQUEST_ACK.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend([0; 4]);
    message.extend([CTRL_CMD_GETFAMILY, 1, 0, 0]);
    message.extend(body);
    let socket = Netlink::socket(NETLINK_GENERIC).map_err(TrialError::Socket)?;
    match netlink::exchange(&socket, &message, sequence) {
        Ok(_) => Ok(()),
        Err(e) if e.is(rustix::io::Errno::NOENT) => Err(TrialError::None),
        Err(e) => Err(e.during("ask for the netlink family net-shaper").into()),
    }
}
