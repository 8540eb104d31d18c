//! The software NIC: ports, an uplink, a policy, and four threads, or more with several workers (`nic/workers.rs`).
//!
//! [`SoftwareNic::start_without_port`], in this order:
//! 1. The plan fixes which lane has which rings. [`NicPlan`] holds policy, configuration and rings together, so they
//!    cannot disagree.
//! 2. The engine is built, and the maps that all ports share.
//! 3. The queue below the NIC is bounded, and the uplink's counters are read as a baseline.
//! 4. The threads start: the transmit worker, the receive thread, the thread that expires silent
//!    flows, and the one that follows the kernel side of the ports.
//!
//! Ports are added and removed while the NIC runs (`nic/ports.rs`). [`SoftwareNic::start`] starts a NIC with one port,
//! which receives by the uplink's device.
//!
//! [`SoftwareNic::stop`], in this order:
//! 1. All ports refuse packets, and are taken down.
//! 2. The worker sends the packets that have entered, for at most the grace period.
//! 3. The ports are removed. The packets left in their rings count as held.
//! 4. The threads stop and are joined.
//! 5. The totals are read. They are exact from then on.
//!
//! Ownership: the worker owns the rings, the engine and the link; each counter has one writing thread; `SoftwareNic`
//! owns the devices and reads the counters. Dropping it removes the devices. The uplink's device belongs to the NIC and
//! to no port.
//!
//! Rare branches: a failed read of the kernel's counters keeps the previous reading and is counted (`unread`). A NIC
//! whose ports all lost their devices is reported by [`SoftwareNic::is_running`]. It takes further ports.

mod change;
mod kept;
mod port;
mod ports;
mod workers;

use crate::counters::{Counters, LagGauge};
use crate::departures::{DepartureLog, Departures};
use crate::doorbell::{CgroupEntry, EgressError, NicMaps, PrepareError, TableError, TapProgramError, check};
use crate::kernel_counters::{UplinkCounterCache, rest_of};
use crate::layout::LaneEntry;
use crate::link::{DeviceLink, LinkKind, LinkRate};
use crate::plan::{Mode, PlanError, PortShare, RingPlan, Vacancies};
use crate::port::{Port, PortError, Uplink};
use crate::redirect::{self, ThreadReason};
use crate::sync::Ordering;
pub use crate::totals::{Arrivals, ClassTotals, Draining, Lag, PortTotals, Totals};
use crate::worker::{ExchangeError, SegmentsPerTurn};
pub use change::{ChangedPolicy, PreparedPolicy};
use core::num::NonZeroUsize;
use core::time::Duration;
pub use kept::{Adopted, IN_HAND, KeptNic, LostPort};
pub use port::{NicPort, PortId, PortParts};
use ports::close;
pub use ports::{NIC_RINGS, WireCounters};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use weft_host::bpf::BpfError;
use weft_host::clock;
use weft_policy::CompiledPolicy;
use weft_sched::queues::Staleness;
use weft_titan::page::QueuePage;
use weft_units::{BitsPerSec, Bytes, Counted, Instant, Nanos, Packets};
#[cfg(test)]
pub(crate) use workers::limited;
pub use workers::{Samples, WORKERS, WorkersError};
use workers::{Threads, WorkerSet, WorkersCounters};

/// The configuration of a NIC.
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// The scheduling mode.
    pub mode: Mode,
    /// The rate of the emulated link, or the rate limit of the real one.
    pub rate: BitsPerSec,
    /// The link that the rate describes: one that exists only as a clock, or a device.
    pub link: LinkKind,
    /// The unit of segmentation of an emulated link, and the longest chunk of a device. [`Mode::Multiqueue`] has its own.
    pub segments_per_turn: SegmentsPerTurn,
    /// The maximum lag of the link's clock behind the wall clock before link time is lost.
    pub catch_up: Nanos,
    /// The length of the windows of [`Sample`](crate::sampler::Sample)s.
    pub window: Nanos,
    /// The policy's cgroups, resolved; `None` for a cgroup that does not exist.
    pub cgroups: Vec<Option<CgroupEntry>>,
    /// The expected number of flows by class, for [`Mode::RingPerFlow`].
    pub flows: Vec<u32>,
    /// The maximum number of the port's rings.
    pub rings: usize,
    /// The departure log, if any, with its expected number of departures: the link's rate over the size of a packet as
    /// the host sends it, times the duration. More departures are no error.
    pub departures: Option<usize>,
}

