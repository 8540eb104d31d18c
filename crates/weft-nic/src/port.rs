//! The port as applications see it, and the uplink behind the NIC.
//!
//! A port is a veth whose far end carries a macvtap in passthru mode: what leaves through the near end waits in the
//! macvtap's queues, still charged to its socket, until the NIC reads it.

mod backlog;

pub use backlog::BacklogError;

use crate::counters::Count;
use std::os::fd::OwnedFd;
use weft_host::link::{self, LinkError, LinkStats, Mac, VethOptions};
use weft_host::macvtap::{self, MacvtapError, MacvtapMode};
use weft_host::netns::NetNs;
use weft_host::sysctl;
use weft_host::tap::{self, TapError};

/// Why a port or an uplink could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// A link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The macvtap behind a port or on an uplink.
    #[error(transparent)]
    Macvtap(#[from] MacvtapError),
    /// The TAP of an uplink.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// The backlogs between the ends of a port.
    #[error(transparent)]
    Backlog(#[from] BacklogError),
}

/// What a port is made of.
#[derive(Clone, Debug)]
pub struct PortConfig<'a> {
    /// Where applications see it.
    pub app: &'a NetNs,
    /// Where its far end and the rings are.
    pub nic: &'a NetNs,
    /// Its name in `app`.
    pub name: &'a str,
    /// Its MAC address.
    pub mac: Mac,
    /// Number of descriptor rings, at most 256.
    pub rings: u32,
    /// Packets that a ring holds; one more is dropped. At least two for each flow that may share the ring, since TCP small
    /// queues lets a flow have two.
    pub ring_packets: u32,
    /// Whether the packets of a flow pass the veth through one core's backlog, whichever core sends them. Without it, a
    /// flow that sends from two cores may be reordered on its way to the ring.
    pub single_backlog: bool,
}

/// A port. Its devices go when it is dropped.
#[derive(Debug)]
pub struct Port {
    app: NetNs,
    nic: NetNs,
    name: String,
    behind: String,
    tap: String,
    pub(crate) rings: Vec<OwnedFd>,
}

/// What the kernel dropped between the port's egress and its rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortDrops {
    /// The receive backlog between the ends of the veth was full: what the near end counts as dropped on transmission.
    /// (The far end counts the same packets once more, and others that never were for a ring.)
    pub backlog: u64,
    /// A ring was full: what the macvtap counts as dropped on reception (`tap_handle_frame`, drivers/net/tap.c). Of a UDP
    /// GSO packet that the ring had no room for, the kernel counts nothing.
    pub ring_full: u64,
}

/// How long the links of a port may take to come up.
const PATIENCE: core::time::Duration = core::time::Duration::from_secs(2);

/// Keeps the namespace's own stack from speaking through a link of ours: router and neighbour discovery would reach the
/// applications, and its loopback the rings. A kernel without IPv6 says nothing.
fn silence(ns: &NetNs, link: &str) {
    let _ = sysctl::set(ns, &format!("net/ipv6/conf/{link}/disable_ipv6"), "1");
}

impl Port {
    /// Makes the port. It is down: attach the doorbell first, so that no packet passes uncounted.
    ///
    /// # Errors
    /// When a device cannot be made, with the device's name.
    pub fn create(config: &PortConfig<'_>) -> Result<Self, PortError> {
        let app = config.app.handle().map_err(LinkError::from)?;
        let nic = config.nic.handle().map_err(LinkError::from)?;
        // IFNAMSIZ leaves 15 characters.
        let stem: String = config.name.chars().take(11).collect();
        let (behind, tap) = (format!("{stem}-nic"), format!("{stem}-tap"));
        let options = VethOptions { macs: [Some(config.mac), None], ..VethOptions::default() };
        link::create_veth((&app, config.name), (&nic, &behind), &options)?;
        let mut port = Self { app, nic, name: config.name.to_owned(), behind, tap, rings: Vec::new() };
        silence(&port.nic, &port.behind);
        if config.single_backlog {
            backlog::by_hash(&port.nic, &port.behind)?;
        }
        link::set_up(&port.nic, &port.behind)?;
        let mode = MacvtapMode::Passthru;
        macvtap::create(&port.nic, &port.behind, &port.tap, mode, config.rings, config.ring_packets, None)?;
        silence(&port.nic, &port.tap);
        // Rings first: a packet that finds the link up and no ring would go to the stack of this namespace.
        port.rings = macvtap::open_queues(&port.nic, &port.tap, config.rings)?;
        link::set_all_multicast(&port.nic, &port.tap)?;
        link::set_up(&port.nic, &port.tap)?;
        Ok(port)
    }

    /// The interface number of the near end.
    ///
    /// # Errors
    /// When it is gone.
    pub fn index(&self) -> Result<u32, PortError> {
        Ok(link::index(&self.app, &self.name)?)
    }

