//! Switching queue assignment on and off at a device.

use crate::error::TitanError;
use crate::layout::{CPUS, Config, FlowRecord, FlowTable, Totals, pool_bytes};
use crate::leftovers::{self, drop_pins, pins_of};
use crate::match_table::encode;
use crate::page::{self, QueuePage};
use crate::programs::{Loaded, Pins, is_loaded, map_of};
use crate::settings::{Pool, Settings};
use crate::state::{self, SegmentLimits, State};
use crate::weights::find_cgroup;
use core::sync::atomic::Ordering;
use std::path::PathBuf;
use weft_host::bpf::{MapFd, RunStats, SharedLayout, SharedValue, program_info};
use weft_host::bpffs::BpfFs;
use weft_host::clock;
use weft_host::ethtool::Nic as Ethtool;
use weft_host::link;
use weft_host::netns::NetNs;
use weft_host::tc_filter::{self, BpfFilter, Filter};
use weft_host::xps;
use weft_units::{Nanos, QueueId};

/// The name by which our filter is known at a device.
pub const FILTER: &str = "weft_titan";
/// The handle of our filter.
const HANDLE: u32 = 1;
/// The program of the software NIC's port (`bpf/doorbell.bpf.c`).
const DOORBELL: &str = "weft_egress";
/// How long programs may take to go, and how often that is looked at.
const UNLOAD_PATIENCE: Nanos = Nanos::from_secs(1);
const UNLOAD_LOOK: core::time::Duration = core::time::Duration::from_millis(1);
type Result<T> = core::result::Result<T, TitanError>;

/// What was found about a device.
#[derive(Debug)]
struct Found {
    ifindex: u32,
    queues: u32,
    /// The map of the page, when the device is our NIC's port.
    nic_page: Option<MapFd>,
    filters: Vec<Filter>,
}

/// Queue assignment at a device.
#[derive(Debug)]
pub struct Titan {
    ns: NetNs,
    state: State,
    page: SharedValue<QueuePage>,
    totals: SharedValue<Totals>,
    flows: SharedValue<FlowTable>,
    folder: PathBuf,
}

impl Titan {
    /// Switches queue assignment on at `device` of `ns`. It stays on when this process ends.
    ///
    /// # Errors
    /// When the device has one queue, is not fit, or has it on already; when the kernel lacks a facility. Nothing is left
    /// behind then.
    pub fn attach(ns: &NetNs, device: &str, settings: &Settings) -> Result<Self> {
        let folder = PathBuf::from(state::FOLDER);
        let _lock = state::lock(&folder)?;
        let found = find(ns, device)?;
        let netns = ns.inode()?;
        leftovers::forget(&folder)?;
        if let Some(state) = State::read(&folder, netns, found.ifindex)? {
            return Err(TitanError::Attached { device: device.to_owned(), since: state.since() });
        }
        let pools = pools(ns, device, &settings.pool, &found)?;
        let pins = pins_of(BpfFs::open()?.root(), netns, found.ifindex);
        let loaded = load(settings, &found, &pools)?;
        // Without a state these are nobody's: a run that was killed in between, or a namespace of the same number before.
        Pins::new(&pins).remove();
        let mut undo =
            Undo { ns: ns.handle()?, device: device.to_owned(), pins: Some(pins.clone()), filter: None };
        if let Some(map) = &found.nic_page {
            map.shared::<QueuePage>()?.empty();
        }
        let programs = loaded.pin(&pins)?;
        let clsact_added = !tc_filter::has_clsact(ns, device)?;
        if clsact_added {
            tc_filter::add_clsact(ns, device)?;
        }
        undo.filter = Some((None, clsact_added));
        let priority = tc_filter::free_priority(&found.filters).unwrap_or(1);
        let action = found.nic_page.is_none();
        tc_filter::add_bpf_egress(
            ns,
            device,
            &BpfFilter {
                program: loaded.classifier().as_fd(),
                name: FILTER,
                priority,
                handle: HANDLE,
                direct_action: !action,
                queue_by_hash: action.then(|| 0..=(found.queues - 1) as u16),
            },
        )?;
        undo.filter = Some((Some(priority), clsact_added));
        let state = State {
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
            since: state::seconds_since_1970(),
        };
        state.write(&folder)?;
        undo.keep();
        let titan = Self::with_maps(ns, state, folder)?;
        titan.ask_nic(settings);
        Ok(titan)
    }

