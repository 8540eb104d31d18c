//! Shares over all workers.

use crate::workers::scenes::{error_of_shares, gigabits, limited, shared};
use weft_sim::engine_load::{figure1_program, wfq_program};
use weft_sim::workers::{Presence, Scene, Way, run};
use weft_units::{Bytes, Nanos};

fn weights(classes: u64) -> Vec<u64> {
    (1..=classes).collect()
}

/// Classes that are backlogged at all workers have their shares to a thousandth in any 100 ms.
#[test]
fn shares_of_classes_that_all_workers_have() {
    for workers in [2, 8, 64] {
        let mut scene = Scene::backlogged(wfq_program(8), workers, gigabits(40.0));
        scene.stall = Nanos::from_micros(200);
        scene.span = Nanos::from_millis(120);
        let error = error_of_shares(&shared(&scene), &weights(8));
        assert!(error <= 0.001, "{workers} workers: {error}");
    }
}

/// Workers have different classes of those that share: the trees alone would divide otherwise.
#[test]
fn shares_of_classes_that_some_workers_have() {
    for workers in [2_usize, 8, 32] {
        let mut scene = Scene::backlogged(wfq_program(8), workers, gigabits(40.0));
        scene.span = Nanos::from_millis(120);
        for (worker, of) in scene.presence.iter_mut().enumerate() {
            // Half of them lack the heaviest class, the others the lightest two.
            let lacks: &[usize] = if worker % 2 == 0 { &[7] } else { &[0, 1] };
            lacks.iter().for_each(|lane| of[*lane] = Presence::Never);
        }
        let error = error_of_shares(&shared(&scene), &weights(8));
        assert!(error <= 0.001, "{workers} workers: {error}");
        let alone = run(&scene, Way::EqualSplit(Nanos::from_micros(200))).expect("a valid scene");
        assert!(error_of_shares(&alone, &weights(8)) > 0.05, "trees alone");
    }
}

/// A class that only one worker has, and that takes all of it, has no effect on the shares of the others.
#[test]
fn a_class_with_a_worker_of_its_own() {
    let mut scene = Scene::backlogged(wfq_program(4), 4, gigabits(40.0));
    scene.span = Nanos::from_millis(120);
    for (worker, of) in scene.presence.iter_mut().enumerate() {
        for (lane, presence) in of.iter_mut().enumerate() {
            *presence = if (worker == 3) == (lane == 0) { Presence::Always } else { Presence::Never };
        }
    }
    let outcome = shared(&scene);
    let bytes = |lane| outcome.bytes(lane, 5, 100) as f64;
    let link = gigabits(10.0).bytes_in(Nanos::from_millis(100)).get() as f64;
    assert!((bytes(0) / link - 1.0).abs() < 0.001, "{}", bytes(0));
    for (lane, weight) in [(1, 2.0), (2, 3.0), (3, 4.0)] {
        assert!((bytes(lane) / (3.0 * link * weight / 9.0) - 1.0).abs() < 0.001, "{lane}: {}", bytes(lane));
    }
}

/// While some classes come and go, the others keep their shares of what is left to each other.
#[test]
fn shares_while_other_classes_come_and_go() {
    for workers in [2, 16] {
        let mut scene = Scene::backlogged(wfq_program(8), workers, gigabits(40.0));
        scene.span = Nanos::from_millis(120);
        for (worker, of) in scene.presence.iter_mut().enumerate() {
            for (lane, presence) in of.iter_mut().enumerate().skip(4) {
                *presence = Presence::OnAndOff(Nanos::from_micros(200 * (1 + (worker + lane) as u64 % 5)));
            }
        }
        let error = error_of_shares(&shared(&scene), &weights(4));
        assert!(error <= 0.001, "{workers} workers: {error}");
    }
}

/// Five levels: the classes of the first priority at each tenant have the tenants' shares.
#[test]
fn shares_at_every_level() {
    let mut scene = Scene::backlogged(figure1_program(), 8, gigabits(40.0));
    scene.span = Nanos::from_millis(120);
    let outcome = shared(&scene);
    // 16 leaves a tenant, of which the four of its first class send.
    let mut expected = vec![0; outcome.buckets[0].len()];
    for tenant in 0..4 {
        for app in 0..4 {
            expected[tenant * 16 + app] = (tenant as u64 + 1) * (app as u64 + 1);
        }
    }
    let sum: u64 = expected.iter().sum();
    let all: u64 = (0..expected.len()).map(|lane| outcome.bytes(lane, 5, 100)).sum();
    for (lane, weight) in expected.iter().enumerate() {
        let (bytes, due) = (outcome.bytes(lane, 5, 100) as f64, (all * weight) as f64 / sum as f64);
        assert!((bytes - due).abs() <= due * 0.001, "lane {lane}: {bytes} of {due}");
    }
}

/// Limits and shares at once: the bytes are those of one engine for all.
#[test]
fn the_bytes_are_those_of_one_engine() {
    for workers in [2, 8] {
        let mut scene = Scene::backlogged(limited(6, &[1.0, 0.5]), workers, gigabits(20.0));
        scene.span = Nanos::from_millis(210);
        let (ours, one) = (shared(&scene), run(&scene, Way::OneLock(Nanos::ZERO)).expect("a valid scene"));
        for lane in 0..6 {
            let (ours, one) = (ours.bytes(lane, 5, 200) as f64, one.bytes(lane, 5, 200) as f64);
            let error = (ours - one).abs() / one;
            assert!(error <= 0.002, "{workers} workers, lane {lane}: {ours} and {one}");
        }
    }
}

/// Large segments: errors are those of segments.
#[test]
fn shares_of_large_segments() {
    let mut scene = Scene::backlogged(wfq_program(4), 4, gigabits(40.0));
    scene.lengths = vec![Bytes(64), Bytes(65_000)];
    scene.span = Nanos::from_millis(120);
    let outcome = shared(&scene);
    let weights = weights(4);
    let all: u64 = (0..4).map(|lane| outcome.bytes(lane, 5, 100)).sum();
    for (lane, weight) in weights.iter().enumerate() {
        let due = (all * weight) as f64 / 10.0;
        let error = (outcome.bytes(lane, 5, 100) as f64 - due).abs();
        assert!(error <= 8.0 * 65_000.0, "lane {lane}: {error}");
    }
}
