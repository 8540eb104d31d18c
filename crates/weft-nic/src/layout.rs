//! What the eBPF program and the transmit worker share: `bpf/doorbell.h` in Rust. Both sides assert the sizes.

use crate::sync::{AtomicU32, AtomicU64};
use core::net::IpAddr;
use weft_host::bpf::SharedLayout;
use weft_units::{FlowKey, Protocol};

/// Most queues of one macvtap (`TAP_MAX_QUEUES`, drivers/net/tap.c).
pub const RINGS: usize = 256;
/// Most lanes of a policy.
pub const LANES: usize = 512;
/// Most classes of a policy.
pub const CLASSES: usize = 256;

/// One descriptor ring's doorbell: a cache line of its own, since any core may ring it.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RingBell {
    /// Packets posted.
    pub packets: AtomicU64,
    /// Places taken in the ring, where it has a bound: packets posted, and for a moment those that are about to be posted or
    /// refused.
    pub taken: AtomicU64,
    /// Packets that the NIC has taken off the ring for good.
    pub done: AtomicU64,
    /// When a multiqueue NIC's ring had its last packet, in nanoseconds of the kernel's monotonic clock: for the choice of a new flow's ring.
    pub last: AtomicU64,
    /// All that was posted before this time of the kernel's monotonic clock is done; in nanoseconds.
    pub passed: AtomicU64,
    pad: [AtomicU64; 3],
}

/// What a class has posted, whatever the ring, and in a cache line of its own what it was refused.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct ClassBell {
    /// Packets posted; for a moment also one that is about to be refused.
    pub packets: AtomicU64,
    /// Frame bytes posted.
    pub bytes: AtomicU64,
    /// Packets of the class's own rings that are gone for good: the sum of their [`RingBell::done`].
    pub done: AtomicU64,
    pad0: [AtomicU64; 5],
    /// Packets of flows beyond the lane's flow bound.
    pub untracked: AtomicU64,
    /// Refused because as many wait as the class may have: packets, frame bytes.
    pub bound: [AtomicU64; 2],
    /// Refused because their ring was full.
    pub full: [AtomicU64; 2],
    /// Refused because their flow waited for what it had left in another ring.
    pub moving: [AtomicU64; 2],
    pad1: AtomicU64,
}

/// The flows of a lane.
#[repr(C)]
#[derive(Debug)]
pub struct LaneFlows {
    /// Tracked now.
    pub flows: AtomicU32,
    /// Where the next new flow goes.
    pub next: AtomicU32,
    /// When the last packet of a flow beyond the bound was placed, in nanoseconds of the kernel's monotonic clock; 0 when
    /// none of them can be waiting. Until then all new flows of the lane go by hash.
    pub untracked: AtomicU64,
}

/// The shared page.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Shared {
    /// Bit q: ring q was posted since the NIC last looked.
    pub ready: [AtomicU64; RINGS / 64],
    pad0: [AtomicU64; 4],
    /// 1: the NIC wants one wake-up.
    pub sleeping: AtomicU32,
    pad1: [AtomicU32; 15],
    /// Wake-ups sent.
    pub wakeups: AtomicU64,
    /// Metadata records sent.
    pub records: AtomicU64,
    /// Metadata records that found the record ring full (they are sent again with the flow's next packet).
    pub records_lost: AtomicU64,
    pad2: [AtomicU64; 5],
    /// One doorbell for each ring.
    pub rings: [RingBell; RINGS],
    /// One count for each class.
    pub classes: [ClassBell; CLASSES],
    /// One count for each lane.
    pub lanes: [LaneFlows; LANES],
}

