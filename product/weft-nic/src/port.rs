//! The port of the applications, and the uplink of the NIC.
//!
//! A port has a near end, an ordinary network device of the applications, and descriptor rings, from which the NIC
//! reads the packets that were sent through the near end. There are two kinds: a veth with a macvtap at its far end
//! (`port/veth.rs`), and a TAP (`port/tap.rs`). Callers see no difference but [`Port::tap_queue`].
//!
//! Use: create the port, attach the doorbell, and call [`Port::up`], which waits for the carrier of all its devices.
//!
//! Ownership: the port owns its devices and deletes them when it is dropped. The rings' descriptors move to the
//! transmit worker. Devices are addressed by index, since names may change.
//!
//! Drops between the egress and the rings are counted by the kernel and read by [`Port::drops`].

mod backlog;
mod kernel_side;
mod root_qdisc;
mod tap;
mod uplink;
mod veth;

pub use backlog::BacklogError;
pub(crate) use kernel_side::{Deviation, Look, Where};
pub use tap::{RING_SLOTS, TapConfig};
pub(crate) use uplink::UplinkRole;
pub use uplink::{Receive, Uplink};

use core::ops::RangeInclusive;
use kernel_side::Near;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use tap::Tap;
use veth::Veth;
use weft_host::ethtool::EthtoolError;
use weft_host::link::{LinkError, Mac, Numbered};
use weft_host::macvtap::MacvtapError;
use weft_host::netns::NetNs;
use weft_host::sysctl;
use weft_host::tap::{Carrier, TapError};
use weft_host::tc::{Handle, Tbf, TcDevice, TcError, TcObject};
use weft_units::Counted;

/// Errors from creating a port or an uplink.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// A link.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The macvtap behind a port or on an uplink.
    #[error(transparent)]
    Macvtap(#[from] MacvtapError),
    /// The TAP of an uplink or a port.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// The receive backlogs between the ends of a port.
    #[error(transparent)]
    Backlog(#[from] BacklogError),
    /// The qdiscs above a TAP's rings, or the limit of a port's received packets.
    #[error(transparent)]
    Qdisc(#[from] TcError),
    /// The features of a port.
    #[error(transparent)]
    Ethtool(#[from] EthtoolError),
    /// A port that is a TAP has one end only.
    #[error("port {0} is a TAP, which has no far end")]
    NoFarEnd(String),
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

/// The configuration of a port behind a veth.
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
    /// The number of packets that may wait in a ring; one more is refused before its doorbell. At least two per flow that may share the ring, since TCP
    /// small queues allows a flow two.
    pub ring_packets: u32,
    /// Whether all packets of a flow pass the veth through one core's backlog, whichever core sends them. Otherwise a
    /// flow may be reordered when it sends from two cores, or when it changes rings.
    pub single_backlog: bool,
}

/// The slots of a ring that always has room for `packets`. The kernel frees the slots of packets that were read in batches of up to
/// two cache lines of pointers (`__ptr_ring_discard_one`, include/linux/ptr_ring.h), 32 where a line has 128 bytes, so a ring may
/// have up to 31 free slots fewer than packets were read from it.
pub(crate) fn ring_slots(packets: u32) -> u32 {
    packets + 31
}

/// A port behind a veth that another process made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptVeth<'a> {
    /// The namespace of the near end.
    pub(crate) app: &'a NetNs,
    /// The namespace of the far end.
    pub(crate) nic: &'a NetNs,
    /// The first name of the near end.
    pub(crate) name: &'a str,
    pub(crate) mac: Mac,
    /// The numbers of the near end, of the far end and of the macvtap.
    pub(crate) near: u32,
    pub(crate) far: u32,
    pub(crate) tap: u32,
    pub(crate) ring_packets: u32,
}

/// A port. Its devices are deleted when it is dropped.
#[derive(Debug)]
pub struct Port {
    near: Near,
    mac: Mac,
    pub(crate) rings: Vec<OwnedFd>,
    /// The number of packets that may wait for a ring.
    pub(crate) ring_packets: u32,
    behind: Behind,
    received: Received,
}

/// The way of received packets to the near end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Received {
    Unlimited,
    /// Through a token bucket, which cuts super-packets that are longer than its burst.
    Limited,
}

/// The devices between a port's near end and its rings.
#[derive(Debug)]
enum Behind {
    Veth(Veth),
    Tap(Tap),
}

/// Packets dropped by the kernel between the port's egress and its rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortDrops {
    /// Packets dropped by the qdisc at the root of the near end: one that a user has installed, or the FIFOs of a TAP.
    pub qdisc: u64,
    /// Packets dropped at a full receive backlog between the ends of a veth: `tx_dropped` of the near end. (The far end
    /// counts the same packets again, with others that were not for a ring.)
    pub backlog: u64,
    /// Packets dropped at a full ring: `rx_dropped` of the macvtap (`tap_handle_frame`, drivers/net/tap.c), or
    /// `tx_dropped` of the TAP. The kernel does not count a UDP GSO packet that a macvtap's ring had no room for.
    pub ring_full: u64,
}

