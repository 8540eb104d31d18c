//! Locality: flows on the queue of the processor on which their application runs.

use super::{Cost, Layout, Policy, QueuesError, Tally};
use std::collections::BTreeMap;
use weft_units::RxQueueId;

/// The cost is the number of flows that are not on their processor's queue. Flows with an unknown processor, or one without a
/// queue, are balanced and cost nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Locality {
    /// Each processor's queue; if empty, processor `n` has queue `n`.
    pub queues: BTreeMap<u32, RxQueueId>,
}

impl Locality {
    fn preferred_queue(&self, tally: &Tally, core: u32) -> Option<RxQueueId> {
        let queue = if self.queues.is_empty() { RxQueueId(core) } else { *self.queues.get(&core)? };
        tally.queues().binary_search(&queue).is_ok().then_some(queue)
    }
}

impl Policy for Locality {
    fn name(&self) -> String {
        if self.queues.is_empty() {
            return "locality".to_owned();
        }
        let map: Vec<String> =
            self.queues.iter().map(|(core, queue)| format!("{core}: {}", queue.0)).collect();
        format!("locality {{ {} }}", map.join(", "))
    }

    fn cost(&self, tally: &Tally) -> Cost {
        let away = tally.by_core().filter(|(core, queue, _)| {
            self.preferred_queue(tally, *core).is_some_and(|preferred| *queue != Some(preferred))
        });
        Cost {
            violations: Layout::single(tally.queues()).violations(tally),
            value: away.map(|(_, _, flows)| u64::from(flows)).sum::<u64>() as f64,
        }
    }

    fn check(&self, queues: &[RxQueueId]) -> Result<(), QueuesError> {
        let missing = self.queues.iter().find(|(_, queue)| queues.binary_search(queue).is_err());
        missing.map_or(Ok(()), |(core, queue)| Err(QueuesError::NotUsable { queue: queue.0, core: *core }))
    }

    fn layout(&self, tally: &Tally) -> Option<Layout> {
        let preferred_queues = if self.queues.is_empty() {
            tally.queues().iter().map(|queue| (queue.0, *queue)).collect()
        } else {
            self.queues.clone()
        };
        Some(Layout { preferred_queues, ..Layout::single(tally.queues()) })
    }
}