    /// What is on at `device` of `ns`.
    ///
    /// # Errors
    /// When nothing is, with where it is.
    pub fn open(ns: &NetNs, device: &str) -> Result<Self> {
        let folder = PathBuf::from(state::FOLDER);
        let _lock = state::lock(&folder)?;
        leftovers::forget(&folder)?;
        let (netns, ifindex) = (ns.inode()?, link::index(ns, device)?);
        match State::read(&folder, netns, ifindex)? {
            Some(state) => Self::with_maps(ns, state, folder),
            None => {
                let others: Vec<String> = State::all(&folder)?.into_iter().map(|s| s.device).collect();
                let others = if others.is_empty() {
                    String::new()
                } else {
                    format!("; it is at {}", others.join(", "))
                };
                Err(TitanError::NotAttached { device: device.to_owned(), others })
            }
        }
    }

    /// Where it is on, in the network namespace `ns`; all namespaces without one.
    ///
    /// # Errors
    /// When a file of what was done cannot be read.
    pub fn all(ns: Option<&NetNs>) -> Result<Vec<State>> {
        let folder = PathBuf::from(state::FOLDER);
        let _lock = state::lock(&folder)?;
        leftovers::forget(&folder)?;
        let netns = ns.map(NetNs::inode).transpose()?;
        let mut states = State::all(&folder)?;
        states.retain(|state| netns.is_none_or(|netns| state.netns == netns));
        Ok(states)
    }

    fn with_maps(ns: &NetNs, state: State, folder: PathBuf) -> Result<Self> {
        let (page, totals, flows) = (map(&state, page::MAP)?, map(&state, "totals")?, map(&state, "flows")?);
        Ok(Self { ns: ns.handle()?, state, page, totals, flows, folder })
    }

    /// Says in the page what the NIC is to do.
    fn ask_nic(&self, settings: &Settings) {
        let interval = settings.update_interval.get();
        self.page.update_interval_ns.store(interval, Ordering::Relaxed);
        self.page.segment_all.store(u32::from(settings.segment_all), Ordering::Relaxed);
        self.page.segment_bytes.store(self.state.segment_bytes, Ordering::Relaxed);
        self.page.use_weights.store(u32::from(settings.parts.dqwa), Ordering::Release);
    }

    /// What was done to the device.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The page of queues.
    pub fn page(&self) -> &QueuePage {
        &self.page
    }

    /// The sums over the device.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The device's namespace.
    pub fn netns(&self) -> &NetNs {
        &self.ns
    }

    /// The flows that are known: those that have sent lately.
    pub fn flows(&self) -> Vec<FlowRecord> {
        self.flows.flows.iter().filter_map(FlowRecord::read).collect()
    }

    /// How long it has been on.
    pub fn age(&self) -> Nanos {
        Nanos::from_secs(state::seconds_since_1970().saturating_sub(self.state.since))
    }

