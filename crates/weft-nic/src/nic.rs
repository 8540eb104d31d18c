//! The software NIC: a port, an uplink, a policy, and three threads.
//!
//! [`SoftwareNic::start`], in this order:
//! 1. The plan fixes which lane has which rings. [`NicPlan`] holds policy, configuration and rings together, so they
//!    cannot disagree.
//! 2. The engine is built with one flow per ring.
//! 3. The eBPF programs are loaded and attached: at the port's egress, and at the far end's ingress, which drops
//!    packets that bypassed the egress.
//! 4. The queue below the NIC is bounded, and the uplink's counters are read as a baseline.
//! 5. The receive direction goes to the kernel where it can ([`ReceivePath`]).
//! 6. The threads start: the transmit worker, the receive thread, and the thread that expires silent flows.
//! 7. The port is brought up. Until then no packet enters, so none passes uncounted.
//!
//! [`SoftwareNic::stop`], in this order:
//! 1. The port is taken down.
//! 2. The worker sends the packets that have entered, for at most the grace period.
//! 3. The threads stop and are joined. The worker counts the packets left in the rings as held.
//! 4. The redirect ends: the uplink's device is taken down.
//! 5. The totals are read. They are exact from then on.
//!
//! Ownership: the worker owns the rings, the engine and the link; each counter has one writing thread; `SoftwareNic`
//! owns the devices and reads the counters. Dropping it removes the devices.
//!
//! Rare branches: a failed read of the kernel's counters keeps the previous reading and is counted (`unread`). A worker
//! that ended early is reported by [`SoftwareNic::is_running`], and its error by [`SoftwareNic::stop`].

mod device;
mod plan;
mod programs;
pub(crate) mod scheduler;
mod threads;

use crate::counters::{ClassCounters, Count, Counters};
use crate::departures::{DepartureLog, Departures, departures};
use crate::doorbell::{
    CgroupEntry, Doorbells, PrepareError, PreparedTables, Shared, TableError, TapProgramError,
};
use crate::layout::ClassBell;
use crate::link::{DeviceLink, Link, LinkKind, LinkRate, queue_below};
use crate::plan::{Mode, PlanError, RingPlan};
use crate::port::{Port, PortError, Uplink};
use crate::readings::{LastReadings, Readings};
use crate::redirect::{ReceivePath, ThreadReason};
use crate::sampler::{Sample, Sampler};
use crate::sync::{AtomicU64, Ordering};
pub use crate::totals::{ClassTotals, Lag, Totals};
use crate::worker::{Device, SegmentsPerTurn, WorkerParts};
use device::device;
pub use plan::NicPlan;
use programs::{attach_doorbells, close};
use rustix::io::Errno;
use scheduler::make_engine;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use threads::{start_rx, start_tidy, start_worker};
use weft_host::bpf::BpfError;
use weft_host::clock;
use weft_sched::queues::Staleness;
use weft_titan::page::QueuePage;
use weft_units::{BitsPerSec, Bytes, ClassId, Nanos, Packets};

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
    /// The length of the windows of [`Sample`]s.
    pub window: Nanos,
    /// The policy's cgroups, resolved; `None` for a cgroup that does not exist.
    pub cgroups: Vec<Option<CgroupEntry>>,
    /// The expected number of flows by class, for [`Mode::Qpf`].
    pub flows: Vec<u32>,
    /// The maximum number of the port's rings.
    pub rings: usize,
    /// The departure log, if any, with its expected number of departures: the link's rate over the size of a packet as
    /// the host sends it, times the duration. More departures are no error.
    pub departures: Option<usize>,
}

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
    /// The engine rejects the program: a bug of the compiler, reported instead of executed.
    #[error("the engine refuses the policy: {0}")]
    Engine(String),
    /// The kernel cannot carry received packets to the port, and nothing else was allowed.
    #[error("no receive in the kernel: {0}; allow the thread with --receive auto")]
    Receive(#[from] ThreadReason),
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
    port: Port,
    doorbells: Arc<Doorbells>,
    counters: Arc<Counters>,
    uplink: Arc<OwnedFd>,
    uplink_device: UplinkWatch,
    receive: ReceivePath,
    samples: Receiver<Sample>,
    departures: Option<Departures>,
    /// The last reading of the kernel's counters.
    readings: LastReadings,
    stop: Arc<AtomicBool>,
    worker: Option<JoinHandle<Result<(), Errno>>>,
    rx: Option<JoinHandle<()>>,
    tidy: Option<JoinHandle<()>>,
    plan: RingPlan,
}