/// A policy and a configuration, with the rings derived from both. None of them can be replaced, so a NIC never starts
/// with the rings of another policy.
#[derive(Clone, Debug)]
pub struct NicPlan {
    config: NicConfig,
    rings: RingPlan,
    workers: NonZeroUsize,
}

impl NicPlan {
    /// Plans the rings of a port for `policy` and `config`.
    ///
    /// # Errors
    /// When the policy exceeds the port, or the rate is zero.
    pub fn new(policy: &CompiledPolicy, config: NicConfig) -> Result<Self, NicError> {
        check(policy)?;
        if config.rate == BitsPerSec::ZERO {
            return Err(NicError::ZeroRate);
        }
        let rings = RingPlan::new(policy, config.mode, config.rings, &config.flows)?;
        Ok(Self { config, rings, workers: NonZeroUsize::MIN })
    }

    /// The plan of a NIC with `workers` workers, each of which serves some of the ports.
    ///
    /// # Errors
    /// When that many workers cannot share the policy or the link.
    pub fn with_workers(self, workers: NonZeroUsize) -> Result<Self, WorkersError> {
        workers::check(workers, &self.config, &self.rings)?;
        Ok(Self { workers, ..self })
    }

    /// The number of workers.
    pub const fn workers(&self) -> NonZeroUsize {
        self.workers
    }

    /// The plan of a NIC whose policy has changed.
    fn changed(config: NicConfig, rings: RingPlan, workers: NonZeroUsize) -> Self {
        Self { config, rings, workers }
    }

    /// The plan with the policy's cgroups, resolved.
    #[must_use]
    pub fn with_cgroups(mut self, cgroups: Vec<Option<CgroupEntry>>) -> Self {
        self.config.cgroups = cgroups;
        self
    }

    /// The policy.
    pub fn policy(&self) -> &CompiledPolicy {
        self.rings.policy()
    }

    /// The policy with infrastructure, where the NIC adds it.
    pub fn whole(&self) -> &CompiledPolicy {
        self.rings.whole()
    }

    /// The configuration.
    pub const fn config(&self) -> &NicConfig {
        &self.config
    }

    /// The rings.
    pub const fn rings(&self) -> &RingPlan {
        &self.rings
    }

    /// The number of rings that the port must have.
    pub fn ring_count(&self) -> u32 {
        u32::try_from(self.rings.rings.len()).unwrap_or(u32::MAX)
    }

    /// The lanes as the eBPF program reads them, for settings that do not follow from the policy: a lane's class in a
    /// qdisc, and its flow bound.
    pub fn lanes_mut(&mut self) -> &mut [LaneEntry] {
        &mut self.rings.lanes
    }

    /// Plans the rings of the port `name`, with its share of resources.
    ///
    /// # Errors
    /// When the policy has more lanes for the port than the port has rings.
    pub fn for_port(&self, name: &str, share: PortShare) -> Result<RingPlan, PlanError> {
        self.rings.of_port(name, self.config.mode, share, &self.config.flows)
    }
}

/// The time that packets below a stopped worker have to be counted, and the pause between two looks.
const COUNTED: Nanos = Nanos::from_secs(2);
const LOOK: Duration = Duration::from_millis(2);

