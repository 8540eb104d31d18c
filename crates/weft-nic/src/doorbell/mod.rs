//! The OS/NIC interface (Loom, section 4.3): an eBPF program at the port's egress, a shared page of doorbells, and
//! metadata records for new or changed flows.
//!
//! A doorbell of a known flow is one locked add to its ring's count and, if the ring's bit is clear, one locked or. It
//! needs no message and no wake-up. [`protocol`] has the proof that none is lost. Three more locked adds serve the
//! bounds and the accounting.

mod guard;
pub mod protocol;
mod table;

pub use crate::layout::{
    CLASSES, ClassBell, LANES, LaneEntry, LaneFlows, RINGS, Record, RecordKind, RingBell, Shared, Spread,
    flow_key,
};
pub use guard::{Guard, infrastructure_rate};
pub use table::{MatchTables, PrepareError, PreparedTables, TableError, check, tables};

use crate::plan::RingPlan;
use crate::ring_accounting::NEVER_CAME;
use crate::sync::Ordering;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use weft_host::bpf::{BpfError, Object, ProgramFd, Records, RunStats, SharedValue, SkbFields, TestRun};
use weft_host::tap::{self, TapError};
use weft_titan::page::QueuePage;
use weft_units::{Instant, Nanos};

/// The compiled eBPF object, built from `bpf/` by this crate's build script.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/doorbell.bpf.o"));

/// The name of the program at the port's egress.
const PROGRAM: &str = "weft_egress";
/// The name of the program at the veth's far end.
const PROGRAM_BEHIND: &str = "weft_peer_ingress";

/// The names of the programs of a TAP.
const PROGRAM_TAP_QUEUE: &str = "weft_tap_queue";
const PROGRAM_TAP_GUARD: &str = "weft_tap_guard";

/// The name of the program that removes silent flows from the table.
const PROGRAM_EXPIRE: &str = "weft_expire";

/// The time after which a silent flow is removed from the flow table, so that its lane regains a place.
pub const FLOW_IDLE: Nanos = Nanos::from_secs(10);

/// A cgroup in the form that the program compares: `bpf_skb_ancestor_cgroup_id(skb, level) == id`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CgroupEntry {
    /// The inode number of its directory.
    pub id: u64,
    /// Its depth below the root of the hierarchy, which is level 0.
    pub level: u32,
}

/// The treatment of packets that bypass the program at the egress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bypass {
    /// They enter a ring: without classes there is none to escape from.
    Passes,
    /// They are dropped and counted.
    Drops,
}

