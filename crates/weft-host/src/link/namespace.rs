//! New network namespaces, with `lo` set up, and those in which a link has its other end.

use super::{LinkError, set_up};
use crate::error::OsError;
use crate::netlink::{Netlink, attributes, u32_at};
use crate::netns::{NETNS_DIR, NetNs, NetNsError, Result};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::nsid::{NsidAttribute, NsidMessage};
use std::collections::BTreeSet;
use std::fs::DirEntry;
use std::io;
use std::os::fd::AsRawFd;

/// `struct rtgenmsg`, padded, and an attribute of the answer: `linux/net_namespace.h`.
const RTGENMSG_LEN: usize = 4;
const NETNSA_NSID: u16 = 1;

impl NetNs {
    /// Makes a new namespace, mounts it at `/run/netns/NAME` and sets its `lo` up.
    ///
    /// # Errors
    /// If the name is taken or the kernel refuses.
    pub fn create(name: &str) -> Result<Self> {
        loopback_up(Self::named_and_down(name)?)
    }

    /// Makes a new namespace without a name. It exists as long as the value or a process in it.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn anonymous() -> Result<Self> {
        loopback_up(Self::unnamed_and_down()?)
    }
}

impl NetNs {
    /// The namespace that has `number` in this one, as [`Link::lower_netns`](super::Link::lower_netns) has it, among those that a
    /// process is in or that have a name in [`NETNS_DIR`]; `None` if there is none.
    ///
    /// # Errors
    /// If this namespace cannot be asked.
    pub fn numbered(&self, number: i32) -> Result<Option<Self>> {
        let mut netlink = Netlink::open(self)?;
        let named = std::fs::read_dir(NETNS_DIR).into_iter().flatten().flatten().map(|entry| entry.path());
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let is_process = |entry: &DirEntry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit();
        let of_processes = processes.filter(is_process).map(|entry| entry.path().join("ns/net"));
        let mut seen = BTreeSet::new();
        for path in named.chain(of_processes) {
            // A process that ends meanwhile has none, and a kernel thread may show none.
            let Ok(candidate) = Self::open_path(&path) else { continue };
            if seen.insert(candidate.inode()?) && number_of(&mut netlink, &candidate) == Some(number) {
                return Ok(Some(candidate));
            }
        }
        Ok(None)
    }
}

/// The number of `other` in the namespace of the socket, if it has one.
fn number_of(netlink: &mut Netlink, other: &NetNs) -> Option<i32> {
    let mut message = NsidMessage::default();
    message.attributes.push(NsidAttribute::Fd(other.fd().as_raw_fd() as u32));
    let answers = netlink.request(RouteNetlinkMessage::GetNsId(message), 0).ok()?;
    let (_, body) = answers.first()?;
    let number = attributes(body.get(RTGENMSG_LEN..)?).find(|(kind, _)| *kind == NETNSA_NSID);
    number.map(|(_, value)| u32_at(value, 0) as i32).filter(|number| *number >= 0)
}

fn loopback_up(ns: NetNs) -> Result<NetNs> {
    match set_up(&ns, "lo") {
        Ok(()) => Ok(ns),
        Err(LinkError::Os(e)) => Err(NetNsError::Os(e)),
        Err(LinkError::NetNs(e)) => Err(e),
        Err(other) => {
            let what = format!("set lo of network namespace {ns} up");
            Err(NetNsError::Os(OsError::new(what, io::Error::other(other))))
        }
    }
}
