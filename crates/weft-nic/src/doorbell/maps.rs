//! The maps that all ports of a NIC share: the match tables, the records and wake-ups, the summary, and the queues' page.
//!
//! Each port has its own instance of the programs ([`Doorbells`]) with its own page, flow table, lanes, guard and
//! fragments. An instance takes the shared maps in place of its own, so a change of the match tables reaches all ports,
//! and the NIC reads one ring of records.

use super::{CgroupEntry, Doorbells, OBJECT, PROGRAMS};
use crate::layout::{Page, Record, Summary};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use weft_host::bpf::{BpfError, MapFd, Object, ObjectOptions, Records, SharedValue};
use weft_policy::CompiledPolicy;
use weft_titan::match_table::encode;
use weft_titan::page::{self, QueuePage};

/// The shared maps.
const SHARED: [&str; 6] = ["rules", "cgroups", "records", "wakes", "summary", page::MAP];
/// The maps of each port.
const OWN: [&str; 5] = ["doorbells", "flows", "lanes", "guard", "fragments"];

/// The maps of a NIC.
#[derive(Debug)]
pub struct NicMaps {
    object: Object,
    fds: [MapFd; SHARED.len()],
    summary: Page<Summary>,
    queues: SharedValue<QueuePage>,
    /// The number of rows and of cgroups.
    counts: [u32; 2],
    /// The ports that use the maps.
    ports: Mutex<Vec<Weak<Doorbells>>>,
}

impl NicMaps {
    /// Creates the maps and fills the match tables. `cgroups` are the policy's, resolved; `None` for a cgroup that does
    /// not exist, whose rules match nothing until [`set_cgroup`](Self::set_cgroup) sets it.
    ///
    /// # Errors
    /// When the kernel refuses a map. The caller must check the policy's size first, by [`check`](super::check).
    pub fn create(policy: &CompiledPolicy, cgroups: &[Option<CgroupEntry>]) -> Result<Arc<Self>, BpfError> {
        let options =
            ObjectOptions { name: "doorbell", skip: &PROGRAMS, without: &OWN, ..ObjectOptions::default() };
        let object = Object::load_with(OBJECT, &options)?;
        for (i, rule) in policy.rules.iter().enumerate() {
            object.set_element("rules", i as u32, &encode(&rule.matcher, rule.lane.0))?;
        }
        for (i, cgroup) in cgroups.iter().enumerate() {
            object.set_element("cgroups", i as u32, &CgroupEntry::to_bytes(*cgroup))?;
        }
        let mut fds = Vec::with_capacity(SHARED.len());
        for name in SHARED {
            fds.push(object.map_fd(name)?);
        }
        let absent = |_| BpfError::Absent { what: "map", name: "shared".to_owned() };
        Ok(Arc::new(Self {
            fds: <[MapFd; SHARED.len()]>::try_from(fds).map_err(absent)?,
            summary: Page::Mapped(Arc::new(object.shared("summary")?)),
            queues: object.shared(page::MAP)?,
            counts: [policy.rules.len() as u32, cgroups.len() as u32],
            ports: Mutex::default(),
            object,
        }))
    }

    /// The shared maps by name, for a port's instance of the programs.
    pub(super) fn reuse(&self) -> [(&'static str, &MapFd); SHARED.len()] {
        core::array::from_fn(|i| (SHARED[i], &self.fds[i]))
    }

    /// The number of rows and of cgroups in the match tables.
    pub(super) fn counts(&self) -> [u32; 2] {
        self.counts
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

    /// Sets cgroup `index` of the policy. Every flow of every port is classified again with its next packet.
    ///
    /// # Errors
    /// When the policy has no such cgroup.
    pub fn set_cgroup(&self, index: usize, cgroup: Option<CgroupEntry>) -> Result<(), BpfError> {
        self.object.set_element("cgroups", index as u32, &CgroupEntry::to_bytes(cgroup))?;
        self.ports().iter().for_each(|port| port.guard().classify_again());
        Ok(())
    }

    /// The summary of all ports.
    pub fn summary(&self) -> &Page<Summary> {
        &self.summary
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
}
