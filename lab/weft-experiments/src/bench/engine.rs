//! The engine's speed in memory: Figure 1's policy with 10 to 1,000,000 flows.

use std::time::{Duration, Instant};
use weft_report::bench::BenchCase;
use weft_report::rounds::Rounds;
use weft_sched::workload::{ClosedLoop, PrototypeLoop, Refill, WorkloadError, figure1_program};

/// Numbers of flows that are measured.
pub const FLOWS: [u32; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
/// The seed of the workload.
pub const SEED: u64 = 1;
/// Minimum length of a run.
const SPAN: Duration = Duration::from_millis(300);
/// Packets between two readings of the clock.
const STEP: u64 = 65_536;

/// The floor that the engine is measured against.
const PEER: &str = "prototype of Figure 1";

/// Measures the engine with `flows` flows and, in turns, [a prototype](PrototypeLoop) of the same policy, `runs` times each:
/// packets enqueued and dequeued per second on one core.
///
/// # Errors
/// Fails when the program cannot be run.
pub fn run(flows: u32, runs: u32) -> Result<BenchCase, WorkloadError> {
    let mut engine = ClosedLoop::new(&figure1_program(), flows, Refill::Shuffled, SEED)?;
    let mut prototype = PrototypeLoop::new(flows, Refill::Shuffled, SEED);
    // Warms caches and branch predictors.
    engine.run(u64::from(flows).max(STEP));
    prototype.run(u64::from(flows).max(STEP));
    let speeds = Rounds::measure(runs, &[true, false], &|| false, |turn| match *turn.variant {
        true => speed(SPAN, || Ok::<_, WorkloadError>(engine.run(STEP))),
        false => speed(SPAN, || Ok(prototype.run(STEP))),
    })?;
    let mut case = BenchCase::against(format!("engine, {flows} flows"), PEER, &speeds);
    case.other.insert("flows".to_owned(), flows.into());
    case.other.insert("runs_pps".to_owned(), speeds.figures(0, |pps| *pps).into());
    Ok(case)
}

/// The packets per second of steps that return their number, repeated for at least `span`.
pub(super) fn speed<E>(span: Duration, mut step: impl FnMut() -> Result<u64, E>) -> Result<f64, E> {
    let (mut packets, start) = (0, Instant::now());
    while start.elapsed() < span {
        packets += step()?;
    }
    Ok(packets as f64 / start.elapsed().as_secs_f64())
}
