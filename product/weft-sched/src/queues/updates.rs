//! Weight updates in batches, at an interval that the device can sustain.
//!
//! A NIC or its driver cannot take each change of a queue's weight. Titan bounds the update rate and reports the
//! age of the weights in the NIC (ATC 2017, section 3.2). The same rule serves the software NIC, which reads a page,
//! and a driver, which takes system calls.

use weft_units::{Instant, Nanos, TxQueueId};

/// A weight to be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    /// The queue.
    pub queue: TxQueueId,
    /// The new weight.
    pub weight: u64,
    /// The time of the first change that was not applied, if known. The change may have been reverted since, so the
    /// device may have this weight already.
    pub changed_at: Option<Instant>,
}

/// The age of weight changes at the time they were applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Staleness {
    /// The number of applied changes whose time was known.
    pub count: u64,
    /// The sum of the ages.
    pub sum: Nanos,
    /// The greatest age.
    pub max: Nanos,
}

impl Staleness {
    /// The mean age, rounded down; zero when no change was counted.
    pub fn mean(&self) -> Nanos {
        Nanos(self.sum.get().checked_div(self.count).unwrap_or(0))
    }

    fn add(&mut self, age: Nanos) {
        self.count += 1;
        self.sum += age;
        self.max = self.max.max(age);
    }
}

/// The weights on their way from the page to the device.
#[derive(Debug)]
pub struct WeightUpdates {
    interval: Nanos,
    /// The time of the last batch that was not empty.
    last: Option<Instant>,
    /// The weights in the device, by queue.
    applied: Vec<u64>,
    batch: Vec<Update>,
    staleness: Staleness,
}

impl WeightUpdates {
    /// Starts with a device of `queues` queues, all of weight 0, and batches at least `interval` apart.
    pub fn new(queues: usize, interval: Nanos) -> Self {
        let (applied, batch) = (vec![0; queues], Vec::with_capacity(queues));
        Self { interval, last: None, applied, batch, staleness: Staleness::default() }
    }

    /// Changes the interval, measured from the last batch.
    pub fn set_interval(&mut self, interval: Nanos) {
        self.interval = interval;
    }

    /// The weights in the device, by queue.
    pub fn applied(&self) -> &[u64] {
        &self.applied
    }

    /// The ages of the changes applied so far.
    pub fn staleness(&self) -> Staleness {
        self.staleness
    }

    /// Records that the device has lost its weights: all are 0 again. The interval continues.
    pub fn reset(&mut self) {
        self.applied.fill(0);
    }

    /// The earliest time of the next batch; `None` when a batch may be taken at once.
    pub fn due(&self) -> Option<Instant> {
        self.last.map(|last| last + self.interval)
    }

    /// Takes the changes at `now`, or none before the interval since the last batch has passed. `read` returns a
    /// queue's weight and the time of its first change that was not taken yet. A call that finds no change does not
    /// start the interval. The caller applies the batch at once.
    pub fn take(
        &mut self,
        now: Instant,
        mut read: impl FnMut(TxQueueId) -> (u64, Option<Instant>),
    ) -> &[Update] {
        self.batch.clear();
        if self.due().is_some_and(|due| now < due) {
            return &self.batch;
        }
        for (index, applied) in self.applied.iter_mut().enumerate() {
            let queue = TxQueueId::from_index(index);
            let (weight, changed_at) = read(queue);
            let differs = core::mem::replace(applied, weight) != weight;
            if let (true, Some(changed_at)) = (differs, changed_at) {
                self.staleness.add(now.saturating_since(changed_at));
            }
            if differs || changed_at.is_some() {
                self.batch.push(Update { queue, weight, changed_at });
            }
        }
        if !self.batch.is_empty() {
            self.last = Some(now);
        }
        &self.batch
    }
}
