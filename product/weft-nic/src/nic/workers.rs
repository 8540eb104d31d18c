//! The workers of a NIC: their schedulers and parts, the threads that run them and the others, and what several workers share.
//!
//! A NIC is started in two steps. [`WorkerSet::build`] makes the scheduler and the parts of each worker, and bounds the queue below
//! them. [`Threads::start`] starts the transmit workers, the receive thread, the thread that expires silent flows, and the one that
//! follows the kernel side of the ports.
//!
//! # Several workers with one policy
//! Each port has one worker: the one with the fewest ports when it was added. A worker has the rings of its ports, and a separate
//! summary of their doorbells, tree of the whole program, counters and samples, so it shares no line of memory with the others but
//! the limits and classes of the policy ([`weft_sched::workers`]) and the uplink's queue. Match tables and cgroups are one for all.
//!
//! **The link.** The workers divide the time of a link of a given rate ([`Shared::with_link`]). All together send at most its rate, in the sense
//! of [`Settings::excess`], and each may have all of it. No worker has a clock of the link: its engine's time is the wall clock, and
//! time in which no worker runs is soon lost. There is no catch-up, no urgent class overdraws the link, and the lag behind the fluid
//! schedule is not measured.
//!
//! **Chunks** are at most those of [`CHUNK`] at the link's rate, since a slot of a limit is at least a chunk long.

use super::{NicConfig, NicError, NicPlan};
use crate::commands::{Commander, Inbox, commands};
use crate::counters::{Counter, Counters, Gauge};
use crate::departures::{Departures, departures};
use crate::doorbell::NicMaps;
use crate::flow_records::FlowClasses;
use crate::link::{DeviceLink, Link, LinkKind, LinkRate, queue_below};
use crate::plan::{Mode, RingPlan};
use crate::port::Uplink;
use crate::port_watch::{self, Changes};
use crate::sampler::{Sample, Sampler};
use crate::sojourn::Sojourns;
use crate::totals::Draining;
use crate::worker::{self, Device, QueueEngine, SegmentsPerTurn, SharedTree, Worker, WorkerParts};
use crate::{expiry, rx};
use core::num::{NonZeroU32, NonZeroUsize};
use core::ops::Deref;
use rustix::io::Errno;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use weft_host::clock;
use weft_packet::ethernet;
use weft_sched::workers::{Settings, Shared};
use weft_sched::{LimitSpec, PolicyTree, Program, QueueScheduler};
use weft_titan::page::QueuePage;
use weft_units::{BitsPerSec, Bytes, Counted, LimitId, Nanos};

/// The most workers of a NIC.
pub const WORKERS: usize = 64;

/// The longest chunk in link time, unless a frame is longer.
const CHUNK: Nanos = Nanos::from_micros(100);

/// The reason that a NIC has one worker only.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkersError {
    /// More than [`WORKERS`].
    #[error("{given} workers are more than a NIC may have; give at most {WORKERS}")]
    TooMany {
        /// The number given.
        given: usize,
    },
    /// The mode has queues instead of a policy.
    #[error("several workers share a policy, and mode {mode} has none; run it with one worker")]
    NoPolicy {
        /// The mode's name.
        mode: &'static str,
    },
    /// A user-defined algorithm keeps state that workers cannot share.
    #[error(
        "the policy has an algorithm of its own, which several workers cannot share; run it with one worker, or use `wfq` or `priority`"
    )]
    Algorithm,
    /// The link has no configured rate.
    #[error(
        "several workers share the rate of the link, which is not given; give one with --rate, or run the policy with one worker"
    )]
    NoRate,
    /// The departure log has one order.
    #[error("the departures of several workers have no common order; log them with one worker")]
    Departures,
}

/// The scheduler of a mode.
pub(super) enum Scheduler {
    Policy(PolicyTree),
    /// The tree of one of several workers.
    Shared(Box<SharedTree>),
    /// Queues, and the number of rings of each.
    Queues(QueueScheduler, usize),
}

