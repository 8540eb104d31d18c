//! Candidates for a move: misplaced flows by urgency, and flows that balancing can take from a queue, by load.

use super::ids::Slot;
use std::collections::BTreeSet;
use weft_units::RxQueueId;

/// The rule that moving a flow requires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::search) enum RuleNeed {
    /// No new rule: the flow has its own.
    OwnRule,
    /// A new rule.
    NewRule,
}

/// The state of a flow with respect to moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::search) enum Standing {
    /// Well placed; it cannot or need not be moved.
    Fixed,
    /// Balancing can take it from this queue.
    Movable { group: usize, queue: RxQueueId, load: u64, need: RuleNeed },
    /// On the wrong queue.
    Misplaced { urgency: u64, need: RuleNeed },
}

/// A misplaced flow with its urgency.
pub(in crate::search) type Urgent = (u64, Slot);

/// Flows of a kind, divided by whether they have their own rules.
#[derive(Clone, Debug, Default)]
struct ByNeed {
    own_rule: BTreeSet<(u64, Slot)>,
    new_rule: BTreeSet<(u64, Slot)>,
}

impl ByNeed {
    const fn get(&self, need: RuleNeed) -> &BTreeSet<(u64, Slot)> {
        match need {
            RuleNeed::OwnRule => &self.own_rule,
            RuleNeed::NewRule => &self.new_rule,
        }
    }

    const fn get_mut(&mut self, need: RuleNeed) -> &mut BTreeSet<(u64, Slot)> {
        match need {
            RuleNeed::OwnRule => &mut self.own_rule,
            RuleNeed::NewRule => &mut self.new_rule,
        }
    }
}

/// The candidates for a move.
#[derive(Clone, Debug, Default)]
pub(in crate::search) struct Candidates {
    /// By slot.
    standings: Vec<Standing>,
    /// By group, then queue; ordered by load.
    movable: Vec<Vec<ByNeed>>,
    /// Ordered by urgency.
    misplaced: ByNeed,
}

impl Candidates {
    /// Creates an empty set.
    pub(in crate::search) fn new(groups: usize, width: usize) -> Self {
        Self { movable: vec![vec![ByNeed::default(); width]; groups], ..Self::default() }
    }

    /// Makes room for so many more flows.
    pub(in crate::search) fn reserve(&mut self, flows: usize) {
        self.standings.reserve(flows);
    }

    /// Enters a flow, which must have left before.
    pub(in crate::search) fn enter(&mut self, slot: Slot, standing: Standing) {
        if self.standings.len() <= slot.index() {
            self.standings.resize(slot.index() + 1, Standing::Fixed);
        }
        self.standings[slot.index()] = standing;
        match standing {
            Standing::Fixed => {}
            Standing::Movable { group, queue, load, need } => {
                self.movable[group][queue.index()].get_mut(need).insert((load, slot));
            }
            Standing::Misplaced { urgency, need } => {
                self.misplaced.get_mut(need).insert((urgency, slot));
            }
        }
    }

    /// Removes a flow; no effect if it is not present.
    pub(in crate::search) fn leave(&mut self, slot: Slot) {
        let Some(standing) = self.standings.get_mut(slot.index()) else { return };
        match core::mem::replace(standing, Standing::Fixed) {
            Standing::Fixed => {}
            Standing::Movable { group, queue, load, need } => {
                self.movable[group][queue.index()].get_mut(need).remove(&(load, slot));
            }
            Standing::Misplaced { urgency, need } => {
                self.misplaced.get_mut(need).remove(&(urgency, slot));
            }
        }
    }

    /// The number of misplaced flows.
    pub(in crate::search) fn misplaced_count(&self) -> usize {
        self.misplaced.own_rule.len() + self.misplaced.new_rule.len()
    }

    /// The number of misplaced flows that need a rule.
    pub(in crate::search) fn without_rule_count(&self) -> usize {
        self.misplaced.new_rule.len()
    }