/// Errors from attaching the programs of a TAP.
#[derive(Debug, thiserror::Error)]
pub enum TapProgramError {
    /// The object has no such program.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The TAP refused it.
    #[error(transparent)]
    Tap(#[from] TapError),
}

/// The number of a port in the policy's table of ports ([`CompiledPolicy::ports`](weft_policy::CompiledPolicy)), which
/// `port "name"` tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortNumber(pub u16);

impl PortNumber {
    /// The number of a port that no rule names.
    pub const NONE: Self = Self(0);
}

/// The read-only data of the programs (`struct weft_config`). No count is 0.
fn config_bytes(plan: &RingPlan, port: PortNumber) -> [u8; CONFIG] {
    let queues = plan.queues.as_ref().map_or(1, |plan| plan.queues);
    let words = [plan.rings.len().max(1) as u32, queues.max(1) as u32, u32::from(port.0)];
    let mut bytes = [0; CONFIG];
    for (slot, word) in bytes.chunks_exact_mut(4).zip(words) {
        slot.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// The size of the programs' read-only data.
const CONFIG: usize = 12;

/// The loaded programs and the pages that they share with the NIC.
#[derive(Debug)]
pub struct Doorbells {
    object: Object,
    shared: SharedValue<Shared>,
    queues: SharedValue<QueuePage>,
    guard: SharedValue<Guard>,
    tables: Arc<MatchTables>,
}

impl Doorbells {
    /// Loads the programs of the only port of a policy, and fills its tables. `cgroups` are the policy's, resolved; `None` for a
    /// cgroup that does not exist, whose rules match nothing until [`set_cgroup`](Self::set_cgroup) sets it.
    ///
    /// # Errors
    /// When the kernel rejects a program, or the tables do not fit.
    pub fn load(plan: &RingPlan, cgroups: &[Option<CgroupEntry>]) -> Result<Self, PrepareError> {
        let doorbells = Self::load_first(plan, PortNumber::NONE)?;
        doorbells.prepare_tables(plan, cgroups)?.commit()?;
        Ok(doorbells)
    }

    /// Loads the programs of the first of a policy's ports. Its tables are empty before they are prepared and committed.
    ///
    /// # Errors
    /// When the kernel rejects a program.
    pub fn load_first(plan: &RingPlan, port: PortNumber) -> Result<Self, BpfError> {
        let object = Object::load(OBJECT, &config_bytes(plan, port))?;
        let tables = Arc::new(MatchTables::of(&object)?);
        Self::of(object, plan, tables)
    }

    /// Loads the programs of a further port, which use `tables` of the first one.
    ///
    /// # Errors
    /// When the kernel rejects a program.
    pub fn load_sharing(
        plan: &RingPlan,
        port: PortNumber,
        tables: &Arc<MatchTables>,
    ) -> Result<Self, BpfError> {
        let object = Object::load_reusing(OBJECT, &config_bytes(plan, port), &tables.maps())?;
        Self::of(object, plan, Arc::clone(tables))
    }

    fn of(object: Object, plan: &RingPlan, tables: Arc<MatchTables>) -> Result<Self, BpfError> {
        for (i, lane) in plan.lanes.iter().enumerate() {
            object.set_element("lanes", i as u32, &lane.to_bytes())?;
        }
        let shared = object.shared("doorbells")?;
        let queues = object.shared(weft_titan::page::MAP)?;
        let guard: SharedValue<Guard> = object.shared("guard")?;
        guard.set(plan);
        Ok(Self { object, shared, queues, guard, tables })
    }

    /// Attaches the program to the egress of interface `ifindex` of the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach(&self, ifindex: u32) -> Result<(), BpfError> {
        self.object.attach_egress(PROGRAM, ifindex)
    }

    /// Attaches the guard of the rings to the ingress of interface `ifindex`, the veth's far end, in the calling
    /// thread's network namespace. It drops packets that bypassed the egress program, and posts the doorbells of lanes
    /// with a `qdisc_class`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach_peer_ingress(&self, ifindex: u32) -> Result<(), BpfError> {
        self.object.attach_ingress(PROGRAM_BEHIND, ifindex)
    }

    /// Attaches the programs of a port that is a TAP to the link of `queue`: the choice of the ring by the hash, and with
    /// [`Bypass::Drops`] the guard of the rings. Call it before the program at the egress is attached.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach_tap(&self, queue: BorrowedFd<'_>, bypass: Bypass) -> Result<(), TapProgramError> {
        self.guard.set_tap();
        tap::set_steering(queue, &self.object.program_fd(PROGRAM_TAP_QUEUE)?)?;
        if bypass == Bypass::Drops {
            tap::set_filter(queue, &self.object.program_fd(PROGRAM_TAP_GUARD)?)?;
        }
        Ok(())
    }