    /// Nanoseconds of our programs for each packet assigned, departures included; none while the kernel's statistics are
    /// off.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn nanos_per_packet(&self) -> Result<Option<f64>> {
        Ok(self.program_time()?.nanos_per_run())
    }

    /// Packets that came to the classifier, and the time of all our programs: departures included, also what they take for
    /// packets that are freed on the host and are none of ours. Zeros while the kernel's statistics are off.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn program_time(&self) -> Result<RunStats> {
        let mut sum = RunStats::default();
        for (i, id) in self.state.programs.iter().enumerate() {
            let stats = match program_info(*id) {
                Ok(info) => info.stats,
                // Those of departures have gone with their pins.
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

    /// The same by program, by its name in the kernel.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn program_times(&self) -> Result<Vec<(String, RunStats)>> {
        let read = |id: &u32| {
            let info = program_info(*id)?;
            Ok((info.name, info.stats))
        };
        self.state.programs.iter().map(read).collect()
    }

    /// What does not work here, and why.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn notes(&self) -> Result<Vec<String>> {
        let mut notes = Vec::new();
        let on = |part: &str| self.state.parts.iter().any(|name| name == part);
        if !self.state.software_nic && on("dqwa") {
            notes.push(
                "dqwa: the weights stop at the driver; where it has net-shaper, `weft titan actuate` passes them on"
                    .to_owned(),
            );
        }
        let filters = tc_filter::egress_filters(&self.ns, &self.state.device)?;
        if filters.iter().any(|filter| filter.chain == 0 && filter.priority < self.state.priority) {
            notes.push(format!(
                "a filter at {} runs before ours (priority {}): what it does not pass on is not assigned",
                self.state.device, self.state.priority
            ));
        }
        if !self.state.pins.exists() {
            notes.push(format!(
                "nothing is pinned at {} any more, so departures are not seen and counts are late: detach and attach again",
                self.state.pins.display()
            ));
        }
        if !self.state.software_nic && on("dsos") {
            notes.push("dsos: segment sizes of this driver need `weft titan actuate`".to_owned());
        }
        Ok(notes)
    }

    /// Writes down what the device's limits of segments were, before they are changed.
    pub(crate) fn remember_segments(&mut self, before: Option<SegmentLimits>) -> Result<()> {
        self.state.segments_before = before;
        Ok(self.state.write(&self.folder)?)
    }

    /// Restores the device's limits of segments, if they were changed.
    pub(crate) fn restore_segments(&mut self) -> Result<()> {
        if let Some(SegmentLimits { max, ipv4_max }) = self.state.segments_before {
            link::set_gso_sizes(&self.ns, &self.state.device, link::GsoSizes { max, ipv4_max })?;
            self.remember_segments(None)?;
        }
        Ok(())
    }

    /// Switches queue assignment off and takes back all that was done.
    ///
    /// # Errors
    /// When the kernel refuses a step; the rest is done all the same.
    pub fn detach(mut self) -> Result<()> {
        let _lock = state::lock(&self.folder)?;
        self.page.use_weights.store(0, Ordering::Release);
        self.page.segment_bytes.store(0, Ordering::Release);
        let device = &self.state.device.clone();
        let mut outcome = tc_filter::delete_egress(&self.ns, device, self.state.priority, self.state.handle)
            .map_err(TitanError::from);
        let others = tc_filter::egress_filters(&self.ns, device)?.len()
            + tc_filter::ingress_filters(&self.ns, device)?.len();
        if self.state.clsact_added && others == 0 {
            outcome = outcome.and(tc_filter::delete_clsact(&self.ns, device).map_err(TitanError::from));
        }
        outcome = outcome.and(self.restore_segments());
        drop_pins(&self.state.pins);
        // Until the last program has ended packets are counted in and out.
        wait_unloaded(&self.state.programs);
        self.page.empty();
        self.state.remove(&self.folder);
        outcome
    }
}

/// A map of a device's programs, where it is pinned; else the classifier's own, so that what is on can be switched off when
/// somebody has removed the pins.
fn map<T: SharedLayout>(state: &State, name: &str) -> Result<SharedValue<T>> {
    let missing = match Pins::new(&state.pins).shared(name) {
        Ok(value) => return Ok(value),
        Err(missing) => missing,
    };
    let classifier = state.programs.first().map(|id| map_of(*id, name)).transpose()?;
    classifier.flatten().map_or(Err(missing.into()), |map| Ok(map.shared()?))
}

/// Takes back what was done when a later step fails.
struct Undo {
    ns: NetNs,
    device: String,
    pins: Option<PathBuf>,
    filter: Option<(Option<u16>, bool)>,
}

impl Undo {
    fn keep(mut self) {
        (self.pins, self.filter) = (None, None);
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        if let Some((priority, clsact_added)) = self.filter.take() {
            if let Some(priority) = priority {
                let _ = tc_filter::delete_egress(&self.ns, &self.device, priority, HANDLE);
            }
            if clsact_added {
                let _ = tc_filter::delete_clsact(&self.ns, &self.device);
            }
        }
        if let Some(pins) = self.pins.take() {
            drop_pins(&pins);
        }
    }
}

/// Waits until programs that nothing holds any more are gone: the kernel unlinks and frees them behind our back
/// (`bpf_link_put`, kernel/bpf/syscall.c). Whoever else holds one, such as a debugger, is not waited for longer than
/// [`UNLOAD_PATIENCE`].
fn wait_unloaded(programs: &[u32]) {
    let until = clock::now() + UNLOAD_PATIENCE;
    while programs.iter().any(|id| is_loaded(*id)) && clock::now() < until {
        std::thread::sleep(UNLOAD_LOOK);
    }
}

