//! Performance isolation: the second policy of Dragonet's slides.

use super::{Cost, Layout, Policy, QueuesError, Tally};
use weft_units::RxQueueId;

/// Reserves the first `queues` queues for a class; all other flows share the remaining queues (TRIOS'15, "Performance isolation
/// cost function").
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Isolate {
    /// The class's name.
    pub class: String,
    /// Number of reserved queues.
    pub queues: u32,
}

impl Policy for Isolate {
    fn name(&self) -> String {
        format!("isolate {} on {} queues", self.class, self.queues)
    }

    fn classes(&self) -> Vec<&str> {
        vec![&self.class]
    }

    fn cost(&self, tally: &Tally) -> Cost {
        first_queues(tally, &self.class, self.queues as usize).cost(tally)
    }

    fn check(&self, queues: &[RxQueueId]) -> Result<(), QueuesError> {
        let (wanted, given) = (self.queues as usize, queues.len());
        if wanted == 0 || wanted >= given {
            let (class, most) = (self.class.clone(), given.saturating_sub(1));
            return Err(QueuesError::NotIsolable { class, most, given, wanted });
        }
        Ok(())
    }

    fn layout(&self, tally: &Tally) -> Option<Layout> {
        Some(first_queues(tally, &self.class, self.queues as usize))
    }
}

/// Returns the layout with the first `count` queues for a class and the others for other flows.
pub(super) fn first_queues(tally: &Tally, class: &str, count: usize) -> Layout {
    let queues = tally.queues();
    let (own, rest) = queues.split_at(count.min(queues.len()));
    if own.is_empty() || rest.is_empty() {
        return Layout::single(queues);
    }
    let group_of = tally.classes().iter().map(|name| u16::from(name == class)).collect();
    Layout { groups: vec![rest.to_vec(), own.to_vec()], group_of, ..Layout::default() }
}