impl PortDrops {
    /// All of them.
    pub fn total(self) -> u64 {
        self.qdisc + self.backlog + self.ring_full
    }

    /// Those since `base`.
    #[must_use]
    pub fn minus(self, base: Self) -> Self {
        Self {
            qdisc: self.qdisc.saturating_sub(base.qdisc),
            backlog: self.backlog.saturating_sub(base.backlog),
            ring_full: self.ring_full.saturating_sub(base.ring_full),
        }
    }
}

/// The packets that a port has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Deliveries {
    /// Packets delivered to the near end: `tx_packets` of a veth's far end, or `rx_packets` of a TAP, which counts what
    /// was written to its queues and passed to the stack (`tun_get_user`, drivers/net/tun.c).
    pub delivered: Counted,
    /// Packets dropped on the way to it.
    pub dropped: DeliveryDrops,
}

/// Packets dropped on the way to the near end of a veth, by the counter that has them. A TAP drops none: what it does not
/// take is a refused write.
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
/// The longest segment that the near end accepts, in bytes: the range of IP's length fields, so that the NIC can cut
/// it. The kernel's own default; anything larger is BIG TCP.
pub const SEGMENT_MAX: u32 = 65_536;

/// Disables IPv6 on a link of the NIC. The namespace's stack would otherwise send router and neighbour discovery to the
/// applications, and its loopback traffic to the rings. A kernel without IPv6 sends neither, so an error is ignored.
fn disable_ipv6(ns: &NetNs, link: &str) {
    let _ = sysctl::set(ns, &format!("net/ipv6/conf/{link}/disable_ipv6"), "1");
}

impl Port {
    /// Creates a port behind a veth. Its near end is down: attach the doorbell first, so that no packet passes
    /// uncounted.
    ///
    /// # Errors
    /// When a device cannot be created, with the device's name.
    pub fn create(config: &PortConfig<'_>) -> Result<Self, PortError> {
        let (veth, rings) = Veth::create(config)?;
        let near = Near::new(Numbered::named(config.app, config.name)?)?;
        Ok(Self {
            near,
            mac: config.mac,
            rings,
            ring_packets: config.ring_packets,
            behind: Behind::Veth(veth),
            received: Received::Unlimited,
        })
    }

    /// Takes over a port behind a veth that a former process made, with its rings.
    ///
    /// # Errors
    /// When one of its devices no longer exists.
    pub(crate) fn adopt(kept: KeptVeth<'_>, rings: Vec<OwnedFd>) -> Result<Self, PortError> {
        let near = Near::new(Numbered::at(kept.app, kept.near, kept.name)?)?;
        let veth = Veth::adopt(kept.nic, kept.name, (kept.far, kept.tap))?;
        let (mac, ring_packets) = (kept.mac, kept.ring_packets);
        let bucket = TcDevice::open(&veth.nic, &veth.far.show()?.name)
            .and_then(|mut device| device.qdisc(Handle::FIRST));
        let received = if bucket.is_ok() { Received::Limited } else { Received::Unlimited };
        let port = Self { near, mac, rings, ring_packets, behind: Behind::Veth(veth), received };
        // It may have been moved while no process served it.
        port.locate();
        port.near().show()?;
        Ok(port)
    }

    /// The numbers of near end, far end and macvtap; `None` for a TAP.
    pub(crate) fn numbers(&self) -> Option<[u32; 3]> {
        match &self.behind {
            Behind::Veth(veth) => Some([self.near().index(), veth.far.index(), veth.tap_index()?]),
            Behind::Tap(_) => None,
        }
    }

    /// The descriptors of the rings; empty once the port belongs to a NIC.
    pub fn rings(&self) -> &[OwnedFd] {
        &self.rings
    }

    /// Creates a port that is a TAP. It is down: attach the doorbell first.
    ///
    /// # Errors
    /// When the kernel's TAPs cannot do what is asked, or the device cannot be created.
    pub fn create_tap(config: &TapConfig<'_>) -> Result<Self, PortError> {
        let (tap, rings) = Tap::create(config)?;
        let near = Near::new(Numbered::named(config.app, config.name)?)?;
        Ok(Self {
            near,
            mac: config.mac,
            rings,
            ring_packets: config.ring_packets,
            behind: Behind::Tap(tap),
            received: Received::Unlimited,
        })
    }