fn find(ns: &NetNs, device: &str) -> Result<Found> {
    let ifindex = link::index(ns, device)?;
    let filters =
        if tc_filter::has_clsact(ns, device)? { tc_filter::egress_filters(ns, device)? } else { Vec::new() };
    // A filter's name is what its maker gave it; the program's own name says what it is.
    let programs = filters.iter().filter_map(|filter| filter.program.as_ref());
    let is_doorbell = |id: &u32| program_info(*id).is_ok_and(|info| info.name == DOORBELL);
    if let Some(program) = programs.map(|program| program.id).find(is_doorbell) {
        let map = map_of(program, page::MAP)?
            .ok_or_else(|| TitanError::PolicyPort { device: device.to_owned() })?;
        let page: SharedValue<QueuePage> = map.shared()?;
        let queues = page.nic_queues.load(Ordering::Acquire) as u32;
        if queues == 0 {
            return Err(TitanError::PolicyPort { device: device.to_owned() });
        }
        let found = Found { ifindex, queues, nic_page: Some(map), filters };
        return enough(device, found, "; start the software NIC with more queues");
    }
    let kind = link::kind(ns, device)?.unwrap_or_default();
    if kind == "tun" {
        return Err(TitanError::Orphans { device: device.to_owned(), kind });
    }
    let queues = in_use(ns, device, xps::tx_queues(ns, device)?.count).min(page::QUEUES as u32);
    enough(device, Found { ifindex, queues, nic_page: None, filters }, "; `ethtool -L` may give it more")
}

/// The transmit queues that are in use. A driver may show more in sysfs than it uses (igb shows 8 of 4), and what is put
/// into another one goes to the first (`netdev_cap_txqueue`); its channels say how many they are.
fn in_use(ns: &NetNs, device: &str, shown: u32) -> u32 {
    let channels = Ethtool::open(ns, device).and_then(|mut nic| nic.channels());
    match channels {
        Ok(Some(channels)) if channels.tx.count + channels.combined.count > 0 => {
            shown.min(channels.tx.count + channels.combined.count)
        }
        _ => shown,
    }
}

fn enough(device: &str, found: Found, hint: &str) -> Result<Found> {
    if found.queues < 2 {
        return Err(TitanError::OneQueue { device: device.to_owned(), hint: hint.to_owned() });
    }
    Ok(found)
}

/// The queues that each core may choose from; empty for all.
fn pools(ns: &NetNs, device: &str, pool: &Pool, found: &Found) -> Result<Vec<Vec<QueueId>>> {
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

fn by_core(queues: &xps::TxQueues) -> Vec<Vec<QueueId>> {
    let pools = queues.pools();
    let cores = pools.keys().max().map_or(0, |last| *last as usize + 1).min(CPUS);
    (0..cores as u32).map(|core| pools.get(&core).into_iter().flatten().copied().collect()).collect()
}

fn load(settings: &Settings, found: &Found, pools: &[Vec<QueueId>]) -> Result<Loaded> {
    let weights = &settings.weights;
    for (given, what, most) in [
        (weights.rules.len(), "rows of the match table", crate::match_table::RULES),
        (weights.cgroups.len(), "cgroups", crate::match_table::CGROUPS),
    ] {
        if given > most {
            return Err(TitanError::Table { given, what, most });
        }
    }
    let config = Config {
        queues: found.queues,
        least_occupied: settings.parts.dqa,
        pooled: pools.iter().any(|queues| !queues.is_empty()),
        rules: weights.rules.len() as u32,
        cgroups: weights.cgroups.len() as u32,
        most_flows: settings.most_flows,
        with_action: found.nic_page.is_none(),
        device_holds: found.nic_page.is_some(),
        default_weight: weights.rules.last().map_or(1, |rule| rule.lane.0),
    };
    let loaded = Loaded::load(&config, found.nic_page.as_ref())?;
    for (i, rule) in weights.rules.iter().enumerate() {
        loaded.set_element("rules", i as u32, &encode(rule))?;
    }
    for (i, path) in weights.cgroups.iter().enumerate() {
        loaded.set_element("cgroups", i as u32, &cgroup(path))?;
    }
    for (cpu, queues) in pools.iter().enumerate() {
        loaded.set_element("pools", cpu as u32, &pool_bytes(queues))?;
    }
    Ok(loaded)
}

/// A cgroup as the programs compare it (`struct weft_cgroup`); zeros, which match nothing, for one that does not exist.
fn cgroup(path: &str) -> [u8; 16] {
    let mut element = [0; 16];
    if let Some(cgroup) = find_cgroup(path)
        && let Ok(id) = cgroup.id()
    {
        element[..8].copy_from_slice(&id.to_ne_bytes());
        element[8..12].copy_from_slice(&cgroup.level().to_ne_bytes());
    }
    element
}

fn describe(settings: &Settings) -> String {
    let how = if settings.parts.dqa { "least occupied" } else { "hash" };
    match settings.pool {
        Pool::All => format!("{how} of all queues"),
        Pool::Xps => format!("{how} of the core's XPS queues"),
        Pool::Given(_) => format!("{how} of the core's queues"),
    }
}
