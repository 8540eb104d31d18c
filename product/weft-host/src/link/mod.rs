//! Network links (interfaces) of a namespace: make, configure, query, delete.
//!
//! Every function takes the namespace in which it works, and changes no other link than the one named.

mod address;
mod gso;
mod mac;
mod monitor;
mod namespace;
mod numbered;
mod query;
mod veth;

use netlink_packet_core::DefaultNla;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use std::os::fd::AsRawFd;

use crate::error::OsError;
use crate::netlink::{Netlink, Refusal};
use crate::netns::{NetNs, NetNsError};

pub use address::{Route, add_address, add_neighbor, add_route, addresses};
pub use gso::{GsoSizes, flush_routes, gso_sizes, limit_gso_size, set_gso_sizes};
pub use mac::{Mac, ParseMacError};
pub use monitor::{Change, Event, Monitor, requester};
pub use numbered::Numbered;
pub use query::{Link, LinkStats, alias, exists, get_mac, index, kind, list, show, stats, wait_running};
pub use veth::{PathEnd, VethOptions, create_path, create_veth};

/// The longest name of a link, in bytes: the kernel's IFNAMSIZ minus the terminating zero.
pub const MAX_NAME: usize = 15;

/// An error of a link operation.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The kernel refused a call.
    #[error(transparent)]
    Os(#[from] OsError),
    /// The namespace could not be entered.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// The kernel does not accept this name.
    #[error("link name {0:?} must be 1 to {MAX_NAME} bytes without '/', ':', '%' or white space")]
    BadName(String),
    /// The namespace has no link of this name.
    #[error("there is no link {link} in network namespace {ns}{}", known(.there))]
    NotFound {
        /// The name asked for.
        link: String,
        /// The namespace searched.
        ns: String,
        /// The existing links.
        there: Vec<String>,
    },
    /// A link of this name exists already.
    #[error("link {link} exists already in network namespace {ns}")]
    Exists {
        /// The name asked for.
        link: String,
        /// The namespace.
        ns: String,
    },
    /// The link did not become able to send packets in time.
    #[error("link {link} of {ns} is not running after {waited:?}; set it, its peer and its parent up")]
    NotRunning {
        /// The link.
        link: String,
        /// Its namespace.
        ns: String,
        /// The time waited.
        waited: std::time::Duration,
    },
    /// The kernel cannot make this kind of link.
    #[error("this kernel cannot make a {kind} link: {module} is neither built in nor loadable")]
    NoSuchKind {
        /// The kind, as `ip link add type` names it.
        kind: &'static str,
        /// The kernel option.
        module: &'static str,
    },
}

/// The result of a link operation.
pub type Result<T> = std::result::Result<T, LinkError>;

fn known(there: &[String]) -> String {
    if there.is_empty() { String::new() } else { format!("; there are: {}", there.join(", ")) }
}

/// Refuses what the kernel's `dev_valid_name` refuses, and `%`: in the name of a new link it begins a format, so that the link
/// has another name (`dev_alloc_name`, net/core/dev.c).
pub(crate) fn check_name(name: &str) -> Result<()> {
    let bad = name.is_empty() || name.len() > MAX_NAME || name == "." || name == "..";
    if bad || name.contains(|c: char| matches!(c, '/' | ':' | '%' | '\0') || c.is_whitespace()) {
        return Err(LinkError::BadName(name.to_string()));
    }
    Ok(())
}

/// Sets the link up. Call [`wait_running`] before sending packets.
pub fn set_up(ns: &NetNs, link: &str) -> Result<()> {
    set_flag(ns, link, LinkFlags::Up, "up")
}

/// Sets the link down.
pub fn set_down(ns: &NetNs, link: &str) -> Result<()> {
    set_flag(ns, link, LinkFlags::empty(), "down")
}

/// Makes the link receive all multicast packets. Otherwise a macvtap receives only groups that its own namespace has
/// joined, and its reader misses neighbour discovery.
pub fn set_all_multicast(ns: &NetNs, link: &str) -> Result<()> {
    let mut message = LinkMessage::default();
    message.header.flags = LinkFlags::Allmulti;
    message.header.change_mask = LinkFlags::Allmulti;
    change(ns, link, message, |ns| format!("let link {link} of {ns} receive all multicast"))
}

fn set_flag(ns: &NetNs, link: &str, flags: LinkFlags, word: &str) -> Result<()> {
    let mut message = LinkMessage::default();
    message.header.flags = flags;
    message.header.change_mask = LinkFlags::Up;
    change(ns, link, message, |ns| format!("set link {link} of {ns} {word}"))
}

/// Sets the hardware address.
pub fn set_mac(ns: &NetNs, link: &str, mac: Mac) -> Result<()> {
    set(ns, link, LinkAttribute::Address(mac.0.to_vec()), &format!("MAC to {mac}"))
}