    /// The descriptor that sets the programs of a TAP; `None` for a veth.
    pub fn tap_queue(&self) -> Option<BorrowedFd<'_>> {
        match &self.behind {
            Behind::Veth(_) => None,
            Behind::Tap(tap) => Some(tap.queue()),
        }
    }

    /// The interface number of the near end.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub fn index(&self) -> Result<u32, PortError> {
        Ok(self.near().show()?.index)
    }

    /// The MTU of the near end.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub(crate) fn mtu(&self) -> Result<u32, PortError> {
        Ok(self.near().show()?.mtu)
    }

    /// The interface number of the far end, in the NIC's namespace.
    ///
    /// # Errors
    /// When the device no longer exists, or the port is a TAP.
    pub fn peer_index(&self) -> Result<u32, PortError> {
        match &self.behind {
            Behind::Veth(veth) => Ok(veth.far.show()?.index),
            Behind::Tap(_) => Err(PortError::NoFarEnd(self.name().to_owned())),
        }
    }

    /// The interface numbers of the far end and of the macvtap on it, in the NIC's namespace.
    ///
    /// # Errors
    /// When a device no longer exists, or the port is a TAP.
    pub(crate) fn behind(&self) -> Result<[u32; 2], PortError> {
        match &self.behind {
            Behind::Veth(veth) => Ok([
                veth.far.show()?.index,
                veth.tap_index().ok_or(PortError::NoFarEnd(self.name().to_owned()))?,
            ]),
            Behind::Tap(_) => Err(PortError::NoFarEnd(self.name().to_owned())),
        }
    }

    /// Limits what the port receives: a token bucket at the far end's egress, which redirected and written packets pass.
    ///
    /// # Errors
    /// When the kernel refuses it, or the port is a TAP.
    pub fn limit_received(&mut self, bucket: &Tbf) -> Result<(), PortError> {
        match &self.behind {
            Behind::Veth(veth) => {
                TcDevice::open(&veth.nic, &veth.far.show()?.name)?.add(&TcObject::tbf(*bucket))?
            }
            Behind::Tap(_) => return Err(PortError::NoFarEnd(self.name().to_owned())),
        }
        self.received = Received::Limited;
        Ok(())
    }

    /// Whether a token bucket limits what the port receives. It cuts super-packets, so that the counts before and behind it
    /// cannot be compared.
    pub fn limits_received(&self) -> bool {
        self.received == Received::Limited
    }

    /// The namespace of the rings: of a veth's far end, or of the TAP itself.
    pub fn nic(&self) -> &NetNs {
        match &self.behind {
            Behind::Veth(veth) => &veth.nic,
            Behind::Tap(tap) => tap.namespace(),
        }
    }

    /// The near end, where it was at the last look.
    pub fn near(&self) -> Arc<Numbered> {
        self.near.link()
    }

    /// The hardware address that the near end was created with.
    pub fn mac(&self) -> Mac {
        self.mac
    }

    /// Whether the port's devices still exist. The near end may have been moved to another namespace.
    pub fn exists(&self) -> bool {
        match &self.behind {
            Behind::Veth(veth) => veth.exists(),
            Behind::Tap(_) => self.near().show().is_ok(),
        }
    }

    /// The name that the near end was created with. The device may have been renamed since.
    pub fn name(&self) -> &str {
        self.near.name()
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
        let near = self.near();
        near.set_up()?;
        near.wait_running(PATIENCE)?;
        match &self.behind {
            Behind::Veth(veth) => veth.wait_running(),
            Behind::Tap(_) => Ok(()),
        }
    }

    /// Brings the near end up, without waiting: it has a carrier when [`follow`](Self::follow) gives it one.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub(crate) fn bring_up(&self) -> Result<(), PortError> {
        Ok(self.near().set_up()?)
    }

    /// Takes the near end down, so that no further packet enters. Where the near end was moved to another namespace,
    /// its carrier is turned off instead. The FIFOs of a TAP lose their packets.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub fn down(&self) -> Result<(), PortError> {
        if matches!(self.behind, Behind::Veth(_)) {
            self.near.qdisc().purge();
        }
        self.near().set_down().or_else(|_| self.set_carrier(Carrier::Off))
    }

    /// Whether packets pass the near end, now or within `wait`.
    pub(crate) fn is_running(&self, wait: core::time::Duration) -> bool {
        self.near().wait_running(wait).is_ok()
    }

    fn set_carrier(&self, carrier: Carrier) -> Result<(), PortError> {
        match &self.behind {
            Behind::Veth(veth) => veth.set_carrier(carrier),
            Behind::Tap(tap) => {
                // Without one, the kernel empties the FIFOs and does not count what they held.
                if carrier == Carrier::Off {
                    self.near.qdisc().purge();
                }
                tap.set_carrier(carrier)
            }
        }
    }

    /// The packets dropped by the kernel so far, from its own counters. The count of a TAP's rings includes packets
    /// that bypassed the egress program.
    ///
    /// # Errors
    /// When a device no longer exists.
    pub fn drops(&self) -> Result<PortDrops, PortError> {
        match &self.behind {
            Behind::Veth(veth) => veth.drops(&self.near),
            Behind::Tap(tap) => tap.drops(self.near.qdisc()),
        }
    }

    /// The packets that the port has received, and those dropped on the way to it, from counters that include no later
    /// drop.
    ///
    /// # Errors
    /// When a device no longer exists.
    pub fn deliveries(&self) -> Result<Deliveries, PortError> {
        match &self.behind {
            Behind::Veth(veth) => veth.deliveries(),
            Behind::Tap(tap) => tap.deliveries(),
        }
    }
}
