//! The cost of a packet in the engine over flows, levels, limits and bursts, and what limits it: instructions, or the memory in which the
//! records lie.
//!
//! The model is simple. The least time of a series' loop, with all records in the nearest cache, is that of the instructions. Each packet
//! also touches some lines of records that nothing else has just touched; each takes the time of a load from the cache that the records fit
//! into, as a chase of pointers through as much memory measures it. Loads overlap, so the truth lies between the two sums, and the
//! difference says how many are under way at once.

mod chase;

use super::engine::SEED;
use std::time::{Duration, Instant};
use weft_host::caches::data_caches;
use weft_host::perf_event::{WorkCounter, WorkCounts};
use weft_report::bench::roofline::{Memory, Point, Work};
use weft_report::rounds::Rounds;
use weft_sched::Program;
use weft_sched::workload::{
    ClosedLoop, Refill, WorkloadError, chain_program, figure1_program, limit_lanes, wfq_program,
};
use weft_units::{BitsPerSec, Bytes};

/// Minimum length of a run.
const SPAN: Duration = Duration::from_millis(100);
/// Packets between two readings of the clock.
const STEP: u64 = 16_384;
/// The most packets before the first run.
const WARM_UP: u64 = 2_000_000;

/// The records of a flow: its own, its queue, its reference in a leaf, its place in the loop's list (docs/engine.md).
const FLOW_BYTES: u64 = 32 + 32 + 24 + 4;
/// The records of a lane and its counters, and its leaf's.
const LANE_BYTES: u64 = 128 + 64 + 128;
/// The record of a limit.
const LIMIT_BYTES: u64 = 64;
/// The lines of a flow that an enqueue and a dequeue touch: flow and queue of the packet that comes, flow and queue of the one that leaves,
/// and two of the leaf's heap.
const FLOW_LINES: f64 = 6.0;
/// The lines of a lane: two and its counters, when a packet comes and when one leaves.
const LANE_LINES: f64 = 6.0;

/// The rate of a limit that binds: a tenth of what ten thousand equal lanes of the loop would have.
const BINDING: BitsPerSec = BitsPerSec(23_600_000);
/// The lanes of the series over limits.
const LANES: usize = 10_000;

/// A series of measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RooflineSeries {
    /// Figure 1's policy with 10 to 10,000,000 flows.
    Flows,
    /// One to ten levels of fair queueing, a child each, over four leaves of 1,000 flows together.
    Depth,
    /// 10,000 lanes, of which up to all have a limit that binds.
    Limits,
    /// Figure 1's policy with 100,000 flows, in bursts of 1 to 256 packets.
    Burst,
}

impl RooflineSeries {
    /// All series.
    pub const ALL: [Self; 4] = [Self::Flows, Self::Depth, Self::Limits, Self::Burst];

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Depth => "depth",
            Self::Limits => "limits",
            Self::Burst => "burst",
        }
    }

    /// The values that the series goes through.
    fn values(self) -> &'static [u32] {
        match self {
            Self::Flows => &[10, 100, 1000, 10_000, 100_000, 1_000_000, 10_000_000],
            Self::Depth => &[1, 2, 3, 5, 7, 10],
            Self::Limits => &[0, 10, 100, 1000, 10_000],
            Self::Burst => &[1, 2, 4, 8, 16, 32, 64, 128, 256],
        }
    }
}

/// The conditions of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct RooflineOptions {
    /// Number of runs of each point.
    pub runs: u32,
    /// The most flows.
    pub flows_max: u32,
}

/// A loop that is measured, and its size.
struct Case {
    workload: ClosedLoop,
    flows: u32,
    lanes: usize,
    limits: usize,
}

impl Case {
    fn new(program: &Program, flows: u32, refill: Refill, burst: usize) -> Result<Self, WorkloadError> {
        let mut workload = ClosedLoop::with_burst(program, flows, refill, SEED, burst)?;
        let warm = (4 * u64::from(flows)).clamp(STEP, WARM_UP);
        workload.run(warm);
        Ok(Self { workload, flows, lanes: program.lanes.len(), limits: program.limits.len() })
    }

