//! The port of the applications, and the uplink of the NIC.
//!
//! A port is a veth pair. The far end carries a macvtap in passthru mode: packets sent through the near end wait in the
//! macvtap's queues, still charged to their sockets, until the NIC reads them.
//!
//! Creation ([`Port::create`]), in an order that leaves no packet uncounted:
//! 1. The veth pair is created, down; the far end is in the NIC's namespace, without IPv6.
//! 2. Receive packet steering by hash is set on the far end, if one backlog per flow is required.
//! 3. The far end's MTU is set to the maximum and the far end is brought up.
//! 4. The macvtap is created, its queues (the rings) are opened, and only then is it brought up. A packet that found
//!    the link up without a queue would enter the stack of the namespace.
//! 5. The caller attaches the doorbell and calls [`Port::up`], which waits for the carrier of all three devices.
//!
//! Ownership: the port owns its devices and deletes them when it is dropped. The rings' descriptors move to the
//! transmit worker. Devices are addressed by index, since names may change.
//!
//! Drops in this path are counted by the kernel and read by [`Port::drops`]: a full backlog (`tx_dropped` of the near
//! end) and a full ring (`rx_dropped` of the macvtap). The kernel does not count a UDP GSO packet dropped at a full
//! ring. Setting `disable_ipv6` may fail without a counter: a kernel without IPv6 needs it not.

mod backlog;
mod uplink;

pub use backlog::BacklogError;
pub use uplink::{Receive, Uplink};

use crate::counters::Count;
use core::ops::RangeInclusive;
use std::os::fd::OwnedFd;
use weft_host::link::{self, GsoSizes, LinkError, Mac, Numbered, VethOptions};
use weft_host::macvtap::{self, MacvtapError, MacvtapMode};
use weft_host::netns::NetNs;
use weft_host::sysctl;
use weft_host::tap::TapError;

/// Errors from creating a port or an uplink.
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
    /// The receive backlogs between the ends of a port.
    #[error(transparent)]
    Backlog(#[from] BacklogError),
    /// Two devices on one interface cannot share a hardware address.
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

/// The configuration of a port.
#[derive(Clone, Debug)]
pub struct PortConfig<'a> {
    /// The namespace of the applications.
    pub app: &'a NetNs,
    /// The namespace of the far end and the rings.
    pub nic: &'a NetNs,
    /// The name of the near end in `app`.
    pub name: &'a str,
    /// The MAC address of the near end.
    pub mac: Mac,
    /// The number of descriptor rings, at most 256.
    pub rings: u32,
    /// The capacity of a ring in packets; one more is dropped. At least two per flow that may share the ring, since TCP
    /// small queues allows a flow two.
    pub ring_packets: u32,
    /// Whether all packets of a flow pass the veth through one core's backlog, whichever core sends them. Otherwise a
    /// flow may be reordered when it sends from two cores, or when it changes rings.
    pub single_backlog: bool,
}

/// A port. Its devices are deleted when it is dropped.
#[derive(Debug)]
pub struct Port {
    app: NetNs,
    nic: NetNs,
    near: Numbered,
    behind: Numbered,
    tap: Option<Numbered>,
    pub(crate) rings: Vec<OwnedFd>,
    /// The capacity of a ring in packets.
    pub(crate) ring_packets: u32,
}

/// Packets dropped by the kernel between the port's egress and its rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortDrops {
    /// Packets dropped at a full receive backlog between the ends of the veth: `tx_dropped` of the near end. (The far
    /// end counts the same packets again, with others that were not for a ring.)
    pub backlog: u64,
    /// Packets dropped at a full ring: `rx_dropped` of the macvtap (`tap_handle_frame`, drivers/net/tap.c). The kernel
    /// does not count a UDP GSO packet for which the ring had no room.
    pub ring_full: u64,
}

/// The packets that a port has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deliveries {
    /// Packets delivered to the near end.
    pub delivered: Count,
    /// Packets dropped on the way to it.
    pub dropped: DeliveryDrops,
}

/// Packets dropped on the way to the near end, by the counter that has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeliveryDrops {
    /// `tx_dropped` of the far end: the port was down, the packet was above its MTU, or its receive backlog was full.
    pub veth: u64,
    /// `tx_dropped` of the macvtap, through which the thread writes: it had no carrier, or refused the write. Some
    /// kernels count a drop of the veth here too (`macvlan_start_xmit`, drivers/net/macvlan.c).
    pub macvtap: u64,
}

impl DeliveryDrops {
    /// The bounds of the number of dropped packets, of which `refused` were refused writes and do not count.
    pub fn bounds(self, refused: u64) -> RangeInclusive<u64> {
        let macvtap = self.macvtap.saturating_sub(refused);
        self.veth.max(macvtap)..=self.veth + macvtap
    }
}

/// The time allowed for the links of a port to come up.
const PATIENCE: core::time::Duration = core::time::Duration::from_secs(2);
/// The MTU of the far end: the maximum of a veth (`ETH_MAX_MTU`), so that only the near end's MTU applies.
/// `is_skb_forwardable` in net/core/dev.c drops packets above the receiving end's MTU.
const FAR_MTU: u32 = 65_535;
/// The longest segment that the near end accepts, in bytes: the range of IP's length fields, so that the NIC can cut
/// it. The kernel's own default; anything larger is BIG TCP.
pub const SEGMENT_MAX: u32 = 65_536;

