//! Buckets and marks against exact values.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

#[test]
fn every_wait_is_in_the_bucket_that_ends_above_it() {
    let mut before = Nanos::ZERO;
    for bucket in 0..BUCKETS - 1 {
        let end = end_of(bucket);
        assert!(end > before, "{bucket}");
        assert_eq!((bucket_of(before), bucket_of(Nanos(end.get() - 1))), (bucket, bucket));
        assert!(bucket < SUB || end.get() - before.get() <= before.get() / 8, "an eighth: {before} to {end}");
        before = end;
    }
    assert_eq!((end_of(SUB - 1), before), (Nanos(1024), Nanos(1 << 34)));
    assert_eq!((bucket_of(before), bucket_of(Nanos::MAX)), (BUCKETS - 1, BUCKETS - 1));
}

#[test]
fn quantiles_and_octaves_are_those_of_the_packets() {
    let histogram = SojournHistogram::default();
    assert_eq!(histogram.get().quantile(0.5), None);
    for micros in 1..=1000 {
        histogram.record(Nanos::from_micros(micros));
    }
    histogram.record(Nanos::from_secs(60));
    let waits = histogram.get();
    let exact = 60_000_000_000 + 1000 * 1001 / 2 * 1000;
    assert_eq!((waits.count(), waits.sum), (1001, Nanos(exact)));
    for (part, micros) in [(0.5, 501.0), (0.9, 901.0), (0.99, 991.0)] {
        let found = waits.quantile(part).expect("packets").get() as f64 / 1e3;
        assert!(found >= micros && found <= micros * 1.125, "{part}: {found}");
    }
    assert_eq!(waits.quantile(1.0), Some(Nanos(1 << 34)), "more than the last bound");
    let (octaves, more) = waits.octaves();
    assert_eq!((octaves.len(), more), (25, 1));
    assert_eq!(octaves.iter().map(|(_, packets)| packets).sum::<u64>(), 1000);
    assert_eq!(octaves[0], (Nanos(1024), 1));
    assert_eq!(octaves[1], (Nanos(2048), 1), "2 us, since each bound is above its packets");
    assert_eq!(waits.minus(&waits).count(), 0);
    assert_eq!(waits.minus(&Sojourns::default()), waits);
}

#[test]
fn a_packet_of_an_idle_ring_is_measured_exactly() {
    let mut arrivals = Arrivals::default();
    for number in 1..1000 {
        let posted = Instant::from_millis(number * 10);
        arrivals.posted(number, posted);
        let left = posted + Nanos::from_micros(number);
        assert_eq!(arrivals.left(number, (posted, left)), Some(Nanos::from_micros(number)));
        assert_eq!(arrivals.left(number, (posted, left)), None, "a packet without a doorbell");
    }
    // Posted and read between two looks at the doorbells.
    let now = Instant::from_secs(20);
    assert_eq!(arrivals.left(1000, (now, now + Nanos(300))), Some(Nanos(300)));
}

proptest! {
    /// A queue with bursts and pauses: its waits are never understated, and overstated by little beside the longest.
    #[test]
    fn waits_are_those_of_the_queue(
        steps in prop::collection::vec((0..40u64, 0..30u64, 1..2000u64), 1..400),
    ) {
        let (mut arrivals, mut queue) = (Arrivals::default(), VecDeque::new());
        let (mut now, mut posted, mut done, mut recent) = (Instant::from_secs(1), 0, 0, VecDeque::new());
        for (arrive, leave, micros) in steps {
            now += Nanos::from_micros(micros);
            posted += arrive;
            (0..arrive).for_each(|_| queue.push_back(now));
            arrivals.posted(posted, now);
            for _ in 0..leave.min(queue.len() as u64) {
                done += 1;
                let exact = now.saturating_since(queue.pop_front().expect("a packet"));
                let found = arrivals.left(done, (now, now)).expect("posted");
                recent.push_back(exact);
                if recent.len() > 2000 {
                    recent.pop_front();
                }
                let longest = recent.iter().max().copied().unwrap_or_default().get();
                prop_assert!(found >= exact, "{} understated as {}", exact, found);
                prop_assert!(found.get() - exact.get() <= longest / 6 + 1, "{} as {}", exact, found);
            }
        }
    }
}
