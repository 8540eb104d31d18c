//! A descriptor ring of the worker: its file descriptor, and the packet being segmented.

use crate::ring_accounting::RingAccounting;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use weft_packet::tap::TapPacket;
use weft_units::{ClassId, FlowId, Instant, LoggedFlowId};

/// The buffer size for the largest frame of a macvtap. It covers the kernel's largest super-packet (`GSO_MAX_SIZE` in
/// include/linux/netdevice.h, eight times 64 KB), the Ethernet header with two VLAN tags, and slack for headers that
/// the kernel may add. Packets above [`SEGMENT_MAX`](crate::port::SEGMENT_MAX) arrive only until the port's limit is
/// restored. A read truncates longer frames. Memory is committed only for bytes that were read once.
pub(crate) const FRAME_BYTES: usize = 8 * 65_536 + 4_464;

/// A packet that was fetched and not yet sent completely.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// The packet, whose bytes are in the ring's own buffer.
    pub(crate) packet: TapPacket,
    /// The first segment that has not been sent.
    pub(crate) next_segment: u32,
    /// The class under which it counts.
    pub(crate) class: ClassId,
    /// The slot under which a multiqueue NIC counts it as held, if it does.
    pub(crate) held: Option<u16>,
    /// The flow in the departure log, once known.
    pub(crate) flow: Option<LoggedFlowId>,
}

impl Fetched {
    /// The number of segments, at least 1.
    pub(crate) fn segments(&self) -> u32 {
        self.packet.segmentation().map_or(1, |packet| packet.segments())
    }
}

/// A ring.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) fd: OwnedFd,
    /// The engine's flow.
    pub(crate) flow: FlowId,
    /// The class of all its packets, or `None` where classes share it.
    pub(crate) class: Option<ClassId>,
    /// The posted and completed packets.
    pub(crate) accounting: RingAccounting,
    /// Whether the last packet was not announced: others may be queued after it.
    pub(crate) unannounced: bool,
    /// The packet being segmented.
    pub(crate) fetched: Option<Fetched>,
    /// Its buffer; allocated at the first fetch and kept.
    pub(crate) buffer: Box<[u8]>,
    /// Whether the doorbell is ahead of its packet, so that the ring is retried soon.
    pub(crate) late: bool,
    /// A posted count and its time: once that count is done, all packets posted before the time have passed.
    pub(crate) mark: (u64, Instant),
    /// The time since which its first packet has been ready to be sent, in the link's time.
    pub(crate) since: Instant,
}

/// The result of a fetch.
#[derive(Debug)]
pub(crate) enum Fetch {
    /// A packet, whose bytes are in the ring's buffer.
    Packet(TapPacket),
    /// The ring is empty.
    Empty,
    /// The device no longer exists, or the kernel rejects the read.
    Failed(Errno),
}

impl Ring {
    pub(crate) fn new(fd: OwnedFd, flow: FlowId, class: Option<ClassId>) -> Self {
        let (accounting, buffer) = (RingAccounting::default(), Box::default());
        Self {
            fd,
            flow,
            class,
            accounting,
            unannounced: false,
            fetched: None,
            buffer,
            late: false,
            mark: (0, Instant::ZERO),
            since: Instant::ZERO,
        }
    }

    /// Reads the next packet into the ring's buffer.
    pub(crate) fn fetch(&mut self) -> Fetch {
        if self.buffer.is_empty() {
            // The kernel zeroes the pages when they are touched.
            self.buffer = vec![0; FRAME_BYTES].into_boxed_slice();
        }
        match rustix::io::read(&self.fd, &mut self.buffer[..]) {
            Ok(n) => TapPacket::parse(&self.buffer[..n]).map_or(Fetch::Empty, Fetch::Packet),
            Err(Errno::AGAIN | Errno::INTR) => Fetch::Empty,
            Err(error) => Fetch::Failed(error),
        }
    }
}
