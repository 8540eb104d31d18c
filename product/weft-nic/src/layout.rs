//! The data shared by the eBPF program and the transmit worker: `bpf/doorbell.h` in Rust. Both sides assert the sizes.

use crate::sync::{AtomicU32, AtomicU64};
use core::net::IpAddr;
use core::ops::Deref;
use std::sync::Arc;
use weft_host::bpf::{SharedLayout, SharedValue};
use weft_units::{FlowKey, LaneId, Protocol};

/// The maximum number of queues of one macvtap (`TAP_MAX_QUEUES`, drivers/net/tap.c).
pub const RINGS: usize = 256;
/// The maximum number of ports of a NIC.
pub const PORTS: usize = 4096;
/// The maximum number of lanes of a policy.
pub const LANES: usize = 512;
/// The maximum number of classes of a policy.
pub const CLASSES: usize = 256;

/// The doorbell of one descriptor ring, in its own cache line since any core may post it.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RingBell {
    /// Packets posted.
    pub packets: AtomicU64,
    /// Places taken in a ring with a bound: packets posted, and briefly those about to be posted or refused.
    pub taken: AtomicU64,
    /// Packets completed by the NIC.
    pub done: AtomicU64,
    /// Of a multiqueue NIC: the time of the last packet, in nanoseconds of the kernel's monotonic clock, for the choice of a
    /// new flow's ring. Otherwise: the fewest bytes that packets posted since the NIC's last look leave to send; 0 without a
    /// claim.
    pub last_or_left: AtomicU64,
    /// The time before which all posted packets are done, in nanoseconds of the kernel's monotonic clock.
    pub passed: AtomicU64,
    /// Packets that the pass-through worker has sent from the ring, unscheduled.
    pub drained: AtomicU64,
    /// Those of them that are in `done`.
    pub drained_done: AtomicU64,
    /// The least time that packets posted since the NIC's last look request, in nanoseconds of the kernel's monotonic clock; 0 if
    /// none does.
    pub asked: AtomicU64,
}

/// The packets posted for a class, whatever the ring, and in a separate cache line those refused.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ClassBell {
    /// Packets posted; briefly includes a packet about to be refused.
    pub packets: AtomicU64,
    /// Frame bytes posted.
    pub bytes: AtomicU64,
    /// Completed packets of the class's own rings: the sum of their [`RingBell::done`].
    pub done: AtomicU64,
    /// The frame bytes of completed packets.
    pub done_bytes: AtomicU64,
    pad0: [AtomicU64; 4],
    /// Packets of flows beyond the lane's flow bound.
    pub untracked: AtomicU64,
    /// Packets refused because the class had reached its packet bound: packets, frame bytes.
    pub bound: [AtomicU64; 2],
    /// Packets refused because their ring was full: packets, frame bytes.
    pub full: [AtomicU64; 2],
    /// Packets refused because their flow had packets left in another ring: packets, frame bytes.
    pub moving: [AtomicU64; 2],
    /// Packets that requested a time too late for a ring that flows share, and are sent as if they requested none.
    pub late_claims: AtomicU64,
}

/// The flow state of a lane.
#[repr(C)]
#[derive(Debug)]
pub struct LaneFlows {
    /// The number of tracked flows.
    pub flows: AtomicU32,
    /// The ring of the next new flow.
    pub next: AtomicU32,
    /// The time of the last packet of a flow beyond the bound, in nanoseconds of the kernel's monotonic clock; 0 when
    /// none of them can be waiting. While it is set, all new flows of the lane are placed by hash.
    pub untracked: AtomicU64,
}

/// The page of all ports of a NIC.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Summary {
    /// Bit p: a ring of port p was posted since the NIC last took the bits.
    pub ready_ports: [AtomicU64; PORTS / 64],
    /// The doorbells that the NIC requests one wake-up for: none (0), any (1), or those of urgent rings (2).
    pub sleeping: AtomicU32,
    pad1: [AtomicU32; 15],
    /// Wake-ups sent.
    pub wakeups: AtomicU64,
    /// A time at which the NIC ran, in nanoseconds of the kernel's monotonic clock.
    pub heartbeat: AtomicU64,
    /// The number of the device to which packets pass unscheduled while the heartbeat is over; 0: they wait.
    pub pass_to: AtomicU64,
    pad2: [AtomicU64; 5],
}

