//! A port that is a TAP: one device in the applications' namespace, whose queues are the rings.
//!
//! Above each queue is a separate FIFO. A ring holds few packets; when it is full, the kernel stops its queue and
//! packets wait in the FIFO, still charged to their sockets. Reading half a ring lets the queue continue
//! (`__tun_wake_queue`, drivers/net/tun.c). The stop is the flag `IFF_BACKPRESSURE` of Linux 7.3.
//!
//! Compared with the veth's port:
//! * one device instead of three, and no receive backlog on the way: a queue keeps the order of its senders;
//! * UDP super-packets are read whole;
//! * the packets in a ring are charged to no socket, so a ring should be small;
//! * the FIFOs lose their packets when the port is set down or loses its carrier. [`Tap::set_carrier`] counts what waits
//!   then. Nothing counts it when a user sets the port down.
//!
//! Accounting: the doorbell is posted at the egress, before the FIFO. The bound of a ring covers FIFO and ring, and the
//! FIFO has room for that many packets, so it never drops an announced packet of a policy's NIC. If the user installs
//! another qdisc, its drops are read from the root ([`PortDrops::qdisc`]), and the worker gives these packets up.
//!
//! Receive direction: the thread writes to a queue. A redirect by the kernel needs a far end beside the uplink's device,
//! and a TAP is one device in the applications' namespace.

use super::root_qdisc::RootQdisc;
use super::{Deliveries, DeliveryDrops, PortDrops, PortError};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use weft_host::OsError;
use weft_host::link::{self, Mac, Numbered};
use weft_host::netns::NetNs;
use weft_host::tap::{self, Carrier, FullRing, TapError, TapOptions, UdpSegments};
use weft_host::tc::{TcDevice, TcObject};
use weft_units::{Counted, Packets};

/// The configuration of a port that is a TAP.
#[derive(Clone, Debug)]
pub struct TapConfig<'a> {
    /// The namespace of the applications.
    pub app: &'a NetNs,
    /// The name of the device in `app`.
    pub name: &'a str,
    /// Its MAC address.
    pub mac: Mac,
    /// The number of descriptor rings, at most 256.
    pub rings: u32,
    /// The number of packets that may wait for a ring: in its FIFO, and in the ring itself.
    pub ring_packets: u32,
    /// The number of packets in a ring, at least 2: with one, the ring is empty while its queue continues.
    pub slots: u32,
    /// The treatment of packets at a full ring. [`FullRing::Drops`] works on any kernel, and needs
    /// slots for what may wait and for a batch more (`ring_slots`).
    pub full_ring: FullRing,
}

/// The default of [`TapConfig::slots`].
pub const RING_SLOTS: u32 = 4;

/// The queues of a TAP. The link is deleted when the value is dropped.
#[derive(Debug)]
pub(super) struct Tap {
    /// A duplicate of the first queue's descriptor.
    queue: OwnedFd,
    link: Numbered,
}

impl Tap {
    /// Creates the TAP, down, and opens its queues.
    pub(super) fn create(config: &TapConfig<'_>) -> Result<(Self, Vec<OwnedFd>), PortError> {
        let TapConfig { app, name, .. } = *config;
        let options = TapOptions {
            queues: config.rings,
            full_ring: config.full_ring,
            udp_segments: UdpSegments::Whole,
        };
        // The link is deleted with these, if a step fails.
        let rings = tap::create_with(app, name, &options)?;
        let first = rings.first().ok_or(TapError::Queues { link: name.to_owned(), asked: config.rings })?;
        let queue = first
            .try_clone()
            .map_err(|e| TapError::from(OsError::new(format!("duplicate a queue of TAP {name}"), e)))?;
        link::set_mac(app, name, config.mac)?;
        link::set_txqueuelen(app, name, config.slots.max(2))?;
        let link = Numbered::named(app, name)?;
        let fifos = TcObject::fifo_of_each_queue(config.rings as u16, Packets(config.ring_packets.into()));
        TcDevice::of(&link)?.install(fifos)?;
        Ok((Self { queue, link }, rings))
    }

    /// The namespace of the link.
    pub(super) fn namespace(&self) -> &NetNs {
        self.link.namespace()
    }

    /// The descriptor that sets programs.
    pub(super) fn queue(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    /// Sets the carrier.
    pub(super) fn set_carrier(&self, carrier: Carrier) -> Result<(), PortError> {
        Ok(tap::set_carrier(self.queue(), carrier)?)
    }

    /// The packets dropped so far. The link's own counter includes those that the guard of the rings dropped.
    pub(super) fn drops(&self, qdisc: &RootQdisc) -> Result<PortDrops, PortError> {
        let ring_full = self.link.show()?.stats.tx_dropped.get();
        Ok(PortDrops { qdisc: qdisc.dropped_of_present()?, backlog: 0, ring_full })
    }

    /// The packets passed to the stack. The link's `rx_dropped` has refused writes, which the writer counts, and later
    /// drops of the stack.
    pub(super) fn deliveries(&self) -> Result<Deliveries, PortError> {
        let stats = self.link.show()?.stats;
        Ok(Deliveries {
            delivered: Counted { packets: stats.rx_packets, bytes: stats.rx_bytes },
            dropped: DeliveryDrops::default(),
        })
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // The rings may be open elsewhere. An error means that the link no longer exists.
        let _ = self.link.delete();
    }
}
