//! The maps that all ports of a NIC share: the match tables, the records and wake-ups, the summary, and the queues' page.
//!
//! Each port has its own instance of the programs ([`Doorbells`]) with its own page, flow table, lanes, guard and
//! fragments. An instance takes the shared maps instead of separate ones, so a change of the match tables reaches all ports,
//! and the NIC reads one ring of records.
//!
//! Each worker of the NIC has separate records, wake-ups and a summary, which are those of its ports; the other maps are the same
//! for all. The first worker's are in the maps' own object.
//!
//! A policy names ports in its own order, which may differ from that of the policy before. The NIC numbers the names once
//! ([`NicMaps::number_of`]), and the tables have its numbers, so a port keeps its number while policies change.

use super::fields::KernelFields;
use super::messages::{self, MessageOption};
use super::socket_owner::{self, SocketOwners};
use super::table::{PreparedTables, build_tables, ids};
use super::{CgroupEntry, Doorbells, MatchTables, OBJECT, PROGRAMS, PrepareError, TableError};
use crate::layout::{Page, Reads, Record, Summary};
use crate::plan::RingPlan;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use weft_host::bpf::{BpfError, MapFd, Object, ObjectOptions, Records, SharedValue};
use weft_policy::CompiledPolicy;
use weft_titan::page::{self, QueuePage};

/// The shared maps besides the match tables.
const SHARED: [&str; 6] = ["records", "wakes", "summary", page::MAP, messages::MAP, socket_owner::MAP];
/// The first of them: those that each worker has.
const OF_WORKER: usize = 3;
/// The maps of each port.
pub(crate) const OWN: [&str; 5] = ["doorbells", "flows", "lanes", "guard", "fragments"];

/// The names of the shared maps.
pub(crate) fn shared_maps() -> impl Iterator<Item = &'static str> {
    SHARED.into_iter().chain(weft_titan::match_table::MAPS)
}

/// The maps of a worker behind the first.
#[derive(Debug)]
struct WorkerMaps {
    object: Object,
    fds: [MapFd; OF_WORKER],
    summary: Page<Summary>,
}

/// The maps of a NIC.
#[derive(Debug)]
pub struct NicMaps {
    object: Object,
    fds: [MapFd; SHARED.len()],
    tables: MatchTables,
    summary: Page<Summary>,
    /// The workers behind the first.
    workers: Vec<WorkerMaps>,
    queues: SharedValue<QueuePage>,
    messages: MessageOption,
    socket_owners: SocketOwners,
    /// The names of ports, by number less one.
    names: Mutex<Vec<String>>,
    /// The ports that use the maps.
    ports: Mutex<Vec<Weak<Doorbells>>>,
}

impl NicMaps {
    /// Creates the maps and fills the match tables. `cgroups` are the policy's, resolved; `None` for a cgroup that does
    /// not exist, whose rules match nothing until [`set_cgroup`](Self::set_cgroup) sets it.
    ///
    /// # Errors
    /// When the kernel refuses a map, or the tables do not fit.
    pub fn create(plan: &RingPlan, cgroups: &[Option<CgroupEntry>]) -> Result<Arc<Self>, PrepareError> {
        Self::for_workers(1, plan, cgroups)
    }

    /// As [`create`](Self::create), for a NIC with several workers.
    ///
    /// # Errors
    /// As [`create`](Self::create).
    pub fn for_workers(
        workers: usize,
        plan: &RingPlan,
        cgroups: &[Option<CgroupEntry>],
    ) -> Result<Arc<Self>, PrepareError> {
        let mut maps = Self::over(&[])?;
        for _ in 1..workers {
            maps.workers.push(maps.of_another_worker()?);
        }
        maps.prepare_tables(plan, cgroups)?.commit()?;
        Ok(Arc::new(maps))
    }

    /// New maps for another worker.
    fn of_another_worker(&self) -> Result<WorkerMaps, BpfError> {
        let all = self.reuse(0);
        let reuse: Vec<(&str, &MapFd)> =
            all.into_iter().filter(|(name, _)| !SHARED[..OF_WORKER].contains(name)).collect();
        let object = Object::load_with(OBJECT, &options(&reuse))?;
        let [records, wakes, summary] = [SHARED[0], SHARED[1], SHARED[2]].map(|name| object.map_fd(name));
        let fds = [records?, wakes?, summary?];
        Ok(WorkerMaps { fds, summary: Page::Mapped(Arc::new(object.shared("summary")?)), object })
    }