    /// The misplaced flows with this need, the least urgent first.
    pub(in crate::search) fn misplaced(&self, need: RuleNeed) -> impl DoubleEndedIterator<Item = Slot> + '_ {
        self.misplaced.get(need).iter().map(|(_, slot)| *slot)
    }

    /// Returns the most urgent misplaced flow with this need, or the next one after `after`. Flows may be moved between such
    /// calls.
    pub(in crate::search) fn most_urgent(&self, need: RuleNeed, after: Option<Urgent>) -> Option<Urgent> {
        let below = after.unwrap_or((u64::MAX, Slot::MAX));
        self.misplaced.get(need).range(..below).next_back().copied()
    }

    /// A group's movable flows on a queue with this need and their loads, the lightest first.
    pub(in crate::search) fn lightest(
        &self,
        group: usize,
        queue: RxQueueId,
        need: RuleNeed,
    ) -> impl Iterator<Item = (u64, Slot)> + '_ {
        self.movable[group][queue.index()].get(need).iter().copied()
    }

    /// Returns the best of a group's movable flows on a queue with this need, and the reduction of the variance. The target's
    /// load is less by `gap`; a flow of half the gap is ideal.
    pub(in crate::search) fn best_to_move(
        &self,
        group: usize,
        queue: RxQueueId,
        need: RuleNeed,
        gap: u64,
    ) -> Option<(u128, Slot)> {
        let flows = self.movable[group][queue.index()].get(need);
        let half = gap / 2;
        let below = flows.range(..=(half, Slot::MAX)).next_back();
        let above = flows.range((half + 1, Slot::MIN)..(gap.max(half + 1), Slot::MIN)).next();
        let gain = |(load, slot): &(u64, Slot)| (u128::from(*load) * u128::from(gap - *load), *slot);
        below.into_iter().chain(above).map(gain).filter(|(gain, _)| *gain > 0).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const Q: RxQueueId = RxQueueId(1);

    fn slot(index: usize) -> Slot {
        Slot::from_index(index)
    }

    fn movable(load: u64, need: RuleNeed) -> Standing {
        Standing::Movable { group: 0, queue: Q, load, need }
    }

    #[test]
    fn misplaced_flows_come_by_urgency_while_they_leave() {
        let mut candidates = Candidates::new(1, 2);
        let need = RuleNeed::NewRule;
        for (index, urgency) in [5, 9, 7].into_iter().enumerate() {
            candidates.enter(slot(index), Standing::Misplaced { urgency, need });
        }
        candidates.enter(slot(3), Standing::Misplaced { urgency: 8, need: RuleNeed::OwnRule });
        assert_eq!((candidates.misplaced_count(), candidates.without_rule_count()), (4, 3));
        assert_eq!(candidates.misplaced(need).collect::<Vec<_>>(), [slot(0), slot(2), slot(1)]);
        let first = candidates.most_urgent(need, None);
        assert_eq!(first, Some((9, slot(1))));
        candidates.leave(slot(1));
        candidates.leave(slot(1));
        let next = candidates.most_urgent(need, first);
        assert_eq!(next, Some((7, slot(2))));
        assert_eq!(candidates.most_urgent(need, candidates.most_urgent(need, next)), None);
    }

    #[test]
    fn a_flow_stands_in_one_place() {
        let mut candidates = Candidates::new(1, 2);
        candidates.enter(slot(4), movable(3, RuleNeed::NewRule));
        candidates.leave(slot(4));
        candidates.enter(slot(4), movable(3, RuleNeed::OwnRule));
        assert_eq!(candidates.lightest(0, Q, RuleNeed::NewRule).next(), None);
        assert_eq!(candidates.lightest(0, Q, RuleNeed::OwnRule).next(), Some((3, slot(4))));
        candidates.leave(slot(4));
        candidates.enter(slot(4), Standing::Fixed);
        assert_eq!(candidates.lightest(0, Q, RuleNeed::OwnRule).next(), None);
        candidates.leave(slot(99));
    }

    proptest! {
        #[test]
        fn the_best_to_move_is_that_of_a_scan(loads in proptest::collection::vec(0u64..30, 0..12), gap in 2u64..40) {
            let mut candidates = Candidates::new(1, 2);
            for (index, load) in loads.iter().enumerate() {
                candidates.enter(slot(index), movable(*load, RuleNeed::NewRule));
            }
            let gains = loads.iter().filter(|load| **load < gap).map(|load| u128::from(load * (gap - load)));
            let best = candidates.best_to_move(0, Q, RuleNeed::NewRule, gap);
            prop_assert_eq!(best.map(|(gain, _)| gain), gains.filter(|gain| *gain > 0).max());
        }
    }
}