/// The page of the queues, which the maps keep mapped.
struct SharedQueues(Arc<NicMaps>);

impl Deref for SharedQueues {
    type Target = QueuePage;
    fn deref(&self) -> &QueuePage {
        self.0.queues()
    }
}

/// The workers' engines and parts, and the other ends of these.
pub(super) struct WorkerSet {
    pub(super) workers: Vec<(Scheduler, WorkerParts)>,
    pub(super) counters: WorkersCounters,
    pub(super) uplink: Arc<OwnedFd>,
    pub(super) samples: Samples,
    pub(super) departures: Option<Departures>,
    /// The longest chunk on the wire.
    pub(super) longest_chunk: Bytes,
}

impl WorkerSet {
    /// Builds the workers of `plan` above `uplink`, and bounds the queue below them.
    pub(super) fn build(plan: &NicPlan, uplink: &Uplink) -> Result<Self, NicError> {
        let (config, rings) = (plan.config(), plan.rings());
        let (mtu, several) = (Bytes(uplink.mtu()?.into()), plan.workers().get() > 1);
        let unit = if several { segments_per_turn(config, mtu) } else { config.segments_per_turn };
        let (chunk, longest_chunk) = (unit.longest_chunk(mtu), longest(unit, mtu));
        let engines = if several {
            let shared = share(&rings.program, config.rate, longest_chunk)?;
            make_shared(&rings.program, &shared, plan.workers().get())?
        } else {
            vec![make_engine(rings)?]
        };
        let most = chunk.min(uplink.longest_segment()?);
        let device = || device(config, rings, most).filter(|_| !several);
        let fd =
            uplink.fd.try_clone().map_err(|e| NicError::Stopped(format!("duplicate the uplink: {e}")))?;
        let fd = Arc::new(fd);
        uplink
            .bound_queue(device().as_ref().map_or_else(|| queue_below(config.rate, chunk), Device::bound))?;
        let observed = matches!(config.link, LinkKind::Device(DeviceLink { rate: LinkRate::Observed, .. }));
        let (mut recorder, departures) = config.departures.map(departures).unzip();
        let (now, mut counters, mut samples) = (clock::now(), Vec::new(), Vec::new());
        let work = |engine| {
            let device = device();
            // More than the policy has, for later policies.
            let leaves = if device.is_some() { crate::doorbell::LANES } else { 0 };
            let (out, samples_of_worker) = channel();
            let parts = WorkerParts {
                uplink: Arc::clone(&fd),
                link: match observed || several {
                    true => Link::observed(now),
                    false => Link::new(config.rate, config.catch_up, now),
                },
                device,
                segments_per_turn: unit,
                counters: Arc::new(Counters::new(leaves, rings.class_slots())),
                sampler: Sampler::new(config.window, now, rings.class_slots(), out),
                classes: rings.class_slots(),
                default_class: plan.policy().default_class(),
                departures: recorder.take(),
            };
            counters.push(Arc::clone(&parts.counters));
            samples.push(samples_of_worker);
            (engine, parts)
        };
        let workers = engines.into_iter().map(work).collect();
        let (counters, samples) = (WorkersCounters(counters), Samples::new(samples));
        Ok(Self { workers, counters, uplink: fd, samples, departures, longest_chunk })
    }
}

/// Checks that `workers` workers can run `plan`.
pub(super) fn check(workers: NonZeroUsize, config: &NicConfig, plan: &RingPlan) -> Result<(), WorkersError> {
    let given = workers.get();
    if given == 1 {
        return Ok(());
    }
    if given > WORKERS {
        return Err(WorkersError::TooMany { given });
    }
    if config.mode != Mode::Loom {
        return Err(WorkersError::NoPolicy { mode: config.mode.name() });
    }
    if config.departures.is_some() {
        return Err(WorkersError::Departures);
    }
    check_policy(plan, config.link)
}

