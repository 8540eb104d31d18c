//! Elastic priority, as in Dragonet: a class has as many queues as its flows need.

use super::isolate::first_queues;
use super::{Cost, Layout, Policy, QueuesError, Tally};
use weft_units::RxQueueId;

/// Reserves a queue for each `flows_per_queue` flows of a class, and always leaves one to other flows (Dragonet's `priorityCost`,
/// `Search.hs`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Priority {
    /// The class's name.
    pub class: String,
    /// Number of its flows that share a queue.
    pub flows_per_queue: u32,
}

impl Priority {
    fn own(&self, tally: &Tally) -> usize {
        let flows = tally.class(&self.class).map_or(0, |class| tally.flows_of(class));
        let wanted = flows.div_ceil(self.flows_per_queue.max(1)) as usize;
        wanted.min(tally.queues().len().saturating_sub(1))
    }
}

impl Policy for Priority {
    fn name(&self) -> String {
        format!("priority {} by {} flows", self.class, self.flows_per_queue)
    }

    fn classes(&self) -> Vec<&str> {
        vec![&self.class]
    }

    fn cost(&self, tally: &Tally) -> Cost {
        first_queues(tally, &self.class, self.own(tally)).cost(tally)
    }

    fn check(&self, queues: &[RxQueueId]) -> Result<(), QueuesError> {
        match (self.flows_per_queue, queues.len()) {
            (0, _) => Err(QueuesError::NoFlows),
            (_, 0 | 1) => Err(QueuesError::OneQueue { class: self.class.clone() }),
            _ => Ok(()),
        }
    }

    fn layout(&self, tally: &Tally) -> Option<Layout> {
        Some(first_queues(tally, &self.class, self.own(tally)))
    }

    fn layout_key(&self, tally: &Tally) -> u64 {
        self.own(tally) as u64
    }
}
