//! Limits over all workers.

use crate::workers::scenes::{SPAN, allowed, excess, gigabits, least, limited, most, scatter, shared};
use weft_sim::workers::{Presence, RateChange, Scene};
use weft_units::{Instant, LimitId, Nanos};

/// From 2 to 64 workers.
const WORKERS: [usize; 4] = [2, 5, 16, 64];

/// Classes that are always backlogged at all workers, each of which could send all of them, get their limit and no more: to a
/// thousandth and a packet.
#[test]
fn a_backlogged_class_gets_its_limit_over_all_workers() {
    for workers in WORKERS {
        let rates = [0.4, 0.3, 0.25];
        let mut scene = Scene::backlogged(limited(6, &rates), workers, gigabits(20_f64.max(workers as f64)));
        scene.span = Nanos::from_millis(150);
        let outcome = shared(&scene);
        for (lane, rate) in rates.into_iter().enumerate() {
            let (most, least) = (most(&outcome, lane) as f64, least(&outcome, lane) as f64);
            let allowed = allowed(rate);
            assert!(most <= allowed * 1.01, "{workers} workers, {rate} Gb/s: {most} of {allowed}");
            let due = allowed * 0.999 - 1518.0;
            assert!(least >= due, "{workers} workers, {rate} Gb/s: {least} of {allowed}");
        }
    }
}

/// Classes go idle and come back, at each worker by itself, and workers stall.
#[test]
fn no_class_gets_more_than_its_limit_while_it_comes_and_goes() {
    for (seed, workers) in WORKERS.into_iter().enumerate() {
        let rates = [1.0, 0.4, 3.0, 0.8];
        let mut scene = Scene::backlogged(limited(8, &rates), workers, gigabits(20.0));
        scatter(&mut scene, seed as u64, &[50, 300, 5000]);
        scene.stall = Nanos::from_micros(500);
        let outcome = shared(&scene);
        for (lane, rate) in rates.into_iter().enumerate() {
            let most = most(&outcome, lane) as f64;
            assert!(most <= allowed(rate) * 1.01, "{workers} workers, {rate} Gb/s: {most}");
            assert!(most <= allowed(rate) + excess(rate), "{workers} workers, {rate} Gb/s: {most}");
        }
    }
}

/// A class that is at one worker after the other has one limit.
#[test]
fn a_class_that_moves_between_workers_keeps_its_limit() {
    let mut scene = Scene::backlogged(limited(4, &[1.0]), 8, gigabits(20.0));
    for of in &mut scene.presence {
        of[0] = Presence::OnAndOff(Nanos::from_micros(700));
    }
    let outcome = shared(&scene);
    let (most, least) = (most(&outcome, 0) as f64, least(&outcome, 0) as f64);
    assert!(most <= allowed(1.0) * 1.01, "{most}");
    // At most times it is at some worker, each of which has more than twice the limit.
    assert!(least >= allowed(1.0) * 0.95, "{least}");
}

/// Links that have a third of the limit's rate each, of classes that come and go within a millisecond: no worker can use a slot while it
/// lasts, and what it cannot use comes back in time for others.
#[test]
fn a_limit_is_reached_by_many_slow_links() {
    for (workers, lost) in [(8, 0.002), (16, 0.002), (64, 0.002)] {
        let mut scene = Scene::backlogged(limited(4, &[2.0]), workers, gigabits(40.0));
        scene.span = Nanos::from_millis(150);
        for of in scene.presence.iter_mut().skip(1) {
            of[0] = Presence::OnAndOff(Nanos::from_micros(500));
        }
        let outcome = shared(&scene);
        let (most, least) = (most(&outcome, 0) as f64, least(&outcome, 0) as f64);
        assert!(most <= allowed(2.0) * 1.01, "{workers} workers: {most}");
        assert!(least >= allowed(2.0) * (1.0 - lost), "{workers} workers: {least} of {}", allowed(2.0));
    }
}

/// A class that has packets at one worker alone has its limit all the same: its lane does not wait from lease to lease and so lose
/// its turn to classes that others serve too.
#[test]
fn a_limit_is_reached_by_one_worker_among_many() {
    for workers in [2, 4, 16] {
        let mut scene = Scene::backlogged(limited(4, &[1.0]), workers, gigabits(10.0 * workers as f64));
        scene.span = Nanos::from_millis(150);
        scene.presence.iter_mut().skip(1).for_each(|of| of[0] = Presence::Never);
        let least = least(&shared(&scene), 0) as f64;
        assert!(least >= allowed(1.0) * 0.999 - 1518.0, "{workers} workers: {least} of {}", allowed(1.0));
    }
}

/// A worker that comes rarely does not keep the others from the limit.
#[test]
fn workers_that_use_little_of_a_limit_leave_it_to_the_others() {
    let mut scene = Scene::backlogged(limited(3, &[1.0]), 16, gigabits(32.0));
    for of in scene.presence.iter_mut().skip(1) {
        of[0] = Presence::OnAndOff(Nanos::from_micros(100));
    }
    let outcome = shared(&scene);
    assert!(least(&outcome, 0) as f64 >= allowed(1.0) * 0.98, "{}", least(&outcome, 0));
    assert!(most(&outcome, 0) as f64 <= allowed(1.0) * 1.01, "{}", most(&outcome, 0));
}

/// The rate changes while leases are out: from then on every 100 ms has the bytes of the rates in force.
#[test]
fn a_rate_that_changes_while_leases_are_out() {
    for workers in [2, 8, 64] {
        let mut scene = Scene::backlogged(limited(4, &[1.5]), workers, gigabits(20.0));
        let rates = [(50, 0.5), (120, 1.8), (121, 1.0), (200, 1.5)];
        scene.changes = rates
            .into_iter()
            .map(|(at, rate)| RateChange {
                at: Instant::from_millis(at),
                limit: LimitId(0),
                rate: gigabits(rate),
            })
            .collect();
        let outcome = shared(&scene);
        let rate_in = |bucket: usize| {
            rates.iter().rev().find(|(at, _)| bucket as u64 >= *at).map_or(1.5, |(_, rate)| *rate)
        };
        for (first, lanes) in outcome.windows(SPAN, 0).enumerate() {
            let allowed: f64 = (first..first + SPAN).map(|at| allowed(rate_in(at)) / SPAN as f64).sum();
            let sent = lanes[0] as f64;
            assert!(
                sent <= allowed * 1.01 + 1518.0,
                "{workers} workers, from {first} ms: {sent} of {allowed}"
            );
            // The first worker's first exchange begins at its first packet.
            assert!(sent >= allowed * 0.99, "{workers} workers, from {first} ms: {sent} of {allowed}");
        }
    }
}

/// A packet takes longer than a slot at a low rate, and a limit may then be exceeded by some packets, whatever the number of workers.
#[test]
fn a_slow_limit_is_exceeded_by_a_few_packets_only() {
    for workers in WORKERS {
        let scene = Scene::backlogged(limited(3, &[0.01]), workers, gigabits(20.0));
        let most = most(&shared(&scene), 0) as f64;
        assert!(most <= allowed(0.01) + excess(0.01), "{workers} workers: {most}");
        assert!(most <= allowed(0.01) + 8.0 * 1518.0, "{workers} workers: {most}");
    }
}