/// Checks that several workers can run the policy of `plan` above `link`.
pub(super) fn check_policy(plan: &RingPlan, link: LinkKind) -> Result<(), WorkersError> {
    if !plan.program.algorithms().is_empty() {
        return Err(WorkersError::Algorithm);
    }
    match link {
        LinkKind::Device(DeviceLink { rate: LinkRate::Observed, .. }) => Err(WorkersError::NoRate),
        LinkKind::Emulated | LinkKind::Device(_) => Ok(()),
    }
}

/// The shared state of several workers for `program`, on a link of `rate`, in chunks of at most `chunk` bytes on the wire.
pub(super) fn share(program: &Program, rate: BitsPerSec, chunk: Bytes) -> Result<Arc<Shared>, NicError> {
    let settings = Settings { segment: chunk, ..Settings::default() };
    let shared = Shared::new(program, settings).map_err(|error| NicError::Engine(error.to_string()))?;
    Ok(Arc::new(shared.with_link(rate)))
}

/// The unit of segmentation of several workers on a link of `rate`, with packets of `mtu` bytes.
fn segments_per_turn(config: &NicConfig, mtu: Bytes) -> SegmentsPerTurn {
    let frame = ethernet::wire_of(ethernet::frame_of(mtu)).get().max(1);
    let most = u32::try_from(config.rate.bytes_in(CHUNK).get() / frame).unwrap_or(u32::MAX).max(1);
    let most = NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN);
    match config.segments_per_turn {
        SegmentsPerTurn::AtMost(given) => SegmentsPerTurn::AtMost(given.min(most)),
        SegmentsPerTurn::Whole => SegmentsPerTurn::AtMost(most),
    }
}

/// The longest chunk on the wire, in segments of packets of `mtu` bytes, with room for tags.
fn longest(unit: SegmentsPerTurn, mtu: Bytes) -> Bytes {
    let chunk = unit.longest_chunk(mtu);
    chunk + Bytes(chunk.get() / 16 + ethernet::wire_of(Bytes::ZERO).get())
}

/// Creates the scheduler of the plan, without flows.
fn make_engine(plan: &RingPlan) -> Result<Scheduler, NicError> {
    if let Some(queues) = plan.queues {
        let scheduler = QueueScheduler::new(queues.queues, queues.service, queues.inner);
        return Ok(Scheduler::Queues(scheduler, queues.rings));
    }
    let tree = PolicyTree::new(&plan.program).map_err(|e| NicError::Engine(e.to_string()))?;
    Ok(Scheduler::Policy(tree))
}

/// Creates the schedulers of `workers` workers that share `program`.
fn make_shared(program: &Program, shared: &Arc<Shared>, workers: usize) -> Result<Vec<Scheduler>, NicError> {
    let make = |_| {
        let tree = PolicyTree::new(program).map_err(|e| NicError::Engine(e.to_string()))?;
        let tree = SharedTree::new(tree, Arc::clone(shared), clock::now());
        Ok(Scheduler::Shared(Box::new(tree.map_err(|e| NicError::Engine(e.to_string()))?)))
    };
    (0..workers).map(make).collect()
}

/// The uplink as a device, unless the link is emulated. `most`: the longest chunk that it takes whole.
fn device(config: &NicConfig, plan: &RingPlan, most: Bytes) -> Option<Device> {
    let LinkKind::Device(link) = config.link else { return None };
    Some(Device::new(link, config.rate, most, &limited(plan, config.rate)))
}

/// The program with the limit that the egress program sets to infrastructure. Without it, the first lane of the
/// priority would be guaranteed the whole link, and the policy's classes nothing.
pub(crate) fn limited(plan: &RingPlan, rate: BitsPerSec) -> Program {
    let mut program = Program::clone(&plan.program);
    if let Some(lane) = plan.infrastructure.and_then(|lane| program.lanes.get_mut(lane.index())) {
        lane.limits.push(LimitId::from_index(program.limits.len()));
        let (name, rate) = (weft_policy::INFRASTRUCTURE.to_owned(), weft_policy::infrastructure_rate(rate));
        program.limits.push(LimitSpec { name, rate, burst: Bytes::ZERO });
    }
    program
}

