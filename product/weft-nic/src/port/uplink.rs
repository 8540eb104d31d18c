//! The uplink: the device through which packets leave the NIC.

use super::{PortError, disable_ipv6};
use crate::link::WHOLE;
use std::os::fd::{AsFd, OwnedFd};
use weft_host::link::{self, LinkError, Mac, Numbered};
use weft_host::macvtap::{self, MacvtapError, MacvtapMode, MacvtapOptions};
use weft_host::netns::NetNs;
use weft_host::tap::{self, TapError};
use weft_units::{Bytes, Counted};

/// The uplink of a NIC. Its device is deleted when it is dropped.
#[derive(Debug)]
pub struct Uplink {
    pub(crate) fd: OwnedFd,
    device: Device,
    kind: UplinkKind,
    receive: Receive,
}

/// The carrier wanted for received packets, from the uplink's device to the port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Receive {
    /// The kernel where it can, otherwise the thread.
    #[default]
    Auto,
    /// The kernel only.
    Kernel,
    /// The thread only.
    Thread,
}

/// The use of a device on an interface that another process made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UplinkRole {
    /// It transmits for all ports.
    Transmit,
    /// It receives for one port.
    Receive,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum UplinkKind {
    Tap,
    Macvtap,
    /// A macvtap that receives nothing.
    Transmit,
}

/// A device that is deleted when the value is dropped.
#[derive(Debug)]
struct Device(Numbered);

impl Drop for Device {
    fn drop(&mut self) {
        // A TAP was deleted with its descriptor already, and a macvtap possibly with its parent.
        let _ = self.0.delete();
    }
}

impl Uplink {
    /// Creates a TAP named `name` in `ns`: packets sent by the NIC are received by the stack of that namespace.
    ///
    /// # Errors
    /// When the device cannot be created.
    pub fn tap(ns: &NetNs, name: &str) -> Result<Self, PortError> {
        let mut fds = tap::create(ns, name, 1)?;
        let device = Device(Numbered::named(ns, name)?);
        let fd = fds.pop().ok_or(TapError::Queues { link: name.to_owned(), asked: 1 })?;
        Ok(Self { fd, device, kind: UplinkKind::Tap, receive: Receive::Auto })
    }

    /// Creates a macvtap named `name` in `ns`, in bridge mode on the existing interface `parent` of another namespace,
    /// with MAC address `mac`. Packets sent by the NIC leave through `parent`, which is not changed. As with any
    /// macvlan, the host reaches the port only through the network.
    ///
    /// # Errors
    /// When the interface does not exist, another device on it has the address, or the device cannot be created.
    /// Nothing remains then.
    pub fn on_interface(
        (parent_ns, parent): (&NetNs, &str),
        (ns, name): (&NetNs, &str),
        mac: Mac,
    ) -> Result<Self, PortError> {
        let options =
            MacvtapOptions { mode: MacvtapMode::Bridge, queues: 1, txqueuelen: 1000, mac: Some(mac) };
        macvtap::create_across((parent_ns, parent), (ns, name), &options)?;
        // From here on the device is deleted if a step fails.
        let device = Device(Numbered::named(ns, name)?);
        disable_ipv6(ns, name);
        let mut fds = macvtap::open_queues(ns, name, 1)?;
        link::set_all_multicast(ns, name)?;
        device.0.set_up().map_err(|error| match &error {
            // The kernel detects another device with the address only now (`macvlan_open`).
            LinkError::Os(os) if os.errno() == Some(rustix::io::Errno::ADDRINUSE) => {
                PortError::MacTaken { mac, parent: parent.to_owned() }
            }
            _ => error.into(),
        })?;
        let fd = fds.pop().ok_or(MacvtapError::Queues { link: name.to_owned(), asked: 1 })?;
        Ok(Self { fd, device, kind: UplinkKind::Macvtap, receive: Receive::Auto })
    }

    /// Creates a macvtap named `name` in `ns`, in bridge mode on `parent`, that only transmits, for a NIC whose ports
    /// have separate devices to receive. It has a separate address, which no process uses.
    ///
    /// # Errors
    /// As [`on_interface`](Self::on_interface).
    pub fn transmit_on(
        (parent_ns, parent): (&NetNs, &str),
        (ns, name): (&NetNs, &str),
    ) -> Result<Self, PortError> {
        let options = MacvtapOptions { mode: MacvtapMode::Bridge, queues: 1, txqueuelen: 1, mac: None };
        macvtap::create_across((parent_ns, parent), (ns, name), &options)?;
        // From here on the device is deleted if a step fails.
        let device = Device(Numbered::named(ns, name)?);
        disable_ipv6(ns, name);
        let mut fds = macvtap::open_queues(ns, name, 1)?;
        device.0.set_up()?;
        let fd = fds.pop().ok_or(MacvtapError::Queues { link: name.to_owned(), asked: 1 })?;
        Ok(Self { fd, device, kind: UplinkKind::Transmit, receive: Receive::Auto })
    }

