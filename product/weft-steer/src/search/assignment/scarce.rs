//! Distribution of rules among the groups when flows need more than are left.

use super::{Assignment, RuleNeed, Slot};
use crate::search::parts::moves::Budget;

/// The maximum number of rules that are distributed optimally; beyond it, the most urgent flows get them.
const SHARED_OUT_MAX: usize = 512;

/// The minimum sum of costs for a number of rules, and the number of rules of each group.
type Share = Option<(f64, Vec<usize>)>;

impl Assignment {
    /// Distributes the remaining rules among the groups if flows need more. Every flow without a rule is one violation, so only
    /// values distinguish the distributions. The best one minimises the sum of the groups' costs for their numbers of rules (a
    /// knapsack problem).
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

    /// Returns a group's variance after none, one, two and so on of these flows were moved to its least loaded queues.
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

/// Adds a group to the best distributions of none, one, two and so on of the rules. `costs` are the group's by its number of
/// rules.
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
