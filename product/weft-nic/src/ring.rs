//! A descriptor ring: its file descriptor, its doorbell in the port's page, its accounting, and the packet being
//! segmented.
//!
//! Ownership: the transmit worker owns the rings of all ports. When a port is removed, its rings move to the thread that
//! removes it, which counts what is left in them ([`Ring::hold_rest`]); a ring always has one owner.
//!
//! A ring borrows its buffer from a [`BufferPool`] while it has a packet, so that memory grows with the packets in
//! progress, and not with the rings.

use crate::claims::{ClaimMarks, Claims};
use crate::counters::PortCounters;
use crate::doorbell::protocol;
use crate::in_hand::InHand;
use crate::layout::{Page, RingBell, Shared};
use crate::ring_accounting::{Arrival, Empty, RingAccounting};
use crate::sojourn::Arrivals;
use crate::sync::{AtomicU64, Ordering};
use rustix::event::poll;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use weft_host::clock;
use weft_packet::ethernet;
use weft_packet::tap::TapPacket;
use weft_packet::vnet::VnetHeader;
use weft_rank::Metadata;
use weft_units::{Bytes, ClassId, FlowId, Instant, LaneId, LoggedFlowId, Nanos};

/// The longest wait, at the end, for packets that were posted and are not yet in their rings.
pub(crate) const REFILL: Nanos = Nanos::from_millis(100);
const REFILL_STEP: rustix::time::Timespec = rustix::time::Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// The number of free buffers that a pool keeps.
const FREE_BUFFERS: usize = 256;

/// The longest frame that leaves: the longest IP packet, with its Ethernet header and two VLAN tags. Longer ones (BIG TCP) arrive
/// only until the port's limit of [`SEGMENT_MAX`](crate::port::SEGMENT_MAX) is restored.
pub(crate) const FRAME_MAX: Bytes = Bytes(65_535 + 14 + 2 * 4);

/// The buffer size for the largest frame of a macvtap. It covers the kernel's largest super-packet (`GSO_MAX_SIZE` in
/// include/linux/netdevice.h, eight times 64 KB), the Ethernet header with two VLAN tags, and slack for headers that
/// the kernel may add. A read truncates longer frames. Memory is committed only for bytes that were read once.
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

/// The buffers of the rings without a packet. The last one returned is the next one taken, since it is in the cache.
#[derive(Debug, Default)]
pub(crate) struct BufferPool(Vec<Box<[u8]>>);

impl BufferPool {
    fn take(&mut self) -> Box<[u8]> {
        // The kernel zeroes the pages when they are touched.
        self.0.pop().unwrap_or_else(|| vec![0; FRAME_BYTES].into_boxed_slice())
    }

    /// Takes back the buffer of `ring`, which has no packet.
    pub(crate) fn put_back(&mut self, ring: &mut Ring) {
        let buffer = core::mem::take(&mut ring.buffer);
        if !buffer.is_empty() && self.0.len() < FREE_BUFFERS {
            self.0.push(buffer);
        }
    }
}

/// A ring.
#[derive(Debug)]
pub(crate) struct Ring {
    /// `None` for a vacant slot.
    pub(crate) fd: Option<OwnedFd>,
    /// The engine's flow.
    pub(crate) flow: FlowId,
    /// The engine's lane.
    pub(crate) lane: LaneId,
    /// The class of all its packets, or `None` where classes share it.
    pub(crate) class: Option<ClassId>,
    /// The page of its port, and its number there.
    pub(crate) page: Page<Shared>,
    pub(crate) number: usize,
    /// The port's bit in the summary.
    pub(crate) port: usize,
    pub(crate) counters: Arc<PortCounters>,
    /// The posted and completed packets.
    pub(crate) accounting: RingAccounting,
    /// Whether the last packet was not announced: others may be queued after it.
    pub(crate) unannounced: bool,
    /// The packet being segmented.
    pub(crate) fetched: Option<Fetched>,
    /// Its buffer; empty without a packet.
    pub(crate) buffer: Box<[u8]>,
    /// Whether the doorbell is ahead of its packet, so that the ring is retried soon.
    pub(crate) late: bool,
    /// Whether the engine has it as backlogged.
    pub(crate) backlogged: bool,
    /// A posted count and its time: once that count is done, all packets posted before the time have passed.
    pub(crate) mark: (u64, Instant),
    /// The time since which its first packet has been ready to be sent, in the link's time.
    pub(crate) since: Instant,
    /// The arrivals of its packets.
    pub(crate) arrivals: Arrivals,
    /// The claims of their senders, where the engine reads them.
    pub(crate) claims: ClaimMarks,
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

/// The place of a ring: its port's bit in the summary, the port's page and counters, and its number in the page.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) port: usize,
    pub(crate) page: Page<Shared>,
    pub(crate) counters: Arc<PortCounters>,
    pub(crate) number: usize,
}