/// The cgroup table of a running NIC.
#[derive(Clone, Debug)]
pub struct CgroupTable {
    doorbells: Arc<Doorbells>,
}

impl CgroupTable {
    /// Sets cgroup `index` of the policy: a restarted service has a new cgroup of the same path.
    ///
    /// # Errors
    /// When the policy has no such cgroup.
    pub fn set(&self, index: usize, cgroup: Option<CgroupEntry>) -> Result<(), TableError> {
        self.doorbells.set_cgroup(index, cgroup)
    }
}

/// The uplink's device, whose descriptor belongs to the worker.
#[derive(Debug)]
struct UplinkWatch {
    device: Uplink,
    /// The device's counters when the NIC started.
    before: Count,
}

impl SoftwareNic {
    /// Starts the NIC of `plan` on `port`, which has the plan's number of rings, and `uplink`. Brings the port up.
    ///
    /// # Errors
    /// When the policy does not fit, the kernel refuses the eBPF program, or a thread cannot be started.
    pub fn start(plan: NicPlan, mut port: Port, uplink: Uplink) -> Result<Self, NicError> {
        let (config, plan) = plan.into_parts(port.ring_packets);
        let fds = core::mem::take(&mut port.rings);
        let rx_fd = fds
            .first()
            .ok_or_else(|| NicError::Stopped("the port has no rings".to_owned()))?
            .try_clone()
            .map_err(|e| NicError::Stopped(format!("duplicate a ring's descriptor: {e}")))?;
        let (engine, rings, ring_of_flow) = make_engine(&plan, fds)?;
        let doorbells = attach_doorbells(&config, &plan, &port)?;
        if let Mode::Multiqueue { queues, .. } = config.mode {
            doorbells.queues().nic_queues.store(u64::from(queues), Ordering::Release);
        }
        let chunk = config.segments_per_turn.longest_chunk(Bytes(uplink.mtu()?.into()));
        let device = device(&config, &plan, chunk.min(uplink.longest_segment()?));
        let classes = plan.classes();
        let leaves = if device.is_some() { plan.program.leaves.len() } else { 0 };
        let counters = Arc::new(Counters::new(classes, leaves));
        let stop = Arc::new(AtomicBool::new(false));
        let fd =
            uplink.fd.try_clone().map_err(|e| NicError::Stopped(format!("duplicate the uplink: {e}")))?;
        let fd = Arc::new(fd);
        uplink.bound_queue(device.as_ref().map_or_else(|| queue_below(config.rate, chunk), Device::bound))?;
        let (before, _) = uplink.arrived()?;
        let receive = ReceivePath::choose(&port, &uplink)?;
        let (out, samples) = channel();
        let now = clock::now();
        let (recorder, departures) = config.departures.map(departures).unzip();
        let parts = WorkerParts {
            rings,
            ring_of_flow,
            uplink: Arc::clone(&fd),
            link: match config.link {
                LinkKind::Device(DeviceLink { rate: LinkRate::Observed, .. }) => Link::observed(now),
                _ => Link::new(config.rate, config.catch_up, now),
            },
            device,
            segments_per_turn: config.segments_per_turn,
            counters: Arc::clone(&counters),
            sampler: Sampler::new(config.window, now, classes, out),
            default_class: ClassId::from_index(plan.policy().classes.len().saturating_sub(1)),
            departures: recorder,
            cut_below: uplink.counts_failed_writes(),
        };
        let shared_rings = plan.rings.iter().any(|ring| ring.class.is_none());
        let worker = start_worker(engine, parts, Arc::clone(&doorbells), Arc::clone(&stop), shared_rings)?;
        let rx = start_rx(&fd, rx_fd, &counters, &stop)?;
        let tidy = start_tidy(&doorbells, &plan, &stop)?;
        port.up()?;
        Ok(Self {
            port,
            doorbells,
            counters,
            uplink: fd,
            uplink_device: UplinkWatch { device: uplink, before },
            receive,
            samples,
            departures,
            readings: LastReadings::new(before),
            stop,
            worker: Some(worker),
            rx: Some(rx),
            tidy: Some(tidy),
            plan,
        })
    }

    /// Applies the MTU and the carrier of the interface behind the uplink to the port and the uplink's device.
    ///
    /// # Errors
    /// When the port no longer exists.
    pub fn follow(&self, mtu: u32, carrier: bool) -> Result<(), NicError> {
        // The kernel lowers a macvlan's MTU with its parent's and never raises it.
        let _ = self.uplink_device.device.set_mtu(mtu);
        Ok(self.port.follow(mtu, carrier)?)
    }