/// Errors from starting or running the NIC.
#[derive(Debug, thiserror::Error)]
pub enum NicError {
    /// The policy exceeds the match table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The match tables could not be written.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The policy exceeds the rings.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The eBPF program failed to load or attach.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The programs of a TAP failed to attach.
    #[error(transparent)]
    TapProgram(#[from] TapProgramError),
    /// A device failed.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The program found no place at the port's egress.
    #[error(transparent)]
    Egress(#[from] EgressError),
    /// The engine rejects the program: a bug of the compiler, reported instead of executed.
    #[error("the engine refuses the policy: {0}")]
    Engine(String),
    /// The kernel cannot carry received packets to the port, and nothing else was allowed.
    #[error("no receive in the kernel: {0}; allow the thread with --receive auto")]
    Receive(#[from] ThreadReason),
    /// Only a policy's NIC may have more than one port.
    #[error(
        "{name} cannot be a second port: without a policy's own rings the classes of packets are known for one port only; \
         run a policy, or start another NIC"
    )]
    OnePort {
        /// The port.
        name: String,
    },
    /// The port has no device to receive by.
    #[error(
        "{name} has no device to receive by: only the first port can receive by the uplink's, unless that only transmits"
    )]
    NoReceiver {
        /// The port.
        name: String,
    },
    /// The NIC has no such port.
    #[error("the NIC has no {id}; it was removed")]
    NoSuchPort {
        /// The identity given.
        id: PortId,
    },
    /// The engine keeps its program: a bug of the plan, reported instead of executed.
    #[error("the engine refuses the change: {0}")]
    Exchange(#[from] ExchangeError),
    /// The policy of a NIC without one cannot be changed.
    #[error("this mode of the NIC has no policy to change")]
    NoPolicy,
    /// The emulated link cannot become a device, nor a device an emulated link.
    #[error("the kind of link cannot change while the NIC runs")]
    OtherLink,
    /// The policy or the ports changed after the change was prepared.
    #[error("the policy or the ports have changed meanwhile; try again")]
    Stale,
    /// The state or a descriptor of a former process does not fit this one.
    #[error("the ports of the former process cannot be taken over: {0}")]
    Kept(String),
    /// Several workers cannot share the policy or the link.
    #[error(transparent)]
    Workers(#[from] WorkersError),
    /// The rate is zero.
    #[error("a link rate of zero sends nothing; give one above zero, such as --rate 500mbps")]
    ZeroRate,
    /// A thread could not be started, or a ring failed.
    #[error("the software NIC stopped: {0}")]
    Stopped(String),
}

/// A running NIC.
#[derive(Debug)]
pub struct SoftwareNic {
    // First, so that the worker has ended before devices are deleted.
    threads: Threads,
    plan: NicPlan,
    maps: Arc<NicMaps>,
    counters: WorkersCounters,
    uplink: Arc<OwnedFd>,
    uplink_device: UplinkWatch,
    /// The longest chunk on the wire, of several workers.
    longest_chunk: Bytes,
    samples: Samples,
    departures: Option<Departures>,
    ports: Vec<NicPort>,
    /// The number of ports added so far.
    next_id: u64,
    /// The sum of the removed ports.
    removed: PortTotals,
    /// The number of changes of the policy.
    generation: u64,
    /// The resting numbers.
    vacancies: Vacancies,
}

/// The cgroup table of a running NIC.
#[derive(Clone, Debug)]
pub struct CgroupTable {
    maps: Arc<NicMaps>,
}

impl CgroupTable {
    /// Sets cgroup `index` of the policy: a restarted service has a new cgroup of the same path.
    ///
    /// # Errors
    /// When the policy has no such cgroup.
    pub fn set(&self, index: usize, cgroup: Option<CgroupEntry>) -> Result<(), TableError> {
        self.maps.set_cgroup(index, cgroup)
    }

    /// The generation of the match tables: with each change, every flow is classified again.
    pub fn generation(&self) -> u64 {
        self.maps.match_tables().generation()
    }
}

/// The fate of packets at the ports while no worker runs: after a crash, during a hang, and between a process and its
/// successor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnFailure {
    /// They wait in their rings, and then in their sockets.
    #[default]
    Hold,
    /// The kernel sends them to the uplink's device, unscheduled, once the last heartbeat of the worker is 80 ms
    /// old.
    Pass,
}

/// The uplink's device, whose descriptor belongs to the worker.
#[derive(Debug)]
struct UplinkWatch {
    device: Uplink,
    /// The device's counters when the NIC started.
    before: Counted,
    counters: UplinkCounterCache,
}

