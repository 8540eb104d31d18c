//! Scenes, and what is asked of their outcomes.

use weft_sched::workers::Settings;
use weft_sim::engine_load::{limit_lanes, wfq_program};
use weft_sim::workers::{Presence, Scene, SimulatedBytes, Way, run};
use weft_units::testing::Rng;
use weft_units::{BitsPerSec, Bytes, Nanos};

/// The span of the promises, in buckets of a millisecond.
pub(crate) const SPAN: usize = 100;

/// The first milliseconds, in which all begins.
pub(crate) const BEGIN: usize = 5;

pub(crate) fn gigabits(rate: f64) -> BitsPerSec {
    BitsPerSec((rate * 1e9) as u64)
}

/// Fair queueing over `classes` of weights 1 to `classes`, of which the first have limits of these rates.
pub(crate) fn limited(classes: usize, rates: &[f64]) -> weft_sched::Program {
    let mut program = wfq_program(classes);
    limit_lanes(&mut program, rates.len(), BitsPerSec(1));
    for (limit, rate) in program.limits.iter_mut().zip(rates) {
        limit.rate = gigabits(*rate);
    }
    program
}

/// Runs a scene with shared state, and checks that no packet and no part of a limit is lost.
pub(crate) fn shared(scene: &Scene) -> SimulatedBytes {
    let outcome = run(scene, Way::Shared(Settings::default())).expect("a valid scene");
    assert_eq!(outcome.packets[0], outcome.packets[1], "packets");
    if scene.changes.is_empty() {
        assert!(outcome.unaccounted.iter().all(|left| *left == 0), "{:?}", outcome.unaccounted);
    }
    outcome
}

/// The largest sum of a lane's bytes in any span of 100 ms.
pub(crate) fn most(outcome: &SimulatedBytes, lane: usize) -> u64 {
    outcome.windows(SPAN, 0).map(|lanes| lanes[lane]).max().expect("a span")
}

/// The smallest sum of a lane's bytes in any span of 100 ms after the beginning.
pub(crate) fn least(outcome: &SimulatedBytes, lane: usize) -> u64 {
    outcome.windows(SPAN, BEGIN).map(|lanes| lanes[lane]).min().expect("a span")
}

/// A limit's bytes in 100 ms.
pub(crate) fn allowed(rate: f64) -> f64 {
    gigabits(rate).bytes_in(Nanos::from_millis(SPAN as u64)).get() as f64
}

/// The bytes that a limit may be exceeded by.
pub(crate) fn excess(rate: f64) -> f64 {
    Settings::default().excess(gigabits(rate), Bytes(3000)).get() as f64
}

/// The largest error of a share of the weights 1, 2 ... in any 100 ms, as a part of the share.
pub(crate) fn error_of_shares(outcome: &SimulatedBytes, weights: &[u64]) -> f64 {
    let sum: u64 = weights.iter().sum();
    let of = |lanes: &Vec<u64>| {
        let all: u64 = lanes.iter().take(weights.len()).sum();
        let error = |(lane, weight): (usize, &u64)| {
            let due = all as f64 * *weight as f64 / sum as f64;
            (lanes[lane] as f64 - due).abs() / due
        };
        weights.iter().enumerate().map(error).fold(0.0, f64::max)
    };
    outcome.windows(SPAN, BEGIN).map(|lanes| of(&lanes)).fold(0.0, f64::max)
}

/// Lets each lane be at each worker never, always or now and then, at random, and at one at least.
pub(crate) fn scatter(scene: &mut Scene, seed: u64, on_and_off: &[u64]) {
    let mut rng = Rng::new(seed);
    let workers = scene.links.len() as u32;
    for lane in 0..scene.program.lanes.len() {
        for of in &mut scene.presence {
            of[lane] = match rng.below(3) {
                0 => Presence::Never,
                1 => Presence::Always,
                _ => {
                    let mean = on_and_off[rng.below(on_and_off.len() as u32) as usize];
                    Presence::OnAndOff(Nanos::from_micros(mean))
                }
            };
        }
        scene.presence[rng.below(workers) as usize][lane] = Presence::Always;
    }
}