/// Sets the largest packet, without the Ethernet header, in bytes.
pub fn set_mtu(ns: &NetNs, link: &str, mtu: u32) -> Result<()> {
    set(ns, link, LinkAttribute::Mtu(mtu), &format!("MTU to {mtu}"))
}

/// Sets the largest segment that the stack passes to the link for segmentation, in bytes.
pub fn set_gso_max_size(ns: &NetNs, link: &str, size: u32) -> Result<()> {
    set(ns, link, LinkAttribute::GsoMaxSize(size), &format!("gso_max_size to {size}"))
}

/// Sets the most packets into which a segment passed to the link may be cut. With 1, TCP passes single
/// packets.
pub fn set_gso_max_segs(ns: &NetNs, link: &str, segments: u32) -> Result<()> {
    set(ns, link, LinkAttribute::GsoMaxSegs(segments), &format!("gso_max_segs to {segments}"))
}

/// Sets the length of the transmit queue in packets; for a TAP or macvtap, the length of each queue's ring.
pub fn set_txqueuelen(ns: &NetNs, link: &str, packets: u32) -> Result<()> {
    set(ns, link, LinkAttribute::TxQueueLen(packets), &format!("txqueuelen to {packets}"))
}

/// Renames the link. Kernels before 6.2 refuse this for a link that is up.
pub fn rename(ns: &NetNs, link: &str, name: &str) -> Result<()> {
    check_name(name)?;
    set(ns, link, LinkAttribute::IfName(name.to_string()), &format!("name to {name}"))
}

/// Sets the alias: arbitrary text, shown by `ip link`.
pub fn set_alias(ns: &NetNs, link: &str, alias: &str) -> Result<()> {
    set(ns, link, LinkAttribute::IfAlias(alias.to_string()), &format!("alias to {alias:?}"))
}

/// Moves the link to another namespace, where it is down and has no addresses.
pub fn move_to(ns: &NetNs, link: &str, target: &NetNs) -> Result<()> {
    let attribute = LinkAttribute::NetNsFd(target.fd().as_raw_fd());
    set(ns, link, attribute, &format!("namespace to {target}"))
}

/// Moves the link to the namespace that has `number` in its own ([`Link::lower_netns`]).
pub fn move_to_numbered(ns: &NetNs, link: &str, number: i32) -> Result<()> {
    /// `linux/if_link.h`.
    const IFLA_TARGET_NETNSID: u16 = 46;
    let attribute = LinkAttribute::Other(DefaultNla::new(IFLA_TARGET_NETNSID, number.to_ne_bytes().to_vec()));
    set(ns, link, attribute, &format!("namespace to number {number}"))
}

/// Deletes the link, together with the other end of a veth and the links on top of it.
pub fn delete(ns: &NetNs, link: &str) -> Result<()> {
    let mut netlink = Netlink::open(ns)?;
    let mut message = LinkMessage::default();
    message.header.index = query::index_by(&mut netlink, ns, link)?;
    netlink
        .request(RouteNetlinkMessage::DelLink(message), 0)
        .map_err(|e| e.during(format!("delete link {link} of {ns}")))?;
    Ok(())
}

fn set(ns: &NetNs, link: &str, attribute: LinkAttribute, what: &str) -> Result<()> {
    let mut message = LinkMessage::default();
    message.attributes.push(attribute);
    change(ns, link, message, |ns| format!("set link {link} of {ns}: {what}"))
}

fn change(
    ns: &NetNs,
    link: &str,
    mut message: LinkMessage,
    action: impl FnOnce(&NetNs) -> String,
) -> Result<()> {
    let mut netlink = Netlink::open(ns)?;
    message.header.index = query::index_by(&mut netlink, ns, link)?;
    change_by(&mut netlink, ns, message, action)
}

/// Changes the link whose number is in the message.
fn change_by(
    netlink: &mut Netlink,
    ns: &NetNs,
    message: LinkMessage,
    action: impl FnOnce(&NetNs) -> String,
) -> Result<()> {
    netlink.request(RouteNetlinkMessage::SetLink(message), 0).map_err(|e| e.during(action(ns)))?;
    Ok(())
}

/// Converts the refusal of a new link into a specific error.
pub(crate) fn refused_new(
    refusal: Refusal,
    ns: &NetNs,
    link: &str,
    kind: &'static str,
    module: &'static str,
) -> LinkError {
    if refusal.is(rustix::io::Errno::EXIST) {
        LinkError::Exists { link: link.to_string(), ns: ns.to_string() }
    } else if refusal.is(rustix::io::Errno::OPNOTSUPP) {
        LinkError::NoSuchKind { kind, module }
    } else {
        refusal.during(format!("create {kind} link {link} in {ns}")).into()
    }
}
