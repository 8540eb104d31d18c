//! Throughput of one transmit thread through a port, on a link that never limits.
//!
//! Two cases: many flows in MTU-size segments, and a few flows in whole super-packets. Real TCP runs between
//! namespaces of this run.

use crate::experiments::loom::{
    Bulk, Carried, DemoError, DemoOptions, FIGURE_9_FLOWS, LoomScenario, ModeOutcome, carry, with_bench,
};
use core::num::NonZeroU32;
use weft_nic::plan::Mode;
use weft_nic::testbed::RECEIVER;
use weft_nic::worker::SegmentsPerTurn;
use weft_policy::CompiledPolicy;
use weft_report::bench::BenchCase;
use weft_report::rounds::Rounds;
use weft_units::{BitsPerSec, Nanos};

/// T0's requests per second, the demo's default.
pub const DEMO_REQUESTS_PER_S: u32 = 1000;
/// Bytes per request.
pub const DEMO_REQUEST_BYTES: u32 = 64;
/// The worker's share of a core above which the worker itself is reported as the limit.
const BUSY: f64 = 0.9;

/// A case of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortCase {
    /// The demo's heaviest load: its 340 flows and T0's requests, one MTU-size segment per write. The demo's trial
    /// measures the same load with the same function.
    ManyFlows,
    /// Four flows; super-packets are not cut.
    WholePackets,
}

impl PortCase {
    /// Both cases.
    pub const ALL: [Self; 2] = [Self::ManyFlows, Self::WholePackets];

    /// The case's name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::ManyFlows => "port-340-flows-mtu-segments",
            Self::WholePackets => "port-4-flows-whole-packets",
        }
    }

    pub(crate) fn options(self) -> DemoOptions {
        let length = Carried::length();
        let scenario = match self {
            Self::ManyFlows => LoomScenario::figure9(FIGURE_9_FLOWS, length),
            Self::WholePackets => {
                let (name, flows, destination) = ("T1", 4, RECEIVER);
                let bulk = vec![Bulk { name, flows, destination, start: Nanos::ZERO, stop: length }];
                LoomScenario { figure: 9, bulk, latency: None, duration: length }
            }
        };
        DemoOptions {
            scenario,
            modes: vec![Mode::Loom],
            rate: None,
            congestion: "cubic".to_owned(),
            segments_per_turn: match self {
                Self::ManyFlows => SegmentsPerTurn::AtMost(NonZeroU32::MIN),
                Self::WholePackets => SegmentsPerTurn::Whole,
            },
            sq_qdisc: false,
            requests_per_s: DEMO_REQUESTS_PER_S,
            request_bytes: DEMO_REQUEST_BYTES,
            catch_up: Nanos::from_millis(50),
        }
    }
}

/// Runs `case` `runs` times on `policy`, which must have the classes T0 to T4. `on_run` receives each run's
/// throughput.
///
/// # Errors
/// As [`crate::experiments::loom::run`].
pub fn run(
    case: PortCase,
    runs: u32,
    policy: &CompiledPolicy,
    stop: &dyn Fn() -> bool,
    mut on_run: impl FnMut(u32, BitsPerSec),
) -> Result<BenchCase, DemoError> {
    let options = case.options();
    let names = options.scenario.names();
    let runs = Rounds::of_one(runs, |number| {
        let carried = with_bench(policy, &names, stop, |bench| carry(bench, &options, Mode::Loom))?;
        let speed = BitsPerSec(carried.bps() as u64);
        on_run(number - 1, speed);
        Ok::<_, DemoError>((speed, carried.outcome))
    })?;
    let pps = runs.figures(0, |(_, outcome)| packets_per_second(outcome));
    let mut result = BenchCase::alone(case.name(), &pps);
    result.ours_bps = runs.median(0, |(speed, _)| speed.get() as f64);
    let share = runs.median(0, |(_, outcome)| outcome.worker_share).unwrap_or(0.0);
    result.limited_by = Some(limited_by(share));
    result.other.insert("worker_cpu_share".to_owned(), share.into());
    Ok(result)
}

fn limited_by(share: f64) -> String {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    if share >= BUSY {
        format!(
            "the transmit worker: {:.0} % of a core, most of it the receiver's TCP inside its writes",
            share * 100.0
        )
    } else {
        format!(
            "the {cores} cores shared with the applications: the transmit worker had {:.0} % of one",
            share * 100.0
        )
    }
}

/// Returns writes to the uplink per second of the whole run.
fn packets_per_second(outcome: &ModeOutcome) -> f64 {
    outcome.totals.uplink_writes.packets.get() as f64 / Carried::length().as_secs_f64()
}