/// The page of one port.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Shared {
    /// Bit q: ring q was posted since the NIC last took the bits.
    pub ready: [AtomicU64; RINGS / 64],
    /// Bit q: a doorbell of ring q wakes the NIC although the link is busy. Written by the NIC.
    pub urgent: [AtomicU64; RINGS / 64],
    /// Metadata records sent.
    pub records: AtomicU64,
    /// Metadata records that found the record ring full. They are sent again with the flow's next packet.
    pub records_lost: AtomicU64,
    pad: [AtomicU64; 6],
    /// The doorbells, by ring.
    pub rings: [RingBell; RINGS],
    /// The counts, by class.
    pub classes: [ClassBell; CLASSES],
    /// The flow states, by lane.
    pub lanes: [LaneFlows; LANES],
    /// By ring, not 0: a flow waits for packets of this ring ([`awaited`]). Apart from the doorbells, since only flows that wait
    /// write it, and the worker reads it rarely.
    pub awaited: [AtomicU64; RINGS],
    /// The facts of sockets, by ring. Apart from the doorbells, since few algorithms read them.
    pub sockets: [RingSocket; RINGS],
    /// The tracked flows, by ring.
    pub ring_flows: [RingFlows; RINGS],
}

/// The tracked flows of a ring (`struct weft_ring_flows`).
#[repr(C)]
#[derive(Debug)]
pub struct RingFlows {
    /// The latest time until which a packet in it may hold it, in nanoseconds of the kernel's monotonic clock.
    pub held: AtomicU64,
    /// Their number.
    pub flows: AtomicU32,
    pad: AtomicU32,
}

/// The settings of the sockets of a ring's packets (`struct weft_ring_socket`).
#[repr(C)]
#[derive(Debug)]
pub struct RingSocket {
    /// The least priority of packets posted since the NIC's last look, and 1; 0 if none was posted.
    pub priority: AtomicU64,
    /// The least pacing rate of their sockets in bytes per second; 0 if none is paced.
    pub pace: AtomicU64,
}

/// The lane of a flow that waits for packets of a ring, and the count of completed packets until which it waits, from the ring's
/// word.
pub fn awaited(word: u64) -> Option<(LaneId, u64)> {
    (word != 0).then_some((LaneId(word as u32 & 0xffff), word >> 16))
}

fn zeros<const N: usize>() -> [AtomicU64; N] {
    core::array::from_fn(|_| AtomicU64::new(0))
}

impl Default for Summary {
    /// Creates a page without posted ports, for a posting side in this process.
    fn default() -> Self {
        Self {
            ready_ports: zeros(),
            sleeping: 0.into(),
            pad1: core::array::from_fn(|_| AtomicU32::new(0)),
            wakeups: 0.into(),
            heartbeat: 0.into(),
            pass_to: 0.into(),
            pad2: zeros(),
        }
    }
}

impl Default for Shared {
    /// Creates a page without posted packets, for a posting side in this process.
    fn default() -> Self {
        let ring = |_| RingBell {
            packets: 0.into(),
            taken: 0.into(),
            done: 0.into(),
            last_or_left: 0.into(),
            passed: 0.into(),
            drained: 0.into(),
            drained_done: 0.into(),
            asked: 0.into(),
        };
        let class = |_| ClassBell {
            packets: 0.into(),
            bytes: 0.into(),
            done: 0.into(),
            done_bytes: 0.into(),
            pad0: zeros(),
            untracked: 0.into(),
            bound: zeros(),
            full: zeros(),
            moving: zeros(),
            late_claims: 0.into(),
        };
        let lane = |_| LaneFlows { flows: 0.into(), next: 0.into(), untracked: 0.into() };
        Self {
            ready: zeros(),
            urgent: zeros(),
            records: 0.into(),
            records_lost: 0.into(),
            pad: zeros(),
            rings: core::array::from_fn(ring),
            classes: core::array::from_fn(class),
            lanes: core::array::from_fn(lane),
            awaited: zeros(),
            sockets: core::array::from_fn(|_| RingSocket { priority: 0.into(), pace: 0.into() }),
            ring_flows: core::array::from_fn(|_| RingFlows {
                held: 0.into(),
                flows: 0.into(),
                pad: 0.into(),
            }),
        }
    }
}

