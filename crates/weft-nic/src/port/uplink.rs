//! Where the NIC sends to.

use super::{PortError, disable_ipv6};
use crate::counters::Count;
use std::os::fd::{AsFd, OwnedFd};
use weft_host::link::{self, LinkError, Mac, Numbered};
use weft_host::macvtap::{self, MacvtapError, MacvtapMode, MacvtapOptions};
use weft_host::netns::NetNs;
use weft_host::tap::{self, TapError};
use weft_units::Bytes;

/// Where the NIC sends to. Its device goes when it is dropped.
#[derive(Debug)]
pub struct Uplink {
    pub(crate) fd: OwnedFd,
    device: Device,
    kind: UplinkKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UplinkKind {
    Tap,
    Macvtap,
}

/// A device that is deleted when the value is dropped.
#[derive(Debug)]
struct Device(Numbered);

impl Drop for Device {
    fn drop(&mut self) {
        // A TAP has gone with its descriptor already, and a macvtap perhaps with its parent.
        let _ = self.0.delete();
    }
}

impl Uplink {
    /// A TAP named `name` in `ns`: what the NIC sends, the stack of that namespace receives.
    ///
    /// # Errors
    /// When the device cannot be made.
    pub fn tap(ns: &NetNs, name: &str) -> Result<Self, PortError> {
        let mut fds = tap::create(ns, name, 1)?;
        let device = Device(Numbered::named(ns, name)?);
        let fd = fds.pop().ok_or(TapError::Queues { link: name.to_owned(), asked: 1 })?;
        Ok(Self { fd, device, kind: UplinkKind::Tap })
    }

    /// A macvtap named `name` in `ns`, in bridge mode on the existing interface `parent` of another namespace, with MAC address
    /// `mac`: what the NIC sends leaves through `parent`. The interface itself is not changed; as with any macvlan, the host
    /// reaches the port only by way of the network.
    ///
    /// # Errors
    /// When there is no such interface, another device on it has the address, or the device cannot be made; nothing is left
    /// then.
    pub fn on_interface(
        (parent_ns, parent): (&NetNs, &str),
        (ns, name): (&NetNs, &str),
        mac: Mac,
    ) -> Result<Self, PortError> {
        let options =
            MacvtapOptions { mode: MacvtapMode::Bridge, queues: 1, txqueuelen: 1000, mac: Some(mac) };
        macvtap::create_across((parent_ns, parent), (ns, name), &options)?;
        // From here on it goes when a step fails.
        let device = Device(Numbered::named(ns, name)?);
        disable_ipv6(ns, name);
        let mut fds = macvtap::open_queues(ns, name, 1)?;
        link::set_all_multicast(ns, name)?;
        device.0.set_up().map_err(|error| match &error {
            // The kernel looks for another device of the address only now (`macvlan_open`).
            LinkError::Os(os) if os.errno() == Some(rustix::io::Errno::ADDRINUSE) => {
                PortError::MacTaken { mac, parent: parent.to_owned() }
            }
            _ => error.into(),
        })?;
        let fd = fds.pop().ok_or(MacvtapError::Queues { link: name.to_owned(), asked: 1 })?;
        Ok(Self { fd, device, kind: UplinkKind::Macvtap })
    }

    /// The name that the device was given.
    pub fn name(&self) -> &str {
        self.device.0.first_name()
    }

    /// The device's namespace.
    pub fn namespace(&self) -> &NetNs {
        self.device.0.namespace()
    }

    /// Bounds what waits below the NIC, where its device says when something has left: a macvtap's queue does, and a write
    /// that finds more fails until then.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn bound_queue(&self, bytes: Bytes) -> Result<(), PortError> {
        if self.kind == UplinkKind::Macvtap {
            let bytes = u32::try_from(bytes.get()).unwrap_or(u32::MAX);
            macvtap::set_send_buffer(self.fd.as_fd(), bytes)?;
        }
        Ok(())
    }

    /// The largest packet, without the Ethernet header, that the device takes now, in bytes.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn mtu(&self) -> Result<u32, PortError> {
        Ok(self.device.0.show()?.mtu)
    }

    /// Sets that size, where it is another.
    ///
    /// # Errors
    /// When the device is gone, or the interface below takes no packets of that size.
    pub(crate) fn set_mtu(&self, mtu: u32) -> Result<(), PortError> {
        if self.mtu()? != mtu {
            self.device.0.set_mtu(mtu)?;
        }
        Ok(())
    }

    /// What the device counts as come in from the NIC, and what of it it dropped. A TAP's stack receives it; a macvtap
    /// transmits it.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn arrived(&self) -> Result<(Count, u64), PortError> {
        let stats = self.device.0.show()?.stats;
        let (packets, bytes, dropped) = match self.kind {
            UplinkKind::Tap => (stats.rx_packets, stats.rx_bytes, stats.rx_dropped),
            UplinkKind::Macvtap => (stats.tx_packets, stats.tx_bytes, stats.tx_dropped),
        };
        Ok((Count { packets, bytes }, dropped.get()))
    }

    /// Whether the device counts a write that failed as dropped: a macvtap does (`tap_get_user`, drivers/net/tap.c), also when
    /// it only had no room yet.
    pub(crate) fn counts_failed_writes(&self) -> bool {
        self.kind == UplinkKind::Macvtap
    }
}
