//! Titan's queue weights: the pending updates of the NIC, and their timing (ATC 2017, section 3.2).

use crate::assignment::Occupancy;
use crate::event::{Agenda, Event};
use crate::ids::{HostId, Table};
use weft_units::{Nanos, TxQueueId, Weight};

/// Timing of weight updates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightTiming {
    /// Time from a change until the NIC uses it.
    pub(crate) delay: Nanos,
    /// The least time between two updates.
    pub(crate) interval: Nanos,
}

/// The queue weights that changed since the last update of the NIC.
#[derive(Debug)]
pub(super) struct Weights {
    timing: WeightTiming,
    /// By queue: whether it is in the list.
    stale: Table<TxQueueId, bool>,
    list: Vec<TxQueueId>,
    /// Whether an [`Event::Weights`] is pending.
    due: bool,
    written: Nanos,
}

impl Weights {
    pub(super) fn new(queues: u32, timing: WeightTiming) -> Self {
        let stale = Table::of(false, queues as usize);
        Self { timing, stale, list: Vec::new(), due: false, written: Nanos::ZERO }
    }

    /// Records a changed weight of a queue.
    pub(super) fn changes(&mut self, queue: TxQueueId, host: HostId, now: Nanos, agenda: &mut Agenda) {
        if std::mem::replace(&mut self.stale[queue], true) {
            return;
        }
        self.list.push(queue);
        if !self.due {
            self.due = true;
            let at = (now + self.timing.delay).max(self.written + self.timing.interval);
            agenda.push(at, Event::Weights { host });
        }
    }

    /// Starts an update.
    pub(super) const fn begin(&mut self, now: Nanos) {
        self.due = false;
        self.written = now;
    }

    /// Returns the next weight to be written. A queue without flows keeps its last weight, as in Titan's kernel.
    pub(super) fn next(&mut self, occupancy: &Table<TxQueueId, Occupancy>) -> Option<(TxQueueId, Weight)> {
        while let Some(queue) = self.list.pop() {
            self.stale[queue] = false;
            let weight = u32::try_from(occupancy[queue].weight).ok().and_then(Weight::new);
            if let Some(weight) = weight {
                return Some((queue, weight));
            }
        }
        None
    }
}
