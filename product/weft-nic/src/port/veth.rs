//! A port behind a veth: the far end of the pair carries a macvtap in passthru mode, whose queues are the rings.
//!
//! Packets sent through the near end wait in the macvtap's queues, still charged to their sockets, until the NIC reads
//! them.
//!
//! Creation, in an order that leaves no packet uncounted:
//! 1. The veth pair is created, down; the far end is in the NIC's namespace, without IPv6, and passes received
//!    segments whole, as does the macvtap later.
//! 2. Receive packet steering by hash is set on the far end, if one backlog per flow is required.
//! 3. The far end's MTU is set to the maximum and the far end is brought up.
//! 4. The macvtap is created, its queues (the rings) are opened, and only then is it brought up. A packet that found
//!    the link up without a queue would enter the stack of the namespace.
//!
//! Drops are counted by the kernel: those of a user's qdisc at the near end (`root_qdisc.rs`), a full backlog (`tx_dropped` of the near end) and a full ring (`rx_dropped` of the
//! macvtap). The kernel does not count a UDP GSO packet dropped at a full ring. Setting `disable_ipv6` may fail without
//! a counter: a kernel without IPv6 needs it not.

use super::kernel_side::Near;
use super::{
    BacklogError, Deliveries, DeliveryDrops, PATIENCE, PortConfig, PortDrops, PortError, backlog,
    disable_ipv6, ring_slots,
};
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use weft_host::link::{self, GsoSizes, LinkError, LinkStats, Numbered, VethOptions};
use weft_host::macvtap::{self, MacvtapMode};
use weft_host::netns::NetNs;
use weft_host::tap::Carrier;
use weft_host::{cpus, rps};
use weft_units::Counted;

/// The MTU of the far end: the maximum of a veth (`ETH_MAX_MTU`), so that only the near end's MTU applies.
/// `is_skb_forwardable` in net/core/dev.c drops packets above the receiving end's MTU.
const FAR_MTU: u32 = 65_535;

/// The longest segment that the devices of the receive direction pass on whole: the maximum of a veth (`GSO_MAX_SIZE`
/// in include/linux/netdevice.h). The default would cut BIG TCP segments that the uplink's interface has merged.
const RECEIVED_SEGMENT_MAX: u32 = 8 * 65_535;

/// Lets `link` pass on received segments whole. A kernel that refuses has no longer ones (before Linux 5.19).
fn pass_segments_whole(ns: &NetNs, link: &str) {
    let Ok(sizes) = link::gso_sizes(ns, link) else { return };
    let ipv4_max = sizes.ipv4_max.map(|_| RECEIVED_SEGMENT_MAX);
    let _ = link::set_gso_sizes(ns, link, GsoSizes { max: RECEIVED_SEGMENT_MAX, ipv4_max });
}

/// The stem of the names of a port's devices in the NIC's namespace: the begin of the port's name, or another if a port
/// with that begin exists. IFNAMSIZ leaves 15 characters.
fn free_stem(nic: &NetNs, name: &str) -> Result<String, LinkError> {
    let first = name.chars().take(11).collect();
    let more = (2..).map(|n| format!("{}~{n}", name.chars().take(6).collect::<String>()));
    for stem in core::iter::once(first).chain(more) {
        if !link::exists(nic, &format!("{stem}-nic"))? {
            return Ok(stem);
        }
    }
    Ok(name.to_owned())
}

/// The devices between the near end and the rings. They are deleted when the value is dropped, and the near end with
/// them.
#[derive(Debug)]
pub(super) struct Veth {
    pub(super) nic: NetNs,
    pub(super) far: Numbered,
    tap: Option<Numbered>,
    /// The processors among which the far end's backlogs are, where each flow has one.
    steered: Mutex<Option<BTreeSet<u32>>>,
}

impl Veth {
    /// Creates the pair, the macvtap and its queues.
    pub(super) fn create(config: &PortConfig<'_>) -> Result<(Self, Vec<OwnedFd>), PortError> {
        let nic = config.nic.handle().map_err(LinkError::from)?;
        let stem = free_stem(&nic, config.name)?;
        let (behind, tap) = (format!("{stem}-nic"), format!("{stem}-tap"));
        let options = VethOptions { macs: [Some(config.mac), None], ..VethOptions::default() };
        link::create_veth((config.app, config.name), (&nic, &behind), &options)?;
        let far = Numbered::named(&nic, &behind)?;
        // From here on the pair is deleted if a step fails.
        let mut veth = Self { nic, far, tap: None, steered: Mutex::default() };
        disable_ipv6(&veth.nic, &behind);
        pass_segments_whole(&veth.nic, &behind);
        if config.single_backlog {
            let online = cpus::online().map_err(BacklogError::from)?;
            backlog::by_hash(&veth.nic, &behind, &online)?;
            veth.steered = Mutex::new(Some(online));
        }
        veth.far.set_mtu(FAR_MTU)?;
        veth.far.set_up()?;
        let mode = MacvtapMode::Passthru;
        let slots = ring_slots(config.ring_packets);
        macvtap::create(&veth.nic, &behind, &tap, mode, config.rings, slots, None)?;
        disable_ipv6(&veth.nic, &tap);
        pass_segments_whole(&veth.nic, &tap);
        // Rings first: a packet that finds the link up and no ring would enter the stack of this namespace.
        let rings = macvtap::open_queues(&veth.nic, &tap, config.rings)?;
        // Frames to groups that are hidden from the program at the far end, so that the guard sees and counts them.
        link::set_all_multicast(&veth.nic, &tap)?;
        let device = Numbered::named(&veth.nic, &tap)?;
        device.set_up()?;
        veth.tap = Some(device);
        Ok((veth, rings))
    }

