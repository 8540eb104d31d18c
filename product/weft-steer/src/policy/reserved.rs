//! Fixed queues per class.

use super::{Cost, Layout, Policy, QueuesError, Tally};
use weft_units::RxQueueId;

/// The policy `static`: each class has its listed queues. Other flows have the unlisted queues, or all queues if none is
/// unlisted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reserved {
    /// Classes with their first and last queue, ends included.
    pub classes: Vec<(String, RxQueueId, RxQueueId)>,
}

impl Reserved {
    fn layout_on(&self, tally: &Tally) -> Layout {
        let within = |first: RxQueueId, last: RxQueueId| {
            let queues = tally.queues().iter().copied();
            queues.filter(|queue| (first..=last).contains(queue)).collect::<Vec<_>>()
        };
        let free =
            |queue: &RxQueueId| !self.classes.iter().any(|(_, first, last)| (first..=last).contains(&queue));
        let mut rest: Vec<RxQueueId> = tally.queues().iter().copied().filter(free).collect();
        if rest.is_empty() {
            rest = tally.queues().to_vec();
        }
        let mut groups = vec![rest];
        let mut group_of = vec![0; tally.classes().len()];
        for (name, first, last) in &self.classes {
            let queues = within(*first, *last);
            if let Some(class) = tally.class(name)
                && !queues.is_empty()
            {
                group_of[usize::from(class.0)] = groups.len() as u16;
                groups.push(queues);
            }
        }
        Layout { groups, group_of, ..Layout::default() }
    }
}

impl Policy for Reserved {
    fn name(&self) -> String {
        let classes: Vec<String> = self
            .classes
            .iter()
            .map(|(name, first, last)| {
                if first == last {
                    format!("{name}: {}", first.0)
                } else {
                    format!("{name}: {}..{}", first.0, last.0)
                }
            })
            .collect();
        format!("static {{ {} }}", classes.join(", "))
    }

    fn classes(&self) -> Vec<&str> {
        self.classes.iter().map(|(name, _, _)| name.as_str()).collect()
    }

    fn cost(&self, tally: &Tally) -> Cost {
        self.layout_on(tally).cost(tally)
    }

    fn check(&self, queues: &[RxQueueId]) -> Result<(), QueuesError> {
        for (name, first, last) in &self.classes {
            if !queues.iter().any(|queue| (first..=last).contains(&queue)) {
                let (low, high) = (queues.first().map_or(0, |q| q.0), queues.last().map_or(0, |q| q.0));
                let (class, first, last) = (name.clone(), first.0, last.0);
                return Err(QueuesError::NoneUsable { class, first, last, low, high });
            }
        }
        Ok(())
    }

    fn layout(&self, tally: &Tally) -> Option<Layout> {
        Some(self.layout_on(tally))
    }
}
