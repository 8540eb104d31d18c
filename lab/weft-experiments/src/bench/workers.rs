//! Several workers with one policy: their speed on this machine beside one worker and one lock, and their errors in the simulation.

mod load;

pub use load::{PolicyLoad, WorkerLoad};

use super::engine::SEED;
use load::Engine;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;
use weft_report::bench::workers::{WorkersError, WorkersSpeed};
use weft_report::rounds::Rounds;
use weft_sched::workers::errors::{Errors, WORKERS, errors, ways};
use weft_sched::workers::{Shared, SharedError, Worker};
use weft_sched::workload::{BURST, WorkloadError};
use weft_units::Bytes;

/// The length of a measurement.
const SPAN: Duration = Duration::from_millis(500);
/// Packets between two checks for the end.
const STEP: u64 = 4096;

/// The conditions of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct WorkersOptions {
    /// Number of workers that are set beside one.
    pub workers: u32,
    /// Number of flows of each engine.
    pub flows: u32,
    /// Number of runs, each of all four ways.
    pub runs: u32,
}

/// Errors from measuring workers.
#[derive(Debug, Error)]
pub enum WorkersBenchError {
    /// A user-defined algorithm keeps state that workers cannot share.
    #[error(
        "algorithm `{name}` cannot be shared by workers; measure the policy with one by `weft bench engine --policy`, or use `wfq` or `priority`"
    )]
    Algorithm {
        /// The algorithm.
        name: String,
    },
    /// Some lanes would stay without a flow.
    #[error(
        "the policy has {lanes} lanes (a class for each of its destinations), and {flows} flows leave some of them empty; use --flows {lanes} or more"
    )]
    FewFlows {
        /// The number of flows.
        flows: u32,
        /// The number of lanes.
        lanes: usize,
    },
    /// No packet left.
    #[error("no packet of {len} left in {} ms: a limit or a bound is too low for them; raise it", SPAN.as_millis())]
    Stuck {
        /// Their length.
        len: Bytes,
    },
    /// An engine could not be built.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The policy could not be shared.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// A worker's thread panicked, which is a defect of weftline.
    #[error("a worker panicked; this is a defect of weftline")]
    Panicked,
}

/// A way in which threads run the policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    One,
    Shared,
    Lock,
    /// Engines without a common policy: the most that as many processors give.
    Apart,
}

/// The ways, in the order of the document.
const WAYS: [Way; 4] = [Way::One, Way::Shared, Way::Lock, Way::Apart];

/// Measures the four ways `runs` times, in an order that rotates. `heard` gets each run's speeds: one worker, sharing workers,
/// workers with a lock, engines that share nothing.
///
/// # Errors
/// When the load cannot be run by several workers, or no packet leaves.
pub fn speed(
    load: &WorkerLoad,
    options: WorkersOptions,
    mut heard: impl FnMut([f64; 4]),
) -> Result<WorkersSpeed, WorkersBenchError> {
    load.check(options.flows)?;
    let mut speeds = [0.0; 4];
    let runs = Rounds::measure(options.runs, &WAYS, &|| false, |turn| {
        let way = *turn.variant;
        let pps = match way {
            Way::One => of_engines(load, 1, options.flows, false)?,
            Way::Shared => of_engines(load, options.workers, options.flows, true)?,
            Way::Lock => of_lock(load, options.workers, options.flows)?,
            Way::Apart => of_engines(load, options.workers, options.flows, false)?,
        };
        if let (true, WorkerLoad::Policy(policy)) = (pps <= 0.0, load) {
            return Err(WorkersBenchError::Stuck { len: policy.len });
        }
        speeds[way as usize] = pps;
        if turn.done.is_multiple_of(4) {
            heard(speeds);
        }
        Ok(pps)
    })?;
    Ok(WorkersSpeed::new(options.workers, options.flows, &runs).of(load.described()))
}