const _: () = assert!(size_of::<RingBell>() == 64);
const _: () = assert!(size_of::<ClassBell>() == 128);
const _: () =
    assert!(size_of::<Shared>() == 64 * 2 + 64 * RINGS + 128 * CLASSES + 16 * LANES + (8 + 16 + 16) * RINGS);

const _: () = assert!(size_of::<Summary>() == PORTS / 8 + 64 * 2);

// SAFETY: repr(C), integer atomics and padding of integer atomics only, the same layout as struct weft_summary (both
// sides assert the size, and tests on real packets read what the program wrote).
unsafe impl SharedLayout for Summary {}

// SAFETY: repr(C), integer atomics and padding of integer atomics only, the same layout as struct weft_doorbells (both
// sides assert the sizes, and a test on real packets reads what the program wrote).
unsafe impl SharedLayout for Shared {}

/// A shared page, mapped from the kernel or in this process's own memory. Cheap to clone.
#[derive(Debug)]
pub enum Page<T: SharedLayout> {
    /// The value of a map that a program shares.
    Mapped(Arc<SharedValue<T>>),
    /// A value whose posting side is this process.
    Own(Arc<T>),
}

impl<T: SharedLayout> Clone for Page<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Mapped(value) => Self::Mapped(Arc::clone(value)),
            Self::Own(value) => Self::Own(Arc::clone(value)),
        }
    }
}

impl<T: SharedLayout> Deref for Page<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        match self {
            Self::Mapped(value) => value,
            Self::Own(value) => value,
        }
    }
}

/// The placement of a lane's flows in its rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Each new flow is placed in the next ring.
    RoundRobin,
    /// By a hash of the five-tuple, as RSS and `skb_tx_hash` do.
    Hash,
    /// The packet's hash selects the hardware queue; the flows of a queue are spread over its rings.
    Queues,
}

impl Spread {
    /// `WEFT_SPREAD_*`.
    fn number(self) -> u8 {
        match self {
            Self::RoundRobin => 0,
            Self::Hash => 1,
            Self::Queues => 2,
        }
    }
}

/// The metadata that the algorithms of a lane's packets read: what the program collects of its senders (`WEFT_READS_*`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reads {
    /// The time that a sender requests by `SO_TXTIME`.
    pub time: bool,
    /// The bytes that it still has to send.
    pub left: bool,
    /// The deadline of its message.
    pub deadline: bool,
    /// The priority of its socket.
    pub priority: bool,
    /// The pacing rate of its socket.
    pub pace: bool,
    /// Nothing more, but they hold a packet until the time that its sender requests.
    pub hold: bool,
}

impl Reads {
    /// Nothing.
    pub const NOTHING: Self =
        Self { time: false, left: false, deadline: false, priority: false, pace: false, hold: false };

    fn parse(bits: u8) -> Self {
        let [time, left, deadline, priority, pace, hold] = [1, 2, 4, 8, 16, 32].map(|bit| bits & bit != 0);
        Self { time, left, deadline, priority, pace, hold }
    }

    fn bits(self) -> u8 {
        let all = [self.time, self.left, self.deadline, self.priority, self.pace, self.hold];
        all.into_iter().enumerate().fold(0, |bits, (place, read)| bits | u8::from(read) << place)
    }

    /// The sum of both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::parse(self.bits() | other.bits())
    }

    /// Whether the socket option for messages gives any of it.
    pub fn reads_messages(self) -> bool {
        self.left || self.deadline
    }
}

/// A lane as the program reads it (`struct weft_lane`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneEntry {
    /// The class of its packets.
    pub class: u16,
    /// The first ring.
    pub first_ring: u16,
    /// The number of rings; 0 for a number that no lane has.
    pub rings: u16,
    /// The placement of its flows.
    pub spread: Spread,
    /// The metadata that the algorithms of its packets read.
    pub reads: Reads,
    /// The maximum number of tracked flows; further flows share the rings by hash.
    pub flow_bound: u32,
    /// The class of a qdisc on the port (`skb->priority`), after which the doorbell is posted; 0 without one.
    pub qdisc_class: u32,
    /// The maximum number of packets of the class in the NIC, over all lanes; 0 for no bound.
    pub packet_bound: u64,
    /// The packets that each ring holds; the port refuses further ones. 0: the kernel drops them instead.
    pub ring_bound: u64,
}

