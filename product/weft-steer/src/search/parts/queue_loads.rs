//! The policy's layout, and the load of each group on each queue.

use super::group_loads::GroupLoads;
use crate::policy::{ClassId, Layout};
use weft_units::RxQueueId;

/// Loads by group and queue.
#[derive(Clone, Debug)]
pub(in crate::search) struct QueueLoads {
    layout: Layout,
    groups: Vec<GroupLoads>,
    /// The number of all of the NIC's queues.
    width: usize,
}

impl QueueLoads {
    /// Creates loads of 0. `width` is the number of all of the NIC's queues.
    pub(in crate::search) fn new(layout: Layout, width: usize) -> Self {
        let groups = layout.groups.iter().map(|queues| GroupLoads::new(queues, width)).collect();
        Self { layout, groups, width }
    }

    /// Sets another layout and resets all loads to 0.
    pub(in crate::search) fn set_layout(&mut self, layout: Layout) {
        *self = Self::new(layout, self.width);
    }

    /// Returns the layout.
    pub(in crate::search) const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The number of all of the NIC's queues.
    pub(in crate::search) const fn width(&self) -> usize {
        self.width
    }

    /// Returns the group of a class.
    pub(in crate::search) fn group_of(&self, class: ClassId) -> usize {
        self.layout.group(class)
    }

    /// Returns a processor's queue in the layout.
    pub(in crate::search) fn preferred_queue(&self, core: Option<u32>) -> Option<RxQueueId> {
        self.layout.preferred_queues.get(&core?).copied()
    }

    /// The number of groups.
    pub(in crate::search) const fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the loads of a group.
    pub(in crate::search) fn group(&self, group: usize) -> &GroupLoads {
        &self.groups[group]
    }

    /// Whether a queue suits a flow of a group: its preferred queue if it has one, otherwise any queue of the group.
    pub(in crate::search) fn suits(
        &self,
        group: usize,
        preferred: Option<RxQueueId>,
        queue: RxQueueId,
    ) -> bool {
        preferred.map_or_else(|| self.groups[group].has(queue), |preferred| preferred == queue)
    }

    /// Returns the best queue for a flow of a group: its preferred one, or the group's least loaded.
    pub(in crate::search) fn wanted(&self, group: usize, preferred: Option<RxQueueId>) -> RxQueueId {
        preferred.unwrap_or_else(|| self.groups[group].least().0)
    }

    /// Adds load of a group to a queue; no effect if the queue is outside of the group.
    pub(in crate::search) fn add(&mut self, group: usize, queue: RxQueueId, load: u64) {
        self.groups[group].add(queue, load);
    }

    /// Removes load that was added.
    pub(in crate::search) fn take(&mut self, group: usize, queue: RxQueueId, load: u64) {
        self.groups[group].take(queue, load);
    }

    /// Returns the index in `groups` of the group with the widest gap between its most and its least loaded queue, relative to
    /// its number of queues. `None` if all gaps are at most 1. Ties go to the first group.
    pub(in crate::search) fn widest_gap(&self, groups: &[usize]) -> Option<usize> {
        let gap = |group: &usize| {
            let loads = &self.groups[*group];
            let gap = loads.most().1 - loads.least().1;
            (gap > 1).then(|| (u128::from(gap), loads.queues().len() as u128))
        };
        let gaps = groups.iter().enumerate().filter_map(|(place, group)| Some((gap(group)?, place)));
        // Compares gap over queues by cross multiplication, without a division.
        let widest = gaps.max_by(|((a, of_a), x), ((b, of_b), y)| (a * of_b).cmp(&(b * of_a)).then(y.cmp(x)));
        widest.map(|(_, place)| place)
    }

    /// Whether the loads of all groups are as equal as possible.
    pub(in crate::search) fn are_equal(&self) -> bool {
        self.groups.iter().all(|group| group.most().1 - group.least().1 <= 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Queues 0 and 1 for class 0, queues 1 to 3 for class 1; processor 7 has queue 3.
    fn loads() -> QueueLoads {
        let queues = |first: u32, last: u32| (first..=last).map(RxQueueId).collect::<Vec<_>>();
        let layout = Layout {
            groups: vec![queues(0, 1), queues(1, 3)],
            group_of: vec![0, 1],
            preferred_queues: BTreeMap::from([(7, RxQueueId(3))]),
        };
        QueueLoads::new(layout, 5)
    }

    #[test]
    fn groups_that_share_a_queue_count_for_themselves() {
        let mut loads = loads();
        assert_eq!((loads.group_of(ClassId(1)), loads.group_of(ClassId(9))), (1, 0));
        loads.add(0, RxQueueId(1), 5);
        loads.add(1, RxQueueId(1), 3);
        loads.add(1, RxQueueId(0), 9);
        assert_eq!(loads.group(0).load(RxQueueId(1)), Some(5));
        assert_eq!(loads.group(1).most(), (RxQueueId(1), 3));
        loads.take(0, RxQueueId(1), 5);
        assert_eq!(loads.group(0).most().1, 0);
        loads.set_layout(loads.layout().clone());
        assert!(loads.are_equal());
    }

    #[test]
    fn a_preferred_queue_goes_before_the_group() {
        let mut loads = loads();
        let preferred = loads.preferred_queue(Some(7));
        assert_eq!((preferred, loads.preferred_queue(Some(1))), (Some(RxQueueId(3)), None));
        assert!(loads.suits(0, preferred, RxQueueId(3)) && !loads.suits(0, preferred, RxQueueId(0)));
        assert!(loads.suits(0, None, RxQueueId(1)) && !loads.suits(0, None, RxQueueId(3)));
        loads.add(1, RxQueueId(1), 1);
        assert_eq!((loads.wanted(1, None), loads.wanted(1, preferred)), (RxQueueId(2), RxQueueId(3)));
    }

    #[test]
    fn the_widest_gap_is_in_relation_to_the_queues() {
        let mut loads = loads();
        assert_eq!(loads.widest_gap(&[0, 1]), None);
        loads.add(0, RxQueueId(0), 4);
        loads.add(1, RxQueueId(2), 5);
        assert_eq!(loads.widest_gap(&[0, 1]), Some(0), "4 over 2 queues, 5 over 3");
        assert_eq!(loads.widest_gap(&[1, 0]), Some(1));
        assert!(!loads.are_equal());
        loads.take(0, RxQueueId(0), 4);
        assert_eq!(loads.widest_gap(&[0, 1]), Some(1));
    }
}