impl SoftwareNic {
    /// Starts the NIC of `plan` on `port`, which has the plan's number of rings, and `uplink`. The port also receives
    /// by `uplink`. Brings the port up.
    ///
    /// # Errors
    /// When the policy does not fit, the kernel refuses the eBPF program, or a thread cannot be started.
    pub fn start(plan: NicPlan, port: Port, uplink: Uplink) -> Result<Self, NicError> {
        let rings = plan.rings().clone();
        let mut nic = Self::start_without_port(plan, uplink)?;
        nic.add_port(PortParts { port, plan: rings, receive: None })?;
        Ok(nic)
    }

    /// Starts the NIC of `plan` above `uplink`, without a port.
    ///
    /// # Errors
    /// When the policy does not fit, the kernel refuses a map, or a thread cannot be started.
    pub fn start_without_port(plan: NicPlan, uplink: Uplink) -> Result<Self, NicError> {
        let (workers, cgroups) = (plan.workers().get(), &plan.config().cgroups);
        let maps = NicMaps::for_workers(workers, plan.rings(), cgroups)?;
        if uplink.only_transmits() {
            // A kernel that refuses the program fills a queue that no process reads, and drops the rest.
            let _ = redirect::discard(&uplink);
        }
        Self::start_over(plan, uplink, maps)
    }

    /// Starts the threads of the NIC of `plan` over `maps`.
    fn start_over(plan: NicPlan, uplink: Uplink, maps: Arc<NicMaps>) -> Result<Self, NicError> {
        let (config, rings) = (plan.config(), plan.rings());
        maps.offer_messages(rings);
        maps.note_socket_owners(rings);
        if let Mode::Multiqueue { queues, .. } = config.mode {
            maps.queues().nic_queues.store(u64::from(queues), Ordering::Release);
        }
        let (before, _) = uplink.arrived()?;
        let WorkerSet { workers, counters, uplink: fd, samples, departures, longest_chunk } =
            WorkerSet::build(&plan, &uplink)?;
        let shared_rings = rings.rings.iter().any(|ring| ring.class.is_none());
        let threads = Threads::start(workers, &maps, shared_rings)?;
        let uplink_device = UplinkWatch { device: uplink, before, counters: UplinkCounterCache::new(before) };
        let (ports, next_id) = (Vec::new(), 0);
        let classes = vec![ClassTotals::default(); rings.classes()];
        let removed = PortTotals { classes, ..PortTotals::default() };
        Ok(Self {
            threads,
            plan,
            maps,
            counters,
            uplink: fd,
            uplink_device,
            longest_chunk,
            samples,
            departures,
            ports,
            next_id,
            removed,
            generation: 0,
            vacancies: Vacancies::default(),
        })
    }

    /// Sets the fate of packets at the ports while no worker runs.
    pub fn on_failure(&self, fate: OnFailure) {
        let device = match fate {
            OnFailure::Hold => 0,
            OnFailure::Pass => self.uplink_device.device.index(),
        };
        self.maps.summaries().for_each(|summary| summary.pass_to.store(device.into(), Ordering::Release));
    }

    /// The age of the worker's last heartbeat; the greatest of several workers'.
    pub fn heartbeat_age(&self) -> Nanos {
        let beats = self.maps.summaries().map(|summary| summary.heartbeat.load(Ordering::Acquire));
        Nanos(clock::now().as_nanos().saturating_sub(beats.min().unwrap_or(0)))
    }

    /// The counters of the first worker.
    fn counters(&self) -> &Counters {
        &self.counters.0[0]
    }

    /// Applies the MTU and the carrier of the interface behind the uplink to the ports and the uplink's device, and the
    /// observed rate of the link, if it has no other, to the share of infrastructure.
    ///
    /// # Errors
    /// When a port no longer exists; the others have followed.
    pub fn follow(&self, mtu: u32, carrier: bool) -> Result<(), NicError> {
        // The kernel lowers a macvlan's MTU with its parent's and never raises it.
        let _ = self.uplink_device.device.set_mtu(mtu);
        if self.observes_rate() {
            self.divide_infrastructure();
        }
        self.ports.iter().map(|port| port.follow(mtu, carrier)).fold(Ok(()), Result::and)
    }

    /// Whether the link has no rate but that of the uplink's device.
    fn observes_rate(&self) -> bool {
        matches!(self.plan.config().link, LinkKind::Device(DeviceLink { rate: LinkRate::Observed, .. }))
    }