impl LaneEntry {
    /// The entry of a number that no lane has. No flow is placed in it.
    pub fn vacant() -> Self {
        Self {
            class: 0,
            first_ring: 0,
            rings: 0,
            spread: Spread::RoundRobin,
            reads: Reads::NOTHING,
            flow_bound: 0,
            qdisc_class: 0,
            packet_bound: 0,
            ring_bound: 0,
        }
    }

    /// The entry of a map element; `None` if the bytes are invalid.
    pub fn parse(bytes: &[u8; 32]) -> Option<Self> {
        let wide = |at: usize| bytes[at..].first_chunk().copied().map(u64::from_ne_bytes);
        let word = |at: usize| bytes[at..].first_chunk().copied().map(u32::from_ne_bytes);
        let spread = [Spread::RoundRobin, Spread::Hash, Spread::Queues];
        Some(Self {
            class: u16_at(bytes, 0)?,
            first_ring: u16_at(bytes, 2)?,
            rings: u16_at(bytes, 4)?,
            spread: spread.into_iter().find(|spread| spread.number() == bytes[6])?,
            reads: Reads::parse(bytes[7]),
            flow_bound: word(8)?,
            qdisc_class: word(12)?,
            packet_bound: wide(16)?,
            ring_bound: wide(24)?,
        })
    }

    /// The map element.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut out = [0; 32];
        out[0..2].copy_from_slice(&self.class.to_ne_bytes());
        out[2..4].copy_from_slice(&self.first_ring.to_ne_bytes());
        out[4..6].copy_from_slice(&self.rings.to_ne_bytes());
        out[6] = self.spread.number();
        out[7] = self.reads.bits();
        out[8..12].copy_from_slice(&self.flow_bound.to_ne_bytes());
        out[12..16].copy_from_slice(&self.qdisc_class.to_ne_bytes());
        out[16..24].copy_from_slice(&self.packet_bound.to_ne_bytes());
        out[24..32].copy_from_slice(&self.ring_bound.to_ne_bytes());
        out
    }
}

/// A metadata record (`struct weft_record`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The kind of the record.
    pub kind: RecordKind,
    /// The flow; `None` for packets that are not IP.
    pub key: Option<FlowKey>,
    /// Its lane.
    pub lane: u16,
    /// Its ring.
    pub ring: u16,
    /// Its class.
    pub class: u16,
}

/// The kind of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// A flow unknown to the NIC.
    New,
    /// A known flow whose metadata has changed.
    Changed,
    /// A flow that was removed from the table.
    Expired,
}

/// Reads sixteen bytes in network order; IPv4 is encoded as `::ffff:a.b.c.d`.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let octets: [u8; 16] = bytes.try_into().ok()?;
    Some(core::net::Ipv6Addr::from(octets).to_canonical())
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

impl Record {
    /// Parses a record; `None` if the bytes are invalid.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let kind = match u16_at(bytes, 62)? {
            0 => RecordKind::New,
            1 => RecordKind::Changed,
            2 => RecordKind::Expired,
            _ => return None,
        };
        Some(Self {
            kind,
            key: flow_key(bytes),
            lane: u16_at(bytes, 56)?,
            ring: u16_at(bytes, 58)?,
            class: u16_at(bytes, 60)?,
        })
    }
}

/// Parses a `struct weft_flow_key`; `None` for packets that are not IP.
pub fn flow_key(bytes: &[u8]) -> Option<FlowKey> {
    if *bytes.get(37)? == 0 {
        return None;
    }
    Some(FlowKey {
        src: address(bytes.get(0..16)?)?,
        dst: address(bytes.get(16..32)?)?,
        sport: u16_at(bytes, 32)?,
        dport: u16_at(bytes, 34)?,
        protocol: Protocol(*bytes.get(36)?),
    })
}
