//! Queue assignment at a device: attach, read, detach.
//!
//! [`Titan::attach`], under a lock of the state folder, so that one process at a time changes devices:
//! 1. Check the device (`find`): more than one transmit queue, a kind whose packets keep their sockets, not attached
//!    yet.
//! 2. Remove the records and pins of devices that no longer exist.
//! 3. Load the programs, with the settings as read-only data, and fill the pools and the match table.
//! 4. Pin programs and maps, so that they outlive this process.
//! 5. Write the state file. It precedes the filter, so a killed process leaves no filter without a record.
//! 6. Add the clsact qdisc if missing, then the filter.
//! 7. Write the requests to the NIC into the page: weights and segmentation.
//!
//! If a step fails, `Undo` reverts the preceding ones. [`Titan::detach`] does the same steps in reverse. It continues
//! after a failed step, and reports the first error. Last it waits until the kernel has unloaded the programs.
//!
//! Ownership: the kernel owns the programs and maps, through pins and filter. The state file is the record of what must
//! be undone. A `Titan` value only maps the shared pages, and its drop changes nothing. The programs write the page of
//! queues; the NIC writes its own fields.
//!
//! Rare branches are counted by the programs, in [`DeviceTotals`]: packets without a socket, flows beyond the bound, flows
//! passed or kept, late repairs (`repaired`, `swept`), and updates that were given up. Departures that the kernel did
//! not report are counted by the kernel (`recursion_misses`). [`Titan::notes`] reports conditions that affect the
//! assignment.

use crate::accounting::Accounting;
use crate::error::TitanError;
use crate::inspection::{self, Inspection, inspect};
use crate::layout::{CPUS, DeviceTotals, FlowRecord, ProgramConfig, TitanFlowTable, pool_bytes};
use crate::match_table::{CgroupId, PrepareError, Row, Tables, Tested};
use crate::page::{self, QueuePage};
use crate::programs::{FILTER, HANDLE, Loaded, Pins, is_loaded, map_of};
use crate::segments::{self, name_of};
use crate::settings::{Pool, Settings};
use crate::stale_pins::{self, drop_pins, pins_of};
use crate::state::{self, ChangeRecord};
use crate::undo::Undo;
use crate::weights::find_cgroup;
use core::sync::atomic::Ordering;
use std::path::{Path, PathBuf};
use weft_host::bpf::{RunStats, SharedLayout, SharedValue, program_info};
use weft_host::bpffs::BpfFs;
use weft_host::clock;
use weft_host::device_record::{self, DeviceRecord};
use weft_host::link;
use weft_host::netns::NetNs;
use weft_host::tc::{self, Filter, FilterAction, FilterRule, Handle, TcDevice, TcObject};
use weft_host::xps;
use weft_units::{Nanos, TxQueueId};

/// The time allowed for programs to be unloaded, and the interval of the polls.
const UNLOAD_PATIENCE: Nanos = Nanos::from_secs(1);
const UNLOAD_LOOK: core::time::Duration = core::time::Duration::from_millis(1);
type Result<T> = core::result::Result<T, TitanError>;

/// Queue assignment at a device.
#[derive(Debug)]
pub struct Titan {
    ns: NetNs,
    state: ChangeRecord,
    page: SharedValue<QueuePage>,
    totals: SharedValue<DeviceTotals>,
    flows: SharedValue<TitanFlowTable>,
    folder: PathBuf,
}