impl Default for Shared {
    /// A page on which nothing has been posted, for a ringing side in this process.
    fn default() -> Self {
        fn zeros<const N: usize>() -> [AtomicU64; N] {
            core::array::from_fn(|_| AtomicU64::new(0))
        }
        let ring = |_| RingBell {
            packets: 0.into(),
            taken: 0.into(),
            done: 0.into(),
            last: 0.into(),
            passed: 0.into(),
            pad: zeros(),
        };
        let class = |_| ClassBell {
            packets: 0.into(),
            bytes: 0.into(),
            done: 0.into(),
            pad0: zeros(),
            untracked: 0.into(),
            bound: zeros(),
            full: zeros(),
            moving: zeros(),
            pad1: 0.into(),
        };
        let lane = |_| LaneFlows { flows: 0.into(), next: 0.into(), untracked: 0.into() };
        Self {
            ready: zeros(),
            pad0: zeros(),
            sleeping: 0.into(),
            pad1: core::array::from_fn(|_| AtomicU32::new(0)),
            wakeups: 0.into(),
            records: 0.into(),
            records_lost: 0.into(),
            pad2: zeros(),
            rings: core::array::from_fn(ring),
            classes: core::array::from_fn(class),
            lanes: core::array::from_fn(lane),
        }
    }
}

const _: () = assert!(size_of::<RingBell>() == 64);
const _: () = assert!(size_of::<ClassBell>() == 128);
const _: () = assert!(size_of::<Shared>() == 64 * 3 + 64 * RINGS + 128 * CLASSES + 16 * LANES);

// SAFETY: repr(C), integer atomics and padding of integer atomics only, the same layout as struct weft_doorbells (both
// sides assert the sizes, and a test on real packets reads what the program wrote).
unsafe impl SharedLayout for Shared {}

/// How the flows of a lane are spread over its rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spread {
    /// Each new flow goes to the next ring.
    RoundRobin,
    /// By a hash of the five-tuple, as RSS and `skb_tx_hash` do.
    Hash,
    /// The packet's hash says the hardware queue; the flows of a queue are spread over its rings.
    Queues,
}

impl Spread {
    /// `WEFT_SPREAD_*`.
    fn number(self) -> u16 {
        match self {
            Self::RoundRobin => 0,
            Self::Hash => 1,
            Self::Queues => 2,
        }
    }
}

/// A lane as the program sees it (`struct weft_lane`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaneEntry {
    /// The class that its packets count for.
    pub class: u16,
    /// The first of its rings.
    pub first_ring: u16,
    /// How many rings it has, at least one.
    pub rings: u16,
    /// How its flows are spread.
    pub spread: Spread,
    /// How many flows are tracked at most; those beyond share the rings by hash.
    pub flow_bound: u32,
    /// When not zero: the class of a qdisc on the port (`skb->priority`); the doorbell is then posted behind the qdisc.
    pub qdisc_class: u32,
    /// How many packets of its class may be in the NIC, whatever the lane; 0: any number.
    pub packet_bound: u64,
    /// How many packets each of its rings holds; beyond them packets are refused at the port. 0: the kernel drops them.
    pub ring_bound: u64,
}

impl LaneEntry {
    /// The map element.
    pub fn to_bytes(self) -> [u8; 32] {
        let mut out = [0; 32];
        out[0..2].copy_from_slice(&self.class.to_ne_bytes());
        out[2..4].copy_from_slice(&self.first_ring.to_ne_bytes());
        out[4..6].copy_from_slice(&self.rings.to_ne_bytes());
        out[6..8].copy_from_slice(&self.spread.number().to_ne_bytes());
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
    /// What it tells.
    pub kind: RecordKind,
    /// The flow; `None` for what is not IP.
    pub key: Option<FlowKey>,
    /// Its lane.
    pub lane: u16,
    /// Its ring.
    pub ring: u16,
    /// Its class.
    pub class: u16,
}

/// What a record tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// A flow that the NIC does not know.
    New,
    /// A known flow whose metadata has changed.
    Changed,
    /// A flow that was taken off the table.
    Expired,
}

/// Reads sixteen bytes in network order; IPv4 comes as `::ffff:a.b.c.d`.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let octets: [u8; 16] = bytes.try_into().ok()?;
    Some(core::net::Ipv6Addr::from(octets).to_canonical())
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(offset..offset + 2)?.try_into().ok()?))
}

impl Record {
    /// Reads a record; `None` for anything that is not one.
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

/// Reads a `struct weft_flow_key`; `None` for what is not IP.
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
