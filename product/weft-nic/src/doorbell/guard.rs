//! The protection against packets scheduled in another class: `bpf/guard.h` in Rust. Both sides assert the size.

use super::CgroupEntry;
use crate::plan::RingPlan;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use std::hash::{BuildHasher, Hasher, RandomState};
use weft_host::bpf::SharedLayout;
use weft_policy::infrastructure_rate;
use weft_titan::match_table::CgroupId;
use weft_units::{BitsPerSec, Bytes, Counted, LaneId, Packets};

/// The number of hash slots of cgroups and of interfaces, each with its own share of infrastructure.
const SENDERS: usize = 64;
/// The elements of the counts of arrivals.
const ARRIVAL_CORES: usize = 16;
/// Flag: the port has a qdisc, so the doorbell is posted before the ring.
const BEHIND: u32 = 4;
/// Flag: the port is a TAP.
const TAP: u32 = 8;
/// Flag: the NIC is stopping or the port has no carrier, so the port refuses all packets.
const CLOSED: u32 = 16;

impl CgroupEntry {
    /// The level of a cgroup when the root of the hierarchy is not visible; the program then tests all levels.
    pub const ANY_LEVEL: u32 = CgroupId::ANY_LEVEL;
}

/// Packets that have passed the far end on some cores.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Arrivals {
    packets: AtomicU64,
    bytes: AtomicU64,
    pad: [AtomicU64; 6],
}

/// The page shared by the programs and the NIC.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Guard {
    token: AtomicU64,
    /// Segments of super-packets that were cut behind their doorbell, and posted before the ring.
    pub cut_behind: AtomicU64,
    flags: AtomicU32,
    infrastructure: AtomicU32,
    nanos_per_kib: AtomicU32,
    pad0: [AtomicU32; 9],
    /// Packets dropped before the rings because the egress program had not seen them.
    pub unannounced: AtomicU64,
    /// Packets dropped at the egress because their class cannot be determined, or their source address is that of a group.
    pub obscured: AtomicU64,
    /// Packets of infrastructure beyond its share, which were scheduled as any other.
    pub excess: AtomicU64,
    /// Packets that passed unscheduled while the NIC had no heartbeat.
    pub passed: AtomicU64,
    /// Their bytes.
    pub passed_bytes: AtomicU64,
    /// Packets announced beyond one for each super-packet that the kernel cuts before the ring.
    pub cut: AtomicU64,
    /// Packets of sockets whose maker is unknown, while rows test it.
    pub unknown_makers: AtomicU64,
    pad1: AtomicU64,
    own: AtomicU64,
    others: AtomicU64,
    forwarded: AtomicU64,
    pad2: [AtomicU64; 5],
    senders: [AtomicU64; SENDERS],
    arrivals: [Arrivals; ARRIVAL_CORES],
}

const _: () = assert!(size_of::<Guard>() == 64 * 3 + 8 * SENDERS + 64 * ARRIVAL_CORES);

// SAFETY: repr(C), integer atomics and padding of integer atomics only, the same layout as struct weft_guard (both sides
// assert the size, and tests on real packets read what the program wrote).
unsafe impl SharedLayout for Guard {}

impl Guard {
    /// Initialises the page for `plan`, before the programs are attached.
    pub(super) fn set(&self, plan: &RingPlan) {
        // Keyed by the kernel's random source and never disclosed.
        self.token.store(RandomState::new().build_hasher().finish(), Ordering::Relaxed);
        self.resume(plan);
    }

    /// Sets a page that was in use for `plan`, whose packets on their way keep their evidence. The port refuses nothing.
    pub(super) fn resume(&self, plan: &RingPlan) {
        let behind = plan.lanes.iter().any(|lane| lane.qdisc_class != 0);
        let flags = if behind { BEHIND } else { 0 };
        self.flags.store(flags, Ordering::Relaxed);
        self.set_infrastructure(plan.infrastructure);
    }

    /// Sets the lane of infrastructure; `None` where the policy has a class for it.
    pub fn set_infrastructure(&self, lane: Option<LaneId>) {
        self.infrastructure.store(lane.map_or(u32::MAX, |lane| lane.0), Ordering::Relaxed);
    }

    /// Sets the share of infrastructure on a link of `rate` with `ports` ports, which divide it evenly. Without it, all
    /// infrastructure is beyond its share.
    pub fn set_link_rate(&self, rate: BitsPerSec, ports: usize) {
        let share = (infrastructure_rate(rate).get() / ports.max(1) as u64).max(1);
        let nanos = 1024 * 8 * 1_000_000_000 / share;
        self.nanos_per_kib.store(u32::try_from(nanos).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    /// Notes that the port is a TAP, before the programs are attached.
    pub(super) fn set_tap(&self) {
        self.flags.fetch_or(TAP, Ordering::Relaxed);
    }

    /// The packets that have passed the far end of a veth, counted as the rings hold them.
    pub fn arrivals(&self) -> Counted {
        let of = |arrivals: &Arrivals| Counted {
            packets: Packets(arrivals.packets.load(Ordering::Relaxed)),
            bytes: Bytes(arrivals.bytes.load(Ordering::Relaxed)),
        };
        self.arrivals.iter().map(of).sum()
    }

    /// Refuses all packets from now on. Those in the port stay.
    pub(crate) fn close(&self) {
        self.flags.fetch_or(CLOSED, Ordering::Release);
    }

    /// Lets packets enter again.
    pub(crate) fn open(&self) {
        self.flags.fetch_and(!CLOSED, Ordering::Release);
    }

    /// Whether it refuses all packets.
    pub(crate) fn is_closed(&self) -> bool {
        self.flags.load(Ordering::Acquire) & CLOSED != 0
    }
}

#[cfg(test)]
impl Guard {
    /// Compares each field with that of the program.
    pub(super) fn same_as(layout: &weft_host::bpf::StructLayout) {
        use core::mem::offset_of;
        assert_eq!(layout.size, size_of::<Self>());
        let fields = [
            ("token", offset_of!(Self, token)),
            ("cut_behind", offset_of!(Self, cut_behind)),
            ("flags", offset_of!(Self, flags)),
            ("infrastructure", offset_of!(Self, infrastructure)),
            ("nanos_per_kib", offset_of!(Self, nanos_per_kib)),
            ("unannounced", offset_of!(Self, unannounced)),
            ("obscured", offset_of!(Self, obscured)),
            ("excess", offset_of!(Self, excess)),
            ("passed", offset_of!(Self, passed)),
            ("passed_bytes", offset_of!(Self, passed_bytes)),
            ("cut", offset_of!(Self, cut)),
            ("unknown_makers", offset_of!(Self, unknown_makers)),
            ("own", offset_of!(Self, own)),
            ("others", offset_of!(Self, others)),
            ("forwarded", offset_of!(Self, forwarded)),
            ("senders", offset_of!(Self, senders)),
            ("arrivals", offset_of!(Self, arrivals)),
        ];
        for (name, offset) in fields {
            assert_eq!(layout.offset(name), Some(offset), "weft_guard.{name}");
        }
        let named = layout.offsets.keys().filter(|name| !name.starts_with("pad")).count();
        assert_eq!(named, fields.len(), "weft_guard has fields that nobody compares");
    }
}