/// The running threads.
#[derive(Debug)]
pub(super) struct Threads {
    /// The workers, by number.
    pub(super) workers: Vec<Commander<worker::Command>>,
    pub(super) rx: Commander<rx::Command>,
    pub(super) watch: Commander<port_watch::Command>,
    /// The lines of the watch.
    pub(super) changes: Changes,
    stop: Arc<AtomicBool>,
    transmit: Vec<JoinHandle<Result<(), Errno>>>,
    others: Vec<JoinHandle<()>>,
}

impl Threads {
    /// Starts the threads. `learn_flows`: classes share rings.
    pub(super) fn start(
        workers: Vec<(Scheduler, WorkerParts)>,
        maps: &Arc<NicMaps>,
        learn_flows: bool,
    ) -> Result<Self, NicError> {
        let failed = |e| NicError::Stopped(format!("make an eventfd: {e}"));
        let (rx, rx_inbox) = commands().map_err(failed)?;
        let (watch, watch_inbox) = commands().map_err(failed)?;
        let changes = Changes::default();
        let (transmit, others, stop) = (Vec::new(), Vec::new(), Arc::new(AtomicBool::new(false)));
        // From here on the threads end if a step fails.
        let mut threads = Self { workers: Vec::new(), rx, watch, changes, stop, transmit, others };
        for (number, (engine, parts)) in workers.into_iter().enumerate() {
            let (worker, inbox) = commands().map_err(failed)?;
            let (maps, stop) = (Arc::clone(maps), Arc::clone(&threads.stop));
            let run = move || transmit_thread(engine, parts, (&maps, number), inbox, learn_flows, &stop);
            threads.transmit.push(spawn("weft-transmit", run)?);
            threads.workers.push(worker);
        }
        let stop = Arc::clone(&threads.stop);
        let run = move || rx::run(&rx_inbox, || stop.load(Ordering::Relaxed));
        threads.others.push(spawn("weft-receive", run)?);
        let (of_flows, stop) = (Arc::clone(maps), Arc::clone(&threads.stop));
        let run = move || expiry::run(&of_flows, || stop.load(Ordering::Relaxed));
        threads.others.push(spawn("weft-flows", run)?);
        let (changes, stop) = (threads.changes.clone(), Arc::clone(&threads.stop));
        let run = move || port_watch::run(&watch_inbox, &changes, || stop.load(Ordering::Relaxed));
        threads.others.push(spawn("weft-ports", run)?);
        Ok(threads)
    }

    /// Gives a command to `worker` and waits for its answer. `None` when the thread has ended.
    pub(super) fn ask<A>(&self, worker: usize, make: impl FnOnce(Sender<A>) -> worker::Command) -> Option<A> {
        self.workers.get(worker)?.ask(make)
    }

    /// Gives each worker its change of the policy, then waits for all. Several are asked before whether they would make it: either
    /// all of them change, or none. Returns the longest pause.
    ///
    /// # Errors
    /// When a worker has ended, or its engine refuses the change.
    pub(super) fn change(&self, mut changes: Vec<worker::PolicyChange>) -> Result<Nanos, NicError> {
        if changes.len() > 1 {
            changes = self.each(changes, worker::Command::Check)?;
        }
        let changed = self.each(changes, worker::Command::Change)?;
        let mut pause = Nanos::ZERO;
        for change in changed {
            pause = pause.max(change.outcome?);
        }
        Ok(pause)
    }

    /// Gives each worker its change with a command, then waits for all, and returns the changes.
    fn each(
        &self,
        changes: Vec<worker::PolicyChange>,
        command: fn(Box<worker::PolicyChange>, Sender<Box<worker::PolicyChange>>) -> worker::Command,
    ) -> Result<Vec<worker::PolicyChange>, NicError> {
        let order = |(worker, change): (&Commander<_>, _)| worker.order(|to| command(Box::new(change), to));
        let answers: Vec<_> = self.workers.iter().zip(changes).map(order).collect();
        let answer = |answer: Option<Receiver<_>>| {
            let change: Box<worker::PolicyChange> =
                answer.and_then(|answer| answer.recv().ok()).ok_or_else(super::ports::gone)?;
            change.outcome?;
            Ok(*change)
        };
        // All have answered before an error is returned.
        let answers: Vec<Result<_, NicError>> = answers.into_iter().map(answer).collect();
        answers.into_iter().collect()
    }