impl Titan {
    /// Attaches queue assignment to `device` of `ns`. It stays attached when this process ends.
    ///
    /// # Errors
    /// When the device has one queue, is unsuitable, or has it attached already; when the kernel lacks a facility.
    /// Nothing remains then.
    pub fn attach(ns: &NetNs, device: &str, settings: &Settings) -> Result<Self> {
        let folder = PathBuf::from(state::FOLDER);
        let _lock = device_record::lock(&folder)?;
        let found = inspect(ns, device)?;
        let netns = ns.inode()?;
        stale_pins::forget(&folder)?;
        if let Some(state) = ChangeRecord::read(&folder, netns, found.ifindex)? {
            return Err(TitanError::Attached { device: device.to_owned(), since: state.since() });
        }
        found.refuse_unknown(device)?;
        let pools = pools(ns, device, &settings.pool, &found)?;
        let pins = pins_of(BpfFs::open()?.root(), netns, found.ifindex);
        let loaded = load(settings, &found, &pools)?;
        // Without a state file these pins have no owner: a killed run, or an earlier namespace with the same number.
        Pins::new(&pins).remove();
        let mut undo = Undo {
            ns: ns.handle()?,
            device: device.to_owned(),
            pins: Some(pins.clone()),
            filter: None,
            state: None,
        };
        if let Some(map) = &found.nic_page {
            map.shared::<QueuePage>()?.empty();
        }
        let programs = loaded.pin(&pins)?;
        let clsact_added = !TcDevice::open(ns, device)?.has_clsact()?;
        let priority = tc::free_priority(&found.filters).unwrap_or(1);
        let state = ChangeRecord {
            device: device.to_owned(),
            ifindex: found.ifindex,
            netns,
            place: ns.name().to_owned(),
            queues: found.queues,
            parts: settings.parts.names(),
            assignment: describe(settings),
            priority,
            handle: HANDLE,
            clsact_added,
            programs,
            departures: loaded.departures().name().to_owned(),
            software_nic: found.nic_page.is_some(),
            segment_bytes: if settings.parts.dsos { settings.segment.get() as u32 } else { 0 },
            update_interval_ns: settings.update_interval.get(),
            segments_before: None,
            pins,
            since: device_record::seconds_since_1970(),
        };
        // Before the filter is added: a process killed in between leaves no filter without a record.
        undo.state = Some((folder.clone(), state.clone()));
        state.write(&folder)?;
        if clsact_added {
            TcDevice::open(ns, device)?.add(&TcObject::clsact())?;
        }
        undo.filter = Some((None, clsact_added));
        add_filter(ns, device, &loaded, &found, priority)?;
        undo.keep();
        let titan = Self::with_maps(ns, state, folder)?;
        titan.ask_nic(settings);
        Ok(titan)
    }

    /// Opens the queue assignment attached to `device` of `ns`.
    ///
    /// # Errors
    /// When none is attached, with the devices where it is.
    pub fn open(ns: &NetNs, device: &str) -> Result<Self> {
        let folder = PathBuf::from(state::FOLDER);
        let _lock = device_record::lock(&folder)?;
        stale_pins::forget(&folder)?;
        let (netns, ifindex) = (ns.inode()?, link::index(ns, device)?);
        match ChangeRecord::read(&folder, netns, ifindex)? {
            // The name may have changed; the interface number has not.
            Some(state) => Self::with_maps(ns, ChangeRecord { device: device.to_owned(), ..state }, folder),
            None => {
                let others: Vec<String> = ChangeRecord::all(&folder)?.into_iter().map(|s| s.device).collect();
                let others = if others.is_empty() {
                    String::new()
                } else {
                    format!("; it is at {}", others.join(", "))
                };
                Err(TitanError::NotAttached { device: device.to_owned(), others })
            }
        }
    }

    /// The devices with queue assignment in the network namespace `ns`, or in all namespaces without one.
    ///
    /// # Errors
    /// When a state file cannot be read.
    pub fn all(ns: Option<&NetNs>) -> Result<Vec<ChangeRecord>> {
        let folder = PathBuf::from(state::FOLDER);
        let _lock = device_record::lock(&folder)?;
        stale_pins::forget(&folder)?;
        let netns = ns.map(NetNs::inode).transpose()?;
        let mut states = ChangeRecord::all(&folder)?;
        states.retain(|state| netns.is_none_or(|netns| state.netns == netns));
        for state in states.iter_mut().filter(|_| ns.is_some()) {
            if let Some(name) = ns.map(|ns| name_of(ns, state.ifindex)).transpose()?.flatten() {
                state.device = name;
            }
        }
        Ok(states)
    }

    fn with_maps(ns: &NetNs, state: ChangeRecord, folder: PathBuf) -> Result<Self> {
        let (page, totals, flows) = (map(&state, page::MAP)?, map(&state, "totals")?, map(&state, "flows")?);
        Ok(Self { ns: ns.handle()?, state, page, totals, flows, folder })
    }

