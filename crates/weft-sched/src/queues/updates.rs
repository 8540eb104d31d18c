//! Weights that reach a device in batches, no more often than it can take them.
//!
//! A NIC, or the driver before it, cannot be told of each change of a queue's weight: Titan bounds the updates and reports
//! how old what the NIC knows is (ATC 2017, section 3.2). The same rule serves the software NIC, which reads a page, and a
//! process that tells a driver by system calls.

use weft_units::{Instant, Nanos, TxQueueId};

/// One weight to be applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Update {
    /// The queue.
    pub queue: TxQueueId,
    /// Its weight now.
    pub weight: u64,
    /// The time of the first change that had not been applied, if it is known. The change may have been taken back
    /// meanwhile, so that the weight is the one that the device knows already.
    pub changed_at: Option<Instant>,
}

/// How old changes of weights were when they were applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Staleness {
    /// Changes that were applied and whose time was known.
    pub count: u64,
    /// The sum of their ages.
    pub sum: Nanos,
    /// The greatest age.
    pub max: Nanos,
}

impl Staleness {
    /// The mean age, rounded down; zero when nothing was applied.
    pub fn mean(&self) -> Nanos {
        Nanos(self.sum.get().checked_div(self.count).unwrap_or(0))
    }

    fn add(&mut self, age: Nanos) {
        self.count += 1;
        self.sum += age;
        self.max = self.max.max(age);
    }
}

/// Takes weights from where they change to where they are used.
#[derive(Debug)]
pub struct WeightUpdates {
    interval: Nanos,
    /// The time of the last batch that had something in it.
    last: Option<Instant>,
    /// What the device knows.
    applied: Vec<u64>,
    batch: Vec<Update>,
    staleness: Staleness,
}

impl WeightUpdates {
    /// For a device of `queues` queues, all known to have weight 0, and batches at least `interval` apart.
    pub fn new(queues: usize, interval: Nanos) -> Self {
        let (applied, batch) = (vec![0; queues], Vec::with_capacity(queues));
        Self { interval, last: None, applied, batch, staleness: Staleness::default() }
    }

    /// Changes the interval; it counts from the last batch.
    pub fn set_interval(&mut self, interval: Nanos) {
        self.interval = interval;
    }

    /// The weights that the device knows, by queue.
    pub fn applied(&self) -> &[u64] {
        &self.applied
    }

    /// How old the changes were that have been applied so far.
    pub fn staleness(&self) -> Staleness {
        self.staleness
    }

    /// The device knows of no weights any more: all are 0 again. The interval goes on.
    pub fn reset(&mut self) {
        self.applied.fill(0);
    }

    /// When the next batch may be taken; `None` when it may be at any time.
    pub fn due(&self) -> Option<Instant> {
        self.last.map(|last| last + self.interval)
    }

    /// Takes what has changed, at `now`, unless the interval since the last batch has not passed: then nothing. `read`
    /// gives a queue's weight and the time of the first change that was not taken yet. A look that finds nothing does
    /// not start the interval. The caller applies the batch at once.
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
