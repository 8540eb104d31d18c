//! The errors of several workers with one policy, in virtual time: scenes that any number of workers can play.

use super::{BUCKET, Presence, RateChange, Scene, SimulatedBytes, Way, run};
use crate::engine_load::{limit_lanes, wfq_program};
use weft_sched::workers::{Settings, SharedError};
use weft_units::{BitsPerSec, Instant, LimitId, Nanos};

/// The numbers of workers of a series.
pub const WORKERS: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// The span of a promise, in buckets of a millisecond.
const SPAN: usize = 100;
/// The beginning that is left out.
const BEGIN: usize = 5;
/// The span of a run.
const RUN: Nanos = Nanos::from_millis(150);
/// The period of `cake_mq`.
const SPLIT: Nanos = Nanos::from_micros(200);
/// The time that a lock is held for a packet: that of the engine for one.
const HOLD: Nanos = Nanos(100);
/// The links of all workers together.
const LINK: BitsPerSec = BitsPerSec(40_000_000_000);
/// The limit of the limited class.
const LIMIT: BitsPerSec = BitsPerSec(2_000_000_000);
/// The limit of a class that is at one worker after the other, below the link of each of 64.
const MOVING: BitsPerSec = BitsPerSec(500_000_000);
/// The span that it stays at each.
const STAY: Nanos = Nanos::from_millis(3);
/// The links of all workers together where rates change.
const LINK_OF_CHANGES: BitsPerSec = BitsPerSec(20_000_000_000);
/// The rates of a limit that changes, in Mb/s, by the milliseconds from which on they hold. The class's share is 2 Gb/s.
const CHANGES: [(usize, u64); 5] = [(0, 1500), (40, 500), (80, 1800), (81, 1000), (110, 1500)];

/// The ways that are compared, by name.
pub fn ways() -> [(&'static str, Way); 3] {
    [
        ("shared", Way::Shared(Settings::default())),
        ("one-lock", Way::OneLock(HOLD)),
        ("equal-split", Way::EqualSplit(SPLIT)),
    ]
}

/// The largest errors in any 100 ms, as parts of what is due.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Errors {
    /// Of a class's share.
    pub share: f64,
    /// Of a limit that is exceeded; negative if it never is.
    pub above: f64,
    /// Of a limit that is not reached, though its class has enough to send.
    pub below: f64,
    /// As above, of the limit of a class that is at one worker after the other.
    pub moving_above: f64,
    /// As below, of that limit.
    pub moving_below: f64,
    /// As above, of a limit whose rate changes.
    pub changes_above: f64,
    /// As below, of that limit.
    pub changes_below: f64,
    /// The rate of all classes together.
    pub sent: BitsPerSec,
}

/// Runs all scenes with `workers` workers.
///
/// # Errors
/// When a program cannot be shared, which is a defect of weftline.
pub fn errors(way: Way, workers: usize) -> Result<Errors, SharedError> {
    let outcome = run(&shares(workers), way)?;
    let share = error_of_shares(&outcome);
    let bytes: u64 = (0..8).map(|lane| outcome.bytes(lane, BEGIN, SPAN)).sum();
    let sent = BitsPerSec(bytes * 8 * 1000 / SPAN as u64);
    let (above, below) = errors_of_limit(&run(&limits(workers), way)?, |_| LIMIT);
    let (moving_above, moving_below) = errors_of_limit(&run(&moving(workers), way)?, |_| MOVING);
    let (changes_above, changes_below) = errors_of_limit(&run(&changes(workers), way)?, rate_at);
    Ok(Errors { share, above, below, moving_above, moving_below, changes_above, changes_below, sent })
}

/// Eight classes of weights 1 to 8. Workers with even numbers lack the heaviest, the others the two lightest.
fn shares(workers: usize) -> Scene {
    let mut scene = Scene::backlogged(wfq_program(8), workers, LINK);
    scene.span = RUN;
    for (worker, of) in scene.presence.iter_mut().enumerate() {
        let lacks: &[usize] = if worker % 2 == 0 { &[7] } else { &[0, 1] };
        lacks.iter().for_each(|lane| of[*lane] = Presence::Never);
    }
    scene
}

/// Four classes, of which one has a limit, and comes and goes at all workers but one. Workers stall. With 64 workers each link has a
/// third of the limit's rate.
fn limits(workers: usize) -> Scene {
    let mut program = wfq_program(4);
    limit_lanes(&mut program, 1, LIMIT);
    let mut scene = Scene::backlogged(program, workers, LINK);
    scene.span = RUN;
    scene.stall = Nanos::from_micros(200);
    for of in scene.presence.iter_mut().skip(1) {
        of[0] = Presence::OnAndOff(Nanos::from_micros(500));
    }
    scene
}

/// Four classes, of which one has a limit and is at one worker after the other.
fn moving(workers: usize) -> Scene {
    let mut program = wfq_program(4);
    limit_lanes(&mut program, 1, MOVING);
    let mut scene = Scene::backlogged(program, workers, LINK);
    scene.span = RUN;
    scene.presence.iter_mut().for_each(|of| of[0] = Presence::InTurn(STAY));
    scene
}

/// Four classes that are always backlogged, of which one has a limit whose rate changes.
fn changes(workers: usize) -> Scene {
    let mut program = wfq_program(4);
    limit_lanes(&mut program, 1, rate_at(0));
    let mut scene = Scene::backlogged(program, workers, LINK_OF_CHANGES);
    scene.span = RUN;
    let change = |&(at, _): &(usize, u64)| RateChange {
        at: Instant::from_millis(at as u64),
        limit: LimitId(0),
        rate: rate_at(at),
    };
    scene.changes = CHANGES.iter().skip(1).map(change).collect();
    scene
}

/// The rate of the limit that changes, in a bucket.
fn rate_at(bucket: usize) -> BitsPerSec {
    let in_force = CHANGES.iter().rev().find(|(from, _)| *from <= bucket);
    BitsPerSec(in_force.map_or(0, |(_, megabits)| megabits * 1_000_000))
}

fn error_of_shares(outcome: &SimulatedBytes) -> f64 {
    let error = |lanes: Vec<u64>| {
        let all: u64 = lanes.iter().sum();
        let due = |lane: usize| all as f64 * (lane + 1) as f64 / 36.0;
        (0..8).map(|lane| (lanes[lane] as f64 / due(lane) - 1.0).abs()).fold(0.0, f64::max)
    };
    outcome.windows(SPAN, BEGIN).map(error).fold(0.0, f64::max)
}

/// The largest excess and the largest lack of the first class in any span, beside the rates that were in force in its buckets.
fn errors_of_limit(outcome: &SimulatedBytes, rate: impl Fn(usize) -> BitsPerSec) -> (f64, f64) {
    let allowed = |first: usize| -> u64 {
        let each = (first..first + SPAN).map(|bucket| rate(bucket).bytes_in(BUCKET).get());
        each.sum()
    };
    let part = |(at, lanes): (usize, Vec<u64>)| lanes[0] as f64 / allowed(BEGIN + at) as f64;
    let parts: Vec<f64> = outcome.windows(SPAN, BEGIN).enumerate().map(part).collect();
    let most = parts.iter().copied().fold(0.0, f64::max);
    let least = parts.iter().copied().fold(f64::INFINITY, f64::min);
    (most - 1.0, 1.0 - least)
}