    /// Writes the requests to the NIC into the page.
    fn ask_nic(&self, settings: &Settings) {
        let interval = settings.update_interval.get();
        self.page.update_interval_ns.store(interval, Ordering::Relaxed);
        self.page.sweep_off.store(0, Ordering::Relaxed);
        self.page.segment_all.store(u32::from(settings.segment_all), Ordering::Relaxed);
        self.page.segment_bytes.store(self.state.segment_bytes, Ordering::Relaxed);
        self.page.use_weights.store(u32::from(settings.parts.dqwa), Ordering::Release);
    }

    /// The state of the device, as recorded when it was attached.
    pub fn state(&self) -> &ChangeRecord {
        &self.state
    }

    /// The page of the queues.
    pub fn page(&self) -> &QueuePage {
        &self.page
    }

    /// The totals of the device.
    pub fn totals(&self) -> &DeviceTotals {
        &self.totals
    }

    /// The device's namespace.
    pub fn netns(&self) -> &NetNs {
        &self.ns
    }

    /// The known flows: those that have sent recently.
    pub fn flows(&self) -> Vec<FlowRecord> {
        self.flows.flows.iter().filter_map(FlowRecord::read).collect()
    }

    /// The time since it was attached.
    pub fn age(&self) -> Nanos {
        Nanos::from_secs(device_record::seconds_since_1970().saturating_sub(self.state.since))
    }

    /// The time of the programs per assigned packet in nanoseconds, departures included; `None` while the kernel's
    /// statistics are off.
    ///
    /// # Errors
    /// When the kernel cannot be queried.
    pub fn nanos_per_packet(&self) -> Result<Option<f64>> {
        Ok(self.program_time()?.nanos_per_run())
    }

    /// The number of packets at the classifier, and the time of all programs. The time includes departures, and packets
    /// freed on the host that are not counted here. Zero while the kernel's statistics are off.
    ///
    /// # Errors
    /// When the kernel cannot be queried.
    pub fn program_time(&self) -> Result<RunStats> {
        let mut sum = RunStats::default();
        for (i, id) in self.state.programs.iter().enumerate() {
            let stats = match program_info(*id) {
                Ok(info) => info.stats,
                // The programs of departures were removed with their pins.
                Err(_) if i > 0 => continue,
                Err(error) => return Err(error.into()),
            };
            sum.nanos += stats.nanos;
            if i == 0 {
                sum.runs = stats.runs;
            }
        }
        Ok(sum)
    }

    /// The statistics by program, with the program's name in the kernel.
    ///
    /// # Errors
    /// When the kernel cannot be queried.
    pub fn program_times(&self) -> Result<Vec<(String, RunStats)>> {
        let read = |id: &u32| {
            let info = program_info(*id)?;
            Ok((info.name, info.stats))
        };
        self.state.programs.iter().map(read).collect()
    }

    /// The current accounting, exact when no packet is outstanding.
    ///
    /// # Errors
    /// When the kernel cannot be queried for the programs.
    pub fn accounting(&self) -> Result<Accounting> {
        let mut accounting = Accounting::read(&self.page, &self.flows(), self.state.queues as usize);
        accounting.repaired = self.totals.repaired.load(Ordering::SeqCst);
        accounting.given_up = self.totals.given_up.load(Ordering::SeqCst);
        // The first program is the classifier, which is no tracing program.
        for id in self.state.programs.iter().skip(1) {
            accounting.missed += program_info(*id)?.recursion_misses;
        }
        Ok(accounting)
    }