impl Ring {
    pub(crate) fn new(
        fd: Option<OwnedFd>,
        flow: FlowId,
        (lane, class): (LaneId, Option<ClassId>),
        place: Place,
    ) -> Self {
        let accounting = RingAccounting::resume(place.page.rings[place.number].done.load(Ordering::Relaxed));
        Self {
            fd,
            flow,
            lane,
            class,
            page: place.page,
            number: place.number,
            port: place.port,
            counters: place.counters,
            accounting,
            unannounced: false,
            fetched: None,
            buffer: Box::default(),
            late: false,
            backlogged: false,
            mark: (0, Instant::ZERO),
            since: Instant::ZERO,
            arrivals: Arrivals::default(),
            claims: ClaimMarks::default(),
        }
    }

    /// Reads the next packet into a buffer of `pool`.
    pub(crate) fn fetch(&mut self, pool: &mut BufferPool) -> Fetch {
        let Some(fd) = &self.fd else { return Fetch::Empty };
        if self.buffer.is_empty() {
            self.buffer = pool.take();
        }
        let found = match rustix::io::read(fd, &mut self.buffer[..]) {
            Ok(n) => {
                ethernet::show_group(self.buffer[..n].get_mut(VnetHeader::LEN..).unwrap_or_default());
                TapPacket::parse(&self.buffer[..n]).map_or(Fetch::Empty, Fetch::Packet)
            }
            Err(Errno::AGAIN | Errno::INTR) => Fetch::Empty,
            Err(error) => Fetch::Failed(error),
        };
        if !matches!(found, Fetch::Packet(_)) {
            pool.put_back(self);
        }
        found
    }

    /// The packet in progress, for a successor of this process.
    pub(crate) fn in_hand(&self) -> Option<InHand> {
        let fetched = self.fetched.as_ref()?;
        let (port, ring, next_segment) = (self.port, self.number, fetched.next_segment);
        Some(InHand { port, ring, next_segment, bytes: fetched.packet.whole(&self.buffer).to_vec() })
    }

    /// Takes over a packet that a former process had in progress, in a buffer of `pool`.
    pub(crate) fn take_over(&mut self, in_hand: &InHand, pool: &mut BufferPool) {
        let (Some(packet), Some(class)) = (TapPacket::parse(&in_hand.bytes), self.class) else { return };
        if in_hand.bytes.len() > FRAME_BYTES {
            return;
        }
        self.buffer = pool.take();
        self.buffer[..in_hand.bytes.len()].copy_from_slice(&in_hand.bytes);
        self.accept(packet, class);
        if let Some(fetched) = self.fetched.as_mut() {
            fetched.next_segment = in_hand.next_segment.min(fetched.segments() - 1);
        }
    }

    /// The ring's doorbell.
    pub(crate) fn bell(&self) -> &RingBell {
        &self.page.rings[self.number]
    }

    /// The word of a flow that waits for its packets.
    pub(crate) fn awaited(&self) -> &AtomicU64 {
        &self.page.awaited[self.number]
    }

    /// The number of posted packets.
    pub(crate) fn posted(&self) -> u64 {
        self.bell().packets.load(Ordering::Acquire)
    }

    /// Notes the packets that were posted until `now`. Returns their count.
    pub(crate) fn look(&mut self, now: Instant) -> u64 {
        let posted = self.posted();
        self.arrivals.posted(posted, now);
        posted
    }

    /// Notes the packets that were posted until `now`, and the claims of their senders about them.
    pub(crate) fn look_closely(&mut self, now: Instant) {
        let (bell, socket) = (self.bell(), &self.page.sockets[self.number]);
        let (claims, posted) = protocol::claims_and_count(&bell.packets, || Claims::take(bell, socket));
        self.arrivals.posted(posted, now);
        self.claims.posted(posted, claims);
    }

    /// The known metadata of the next packet. One that no look has found has just arrived.
    pub(crate) fn head(&mut self, now: Instant) -> Metadata {
        let done = self.accounting.done();
        self.claims.next(done).metadata(self.arrivals.of_next(done).unwrap_or(now))
    }

    /// The known metadata of the last packet posted.
    pub(crate) fn newest(&self, now: Instant) -> Metadata {
        self.claims.newest().metadata(self.arrivals.of_newest().unwrap_or(now))
    }