    fn of(series: RooflineSeries, value: u32) -> Result<Self, WorkloadError> {
        let burst = weft_sched::workload::BURST;
        match series {
            RooflineSeries::Flows => Self::new(&figure1_program(), value, Refill::Shuffled, burst),
            RooflineSeries::Depth => Self::new(&chain_program(value as usize), 1000, Refill::Shuffled, burst),
            RooflineSeries::Limits => {
                let mut program = wfq_program(LANES);
                limit_lanes(&mut program, value as usize, BINDING);
                // In a shuffled order all packets would come to wait for the limits.
                Self::new(&program, LANES as u32, Refill::Same, burst)
            }
            RooflineSeries::Burst => Self::new(&figure1_program(), 100_000, Refill::Shuffled, value as usize),
        }
    }

    fn bytes(&self) -> Bytes {
        let (lanes, limits) = (self.lanes as u64, self.limits as u64);
        Bytes(u64::from(self.flows) * FLOW_BYTES + lanes * LANE_BYTES + limits * LIMIT_BYTES)
    }

    /// The lines that a packet touches and that are not those of its neighbours.
    fn lines(&self) -> f64 {
        let lanes = if self.lanes > 1000 { LANE_LINES } else { 0.0 };
        FLOW_LINES + lanes + if self.limits > 0 { 1.0 } else { 0.0 }
    }
}

/// Measures a series.
///
/// # Errors
/// When a program cannot be run, which is a defect of weftline.
pub fn measure(
    series: RooflineSeries,
    options: RooflineOptions,
    memory: &[Memory],
    mut heard: impl FnMut(&Point),
) -> Result<Vec<Point>, WorkloadError> {
    let counter = WorkCounter::open().ok();
    let mut points = Vec::new();
    for &value in series.values() {
        if series == RooflineSeries::Flows && value > options.flows_max {
            continue;
        }
        let mut case = Case::of(series, value)?;
        let parkings = case.workload.scheduler().tree().counters().parkings;
        let runs = Rounds::of_one(options.runs, |_| {
            Ok::<_, WorkloadError>(run(&mut case.workload, counter.as_ref()))
        })?;
        let packet_s = |(seconds, packets, _): &Run| seconds / (*packets).max(1) as f64;
        let packets: u64 = runs.of(0).map(|(_, packets, _)| packets).sum();
        let parkings = case.workload.scheduler().tree().counters().parkings - parkings;
        let point = Point {
            series: series.name().to_owned(),
            value,
            flows: case.flows,
            packet_s: runs.median(0, packet_s).unwrap_or(0.0),
            runs_packet_s: runs.figures(0, packet_s),
            records_bytes: case.bytes().get(),
            lines: case.lines(),
            memory: Memory::of(memory, case.bytes().get()).map(|level| level.name.clone()),
            line_s: Memory::of(memory, case.bytes().get()).map(|level| level.load_s),
            parkings_per_packet: parkings as f64 / packets.max(1) as f64,
            work: average(&runs),
            limited_by: String::new(),
            loads_at_once: None,
        };
        heard(&point);
        points.push(point);
    }
    Point::conclude(&mut points);
    Ok(points)
}

/// Measures the loads from each cache, and from memory.
pub fn memories() -> Vec<Memory> {
    chase::memories(&data_caches())
}

/// A run's seconds, its packets, its counts.
type Run = (f64, u64, Option<WorkCounts>);

fn run(workload: &mut ClosedLoop, counter: Option<&WorkCounter>) -> Run {
    let before = counter.and_then(|counter| counter.read().ok());
    let (mut packets, start) = (0, Instant::now());
    while start.elapsed() < SPAN {
        packets += workload.run(STEP);
    }
    let seconds = start.elapsed().as_secs_f64();
    let after = counter.and_then(|counter| counter.read().ok());
    (seconds, packets, before.zip(after).map(|(before, after)| after.since(&before)))
}

/// The work of a packet, over all runs; `None` without counts, or where they are all zero, as some virtual machines have them.
fn average(runs: &Rounds<Run>) -> Option<Work> {
    let runs = runs.of(0).filter_map(|(_, packets, counts)| Some(((*counts)?, *packets)));
    let runs: Vec<(WorkCounts, u64)> = runs.collect();
    let packets: u64 = runs.iter().map(|(_, packets)| packets).sum();
    let sum = |of: fn(&WorkCounts) -> u64| runs.iter().map(|(counts, _)| of(counts)).sum::<u64>() as f64;
    let (instructions, cycles) = (sum(|counts| counts.instructions), sum(|counts| counts.cycles));
    if packets == 0 || instructions == 0.0 || cycles == 0.0 {
        return None;
    }
    let each = packets as f64;
    Some(Work {
        instructions: instructions / each,
        cycles: cycles / each,
        misses: sum(|counts| counts.misses) / each,
    })
}