    /// The limitations of queue assignment on this device, with reasons.
    ///
    /// # Errors
    /// When the kernel cannot be queried.
    pub fn notes(&self) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        let on = |part: &str| self.state.parts.iter().any(|name| name == part);
        if !self.state.software_nic && on("dqwa") {
            notes.push(
                "dqwa: the weights stop at the driver; where it has net-shaper, `weft titan actuate` passes them on"
                    .to_owned(),
            );
        }
        notes.extend(self.queues_note()?);
        notes.extend(self.forwarded_note());
        let filters = tc::filters(&self.ns, &self.name()?, Handle::EGRESS)?;
        if filters.iter().any(|filter| filter.chain == 0 && filter.priority < self.state.priority) {
            notes.push(format!(
                "a filter at {} runs before ours (priority {}); packets that it does not pass on are not assigned",
                self.state.device, self.state.priority
            ));
        }
        if !self.state.pins.exists() {
            notes.push(format!(
                "nothing is pinned at {}, so departures are not seen and counts are late; detach and attach again",
                self.state.pins.display()
            ));
        }
        if !self.state.software_nic && on("dsos") {
            notes.push("dsos: segment sizes of this driver need `weft titan actuate`".to_owned());
        }
        Ok(notes)
    }

    /// A note if the device's number of queues has changed (`ethtool -L`).
    fn queues_note(&self) -> Result<Option<String>> {
        let now = match self.state.software_nic {
            true => self.page.nic_queues.load(Ordering::Acquire) as u32,
            false => inspection::queues_of(&self.ns, &self.name()?)?,
        };
        let (assigned, device) = (self.state.queues, &self.state.device);
        Ok((now != assigned).then(|| {
            let what = if now < assigned {
                "packets for the missing ones are sent to the first"
            } else {
                "the others get no flows"
            };
            format!(
                "{device} has {now} queues now, and flows are assigned to {assigned}: {what}; \
                 `weft titan detach {device}` and attach it again"
            )
        }))
    }

    /// A note if much of the traffic cannot be assigned.
    fn forwarded_note(&self) -> Option<String> {
        let without = self.totals.without_socket.load(Ordering::Relaxed);
        let assigned: u64 = self.page.queues.iter().map(|queue| queue.packets.load(Ordering::Relaxed)).sum();
        (without > 1000 && without * 10 > assigned).then(|| {
            format!(
                "{without} packets arrived without a socket and were not assigned ({assigned} were): routing detaches them from their \
                 sockets, so traffic that containers and virtual machines send through this host's routing cannot be; attach inside \
                 their namespaces, or join them by a bridge"
            )
        })
    }

    /// The current name of the device.
    fn name(&self) -> Result<String> {
        name_of(&self.ns, self.state.ifindex)?.ok_or_else(|| TitanError::Gone {
            device: self.state.device.clone(),
            ifindex: self.state.ifindex,
        })
    }

    /// The namespace, the state folder and the state, for changes of the device's segment limits.
    pub(crate) fn segments(&mut self) -> (&NetNs, &Path, &mut ChangeRecord) {
        (&self.ns, &self.folder, &mut self.state)
    }

    /// Detaches queue assignment and undoes all changes to the device.
    ///
    /// # Errors
    /// When the kernel refuses a step; the remaining steps are executed nevertheless.
    pub fn detach(mut self) -> Result<()> {
        let _lock = device_record::lock(&self.folder)?;
        self.page.use_weights.store(0, Ordering::Release);
        self.page.segment_bytes.store(0, Ordering::Release);
        let device = &self.name()?;
        let mut at = TcDevice::open(&self.ns, device)?;
        let mut outcome = at
            .delete_filter(Handle::EGRESS, self.state.priority, self.state.handle)
            .map_err(TitanError::from);
        let others = at.filters(Handle::EGRESS)?.len() + at.filters(Handle::INGRESS)?.len();
        if self.state.clsact_added && others == 0 {
            outcome = outcome.and(at.delete_clsact().map_err(TitanError::from));
        }
        outcome = outcome.and(segments::restore_known(&self.folder, &mut self.state, &self.ns));
        drop_pins(&self.state.pins);
        // Packets are counted in and out until the last program has ended.
        wait_unloaded(&self.state.programs);
        self.page.empty();
        self.state.remove(&self.folder);
        outcome
    }
}

/// Adds the classifier to the device's egress. If the device is not our NIC's port, a tc action after it selects the
/// queue.
fn add_filter(ns: &NetNs, device: &str, loaded: &Loaded, found: &Inspection, priority: u16) -> Result<()> {
    let rule = FilterRule::Bpf {
        program: loaded.classifier().as_fd(),
        name: FILTER,
        direct_action: found.nic_page.is_some(),
    };
    let by_hash = || FilterAction::QueueByHash(0..=(found.queues - 1) as u16);
    let action = found.nic_page.is_none().then(by_hash);
    let filter = Filter { action, ..Filter::new(Handle::EGRESS, priority, HANDLE, rule) };
    Ok(TcDevice::open(ns, device)?.claim_filter(&filter)?)
}

