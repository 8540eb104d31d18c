//! The OS/NIC interface (Loom, section 4.3): an eBPF program at the port's egress, a shared page of doorbells, and
//! metadata records for new or changed flows.
//!
//! A doorbell of a known flow is one locked add to its ring's count and, if the ring's bit is clear, one locked or. It
//! needs no message and no wake-up. [`protocol`] has the proof that none is lost. Three more locked adds serve the
//! bounds and the accounting.

mod egress;
mod fields;
mod guard;
mod maps;
mod messages;
pub mod protocol;
mod socket_owner;
mod table;

pub use crate::layout::{
    CLASSES, ClassBell, LANES, LaneEntry, LaneFlows, PORTS, Page, RINGS, Reads, Record, RecordKind, RingBell,
    Shared, Spread, Summary, flow_key,
};
pub use egress::EgressError;
pub use guard::Guard;
pub use maps::NicMaps;
pub(crate) use maps::{OWN, shared_maps};
pub use table::{MatchTables, PrepareError, PreparedTables, TableError, build_tables, check, tables};

use crate::plan::RingPlan;
use crate::ring_accounting::NEVER_CAME;
use crate::sync::Ordering;
use fields::KernelFields;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weft_host::bpf::{
    BpfError, FilterId, MapFd, Object, ObjectOptions, ProgramFd, Records, RunStats, SharedValue, SkbFields,
    TestRun,
};
use weft_host::tap::{self, TapError};
use weft_units::{Instant, Nanos};

/// The compiled eBPF object, built from `bpf/` by this crate's build script.
static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/doorbell.bpf.o"));

/// The name of the program at the port's egress.
const PROGRAM: &str = "weft_egress";
/// The name of the program at the veth's far end.
const PROGRAM_FAR: &str = "weft_peer_ingress";
/// The name of the program before the rings of a macvtap.
const PROGRAM_GUARD: &str = "weft_ring_ingress";

/// The names of the programs of a TAP.
const PROGRAM_TAP_QUEUE: &str = "weft_tap_queue";
const PROGRAM_TAP_GUARD: &str = "weft_tap_guard";

/// The name of the program that removes silent flows from the table.
const PROGRAM_EXPIRE: &str = "weft_expire";

/// All programs of the object.
const PROGRAMS: [&str; 6] =
    [PROGRAM, PROGRAM_FAR, PROGRAM_GUARD, PROGRAM_TAP_QUEUE, PROGRAM_TAP_GUARD, PROGRAM_EXPIRE];
/// The programs that a port of the other kind needs.
const NOT_OF_VETH: [&str; 2] = [PROGRAM_TAP_QUEUE, PROGRAM_TAP_GUARD];
const NOT_OF_TAP: [&str; 2] = [PROGRAM_FAR, PROGRAM_GUARD];

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
    /// They enter a ring: no class exists that they could escape from.
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

/// The place of the rings, which decides which programs a port has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RingPlace {
    /// Behind a veth.
    Veth,
    /// In a TAP.
    Tap,
}

/// The numbers of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortNumbers {
    /// Its bit in the summary.
    pub place: u32,
    /// The number of its name, which `port "name"` tests; 0: none.
    pub name: u16,
    /// Its worker.
    pub worker: usize,
}

