//! Balancing: moves flows and steering entries from the most loaded queues to the least loaded ones.

use super::{Assignment, RuleNeed, Slot};
use crate::search::parts::ids::EntryId;
use crate::search::parts::moves::Budget;
use weft_units::RxQueueId;

/// The maximum number of shared steering entries examined when no single flow can be moved.
const ENTRIES_MAX: usize = 4_096;

impl Assignment {
    /// Balances the load of each group by moving single flows, then steering entries; every step reduces the variance. The group
    /// with the widest gap comes first, since rules may run out: where more queues share a group's load, a step reduces its
    /// variance by less.
    pub(in crate::search) fn balance(&mut self, budget: &Budget) {
        let mut steps = 0;
        let mut open: Vec<usize> = (0..self.loads.group_count()).collect();
        while steps < budget.steps && !self.moves.used_up(budget) {
            let Some(place) = self.loads.widest_gap(&open) else { break };
            if self.step(open[place], budget) {
                steps += 1;
            } else {
                open.swap_remove(place);
            }
        }
    }

    /// Takes one step: moves a flow from the most loaded queue to the least loaded one, or from other queues if none there can
    /// move.
    fn step(&mut self, group: usize, budget: &Budget) -> bool {
        let (from, most) = self.loads.group(group).most();
        let least = self.loads.group(group).least();
        if self.step_from(group, (from, most), least, budget) || self.move_one_entry(group, budget) {
            return true;
        }
        let loads = self.loads.group(group);
        let mut queues: Vec<(u64, RxQueueId)> = loads
            .queues()
            .iter()
            .filter_map(|queue| Some((loads.load(*queue)?, *queue)))
            .filter(|(load, queue)| *queue != from && *load > least.1 + 1)
            .collect();
        queues.sort_unstable_by(|a, b| b.cmp(a));
        queues.into_iter().any(|(load, queue)| self.step_from(group, (queue, load), least, budget))
    }

    /// Moves the flow of a queue that reduces the variance most, if any can be moved.
    fn step_from(
        &mut self,
        group: usize,
        (from, most): (RxQueueId, u64),
        (to, least): (RxQueueId, u64),
        budget: &Budget,
    ) -> bool {
        let best = |need: RuleNeed| self.candidates.best_to_move(group, from, need, most - least);
        let own = best(RuleNeed::OwnRule);
        let new = if self.has_room() { best(RuleNeed::NewRule) } else { None };
        let (first, second) = if new.map(|n| n.0) > own.map(|o| o.0) { (new, own) } else { (own, new) };
        let mut both = first.into_iter().chain(second);
        both.any(|(_, slot)| self.pin_within(slot, to, budget))
    }

    /// Moves an indirection table entry, or a rule with several flows, from the most loaded queue to the least loaded one.
    fn move_one_entry(&mut self, group: usize, budget: &Budget) -> bool {
        let (from, most) = self.loads.group(group).most();
        let (to, least) = self.loads.group(group).least();
        let gap = most - least;
        let reachable = self.nic.rss.as_ref().is_some_and(|rss| to.0 < rss.queues);
        let indirection = self.movable_entries().filter(|_| reachable);
        let mut best = None;
        for entry in indirection.chain(self.entries.wide_rules()).take(ENTRIES_MAX) {
            if !self.may_go(entry, from, to, budget) {
                continue;
            }
            let Some(load) = self.load_if_one_group(entry, group) else { continue };
            let gain = u128::from(load) * u128::from(gap.saturating_sub(load));
            if gain > 0 && best.is_none_or(|(most, _)| gain > most) {
                best = Some((gain, entry));
            }
        }
        if let Some((_, entry)) = best {
            self.move_entry(entry, to);
        }
        best.is_some()
    }

    /// Whether a steering entry has flows on a queue and may move to another one.
    fn may_go(&self, entry: EntryId, from: RxQueueId, to: RxQueueId, budget: &Budget) -> bool {
        let entry = self.entry(entry);
        entry.queue() == Some(from)
            && entry.flows() > 0
            && self.moves.allow_more(entry.flows(), budget)
            && entry.rule().is_none_or(|rule| self.capacity.can_name(rule.table, to))
    }

    /// Returns the load of a steering entry, if all of its flows are in the group and none has a preferred queue.
    fn load_if_one_group(&self, entry: EntryId, group: usize) -> Option<u64> {
        let load = |slot: Slot| {
            let flow = self.flow(slot);
            (flow.group == group && flow.preferred_queue.is_none()).then_some(flow.item.load)
        };
        self.entries.members(entry).map(load).sum()
    }
}
