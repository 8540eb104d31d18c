//! Layouts: the queues that each class should have.

use super::{ClassId, Cost, Tally};
use std::collections::BTreeMap;
use weft_units::RxQueueId;

/// Groups of classes, and the queues over which each group's load should be balanced. Groups may share queues; each is balanced
/// separately.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Layout {
    /// The queues of each group, ascending; never empty.
    pub groups: Vec<Vec<RxQueueId>>,
    /// Each class's group, by class. Classes beyond the end use the group of class 0, which is that of flows without a class.
    pub group_of: Vec<u16>,
    /// The queue of each processor, on which the flows of its applications should be.
    pub preferred_queues: BTreeMap<u32, RxQueueId>,
}

impl Layout {
    /// Returns the layout of one group on all queues.
    pub fn single(queues: &[RxQueueId]) -> Self {
        Self { groups: vec![queues.to_vec()], group_of: vec![0], preferred_queues: BTreeMap::new() }
    }

    /// Returns a class's group.
    pub fn group(&self, class: ClassId) -> usize {
        let group = self.group_of.get(usize::from(class.0)).or(self.group_of.first());
        group.map_or(0, |group| usize::from(*group))
    }

    /// Whether flows of a group may be on a queue.
    pub fn allows(&self, group: usize, queue: RxQueueId) -> bool {
        self.groups.get(group).is_some_and(|queues| queues.binary_search(&queue).is_ok())
    }

    /// Returns the layout's cost. Flows on queues outside of their group are violations. The value is the sum of the groups'
    /// variances, as in the slides' cost function for isolation: each class has its own cost, and `c = c_BE + c_HP`.
    pub fn cost(&self, tally: &Tally) -> Cost {
        Cost { violations: self.violations(tally), value: self.imbalance(tally) }
    }

    /// The number of flows on queues outside of their group. A spread flow counts if any queue that receives a part of it is
    /// outside.
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

    /// The sum over the groups of the variance of their load over their queues.
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

/// Returns the population variance; 0 for an empty set.
pub(crate) fn variance(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let count = values.clone().count();
    if count == 0 {
        return 0.0;
    }
    let mean = values.clone().sum::<f64>() / count as f64;
    values.map(|value| (value - mean) * (value - mean)).sum::<f64>() / count as f64
}