    /// Accounts for a fetched packet of `class`.
    pub(crate) fn accept(&mut self, packet: TapPacket, class: ClassId) {
        let posted = self.posted();
        let arrival = self.accounting.came(posted, clock::now);
        match arrival {
            Arrival::Announced => {}
            Arrival::GivenUp => self.counters.lost.take_back(1),
            Arrival::Stray => self.counters.strays.add(1, 0),
        }
        self.unannounced = arrival != Arrival::Announced;
        self.counters.classes[class.index()].fetched.add(1, packet.bytes().get());
        self.fetched = Some(Fetched { packet, next_segment: 0, class, held: None, flow: None });
    }

    /// Settles the accounting of an empty ring. Returns whether no packet is missing.
    pub(crate) fn settle_empty(&mut self, now: Instant) -> bool {
        let posted = self.posted();
        self.take_drained(posted);
        if let Empty::Lost(missing) = self.accounting.empty(posted, now) {
            self.counters.lost.add(missing, 0);
        }
        self.match_strays();
        self.publish_done();
        self.accounting.done() >= posted
    }

    /// Completes the packets that the pass-through worker has sent.
    fn take_drained(&mut self, posted: u64) {
        let bell = &self.page.rings[self.number];
        let drained = bell.drained.load(Ordering::Acquire);
        let before = bell.drained_done.load(Ordering::Relaxed);
        if drained != before {
            self.accounting.drained(drained.saturating_sub(before), posted);
            bell.drained_done.store(drained, Ordering::Relaxed);
        }
    }

    /// Undoes the count of strays whose doorbells were posted later.
    fn match_strays(&mut self) {
        let matched = self.accounting.matched();
        if matched > 0 {
            self.counters.strays.take_back(matched);
        }
    }

    /// Publishes the `done` count. The places of its class are returned afterwards, so that the rings never hold more
    /// packets than the class has places.
    pub(crate) fn publish_done(&self) {
        let (doorbell, done) = (&self.bell().done, self.accounting.done());
        let more = done.saturating_sub(doorbell.load(Ordering::Relaxed));
        doorbell.store(done, Ordering::Release);
        if let Some(class) = self.class {
            // The ring's owner is the only writer of both.
            let total = &self.page.classes[class.index()].done;
            total.store(total.load(Ordering::Relaxed) + more, Ordering::Release);
        }
    }

    /// Completes the packet in progress, of `bytes` bytes.
    pub(crate) fn complete(&mut self, bytes: u64) {
        self.fetched = None;
        self.accounting.gone();
        if let Some(class) = self.class {
            let total = &self.page.classes[class.index()].done_bytes;
            total.store(total.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
        }
        self.publish_done();
    }

    /// Publishes a time before which all posted packets are done. A flow that has been silent since then may leave the
    /// ring, although the ring is never empty.
    pub(crate) fn note_passed(&mut self, wall: Instant) {
        if self.fd.is_some() && self.accounting.done() >= self.mark.0 {
            self.bell().passed.store(self.mark.1.as_nanos(), Ordering::Release);
            // The time was read before the count, so the count includes all packets posted before that time.
            self.mark = (self.posted(), wall);
        }
    }

    /// Counts the packet in progress as held. Returns its slot of a multiqueue NIC.
    pub(crate) fn hold(&mut self) -> Option<u16> {
        let fetched = self.fetched.take()?;
        self.counters.classes[fetched.class.index()].held.add(1, fetched.packet.bytes().get());
        self.accounting.gone();
        fetched.held
    }

    /// Counts the packets left in the ring at its end as held, by fetching them, and closes its accounting. Sojourns until
    /// `until` for packets that are missing. `class_of` is the class of a packet where classes share the ring.
    pub(crate) fn hold_rest(
        &mut self,
        until: Instant,
        pool: &mut BufferPool,
        class_of: impl Fn(&Self, &TapPacket) -> ClassId,
    ) {
        self.hold();
        while let Fetch::Packet(packet) = self.fetch_rest(until, pool) {
            let class = self.class.unwrap_or_else(|| class_of(self, &packet));
            self.accept(packet, class);
            self.hold();
        }
        let missing = self.accounting.close(self.posted());
        self.counters.lost.add(missing, 0);
        self.match_strays();
    }

    /// Fetches a packet at the end. The ring of a TAP is filled again from the FIFO above it, slightly after it was read.
    fn fetch_rest(&mut self, until: Instant, pool: &mut BufferPool) -> Fetch {
        loop {
            let found = self.fetch(pool);
            let missing = self.posted() > self.accounting.done();
            if !matches!(found, Fetch::Empty) || !missing || clock::now() >= until {
                return found;
            }
            let _ = poll(&mut [], Some(&REFILL_STEP));
        }
    }
}
