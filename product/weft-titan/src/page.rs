//! The page that describes a device's queues: `bpf/queues.h` in Rust. Both sides assert the sizes.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use weft_host::bpf::SharedLayout;
use weft_units::{FlowKey, TxQueueId};

/// The maximum number of assigned queues of a device (`WEFT_QUEUES`).
pub const QUEUES: usize = 256;
/// The number of slots of packets that a NIC holds outside its rings (`WEFT_HELD`).
pub const HELD: usize = 1024;
/// The name of the page's map, in every object that uses it.
pub const MAP: &str = "queues";

/// A queue. The first line is written when a packet is assigned, the second when it has left.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Queue {
    /// Segments assigned.
    pub packets: AtomicU64,
    /// Frame bytes assigned.
    pub bytes: AtomicU64,
    /// Flows that moved here from another queue.
    pub moves: AtomicU64,
    /// Flows that became active here.
    pub activations: AtomicU64,
    pad0: [AtomicU64; 4],
    /// Segments whose departures were seen.
    pub left_packets: AtomicU64,
    /// Frame bytes whose departures were seen.
    pub left_bytes: AtomicU64,
    /// Segments whose departures were missed, and which were later found to have left.
    pub unseen_packets: AtomicU64,
    /// Frame bytes whose departures were missed.
    pub unseen_bytes: AtomicU64,
    pad1: [AtomicU64; 4],
}

/// The page.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct QueuePage {
    /// 1: the queues are served by their weights; 0: all equally.
    pub use_weights: AtomicU32,
    /// Not 0: a queue with more than one flow sends chunks of at most this many bytes (DSOS).
    pub segment_bytes: AtomicU32,
    /// The minimum interval, in nanoseconds, at which the NIC takes changed weights.
    pub update_interval_ns: AtomicU64,
    /// The number of queues of our NIC, written by it; 0 when the page belongs to another device.
    pub nic_queues: AtomicU64,
    /// 1: all queues send chunks while any has more than one flow.
    pub segment_all: AtomicU32,
    /// 1: flows with missed departures stay counted, for tests that check each one.
    pub sweep_off: AtomicU32,
    pad0: [AtomicU64; 4],
    /// Written by the NIC. A queue's number plus 1 while a packet of a flow not yet known is being fetched from a ring
    /// of that queue; otherwise 0.
    pub fetching: AtomicU64,
    /// Written by the NIC: the sum of `held`, and never less.
    pub holding: AtomicU64,
    pad2: [AtomicU64; 6],
    /// Written by the NIC: the number of unfinished packets, by [`held_slot`] of their flow.
    pub held: [AtomicU32; HELD],
    /// The active flows and the weight of each queue, as [`Load`]. They are adjacent, so the search for the least
    /// occupied queue takes one cache line from other cores per eight queues.
    pub loads: [LoadWord; QUEUES],
    /// The monotonic time, in nanoseconds, of a queue's first weight change that the NIC has not taken yet; 0 when it
    /// has taken all.
    pub changed_ns: [AtomicU64; QUEUES],
    /// The counts of the queues.
    pub queues: [Queue; QUEUES],
}

/// The bits of a [`LoadWord`] that count flows: enough for all entries of the flow table.
const FLOWS_BITS: u32 = 20;

/// The load of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Load {
    /// The number of active flows: those with a packet below their socket.
    pub flows: u64,
    /// The sum of their weights; 0 without active flows.
    pub weight: u64,
}

/// A [`Load`] in one word (`WEFT_LOAD`): bits 0..19 flows, 20..63 weight.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct LoadWord(AtomicU64);

impl LoadWord {
    /// Reads the load. Sequentially consistent: the NIC clears `changed_ns` before.
    pub fn get(&self) -> Load {
        let word = self.0.load(Ordering::SeqCst);
        Load { flows: word & ((1 << FLOWS_BITS) - 1), weight: word >> FLOWS_BITS }
    }

    /// Writes the load.
    pub fn set(&self, load: Load) {
        self.0.store(load.weight << FLOWS_BITS | load.flows, Ordering::SeqCst);
    }
}