/// The read-only data of the programs (`struct weft_config`), with the places of the kernel's fields. No count is 0.
fn config_bytes(plan: &RingPlan, port: PortNumbers, fields: KernelFields, mptcp: bool) -> [u8; CONFIG] {
    let queues = plan.queues.as_ref().map_or(1, |plan| plan.queues);
    let net_cls = u32::from(weft_host::net_cls::has_net_cls());
    let rings = plan.rings.len().max(1) as u32;
    let queues = queues.max(1) as u32;
    let own = [rings, queues, u32::from(port.name), port.place, net_cls];
    let words = own.into_iter().chain(fields.socket).chain(fields.packet).chain([mptcp.into()]);
    let mut bytes = [0; CONFIG];
    for (slot, word) in bytes.chunks_exact_mut(4).zip(words) {
        slot.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

/// The size of the programs' read-only data.
const CONFIG: usize = 52;

/// The loaded programs of a port, and the pages that they share with the NIC.
#[derive(Debug)]
pub struct Doorbells {
    object: Object,
    maps: Arc<NicMaps>,
    shared: Page<Shared>,
    guard: SharedValue<Guard>,
    lanes: Mutex<Vec<LaneEntry>>,
    place: RingPlace,
}

impl Doorbells {
    /// Loads the programs of the only port of its maps, behind a veth, and fills the tables: [`NicMaps::create`] and
    /// [`for_port`](Self::for_port).
    ///
    /// # Errors
    /// When the kernel rejects a program, or the tables do not fit.
    pub fn load(plan: &RingPlan, cgroups: &[Option<CgroupEntry>]) -> Result<Arc<Self>, PrepareError> {
        let maps = NicMaps::create(plan, cgroups)?;
        Ok(Self::for_port(&maps, plan, PortNumbers::default(), RingPlace::Veth)?)
    }

    /// Loads the programs of a port, and fills its table of lanes.
    ///
    /// # Errors
    /// When the kernel rejects a program.
    pub fn for_port(
        maps: &Arc<NicMaps>,
        plan: &RingPlan,
        port: PortNumbers,
        place: RingPlace,
    ) -> Result<Arc<Self>, BpfError> {
        Self::over(maps, plan, port, place, &[])
    }

    /// Loads the programs of a port over `own`, maps that were in use, or new ones without. Packets on their way keep their
    /// evidence, flows their rings.
    ///
    /// # Errors
    /// When the kernel rejects a program, or a map is of another version.
    pub(crate) fn over(
        maps: &Arc<NicMaps>,
        plan: &RingPlan,
        port: PortNumbers,
        place: RingPlace,
        own: &[(&'static str, MapFd)],
    ) -> Result<Arc<Self>, BpfError> {
        let load = |mptcp| {
            let config = config_bytes(plan, port, maps.kernel_fields(), mptcp);
            load_programs((maps, port.worker), &config, plan.flow_table, place, own)
        };
        let object = socket_owner::with_mptcp(load)?;
        for (i, lane) in plan.lanes.iter().enumerate() {
            object.set_element("lanes", i as u32, &lane.to_bytes())?;
        }
        let shared = Page::Mapped(Arc::new(object.shared("doorbells")?));
        let guard: SharedValue<Guard> = object.shared("guard")?;
        if own.is_empty() {
            guard.set(plan);
        } else {
            guard.resume(plan);
        }
        let (maps, lanes) = (Arc::clone(maps), Mutex::new(plan.lanes.clone()));
        let port = Arc::new(Self { object, maps, shared, guard, lanes, place });
        port.maps.register(&port);
        Ok(port)
    }

    /// Attaches the program to the egress of interface `ifindex` of the calling thread's network namespace.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach(&self, ifindex: u32) -> Result<FilterId, BpfError> {
        self.object.attach_egress(PROGRAM, ifindex)
    }

    ///
    /// # Errors
    /// When the kernel refuses.
    pub(crate) fn replace_behind(
        &self,
        [far, tap]: [u32; 2],
        former: [FilterId; 2],
    ) -> Result<[FilterId; 2], BpfError> {
        let guard = self.object.replace_ingress(PROGRAM_GUARD, tap, former[1])?;
        Ok([self.object.replace_ingress(PROGRAM_FAR, far, former[0])?, guard])
    }

    /// The maps of the port.
    ///
    /// # Errors
    /// When a descriptor cannot be duplicated.
    pub(crate) fn own_maps(&self) -> Result<Vec<(&'static str, MapFd)>, BpfError> {
        OWN.into_iter().map(|name| Ok((name, self.object.map_fd(name)?))).collect()
    }

    /// Attaches the programs behind the veth, in the calling thread's network namespace, to the ingress of the interfaces
    /// with these numbers: to the far end the one that keeps frames to groups out of the macvlan's own ways, and to the
    /// macvtap the guard of the rings. The guard drops packets that bypassed the egress program, posts the segments of those
    /// that were cut since, and the doorbells of lanes with a `qdisc_class`.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn attach_behind(&self, [far, tap]: [u32; 2]) -> Result<[FilterId; 2], BpfError> {
        let guard = self.object.attach_ingress(PROGRAM_GUARD, tap)?;
        Ok([self.object.attach_ingress(PROGRAM_FAR, far)?, guard])
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

    /// The maps shared by the ports of the NIC.
    pub fn maps(&self) -> &Arc<NicMaps> {
        &self.maps
    }

    /// The page of the guard.
    pub fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The run-time statistics of the guard of the rings: the macvtap's with the program at the veth's far end, or the TAP's.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn guard_stats(&self) -> Result<RunStats, BpfError> {
        match self.place {
            RingPlace::Tap => self.object.run_stats(PROGRAM_TAP_GUARD),
            RingPlace::Veth => {
                let (far, guard) =
                    (self.object.run_stats(PROGRAM_FAR)?, self.object.run_stats(PROGRAM_GUARD)?);
                Ok(RunStats { nanos: far.nanos + guard.nanos, ..guard })
            }
        }
    }

    /// The port's page.
    pub fn shared(&self) -> &Page<Shared> {
        &self.shared
    }

    /// The lanes, as the programs use them.
    pub fn lanes(&self) -> Vec<LaneEntry> {
        self.lock_lanes().clone()
    }

    fn lock_lanes(&self) -> MutexGuard<'_, Vec<LaneEntry>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the table of lanes. The entries of lanes that flows are placed in keep their rings.
    ///
    /// # Errors
    /// When the kernel refuses an entry.
    pub fn set_lanes(&self, lanes: &[LaneEntry]) -> Result<(), BpfError> {
        let mut known = self.lock_lanes();
        known.truncate(lanes.len());
        for (i, lane) in lanes.iter().enumerate() {
            if known.get(i) == Some(lane) {
                continue;
            }
            self.object.set_element("lanes", i as u32, &lane.to_bytes())?;
            match known.get_mut(i) {
                Some(known) => *known = *lane,
                None => known.push(*lane),
            }
        }
        Ok(())
    }

    /// The number of tracked flows.
    pub fn flows(&self) -> u64 {
        let lanes = self.shared.lanes.iter().take(self.lock_lanes().len());
        lanes.map(|lane| u64::from(lane.flows.load(Ordering::Relaxed))).sum()
    }

    /// Maps the record ring of the NIC, as [`NicMaps::records`].
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn records<'a>(&self, on_record: impl FnMut(Record) + 'a) -> Result<Records<'a>, BpfError> {
        self.maps.records(on_record)
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

/// Loads the programs of a port with room for `flows` flows.
fn load_programs(
    (maps, worker): (&NicMaps, usize),
    config: &[u8],
    flows: u32,
    place: RingPlace,
    own: &[(&'static str, MapFd)],
) -> Result<Object, BpfError> {
    let (mut reuse, sizes) = (maps.reuse(worker), [("flows", flows)]);
    reuse.extend(own.iter().map(|(name, map)| (*name, map)));
    let skip: &[&str] = match place {
        RingPlace::Veth => &NOT_OF_VETH,
        RingPlace::Tap => &NOT_OF_TAP,
    };
    let options = ObjectOptions {
        name: "doorbell",
        rodata: Some(config),
        reuse: &reuse,
        skip,
        sizes: &sizes,
        ..ObjectOptions::default()
    };
    // Linux before 6.1 refuses `weft_expire` unless the flow table is allocated as a whole.
    Object::load_with(OBJECT, &options)
        .or_else(|_| Object::load_with(OBJECT, &ObjectOptions { preallocated: &["flows"], ..options }))
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
