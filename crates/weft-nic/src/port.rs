//! The port as applications see it, and the uplink behind the NIC.
//!
//! A port is a veth whose far end carries a macvtap in passthru mode: what leaves through the near end waits in the
//! macvtap's queues, still charged to its socket, until the NIC reads it.

mod backlog;
mod uplink;

pub use backlog::BacklogError;
pub use uplink::Uplink;

use std::os::fd::OwnedFd;
use weft_host::link::{self, LinkError, Mac, Numbered, VethOptions};
use weft_host::macvtap::{self, MacvtapError, MacvtapMode};
use weft_host::netns::NetNs;
use weft_host::sysctl;
use weft_host::tap::TapError;

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
    /// Two devices on one interface cannot have one hardware address.
    #[error(
        "the hardware address {mac} is in use on {parent}, by itself or by another port on it; give another with --mac, or none"
    )]
    MacTaken {
        /// The address.
        mac: Mac,
        /// The interface.
        parent: String,
    },
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
    /// flow that sends from two cores may be reordered on its way to the ring, and when it changes rings.
    pub single_backlog: bool,
}

/// A port. Its devices go when it is dropped.
#[derive(Debug)]
pub struct Port {
    app: NetNs,
    nic: NetNs,
    near: Numbered,
    behind: Numbered,
    tap: Option<Numbered>,
    pub(crate) rings: Vec<OwnedFd>,
    /// Packets that a ring holds.
    pub(crate) ring_packets: u32,
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
/// The far end takes packets of any length, so that the near end's MTU alone decides (`is_skb_forwardable` in net/core/dev.c
/// drops what is longer than the receiving end's). The most that a veth has (`ETH_MAX_MTU`).
const FAR_MTU: u32 = 65_535;
/// The longest segment that the near end may be handed, in bytes: what the length fields of IP hold, so that the NIC can cut
/// it. The kernel's own default; above it is BIG TCP.
pub const SEGMENT_MAX: u32 = 65_536;

/// Keeps the namespace's own stack from speaking through a link of ours: router and neighbour discovery would reach the
/// applications, and its loopback the rings. A kernel without IPv6 says nothing.
fn disable_ipv6(ns: &NetNs, link: &str) {
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
        let (near, far) = (Numbered::named(&app, config.name)?, Numbered::named(&nic, &behind)?);
        let mut port = Self {
            app,
            nic,
            near,
            behind: far,
            tap: None,
            rings: Vec::new(),
            ring_packets: config.ring_packets,
        };
        disable_ipv6(&port.nic, &behind);
        if config.single_backlog {
            backlog::by_hash(&port.nic, &behind)?;
        }
        port.behind.set_mtu(FAR_MTU)?;
        port.behind.set_up()?;
        let mode = MacvtapMode::Passthru;
        macvtap::create(&port.nic, &behind, &tap, mode, config.rings, config.ring_packets, None)?;
        disable_ipv6(&port.nic, &tap);
        // Rings first: a packet that finds the link up and no ring would go to the stack of this namespace.
        port.rings = macvtap::open_queues(&port.nic, &tap, config.rings)?;
        link::set_all_multicast(&port.nic, &tap)?;
        let device = Numbered::named(&port.nic, &tap)?;
        device.set_up()?;
        port.tap = Some(device);
        Ok(port)
    }

    /// The interface number of the near end.
    ///
    /// # Errors
    /// When it is gone.
    pub fn index(&self) -> Result<u32, PortError> {
        Ok(self.near.show()?.index)
    }

    /// The interface number of the far end, in the NIC's namespace.
    ///
    /// # Errors
    /// When it is gone.
    pub fn peer_index(&self) -> Result<u32, PortError> {
        Ok(self.behind.show()?.index)
    }

    /// The namespace of the far end and of the rings.
    pub fn nic(&self) -> &NetNs {
        &self.nic
    }

    /// The namespace of the near end.
    pub fn app(&self) -> &NetNs {
        &self.app
    }

    /// The name that the near end was given; whatever it is called now, it is the same device.
    pub fn name(&self) -> &str {
        self.near.first_name()
    }

    /// Brings the near end up, and waits until packets pass in both directions: what is sent before the kernel has noticed
    /// that the links have a carrier is dropped without a word.
    ///
    /// # Errors
    /// When it is gone, or its links do not come up.
    pub fn up(&self) -> Result<(), PortError> {
        self.near.set_up()?;
        for link in [Some(&self.near), Some(&self.behind), self.tap.as_ref()].into_iter().flatten() {
            link.wait_running(PATIENCE)?;
        }
        Ok(())
    }

    /// Takes the near end down: nothing enters any more. Where it has been moved to another namespace, it loses its carrier
    /// instead.
    ///
    /// # Errors
    /// When it is gone.
    pub fn down(&self) -> Result<(), PortError> {
        Ok(self.near.set_down().or_else(|_| self.behind.set_down())?)
    }

    /// Lets the near end have the MTU and the carrier of what is behind its uplink, and no segments that the NIC cannot cut
    /// ([`SEGMENT_MAX`]), whatever was set meanwhile. A veth has a carrier while its other end is up.
    ///
    /// # Errors
    /// When it is gone.
    pub fn follow(&self, mtu: u32, carrier: bool) -> Result<(), PortError> {
        let near = self.near.show()?;
        if near.mtu != mtu {
            self.near.set_mtu(mtu)?;
        }
        self.near.limit_gso_size(SEGMENT_MAX)?;
        if self.behind.show()?.up != carrier {
            if carrier { self.behind.set_up() } else { self.behind.set_down() }?;
        }
        Ok(())
    }

    /// What the kernel has dropped so far, by its own counters.
    ///
    /// # Errors
    /// When a device is gone.
    pub fn drops(&self) -> Result<PortDrops, PortError> {
        let near = self.near.show()?.stats;
        // What the macvtap drops on transmission is the other direction.
        let ring = self.tap.as_ref().map(Numbered::show).transpose()?.unwrap_or_default().stats;
        Ok(PortDrops { backlog: near.tx_dropped.get(), ring_full: ring.rx_dropped.get() })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.rings.clear();
        // Both ends of the veth and the macvtap go with the end that nobody else has; an error means that they are gone
        // already.
        let _ = self.behind.delete();
    }
}