    /// The rate that the uplink's device shows by its back-pressure; `None` while it is not the bottleneck.
    fn observed_rate(&self) -> Option<BitsPerSec> {
        Some(BitsPerSec(self.counters().observed_bps.get())).filter(|rate| *rate != BitsPerSec::ZERO)
    }

    /// The samples of the link's time, one per window.
    pub fn samples(&self) -> &Samples {
        &self.samples
    }

    /// The cgroup table of the policy, which may be written while the NIC runs.
    pub fn cgroups(&self) -> CgroupTable {
        CgroupTable { maps: Arc::clone(&self.maps) }
    }

    /// The page of the hardware queues, written and read by a program that assigns queues. Used only by
    /// [`Mode::Multiqueue`].
    pub fn queue_page(&self) -> &QueuePage {
        self.maps.queues()
    }

    /// The plan, for the plans of further ports.
    pub fn plan(&self) -> &NicPlan {
        &self.plan
    }

    /// The plan of the rings of a port with the NIC's own share of resources.
    pub fn ring_plan(&self) -> &RingPlan {
        self.plan.rings()
    }

    /// The processor time of the workers so far, at most 20 ms old.
    pub fn worker_cpu(&self) -> Nanos {
        Nanos(self.counters.sum(|counters| &counters.worker_cpu))
    }

    /// Whether the NIC still carries packets: its workers run, and the devices of one of its ports exist, if it has ports.
    pub fn is_running(&self) -> bool {
        self.workers_run() && (self.ports.is_empty() || !self.ports.iter().all(NicPort::has_failed))
    }

    /// Whether its workers run, whatever became of its ports.
    pub fn workers_run(&self) -> bool {
        self.threads.is_running()
    }

    /// Takes the ports down, sends the packets that have entered for at most `grace`, and stops the threads. The packets
    /// left count as held.
    ///
    /// # Errors
    /// When the worker failed before.
    pub fn stop(self, grace: Nanos) -> Result<Totals, NicError> {
        self.stop_with_log(grace).map(|(totals, _)| totals)
    }

    /// Stops the NIC as [`stop`](Self::stop), and returns the departure log, less what was taken before; an empty one if none was
    /// configured.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub fn stop_with_log(mut self, grace: Nanos) -> Result<(Totals, DepartureLog), NicError> {
        self.ports.iter().for_each(|port| self.unwatch(port));
        close(self.ports.iter());
        if self.is_running() {
            NicPort::wait_drained(&self.ports, grace);
        }
        // A device that also receives is taken down with its port, and drops what is in its queue then.
        let until = clock::now() + COUNTED;
        self.wait_for_uplink(until);
        for port in core::mem::take(&mut self.ports) {
            self.retire(port);
        }
        self.threads.join()?;
        self.wait_for_uplink(until);
        let log = self.take_departures();
        Ok((self.totals()?, log))
    }

    /// The departures since the last call, but for the last thousands, which come later; none without a log.
    /// [`stop_with_log`](Self::stop_with_log) has the rest.
    pub fn take_departures(&self) -> DepartureLog {
        self.departures.as_ref().map(Departures::collect).unwrap_or_default()
    }

    /// The uplink's descriptor, for tests that inject packets.
    pub fn uplink_fd(&self) -> &OwnedFd {
        &self.uplink
    }
}

/// The totals: the sums of the ports, the uplink's counters and those of the workers.
impl SoftwareNic {
    /// The current totals: the sums over the ports, those that were removed included, and the NIC's own.
    ///
    /// # Errors
    /// None at present: a counter that cannot be read keeps its last reading, and [`PortTotals::unread`] counts that.
    pub fn totals(&self) -> Result<Totals, NicError> {
        self.totals_with(NicPort::totals)
    }

    /// The time that looks at an idle port serve again: a second for up to 16 ports, and longer with more, so that idle
    /// ports cost the same however many there are.
    pub fn rest(&self) -> Nanos {
        rest_of(self.ports.len())
    }