    /// Whether the workers run.
    pub(super) fn is_running(&self) -> bool {
        !self.transmit.is_empty() && self.transmit.iter().all(|thread| !thread.is_finished())
    }

    /// Ends the threads. Returns the worker's error, if it had one.
    pub(super) fn join(&mut self) -> Result<(), NicError> {
        self.stop.store(true, Ordering::SeqCst);
        self.workers.iter().for_each(Commander::wake);
        self.rx.wake();
        self.watch.wake();
        let panicked = |what: &str| NicError::Stopped(format!("the {what} panicked"));
        for thread in core::mem::take(&mut self.others) {
            thread.join().map_err(|_| panicked("receiving, the flow tables' or the ports' thread"))?;
        }
        for thread in core::mem::take(&mut self.transmit) {
            let ended = thread.join().map_err(|_| panicked("transmit worker"))?;
            ended.map_err(|error| NicError::Stopped(format!("map the record ring: {error}")))?;
        }
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        let _ = self.join();
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, NicError> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(run).map_err(|e| NicError::Stopped(format!("start the thread {name}: {e}")))
}

fn transmit_thread(
    engine: Scheduler,
    parts: WorkerParts,
    (maps, number): (&Arc<NicMaps>, usize),
    inbox: Inbox<worker::Command>,
    learn_flows: bool,
    stop: &AtomicBool,
) -> Result<(), Errno> {
    let flows = RefCell::new(FlowClasses::default());
    let records = maps.records_of(number, |record| flows.borrow_mut().learn(record, learn_flows));
    let Ok(records) = records else { return Err(Errno::NOMEM) };
    let stop = || stop.load(Ordering::Relaxed);
    let control = (maps.summary_of(number).clone(), inbox);
    match engine {
        Scheduler::Policy(tree) => Worker::new(tree, parts, control, records, &flows).run(stop),
        Scheduler::Shared(tree) => Worker::new(*tree, parts, control, records, &flows).run(stop),
        Scheduler::Queues(scheduler, rings_per_queue) => {
            let engine = QueueEngine::new(scheduler, rings_per_queue, SharedQueues(Arc::clone(maps)));
            Worker::new(engine, parts, control, records, &flows).run(stop);
        }
    }
    Ok(())
}

/// The counters of all workers.
#[derive(Debug)]
pub(super) struct WorkersCounters(pub(super) Vec<Arc<Counters>>);

impl WorkersCounters {
    /// The sum of a counter.
    pub(super) fn count(&self, pick: impl Fn(&Counters) -> &Counter) -> Counted {
        self.0.iter().map(|counters| pick(counters).get()).sum()
    }

    /// The packets of a counter.
    pub(super) fn packets(&self, pick: impl Fn(&Counters) -> &Counter) -> u64 {
        self.count(pick).packets.get()
    }

    /// The sum of a gauge.
    pub(super) fn sum(&self, pick: impl Fn(&Counters) -> &Gauge) -> u64 {
        self.0.iter().map(|counters| pick(counters).get()).sum()
    }

    /// The largest value of a gauge.
    pub(super) fn max(&self, pick: impl Fn(&Counters) -> &Gauge) -> u64 {
        self.0.iter().map(|counters| pick(counters).get()).max().unwrap_or(0)
    }

    /// The rings that are drained, at all workers.
    pub(super) fn draining(&self) -> Draining {
        let of = |sum: Draining, counters: &Arc<Counters>| {
            let Draining { rings, longest, limit, escorted } = Draining::of(counters);
            Draining {
                rings: sum.rings + rings,
                longest: sum.longest.max(longest),
                limit,
                escorted: sum.escorted + escorted,
            }
        };
        self.0.iter().fold(Draining::default(), of)
    }

