//! Rules shared out among the groups, when there are fewer than flows need.

use super::{Assignment, RuleNeed, Slot};
use crate::search::parts::moves::Budget;

/// Rules that are shared out by looking at all ways; more go to the most urgent flows.
const SHARED_OUT_MAX: usize = 512;

/// The least sum of costs for a number of rules, and how many of them each group has.
type Share = Option<(f64, Vec<usize>)>;

impl Assignment {
    /// When fewer rules are left than flows need, shares them out among the groups. Every flow without one is one violation, so that only
    /// values tell the ways apart: the best sum of what each group's cost is with so many rules (a knapsack).
    pub(super) fn fix_scarce(&mut self) {
        let room = self.capacity.room() as usize;
        let groups = self.loads.group_count();
        if groups < 2 || room == 0 || self.candidates.without_rule_count() <= room || room > SHARED_OUT_MAX {
            return;
        }
        let mut waiting: Vec<Vec<Slot>> = vec![Vec::new(); groups];
        for slot in self.candidates.misplaced(RuleNeed::NewRule).rev() {
            waiting[self.flow(slot).group].push(slot);
        }
        let mut best: Vec<Share> = vec![None; room + 1];
        best[0] = Some((0.0, Vec::new()));
        for (group, slots) in waiting.iter().enumerate() {
            best = with_group(&best, &self.costs(group, &slots[..slots.len().min(room)]));
        }
        let Some((_, shares)) = best.into_iter().next_back().flatten() else { return };
        for (slots, rules) in waiting.iter().zip(shares) {
            for slot in slots.iter().take(rules) {
                self.pin_well(*slot, &Budget::ALL);
            }
        }
    }

    /// A group's variance when none, one, two and so on of these flows come to its least loaded queues.
    fn costs(&self, group: usize, slots: &[Slot]) -> Vec<f64> {
        let mut loads = self.loads.group(group).clone();
        let count = loads.queues().len() as f64;
        let (mut sum, mut squares) = loads.sums();
        let mut costs = vec![squares / count - (sum / count) * (sum / count)];
        for slot in slots {
            let (queue, least) = loads.least();
            let load = self.flow(*slot).item.load;
            loads.add(queue, load);
            sum += load as f64;
            squares += load as f64 * (load as f64 + 2.0 * least as f64);
            costs.push(squares / count - (sum / count) * (sum / count));
        }
        costs
    }
}

/// The best ways to use none, one, two and so on of the rules, with one group more. `costs` are that group's by its number of rules.
fn with_group(best: &[Share], costs: &[f64]) -> Vec<Share> {
    let mut next: Vec<Share> = vec![None; best.len()];
    for (used, before) in best.iter().enumerate() {
        let Some((sum, shares)) = before else { continue };
        for (rules, cost) in costs.iter().enumerate().take(best.len() - used) {
            let sum = sum + cost;
            if next[used + rules].as_ref().is_none_or(|(least, _)| sum < *least) {
                next[used + rules] = Some((sum, [&shares[..], &[rules]].concat()));
            }
        }
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_go_where_they_help_most() {
        let none = [Some((0.0, Vec::new())), None, None];
        let first = with_group(&none, &[10.0, 4.0, 3.0]);
        let both = with_group(&first, &[5.0, 1.0, 0.0]);
        assert_eq!(both[1], Some((9.0, vec![1, 0])));
        assert_eq!(both[2], Some((5.0, vec![1, 1])));
        // A group that needs no rule leaves all of them to the other one.
        assert_eq!(with_group(&first, &[0.0])[2], Some((3.0, vec![2, 0])));
    }
}
