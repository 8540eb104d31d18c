//! Repair of misplaced flows: those with rules are moved, others get new rules.

use super::{Assignment, RuleNeed, Slot};
use crate::search::parts::moves::{Budget, Persistence};
use weft_units::RxQueueId;

/// The maximum number of queues per group that are searched for a rule to free.
const QUEUES_MAX: usize = 4_096;
/// Number of flows examined per queue, the lightest first.
const LIGHTEST_MAX: usize = 4;
/// Number of failed flows after which an event stops assigning rules.
const FAILURES_MAX: usize = 64;

impl Assignment {
    /// Whether a flow may be moved: a new one always, an older one within the budget.
    fn may_move(&self, slot: Slot, budget: &Budget) -> bool {
        self.moves.allow(self.flow(slot).added_in, budget)
    }

    /// Places an added flow: without a rule if its hash queue is as good as any, otherwise by a rule.
    pub(in crate::search) fn place(&mut self, slot: Slot, budget: &Budget) {
        self.settle(slot);
        let flow = self.flow(slot);
        // Rules with wildcards capture other flows, so they wait until all added flows are known.
        if !flow.exact {
            return;
        }
        if self.is_well_placed(slot) {
            let group = self.loads.group(flow.group);
            let others = self.queue(slot).and_then(|queue| group.load(queue)).map(|all| all - flow.item.load);
            if flow.preferred_queue.is_some() || others <= Some(group.least().1) {
                return;
            }
        }
        self.pin_well(slot, budget);
    }

    pub(super) fn pin_within(&mut self, slot: Slot, queue: RxQueueId, budget: &Budget) -> bool {
        self.may_pin(slot, queue, budget) && self.pin(slot, queue)
    }

    /// Moves a flow to its preferred queue, or if no rule can name it, to another queue of its group.
    pub(super) fn pin_well(&mut self, slot: Slot, budget: &Budget) -> bool {
        let flow = self.flow(slot);
        let wanted = self.loads.wanted(flow.group, flow.preferred_queue);
        if self.pin_within(slot, wanted, budget) {
            return true;
        }
        let flow = self.flow(slot);
        if flow.preferred_queue.is_some() || !flow.pinnable {
            return false;
        }
        let tables = self.capacity.order();
        if tables.iter().all(|table| self.capacity.can_name(*table, wanted)) {
            return false;
        }
        let group = self.loads.group(flow.group);
        let named = |queue: &&RxQueueId| tables.iter().any(|table| self.capacity.can_name(*table, **queue));
        let best = group.queues().iter().filter(named).min_by_key(|queue| group.load(**queue)).copied();
        best.is_some_and(|queue| self.pin_within(slot, queue, budget))
    }

    /// Repairs misplaced flows, the most urgent first.
    pub(in crate::search) fn fix_misplaced(&mut self, budget: &Budget) {
        let limit = match budget.persistence {
            Persistence::EveryFlow => usize::MAX,
            Persistence::FewFailures => FAILURES_MAX,
        };
        self.move_misplaced(budget, limit);
        self.give_misplaced_rules(budget, limit);
    }

    /// Moves misplaced flows that have their own rules, until `limit` flows failed.
    fn move_misplaced(&mut self, budget: &Budget, limit: usize) {
        let (mut failures, mut last) = (0, None);
        while let Some(next) = self.candidates.most_urgent(RuleNeed::OwnRule, last) {
            last = Some(next);
            if !self.may_move(next.1, budget) {
                failures += 1;
            } else if !self.pin_well(next.1, budget) {
                self.unpin(next.1);
                failures += usize::from(!self.pin_well(next.1, budget));
            }
            if failures >= limit {
                break;
            }
        }
    }

    /// Gives rules to misplaced flows without one, until `limit` flows failed or no rule is left.
    fn give_misplaced_rules(&mut self, budget: &Budget, limit: usize) {
        let (mut failures, mut last) = (0, None);
        while let Some(next) = self.candidates.most_urgent(RuleNeed::NewRule, last) {
            last = Some(next);
            if failures >= limit || !self.has_room() && !self.make_room(budget) {
                break;
            }
            if !self.pin_well(next.1, budget) {
                failures += 1;
            }
        }
    }

    /// Whether a rule that sends a flow to a queue would move no more other flows than the budget allows.
    fn may_pin(&mut self, slot: Slot, queue: RxQueueId, budget: &Budget) -> bool {
        if !self.may_move(slot, budget) {
            return false;
        }
        let flow = self.flow(slot);
        let (headers, exact) = (flow.headers, flow.exact);
        if budget.moves_any() || self.has_own_rule(slot) || exact && self.flows.count_of(&headers) == 1 {
            return true;
        }
        let meeting = self.flows.meeting(&headers);
        let taken = meeting.into_iter().filter(|other| {
            let flow = self.flow(*other);
            self.entry_of(*other).is_some()
                && self.moves.was_there(flow.added_in)
                && headers.covers(&flow.headers)
                && self.queue(*other) != Some(queue)
        });
        self.moves.allow_more(taken.count() as u32, budget)
    }

    /// Frees the rule of a flow that is well placed without it. Examines a bounded number of flows, the lightest of each queue.
    fn make_room(&mut self, budget: &Budget) -> bool {
        let mut best: Option<(u64, Slot)> = None;
        for group in 0..self.loads.group_count() {
            for queue in self.loads.group(group).queues().iter().take(QUEUES_MAX) {
                let lightest = self.candidates.lightest(group, *queue, RuleNeed::OwnRule).take(LIGHTEST_MAX);
                let lightest =
                    lightest.into_iter().find(|(_, slot)| self.needs_no_rule(*slot, group, budget));
                best = best.into_iter().chain(lightest).min();
            }
        }
        if let Some((_, slot)) = best {
            self.unpin(slot);
        }
        best.is_some() && self.has_room()
    }

    /// Whether a flow would remain on a queue of its group without its rule.
    fn needs_no_rule(&self, slot: Slot, group: usize, budget: &Budget) -> bool {
        let flow = self.flow(slot);
        self.entry(flow.base).queue().is_some_and(|queue| self.loads.group(group).has(queue))
            && self.may_move(slot, budget)
            && flow.exact
            && self.entries.wide_covering(&flow.headers).is_empty()
    }

    /// Whether no assignment is better, as far as layouts express it.
    pub(in crate::search) fn is_perfect(&self) -> bool {
        self.candidates.misplaced_count() == 0
            && (!self.loads.layout().preferred_queues.is_empty() || self.loads.are_equal())
    }
}