    /// Takes over a device that a former process made on an interface: number `index` of `ns`, created as `name`, with its
    /// queue `fd`.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub(crate) fn adopt(
        ns: &NetNs,
        (index, name): (u32, &str),
        fd: OwnedFd,
        role: UplinkRole,
    ) -> Result<Self, PortError> {
        let device = Numbered::at(ns, index, name)?;
        device.show()?;
        let kind = match role {
            UplinkRole::Transmit => UplinkKind::Transmit,
            UplinkRole::Receive => UplinkKind::Macvtap,
        };
        Ok(Self { fd, device: Device(device), kind, receive: Receive::Auto })
    }

    /// The number of the device.
    pub(crate) fn index(&self) -> u32 {
        self.device.0.index()
    }

    /// Whether the device only transmits.
    pub fn only_transmits(&self) -> bool {
        self.kind == UplinkKind::Transmit
    }

    /// Sets the carrier of received packets; [`Receive::Auto`] without it.
    #[must_use]
    pub fn with_receive(self, receive: Receive) -> Self {
        Self { receive, ..self }
    }

    /// The carrier wanted for received packets.
    pub fn receive(&self) -> Receive {
        self.receive
    }

    /// The number of the device if packets for the port pass its ingress. Those of a TAP pass its egress.
    pub(crate) fn ingress(&self) -> Option<u32> {
        (self.kind != UplinkKind::Tap).then(|| self.device.0.index())
    }

    /// Takes the device down.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub(crate) fn take_down(&self) -> Result<(), PortError> {
        Ok(self.device.0.set_down()?)
    }

    /// Brings the device up.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub(crate) fn bring_up(&self) -> Result<(), PortError> {
        Ok(self.device.0.set_up()?)
    }

    /// The name that the device was created with.
    pub fn name(&self) -> &str {
        self.device.0.first_name()
    }

    /// The queue that packets are written to and read from.
    pub fn queue(&self) -> std::os::fd::BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The device's namespace.
    pub fn namespace(&self) -> &NetNs {
        self.device.0.namespace()
    }

    /// Bounds the queue below the NIC, where the device reports departures. A macvtap does: a write beyond the bound
    /// fails until a packet has left.
    ///
    /// # Errors
    /// When the kernel rejects the bound.
    pub(crate) fn bound_queue(&self, bytes: Bytes) -> Result<(), PortError> {
        if self.kind != UplinkKind::Tap {
            let bytes = u32::try_from(bytes.get()).unwrap_or(u32::MAX);
            macvtap::set_send_buffer(self.fd.as_fd(), bytes)?;
        }
        Ok(())
    }

    /// The current MTU of the device: the largest packet in bytes, without the Ethernet header.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub fn mtu(&self) -> Result<u32, PortError> {
        Ok(self.device.0.show()?.mtu)
    }

    /// The longest segment that the device takes whole, in bytes; the kernel cuts longer ones before it.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub(crate) fn longest_segment(&self) -> Result<Bytes, PortError> {
        let device = self.device.0.show()?;
        let size = device.gso_ipv4_max_size.map_or(device.gso_max_size, |v4| v4.min(device.gso_max_size));
        Ok(Bytes(if size == 0 { WHOLE } else { size.into() }))
    }

    /// Sets the MTU, if it differs.
    ///
    /// # Errors
    /// When the device no longer exists, or the interface below rejects that MTU.
    pub(crate) fn set_mtu(&self, mtu: u32) -> Result<(), PortError> {
        if self.mtu()? != mtu {
            self.device.0.set_mtu(mtu)?;
        }
        Ok(())
    }

    /// The packets that the device counts as arrived from the NIC, and those it dropped. A TAP's stack receives them; a
    /// macvtap transmits them.
    ///
    /// # Errors
    /// When the device no longer exists.
    pub fn arrived(&self) -> Result<(Counted, u64), PortError> {
        let stats = self.device.0.show()?.stats;
        let (packets, bytes, dropped) = match self.kind {
            UplinkKind::Tap => (stats.rx_packets, stats.rx_bytes, stats.rx_dropped),
            UplinkKind::Macvtap | UplinkKind::Transmit => {
                (stats.tx_packets, stats.tx_bytes, stats.tx_dropped)
            }
        };
        Ok((Counted { packets, bytes }, dropped.get()))
    }

    /// Whether the device counts a failed write as a drop. A macvtap does (`tap_get_user`, drivers/net/tap.c), even
    /// when it only lacked room.
    pub(crate) fn counts_failed_writes(&self) -> bool {
        self.kind != UplinkKind::Tap
    }
}
