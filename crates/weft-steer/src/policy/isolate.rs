//! The slides' second policy: one class has some queues, the others have the rest.

use super::{Cost, Layout, Policy, QueuesError, Tally};
use weft_units::RxQueueId;

/// A class has the first so many queues for itself, all other flows have the rest (TRIOS'15, "Performance isolation cost function").
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Isolate {
    /// The class's name.
    pub class: String,
    /// Queues that it has.
    pub queues: u32,
}

impl Policy for Isolate {
    fn name(&self) -> String {
        format!("isolate {} on {} queues", self.class, self.queues)
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

/// The first `count` queues for a class, the others for other flows.
pub(super) fn first_queues(tally: &Tally, class: &str, count: usize) -> Layout {
    let queues = tally.queues();
    let (own, rest) = queues.split_at(count.min(queues.len()));
    if own.is_empty() || rest.is_empty() {
        return Layout::single(queues);
    }
    let group_of = tally.classes().iter().map(|name| u16::from(name == class)).collect();
    Layout { groups: vec![rest.to_vec(), own.to_vec()], group_of, ..Layout::default() }
}
