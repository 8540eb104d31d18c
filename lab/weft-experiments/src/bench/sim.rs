//! Speed of the simulator: bare events, datagrams through a qdisc, and the whole host model with TCP.
//!
//! The programs in `bench/peers/` run the same cases on ns-3.

use crate::catalogue::files::beside_scenarios;
use crate::catalogue::overlay::{self, OverlayError};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use std::time::Instant;
use toml::Value;
use weft_facts::stats;
use weft_report::bench::{BenchCase, Unit};
use weft_report::rounds::Rounds;
use weft_sim::event_queue::EventQueue;
use weft_sim::run::{RunError, simulate};
use weft_sim::scenario::{self, Scenario};
use weft_text::LocatedError;
use weft_units::Nanos;

/// Seed of all random draws.
pub const SEED: u64 = 1;
/// Numbers of pending events of the hold model.
pub const PENDING: [u32; 4] = [100, 1000, 10_000, 100_000];
/// Events of one run of the hold model.
const HOLD_EVENTS: u64 = 10_000_000;
/// Mean delay of an event.
const MEAN_DELAY: f64 = 1000.0;

/// An event of the hold model, of the same size, with its time, as one of ns-3: `Scheduler::Event` (a pointer, and a
/// key of 16 bytes with the time) and the `EventImpl` behind the pointer (virtual table, reference count, function),
/// 48 bytes together.
#[derive(Clone, Copy)]
struct HoldEvent {
    /// The event's action, called through the pointer, as ns-3 calls an event.
    action: fn(&mut Hold, Nanos, &Self),
    rest: [u64; 4],
}

const _: () = assert!(size_of::<HoldEvent>() + size_of::<Nanos>() == 48);

/// State that events change.
struct Hold {
    queue: EventQueue<HoldEvent>,
    delays: Vec<u64>,
    next: usize,
}

impl Hold {
    /// The hold model's only action: schedules another such event after the next delay.
    fn hold(&mut self, now: Nanos, event: &HoldEvent) {
        let delay = self.delays[self.next % self.delays.len()];
        self.next += 1;
        let rest = core::hint::black_box(event.rest);
        self.queue.push(now + Nanos(delay), HoldEvent { rest, ..*event });
    }

    fn turn(&mut self) {
        if let Some((now, event)) = self.queue.pop() {
            core::hint::black_box(event.action)(self, now, &event);
        }
    }
}

/// Measures the hold model: each event removed schedules another, after an exponential delay of 1 us on average.
pub fn hold(pending: u32, runs: u32) -> BenchCase {
    let mut random = Pcg64Mcg::seed_from_u64(SEED);
    // Drawn in advance, so that the generator is not measured.
    let delays: Vec<u64> = (0..1 << 16).map(|_| exponential(&mut random)).collect();
    let rates: Vec<f64> = (0..runs).map(|_| hold_once(pending, &delays)).collect();
    case(&format!("hold-{pending}"), &rates, &[])
}

fn exponential(random: &mut Pcg64Mcg) -> u64 {
    let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (-(1.0 - uniform).ln() * MEAN_DELAY) as u64
}

/// Returns events per second of one run, after a warm-up of three times the pending events.
fn hold_once(pending: u32, delays: &[u64]) -> f64 {
    let mut hold = Hold { queue: EventQueue::new(), delays: delays.to_vec(), next: 0 };
    for number in 0..pending {
        let at = Nanos(delays[number as usize % delays.len()]);
        hold.queue.push(at, HoldEvent { action: Hold::hold, rest: [u64::from(number); 4] });
    }
    (0..3 * u64::from(pending)).for_each(|_| hold.turn());
    let begin = Instant::now();
    (0..HOLD_EVENTS).for_each(|_| hold.turn());
    HOLD_EVENTS as f64 / begin.elapsed().as_secs_f64()
}

/// Measures 9 Gb/s of datagrams of 1472 bytes through one queue with `fq_codel` at 10 Gb/s.
///
/// # Errors
/// Fails when the scenario cannot run, which is a defect of weftline.
pub fn udp(runs: u32) -> Result<BenchCase, RunError> {
    whole("udp", include_str!("../../../../experiments/scenarios/udp-fq-codel.toml"), &[], runs)
}

