//! Links identified by number, which renaming does not change.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};

use super::query::{self, Link};
use super::{GsoSizes, LinkError, Result, change_by, gso};
use crate::netlink::Netlink;
use crate::netns::NetNs;

/// A link that was found by name once and is identified by its number from then on. Numbers repeat only after 2^31 links, so the
/// number of a link that was deleted or moved to another namespace is not found.
pub struct Numbered {
    ns: NetNs,
    name: String,
    index: u32,
    /// Kept open: frequent queries should not enter the namespace each time.
    netlink: Mutex<Netlink>,
}

impl fmt::Debug for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Numbered")
            .field("name", &self.name)
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl Numbered {
    /// The link that currently has this name.
    ///
    /// # Errors
    /// If it does not exist.
    pub fn named(ns: &NetNs, name: &str) -> Result<Self> {
        let mut netlink = Netlink::open(ns)?;
        let index = query::index_by(&mut netlink, ns, name)?;
        Ok(Self { ns: ns.handle()?, name: name.to_owned(), index, netlink: Mutex::new(netlink) })
    }

    /// The link with number `index` of `ns`, created as `name`. Whether it exists, the first call shows.
    ///
    /// # Errors
    /// If the namespace cannot be entered.
    pub fn at(ns: &NetNs, index: u32, name: &str) -> Result<Self> {
        let netlink = Mutex::new(Netlink::open(ns)?);
        Ok(Self { ns: ns.handle()?, name: name.to_owned(), index, netlink })
    }

    /// Its namespace.
    pub fn namespace(&self) -> &NetNs {
        &self.ns
    }

    /// Its number.
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Its name at the time when it was found.
    pub fn first_name(&self) -> &str {
        &self.name
    }

    /// The current state of the link.
    ///
    /// # Errors
    /// If the link no longer exists.
    pub fn show(&self) -> Result<Link> {
        query::show_number(&mut self.netlink(), &self.ns, self.index, &self.name)
    }

    /// Sets it up.
    ///
    /// # Errors
    /// If the link no longer exists, or the kernel refuses.
    pub fn set_up(&self) -> Result<()> {
        self.set_flags(LinkFlags::Up, LinkFlags::Up, "up")
    }

    /// Sets it down.
    ///
    /// # Errors
    /// If the link no longer exists.
    pub fn set_down(&self) -> Result<()> {
        self.set_flags(LinkFlags::empty(), LinkFlags::Up, "down")
    }

    /// Sets the largest packet, without the Ethernet header, in bytes.
    ///
    /// # Errors
    /// If the link no longer exists, or does not support packets of that size.
    pub fn set_mtu(&self, mtu: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::Mtu(mtu));
        self.change(message, &format!("MTU to {mtu}"))
    }

    /// Caps the segment size at `size` bytes; a smaller limit is kept. Returns whether the limit was lowered.
    ///
    /// # Errors
    /// If the link no longer exists.
    pub fn limit_gso_size(&self, size: u32) -> Result<bool> {
        let link = self.show()?;
        let before = GsoSizes { max: link.gso_max_size, ipv4_max: link.gso_ipv4_max_size };
        let limits = before.at_most(size);
        if limits == before {
            return Ok(false);
        }
        self.change(gso::message(limits), &format!("gso_max_size to {}", limits.max))?;
        Ok(true)
    }

    /// Deletes it, together with the other end of a veth and the links on top of it.
    ///
    /// # Errors
    /// If the link no longer exists.
    pub fn delete(&self) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = self.index;
        self.netlink()
            .request(RouteNetlinkMessage::DelLink(message), 0)
            .map_err(|e| e.during(format!("delete link {} of {}", self.name, self.ns)))?;
        Ok(())
    }

    /// As [`wait_running`](super::wait_running).
    ///
    /// # Errors
    /// If the link no longer exists, or is not running in time.
    pub fn wait_running(&self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        while !self.show()?.running {
            if Instant::now() >= deadline {
                let (link, ns) = (self.name.clone(), self.ns.to_string());
                return Err(LinkError::NotRunning { link, ns, waited: timeout });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn netlink(&self) -> MutexGuard<'_, Netlink> {
        self.netlink.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_flags(&self, flags: LinkFlags, mask: LinkFlags, word: &str) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.flags = flags;
        message.header.change_mask = mask;
        self.change(message, word)
    }

    fn change(&self, mut message: LinkMessage, what: &str) -> Result<()> {
        message.header.index = self.index;
        change_by(&mut self.netlink(), &self.ns, message, |ns| {
            format!("set link {} of {ns}: {what}", self.name)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{VethOptions, create_veth, exists, rename, set_up};
    use crate::testing;

    #[test]
    fn a_link_is_found_under_its_new_name_and_another_of_the_old_name_is_not_it() {
        if !testing::privileged("a_link_is_found_under_its_new_name_and_another_of_the_old_name_is_not_it") {
            return;
        }
        let ns = NetNs::anonymous().expect("namespace");
        create_veth((&ns, "a0"), (&ns, "b0"), &VethOptions::default()).expect("veth");
        let a = Numbered::named(&ns, "a0").expect("a0");
        rename(&ns, "a0", "c0").expect("rename");
        create_veth((&ns, "a0"), (&ns, "d0"), &VethOptions::default()).expect("veth");
        a.set_mtu(1300).expect("mtu");
        a.set_up().expect("up");
        set_up(&ns, "b0").expect("up");
        a.wait_running(crate::testing::PATIENCE).expect("running");
        assert_eq!(a.show().map(|l| (l.name, l.mtu)).expect("link"), ("c0".to_owned(), 1300));
        assert_eq!(query::show(&ns, "a0").expect("another").mtu, 1500);
        a.delete().expect("delete");
        assert!(exists(&ns, "a0").expect("look") && !exists(&ns, "b0").expect("look"));
        assert!(matches!(a.show(), Err(LinkError::NotFound { link, .. }) if link == "a0"));
        assert!(a.set_mtu(1400).is_err() && a.delete().is_err());
    }
}