const _: () = assert!(size_of::<Queue>() == 128);
const _: () = assert!(size_of::<QueuePage>() == 64 + 64 + 4 * HELD + 144 * QUEUES);

// SAFETY: repr(C), integer atomics only, and the layout of `struct weft_queues` (sizes asserted on both sides).
unsafe impl SharedLayout for QueuePage {}

impl QueuePage {
    fn sum(&self, of: impl Fn(&Queue) -> &AtomicU64) -> u64 {
        self.queues.iter().map(|queue| of(queue).load(Ordering::Relaxed)).sum()
    }

    /// The load of a queue; zero for an unknown queue.
    pub fn load(&self, queue: TxQueueId) -> Load {
        self.loads.get(queue.index()).map_or_else(Load::default, LoadWord::get)
    }

    /// The number of flows that are active now.
    pub fn active(&self) -> u64 {
        self.loads.iter().map(|load| load.get().flows).sum()
    }

    /// The number of flows that became active so far.
    pub fn activations(&self) -> u64 {
        self.sum(|queue| &queue.activations)
    }

    /// The number of these that moved from another queue.
    pub fn moves(&self) -> u64 {
        self.sum(|queue| &queue.moves)
    }

    /// Resets all counts of the queues to 0. No program may count meanwhile.
    pub fn empty(&self) {
        for queue in &self.queues {
            let counts = [&queue.packets, &queue.bytes, &queue.moves, &queue.activations];
            let others = [&queue.left_packets, &queue.left_bytes, &queue.unseen_packets, &queue.unseen_bytes];
            counts.into_iter().chain(others).for_each(|count| count.store(0, Ordering::Relaxed));
        }
        self.loads.iter().for_each(|load| load.set(Load::default()));
        self.changed_ns.iter().for_each(|changed| changed.store(0, Ordering::Relaxed));
    }
}

impl Default for QueuePage {
    fn default() -> Self {
        Self {
            use_weights: AtomicU32::default(),
            segment_bytes: AtomicU32::default(),
            update_interval_ns: AtomicU64::default(),
            nic_queues: AtomicU64::default(),
            segment_all: AtomicU32::default(),
            sweep_off: AtomicU32::default(),
            pad0: Default::default(),
            fetching: AtomicU64::default(),
            holding: AtomicU64::default(),
            pad2: Default::default(),
            held: [const { AtomicU32::new(0) }; HELD],
            loads: core::array::from_fn(|_| LoadWord::default()),
            changed_ns: [const { AtomicU64::new(0) }; QUEUES],
            queues: core::array::from_fn(|_| Queue::default()),
        }
    }
}

/// The slot of a flow in [`QueuePage::held`]: a hash of its five-tuple, the same as `flow_hash` in bpf/flow_key.h. IPv4
/// addresses are hashed as `::ffff:a.b.c.d`.
pub fn held_slot(key: &FlowKey) -> usize {
    flow_hash(key) as usize % HELD
}

/// The hash of a five-tuple: `flow_hash` in bpf/flow_key.h. The words of the addresses are taken in memory order.
pub fn flow_hash(key: &FlowKey) -> u32 {
    let words = |address: core::net::IpAddr| -> [u32; 4] {
        let octets = match address {
            core::net::IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            core::net::IpAddr::V6(v6) => v6.octets(),
        };
        core::array::from_fn(|i| {
            u32::from_ne_bytes([octets[4 * i], octets[4 * i + 1], octets[4 * i + 2], octets[4 * i + 3]])
        })
    };
    let (src, dst) = (words(key.src), words(key.dst));
    let mut h = u32::from(key.sport) ^ (u32::from(key.dport) << 16) ^ u32::from(key.protocol.0);
    for i in 0..4 {
        h = (h ^ src[i] ^ dst[i].rotate_left(7)).wrapping_mul(0x9e37_79b1);
    }
    h ^= h >> 15;
    h = h.wrapping_mul(0x85eb_ca77);
    h ^ (h >> 13)
}
