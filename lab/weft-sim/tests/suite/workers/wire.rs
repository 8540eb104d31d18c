//! One wire for all workers: its rate, its shares among classes of different workers, and none of it lost.

use crate::workers::scenes::{error_of_shares, gigabits, shared};
use weft_sched::workers::Settings;
use weft_sim::engine_load::{limit_lanes, wfq_program};
use weft_sim::workers::{Presence, Scene, SimulatedBytes};
use weft_units::{BitsPerSec, Bytes, Nanos};

const SPAN: Nanos = Nanos::from_millis(100);

/// Workers of which each could send all that the wire carries.
fn scene(classes: usize, workers: usize, wire: BitsPerSec) -> Scene {
    let mut scene = Scene::backlogged(wfq_program(classes), workers, BitsPerSec(wire.get() * workers as u64));
    scene.wire = Some(wire);
    scene.span = Nanos::from_millis(120);
    scene
}

/// Asserts that no 100 ms have more than the wire carries. Returns the least part of it that was used.
fn used(outcome: &SimulatedBytes, wire: BitsPerSec) -> f64 {
    let (all, excess) = (wire.bytes_in(SPAN), Settings::default().excess(wire, Bytes::ZERO));
    let sums: Vec<u64> = outcome.windows(100, 5).map(|lanes| lanes.iter().sum()).collect();
    let most = sums.iter().copied().max().unwrap_or(0);
    assert!(most <= (all + excess).get(), "{most} bytes of {all}");
    sums.into_iter().min().unwrap_or(0) as f64 / all.get() as f64
}

/// Lets each class be at a separate worker.
fn one_class_each(scene: &mut Scene) {
    for (worker, of) in scene.presence.iter_mut().enumerate() {
        for (lane, presence) in of.iter_mut().enumerate() {
            *presence = if worker == lane { Presence::Always } else { Presence::Never };
        }
    }
}

/// Each class has a separate worker, which alone would take an equal part of the wire. The tolerances are three packets or less of the
/// class of least weight, or a thousandth.
#[test]
fn classes_of_different_workers_have_their_shares() {
    for (workers, wire, tolerance) in [
        (2_usize, 0.1, 0.005),
        (2, 10.0, 0.001),
        (4, 1.0, 0.003),
        (4, 10.0, 0.001),
        (8, 1.0, 0.01),
        (8, 10.0, 0.001),
        (8, 40.0, 0.001),
        (16, 10.0, 0.005),
    ] {
        let wire = gigabits(wire);
        let mut scene = scene(workers, workers, wire);
        one_class_each(&mut scene);
        for seed in 1..=3 {
            scene.seed = seed;
            let outcome = shared(&scene);
            let (used, weights) = (used(&outcome, wire), (1..=workers as u64).collect::<Vec<_>>());
            let error = error_of_shares(&outcome, &weights);
            println!("{workers} workers, {wire}, seed {seed}: shares to {error:.4}, {used:.4} used");
            assert!(
                error <= tolerance && used >= 0.998,
                "{workers} workers, {wire}, seed {seed}: {error}, {used}"
            );
        }
    }
}

/// A class that its limit keeps below its share is behind all others, who need not give way to it while it waits for the limit.
#[test]
fn others_use_the_wire_while_a_class_waits_for_its_limit() {
    for (workers, limit, least) in [(2_usize, 0.1, 0.92), (2, 1.0, 0.99), (4, 1.0, 0.99)] {
        let wire = gigabits(10.0);
        let mut scene = scene(workers, workers, wire);
        limit_lanes(&mut scene.program, 1, gigabits(limit));
        one_class_each(&mut scene);
        let outcome = shared(&scene);
        let used = used(&outcome, wire);
        println!("{workers} workers, a limit of {limit} Gb/s: {used:.4} used");
        assert!(used >= least, "{workers} workers, {limit}: {used}");
    }
}

/// Some classes are at all workers, others at some.
#[test]
fn classes_of_some_workers_have_their_shares() {
    for (workers, wire) in [(2_usize, 1.0), (4, 10.0)] {
        let wire = gigabits(wire);
        let mut scene = scene(4, workers, wire);
        scene.stall = Nanos::from_micros(100);
        for (worker, of) in scene.presence.iter_mut().enumerate() {
            let lacks: &[usize] = if worker % 2 == 0 { &[3] } else { &[0, 1] };
            lacks.iter().for_each(|lane| of[*lane] = Presence::Never);
        }
        let outcome = shared(&scene);
        let (used, error) = (used(&outcome, wire), error_of_shares(&outcome, &[1, 2, 3, 4]));
        println!("{workers} workers, {wire}: shares to {error:.4}, {used:.4} used");
        assert!(error <= 0.001 && used >= 0.99, "{workers} workers, {wire}: {error}, {used}");
    }
}

/// Classes that come and go leave what they do not use to the others.
#[test]
fn the_wire_is_used_while_classes_come_and_go() {
    for workers in [2_usize, 4, 8] {
        let wire = gigabits(10.0);
        let mut scene = scene(4, workers, wire);
        for (worker, of) in scene.presence.iter_mut().enumerate() {
            for (lane, presence) in of.iter_mut().enumerate() {
                *presence = match (worker, lane) {
                    (0, 0) => Presence::Always,
                    _ => Presence::OnAndOff(Nanos::from_micros(500)),
                };
            }
        }
        let used = used(&shared(&scene), wire);
        println!("{workers} workers: {used:.4} used");
        assert!(used >= 0.99, "{workers} workers: {used}");
    }
}
