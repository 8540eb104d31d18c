//! The machine's capacity for a load, on a link that never limits. The demo chooses its rate by it, and `weft bench
//! port` reports it.
//!
//! 1. The scenario is made heaviest: all senders send from beginning to end, so that the rate suits every part of the
//!    time line.
//! 2. It runs once on a link of 100 Gb/s in the mode that costs most per packet: Loom, which evaluates the policy
//!    (the demo's first mode if it does not run Loom).
//! 3. The first 2 s are discarded. Hundreds of flows open one after the other and grow their windows in that time.
//! 4. The rest is cut into windows of half a second. Their median is the capacity, since one stall of a shared
//!    machine must not decide.
//! 5. The demo takes the largest of a few round rates that is at most a third of the capacity. Near the capacity,
//!    latencies would be those of the processors and not of the NIC. Round rates keep runs on similar machines
//!    comparable.
//!
//! `carry` only measures; [`trial`] adds the choice, and the report states it with its samples. The port benchmark
//! calls the same `carry`, and a test holds the two loads equal, so that the benchmark's result explains the demo's
//! choice.
//!
//! A failed run fails the trial. The only rare branch needs no counter, since its result is visible: a run too short
//! for one window gives a capacity of 0, and the smallest rate follows.

use super::{
    Bench, DemoError, DemoEvent, DemoOptions, LoomScenario, ModeOutcome, segments_per_turn_in_words,
    with_bench,
};
use weft_facts::stats;
use weft_nic::plan::Mode;
use weft_policy::CompiledPolicy;
use weft_report::demo::RateTrial;
use weft_units::{BitsPerSec, Nanos};

/// Time for all flows to start and to find their windows: hundreds of flows open one after the other.
const SETTLE: Nanos = Nanos::from_millis(2000);
/// Measured time after the settling.
const MEASURED: Nanos = Nanos::from_millis(4000);
/// Fine windows in a throughput window of half a second.
const FINE_PER_WINDOW: usize = 50;
/// A rate that no machine reaches, so that the link never limits.
pub(crate) const UNLIMITED: BitsPerSec = BitsPerSec(100_000_000_000);
/// The rates that the demo chooses from, in Mb/s.
const RATES_MBPS: [u64; 8] = [50, 100, 200, 300, 500, 1000, 2000, 5000];
/// The machine's capacity over the demo's largest rate. Where processors are the limit, latencies are theirs and not
/// the NIC's.
const DIVISOR: f64 = 3.0;

/// The outcome of a load on a link that never limits.
#[derive(Debug)]
pub(crate) struct Carried {
    /// Throughput in half seconds after the settling, in bits per second on the wire.
    pub(crate) windows_bps: Vec<f64>,
    /// The outcome of the whole run.
    pub(crate) outcome: ModeOutcome,
}

impl Carried {
    /// Returns the median throughput of the windows, in bits per second.
    pub(crate) fn bps(&self) -> f64 {
        stats::median(&self.windows_bps).unwrap_or(0.0)
    }

    /// Returns the length of the whole run.
    pub(crate) fn length() -> Nanos {
        SETTLE + MEASURED
    }
}

/// Runs all senders of the scenario at once, from beginning to end, on a link that never limits.
pub(crate) fn carry(bench: &Bench<'_>, options: &DemoOptions, mode: Mode) -> Result<Carried, DemoError> {
    let scenario = heaviest(&options.scenario);
    let outcome = bench.run(&scenario, mode, UNLIMITED, options, &mut |_| {})?;
    let fine = &outcome.fine;
    let settled = (SETTLE.as_secs_f64() / fine.window_s) as usize;
    let throughput = |bytes: &[Vec<u64>]| {
        let sum: u64 = bytes.iter().flatten().sum();
        sum as f64 * 8.0 / (bytes.len() as f64 * fine.window_s)
    };
    let windows = fine.bytes.get(settled..).unwrap_or_default().chunks_exact(FINE_PER_WINDOW);
    Ok(Carried { windows_bps: windows.map(throughput).collect(), outcome })
}

/// Returns the scenario with all senders active throughout.
fn heaviest(scenario: &LoomScenario) -> LoomScenario {
    let mut scenario = LoomScenario { duration: Carried::length(), ..scenario.clone() };
    for bulk in &mut scenario.bulk {
        (bulk.start, bulk.stop) = (Nanos::ZERO, Carried::length());
    }
    scenario
}

/// Returns the mode of the trial: Loom, which costs most per packet, if the demo runs it; otherwise the demo's first.
fn trial_mode(options: &DemoOptions) -> Mode {
    let first = options.modes.first().copied().unwrap_or(Mode::Loom);
    if options.modes.contains(&Mode::Loom) { Mode::Loom } else { first }
}

/// Measures the demo's heaviest load on a link that never limits. The demo's rate follows from the result.
///
/// # Errors
/// As [`super::run`].
pub fn trial(
    policy: &CompiledPolicy,
    options: &DemoOptions,
    stop: &dyn Fn() -> bool,
    on_event: &mut dyn FnMut(DemoEvent<'_>),
) -> Result<RateTrial, DemoError> {
    on_event(DemoEvent::Calibrating);
    let mode = trial_mode(options);
    let carried = with_bench(policy, &options.scenario.names(), stop, |bench| carry(bench, options, mode))?;
    Ok(RateTrial {
        carried_bps: carried.bps(),
        mode: super::summary::mode_of(mode),
        flows: options.scenario.bulk.iter().map(|bulk| bulk.flows).sum(),
        requests_per_s: options.scenario.latency.map_or(0, |_| options.requests_per_s),
        segments_per_turn: segments_per_turn_in_words(options.segments_per_turn),
        settle_s: SETTLE.as_secs_f64(),
        choices_bps: RATES_MBPS.map(|mbps| mbps * 1_000_000).to_vec(),
        divisor: DIVISOR,
        windows_bps: carried.windows_bps,
    })
}

#[cfg(test)]
mod tests {
    use super::super::FIGURE_9_FLOWS;
    use super::*;
    use crate::bench::port::PortCase;

    /// Formats all parameters of a load.
    fn load(options: &DemoOptions) -> String {
        let scenario = heaviest(&options.scenario);
        let requests = (options.requests_per_s, options.request_bytes);
        let (segments_per_turn, catch_up) = (options.segments_per_turn, options.catch_up);
        format!(
            "{:?}",
            (scenario, segments_per_turn, &options.congestion, requests, trial_mode(options), catch_up)
        )
    }

    #[test]
    fn the_trial_and_the_port_benchmark_measure_the_same_load() {
        let bench = PortCase::ManyFlows.options();
        // The demo without flags: all four modes.
        let demo = DemoOptions {
            scenario: LoomScenario::figure9(FIGURE_9_FLOWS, Nanos::from_secs(10)),
            modes: vec![Mode::OneRing, Mode::HashedRings { queues: 16 }, Mode::RingPerFlow, Mode::Loom],
            sq_qdisc: true,
            ..bench.clone()
        };
        assert_eq!(load(&bench), load(&demo));
        let all = heaviest(&demo.scenario);
        assert!(all.bulk.iter().all(|b| b.start == Nanos::ZERO && b.stop == all.duration), "all at once");
        assert_eq!((all.latency, all.bulk.len()), (Some("T0"), 4));
    }
}
