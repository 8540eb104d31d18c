//! Queries of links.

use std::time::{Duration, Instant};

use netlink_packet_core::NLM_F_DUMP;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkMessage};

use super::{LinkError, Mac, Result, check_name};
use crate::netlink::{Netlink, attributes, c_string, u32_at, u64_at};
use crate::netns::NetNs;
use weft_units::{Bytes, Packets};

const RTM_NEWLINK: u16 = 16;
const IFINFOMSG_LEN: usize = 16;
const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;
const ARPHRD_ETHER: u16 = 1;
/// The kernel's operational states: `IF_OPER_UP`, or `IF_OPER_UNKNOWN` if the driver does not report one.
const OPERATIONAL: [u8; 2] = [6, 0];
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_LINK: u16 = 5;
const IFLA_MASTER: u16 = 10;
const IFLA_TXQLEN: u16 = 13;
const IFLA_OPERSTATE: u16 = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_STATS64: u16 = 23;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_CARRIER: u16 = 33;
const IFLA_LINK_NETNSID: u16 = 37;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GSO_MAX_SIZE: u16 = 41;
/// Linux 6.3 and later.
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_INFO_KIND: u16 = 1;
/// Set in the type of an attribute that contains attributes.
const NLA_TYPE_MASK: u16 = 0x3fff;

/// A snapshot of a link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Its name.
    pub name: String,
    /// Its number in its namespace.
    pub index: u32,
    /// Its kind ("veth", "macvtap", ...); `None` for hardware and `lo`.
    pub kind: Option<String>,
    /// The number of the link below it, or of a veth's other end, in that link's namespace.
    pub lower: Option<u32>,
    /// The namespace of that link, if it is another: its number in this link's namespace (`netns_number::numbered`).
    pub lower_netns: Option<i32>,
    /// The number of the link that it is a part of, such as its bridge, in its namespace.
    pub master: Option<u32>,
    /// Whether it carries Ethernet frames and is no loopback (`ARPHRD_ETHER`, `IFF_LOOPBACK`).
    pub is_ethernet: bool,
    /// The alias, from `set_alias`.
    pub alias: Option<String>,
    /// Its hardware address, if it has one of six bytes.
    pub mac: Option<Mac>,
    /// The largest packet in bytes.
    pub mtu: u32,
    /// The largest segment that the stack passes to it for segmentation, in bytes.
    pub gso_max_size: u32,
    /// The same limit for IPv4, if the kernel has a separate one (Linux 6.3 and later).
    pub gso_ipv4_max_size: Option<u32>,
    /// The most packets into which a segment passed to it may be cut.
    pub gso_max_segs: u32,
    /// The length of its transmit queue in packets.
    pub txqueuelen: u32,
    /// The number of its transmit queues.
    pub tx_queues: u32,
    /// Whether it is administratively up.
    pub up: bool,
    /// Whether packets can be sent through it: up, with a carrier, and known to the kernel as operational.
    pub running: bool,
    /// Its counters.
    pub stats: LinkStats,
}

/// The counters of a link since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets received.
    pub rx_packets: Packets,
    /// Packets sent.
    pub tx_packets: Packets,
    /// Bytes received.
    pub rx_bytes: Bytes,
    /// Bytes sent.
    pub tx_bytes: Bytes,
    /// Packets received with an error.
    pub rx_errors: Packets,
    /// Packets not sent because of an error.
    pub tx_errors: Packets,
    /// Packets received and dropped because of a full buffer or a missing receiver.
    pub rx_dropped: Packets,
    /// Packets dropped on transmit; for a macvtap or TAP, because the ring was full.
    pub tx_dropped: Packets,
}

/// All links of the namespace.
pub fn list(ns: &NetNs) -> Result<Vec<Link>> {
    list_by(&mut Netlink::open(ns)?, ns)
}

/// The link `name` with all its properties.
pub fn show(ns: &NetNs, name: &str) -> Result<Link> {
    show_by(&mut Netlink::open(ns)?, ns, name)
}

/// Whether the namespace has a link of this name.
pub fn exists(ns: &NetNs, name: &str) -> Result<bool> {
    match show(ns, name) {
        Ok(_) => Ok(true),
        Err(LinkError::NotFound { .. }) => Ok(false),
        Err(other) => Err(other),
    }
}

/// The number of the link in its namespace.
pub fn index(ns: &NetNs, name: &str) -> Result<u32> {
    Ok(show(ns, name)?.index)
}

/// The link's counters.
pub fn stats(ns: &NetNs, name: &str) -> Result<LinkStats> {
    Ok(show(ns, name)?.stats)
}

/// The hardware address, if the link has one.
pub fn get_mac(ns: &NetNs, name: &str) -> Result<Option<Mac>> {
    Ok(show(ns, name)?.mac)
}

/// The link's kind ("veth", "tun", "dummy", ...); `None` for hardware and `lo`.
///
/// # Errors
/// If the link does not exist.
pub fn kind(ns: &NetNs, name: &str) -> Result<Option<String>> {
    Ok(show(ns, name)?.kind)
}

/// The alias, if one was set.
pub fn alias(ns: &NetNs, name: &str) -> Result<Option<String>> {
    Ok(show(ns, name)?.alias)
}