    /// The page of the guard.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The run-time statistics of the guard of the rings: the program at the veth's far end, or the TAP's.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn guard_stats(&self) -> Result<RunStats, BpfError> {
        self.object.run_stats(if self.guard.is_tap() { PROGRAM_TAP_GUARD } else { PROGRAM_BEHIND })
    }

    /// The shared page.
    pub fn shared(&self) -> &Shared {
        &self.shared
    }

    /// The page of the hardware queues of a multiqueue NIC.
    pub fn queues(&self) -> &QueuePage {
        &self.queues
    }

    /// Maps the record ring; `on_record` receives every metadata record.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn records<'a>(&self, mut on_record: impl FnMut(Record) + 'a) -> Result<Records<'a>, BpfError> {
        self.object.records("records", "wakes", move |bytes| {
            if let Some(record) = Record::parse(bytes) {
                on_record(record);
            }
        })
    }

    /// The run-time statistics of the program at the port's egress.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn run_stats(&self) -> Result<RunStats, BpfError> {
        self.object.run_stats(PROGRAM)
    }

    /// Runs the program at the port's egress `repeat` times on `frame`, which is not sent. It classifies the frame, and posts
    /// doorbells.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn test(&self, frame: &[u8], given: SkbFields, repeat: u32) -> Result<TestRun, BpfError> {
        self.object.program_fd(PROGRAM)?.test(frame, given, repeat)
    }

    /// The flow table.
    ///
    /// # Errors
    /// When its descriptor cannot be duplicated.
    pub fn flow_table(&self) -> Result<FlowTable, BpfError> {
        Ok(FlowTable { expire: self.object.program_fd(PROGRAM_EXPIRE)? })
    }
}

/// The size of `struct weft_expiry`, and the offsets of `now_ns`, `idle_ns`, `seen` and `expired`.
const EXPIRY: usize = 24;
const EXPIRY_AT: [usize; 4] = [0, 8, 16, 20];

/// The flow table, for the expiry of silent flows.
#[derive(Debug)]
pub struct FlowTable {
    expire: ProgramFd,
}

/// The result of an expiry pass.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tidied {
    /// The number of flows checked.
    pub seen: u32,
    /// The number of flows removed.
    pub expired: u32,
}

impl FlowTable {
    /// Removes flows without waiting packets that have been silent for [`FLOW_IDLE`] at `now` (the kernel's monotonic
    /// clock). The kernel walks the whole table; the traffic does not wait for it.
    ///
    /// # Errors
    /// When the kernel rejects the run of the program.
    pub fn expire(&self, now: Instant) -> Result<Tidied, BpfError> {
        let [now_at, idle_at, seen_at, expired_at] = EXPIRY_AT;
        let mut walk = [0; EXPIRY];
        walk[now_at..now_at + 8].copy_from_slice(&now.as_nanos().to_ne_bytes());
        walk[idle_at..idle_at + 8].copy_from_slice(&FLOW_IDLE.get().to_ne_bytes());
        self.expire.run(&mut walk)?;
        let number =
            |at: usize| walk[at..].first_chunk().map_or(0, |bytes: &[u8; 4]| u32::from_ne_bytes(*bytes));
        Ok(Tidied { seen: number(seen_at), expired: number(expired_at) })
    }
}

/// Ends the placement by hash in lanes whose flows beyond the bound have no packets left. A fifth of a second after the
/// last of their packets, all packets posted to the lane's rings until then must be done.
pub fn end_hashing(shared: &Shared, lanes: &[LaneEntry], now: Instant) {
    for (lane, flows) in lanes.iter().zip(&shared.lanes) {
        let last = flows.untracked.load(Ordering::Acquire);
        let until = last.saturating_add(NEVER_CAME.get());
        if last == 0 || now.as_nanos() <= until {
            continue;
        }
        let first = usize::from(lane.first_ring);
        let mut rings = shared.rings.iter().skip(first).take(usize::from(lane.rings.max(1)));
        let left = |doorbell: &RingBell| {
            let posted = doorbell.packets.load(Ordering::Acquire);
            doorbell.done.load(Ordering::Acquire) < posted && doorbell.passed.load(Ordering::Acquire) <= until
        };
        if !rings.any(left) {
            // Fails when another packet was placed meanwhile.
            let _ = flows.untracked.compare_exchange(last, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod layout_tests;
