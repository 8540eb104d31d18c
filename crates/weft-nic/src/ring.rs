//! A descriptor ring as the worker sees it: the descriptor to read from, and the packet that is being segmented.

use crate::ring_accounting::RingAccounting;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use weft_packet::tap::TapPacket;
use weft_units::{ClassId, FlowId, Instant, LoggedFlowId};

/// Room for the largest frame that a macvtap hands out: the kernel's largest super-packet (`GSO_MAX_SIZE` in
/// include/linux/netdevice.h, eight times 64 KB; more than [`SEGMENT_MAX`](crate::port::SEGMENT_MAX) only until the port's
/// limit is set back), the Ethernet header with two VLAN tags, and slack for what the kernel may add. What a read has no room
/// for is cut off. Memory is taken only for what was read once.
pub(crate) const FRAME_BYTES: usize = 8 * 65_536 + 4_464;

/// A packet that has been fetched and not yet been sent to its end.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// Its bytes are in the ring's own buffer.
    pub(crate) packet: TapPacket,
    /// The first segment that has not been sent.
    pub(crate) next_segment: u32,
    /// Whom it counts for.
    pub(crate) class: ClassId,
    /// Where a multiqueue NIC counts it as held, if it does.
    pub(crate) held: Option<u16>,
    /// Its flow in the departure log, once that is known.
    pub(crate) flow: Option<LoggedFlowId>,
}

impl Fetched {
    /// How many segments it has, at least 1.
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
    /// What was posted and what has come of it.
    pub(crate) accounting: RingAccounting,
    /// The last packet had not been posted: others may lie behind it.
    pub(crate) unannounced: bool,
    /// What is being segmented.
    pub(crate) fetched: Option<Fetched>,
    /// Where it lies; grown at the first fetch and kept.
    pub(crate) buffer: Box<[u8]>,
    /// The doorbell is ahead of its packet: the ring is looked at again soon.
    pub(crate) late: bool,
    /// What had been posted at a time: when so much is done, all that was posted before has passed.
    pub(crate) mark: (u64, Instant),
    /// Since when its first packet has been ready to be sent, in the link's time.
    pub(crate) since: Instant,
}

/// What a fetch found.
#[derive(Debug)]
pub(crate) enum Fetch {
    /// A packet, whose bytes are in the ring's buffer.
    Packet(TapPacket),
    /// Nothing yet.
    Empty,
    /// The device is gone, or the kernel refuses.
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
            // Zeroed by the kernel page by page when they are touched.
            self.buffer = vec![0; FRAME_BYTES].into_boxed_slice();
        }
        match rustix::io::read(&self.fd, &mut self.buffer[..]) {
            Ok(n) => TapPacket::parse(&self.buffer[..n]).map_or(Fetch::Empty, Fetch::Packet),
            Err(Errno::AGAIN | Errno::INTR) => Fetch::Empty,
            Err(error) => Fetch::Failed(error),
        }
    }
}
