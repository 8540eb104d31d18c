//! The engine's speed in memory: Figure 1's policy with 10 to 1,000,000 flows.

use std::time::{Duration, Instant};
use weft_report::bench::BenchCase;
use weft_sched::workload::{ClosedLoop, Refill, WorkloadError, figure1_program};

/// Numbers of flows that are measured.
pub const FLOWS: [u32; 6] = [10, 100, 1_000, 10_000, 100_000, 1_000_000];
/// The seed of the workload.
pub const SEED: u64 = 1;
/// Minimum length of a run.
const SPAN: Duration = Duration::from_millis(300);
/// Packets between two readings of the clock.
const STEP: u64 = 65_536;

/// Measures the engine with `flows` flows, `runs` times: packets enqueued and dequeued per second on one core.
///
/// # Errors
/// Fails when the program cannot be run.
pub fn run(flows: u32, runs: u32) -> Result<BenchCase, WorkloadError> {
    let mut workload = ClosedLoop::new(&figure1_program(), flows, Refill::Shuffled, SEED)?;
    // Warms caches and branch predictors.
    workload.run(u64::from(flows).max(STEP));
    let mut speeds = Vec::with_capacity(runs as usize);
    for _ in 0..runs {
        let (mut packets, start) = (0, Instant::now());
        while start.elapsed() < SPAN {
            packets += workload.run(STEP);
        }
        speeds.push(packets as f64 / start.elapsed().as_secs_f64());
    }
    let mut case = BenchCase::alone(format!("engine, {flows} flows"), &speeds);
    case.other.insert("flows".to_owned(), flows.into());
    case.other.insert("runs_pps".to_owned(), speeds.into());
    Ok(case)
}
