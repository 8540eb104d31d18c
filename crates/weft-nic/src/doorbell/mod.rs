//! The OS/NIC interface (Loom, section 4.3): one eBPF program at the port's egress, one shared page of bells, and metadata
//! records for flows that are new or have changed.
//!
//! A bell of a known flow is one locked add to its ring's count and, when the ring's bit is not set already, one locked or:
//! 16 bytes at most, no message, no wake-up. See [`protocol`] for why none is lost.

mod layout;
pub mod protocol;
mod table;

pub use layout::{
    CLASSES, ClassBell, LANES, LaneEntry, RINGS, Record, RecordKind, RingBell, Shared, Spread, flow_key,
};
pub use table::{RULE_BYTES, TableError, check, encode};

use crate::plan::RingPlan;
use crate::sync::{AtomicU64, Ordering};
use weft_host::bpf::{BpfError, Object, Records, RunStats, SharedValue, Table};
use weft_policy::CompiledPolicy;
use weft_titan::page::QueuePage;

/// The compiled eBPF object, built from `bpf/` by this crate's build script.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/doorbell.bpf.o"));

/// Name of the program in the object.
const PROGRAM: &str = "weft_egress";
/// Name of the program that rings the bell behind a qdisc.
const PROGRAM_BEHIND: &str = "weft_behind";

/// Flows that have been silent for this long are taken off the flow table, so that lanes regain their bound.
pub const FLOW_IDLE: weft_units::Nanos = weft_units::Nanos::from_secs(10);

/// A cgroup as the program compares it: `bpf_skb_ancestor_cgroup_id(skb, level) == id`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CgroupEntry {
    /// The inode number of its directory.
    pub id: u64,
    /// Its depth below the root of the hierarchy, which is level 0.
    pub level: u32,
}

/// The loaded program and the page it shares with the NIC.
#[derive(Debug)]
pub struct Doorbells {
    object: Object,
    shared: SharedValue<Shared>,
    queues: SharedValue<QueuePage>,
}

impl Doorbells {
    /// Loads the program and fills its tables. `cgroups` are the policy's, resolved; `None` for one that does not exist
    /// (its rules match nothing).
    ///
    /// # Errors
    /// When the kernel refuses the program. The policy's size is to be checked first, by [`check`].
    pub fn load(
        policy: &CompiledPolicy,
        plan: &RingPlan,
        cgroups: &[Option<CgroupEntry>],
    ) -> Result<Self, BpfError> {
        let queues = plan.queues.as_ref().map_or(1, |plan| plan.queues);
        let counts = [policy.rules.len(), cgroups.len(), plan.rings.len(), queues].map(|n| n.max(1));
        let mut config = [0; 16];
        for (slot, count) in config.chunks_exact_mut(4).zip(counts) {
            slot.copy_from_slice(&(count as u32).to_ne_bytes());
        }
        let object = Object::load(OBJECT, &config)?;
        for (i, rule) in policy.rules.iter().enumerate() {
            object.set_element("rules", i as u32, &encode(rule))?;
        }
        for (i, lane) in plan.lanes.iter().enumerate() {
            object.set_element("lanes", i as u32, &lane.to_bytes())?;
        }
        for (i, cgroup) in cgroups.iter().enumerate() {
            let CgroupEntry { id, level } = cgroup.unwrap_or(CgroupEntry { id: 0, level: 0 });
            let mut element = [0; 16];
            element[..8].copy_from_slice(&id.to_ne_bytes());
            element[8..12].copy_from_slice(&level.to_ne_bytes());
            object.set_element("cgroups", i as u32, &element)?;
        }
        let shared = object.shared("doorbells")?;
        let queues = object.shared(weft_titan::page::MAP)?;
        Ok(Self { object, shared, queues })
    }

    /// Attaches the program to the egress of interface `ifindex` of the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach(&self, ifindex: u32) -> Result<(), BpfError> {
        self.object.attach_egress(PROGRAM, ifindex)
    }

    /// Attaches the bell behind a qdisc to the ingress of interface `ifindex`, the veth's far end, of the calling thread's
    /// network namespace: for lanes with a `qdisc_class`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach_behind(&self, ifindex: u32) -> Result<(), BpfError> {
        self.object.attach_ingress(PROGRAM_BEHIND, ifindex)
    }

    /// The shared page.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The page of the hardware queues of a multiqueue NIC.
    pub fn queues(&self) -> &QueuePage {
        &self.queues
    }

    /// The record ring; `on_record` gets every metadata record.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn records<'a>(&self, mut on_record: impl FnMut(Record) + 'a) -> Result<Records<'a>, BpfError> {
        self.object.records("records", move |bytes| {
            if let Some(record) = Record::parse(bytes) {
                on_record(record);
            }
        })
    }

    /// The program's run-time statistics.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn run_stats(&self) -> Result<RunStats, BpfError> {
        self.object.run_stats(PROGRAM)
    }

    /// The flow table.
    ///
    /// # Errors
    /// When its descriptor cannot be duplicated.
    pub fn flow_table(&self) -> Result<FlowTable, BpfError> {
        Ok(FlowTable { table: self.object.table("flows")?, next: 0.into() })
    }
}

/// The flow table, for tidying.
#[derive(Debug)]
pub struct FlowTable {
    table: Table,
    /// Where to go on.
    next: AtomicU64,
}

/// Where a flow's fields lie in `struct weft_flow`.
const LAST_SEEN: usize = 8;
const LAST_BELL: usize = 16;
const LANE: usize = 32;
const RING: usize = 34;

fn u64_at(flow: &[u8], at: usize) -> u64 {
    flow.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| u64::from_ne_bytes(*b))
}

fn index_at(flow: &[u8], at: usize) -> usize {
    flow.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |b| usize::from(u16::from_ne_bytes(*b)))
}

/// Whether nothing of the flow can still lie in its ring: `drained` in bpf/doorbell.bpf.c.
fn is_drained(shared: &Shared, flow: &[u8]) -> bool {
    shared.rings.get(index_at(flow, RING)).is_none_or(|ring| {
        let done = ring.done.load(Ordering::Acquire);
        done == ring.packets.load(Ordering::Acquire) || done >= u64_at(flow, LAST_BELL).saturating_add(64)
    })
}

impl FlowTable {
    /// Takes flows off the table that have been silent for [`FLOW_IDLE`] at `now` (the kernel's monotonic clock) and of
    /// which no packet waits, looking at no more than `bound`: it goes on where it ended the last time. Returns how many it
    /// looked at.
    pub fn expire(&self, shared: &Shared, now: weft_units::Nanos, bound: usize) -> usize {
        let mut kept = 0;
        let skip = self.next.load(Ordering::Relaxed) as usize;
        let seen = self.table.retain(skip, bound, |_, flow| {
            let idle = now.get().saturating_sub(u64_at(flow, LAST_SEEN)) > FLOW_IDLE.get();
            let expired = idle && is_drained(shared, flow);
            if expired && let Some(count) = shared.lanes.get(index_at(flow, LANE)) {
                count.flows.fetch_sub(1, Ordering::Relaxed);
            }
            kept += u64::from(!expired);
            !expired
        });
        let next = if seen < bound { 0 } else { skip as u64 + kept };
        self.next.store(next, Ordering::Relaxed);
        seen
    }
}