    /// Takes over the devices with these numbers, the far end's and the macvtap's.
    pub(super) fn adopt(nic: &NetNs, name: &str, (far, tap): (u32, u32)) -> Result<Self, PortError> {
        let device = |index: u32, role: &str| -> Result<Numbered, LinkError> {
            let device = Numbered::at(nic, index, &format!("{name}-{role}"))?;
            device.show().map(|_| device)
        };
        let (far, tap) = (device(far, "nic")?, device(tap, "tap")?);
        let queues = rps::processors(nic, &far.show()?.name).unwrap_or_default();
        let steered = Mutex::new(queues.into_iter().find(|cpus| !cpus.is_empty()));
        Ok(Self { nic: nic.handle().map_err(LinkError::from)?, far, tap: Some(tap), steered })
    }

    /// Lets the far end's backlogs be those of the processors `online`, where each flow has one: the kernel processes what
    /// belongs to a processor that is offline on that of the sender (`get_rps_cpu`), without order. Returns whether others had
    /// them.
    pub(super) fn steer(&self, online: &BTreeSet<u32>) -> Result<bool, PortError> {
        let mut steered = self.steered.lock().unwrap_or_else(PoisonError::into_inner);
        if steered.as_ref().is_none_or(|steered| steered == online) {
            return Ok(false);
        }
        backlog::by_hash(&self.nic, &self.far.show()?.name, online)?;
        *steered = Some(online.clone());
        Ok(true)
    }

    /// Whether far end and macvtap exist.
    pub(super) fn exists(&self) -> bool {
        self.far.show().is_ok() && self.tap.as_ref().is_none_or(|tap| tap.show().is_ok())
    }

    /// The number of the macvtap.
    pub(super) fn tap_index(&self) -> Option<u32> {
        self.tap.as_ref().map(Numbered::index)
    }

    /// Waits until far end and macvtap are running.
    pub(super) fn wait_running(&self) -> Result<(), PortError> {
        for link in [Some(&self.far), self.tap.as_ref()].into_iter().flatten() {
            link.wait_running(PATIENCE)?;
        }
        Ok(())
    }

    /// Sets the near end's carrier. A veth has one while its other end is up.
    pub(super) fn set_carrier(&self, carrier: Carrier) -> Result<(), PortError> {
        match (self.far.show()?.up, carrier) {
            (false, Carrier::On) => Ok(self.far.set_up()?),
            (true, Carrier::Off) => Ok(self.far.set_down()?),
            _ => Ok(()),
        }
    }

    /// The packets dropped so far. `near` is the near end.
    pub(super) fn drops(&self, near: &Near) -> Result<PortDrops, PortError> {
        let stats = near.link().show()?.stats;
        // The macvtap's drops on transmission belong to the other direction.
        let (backlog, ring_full) = (stats.tx_dropped.get(), self.macvtap()?.rx_dropped.get());
        Ok(PortDrops { qdisc: near.qdisc().dropped(), backlog, ring_full })
    }

    /// The packets that the near end has received, and those dropped on the way to it, from the counters of the far end
    /// and the macvtap. The near end may be in any namespace, and its own counters include later drops.
    pub(super) fn deliveries(&self) -> Result<Deliveries, PortError> {
        let far = self.far.show()?.stats;
        Ok(Deliveries {
            delivered: Counted { packets: far.tx_packets, bytes: far.tx_bytes },
            dropped: DeliveryDrops { veth: far.tx_dropped.get(), macvtap: self.macvtap()?.tx_dropped.get() },
        })
    }

    /// The macvtap's counters.
    fn macvtap(&self) -> Result<LinkStats, PortError> {
        Ok(self.tap.as_ref().map(Numbered::show).transpose()?.unwrap_or_default().stats)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        // Deletes the near end and the macvtap, too. An error means that they no longer exist.
        let _ = self.far.delete();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::Testbed;

    #[test]
    fn backlogs_follow_the_processors() {
        if !weft_host::testing::privileged("backlogs_follow_the_processors") {
            return;
        }
        let bed = Testbed::create("rps").expect("testbed");
        let port = bed.port(2, 10, true).expect("port");
        let now = || rps::processors(&bed.nic, "port0-nic").expect("processors");
        let online = cpus::online().expect("online");
        assert!(!port.steer(&online).expect("steer"), "nothing has changed");
        // As if the others were offline.
        let first: BTreeSet<u32> = online.iter().take(1).copied().collect();
        if online.len() == 1 {
            return weft_units::testing::skip("backlogs_follow_the_processors", "one processor");
        }
        assert!(port.steer(&first).expect("steer"));
        assert_eq!(now(), [first]);
        assert!(port.steer(&online).expect("steer"));
        assert_eq!(now(), std::slice::from_ref(&online));
        drop(port);
        let without = bed.port(2, 10, false).expect("port");
        assert!(!without.steer(&online).expect("steer"), "a port without one backlog for a flow");
    }
}