/// Measures twelve bulk CUBIC flows at 10 Gb/s with 25 us one way. ns-3 models no processing costs, no super-packets
/// and no byte queue limits, so here too processing is free, packets are of one MTU, and one queue has `fq_codel`;
/// buffers and windows are 64 MiB.
///
/// # Errors
/// Fails when the scenario cannot run, which is a defect of weftline.
pub fn tcp(runs: u32) -> Result<BenchCase, RunError> {
    let text = |text: &str| Value::String(text.to_owned());
    let settings = [
        ("network.delay", text("25us")),
        ("costs", text("../costs/free.toml")),
        ("host.stack.qdisc", text("fq_codel")),
        ("host.stack.tso", Value::Boolean(false)),
        ("host.stack.gso", text("1500B")),
        ("host.stack.small_queue", text("off")),
        ("host.stack.bql", text("off")),
        ("host.stack.send_buffer", text("64MiB")),
        ("host.stack.receive_window", text("64MiB")),
        ("host.nic.transmit_queues", Value::Integer(1)),
    ];
    whole("tcp", include_str!("../../../../experiments/scenarios/titan.toml"), &settings, runs)
}

fn whole(name: &str, text: &str, settings: &[(&str, Value)], runs: u32) -> Result<BenchCase, RunError> {
    let scenario = read(text, settings).map_err(|error| RunError::Impossible {
        what: error.to_string(),
        hint: "this is a defect".to_owned(),
    })?;
    let runs = Rounds::of_one(runs, |run| {
        let begin = Instant::now();
        let outcome = simulate(&scenario, SEED + u64::from(run) - 1)?;
        let wall = begin.elapsed().as_secs_f64();
        let data: u64 = outcome.flows.iter().map(|flow| flow.bytes.0).sum();
        let received: u64 = outcome.flows.iter().map(|flow| flow.received.0).sum();
        Ok::<_, RunError>([
            outcome.events as f64 / wall,
            data as f64 / 1514.0 / wall,
            (scenario.warm_up + scenario.duration).as_secs_f64() / wall,
            received as f64 * 8.0 / outcome.measured.as_secs_f64(),
        ])
    })?;
    let median = |figure: usize| runs.median(0, |run| run[figure]).unwrap_or(0.0);
    let figures = [("packets_per_s", median(1)), ("sim_s_per_wall_s", median(2)), ("goodput_bps", median(3))];
    Ok(case(name, &runs.figures(0, |run| run[0]), &figures))
}

/// A defect of a compiled-in scenario, or of the settings that replace its values.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    #[error(transparent)]
    Setting(#[from] OverlayError),
    #[error(transparent)]
    Scenario(#[from] LocatedError),
}

fn read(text: &str, settings: &[(&str, Value)]) -> Result<Scenario, ReadError> {
    let mut document: toml::Table = text.parse()?;
    // The file's source annotations do not hold for values that the caller replaces.
    document.remove("source");
    for (path, value) in settings {
        overlay::apply(&mut document, path, value.clone())?;
    }
    Ok(scenario::read(&document.to_string(), "scenario", &mut |path| beside_scenarios(path))?)
}

fn case(name: &str, rates: &[f64], figures: &[(&str, f64)]) -> BenchCase {
    let mut case = BenchCase { unit: Unit::Events, ..BenchCase::alone(name, rates) };
    let range = [("events_per_s_min", stats::min(rates)), ("events_per_s_max", stats::max(rates))];
    let range = range.into_iter().filter_map(|(name, value)| Some((name, value?)));
    for (name, value) in range.chain(figures.iter().copied()) {
        case.other.insert(name.to_owned(), value.into());
    }
    case
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings fit the scenario's file, whatever its source annotations say.
    #[test]
    fn whole_models_can_be_read() {
        for case in [udp(0), tcp(0)] {
            assert!(case.is_ok(), "{case:?}");
        }
    }
}