    /// The totals, in which the kernel's counters of idle ports may be as old as [`rest`](Self::rest): for status lines.
    ///
    /// # Errors
    /// As [`Self::totals`].
    pub fn recent_totals(&self) -> Result<Totals, NicError> {
        self.totals_with(|port| port.recent_totals(self.rest()))
    }

    /// Waits until the uplink's device has counted what was written to it, at most until `until`. A macvtap has a queue (`pfifo_fast`):
    /// a write that finds another processor at it leaves its packet to that one, or to a softirq (`__dev_xmit_skb` and
    /// `__qdisc_run`, net/core/dev.c), which on a busy machine comes later. Returns at once if the device is gone.
    fn wait_for_uplink(&self, until: Instant) {
        let UplinkWatch { device, before, counters } = &self.uplink_device;
        let mut failed_before = None;
        loop {
            let ((arrived, dropped), failed) = counters.read(device);
            let dropped = Packets(dropped.saturating_sub(self.refused_writes()));
            let written = self.counters.count(|c| &c.uplink_writes).packets;
            let is_gone = failed_before.is_some_and(|before| failed > before);
            if is_gone
                || arrived.saturating_sub(*before).packets + dropped >= written
                || clock::now() >= until
            {
                return;
            }
            failed_before = Some(failed);
            std::thread::sleep(LOOK);
        }
    }

    /// The writes to the uplink that its device refused and counts as drops.
    fn refused_writes(&self) -> u64 {
        let counted = self.uplink_device.device.counts_failed_writes();
        if counted { self.counters.count(|c| &c.uplink_failed).packets.get() } else { 0 }
    }

    fn totals_with(&self, of: impl Fn(&NicPort) -> PortTotals) -> Result<Totals, NicError> {
        let mut ports = self.removed.clone();
        self.ports.iter().for_each(|port| ports.add(&of(port)));
        let ((arrived, device_dropped), failed) =
            self.uplink_device.counters.read(&self.uplink_device.device);
        ports.unread += failed;
        let c = &self.counters;
        let uplink_failed = c.count(|c| &c.uplink_failed);
        Ok(Totals {
            uplink_writes: c.count(|c| &c.uplink_writes),
            uplink_failed,
            uplink_waits: c.packets(|c| &c.uplink_waits),
            // Each worker counts each change.
            changes: self.counters().changes.get().packets.get(),
            change_pause_max: Nanos(c.max(|c| &c.change_pause_max)),
            draining: c.draining(),
            sojourns: c.sojourns(self.plan.rings().classes()),
            lags: self.lags(),
            overdrawn: c.packets(|c| &c.overdrawn),
            ahead_max: Nanos(c.max(|c| &c.ahead_max)),
            observed_rate: self.observed_rate(),
            uplink_arrived: arrived.saturating_sub(self.uplink_device.before),
            uplink_dropped: device_dropped.saturating_sub(self.refused_writes()),
            wakeups: self.wakeups(),
            sleeps: c.packets(|c| &c.sleeps),
            wakeups_lost: c.packets(|c| &c.wakeups_lost),
            turns: c.packets(|c| &c.turns),
            worker_busy: c.max(|c| &c.worker_busy),
            worker_cpu: self.worker_cpu(),
            link_lost: Nanos(c.max(|c| &c.link_lost)),
            flows: c.sum(|c| &c.flows),
            staleness: Staleness {
                count: c.sum(|c| &c.weights_taken),
                sum: Nanos(c.sum(|c| &c.weights_age)),
                max: Nanos(c.max(|c| &c.weights_age_max)),
            },
            ports,
        })
    }

    /// The largest lags, by leaf that has a due.
    fn lags(&self) -> Vec<Lag> {
        let leaves = self.plan.rings().program.leaves.iter().zip(&self.counters().lags);
        let lag = |(leaf, gauge): (&weft_sched::LeafSpec, &LagGauge)| {
            let bound = gauge.bound.get();
            let (bytes, span) = (Bytes(gauge.bytes.get()), Nanos(gauge.nanos.get()));
            (bound > 0).then(|| Lag { leaf: leaf.name.clone(), bytes, span, bound: Bytes(bound) })
        };
        leaves.filter_map(lag).collect()
    }
}