    /// The interface number of the far end, in the NIC's namespace.
    ///
    /// # Errors
    /// When it is gone.
    pub fn behind_index(&self) -> Result<u32, PortError> {
        Ok(link::index(&self.nic, &self.behind)?)
    }

    /// The namespace of the far end and of the rings.
    pub fn nic(&self) -> &NetNs {
        &self.nic
    }

    /// The namespace of the near end.
    pub fn app(&self) -> &NetNs {
        &self.app
    }

    /// The name of the near end.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Brings the near end up, and waits until packets pass in both directions: what is sent before the kernel has noticed
    /// that the links have a carrier is dropped without a word.
    ///
    /// # Errors
    /// When it is gone, or its links do not come up.
    pub fn up(&self) -> Result<(), PortError> {
        link::set_up(&self.app, &self.name)?;
        for (ns, name) in [(&self.app, &self.name), (&self.nic, &self.behind), (&self.nic, &self.tap)] {
            link::wait_running(ns, name, PATIENCE)?;
        }
        Ok(())
    }

    /// Takes the near end down: nothing enters any more.
    ///
    /// # Errors
    /// When it is gone.
    pub fn down(&self) -> Result<(), PortError> {
        Ok(link::set_down(&self.app, &self.name)?)
    }

    /// What the kernel has dropped so far, by its own counters.
    ///
    /// # Errors
    /// When a device is gone.
    pub fn drops(&self) -> Result<PortDrops, PortError> {
        let near: LinkStats = link::stats(&self.app, &self.name)?;
        // What the macvtap drops on transmission is the other direction.
        let ring = link::stats(&self.nic, &self.tap)?;
        Ok(PortDrops { backlog: near.tx_dropped.get(), ring_full: ring.rx_dropped.get() })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.rings.clear();
        // Both ends of the veth and the macvtap go with one of them; an error means that they are gone already.
        let _ = link::delete(&self.app, &self.name);
    }
}

/// Where the NIC sends to.
#[derive(Debug)]
pub struct Uplink {
    pub(crate) fd: OwnedFd,
    ns: NetNs,
    name: String,
    /// Whether the device is ours and goes with us.
    kind: UplinkKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UplinkKind {
    Tap,
    Macvtap,
}

impl Uplink {
    /// A TAP named `name` in `ns`: what the NIC sends, the stack of that namespace receives.
    ///
    /// # Errors
    /// When the device cannot be made.
    pub fn tap(ns: &NetNs, name: &str) -> Result<Self, PortError> {
        let mut fds = tap::create(ns, name, 1)?;
        let ns = ns.handle().map_err(LinkError::from)?;
        let fd = fds.pop().ok_or(TapError::Queues { link: name.to_owned(), asked: 1 })?;
        Ok(Self { fd, ns, name: name.to_owned(), kind: UplinkKind::Tap })
    }

    /// A macvtap named `name` in bridge mode on the existing interface `parent` of `ns`, with MAC address `mac`: what the
    /// NIC sends leaves through `parent`. The interface itself is not changed; as with any macvlan, the host reaches the
    /// port only by way of the network.
    ///
    /// # Errors
    /// When there is no such interface or the device cannot be made on it.
    pub fn on_interface(ns: &NetNs, parent: &str, name: &str, mac: Mac) -> Result<Self, PortError> {
        macvtap::create(ns, parent, name, MacvtapMode::Bridge, 1, 1000, Some(mac))?;
        silence(ns, name);
        let mut fds = macvtap::open_queues(ns, name, 1)?;
        link::set_all_multicast(ns, name)?;
        link::set_up(ns, name)?;
        let fd = fds.pop().ok_or(MacvtapError::Queues { link: name.to_owned(), asked: 1 })?;
        let ns = ns.handle().map_err(LinkError::from)?;
        Ok(Self { fd, ns, name: name.to_owned(), kind: UplinkKind::Macvtap })
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device's namespace.
    pub fn namespace(&self) -> &NetNs {
        &self.ns
    }

    /// What the device counts as come in from the NIC, and what of it it dropped. A TAP's stack receives it; a macvtap
    /// transmits it.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn arrived(&self) -> Result<(Count, u64), PortError> {
        let stats = link::stats(&self.ns, &self.name)?;
        let (packets, bytes, dropped) = match self.kind {
            UplinkKind::Tap => (stats.rx_packets, stats.rx_bytes, stats.rx_dropped),
            UplinkKind::Macvtap => (stats.tx_packets, stats.tx_bytes, stats.tx_dropped),
        };
        Ok((Count { packets, bytes }, dropped.get()))
    }
}

impl Drop for Uplink {
    fn drop(&mut self) {
        if self.kind == UplinkKind::Macvtap {
            // A TAP goes with its descriptor.
            let _ = link::delete(&self.ns, &self.name);
        }
    }
}