    /// The waits of packets, by class.
    pub(super) fn sojourns(&self, classes: usize) -> Vec<Sojourns> {
        let of_class = |class: usize| {
            let of = self.0.iter().filter_map(|counters| counters.sojourns.get(class));
            of.fold(Sojourns::default(), |sum, histogram| sum.plus(&histogram.get()))
        };
        (0..classes).map(of_class).collect()
    }
}

/// The samples of all workers. Their windows begin together, so the n-th of each are of one time.
#[derive(Debug)]
pub struct Samples {
    workers: Vec<Receiver<Sample>>,
    /// The samples of windows that another worker has not closed yet, by worker.
    open: RefCell<Vec<VecDeque<Sample>>>,
}

impl Samples {
    pub(super) fn new(workers: Vec<Receiver<Sample>>) -> Self {
        let open = RefCell::new(workers.iter().map(|_| VecDeque::new()).collect());
        Self { workers, open }
    }

    /// The samples of the windows that all workers have closed since the last call.
    pub fn try_iter(&self) -> impl Iterator<Item = Sample> {
        core::iter::from_fn(|| self.next())
    }

    fn next(&self) -> Option<Sample> {
        if let [only] = &self.workers[..] {
            return only.try_recv().ok();
        }
        let mut open = self.open.borrow_mut();
        open.iter_mut().zip(&self.workers).for_each(|(queue, worker)| queue.extend(worker.try_iter()));
        if open.iter().any(VecDeque::is_empty) {
            return None;
        }
        open.iter_mut().filter_map(VecDeque::pop_front).reduce(Sample::and)
    }
}

impl Sample {
    /// The sample of two workers, of the same window. A class has waited if it has at one of them.
    fn and(mut self, other: Self) -> Self {
        let add = |sum: &mut [Bytes], more: &[Bytes]| {
            sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += *more);
        };
        add(&mut self.wire, &other.wire);
        add(&mut self.standing, &other.standing);
        self.backlogged_rings += other.backlogged_rings;
        self.waited.iter_mut().zip(&other.waited).for_each(|(one, other)| *one |= other);
        let longest = |one: &mut Nanos, other: &Nanos| *one = (*one).max(*other);
        self.longest_wait.iter_mut().zip(&other.longest_wait).for_each(|(one, other)| longest(one, other));
        self.lost = self.lost.max(other.lost);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_units::Instant;

    fn sample(start: u64, wire: [u64; 2], waited: [bool; 2]) -> Sample {
        Sample {
            start: Instant::from_millis(start),
            window: Nanos::from_millis(10),
            wire: wire.map(Bytes).to_vec(),
            standing: vec![Bytes(1); 2],
            backlogged_rings: 1,
            waited: waited.to_vec(),
            longest_wait: vec![Nanos(start), Nanos(5)],
            lost: Nanos::ZERO,
        }
    }

    #[test]
    fn a_window_is_there_when_all_workers_have_closed_it() {
        let ((one, of_one), (two, of_two)) = (channel(), channel());
        let samples = Samples::new(vec![of_one, of_two]);
        let send = |to: &std::sync::mpsc::Sender<Sample>, sample| to.send(sample).expect("a reader");
        send(&one, sample(0, [10, 20], [true, false]));
        send(&one, sample(10, [1, 2], [false, false]));
        assert_eq!(samples.try_iter().count(), 0);
        send(&two, sample(0, [3, 4], [false, false]));
        let both = samples.try_iter().collect::<Vec<_>>();
        let expected =
            Sample { standing: vec![Bytes(2); 2], backlogged_rings: 2, ..sample(0, [13, 24], [true, false]) };
        assert_eq!(both, [expected]);
        send(&two, sample(10, [0, 0], [false, true]));
        assert_eq!(samples.try_iter().map(|s| s.waited).collect::<Vec<_>>(), [[false, true]]);
    }
}
