//! Weight updates in batches: never too often, none lost, with correct ages.

use proptest::prelude::*;
use weft_sched::WeightUpdates;
use weft_sched::queues::{Staleness, Update};
use weft_units::{Instant, Nanos, TxQueueId};

/// The source of changes: weights, and the time of the first change that was not taken.
#[derive(Debug)]
struct Page {
    weights: Vec<u64>,
    changed: Vec<Option<Instant>>,
}

impl Page {
    fn new(queues: usize) -> Self {
        Self { weights: vec![0; queues], changed: vec![None; queues] }
    }

    fn set(&mut self, queue: usize, weight: u64, now: Instant) {
        if core::mem::replace(&mut self.weights[queue], weight) != weight {
            self.changed[queue].get_or_insert(now);
        }
    }

    fn read(&self, queue: TxQueueId) -> (u64, Option<Instant>) {
        (self.weights[queue.index()], self.changed[queue.index()])
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn batches_keep_their_distance_and_lose_nothing(
        interval in 0..500_u64,
        steps in prop::collection::vec((0..100_u64, 0..4_usize, 0..5_u64, any::<bool>()), 1..300),
    ) {
        let mut updates = WeightUpdates::new(4, Nanos(interval));
        let (mut page, mut device) = (Page::new(4), vec![0; 4]);
        let (mut now, mut last) = (Instant::from_nanos(1), None::<Instant>);
        let mut expected = Staleness::default();
        let mut apply = |now: Instant, page: &mut Page, device: &mut Vec<u64>, updates: &mut WeightUpdates| {
            for update in updates.take(now, |queue| page.read(queue)).to_vec() {
                let queue = update.queue.index();
                prop_assert!(last.is_none_or(|last| last == now || now >= last + Nanos(interval)));
                last = Some(now);
                if let (true, Some(at)) = (device[queue] != update.weight, page.changed[queue]) {
                    let age = now.saturating_since(at);
                    expected.count += 1;
                    expected.sum += age;
                    expected.max = expected.max.max(age);
                }
                device[queue] = update.weight;
                page.changed[queue] = None;
            }
            Ok(())
        };
        for (wait, queue, weight, look) in steps {
            now += Nanos(wait);
            page.set(queue, weight, now);
            if look {
                apply(now, &mut page, &mut device, &mut updates)?;
            }
        }
        now += Nanos(interval);
        apply(now, &mut page, &mut device, &mut updates)?;
        prop_assert_eq!(&device, &page.weights, "the final values arrive");
        prop_assert_eq!(updates.applied(), &device[..]);
        prop_assert!(page.changed.iter().all(Option::is_none), "and all changes are acknowledged");
        prop_assert_eq!(updates.staleness(), expected);
    }
}

#[test]
fn ages_are_counted_when_a_change_arrives() {
    let mut updates = WeightUpdates::new(2, Nanos(100));
    let mut page = Page::new(2);
    page.set(1, 3, Instant::from_nanos(10));
    let batch = updates.take(Instant::from_nanos(25), |q| page.read(q));
    assert_eq!(batch, [Update { queue: TxQueueId(1), weight: 3, changed_at: Some(Instant::from_nanos(10)) }]);
    page.changed[1] = None;
    page.set(0, 1, Instant::from_nanos(30));
    page.set(0, 2, Instant::from_nanos(90));
    assert_eq!(updates.take(Instant::from_nanos(124), |q| page.read(q)), [], "too early");
    assert_eq!(updates.due(), Some(Instant::from_nanos(125)));
    assert_eq!(updates.take(Instant::from_nanos(125), |q| page.read(q)).len(), 1);
    let staleness = updates.staleness();
    assert_eq!((staleness.count, staleness.mean(), staleness.max), (2, Nanos(55), Nanos(95)));
    // A reverted change is acknowledged, and was never stale.
    page.changed[0] = Some(Instant::from_nanos(130));
    assert_eq!(updates.take(Instant::from_nanos(300), |q| page.read(q)).len(), 1);
    assert_eq!(updates.staleness(), staleness);
    updates.reset();
    assert_eq!((updates.applied(), Staleness::default().mean()), (&[0, 0][..], Nanos::ZERO));
}