    /// Takes maps that were in use, by their names ([`descriptors`](Self::descriptors)). `names` are the names of ports, in
    /// the order of their numbers. The match tables stay as they are.
    ///
    /// # Errors
    /// When a map is missing or of another version.
    pub(crate) fn adopt(maps: &[(&'static str, MapFd)], names: &[String]) -> Result<Arc<Self>, BpfError> {
        if let Some(name) = shared_maps().find(|name| !maps.iter().any(|(of, _)| of == name)) {
            return Err(BpfError::Absent { what: "map", name: name.to_owned() });
        }
        let maps = Self::over(maps)?;
        names.iter().for_each(|name| _ = maps.number_of(name));
        Ok(Arc::new(maps))
    }

    /// The maps by name, for a successor of this process.
    ///
    /// # Errors
    /// When a descriptor cannot be duplicated.
    pub(crate) fn descriptors(&self) -> Result<Vec<(&'static str, MapFd)>, BpfError> {
        shared_maps().map(|name| Ok((name, self.object.map_fd(name)?))).collect()
    }

    /// The names of ports, in the order of their numbers.
    pub(crate) fn names(&self) -> Vec<String> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The maps: new ones, or `reuse`.
    fn over(reuse: &[(&'static str, MapFd)]) -> Result<Self, BpfError> {
        let reuse: Vec<(&str, &MapFd)> = reuse.iter().map(|(name, map)| (*name, map)).collect();
        let object = Object::load_with(OBJECT, &options(&reuse))?;
        let mut fds = Vec::with_capacity(SHARED.len());
        for name in SHARED {
            fds.push(object.map_fd(name)?);
        }
        let absent = |_| BpfError::Absent { what: "map", name: "shared".to_owned() };
        Ok(Self {
            messages: MessageOption::load(&object.map_fd(messages::MAP)?),
            socket_owners: SocketOwners::over(object.map_fd(socket_owner::MAP)?),
            fds: <[MapFd; SHARED.len()]>::try_from(fds).map_err(absent)?,
            tables: MatchTables::of(&object)?,
            summary: Page::Mapped(Arc::new(object.shared("summary")?)),
            workers: Vec::new(),
            queues: object.shared(page::MAP)?,
            names: Mutex::default(),
            ports: Mutex::default(),
            object,
        })
    }

    /// Writes the tables of the plan's policy and its cgroups, resolved, beside those in use. Changes nothing that a packet sees
    /// before [`PreparedTables::commit`]. The lanes that the tables name, and their rings, must exist by then.
    ///
    /// # Errors
    /// When the tables do not fit, another change is in progress, or the kernel refuses a map.
    pub fn prepare_tables(
        &self,
        plan: &RingPlan,
        cgroups: &[Option<CgroupEntry>],
    ) -> Result<PreparedTables<'_>, PrepareError> {
        let policy = self.with_numbers(plan.whole());
        // In rings shared by classes there is no class to escape from, so fragments need no ports.
        let own_rings = plan.rings.iter().all(|ring| ring.class.is_some());
        Ok(PreparedTables(self.tables.prepare(&build_tables(&policy, own_rings)?, &ids(cgroups))?))
    }

    /// The policy with the NIC's numbers of ports in the rows of both tables.
    fn with_numbers(&self, policy: &CompiledPolicy) -> CompiledPolicy {
        let mut policy = policy.clone();
        let numbers: Vec<u16> = policy.ports.iter().map(|name| self.number_of(name)).collect();
        let of_rows = policy.destinations.iter_mut().flatten().filter_map(|row| row.port.as_mut());
        for port in policy.rules.iter_mut().filter_map(|rule| rule.matcher.port.as_mut()).chain(of_rows) {
            *port = numbers.get(usize::from(*port).wrapping_sub(1)).copied().unwrap_or(u16::MAX);
        }
        policy
    }

    /// The number of the port `name`, which is the same from the first time on that a policy or a port has the name. All
    /// names without a number share the last number.
    pub fn number_of(&self, name: &str) -> u16 {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let at = names.iter().position(|known| known == name).unwrap_or_else(|| {
            if names.len() < usize::from(u16::MAX) - 1 {
                names.push(name.to_owned());
                return names.len() - 1;
            }
            usize::from(u16::MAX) - 1
        });
        u16::try_from(at + 1).unwrap_or(u16::MAX)
    }

    /// The match tables.
    pub fn match_tables(&self) -> &MatchTables {
        &self.tables
    }

    /// The shared maps by name, for the programs of a port of `worker`.
    pub(super) fn reuse(&self, worker: usize) -> Vec<(&'static str, &MapFd)> {
        let first = &self.fds[..OF_WORKER];
        let own = self.beside(worker).map_or(first, |maps| &maps.fds);
        let fds = own.iter().chain(&self.fds[OF_WORKER..]);
        SHARED.into_iter().zip(fds).chain(self.tables.maps()).collect()
    }

    /// The maps of a worker behind the first.
    fn beside(&self, worker: usize) -> Option<&WorkerMaps> {
        self.workers.get(worker.checked_sub(1)?)
    }

    /// Adds a port.
    pub(super) fn register(&self, port: &Arc<Doorbells>) {
        self.list().push(Arc::downgrade(port));
    }

    /// The ports that exist.
    pub(crate) fn ports(&self) -> Vec<Arc<Doorbells>> {
        let mut ports = self.list();
        ports.retain(|port| port.strong_count() > 0);
        ports.iter().filter_map(Weak::upgrade).collect()
    }

    fn list(&self) -> MutexGuard<'_, Vec<Weak<Doorbells>>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets cgroup `index` of the policy. If that changes it, every flow of every port is classified again with its next packet.
    ///
    /// # Errors
    /// When the policy has no such cgroup.
    pub fn set_cgroup(&self, index: usize, cgroup: Option<CgroupEntry>) -> Result<(), TableError> {
        self.tables.set_cgroup(index, cgroup.map(CgroupEntry::into))
    }

    /// Offers applications the socket option for messages only while the lanes of `plan` read what it reports.
    pub fn offer_messages(&self, plan: &RingPlan) {
        let reads = plan.lanes.iter().fold(Reads::NOTHING, |all, lane| all.or(lane.reads));
        self.messages.offer(reads);
    }

    /// The reason that applications cannot report their messages, although an algorithm would read the reports.
    pub fn messages_missing(&self) -> Option<String> {
        self.messages.missing()
    }

    /// Notes the processes that make sockets if rows of the plan's policy test them. To be called before its tables are in use.
    pub fn note_socket_owners(&self, plan: &RingPlan) {
        self.socket_owners.begin(plan.whole());
    }

    /// Ends what [`note_socket_owners`](Self::note_socket_owners) began if no row of the plan's policy tests it. To be called when its tables are
    /// in use.
    pub fn forget_socket_owners(&self, plan: &RingPlan) {
        self.socket_owners.end_unless_tested(plan.whole());
    }

    /// The reason that the owners of sockets are unknown, although rows test them.
    pub fn socket_owners_missing(&self) -> Option<String> {
        self.socket_owners.missing()
    }

    /// The offsets of the kernel's fields that the programs of ports read.
    pub(super) fn kernel_fields(&self) -> KernelFields {
        self.messages.kernel_fields()
    }

    /// The summary of all ports of the first worker.
    pub fn summary(&self) -> &Page<Summary> {
        &self.summary
    }

    /// The summary of all ports of `worker`.
    pub(crate) fn summary_of(&self, worker: usize) -> &Page<Summary> {
        self.beside(worker).map_or(&self.summary, |maps| &maps.summary)
    }

    /// The summaries of all workers.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = &Page<Summary>> {
        core::iter::once(&self.summary).chain(self.workers.iter().map(|maps| &maps.summary))
    }

    /// The page of the hardware queues of a multiqueue NIC.
    pub fn queues(&self) -> &QueuePage {
        &self.queues
    }

    /// Maps the record ring of the first worker; `on_record` receives every metadata record.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn records<'a>(&self, on_record: impl FnMut(Record) + 'a) -> Result<Records<'a>, BpfError> {
        self.records_of(0, on_record)
    }

    /// Maps the record ring of `worker`, as [`records`](Self::records).
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub(crate) fn records_of<'a>(
        &self,
        worker: usize,
        mut on_record: impl FnMut(Record) + 'a,
    ) -> Result<Records<'a>, BpfError> {
        let object = self.beside(worker).map_or(&self.object, |maps| &maps.object);
        object.records("records", "wakes", move |bytes| {
            if let Some(record) = Record::parse(bytes) {
                on_record(record);
            }
        })
    }
}

/// The options of the maps' object, which has none of the ports' maps and loads no program.
fn options<'a>(reuse: &'a [(&'a str, &'a MapFd)]) -> ObjectOptions<'a> {
    ObjectOptions { name: "doorbell", skip: &PROGRAMS, without: &OWN, reuse, ..ObjectOptions::default() }
}