/// A map of a device's programs, from its pin or else from the classifier. A device whose pins were removed can thus
/// still be detached.
fn map<T: SharedLayout>(state: &ChangeRecord, name: &str) -> Result<SharedValue<T>> {
    let missing = match Pins::new(&state.pins).shared(name) {
        Ok(value) => return Ok(value),
        Err(missing) => missing,
    };
    let classifier = state.programs.first().map(|id| map_of(*id, name)).transpose()?;
    classifier.flatten().map_or(Err(missing.into()), |map| Ok(map.shared()?))
}

/// Waits until unreferenced programs are unloaded: the kernel unlinks and frees them asynchronously (`bpf_link_put`,
/// kernel/bpf/syscall.c). If another process, such as a debugger, holds one, the wait ends after [`UNLOAD_PATIENCE`].
fn wait_unloaded(programs: &[u32]) {
    let until = clock::now() + UNLOAD_PATIENCE;
    while programs.iter().any(|id| is_loaded(*id)) && clock::now() < until {
        std::thread::sleep(UNLOAD_LOOK);
    }
}

/// The queues that each core may select; empty for all.
fn pools(ns: &NetNs, device: &str, pool: &Pool, found: &Inspection) -> Result<Vec<Vec<TxQueueId>>> {
    let mut pools = match pool {
        Pool::All => Vec::new(),
        Pool::Given(pools) => pools.clone(),
        Pool::Xps => by_core(&xps::tx_queues(ns, device)?),
    };
    for queues in &mut pools {
        queues.retain(|queue| queue.0 < found.queues);
    }
    pools.truncate(CPUS);
    Ok(pools)
}

fn by_core(queues: &xps::TxQueues) -> Vec<Vec<TxQueueId>> {
    let pools = queues.pools();
    let cores = pools.keys().max().map_or(0, |last| *last as usize + 1).min(CPUS);
    (0..cores as u32).map(|core| pools.get(&core).into_iter().flatten().copied().collect()).collect()
}

fn load(settings: &Settings, found: &Inspection, pools: &[Vec<TxQueueId>]) -> Result<Loaded> {
    let weights = &settings.weights;
    // A weight is at most `weights::LARGEST`.
    let rows = weights.rows.iter().map(|row| Row {
        matcher: &row.matcher,
        given: row.weight.get() as u16,
        class: None,
    });
    let tables = Tables::build(rows, [], Tested::default()).map_err(PrepareError::from)?;
    let config = ProgramConfig {
        queues: found.queues,
        least_occupied: settings.parts.dqa,
        pooled: pools.iter().any(|queues| !queues.is_empty()),
        rules: weights.rows.len() as u32,
        most_flows: settings.most_flows,
        with_action: found.nic_page.is_none(),
        device_holds: found.nic_page.is_some(),
        default_weight: weights.rows.last().map_or(1, |row| row.weight.get()),
        net_cls: weft_host::net_cls::has_net_cls(),
    };
    let loaded = Loaded::load(&config, found.nic_page.as_ref())?;
    let cgroups: Vec<Option<CgroupId>> = weights.cgroups.iter().map(|path| cgroup(path)).collect();
    loaded.tables()?.prepare(&tables, &cgroups)?.commit(clock::now())?;
    for (cpu, queues) in pools.iter().enumerate() {
        loaded.set_element("pools", cpu as u32, &pool_bytes(queues))?;
    }
    Ok(loaded)
}

/// A cgroup in the form that the programs compare; `None` if it does not exist.
fn cgroup(path: &str) -> Option<CgroupId> {
    let place = find_cgroup(path).and_then(|cgroup| cgroup.place().ok())?;
    Some(CgroupId { id: place.id, level: place.level.unwrap_or(CgroupId::ANY_LEVEL) })
}

fn describe(settings: &Settings) -> String {
    let how = if settings.parts.dqa { "least occupied" } else { "hash" };
    match settings.pool {
        Pool::All => format!("{how} of all queues"),
        Pool::Xps => format!("{how} of the core's XPS queues"),
        Pool::Given(_) => format!("{how} of the core's queues"),
    }
}