    /// The samples of the link's time, one per window.
    pub fn samples(&self) -> &Receiver<Sample> {
        &self.samples
    }

    /// The carrier of received packets.
    pub fn receive_path(&self) -> &ReceivePath {
        &self.receive
    }

    /// The port.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// The cgroup table of the policy, which may be written while the NIC runs.
    pub fn cgroups(&self) -> CgroupTable {
        CgroupTable { doorbells: Arc::clone(&self.doorbells) }
    }

    /// Prepares the match tables of another policy, which has the lanes of this one, with its cgroups, resolved.
    ///
    /// # Errors
    /// As [`Doorbells::prepare_tables`].
    pub fn prepare_tables(
        &self,
        plan: &NicPlan,
        cgroups: &[Option<CgroupEntry>],
    ) -> Result<PreparedTables<'_>, PrepareError> {
        self.doorbells.prepare_tables(plan.rings(), cgroups)
    }

    /// The doorbell page: posted and done counts per ring.
    pub fn doorbells(&self) -> &Shared {
        self.doorbells.shared()
    }

    /// The page of the hardware queues, written and read by a program that assigns queues. Used only by
    /// [`Mode::Multiqueue`].
    pub fn queue_page(&self) -> &QueuePage {
        self.doorbells.queues()
    }

    /// The plan of its rings.
    pub fn ring_plan(&self) -> &RingPlan {
        &self.plan
    }

    /// The number of tracked flows by class.
    pub fn flows_by_class(&self) -> Vec<u32> {
        let mut flows = vec![0; self.counters.classes.len()];
        for (lane, tracked) in self.plan.lanes.iter().zip(&self.doorbells.shared().lanes) {
            if let Some(sum) = flows.get_mut(usize::from(lane.class)) {
                *sum += tracked.flows.load(Ordering::Relaxed);
            }
        }
        flows
    }

    /// The processor time of the worker so far, at most 20 ms old.
    pub fn worker_cpu(&self) -> Nanos {
        Nanos(self.counters.worker_cpu.get())
    }

    /// Whether the worker still runs; it ends early only when the port's devices are deleted.
    pub fn is_running(&self) -> bool {
        self.worker.as_ref().is_some_and(|w| !w.is_finished())
    }

    /// The current totals.
    ///
    /// # Errors
    /// None at present: a counter that cannot be read keeps its last reading, and [`Totals::unread`] counts that.
    pub fn totals(&self) -> Result<Totals, NicError> {
        let shared = self.doorbells.shared();
        let readings =
            self.readings.read(&self.port, &self.uplink_device.device, &self.doorbells, &self.receive);
        let Readings { drops, arrived: (arrived, device_dropped), bpf, guard: guard_cost, failed, .. } =
            readings;
        let guard = self.doorbells.guard();
        let c = &self.counters;
        let uplink_failed = c.uplink_failed.get();
        let counted = self.uplink_device.device.counts_failed_writes();
        let ours = if counted { uplink_failed.packets.get() } else { 0 };
        Ok(Totals {
            classes: self.class_totals(),
            drops,
            bpf,
            wakeups: shared.wakeups.load(Ordering::Relaxed),
            records: shared.records.load(Ordering::Relaxed),
            uplink_writes: c.uplink_writes.get(),
            uplink_failed,
            uplink_waits: c.uplink_waits.get().packets.get(),
            lags: self.lags(),
            overdrawn: c.overdrawn.get().packets.get(),
            ahead_max: Nanos(c.ahead_max.get()),
            observed_rate: Some(BitsPerSec(c.observed_bps.get())).filter(|rate| *rate != BitsPerSec::ZERO),
            uplink_arrived: arrived.minus(self.uplink_device.before),
            uplink_dropped: device_dropped.saturating_sub(ours),
            rx_redirected: readings.redirected,
            rx_delivered: readings.deliveries.delivered,
            rx_dropped: readings.deliveries.dropped,
            rx: c.rx.get(),
            rx_passed: c.rx_passed.get(),
            rx_refused: c.rx_refused.get(),
            rx_read_failed: c.rx_read_failed.get().packets.get(),
            rx_ended: c.rx_ended.get() > 0,
            doorbell_ahead: c.doorbell_ahead.get().packets.get(),
            lost: c.lost.get().packets.get(),
            strays: c.strays.get().packets.get(),
            unannounced_drops: guard.unannounced.load(Ordering::Relaxed),
            obscured_drops: guard.obscured.load(Ordering::Relaxed),
            infrastructure_excess: guard.excess.load(Ordering::Relaxed),
            guard: guard_cost,
            unread: failed,
            unrecorded: c.unrecorded.get().packets.get(),
            sleeps: c.sleeps.get().packets.get(),
            wakeups_lost: c.wakeups_lost.get().packets.get(),
            turns: c.turns.get().packets.get(),
            worker_busy: c.worker_busy.get(),
            worker_cpu: Nanos(c.worker_cpu.get()),
            link_lost: Nanos(c.link_lost.get()),
            flows: c.flows.get(),
            staleness: Staleness {
                count: c.weights_taken.get(),
                sum: Nanos(c.weights_age.get()),
                max: Nanos(c.weights_age_max.get()),
            },
        })
    }

    /// The totals by class, from the program's page and the worker's counters.
    fn class_totals(&self) -> Vec<ClassTotals> {
        let pair = |count: &[AtomicU64; 2]| Count {
            packets: Packets(count[0].load(Ordering::Relaxed)),
            bytes: Bytes(count[1].load(Ordering::Relaxed)),
        };
        let pages = &self.doorbells.shared().classes;
        let class = |(page, c): (&ClassBell, &ClassCounters)| ClassTotals {
            bound: pair(&page.bound),
            full: pair(&page.full),
            moving: pair(&page.moving),
            posted: Count {
                packets: Packets(page.packets.load(Ordering::Relaxed)),
                bytes: Bytes(page.bytes.load(Ordering::Relaxed)),
            },
            fetched: c.fetched.get(),
            sent: c.sent.get(),
            refused: c.refused.get(),
            held: c.held.get(),
            wire: c.wire.get(),
            untracked: Packets(page.untracked.load(Ordering::Relaxed)),
        };
        pages.iter().zip(&self.counters.classes).map(class).collect()
    }

    /// The largest lags, by leaf that has a due.
    fn lags(&self) -> Vec<Lag> {
        let leaves = self.plan.program.leaves.iter().zip(&self.counters.lags);
        let lag = |(leaf, gauge): (&weft_sched::LeafSpec, &crate::counters::LagGauge)| {
            let bound = gauge.bound.get();
            let (bytes, span) = (Bytes(gauge.bytes.get()), Nanos(gauge.nanos.get()));
            (bound > 0).then(|| Lag { leaf: leaf.name.clone(), bytes, span, bound: Bytes(bound) })
        };
        leaves.filter_map(lag).collect()
    }

    /// Takes the port down, sends the packets that have entered for at most `grace`, and stops the threads. The packets
    /// left count as held.
    ///
    /// # Errors
    /// When the worker failed before, with the reason.
    pub fn stop(self, grace: Nanos) -> Result<Totals, NicError> {
        self.stop_with_log(grace).map(|(totals, _)| totals)
    }

    /// Stops the NIC as [`stop`](Self::stop), and returns the departure log; an empty one if none was configured.
    ///
    /// # Errors
    /// When the worker failed before, with the reason.
    pub fn stop_with_log(mut self, grace: Nanos) -> Result<(Totals, DepartureLog), NicError> {
        close(&self.port, &self.doorbells);
        let until = clock::now() + grace;
        while clock::now() < until && self.is_running() {
            let totals = self.totals()?;
            let gone = totals.sum(|c| c.sent).plus(totals.sum(|c| c.refused)).packets.get();
            if gone + totals.drops.backlog + totals.drops.ring_full >= totals.sum(|c| c.posted).packets.get()
            {
                break;
            }
            std::thread::sleep(core::time::Duration::from_millis(5));
        }
        self.join()?;
        self.receive.close(&self.uplink_device.device);
        let log = self.departures.as_ref().map(Departures::collect).unwrap_or_default();
        Ok((self.totals()?, log))
    }

    fn join(&mut self) -> Result<(), NicError> {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(rx) = self.rx.take() {
            rx.join().map_err(|_| NicError::Stopped("the receiving thread panicked".to_owned()))?;
        }
        if let Some(tidy) = self.tidy.take() {
            tidy.join().map_err(|_| NicError::Stopped("the flow table's thread panicked".to_owned()))?;
        }
        match self.worker.take().map(JoinHandle::join) {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(error))) => {
                Err(NicError::Stopped(format!("read a descriptor ring of {}: {error}", self.port.name())))
            }
            Some(Err(_)) => Err(NicError::Stopped("the transmit worker panicked".to_owned())),
        }
    }

    /// The uplink's descriptor, for tests that inject packets.
    pub fn uplink_fd(&self) -> &OwnedFd {
        &self.uplink
    }
}

impl Drop for SoftwareNic {
    fn drop(&mut self) {
        let _ = self.join();
    }
}
