//! Changes of links, qdiscs and filters of a namespace, as the kernel reports them (rtnetlink(7), multicast groups).
//!
//! The kernel reports nothing of `gso_max_size` (`do_setlink`, net/core/rtnetlink.c: the change has no notification) and of tcx
//! programs. A change of a qdisc or a filter names who asked for it; that of a link does not.

use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};

use netlink_sys::{Socket, SocketAddr, protocols};

use crate::error::OsError;
use crate::netlink::{u16_at, u32_at};
use crate::netns::{NetNs, NetNsError};

/// `RTNLGRP_LINK` and `RTNLGRP_TC`: `linux/rtnetlink.h`.
const GROUPS: [u32; 2] = [1, 4];
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;
const RTM_NEWCHAIN: u16 = 100;
const RTM_DELCHAIN: u16 = 101;
/// `struct nlmsghdr`.
const HEADER_LEN: usize = 16;
/// The longest message of the kernel (`NLMSG_GOODSIZE` is shorter).
const MESSAGE_MAX: usize = 1 << 16;

/// The kind of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// A property of the link: MTU, features, state, name, other end.
    Link,
    /// The link was deleted, or left the namespace.
    LinkGone,
    /// A qdisc was added or changed.
    Qdisc,
    /// A qdisc was deleted.
    QdiscGone,
    /// A filter was added, changed or deleted.
    Filter,
}

/// A change of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The kind of change.
    pub change: Change,
    /// The number of the link.
    pub index: u32,
    /// The netlink port of the requester, usually its process; 0 if the kernel does not report it.
    pub by: u32,
}

/// A listener in a namespace.
#[derive(Debug)]
pub struct Monitor {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Monitor {
    /// Listens from now on.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or the kernel refuses the socket.
    pub fn open(ns: &NetNs) -> Result<Self, NetNsError> {
        let listen = || {
            let mut socket = Socket::new(protocols::NETLINK_ROUTE)?;
            socket.bind(&SocketAddr::new(0, 0))?;
            GROUPS.iter().try_for_each(|group| socket.add_membership(*group))?;
            socket.set_non_blocking(true)?;
            Ok(socket)
        };
        let socket = ns.run(listen)?.map_err(|e: std::io::Error| {
            OsError::new(format!("listen to the changes of links of {ns}"), e)
        })?;
        Ok(Self { socket, buffer: vec![0; MESSAGE_MAX] })
    }

    /// Becomes readable with a change.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The changes since the last call; `None` if the kernel had no room for some of them.
    pub fn read(&mut self) -> Option<Vec<Event>> {
        let (mut events, mut complete) = (Vec::new(), true);
        loop {
            let mut room = &mut self.buffer[..];
            match self.socket.recv(&mut room, 0) {
                Ok(length) => parse(&self.buffer[..length.min(MESSAGE_MAX)], &mut events),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return complete.then_some(events),
                // ENOBUFS: the next read continues behind the gap.
                Err(_) if complete => complete = false,
                Err(_) => return None,
            }
        }
    }
}

fn parse(mut rest: &[u8], events: &mut Vec<Event>) {
    while rest.len() >= HEADER_LEN {
        let length = u32_at(rest, 0) as usize;
        if length < HEADER_LEN || length > rest.len() {
            return;
        }
        let change = match u16_at(rest, 4) {
            RTM_NEWLINK => Some(Change::Link),
            RTM_DELLINK => Some(Change::LinkGone),
            RTM_NEWQDISC => Some(Change::Qdisc),
            RTM_DELQDISC => Some(Change::QdiscGone),
            RTM_NEWTFILTER | RTM_DELTFILTER | RTM_NEWCHAIN | RTM_DELCHAIN => Some(Change::Filter),
            _ => None,
        };
        // `struct ifinfomsg` and `struct tcmsg` have the number of the link at the same place.
        let (index, by) = (u32_at(&rest[..length], HEADER_LEN + 4), u32_at(rest, 12));
        events.extend(change.map(|change| Event { change, index, by }));
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
    }
}

/// The words for the requester of a change in `ns`, from its netlink port: the process of that number if it lives and is in the
/// namespace, since a container has separate numbers.
pub fn requester(ns: &NetNs, by: u32) -> String {
    let inside = || {
        let of_process = NetNs::open_path(format!("/proc/{by}/ns/net").as_ref()).ok()?.inode().ok()?;
        let mut name = String::new();
        std::fs::File::open(format!("/proc/{by}/comm")).ok()?.read_to_string(&mut name).ok()?;
        (ns.inode().ok()? == of_process).then(|| format!("{} (process {by})", name.trim_end()))
    };
    (by != 0).then(inside).flatten().unwrap_or_else(|| "another program".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethtool::{Nic, Offload, Switch};
    use crate::link::{VethOptions, create_veth, delete, index, set_mtu};
    use crate::tc::{TcDevice, TcObject};
    use crate::testing;

    /// Reads until an event is `wanted`.
    fn wait(monitor: &mut Monitor, wanted: impl Fn(&Event) -> bool) -> Event {
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let events = monitor.read().expect("complete");
            if let Some(event) = events.into_iter().find(&wanted) {
                return event;
            }
            assert!(std::time::Instant::now() < until, "the kernel tells nothing");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }

    #[test]
    fn changes_are_told_with_their_link_and_by_whom_where_the_kernel_says_it() {
        if !testing::privileged("changes_are_told_with_their_link_and_by_whom_where_the_kernel_says_it") {
            return;
        }
        let (a, b) = (NetNs::anonymous().expect("a"), NetNs::anonymous().expect("b"));
        create_veth((&a, "m0"), (&b, "m1"), &VethOptions::default()).expect("veth");
        let number = index(&a, "m0").expect("number");
        let mut monitor = Monitor::open(&a).expect("monitor");
        let of = |change| move |event: &Event| event.change == change && event.index == number;
        set_mtu(&a, "m0", 1400).expect("mtu");
        wait(&mut monitor, of(Change::Link));
        monitor.read();
        let mut nic = Nic::open(&a, "m0").expect("device");
        nic.set_offload(Offload::Tso, Switch::Off).expect("off");
        wait(&mut monitor, of(Change::Link));
        let mut device = TcDevice::open(&a, "m0").expect("device");
        device.add(&TcObject::clsact()).expect("clsact");
        assert_ne!(wait(&mut monitor, of(Change::Qdisc)).by, 0);
        device.delete_clsact().expect("delete");
        assert_ne!(wait(&mut monitor, of(Change::QdiscGone)).by, 0);
        delete(&a, "m0").expect("delete");
        wait(&mut monitor, of(Change::LinkGone));
    }

    #[test]
    fn a_requester_is_named_if_it_lives_in_the_namespace() {
        if !testing::privileged("a_requester_is_named_if_it_lives_in_the_namespace") {
            return;
        }
        let (here, there) = (NetNs::current().expect("current"), NetNs::anonymous().expect("another"));
        let own = std::process::id();
        assert!(requester(&here, own).ends_with(&format!("(process {own})")), "{}", requester(&here, own));
        assert_eq!(requester(&there, own), "another program");
        assert_eq!(requester(&here, 0), "another program");
    }
}
