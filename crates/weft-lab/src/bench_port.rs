//! What one transmit thread carries through a port: many flows in MTU-size segments, and a few flows in whole
//! super-packets, on a link that is no limit. Real TCP between namespaces of this run.

use crate::demo::{Bulk, DemoError, DemoOptions, FIGURE_9_FLOWS, Outcome, Scenario, with_bench};
use core::num::NonZeroU32;
use weft_nic::plan::Mode;
use weft_nic::testbed::RECEIVER;
use weft_nic::worker::Grain;
use weft_policy::CompiledPolicy;
use weft_report::bench::BenchCase;
use weft_report::stats;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// Length of a run, and what is left out at its start while TCP finds its window.
const RUN: Nanos = Nanos::from_secs(4);
const WARM_UP: Nanos = Nanos::from_millis(1500);
/// A link that is no limit.
const UNLIMITED: BitsPerSec = BitsPerSec(100_000_000_000);
/// Above this share of a core the worker itself was the limit.
const BUSY: f64 = 0.9;

/// A case of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortCase {
    /// The demo's 340 flows, one MTU-size segment a write.
    ManyFlows,
    /// Four flows, super-packets whole.
    WholePackets,
}

impl PortCase {
    /// Both.
    pub const ALL: [Self; 2] = [Self::ManyFlows, Self::WholePackets];

    /// Its name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::ManyFlows => "port-340-flows-mtu-segments",
            Self::WholePackets => "port-4-flows-whole-packets",
        }
    }

    fn options(self) -> DemoOptions {
        let (flows, grain): (&[u32], Grain) = match self {
            Self::ManyFlows => (&FIGURE_9_FLOWS, Grain::Segments(NonZeroU32::MIN)),
            Self::WholePackets => (&[4], Grain::Whole),
        };
        let bulk = flows.iter().zip(["T1", "T2", "T3", "T4"]).map(|(&flows, name)| Bulk {
            name,
            flows,
            destination: RECEIVER,
            start: Nanos::ZERO,
            stop: RUN,
        });
        DemoOptions {
            scenario: Scenario { figure: 9, bulk: bulk.collect(), latency: None, duration: RUN },
            modes: vec![Mode::Loom],
            rate: Some(UNLIMITED),
            congestion: "cubic".to_owned(),
            grain,
            sq_qdisc: false,
            requests_per_s: 0,
            request_bytes: 0,
            catch_up: Nanos::from_millis(50),
        }
    }
}

/// Runs `case` `runs` times on `policy`, which must have the classes T1 to T4. `on_run` hears of each run's throughput.
///
/// # Errors
/// As [`crate::demo::run`].
pub fn run(
    case: PortCase,
    runs: u32,
    policy: &CompiledPolicy,
    stop: &dyn Fn() -> bool,
    mut on_run: impl FnMut(u32, BitsPerSec),
) -> Result<BenchCase, DemoError> {
    let options = case.options();
    let mut speeds = Vec::new();
    let mut worker = Vec::new();
    for number in 0..runs {
        let outcome = with_bench(policy, &["T1", "T2", "T3", "T4"], stop, |bench| {
            bench.run(&options.scenario, Mode::Loom, UNLIMITED, &options, &mut |_| {})
        })?;
        let speed = throughput(&outcome);
        on_run(number, speed);
        speeds.push((speed, packets_per_second(&outcome)));
        worker.push(outcome.worker_share);
    }
    let bps: Vec<f64> = speeds.iter().map(|(bps, _)| bps.get() as f64).collect();
    let pps: Vec<f64> = speeds.iter().map(|(_, pps)| *pps).collect();
    let mut result = BenchCase::alone(case.name(), &pps);
    result.ours_bps = stats::median(&bps);
    let share = stats::median(&worker).unwrap_or(0.0);
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

/// Median throughput of the windows after the warm-up.
fn throughput(outcome: &Outcome) -> BitsPerSec {
    let windows = outcome.windows.iter().filter(|w| w.at >= WARM_UP);
    let speeds: Vec<f64> = windows
        .map(|w| BitsPerSec::from_bytes_over(w.wire.iter().copied().sum::<Bytes>(), w.span).get() as f64)
        .collect();
    BitsPerSec(stats::median(&speeds).unwrap_or(0.0) as u64)
}

/// Writes to the uplink per second of the whole run.
fn packets_per_second(outcome: &Outcome) -> f64 {
    outcome.totals.uplink_writes.packets.get() as f64 / RUN.as_secs_f64()
}
