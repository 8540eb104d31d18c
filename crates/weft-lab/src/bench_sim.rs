//! Speed of the simulator: bare events, datagrams through a qdisc, and the whole host model with TCP.
//!
//! The cases are those of the programs in `bench/peers/`, which run the same on ns-3.

use crate::overlay;
use crate::reproduce::cost_file;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use std::time::Instant;
use weft_report::bench::BenchCase;
use weft_report::stats;
use weft_sim::event_queue::EventQueue;
use weft_sim::run::{RunError, simulate};
use weft_sim::scenario::{self, Scenario};
use weft_units::Nanos;

/// Seed of everything random.
pub const SEED: u64 = 1;
/// Pending events of the hold model.
pub const PENDING: [u32; 4] = [100, 1000, 10_000, 100_000];
/// Events of one run of the hold model.
const HOLD_EVENTS: u64 = 10_000_000;
/// Mean delay of an event.
const MEAN_DELAY: f64 = 1000.0;

/// The hold model: each event that leaves puts one in, after an exponential delay of 1 us on average.
pub fn hold(pending: u32, runs: u32) -> BenchCase {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    // Drawn beforehand, so that the generator is not what is measured.
    let delays: Vec<u64> = (0..1 << 16).map(|_| exponential(&mut random)).collect();
    let rates: Vec<f64> = (0..runs).map(|_| hold_once(pending, &delays)).collect();
    case(&format!("hold-{pending}"), &rates, &[])
}

fn exponential(random: &mut Pcg64Mcg) -> u64 {
    let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (-(1.0 - uniform).ln() * MEAN_DELAY) as u64
}

/// Events per second of one run, after as many events as three times the pending ones.
fn hold_once(pending: u32, delays: &[u64]) -> f64 {
    let mut queue = EventQueue::new();
    for event in 0..pending {
        queue.push(Nanos(delays[event as usize % delays.len()]), event);
    }
    let mut next = 0usize;
    let mut turn = |queue: &mut EventQueue<u32>| {
        if let Some((now, event)) = queue.pop() {
            queue.push(now + Nanos(delays[next % delays.len()]), event);
            next += 1;
        }
    };
    for _ in 0..3 * u64::from(pending) {
        turn(&mut queue);
    }
    let begin = Instant::now();
    for _ in 0..HOLD_EVENTS {
        turn(&mut queue);
    }
    HOLD_EVENTS as f64 / begin.elapsed().as_secs_f64()
}

/// 9 Gb/s of datagrams of 1472 bytes through one queue with `fq_codel` at 10 Gb/s.
///
/// # Errors
/// The scenario cannot run: a defect of ours.
pub fn udp(runs: u32) -> Result<BenchCase, RunError> {
    whole("udp", include_str!("../../../experiments/scenarios/udp-fq-codel.toml"), &[], runs)
}

/// Twelve bulk CUBIC flows at 10 Gb/s and 25 us one way, with the costs of all work: the whole host model.
///
/// # Errors
/// The scenario cannot run: a defect of ours.
pub fn tcp(runs: u32) -> Result<BenchCase, RunError> {
    let settings = [("network.delay", "25us"), ("host.stack.qdisc", "fq_codel")];
    whole("tcp", include_str!("../../../experiments/scenarios/titan.toml"), &settings, runs)
}

fn whole(name: &str, text: &str, settings: &[(&str, &str)], runs: u32) -> Result<BenchCase, RunError> {
    let scenario = read(text, settings)
        .map_err(|what| RunError::Impossible { what, hint: "this is a defect".to_owned() })?;
    let (mut rates, mut packets, mut speeds) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..runs {
        let begin = Instant::now();
        let outcome = simulate(&scenario, SEED + u64::from(run))?;
        let wall = begin.elapsed().as_secs_f64();
        let data: u64 = outcome.flows.iter().map(|flow| flow.bytes.0).sum();
        rates.push(outcome.events as f64 / wall);
        packets.push(data as f64 / 1514.0 / wall);
        speeds.push((scenario.warm_up + scenario.duration).as_secs_f64() / wall);
    }
    let median = |values: &[f64]| stats::median(values).unwrap_or(0.0);
    let figures = [("packets_per_s", median(&packets)), ("sim_s_per_wall_s", median(&speeds))];
    Ok(case(name, &rates, &figures))
}

fn read(text: &str, settings: &[(&str, &str)]) -> Result<Scenario, String> {
    let mut document: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    for (path, value) in settings {
        let value = toml::Value::String((*value).to_owned());
        overlay::apply(&mut document, path, value).map_err(|error| error.to_string())?;
    }
    scenario::read(&document.to_string(), "scenario", &mut |path| cost_file(path))
        .map_err(|error| error.to_string())
}

fn case(name: &str, rates: &[f64], figures: &[(&str, f64)]) -> BenchCase {
    let mut case = BenchCase::alone(name, rates);
    let range = [("events_per_s_min", stats::min(rates)), ("events_per_s_max", stats::max(rates))];
    let range = range.into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in range.chain(figures.iter().copied()) {
        case.other.insert(name.to_owned(), value.into());
    }
    case
}
