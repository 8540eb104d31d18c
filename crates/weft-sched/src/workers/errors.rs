//! The errors of several workers with one policy, in virtual time: two scenes that any number of workers can play.

use weft_units::{BitsPerSec, Nanos};

use super::simulation::{Outcome, Presence, Scene, Way, run};
use super::{Settings, SharedError};
use crate::workload::{limit_lanes, wfq_program};

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
    /// The rate of all classes together.
    pub sent: BitsPerSec,
}

/// Runs both scenes with `workers` workers.
///
/// # Errors
/// When a program cannot be shared, which is a defect of ours.
pub fn errors(way: Way, workers: usize) -> Result<Errors, SharedError> {
    let outcome = run(&shares(workers), way)?;
    let share = error_of_shares(&outcome);
    let bytes: u64 = (0..8).map(|lane| outcome.bytes(lane, BEGIN, SPAN)).sum();
    let sent = BitsPerSec(bytes * 8 * 1000 / SPAN as u64);
    let (above, below) = errors_of_limit(&run(&limits(workers), way)?);
    Ok(Errors { share, above, below, sent })
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

fn error_of_shares(outcome: &Outcome) -> f64 {
    let error = |lanes: Vec<u64>| {
        let all: u64 = lanes.iter().sum();
        let due = |lane: usize| all as f64 * (lane + 1) as f64 / 36.0;
        (0..8).map(|lane| (lanes[lane] as f64 / due(lane) - 1.0).abs()).fold(0.0, f64::max)
    };
    outcome.windows(SPAN, BEGIN).map(error).fold(0.0, f64::max)
}

fn errors_of_limit(outcome: &Outcome) -> (f64, f64) {
    let allowed = LIMIT.bytes_in(Nanos::from_millis(SPAN as u64)).get() as f64;
    let part = |bytes: Option<u64>| bytes.unwrap_or(0) as f64 / allowed;
    let sums = || outcome.windows(SPAN, BEGIN).map(|lanes| lanes[0]);
    (part(sums().max()) - 1.0, 1.0 - part(sums().min()))
}