/// Waits until packets can be sent through the link, at most `timeout`.
///
/// The first end of a veth pair that is set up gets its carrier when the second follows. The kernel marks it operational
/// slightly later, from a work queue, and silently drops packets sent in between. (From Linux 6.8 on, a query of
/// the link updates the state at once.)
pub fn wait_running(ns: &NetNs, name: &str, timeout: Duration) -> Result<()> {
    let deadline = Instant::now() + timeout;
    let mut netlink = Netlink::open(ns)?;
    while !show_by(&mut netlink, ns, name)?.running {
        if Instant::now() >= deadline {
            return Err(LinkError::NotRunning {
                link: name.to_string(),
                ns: ns.to_string(),
                waited: timeout,
            });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

pub(crate) fn index_by(netlink: &mut Netlink, ns: &NetNs, name: &str) -> Result<u32> {
    Ok(show_by(netlink, ns, name)?.index)
}

fn show_by(netlink: &mut Netlink, ns: &NetNs, name: &str) -> Result<Link> {
    check_name(name)?;
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::IfName(name.to_string()));
    ask(netlink, ns, message, name)
}

/// The link of number `index`; `name` is for errors.
pub(super) fn show_number(netlink: &mut Netlink, ns: &NetNs, index: u32, name: &str) -> Result<Link> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    ask(netlink, ns, message, name)
}

fn ask(netlink: &mut Netlink, ns: &NetNs, message: LinkMessage, name: &str) -> Result<Link> {
    match netlink.request(RouteNetlinkMessage::GetLink(message), 0) {
        Ok(answers) => answers
            .iter()
            .find(|(kind, _)| *kind == RTM_NEWLINK)
            .map(|(_, body)| parse(body))
            .ok_or_else(|| not_found(netlink, ns, name)),
        Err(e) if e.is(rustix::io::Errno::NODEV) => Err(not_found(netlink, ns, name)),
        Err(e) => Err(e.during(format!("look at link {name} of {ns}")).into()),
    }
}

fn list_by(netlink: &mut Netlink, ns: &NetNs) -> Result<Vec<Link>> {
    let answers = netlink
        .request(RouteNetlinkMessage::GetLink(LinkMessage::default()), NLM_F_DUMP)
        .map_err(|e| e.during(format!("list the links of {ns}")))?;
    Ok(answers.iter().filter(|(kind, _)| *kind == RTM_NEWLINK).map(|(_, body)| parse(body)).collect())
}

fn not_found(netlink: &mut Netlink, ns: &NetNs, name: &str) -> LinkError {
    let there = list_by(netlink, ns).unwrap_or_default();
    LinkError::NotFound {
        link: name.to_string(),
        ns: ns.to_string(),
        there: there.into_iter().map(|link| link.name).collect(),
    }
}

/// Reads a `struct ifinfomsg` and its attributes.
fn parse(body: &[u8]) -> Link {
    let hardware = body.get(2..4).and_then(|bytes| bytes.try_into().ok()).map(u16::from_ne_bytes);
    let flags = u32_at(body, 8);
    let mut link = Link {
        index: u32_at(body, 4),
        up: flags & IFF_UP != 0,
        is_ethernet: hardware == Some(ARPHRD_ETHER) && flags & IFF_LOOPBACK == 0,
        ..Link::default()
    };
    let (mut carrier, mut operational) = (false, false);
    for (kind, value) in attributes(body.get(IFINFOMSG_LEN..).unwrap_or_default()) {
        match kind & NLA_TYPE_MASK {
            IFLA_ADDRESS => link.mac = value.try_into().ok().map(Mac),
            IFLA_IFNAME => link.name = c_string(value),
            IFLA_LINK => link.lower = Some(u32_at(value, 0)).filter(|index| *index > 0),
            IFLA_LINK_NETNSID => link.lower_netns = Some(u32_at(value, 0) as i32),
            IFLA_MASTER => link.master = Some(u32_at(value, 0)).filter(|index| *index > 0),
            IFLA_MTU => link.mtu = u32_at(value, 0),
            IFLA_TXQLEN => link.txqueuelen = u32_at(value, 0),
            IFLA_NUM_TX_QUEUES => link.tx_queues = u32_at(value, 0),
            IFLA_GSO_MAX_SIZE => link.gso_max_size = u32_at(value, 0),
            IFLA_GSO_MAX_SEGS => link.gso_max_segs = u32_at(value, 0),
            IFLA_GSO_IPV4_MAX_SIZE => link.gso_ipv4_max_size = Some(u32_at(value, 0)),
            IFLA_IFALIAS => link.alias = Some(c_string(value)),
            IFLA_LINKINFO => {
                link.kind = attributes(value).find(|(k, _)| *k == IFLA_INFO_KIND).map(|(_, v)| c_string(v));
            }
            IFLA_STATS64 => link.stats = parse_stats(value),
            IFLA_CARRIER => carrier = value.first() == Some(&1),
            IFLA_OPERSTATE => operational = value.first().is_some_and(|state| OPERATIONAL.contains(state)),
            _ => {}
        }
    }
    link.running = link.up && carrier && operational;
    link
}

/// The first eight counters of `struct rtnl_link_stats64`.
fn parse_stats(value: &[u8]) -> LinkStats {
    let [rx_packets, tx_packets, rx_bytes, tx_bytes, rx_errors, tx_errors, rx_dropped, tx_dropped] =
        std::array::from_fn(|i| u64_at(value, 8 * i));
    LinkStats {
        rx_packets: Packets(rx_packets),
        tx_packets: Packets(tx_packets),
        rx_bytes: Bytes(rx_bytes),
        tx_bytes: Bytes(tx_bytes),
        rx_errors: Packets(rx_errors),
        tx_errors: Packets(tx_errors),
        rx_dropped: Packets(rx_dropped),
        tx_dropped: Packets(tx_dropped),
    }
}