/// The longest segment that the devices of the receive direction pass on whole: the maximum of a veth (`GSO_MAX_SIZE`
/// in include/linux/netdevice.h). The default would cut BIG TCP segments that the uplink's interface has merged.
const RECEIVED_SEGMENT_MAX: u32 = 8 * 65_535;

/// Lets `link` pass on received segments whole. A kernel that refuses has no longer ones (before Linux 5.19).
fn pass_segments_whole(ns: &NetNs, link: &str) {
    let Ok(sizes) = link::gso_sizes(ns, link) else { return };
    let ipv4_max = sizes.ipv4_max.map(|_| RECEIVED_SEGMENT_MAX);
    let _ = link::set_gso_sizes(ns, link, GsoSizes { max: RECEIVED_SEGMENT_MAX, ipv4_max });
}

/// Disables IPv6 on a link of the NIC. The namespace's stack would otherwise send router and neighbour discovery to the
/// applications, and its loopback traffic to the rings. A kernel without IPv6 sends neither, so an error is ignored.
fn disable_ipv6(ns: &NetNs, link: &str) {
    let _ = sysctl::set(ns, &format!("net/ipv6/conf/{link}/disable_ipv6"), "1");
}

impl Port {
    /// Creates the port. Its near end is down: attach the doorbell first, so that no packet passes uncounted.
    ///
    /// # Errors
    /// When a device cannot be created, with the device's name.
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
        pass_segments_whole(&port.nic, &behind);
        if config.single_backlog {
            backlog::by_hash(&port.nic, &behind)?;
        }
        port.behind.set_mtu(FAR_MTU)?;
        port.behind.set_up()?;
        let mode = MacvtapMode::Passthru;
        macvtap::create(&port.nic, &behind, &tap, mode, config.rings, config.ring_packets, None)?;
        disable_ipv6(&port.nic, &tap);
        pass_segments_whole(&port.nic, &tap);
        // Rings first: a packet that finds the link up and no ring would enter the stack of this namespace.
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
    /// When the device no longer exists.
    pub fn index(&self) -> Result<u32, PortError> {
        Ok(self.near.show()?.index)
    }

    /// The interface number of the far end, in the NIC's namespace.
    ///
    /// # Errors
    /// When the device no longer exists.
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

    /// The name that the near end was created with. The device may have been renamed since.
    pub fn name(&self) -> &str {
        self.near.first_name()
    }

    /// Hands over the descriptors of the rings, for a NIC other than [`SoftwareNic`](crate::nic::SoftwareNic), such as the
    /// floor of a benchmark. Empty the second time.
    pub fn take_rings(&mut self) -> Vec<OwnedFd> {
        core::mem::take(&mut self.rings)
    }

    /// Brings the near end up and waits until packets pass in both directions. Before the kernel reports a carrier on
    /// the links it drops packets without counting them.
    ///
    /// # Errors
    /// When the device no longer exists, or its links do not come up.
    pub fn up(&self) -> Result<(), PortError> {
        self.near.set_up()?;
        for link in [Some(&self.near), Some(&self.behind), self.tap.as_ref()].into_iter().flatten() {
            link.wait_running(PATIENCE)?;
        }
        Ok(())
    }

    /// Takes the near end down, so that no further packet enters. Where the near end was moved to another namespace,
    /// its carrier is turned off instead.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub fn down(&self) -> Result<(), PortError> {
        Ok(self.near.set_down().or_else(|_| self.behind.set_down())?)
    }

    /// Applies the MTU and the carrier of the interface behind the uplink to the near end, and limits its segments to
    /// those that the NIC can cut ([`SEGMENT_MAX`]). A veth has a carrier while its other end is up.
    ///
    /// # Errors
    /// When the device no longer exists.
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

    /// The packets dropped by the kernel so far, from its own counters.
    ///
    /// # Errors
    /// When a device no longer exists.
    pub fn drops(&self) -> Result<PortDrops, PortError> {
        let near = self.near.show()?.stats;
        // The macvtap's drops on transmission belong to the other direction.
        let ring = self.tap.as_ref().map(Numbered::show).transpose()?.unwrap_or_default().stats;
        Ok(PortDrops { backlog: near.tx_dropped.get(), ring_full: ring.rx_dropped.get() })
    }

    /// The packets that the near end has received, and those dropped on the way to it, from the counters of the far end
    /// and the macvtap. The near end may be in any namespace, and its own counters include later drops.
    ///
    /// # Errors
    /// When a device no longer exists.
    pub fn deliveries(&self) -> Result<Deliveries, PortError> {
        let far = self.behind.show()?.stats;
        let tap = self.tap.as_ref().map(Numbered::show).transpose()?.unwrap_or_default().stats;
        Ok(Deliveries {
            delivered: Count { packets: far.tx_packets, bytes: far.tx_bytes },
            dropped: DeliveryDrops { veth: far.tx_dropped.get(), macvtap: tap.tx_dropped.get() },
        })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.rings.clear();
        // Deleting the far end deletes the near end and the macvtap. An error means that they no longer exist.
        let _ = self.behind.delete();
    }
}
