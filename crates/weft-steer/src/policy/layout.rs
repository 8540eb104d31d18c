//! Which queues which classes should have.

use super::{ClassId, Cost, Tally};
use std::collections::BTreeMap;
use weft_units::RxQueueId;

/// Groups of classes, each with queues among which its load should be balanced. Groups may share queues: each is balanced for itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// The queues of each group, ascending; never empty.
    pub groups: Vec<Vec<RxQueueId>>,
    /// Each class's group, by class; those beyond the end have that of class 0, flows without a class.
    pub group_of: Vec<u16>,
    /// The queue of each processor: flows whose application runs there should be on it.
    pub preferred_queues: BTreeMap<u32, RxQueueId>,
}

impl Layout {
    /// One group on all queues.
    pub fn single(queues: &[RxQueueId]) -> Self {
        Self { groups: vec![queues.to_vec()], group_of: vec![0], preferred_queues: BTreeMap::new() }
    }

    /// A class's group.
    pub fn group(&self, class: ClassId) -> usize {
        let group = self.group_of.get(usize::from(class.0)).or(self.group_of.first());
        group.map_or(0, |group| usize::from(*group))
    }

    /// Whether flows of a group may be on a queue.
    pub fn allows(&self, group: usize, queue: RxQueueId) -> bool {
        self.groups.get(group).is_some_and(|queues| queues.binary_search(&queue).is_ok())
    }

    /// Flows on queues that are not their group's are violations; the value is the sum of the groups' variances, as in the slides'
    /// cost function for isolation: each class has a cost of its own, and `c = c_BE + c_HP`.
    pub fn cost(&self, tally: &Tally) -> Cost {
        Cost { violations: self.violations(tally), value: self.imbalance(tally) }
    }

    /// Flows on queues that are not their group's. A flow that is spread is one when a queue that gets some of it is not.
    pub fn violations(&self, tally: &Tally) -> f64 {
        let mut flows = 0_u64;
        for class in tally.class_ids().filter(|class| tally.flows_of(*class) > 0) {
            let group = self.group(class);
            let foreign = |queue: &RxQueueId| !self.allows(group, *queue);
            flows +=
                tally.all_queues().filter(foreign).map(|q| u64::from(tally.flows(class, q))).sum::<u64>();
            let spread = tally.spread_of(class);
            if spread > 0 && tally.all_queues().filter(foreign).any(|q| tally.share(q) > 0.0) {
                flows += u64::from(spread);
            }
        }
        flows as f64
    }

    /// Sum over the groups of the variance of their load over their queues.
    pub fn imbalance(&self, tally: &Tally) -> f64 {
        let mut sum = 0.0;
        for (group, queues) in self.groups.iter().enumerate() {
            let classes: Vec<ClassId> = tally
                .class_ids()
                .filter(|class| self.group(*class) == group && tally.flows_of(*class) > 0)
                .collect();
            sum += variance(queues.iter().map(|queue| classes.iter().map(|c| tally.load(*c, *queue)).sum()));
        }
        sum
    }
}

/// Population variance; 0 for nothing.
pub(crate) fn variance(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count();
    if count == 0 {
        return 0.0;
    }
    let mean = values.clone().sum::<f64>() / count as f64;
    values.map(|value| (value - mean) * (value - mean)).sum::<f64>() / count as f64
}