/// Packets per second of as many threads, each with a separate engine.
fn of_engines(load: &WorkerLoad, threads: u32, flows: u32, shares: bool) -> Result<f64, WorkersBenchError> {
    let sharing = if shares { threads } else { 1 };
    let shared = shares.then(|| load.share(sharing)).transpose()?.map(Arc::new);
    let seeds = (0..u64::from(threads)).map(|thread| SEED + thread);
    let engines = seeds.map(|seed| load.engine(flows, seed, sharing)).collect::<Result<Vec<_>, _>>()?;
    let (end, clock) = (AtomicBool::new(false), AtomicU64::new(0));
    let begin = Instant::now();
    let packets = thread::scope(|scope| {
        let (shared, end, clock) = (shared.as_ref(), &end, &clock);
        let work = |engine| scope.spawn(move || work(engine, shared, clock, end));
        let threads: Vec<_> = engines.into_iter().map(work).collect();
        thread::sleep(SPAN);
        end.store(true, Ordering::Relaxed);
        threads.into_iter().map(joined).sum::<Result<u64, WorkersBenchError>>()
    })?;
    Ok(packets as f64 / begin.elapsed().as_secs_f64())
}

fn joined(thread: ScopedJoinHandle<'_, Result<u64, WorkersBenchError>>) -> Result<u64, WorkersBenchError> {
    thread.join().map_err(|_| WorkersBenchError::Panicked)?
}

/// One worker that runs until it is stopped. Returns its packets.
fn work(
    mut engine: Engine,
    shared: Option<&Arc<Shared>>,
    clock: &AtomicU64,
    end: &AtomicBool,
) -> Result<u64, WorkersBenchError> {
    let now = engine.now();
    let mut handle = shared.map(|shared| Worker::join(shared, engine.scheduler_mut(), now)).transpose()?;
    let mut packets = 0;
    let mut due = now;
    while !end.load(Ordering::Relaxed) {
        let Some(handle) = &mut handle else {
            packets += engine.run(STEP);
            continue;
        };
        for _ in 0..STEP / load::BETWEEN {
            packets += engine.run_to_exchange(due);
            let now = engine.agree(clock);
            due = handle.exchange(engine.scheduler_mut(), now);
        }
    }
    Ok(packets)
}

/// Packets per second of threads that take turns with one engine, a burst each.
fn of_lock(load: &WorkerLoad, threads: u32, flows: u32) -> Result<f64, WorkersBenchError> {
    let engine = Mutex::new(load.engine(flows, SEED, 1)?);
    let (end, packets) = (AtomicBool::new(false), AtomicU64::new(0));
    let begin = Instant::now();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !end.load(Ordering::Relaxed) {
                    let sent = engine.lock().unwrap_or_else(PoisonError::into_inner).run(BURST as u64);
                    packets.fetch_add(sent, Ordering::Relaxed);
                }
            });
        }
        thread::sleep(SPAN);
        end.store(true, Ordering::Relaxed);
    });
    Ok(packets.load(Ordering::Relaxed) as f64 / begin.elapsed().as_secs_f64())
}

/// Simulates each way with 2, 4, 8 ... workers up to `most`. `heard` gets each row.
///
/// # Errors
/// When the policy cannot be shared, which is a defect of weftline.
pub fn simulate(
    most: u32,
    mut heard: impl FnMut(&WorkersError),
) -> Result<Vec<WorkersError>, WorkersBenchError> {
    let mut rows = Vec::new();
    for (name, way) in ways() {
        for workers in WORKERS.into_iter().filter(|workers| *workers <= most as usize) {
            let found: Errors = errors(way, workers)?;
            let row = WorkersError {
                way: name.to_owned(),
                workers: workers as u32,
                share_error: found.share,
                limit_above: found.above,
                limit_below: found.below,
                moving_above: found.moving_above,
                moving_below: found.moving_below,
                changes_above: found.changes_above,
                changes_below: found.changes_below,
                sent_bps: found.sent.get() as f64,
            };
            heard(&row);
            rows.push(row);
        }
    }
    Ok(rows)
}
