//! Several workers with one policy: their speed on this machine beside one worker and one lock, and their errors in the simulation.

use super::engine::SEED;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;
use weft_report::bench::workers::{WorkersError, WorkersSpeed};
use weft_sched::workers::errors::{Errors, WORKERS, errors, ways};
use weft_sched::workers::{Settings, Shared, SharedError, Worker};
use weft_sched::workload::{BURST, ClosedLoop, Refill, WorkloadError, figure1_program};

/// The length of a measurement.
const SPAN: Duration = Duration::from_millis(500);
/// Packets between two looks at the end.
const STEP: u64 = 4096;
/// Packets between two exchanges: about 20 us at the speed of the engine.
const BETWEEN: u64 = 160;

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
    /// An engine could not be built.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
    /// The policy could not be shared.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// A worker's thread panicked, which is a defect of ours.
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
/// When an engine cannot be built.
pub fn speed(
    options: WorkersOptions,
    mut heard: impl FnMut([f64; 4]),
) -> Result<WorkersSpeed, WorkersBenchError> {
    let mut runs = Vec::with_capacity(options.runs as usize);
    for run in 0..options.runs as usize {
        let mut speeds = [0.0; 4];
        for turn in 0..WAYS.len() {
            let way = (run + turn) % WAYS.len();
            speeds[way] = match WAYS[way] {
                Way::One => of_engines(1, options.flows, false)?,
                Way::Shared => of_engines(options.workers, options.flows, true)?,
                Way::Lock => of_lock(options.workers, options.flows)?,
                Way::Apart => of_engines(options.workers, options.flows, false)?,
            };
        }
        heard(speeds);
        runs.push(speeds);
    }
    Ok(WorkersSpeed::new(options.workers, options.flows, &runs))
}

/// An engine with Figure 1's policy, whose caches are warm.
fn engine(flows: u32, seed: u64) -> Result<ClosedLoop, WorkloadError> {
    let mut engine = ClosedLoop::new(&figure1_program(), flows, Refill::Shuffled, seed)?;
    engine.run(u64::from(flows));
    Ok(engine)
}

/// Packets per second of as many threads, each with an engine of its own.
fn of_engines(threads: u32, flows: u32, shares: bool) -> Result<f64, WorkersBenchError> {
    let shared =
        shares.then(|| Shared::new(&figure1_program(), Settings::default())).transpose()?.map(Arc::new);
    let seeds = (0..u64::from(threads)).map(|thread| SEED + thread);
    let engines = seeds.map(|seed| engine(flows, seed)).collect::<Result<Vec<_>, _>>()?;
    let end = AtomicBool::new(false);
    let begin = Instant::now();
    let packets = thread::scope(|scope| {
        let (shared, end) = (shared.as_ref(), &end);
        let work = |engine| scope.spawn(move || work(engine, shared, end));
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

/// One worker that runs until it is told to end. Returns its packets.
fn work(
    mut engine: ClosedLoop,
    shared: Option<&Arc<Shared>>,
    end: &AtomicBool,
) -> Result<u64, WorkersBenchError> {
    let now = engine.now();
    let mut handle = shared.map(|shared| Worker::join(shared, engine.scheduler_mut(), now)).transpose()?;
    let mut packets = 0;
    while !end.load(Ordering::Relaxed) {
        let Some(handle) = &mut handle else {
            packets += engine.run(STEP);
            continue;
        };
        for _ in 0..STEP / BETWEEN {
            packets += engine.run(BETWEEN);
            let now = engine.now();
            handle.exchange(engine.scheduler_mut(), now);
        }
    }
    Ok(packets)
}

/// Packets per second of threads that take turns with one engine, a burst each.
fn of_lock(threads: u32, flows: u32) -> Result<f64, WorkersBenchError> {
    let engine = Mutex::new(engine(flows, SEED)?);
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
/// When the policy cannot be shared, which is a defect of ours.
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
